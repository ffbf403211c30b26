"""Compiled forms, by numba: one thread, no fast-math. Reached through :func:`outvote.fast.compiled` alone.

Each has a form in numpy elsewhere that gives the same numbers. With ``NUMBA_DISABLE_JIT=1`` they run as plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _jit(function: _Function) -> _Function:
    compiled: _Function = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


# --- kernels: see closed_forms.py and kernels.py --------------------------------------------------------

#: Columns of a tile of pairs: as many sums are kept, so that a processor can add several at once.
_COLUMNS = 128
_LARGEST = np.iinfo(np.int64).max
#: A run of this many items is sorted by insertion before runs are merged.
_RUN = 16


@_jit
def aligned_wins(x: NDArray[Any], y: NDArray[Any], below: int, tie: int) -> NDArray[np.int64]:
    """Count `below` for each pair x < y and `tie` for each x = y, of the same block; blocks are sorted."""
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


@_jit
def grid_wins(
    x: NDArray[Any],
    x_block: NDArray[Any],
    y: NDArray[Any],
    y_block: NDArray[Any],
    below: int,
    tie: int,
    narrow: NDArray[Any],
    most: int,
) -> NDArray[np.int64]:
    """Count `below` for each pair x < y and `tie` for each x = y, for every block of y (rows) and of x (columns).

    `x` and `y` are sorted. Each y adds the counts of the x below it, block by block, to the row of its own block in
    `narrow`, zeros of a small type that holds `most` such counts; a row that full is moved to the result.
    """
    wins = np.zeros(narrow.shape, dtype=np.int64)
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
        for k in range(len(row)):
            row[k] += counts[k]
        added[block] += 1
        if added[block] == most:
            _empty(row, wins[block])
            added[block] = 0
    for block in range(len(wins)):
        _empty(narrow[block], wins[block])
    return wins


@_jit
def leading_bits(values: NDArray[np.float64], numbers: int) -> NDArray[np.int64]:
    """Integers in the order of the values, up to the bits set in `numbers`, which hold the number of the value."""
    bits = values.view(np.int64)
    keys = np.empty_like(bits)
    for i in range(len(bits)):
        ordered = bits[i] if bits[i] >= 0 else bits[i] ^ _LARGEST
        keys[i] = (ordered & ~numbers) | i
    return keys


@_jit
def settle(values: NDArray[np.float64], keys: NDArray[np.int64], numbers: int, moves: int) -> NDArray[np.float64]:
    """Return the values in order, given the sorted keys of `leading_bits`, and leave their numbers in `keys`.

    Neighbours that share these bits may have to be moved; nothing is returned where that takes too many moves.
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


@_jit
def _empty(counters: NDArray[Any], totals: NDArray[np.int64]) -> None:
    for k in range(len(totals)):
        totals[k] += np.int64(counters[k])
        counters[k] = 0


@_jit
def concordance_of_pairs(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.int64]:
    """Sum the signs of (x - x')(y - y') over the pairs of each block."""
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


@_jit
def concordance_by_rank(
    x: NDArray[Any], y: NDArray[Any], x_order: NDArray[Any], y_order: NDArray[Any], ranks: NDArray[Any], by_pairs: bool
) -> NDArray[np.int64]:
    """Sum the signs of (x - x')(y - y') over the pairs of each block, given the order of x and that of y.

    The sum is all pairs - tied in x - tied in y + tied in both - 2·discordant. `ranks` is room for those of one block;
    discordant pairs are counted one by one or by merging.
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
        # Rows in order of x, then of y: dealt to their places in order of y.
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


@_jit
def _inversions_of_pairs(ranks: NDArray[Any]) -> int:
    """Count the pairs i < j with a larger rank at i; numbers of 16 bits, for at most 2¹⁵ of them."""
    total = 0
    for i in range(1, len(ranks)):
        rank = ranks[i]
        larger = np.int16(0)
        for j in range(i):
            larger = np.int16(larger + np.int16(ranks[j] > rank))
        total += int(larger)
    return total


@_jit
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
    """Compile the sum of a user's numba function over the pairs of rows of each block."""

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def over(z: NDArray[np.float64]) -> NDArray[np.float64]:
        totals = np.zeros(len(z))
        sums = np.zeros(_COLUMNS)
        for k in range(len(z)):
            row = z[k]
            for low in range(0, len(row), _COLUMNS):
                columns = row[low : low + _COLUMNS]
                sums[: len(columns)] = 0.0
                for i in range(0, low, 4):  # low is a multiple of 4
                    a, b, c, d = row[i], row[i + 1], row[i + 2], row[i + 3]
                    for j in range(len(columns)):
                        w = columns[j]
                        sums[j] += (1.0 * function(a, w) + 1.0 * function(b, w)) + (
                            1.0 * function(c, w) + 1.0 * function(d, w)
                        )
                for i in range(len(columns) - 1):
                    right = columns[i + 1 :]
                    for j in range(len(right)):
                        sums[j] += 1.0 * function(columns[i], right[j])
                for j in range(len(columns)):
                    totals[k] += sums[j]
        return totals

    return over


@lru_cache(maxsize=64)
def sums_across(function: Callable[..., Any]) -> Callable[..., NDArray[np.float64]]:
    """Compile the sum of a user's numba function over the pairs of rows of two blocks, for given pairs of blocks."""

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def over(
        x: NDArray[np.float64], y: NDArray[np.float64], x_blocks: NDArray[np.int64], y_blocks: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        totals = np.zeros(len(x_blocks))
        sums = np.zeros(_COLUMNS)
        whole = x.shape[1] // 4 * 4
        for k in range(len(totals)):
            x_row, y_row = x[x_blocks[k]], y[y_blocks[k]]
            for low in range(0, len(y_row), _COLUMNS):
                columns = y_row[low : low + _COLUMNS]
                sums[: len(columns)] = 0.0
                for i in range(0, whole, 4):
                    a, b, c, d = x_row[i], x_row[i + 1], x_row[i + 2], x_row[i + 3]
                    for j in range(len(columns)):
                        w = columns[j]
                        sums[j] += (1.0 * function(a, w) + 1.0 * function(b, w)) + (
                            1.0 * function(c, w) + 1.0 * function(d, w)
                        )
                for i in range(whole, len(x_row)):
                    for j in range(len(columns)):
                        sums[j] += 1.0 * function(x_row[i], columns[j])
                for j in range(len(columns)):
                    totals[k] += sums[j]
        return totals

    return over


# --- partitions: see one_pass.py -----------------------------------------------------------------------

#: Rows whose blocks are drawn at once; a power of two, so that no 2³² lies between them.
_DRAWN = 8192


@_jit
def add_segments(
    x: NDArray[Any],
    groups: NDArray[np.int64],
    firsts: NDArray[np.int64],
    begins: NDArray[np.int64],
    n_slots: int,
    ranks: NDArray[Any],
    offsets: NDArray[np.int64],
    length: int,
    totals: NDArray[np.float64],
) -> None:
    """Add the segments of some groups to the totals of the places they go to."""
    whole, each = len(totals), ranks.shape[1] // len(firsts)
    for group in groups:
        for s in range(ranks.shape[1]):
            stretch = s // each
            slot = (begins[stretch] + group * each + s - stretch * each) % n_slots
            first, place = firsts[stretch] + slot * length, offsets[group] + np.int64(ranks[group, s]) * length
            place -= whole if place >= whole else 0
            head = min(length, whole - place)
            part, rows = totals[place : place + head], x[first : first + head]
            for j in range(head):
                part[j] += rows[j]
            rows = x[first + head : first + length]
            for j in range(length - head):
                totals[j] += rows[j]


@_jit
def add_rows(x: NDArray[Any], labels: NDArray[np.int64], sums: NDArray[np.float64]) -> None:
    """Add each row to the sums of its block; a row of block -1 goes nowhere."""
    for i in range(len(x)):
        if labels[i] >= 0:
            total, row = sums[labels[i]], x[i]
            for j in range(len(row)):
                total[j] += row[j]


@_jit
def _draw(keys: NDArray[np.uint32], low: Any, out: NDArray[np.uint32], n_blocks: int) -> None:
    """The hash of rows `low` and on to blocks, as in one_pass.py; no 2³² lies between them."""
    one, two = keys[2 * (low >> 32)], keys[2 * (low >> 32) + 1]
    first, many = np.uint32(low & 0xFFFFFFFF), np.uint64(n_blocks)
    for i in range(len(out)):
        z = np.uint32(first + np.uint32(i)) ^ one
        z = np.uint32((z ^ (z >> np.uint32(16))) * np.uint32(0x21F0AAAD)) ^ two
        z = np.uint32((z ^ (z >> np.uint32(15))) * np.uint32(0xD35A2D97))
        z ^= z >> np.uint32(15)
        out[i] = np.uint32((np.uint64(z) * many) >> np.uint64(32))


@_jit
def count_drawn(keys: NDArray[np.uint32], n_rows: int, n_blocks: int) -> NDArray[np.int64]:
    """Count the rows that the hash gives each block."""
    counts, blocks = np.zeros(n_blocks, dtype=np.int64), np.empty(_DRAWN, dtype=np.uint32)
    for low in range(0, n_rows, _DRAWN):
        length = min(_DRAWN, n_rows - low)
        _draw(keys, low, blocks[:length], n_blocks)
        for i in range(length):
            counts[blocks[i]] += 1
    return counts


@_jit
def pick_drawn(
    keys: NDArray[np.uint32], n_rows: int, order: NDArray[np.uint64], bits: Any, surplus: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Pick rows of the blocks with a surplus, which shrinks, reading the rows in the order of a scrambled count."""
    picked = np.empty(surplus.sum(), dtype=np.int64)
    mask, half = (np.uint64(1) << bits) - np.uint64(1), (bits >> np.uint64(1)) + np.uint64(1)
    count, found, block = np.uint64(0), 0, np.empty(1, dtype=np.uint32)
    while found < len(picked):
        z = count
        for r in range(len(order)):
            z = ((z ^ order[r, 1]) * (order[r, 0] | np.uint64(1))) & mask
            z ^= z >> half
        count += np.uint64(1)
        row = np.int64(z)
        if row < n_rows:
            _draw(keys, row, block, len(surplus))
            if surplus[block[0]] > 0:
                surplus[block[0]] -= 1
                picked[found] = row
                found += 1
    return picked


@_jit
def add_drawn(
    x: NDArray[Any],
    keys: NDArray[np.uint32],
    n_blocks: int,
    moved: NDArray[np.int64],
    targets: NDArray[np.int64],
    at_once: int,
) -> NDArray[np.float64]:
    """Add up the rows of each block, those in no block last; what rounding loses is added in the end."""
    blocks = np.empty(_DRAWN, dtype=np.uint32)
    part, sums, lost = np.zeros(n_blocks + 1), np.zeros(n_blocks + 1), np.zeros(n_blocks + 1)
    at = 0
    for begin in range(0, len(x), at_once):
        end = min(begin + at_once, len(x))
        for low in range(begin, end, _DRAWN):
            length = min(_DRAWN, end - low)
            _draw(keys, low, blocks[:length], n_blocks)
            while at < len(moved) and moved[at] < low + length:
                blocks[moved[at] - low] = targets[at]
                at += 1
            rows = x[low : low + length]
            for i in range(length):
                part[blocks[i]] += rows[i]
        for k in range(n_blocks + 1):
            total = sums[k] + part[k]
            if abs(sums[k]) >= abs(part[k]):
                lost[k] += (sums[k] - total) + part[k]
            else:
                lost[k] += (part[k] - total) + sums[k]
            sums[k], part[k] = total, 0.0
    return sums + lost


# --- votes: see votes/soft.py --------------------------------------------------------------------------

#: Products that are taken side by side, so that a processor can work on several at once.
_LANES = 32
#: Factors of at least 1/2 whose product is taken before its logarithm.
_FACTORS = 512


@_jit
def soft_pull(votes: NDArray[np.float64], center: float, reach: float, share: float) -> tuple[float, float, float]:
    """Sum of the pulls of votes, its slope, and the sum of their sizes: logarithms of products, not of factors.

    The rounding errors of a product are like those of a sum of so much larger size.
    """
    right, left, slope = np.ones(_LANES), np.ones(_LANES), np.zeros(_LANES)
    above, below, error, taken = 0.0, 0.0, 0.0, 0
    for low in range(0, len(votes), _LANES):
        part = votes[low : low + _LANES]
        for j in range(len(part)):
            offset = (part[j] - center) / reach
            near = min(abs(offset), 1.0)
            factor = 1.0 - (2.0 - near) * near * share
            slope[j] += (1.0 - near) / factor
            right[j] *= factor if offset > 0.0 else 1.0
            left[j] *= 1.0 if offset > 0.0 else factor
        taken += 1
        if taken == _FACTORS or low + _LANES >= len(votes):
            for j in range(_LANES):
                above -= math.log(right[j])
                below -= math.log(left[j])
                right[j], left[j] = 1.0, 1.0
            error += _LANES * math.sqrt(taken)
            taken = 0
    return above - below, 2 * share * slope.sum(), above + below + error


# --- pairs of scores inside blocks: see learning/losses.py ---------------------------------------------

#: Blocks worked on side by side.
_BLOCKS = 128
#: Scores further from the centre than this have no exponential; with nearer ones so many factors have a product.
_FAR, _PRODUCT = 40.0, 8


@_jit
def _softplus(x: float) -> float:
    """log(1 + eˣ)."""
    return max(x, 0.0) + (math.log1p(math.exp(-abs(x))) if abs(x) < _FAR else 0.0)


@_jit
def _exponentials(
    scores: NDArray[np.float64], low: int, centre: float, grown: NDArray[np.float64], shrunk: NDArray[np.float64]
) -> tuple[float, bool]:
    """Exponentials of the scores of some blocks and of their negatives, 0 where they are far from the centre.

    Returns the largest exponent, and whether any are far.
    """
    most, far = 0.0, False
    for i in range(len(scores)):
        for k in range(min(_BLOCKS, scores.shape[1] - low)):
            gap = scores[i, low + k] - centre
            if abs(gap) <= _FAR:
                most = max(most, abs(gap))
                grown[i, k] = math.exp(gap)
                shrunk[i, k] = 1.0 / grown[i, k]
            else:
                far = True
                grown[i, k], shrunk[i, k] = 0.0, 0.0
    return most, far


@_jit
def logistic_pairs(scores: NDArray[np.float64], targets: NDArray[Any], centre: float) -> NDArray[np.float64]:
    """Sum over the pairs of each block of log(1 + exp(∓(s - s'))): logarithms of products, not of factors.

    Pairs with a score far from the centre (a corrupt row's, most often) are added one by one.
    """
    size, n_blocks = scores.shape
    totals = np.zeros(n_blocks)
    grown, shrunk, product = np.empty((size, _BLOCKS)), np.empty((size, _BLOCKS)), np.ones(_BLOCKS)
    for low in range(0, n_blocks, _BLOCKS):
        width = min(_BLOCKS, n_blocks - low)
        most, far = _exponentials(scores, low, centre, grown, shrunk)
        at_once, taken = max(_PRODUCT, np.int64(690.0 / (2 * most + 0.7))), 0
        for i in range(size):
            for j in range(i):
                y, z = targets[i, low : low + width], targets[j, low : low + width]
                for k in range(width):
                    up, down = shrunk[i, k] * grown[j, k], grown[i, k] * shrunk[j, k]
                    product[k] *= 1.0 + (up if y[k] > z[k] else down if y[k] < z[k] else 1.0)
                taken += 1
                if taken == at_once or (i == size - 1 and j == i - 1):
                    for k in range(width):
                        totals[low + k] += math.log(product[k])
                        product[k] = 1.0
                    taken = 0
        if far:
            for k in range(width):
                for i in range(size):
                    for j in range(size):
                        if j != i and grown[i, k] == 0.0 and (j < i or grown[j, k] != 0.0):
                            y, z = targets[i, low + k], targets[j, low + k]
                            gap = scores[i, low + k] - scores[j, low + k]
                            if y != z:
                                totals[low + k] += _softplus(-gap if y > z else gap)
    return totals


@_jit
def logistic_slopes(scores: NDArray[np.float64], targets: NDArray[Any], centre: float) -> NDArray[np.float64]:
    """Derivatives of these sums in the scores."""
    size, n_blocks = scores.shape
    slopes = np.zeros((size, n_blocks))
    grown, shrunk = np.empty((size, _BLOCKS)), np.empty((size, _BLOCKS))
    for low in range(0, n_blocks, _BLOCKS):
        width = min(_BLOCKS, n_blocks - low)
        _, far = _exponentials(scores, low, centre, grown, shrunk)
        for i in range(size):
            for j in range(i):
                y, z = targets[i, low : low + width], targets[j, low : low + width]
                own, other = slopes[i, low : low + width], slopes[j, low : low + width]
                for k in range(width):
                    up, down = shrunk[i, k] * grown[j, k], grown[i, k] * shrunk[j, k]
                    pull = -up / (1.0 + up) if y[k] > z[k] else down / (1.0 + down) if y[k] < z[k] else 0.0
                    own[k] += pull
                    other[k] -= pull
        if far:
            for k in range(width):
                for i in range(size):
                    for j in range(size):
                        if j != i and grown[i, k] == 0.0 and (j < i or grown[j, k] != 0.0):
                            y, z = targets[i, low + k], targets[j, low + k]
                            gap = scores[i, low + k] - scores[j, low + k]
                            if y != z:
                                sign = -1.0 if y > z else 1.0
                                pull = sign / (1.0 + math.exp(min(-sign * gap, 700.0)))
                                slopes[i, low + k] += pull
                                slopes[j, low + k] -= pull
    return slopes


@_jit
def hinge_pairs(scores: NDArray[np.float64], targets: NDArray[Any], signs: bool) -> NDArray[np.float64]:
    """Sum over the pairs of each block of max(0, 1 - (s - s')·(y - y')), or with the sign of y - y' alone."""
    size, n_blocks = scores.shape
    totals = np.zeros(n_blocks)
    for low in range(0, n_blocks, _BLOCKS):
        high = min(low + _BLOCKS, n_blocks)
        part = totals[low:high]
        for i in range(size):
            for j in range(i):
                s, t, y, z = scores[i, low:high], scores[j, low:high], targets[i, low:high], targets[j, low:high]
                for k in range(high - low):
                    gap = np.sign(z[k] - y[k]) if signs else z[k] - y[k]
                    part[k] += max(0.0, 1.0 + gap * (s[k] - t[k]))
    return totals


@_jit
def hinge_slopes(scores: NDArray[np.float64], targets: NDArray[Any], signs: bool) -> NDArray[np.float64]:
    """Derivatives of these sums in the scores."""
    size, n_blocks = scores.shape
    slopes = np.zeros((size, n_blocks))
    for low in range(0, n_blocks, _BLOCKS):
        high = min(low + _BLOCKS, n_blocks)
        for i in range(size):
            for j in range(i):
                s, t, y, z = scores[i, low:high], scores[j, low:high], targets[i, low:high], targets[j, low:high]
                own, other = slopes[i, low:high], slopes[j, low:high]
                for k in range(high - low):
                    gap = np.sign(z[k] - y[k]) if signs else z[k] - y[k]
                    pull = gap if 1.0 + gap * (s[k] - t[k]) > 0.0 else 0.0
                    own[k] += pull
                    other[k] -= pull
    return slopes
