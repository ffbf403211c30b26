"""Ends of what evidence leaves: every mean beyond is ruled out, and little more could be."""

import itertools
import math

import numpy as np
import pytest

from outvote import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.votes import Terms
from outvote.votes.evidence import SortedRows, central_sd, declared_interval, premise_interval
from outvote.votes.evidence.bounded import bounded_end, stakes_for
from outvote.votes.evidence.factors import factors_for
from outvote.votes.evidence.interval import scaled_interval

PRICE = math.log(40)


def samples():
    rng = np.random.default_rng(0)
    yield "normal", rng.normal(size=300), 3
    yield "few", rng.normal(size=9), 1
    yield "far", np.r_[rng.normal(size=290), np.full(10, 1e6)], 10
    yield "far below", np.r_[rng.normal(size=290), np.full(10, -1e6)], 10
    yield "lurking", np.r_[rng.normal(size=290), np.full(10, -4.0)], 10
    yield "two lumps", np.r_[np.full(3, 14.11), np.full(3, 7.06)], 1
    yield "ties", rng.integers(3, size=200).astype(float), 4
    yield "skewed", rng.lognormal(size=500) / 2.16, 5


@pytest.mark.parametrize(("x", "m"), [one[1:] for one in samples()], ids=[one[0] for one in samples()])
@pytest.mark.parametrize("assume", [FiniteVariance(1.0), FiniteKurtosis(9.0, 1.0), SubGaussian(1.0)])
@pytest.mark.parametrize("adaptive", [False, True])
def test_every_mean_below_the_end_is_ruled_out(x, m, assume, adaptive):
    rows = SortedRows(np.sort(x), m, adaptive=adaptive)
    factors = factors_for(assume, len(x), PRICE, adaptive=adaptive)
    end = scaled_interval(rows, factors, PRICE, 1.0, Terms(math.log(0.05))).low
    finite = min(end, float(x.max()) + 5)
    start = finite - 8.0
    below = np.concatenate([np.linspace(start, finite, 400, endpoint=False), start - np.geomspace(1e-3, 1e9, 100)])
    assert min(rows.log_evidence(factors, mean, mean) for mean in below) >= PRICE - 1e-9
    if math.isfinite(end):
        # Some mean a little above is not ruled out, or hardly.
        above = end + np.linspace(1e-6, 0.02 + 0.3 / math.sqrt(len(x)), 200)
        assert min(rows.log_evidence(factors, mean, mean) for mean in above) < PRICE


def test_the_set_that_is_left_need_not_be_an_interval():
    rows = SortedRows(np.sort(np.r_[np.full(3, 14.11), np.full(3, 7.06)]), 1)
    factors = factors_for(FiniteVariance(1.0), 6, PRICE, adaptive=False)
    ruled_out = [rows.log_evidence(factors, mean, mean) >= PRICE for mean in np.linspace(0, 30, 3000)]
    assert sum(np.diff(np.array(ruled_out).astype(int)) == -1) >= 1
    end = scaled_interval(rows, factors, PRICE, 1.0, Terms(math.log(0.05))).low
    first = np.linspace(0, 30, 3000)[np.flatnonzero(~np.array(ruled_out))]
    assert math.isinf(end) if not len(first) else end <= first[0] + 1e-9


def test_intervals_are_nested_in_the_number_of_corrupt_rows():
    rng = np.random.default_rng(1)
    for x in (rng.normal(size=400), np.r_[rng.normal(size=390), np.full(10, -4.0)], rng.lognormal(size=400)):
        for assume in (FiniteVariance(2.5), FiniteKurtosis(9.0, 2.5), SubGaussian(2.5)):
            for alternative in ("greater", "less"):
                terms = Terms(math.log(0.05), alternative=alternative)
                found = [declared_interval(SortedRows(np.sort(x), m), assume, terms) for m in range(0, 60, 4)]
                lows, highs = [one.low for one in found], [one.high for one in found]
                tiny = 1e-9
                assert all(b <= a + tiny for a, b in itertools.pairwise(lows))
                assert all(b >= a - tiny for a, b in itertools.pairwise(highs))


@pytest.mark.parametrize("adaptive", [False, True])
def test_bounded_end_is_the_root_of_its_evidence(adaptive):
    rng = np.random.default_rng(2)
    for x, m in ((rng.beta(2, 9, size=200), 4), (rng.integers(2, size=50).astype(float), 3), (np.ones(20), 1)):
        rows = SortedRows(np.sort(x), m, adaptive=adaptive)
        end = bounded_end(rows, 0.0, 1.0, PRICE)
        assert bet_on(x, m, end - 1e-6, adaptive) >= PRICE > bet_on(x, m, end + 1e-6, adaptive)


def bet_on(x, m, mean, adaptive):
    """Return the logarithm of the evidence that rows in [0, 1] have a larger mean, from its definition."""
    total = 0.0
    for weight, a in stakes_for(len(x), PRICE):
        e = np.sort((1 + a * x) / (1 + a * mean))[: len(x) - m]
        total += weight * np.prod(e) * ((1 + a * mean) ** -m if adaptive else 1.0)
    return math.log(total)


def test_bounded_rows_stay_within_their_bounds():
    found = declared_interval(SortedRows(np.ones(40), 2), Bounded(0.0, 1.0), Terms(math.log(0.05)))
    assert 0.8 < found.low < found.high <= 1.0
    few = declared_interval(SortedRows(np.array([0.3]), 0), Bounded(0.0, 1.0), Terms(math.log(0.05)))
    assert (few.low, few.high) == (0.0, 1.0)


def test_the_interval_is_never_wider_than_promised():
    from outvote.votes.evidence import promised_vote

    rng = np.random.default_rng(3)
    terms = Terms(math.log(0.05))
    for n, m in ((20, 2), (50, 10), (200, 50), (1000, 10)):
        promise = promised_vote(n, m, FiniteVariance(1.0), terms).radius
        for x in (rng.normal(size=n), rng.choice([-50.0, 50.0], size=n), np.linspace(-9, 9, n), rng.standard_cauchy(n)):
            found = declared_interval(SortedRows(np.sort(x), m), FiniteVariance(1.0), terms)
            assert found.empty or found.high - found.low <= 2 * promise * (1 + 1e-9)


@pytest.mark.parametrize("factor", [2.0, 0.5, 2.0**-60, 2.0**200, -4.0])
def test_doubled_rows_give_doubled_intervals(factor):
    x = np.random.default_rng(4).lognormal(size=700)
    terms = Terms(math.log(0.05))
    one, other = (SortedRows(np.sort(c * x), 7) for c in (1.0, factor))
    first = premise_interval(one, 2 * central_sd(one.values, 7), terms)
    second = premise_interval(other, 2 * central_sd(other.values, 7), terms)
    ends = sorted((first.low * factor, first.high * factor))
    assert [second.low, second.high] == pytest.approx(ends, rel=1e-8)


def test_shifted_rows_give_shifted_intervals():
    x = np.random.default_rng(5).exponential(size=700)
    terms = Terms(math.log(0.05))
    first, second = (premise_interval(SortedRows(np.sort(x + c), 7), 2.0, terms) for c in (0.0, 1e6))
    assert [second.low - 1e6, second.high - 1e6] == pytest.approx([first.low, first.high], abs=1e-7)


def test_central_sd_is_that_of_the_rows_nearest_the_median():
    rng = np.random.default_rng(6)
    for n, m in ((5, 1), (20, 4), (101, 30), (50, 0)):
        x = np.sort(rng.standard_t(2, size=n))
        nearest = x[np.argsort(np.abs(x - np.median(x)), kind="stable")[: n - m]]
        assert central_sd(x, m) == pytest.approx(nearest.std(), rel=1e-12)
