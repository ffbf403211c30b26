"""Count rows in bins: see votes/evidence/grid.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote._numba.jit import jit

#: Rows whose bins are worked out together, before they are added: two loops are faster than one.
_TOGETHER = 256
#: So many rows at a time are counted in one number with the sum of their squares.
_AT_ONCE = 1 << 22
_COUNT = np.int64(1) << 40
_PLACE = (np.int64(1) << 32) - 1


@jit
def _key(x: Any, centre: Any, unit: Any, shift: int, middle: Any) -> Any:
    """Return the bin of a row, times 2³², and its place in the bin."""
    # That the unit is a power of two shows in the exponent alone.
    y = np.float64(x) - centre
    key = (np.float64(abs(y) + unit).view(np.int64) >> shift) - (np.float64(unit).view(np.int64) >> shift)
    return (min(key, middle - 1) ^ (-np.int64(y < 0.0) & ~_PLACE)) + middle


@jit
def _add(key: Any, places: NDArray[np.int64], packed: NDArray[np.int64]) -> None:
    """Add a row to its bin."""
    where = np.uint64(key) >> np.uint64(32)
    place = key & _PLACE
    square = place >> 24
    places[where] += place
    packed[where] += _COUNT + square * square


@jit
def _unpack(packed: NDArray[np.int64], counts: NDArray[np.int64], squares: NDArray[np.int64]) -> None:
    for k in range(len(packed)):
        counts[k] += packed[k] >> 40
        squares[k] += packed[k] & (_COUNT - 1)
        packed[k] = 0


@jit
def count_in_bins(
    rows: NDArray[np.float64],
    centre: float,
    unit: float,
    bits: int,
    counts: NDArray[np.int64],
    places: NDArray[np.int64],
    squares: NDArray[np.int64],
) -> None:
    """Add rows to tallies: the same whole numbers as numpy's."""
    number = len(counts)
    shift, middle = 20 - bits, np.int64(number // 2) << 32
    keys, packed = np.empty(_TOGETHER, np.int64), np.zeros(number, np.int64)
    for start in range(0, len(rows), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(rows))
        for s in range(start, stop, _TOGETHER):
            some = rows[s : min(s + _TOGETHER, stop)]
            for i in range(len(some)):
                keys[i] = _key(some[i], centre, unit, shift, middle)
            for i in range(len(some)):
                _add(keys[i], places, packed)
        _unpack(packed, counts, squares)


@jit
def count_columns(
    table: NDArray[np.float64],
    centres: NDArray[np.float64],
    units: NDArray[np.float64],
    bits: int,
    counts: NDArray[np.int64],
    places: NDArray[np.int64],
    squares: NDArray[np.int64],
) -> None:
    """Add the rows of each column of a table to tallies, one line for each."""
    n_rows, n_columns = table.shape
    number = counts.shape[1]
    shift, middle = 20 - bits, np.int64(number // 2) << 32
    keys, packed = np.empty((_TOGETHER, n_columns), np.int64), np.zeros((n_columns, number), np.int64)
    for start in range(0, n_rows, _AT_ONCE):
        stop = min(start + _AT_ONCE, n_rows)
        for s in range(start, stop, _TOGETHER):
            some = table[s : min(s + _TOGETHER, stop)]
            for i in range(len(some)):  # along the rows, as they lie in memory
                for j in range(n_columns):
                    keys[i, j] = _key(some[i, j], centres[j], units[j], shift, middle)
            for j in range(n_columns):
                for i in range(len(some)):
                    _add(keys[i, j], places[j], packed[j])
        for j in range(n_columns):
            _unpack(packed[j], counts[j], squares[j])
