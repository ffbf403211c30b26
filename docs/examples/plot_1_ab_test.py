"""
An A/B test with bots
=====================

Twelve thousand visitors saw variant A or B of a shop. Some of those who saw B were bots that put absurd orders
into the basket. Is B better?
"""

import numpy as np

import outvote as ov

rng = np.random.default_rng(0)
a = rng.gamma(2.0, 15.0, size=6000)  # revenue of a visitor, 30 on average
b = rng.gamma(2.0, 16.5, size=6000)  # B is better by 3
b[rng.choice(6000, size=25, replace=False)] = rng.uniform(5_000, 20_000, size=25)  # the bots

print(f"plain difference: {b.mean() - a.mean():.1f}")

# %%
# The plain difference is twenty times the truth. Say how many rows may be bots, and what is known from earlier
# tests: the standard deviation of a visitor's revenue is below 25.

known = ov.FiniteVariance(25.0)
print(ov.difference(a, b, contamination=(0, 30), assume=known, vote="auto", rng=0))

# %%
# How many bots would it take to change the answer?

print(ov.tolerance(a, b, assume=known, rng=0))

# %%
# The same as a picture: the interval against the number of bots in each variant. Where it reaches zero, the rows
# no longer tell which variant is better.

ov.sensitivity(a, b, levels=[5, 10, 20, 40, 80, 160], assume=known, vote="auto", rng=0).plot(threshold=0.0)
