"""Which quantiles are asked for, and the rows they are read off."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.data.arguments import real
from outvote.data.missing import NanPolicy, check_rows
from outvote.votes.evidence import Ranks
from outvote.votes.evidence.bins import Bins

_MEDIAN = Fraction(1, 2)
#: More rows in order than this are found by sorting.
_MANY = 24

#: Rows by their places.
Places = dict[int, float]


@dataclass(frozen=True)
class Shares:
    """The quantiles asked for, as exact decimals, and whether they came as a sequence.

    Examples
    --------
    >>> Shares.read([0.5, 0.999]).names, Shares.read(0.5).statistic, Shares.read(0.025).statistic
    (('p50', 'p99.9'), 'median', 'p2.5')
    """

    each: tuple[Fraction, ...]
    several: bool

    @classmethod
    def read(cls, q: Any) -> Shares:
        """Read the argument `q`."""
        given = q.tolist() if hasattr(q, "tolist") else q
        several = isinstance(given, Sequence) and not isinstance(given, (str, bytes))
        shares = tuple(given) if several else (given,)
        if not shares:
            raise ValueError(f"q={given!r} is empty: name at least one quantile, q=[0.5, 0.95] for instance")
        return cls(tuple(_share(one, given) for one in shares), several)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that they give to an answer."""
        return (len(self.each),) if self.several else ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the quantiles."""
        return tuple(f"p{float(100 * share):.10g}" for share in self.each)

    @property
    def statistic(self) -> str:
        """What is estimated, in a word."""
        if self.several:
            return "quantiles"
        return "median" if self.each == (_MEDIAN,) else self.names[0]


def _share(one: Any, given: Any) -> Fraction:
    if isinstance(one, Fraction):
        share = one
    else:
        number = real("q", one, "a number strictly between 0 and 1, 0.95 for instance, or a list of such")
        share = Fraction(repr(number)) if math.isfinite(number) else Fraction(-1)
    if not 0 < share < 1:
        hint = f": did you mean {float(one) / 100:g}?" if 1 < share < 100 else ", 0.95 for instance"
        raise ValueError(f"q={given!r} must lie strictly between 0 and 1{hint}")
    return share


#: Returns values in ascending order, and how many rows have each, given the numbers of bins.
RowsIn = Callable[[list[int]], tuple[NDArray[np.float64], NDArray[np.int64]]]


@dataclass(frozen=True, eq=False)
class Column:
    """The rows of a sample that are values, in any order; infinities are values.

    Attributes
    ----------
    values : ndarray
        The rows without those that have NaN.
    where : ndarray or None
        Where they were in the input; None if they are all of it.
    n_rows : int
        How many rows there are, those that are corrupt for certain among them.
    n_bad : int
        How many rows had NaN.
    """

    values: NDArray[Any]
    where: NDArray[np.intp] | None
    n_rows: int
    n_bad: int

    @property
    def n_values(self) -> int:
        """How many rows are values."""
        return len(self.values)

    @property
    def n_found(self) -> int:
        """How many rows are corrupt for certain."""
        return self.n_rows - self.n_values

    @classmethod
    def read(cls, column: NDArray[Any], nan_policy: NanPolicy, name: str) -> Column:
        """Apply the NaN policy to one column."""
        bad = nan_rows(column[:, None], nan_policy, name)
        return cls.without(column, bad, nan_policy, name)

    @classmethod
    def without(cls, column: NDArray[Any], bad: NDArray[np.bool_] | None, nan_policy: NanPolicy, name: str) -> Column:
        """Take the rows with NaN out of a column."""
        if bad is None:
            return cls(column, None, len(column), 0)
        where = np.flatnonzero(~bad)
        values, n_bad = column[where], len(column) - len(where)
        if nan_policy == "omit":
            check_rows(len(values), f"{name} without its rows with NaN")
            return cls(values, where, len(values), n_bad)
        return cls(values, where, len(column), n_bad)

    def at(self, places: Sequence[int]) -> tuple[Places, Places, Places]:
        """Return the rows at some places, from 0 on, if all are put in order: as low ends, estimates and high ends."""
        found = rows_in_order(self.values, places)
        return found, found, found

    def estimate_rank(self, share: Fraction) -> int:
        """Return the rank of the sample quantile, the smallest row that a share q of them does not exceed: ⌈q·n⌉."""
        return math.ceil(share * self.n_values)

    def places(self, share: Fraction, ranks: Ranks) -> tuple[int | None, int, int | None]:
        """Return where low end, estimate and high end stand among the rows in order, from 0 on; None for no end."""
        n = self.n_values
        low, high = ranks.low - 1, n - ranks.high
        # With a confidence below one half an end may pass the sample quantile.
        middle = min(max(self.estimate_rank(share) - 1, low), high if ranks.high else n - 1)
        return low if ranks.low else None, middle, high if ranks.high else None


@dataclass(frozen=True, eq=False)
class ColumnInBins(Column):
    """Rows that are counted in bins, and are not here.

    Attributes
    ----------
    bins : Bins
        The bins.
    """

    bins: Bins


@dataclass(frozen=True, eq=False)
class BinnedColumn(ColumnInBins):
    """The rows of a summary.

    Attributes
    ----------
    rounding : ndarray
        How far a row may lie outside of its bin.
    numbers : ndarray of int
        The number of each bin.
    rows_in : callable, optional
        Returns the values of rows in bins, given the numbers of these, and how many rows have each.
    """

    rounding: NDArray[np.float64]
    numbers: NDArray[np.int64]
    rows_in: RowsIn | None = None

    @property
    def n_values(self) -> int:
        """How many rows are values."""
        return self.bins.n_rows

    def at(self, places: Sequence[int]) -> tuple[Places, Places, Places]:
        """Return the lower ends, the means and the upper ends of the bins of the rows at some places, or the rows."""
        if self.rows_in is not None:
            rows = self._rows_at(places, self.rows_in)
            return rows, rows, rows
        at, far = {place: self.bins.at(place) for place in places}, np.isinf(self.bins.squares)
        low = np.where(far & (self.bins.mean == self.bins.high), -math.inf, self.bins.low - self.rounding)
        high = np.where(far & (self.bins.mean == self.bins.low), math.inf, self.bins.high + self.rounding)
        lows, means, highs = (
            {place: float(array[where]) for place, where in at.items()} for array in (low, self.bins.mean, high)
        )
        return lows, means, highs

    def _rows_at(self, places: Sequence[int], rows_in: RowsIn) -> Places:
        """Return the rows at some places."""
        at = {place: self.bins.at(place) for place in places}
        bins = sorted(set(at.values()))
        values, counts = rows_in([int(self.numbers[where]) for where in bins])
        if int(counts.sum()) != int(self.bins.count[bins].sum()):
            raise RuntimeError("other rows were found in some bins than were counted: did the data change meanwhile?")
        ranks, before, skipped = np.cumsum(counts), {}, 0.0
        for where in bins:  # how many rows of other bins come before
            before[where] = float(self.bins.before[where]) - skipped
            skipped += float(self.bins.count[where])
        found = {}
        for place, where in at.items():
            found[place] = float(values[np.searchsorted(ranks, place - before[where], side="right")])
        return found


def rows_in_order(values: NDArray[Any], places: Sequence[int]) -> Places:
    """Return the rows that stand at some places, from 0 on, if all are put in order; most are not."""
    wanted = sorted(set(places))
    if len(wanted) > _MANY:
        ordered = np.sort(values)
    else:
        # The end that leaves fewer rows comes first: the others are looked for among these alone.
        low, high = wanted[0], wanted[-1]
        first, then = (low, high) if len(values) - low < high else (high, low)
        ordered = np.partition(values, first)
        rest = slice(first, None) if first < then or first == low else slice(0, first + 1)
        ordered[rest].partition(then - (rest.start or 0))
        ordered[low : high + 1].partition([place - low for place in wanted])
    return {place: float(ordered[place]) for place in wanted}


def nan_rows(table: NDArray[Any], nan_policy: NanPolicy, name: str) -> NDArray[np.bool_] | None:
    """Return which rows have NaN, None if none has; refuse them if the policy does."""
    with np.errstate(over="ignore", invalid="ignore"):
        if table.dtype.kind != "f" or not math.isnan(float(np.add.reduce(table, axis=None))):
            return None  # a sum that is a number had no NaN among its terms
    bad: NDArray[np.bool_] = np.isnan(table).any(axis=1)
    if not bad.any():
        return None
    if nan_policy == "raise":
        raise nan_refusal(int(bad.sum()), len(table), int(np.argmax(bad)), name)
    return bad


def nan_refusal(count: int, n_rows: int, first: int, name: str) -> ValueError:
    """Return the error for rows with NaN: their number, and where the first one is."""
    return ValueError(
        f"{name} has NaN in {count} of {n_rows} rows (the first is row {first}): "
        "nan_policy='corrupt' counts such rows as corrupt, nan_policy='omit' leaves them out"
    )
