"""Coverage of the median of blocks: means, pairs, diagonals, unequal blocks, Huber's model."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from simulate import LAWS, assert_covers, generator, runs, two_point, worst_errors

from outvote.assumptions.assumption import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.certificate import expected_error, mean_squared_error, radius
from outvote.votes import best_n_blocks, threshold

DELTAS = (0.1, 0.01)
ADVERSARIES = ("oblivious", "adaptive")


def block_means(sampler, rng, n_runs, n_blocks, block_size):
    return sampler(rng, (n_runs, n_blocks, block_size)).mean(axis=2)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_radius_of_finite_variance_covers_the_mean(law, adversary, delta, alternative):
    n, n_bad = 400, 20
    assume = FiniteVariance(1.0)
    (k,) = best_n_blocks(
        [n], [n_bad], log_delta=np.log(delta), assume=assume, adversary=adversary, alternative=alternative
    )
    means = block_means(LAWS[law], generator(law, adversary, delta), runs(500), k, n // k)
    t = radius(
        n_blocks=k,
        n_corrupt=n_bad,
        block_size=n // k,
        delta=delta,
        assume=assume,
        adversary=adversary,
        alternative=alternative,
    )
    assert_covers(worst_errors(means, n_bad, adversary, alternative=alternative), t, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("alternative", ["two-sided", "greater"])
@pytest.mark.parametrize(("n_blocks", "n_bad"), [(1, 0), (9, 0), (21, 4), (22, 4), (41, 20), (101, 20)])
def test_radius_is_attained_by_a_two_point_law(n_blocks, n_bad, adversary, delta, alternative):
    """Blocks of one row whose law has its atom right beyond the radius: the bound is met, not beaten."""
    t = radius(
        n_blocks=n_blocks,
        n_corrupt=n_bad,
        block_size=1,
        delta=delta,
        assume=FiniteVariance(1.0),
        adversary=adversary,
        alternative=alternative,
    )
    values = two_point(t**2)(generator(n_blocks, n_bad, adversary, delta), (runs(4000), n_blocks))
    errors = worst_errors(values, n_bad, adversary, alternative=alternative)
    assert_covers(errors, t, delta)
    if alternative == "greater" and n_blocks % 2:
        assert np.mean(errors > t) > delta / 2


@pytest.mark.parametrize("delta", [0.1, 0.01, 1e-4, 1e-8, 1e-12])
@pytest.mark.parametrize(("n_blocks", "n_bad"), [(1, 0), (5, 1), (21, 4), (41, 20), (101, 20), (1001, 200)])
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_failure_probability_is_at_most_delta(n_blocks, n_bad, adversary, delta):
    """Sum of both sides' exact binomial tails, over every pair of tails that a variance of 1 allows."""
    n, m = (int(a) for a in threshold(n_blocks, n_bad, adversary))
    t = radius(
        n_blocks=n_blocks,
        n_corrupt=n_bad,
        block_size=1,
        delta=delta,
        assume=FiniteVariance(1.0),
        adversary=adversary,
    )
    # P(X > t) = above, P(X < -t) = below need E X² ≥ t²·s + (t·d)²/(1-s), s and d their sum and difference.
    ratio = 1 / t**2
    s = np.linspace(min(ratio / (1 + ratio), 1), min(ratio, 1), 2001)
    d = np.minimum(np.sqrt(np.maximum((ratio - s) * (1 - s), 0)), s)
    failure = stats.binom.sf(m - 1, n, (s + d) / 2) + stats.binom.sf(m - 1, n, (s - d) / 2)
    either = np.minimum(failure, stats.binom.sf(m - 1, n, s))  # off on some side at all
    assert either.max() <= delta * (1 + 1e-6)


SHARPER = {
    "sub-gaussian, normal": (SubGaussian(1.0), "gaussian"),
    "sub-gaussian, signs": (SubGaussian(1.0), "signs"),
    "bounded, uniform": (Bounded(-np.sqrt(3), np.sqrt(3)), "uniform"),
    "bounded, rare": (Bounded(-1 / 7, 7), "rare"),
    "bernstein, rare": (Bounded(-1 / 7, 7, variance=1.0), "rare"),
    "kurtosis 3, normal": (FiniteKurtosis(3.0, sd=1.0), "gaussian"),
    "kurtosis 6, laplace": (FiniteKurtosis(6.0, sd=1.0), "laplace"),
    "kurtosis, rare": (FiniteKurtosis(48.03, sd=1.0), "rare"),
}
SAMPLERS = {
    **LAWS,
    "signs": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "uniform": lambda rng, shape: rng.uniform(-np.sqrt(3), np.sqrt(3), shape),
    "laplace": lambda rng, shape: rng.laplace(0, np.sqrt(0.5), shape),
    "rare": two_point(49.0),  # 7 with probability 1/50, else -1/7
}


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("case", SHARPER)
def test_radius_of_sharper_tails_covers_the_mean(case, adversary, delta):
    assume, law = SHARPER[case]
    n, n_bad = 600, 10
    (k,) = best_n_blocks([n], [n_bad], log_delta=np.log(delta), assume=assume, adversary=adversary)
    means = block_means(SAMPLERS[law], generator(case, adversary, delta), runs(400), k, n // k)
    t = radius(n_blocks=k, n_corrupt=n_bad, block_size=n // k, delta=delta, assume=assume, adversary=adversary)
    assert_covers(worst_errors(means, n_bad, adversary), t, delta)


PAIRS = {  # the variance kernel: ζ₁ = (κ-1)/4 and ζ₂ = (κ+1)/2 for rows of variance 1 and kurtosis κ
    "general": ("gaussian", FiniteVariance(np.sqrt(2.0))),
    "exact": ("gaussian", FiniteVariance(np.sqrt(2.0), zetas=(0.5, 2.0))),
    "laplace": ("laplace", FiniteVariance(np.sqrt(3.5), zetas=(1.25, 3.5))),
    "bounded": ("uniform", Bounded(0, 6)),
    "rare": ("rare", FiniteVariance(np.sqrt(24.52), zetas=(11.76, 24.52))),
}


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("case", PAIRS)
def test_radius_covers_the_variance(case, adversary, delta):
    law, assume = PAIRS[case]
    n, n_bad = 600, 10
    (k,) = best_n_blocks([n], [n_bad], degrees=(2,), log_delta=np.log(delta), assume=assume, adversary=adversary)
    rows = SAMPLERS[law](generator(case, adversary, delta), (runs(400), k, n // k))
    t = radius(
        n_blocks=k,
        n_corrupt=n_bad,
        block_size=n // k,
        delta=delta,
        assume=assume,
        adversary=adversary,
        degrees=(2,),
    )
    errors = worst_errors(rows.var(axis=2, ddof=1), n_bad, adversary, truth=1.0)
    assert_covers(errors, t, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", ["gaussian", "student-2.5", "pareto"])
def test_radius_covers_a_product_kernel_on_the_diagonal(law, adversary, delta):
    """Kernel (1+x)(1+y): a block's value is the product of two means; truth 1, variances 1, 1 and 3."""
    assume = FiniteVariance(np.sqrt(3.0), zetas={(1, 0): 1.0, (0, 1): 1.0, (1, 1): 3.0})
    n_rows, bad = (400, 700), (5, 6)
    k, _ = best_n_blocks(n_rows, bad, degrees=(1, 1), layout="diagonal", log_delta=np.log(delta), assume=assume)
    rng = generator(law, adversary, delta)
    x, y = (block_means(LAWS[law], rng, runs(400), k, n // k) for n in n_rows)
    t = radius(
        n_blocks=(k, k),
        n_corrupt=bad,
        block_size=(400 // k, 700 // k),
        delta=delta,
        assume=assume,
        adversary=adversary,
        grid="diagonal",
    )
    assert_covers(worst_errors((1 + x) * (1 + y), sum(bad), adversary, truth=1.0), t, delta)


UNEQUAL = {
    "31 of 1, 10 of 100": [1] * 31 + [100] * 10,
    "balanced": [9] * 20 + [10] * 21,
    "spread": list(range(1, 42)),
}


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("n_bad", [0, 10, 20])
@pytest.mark.parametrize("sizes", UNEQUAL)
def test_radius_of_unequal_blocks_covers(sizes, n_bad, adversary, delta):
    """The last blocks, which are the largest, are corrupt; the others' law has its atom at the radius."""
    blocks = np.array(UNEQUAL[sizes])
    t = radius(
        n_blocks=41,
        n_corrupt=n_bad,
        block_size=blocks,
        delta=delta,
        assume=FiniteVariance(1.0),
        adversary=adversary,
    )
    rng = generator(sizes, n_bad, adversary, delta)
    u = t**2 * blocks  # a block's variance is 1/size
    high = rng.random((runs(2000), 41)) < 1 / (1 + u)
    values = np.where(high, t * (1 + 1e-9), -1 / (t * blocks))
    assert_covers(worst_errors(values, n_bad, adversary), t, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("law", ["gaussian", "pareto", "two-point"])
@pytest.mark.parametrize("sizes", ["equal", "unequal"])
def test_radius_in_hubers_model_covers(law, delta, sizes):
    rate = 0.02
    block_sizes = np.full(101, 6) if sizes == "equal" else np.array([4] * 50 + [8] * 51)
    t = radius(n_blocks=101, huber_rate=rate, block_size=block_sizes, delta=delta, assume=FiniteVariance(1.0))
    rng = generator(law, delta, sizes)
    rows = LAWS[law](rng, (runs(600), 101, 8))
    inside = np.arange(8) < block_sizes[:, None]
    means = (rows * inside).sum(axis=2) / block_sizes
    hit = ((rng.random(rows.shape) < rate) & inside).any(axis=2)
    errors = np.maximum(
        np.median(np.where(hit, np.inf, means), axis=1), -np.median(np.where(hit, -np.inf, means), axis=1)
    )
    assert_covers(errors, t, delta)


@pytest.mark.parametrize("delta", [0.1, 0.01, 1e-6])
def test_failure_probability_in_hubers_model_is_exact(delta):
    """A two-point law with its atom at the radius, and outliers that side with it."""
    t = radius(
        n_blocks=101,
        huber_rate=0.02,
        block_size=5,
        delta=delta,
        assume=FiniteVariance(1.0),
        alternative="greater",
    )
    off = 1 - 0.98**5 * (1 - 1 / (1 + 5 * t**2))
    assert stats.binom.sf(50, 101, off) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("n_blocks", "n_bad", "size"), [(1, 0, 30), (21, 4, 5), (41, 10, 1)])
def test_expected_errors_are_bounded(law, adversary, n_blocks, n_bad, size):
    means = block_means(LAWS[law], generator(law, adversary, n_blocks), runs(1500), n_blocks, size)
    errors = worst_errors(means, n_bad, adversary)
    common = {
        "n_blocks": n_blocks,
        "n_corrupt": n_bad,
        "block_size": size,
        "assume": FiniteVariance(1.0),
        "adversary": adversary,
    }
    noise = 3 / np.sqrt(len(errors))
    assert errors.mean() <= expected_error(**common) + noise * errors.std()
    assert (errors**2).mean() <= mean_squared_error(**common) + noise * (errors**2).std()
