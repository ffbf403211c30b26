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
from chance import assert_covers, assert_fails
from scipy import stats
from simulate import LONG, generator

import outvote as ov
from outvote.contamination import Contamination
from outvote.estimate.compared import read_compared
from outvote.estimate.request import Request
from outvote.votes import VoteName
from outvote.votes.evidence.factors import VarianceFactor
from outvote.votes.evidence.ratio import Cells, RatioRows

FAR, DELTA = 1e6, 0.05
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


def missed(samples, truth, m, assume=None, relative=False, **metric):
    """Whether the truth is ruled out; rows that contradict what is true miss it, too."""
    request = Request.read(Contamination((m, 0)), 1 - DELTA, vote="auto", votes=VoteName, n_samples=2)
    weighed = read_compared(samples, request, assume, **metric).weigh(request.allowed, request.terms, relative=relative)
    for sign in (1, -1):
        found = weighed.interval(m, only=sign, beyond=truth)
        if found.empty or (found.low > truth if sign > 0 else found.high < truth):
            return True
    return False


def misses(law, n, m, count, *, assume=True, relative=False):
    found = []
    truth = RATIOS[1] / RATIOS[0] - 1 if relative else RATIOS[1] - RATIOS[0]
    attacks = list(itertools.product(PLACES, (0, 1))) if m else [(PLACES[0], 0)]
    for seed in range(runs(count)):
        rng = generator(law, n, m, assume, relative, seed)
        clean = [users(law, rng, n, ratio) for ratio in RATIOS]
        known = [ov.FiniteVariance(sd) for _, sd in clean] if assume else None
        wrong = False
        step = 2 if LONG else 8
        for place, arm in attacks[seed % step :: step] or attacks:  # a different part of them each time
            samples = [rows.copy() for rows, _ in clean]
            samples[arm][n - m :] = place(RATIOS[arm], m)
            wrong = wrong or missed(samples, truth, m, known, relative, ratio=True)
        found.append(wrong)
    return found


@pytest.mark.parametrize(
    ("law", "relative"),
    [("normal", False), ("rare", True), ("minus rare", False), ("heavy", True), ("clicks", False), ("buyers", True)],
)
def test_differences_of_ratios_hold_whatever_the_corrupt_rows_are(law, relative):
    assert_covers(misses(law, 40, 2, 8, relative=relative), DELTA)


@pytest.mark.parametrize("law", ["normal", "clicks"])
def test_differences_of_ratios_hold_without_corrupt_rows(law):
    assert_covers(misses(law, 40, 0, 12), DELTA)


@pytest.mark.parametrize("law", ["normal", "heavy", "clicks"])
def test_premises_of_ratios_mostly_hold(law):
    assert_covers(misses(law, 60, 1, 6, assume=False), DELTA)


def test_an_adversary_who_saw_the_rows():
    """He takes the users that hold his side back; the certificate against a blind one fails, his own holds."""
    n, m, wrong = 1500, 150, {"oblivious": [], "adaptive": []}
    for seed in range(runs(6)):
        rng = generator("adaptive ratio", seed)
        samples = [users("normal", rng, n, ratio)[0] for ratio in RATIOS]
        for side, rows, ratio in zip((-1, 1), samples, RATIOS, strict=True):
            order = np.argsort(side * (rows[:, 1] - ratio * rows[:, 0]))
            rows[order[:m]] = [1.0, ratio + side * 1.3]
        for adversary, found in wrong.items():
            allowed = Contamination((m, m), adversary)
            low, high = ov.difference(*samples, allowed, 0.9, ov.FiniteVariance(1.0), ratio=True).interval
            found.append(not low <= RATIOS[1] - RATIOS[0] <= high)
    assert_covers(wrong["adaptive"], 0.1)
    assert_fails(wrong["oblivious"], 0.05)


def test_bounded_ratios_hold():
    truth = [_clicks_below(30, ratio) for ratio in RATIOS]
    found = []
    for seed in range(runs(12)):
        rng = generator("bounded ratio", seed)
        samples = [np.minimum(users("clicks", rng, 60, ratio)[0], 30.0) for ratio in RATIOS]
        samples[seed % 2][-2:] = [(1.0, 30.0), (30.0, 0.0)][seed // 2 % 2]
        found.append(missed(samples, truth[1] - truth[0], 2, (ov.Bounded(0, 30), ov.Bounded(0, 30)), ratio=True))
    assert_covers(found, DELTA)


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


@pytest.mark.parametrize("coefficient", [0.8, None])
def test_adjusted_differences_hold(coefficient):
    """What stands in corrupt rows that are held out may not depend on the others: it is the same every time."""
    n, m, found = 100, 3, []
    for seed in range(runs(10)):
        rng = generator("adjusted", coefficient, seed)
        before = rng.exponential(size=(2, n))
        values = 3.0 + 0.8 * before + 0.6 * rng.normal(size=(2, n)) + [[0.0], [0.5]]
        wrong = False
        for place, x in ((FAR, 0.0), (-FAR, 5.0), (9.0, 0.0), (-3.0, 4.0)):
            samples, covariates = ([one.copy() for one in both] for both in (values, before))
            samples[seed % 2][-m:], covariates[seed % 2][-m:] = place, x
            known = {"covariate": covariates, "coefficient": coefficient}
            wrong = wrong or missed(samples, 0.5, m, ov.FiniteVariance(0.75), **known)
        found.append(wrong)
    assert_covers(found, DELTA)


# --- several comparisons at once, and rows that are not independent ------------------------------------------


def test_all_comparisons_hold_at_once():
    """Four arms, six comparisons: all hold with one confidence, or each does with its own."""
    wrong = {True: [], False: []}
    for seed in range(runs(5)):
        rows = pd.DataFrame({"v": generator("many", seed).exponential(size=120), "k": np.repeat(list("ABCD"), 30)})
        for simultaneous, found in wrong.items():
            how = {"assume": ov.FiniteVariance(1.0), "value": "v", "by": "k", "simultaneous": simultaneous}
            table = ov.difference(rows, contamination=0, confidence=1 - DELTA, **how)
            found.append(((table["low"] > 0) | (table["high"] < 0)).any())
    assert sum(wrong[True]) <= sum(wrong[False])
    assert_covers(wrong[True], DELTA)


def test_rows_of_users_must_be_added_up():
    """Sixty rows of each user that hardly differ pretend to be sixty times as many users."""
    wrong = {None: [], "user": []}
    for seed in range(runs(6)):
        rng = generator("users", seed)
        frame = pd.DataFrame({"user": np.repeat(np.arange(20), 60), "arm": np.repeat(["A", "B"], 600)})
        frame["v"] = np.repeat(rng.normal(size=20), 60) + 0.1 * rng.normal(size=1200)
        for unit, found in wrong.items():
            how = {"assume": ov.FiniteVariance(1.05 if unit is None else 63.0), "value": "v", "by": "arm"}
            (line,) = ov.difference(frame, contamination=0, confidence=0.99, unit=unit, **how).itertuples()
            found.append(not line.low <= 0 <= line.high)
    assert_covers(wrong["user"], 0.01)
    assert_fails(wrong[None], 0.01)
