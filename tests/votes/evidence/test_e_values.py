"""E-values stay below what the clean rows alone say, written from the definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import logsumexp

import outvote as ov
from outvote.votes.evidence.factors import factors_for
from outvote.votes.evidence.proportion import Tally
from outvote.votes.evidence.running import running_stakes, size_weights
from outvote.votes.evidence.running_rates import _FIXED, _RATIO_CELL, _Joint, running_rates
from outvote.votes.terms import Terms

PRICE, PLAN = math.log(40), 400


def process(assume, rows, mean, sign):
    """Return the log evidence of clean rows against a mean: a weighted sum of products, with nothing dropped."""
    multiples, weights = size_weights()
    logs = []
    if isinstance(assume, ov.Bounded):  # booleans too
        z, m = (rows, mean) if sign > 0 else (1 - rows, 1 - mean)
        if type(assume) is ov.Bounded:
            return logsumexp(
                [math.log(w) + np.sum(np.log1p(a * z) - math.log1p(a * m)) for w, a in running_stakes(PLAN, PRICE)]
            )
        for multiple, weight in zip(multiples, weights, strict=True):
            stake = min(math.sqrt(2 * PRICE / (PLAN * multiple)) / math.sqrt(m * (1 - m)), 0.95 / m)
            logs.append(math.log(weight) + np.sum(np.log1p(stake * (z - m))))
        return logsumexp(logs)
    for multiple, weight in zip(multiples, weights, strict=True):
        for one in factors_for(assume, max(PLAN * multiple, 1.0), PRICE, adaptive=False):
            logs.append(math.log(weight * one.weight) + np.sum(one.logs(sign * (rows - mean)) - one.norm))
    return logsumexp(logs)


CLEAN = {
    "sd": (ov.FiniteVariance(1.0), lambda rng, n: rng.exponential(size=n) - 0.5),
    "bounds": (ov.Bounded(0.0, 1.0), lambda rng, n: rng.beta(2.0, 2.0, size=n)),
    "shares": (ov.Proportion(), lambda rng, n: (rng.random(n) < 0.5).astype(float)),
}


@pytest.mark.parametrize("corrupt", [0, 4])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", CLEAN)
def test_evidence_for_a_claim_is_at_most_that_of_the_clean_rows_against_every_mean_that_contradicts_it(
    kind, sign, corrupt
):
    assume, draw = CLEAN[kind]
    rng = np.random.default_rng(corrupt)
    for n, bound in ((50, 0.4), (400, 0.4), (400, 0.6), (2000, 0.45), (2000, 0.55)):
        rows = draw(rng, n)
        dirty = np.concatenate([rows, np.full(corrupt, 1.0 if sign > 0 else 0.0)])
        claim = f"mean {'>' if sign > 0 else '<'} {bound}"
        found = ov.Monitor(assume, corrupt, 0.95, n_plan=PLAN).update(dirty).e_value(claim)
        against = [process(assume, rows, bound - sign * away, sign) for away in (0.0, 0.001, 0.01, 0.1, 0.3)]
        assert math.log(max(found, 1e-300)) <= min(against) + 1e-6
        if not corrupt and min(against) > 1:  # and not much less, where nothing is dropped
            assert math.log(found) >= min(against) - 2.0


def test_an_e_value_has_the_premise_of_the_interval():
    """Rare large rows were not in the pilot: the sd read off it is far too small, and the interval gives it up."""
    rng = np.random.default_rng(13)
    rows = np.where(rng.random(2000) < 0.04, 10.0, 0.0) + 0.1 * rng.normal(size=2000)
    watched = ov.Monitor(contamination=0.01, n_plan=2000, pilot=50).update(rows)
    assert watched.result().certificate.premise_sd > 1.96
    assert max(watched.e_value("mean > 0.4"), watched.e_value("mean < 0.4")) < 20
    assert watched.e_value("mean > 0.01") >= 1 or watched.interval.low < 0.01
    declared = ov.Monitor(ov.FiniteVariance(0.1), 0.01, n_plan=2000).update(rows)
    with pytest.raises(ValueError, match="contradict"):
        declared.e_value("mean > 0.4")


@pytest.mark.parametrize("assume", [None, ov.FiniteVariance(1.0), ov.Bounded(-10.0, 10.0)])
def test_a_lift_is_of_a_positive_baseline(assume):
    rng = np.random.default_rng(0)
    for baseline in (-2.0, -0.001):
        watched = ov.Monitor(assume, 0, n_plan=1000)
        watched.update(rng.normal(baseline, 1.0, 1000).clip(-10, 10), arm="A")
        watched.update(rng.normal(2.0, 1.0, 1000).clip(-10, 10), arm="B")
        assert watched.e_value("lift > 0") < 20
    watched = ov.Monitor(assume, 0, n_plan=1000)
    watched.update(rng.normal(2.0, 1.0, 1000).clip(-10, 10), arm="A")
    watched.update(rng.normal(3.0, 1.0, 1000).clip(-10, 10), arm="B")
    assert watched.e_value("lift > 0") > 1e6


def test_lifts_of_shares_that_cannot_be():
    rng = np.random.default_rng(0)
    watched = ov.Monitor(n_plan=300).update(rng.random(300) < 0.2, arm="A").update(np.zeros(300, dtype=bool), arm="B")
    assert watched.e_value("lift > -100 %") <= 1
    assert watched.e_value("lift < -100 %") == 0
    assert watched.e_value("lift > -150 %") > 1e300
    watched.update(rng.random(300) < 0.2, arm="B")
    assert watched.e_value("lift > -100 %") > 20


@pytest.mark.parametrize(
    ("a", "b", "plan"),
    [((1980, 20), (70, 30), (1000, 1000)), ((297, 3), (240, 60), (1000, 100)), ((900, 100), (880, 120), (1000, 1000))],
)
def test_a_ratio_of_shares_is_ruled_out_by_one_of_two_tests_that_share_the_error(a, b, plan):
    samples = [Tally(*one, 0) for one in (a, b)]
    low = running_rates(*samples, Terms(math.log(0.5)), plan, relative=True).low
    price, step = Terms(math.log(0.5)).price, math.log(_RATIO_CELL)
    for log_ratio in math.log1p(low) - np.array([1e-3, 0.03, 0.1, 0.3, 1.0]):
        k = math.floor(log_ratio / step)
        fixed = _Joint(*samples, plan, price, relative=True).least(math.exp(log_ratio))
        own = _Joint(*samples, plan, price, relative=True, ratio=math.exp((k + 0.5) * step)).least(math.exp(log_ratio))
        # A later cell rules out the ratios below it, too, by its own stakes at its lower end.
        later = [
            _Joint(*samples, plan, price, relative=True, ratio=math.exp((j + 0.5) * step)).least(math.exp(j * step))
            for j in range(k + 1, math.ceil(math.log1p(low) / step))
        ]
        assert (
            fixed >= price - math.log(_FIXED) - 0.05
            or own >= price - math.log1p(-_FIXED) - 0.05
            or max(later, default=0) >= price
        )
