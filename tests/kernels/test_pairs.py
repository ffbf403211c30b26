"""The kernels of pairs of one sample, by numpy: against their definitions, and near the ends of floats."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_definitions import (
    KINDS,
    SIZES,
    TINY,
    brute_force,
    check_definition,
    exact_covariance,
    exact_gini,
    peak_of,
    sample,
    stack_for,
)

from outvote.kernels import kendall as kendall_module
from outvote.kernels.covariance import COVARIANCE, covariance
from outvote.kernels.gini import GINI, gini
from outvote.kernels.kendall import KENDALL, kendall
from outvote.kernels.rescale import have_ordinary_size, rescaled
from outvote.kernels.variance import VARIANCE, variance, variance_from_moments
from outvote.kernels.wilcoxon import WILCOXON, wilcoxon

pytestmark = pytest.mark.usefixtures("numpy_alone")
ALL = pytest.mark.parametrize("kernel", [VARIANCE, COVARIANCE, GINI, KENDALL, WILCOXON], ids=lambda kernel: kernel.name)
BIG, SMALL = np.array([[-1.7e308, 1.7e308, 0.0, 1.6e308]]), np.array([[-1.0, 1.0, 0.0, 0.9]])


@ALL
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_equal_their_definitions(kernel, kind):
    for size in SIZES if kernel is KENDALL else (2, 3, 31, 128, 257):
        check_definition(kernel, size, kind)


@pytest.mark.parametrize("offset", [1e8, -1e8, 1e12])
def test_a_large_offset_costs_no_digits(offset):
    for size in (2, 40):
        z = offset + sample("normal", (4, size))
        np.testing.assert_allclose(variance(z), [exact_covariance(block, block) for block in z], rtol=1e-12)
        np.testing.assert_allclose(gini(z), [exact_gini(block) for block in z], rtol=1e-12)
        z = offset + sample("normal", (4, size, 2))
        expected = [exact_covariance(block[:, 0], block[:, 1]) for block in z]
        np.testing.assert_allclose(covariance(z), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("first", [1e8, -1e15, 1e100])
def test_a_large_first_row_costs_the_variance_no_digits(first):
    z = sample("normal", (3, 200))
    z[:, 0] = first
    np.testing.assert_allclose(variance(z), [exact_covariance(block, block) for block in z], rtol=1e-13)


def test_the_moments_of_blocks_give_their_variances():
    z = sample("normal", (7, 30))
    m2 = ((z - z.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    np.testing.assert_allclose(variance_from_moments(np.full(7, 30), m2), variance(z), rtol=1e-13)
    found = variance_from_moments(np.array([0, 1, 2]), np.array([0.0, 0.0, 6.0]))
    np.testing.assert_array_equal(found, [np.nan, np.nan, 6.0])


# --- the ends of floats -----------------------------------------------------------------------------------------


def test_columns_of_a_covariance_may_have_opposite_extreme_scales():
    z = sample("normal", (3, 12, 2))
    expected = COVARIANCE.aligned(z)
    np.testing.assert_allclose(COVARIANCE.aligned(z * [2.0**900, 2.0**-900]), expected, rtol=1e-12)
    np.testing.assert_allclose(COVARIANCE.aligned(z * [2.0**900, 1.0]), np.ldexp(expected, 900), rtol=1e-12)


def test_subnormal_rows_are_told_apart():
    steps = np.random.default_rng(0).integers(0, 1000, size=(3, 20)).astype(np.float64)
    expected = np.ldexp(GINI.aligned(steps), TINY)
    np.testing.assert_allclose(GINI.aligned(np.ldexp(steps, TINY)), expected, atol=2.0**TINY, rtol=0)
    steps -= steps[:, :1]
    np.testing.assert_array_equal(wilcoxon(np.ldexp(steps, TINY)), wilcoxon(steps))


def test_gaps_and_sums_may_be_larger_than_any_float():
    # The largest gap, 3.4e308, is not a float. The mean over the ten pairs is.
    z = np.array([[1.7e308, -1.7e308, 1.7e308, 1.6e308, 1.7e308], [1.0, 2.0, 4.0, 8.0, 16.0]])
    np.testing.assert_allclose(GINI.aligned(z), [exact_gini(block) for block in z], rtol=1e-12)
    np.testing.assert_array_equal(wilcoxon(BIG), wilcoxon(SMALL))


def test_signed_zeros_are_ties():
    zeros = np.tile([0.0, -0.0], (1, 60))
    assert wilcoxon(zeros).tolist() == [0.0]
    assert kendall(np.stack([zeros, np.arange(120.0)[None]], axis=2)).tolist() == [0.0]


def test_blocks_of_ordinary_size_are_evaluated_once():
    seen = []

    def form(z):
        seen.append(z)
        return z.sum(axis=1)

    z = sample("normal", (3, 5))
    np.testing.assert_array_equal(rescaled(form, 1, [z]), z.sum(axis=1))
    assert len(seen) == 1
    assert seen[0] is z


@pytest.mark.parametrize("power", [-1000, 0, 300, 1000])
def test_the_result_is_scaled_back(power):
    z = sample("normal", (4, 6))
    found = rescaled(lambda s: s.sum(axis=1), 1, [np.ldexp(z, power)])
    np.testing.assert_allclose(found, np.ldexp(z.sum(axis=1), power), rtol=1e-12)
    assert have_ordinary_size([np.ldexp(z, power)]) == (abs(power) < 400)


@pytest.mark.parametrize("power", [-520, -460, 460, 505])
def test_squares_of_rows_may_be_at_the_edge_of_the_floats(power):
    z = sample("normal", (3, 12, 2))
    scaled = np.ldexp(z, power)
    for kernel, stack, rows in ((VARIANCE, z[..., 0], scaled[..., 0]), (COVARIANCE, z, scaled)):
        expected = np.ldexp(kernel.aligned(stack), 2 * power)
        assert np.isfinite(expected).all()
        assert (expected != 0).all()
        np.testing.assert_allclose(kernel.aligned(rows), expected, rtol=1e-12, atol=2.0**TINY)


@ALL
def test_a_corrupt_block_does_not_change_the_other_blocks(kernel):
    clean = stack_for(kernel, "normal", 5, 20)
    spoiled = clean.copy()
    spoiled[2, :2] = np.array([1.7e308, -1.7e308]).reshape(2, *(1,) * (clean.ndim - 2))
    kept = [0, 1, 3, 4]
    values = kernel.aligned(spoiled)
    np.testing.assert_allclose(values[kept], kernel.aligned(clean)[kept], rtol=1e-13)
    assert not np.isnan(values[2])
    if kernel in (VARIANCE, COVARIANCE):
        assert values[2] == np.inf


# --- the methods of Kendall's tau -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["normal", "tied"])
@pytest.mark.parametrize(("n_blocks", "size"), [(1, 300), (40, 60), (1200, 30)])
def test_merging_ranks_and_comparing_them_equal_the_definition(monkeypatch, n_blocks, size, kind):
    z = sample(kind, (n_blocks, size, 2))
    by_pairs = kendall(z)  # in several batches
    last = n_blocks - 1
    np.testing.assert_allclose(by_pairs[[0, last]], [brute_force(KENDALL, z[k]) for k in (0, last)])
    monkeypatch.setattr(kendall_module, "_RANKS_UP_TO", 0)
    np.testing.assert_allclose(kendall(z), by_pairs, rtol=1e-12)


@pytest.mark.parametrize("repeat", [1, 40])  # all pairs of rows, and pairs of ranks
def test_the_largest_floats_are_compared_without_their_difference(repeat):
    pairs = [np.tile(np.stack([z, z[:, ::-1]], axis=2), (1, repeat, 1)) for z in (BIG, SMALL)]
    np.testing.assert_array_equal(*map(kendall, pairs))
    single = [(p * scale).astype(np.float32) for p, scale in zip(pairs, (3e38 / 1.7e308, 1.0), strict=True)]
    np.testing.assert_array_equal(*map(kendall, single))


def test_all_pairs_of_a_reversed_block_are_discordant(monkeypatch):
    monkeypatch.setattr(kendall_module, "_PAIRS_UP_TO", 0)
    z = np.stack([np.arange(600.0), -np.arange(600.0)], axis=1)[None]  # more than a counter of 8 bits holds
    assert kendall(z).tolist() == [-1.0]


def test_a_large_block_takes_less_memory_than_all_pairs():
    z = sample("normal", (1, 3000, 2))
    assert peak_of(lambda: kendall(z)) < 3000 * 3000 / 5
