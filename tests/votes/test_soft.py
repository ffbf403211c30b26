"""The soft vote: its certified radius and its root, in exact arithmetic and for any votes."""

from __future__ import annotations

import decimal
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from outvote.votes.soft import SoftTuning, psi, soft_scale, soft_tuning, soft_vote, worst_mean_square

INF = math.inf
laws = settings(deadline=None, max_examples=60, derandomize=True, database=None)
TUNING = soft_tuning(1000, 50, log_delta=math.log(0.05))
TUNINGS = [
    soft_tuning(1000, 0, log_delta=math.log(0.01)),
    TUNING,
    soft_tuning(1000, 400, log_delta=math.log(0.01), adversary="oblivious"),
    soft_tuning(10**9, 10**7, log_delta=-690.0, adversary="adaptive"),
]


def reach_of(tuning: SoftTuning, sd: float = 1.0) -> float:
    return sd / (2 * tuning.c * tuning.a)


def rounding(values, tuning, sd=1.0) -> float:
    finite = np.abs(values)[np.isfinite(values)]
    return 1e-11 * (reach_of(tuning, sd) + (finite.max() if finite.size else 0.0))


# --- the radius -----------------------------------------------------------------------------------------

TABLE = {  # certificates.md §12: δ = .01, n = 1e3, 1e4, 1e5
    0.0: (0.103, 0.033, 0.010),
    0.01: (0.159, 0.118, 0.106),
    0.05: (0.294, 0.254, 0.241),
    0.1: (0.417, 0.373, 0.360),
    0.2: (0.658, 0.602, 0.585),
    0.4: (1.632, 1.479, 1.434),
}


@pytest.mark.parametrize("epsilon", TABLE)
def test_radius_equals_the_table_of_the_page(epsilon):
    for n, expected in zip((10**3, 10**4, 10**5), TABLE[epsilon], strict=True):
        radius = soft_tuning(n, round(epsilon * n), log_delta=math.log(0.01)).radius
        assert round(radius, 3) == expected
        limit = math.sqrt(epsilon / (1 - 2 * epsilon))
        assert radius >= limit


def test_radius_of_one_in_a_thousand():
    assert round(soft_tuning(10_000, 10, log_delta=math.log(0.01)).radius, 3) == 0.050


@pytest.mark.parametrize(("delta", "worst"), [(0.01, 1.0760), (0.05, 1.0632)])
def test_radius_is_within_ten_percent_of_the_limit(delta, worst):
    """√(ε/(1 - 2ε)) is what no estimator can beat, even with infinitely many rows."""
    n, bad = 10_000, np.arange(500, 4001, 5)
    radii = np.array([soft_tuning(n, int(b), log_delta=math.log(delta)).radius for b in bad])
    ratio = radii / np.sqrt(bad / n / (1 - 2 * bad / n))
    assert ratio.max() == pytest.approx(worst, abs=1e-4)
    assert ratio.argmax() == 0


def test_radius_without_outliers():
    tuning = soft_tuning(10**6, 0, log_delta=math.log(0.01))
    assert tuning.c == 0.5
    assert tuning.radius == pytest.approx(math.sqrt(2 * math.log(200) / 10**6), rel=1e-4)


def four_ce(c, n_clean, pulls, price):
    return -4 * c * np.expm1(-(price - pulls * np.log1p(-1 / (4 * c))) / n_clean)


@pytest.mark.parametrize("delta", [0.9, 0.1, 1e-6, 1e-300])
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("alternative", ["two-sided", "less"])
@pytest.mark.parametrize(
    ("n", "bad"),
    [(1, 0), (10, 1), (100, 0), (100, 49), (10**4, 100), (10**4, 4900), (10**9, 0), (10**9, 1), (10**9, 10**8)],
)
def test_tuned_c_minimises_the_radius(n, bad, adversary, alternative, delta):
    tuning = soft_tuning(n, bad, log_delta=math.log(delta), adversary=adversary, alternative=alternative)
    n_clean, pulls = (n - bad, bad) if adversary == "oblivious" else (n, 2 * bad)
    price = math.log((2 if alternative == "two-sided" else 1) / delta)
    smallest = four_ce(np.geomspace(0.5, 1e8, 100_001), n_clean, pulls, price).min()
    if not smallest < 1:
        assert tuning.radius == INF
        assert math.isnan(tuning.a)
        assert math.isnan(tuning.c)
        return
    assert four_ce(tuning.c, n_clean, pulls, price) <= smallest * (1 + 1e-12)
    assert tuning.radius == pytest.approx(math.sqrt(smallest / (1 - smallest)), rel=1e-6)
    # The proof's condition, with room for rounding.
    r, a, c = tuning
    log_g = math.log1p(-a * r + c * a**2 * (1 + r**2))
    assert n_clean * log_g + price - pulls * math.log1p(-1 / (4 * c)) <= 0


def test_radius_at_the_limits():
    assert soft_tuning(100, 10, log_delta=0.0, alternative="less").radius == pytest.approx(math.sqrt(10 / 80))
    for n, bad in [(0, 0), (1, 1), (10, 5), (20, 8), (10, 11)]:
        assert soft_tuning(n, bad, log_delta=math.log(0.01)).radius == INF
    assert soft_tuning(3, 0, log_delta=-1e6).radius == INF


def test_radius_is_monotone():
    radii = [soft_tuning(1000, b, log_delta=-5.0).radius for b in range(0, 460, 5)]
    assert np.all(np.diff(radii) > 0)
    adaptive = soft_tuning(1000, 100, log_delta=-5.0, adversary="adaptive").radius
    assert soft_tuning(1000, 100, log_delta=-5.0).radius < adaptive
    assert soft_tuning(1000, 100, log_delta=-5.0, alternative="less").radius < radii[20]
    assert soft_tuning(1000, 100, log_delta=-5.0 + math.log(2)).radius == pytest.approx(
        soft_tuning(1000, 100, log_delta=-5.0, alternative="greater").radius
    )


# --- ψ --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [0.5, 0.5001, 0.7, 1.0, 1.942, 3.0, 10.0, 100.0, 1e3, 1e4])
def test_psi_lies_between_the_two_logarithms(c):
    """-log(1 - x + cx²) ≤ ψ_c(x) ≤ log(1 + x + cx²), on which the proof rests."""
    edge = 1 / (2 * c)
    x = np.unique(np.concatenate([np.linspace(-4 * edge, 4 * edge, 200_001), np.geomspace(1e-12, 1e6, 2001) * edge]))
    value = psi(x, c)
    assert np.all(value >= -np.log1p(-x + c * x**2) - 1e-15)
    assert np.all(value <= np.log1p(x + c * x**2) + 1e-15)
    assert np.all(np.diff(value) >= -1e-16)
    assert np.array_equal(psi(-x, c), -value)
    assert np.abs(value).max() <= -math.log1p(-1 / (4 * c))
    assert psi([INF, -INF, 1e308], c) == pytest.approx(np.array([1, -1, 1]) * -math.log1p(-1 / (4 * c)))


def test_psi_equals_its_formula():
    x = np.linspace(0, 0.25, 1001)
    assert psi(x, 2.0) == pytest.approx(-np.log(1 - x + 2 * x**2), rel=1e-12, abs=1e-15)
    assert psi(1e-200, 2.0) == pytest.approx(1e-200)


# --- the root -------------------------------------------------------------------------------------------


def exact_root(values, sd, tuning) -> float:
    """Bisection with forty digits."""
    with decimal.localcontext() as context:
        context.prec = 40
        votes = [decimal.Decimal(float(v)) for v in values]
        a, c = decimal.Decimal(tuning.a) / decimal.Decimal(sd), decimal.Decimal(tuning.c)
        edge = 1 / (2 * c)

        def total(center):
            result = decimal.Decimal(0)
            for vote in votes:
                x = min(abs(a * (vote - center)), edge)
                result += -(1 - x + c * x * x).ln().copy_sign(center - vote)
            return result

        low, high = min(votes), max(votes)
        while high - low > decimal.Decimal("1e-20") * max(1, abs(low)):
            middle = (low + high) / 2
            low, high = (middle, high) if total(middle) > 0 else (low, middle)
        return float((low + high) / 2)


@pytest.mark.parametrize("tuning", TUNINGS, ids=lambda t: f"c={t.c:.3g}")
@pytest.mark.parametrize("spread", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("size", [3, 8, 15])
def test_root_against_decimal_bisection(tuning, spread, size):
    values = np.random.default_rng(size).standard_t(2, size) * spread * reach_of(tuning) + 0.3
    found, truth = soft_vote(values, 1.0, tuning), exact_root(values, 1.0, tuning)
    assert found == pytest.approx(truth, rel=1e-14, abs=1e-14 * reach_of(tuning))


@pytest.mark.parametrize("size", [4096, 4097, 50_000])
@pytest.mark.parametrize("tuning", TUNINGS, ids=lambda t: f"c={t.c:.3g}")
def test_root_of_many_votes(size, tuning):
    values = np.random.default_rng(size).pareto(2.5, size)
    values[: size // 3] = INF
    root = soft_vote(values, 1.0, tuning)
    gap = 1e-11 * (abs(root) + reach_of(tuning))
    signs = [np.sum(psi(tuning.a * (values - root + shift), tuning.c)) for shift in (gap, -gap)]
    assert signs[0] > 0 > signs[1]


@pytest.mark.parametrize("period", [16, 2])
def test_order_of_the_votes_does_not_matter(period):
    """Every sixteenth vote sets the start; here these are all outliers."""
    values = np.random.default_rng(0).standard_normal(20_000)
    values[:: 16 if period == 16 else 32] = 1e9
    shuffled = np.random.default_rng(1).permutation(values)
    assert soft_vote(values, 1.0, TUNING) == pytest.approx(soft_vote(shuffled, 1.0, TUNING), abs=1e-12)
    sorted_vote = soft_vote(np.sort(values), 1.0, TUNING)
    assert sorted_vote == pytest.approx(soft_vote(shuffled, 1.0, TUNING), abs=1e-12)


def test_root_of_a_flat_region_is_its_middle():
    apart = 10 * reach_of(TUNING)
    assert soft_vote([0.0, apart], 1.0, TUNING) == apart / 2
    assert soft_vote([0.0, 1.0, apart, apart + 9.0], 1.0, TUNING) == pytest.approx((1 + apart) / 2, rel=1e-15)
    many = np.repeat([0.0, apart], 5000)
    assert soft_vote(many, 1.0, TUNING) == apart / 2
    assert soft_vote(np.random.default_rng(0).permutation(many), 1.0, TUNING) == apart / 2


@pytest.mark.parametrize("value", [0.0, -3.7, 1e308, -1.7e308, 5e-324, INF, -INF])
@pytest.mark.parametrize("size", [1, 2, 7, 10_000])
def test_equal_votes_give_their_value(value, size):
    assert soft_vote(np.full(size, value), 1.0, TUNING) == value


def test_two_votes_give_their_mean():
    assert soft_vote([1.0, 2.0], 1.0, TUNING) == 1.5
    assert soft_vote([-1e308, 1e308], 1.0, TUNING) == 0.0
    assert soft_vote([1.6e308, 1.7e308], 1.0, TUNING) == pytest.approx(1.65e308)


def test_infinite_votes():
    good = [1.0, 1.1, 1.2, 1.3]
    root = soft_vote([*good, INF, INF, -INF], 1.0, TUNING)
    edge = reach_of(TUNING) + 9.0
    assert root == pytest.approx(soft_vote([*good, 1.2 + edge, 1e308, -edge], 1.0, TUNING), rel=1e-14)
    assert soft_vote([1.0, INF], 1.0, TUNING) == INF
    assert soft_vote([1.0, INF, INF], 1.0, TUNING) == INF
    assert soft_vote([1.0, -INF, -INF], 1.0, TUNING) == -INF
    assert soft_vote([2.0, -INF, INF], 1.0, TUNING) == 2.0
    assert math.isnan(soft_vote([-INF, INF], 1.0, TUNING))
    assert math.isnan(soft_vote([1.0, math.nan, 2.0], 1.0, TUNING))


def test_extreme_scales():
    values = np.array([-1e308, -9e307, 1.1e308, 1.2e308, 1.3e308, -INF])
    huge = soft_vote(values, 1e308, TUNING)
    assert huge == pytest.approx(1e308 * soft_vote(values / 1e308, 1.0, TUNING), rel=1e-12)
    small = np.array([1.0, 3.0, 4.0])
    tiny = soft_vote([*(small * 1e-300), 1e308], 1e-300, TUNING)
    assert tiny == pytest.approx(1e-300 * soft_vote([*small, 1e308], 1.0, TUNING), rel=1e-12)
    # A scale far below the spacing of the values: the middle one.
    assert soft_vote([1e16, 2e16, 3e16], 1e-200, TUNING) == 2e16
    assert soft_vote([1e16, 1e16, 2e16, 3e16, 3e16, 4e16, 4e16], 1e-200, TUNING) == 3e16


def test_votes_further_apart_than_their_reach_give_the_median():
    values = 1e16 + 2.0 * np.random.default_rng(0).permutation(9999)
    assert soft_vote(values, 1e-3, TUNING) == np.median(values)
    assert soft_vote(values, 1e-200, TUNING) == np.median(values)
    assert soft_vote(values[:-1], 1e-3, TUNING) == pytest.approx(np.median(values[:-1]), abs=2.0)


@pytest.mark.parametrize("power", [300, 305, 307, 308])
def test_votes_near_the_largest_float(power):
    values = np.array([-1.7, -1.6, -0.2, 0.9, 1.1, 1.7, INF])
    root = soft_vote(values * 10.0 ** (power - 1) * 10, 10.0**power / 10, TUNING)
    assert root == pytest.approx(10.0**power * soft_vote(values, 0.1, TUNING), rel=1e-12)


def test_missing_tuning_raises():
    with pytest.raises(ValueError, match="no certificate"):
        soft_vote([1.0], 1.0, SoftTuning(INF, math.nan, math.nan))
    with pytest.raises(ValueError, match="no certificate"):
        soft_vote([1.0], 1.0, SoftTuning(math.nan, math.nan, math.nan))


# --- properties -------------------------------------------------------------------------------------------

moderate = st.floats(-1e6, 1e6, allow_subnormal=False)
votes = st.lists(moderate, min_size=1, max_size=40).map(np.array)
anything = st.floats(-1.7e308, 1.7e308) | st.sampled_from([INF, -INF])
tunings = st.sampled_from(TUNINGS)
scales = st.floats(1e-3, 1e3)


@laws
@given(votes, tunings, scales, st.floats(-1e6, 1e6), st.floats(0.01, 100), st.sampled_from([1, -1]))
def test_vote_is_shift_and_scale_equivariant(values, tuning, sd, shift, factor, sign):
    moved = soft_vote(sign * factor * values + shift, factor * sd, tuning)
    tolerance = factor * rounding(values, tuning, sd) + 1e-11 * abs(shift)
    gap = np.diff(np.sort(values)[[(len(values) - 1) // 2, len(values) // 2]])[0] / reach_of(tuning, sd)
    assume(abs(gap - 2) > 1e-3)  # near the edge of a flat region rounding decides
    assert moved == pytest.approx(sign * factor * soft_vote(values, sd, tuning) + shift, abs=1e3 * tolerance)


@laws
@given(votes, tunings, scales, st.randoms(use_true_random=False))
def test_vote_is_permutation_invariant(values, tuning, sd, random):
    shuffled = values.copy()
    random.shuffle(shuffled)
    expected = soft_vote(values, sd, tuning)
    assert soft_vote(shuffled, sd, tuning) == pytest.approx(expected, abs=1e3 * rounding(values, tuning, sd))


@laws
@given(votes, tunings, scales, st.data())
def test_vote_is_monotone_in_every_value(values, tuning, sd, data):
    raised = values.copy()
    raised[data.draw(st.integers(0, len(values) - 1))] += data.draw(st.floats(0, 1e6) | st.just(INF))
    room = 1e3 * rounding(values, tuning, sd)
    assert soft_vote(raised, sd, tuning) >= soft_vote(values, sd, tuning) - room


@laws
@given(
    st.integers(1, 15).flatmap(lambda k: st.tuples(st.lists(moderate, min_size=k, max_size=k), st.just(k))),
    tunings,
    scales,
    st.data(),
)
def test_minority_moves_the_vote_by_one_reach_at_most(case, tuning, sd, data):
    """The root is within one reach, sd/(2ca), of the median, hence of the range of the other votes."""
    good, k = case
    bad = data.draw(st.lists(anything, max_size=k - 1))
    root = soft_vote(data.draw(st.permutations([*good, *bad])), sd, tuning)
    reach = reach_of(tuning, sd) * (1 + 1e-9) + 1e-9
    assert min(good) - reach <= root <= max(good) + reach


@laws
@given(st.lists(anything, min_size=1, max_size=20), tunings, st.floats(1e-300, 1e300))
def test_vote_of_any_floats_lies_between_them(values, tuning, sd):
    root = soft_vote(values, sd, tuning)
    if not (math.isnan(root) or math.isinf(root)):
        assert min(values) - 1e-300 <= root <= max(values) + 1e-300
    else:
        assert 2 * np.isinf(values).sum() >= len(values)


# --- unequal votes --------------------------------------------------------------------------------------


def test_scale_of_unequal_votes():
    sds = np.array([3.0, 1.0, 2.0, 1.0])
    assert worst_mean_square(sds, 2) == pytest.approx((9 + 4) / 2)
    assert worst_mean_square(sds, 2, "adaptive") == pytest.approx(15 / 4)
    assert worst_mean_square(sds, 9) == pytest.approx(9)
    assert soft_scale(sds * 1e200, 2) == pytest.approx(1e200 * math.sqrt(6.5))
    assert soft_scale(np.full(5, 0.3), 2) == pytest.approx(0.3)


@pytest.mark.parametrize("unit", [5e-324, 1e-320, 1e-310, 1.0])
def test_subnormal_votes_end(unit):
    tuning = soft_tuning(6, 1, log_delta=math.log(0.2))
    votes = np.array([1.0, 2.0, 2.0, 0.0, 20.0, 3.0]) * unit
    assert 0 <= soft_vote(votes, unit, tuning) <= 20 * unit
