"""Evidence that holds at every look: against its definition, and against the intervals for a fixed number of rows."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outvote.assumptions import Bounded, FiniteKurtosis, FiniteVariance, Proportion, SubGaussian
from outvote.votes.evidence import (
    EvidenceInterval,
    Sample,
    SortedRows,
    Tally,
    declared_interval,
    difference_interval,
    premise_interval,
)
from outvote.votes.evidence.e_values import log_e_of_difference, log_e_of_mean
from outvote.votes.evidence.running import (
    RateEvidence,
    rate_stakes,
    running_factors,
    running_interval,
    running_stakes,
    size_weights,
    sizes_near,
)
from outvote.votes.evidence.running_bounded import BoundedDifference, BoundedEvidence
from outvote.votes.evidence.running_rates import _Joint, log_evidence_of_rates, running_rates
from outvote.votes.terms import Terms

TERMS = Terms(math.log(0.05))
PRICE = TERMS.price


def width(found: EvidenceInterval) -> float:
    return found.high - found.low


def sample(rows, assume, sd=math.nan, n_plan=None):
    return Sample(rows, assume, sd, n_plan=n_plan)


def without_some(factors, m, least=None):
    """The least product of factors without at most m of them; an adaptive adversary is paid the least factor."""
    smallest = min(
        math.prod(np.delete(factors, gone))
        for k in range(m + 1)
        for gone in itertools.combinations(range(len(factors)), k)
    )
    return smallest * (1 if least is None else least**m)


class TestStakes:
    def test_weights_add_up_to_one(self):
        assert math.isclose(size_weights()[1].sum(), 1.0)
        for n_plan in (2, 50, 10_000, 10**9):
            assert math.isclose(sum(weight for weight, _ in running_stakes(n_plan, PRICE)), 1.0)

    def test_only_sizes_near_the_number_of_rows_count(self):
        assert {size for size, _ in sizes_near(0.25)} == {1.0, 0.25, 0.0625}
        assert sizes_near(1e-9) == sizes_near(2.0**-6)

    @pytest.mark.parametrize("assume", [None, FiniteVariance(1.0), SubGaussian(1.0), FiniteKurtosis(3.0, 1.0)])
    @pytest.mark.parametrize("adaptive", [False, True])
    @pytest.mark.parametrize("progress", [0.001, 0.3, 1.0, 50.0])
    def test_weights_of_factors_are_shares(self, assume, adaptive, progress):
        factors = running_factors(assume, progress, 1000, PRICE, adaptive=adaptive)
        assert 0 < sum(one.weight for one in factors) <= 1


class TestRates:
    @given(
        st.integers(0, 6), st.integers(0, 6), st.integers(0, 3), st.floats(0.01, 0.99), st.sampled_from([1, -1]),
        st.booleans(),
    )  # fmt: skip
    def test_evidence_is_the_least_product(self, n_ones, n_zeros, m, mu, sign, adaptive):
        m = min(m, n_ones + n_zeros)
        tally = Tally(n_zeros, n_ones, m, adaptive=adaptive)
        stakes, _ = rate_stakes(50, PRICE)
        x = np.repeat([0.0, 1.0], [n_zeros, n_ones])
        x = x if sign > 0 else 1 - x
        found = RateEvidence.of(tally, sign, stakes).logs(np.array([mu]))[:, 0]
        for stake, log in zip(stakes, found, strict=True):
            rate = min(stake / math.sqrt(mu * (1 - mu)), 0.95 / mu)
            least = 1 - rate * mu if adaptive else None
            expected = without_some(1 + rate * (x - mu), m, least)
            # An adaptive adversary is paid for every corrupt row, whether or not a row was dropped for it.
            assert log <= math.log(expected) + 1e-9
            if not adaptive or n_ones + n_zeros > m:
                assert log >= math.log(expected) - 1e-9

    @given(st.integers(0, 300), st.integers(1, 300), st.integers(0, 20))
    def test_evidence_falls_with_the_mean(self, n_ones, n_zeros, m):
        stakes, _ = rate_stakes(100, PRICE)
        logs = RateEvidence(n_ones, n_zeros, m, 0, stakes).logs(np.linspace(0.0, 1.0, 200)[1:])
        assert (np.diff(logs, axis=1) <= 1e-9).all()

    @pytest.mark.parametrize(("n", "p"), [(100, 0.5), (1000, 0.03), (100_000, 0.2), (50, 0.0), (50, 1.0)])
    @pytest.mark.parametrize("share", [0.0, 0.01])
    def test_ends_rule_out_what_they_should(self, n, p, share):
        ones, m = round(n * p), round(share * n)
        tally = Tally(n - ones, ones, m)
        found = running_interval(tally, Proportion(), math.nan, TERMS, n)
        assert 0 <= found.low <= p <= found.high <= 1
        one = sample(tally, Proportion(), n_plan=n)
        for end, sign in ((found.low, 1), (found.high, -1)):
            if 0 < end < 1:
                inside, outside = end + sign * 1e-6, end - sign * 1e-6
                assert log_e_of_mean(one, TERMS, outside, sign) >= PRICE > log_e_of_mean(one, TERMS, inside, sign)

    @given(
        st.integers(5, 60), st.integers(5, 60), st.floats(0, 1), st.floats(0, 1), st.integers(0, 4),
        st.floats(-0.6, 0.6), st.booleans(),
    )  # fmt: skip
    def test_joint_evidence_is_below_that_of_every_pair_of_rates(self, n_a, n_b, p, q, m, value, relative):
        a, b = (Tally(n - round(n * share), round(n * share), m) for n, share in ((n_a, p), (n_b, q)))
        value = math.exp(value) if relative else value
        joint = _Joint(a, b, (40.0, 60.0), PRICE, relative=relative)
        found = joint.least(value)
        for middle in np.linspace(0.01, 0.99, 23):
            for smaller in (value, value - 0.2 if not relative else value * 0.7):
                u, v = (
                    (middle / math.sqrt(smaller), middle * math.sqrt(smaller))
                    if relative
                    else (middle - smaller / 2, middle + smaller / 2)
                )
                if 0 < u < 1 and 0 < v < 1:
                    assert found <= self.evidence(a, b, u, v, middle) + 1e-9

    @staticmethod
    def evidence(a, b, u, v, middle):
        """The logarithm of the e-value against shares of ones u in a and v in b, from its definition."""
        multiples, weights = size_weights()
        stakes = [np.sqrt(2 * PRICE / multiples / (1 / 40 + 1 / 60)) / n for n in (40.0, 60.0)]
        total = []
        for j, weight in enumerate(weights):
            most = min(1 / math.sqrt(middle * (1 - middle)), 0.95 / max(stakes[0][j], stakes[1][j]))
            logs = 0.0
            for tally, mean, sign, stake in ((a, u, -1, stakes[0][j]), (b, v, 1, stakes[1][j])):
                up, down = np.log1p(sign * stake * most * (1 - mean)), np.log1p(-sign * stake * most * mean)
                counts = {1: (tally.n_ones, tally.n_zeros), -1: (tally.n_zeros, tally.n_ones)}[sign]
                gain, loss = (up, down) if sign > 0 else (down, up)
                logs += max(counts[0] - tally.n_corrupt, 0) * gain + counts[1] * loss
            total.append(math.log(0.9 * weight) + logs)
        for tally, mean, sign, n in ((a, u, -1, 40.0), (b, v, 1, 60.0)):
            stakes_alone, _ = rate_stakes(n, PRICE)
            at = mean if sign > 0 else 1 - mean
            alone = RateEvidence.of(tally, sign, stakes_alone).logs(np.array([at]))[:, 0]
            total += list(np.log(weights * 0.1 / 2) + alone)
        return float(np.logaddexp.reduce(total))

    @pytest.mark.parametrize("relative", [False, True])
    def test_ends_of_two_rates_agree_with_their_e_values(self, relative):
        a, b = Tally(9700, 300, 12), Tally(9500, 500, 12)
        found = running_rates(a, b, TERMS, (10_000, 10_000), relative=relative)
        truth = 500 / 300 - 1 if relative else 0.02
        assert found.low < truth < found.high
        if not relative:
            for end, sign in ((found.low, 1), (found.high, -1)):
                assert log_evidence_of_rates(a, b, TERMS, (10_000, 10_000), end, sign) >= PRICE - 1e-6
                beyond = log_evidence_of_rates(a, b, TERMS, (10_000, 10_000), end + sign * 1e-5, sign)
                assert beyond < PRICE

    def test_swapping_the_samples_turns_the_interval(self):
        a, b = Tally(970, 30, 2), Tally(900, 100, 5)
        there = running_rates(a, b, TERMS, (1000, 800))
        back = running_rates(b, a, TERMS, (800, 1000))
        assert math.isclose(there.low, -back.high, abs_tol=1e-6)
        assert math.isclose(there.high, -back.low, abs_tol=1e-6)

    def test_nothing_is_known_of_a_ratio_to_nothing(self):
        found = running_rates(Tally(100, 0, 0), Tally(90, 10, 0), TERMS, (100, 100), relative=True)
        assert found.high == math.inf
        assert found.low > -1


class TestBounded:
    @given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(0, 3), st.floats(0.02, 0.98))
    def test_evidence_is_at_most_the_least_product(self, values, m, mean):
        m = min(m, len(values) - 1)
        rows = SortedRows(np.sort(values), m)
        found = float(BoundedEvidence(rows, Bounded(0, 1), 50, PRICE).logs(np.array([mean]))[0])
        x = np.array(values)
        expected = sum(
            weight * without_some((1 + a * x) / (1 + a * mean), m) for weight, a in running_stakes(50, PRICE)
        )
        assert found <= math.log(expected) + 1e-9
        if not m or mean <= rows.smallest_dropped:
            assert found >= math.log(expected) - 1e-9

    def test_no_row_with_a_factor_below_one_is_dropped(self):
        # With a fixed number of rows the largest may be dropped whatever their factors are; here that would be wrong.
        rows = SortedRows(np.sort(np.r_[np.full(50, 0.2), np.full(50, 0.9)]), 60)
        found = running_interval(rows, Bounded(0, 1), math.nan, TERMS, 100)
        assert found.low <= 0.2

    @pytest.mark.parametrize("sign", [1, -1])
    def test_differences_are_below_every_product(self, sign):
        rng = np.random.default_rng(3)
        rows = [SortedRows(np.sort(rng.beta(*shape, size=n)), 3) for shape, n in (((2, 5), 200), ((3, 4), 300))]
        known = (Bounded(0, 1), Bounded(0, 1))
        joint = BoundedDifference(rows, known, (200, 300), PRICE, sign)
        for value in (-0.2, 0.0, 0.1, 0.3):
            found, least = joint.least(value), math.inf
            for u in np.linspace(0, 1, 101):
                sides = (rows[0].mirrored, rows[1]) if sign > 0 else (rows[0], rows[1].mirrored)
                at = ((-sign, -sign * u, 200), (sign, sign * (u + value), 300))
                total = 0.0
                for side, (turned, mean, n) in zip(sides, at, strict=True):
                    evidence = BoundedEvidence(side, Bounded(0, 1).scaled(turned), n, PRICE)
                    total += np.logaddexp(math.log(0.9) + float(evidence.logs(np.array([mean]))[0]), math.log(0.1))
                least = min(least, total)
            assert least - 0.5 <= found <= least + 1e-9


ROWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "student": lambda rng, n: rng.standard_t(5, size=n) / math.sqrt(5 / 3),
}


@pytest.mark.parametrize("law", ROWS)
@pytest.mark.parametrize("share", [0.0, 0.001, 0.01, 0.05])
@pytest.mark.parametrize("assume", [None, FiniteVariance(1.0)])
class TestWidths:
    """At the planned number of rows at most 1.1 times the interval for that number, at four times it 1.25."""

    @pytest.mark.parametrize(("times", "most"), [(1, 1.1), (4, 1.25)])
    def test_one_mean(self, law, share, assume, times, most):
        n = 2000 * times
        x = np.sort(ROWS[law](np.random.default_rng(1), n))
        rows = SortedRows(x, math.ceil(share * n))
        sd = 2 * rows.central_sd() if assume is None else math.nan
        fixed = premise_interval(rows, sd, TERMS) if assume is None else declared_interval(rows, assume, TERMS)
        assert width(running_interval(rows, assume, sd, TERMS, 2000)) <= most * width(fixed)

    @pytest.mark.parametrize(("times", "most"), [(1, 1.1), (4, 1.25)])
    def test_two_means(self, law, share, assume, times, most):
        n, rng = 1000 * times, np.random.default_rng(2)
        pair = []
        for _ in range(2):
            rows = SortedRows(np.sort(ROWS[law](rng, n)), math.ceil(share * n))
            pair.append(sample(rows, assume, 2 * rows.central_sd() if assume is None else 1.0))
        fixed = difference_interval(*pair, TERMS)
        found = difference_interval(*(replace(one, n_plan=1000.0) for one in pair), TERMS)
        assert width(found) <= most * width(fixed)


class TestEValues:
    @pytest.mark.parametrize("assume", [None, FiniteVariance(1.0), SubGaussian(1.0), Bounded(-9, 9)])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_they_reach_the_price_where_the_interval_ends(self, assume, sign):
        rows = SortedRows(np.sort(np.random.default_rng(5).normal(size=1500)), 15)
        sd = 2.0 if assume is None else 1.0
        one = sample(rows, assume, sd, 1500)
        found = running_interval(rows, assume, sd, TERMS, 1500)
        end = found.low if sign > 0 else found.high
        step = 0.03
        assert log_e_of_mean(one, TERMS, end - sign * step, sign) >= PRICE - 0.05
        assert log_e_of_mean(one, TERMS, end + sign * step, sign) < PRICE
        logs = [log_e_of_mean(one, TERMS, bound, sign) for bound in sign * np.linspace(-3, 0.1, 25)]
        assert (np.diff(logs) <= 1e-9).all()

    @pytest.mark.parametrize("assume", [None, FiniteVariance(1.0), Bounded(-9, 9)])
    @pytest.mark.parametrize("sign", [1, -1])
    @pytest.mark.parametrize("sizes", [(1500, 1000), (800, 1200)])
    def test_those_of_differences_do_too(self, assume, sign, sizes):
        rng = np.random.default_rng(6)
        pair = [
            sample(SortedRows(np.sort(rng.normal(size=n)), 5), assume, 2.0 if assume is None else 1.0, float(n))
            for n in sizes
        ]
        found = difference_interval(*pair, TERMS)
        end = found.low if sign > 0 else found.high
        assert log_e_of_difference(*pair, TERMS, end - sign * 0.06, sign) >= PRICE - 0.3
        assert log_e_of_difference(*pair, TERMS, end + sign * 0.06, sign) < PRICE

    def test_a_lift_is_a_difference_of_scaled_rows(self):
        rng = np.random.default_rng(7)
        a, b = (
            sample(SortedRows(np.sort(rng.exponential(scale, size=2000)), 4), FiniteVariance(2.0), 2.0, 2000.0)
            for scale in (1.0, 1.5)
        )
        scaled = replace(a, rows=a.rows.scaled(1.1), assume=FiniteVariance(2.2), sd=2.2)
        found = log_e_of_difference(a, b, TERMS, 0.0, 1, lift=0.1)
        assert math.isclose(found, log_e_of_difference(scaled, b, TERMS, 0.0, 1))
        assert log_e_of_difference(a, b, TERMS, 0.0, 1, lift=-1.0) == -math.inf

    def test_too_few_rows_say_nothing(self):
        rows = SortedRows(np.arange(3.0), 3)
        for assume in (None, FiniteVariance(1.0), Bounded(0, 9)):
            one = sample(rows, assume, 1.0, 100.0)
            assert log_e_of_mean(one, TERMS, 0.5, 1) == -math.inf
            assert log_e_of_difference(one, one, TERMS, 0.5, 1) <= 0
        found = running_interval(rows, FiniteVariance(1.0), math.nan, TERMS, 100)
        assert (found.low, found.high) == (-math.inf, math.inf)

    def test_rates_beyond_their_bounds(self):
        one = sample(Tally(50, 50, 0), Proportion(), n_plan=100.0)
        assert log_e_of_mean(one, TERMS, 1.5, 1) == -math.inf
        assert log_e_of_mean(one, TERMS, -0.5, 1) == math.inf
