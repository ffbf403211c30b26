"""Pairs of two samples that the second wins: Mann-Whitney's P(X ≤ Y) and the AUC, P(X < Y) + P(X = Y)/2.

Both count pairs: a pair x < y counts `below`, a tie x = y counts 1. With `below` = 1 the sum over all pairs is that of
Mann-Whitney, with `below` = 2 it is twice that of the AUC. Counts are integers and exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.kernels.kernel import Kernel, torch_function
from outvote.kernels.stacks import Counts, Stack, Values, batches

#: Counters of any width: they may be narrower than 64 bits.
AnyCounts = NDArray[np.integer[Any]]

#: Numbers in one temporary array.
_NUMBERS_AT_ONCE = 2**18
#: A counter of the grid holds at least this many additions before it is emptied.
_ADDITIONS = 32


def wins(x: Stack, y: Stack, below: int) -> Values:
    """Compute the share of pairs that y wins, for the k-th blocks of both samples."""
    return _count_aligned(x, y, below) / (below * x.shape[1] * y.shape[1])


def wins_grid(x: Stack, y: Stack, below: int) -> Values:
    """Compute the share of pairs that y wins, for every block of x and every block of y."""
    return np.divide(wins_counts(x, y, below), below * x.shape[1] * y.shape[1], dtype=np.float64)


def wins_counts(x: Stack, y: Stack, below: int) -> AnyCounts:
    """Count the pairs for every block of x and every block of y; also for (columns, blocks, rows)."""
    return _count_grid(x, y, below) if x.ndim == 2 else _count_grids(x, y, below)


def deleted_wins(x: Values, y: Values, n_x: int, n_y: int, below: int) -> tuple[float, float, float]:
    """Return the share of pairs that y wins, and its least and largest value if `n_x` rows of x and `n_y` of y go.

    It is least without the smallest rows of x and the largest of y, whose pairs y wins whatever the others are.
    """
    x, y = np.sort(x), np.sort(y)
    first = np.searchsorted(x, y)  # how many rows of x each row of y beats
    last = first
    if len(x) and np.equal(x[np.minimum(first, len(x) - 1)], y).any():
        last = np.searchsorted(x, y, side="right")  # and those it ties with
    kept_x, kept_y = len(x) - n_x, len(y) - n_y

    def share(beaten: NDArray[Any], up_to: NDArray[Any], pairs: int) -> float:
        counts = int(up_to.sum()) + ((below - 1) * int(beaten.sum()) if below > 1 else 0)
        return counts / (below * pairs) if pairs > 0 else float("nan")

    def both(change: Callable[[NDArray[Any]], NDArray[Any]], rows: slice, pairs: int) -> float:
        beaten = change(first[rows])
        return share(beaten, beaten if last is first else change(last[rows]), pairs)

    whole = share(first, last, len(x) * len(y))
    low = both(lambda counts: np.maximum(counts - n_x, 0), slice(0, max(kept_y, 0)), kept_x * kept_y)
    high = both(lambda counts: np.minimum(counts, kept_x), slice(n_y, None), kept_x * kept_y)
    return whole, low, high


def _count_aligned(x: Stack, y: Stack, below: int) -> Counts:
    (n_blocks, n_x), n_y = x.shape, y.shape[1]
    if compiled := _numba.compiled(5e-8 * n_blocks * (n_x + n_y)):
        return compiled.aligned_wins(np.sort(x, axis=1), np.sort(y, axis=1), below, 1)
    both = np.concatenate([x, y], axis=1)
    order = np.argsort(both, axis=1)
    is_y = order >= n_x
    order += np.arange(n_blocks)[:, None] * (n_x + n_y)
    values = both.ravel()[order]
    new = values[:, 1:] != values[:, :-1]
    if new.all():
        # Each y wins against the rows before it, except for the y among them.
        before = (is_y @ np.arange(n_x + n_y, dtype=np.float64)).astype(np.int64)
        return below * (before - n_y * (n_y - 1) // 2)
    # Equal values form a group: its y win against the x of earlier groups, and tie with the x of their own.
    start = np.pad(new, ((0, 0), (1, 0)), constant_values=True)
    group = np.cumsum(start).reshape(start.shape) - 1
    n_groups = int(group[-1, -1]) + 1
    in_group = np.bincount(group.ravel(), minlength=n_groups)
    y_in_group = np.bincount(group[is_y], minlength=n_groups)
    x_in_group = in_group - y_in_group
    x_before = np.cumsum(x_in_group) - x_in_group
    x_before -= np.repeat(np.arange(n_blocks) * n_x, np.diff(group[:, 0], append=n_groups))
    counts: Counts = np.add.reduceat(y_in_group * (below * x_before + x_in_group), group[:, 0])
    return counts


def _count_grid(x: Stack, y: Stack, below: int) -> AnyCounts:
    if x.shape[1] < y.shape[1]:
        # The sample with smaller blocks is faster in the place of y, and x < y is the same as -y < -x.
        return _count_grid(-y, -x, below).T
    n_cells, n_rows = len(x) * len(y), x.size + y.size
    if compiled := _numba.compiled(n_rows * (2e-7 + 7e-10 * n_cells**0.5)):
        narrow, wide, most = _counters(below * x.shape[1], y.shape[1], (len(y), len(x)))
        compiled.grid_wins(*_in_order(x, compiled), *_in_order(y, compiled), below, 1, narrow, wide, most)
        return (wide if len(wide) else narrow).T
    counts = _count_in_order(x, y, x_first=True)
    if below == 1:
        return counts
    values = np.sort(np.concatenate([x.ravel(), y.ravel()]))
    tied = (values[1:] == values[:-1]).any()
    return counts + (below - 1) * (_count_in_order(x, y, x_first=False) if tied else counts)


def _count_grids(x: Stack, y: Stack, below: int) -> AnyCounts:
    """Count the grid of every column; if compiled, in one call."""
    if x.shape[2] < y.shape[2]:
        return _count_grids(-y, -x, below).swapaxes(1, 2)
    n_columns, n_cells, n_rows = len(x), x.shape[1] * y.shape[1], x[0].size + y[0].size
    compiled = _numba.compiled(n_columns * n_rows * (2e-7 + 7e-10 * n_cells**0.5))
    if compiled is None:
        return np.stack([_count_grid(*column, below) for column in zip(x, y, strict=True)])
    narrow, wide, most = _counters(below * x.shape[2], y.shape[2], (y.shape[1], x.shape[1]), n_columns)
    flat = [z.reshape(n_columns, -1).astype(np.float64, copy=False) for z in (x, y)]
    x_order, y_order = (np.argsort(z, axis=1) for z in flat)
    compiled.grids_of_wins(flat[0], x_order, x.shape[2], flat[1], y_order, y.shape[2], below, 1, narrow, wide, most)
    return (wide if wide.size else narrow).swapaxes(1, 2)


def _counters(largest: int, times: int, cells: tuple[int, int], *columns: int) -> tuple[AnyCounts, Counts, int]:
    """Choose the narrowest counters that hold `times` additions of at most `largest`, or at least some of them.

    Returns
    -------
    tuple
        Zeros of that type; zeros of 64 bits to empty them into, without rows if that is never needed; and how many
        additions a counter holds.
    """
    kinds = (np.uint8, times), (np.uint16, times), (np.uint16, _ADDITIONS), (np.uint32, _ADDITIONS)
    kind = next((kind for kind, enough in kinds if np.iinfo(kind).max >= enough * largest), np.int64)
    most = np.iinfo(kind).max // largest
    rows = cells[0] if most < times else 0
    return np.zeros((*columns, *cells), kind), np.zeros((*columns, rows, cells[1]), np.int64), most


def _in_order(z: Stack, compiled: Any) -> tuple[Values, NDArray[np.int32]]:
    """Sort all values, and return the block of each.

    Sorting is faster than finding the order. So the leading bits of the values are sorted as integers of the same
    order, with the number of the value in place of the other bits; neighbours with equal leading bits are sorted after.
    """
    flat = z.astype(np.float64, copy=False).ravel()
    numbers = (1 << (len(flat) - 1).bit_length()) - 1
    order = compiled.leading_bits(flat, numbers)
    order.sort()
    values = compiled.settle(flat, order, numbers, len(flat))
    if len(values) < len(flat):
        order = np.argsort(flat)
        values = flat[order]
    return values, (order // z.shape[1]).astype(np.int32)


def _count_in_order(x: Stack, y: Stack, *, x_first: bool) -> Counts:
    """Count the pairs x < y for every two blocks, and the ties too if `x_first`.

    All values are sorted and cut into tiles. A y wins against the x of all tiles before its own, which is a product of
    two tables of counts by tile and block, and against the x before it in its own tile.
    """
    n_x, n_y = len(x), len(y)
    blocks = [np.repeat(np.arange(n_x), x.shape[1]), np.repeat(np.arange(n_x, n_x + n_y), y.shape[1])]
    both = [x.ravel(), y.ravel()]
    order = np.argsort(np.concatenate(both if x_first else both[::-1]), kind="stable")
    block = np.concatenate(blocks if x_first else blocks[::-1])[order]
    side = int(np.clip(0.14 * (n_x * n_y) ** 0.5, 8, 128))
    # Sums up to 2²⁴ are exact in float32.
    kind = np.float32 if x.shape[1] * y.shape[1] <= 2**24 else np.float64
    block = np.pad(block, (0, -len(block) % side), constant_values=n_x + n_y).reshape(-1, side)
    near = np.zeros((n_x, n_y), dtype=np.int64)
    far = np.zeros((n_x, n_y), dtype=kind)
    seen = np.zeros(n_x, dtype=kind)
    with _numba.one_thread():
        for tiles in batches(len(block), 4 * (n_x + n_y + 1), _NUMBERS_AT_ONCE):
            part = block[tiles]
            cells = part + np.arange(len(part))[:, None] * (n_x + n_y + 1)
            counts = (
                np.bincount(cells.ravel(), minlength=len(part) * (n_x + n_y + 1)).reshape(len(part), -1).astype(kind)
            )
            x_counts, y_counts = counts[:, :n_x], counts[:, n_x : n_x + n_y]
            up_to = np.cumsum(x_counts, axis=0) + seen
            far += (up_to - x_counts).T @ y_counts
            seen = up_to[-1]
            is_x, is_y = part < n_x, (part >= n_x) & (part < n_x + n_y)
            for gap in range(1, side):
                pair = is_x[:, :-gap] & is_y[:, gap:]
                np.add.at(near.reshape(-1), part[:, :-gap][pair] * n_y + part[:, gap:][pair] - n_x, 1)
    return near + far.astype(np.int64)


def _kernel(function: Callable[[Any, Any], Any], name: str, below: int) -> Kernel:
    return Kernel(
        function,
        degrees=(1, 1),
        bounds=(0.0, 1.0),
        vectorized=True,
        name=name,
        columns=1,
        aligned_form=partial(wins, below=below),
        grid_form=partial(wins_grid, below=below),
        count_form=partial(wins_counts, below=below),
        count_unit=1 / below,
        tensor_form=torch_function("wins", below=below),
        tensor_grid_form=torch_function("wins_grid", below=below),
        rises=(-1, 1),
        deleted_form=partial(deleted_wins, below=below),
    )


MANN_WHITNEY = _kernel(lambda x, y: x <= y, "mann-whitney", below=1)
AUC = _kernel(lambda x, y: (x < y) + (x == y) / 2, "auc", below=2)
