"""Evidence from rows with known bounds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import outvote as ov
from outvote.votes.evidence import SortedRows
from outvote.votes.evidence.bounded import bounded_end, stakes_for

LAWS = {
    "fair coin": (lambda rng, n: 1.0 * (rng.random(n) < 0.5), 0.020),
    "one in ten": (lambda rng, n: 1.0 * (rng.random(n) < 0.1), 0.014),
    "one in fifty": (lambda rng, n: 1.0 * (rng.random(n) < 0.02), 0.009),
    "bell": (lambda rng, n: rng.beta(10, 30, n), 0.004),
    "small": (lambda rng, n: rng.beta(1, 50, n), 0.0012),
    "uniform": (lambda rng, n: rng.random(n), 0.0138),
}


@pytest.mark.parametrize("law", LAWS)
def test_adapts_to_the_variance(law):
    draw, expected = LAWS[law]
    low, high = ov.mean(draw(np.random.default_rng(1), 10_000), 100, assume=ov.Bounded(0, 1)).interval
    assert (high - low) / 2 < 1.05 * expected


@pytest.mark.parametrize("n", [1, 10, 1000, 10**6])
@pytest.mark.parametrize("price", [0.1, 3.7, 40.0])
def test_weights_add_up_and_stakes_double(n, price):
    weights, stakes = zip(*stakes_for(n, price), strict=True)
    assert sum(weights) == pytest.approx(1)
    assert min(weights) > 0
    assert all(two == 2 * one > 0 for one, two in itertools.pairwise(stakes))


@pytest.mark.parametrize("adaptive", [False, True])
def test_intervals_are_nested_in_the_number_of_corrupt_rows(adaptive):
    x = np.sort(np.random.default_rng(0).beta(2, 5, 400))
    ends = [bounded_end(SortedRows(x, m, adaptive=adaptive), 0.0, 1.0, 3.7) for m in range(0, 100, 7)]
    assert ends == sorted(ends, reverse=True)
