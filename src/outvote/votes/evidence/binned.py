"""Rows counted in bins, and the product of their factors without the largest ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from outvote.votes.evidence.bins import Bins, least_sum_of_kinds, two_kinds
from outvote.votes.evidence.factors import Floats
from outvote.votes.evidence.premise import Read
from outvote.votes.evidence.rows import SortedRows


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

    def read(self, *, screened: bool = True) -> Read:
        """Read an sd and a point off the bins; unless they are `screened` no row is gross."""
        return Read.of_bins(self.bins, self.droppable, screened=screened)

    @property
    def gathered(self) -> Bins:
        """The bins."""
        return self.bins

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
