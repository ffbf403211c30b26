"""Block summaries do not depend on chunks, order or merges, and answer as the rows in memory do."""

from __future__ import annotations

import math
import random

import numpy as np
import pandas as pd
import polars as pl
import pytest
from block_summaries import alike, same_result, state, two_pass
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.blocks.hashing import hash_rows

RNG = np.random.default_rng(0)


@pytest.fixture(params=["numpy", "numba"])
def form(request, monkeypatch):
    """Compute with numpy alone, or with the compiled forms where numba is installed."""
    module = None if request.param == "numpy" else pytest.importorskip("outvote._numba.functions")
    monkeypatch.setattr("outvote._numba.compiled", lambda seconds: module)


# --- updates and merges --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "offset"), [(1, 0.0), (300, 0.0), (50_000, 0.0), (50_000, 1e9)])
def test_moments_of_blocks_equal_exact_sums(form, n_rows, offset):
    x = offset + np.random.default_rng(n_rows).normal(size=n_rows)
    summary, close = ov.BlockSummary(11, 3), {"rtol": 1e-6 if offset else 1e-12}
    for part in np.array_split(x, 1 if not offset else 13):
        assert summary.update(part) is summary
    counts, means, m2 = two_pass(x, 11, 3)
    np.testing.assert_array_equal(summary.counts, counts)
    np.testing.assert_allclose(summary.means, means, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(summary.m2, m2, **close)
    assert summary.n_rows == n_rows
    assert repr(summary) == f"BlockSummary({n_rows} rows in 11 blocks, seed=3)"
    halves = [ov.BlockSummary(11, 3).update(x[rows], ids=np.flatnonzero(rows)) for rows in (x > offset, x <= offset)]
    np.testing.assert_allclose(halves[0].merge(halves[1]).m2, m2, **close)


chunked = st.tuples(st.integers(0, 60), st.integers(1, 8), st.integers(0, 2**32))


@settings(max_examples=40)
@given(chunked, st.sampled_from([(), (3,), (2, 2)]), st.sampled_from([0.0, 5.0, -1e3]))
def test_any_split_order_and_merge_tree_gives_the_same(case, shape, offset):
    n_rows, n_parts, seed = case
    rng, dice = np.random.default_rng(seed), random.Random(seed)
    x, ids = offset + rng.normal(size=(n_rows, *shape)), rng.permutation(10 * n_rows)[:n_rows] - 3 * n_rows
    order = rng.permutation(n_rows)
    parts = np.split(order, np.sort(rng.integers(0, n_rows + 1, size=n_parts - 1)))
    summaries = [ov.BlockSummary(5, 1).update(x[part], ids=ids[part]) for part in parts]
    while len(summaries) > 1:
        one, other = (summaries.pop(dice.randrange(len(summaries))) for _ in range(2))
        before = state(other)
        assert one.merge(other) is one
        assert state(other) == before
        summaries.append(one)
    whole = ov.BlockSummary(5, 1).update(x, ids=ids)
    alike(summaries[0], whole, atol=1e-12 * max(1, abs(offset)))
    assert summaries[0].n_rows == whole.n_rows == n_rows


def test_rows_are_numbered_in_order_of_updates():
    x = RNG.normal(size=500)
    whole = ov.BlockSummary(31, 2).update(x)
    for cuts in ([100], [0, 1, 2, 499]):
        summary = ov.BlockSummary(31, 2)
        for part in np.split(x, cuts):
            summary.update(part)
        alike(summary, whole)
    alike(ov.BlockSummary(31, 2).update(x[::-1], ids=np.arange(500)[::-1]), whole)
    assert ov.BlockSummary(31, 2).update([], ids=[]).update(x).counts.tolist() == whole.counts.tolist()


def test_omitted_rows_keep_their_numbers():
    x = RNG.normal(size=300)
    x[[3, 50]] = math.nan
    good = np.isfinite(x)
    summary = ov.BlockSummary(7, 0).update(x[:40], nan_policy="omit").update(x[40:], nan_policy="omit")
    alike(summary, ov.BlockSummary(7, 0).update(x[good], ids=np.flatnonzero(good)))
    assert (summary.n_rows, summary.n_omitted, summary.n_found_corrupt) == (298, 2, 0)
    x[4] = -math.inf
    corrupt = ov.BlockSummary(7, 0).update(x, nan_policy="corrupt")
    assert (corrupt.n_rows, corrupt.n_omitted, corrupt.n_found_corrupt) == (300, 0, 3)
    assert summary.merge(corrupt).n_rows == 598
    assert (summary.n_omitted, summary.n_found_corrupt) == (2, 3)


def test_columns_names_and_numbers_of_any_type(form):
    x = RNG.normal(size=(300, 40))
    summary = ov.BlockSummary(9, 0).update(x[:100]).update(x[100:])
    for j in (0, 39):
        one = ov.BlockSummary(9, 0).update(x[:100, j]).update(x[100:, j])
        np.testing.assert_allclose(summary.means[:, j], one.means, rtol=1e-13)
        np.testing.assert_allclose(summary.m2[:, j], one.m2, rtol=1e-12)
    for dtype in (np.float32, np.float16, np.longdouble, np.int8, np.uint64, bool):
        short = (9 * np.abs(x[:, 0])).astype(dtype)
        alike(ov.BlockSummary(5, 0).update(short), ov.BlockSummary(5, 0).update(short.astype(np.float64)))
    for frame in (pd.DataFrame, pl.DataFrame):
        named = ov.BlockSummary(5, 0).update(frame({"a": x[:, 0], "b": x[:, 1]}))
        assert named.result().names == ("a", "b")
        with pytest.raises(ValueError, match=r"columns \('a', 'c'\), but earlier chunks had \('a', 'b'\)"):
            named.update(frame({"a": x[:, 0], "c": x[:, 1]}))


def test_huge_values_affect_their_own_block_only(form):
    """Corrupt rows may be as large as floats get: their block's mean is right, its squares infinite."""
    x = np.random.default_rng(0).normal(size=1000)
    clean = ov.BlockSummary(101, 0).update(x)
    x[:4] = [1.7e308, -1.7e308, 1e200, -1e180]
    blocks = hash_rows(np.arange(4), 0) % 101
    summary = ov.BlockSummary(101, 0)
    for part in np.split(x, [1, 2, 700]):
        summary.update(part)
    untouched = ~np.isin(np.arange(101), blocks)
    np.testing.assert_allclose(summary.means[untouched], clean.means[untouched], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(summary.m2[untouched], clean.m2[untouched], rtol=1e-12)
    assert np.isinf(summary.m2[blocks]).all()
    np.testing.assert_allclose(summary.means[blocks] * summary.counts[blocks], x[:4], rtol=1e-12)
    result = summary.result(contamination=4)
    assert abs(result.estimate) < 0.2
    assert result.radius < 1


def test_mean_is_finite_where_the_sum_overflows(form):
    x = np.array([1.7e308] * 5 + [-1.7e308] * 2)
    summaries = [ov.BlockSummary(1, 0).update(x[:5]).merge(ov.BlockSummary(1, 0).update(x[5:]))]
    for parts in ([x], [x[:3], x[3:]], list(x[:, None])):
        summaries.append(ov.BlockSummary(1, 0))
        for part in parts:
            summaries[-1].update(part)
    for summary in summaries:
        assert summary.means[0] == pytest.approx(1.7e308 / 7 * 3, rel=1e-12)
        assert summary.m2[0] == math.inf
    assert ov.BlockSummary(1, 0).update([1.7e308]).m2[0] == 0


# --- results ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "assume",
    [None, ov.FiniteVariance(1.3), ov.Bounded(-6, 6), ov.FiniteKurtosis(4.0), ov.FiniteKurtosis(4.0, 1.2)],
)
def test_result_equals_the_mean_in_memory(assume):
    x = np.clip(np.random.default_rng(5).normal(size=2000), -6, 6)
    summary = ov.BlockSummary(51, 9)
    for ids in np.split(np.arange(2000), [10, 700]):
        summary.merge(ov.BlockSummary(51, 9).update(x[ids], ids=ids))
    for vote, alternative in (("median", "less"), ("soft", "two-sided"), ("clipped", "less"), ("auto", "two-sided")):
        options = {"contamination": 5, "confidence": 0.9, "assume": assume, "vote": vote, "alternative": alternative}
        found = summary.result(**options)
        expected = ov.mean(x, n_blocks=51, partition="hash", rng=9, **options | {"vote": found.plan.vote})
        same_result(found, expected)
        assert math.isfinite(expected.radius) or vote == "clipped"


def test_result_of_columns_equals_the_mean_in_memory():
    x = pd.DataFrame(np.random.default_rng(5).normal([0, 1e3, -5], size=(3000, 3)), columns=list("abc"))
    for simultaneous in (False, True):
        options = {"contamination": 0.002, "simultaneous": simultaneous, "assume": [None, ov.FiniteVariance(1), None]}
        expected = ov.mean(x, n_blocks=41, partition="hash", rng=1, axis=0, **options)
        same_result(ov.BlockSummary(41, 1).update(x).result(**options), expected)


@pytest.mark.parametrize(("policy", "columns"), [("omit", 2), ("corrupt", None)])
def test_omitted_rows_keep_their_numbers_in_memory_too(policy, columns):
    x = np.random.default_rng(5).normal(size=(600, columns) if columns else 600)
    x[[0, 5, 77]] = math.nan
    if policy == "corrupt":
        x[400] = math.inf
    found = ov.mean(x, 0.05, n_blocks=71, partition="hash", rng=4, nan_policy=policy)
    good = np.isfinite(x.reshape(600, -1)).all(axis=1)
    blocks = hash_rows(np.arange(600), 4) % 71
    expected = np.array([x[good & (blocks == k)].mean(axis=0) for k in range(71)])
    np.testing.assert_allclose(found.block_values, expected, rtol=1e-12, atol=1e-14)
    assert (found.plan.n_rows, found.n_omitted) == ((597, 3) if policy == "omit" else (600, 4))
    summary = ov.BlockSummary(71, 4).update(x, nan_policy=policy)
    same_result(summary.result(0.05), found)
    if policy == "corrupt":
        with pytest.raises(ValueError, match="in 4 rows, more than the 3 corrupt rows that contamination allows"):
            summary.result(contamination=3)
        assert summary.result(contamination=4).n_omitted == 4


# --- errors ------------------------------------------------------------------------------------------------------


REFUSED = [
    (([1.0, math.nan],), {}, ValueError, "NaN or infinite values in 1 of 2 rows"),
    (([1.0, math.inf],), {"nan_policy": "omit"}, ValueError, "infinite values, which are not missing"),
    (([1.0],), {"nan_policy": "drop"}, ValueError, "nan_policy='drop'"),
    ((np.ones((2, 2)),), {}, ValueError, r"rows of shape \(2,\), but earlier rows had shape \(\)"),
    ((np.ones((2, 0)),), {}, ValueError, "no columns"),
    ((["a"],), {}, TypeError, "strings"),
    (([1.0, 2.0],), {"ids": [1]}, ValueError, r"ids has shape \(1,\), but there are 2 rows"),
    (([1.0],), {"ids": [1.0]}, TypeError, "ids must be integers, not float64"),
    (([1.0],), {"ids": np.array([2**63], dtype=np.uint64)}, ValueError, "ids has 9223372036854775808"),
    ((pd.Series([1.0], name="other"),), {}, ValueError, "columns"),
]


def test_invalid_chunks_raise_and_change_nothing():
    named = pd.Series([1.0, 2.0], name="x")
    summary, empty = ov.BlockSummary(5, 0).update(named), ov.BlockSummary(5, 0)
    grouped = ov.GroupedBlockSummary(5, 0).update(named, ["a", "b"])
    before = state(summary), state(empty), state(grouped), grouped.keys
    for (chunk,), options, kind, message in REFUSED:
        with pytest.raises(kind, match=message):
            summary.update(chunk, **options)
        if "earlier" not in message and message != "columns":
            with pytest.raises(kind, match=message):
                empty.update(chunk, **options)
        with pytest.raises(kind, match=message):
            grouped.update(chunk, ["new"] * len(chunk), **options)
    assert (state(summary), state(empty), state(grouped), grouped.keys) == before
    assert empty.shape is None
    for other, kind, message in (
        (ov.BlockSummary(6, 0), ValueError, "n_blocks=6, this one 5"),
        (ov.BlockSummary(5, 1), ValueError, "seed=1, this one 0"),
        (ov.BlockSummary(5, 0).update(np.ones((2, 3))), ValueError, r"shape \(3,\), this one \(\)"),
        (ov.BlockSummary(5, 0).update(named.rename("y")), ValueError, r"columns \('y',\), this one \('x',\)"),
        (ov.GroupedBlockSummary(5, 0), TypeError, "another BlockSummary, not GroupedBlockSummary"),
        (3, TypeError, "not int"),
    ):
        with pytest.raises(kind, match=message):
            summary.merge(other)
    assert state(summary) == before[0]


def test_invalid_numbers_of_blocks_and_seeds_raise():
    for n_blocks in (0, -1, 1.5, True, "3", None):
        for make in (lambda n=n_blocks: ov.BlockSummary(n), lambda n=n_blocks: ov.GroupedBlockSummary({"a": n})):
            with pytest.raises((TypeError, ValueError), match=r"n_blocks=.* must be"):
                make()
    with pytest.raises(ValueError, match="rng=-1 is negative"):
        ov.BlockSummary(3, -1)
    with pytest.raises(TypeError, match="rng='a'"):
        ov.GroupedBlockSummary(3, "a")


def test_empty_summaries():
    empty = ov.BlockSummary(5, 0)
    assert (empty.n_rows, empty.counts.tolist()) == (0, [0] * 5)
    with pytest.raises(ValueError, match="no rows yet"):
        empty.result()
    full = ov.BlockSummary(5, 0).update([1.0, 2.0])
    before = state(full)
    assert state(full.merge(ov.BlockSummary(5, 0))) == before
    assert state(empty.merge(full)) == before
    assert ov.GroupedBlockSummary(3).results() == {}
    assert ov.GroupedBlockSummary(3).merge(ov.GroupedBlockSummary(3)).keys == ()
