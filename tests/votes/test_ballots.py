"""Votes of the estimators: which one is taken, on which blocks, with which radius."""

import math

import numpy as np
import pytest

import outvote as ov
from outvote.certificate import radius
from outvote.votes import Terms, at_size, ballot, best_vote

RNG = np.random.default_rng(3)
X = RNG.normal(2.0, 1.0, size=3000)
Y = RNG.normal(3.0, 1.0, size=2500)
KNOWN = ov.FiniteVariance(1.0)
VOTES = ("median", "soft", "clipped")


def terms(assume=KNOWN, degrees=(1,), adversary="oblivious", alternative="two-sided", delta=0.05):
    return Terms(math.log(delta), adversary, alternative, assume, degrees)


@pytest.mark.parametrize("vote", ["soft", "clipped"])
@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_mean_has_the_radius_of_its_vote(vote, adversary, alternative):
    x = X.copy()
    x[:30] = 1e300
    r = ov.mean(x, ov.Contamination(30, adversary), assume=KNOWN, vote=vote, alternative=alternative, rng=0)
    expected = radius(
        n_blocks=r.plan.n_blocks,
        n_corrupt=30,
        block_size=r.plan.block_size,
        confidence=0.95,
        assume=KNOWN,
        vote=vote,
        adversary=adversary,
        alternative=alternative,
    )
    assert r.radius == pytest.approx(expected)
    assert r.plan.vote == vote
    assert r.certificate.provenance == "certified"
    assert abs(r.estimate - 2.0) < r.radius


def test_soft_vote_takes_single_rows_while_they_are_few():
    plan = ov.plan_blocks(10_000, 0.05, vote="soft")
    assert (plan.n_blocks, plan.block_size) == (10_000, 1)
    assert "Every row has a soft vote" in plan.explain()
    long = ov.plan_blocks(10**8, 1e-4, vote="soft")
    assert 50 < long.block_size < 150
    blocks, rows = (at_size("soft", 10**8 // size, 10**4, (size,), terms()).radius for size in (long.block_size, 1))
    assert rows < blocks <= 1.01 * rows
    assert at_size("soft", 10**8 // (2 * long.block_size), 10**4, (2 * long.block_size,), terms()).radius > 1.01 * rows


def test_auto_takes_the_smallest_certified_radius():
    for assume in (
        KNOWN,
        ov.SubGaussian(1.0),
        ov.Bounded(-5, 5),
        ov.Bounded(-5, 5, variance=1.0),
        ov.FiniteKurtosis(3.0, 1.0),
    ):
        for n, bad in ((3000, 3), (3000, 300), (21, 8), (200, 0)):
            auto = ov.plan_blocks(n, bad, assume=assume, vote="auto")
            found = {}
            for vote in VOTES:
                plan = ov.plan_blocks(n, bad, assume=assume, vote=vote)
                found[vote] = at_size(vote, plan.n_blocks, bad, (plan.block_size,), terms(assume)).radius
            ours = at_size(auto.vote, auto.n_blocks, bad, (auto.block_size,), terms(assume)).radius
            assert ours <= min(found.values()) * (1 + 1e-9)
    assert ov.plan_blocks(3000, 300, assume=ov.SubGaussian(1.0), vote="auto").vote in ("soft", "clipped")
    assert ov.plan_blocks(10_000, 10, assume=ov.SubGaussian(1.0), vote="auto").vote == "clipped"
    assert ov.plan_blocks(21, 8, assume=KNOWN, vote="auto").vote == "median"


def test_auto_takes_the_median_without_a_scale():
    assert ov.plan_blocks(3000, 30, vote="auto").vote == "median"
    assert ov.plan_blocks(3000, 30, vote="auto", assume=ov.FiniteKurtosis(3.0)).vote == "median"
    assert ov.u_statistic(X, kernel="variance", n_blocks=101, rng=0).plan.vote == "median"


def test_soft_vote_without_a_scale_is_a_plug_in():
    for assume in (None, ov.FiniteKurtosis(3.0)):
        r = ov.mean(X, 30, vote="soft", assume=assume, rng=0)
        assert r.certificate.provenance == "plug-in"
        assert r.radius == pytest.approx(ov.mean(X, 30, vote="soft", assume=KNOWN, rng=0).radius, rel=0.1)
    assert ov.u_statistic(X, kernel="gini", vote="soft", rng=0).certificate.provenance == "plug-in"


def test_given_number_of_blocks_is_used_by_every_vote():
    for vote in VOTES:
        r = ov.mean(X, 30, assume=KNOWN, vote=vote, n_blocks=101, rng=0)
        assert (r.plan.n_blocks, r.plan.vote, len(r.block_values)) == (101, vote, 101)
    auto = ov.mean(X, 30, assume=KNOWN, vote="auto", n_blocks=101, rng=0)
    assert auto.plan.vote == "median"
    assert ov.mean(X, 30, assume=KNOWN, vote="soft", n_blocks=60, rng=0).certificate.provenance == "none"


def test_soft_vote_without_a_certificate_falls_back_to_the_median():
    r = ov.mean(X[:20], 8, assume=KNOWN, vote="soft", rng=0)
    assert r.radius == math.inf
    assert r.estimate == np.median(r.block_values)
    assert "try vote='auto'" in r.certificate.note


def test_soft_vote_of_u_statistics():
    r = ov.u_statistic(X, kernel="variance", contamination=30, assume=ov.FiniteVariance(2.0), vote="soft", rng=0)
    median = ov.u_statistic(X, kernel="variance", contamination=30, assume=ov.FiniteVariance(2.0), rng=0, vote="median")
    assert r.radius < 0.7 * median.radius
    assert abs(r.estimate - 1.0) < r.radius
    d = ov.u_statistic(X, Y, kernel="auc", contamination=20, grid="diagonal", vote="soft", rng=0)
    assert d.radius < ov.u_statistic(X, Y, kernel="auc", contamination=20, grid="diagonal", rng=0).radius
    assert ov.u_statistic(X, Y, kernel="auc", contamination=20, grid="full", rng=0).plan.vote == "median"
    for n_blocks in ("auto", 41):
        with pytest.raises(ValueError, match="vote='soft' needs independent blocks: use grid='diagonal'"):
            ov.u_statistic(X, Y, kernel="auc", vote="soft", n_blocks=n_blocks)


def test_block_size_search_is_near_the_best():
    for vote in ("soft", "clipped"):
        n, bad, known = 600, 5, terms(ov.Bounded(0, 1), degrees=(2,))
        _, (k,) = best_vote(vote, [n], [bad], known)
        best = min(at_size(vote, n // b, bad, (b,), known).radius for b in range(2, n // (2 * bad + 1)))
        assert at_size(vote, k, bad, (n // k,), known).radius <= 1.01 * best


def test_soft_vote_of_differences():
    r = ov.difference(X, Y, 20, assume=KNOWN, vote="soft", rng=0)
    assert r.plan.vote == "soft"
    assert abs(r.estimate - 1.0) < r.radius < 0.6 * ov.difference(X, Y, 20, assume=KNOWN, rng=0, vote="median").radius
    family = ov.difference(X, Y, 20, assume=KNOWN, vote="soft", function=[lambda z: z, np.tanh], rng=0)
    assert family.certificate.provenance == "certified"


def test_soft_vote_with_one_scale_per_column():
    table = np.stack([X, 100 * X, np.full(len(X), 7.0)], axis=1)
    r = ov.mean(table, 30, assume=[KNOWN, ov.FiniteVariance(100.0), KNOWN], vote="soft", rng=0)
    assert r.estimate[1] == pytest.approx(100 * r.estimate[0])
    assert r.radius[1] == pytest.approx(100 * r.radius[0])
    plug_in = ov.mean(table, 30, vote="soft", rng=0)
    assert plug_in.estimate == pytest.approx(r.estimate, abs=0.5)
    assert plug_in.radius[2] == math.inf


def test_radius_of_unequal_blocks():
    sizes = [np.array([2] * 50 + [20] * 51)]
    for vote in VOTES:
        r = ballot(vote, sizes, [5], terms()).radius
        worst, best = (at_size(vote, 101, 5, (size,), terms()).radius for size in (2, 20))
        assert best < r <= worst
        blocks = {"n_blocks": 101, "n_corrupt": 5, "block_size": sizes[0].tolist()}
        assert radius(**blocks, confidence=0.95, assume=KNOWN, vote=vote) == pytest.approx(r)
    hashed = ov.mean(X, 30, assume=KNOWN, vote="soft", n_blocks=301, partition="hash", rng=0)
    assert hashed.certificate.provenance == "certified"


def test_radius_function_of_every_vote():
    blocks = {"n_blocks": 301, "n_corrupt": 5, "block_size": 10, "confidence": 0.95, "assume": KNOWN}
    found = {vote: radius(**blocks, vote=vote) for vote in VOTES}
    assert radius(**blocks, vote="auto") == min(found.values())
    with pytest.raises(ValueError, match="vote='loud' must be one of 'evidence', 'median', 'soft', 'clipped', 'auto'"):
        radius(**blocks, vote="loud")
    grid = {"n_blocks": (31, 31), "n_corrupt": 1, "block_size": (9, 9), "confidence": 0.95, "assume": ov.Bounded(0, 1)}
    assert radius(**grid, vote="auto", degrees=(1, 1)) == radius(**grid, degrees=(1, 1))
    with pytest.raises(ValueError, match="vote='soft' has no certificate on a full grid"):
        radius(**grid, vote="soft", degrees=(1, 1))
    with pytest.raises(ValueError, match=r"vote='clipped' has no certificate on huber_rate=0.01"):
        radius(n_blocks=31, block_size=9, huber_rate=0.01, confidence=0.95, assume=KNOWN, vote="clipped")


def test_paper_methods_require_the_median():
    with pytest.raises(ValueError, match="method='harmonic' is about the median: with vote='soft' use 'certified'"):
        ov.plan_blocks(1000, 10, method="harmonic", vote="soft")
    assert ov.plan_blocks(1000, 10, method="harmonic", vote="auto").vote == "median"


def test_str_of_a_soft_vote():
    r = ov.mean(X, 30, assume=KNOWN, vote="soft", rng=0)
    assert "soft vote of 3000 rows, allows for 30 corrupt rows" in str(r)
    assert "tuned for 30 corrupt rows" in r.explain()
