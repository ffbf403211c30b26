"""The median of blocks: thresholds and certified radii, of equal and unequal blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from assumptions import ASSUMPTIONS, UNIT
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from outvote.assumptions.assumption import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.votes import (
    huber_radius,
    log_binomial_tail,
    median_radius,
    medians_of_counts,
    p_star,
    threshold,
    unequal_radius,
)


def median_is_off(values: np.ndarray) -> bool:
    return np.median(values) > 0.5


@pytest.mark.parametrize("n_blocks", range(1, 9))
def test_threshold_is_the_smallest_majority_of_clean_blocks(n_blocks):
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


def test_two_sided_radius_of_tiny_delta_equals_the_one_sided():
    """At tiny δ the joint radius equals the one-sided one."""
    one = median_radius(101, 20, 5, log_delta=-40.0, assume=UNIT, alternative="less")
    two = median_radius(101, 20, 5, log_delta=-40.0, assume=UNIT)
    assert float(two) == pytest.approx(float(one), rel=1e-8)


@given(
    k=st.integers(0, 200).map(lambda i: 2 * i + 1),
    n_bad=st.integers(0, 199),
    size=st.integers(1, 500),
    log_delta=st.floats(-600, -0.01),
    assume=st.sampled_from(ASSUMPTIONS),
)
def test_radius_is_monotone(k, n_bad, size, log_delta, assume):
    def r(bad=n_bad, ld=log_delta, b=size, **kwargs):
        return float(median_radius(k, bad, b, log_delta=ld, assume=assume, **kwargs))

    here, slack = r(), 1 + 1e-8
    assert here <= r(bad=n_bad + 1) * slack
    assert here <= r(ld=log_delta * 1.2) * slack
    assert r(b=2 * size) <= here * slack
    assert here <= r(adversary="adaptive") * slack
    assert r(alternative="less") <= here * slack
    assert math.isinf(here) == (k <= 2 * n_bad)
    variance = FiniteVariance(float(assume.tail(1).sd))
    assert here <= float(median_radius(k, n_bad, size, log_delta=log_delta, assume=variance)) * slack


@given(factor=st.floats(1e-6, 1e6), k=st.integers(1, 99), size=st.integers(1, 50), log_delta=st.floats(-300, -0.01))
def test_radius_is_scale_equivariant(factor, k, size, log_delta):
    unit, scaled = (
        float(median_radius(k, 0, size, log_delta=log_delta, assume=FiniteVariance(s))) for s in (1.0, factor)
    )
    assert scaled == pytest.approx(factor * unit, rel=1e-12)


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


def test_unequal_radius_of_equal_blocks_equals_the_median_radius():
    for k, n_bad in [(41, 10), (41, 20), (5, 2)]:
        for alternative in ("two-sided", "less"):
            kwargs = {"log_delta": math.log(0.05), "assume": UNIT, "alternative": alternative}
            unequal = unequal_radius(n_bad, [7] * k, **kwargs)
            assert unequal == pytest.approx(float(median_radius(k, n_bad, 7, **kwargs)), rel=1e-9)


@pytest.mark.parametrize("delta", [1e-12, 1e-40, 1e-300])
@pytest.mark.parametrize("n_bad", [10, 20])
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_unequal_radius_of_tiny_delta(n_bad, adversary, delta):
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


def test_one_larger_block_does_not_increase_the_radius():
    almost = unequal_radius(10, [24] * 40 + [25], log_delta=math.log(0.05), assume=UNIT)
    assert almost <= float(median_radius(41, 10, 24, log_delta=math.log(0.05), assume=UNIT))
    assert unequal_radius(21, [1] * 41, log_delta=-3.0, assume=UNIT) == math.inf


def test_unequal_radius_on_the_diagonal_and_in_hubers_model():
    sizes = ([3] * 10 + [4] * 11, [5] * 21)
    kwargs = {"log_delta": math.log(0.05), "assume": UNIT, "degrees": (1, 1)}
    r = unequal_radius(2, sizes, **kwargs)
    assert float(median_radius(21, 2, (4, 5), **kwargs)) <= r <= float(median_radius(21, 2, (3, 5), **kwargs))
    spoiled = unequal_radius(0, sizes, huber_rates=[0.01, 0.01], **kwargs)
    assert r < spoiled < math.inf
    assert unequal_radius(0, sizes, huber_rates=[0.2, 0.2], **kwargs) == math.inf


def test_huber_radius_equals_the_unequal_radius():
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
def test_unequal_radius_against_bisection(sizes, share, log_delta, assume, adversary, alternative, rate):
    n_bad = 0 if rate is not None else int(share * len(sizes))
    kwargs = {"log_delta": log_delta, "assume": assume, "adversary": adversary, "alternative": alternative}
    kwargs["huber_rates"] = None if rate is None else [rate]
    found = unequal_radius(n_bad, sizes, **kwargs)
    assert found == pytest.approx(halved_radius(n_bad, sizes, **kwargs), rel=1e-12, abs=0)


@pytest.mark.parametrize(
    "assume", [SubGaussian(1.0), Bounded(0, 1, variance=0.01), FiniteKurtosis(3.0, sd=1.0)], ids=str
)
@pytest.mark.parametrize("n_bad", [0, 1, 2])
def test_unequal_radius_grows_beyond_the_smallest_float(assume, n_bad):
    for log_delta in (-1500.0, -2000.0):
        small = unequal_radius(n_bad, [9, 10, 11, 12, 12], log_delta=log_delta, assume=assume)
        large = unequal_radius(n_bad, [9, 10, 11, 12, 12], log_delta=-600.0, assume=assume)
        assert small >= large * math.sqrt(log_delta / -600.0)


def test_radius_beyond_the_largest_float_is_infinite():
    assert unequal_radius(0, [1, 2], log_delta=-600.0, assume=FiniteVariance(1e300)) == math.inf
    assert unequal_radius(0, [1, 2], log_delta=-1e-17, assume=UNIT, alternative="less") < 1e-7


@settings(max_examples=200)
@given(
    counts=st.integers(1, 60).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 40), min_size=n, max_size=n), min_size=1, max_size=4)
    ),
    dtype=st.sampled_from([np.uint8, np.uint16, np.int64]),
)
def test_medians_of_counts(counts, dtype):
    values = np.array(counts, dtype=dtype)
    np.testing.assert_array_equal(medians_of_counts(values), np.median(counts, axis=1))
    grids = np.stack([values, values[:, ::-1]], axis=1)
    for layout in (grids, grids.swapaxes(1, 2), np.asfortranarray(grids)):
        np.testing.assert_array_equal(medians_of_counts(layout), np.median(layout, axis=(1, 2)))
