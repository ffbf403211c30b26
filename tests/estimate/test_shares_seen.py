"""The estimate of a proportion is the share that is seen among the usable rows."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import outvote as ov

RATE = np.arange(1000) % 100 < 3
OTHER = np.arange(1200) % 100 < 5


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_a_mean_of_booleans_is_the_share_of_ones(adversary):
    for alternative in ("two-sided", "less", "greater"):
        found = ov.mean(RATE, ov.Contamination(4, adversary), alternative=alternative)
        assert found.estimate == RATE.mean()
        assert found.interval.low <= found.estimate <= found.interval.high
    moved = ov.mean(np.arange(60) < 1, ov.Contamination(20, adversary), alternative="less")
    assert moved.estimate <= moved.interval.high  # into its interval
    watch = ov.Monitor(assume=ov.Proportion(), contamination=ov.Contamination(0.001, adversary)).update(RATE)
    assert watch.result().estimate == RATE.mean()
    perfect = ov.metrics.robust_accuracy(np.ones(20, int), np.ones(20, int), contamination=0)
    assert perfect.interval.low < 0.9 < perfect.estimate == 1


def test_rows_that_are_neither_0_nor_1_do_not_count():
    rows = np.r_[RATE.astype(float), 7.0, np.nan]
    found = ov.mean(rows, 5, assume=ov.Proportion(), nan_policy="corrupt")
    assert found.estimate == found.plain == RATE.mean()


def test_a_difference_of_rates_is_that_of_the_shares():
    for contamination in (2, (1, 3)):
        gap, lift = (ov.difference(RATE, OTHER, contamination=contamination, relative=one) for one in (False, True))
        assert gap.estimate == pytest.approx(0.02)
        assert lift.estimate == pytest.approx(0.05 / 0.03 - 1)
    a, b = np.repeat([False, True], [1_400_000, 14_000]), np.repeat([False, True], [1_400_000, 28_000])
    assert ov.difference(a, b, contamination=5).estimate == pytest.approx(b.mean() - a.mean(), rel=1e-12)


def test_columns_groups_and_summaries_agree():
    pd = pytest.importorskip("pandas")
    columns = ov.mean(np.column_stack([RATE, ~RATE]), 2)
    assert np.allclose(columns.estimate, [0.03, 0.97], atol=0)
    frame = pd.DataFrame({"g": np.arange(1000) % 2, "v": RATE})
    by_group = ov.scan(frame).mean("v", by="g", contamination=1)
    assert by_group["estimate"].tolist() == [frame.v[frame.g == g].mean() for g in (0, 1)]
    summary = ov.RowSummary().update(np.tile(RATE, 10).astype(float))
    assert ov.mean(summary, 2, assume=ov.Proportion()).estimate == RATE.mean()


def test_without_a_usable_row_a_share_is_a_half():
    from outvote.votes.evidence import Tally

    assert Tally(0, 0, 3, 3).share == 0.5


WITH_GAPS = [True, None, False, True] * 20
NULLABLE = {
    "pandas": lambda v: pd.Series(v, dtype="boolean"),
    "pandas on arrow": lambda v: pd.Series(v, dtype="bool[pyarrow]"),
    "polars": pl.Series,
    "arrow": pa.array,
    "chunks of arrow": lambda v: pa.chunked_array([v]),
}


@pytest.mark.parametrize("kind", NULLABLE)
def test_missing_truth_values_leave_the_others_a_proportion(kind):
    rows = NULLABLE[kind](WITH_GAPS)
    there = np.array([one for one in WITH_GAPS if one is not None])
    found = ov.mean(rows, nan_policy="omit")
    assert found.interval == ov.mean(there).interval
    assert (
        found.interval
        == ov.scan(pd.DataFrame({"v": pd.Series(WITH_GAPS, dtype="boolean")})).mean("v", nan_policy="omit").interval
    )
    assert ov.difference(rows, rows, nan_policy="omit").interval == ov.difference(there, there).interval


def test_truth_values_as_objects_are_truth_values():
    rows = [True, False] * 30
    assert ov.mean(pd.Series(rows, dtype=object)).interval == ov.mean(np.array(rows)).interval
