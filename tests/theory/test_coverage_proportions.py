"""Coverage of intervals for proportions, by exact binomial sums; what is not declared, or allowed for, is caught."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from rate_coverage import largest_miss
from scipy import stats
from simulate import LONG

import outvote as ov

SHARES = np.linspace(0.0, 1.0, 41 if LONG else 11)


CASES = list(
    itertools.product(
        ["oblivious", "adaptive"],
        ["two-sided", "less", "greater"],
        [("each", (9, 13), 1), ("together", (10, 7), 2)],
        [False, True],
    )
)
FEW = [
    ("oblivious", "two-sided", ("each", (9, 6), 1), False),
    ("adaptive", "less", ("each", (6, 7), 1), True),
    ("oblivious", "greater", ("together", (8, 5), 2), True),
    ("adaptive", "two-sided", ("together", (6, 7), 2), False),
]


@pytest.mark.parametrize(("adversary", "alternative", "rows", "relative"), CASES if LONG else FEW)
def test_differences_and_ratios(adversary, alternative, rows, relative):
    counted, sizes, m = rows
    settings = {"counted": counted, "relative": relative, "alternative": alternative, "shares": SHARES}
    assert largest_miss(sizes, m, adversary, 0.8, **settings) <= 0.2 + 1e-9


def test_taking_bounded_rows_for_zeros_and_ones_is_caught():
    """Clean rows of 0, rarely 0.9, taken for a proportion: the rare ones count as corrupt, and the mean is missed."""
    n, m, rare, delta = 100, 5, 0.03, 0.2
    seen = np.arange(m + 1)
    weights, truth = stats.binom.pmf(seen, n, rare), 0.9 * rare

    def misses(assume):
        found = [ov.mean(np.r_[np.full(k, 0.9), np.zeros(n - k)], m, 1 - delta, assume=assume).interval for k in seen]
        return float(weights @ [not low <= truth <= high for low, high in found])

    assert misses(ov.Proportion()) > 0.9 > delta > misses(ov.Bounded(0, 1))


@pytest.mark.parametrize("value", [0.1, 0.5, 0.9])
def test_seeing_only_zeros_and_ones_by_chance_and_missing_has_a_small_probability(value):
    """Rounded up, or down, a value in between makes the miss only more likely: δ pays for it, but for nothing else."""
    n, delta = 20, 0.2
    ends = [ov.mean(np.arange(n) < k, 0, 1 - delta).interval for k in range(n + 1)]
    for ones in SHARES:
        for rare in (0.0, 0.01, 0.05, 0.2):
            if ones + rare > 1:
                continue
            truth = ones + rare * value
            wrong = np.array([not low <= truth <= high for low, high in ends])
            chance = stats.binom.pmf(np.arange(n + 1), n, min(ones / (1 - rare), 1.0)) * (1 - rare) ** n
            assert chance @ wrong <= delta + 1e-9


def test_the_oblivious_rule_against_an_adaptive_adversary_is_caught():
    assert largest_miss((10, 10), 3, "oblivious", 0.8, attacked_by="adaptive", shares=np.array([0.5])) > 0.2
