"""Rows in order, read once for every number of corrupt rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, Proportion
from outvote.data.missing import NanPolicy, check_rows, screen
from outvote.estimate.result import Histogram
from outvote.votes.evidence import BinnedRows, Grid, Pairs, SortedRows, Tally, pilot_of
from outvote.votes.evidence.bins import Bins
from outvote.votes.evidence.scale import paired_squares

Floats = NDArray[np.float64]

#: From so many rows on they are counted in bins, and not put in order.
MANY_ROWS = 50_000


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
    """

    column: NDArray[Any]
    where: NDArray[np.intp] | None = None
    n_bad: int = 0
    n_nan: int | None = field(default=None, kw_only=True)

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
    def positions(self) -> NDArray[np.intp]:
        """Where the rows were in the input."""
        return np.arange(len(self.column)) if self.where is None else self.where

    @property
    def plain(self) -> float:
        """The plain mean of the rows that may be clean."""
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
            bins = self._bins
            ends = float(bins.mean[bins.at(n_dropped)]), float(bins.mean[bins.at(n - n_dropped - 1)])
        else:
            ends = float(self.values[n_dropped]), float(self.values[n - n_dropped - 1])
        largest = max(map(abs, ends))
        exponent = math.frexp(largest)[1] if largest else 0
        return 2.0**exponent if 300 < abs(exponent) < 1000 else 1.0

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
        return len(self.column) - self.n_found >= MANY_ROWS

    @cached_property
    def _bins(self) -> Bins:
        """The rows counted in bins; these do not depend on how many rows may be corrupt."""
        return counted_in_bins(self.clean)

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


def counted_in_bins(rows: Floats) -> Bins:
    """Count finite rows in bins that a few of them choose."""
    grid = Grid.of(pilot_of(rows))
    return grid.bins(grid.tallies(rows))


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
    table, where, bad, n_bad = without_bad_rows(values.reshape(len(values), -1), nan_policy, name)
    return [as_ordered(table[:, j], bad, assume, where, n_bad) for j, assume in enumerate(assumed)]


def without_bad_rows(
    table: NDArray[Any], nan_policy: NanPolicy, name: str
) -> tuple[NDArray[Any], NDArray[np.intp] | None, NDArray[np.bool_] | None, int]:
    """Leave out the rows that the NaN policy leaves out.

    Returns
    -------
    table : ndarray
        The other rows.
    where : ndarray or None
        Where they were; None if all are there.
    bad : ndarray or None
        Which of them have NaN or infinite values, and are corrupt; None if none has.
    n_bad : int
        How many rows had such values.
    """
    bad, n_bad = _bad_rows(table, nan_policy, name)
    where = None
    if nan_policy == "omit" and bad is not None:
        table, where, bad = table[~bad], np.flatnonzero(~bad), None
        check_rows(len(table), f"{name} without its rows with NaN")
    return table, where, bad, n_bad


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
    return Ordered(values, where, n_bad, n_nan=n_nan)
