"""Coverage of complete U-statistics, and of evidence from disjoint tuples, under attack."""

from __future__ import annotations

import math

import numpy as np
import pytest

import outvote as ov

pytestmark = pytest.mark.theory
RUNS = 200


def allowed(delta, runs=RUNS):
    return delta * runs + 3 * math.sqrt(delta * (1 - delta) * runs)


LAWS = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.5),
    "tied": (lambda rng, n: rng.integers(0, 3, size=n) - 1.0, 0.5),
    "two points": (lambda rng, n: np.where(rng.random(n) < 0.1, 9.0, -1.0), 0.5),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("n", [10, 60, 1000])
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
def test_auc_is_covered(law, n, adversary):
    """Equal laws: the AUC is 1/2. Corrupt rows all say that y is larger; adaptive ones replace the smallest y."""
    draw, truth = LAWS[law]
    m, missed, delta = max(n // 50, 1), 0, 0.2
    for seed in range(RUNS):
        rng = np.random.default_rng([seed, n])
        x, y = draw(rng, n), draw(rng, n)
        if adversary == "adaptive":
            x[np.argsort(x)[-m:]] = -1e9
            y[np.argsort(y)[:m]] = 1e9
        else:
            x[:m], y[:m] = -1e9, 1e9
        found = ov.u_statistic(x, y, kernel="auc", contamination=ov.Contamination(m, adversary), confidence=1 - delta)
        missed += not found.interval.low <= truth <= found.interval.high
    assert missed <= allowed(delta)


def test_the_oblivious_rule_fails_against_an_adversary_who_saw_the_rows():
    """The label matters: replacing the rows that speak against the lie is more than the oblivious rule allows for."""
    missed, n, m = 0, 400, 100
    for seed in range(50):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=n)
        z[np.argsort(z)[:m]] = 1e9
        found = ov.u_statistic(z, kernel="wilcoxon", contamination=m, confidence=0.95)
        missed += not found.interval.low <= 0.5 <= found.interval.high
    assert missed >= 40


@pytest.mark.parametrize("n", [12, 80, 600])
@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_kendall_is_covered(n, rho):
    truth, m, missed, delta = 2 / math.pi * math.asin(rho), max(n // 50, 1), 0, 0.2
    for seed in range(RUNS):
        rng = np.random.default_rng([seed, n])
        z = rng.normal(size=(n, 2))
        z[:, 1] = rho * z[:, 0] + math.sqrt(1 - rho**2) * z[:, 1]
        z[:m] = np.column_stack([np.arange(m) - 99.0, np.arange(m) - 99.0])  # concordant with all
        found = ov.u_statistic(z, kernel="kendall", contamination=m, confidence=1 - delta)
        missed += not found.interval.low <= truth <= found.interval.high
    assert missed <= allowed(delta)


@pytest.mark.parametrize("kernel", ["variance", "gini"])
@pytest.mark.parametrize("n", [40, 400])
@pytest.mark.parametrize("place", [0.0, 3.0, 1e6])
def test_evidence_of_tuples_is_covered(kernel, n, place):
    truth = {"variance": 1.0, "gini": 2 / math.sqrt(math.pi)}[kernel]
    sd = {"variance": math.sqrt(2.0), "gini": math.sqrt(2 - 4 / math.pi)}[kernel]
    missed, m, delta = 0, n // 40, 0.2
    for seed in range(RUNS):
        rng = np.random.default_rng([seed, n])
        x = rng.normal(size=n)
        x[:m] = place
        found = ov.u_statistic(
            x, kernel=kernel, contamination=m, confidence=1 - delta, assume=ov.FiniteVariance(sd), vote="evidence"
        )
        missed += not found.interval.low <= truth <= found.interval.high
    assert missed <= allowed(delta)


def test_degree_three_is_covered():
    """The largest of three is positive with probability 7/8."""
    kernel = ov.Kernel(lambda x, y, z: np.maximum(np.maximum(x, y), z) > 0, 3, (0, 1), vectorized=True)
    missed, delta = 0, 0.2
    for seed in range(RUNS):
        x = np.random.default_rng(seed).normal(size=90)
        x[:2] = -1e9
        found = ov.u_statistic(x, kernel=kernel, contamination=2, confidence=1 - delta)
        missed += not found.interval.low <= 7 / 8 <= found.interval.high
    assert missed <= allowed(delta)
