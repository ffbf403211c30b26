"""What the user gives becomes an array of real numbers with rows first, or a clear error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from outvote.data.tensors import is_tensor, like, median, namespace, read_tensor, rows_of, to_host

NanPolicy = Literal["raise", "omit", "corrupt"]


class Rows(NamedTuple):
    """An array of real numbers (on a device, a tensor) and the names of its columns, if it had any."""

    values: NDArray[Any]
    names: tuple[str, ...] | None


class MoreCorruptRows(ValueError):
    """More rows are corrupt for certain than may be corrupt: `count` of them."""

    def __init__(self, count: int, message: str):
        super().__init__(message)
        self.count = count


def read(x: Any, name: str, *, stay: bool = False) -> Rows:
    """Read an array, a list, a tensor, or any dataframe or series, without copying what need not be copied.

    A tensor on a device comes to the host unless it may `stay` there.
    """
    names = None
    if isinstance(x, (str, PathLike)):
        raise TypeError(
            f"{name} holds strings, but real numbers are needed: convert it first, or read a file by "
            f"outvote.scan({str(x)!r})"
        )
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: pass {name}.filled(numpy.nan) and a nan_policy instead")
    if is_tensor(x):
        x = read_tensor(x, name)
        if stay and is_tensor(x) and x.ndim:
            return Rows(x, None)
        x = to_host(x)
    elif type(x).__module__.partition(".")[0] not in ("builtins", "numpy"):
        x, names = _from_frame(x, name)
    try:
        values = np.asarray(x)
    except ValueError as error:
        raise ValueError(f"{name} is ragged: its rows have different lengths ({error})") from None
    if values.dtype.kind not in "biuf":
        found = {
            "U": "strings",
            "S": "byte strings",
            "c": "complex numbers",
            "M": "dates",
            "m": "durations",
        }.get(values.dtype.kind, f"{values.dtype} values")
        raise TypeError(f"{name} holds {found}, but real numbers are needed: convert it first")
    if values.ndim == 0:
        raise ValueError(f"{name}={values.item()!r} is a single number, but rows are needed: a sequence of numbers")
    return Rows(values, names)


def read_rows(x: Any, name: str, *, stay: bool = False) -> NDArray[Any]:
    """Read a sample of numbers (1-D) or of vectors (2-D) as floats, one row each."""
    values = read(x, name, stay=stay).values
    if values.ndim > 2:
        raise ValueError(f"{name} has shape {values.shape}: a sample is 1-D (numbers) or 2-D (one vector a row)")
    if values.ndim == 2 and not values.shape[1]:
        raise ValueError(f"{name} has shape {values.shape}: its rows are empty")
    check_rows(len(values), name)
    return _as_floats(values)


def read_columns(x: Any, name: str, axis: Any, *, stay: bool = False) -> Rows:
    """Read a sample whose rows run along an axis, as floats with rows first; every other index is a column."""
    values, names = read(x, name, stay=stay)
    rows = namespace(values).moveaxis(values, axis_of(axis, values.shape, name, "for a sample of vectors"), 0)
    check_rows(len(rows), name)
    if math.prod(rows.shape[1:]) == 0:
        raise ValueError(f"{name} has shape {tuple(values.shape)}: there are no columns to estimate")
    return Rows(_as_floats(rows), names if axis in (0, -values.ndim) and values.ndim == 2 else None)


def axis_of(axis: Any, shape: Sequence[int], name: str, none: str) -> int:
    """Return the axis along which the rows run, or say what is wrong with it; `none` says what None is for."""
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise TypeError(f"axis={axis!r} must be an integer, or None {none}")
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"axis={axis} does not exist: {name} has {len(shape)} dimensions")
    return int(axis)


def _as_floats(values: Any) -> Any:
    if is_tensor(values) or values.dtype in (np.float32, np.float64):
        return values
    return values.astype(np.float64)


def check_rows(n_rows: int, name: str) -> None:
    """Refuse an empty sample."""
    if n_rows == 0:
        raise ValueError(f"{name} is empty: at least one row is needed")


def check_nan_policy(nan_policy: str) -> None:
    """Refuse an unknown policy."""
    if nan_policy not in get_args(NanPolicy):
        raise ValueError(f"nan_policy={nan_policy!r} is not one of 'raise', 'omit', 'corrupt'")


def screen(rows: NDArray[Any], nan_policy: NanPolicy, n_corrupt: int, name: str) -> tuple[NDArray[Any], int]:
    """Apply the NaN policy to rows (first axis): the rows to use, and how many had NaN or infinities.

    A row is bad as soon as one of its values is. Under ``"omit"`` rows with NaN are missing and go;
    infinities are not missing values and raise. Under ``"corrupt"`` rows with NaN or infinities are
    corrupt rows that have been found: `neutralise` deals with them.
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
        first = int(np.flatnonzero(what)[0])
        kinds = "NaN or infinite values" if nan_policy == "raise" else "infinite values, which are not missing"
        options = "nan_policy='corrupt' counts such rows as corrupt"
        if nan_policy == "raise":
            options += ", nan_policy='omit' leaves out rows with NaN"
        raise ValueError(
            f"{name} has {kinds} in {int(what.sum())} of {len(rows)} rows (the first is row {first}): {options}"
        )
    if nan_policy == "corrupt":
        return neutralise(rows, bad, n_corrupt, f"{name} has NaN or infinite values"), int(bad.sum())
    kept = rows_of(rows, np.flatnonzero(~bad))
    check_rows(len(kept), f"{name} without its rows with NaN")
    return kept, int(bad.sum())


def advice(n_bad: int, n_rows: int) -> str:
    """What to do about more rows that are corrupt for certain than are allowed."""
    return f"allow at least {n_bad}" if 2 * n_bad < n_rows else "they are half of all rows or more, so no vote can help"


def neutralise(rows: NDArray[Any], bad: NDArray[np.bool_], n_corrupt: int, what: str) -> NDArray[Any]:
    """Put an ordinary value in the place of rows that are corrupt for certain.

    They stay where they are and count among the `n_corrupt`: had they been taken out and the count been lowered,
    whoever decides which corrupt rows give themselves away, after seeing the clean ones, would decide on the blocks.
    """
    n_bad = int(bad.sum())
    if n_bad > n_corrupt:
        raise MoreCorruptRows(
            n_bad,
            f"{what} in {n_bad} rows, more than the {n_corrupt} corrupt rows that contamination allows "
            f"among {len(rows)}: {advice(n_bad, len(rows))}",
        )
    xp = namespace(rows)
    centre = xp.astype(median(rows_of(rows, np.flatnonzero(~bad))), rows.dtype)
    filled: NDArray[Any] = xp.where(like(bad.reshape(-1, *(1,) * (rows.ndim - 1)), rows), centre, rows)
    return filled


def _from_frame(x: Any, name: str) -> tuple[Any, tuple[str, ...] | None]:
    """Turn a dataframe or series of any library into an array; pass anything else through."""
    import narwhals as nw

    native = nw.from_native(x, pass_through=True, allow_series=True)
    if isinstance(native, nw.LazyFrame):
        raise TypeError(f"{name} is a lazy frame: collect it first")
    if isinstance(native, nw.Series):
        _check_dtypes({str(native.name): native.dtype}, name)
        values = native.to_numpy()
        if values.dtype.kind == "O":
            values = _floats(native, name).to_numpy()
        return values, None if native.name in (None, "") else (str(native.name),)
    if isinstance(native, nw.DataFrame):
        _check_dtypes(dict(native.schema), name)
        table = native.to_numpy()
        if table.dtype.kind == "O":
            table = native.with_columns(*(_floats(column, name) for column in native.iter_columns())).to_numpy()
        return table, tuple(map(str, native.columns))
    return x, None


def _floats(column: Any, name: str) -> Any:
    """Cast a column of numbers with gaps, or of Python objects, to floats with NaN."""
    import narwhals as nw

    try:
        if column.dtype == nw.Object and any(isinstance(item, (str, bytes)) for item in column.to_list()):
            raise TypeError("some are strings")
        return column.cast(nw.Float64())
    except Exception as error:  # every library has its own
        raise TypeError(
            f"{name} has a column {column.name!r} of mixed values, but real numbers are needed ({error})"
        ) from None


def _check_dtypes(dtypes: dict[str, Any], name: str) -> None:
    for column, dtype in dtypes.items():
        if not dtype.is_numeric() and type(dtype).__name__ not in ("Boolean", "Object"):
            raise TypeError(f"{name} has a column {column!r} of {dtype} values, but real numbers are needed")
