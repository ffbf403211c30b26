"""Certify the median with an unknown standard deviation: a bound on the kurtosis lets the rows bound it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from outvote.assumptions.assumption import FiniteKurtosis
from outvote.contamination import Adversary
from outvote.votes.binomial import p_star
from outvote.votes.median import Floats, median_radius, threshold
from outvote.votes.terms import Alternative

VARIANCE_SHARES = (0.01, 0.03, 0.1, 0.2, 0.35, 0.5)


def variance_shortfall(
    n_blocks: ArrayLike,
    n_bad: ArrayLike,
    block_size: ArrayLike,
    *,
    log_delta: float,
    kurtosis: float,
    adversary: Adversary = "oblivious",
) -> Floats:
    """Return the fraction c of σ² by which the median of the block variances may fall short of σ².

    A block variance (divisor B - 1) has variance ``σ⁴·v``, ``v = (κ-1)/B + 2/(B(B-1))``, so by
    Cantelli ``c = √(v·(1/p*(δ) - 1))``; with probability at least 1 - δ, σ² <= median/(1 - c).

    Examples
    --------
    >>> round(float(variance_shortfall(41, 5, 100, log_delta=np.log(0.05), kurtosis=3.0)), 3)
    0.216
    """
    size = np.asarray(block_size, dtype=float)
    with np.errstate(divide="ignore"):
        spread = (kurtosis - 1) / size + np.where(size > 1, 2 / (size * (size - 1)), np.inf)
        p = p_star(log_delta, *threshold(n_blocks, n_bad, adversary))
        return np.asarray(np.sqrt(spread * (1 / p - 1)))


def sigma_free_factor(
    n_blocks: ArrayLike,
    n_bad: ArrayLike,
    block_size: ArrayLike,
    *,
    log_delta: float,
    kurtosis: float,
    adversary: Adversary = "oblivious",
    alternative: Alternative = "two-sided",
    shares: Sequence[float] = VARIANCE_SHARES,
) -> tuple[Floats, Floats]:
    """Return the radius for an unknown σ, in units of the square root of the median block variance.

    A share of δ is spent on bounding σ (:func:`variance_shortfall`), the rest on the error of the median
    given that bound. The share is the best of `shares`; it depends on the arguments, not on the rows.

    Returns
    -------
    factor, share : ndarray
        The factor (infinite where c >= 1) and the share of δ spent on σ.

    Examples
    --------
    >>> factor, share = sigma_free_factor(41, 5, 100, log_delta=np.log(0.05), kurtosis=3.0)
    >>> round(float(factor), 3), float(share)
    (0.1, 0.1)
    """
    factors = []
    for share in shares:
        short = variance_shortfall(
            n_blocks,
            n_bad,
            block_size,
            log_delta=log_delta + math.log(share),
            kurtosis=kurtosis,
            adversary=adversary,
        )
        unit = median_radius(
            n_blocks,
            n_bad,
            block_size,
            log_delta=log_delta + math.log1p(-share),
            assume=FiniteKurtosis(kurtosis, sd=1.0),
            adversary=adversary,
            alternative=alternative,
        )
        room = np.where(short < 1, 1 - short, 1.0)
        factors.append(np.where(short < 1, unit / np.sqrt(room), np.inf))
    table = np.stack(factors)
    return table.min(axis=0), np.asarray(shares)[table.argmin(axis=0)]
