"""The sweep over contaminations: estimators, attacks, tables and findings."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from outvote.paper.experiments import contamination_sweep as sweep
from outvote.paper.experiments.base import column
from outvote.paper.experiments.running import run


@pytest.fixture(scope="module")
def outcome():
    return run(sweep.EXPERIMENT, quick=True, runs=6)


@pytest.fixture(scope="module")
def answers():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(sweep.N_ROWS, 40))
    rows[:50] = 1000.0
    weights = rng.multinomial(sweep.N_ROWS, np.full(sweep.N_ROWS, 1 / sweep.N_ROWS), size=100) / sweep.N_ROWS
    return rows, sweep.estimates_of(rows, 50, weights, rng)


def error(outcome, estimator, law, attack, share):
    chosen = {"estimator": estimator, "law": law, "attack": attack, "share": share}
    (value,) = column(outcome.tables["contamination-sweep"], "mean absolute error", **chosen)
    return value


def test_classical_estimates_equal_scipy(answers):
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


def test_bootstrap_interval_has_the_width_of_a_normal_one():
    rows = sweep.measure(np.random.default_rng(1), law="normal", attack="none", shares=(0.0,), runs=30)
    (row,) = [row for row in rows if row["estimator"] == "bootstrap"]
    assert row["mean half-width"] == pytest.approx(1.96 / np.sqrt(sweep.N_ROWS), rel=0.05)


def test_intervals_contain_their_estimates(answers):
    _, found = answers
    assert len(found) == 13
    for name, (estimate, low, high) in found.items():
        assert estimate.shape == (40,)
        if name.startswith(sweep.OURS):
            assert (low <= estimate).all()
            assert (estimate <= high).all()
            assert np.abs(estimate).max() < 0.3


def test_places_of_the_attacks():
    law = stats.lognorm(1.0)
    assert sweep.ATTACKS["near"](law, 0.1) == pytest.approx(law.mean() / law.std() + 3)
    low = sweep.ATTACKS["at the cut"](law, 0.1)
    assert law.cdf(low * law.std()) == pytest.approx(0.1)


def test_laws_have_a_finite_sd_and_far_outliers_shift_the_mean():
    for name, arguments in sweep.LAWS.values():
        known = getattr(stats, name)(*arguments)
        assert np.isfinite(known.std())
    errors = sweep.measure(np.random.default_rng(0), law="Pareto(3)", attack="far", shares=(0.01,), runs=3)
    (mean,) = [row["mean absolute error"] for row in errors if row["estimator"] == "mean"]
    assert mean == pytest.approx(10, abs=0.1)


def test_errors_have_known_values(outcome):
    # Up to 30 % far away: the mean goes along, the median of 70 % of the rows is their 0.5/0.7 quantile.
    assert error(outcome, "mean", "normal", "far", 0.3) == pytest.approx(300, rel=0.01)
    assert error(outcome, "median", "normal", "far", 0.3) == pytest.approx(stats.norm.ppf(0.5 / 0.7), abs=0.06)
    # The median of a lognormal law is 1, its mean e^(1/2).
    gap = (np.exp(0.5) - 1) / stats.lognorm(1.0).std()
    assert error(outcome, "median", "lognormal", "none", 0.05) == pytest.approx(gap, abs=0.03)


def test_worst_table_holds_the_largest_errors(outcome):
    rows = outcome.tables["contamination-sweep"]
    for worst in outcome.tables["contamination-sweep.worst"]:
        chosen = {"share": worst["share"], "estimator": worst["estimator"]}
        assert worst["largest mean absolute error"] == column(rows, "mean absolute error", **chosen).max()
        here = error(outcome, worst["estimator"], worst["law"], worst["attack"], worst["share"])
        assert here == worst["largest mean absolute error"]


def test_verdicts_on_intervals_follow_the_table(outcome):
    verdicts = [each.verdict for each in outcome.findings[:3]]
    assert verdicts == ["holds", "holds in part", "does not hold"]
    rows = [
        row | {"coverage": 0.5} if row["estimator"] == "soft vote" else row
        for row in outcome.tables["contamination-sweep"]
    ]
    assert sweep.judge(outcome.tables | {"contamination-sweep": rows})[0].verdict == "holds in part"


def test_verdicts_on_errors_follow_the_table(outcome):
    def verdict(changes, start):
        (found,) = [each for each in sweep.judge(outcome.tables | changes) if each.claim.startswith(start)]
        return found.verdict

    assert verdict({}, "on clean rows protection costs nothing") == "holds in part"
    assert verdict({}, "under attack the soft vote is more accurate") == "does not hold"
    better = [
        row | {"mean absolute error": 0.0} if row["estimator"] == "soft vote" else row
        for row in outcome.tables["contamination-sweep"]
    ]
    assert verdict({"contamination-sweep": better}, "under attack the soft vote is more accurate") == "holds"
    worst = [
        row | {"largest mean absolute error": 9.0} if row["estimator"] in sweep.OURS else row
        for row in outcome.tables["contamination-sweep.worst"]
    ]
    assert verdict({"contamination-sweep.worst": worst}, "the largest error over distributions") == "does not hold"
