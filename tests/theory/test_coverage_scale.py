"""Coverage without a known scale: the sigma-free radius and the order-statistic interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from chance import assert_covers, assert_fails
from scipy import stats
from simulate import bernoulli, generator, runs, worst_errors

from outvote.assumptions.assumption import FiniteKurtosis
from outvote.certificate import order_statistic_interval, sigma_bounds, sigma_free_radius, sigma_upper
from outvote.contamination import Contamination
from outvote.votes import best_n_blocks, variance_shortfall

ADVERSARIES = ("oblivious", "adaptive")
LAWS = {  # sampler of variance 1, and its kurtosis
    "gaussian": (lambda rng, shape: rng.standard_normal(shape), 3.0),
    "laplace": (lambda rng, shape: rng.laplace(0, np.sqrt(0.5), shape), 6.0),
    "bernoulli": (bernoulli(0.1), 1 / 0.09 - 3),
    "student-5": (lambda rng, shape: rng.standard_t(5, shape) / np.sqrt(5 / 3), 9.0),
}


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", LAWS)
def test_sigma_free_radius_covers(law, adversary):
    """The same outliers push the mean away and the block variances to zero."""
    n, n_bad, delta, (sampler, kurtosis) = 3000, 5, 0.1, LAWS[law]
    (k,) = best_n_blocks([n], [n_bad], log_delta=np.log(delta), assume=FiniteKurtosis(kurtosis), adversary=adversary)
    rows = sampler(generator(law, adversary, delta), (runs(100), k, n // k))
    how = {"kurtosis": kurtosis, "n_blocks": k, "n_corrupt": n_bad, "block_size": n // k, "adversary": adversary}
    variances = rows.var(axis=2, ddof=1)
    clean = variances[:, : k - n_bad] if adversary == "oblivious" else np.sort(variances, axis=1)[:, : k - n_bad]
    low = np.median(np.hstack([np.zeros((len(rows), n_bad)), clean]), axis=1)
    assert_covers(sigma_upper(low, delta=delta, **how) < 1.0, delta)
    errors = worst_errors(rows.mean(axis=2), n_bad, adversary)
    assert_covers(errors > sigma_free_radius(low, delta=delta, **how), delta)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", LAWS)
def test_bounds_of_the_sd_cover(law, adversary):
    """Corrupt rows lie far out, or hide at the mean; an adaptive adversary takes the farthest rows for these."""
    n, n_bad, delta, (sampler, kurtosis) = 1000, 10, 0.05, LAWS[law]
    allowed, missed = Contamination(n_bad, adversary), {"far": [], "hidden": []}
    for run, x in enumerate(sampler(generator("bounds", law, adversary), (runs(12), n))):
        for attack, found in missed.items():
            order = np.argsort(np.abs(x)) if adversary == "adaptive" else np.arange(n)
            rows = x[order if attack == "far" else order[::-1]]
            rows[:n_bad] = 1e6 if attack == "far" else 0.0
            low, high = sigma_bounds(rows, allowed, confidence=1 - delta, kurtosis=kurtosis if run % 2 else None)
            assert run % 2 or high == math.inf
            found.append(not low <= 1 <= high)
    for found in missed.values():
        assert_covers(found, delta)


@pytest.mark.parametrize("law", [law for law in LAWS if law != "student-5"])  # its 8th moment is infinite
def test_variance_of_block_variances_equals_its_formula(law):
    """The formula for v that the bound on σ rests on."""
    sampler, kurtosis = LAWS[law]
    for block_size in (2, 5, 30):
        values = sampler(generator(law, block_size), (40_000, block_size)).var(axis=1, ddof=1)
        v = (kurtosis - 1) / block_size + 2 / (block_size * (block_size - 1))
        spread = np.sqrt(np.var((values - 1) ** 2) / len(values))
        assert np.mean((values - 1) ** 2) == pytest.approx(v, abs=5 * spread)


@pytest.mark.parametrize("delta", [0.1, 1e-6])
def test_shortfall_is_attained_by_two_point_block_variances(delta):
    """Block variances that saturate Cantelli below σ² fail exactly δ of the time."""
    kurtosis, size = 3.0, 50
    c = float(variance_shortfall(41, 5, size, log_delta=np.log(delta), kurtosis=kurtosis))
    v = (kurtosis - 1) / size + 2 / (size * (size - 1))
    assert stats.binom.sf(21 - 5 - 1, 36, v / (v + c**2)) == pytest.approx(delta, rel=1e-6)


def order_misses(values, n_bad, adversary, rank):
    """Whether outliers that have seen everything can push 0 out of [T(rank), T(K+1-rank)]."""
    n_blocks = values.shape[1]
    clean = values[:, : n_blocks - n_bad] if adversary == "oblivious" else values
    given_back = 0 if adversary == "oblivious" else n_bad
    above = (clean <= 0).sum(axis=1) - given_back < rank
    below = (clean >= 0).sum(axis=1) - given_back < rank
    return above | below


@pytest.mark.parametrize("delta", [0.1, 0.01])
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("n_blocks", "n_bad"), [(21, 0), (41, 3), (60, 5), (101, 10)])
def test_order_statistic_interval_covers(n_blocks, n_bad, adversary, delta):
    """Symmetric blocks, the outliers on the side that the clean values have left open."""
    values = generator(n_blocks, n_bad, adversary, delta).standard_t(2.5, (runs(4000), n_blocks))
    rank = order_statistic_interval(values[0], n_bad, delta=delta, adversary=adversary).rank
    assert rank >= 1
    assert_covers(order_misses(values, n_bad, adversary, rank), delta)


def test_ranks_for_outliers_on_fixed_sides_are_caught():
    """A rank that trusts a outliers to be on one side, fixed beforehand, misses too often."""
    n_blocks, n_bad, delta = 41, 5, 0.1
    g = stats.binom(n_blocks - n_bad, 0.5).cdf
    a = np.arange(n_bad + 1)
    fixed = max(r for r in range(1, 21) if np.max(g(r - 1 - a) + g(r - 1 - n_bad + a)) <= delta)
    values = generator("fixed").standard_t(2.5, (runs(4000), n_blocks))
    assert_fails(order_misses(values, n_bad, "oblivious", fixed), delta)
    assert order_statistic_interval(values[0], n_bad, delta=delta).rank < fixed


def test_order_statistics_cover_the_median_of_the_block_law():
    """Exponential blocks: the interval covers log 2, and misses the mean 1 almost always."""
    values = generator("exponential").exponential(1.0, (runs(200), 501))
    intervals = [order_statistic_interval(v, 0, delta=0.1) for v in values]
    low, high = np.array([(i.low, i.high) for i in intervals]).T
    assert_covers((low > np.log(2)) | (high < np.log(2)), 0.1)
    assert np.mean(high < 1) > 0.9
    assert "median of the block distribution" in str(intervals[0])
