"""The median vote and its certified radius (Prop. 1 and its extensions; notation of docs/certificates.md).

At most `n_bad` of the K blocks hold a corrupt row. The median is off by more than t only if at least
⌈K/2⌉ blocks are off on the same side. At least ``m = ⌈K/2⌉ - n_bad`` of these are clean, out of ``N``:
N is K - n_bad if the corrupt rows were not picked by looking at the clean ones (*oblivious*), and K if they
may (*adaptive*). The functions bound the probability of this event. They take ``log_delta``, the
logarithm of the failure probability, and broadcast over arrays of candidates.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote import _numba
from outvote.assumptions.assumption import Assumption, BlockSize
from outvote.assumptions.tails import Tail
from outvote.contamination import Adversary
from outvote.votes.binomial import log_binomial_tail, log_first_term, p_star
from outvote.votes.roots import falling_root
from outvote.votes.terms import LOG_2, Alternative, Terms

Floats = NDArray[np.float64]


TINY, LARGEST = sys.float_info.min, sys.float_info.max


def median_of(values: Floats) -> Floats:
    """Return numpy's median over the first axis, without overflow in the mean of the middle two; NaN if any is NaN."""
    low, high = (len(values) - 1) // 2, len(values) // 2
    ordered = values.copy("K")
    ordered.partition(high, axis=0)
    median = ordered[high]
    if low != high:
        below = np.maximum.reduce(ordered[:high], axis=0)  # partitioning at both places takes three times as long
        with np.errstate(over="ignore", invalid="ignore"):
            median = (below + ordered[high]) / 2
            if not np.isfinite(median).all():
                median = np.where(np.isfinite(median), median, below / 2 + ordered[high] / 2)
    last = np.maximum.reduce(ordered[high:], axis=0)  # NaN are sorted last, and make the maximum NaN
    whole = last == last if values.ndim == 1 else (last == last).all()
    return np.asarray(median if whole else np.where(np.isnan(last), np.nan, median))


def medians_of_counts(counts: NDArray[np.integer[Any]]) -> Floats:
    """Return the median of the non-negative whole numbers in each row; histograms are used if they are small."""
    if not counts.flags.c_contiguous:  # the order of the last axes does not matter
        counts = counts.transpose(0, *range(counts.ndim - 1, 0, -1))
    flat = counts.reshape(len(counts), -1)
    n_each, n_kinds = flat.shape[1], int(flat.max()) + 1
    if n_kinds > n_each:
        return median_of(flat.T.astype(np.float64))
    ready = _numba.compiled(3e-9 * flat.size)
    often = (
        np.stack([np.bincount(row, minlength=n_kinds) for row in flat])
        if ready is None
        else ready.histograms(flat, n_kinds)
    )
    up_to = np.cumsum(often, axis=1)
    low, high = ((up_to <= rank).sum(axis=1) for rank in ((n_each - 1) // 2, n_each // 2))
    return np.asarray((low + high) / 2)


def mad(values: Floats) -> Floats:
    """Return the median absolute deviation from the median over the first axis; infinite if no float is as large."""
    with np.errstate(over="ignore", invalid="ignore"):
        deviations = np.abs(values - median_of(values))
    return median_of(np.where(np.isnan(deviations), np.inf, deviations))


def inflate(radius: Floats, n_blocks: ArrayLike) -> Floats:
    """Return the radius, enlarged by more than the rounding error of the Beta function and its inverse."""
    return radius * (1 + 1e-9 + 1e-16 * np.asarray(n_blocks, dtype=float))


def threshold(n_blocks: ArrayLike, n_bad: ArrayLike, adversary: Adversary = "oblivious") -> tuple[Floats, Floats]:
    """Return (N, m): the median is off only if at least m of N clean blocks are off.

    Parameters
    ----------
    n_blocks : int or array of int
        Number of blocks (K).
    n_bad : int or array of int
        Number of blocks that may hold a corrupt row.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values.

    Returns
    -------
    n_clean, n_needed : ndarray
        N and m; no certificate exists if m <= 0.

    Examples
    --------
    >>> n_clean, n_needed = threshold(41, 10)
    >>> int(n_clean), int(n_needed)
    (31, 11)
    """
    blocks, bad = np.asarray(n_blocks, dtype=float), np.asarray(n_bad, dtype=float)
    n_needed = np.ceil(blocks / 2) - bad
    n_clean = blocks - bad if adversary == "oblivious" else blocks + 0 * bad
    return n_clean, n_needed


def _joint_radius(p: Floats, log_delta: float, n: Floats, m: Floats, sd: Floats) -> tuple[Floats, bool]:
    """Return the two-sided radius sd·√u from the variance alone, with u ≥ max(1, N/(m-1) - 1) and m ≥ 2.

    With P(above) and P(below) at most 1/(1+u) each and 1/u together, and F convex up to
    (m-1)/(N-1), the worst case is ``F(1/(1+u)) + F(1/(u(1+u))) <= delta``; up to (m-1)/N this holds
    for blocks of different distributions, too (Hoeffding 1956). The second value tells whether the
    radius of every candidate is at most the radii by Cantelli with δ/2 and by Chebyshev with δ (p is
    p*(δ)), which is true unless `u` is clamped.
    """
    usable = m >= 2
    n, m, p = np.where(usable, n, 3.0), np.where(usable, m, 2.0), np.where(usable, p, 0.1)
    least = np.maximum(1.0, n / (m - 1) - 1)
    u = np.maximum(least, 1 / p - 1)  # this u suffices for the first term alone
    second = np.where(usable, log_binomial_tail(1 / u / (1 + u), n, m) - log_delta, -np.inf)
    if second.max() > -40:  # else the second term vanishes in double precision
        u = np.maximum(least, _newton_joint(u, log_delta, n, m))
        # The solution is the fixed point of a decreasing map, so it is at most the larger of u and its image.
        second = np.where(usable, log_binomial_tail(1 / u / (1 + u), n, m) - log_delta, -np.inf)
        first = log_delta + np.log1p(-np.exp(np.minimum(second, -1e-12)))
        u = np.maximum(u, 1 / p_star(first, n, m) - 1)
    return np.where(usable, sd * np.sqrt(u), np.inf), bool(np.all(usable & (u > least)))


def _newton_joint(u: Floats, log_delta: float, n: Floats, m: Floats) -> Floats:
    """Solve F(1/(1+u)) + F(1/(u(1+u))) = δ by Newton's method on the logarithms of both sides."""
    for _ in range(5):
        sides = 1 / (1 + u), 1 / u / (1 + u)
        total = sum(np.exp(log_binomial_tail(q, n, m)) for q in sides)
        slopes = [m * np.exp(log_first_term(q, n, m)) for q in sides]  # q·F'(q)
        slope = (slopes[0] * u + slopes[1] * (1 + 2 * u)) / (1 + u)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (np.log(total) - log_delta) * total / slope
        step = np.where(np.isnan(step), -1.0, step)  # where both sides vanish u is far too large
        u = np.maximum(u * np.exp(np.clip(step, -1.0, 1.0)), 1.0)
        if np.all(np.abs(step) < 1e-11):
            break
    return u


def best_of_sides(
    tail: Tail, admissible: Callable[[float], Floats], log_delta: float, alternative: Alternative
) -> Floats:
    """Return the radius from the admissible block probability p(log δ): one-sided, or the better two-sided bound."""
    if alternative != "two-sided":
        return tail.one(admissible(log_delta))
    return np.minimum(tail.two(admissible(log_delta)), tail.one(admissible(log_delta - LOG_2)))


def median_radius(
    n_blocks: ArrayLike,
    n_bad: ArrayLike,
    block_size: BlockSize,
    *,
    log_delta: float,
    assume: Assumption,
    degrees: Sequence[int] = (1,),
    adversary: Adversary = "oblivious",
    alternative: Alternative = "two-sided",
) -> Floats:
    """Return the certified radius of the median of K blocks of equal size.

    It is the smallest of ``two(p*(δ))``, ``one(p*(δ/2))`` and the joint radius; ``one(p*(δ))`` for a
    one-sided bound. With several samples, block k of all samples votes together (the diagonal).

    Parameters
    ----------
    n_blocks, n_bad : int or array of int
        Number of blocks, and how many may hold a corrupt row.
    block_size : int, array of int, or tuple of these
        Rows of each block, one entry per sample.
    log_delta : float
        Logarithm of the failure probability.
    assume : Assumption
        The assumption on clean values.
    degrees : sequence of int
        Degree of the kernel in each sample.
    adversary, alternative : str
        "oblivious" or "adaptive"; "two-sided", or "less"/"greater" for one side.

    Examples
    --------
    >>> from outvote.assumptions.assumption import FiniteVariance
    >>> r = median_radius([21, 41, 81], 5, [47, 24, 12], log_delta=np.log(0.05), assume=FiniteVariance(1))
    >>> r.round(3)
    array([0.314, 0.31 , 0.373])
    """
    n_clean, n_needed = threshold(n_blocks, n_bad, adversary)
    tail = assume.tail(block_size, degrees)
    p = p_star(log_delta, n_clean, n_needed)
    if alternative != "two-sided":
        return inflate(tail.one(p), n_blocks)
    best, smallest = _joint_radius(p, log_delta, n_clean, n_needed, tail.sd)
    if not (smallest and tail.variance_only):
        one_sided = tail.one(p_star(log_delta - LOG_2, n_clean, n_needed))
        best = np.minimum.reduce([best, tail.two(p), one_sided])
    return inflate(best, n_blocks)


@np.errstate(over="ignore")  # a radius too large for a float is infinite
def unequal_radius(
    n_bad: int,
    block_sizes: BlockSize,
    *,
    log_delta: float,
    assume: Assumption,
    degrees: Sequence[int] = (1,),
    adversary: Adversary = "oblivious",
    alternative: Alternative = "two-sided",
    huber_rates: Sequence[float] | None = None,
) -> float:
    """Return the certified radius of the median of blocks of unequal sizes.

    The adversary corrupts the blocks with the lightest tails, so p̄(t) is the mean tail over the N
    blocks with the heaviest tails (the smallest blocks). ``F(p̄(t)) <= δ`` suffices if N·p̄ <= m - 1
    (Hoeffding 1956); for m = 1 the failure probability is exactly ``1 - ∏(1 - p_k)``. The radius of
    K blocks of the smallest size is valid, too, and is returned if it is smaller.

    Parameters
    ----------
    n_bad : int
        Number of blocks that may hold a corrupt row.
    block_sizes : sequence of int, or tuple of sequences
        Sizes of the K blocks; one sequence per sample (a diagonal of blocks) if several.
    huber_rates : sequence of float, optional
        Huber's model: the probability that a row of each sample is an outlier; `n_bad` must then be 0.

    Examples
    --------
    >>> from outvote.assumptions.assumption import FiniteVariance
    >>> kwargs = dict(log_delta=np.log(0.05), assume=FiniteVariance(1.0))
    >>> round(unequal_radius(10, [1] * 31 + [100] * 10, **kwargs), 3)  # the ten large blocks may be corrupt
    1.92
    """
    per_sample = block_sizes if isinstance(block_sizes, tuple) else (block_sizes,)
    sizes, counts = _distinct([np.asarray(s, dtype=float) for s in per_sample])
    n_blocks = int(counts.sum())
    tail = assume.tail(sizes, degrees)
    n_clean, n_needed = (float(a) for a in threshold(n_blocks, n_bad, adversary))
    if n_needed < 1:
        return math.inf
    untouched = np.ones(len(counts))
    if huber_rates is not None:
        untouched = np.prod([(1 - z) ** size for z, size in zip(huber_rates, sizes, strict=True)], axis=0)
    blocks = _Unequal(tail, counts, untouched, n_clean, n_needed)
    if alternative != "two-sided":
        best = blocks.smallest(log_delta, 1, math.inf)
    else:
        best = blocks.smallest(log_delta, 2, blocks.smallest(log_delta - LOG_2, 1, math.inf))
    radius = float(inflate(np.asarray(best), n_blocks))
    # The radius of blocks of the smallest size is at least this one-sided radius.
    if huber_rates is not None or best <= float(tail.one(p_star(log_delta, n_clean, n_needed)).max()):
        return radius
    terms = Terms(log_delta, adversary, alternative, assume, tuple(degrees))
    equal = median_radius(n_blocks, n_bad, tuple(size.min() for size in sizes), **terms.keywords)
    return min(radius, float(equal))


@dataclass(frozen=True)
class _Unequal:
    """Blocks of different sizes: their tails, how many have each size, and the probability that each has no outlier."""

    tail: Tail
    counts: NDArray[Any]
    untouched: Floats
    n_clean: float
    n_needed: float

    def _total(self, off: Floats) -> float:
        """Return the sum of the probabilities that blocks are off, over the `n_clean` largest."""
        weights = self.counts
        if self.n_clean < int(weights.sum()):
            order = (-off).argsort()
            off, filled = off[order], np.minimum(weights[order].cumsum(), self.n_clean)
            weights = np.concatenate((filled[:1], filled[1:] - filled[:-1]))
        if self.n_needed > 1:
            return float(off @ weights)
        with np.errstate(divide="ignore"):
            return -float(np.log1p(-off, where=weights > 0, out=np.zeros(len(weights))) @ weights)

    def smallest(self, log_d: float, sides: int, most: float) -> float:
        """Return the smallest t that too many blocks exceed with probability at most δ, or `most` if it is smaller."""
        touched, unit = 1 - self.untouched, float(self.tail.sd.max())
        p = float(p_star(log_d, self.n_clean, self.n_needed))
        if self.n_needed > 1:
            p = min(p, (self.n_needed - 1) / self.n_clean)
        limit = p * self.n_clean if self.n_needed > 1 else -math.log1p(-min(math.exp(log_d), 1 - 1e-16))
        if limit == 0:  # the limit is smaller than any float
            return most

        def excess(log_t: float) -> float:
            off = self.tail.tail_probability(unit * math.exp(log_t), sides=sides)
            ratio = self._total(touched + self.untouched * off) / limit
            return math.log(ratio) if ratio > 0 else -math.inf

        # If all blocks were like one of them, they would be off with probability p at these t.
        off_at = self.tail.one if sides == 1 else self.tail.two
        alike = off_at(np.maximum(p - touched, 0.0) / np.maximum(self.untouched, TINY))
        ends = [math.log(min(max(t, TINY), LARGEST)) - math.log(unit) for t in (alike.min(), alike.max(), most)]
        return min(most, unit * math.exp(_first(excess, *ends)))


def _distinct(sizes: Sequence[Floats]) -> tuple[tuple[Floats, ...], NDArray[np.intp]]:
    """Return the distinct sizes of the blocks, by sample, and how many blocks have each."""
    if len(sizes) == 1:  # this is five times as fast as `unique` on columns
        values, counts = np.unique(sizes[0], return_counts=True)
        return (values,), counts
    columns, counts = np.unique(np.stack(sizes), axis=1, return_counts=True)
    return tuple(columns), counts


def _first(excess: Callable[[float], float], low: float, high: float, most: float) -> float:
    """Return the first log t at which a falling function is at most 0, up to 1e-13; infinite if none is below `most`.

    The search starts between `low` and `high`.
    """
    least, most = -40.0, min(most, 346.0)  # t² does not overflow
    low, high = (min(max(end, least), most) for end in (low - 1e-9, high + 1e-9))
    under = excess(high)
    if under > 0 and high < most:
        low, high, under = high, most, excess(most)
    if under > 0:
        return math.inf
    over = excess(low)
    if over <= 0 and low > least:
        low, high, over, under = least, low, excess(least), over
    if over <= 0:
        return low
    return falling_root(excess, low, high, over, under, 1e-13)[1]


def huber_radius(
    n_blocks: ArrayLike,
    block_size: BlockSize,
    *,
    huber_rates: Sequence[float],
    log_delta: float,
    assume: Assumption,
    degrees: Sequence[int] = (1,),
    adversary: Adversary = "oblivious",
    alternative: Alternative = "two-sided",
) -> Floats:
    """Return the certified radius if each row is an outlier with its sample's probability (Huber's model).

    A block is clean and near the truth with probability at least ``∏(1-ζ_s)^{B_s}·(1-p)``, and ⌈K/2⌉
    of the K blocks must fail: ``p = 1 - (1 - p*)/∏(1-ζ_s)^{B_s}``. There is no certificate if p <= 0.

    Examples
    --------
    >>> from outvote.assumptions.assumption import FiniteVariance
    >>> r = huber_radius(101, 10, huber_rates=[0.01], log_delta=np.log(0.05), assume=FiniteVariance(1.0))
    >>> round(float(r), 3)
    0.44
    """
    if adversary != "oblivious":
        raise ValueError(f"adversary={adversary!r}: in Huber's model rows are corrupt by chance, use 'oblivious'")
    sizes = block_size if isinstance(block_size, tuple) else (block_size,)
    log_untouched = sum(np.asarray(b) * np.log1p(-z) for b, z in zip(sizes, huber_rates, strict=True))
    n_clean, n_needed = threshold(n_blocks, 0)

    def admissible(log_d: float) -> Floats:
        fails = p_star(log_d, n_clean, n_needed)
        return np.maximum(0.0, -np.expm1(np.log1p(-fails) - log_untouched))

    tail = assume.tail(block_size, degrees)
    return inflate(best_of_sides(tail, admissible, log_delta, alternative), n_blocks)
