"""Coverage of the MMD and of its decision: exactly for two-point laws, simulated for others; wrong labels are caught.

What stands in corrupt rows may depend on everything; only their positions may not, if the adversary is oblivious: the
clean rows come first here, the corrupt ones after them, at the worst of several places.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from chance import assert_covers
from scipy import stats
from simulate import LONG, generator, runs

import outvote as ov
from outvote.contamination import Contamination

FAR = 1e3
WHERE = (0.0, FAR, 2 * FAR)


def estimate(a, b, counts, adversary="oblivious", delta=0.05, bandwidth=1.0):
    return ov.mmd(a, b, Contamination(counts, adversary), 1 - delta, bandwidth=bandwidth)


def misses(a, b, counts, truth, *terms):
    low, high = estimate(a, b, counts, *terms).interval
    return not low - 1e-12 <= truth <= high + 1e-12


# --- two-point laws, exactly: a row is at FAR with probability p in a and q in b -------------------------------


def left_alone(k, n, m, adversary):
    """Return how many of the rows that stay are at FAR, of k among n drawn: an adaptive adversary replaces some."""
    return (k,) if adversary == "oblivious" else tuple({max(k - m, 0), min(k, n - m)})


def exact_miss_rate(n, m, p, q, adversary, delta):
    """Return the probability that the interval misses the truth √2·|p - q|, if m rows of each are as bad as can be."""
    drawn, truth = n - m if adversary == "oblivious" else n, math.sqrt(2) * abs(p - q)
    at = np.arange(drawn + 1)
    mass = [stats.binom.pmf(at, drawn, one) for one in (p, q)]
    rate = 0.0
    for k_a, k_b in itertools.product(at, at):
        share = mass[0][k_a] * mass[1][k_b]
        if share < 1e-5:  # these count as missed
            rate += share
            continue
        attacks = itertools.product(
            left_alone(k_a, n, m, adversary), left_alone(k_b, n, m, adversary), WHERE if m else (0.0,), WHERE[:2]
        )
        for far_a, far_b, place_a, place_b in attacks:
            a = np.repeat([FAR, 0.0, place_a], [far_a, n - m - far_a, m])
            b = np.repeat([FAR, 0.0, place_b], [far_b, n - m - far_b, m])
            if misses(a, b, (m, m), truth, adversary, delta):
                rate += share
                break
    return rate


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize(
    ("n", "m", "p", "q"),
    [(6, 1, 0.5, 0.5), (6, 1, 0.3, 0.7), (6, 1, 0.0, 1.0), (6, 1, 0.05, 0.6), (12, 2, 0.1, 0.1)]
    + [(n, m, p, q) for n, m in [(12, 2), (20, 3), (20, 0)] for p, q in [(0.5, 0.5), (0.3, 0.7), (0.05, 0.6)]] * LONG,
)
def test_two_point_laws_exactly(n, m, p, q, adversary):
    delta = 0.3  # McDiarmid's inequality leaves room, least for large δ
    assert exact_miss_rate(n, m, p, q, adversary, delta) <= delta


# --- normal laws, simulated ---------------------------------------------------------------------------------


def attacks(rng, n, m, shift, adversary):
    """Yield samples of which m rows each are corrupt, at places where they make the laws look apart or alike."""
    drawn = n - m if adversary == "oblivious" else n
    a, b = rng.normal(size=drawn), rng.normal(shift, size=drawn)
    if adversary == "adaptive":
        for up in (1, -1):
            kept_a, kept_b = np.sort(a)[::up][m:], np.sort(b)[::-up][m:]
            yield np.r_[kept_a, np.full(m, 2.0 * up)], np.r_[kept_b, np.full(m, -2.0 * up)]
            yield np.r_[kept_a, np.full(m, FAR)], np.r_[kept_b, np.full(m, FAR)]
    else:
        for place_a, place_b in [(-1.5, 2.5), (FAR, -FAR), (FAR, FAR), (2.0, -1.0), (0.5, 0.5)]:
            yield np.r_[a, np.full(m, place_a)], np.r_[b, np.full(m, place_b)]


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize(("n", "m"), [(10, 0), (10, 3), (60, 5)])
@pytest.mark.parametrize("shift", [0.0, 0.5, 3.0])
def test_intervals_of_normal_laws_cover(n, m, shift, adversary):
    """The MMD of N(0, 1) and N(shift, 1) with bandwidth 1 has a closed form."""
    truth = math.sqrt(2 / math.sqrt(3) * -math.expm1(-(shift**2) / 6))
    rng, delta = generator("mmd", n, m, shift, adversary), 0.1
    missed = [
        any(misses(a, b, (m, m), truth, adversary, delta) for a, b in attacks(rng, n, m, shift, adversary))
        for _ in range(runs(15))
    ]
    assert_covers(missed, delta)


# --- the decision -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bandwidth", [1.0, None])
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize(("n", "in_a", "in_b"), [(10, 2, 0), (50, 5, 5), (50, 0, 10)])
def test_equal_laws_are_rarely_told_apart(n, in_a, in_b, adversary, bandwidth):
    """The sentence is wrong if it claims to stand with as many corrupt rows as there are."""
    rng, delta, wrong = generator("decision", n, in_a, adversary, bandwidth), 0.2, []
    for _ in range(runs(20)):
        a, b = rng.standard_t(3, size=(2, n))
        if adversary == "adaptive":
            a, b = np.sort(a), np.sort(b)[::-1]
        claimed = []
        for place in (1.5, 4.0, FAR):
            a[:in_a], b[:in_b] = place, -place
            claimed.append(estimate(a, b, 0, adversary, delta, bandwidth).tolerance)
        wrong.append(any(rows is not None and rows >= in_a + in_b for rows in claimed))
    assert_covers(wrong, delta)


def test_rows_chosen_by_their_values_break_the_oblivious_certificate_alone():
    """The lowest m of one sample and the highest m of the other were moved; both have the same law."""
    n, m, rng = 300, 90, generator("label")
    for _ in range(5):
        a, b = np.sort(rng.normal(size=n)), np.sort(rng.normal(size=n))[::-1]
        a[:m], b[:m] = 1.5, -1.5
        assert estimate(a, b, (m, m), "oblivious").differ
        assert not estimate(a, b, (m, m), "adaptive").differ


def test_corrupt_rows_that_nobody_allowed_for_break_it():
    a, b = generator("unallowed").normal(size=(2, 300))
    a[:80] = FAR
    assert estimate(a, b, 0).differ
    assert not estimate(a, b, (80, 0)).differ
    assert estimate(a, b, 0).tolerance < 80


def test_a_radius_without_room_for_chance_is_caught():
    """The V-statistic of equal laws is not 0: without the term for chance the laws would differ always."""
    rng, noise = generator("chance"), math.sqrt(2 / 50)
    values = np.array([estimate(*rng.normal(size=(2, 50)), 0).estimate for _ in range(40)])
    assert np.mean(values > noise * 0.5) > 0.5
    assert np.all(values <= noise * (1 + math.sqrt(math.log(20))))
