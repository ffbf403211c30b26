"""Wrong certificates are caught by the simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from chance import assert_covers, assert_fails
from scipy import stats
from simulate import generator, runs, two_point, worst_errors

from outvote.assumptions.assumption import FiniteVariance
from outvote.certificate import radius
from outvote.votes import p_star, threshold


def test_plug_in_of_a_contaminated_sd_is_caught():
    """A rare large value carries the sd; where none shows up, outliers that hide keep the sd tiny."""
    k, n_bad, delta = 41, 5, 0.1
    t = radius(n_blocks=k, n_corrupt=n_bad, block_size=1, delta=delta, assume=FiniteVariance(1.0))
    clean = two_point(100.0)(generator("plug-in"), (runs(4000), k - n_bad))
    values = np.hstack([clean, np.repeat(clean.min(axis=1, keepdims=True), n_bad, axis=1)])
    errors = np.abs(np.median(values, axis=1))
    assert_covers(errors > t, delta)
    assert_fails(errors > t * values.std(axis=1, ddof=1), delta)


def test_paper_formula_out_of_its_range_is_caught():
    """n = 10000, ε = 5 %, δ = 0.1: ⌈β·log(1/δ)⌉ is 11 blocks against 500 outliers."""
    n, n_bad, delta = 10_000, 500, 0.1
    epsilon = n_bad / n
    eta = (3 - 2 * epsilon) / 4  # harmonic mapping
    k = math.ceil(2 / (2 * eta - 1) * math.log(1 / delta))
    assert k == 11
    formula = 4 * math.sqrt(math.e) * eta / (2 * eta - 1) ** 1.5 * math.sqrt((1 + math.log(1 / delta)) / n)
    rng = generator("paper")
    rows = rng.standard_normal((runs(20), n))
    rows[:, :n_bad] = 1e6
    blocks = rng.permuted(rows, axis=1)[:, : k * (n // k)].reshape(len(rows), k, -1)
    errors = np.abs(np.median(blocks.mean(axis=2), axis=1))
    assert_fails(errors > formula, delta)
    honest = radius(n_blocks=k, n_corrupt=n_bad, block_size=n // k, delta=delta, assume=FiniteVariance(1.0))
    assert honest == np.inf


def test_harmonic_mean_of_unequal_blocks_is_caught():
    """31 blocks of one row and 10 of 100, ten outliers, δ = 0.05, one side: fails with probability .17."""
    sizes, n_bad, delta = np.array([1] * 31 + [100] * 10), 10, 0.05
    n, m = (int(a) for a in threshold(41, n_bad))
    harmonic = 1 / np.mean(1 / sizes)
    p = p_star(np.log(delta), n, m)
    wrong = float(np.sqrt((1 / p - 1) / harmonic))
    assert stats.binom.sf(m - 1, n, 1 / (1 + wrong**2)) == pytest.approx(0.17, abs=0.01)
    values = np.hstack([two_point(wrong**2)(generator("harmonic"), (runs(4000), 31)), np.zeros((runs(4000), 10))])
    one_sided = {"adversary": "oblivious", "alternative": "greater"}
    errors = worst_errors(values, n_bad, **one_sided)  # the last ten, the large ones, are corrupt
    assert_fails(errors > wrong, delta)
    right = radius(
        n_blocks=41,
        n_corrupt=n_bad,
        block_size=sizes,
        delta=delta,
        assume=FiniteVariance(1.0),
        alternative="greater",
    )
    values = np.hstack([two_point(right**2)(generator("right"), (runs(4000), 31)), np.zeros((runs(4000), 10))])
    assert_covers(worst_errors(values, n_bad, **one_sided) > right, delta)


def test_oblivious_radius_against_an_adaptive_adversary_is_caught():
    """Outliers that replace chosen rows break the radius meant for fixed positions."""
    k, n_bad, delta = 41, 10, 0.1
    t = radius(n_blocks=k, n_corrupt=n_bad, block_size=1, delta=delta, assume=FiniteVariance(1.0))
    values = two_point(t**2)(generator("adaptive"), (runs(4000), k))
    assert_covers(worst_errors(values, n_bad, "oblivious") > t, delta)
    assert_fails(worst_errors(values, n_bad, "adaptive") > t, delta)
