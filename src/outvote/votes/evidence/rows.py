"""Sorted rows, and the product of their factors without the largest ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from outvote.votes.evidence.bins import Bins
from outvote.votes.evidence.factors import Factor, Floats


def least_sum(logs: Floats, n_dropped: int) -> float:
    """Add up logarithms without the largest ones, `n_dropped` at most, as far as they are positive; reorders them.

    Examples
    --------
    >>> least_sum(np.array([3.0, -1.0, 2.0]), 1), least_sum(np.array([3.0, -1.0, 2.0]), 3)
    (1.0, -1.0)
    """
    k = min(n_dropped, len(logs))
    if 0 < k < len(logs):
        logs.partition(len(logs) - k - 1)
    largest = logs[len(logs) - k :]
    return float(np.add.reduce(logs[: len(logs) - k])) + float(np.add.reduce(largest[largest <= 0]))


class SortedRows:
    """Finite rows in order, of which some may be dropped.

    Parameters
    ----------
    values : ndarray
        The rows that may be clean, in ascending order.
    n_corrupt : int
        How many rows may be corrupt (m), those found to be corrupt among them.
    n_found : int
        Rows that are corrupt for certain (b): they are not among `values`, and m - b of these may be dropped.
    adaptive : bool
        Whether whoever corrupted the rows had seen them.
    bins : Bins, optional
        The rows taken together, if that is known; by default they are if there are many, when evidence is asked for.

    Examples
    --------
    >>> from outvote.votes.evidence.factors import VarianceFactor
    >>> rows = SortedRows(np.array([0.0, 1.0, 2.0, 90.0]), 1)
    >>> factor = VarianceFactor(rate=0.1, depth=10.0)
    >>> kept = SortedRows(rows.values[:3], 0)
    >>> math.isclose(rows.log_product(factor, 0.5, 0.5), kept.log_product(factor, 0.5, 0.5))
    True
    """

    def __init__(
        self, values: Floats, n_corrupt: int, n_found: int = 0, *, adaptive: bool = False, bins: Bins | None = None
    ):
        self._values, self._given = values, bins
        self.n_corrupt, self.n_found, self.adaptive = n_corrupt, n_found, adaptive

    @property
    def values(self) -> Floats:
        """The rows that may be clean, in ascending order."""
        return self._values

    @cached_property
    def bins(self) -> Bins | None:
        """The rows taken together; None if there are few."""
        return self._given or Bins.of(self.values)

    @property
    def n_rows(self) -> int:
        """How many rows there are, those found to be corrupt among them (n)."""
        return len(self.values) + self.n_found

    @property
    def droppable(self) -> int:
        """How many of the values may be dropped."""
        return self.n_corrupt - self.n_found

    @property
    def middle(self) -> float:
        """A value in the middle of the rows."""
        return float(self.values[len(self.values) // 2])

    @cached_property
    def mirrored(self) -> SortedRows:
        """The rows with their signs changed."""
        bins = self.bins and self.bins.mirrored(len(self.values))
        return SortedRows(-self.values[::-1], self.n_corrupt, self.n_found, adaptive=self.adaptive, bins=bins)

    def allowing(self, n_corrupt: int) -> SortedRows:
        """Return the rows with another number of them that may be corrupt."""
        return SortedRows(self.values, n_corrupt, self.n_found, adaptive=self.adaptive, bins=self.bins)

    def scaled(self, factor: float) -> SortedRows:
        """Return the rows multiplied by a positive number."""
        with np.errstate(over="ignore"):
            values = self.values * factor
        bins = self.bins and self.bins.scaled(factor)
        return SortedRows(values, self.n_corrupt, self.n_found, adaptive=self.adaptive, bins=bins)

    def log_product(self, factor: Factor, low: float, high: float) -> float:
        """Return the logarithm of the product of the factors, each at its least for means in [low, high].

        The `droppable` largest factors are left out, as far as they exceed 1. With low = -∞ the factors are those made
        constant left of -τ. An adaptive adversary is paid the least factor for every corrupt row.
        """
        total, outer = self.log_parts(factor, low, high)
        total += least_sum(outer, self.droppable)
        return total + self.n_corrupt * (factor.least - factor.norm) if self.adaptive else total

    def log_parts(self, factor: Factor, low: float, high: float) -> tuple[float, Floats]:
        """Return the sum of the logarithms of the factors that are never dropped, and the logarithms of the others."""
        outer, inner, bins = self._parts
        total = bins.log_sum(factor, low, high) - bins.size * len(bins.mean) * factor.norm if bins else 0.0
        if len(inner):
            # Rows left of the valley at y = -τ for every mean, rows whose valley is at one of them, and the others.
            left = int(np.searchsorted(inner, low - factor.depth)) if low > -math.inf else 0
            right = int(np.searchsorted(inner, high - factor.depth, side="right"))
            total += factor.log_sum(inner[right:], high) + (right - left) * factor.least
            total += factor.log_sum(inner[:left], low) if left else 0.0
        total -= len(inner) * factor.norm
        if not len(outer):
            return total, outer
        return total, factor.logs(np.minimum(np.maximum(outer - high, -factor.depth), outer - low)) - factor.norm

    @cached_property
    def _parts(self) -> tuple[Floats, Floats, Bins | None]:
        """The smallest and largest rows, whose factors may be the largest ones, other rows, and bins of others."""
        x, k = self.values, self.droppable
        if 2 * k >= len(x):
            return x, x[:0], None
        outer = np.concatenate([x[:k], x[len(x) - k :]])
        bins = self.bins.within(k, len(x) - k) if self.bins else None
        if bins is None or not len(bins.mean):
            return outer, x[k : len(x) - k], None
        return outer, np.concatenate([x[k : bins.first], x[bins.last : len(x) - k]]), bins

    def squares_above(self, end: float, unit: float, *, keep_small: bool = True) -> list[tuple[Floats, int]]:
        """Return the squares of how far rows lie above `end`, in units, at least, and how many rows have each.

        Without the largest ones, as many as may be dropped; squares below 1 are kept unless told otherwise.
        """
        x, most = self.values, len(self.values) - self.droppable
        if keep_small:
            most = max(most, int(np.searchsorted(x, end + unit)))
        parts = [(x[:most], 1)]
        if self.bins is not None and len((bins := self.bins.within(0, most)).mean):
            parts = [(x[: bins.first], 1), (bins.low, bins.size), (x[bins.last : most], 1)]
        with np.errstate(over="ignore"):
            return [(np.square(np.maximum(rows - end, 0.0) / unit), times) for rows, times in parts]

    def squares_outside(self, low: float, high: float, unit: float) -> list[tuple[Floats, int]]:
        """Return the squares of how far rows lie outside of [low, high], in the same way."""
        outer, inner, bins = self._parts
        parts = [(outer, outer, 1), (inner, inner, 1)]
        if bins is not None:
            parts.append((bins.low, bins.high, bins.size))
        found = []
        with np.errstate(over="ignore", invalid="ignore"):
            for lowest, highest, times in parts:
                found.append((np.square(np.maximum(np.maximum(low - highest, lowest - high), 0.0) / unit), times))
        gone = np.sort(found[0][0])
        most = max(len(gone) - self.droppable, int(np.searchsorted(gone, 1.0)))
        return [(gone[:most], 1), *found[1:]]

    def log_evidence(self, factors: Sequence[Factor], low: float, high: float) -> float:
        """Return the logarithm of the weighted sum of these products."""
        if len(factors) == 1:
            return math.log(factors[0].weight) + self.log_product(factors[0], low, high)
        return _log_sum([math.log(one.weight) + self.log_product(one, low, high) for one in factors])


class SeveralRows(SortedRows):
    """Several sets of rows of one law, each by itself independent: the mean of their evidence is evidence."""

    def __init__(self, members: Sequence[SortedRows]):
        first = members[0]
        super().__init__(first.values, first.n_corrupt, first.n_found, adaptive=first.adaptive, bins=first.bins)
        self._members = members

    @cached_property
    def mirrored(self) -> SortedRows:
        """The rows with their signs changed."""
        return SeveralRows([one.mirrored for one in self._members])

    def scaled(self, factor: float) -> SortedRows:
        """Return the rows multiplied by a positive number."""
        return SeveralRows([one.scaled(factor) for one in self._members])

    def allowing(self, n_corrupt: int) -> SortedRows:
        """Return the rows with another number of them that may be corrupt."""
        return SeveralRows([one.allowing(n_corrupt) for one in self._members])

    def log_evidence(self, factors: Sequence[Factor], low: float, high: float) -> float:
        """Return the logarithm of the mean of their evidence."""
        logs = [one.log_evidence(factors, low, high) for one in self._members]
        return _log_sum([one - math.log(len(logs)) for one in logs])


def _log_sum(logs: Sequence[float]) -> float:
    largest = max(logs)
    if not math.isfinite(largest):
        return largest
    return largest + math.log(sum(math.exp(one - largest) for one in logs))
