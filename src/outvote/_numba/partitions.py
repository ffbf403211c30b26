"""Partitions: see dealt.py and one_pass.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote._numba.jit import jit
from outvote.blocks.one_pass import FEW

#: Rows whose blocks are drawn at once, from a multiple of it on: they differ in their last bits alone.
_DRAWN = 2048


@jit
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
    """Add the segments of some groups to the totals of the places they go to, four groups at once.

    Each total is read and written once for four rows that are added to it, and four streams are read side by side.
    """
    whole, n_segments = len(totals), ranks.shape[1]
    each, filled = n_segments // len(firsts), n_segments * length
    starts = np.empty((4, n_segments), dtype=np.int64)
    at, source = np.empty(4, dtype=np.int64), np.empty(4, dtype=np.int64)
    for low in range(0, len(groups), 4):
        now = min(4, len(groups) - low)
        for i in range(now):
            group = groups[low + i]
            at[i] = (whole - offsets[group]) % whole
            for s in range(n_segments):
                stretch = s // each
                slot = (begins[stretch] + group * each + s - stretch * each) % n_slots
                starts[i, ranks[group, s]] = firsts[stretch] + slot * length
        place = 0
        while place < whole:  # a run of places that end no segment
            run, holes = whole - place, now < 4
            for i in range(now):
                source[i] = -1
                if at[i] < filled:
                    within = at[i] % length
                    source[i] = starts[i, at[i] // length] + within
                    run = min(run, length - within)
                else:
                    holes = True
                    run = min(run, whole - at[i])
            part = totals[place : place + run]
            if holes:
                for i in range(now):
                    if source[i] >= 0:
                        a = x[source[i] : source[i] + run]
                        for j in range(run):
                            part[j] += a[j]
            else:
                a, b = x[source[0] : source[0] + run], x[source[1] : source[1] + run]
                c, d = x[source[2] : source[2] + run], x[source[3] : source[3] + run]
                for j in range(run):
                    part[j] = part[j] + a[j] + b[j] + c[j] + d[j]
            place += run
            for i in range(now):
                at[i] = (at[i] + run) % whole


@jit
def add_places(totals: NDArray[np.float64], step: int, first: int, sums: NDArray[np.float64]) -> None:
    """Add to the sum of each block the total of its place, found by counting in steps."""
    at = first
    for k in range(len(sums)):
        sums[k] += totals[at]
        at += step
        at -= len(sums) if at >= len(sums) else 0


@jit
def add_rows(x: NDArray[Any], labels: NDArray[np.int64], sums: NDArray[np.float64]) -> None:
    """Add each row to the sums of its block; a row of block -1 goes nowhere."""
    for i in range(len(x)):
        if labels[i] >= 0:
            total, row = sums[labels[i]], x[i]
            for j in range(len(row)):
                total[j] += row[j]


@jit
def _sum_of_four(a: Any, b: Any, c: Any, d: Any) -> Any:
    return (np.float64(a) + np.float64(b)) + (np.float64(c) + np.float64(d))


@jit
def add_blocks(x: NDArray[Any], order: NDArray[np.int64], starts: NDArray[np.int64], sums: NDArray[np.float64]) -> None:
    """Add up the rows of each block, `order[starts[k] : starts[k + 1]]`: eight at once, a thousand to a part."""
    part = np.empty(x.shape[1])
    for k in range(len(sums)):
        total = sums[k]
        for low in range(starts[k], starts[k + 1], 1024):
            high = min(low + 1024, starts[k + 1])
            eights = high - (high - low) % 8
            part[:] = 0.0
            for i in range(low, eights, 8):
                a, b, c, d = x[order[i]], x[order[i + 1]], x[order[i + 2]], x[order[i + 3]]
                e, f, g, h = x[order[i + 4]], x[order[i + 5]], x[order[i + 6]], x[order[i + 7]]
                for j in range(len(part)):
                    part[j] += _sum_of_four(a[j], b[j], c[j], d[j]) + _sum_of_four(e[j], f[j], g[j], h[j])
            for i in range(eights, high):
                a = x[order[i]]
                for j in range(len(part)):
                    part[j] += a[j]
            for j in range(len(part)):
                total[j] += part[j]


@jit
def _add_numbers(
    x: NDArray[Any],
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
    means: NDArray[np.float64],
    m2: NDArray[np.float64],
) -> None:
    """The same as `add_moments` for one column: twice as fast without the loop over columns."""
    for i in range(len(x)):
        counts[cells[i]] += 1
        means[cells[i]] += x[i]
    for cell in range(len(counts)):
        means[cell] /= max(counts[cell], 1)
    rest = np.zeros(len(means))
    for i in range(len(x)):
        away = x[i] - means[cells[i]]
        rest[cells[i]] += away
        m2[cells[i]] += away * away
    for cell in range(len(counts)):
        left = rest[cell] / max(counts[cell], 1)
        means[cell] += left
        if left * left * counts[cell] < np.inf:
            m2[cell] = max(m2[cell] - left * left * counts[cell], 0.0)


@jit
def add_moments(
    x: NDArray[Any],
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
    means: NDArray[np.float64],
    m2: NDArray[np.float64],
) -> None:
    """Count the rows of each cell, average them, and add up the squares around that average; all is 0 before.

    What rounding has left out of the average is added to it in the end.
    """
    n_rows, n_columns = x.shape
    if n_columns == 1:
        _add_numbers(x[:, 0], cells, counts, means[:, 0], m2[:, 0])
        return
    for i in range(n_rows):
        cell = cells[i]
        counts[cell] += 1
        for j in range(n_columns):
            means[cell, j] += x[i, j]
    for cell in range(len(counts)):
        for j in range(n_columns):
            means[cell, j] /= max(counts[cell], 1)
    rest = np.zeros(means.shape)
    for i in range(n_rows):
        cell = cells[i]
        for j in range(n_columns):
            away = x[i, j] - means[cell, j]
            rest[cell, j] += away
            m2[cell, j] += away * away
    for cell in range(len(counts)):
        for j in range(n_columns):
            left = rest[cell, j] / max(counts[cell], 1)
            means[cell, j] += left
            if left * left * counts[cell] < np.inf:
                m2[cell, j] = max(m2[cell, j] - left * left * counts[cell], 0.0)


@jit
def _folded(value: Any) -> Any:
    """Reduce a number below 2⁶³ modulo 2³¹ - 1, as in partition.py: to at most two more than it."""
    value = (value & 0x7FFFFFFF) + (value >> 31)
    return (value & 0x7FFFFFFF) + (value >> 31)


@jit
def hash_numbers(ids: NDArray[np.int64], coefficients: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    """The hash of partition.py."""
    prime = np.int64(2**31 - 1)
    b, c1, c2, c3, c4 = coefficients
    for i in range(len(ids)):
        u = ids[i]
        if u < 0 or u >= prime:
            u = _folded(u % prime + _folded(b * (u // prime % prime)))
            if u >= prime:
                u -= prime
        value = _folded((u + c1) * u)
        value = _folded((value + c2) * u)
        value = _folded((value + c3) * u)
        if value >= prime:
            value -= prime
        out[i] = value + c4


@jit
def _mixed(z: Any, two: Any) -> Any:
    """The hash of one_pass.py, from the first multiplication on."""
    z = np.uint32(z * np.uint32(0xED5AD4BB)) ^ two
    z = np.uint32((z ^ (z >> np.uint32(11))) * np.uint32(0xAC4C1B51))
    return np.uint32((z ^ (z >> np.uint32(15))) * np.uint32(0x31848BAB))


@jit
def _in_many(z: Any, n_blocks: Any) -> Any:
    return np.uint32((np.uint64(z) * n_blocks) >> np.uint64(32))


@jit
def _in_few(z: Any, share: Any) -> Any:
    return np.int32(np.float32(np.int32(z >> np.uint32(9))) * share)


@jit
def _block(row: Any, keys: NDArray[np.uint32], n_blocks: int) -> Any:
    """The block of a row."""
    part = row >> 32
    z = np.uint32(row & 0xFFFFFFFF) ^ keys[2 * part]
    z = _mixed(np.uint32(z ^ (z >> np.uint32(17))), keys[2 * part + 1])
    return _in_many(z, np.uint64(n_blocks)) if n_blocks > FEW else _in_few(z, np.float32(n_blocks * 2.0**-23))


@jit
def _draw(keys: NDArray[np.uint32], low: Any, out: NDArray[np.uint32], n_blocks: int) -> None:
    """The blocks of rows `low` and on, at most `_DRAWN` of them: what the first shift leaves of a row is one number."""
    first, two = np.uint32(low & 0xFFFFFFFF), keys[2 * (low >> 32) + 1]
    one = keys[2 * (low >> 32)]
    one ^= (first ^ one) >> np.uint32(17)
    many, share = np.uint64(n_blocks), np.float32(n_blocks * 2.0**-23)
    if n_blocks > FEW:
        for i in range(len(out)):
            out[i] = _in_many(_mixed(np.uint32((first + np.uint32(i)) ^ one), two), many)
    else:
        for i in range(len(out)):
            out[i] = _in_few(_mixed(np.uint32((first + np.uint32(i)) ^ one), two), share)


@jit
def _scramble(count: Any, order: NDArray[np.uint64], bits: Any, rows: NDArray[np.int64]) -> None:
    """Permute `count` and the numbers after it, as in one_pass.py; 32 bits are twice as fast where they suffice."""
    half = (bits >> np.uint64(1)) + np.uint64(1)
    if bits <= 32:
        first, mask, by = np.uint32(count), np.uint32((np.uint64(1) << bits) - np.uint64(1)), np.uint32(half)
        for i in range(len(rows)):
            y = np.uint32(first + np.uint32(i))
            for r in range(len(order)):
                y = np.uint32((y ^ np.uint32(order[r, 1])) * np.uint32(order[r, 0] | np.uint64(1))) & mask
                y ^= y >> by
            rows[i] = y
        return
    whole = (np.uint64(1) << bits) - np.uint64(1)
    for i in range(len(rows)):
        z = count + np.uint64(i)
        for r in range(len(order)):
            z = ((z ^ order[r, 1]) * (order[r, 0] | np.uint64(1))) & whole
            z ^= z >> half
        rows[i] = z


@jit
def count_drawn(keys: NDArray[np.uint32], n_rows: int, n_blocks: int) -> NDArray[np.int64]:
    """Count the rows that the hash gives each block."""
    counts, blocks = np.zeros(n_blocks, dtype=np.int64), np.empty(_DRAWN, dtype=np.uint32)
    for low in range(0, n_rows, _DRAWN):
        length = min(_DRAWN, n_rows - low)
        _draw(keys, low, blocks[:length], n_blocks)
        for i in range(length):
            counts[blocks[i]] += 1
    return counts


@jit
def pick_drawn(
    keys: NDArray[np.uint32], n_rows: int, order: NDArray[np.uint64], bits: Any, surplus: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Pick rows of the blocks with a surplus, which shrinks, reading the rows in the order of a scrambled count."""
    picked = np.empty(surplus.sum(), dtype=np.int64)
    rows = np.empty(_DRAWN, dtype=np.int64)
    count, found = np.uint64(0), 0
    while found < len(picked):
        _scramble(count, order, bits, rows)
        count += np.uint64(_DRAWN)
        for row in rows:
            if row < n_rows:
                block = _block(row, keys, len(surplus))
                if surplus[block] > 0:
                    surplus[block] -= 1
                    picked[found] = row
                    found += 1
    return picked


@jit
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
