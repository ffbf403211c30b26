"""Partitions that add up blocks in one pass over the rows, for statistics of degree 1 on long inputs.

*Segments* deals short segments of rows; *Drawn* draws a block for every row. Neither looks at the values, both give
every block as many rows, and both add numbers in the same order with numba and without.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.blocks.dealt import WIDE, Indices, Partition, from_labels
from outvote.data.tensors import rows_of

Remainder = Literal["drop", "spread"]

#: Values added at once: the totals of a group stay in the cache.
_GROUP = 65_536
#: Consecutive values that are dealt together: so many, or more where a group has more than so many segments of them.
_SEGMENT, _SEGMENTS = 1024, 64
#: Stretches of the rows that a group takes its segments from.
_STRETCHES = 16
#: Every block takes as many rows of a group as any other: with few groups that would show.
_FEWEST_GROUPS = 64
#: Places of a block, over all deals, at least the first number, the second where the totals stay below so many values:
#: blocks with places in one segment move together when the rows are in order, so each has places in many.
_PLACES = (16, 64)
_TOTALS = 2**19
#: Deals share the groups where a group has few places; more of them, shuffled, would cost more than the sums.
_MOST_DEALS = 4
#: From so many blocks on their places are found by counting in steps.
_STEPPED_FROM = 16 * _SEGMENT
#: For so few blocks 23 bits of a hash are enough, which a product of short floats turns into a block.
FEW = 2**14
#: Rounds of the permutation that puts rows in random order.
_ROUNDS = 6
#: Below this many values a permutation is cheap enough.
ONE_PASS_FROM = 2**20


class OnePass(Partition):
    """A partition that knows its sums; the rows of each block are listed only when asked for."""

    @cached_property
    def _gathered(self) -> Partition:
        return from_labels(self.labels, len(self))

    def __getitem__(self, k: Any) -> Any:
        return self._gathered[k]

    def stack(self, x: NDArray[Any], blocks: Indices) -> NDArray[Any]:
        """Return the rows of some blocks of one size, gathered."""
        return self._gathered.stack(x, blocks)

    def rest(self, x: NDArray[Any]) -> NDArray[Any]:
        """Return the rows in no block."""
        return rows_of(x, self.left_out)


class Segments(OnePass):
    """Groups of short segments of rows, shuffled; each block owns some places of every group.

    A group takes segments of about a thousand values from many stretches of the rows at once, so that rows in order
    fill no group with equals; they go to its places in random order, from a random place on. A block owns G/K places,
    drawn at random: sums take one pass and no gather of rows. Every block takes as many rows of a group as any other:
    right for sums, wrong for pairs. Where G/K is small the groups take turns between a few deals of the places. A deal
    is a random permutation; with many blocks a group has one place for each, (a·k + b) mod K for block k, with random
    a and b in every deal: no more blocks share a segment then, and nothing has to be shuffled. The rows that make no
    whole segment or group come from all stretches; they fill the places without a segment, and are dealt one by one.
    """

    def __init__(self, n_rows: int, n_blocks: int, columns: int, remainder: Remainder, rng: np.random.Generator):
        size = n_rows // n_blocks
        few, many = _PLACES
        wanted = max(_GROUP // (n_blocks * columns), min(many, max(few, _TOTALS // (n_blocks * columns))))
        stepped = n_blocks >= _STEPPED_FROM
        most_deals = many if stepped else _MOST_DEALS
        at_once = 1 if stepped else max(_GROUP // (n_blocks * columns), -(-wanted // most_deals))
        places = max(1, min(at_once, n_rows // (n_blocks * _FEWEST_GROUPS)))
        self._group = n_blocks * places
        n_segments = _segments_of(self._group, columns)
        self._n_groups = size * n_blocks // self._group
        if n_rows - self._n_groups * (n_segments * (self._group // n_segments)) < 4 * (n_rows % n_blocks):
            self._n_groups -= 1  # the rows left out are drawn from many others
        self._segment = self._group // n_segments
        self._ranks = _shuffles(rng, self._n_groups, n_segments)
        self._offsets = rng.integers(self._group, size=self._n_groups)
        self._n_deals = min(most_deals, -(-min(wanted, many) // places))
        # Groups of one deal follow one another: what is read next is near.
        self._deals = np.sort(rng.integers(self._n_deals, size=self._n_groups))
        self._orders: list[Indices] = []
        self._steps = self._from = np.empty(0, dtype=np.int64)
        if stepped:
            self._steps = _units(rng, n_blocks, self._n_deals)
            self._from = rng.integers(n_blocks, size=self._n_deals)
        else:
            self._orders = [rng.permutation(self._group).reshape(n_blocks, places) for _ in range(self._n_deals)]
        # Each stretch is a circle of segments, read from one of them on; what is not read is dealt row by row.
        self._each = n_segments // _STRETCHES
        length = n_rows // _STRETCHES
        self._n_slots, rest = divmod(length, self._segment)
        self._first = length * np.arange(_STRETCHES) + rng.integers(rest + 1, size=_STRETCHES)
        self._begin = rng.integers(self._n_slots, size=_STRETCHES)
        single = self._not_in_segments(n_rows)
        rng.shuffle(single)
        short = self._group - n_segments * self._segment
        fill, n_last = self._n_groups * short, size * n_blocks - self._n_groups * self._group
        self._fill = single[:fill].reshape(self._n_groups, short)
        self._last, left = single[fill : fill + n_last], single[fill + n_last :]
        sizes = np.full(n_blocks, size)
        self._extra_rows = self._extra_blocks = left[:0]
        if remainder == "spread":
            self._extra_rows, left = left, left[:0]
            self._extra_blocks = rng.choice(n_blocks, size=len(self._extra_rows), replace=False)
            sizes[self._extra_blocks] += 1
        super().__init__(n_rows, sizes, left, None)

    @staticmethod
    def allowed(n_rows: int, n_blocks: int, columns: int) -> bool:
        """Whether there are rows enough for one pass to pay, and groups enough for it to be random."""
        return columns < WIDE and n_rows * columns >= ONE_PASS_FROM and n_rows // n_blocks >= _FEWEST_GROUPS

    def _not_in_segments(self, n_rows: int) -> Indices:
        """The rows that no segment of any group holds."""
        used, length = self._n_groups * self._each, n_rows // _STRETCHES
        slots = (self._begin[:, None] + np.arange(used, self._n_slots)) % self._n_slots
        unread = self._first[:, None, None] + slots[..., None] * self._segment + np.arange(self._segment)
        around = length - self._n_slots * self._segment
        after = self._first[:, None] + self._n_slots * self._segment + np.arange(around)
        starts = length * np.arange(_STRETCHES)[:, None]
        edges = np.where(after < starts + length, after, after - length)
        return np.concatenate([unread.reshape(-1), edges.reshape(-1), np.arange(length * _STRETCHES, n_rows)])

    def _starts(self, groups: Indices) -> Indices:  # type: ignore[override]
        """The first rows of the segments of some groups."""
        slot = (groups[:, None] * self._each + np.arange(self._each))[:, None] + self._begin[:, None]
        starts = slot % self._n_slots * self._segment + self._first[:, None]
        return starts.reshape(len(groups), -1)

    @property
    def labels(self) -> Indices:
        """The block of each row, -1 for a row left out."""
        owners = np.empty((self._n_deals, self._group), dtype=np.intp)
        for deal in range(self._n_deals):
            owners[deal, self._places(deal)] = np.arange(len(self))[:, None]
        labels = np.full(self.n_rows, -1)
        for group, rows in self._in_order_of_place(np.arange(self.n_rows), np.arange(self._n_groups)):
            labels[rows] = np.roll(owners[self._deals[group]], -self._offsets[group])
        labels[self._last] = np.repeat(np.arange(len(self)), len(self._last) // len(self))
        labels[self._extra_rows] = self._extra_blocks
        return labels

    def _places(self, deal: int) -> Indices:
        """The places of each block in a deal, (K, G/K)."""
        if self._orders:
            return self._orders[deal]
        return ((self._from[deal] + self._steps[deal] * np.arange(len(self))) % len(self))[:, None]

    def _in_order_of_place(self, x: NDArray[Any], groups: Indices) -> Iterator[tuple[int, NDArray[Any]]]:
        """The rows of each group in the order of the places they go to, from its random place on."""
        size, shape = self._segment, x.shape[1:]
        windows = np.lib.stride_tricks.as_strided(
            x, (len(x) - size + 1, size, *shape), (x.strides[0], *x.strides), writeable=False
        )
        order = np.empty(self._ranks.shape[1], dtype=np.intp)
        for group, starts in zip(groups, self._starts(groups), strict=True):
            order[self._ranks[group]] = starts
            yield int(group), np.concatenate([windows[order].reshape(-1, *shape), x[self._fill[group]]])

    def _add_groups(self, x: NDArray[Any], groups: Indices, scale: float, totals: NDArray[np.float64]) -> None:
        """Add groups of rows to the totals of their places."""
        width = math.prod(x.shape[1:])
        ready = None
        if scale == 1.0 and (x.ndim == 1 or x.flags.c_contiguous) and x.dtype.isnative:
            ready = _numba.compiled(2e-9 * len(groups) * self._group * width)
        if ready is not None:
            ready.add_segments(
                x.reshape(-1), groups, self._first * width, self._begin, self._n_slots, self._ranks,
                self._offsets * width, self._segment * width, totals.reshape(-1),
            )  # fmt: skip
            places = self._offsets[groups, None] + np.arange(self._group - self._fill.shape[1], self._group)
            np.add.at(totals, places % self._group, x[self._fill[groups]])
            return
        for group, rows in self._in_order_of_place(x, groups):
            rows = rows if scale == 1.0 else rows * scale
            split = self._group - int(self._offsets[group])
            totals[self._offsets[group] :] += rows[:split]
            totals[: self._offsets[group]] += rows[split:]

    def sums(self, x: NDArray[Any], scale: float = 1.0) -> NDArray[np.float64]:
        """Sum the rows of each block, times `scale`, in float64, in one pass over `x`."""
        sums = np.zeros((len(self), *x.shape[1:]))
        totals = np.empty((self._group, *x.shape[1:]))
        for deal in range(self._n_deals):
            totals[:] = 0.0
            self._add_groups(x, np.flatnonzero(self._deals == deal), scale, totals)
            ready = _numba.compiled(1e-8 * totals.size) if len(self._steps) and x.ndim == 1 else None
            if ready is None:
                sums += totals[self._places(deal)].sum(axis=1)
            else:
                ready.add_places(totals, self._steps[deal], self._from[deal], sums)
        last = x[self._last] * scale
        sums += last.reshape(len(self), -1, *x.shape[1:]).sum(axis=1, dtype=np.float64)
        sums[self._extra_blocks] += x[self._extra_rows] * scale
        return sums


def _segments_of(group: int, columns: int) -> int:
    """How many segments a group is cut into: as many from each stretch, with few rows left over."""
    usual = max(1, _SEGMENT // columns, group // _SEGMENTS)
    each = range(max(1, group * 2 // (3 * usual * _STRETCHES)), max(1, group * 3 // (2 * usual * _STRETCHES)) + 1)
    return min((_STRETCHES * m for m in each), key=lambda n_segments: group % n_segments)


def _units(rng: np.random.Generator, n: int, count: int) -> NDArray[np.int64]:
    """Draw numbers below `n` that share no factor with it: counting in such steps, modulo n, meets every number."""
    units = rng.integers(n, size=count)
    while (others := np.gcd(units, n) != 1).any():
        units[others] = rng.integers(n, size=int(others.sum()))
    return units


class Drawn(OnePass):
    """A uniformly random balanced partition: a block is drawn for every row, then the surplus of some blocks moves.

    The block of row i is a hash of i, so a first pass only counts. Blocks with too many rows give up some at random
    to those with too few (and to the rows left out); a second pass adds up. Whatever the rows are called, the result
    has the same law, and fixed block sizes: such a law is uniform over the partitions of these sizes.
    """

    def __init__(self, n_rows: int, n_blocks: int, remainder: Remainder, rng: np.random.Generator):
        self._keys = rng.integers(2**32, size=2 * (-(-n_rows // 2**32)), dtype=np.uint32)
        sizes = np.full(n_blocks, n_rows // n_blocks)
        if remainder == "spread":
            sizes[rng.choice(n_blocks, size=n_rows % n_blocks, replace=False)] += 1
        surplus = self._count(n_rows, n_blocks) - sizes
        # Too many rows here, too few there; block number K stands for the rows in no block.
        short = np.append(np.maximum(-surplus, 0), n_rows - sizes.sum())
        targets = rng.permutation(np.repeat(np.arange(n_blocks + 1), short))
        moved = self._pick(n_rows, np.maximum(surplus, 0), rng)
        self._moved, self._targets = _sorted_together(moved, targets, n_blocks + 1)
        super().__init__(n_rows, sizes, self._moved[self._targets == n_blocks], None)

    @staticmethod
    def allowed(n_rows: int, n_blocks: int, columns: int) -> bool:
        """Whether two passes pay: few rows move if blocks are large."""
        return columns == 1 and n_rows >= ONE_PASS_FROM and n_rows // n_blocks >= _FEWEST_GROUPS

    def _count(self, n_rows: int, n_blocks: int) -> NDArray[np.int64]:
        ready = _numba.compiled(5e-9 * n_rows)
        if ready is not None:
            return ready.count_drawn(self._keys, n_rows, n_blocks)
        counts = np.zeros(n_blocks, dtype=np.int64)
        for low in range(0, n_rows, _GROUP):
            rows = np.arange(low, min(low + _GROUP, n_rows))
            counts += np.bincount(_drawn(self._keys, rows, n_blocks), minlength=n_blocks)
        return counts

    def _pick(self, n_rows: int, surplus: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
        """Rows of the blocks with a surplus, as many as that: the first met when all rows are read in random order."""
        bits = max(1, (n_rows - 1).bit_length())
        keys = rng.integers(2**bits, size=(_ROUNDS, 2), dtype=np.uint64)
        ready = _numba.compiled(5e-8 * len(surplus) * int(surplus.max()))
        if ready is not None:
            return ready.pick_drawn(self._keys, n_rows, keys, np.uint64(bits), surplus.copy())
        picked: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
        left = surplus.copy()
        for low in range(0, 2**bits, _GROUP):
            if not left.any():
                break
            scrambled = _scrambled(np.arange(low, min(low + _GROUP, 2**bits), dtype=np.uint64), keys, bits)
            rows = scrambled[scrambled < n_rows].astype(np.int64)
            blocks = _drawn(self._keys, rows, len(left))
            wanted = left[blocks] > 0
            rows, blocks = rows[wanted], blocks[wanted]
            order = np.argsort(blocks, kind="stable")
            counts = np.bincount(blocks, minlength=len(left))
            rank = np.arange(len(rows)) - (np.cumsum(counts) - counts)[blocks[order]]
            taken = np.sort(order[rank < left[blocks[order]]])
            picked.append(rows[taken])
            left -= np.bincount(blocks[taken], minlength=len(left))
        return np.concatenate(picked)

    def _blocks(self, low: int, high: int) -> NDArray[np.int64]:
        """The blocks of rows `low` to `high`, K for those left out."""
        blocks = _drawn(self._keys, np.arange(low, high), len(self))
        moved = slice(*np.searchsorted(self._moved, [low, high]))
        blocks[self._moved[moved] - low] = self._targets[moved]
        return blocks

    @property
    def labels(self) -> Indices:
        """The block of each row, -1 for a row left out."""
        labels = self._blocks(0, self.n_rows)
        labels[self.left_out] = -1
        return labels

    def sums(self, x: NDArray[Any], scale: float = 1.0) -> NDArray[np.float64]:
        """Sum the rows of each block, times `scale`, in float64, in one pass over `x`."""
        n_blocks = len(self) + 1
        at_once = -(-max(_GROUP, 8 * n_blocks) // _GROUP) * _GROUP
        ready = _numba.compiled(5e-9 * len(x)) if scale == 1.0 and x.dtype.isnative else None
        if ready is not None:
            return ready.add_drawn(x, self._keys, len(self), self._moved, self._targets, at_once)[:-1]
        sums, lost = np.zeros(n_blocks), np.zeros(n_blocks)
        for low in range(0, self.n_rows, at_once):
            high = min(low + at_once, self.n_rows)
            rows = x[low:high].astype(np.float64, copy=False)
            rows = rows if scale == 1.0 else rows * scale
            _add(sums, lost, np.bincount(self._blocks(low, high), weights=rows, minlength=n_blocks))
        return (sums + lost)[:-1]


def _drawn(keys: NDArray[np.uint32], rows: NDArray[np.int64], n_blocks: int) -> NDArray[np.int64]:
    """Hash row numbers to blocks: a multiplicative mixing of 32 bits, with keys for every 2³² rows.

    Two multiplications are not enough: rows 1024 apart would meet too often, or never.
    """
    part = rows >> 32
    one, two = (keys[0], keys[1]) if len(keys) == 2 else (keys[2 * part], keys[2 * part + 1])
    z = rows.astype(np.uint32) ^ one
    z = (z ^ (z >> np.uint32(17))) * np.uint32(0xED5AD4BB)
    z ^= two
    z = (z ^ (z >> np.uint32(11))) * np.uint32(0xAC4C1B51)
    z = (z ^ (z >> np.uint32(15))) * np.uint32(0x31848BAB)
    if n_blocks > FEW:
        return ((z.astype(np.uint64) * np.uint64(n_blocks)) >> np.uint64(32)).astype(np.int64)
    return ((z >> np.uint32(9)).astype(np.float32) * np.float32(n_blocks * 2.0**-23)).astype(np.int64)


def _sorted_together(rows: Indices, blocks: Indices, n_blocks: int) -> tuple[Indices, Indices]:
    """Sort pairs by row; sorting numbers is faster than finding their order."""
    if len(rows) and int(rows.max()) >= 2**63 // n_blocks - 1:
        order = np.argsort(rows)
        return rows[order], blocks[order]
    both = np.sort(rows * n_blocks + blocks)
    rows = both // n_blocks
    return rows, both - rows * n_blocks


def _scrambled(z: NDArray[np.uint64], keys: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    """Permute the numbers of so many bits: each step (xor, shift, multiply by an odd number) can be undone."""
    mask, half = np.uint64(2**bits - 1), np.uint64(bits // 2 + 1)
    for odd, key in keys:
        z = ((z ^ key) * (odd | np.uint64(1))) & mask
        z = z ^ (z >> half)
    return z


def _add(sums: NDArray[np.float64], lost: NDArray[np.float64], part: NDArray[Any]) -> None:
    """Add `part` to the sums, and what rounding loses to `lost`."""
    total = sums + part
    larger = np.abs(sums) >= np.abs(part)
    lost += np.where(larger, (sums - total) + part, (part - total) + sums)
    sums[:] = total


def _shuffles(rng: np.random.Generator, count: int, length: int) -> NDArray[np.uint32]:
    """Draw `count` permutations of `length` items: sort random keys that end in the item."""
    bits = (length - 1).bit_length()
    dtype: Any = np.uint32 if bits <= 10 else np.uint64
    whole = 2 ** np.iinfo(dtype).bits
    keys = rng.integers(0, whole, size=(count, length), dtype=dtype)
    keys &= dtype(whole - 2**bits)
    keys |= np.arange(length, dtype=dtype)
    keys.sort(axis=1)
    keys &= dtype(2**bits - 1)
    return keys.astype(np.uint32, copy=False)
