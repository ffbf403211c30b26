"""Coverage of the soft and the clipped vote; wrong scales are caught.

A corrupt vote pulls with its whole strength from anywhere beyond the reach of the vote, so +∞ is as bad as a vote can
be; an adaptive adversary gains most by replacing the votes that pull the other way hardest. The root is above
θ + r just if the pulls add up to a positive number there, which is checked for all runs at once.
"""

from __future__ import annotations

import numpy as np
import pytest
from simulate import LAWS, assert_covers, assert_fails, bernoulli, generator, runs, two_point

from outvote.assumptions.assumption import Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.votes.clipped import clipped_tuning, clipped_vote
from outvote.votes.soft import psi, soft_scale, soft_tuning, soft_vote

DELTAS = (0.1, 0.01)
ADVERSARIES = ("oblivious", "adaptive")
ALTERNATIVES = ("two-sided", "less", "greater")


def mirrored(sampler):
    return lambda rng, shape: -sampler(rng, shape)


SAMPLERS = {
    **LAWS,
    "often above": mirrored(two_point(4.0)),  # pulls the same way as outliers above, 4 times out of 5
    "very often above": mirrored(two_point(25.0)),
    "signs": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "uniform": lambda rng, shape: rng.uniform(-np.sqrt(3), np.sqrt(3), shape),
    "laplace": lambda rng, shape: rng.laplace(0, np.sqrt(0.5), shape),
    "rare": two_point(49.0),  # 7 with probability 1/50, else -1/7
    "minus-rare": mirrored(two_point(49.0)),
}


def draw(law, rng, n_runs, n_votes, block_size=1):
    """Means of blocks of clean rows of mean 0 and sd 1, runs x votes."""
    if block_size == 1:
        return SAMPLERS[law](rng, (n_runs, n_votes))
    return SAMPLERS[law](rng, (n_runs, n_votes, block_size)).mean(axis=2)


def attacked(values, n_bad, adversary, to=np.inf):
    """Votes after `n_bad` went up to `to`: the last ones, or those that pulled down hardest."""
    clean = values if adversary == "oblivious" else -np.sort(-values, axis=1)
    return np.hstack([clean[:, : values.shape[1] - n_bad], np.full((len(values), n_bad), to)])


def soft_pulls(values, sd, tuning):
    with np.errstate(over="ignore"):
        return psi(tuning.a / sd * values, tuning.c).sum(axis=1)


def clipped_pulls(values, tau):
    return np.clip(values, -tau, tau).sum(axis=1)


def misses(values, n_bad, adversary, alternative, radius, pulls):
    """1 where the outliers can carry the root further than the radius from 0, else 0."""
    off = np.zeros(len(values))
    if alternative != "less":
        off += pulls(attacked(values, n_bad, adversary) - radius) >= 0
    if alternative != "greater":
        off += pulls(attacked(-values, n_bad, adversary) - radius) >= 0
    return np.minimum(off, 1.0)


def soft_misses(values, n_bad, delta, adversary, alternative="two-sided", sd=1.0):
    tuning = soft_tuning(values.shape[1], n_bad, log_delta=np.log(delta), adversary=adversary, alternative=alternative)
    assert np.isfinite(tuning.radius)
    return misses(values, n_bad, adversary, alternative, sd * tuning.radius, lambda v: soft_pulls(v, sd, tuning))


def clipped_misses(values, n_bad, delta, adversary, alternative="two-sided", *, tail):
    tuning = clipped_tuning(
        values.shape[1], n_bad, tail, log_delta=np.log(delta), adversary=adversary, alternative=alternative
    )
    assert np.isfinite(tuning.radius)
    return misses(values, n_bad, adversary, alternative, tuning.radius, lambda v: clipped_pulls(v, tuning.tau))


# --- the soft vote ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("law", [*LAWS, "often above", "very often above"])
def test_soft_radius_covers_the_mean(law, alternative, adversary, delta):
    values = draw(law, generator("soft", law, adversary, delta), runs(800), 400)
    assert_covers(soft_misses(values, 20, delta, adversary, alternative), 0.5, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", [*LAWS, "often above"])
@pytest.mark.parametrize(("n_votes", "n_bad"), [(40, 0), (40, 4)])
def test_soft_radius_covers_blocks_of_ten(law, n_votes, n_bad, adversary, delta):
    values = draw(law, generator("blocks", law, n_bad, adversary, delta), runs(800), n_votes, 10)
    assert_covers(soft_misses(values, n_bad, delta, adversary, sd=np.sqrt(0.1)), 0.5, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("n_votes", "n_bad"), [(30, 0), (100, 5), (100, 25), (1000, 100)])
def test_soft_radius_covers_two_point_laws(n_votes, n_bad, adversary, delta):
    """Over a range of two-point laws, on both sides: those are the ones that meet the information limit."""
    for u in np.geomspace(0.05, 200, 12):
        rng = generator("two-point", u, n_votes, n_bad, adversary, delta)
        values = two_point(u)(rng, (runs(300), n_votes))
        assert_covers(soft_misses(values, n_bad, delta, adversary), 0.5, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("sizes", [[1] * 31 + [100] * 10, list(range(1, 42)), [9] * 20 + [10] * 21])
def test_soft_radius_covers_unequal_blocks(sizes, adversary, delta):
    """Outliers hit the largest blocks, the last ones."""
    n_bad = 6
    sds = 1 / np.sqrt(np.array(sizes))
    rng = generator("unequal", sizes, adversary, delta)
    for u in (0.25, 1.0, 4.0, 25.0):
        values = two_point(u)(rng, (runs(800), 41)) * sds
        sd = soft_scale(sds, n_bad, adversary)
        assert_covers(soft_misses(values, n_bad, delta, adversary, sd=sd), 0.5, delta)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_soft_scale_too_large_is_valid_and_too_small_is_caught(adversary):
    n, n_bad, delta = 1000, 100, 0.1
    values = draw("often above", generator("scale", adversary), runs(800), n)
    for sd in (1.0, 2.0):
        assert_covers(soft_misses(values, n_bad, delta, adversary, "greater", sd=sd), 0.5, delta)
    assert_fails(soft_misses(values, n_bad, delta, adversary, "greater", sd=0.5), 0.5, delta)


def test_soft_radius_fails_against_an_adaptive_adversary():
    n, n_bad, delta = 1000, 100, 0.1
    tuning = soft_tuning(n, n_bad, log_delta=np.log(delta))
    values = draw("signs", generator("adaptive"), runs(800), n)
    missed = {
        adversary: misses(values, n_bad, adversary, "greater", tuning.radius, lambda v: soft_pulls(v, 1.0, tuning))
        for adversary in ADVERSARIES
    }
    assert_covers(missed["oblivious"], 0.5, delta)
    assert_fails(missed["adaptive"], 0.5, delta)


# --- the clipped vote -------------------------------------------------------------------------------------

CLIPPED = {
    "variance, normal": (FiniteVariance(1.0), "gaussian"),
    "variance, student": (FiniteVariance(1.0), "student-2.5"),
    "variance, pareto": (FiniteVariance(1.0), "minus-pareto"),
    "variance, often above": (FiniteVariance(1.0), "often above"),
    "variance, rare": (FiniteVariance(1.0), "minus-rare"),
    "sub-gaussian, normal": (SubGaussian(1.0), "gaussian"),
    "sub-gaussian, signs": (SubGaussian(1.0), "signs"),
    "bounded, uniform": (Bounded(-np.sqrt(3), np.sqrt(3)), "uniform"),
    "bounded, signs": (Bounded(-1, 1), "signs"),
    "bounded, rare": (Bounded(-1 / 7, 7.1), "rare"),
    "bounded, mirrored": (Bounded(-7.1, 1 / 7), "minus-rare"),
    "bernstein, rare": (Bounded(-7.1, 1 / 7, variance=1.0), "minus-rare"),
    "bernstein, bernoulli": (Bounded(-0.2, 7.1, variance=1.0), "bernoulli"),
    "kurtosis 3, normal": (FiniteKurtosis(3.0, sd=1.0), "gaussian"),
    "kurtosis 6, laplace": (FiniteKurtosis(6.0, sd=1.0), "laplace"),
    "kurtosis, rare": (FiniteKurtosis(48.03, sd=1.0), "minus-rare"),
}


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("case", CLIPPED)
def test_clipped_radius_covers_the_mean(case, alternative, adversary, delta):
    assume, law = CLIPPED[case]
    values = draw(law, generator("clipped", case, adversary, delta), runs(800), 400)
    assert_covers(clipped_misses(values, 20, delta, adversary, alternative, tail=assume.tail(1)), 0.5, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("case", CLIPPED)
@pytest.mark.parametrize(("n_votes", "n_bad"), [(40, 0), (40, 4)])
def test_clipped_radius_covers_blocks_of_ten(case, n_votes, n_bad, adversary, delta):
    assume, law = CLIPPED[case]
    values = draw(law, generator("clipped", case, n_bad, adversary, delta), runs(600), n_votes, 10)
    assert_covers(clipped_misses(values, n_bad, delta, adversary, tail=assume.tail(10)), 0.5, delta)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("n_votes", "n_bad"), [(30, 0), (100, 5), (100, 20), (1000, 100)])
def test_clipped_radius_covers_two_point_laws(n_votes, n_bad, adversary, delta):
    for u in np.geomspace(0.05, 200, 12):
        rng = generator("two-point", u, n_votes, n_bad, adversary, delta)
        values = two_point(u)(rng, (runs(300), n_votes))
        tail = FiniteVariance(1.0).tail(1)
        assert_covers(clipped_misses(values, n_bad, delta, adversary, tail=tail), 0.5, delta)
        scaled = values / (np.sqrt(u) + 1 / np.sqrt(u))  # two values at distance 1
        assert_covers(clipped_misses(scaled, n_bad, delta, adversary, tail=Bounded(0, 1).tail(1)), 0.5, delta)


@pytest.mark.parametrize("q", [0.02, 0.5, 0.98])
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_clipped_radius_covers_bernoulli_rows(q, adversary):
    values = bernoulli(q)(generator("bernoulli", q, adversary), (runs(800), 500)) * np.sqrt(q * (1 - q))
    for assume in (Bounded(0, 1), Bounded(0, 1, variance=q * (1 - q))):
        assert_covers(clipped_misses(values, 25, 0.1, adversary, tail=assume.tail(1)), 0.5, 0.1)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_clipped_radius_covers_unequal_blocks(adversary):
    sizes = np.arange(5, 46)
    values = SAMPLERS["gaussian"](generator("unequal", adversary), (runs(800), 41)) / np.sqrt(sizes)
    tail = SubGaussian(1.0).tail(sizes)
    assert_covers(clipped_misses(values, 3, 0.1, adversary, tail=tail), 0.5, 0.1)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_clipped_scale_too_large_is_valid_and_too_small_is_caught(adversary):
    n, n_bad, delta = 2000, 200, 0.1
    values = draw("signs", generator("scale", adversary), runs(200), n)
    for scale in (1.0, 2.0):
        missed = clipped_misses(values, n_bad, delta, adversary, "greater", tail=SubGaussian(scale).tail(1))
        assert_covers(missed, 0.5, delta)
    missed = clipped_misses(values, n_bad, delta, adversary, "greater", tail=SubGaussian(0.5).tail(1))
    assert_fails(missed, 0.5, delta)


# --- roots ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", ["often above", "student-2.5"])
@pytest.mark.parametrize("sd", [1.0, 0.5])
def test_votes_agree_with_the_signs_of_the_pulls(law, adversary, sd):
    """Root by root; with outliers at infinity, or just beyond reach, which is as bad."""
    n, n_bad, delta = 200, 20, 0.1
    values = draw(law, generator("roots", law, adversary), 100, n)
    tuning = soft_tuning(n, n_bad, log_delta=np.log(delta), adversary=adversary, alternative="greater")
    missed = soft_misses(values, n_bad, delta, adversary, "greater", sd=sd)
    clipped = clipped_tuning(
        n, n_bad, SubGaussian(sd).tail(1), log_delta=np.log(delta), adversary=adversary, alternative="greater"
    )
    clipped_missed = clipped_misses(values, n_bad, delta, adversary, "greater", tail=SubGaussian(sd).tail(1))
    saturated = max(sd * tuning.radius + sd / (2 * tuning.c * tuning.a), clipped.radius + clipped.tau) + 1e-6
    for to in (np.inf, saturated):
        votes = attacked(values, n_bad, adversary, to)
        roots = np.array([soft_vote(row, sd, tuning) for row in votes])
        assert np.array_equal(roots > sd * tuning.radius, missed > 0.5)
        roots = np.array([clipped_vote(row, clipped.tau) for row in votes])
        assert np.array_equal(roots > clipped.radius, clipped_missed > 0.5)
