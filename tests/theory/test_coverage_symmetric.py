"""Coverage of symmetric means, by both intervals: laws with and without ties and moments, rows at the worst places."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulate import assert_covers, assert_fails, generator, runs

import outvote as ov
from outvote.votes.evidence.symmetric import symmetric_rule

DELTA = 0.1
LAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "two points": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "three points": lambda rng, n: rng.choice([-1.0, 0.0, 1.0], n, p=[0.2, 0.6, 0.2]),
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
}
#: Rows and corrupt rows of both adversaries for which each interval is taken.
CASES = {("signed rank", "oblivious"): (80, 2), ("signed rank", "adaptive"): (80, 1),
         ("order", "oblivious"): (80, 24), ("order", "adaptive"): (80, 8)}  # fmt: skip


def spoiled(clean, m, adversary, side):
    """Put m rows far out on one side; someone who saw the rows takes those farthest on the other side."""
    ordered = np.sort(clean)[::side] if adversary == "adaptive" else clean
    return np.r_[ordered[m:], np.full(m, side * 1e6)]


def misses(law, vote, adversary, rule, side):
    n, m = CASES[vote, adversary]
    rng, found = generator(law, vote, adversary, side), []
    for _ in range(runs(150)):
        x = spoiled(LAWS[law](rng, n), m, adversary, side)
        low, high = ov.mean(x, ov.Contamination(m, rule), 1 - DELTA, ov.Symmetric()).interval
        found.append(float(not low <= 0 <= high))
    return np.array(found)


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(("vote", "adversary"), CASES)
@pytest.mark.parametrize("law", LAWS)
def test_the_centre_is_covered(law, vote, adversary, side):
    n, m = CASES[vote, adversary]
    assert symmetric_rule(n, m, math.log(DELTA / 2), adaptive=adversary == "adaptive").vote == vote
    assert_covers(misses(law, vote, adversary, adversary, side), 0.5, DELTA)


@pytest.mark.parametrize("vote", ["signed rank", "order"])
def test_the_oblivious_rule_misses_if_someone_saw_the_rows(vote):
    n, m = CASES[vote, "oblivious"]
    rng, found = generator(vote), []
    for _ in range(runs(100)):
        x = spoiled(rng.normal(size=n), 3 * m if vote == "signed rank" else m, "adaptive", 1)
        count = 3 * m if vote == "signed rank" else m
        low, high = ov.mean(x, ov.Contamination(count), 1 - DELTA, ov.Symmetric()).interval
        found.append(float(not low <= 0 <= high))
    assert_fails(np.array(found), 0.5, DELTA)


def test_one_sided_means_use_all_of_delta():
    rng, found = generator("one-sided"), []
    for _ in range(runs(200)):
        x = spoiled(rng.normal(size=80), 2, "oblivious", 1)
        found.append(float(ov.mean(x, 2, 1 - DELTA, ov.Symmetric(), alternative="greater").interval.low > 0))
    assert_covers(np.array(found), 0.5, DELTA)
