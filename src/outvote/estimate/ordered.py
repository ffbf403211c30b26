"""Rows in order, read once for every number of corrupt rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, Proportion
from outvote.data.missing import NanPolicy, check_rows, screen
from outvote.estimate.result import Histogram
from outvote.votes.evidence import (
    BinnedRows,
    Grid,
    Pairs,
    SortedRows,
    Tallies,
    Tally,
    pilot_of,
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
    """

    column: NDArray[Any]
    where: NDArray[np.intp] | None = None
    n_bad: int = 0
    n_nan: int | None = field(default=None, kw_only=True)
    counted: Bins | None = field(default=None, kw_only=True)

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
    def positions(self) -> NDArray[np.intp]:
        """Where the rows were in the input."""
        return np.arange(len(self.column)) if self.where is None else self.where

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

    def size(self, n_dropped: int) -> float:
        """Return a power of two near the size of the rows that are not dropped, if that is extreme; else 1."""
        n = len(self.column) - self.n_found
        if n <= 2 * n_dropped:
            return 1.0
        if self.many:
            return _extreme_size(self._bins, n, n_dropped)
        return _if_extreme(max(abs(float(self.values[n_dropped])), abs(float(self.values[n - n_dropped - 1]))))

    def picture(self, low: float, high: float) -> Histogram:
        """Return the histogram of the rows; its bars cover the interval, too."""
        return Histogram.of_bins(self._bins, low, high) if self.many else Histogram.of(self.values, low, high)

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
        return MANY_ROWS <= len(self.column) - self.n_found < 2**31

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
            return BinnedRows(self._bins, most, found, adaptive=adaptive, values=lambda: self.values)
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

    def picture(self, low: float, high: float) -> Histogram:
        """Return the histogram of the rows."""
        return Histogram.of_counts(self.n_zeros, self.n_ones)

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
    return _if_extreme(max(map(abs, ends)))


def _if_extreme(size: float) -> float:
    """Return a power of two near a size if its square may overflow, or vanish; else 1."""
    exponent = math.frexp(size)[1] if size else 0
    return 2.0**exponent if 300 < abs(exponent) < 1000 else 1.0


def counted_in_bins(rows: Floats) -> Bins:
    """Count rows in bins that a few of them choose."""
    return columns_in_bins(rows[:, None])[0]


def columns_in_bins(table: NDArray[Any]) -> list[Bins]:
    """Count the rows of each column in bins that a few of them choose."""
    found: list[Bins] = []
    for start in range(0, table.shape[1], _COLUMNS):
        part = table[:, start : start + _COLUMNS]
        grids = [Grid.of(pilot_of(part[:, j])) for j in range(part.shape[1])]
        tallies = tallies_of_columns(part, grids)
        found += [grid.bins(one) for grid, one in zip(grids, tallies, strict=True)]
    return found


def plain_average(values: Floats) -> float:
    """Return the mean of finite rows, without overflow on the way."""
    with np.errstate(over="ignore"):
        mean = float(values.mean()) if len(values) else math.nan
        return mean if not math.isinf(mean) else float((values * 2.0**-60).mean() * 2.0**60)


def implied(values: NDArray[Any], assume: Any) -> Any:
    """Return what is known of rows: what is declared; if nothing is, that boolean ones are 0 or 1."""
    return Proportion() if assume is None and values.dtype == bool else assume


def wrong_values(column: Ordered, assume: Assumption | None) -> str:
    """Say in words what rows have that are corrupt for certain."""
    if not isinstance(assume, Bounded):
        return "NaN or infinite values"
    odd = f", {column.odd:g} for instance" if isinstance(column, Counted) and not math.isnan(column.odd) else ""
    return f"values outside the bounds of {assume!r}{odd}"


def order_columns(
    values: NDArray[Any], name: str, assumed: Sequence[Assumption | None], nan_policy: NanPolicy
) -> list[Ordered]:
    """Apply the NaN policy to the rows of a sample, and put each of its columns in order."""
    read = without_bad_rows(
        values.reshape(len(values), -1), nan_policy, name, counting=not any(map(is_bounded, assumed))
    )
    return [read.column(j, assume) for j, assume in enumerate(assumed)]


class Screened(NamedTuple):
    """Rows to which the NaN policy was applied.

    Attributes
    ----------
    table : ndarray
        The rows that it does not leave out.
    where : ndarray or None
        Where they were; None if all are there.
    bad : ndarray or None
        Which of them have NaN or infinite values, and are corrupt; None if none has.
    n_bad : int
        How many rows had such values.
    bins : list of Bins or None
        Each column counted in bins, if that was done.
    """

    table: NDArray[Any]
    where: NDArray[np.intp] | None
    bad: NDArray[np.bool_] | None
    n_bad: int
    bins: list[Bins] | None = None

    def column(self, j: int, assume: Assumption | None) -> Ordered:
        """Return a column."""
        bins = None if self.bins is None else self.bins[j]
        return as_ordered(self.table[:, j], self.bad, assume, self.where, self.n_bad, bins)


def is_bounded(assume: Any) -> bool:
    """Return whether bounds are declared, so that rows outside are corrupt for certain."""
    return isinstance(assume, Bounded)


def without_bad_rows(table: NDArray[Any], nan_policy: NanPolicy, name: str, *, counting: bool = False) -> Screened:
    """Leave out the rows that the NaN policy leaves out; with `counting` long columns are counted in bins."""
    bins = None
    if counting and MANY_ROWS <= len(table) < 2**31 and table.dtype.kind in "fiu":
        bins = columns_in_bins(table)
        if all(math.isfinite(one.all_squares) for one in bins):  # no row is so far out that it may be infinite
            return Screened(table, None, None, 0, bins)
    bad, n_bad = _bad_rows(table, nan_policy, name)
    where = None
    if nan_policy == "omit" and bad is not None:
        table, where, bad = table[~bad], np.flatnonzero(~bad), None
        check_rows(len(table), f"{name} without its rows with NaN")
    return Screened(table, where, bad, n_bad, None if n_bad else bins)


def _bad_rows(table: NDArray[Any], nan_policy: NanPolicy, name: str) -> tuple[NDArray[np.bool_] | None, int]:
    """Return which rows have NaN or infinite values, None if none has; refuse those that the policy refuses."""
    with np.errstate(over="ignore", invalid="ignore"):
        if table.dtype.kind != "f" or math.isfinite(float(np.add.reduce(table, axis=None, dtype=np.float64))):
            return None, 0  # a finite sum has no infinite terms
    bad = ~np.isfinite(table).all(axis=1)
    if not bad.any():
        return None, 0
    if nan_policy != "corrupt":
        screen(table, nan_policy, 0, name)  # refuses NaN, or infinities under "omit"
    return bad, int(bad.sum())


def as_ordered(
    column: NDArray[Any],
    bad: NDArray[np.bool_] | None,
    assume: Assumption | None,
    where: NDArray[np.intp] | None = None,
    n_bad: int = 0,
    bins: Bins | None = None,
) -> Ordered:
    """Return a column with NaN for rows that are corrupt for certain."""
    if column.dtype == bool and isinstance(assume, Proportion):
        return Counted(column, where, n_bad)
    proportion, bounded = isinstance(assume, Proportion), isinstance(assume, Bounded)
    values = column.astype(np.float64, copy=bad is not None or proportion or bounded)
    if bad is not None:
        values[bad] = math.nan
    if proportion:
        odd = np.flatnonzero((values != 0) & (values != 1) & ~np.isnan(values))
        first = float(values[odd[0]]) if len(odd) else math.nan
        values[odd] = math.nan
        return Counted(values, where, n_bad, odd=first)
    if isinstance(assume, Bounded):
        values[~((values >= assume.low) & (values <= assume.high))] = math.nan
    n_nan = None if bounded else 0 if bad is None else int(bad.sum())
    return Ordered(values, where, n_bad, n_nan=n_nan, counted=bins)
