"""Coverage of quantiles, exactly: two-point laws, every number of corrupt rows, their contents chosen with full sight.

For a quantile θ only the clean rows on each side of it matter, so laws on {0, 1} reach every case; what stands in a
corrupt row matters by its side of θ only.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import outvote as ov

N, M, DELTA = 40, 3, 0.1
GRID = np.unique(np.r_[np.linspace(0.02, 0.98, 49), 0.3, 0.3 - 1e-9, 0.3 + 1e-9, 0.5, 0.5 - 1e-9, 0.5 + 1e-9])


def truths(p, q):
    """All q-quantiles of a law with P(0) = p and P(1) = 1 - p, by their ends."""
    return (0.0, 0.0) if p > q else (1.0, 1.0) if p < q else (0.0, 1.0)


def interval(n_zeros, n_ones, n_below, n_above, q, rule, alternative):
    x = np.r_[np.zeros(n_zeros), np.ones(n_ones), np.full(n_below, -9.0), np.full(n_above, 9.0)]
    found = ov.quantile(x, q, ov.Contamination(M, rule), 1 - DELTA, alternative=alternative)
    return found.interval


def intervals(n_zeros, count, adversary, rule, q, alternative):
    """The intervals that someone who sees everything can cause with so many rows, by where he puts them."""
    cases = []
    for above in range(count + 1):
        if adversary == "oblivious":  # the corrupt rows are others than the clean ones, which are N - count
            cases.append((n_zeros, N - count - n_zeros, count - above, above))
        else:  # any of the N clean rows may go
            for taken in range(max(0, count - (N - n_zeros)), min(count, n_zeros) + 1):
                cases.append((n_zeros - taken, N - n_zeros - (count - taken), count - above, above))
    return [interval(*case, q, rule, alternative) for case in cases]


def worst_miss(adversary, rule, q, alternative, count):
    n_clean = N - count if adversary == "oblivious" else N
    worst = 0.0
    found = [intervals(k, count, adversary, rule, q, alternative) for k in range(n_clean + 1)]
    for p in GRID:
        low, high = truths(p, q)
        missed = [any(one.low > low or one.high < high for one in ends) for ends in found]
        worst = max(worst, float(stats.binom.pmf(np.arange(n_clean + 1), n_clean, p) @ missed))
    return worst


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize("q", [0.3, 0.5])
def test_quantiles_are_covered_whatever_stands_in_the_corrupt_rows(adversary, alternative, q):
    for count in range(M + 1):
        assert worst_miss(adversary, adversary, q, alternative, count) <= DELTA * (1 + 1e-9)


def test_the_oblivious_rule_misses_if_someone_saw_the_rows():
    assert worst_miss("adaptive", "oblivious", 0.5, "greater", M) > 1.5 * DELTA


def test_the_bound_is_nearly_reached():
    """One rank more would miss too often: the interval is not just safe."""
    assert worst_miss("oblivious", "oblivious", 0.5, "greater", M) > 0.4 * DELTA


def test_rows_found_to_be_corrupt_cost_no_more():
    """Some of the M corrupt rows are NaN, which whoever sees everything may choose, the others at the worst place."""
    for n_found in range(M + 1):
        worst = 0.0
        found = []
        for k in range(N - M + 1):
            ends = []
            for above in range(M - n_found + 1):
                rows = (np.zeros(k), np.ones(N - M - k), np.full(above, 9.0), np.full(M - n_found - above, -9.0))
                x = np.r_[(*rows, np.full(n_found, np.nan))]
                ends.append(ov.quantile(x, 0.5, M, 1 - DELTA, "corrupt").interval)
            found.append(ends)
        for p in GRID:
            low, high = truths(p, 0.5)
            missed = [any(one.low > low or one.high < high for one in ends) for ends in found]
            worst = max(worst, float(stats.binom.pmf(np.arange(N - M + 1), N - M, p) @ missed))
        assert worst <= DELTA * (1 + 1e-9)


def test_bands_cover_all_quantiles_at_once():
    q, rng, misses, runs = np.linspace(0.05, 0.95, 91), np.random.default_rng(3), 0, 300
    for _ in range(runs):
        x = np.r_[rng.random(190), np.full(10, rng.choice([-9.0, 9.0]))]
        found = ov.quantile(x, q, 10, 1 - DELTA, simultaneous=True).interval
        misses += bool((found.low > q).any() or (found.high < q).any())
    assert stats.binom.sf(misses - 1, runs, DELTA) > 1e-4
