"""Whether so many misses can be chance: by exact binomial tails, wrong once in a million times at most."""

from __future__ import annotations

import numpy as np
from scipy import stats

RARE = 1e-6


def tail(missed, delta):
    """Return how many of the runs missed, how many there were, and the probability of so many if each has δ."""
    missed = np.asarray(missed, dtype=bool).ravel()
    count, runs = int(missed.sum()), missed.size
    return count, runs, float(stats.binom.sf(count - 1, runs, delta))


def assert_covers(missed, delta):
    count, runs, chance = tail(missed, delta)
    assert chance > RARE, f"missed {count} of {runs} times, promised {delta}"


def assert_fails(missed, delta):
    """Check that a wrong certificate is caught."""
    count, runs, chance = tail(missed, delta)
    assert chance < RARE, f"missed {count} of {runs} times only"
