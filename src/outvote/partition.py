"""Which row goes into which block: four ways to draw it, none of which looks at the values.

*uniform* draws uniformly among the balanced partitions (a permutation of the rows). *random* has
the same balance; for degree 1 on long inputs it is a one-pass *rotation* that never gathers rows.
*hash* gives row i the block ``hash(i, seed) mod K`` (sizes are multinomial), the one partition that
every engine can compute on its own. *contiguous* trusts the order of the rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

PartitionKind = Literal["random", "uniform", "hash", "contiguous"]
Remainder = Literal["drop", "spread"]
Rng = int | np.random.Generator | np.random.SeedSequence | None
Indices = NDArray[np.intp]

#: Values a rotation adds at once: the accumulator stays in the cache.
_GROUP = 32_768
#: A rotation with few groups is close to row mod K, and blind to periods in the rows.
_FEWEST_GROUPS = 64
#: A block that owns few places, over all deals, moves with its neighbours when the rows are in order: at least the
#: first number, the second where the totals then stay below so many values.
_PLACES = (16, 64)
_TOTALS = 2**19
#: Deals share the groups where a group has few places; more of them would cost more than the sums.
_MOST_DEALS = 4
#: Below this many values a permutation is cheap enough.
_ROTATION_FROM = 2**20
#: Modulus of the row hash: products of two residues fit in 64 bits on every engine.
_PRIME = 2**31 - 1


def seed_of(rng: Rng) -> int:
    """Return one integer from which the same partition can be drawn again."""
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool):
        if rng < 0:
            raise ValueError(f"rng={rng!r} is negative: a seed is an integer of at least 0")
        return int(rng)
    if rng is None or isinstance(rng, (np.random.Generator, np.random.SeedSequence)):
        return int(np.random.default_rng(rng).integers(2**63))
    raise TypeError(f"rng={rng!r} must be an integer seed, a numpy Generator, or None")


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

    @property
    def labels(self) -> Indices:
        """The block of each row, -1 for a row left out."""
        labels: Indices = np.full(self.n_rows, -1)
        blocks = np.repeat(np.arange(len(self)), self.sizes)
        labels[slice(len(blocks)) if self.order is None else self.order[: len(blocks)]] = blocks
        return labels

    def stack(self, x: NDArray[Any], blocks: Indices) -> NDArray[Any]:
        """Return the rows of some blocks of one size as an array of shape (blocks, size, …)."""
        size = int(self.sizes[blocks[0]])
        if np.array_equal(blocks, np.arange(len(self))):
            used = x[: size * len(self)] if self.order is None else x[self.order[: size * len(self)]]
            return used.reshape(len(self), size, *x.shape[1:])
        rows = self._starts[blocks][:, None] + np.arange(size)
        return x[rows if self.order is None else self.order[rows]]

    def sums(self, x: NDArray[Any], scale: float = 1.0) -> NDArray[np.float64]:
        """Sum the rows of each block, times `scale`, in float64."""
        sums = np.empty((len(self), *x.shape[1:]))
        for blocks in blocks_by_size([self]):
            rows = self.stack(x, blocks)
            scaled = rows if scale == 1.0 else rows * scale
            sums[blocks] = np.add.reduce(scaled, axis=1, dtype=np.float64)
        return sums

    def keep(self, blocks: Indices) -> Partition:
        """Return the partition with these blocks alone; the rows of the others are left out."""
        new_label = np.full(len(self) + 1, -1)
        new_label[blocks] = np.arange(len(blocks))
        return _from_labels(new_label[self.labels], len(blocks))


class Rotation(Partition):
    """Groups of consecutive rows, each dealt to the blocks by one of a few deals, turned by its own random offset.

    Row j of a group goes to place (j + offset) mod G, and a block owns G/K places of each deal, drawn at random: sums
    take one pass and no gather of rows, and a period in the rows meets no period in the blocks. Every block takes as
    many rows of a group as any other: right for sums, wrong for pairs. The deals are the powers of one random
    permutation P: in deal m, block k owns the places P^{m+1}(i) for i from k·G/K on.
    """

    def __init__(self, n_rows: int, n_blocks: int, columns: int, remainder: Remainder, rng: np.random.Generator):
        self._block_size = n_rows // n_blocks
        wanted = _wanted_places(n_blocks, columns)
        places = max(1, min(wanted, n_rows // (n_blocks * _FEWEST_GROUPS)))
        self._group = n_blocks * places
        self._start = int(rng.integers(n_rows))
        used = self._block_size * n_blocks
        self._offsets = rng.integers(self._group, size=used // self._group)
        self._n_deals = min(_MOST_DEALS, -(-min(wanted, _PLACES[1]) // places))
        self._deals = rng.integers(self._n_deals, size=len(self._offsets))
        self._permutation = rng.permutation(self._group)
        # The rows that make no whole group have a deal of their own.
        self._last_places = rng.permutation(used % self._group)
        rest = (self._start + np.arange(used, n_rows)) % n_rows
        sizes = np.full(n_blocks, self._block_size)
        self._extra_rows = self._extra_blocks = rest[:0]
        if remainder == "spread":
            self._extra_rows, rest = rest, rest[:0]
            self._extra_blocks = rng.choice(n_blocks, size=len(self._extra_rows), replace=False)
            sizes[self._extra_blocks] += 1
        super().__init__(n_rows, sizes, rest, None)

    @staticmethod
    def allowed(n_rows: int, n_blocks: int, columns: int) -> bool:
        """Whether there are rows enough for a rotation to pay, and groups enough for it to be random."""
        return n_rows * columns >= _ROTATION_FROM and n_rows // n_blocks >= _FEWEST_GROUPS

    @property
    def labels(self) -> Indices:
        """The block of each row, -1 for a row left out."""
        owners = np.empty((self._n_deals, self._group), dtype=np.intp)
        owned = np.arange(self._group)
        for deal in range(self._n_deals):
            owned = self._permutation[owned]
            owners[deal, owned] = np.repeat(np.arange(len(self)), self._group // len(self))
        places = (np.arange(self._group) + self._offsets[:, None]) % self._group
        last = np.empty_like(self._last_places)
        last[self._last_places] = np.repeat(np.arange(len(self)), len(last) // len(self))
        dealt = np.concatenate([owners[self._deals[:, None], places].ravel(), last])
        labels = np.full(self.n_rows, -1)
        labels[(self._start + np.arange(len(dealt))) % self.n_rows] = dealt
        labels[self._extra_rows] = self._extra_blocks
        return labels

    @cached_property
    def _gathered(self) -> Partition:
        return _from_labels(self.labels, len(self))

    def __getitem__(self, k: Any) -> Any:
        return self._gathered[k]

    def stack(self, x: NDArray[Any], blocks: Indices) -> NDArray[Any]:
        """Return the rows of some blocks of one size, gathered."""
        return self._gathered.stack(x, blocks)

    def _add_groups(self, x: NDArray[Any], groups: Indices, scale: float, totals: NDArray[np.float64]) -> None:
        """Add groups of rows, turned by their offsets, to the totals: a stretch of places at a time, all groups to it,
        so that the totals in use stay in the cache.
        """
        starts = (self._start + groups * self._group) % self.n_rows
        turned = [
            (_cyclic(x, int(start), self._group), int(offset))
            for start, offset in zip(starts, self._offsets[groups], strict=True)
        ]
        stretch = max(1, _GROUP // math.prod(x.shape[1:]))
        for low in range(0, self._group, stretch):
            part = totals[low : low + stretch]
            for rows, offset in turned:
                first = (low - offset) % self._group
                head = min(len(part), self._group - first)
                part[:head] += rows[first : first + head] * scale if scale != 1.0 else rows[first : first + head]
                if head < len(part):
                    tail = rows[: len(part) - head]
                    part[head:] += tail * scale if scale != 1.0 else tail

    def sums(self, x: NDArray[Any], scale: float = 1.0) -> NDArray[np.float64]:
        """Sum the rows of each block, times `scale`, in float64, in one pass over `x`."""
        # Σ_m total_m at P^{m+1}(i), innermost deal first.
        dealt = np.zeros((self._group, *x.shape[1:]))
        for deal in reversed(range(self._n_deals)):
            self._add_groups(x, np.flatnonzero(self._deals == deal), scale, dealt)
            dealt = dealt[self._permutation]
        sums: NDArray[np.float64] = dealt.reshape(len(self), -1, *x.shape[1:]).sum(axis=1)
        start = (self._start + len(self._offsets) * self._group) % self.n_rows
        last = _cyclic(x, start, len(self._last_places)) * scale
        sums += last[self._last_places].reshape(len(self), -1, *x.shape[1:]).sum(axis=1, dtype=np.float64)
        sums[self._extra_blocks] += x[self._extra_rows] * scale
        return sums


def draw(
    kind: PartitionKind,
    n_rows: int,
    n_blocks: int,
    seed: int,
    *,
    stream: int = 0,
    remainder: Remainder = "drop",
    rotate: bool = False,
    columns: int = 1,
) -> Partition:
    """Draw a partition of `n_rows` rows into `n_blocks` blocks.

    `stream` tells the samples of one statistic apart, so that they are dealt independently.
    `rotate` permits the one-pass rotation for ``kind="random"``: for statistics of degree 1 only.
    """
    check_kind(kind, remainder)
    if kind == "hash":
        return _from_labels(hash_rows(np.arange(n_rows), seed, stream) % n_blocks, n_blocks)
    rng = np.random.default_rng([stream, seed])
    if kind == "random" and rotate and Rotation.allowed(n_rows, n_blocks, columns):
        return Rotation(n_rows, n_blocks, columns, remainder, rng)
    sizes = np.full(n_blocks, n_rows // n_blocks)
    order = None if kind == "contiguous" else rng.permutation(n_rows)
    used = n_rows
    if remainder == "spread":
        sizes[: n_rows % n_blocks] += 1
    else:
        used -= n_rows % n_blocks
    left_out = np.arange(used, n_rows) if order is None else order[used:]
    return Partition(n_rows, sizes, left_out, order)


def blocks_by_size(partitions: Sequence[Partition]) -> Iterator[Indices]:
    """Yield the block numbers, those of the same size in every partition together."""
    sizes = np.stack([partition.sizes for partition in partitions])
    if np.all(sizes == sizes[:, :1]):
        yield np.arange(sizes.shape[1])
        return
    _, group = np.unique(sizes, axis=1, return_inverse=True)
    order = np.argsort(group.ravel(), kind="stable")
    yield from np.split(order, np.cumsum(np.bincount(group.ravel()))[:-1])


def check_kind(kind: str, remainder: str = "drop") -> None:
    """Refuse an unknown partition or remainder."""
    if kind not in get_args(PartitionKind):
        raise ValueError(f"partition={kind!r} is not one of {', '.join(map(repr, get_args(PartitionKind)))}")
    if remainder not in get_args(Remainder):
        raise ValueError(f"remainder={remainder!r} is neither 'drop' nor 'spread'")


def hash_rows(ids: NDArray[Any], seed: int, stream: int = 0) -> NDArray[np.int64]:
    """Hash row numbers to [0, 2³¹ - 1) with nothing but sums, products and remainders of 64-bit integers.

    With P = 2³¹ - 1 and six numbers a, b, c₁ … c₄ below P made from the seed, a row i gives
    u = (a·(i mod P) + b·(i div P)) mod P, and the hash is the polynomial u⁴ + c₁u³ + c₂u² + c₃u + c₄ mod P. Any
    engine can compute it without overflow.

    Examples
    --------
    >>> hash_rows(np.arange(3), seed=0).tolist() == hash_rows(np.arange(5), seed=0)[:3].tolist()
    True
    """
    a, b, *rest = hash_coefficients(seed, stream)
    ids = np.asarray(ids, dtype=np.int64)
    u = (a * (ids % _PRIME) % _PRIME + b * (ids // _PRIME % _PRIME) % _PRIME) % _PRIME
    value: NDArray[np.int64] = u
    for c in rest[:3]:
        value = (value + c) * u % _PRIME
    return (value + rest[3]) % _PRIME


def hash_coefficients(seed: int, stream: int = 0) -> tuple[int, ...]:
    """Six numbers in [1, 2³¹ - 1), from the SHA-256 digests of ``"outvote:seed:stream:i"``: the same everywhere."""
    digests = (hashlib.sha256(f"outvote:{seed}:{stream}:{i}".encode()).digest() for i in range(6))
    return tuple(1 + int.from_bytes(digest[:8], "big") % (_PRIME - 1) for digest in digests)


def _from_labels(labels: NDArray[Any], n_blocks: int) -> Partition:
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels[labels >= 0], minlength=n_blocks)
    n_left = len(labels) - int(sizes.sum())
    return Partition(len(labels), sizes, order[:n_left], order[n_left:])


def _cyclic(x: NDArray[Any], start: int, length: int) -> NDArray[Any]:
    """Rows start, start + 1, … of `x`, going on from the top after the last one."""
    if start + length <= len(x):
        return x[start : start + length]
    return np.concatenate([x[start:], x[: start + length - len(x)]])


def _wanted_places(n_blocks: int, columns: int) -> int:
    """How many places a block should own, over all deals: many, as long as the totals stay near the processor."""
    few, many = _PLACES
    return max(_GROUP // (n_blocks * columns), min(many, max(few, _TOTALS // (n_blocks * columns))))
