"""Radii without a known scale, and order-statistic intervals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from outvote import votes
from outvote.assumptions.assumption import FiniteKurtosis
from outvote.certificate import order_statistic_interval, radius, sigma_free_radius, sigma_upper


def test_sigma_upper():
    common = {"kurtosis": 3.0, "n_blocks": 41, "n_corrupt": 5, "block_size": 100, "delta": 0.05}
    c = float(votes.variance_shortfall(41, 5, 100, log_delta=math.log(0.05), kurtosis=3.0))
    assert float(sigma_upper(4.0, **common)) == pytest.approx(2 / math.sqrt(1 - c))
    assert sigma_upper([1.0, 4.0], **common).shape == (2,)
    assert sigma_upper([1.0, 0.0], **{**common, "block_size": 2}).tolist() == [math.inf, math.inf]
    with pytest.raises(ValueError, match=r"kurtosis=0.5"):
        sigma_upper(1.0, **{**common, "kurtosis": 0.5})


def test_sigma_free_radius():
    common = {"kurtosis": 3.0, "n_blocks": 41, "n_corrupt": 5, "block_size": 100}
    free = sigma_free_radius([1.0, 4.0], **common, delta=0.05)
    assert free[1] == pytest.approx(2 * free[0])
    known = radius(n_blocks=41, n_corrupt=5, block_size=100, delta=0.05, assume=FiniteKurtosis(3.0, sd=1.0))
    assert known < free[0] < 1.5 * known
    assert float(sigma_free_radius(1.0, **common, delta=0.05, alternative="less")) <= free[0]
    assert sigma_free_radius([1.0, 0.0], **{**common, "block_size": 1}, delta=0.05).tolist() == [math.inf] * 2


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("k", [1, 2, 20, 41])
def test_order_statistic_rank_is_the_largest_valid(k, adversary):
    values = np.arange(k, dtype=float)[::-1]
    for delta, n_bad in itertools.product((0.3, 0.05, 1e-6), (0, 1, 9)):
        interval = order_statistic_interval(values, n_bad, delta=delta, adversary=adversary)
        n, handicap = (k - n_bad, 0) if adversary == "oblivious" else (k, n_bad)
        valid = [
            r
            for r in range(1, (k + 1) // 2 + 1)
            if r - 1 + handicap < n and 2 * stats.binom.cdf(r - 1 + handicap, n, 0.5) <= delta
        ]
        assert interval.rank == max(valid, default=0)
        ends = (interval.rank - 1, k - interval.rank) if valid else (-math.inf, math.inf)
        assert (interval.low, interval.high) == ends


def test_order_statistic_interval_names_its_target():
    interval = order_statistic_interval(np.arange(21.0), 2, confidence=0.95)
    assert "median of the block distribution" in interval.covers
    assert str(interval).startswith("[4, 16] covers the median of the block distribution")


def test_invalid_block_values_raise():
    for values in ([], [[1.0, 2.0]], [1.0, math.nan]):
        with pytest.raises(ValueError, match="block_values"):
            order_statistic_interval(values, 0, delta=0.1)
    with pytest.raises(ValueError, match="n_corrupt=-1 must be at least 0"):
        order_statistic_interval([1.0, 2.0], -1, confidence=0.95)
    with pytest.raises(TypeError, match="block_values holds strings, but real numbers are needed"):
        order_statistic_interval(["a"], 0, confidence=0.95)


@pytest.mark.parametrize("function", [sigma_upper, sigma_free_radius])
@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"n_corrupt": -1}, ValueError), ({"n_blocks": 0}, ValueError), ({"block_size": -3}, ValueError),
        ({"n_corrupt": 1.5}, TypeError), ({"kurtosis": 0.5}, ValueError), ({"kurtosis": "3"}, TypeError),
        ({"variance": -1.0}, ValueError), ({"variance": "one"}, TypeError), ({"variance": math.nan}, ValueError),
    ],
)  # fmt: skip
def test_impossible_blocks_and_variances_are_refused(function, change, error):
    given = {"variance": 1.0, "kurtosis": 3.0, "n_blocks": 41, "n_corrupt": 5, "block_size": 100, "delta": 0.05}
    small = {name: np.int8(value) if isinstance(value, int) else value for name, value in given.items()}
    assert function(**small) == function(**given)
    with pytest.raises(error, match=next(iter(change))):
        function(**{**given, **change})
