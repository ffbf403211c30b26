"""The median over a grid of blocks: thresholds and certified radii."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from outvote.assumptions.assumption import FiniteVariance
from outvote.votes import grid_p_star, grid_radius, grid_threshold

UNIT = FiniteVariance(1.0)


def grid_failure(p: float, n: int, f: float) -> float:
    """min over c = i/N < f of E(Bin(N, p)/N - c)₊/(f - c), from the definition."""
    j = np.arange(n + 1)
    law = stats.binom.pmf(j, n, p)
    cuts = [i for i in range(n) if i < f * n]
    return min(float(law @ np.maximum(j - i, 0)) / (f * n - i) for i in cuts)


@settings(max_examples=80)
@given(n=st.integers(1, 150), f=st.floats(0.02, 0.5), log_delta=st.floats(-60, -0.05))
def test_grid_p_star_against_the_definition(n, f, log_delta):
    p = float(grid_p_star(log_delta, n, f))
    assert 0 < p <= f
    assert grid_failure(p, n, f) <= math.exp(log_delta) * (1 + 1e-6)
    if p < f * 0.999:
        assert grid_failure(p * 1.001, n, f) >= math.exp(log_delta)


@pytest.mark.parametrize("n", [1, 10, 1000, 10**6, 10**9])
def test_grid_p_star_of_tiny_delta(n):
    values = [float(grid_p_star(ld, n, 0.3)) for ld in (-100.0, -199.9, -200.1, -690.0)]
    assert all(a >= b > 0 for a, b in itertools.pairwise(values))
    assert values[2] == pytest.approx(values[1], rel=0.3)
    if n == 1:
        assert values == pytest.approx([0.3 * math.exp(ld) for ld in (-100.0, -199.9, -200.1, -690.0)], rel=1e-6)


def test_grid_threshold_has_known_values():
    n, f = grid_threshold((11, 21), (1, 2))
    assert (int(n), float(f)) == (10, pytest.approx((116 - (231 - 190)) / 190))
    n, f = grid_threshold((11, 21), (1, 2), "adaptive")
    assert (int(n), float(f)) == (11, pytest.approx((116 - 41) / 231))
    assert grid_threshold((11, 11), (4, 4))[1] <= 0
    assert grid_threshold((3, 3), (4, 0))[1] == 0
    assert grid_p_star(-3.0, *grid_threshold((11, 11), (4, 4))) == 0


def test_grid_radius_of_a_single_pair_of_blocks():
    """One block each: P(cell off) <= p, f = 1, so p = δ."""
    r = grid_radius((1, 1), (0, 0), (50, 50), log_delta=math.log(0.05), assume=UNIT, degrees=(1, 1))
    assert float(r) == pytest.approx(min(1 / math.sqrt(0.05), math.sqrt(1 / 0.025 - 1)) / math.sqrt(50))


def test_grid_radius_is_monotone():
    kwargs = {"assume": UNIT, "degrees": (1, 1)}

    def r(bad=(2, 2), ld=-3.0, **more):
        return float(grid_radius((21, 31), bad, (10, 10), log_delta=ld, **kwargs, **more))

    assert r() <= r(bad=(3, 2)) <= r(bad=(3, 3)) <= r(bad=(3, 3), adversary="adaptive")
    assert r() <= r(ld=-4.0) <= r(ld=-250.0) < math.inf
    assert r(alternative="greater") <= r()
    assert r(bad=(10, 10)) == math.inf
