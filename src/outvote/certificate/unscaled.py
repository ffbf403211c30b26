"""Radii and intervals for an unknown scale: bound it from the rows, or use order statistics of the block values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote import votes
from outvote.assumptions.assumption import FiniteKurtosis
from outvote.contamination import Amount, Contamination
from outvote.data.arguments import check_choice, log_delta_of, log_failure, real, whole
from outvote.data.rows import read, read_rows
from outvote.votes import Adversary, Alternative, evidence
from outvote.votes.evidence import Pairs

#: Squares of tiny rows, whose sums are smaller, have lost digits.
_LEAST_VARIANCE = 1e-290


def sigma_upper(
    variance: ArrayLike,
    *,
    kurtosis: float,
    n_blocks: int,
    n_corrupt: int,
    block_size: int,
    confidence: float | None = None,
    delta: float | None = None,
    adversary: Adversary = "oblivious",
) -> NDArray[np.float64]:
    """Return an upper bound on the standard deviation of clean rows whose kurtosis is at most `kurtosis`.

    Parameters
    ----------
    variance : float or array
        Median over the blocks of the block variances (divisor B - 1).
    kurtosis : float
        Bound on the kurtosis of the clean rows.
    n_blocks, n_corrupt, block_size : int
        Number of blocks, rows that may be corrupt, and rows in a block (in the smallest, if they are unequal).
    confidence, delta : float
        Give exactly one: the bound holds with this confidence, or fails with this probability.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values.

    Returns
    -------
    ndarray
        ``√(variance / (1 - c))``, infinite if c >= 1: see :func:`outvote.votes.variance_shortfall`.

    Examples
    --------
    >>> round(float(sigma_upper(1.0, kurtosis=3.0, n_blocks=41, n_corrupt=5, block_size=100, delta=0.05)), 3)
    1.129
    """
    check_choice("adversary", adversary, Adversary)
    kurtosis = FiniteKurtosis(kurtosis).kurtosis
    spread = _variances(variance)
    short = votes.variance_shortfall(
        *_blocks(n_blocks, n_corrupt, block_size),
        log_delta=log_failure(confidence, delta),
        kurtosis=kurtosis,
        adversary=adversary,
    )
    if not short < 1:
        return np.full_like(spread, np.inf)
    return np.asarray(np.sqrt(spread / (1 - short)) * (1 + 1e-9))


def _blocks(n_blocks: int, n_corrupt: int, block_size: int) -> tuple[int, int, int]:
    """Check numbers of blocks, of corrupt rows and of rows in a block."""
    return whole("n_blocks", n_blocks, 1), whole("n_corrupt", n_corrupt), whole("block_size", block_size, 1)


def _variances(variance: ArrayLike) -> NDArray[np.float64]:
    if isinstance(variance, np.ndarray) and not isinstance(variance, np.ma.MaskedArray) and not variance.ndim:
        variance = variance.item()
    if not isinstance(variance, (list, tuple)) and np.ndim(variance) == 0:
        spread = np.asarray(real("variance", variance))
    else:
        spread = read(variance, "variance").values.astype(np.float64)
    if not (spread >= 0).all():
        raise ValueError(f"variance={variance!r} must not be negative or NaN")
    if ((spread > 0) & (spread < _LEAST_VARIANCE)).any():
        raise ValueError(f"variance={variance!r} has lost digits: multiply the rows by a power of ten first")
    return spread


class SigmaBounds(NamedTuple):
    """Bounds on the sd of clean rows: not below `low`, not above `high`.

    Examples
    --------
    >>> bounds = SigmaBounds(0.9, 1.1)
    >>> bounds.low, bounds.high
    (0.9, 1.1)
    """

    low: float
    high: float


def sigma_bounds(
    x: ArrayLike,
    contamination: Contamination | Amount = 0.01,
    confidence: float = 0.95,
    kurtosis: float | None = None,
) -> SigmaBounds:
    """Bound the standard deviation of the clean rows.

    Parameters
    ----------
    x : array-like
        The rows, one column.
    contamination : float, int or Contamination
        How many rows may be corrupt.
    confidence : float
        Confidence (1 - δ) that both bounds hold.
    kurtosis : float, optional
        A bound on the kurtosis of the clean rows (3 if they are normal, 9 if exponential). No upper bound exists
        without one: a rare large value may always have stayed away.

    Returns
    -------
    SigmaBounds
        ``low`` and ``high``. The rows are paired by a fixed permutation: the same rows give the same bounds.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=10_000)
    >>> low, high = sigma_bounds(x, contamination=0.01, kurtosis=3.0)
    >>> round(low, 2), round(high, 2)
    (0.91, 1.05)
    """
    rows = read_rows(x, "x")
    if rows.ndim != 1:
        raise ValueError(f"x has shape {rows.shape}: sigma_bounds takes one column at a time")
    rows = rows.astype(np.float64)
    if not np.isfinite(rows).all():
        raise ValueError("x has NaN or infinite values: leave them out, or count them among the corrupt rows")
    if kurtosis is not None:
        kurtosis = FiniteKurtosis(kurtosis).kurtosis
    allowed = Contamination.of(contamination)
    exponent = math.frexp(float(np.partition(np.abs(rows), len(rows) // 2)[len(rows) // 2]))[1]
    with np.errstate(over="ignore"):
        rows = np.ldexp(rows, -exponent)  # squares must neither overflow nor vanish
    pairs = Pairs.of(rows, allowed.count(len(rows)), adaptive=allowed.adversary == "adaptive")
    price = -log_delta_of(confidence) + (0.0 if kurtosis is None else math.log(2))
    high = math.inf if kurtosis is None else evidence.sigma_upper(pairs, kurtosis, price)
    if high == 0.0:
        raise ValueError(f"the rows contradict kurtosis={kurtosis!r}: no sd fits them")
    with np.errstate(over="ignore"):
        low, high = np.ldexp([evidence.sigma_lower(pairs, price), high], exponent).tolist()
    return SigmaBounds(low, high)


def sigma_free_radius(
    variance: ArrayLike,
    *,
    kurtosis: float,
    n_blocks: int,
    n_corrupt: int,
    block_size: int,
    confidence: float | None = None,
    delta: float | None = None,
    adversary: Adversary = "oblivious",
    alternative: Alternative = "two-sided",
) -> NDArray[np.float64]:
    """Return the certified radius of the median of block means if only the kurtosis of clean rows is bounded.

    A share of δ is spent on bounding the standard deviation from the same blocks (:func:`sigma_upper`),
    and the rest on the error given that bound; the share depends on the numbers of blocks and rows only.
    The parameters are those of :func:`sigma_upper`.

    Examples
    --------
    >>> r = sigma_free_radius(1.0, kurtosis=3.0, n_blocks=41, n_corrupt=5, block_size=100, confidence=0.95)
    >>> round(float(r), 3)
    0.1
    """
    check_choice("adversary", adversary, Adversary)
    check_choice("alternative", alternative, Alternative)
    kurtosis, spread = FiniteKurtosis(kurtosis).kurtosis, _variances(variance)
    factor, _ = votes.sigma_free_factor(
        *_blocks(n_blocks, n_corrupt, block_size),
        log_delta=log_failure(confidence, delta),
        kurtosis=kurtosis,
        adversary=adversary,
        alternative=alternative,
    )
    scale = np.sqrt(spread)
    if not np.isfinite(factor):
        return np.full_like(scale, np.inf)
    return np.asarray(float(factor) * scale)


@dataclass(frozen=True, slots=True)
class OrderStatisticInterval:
    """An interval between two order statistics of the block values.

    Attributes
    ----------
    low, high : float
        The r-th smallest and r-th largest block value; infinite if no r gives the confidence.
    rank : int
        r, or 0 if there is none.
    confidence : float
        The confidence that was requested.
    covers : str
        The quantity that the interval covers: the median of the distribution of one clean block
        estimate. It equals the truth if this distribution is symmetric, but not in general.

    Examples
    --------
    >>> from outvote.certificate import order_statistic_interval
    >>> found = order_statistic_interval(range(21), n_corrupt=2, confidence=0.9)
    >>> found.low, found.high, found.rank
    (5.0, 15.0, 6)
    """

    low: float
    high: float
    rank: int
    confidence: float
    covers: str = "the median of the block distribution (the truth only if that distribution is symmetric)"

    def __str__(self) -> str:
        """Return the interval, the quantity that it covers, and the confidence."""
        return f"[{self.low:.6g}, {self.high:.6g}] covers {self.covers} with confidence {self.confidence:.4g}"


def order_statistic_interval(
    block_values: ArrayLike,
    n_corrupt: int,
    *,
    confidence: float | None = None,
    delta: float | None = None,
    adversary: Adversary = "oblivious",
) -> OrderStatisticInterval:
    """Return an interval between order statistics of the block values, without an assumption on scale or tails.

    It covers the *median of the distribution of one clean block estimate*. This is the mean only if that
    distribution is symmetric. The lower end misses only if at most r - 1 of the N clean blocks are on the
    left, and likewise the upper end; corrupt values may depend on the clean ones, and so cause either. So
    r is the largest rank with ``2·P(Bin(K - n_corrupt, ½) <= r - 1) <= δ``, or, for an adaptive adversary,
    ``2·P(Bin(K, ½) <= r - 1 + n_corrupt) <= δ``.

    Parameters
    ----------
    block_values : array of shape (K,)
        The block estimates.
    n_corrupt : int
        How many blocks may hold a corrupt row.
    confidence, delta : float
        Give exactly one: the confidence, or the failure probability.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values.

    Returns
    -------
    OrderStatisticInterval

    Examples
    --------
    >>> interval = order_statistic_interval(np.arange(21.0), 2, confidence=0.95)
    >>> interval.low, interval.high, interval.rank
    (4.0, 16.0, 5)
    """
    from scipy.special import bdtr

    check_choice("adversary", adversary, Adversary)
    log_delta = log_failure(confidence, delta)
    n_corrupt = whole("n_corrupt", n_corrupt)
    values = np.sort(read(block_values, "block_values").values.astype(np.float64))
    if values.ndim != 1 or not values.size or np.isnan(values[-1]):
        raise ValueError("block_values must be a non-empty sequence of numbers without NaN")
    adaptive = adversary == "adaptive"
    n = values.size - (0 if adaptive else n_corrupt)
    handicap = n_corrupt if adaptive else 0
    rank, impossible = 0, (values.size + 1) // 2 + 1
    while impossible - rank > 1:
        middle = (rank + impossible) // 2
        left = middle - 1 + handicap
        holds = left < n and 2 * bdtr(left, n, 0.5) <= math.exp(log_delta)
        rank, impossible = (middle, impossible) if holds else (rank, middle)
    if not rank:
        return OrderStatisticInterval(-math.inf, math.inf, 0, -math.expm1(log_delta))
    return OrderStatisticInterval(float(values[rank - 1]), float(values[-rank]), rank, -math.expm1(log_delta))
