"""Rows counted in bins: of those of a bin their number, their mean, the sum of squares about it, and their ends.

If a sum over the rows of a bin is at least T, and each of its c values between lo and hi, then of what d rows leave
the sum is at least max(T - d·hi, (c - d)·lo): as if (T - c·lo)/(hi - lo) of the rows had the value hi, the others lo.
So a bin counts as these two kinds of rows, and dropping the largest values first is the worst that can happen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: The mean of a bin is known to this share of its width.
SLACK = 2.0**-33
#: Ends and means of bins are rounded by at most this share of their size.
ROUNDING = 2.0**-52
#: No bin is taken to reach farther than this.
FARTHEST = 2.0**1000
#: Rows are gathered in bins of this relative width; so many of them say how far most lie from the median.
_WIDTH, _SAMPLED = 0.01, 256


@dataclass(frozen=True)
class Bins:
    """Bins with rows, in ascending order on the last axis.

    Attributes
    ----------
    count : ndarray
        How many rows each has.
    mean, squares : ndarray
        Their mean, and the sum of squares about it, at least; infinite where the mean is not known.
    low, high : ndarray
        The ends of the bins.
    """

    count: Floats
    mean: Floats
    squares: Floats
    low: Floats
    high: Floats

    @classmethod
    def of_sorted(cls, rows: Floats, n_apart: int) -> Bins:
        """Gather rows in ascending order that are nearly equal, but for so many at either end.

        A bin is a hundredth of the distance of the middle rows from the median wide there, and farther out a hundredth
        of its own distance.
        """
        n, middle = len(rows), float(rows[len(rows) // 2])
        inner, starts = rows[n_apart : n - n_apart], np.empty(0, dtype=np.intp)
        with np.errstate(over="ignore"):
            away = np.abs(rows[:: max(n // _SAMPLED, 1)] - middle)
            away = np.sort(away[away > 0])
            unit = float(away[len(away) // 2]) if len(away) else 1.0
            reached = (inner[[0, -1]] - middle) / unit if len(inner) else np.array([np.inf])
        if not 1e-290 < unit < 1e290 or not np.isfinite(reached).all():
            inner = rows[:0]
        if len(inner):
            first, last = np.arcsinh(reached) / _WIDTH
            edges = middle + unit * np.sinh(_WIDTH * np.arange(math.ceil(first), math.floor(last) + 1))
            starts = np.unique(np.concatenate([[0], np.searchsorted(inner, edges)]))
            starts = starts[starts < len(inner)]
        starts = np.concatenate([np.arange(min(n_apart, n)), n_apart + starts, np.arange(max(n - n_apart, n_apart), n)])
        if not len(inner):
            starts = np.arange(n)
        count = np.diff(starts, append=n)
        base = rows[starts]
        offset = np.add.reduceat(rows - np.repeat(base, count), starts) / count
        squares = np.add.reduceat(np.square(rows - np.repeat(base + offset, count)), starts)
        return cls(count.astype(np.float64), base + offset, squares * (1 + 1e-9), base, rows[starts + count - 1])

    @property
    def arrays(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """All of them."""
        return self.count, self.mean, self.squares, self.low, self.high

    def part(self, which: Any) -> Bins:
        """Return some of the bins."""
        return Bins(*(one[which] for one in self.arrays))

    def scaled(self, factor: float) -> Bins:
        """Return the bins of rows multiplied by a positive number."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = self.squares * factor * factor
            ends = (np.clip(one * factor, -FARTHEST, FARTHEST) for one in (self.mean, self.low, self.high))
            mean, low, high = ends
            return Bins(self.count, mean, squares, low, high)

    @cached_property
    def mirrored(self) -> Bins:
        """The bins of the rows with their signs changed."""
        count, mean, squares, low, high = (one[..., ::-1] for one in self.arrays)
        return Bins(count.copy(), -mean, squares.copy(), -high, -low)

    @cached_property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.count.sum())

    @cached_property
    def all_squares(self) -> float:
        """The sum of squares about the means of all bins."""
        return float(self.squares.sum())

    @property
    def plain_mean(self) -> float:
        """The mean of all rows; those farthest out are taken to be at the ends of their bins."""
        middle = float(self.mean[len(self.mean) // 2])
        return middle + float(self.count @ (self.mean - middle)) / self.n_rows

    @cached_property
    def slacks(self) -> Floats:
        """By how much the mean of each bin may be off: it is known to a share of the width, and rounded."""
        return SLACK * (self.high - self.low) + ROUNDING * np.maximum(np.abs(self.low), np.abs(self.high))

    @cached_property
    def before(self) -> Floats:
        """How many rows there are before each bin."""
        return self.ranks - self.count

    @cached_property
    def ranks(self) -> Floats:
        """How many rows there are up to the end of each bin."""
        return np.cumsum(self.count, axis=-1)

    @cached_property
    def _outwards(self) -> tuple[float, Floats, Floats]:
        """The median, how many rows there are up to each bin in the order of their distance from it, and sums.

        These are of distances, their squares, and the squares within the bins.
        """
        middle = float(self.mean[self.at((self.n_rows - 1) // 2)])
        gaps = self.mean - middle
        order = np.argsort(np.abs(gaps), kind="stable")
        count, gaps = self.count[order], gaps[order]
        with np.errstate(over="ignore", invalid="ignore"):
            within = np.where(np.isfinite(self.squares), self.squares, 0.0)[order]
            each = np.stack([count * gaps, count * gaps * gaps, within])
        sums = np.concatenate([np.zeros((3, 1)), np.cumsum(each, axis=1)], axis=1)
        return middle, np.cumsum(count), sums

    def nearest(self, n_rows: int) -> tuple[float, float]:
        """Return the mean and the sd of so many rows, those nearest the median."""
        middle, ranks, sums = self._outwards
        if n_rows < 1:
            return middle, 0.0
        last = min(int(np.searchsorted(ranks, n_rows)), len(ranks) - 1)
        before = float(ranks[last - 1]) if last else 0.0
        share = (n_rows - before) / (float(ranks[last]) - before)
        total, squares, within = ((1 - share) * sums[:, last] + share * sums[:, last + 1]).tolist()
        mean = total / n_rows
        return middle + mean, math.sqrt(max((squares + within) / n_rows - mean * mean, 0.0))

    def at(self, rank: float) -> int:
        """Return the bin of the row that has so many rows before it."""
        return min(int(self.ranks.searchsorted(rank, side="right")), len(self.count) - 1)


def two_kinds(totals: Floats, least: Floats, most: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Return the values of the two kinds of rows that each bin counts as, and how many of each there are."""
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = most - least
        upper = np.where((gap > 0) & (most < np.inf), (totals - count * least) / gap, 0.0)
    upper = np.minimum(np.maximum(upper, 0.0), count)
    values, weights = np.empty((len(least), 2)), np.empty((len(least), 2))
    values[:, 0], values[:, 1], weights[:, 0], weights[:, 1] = least, most, count - upper, upper
    return values.ravel(), weights.ravel()


def least_sum_of_kinds(values: Floats, weights: Floats, n_dropped: Any) -> Any:
    """Add up weighted values without the largest ones, `n_dropped` at most, as far as they are positive.

    Examples
    --------
    >>> float(least_sum_of_kinds(np.array([3.0, -1.0, 2.0]), np.array([1.0, 4.0, 2.5]), 2))
    -1.0
    """
    order = np.argsort(values, axis=-1, kind="stable")  # two ascending runs: fast
    if values.ndim > 1:
        order += values.shape[-1] * np.arange(values.size // values.shape[-1]).reshape(*values.shape[:-1], 1)
    values, weights = values.ravel()[order], weights.ravel()[order]
    above = weights[..., ::-1].cumsum(axis=-1)[..., ::-1]
    above -= n_dropped if np.ndim(n_dropped) == 0 else np.asarray(n_dropped)[..., None]
    kept = np.minimum(np.maximum(above, 0.0), weights)
    used = np.where(values > 0, kept, weights)
    return (np.where(used > 0, values, 0.0) * used).sum(axis=-1)
