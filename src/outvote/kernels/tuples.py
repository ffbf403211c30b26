"""Tuples of rows: enumerate those of a block, and average a function over them in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.kernels.stacks import Counts, Stack, Values

Indices = NDArray[np.intp]

#: Degrees of pairs of rows: both from one sample, or one from each of two.
PAIRS = (2,)
CROSS_PAIRS = (1, 1)
#: Tuples evaluated at once.
_CHUNK = 65_536
#: A block holds fewer tuples than the inverse of this.
_SMALL = 2.0**-62


@dataclass(frozen=True)
class ArrayFunction:
    """A kernel's function, called on arrays of rows (one array for each slot), with a check of what it returns."""

    function: Callable[..., Any]
    name: str

    def __call__(self, slots: Sequence[Stack]) -> NDArray[Any]:
        """Return one real number for each tuple; a value too large for a float is infinite, without a warning."""
        length = len(slots[0])
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            array = np.asarray(self.function(*slots))
        if array.dtype.kind not in "biuf":
            raise TypeError(f"kernel {self.name!r} returned {array.dtype} values; expected real numbers")
        if array.shape != (length,):
            raise ValueError(
                f"kernel {self.name!r} returned shape {array.shape} for {length} tuples; expected {(length,)}"
            )
        return array

    def refuse_nan(self, values: NDArray[Any]) -> None:
        """Raise an error if a value is NaN."""
        if np.isnan(values).any():
            raise ValueError(f"kernel {self.name!r} returned NaN for a tuple of finite rows")


def average_over_tuples(function: ArrayFunction, degrees: tuple[int, ...], *stacks: Stack) -> Values:
    """Average a function over all tuples of each block, each unordered tuple once, one chunk at a time."""
    with np.errstate(over="ignore", invalid="ignore"):
        averages = _averages(function, degrees, stacks, 1.0)
        unclear = np.flatnonzero(~np.isfinite(averages))
        if len(unclear):
            # Either the sum of the values overflowed, or it has infinite terms of both signs.
            careful = _averages(function, degrees, [stack[unclear] for stack in stacks], _SMALL) / _SMALL
            averages[unclear] = np.where(np.isnan(careful), np.inf, careful)
    return averages


def _averages(function: ArrayFunction, degrees: tuple[int, ...], stacks: Sequence[Stack], scale: float) -> Values:
    """Sum the values times `scale`, and divide by the number of tuples."""
    n_blocks = len(stacks[0])
    sizes = tuple(stack.shape[1] for stack in stacks)
    totals = np.zeros(n_blocks)
    n_tuples = math.prod(math.comb(b, d) for b, d in zip(sizes, degrees, strict=True))
    width = max(math.prod(stack.shape[2:]) for stack in stacks)
    chunk = max(1, _CHUNK // width)
    for length, take in _chunks(sizes, degrees, chunk):
        step = max(1, chunk // length)
        for low in range(0, n_blocks, step):
            batch = slice(low, min(low + step, n_blocks))
            values = function([rows.astype(np.float64, copy=False) for rows in take([s[batch] for s in stacks])])
            scaled = values if scale == 1.0 else values * scale
            sums = scaled.reshape(-1, length).sum(axis=1, dtype=np.float64)
            if np.isnan(sums).any():  # infinite values of both signs are allowed, NaN values are not
                function.refuse_nan(values)
            totals[batch] += sums
    return totals / n_tuples


def _chunks(
    sizes: tuple[int, ...], degrees: tuple[int, ...], chunk: int
) -> Iterator[tuple[int, Callable[[Sequence[Stack]], list[Stack]]]]:
    """Yield the tuples of a block in chunks: how many, and a function that takes them from stacks, one array a slot.

    Pairs come in tiles, whose rows are repeated instead of looked up.
    """
    if degrees not in (PAIRS, CROSS_PAIRS):
        for slots in tuple_chunks(sizes, degrees, chunk):
            yield len(slots[0][1]), partial(_take, slots=slots)
        return
    side = max(1, math.isqrt(chunk))
    for top in range(0, sizes[0], side):
        height = min(side, sizes[0] - top)
        for left in range(0, sizes[-1], side):
            width = min(side, sizes[-1] - left)
            if degrees == CROSS_PAIRS or left > top:
                yield height * width, partial(_tile, rows=slice(top, top + height), columns=slice(left, left + width))
            elif left == top and height > 1:
                yield math.comb(height, 2), partial(_take, slots=[(0, top + rows) for rows in _triangle(height)])


@lru_cache(maxsize=8)
def _triangle(side: int) -> tuple[Indices, Indices]:
    return np.triu_indices(side, 1)


def _tile(stacks: Sequence[Stack], rows: slice, columns: slice) -> list[Stack]:
    """Pair these rows of the first stack with these of the last, block by block, in new arrays."""
    sides = stacks[0][:, rows, None], stacks[-1][:, None, columns]
    shape = (len(sides[0]), sides[0].shape[1], sides[1].shape[2])
    slots = [np.empty((*shape, *side.shape[3:])) for side in sides]
    for slot, side in zip(slots, sides, strict=True):
        slot[:] = side
    return [slot.reshape(-1, *slot.shape[3:]) for slot in slots]


def _take(stacks: Sequence[Stack], slots: Sequence[tuple[int, Indices]]) -> list[Stack]:
    return [stacks[s].take(rows, axis=1).reshape(-1, *stacks[s].shape[2:]) for s, rows in slots]


def tuple_chunks(
    sizes: tuple[int, ...], degrees: tuple[int, ...], chunk: int = _CHUNK
) -> Iterator[list[tuple[int, Counts]]]:
    """Enumerate the tuples of rows of one block (of each sample), one chunk at a time.

    For each slot it yields the sample and the row of every tuple of the chunk. Tuples are numbered, so that only one
    chunk of them is in memory.

    Examples
    --------
    >>> for slots in tuple_chunks((3,), (2,)):
    ...     print([(sample, rows.tolist()) for sample, rows in slots])
    [(0, [1, 2, 2]), (0, [0, 0, 1])]
    """
    counts = [math.comb(b, d) for b, d in zip(sizes, degrees, strict=True)]
    total = math.prod(counts)
    if total * _SMALL >= 1:
        raise ValueError(f"blocks of {sizes} rows hold {total:.3g} tuples: use more and smaller blocks")
    tables = [
        [np.array([min(math.comb(c, d), total) for c in range(size)]) for d in range(degree, 0, -1)]
        for size, degree in zip(sizes, degrees, strict=True)
    ]
    for low in range(0, total, chunk):
        rank = np.arange(low, min(low + chunk, total))
        slots: list[tuple[int, Counts]] = []
        for sample, (count, binomials) in enumerate(zip(counts, tables, strict=True)):
            slots += [(sample, rows) for rows in _unrank(rank % count, binomials)]
            rank = rank // count
        yield slots


def _unrank(rank: Counts, tables: Sequence[Counts]) -> Iterator[Counts]:
    """Yield the rows c_d > … > c_1 of subset number C(c_d, d) + … + C(c_1, 1), given tables of C(·, d) … C(·, 1)."""
    for table in tables:
        row = np.searchsorted(table, rank, side="right") - 1
        rank = rank - table[row]
        yield row
