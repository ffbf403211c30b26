"""Intervals from complete U-statistics with bounded kernels, and from what deleting rows can make of them."""

from __future__ import annotations

import math

from outvote.votes.roots import falling_root
from outvote.votes.terms import Terms

#: What rounding may add to the mean of a tail.
_ROUNDING = 1e-12


def complete_interval(lowest: float, highest: float, n_terms: int, terms: Terms) -> tuple[float, float]:
    """Return the interval of θ = E h for a kernel h in [0, 1].

    A complete U-statistic of clean rows is an average of averages of `n_terms` independent values of the kernel, one
    for each way to put the rows into disjoint tuples. So it lies below Bin(n_terms, θ)/n_terms in the convex order
    (Hoeffding), and exceeds the mean of the upper α tail of that with probability α at most: E(U - a)₊ ≥ (t - a)·α if
    P(U ≥ t) ≥ α. That of the clean rows is at least `lowest`, the least that deleting as many rows as may be corrupt
    leaves; θ is ruled out if `lowest` exceeds the mean of the tail, and likewise from above.

    Parameters
    ----------
    lowest, highest : float
        The least and the largest value of the statistic over all deletions.
    n_terms : int
        How many disjoint tuples the clean rows have.
    terms : Terms
        Confidence and sides.

    Examples
    --------
    >>> low, high = complete_interval(0.5, 0.5, 1000, Terms(math.log(0.05)))
    >>> round(low, 3), round(high, 3)
    (0.463, 0.537)
    """
    low = 0.0 if terms.alternative == "less" else _lower(lowest, n_terms, math.exp(-terms.price))
    high = 1.0 if terms.alternative == "greater" else 1.0 - _lower(1.0 - highest, n_terms, math.exp(-terms.price))
    return low, high


def _lower(found: float, n_terms: int, alpha: float) -> float:
    """Return a number below which every θ is ruled out by a statistic of `found`."""
    if n_terms < 1 or not found > _ROUNDING or alpha == 0:
        return 0.0

    def excess(theta: float) -> float:  # it must be exceeded: all binomial values may lie at the largest one
        return found - upper_tail_mean(n_terms, theta, alpha) / n_terms - _ROUNDING

    most = min(found, 1.0)  # the mean of the tail is at least θ
    return falling_root(excess, 0.0, most, found - _ROUNDING, excess(most), 1e-12)[0]


def upper_tail_mean(n_trials: int, probability: float, alpha: float) -> float:
    """Return the mean of the upper α tail of Bin(n, p): a + E(B - a)₊/α for a its upper α quantile.

    Any other a gives a larger number, so that rounding the quantile is on the safe side.

    Examples
    --------
    >>> upper_tail_mean(10, 0.5, 1.0), round(upper_tail_mean(1, 0.2, 0.4), 12)
    (5.0, 0.5)
    """
    if probability <= 0 or probability >= 1:
        return n_trials * min(max(probability, 0.0), 1.0)
    from scipy.special import bdtrik, betainc

    def tail(n: int, least: int) -> float:
        """Return P(Bin(n, p) ≥ least)."""
        return 1.0 if least <= 0 else 0.0 if least > n else float(betainc(least, n - least + 1, probability))

    quantile = math.ceil(float(bdtrik(1 - alpha, n_trials, probability)) - 1e-9) if alpha < 1 else 0
    a = min(max(quantile, 0), n_trials)
    # E(B - a)₊ = np·P(Bin(n - 1, p) ≥ a) - a·P(B ≥ a + 1), since k·P(B = k) = np·P(Bin(n - 1, p) = k - 1).
    excess = n_trials * probability * tail(n_trials - 1, a) - a * tail(n_trials, a + 1)
    return min(a + max(excess, 0.0) / alpha, float(n_trials))
