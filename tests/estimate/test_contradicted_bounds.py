"""Rows that contradict declared bounds are refused, whichever way they come."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import outvote as ov
from outvote.assumptions import Bounded, Proportion
from outvote.data.missing import ContradictionError, MoreCorruptRows

X = np.random.default_rng(0).normal(10.0, 1.0, size=500)
UNIT = Bounded(0, 1)
CALLS = {
    "evidence": lambda: ov.mean(X, assume=UNIT),
    "median": lambda: ov.mean(X, assume=UNIT, vote="median"),
    "soft": lambda: ov.mean(X, assume=UNIT, vote="soft"),
    "clipped": lambda: ov.mean(X, assume=UNIT, vote="clipped"),
    "hash": lambda: ov.mean(X, assume=UNIT, partition="hash"),
    "hash of several columns": lambda: ov.mean(np.c_[X % 1, X], assume=UNIT, partition="hash"),
    "proportion": lambda: ov.mean(X, assume=Proportion(), partition="hash"),
    "blocks": lambda: ov.BlockSummary(51).update(X).result(assume=UNIT),
    "rows": lambda: ov.mean(ov.RowSummary().update(X), assume=UNIT),
    "scan": lambda: ov.scan(pd.DataFrame({"v": X})).mean("v", assume=UNIT),
    "scan by blocks": lambda: ov.scan(pd.DataFrame({"v": X})).mean("v", assume=UNIT, vote="median"),
    "scan of a variance": lambda: ov.scan(pd.DataFrame({"v": 9 * X})).variance("v", assume=UNIT),
    "variance": lambda: ov.u_statistic(9 * X, kernel="variance", assume=UNIT),
    "variance by blocks": lambda: ov.u_statistic(9 * X, kernel="variance", assume=UNIT, vote="median"),
    "difference": lambda: ov.difference(X, X, assume=UNIT),
    "difference by blocks": lambda: ov.difference(X, X, assume=UNIT, vote="median"),
    "tolerance": lambda: ov.tolerance(X, claim="mean > 0", assume=UNIT),
    "monitor": lambda: ov.Monitor(claim="mean > 0", assume=UNIT).update(X).interval,
    "risk": lambda: ov.certify_risk(X, assume=UNIT),
}


WIDE = np.random.default_rng(1).uniform(-100, 100, size=2000)  # averages of blocks lie in [-40, 40], rows do not
NARROW = Bounded(-40, 40)
MEAN_OF_TWO = ov.Kernel(lambda a, b: (a + b) / 2, degrees=2, name="mean of two")
INSIDE = {
    "hash": lambda: ov.mean(WIDE, assume=NARROW, partition="hash"),
    "hash of several columns": lambda: ov.mean(np.c_[WIDE / 3, WIDE], assume=NARROW, partition="hash"),
    "difference by hash": lambda: ov.difference(WIDE, WIDE, assume=NARROW, partition="hash"),
    "blocks": lambda: ov.BlockSummary(51).update(WIDE).result(assume=NARROW),
    "scan by blocks": lambda: ov.scan(pd.DataFrame({"v": WIDE})).mean("v", assume=NARROW, vote="median"),
    "scan by row id": lambda: ov.scan(pd.DataFrame({"v": WIDE, "i": range(2000)}), row_id="i").mean(
        "v", assume=NARROW, vote="median"
    ),
    "kernel": lambda: ov.u_statistic(WIDE, kernel=MEAN_OF_TWO, assume=NARROW),
    "kernel by blocks": lambda: ov.u_statistic(WIDE, kernel=MEAN_OF_TWO, assume=NARROW, vote="median"),
    "kernel of columns by blocks": lambda: ov.u_statistic(
        np.c_[WIDE / 3, WIDE], kernel=MEAN_OF_TWO, assume=NARROW, vote="median", axis=0
    ),
}


SHARE = Proportion()
BETWEEN = {
    "hash": lambda: ov.mean(X % 1, assume=SHARE, partition="hash"),
    "median": lambda: ov.mean(X % 1, assume=SHARE, vote="median"),
    "blocks": lambda: ov.BlockSummary(51).update(X % 1).result(assume=SHARE),
    "scan": lambda: ov.scan(pd.DataFrame({"v": X % 1})).mean("v", assume=SHARE),
    "scan by blocks": lambda: ov.scan(pd.DataFrame({"v": X % 1})).mean("v", assume=SHARE, vote="median"),
}


@pytest.mark.parametrize("calls", [CALLS, INSIDE, BETWEEN], ids=["rows outside", "averages inside", "no proportion"])
def test_bounds_that_rows_contradict_are_refused(calls):
    for name, call in calls.items():
        with pytest.raises(
            (ContradictionError, MoreCorruptRows), match=r"contradict|outside the bounds|bounds of Prop"
        ):
            pytest.fail(f"{name}: {call()}")


def test_rows_outside_are_counted_where_they_are_in_memory():
    rows = X % 1
    rows[:6] = 1.5
    with pytest.raises(MoreCorruptRows, match=r"in 6 rows, more than the 5 corrupt rows .* allow at least 6"):
        ov.mean(rows, contamination=5, assume=UNIT, partition="hash")


def test_blocks_as_spread_as_bounds_allow_are_no_contradiction():
    for rows, scale in (
        (np.tile([0.0, 1.0], 500), 1e-200),
        (np.full(1000, 1.0), 1.0),
        (np.linspace(0, 1, 1000) ** 9, 1e200),
    ):
        known, far = Bounded(0, scale), Bounded(1e6 * scale, 1.000001e6 * scale)
        for found in (
            ov.BlockSummary(51).update(rows * scale).result(contamination=0, assume=known),
            ov.mean(rows * scale, contamination=0, assume=known, partition="hash"),
            ov.BlockSummary(51).update(rows * scale + 1e6 * scale).result(0, assume=far),
        ):
            assert found.interval.low <= found.estimate <= found.interval.high
    assert ov.mean(np.full(999, 0.1), assume=Bounded(0, 0.1), partition="hash").interval.high == 0.1


def test_pairs_of_samples_on_a_grid_and_on_its_diagonal():
    kernel = ov.Kernel(lambda a, b: 9.0 + 0 * a, degrees=(1, 1), bounds=(0, 1), name="nine")
    for grid in ("full", "diagonal"):
        with pytest.raises(ContradictionError, match=r"on 500 of 500 disjoint tuples, 9 for instance"):
            ov.u_statistic(X, X, kernel=kernel, grid=grid, vote="median")


@pytest.mark.parametrize("vote", ["auto", "median"])
def test_groups_that_contradict_bounds_have_a_note_and_no_answer(vote):
    frame = pd.DataFrame({"v": [*X, *(X % 1)], "k": [*"a" * 500, *"b" * 500]})
    found = ov.scan(frame).mean("v", "k", assume=UNIT, vote=vote)
    assert found["estimate"].isna().tolist() == [True, False]
    assert "bounds" in found["note"][0]


@pytest.mark.parametrize(
    ("low", "high", "share"), [(1.7e9, 1.7e9 + 100, 0.5), (1e6, 1e6 + 0.1, 1.0), (0.0, 1e-158, 0.001)]
)
def test_rows_on_far_bounds_are_no_contradiction_however_they_are_summed_up(low, high, share):
    rows, known = np.where(np.random.default_rng(0).random(4000) < share, low, high), Bounded(low, high)
    frame, chunks = pd.DataFrame({"v": rows, "i": np.arange(len(rows))}), ov.BlockSummary(5, seed=1)
    for ids in np.array_split(np.arange(len(rows)), 570):
        chunks.update(np.sort(rows)[ids], ids=ids)
    sources = pa.Table.from_pandas(frame), pl.from_pandas(frame).lazy(), duckdb.from_df(frame)
    for found in (
        chunks.result(contamination=0, assume=known),
        ov.mean(rows, 0, assume=known, partition="hash", n_blocks=11),
        *(ov.scan(one, row_id="i").mean("v", contamination=0, assume=known, n_blocks=11) for one in sources),
    ):
        assert low <= found.interval.low <= found.interval.high <= high


def test_kernels_on_far_bounds_are_no_contradiction():
    kernel = ov.Kernel(lambda a, b: 0.1 * a + 0.2 * b + 0.3 * a + 0.4 * b, degrees=2, name="weighted")
    known = Bounded(1e12, 1e12 + 1)
    assert ov.u_statistic(np.full(400, 1e12 + 1), kernel=kernel, contamination=3, assume=known, vote="median").plan


@pytest.mark.parametrize("asked", [{}, {"vote": "median"}, {"partition": "hash"}, {"n_blocks": 21}, {"vote": "soft"}])
def test_rows_are_compared_as_they_are(asked):
    rows = X % 1
    rows[:5] = 1e9  # as many as may be corrupt
    found = ov.mean(rows, contamination=5, assume=UNIT, rng=0, **asked).interval
    assert 0 <= found.low < 0.5 < found.high <= 1
    rows = np.where(np.arange(2100) % 2, np.float32(0.1), np.float32(0.0)).astype(np.float32)  # which is above 0.1
    with pytest.raises(MoreCorruptRows, match="outside the bounds"):
        ov.mean(rows, 0, assume=Bounded(0, 0.1), **asked)
    assert ov.mean(rows, 0, assume=Bounded(0, float(np.float32(0.1))), **asked).interval.high < 0.1


def test_as_many_blocks_outside_as_corrupt_rows_can_reach_are_no_contradiction():
    means = [[0.5]] * 40 + [[9.0]] * 3
    blocks = ov.BlockSummary.of_blocks(43, 0, range(43), [5] * 43, means, [[0.0]] * 43)
    assert blocks.result(contamination=3, assume=UNIT, vote="median").estimate == 0.5
    with pytest.raises(ContradictionError, match="3 of 43 blocks hold rows outside these bounds"):
        blocks.result(contamination=2, assume=UNIT, vote="median")
