"""Certified radii are never larger than the best valid bound of the paper."""

import itertools
import math

import pytest

import outvote as ov
from outvote import paper
from outvote.certificate import radius

UNIT, BOUNDED = ov.FiniteVariance(1.0), ov.Bounded(-1.0, 1.0)


def certified(n, bad, delta, assume=UNIT, degree=1, **grid):
    plan = ov.plan_blocks(n, bad, delta=delta, assume=assume, degree=degree, **grid)
    sizes = {"n_blocks": plan.n_blocks, "n_corrupt": bad, "block_size": plan.block_size}
    degrees = (degree,) if isinstance(degree, int) else degree
    return radius(**sizes, delta=delta, assume=assume, degrees=degrees, **grid)


def best_of_the_paper(n, bad, delta, statements, **degree):
    how = {"n": n, "n_outliers": bad, "delta": delta, "clamp": True, **degree}
    bounds = [
        paper.bound(statement, claim=claim, mapping=mapping, **how)
        for (statement, claim), mapping in itertools.product(statements, paper.MAPPINGS)
    ]
    return min((b.radius for b in bounds if b.provenance == "certified"), default=math.inf)


HEAVY = [("mom", 1), ("hoeffding", 1)]

# ε → the certified radius and its ratio to the best of Prop. mom, claim 1, at n = 1e2, 1e3, 1e4, 1e5 (δ = .01, σ = 1).
TABLE = {
    0.0: [(0.651, 0.42), (0.206, 0.42), (0.065, 0.42), (0.0205, 0.42)],
    0.01: [(0.792, 0.39), (0.426, 0.29), (0.325, 0.23), (0.296, 0.21)],
    0.05: [(1.09, 0.32), (0.768, 0.24), (0.675, 0.21), (0.645, 0.20)],
    0.1: [(1.37, 0.30), (1.03, 0.23), (0.948, 0.22), (0.924, 0.21)],
    0.2: [(1.71, 0.25), (1.41, 0.22), (1.33, 0.20), (1.30, 0.20)],
    0.4: [(3.56, 0.15), (2.55, 0.11), (2.33, 0.11), (2.26, 0.10)],
}


@pytest.mark.parametrize("epsilon", TABLE)
def test_radii_and_ratios_equal_the_table(epsilon):
    for n, (expected, ratio) in zip((100, 1000, 10_000, 100_000), TABLE[epsilon], strict=True):
        bad = round(epsilon * n)
        ours = certified(n, bad, 0.01)
        assert ours == pytest.approx(expected, rel=5.1e-3)
        assert ours / best_of_the_paper(n, bad, 0.01, [("mom", 1)]) == pytest.approx(ratio, abs=0.006)


@pytest.mark.parametrize("n", [50, 400, 10**6])
def test_certified_radius_of_a_mean_is_below_the_papers(n):
    for epsilon, delta in itertools.product([0.0, 0.002, 0.12, 0.45], [0.2, 0.01, 1e-60]):
        bad = math.floor(epsilon * n)
        statements = [*HEAVY, ("standard", 1)] if bad == 0 else HEAVY
        assert certified(n, bad, delta) <= best_of_the_paper(n, bad, delta, statements)
        assert certified(n, bad, delta, ov.SubGaussian(1.0)) <= best_of_the_paper(n, bad, delta, [("mom", 2)])


@pytest.mark.parametrize("n", [200, 5000])
@pytest.mark.parametrize("bad", [0, 2, 15])
def test_certified_radius_of_pairs_and_two_samples_is_below_the_papers(n, bad):
    for delta in (0.05, 1e-8):
        ours = certified(n, bad, delta, BOUNDED, degree=2)
        assert ours <= best_of_the_paper(n, bad, delta, [("mou", 2)], degree=2)
        two = (n, n), (bad, bad), delta
        ours = certified(*two, BOUNDED, degree=(1, 1), grid="diagonal")
        assert ours <= best_of_the_paper(*two, [("mou2-diagonal", 2)])
