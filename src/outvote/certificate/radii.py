"""Compute the certified radius and the expected error of a vote, given the blocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from outvote import votes
from outvote.assumptions.assumption import Assumption
from outvote.data.arguments import (
    MOST,
    check_choice,
    log_failure,
    per_sample,
    real,
    whole,
    whole_per_sample,
)
from outvote.votes import Adversary, Alternative
from outvote.votes.evidence import promised_radius

#: On a full grid the moments are sums over so many blocks at most.
_MOST_CELLS = 2**22

Grid = Literal["full", "diagonal"]


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The checked arguments that describe the blocks; each tuple has one entry per sample."""

    counts: tuple[int, ...]
    sizes: tuple[Any, ...]
    bad: tuple[int, ...]
    degrees: tuple[int, ...]
    rates: tuple[float, ...] | None
    full: bool

    @property
    def equal(self) -> bool:
        return all(np.ndim(size) == 0 for size in self.sizes)

    @property
    def smallest(self) -> tuple[float, ...]:
        return tuple(float(np.min(size)) for size in self.sizes)


def _check_blocks(
    n_blocks: int | Sequence[int],
    block_size: Any,
    n_corrupt: int | Sequence[int] | None,
    huber_rate: float | Sequence[float] | None,
    degrees: Sequence[int],
    grid: Grid,
) -> _Blocks:
    """Check that the arguments fit together, and return them with one entry per sample."""
    check_choice("grid", grid, Grid)
    if (n_corrupt is None) == (huber_rate is None):
        raise ValueError(
            f"give exactly one of n_corrupt={n_corrupt!r} and huber_rate={huber_rate!r}; give n_corrupt=0 if "
            "no row is corrupt"
        )
    taken = _degrees(degrees)
    given = _array("n_blocks", n_blocks)
    if taken == (1,) and given.ndim:
        taken = (1,) * given.size
    n_samples = len(taken)
    counts = whole_per_sample("n_blocks", n_blocks, n_samples)
    several = n_samples > 1 or given.ndim == 1
    if several and isinstance(block_size, tuple) and len(block_size) == n_samples:
        sizes: tuple[Any, ...] = block_size
    else:
        sizes = (block_size,) * n_samples if _array("block_size", block_size).ndim == 0 else (block_size,)
    if len(sizes) != n_samples:
        raise ValueError(f"block_size={block_size!r} must be a tuple of {n_samples} sizes, one per sample")
    sizes = tuple(_sizes(size, count) for size, count in zip(sizes, counts, strict=True))
    bad: tuple[int, ...] = (0,) * n_samples
    rates = None
    if n_corrupt is not None:
        bad = whole_per_sample("n_corrupt", n_corrupt, n_samples, least=0)
    else:
        rates = tuple(real("huber_rate", one) for one in per_sample("huber_rate", huber_rate, n_samples))
        if any(not 0 <= rate < 1 for rate in rates):
            raise ValueError(f"huber_rate={huber_rate!r} must be in [0, 1), for instance huber_rate=0.01")
    full = n_samples > 1 and grid == "full"
    if full and rates is not None:
        raise ValueError(
            f"huber_rate={huber_rate!r} has no certificate on a full grid: use grid='diagonal', or n_corrupt"
        )
    if not full and len(set(counts)) > 1:
        raise ValueError(f"n_blocks={n_blocks!r}: a diagonal needs the same number of blocks in each sample")
    return _Blocks(counts, sizes, bad, taken, rates, full)


def _degrees(degrees: Any) -> tuple[int, ...]:
    several = tuple(degrees) if isinstance(degrees, Iterable) else (degrees,)
    return whole_per_sample("degrees", several, len(several))


def _array(name: str, given: Any) -> Any:
    """Return a number, or a sequence of numbers, as an array."""
    try:
        return np.asarray(given)
    except ValueError:
        raise ValueError(f"{name}={given!r} is ragged: give one number, or one for each sample or block") from None


def _sizes(size: Any, count: int) -> Any:
    """Return one size if all `count` blocks have the same, else the array of their sizes."""
    array = _array("block_size", size)
    array = array.astype(np.float64) if array.dtype.kind == "f" else array
    whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and np.all(array == np.floor(array)))
    if not whole or np.any((array > MOST) | (array < -MOST)):
        raise TypeError(f"block_size={size!r} must be a whole number of rows, or one number for each block")
    if array.ndim and array.shape != (count,):
        raise ValueError(f"block_size has {array.size} sizes for n_blocks={count}: give one size per block")
    return int(array.flat[0]) if array.size and (array == array.flat[0]).all() else array


def radius(
    *,
    n_blocks: int | Sequence[int] | None = None,
    n_corrupt: int | Sequence[int] | None = None,
    block_size: Any = None,
    confidence: float | None = None,
    delta: float | None = None,
    assume: Assumption,
    vote: str = "median",
    adversary: Adversary = "oblivious",
    degrees: Sequence[int] = (1,),
    grid: Grid = "full",
    alternative: Alternative = "two-sided",
    huber_rate: float | Sequence[float] | None = None,
    n_rows: int | None = None,
) -> float:
    """Return the certified radius: how far the vote of the blocks can be from the truth, with the given confidence.

    Parameters
    ----------
    n_blocks : int or tuple of int
        Number of blocks (K), one per sample.
    n_corrupt : int or tuple of int
        How many rows of each sample may be corrupt.
    block_size : int, sequence of int, or tuple of these
        Rows in each block: one number if all are equal, a sequence of K numbers if not; a tuple with
        one entry per sample if there are several. A full grid of unequal blocks is treated as if all
        had the smallest size.
    confidence, delta : float
        Give exactly one: the confidence, or the failure probability, which may be as small as 1e-300.
    assume : Assumption
        The assumption on the clean values.
    vote : {"median", "soft", "clipped", "auto", "evidence"}
        How the estimate is computed from the block values; "auto" takes the vote with the smallest radius. On a full
        grid and under Huber's model only the median has a certificate. "evidence" has no blocks: the radius is what an
        interval from evidence on `n_rows` rows never exceeds, whatever the rows; most are two to four times shorter.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values.
    degrees : sequence of int, default (1,)
        Degree of the kernel in each sample; (1,) is a mean.
    grid : {"full", "diagonal"}
        With several samples: every combination of blocks votes, or block k of all samples votes together.
    alternative : {"two-sided", "less", "greater"}
        Whether the radius holds on both sides, or bounds the truth from above or from below only.
    huber_rate : float or tuple of float, optional
        Instead of `n_corrupt`: each row is an outlier with this probability (Huber's model).
    n_rows : int, optional
        With vote="evidence", instead of blocks: how many rows there are.

    Returns
    -------
    float
        The radius; infinite if the clean blocks cannot outvote the corrupt ones (K <= 2·n_corrupt).

    Examples
    --------
    >>> from outvote.assumptions.assumption import FiniteVariance
    >>> round(radius(n_blocks=41, n_corrupt=10, block_size=24, confidence=0.95,
    ...              assume=FiniteVariance(1.0)), 3)
    0.392
    >>> radius(n_blocks=20, n_corrupt=10, block_size=50, confidence=0.95, assume=FiniteVariance(1.0))
    inf
    >>> round(radius(n_rows=10_000, n_corrupt=100, confidence=0.95, assume=FiniteVariance(1.0), vote="evidence"), 3)
    0.119
    """
    check_choice("vote", vote, votes.VoteName)
    check_choice("adversary", adversary, Adversary)
    check_choice("alternative", alternative, Alternative)
    _check_assumption(assume)
    log_delta = log_failure(confidence, delta)
    if vote == "evidence":
        if alternative != "two-sided":
            raise ValueError(f"alternative={alternative!r} has no radius known beforehand: use vote='soft'")
        rows, bad = _rows_of_evidence(n_rows, n_blocks, block_size, n_corrupt, degrees)
        return promised_radius(rows, bad, assume, votes.Terms(log_delta, adversary, alternative, assume))
    if n_blocks is None or block_size is None or n_rows is not None:
        raise TypeError(f"vote={vote!r} is a vote of blocks: give n_blocks and block_size, and no n_rows")
    blocks = _check_blocks(n_blocks, block_size, n_corrupt, huber_rate, degrees, grid)
    if blocks.rates is not None and adversary != "oblivious":
        raise ValueError(
            f"adversary={adversary!r} contradicts huber_rate={huber_rate!r}, with which rows are corrupt by "
            "chance: use adversary='oblivious', or n_corrupt"
        )
    terms = votes.Terms(log_delta, adversary, alternative, assume, tuple(blocks.degrees))
    if blocks.full or blocks.rates is not None:
        if vote in ("soft", "clipped"):
            where = "a full grid" if blocks.full else f"huber_rate={huber_rate!r}"
            raise ValueError(f"vote={vote!r} has no certificate on {where}: use vote='median'")
        return _median_only(blocks, terms)
    names = ("median", "soft", "clipped") if vote == "auto" else (vote,)
    if blocks.equal:
        return min(votes.at_size(one, blocks.counts[0], sum(blocks.bad), blocks.sizes, terms).radius for one in names)
    sizes = [np.broadcast_to(size, blocks.counts[:1]) for size in blocks.sizes]
    return min(votes.ballot(one, sizes, blocks.bad, terms).radius for one in names)


def _check_assumption(assume: object) -> None:
    if not isinstance(assume, Assumption):
        raise TypeError(f"assume={assume!r} must be an assumption with a scale, for instance FiniteVariance(1.0)")


def _rows_of_evidence(
    n_rows: Any, n_blocks: Any, block_size: Any, n_corrupt: Any, degrees: Sequence[int]
) -> tuple[int, int]:
    """Check the arguments of a radius without blocks, and return the numbers of rows and of corrupt ones."""
    if _degrees(degrees) != (1,):
        raise ValueError(f"vote='evidence' is for means, not for kernels of degrees={degrees!r}: use vote='median'")
    if n_rows is None:
        if n_blocks is None or block_size is None:
            raise TypeError("vote='evidence' needs n_rows, how many rows there are")
        if np.ndim(n_blocks) or np.ndim(block_size):
            raise TypeError(f"vote='evidence' has no blocks of n_blocks={n_blocks!r}: give n_rows")
        (k,), (size,) = whole_per_sample("n_blocks", n_blocks, 1), whole_per_sample("block_size", block_size, 1)
        n_rows = k * size
    (n_rows,) = whole_per_sample("n_rows", n_rows, 1)
    return n_rows, whole("n_corrupt", n_corrupt)


def _median_only(blocks: _Blocks, terms: votes.Terms) -> float:
    if blocks.full:
        return float(votes.grid_radius(blocks.counts, blocks.bad, blocks.smallest, **terms.keywords))
    if blocks.equal:
        return float(
            votes.huber_radius(blocks.counts[0], blocks.sizes, huber_rates=blocks.rates or (), **terms.keywords)
        )
    sizes = tuple(np.broadcast_to(size, blocks.counts[:1]) for size in blocks.sizes)
    return votes.unequal_radius(0, sizes, huber_rates=blocks.rates, **terms.keywords)


def expected_error(
    *,
    n_blocks: int | Sequence[int],
    n_corrupt: int | Sequence[int],
    block_size: Any,
    assume: Assumption,
    adversary: Adversary = "oblivious",
    degrees: Sequence[int] = (1,),
    grid: Grid = "full",
) -> float:
    """Return a bound on the expected absolute error of the median vote.

    With ``(N, m)`` of :func:`outvote.votes.threshold` and the block sd,
    ``E|error| <= sd·Γ(m-½)Γ(N+1)/(Γ(m)Γ(N+½))``. Unequal blocks are treated as if all had the smallest
    size. The parameters are those of :func:`radius`.

    Examples
    --------
    >>> from outvote.assumptions.assumption import FiniteVariance
    >>> round(expected_error(n_blocks=41, n_corrupt=10, block_size=24, assume=FiniteVariance(1.0)), 3)
    0.356
    """
    return _moment(1, n_blocks, n_corrupt, block_size, assume, adversary, degrees, grid)


def mean_squared_error(
    *,
    n_blocks: int | Sequence[int],
    n_corrupt: int | Sequence[int],
    block_size: Any,
    assume: Assumption,
    adversary: Adversary = "oblivious",
    degrees: Sequence[int] = (1,),
    grid: Grid = "full",
) -> float:
    """Return a bound on the mean squared error of the median vote, ``sd²·N/(m-1)``; infinite if m < 2.

    Unequal blocks are treated as if all had the smallest size. The parameters are those of :func:`radius`.

    Examples
    --------
    >>> from outvote.assumptions.assumption import FiniteVariance
    >>> round(mean_squared_error(n_blocks=41, n_corrupt=10, block_size=24, assume=FiniteVariance(1.0)), 4)
    0.1292
    """
    return _moment(2, n_blocks, n_corrupt, block_size, assume, adversary, degrees, grid)


def _moment(
    order: int,
    n_blocks: int | Sequence[int],
    n_corrupt: int | Sequence[int],
    block_size: Any,
    assume: Assumption,
    adversary: Adversary,
    degrees: Sequence[int],
    grid: Grid,
) -> float:
    """Return a bound on E|error|^order, the integral of the failure probability with Chebyshev's p = (sd/t)².

    For the median that probability is at most P(Beta(m, N-m+1) <= p), so the moment is at most
    sd^order·E Beta^(-order/2). For a full grid it is at most E(Bin(N, p) - i)₊/(fN - i) for each i.
    """
    from scipy.special import gammaln

    check_choice("adversary", adversary, Adversary)
    _check_assumption(assume)
    blocks = _check_blocks(n_blocks, block_size, n_corrupt, None, degrees, grid)
    sd = float(assume.tail(blocks.smallest, blocks.degrees).sd)
    half = order / 2
    if not blocks.full:
        n, m = (float(a) for a in votes.threshold(blocks.counts[0], sum(blocks.bad), adversary))
        if m <= half:
            return math.inf
        log_ratio = gammaln(m - half) + gammaln(n + 1) - gammaln(m) - gammaln(n + 1 - half)
        return _moment_of(sd, order) * math.exp(log_ratio) * (1 + 1e-9)
    n, fraction = (float(a) for a in votes.grid_threshold(blocks.counts, blocks.bad, adversary))
    needed = fraction * n
    first = 1 if order == 2 else 0  # the integral of P(Bin >= 1) diverges for the square
    if needed <= first:
        return math.inf
    if n > _MOST_CELLS:
        raise ValueError(
            f"n_blocks={n_blocks!r} is too many for a full grid, whose moments are sums over blocks: at most "
            f"{_MOST_CELLS} in each sample, or grid='diagonal'"
        )
    # sd^order·(1 + Σ_{j>i} (j-i)·w_j / (fN-i)), w_j the integral of P(Bin(N, p) = j) beyond t = sd.
    j = np.arange(1.0, n + 1)
    log_w = gammaln(n + 1) - gammaln(j + 1) + gammaln(np.maximum(j - half, 0.5)) - gammaln(n + 1 - half)
    weights = np.where(j > half, half * np.exp(log_w), 0.0)
    beyond = np.cumsum(weights[::-1])[::-1]  # Σ_{j>=k} w_j, k = 1..N
    excess = np.append(np.cumsum(beyond[::-1])[::-1], 0.0)  # Σ_{j>i} (j-i)·w_j, i = 0..N
    i = np.arange(first, math.ceil(needed))
    return float(_moment_of(sd, order) * (1 + (excess[i] / (needed - i)).min()) * (1 + 1e-9))


def _moment_of(sd: float, order: int) -> float:
    """Return a power of an sd; infinite where no float holds it."""
    with np.errstate(over="ignore"):
        return float(np.float64(sd) ** order)
