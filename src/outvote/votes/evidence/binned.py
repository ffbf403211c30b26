"""Rows counted in bins, and the product of their factors without the largest ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property

import numpy as np

from outvote.votes.evidence.bins import Bins, least_sum_of_kinds, two_kinds
from outvote.votes.evidence.factors import Factor, Floats
from outvote.votes.evidence.rows import LogParts, SortedRows


class BinnedRows(SortedRows):
    """Rows counted in bins, of which some may be dropped.

    Parameters
    ----------
    bins : Bins
        The rows that may be clean.
    n_corrupt, n_found, adaptive
        As for `SortedRows`.
    values : callable, optional
        Returns the rows that may be clean in ascending order, for what cannot be read off bins.
    """

    def __init__(
        self,
        bins: Bins,
        n_corrupt: int,
        n_found: int = 0,
        *,
        adaptive: bool = False,
        values: Callable[[], Floats] | None = None,
    ):
        super().__init__(np.empty(0), n_corrupt, n_found, adaptive=adaptive)
        self.bins, self._source = bins, values

    @cached_property
    def values(self) -> Floats:
        """The rows that may be clean, in ascending order."""
        if self._source is None:
            raise ValueError("this needs the rows themselves, of which a summary has only counts and sums")
        return self._source()

    @property
    def has_values(self) -> bool:
        """Whether the rows themselves are there."""
        return self._source is not None

    @property
    def n_values(self) -> int:
        """How many rows may be clean."""
        return self.bins.n_rows

    @property
    def smallest(self) -> float:
        """A number that no row is below."""
        return float(self.bins.low[0])

    @property
    def largest_kept(self) -> float:
        """A number that at least one row which is not dropped is not below."""
        return float(self.bins.low[self.bins.at(self.n_values - self.droppable - 1)])

    @cached_property
    def middle(self) -> float:
        """A value in the middle of the rows."""
        return float(self.bins.mean[self.bins.at(self.n_values // 2)])

    @cached_property
    def mirrored(self) -> BinnedRows:
        """The rows with their signs changed."""
        source = None if self._source is None else lambda: -self.values[::-1]
        return self._like(self.bins.mirrored, self.n_corrupt, source)

    def allowing(self, n_corrupt: int) -> BinnedRows:
        """Return the rows with another number of them that may be corrupt."""
        return self._like(self.bins, n_corrupt, self._source)

    def scaled(self, factor: float) -> BinnedRows:
        """Return the rows multiplied by a positive number."""
        source = None if self._source is None else lambda: self.values * factor
        return self._like(self.bins.scaled(factor), self.n_corrupt, source)

    def _like(self, bins: Bins, n_corrupt: int, values: Callable[[], Floats] | None) -> BinnedRows:
        return BinnedRows(bins, n_corrupt, self.n_found, adaptive=self.adaptive, values=values)

    def log_parts(self, factor: Factor, low: float, high: float) -> LogParts:
        """Return the sum of the logarithms of the factors that are never dropped, and the logarithms of the others."""
        outer, inner = self._parts
        total = inner.log_sum(factor, low, high) - inner.n_rows * factor.norm if len(inner.count) else 0.0
        if not len(outer.count):
            return LogParts(total, outer.count, outer.count)
        sums, least, most = outer.log_sums(factor, low, high)
        norm = factor.norm
        values, weights = two_kinds(sums - norm * outer.count, least - norm, most - norm, outer.count)
        return LogParts(total, values, weights)

    @cached_property
    def _parts(self) -> tuple[Bins, Bins]:
        """The bins of rows that may be dropped, and the others: factors are largest at either end."""
        k, ranks = self.droppable, self.bins.ranks
        first = int(np.searchsorted(ranks - self.bins.count, k))  # bins that begin before the k-th row
        last = int(np.searchsorted(ranks, self.n_values - k, side="right"))
        if first >= last:
            return self.bins, self.bins.part(slice(0, 0))
        # From the inside outwards the factors of either end rise: two runs.
        outer = np.concatenate([np.arange(first)[::-1], np.arange(last, len(ranks))])
        return self.bins.part(outer), self.bins.part(slice(first, last))

    def squares_above(self, end: float, unit: float, *, keep_small: bool = True) -> list[tuple[Floats, Floats]]:
        """Return the squares of how far rows lie above `end`, in units, at least, and how many rows have each.

        Without the largest ones, as many as may be dropped; squares below 1 are kept unless told otherwise.
        """
        with np.errstate(over="ignore"):
            squares = np.square(np.maximum(self.bins.low - end, 0.0) / unit)
        most = np.full(len(squares), float(self.n_values - self.droppable))
        kept = np.clip(most - (self.bins.ranks - self.bins.count), 0.0, self.bins.count)
        if keep_small:
            kept = np.where(squares < 1, self.bins.count, kept)
        return [(squares, kept)]

    def squares_outside(self, low: float, high: float, unit: float) -> list[tuple[Floats, Floats]]:
        """Return the squares of how far rows lie outside of [low, high], in the same way."""
        bins = self.bins
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.square(np.maximum(np.maximum(low - bins.high, bins.low - high), 0.0) / unit)
        order = np.argsort(squares, kind="stable")
        squares, count = squares[order], bins.count[order]
        before = np.cumsum(count) - count
        kept = np.clip(self.n_values - self.droppable - before, 0.0, count)
        return [(squares, np.where(squares < 1, count, kept))]

    @cached_property
    def _central(self) -> tuple[float, Floats, Floats]:
        """The median, the bins in the order of their distance from it, and how many rows of each are not dropped."""
        middle = float(self.bins.mean[self.bins.at((self.n_values - 1) // 2)])
        order = np.argsort(np.abs(self.bins.mean - middle), kind="stable")
        count = self.bins.count[order]
        kept = np.clip(self.n_values - self.droppable - (np.cumsum(count) - count), 0.0, count)
        return middle, order, kept

    def central_sd(self) -> float:
        """Return the sd of the rows nearest the median, without as many of the farthest as may be dropped."""
        middle, order, kept = self._central
        used = kept > 0
        order, kept = order[used], kept[used]
        n = float(kept.sum())
        if n < 1:
            return 0.0
        bins = self.bins.part(order)
        with np.errstate(over="ignore", invalid="ignore"):
            within = np.where(np.isfinite(bins.squares), bins.squares * kept / bins.count, 0.0)
            gaps = bins.mean - middle
            mean = float(kept @ gaps) / n
            return math.sqrt(max(float(kept @ np.square(gaps - mean) + within.sum()) / n, 0.0))

    def central_mean(self) -> float:
        """Return the mean of these rows."""
        middle, order, kept = self._central
        return middle + float(kept @ (self.bins.mean[order] - middle)) / max(float(kept.sum()), 1.0)

    def concave_sums(self, low: float, width: float, rates: list[float]) -> list[float]:
        """Return lower bounds on Σ log(1 + a·y) of the rows that are not dropped, y = (x - low)/width, for each a.

        Between the ends of a bin the logarithm is above its chord, so the sum is at least that of the mean on it.
        """
        bins = self.bins
        first, last, mean = (np.clip((x - low) / width, 0.0, 1.0) for x in (bins.low, bins.high, bins.mean))
        mean = np.where(np.isfinite(bins.squares), np.clip(mean, first, last), first)
        gap = last - first
        share = np.divide(mean - first, gap, out=np.zeros_like(gap), where=gap > 0)
        found = []
        for a in rates:
            least, most = np.log1p(a * first), np.log1p(a * last)
            totals = bins.count * (least + share * (most - least))
            values, weights = two_kinds(totals, least, most, bins.count)
            found.append(float(least_sum_of_kinds(values, weights, self.droppable)))
        return found
