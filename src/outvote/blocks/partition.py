"""Which row goes into which block: four ways to draw it, none of which looks at the values.

*uniform* draws uniformly among the balanced partitions. *random* has the same balance; for degree 1 on long inputs it
deals short segments of rows, in one pass that never gathers rows. *hash* gives row i the block ``hash(i, seed) mod K``
(sizes are multinomial), the one partition that every engine can compute on its own. *contiguous* trusts the order of
the rows.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.blocks.dealt import Indices, Partition, blocks_by_size, from_labels
from outvote.blocks.one_pass import Drawn, Remainder, Segments

__all__ = ["Indices", "Partition", "PartitionKind", "Remainder", "Rng", "blocks_by_size", "check_kind", "draw",
           "hash_coefficients", "hash_rows", "seed_of"]  # fmt: skip

PartitionKind = Literal["random", "uniform", "hash", "contiguous"]
Rng = int | np.random.Generator | np.random.SeedSequence | None

#: From this many rows on, sorting random keys is faster than swapping rows all over the memory.
_SORT_FROM = 2**21
#: Modulus of the row hash: products of two residues fit in 64 bits on every engine.
_PRIME = 2**31 - 1
#: Row numbers hashed at once: few enough to stay in the cache.
_HASHED = 2**14


def seed_of(rng: Rng) -> int:
    """Return one integer from which the same partition can be drawn again."""
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool):
        if rng < 0:
            raise ValueError(f"rng={rng!r} is negative: a seed is an integer of at least 0")
        return int(rng)
    if rng is None or isinstance(rng, (np.random.Generator, np.random.SeedSequence)):
        return int(np.random.default_rng(rng).integers(2**63))
    raise TypeError(f"rng={rng!r} must be an integer seed, a numpy Generator, or None")


def draw(
    kind: PartitionKind,
    n_rows: int,
    n_blocks: int,
    seed: int,
    *,
    stream: int = 0,
    remainder: Remainder = "drop",
    one_pass: bool = False,
    columns: int = 1,
) -> Partition:
    """Draw a partition of `n_rows` rows into `n_blocks` blocks.

    `stream` tells the samples of one statistic apart, so that they are dealt independently.
    `one_pass` permits partitions that add up blocks in one pass: for statistics of degree 1 only.
    """
    check_kind(kind, remainder)
    if kind == "hash":
        return from_labels(hash_rows(np.arange(n_rows), seed, stream) % n_blocks, n_blocks)
    if one_pass and n_blocks == n_rows and kind in ("random", "uniform"):
        kind = "contiguous"  # every row is a block: there is nothing to deal
    rng = np.random.default_rng([stream, seed])
    if kind == "random" and one_pass and Segments.allowed(n_rows, n_blocks, columns):
        return Segments(n_rows, n_blocks, columns, remainder, rng)
    if kind == "uniform" and one_pass and Drawn.allowed(n_rows, n_blocks, columns):
        return Drawn(n_rows, n_blocks, remainder, rng)
    sizes = np.full(n_blocks, n_rows // n_blocks)
    order = None if kind == "contiguous" else permutation(rng, n_rows)
    used = n_rows
    if remainder == "spread":
        sizes[: n_rows % n_blocks] += 1
    else:
        used -= n_rows % n_blocks
    left_out = np.arange(used, n_rows) if order is None else order[used:]
    return Partition(n_rows, sizes, left_out, order)


def permutation(rng: np.random.Generator, n_rows: int) -> Indices:
    """Draw a permutation of the rows: where there are many, by sorting random keys that end in the row's number."""
    if n_rows < _SORT_FROM:
        return rng.permutation(n_rows)
    last_bits = np.uint64(2 ** (n_rows - 1).bit_length() - 1)
    keys = rng.integers(0, 2**64, size=n_rows, dtype=np.uint64)
    keys &= ~last_bits
    keys |= np.arange(n_rows, dtype=np.uint64)
    keys.sort()
    keys &= last_bits
    return keys.astype(np.intp, copy=False)


def check_kind(kind: str, remainder: str = "drop") -> None:
    """Refuse an unknown partition or remainder."""
    if kind not in get_args(PartitionKind):
        raise ValueError(f"partition={kind!r} is not one of {', '.join(map(repr, get_args(PartitionKind)))}")
    if remainder not in get_args(Remainder):
        raise ValueError(f"remainder={remainder!r} is neither 'drop' nor 'spread'")


def hash_rows(ids: NDArray[Any], seed: int, stream: int = 0, out: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Hash row numbers to [0, 2³²) with nothing but sums, products and remainders of 64-bit integers.

    With P = 2³¹ - 1 and five numbers b, c₁ … c₄ below P made from the seed, a row i gives
    u = (i mod P + b·(i div P)) mod P, which is i itself below P, and the hash is (u⁴ + c₁u³ + c₂u² + c₃u) mod P + c₄:
    any four rows below P have independent hashes. Any engine can compute it without overflow. `out` saves making a
    new array.

    Examples
    --------
    >>> hash_rows(np.arange(3), seed=0).tolist() == hash_rows(np.arange(5), seed=0)[:3].tolist()
    True
    """
    b, *rest = hash_coefficients(seed, stream)
    ids = np.asarray(ids, dtype=np.int64)
    hashes = np.empty(ids.shape, dtype=np.int64) if out is None else out
    flat, found = ids.reshape(-1), hashes.reshape(-1)
    ready = _numba.compiled(3e-8 * len(flat))
    if ready is not None:
        ready.hash_numbers(flat, np.array([b, *rest]), found)
        return hashes
    for low in range(0, len(flat), _HASHED):
        i = flat[low : low + _HASHED]
        small = i.min() >= 0 and i.max() < _PRIME
        u = i
        if not small:
            u = _folded(i % _PRIME + _folded(i // _PRIME % _PRIME * b))
            u[u >= _PRIME] -= _PRIME
        value = u.copy()
        for c in rest[:3]:
            value += c
            value *= u  # below 2³² · 2³¹
            value = _folded(value)
        value[value >= _PRIME] -= _PRIME
        np.add(value, rest[3], out=found[low : low + _HASHED])
    return hashes


def _folded(value: NDArray[np.int64]) -> NDArray[np.int64]:
    """Reduce numbers below 2⁶³ modulo 2³¹ - 1, to at most two more than it, by adding what stands above bit 31."""
    for _ in range(2):
        value = (value & _PRIME) + (value >> 31)
    return value


def hash_coefficients(seed: int, stream: int = 0) -> tuple[int, ...]:
    """Five numbers in [1, 2³¹ - 1), from the SHA-256 digests of ``"outvote:seed:stream:i"``: the same everywhere."""
    digests = (hashlib.sha256(f"outvote:{seed}:{stream}:{i}".encode()).digest() for i in range(5))
    return tuple(1 + int.from_bytes(digest[:8], "big") % (_PRIME - 1) for digest in digests)
