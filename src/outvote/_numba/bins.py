"""Count rows in bins: see votes/evidence/grid.py."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from outvote._numba.jit import jit

#: Rows whose bins are worked out together, before they are added: a loop for each is faster than one for both.
_TOGETHER = 512
#: Rows that a number holds beside the sum of their squares.
_AT_ONCE = 1 << 22
_COUNT = np.int64(1) << 40


@jit
def _place_rows(
    rows: NDArray[np.float64],
    centre: float,
    scale: float,
    bits: int,
    last: int,
    where: NDArray[np.int64],
    places: NDArray[np.int64],
    squares: NDArray[np.int64],
) -> None:
    """Write the bin of each row, its place in it, and one row with the square of that, for as many rows as there are."""
    shift = 52 - bits
    mask, base = (np.int64(1) << shift) - 1, np.int64(1023) << bits
    for i in range(len(rows)):
        y = (rows[i] - centre) * scale
        digits = np.float64(abs(y) + 1.0).view(np.int64)
        k = min((digits >> shift) - base, np.int64(last))
        where[i] = (k ^ -np.int64(y < 0.0)) + last + 1
        place = (digits & mask) >> (shift - 32)
        places[i] = place
        square = place >> 24
        squares[i] = _COUNT + square * square


@jit
def _add_rows(
    n: int,
    where: NDArray[np.int64],
    places: NDArray[np.int64],
    squares: NDArray[np.int64],
    sums: NDArray[np.int64],
    packed: NDArray[np.int64],
) -> None:
    """Add rows to their bins."""
    for i in range(n):
        bin_ = np.uint64(where[i])
        sums[bin_] += places[i]
        packed[bin_] += squares[i]


@jit
def count_in_bins(
    rows: NDArray[np.float64],
    centre: float,
    scale: float,
    bits: int,
    counts: NDArray[np.int64],
    sums: NDArray[np.int64],
    squares: NDArray[np.int64],
) -> None:
    """Add rows to tallies: the same whole numbers as numpy's."""
    number = len(counts)
    where, places = np.empty(_TOGETHER, np.int64), np.empty(_TOGETHER, np.int64)
    one = np.empty(_TOGETHER, np.int64)
    packed = np.zeros(number, np.int64)
    for start in range(0, len(rows), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(rows))
        for s in range(start, stop, _TOGETHER):
            e = min(s + _TOGETHER, stop)
            _place_rows(rows[s:e], centre, scale, bits, number // 2 - 1, where, places, one)
            _add_rows(e - s, where, places, one, sums, packed)
        for k in range(number):
            counts[k] += packed[k] >> 40
            squares[k] += packed[k] & (_COUNT - 1)
            packed[k] = 0
