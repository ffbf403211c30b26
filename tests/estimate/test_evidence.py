"""Means by evidence: rows that are out of the way, contradictions, columns, one side."""

import math

import numpy as np
import pytest

import outvote as ov
from outvote.contamination import Contamination
from outvote.data.missing import ContradictionError, MoreCorruptRows
from outvote.votes import Terms
from outvote.votes.evidence import (
    Pairs,
    SortedRows,
    declared_interval,
    free_interval,
)
from outvote.votes.evidence.bounded import bounded_end
from outvote.votes.evidence.ends import lower_end
from outvote.votes.evidence.factors import factors_for

PRICE = math.log(20)
UNIT = ov.FiniteVariance(1.0)


def mean(x, m, assume=UNIT, adversary="oblivious", **settings):
    return ov.mean(x, contamination=Contamination(m, adversary), assume=assume, vote="evidence", **settings)


def ends(found):
    return np.array([found.interval.low, found.interval.high])


# --- means of rows that are out of the way ------------------------------------------------------------------


@pytest.mark.parametrize("m", [0, 3])
def test_rows_that_are_all_equal(m):
    for assume in (UNIT, ov.SubGaussian(1.0), ov.FiniteKurtosis(3.0, 1.0), ov.Bounded(0, 5)):
        found = mean(np.full(300, 2.5), m, assume)
        low, high = ends(found)
        assert found.estimate == pytest.approx(2.5)
        assert 2.3 < low < 2.5 < high < 2.7
    for assume in (None, ov.FiniteKurtosis(3.0)):  # which have no scale to read off
        found = mean(np.full(300, 2.5), m, assume)
        assert (found.estimate, found.certificate.provenance) == (2.5, "none")
        assert list(ends(found)) == [-math.inf, math.inf]
    assert "Proportion" in mean(np.full(300, 2.5), m, None).certificate.note
    assert ov.certificate.sigma_bounds(np.full(300, 2.0), m, kurtosis=3.0) == (0.0, np.inf)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_rows(n):
    x = np.linspace(0.1, 0.4, n)
    low, high = ends(mean(x, 0))
    assert -8 < low < x.min() <= x.max() < high < 8
    assert mean(x, 0, ov.FiniteKurtosis(3.0)).certificate.provenance == "none"
    low, high = ends(mean(x, 0, ov.Bounded(0, 1)))
    assert 0 <= low < x.min() <= x.max() < high <= 1


def test_fewer_rows_than_may_be_dropped_rule_nothing_out():
    factors = factors_for(UNIT, 6, PRICE, adaptive=False)
    assert lower_end(SortedRows(np.arange(3.0), 3), factors, PRICE) == (-math.inf, -math.inf)
    assert bounded_end(SortedRows(np.array([0.5, 0.6]), 2), 0.0, 1.0, PRICE) == 0.0
    rows, terms = SortedRows(np.arange(3.0), 3), Terms(math.log(0.05))
    found = declared_interval(rows, UNIT, terms)
    assert (found.low, found.high) == (-math.inf, math.inf)
    found = free_interval(rows, Pairs.of(np.arange(3.0), 3), ov.FiniteKurtosis(3.0), terms)
    assert (found.low, found.high, found.sd) == (-math.inf, math.inf, math.inf)


def test_rows_at_a_bound_leave_that_bound():
    assert bounded_end(SortedRows(np.zeros(50), 0), 0.0, 1.0, PRICE) == 0.0
    assert ends(mean(np.zeros(50), 1, ov.Bounded(0, 1)))[0] == 0.0
    assert ends(mean(np.ones(50), 1, ov.Bounded(0, 1)))[1] == 1.0


def test_missing_rows_are_left_out():
    x = np.random.default_rng(0).normal(size=300)
    spoiled = x.copy()
    spoiled[[3, 50]] = np.nan
    for assume in (UNIT, ov.FiniteKurtosis(3.0), None):
        found, without = mean(spoiled, 4, assume, nan_policy="omit"), mean(np.delete(x, [3, 50]), 4, assume)
        assert ends(found) == pytest.approx(ends(without))
        with pytest.raises(ValueError, match="NaN or infinite"):
            mean(spoiled, 4, assume)
    spoiled[0] = np.inf
    with pytest.raises(ValueError, match="not missing"):
        mean(spoiled, 4, nan_policy="omit")
    with pytest.raises(ValueError, match="is empty"):
        mean(np.full(5, np.nan), 1, nan_policy="omit")


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("assume", [UNIT, ov.FiniteKurtosis(3.0), ov.Bounded(-5, 5), None])
def test_rows_that_give_themselves_away_count_as_corrupt(assume, adversary):
    x = np.random.default_rng(0).normal(size=2000)
    spoiled = x.copy()
    spoiled[[3, 50, 70]] = [np.nan, np.inf, -np.inf]
    found = mean(spoiled, 6, assume, adversary, nan_policy="corrupt")
    low, high = ends(found)
    assert found.n_omitted == 3
    assert low < 0 < high
    if assume is UNIT and adversary == "oblivious":  # as without them, and three less to drop
        same = declared_interval(SortedRows(np.sort(x[np.isfinite(spoiled)]), 6, 3), UNIT, Terms(math.log(0.05)))
        assert [low, high] == pytest.approx([same.low, same.high])
    if adversary == "adaptive" and assume is not None:  # no narrower than if they had not: he is paid for all six
        fewer = ends(mean(spoiled[np.isfinite(spoiled)], 3, assume, adversary))
        assert high - low > fewer[1] - fewer[0]
    with pytest.raises(MoreCorruptRows, match="3 rows"):
        mean(spoiled, 2, assume, nan_policy="corrupt")


def test_rows_outside_the_bounds_are_corrupt_for_certain():
    rng = np.random.default_rng(0)
    x = rng.uniform(size=100)
    x[:3] = [7.0, -1.0, 1e300]
    found = mean(x, 3, ov.Bounded(0, 1))
    assert "3 rows of x lie outside the bounds" in found.detail
    terms = Terms(math.log(0.05))
    same = declared_interval(SortedRows(np.sort(x[3:]), 3, 3), ov.Bounded(0, 1), terms)
    assert ends(found) == pytest.approx([same.low, same.high])
    with pytest.raises(MoreCorruptRows, match=r"outside the bounds of Bounded.* in 3 rows"):
        mean(x, 2, ov.Bounded(0, 1))
    x[3] = np.nan
    assert mean(x, 4, ov.Bounded(0, 1), nan_policy="corrupt").n_omitted == 1
    with pytest.raises(MoreCorruptRows):
        mean(x, 3, ov.Bounded(0, 1), nan_policy="corrupt")


def test_a_suspiciously_narrow_interval_is_joined_with_a_sturdier_one():
    """The sd is 1.05 where 1 is declared, and far rows use up all that may be dropped; with 1.25 nothing is amiss."""
    x = 1.05 * np.random.default_rng(0).normal(size=10_000)
    x[:100] = 1e6
    narrow, honest = mean(x, 100), mean(x / 1.25, 100)
    assert ["sturdier" in one.plan.reason for one in (narrow, honest)] == [True, False]
    low, high = ends(narrow)
    assert low < 0 < high


@pytest.mark.parametrize("assume", [UNIT, ov.FiniteKurtosis(9.0), ov.Bounded(-9, 9), None])
def test_one_side_is_nearer_and_keeps_the_estimate(assume):
    x = np.random.default_rng(0).normal(size=1000)
    both, less, greater = (mean(x, 5, assume, alternative=side) for side in ("two-sided", "less", "greater"))
    open_end = 9.0 if isinstance(assume, ov.Bounded) else math.inf
    assert (less.low, greater.high) == (-open_end, open_end)
    assert both.low < greater.low < both.estimate < less.high < both.high
    for one in (less, greater):
        assert one.estimate == pytest.approx(both.estimate, abs=1e-9 if assume in (UNIT, ov.Bounded(-9, 9)) else 1e-3)


def test_columns_are_estimated_one_by_one():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3)) * [1.0, 2.0, 0.5]
    assumed = [UNIT, None, ov.Bounded(-9, 9)]
    found = mean(x, 4, assumed)
    for j, assume in enumerate(assumed):
        assert ends(found)[:, j] == pytest.approx(ends(mean(x[:, j], 4, assume)), rel=1e-9)
    assert found.certificate.provenance == "conditional"
    assert np.isfinite(found.certificate.premise_sd).tolist() == [False, True, False]
    spoiled = x.copy()
    spoiled[7, 1] = np.nan  # the whole row is corrupt
    omitted = mean(spoiled, 4, assumed, nan_policy="omit")
    assert ends(omitted) == pytest.approx(ends(mean(np.delete(x, 7, axis=0), 4, assumed)), rel=1e-9)
    counted = mean(spoiled, 4, None, nan_policy="corrupt")
    alone = np.where(np.arange(400) == 7, np.nan, x[:, 0])
    assert ends(counted)[:, 0] == pytest.approx(ends(mean(alone, 4, None, nan_policy="corrupt")), rel=1e-9)


def test_simultaneous_intervals_share_the_failure_probability():
    x = np.random.default_rng(0).normal(size=(400, 5))
    for assume in (UNIT, ov.FiniteKurtosis(5.0), ov.Bounded(-9, 9), None):
        together, each = mean(x, 4, assume, simultaneous=True), mean(x, 4, assume, confidence=1 - 0.05 / 5)
        assert ends(together) == pytest.approx(ends(each))
        assert np.all(np.diff(ends(together), axis=0) > np.diff(ends(mean(x, 4, assume)), axis=0))


@pytest.mark.parametrize(("kurtosis", "n", "m"), [(9.0, 100, 10), (18.1, 1000, 60), (30.0, 400, 10)])
def test_two_point_rows_of_exactly_this_kurtosis_are_not_contradicted(kurtosis, n, m):
    """Where at most m pairs differ, the squares that are kept are all 0: that is no evidence for a small sd."""
    p = (1 - np.sqrt(1 - 4 / (kurtosis + 3))) / 2
    refused = 0
    for seed in range(30):
        x = ((np.random.default_rng(seed).random(n) < p) - p) / np.sqrt(p * (1 - p))
        try:
            ov.mean(x, m, 0.8, ov.FiniteKurtosis(kurtosis))
        except ValueError:
            refused += 1
    assert refused <= 0.2 * 30 + 3 * np.sqrt(0.2 * 0.8 * 30)


@pytest.mark.parametrize("size", [1e-250, 1e160])
def test_rows_of_extreme_size_have_intervals_of_that_size(size):
    x = np.random.default_rng(0).exponential(size=150)
    for assume in (None, ov.FiniteKurtosis(9.0)):
        one, two = ov.mean(x, 2, assume=assume), ov.mean(x * size, 2, assume=assume)
        assert np.array(two.interval) / size == pytest.approx(np.array(one.interval), abs=0.02)
    y = 2.5 * x[::-1]
    one, two = ov.difference(x, y, 1), ov.difference(x * size, y * size, 1)
    assert np.array(two.interval) / size == pytest.approx(np.array(one.interval), abs=0.04)
    assert two.plain / size == pytest.approx(one.plain)
    assert two.certificate.premise_sd / size == pytest.approx(one.certificate.premise_sd, rel=0.05)
    if size > 1:
        one, two = ov.tolerance(x, y), ov.tolerance(x * size, y * size)
        assert two.rows == pytest.approx(one.rows, abs=2)
        assert two.deciding[:5] == one.deciding[:5]


@pytest.mark.parametrize("n", [50, 2000])
def test_with_no_corrupt_rows_the_narrowest_fixed_radius_is_taken(n):
    x = np.random.default_rng(0).normal(size=n)
    for assume in (ov.FiniteVariance(1.0), ov.SubGaussian(1.0), ov.FiniteKurtosis(3.0, sd=1.0)):
        best = min(ov.mean(x, 0, assume=assume, vote=vote, rng=0).radius for vote in ("soft", "clipped", "median"))
        assert ov.mean(x, 0, assume=assume).radius <= 1.02 * best


@pytest.mark.parametrize(("place", "most"), [(None, 0.24), (1e6, 0.13)])
def test_few_rows_with_five_percent_corrupt(place, most):
    """Single factors reach 0.229 and 0.125 here, and no mixture can do better than the best of its factors."""
    widths = []
    for seed in range(5):
        x = np.random.default_rng(seed).normal(size=500)
        if place is not None:
            x[:25] = place
        widths.append(mean(x, 25).radius)
    assert np.mean(widths) <= most


@pytest.mark.parametrize("n", [8000, 9000])
def test_the_estimate_lies_between_the_rows_however_many_there_are(n):
    rows = (np.arange(n) < 0.93 * n).astype(float)
    assert ov.mean(rows, 180, assume=ov.Bounded(-100, 10_001)).estimate == 1.0


@pytest.mark.parametrize("assume", [UNIT, ov.SubGaussian(1.0), ov.FiniteKurtosis(3.0, 1.0)])
def test_rows_that_spread_too_much_contradict_the_assumption(assume):
    x = np.random.default_rng(0).normal(size=300)
    for alternative in ("two-sided", "less", "greater"):
        for m, rows in ((0, np.r_[x, np.full(100, 1000.0)]), (3, 5 * x), (5, np.r_[x, np.full(100, 1000.0)])):
            with pytest.raises(ContradictionError, match="the rows contradict assume=") as caught:
                ov.mean(rows, m, assume=assume, alternative=alternative)
            assert repr(assume) in str(caught.value)
            assert isinstance(caught.value, ValueError)
            assert ov.mean(x, m, assume=assume, alternative=alternative).certificate.provenance == "certified"
    with pytest.raises(ContradictionError, match=r"kurtosis=1\.8"):
        mean(np.random.default_rng(0).standard_t(1.2, size=2000), 3, ov.FiniteKurtosis(1.8))
