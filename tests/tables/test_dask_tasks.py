"""Tasks on a Dask cluster: rounds, memory, names, and lost workers."""

from __future__ import annotations

import itertools
import os
import pickle
import signal
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.blocks.hashing import hash_rows
from outvote.tables import dask as module
from outvote.tables import workers
from outvote.tables.engine import Query

dask = pytest.importorskip("dask")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")
from dask.callbacks import Callback  # noqa: E402
from dask_rows import LIMIT, N, assert_close, rows, write  # noqa: E402

pytestmark = pytest.mark.usefixtures("in_this_thread")


def make_room(monkeypatch, n_bytes):
    """Let every worker hold so many bytes of rows, and record the number of buckets of every round."""
    rounds, here, there = [], dask.persist, distributed.Client.persist

    def persisted_here(*buckets):
        rounds.append(len(buckets))
        return here(*buckets)

    def persisted_there(self, buckets):
        rounds.append(len(buckets))
        return there(self, buckets)

    monkeypatch.setattr(module, "_SHARE", n_bytes / LIMIT)
    monkeypatch.setattr(module, "_ROOM", n_bytes)
    monkeypatch.setattr(dask, "persist", persisted_here)
    monkeypatch.setattr(distributed.Client, "persist", persisted_there)
    return rounds


@pytest.mark.parametrize(("where", "room", "n_rounds"), [("files", 9000, (3, 6)), ("frame", 2**24, (1, 1))])
def test_u_statistics_equal_those_in_memory(monkeypatch, client, files, room, n_rounds, where):
    rounds = make_room(monkeypatch, room)
    frame = rows()
    scan = ov.scan(files, client=client) if where == "files" else ov.scan(dd.from_pandas(frame, npartitions=5))
    for kernel in ("gini", "variance"):
        expected = ov.u_statistic(frame["y"].to_numpy(), kernel=kernel, contamination=20, rng=5, partition="hash")
        assert_close(scan.u_statistic("y", kernel, contamination=20, rng=5), expected)
        if kernel == "gini":
            assert n_rounds[0] <= len(rounds) <= n_rounds[1]


def test_u_statistic_of_two_columns_by_row_id(monkeypatch, client, tmp_path):
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
        assert_close(found, expected)
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
def test_rounds_give_every_block_once(sizes, n_blocks, n_bytes, n_buckets, by_id, seed):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    frame = pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "id": rng.permutation(n) * 10**9})
    frame.loc[rng.integers(n, size=n // 9), "a"] = [np.nan, np.inf][seed % 2]
    row_id = "id" if by_id else None
    query = Query(("a", "b"))
    edges = np.cumsum([0, *sizes])
    parts = dd.concat([dd.from_pandas(frame.iloc[a:b], npartitions=1) for a, b in itertools.pairwise(edges)])
    with pytest.MonkeyPatch.context() as patch:
        rounds = make_room(patch, n_bytes)
        patch.setattr(module, "_BUCKETS", n_buckets)
        patch.setattr(workers, "_HASHED", 7)
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
    assert [block for block, _ in found] == sorted(expected)
    for block, values in found:
        assert values.tolist() == [[a, b] for _, a, b in expected[block] if np.isfinite(a)]
    assert max(rounds) <= max(n_buckets, 2)
    assert sum(rounds) <= n_blocks


def report_workers(monkeypatch, client, limits):
    """Let the scheduler report workers of these memory limits."""
    workers = {str(i): {"memory_limit": limit} for i, limit in enumerate(limits)}
    monkeypatch.setattr(client, "scheduler_info", lambda n_workers: {"workers": workers})


def test_rounds_hold_no_more_rows_than_there_is_room_for(monkeypatch, client):
    n_workers, room = 3, 4000
    rounds, held = make_room(monkeypatch, room), []
    report_workers(monkeypatch, client, [LIMIT] * n_workers)
    engine = module.cluster_engine(dd.from_pandas(rows(), npartitions=2), None, client)
    for _, _, values in engine.blocks(Query(("y",)), {(): 997}, 5):
        held += [0] * (len(rounds) - len(held))
        held[-1] += 10 * len(values)  # a float, and two bytes for the block
    assert sum(held) == 10 * N
    assert len(held) == pytest.approx(10 * N / (room * n_workers), abs=1)
    assert max(held) <= 1.3 * room * n_workers
    assert max(rounds) <= max(16, 2 * n_workers)


@pytest.mark.parametrize(
    ("limits", "n_buckets"),
    [([120_000] * 20, 12), ([120_000, None], 1), ([], 1)],
)
def test_room_is_a_twelfth_of_the_memory_of_each_worker(monkeypatch, client, files, limits, n_buckets):
    # 60 kB of rows, in 16 buckets a round or two for each worker; without a limit there is room for 256 MB.
    rounds = make_room(monkeypatch, 1)
    monkeypatch.setattr(module, "_SHARE", 1 / 12)
    monkeypatch.setattr(module, "_ROOM", 2**28)
    report_workers(monkeypatch, client, limits)
    ov.scan(files, client=client).u_statistic("y", "gini", contamination=20, n_blocks=997, rng=5)
    assert sum(rounds) == n_buckets


# --- tasks -----------------------------------------------------------------------------------------------


def test_number_of_tasks_by_name(client, files):
    with distributed.get_task_stream(client) as stream:
        ov.scan(files, client=client).mean("x", contamination=20, rng=5, vote="median")
    names = Counter(dask.utils.key_split(task["key"]) for task in stream.data)
    assert {name: names[name] for name in names if name != "outvote-question"} == {
        "outvote-count": 17,
        "outvote-summary": 17,
        "outvote-merge": 32,
    }


@pytest.mark.parametrize(("room", "n_buckets", "n_reads"), [(432_100, 1, 1), (86_500, 5, 6), (27_100, 16, 17)])
def test_few_buckets_read_several_row_groups_in_one_task(monkeypatch, client, files, room, n_buckets, n_reads):
    make_room(monkeypatch, room)  # on each of two workers, for 6000 rows of 9 bytes; a round has 16 buckets
    expected = ov.u_statistic(rows()["y"].to_numpy(), kernel="gini", contamination=20, rng=5, partition="hash")
    with distributed.get_task_stream(client) as stream:
        assert_close(ov.scan(files, client=client).u_statistic("y", "gini", contamination=20, rng=5), expected)
    names = Counter(dask.utils.key_split(task["key"]) for task in stream.data)
    assert {name: names[name] for name in ("outvote-split", "outvote-shuffle", "outvote-bucket")} == {
        "outvote-split": n_reads,
        "outvote-shuffle": n_reads * n_buckets,
        "outvote-bucket": n_buckets,
    }


def results_of_tasks(names, ask):
    """Return the results of the tasks with these names, each with what it was when its task ended."""
    found = []

    def keep(key, result, *_):
        if dask.utils.key_split(key) in names:
            found.append((result, pickle.dumps(result)))

    with Callback(posttask=keep):
        ask(ov.scan(dd.from_pandas(rows(), npartitions=5)))
    return found


@pytest.mark.parametrize(("by", "n_groups"), [(None, 1), ("h", 2)])
def test_tasks_return_small_summaries_and_merging_does_not_modify_them(by, n_groups):
    # Should the merged summary be lost with its worker, they are needed once more.
    names = ["outvote-summary", "outvote-merge"]
    found = results_of_tasks(names, lambda scan: scan.mean("x", by, contamination=9, n_blocks=51, rng=5))
    assert len(found) == 5 + 2 * 4
    assert max(len(data) for _, data in found[:-1]) < n_groups * 51 * 24 + 800  # 1200 rows take 9600 bytes
    for result, before in found[:-1]:  # the last one is the answer, to which names are added
        assert pickle.dumps(result) == before


def test_workers_do_not_load_numba(client, files):
    # It takes more than 100 MB, and a worker may have 300.
    def has_long_waited():
        from outvote import _numba

        _numba._numpy_seconds = 1e9

    client.run(has_long_waited)
    ov.scan(files, client=client).u_statistic("y", "gini", contamination=20, rng=5)
    for vote in ("evidence", "median"):
        ov.scan(files, client=client).mean("x", "g", contamination=9, rng=5, vote=vote)
    assert not any(client.run(lambda: "numba" in sys.modules).values())


def test_progress_bar_covers_both_passes(capsys):
    from dask.diagnostics import ProgressBar

    with dask.config.set(scheduler="threads"), ProgressBar(dt=0.01):
        ov.scan(dd.from_pandas(rows(), npartitions=5)).mean("x", contamination=20, rng=5, vote="median")
    assert capsys.readouterr().out.count("100% Completed") == 2  # one bar for the count, one for the sums


def test_only_the_needed_columns_are_read(tmp_path):
    write(tmp_path, rows())
    asked = []

    def read(path, columns=None):
        asked.append(columns)
        return pd.read_parquet(path, columns=columns)

    frame = dd.from_map(read, sorted(map(str, tmp_path.iterdir())), meta=rows().iloc[:0], enforce_metadata=False)
    for vote in ("median", "evidence"):
        asked.clear()
        ov.scan(frame, row_id="id").mean("x", contamination=20, rng=5, vote=vote)
        assert asked == [["x"]] * 3 + [["x", "id"]] * 3


# --- lost workers ----------------------------------------------------------------------------------------


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
    [
        ("summary", 2),
        ("merge", 2),
        pytest.param("shuffle", 2, marks=pytest.mark.slow),
        pytest.param("bucket", 18, marks=pytest.mark.slow),  # of 16 in a round: in the second one
    ],
)
def test_losing_a_worker_does_not_change_the_result(monkeypatch, tmp_path, files, client, kind, last):
    rounds = make_room(monkeypatch, 7000)
    scan = ov.scan(files, client=client)

    def ask():
        if kind in ("shuffle", "bucket"):
            return bits(scan.u_statistic("y", "gini", contamination=20, rng=5))
        if kind == "merge":
            table = scan.mean("x", ["g", "h"], contamination=9, rng=5, vote="median")
            return [table[name].to_numpy().tobytes() for name in ("estimate", "low", "radius")]
        return bits(scan.mean("x", contamination=20, rng=5, vote="median"))

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
