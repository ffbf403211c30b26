"""Clusters: the answers of two real workers are those in memory, also when one of them dies."""

from __future__ import annotations

import itertools
import logging
import os
import pickle
import signal
import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.blocks.hashing import hash_rows
from outvote.tables import dask as module

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

SAME = {"rel": 1e-12, "abs": 0}
N = 6000
LIMIT = 300_000_000
NAME = 'it\'s "x.y"; DROP TABLE source -- Größe'


@pytest.fixture(scope="module")
def client():
    # A worker that is killed, and the connections it leaves behind, are logged as errors: that is what happens here.
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit=LIMIT,
            dashboard_address=":0",
            processes=True,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as found,
    ):
        yield found


@pytest.fixture(autouse=True)
def in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def rows():
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "x": rng.exponential(size=N) + 1e6,
            "y": rng.normal(size=N),
            "g": rng.choice(["a", "b", "ç"], size=N, p=[0.5, 0.4, 0.1]),
            "h": rng.integers(0, 2, size=N),
            "id": np.arange(N),
        }
    )


def write(folder, frame, sizes=(1700, 2500, 1800), row_group=400):
    """Write files of these numbers of rows, in row groups."""
    low = 0
    for i, size in enumerate(sizes):
        table = pa.Table.from_pandas(frame.iloc[low : low + size], preserve_index=False)
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=row_group)
        low += size
    return str(folder / "*.parquet")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write(tmp_path_factory.mktemp("files"), rows())


def close(found, expected):
    assert found.estimate == pytest.approx(expected.estimate, **SAME)
    assert found.radius == pytest.approx(expected.radius, rel=1e-8)
    assert found.block_values == pytest.approx(expected.block_values, **SAME)
    assert found.plan == expected.plan


# --- the same answer as in memory ------------------------------------------------------------------------


@pytest.mark.parametrize("n_partitions", [1, 2, 7, 40])
def test_mean_of_a_dask_frame_is_that_in_memory(n_partitions):
    frame = rows()
    found = ov.scan(dd.from_pandas(frame, npartitions=n_partitions)).mean("x", contamination=20, rng=5)
    close(found, ov.mean(frame["x"].to_numpy(), contamination=20, rng=5, partition="hash"))


@pytest.mark.parametrize("row_group", [6000, 137])
def test_mean_of_files_on_a_cluster_is_that_in_memory(tmp_path, client, row_group):
    frame = rows()
    scan = ov.scan(write(tmp_path, frame, (6000,), row_group), client=client)
    close(
        scan.mean("x", contamination=20, rng=5),
        ov.mean(frame["x"].to_numpy(), contamination=20, rng=5, partition="hash"),
    )


def test_rows_are_numbered_over_all_files(client, files):
    frame, scan = rows(), ov.scan(files, client=client)
    assert repr(scan) == "Scan(17 row groups of 3 Parquet files)"
    expected = ov.mean(frame[["y", "x"]], contamination=20, rng=5, partition="hash")
    found = scan.mean(["y", "x"], contamination=20, rng=5)
    close(found, expected)
    assert found.names == ("y", "x")


def test_a_list_of_files_keeps_its_order(tmp_path, client):
    frame = rows()
    write(tmp_path, frame, (4000, 2000))
    found = ov.scan([tmp_path / "1.parquet", tmp_path / "0.parquet"], client=client).mean("y", n_blocks=99, rng=5)
    turned = np.r_[frame["y"].to_numpy()[4000:], frame["y"].to_numpy()[:4000]]
    close(found, ov.mean(turned, n_blocks=99, rng=5, partition="hash"))


def test_with_a_row_id_the_order_of_the_rows_does_not_matter(tmp_path, client):
    frame = rows()
    mixed = frame.sample(frac=1, random_state=1)
    expected = ov.mean(frame["x"].to_numpy(), contamination=20, rng=5, partition="hash")
    close(ov.scan(write(tmp_path, mixed), row_id="id", client=client).mean("x", contamination=20, rng=5), expected)
    mixed = dd.from_pandas(mixed.reset_index(drop=True), npartitions=6)
    close(ov.scan(mixed, row_id="id").mean("x", contamination=20, rng=5), expected)


def test_large_parts_are_read_in_batches(monkeypatch, files):
    monkeypatch.setattr(module, "_BATCH", 97)
    frame = rows()
    expected = ov.mean(frame["x"].to_numpy(), contamination=20, rng=5, partition="hash")
    close(ov.scan(dd.from_pandas(frame, npartitions=3)).mean("x", contamination=20, rng=5), expected)
    engine = module.ClusterEngine(module._Files(module.find_files([files])[0]), None, None)
    found = engine.summaries(module.Query(("x",)), {(): 51}, 5)[()]
    assert found.means[:, 0] == pytest.approx(ov.BlockSummary(51, 5).update(frame["x"]).means, **SAME)


@pytest.mark.parametrize("by", ["g", ["g", "h"]])
def test_groups_are_those_of_a_grouped_summary(client, files, by):
    frame = rows()
    labels = frame["g"].to_numpy() if by == "g" else (frame["g"].to_numpy(), frame["h"].to_numpy())
    expected = ov.GroupedBlockSummary(25, seed=5).update(frame["x"].to_numpy(), labels).results(contamination=9)
    keys = [by] if isinstance(by, str) else by
    table = ov.scan(files, client=client).mean("x", by, contamination=9, rng=5, n_blocks=25)
    assert isinstance(table, pa.Table)
    lazy = ov.scan(dd.from_pandas(frame, npartitions=5)).mean("x", by, contamination=9, rng=5, n_blocks=25)
    assert isinstance(lazy, dd.DataFrame)
    for lines in (table.to_pandas(), lazy.compute()):
        assert list(lines[keys].itertuples(index=False, name=None)) == sorted(
            key if isinstance(key, tuple) else (key,) for key in expected
        )
        for line in lines.to_dict("records"):
            result = expected[line["g"] if by == "g" else (line["g"], line["h"])]
            assert line["estimate"] == pytest.approx(result.estimate, **SAME)
            assert line["radius"] == pytest.approx(result.radius, rel=1e-8)
            assert (line["n"], line["blocks"], line["survives"]) == (result.plan.n_rows, 25, 12)


def test_a_group_too_small_is_kept_with_the_reason(client, tmp_path):
    frame = rows()
    frame.loc[[7, 5000], "g"] = "tiny"
    lines = ov.scan(write(tmp_path, frame), client=client).mean("x", "g", contamination=9, rng=5).to_pylist()
    tiny = next(line for line in lines if line["g"] == "tiny")
    assert tiny["estimate"] is None
    assert "9" in tiny["note"]
    assert [line["provenance"] == "none" for line in lines].count(True) == 1


def test_difference(client, files):
    frame = rows()
    summary = ov.GroupedBlockSummary(25, seed=5).update(frame["x"].to_numpy(), frame["g"].to_numpy())
    centre = {key: np.median(summary.group(key).means) for key in summary.keys}
    for scan in (ov.scan(files, client=client), ov.scan(dd.from_pandas(frame, npartitions=5))):
        found = scan.difference("x", "g", "b", "ç", contamination=9, rng=5, n_blocks=25)
        assert found.estimate == pytest.approx(centre["ç"] - centre["b"], rel=1e-6)
        same = ov.scan(frame).difference("x", "g", "b", "ç", contamination=9, rng=5, n_blocks=25)
        assert found.radius == pytest.approx(same.radius, rel=1e-8)


def make_room(monkeypatch, n_bytes):
    """Let every worker hold so many bytes of rows, and record the blocks of every round."""
    rounds, one = [], module.ClusterEngine._round

    def recorded(self, question):
        rounds.append(question.edges)
        return one(self, question)

    monkeypatch.setattr(module, "_SHARE", n_bytes / LIMIT)
    monkeypatch.setattr(module, "_ROOM", n_bytes)
    monkeypatch.setattr(module.ClusterEngine, "_round", recorded)
    return rounds


@pytest.mark.parametrize(("room", "n_rounds"), [(2**24, (1, 1)), (9000, (3, 6))])
@pytest.mark.parametrize("where", ["files", "frame"])
def test_u_statistics_bring_the_rows_of_a_block_together(monkeypatch, client, files, room, n_rounds, where):
    rounds = make_room(monkeypatch, room)
    frame = rows()
    scan = ov.scan(files, client=client) if where == "files" else ov.scan(dd.from_pandas(frame, npartitions=5))
    expected = ov.u_statistic(frame["y"].to_numpy(), kernel="gini", contamination=20, rng=5, partition="hash")
    close(scan.u_statistic("y", "gini", contamination=20, rng=5), expected)
    assert n_rounds[0] <= len(rounds) <= n_rounds[1]
    expected = ov.u_statistic(frame["y"].to_numpy(), kernel="variance", contamination=20, rng=5, partition="hash")
    close(scan.u_statistic("y", "variance", contamination=20, rng=5), expected)


def test_pairs_of_columns_by_row_id_in_rounds(monkeypatch, client, tmp_path):
    rounds = make_room(monkeypatch, 30_000)
    frame = rows()
    mixed = frame.sample(frac=1, random_state=1)
    expected = ov.u_statistic(frame[["x", "y"]], kernel="kendall", contamination=20, rng=5, partition="hash")
    for source, where in (
        (write(tmp_path, mixed, row_group=150), client),
        (dd.from_pandas(mixed.reset_index(drop=True), npartitions=6), None),
    ):
        rounds.clear()
        found = ov.scan(source, row_id="id", client=where).u_statistic(["x", "y"], "kendall", contamination=20, rng=5)
        close(found, expected)
        assert len(rounds) > 2


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=4).filter(any),
    n_blocks=st.integers(1, 40) | st.sampled_from([300, 70_000]),
    n_bytes=st.integers(400, 6000),
    n_buckets=st.integers(1, 5),
    by_id=st.booleans(),
    seed=st.integers(0, 99),
)
def test_rounds_give_every_block_once_and_whole(sizes, n_blocks, n_bytes, n_buckets, by_id, seed):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "id": rng.permutation(n) * 10**9})
    frame.loc[rng.integers(n, size=n // 9), "a"] = [np.nan, np.inf][seed % 2]
    row_id = "id" if by_id else None
    query = module.Query(("a", "b"))
    edges = np.cumsum([0, *sizes])
    parts = dd.concat([dd.from_pandas(frame.iloc[a:b], npartitions=1) for a, b in itertools.pairwise(edges)])
    with pytest.MonkeyPatch.context() as patch:
        rounds = make_room(patch, n_bytes)
        patch.setattr(module, "_BUCKETS", n_buckets)
        patch.setattr(module, "_HASHED", 7)
        found = [
            (block, values)
            for _, block, values in module.cluster_engine(parts, row_id, None).blocks(query, {(): n_blocks}, seed)
        ]
    ids = frame["id"].to_numpy() if by_id else np.arange(n)
    labels = hash_rows(ids, seed) % n_blocks
    numbers = frame[["a", "b"]].to_numpy()
    expected = {
        block: sorted((i, *row) for i, row in zip(ids[labels == block], numbers[labels == block], strict=True))
        for block in set(labels[np.isfinite(numbers).all(axis=1)].tolist())
    }
    assert sorted(block for block, _ in found) == sorted(expected)
    for block, values in found:
        assert values.tolist() == [[a, b] for _, a, b in expected[block] if np.isfinite(a)]
    joined = [edge for some in rounds for edge in some[:-1]] + [rounds[-1][-1]]
    assert joined == sorted(set(joined))
    assert (joined[0], joined[-1]) == (0, n_blocks)


@pytest.mark.parametrize("n_workers", [1, 2, 30])
def test_no_round_has_more_rows_than_there_is_room_for(monkeypatch, n_workers):
    # 6000 rows of a float and two bytes for the block.
    rounds = make_room(monkeypatch, 1500)
    engine = module.cluster_engine(dd.from_pandas(rows(), npartitions=2), None, None)
    monkeypatch.setattr(engine, "_room", lambda: [1500] * n_workers)
    sizes = {block: len(values) for _, block, values in engine.blocks(module.Query(("y",)), {(): 997}, 5)}
    held = [10 * sum(sizes.get(block, 0) for block in range(edges[0], edges[-1])) for edges in rounds]
    assert sum(held) == 10 * N
    assert len(held) == pytest.approx(10 * N / (1500 * n_workers), abs=1)
    assert max(held) <= 1.3 * 1500 * n_workers
    assert all(len(edges) - 1 <= max(16, 2 * n_workers) for edges in rounds)


def test_room_is_a_share_of_the_memory_of_each_worker(client, files):
    def room(limits):
        workers = {str(i): {"memory_limit": limit} for i, limit in enumerate(limits)}
        engine = module.ClusterEngine(module._Files(module.find_files([files])[0]), None, client)
        engine._client = SimpleNamespace(scheduler_info=lambda n_workers: {"workers": workers})
        return engine._room()

    assert room([1200, 2400, 0, None]) == [100, 200, 2**28, 2**28]
    assert room([]) == [2**28]
    assert module.ClusterEngine(module._Files(module.find_files([files])[0]), None, client)._room() == [LIMIT // 12] * 2
    assert module.ClusterEngine(module._Files(module.find_files([files])[0]), None, None)._room() == [2**28]


@pytest.mark.parametrize(("n_tasks", "n_pieces"), [(None, 17), (100, 17), (16, 17), (5, 6), (1, 1)])
def test_row_groups_are_read_together_in_few_tasks(files, n_tasks, n_pieces):
    source = module._Files(module.find_files([files])[0])
    pieces = source.pieces(["y"], n_tasks)
    assert len(pieces) == n_pieces
    singles = [piece[0] for _, piece in source.pieces(["y"], None)]
    assert [group for _, piece in pieces for group in piece] == singles
    assert [number for number, _ in pieces] == [singles.index(piece[0]) for _, piece in pieces]


def test_a_frame_on_a_cluster(client):
    frame = dd.from_pandas(rows(), npartitions=4)
    expected = ov.u_statistic(rows()["y"].to_numpy(), kernel="gini", contamination=20, rng=5, partition="hash")
    close(ov.scan(frame, client=client).u_statistic("y", "gini", contamination=20, rng=5), expected)
    with client.as_current(), dask.config.set(scheduler=None):
        close(ov.scan(frame).u_statistic("y", "gini", contamination=20, rng=5), expected)


@pytest.mark.parametrize("n_rows", [(), (0,), (0, 0, 300, 0)])
def test_empty_parts(tmp_path, n_rows, client):
    frame = rows().iloc[: sum(n_rows)]
    write(tmp_path, frame, n_rows or (0,))
    parts = [frame.iloc[:size] for size in n_rows or (0,)]
    scans = ov.scan(tmp_path / "*.parquet", client=client), ov.scan(dd.concat([dd.from_pandas(p) for p in parts]))
    for scan in scans:
        if sum(n_rows) == 0:
            with pytest.raises(ValueError, match="column 'x' has no usable rows"):
                scan.mean("x")
            continue
        expected = ov.mean(frame["x"].to_numpy(), contamination=3, rng=5, partition="hash")
        close(scan.mean("x", contamination=3, rng=5), expected)
        expected = ov.u_statistic(frame["x"].to_numpy(), kernel="gini", contamination=3, rng=5, partition="hash")
        close(scan.u_statistic("x", "gini", contamination=3, rng=5), expected)


# --- columns of every kind -------------------------------------------------------------------------------


def test_names_are_data(tmp_path, client):
    frame = rows().rename(columns={"x": NAME, "g": "g'\"g"})
    scan = ov.scan(write(tmp_path, frame), client=client)
    close(
        scan.mean(NAME, contamination=20, rng=5),
        ov.mean(frame[NAME].to_numpy(), contamination=20, rng=5, partition="hash"),
    )
    assert scan.mean(NAME, "g'\"g", contamination=9, rng=5).column("g'\"g").to_pylist() == ["a", "b", "ç"]


@pytest.mark.parametrize("kind", ["Int64", "int64[pyarrow]", "float32", "boolean"])
def test_nullable_columns(kind):
    numbers = pd.Series(np.arange(600) % 2 if kind == "boolean" else np.arange(600) % 50).astype(kind)
    if kind != "float32":
        numbers[17] = pd.NA
    frame = pd.DataFrame({"x": numbers})
    scan = ov.scan(dd.from_pandas(frame, npartitions=4))
    floats = frame["x"].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
    expected = ov.mean(floats, contamination=5, rng=5, nan_policy="corrupt", partition="hash", n_blocks=21)
    found = scan.mean("x", contamination=5, rng=5, nan_policy="corrupt", n_blocks=21)
    close(found, expected)
    assert found.n_omitted == (kind != "float32")


@pytest.mark.parametrize("kind", ["category", "string", "object", "string[pyarrow]"])
def test_keys_of_every_kind_of_text(kind):
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


def test_a_key_that_is_null_is_refused(client, tmp_path):
    frame = rows()
    frame.loc[4321, "g"] = None
    for scan in (ov.scan(write(tmp_path, frame), client=client), ov.scan(dd.from_pandas(frame, npartitions=4))):
        with pytest.raises(ValueError, match="by='g' is NULL in some rows"):
            scan.mean("x", "g")


def test_what_is_no_number_is_refused_before_anything_is_read(files, client):
    assert repr(ov.scan(dd.from_pandas(rows(), npartitions=1))) == "Scan(Dask frame of 1 partition)"
    failing = dd.from_map(pd.read_parquet, ["nowhere"], meta=rows().iloc[:0])
    for scan in (ov.scan(files, client=client), ov.scan(failing)):
        with pytest.raises(TypeError, match="column='g' holds String values, but real numbers are needed"):
            scan.mean("g")
        with pytest.raises(ValueError, match="column='xx' is not a column: did you mean 'x'"):
            scan.mean("xx")


def test_row_ids_are_integers(tmp_path, files, client):
    for source, where in ((files, client), (dd.from_pandas(rows()), None)):
        with pytest.raises(TypeError, match="row_id='y' must be a column of integers"):
            ov.scan(source, row_id="y", client=where)
        with pytest.raises(ValueError, match="row_id='key' is not a column: there are 'x', 'y'"):
            ov.scan(source, row_id="key", client=where)
    frame = rows().astype({"id": "Int64"})
    frame.loc[77, "id"] = pd.NA
    for source, where in ((write(tmp_path, frame), client), (dd.from_pandas(frame), None)):
        with pytest.raises(ValueError, match="row_id='id' is not a whole number in some rows"):
            ov.scan(source, row_id="id", client=where).mean("x", rng=5)


def test_files_that_cannot_be_read(tmp_path, client):
    pattern = write(tmp_path, rows())
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(whole[:-100])
    with pytest.raises(ValueError, match=r"1\.parquet' cannot be read: "):
        ov.scan(pattern, client=client)
    (tmp_path / "1.parquet").write_bytes(whole[:4] + bytes(2000) + whole[2004:])
    with pytest.raises((ValueError, OSError), match=r"1\.parquet' cannot be read: "):
        ov.scan(pattern, client=client).mean("x")
    with pytest.raises((ValueError, OSError), match=r"1\.parquet' cannot be read: "):
        list(module.RowGroup(str(tmp_path / "1.parquet"), 0).tables(["x"]))
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


def test_mixed_schemas(tmp_path, client):
    frame = rows()
    pattern = write(tmp_path, frame)
    pq.write_table(pa.table({"x": ["1"] * 9, "y": [0.5] * 9, "new": [1] * 9}), tmp_path / "3.parquet")
    scan = ov.scan(pattern, client=client)
    with pytest.raises(ValueError, match=r"3\.parquet' has a string column 'x', .*0\.parquet' a double one"):
        scan.mean("x")
    with pytest.raises(ValueError, match=r"3\.parquet' has no column 'g', .*0\.parquet' a (large_)?string one"):
        scan.mean("y", "g")
    both = np.r_[frame["y"].to_numpy(), [0.5] * 9]
    close(
        scan.mean("y", contamination=20, rng=5), ov.mean(both, contamination=20, rng=5, partition="hash")
    )  # a column of its own does no harm


def test_sources_and_clients_of_other_kinds(monkeypatch, client, files):
    with pytest.raises(TypeError, match=r"client='tcp://here' is a str: give a dask\.distributed\.Client"):
        ov.scan(files, client="tcp://here")
    with pytest.raises(TypeError, match="source is a Series: give a Dask dataframe"):
        ov.scan(dd.from_pandas(rows())["x"])
    with pytest.raises(TypeError, match="source is a DataFrame: give a Dask dataframe, or Parquet files"):
        ov.scan(rows(), client=client)
    with pytest.raises(TypeError, match="source is a list: give a Dask dataframe, or Parquet files"):
        ov.scan([], client=client)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'outvote\[dask\]'"):
        ov.scan(files, client=client)


# --- what is seen of the work ----------------------------------------------------------------------------


def test_tasks_have_names(client, files):
    with distributed.get_task_stream(client) as stream:
        ov.scan(files, client=client).mean("x", contamination=20, rng=5)
    names = Counter(dask.utils.key_split(task["key"]) for task in stream.data)
    assert {name: names[name] for name in names if name != "outvote-question"} == {
        "outvote-count": 17,
        "outvote-summary": 17,
        "outvote-merge": 32,
    }


def test_tasks_of_a_round_have_names(monkeypatch, client, files):
    make_room(monkeypatch, 9 * N)  # of 9 bytes each, and there are two workers: half of the 16 buckets of a round
    with distributed.get_task_stream(client) as stream:
        ov.scan(files, client=client).u_statistic("y", "gini", contamination=20, rng=5)
    names = Counter(dask.utils.key_split(task["key"]) for task in stream.data)
    assert {name: names[name] for name in ("outvote-split", "outvote-shuffle", "outvote-bucket")} == {
        "outvote-split": 9,
        "outvote-shuffle": 72,
        "outvote-bucket": 8,
    }


def test_summaries_travel_and_rows_do_not(files):
    piece = [module.RowGroup(module.find_files([files])[0][0], 0)]
    question = module._Question(module.Query(("x",)), None, {(): 51}, 5)
    assert len(pickle.dumps(module._summed(piece, 0, question))) < 51 * 24 + 600
    question = module._Question(module.Query(("x",), ("h",)), None, {0: 51, 1: 31, 2: 99}, 5)
    assert len(pickle.dumps(module._summed(piece, 0, question))) < (51 + 31) * 24 + 800


def test_workers_do_not_load_numba(client, files):
    # It takes more than 100 MB, and a worker may have 300.
    def has_long_waited():
        from outvote import _numba

        _numba._numpy_seconds = 1e9

    client.run(has_long_waited)
    ov.scan(files, client=client).u_statistic("y", "gini", contamination=20, rng=5)
    ov.scan(files, client=client).mean("x", "g", contamination=9, rng=5)
    assert not any(client.run(lambda: "numba" in sys.modules).values())


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_a_progress_bar_sees_every_task(scheduler, capsys):
    from dask.diagnostics import ProgressBar

    with dask.config.set(scheduler=scheduler), ProgressBar(dt=0.01):
        ov.scan(dd.from_pandas(rows(), npartitions=5)).mean("x", contamination=20, rng=5)
    assert capsys.readouterr().out.count("100% Completed") == 2  # one bar for the count, one for the sums


def test_only_the_columns_asked_for_are_read(tmp_path):
    write(tmp_path, rows())
    asked = []

    def read(path, columns=None):
        asked.append(columns)
        return pd.read_parquet(path, columns=columns)

    frame = dd.from_map(read, sorted(map(str, tmp_path.iterdir())), meta=rows().iloc[:0], enforce_metadata=False)
    ov.scan(frame, row_id="id").mean("x", contamination=20, rng=5)
    assert asked == [["x"]] * 3 + [["x", "id"]] * 3


# --- a worker is lost ------------------------------------------------------------------------------------


def bits(result):
    values = (result.estimate, result.radius, result.block_values)
    return b"".join(np.asarray(value).tobytes() for value in values)


def fatal(path, prefix, last):
    """A plugin that kills the first worker to finish so many tasks of a kind, losing what it has done."""

    class Fatal(distributed.WorkerPlugin):
        name = "fatal"
        finished = 0

        def transition(self, key, start, finish, **_):
            if not str(key).startswith(prefix) or finish != "memory":
                return
            self.finished += 1
            if self.finished == last:
                try:
                    with open(path, "x") as file:
                        file.write(str(os.getpid()))
                except FileExistsError:
                    return
                os.kill(os.getpid(), signal.SIGKILL)

    return Fatal()


@pytest.mark.skipif(sys.platform == "win32", reason="a process is killed by a signal")
@pytest.mark.parametrize(
    ("kind", "last"),
    # A round has 16 buckets: whoever has made 18 is beyond the first.
    [("summary", 2), ("merge", 2), ("shuffle", 2), ("bucket", 18)],
)
def test_a_worker_that_dies_in_the_middle_changes_no_bit(monkeypatch, tmp_path, files, client, kind, last):
    rounds = make_room(monkeypatch, 7000)
    scan = ov.scan(files, client=client)

    def ask():
        if kind in ("split", "shuffle", "bucket"):
            return bits(scan.u_statistic("y", "gini", contamination=20, rng=5))
        if kind == "merge":
            table = scan.mean("x", ["g", "h"], contamination=9, rng=5)
            return [np.array(table[name].to_pylist()).tobytes() for name in ("estimate", "low", "radius")]
        return bits(scan.mean("x", contamination=20, rng=5))

    quiet = ask()
    n_rounds = len(rounds)
    assert n_rounds == 0 or n_rounds > 3
    client.wait_for_workers(2, timeout=30)
    before = set(client.run(os.getpid).values())
    client.register_plugin(fatal(str(tmp_path / "killed"), f"outvote-{kind}", last))
    try:
        assert ask() == quiet
        victim = int((tmp_path / "killed").read_text())
        assert victim in before
        assert victim not in client.run(os.getpid).values()
    finally:
        client.unregister_worker_plugin("fatal")


def test_merging_leaves_what_it_merges_alone():
    # Should the merged summary be lost with its worker, they are needed once more.
    x = np.random.default_rng(0).normal(size=200)
    pairs = [
        [ov.BlockSummary(7, 1).update(x), ov.BlockSummary(7, 1).update(x[:50], np.arange(200, 250))],
        [ov.GroupedBlockSummary(7, 1).update(x, x > 0), ov.GroupedBlockSummary(7, 1).update(x, x > 1)],
    ]
    for a, b in pairs:
        before = pickle.dumps((a, b))
        once = pickle.dumps(module._summaries_merged(a, b))
        assert pickle.dumps((a, b)) == before
        assert pickle.dumps(module._summaries_merged(a, b)) == once
