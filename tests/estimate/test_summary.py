"""Blocks in numbers: the same whatever the chunks, the order and the merges, and through JSON, bytes and Arrow."""

from __future__ import annotations

import datetime as dt
import json
import math
import pickle
import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.blocks.hashing import hash_rows
from outvote.data.groups import group_codes
from outvote.estimate.summary.moments import Moments

try:
    import outvote._numba.functions as compiled
except ModuleNotFoundError:
    compiled = None

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

RNG = np.random.default_rng(0)
#: With numpy alone, and with numba where it is there.
FORMS = [None] if compiled is None else [None, compiled]


@pytest.fixture(params=FORMS, ids=["numpy", "numba"][: len(FORMS)])
def form(request, monkeypatch):
    monkeypatch.setattr("outvote._numba.compiled", lambda seconds: request.param)


def state(summary):
    """All there is to know of a summary."""
    return summary.to_bytes()


def two_pass(x, n_blocks, seed, ids=None):
    """Count, mean and M2 of each block, by exact sums."""
    blocks = hash_rows(np.arange(len(x)) if ids is None else ids, seed) % n_blocks
    found = []
    for k in range(n_blocks):
        rows = x[blocks == k].tolist()
        mean = math.fsum(rows) / len(rows) if rows else 0.0
        found.append((len(rows), mean, math.fsum((v - mean) ** 2 for v in rows)))
    return tuple(np.array(column) for column in zip(*found, strict=True))


def alike(found, expected, rtol=1e-12, atol=0.0):
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.means, expected.means, rtol=rtol, atol=atol)
    np.testing.assert_allclose(found.m2, expected.m2, rtol=1e3 * rtol, atol=atol)


# --- updates and merges --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [1, 7, 300, 200_000])
def test_blocks_are_those_of_the_hash(form, n_rows):
    x = np.random.default_rng(n_rows).normal(size=n_rows)
    summary = ov.BlockSummary(11, 3)
    assert summary.update(x) is summary
    counts, means, m2 = two_pass(x, 11, 3)
    np.testing.assert_array_equal(summary.counts, counts)
    np.testing.assert_allclose(summary.means, means, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(summary.m2, m2, rtol=1e-12)
    assert summary.n_rows == n_rows
    assert repr(summary) == f"BlockSummary({n_rows} rows in 11 blocks, seed=3)"


def test_squares_are_right_far_from_zero(form):
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
def test_any_split_order_and_tree_of_merges_give_the_same(case, shape, offset):
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


def test_rows_are_numbered_as_they_come():
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


def test_rows_left_out_keep_their_numbers():
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
def test_numbers_of_any_kind(monkeypatch, dtype):
    monkeypatch.setattr("outvote._numba.compiled", lambda seconds: None)
    x = (RNG.normal(size=1000) * 9).astype(dtype)
    alike(ov.BlockSummary(5, 0).update(x), ov.BlockSummary(5, 0).update(x.astype(np.float64)))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_of_frames_keep_their_names(frame):
    x = RNG.normal(size=(200, 2))
    summary = ov.BlockSummary(5, 0).update(frame({"a": x[:, 0], "b": x[:, 1]}))
    assert summary.result().names == ("a", "b")
    alike(summary, ov.BlockSummary(5, 0).update(x))
    with pytest.raises(ValueError, match=r"columns \('a', 'c'\), but earlier chunks had \('a', 'b'\)"):
        summary.update(frame({"a": x[:, 0], "c": x[:, 1]}))


def test_many_columns_are_each_summed_up(form):
    x = RNG.normal(size=(1000, 40))
    summary = ov.BlockSummary(9, 0).update(x[:300]).update(x[300:])
    for j in (0, 17, 39):
        one = ov.BlockSummary(9, 0).update(x[:300, j]).update(x[300:, j])
        np.testing.assert_allclose(summary.means[:, j], one.means, rtol=1e-13)
        np.testing.assert_allclose(summary.m2[:, j], one.m2, rtol=1e-12)


def test_values_of_any_size_spoil_their_own_block_at_most(form):
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


def test_sums_too_large_for_a_float_have_a_mean(form):
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


# --- what is refused ---------------------------------------------------------------------------------------------


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
def test_a_refused_chunk_changes_nothing(arguments, options, kind, message):
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
def test_merge_refuses_what_does_not_belong_together(other, kind, message):
    summary = ov.BlockSummary(5, 0).update(pd.Series([1.0, 2.0], name="x"))
    before = state(summary)
    with pytest.raises(kind, match=message):
        summary.merge(other)
    assert state(summary) == before


@pytest.mark.parametrize("n_blocks", [0, -1, 1.5, True, "3", None])
def test_a_number_of_blocks_is_an_integer(n_blocks):
    with pytest.raises((TypeError, ValueError), match=r"n_blocks=.* must be"):
        ov.BlockSummary(n_blocks)
    with pytest.raises((TypeError, ValueError), match=r"n_blocks=.* must be"):
        ov.GroupedBlockSummary({"a": n_blocks})


def test_a_seed_is_an_integer_of_at_least_0():
    with pytest.raises(ValueError, match="rng=-1 is negative"):
        ov.BlockSummary(3, -1)
    with pytest.raises(TypeError, match="rng='a'"):
        ov.GroupedBlockSummary(3, "a")


def test_an_empty_summary():
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


# --- results ---------------------------------------------------------------------------------------------------

ASSUMED = {
    "none": None,
    "variance": ov.FiniteVariance(1.3),
    "subgaussian": ov.SubGaussian(1.2),
    "bounded": ov.Bounded(-6, 6),
    "kurtosis": ov.FiniteKurtosis(4.0),
    "kurtosis and sd": ov.FiniteKurtosis(4.0, 1.2),
}


def same_result(found, expected):
    for name in ("estimate", "radius", "interval", "block_values"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(found.block_sizes, expected.block_sizes)
    assert found.plan == expected.plan
    assert found.certificate.provenance == expected.certificate.provenance
    assert (found.n_omitted, found.names, found.seed, str(found)) == (
        expected.n_omitted, expected.names, expected.seed, str(expected))  # fmt: skip


@pytest.mark.parametrize("assume", ASSUMED.values(), ids=ASSUMED)
@pytest.mark.parametrize("vote", ["median", "soft", "clipped", "auto"])
def test_results_are_those_of_the_mean_in_memory(form, vote, assume):
    x = np.clip(np.random.default_rng(5).normal(size=2000), -6, 6)
    summary = ov.BlockSummary(51, 9)
    for ids in np.split(np.arange(2000), [10, 700]):
        summary.merge(ov.BlockSummary(51, 9).update(x[ids], ids=ids))
    for alternative in ("two-sided", "less"):
        options = {"contamination": 5, "confidence": 0.9, "assume": assume, "vote": vote, "alternative": alternative}
        expected = ov.mean(x, n_blocks=51, partition="hash", rng=9, **options)
        same_result(summary.result(**options), expected)
        assert math.isfinite(expected.radius) or vote == "clipped"


@pytest.mark.parametrize("simultaneous", [False, True])
def test_results_of_columns_are_those_in_memory(form, simultaneous):
    x = pd.DataFrame(np.random.default_rng(5).normal([0, 1e3, -5], size=(3000, 3)), columns=list("abc"))
    options = {"contamination": 0.002, "simultaneous": simultaneous, "assume": [None, ov.FiniteVariance(1), None]}
    expected = ov.mean(x, n_blocks=41, partition="hash", rng=1, axis=0, **options)
    same_result(ov.BlockSummary(41, 1).update(x).result(**options), expected)


@pytest.mark.parametrize("policy", ["omit", "corrupt"])
@pytest.mark.parametrize("columns", [None, 2])
def test_the_mean_in_memory_numbers_the_rows_before_some_are_left_out(policy, columns):
    x = np.random.default_rng(5).normal(size=(600, columns) if columns else 600)
    x[[0, 5, 77]] = math.nan
    if policy == "corrupt":
        x[400] = math.inf
    found = ov.mean(x, 0.05, n_blocks=71, partition="hash", rng=4, nan_policy=policy)
    good = np.isfinite(x.reshape(600, -1)).all(axis=1)
    blocks = hash_rows(np.arange(600), 4) % 71
    expected = np.array([x[good & (blocks == k)].mean(axis=0) for k in range(71)])
    np.testing.assert_allclose(found.block_values, expected, rtol=1e-12, atol=1e-14)
    assert found.plan.n_rows == (597 if policy == "omit" else 600)
    assert found.n_omitted == (3 if policy == "omit" else 4)
    same_result(ov.BlockSummary(71, 4).update(x, nan_policy=policy).result(0.05), found)


def test_more_corrupt_rows_than_allowed():
    summary = ov.BlockSummary(5, 0).update([1.0, 2.0, math.nan, math.inf, 3.0], nan_policy="corrupt")
    with pytest.raises(ValueError, match="in 2 rows, more than the 1 corrupt rows that contamination allows among 5"):
        summary.result(contamination=1)
    assert summary.result(contamination=2).n_omitted == 2


# --- written down ------------------------------------------------------------------------------------------------


def summaries():
    x = np.random.default_rng(3).normal(size=(60, 2)) / 3
    days = [dt.date(2020, 2, 1 + i % 3) for i in range(60)]
    numbers = np.arange(60) % 4
    yield "empty", ov.BlockSummary(4, 2**70)
    yield "numbers", ov.BlockSummary(7, 1).update(x[:, 0])
    yield "named", ov.BlockSummary(7, 1).update(pd.DataFrame(x, columns=['a "b"', "ü"]))
    yield "table", ov.BlockSummary(3, 1).update(x.reshape(20, 3, 2))
    yield "gaps", ov.BlockSummary(90, 1).update(np.r_[x[:, 0], math.nan], nan_policy="omit").update(
        [math.inf], nan_policy="corrupt")  # fmt: skip
    yield "grouped, empty", ov.GroupedBlockSummary(4, 1)
    yield "grouped", ov.GroupedBlockSummary(3, 1).update(x, numbers)
    yield "grouped by two", ov.GroupedBlockSummary(3, 1).update(x[:, 0], (days, numbers == 1))
    yield "grouped by text", ov.GroupedBlockSummary({"it's": 2, '"': 5, "x": 9}, 1).update(
        np.r_[x[:50, 0], math.nan], np.array(["it's", '"', "x"])[np.arange(51) % 3], nan_policy="omit")  # fmt: skip
    yield "grouped by times", ov.GroupedBlockSummary(2, 1).update(x[:2], [dt.datetime(2020, 1, 1, 5), dt.datetime.min])
    yield "grouped by floats", ov.GroupedBlockSummary(2, 1).update(x[:2], [0.1, -1e300])


SUMMARIES = list(summaries())


def through_json(summary):
    text = summary.to_json()
    assert json.loads(text, parse_constant=pytest.fail)["version"] == 1
    return type(summary).from_json(text)


def through_bytes(summary):
    return type(summary).from_bytes(bytearray(summary.to_bytes()))


def through_arrow(summary):
    return type(summary).from_arrow(summary.to_arrow())


def through_shuffled_arrow(summary):
    table = summary.to_arrow()
    return type(summary).from_arrow(table.take(np.random.default_rng(0).permutation(table.num_rows)))


WAYS = [through_json, through_bytes, through_arrow, through_shuffled_arrow]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("summary", [one for _, one in SUMMARIES], ids=[name for name, _ in SUMMARIES])
def test_a_summary_is_written_without_loss(summary, way):
    if "arrow" in way.__name__:
        pytest.importorskip("pyarrow")
    read = way(summary)
    assert state(read) == state(summary)
    assert vars(read).keys() == vars(summary).keys()
    if summary.shape is not None:  # and goes on as the first one would
        more = np.ones((3, *summary.shape))
        groups = () if isinstance(summary, ov.BlockSummary) else ([summary.keys[0]] * 3,)
        if groups and isinstance(summary.keys[0], tuple):
            groups = (tuple([one] * 3 for one in summary.keys[0]),)
        copy = pickle.loads(pickle.dumps(summary))
        assert state(read.update(more, *groups)) == state(copy.update(more, *groups))
        assert state(read.merge(summary)) == state(copy.merge(summary))


def tried(read, data):
    """What is read, or why not."""
    try:
        return read(data), ""
    except ValueError as error:
        return None, str(error)


def broken(summary):
    """Documents with something missing, impossible, or of another kind."""
    text = json.loads(summary.to_json())
    for key in text:
        yield {name: value for name, value in text.items() if name != key}
        for value in (None, -1, "x", [], {}, [[]], 1.5, True, math.nan, 10**30, [["a"]], [{"b": 1}]):
            yield {**text, key: value}
    yield from ([], 3, None, "outvote.BlockSummary", {})
    yield {**text, "counts": text["counts"][:-1]}
    yield {**text, "counts": [-1, *text["counts"][1:]]}
    yield {**text, "counts": [0.5, *text["counts"][1:]]}
    yield {**text, "means": text["means"][:-1]}
    yield {**text, "m2": [[-1.0] * len(row) for row in text["m2"]]}
    yield {**text, "means": [[1e999] * len(row) for row in text["means"]]}


@pytest.mark.parametrize("summary", [one for _, one in SUMMARIES], ids=[name for name, _ in SUMMARIES])
def test_whatever_is_no_summary_is_refused_in_the_same_words(summary):
    kind, name = type(summary), type(summary).__name__
    found = [tried(kind.from_json, json.dumps(document)) for document in broken(summary)]
    reasons = [reason for read, reason in found if read is None]
    assert all(reason.startswith((f"this is not a {name}", f"this {name} ")) for reason in reasons)
    assert len(reasons) >= (60 if summary.shape is None else 100)
    for read in (read for read, _ in found if read is not None):  # some changes say no more than another summary would
        assert kind.from_bytes(read.to_bytes()).to_json() == read.to_json()


@pytest.mark.parametrize("key", ["version", "n_blocks", "seed", "shape", "names", "n_seen", "n_found_corrupt", "counts",
                                 "means", "m2", "format", "n_omitted"])  # fmt: skip
def test_what_is_missing_is_refused(key):
    document = json.loads(SUMMARIES[1][1].to_json())
    del document[key]
    with pytest.raises(ValueError, match=r"this is not a BlockSummary|has version None"):
        ov.BlockSummary.from_json(json.dumps(document))


def test_other_versions_and_other_kinds_are_named():
    summary, grouped = SUMMARIES[1][1], SUMMARIES[6][1]
    with pytest.raises(ValueError, match="has version 2, outvote reads version 1"):
        ov.BlockSummary.from_json(json.dumps({**json.loads(summary.to_json()), "version": 2}))
    with pytest.raises(ValueError, match="not a BlockSummary, but a GroupedBlockSummary"):
        ov.BlockSummary.from_json(grouped.to_json())
    with pytest.raises(ValueError, match="not a GroupedBlockSummary, but a BlockSummary"):
        ov.GroupedBlockSummary.from_bytes(summary.to_bytes())
    for text in ("", "{", "nul", "[" * 100_000, b"\xff\xfe", None):
        with pytest.raises(ValueError, match="this is not a BlockSummary"):
            ov.BlockSummary.from_json(text)
    for data in (b"", b"x" * 100, "text", None, b"PAR1"):
        with pytest.raises(ValueError, match="this is not a BlockSummary"):
            ov.BlockSummary.from_bytes(data)
    with pytest.raises(TypeError, match="cannot be written: labels must be text, numbers, booleans or dates"):
        ov.GroupedBlockSummary(2).update([1.0], np.array([1j], dtype=object)).to_json()


def test_bytes_cut_anywhere_are_refused():
    data = SUMMARIES[2][1].to_bytes()
    for length in range(len(data)):
        with pytest.raises(ValueError, match=r"this is not a BlockSummary|this BlockSummary is cut short"):
            ov.BlockSummary.from_bytes(data[:length])
    with pytest.raises(ValueError, match="this BlockSummary is too long: "):
        ov.BlockSummary.from_bytes(data + b"\0")
    with pytest.raises(ValueError, match=r"this BlockSummary is cut short: .* bytes of numbers instead of"):
        ov.BlockSummary.from_bytes(data[:-8])
    bomb = data.replace(b'"n_blocks": 7', b'"n_blocks": 9')
    with pytest.raises(ValueError, match="cut short"):
        ov.BlockSummary.from_bytes(bomb)
    header = json.dumps({**json.loads(SUMMARIES[1][1].to_json()), "n_blocks": 10**15}).encode()
    with pytest.raises(ValueError, match="cut short"):  # before room is made for so many blocks
        ov.BlockSummary.from_bytes(data[: data.index(b"{") - 4] + struct.pack("<I", len(header)) + header)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([1, 2, 7]), st.integers(0, 10**6), st.integers(0, 255))
def test_damaged_bytes_give_a_summary_or_a_clear_error(which, place, byte):
    summary = SUMMARIES[which][1]
    data = bytearray(summary.to_bytes())
    data[place % len(data)] = byte
    name = type(summary).__name__
    read, reason = tried(type(summary).from_bytes, bytes(data))
    if read is None:
        assert reason.startswith((f"this is not a {name}", f"this {name} "))
    else:
        assert type(summary).from_bytes(read.to_bytes()).to_json() == read.to_json()


def test_foreign_and_damaged_arrow_tables_are_refused():
    pa = pytest.importorskip("pyarrow")
    table = SUMMARIES[2][1].to_arrow()
    for foreign in (pa.table({"block": [0]}), table.replace_schema_metadata({"outvote": "{"}), table.drop(["m2_1"]),
                    table.drop(["block"]), table.set_column(0, "block", [[0] * 7]), 3, None,
                    table.set_column(1, "count", [[0.5] * 7]), table.set_column(1, "count", [[None] * 7]),
                    table.set_column(2, "mean_0", [["a"] * 7]), table.set_column(2, "mean_0", [[None] + [1.0] * 6]),
                    table.set_column(3, "m2_0", [[-1.0] * 7])):  # fmt: skip
        with pytest.raises(ValueError, match="this is not a BlockSummary"):
            ov.BlockSummary.from_arrow(foreign)
    with pytest.raises(ValueError, match="cut short: 3 blocks instead of 7"):
        ov.BlockSummary.from_arrow(table.slice(0, 3))
    assert table.schema.names == ["block", "count", "mean_0", "m2_0", "mean_1", "m2_1"]


# --- groups ----------------------------------------------------------------------------------------------------


def test_each_group_is_a_summary_of_its_own(form):
    x, city = RNG.normal(size=(500, 2)), RNG.choice(["b", "a", "c"], size=500)
    summary = ov.GroupedBlockSummary(7, 3)
    for rows in np.array_split(np.arange(500), 6):
        assert summary.update(x[rows], city[rows], ids=rows) is summary
    assert set(summary.keys) == {"a", "b", "c"}
    for key in summary.keys:
        mine = np.flatnonzero(city == key)
        expected = ov.BlockSummary(7, 3).update(x[mine], ids=mine)
        alike(summary.group(key), expected)
        same_result(summary.results(contamination=1)[key], expected.result(contamination=1))
    assert repr(summary) == "GroupedBlockSummary(500 rows in 3 groups, seed=3)"
    by_position = ov.GroupedBlockSummary(7, 3).update(x[:100], city[:100]).update(x[100:], city[100:])
    alike(by_position.group("a"), summary.group("a"))


def test_groups_have_their_own_numbers_of_blocks_and_several_keys():
    x, a, b = RNG.normal(size=300), np.arange(300) % 2 == 0, np.arange(300) % 3
    blocks = {(bool(i), j): 3 + j + 5 * i for i in range(2) for j in range(3)}
    summary = ov.GroupedBlockSummary(blocks, 0).update(x, (a, b))
    for (i, j), k in blocks.items():
        mine = np.flatnonzero((a == i) & (b == j))
        alike(summary.group((i, j)), ov.BlockSummary(k, 0).update(x[mine], ids=mine))
    with pytest.raises(
        ValueError, match=r"n_blocks has no entry for the group \(True, 7\): it has entries for \(False, 0\)"
    ):
        summary.update([1.0], (np.array([True]), np.array([7])))
    with pytest.raises(KeyError, match="no group is called 'z': the groups are"):
        summary.group("z")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 50), st.integers(1, 5), st.integers(0, 2**32), st.booleans())
def test_groups_may_differ_between_summaries_that_are_merged(n_rows, n_parts, seed, own):
    rng = np.random.default_rng(seed)
    x, keys, parts = rng.normal(size=n_rows), rng.integers(0, 6, size=n_rows), rng.integers(0, n_parts, size=n_rows)
    blocks = {key: 2 + key for key in range(6)} if own else 4
    merged = ov.GroupedBlockSummary({} if own else 4, 0)
    for part in rng.permutation(n_parts):
        mine = np.flatnonzero(parts == part)
        here = {key: blocks[key] for key in set(keys[mine].tolist())} if own else 4
        other = ov.GroupedBlockSummary(here, 0).update(x[mine], keys[mine], ids=mine)
        before = state(other)
        merged.merge(other)
        assert state(other) == before
    whole = ov.GroupedBlockSummary(blocks, 0).update(x, keys)
    assert set(merged.keys) == set(whole.keys)
    for key in whole.keys:
        alike(merged.group(key), whole.group(key), atol=1e-14)


def test_groups_that_do_not_belong_together():
    summary = ov.GroupedBlockSummary({"a": 3}, 0).update([1.0], ["a"])
    before = state(summary)
    for blocks, seed in (({"a": 4}, 0), (3, 0), ({"a": 3}, 1)):
        other = ov.GroupedBlockSummary(blocks, seed)
        with pytest.raises(ValueError, match="blocks of different partitions cannot be merged"):
            summary.merge(other)
    assert state(summary) == before


def test_missing_rows_of_groups():
    x = np.array([1.0, math.nan, 2.0, math.nan, math.inf])
    summary = ov.GroupedBlockSummary(2, 0).update(x[:4], list("aabb"), nan_policy="omit")
    summary.update(x[3:], list("bb"), nan_policy="corrupt")
    assert [(g.n_rows, g.n_omitted, g.n_found_corrupt) for g in map(summary.group, "ab")] == [(1, 1, 0), (3, 1, 2)]
    with pytest.raises(ValueError, match="group 'b': there are NaN or infinite values in 2 rows"):
        summary.results(contamination=0)
    with pytest.raises(ValueError, match="group 'a': contamination=50"):
        summary.results(contamination=50)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a", "b"], ["b", "a", "b"]),
        (np.array([3, 1, 3], dtype=np.int8), [3, 1, 3]),
        (np.array([0.5, -0.0, 0.0]), [0.5, 0.0, 0.0]),
        ([True, False, True], [True, False, True]),
        (np.array([5, 6, 5], dtype="M8[D]"), [dt.date(1970, 1, day) for day in (6, 7, 6)]),
        (np.array([3000, 0, 0], dtype="M8[ns]"), [dt.datetime(1970, 1, 1, microsecond=us) for us in (3, 0, 0)]),
        (np.array([5, 6, 5], dtype="m8[s]"), [dt.timedelta(seconds=seconds) for seconds in (5, 6, 5)]),
        (pd.Series(["x", "y", "x"], dtype="category"), ["x", "y", "x"]),
        (pd.Series(["x", "y", "x"], dtype="string"), ["x", "y", "x"]),
        (pl.Series(["x", "y", "x"]), ["x", "y", "x"]),
        (pd.Series([2, 1, 2], dtype="Int64"), [2, 1, 2]),
        (np.array(["a", 1, (2, 3)], dtype=object), ["a", 1, (2, 3)]),
        ([b"\xff", b"", b"\xff"], [b"\xff", b"", b"\xff"]),
    ],
)
def test_labels_of_any_kind_are_told_apart(labels, expected):
    keys, which = group_codes(labels)
    assert [keys[i] for i in which] == expected
    assert len(keys) == len(set(expected))
    assert {type(key) for key in keys} == {type(one) for one in expected}
    several, which = group_codes((labels, np.arange(3)))
    assert [several[i] for i in which] == list(zip(expected, range(3), strict=True))


def test_nanoseconds_stay_apart():
    keys, which = group_codes(np.array([1, 2, 1], dtype="M8[ns]"))
    assert len(keys) == 2
    assert which.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1.0, math.nan], "None or NaN"),
        (["a", None], "None or NaN"),
        (np.array(["2020-01-01", "NaT"], dtype="M8[s]"), "None or NaN"),
        ([("a", 1), ("b", 2)], r"shape \(2, 2\): give one label for each row"),
        ((), "is empty"),
        ((["a"], ["a", "b"]), r"keys of different lengths \[1, 2\]"),
        (["a"], "groups has 1 labels for 2 rows"),
    ],
)
def test_labels_that_are_none(labels, message):
    with pytest.raises(ValueError, match=message):
        ov.GroupedBlockSummary(3).update([1.0, 2.0], labels)


def test_few_rows_among_many_cells_touch_only_their_own(form):
    moments, whole = Moments(1000, 1), Moments(1000, 1)
    x, cells = RNG.normal(size=(400, 1)), RNG.integers(0, 1000, size=400)
    whole.add(x, cells)
    for part in np.array_split(np.arange(400), 40):
        moments.add(x[part], cells[part])
    np.testing.assert_array_equal(moments.counts, whole.counts)
    np.testing.assert_allclose(moments.means, whole.means, rtol=1e-13)
    np.testing.assert_allclose(moments.m2, whole.m2, rtol=1e-12)
