"""The estimation experiments (ruin, rate, Mann-Whitney) and what they share: sizes, outliers, errors and slopes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from experiment_runs import changed, error, quick, verdict
from scipy import stats

import outvote as ov
from outvote import paper
from outvote.paper.experiments import estimation, get, mann_whitney, rate, ruin_mean, ruin_median, ruin_variance
from outvote.paper.experiments.base import Size, column
from outvote.paper.experiments.coverage_cases import CASES, WINS
from outvote.paper.experiments.running import run

NAMES = ("ruin-mean", "ruin-median", "ruin-variance", "mann-whitney", "rate", "coverage")


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


def test_sizes_outliers_and_blocks_have_known_values():
    assert estimation.sizes(Size(1)) == [100, 178, 316, 562, 1000, 1778, 3162, 5623, 10_000]
    assert estimation.sizes(Size(1, quick=True)) == [100, 316, 1000]
    assert [estimation.n_outliers(n) for n in (100, 1000, 10_000)] == [10, 32, 100]
    assert [estimation.harmonic(n) for n in (100, 1000, 10_000)] == [34, 121, 393]
    assert estimation.harmonic(1000, 50) == paper.block_count(1000, 50)[0]


def test_spoil_replaces_other_rows_in_each_column():
    clean = np.random.default_rng(0).normal(size=(50, 30))
    before = clean.copy()
    spoiled = estimation.corrupt(np.random.default_rng(1), clean, 7.0, 6)
    np.testing.assert_array_equal(clean, before)
    hit = spoiled == 7.0
    assert (hit.sum(axis=0) == 6).all()
    np.testing.assert_array_equal(spoiled[~hit], clean[~hit])
    assert len({tuple(np.flatnonzero(each)) for each in hit.T}) == 30
    assert hit.any(axis=1).all()


@pytest.mark.parametrize("n", [100, 3162])
def test_trimmed_mean_removes_every_outlier(n):
    for count in range(1, n // 4, max(1, n // 50)):
        rows = np.zeros((n, 1))
        rows[:count] = 1e6
        assert estimation.trimmed_mean(rows, count) == 0
        rows[count] = 1e6
        assert estimation.trimmed_mean(rows, count) > 0


def test_errors_of_several_pieces_are_averaged():
    one = estimation.errors(100, 1.0, {("a", "clean"): [1.0, 2.0], ("a", "corrupted"): [4.0, 4.0]})
    two = estimation.errors(100, 1.0, {("a", "clean"): [-3.0], ("a", "corrupted"): [4.0]})
    clean, spoiled = estimation.average([*one, *two])
    assert (clean["mean absolute error"], clean["runs"], clean["outliers"]) == (pytest.approx(5 / 3), 3, 0)
    assert clean["standard error"] == pytest.approx(np.std([0, 1, 4], ddof=1) / math.sqrt(3))
    assert (spoiled["mean absolute error"], spoiled["standard error"], spoiled["outliers"]) == (3.0, 0.0, 10)
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


# --- ruin ----------------------------------------------------------------------------------------


def test_ruin_mean_errors_have_known_values():
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


def test_ruin_mean_verdicts_follow_the_table():
    outcome = quick("ruin-mean")
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


def test_ruin_median_depends_on_the_parity_of_the_block_size():
    parity = quick("ruin-median").tables["ruin-median.parity"]
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


def test_ruin_median_errors_and_verdicts():
    outcome = quick("ruin-median")
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


def test_ruin_variance_errors_and_verdicts():
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


def test_plain_estimates_of_clean_rows_have_known_errors():
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


# --- the rate ------------------------------------------------------------------------------------


def test_error_is_that_of_one_block():
    rows = [row for row in quick("rate").tables["rate.errors"] if row["estimator"] == rate.MOM]
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


def test_slopes_and_verdicts():
    outcome = quick("rate")
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


# --- Mann-Whitney --------------------------------------------------------------------------------


def test_block_counts_follow_the_paper():
    assert pytest.approx(stats.norm.cdf(math.sqrt(0.5))) == mann_whitney.TRUTH == WINS
    table = quick("mann-whitney").tables["mann-whitney.blocks"]
    papers = {row["n"]: (row["blocks"], row["block size"]) for row in table if row["estimator"] == mann_whitney.PAPER}
    for n, (blocks, size) in papers.items():
        share = estimation.n_outliers(n) / n
        both = 2 * share - share**2
        assert blocks == math.ceil(math.sqrt(4 * both / (1 + 2 * both)) * n)
        assert size == n // blocks
    assert [size for _, size in papers.values()] == [1, 1, 2]


def test_mann_whitney_errors_have_known_values():
    outcome = quick("mann-whitney")
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


def test_mann_whitney_verdicts_follow_the_table():
    outcome = quick("mann-whitney")
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
