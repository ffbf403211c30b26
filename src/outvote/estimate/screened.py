"""Apply the NaN policy to rows, and put their columns in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, Proportion
from outvote.data.loading import one_at_a_time
from outvote.data.missing import NanPolicy, check_rows, screen
from outvote.data.rows import holds_booleans
from outvote.data.tensors import is_tensor, to_host
from outvote.estimate.ordered import MANY_ROWS, Counted, Ordered, columns_in_bins
from outvote.votes.evidence.bins import Bins


def implied(values: NDArray[Any], assume: Any, given: Any = None) -> Any:
    """Return what is known of rows: what is declared; if nothing is, that boolean ones are 0 or 1.

    Truth values of which some are missing are numbers by now: whether they were, the type of what was given says.
    """
    if assume is None and (values.dtype == bool or (given is not None and holds_booleans(given))):
        return Proportion()
    return assume


def order_columns(
    values: NDArray[Any], name: str, assumed: Sequence[Assumption | None], nan_policy: NanPolicy
) -> list[Ordered]:
    """Apply the NaN policy to the rows of a sample, and put each of its columns in order."""
    read = without_bad_rows(
        values.reshape(len(values), -1), nan_policy, name, counting=not any(map(is_bounded, assumed))
    )
    return [read.column(j, assume) for j, assume in enumerate(assumed)]


@dataclass(frozen=True, eq=False)
class Screened:
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

    @property
    def n_rows(self) -> int:
        """How many rows there are, those that are corrupt for certain among them."""
        return len(self.table)

    def column(self, j: int, assume: Assumption | None) -> Ordered:
        """Return a column."""
        bins = None if self.bins is None else self.bins[j]
        return as_ordered(self.table[:, j], self.bad, assume, self.where, self.n_bad, bins)


def is_bounded(assume: Any) -> bool:
    """Return whether bounds are declared, so that rows outside are corrupt for certain."""
    return isinstance(assume, Bounded)


def without_bad_rows(table: Any, nan_policy: NanPolicy, name: str, *, counting: bool = False) -> Screened:
    """Leave out the rows that the NaN policy leaves out; with `counting` long columns are counted in bins.

    Many rows of a tensor on a device stay there.
    """
    if is_tensor(table):
        with one_at_a_time():
            from outvote.torch.device.columns import screened_there

        there = screened_there(table, nan_policy, name, counting=counting)
        if there is not None:
            return there
    bins, table = None, to_host(table)
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
