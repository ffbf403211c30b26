"""Scales from the rows: bounds on an sd against brute force, and the premise."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import outvote as ov
from outvote.certificate import sigma_bounds
from outvote.contamination import Contamination
from outvote.votes.evidence import (
    Pairs,
    central_sd,
    sigma_lower,
    sigma_upper,
)
from outvote.votes.evidence.kernel import STAKES
from outvote.votes.evidence.scale import Bets, paired_squares, upper_is_possible

PRICE = math.log(20)
CELL = 1.02
squares_of = st.lists(st.floats(0, 30), min_size=1, max_size=7).map(lambda x: np.sort(np.array(x)))


def least_sum(logs, n_dropped):
    """Add up the logarithms without those of up to `n_dropped` rows, so that as little as possible is left."""
    n_dropped = min(n_dropped, len(logs))
    subsets = itertools.chain.from_iterable(
        itertools.combinations(range(len(logs)), size) for size in range(n_dropped + 1)
    )
    return min(sum(logs) - sum(logs[i] for i in dropped) for dropped in subsets)


def log_mean(logs):
    return float(np.logaddexp.reduce(logs) - math.log(len(logs)))


def pairs_of(squares, m=0, *, found=0, adaptive=False):
    return Pairs(np.sort(np.asarray(squares, dtype=float)), m, found, len(squares), adaptive)


# --- the spread, and the lower bound ------------------------------------------------------------------------


@pytest.mark.parametrize("adaptive", [False, True])
@settings(max_examples=60, deadline=None)
@given(squares=squares_of, m=st.integers(0, 3))
def test_spread_drops_the_squares_that_leave_least(adaptive, squares, m):
    logs = []
    for t in STAKES:
        paid = m * math.log(1 - t) if adaptive else 0.0
        logs.append(least_sum(np.log(1 + t * (squares - 1)), m) + paid)
    assert pairs_of(squares, m, adaptive=adaptive).log_spread(1.0) == pytest.approx(log_mean(logs), abs=1e-9)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("m", [0, 2, 5])
def test_the_lower_bound_is_where_the_spread_stops_to_speak(m, adaptive):
    squares = np.random.default_rng(m).chisquare(1, size=300)
    low = sigma_lower(pairs_of(squares, m, adaptive=adaptive), PRICE)
    assert 0.5 < low < 1.2
    at = [pairs_of(squares, m, adaptive=adaptive).log_spread(low * c) for c in (0.999, 1.001)]
    assert at[0] >= PRICE > at[1]


def test_the_lower_bound_falls_with_what_may_be_corrupt_and_with_the_confidence():
    squares = np.random.default_rng(1).chisquare(1, size=300)
    by_count = [sigma_lower(pairs_of(squares, m), PRICE) for m in range(6)]
    assert all(b <= a for a, b in itertools.pairwise(by_count))
    assert sigma_lower(pairs_of(squares, 3, adaptive=True), PRICE) < by_count[3]
    assert sigma_lower(pairs_of(squares, 3), 2 * PRICE) < by_count[3]
    assert sigma_lower(pairs_of(squares, 3, found=2), PRICE) == by_count[1]  # those found are not there to be dropped


@pytest.mark.parametrize(
    ("squares", "m"), [([], 0), ([0.0, 0.0, 0.0], 0), ([0.0, 0.0, 5.0], 1), ([2.0], 1), ([np.inf] * 9, 1)]
)
def test_there_may_be_no_lower_bound(squares, m):
    assert sigma_lower(pairs_of(squares, m), PRICE) == 0.0


def test_few_rows_bound_an_sd_from_below_only_just():
    low = sigma_lower(pairs_of([1.0, 1.0]), PRICE)
    assert 0 < low < 0.5
    assert sigma_lower(pairs_of([1.0] * 40, 1, adaptive=True), 700.0) < low
    assert sigma_lower(pairs_of([1.0]), 700.0) == 0.0


@pytest.mark.parametrize("p", [0.05, 0.2, 0.5])
@pytest.mark.parametrize("place", [None, 0.0, 1e6])
def test_the_lower_bound_holds_for_two_point_laws_exactly(p, place):
    """All ways of eight clean rows; with a place, one of them is corrupt."""
    price, sd = math.log(5), math.sqrt(p * (1 - p))
    wrong = 0.0
    for clean in itertools.product([0.0, 1.0], repeat=8 if place is None else 7):
        rows = np.array(clean if place is None else [place, *clean])
        low = sigma_lower(Pairs.of(rows, 0 if place is None else 1), price)
        wrong += math.prod(p if one else 1 - p for one in clean) * (low > sd)
    assert wrong <= math.exp(-price)


# --- pairs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 1, 2, 7, 50])
def test_rows_are_paired_without_repetition(n):
    rows = 2.0 ** np.arange(n)
    squares, left_out = paired_squares(rows)
    assert len(squares) == n // 2
    assert left_out == 0
    assert list(squares) == sorted(squares)
    apart = {(a - b) ** 2 / 2: {a, b} for a, b in itertools.combinations(rows, 2)}
    used = [row for square in squares for row in apart[square]]
    assert len(used) == len(set(used))


def test_rows_that_give_themselves_away_do_not_decide_on_the_pairs():
    rows = np.random.default_rng(0).normal(size=101)
    spoiled = rows.copy()
    spoiled[[3, 50, 77]] = np.nan
    before, after = Pairs.of(rows, 5), Pairs.of(spoiled, 5, 3)
    assert set(after.squares) <= set(before.squares)
    assert len(before.squares) - 3 <= len(after.squares) < len(before.squares)
    assert (before.n_pairs, after.n_pairs) == (50, 50)
    assert (before.droppable, after.droppable) == (5, 2)
    assert Pairs.of(rows[:4], 3).droppable == 2


# --- the upper bound ----------------------------------------------------------------------------------------


def evidence_against(pairs, kurtosis, price, k):
    """Compute the evidence against the cell [v, 1.02·v], v = 1.02^k, from the formulas, over all ways to drop pairs."""
    bets = Bets.on(pairs, kurtosis, price)
    z, nu = bets.eta * (1 - pairs.squares / CELL**k), (kurtosis + 1) / 2
    logs = []
    for c, _ in bets.curves:
        norm = max(1 - bets.eta * (u - 1) + c * bets.eta**2 * ((nu + 1) * u**2 - 2 * u + 1) for u in (1, CELL))
        paid = pairs.n_corrupt * math.log((1 - 1 / (4 * c)) / norm) if pairs.adaptive else 0.0
        e = np.sort(np.log((1 + z + c * z**2) / norm))
        largest = e[len(e) - pairs.droppable :]
        logs.append(e.sum() - largest[largest > 0].sum() + paid)
    return log_mean(logs)


@pytest.mark.parametrize(("m", "adaptive"), [(0, False), (4, False), (4, True)])
@pytest.mark.parametrize("law", ["normal", "exponential", "with far rows"])
def test_all_cells_above_the_upper_bound_are_ruled_out_and_the_next_one_is_not(law, m, adaptive):
    rng = np.random.default_rng(2)
    x = rng.exponential(size=1500) if law == "exponential" else rng.normal(size=1500)
    x[: m if law == "with far rows" else 0] = 1e6
    pairs, kurtosis = Pairs.of(x, m, adaptive=adaptive), 9.0
    top = round(2 * math.log(sigma_upper(pairs, kurtosis, PRICE)) / math.log(CELL))
    against = [evidence_against(pairs, kurtosis, PRICE, k) for k in range(top - 1, top + 1500)]
    assert against[0] < PRICE
    assert min(against[1:]) >= PRICE - 1e-9


@pytest.mark.parametrize("adaptive", [False, True])
def test_equal_squares_are_all_of_the_spread(adaptive):
    """No square is larger than the variance may be, so that the search has to go up first."""
    pairs = pairs_of(np.ones(300), 2, adaptive=adaptive)
    high = sigma_upper(pairs, 3.0, PRICE)
    assert 1 < high < 2
    top = round(2 * math.log(high) / math.log(CELL))
    against = [evidence_against(pairs, 3.0, PRICE, k) for k in range(top - 1, top + 500)]
    assert against[0] < PRICE <= min(against[1:]) + 1e-9


@settings(max_examples=40, deadline=None)
@given(squares=squares_of, m=st.integers(0, 2), adaptive=st.booleans(), log_v=st.floats(-3, 3))
def test_evidence_against_a_cell_drops_the_pairs_that_leave_least(squares, m, adaptive, log_v):
    m = min(m, len(squares) - 1)
    pairs = Pairs(squares, m, 0, 400, adaptive)  # as if there were more, so that something can be ruled out
    bets = Bets.on(pairs, 3.0, 1.0)
    z = bets.eta * (1 - squares * math.exp(-log_v))
    for monotone in (False, True):
        logs = []
        for c, norm in bets.curves:
            at = np.maximum(z, -0.5 / c) if monotone else z
            paid = m * (math.log(1 - 0.25 / c) - norm) if adaptive else 0.0
            logs.append(least_sum(np.log(1 + at + c * at**2) - norm, m) + paid)
        assert bets.evidence(pairs.atoms(-pairs.squares[::-1]), log_v, monotone=monotone) == pytest.approx(
            log_mean(logs), abs=1e-9
        )


@pytest.mark.parametrize("kurtosis", [1.0, 3.0, 9.0, 50.0])
@pytest.mark.parametrize(("n", "m", "adaptive"), [(100, 0, False), (3000, 30, False), (3000, 30, True)])
def test_factors_for_the_upper_bound_do_not_pay_off(kurtosis, n, m, adaptive):
    """E(1 + z + cz²) over D with mean σ² = u·v and E D² ≤ (ν + 1)·σ⁴, at every u of a cell; and none is negative."""
    bets = Bets.on(Pairs(np.zeros(n), m, 0, n, adaptive), kurtosis, PRICE)
    if bets is None:
        return
    nu, eta = (kurtosis + 1) / 2, bets.eta
    for c, norm in bets.curves:
        assert c > 0.25
        for u in np.linspace(1, CELL, 21):
            expected = 1 + eta * (1 - u) + c * eta**2 * (1 - 2 * u + (nu + 1) * u**2)
            assert expected <= math.exp(norm) * (1 + 1e-12)


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("m", [0, 3, 20])
def test_whether_there_is_an_upper_bound_depends_on_the_numbers_alone(m, adaptive):
    rng = np.random.default_rng(0)
    seen = set()
    for n in (2, 20, 50, 200, 900):
        for kurtosis in (1.5, 9.0, 100.0):
            pairs = Pairs.of(rng.normal(size=n), min(m, (n - 1) // 2), adaptive=adaptive)
            possible = upper_is_possible(pairs, kurtosis, PRICE)
            seen.add(possible)
            if not possible:
                assert sigma_upper(pairs, kurtosis, PRICE) == math.inf
            else:  # with hardly any spread something is ruled out, and be it everything
                tiny = replace(pairs, squares=np.r_[np.zeros(len(pairs.squares) - 1), 1e-9])
                assert sigma_upper(tiny, kurtosis, PRICE) < math.inf
    assert seen == {False, True}


def test_the_upper_bound_is_infinite_with_as_many_corrupt_rows_as_pairs():
    assert sigma_upper(Pairs.of(np.arange(9.0), 4), 3.0, PRICE) == math.inf
    assert sigma_upper(Pairs(np.ones(3), 5, 2, 500), 3.0, PRICE) == math.inf


def test_rows_too_heavy_for_a_kurtosis_have_no_sd():
    x = np.random.default_rng(0).standard_t(1.2, size=2000)
    assert sigma_upper(Pairs.of(x, 3), 1.8, PRICE) == 0.0


# --- what the premise is made of ----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 30), m=st.integers(0, 12))
def test_central_sd_is_that_of_the_rows_nearest_the_median(seed, n, m):
    x = np.sort(np.random.default_rng(seed).standard_t(2, size=n))
    if m >= n:
        assert central_sd(x, m) == 0.0
        return
    middle = np.median(x)
    nearest = sorted(x, key=lambda one: abs(one - middle))[: n - m]
    if n - m > 1:  # with an even number of rows the two in the middle are equally near
        assert central_sd(x, m) == pytest.approx(np.std(nearest), rel=1e-9)
    assert central_sd(x * 4 + 1, m) == pytest.approx(4 * central_sd(x, m), rel=1e-6, abs=1e-12)


def test_central_sd_is_not_moved_by_far_rows():
    x = np.sort(np.random.default_rng(0).normal(size=1000))
    for far in (1e6, -1e6, 1e200):
        assert central_sd(np.sort(np.r_[x, np.full(10, far)]), 10) == pytest.approx(np.std(x), rel=0.02)


@pytest.mark.parametrize("assume", [None, ov.FiniteKurtosis(5.0)])
def test_doubled_rows_give_doubled_intervals(assume):
    x = np.random.default_rng(0).normal(size=1000) + 3
    low, high = np.array(ov.mean(x, 5, assume=assume, vote="evidence").interval)
    for power in (-40, 1, 3, 60):
        doubled = np.array(ov.mean(x * 2.0**power, 5, assume=assume, vote="evidence").interval)
        if assume is None:
            assert doubled == pytest.approx(2.0**power * np.array([low, high]), rel=1e-9)
        else:  # the cells of its upper bound do not double
            assert doubled == pytest.approx(2.0**power * np.array([low, high]), rel=0.01)


# --- the bounds that users see ------------------------------------------------------------------------------

LAWS = {
    "normal": (3.0, lambda rng, n: rng.normal(size=n)),
    "exponential": (9.0, lambda rng, n: rng.exponential(size=n)),
    "three points": (5.0, lambda rng, n: rng.choice([-1, 1], n) * (rng.random(n) < 0.2) * math.sqrt(5)),
}


@pytest.mark.parametrize("place", [0.0, 3.0, 1e6])
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("law", LAWS)
def test_sigma_bounds_cover(law, adversary, place):
    """Of 30 intervals with confidence 0.8 fewer than 13 are wrong, or chance was against them as once in 500 times."""
    kurtosis, draw = LAWS[law]
    rng = np.random.default_rng(5)
    allowed, wrong = Contamination(5, adversary), 0
    for _ in range(30):
        x = draw(rng, 600)
        if adversary == "adaptive":  # the farthest rows go
            x = x[np.argsort(-np.abs(x - np.mean(x)))]
        x[:5] = place
        low, high = sigma_bounds(rng.permutation(x), allowed, confidence=0.8, kurtosis=kurtosis)
        wrong += not low <= 1 <= high
    assert wrong <= stats.binom.ppf(0.998, 30, 0.2)


@pytest.mark.parametrize("scale", [1e-9, 3.7, 1e9])
def test_sigma_bounds_scale_with_the_rows(scale):
    x = np.random.default_rng(0).normal(size=2000)
    low, high = sigma_bounds(x, contamination=5, kurtosis=3.0)
    scaled = sigma_bounds(scale * x + 5 * scale, contamination=5, kurtosis=3.0)
    assert scaled.low == pytest.approx(scale * low, rel=1e-6)
    assert scaled.high == pytest.approx(scale * high, rel=0.011)  # cells of variances do not move with the rows
    assert low < 1 < high


def test_sigma_bounds_without_a_kurtosis_have_no_upper_end():
    x = np.random.default_rng(0).normal(size=2000)
    low, high = sigma_bounds(x, contamination=5)
    assert high == math.inf
    assert sigma_bounds(x, contamination=5, kurtosis=3.0).low < low < 1  # all of δ, in place of half
    assert sigma_bounds([1.0, 1.0, 1.0], contamination=0) == (0.0, math.inf)


def test_sigma_bounds_refuse_what_they_cannot_use():
    x = np.random.default_rng(0).normal(size=100)
    with pytest.raises(ValueError, match="one column at a time"):
        sigma_bounds(x.reshape(50, 2))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="NaN or infinite"):
            sigma_bounds(np.r_[x, bad])
    with pytest.raises(ValueError, match="at least 1"):
        sigma_bounds(x, kurtosis=0.5)
    with pytest.raises(ValueError, match=r"contradict kurtosis=1\.8"):
        sigma_bounds(np.random.default_rng(0).standard_t(1.2, size=2000), contamination=3, kurtosis=1.8)


def test_squares_that_no_float_holds_rule_out_no_variance_as_large():
    squares = np.r_[np.linspace(1e300, 1e305, 60), [np.inf] * 4]
    pairs = Pairs(squares, n_corrupt=1, n_found=0, n_pairs=len(squares))
    assert sigma_upper(pairs, 9.0, PRICE) >= 1e150
