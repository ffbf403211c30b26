"""Rows in order, read once for every number of corrupt rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded
from outvote.data.loading import one_at_a_time
from outvote.data.tensors import is_tensor, to_host
from outvote.estimate.result import Histogram
from outvote.votes.evidence import (
    BinnedRows,
    Grid,
    Pairs,
    SortedRows,
    Tallies,
    Tally,
    pilot_of,
    pilot_step,
    tallies_of_columns,
)
from outvote.votes.evidence.bins import Bins
from outvote.votes.evidence.scale import paired_squares

Floats = NDArray[np.float64]

#: From so many rows on they are counted in bins, and not put in order.
MANY_ROWS = 8192
#: So many columns at a time.
_COLUMNS = 256


@dataclass(frozen=True, eq=False)
class Ordered:
    """One column of a sample.

    Attributes
    ----------
    column : ndarray
        Its rows as they came, NaN for those that are corrupt for certain.
    where : ndarray or None
        Where they were in the input; None if all are there.
    n_bad : int
        How many rows had NaN or infinite values.
    n_nan : int or None
        How many rows are corrupt for certain, if that is known.
    counted : Bins or None
        The rows counted in bins, if that was done.
    subject : str
        What a premise on the sd is about, in words.
    """

    column: NDArray[Any]
    where: NDArray[np.intp] | None = None
    n_bad: int = 0
    n_nan: int | None = field(default=None, kw_only=True)
    counted: Bins | None = field(default=None, kw_only=True)
    subject: str = field(default="the clean rows' sd", kw_only=True)

    @cached_property
    def values(self) -> Floats:
        """The rows that may be clean, in ascending order."""
        return np.sort(self.column)[: len(self.column) - self.n_found].astype(np.float64, copy=False)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.column)

    @cached_property
    def n_found(self) -> int:
        """How many rows are corrupt for certain."""
        return int(np.isnan(self.column).sum()) if self.n_nan is None else self.n_nan

    @property
    def has_rows(self) -> bool:
        """Whether the rows themselves are there."""
        return True

    @property
    def given(self) -> NDArray[Any]:
        """The rows as they came, NaN for those that are corrupt for certain."""
        return self.column

    @property
    def positions(self) -> NDArray[np.intp]:
        """Where the rows were in the input."""
        return np.arange(len(self.column)) if self.where is None else self.where

    def gaps(self, mean: float) -> NDArray[Any]:
        """Return the rows as they came, less a mean."""
        return self.given - mean

    def wrong_values(self, assume: Assumption | None) -> str:
        """Say in words what rows have that are corrupt for certain."""
        return f"values outside the bounds of {assume!r}" if isinstance(assume, Bounded) else "NaN or infinite values"

    @property
    def plain(self) -> float:
        """The plain mean of the rows that may be clean."""
        if self.counted is not None and math.isfinite(self.counted.all_squares):
            return self.counted.plain_mean
        return plain_average(self.clean)

    @property
    def clean(self) -> Floats:
        """The rows that may be clean, as they came."""
        return self.column[~np.isnan(self.column)] if self.n_found else self.column

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest row that may be clean."""
        return float(self.clean.min()), float(self.clean.max())

    def size(self, n_dropped: int) -> float:
        """Return a power of two near the size of the rows that are not dropped, if that is extreme; else 1."""
        if n_dropped not in self._sizes:
            self._sizes[n_dropped] = self._size(n_dropped)
        return self._sizes[n_dropped]

    @cached_property
    def _sizes(self) -> dict[int, float]:
        return {}

    def _size(self, n_dropped: int) -> float:
        n = self.n_rows - self.n_found
        if n <= 2 * n_dropped:
            return 1.0
        if self.many:
            return _extreme_size(self._bins, n, n_dropped)
        return size_if_extreme(max(abs(float(self.values[n_dropped])), abs(float(self.values[n - n_dropped - 1]))))

    def picture(self, low: float, high: float) -> Callable[[], Histogram]:
        """Return what draws the histogram of the rows, without keeping them; its bars cover the interval, too."""
        if self.many:
            return partial(Histogram.of_bins, self._bins, low, high)
        drawn = Histogram.of(self.values, low, high)
        return lambda: drawn

    @property
    def commonest(self) -> tuple[float, int]:
        """The middle row, and how many rows are equal to it; of bins alone, how many are in its bin."""
        n = self.n_rows - self.n_found
        if not n:
            return math.nan, 0
        if not self.many:
            value = self.values[n // 2]
            return float(value), int(np.diff(np.searchsorted(self.values, [value, np.nextafter(value, np.inf)]))[0])
        bins = self._bins
        place = bins.at(n // 2)
        if 2 * bins.count[place] <= n or not self.has_rows:
            mean = 0.0 if bins.low[place] <= 0 <= bins.high[place] else float(bins.mean[place])
            return mean, int(bins.count[place])
        rows = self.clean
        value = np.partition(rows, n // 2)[n // 2]
        return float(value), int(np.count_nonzero(rows == value))

    @property
    def only_0_and_1(self) -> bool:
        """Whether all rows are 0 or 1, and both occur."""
        if self.n_found or (self.many and len(self._bins.count) != 2):
            return False
        x = self.column if self.many else self.values
        ones = int(np.count_nonzero(x == 1))
        return 0 < ones < len(x) and ones + int(np.count_nonzero(x == 0)) == len(x)

    @property
    def many(self) -> bool:
        """Whether the rows are so many that they are counted in bins."""
        return MANY_ROWS <= self.n_rows - self.n_found < 2**31

    @cached_property
    def _bins(self) -> Bins:
        """The rows counted in bins; these do not depend on how many rows may be corrupt."""
        return self.counted or counted_in_bins(self.clean)

    @cached_property
    def _squares(self) -> tuple[Floats, int]:
        return paired_squares(self.column)

    def rows(self, n_corrupt: int, *, adaptive: bool) -> SortedRows:
        """Return the rows, of which so many may be corrupt."""
        most, found = max(n_corrupt, self.n_found), self.n_found
        if self.many:
            rows = BinnedRows(self._bins, most, found, adaptive=adaptive, values=lambda: self.values)
            if rows.n_unknown <= rows.droppable:
                return rows
        return SortedRows(self.values, most, found, adaptive=adaptive)

    def pairs(self, n_corrupt: int, *, adaptive: bool) -> Pairs:
        """Return pairs of the rows, of which so many may be corrupt."""
        squares, left_out = self._squares
        return Pairs(squares, max(n_corrupt, self.n_found), self.n_found, len(squares) + left_out, adaptive)

    def scaled(self, factor: float) -> Ordered:
        """Return the rows multiplied by a positive number."""
        with np.errstate(over="ignore"):
            return Ordered(self.column * factor, self.where, self.n_bad, n_nan=self.n_nan)


@dataclass(frozen=True, eq=False)
class Counted(Ordered):
    """One column of rows that are 0 or 1 by definition: they are counted, and neither copied nor sorted.

    Attributes
    ----------
    odd : float
        The first row that is neither 0 nor 1; NaN if there is none.
    """

    odd: float = math.nan

    def wrong_values(self, assume: Assumption | None) -> str:
        """Say in words what rows have that are corrupt for certain."""
        odd = "" if math.isnan(self.odd) else f", {self.odd:g} for instance"
        return super().wrong_values(assume) + odd

    @cached_property
    def n_ones(self) -> int:
        """How many rows are 1."""
        return int(np.count_nonzero(self.column if self.column.dtype == bool else self.column == 1))

    @cached_property
    def n_zeros(self) -> int:
        """How many rows are 0."""
        if self.column.dtype == bool:
            return len(self.column) - self.n_ones
        return int(np.count_nonzero(self.column == 0))

    @cached_property
    def values(self) -> Floats:
        """The rows that may be clean, in ascending order."""
        return np.repeat([0.0, 1.0], [self.n_zeros, self.n_ones])

    @cached_property
    def n_found(self) -> int:
        """How many rows are corrupt for certain."""
        return len(self.column) - self.n_zeros - self.n_ones

    @property
    def plain(self) -> float:
        """The share of ones among the rows that may be clean."""
        counted = self.n_zeros + self.n_ones
        return self.n_ones / counted if counted else math.nan

    def size(self, n_dropped: int) -> float:
        """Return 1: no row is extreme."""
        return 1.0

    def picture(self, low: float, high: float) -> Callable[[], Histogram]:
        """Return what draws the histogram of the rows."""
        return partial(Histogram.of_counts, self.n_zeros, self.n_ones)

    @property
    def only_0_and_1(self) -> bool:
        """False: that these rows are 0 or 1 goes without saying."""
        return False

    def rows(self, n_corrupt: int, *, adaptive: bool) -> Tally:
        """Return the rows, of which so many may be corrupt."""
        return Tally(self.n_zeros, self.n_ones, max(n_corrupt, self.n_found), self.n_found, adaptive=adaptive)


@dataclass(frozen=True, eq=False)
class Summarised(Ordered):
    """One column of which only a summary is there: rows counted in bins.

    Attributes
    ----------
    n_all : int
        How many rows there are, those that are corrupt for certain among them.
    beyond : float
        By how much the sum of the rows exceeds what the bins say of it, because of rows in the last ones.
    source : tuple or None
        What the bins were made of, if they are all there.
    """

    n_all: int = field(default=0, kw_only=True)
    beyond: float = field(default=0.0, kw_only=True)
    source: tuple[Grid, Tallies] | None = field(default=None, kw_only=True)

    @property
    def has_rows(self) -> bool:
        """False: they were not kept."""
        return False

    @property
    def many(self) -> bool:
        """True: they are counted in bins."""
        return True

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.n_all

    @cached_property
    def values(self) -> Floats:
        """The rows, which were not kept."""
        raise ValueError("this needs the rows themselves, of which a RowSummary keeps only counts and sums")

    @property
    def plain(self) -> float:
        """The plain mean of the rows that may be clean."""
        return self._bins.plain_mean + self.beyond / max(self._bins.n_rows, 1)

    @property
    def only_0_and_1(self) -> bool:
        """False: whether rows are exactly 0 or 1 is not looked for here."""
        return False

    def size(self, n_dropped: int) -> float:
        """Return a power of two near the size of the rows that are not dropped, if that is extreme; else 1."""
        n = self.n_all - self.n_found
        return 1.0 if n <= 2 * n_dropped else _extreme_size(self._bins, n, n_dropped)

    def rows(self, n_corrupt: int, *, adaptive: bool) -> SortedRows:
        """Return the rows, of which so many may be corrupt."""
        return BinnedRows(self._bins, max(n_corrupt, self.n_found), self.n_found, adaptive=adaptive)

    def pairs(self, n_corrupt: int, *, adaptive: bool) -> Pairs:
        """Refuse: which rows belong to a pair was not kept."""
        raise ValueError(
            "FiniteKurtosis without an sd needs pairs of rows, which a RowSummary does not keep: give sd, too, as in "
            "FiniteKurtosis(kurtosis, sd), or the rows themselves"
        )

    def scaled(self, factor: float) -> Ordered:
        """Return the rows multiplied by a positive number."""
        bins = self._bins.scaled(factor)
        if self.source is not None:  # squares of tiny rows may have vanished
            grid, tallies = self.source
            bins = grid._replace(centre=grid.centre * factor, unit=grid.unit * factor).bins(tallies)
        return replace(self, counted=bins, beyond=self.beyond * factor, source=None)


@dataclass(frozen=True, eq=False)
class Tallied(Counted):
    """One column of rows of 0 and 1 of which only their numbers are there.

    Attributes
    ----------
    tally : tuple of int
        How many rows are 0, how many 1, and how many there are, others among them.
    """

    tally: tuple[int, int, int] = field(default=(0, 0, 0), kw_only=True)

    @property
    def has_rows(self) -> bool:
        """False: they were not kept."""
        return False

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.tally[2]

    @cached_property
    def n_zeros(self) -> int:
        """How many rows are 0."""
        return self.tally[0]

    @cached_property
    def n_ones(self) -> int:
        """How many rows are 1."""
        return self.tally[1]

    @cached_property
    def n_found(self) -> int:
        """How many rows are corrupt for certain."""
        return self.tally[2] - self.tally[0] - self.tally[1]


def _extreme_size(bins: Bins, n: int, n_dropped: int) -> float:
    """Return a power of two near the size of binned rows that are not dropped, if that is extreme; else 1."""
    ends = float(bins.mean[bins.at(n_dropped)]), float(bins.mean[bins.at(n - n_dropped - 1)])
    return size_if_extreme(max(map(abs, ends)))


def size_if_extreme(size: float) -> float:
    """Return a power of two near a size if its square may overflow, or vanish; else 1."""
    exponent = math.frexp(size)[1] if size else 0
    return 2.0**exponent if 300 < abs(exponent) < 1000 else 1.0


def counted_in_bins(rows: Floats) -> Bins:
    """Count rows in bins that a few of them choose."""
    return columns_in_bins(rows[:, None])[0]


def columns_in_bins(table: NDArray[Any]) -> list[Bins]:
    """Count the rows of each column, an array or a tensor on its device, in bins that a few of them choose."""
    found: list[Bins] = []
    for start in range(0, table.shape[1], _COLUMNS):
        part = table[:, start : start + _COLUMNS]
        few = to_host(part[:: pilot_step(len(part))])
        grids = [Grid.of(pilot_of(few[:, j])) for j in range(part.shape[1])]
        found += [grid.bins(one) for grid, one in zip(grids, _tallies(part, grids), strict=True)]
    return found


def _tallies(table: Any, grids: Sequence[Grid]) -> list[Tallies]:
    """Count the rows of each column where they are."""
    if not is_tensor(table):
        return tallies_of_columns(table, grids)
    with one_at_a_time():
        from outvote.torch.device.bins import tallies_of_tensor

    return tallies_of_tensor(table, grids)


def plain_average(values: Floats) -> float:
    """Return the mean of finite rows, without overflow on the way."""
    if not len(values):
        return math.nan
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean())
        return mean if math.isfinite(mean) else float((values * 2.0**-60).mean() * 2.0**60)
