"""The experiments that ruin the mean, the median and the variance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from experiment_runs import changed, error, quick, verdict
from scipy import stats

from outvote.paper.experiments import (
    estimation,
    get,
    mann_whitney,
    ruin_mean,
    ruin_median,
    ruin_variance,
)
from outvote.paper.experiments.running import run


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
