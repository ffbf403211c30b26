"""The experiment on the rate of the error."""

from __future__ import annotations

import math

import pytest
from experiment_runs import changed, quick, verdict
from scipy import stats

import outvote as ov
from outvote import paper
from outvote.paper.experiments import (
    rate,
)
from outvote.paper.experiments.base import column


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
