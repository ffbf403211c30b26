"""Rows dealt into blocks: which row is where, and what the rows of each block add up to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.data.tensors import rows_of

Indices = NDArray[np.intp]

#: Rows of so many numbers are read as fast in any order.
_LONG = 512
#: Rows of this many values are added where they are, not gathered.
WIDE = 65
#: Numbers that a product adds up faster than a sum does.
_SHORT = 40
#: Values gathered at once to be added up: few enough to stay in the cache.
_GATHERED = 2**16


@dataclass(frozen=True, eq=False)
class Partition(Sequence[Indices]):
    """Rows dealt into blocks: a sequence whose k-th item holds the row numbers of block k.

    Attributes
    ----------
    sizes : ndarray of int
        Rows in each block.
    left_out : ndarray of int
        Rows in no block.
    order : ndarray of int or None
        Row numbers, block after block; None when the rows stay in place.
    """

    n_rows: int
    sizes: Indices
    left_out: Indices
    order: Indices | None

    def __len__(self) -> int:
        return len(self.sizes)

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return [self[i] for i in range(*k.indices(len(self)))]
        k = range(len(self))[k]
        rows = np.arange(self._starts[k], self._starts[k + 1])
        return rows if self.order is None else self.order[rows]

    @cached_property
    def _starts(self) -> Indices:
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @cached_property
    def one_size(self) -> bool:
        """Whether all blocks have as many rows."""
        return bool(self.sizes[0] == self.sizes[-1] and (self.sizes == self.sizes[0]).all())

    @property
    def labels(self) -> Indices:
        """The block of each row, -1 for a row left out."""
        labels: Indices = np.full(self.n_rows, -1)
        blocks = np.repeat(np.arange(len(self)), self.sizes)
        labels[slice(len(blocks)) if self.order is None else self.order[: len(blocks)]] = blocks
        return labels

    def stack(self, x: NDArray[Any], blocks: Indices) -> NDArray[Any]:
        """Return the rows of some blocks of one size as an array of shape (blocks, size, …)."""
        first, size = int(blocks[0]), int(self.sizes[blocks[0]])
        if int(blocks[-1]) - first + 1 == len(blocks):  # neighbours: their rows follow one another
            start = first * size if self.one_size else int(self._starts[first])
            rows: Any = slice(start, start + size * len(blocks))
        else:
            rows = (self._starts[blocks][:, None] + np.arange(size)).reshape(-1)
        taken = x[rows if self.order is None else self.order[rows]]
        return taken.reshape(len(blocks), size, *x.shape[1:])

    def rest(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the rows in no block."""
        return x[len(x) - len(self.left_out) :] if self.order is None else rows_of(x, self.left_out)

    def sums(self, x: NDArray[Any], scale: float = 1.0) -> NDArray[np.float64]:
        """Sum the rows of each block, times `scale`, in float64; few rows are gathered at a time."""
        if self.order is None and self.one_size and scale == 1.0:
            return _added(x[: len(self) * int(self.sizes[0])].reshape(len(self), -1, *x.shape[1:]))
        width = math.prod(x.shape[1:])
        if self.order is not None and scale == 1.0 and width >= WIDE and x.flags.c_contiguous and x.dtype.isnative:
            ready = _numba.compiled(2e-9 * x.size)
            if ready is not None:
                return self._sums_of_wide_rows(ready, x.reshape(len(x), width)).reshape(-1, *x.shape[1:])
        sums = np.empty((len(self), *x.shape[1:]))
        for blocks in blocks_by_size([self]):
            step = max(1, _GATHERED // (int(self.sizes[blocks[0]]) * width))
            for low in range(0, len(blocks), step):
                part = blocks[low : low + step]
                rows = self.stack(x, part)
                scaled = rows if scale == 1.0 else rows * scale
                sums[part] = _added(scaled)
        return sums

    def _sums_of_wide_rows(self, ready: ModuleType, x: NDArray[Any]) -> NDArray[np.float64]:
        """Add up the rows of each block, or each row to its block; in parts, so that rounding errors stay small."""
        assert self.order is not None
        if x.shape[1] >= _LONG:
            sums = np.zeros((len(self), x.shape[1]))
            ready.add_blocks(x, self.order, self._starts, sums)
            return sums
        sums, part = np.zeros((len(self), x.shape[1])), np.empty((len(self), x.shape[1]))
        labels, step = self.labels, 256 * len(self)
        for low in range(0, len(x), step):
            part[:] = 0.0
            ready.add_rows(x[low : low + step], labels[low : low + step], part)
            sums += part
        return sums

    def repeated(self, times: int) -> Partition:
        """Return the same blocks again for each of so many columns that follow one another in memory."""
        n_used = int(self._starts[-1])
        order = np.arange(n_used) if self.order is None else self.order[:n_used]
        starts = self.n_rows * np.arange(times)[:, None]
        return Partition(
            times * self.n_rows,
            np.tile(self.sizes, times),
            (self.left_out + starts).reshape(-1),
            (order + starts).reshape(-1),
        )

    def keep(self, blocks: Indices) -> Partition:
        """Return the partition with these blocks alone; the rows of the others are left out."""
        new_label = np.full(len(self) + 1, -1)
        new_label[blocks] = np.arange(len(blocks))
        return from_labels(new_label[self.labels], len(blocks))


def _added(stack: NDArray[Any]) -> NDArray[np.float64]:
    """Sum over the second axis, in float64; short sums are faster as a product."""
    if stack.ndim == 2 and stack.dtype == np.float64 and stack.shape[1] <= _SHORT:
        return stack @ _ones(stack.shape[1])
    return np.add.reduce(stack, axis=1, dtype=np.float64)


@cache
def _ones(size: int) -> NDArray[np.float64]:
    return np.ones(size)


def blocks_by_size(partitions: Sequence[Partition]) -> Iterator[Indices]:
    """Yield the block numbers, those of the same size in every partition together."""
    if all(partition.one_size for partition in partitions):
        yield np.arange(len(partitions[0]))
        return
    sizes = np.stack([partition.sizes for partition in partitions])
    _, group = np.unique(sizes, axis=1, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1])


def from_labels(labels: NDArray[Any], n_blocks: int) -> Partition:
    """Partition by the block of each row, -1 for a row left out."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels[labels >= 0], minlength=n_blocks)
    n_left = len(labels) - int(sizes.sum())
    return Partition(len(labels), sizes, order[:n_left], order[n_left:])
