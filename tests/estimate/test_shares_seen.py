"""The estimate of a proportion is the share that is seen among the usable rows."""

import numpy as np
import pytest

import outvote as ov

RATE = np.arange(1000) % 100 < 3
OTHER = np.arange(1200) % 100 < 5


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_a_mean_of_booleans_is_the_share_of_ones(adversary, alternative):
    allowed = ov.Contamination(4, adversary)
    found = ov.mean(RATE, allowed, alternative=alternative)
    assert found.estimate == RATE.mean()
    assert found.interval.low <= found.estimate <= found.interval.high


def test_rows_that_are_neither_0_nor_1_do_not_count():
    rows = np.r_[RATE.astype(float), 7.0, np.nan]
    found = ov.mean(rows, 5, assume=ov.Proportion(), nan_policy="corrupt")
    assert found.estimate == found.plain == RATE.mean()


def test_a_perfect_model_scores_1():
    found = ov.metrics.robust_accuracy(np.ones(20, int), np.ones(20, int), contamination=0)
    assert found.estimate == 1
    assert found.interval.low < 0.9


@pytest.mark.parametrize("contamination", [2, (1, 3)])
def test_a_difference_of_rates_is_that_of_the_shares(contamination):
    gap = ov.difference(RATE, OTHER, contamination=contamination)
    lift = ov.difference(RATE, OTHER, contamination=contamination, relative=True)
    assert gap.estimate == pytest.approx(0.02)
    assert lift.estimate == pytest.approx(0.05 / 0.03 - 1)


def test_very_many_rates_are_compared_by_their_shares():
    a, b = np.repeat([False, True], [1_400_000, 14_000]), np.repeat([False, True], [1_400_000, 28_000])
    found = ov.difference(a, b, contamination=5)
    assert found.estimate == pytest.approx(b.mean() - a.mean(), rel=1e-12)


def test_columns_groups_and_summaries_agree():
    pd = pytest.importorskip("pandas")
    columns = ov.mean(np.column_stack([RATE, ~RATE]), 2)
    assert np.allclose(columns.estimate, [0.03, 0.97], atol=0)
    frame = pd.DataFrame({"g": np.arange(1000) % 2, "v": RATE})
    by_group = ov.scan(frame).mean("v", by="g", contamination=1)
    assert by_group["estimate"].tolist() == [frame.v[frame.g == g].mean() for g in (0, 1)]
    summary = ov.RowSummary().update(np.tile(RATE, 10).astype(float))
    assert ov.mean(summary, 2, assume=ov.Proportion()).estimate == RATE.mean()


def test_a_monitor_shows_the_shares():
    one = ov.Monitor(assume=ov.Proportion(), contamination=0.001)
    one.update(RATE)
    assert one.result().estimate == RATE.mean()


def test_an_estimate_outside_of_its_interval_is_moved_into_it():
    hits = np.arange(60) < 1
    found = ov.mean(hits, 20, alternative="less")
    assert found.estimate <= found.interval.high


def test_without_a_usable_row_a_share_is_a_half():
    from outvote.votes.evidence import Tally

    assert Tally(0, 0, 3, 3).share == 0.5
