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


@pytest.mark.parametrize("name", CALLS)
def test_bounds_that_rows_contradict_are_refused(name):
    with pytest.raises((ContradictionError, MoreCorruptRows), match=r"contradict|outside the bounds"):
        CALLS[name]()


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


@pytest.mark.parametrize("name", INSIDE)
def test_bounds_that_rows_contradict_are_refused_though_averages_of_blocks_lie_inside(name):
    with pytest.raises((ContradictionError, MoreCorruptRows), match=r"contradict|outside the bounds"):
        INSIDE[name]()


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: ov.mean(x, assume=Proportion(), partition="hash"),
        lambda x: ov.mean(x, assume=Proportion(), vote="median"),
        lambda x: ov.BlockSummary(51).update(x).result(assume=Proportion()),
        lambda x: ov.scan(pd.DataFrame({"v": x})).mean("v", assume=Proportion(), vote="median"),
        lambda x: ov.scan(pd.DataFrame({"v": x})).mean("v", assume=Proportion()),
    ],
)
def test_rows_between_0_and_1_are_no_proportion(ask):
    with pytest.raises((ContradictionError, MoreCorruptRows), match=r"assume=Proportion|bounds of Proportion"):
        ask(X % 1)


def test_rows_outside_are_counted_where_they_are_in_memory():
    rows = X % 1
    rows[:6] = 1.5
    with pytest.raises(MoreCorruptRows, match=r"in 6 rows, more than the 5 corrupt rows .* allow at least 6"):
        ov.mean(rows, contamination=5, assume=UNIT, partition="hash")


@pytest.mark.parametrize("rows", [np.tile([0.0, 1.0], 500), np.full(1000, 1.0), np.linspace(0, 1, 1000) ** 9])
@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_blocks_as_spread_as_bounds_allow_are_no_contradiction(rows, scale):
    known = Bounded(0, scale)
    for found in (
        ov.BlockSummary(51).update(rows * scale).result(contamination=0, assume=known),
        ov.mean(rows * scale, contamination=0, assume=known, partition="hash"),
        ov.BlockSummary(51)
        .update(rows * scale + 1e6 * scale)
        .result(0, assume=Bounded(1e6 * scale, 1.000001e6 * scale)),
    ):
        assert found.interval.low <= found.estimate <= found.interval.high


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


@pytest.mark.parametrize("settings", [{}, {"vote": "median"}, {"partition": "hash"}])
def test_as_many_rows_outside_as_may_be_corrupt_are_no_contradiction(settings):
    rows = X % 1
    rows[:5] = 1e9
    found = ov.mean(rows, contamination=5, assume=UNIT, rng=0, **settings).interval
    assert 0 <= found.low < 0.5 < found.high <= 1


def test_rounding_is_no_contradiction():
    assert ov.mean(np.full(999, 0.1), assume=Bounded(0, 0.1), partition="hash").interval.high == 0.1


def summed_in_chunks(rows, n_blocks, size):
    summary = ov.BlockSummary(n_blocks, seed=1)
    for first in range(0, len(rows), size):
        summary.update(rows[first : first + size], ids=np.arange(first, min(first + size, len(rows))))
    return summary


@pytest.mark.parametrize(("low", "high"), [(1.7e9, 1.7e9 + 100), (1e6, 1e6 + 0.1), (-1e12, -1e12 + 1), (0.0, 1e-158)])
@pytest.mark.parametrize("share", [0.001, 0.5, 1.0])
def test_rows_on_far_bounds_are_no_contradiction_however_they_are_summed_up(low, high, share):
    rows = np.where(np.random.default_rng(0).random(20_000) < share, low, high)
    known = Bounded(low, high)
    frame = pd.DataFrame({"v": rows, "i": np.arange(len(rows))})
    for found in (
        summed_in_chunks(np.sort(rows), 5, 7).result(contamination=0, assume=known),
        ov.mean(rows, 0, assume=known, partition="hash", n_blocks=11),
        ov.scan(pa.Table.from_pandas(frame), row_id="i").mean("v", contamination=0, assume=known, n_blocks=11),
        ov.scan(pl.from_pandas(frame).lazy(), row_id="i").mean("v", contamination=0, assume=known, n_blocks=11),
        ov.scan(duckdb.from_df(frame), row_id="i").mean("v", contamination=0, assume=known, n_blocks=11),
    ):
        assert low <= found.interval.low <= found.interval.high <= high


def test_kernels_on_far_bounds_are_no_contradiction():
    kernel = ov.Kernel(lambda a, b: 0.1 * a + 0.2 * b + 0.3 * a + 0.4 * b, degrees=2, name="weighted")
    known = Bounded(1e12, 1e12 + 1)
    assert ov.u_statistic(np.full(400, 1e12 + 1), kernel=kernel, contamination=3, assume=known, vote="median").plan


@pytest.mark.parametrize("settings", [{}, {"partition": "hash"}, {"n_blocks": 21}, {"vote": "soft"}])
def test_floats_of_32_bits_are_compared_as_they_are(settings):
    rows = np.where(np.arange(2100) % 2, np.float32(0.1), np.float32(0.0)).astype(np.float32)  # which is above 0.1
    with pytest.raises(MoreCorruptRows, match="outside the bounds"):
        ov.mean(rows, 0, assume=Bounded(0, 0.1), **settings)
    assert ov.mean(rows, 0, assume=Bounded(0, float(np.float32(0.1))), **settings).interval.high < 0.1
