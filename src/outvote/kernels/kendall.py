"""Kendall's tau-a: the mean sign of (x - x')(y - y')."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.kernels.dominance import concordances
from outvote.kernels.kernel import Kernel, torch_function
from outvote.kernels.stacks import Counts, Stack, Values, batches, n_pairs

#: Numbers compared at once: they fit into the cache.
_NUMBERS_AT_ONCE = 2**15
#: Blocks of up to so many rows compare all pairs of rows, which is faster than sorting them: in numpy, and compiled.
_PAIRS_UP_TO = 48
_COMPILED_PAIRS_UP_TO = 192
#: Blocks of up to so many rows compare all pairs of ranks, which is faster than a merge sort: in numpy, and compiled.
_RANKS_UP_TO = 3000
_COMPILED_RANKS_UP_TO = 4096


def kendall(z: Stack) -> Values:
    """Compute Kendall's tau-a of the two columns of each block."""
    x, y = (z[..., column].astype(np.float64, order="C") for column in (0, 1))
    return _concordance(x, y) / n_pairs(z.shape[1])


def _concordance(x: Stack, y: Stack) -> Counts:
    """Sum the signs of (x - x')(y - y') over the pairs of each block."""
    n_rows = x.shape[1]
    if compiled := _numba.compiled(x.size * (8e-8 + 8e-11 * min(n_rows, _RANKS_UP_TO))):
        if n_rows <= _COMPILED_PAIRS_UP_TO:
            return compiled.concordance_of_pairs(x, y)
        by_pairs = n_rows <= _COMPILED_RANKS_UP_TO
        room = np.empty(n_rows, dtype=np.int16 if by_pairs else np.int64)
        return compiled.concordance_by_rank(x, y, np.argsort(x, axis=1), np.argsort(y, axis=1), room, by_pairs)
    if n_rows <= _PAIRS_UP_TO:
        return _concordance_of_pairs(x, y)
    # Concordant - discordant = all pairs - tied in x - tied in y + tied in both - 2·discordant.
    y_ranks, order, tied_y = _ranks(y)
    y_rank = np.empty(y.shape, dtype=np.int64)
    y_rank.ravel()[order] = y_ranks
    x_ranks, order, tied_x = _ranks(x)
    y_rank = y_rank.ravel()[order]
    tied_both = np.zeros(len(x), dtype=np.int64)
    if tied_x.any():
        # Rows in the order of x, and of y among equal x.
        keys = x_ranks * n_rows + y_rank
        keys.sort(axis=1)
        tied_both = _tied_pairs(keys[:, 1:] != keys[:, :-1])
        y_rank = keys - x_ranks * n_rows
    inversions = _inversions_of_pairs(y_rank) if n_rows <= _RANKS_UP_TO else _inversions_by_merging(y_rank)
    return n_pairs(n_rows) - tied_x - tied_y + tied_both - 2 * inversions


def _concordance_of_pairs(x: Stack, y: Stack) -> Counts:
    """Sum the signs of (x - x')(y - y') over the pairs of each block; all pairs at the same distance at once."""
    n_rows = x.shape[1]
    totals = np.empty(len(x), dtype=np.int64)
    for batch in batches(len(x), n_rows, _NUMBERS_AT_ONCE):
        rows = [np.ascontiguousarray(column[batch].T) for column in (x, y)]
        sums = np.zeros(rows[0].shape, dtype=np.int16)
        for gap in range(1, n_rows):
            signs = [_signs(column[gap:], column[:-gap]) for column in rows]
            sums[gap:] += signs[0] * signs[1]
        totals[batch] = sums.sum(axis=0, dtype=np.int64)
    return totals


def _signs(left: Values, right: Values) -> NDArray[np.int8]:
    """Return the signs of left - right, without the difference, which could overflow."""
    return (left > right).view(np.int8) - (left < right).view(np.int8)


def _ranks(z: Stack) -> tuple[Counts, NDArray[np.intp], Counts]:
    """Sort each block: return ranks (equal values share one), places in the flattened stack, and numbers of ties."""
    n_blocks, n_rows = z.shape
    order = np.argsort(z, axis=1)
    order += np.arange(n_blocks)[:, None] * n_rows
    values = z.ravel()[order]
    new = values[:, 1:] != values[:, :-1]
    if new.all():
        return np.broadcast_to(np.arange(n_rows), z.shape), order, np.zeros(n_blocks, dtype=np.int64)
    ranks = np.cumsum(np.pad(new, ((0, 0), (1, 0))), axis=1)
    return ranks, order, _tied_pairs(new)


def _tied_pairs(new: NDArray[np.bool_]) -> Counts:
    """Count the pairs of equal items in each sorted row, given where a new value starts."""
    group = np.cumsum(np.pad(new, ((0, 0), (1, 0))), axis=1)
    group += np.arange(len(new))[:, None] * group.shape[1]
    sizes = np.bincount(group.ravel(), minlength=group.size).reshape(group.shape)
    tied: Counts = (sizes * (sizes - 1) // 2).sum(axis=1)
    return tied


def _inversions_of_pairs(ranks: Counts) -> Counts:
    """Count the pairs i < j with a larger rank at i in each row; all pairs at the same distance at once."""
    n_rows = ranks.shape[1]
    totals = np.zeros(len(ranks), dtype=np.int64)
    for batch in batches(len(ranks), n_rows, _NUMBERS_AT_ONCE):
        rows = np.ascontiguousarray(ranks[batch].T, dtype=np.int16)
        sums = np.zeros(rows.shape, dtype=np.uint8)
        for gap in range(1, n_rows):
            sums[gap:] += (rows[:-gap] > rows[gap:]).view(np.uint8)
            if gap % 255 == 0 or gap == n_rows - 1:  # a counter of 8 bits holds no more
                totals[batch] += sums.sum(axis=0, dtype=np.int64)
                sums[:] = 0
    return totals


def _inversions_by_merging(y: NDArray[Any]) -> Counts:
    """Count the pairs i < j with y_i > y_j in each row by a merge sort of all rows at once."""
    n_rows = y.shape[1]
    width = 1 << (n_rows - 1).bit_length()
    # Equal items are ranked by position, so that they are not counted as inversions.
    ranks = np.empty(y.shape, dtype=np.int64)
    np.put_along_axis(ranks, np.argsort(y, axis=1, kind="stable"), np.broadcast_to(np.arange(n_rows), y.shape), axis=1)
    runs = np.concatenate([ranks, np.broadcast_to(np.arange(n_rows, width), (len(y), width - n_rows))], axis=1)
    total = np.zeros(len(y), dtype=np.int64)
    half = 1
    while half < width:
        runs = runs.reshape(len(y), -1, 2 * half)
        order = np.argsort(runs, axis=2, kind="stable")
        from_right = order >= half
        # A left item is larger than each right item that now stands before it.
        jumped = np.cumsum(from_right, axis=2) * ~from_right
        total += jumped.sum(axis=(1, 2))
        runs = np.take_along_axis(runs, order, axis=2)
        half *= 2
    return total


KENDALL = Kernel(
    lambda z, w: np.sign(z[..., 0] - w[..., 0]) * np.sign(z[..., 1] - w[..., 1]),
    degrees=(2,),
    bounds=(-1.0, 1.0),
    vectorized=True,
    name="kendall",
    columns=2,
    aligned_form=kendall,
    tensor_form=torch_function("kendall"),
    row_sums_form=lambda z: [concordances(z[:, 0], z[:, 1]).astype(np.float64)],
)
