"""The same rows and seed give the same result on every engine, however the rows are split and ordered."""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.blocks.hashing import hash_rows
from outvote.kernels import KERNELS
from outvote.tables.duckdb import DuckEngine
from outvote.tables.lazy import LazyEngine
from outvote.tables.scan import Scan

duckdb = pytest.importorskip("duckdb")
nw = pytest.importorskip("narwhals")
pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pq = pytest.importorskip("pyarrow.parquet")
from engines import ENGINES, in_parts, rows, written  # noqa: E402

RTOL = 1e-12
IDS = [0, 1, 2**31 - 2, 2**31 - 1, 2**31, 2**53 + 1, 2**62 + 3, 2**63 - 1, -1, -(2**31), -(2**53) - 1, -(2**63)]


def same(found, expected):
    for name in ("estimate", "radius", "interval", "block_values"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=RTOL, atol=RTOL)
    np.testing.assert_array_equal(found.block_sizes, expected.block_sizes)
    assert found.plan == expected.plan
    assert (found.seed, found.partition, found.n_omitted) == (expected.seed, expected.partition, expected.n_omitted)


# --- every engine ------------------------------------------------------------------------------------------------

ASKED = [
    {},
    {"assume": ov.FiniteKurtosis(5.0), "n_blocks": 21},
    {"vote": "soft", "assume": ov.FiniteVariance(2.0)},
    {"vote": "clipped", "n_blocks": 60},
    {"assume": ov.Bounded(-9, 15), "alternative": "less"},
    {"contamination": 7, "confidence": 0.8},
    {"contamination": ov.Contamination(0.01, "adaptive")},
]


def test_mean_equals_the_mean_in_memory(engine):
    table = rows()
    scan = engine(table)
    for asked in ASKED:
        options = {"contamination": 0.01, "rng": 11, "vote": "median", **asked}
        same(scan.mean("x", **options), ov.mean(table["x"].to_numpy(), partition="hash", **options))


def test_means_of_columns_equal_those_in_memory(engine):
    table = rows()
    scan = engine(table)
    for options in ({}, {"simultaneous": True, "assume": [ov.FiniteVariance(2.0), None]}):
        found = scan.mean(["y", "x"], rng=1, **options, vote="median")
        same(found, ov.mean(table.select(["y", "x"]).to_pandas(), partition="hash", axis=0, rng=1, **options))
        assert found.names == ("y", "x")


@pytest.mark.parametrize("policy", ["omit", "corrupt"])
def test_missing_and_infinite_values(engine, policy):
    values = np.random.default_rng(0).normal(size=400)
    values[[0, 7, 399]] = math.nan
    if policy == "corrupt":
        values[[5, 200]] = [math.inf, -math.inf]
    scan = engine(pa.table({"x": pa.array(values, mask=np.arange(400) == 7), "z": np.arange(400.0)}))
    options = {"rng": 3, "contamination": 0.05, "nan_policy": policy}
    both = np.stack([values, np.arange(400.0)], axis=1)
    same(scan.mean("x", **options, vote="median"), ov.mean(values, partition="hash", **options))
    same(scan.mean(["x", "z"], **options, vote="median"), ov.mean(both, partition="hash", **options))
    by_evidence, right = scan.mean("x", contamination=0.05, nan_policy=policy), ov.mean(values, 0.05, nan_policy=policy)
    assert by_evidence.interval == pytest.approx(right.interval, rel=RTOL)
    n_left_out = 3 if policy == "omit" else 5
    assert by_evidence.n_omitted == right.n_omitted == n_left_out
    message = rf"column 'x' has NULL, NaN or infinite values in {n_left_out} of 400 rows: nan_policy="
    for vote in ("auto", "median"):
        with pytest.raises(ValueError, match=message):
            scan.mean("x", vote=vote)
        if policy == "corrupt":
            with pytest.raises(ValueError, match="infinite values, which are not missing, in 2 of 400 rows"):
                scan.mean("x", nan_policy="omit", vote=vote)
            with pytest.raises(ValueError, match="in 5 rows, more than the 2 corrupt rows that contamination allows"):
                scan.mean("x", contamination=2, nan_policy="corrupt", vote=vote)


def test_nan_missing_from_parquet_statistics(tmp_path):
    """Parquet keeps the smallest and largest number of a row group, NaN aside: an engine may take that for all."""
    values = np.random.default_rng(0).normal(size=400)
    values[[3, 200]] = math.nan
    pattern = written(in_parts(pa.table({"x": values}), [40, 100]), tmp_path, "parquet")
    assert pq.ParquetFile(tmp_path / "part-000.parquet").metadata.row_group(0).column(0).statistics.has_min_max
    options = {"rng": 1, "n_blocks": 13, "nan_policy": "omit"}
    for source in (pattern, pl.scan_parquet(pattern), duckdb.read_parquet(pattern)):
        scan = ov.scan(source)
        same(scan.mean("x", **options, vote="median"), ov.mean(values, partition="hash", **options))
        for vote in ("auto", "median"):
            with pytest.raises(ValueError, match="NULL, NaN or infinite values in 2 of 400 rows"):
                scan.mean("x", vote=vote)
        found = scan.u_statistic("x", "gini", **options)
        assert np.isfinite(found.block_values).all()
        assert found.block_sizes.sum() == 398


def test_row_ids_make_the_order_of_rows_irrelevant(engine):
    rng = np.random.default_rng(1)
    ids = np.array([*IDS, *rng.integers(-(2**63), 2**63 - 1, size=388)])
    table = rows(id=ids)
    blocks = ov.BlockSummary(23, 5).update(table["x"].to_numpy(), ids=ids)
    for order in (np.arange(400), rng.permutation(400)):
        found = engine(table.take(order), row_id="id").mean("x", n_blocks=23, rng=5)
        np.testing.assert_allclose(found.block_values, blocks.means, rtol=RTOL)
        np.testing.assert_array_equal(found.block_sizes, blocks.counts)


def test_groups_equal_those_in_memory(engine):
    rng = np.random.default_rng(2)
    city, wet = rng.choice(["Bonn", "Köln", "it's", '"'], size=400, p=[0.5, 0.3, 0.15, 0.05]), rng.random(400) < 0.5
    table = rows(id=rng.permutation(400), city=city, wet=wet)
    x, ids = table["x"].to_numpy(), table["id"].to_numpy()
    options = {"contamination": 1, "rng": 4, "vote": "median"}
    found = nw.from_native(engine(table, row_id="id").mean("x", by=["city", "wet"], **options))
    lines = found.lazy().collect().rows(named=True)
    assert [(line["city"], line["wet"]) for line in lines] == sorted(set(zip(city.tolist(), wet.tolist(), strict=True)))
    for line in lines:
        mine = (city == line["city"]) & (wet == line["wet"])
        n = int(mine.sum())
        right = ov.BlockSummary(ov.plan_blocks(n, 1).n_blocks, 4).update(x[mine], ids=ids[mine]).result(1)
        assert (line["n"], line["blocks"], line["survives"]) == (n, right.plan.n_blocks, right.plan.survives)
        numbers = [line[name] for name in ("estimate", "low", "high", "radius")]
        np.testing.assert_allclose(numbers, [right.estimate, *right.interval, right.radius], rtol=RTOL)
        assert (line["provenance"], line["note"]) == ("plug-in", "")


def test_differences_are_the_same_on_every_engine(engine):
    table = rows(arm=np.random.default_rng(3).choice(["control", "treated"], size=400))
    scan, reference = engine(table), ov.scan(table)
    by_blocks = [
        {"vote": "median"},
        {"vote": "median", "relative": True, "assume": ov.FiniteVariance(2.0)},
        {"n_blocks": (11, 15), "vote": "soft"},
    ]
    for options in ({}, {"relative": True, "assume": ov.FiniteVariance(2.0)}, *by_blocks):
        found, expected = (one.difference("x", "arm", rng=2, **options) for one in (scan, reference))
        for name in ("estimate", "radius", "interval", "centres"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=RTOL)
        assert found.plan == expected.plan
        assert found.detail == expected.detail == "a is arm = 'control', b is arm = 'treated'."


def test_u_statistics_equal_those_in_memory(engine):
    table = rows()
    scan, options = engine(table), {"rng": 6, "n_blocks": 13}
    vectors = table.select(["x", "y"]).to_pandas().to_numpy()
    for column, kernel, values in (
        ("x", "variance", vectors[:, 0]),
        ("x", "gini", vectors[:, 0]),
        (["x", "y"], "kendall", vectors),
    ):
        expected = ov.u_statistic(values, kernel=kernel, partition="hash", **options)
        same(scan.u_statistic(column, kernel, **options), expected)
        if kernel == "variance":
            same(scan.variance("x", **options), expected)


def test_u_statistics_with_missing_values(engine):
    values = np.random.default_rng(0).normal(size=400)
    values[[3, 200]] = math.nan
    scan = engine(pa.table({"x": values}))
    blocks, good = hash_rows(np.arange(400), 6) % 13, np.isfinite(values)
    for policy, kernel, n in (("omit", "variance", 398), ("corrupt", "gini", 400)):
        options = {"contamination": 5, "nan_policy": policy, "rng": 6, "n_blocks": 13}
        found = scan.u_statistic("x", kernel, **options)
        expected = [KERNELS[kernel].aligned(values[good & (blocks == k)][None])[0] for k in range(13)]
        np.testing.assert_allclose(found.block_values, expected, rtol=RTOL)
        here = ov.u_statistic(values, kernel=kernel, partition="hash", **options)
        np.testing.assert_allclose([found.estimate, found.radius], [here.estimate, here.radius], rtol=1e-11)
        assert (found.plan.n_rows, found.n_omitted) == (here.plan.n_rows, here.n_omitted) == (n, 2)
    with pytest.raises(ValueError, match="NULL, NaN or infinite values in 2 rows, more than the 1 corrupt rows"):
        scan.u_statistic("x", "gini", 1, nan_policy="corrupt")


def test_largest_floats(engine):
    """Corrupt rows spoil their own blocks, on every engine: sums that are too large are taken again."""
    values = np.random.default_rng(0).normal(size=400)
    values[[3, 4, 5, 6, 7, 8]] = [1.7e308, 1.7e308, 1.7e308, -1.7e308, 1e200, -1e160]
    options = {"n_blocks": 13, "rng": 8, "contamination": 6}
    assert len(set((hash_rows(np.arange(3, 9), 8) % 13).tolist())) == 6  # else they would take digits from each other
    expected = ov.mean(values, partition="hash", **options)
    assert np.abs(expected.block_values).max() > 1e306
    found = engine(pa.table({"x": values})).mean("x", **options, vote="median")
    np.testing.assert_allclose(found.block_values, expected.block_values, rtol=RTOL)
    np.testing.assert_allclose(found.radius, expected.radius, rtol=RTOL)


def test_precise_far_from_zero(engine):
    values = -1e14 + np.random.default_rng(0).normal(size=4000)
    values[:2] = 0.0, 1e30
    found = engine(pa.table({"x": values})).mean("x", n_blocks=21, rng=1)
    expected = ov.mean(values, n_blocks=21, rng=1, partition="hash")
    assert found.estimate == pytest.approx(expected.estimate, rel=1e-15)
    assert found.radius == pytest.approx(expected.radius, rel=1e-9)
    values = 1e9 + 0.1 + 1e-4 * np.random.default_rng(0).normal(size=20_000)
    options = {"contamination": 2, "n_blocks": 11, "assume": ov.FiniteVariance(1.1e-4), "rng": 1}
    found = engine(pa.table({"x": values})).mean("x", **options)
    np.testing.assert_allclose(
        found.block_values, ov.mean(values, partition="hash", **options).block_values, rtol=4e-16
    )


KEYS = {
    "text": ["b", "a"],
    "integers": [2**40, -3],
    "floats": [0.1, -1e300],
    "booleans": [True, False],
    "dates": [dt.date(2024, 2, 29), dt.date(1969, 1, 1)],
    "times": [dt.datetime(2024, 2, 29, 1, 2, 3, 456789), dt.datetime(1969, 1, 1)],
}


def test_keys_of_every_type(engine):
    table = rows(90, **{name: [labels[i % 3 == 0] for i in range(90)] for name, labels in KEYS.items()})
    scan, reference = engine(table, cuts=()), ov.scan(table)
    for name, labels in KEYS.items():
        found, expected = (
            nw.from_native(one.mean("x", by=name, rng=0, contamination=2, vote="median")).lazy().collect()
            for one in (scan, reference)
        )
        assert found[name].to_list() == sorted(labels)
        assert found["n"].to_list() == [table[name].to_pylist().count(label) for label in sorted(labels)]
        np.testing.assert_allclose(found["estimate"].to_numpy(), expected["estimate"].to_numpy(), rtol=RTOL)
    for name in ("integers", "dates"):
        a, b = KEYS[name]
        found, expected = (one.difference("x", name, a=a, b=b).estimate for one in (scan, reference))
        assert found == pytest.approx(expected, rel=RTOL)


# --- quantiles ----------------------------------------------------------------------------------------------------


def test_quantiles_equal_those_in_memory(engine):
    table = rows(city=np.random.default_rng(3).choice(["b", "a", "c"], size=400, p=[0.6, 0.39, 0.01]))
    x, city = table["x"].to_numpy(), table["city"].to_numpy(zero_copy_only=False)
    scan = engine(table)
    whole = scan.quantile("x", [0.5, 0.9], contamination=2)
    assert whole.to_dict() == ov.quantile(x, [0.5, 0.9], contamination=2).to_dict()
    found = nw.from_native(scan.quantile("x", [0.5, 0.99], by="city", contamination=1)).lazy().collect()
    assert found.columns == ["city", "q", "estimate", "low", "high", "n", "corrupt", "provenance", "note"]
    lines = found.rows(named=True)
    assert [(line["city"], line["q"]) for line in lines] == [(name, q) for name in "abc" for q in (0.5, 0.99)]
    for line in lines:
        mine = x[city == line["city"]]
        if len(mine) < 3:
            assert line["estimate"] is None or math.isnan(line["estimate"])
            assert "clean rows must be in the majority" in line["note"]
            continue
        one = ov.quantile(mine, line["q"], contamination=1)
        assert (line["estimate"], line["low"], line["high"]) == (one.estimate, *one.interval)
        assert (line["n"], line["corrupt"], line["provenance"]) == (len(mine), 1, one.certificate.provenance)
        if line["q"] == 0.99:
            assert "too few rows to bound p99 from above" in line["note"]
    one = nw.from_native(scan.quantile("x", 0.5, by="city")).lazy().collect()
    assert one.columns == ["city", "estimate", "low", "high", "n", "corrupt", "provenance", "note"]


def test_quantiles_by_two_keys_and_without_some_rows(engine):
    values = np.random.default_rng(0).normal(size=400)
    values[[3, 200]] = math.nan
    first, second = np.arange(400) % 2, np.arange(400) % 3 == 0
    scan = engine(pa.table({"x": values, "k": first, "wet": second, "q": second}))
    with pytest.raises(ValueError, match="NULL, NaN or infinite values in 2 of 400 rows"):
        scan.quantile("x")
    omitted = scan.quantile("x", nan_policy="omit", contamination=3)
    assert (omitted.plan.n_rows, omitted.interval) == (398, ov.quantile(values, 0.5, 3, nan_policy="omit").interval)
    with pytest.raises(ValueError, match="by='q' is also the name of a column of the answer"):
        scan.quantile("x", by=["k", "q"])
    found = nw.from_native(scan.quantile("x", 0.3, by=["k", "wet"], contamination=2, nan_policy="corrupt"))
    lines = found.lazy().collect().rows(named=True)
    assert [(line["k"], line["wet"]) for line in lines] == [(0, False), (0, True), (1, False), (1, True)]
    for line in lines:
        mine = values[(first == line["k"]) & (second == line["wet"])]
        assert (line["low"], line["high"]) == ov.quantile(mine, 0.3, 2, nan_policy="corrupt").interval
    with pytest.raises(TypeError, match="must be the name of one column"):
        scan.quantile(["x", "k"])


def test_infinite_rows_are_values_of_quantiles():
    values = np.r_[np.arange(50.0), math.inf, -math.inf]
    assert ov.scan(pl.DataFrame({"x": values})).quantile("x", 0.5).interval == ov.quantile(values).interval


# --- tolerance ----------------------------------------------------------------------------------------------------


def test_tolerance_names_the_rows_that_decide_by_their_ids(engine):
    table = rows(300, seed=3)
    ids = np.random.default_rng(0).permutation(300) * 7 + 5
    x = table["x"].to_numpy().copy()
    x[:150] += 1.5
    arm = np.where(np.arange(300) < 150, "new", "old")
    table = table.set_column(0, "x", pa.array(x)).append_column("arm", pa.array(arm))
    numbered = table.append_column("key", pa.array(ids))
    known = np.argsort(ids[150:]), np.argsort(ids[:150])  # a is "new": labels in order
    one = ov.tolerance(x[np.argsort(ids)], claim="mean > 3")
    found = engine(numbered, row_id="key").tolerance("x", claim="mean > 3")
    assert found.rows == one.rows
    assert found.deciding == tuple(np.sort(ids)[list(one.deciding)].tolist())
    assert x[np.argsort(ids)][list(one.deciding)].min() > 3
    new, old = (x[:150][known[1]], ids[:150][known[1]]), (x[150:][known[0]], ids[150:][known[0]])
    two = ov.tolerance(new[0], old[0])
    found = engine(numbered, row_id="key").tolerance("x", "arm")
    assert found.claim == two.claim == "difference < 0"
    assert found.rows == two.rows
    assert found.deciding == tuple((s, int((new, old)[s][1][i])) for s, i in two.deciding)
    assert engine(table).tolerance("x", claim="mean > 3").deciding == ov.tolerance(x, claim="mean > 3").deciding
    turned = engine(table).tolerance("x", "arm", a="old", b="new", contamination=3)
    assert turned.claim == "difference > 0"


def test_tolerance_of_rows_without_a_number(engine):
    table = rows(200, seed=4)
    gaps = table["x"].to_pylist()
    gaps[10] = None
    table = table.set_column(0, "x", pa.array(gaps))
    with pytest.raises(ValueError, match="NULL, NaN or infinite values in 1 of 200"):
        engine(table).tolerance("x", claim="mean > 0")
    left_out = engine(table).tolerance("x", claim="mean > 0", nan_policy="omit")
    assert left_out.n_rows == 199
    assert 10 not in left_out.deciding
    assert engine(table).tolerance("x", claim="mean > 0", nan_policy="corrupt").n_rows == 200
    with pytest.raises(TypeError, match="needs a claim"):
        engine(rows(50)).tolerance("x")
    with pytest.raises(TypeError, match="must be the name of one column"):
        engine(rows(50)).tolerance(["x", "y"], claim="mean > 0")


# --- every partitioning ----------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 120),
    st.lists(st.integers(0, 120), max_size=5),
    st.integers(0, 2**32),
    st.sampled_from(["parquet", "csv", "polars", "polars scan", "relation"]),
)
def test_any_split_of_files_equals_the_mean_in_memory(n_rows, cuts, seed, kind):
    table = rows(n_rows, seed)
    expected = ov.mean(table["x"].to_numpy(), 0, n_blocks=min(n_rows, 7), partition="hash", rng=seed)
    with tempfile.TemporaryDirectory() as folder:
        source = ENGINES[kind](table, Path(folder), sorted(min(cut, n_rows) for cut in cuts))
        same(ov.scan(**source).mean("x", contamination=0, n_blocks=min(n_rows, 7), rng=seed), expected)


@pytest.mark.filterwarnings("ignore:row_id='id' has .* rows, but only")  # of ids that come twice
@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.one_of(st.sampled_from(IDS), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=60),
    st.lists(st.integers(0, 60), max_size=4),
    st.integers(0, 2**32),
    st.sampled_from(["parquet", "csv", "pandas", "polars lazy", "table"]),
)
def test_any_order_and_ids_equal_the_summary_in_memory(ids, cuts, seed, kind):
    n_rows, rng = len(ids), np.random.default_rng(seed)
    table = rows(n_rows, seed, id=ids)
    k = min(n_rows, 5)
    expected = ov.BlockSummary(k, seed).update(table["x"].to_numpy(), ids=ids)
    with tempfile.TemporaryDirectory() as folder:
        shuffled = table.take(rng.permutation(n_rows))
        source = ENGINES[kind](shuffled, Path(folder), sorted(min(cut, n_rows) for cut in cuts))
        found = ov.scan(row_id="id", **source).mean("x", contamination=0, n_blocks=k, rng=seed)
    keep = expected.counts > 0
    np.testing.assert_array_equal(found.block_sizes, expected.counts[keep])
    np.testing.assert_allclose(found.block_values, expected.means[keep], rtol=RTOL, atol=RTOL)


def test_rows_of_many_files_are_numbered_in_order(tmp_path):
    """Several threads read several row groups of several files: the rows are still those in memory."""
    x = np.random.default_rng(0).normal(size=30_000)
    cuts = [1, 1000, 12_000, 12_001, 20_000]
    turned = np.concatenate(np.split(x, cuts)[::-1])
    for kind in ("parquet", "csv"):
        pattern = written(in_parts(pa.table({"x": x}), cuts), tmp_path, kind)
        for source, right in ((pattern, x), (sorted(tmp_path.glob(f"*.{kind}"))[::-1], turned)):
            same(ov.scan(source).mean("x", n_blocks=101, rng=0), ov.mean(right, n_blocks=101, rng=0, partition="hash"))


def test_native_hash_of_duckdb_is_named():
    table = rows(id=np.arange(400) - 7)

    def found(given=table, rng=1, **options):
        return ov.scan(duckdb.from_arrow(given), row_id="id", **options).mean("x", n_blocks=9, rng=rng)

    native = found(hash="native")
    assert native.detail == "The blocks are those of the DuckDB hash."
    again = found(table.take(np.arange(400)[::-1]), hash="native")
    np.testing.assert_allclose(again.block_values, native.block_values, rtol=RTOL)
    assert found().detail == ""
    for other in (found(), found(hash="native", rng=2)):
        assert native.block_sizes.tolist() != other.block_sizes.tolist()


def test_nan_that_an_engine_missed_raises(monkeypatch):
    scan = ov.scan(duckdb.sql("SELECT CASE WHEN range = 5 THEN 'nan'::DOUBLE ELSE range END AS x FROM range(100)"))

    def blind(write):
        return lambda self, *asked: write(self, *asked).replace("isfinite(v0)", "v0 IS NOT NULL")

    for name in ("_marked", "_blocked"):
        monkeypatch.setattr(DuckEngine, name, blind(getattr(DuckEngine, name)))
    for ask in (lambda: scan.mean("x", vote="median"), lambda: scan.u_statistic("x", "gini", n_blocks=5)):
        with pytest.raises(RuntimeError, match="has NaN or infinite values that were not found when they were counted"):
            ask()
    with pytest.raises(ValueError, match="NaN or infinite values in 1 of 100 rows"):
        scan.mean("x")


@pytest.mark.parametrize("small", [False, True])
def test_hash_in_sql_of_small_and_large_row_numbers(small):
    """Where the row numbers are known to be small, part of the hash is left out; not where they may be large."""
    ids = np.arange(500) if small else np.array([*IDS, *range(488)])
    table = pa.table({"x": np.arange(500.0), "id": ids})
    scan = ov.scan(duckdb.from_arrow(table), row_id="id")
    found = scan.mean("x", n_blocks=17, rng=3)
    np.testing.assert_array_equal(found.block_sizes, ov.BlockSummary(17, 3).update(np.arange(500.0), ids).counts)


def test_lazy_frames_of_other_libraries():
    """Any lazy frame that narwhals knows has its mean and those of groups; blocks need row ids, and have no groups."""
    table = rows(id=np.arange(400), wet=np.arange(400) % 3 == 0)
    frame = nw.from_native(duckdb.from_arrow(table))
    assert isinstance(frame, nw.LazyFrame)
    x, wet = table["x"].to_numpy(), table["wet"].to_numpy(zero_copy_only=False)
    found = Scan(LazyEngine(frame, "id")).mean("x", rng=1, vote="median")
    same(found, ov.mean(x, partition="hash", rng=1))
    with pytest.raises(ValueError, match="does not number its rows: give the name of a column of integers as row_id="):
        Scan(LazyEngine(frame, None)).mean("x", vote="median")
    message = r"by=\['wet'\]: blocks of a lazy .* have one answer, but not one for each group: collect"
    with pytest.raises(ValueError, match=message):
        Scan(LazyEngine(frame, "id")).mean("x", by="wet", vote="median")
    for row_id in (None, "id"):
        scan = Scan(LazyEngine(frame, row_id))
        assert scan.mean("x").interval == pytest.approx(ov.mean(x).interval, rel=RTOL)
        lines = nw.from_native(scan.mean("x", by="wet")).lazy().collect().rows(named=True)
        assert [line["wet"] for line in lines] == [False, True]
        for line in lines:
            mine = x[wet == line["wet"]]
            assert (line["n"], line["low"], line["high"]) == pytest.approx((len(mine), *ov.mean(mine).interval))
