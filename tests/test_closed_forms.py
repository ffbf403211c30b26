"""Every fast form against its definition, over all tuples, and at the edges of what a float can hold."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from outvote import _numba
from outvote.kernels import closed_forms
from outvote.kernels.kernel import KERNELS, gaussian_mmd

RTOL = 1e-10
PAIRS = ["variance", "covariance", "gini", "wilcoxon", "kendall"]
RANKS = ["mann-whitney", "auc"]
DISTANCES = ["mmd", "energy"]
#: On both sides of the change of method in `kendall`, and of the edge of a tile.
SIZES = [2, 3, 4, 7, 31, 47, 48, 49, 97, 128, 129, 255, 256, 257, 300]


@pytest.fixture(autouse=True)
def numpy_alone(monkeypatch):
    """The compiled forms have tests of their own, against these ones: test_compiled.py."""
    monkeypatch.setattr("outvote._numba.compiled", lambda seconds: None)


def brute_force(kernel, *blocks):
    """Average the definition of a kernel over all tuples, one block of each sample, with an exact sum."""
    subsets = [
        list(itertools.combinations(range(len(block)), degree))
        for block, degree in zip(blocks, kernel.degrees, strict=True)
    ]
    numbers = np.meshgrid(*(np.arange(len(s)) for s in subsets), indexing="ij")
    slots = []
    for block, subset, number in zip(blocks, subsets, numbers, strict=True):
        chosen = np.asarray(subset)[number.ravel()]
        slots += [np.asarray(block, dtype=np.float64)[column] for column in chosen.T]
    values = np.asarray(kernel.function(*slots), dtype=np.float64)
    return math.fsum(values) / len(values)


def by_pairs(function, sign, x, y):
    """Within-sample and between-sample means of a function of the distance, from all pairs."""

    def distances(u, v):
        u, v = (np.asarray(w, dtype=np.float64).reshape(len(w), -1) for w in (u, v))
        return np.sqrt(np.square(u[:, None] - v[None]).sum(axis=-1))

    def within(u):
        return function(distances(u, u))[np.triu_indices(len(u), 1)].mean()

    return sign * (within(x) + within(y) - 2 * function(distances(x, y)).mean())


REFERENCES = {
    "mmd": lambda x, y: by_pairs(lambda d: np.exp(-(d**2) / 2), 1.0, x, y),
    "energy": lambda x, y: by_pairs(lambda d: d, -1.0, x, y),
}


def sample(kind, shape, seed=0):
    rng = np.random.default_rng([seed, *shape])
    if kind == "tied":
        return rng.integers(-2, 3, size=shape) / 4.0
    values = rng.standard_t(3, size=shape)
    return values.astype(np.float32) if kind == "float32" else values


def shape_of(name, n_blocks, size):
    return (n_blocks, size, 2) if KERNELS[name].columns == 2 else (n_blocks, size)


@pytest.mark.parametrize("kind", ["normal", "tied", "float32"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PAIRS)
def test_a_kernel_of_pairs_equals_brute_force(name, size, kind):
    kernel = KERNELS[name]
    stack = sample(kind, shape_of(name, 3, size))
    expected = [brute_force(kernel, block) for block in stack]
    values = kernel.aligned(stack)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, expected, rtol=RTOL, atol=1e-14)


@pytest.mark.parametrize("kind", ["normal", "tied", "float32"])
@pytest.mark.parametrize(("n_x", "n_y"), [(1, 1), (1, 9), (2, 3), (40, 17), (257, 255)])
@pytest.mark.parametrize("name", RANKS)
def test_a_kernel_of_ranks_equals_brute_force(name, n_x, n_y, kind):
    kernel = KERNELS[name]
    x, y = sample(kind, (3, n_x)), sample(kind, (4, n_y), seed=1)
    expected = np.array([[brute_force(kernel, a, b) for b in y] for a in x])
    np.testing.assert_allclose(kernel.grid(x, y), expected, rtol=RTOL)
    np.testing.assert_allclose(kernel.aligned(x, y[:3]), np.diag(expected), rtol=RTOL)


@pytest.mark.parametrize("kind", ["normal", "tied", "float32"])
@pytest.mark.parametrize("columns", [(), (1,), (3,)])
@pytest.mark.parametrize(("n_x", "n_y"), [(2, 2), (2, 9), (11, 8)])
@pytest.mark.parametrize("name", DISTANCES)
def test_a_kernel_of_distances_equals_brute_force(name, n_x, n_y, columns, kind):
    kernel = KERNELS[name]
    x, y = sample(kind, (3, n_x, *columns)), sample(kind, (4, n_y, *columns), seed=1) + 0.5
    expected = np.array([[brute_force(kernel, a, b) for b in y] for a in x])
    np.testing.assert_allclose(kernel.grid(x, y), expected, rtol=RTOL, atol=1e-13)
    np.testing.assert_allclose(kernel.aligned(x, y[:3]), np.diag(expected), rtol=RTOL, atol=1e-13)


@pytest.mark.parametrize("columns", [(), (2,)])
@pytest.mark.parametrize(("n_x", "n_y"), [(255, 256), (256, 257), (257, 600), (513, 2)])
@pytest.mark.parametrize("name", DISTANCES)
def test_tiles_of_pairs_meet_without_a_seam(name, n_x, n_y, columns):
    x, y = sample("normal", (6, n_x, *columns)), sample("tied", (6, n_y, *columns)) + 0.5
    kernel, reference = KERNELS[name], REFERENCES[name]
    expected = [reference(a, b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(kernel.aligned(x, y), expected, rtol=RTOL)
    np.testing.assert_allclose(kernel.grid(x[:1], y)[0], [reference(x[0], b) for b in y], rtol=RTOL)


def test_more_blocks_than_fit_in_one_batch():
    z = sample("tied", (700, 30, 2))
    np.testing.assert_allclose(
        closed_forms.kendall(z)[[0, 699]], [brute_force(KERNELS["kendall"], z[k]) for k in (0, 699)]
    )
    x, y = sample("normal", (3000, 12, 2)), sample("normal", (3000, 9, 2), seed=1)
    picked = [0, 1500, 2999]
    expected = [REFERENCES["energy"](x[k], y[k]) for k in picked]
    np.testing.assert_allclose(closed_forms.energy(x, y)[picked], expected, rtol=RTOL)


@pytest.mark.parametrize("kind", ["normal", "tied"])
@pytest.mark.parametrize(("n_blocks", "size"), [(1, 300), (40, 60)])
def test_kendall_by_merging_and_by_comparing_ranks_is_the_same(monkeypatch, n_blocks, size, kind):
    z = sample(kind, (n_blocks, size, 2))
    by_pairs = closed_forms.kendall(z)
    monkeypatch.setattr(closed_forms, "_RANKS_UP_TO", 0)
    np.testing.assert_array_equal(closed_forms.kendall(z), by_pairs)


def test_a_grid_of_many_tiles_and_batches(monkeypatch):
    monkeypatch.setattr(closed_forms, "_TILE", 2**10)
    x, y = sample("tied", (90, 7)), sample("tied", (80, 6), seed=1)
    for name in RANKS:
        values = KERNELS[name].grid(x, y)
        for k in (0, 41, 89):
            np.testing.assert_array_equal(values[k, :5], [KERNELS[name].aligned(x[[k]], y[[b]])[0] for b in range(5)])


@pytest.mark.parametrize("bandwidth", [0.3, 1.0, 7.5])
def test_the_bandwidth_divides_the_distance(bandwidth):
    x, y = sample("normal", (2, 20, 2)), sample("normal", (2, 15, 2), seed=1)
    kernel = gaussian_mmd(bandwidth)
    expected = [by_pairs(lambda d: np.exp(-0.5 * (d / bandwidth) ** 2), 1.0, a, b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_allclose(kernel.aligned(x, y), expected, rtol=RTOL)
    np.testing.assert_allclose(kernel.aligned(x, y), KERNELS["mmd"].aligned(x / bandwidth, y / bandwidth), rtol=RTOL)
    assert kernel.aligned(x[:, :3], y[:, :3])[0] == pytest.approx(brute_force(kernel, x[0, :3], y[0, :3]), rel=RTOL)


@pytest.mark.parametrize(("bandwidth", "expected"), [(1e-200, -1 / 3), (1e200, 0.0)])
def test_a_bandwidth_whose_square_is_no_float(bandwidth, expected):
    # At no width one pair in three is near within x, none within y, and three in nine between them.
    x, y = np.array([[1.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 2.0]])
    assert gaussian_mmd(bandwidth).aligned(x, y)[0] == pytest.approx(expected, abs=1e-12)


# --- large offsets ---------------------------------------------------------------------------------


def exact_variance(z, w=None):
    a, b = [Fraction(float(v)) for v in z], [Fraction(float(v)) for v in (z if w is None else w)]
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    return float(sum((u - mean_a) * (v - mean_b) for u, v in zip(a, b, strict=True)) / (len(a) - 1))


def exact_gini(z):
    pairs = itertools.combinations([Fraction(float(v)) for v in z], 2)
    return float(sum(abs(a - b) for a, b in pairs) / math.comb(len(z), 2))


@pytest.mark.parametrize("offset", [1e8, -1e8, 1e12])
@pytest.mark.parametrize("size", [2, 5, 40])
def test_spread_keeps_its_digits_at_a_large_offset(offset, size):
    z = offset + sample("normal", (4, size, 2))
    np.testing.assert_allclose(closed_forms.variance(z[..., 0]), [exact_variance(b[:, 0]) for b in z], rtol=1e-12)
    np.testing.assert_allclose(
        closed_forms.covariance(z), [exact_variance(b[:, 0], b[:, 1]) for b in z], rtol=1e-10, atol=1e-13
    )
    np.testing.assert_allclose(closed_forms.gini(z[..., 0]), [exact_gini(b[:, 0]) for b in z], rtol=1e-13)


@pytest.mark.parametrize("first", [1e8, -1e15, 1e100])
def test_variance_keeps_its_digits_whichever_row_comes_first(first):
    z = sample("normal", (3, 500))
    z[:, 0] = first
    np.testing.assert_allclose(closed_forms.variance(z), [exact_variance(block) for block in z], rtol=1e-13)


@pytest.mark.parametrize("columns", [(), (3,)])
@pytest.mark.parametrize("name", DISTANCES)
def test_distances_keep_their_digits_at_a_large_offset(name, columns):
    x, y = (1e8 + sample("normal", (3, 30, *columns), seed=s) for s in range(2))
    kernel = KERNELS[name]
    # Subtracting the offset from numbers near it is exact, so both must agree to the last digits.
    np.testing.assert_allclose(kernel.aligned(x, y), kernel.aligned(x - 1e8, y - 1e8), rtol=1e-10)
    np.testing.assert_allclose(kernel.grid(x, y), kernel.grid(x - 1e8, y - 1e8), rtol=1e-10)


def test_float32_rows_are_computed_in_float64():
    z = (1000 + sample("normal", (3, 50))).astype(np.float32)
    wide = z.astype(np.float64)
    for name in ("variance", "gini", "wilcoxon"):
        np.testing.assert_array_equal(KERNELS[name].aligned(z), KERNELS[name].aligned(wide))
    for name in DISTANCES:
        np.testing.assert_array_equal(KERNELS[name].aligned(z, z + 1), KERNELS[name].aligned(wide, wide + 1))


# --- the smallest and the largest floats ------------------------------------------------------------

TINY = -1074  # 2**TINY is the smallest float


def test_subnormal_rows_keep_their_digits():
    steps = np.random.default_rng(0).integers(0, 1000, size=(3, 20)).astype(np.float64)
    z = np.ldexp(steps, TINY)
    np.testing.assert_allclose(
        KERNELS["gini"].aligned(z), np.ldexp(KERNELS["gini"].aligned(steps), TINY), atol=2.0**TINY, rtol=0
    )
    x, y = z, z + np.ldexp(700.0, TINY)
    for a, b in ((x, y), (np.repeat(x[..., None], 2, axis=2), np.repeat(y[..., None], 2, axis=2))):
        expected = np.ldexp(KERNELS["energy"].aligned(np.ldexp(a, -TINY), np.ldexp(b, -TINY)), TINY)
        np.testing.assert_allclose(KERNELS["energy"].aligned(a, b), expected, atol=2 * 2.0**TINY, rtol=0)
        np.testing.assert_allclose(np.diag(KERNELS["energy"].grid(a, b)), expected, atol=2 * 2.0**TINY, rtol=0)
    np.testing.assert_array_equal(
        KERNELS["mann-whitney"].aligned(x, y), KERNELS["mann-whitney"].aligned(steps, steps + 700)
    )
    np.testing.assert_array_equal(
        KERNELS["wilcoxon"].aligned(z - z[:, :1]), KERNELS["wilcoxon"].aligned(steps - steps[:, :1])
    )


def test_a_block_of_zeros_against_a_block_of_subnormals():
    zeros, small = np.zeros((1, 3, 2)), np.full((1, 3, 2), 3e-300)
    expected = 2 * math.sqrt(2) * 3e-300
    assert KERNELS["energy"].aligned(zeros, small)[0] == pytest.approx(expected, rel=1e-12)
    assert KERNELS["energy"].grid(zeros, small)[0, 0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("power", [-520, -460, 460, 505])
def test_second_moments_of_rows_whose_squares_are_hardly_floats(power):
    z = sample("normal", (3, 12, 2))
    scaled = np.ldexp(z, power)
    for name, stack, rows in (("variance", z[..., 0], scaled[..., 0]), ("covariance", z, scaled)):
        expected = np.ldexp(KERNELS[name].aligned(stack), 2 * power)
        assert np.isfinite(expected).all()
        assert (expected != 0).all()
        np.testing.assert_allclose(KERNELS[name].aligned(rows), expected, rtol=1e-12, atol=2.0**TINY)


def test_covariance_of_columns_on_opposite_ends_of_the_scale():
    z = sample("normal", (3, 12, 2))
    expected = KERNELS["covariance"].aligned(z)
    np.testing.assert_allclose(KERNELS["covariance"].aligned(z * [2.0**900, 2.0**-900]), expected, rtol=1e-12)
    np.testing.assert_allclose(KERNELS["covariance"].aligned(z * [2.0**900, 1.0]), np.ldexp(expected, 900), rtol=1e-12)


def test_rows_near_the_largest_float_do_not_overflow_what_is_representable():
    # The gap of 3.4e308 is no float, the mean over the ten pairs is.
    z = np.array([[1.7e308, -1.7e308, 1.7e308, 1.6e308, 1.7e308], [1.0, 2.0, 4.0, 8.0, 16.0]])
    np.testing.assert_allclose(KERNELS["gini"].aligned(z), [exact_gini(block) for block in z], rtol=1e-12)
    for x in (z[:, :4], np.stack([z[:, :4], z[:, :4]], axis=2) / 2):
        expected = np.ldexp(KERNELS["energy"].aligned(np.ldexp(x, -10), np.ldexp(x, -10)), 10)
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(KERNELS["energy"].aligned(x, x), expected, rtol=1e-12)
        np.testing.assert_allclose(np.diag(KERNELS["energy"].grid(x, x)), expected, rtol=1e-12)
    equal = np.full((2, 5), 1.7e308)
    assert KERNELS["variance"].aligned(equal).tolist() == [0.0, 0.0]
    assert KERNELS["gini"].aligned(equal).tolist() == [0.0, 0.0]
    assert KERNELS["covariance"].aligned(np.stack([equal, equal], axis=2)).tolist() == [0.0, 0.0]


def test_the_wins_are_counted_on_the_largest_floats_without_a_difference():
    big = np.array([[-1.7e308, 1.7e308, 0.0, 1.6e308]])
    small = np.array([[-1.0, 1.0, 0.0, 0.9]])
    np.testing.assert_array_equal(KERNELS["wilcoxon"].aligned(big), KERNELS["wilcoxon"].aligned(small))
    for name in RANKS:
        np.testing.assert_array_equal(KERNELS[name].aligned(big, big), KERNELS[name].aligned(small, small))
        np.testing.assert_array_equal(KERNELS[name].grid(big, big), KERNELS[name].grid(small, small))
    for repeat in (1, 40):  # both methods of kendall
        pairs = [np.tile(np.stack([z, z[:, ::-1]], axis=2), (1, repeat, 1)) for z in (big, small)]
        np.testing.assert_array_equal(*map(KERNELS["kendall"].aligned, pairs))
        single = [(p * scale).astype(np.float32) for p, scale in zip(pairs, (3e38 / 1.7e308, 1.0), strict=True)]
        np.testing.assert_array_equal(*map(KERNELS["kendall"].aligned, single))


@pytest.mark.parametrize("name", ["variance", "covariance", "gini", "kendall", "wilcoxon"])
def test_a_corrupt_block_at_the_largest_float_leaves_the_others_alone(name):
    clean = sample("normal", shape_of(name, 5, 20))
    spoiled = clean.copy()
    spoiled[2, :2] = np.array([1.7e308, -1.7e308]).reshape(2, *(1,) * (clean.ndim - 2))
    kept = [0, 1, 3, 4]
    values = KERNELS[name].aligned(spoiled)
    np.testing.assert_allclose(values[kept], KERNELS[name].aligned(clean)[kept], rtol=1e-13)
    assert not np.isnan(values[2])
    if name in ("variance", "covariance"):
        assert values[2] == np.inf


@pytest.mark.parametrize("columns", [(), (2,)])
@pytest.mark.parametrize("name", DISTANCES)
def test_corrupt_blocks_of_two_samples_leave_the_others_alone(name, columns):
    x, y = sample("normal", (4, 20, *columns)), sample("normal", (4, 15, *columns), seed=1)
    clean_grid, clean = KERNELS[name].grid(x, y), KERNELS[name].aligned(x, y)
    x[1, 0], x[1, 1], y[3, 4] = 1.7e308, -1.7e308, 1e200
    grid, aligned = KERNELS[name].grid(x, y), KERNELS[name].aligned(x, y)
    rows, others = [0, 2, 3], [0, 1, 2]
    np.testing.assert_allclose(grid[np.ix_(rows, others)], clean_grid[np.ix_(rows, others)], rtol=1e-12)
    np.testing.assert_allclose(aligned[[0, 2]], clean[[0, 2]], rtol=1e-12)
    assert not np.isnan(grid).any()
    assert not np.isnan(aligned).any()


def test_a_distance_beyond_the_largest_float_counts_as_far_for_mmd():
    x, y = np.array([[1.7e308, -1.7e308, 0.0]]), np.array([[0.0, 0.0, 0.0]])
    # Within x no pair is near, within y all are, and a third of the pairs between them.
    assert KERNELS["mmd"].aligned(x, y)[0] == pytest.approx(0 + 1 - 2 / 3)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e8 - 0.3, 1e300, 5e-324])
@pytest.mark.parametrize("size", [2, 3, 97, 257])
def test_equal_rows_have_no_spread_and_all_ties(value, size):
    z = np.full((2, size), value)
    pairs = np.stack([z, z], axis=2)
    for name, stack in (("variance", z), ("gini", z), ("covariance", pairs), ("kendall", pairs)):
        assert KERNELS[name].aligned(stack).tolist() == [0.0, 0.0]
    assert KERNELS["wilcoxon"].aligned(z).tolist() == [float(value > 0)] * 2
    for name, expected in (("mann-whitney", 1.0), ("auc", 0.5), ("mmd", 0.0), ("energy", 0.0)):
        assert KERNELS[name].aligned(z, z[:, :2]).tolist() == [expected] * 2
        assert KERNELS[name].grid(z, z[:, :2]).tolist() == [[expected] * 2] * 2


def test_signed_zeros_are_ties():
    z = np.tile(np.array([0.0, -0.0]), (1, 60))
    assert KERNELS["wilcoxon"].aligned(z).tolist() == [0.0]
    assert KERNELS["auc"].aligned(z, -z).tolist() == [0.5]
    pairs = np.stack([z, np.arange(120.0)[None]], axis=2)
    assert KERNELS["kendall"].aligned(pairs).tolist() == [0.0]


# --- memory -----------------------------------------------------------------------------------------


def peak_of(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", DISTANCES)
def test_no_square_array_of_a_large_block(name):
    x = sample("normal", (1, 3000, 2))
    square = 3000 * 3000 * 8
    assert peak_of(lambda: KERNELS[name].aligned(x, x + 1)) < square / 5


def test_kendall_of_a_large_block_is_sorted_not_compared():
    z = sample("normal", (1, 3000, 2))
    assert peak_of(lambda: closed_forms.kendall(z)) < 3000 * 3000 / 5


def test_products_keep_to_one_thread_until_the_outermost_lets_go():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    before = threads()
    with _numba.one_thread():
        with _numba.one_thread():
            assert set(threads()) == {1}
        assert set(threads()) == {1}
    assert threads() == before
