"""Coverage of the evidence that survives: exactly for two-point laws, simulated for others; wrong forms are caught.

Corrupt rows may depend on everything, only their positions may not if the adversary is oblivious: the clean rows come
first here, and the corrupt ones after them, at the worst of several places. An adaptive adversary replaces the rows
that hold his side back. A contradiction is a miss, too: all assumptions hold here.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from chance import assert_covers, assert_fails
from scipy import stats
from simulate import LAWS, LONG, bernoulli, generator, two_point

import outvote as ov
from outvote.contamination import Contamination
from outvote.data.missing import ContradictionError
from outvote.estimate.premise import UnknownScale
from outvote.votes.evidence import SortedRows
from outvote.votes.evidence.factors import factors_for, variance_factors
from outvote.votes.evidence.kernel import Atoms

ADVERSARIES = ("oblivious", "adaptive")
ALTERNATIVES = ("two-sided", "less", "greater")
UNIT = ov.FiniteVariance(1.0)
FAR = 1e6


def estimate(x, m, adversary="oblivious", assume=UNIT, delta=0.05, alternative="two-sided", **settings):
    how = {"assume": assume, "vote": "evidence", "alternative": alternative, **settings}
    return ov.mean(x, Contamination(m, adversary), 1 - delta, **how)


def misses(x, m, *terms, **settings):
    """Whether the interval misses 0, the mean of clean rows; a contradiction misses it, too."""
    try:
        interval = estimate(x, m, *terms, **settings).interval
    except ContradictionError:
        return True
    return not interval.low <= 0 <= interval.high


def spoiled(clean, m, adversary, place, side=1):
    """Put the last m rows at a place; an adaptive adversary replaces those farthest on the other side."""
    if adversary == "adaptive":
        clean = np.sort(clean)[::side]
    return np.r_[clean[m:], np.full(m, float(place))]


# --- two-point laws, exactly --------------------------------------------------------------------------------


def worst_of_two_points(n, m, p, adversary, delta, alternative):
    """Return the probability of a miss if a row is high with probability p, and corrupt rows are as bad as they can be.

    Counts of high rows that are rare beyond need count as missed.
    """
    sd = math.sqrt(p * (1 - p))
    high, low = (1 - p) / sd, -p / sd
    n_drawn = n - m if adversary == "oblivious" else n
    at = np.arange(n_drawn + 1)
    mass = stats.binom.pmf(at, n_drawn, p)
    rare = delta / 100
    likely = (stats.binom.cdf(at, n_drawn, p) > rare) & (stats.binom.sf(at - 1, n_drawn, p) > rare)

    def is_missed(k):
        if adversary == "oblivious":
            kept = {(k, n_drawn - k)}
        else:  # turn high rows into others, or low ones
            kept = {(max(k - m, 0), n - m - max(k - m, 0)), (min(k, n - m), n - m - min(k, n - m))}
        places = [-FAR, FAR, 0.0, high, low] if m else [0.0]
        return any(
            misses(np.repeat([high, low, place], [*numbers, m]), m, adversary, UNIT, delta, alternative)
            for numbers in kept
            for place in places
        )

    return sum(mass[k] for k in at if not likely[k] or is_missed(k))


def runs(count):
    """Number of simulations: four times `count` when OUTVOTE_THEORY=long, since each tries many attacks."""
    return 4 * count if LONG else count


SETTINGS = [
    (20, m, adversary, delta, alternative)
    for m, adversary, delta, alternative in itertools.product((0, 1, 3), ADVERSARIES, (0.05, 0.2), ALTERNATIVES)
    if m or adversary == "oblivious"
]
FEW = [(20, 0, "oblivious", 0.05, "greater"), (20, 1, "oblivious", 0.2, "two-sided"), (20, 1, "adaptive", 0.05, "less"),
       (20, 3, "oblivious", 0.05, "less"), (20, 3, "adaptive", 0.2, "two-sided")]  # fmt: skip


@pytest.mark.parametrize(
    ("n", "m", "adversary", "delta", "alternative"),
    SETTINGS + [(n, *rest) for n in (60, 200) for _, *rest in SETTINGS][::7] if LONG else FEW,
)
def test_two_point_laws_exactly(n, m, adversary, delta, alternative):
    for p in (0.005, 0.02, 0.1, 0.35, 0.5, 0.65, 0.9, 0.98, 0.995) if LONG else (0.02, 0.2, 0.5, 0.8):
        assert worst_of_two_points(n, m, p, adversary, delta, alternative) <= delta, p


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_two_point_law_of_more_rows_exactly(adversary):
    """About as many high rows as may be corrupt: the worst case of an adaptive adversary."""
    assert worst_of_two_points(200, 3, 0.02, adversary, 0.2, "two-sided") <= 0.2


# --- other laws ---------------------------------------------------------------------------------------------


def three_points(kurtosis):
    """Symmetric, mean 0 and sd 1, with exactly this kurtosis."""
    return lambda rng, shape: rng.choice([-1, 1], shape) * (rng.random(shape) < 1 / kurtosis) * math.sqrt(kurtosis)


SAMPLERS = {
    **LAWS,
    "exponential": lambda rng, shape: rng.exponential(size=shape) - 1,
    "uniform": lambda rng, shape: rng.uniform(-math.sqrt(3), math.sqrt(3), shape),
    "three points": three_points(5.0),
    "rare three points": three_points(50.0),
    "rare": two_point(49.0),
    "often above": lambda rng, shape: -two_point(4.0)(rng, shape),
}

CASES = {
    "variance, normal": (UNIT, "gaussian"),
    "variance, student": (UNIT, "student-2.5"),
    "variance, pareto": (UNIT, "pareto"),
    "variance, exponential": (UNIT, "exponential"),
    "variance, three points": (UNIT, "rare three points"),
    "variance, rare": (UNIT, "rare"),
    "sub-gaussian, normal": (ov.SubGaussian(1.0), "gaussian"),
    "bounded, uniform": (ov.Bounded(-math.sqrt(3), math.sqrt(3)), "uniform"),
    "bounded, rare": (ov.Bounded(-0.2, 7.2), "rare"),
    "kurtosis and sd, three points": (ov.FiniteKurtosis(5.0, sd=1.0), "three points"),
    "kurtosis and sd, exponential": (ov.FiniteKurtosis(9.0, sd=1.0), "exponential"),
    "kurtosis, normal": (ov.FiniteKurtosis(3.0), "gaussian"),
    "kurtosis, three points": (ov.FiniteKurtosis(5.0), "three points"),
    "kurtosis, exponential": (ov.FiniteKurtosis(9.0), "exponential"),
}


def places(clean, m, adversary, assume, delta):
    """Return places for corrupt rows: far, lurking, at the centre, at the edge of what they had to leave of the means.

    And next to the farthest clean row, and within the bounds if there are some.
    """
    try:
        edge = estimate(clean, m, adversary, assume, delta).interval.high if assume is not None else 0.5
    except ContradictionError:
        edge = 0.5
    edge = edge if math.isfinite(edge) else 1.0
    lurking = [3.0, 0.0, edge - 0.05, edge + 0.05, float(np.abs(clean).max()), 1.5, 10.0]
    both = [FAR, -FAR, *lurking, *(-place for place in lurking)]
    if isinstance(assume, ov.Bounded):
        both += [assume.low, assume.high]
    return dict.fromkeys(both)


def greedily(clean, m, adversary, assume, delta):
    """Return the rows that speak most against 0, the mean, over the places and the sides that an adversary may take."""
    price = math.log(2 / delta)
    if assume is None or isinstance(assume, ov.Bounded):
        factors = variance_factors(len(clean), price, adaptive=False)
    else:
        factors = factors_for(assume, len(clean), price, adaptive=adversary == "adaptive")
    best, worst = -math.inf, clean
    for place in places(clean, m, adversary, assume, delta):
        for side in (1, -1) if adversary == "adaptive" else (1,):
            x = spoiled(clean, m, adversary, place, side)
            within = x
            if isinstance(assume, ov.Bounded):
                within = x[(x >= assume.low) & (x <= assume.high)]
            rows = SortedRows(np.sort(within), m, len(x) - len(within))
            against = max(one.log_evidence(factors, 0.0, 0.0) for one in (rows, rows.mirrored))
            if against > best:
                best, worst = against, x
    return worst


def miss_rates(case, adversary, n, m, delta, n_runs, alternative="two-sided"):
    assume, law = CASES[case]
    rng = generator(case, adversary, n, m, delta, alternative)
    clean = SAMPLERS[law](rng, (n_runs, n))
    attacked = (greedily(x, m, adversary, assume, delta) for x in clean)
    return [misses(x, m, adversary, assume, delta, alternative) for x in attacked]


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("case", CASES)
def test_few_and_more_rows_cover_the_mean(case, adversary):
    for n, m in ((20, 2), (200, 3)):
        assert_covers(miss_rates(case, adversary, n, m, 0.05, runs(10)), 0.05)


@pytest.mark.parametrize("alternative", ["less", "greater"])
@pytest.mark.parametrize("case", ["variance, rare", "kurtosis, exponential"])
def test_one_side_covers_the_mean(case, alternative):
    assert_covers(miss_rates(case, "oblivious", 200, 3, 0.05, runs(10), alternative), 0.05)


# --- nothing declared ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("law", ["gaussian", "exponential", "often above", "rare"])
def test_the_premise_and_a_wrong_interval_are_rare_together(law, adversary):
    """Corrupt rows may raise the premise above the sd, by which it holds, and hide the mean: not both too often."""
    n, m, delta, missed = 200, 10, 0.05, []
    for clean in SAMPLERS[law](generator("premise", law, adversary), (runs(6), n)):
        wrong = False
        for place in (FAR, -FAR, 2.0, -5.0, float(np.abs(clean).max())):
            for side in (1, -1) if adversary == "adaptive" else (1,):
                try:
                    found = estimate(spoiled(clean, m, adversary, place, side), m, adversary, None, delta)
                except UnknownScale:  # nothing is promised of rows that hardly differ
                    assert law == "rare"
                    continue
                assert found.certificate.provenance in ("conditional", "none")
                outside = not found.interval.low <= 0 <= found.interval.high
                wrong |= outside and bool(found.certificate.premise_sd >= 1)
        missed.append(wrong)
    assert_covers(missed, delta)


# --- wrong certificates are caught --------------------------------------------------------------------------


def without_high_rows(rng, n, m, p, place):
    """Rows of a two-point law of which m were replaced, the high ones first."""
    x = np.sort(bernoulli(p)(rng, (n,)))
    x[n - m :] = place
    return x


def test_an_oblivious_certificate_against_an_adaptive_adversary_is_caught():
    n, m, p, delta = 2000, 40, 0.01, 0.05
    rng = generator("adaptive")
    samples = [without_high_rows(rng, n, m, p, -0.1) for _ in range(runs(10))]
    assert_fails([misses(x, m, "oblivious") for x in samples], delta)
    assert_covers([misses(x, m, "adaptive") for x in samples], delta)


def test_evidence_at_one_mean_does_not_rule_out_smaller_ones():
    """Far above all rows the evidence against that one mean is large: it says nothing of the means below."""
    n, m, delta = 400, 4, 0.05
    price = math.log(1 / delta)
    factors = factors_for(UNIT, n, price, adaptive=False)
    far = 3 * factors[0].depth  # the evidence of a mean holds for those down to 2τ below it only
    samples = generator("guard").standard_normal((runs(10), n))
    rows = [SortedRows(np.sort(spoiled(clean, m, "oblivious", FAR)), m) for clean in samples]
    assert_fails([one.log_evidence(factors, far, far) >= price for one in rows], delta)  # "the mean is larger"
    assert_covers([one.log_evidence(factors, -math.inf, far) >= price for one in rows], delta)


def test_evidence_at_one_mean_is_not_monotone():
    rows = SortedRows(np.repeat([7.06, 14.11], 3), 1)
    factors = factors_for(UNIT, 6, math.log(40), adaptive=False)
    means = np.linspace(0.0, 30.0, 301)
    at_points = np.array([rows.log_evidence(factors, mean, mean) for mean in means])
    below = np.array([rows.log_evidence(factors, -math.inf, mean) for mean in means])
    assert np.diff(at_points).max() > 0.1
    assert np.diff(below).max() <= 1e-9
    assert np.all(below <= at_points + 1e-9)


def test_paying_an_adaptive_adversary_for_hidden_rows_alone_is_caught(monkeypatch):
    """Whoever removes the rows that hold the mean up, and leaves NaN in their place, chose them as well."""
    n, m, p, delta = 2000, 30, 0.01, 0.05
    rng = generator("hidden")
    samples = [without_high_rows(rng, n, m, p, math.nan) for _ in range(runs(10))]

    def missed():
        return [misses(x, m, "adaptive", nan_policy="corrupt") for x in samples]

    assert_covers(missed(), delta)
    right = Atoms.of_rows.__func__

    def wrong(cls, table, sizes, k, paid=0):
        return right(cls, table, sizes, k, k)  # of those that were found nothing is paid

    monkeypatch.setattr(Atoms, "of_rows", classmethod(wrong))
    monkeypatch.setattr(SortedRows, "gathered", None)
    assert_fails(missed(), delta)


# --- how wide -----------------------------------------------------------------------------------------------


def extreme_means(x, m):
    """Return the ends of the means of laws with sd ≤ 1 that m corrupt rows could have turned into the rows.

    The law of greatest mean keeps the rows nearest some point: n - m consecutive ones.
    """
    x = np.sort(x)
    kept = len(x) - m
    sums, squares = (np.concatenate([[0.0], np.cumsum(x**power)]) for power in (1, 2))
    means = (sums[kept:] - sums[:-kept]) / kept
    variances = (squares[kept:] - squares[:-kept]) / kept - means**2
    fitting = means[variances <= 1]
    return fitting.min(), fitting.max()


@pytest.mark.parametrize("attack", ["none", "far"])
def test_many_rows_reach_the_limit(attack):
    n, m = (10**6, 10**4) if LONG else (10**5, 10**3)
    x = generator("limit", attack).standard_normal(n)
    if attack == "far":
        x[m:] *= 0.999 / x[m:].std()  # or no law with sd ≤ 1 could be left
        x[:m] = FAR
    interval = estimate(x, m).interval
    assert (interval.low, interval.high) == pytest.approx(extreme_means(x, m), abs=0.005 if LONG else 0.014)


WIDTHS = [
    ("gaussian", UNIT, {}, 0.060),
    ("exponential", UNIT, {}, 0.062),
    ("gaussian", UNIT, {"place": FAR}, 0.035),
    ("gaussian", UNIT, {"place": 5.0}, 0.050),
    ("gaussian", UNIT, {"adversary": "adaptive"}, 0.092),
    ("gaussian", None, {}, 0.085),
    ("exponential", None, {}, 0.085),
    ("exponential", None, {"place": FAR}, 0.050),
    ("exponential", ov.FiniteKurtosis(9.0), {}, 0.066),
    ("exponential", ov.FiniteKurtosis(9.0), {"place": FAR}, 0.036),
    ("exponential", ov.FiniteKurtosis(9.0), {"m": 500}, 0.145),
    *((bernoulli(p), UNIT, {}, 0.080) for p in (0.002, 0.01, 0.05, 0.5)),
]


@pytest.mark.parametrize(("law", "assume", "how", "most"), WIDTHS)
def test_half_widths(law, assume, how, most):
    """At δ = 0.05, for 10 000 rows."""
    how = {"m": 100, "place": None, "adversary": "oblivious"} | how
    x = SAMPLERS.get(law, law)(generator("width", repr(assume)), (10_000,))
    if how["place"] is not None:
        x[: how["m"]] = how["place"]
    interval = estimate(x, how["m"], how["adversary"], assume).interval
    assert (interval.high - interval.low) / 2 <= most


# --- an sd declared too small -------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [None, FAR])
@pytest.mark.parametrize("sd", [1.05, 1.5])
def test_an_sd_declared_too_small_is_noticed_or_does_no_harm(sd, place):
    """No error and a wrong interval: at most one run in ten."""
    rng, silent = generator("too small", sd, place), []
    for _ in range(runs(10)):
        x = rng.normal(0, sd, 10_000)
        if place is not None:
            x[:100] = place
        try:
            interval = estimate(x, 100).interval
        except ContradictionError:
            continue
        silent.append(not interval.low <= 0 <= interval.high)
    assert sum(silent) <= runs(10) / 10
