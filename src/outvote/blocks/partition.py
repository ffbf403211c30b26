"""Which row goes into which block. No partition looks at the values.

*random* and *uniform* draw uniformly among the balanced partitions. *hash* puts row i into block
``hash(i, seed) mod K``, so that block sizes are multinomial and every engine can compute it on its own. *contiguous*
trusts the order of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.hashing import hash_rows
from outvote.data.tensors import rows_of

PartitionKind = Literal["random", "uniform", "hash", "contiguous"]
Remainder = Literal["drop", "spread"]
Rng = int | np.random.Generator | np.random.SeedSequence | None
Indices = NDArray[np.intp]

#: From this many rows on, sorting random keys is faster than swapping rows all over the memory.
_SORT_FROM = 2**21
#: Sums of up to this many numbers are faster as a matrix product.
_SHORT = 40
#: Values gathered at once before they are summed: few enough to stay in the cache.
_GATHERED = 2**16


@dataclass(frozen=True, eq=False)
class Partition(Sequence[Indices]):
    """Rows in blocks: a sequence whose k-th item holds the row numbers of block k.

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
        if int(blocks[-1]) - first + 1 == len(blocks):  # neighbouring blocks: their rows follow one another
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
            return _summed(x[: len(self) * int(self.sizes[0])].reshape(len(self), -1, *x.shape[1:]))
        width = math.prod(x.shape[1:])
        sums = np.empty((len(self), *x.shape[1:]))
        for blocks in blocks_by_size([self]):
            step = max(1, _GATHERED // (int(self.sizes[blocks[0]]) * width))
            for low in range(0, len(blocks), step):
                part = blocks[low : low + step]
                rows = self.stack(x, part)
                sums[part] = _summed(rows if scale == 1.0 else rows * scale)
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


def draw(
    kind: PartitionKind, n_rows: int, n_blocks: int, seed: int, *, stream: int = 0, remainder: Remainder = "drop"
) -> Partition:
    """Draw a partition of `n_rows` rows into `n_blocks` blocks; samples of one statistic have different streams."""
    if kind == "hash":
        return from_labels(hash_rows(np.arange(n_rows), seed, stream) % n_blocks, n_blocks)
    order = None if kind == "contiguous" else permutation(np.random.default_rng([stream, seed]), n_rows)
    sizes, used = np.full(n_blocks, n_rows // n_blocks), n_rows
    if remainder == "spread":
        sizes[: n_rows % n_blocks] += 1
    else:
        used -= n_rows % n_blocks
    left_out = np.arange(used, n_rows) if order is None else order[used:]
    return Partition(n_rows, sizes, left_out, order)


def from_labels(labels: NDArray[Any], n_blocks: int) -> Partition:
    """Return the partition that gives each row the block in `labels`, -1 for a row left out."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels[labels >= 0], minlength=n_blocks)
    n_left = len(labels) - int(sizes.sum())
    return Partition(len(labels), sizes, order[:n_left], order[n_left:])


def permutation(rng: np.random.Generator, n_rows: int) -> Indices:
    """Draw a permutation of the rows; for many rows by sorting random keys that end in the row's number."""
    if n_rows < _SORT_FROM:
        return rng.permutation(n_rows)
    last_bits = np.uint64(2 ** (n_rows - 1).bit_length() - 1)
    keys = rng.integers(0, 2**64, size=n_rows, dtype=np.uint64)
    keys &= ~last_bits
    keys |= np.arange(n_rows, dtype=np.uint64)
    keys.sort()
    keys &= last_bits
    return keys.astype(np.intp, copy=False)


def blocks_by_size(partitions: Sequence[Partition]) -> Iterator[Indices]:
    """Yield the block numbers, those of the same size in every partition together."""
    if all(partition.one_size for partition in partitions):
        yield np.arange(len(partitions[0]))
        return
    sizes = np.stack([partition.sizes for partition in partitions])
    _, group = np.unique(sizes, axis=1, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1])


def seed_of(rng: Rng) -> int:
    """Return one integer from which the same partition can be drawn again."""
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool):
        if rng < 0:
            raise ValueError(f"rng={rng!r} is negative: a seed is an integer of at least 0")
        return int(rng)
    if rng is None or isinstance(rng, (np.random.Generator, np.random.SeedSequence)):
        return int(np.random.default_rng(rng).integers(2**63))
    raise TypeError(f"rng={rng!r} must be an integer seed, a numpy Generator, or None")


def _summed(stack: NDArray[Any]) -> NDArray[np.float64]:
    """Sum over the second axis, in float64."""
    if stack.ndim == 2 and stack.dtype == np.float64 and stack.shape[1] <= _SHORT:
        return stack @ np.ones(stack.shape[1])
    return np.add.reduce(stack, axis=1, dtype=np.float64)
