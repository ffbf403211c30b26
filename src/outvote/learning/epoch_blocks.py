"""Random blocks of rows, drawn again for every epoch of a descent."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from outvote.learning.arrays import Array

#: Up to this many rows a new permutation in every epoch costs next to nothing.
FEW_ROWS = 2**14
#: More rows are permuted once in this many epochs and rotated in between.
PERMUTE_EVERY = 16
#: Number of stretches of a long permutation; each is rotated by its own offset.
_STRETCHES = 256


@dataclass(frozen=True)
class EpochBlocks:
    """The blocks of one epoch: a table of row numbers whose lines are rotated, each by its own offset.

    Every line of the table has one row for each block, so that rotating it moves its rows to other blocks.

    Attributes
    ----------
    order : ndarray of shape (B, K)
        Row numbers. Once the lines are rotated, column k is block k.
    shifts : ndarray of shape (B,), optional
        Offset of each line, from 0 to K - 1. None rotates nothing.

    Examples
    --------
    >>> blocks = EpochBlocks(np.arange(6).reshape(2, 3), shifts=np.array([0, 1]))
    >>> blocks.rows().tolist(), blocks.rows(np.array([2])).tolist()
    ([[0, 1, 2], [4, 5, 3]], [[2], [3]])
    """

    order: Array
    shifts: Array | None = None
    _kept: dict[str, Array] = field(default_factory=dict, repr=False)

    @property
    def offsets(self) -> Array:
        """The offset of each line, 0 where nothing is rotated."""
        return np.zeros(len(self.order), dtype=np.int64) if self.shifts is None else self.shifts

    def rows(self, blocks: Array | None = None) -> Array:
        """Return the row numbers of some blocks (by default all), one column for each block."""
        if blocks is None:
            return self.rotated(self.order)
        if self.shifts is None:
            return self.order[:, blocks]
        return self.order[np.arange(len(self.order))[:, None], (blocks + self.shifts[:, None]) % self.order.shape[1]]

    def ordered(self, targets: Array) -> Array:
        """Return the targets in the order of the table, not rotated; they are kept until the next permutation."""
        if self._kept.get("targets") is not targets:
            self._kept.update(targets=targets, ordered=targets[self.order])
        return self._kept["ordered"]

    def rotated(self, values: Array) -> Array:
        """Rotate the lines of a table like `order`: column k of the result belongs to block k."""
        if self.shifts is None:
            return values
        size, n_blocks = values.shape
        found = np.empty_like(values)
        for low, high in pairwise([0, *np.flatnonzero(np.diff(self.shifts)) + 1, size]):
            offset = self.shifts[low]
            found[low:high, : n_blocks - offset] = values[low:high, offset:]
            found[low:high, n_blocks - offset :] = values[low:high, :offset]
        return found


class BlockShuffler:
    """Draws K blocks of B = ⌊n/K⌋ rows for every epoch, without looking at the values.

    Up to `FEW_ROWS` rows are permuted in every epoch. More rows are permuted in every `PERMUTE_EVERY`-th epoch. In
    between, stretches of the permutation, a multiple of K rows long, are rotated by random offsets. That copies
    nothing, and any two rows of different stretches can still meet in a block.

    With groups, the rows are sorted by group, in random order of the groups and of the rows inside each, and then cut
    into blocks: most pairs of a block lie inside a group.
    """

    def __init__(self, rows: Array, n_blocks: int, groups: Array | None = None):
        self.rows, self.n_blocks, self.groups = rows, n_blocks, groups
        self.size = len(rows) // n_blocks
        self.forget()

    def forget(self) -> None:
        """Free the memory of the last permutation; the next draw makes a new one."""
        self._last, self._age = EpochBlocks(self.rows[:, None]), 0

    def draw(self, rng: np.random.Generator) -> EpochBlocks:
        """Draw the blocks of the next epoch."""
        used = self.size * self.n_blocks
        if self.groups is not None:
            shuffled = rng.random(int(self.groups.max()) + 1)[self.groups]
            order = np.lexsort((rng.random(len(self.rows)), shuffled))
            start = int(rng.integers(len(self.rows) - used + 1))
            return EpochBlocks(self.rows[order[start : start + used]].reshape(self.n_blocks, self.size).T)
        if self.n_blocks == 1:
            return self._last
        if len(self.rows) <= FEW_ROWS or self._age % PERMUTE_EVERY == 0:
            self._last = EpochBlocks(self.rows[:, None])  # frees the last permutation before the next is made
            self._last = EpochBlocks(rng.permutation(self.rows)[:used].reshape(self.size, self.n_blocks))
        else:
            per = max(1, self.size // _STRETCHES)
            shifts = np.repeat(rng.integers(self.n_blocks, size=-(-self.size // per)), per)[: self.size]
            self._last = replace(self._last, shifts=shifts)
        self._age += 1
        return self._last


def narrow(rows: Array) -> Array:
    """Return row numbers as 32-bit integers, half the memory, where they fit."""
    return rows.astype(np.int32, copy=False) if rows.size == 0 or rows.max() < 2**31 else rows
