"""Coverage of the soft and the clipped vote; wrong scales are caught.

A corrupt vote pulls with its whole strength from anywhere beyond the reach of the vote, so +∞ is as bad as a vote can
be; an adaptive adversary gains most by replacing the votes that pull the other way hardest. The root is above
θ + r just if the pulls add up to a positive number there, which is checked for all runs at once.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from chance import assert_covers, assert_fails
from simulate import LAWS, bernoulli, generator, runs, two_point

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


def attacked(values, n_bad, adversary, to=np.inf):
    """Votes after `n_bad` went up to `to`: the last ones, or those that pulled down hardest."""
    clean = values if adversary == "oblivious" else -np.sort(-values, axis=1)
    return np.hstack([clean[:, : values.shape[1] - n_bad], np.full((len(values), n_bad), to)])


def soft_pulls(values, sd, tuning):
    with np.errstate(over="ignore"):
        return psi(tuning.a / sd * values, tuning.c).sum(axis=1)


def misses(values, n_bad, adversary, alternative, radius, pulls):
    """Whether the outliers can carry the root further than the radius from 0."""
    assert np.isfinite(radius)
    off = np.zeros(len(values), dtype=bool)
    if alternative != "less":
        off |= pulls(attacked(values, n_bad, adversary) - radius) >= 0
    if alternative != "greater":
        off |= pulls(attacked(-values, n_bad, adversary) - radius) >= 0
    return off


def soft_misses(values, n_bad, delta, adversary, alternative="two-sided", sd=1.0):
    tuning = soft_tuning(values.shape[1], n_bad, log_delta=np.log(delta), adversary=adversary, alternative=alternative)
    return misses(values, n_bad, adversary, alternative, sd * tuning.radius, lambda v: soft_pulls(v, sd, tuning))


def clipped_misses(values, n_bad, delta, adversary, alternative="two-sided", *, tail):
    how = {"log_delta": np.log(delta), "adversary": adversary, "alternative": alternative}
    tuning = clipped_tuning(values.shape[1], n_bad, tail, **how)
    tau = tuning.tau
    return misses(values, n_bad, adversary, alternative, tuning.radius, lambda v: np.clip(v, -tau, tau).sum(axis=1))


# --- the soft vote ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", [*LAWS, "often above", "very often above"])
def test_soft_radius_covers_rows_and_blocks(law, adversary):
    rng = generator("soft", law, adversary)
    values = SAMPLERS[law](rng, (runs(400), 400))
    for alternative in ALTERNATIVES:
        assert_covers(soft_misses(values, 20, 0.1, adversary, alternative), 0.1)
    blocks = SAMPLERS[law](rng, (runs(400), 40, 10)).mean(axis=2)
    for n_bad in (0, 4):
        assert_covers(soft_misses(blocks, n_bad, 0.1, adversary, sd=np.sqrt(0.1)), 0.1)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("n_votes", "n_bad"), [(30, 0), (100, 5), (100, 25), (1000, 100)])
def test_soft_radius_covers_two_point_laws(n_votes, n_bad, adversary):
    """Over a range of two-point laws, on both sides: those are the ones that meet the information limit."""
    for u in np.geomspace(0.05, 200, 6):
        values = two_point(u)(generator("two-point", u, n_votes, n_bad, adversary), (runs(200), n_votes))
        for delta in DELTAS:
            assert_covers(soft_misses(values, n_bad, delta, adversary), delta)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_soft_radius_covers_unequal_blocks(adversary):
    """Outliers hit the largest blocks, the last ones."""
    n_bad = 6
    for sizes in ([1] * 31 + [100] * 10, list(range(1, 42))):
        sds = 1 / np.sqrt(np.array(sizes))
        sd = soft_scale(sds, n_bad, adversary)
        for u in (0.25, 1.0, 4.0, 25.0):
            values = two_point(u)(generator("unequal", sizes, adversary), (runs(400), 41)) * sds
            assert_covers(soft_misses(values, n_bad, 0.1, adversary, sd=sd), 0.1)


def test_wrong_soft_votes_are_caught():
    """Of a scale that is too small, or against an adversary who was not reckoned with."""
    n, n_bad, delta = 1000, 100, 0.1
    for adversary in ADVERSARIES:
        values = SAMPLERS["often above"](generator("scale", adversary), (runs(200), n))
        assert_covers(soft_misses(values, n_bad, delta, adversary, "greater"), delta)
        assert_covers(soft_misses(values, n_bad, delta, adversary, "greater", sd=2.0), delta)
        assert_fails(soft_misses(values, n_bad, delta, adversary, "greater", sd=0.5), delta)
    tuning = soft_tuning(n, n_bad, log_delta=np.log(delta))
    values = SAMPLERS["signs"](generator("adaptive"), (runs(200), n))
    one_sided = ("greater", tuning.radius, lambda v: soft_pulls(v, 1.0, tuning))
    assert_covers(misses(values, n_bad, "oblivious", *one_sided), delta)
    assert_fails(misses(values, n_bad, "adaptive", *one_sided), delta)


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


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("case", CLIPPED)
def test_clipped_radius_covers_rows_and_blocks(case, adversary):
    (assume, law), rng = CLIPPED[case], generator("clipped", case, adversary)
    values = SAMPLERS[law](rng, (runs(400), 400))
    for alternative in ALTERNATIVES:
        assert_covers(clipped_misses(values, 20, 0.1, adversary, alternative, tail=assume.tail(1)), 0.1)
    blocks = SAMPLERS[law](rng, (runs(400), 40, 10)).mean(axis=2)
    for n_bad in (0, 4):
        assert_covers(clipped_misses(blocks, n_bad, 0.1, adversary, tail=assume.tail(10)), 0.1)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("n_votes", "n_bad"), [(30, 0), (100, 5), (100, 20), (1000, 100)])
def test_clipped_radius_covers_two_point_laws(n_votes, n_bad, adversary):
    for u, delta in itertools.product(np.geomspace(0.05, 200, 6), DELTAS):
        values = two_point(u)(generator("two-point", u, n_votes, n_bad, adversary), (runs(200), n_votes))
        assert_covers(clipped_misses(values, n_bad, delta, adversary, tail=FiniteVariance(1.0).tail(1)), delta)
        scaled = values / (np.sqrt(u) + 1 / np.sqrt(u))  # two values at distance 1
        assert_covers(clipped_misses(scaled, n_bad, delta, adversary, tail=Bounded(0, 1).tail(1)), delta)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_clipped_radius_covers_bernoulli_rows_and_unequal_blocks(adversary):
    for q in (0.02, 0.5, 0.98):
        values = bernoulli(q)(generator("bernoulli", q, adversary), (runs(400), 500)) * np.sqrt(q * (1 - q))
        for assume in (Bounded(0, 1), Bounded(0, 1, variance=q * (1 - q))):
            assert_covers(clipped_misses(values, 25, 0.1, adversary, tail=assume.tail(1)), 0.1)
    sizes = np.arange(5, 46)
    values = SAMPLERS["gaussian"](generator("unequal", adversary), (runs(400), 41)) / np.sqrt(sizes)
    assert_covers(clipped_misses(values, 3, 0.1, adversary, tail=SubGaussian(1.0).tail(sizes)), 0.1)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_clipped_scale_too_large_is_valid_and_too_small_is_caught(adversary):
    n, n_bad, delta = 2000, 200, 0.1
    values = SAMPLERS["signs"](generator("scale", adversary), (runs(100), n))
    for scale, check in ((1.0, assert_covers), (2.0, assert_covers), (0.5, assert_fails)):
        tail = SubGaussian(scale).tail(1)
        check(clipped_misses(values, n_bad, delta, adversary, "greater", tail=tail), delta)


# --- roots ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", ["often above", "student-2.5"])
def test_votes_agree_with_the_signs_of_the_pulls(law, adversary):
    """Root by root; with outliers at infinity, or just beyond reach, as bad. Half the sd: misses are common."""
    n, n_bad, delta, sd = 200, 20, 0.1, 0.5
    values, how = SAMPLERS[law](generator("roots", law, adversary), (50, n)), {"adversary": adversary}
    how |= {"log_delta": np.log(delta), "alternative": "greater"}
    tuning, clipped = soft_tuning(n, n_bad, **how), clipped_tuning(n, n_bad, SubGaussian(sd).tail(1), **how)
    missed = soft_misses(values, n_bad, delta, adversary, "greater", sd=sd)
    clipped_missed = clipped_misses(values, n_bad, delta, adversary, "greater", tail=SubGaussian(sd).tail(1))
    saturated = max(sd * tuning.radius + sd / (2 * tuning.c * tuning.a), clipped.radius + clipped.tau) + 1e-6
    for to in (np.inf, saturated):
        votes = attacked(values, n_bad, adversary, to)
        roots = np.array([soft_vote(row, sd, tuning) for row in votes])
        assert np.array_equal(roots > sd * tuning.radius, missed)
        roots = np.array([clipped_vote(row, clipped.tau) for row in votes])
        assert np.array_equal(roots > clipped.radius, clipped_missed)
