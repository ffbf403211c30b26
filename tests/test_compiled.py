"""The compiled forms against their numpy forms and brute force.

With NUMBA_DISABLE_JIT=1 the same tests run every line of compiled.py as plain Python.
"""

from __future__ import annotations

import contextlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote._numba import partitions
from outvote.blocks import one_pass
from outvote.blocks.partition import draw, hash_coefficients, hash_rows
from outvote.estimate import scales
from outvote.estimate.moments import Moments
from outvote.kernels import closed_forms
from outvote.kernels.kernel import KERNELS, Kernel
from outvote.learning.epoch_blocks import EpochBlocks
from outvote.learning.losses import MetricHinge, PairHinge, PairLogistic, ProductHinge
from outvote.learning.scaling import ScaledRows
from outvote.votes import medians_of_counts
from outvote.votes.soft import soft_tuning, soft_vote

numba = pytest.importorskip("numba")
compiled = pytest.importorskip("outvote._numba.functions")


@contextlib.contextmanager
def using(module, **constants):
    """Compute with the compiled forms, or with numpy alone if `module` is None."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("outvote._numba.compiled", lambda seconds: module)
        for name, value in constants.items():
            patch.setattr(closed_forms, name, value)
        yield


def both(function, *arguments, **constants):
    """Return what numpy gives, once the compiled form has given exactly the same."""
    with using(None, **constants):
        by_numpy = function(*arguments)
    with using(compiled, **constants):
        np.testing.assert_array_equal(function(*arguments), by_numpy)
    return by_numpy


def blocks(n_blocks, size, *, tied, seed=0, columns=()):
    rng = np.random.default_rng([seed, n_blocks, size])
    shape = (n_blocks, size, *columns)
    return rng.integers(-2, 3, size=shape) / 2.0 if tied else rng.normal(size=shape)


# --- pairs of two samples ---------------------------------------------------------------------------------


def wins(name, x, y):
    less, equal = x[:, None] < y, x[:, None] == y
    return float(np.sum(less + (equal if name == "mann-whitney" else equal / 2))) / (len(x) * len(y))


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize(("n_x", "n_y"), [(1, 1), (1, 7), (6, 2), (30, 31)])
@pytest.mark.parametrize("name", ["mann-whitney", "auc"])
def test_wins_are_those_of_all_pairs(name, n_x, n_y, tied):
    x, y = blocks(5, n_x, tied=tied), blocks(4, n_y, tied=tied, seed=1)
    expected = np.array([[wins(name, a, b) for b in y] for a in x])
    kernel = KERNELS[name]
    np.testing.assert_allclose(both(kernel.grid, x, y), expected, rtol=1e-15)
    np.testing.assert_allclose(both(kernel.aligned, x[:4], y), np.diag(expected), rtol=1e-15)
    np.testing.assert_array_equal(both(kernel.grid, x.astype(np.float32), y), kernel.grid(x.astype(np.float32), y))


small = st.integers(-2, 2).map(float) | st.sampled_from([0.5, -0.0, 1e300, -1e300, 5e-324])


@settings(max_examples=60, deadline=None)
@given(st.lists(small, min_size=12, max_size=12), st.lists(small, min_size=12, max_size=12), st.sampled_from([1, 2, 3]))
def test_wins_with_any_ties(x, y, n_x):
    x, y = np.reshape(x, (n_x, -1)), np.reshape(y, (3, -1))
    for name in ("mann-whitney", "auc"):
        expected = np.array([[wins(name, a, b) for b in y] for a in x])
        np.testing.assert_allclose(both(KERNELS[name].grid, x, y), expected, rtol=1e-15)
    np.testing.assert_allclose(both(KERNELS["auc"].aligned, x, x), [wins("auc", a, a) for a in x], rtol=1e-15)


@pytest.mark.parametrize("offset", [0.0, 1.0, -1e12, -1e14])
def test_values_that_differ_in_their_last_bits_are_told_apart(offset):
    # Next to 1e14 the leading bits say nothing, next to 1 only near neighbours share them.
    spread = 1.0 if offset < 0 else 1e-11
    x, y = (offset + spread * blocks(6, 20, tied=False, seed=s) for s in (0, 1))
    expected = [[wins("auc", a, b) for b in y] for a in x]
    np.testing.assert_allclose(both(KERNELS["auc"].grid, x, y), expected, rtol=1e-15)
    order = np.sort(compiled.leading_bits(x.ravel(), 2**62 - 1))  # nothing but the sign is left of a value
    assert len(compiled.settle(x.ravel(), order.copy(), 2**62 - 1, 10)) == 0
    np.testing.assert_array_equal(compiled.settle(x.ravel(), order, 2**62 - 1, x.size**2), np.sort(x, axis=None))
    np.testing.assert_array_equal(x.ravel()[order], np.sort(x, axis=None))


@pytest.mark.parametrize("additions", [1, 32, 2**16, 2**40])
def test_counters_of_any_width_are_emptied_in_time(additions):
    # Every pair is a win: 64 000 or 128 000 in a cell, with counters of 16 bits that hold 65 535.
    x, y = np.zeros((2, 320)), np.ones((3, 200))
    for name in ("mann_whitney_grid", "auc_grid"):
        np.testing.assert_array_equal(both(getattr(closed_forms, name), x, y, _ADDITIONS=additions), np.ones((2, 3)))
    order = np.sort(blocks(1, 40, tied=True)[0]), np.repeat(np.arange(2), 20)
    expected = np.zeros((2, 2), np.int64)
    compiled.grid_wins(*order, *order, 2, 1, expected, np.zeros((0, 2), np.int64), 2**50)
    assert expected.sum() > 0
    for most in (1, 2, 7):
        found = np.zeros((2, 2), np.int64)
        compiled.grid_wins(*order, *order, 2, 1, np.zeros((2, 2), np.uint16), found, most)
        np.testing.assert_array_equal(found, expected)


def test_counts_beyond_float32_and_31_bits_are_exact():
    x, y = np.arange(5000.0)[None], np.full((1, 4999), 5000.0)
    y[0, 0] = -1.0
    expected = 5000 * 4998
    for form in (closed_forms.mann_whitney, closed_forms.mann_whitney_grid):
        assert both(form, x, y).item() * (5000 * 4999) == pytest.approx(expected, rel=1e-15)
    with using(None):
        assert closed_forms._wins_in_order(x, y, x_first=True).item() == expected
    zeros, ones = np.zeros((1, 2**16)), np.ones((1, 2**16))
    with using(None):
        assert closed_forms._wins(zeros, ones, below=2, tie=1).item() == 2**33
        assert closed_forms._wins_grid(zeros, ones, below=2, tie=1).item() == 2**33
    assert compiled.aligned_wins(zeros[:, :2], ones[:, :3], 2**31, 1).item() == 3 * 2**32


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize("partition", ["contiguous", "random", "hash"])
@pytest.mark.parametrize("name", ["mann-whitney", "auc"])
def test_blocks_of_unequal_sizes(name, partition, remainder):
    x, y = np.round(blocks(1, 53, tied=False)[0], 1), np.round(blocks(1, 38, tied=False, seed=1)[0], 1)
    options = {"contamination": 0, "n_blocks": 5, "partition": partition, "remainder": remainder, "rng": 0}

    def values(grid):
        found = ov.u_statistic(x, y, kernel=name, grid=grid, **options)
        return found.block_values

    grid = both(values, "full")
    parts = [draw(partition, len(sample), 5, 0, stream=s, remainder=remainder) for s, sample in enumerate((x, y))]
    expected = [[wins(name, x[a], y[b]) for b in parts[1]] for a in parts[0]]
    np.testing.assert_allclose(grid, expected, rtol=1e-15)
    np.testing.assert_allclose(both(values, "diagonal"), np.diag(expected), rtol=1e-15)


# --- Kendall ----------------------------------------------------------------------------------------------

#: Every method there is: all pairs, pairs of ranks, ranks merged.
METHODS = [(10**6, 10**6), (0, 10**6), (0, 0)]


def concordance(block):
    signs = np.sign(block[:, None] - block[None])
    return float((signs[..., 0] * signs[..., 1]).sum()) / (len(block) * (len(block) - 1))


def by_every_method(z):
    found = []
    for pairs_up_to, ranks_up_to in METHODS:
        limits = {
            "_KENDALL_PAIRS_UP_TO": min(pairs_up_to, 48),
            "_COMPILED_PAIRS_UP_TO": pairs_up_to,
            "_RANKS_UP_TO": ranks_up_to,
            "_COMPILED_RANKS_UP_TO": ranks_up_to,
        }
        found.append(both(closed_forms.kendall, z, **limits))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    return found[0]


@pytest.mark.parametrize("kind", ["untied", "tied", "tied in x", "tied in y"])
@pytest.mark.parametrize("size", [2, 3, 15, 16, 17, 33, 70])
def test_kendall_by_every_method(size, kind):
    z = blocks(3, size, tied=False, columns=(2,))
    tied = blocks(3, size, tied=True, columns=(2,))
    for column, name in enumerate("xy"):
        if kind in ("tied", f"tied in {name}"):
            z[..., column] = tied[..., column]
    np.testing.assert_allclose(by_every_method(z), [concordance(block) for block in z], rtol=1e-14, atol=1e-16)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(small, small), min_size=8, max_size=8))
def test_kendall_with_any_ties(rows):
    z = np.array(rows).reshape(2, 4, 2)
    expected = [
        sum(
            ((a[0] > b[0]) - (a[0] < b[0])) * ((a[1] > b[1]) - (a[1] < b[1]))
            for a, b in itertools.combinations(block.tolist(), 2)
        )
        for block in z
    ]
    np.testing.assert_allclose(by_every_method(z), np.array(expected) / 6, rtol=1e-15)


def test_a_reversed_block_has_all_pairs_discordant():
    z = np.stack([np.arange(600.0), -np.arange(600.0)], axis=1)[None]  # more than a counter of 8 bits holds
    with using(None, _KENDALL_PAIRS_UP_TO=0):
        assert closed_forms.kendall(z).tolist() == [-1.0]
    order, back = np.arange(600)[None], np.arange(600)[None, ::-1]
    room = np.empty(600, dtype=np.int16)
    for by_pairs in (True, False):
        found = compiled.concordance_by_rank(z[..., 0], z[..., 1], order, back.copy(), room, by_pairs)
        assert found.tolist() == [-math.comb(600, 2)]


# --- a user's numba functions -------------------------------------------------------------------------------


def gap(a, b):
    return abs(a - b)


jitted_gap = numba.njit(gap)


@pytest.mark.parametrize("size", [2, 3, 5, 130, 261])
def test_sums_of_a_function_over_pairs(size):
    z, y = blocks(2, size, tied=False), blocks(3, 7, tied=False, seed=1)
    function = jitted_gap
    expected = [sum(gap(a, b) for a, b in itertools.combinations(block.tolist(), 2)) for block in z]
    np.testing.assert_allclose(compiled.sums_within(function)(z), expected, rtol=1e-12)
    pairs = np.array([0, 1, 1]), np.array([2, 0, 2])
    for one, other, a, b in ((z, y, *pairs), (y, z, *pairs[::-1])):
        expected = [np.abs(one[i][:, None] - other[j]).sum() for i, j in zip(a, b, strict=True)]
        np.testing.assert_allclose(compiled.sums_across(function)(one, other, a, b), expected, rtol=1e-12)
    assert compiled.sums_within(function) is compiled.sums_within(function)


def kernels(function, degrees):
    """A numba function as a kernel with compiled loops, and with a ufunc; both call it where numba is switched off."""
    samples = [np.random.default_rng(0).normal(size=50)] * len(degrees)
    jitted = numba.njit(function)
    for module in (compiled, None):
        with using(module):
            yield Kernel(jitted, degrees, name="mine").fit(samples)


@pytest.mark.parametrize("function", [gap, lambda a, b: a + b > 0, lambda a, b: 3 if a * b > 0 else -1])
def test_a_numba_kernel_gives_the_same_by_loops_and_by_ufunc(function):
    z, y = blocks(4, 33, tied=False), blocks(3, 21, tied=False, seed=1)
    looped, plain = kernels(function, (2,))
    np.testing.assert_allclose(looped.aligned(z), plain.aligned(z), rtol=1e-12)
    np.testing.assert_allclose(looped.aligned(z.astype(np.float32)), plain.aligned(z.astype(np.float32)), rtol=1e-12)
    looped, plain = kernels(function, (1, 1))
    np.testing.assert_allclose(looped.grid(z, y), plain.grid(z, y), rtol=1e-12)
    np.testing.assert_allclose(looped.aligned(z[:3], y), np.diag(plain.grid(z[:3], y)), rtol=1e-12)


def test_a_numba_kernel_that_overflows_or_gives_nan():
    z = blocks(3, 5, tied=False)
    z[1, :2] = 1.7e308, -1.7e308
    z[2] = 1.6e308
    for degrees in ((2,), (1, 1)):
        stacks = [z] * len(degrees)
        for kernel in kernels(lambda a, b: a * b, degrees):
            values = kernel.aligned(*stacks)
            assert math.isfinite(values[0])
            assert np.isinf(values[1:]).all()
        for kernel in kernels(lambda a, b: math.nan if a * b > 1e30 else a * b, degrees):
            assert math.isfinite(kernel.aligned(*(stack[:1] for stack in stacks))[0])
            with pytest.raises(ValueError, match="'mine' returned NaN for a tuple of finite rows"):
                kernel.aligned(*stacks)
    for kernel in kernels(lambda a, b: max(a, b), (1, 1)):
        found = kernel.grid(z[1:], z[:1] * 0 + 1.6e308)
        assert found[1, 0] == pytest.approx(1.6e308, rel=1e-12)  # the sum of the values is infinite, their mean is not


@pytest.mark.parametrize("form", [closed_forms.mann_whitney_counts, closed_forms.auc_counts])
@pytest.mark.parametrize("shapes", [((3, 5, 7), (3, 4, 6)), ((2, 4, 3), (2, 5, 8))])
def test_grids_of_columns(form, shapes):
    rng = np.random.default_rng(0)
    both(form, *(rng.integers(6, size=shape).astype(float) for shape in shapes))


@pytest.mark.parametrize("n_each", [1, 2, 7, 8, 101])
def test_medians_of_counts(n_each):
    counts = np.random.default_rng(0).integers(5, size=(4, n_each)).astype(np.uint8)
    np.testing.assert_array_equal(both(medians_of_counts, counts), np.median(counts, axis=1))


# --- partitions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
@pytest.mark.parametrize(("n_rows", "n_blocks"), [(3000, 1), (9001, 10), (20_000, 101), (18_000, 17_000)])
def test_drawn_partitions_and_their_sums_are_the_same(n_rows, n_blocks, dtype):
    x = np.random.default_rng(0).normal(scale=100, size=n_rows).astype(dtype)

    def drawn():
        dealt = one_pass.Drawn(n_rows, n_blocks, "drop", np.random.default_rng(1))
        return dealt.labels, dealt.sums(x), dealt.sums(x[::-1])

    with using(None):
        expected = drawn()
    with using(compiled), np.errstate(over="ignore"):  # numbers that wrap around warn in plain Python
        for found, right in zip(drawn(), expected, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-13)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(
    ("n_rows", "n_blocks", "stepped_from"), [(3000, 1, 999), (9001, 10, 999), (13_000, 101, 999), (13_000, 101, 100)]
)
def test_segments_add_up_the_same(monkeypatch, n_rows, n_blocks, columns, stepped_from):
    monkeypatch.setattr(one_pass, "_GROUP", 700)
    monkeypatch.setattr(one_pass, "_PLACES", (4, 8))
    monkeypatch.setattr(one_pass, "_STEPPED_FROM", stepped_from)
    x = np.random.default_rng(0).normal(size=(n_rows, columns) if columns > 1 else n_rows)
    for seed in range(4):
        dealt = one_pass.Segments(n_rows, n_blocks, columns, "spread", np.random.default_rng(seed))
        for rows in (x, x.astype(np.float32), x[::-1], np.asfortranarray(x)):
            with using(None):
                expected = dealt.sums(rows)
            with using(compiled):
                np.testing.assert_allclose(dealt.sums(rows), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bits", [3, 20, 31, 32, 33, 50])
def test_numbers_are_scrambled_the_same(bits):
    keys = np.random.default_rng(bits).integers(2**bits, size=(6, 2), dtype=np.uint64)
    rows, first = np.empty(100, dtype=np.int64), min(5, 2**bits - 1)
    with np.errstate(over="ignore"):
        partitions._scramble(np.uint64(first), keys, np.uint64(bits), rows)
    numbers = np.arange(first, first + 100, dtype=np.uint64) & np.uint64(2**bits - 1)
    np.testing.assert_array_equal(rows, one_pass._scrambled(numbers, keys, bits))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_variances_of_rows_are_the_same(dtype):
    x = np.random.default_rng(0).normal(1e3, 10, size=(300, 7)).astype(dtype)
    order = np.random.default_rng(1).integers(300, size=40)
    expected = [np.var(x[order[k : k + 8]].astype(np.float64), axis=0, ddof=1) for k in range(0, 40, 8)]
    for module in (None, compiled):
        with using(module):
            np.testing.assert_allclose(scales._variances(x, order, 8), expected, rtol=1e-12)


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n_rows", "width"), [(900, 10), (900, 80), (2503, 80)])
def test_wide_rows_add_up_the_same(remainder, dtype, n_rows, width):
    x = np.random.default_rng(0).normal(size=(n_rows, width, 7)).astype(dtype)
    dealt = draw("random", n_rows, 2 if n_rows < 1000 else 3, 0, remainder=remainder)
    for rows in (x, x[::-1]):
        with using(None):
            expected = dealt.sums(rows)
        with using(compiled):
            np.testing.assert_allclose(dealt.sums(rows), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="too many rows for plain Python")
@pytest.mark.parametrize("module", [None, compiled], ids=["numpy", "numba"])
@pytest.mark.parametrize("kind", ["random", "uniform", "contiguous"])
def test_sums_stay_precise_far_from_zero(kind, module):
    """Block means of rows near 1e8 are right to 1e-14, by every way to add them up."""
    n_rows, n_blocks = 2**21, 101
    x = np.random.default_rng(0).normal(size=n_rows) + 1e8
    with using(module):
        dealt = draw(kind, n_rows, n_blocks, 0, one_pass=True)
        means = dealt.sums(x) / dealt.sizes
    for k in range(0, n_blocks, 25):
        assert means[k] == pytest.approx(math.fsum(x[dealt[k]]) / dealt.sizes[k], rel=1e-14, abs=0)


# --- row numbers and moments ----------------------------------------------------------------------------

prime = 2**31 - 1


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_row_numbers_of_any_size_have_the_same_hash(seed):
    edges = [*range(-3, 4), prime, 2 * prime, 2**32, 2**53, 2**62, 2**63 - 1, -(2**31), -(2**53), -(2**63)]
    near = [edge + step for edge in edges for step in (-1, 0, 1) if -(2**63) <= edge + step < 2**63]
    ids = np.array([*near, *np.random.default_rng(seed).integers(-(2**63), 2**63, size=200)])
    b, *rest = hash_coefficients(seed)
    expected = []
    for i in ids.tolist():
        u = (i % prime + b * (i // prime)) % prime
        expected.append((u**4 + rest[0] * u**3 + rest[1] * u**2 + rest[2] * u) % prime + rest[3])
    np.testing.assert_array_equal(both(hash_rows, ids, seed), expected)
    np.testing.assert_array_equal(both(hash_rows, ids[ids >= 0][:20].reshape(4, 5), seed, 1).shape, (4, 5))
    out = np.empty(len(ids), dtype=np.int64)
    assert both(lambda: hash_rows(ids, seed, out=out)) is out


@pytest.mark.parametrize("columns", [1, 4])
@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_moments_are_the_same(columns, offset):
    rng = np.random.default_rng(columns)
    x, cells = offset + rng.normal(size=(3000, columns)), rng.integers(0, 12, size=3000)
    cells[cells == 5] = 4  # a cell without rows

    def moments():
        found = Moments(12, columns)
        found.add(x[:2000], cells[:2000])
        found.add(x[2000:], cells[2000:])
        return found.arrays

    for module in (None, compiled):
        with using(module):
            counts, means, m2 = moments()
        np.testing.assert_array_equal(counts, np.bincount(cells, minlength=12))
        for k in range(12):
            rows = x[cells == k] - offset
            expected = rows.mean(axis=0) if len(rows) else 0.0
            np.testing.assert_allclose(means[k] - offset * (len(rows) > 0), expected, atol=1e-14 + 3e-16 * offset)
            np.testing.assert_allclose(m2[k], np.sum((rows - expected) ** 2, axis=0), rtol=1e-12 + 1e-16 * offset)


@pytest.mark.parametrize("columns", [1, 2])
def test_moments_of_numbers_of_any_size(columns):
    x = np.array([1.7e308, 1.7e308, -1.7e308, 1e200, 3.0, 1e-300])[:, None] * np.ones(columns)
    cells = np.array([0, 0, 0, 1, 1, 2])
    for module in (None, compiled):
        found = Moments(4, columns)
        with using(module):
            found.add(x, cells)
        np.testing.assert_allclose(found.means, np.array([[1.7e308 / 3], [5e199], [1e-300], [0]]) * np.ones(columns))
        np.testing.assert_array_equal(found.m2, np.array([[math.inf], [math.inf], [0], [0]]) * np.ones(columns))


# --- votes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_bad", [0, 3, 40])
@pytest.mark.parametrize("offset", [0.0, 1e8, -1e-9])
@pytest.mark.parametrize("n_votes", [5, 513, 9000])
def test_soft_votes_are_the_same(n_votes, offset, n_bad):
    if 2 * n_bad >= n_votes:
        return
    votes = offset + np.random.default_rng(n_votes).exponential(size=n_votes)
    votes[:n_bad] = [math.inf, -1e300, 1e5] * 13 + [4.0] if n_bad == 40 else 1e6
    tuning = soft_tuning(n_votes, n_bad, log_delta=math.log(0.9))
    with using(None):
        expected = soft_vote(votes, 1.0, tuning)
    with using(compiled):
        assert soft_vote(votes, 1.0, tuning) == pytest.approx(expected, rel=1e-12, abs=1e-12)


# --- pairs of scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [PairLogistic(), PairHinge(), ProductHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize(("size", "n_blocks"), [(2, 3), (40, 1), (140, 1), (5, 130), (17, 9), (130, 9)])
def test_risks_and_slopes_of_pairs_are_the_same(loss, size, n_blocks):
    rng = np.random.default_rng(size)
    targets = rng.integers(0, 4, size=(size, n_blocks)).astype(np.float64)
    near = rng.normal(size=(size, n_blocks))
    far = near.copy()
    far[0, ::2], far[1, ::3] = 1e5, -60.0
    for scores in (near, far, 1e3 * near):
        with using(None):
            expected = loss.risks(scores, targets), loss.slopes(scores, targets)
        with using(compiled):
            for found, right in zip((loss.risks(scores, targets), loss.slopes(scores, targets)), expected, strict=True):
                np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("loss", [PairLogistic(), PairHinge(), ProductHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize(("size", "n_blocks"), [(2, 3), (40, 1), (3, 3000), (17, 9)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_risks_from_all_rows_are_the_same(loss, size, n_blocks, dtype):
    rng = np.random.default_rng(size)
    n_rows = size * n_blocks + 1
    scores, targets = rng.normal(size=n_rows), rng.integers(0, 4, size=n_rows).astype(np.float64)
    order = rng.permutation(n_rows)[:-1].reshape(size, n_blocks).astype(dtype)
    for turns in (None, rng.integers(n_blocks, size=size)):
        blocks = EpochBlocks(order, turns)
        rows = blocks.rows()
        expected = loss.risks(scores[rows], targets[rows])
        for module in (None, compiled):
            with using(module):
                np.testing.assert_allclose(loss.risks_of(scores, targets, blocks), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("loss", [PairLogistic(), PairHinge(), MetricHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("n_blocks", [3, 20])
def test_a_score_that_is_not_a_number_spoils_its_block_and_no_other(loss, n_blocks):
    rng = np.random.default_rng(0)
    scores, targets = rng.normal(size=5 * n_blocks), rng.permutation(5.0 * np.arange(5 * n_blocks))
    blocks = EpochBlocks(np.arange(5 * n_blocks).reshape(5, n_blocks))
    scores[0], scores[[1, 1 + n_blocks]] = np.nan, np.inf
    for module in (None, compiled):
        with using(module), np.errstate(invalid="ignore"):
            risks = loss.risks_of(scores[:, None] if loss.name == "metric" else scores, targets, blocks)
        assert np.flatnonzero(np.isnan(risks)).tolist() == [0, 1]


@pytest.mark.parametrize("width", [1, 3, 4, 10])
@pytest.mark.parametrize("intercept", [False, True])
def test_scores_of_narrow_rows_are_the_same(width, intercept):
    rng = np.random.default_rng(width)
    x, weights = rng.normal(size=(50, width)), rng.normal(size=width + intercept)
    centre, scale = rng.normal(size=width), rng.uniform(1, 2, size=width)
    expected = (x - centre) / scale @ weights[:width] + (weights[-1] if intercept else 0.0)
    for rows in (x, np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2]):
        for module in (None, compiled):
            with using(module):
                found = ScaledRows(rows, centre, scale, intercept).scores(weights)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("width", [1, 4, 7])
def test_risks_of_a_metric_are_the_same(width):
    rng = np.random.default_rng(width)
    scores, classes = rng.normal(size=(60, width)), rng.integers(0, 3, size=60)
    blocks = EpochBlocks(rng.permutation(60)[:48].reshape(6, 8), rng.integers(8, size=6))
    with using(None):
        expected = MetricHinge().risks_of(scores, classes, blocks)
    with using(compiled):
        np.testing.assert_allclose(MetricHinge().risks_of(scores, classes, blocks), expected, rtol=1e-12)


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize(("size", "n_blocks"), [(2, 5), (9, 4), (30, 1)])
def test_gradients_of_a_metric_are_the_same(size, n_blocks, clipped):
    rng = np.random.default_rng(size)
    n_rows = size * n_blocks
    classes, rows = rng.integers(0, 3, size=n_rows), rng.permutation(n_rows).reshape(size, n_blocks)
    design = ScaledRows(rng.normal(size=(n_rows, 4)), np.zeros(4), np.ones(4))
    scores = MetricHinge().scores(design, 0.4 * np.eye(4))

    def gradient():
        return MetricHinge().gradient_of(design, rows, scores, classes, clipped=clipped)

    with using(None):
        expected = gradient()
    assert np.abs(expected).max() > 0
    with using(compiled):
        np.testing.assert_allclose(gradient(), expected, rtol=1e-12, atol=1e-13)
