"""Compiled forms of kernels equal their numpy forms and brute force.

With NUMBA_DISABLE_JIT=1 the same tests run every line of outvote/_numba/kernels.py as plain Python.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba_forms import both, using

import outvote as ov
from outvote.blocks.partition import draw
from outvote.kernels import Kernel, kendall
from outvote.kernels import wins as wins_module
from outvote.kernels.wins import AUC, MANN_WHITNEY

numba = pytest.importorskip("numba")
compiled = pytest.importorskip("outvote._numba.functions")

EACH = pytest.mark.parametrize("kernel", [MANN_WHITNEY, AUC], ids=lambda kernel: kernel.name)


def blocks(n_blocks, size, *, tied, seed=0, columns=()):
    rng = np.random.default_rng([seed, n_blocks, size])
    shape = (n_blocks, size, *columns)
    return rng.integers(-2, 3, size=shape) / 2.0 if tied else rng.normal(size=shape)


# --- pairs of two samples ---------------------------------------------------------------------------------


def share_of_wins(kernel, x, y):
    less, equal = x[:, None] < y, x[:, None] == y
    return float(np.sum(less + (equal if kernel is MANN_WHITNEY else equal / 2))) / (len(x) * len(y))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("n_x", "n_y"), [(1, 1), (1, 7), (6, 2), (30, 31)])
@EACH
def test_wins_equal_brute_force(kernel, n_x, n_y, tied):
    x, y = blocks(5, n_x, tied=tied), blocks(4, n_y, tied=tied, seed=1)
    expected = np.array([[share_of_wins(kernel, a, b) for b in y] for a in x])
    np.testing.assert_allclose(both(kernel.grid, x, y), expected, rtol=1e-15)
    np.testing.assert_allclose(both(kernel.aligned, x[:4], y), np.diag(expected), rtol=1e-15)
    np.testing.assert_array_equal(both(kernel.grid, x.astype(np.float32), y), kernel.grid(x.astype(np.float32), y))


small = st.integers(-2, 2).map(float) | st.sampled_from([0.5, -0.0, 1e300, -1e300, 5e-324])


@settings(max_examples=60, deadline=None)
@given(st.lists(small, min_size=12, max_size=12), st.lists(small, min_size=12, max_size=12), st.sampled_from([1, 2, 3]))
def test_wins_of_any_ties_equal_brute_force(x, y, n_x):
    x, y = np.reshape(x, (n_x, -1)), np.reshape(y, (3, -1))
    for kernel in (MANN_WHITNEY, AUC):
        expected = np.array([[share_of_wins(kernel, a, b) for b in y] for a in x])
        np.testing.assert_allclose(both(kernel.grid, x, y), expected, rtol=1e-15)
    np.testing.assert_allclose(both(AUC.aligned, x, x), [share_of_wins(AUC, a, a) for a in x], rtol=1e-15)


@pytest.mark.parametrize("offset", [0.0, 1.0, -1e12, -1e14])
def test_wins_of_values_that_differ_in_their_last_bits(offset):
    # Near 1e14 all values share their leading bits, near 1 only neighbours do.
    spread = 1.0 if offset < 0 else 1e-11
    x, y = (offset + spread * blocks(6, 20, tied=False, seed=s) for s in (0, 1))
    expected = [[share_of_wins(AUC, a, b) for b in y] for a in x]
    np.testing.assert_allclose(both(AUC.grid, x, y), expected, rtol=1e-15)
    order = np.sort(compiled.leading_bits(x.ravel(), 2**62 - 1))  # only the sign of a value is left
    assert len(compiled.settle(x.ravel(), order.copy(), 2**62 - 1, 10)) == 0
    np.testing.assert_array_equal(compiled.settle(x.ravel(), order, 2**62 - 1, x.size**2), np.sort(x, axis=None))
    np.testing.assert_array_equal(x.ravel()[order], np.sort(x, axis=None))


@pytest.mark.parametrize("additions", [1, 32, 2**16, 2**40])
@EACH
def test_narrow_counters_do_not_overflow(monkeypatch, kernel, additions):
    # Every pair is a win: 64 000 or 128 000 in a cell, with counters of 16 bits that hold 65 535.
    monkeypatch.setattr(wins_module, "_ADDITIONS", additions)
    x, y = np.zeros((2, 320)), np.ones((3, 200))
    np.testing.assert_array_equal(both(kernel.grid, x, y), np.ones((2, 3)))


@pytest.mark.parametrize("most", [1, 2, 7])
def test_counters_emptied_often_give_the_same_counts(most):
    order = np.sort(blocks(1, 40, tied=True)[0]), np.repeat(np.arange(2), 20)
    expected, found = np.zeros((2, 2), np.int64), np.zeros((2, 2), np.int64)
    compiled.grid_wins(*order, *order, 2, 1, expected, np.zeros((0, 2), np.int64), 2**50)
    assert expected.sum() > 0
    compiled.grid_wins(*order, *order, 2, 1, np.zeros((2, 2), np.uint16), found, most)
    np.testing.assert_array_equal(found, expected)


def test_counts_are_exact_beyond_float32_and_31_bits():
    x, y = np.arange(5000.0)[None], np.full((1, 4999), 5000.0)
    y[0, 0] = -1.0
    for form in (MANN_WHITNEY.aligned, MANN_WHITNEY.grid):
        assert both(form, x, y).item() * (5000 * 4999) == pytest.approx(5000 * 4998, rel=1e-15)
    zeros, ones = np.zeros((1, 2)), np.ones((1, 3))
    assert compiled.aligned_wins(zeros, ones, 2**31, 1).item() == 3 * 2**32


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize("partition", ["contiguous", "random", "hash"])
@EACH
def test_wins_of_unequal_blocks(kernel, partition, remainder):
    x, y = np.round(blocks(1, 53, tied=False)[0], 1), np.round(blocks(1, 38, tied=False, seed=1)[0], 1)
    options = {"contamination": 0, "n_blocks": 5, "partition": partition, "remainder": remainder, "rng": 0}

    def values(grid):
        return ov.u_statistic(x, y, kernel=kernel, grid=grid, **options).block_values

    grid = both(values, "full")
    parts = [draw(partition, len(sample), 5, 0, stream=s, remainder=remainder) for s, sample in enumerate((x, y))]
    expected = [[share_of_wins(kernel, x[a], y[b]) for b in parts[1]] for a in parts[0]]
    np.testing.assert_allclose(grid, expected, rtol=1e-15)
    np.testing.assert_allclose(both(values, "diagonal"), np.diag(expected), rtol=1e-15)


@EACH
@pytest.mark.parametrize("shapes", [((3, 5, 7), (3, 4, 6)), ((2, 4, 3), (2, 5, 8))])
def test_counts_of_columns_equal_numpy(kernel, shapes):
    rng = np.random.default_rng(0)
    both(kernel.count_form, *(rng.integers(6, size=shape).astype(float) for shape in shapes))


# --- Kendall ----------------------------------------------------------------------------------------------

#: The limits of each method: all pairs of rows, pairs of ranks, ranks merged.
METHODS = [(10**6, 10**6), (0, 10**6), (0, 0)]


def concordance(block):
    signs = np.sign(block[:, None] - block[None])
    return float((signs[..., 0] * signs[..., 1]).sum()) / (len(block) * (len(block) - 1))


def by_every_method(z):
    found = []
    for pairs_up_to, ranks_up_to in METHODS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kendall, "_PAIRS_UP_TO", min(pairs_up_to, 48))
            patch.setattr(kendall, "_COMPILED_PAIRS_UP_TO", pairs_up_to)
            patch.setattr(kendall, "_RANKS_UP_TO", ranks_up_to)
            patch.setattr(kendall, "_COMPILED_RANKS_UP_TO", ranks_up_to)
            found.append(both(kendall.kendall, z))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    return found[0]


@pytest.mark.parametrize("kind", ["untied", "tied", "tied in x", "tied in y"])
@pytest.mark.parametrize("size", [2, 3, 15, 16, 17, 33, 70])
def test_every_kendall_method_equals_brute_force(size, kind):
    z = blocks(3, size, tied=False, columns=(2,))
    tied = blocks(3, size, tied=True, columns=(2,))
    for column, name in enumerate("xy"):
        if kind in ("tied", f"tied in {name}"):
            z[..., column] = tied[..., column]
    np.testing.assert_allclose(by_every_method(z), [concordance(block) for block in z], rtol=1e-14, atol=1e-16)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(small, small), min_size=8, max_size=8))
def test_kendall_of_any_ties_equals_brute_force(rows):
    z = np.array(rows).reshape(2, 4, 2)
    expected = [
        sum(
            ((a[0] > b[0]) - (a[0] < b[0])) * ((a[1] > b[1]) - (a[1] < b[1]))
            for a, b in itertools.combinations(block.tolist(), 2)
        )
        for block in z
    ]
    np.testing.assert_allclose(by_every_method(z), np.array(expected) / 6, rtol=1e-15)


@pytest.mark.parametrize("by_pairs", [True, False])
def test_all_pairs_of_a_reversed_block_are_discordant(by_pairs):
    x = np.arange(600.0)[None]
    order, back = np.arange(600)[None], np.arange(600)[None, ::-1]
    room = np.empty(600, dtype=np.int16)
    found = compiled.concordance_by_rank(x, -x, order, back.copy(), room, by_pairs)
    assert found.tolist() == [-math.comb(600, 2)]


# --- a user's numba functions -------------------------------------------------------------------------------


def gap(a, b):
    return abs(a - b)


jitted_gap = numba.njit(gap)


@pytest.mark.parametrize("size", [2, 3, 5, 130, 261])
def test_sums_over_pairs_equal_brute_force(size):
    z, y = blocks(2, size, tied=False), blocks(3, 7, tied=False, seed=1)
    expected = [sum(gap(a, b) for a, b in itertools.combinations(block.tolist(), 2)) for block in z]
    np.testing.assert_allclose(compiled.sums_within(jitted_gap)(z), expected, rtol=1e-12)
    pairs = np.array([0, 1, 1]), np.array([2, 0, 2])
    for one, other, a, b in ((z, y, *pairs), (y, z, *pairs[::-1])):
        expected = [np.abs(one[i][:, None] - other[j]).sum() for i, j in zip(a, b, strict=True)]
        np.testing.assert_allclose(compiled.sums_across(jitted_gap)(one, other, a, b), expected, rtol=1e-12)
    assert compiled.sums_within(jitted_gap) is compiled.sums_within(jitted_gap)


def with_loops_and_without(function, degrees):
    """Return a numba function as a kernel with compiled loops, and as one with a ufunc."""
    samples = [np.random.default_rng(0).normal(size=50)] * len(degrees)
    jitted = numba.njit(function)
    for module in (compiled, None):
        with using(module):
            yield Kernel(jitted, degrees, name="mine").fit(samples)


@pytest.mark.parametrize("function", [gap, lambda a, b: a + b > 0, lambda a, b: 3 if a * b > 0 else -1])
def test_numba_kernel_loops_equal_its_ufunc(function):
    z, y = blocks(4, 33, tied=False), blocks(3, 21, tied=False, seed=1)
    looped, plain = with_loops_and_without(function, (2,))
    np.testing.assert_allclose(looped.aligned(z), plain.aligned(z), rtol=1e-12)
    np.testing.assert_allclose(looped.aligned(z.astype(np.float32)), plain.aligned(z.astype(np.float32)), rtol=1e-12)
    looped, plain = with_loops_and_without(function, (1, 1))
    np.testing.assert_allclose(looped.grid(z, y), plain.grid(z, y), rtol=1e-12)
    np.testing.assert_allclose(looped.aligned(z[:3], y), np.diag(plain.grid(z[:3], y)), rtol=1e-12)


@pytest.mark.parametrize("degrees", [(2,), (1, 1)])
def test_numba_kernel_that_overflows_or_returns_nan(degrees):
    z = blocks(3, 5, tied=False)
    z[1, :2] = 1.7e308, -1.7e308
    z[2] = 1.6e308
    stacks = [z] * len(degrees)
    for kernel in with_loops_and_without(lambda a, b: a * b, degrees):
        values = kernel.aligned(*stacks)
        assert math.isfinite(values[0])
        assert np.isinf(values[1:]).all()
    for kernel in with_loops_and_without(lambda a, b: math.nan if a * b > 1e30 else a * b, degrees):
        assert math.isfinite(kernel.aligned(*(stack[:1] for stack in stacks))[0])
        with pytest.raises(ValueError, match="'mine' returned NaN for a tuple of finite rows"):
            kernel.aligned(*stacks)


def test_average_is_finite_where_the_sum_overflows():
    x, y = np.full((1, 5), 1.6e308), np.full((1, 5), 1.6e308)
    for kernel in with_loops_and_without(lambda a, b: max(a, b), (1, 1)):
        assert kernel.grid(x, y)[0, 0] == pytest.approx(1.6e308, rel=1e-12)
