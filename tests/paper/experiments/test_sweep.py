"""The sweep of contaminations: the estimators, the attacks, the table, and what is said of it."""

from __future__ import annotations

import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

from outvote.paper.experiments import contamination_sweep as sweep
from outvote.paper.experiments.base import Size, column
from outvote.paper.experiments.running import run


@pytest.fixture(scope="module")
def outcome():
    return run(sweep.EXPERIMENT, quick=True, runs=6)


@pytest.fixture(scope="module")
def answers():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(sweep.N_ROWS, 40))
    rows[:50] = 1000.0
    return rows, sweep.estimates_of(rows, 50, sweep._resamples(rng), rng)


def error(outcome, estimator, law, attack, share):
    chosen = {"estimator": estimator, "law": law, "attack": attack, "share": share}
    (value,) = column(outcome.tables["contamination-sweep"], "mean absolute error", **chosen)
    return value


def test_classical_estimates_are_what_they_are_called(answers):
    rows, found = answers
    estimates = {name: estimate for name, (estimate, _, _) in found.items()}
    for each in (0, 7):
        x = rows[:, each]
        assert estimates["trimmed mean"][each] == pytest.approx(stats.trim_mean(x, 0.05))
        winsorized = np.asarray(stats.mstats.winsorize(x, (0.05, 0.05))).mean()
        assert estimates["winsorized mean"][each] == pytest.approx(winsorized)
        assert estimates["sigma clipping"][each] == pytest.approx(np.sort(x)[:-50].mean(), abs=0.01)
    assert estimates["mean"] == pytest.approx(50, abs=0.2)
    assert estimates["median"] == pytest.approx(np.median(rows, axis=0))


def test_hubers_estimate_solves_its_equation(answers):
    rows, found = answers
    centre, scale = found["Huber"][0], stats.median_abs_deviation(rows, axis=0, scale="normal")
    assert np.clip((rows - centre) / scale, -1.345, 1.345).mean(axis=0) == pytest.approx(0, abs=1e-9)
    assert sweep.huber(np.arange(10.0)) == pytest.approx(4.5)


def test_bootstrap_intervals_are_those_of_a_mean():
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(sweep.N_ROWS, 30))
    weights = sweep._resamples(rng)
    assert weights.shape == (sweep.RESAMPLES, sweep.N_ROWS)
    assert weights.sum(axis=1) == pytest.approx(1)
    _, low, high = sweep.estimates_of(rows, 0, weights, rng)["bootstrap"]
    assert ((high - low) / 2).mean() == pytest.approx(1.96 / np.sqrt(sweep.N_ROWS), rel=0.05)


def test_every_estimate_and_interval_is_there(answers):
    _, found = answers
    assert len(found) == 13
    for name, (estimate, low, high) in found.items():
        assert estimate.shape == (40,)
        if name.startswith(sweep.OURS):
            assert (low <= estimate).all()
            assert (estimate <= high).all()
            assert np.abs(estimate).max() < 0.3


def test_attacks_sit_where_they_say():
    law = stats.lognorm(1.0)
    assert sweep.ATTACKS["near"](law, 0.1) == pytest.approx(law.mean() / law.std() + 3)
    low = sweep.ATTACKS["at the cut"](law, 0.1)
    assert law.cdf(low * law.std()) == pytest.approx(0.1)


def test_all_laws_have_a_standard_deviation_of_one():
    for name, arguments in sweep.LAWS.values():
        known = getattr(stats, name)(*arguments)
        assert np.isfinite(known.std())
    errors = sweep.measure(np.random.default_rng(0), law="Pareto(3)", attack="far", shares=(0.01,), runs=3)
    (mean,) = [row["mean absolute error"] for row in errors if row["estimator"] == "mean"]
    assert mean == pytest.approx(10, abs=0.1)


def test_errors_where_they_are_known(outcome):
    # Up to 30 % far away: the mean goes along, the median of 70 % of the rows is their 0.5/0.7 quantile.
    assert error(outcome, "mean", "normal", "far", 0.3) == pytest.approx(300, rel=0.01)
    assert error(outcome, "median", "normal", "far", 0.3) == pytest.approx(stats.norm.ppf(0.5 / 0.7), abs=0.06)
    # The median of a lognormal law is 1, its mean e^(1/2).
    gap = (np.exp(0.5) - 1) / stats.lognorm(1.0).std()
    assert error(outcome, "median", "lognormal", "none", 0.05) == pytest.approx(gap, abs=0.03)


def test_outvote_wins_and_loses_where_it_should(outcome):
    assert error(outcome, "soft vote", "lognormal", "none", 0.05) < error(
        outcome, "trimmed mean", "lognormal", "none", 0.05
    )
    assert error(outcome, "soft vote", "normal", "far", 0.05) < 0.2 < error(outcome, "mean", "normal", "far", 0.05)
    assert error(outcome, "median", "normal", "far", 0.05) < error(outcome, "soft vote", "normal", "far", 0.05)


def test_tables_survive_json_and_give_the_same_figure_and_findings(outcome):
    again = json.loads(json.dumps(outcome.tables, allow_nan=False))
    assert again == outcome.tables
    assert sweep.judge(again) == outcome.findings
    figure = sweep.draw(again)
    figure.canvas.draw()
    assert len(figure.axes) == len(sweep.LAWS) * len(sweep.ATTACKS)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(sweep.DRAWN)
    plt.close(figure)


def test_the_worst_is_the_largest_of_all_settings(outcome):
    rows = outcome.tables["contamination-sweep"]
    for worst in outcome.tables["contamination-sweep.worst"]:
        chosen = {"share": worst["share"], "estimator": worst["estimator"]}
        assert worst["largest mean absolute error"] == column(rows, "mean absolute error", **chosen).max()
        here = error(outcome, worst["estimator"], worst["law"], worst["attack"], worst["share"])
        assert here == worst["largest mean absolute error"]


def test_verdicts_on_intervals(outcome):
    verdicts = [each.verdict for each in outcome.findings[:3]]
    assert verdicts == ["holds", "holds in part", "does not hold"]
    rows = [
        row | {"coverage": 0.5} if row["estimator"] == "soft vote" else row
        for row in outcome.tables["contamination-sweep"]
    ]
    assert sweep.judge(outcome.tables | {"contamination-sweep": rows})[0].verdict == "holds in part"


def test_verdicts_on_errors(outcome):
    found = {each.claim: each for each in outcome.findings}
    assert found["on clean rows protection costs nothing"].verdict == "holds in part"
    wins = found["under attack the soft vote is more accurate than the usual estimators"]
    assert wins.verdict == "does not hold"
    better = [
        row | {"mean absolute error": 0.0} if row["estimator"] == "soft vote" else row
        for row in outcome.tables["contamination-sweep"]
    ]
    assert sweep._on_wins(better).verdict == "holds"
    worst = [
        row | {"largest mean absolute error": 9.0} if row["estimator"] in sweep.OURS else row
        for row in outcome.tables["contamination-sweep.worst"]
    ]
    assert sweep._on_the_worst(worst).verdict == "does not hold"


def test_the_cut_depends_on_the_size_alone():
    assert sweep.pieces(Size(3)) == sweep.pieces(Size(3))
    assert len(sweep.pieces(Size(3))) == 16
    assert sweep.pieces(Size(1))[0].settings["shares"] == sweep.SHARES


def test_a_single_run_has_no_standard_error():
    rows = sweep.measure(np.random.default_rng(0), law="normal", attack="none", shares=(0.0,), runs=1)
    assert {row["standard error"] for row in rows} == {None}
