"""Scans of frames, in memory and lazy."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import numpy as np
import pytest

import outvote as ov
from outvote.tables.duckdb import DuckEngine

duckdb = pytest.importorskip("duckdb")
nw = pytest.importorskip("narwhals")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

X = np.random.default_rng(0).normal(size=300)
HEADS = ["estimate", "low", "high", "radius", "provenance", "n", "blocks", "survives", "note"]
KINDS = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "polars lazy": lambda columns: pl.DataFrame(columns).lazy(),
    "pyarrow": pa.table,
    "relation": lambda columns: duckdb.from_arrow(pa.table(columns)),
}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request):
    return request.param


def agrees(found, values=X, **options):
    right = ov.mean(values, partition="hash", **{"rng": 1, "n_blocks": 11, **options})
    np.testing.assert_allclose(found.block_values, right.block_values, rtol=1e-12)
    np.testing.assert_array_equal(found.block_sizes, right.block_sizes)
    np.testing.assert_allclose(found.radius, right.radius, rtol=1e-12)
    return True


def asked(source, column="x", row_id=None, **options):
    return ov.scan(source, row_id).mean(column, rng=1, n_blocks=11, **options)


def eager(answer):
    """A frame of any kind, in memory."""
    return nw.from_native(answer).lazy().collect()


def lines(answer):
    return eager(answer).rows(named=True)


# --- input ----------------------------------------------------------------------------------------------------------


COLUMNS = {
    "Int64": pd.DataFrame({"x": pd.array([1, None, 3] * 100, dtype="Int64")}),
    "uint8": pd.DataFrame({"x": (np.arange(300) % 200).astype(np.uint8)}, index=np.arange(300)[::-1]),
    "boolean": pd.DataFrame({"x": pd.array([True, None, False] * 100, dtype="boolean")}),
    "pyarrow": pd.DataFrame({"x": pd.array([1, None, 3] * 100, dtype="int64[pyarrow]")}),
    "strings beside": pd.DataFrame({"x": [1.5, None, 3] * 100, "s": pd.array(["a"] * 300, dtype="string[pyarrow]")}),
    "NULL and NaN": pl.DataFrame({"x": [1.0, None, math.nan] * 100}),
    "lazy NULL and NaN": pl.LazyFrame({"x": [1.0, None, math.nan] * 100}),
    "half": pl.DataFrame({"x": pl.Series(np.arange(300), dtype=pl.Float32)}),
    "lazy flags": pl.LazyFrame({"x": [True, None, False] * 100}),
    "lazy decimals": pl.LazyFrame({"x": pl.Series([decimal.Decimal(i) / 4 for i in range(300)])}),
    "decimals": pa.table({"x": [decimal.Decimal("1.5"), None, decimal.Decimal("2.5")] * 100}),
    "chunks": pa.table({"x": pa.chunked_array([np.arange(100), np.arange(100, 300)])}),
}


@pytest.mark.parametrize("frame", COLUMNS.values(), ids=COLUMNS)
def test_columns_of_every_numeric_type_with_and_without_gaps(frame):
    values = np.array([math.nan if pd.isna(v) else float(v) for v in eager(frame)["x"].to_list()])
    found = asked(frame, contamination=0, nan_policy="omit")
    assert agrees(found, values, contamination=0, nan_policy="omit")
    assert found.n_omitted == np.isnan(values).sum()
    if found.n_omitted:
        gaps = f"column 'x' has NULL, NaN or infinite values in {found.n_omitted} of 300 rows"
        with pytest.raises(ValueError, match=gaps):
            asked(frame)


def test_frames_larger_than_one_chunk(kind, monkeypatch):
    monkeypatch.setattr("outvote.tables.frames._CHUNK", 70)
    frame = kind({"x": X, "id": np.arange(300)[::-1], "g": np.array(["a", "b"])[np.arange(300) % 2]})
    assert agrees(asked(frame))
    assert agrees(asked(frame, row_id="id"), X[::-1])
    for vote in ("auto", "median"):
        assert [line["n"] for line in lines(ov.scan(frame).mean("x", by="g", vote=vote))] == [150, 150]
    found = ov.scan(frame).u_statistic("x", "gini", rng=1, n_blocks=11)
    right = ov.u_statistic(X, kernel="gini", partition="hash", rng=1, n_blocks=11)
    np.testing.assert_allclose(found.block_values, right.block_values, rtol=1e-12)


def test_filtered_frames():
    keep = X > -0.5
    for frame in (pd.DataFrame({"x": X})[keep], pl.LazyFrame({"x": X}).filter(pl.col("x") > -0.5),
                  duckdb.from_arrow(pa.table({"x": X})).filter("x > -0.5")):  # fmt: skip
        assert agrees(asked(frame), X[keep])


def test_lazy_frame_is_not_collected(monkeypatch):
    """No more lines are collected than there are groups and blocks."""
    heights, collect = [], pl.LazyFrame.collect

    def watched(self, *arguments, **options):
        found = collect(self, *arguments, **options)
        heights.append(found.height)
        return found

    monkeypatch.setattr(pl.LazyFrame, "collect", watched)
    for name in ("fetch", "collect_async", "collect_batches", "sink_parquet", "to_pandas", "head"):
        monkeypatch.delattr(pl.LazyFrame, name, raising=False)
    monkeypatch.delattr(pl, "collect_all")
    frame = pl.LazyFrame({"x": np.tile(X, 20), "g": np.arange(6000) % 3, "id": np.arange(6000)})
    for row_id in (None, "id"):
        scan = ov.scan(frame, row_id)
        assert agrees(scan.mean("x", rng=1, n_blocks=11), np.tile(X, 20))
        assert max(heights) == 11
        answer = scan.mean("x", by="g", rng=1, n_blocks=11)
        assert isinstance(answer, pl.LazyFrame)
        scan.difference("x", "g", a=0, b=2, rng=1, n_blocks=11)
        scan.variance("x", rng=1, n_blocks=11)
        assert max(heights) == 33
        heights.clear()


def test_unreadable_lazy_frame_raises(tmp_path):
    pl.DataFrame({"x": X, "g": "a"}).write_parquet(tmp_path / "a.parquet")
    scan = ov.scan(pl.scan_parquet(tmp_path / "a.parquet"))
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(FileNotFoundError):
        scan.mean("x")
    broken = pl.LazyFrame({"x": ["1", "two"]}).select(pl.col("x").cast(pl.Float64))
    with pytest.raises(ValueError, match="the lazy polars frame cannot be read: conversion from"):
        ov.scan(broken).mean("x")


# --- output ----------------------------------------------------------------------------------------------------------


def test_groups_give_a_frame_of_the_same_type(kind):
    frame = kind({"x": X, "city": ["Bonn", "Köln", "Ulm"] * 100, "wet": np.arange(300) % 2 == 0})
    answer = ov.scan(frame).mean("x", by=["wet", "city"], rng=1, contamination=1, vote="median")
    assert type(answer) is type(frame)
    found = eager(answer)
    assert found.columns == ["wet", "city", *HEADS]
    for name, expected in (("estimate", nw.Float64), ("n", nw.Int64), ("blocks", nw.Int64), ("survives", nw.Int64)):
        assert found.schema[name] == expected
    assert found["provenance"].to_list() == ["plug-in"] * 6
    assert found["note"].to_list() == [""] * 6
    assert found["n"].to_list() == [50] * 6
    assert found.select("wet", "city").rows() == sorted(found.select("wet", "city").rows())
    low, high, middle = (found[name].to_numpy() for name in ("low", "high", "estimate"))
    np.testing.assert_allclose(middle - low, found["radius"].to_numpy(), rtol=1e-12)
    np.testing.assert_allclose(high - middle, found["radius"].to_numpy(), rtol=1e-12)
    one_sided = eager(ov.scan(frame).mean("x", by="city", rng=1, contamination=1, alternative="less", vote="median"))
    assert (one_sided["low"].to_numpy() == -math.inf).all()


def test_several_columns_give_one_line_each(kind):
    scan = ov.scan(kind({"x": X, "y": X + 5, "city": ["Bonn", "Köln"] * 150}))
    options = {"by": "city", "rng": 1, "contamination": 1, "n_blocks": 11}
    found = lines(scan.mean(["y", "x"], **options))
    assert [(line["city"], line["column"]) for line in found] == [(c, v) for c in ("Bonn", "Köln") for v in "yx"]
    alone = [line["estimate"] for name in "yx" for line in lines(scan.mean([name], **options))]
    assert [found[i]["estimate"] for i in (0, 2, 1, 3)] == pytest.approx(alone, rel=1e-12)
    wider = lines(scan.mean(["y", "x"], simultaneous=True, **options))
    assert all(a["radius"] > b["radius"] for a, b in zip(wider, found, strict=True))


def test_small_groups_get_a_note(kind):
    """A group with too few rows, only gaps, or too many of them has a line that says so."""
    group = ["large"] * 230 + ["small"] * 20 + ["gaps"] * 40 + ["one"] + ["none"] * 9
    values = X.copy()
    values[250:253] = math.nan
    values[291:] = math.nan
    scan = ov.scan(kind({"x": values, "g": group}))

    def by_group(contamination, policy="omit", **options):
        table = scan.mean("x", by="g", contamination=contamination, nan_policy=policy, vote="median", **options)
        return {line["g"]: line for line in lines(table)}

    found = by_group(50)
    assert set(found) == {"large", "small", "gaps", "one", "none"}
    assert found["large"]["note"] == ""
    assert found["large"]["survives"] >= 50
    for name, n, reason in (("small", 20, "contamination=50 means 50 corrupt rows among 20"),
                            ("gaps", 37, "corrupt rows among 37"), ("one", 1, "largest count here is 0"),
                            ("none", 0, "no usable rows")):  # fmt: skip
        line = found[name]
        assert reason in line["note"]
        assert (line["n"], line["blocks"], line["survives"], line["provenance"]) == (n, 0, 0, "none")
        assert all(line[head] is None or math.isnan(line[head]) for head in ("estimate", "low", "high", "radius"))
    found = by_group(2, "corrupt")
    assert "NULL, NaN or infinite values in 3 rows, more than the 2 corrupt rows" in found["gaps"]["note"]
    assert found["small"]["blocks"] > 4
    small = by_group(9, confidence=0.999999999)["small"]
    assert small["provenance"] == "none"
    assert small["estimate"] == pytest.approx(X[230:250].mean(), abs=1)
    assert small["note"] != ""
    all_bad = eager(scan.mean("x", by="g", contamination=200, nan_policy="omit", vote="median"))
    assert all_bad["estimate"].is_null().all() or all_bad["estimate"].is_nan().all()
    assert all_bad.schema["estimate"] == nw.Float64


def test_empty_table_and_one_row(kind):
    full = kind({"x": X, "g": ["a"] * 300})
    empty = full.slice(0, 0) if isinstance(full, pa.Table) else full.limit(0) if hasattr(full, "limit") else full[:0]
    with pytest.raises(ValueError, match="column 'x' has no usable rows: at least one row is needed"):
        ov.scan(empty).mean("x")
    answer = ov.scan(empty).mean("x", by="g", vote="median")
    assert type(answer) is type(empty)
    assert eager(answer).columns == ["g", *HEADS]
    assert len(eager(answer)) == 0
    with pytest.raises(ValueError, match="the column 'g' has 0 values, not two"):
        ov.scan(empty).difference("x", "g")
    one = ov.scan(kind({"x": [5.0], "g": ["a"]}))
    assert one.mean("x", contamination=0, rng=0, vote="median").estimate == 5
    assert lines(one.mean("x", by="g", contamination=0, rng=0, vote="median"))[0]["estimate"] == 5
    with pytest.raises(ValueError, match="no usable rows"):
        ov.scan(kind({"x": [math.nan, math.nan]})).mean("x", nan_policy="omit")


KEYS = {
    "categories": pd.DataFrame({"x": X, "k": pd.Categorical(["b", "a", "b"] * 100, categories=["b", "unused", "a"])}),
    "strings": pd.DataFrame({"x": X, "k": pd.array(["b", "a", "b"] * 100, dtype="string[pyarrow]")}),
    "objects": pd.DataFrame({"x": X, "k": pd.Series([dt.date(2020, 1, day) for day in (2, 1, 2)] * 100, dtype=object)}),
    "boolean": pd.DataFrame({"x": X, "k": pd.array([True, False, True] * 100, dtype="boolean")}),
    "int8": pd.DataFrame({"x": X, "k": np.array([2, 1, 2] * 100, dtype=np.int8)}),
    "zoned": pd.DataFrame({"x": X, "k": pd.to_datetime([2, 1, 2] * 100, unit="s", utc=True)}),
    "lazy categories": pl.LazyFrame({"x": X, "k": pl.Series(["b", "a", "b"] * 100, dtype=pl.Categorical)}),
    "lazy enum": pl.LazyFrame({"x": X, "k": pl.Series(["b", "a", "b"] * 100, dtype=pl.Enum(["b", "a"]))}),
    "lazy floats": pl.LazyFrame({"x": X, "k": pl.Series([0.3, -0.1, 0.3] * 100, dtype=pl.Float32)}),
    "lazy durations": pl.LazyFrame({"x": X, "k": [dt.timedelta(2), dt.timedelta(1), dt.timedelta(2)] * 100}),
    "lazy zoned": pl.LazyFrame({"x": X, "k": pl.Series([2, 1, 2] * 100).cast(pl.Datetime("ms", "Europe/Berlin"))}),
    "decimals": pl.DataFrame({"x": X, "k": [decimal.Decimal(k) / 2 for k in (5, 3, 5)] * 100}),
    "dictionary": pa.table({"x": X, "k": pa.array(["b", "a", "b"] * 100).dictionary_encode()}),
}  # fmt: skip


@pytest.mark.parametrize("frame", KEYS.values(), ids=KEYS)
def test_keys_keep_their_type(frame):
    answer = eager(ov.scan(frame).mean("x", by="k", rng=1, n_blocks=11))
    assert answer.schema["k"] == nw.from_native(frame).collect_schema()["k"]
    assert answer["n"].to_list() == [100, 200]
    key = eager(frame)["k"].to_list()
    assert answer["k"].to_list() == [key[1], key[0]]
    for i, estimate in enumerate(answer["estimate"].to_list()):
        mine = np.flatnonzero((np.arange(300) % 3 == 1) == (i == 0))
        right = np.median(ov.BlockSummary(11, 1).update(X[mine], ids=mine).means)
        assert estimate == pytest.approx(right, rel=1e-12)
    difference = ov.scan(frame).difference("x", "k", a=key[0], b=key[1], rng=1)
    assert difference.centres[0] == pytest.approx(ov.scan(frame).difference("x", "k", rng=1).centres[1], rel=1e-12)


NAMES = ['x"; DROP TABLE t; --', "__outvote_id__", "__outvote_v0__", "__outvote_block__", "__outvote_position__",
         "__outvote_k0__", "col('x')", "^.*$", "*", " ", "level_0", "index", "Größe 🌡"]  # fmt: skip


def test_column_names_are_escaped(kind):
    """Names that look like SQL, like patterns, or like our own are columns like others."""
    values = X[:, None] + np.arange(len(NAMES))
    scan = ov.scan(kind({name: values[:, j] for j, name in enumerate(NAMES)}))
    for names in (NAMES[::-1], ["^.*$", "__outvote_id__"]):
        assert agrees(scan.mean(names, rng=1, n_blocks=11), values[:, [NAMES.index(name) for name in names]])
    turned = kind({**{name: ["it's", '"; DROP'] * 150 for name in NAMES}, "other": X, "n": np.arange(300)[::-1]})
    for names in (NAMES, ["^.*$", "__outvote_k0__"]):
        found = lines(ov.scan(turned, row_id="n").mean("other", by=names, rng=1, n_blocks=11))
        assert [[line[name] for name in (*names, "n")] for line in found] == [
            [*['"; DROP'] * len(names), 150], [*["it's"] * len(names), 150],
        ]  # fmt: skip
    for name in ("*", "__outvote_v0__", "__outvote_id__"):
        assert agrees(asked(kind({"other": X, name: np.arange(300)}), "other", row_id=name))


def test_frame_is_not_modified(kind):
    frame = kind({"x": np.r_[math.nan, X[1:]], "g": np.arange(300) % 2, "id": np.arange(300)})
    before = str(eager(frame).rows())
    scan = ov.scan(frame, row_id="id")
    scan.mean("x", by="g", nan_policy="omit")
    scan.u_statistic("x", "gini", nan_policy="corrupt")
    assert str(eager(frame).rows()) == before
    assert eager(frame).columns == ["x", "g", "id"]


# --- differences ---------------------------------------------------------------------------------------------------


def test_difference_names_its_groups_and_refuses_others(kind):
    arm = np.array(["b", "a", "c"])[np.arange(300) % 3]
    frame = kind({"x": X + 2 * (arm == "b"), "arm": arm})
    scan = ov.scan(frame)
    samples = [(X + 2 * (arm == "b"))[arm == label] for label in "ab"]
    by_evidence = scan.difference("x", "arm", a="a", b="b", assume=ov.FiniteVariance(1.0))
    right = ov.difference(*samples, assume=ov.FiniteVariance(1.0))
    assert (by_evidence.estimate, *by_evidence.interval) == pytest.approx((right.estimate, *right.interval), rel=1e-12)
    assert by_evidence.interval[0] < 2 < by_evidence.interval[1]
    assert by_evidence.detail.startswith("a is arm = 'a', b is arm = 'b'.")
    options = {"rng": 1, "assume": ov.FiniteVariance(1.0), "vote": "median"}
    found = scan.difference("x", "arm", a="a", b="b", **options)
    assert found.interval[0] < 2 < found.interval[1]
    assert found.detail == "a is arm = 'a', b is arm = 'b'."
    back = scan.difference("x", "arm", a="b", b="a", **options)
    assert back.estimate == pytest.approx(-found.estimate, rel=1e-12)
    for options, message in (
        ({}, "the column 'arm' has 3 values, not two: name a and b among 'a', 'b', 'c'"),
        ({"a": "a"}, "the column 'arm' has 3 values: name both a and b among"),
        ({"a": "z", "b": "a"}, "a='z' is not a value of the column 'arm': its values are 'a', 'b', 'c'"),
        ({"a": "a", "b": "a"}, "a and b are both 'a'"),
        ({"a": "a", "b": "b", "n_blocks": (1, 2, 3)}, r"n_blocks=\(1, 2, 3\) has 3 entries for 2 samples"),
        ({"a": "a", "b": "b", "assume": [None]}, r"assume=\[None\] has 1 entries for 2 samples"),
        ({"a": "a", "b": "b", "contamination": (1, 2, 3)}, "has 3 amounts, but there are 2 samples"),
    ):
        for vote in ("auto", "median"):
            with pytest.raises(ValueError, match=message):
                scan.difference("x", "arm", **options, vote=vote)
    two, gaps = kind({"x": X, "arm": ["b", "a"] * 150}), kind({"x": [1.0, math.nan, 2.0], "arm": ["a", "b", "a"]})
    for vote in ("auto", "median"):
        detail = ov.scan(two).difference("x", "arm", b="a", rng=1, vote=vote).detail
        assert detail == "a is arm = 'b', b is arm = 'a'."
        with pytest.raises(ValueError, match="arm='b' has no usable rows"):
            ov.scan(gaps).difference("x", "arm", contamination=0, nan_policy="omit", vote=vote)
    with pytest.raises(TypeError, match=r"value=\['x'\] must be the name of one column"):
        scan.difference(["x"], "arm")


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [KINDS["pandas"], KINDS["relation"]])
def test_invalid_arguments_raise(kind):
    scan = ov.scan(kind({"price": X, "city": ["a", "b"] * 150, "n": np.arange(300)}))
    for arguments, error, message in (
        (("prize",), ValueError, "column='prize' is not a column: did you mean 'price'?"),
        (("zzz",), ValueError, "column='zzz' is not a column: there are 'price', 'city', 'n'"),
        (("price", "citty"), ValueError, "by='citty' is not a column: did you mean 'city'?"),
        ((["price", "price"],), ValueError, r"column=\['price', 'price'\] names a column twice"),
        (([],), ValueError, r"column=\[\] is empty: give at least one column"),
        (("price", []), ValueError, r"by=\[\] is empty: give at least one column"),
        ((3,), TypeError, "column=3 must be the name of a column, or a list of names"),
        ((["price", 3],), TypeError, r"column=\['price', 3\] must be the name of a column, or a list of names"),
        (("city",), TypeError, "column='city' holds .*, but real numbers are needed: convert it first"),
    ):
        with pytest.raises(error, match=message):
            scan.mean(*arguments)
    for options, error, message in (
        ({"contamination": "auto", "vote": "median"}, ValueError, "contamination='auto' goes by evidence: leave out"),
        ({"contamination": "auto", "n_blocks": 9}, ValueError, "contamination='auto' goes by evidence: leave out"),
        ({"contamination": (1, 2)}, ValueError, "has 2 amounts, but there is 1 sample"),
        ({"contamination": 150}, ValueError, "the largest count here is 149"),
        ({"vote": "mode"}, ValueError, "vote='mode'"),
        ({"n_blocks": "many"}, ValueError, "n_blocks='many' must be 'auto' or a number of blocks"),
        ({"n_blocks": 301}, ValueError, "with 300 rows the most is 300"),
        ({"confidence": 2}, ValueError, "confidence=2"),
        ({"assume": [None, None]}, ValueError, "assume has 2 entries for 1 columns"),
        ({"nan_policy": "drop"}, ValueError, "nan_policy='drop'"),
        ({"alternative": "both"}, ValueError, "alternative='both'"),
        ({"rng": -1}, ValueError, "rng=-1 is negative"),
    ):
        with pytest.raises(error, match=message):
            scan.mean("price", **options)
        if "rows" not in message and "largest" not in message:
            with pytest.raises(error, match=message):  # and no line for each group says so
                scan.mean("price", by="city", **options)
    with pytest.raises(ValueError, match="takes 2 samples, but a scan has one"):
        scan.u_statistic("price", "mann-whitney")
    with pytest.raises(ValueError, match="kernel 'kendall' takes rows of 2 numbers"):
        scan.u_statistic("price", "kendall")
    for name in ("estimate", "note", "column"):
        clash = ov.scan(kind({"x": X, name: ["a", "b"] * 150}))
        with pytest.raises(ValueError, match=f"by='{name}' is also the name of a column of the answer: rename it"):
            clash.mean("x", by=name, vote="median")


@pytest.mark.parametrize("vote", ["auto", "median"])
def test_invalid_row_ids_raise(kind, vote):
    ids = np.array([1, 2, 2**63], dtype=np.uint64)
    columns = {"x": X[:3], "id": ids, "f": [1.0, 2.0, 3.0], "b": [True, False, True]}
    with pytest.raises(ValueError, match=r"row_id='id' has the value 9223372036854775808: row ids lie below 2\*\*63"):
        ov.scan(kind(columns), row_id="id").mean("x", contamination=0, vote=vote)
    for name in "fb":
        with pytest.raises(TypeError, match=f"row_id='{name}' must be a column of integers: number the rows, or hash"):
            ov.scan(kind(columns), row_id=name)
    gap = pd.array([1, None, 3], dtype="Int64") if kind is pd.DataFrame else [1, None, 3]
    with pytest.raises(ValueError, match="row_id='id' is not a whole number in some rows: every row needs one"):
        ov.scan(kind({"x": X[:3], "id": gap}), row_id="id").mean("x", contamination=0, vote=vote)


def test_invalid_column_names_raise():
    with pytest.raises(ValueError, match=r"source has two columns with the same name: .*'a' 2 times"):
        ov.scan(pd.DataFrame([[1.0, 2.0]], columns=["a", "a"]))
    numbered = ov.scan(pd.DataFrame([[1.0, 2.0]], columns=[0, 1]))
    with pytest.raises(ValueError, match="column='x' is not a column: there are 0, 1"):
        numbered.mean("x")
    for frame in (pd.DataFrame({"x": X}), pl.LazyFrame({"x": X}), duckdb.sql("SELECT 1.0 AS x")):
        with pytest.raises(TypeError, match=r"row_id=\['x'\] must be a name"):
            ov.scan(frame, row_id=["x"])
    with pytest.raises(TypeError, match="table=3 must be a name"):
        ov.scan(duckdb.connect(), table=3)


@pytest.mark.parametrize("labels", [["a", None, "b"], [1.5, math.nan, 2.5]])
def test_missing_keys_raise(kind, labels):
    frame = kind({"x": X[:3], "g": labels})
    with pytest.raises(ValueError, match="by='g' is NULL in some rows: fill it, or filter these rows out"):
        ov.scan(frame).mean("x", by="g")


def test_keys_of_unsupported_types_raise():
    for frame in (pl.LazyFrame({"x": X[:2], "g": [{"a": 1}, {"a": 2}]}), pa.table({"x": X[:2], "g": [[1], [2]]})):
        with pytest.raises(TypeError, match=r"by='g' holds .* values, but a key is text, a number, a boolean or a"):
            ov.scan(frame).mean("x", by="g")
    with pytest.raises(TypeError, match="labels that cannot be compared"):
        ov.scan(pd.DataFrame({"x": X[:2], "g": [[1], [2]]})).mean("x", by="g")


def test_rows_that_change_meanwhile_raise(monkeypatch):
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range::DOUBLE AS x FROM range(100)")
    tally = DuckEngine.tally

    def and_then_more_come(self, query, **options):
        found = tally(self, query, **options)
        connection.execute("INSERT INTO t VALUES (1.0)")
        return found

    monkeypatch.setattr(DuckEngine, "tally", and_then_more_come)
    with pytest.raises(RuntimeError, match="100 rows were counted, but 101 summed up: did the data change meanwhile"):
        ov.scan(connection, table="t").mean("x", vote="median")
    for name in ("FETCHED", "MANY_ROWS"):  # else the rows are brought here, and those that are here count
        monkeypatch.setattr(f"outvote.tables.gathered.{name}", 9)
    with pytest.raises(RuntimeError, match="101 rows were counted, but 102 summed up: did the data change meanwhile"):
        ov.scan(connection, table="t").mean("x")


def test_repr_of_a_scan():
    assert repr(ov.scan(pd.DataFrame({"x": X}))) == "Scan(pandas frame of 300 rows)"
    assert repr(ov.scan(pl.LazyFrame({"x": X}))) == "Scan(lazy polars frame)"
    assert repr(ov.scan(pa.table({"x": X}))) == "Scan(pyarrow frame of 300 rows)"


def test_number_of_blocks_is_limited_unless_given(monkeypatch):
    monkeypatch.setattr("outvote.tables.plans.MOST_BLOCKS", 25)
    scan = ov.scan(pa.table({"x": X}))
    options = {"assume": ov.FiniteVariance(1.0), "vote": "soft", "rng": 1, "contamination": 2}
    found = scan.mean("x", **options)
    assert found.plan.n_blocks == 25
    right = ov.mean(X, n_blocks=25, partition="hash", **options)
    assert (found.estimate, found.radius) == pytest.approx((right.estimate, right.radius), rel=1e-12)
    assert scan.mean("x", n_blocks=30, **options).plan.n_blocks == 30


@pytest.mark.parametrize("frame", [lambda f: f, lambda f: f.lazy()])
def test_names_like_regular_expressions_are_names(frame):
    x, y = np.random.default_rng(0).normal(size=(2, 60))
    table = pl.DataFrame({"^a.*$": x, "a1": y, "^k$": ["u", "v"] * 30, "^id$": np.arange(60), "*": y})
    scan = ov.scan(frame(table), row_id="^id$")
    assert scan.mean("^a.*$").estimate == ov.mean(x).estimate
    assert scan.mean("*").estimate == ov.mean(y).estimate
    assert scan.quantile("^a.*$").estimate == ov.quantile(x).estimate
    groups = scan.mean("^a.*$", by="^k$").lazy().collect()
    assert sorted(groups["^k$"]) == ["u", "v"]


def test_suspects_and_descriptions_take_such_names():
    table = pl.DataFrame({"^a.*$": np.r_[np.random.default_rng(0).normal(size=60), 90.0], "a1": np.arange(61.0)})
    assert ov.suspects(table, value="^a.*$")["row"][0] == 60
    assert len(ov.describe(table)) == 2
