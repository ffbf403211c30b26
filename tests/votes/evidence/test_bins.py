"""Bins of rows against the rows themselves."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outvote import FiniteVariance
from outvote.votes import Terms
from outvote.votes.evidence import SortedRows, declared_interval
from outvote.votes.evidence.bins import Bins
from outvote.votes.evidence.factors import KurtosisFactor, SubGaussianFactor, VarianceFactor

FACTORS = [
    VarianceFactor(0.3, 1.5), VarianceFactor(0.9, 0.5, sd=0.7), VarianceFactor(0.02, 60.0),
    KurtosisFactor(0.4, 1.2, fourth_moment=3.0), SubGaussianFactor(0.3, 1.1),
]  # fmt: skip
rows = st.lists(st.floats(-30, 30), min_size=9, max_size=40).map(lambda x: np.sort(np.array(x)))


@pytest.mark.parametrize("factor", FACTORS)
@settings(max_examples=80, deadline=None)
@given(x=rows, size=st.integers(1, 5), first=st.integers(0, 3), low=st.floats(-40, 40), width=st.floats(0, 20))
def test_bins_bound_the_sum_of_their_rows_from_below(factor, x, size, first, low, width):
    bins = Bins.sized(x, size, first)
    inside = x[bins.first : bins.last]
    high = low + width
    for bottom in (low, -math.inf):
        y = np.minimum(np.maximum(inside - high, -factor.depth), inside - bottom)
        exact = factor.logs(y).sum()
        found = bins.log_sum(factor, bottom, high)
        assert found <= exact + 1e-9
        if size == 1:
            assert found == pytest.approx(exact, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(x=rows, size=st.integers(1, 5), first=st.integers(0, 3), k=st.integers(0, 4))
def test_parts_mirrors_and_multiples_are_those_of_the_rows(x, size, first, k):
    bins = Bins.sized(x, size, first)
    part = bins.within(k, len(x) - k)
    assert part.first >= k
    assert part.last <= len(x) - k or not len(part.mean)
    assert part.mean == pytest.approx(x[part.first : part.last].reshape(-1, size).mean(axis=1))
    turned = bins.mirrored(len(x))
    assert turned.low == pytest.approx((-x[::-1])[turned.first : turned.last].reshape(-1, size).min(axis=1))
    tripled = bins.scaled(3.0)
    assert tripled.squares == pytest.approx(9 * bins.squares)
    assert tripled.high == pytest.approx(3 * bins.high)


@pytest.mark.parametrize("law", ["normal", "pareto", "lattice", "gross", "far"])
def test_intervals_of_many_rows_are_those_without_bins(law, monkeypatch):
    rng, n, m = np.random.default_rng(0), 60_000, 300
    x = {
        "normal": lambda: rng.normal(size=n),
        "pareto": lambda: rng.pareto(2.5, size=n) / 1.5,
        "lattice": lambda: rng.poisson(0.05, size=n) / math.sqrt(0.05),
        "far": lambda: np.r_[rng.normal(size=n - 3000), 10 ** rng.uniform(2, 6, size=3000)],
        "gross": lambda: np.r_[rng.normal(size=n - m), rng.choice([-1e9, 1e9, 6.0], size=m)],
    }[law]()
    x.sort()
    terms, assume = Terms(math.log(0.05)), FiniteVariance(1.0)
    found = declared_interval(SortedRows(x, m), assume, terms)
    monkeypatch.setattr(Bins, "of", lambda values: None)
    exact = declared_interval(SortedRows(x, m), assume, terms)
    if exact.empty:
        assert found.empty
        return
    width = exact.high - exact.low
    assert found.low <= exact.low + 1e-7 * width
    assert found.high >= exact.high - 1e-7 * width
    assert found.high - found.low - width < (5e-3 if law == "lattice" else 1e-4) * width


@pytest.mark.parametrize("m", [0, 20, 24_000, 29_990, 29_999])
def test_every_row_is_counted_once(m):
    x = np.sort(np.random.default_rng(0).normal(size=60_000))
    factor = VarianceFactor(0.01, 100.0)
    y = np.sort(factor.logs(x + 2.0) - factor.norm)
    exact = y[: len(x) - m].sum() + np.minimum(y[len(x) - m :], 0.0).sum()
    assert SortedRows(x, m).log_product(factor, -2.0, -2.0) == pytest.approx(exact, rel=1e-6)
