"""Fast forms of the named kernels, on all blocks at once.

A *stack* is an array of shape (blocks, rows) or (blocks, rows, columns); each function returns one
value for each block. None of them builds a rows × rows array beyond a tile. Counts are integers and exact;
where numba is at hand and repays the wait (`_numba.py`), the longer ones are counted by `compiled.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import _numba

Stack = NDArray[np.float64]
Values = NDArray[np.float64]

#: Numbers in one temporary array.
_TILE = 2**18
#: Rows on each side of a tile of pairs.
_SIDE = 256
#: Numbers compared at once where rows at some distance of each other are: they stay in the cache.
_STRETCH = 2**15
#: Counters for the grid hold at least this many additions before they are emptied.
_ADDITIONS = 32
#: Up to this many rows in a block, comparing all pairs beats sorting them first: in numpy, and compiled.
_KENDALL_PAIRS_UP_TO = 48
_COMPILED_PAIRS_UP_TO = 192
#: Up to this many rows comparing all pairs of ranks (16 bits each) beats merging them: in numpy, and compiled.
_RANKS_UP_TO = 3000
_COMPILED_RANKS_UP_TO = 4096


def variance(z: Stack) -> Values:
    """Mean of (z - z')²/2: the unbiased variance, in two passes."""
    n_rows = z.shape[1]
    # Seen from one of the rows first: equal rows then have no spread at all, and a large offset costs no digits.
    centred = np.subtract(z, z[:, :1], dtype=np.float64)
    centred -= (np.einsum("kb->k", centred) / n_rows)[:, None]
    variances: Values = np.einsum("kb,kb->k", centred, centred) / (n_rows - 1)
    return variances


def variance_from_moments(counts: NDArray[np.int64], m2: Values) -> Values:
    """Variance of each block, from its number of rows and its sum of squares around its mean; NaN below two rows."""
    return np.divide(m2, counts - 1, out=np.full(len(counts), np.nan), where=counts > 1)


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
    # In order of size, positive first among equals, a positive row wins against all before it. The bits of a
    # float without its sign are in that order; they leave one bit for who comes first.
    keys = z.astype(np.float64).view(np.uint64)
    keys <<= np.uint64(1)
    keys |= z <= 0
    keys.sort(axis=1)
    keys &= np.uint64(1)
    wins = (keys == 0) @ np.arange(z.shape[1], dtype=np.float64)
    return wins / _pairs(z.shape[1])


def kendall(z: Stack) -> Values:
    """Mean sign of (x - x')(y - y'): Kendall's tau-a."""
    n_rows = z.shape[1]
    x, y = (z[..., column].astype(np.float64, order="C") for column in (0, 1))
    return _concordance(x, y) / _pairs(n_rows)


def mann_whitney(x: Stack, y: Stack) -> Values:
    """Share of pairs with X ≤ Y."""
    return _wins(x, y, below=1, tie=1) / (x.shape[1] * y.shape[1])


def auc(x: Stack, y: Stack) -> Values:
    """Share of pairs with X < Y, ties counted half."""
    return _wins(x, y, below=2, tie=1) / (2 * x.shape[1] * y.shape[1])


def mann_whitney_counts(x: Stack, y: Stack) -> NDArray[np.integer[Any]]:
    """Number of pairs with X ≤ Y, for every block of x and every block of y; in each column where those come first."""
    return _wins_grid(x, y, below=1, tie=1) if x.ndim == 2 else _wins_grids(x, y, below=1, tie=1)


def auc_counts(x: Stack, y: Stack) -> NDArray[np.integer[Any]]:
    """Twice the number of pairs with X < Y and the ties once, likewise."""
    return _wins_grid(x, y, below=2, tie=1) if x.ndim == 2 else _wins_grids(x, y, below=2, tie=1)


def mann_whitney_grid(x: Stack, y: Stack) -> Values:
    """Share of pairs with X ≤ Y, for every block of x and every block of y."""
    return np.divide(mann_whitney_counts(x, y), x.shape[1] * y.shape[1], dtype=np.float64)


def auc_grid(x: Stack, y: Stack) -> Values:
    """Share of pairs with X < Y, ties counted half, for every block of x and every block of y."""
    return np.divide(auc_counts(x, y), 2 * x.shape[1] * y.shape[1], dtype=np.float64)


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


def _wins(x: Stack, y: Stack, *, below: int, tie: int) -> NDArray[np.int64]:
    """Count `below` for each pair x < y of a block, and `tie` for each pair x = y."""
    (n_blocks, n_x), n_y = x.shape, y.shape[1]
    if compiled := _numba.compiled(5e-8 * n_blocks * (n_x + n_y)):
        return compiled.aligned_wins(np.sort(x, axis=1), np.sort(y, axis=1), below, tie)
    both = np.concatenate([x, y], axis=1)
    order = np.argsort(both, axis=1)
    is_y = order >= n_x
    order += np.arange(n_blocks)[:, None] * (n_x + n_y)
    values = both.ravel()[order]
    new = values[:, 1:] != values[:, :-1]
    if new.all():
        # Each y counts the rows before it, less the y among them.
        before = (is_y @ np.arange(n_x + n_y, dtype=np.float64)).astype(np.int64)
        return below * (before - n_y * (n_y - 1) // 2)
    # A group of equal values wins against the x of the groups before it, and ties with its own.
    start = np.pad(new, ((0, 0), (1, 0)), constant_values=True)
    group = np.cumsum(start).reshape(start.shape) - 1
    n_groups = int(group[-1, -1]) + 1
    in_group = np.bincount(group.ravel(), minlength=n_groups)
    y_in_group = np.bincount(group[is_y], minlength=n_groups)
    x_in_group = in_group - y_in_group
    x_before = np.cumsum(x_in_group) - x_in_group
    x_before -= np.repeat(np.arange(n_blocks) * n_x, np.diff(group[:, 0], append=n_groups))
    wins: NDArray[np.int64] = np.add.reduceat(y_in_group * (below * x_before + tie * x_in_group), group[:, 0])
    return wins


def _wins_grid(x: Stack, y: Stack, *, below: int, tie: int) -> NDArray[np.integer[Any]]:
    """Count `below` for each pair x < y, and `tie` for each pair x = y, for every two blocks; small types may do."""
    if x.shape[1] < y.shape[1]:
        # The sample with smaller blocks is better in the place of y, and x < y is -y < -x.
        return _wins_grid(-y, -x, below=below, tie=tie).T
    n_cells, n_rows = len(x) * len(y), x.size + y.size
    if compiled := _numba.compiled(n_rows * (2e-7 + 7e-10 * n_cells**0.5)):
        narrow, wins, most = _counters(below * x.shape[1], y.shape[1], (len(y), len(x)))
        compiled.grid_wins(*_in_order(x, compiled), *_in_order(y, compiled), below, tie, narrow, wins, most)
        return (wins if len(wins) else narrow).T
    wins = _wins_in_order(x, y, x_first=True)
    if below == tie:
        return wins
    values = np.sort(np.concatenate([x.ravel(), y.ravel()]))
    tied = (values[1:] == values[:-1]).any()
    return tie * wins + (below - tie) * (_wins_in_order(x, y, x_first=False) if tied else wins)


def _wins_grids(x: Stack, y: Stack, *, below: int, tie: int) -> NDArray[np.integer[Any]]:
    """The same for every column, (columns, blocks, rows); the columns of small grids are counted in one go."""
    if x.shape[2] < y.shape[2]:
        return _wins_grids(-y, -x, below=below, tie=tie).swapaxes(1, 2)
    n_columns, n_cells, n_rows = len(x), x.shape[1] * y.shape[1], x[0].size + y[0].size
    compiled = _numba.compiled(n_columns * n_rows * (2e-7 + 7e-10 * n_cells**0.5))
    if compiled is None:
        return np.stack([_wins_grid(*column, below=below, tie=tie) for column in zip(x, y, strict=True)])
    narrow, wins, most = _counters(below * x.shape[2], y.shape[2], (y.shape[1], x.shape[1]), n_columns)
    flat = [z.reshape(n_columns, -1).astype(np.float64, copy=False) for z in (x, y)]
    x_order, y_order = (np.argsort(z, axis=1) for z in flat)
    compiled.grids_of_wins(flat[0], x_order, x.shape[2], flat[1], y_order, y.shape[2], below, tie, narrow, wins, most)
    return (wins if wins.size else narrow).swapaxes(1, 2)


def _counters(
    largest: int, times: int, cells: tuple[int, int], *columns: int
) -> tuple[NDArray[np.integer[Any]], NDArray[np.int64], int]:
    """Zeros of the smallest type with room for all additions of `largest`, or for a few; where these go; how many."""
    kinds = (np.uint8, times), (np.uint16, times), (np.uint16, _ADDITIONS), (np.uint32, _ADDITIONS)
    kind = next((kind for kind, enough in kinds if np.iinfo(kind).max >= enough * largest), np.int64)
    most = np.iinfo(kind).max // largest
    rows = cells[0] if most < times else 0
    return np.zeros((*columns, *cells), kind), np.zeros((*columns, rows, cells[1]), np.int64), most


def _in_order(z: Stack, compiled: Any) -> tuple[Values, NDArray[np.int32]]:
    """All values in order, and the block of each."""
    flat = z.astype(np.float64, copy=False).ravel()
    # Sorting is faster than finding the order: so sort the leading bits of the values, as integers in the same order,
    # with the number of the value in place of the others, and put right what these would have told apart.
    numbers = (1 << (len(flat) - 1).bit_length()) - 1
    order = compiled.leading_bits(flat, numbers)
    order.sort()
    values = compiled.settle(flat, order, numbers, len(flat))
    if len(values) < len(flat):
        order = np.argsort(flat)
        values = flat[order]
    return values, (order // z.shape[1]).astype(np.int32)


def _wins_in_order(x: Stack, y: Stack, *, x_first: bool) -> NDArray[np.int64]:
    """Count the pairs x < y for every two blocks, and the ties too if `x_first`.

    All values are put in order and cut into tiles. A y wins against the x of all tiles before its own, which is a
    product of two tables of counts by tile and block, and against the x before it in its tile.
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
    wins = np.zeros((n_x, n_y), dtype=np.int64)
    total = np.zeros((n_x, n_y), dtype=kind)
    seen = np.zeros(n_x, dtype=kind)
    with _numba.one_thread():
        for tiles in _batches(len(block), 4 * (n_x + n_y + 1)):
            part = block[tiles]
            cells = part + np.arange(len(part))[:, None] * (n_x + n_y + 1)
            counts = (
                np.bincount(cells.ravel(), minlength=len(part) * (n_x + n_y + 1)).reshape(len(part), -1).astype(kind)
            )
            x_counts, y_counts = counts[:, :n_x], counts[:, n_x : n_x + n_y]
            up_to = np.cumsum(x_counts, axis=0) + seen
            total += (up_to - x_counts).T @ y_counts
            seen = up_to[-1]
            is_x, is_y = part < n_x, (part >= n_x) & (part < n_x + n_y)
            for gap in range(1, side):
                pair = is_x[:, :-gap] & is_y[:, gap:]
                np.add.at(wins.reshape(-1), part[:, :-gap][pair] * n_y + part[:, gap:][pair] - n_x, 1)
    return wins + total.astype(np.int64)


def _concordance(x: Stack, y: Stack) -> NDArray[np.int64]:
    """Sum the signs of (x - x')(y - y') over the pairs of each block."""
    n_rows = x.shape[1]
    if compiled := _numba.compiled(x.size * (8e-8 + 8e-11 * min(n_rows, _RANKS_UP_TO))):
        if n_rows <= _COMPILED_PAIRS_UP_TO:
            return compiled.concordance_of_pairs(x, y)
        by_pairs = n_rows <= _COMPILED_RANKS_UP_TO
        room = np.empty(n_rows, dtype=np.int16 if by_pairs else np.int64)
        return compiled.concordance_by_rank(x, y, np.argsort(x, axis=1), np.argsort(y, axis=1), room, by_pairs)
    if n_rows <= _KENDALL_PAIRS_UP_TO:
        return _concordance_of_pairs(x, y)
    # Concordant - discordant = all pairs - tied in x - tied in y + tied in both - 2·discordant.
    y_ranks, order, tied_y = _ranks(y)
    y_rank = np.empty(y.shape, dtype=np.int64)
    y_rank.ravel()[order] = y_ranks
    x_ranks, order, tied_x = _ranks(x)
    y_rank = y_rank.ravel()[order]
    tied_both = np.zeros(len(x), dtype=np.int64)
    if tied_x.any():
        # In order of x, then of y.
        keys = x_ranks * n_rows + y_rank
        keys.sort(axis=1)
        tied_both = _tied_pairs(keys[:, 1:] != keys[:, :-1])
        y_rank = keys - x_ranks * n_rows
    inversions = _inversions_of_pairs(y_rank) if n_rows <= _RANKS_UP_TO else _inversions(y_rank)
    return _pairs(n_rows) - tied_x - tied_y + tied_both - 2 * inversions


def _concordance_of_pairs(x: Stack, y: Stack) -> NDArray[np.int64]:
    """Sum the signs of (x - x')(y - y') over the pairs of each block, all rows at the same distance at once."""
    n_rows = x.shape[1]
    totals = np.empty(len(x), dtype=np.int64)
    for batch in _batches(len(x), n_rows * _TILE // _STRETCH):
        rows = [np.ascontiguousarray(column[batch].T) for column in (x, y)]
        sums = np.zeros(rows[0].shape, dtype=np.int16)
        for gap in range(1, n_rows):
            signs = [_signs(column[gap:], column[:-gap]) for column in rows]
            sums[gap:] += signs[0] * signs[1]
        totals[batch] = sums.sum(axis=0, dtype=np.int64)
    return totals


def _signs(left: Values, right: Values) -> NDArray[np.int8]:
    """The signs of left - right; the difference itself could overflow."""
    return (left > right).view(np.int8) - (left < right).view(np.int8)


def _inversions_of_pairs(ranks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the pairs i < j with a larger rank at i in each row, all at the same distance at once."""
    n_rows = ranks.shape[1]
    totals = np.zeros(len(ranks), dtype=np.int64)
    for batch in _batches(len(ranks), n_rows * _TILE // _STRETCH):
        rows = np.ascontiguousarray(ranks[batch].T, dtype=np.int16)
        sums = np.zeros(rows.shape, dtype=np.uint8)
        for gap in range(1, n_rows):
            sums[gap:] += (rows[:-gap] > rows[gap:]).view(np.uint8)
            if gap % 255 == 0 or gap == n_rows - 1:  # what a counter of 8 bits holds
                totals[batch] += sums.sum(axis=0, dtype=np.int64)
                sums[:] = 0
    return totals


def _ranks(z: Stack) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[np.int64]]:
    """In order: ranks, equal for equal values, and places in the flattened stack; and the tied pairs of each row."""
    n_blocks, n_rows = z.shape
    order = np.argsort(z, axis=1)
    order += np.arange(n_blocks)[:, None] * n_rows
    values = z.ravel()[order]
    new = values[:, 1:] != values[:, :-1]
    if new.all():
        return np.broadcast_to(np.arange(n_rows), z.shape), order, np.zeros(n_blocks, dtype=np.int64)
    ranks = np.cumsum(np.pad(new, ((0, 0), (1, 0))), axis=1)
    return ranks, order, _tied_pairs(new)


def _tied_pairs(new: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count the pairs of equal items in each sorted row, given where a new value starts."""
    group = np.cumsum(np.pad(new, ((0, 0), (1, 0))), axis=1)
    group += np.arange(len(new))[:, None] * group.shape[1]
    sizes = np.bincount(group.ravel(), minlength=group.size).reshape(group.shape)
    tied: NDArray[np.int64] = (sizes * (sizes - 1) // 2).sum(axis=1)
    return tied


def _inversions(y: NDArray[Any]) -> NDArray[np.int64]:
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
