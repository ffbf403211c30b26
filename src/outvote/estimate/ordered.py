"""Rows in order, read once for every number of corrupt rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, Proportion
from outvote.data.missing import NanPolicy, check_rows, screen
from outvote.votes.evidence import Bins, Pairs, SortedRows
from outvote.votes.evidence.scale import paired_squares

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ordered:
    """One column of a sample.

    Attributes
    ----------
    column : ndarray
        Its rows as they came, NaN for those that are corrupt for certain.
    where : ndarray
        Where they were in the input.
    n_bad : int
        How many rows had NaN or infinite values.
    """

    column: Floats
    where: NDArray[np.intp]
    n_bad: int = 0

    @cached_property
    def values(self) -> Floats:
        """The rows that may be clean, in ascending order."""
        values = np.sort(self.column)
        n_found = int(np.isnan(values).sum()) if len(values) and math.isnan(values[-1]) else 0
        return values[: len(values) - n_found]

    @property
    def n_found(self) -> int:
        """How many rows are corrupt for certain."""
        return len(self.column) - len(self.values)

    @cached_property
    def _bins(self) -> Bins | None:
        return Bins.of(self.values)

    @cached_property
    def _squares(self) -> tuple[Floats, int]:
        return paired_squares(self.column)

    def rows(self, n_corrupt: int, *, adaptive: bool) -> SortedRows:
        """Return the rows, of which so many may be corrupt."""
        most = max(n_corrupt, self.n_found)
        return SortedRows(self.values, most, self.n_found, adaptive=adaptive, bins=self._bins)

    def pairs(self, n_corrupt: int, *, adaptive: bool) -> Pairs:
        """Return pairs of the rows, of which so many may be corrupt."""
        squares, left_out = self._squares
        return Pairs(squares, max(n_corrupt, self.n_found), self.n_found, len(squares) + left_out, adaptive)

    def scaled(self, factor: float) -> Ordered:
        """Return the rows multiplied by a positive number."""
        with np.errstate(over="ignore"):
            return Ordered(self.column * factor, self.where, self.n_bad)


def order_columns(
    values: NDArray[Any], name: str, assumed: Sequence[Assumption | None], nan_policy: NanPolicy
) -> list[Ordered]:
    """Apply the NaN policy to the rows of a sample, and put each of its columns in order."""
    table, where, bad, n_bad = without_bad_rows(values.reshape(len(values), -1), nan_policy, name)
    return [Ordered(as_column(table[:, j], bad, assume), where, n_bad) for j, assume in enumerate(assumed)]


def without_bad_rows(
    table: NDArray[Any], nan_policy: NanPolicy, name: str
) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.bool_] | None, int]:
    """Leave out the rows that the NaN policy leaves out.

    Returns
    -------
    table : ndarray
        The other rows.
    where : ndarray
        Where they were.
    bad : ndarray or None
        Which of them have NaN or infinite values, and are corrupt; None if none has.
    n_bad : int
        How many rows had such values.
    """
    bad, n_bad = _bad_rows(table, nan_policy, name)
    where = np.arange(len(table))
    if nan_policy == "omit" and bad is not None:
        table, where, bad = table[~bad], where[~bad], None
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


def as_column(column: NDArray[Any], bad: NDArray[np.bool_] | None, assume: Assumption | None) -> Floats:
    """Return a column of floats, NaN for rows that are corrupt for certain."""
    values = column.astype(np.float64)
    if bad is not None:
        values[bad] = math.nan
    if isinstance(assume, Bounded):
        values[~((values >= assume.low) & (values <= assume.high))] = math.nan
    if isinstance(assume, Proportion):
        values[(values != 0) & (values != 1)] = math.nan
    return values
