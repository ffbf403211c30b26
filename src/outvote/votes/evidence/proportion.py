"""Exact intervals for rows of 0 and 1: Clopper and Pearson's, with corrupt rows counted in."""

from __future__ import annotations

import math

from outvote.votes.evidence.interval import EvidenceInterval
from outvote.votes.evidence.rows import SortedRows
from outvote.votes.terms import Terms


def proportion_interval(rows: SortedRows, terms: Terms) -> EvidenceInterval:
    """Return the interval of the probability of a 1.

    Of n rows m may be corrupt, b of them for certain; k of the others are 1. *Oblivious*: N = n - m rows are clean
    whatever happens to the others, and between k - (m - b) and k of them are 1. *Adaptive*: of the n rows as they were,
    between k - (m - b) and k + m were 1. The bounds for these numbers of ones are Clopper and Pearson's.
    """
    n_ones = int(rows.values.sum())
    few = max(n_ones - rows.droppable, 0)
    n_trials = rows.n_rows if rows.adaptive else rows.n_rows - rows.n_corrupt
    many = min(n_ones + (rows.n_corrupt if rows.adaptive else 0), n_trials)
    low = _lower(few, n_trials, math.exp(-terms.price)) if terms.alternative != "less" else 0.0
    high = 1.0 - _lower(n_trials - many, n_trials, math.exp(-terms.price)) if terms.alternative != "greater" else 1.0
    two_sided = terms.alternative == "two-sided"
    middle = (low + high) / 2 if two_sided else proportion_interval(rows, terms.two_sided).estimate
    return EvidenceInterval(low, high, middle)


def _lower(n_ones: int, n_trials: int, alpha: float) -> float:
    """Return the probability at which as many ones or more have probability alpha: a lower bound.

    Examples
    --------
    >>> round(_lower(5, 100, 0.025), 4), _lower(0, 100, 0.025)
    (0.0164, 0.0)
    """
    from scipy.special import betaincinv

    return 0.0 if n_ones == 0 else float(betaincinv(n_ones, n_trials - n_ones + 1, alpha))
