"""Means of rows that are symmetric about it, with no scale: by rows in order, or by averages of two rows."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.votes.evidence.interval import EvidenceInterval
from outvote.votes.evidence.order import lower_rank
from outvote.votes.evidence.rows import SortedRows
from outvote.votes.evidence.walsh import walsh_average
from outvote.votes.terms import Terms

_HALF = Fraction(1, 2)
#: Up to this many rows the signed rank is computed exactly; beyond, ranks are rounded to about `_STEPS` steps.
_EXACT = 256
_STEPS = 64
#: Share of α that the rounding of ranks may cost.
_ROUNDING = 0.02
#: More than the rounding errors of a Fourier transform of probabilities; smaller α are left to Hoeffding's bound.
_GUARD = 1e-11
#: Normal scores that say which interval is narrower.
_SCORES = 256


class SymmetricRule(NamedTuple):
    """Which interval to take, by no row: `vote` "order" or "signed rank", and the `rank` of its ends."""

    vote: str
    rank: int


def symmetric_interval(rows: SortedRows, terms: Terms) -> tuple[EvidenceInterval, str]:
    """Return the interval of the centre of symmetry, and "order" or "signed rank".

    The centre is a median: `order` has the interval of the median. By *signed rank*, the lower end is the r-th smallest
    average of two of the N smallest rows, a row with itself included. In order, these are at most the N clean rows, and
    so are their averages; the r-th of clean rows exceeds the centre with probability ``P(Σ i·B_i ≤ r - 1)``, B fair
    coins, at most. Someone who saw all n rows takes n(n+1)/2 - N(N+1)/2 averages away (docs/certificates.md).
    """
    values, adaptive = rows.values, rows.adaptive
    rule = symmetric_rule(rows.n_rows, rows.n_corrupt, -terms.price, adaptive=adaptive)

    def lower(ordered: NDArray[np.float64]) -> float:
        if rule.rank == 0:
            return -math.inf
        if rule.vote == "order":
            return float(ordered[rule.rank - 1])
        return walsh_average(ordered[: rows.n_rows - rows.n_corrupt], rule.rank)

    low = lower(values) if terms.alternative != "less" else -math.inf
    high = -lower(-values[::-1]) if terms.alternative != "greater" else math.inf
    if terms.alternative == "two-sided":
        return EvidenceInterval.between(low, high), rule.vote
    return EvidenceInterval(low, high, symmetric_interval(rows, terms.two_sided)[0].estimate), rule.vote


@lru_cache(maxsize=1024)
def symmetric_rule(n_rows: int, n_corrupt: int, log_alpha: float, *, adaptive: bool = False) -> SymmetricRule:
    """Choose the interval that is narrower on normal rows, from the numbers of rows and α alone.

    Examples
    --------
    >>> symmetric_rule(10_000, 100, math.log(0.025)).vote, symmetric_rule(10_000, 5, math.log(0.025)).vote
    ('order', 'signed rank')
    """
    median = lower_rank(n_rows, n_corrupt, _HALF, log_alpha, adaptive=adaptive)
    by_median = -NormalDist().inv_cdf((median - 0.5) / n_rows) if median else math.inf
    n_clean = n_rows - n_corrupt
    pairs, touched = (n * (n + 1) // 2 for n in (n_clean, n_rows))
    touched -= pairs
    rank = signed_rank(n_rows, log_alpha) - touched if adaptive else signed_rank(n_clean, log_alpha)
    if rank > 0 and by_median > -_expected_average(n_clean / n_rows, rank / pairs):
        return SymmetricRule("signed rank", rank)
    return SymmetricRule("order", median)


def _expected_average(kept: float, share: float) -> float:
    """Return which average of two of the smallest of normal rows, a share `kept`, exceeds a share of them all."""
    normal = NormalDist()
    scores = np.array([normal.inv_cdf(kept * (i + 0.5) / _SCORES) for i in range(_SCORES)])
    first, second = np.triu_indices(_SCORES)
    averages = np.sort(scores[first] + scores[second]) / 2
    return float(averages[int(share * (len(averages) - 1))])


@lru_cache(maxsize=1024)
def signed_rank(n_rows: int, log_alpha: float) -> int:
    """Return the largest r known to have ``P(W ≤ r - 1) ≤ α``, W = Σ i·B_i over i = 1, …, n, B fair coins; or 0.

    Exact for up to 256 rows. Beyond, the larger of two: Hoeffding's, ``P(W ≤ EW - x) ≤ exp(-2x²/Σi²)``; and that of
    ranks rounded to multiples of h, whose distribution is computed, and the rest bounded by Hoeffding at 0.02·α.

    Examples
    --------
    >>> signed_rank(5, math.log(0.025)), signed_rank(10, math.log(0.025))
    (0, 9)
    """
    alpha, ranks = math.exp(log_alpha), np.arange(1, n_rows + 1)
    if n_rows <= _EXACT:
        below = np.cumsum(_sum_of_ranks(n_rows)) * (1 + 1e-12)
        return int(np.searchsorted(below, alpha, side="right"))
    squares = n_rows * (n_rows + 1) * (2 * n_rows + 1) / 6
    found = math.floor(n_rows * (n_rows + 1) / 4 - math.sqrt(-squares * log_alpha / 2) - 1e-6) + 1
    if (1 - _ROUNDING) * alpha <= 10 * _GUARD:
        return max(found, 0)
    step = 2 * (n_rows // (2 * _STEPS)) + 1
    steps = (ranks + step // 2) // step
    left = ranks - step * steps
    below, first = _cumulated(np.bincount(steps))
    most = first + int(np.searchsorted(below + _GUARD, (1 - _ROUNDING) * alpha, side="right"))
    slack = math.sqrt(float(np.sum(left**2)) * -(log_alpha + math.log(_ROUNDING)) / 2)
    rounded = math.ceil(step * most + float(np.sum(left)) / 2 - slack - 1e-6)
    return max(found, rounded, 0)


def _sum_of_ranks(n_rows: int) -> NDArray[np.float64]:
    """Return the probabilities of W = 0, 1, …: one coin after the other."""
    chance = np.zeros(n_rows * (n_rows + 1) // 2 + 1)
    chance[0] = 1.0
    for rank in range(1, n_rows + 1):
        end = rank * (rank + 1) // 2 + 1
        chance[rank:end] += chance[: end - rank].copy()
        chance[:end] /= 2
    return chance


def _cumulated(counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], int]:
    """Return P(K ≤ first), P(K ≤ first + 1), … and `first`, where K = Σ k·Bin(counts[k], 1/2).

    The characteristic function is a product of cosines; K beyond 8 sds, of probability 3e-14, is wrapped around.
    """
    values = np.arange(len(counts))
    sd, centre = math.sqrt(float(values**2 @ counts)) / 2, float(values @ counts) / 2
    period = 2 ** math.ceil(math.log2(16 * sd + 2))
    frequency = np.arange(period // 2 + 1)
    logs, odd = np.zeros(len(frequency)), np.zeros(len(frequency), dtype=bool)
    with np.errstate(divide="ignore"):
        for value, count in zip(values[1:].tolist(), counts[1:].tolist(), strict=True):
            cosine = np.cos(np.pi * value / period * frequency)
            logs += count * np.log(np.abs(cosine))
            if count % 2:
                odd ^= cosine < 0
    first = math.floor(centre) - period // 2 + 1
    # Shifted by `first`, so that the window about the centre comes out in order.
    phase = np.exp(-2j * np.pi * ((frequency * (centre - first)) % period) / period)
    chance = np.fft.irfft(np.where(odd, -1, 1) * np.exp(logs) * phase, period)
    return np.cumsum(np.maximum(chance, 0.0)), first
