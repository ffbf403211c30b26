"""Dask frames and files on a cluster give the results of rows in memory."""

from __future__ import annotations

import math
import sys

import numpy as np
import pandas as pd
import pytest

import outvote as ov
from outvote.tables import dask as module
from outvote.tables import workers
from outvote.tables.engine import Query

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
from dask_rows import SAME, N, assert_close, rows, write  # noqa: E402

pytestmark = pytest.mark.usefixtures("in_this_thread")

NAME = 'it\'s "x.y"; DROP TABLE source -- Größe'


# --- equality with results in memory ---------------------------------------------------------------------


@pytest.mark.parametrize("n_partitions", [1, 40])
def test_mean_of_a_dask_frame_equals_the_mean_in_memory(n_partitions):
    frame = rows()
    found = ov.scan(dd.from_pandas(frame, npartitions=n_partitions)).mean("x", contamination=20, rng=5, vote="median")
    assert_close(found, ov.mean(frame["x"].to_numpy(), contamination=20, rng=5, partition="hash"))


def test_rows_of_files_on_a_cluster_are_numbered_in_their_order(tmp_path, client):
    frame = rows()
    scan = ov.scan(write(tmp_path, frame), client=client)
    assert repr(scan) == "Scan(17 row groups of 3 Parquet files)"
    found = scan.mean(["y", "x"], contamination=20, rng=5, vote="median")
    assert_close(found, ov.mean(frame[["y", "x"]], contamination=20, rng=5, partition="hash"))
    assert found.names == ("y", "x")
    turned = ov.scan([tmp_path / f"{i}.parquet" for i in (1, 0, 2)], client=client).mean("y", n_blocks=99, rng=5)
    y = frame["y"].to_numpy()
    assert_close(turned, ov.mean(np.r_[y[1700:4200], y[:1700], y[4200:]], n_blocks=99, rng=5, partition="hash"))


def test_row_id_makes_the_order_of_rows_irrelevant(tmp_path, client):
    frame = rows()
    mixed = frame.sample(frac=1, random_state=1)
    expected = ov.mean(frame["x"].to_numpy(), contamination=20, rng=5, partition="hash")
    scans = (
        ov.scan(write(tmp_path, mixed), row_id="id", client=client),
        ov.scan(dd.from_pandas(mixed.reset_index(drop=True), npartitions=6), row_id="id"),
    )
    for scan in scans:
        assert_close(scan.mean("x", contamination=20, rng=5, vote="median"), expected)
        found, right = scan.mean("x", contamination=20), ov.mean(frame["x"].to_numpy(), contamination=20)
        assert (found.estimate, *found.interval) == (right.estimate, *right.interval)


def test_large_parts_are_read_in_batches(monkeypatch, files):
    monkeypatch.setattr(workers, "_BATCH", 97)
    frame = rows()
    expected = ov.mean(frame["x"].to_numpy(), contamination=20, rng=5, partition="hash")
    scan = ov.scan(dd.from_pandas(frame, npartitions=3))
    assert_close(scan.mean("x", contamination=20, rng=5, vote="median"), expected)
    assert scan.mean("x", contamination=20).interval == ov.mean(frame["x"].to_numpy(), contamination=20).interval
    engine = module.cluster_engine(files, None, None)
    found = engine.summaries(Query(("x",)), {(): 51}, 5)[()]
    assert found.means[:, 0] == pytest.approx(ov.BlockSummary(51, 5).update(frame["x"]).means, **SAME)


def test_groups_equal_a_grouped_summary(client, tmp_path):
    frame, by = rows().rename(columns={"x": NAME, "g": "g'\"g"}), ["g'\"g", "h"]
    labels = frame[by[0]].to_numpy(), frame["h"].to_numpy()
    expected = ov.GroupedBlockSummary(25, seed=5).update(frame[NAME].to_numpy(), labels).results(contamination=9)
    options = {"contamination": 9, "rng": 5, "n_blocks": 25}
    table = ov.scan(write(tmp_path, frame), client=client).mean(NAME, by, **options)
    assert isinstance(table, pd.DataFrame)
    lazy = ov.scan(dd.from_pandas(frame, npartitions=5)).mean(NAME, by, **options)
    assert isinstance(lazy, dd.DataFrame)
    for lines in (table, lazy.compute()):
        assert list(lines[by].itertuples(index=False, name=None)) == sorted(expected)
        for line in lines.to_dict("records"):
            result = expected[tuple(line[key] for key in by)]
            assert line["estimate"] == pytest.approx(result.estimate, **SAME)
            assert line["radius"] == pytest.approx(result.radius, rel=1e-8)
            assert (line["n"], line["blocks"], line["survives"]) == (result.plan.n_rows, 25, 12)


def test_small_groups_get_a_note(client, tmp_path):
    frame = rows()
    frame.loc[[7, 5000], "g"] = "tiny"
    scan = ov.scan(write(tmp_path, frame), client=client)
    for options in ({}, {"vote": "median", "rng": 5}):
        lines = scan.mean("x", "g", contamination=9, **options).to_dict("records")
        assert [line["g"] for line in lines if line["provenance"] == "none"] == ["tiny"]
        tiny = next(line for line in lines if line["g"] == "tiny")
        assert (math.isnan(tiny["estimate"]), tiny["n"]) == (True, 2)
        assert "contamination=9 means 9 corrupt rows among 2" in tiny["note"]


def test_difference_equals_that_in_memory(client, files):
    frame = rows()
    summary = ov.GroupedBlockSummary(25, seed=5).update(frame["x"].to_numpy(), frame["g"].to_numpy())
    centre = {key: np.median(summary.group(key).means) for key in summary.keys}
    for scan in (ov.scan(files, client=client), ov.scan(dd.from_pandas(frame, npartitions=5))):
        found = scan.difference("x", "g", "b", "ç", contamination=9, rng=5, n_blocks=25)
        assert found.estimate == pytest.approx(centre["ç"] - centre["b"], rel=1e-6)
        same = ov.scan(frame).difference("x", "g", "b", "ç", contamination=9, rng=5, n_blocks=25)
        assert found.radius == pytest.approx(same.radius, rel=1e-8)


def test_tolerance_equals_that_in_memory(client, files):
    frame = rows()
    expected = ov.tolerance(frame["x"].to_numpy(), claim="mean > -1")
    found = ov.scan(files, client=client).tolerance("x", claim="mean > -1")
    assert found.rows == expected.rows
    assert found.deciding == expected.deciding
    mixed = dd.from_pandas(frame.sample(frac=1, random_state=1).reset_index(drop=True), npartitions=6)
    by_id = ov.scan(mixed, row_id="id").tolerance("x", claim="mean > -1")
    assert by_id.deciding == tuple(frame["id"].to_numpy()[list(expected.deciding)].tolist())


def test_dask_frame_on_a_cluster(client):
    frame = dd.from_pandas(rows(), npartitions=4)
    expected = ov.u_statistic(rows()["y"].to_numpy(), kernel="gini", contamination=20, rng=5, partition="hash")
    assert_close(ov.scan(frame, client=client).u_statistic("y", "gini", contamination=20, rng=5), expected)
    with client.as_current(), dask.config.set(scheduler=None):
        assert_close(ov.scan(frame).u_statistic("y", "gini", contamination=20, rng=5), expected)


@pytest.mark.parametrize("n_rows", [(0,), (0, 0, 300, 0)])
def test_empty_partitions_and_files(tmp_path, n_rows, client):
    frame = rows().iloc[: sum(n_rows)]
    write(tmp_path, frame, n_rows)
    parts = [frame.iloc[:size] for size in n_rows]
    scans = ov.scan(tmp_path / "*.parquet", client=client), ov.scan(dd.concat([dd.from_pandas(p) for p in parts]))
    x, options = frame["x"].to_numpy(), {"contamination": 3, "rng": 5}
    for scan in scans:
        if len(frame) == 0:
            with pytest.raises(ValueError, match="column 'x' has no usable rows"):
                scan.mean("x")
            continue
        assert_close(scan.mean("x", **options, vote="median"), ov.mean(x, **options, partition="hash"))
        gini = ov.u_statistic(x, kernel="gini", **options, partition="hash")
        assert_close(scan.u_statistic("x", "gini", **options), gini)


# --- columns of every kind -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["Int64", "float32", "boolean"])
def test_nullable_columns(kind):
    numbers = pd.Series(np.arange(600) % 2 if kind == "boolean" else np.arange(600) % 50).astype(kind)
    if kind != "float32":
        numbers[17] = pd.NA
    frame = pd.DataFrame({"x": numbers})
    scan = ov.scan(dd.from_pandas(frame, npartitions=4))
    floats = frame["x"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    expected = ov.mean(floats, contamination=5, rng=5, nan_policy="corrupt", partition="hash", n_blocks=21)
    found = scan.mean("x", contamination=5, rng=5, nan_policy="corrupt", n_blocks=21)
    assert_close(found, expected)
    assert found.n_omitted == (kind != "float32")


@pytest.mark.parametrize("kind", ["category", "string[pyarrow]"])
def test_text_keys_of_every_dtype(kind):
    frame = rows()
    frame["g"] = frame["g"].astype(kind)
    lines = ov.scan(dd.from_pandas(frame, npartitions=4)).mean("x", "g", contamination=9, rng=5, n_blocks=25).compute()
    expected = ov.GroupedBlockSummary(25, 5).update(frame["x"].to_numpy(), np.array(frame["g"].tolist()))
    assert lines["g"].tolist() == ["a", "b", "ç"]
    assert (lines["g"].dtype == "category") == (kind == "category")
    assert lines["estimate"].tolist() == pytest.approx(
        [expected.group(key).result(contamination=9).estimate for key in ("a", "b", "ç")], **SAME
    )


def test_nan_policies(client, tmp_path):
    frame = rows()
    frame.loc[[3, 999, 5555], "y"] = [np.nan, np.inf, np.nan]
    scans = ov.scan(write(tmp_path, frame), client=client), ov.scan(dd.from_pandas(frame, npartitions=4))
    for scan in scans:
        with pytest.raises(ValueError, match="column 'y' has NULL, NaN or infinite values in 3 of 6000 rows"):
            scan.mean("y")
        with pytest.raises(ValueError, match="infinite values, which are not missing, in 1 of 6000 rows"):
            scan.mean("y", nan_policy="omit")
        with pytest.raises(ValueError, match="in 3 rows, more than the 2 corrupt rows"):
            scan.mean("y", nan_policy="corrupt", contamination=2)
        good = np.isfinite(frame["y"].to_numpy())
        expected = ov.BlockSummary(41, 5).update(frame["y"].to_numpy()[good], np.arange(N)[good])
        found = scan.mean("y", nan_policy="corrupt", contamination=5, rng=5, n_blocks=41)
        assert found.block_values == pytest.approx(expected.means, **SAME)
        assert found.plan.n_rows == N
    frame.loc[999, "y"] = None
    found = ov.scan(dd.from_pandas(frame, npartitions=4)).mean("y", nan_policy="omit", rng=5, n_blocks=151)
    assert (found.plan.n_rows, found.n_omitted) == (N - 3, 3)


# --- errors ----------------------------------------------------------------------------------------------


def test_invalid_columns_raise_before_anything_is_read(files, client):
    assert repr(ov.scan(dd.from_pandas(rows(), npartitions=1))) == "Scan(Dask frame of 1 partition)"
    failing = dd.from_map(pd.read_parquet, ["nowhere"], meta=rows().iloc[:0])
    for scan in (ov.scan(files, client=client), ov.scan(failing)):
        with pytest.raises(TypeError, match="column='g' holds String values, but real numbers are needed"):
            scan.mean("g")
        with pytest.raises(ValueError, match="column='xx' is not a column: did you mean 'x'"):
            scan.mean("xx")


def test_missing_keys_and_row_ids_raise(tmp_path, client):
    frame = rows().astype({"id": "Int64"})
    frame.loc[77, "id"] = pd.NA
    frame.loc[4321, "g"] = None
    for source, where in ((write(tmp_path, frame), client), (dd.from_pandas(frame, npartitions=4), None)):
        with pytest.raises(TypeError, match="row_id='y' must be a column of integers"):
            ov.scan(source, row_id="y", client=where)
        with pytest.raises(ValueError, match="row_id='key' is not a column: there are 'x', 'y'"):
            ov.scan(source, row_id="key", client=where)
        for vote in ("auto", "median"):
            with pytest.raises(ValueError, match="row_id='id' is not a whole number in some rows"):
                ov.scan(source, row_id="id", client=where).mean("x", rng=5, vote=vote)
        with pytest.raises(ValueError, match="by='g' is NULL in some rows"):
            ov.scan(source, client=where).mean("x", "g")


def test_unreadable_files_raise(tmp_path, client):
    pattern = write(tmp_path, rows())
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(whole[:-100])
    with pytest.raises(ValueError, match=r"1\.parquet' cannot be read: "):
        ov.scan(pattern, client=client)
    (tmp_path / "1.parquet").write_bytes(whole[:4] + bytes(2000) + whole[2004:])
    with pytest.raises((ValueError, OSError), match=r"1\.parquet' cannot be read: "):
        ov.scan(pattern, client=client).mean("x")
    (tmp_path / "1.parquet").write_bytes(whole)
    scan = ov.scan(pattern, client=client)
    (tmp_path / "2.parquet").unlink()
    with pytest.raises(OSError, match=r"2\.parquet' cannot be read: "):
        scan.mean("x")
    with pytest.raises(FileNotFoundError, match="no file is called"):
        ov.scan(str(tmp_path / "none*.parquet"), client=client)
    (tmp_path / "rows.csv").write_text("x\n1\n")
    with pytest.raises(ValueError, match=r"rows\.csv' is not a Parquet file: read it with dask\.dataframe"):
        ov.scan(tmp_path / "rows.csv", client=client)


def test_different_schemas_raise_for_the_columns_used(tmp_path, client):
    frame = rows()
    pattern = write(tmp_path, frame)
    pq.write_table(pa.table({"x": ["1"] * 9, "y": [0.5] * 9, "new": [1] * 9}), tmp_path / "3.parquet")
    scan = ov.scan(pattern, client=client)
    with pytest.raises(ValueError, match=r"3\.parquet' has a string column 'x', .*0\.parquet' a double one"):
        scan.mean("x")
    with pytest.raises(ValueError, match=r"3\.parquet' has no column 'g', .*0\.parquet' a (large_)?string one"):
        scan.mean("y", "g")
    both = np.r_[frame["y"].to_numpy(), [0.5] * 9]
    assert_close(  # a column of its own does no harm
        scan.mean("y", contamination=20, rng=5, vote="median"),
        ov.mean(both, contamination=20, rng=5, partition="hash"),
    )


def test_invalid_sources_and_clients_raise(monkeypatch, client, files):
    with pytest.raises(TypeError, match=r"client='tcp://here' is a str: give a dask\.distributed\.Client"):
        ov.scan(files, client="tcp://here")
    with pytest.raises(TypeError, match="source is a Series: give a Dask dataframe"):
        ov.scan(dd.from_pandas(rows())["x"])
    with pytest.raises(TypeError, match="source is a DataFrame: give a Dask dataframe, or Parquet files"):
        ov.scan(rows(), client=client)
    with pytest.raises(TypeError, match="source is a list: give a Dask dataframe, or Parquet files"):
        ov.scan([], client=client)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ModuleNotFoundError, match=r"clusters need dask: pip install 'dask\[dataframe\]' distributed"):
        ov.scan(files, client=client)
