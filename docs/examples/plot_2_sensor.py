"""
A sensor with stuck values
==========================

A thermometer reports every minute. When its bus hangs it repeats 85.0, the value it holds after power-up; when
the cable is wet it reports anything. What was the mean temperature?
"""

import numpy as np

import outvote as ov

rng = np.random.default_rng(1)
truth = 18.0
celsius = truth + rng.normal(0.0, 2.0, size=10_000)
celsius[rng.choice(10_000, size=300, replace=False)] = 85.0  # stuck
celsius[rng.choice(10_000, size=50, replace=False)] = rng.uniform(-40.0, 60.0, size=50)  # wet cable

print(f"truth {truth}, plain mean {celsius.mean():.2f}")

# %%
# Nothing is certain about the stuck rows but that there are few. 4 % is more than was ever seen:

print(ov.mean(celsius, contamination=0.04, assume=ov.SubGaussian(2.5), vote="auto", rng=0))

# %%
# No room is warmer than 45 degrees or colder than -10. Rows outside are then corrupt for certain, and are
# counted:

known = ov.Bounded(-10.0, 45.0, variance=6.25)
print(ov.mean(celsius, contamination=0.04, assume=known, vote="auto", rng=0).explain())

# %%
# With the median of blocks, the paper's estimator, one sees the vote: blocks without a stuck value agree, the
# others stand apart.

ov.mean(celsius, contamination=0.04, assume=ov.SubGaussian(2.5), vote="median", rng=0).plot()

# %%
# Readings of one morning resemble each other. The intervals hold for independent rows: where neighbours depend on
# each other, average over stretches long enough to forget, and take these as rows.
