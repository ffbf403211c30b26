"""E-values of claims about a mean or a difference: how strongly the rows speak for them, at every look.

An e-value of e is evidence that a claim's opposite can produce with probability 1/e at most, however often one looks.
It is the least evidence against all means, or differences, that contradict the claim, rounded down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from outvote.assumptions import Bounded
from outvote.votes.evidence.ends import first_step
from outvote.votes.evidence.factors import Factor
from outvote.votes.evidence.interval import CELL, EvidenceInterval, scale_of
from outvote.votes.evidence.joint import Joint
from outvote.votes.evidence.proportion import Tally
from outvote.votes.evidence.rows import SortedRows, log_sum
from outvote.votes.evidence.running import RateEvidence, rate_stakes, running_factors, running_interval
from outvote.votes.evidence.running_bounded import BoundedDifference, BoundedEvidence
from outvote.votes.evidence.running_rates import log_evidence_of_rates
from outvote.votes.evidence.two_samples import Sample, scales_of
from outvote.votes.roots import times_power_of_two
from outvote.votes.terms import Terms

#: Where the search for the least evidence begins, in first steps from the bound.
_STARTS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
#: No more cells of scales than this are looked at.
_MOST_CELLS = 400
#: Share of the evidence on the spread in that on a mean whose scale is not declared.
_FROM_BELOW = 0.04
#: Weights of the evidence on one mean alone, on either side, and on each scale, beside that on a difference.
_ALONE, _SPREAD = 0.05, 0.02
#: Logarithms of e-values that are tried for what is left of one mean.
_LEVELS = (2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0)


def log_e_of_mean(one: Sample, terms: Terms, bound: float, sign: int) -> float:
    """Return the logarithm of the e-value of "the mean is above the bound" (sign 1), or below it."""
    rows, price, n_plan = one.rows, terms.price, one.size
    if rows.n_values <= rows.droppable and not isinstance(rows, Tally):
        return -math.inf
    if isinstance(rows, Tally):
        stakes, weights = rate_stakes(n_plan, price)
        at = bound if sign > 0 else 1 - bound
        if at >= 1:
            return -math.inf
        logs = RateEvidence.of(rows, sign, stakes).logs(np.array([max(at, 0.0)]))[:, 0]
        return log_sum((logs + np.log(weights)).tolist())
    side = rows if sign > 0 else rows.mirrored
    if isinstance(one.assume, Bounded):
        known = one.assume.scaled(sign)
        return float(BoundedEvidence(side, known, n_plan, price).logs(np.array([sign * bound]))[0])
    factors = running_factors(one.assume, rows.n_rows / n_plan, n_plan, price, adaptive=rows.adaptive)
    if one.assume is not None:
        unit = scale_of(one.assume)
        return _least(side.scaled(1 / unit), factors, sign * bound / unit, price)
    return _least_of_cells(side, factors, sign * bound, one.sd, price)


def _least(rows: SortedRows, factors: Sequence[Factor], bound: float, price: float) -> float:
    """Return a lower bound on the evidence against every mean up to a bound."""
    first = first_step(rows, factors, price)
    found = rows.log_evidence(factors, -math.inf, bound)
    for steps in _STARTS:
        start = bound - steps * first
        far, near = rows.log_evidence(factors, -math.inf, start), rows.log_evidence(factors, start, bound)
        found = max(found, min(far, near))
    return found


def _least_of_cells(rows: SortedRows, factors: Sequence[Factor], bound: float, sd: float, price: float) -> float:
    """Return the same for every scale up to `sd`: in each cell of scales evidence on the spread has a share."""
    if not 0 < sd < math.inf:
        return -math.inf
    exponent = max(math.frexp(sd)[1], -1000)  # whose power of two is a float
    rows, sd = rows.scaled(2.0**-exponent), math.ldexp(sd, -exponent)
    bound = -times_power_of_two(-bound, -exponent)  # rounded up
    if bound == math.inf:
        return -math.inf
    top = math.ceil(math.log(sd) / math.log(CELL) + 1e-9)
    found, spread = math.inf, -math.inf
    for k in range(top, top - _MOST_CELLS, -1):
        scaled = [factor.at_scale(CELL ** (k - 0.5), min(CELL**k, sd)) for factor in factors]
        spread = math.log(_FROM_BELOW) + rows.log_spread_above(bound, CELL**k)
        if spread >= found:
            return found  # so it is in all lower cells: the smaller the scale, the larger the spread
        mean = math.log1p(-_FROM_BELOW) + _least(rows, scaled, bound, price)
        found = min(found, log_sum([mean, spread]))
    return min(found, spread)


def log_e_of_difference(
    a: Sample, b: Sample, terms: Terms, value: float, sign: int, *, lift: float | None = None
) -> float:
    """Return the logarithm of the e-value of "mean(b) - mean(a) is above the value" (sign 1), or below it.

    With `lift` that of "mean(b)/mean(a) - 1 is above it", for a positive mean(a): see `_log_e_of_lift`.
    """
    if lift is not None:
        return _log_e_of_lift(a, b, terms, lift, sign)
    if isinstance(a.rows, Tally) and isinstance(b.rows, Tally):
        return log_evidence_of_rates(a.rows, b.rows, terms, (a.size, b.size), value, sign)
    if any(one.rows.n_values <= one.rows.droppable for one in (a, b)):
        return -math.inf
    if isinstance(a.assume, Bounded) and isinstance(b.assume, Bounded):
        both = (a.rows, b.rows), (a.assume, b.assume), (a.size, b.size)
        return BoundedDifference(*both, terms.price, sign).least(value)
    if not (a.joint and b.joint):
        return -math.inf
    if b.size > a.size:
        return log_e_of_difference(b, a, terms, -value, -sign)
    rows = (a.rows.mirrored, b.rows) if sign > 0 else (a.rows, b.rows.mirrored)
    undeclared = (a.assume is None) + (b.assume is None)
    share = math.log1p(-2 * _ALONE - undeclared * _SPREAD)
    best = -math.inf
    for level in _LEVELS:
        own, scales = _left_at(a, terms, level), scales_of(a, b, level - math.log(_SPREAD))
        if scales is None or not math.isfinite(own.high - own.low):
            break
        found = min(
            Joint(*rows, one.pairs(terms.price), (own.low, own.high), None, -sign).least(-math.inf, sign * value)
            for one in scales
        )
        best = max(best, min(level, found + share))
        if found + share < level:
            break
    return best


def _log_e_of_lift(a: Sample, b: Sample, terms: Terms, lift: float, sign: int) -> float:
    """Return the logarithm of the e-value of "mean(a) is positive, and mean(b)/mean(a) - 1 above the lift", or below.

    If mean(a) is positive, the second part says that mean(b) - (1 + lift)·mean(a) is positive. The claim is false if
    one of its parts is, so its e-value is the smaller one of both.
    """
    times = 1 + lift
    if isinstance(a.rows, Tally) and isinstance(b.rows, Tally):
        if times > 0:
            return log_evidence_of_rates(a.rows, b.rows, terms, (a.size, b.size), lift, sign, relative=True)
        if sign < 0:
            return -math.inf  # no share is less than nothing
        return math.inf if times < 0 else log_e_of_mean(b, terms, 0.0, 1)
    if times <= 0:
        return -math.inf
    known = None if a.assume is None else a.assume.scaled(times)
    turned = replace(a, rows=a.rows.scaled(times), assume=known, sd=a.sd * times)
    found = log_e_of_difference(turned, b, terms, 0.0, sign)
    if isinstance(a.assume, Bounded) and a.assume.low >= 0:
        return found
    return min(found, log_e_of_mean(a, terms, 0.0, 1))


def _left_at(a: Sample, terms: Terms, level: float) -> EvidenceInterval:
    """Return the means of a against which its own evidence, by its weight, is below a level, and a little more."""
    at = replace(terms, log_delta=math.log(_ALONE) - level, alternative="two-sided")
    own = running_interval(a.rows, a.assume, a.sd, at, a.size, terms.price)
    return own if own.low <= own.high else EvidenceInterval.between(own.high, own.low)
