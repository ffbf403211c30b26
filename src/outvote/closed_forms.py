"""Fast forms of the named kernels, on all blocks at once.

A *stack* is an array of shape (blocks, rows) or (blocks, rows, columns); each function returns one
value for each block. None of them builds a rows × rows array beyond a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Stack = NDArray[np.float64]
Values = NDArray[np.float64]

#: Numbers in one temporary array.
_TILE = 2**18
#: Rows on each side of a tile of pairs.
_SIDE = 256
#: Up to this many rows comparing all pairs beats sorting.
_KENDALL_PAIRS_UP_TO = 96


def variance(z: Stack) -> Values:
    """Mean of (z - z')²/2: the unbiased variance, in two passes."""
    n_rows = z.shape[1]
    centred = z - z.mean(axis=1, keepdims=True, dtype=np.float64)
    # What the rounded mean leaves behind is taken out again: at an offset of 1e8 it is not nothing.
    left = centred.sum(axis=1)
    variances: Values = (np.einsum("kb,kb->k", centred, centred) - left**2 / n_rows) / (n_rows - 1)
    return variances


def covariance(z: Stack) -> Values:
    """Mean of (x - x')(y - y')/2: the unbiased covariance, in two passes."""
    n_rows = z.shape[1]
    centred = z - z.mean(axis=1, keepdims=True, dtype=np.float64)
    left = centred.sum(axis=1)
    products = np.einsum("kb,kb->k", centred[..., 0], centred[..., 1])
    covariances: Values = (products - left[:, 0] * left[:, 1] / n_rows) / (n_rows - 1)
    return covariances


def gini(z: Stack) -> Values:
    """Mean of |z - z'|: each gap between neighbours in order counts for the pairs it separates."""
    n_rows = z.shape[1]
    gaps = np.diff(np.sort(z.astype(np.float64, copy=False), axis=1), axis=1)
    below = np.arange(1, n_rows)
    return gaps @ (below * (n_rows - below) / _pairs(n_rows))


def wilcoxon(z: Stack) -> Values:
    """Share of pairs with z + z' > 0: the sign of a sum is that of the larger term in size."""
    # In order of size, positive first among equals, a positive row wins against all before it.
    order = np.lexsort((z <= 0, np.abs(z)), axis=1)
    positive = np.take_along_axis(z > 0, order, axis=1)
    wins = (positive * np.arange(z.shape[1])).sum(axis=1)
    return wins / _pairs(z.shape[1])


def kendall(z: Stack) -> Values:
    """Mean sign of (x - x')(y - y'): Kendall's tau-a."""
    n_rows = z.shape[1]
    if n_rows <= _KENDALL_PAIRS_UP_TO:
        totals = np.zeros(len(z))
        for batch in _batches(len(z), n_rows**2):
            left, right = z[batch][:, :, None], z[batch][:, None, :]
            signs = np.subtract(left > right, left < right, dtype=np.int8)  # a difference could overflow
            totals[batch] = (signs[..., 0] * signs[..., 1]).sum(axis=(1, 2)) / 2
        return totals / _pairs(n_rows)
    # Concordant - discordant = all pairs - tied in x - tied in y + tied in both - 2·discordant.
    x_order = np.lexsort((z[..., 1], z[..., 0]), axis=1)
    x = np.take_along_axis(z[..., 0], x_order, axis=1)
    y = np.take_along_axis(z[..., 1], x_order, axis=1)
    new_x, new_y = x[:, 1:] != x[:, :-1], y[:, 1:] != y[:, :-1]
    tied_x, tied_both = _tied_pairs(new_x), _tied_pairs(new_x | new_y)
    y_sorted = np.sort(y, axis=1)
    tied_y = _tied_pairs(y_sorted[:, 1:] != y_sorted[:, :-1])
    return (_pairs(n_rows) - tied_x - tied_y + tied_both - 2 * _inversions(y)) / _pairs(n_rows)


def mann_whitney(x: Stack, y: Stack) -> Values:
    """Share of pairs with X ≤ Y."""
    return _wins(x, y, first_wins=True) / (x.shape[1] * y.shape[1])


def auc(x: Stack, y: Stack) -> Values:
    """Share of pairs with X < Y, ties counted half."""
    total = _wins(x, y, first_wins=True) + _wins(x, y, first_wins=False)
    return total / (2 * x.shape[1] * y.shape[1])


def mann_whitney_grid(x: Stack, y: Stack) -> Values:
    """Share of pairs with X ≤ Y, for every block of x and every block of y."""
    return _wins_grid(x, y, "right") / (x.shape[1] * y.shape[1])


def auc_grid(x: Stack, y: Stack) -> Values:
    """Share of pairs with X < Y, ties counted half, for every block of x and every block of y."""
    total = _wins_grid(x, y, "right") + _wins_grid(x, y, "left")
    return total / (2 * x.shape[1] * y.shape[1])


def energy(x: Stack, y: Stack) -> Values:
    """Energy distance 2·E‖X-Y‖ - E‖X-X'‖ - E‖Y-Y'‖, unbiased; in one dimension by sorting."""
    if x.ndim == 3:
        return _two_sample(x, y, np.sqrt, sign=-1.0)
    n_x, n_y = x.shape[1], y.shape[1]
    both = np.concatenate([x, y], axis=1, dtype=np.float64)
    order = np.argsort(both, axis=1)
    gaps = np.diff(np.take_along_axis(both, order, axis=1), axis=1)
    x_below = np.cumsum(order < n_x, axis=1)[:, :-1]
    y_below = np.arange(1, n_x + n_y) - x_below
    x_above, y_above = n_x - x_below, n_y - y_below
    weights = (
        2 * (x_below * y_above + y_below * x_above) / (n_x * n_y)
        - x_below * x_above / _pairs(n_x)
        - y_below * y_above / _pairs(n_y)
    )
    return np.einsum("kb,kb->k", gaps, weights)


def energy_grid(x: Stack, y: Stack) -> Values:
    """Energy distance between every block of x and every block of y, for vectors."""
    return _two_sample_grid(x, y, np.sqrt, sign=-1.0)


def mmd(x: Stack, y: Stack, bandwidth: float) -> Values:
    """Squared maximum mean discrepancy with the kernel exp(-‖u-v‖²/(2·bandwidth²)), unbiased."""
    return _two_sample(_vectors(x), _vectors(y), _gaussian, sign=1.0, width=bandwidth)


def mmd_grid(x: Stack, y: Stack, bandwidth: float) -> Values:
    """Squared maximum mean discrepancy between every block of x and every block of y."""
    return _two_sample_grid(_vectors(x), _vectors(y), _gaussian, sign=1.0, width=bandwidth)


def _two_sample(x: Stack, y: Stack, function: Callable[[Any], Any], sign: float, width: float = 1.0) -> Values:
    within = _mean_within(x, function, width) + _mean_within(y, function, width)
    return sign * (within - 2 * _mean_across(x, y, function, width))


def _two_sample_grid(x: Stack, y: Stack, function: Callable[[Any], Any], sign: float, width: float = 1.0) -> Values:
    values = np.empty((len(x), len(y)))
    x_within, y_within = _mean_within(x, function, width), _mean_within(y, function, width)
    for k in range(len(x)):
        across = _mean_across(np.broadcast_to(x[k], (len(y), *x.shape[1:])), y, function, width)
        values[k] = sign * (x_within[k] + y_within - 2 * across)
    return values


def _mean_across(x: Stack, y: Stack, function: Callable[[Any], Any], width: float) -> Values:
    """Mean of function(‖x - y‖²/width²) over the pairs of each block of x with the same block of y."""
    totals = np.zeros(len(x))
    for rows in _tiles(x.shape[1]):
        for columns in _tiles(y.shape[1]):
            for batch in _batches(len(x), _area(rows, columns)):
                squares = _squared_distances(x[batch][:, rows], y[batch][:, columns], width)
                totals[batch] += function(squares).sum(axis=(1, 2))
    return totals / (x.shape[1] * y.shape[1])


def _mean_within(x: Stack, function: Callable[[Any], Any], width: float) -> Values:
    """Mean of function(‖x - x'‖²/width²) over the pairs inside each block."""
    totals = np.zeros(len(x))
    for rows in _tiles(x.shape[1]):
        for columns in _tiles(x.shape[1]):
            if columns.start < rows.start:
                continue
            for batch in _batches(len(x), _area(rows, columns)):
                values = function(_squared_distances(x[batch][:, rows], x[batch][:, columns], width))
                if columns.start == rows.start:
                    values = values[(slice(None), *np.triu_indices(values.shape[1], 1))]
                totals[batch] += values.reshape(len(values), -1).sum(axis=1)
    return totals / _pairs(x.shape[1])


def _squared_distances(x: Stack, y: Stack, width: float) -> Values:
    """‖x_i - y_j‖²/width² from differences, not from products: exact for equal rows and at any offset."""
    squares = np.zeros((len(x), x.shape[1], y.shape[1]))
    with np.errstate(over="ignore"):  # a distance beyond the largest float is infinite
        for column in range(x.shape[2]):
            difference = np.subtract(x[:, :, None, column], y[:, None, :, column], dtype=np.float64)
            if width != 1:
                difference /= width
            squares += np.square(difference, out=difference)
    return squares


def _gaussian(squares: Values) -> Values:
    values: Values = np.exp(-0.5 * squares)
    return values


def _vectors(z: Stack) -> Stack:
    return z if z.ndim == 3 else z[..., None]


def _wins(x: Stack, y: Stack, *, first_wins: bool) -> NDArray[np.int64]:
    """Count the pairs x < y of each block, and the ties too if `first_wins`."""
    n_x = x.shape[1]
    both = np.concatenate([x, y] if first_wins else [y, x], axis=1)
    order = np.argsort(both, axis=1, kind="stable")
    is_x = order < n_x if first_wins else order >= y.shape[1]
    wins: NDArray[np.int64] = (np.cumsum(is_x, axis=1, dtype=np.int64) * ~is_x).sum(axis=1)
    return wins


def _wins_grid(x: Stack, y: Stack, side: Any) -> NDArray[np.int64]:
    """Count the pairs x ≤ y (side "right") or x < y ("left") for every two blocks."""
    y_flat = y.reshape(-1)
    wins = np.empty((len(x), len(y)), dtype=np.int64)
    for k, block in enumerate(np.sort(x, axis=1)):
        wins[k] = np.searchsorted(block, y_flat, side=side).reshape(y.shape).sum(axis=1)
    return wins


def _tied_pairs(new: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the pairs of equal items in each sorted row, given where a new value starts."""
    group = np.cumsum(np.pad(new, ((0, 0), (1, 0))), axis=1)
    group += np.arange(len(new))[:, None] * group.shape[1]
    sizes = np.bincount(group.ravel(), minlength=group.size).reshape(group.shape)
    tied: NDArray[np.int64] = (sizes * (sizes - 1) // 2).sum(axis=1)
    return tied


def _inversions(y: Stack) -> NDArray[np.int64]:
    """Count the pairs i < j with y_i > y_j in each row: a merge sort, all rows and runs at once."""
    n_rows = y.shape[1]
    width = 1 << (n_rows - 1).bit_length()
    # Ranks with ties in order of position, so that equal items are no inversion.
    ranks = np.empty(y.shape, dtype=np.int64)
    np.put_along_axis(ranks, np.argsort(y, axis=1, kind="stable"), np.broadcast_to(np.arange(n_rows), y.shape), axis=1)
    runs = np.concatenate([ranks, np.broadcast_to(np.arange(n_rows, width), (len(y), width - n_rows))], axis=1)
    total = np.zeros(len(y), dtype=np.int64)
    half = 1
    while half < width:
        runs = runs.reshape(len(y), -1, 2 * half)
        order = np.argsort(runs, axis=2, kind="stable")
        from_right = order >= half
        # A left item has jumped over each right item that now stands before it.
        jumped = np.cumsum(from_right, axis=2) * ~from_right
        total += jumped.sum(axis=(1, 2))
        runs = np.take_along_axis(runs, order, axis=2)
        half *= 2
    return total


def _pairs(n_rows: int) -> int:
    return n_rows * (n_rows - 1) // 2


def _tiles(n_rows: int) -> Iterator[slice]:
    return (slice(low, min(low + _SIDE, n_rows)) for low in range(0, n_rows, _SIDE))


def _area(rows: slice, columns: slice) -> int:
    area: int = (rows.stop - rows.start) * (columns.stop - columns.start)
    return area


def _batches(n_blocks: int, cost: int) -> Iterator[slice]:
    step = max(1, _TILE // max(cost, 1))
    return (slice(low, low + step) for low in range(0, n_blocks, step))
