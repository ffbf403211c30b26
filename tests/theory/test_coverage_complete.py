"""Coverage of complete U-statistics, and of evidence from disjoint tuples, under attack."""

from __future__ import annotations

import math

import numpy as np
import pytest
from chance import assert_covers, assert_fails
from simulate import generator, runs

import outvote as ov

DELTA = 0.2
LAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "tied": lambda rng, n: rng.integers(0, 3, size=n) - 1.0,
    "two points": lambda rng, n: np.where(rng.random(n) < 0.1, 9.0, -1.0),
}


def misses(attack, label, truth, count=60, **how):
    """Whether the truth is missed by U-statistics of attacked samples, drawn by a function of a generator."""
    rng, missed = generator(label), []
    for _ in range(runs(count)):
        found = ov.u_statistic(*attack(rng), confidence=1 - DELTA, **how).interval
        missed.append(not found.low <= truth <= found.high)
    return missed


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_auc_is_covered(law, adversary):
    """Equal laws: the AUC is 1/2. Corrupt rows all say that y is larger; adaptive ones replace the smallest y."""
    for n in (10, 60, 300):
        m = max(n // 50, 1)

        def attack(rng, n=n, m=m):
            x, y = LAWS[law](rng, n), LAWS[law](rng, n)
            if adversary == "adaptive":
                x, y = -np.sort(-x), np.sort(y)
            x[:m], y[:m] = -1e9, 1e9
            return x, y

        how = {"kernel": "auc", "contamination": ov.Contamination(m, adversary)}
        assert_covers(misses(attack, (law, n, adversary), 0.5, **how), DELTA)


def test_the_oblivious_rule_fails_against_an_adversary_who_saw_the_rows():
    """The label matters: replacing the rows that speak against the lie is more than the oblivious rule allows for."""

    def attack(rng):
        z = np.sort(rng.normal(size=400))
        z[:100] = 1e9
        return (z,)

    assert_fails(misses(attack, "wilcoxon", 0.5, 20, kernel="wilcoxon", contamination=100), DELTA)


@pytest.mark.parametrize("n", [12, 80, 300])
@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_kendall_is_covered(n, rho):
    m = max(n // 50, 1)

    def attack(rng):
        z = rng.normal(size=(n, 2))
        z[:, 1] = rho * z[:, 0] + math.sqrt(1 - rho**2) * z[:, 1]
        z[:m] = np.arange(m)[:, None] - 99.0  # concordant with all
        return (z,)

    truth = 2 / math.pi * math.asin(rho)
    assert_covers(misses(attack, (n, rho), truth, kernel="kendall", contamination=m), DELTA)


@pytest.mark.parametrize(
    ("kernel", "truth", "sd"),
    [("variance", 1.0, math.sqrt(2.0)), ("gini", 2 / math.sqrt(math.pi), math.sqrt(2 - 4 / math.pi))],
)
@pytest.mark.parametrize("n", [40, 200])
def test_evidence_of_tuples_is_covered(kernel, truth, sd, n):
    for place in (0.0, 3.0, 1e6):

        def attack(rng, place=place):
            x = rng.normal(size=n)
            x[: n // 40] = place
            return (x,)

        how = {"contamination": n // 40, "assume": ov.FiniteVariance(sd), "vote": "evidence"}
        assert_covers(misses(attack, (kernel, n, place), truth, 25, kernel=kernel, **how), DELTA)


def test_degree_three_is_covered():
    """The largest of three is positive with probability 7/8."""
    kernel = ov.Kernel(lambda x, y, z: np.maximum(np.maximum(x, y), z) > 0, 3, (0, 1), vectorized=True)
    missed = misses(
        lambda rng: (np.r_[rng.normal(size=88), -1e9, -1e9],), "three", 7 / 8, kernel=kernel, contamination=2
    )
    assert_covers(missed, DELTA)
