"""Trimmed products of factors against all ways to drop rows."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outvote import FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.votes.evidence.factors import KurtosisFactor, SubGaussianFactor, VarianceFactor, factors_for
from outvote.votes.evidence.rows import SortedRows

FACTORS = [
    VarianceFactor(0.3, 1.5), VarianceFactor(0.9, 0.5, sd=0.7), KurtosisFactor(0.4, 1.2, fourth_moment=3.0),
    SubGaussianFactor(0.3, 1.1),
]  # fmt: skip
values = st.lists(st.floats(-30, 30), min_size=1, max_size=8).map(lambda x: np.sort(np.array(x)))
means = st.floats(-10, 10)


def factor_of(factor, x, mean):
    """Compute e = (1 + λh)/(1 + λH) from the formulas of the docstrings."""
    y, lam, tau = x - mean, factor.rate, factor.depth
    if isinstance(factor, VarianceFactor):
        h, top = y + y**2 / (2 * tau), factor.sd**2 / (2 * tau)
    elif isinstance(factor, KurtosisFactor):
        h, top = y + y**4 / (4 * tau**3), factor.fourth_moment / (4 * tau**3)
    else:
        a = tau / factor.scale**2
        h, top = y + np.exp(-a * (y + tau)) / a, math.exp(-(tau**2) / (2 * factor.scale**2)) / a
    return (1 + lam * h) / (1 + lam * top)


def least_product(e, m):
    """Take the smallest product over all ways to drop at most m factors."""
    kept = [
        np.prod(np.delete(e, drop))
        for k in range(min(m, len(e)) + 1)
        for drop in itertools.combinations(range(len(e)), k)
    ]
    return min(kept)


@pytest.mark.parametrize("factor", FACTORS)
@settings(max_examples=60, deadline=None)
@given(x=values, m=st.integers(0, 4), mean=means)
def test_log_product_drops_the_factors_that_leave_least(factor, x, m, mean):
    found = SortedRows(x, m).log_evidence([factor], mean, mean)
    assert found == pytest.approx(math.log(least_product(factor_of(factor, x, mean), m)), abs=1e-9)


@pytest.mark.parametrize("factor", FACTORS)
@settings(max_examples=60, deadline=None)
@given(x=values, m=st.integers(0, 3), low=means, width=st.floats(0, 5))
def test_cells_bound_every_mean_in_them(factor, x, m, low, width):
    rows = SortedRows(x, m)
    cell = rows.log_evidence([factor], low, low + width)
    inside = [rows.log_evidence([factor], mean, mean) for mean in np.linspace(low, low + width, 23)]
    assert cell <= min(inside) + 1e-9
    valleys = np.concatenate([np.linspace(low, low + width, 200), x + factor.depth])
    valleys = valleys[(valleys >= low) & (valleys <= low + width)]
    each = np.array([factor_of(factor, x, mean) for mean in valleys]).min(axis=0)
    assert cell == pytest.approx(math.log(least_product(each, m)), abs=1e-9)


@pytest.mark.parametrize("factor", FACTORS)
@settings(max_examples=60, deadline=None)
@given(x=values, m=st.integers(0, 3), mean=means, step=st.floats(0, 5))
def test_an_open_cell_falls_with_the_mean_and_bounds_all_smaller_ones(factor, x, m, mean, step):
    rows = SortedRows(x, m)
    open_cell = rows.log_evidence([factor], -math.inf, mean)
    assert rows.log_evidence([factor], -math.inf, mean + step) <= open_cell + 1e-9
    for smaller in (mean, mean - 1, mean - 30):
        assert open_cell <= rows.log_evidence([factor], smaller, smaller) + 1e-9


@settings(max_examples=60, deadline=None)
@given(x=values, mean=means)
def test_more_drops_leave_less(x, mean):
    for factor in FACTORS:
        products = [SortedRows(x, m).log_evidence([factor], mean, mean) for m in range(6)]
        assert all(b <= a + 1e-12 for a, b in itertools.pairwise(products))


def test_long_products_lose_next_to_nothing():
    rng = np.random.default_rng(0)
    for x in (rng.normal(size=5000), rng.standard_t(1, size=5000), np.r_[rng.normal(size=900), np.full(90, 1e200)]):
        x = np.sort(x)
        for factor in FACTORS[:3]:
            with np.errstate(over="ignore"):
                e = np.sort(np.log(factor_of(factor, x, 0.1)))[: len(x) - 95]
            assert SortedRows(x, 95).log_evidence([factor], 0.1, 0.1) == pytest.approx(e.sum(), rel=1e-4, abs=0.02)


def test_rows_found_corrupt_use_up_the_drops():
    x = np.sort(np.random.default_rng(0).normal(size=50))
    factor = FACTORS[0]
    assert SortedRows(x, 5, 3).log_evidence([factor], 0.0, 0.0) == SortedRows(x, 2).log_evidence([factor], 0.0, 0.0)
    assert SortedRows(x, 5, 3).n_rows == 53


def test_an_adaptive_adversary_is_paid_the_least_factor():
    x = np.sort(np.random.default_rng(0).normal(size=50))
    for factor in FACTORS:
        plain, paid = (SortedRows(x, 4, adaptive=one).log_evidence([factor], 0.0, 0.0) for one in (False, True))
        least = min(factor_of(factor, y, 0.0) for y in np.linspace(-5, 5, 100_001))
        assert paid - plain == pytest.approx(4 * math.log(least), rel=1e-6)


@pytest.mark.parametrize("assume", [FiniteVariance(1.0), FiniteKurtosis(5.0, 1.0), SubGaussian(1.0)])
@pytest.mark.parametrize("n_rows", [2, 5, 20, 100, 10_000, 10**8])
@pytest.mark.parametrize("price", [0.7, 3.7, 50.0, 700.0])
@pytest.mark.parametrize("adaptive", [False, True])
def test_factors_are_positive_and_their_weights_add_up(assume, n_rows, price, adaptive):
    factors = factors_for(assume, n_rows, price, adaptive=adaptive)
    assert sum(one.weight for one in factors) == pytest.approx(1.0)
    for one in factors:
        assert math.isfinite(one.least)
        assert one.norm >= 0
        at = factor_of(one, np.array([-one.depth]), 0.0)[0]
        assert math.log(at) == pytest.approx(one.least - one.norm)
