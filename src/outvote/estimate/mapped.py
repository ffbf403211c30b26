"""Map rows to numbers by a user's function, and pair rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.data.missing import NanPolicy, screen
from outvote.data.tensors import is_tensor

Function = Callable[..., Any] | None


def apply_function(function: Function, rows: NDArray[Any], name: str, *, finite: bool = True) -> NDArray[Any]:
    """Map rows to numbers: all at once if that agrees with one by one on a few rows, else one by one."""
    if function is None:
        if rows.ndim != 1:
            raise ValueError(f"{name} has shape {rows.shape}: give numbers, or a function that maps a row to a number")
        return rows if is_tensor(rows) or rows.dtype == bool else rows.astype(np.float64, copy=False)
    few = np.asarray([function(row) for row in rows[:8]])
    if few.ndim != 1 or few.dtype.kind not in "biuf":
        raise ValueError(f"function must map each row of {name} to one number; it gave shape {few.shape[1:]}")
    try:
        values = np.asarray(function(rows))
        agrees = values.shape == (len(rows),) and np.array_equal(values[:8], few, equal_nan=True)
    except Exception:  # a function of single rows may fail in any way on arrays
        agrees = False
    if not agrees:
        values = np.asarray([function(row) for row in rows])
    values = values.astype(np.float64)
    if not np.isfinite(values[np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)] if not finite else values).all():
        raise ValueError(f"function gave NaN or an infinite value for a row of {name}")
    return values


def pair_up(
    a: NDArray[Any], b: NDArray[Any], function: Function, nan_policy: NanPolicy = "raise", *, columns: bool = False
) -> NDArray[np.float64]:
    """Return the differences b - a of paired rows, NaN where either row has a gap; of each column, if asked for."""
    if len(a) != len(b):
        raise ValueError(f"paired=True pairs row with row, but a has {len(a)} and b has {len(b)}")
    if nan_policy == "raise":
        screen(a, "raise", 0, "a")
        screen(b, "raise", 0, "b")
    whole = np.isfinite(a.reshape(len(a), -1)).all(axis=1) & np.isfinite(b.reshape(len(b), -1)).all(axis=1)
    gaps = np.full(a.shape if columns else len(a), np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        if columns:
            gaps[whole] = np.subtract(b[whole], a[whole], dtype=np.float64)
        else:
            gaps[whole] = np.subtract(
                apply_function(function, b[whole], "b"), apply_function(function, a[whole], "a"), dtype=np.float64
            )
    if not np.isfinite(gaps[whole]).all():
        raise ValueError("b - a is too large for a float: divide both by a power of ten first")
    return gaps
