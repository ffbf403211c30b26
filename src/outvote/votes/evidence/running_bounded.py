"""Means of rows with bounds, and their differences, at every look.

If mean(a) is u, then "the difference is d" says that mean(b) is u + d. Evidence that mean(a) is smaller than u rises
with u, evidence that mean(b) is larger than u + d falls; so in a cell of u their product is at least that of both at
their least. A part of the weight of either is on a stake that never bets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from outvote.assumptions import Bounded
from outvote.votes.evidence.factors import Floats
from outvote.votes.evidence.interval import EvidenceInterval
from outvote.votes.evidence.rows import SortedRows
from outvote.votes.evidence.running import least_over_cells, running_stakes
from outvote.votes.roots import falling_root
from outvote.votes.terms import Terms

#: Cells of mean(a) that the search begins with, and the weight of a stake that never bets.
_CELLS, _NEVER = 128, 0.1
#: Ends are found to this share of the width of the bounds.
_PRECISION = 1e-9


class BoundedEvidence:
    """Evidence that the mean of rows with bounds is larger than some number.

    Parameters
    ----------
    rows : SortedRows
        The rows.
    assume : Bounded
        Their bounds.
    n_plan, price : float
        How many rows are planned, and what one side pays: they fix the stakes.
    """

    def __init__(self, rows: SortedRows, assume: Bounded, n_plan: float, price: float):
        self._low, self._width = assume.low, assume.width
        stakes, self._enough = running_stakes(n_plan, price), rows.n_values > rows.droppable
        self._weights, self._stakes = (np.array(one)[:, None] for one in zip(*stakes, strict=True))
        self._n_paid = rows.n_rows if rows.adaptive else rows.n_values - rows.droppable
        totals = rows.concave_sums(assume.low, assume.width, [stake for _, stake in stakes]) if self._enough else [0.0]
        self._totals = np.array(totals)[:, None]
        self._end = math.inf
        if self._enough and rows.droppable and not rows.adaptive:  # rows with factors below 1 are not dropped
            self._end = max(rows.smallest_dropped, assume.low)

    def logs(self, means: Floats) -> Floats:
        """Return the logarithm of the evidence against each mean and all smaller ones."""
        if not self._enough:
            return np.full(len(means), -math.inf)
        at = np.clip((means - self._low) / self._width, 0.0, 1.0)
        terms = np.log(self._weights) + self._totals - self._n_paid * np.log1p(self._stakes * at)
        return np.where((at < 1) & (means <= self._end), np.logaddexp.reduce(terms, axis=0), -np.inf)


class BoundedDifference:
    """Evidence that mean(b) - mean(a) is larger than some number (sign 1), or smaller.

    Parameters
    ----------
    rows : sequence of SortedRows
        Those of a and of b.
    known : sequence of Bounded
        Their bounds.
    plan : sequence of float
        How many rows of each are planned.
    price : float
        What one side pays.
    sign : int
        1 for larger, -1 for smaller.
    """

    def __init__(
        self, rows: Sequence[SortedRows], known: Sequence[Bounded], plan: Sequence[float], price: float, sign: int
    ):
        self._sign, self._known = sign, known
        sides = (rows[0].mirrored, rows[1]) if sign > 0 else (rows[0], rows[1].mirrored)
        parts = zip(sides, known, (-sign, sign), plan, strict=True)
        self._a, self._b = (BoundedEvidence(side, one.scaled(s), n, price) for side, one, s, n in parts)

    def least(self, value: float) -> float:
        """Return the least evidence against a value and all beyond it, whatever mean(a) is."""
        sign, known = self._sign, self._known[0]

        def logs(low: Floats, high: Floats) -> Floats:
            at_a, at_b = (low, high) if sign > 0 else (high, low)
            each = (self._a.logs(-sign * at_a), self._b.logs(sign * (at_b + value)))
            first, second = (np.logaddexp(one + math.log1p(-_NEVER), math.log(_NEVER)) for one in each)
            return np.asarray(first + second)

        return least_over_cells(logs, np.linspace(known.low, known.high, _CELLS + 1))

    def end(self, price: float) -> float:
        """Return a difference up to which everything is ruled out, from below (sign 1) or from above."""
        a, b = self._known
        lowest, highest = b.low - a.high, b.high - a.low
        bottom, top = (lowest, highest) if self._sign > 0 else (-highest, -lowest)

        def excess(value: float) -> float:
            return max(self.least(self._sign * value) - price, -1e6)

        above, below = excess(bottom), excess(top)
        if above < 0:
            return self._sign * bottom
        if below >= 0:
            return self._sign * math.inf
        found = falling_root(excess, bottom, top, above, below, _PRECISION * (top - bottom))[0]
        return self._sign * found


def bounded_difference(
    rows: Sequence[SortedRows], known: Sequence[Bounded], plan: Sequence[float], terms: Terms, *, only: int = 0
) -> EvidenceInterval:
    """Return the interval of mean(b) - mean(a), for rows with bounds, at every look."""
    a, b = known
    low, high = b.low - a.high, b.high - a.low
    if terms.alternative != "less" and only >= 0:
        low = BoundedDifference(rows, known, plan, terms.price, 1).end(terms.price)
    if terms.alternative != "greater" and only <= 0:
        high = BoundedDifference(rows, known, plan, terms.price, -1).end(terms.price)
    return EvidenceInterval.between(low, high)
