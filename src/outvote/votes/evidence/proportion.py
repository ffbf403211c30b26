"""Exact intervals for rows of 0 and 1: Clopper and Pearson's, with corrupt rows counted in."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from outvote.votes.evidence.factors import Floats
from outvote.votes.evidence.interval import EvidenceInterval
from outvote.votes.evidence.rows import SortedRows
from outvote.votes.terms import Terms


class Tally(SortedRows):
    """Rows of 0 and 1, of which some may be dropped: they are counted, and not sorted.

    Parameters
    ----------
    n_zeros, n_ones : int
        How many of the rows that may be clean are 0, and how many are 1.
    n_corrupt, n_found, adaptive
        As for `SortedRows`.

    Examples
    --------
    >>> tally = Tally(138, 5, n_corrupt=2)
    >>> tally.n_rows, tally.n_trials, tally.most_ones, tally.most_zeros
    (143, 141, 5, 138)
    """

    def __init__(self, n_zeros: int, n_ones: int, n_corrupt: int, n_found: int = 0, *, adaptive: bool = False):
        super().__init__(np.empty(0), n_corrupt, n_found, adaptive=adaptive)
        self.n_zeros, self.n_ones = n_zeros, n_ones

    @cached_property
    def values(self) -> Floats:
        """The rows that may be clean, in ascending order."""
        return np.repeat([0.0, 1.0], [self.n_zeros, self.n_ones])

    @property
    def n_rows(self) -> int:
        """How many rows there are, those found to be corrupt among them (n)."""
        return self.n_zeros + self.n_ones + self.n_found

    @property
    def n_trials(self) -> int:
        """How many rows count: those that are clean whatever happens; if adaptive, all of them as they were."""
        return self.n_rows if self.adaptive else max(self.n_rows - self.n_corrupt, 0)

    @property
    def most_ones(self) -> int:
        """The largest number of ones among the trials."""
        return min(self.n_ones + (self.n_corrupt if self.adaptive else 0), self.n_trials)

    @property
    def most_zeros(self) -> int:
        """The largest number of zeros among the trials."""
        return min(self.n_zeros + (self.n_corrupt if self.adaptive else 0), self.n_trials)

    @property
    def share(self) -> float:
        """The share of ones among the rows that may be clean; 1/2 if there are none."""
        n_seen = self.n_zeros + self.n_ones
        return self.n_ones / n_seen if n_seen else 0.5

    def allowing(self, n_corrupt: int) -> Tally:
        """Return the rows with another number of them that may be corrupt."""
        return Tally(self.n_zeros, self.n_ones, n_corrupt, self.n_found, adaptive=self.adaptive)


def proportion_interval(rows: Tally, terms: Terms) -> EvidenceInterval:
    """Return the interval of the probability of a 1.

    Of n rows m may be corrupt, b of them for certain; k of the others are 1. *Oblivious*: N = n - m rows are clean
    whatever happens to the others, and between k - (m - b) and k of them are 1. *Adaptive*: of the n rows as they were,
    between k - (m - b) and k + m were 1. The bounds for these numbers of ones are Clopper and Pearson's. The estimate
    is the share of ones that is seen.
    """
    alpha = math.exp(-terms.price)
    low = lower_bound(rows.n_trials - rows.most_zeros, rows.n_trials, alpha) if terms.alternative != "less" else 0.0
    high = upper_bound(rows.most_ones, rows.n_trials, alpha) if terms.alternative != "greater" else 1.0
    return EvidenceInterval.around(low, high, rows.share)


def seen_difference(a: Tally, b: Tally, *, relative: bool) -> float:
    """Return the difference of the shares of ones that are seen, or their ratio less 1; NaN without a one in a.

    Examples
    --------
    >>> a, b = Tally(90, 10, 0), Tally(85, 15, 0)
    >>> round(seen_difference(a, b, relative=False), 9), round(seen_difference(a, b, relative=True), 9)
    (0.05, 0.5)
    """
    if not relative:
        return b.share - a.share
    return b.share / a.share - 1 if a.share else math.nan


def lower_bound(n_ones: int, n_trials: int, alpha: float) -> float:
    """Return the probability at which so many ones or more have probability alpha.

    Examples
    --------
    >>> round(lower_bound(5, 100, 0.025), 4), lower_bound(0, 100, 0.025)
    (0.0164, 0.0)
    """
    from scipy.special import betaincinv

    return 0.0 if n_ones <= 0 else float(betaincinv(n_ones, n_trials - n_ones + 1, alpha))


def upper_bound(n_ones: int, n_trials: int, alpha: float) -> float:
    """Return the probability at which so many ones or fewer have probability alpha.

    Examples
    --------
    >>> round(upper_bound(5, 141, 0.05), 4), upper_bound(141, 141, 0.05)
    (0.0731, 1.0)
    """
    from scipy.special import betainccinv

    return 1.0 if n_ones >= n_trials else float(betainccinv(n_ones + 1, n_trials - n_ones, alpha))
