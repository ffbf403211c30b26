"""Kernels of the user's own: how they are called, on what, how often, and which are refused."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from collections import Counter

import numpy as np
import pytest

import outvote as ov
from outvote.kernels.kernel import KERNELS, Kernel, gaussian_mmd, kernel_of, tuple_chunks

DEGREES = [(1,), (2,), (3,), (4,), (1, 1), (2, 1), (1, 1, 1), (2, 2), (1, 2)]


def symmetric(*degrees):
    """A kernel that is symmetric within each sample and not between them."""

    def weight(number):
        return 1.0 + number

    def function(*slots):
        value, first = 1.0, 0
        for number, degree in enumerate(degrees):
            value = value * (weight(number) + sum(slots[first : first + degree])) + abs(slots[first] - number) * (
                degree == 1
            )
            first += degree
        return value

    return function


def average_over_tuples(function, degrees, blocks):
    subsets = [itertools.combinations(block, degree) for block, degree in zip(blocks, degrees, strict=True)]
    values = [function(*itertools.chain(*rows)) for rows in itertools.product(*subsets)]
    return math.fsum(map(float, values)) / len(values)


def evaluate(kernel, *samples):
    """The U-statistic of whole samples."""
    return kernel.fit(samples).aligned(*(sample[None] for sample in samples))[0]


# --- values -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("vectorized", [None, True, False])
@pytest.mark.parametrize("degrees", DEGREES)
def test_a_kernel_is_averaged_over_all_tuples(degrees, vectorized):
    rng = np.random.default_rng(0)
    samples = [rng.normal(size=n) for n, _ in zip((7, 6, 5), degrees, strict=False)]
    function = symmetric(*degrees)
    found = evaluate(Kernel(function, degrees, vectorized=vectorized), *samples)
    assert found == pytest.approx(average_over_tuples(function, degrees, samples), rel=1e-12)


@pytest.mark.parametrize("degrees", [(1, 1), (2, 1), (1, 1, 1), (2, 2)])
def test_on_the_grid_every_combination_of_blocks_has_its_value(degrees):
    rng = np.random.default_rng(1)
    stacks = [rng.normal(size=shape) for shape, _ in zip([(3, 4), (2, 5), (4, 2)], degrees, strict=False)]
    function = symmetric(*degrees)
    kernel = Kernel(function, degrees).fit([stack.reshape(-1) for stack in stacks])
    values = kernel.grid(*stacks)
    assert values.shape == tuple(map(len, stacks))
    for combination in np.ndindex(values.shape):
        blocks = [stack[k] for stack, k in zip(stacks, combination, strict=True)]
        assert values[combination] == pytest.approx(average_over_tuples(function, degrees, blocks), rel=1e-12)


def test_the_grid_is_evaluated_in_steps(monkeypatch):
    monkeypatch.setattr("outvote.kernels.kernel._CHUNK", 10)
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(4, 6))
    kernel = Kernel(lambda a, b: np.abs(a - b), (1, 1), vectorized=True)
    np.testing.assert_allclose(kernel.grid(x, y), np.abs(x[:, None, :, None] - y[None, :, None, :]).mean(axis=(2, 3)))


def test_chunks_of_tuples_and_batches_of_blocks_add_up(monkeypatch):
    z = np.random.default_rng(3).normal(size=(9, 8))
    kernel = Kernel(lambda a, b: np.abs(a - b), vectorized=True)
    whole = kernel.aligned(z)
    for chunk in (1, 5, 28, 60):  # a block has 28 pairs
        monkeypatch.setattr("outvote.kernels.kernel._CHUNK", chunk)
        np.testing.assert_allclose(kernel.aligned(z), whole, rtol=1e-13)
    np.testing.assert_allclose(whole, KERNELS["gini"].aligned(z), rtol=1e-13)


@pytest.mark.parametrize("degrees", [(2,), (1, 1), (3,)])
@pytest.mark.parametrize("columns", [(), (2,)])
def test_tiles_of_pairs_leave_no_tuple_out(monkeypatch, degrees, columns):
    monkeypatch.setattr("outvote.kernels.kernel._CHUNK", 26)
    samples = [np.random.default_rng(s).normal(size=(13 + s, *columns)) for s in range(len(degrees))]

    def function(*slots):
        assert len(slots[0]) <= 26
        products = np.prod(np.stack(slots), axis=0)
        return products.reshape(len(products), -1).sum(axis=1)

    kernel = Kernel(function, degrees, vectorized=True)
    expected = average_over_tuples(lambda *rows: float(np.prod(np.stack(rows), axis=0).sum()), degrees, samples)
    assert kernel.aligned(*(sample[None] for sample in samples))[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("degrees", [(2,), (1, 1), (3,)])
@pytest.mark.parametrize("size", [3, 40])
def test_a_function_may_overwrite_its_arguments(degrees, size):
    samples = [np.random.default_rng(s).normal(size=size) for s in range(len(degrees))]
    kept = [sample.copy() for sample in samples]

    def function(*slots):
        total = np.sum(slots, axis=0)
        for slot in slots:
            slot[:] = np.nan
        return total

    kernel = Kernel(function, degrees, vectorized=True)
    found = kernel.aligned(*(sample.reshape(-1, 1 if degrees == (1, 1) else size) for sample in samples))
    np.testing.assert_array_equal(samples, kept)
    assert np.mean(found) == pytest.approx(sum(d * sample.mean() for d, sample in zip(degrees, kept, strict=True)))


def test_rows_that_are_vectors_reach_the_function_as_vectors():
    z = np.random.default_rng(4).normal(size=(12, 3))
    expected = average_over_tuples(lambda a, b: np.square(a - b).sum(), (2,), [z])
    seen = []

    def by_row(a, b):
        seen.append(np.shape(a))
        return float(((a - b) ** 2).sum())

    for function, vectorized in (
        (by_row, None),
        (by_row, False),
        (lambda a, b: ((a - b) ** 2).sum(axis=-1), None),
        (lambda a, b: ((a - b) ** 2).sum(axis=-1), True),
    ):
        assert evaluate(Kernel(function, 2, vectorized=vectorized), z) == pytest.approx(expected, rel=1e-12)
    assert (3,) in seen


def test_samples_of_a_users_kernel_may_have_different_widths():
    x, y = np.random.default_rng(5).normal(size=(6, 2)), np.random.default_rng(6).normal(size=5)
    found = evaluate(Kernel(lambda a, b: a[0] * b + a[1], (1, 1)), x, y)
    assert found == pytest.approx(x[:, 0].mean() * y.mean() + x[:, 1].mean())


@pytest.mark.parametrize("builtin", [max, min, math.hypot, np.maximum, np.hypot])
def test_builtins_are_kernels(builtin):
    z = np.random.default_rng(7).normal(size=20)
    assert evaluate(Kernel(builtin), z) == pytest.approx(average_over_tuples(builtin, (2,), [z]))
    assert Kernel(builtin).name == builtin.__name__


def test_a_function_of_numbers_that_happens_to_accept_arrays_is_not_given_them():
    z = np.random.default_rng(8).normal(size=30)

    def centred(a, b):  # of arrays it subtracts the mean of the batch, of numbers their own
        return (a - np.mean(a)) * (b - np.mean(b)) + a * b

    assert evaluate(Kernel(centred), z) == pytest.approx(average_over_tuples(lambda a, b: a * b, (2,), [z]))


def test_values_may_be_booleans_or_integers():
    z = np.random.default_rng(9).normal(size=25)
    expected = average_over_tuples(lambda a, b: a + b > 0, (2,), [z])
    assert evaluate(Kernel(lambda a, b: a + b > 0), z) == expected
    assert evaluate(Kernel(lambda a, b: int(a + b > 0)), z) == expected


def test_float32_rows_reach_the_function_in_float64():
    z = (1000 + np.random.default_rng(10).normal(size=40)).astype(np.float32)
    for vectorized in (None, False):
        kernel = Kernel(lambda a, b: (a - b) ** 2 / 2, vectorized=vectorized)
        assert evaluate(kernel, z) == pytest.approx(z.astype(np.float64).var(ddof=1), rel=1e-12)


@pytest.mark.parametrize("shape", [(15,), (15, 2)])
def test_a_numba_function_is_a_kernel(shape):
    numba = pytest.importorskip("numba")
    z = np.random.default_rng(11).normal(size=shape)
    if z.ndim == 1:

        @numba.njit
        def function(a, b):
            return abs(a - b) if a > b else b - a

        def plain(a, b):
            return abs(a - b)

    else:

        @numba.njit
        def function(a, b):
            total = 0.0
            for i in range(len(a)):
                total += abs(a[i] - b[i])
            return total

        def plain(a, b):
            return np.abs(a - b).sum()

    kernel = Kernel(function)
    assert kernel.name == "function"
    expected = average_over_tuples(plain, (2,), [z])
    assert evaluate(kernel, z) == pytest.approx(expected, rel=1e-12)
    assert evaluate(kernel, z) == pytest.approx(expected, rel=1e-12)


def test_a_numba_function_of_two_samples_and_an_asymmetric_one():
    numba = pytest.importorskip("numba")
    x, y = np.arange(5.0), np.arange(4.0) + 0.5
    assert evaluate(Kernel(numba.njit(lambda a, b: 1.0 if a < b else 0.0), (1, 1)), x, y) == np.mean(x[:, None] < y)
    with pytest.raises(ValueError, match="not symmetric"):
        evaluate(Kernel(numba.njit(lambda a, b: a - b)), x)


# --- each tuple once, in bounded memory ---------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 2, 7, 65_536])
@pytest.mark.parametrize(
    ("sizes", "degrees"),
    [
        ((6,), (1,)),
        ((6,), (2,)),
        ((7,), (3,)),
        ((6,), (4,)),
        ((5,), (5,)),
        ((4, 3), (1, 1)),
        ((5, 4), (2, 1)),
        ((2, 3, 4), (1, 1, 1)),
        ((4, 5), (2, 2)),
        ((4, 2, 5), (3, 1, 2)),
    ],
)
def test_the_chunks_hold_each_unordered_tuple_once(sizes, degrees, chunk):
    found = Counter()
    owners = [s for s, degree in enumerate(degrees) for _ in range(degree)]
    for slots in tuple_chunks(sizes, degrees, chunk):
        assert [s for s, _ in slots] == owners
        assert {len(rows) for _, rows in slots} == {len(slots[0][1])}
        assert len(slots[0][1]) <= chunk
        for tuples in zip(*(rows.tolist() for _, rows in slots), strict=True):
            split = iter(tuples)
            found[tuple(tuple(sorted(itertools.islice(split, degree))) for degree in degrees)] += 1
    subsets = [itertools.combinations(range(size), degree) for size, degree in zip(sizes, degrees, strict=True)]
    assert found == Counter(itertools.product(*subsets))


def test_tuples_of_nearly_all_rows_are_enumerated_though_their_binomials_are_huge():
    size = 70
    (slots,) = tuple_chunks((size,), (size - 1,))
    rows = np.stack([r for _, r in slots])
    assert rows.shape == (size - 1, size)
    missing = {int(size * (size - 1) / 2 - column.sum()) for column in rows.T}
    assert missing == set(range(size))


@pytest.mark.parametrize("degrees", [(2,), (3,), (2, 1), (2, 2)])
def test_the_function_sees_each_tuple_of_a_block_once(degrees):
    seen = Counter()

    def function(*slots):
        split = iter(float(value) for value in slots)
        seen[tuple(tuple(sorted(itertools.islice(split, degree))) for degree in degrees)] += 1
        return 1.0

    samples = [np.arange(6.0) + 100 * s for s in range(len(degrees))]
    kernel = Kernel(function, degrees, vectorized=False).fit(samples)
    seen.clear()
    assert kernel.aligned(*(sample[None] for sample in samples)).tolist() == [1.0]
    subsets = [itertools.combinations(sample.tolist(), d) for sample, d in zip(samples, degrees, strict=True)]
    assert seen == Counter(itertools.product(*subsets))


def test_too_many_tuples_to_number_are_refused():
    with pytest.raises(ValueError, match=r"\(200,\) rows hold .* tuples: use more and smaller blocks"):
        next(tuple_chunks((200,), (30,)))


def peak_of(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_of_a_pair_kernel_on_a_large_block_is_that_of_a_chunk():
    z = np.random.default_rng(12).normal(size=5000)
    kernel = Kernel(lambda a, b: np.abs(a - b), vectorized=True)
    found = []
    assert peak_of(lambda: found.append(evaluate(kernel, z))) < 5000 * 5000 * 8 / 20
    assert found[0] == pytest.approx(KERNELS["gini"].aligned(z[None])[0], rel=1e-12)


def test_memory_of_long_rows_is_that_of_a_chunk():
    z = np.random.default_rng(13).normal(size=(300, 300))
    kernel = Kernel(lambda a, b: np.abs(a - b).sum(axis=1), vectorized=True)
    all_pairs = math.comb(300, 2) * 300 * 8
    assert peak_of(lambda: evaluate(kernel, z)) < all_pairs / 20


# --- overflow ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vectorized", [None, False])
def test_a_corrupt_block_that_overflows_votes_as_infinite(vectorized):
    z = np.random.default_rng(14).normal(size=(4, 6))
    clean = z.copy()
    z[1, :2] = 1.7e308, -1.7e308
    kernel = Kernel(lambda a, b: a * b, vectorized=vectorized).fit([clean.reshape(-1)])
    values = kernel.aligned(z)
    np.testing.assert_allclose(values[[0, 2, 3]], kernel.aligned(clean)[[0, 2, 3]], rtol=1e-13)
    assert np.isinf(values[1])  # infinities of both signs met there


def test_a_sum_that_overflows_does_not_spoil_a_mean_that_does_not():
    z = np.array([[1.6e308, 1.7e308, 1.65e308], [1.0, 2.0, 3.0]])
    kernel = Kernel(max).fit([z.reshape(-1)])
    np.testing.assert_allclose(kernel.aligned(z), [(1.7e308 / 3 + 1.7e308 / 3 + 1.65e308 / 3), 8 / 3], rtol=1e-12)


def test_subnormal_values_of_a_kernel_keep_their_digits():
    z = np.arange(1.0, 6.0) * 1e-320
    assert evaluate(Kernel(max), z) == pytest.approx(4e-320, rel=1e-3)


# --- what is refused ------------------------------------------------------------------------------------


def refused(function, degrees=2, sample=None, **options):
    z = np.random.default_rng(15).normal(size=30) if sample is None else sample
    kernel = Kernel(function, degrees, name="mine", **options)
    return ov.u_statistic(*(z + s for s in range(len(kernel.degrees))), kernel=kernel, contamination=0, n_blocks=1)


@pytest.mark.parametrize("vectorized", [None, True, False])
@pytest.mark.parametrize(
    ("function", "degrees", "where"),
    [
        (lambda a, b: a - b, 2, "1 and 2"),
        (lambda a, b, c: a * b + c, 3, "2 and 3"),
        (lambda a, b, c, d: a + b + c * d, 4, "2 and 3"),
        (lambda a, b, y: (a - 2 * b) * y, (2, 1), "1 and 2"),
        (lambda x, a, b: x * (a - b), (1, 2), "2 and 3"),
    ],
)
def test_a_function_that_is_not_symmetric_is_refused(function, degrees, where, vectorized):
    with pytest.raises(ValueError, match=rf"'mine' is not symmetric .*swapping arguments {where} changes .*Average it"):
        refused(function, degrees, vectorized=vectorized)


def test_asymmetry_is_seen_where_nearly_all_rows_are_equal():
    z = np.zeros(2000)
    z[:5] = 1.0
    for seed in range(5):
        with pytest.raises(ValueError, match="not symmetric"):
            refused(lambda a, b: a * (1 - b), sample=np.random.default_rng(seed).permutation(z))
    with pytest.raises(ValueError, match="not symmetric"):
        refused(lambda a, b: a[0] * (1 - b[0]), sample=np.stack([z, z], axis=1))


def test_asymmetry_is_seen_beside_an_infinite_value():
    z = np.array([1e200, -1e200, 1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="not symmetric"):
        refused(lambda a, b: (a * b) ** 2 + a, sample=z)


def test_long_samples_are_probed_on_some_of_their_rows():
    z = np.random.default_rng(16).normal(size=20_000)
    kernel = Kernel(lambda a, b: np.abs(a - b))
    found = ov.u_statistic(z, kernel=kernel, contamination=0, n_blocks=2000, rng=0)
    named = ov.u_statistic(z, kernel="gini", contamination=0, n_blocks=2000, rng=0)
    np.testing.assert_allclose(found.block_values, named.block_values, rtol=1e-12)


def test_a_symmetric_function_is_accepted_on_equal_rows():
    assert refused(lambda a, b: a + b, sample=np.full(10, 3.0)).estimate == 6.0


@pytest.mark.parametrize(
    ("function", "degrees"),
    [(lambda a: a, 2), (lambda a, b, c: a, 2), (lambda a, b: a, (2, 1)), (math.sqrt, 2), (lambda a, *, b: a, 2)],
)
def test_a_function_of_the_wrong_arity_is_refused_at_once(function, degrees):
    needed = sum(np.atleast_1d(degrees))
    with pytest.raises(TypeError, match=rf"'mine' must take {needed} arguments, one per slot of degrees=\("):
        Kernel(function, degrees, name="mine")


def test_optional_arguments_do_not_matter():
    assert refused(lambda a, b, power=2: abs(a - b) ** power).estimate > 0


@pytest.mark.parametrize(
    ("function", "vectorized", "message"),
    [
        (lambda a, b: np.array([a, b]), None, r"'mine' returned shape \(2,\) for one tuple; expected a single number"),
        (lambda a, b: [a + b], False, r"'mine' returned shape \(1,\) for one tuple"),
        (lambda a, b: (a + b).sum(), True, r"'mine' returned shape \(\) for 12 tuples; expected \(12,\)"),
        (lambda a, b: (a + b)[:, None], True, r"'mine' returned shape \(12, 1\) for 12 tuples"),
        (lambda a, b: np.nan, None, "'mine' returned NaN"),
        (lambda a, b: (a + b) * np.nan, True, "'mine' returned NaN"),
        (lambda a, b: np.log(-1 - np.abs(a * b)), None, "'mine' returned NaN"),
    ],
)
def test_a_wrong_shape_or_nan_is_refused(function, vectorized, message):
    with pytest.raises(ValueError, match=message):
        refused(function, vectorized=vectorized)


def test_nan_on_a_tuple_that_was_not_tried_is_refused_too():
    z = np.ones(2000)
    with pytest.raises(ValueError, match="'mine' returned NaN for a tuple of finite rows"):
        refused(lambda a, b: np.where(a * b > 0, np.nan, 0.0) if len(a) > 12 else a * b, sample=z, vectorized=True)


@pytest.mark.parametrize("value", ["large", None, 1 + 2j, {"value": 1}])
def test_what_is_no_real_number_is_refused(value):
    with pytest.raises(TypeError, match=r"'mine' returned .* values; expected real numbers"):
        refused(lambda a, b: value)


def test_an_error_in_the_function_is_the_users_to_see():
    with pytest.raises(ZeroDivisionError):
        refused(lambda a, b: 1 // 0)


def test_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="function=3 is not callable"):
        Kernel(3)


@pytest.mark.parametrize("degrees", [0, -1, 1.5, True, None, (), (2, 0), (2, 1.0), (True,), "2"])
def test_wrong_degrees_are_refused(degrees):
    with pytest.raises(ValueError, match=r"degrees=.* must hold an integer of at least 1 for each sample"):
        Kernel(max, degrees)


@pytest.mark.parametrize("degrees", [2, (2,), [2], np.array([2]), np.int64(2)])
def test_degrees_in_any_spelling(degrees):
    kernel = Kernel(max, degrees)
    assert kernel.degrees == (2,)
    assert all(type(d) is int for d in kernel.degrees)


@pytest.mark.parametrize("bounds", [(1.0, 0.0), (1.0, 1.0), (0.0, math.nan), 5, (1.0,), ("a", "b"), (0, 1, 2)])
def test_wrong_bounds_are_refused(bounds):
    with pytest.raises(ValueError, match=r"bounds=.* must be \(low, high\), finite, with low < high"):
        Kernel(max, bounds=bounds)


def test_bounds_and_names_are_kept():
    kernel = Kernel(lambda a, b: a, bounds=(0, 1))
    assert (kernel.bounds, kernel.name) == ((0, 1), "lambda")
    assert kernel.fit([np.ones(3)]).bounds == (0, 1)
    assert Kernel(max, name="largest").name == "largest"

    class Callable:
        def __call__(self, a, b):
            return a + b

    assert Kernel(Callable()).name == "kernel"


# --- names -----------------------------------------------------------------------------------------------


def test_the_named_kernels_are_those_of_the_manual():
    expected = {"variance", "covariance", "gini", "wilcoxon", "kendall", "mann-whitney", "auc", "mmd", "energy"}
    assert set(KERNELS) == expected
    assert all(kernel_of(name) is kernel for name, kernel in KERNELS.items())
    assert KERNELS["wilcoxon"].bounds == (0.0, 1.0)
    assert KERNELS["kendall"].bounds == (-1.0, 1.0)
    assert KERNELS["mmd"].degrees == KERNELS["energy"].degrees == (2, 2)


@pytest.mark.parametrize(
    ("name", "near"),
    [("varience", "variance"), ("Gini", "gini"), ("mann_whitney", "mann-whitney"), ("Mann Whitney", "mann-whitney")],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, near):
    with pytest.raises(ValueError, match=rf"kernel='{name}' is unknown: did you mean '{near}'\?"):
        kernel_of(name)


def test_a_name_like_no_other_is_answered_with_the_list():
    with pytest.raises(ValueError, match=r"kernel='xyzzy' is unknown: The named ones are variance, .*energy") as caught:
        kernel_of("xyzzy")
    assert "did you mean" not in str(caught.value)


def test_a_bare_function_is_answered_with_the_way_to_wrap_it():
    with pytest.raises(TypeError, match=r"outvote\.Kernel\(function, degrees=\.\.\.\)"):
        kernel_of(max)
    with pytest.raises(TypeError, match=r"kernel=7 must be a name or an outvote\.Kernel"):
        kernel_of(7)


def test_a_kernel_is_itself():
    mine = Kernel(max)
    assert kernel_of(mine) is mine
    with pytest.raises(AttributeError):
        mine.name = "other"


@pytest.mark.parametrize("bandwidth", [0, -1.0, math.inf, math.nan, "wide", None])
def test_wrong_bandwidths_are_refused(bandwidth):
    with pytest.raises(ValueError, match=rf"bandwidth={bandwidth!r} must be a positive number"):
        gaussian_mmd(bandwidth)


# --- samples that do not suit the kernel -------------------------------------------------------------------


def test_the_number_of_samples_must_suit():
    x = np.arange(10.0)
    with pytest.raises(ValueError, match=r"'gini' takes 1 sample \(degrees \(2,\)\), but 2 were given"):
        ov.u_statistic(x, x, kernel="gini", contamination=0)
    with pytest.raises(ValueError, match=r"'auc' takes 2 samples \(degrees \(1, 1\)\), but 1 was given"):
        ov.u_statistic(x, kernel="auc", contamination=0)
    with pytest.raises(TypeError, match="at least one sample"):
        ov.u_statistic(kernel="gini")


@pytest.mark.parametrize("name", ["variance", "gini", "wilcoxon"])
def test_numbers_are_needed_where_the_kernel_takes_numbers(name):
    for columns in (1, 2):
        with pytest.raises(ValueError, match=rf"'{name}' takes numbers, but sample 1 has shape \(10, {columns}\)"):
            ov.u_statistic(np.ones((10, columns)), kernel=name, contamination=0)


@pytest.mark.parametrize("shape", [(10,), (10, 1), (10, 3)])
@pytest.mark.parametrize("name", ["covariance", "kendall"])
def test_pairs_are_needed_where_the_kernel_takes_pairs(name, shape):
    with pytest.raises(ValueError, match=rf"'{name}' takes rows of 2 numbers; sample 1 has shape \(10,"):
        ov.u_statistic(np.ones(shape), kernel=name, contamination=0)


@pytest.mark.parametrize("other", [(9,), (9, 2)])
@pytest.mark.parametrize("name", ["mmd", "energy"])
def test_rows_of_different_lengths_are_not_compared(name, other):
    with pytest.raises(ValueError, match=rf"'{name}' compares rows of the same length.*\(10, 3\) and \(9,"):
        ov.u_statistic(np.ones((10, 3)), np.ones(other), kernel=name, contamination=0)
    with pytest.raises(ValueError, match=r"'auc' takes numbers, but sample 2 has shape"):
        ov.u_statistic(np.ones(10), np.ones((9, 2)), kernel="auc", contamination=0)
