"""The mean of the tail of a binomial law, and the interval that it gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from outvote.votes import Terms
from outvote.votes.complete import complete_interval, upper_tail_mean


@settings(max_examples=100, deadline=None)
@given(n=st.integers(1, 300), p=st.floats(0.001, 0.999), alpha=st.floats(1e-6, 0.999))
def test_mean_of_the_tail_is_the_least_of_all_bounds(n, p, alpha):
    k = np.arange(n + 1)
    weights = binom.pmf(k, n, p)
    each = [a + (np.maximum(k - a, 0) * weights).sum() / alpha for a in k]
    assert upper_tail_mean(n, p, alpha) == pytest.approx(min(min(each), n), rel=1e-9)


@pytest.mark.parametrize("n", [1, 7, 60])
@pytest.mark.parametrize("delta", [0.05, 0.4])
def test_rows_of_zeros_and_ones_are_covered_exactly(n, delta):
    """With N = n independent terms the statistic is Bin(n, θ)/n: add up the probability of a miss."""
    terms = Terms(math.log(delta))
    ends = [complete_interval(k / n, k / n, n, terms) for k in range(n + 1)]
    for theta in np.linspace(0, 1, 101):
        weights = binom.pmf(np.arange(n + 1), n, theta)
        missed = sum(w for w, (low, high) in zip(weights, ends, strict=True) if not low <= theta <= high)
        assert missed <= delta
    assert any(low > 0 for low, _ in ends) or n == 1


def test_ends_are_one_sided_and_stay_within_bounds():
    for alternative, expected in (("less", (0.0, None)), ("greater", (None, 1.0))):
        low, high = complete_interval(0.4, 0.5, 100, Terms(math.log(0.05), alternative=alternative))
        assert expected[0] is None or low == expected[0]
        assert expected[1] is None or high == expected[1]
    assert complete_interval(0.0, 1.0, 10, Terms(math.log(0.05))) == (0.0, 1.0)
    assert complete_interval(0.4, 0.5, 0, Terms(math.log(0.05))) == (0.0, 1.0)
    low, high = complete_interval(0.4, 0.5, 1000, Terms(-1000.0))
    assert (low, high) == (0.0, 1.0)
    wide, narrow = (complete_interval(0.4, 0.5, 1000, Terms(math.log(d))) for d in (0.01, 0.1))
    assert wide[0] < narrow[0] < 0.4 < 0.5 < narrow[1] < wide[1]
