"""The maximum mean discrepancy and the energy distance of two samples."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from kernel_definitions import RTOL, TINY, brute_force, peak_of, sample

from outvote.kernels.distances import ENERGY, MMD, energy, gaussian_mmd

BOTH = pytest.mark.parametrize("kernel", [MMD, ENERGY], ids=lambda kernel: kernel.name)


def by_pairs(function, sign, x, y):
    """Compute the means of a function of the distance, within the samples and across them, from all pairs."""

    def distances(u, v):
        u, v = (np.asarray(w, dtype=np.float64).reshape(len(w), -1) for w in (u, v))
        return np.sqrt(np.square(u[:, None] - v[None]).sum(axis=-1))

    def within(u):
        return function(distances(u, u))[np.triu_indices(len(u), 1)].mean()

    return sign * (within(x) + within(y) - 2 * function(distances(x, y)).mean())


def reference(kernel, x, y):
    if kernel is ENERGY:
        return by_pairs(lambda d: d, -1.0, x, y)
    return by_pairs(lambda d: np.exp(-(d**2) / 2), 1.0, x, y)


@pytest.mark.parametrize(("columns", "kind"), [((), "normal"), ((), "tied"), ((1,), "float32"), ((3,), "normal")])
@BOTH
def test_it_equals_its_definition(kernel, columns, kind):
    for n_x, n_y in ((2, 2), (2, 9), (11, 8)):
        x, y = sample(kind, (3, n_x, *columns)), sample(kind, (4, n_y, *columns), seed=1) + 0.5
        expected = np.array([[brute_force(kernel, a, b) for b in y] for a in x])
        np.testing.assert_allclose(kernel.grid(x, y), expected, rtol=RTOL, atol=1e-13)
        np.testing.assert_allclose(kernel.aligned(x, y[:3]), np.diag(expected), rtol=RTOL, atol=1e-13)


@pytest.mark.parametrize(("n_x", "n_y", "columns"), [(255, 257, ()), (256, 513, (2,)), (513, 2, ())])
@BOTH
def test_tiles_cover_every_pair_once(kernel, n_x, n_y, columns):
    x, y = sample("normal", (3, n_x, *columns)), sample("tied", (3, n_y, *columns)) + 0.5
    expected = [reference(kernel, a, b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(kernel.aligned(x, y), expected, rtol=RTOL)
    np.testing.assert_allclose(kernel.grid(x[:1], y)[0], [reference(kernel, x[0], b) for b in y], rtol=RTOL)


def test_blocks_may_need_several_batches():
    x, y = sample("normal", (3000, 12, 2)), sample("normal", (3000, 9, 2), seed=1)
    picked = [0, 1500, 2999]
    expected = [reference(ENERGY, x[k], y[k]) for k in picked]
    np.testing.assert_allclose(energy(x, y)[picked], expected, rtol=RTOL)


def test_the_bandwidth_divides_the_distance():
    bandwidth = 2.5
    x, y = sample("normal", (2, 20, 2)), sample("normal", (2, 15, 2), seed=1)
    kernel = gaussian_mmd(bandwidth)
    expected = [by_pairs(lambda d: np.exp(-0.5 * (d / bandwidth) ** 2), 1.0, a, b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(kernel.aligned(x, y), expected, rtol=RTOL)
    np.testing.assert_allclose(kernel.aligned(x, y), MMD.aligned(x / bandwidth, y / bandwidth), rtol=RTOL)
    assert kernel.aligned(x[:, :3], y[:, :3])[0] == pytest.approx(brute_force(kernel, x[0, :3], y[0, :3]), rel=RTOL)


@pytest.mark.parametrize(("bandwidth", "expected"), [(1e-200, -1 / 3), (1e200, 0.0)])
def test_the_square_of_the_bandwidth_need_not_be_a_float(bandwidth, expected):
    # At width 0, one pair in three is near within x, none is within y, and three in nine are across.
    x, y = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 2.0]])
    assert gaussian_mmd(bandwidth).aligned(x, y)[0] == pytest.approx(expected, abs=1e-12)


def test_a_bandwidth_must_be_positive():
    for bandwidth in (0, -1.0, math.inf, math.nan, "wide", None):
        with pytest.raises(ValueError, match=rf"bandwidth={bandwidth!r} must be a positive number"):
            gaussian_mmd(bandwidth)


@BOTH
def test_a_large_offset_costs_no_digits(kernel):
    x, y = (1e8 + sample("normal", (3, 30, 3), seed=s) for s in range(2))
    # Subtracting the offset from numbers near it is exact, so both must agree to the last digits.
    np.testing.assert_allclose(kernel.aligned(x, y), kernel.aligned(x - 1e8, y - 1e8), rtol=1e-10)
    np.testing.assert_allclose(kernel.grid(x, y), kernel.grid(x - 1e8, y - 1e8), rtol=1e-10)


def test_subnormal_rows_keep_their_digits():
    steps = np.random.default_rng(0).integers(0, 1000, size=(3, 20, 2)).astype(np.float64)
    x, y = np.ldexp(steps, TINY), np.ldexp(steps + 700, TINY)
    expected = np.ldexp(ENERGY.aligned(steps, steps + 700), TINY)
    np.testing.assert_allclose(ENERGY.aligned(x, y), expected, atol=2 * 2.0**TINY, rtol=0)
    np.testing.assert_allclose(np.diag(ENERGY.grid(x, y)), expected, atol=2 * 2.0**TINY, rtol=0)


def test_zeros_and_tiny_numbers_have_a_distance():
    zeros, small = np.zeros((1, 3, 2)), np.full((1, 3, 2), 3e-300)
    expected = 2 * math.sqrt(2) * 3e-300
    assert ENERGY.aligned(zeros, small)[0] == pytest.approx(expected, rel=1e-12)
    assert ENERGY.grid(zeros, small)[0, 0] == pytest.approx(expected, rel=1e-12)


def test_a_distance_may_be_larger_than_any_float():
    z = np.array([[1.7e308, -1.7e308, 1.7e308, 1.6e308], [1.0, 2.0, 4.0, 8.0]])
    for x in (z, np.stack([z, z], axis=2) / 2):
        expected = np.ldexp(ENERGY.aligned(np.ldexp(x, -10), np.ldexp(x, -10)), 10)
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(ENERGY.aligned(x, x), expected, rtol=1e-12)
        np.testing.assert_allclose(np.diag(ENERGY.grid(x, x)), expected, rtol=1e-12)
    x, y = np.array([[1.7e308, -1.7e308, 0.0]]), np.array([[0.0, 0.0, 0.0]])
    # Within x no pair is near, within y all pairs are, and across a third of them.
    assert MMD.aligned(x, y)[0] == pytest.approx(0 + 1 - 2 / 3)


@BOTH
def test_corrupt_blocks_do_not_change_the_other_blocks(kernel):
    x, y = sample("normal", (4, 20, 2)), sample("normal", (4, 15, 2), seed=1)
    clean_grid, clean = kernel.grid(x, y), kernel.aligned(x, y)
    x[1, 0], x[1, 1], y[3, 4] = 1.7e308, -1.7e308, 1e200
    grid, aligned = kernel.grid(x, y), kernel.aligned(x, y)
    rows, others = [0, 2, 3], [0, 1, 2]
    np.testing.assert_allclose(grid[np.ix_(rows, others)], clean_grid[np.ix_(rows, others)], rtol=1e-12)
    np.testing.assert_allclose(aligned[[0, 2]], clean[[0, 2]], rtol=1e-12)
    assert not np.isnan(grid).any()
    assert not np.isnan(aligned).any()


@BOTH
def test_a_large_block_takes_less_memory_than_all_pairs(kernel):
    x = sample("normal", (1, 3000, 2))
    assert peak_of(lambda: kernel.aligned(x, x + 1)) < 3000 * 3000 * 8 / 5


def test_a_kernel_with_a_bandwidth_can_be_pickled():
    kernel, (x, y) = gaussian_mmd(2.0), np.random.default_rng(0).normal(size=(2, 3, 5))
    for other in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel)):
        np.testing.assert_allclose(other.aligned(x, y), kernel.aligned(x, y), rtol=1e-12)
        np.testing.assert_allclose(other.grid(x, y), kernel.grid(x, y), rtol=1e-12)
        assert other.function(x[0], x[1], y[0], y[1]) == pytest.approx(kernel.function(x[0], x[1], y[0], y[1]))
        assert other.tensor_form.keywords == {"bandwidth": 2.0}
