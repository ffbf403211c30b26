"""Coverage of symmetric means, by both intervals: laws with and without ties and moments, rows at the worst places."""

from __future__ import annotations

import math

import numpy as np
import pytest
from chance import assert_covers, assert_fails
from simulate import generator, runs

import outvote as ov
from outvote.votes.evidence.symmetric import symmetric_rule

DELTA = 0.1
LAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "two points": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "three points": lambda rng, n: rng.choice([-1.0, 0.0, 1.0], n, p=[0.2, 0.6, 0.2]),
}
#: Rows and corrupt rows of both adversaries for which each interval is taken.
CASES = {("signed rank", "oblivious"): (80, 2), ("signed rank", "adaptive"): (80, 1),
         ("order", "oblivious"): (80, 24), ("order", "adaptive"): (80, 8)}  # fmt: skip


def misses(law, n, m, adversary, rule, alternative="two-sided", count=100):
    """Whether 0 is missed: m rows stand far out; someone who saw the rows takes those farthest on the other side."""
    rng, found = generator(law, n, m, adversary), []
    for run in range(runs(count)):
        side = -1 if run % 2 and alternative == "two-sided" else 1
        clean = LAWS[law](rng, n)
        ordered = np.sort(clean)[::side] if adversary == "adaptive" else clean
        x = np.r_[ordered[m:], np.full(m, side * 1e6)]
        known = {"assume": ov.Symmetric(), "alternative": alternative}
        low, high = ov.mean(x, ov.Contamination(m, rule), 1 - DELTA, **known).interval
        found.append(not low <= 0 <= high)
    return found


@pytest.mark.parametrize(("vote", "adversary"), CASES)
@pytest.mark.parametrize("law", LAWS)
def test_the_centre_is_covered(law, vote, adversary):
    n, m = CASES[vote, adversary]
    assert symmetric_rule(n, m, math.log(DELTA / 2), adaptive=adversary == "adaptive").vote == vote
    assert_covers(misses(law, n, m, adversary, adversary), DELTA)


@pytest.mark.parametrize("m", [6, 24])  # signed ranks, and order statistics
def test_the_oblivious_rule_misses_if_someone_saw_the_rows(m):
    assert_fails(misses("normal", 80, m, "adaptive", "oblivious"), DELTA)


def test_one_sided_means_use_all_of_delta():
    assert_covers(misses("normal", 80, 2, "oblivious", "oblivious", "greater"), DELTA)
