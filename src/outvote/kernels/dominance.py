"""For each row of two numbers: how many rows it is concordant with, less those it is discordant with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.kernels.stacks import Counts


def concordances(x: NDArray[Any], y: NDArray[Any]) -> Counts:
    """Sum the signs of (x - x')(y - y') over the other rows, for each row, in O(n log n).

    Of the rows with a smaller x those with a smaller y are counted; the other three quadrants follow from how many
    rows have a smaller x, a smaller y, and from ties.

    Examples
    --------
    >>> concordances(np.array([1.0, 2.0, 3.0]), np.array([5.0, 9.0, 7.0]))
    array([2, 0, 0])
    """
    n = len(x)
    by_x, below_x, upto_x = _ordered(x)
    by_y, below_y, upto_y = _ordered(y)
    tied_x, tied_y = bool((upto_x - below_x).max(initial=1) > 1), bool((upto_y - below_y).max(initial=1) > 1)
    if tied_x:  # among equal x the larger y come first, so that none of them counts as smaller
        by_x = np.lexsort((-below_y, x))
    place = np.empty(n, dtype=np.int64)
    place[by_x] = np.arange(n)
    if tied_y:  # among equal y a later row ranks lower, so that it does not count as larger
        by_y = np.lexsort((-place, below_y))
    rank = np.empty(n, dtype=np.int64)
    rank[by_y] = np.arange(n)
    both_below = np.empty(n, dtype=np.int64)
    both_below[by_x] = smaller_before(rank[by_x])
    equal_x_below_y, _ = _within_ties(x, y) if tied_x else (0, 0)
    equal_y_below_x, equal_y_above_x = _within_ties(y, x) if tied_y else (0, 0)
    left_above = below_x - both_below - equal_y_below_x
    right_below = below_y - both_below - equal_x_below_y
    right_above = (n - upto_x) - right_below - equal_y_above_x
    found: Counts = both_below + right_above - left_above - right_below
    return found


def smaller_before(ranks: Counts) -> Counts:
    """Count for each place of a permutation of 0, …, n - 1 the smaller numbers at earlier places.

    Bit by bit from the highest: numbers that agree in the bits above stand together, in the order of their places, from
    a known place on. A number with the bit set is larger than those without it before it; then each group is split by
    the bit, without changing the order.

    Examples
    --------
    >>> smaller_before(np.array([2, 0, 3, 1]))
    array([0, 0, 2, 1])
    """
    n = len(ranks)
    kind: Any = np.int32 if n < 2**30 else np.int64
    numbers, found, places = ranks.astype(kind), np.zeros(n, dtype=kind), np.arange(n, dtype=kind)
    for bit in reversed(range(max(n - 1, 0).bit_length())):
        is_set = (numbers >> bit) & 1
        starts = numbers >> (bit + 1) << (bit + 1)
        unset_before = np.cumsum(1 - is_set, dtype=kind)
        unset_before -= 1 - is_set
        unset_before -= unset_before[starts]  # those before the group, which starts at this place
        found += is_set * unset_before
        new = np.where(is_set == 1, places + ((1 << bit) - unset_before), starts + unset_before)
        numbers, old = np.empty_like(numbers), numbers
        numbers[new] = old
        found, old = np.empty_like(found), found
        found[new] = old
    return found[ranks].astype(np.int64)  # by now every number stands at its own place


def _ordered(z: NDArray[Any]) -> tuple[NDArray[np.intp], Counts, Counts]:
    """Return the order of the rows, how many are smaller than each, and how many are not larger."""
    order = np.argsort(z)
    values = z[order]
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]]) if len(z) else np.empty(0, dtype=np.intp)
    sizes = np.diff(np.append(starts, len(z)))
    below, upto = np.empty(len(z), dtype=np.int64), np.empty(len(z), dtype=np.int64)
    below[order] = np.repeat(starts, sizes)
    upto[order] = np.repeat(starts + sizes, sizes)
    return order, below, upto


def _within_ties(z: NDArray[Any], other: NDArray[Any]) -> tuple[Counts, Counts]:
    """Count for each row the rows with the same z and a smaller, or a larger, other number."""
    order = np.lexsort((other, z))
    same = z[order][1:] == z[order][:-1]
    ties = same & (other[order][1:] == other[order][:-1])
    group_start, group_end = _runs(same)
    run_start, run_end = _runs(ties)
    smaller, larger = np.empty(len(z), dtype=np.int64), np.empty(len(z), dtype=np.int64)
    smaller[order], larger[order] = run_start - group_start, group_end - run_end
    return smaller, larger


def _runs(same: NDArray[np.bool_]) -> tuple[Counts, Counts]:
    """Return where the run of each item starts and ends, from whether it equals the one before."""
    starts = np.flatnonzero(np.r_[True, ~same])
    sizes = np.diff(np.append(starts, len(same) + 1))
    return np.repeat(starts, sizes), np.repeat(starts + sizes, sizes)
