"""Differences and ratios of two proportions that hold at every look.

Let u and v be the shares of ones in a and b. Evidence against "v - u = d" bets that v is larger and u smaller, with
stakes that depend on the middle of u and v alone. For a given middle the evidence falls as d rises, so that it speaks
against all smaller differences, too; whatever the middle is, a difference that is ruled out must be for every one. In a
cell of middles each logarithm is taken at its least. For ratios the middle is the geometric one. A small part of the
weight is on a alone, and on b alone, against values of u and v that are far from their shares of ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from outvote.votes.evidence.factors import Floats
from outvote.votes.evidence.interval import EvidenceInterval
from outvote.votes.evidence.proportion import Tally, seen_difference
from outvote.votes.evidence.running import RateEvidence, least_over_cells, rate_stakes, size_weights
from outvote.votes.roots import falling_root
from outvote.votes.terms import Terms

#: Cells that the search begins with.
_CELLS = 128
#: The most that a bet can lose.
_MOST_STAKED = 0.95
#: Weight of the evidence on one sample alone: that u is smaller, and that v is larger, a half each. Both fall as v - u
#: rises, as the evidence on both samples does.
_ALONE = 0.1
#: Ratios beyond this are infinite.
_LARGEST_RATIO = 1e9
#: Ratios come in cells whose ends have this ratio.
_RATIO_CELL = 2 ** (1 / 8)
#: Of the probability of an error of a ratio, this share is for stakes that do not depend on the ratio.
_FIXED = 0.1
#: Ends are found to this share of a standard error.
_PRECISION = 1e-4


class _Joint:
    """Evidence that a difference, or a ratio, of two proportions is larger than some value.

    Parameters
    ----------
    a, b : Tally
        Rows of 0 and 1.
    plan : tuple of float
        How many rows of each are planned.
    price : float
        What one side pays.
    relative : bool
        Whether it is the ratio.
    ratio : float
        About what the ratio is that stakes are for.
    """

    def __init__(
        self, a: Tally, b: Tally, plan: tuple[float, float], price: float, *, relative: bool, ratio: float = 1.0
    ):
        self._relative = relative
        multiples, weights = size_weights()
        self._weights = np.log(weights)[:, None]
        # Rows times stake in a are `ratio` times those in b: then the evidence hardly depends on the middle.
        together = np.sqrt(2 * price / multiples / (ratio**2 / plan[0] + 1 / plan[1]))[:, None]
        self._stakes = [ratio * together / plan[0], together / plan[1]]
        (of_a, _), (of_b, _) = (rate_stakes(n, price) for n in plan)
        self._a, self._b = RateEvidence.of(a, -1, of_a), RateEvidence.of(b, 1, of_b)

    def _both(self, middle: Floats, value: float) -> tuple[Floats, Floats]:
        """Return the shares of ones in a and b, if this is their middle.

        Where there are none, those for the largest smaller value: evidence against that is evidence against all below.
        """
        if self._relative:
            root = math.sqrt(value)
            if value > 1:
                return np.maximum(middle / root, middle * middle), np.minimum(middle * root, 1.0)
            return np.minimum(middle / root, 1.0), middle * root
        low, high = middle - value / 2, middle + value / 2
        if value > 0:
            low, high = np.maximum(low, 2 * middle - 1), np.minimum(high, 2 * middle)
        return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)

    def _rates(self, middle: Floats) -> list[Floats]:
        """Return the stakes on a and b."""
        with np.errstate(divide="ignore"):
            most = np.minimum(1 / np.sqrt(middle * (1 - middle)), _MOST_STAKED / np.maximum(*self._stakes))
        return [stake * most for stake in self._stakes]

    def _logs(self, low: Floats, high: Floats, value: float) -> Floats:
        """Return a lower bound on the log evidence against a value for middles between low and high."""
        (u_low, _), (_, v_high) = self._both(low, value), self._both(high, value)
        ends = [self._rates(low), self._rates(high)]
        turn = np.clip(0.5, low, high)  # stakes are smallest where the middle is 1/2
        inner = self._rates(turn)
        (a_least, a_most), (b_least, b_most) = (
            (np.minimum(inner[s], np.minimum(ends[0][s], ends[1][s])), np.maximum(ends[0][s], ends[1][s]))
            for s in (0, 1)
        )
        joint = _gain(self._a, a_least, a_most, 1 - u_low) + _gain(self._b, b_least, b_most, v_high)
        alone = [self._a.logs(1 - u_low), self._b.logs(v_high)]
        terms = np.concatenate([joint + math.log1p(-_ALONE), *(one + math.log(_ALONE / 2) for one in alone)])
        terms += np.concatenate([self._weights] * 3)
        return np.asarray(np.logaddexp.reduce(terms, axis=0))

    def least(self, value: float) -> float:
        """Return the least evidence against a value and all smaller ones, whatever the middle is, rounded down."""
        # Cells of about as many standard errors, of the middles that there are for this value and smaller ones.
        first = 0.0 if self._relative else max(-value / 2, 0.0)
        last = min(math.sqrt(value), 1.0) if self._relative else 1 - first
        ends = first + (last - first) * np.sin(np.linspace(0, math.pi / 2, _CELLS + 1)) ** 2
        return least_over_cells(lambda low, high: self._logs(low, high, value), ends)


def _gain(evidence: RateEvidence, least: Floats, most: Floats, mean: Floats) -> Floats:
    """Return a lower bound on Σ log(1 + λ(x - μ)) for stakes from `least` to `most`, at the mean μ."""
    return evidence.ones * np.log1p(least * (1 - mean)) + evidence.zeros * np.log1p(-most * mean)


def running_rates(
    a: Tally, b: Tally, terms: Terms, plan: tuple[float, float], *, relative: bool = False, only: int = 0
) -> EvidenceInterval:
    """Return the interval of p_b - p_a, or of p_b/p_a - 1, that holds at every look.

    Parameters
    ----------
    a, b : Tally
        Rows of 0 and 1.
    terms : Terms
        Confidence, adversary and sides.
    plan : tuple of float
        How many rows of each are planned.
    relative : bool
        Whether the ratio is asked for.
    only : int
        1 for the lower end alone, -1 for the upper one.

    Examples
    --------
    >>> found = running_rates(Tally(970, 30, 0), Tally(940, 60, 0), Terms(math.log(0.05)), (1000, 1000))
    >>> round(found.low, 3), round(found.high, 3)
    (0.003, 0.058)
    """
    low, high = -1.0, math.inf if relative else 1.0
    if terms.alternative != "less" and only >= 0:
        low = _end(a, b, terms.price, plan, relative=relative)
    if terms.alternative != "greater" and only <= 0:
        end = _end(b, a, terms.price, (plan[1], plan[0]), relative=relative)
        high = -end if not relative else (math.inf if end <= 1 / _LARGEST_RATIO - 1 else 1 / (1 + end) - 1)
    return EvidenceInterval.around(low, high, seen_difference(a, b, relative=relative))


def _end(a: Tally, b: Tally, price: float, plan: tuple[float, float], *, relative: bool) -> float:
    """Return the lower end of p_b - p_a, or of p_b/p_a - 1.

    A ratio is ruled out by evidence whose stakes are those for equal shares, or by that with stakes for its cell. Each
    has its share of the probability of an error.
    """
    joint = _Joint(a, b, plan, price, relative=relative)
    fixed, own = (price - math.log(_FIXED), price - math.log1p(-_FIXED)) if relative else (price, price)

    def excess(value: float) -> float:  # ratios come as logarithms
        found = joint.least(math.exp(value) if relative else value) - fixed
        return min(max(found, -1e6), 1e6)

    shares = [min(max(one.share, 0.5 / one.n_rows), 1 - 0.5 / one.n_rows) for one in (a, b)]
    errors = [math.sqrt(p * (1 - p) / one.n_rows) for p, one in zip(shares, (a, b), strict=True)]
    if relative:
        middle, bottom, top = math.log(shares[1] / shares[0]), -math.log(_LARGEST_RATIO), math.log(_LARGEST_RATIO)
        error = math.hypot(*(one / p for one, p in zip(errors, shares, strict=True)))
    else:
        middle, bottom, top, error = shares[1] - shares[0], -1.0, 1.0, math.hypot(*errors)
    # A value that is ruled out is with all smaller ones: begin not far from where the end may be.
    low, step = middle - 4 * error, 4 * error
    while (above := excess(max(low, bottom))) < 0:
        if low <= bottom:
            return -1.0  # not even the smallest ratio is ruled out
        low, step = low - step, 2 * step
    low, high = max(low, bottom), max(low, bottom) + step
    while (below := excess(min(high, top))) >= 0 and high < top:
        low, above, high, step = high, below, high + step, 2 * step
    found = min(high, top) if below >= 0 else falling_root(excess, low, high, above, below, _PRECISION * error)[0]
    if not relative:
        return found
    return math.expm1(_through_cells(lambda ratio: _Joint(a, b, plan, price, relative=True, ratio=ratio), found, own))


def _through_cells(joint: Callable[[float], _Joint], start: float, price: float) -> float:
    """Return the logarithm of a ratio below which all are ruled out; all up to `start` are.

    Ratios come in fixed cells, with stakes of their own in each. From `start` on they are looked through upwards.
    """
    step = math.log(_RATIO_CELL)
    while start < math.log(_LARGEST_RATIO):
        k = math.floor(start / step + 1e-9)
        found, end = joint(math.exp((k + 0.5) * step)), (k + 1) * step

        def excess(value: float, found: _Joint = found) -> float:
            return min(max(found.least(math.exp(value)) - price, -1e6), 1e6)

        below = excess(end)
        if below < 0:
            above = excess(start)
            return start if above < 0 else falling_root(excess, start, end, above, below, 1e-6)[0]
        start = end
    return start


def log_evidence_of_rates(
    a: Tally, b: Tally, terms: Terms, plan: tuple[float, float], value: float, sign: int, *, relative: bool = False
) -> float:
    """Return the logarithm of an e-value for "the value is larger" (sign 1), or smaller."""
    if sign < 0:
        value = 1 / (1 + value) - 1 if relative else -value
        a, b, plan = b, a, (plan[1], plan[0])
    return _Joint(a, b, plan, terms.price, relative=relative).least(value + 1 if relative else value)
