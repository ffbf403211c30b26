"""Differences of means that are adjusted by a covariate."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.estimate.adjusted import fit_slope

RHO = 0.7


def arms(rng, n, effect=0.3, rho=RHO, mean=10.0):
    """Values of both arms with sd 1, and what is known of the users from before, correlated with them by `rho`."""
    before = rng.normal(5.0, 1.0, size=(2, n))
    values = mean + rho * (before - 5.0) + math.sqrt(1 - rho * rho) * rng.normal(size=(2, n))
    values[1] += effect
    return values, before


def width(found):
    return found.interval.high - found.interval.low


@pytest.mark.parametrize("m", [0, 40])
@pytest.mark.parametrize("declared", [False, True])
def test_statistical_part_is_a_fifth_shorter_at_a_correlation_of_seven_tenths(m, declared):
    """The ceiling is 1 - √(1 - 0.49), 28.6 %; rows that are held out for the coefficient cost their part of it."""
    plain, fixed, held_out = [], [], []
    known = [ov.FiniteVariance(sd) if declared else None for sd in (1.0, math.sqrt(1 - RHO**2))]
    for seed in range(2):
        (a, b), before = arms(np.random.default_rng(seed), 10_000)
        found = [
            ov.difference(a, b, m, assume=known[0]),
            ov.difference(a, b, m, assume=known[1], covariate=tuple(before), coefficient=RHO),
            ov.difference(a, b, m, assume=known[1], covariate=tuple(before)),
        ]
        for widths, one in zip((plain, fixed, held_out), found, strict=True):
            widths.append(width(one))
            assert one.interval.low < 0.3 < one.interval.high
            assert one.certificate.provenance == ("certified" if declared else "conditional")
    assert 0.27 < 1 - np.mean(fixed) / np.mean(plain) < 0.31
    assert 0.20 < 1 - np.mean(held_out) / np.mean(plain) < 0.29


@settings(max_examples=5)
@given(seed=st.integers(0, 10**6), coefficient=st.floats(-3, 3))
def test_a_given_coefficient_is_a_difference_of_what_is_left(seed, coefficient):
    (a, b), (x, y) = arms(np.random.default_rng(seed), 60)
    found = ov.difference(a, b, 2, covariate=(x, y), coefficient=coefficient)
    left = ov.difference(a - coefficient * x, b - coefficient * y, 2)
    assert found.interval == pytest.approx(left.interval, rel=1e-9, abs=1e-9)
    assert found.statistic == "adjusted difference"


def test_the_result_says_what_it_rests_on():
    rng = np.random.default_rng(1)
    (a, b), before = arms(rng, 2000)
    (c, _), (z, _) = arms(rng, 500)
    told = [
        "value - 0.5·covariate. .* the coefficient was fixed before these rows existed",
        "corrupt rows among the 400 that were held out .* does not depend on the others",
        "the rows that the coefficient was fitted to are independent of these",
    ]
    for coefficient, words in zip((0.5, None, (z, c)), told, strict=True):
        found = ov.difference(a, b, 5, covariate=tuple(before), coefficient=coefficient)
        assert "if the arms were randomised" in found.certificate.note
        assert found.certificate.note in found.explain()
        assert re.search(words, found.certificate.note)
        assert found.certificate.premise.startswith("the sd of value - 0.")


def test_the_coefficient_does_not_depend_on_rows_that_are_compared():
    rng = np.random.default_rng(2)
    (a, b), (x, y) = arms(rng, 400)
    options = {"covariate": (x, y), "assume": ov.FiniteVariance(2.0)}
    found = ov.difference(a, b, 4, **options)
    # Moving a row that is compared moves the interval and not the coefficient; one that is held out, the other way.
    same = 0
    for i in range(20):
        changed = a.copy()
        changed[i] += 40.0
        same += ov.difference(changed, b, 4, **options).certificate.note == found.certificate.note
    assert 13 < same < 20
    assert found.plan.n_rows == (360, 360)
    assert found.plan.n_corrupt == (4, 4)
    assert ov.difference(a, b, 0.01, **options).plan.n_corrupt == (4, 4)  # of all rows, wherever they are


def test_corrupt_rows_do_not_ruin_the_coefficient():
    rng = np.random.default_rng(3)
    (a, b), (x, y) = arms(rng, 5000)
    places = rng.choice(5000, 50, replace=False)
    b[places[:25]], y[places[25:]] = 1e6, -1e6
    found = ov.difference(a, b, 50, covariate=(x, y))
    clean = ov.difference(a, b, 50)
    assert width(found) < 0.8 * width(clean)
    assert found.interval.low < 0.3 < found.interval.high


def test_slope_of_most_rows():
    rng = np.random.default_rng(4)
    x = np.where(rng.random(4000) < 0.8, 0.0, rng.exponential(size=4000))  # most users did nothing before
    y = 0.5 * x + rng.exponential(size=4000)
    assert fit_slope(x, y, 0.0) == pytest.approx(np.polyfit(x, y, 1)[0])
    far = y.copy()
    far[:40] = 1e9
    assert fit_slope(x, far, 0.01) == pytest.approx(0.5, abs=0.15)
    assert fit_slope(np.ones(50), y[:50], 0.0) == 0.0
    assert fit_slope(x[:2], y[:2], 0.0) == 0.0
    assert fit_slope(np.r_[x, math.nan], np.r_[y, 1.0], 0.0) == pytest.approx(fit_slope(x, y, 0.0))


@pytest.mark.parametrize(("alternative", "declared"), [("two-sided", False), ("less", True), ("greater", False)])
def test_lift_of_adjusted_values(alternative, declared):
    rng = np.random.default_rng(5)
    (a, b), before = arms(rng, 4000)
    assume = ov.FiniteVariance(0.72) if declared else None
    options = {"covariate": tuple(before), "coefficient": RHO, "alternative": alternative, "assume": assume}
    lift = ov.difference(a, b, 10, relative=True, **options)
    gap = ov.difference(a, b, 10, **options)
    assert lift.interval.low < 0.03 < lift.interval.high
    assert lift.statistic == "relative adjusted difference"
    for end, of_gap in zip(lift.interval, gap.interval, strict=True):
        assert math.isinf(end) == math.isinf(of_gap)
        assert math.isinf(end) or 10 * end == pytest.approx(of_gap, rel=0.12)
    # What is declared speaks of adjusted values, so the mean that divides has a premise of its own.
    assert lift.certificate.provenance == "conditional"
    assert "the sd of clean values of a is at most" in lift.certificate.premise
    near = ov.difference(a - 10, b - 10, 10, relative=True, **options)
    assert near.certificate.provenance == "none"
    assert "The mean of a may be 0" in near.certificate.note


def test_tolerance_and_sensitivity_of_adjusted_values():
    (a, b), before = arms(np.random.default_rng(6), 1500)
    known, fitted = ov.FiniteVariance(1.0), {"covariate": tuple(before)}
    options = fitted | {"coefficient": RHO}
    plain, found, held_out = (ov.tolerance(a, b, assume=known, **one) for one in ({}, options, fitted))
    assert found.rows >= plain.rows  # nothing is gained by rows that are known to spread less than they may
    assert ov.tolerance(a, b, assume=ov.FiniteVariance(0.72), **options).rows > 1.3 * plain.rows
    assert found.n_rows == held_out.n_rows == 3000
    kept = {i for s, i in held_out.deciding if s == 1}
    assert max(kept) >= 1350  # positions in the input, not among the rows that are left
    table = ov.sensitivity(a, b, levels=[0, 15], **options)
    assert table.statistic == "adjusted difference"


def test_what_does_not_go_with_a_covariate_is_refused():
    (a, b), before = arms(np.random.default_rng(7), 50)
    both = {"covariate": tuple(before)}
    for options, error, told in (
        ({"covariate": [1.0, 2.0, 3.0]}, TypeError, r"covariate must be a pair, \(before_a, before_b\), not list"),
        ({"covariate": ([1.0], [2.0])}, ValueError, "covariate of a has 1 rows, but a has 50: give one for each row"),
        ({"coefficient": 0.5}, ValueError, "coefficient=0.5 is that of a covariate"),
        (both | {"coefficient": math.inf}, ValueError, "coefficient=inf must be a finite number"),
        (both | {"coefficient": "half"}, TypeError, "coefficient='half' must be a number, or rows"),
        (both | {"coefficient": ([1.0], [1.0, 2.0])}, ValueError, r"shapes \(1,\) and \(2,\)"),
        (both | {"vote": "median"}, ValueError, "covariate goes by evidence"),
        (both | {"paired": True}, ValueError, "covariate goes by evidence, without paired"),
        (both | {"contamination": ov.Contamination(2, "adaptive")}, ValueError,
         "holds rows out to fit it, which proves nothing against an adversary who saw them"),
    ):  # fmt: skip
        with pytest.raises(error, match=told):
            ov.difference(a, b, **options)


def test_an_adversary_who_saw_the_rows_is_allowed_for_with_a_given_coefficient():
    (a, b), before = arms(np.random.default_rng(8), 1000)
    options = {"covariate": tuple(before), "coefficient": RHO}
    blind, seen = (ov.difference(a, b, ov.Contamination(5, who), **options) for who in ("oblivious", "adaptive"))
    assert width(seen) > width(blind)


def test_rows_without_a_number_do_not_choose_the_rows_that_are_held_out():
    rng = np.random.default_rng(4)
    before = rng.normal(size=(2, 400))
    values = 0.7 * before + rng.normal(size=(2, 400))
    before[:, :3] = 50.0
    options = {"contamination": 3, "covariate": tuple(before), "nan_policy": "omit", "assume": ov.FiniteVariance(2.0)}
    slopes = set()
    for n_missing in (0, 1, 3):
        gaps = values.copy()
        gaps[:, :n_missing] = np.nan
        slopes.add(ov.difference(*gaps, **options).certificate.note.split("·")[0])
    # The three corrupt rows are in no fold of these; who is missing elsewhere leaves the fold as it is.
    assert len(slopes) == 1


def test_missing_covariates_follow_the_nan_policy():
    (a, b), (x, y) = arms(np.random.default_rng(9), 300)
    x[0] = np.nan
    with pytest.raises(ValueError, match="a has NaN or infinite values in 1 of 300 rows"):
        ov.difference(a, b, 3, covariate=(x, y), coefficient=RHO)
    left = ov.difference(a, b, 3, covariate=(x, y), coefficient=RHO, nan_policy="omit")
    assert left.plan.n_rows == (299, 300)
    corrupt = ov.difference(a, b, 3, covariate=(x, y), coefficient=RHO, nan_policy="corrupt")
    assert corrupt.plan.n_rows == (300, 300)
    with pytest.raises(ValueError, match="too large for a float"):
        ov.difference(a * 1e307, b, 3, covariate=(np.full(300, 1e307), y), coefficient=-50.0)
