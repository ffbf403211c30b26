"""Compiled forms of kernels, and compiled loops over pairs for a user's numba function.

The files of `outvote.kernels` have the numpy forms, and decide which form is used.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from outvote._numba.jit import jit

#: Columns of a tile of pairs. Each column has its own sum, so that a processor can add several at once.
_COLUMNS = 128
_LARGEST = np.iinfo(np.int64).max
#: Runs of this many items are sorted by insertion before they are merged.
_RUN = 16


@jit
def aligned_wins(x: NDArray[Any], y: NDArray[Any], below: int, tie: int) -> NDArray[np.int64]:
    """Count `below` for each pair x < y of the k-th blocks, and `tie` for each pair x = y; the blocks are sorted."""
    wins = np.zeros(len(x), dtype=np.int64)
    for k in range(len(x)):
        x_row, y_row = x[k], y[k]
        n_less, n_up_to, total = 0, 0, 0
        for value in y_row:
            while n_up_to < len(x_row) and x_row[n_up_to] <= value:
                n_up_to += 1
            if below != tie:
                while n_less < n_up_to and x_row[n_less] < value:
                    n_less += 1
            total += tie * n_up_to + (below - tie) * n_less
        wins[k] = total
    return wins


@jit
def grid_wins(
    x: NDArray[Any],
    x_block: NDArray[Any],
    y: NDArray[Any],
    y_block: NDArray[Any],
    below: int,
    tie: int,
    narrow: NDArray[Any],
    wins: NDArray[np.int64],
    most: int,
) -> None:
    """Count `below` for each pair x < y and `tie` for each x = y, for every block of y (rows) and of x (columns).

    `x` and `y` are sorted. Each y adds the counts of the x below it, by block, to the row of its own block in `narrow`.
    A row of `narrow` holds `most` additions; a full row is added to `wins` and set to zero, and so is every row in the
    end. `wins` has no rows if `narrow` holds all additions.
    """
    counts = np.zeros(narrow.shape[1], dtype=narrow.dtype)
    added = np.zeros(narrow.shape[0], dtype=np.int64)
    n_less, n_up_to = 0, 0
    for j in range(len(y)):
        value = y[j]
        while n_up_to < len(x) and x[n_up_to] <= value:
            counts[x_block[n_up_to]] += narrow.dtype.type(tie)
            n_up_to += 1
        if below != tie:
            while n_less < n_up_to and x[n_less] < value:
                counts[x_block[n_less]] += narrow.dtype.type(below - tie)
                n_less += 1
        block = y_block[j]
        row = narrow[block]
        if added[block] == most:
            _empty(row, wins[block])
            added[block] = 0
        for k in range(len(row)):
            row[k] += counts[k]
        added[block] += 1
    for block in range(len(wins)):
        _empty(narrow[block], wins[block])


@jit
def grids_of_wins(
    x: NDArray[np.float64],
    x_order: NDArray[np.int64],
    x_size: int,
    y: NDArray[np.float64],
    y_order: NDArray[np.int64],
    y_size: int,
    below: int,
    tie: int,
    narrow: NDArray[Any],
    wins: NDArray[np.int64],
    most: int,
) -> None:
    """Call `grid_wins` for every column (first axis), given its values block after block, and their order."""
    for column in range(len(x)):
        x_values, x_block = x[column][x_order[column]], (x_order[column] // x_size).astype(np.int32)
        y_values, y_block = y[column][y_order[column]], (y_order[column] // y_size).astype(np.int32)
        grid_wins(x_values, x_block, y_values, y_block, below, tie, narrow[column], wins[column], most)


@jit
def leading_bits(values: NDArray[np.float64], numbers: int) -> NDArray[np.int64]:
    """Return integers that sort like the values: the leading bits of a value, and its number in the last bits.

    `numbers` is a mask of the last bits.
    """
    bits = values.view(np.int64)
    keys = np.empty_like(bits)
    for i in range(len(bits)):
        ordered = bits[i] if bits[i] >= 0 else bits[i] ^ _LARGEST
        keys[i] = (ordered & ~numbers) | i
    return keys


@jit
def settle(values: NDArray[np.float64], keys: NDArray[np.int64], numbers: int, moves: int) -> NDArray[np.float64]:
    """Return the sorted values, given the sorted keys of `leading_bits`, and write their numbers to `keys`.

    Neighbours with equal leading bits may have to be moved. If that takes more than `moves` moves, the result is empty.
    """
    ordered = np.empty_like(values)
    for i in range(len(keys)):
        number = keys[i] & numbers
        value, j = values[number], i
        while j > 0 and ordered[j - 1] > value:
            ordered[j], keys[j] = ordered[j - 1], keys[j - 1]
            j -= 1
        ordered[j], keys[j] = value, number
        moves -= i - j
        if moves < 0:
            return ordered[:0]
    return ordered


@jit
def _empty(counters: NDArray[Any], totals: NDArray[np.int64]) -> None:
    """Add the counters to the totals, and set them to zero."""
    for k in range(len(totals)):
        totals[k] += np.int64(counters[k])
        counters[k] = 0


@jit
def concordance_of_pairs(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.int64]:
    """Return the sum of the signs of (x - x')(y - y') over the pairs of each block."""
    totals = np.zeros(len(x), dtype=np.int64)
    for k in range(len(x)):
        x_row, y_row = x[k], y[k]
        total = 0
        for i in range(1, len(x_row)):
            u, v = x_row[i], y_row[i]
            for j in range(i):
                total += ((x_row[j] > u) - int(x_row[j] < u)) * ((y_row[j] > v) - int(y_row[j] < v))
        totals[k] = total
    return totals


@jit
def concordance_by_rank(
    x: NDArray[Any], y: NDArray[Any], x_order: NDArray[Any], y_order: NDArray[Any], ranks: NDArray[Any], by_pairs: bool
) -> NDArray[np.int64]:
    """Return the sum of the signs of (x - x')(y - y') over the pairs of each block, given the orders of x and of y.

    The sum is all pairs - tied in x - tied in y + tied in both - 2·discordant. `ranks` is an array for the ranks of one
    block. Discordant pairs are counted one by one (`by_pairs`) or by a merge sort.
    """
    totals = np.zeros(len(x), dtype=np.int64)
    n_rows = x.shape[1]
    first = np.empty(n_rows, dtype=np.int64)
    free = np.empty(n_rows, dtype=np.int64)
    same = np.empty(n_rows, dtype=np.int64)
    spare = np.empty_like(ranks)
    for k in range(len(x)):
        total = n_rows * (n_rows - 1) // 2
        # Equal x share the place of the first of them.
        start = 0
        for place in range(n_rows):
            row = x_order[k, place]
            if place > 0 and x[k, row] != x[k, x_order[k, place - 1]]:
                start = place
            total -= place - start
            first[row] = start
            free[place] = place
        # Put the rows in the order of x, and of y among equal x, by going through them in the order of y.
        start = 0
        for number in range(n_rows):
            row = y_order[k, number]
            if number > 0 and y[k, row] != y[k, y_order[k, number - 1]]:
                start = number
            total -= number - start
            place = free[first[row]]
            free[first[row]] += 1
            ranks[place] = start
            same[place] = 0
            if place > first[row] and ranks[place - 1] == start:
                same[place] = same[place - 1] + 1
            total += same[place]
        totals[k] = total - 2 * (_inversions_of_pairs(ranks) if by_pairs else _inversions_by_merging(ranks, spare))
    return totals


@jit
def _inversions_of_pairs(ranks: NDArray[Any]) -> int:
    """Count the pairs i < j with a larger rank at i, with 16-bit counters, so for at most 2¹⁵ ranks."""
    total = 0
    for i in range(1, len(ranks)):
        rank = ranks[i]
        larger = np.int16(0)
        for j in range(i):
            larger = np.int16(larger + np.int16(ranks[j] > rank))
        total += int(larger)
    return total


@jit
def _inversions_by_merging(ranks: NDArray[Any], spare: NDArray[Any]) -> int:
    """Count the pairs i < j with a larger rank at i by a merge sort, which overwrites both arrays."""
    n_rows = len(ranks)
    total = 0
    for low in range(0, n_rows, _RUN):
        for i in range(low + 1, min(low + _RUN, n_rows)):
            rank = ranks[i]
            j = i
            while j > low and ranks[j - 1] > rank:
                ranks[j] = ranks[j - 1]
                j -= 1
            ranks[j] = rank
            total += i - j
    width = _RUN
    while width < n_rows:
        for low in range(0, n_rows, 2 * width):
            middle, high = min(low + width, n_rows), min(low + 2 * width, n_rows)
            i, j = low, middle
            for place in range(low, high):
                if i < middle and (j >= high or ranks[i] <= ranks[j]):
                    spare[place] = ranks[i]
                    i += 1
                else:
                    spare[place] = ranks[j]
                    total += middle - i
                    j += 1
        ranks, spare = spare, ranks
        width *= 2
    return total


@lru_cache(maxsize=64)
def sums_within(function: Callable[..., Any]) -> Callable[..., NDArray[np.float64]]:
    """Return a compiled function that sums a user's numba function over the pairs of rows of each block."""
    add_rows = _adding_rows(function)

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def sums(z: NDArray[np.float64]) -> NDArray[np.float64]:
        totals = np.zeros(len(z))
        by_column = np.zeros(_COLUMNS)
        for k in range(len(z)):
            row = z[k]
            for low in range(0, len(row), _COLUMNS):
                columns = row[low : low + _COLUMNS]
                by_column[: len(columns)] = 0.0
                add_rows(row[:low], columns, by_column)
                for i in range(len(columns) - 1):
                    right = columns[i + 1 :]
                    for j in range(len(right)):
                        by_column[j] += 1.0 * function(columns[i], right[j])
                for j in range(len(columns)):
                    totals[k] += by_column[j]
        return totals

    return sums


@lru_cache(maxsize=64)
def sums_across(function: Callable[..., Any]) -> Callable[..., NDArray[np.float64]]:
    """Return a compiled function that sums a user's numba function over the pairs of rows of given pairs of blocks."""
    add_rows = _adding_rows(function)

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def sums(
        x: NDArray[np.float64], y: NDArray[np.float64], x_blocks: NDArray[np.int64], y_blocks: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        totals = np.zeros(len(x_blocks))
        by_column = np.zeros(_COLUMNS)
        for k in range(len(totals)):
            x_row, y_row = x[x_blocks[k]], y[y_blocks[k]]
            for low in range(0, len(y_row), _COLUMNS):
                columns = y_row[low : low + _COLUMNS]
                by_column[: len(columns)] = 0.0
                add_rows(x_row, columns, by_column)
                for j in range(len(columns)):
                    totals[k] += by_column[j]
        return totals

    return sums


@lru_cache(maxsize=64)
def _adding_rows(function: Callable[..., Any]) -> Callable[..., None]:
    """Return a compiled function that adds a function of all rows to the sum of each column, four rows at a time."""

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def add_rows(rows: NDArray[np.float64], columns: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
        whole = len(rows) // 4 * 4
        for i in range(0, whole, 4):
            a, b, c, d = rows[i], rows[i + 1], rows[i + 2], rows[i + 3]
            for j in range(len(columns)):
                w = columns[j]
                sums[j] += (1.0 * function(a, w) + 1.0 * function(b, w)) + (1.0 * function(c, w) + 1.0 * function(d, w))
        for i in range(whole, len(rows)):
            for j in range(len(columns)):
                sums[j] += 1.0 * function(rows[i], columns[j])

    return add_rows
