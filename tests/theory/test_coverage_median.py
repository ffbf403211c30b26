"""Coverage of the median of blocks: means, pairs, diagonals, unequal blocks, Huber's model."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from chance import assert_covers
from scipy import stats
from simulate import LAWS, generator, runs, two_point, worst_errors

from outvote.assumptions.assumption import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.certificate import expected_error, mean_squared_error, radius
from outvote.votes import best_n_blocks, threshold

ADVERSARIES = ("oblivious", "adaptive")
UNIT = FiniteVariance(1.0)


def block_means(sampler, rng, n_runs, n_blocks, block_size):
    return sampler(rng, (n_runs, n_blocks, block_size)).mean(axis=2)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("n_blocks", "n_bad"), [(1, 0), (9, 0), (21, 4), (22, 4), (41, 20)])
def test_radius_is_attained_by_a_two_point_law(n_blocks, n_bad, adversary):
    """Blocks of one row whose law has its atom right beyond the radius: the bound is met, not beaten."""
    for delta, alternative in itertools.product((0.1, 0.01), ("two-sided", "less", "greater")):
        how = {"adversary": adversary, "alternative": alternative}
        t = radius(n_blocks=n_blocks, n_corrupt=n_bad, block_size=1, delta=delta, assume=UNIT, **how)
        values = two_point(t**2)(generator(n_blocks, n_bad, adversary, delta), (runs(8000), n_blocks))
        missed = worst_errors(-values if alternative == "less" else values, n_bad, **how) > t
        assert_covers(missed, delta)
        if alternative != "two-sided" and n_blocks % 2:
            assert np.mean(missed) > 0.7 * delta


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("n_blocks", "n_bad"), [(1, 0), (5, 1), (21, 4), (41, 20), (1001, 200)])
def test_failure_probability_is_at_most_delta(n_blocks, n_bad, adversary):
    """Sum of both sides' exact binomial tails, over every pair of tails that a variance of 1 allows."""
    n, m = (int(a) for a in threshold(n_blocks, n_bad, adversary))
    for delta in (0.1, 0.01, 1e-4, 1e-12):
        t = radius(n_blocks=n_blocks, n_corrupt=n_bad, block_size=1, delta=delta, assume=UNIT, adversary=adversary)
        # P(X > t) = above, P(X < -t) = below need E X² ≥ t²·s + (t·d)²/(1-s), s and d their sum and difference.
        ratio = 1 / t**2
        s = np.linspace(min(ratio / (1 + ratio), 1), min(ratio, 1), 2001)
        d = np.minimum(np.sqrt(np.maximum((ratio - s) * (1 - s), 0)), s)
        failure = stats.binom.sf(m - 1, n, (s + d) / 2) + stats.binom.sf(m - 1, n, (s - d) / 2)
        either = np.minimum(failure, stats.binom.sf(m - 1, n, s))  # off on some side at all
        assert either.max() <= delta * (1 + 1e-6)


SAMPLERS = {
    **LAWS,
    "signs": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "uniform": lambda rng, shape: rng.uniform(-np.sqrt(3), np.sqrt(3), shape),
    "laplace": lambda rng, shape: rng.laplace(0, np.sqrt(0.5), shape),
    "rare": two_point(49.0),  # 7 with probability 1/50, else -1/7
}
MEANS = [
    *((UNIT, law) for law in LAWS),
    (SubGaussian(1.0), "gaussian"),
    (SubGaussian(1.0), "signs"),
    (Bounded(-np.sqrt(3), np.sqrt(3)), "uniform"),
    (Bounded(-1 / 7, 7), "rare"),
    (Bounded(-1 / 7, 7, variance=1.0), "rare"),
    (FiniteKurtosis(3.0, sd=1.0), "gaussian"),
    (FiniteKurtosis(6.0, sd=1.0), "laplace"),
    (FiniteKurtosis(48.03, sd=1.0), "rare"),
]
PAIRS = [  # the variance kernel: ζ₁ = (κ-1)/4 and ζ₂ = (κ+1)/2 for rows of variance 1 and kurtosis κ
    (FiniteVariance(np.sqrt(2.0)), "gaussian"),
    (FiniteVariance(np.sqrt(2.0), zetas=(0.5, 2.0)), "gaussian"),
    (FiniteVariance(np.sqrt(3.5), zetas=(1.25, 3.5)), "laplace"),
    (Bounded(0, 6), "uniform"),
    (FiniteVariance(np.sqrt(24.52), zetas=(11.76, 24.52)), "rare"),
]
CASES = [(assume, law, 1) for assume, law in MEANS] + [(assume, law, 2) for assume, law in PAIRS]


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("assume", "law", "degree"), CASES)
def test_radius_covers_means_and_variances(assume, law, degree, adversary):
    n, n_bad, delta = 600, 10, 0.1
    how = {"assume": assume, "adversary": adversary}
    (k,) = best_n_blocks([n], [n_bad], degrees=(degree,), log_delta=np.log(delta), **how)
    rows = SAMPLERS[law](generator(repr(assume), law, adversary), (runs(200), k, n // k))
    values = rows.mean(axis=2) if degree == 1 else rows.var(axis=2, ddof=1)
    t = radius(n_blocks=k, n_corrupt=n_bad, block_size=n // k, delta=delta, degrees=(degree,), **how)
    assert_covers(worst_errors(values, n_bad, adversary, truth=degree - 1.0) > t, delta)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", ["gaussian", "student-2.5", "pareto"])
def test_radius_covers_a_product_kernel_on_the_diagonal(law, adversary):
    """Kernel (1+x)(1+y): a block's value is the product of two means; truth 1, variances 1, 1 and 3."""
    assume = FiniteVariance(np.sqrt(3.0), zetas={(1, 0): 1.0, (0, 1): 1.0, (1, 1): 3.0})
    n_rows, bad, delta = (400, 700), (5, 6), 0.1
    how = {"assume": assume, "adversary": adversary}
    k, _ = best_n_blocks(n_rows, bad, degrees=(1, 1), layout="diagonal", log_delta=np.log(delta), **how)
    sizes = tuple(n // k for n in n_rows)
    x, y = (block_means(LAWS[law], generator(law, adversary, n), runs(200), k, n) for n in sizes)
    t = radius(n_blocks=(k, k), n_corrupt=bad, block_size=sizes, delta=delta, grid="diagonal", **how)
    assert_covers(worst_errors((1 + x) * (1 + y), sum(bad), adversary, truth=1.0) > t, delta)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("sizes", [[1] * 31 + [100] * 10, [9] * 20 + [10] * 21, list(range(1, 42))])
def test_radius_of_unequal_blocks_covers(sizes, adversary):
    """The last blocks, which are the largest, are corrupt; the others' law has its atom at the radius."""
    blocks = np.array(sizes)
    for n_bad, delta in itertools.product((0, 10, 20), (0.1, 0.01)):
        t = radius(n_blocks=41, n_corrupt=n_bad, block_size=blocks, delta=delta, assume=UNIT, adversary=adversary)
        high = generator(sizes, n_bad, adversary).random((runs(4000), 41)) < 1 / (1 + t**2 * blocks)
        values = np.where(high, t * (1 + 1e-9), -1 / (t * blocks))  # a block's variance is 1/size
        assert_covers(worst_errors(values, n_bad, adversary) > t, delta)


@pytest.mark.parametrize("law", ["gaussian", "pareto", "two-point"])
@pytest.mark.parametrize("sizes", [[6] * 101, [4] * 50 + [8] * 51])
def test_radius_in_hubers_model_covers(law, sizes):
    rate, delta = 0.02, 0.1
    t = radius(n_blocks=101, huber_rate=rate, block_size=sizes, delta=delta, assume=UNIT)
    rng = generator(law, sizes)
    rows = LAWS[law](rng, (runs(300), 101, 8))
    inside = np.arange(8) < np.array(sizes)[:, None]
    means = (rows * inside).sum(axis=2) / sizes
    hit = ((rng.random(rows.shape) < rate) & inside).any(axis=2)
    up, down = (sign * np.median(np.where(hit, sign * np.inf, means), axis=1) for sign in (1, -1))
    assert_covers(np.maximum(up, down) > t, delta)


@pytest.mark.parametrize("delta", [0.1, 1e-6])
def test_failure_probability_in_hubers_model_is_exact(delta):
    """A two-point law with its atom at the radius, and outliers that side with it."""
    how = {"huber_rate": 0.02, "block_size": 5, "assume": UNIT, "alternative": "greater"}
    off = 1 - 0.98**5 * (1 - 1 / (1 + 5 * radius(n_blocks=101, delta=delta, **how) ** 2))
    assert stats.binom.sf(50, 101, off) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("n_blocks", "n_bad", "size"), [(1, 0, 30), (21, 4, 5), (41, 10, 1)])
def test_expected_errors_are_bounded(adversary, n_blocks, n_bad, size):
    how = {"n_blocks": n_blocks, "n_corrupt": n_bad, "block_size": size, "assume": UNIT, "adversary": adversary}
    for law in LAWS:
        means = block_means(LAWS[law], generator(law, adversary, n_blocks), runs(1500), n_blocks, size)
        errors = worst_errors(means, n_bad, adversary)
        noise = 3 / np.sqrt(len(errors))
        assert errors.mean() <= expected_error(**how) + noise * errors.std()
        assert (errors**2).mean() <= mean_squared_error(**how) + noise * (errors**2).std()
