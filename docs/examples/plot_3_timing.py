"""
A timing benchmark
==================

Two versions of a function were timed in turn. Now and then something else ran on the machine, and a run took a
hundred times as long. How much faster is the new version?
"""

import numpy as np

import outvote as ov

rng = np.random.default_rng(2)
n = 1000
old = 1.00 + rng.exponential(0.10, size=n)  # milliseconds
new = 0.90 + rng.exponential(0.10, size=n)
for runs in (old, new):
    runs[rng.choice(n, size=8, replace=False)] *= rng.uniform(20, 200, size=8)

print(f"plain: new / old = {new.mean() / old.mean():.2f}")

# %%
# The minimum is often taken instead. It hides what the user feels: a version that is slow in one run of ten has
# the same minimum. The mean without the interruptions is wanted, and the interruptions are counted: at most 1 %
# of the runs.

print(ov.difference(old, new, contamination=0.01, relative=True, rng=0))

# %%
# Nothing was assumed, so the interval is a plug-in. If runs are known to vary by no more than 0.2 ms, it is
# certified:

known = ov.FiniteVariance(0.2)
print(ov.difference(old, new, contamination=0.01, relative=True, assume=known, vote="auto", rng=0))

# %%
# Both means, plain and robust, with the interval of each.

ax, colors = ov.plotting.new_axes(figsize=(7.0, 2.8)), ov.plotting.COLORS
for place, runs in enumerate((old, new)):
    found = ov.mean(runs, contamination=0.01, assume=known, vote="auto", rng=0)
    robust = ax.errorbar(found.estimate, place, xerr=found.radius, fmt="o", c=colors["robust"], capsize=4)
    (plain,) = ax.plot(runs.mean(), place, "s", color=colors["plain"])
ax.set(yticks=[0, 1], yticklabels=["old", "new"], ylim=(1.9, -0.6), xlabel="milliseconds")
ax.legend([robust, plain], ["robust mean, 95 %", "plain mean"], frameon=False, ncols=2, loc="lower center")
