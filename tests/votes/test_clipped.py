"""The clipped vote: its certified radius and its root, in exact arithmetic and for any votes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from outvote.assumptions.assumption import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.votes.clipped import clipped_tuning, clipped_vote

INF = math.inf
laws = settings(deadline=None, max_examples=60, derandomize=True, database=None)
NORMAL = SubGaussian(1.0).tail(1)
LOG_DELTA = math.log(0.01)


# --- the radius -----------------------------------------------------------------------------------------


def stated_radius(n, bad, beyond):
    """Smallest fixed point of certificates.md §13 as it is written, over a grid of τ, for v = 1 and δ = .01."""
    price, n_clean = math.log(200), n - bad
    tau = np.geomspace(0.1, 50, 2001)
    base = (bad * tau + math.sqrt(2 * n_clean * price) + 2 / 3 * tau * price) / n_clean
    r = base
    for _ in range(500):
        r = np.where(r <= tau, base + beyond(np.maximum(tau - r, 0.0)), INF)
    return float(r.min())


@pytest.mark.parametrize(("bad", "stated"), [(10, 0.038), (100, 0.068), (500, 0.191)])
def test_radius_of_sub_gaussian_rows_beats_the_stated_one(bad, stated):
    """The sub-Gaussian tail ρ√(2π)Φ̄(u/ρ) gives the stated numbers; a sharper one and Bernstein's b beat them."""
    formula = stated_radius(10_000, bad, lambda u: math.sqrt(2 * math.pi) * ndtr(-u))
    assert round(formula, 3) == stated
    radius = clipped_tuning(10_000, bad, NORMAL, log_delta=LOG_DELTA).radius
    assert 0.85 * formula < radius < 0.98 * formula


@pytest.mark.parametrize("bad", [0, 100, 2000])
def test_radius_of_finite_variance_beats_the_stated_one(bad):
    formula = stated_radius(10_000, bad, lambda u: (np.sqrt(1 + u**2) - u) / 2)
    radius = clipped_tuning(10_000, bad, FiniteVariance(1.0).tail(1), log_delta=LOG_DELTA).radius
    assert 0.88 * formula < radius < formula


TAILS = {
    "variance": FiniteVariance(2.0).tail(4),
    "sub-gaussian": NORMAL,
    "bounded": Bounded(0, 1).tail(1),
    "bernstein": Bounded(0, 1, variance=0.01).tail(20),
    "kurtosis": FiniteKurtosis(4.0, sd=1.0).tail(3),
    "unequal": SubGaussian(1.0).tail(np.array([5, 6, 50])),
}


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS.keys())
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("alternative", ["two-sided", "less"])
@pytest.mark.parametrize(("n", "bad"), [(30, 0), (100, 5), (100, 40), (10**4, 20), (10**9, 10**4), (10**9, 0)])
def test_radius_satisfies_the_proof_and_tau_is_the_best(tail, n, bad, adversary, alternative):
    log_delta = math.log(0.05)
    n_clean, pulls = (n - bad, bad) if adversary == "oblivious" else (n, 2 * bad)
    price = math.log((2 if alternative == "two-sided" else 1) / 0.05)
    noise = float(tail.sd.max()) * math.sqrt(2 * n_clean * price)

    def holds(r, tau):
        beyond = float(tail.excess(tau - r).max())
        b = tau + min(tau, r + beyond)
        return n_clean * r >= pulls * tau + noise + b * price / 3 + n_clean * beyond

    radius, tau = clipped_tuning(n, bad, tail, log_delta=log_delta, adversary=adversary, alternative=alternative)
    if n_clean <= pulls + 2 / 3 * price:
        assert radius == INF
        assert math.isnan(tau)
        return
    assert holds(radius, tau)
    others = np.geomspace(0.01, 100, 500) * tau
    assert not any(holds(radius * (1 - 1e-5), other) for other in others)


def test_best_tau_is_below_the_radius_near_breakdown():
    """Near breakdown the best limit is below the radius, where §13 as written has no fixed point."""
    for bad in (400, 470):
        radius, tau = clipped_tuning(1000, bad, FiniteVariance(1.0).tail(1), log_delta=LOG_DELTA)
        assert tau < radius < INF


def test_radius_at_the_limits():
    for n, bad in [(0, 0), (1, 0), (10, 5), (20, 9), (10, 11)]:
        assert clipped_tuning(n, bad, NORMAL, log_delta=LOG_DELTA).radius == INF
    assert clipped_tuning(100, 0, NORMAL, log_delta=-690.0).radius == INF
    assert clipped_tuning(10**9, 0, NORMAL, log_delta=-690.0).radius == pytest.approx(
        math.sqrt(2 * (690 + math.log(2)) / 1e9), rel=0.01
    )


@given(factor=st.floats(1e-150, 1e150))
@laws
def test_radius_scales_with_the_tail(factor):
    tuning = clipped_tuning(500, 20, NORMAL, log_delta=LOG_DELTA)
    scaled = clipped_tuning(500, 20, SubGaussian(factor).tail(1), log_delta=LOG_DELTA)
    assert scaled == pytest.approx((factor * tuning.radius, factor * tuning.tau), rel=1e-9)


def test_unequal_votes_take_the_heaviest_tail():
    sizes = np.array([5, 6, 50])
    expected = clipped_tuning(90, 4, SubGaussian(1.0).tail(5), log_delta=LOG_DELTA)
    assert clipped_tuning(90, 4, SubGaussian(1.0).tail(sizes), log_delta=LOG_DELTA) == pytest.approx(expected)


# --- the root -------------------------------------------------------------------------------------------


def exact_root(values, tau) -> float:
    """Exact arithmetic: the piece of the function that crosses zero."""
    votes, limit = sorted(Fraction(float(v)) for v in values), Fraction(float(tau))

    def total(center):
        return sum(min(max(v - center, -limit), limit) for v in votes)

    knots = sorted({v + side for v in votes for side in (-limit, limit)})
    zero = [k for k in knots if total(k) == 0]
    if zero:
        return float((min(zero) + max(zero)) / 2)
    above = max(k for k in knots if total(k) > 0)
    below = min(k for k in knots if total(k) < 0)
    return float(above + (below - above) * total(above) / (total(above) - total(below)))


moderate = st.floats(-1e6, 1e6, allow_subnormal=False)
votes = st.lists(moderate, min_size=1, max_size=25).map(np.array)
anything = st.floats(-1.7e308, 1.7e308) | st.sampled_from([INF, -INF])
taus = st.floats(1e-3, 1e7)


def rounding(values, tau):
    return 1e-10 * (tau + np.abs(values).max())


def near_flat(values, tau):
    """Whether the two middle votes are so near 2τ apart that rounding decides between a point and a region."""
    low, high = np.sort(values)[[(len(values) - 1) // 2, len(values) // 2]]
    return abs((high - low) / tau - 2) < 1e-6


@laws
@given(votes, taus)
def test_root_against_exact_arithmetic(values, tau):
    assume(not near_flat(values, tau))
    assert clipped_vote(values, tau) == pytest.approx(exact_root(values, tau), abs=rounding(values, tau))


@pytest.mark.parametrize("size", [3, 10, 31])
@pytest.mark.parametrize("tau", [0.1, 1.0, 10.0])
def test_root_is_right_to_machine_precision(size, tau):
    values = np.random.default_rng(size).standard_t(2, size) + 0.3
    assert clipped_vote(values, tau) == pytest.approx(exact_root(values, tau), rel=1e-14, abs=1e-14 * tau)


@pytest.mark.parametrize("size", [4096, 4097, 50_000])
@pytest.mark.parametrize("tau", [0.01, 1.0, 100.0])
def test_root_of_many_votes(size, tau):
    values = np.random.default_rng(size).pareto(2.5, size)
    values[: size // 3] = INF
    root = clipped_vote(values, tau)
    gap = 1e-10 * (abs(root) + tau)
    above, below = (np.clip(values - root + shift, -tau, tau).sum() for shift in (gap, -gap))
    assert above > 0 > below


def test_large_tau_is_the_mean_and_small_tau_the_median():
    values = np.random.default_rng(0).standard_normal(1001)
    assert clipped_vote(values, 1e9) == pytest.approx(values.mean(), abs=1e-15)
    assert clipped_vote(values, 1e-12) == pytest.approx(np.median(values), abs=2e-12)


def test_root_of_a_flat_region_is_its_middle():
    assert clipped_vote([0.0, 10.0], 1.0) == 5.0
    assert clipped_vote([0.0, 1.0, 10.0, 90.0], 1.0) == 5.5
    assert clipped_vote(np.repeat([0.0, 10.0], 5000), 0.3) == 5.0


@pytest.mark.parametrize("value", [0.0, -3.7, 1e308, -1.7e308, 5e-324, INF, -INF])
@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_equal_votes_give_their_value(value, size):
    assert clipped_vote(np.full(size, value), 1.0) == value


def test_infinite_and_extreme_votes():
    assert clipped_vote([-1e308, 1e308], 1.0) == 0.0
    assert clipped_vote([-1e308, 1e308, 1.5e308], 1.7e308) == pytest.approx(5e307)
    assert clipped_vote([1.0, INF], 1.0) == INF
    assert clipped_vote([1.0, 1.0, -INF], 1.0) == 0.5
    assert clipped_vote([2.0, -INF, INF], 1.0) == 2.0
    assert math.isnan(clipped_vote([-INF, INF], 1.0))
    assert math.isnan(clipped_vote([1.0, math.nan, 2.0], 1.0))


def test_votes_further_apart_than_their_reach_give_the_median():
    values = 1e16 + 2.0 * np.random.default_rng(0).permutation(9999)
    assert clipped_vote(values, 1e-3) == np.median(values)
    assert clipped_vote(values, 1e-200) == np.median(values)


@pytest.mark.parametrize("tau", [0.3, 0.9, 1.7])
@pytest.mark.parametrize("power", [300, 305, 307, 308])
def test_votes_near_the_largest_float(power, tau):
    values = np.array([-1.7, -1.6, -0.2, 0.9, 1.1, 1.7, INF])
    root = clipped_vote(values * 10.0 ** (power - 1) * 10, tau * 10.0**power)
    assert root == pytest.approx(10.0**power * clipped_vote(values, tau), rel=1e-12)


@pytest.mark.parametrize("tau", [0.0, -1.0, math.nan, INF])
def test_invalid_tau_raises(tau):
    with pytest.raises(ValueError, match="tau="):
        clipped_vote([1.0, 2.0], tau)


# --- properties -------------------------------------------------------------------------------------------


@laws
@given(votes, taus, st.floats(-1e6, 1e6), st.floats(0.01, 100), st.sampled_from([1, -1]))
def test_vote_is_shift_and_scale_equivariant(values, tau, shift, factor, sign):
    assume(not near_flat(values, tau))
    moved = clipped_vote(sign * factor * values + shift, factor * tau)
    tolerance = 100 * (factor * rounding(values, tau) + 1e-10 * abs(shift))
    assert moved == pytest.approx(sign * factor * clipped_vote(values, tau) + shift, abs=tolerance)


@laws
@given(votes, taus, st.randoms(use_true_random=False))
def test_vote_is_permutation_invariant(values, tau, random):
    shuffled = values.copy()
    random.shuffle(shuffled)
    assert clipped_vote(shuffled, tau) == pytest.approx(clipped_vote(values, tau), abs=100 * rounding(values, tau))


@laws
@given(votes, taus, st.data())
def test_vote_is_monotone_in_every_value(values, tau, data):
    raised = values.copy()
    raised[data.draw(st.integers(0, len(values) - 1))] += data.draw(st.floats(0, 1e6) | st.just(INF))
    assert clipped_vote(raised, tau) >= clipped_vote(values, tau) - 100 * rounding(values, tau)


@laws
@given(st.lists(moderate, min_size=1, max_size=15), taus, st.data())
def test_minority_moves_the_vote_by_tau_at_most(good, tau, data):
    """The root is within τ of the median, hence of the range of the other votes."""
    bad = data.draw(st.lists(anything, max_size=len(good) - 1))
    root = clipped_vote(data.draw(st.permutations([*good, *bad])), tau)
    room = tau * (1 + 1e-9) + 1e-9
    assert min(good) - room <= root <= max(good) + room


@laws
@given(st.lists(anything, min_size=1, max_size=20), st.floats(1e-300, 1e300))
def test_vote_of_any_floats_lies_between_them(values, tau):
    root = clipped_vote(values, tau)
    if math.isfinite(root):
        assert min(values) - 1e-300 <= root <= max(values) + 1e-300
    else:
        assert 2 * np.isinf(values).sum() >= len(values)


@pytest.mark.parametrize("unit", [5e-324, 1e-320, 1e-310, 1.0])
def test_subnormal_votes_end(unit):
    votes = np.array([1.0, 2.0, 2.0, 0.0, 20.0]) * unit
    assert 0 <= clipped_vote(votes, unit) <= 20 * unit
    assert clipped_vote([1e-323, 1.5e-323, 1e-323, 2e-323, 1e308], 1e-323) <= 2e-323
