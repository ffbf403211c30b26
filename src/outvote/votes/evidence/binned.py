"""Rows counted in bins, and the product of their factors without the largest ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from outvote import _numba
from outvote.votes.evidence.bins import LITTLE, LITTLE_LOST, Bins, least_sum_of_kinds, two_kinds
from outvote.votes.evidence.factors import Factor, Floats, VarianceFactor
from outvote.votes.evidence.premise import Read
from outvote.votes.evidence.rows import LogParts, PartsAtMeans, SortedRows
from outvote.votes.evidence.scale import STAKES, log_mean

#: Seconds that numpy takes for a product.
_SECONDS = 1e-4


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
    def n_unknown(self) -> int:
        """Of how many rows nothing is known but a number that they are beyond."""
        return int(self.bins.count[np.isinf(self.bins.squares)].sum())

    @property
    def smallest(self) -> float:
        """A number that no row is below."""
        return float(self.bins.low[0])

    @property
    def largest_kept(self) -> float:
        """A number that at least one row which is not dropped is not below."""
        return float(self.bins.low[self.bins.at(self.n_values - self.droppable - 1)])

    @property
    def smallest_dropped(self) -> float:
        """A number that none of the largest rows, as many as may be dropped, is below; there must be some."""
        return float(self.bins.low[self.bins.at(self.n_values - self.droppable)])

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

    def log_parts(self, factor: Factor, low: float, high: float, window: tuple[float, float] | None = None) -> LogParts:
        """Return the sum of the logarithms of the factors that are never dropped, and the logarithms of the others."""
        function = self._compiled(factor, "parts_of_bins")
        if function is not None:
            pieces = np.empty((2, 2 * len(self.bins.count)))
            total, found = function(low, high, pieces)
            return LogParts(total, pieces[0, :found], pieces[1, :found])
        outer, inner = self._split(factor, high)
        total = inner.log_sum(factor, low, high) - inner.n_rows * factor.norm if len(inner.count) else 0.0
        if not len(outer.count):
            return LogParts(total, outer.count, outer.count)
        sums, least, most = outer.log_sums(factor, low, high, sharp=not inner.loss(factor) <= LITTLE)
        norm = factor.norm
        values, weights = two_kinds(sums - norm * outer.count, least - norm, most - norm, outer.count)
        return LogParts(total, values, weights)

    def parts_at(self, factor: Factor, means: Floats) -> PartsAtMeans | None:
        """Return what `log_parts` does for each of several means by a compiled function; None if there is none."""
        function = self._compiled(factor, "parts_at_means")
        if function is None:
            return None
        pieces = np.empty((2, 2 * len(self.bins.count) * len(means)))
        totals, starts = np.empty(len(means)), np.empty(len(means) + 1, dtype=np.int64)
        function(means, totals, starts, pieces)
        return PartsAtMeans(totals, pieces[0, : starts[-1]], pieces[1, : starts[-1]], starts)

    def least_with(
        self, factor: Factor, lows: Floats, highs: Floats, others: PartsAtMeans, n_dropped: int
    ) -> Floats | None:
        """Return the sums of logarithms with those of another sample, without the largest, in the same way."""
        function = self._compiled(factor, "least_of_both")
        if function is None:
            return None
        found = np.empty(len(lows))
        function(lows, highs, tuple(others), float(n_dropped), found)
        return found

    def _compiled(self, factor: Factor, name: str = "product_of_bins") -> Callable[..., Any] | None:
        functions = _numba.compiled(_SECONDS)
        if functions is None or not isinstance(factor, VarianceFactor):
            return None
        rows, squares, slack = self._for_compiled
        if not factor.bend * squares / 2 + factor.steepest * slack <= LITTLE:
            return None
        known = (factor.rate, factor.depth, factor.norm, factor.least, factor.bend, factor.steepest)
        return partial(getattr(functions, name), rows, known)

    def read(self, *, screened: bool = True) -> Read:
        """Read an sd and a point off the bins; unless they are `screened` no row is gross."""
        return Read.of_bins(self.bins, self.droppable, screened=screened)

    @property
    def gathered(self) -> Bins:
        """The bins."""
        return self.bins

    @cached_property
    def _for_compiled(self) -> tuple[tuple[Any, ...], float, float]:
        """What the compiled function takes of the rows, and what the loss of bins never dropped depends on."""
        first, last = self._inner
        room = np.empty((len(self.bins.count), 4))
        squares, slack = self.bins.sums_between(first, last)
        return (*self.bins.arrays, self.bins.slacks, first, last, float(self.droppable), room), squares, slack

    @cached_property
    def _inner(self) -> tuple[int, int]:
        """The first bin none of whose rows may be dropped, and the first one after; if there is none, the end and 0."""
        k, ranks = self.droppable, self.bins.ranks
        first = int(self.bins.before.searchsorted(k))  # bins that begin before the k-th row
        last = int(ranks.searchsorted(self.n_values - k, side="right"))
        return (first, last) if first < last else (len(ranks), 0)

    def _split(self, factor: Factor, high: float) -> tuple[Bins, Bins]:
        """Return the bins of rows that may be dropped, and the others: factors are largest at either end.

        Rows between μ - 2τ and μ have variance factors below 1, and are never dropped.
        """
        (first, last), far = self._inner, len(self.bins.count)
        if isinstance(factor, VarianceFactor) and first < last:
            far = int(np.searchsorted(self.bins.low, high - 2 * factor.depth, side="right"))
        return self._parts_of(min(first, far), last)

    def _parts_of(self, first: int, last: int) -> tuple[Bins, Bins]:
        known = self._known_parts.get(first)
        if known is None:
            if first >= last:
                known = self.bins, self.bins.part(slice(0, 0))
            else:
                # From the inside outwards the factors of either end rise: two runs.
                outer = np.concatenate([np.arange(first)[::-1], np.arange(last, len(self.bins.count))])
                known = self.bins.part(outer), self.bins.part(slice(first, last))
            self._known_parts[first] = known
        return known

    @cached_property
    def _known_parts(self) -> dict[int, tuple[Bins, Bins]]:
        return {}

    def n_below(self, mean: float, depth: float) -> int:
        """Return about how many rows lie farther than a depth below a mean."""
        before = int(np.searchsorted(self.bins.mean, mean - depth))
        return int(self.bins.ranks[before - 1]) if before else 0

    def none_between(self, low: float, high: float) -> bool:
        """Return whether no row lies between two numbers, for certain."""
        return bool(np.searchsorted(self.bins.high, low) == np.searchsorted(self.bins.low, high, side="right"))

    def log_spread_above(self, end: float, unit: float) -> float:
        """Return the logarithm of the evidence that the variance exceeds unit², from rows above `end`."""
        return log_spread_of_bins(self, end, unit)

    @cached_property
    def _without_largest(self) -> Floats:
        """How many rows of each bin are left without the largest ones, as many as may be dropped."""
        most = self.n_values - self.droppable
        return np.minimum(np.maximum(most - self.bins.before, 0.0), self.bins.count)

    def squares_above(self, end: float, unit: float, *, keep_small: bool = True) -> list[tuple[Floats, Floats]]:
        """Return the squares of how far rows lie above `end`, in units, at least, and how many rows have each.

        Without the largest ones, as many as may be dropped; squares below 1 are kept unless told otherwise.
        """
        with np.errstate(over="ignore"):
            squares = np.square(np.maximum(self.bins.low - end, 0.0) / unit)
        kept = self._without_largest
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

    def central_sd(self) -> float:
        """Return the sd of the rows nearest the median, without as many of the farthest as may be dropped."""
        return self.bins.nearest(self.n_values - self.droppable)[1]

    def central_mean(self) -> float:
        """Return the mean of these rows."""
        return self.bins.nearest(max(self.n_values - self.droppable, 1))[0]

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


def log_spread_of_bins(rows: BinnedRows, end: float, unit: float) -> float:
    """Return the logarithm of the evidence that the variance exceeds unit², from rows in bins above `end`.

    The logarithm of 1 + t(z² - 1), z = (x - end)/unit where that is positive, has a derivative of at most
    √(t/(1 - t))/unit: bounds its sum over the rows of a bin as `Bins` does, unless some of them are dropped.
    """
    ((least, kept),) = rows.squares_above(end, unit)
    bins, logs = rows.bins, []
    dropped = bins.count - rows._without_largest  # these may be as far out as the bin reaches
    with np.errstate(over="ignore", invalid="ignore"):
        likely, most = (np.square(np.maximum(one - end, 0.0) / unit) for one in (bins.mean, bins.high))
        for t in STAKES:
            steepest = math.sqrt(t / (1 - t)) / unit
            total = kept * np.log(least * t + (1 - t))
            lost = steepest * (steepest * bins.squares / 2 + bins.slacks * bins.count)
            lost += np.where(dropped > 0, dropped * np.maximum(np.log(most * t + (1 - t)), 0.0), 0.0)
            better = bins.count * np.log(likely * t + (1 - t)) - lost
            total = np.where((better > total) | ((lost <= LITTLE_LOST) & (bins.high > end)), better, total)
            paid = rows.n_corrupt * math.log1p(-t) if rows.adaptive else 0.0
            logs.append(float(total.sum()) + paid)
    return log_mean(logs)
