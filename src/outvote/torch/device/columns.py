"""Rows of a tensor that stay on its device: they are counted in bins there, and only the bins come to the host."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, Proportion
from outvote.data.missing import NanPolicy, refusal
from outvote.data.tensors import to_host
from outvote.estimate.ordered import MANY_ROWS, Ordered, Tallied, columns_in_bins
from outvote.estimate.screened import Screened, as_ordered
from outvote.estimate.shares import Column, ColumnInBins, Places, nan_refusal
from outvote.torch.device.between import rows_between
from outvote.votes.evidence import Pairs
from outvote.votes.evidence.bins import FARTHEST

Floats = NDArray[np.float64]

#: Rows in order that so few bins with rows lie between are selected together.
_NEAR = 8
#: The ends of bins are taken to be rounded by no more than this share of their size; that is looked after.
_ROUNDING = 2.0**-40


def stays(table: Any) -> bool:
    """Return whether rows of a tensor are so many that they stay where they are; MPS has no float64 to count in."""
    return MANY_ROWS <= len(table) < 2**31 and table.device.type != "mps"


@dataclass(frozen=True, eq=False)
class RowsThere(Ordered):
    """One column of a tensor on a device.

    Attributes
    ----------
    there : Tensor
        The rows that may be clean.
    n_all : int
        How many rows there are, those that are corrupt for certain among them.
    copied : callable
        Returns the column on the host, for what bins do not say.
    """

    there: Any = field(default=None, kw_only=True)
    n_all: int = field(default=0, kw_only=True)
    copied: Callable[[], Ordered] = field(kw_only=True)

    @cached_property
    def _here(self) -> Ordered:
        return self.copied()

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.n_all

    @cached_property
    def values(self) -> Floats:
        """The rows that may be clean, in ascending order."""
        return self._here.values

    @property
    def given(self) -> NDArray[Any]:
        """The rows as they came, NaN for those that are corrupt for certain."""
        return self._here.given

    @property
    def positions(self) -> NDArray[np.intp]:
        """Where the rows were in the input."""
        return self._here.positions

    @property
    def clean(self) -> Any:
        """The rows that may be clean, as they came, on their device."""
        return self.there

    @property
    def plain(self) -> float:
        """The plain mean of the rows that may be clean."""
        if self.counted is not None and math.isfinite(self.counted.all_squares):
            return self.counted.plain_mean
        mean = float(self.there.mean(dtype=torch.float64))
        return mean if math.isfinite(mean) else float((self.there.double() * 2.0**-60).mean()) * 2.0**60

    @property
    def only_0_and_1(self) -> bool:
        """Whether all rows are 0 or 1, and both occur."""
        bins = self._bins
        if self.n_found or len(bins.count) != 2 or not (bins.low <= (0, 1)).all() or not (bins.high >= (0, 1)).all():
            return False
        return bool(((self.there == 0) | (self.there == 1)).all())

    def pairs(self, n_corrupt: int, *, adaptive: bool) -> Pairs:
        """Return pairs of the rows, of which so many may be corrupt."""
        return self._here.pairs(n_corrupt, adaptive=adaptive)

    def scaled(self, factor: float) -> Ordered:
        """Return the rows multiplied by a positive number."""
        return replace(
            self, there=self.there * factor, counted=None, copied=lambda: self._here.scaled(factor)
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class TalliedThere(Tallied):
    """One column of rows of 0 and 1 on a device.

    Attributes
    ----------
    copied : callable
        Returns the column on the host, for what numbers of rows do not say.
    """

    copied: Callable[[], Ordered] = field(kw_only=True)

    @cached_property
    def _here(self) -> Ordered:
        return self.copied()

    @property
    def has_rows(self) -> bool:
        """True: they are on their device."""
        return True

    @property
    def given(self) -> NDArray[Any]:
        """The rows as they came, NaN for those that are corrupt for certain."""
        return self._here.given

    @property
    def positions(self) -> NDArray[np.intp]:
        """Where the rows were in the input."""
        return self._here.positions


@dataclass(frozen=True, eq=False)
class ScreenedThere(Screened):
    """Rows of a tensor to which the NaN policy was applied; `table` has all rows, and `bad` is a tensor.

    Attributes
    ----------
    clean : Tensor
        The rows without NaN and infinite values.
    omitted : bool
        Whether the others are left out, and do not count as corrupt.
    """

    clean: Any = field(default=None, kw_only=True)
    omitted: bool = field(default=False, kw_only=True)

    @property
    def n_rows(self) -> int:
        """How many rows there are, those that are corrupt for certain among them."""
        return len(self.clean) if self.omitted else len(self.table)

    def column(self, j: int, assume: Assumption | None) -> Ordered:
        """Return a column."""
        rows, bins = self.clean[:, j], None if self.bins is None else self.bins[j]
        if isinstance(assume, Proportion):
            return self._tallied(rows, j, assume)
        if isinstance(assume, Bounded):
            rows, bins = _within(rows, assume), None
            if not stays(rows):
                return self._copied(j, assume)
        return RowsThere(
            np.empty(0), None, self.n_bad, n_nan=self.n_rows - len(rows), counted=bins, there=rows, n_all=self.n_rows,
            copied=lambda: self._copied(j, assume),
        )  # fmt: skip

    def _tallied(self, rows: Any, j: int, assume: Proportion) -> Ordered:
        zeros, ones = rows == 0, rows == 1
        counts = int(zeros.sum()), int(ones.sum())
        odd = float(rows[_first(~(zeros | ones))]) if sum(counts) < len(rows) else math.nan
        tally = (*counts, self.n_rows)
        return TalliedThere(
            np.empty(0), None, self.n_bad, odd=odd, tally=tally, copied=lambda: self._copied(j, assume)
        )  # fmt: skip

    def _copied(self, j: int, assume: Assumption | None) -> Ordered:
        """Copy a column to the host."""
        column, where = to_host(self.table[:, j]), None
        bad = None if self.bad is None else to_host(self.bad)
        if bad is not None and self.omitted:
            column, where, bad = column[~bad], np.flatnonzero(~bad), None
        bins = None if self.bins is None or self.n_bad else self.bins[j]
        return as_ordered(column, bad, assume, where, self.n_bad, bins)


def screened_there(table: Any, nan_policy: NanPolicy, name: str, *, counting: bool) -> ScreenedThere | None:
    """Do what `without_bad_rows` does for a tensor on its device; None if there are few rows."""
    if not stays(table):
        return None
    bins = columns_in_bins(table) if counting else None
    bad = None
    if bins is None or not all(math.isfinite(one.all_squares) for one in bins):  # some may be infinite
        bad = _bad_rows(table, nan_policy, name)
    if bad is None:
        return ScreenedThere(table, None, None, 0, bins, clean=table)
    clean = table[~bad]
    if not stays(clean):
        return None
    bins = columns_in_bins(clean) if counting else None
    return ScreenedThere(table, None, bad, len(table) - len(clean), bins, clean=clean, omitted=nan_policy == "omit")


def _bad_rows(table: Any, nan_policy: NanPolicy, name: str) -> Any:
    """Return which rows have NaN or infinite values, None if none has; refuse those that the policy refuses."""
    if math.isfinite(_sum(table)):
        return None  # a finite sum has no infinite terms
    bad = ~table.isfinite().all(1)
    if not bad.any():
        return None
    if nan_policy != "corrupt":
        refused = bad if nan_policy == "raise" else bad & ~table.isnan().any(1)
        if refused.any():
            raise refusal(nan_policy, int(refused.sum()), len(table), _first(refused), name)
    return bad


def _sum(table: Any) -> float:
    return float(table.sum(dtype=torch.float64))


def _first(which: Any) -> int:
    """Return the first place that is true."""
    return int(which.byte().argmax())


def _within(rows: Any, assume: Bounded) -> Any:
    """Return the rows within bounds; no copy if all are."""
    least, most = rows.aminmax()
    if least >= assume.low and most <= assume.high:
        return rows
    return rows[(rows >= assume.low) & (rows <= assume.high)]


@dataclass(frozen=True, eq=False)
class ColumnThere(ColumnInBins):
    """The rows of a tensor on a device that are values, for quantiles.

    Attributes
    ----------
    there : Tensor
        The rows.
    """

    there: Any

    @property
    def n_values(self) -> int:
        """How many rows are values."""
        return len(self.there)

    def at(self, places: Sequence[int]) -> tuple[Places, Places, Places]:
        """Return the rows that stand at some places, from 0 on, if all are put in order; few are."""
        found: Places = {}
        wanted = sorted(set(places))
        while wanted:
            first = self.bins.at(wanted[0])
            some = [place for place in wanted if self.bins.at(place) <= first + _NEAR]
            last, wanted = self.bins.at(some[-1]), wanted[len(some) :]
            low, high = float(self.bins.low[first]), float(self.bins.high[last])
            low = -math.inf if low <= -FARTHEST else low - _ROUNDING * abs(low)
            high = math.inf if high >= FARTHEST else high + _ROUNDING * abs(high)
            about = int(self.bins.count[max(first - 1, 0) : last + 2].sum())
            below, rows = rows_between(self.there, low, high, about)
            if not below <= some[0] <= some[-1] < below + len(rows):
                below, rows = 0, self.there
            ordered = rows.sort()[0]
            found |= {place: float(ordered[place - below]) for place in some}
        return found, found, found


def columns_there(table: Any, nan_policy: NanPolicy, name: str) -> list[Column] | None:
    """Return the columns of a tensor on its device, without rows that have NaN; None if there are few rows."""
    if not stays(table):
        return None
    clean, n_rows, bins = table, len(table), columns_in_bins(table)
    if not all(math.isfinite(one.all_squares) for one in bins) and math.isnan(_sum(table)):
        bad = table.isnan().any(1)
        if bad.any():
            if nan_policy == "raise":
                raise nan_refusal(int(bad.sum()), len(table), _first(bad), name)
            clean = table[~bad]
            if not stays(clean):
                return None
            n_rows = len(clean) if nan_policy == "omit" else n_rows
            bins = columns_in_bins(clean)
    n_bad = len(table) - len(clean)
    return [ColumnThere(np.empty(0), None, n_rows, n_bad, one, clean[:, j]) for j, one in enumerate(bins)]
