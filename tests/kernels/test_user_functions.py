"""A user's function: how it is called, and when it is refused."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from kernel_functions import average_over_tuples, evaluate

import outvote as ov
from outvote.kernels import Kernel


def test_rows_of_a_matrix_reach_the_function_as_vectors():
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


def test_samples_may_have_different_widths():
    x, y = np.random.default_rng(5).normal(size=(6, 2)), np.random.default_rng(6).normal(size=5)
    found = evaluate(Kernel(lambda a, b: a[0] * b + a[1], (1, 1)), x, y)
    assert found == pytest.approx(x[:, 0].mean() * y.mean() + x[:, 1].mean())


def test_builtins_are_accepted():
    z = np.random.default_rng(7).normal(size=20)
    for builtin in (max, math.hypot, np.maximum, np.hypot):
        assert evaluate(Kernel(builtin), z) == pytest.approx(average_over_tuples(builtin, (2,), [z]))
        assert Kernel(builtin).name == builtin.__name__


def test_a_function_that_treats_arrays_otherwise_gets_single_rows():
    z = np.random.default_rng(8).normal(size=30)

    def centred(a, b):  # from arrays it subtracts the mean of the batch, from numbers themselves
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


@pytest.mark.parametrize(("degrees", "size"), [((2,), 40), ((1, 1), 3), ((3,), 40)])
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


@pytest.mark.parametrize("degrees", [(2,), (3,), (2, 1), (2, 2)])
def test_the_function_is_called_once_for_each_tuple(degrees):
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


def test_numba_functions_are_accepted():
    numba = pytest.importorskip("numba")
    z = np.random.default_rng(11).normal(size=(15, 2))

    @numba.njit
    def function(a, b):
        total = 0.0
        for i in range(len(a)):
            total += abs(a[i] - b[i])
        return total

    kernel = Kernel(function)
    assert kernel.name == "function"
    expected = average_over_tuples(lambda a, b: np.abs(a - b).sum(), (2,), [z])
    for _ in range(2):
        assert evaluate(kernel, z) == pytest.approx(expected, rel=1e-12)


def test_numba_functions_of_two_samples_and_asymmetric_ones():
    numba = pytest.importorskip("numba")
    x, y = np.arange(5.0), np.arange(4.0) + 0.5
    assert evaluate(Kernel(numba.njit(lambda a, b: 1.0 if a < b else 0.0), (1, 1)), x, y) == np.mean(x[:, None] < y)
    with pytest.raises(ValueError, match="not symmetric"):
        evaluate(Kernel(numba.njit(lambda a, b: a - b)), x)


def estimate(function, degrees=2, sample=None, **options):
    z = np.random.default_rng(15).normal(size=30) if sample is None else sample
    kernel = Kernel(function, degrees, name="mine", **options)
    return ov.u_statistic(*(z + s for s in range(len(kernel.degrees))), kernel=kernel, contamination=0, n_blocks=1)


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
def test_a_function_that_is_not_symmetric_is_refused(function, degrees, where):
    told = rf"'mine' is not symmetric .*swapping arguments {where} changes .*Average it"
    for vectorized in (None, True, False):
        with pytest.raises(ValueError, match=told):
            estimate(function, degrees, vectorized=vectorized)


def test_asymmetry_is_found_where_nearly_all_rows_are_equal():
    z = np.zeros(2000)
    z[:5] = 1.0
    for seed in range(5):
        with pytest.raises(ValueError, match="not symmetric"):
            estimate(lambda a, b: a * (1 - b), sample=np.random.default_rng(seed).permutation(z))
    with pytest.raises(ValueError, match="not symmetric"):
        estimate(lambda a, b: a[0] * (1 - b[0]), sample=np.stack([z, z], axis=1))


def test_asymmetry_is_found_beside_an_infinite_value():
    z = np.array([1e200, -1e200, 1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="not symmetric"):
        estimate(lambda a, b: (a * b) ** 2 + a, sample=z)


def test_long_samples_are_tried_on_some_of_their_rows():
    z = np.random.default_rng(16).normal(size=20_000)
    kernel = Kernel(lambda a, b: np.abs(a - b))
    found = ov.u_statistic(z, kernel=kernel, contamination=0, n_blocks=2000, rng=0)
    named = ov.u_statistic(z, kernel="gini", contamination=0, n_blocks=2000, rng=0)
    np.testing.assert_allclose(found.block_values, named.block_values, rtol=1e-12)


def test_a_symmetric_function_is_accepted_on_equal_rows():
    assert estimate(lambda a, b: a + b, sample=np.full(10, 3.0)).estimate == 6.0


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
def test_a_wrong_shape_and_nan_are_refused(function, vectorized, message):
    with pytest.raises(ValueError, match=message):
        estimate(function, vectorized=vectorized)


def test_nan_is_refused_on_tuples_that_were_not_tried():
    z = np.ones(2000)
    with pytest.raises(ValueError, match="'mine' returned NaN for a tuple of finite rows"):
        estimate(lambda a, b: np.where(a * b > 0, np.nan, 0.0) if len(a) > 12 else a * b, sample=z, vectorized=True)


def test_values_must_be_real_numbers():
    for value in ("large", None, 1 + 2j, {"value": 1}):
        with pytest.raises(TypeError, match=r"'mine' returned .* values; expected real numbers"):
            estimate(lambda a, b, value=value: value)


def test_an_error_of_the_function_reaches_the_user():
    with pytest.raises(ZeroDivisionError):
        estimate(lambda a, b: 1 // 0)


def _in_place(a, b):
    a -= b
    return np.abs(a)


@pytest.mark.parametrize("vectorized", [None, False])
def test_a_kernel_that_works_in_place_is_tried_on_copies(vectorized):
    x = np.random.default_rng(0).normal(size=40)
    found, expected = (
        ov.u_statistic(x, kernel=ov.Kernel(f, name="gap", vectorized=vectorized), contamination=1, rng=0)
        for f in (_in_place, lambda a, b: np.abs(a - b))
    )
    assert found.estimate == pytest.approx(expected.estimate)
