"""Exact intervals for differences and ratios of two proportions with corrupt rows."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest
from rate_coverage import largest_miss
from scipy import stats

import outvote as ov
from outvote.votes import Terms
from outvote.votes.evidence.proportion import Tally
from outvote.votes.evidence.rates import rates_interval
from outvote.votes.evidence.two_samples import apart

TERMS = Terms(math.log(0.05))


def tally(n, ones, m=0, adversary="oblivious"):
    return Tally(n - ones, ones, m, adaptive=adversary == "adaptive")


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("m", [0, 20])
def test_much_narrower_than_two_intervals_subtracted(m, relative):
    a, b = (ov.mean(np.arange(20_000) < ones, m, confidence=0.975).interval for ones in (600, 680))
    of_a, of_b = (ov.votes.evidence.EvidenceInterval.between(*one) for one in (a, b))
    subtracted = apart(of_a, of_b, "two-sided", relative=relative)
    found = rates_interval(tally(20_000, 600, m), tally(20_000, 680, m), TERMS, relative=relative)
    assert found.high - found.low < 0.73 * (subtracted.high - subtracted.low)
    assert subtracted.low < found.low < found.high < subtracted.high
    if m == 0 and not relative:  # hardly wider than the normal approximation
        assert found.high - found.low < 1.02 * 2 * 0.00345


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize(("counted", "m"), [("each", 1), ("together", 2)])
@pytest.mark.parametrize("relative", [False, True])
def test_miss_probability_is_at_most_delta_whatever_the_corrupt_rows_say(adversary, counted, m, relative):
    miss = largest_miss((6, 8), m, adversary, 0.8, counted=counted, relative=relative, shares=np.linspace(0, 1, 21))
    assert miss <= 0.2 + 1e-9


def test_oblivious_interval_is_wrong_against_an_adaptive_adversary():
    miss = largest_miss((14, 14), 3, "oblivious", 0.8, attacked_by="adaptive", shares=np.array([0.3, 0.5]))
    assert miss > 0.2


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("relative", [False, True])
def test_intervals_are_nested_in_the_number_of_corrupt_rows(adversary, relative):
    a, b = tally(300, 150, 0, adversary), tally(500, 270, 0, adversary)
    found = [rates_interval(a, b, TERMS, together=m, relative=relative) for m in range(0, 40, 3)]
    assert all(one.low >= two.low - 1e-4 and one.high <= two.high + 1e-4 for one, two in pairwise(found))


@pytest.mark.parametrize("relative", [False, True])
def test_an_end_agrees_with_whether_a_value_is_beyond_it(relative):
    a, b = tally(400, 40, 3), tally(300, 60, 3)
    found = rates_interval(a, b, TERMS, relative=relative)
    for only, end in ((1, found.low), (-1, found.high)):
        for shift in (-1e-3, 1e-3):
            clear = rates_interval(a, b, TERMS, relative=relative, only=only, beyond=end + shift)
            assert (clear.low if only > 0 else clear.high) == (-math.copysign(math.inf, shift))


@pytest.mark.parametrize("relative", [False, True])
def test_swapping_ones_and_zeros_or_the_samples_turns_the_interval_around(relative):
    a, b = tally(200, 30, 2), tally(150, 40, 4)
    there, back = (rates_interval(*pair, TERMS, relative=relative) for pair in ((a, b), (b, a)))
    if relative:
        assert (1 + there.low) * (1 + back.high) == pytest.approx(1, rel=1e-3)
        return
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low), abs=1e-4)
    turned = rates_interval(tally(200, 170, 2), tally(150, 110, 4), TERMS)
    assert (there.low, there.high) == pytest.approx((-turned.high, -turned.low), abs=1e-4)


def test_hardly_any_rows_and_extreme_numbers():
    for (n, k), (m, j), relative in product([(1, 0), (1, 1), (9, 0)], [(1, 0), (2, 2), (9, 9)], [False, True]):
        found = rates_interval(tally(n, k), tally(m, j), TERMS, relative=relative)
        assert -1 <= found.low <= found.high
        assert relative or found.high <= 1
    found = rates_interval(tally(5, 2, 5), tally(5, 2, 5), TERMS)
    assert (found.low, found.high) == (-1, 1)


def test_one_sided_bounds_use_all_of_delta():
    a, b = tally(500, 50, 2), tally(500, 70, 2)
    both = rates_interval(a, b, TERMS)
    less, greater = (rates_interval(a, b, Terms(TERMS.log_delta, alternative=one)) for one in ("less", "greater"))
    wide = rates_interval(a, b, Terms(math.log(0.1)))
    assert less.high == pytest.approx(wide.high, abs=1e-3)
    assert greater.low == pytest.approx(wide.low, abs=1e-3)
    assert (less.low, greater.high) == (-1, 1)
    assert less.estimate == greater.estimate == both.estimate


def test_tolerance_of_one_proportion_is_exact():
    x = np.arange(1000) % 10 == 0
    found = ov.tolerance(x, claim="mean > 0.05")
    clear = [stats.beta.ppf(0.05, 100 - t, 1000 - t - (100 - t) + 1) > 0.05 for t in range(100)]
    assert found.rows == clear.index(False) - 1
    assert len(found.deciding) == found.rows + 1
    assert all(x[i] for i in found.deciding)
    below = ov.tolerance(x, claim="mean < 0.15")
    assert not any(x[i] for i in below.deciding)


def test_tolerance_of_two_proportions_names_the_rows_that_decide():
    a, b = np.arange(3000) % 20 == 0, np.arange(3000) % 10 == 0
    found = ov.tolerance(a, b)
    assert found.claim == "difference > 0"
    assert len(found.deciding) == found.rows + 1
    assert all(sample == 1 and b[i] for sample, i in found.deciding)
    assert ov.difference(a, b, 0, confidence=0.95).interval.low > 0
    for m, stands in ((found.rows, True), (found.rows + 1, False)):
        one = rates_interval(tally(3000, 150), tally(3000, 300), TERMS, together=m)
        assert (one.low > 0) == stands
