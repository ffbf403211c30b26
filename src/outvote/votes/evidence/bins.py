"""Neighbouring rows taken together: sums of logarithms for many rows from a few thousand numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from outvote.votes.evidence.factors import Factor, Floats, sum_of_logs

#: From so many rows on, about so many bins, and so many rows left out of them at either end: tails are far apart.
_MANY_ROWS, _BINS, _ENDS = 50_000, 2048, 1024
#: Rows looked at together.
_AT_ONCE = 1 << 15
#: A loss of log evidence so small that it is not worth looking at each bin.
_LITTLE = 1e-4


@dataclass(frozen=True)
class Bins:
    """Bins of as many rows each, one after the other.

    Attributes
    ----------
    first : int
        How many rows come before the first bin.
    size : int
        Rows of each bin.
    mean, squares : ndarray
        The mean of each bin, and the sum of squares about it.
    low, high : ndarray
        The smallest and the largest row of each bin.
    """

    first: int
    size: int
    mean: Floats
    squares: Floats
    low: Floats
    high: Floats

    @classmethod
    def of(cls, values: Floats) -> Bins | None:
        """Take rows in ascending order together; None if there are too few of them."""
        return cls.sized(values, len(values) // _BINS, _ENDS) if len(values) >= _MANY_ROWS else None

    @classmethod
    def sized(cls, values: Floats, size: int, first: int) -> Bins:
        """Take so many rows at a time, from the row `first` on and no farther than as many rows from the last."""
        table = values[first : first + (len(values) - 2 * first) // size * size].reshape(-1, size)
        low, mean, squares = table[:, 0], np.empty(len(table)), np.empty(len(table))
        step = max(_AT_ONCE // size, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(table), step):  # some bins at a time stay in the processor's cache
                part = slice(start, start + step)
                gaps = table[part] - low[part, None]
                centre = gaps.mean(axis=1)
                mean[part] = low[part] + centre
                gaps -= centre[:, None]
                squares[part] = np.einsum("ij,ij->i", gaps, gaps)
        return cls(first, size, mean, squares, low, table[:, -1])

    @property
    def last(self) -> int:
        """Where the last bin ends."""
        return self.first + self.size * len(self.mean)

    def within(self, start: int, stop: int) -> Bins:
        """Return the bins of rows from `start` up to `stop`; those that are cut are left out."""
        skipped = max(-(-(start - self.first) // self.size), 0)
        most = max(min((stop - self.first) // self.size, len(self.mean)), skipped)
        part = slice(skipped, most)
        return replace(
            self,
            first=self.first + skipped * self.size,
            **{name: getattr(self, name)[part] for name in ("mean", "squares", "low", "high")},
        )

    def scaled(self, factor: float) -> Bins:
        """Return the bins of rows multiplied by a positive number."""
        with np.errstate(over="ignore", invalid="ignore"):
            return replace(
                self,
                mean=self.mean * factor,
                squares=self.squares * factor * factor,
                low=self.low * factor,
                high=self.high * factor,
            )

    def mirrored(self, n_rows: int) -> Bins:
        """Return the bins of all `n_rows` rows with their signs changed."""
        return Bins(
            n_rows - self.last, self.size, -self.mean[::-1], self.squares[::-1], -self.high[::-1], -self.low[::-1]
        )

    def log_sum(self, factor: Factor, low: float, high: float) -> float:
        """Return a lower bound on the sum of the logarithms of 1 + λh, each at its least for means in [low, high].

        If -C is a lower bound on the second derivative of a function in a bin, its sum over the rows is at least
        size·f(mean) - C·squares/2. That of log(1 + λh), with h convex, is at least -(λh'/(1 + λh))².
        """

        def least(x: Floats) -> Floats:
            return np.minimum(np.maximum(x - high, -factor.depth), x - low)

        with np.errstate(over="ignore", invalid="ignore"):
            total = self.size * sum_of_logs(factor.pay(least(self.mean)))
            loss = factor.bend * self._all_squares / 2
            if loss <= _LITTLE:
                return total - loss
            left, right = least(self.low), least(self.high)
            steepest = np.maximum(np.abs(factor.slope(left)), np.abs(factor.slope(right)))
            smallest = np.minimum(factor.pay(left), factor.pay(right))
            smallest[(left < -factor.depth) & (right > -factor.depth)] = np.exp(factor.least)
            each = np.minimum(np.square(steepest / smallest), factor.bend)
            return total - float(each[self.squares > 0] @ self.squares[self.squares > 0]) / 2

    @cached_property
    def _all_squares(self) -> float:
        return float(self.squares.sum())
