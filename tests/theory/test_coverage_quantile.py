"""Coverage of quantiles, exactly: two-point laws, every number of corrupt rows, their contents chosen with full sight.

For a quantile θ only the clean rows on each side of it matter, so laws on {0, 1} reach every case; what stands in a
corrupt row matters by its side of θ only.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from chance import assert_covers
from scipy import stats
from simulate import generator, runs

import outvote as ov

N, M, DELTA = 40, 3, 0.1
GRID = np.unique(np.r_[np.linspace(0.02, 0.98, 49), 0.3, 0.3 - 1e-9, 0.3 + 1e-9, 0.5, 0.5 - 1e-9, 0.5 + 1e-9])


@cache
def interval(n_zeros, n_ones, n_below, n_above, q, rule, alternative, n_found=0):
    x = np.repeat([0.0, 1.0, -9.0, 9.0, np.nan], [n_zeros, n_ones, n_below, n_above, n_found])
    how = {"nan_policy": "corrupt", "alternative": alternative}
    return ov.quantile(x, q, ov.Contamination(M, rule), 1 - DELTA, **how).interval


def cases(n_zeros, count, adversary):
    """The rows that someone who sees everything can cause with so many, by where he puts them."""
    for above in range(count + 1):
        if adversary == "oblivious":  # the corrupt rows are others than the clean ones, which are N - count
            yield n_zeros, N - count - n_zeros, count - above, above
        else:  # any of the N clean rows may go
            for taken in range(max(0, count - (N - n_zeros)), min(count, n_zeros) + 1):
                yield n_zeros - taken, N - n_zeros - (count - taken), count - above, above


def worst_miss(adversary, rule, q, alternative, count, n_found=0):
    n_clean = N - count - n_found if adversary == "oblivious" else N
    found = [
        [
            interval(zeros, n_clean - k if adversary == "oblivious" else ones, *rest, q, rule, alternative, n_found)
            for zeros, ones, *rest in cases(k, count, adversary)
        ]
        for k in range(n_clean + 1)
    ]
    worst = 0.0
    for p in GRID:  # all q-quantiles of a law with P(0) = p and P(1) = 1 - p, by their ends
        low, high = (0.0, 0.0) if p > q else (1.0, 1.0) if p < q else (0.0, 1.0)
        missed = [any(one.low > low or one.high < high for one in ends) for ends in found]
        worst = max(worst, float(stats.binom.pmf(np.arange(n_clean + 1), n_clean, p) @ missed))
    return worst


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize(
    ("q", "alternative"), [(0.3, "two-sided"), (0.3, "less"), (0.3, "greater"), (0.5, "two-sided")]
)
def test_quantiles_are_covered_whatever_stands_in_the_corrupt_rows(adversary, alternative, q):
    for count in (0, 1, M):
        assert worst_miss(adversary, adversary, q, alternative, count) <= DELTA * (1 + 1e-9)


def test_the_oblivious_bound_is_nearly_reached_and_missed_if_someone_saw_the_rows():
    """One rank more would miss too often: the interval is not just safe."""
    assert worst_miss("adaptive", "oblivious", 0.5, "greater", M) > 1.5 * DELTA
    assert worst_miss("oblivious", "oblivious", 0.5, "greater", M) > 0.4 * DELTA


def test_rows_found_to_be_corrupt_cost_no_more():
    """Some of the M corrupt rows are NaN, which whoever sees everything may choose, the others at the worst place."""
    for n_found in (1, M):
        assert worst_miss("oblivious", "oblivious", 0.5, "two-sided", M - n_found, n_found) <= DELTA * (1 + 1e-9)


def test_bands_cover_all_quantiles_at_once():
    q, rng, missed = np.linspace(0.05, 0.95, 91), generator("bands"), []
    for _ in range(runs(60)):
        x = np.r_[rng.random(190), np.full(10, rng.choice([-9.0, 9.0]))]
        found = ov.quantile(x, q, 10, 1 - DELTA, simultaneous=True).interval
        missed.append((found.low > q).any() or (found.high < q).any())
    assert_covers(missed, DELTA)
