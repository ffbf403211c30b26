"""The estimation experiments: their numbers, the attacks, the tables, and what is said of them."""

from __future__ import annotations

import copy
import inspect
import json
import math
from typing import get_args

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats

import outvote as ov
from outvote import paper, tables
from outvote.assumptions.assumption import Assumption
from outvote.blocks.partition import draw
from outvote.contamination import Adversary
from outvote.paper.experiments import (
    coverage,
    estimation,
    get,
    mann_whitney,
    rate,
    ruin_mean,
    ruin_median,
    ruin_variance,
)
from outvote.paper.experiments.base import Size, column
from outvote.paper.experiments.coverage_cases import (
    CASES,
    LAWS,
    LOSSES,
    ROWS_TO_CLASSIFY,
    THRESHOLDS,
    WINS,
    losses_at,
    risk_at,
)
from outvote.paper.experiments.coverage_trials import TRIALS
from outvote.paper.experiments.running import run
from outvote.votes import VoteName

NAMES = ("ruin-mean", "ruin-median", "ruin-variance", "mann-whitney", "rate", "coverage")
RUNS = {"ruin-mean": 50, "ruin-median": 50, "ruin-variance": 30, "mann-whitney": 8, "rate": 20, "coverage": 20}


@pytest.fixture(scope="module")
def outcomes():
    return {name: run(get(name), quick=True, runs=RUNS[name]) for name in NAMES}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture
def verdict(outcomes):
    """Look up the verdict on the claim that begins so, in the outcome or in other tables."""

    def look(name, start, tables=None):
        findings = outcomes[name].findings if tables is None else get(name).judge(tables)
        (found,) = [each for each in findings if each.claim.startswith(start)]
        return found.verdict

    return look


def changed(outcome, table, new, **where):
    """Return the tables of an outcome with some cells of one table replaced."""
    tables = copy.deepcopy(outcome.tables)
    rows = [row for row in tables[table] if all(row[key] == value for key, value in where.items())]
    assert rows
    for row in rows:
        row.update(new(row))
    return tables


def error(outcome, name, estimator, data, n):
    return estimation.error_at(outcome.tables[name], estimator, data, n)


# --- what all of them must do -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_tables_survive_json_and_give_the_same_figure_and_findings(outcomes, name):
    experiment, outcome = get(name), outcomes[name]
    assert next(iter(outcome.tables)) == name
    for rows in outcome.tables.values():
        assert len({tuple(row) for row in rows}) == 1
    again = json.loads(json.dumps(outcome.tables, allow_nan=False))
    assert experiment.judge(again) == outcome.findings
    figure = experiment.draw(again)
    figure.canvas.draw()
    assert all(ax.get_title() and ax.get_xlabel() for ax in figure.axes)


@pytest.mark.parametrize("name", NAMES)
def test_one_run_is_enough_to_draw_and_judge(name):
    outcome = run(get(name), quick=True, runs=1)
    json.dumps(outcome.tables, allow_nan=False)
    get(name).draw(outcome.tables).canvas.draw()
    assert outcome.findings


@pytest.mark.parametrize("name", NAMES)
def test_pieces_add_up_to_the_runs(name):
    experiment = get(name)
    found = {}
    for piece in experiment.pieces(Size(experiment.runs)):
        assert piece.cost > 0
        key = tuple(cell for name, cell in piece.settings.items() if name in ("n", "case", "delta"))
        found[key] = found.get(key, 0) + piece.settings["runs"]
        assert piece.settings.get("n", 0) * piece.settings["runs"] <= 2e6
    fewer = {"rate": {316_228: 94, 1_000_000: 30}}.get(name, {})
    times = {number: case.times for number, case in enumerate(CASES)} if name == "coverage" else {}
    assert found == {key: fewer.get(key[0], experiment.runs * times.get(key[0], 1)) for key in found}


# --- what they share --------------------------------------------------------------------------------------


def test_sizes_outliers_and_blocks():
    assert estimation.sizes(Size(1)) == [100, 178, 316, 562, 1000, 1778, 3162, 5623, 10_000]
    assert estimation.sizes(Size(1, quick=True)) == [100, 316, 1000]
    assert [estimation.n_outliers(n) for n in (100, 1000, 10_000)] == [10, 32, 100]
    assert [estimation.harmonic(n) for n in (100, 1000, 10_000)] == [34, 121, 393]
    assert estimation.harmonic(1000, 50) == paper.block_count(1000, 50)[0]


def test_corrupt_replaces_as_many_rows_of_each_column_and_others_each_time():
    clean = np.random.default_rng(0).normal(size=(50, 30))
    before = clean.copy()
    corrupted = estimation.corrupt(np.random.default_rng(1), clean, 7.0, 6)
    np.testing.assert_array_equal(clean, before)
    hit = corrupted == 7.0
    assert (hit.sum(axis=0) == 6).all()
    np.testing.assert_array_equal(corrupted[~hit], clean[~hit])
    assert len({tuple(np.flatnonzero(each)) for each in hit.T}) == 30
    assert hit.any(axis=1).all()


@pytest.mark.parametrize("n", [100, 562, 3162, 31_623])
def test_the_trimmed_mean_leaves_no_outlier_in(n):
    for count in range(1, n // 4, max(1, n // 300)):
        rows = np.zeros((n, 1))
        rows[:count] = 1e6
        assert estimation.trimmed_mean(rows, count) == 0
        rows[count] = 1e6
        assert estimation.trimmed_mean(rows, count) > 0


def test_errors_of_several_pieces_are_averaged_together():
    one = estimation.errors(100, 1.0, {("a", "clean"): [1.0, 2.0], ("a", "corrupted"): [4.0, 4.0]})
    two = estimation.errors(100, 1.0, {("a", "clean"): [-3.0], ("a", "corrupted"): [4.0]})
    clean, corrupted = estimation.average([*one, *two])
    assert (clean["mean absolute error"], clean["runs"], clean["outliers"]) == (pytest.approx(5 / 3), 3, 0)
    assert clean["standard error"] == pytest.approx(np.std([0, 1, 4], ddof=1) / math.sqrt(3))
    assert (corrupted["mean absolute error"], corrupted["standard error"], corrupted["outliers"]) == (3.0, 0.0, 10)
    assert estimation.average(one[:1])[0]["runs"] == 2
    (alone,) = estimation.average(estimation.errors(100, 0.0, {("a", "clean"): [1.0]}))
    assert alone["standard error"] is None


def test_slope_and_its_standard_error():
    table = [
        {"estimator": "a", "n": n, "mean absolute error": 3 * n**-0.4, "standard error": 0.1 * 3 * n**-0.4}
        for n in (10, 100, 1000)
    ]
    slope, spread = estimation.slope(table, estimator="a")
    assert slope == pytest.approx(-0.4)
    # logarithms with sd .1 at -1, 0, 1 decades: .1·√2/(2·log 10)
    assert spread == pytest.approx(0.1 * math.sqrt(2) / (2 * math.log(10)))


# --- ruining the mean, the median, the variance -----------------------------------------------------------


def test_ruin_mean_numbers():
    found = run(get("ruin-mean"), quick=True, runs=400)
    assert error(found, "ruin-mean", "mean", "corrupted", 1000) == pytest.approx(32 * math.sqrt(1000) / 1000, abs=0.01)
    assert error(found, "ruin-mean", "MoM", "corrupted", 1000) == pytest.approx(0.136, abs=0.01)
    assert error(found, "ruin-mean", "MoM", "corrupted", 100) == pytest.approx(0.235, abs=0.025)
    assert error(found, "ruin-mean", "mean", "clean", 1000) == pytest.approx(math.sqrt(2 / (math.pi * 1000)), rel=0.15)
    # The ε-trimmed mean is off by about ε·Φ⁻¹(1 - ε), and noise is small beside it.
    share = 32 / 1000
    assert error(found, "ruin-mean", "trimmed mean", "corrupted", 1000) == pytest.approx(
        share * stats.norm.isf(share), rel=0.35
    )


def test_ruin_mean_verdicts_follow_the_table(outcomes, verdict):
    outcome = outcomes["ruin-mean"]
    assert verdict("ruin-mean", "the empirical mean") == "holds"
    assert verdict("ruin-mean", "MoM shows almost no") == "does not hold"
    assert verdict("ruin-mean", "MoM is superior") == "holds in part"
    assert verdict("ruin-mean", "the threshold") == "does not hold"
    bare = {row["n"]: row["mean absolute error"] for row in outcome.tables["ruin-mean"] if _is(row, "MoM", "clean")}
    kind = changed(
        outcome, "ruin-mean", lambda row: {"mean absolute error": bare[row["n"]]}, estimator="MoM", data="corrupted"
    )
    assert verdict("ruin-mean", "MoM shows almost no", kind) == "holds"
    assert verdict("ruin-mean", "MoM is superior", kind) == "holds"
    still = changed(outcome, "ruin-mean", lambda row: {"mean absolute error": 0.3}, estimator="MoM", data="corrupted")
    assert verdict("ruin-mean", "MoM improves", still) == "does not hold"


def _is(row, estimator, data):
    return (row["estimator"], row["data"]) == (estimator, data)


def test_blocks_of_an_odd_number_of_tosses_cannot_meet_one_half(outcomes):
    parity = outcomes["ruin-median"].tables["ruin-median.parity"]
    for row in parity:
        assert row["blocks"] % 2 == 1
        assert row["blocks"] > 2 * estimation.n_outliers(row["n"])
        assert row["n"] // row["blocks"] == row["block size"]
        if row["parity"] == "odd":
            assert row["mean absolute error"] >= 1 / (2 * row["block size"]) - 1e-12
    most = [row for row in parity if row["n"] == 1000]
    assert [row["block size"] for row in most] == [5, 6, 7, 8, 9, 10, 11]
    assert [row["block size"] for row in most if row["harmonic"]] == [1000 // 121]
    for row in most:
        if row["parity"] == "even":
            assert row["mean absolute error"] < 0.02
        else:
            assert row["mean absolute error"] == pytest.approx(1 / (2 * row["block size"]), rel=0.1)


def test_ruin_median_numbers_and_verdicts(outcomes, verdict):
    outcome = outcomes["ruin-median"]
    assert error(outcome, "ruin-median", "median", "corrupted", 1000) > 0.4
    assert error(outcome, "ruin-median", "median", "clean", 1000) > 0.4
    # 32 rows set to 1, half of which were 0: the mean moves by .016.
    assert error(outcome, "ruin-median", "mean", "corrupted", 1000) == pytest.approx(0.0185, abs=0.006)
    assert verdict("ruin-median", "the median fails") == "holds"
    assert verdict("ruin-median", "mean and median") == "does not hold"
    assert verdict("ruin-median", "MoM succeeds where") == "holds"
    assert verdict("ruin-median", "MoM succeeds by") == "holds in part"
    worse = changed(
        outcome, "ruin-median", lambda row: {"mean absolute error": 0.4}, estimator="MoM", data="corrupted", n=1000
    )
    assert verdict("ruin-median", "MoM succeeds where", worse) == "does not hold"
    assert verdict("ruin-median", "MoM is superior", worse) == "holds in part"
    even = changed(outcome, "ruin-median.parity", lambda row: {"mean absolute error": 0.01})
    assert verdict("ruin-median", "MoM succeeds by", even) == "holds"


def test_ruin_variance_numbers_and_verdicts(verdict):
    outcome = run(get("ruin-variance"), quick=True, runs=100)
    n, count = 1000, 32
    place, share = n**0.25, count / n
    expected = share * (1 - share) * (place - 0.5) ** 2 - share / 12
    assert error(outcome, "ruin-variance", "variance", "corrupted", n) == pytest.approx(expected, rel=0.01)
    assert error(outcome, "ruin-variance", "MoU", "corrupted", n) == pytest.approx(0.011, abs=0.0015)
    assert error(outcome, "ruin-variance", "MoU", "corrupted", 100) == pytest.approx(0.026, abs=0.005)
    assert verdict("ruin-variance", "the empirical variance", outcome.tables) == "holds"
    assert verdict("ruin-variance", "MoU improves", outcome.tables) == "holds"
    assert verdict("ruin-variance", "MoU behaves", outcome.tables) == "does not hold"
    kind = changed(outcome, "ruin-variance", lambda row: {"mean absolute error": 1 / row["n"]}, estimator="MoU")
    assert verdict("ruin-variance", "MoU behaves", kind) == "holds"


def test_the_truth_is_what_clean_rows_tell():
    rng = np.random.default_rng(0)
    records = [
        *ruin_mean.measure(rng, n=1000, runs=50),
        *ruin_median.measure(rng, n=1000, runs=50),
        *ruin_variance.measure(rng, n=1000, runs=50),
        *mann_whitney.measure(rng, n=1000, runs=10),
    ]
    plain = {"ruin-mean": "mean", "ruin-median": "mean", "ruin-variance": "variance", "mann-whitney": "plain"}
    sds = {"ruin-mean": 1.0, "ruin-median": 0.5, "ruin-variance": 0.075, "mann-whitney": 0.36}
    for name, estimator in plain.items():
        (record,) = [
            record
            for record in records
            if record["table"] == name and _is({"data": "", "estimator": "", **record}, estimator, "clean")
        ]
        assert np.sqrt(np.mean(np.square(record["errors"]))) == pytest.approx(sds[name] / math.sqrt(1000), rel=0.5)


# --- Mann-Whitney -----------------------------------------------------------------------------------------


def test_mann_whitney_blocks(outcomes):
    assert pytest.approx(stats.norm.cdf(math.sqrt(0.5))) == mann_whitney.TRUTH == WINS
    table = outcomes["mann-whitney"].tables["mann-whitney.blocks"]
    papers = {row["n"]: (row["blocks"], row["block size"]) for row in table if row["estimator"] == mann_whitney.PAPER}
    for n, (blocks, size) in papers.items():
        share = estimation.n_outliers(n) / n
        both = 2 * share - share**2
        assert blocks == math.ceil(math.sqrt(4 * both / (1 + 2 * both)) * n)
        assert size == n // blocks
    assert [size for _, size in papers.values()] == [1, 1, 2]


def test_mann_whitney_numbers(outcomes):
    outcome = outcomes["mann-whitney"]
    for n in (100, 316):  # one row a block: the median of indicators is 1
        assert error(outcome, "mann-whitney", mann_whitney.PAPER, "clean", n) == pytest.approx(1 - WINS)
    n, share = 1000, 32 / 1000
    hit = 2 * share - share**2
    down = hit * WINS  # pairs that are hit count 0
    up = hit * (1 - WINS)  # they count 1
    assert error(outcome, "mann-whitney", "plain", "pulled down", n) == pytest.approx(down, abs=0.012)
    assert error(outcome, "mann-whitney", "plain", "pulled up", n) == pytest.approx(up, abs=0.012)
    assert error(outcome, "mann-whitney", "plain", "clean", n) < 0.02
    for name in mann_whitney.ROBUST:
        assert error(outcome, "mann-whitney", name, "pulled up", n) > error(
            outcome, "mann-whitney", "plain", "pulled up", n
        )


def test_mann_whitney_verdicts_follow_the_table(outcomes, verdict):
    outcome = outcomes["mann-whitney"]
    ours = "MoU₂ has an advantage, if a smaller one, if outliers have pulled"
    assert verdict("mann-whitney", "the kernel is bounded") == "holds"
    assert verdict("mann-whitney", f"{ours} down") == "holds in part"
    assert verdict("mann-whitney", f"{ours} up") == "does not hold"
    assert verdict("mann-whitney", "the harmonic number") == "does not hold"
    poor = changed(outcome, "mann-whitney", lambda row: {"mean absolute error": 0.9}, estimator="plain")
    assert verdict("mann-whitney", f"{ours} up", poor) == "holds"
    assert verdict("mann-whitney", "the kernel is bounded", poor) == "does not hold"
    wide = changed(outcome, "mann-whitney.blocks", lambda row: {"block size": 5})
    assert verdict("mann-whitney", "the harmonic number", wide) == "holds"


# --- the rate ---------------------------------------------------------------------------------------------


def test_the_error_is_that_of_one_block(outcomes):
    rows = [row for row in outcomes["rate"].tables["rate.errors"] if row["estimator"] == rate.MOM]
    assert {row["exponent"] for row in rows} == set(rate.EXPONENTS)
    for row in rows:
        assert row["outliers"] == ov.Contamination.growth(exponent=row["exponent"]).count(row["n"])
        assert row["blocks"] == paper.block_count(row["n"], row["outliers"])[0]
        assert row["bound"] >= row["mean absolute error"]
        if row["exponent"] == 0.5:
            # A share (1 - B/n)^n_O of the blocks is clean; the median is a quantile of these.
            clean = (1 - row["block size"] / row["n"]) ** row["outliers"]
            expected = stats.norm.ppf(0.5 / clean) / math.sqrt(row["block size"])
            assert row["mean absolute error"] == pytest.approx(expected, rel=0.2)


def test_rate_slopes_and_verdicts(outcomes, verdict):
    outcome = outcomes["rate"]
    slopes = outcome.tables["rate"]
    assert column(slopes, "predicted", estimator=rate.MOM).tolist() == [-0.5, -0.375, -0.25, -0.125]
    for row in slopes[:4]:
        assert abs(row["slope"] - row["predicted"]) < 0.05 + 3 * row["standard error"]
    assert verdict("rate", "E|error|") == "holds"
    assert verdict("rate", "the bound") == "holds"
    assert verdict("rate", "this rate") == "holds in part"
    flat = changed(outcome, "rate", lambda row: {"slope": 0.0}, exponent=0.0)
    assert verdict("rate", "E|error|", flat) == "holds in part"
    small = changed(outcome, "rate.errors", lambda row: {"bound": 0.01}, estimator=rate.MOM)
    assert verdict("rate", "the bound", small) == "does not hold"
    same = changed(outcome, "rate", lambda row: {"slope": 0.0}, estimator=rate.TRIMMED)
    assert verdict("rate", "this rate", same) == "holds"


# --- coverage ---------------------------------------------------------------------------------------------


def case_of(certificate, law, **where):
    (number,) = [
        number
        for number, case in enumerate(CASES)
        if (case.certificate, case.law) == (certificate, law)
        and all(getattr(case, name) == value for name, value in where.items())
    ]
    return number


def tried(certificate, law, delta=0.1, runs=300, **where):
    """Return the record of the attacked rows, or of the clean ones where there is no attack."""
    return coverage.measure(np.random.default_rng(3), case=case_of(certificate, law, **where), delta=delta, runs=runs)[
        -1
    ]


@pytest.mark.parametrize("law", LAWS)
def test_laws_have_mean_zero_and_sd_one(law):
    if law in ("Student, 2.5 degrees", "Pareto, index 2.5", "lognormal, σ = 2"):
        # Too heavy for a sample's variance: compare the quantiles instead.
        exact = {
            "Student, 2.5 degrees": stats.t(2.5, scale=1 / math.sqrt(5)),
            "Pareto, index 2.5": stats.pareto(2.5),
            "lognormal, σ = 2": stats.lognorm(2.0),
        }[law]
        centre, sd = exact.mean(), exact.std()
        rows = LAWS[law](np.random.default_rng(0), (40_000, 1)).ravel()
        share = np.array([0.1, 0.5, 0.9, 0.99])
        np.testing.assert_allclose(np.quantile(rows, share), (exact.ppf(share) - centre) / sd, rtol=0.06, atol=0.02)
    else:
        rows = LAWS[law](np.random.default_rng(0), (40_000, 1))
        assert rows.mean() == pytest.approx(0, abs=0.02)
        assert rows.std() == pytest.approx(1, rel=0.02)


def attacked(case, clean, n_blocks, place, **changes):
    """Attack samples in blocks; return the rows that changed, by block, and where there are outliers."""
    case = coverage.replace(case, **{"n": len(clean[0]), "outliers": 3, **changes})
    parts = [draw("random", case.n, n_blocks, 0, stream=s) for s in range(len(clean))]
    before = [rows.copy() for rows in clean]
    found = coverage.attack(np.random.default_rng(1), clean, parts, case, place)
    for rows, old in zip(clean, before, strict=True):
        np.testing.assert_array_equal(rows, old)
    hits = [rows == value for rows, value in zip(found, place, strict=True)]
    for rows, old, hit in zip(found, before, hits, strict=True):
        np.testing.assert_array_equal(rows[~hit], old[~hit])
    return [np.array([hit[block].sum(axis=0) for block in part]) for hit, part in zip(hits, parts, strict=True)], parts


def check_hits(hit, worth=None):
    """One outlier in each of three blocks of every run: the first ones, or those worth least."""
    assert hit.max() == 1
    assert (hit.sum(axis=0) == 3).all()
    if worth is not None:
        assert (np.take_along_axis(hit, np.argsort(worth, axis=0)[:3], axis=0) == 1).all()


@pytest.mark.parametrize("place", [1e6, -1e6])
def test_attacks_on_a_mean(place):
    clean = np.random.default_rng(0).normal(size=(60, 4))
    for adversary in ("oblivious", "adaptive"):
        case = CASES[case_of("median, finite variance", "normal", adversary=adversary)]
        (hit,), (part,) = attacked(case, [clean], 12, (place,))
        means = np.array([clean[block].mean(axis=0) for block in part])
        check_hits(hit, np.sign(place) * means if adversary == "adaptive" else None)
        assert adversary == "adaptive" or (hit[:3] == 1).all()


@pytest.mark.parametrize("kernel", ["variance", "gini"])
def test_adaptive_attacks_on_pairs_of_one_sample_take_the_lowest_blocks(kernel):
    clean = np.random.default_rng(0).normal(size=(60, 4))
    name = {"variance": "variance, median, finite variance", "gini": "Gini, median, finite variance"}[kernel]
    case = CASES[case_of(name, "normal", adversary="adaptive")]
    (hit,), (part,) = attacked(case, [clean], 12, (1e3,))
    values = [
        [ov.u_statistic(rows, kernel=kernel, n_blocks=1, contamination=0).estimate for rows in clean[block].T]
        for block in part
    ]
    check_hits(hit, np.array(values))


@pytest.mark.parametrize("place", [(10.0, -10.0), (-10.0, 10.0)])
def test_adaptive_attacks_on_two_samples(place):
    rng = np.random.default_rng(0)
    clean = [rng.normal(size=(60, 4)), rng.normal(1.0, size=(60, 4))]
    full = CASES[case_of("Mann-Whitney, full grid", "normal", adversary="adaptive")]
    hits, parts = attacked(full, clean, 12, place)
    for rows, hit, part, value in zip(clean, hits, parts, place, strict=True):
        check_hits(hit, np.sign(value) * np.array([rows[block].mean(axis=0) for block in part]))
    diagonal = CASES[case_of("Mann-Whitney, diagonal, median", "normal", adversary="adaptive")]
    hits, parts = attacked(diagonal, clean, 12, place)
    wins = np.array([(clean[0][x][:, None] <= clean[1][y]).mean(axis=(0, 1)) for x, y in zip(*parts, strict=True)])
    assert (hits[0] + hits[1]).max() == 1  # never two in the same pair of blocks
    both = np.argsort(np.sign(place[1]) * wins, axis=0)[:6]
    assert (np.take_along_axis(hits[0] + hits[1], both, axis=0) == 1).all()


def test_huber_hits_each_row_by_chance():
    case = CASES[case_of("Huber's model", "normal")]
    clean = np.random.default_rng(0).normal(size=(505, 200))
    (hit,), _ = attacked(case, [clean], 101, (1e6,), outliers=case.outliers)
    assert hit.sum(axis=0).mean() == pytest.approx(case.outliers, abs=0.6)
    assert hit.sum(axis=0).std() == pytest.approx(math.sqrt(case.outliers), rel=0.2)


def test_rows_to_classify_have_the_risks_they_should():
    rows = LOSSES[ROWS_TO_CLASSIFY](np.random.default_rng(0), (40_000, 1))[:, 0]
    np.testing.assert_allclose(losses_at(rows).mean(axis=0), risk_at(THRESHOLDS), atol=0.01)
    for place, loss in ((1e-9, 1.0), (-1e-9, 0.0)):
        assert (losses_at(np.array([place]))[0, 1:-1] == loss).all()


def test_two_points_at_the_radius_are_missed_as_often_as_allowed():
    for adversary in ("oblivious", "adaptive"):
        record = tried("median, finite variance", "two points", runs=3000, adversary=adversary)
        assert record["misses"] / record["runs"] == pytest.approx(0.1, abs=0.02)
    broken = tried("median, finite variance, broken on purpose", "two points", runs=1000)
    assert (broken["adversary"], broken["attack"]) == ("oblivious", "adaptive")
    assert broken["lowest miss rate"] > 0.3


def test_a_scale_from_the_rows_fails_where_most_blocks_miss_the_tail():
    record = tried("median, scale from the rows", "lognormal, σ = 2")
    assert record["provenance"] == "plug-in"
    assert record["lowest miss rate"] > 0.1
    assert record["share used"] > 1
    assert tried("median, scale from the rows", "normal")["misses"] == 0


def test_radii_are_the_librarys():
    known = tried("median, finite variance", "normal", adversary="adaptive", delta=0.01, runs=20)
    plan = ov.plan_blocks(500, ov.Contamination(10, "adaptive"), delta=0.01, assume=ov.FiniteVariance(1.0))
    expected = ov.certificate.radius(
        n_blocks=plan.n_blocks,
        n_corrupt=10,
        block_size=plan.block_size,
        delta=0.01,
        assume=ov.FiniteVariance(1.0),
        adversary="adaptive",
    )
    assert known["mean radius"] == pytest.approx(expected)
    assert (known["provenance"], known["delta"]) == ("certified", 0.01)


def test_the_papers_bounds_are_tried_in_their_range():
    few = tried("paper: mom, claim 1", "Student, 2.5 degrees", outliers=2, runs=20)
    assert (few["delta asked"], few["delta"], few["provenance"]) == (0.1, pytest.approx(0.1), "paper, certified")
    bound = paper.bound("mom", 1, n=500, n_outliers=2, delta=0.1)
    assert few["mean radius"] == pytest.approx(bound.radius)
    more = tried("paper: mom, claim 1", "Student, 2.5 degrees", outliers=10, runs=20)
    assert more["delta"] == pytest.approx(
        math.exp(paper.bound("mom", 1, n=500, n_outliers=10, delta=0.1).log_delta_range[1])
    )
    assert more["delta"] < 1e-3
    mean = tried("paper: mom, claim 3", "normal", runs=20)
    assert (mean["delta"], mean["coverage"], mean["misses"]) == (None, None, None)
    assert mean["mean absolute error"] < mean["mean radius"]


def test_the_interval_of_a_miss_rate():
    low, high = coverage._binomial_interval(0, 500)
    assert (low, high) == (0.0, pytest.approx(1 - 0.005 ** (1 / 500)))
    low, high = coverage._binomial_interval(50, 500)
    assert stats.binom.sf(49, 500, low) == pytest.approx(0.005, rel=1e-6)


def test_every_statement_of_the_paper_is_tried_or_listed():
    tried_ones = {case.stated["statement"] for case in CASES if case.stated is not None}
    with pytest.raises(ValueError, match="must be one of") as caught:
        paper.bound("none", n=1, n_outliers=0, delta=0.1)
    offered = set(str(caught.value).split("must be one of ")[1].replace("'", "").split(", "))
    assert tried_ones | set(coverage.UNTESTED) == offered


#: Public functions that hand on the certificate of another, or that give none.
HANDED_ON = {
    "GroupedBlockSummary.results": "BlockSummary.result",
    "Scan.difference": "difference",
    "Scan.u_statistic": "u_statistic",
    "Scan.variance": "u_statistic",
    "RobustAUCClassifier.certify": "certify_risk",
    "RobustClassifier.certify": "certify_risk",
    "RobustMetricLearner.certify": "certify_risk",
    "RobustRanker.certify": "certify_risk",
    "RobustRegressor.certify": "certify_risk",
    "certificate.log_failure": None,
    "metrics.robust_accuracy": "mean",
    "metrics.robust_auc": "u_statistic",
    "metrics.robust_concordance": "u_statistic",
    "metrics.robust_log_loss": "mean",
    "metrics.robust_mean_absolute_error": "mean",
    "metrics.robust_mean_squared_error": "mean",
}


def giving_certificates():
    """Name the public functions and methods that return an estimate with its certificate, or are radii themselves."""
    places = {"": ov, "metrics.": ov.metrics, "certificate.": ov.certificate, "tables.": tables}
    for prefix, place in places.items():
        names = getattr(place, "__all__", [name for name in vars(place) if name.startswith("robust_")])
        for name, value in ((name, getattr(place, name)) for name in names):
            if inspect.isclass(value):
                for method, function in inspect.getmembers(value, inspect.isfunction):
                    if not method.startswith("_") and returns_estimates(function):
                        yield f"{name}.{method}"
            elif inspect.isfunction(value) and (prefix == "certificate." or returns_estimates(value)):
                yield f"{prefix}{name}"


def returns_estimates(function):
    return "RobustEstimate" in str(inspect.signature(function).return_annotation)


def test_every_function_that_gives_a_certificate_is_tried():
    tried_ones = {case.function.split("(")[0] for case in CASES}
    assert {case.function for case in CASES} == set(TRIALS)
    given = set(giving_certificates()) - {"BlockSummary.concluded"}  # what `result` ends with
    assert given >= {"mean", "u_statistic", "difference", "certify_risk", "BlockSummary.result", "metrics.robust_auc"}
    assert given - tried_ones == set(HANDED_ON)
    assert {other for other in HANDED_ON.values() if other} <= tried_ones


def test_every_vote_assumption_and_adversary_is_tried():
    known = {kind.__name__ for kind in Assumption.__subclasses__() if kind.__module__.startswith("outvote")}
    tried_ones = {type(case.assume).__name__ for case in CASES if case.stated is None}
    assert tried_ones == {*known, "NoneType"}
    for vote in ("median", "soft", "clipped"):
        assert {type(case.assume).__name__ for case in CASES if case.vote == vote} == tried_ones
    for vote in get_args(VoteName):
        assert {case.adversary for case in CASES if case.vote == vote} >= set(get_args(Adversary))
    for kernel in ("variance", "gini", "mann-whitney"):
        ours = [case for case in CASES if case.kernel == kernel and case.function == "u_statistic" and not case.stated]
        assert {case.adversary for case in ours} == set(get_args(Adversary))
    grids = {case.options.get("grid", "full") for case in CASES if case.samples > 1}
    assert grids == {"full", "diagonal"}


@pytest.mark.parametrize(
    ("function", "options"),
    [
        ("mean", {"contamination": "auto"}),
        ("u_statistic", {"contamination": "auto"}),
        ("difference", {"contamination": "auto"}),
        ("mean", {"alternative": "less"}),
        ("mean", {"alternative": "greater"}),
        ("mean", {"simultaneous": True}),
        ("mean", {"remainder": "spread"}),
        ("difference", {"paired": True}),
        ("difference", {"relative": True}),
        ("certify_risk(vc_dim)", {"vc_dim": 1}),
    ],
)
def test_every_form_of_a_certificate_is_tried(function, options):
    assert any(case.function == function and options.items() <= dict(case.options).items() for case in CASES)


def test_clean_and_attacked_rows_are_tried_for_every_certificate(outcomes):
    table = outcomes["coverage"].tables["coverage"]
    tried_on = {}
    for row in table:
        tried_on.setdefault((row["certificate"], row["law"], row["adversary"], row["outliers"]), set()).add(
            row["attack"]
        )
    for (name, _, adversary, outliers), attacks in tried_on.items():
        broken = "broken on purpose" in name
        assert attacks == ({"adaptive"} if broken else {"none", adversary} if outliers else {"none"}), name


@pytest.mark.parametrize(
    ("certificate", "law", "where"),
    [
        ("Huber's model", "Student, 2.5 degrees", {}),
        ("contamination left open, interval", "Student, 2.5 degrees", {"adversary": "adaptive"}),
        ("contamination left open, levels", "Student, 2.5 degrees", {"adversary": "oblivious"}),
        ("risk of the best of five", "0-1 loss", {"adversary": "adaptive"}),
        ("risk of the best of a class", "rows to classify", {"adversary": "adaptive"}),
        ("risks of a class", "rows to classify", {"adversary": "oblivious"}),
        ("Gini, clipped, finite variance", "normal", {"adversary": "adaptive"}),
        ("Mann-Whitney, diagonal, clipped", "normal", {"adversary": "adaptive"}),
    ],
)
def test_a_radius_far_too_small_would_be_caught(monkeypatch, certificate, law, where):
    number = case_of(certificate, law, **where)
    trial = coverage.TRIALS[CASES[number].function]

    def shrunk(*asked):
        found = trial(*asked)
        return found._replace(reach=found.reach / 30)

    assert all(record["misses"] <= 3 for record in both_of(number))
    monkeypatch.setitem(coverage.TRIALS, CASES[number].function, shrunk)
    assert any(record["lowest miss rate"] > 0.1 for record in both_of(number))


def both_of(number, runs=30):
    return coverage.measure(np.random.default_rng(3), case=number, delta=0.1, runs=runs)


def test_ranges(outcomes):
    ranges = outcomes["coverage"].tables["coverage.ranges"]
    (row,) = [row for row in ranges if (row["statement"], row["claim"], row["outliers"]) == ("mom", 1, 50)]
    assert 10 ** row["log10 of the largest delta"] == pytest.approx(1.7e-18, rel=0.03)
    covered = column(ranges, "outliers", statement="mom", claim=1, **{"covers 0.05": True})
    assert covered.tolist() == [0, 1, 2, 3]


def test_coverage_verdicts_follow_the_table(outcomes, verdict):
    outcome = outcomes["coverage"]
    assert verdict("coverage", "every certified radius") == "holds"
    assert verdict("coverage", "a plug-in radius") == "holds in part"
    assert verdict("coverage", "every bound of the paper") == "holds"
    assert verdict("coverage", "the paper's bounds on an expected") == "holds"
    assert verdict("coverage", "the paper's bounds cover") == "does not hold"
    assert verdict("coverage", "the paper's bounds for learning") == "does not hold"
    bad = {"misses": 20, "lowest miss rate": 0.7}
    missed = changed(outcome, "coverage", lambda row: bad, certificate="soft, finite variance")
    assert verdict("coverage", "every certified radius", missed) == "holds in part"
    missed = changed(outcome, "coverage", lambda row: bad, certificate="paper: mou2, claim 1")
    assert verdict("coverage", "every bound of the paper", missed) == "holds in part"
    far = changed(outcome, "coverage", lambda row: {"mean absolute error": 1e9}, certificate="paper: mom, claim 3")
    assert verdict("coverage", "the paper's bounds on an expected", far) == "does not hold"
