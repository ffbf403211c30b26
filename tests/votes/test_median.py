from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import betainc

from outvote import votes
from outvote.assumptions.assumption import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.votes import (
    best_n_blocks,
    grid_p_star,
    grid_radius,
    grid_threshold,
    huber_radius,
    log_binomial_tail,
    median_radius,
    p_star,
    sigma_free_factor,
    threshold,
    unequal_radius,
    variance_shortfall,
)
from outvote.votes.median import _first

UNIT = FiniteVariance(1.0)
ASSUMPTIONS = [
    UNIT,
    SubGaussian(1.0),
    Bounded(0, 1),
    Bounded(0, 1, variance=0.01),
    FiniteKurtosis(3.0, sd=1.0),
    FiniteKurtosis(20.0, sd=1.0),
]


def median_is_off(values: np.ndarray) -> bool:
    return np.median(values) > 0.5


@pytest.mark.parametrize("n_blocks", range(1, 9))
def test_threshold_is_where_the_median_gives_way(n_blocks):
    """Values 0 (fine) and 1 (off): the median exceeds 1/2 only with ⌈K/2⌉ of them, with even K at equality."""
    for n_bad in range(n_blocks):
        n_clean, n_needed = (int(a) for a in threshold(n_blocks, n_bad))
        assert n_clean == n_blocks - n_bad
        for off in range(n_clean + 1):
            values = np.array([1.0] * n_bad + [2.0] * off + [0.0] * (n_clean - off))
            if median_is_off(values):
                assert off >= n_needed
        assert threshold(n_blocks, n_bad, "adaptive")[0] == n_blocks
        assert (n_needed >= 1) == (n_blocks > 2 * n_bad)


@given(
    n=st.integers(1, 3000),
    share=st.floats(0, 1),
    log_delta=st.floats(-180, -1e-3),
)
def test_p_star_inverts_the_binomial_tail(n, share, log_delta):
    m = max(1, math.ceil(share * n))
    p = float(p_star(log_delta, n, m))
    assert stats.binom.logsf(m - 1, n, p) == pytest.approx(log_delta, rel=1e-6, abs=1e-8)


@given(n=st.integers(1, 10**9), share=st.floats(0, 1), log_delta=st.floats(-5000, -150))
def test_p_star_far_out(n, share, log_delta):
    """No reference works there: check against the first term of the tail, and that it decreases."""
    m = max(1, math.ceil(share * n))
    p, smaller = (float(p_star(ld, n, m)) for ld in (log_delta, log_delta - 1))
    assert 0 <= smaller <= p < 1
    if p > 1e-300 and n * share < 1e6:
        log_pmf = stats.binom.logpmf(m, n, p)
        assert log_pmf <= log_delta + 1e-5
        ratio = (n - m) * p / ((m + 1) * (1 - p))
        assert log_pmf - math.log1p(-ratio) >= log_delta - 1e-4 * (1 + abs(log_delta) * 1e-4)


def test_p_star_is_continuous_where_the_method_changes():
    for n, m in [(5, 2), (100, 1), (41, 21), (1000, 300), (10**6, 10**5), (10**9, 4 * 10**8)]:
        above, below = (float(p_star(votes.binomial.DEEP + step, n, m)) for step in (1e-6, -1e-6))
        assert below <= above
        assert below == pytest.approx(above, rel=2e-3 / m + 1e-5)


def test_p_star_values():
    assert float(p_star(math.log(0.05), 1, 1)) == pytest.approx(0.05)
    assert float(p_star(math.log(1e-300), 5, 2)) == pytest.approx(math.sqrt(1e-300 / 10))
    assert float(p_star(math.log(1e-300), 10**9, 1)) == pytest.approx(1e-309, rel=1e-6)
    assert p_star(-1.0, [5, 5], [0, -3]).tolist() == [0.0, 0.0]
    assert p_star(math.log(0.01), [3, 30], [2, 15]).shape == (2,)
    assert p_star(np.array([-1.0, -300.0]), 30, 15)[1] < 1e-8


@pytest.mark.parametrize(("n", "m"), [(5, 2), (400, 100), (3000, 1500)])
def test_log_binomial_tail(n, m):
    p = np.geomspace(1e-200, m / n, 50)
    ours = log_binomial_tail(p, n, m)
    first_term = stats.binom.logpmf(m, n, p)
    reference = np.where(first_term > -600, stats.binom.logsf(m - 1, n, p), first_term)
    assert ours == pytest.approx(reference, rel=1e-4, abs=1e-9)
    assert log_binomial_tail(0.0, n, m) == -np.inf


def joint_by_brute_force(delta: float, n: int, m: int) -> float:
    """Smallest u with F(1/(1+u)) + F(1/(u(1+u))) <= δ, by bisection on exact tails."""

    def failure(u):
        return stats.binom.sf(m - 1, n, 1 / (1 + u)) + stats.binom.sf(m - 1, n, 1 / (u * (1 + u)))

    low, high = max(1.0, n / (m - 1) - 1), 1e12
    if failure(low) <= delta:
        return low
    for _ in range(200):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if failure(middle) <= delta else (middle, high)
    return high


@pytest.mark.parametrize("delta", [0.3, 0.05, 0.01, 1e-6])
@pytest.mark.parametrize(("n_blocks", "n_bad"), [(1, 0), (3, 0), (5, 1), (9, 2), (21, 4), (41, 18), (101, 20)])
def test_two_sided_radius_is_the_smallest_of_three(n_blocks, n_bad, delta):
    n, m = (int(a) for a in threshold(n_blocks, n_bad))
    chebyshev = 1 / float(p_star(math.log(delta), n, m))
    cantelli = 1 / float(p_star(math.log(delta / 2), n, m)) - 1
    best = min(chebyshev, cantelli)
    if m >= 2:
        best = min(best, joint_by_brute_force(delta, n, m))
    r = float(median_radius(n_blocks, n_bad, 1, log_delta=math.log(delta), assume=UNIT))
    assert r == pytest.approx(math.sqrt(best), rel=1e-8)
    assert r >= math.sqrt(best)


def test_joint_radius_when_the_second_side_matters_nothing():
    """At tiny δ the joint radius equals the one-sided one."""
    one = median_radius(101, 20, 5, log_delta=-40.0, assume=UNIT, alternative="less")
    two = median_radius(101, 20, 5, log_delta=-40.0, assume=UNIT)
    assert float(two) == pytest.approx(float(one), rel=1e-8)


TABLE = {  # certified radius of the median, finite variance, σ = 1, δ = .01, best K
    0.0: (".651", ".206", ".065", ".0205"),
    0.01: (".792", ".426", ".325", ".296"),
    0.05: ("1.09", ".768", ".675", ".645"),
    0.1: ("1.37", "1.03", ".948", ".924"),
    0.2: ("1.71", "1.41", "1.33", "1.30"),
    0.4: ("3.56", "2.55", "2.33", "2.26"),
}


@pytest.mark.parametrize("epsilon", TABLE)
def test_table_of_the_median(epsilon):
    for n, printed in zip((100, 1000, 10_000, 100_000), TABLE[epsilon], strict=True):
        n_bad = round(epsilon * n)
        (k,) = best_n_blocks([n], [n_bad], log_delta=math.log(0.01), assume=UNIT)
        r = float(median_radius(k, n_bad, n // k, log_delta=math.log(0.01), assume=UNIT))
        digit = 10.0 ** -len(printed.split(".")[1])
        assert abs(r - float(printed)) <= 0.5 * digit + 1e-4, (epsilon, n, r)


@settings(max_examples=60)
@given(
    n=st.integers(1, 5000),
    share=st.floats(0, 0.499),
    log_delta=st.floats(-300, -0.1),
    degree=st.integers(1, 3),
    assume=st.sampled_from(ASSUMPTIONS),
    adversary=st.sampled_from(["oblivious", "adaptive"]),
    alternative=st.sampled_from(["two-sided", "less"]),
)
def test_search_matches_brute_force(n, share, log_delta, degree, assume, adversary, alternative):
    most = n // degree
    if most < 1:
        return
    n_bad = min(int(share * most), (most - 1) // 2)
    kwargs = {
        "log_delta": log_delta,
        "assume": assume,
        "degrees": (degree,),
        "adversary": adversary,
        "alternative": alternative,
    }
    every = np.arange(2 * n_bad + 1, most + 1, 2.0)
    radii = median_radius(every, n_bad, n // every, **kwargs)
    (k,) = best_n_blocks([n], [n_bad], **kwargs)
    assert k % 2 == 1
    assert float(median_radius(k, n_bad, n // k, **kwargs)) <= radii.min() * 1.001


@pytest.mark.parametrize("n", [20_000, 200_000])
@pytest.mark.parametrize("n_bad", [0, 7, 100, 2000])
@pytest.mark.parametrize("assume", ASSUMPTIONS, ids=repr)
def test_search_matches_brute_force_for_many_rows(n, n_bad, assume):
    every = np.arange(2 * n_bad + 1, min(n, 2 * n_bad + 12_001), 2.0)
    for log_delta in (math.log(0.05), math.log(1e-8)):
        radii = median_radius(every, n_bad, n // every, log_delta=log_delta, assume=assume)
        (k,) = best_n_blocks([n], [n_bad], log_delta=log_delta, assume=assume)
        best = median_radius(k, n_bad, n // k, log_delta=log_delta, assume=assume)
        assert float(best) <= radii.min() * 1.001


@pytest.mark.parametrize(("n_rows", "n_bad"), [((60, 90), (2, 5)), ((300, 40), (20, 0)), ((7, 9), (0, 0))])
@pytest.mark.parametrize("assume", [UNIT, Bounded(0, 1), FiniteKurtosis(9.0, sd=1.0)], ids=repr)
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_grid_search_matches_brute_force(n_rows, n_bad, assume, adversary):
    kwargs = {"log_delta": math.log(0.05), "assume": assume, "degrees": (1, 1), "adversary": adversary}
    mesh = np.meshgrid(*(np.arange(1.0, n + 1, 2) for n in n_rows), indexing="ij")
    radii = grid_radius(mesh, n_bad, tuple(n // k for n, k in zip(n_rows, mesh, strict=True)), **kwargs)
    ks = best_n_blocks(n_rows, n_bad, layout="full", **kwargs)
    sizes = tuple(n // k for n, k in zip(n_rows, ks, strict=True))
    assert all(k % 2 for k in ks)
    assert float(grid_radius(ks, n_bad, sizes, **kwargs)) <= radii.min() * 1.001


@settings(max_examples=40)
@given(
    n_rows=st.tuples(st.integers(2, 60), st.integers(2, 60)),
    shares=st.tuples(st.floats(0, 0.2), st.floats(0, 0.2)),
    log_delta=st.floats(-150, -0.3),
    degrees=st.sampled_from([(1, 1), (2, 1), (2, 2)]),
    assume=st.sampled_from([UNIT, Bounded(0, 1), Bounded(0, 1, variance=0.01), FiniteKurtosis(9.0, sd=1.0)]),
    alternative=st.sampled_from(["two-sided", "less"]),
)
def test_grid_search_tries_every_small_grid(n_rows, shares, log_delta, degrees, assume, alternative):
    most = [n // d for n, d in zip(n_rows, degrees, strict=True)]
    n_bad = [int(share * k) for share, k in zip(shares, most, strict=True)]
    kwargs = {"log_delta": log_delta, "assume": assume, "degrees": degrees, "alternative": alternative}
    mesh = np.meshgrid(*(np.arange(1.0, k + 1, 2) for k in most), indexing="ij")
    radii = grid_radius(mesh, n_bad, tuple(n // k for n, k in zip(n_rows, mesh, strict=True)), **kwargs)
    try:
        ks = best_n_blocks(n_rows, n_bad, layout="full", **kwargs)
    except ValueError:  # no clean majority of cells, or no room for one
        return
    sizes = tuple(n // k for n, k in zip(n_rows, ks, strict=True))
    assert float(grid_radius(ks, n_bad, sizes, **kwargs)) <= radii.min() * 1.005


def test_diagonal_search_matches_brute_force():
    n_rows, n_bad = (120, 500), (3, 8)
    kwargs = {"log_delta": math.log(0.05), "assume": UNIT, "degrees": (1, 2)}
    every = np.arange(23.0, 121, 2)
    radii = median_radius(every, 11, tuple(n // every for n in n_rows), **kwargs)
    ks = best_n_blocks(n_rows, n_bad, layout="diagonal", **kwargs)
    assert ks[0] == ks[1]
    best = median_radius(ks[0], 11, tuple(n // ks[0] for n in n_rows), **kwargs)
    assert float(best) <= radii.min() * 1.001


def test_three_sample_search():
    ks = best_n_blocks(
        (60, 80, 100), (1, 1, 1), layout="full", degrees=(1, 1, 1), log_delta=math.log(0.05), assume=UNIT
    )
    assert len(ks) == 3
    assert all(k % 2 for k in ks)


def test_sigma_free_search_matches_brute_force():
    n, n_bad = 3000, 10
    every = np.arange(21.0, n // 2, 2)
    factors, shares = sigma_free_factor(every, n_bad, n // every, log_delta=math.log(0.05), kurtosis=3.0)
    (k,) = best_n_blocks([n], [n_bad], log_delta=math.log(0.05), assume=FiniteKurtosis(3.0))
    factor, _ = sigma_free_factor(k, n_bad, n // k, log_delta=math.log(0.05), kurtosis=3.0)
    assert float(factor) <= factors.min() * 1.001
    assert set(np.unique(shares)) <= set(votes.scale.VARIANCE_SHARES)


def test_variance_shortfall_of_single_rows_is_infinite():
    assert variance_shortfall(11, 0, 1, log_delta=-3.0, kurtosis=3.0) == np.inf
    assert variance_shortfall(11, 6, 10, log_delta=-3.0, kurtosis=3.0) == np.inf
    assert sigma_free_factor(11, 0, 1, log_delta=-3.0, kurtosis=3.0)[0] == np.inf


def test_the_search_tries_few_candidates_however_many_rows(monkeypatch):
    tried = []

    def counting(n_blocks, *args, **kwargs):
        tried.append(np.size(n_blocks))
        return median_radius(n_blocks, *args, **kwargs)

    monkeypatch.setattr(votes.search, "median_radius", counting)
    for n_rows in (10**6, 10**9):
        for n_bad in (0, n_rows // 1000, n_rows // 3):
            tried.clear()
            best_n_blocks([n_rows], [n_bad], log_delta=math.log(0.01), assume=UNIT)
            assert sum(tried) <= 150


@pytest.mark.parametrize("n_bad", [0, 1000, 10**8, 499_999_000])
def test_a_billion_rows_and_tiny_delta(n_bad):
    n, log_delta = 10**9, math.log(1e-300)
    (k,) = best_n_blocks([n], [n_bad], log_delta=log_delta, assume=UNIT)
    r = float(median_radius(k, n_bad, n // k, log_delta=log_delta, assume=UNIT))
    assert math.isfinite(r)
    n_clean, n_needed = threshold(k, n_bad)
    one_sided = 1 / (1 + r**2 * (n // k))
    # One side fails with probability δ at most; the other adds at most as much.
    assert float(log_binomial_tail(one_sided, n_clean, n_needed)) <= log_delta * (1 - 1e-9)
    assert float(log_binomial_tail(one_sided, n_clean, n_needed)) >= log_delta * (1 + 1e-2)


@given(
    k=st.integers(0, 200).map(lambda i: 2 * i + 1),
    n_bad=st.integers(0, 199),
    size=st.integers(1, 500),
    log_delta=st.floats(-600, -0.01),
    assume=st.sampled_from(ASSUMPTIONS),
)
def test_monotone(k, n_bad, size, log_delta, assume):
    def r(bad=n_bad, ld=log_delta, b=size, **kwargs):
        return float(median_radius(k, bad, b, log_delta=ld, assume=assume, **kwargs))

    here, slack = r(), 1 + 1e-8
    assert here <= r(bad=n_bad + 1) * slack
    assert here <= r(ld=log_delta * 1.2) * slack
    assert r(b=2 * size) <= here * slack
    assert here <= r(adversary="adaptive") * slack
    assert r(alternative="less") <= here * slack
    assert math.isinf(here) == (k <= 2 * n_bad)
    variance = FiniteVariance(assume._kernel_sd())
    assert here <= float(median_radius(k, n_bad, size, log_delta=log_delta, assume=variance)) * slack


@settings(max_examples=50)
@given(n=st.integers(3, 10**6), count=st.integers(0, 50), log_delta=st.floats(-50, -0.1))
def test_more_rows_never_hurt(n, count, log_delta):
    if 2 * count + 1 > n:
        return

    def best(rows):
        (k,) = best_n_blocks([rows], [count], log_delta=log_delta, assume=UNIT)
        return float(median_radius(k, count, rows // k, log_delta=log_delta, assume=UNIT))

    assert best(2 * n) <= best(n) * 1.001


@given(factor=st.floats(1e-6, 1e6), k=st.integers(1, 99), size=st.integers(1, 50), log_delta=st.floats(-300, -0.01))
def test_scale_equivariant(factor, k, size, log_delta):
    unit, scaled = (
        float(median_radius(k, 0, size, log_delta=log_delta, assume=FiniteVariance(s))) for s in (1.0, factor)
    )
    assert scaled == pytest.approx(factor * unit, rel=1e-12)


# Unequal blocks.


def poisson_binomial_tail(p: np.ndarray, m: int) -> float:
    law = np.array([1.0])
    for q in p:
        law = np.append(law, 0) * (1 - q) + np.append(0, law) * q
    return float(law[m:].sum())


@pytest.mark.parametrize("delta", [0.3, 0.05, 1e-4])
@pytest.mark.parametrize("n_bad", [0, 3, 10, 20])
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("sizes", [[1] * 31 + [100] * 10, list(range(1, 42)), [5] * 20 + [6] * 21], ids=str)
def test_unequal_radius_against_the_exact_law(sizes, n_bad, adversary, delta):
    """One side: the exact failure probability with Cantelli's p for each of the blocks left."""
    t = unequal_radius(n_bad, sizes, log_delta=math.log(delta), assume=UNIT, adversary=adversary, alternative="greater")
    n, m = (int(a) for a in threshold(41, n_bad, adversary))
    p = 1 / (1 + t**2 * np.sort(sizes)[:n])
    assert poisson_binomial_tail(p, m) <= delta
    equal = median_radius(
        41, n_bad, min(sizes), log_delta=math.log(delta), assume=UNIT, adversary=adversary, alternative="greater"
    )
    assert t <= float(equal)


def test_unequal_radius_of_equal_blocks_is_the_equal_one():
    for k, n_bad in [(41, 10), (41, 20), (5, 2)]:
        for alternative in ("two-sided", "less"):
            kwargs = {"log_delta": math.log(0.05), "assume": UNIT, "alternative": alternative}
            unequal = unequal_radius(n_bad, [7] * k, **kwargs)
            assert unequal == pytest.approx(float(median_radius(k, n_bad, 7, **kwargs)), rel=1e-9)


@pytest.mark.parametrize("delta", [1e-12, 1e-40, 1e-300])
@pytest.mark.parametrize("n_bad", [10, 20])
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_unequal_radius_at_tiny_delta(n_bad, adversary, delta):
    """With the large blocks corrupt only single rows remain, and the equal radius is the right one."""
    sizes = [1] * (41 - n_bad) + [1000] * n_bad
    kwargs = {"log_delta": math.log(delta), "assume": UNIT, "alternative": "less"}
    right = float(median_radius(41, n_bad, 1, **kwargs))
    assert unequal_radius(n_bad, sizes, **kwargs) == pytest.approx(right, rel=1e-6)
    kwargs["adversary"] = adversary
    t = unequal_radius(n_bad, sizes, **kwargs)
    n, m = threshold(41, n_bad, adversary)
    p = np.sum(1 / (1 + t**2 * np.array(sizes[: int(n)]))) / n
    assert float(log_binomial_tail(p, n, m)) <= math.log(delta) * (1 - 1e-6)


def test_unequal_blocks_lose_little_to_equal_ones():
    almost = unequal_radius(10, [24] * 40 + [25], log_delta=math.log(0.05), assume=UNIT)
    assert almost <= float(median_radius(41, 10, 24, log_delta=math.log(0.05), assume=UNIT))
    assert unequal_radius(21, [1] * 41, log_delta=-3.0, assume=UNIT) == math.inf


def test_unequal_diagonal_and_huber():
    sizes = ([3] * 10 + [4] * 11, [5] * 21)
    kwargs = {"log_delta": math.log(0.05), "assume": UNIT, "degrees": (1, 1)}
    r = unequal_radius(2, sizes, **kwargs)
    assert float(median_radius(21, 2, (4, 5), **kwargs)) <= r <= float(median_radius(21, 2, (3, 5), **kwargs))
    spoiled = unequal_radius(0, sizes, huber_rates=[0.01, 0.01], **kwargs)
    assert r < spoiled < math.inf
    assert unequal_radius(0, sizes, huber_rates=[0.2, 0.2], **kwargs) == math.inf


def test_huber_radius_of_equal_blocks_agrees_with_unequal():
    kwargs = {"log_delta": math.log(0.05), "assume": UNIT, "alternative": "less"}
    equal = float(huber_radius(101, 10, huber_rates=[0.01], **kwargs))
    assert unequal_radius(0, [10] * 101, huber_rates=[0.01], **kwargs) == pytest.approx(equal, rel=1e-6)
    assert float(huber_radius(101, 10, huber_rates=[0.0], **kwargs)) == pytest.approx(
        float(median_radius(101, 0, 10, **kwargs)), rel=1e-9
    )
    assert float(huber_radius(101, 10, huber_rates=[0.1], **kwargs)) == math.inf


def halved_radius(n_bad, sizes, *, log_delta, assume, adversary, alternative, huber_rates=None):
    """The same block by block, halving all of the range there is, until nothing is left to halve."""
    sizes = np.array(sizes, dtype=float)
    n, m = (int(a) for a in threshold(len(sizes), n_bad, adversary))
    tail = assume.tail(sizes)
    untouched = (1 - huber_rates[0]) ** sizes if huber_rates else np.ones(len(sizes))

    def holds(t, log_d, sides):
        p = np.sort(1 - untouched + untouched * tail.tail_probability(t, sides=sides))[::-1][:n]
        if m == 1:
            with np.errstate(divide="ignore"):
                return np.log1p(-p).sum() >= np.log1p(-np.exp(log_d))
        return p.sum() <= n * min(float(p_star(log_d, n, m)), (m - 1) / n)

    def smallest(log_d, sides):
        low, high = math.log(tail.sd.max()) - 40, math.log(tail.sd.max()) + 345
        if not holds(math.exp(high), log_d, sides):
            return math.inf
        for _ in range(70):
            middle = (low + high) / 2
            low, high = (low, middle) if holds(math.exp(middle), log_d, sides) else (middle, high)
        return math.exp(high)

    if alternative == "two-sided":
        radius = min(smallest(log_delta, 2), smallest(log_delta - math.log(2), 1))
    else:
        radius = smallest(log_delta, 1)
    radius *= 1 + 1e-9 + 1e-16 * len(sizes)
    if huber_rates:
        return radius
    terms = {"log_delta": log_delta, "assume": assume, "adversary": adversary, "alternative": alternative}
    return min(radius, float(median_radius(len(sizes), n_bad, sizes.min(), **terms)))


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=25)
    | st.lists(st.integers(90, 110), min_size=1, max_size=25)
    | st.lists(st.sampled_from([1, 10**6]), min_size=3, max_size=25),
    share=st.floats(0, 0.499),
    log_delta=st.floats(-600, -0.01) | st.floats(-5, -1),
    assume=st.sampled_from([*ASSUMPTIONS, FiniteVariance(1e-90), Bounded(0, 1e90, variance=1e100)]),
    adversary=st.sampled_from(["oblivious", "adaptive"]),
    alternative=st.sampled_from(["two-sided", "less"]),
    rate=st.none() | st.floats(0, 0.05),
)
def test_unequal_radius_is_the_one_found_by_halving(sizes, share, log_delta, assume, adversary, alternative, rate):
    n_bad = 0 if rate is not None else int(share * len(sizes))
    kwargs = {"log_delta": log_delta, "assume": assume, "adversary": adversary, "alternative": alternative}
    kwargs["huber_rates"] = None if rate is None else [rate]
    found = unequal_radius(n_bad, sizes, **kwargs)
    assert found == pytest.approx(halved_radius(n_bad, sizes, **kwargs), rel=1e-12, abs=0)


@pytest.mark.parametrize(
    "assume", [SubGaussian(1.0), Bounded(0, 1, variance=0.01), FiniteKurtosis(3.0, sd=1.0)], ids=str
)
@pytest.mark.parametrize("n_bad", [0, 1, 2])
def test_probabilities_below_every_float_are_not_taken_for_zero(assume, n_bad):
    for log_delta in (-1500.0, -2000.0):
        small = unequal_radius(n_bad, [9, 10, 11, 12, 12], log_delta=log_delta, assume=assume)
        large = unequal_radius(n_bad, [9, 10, 11, 12, 12], log_delta=-600.0, assume=assume)
        assert small >= large * math.sqrt(log_delta / -600.0)


def test_a_radius_too_large_for_a_float_is_infinite():
    assert unequal_radius(0, [1, 2], log_delta=-600.0, assume=FiniteVariance(1e300)) == math.inf
    assert unequal_radius(0, [1, 2], log_delta=-1e-17, assume=UNIT, alternative="less") < 1e-7


@pytest.mark.parametrize(
    "excess",
    [
        lambda s: -s,
        lambda s: math.inf if s < 0 else -math.inf,
        lambda s: 1.0 if s < 0 else -1e-300,
        lambda s: 1e-9 if s < 0 else -1e9 * s,
        lambda s: 1 - math.exp(min(2 * s, 700.0)),
        lambda s: -math.expm1(60 * min(s, 10.0)),
        lambda s: -(s**9),
    ],
)
@pytest.mark.parametrize("guess", [(-1.0, 1.0), (0.0, 0.0), (-8.0, -7.0), (5.0, 9.0), (-99.0, 999.0)])
def test_the_end_of_a_search_is_on_the_safe_side(excess, guess):
    for at in (0.0, 3.7, -20.1, 330.3):
        found = _first(lambda s, at=at: excess(s - at), guess[0] + at, guess[1] + at, 345.0)
        assert excess(found - at) <= 0 < excess(found - 1.2e-13 - at)
    assert _first(lambda s: excess(s - 5), guess[0] + 5, guess[1] + 5, 4.9) == math.inf
    assert _first(lambda s: excess(s + 50), guess[0] - 50, guess[1] - 50, 9.0) == -40.0


# Complete grids.


def grid_failure(p: float, n: int, f: float) -> float:
    """min over c = i/N < f of E(Bin(N, p)/N - c)₊/(f - c), from the definition."""
    j = np.arange(n + 1)
    law = stats.binom.pmf(j, n, p)
    cuts = [i for i in range(n) if i < f * n]
    return min(float(law @ np.maximum(j - i, 0)) / (f * n - i) for i in cuts)


@settings(max_examples=80)
@given(n=st.integers(1, 150), f=st.floats(0.02, 0.5), log_delta=st.floats(-60, -0.05))
def test_grid_p_star_against_the_definition(n, f, log_delta):
    p = float(grid_p_star(log_delta, n, f))
    assert 0 < p <= f
    assert grid_failure(p, n, f) <= math.exp(log_delta) * (1 + 1e-6)
    if p < f * 0.999:
        assert grid_failure(p * 1.001, n, f) >= math.exp(log_delta)


@pytest.mark.parametrize("n", [1, 10, 1000, 10**6, 10**9])
def test_grid_p_star_far_out(n):
    values = [float(grid_p_star(ld, n, 0.3)) for ld in (-100.0, -199.9, -200.1, -690.0)]
    assert all(a >= b > 0 for a, b in itertools.pairwise(values))
    assert values[2] == pytest.approx(values[1], rel=0.3)
    if n == 1:
        assert values == pytest.approx([0.3 * math.exp(ld) for ld in (-100.0, -199.9, -200.1, -690.0)], rel=1e-6)


def test_grid_threshold():
    n, f = grid_threshold((11, 21), (1, 2))
    assert (int(n), float(f)) == (10, pytest.approx((116 - (231 - 190)) / 190))
    n, f = grid_threshold((11, 21), (1, 2), "adaptive")
    assert (int(n), float(f)) == (11, pytest.approx((116 - 41) / 231))
    assert grid_threshold((11, 11), (4, 4))[1] <= 0
    assert grid_threshold((3, 3), (4, 0))[1] == 0
    assert grid_p_star(-3.0, *grid_threshold((11, 11), (4, 4))) == 0


def test_grid_radius_of_a_single_pair_of_blocks():
    """One block each: P(cell off) <= p, f = 1, so p = δ."""
    r = grid_radius((1, 1), (0, 0), (50, 50), log_delta=math.log(0.05), assume=UNIT, degrees=(1, 1))
    assert float(r) == pytest.approx(min(1 / math.sqrt(0.05), math.sqrt(1 / 0.025 - 1)) / math.sqrt(50))


def test_grid_radius_is_monotone():
    kwargs = {"assume": UNIT, "degrees": (1, 1)}

    def r(bad=(2, 2), ld=-3.0, **more):
        return float(grid_radius((21, 31), bad, (10, 10), log_delta=ld, **kwargs, **more))

    assert r() <= r(bad=(3, 2)) <= r(bad=(3, 3)) <= r(bad=(3, 3), adversary="adaptive")
    assert r() <= r(ld=-4.0) <= r(ld=-250.0) < math.inf
    assert r(alternative="greater") <= r()
    assert r(bad=(10, 10)) == math.inf


def test_grid_failure_formula_uses_the_incomplete_beta():
    n, p, i = 30, 0.2, 9
    j = np.arange(n + 1)
    excess = n * p * betainc(i, n - i, p) - i * betainc(i + 1, n - i, p)
    assert excess == pytest.approx(float(stats.binom.pmf(j, n, p) @ np.maximum(j - i, 0)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: best_n_blocks([10], [5], log_delta=-3.0, assume=UNIT),
            r"n_corrupt=\(5,\) asks for 11 blocks.*at most 10 blocks.*the largest n_corrupt here is 4",
        ),
        (lambda: best_n_blocks([1], [0], degrees=(2,), log_delta=-3.0, assume=UNIT), r"largest n_corrupt here is 0"),
        (
            lambda: best_n_blocks((20, 20), (5, 5), degrees=(1, 1), layout="diagonal", log_delta=-3.0, assume=UNIT),
            r"asks for 21 blocks",
        ),
        (
            lambda: best_n_blocks((20, 20), (7, 7), degrees=(1, 1), layout="full", log_delta=-3.0, assume=UNIT),
            r"can corrupt half the cells",
        ),
        (
            lambda: huber_radius(11, 5, huber_rates=[0.1], log_delta=-3.0, assume=UNIT, adversary="adaptive"),
            r"in Huber's model",
        ),
        (lambda: best_n_blocks([20], [9], log_delta=-3.0, assume=FiniteKurtosis(3.0)), r"no number of blocks"),
        (
            lambda: best_n_blocks([20], [1], degrees=(2,), log_delta=-3.0, assume=FiniteKurtosis(3.0)),
            r"works for means only",
        ),
    ],
)
def test_search_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
