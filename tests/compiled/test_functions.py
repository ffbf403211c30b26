"""Compiled forms equal their numpy forms and brute force.

With NUMBA_DISABLE_JIT=1 the same tests run every line of outvote/_numba as plain Python. test_kernels.py tests the
compiled forms of kernels.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numba_forms import both, using

from outvote.blocks.hashing import hash_coefficients, hash_rows
from outvote.blocks.partition import draw
from outvote.estimate.summary.moments import Moments
from outvote.learning.epoch_blocks import EpochBlocks
from outvote.learning.losses import MetricHinge, PairHinge, PairLogistic, ProductHinge
from outvote.learning.scaling import ScaledRows
from outvote.tables.gathered import Groups, Part
from outvote.votes import medians_of_counts
from outvote.votes.soft import soft_tuning, soft_vote

numba = pytest.importorskip("numba")
compiled = pytest.importorskip("outvote._numba.functions")


@pytest.mark.parametrize("n_each", [1, 2, 7, 8, 101])
def test_medians_of_counts_equal_numpy(n_each):
    counts = np.random.default_rng(0).integers(5, size=(4, n_each)).astype(np.uint8)
    np.testing.assert_array_equal(both(medians_of_counts, counts), np.median(counts, axis=1))


@pytest.mark.parametrize("n_columns", [1, 3])
def test_rows_by_group_keep_their_order(n_columns):
    rng = np.random.default_rng(n_columns)
    values, groups = rng.normal(size=(500, n_columns)), rng.integers(7, size=500).astype(np.uint8)
    part = Part(values, groups, None)
    with using(compiled):
        ours = Groups.of_parts([part], list("abcdefg"), n_columns, omit=False, infinite=False)
    with using(None):
        theirs = Groups.of_parts([part], list("abcdefg"), n_columns, omit=False, infinite=False)
    for found in (ours, theirs):
        for g in range(7):
            for j in range(n_columns):
                np.testing.assert_array_equal(found.group(g, j), values[groups == g, j])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 63, 1000])
def test_histograms_equal_bincount(size):
    values = np.random.default_rng(size).integers(0, 17, size=(3, size)).astype(np.uint8)
    expected = [np.bincount(row, minlength=17) for row in values]
    np.testing.assert_array_equal(compiled.histograms(values, 17), expected)


# --- partitions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n_rows", "width"), [(900, 10), (900, 80), (2503, 80)])
def test_block_sums_of_wide_rows_equal_numpy(remainder, dtype, n_rows, width):
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
def test_block_sums_are_precise_far_from_zero(kind, module):
    """Block means of rows near 1e8 are right to 1e-14, by every way to add them up."""
    n_rows, n_blocks = 2**21, 101
    x = np.random.default_rng(0).normal(size=n_rows) + 1e8
    with using(module):
        dealt = draw(kind, n_rows, n_blocks, 0)
        means = dealt.sums(x) / dealt.sizes
    for k in range(0, n_blocks, 25):
        assert means[k] == pytest.approx(math.fsum(x[dealt[k]]) / dealt.sizes[k], rel=1e-14, abs=0)


# --- row numbers and moments ----------------------------------------------------------------------------

prime = 2**31 - 1


@pytest.mark.parametrize("seed", [0, 1, 2**40])
def test_hashes_of_any_row_numbers_equal_the_formula(seed):
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
def test_moments_equal_brute_force(columns, offset):
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
def test_moments_of_huge_and_tiny_numbers(columns):
    x = np.array([1.7e308, 1.7e308, -1.7e308, 1e200, 3.0, 1e-300])[:, None] * np.ones(columns)
    cells = np.array([0, 0, 0, 1, 1, 2])
    for module in (None, compiled):
        found = Moments(4, columns)
        with using(module):
            found.add(x, cells)
        np.testing.assert_allclose(found.means, np.array([[1.7e308 / 3], [5e199], [1e-300], [0]]) * np.ones(columns))
        np.testing.assert_array_equal(found.m2, np.array([[math.inf], [math.inf], [0], [0]]) * np.ones(columns))


# --- votes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_votes", "n_bad"), [(5, 0), (513, 0), (513, 3), (513, 40), (9000, 0), (9000, 3), (9000, 40)]
)
@pytest.mark.parametrize("offset", [0.0, 1e8, -1e-9])
def test_soft_votes_equal_numpy(n_votes, offset, n_bad):
    votes = offset + np.random.default_rng(n_votes).exponential(size=n_votes)
    votes[:n_bad] = [math.inf, -1e300, 1e5] * 13 + [4.0] if n_bad == 40 else 1e6
    tuning = soft_tuning(n_votes, n_bad, log_delta=math.log(0.9))
    with using(None):
        expected = soft_vote(votes, 1.0, tuning)
    with using(compiled):
        assert soft_vote(votes, 1.0, tuning) == expected


# --- pairs of scores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [PairLogistic(), PairHinge(), ProductHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize(("size", "n_blocks"), [(2, 3), (40, 1), (140, 1), (5, 130), (17, 9), (130, 9)])
def test_risks_and_slopes_of_pairs_equal_numpy(loss, size, n_blocks):
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
def test_risks_from_all_rows_equal_those_of_the_blocks(loss, size, n_blocks, dtype):
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
def test_nan_scores_affect_their_own_block_only(loss, n_blocks):
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
def test_scores_of_narrow_rows_equal_the_matrix_product(width, intercept):
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
def test_risks_of_a_metric_equal_numpy(width):
    rng = np.random.default_rng(width)
    scores, classes = rng.normal(size=(60, width)), rng.integers(0, 3, size=60)
    blocks = EpochBlocks(rng.permutation(60)[:48].reshape(6, 8), rng.integers(8, size=6))
    with using(None):
        expected = MetricHinge().risks_of(scores, classes, blocks)
    with using(compiled):
        np.testing.assert_allclose(MetricHinge().risks_of(scores, classes, blocks), expected, rtol=1e-12)


@pytest.mark.parametrize("clipped", [False, True])
@pytest.mark.parametrize(("size", "n_blocks"), [(2, 5), (9, 4), (30, 1)])
def test_gradients_of_a_metric_equal_numpy(size, n_blocks, clipped):
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
