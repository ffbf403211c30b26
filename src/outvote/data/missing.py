"""Rows with NaN, infinite or impossible values: refused, left out, or counted as corrupt."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outvote.data.tensors import like, median, namespace, rows_of, to_host

NanPolicy = Literal["raise", "omit", "corrupt"]


class MoreCorruptRows(ValueError):
    """More rows are corrupt for certain (`count` of them) than may be corrupt."""

    def __init__(self, message: str, count: int):
        super().__init__(message, count)
        self.count = count

    def __str__(self) -> str:
        return str(self.args[0])


class ContradictionError(ValueError):
    """The rows contradict what was assumed of the clean ones."""


def check_certain(count: int, allowed: int, n_rows: int, what: str) -> None:
    """Refuse more rows that are corrupt for certain than may be; `what` says what is wrong with them.

    Examples
    --------
    >>> check_certain(3, 2, 100, "x has NaN")
    Traceback (most recent call last):
    outvote.data.missing.MoreCorruptRows: x has NaN in 3 rows, more than the 2 corrupt rows that contamination allows \
among 100: allow at least 3
    """
    if count <= allowed:
        return
    hopeless = "they are half of all rows or more, so no vote can help"
    advice = f"allow at least {count}" if 2 * count < n_rows else hopeless
    raise MoreCorruptRows(
        f"{what} in {count} rows, more than the {allowed} corrupt rows that contamination allows among {n_rows}: "
        f"{advice}",
        count,
    )


def check_rows(n_rows: int, name: str) -> None:
    """Refuse an empty sample."""
    if n_rows == 0:
        raise ValueError(f"{name} is empty: at least one row is needed")


def screen(rows: NDArray[Any], nan_policy: NanPolicy, n_corrupt: int, name: str) -> tuple[NDArray[Any], int]:
    """Apply the NaN policy to rows (first axis): return the rows to use, and how many had NaN or infinities.

    A row is bad as soon as one of its values is. Under ``"omit"`` rows with NaN are missing and left out; infinities
    are not missing values and raise. Under ``"corrupt"`` rows with NaN or infinities are corrupt rows that have been
    found: `neutralise` handles them.
    """
    xp = namespace(rows)
    finite = xp.isfinite(rows)
    if xp.all(finite):
        return rows, 0
    columns = tuple(range(1, rows.ndim))
    bad = ~to_host(xp.all(finite, axis=columns))
    missing = to_host(xp.any(xp.isnan(rows), axis=columns))
    if nan_policy == "raise" or (nan_policy == "omit" and (bad & ~missing).any()):
        what = bad if nan_policy == "raise" else bad & ~missing
        raise refusal(nan_policy, int(what.sum()), len(rows), int(np.flatnonzero(what)[0]), name)
    if nan_policy == "corrupt":
        return neutralise(rows, bad, n_corrupt, f"{name} has NaN or infinite values"), int(bad.sum())
    kept = rows_of(rows, np.flatnonzero(~bad))
    check_rows(len(kept), f"{name} without its rows with NaN")
    return kept, int(bad.sum())


def refusal(nan_policy: NanPolicy, count: int, n_rows: int, first: int, name: str) -> ValueError:
    """Return the error for rows that the NaN policy refuses: their number, and where the first one is."""
    kinds = "NaN or infinite values" if nan_policy == "raise" else "infinite values, which are not missing,"
    options = "nan_policy='corrupt' counts such rows as corrupt"
    if nan_policy == "raise":
        options += ", nan_policy='omit' leaves out rows with NaN"
    return ValueError(f"{name} has {kinds} in {count} of {n_rows} rows (the first is row {first}): {options}")


def neutralise(rows: NDArray[Any], bad: NDArray[np.bool_], n_corrupt: int, what: str) -> NDArray[Any]:
    """Put an ordinary value in the place of rows that are corrupt for certain.

    They stay where they are and count among the `n_corrupt`. If they were taken out and the count lowered, whoever
    decides which corrupt rows are found, after seeing the clean ones, would decide on the blocks.
    """
    check_certain(int(bad.sum()), n_corrupt, len(rows), what)
    xp = namespace(rows)
    centre = xp.asarray(median(rows_of(rows, np.flatnonzero(~bad))), dtype=rows.dtype)
    filled: NDArray[Any] = xp.where(like(bad.reshape(-1, *(1,) * (rows.ndim - 1)), rows), centre, rows)
    return filled
