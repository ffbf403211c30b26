"""
A ratio that capping turns around
=================================

Revenue per session of a new layout, in an experiment with two arms. Most users spend a little less with it, but now
two in a hundred buy for a dozen times as much, so that on the whole it earns 10 % more. Twenty bots of the old layout
ordered for millions. People cap such a metric at its 99th percentile: that removes the bots, and with them what the
layout was made for.
"""

import matplotlib.pyplot as plt
import numpy as np

import outvote as ov

rng = np.random.default_rng(0)


def users(n, level, large):
    """Sessions and revenue of users, some of whom buy for twelve times as much."""
    sessions = rng.poisson(3.0, size=n) + 1.0
    spent = level * rng.gamma(4.0, 0.25, size=n)
    spent[rng.random(n) < large] *= 12.0
    return np.column_stack([sessions, sessions * spent])


old, new = users(40_000, 1.0, 0.0), users(40_000, 0.92, 0.018)
truth = 0.92 * (1 + 0.018 * 11) - 1.0
old[rng.choice(40_000, size=20, replace=False), 1] = rng.uniform(1_000, 4_000, size=20)  # the bots


def textbook(a, b):
    """The difference of two ratios, with the interval of the delta method."""
    ratios = [x[:, 1].sum() / x[:, 0].sum() for x in (a, b)]
    parts = [np.var(x[:, 1] - r * x[:, 0]) / len(x) / x[:, 0].mean() ** 2 for x, r in zip((a, b), ratios, strict=True)]
    gap, half = ratios[1] - ratios[0], 1.96 * np.sqrt(sum(parts))
    return gap, gap - half, gap + half


most = np.quantile(np.concatenate([old[:, 1], new[:, 1]]), 0.99)
capped = [np.column_stack([x[:, 0], np.minimum(x[:, 1], most)]) for x in (old, new)]
print(f"truth   {truth:+.3f}")
print("plain   {:+.3f}, between {:+.3f} and {:+.3f}".format(*textbook(old, new)))
print("capped  {:+.3f}, between {:+.3f} and {:+.3f}".format(*textbook(*capped)))

# %%
# Both are sure of the wrong sign: the plain ratio because of twenty bots, the capped one because it speaks of another
# quantity. Evidence that survives the removal of its strongest witnesses speaks of the ratio itself: a value is ruled
# out only if it is without as many users as may be bots, whoever they are.

found = ov.difference(old, new, contamination=20, ratio=True)
print(found)

# %%
# How many corrupt users does this survive?

print(ov.tolerance(old, new, contamination=20, ratio=True))

# %%
# The three answers, and the truth:

answers = {"plain": textbook(old, new), "capped": textbook(*capped), "outvote": (found.estimate, *found.interval)}
figure, axes = plt.subplots(figsize=(6, 2.2), layout="constrained")
for place, (estimate, low, high) in enumerate(answers.values()):
    axes.errorbar(estimate, place, xerr=[[estimate - low], [high - estimate]], fmt="o", capsize=4)
axes.axvline(0.0, color="black", linewidth=0.8)
axes.axvline(truth, color="black", linestyle="--", linewidth=0.8, label="truth")
axes.set_yticks(range(3), list(answers))
axes.invert_yaxis()
axes.set_xlabel("revenue per session, new minus old")
axes.legend(loc="lower right")
