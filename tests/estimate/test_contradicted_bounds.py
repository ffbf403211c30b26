"""Rows that contradict declared bounds are refused, whichever way they come."""

import numpy as np
import pandas as pd
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


def test_pairs_of_samples_on_a_grid_and_on_its_diagonal():
    kernel = ov.Kernel(lambda a, b: 9.0 + 0 * a, degrees=(1, 1), bounds=(0, 1), name="nine")
    for grid in ("full", "diagonal"):
        with pytest.raises(ContradictionError, match=r"of [0-9]+ block values lie outside these bounds"):
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
