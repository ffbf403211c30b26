"""Count, mean and sum of squares of numbered cells, with updates by rows and merges of cells."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.data.arguments import is_whole
from outvote.data.text import count

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: The most numbers that a summary keeps: 2 GiB of them.
_MOST_NUMBERS = 2**28


#: Means that differ by less, beside their size, are equal.
_ROUNDING = 2.0**-45


class Moments:
    """Count, mean and sum of squares around the mean (M2) of numbered cells, for several columns (Chan's updates).

    Attributes
    ----------
    counts : ndarray of int, shape (cells,)
        Rows in each cell.
    means, m2 : ndarray, shape (cells, columns)
        The mean of these rows, and the sum of squares around it (infinite if it exceeds the largest float); 0 in cells
        without rows.
    """

    def __init__(self, n_cells: int, n_columns: int):
        self.counts: Integers = np.zeros(n_cells, dtype=np.int64)
        self.means: Floats = np.zeros((n_cells, n_columns))
        self.m2: Floats = np.zeros((n_cells, n_columns))

    def grow(self, n_cells: int) -> None:
        """Add empty cells, up to `n_cells`."""
        more = n_cells - len(self.counts)
        if more > 0:
            self.counts = np.concatenate([self.counts, np.zeros(more, dtype=np.int64)])
            self.means, self.m2 = (np.concatenate([a, np.zeros((more, a.shape[1]))]) for a in (self.means, self.m2))

    @property
    def arrays(self) -> tuple[Integers, Floats, Floats]:
        """Counts, means and sums of squares."""
        return self.counts, self.means, self.m2

    def take(self, cells: NDArray[Any]) -> Moments:
        """Return a copy of some cells."""
        taken = Moments(0, 0)
        taken.counts, taken.means, taken.m2 = self.counts[cells], self.means[cells], self.m2[cells]
        return taken

    def add(self, rows: NDArray[Any], cells: NDArray[Any]) -> None:
        """Add finite rows (2-D), each to its cell."""
        where: Any = slice(None)
        if len(rows) < len(self.counts) // 4:  # far more cells than rows: do not touch the other cells
            where, cells = np.unique(cells, return_inverse=True)
        new = Moments(len(self.counts[where]), rows.shape[1])
        ready = _numba.compiled(1e-8 * rows.size)
        with np.errstate(over="ignore", invalid="ignore"):
            if ready is not None:
                ready.add_moments(rows, cells, *new.arrays)
            else:
                new._fill(rows, cells)
            if not np.isfinite(new.means).all():  # a sum has overflowed, though a mean never does
                new._fill(rows, cells, scale=2.0 ** -len(rows).bit_length())
            if not np.isfinite(new.m2).all():  # the rounding of a large mean has, perhaps
                new._center(rows, cells)
        self.merge(new, where)

    def _center(self, rows: NDArray[Any], cells: NDArray[Any]) -> None:
        """Take sums of squares of the rows less one of their cell, where those less their mean are infinite."""
        base = np.zeros(self.m2.shape)
        base[cells] = rows
        centred = Moments(*self.m2.shape)
        centred._fill(rows - base[cells], cells)
        self.m2 = np.fmin(self.m2, centred.m2)

    def _fill(self, rows: NDArray[Any], cells: NDArray[Any], scale: float = 1.0) -> None:
        n_cells = len(self.counts)
        self.counts[:] = np.bincount(cells, minlength=n_cells)
        divisor = np.maximum(self.counts, 1)
        for j in range(rows.shape[1]):
            column = rows[:, j].astype(np.float64)
            if scale != 1:
                column *= scale
            means = np.bincount(cells, weights=column, minlength=n_cells) / divisor
            column -= means[cells]
            # The rounding error of the mean; for values far from 0 it would distort squares around merged means.
            rest = np.bincount(cells, weights=column, minlength=n_cells) / divisor
            column *= column
            squares = np.bincount(cells, weights=column, minlength=n_cells)
            shift = rest * rest * divisor
            self.means[:, j] = (means + rest) / scale
            self.m2[:, j] = np.maximum(squares - np.where(np.isfinite(shift), shift, 0.0), 0.0) / scale / scale

    def merge(self, other: Moments, where: Any = slice(None)) -> None:
        """Merge the cells of `other` into the cells with the same numbers, or into the cells `where`."""
        mine, means = self.counts[where][:, None], self.means[where]
        share = other.counts[:, None] / np.maximum(mine + other.counts[:, None], 1)
        with np.errstate(over="ignore", invalid="ignore"):
            delta = other.means - means
            moved = np.where(np.isfinite(delta), means + delta * share, means * (1 - share) + other.means * share)
            between = np.where(mine * share > 0, delta * delta * (mine * share), 0.0)
            rounding = np.isinf(between) & (np.abs(delta) <= _ROUNDING * np.abs(means))
            between = np.where(rounding, 0.0, between)
            self.m2[where] += other.m2 + between
        # An empty cell takes the other mean without rounding.
        self.means[where] = np.where(mine == 0, other.means, moved)
        self.counts[where] += other.counts


def check_room(n_blocks: Any, n_cells: int, n_columns: int = 1) -> None:
    """Refuse more cells than there is room for, with the number of blocks that works, before any memory is taken.

    Examples
    --------
    >>> check_room(401, 401 * 50_000)
    >>> check_room(10**8, 120 * 10**8)
    Traceback (most recent call last):
    ValueError: n_blocks=100000000 makes 12000000000 blocks of 1 column in 120 groups, but a summary holds at most \
89478485 of these, which take 2 GiB: use n_blocks=745654 or less
    """
    most = _MOST_NUMBERS // (1 + 2 * n_columns)
    if max(n_cells, 1) <= most:
        return
    n_groups = n_cells // n_blocks if is_whole(n_blocks) else 0
    nearest = most // n_groups if n_groups else 0
    raise ValueError(
        f"n_blocks{f'={n_blocks}' if n_groups else ''} makes {n_cells} blocks of {count(n_columns, 'column')}"
        f"{f' in {n_groups} groups' if n_groups > 1 else ''}, but a summary holds at most {most} of these, which take "
        f"2 GiB: use {f'n_blocks={nearest} or less' if nearest else 'fewer groups, blocks or columns'}"
    )
