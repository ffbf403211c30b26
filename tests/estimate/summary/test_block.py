"""Block summaries do not depend on chunks, order or merges."""

from __future__ import annotations

import math
import pickle
import random

import numpy as np
import pytest
from block_summaries import alike, state, two_pass
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.blocks.hashing import hash_rows

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

RNG = np.random.default_rng(0)


# --- updates and merges --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [1, 7, 300, 200_000])
def test_moments_of_blocks_equal_exact_sums(form, n_rows):
    x = np.random.default_rng(n_rows).normal(size=n_rows)
    summary = ov.BlockSummary(11, 3)
    assert summary.update(x) is summary
    counts, means, m2 = two_pass(x, 11, 3)
    np.testing.assert_array_equal(summary.counts, counts)
    np.testing.assert_allclose(summary.means, means, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(summary.m2, m2, rtol=1e-12)
    assert summary.n_rows == n_rows
    assert repr(summary) == f"BlockSummary({n_rows} rows in 11 blocks, seed=3)"


def test_sums_of_squares_are_precise_far_from_zero(form):
    x = 1e9 + np.random.default_rng(1).normal(size=150_000)
    summary = ov.BlockSummary(7, 0)
    for part in np.array_split(x, 13):
        summary.update(part)
    _, means, m2 = two_pass(x, 7, 0)
    np.testing.assert_allclose(summary.means, means, rtol=1e-14)
    np.testing.assert_allclose(summary.m2, m2, rtol=1e-6)
    halves = [ov.BlockSummary(7, 0).update(x[rows], ids=np.arange(len(x))[rows]) for rows in (x > 1e9, x <= 1e9)]
    np.testing.assert_allclose(halves[0].merge(halves[1]).m2, m2, rtol=1e-6)


chunked = st.tuples(st.integers(0, 60), st.integers(1, 8), st.integers(0, 2**32))


@settings(max_examples=80, deadline=None)
@given(chunked, st.sampled_from([(), (1,), (3,), (2, 2)]), st.sampled_from([0.0, 5.0, -1e3]))
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


def test_merges_are_associative():
    a, b, c = (ov.BlockSummary(9, 0).update(RNG.normal(size=100) + 7, ids=np.arange(100) + 100 * i) for i in range(3))
    copies = [pickle.loads(pickle.dumps(one)) for one in (a, b, c)]
    left, right = a.merge(b).merge(c), copies[0].merge(copies[1].merge(copies[2]))
    alike(left, right)
    np.testing.assert_allclose(left.m2, right.m2, rtol=1e-12)


def test_rows_are_numbered_in_order_of_updates():
    x = RNG.normal(size=500)
    whole = ov.BlockSummary(31, 2).update(x)
    for cuts in ([100], [0, 1, 2, 499], list(range(0, 500, 7))):
        summary = ov.BlockSummary(31, 2)
        for part in np.split(x, cuts):
            summary.update(part)
        alike(summary, whole)
    given = ov.BlockSummary(31, 2).update(x[::-1], ids=np.arange(500)[::-1])
    alike(given, whole)
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


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.longdouble, np.int8, np.uint64, bool])
def test_dtypes(dtype):
    x = (RNG.normal(size=1000) * 9).astype(dtype)
    alike(ov.BlockSummary(5, 0).update(x), ov.BlockSummary(5, 0).update(x.astype(np.float64)))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_column_names_are_kept_and_must_agree(frame):
    x = RNG.normal(size=(200, 2))
    summary = ov.BlockSummary(5, 0).update(frame({"a": x[:, 0], "b": x[:, 1]}))
    assert summary.result().names == ("a", "b")
    alike(summary, ov.BlockSummary(5, 0).update(x))
    with pytest.raises(ValueError, match=r"columns \('a', 'c'\), but earlier chunks had \('a', 'b'\)"):
        summary.update(frame({"a": x[:, 0], "c": x[:, 1]}))


def test_many_columns_equal_one_summary_per_column(form):
    x = RNG.normal(size=(1000, 40))
    summary = ov.BlockSummary(9, 0).update(x[:300]).update(x[300:])
    for j in (0, 17, 39):
        one = ov.BlockSummary(9, 0).update(x[:300, j]).update(x[300:, j])
        np.testing.assert_allclose(summary.means[:, j], one.means, rtol=1e-13)
        np.testing.assert_allclose(summary.m2[:, j], one.m2, rtol=1e-12)


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
    for text in (summary.to_json(), summary.to_bytes()):
        read = ov.BlockSummary.from_json(text) if isinstance(text, str) else ov.BlockSummary.from_bytes(text)
        assert state(read) == state(summary)


def test_mean_is_finite_where_the_sum_overflows(form):
    x = np.array([1.7e308] * 5 + [-1.7e308] * 2)
    for parts in ([x], [x[:3], x[3:]], [x[:5], x[5:]], list(x[:, None])):
        summary = ov.BlockSummary(1, 0)
        for part in parts:
            summary.update(part)
        assert summary.means[0] == pytest.approx(1.7e308 / 7 * 3, rel=1e-12)
        assert summary.m2[0] == math.inf
    merged = ov.BlockSummary(1, 0).update(x[:5]).merge(ov.BlockSummary(1, 0).update(x[5:]))
    assert merged.means[0] == pytest.approx(1.7e308 / 7 * 3, rel=1e-12)
    assert ov.BlockSummary(1, 0).update([1.7e308]).m2[0] == 0


# --- errors ------------------------------------------------------------------------------------------------------


REFUSED = [
    (([1.0, math.nan],), {}, ValueError, "NaN or infinite values in 1 of 2 rows"),
    (([1.0, math.inf],), {"nan_policy": "omit"}, ValueError, "infinite values, which are not missing"),
    (([1.0],), {"nan_policy": "drop"}, ValueError, "nan_policy='drop'"),
    ((np.ones((2, 2)),), {}, ValueError, r"rows of shape \(2,\), but earlier rows had shape \(\)"),
    ((np.ones((2, 0)),), {}, ValueError, "no columns"),
    ((3.0,), {}, ValueError, "single number"),
    ((["a"],), {}, TypeError, "strings"),
    (([1.0, 2.0],), {"ids": [1]}, ValueError, r"ids has shape \(1,\), but there are 2 rows"),
    (([1.0],), {"ids": [1.0]}, TypeError, "ids must be integers, not float64"),
    (([1.0],), {"ids": np.array([2**63], dtype=np.uint64)}, ValueError, "ids has 9223372036854775808"),
    ((pd.Series([1.0], name="other"),), {}, ValueError, "columns"),
]


@pytest.mark.parametrize(("arguments", "options", "kind", "message"), REFUSED)
def test_invalid_chunk_raises_and_changes_nothing(arguments, options, kind, message):
    summary = ov.BlockSummary(5, 0).update(pd.Series([1.0, 2.0, 3.0], name="x"))
    empty, grouped = ov.BlockSummary(5, 0), ov.GroupedBlockSummary(5, 0).update(
        pd.Series([1.0, 2.0], name="x"), ["a", "b"])  # fmt: skip
    before = state(summary), state(empty), state(grouped), grouped.keys
    with pytest.raises(kind, match=message):
        summary.update(*arguments, **options)
    if "earlier" not in message and message != "columns":
        with pytest.raises(kind, match=message):
            empty.update(*arguments, **options)
    with pytest.raises(kind, match=message):
        grouped.update(arguments[0], ["new"] * np.size(arguments[0]) if np.ndim(arguments[0]) == 1 else ["new"] * 2,
                       **options)  # fmt: skip
    assert (state(summary), state(empty), state(grouped), grouped.keys) == before
    assert empty.shape is None


@pytest.mark.parametrize(
    ("other", "kind", "message"),
    [
        (ov.BlockSummary(6, 0), ValueError, "n_blocks=6, this one 5"),
        (ov.BlockSummary(5, 1), ValueError, "seed=1, this one 0"),
        (ov.BlockSummary(5, 0).update(np.ones((2, 3))), ValueError, r"shape \(3,\), this one \(\)"),
        (ov.BlockSummary(5, 0).update(pd.Series([1.0], name="y")), ValueError, r"columns \('y',\), this one \('x',\)"),
        (ov.GroupedBlockSummary(5, 0), TypeError, "another BlockSummary, not GroupedBlockSummary"),
        (3, TypeError, "not int"),
    ],
)
def test_merge_of_different_summaries_raises(other, kind, message):
    summary = ov.BlockSummary(5, 0).update(pd.Series([1.0, 2.0], name="x"))
    before = state(summary)
    with pytest.raises(kind, match=message):
        summary.merge(other)
    assert state(summary) == before


@pytest.mark.parametrize("n_blocks", [0, -1, 1.5, True, "3", None])
def test_invalid_number_of_blocks_raises(n_blocks):
    with pytest.raises((TypeError, ValueError), match=r"n_blocks=.* must be"):
        ov.BlockSummary(n_blocks)
    with pytest.raises((TypeError, ValueError), match=r"n_blocks=.* must be"):
        ov.GroupedBlockSummary({"a": n_blocks})


def test_invalid_seed_raises():
    with pytest.raises(ValueError, match="rng=-1 is negative"):
        ov.BlockSummary(3, -1)
    with pytest.raises(TypeError, match="rng='a'"):
        ov.GroupedBlockSummary(3, "a")


def test_empty_summaries():
    empty = ov.BlockSummary(5, 0)
    assert empty.n_rows == 0
    assert empty.counts.tolist() == [0] * 5
    with pytest.raises(ValueError, match="no rows yet"):
        empty.result()
    full = ov.BlockSummary(5, 0).update([1.0, 2.0])
    before = state(full)
    assert state(full.merge(ov.BlockSummary(5, 0))) == before
    assert state(empty.merge(full)) == before
    assert ov.GroupedBlockSummary(3).results() == {}
    assert ov.GroupedBlockSummary(3).merge(ov.GroupedBlockSummary(3)).keys == ()
