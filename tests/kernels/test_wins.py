"""Mann-Whitney and AUC: the share of pairs that the second sample wins, by numpy."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_definitions import KINDS, RTOL, TINY, brute_force, sample
from threadpoolctl import threadpool_info

from outvote import _numba
from outvote.kernels import wins as module
from outvote.kernels.wins import AUC, MANN_WHITNEY

pytestmark = pytest.mark.usefixtures("numpy_alone")
BOTH = pytest.mark.parametrize("kernel", [MANN_WHITNEY, AUC], ids=lambda kernel: kernel.name)


@pytest.mark.parametrize("kind", KINDS)
@BOTH
def test_it_equals_its_definition(kernel, kind):
    for n_x, n_y in ((1, 1), (1, 9), (2, 3), (40, 17), (120, 130)):
        x, y = sample(kind, (3, n_x)), sample(kind, (4, n_y), seed=1)
        expected = np.array([[brute_force(kernel, a, b) for b in y] for a in x])
        np.testing.assert_allclose(kernel.grid(x, y), expected, rtol=RTOL)
        np.testing.assert_allclose(kernel.aligned(x, y[:3]), np.diag(expected), rtol=RTOL)


@BOTH
def test_a_grid_may_need_many_tiles_and_batches(monkeypatch, kernel):
    monkeypatch.setattr(module, "_NUMBERS_AT_ONCE", 2**10)
    x, y = sample("tied", (90, 7)), sample("tied", (80, 6), seed=1)
    values = kernel.grid(x, y)
    for k in (0, 41, 89):
        np.testing.assert_array_equal(values[k, :5], [kernel.aligned(x[[k]], y[[b]])[0] for b in range(5)])


@pytest.mark.parametrize("compiled", [False, True], ids=["numpy", "numba"])
@pytest.mark.parametrize("sizes", [(3, 5), (1, 1), (200, 90), (300, 300)])
@BOTH
def test_counts_of_columns_are_the_counts_of_each_column(monkeypatch, kernel, sizes, compiled):
    """Counters have 8 bits for small blocks, more for larger blocks, and are emptied for the largest."""
    if compiled:
        functions = pytest.importorskip("outvote._numba.functions")
        monkeypatch.setattr("outvote._numba.compiled", lambda seconds: functions)
    x, y = (np.round(sample("normal", (4, k, n), seed=k), 1) for k, n in ((3, sizes[0]), (2, sizes[1])))
    less = np.array([[[np.sum(a[:, None] < b) for b in v] for a in u] for u, v in zip(x, y, strict=True)])
    equal = np.array([[[np.sum(a[:, None] == b) for b in v] for a in u] for u, v in zip(x, y, strict=True)])
    expected = (less + equal * (0.5 if kernel is AUC else 1)) / kernel.count_unit
    np.testing.assert_array_equal(kernel.count_form(x, y), expected)
    np.testing.assert_array_equal(kernel.count_form(x.astype(np.float32), y.astype(np.float32)), expected)


@BOTH
def test_the_largest_and_smallest_floats_are_told_apart(kernel):
    big, small = np.array([[-1.7e308, 1.7e308, 0.0, 1.6e308]]), np.array([[-1.0, 1.0, 0.0, 0.9]])
    np.testing.assert_array_equal(kernel.aligned(big, big), kernel.aligned(small, small))
    np.testing.assert_array_equal(kernel.grid(big, big), kernel.grid(small, small))
    steps = np.random.default_rng(0).integers(0, 1000, size=(3, 20)).astype(np.float64)
    tiny = np.ldexp(steps, TINY), np.ldexp(steps + 700, TINY)
    np.testing.assert_array_equal(kernel.aligned(*tiny), kernel.aligned(steps, steps + 700))


def test_signed_zeros_are_ties():
    z = np.tile([0.0, -0.0], (1, 60))
    assert AUC.aligned(z, -z).tolist() == [0.5]


def test_counts_are_exact_beyond_float32_and_31_bits():
    x, y = np.arange(5000.0)[None], np.full((1, 4999), 5000.0)
    y[0, 0] = -1.0
    assert MANN_WHITNEY.count_form(x, y).item() == 5000 * 4998
    zeros, ones = np.zeros((1, 2**16)), np.ones((1, 2**16))
    assert AUC.count_form(zeros, ones).item() == 2**33
    assert AUC.aligned(zeros, ones).item() == 1.0


def test_matrix_products_use_one_thread_until_the_outermost_block_ends():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    _numba._threads.cache_clear()  # other tests may have loaded libraries with thread pools of their own
    before = threads()
    with _numba.one_thread():
        with _numba.one_thread():
            assert set(threads()) == {1}
        assert set(threads()) == {1}
    assert threads() == before
