"""Coverage of ratios, adjusted differences and several comparisons at once; wrong forms are caught.

Corrupt rows are the last ones of an arm, at the worst of several places, which may depend on everything: far out on
either side, with a huge denominator that points at a ratio near the true one, or without any denominator.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from simulate import LONG, generator, miss_rate_allowed

import outvote as ov
from outvote.contamination import Contamination
from outvote.estimate.compared import read_compared
from outvote.estimate.request import Request
from outvote.votes import VoteName
from outvote.votes.evidence.factors import VarianceFactor
from outvote.votes.evidence.ratio import Cells, RatioRows

FAR = 1e6
RATIOS = (0.3, 0.45)


def runs(count):
    """Number of simulations: three times `count` when OUTVOTE_THEORY=long."""
    return 3 * count if LONG else count


def gaps(law, rng, n):
    """Gaps with mean 0 and sd 1."""
    if law == "normal":
        return rng.normal(size=n)
    p = 0.03
    rare = ((rng.random(n) < p) - p) / math.sqrt(p * (1 - p))
    return rare if law == "rare" else -rare


def users(law, rng, n, ratio):
    """Denominators and numerators, and the sd of numerator - ratio·denominator."""
    if law == "clicks":
        views = rng.geometric(0.2, n).astype(float)
        return np.column_stack([views, rng.binomial(views.astype(int), ratio)]), math.sqrt(5 * ratio * (1 - ratio))
    if law == "buyers":  # one in ten buys, for more if he came more often
        visits = rng.lognormal(0.0, 0.7, n)
        spent = np.where(rng.random(n) < 0.1, rng.exponential(10 * ratio, n) * visits, 0.0)
        return np.column_stack([visits, spent]), ratio * math.sqrt(math.exp(2 * 0.49) * 19)
    sessions = rng.pareto(2.2, n) + 0.1 if law == "heavy" else rng.poisson(2.0, n) + 1.0
    law = "normal" if law == "heavy" else law
    return np.column_stack([sessions, ratio * sessions + gaps(law, rng, n)]), 1.0


PLACES = [
    lambda ratio, m: (1.0, FAR), lambda ratio, m: (1.0, -FAR), lambda ratio, m: (FAR, 0.0), lambda ratio, m: (0.0, FAR),
    lambda ratio, m: (1e7, 1e7 * (ratio + 0.05)), lambda ratio, m: (1e7, 1e7 * (ratio - 0.05)),
    lambda ratio, m: (40.0, 40.0 * ratio - 6.0), lambda ratio, m: (1.0, 5.0),
]  # fmt: skip


def missed(samples, truth, m, delta, assume=None, relative=False, **metric):
    """Whether the truth is ruled out; rows that contradict what is true miss it, too."""
    request = Request.read(Contamination((m, 0)), 1 - delta, vote="auto", votes=VoteName, n_samples=2)
    weighed = read_compared(samples, request, assume, **metric).weigh(request.allowed, request.terms, relative=relative)
    for sign in (1, -1):
        found = weighed.interval(m, only=sign, beyond=truth)
        if found.empty or (found.low > truth if sign > 0 else found.high < truth):
            return True
    return False


def miss_rate(law, n, m, delta, count, *, assume, relative=False):
    misses = 0
    for seed in range(count):
        rng = generator(law, n, m, assume, relative, seed)
        clean = [users(law, rng, n, ratio) for ratio in RATIOS]
        known = [ov.FiniteVariance(sd) for _, sd in clean] if assume else None
        truth = RATIOS[1] / RATIOS[0] - 1 if relative else RATIOS[1] - RATIOS[0]
        attacks = list(itertools.product(PLACES, (0, 1))) if m else [(PLACES[0], 0)]
        if m:  # a different part of them each time
            step = 2 if LONG else 4
            attacks = attacks[seed % step :: step]
        for place, arm in attacks:
            samples = [rows.copy() for rows, _ in clean]
            samples[arm][n - m :] = place(RATIOS[arm], m)
            if missed(samples, truth, m, delta, known, relative, ratio=True):
                misses += 1
                break
    return misses / count


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("law", ["normal", "rare", "minus rare", "heavy", "clicks", "buyers"])
def test_differences_of_ratios_hold_whatever_the_corrupt_rows_are(law, relative):
    delta, count = 0.2, runs(12)
    assert miss_rate(law, 50, 2, delta, count, assume=True, relative=relative) <= miss_rate_allowed(delta, count)


@pytest.mark.parametrize("law", ["normal", "rare", "clicks"])
def test_differences_of_ratios_hold_without_corrupt_rows(law):
    delta, count = 0.2, runs(40)
    assert miss_rate(law, 80, 0, delta, count, assume=True) <= miss_rate_allowed(delta, count)


@pytest.mark.parametrize("law", ["normal", "heavy", "clicks"])
def test_premises_of_ratios_mostly_hold(law):
    delta, count = 0.2, runs(10)
    assert miss_rate(law, 120, 1, delta, count, assume=False) <= miss_rate_allowed(delta, count)


def test_an_adversary_who_saw_the_rows():
    """He takes the users that hold his side back; the certificate against a blind one fails, his own holds."""
    delta, n, m, count = 0.1, 4000, 400, runs(6)
    wrong = {"oblivious": 0, "adaptive": 0}
    for seed in range(count):
        rng = generator("adaptive ratio", seed)
        samples = [users("normal", rng, n, ratio)[0] for ratio in RATIOS]
        for side, rows, ratio in zip((-1, 1), samples, RATIOS, strict=True):
            order = np.argsort(side * (rows[:, 1] - ratio * rows[:, 0]))
            rows[order[:m]] = [1.0, ratio + side * 1.3]
        for adversary in wrong:
            found = ov.difference(
                *samples, Contamination((m, m), adversary), 1 - delta, ov.FiniteVariance(1.0), ratio=True
            ).interval  # fmt: skip
            wrong[adversary] += not found.low <= RATIOS[1] - RATIOS[0] <= found.high
    assert wrong["adaptive"] / count <= miss_rate_allowed(delta, count)
    assert wrong["oblivious"] / count > miss_rate_allowed(delta, count)


def test_bounded_ratios_hold():
    delta, count, misses = 0.2, runs(25), 0
    for seed in range(count):
        rng = generator("bounded ratio", seed)
        samples = [np.minimum(users("clicks", rng, 100, ratio)[0], 30.0) for ratio in RATIOS]
        truth = [_clicks_below(30, ratio) for ratio in RATIOS]
        for place in ((1.0, 30.0), (30.0, 0.0)):
            attacked = [rows.copy() for rows in samples]
            attacked[seed % 2][-2:] = place
            assume = (ov.Bounded(0, 30), ov.Bounded(0, 30))
            if missed(attacked, truth[1] - truth[0], 2, delta, assume, ratio=True):
                misses += 1
                break
    assert misses / count <= miss_rate_allowed(delta, count)


def _clicks_below(most, ratio):
    """The ratio of the means of clicks and views that are cut at a bound."""
    views = np.arange(1, 400)
    chances = 0.2 * 0.8 ** (views - 1)
    clicks = np.array([np.minimum(v * ratio, most) if v <= most else _cut_binomial(v, ratio, most) for v in views])
    return float(chances @ clicks) / float(chances @ np.minimum(views, most))


def _cut_binomial(n, p, most):
    k = np.arange(n + 1)
    return float(stats.binom.pmf(k, n, p) @ np.minimum(k, most))


# --- the evidence itself, exactly ---------------------------------------------------------------------------


LAWS_OF_A_USER = [  # (denominator, numerator, chance); the ratio of the means is 1/2 in each
    [(1.0, 0.0, 0.5), (3.0, 2.0, 0.5)],
    [(0.0, 0.0, 0.3), (1.0, 0.0, 0.35), (2.0, 1.5, 0.35)],
    [(1.0, 0.2, 0.8), (4.0, 2.96, 0.2)],
]


@pytest.mark.parametrize("law", LAWS_OF_A_USER)
@pytest.mark.parametrize("m", [0, 1])
@pytest.mark.parametrize("factor", [(0.3, 2.0), (0.9, 0.9), (0.05, 30.0)])
def test_expected_evidence_against_the_truth_is_at_most_one(law, m, factor):
    """All outcomes of four users, the last of whom says whatever hurts most if one may be corrupt."""
    table = np.array(law)
    ratio = float(table[:, 1] @ table[:, 2]) / float(table[:, 0] @ table[:, 2])
    gap = table[:, 1] - ratio * table[:, 0]
    sd = math.sqrt(float(gap**2 @ table[:, 2]))
    bet = VarianceFactor(*factor, sd=sd)
    worst = [(1.0, FAR), (FAR, 0.0), (1.0, ratio - bet.depth), (0.0, 3.0), (1e9, 1e9 * ratio - bet.depth)]
    expected = {1: 0.0, -1: 0.0}
    for outcome in itertools.product(range(len(law)), repeat=4 - m):
        clean, chance = table[list(outcome), :2], math.prod(table[list(outcome), 2])
        for side in expected:
            evidence = []
            for more in worst if m else [None]:
                rows = clean if more is None else np.vstack([clean, more])
                sided = RatioRows(Cells.of(rows[:, 1].copy(), rows[:, 0].copy()), m)
                sided = sided if side > 0 else sided.mirrored
                evidence.append(math.exp(sided.log_product(bet, side * ratio, side * ratio)))
            expected[side] += chance * max(evidence)
    assert max(expected.values()) <= 1 + 1e-9


# --- adjusted differences -----------------------------------------------------------------------------------


def arms(rng, n, effect):
    before = rng.exponential(size=(2, n))
    values = 3.0 + 0.8 * before + 0.6 * rng.normal(size=(2, n))
    values[1] += effect
    return values, before


@pytest.mark.parametrize("coefficient", [0.8, None])
def test_adjusted_differences_hold(coefficient):
    """What stands in corrupt rows that are held out may not depend on the others: it is the same every time."""
    delta, count, n, m, misses = 0.2, runs(25), 100, 3, 0
    for seed in range(count):
        rng = generator("adjusted", coefficient, seed)
        values, before = arms(rng, n, 0.5)
        bad = False
        for place, x in ((FAR, 0.0), (-FAR, 5.0), (9.0, 0.0), (-3.0, 4.0)):
            samples, covariates = ([one.copy() for one in both] for both in (values, before))
            samples[seed % 2][-m:], covariates[seed % 2][-m:] = place, x
            bad = bad or missed(
                samples, 0.5, m, delta, ov.FiniteVariance(0.75), covariate=covariates, coefficient=coefficient
            )
        misses += bad
    assert misses / count <= miss_rate_allowed(delta, count)


# --- several comparisons at once, and rows that are not independent ------------------------------------------


def test_all_comparisons_hold_at_once():
    delta, count, wrong = 0.2, runs(4), {True: 0, False: 0}
    for seed in range(count):
        rng = generator("simultaneous", seed)
        samples = {name: rng.exponential(size=60) for name in "ABCDE"}
        rows = [{"v": value, "k": name} for name, values in samples.items() for value in values]
        for simultaneous in wrong:
            table = ov.difference(
                pd.DataFrame(rows), contamination=0, confidence=1 - delta, assume=ov.FiniteVariance(1.0), value="v",
                by="k", simultaneous=simultaneous,
            )  # fmt: skip
            wrong[simultaneous] += bool(((table["low"] > 0) | (table["high"] < 0)).any())
    assert wrong[True] <= wrong[False]
    assert wrong[True] / count <= miss_rate_allowed(delta, count)


def test_rows_of_users_must_be_added_up():
    """Twenty rows of each user that hardly differ pretend to be twenty times as many users."""
    delta, count, wrong = 0.1, runs(12), {None: 0, "user": 0}
    for seed in range(count):
        rng = generator("users", seed)
        arm, level = np.repeat(["A", "B"], 60), rng.normal(size=120)
        frame = pd.DataFrame({"user": np.repeat(np.arange(120), 20), "arm": np.repeat(arm, 20)})
        frame["v"] = np.repeat(level, 20) + 0.1 * rng.normal(size=2400)
        for unit in wrong:
            sd = 1.05 if unit is None else 21.0
            (line,) = ov.difference(
                frame, contamination=0, confidence=1 - delta, assume=ov.FiniteVariance(sd), value="v", by="arm",
                unit=unit,
            ).itertuples()  # fmt: skip
            wrong[unit] += not line.low <= 0 <= line.high
    assert wrong["user"] / count <= miss_rate_allowed(delta, count)
    assert wrong[None] / count > miss_rate_allowed(delta, count)
