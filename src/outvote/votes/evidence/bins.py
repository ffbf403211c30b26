"""Rows counted in bins: lower bounds on sums of logarithms, from a few hundred numbers for any number of rows.

Of the rows of a bin their number c, their mean and the sum of squares about it are known, and the ends of the bin. If
-C is a lower bound on the second derivative of a function in the bin, its sum over the rows is at least
c·f(mean) - C·squares/2 =: T; that of log(1 + λh), with h convex, is at least -(λh'/(1 + λh))².

When d rows of a bin are dropped, at least max(T - d·hi, (c - d)·lo) is left, where lo and hi are the least and the
largest value of f in the bin: as if (T - c·lo)/(hi - lo) of the rows had the value hi, and the others lo. So a bin
counts as these two kinds of rows, and dropping the largest values first is the worst that can happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from outvote.votes.evidence.factors import Factor, Floats

#: The mean of a bin is known to this share of its width.
SLACK = 2.0**-33
#: No bin is taken to reach farther than this.
FARTHEST = 2.0**1000
#: A loss of log evidence so small that it is not worth looking at each bin.
LITTLE = 1e-4


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
        return Bins(count, -mean, squares, -high, -low)

    @cached_property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.count.sum())

    @cached_property
    def all_squares(self) -> float:
        """The sum of squares about the means of all bins."""
        return float(self.squares.sum())

    @cached_property
    def slack(self) -> float:
        """By how much the sum of the rows may be off."""
        return SLACK * float(self.count @ (self.high - self.low))

    @cached_property
    def ranks(self) -> Floats:
        """How many rows there are up to the end of each bin."""
        return np.cumsum(self.count, axis=-1)

    def at(self, rank: float) -> int:
        """Return the bin of the row that has so many rows before it."""
        return min(int(np.searchsorted(self.ranks, rank, side="right")), len(self.count) - 1)

    def log_sum(self, factor: Factor, low: float, high: float) -> float:
        """Return a lower bound on the sum of the logarithms of 1 + λh, each at its least for means in [low, high]."""
        with np.errstate(over="ignore", invalid="ignore"):
            loss = factor.bend * self.all_squares / 2 + factor.steepest * self.slack
            if not loss <= LITTLE:
                return float(self.log_sums(factor, low, high)[0].sum())
            y = np.minimum(np.maximum(self.mean - high, -factor.depth), self.mean - low)
            return float(self.count @ np.log(factor.pay(y))) - loss

    def log_sums(self, factor: Factor, low: float, high: float) -> tuple[Floats, Floats, Floats]:
        """Return such a bound for each bin, and the least and the largest value of the logarithm in it."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            x = np.concatenate([self.mean, self.low, self.high])
            y = np.minimum(np.maximum(x - high, -factor.depth), x - low)
            pay = factor.pay(y)
            mean, first, last = np.log(pay).reshape(3, -1)
            left, right = y.reshape(3, -1)[1:]
            least, most = np.minimum(first, last), np.maximum(first, last)
            least = np.where((left < -factor.depth) & (right > -factor.depth), factor.least, least)
            _, pay_left, pay_right = pay.reshape(3, -1)
            most[np.isnan(most)] = np.inf
            slopes = np.maximum(np.abs(factor.slope(left)), np.abs(factor.slope(right)))
            slopes = np.minimum(slopes / np.minimum(np.minimum(pay_left, pay_right), np.exp(least)), factor.steepest)
            bend = np.minimum(np.square(slopes), factor.bend)
            loss = bend * self.squares / 2 + self.count * slopes * (self.high - self.low) * SLACK
            totals = np.where(np.isfinite(self.squares + loss), self.count * mean - loss, -np.inf)
            return np.minimum(np.maximum(totals, self.count * least), self.count * most), least, most


def two_kinds(totals: Floats, least: Floats, most: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Return the values of the two kinds of rows that each bin counts as, and how many of each there are."""
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = most - least
        upper = np.where((gap > 0) & (most < np.inf), (totals - count * least) / gap, 0.0)
    upper = np.minimum(np.maximum(upper, 0.0), count)
    return np.stack([least, most], axis=-1).reshape(*least.shape[:-1], -1), np.stack(
        [count - upper, upper], axis=-1
    ).reshape(*least.shape[:-1], -1)


def least_sum_of_kinds(values: Floats, weights: Floats, n_dropped: Any) -> Any:
    """Add up weighted values without the largest ones, `n_dropped` at most, as far as they are positive.

    Examples
    --------
    >>> least_sum_of_kinds(np.array([3.0, -1.0, 2.0]), np.array([1.0, 4.0, 2.5]), 2)
    -1.0
    """
    order = np.argsort(values, axis=-1, kind="stable")  # two ascending runs: fast
    values, weights = (np.take_along_axis(one, order, axis=-1) for one in (values, weights))
    above = np.cumsum(weights[..., ::-1], axis=-1)[..., ::-1]
    limit = n_dropped if np.ndim(n_dropped) == 0 else np.asarray(n_dropped)[..., None]
    kept = np.minimum(np.maximum(above - limit, 0.0), weights)
    used = np.where(values > 0, kept, weights)
    return (np.where(used > 0, values, 0.0) * used).sum(axis=-1)
