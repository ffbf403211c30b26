"""Read the user's rows into an array of real numbers, rows first, or raise a clear error."""

from __future__ import annotations

import math
from collections.abc import Sequence, Sized
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.data.missing import check_rows
from outvote.data.tensors import is_tensor, namespace, read_tensor, to_host

#: How to make numbers of text.
_CONVERSION = ", by pandas.to_numeric(x, errors='coerce') or x.cast(polars.Float64, strict=False)"


class Rows(NamedTuple):
    """An array of real numbers (on a device, a tensor), and the names of its columns, or None."""

    values: NDArray[Any]
    names: tuple[str, ...] | None


def read(x: Any, name: str, *, stay: bool = False) -> Rows:
    """Read an array, a list, a tensor, or any dataframe or series, without needless copies.

    A tensor on a device is copied to the host, unless `stay` is true.
    """
    names = None
    if isinstance(x, (str, PathLike)):
        raise TypeError(
            f"{name} holds strings, but real numbers are needed: convert it first, or read a file with "
            f"outvote.scan({str(x)!r})"
        )
    refuse_masked(x, name, f"{name}.filled(numpy.nan) and a nan_policy")
    if is_tensor(x):
        x = read_tensor(x, name)
        if stay and is_tensor(x) and x.ndim:
            return Rows(x, None)
        x = to_host(x)
    elif type(x).__module__.partition(".")[0] not in ("builtins", "numpy"):
        x, names = _from_frame(x, name)
    try:
        values = np.asarray(x)
    except ValueError:
        raise ValueError(f"{name} is ragged: its rows have different lengths") from None
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
        raise ValueError(f"{name}={values.item()!r} is a single number, but rows are needed: give a list of numbers")
    if values.ndim > 1 and isinstance(x, (list, tuple)):  # of arrays, whose masks numpy would drop
        for one in x:
            refuse_masked(one, f"a row of {name}", "rows filled with numpy.nan and a nan_policy")
    return Rows(_native(values), names)


def has_no_rows(x: Any) -> bool:
    """Return whether something is empty, whatever it is."""
    try:
        return isinstance(x, Sized) and not len(x)
    except TypeError:  # a sparse matrix has no length
        return False


def refuse_masked(x: Any, name: str, instead: str) -> None:
    """Refuse a masked array: numpy hands on what is under the mask."""
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: pass {instead} instead")


def _native(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in the byte order of the machine, and none longer than a double: compiled functions take these."""
    if values.dtype.char == "g":
        with np.errstate(over="ignore"):
            return values.astype(np.float64)
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def read_rows(x: Any, name: str, *, stay: bool = False, booleans: bool = False) -> NDArray[Any]:
    """Read a sample of numbers (1-D) or of vectors (2-D, one per row) as floats; with `booleans` these stay."""
    return read_sample(x, name, stay=stay, booleans=booleans).values


def read_sample(x: Any, name: str, *, stay: bool = False, booleans: bool = False) -> Rows:
    """Read a sample of numbers (1-D) or of vectors (2-D, one per row) as floats, with the names of its columns.

    With `booleans` an array of truth values stays what it is.
    """
    values, names = read(x, name, stay=stay)
    if values.ndim > 2:
        raise ValueError(
            f"{name} has shape {tuple(values.shape)}: a sample is 1-D (numbers) or 2-D (one vector per row)"
        )
    if values.ndim == 2 and not values.shape[1]:
        raise ValueError(f"{name} has shape {tuple(values.shape)}: its rows are empty")
    check_rows(len(values), name)
    return Rows(values if booleans and values.dtype == bool else _as_floats(values), names)


def read_columns(
    x: Any, name: str, axis: Any, *, stay: bool = False, flatten: bool = False, floats: bool = False
) -> Rows:
    """Read a sample with rows along `axis`, and return it with rows first; all other axes are columns.

    With `flatten`, axis None puts all values into one column; with `floats`, integers become floats.
    """
    values, names = read(x, name, stay=stay)
    if flatten and axis is None:
        rows, named = values.reshape(-1), False
    else:
        none = "to flatten" if flatten else "for a sample of vectors"
        rows = namespace(values).moveaxis(values, _axis_of(axis, values.shape, name, none), 0)
        named = axis in (0, -values.ndim)
    check_rows(len(rows), name)
    n_columns = math.prod(rows.shape[1:])
    if n_columns == 0:
        raise ValueError(f"{name} has shape {tuple(values.shape)}: there are no columns to estimate")
    if floats or (isinstance(rows, np.ndarray) and rows.dtype == np.float16):
        rows = _as_floats(rows)
    return Rows(rows, names if named and names is not None and len(names) == n_columns else None)


def _axis_of(axis: Any, shape: Sequence[int], name: str, none: str) -> int:
    """Return the axis of the rows as an int, or raise an error; `none` says in the error what None is for."""
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise TypeError(f"axis={axis!r} must be an integer, or None {none}")
    if not -len(shape) <= axis < len(shape):
        raise ValueError(f"axis={axis} does not exist: {name} has {len(shape)} dimensions")
    return int(axis)


def _as_floats(values: Any) -> Any:
    if is_tensor(values) or values.dtype in (np.float32, np.float64):
        return values
    return values.astype(np.float64)


def with_short_integers(column: Any) -> Any:
    """Return a narwhals series that numpy can hold: integers of 128 bits as floats."""
    import narwhals as nw

    return column.cast(nw.Float64) if column.dtype in (nw.Int128, nw.UInt128) else column


def _from_frame(x: Any, name: str) -> tuple[Any, tuple[str, ...] | None]:
    """Return a dataframe or series of any library as an array, with its names; return anything else unchanged."""
    import narwhals as nw

    try:
        native = nw.from_native(_chunked(x), pass_through=True, allow_series=True)
    except nw.exceptions.DuplicateError:
        raise ValueError(f"{name} has two columns of the same name: rename one") from None
    if isinstance(native, nw.LazyFrame):
        raise TypeError(
            f"{name} is lazy: use outvote.scan(frame).mean('column'), which leaves the rows there, or collect it"
        )
    if isinstance(native, nw.Series):
        _check_dtypes([native], name)
        values = with_short_integers(native).to_numpy()
        if values.dtype.kind == "O":
            values = values.astype(bool) if _all_booleans(values) else _floats(native, name).to_numpy()
        return values, None if native.name in (None, "") else (str(native.name),)
    if isinstance(native, nw.DataFrame):
        _check_dtypes(list(native.iter_columns()), name)
        # Polars 1 has no array for a frame without columns.
        native = native.with_columns(*map(with_short_integers, native.iter_columns())) if native.columns else native
        table = native.to_numpy() if native.columns else np.empty(native.shape)
        if table.dtype.kind == "O":
            table = native.with_columns(*(_floats(column, name) for column in native.iter_columns())).to_numpy()
        return table, tuple(map(str, native.columns))
    return x, None


def _all_booleans(values: NDArray[Any]) -> bool:
    """Return whether Python objects are all truth values."""
    return all(isinstance(one, (bool, np.bool_)) for one in values.tolist())


def holds_booleans(x: Any) -> bool:
    """Return whether a column of a dataframe holds truth values by its type, some of which may be missing."""
    if type(x).__module__.partition(".")[0] in ("builtins", "numpy", "torch"):
        return False
    import narwhals as nw

    column = nw.from_native(_chunked(x), pass_through=True, allow_series=True)
    return isinstance(column, nw.Series) and column.dtype == nw.Boolean


def _chunked(x: Any) -> Any:
    """Return an array of pyarrow as the column that dataframe libraries know; anything else as it is."""
    if type(x).__module__ == "pyarrow.lib":
        import pyarrow as pa

        return pa.chunked_array([x]) if isinstance(x, pa.Array) else x
    return x


def _floats(column: Any, name: str) -> Any:
    """Return a column of numbers with missing values, or of Python objects, as floats with NaN."""
    import narwhals as nw

    try:
        if column.dtype == nw.Object and any(isinstance(item, (str, bytes)) for item in column.to_list()):
            raise TypeError("some are strings")
        return column.cast(nw.Float64())
    except Exception as error:  # every library has its own exceptions
        raise TypeError(
            f"{name} has a column {column.name!r} of mixed values, but real numbers are needed ({error})"
        ) from None


def _check_dtypes(columns: Sequence[Any], name: str) -> None:
    """Refuse columns that hold no numbers; show one of their values, and how to make numbers of text."""
    for column in columns:
        dtype = column.dtype
        if dtype.is_numeric() or type(dtype).__name__ in ("Boolean", "Object"):
            continue
        which = f"{name} holds" if column.name in (None, "") else f"{name} has a column {column.name!r} of"
        first = next(iter(column.drop_nulls().head(1).to_list()), None)
        example = "" if first is None else f", {str(first)[:40]!r} for instance"
        text = type(dtype).__name__ in ("String", "Categorical", "Enum")
        advice = ": leave the column out, or convert it first" + _CONVERSION * text
        raise TypeError(f"{which} {dtype} values{example}, but real numbers are needed{advice}")
