"""The hash that deals a row into the same block on every engine.

With P = 2³¹ - 1 and five numbers b, c₁ … c₄ below P made from the seed, row i is folded to
u = (i mod P + b·(i div P)) mod P, which is i itself below P, and hashes to (u⁴ + c₁u³ + c₂u² + c₃u) mod P + c₄.
Any four rows below P have independent hashes. No intermediate result reaches 2⁶³, so any engine with 64-bit integers
can compute it: :func:`fold` and :func:`polynomial` are the definition, for Python integers, dataframe expressions and
SQL text alike; :func:`hash_rows` and its compiled twin do the same faster.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import _numba

#: Modulus of the hash: products of two residues fit in 64 bits.
PRIME = 2**31 - 1
#: Rows hashed at once: few enough to stay in the cache.
_CHUNK = 2**14


def hash_coefficients(seed: int, stream: int = 0) -> tuple[int, ...]:
    """Return b, c₁ … c₄ in [1, 2³¹ - 1), from the SHA-256 digests of ``"outvote:seed:stream:i"``."""
    digests = (hashlib.sha256(f"outvote:{seed}:{stream}:{i}".encode()).digest() for i in range(5))
    return tuple(1 + int.from_bytes(digest[:8], "big") % (PRIME - 1) for digest in digests)


def fold(ids: Any, b: int, negative: Callable[[Any], Any] = lambda low: 0) -> Any:
    """Fold row ids into [0, P); `negative` turns a remainder into 1 where an engine gave it the sign of the id."""
    low = ids % PRIME
    mixed = (low + (ids // PRIME - negative(low)) * b) % PRIME
    return (mixed + PRIME) % PRIME


def polynomial(u: Any, coefficients: Sequence[int]) -> Any:
    """Hash folded row ids by c₁ … c₄."""
    value = u
    for c in coefficients[:3]:
        value = (value + c) * u % PRIME
    return value + coefficients[3]


class Sql:
    """An expression as SQL text, with Python's arithmetic."""

    def __init__(self, text: str):
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __add__(self, other: Any) -> Sql:
        return Sql(f"({self} + {other})")

    def __sub__(self, other: Any) -> Sql:
        return Sql(f"({self} - {other})")

    def __mul__(self, other: Any) -> Sql:
        return Sql(f"({self} * {other})")

    def __mod__(self, other: Any) -> Sql:
        return Sql(f"({self} % {other})")

    def __floordiv__(self, other: Any) -> Sql:
        return Sql(f"({self} // {other})")


def hash_rows(ids: NDArray[Any], seed: int, stream: int = 0, out: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Hash an array of row ids to [0, 2³²), into `out` if given.

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
    for start in range(0, len(flat), _CHUNK):
        u = flat[start : start + _CHUNK]
        if not (u.min() >= 0 and u.max() < PRIME):
            u = _reduced(u % PRIME + _reduced(u // PRIME % PRIME * b))
            u[u >= PRIME] -= PRIME
        value = u.copy()
        for c in rest[:3]:
            value += c
            value *= u  # below 2³² · 2³¹
            value = _reduced(value)
        value[value >= PRIME] -= PRIME
        np.add(value, rest[3], out=found[start : start + _CHUNK])
    return hashes


def _reduced(value: NDArray[np.int64]) -> NDArray[np.int64]:
    """Reduce numbers below 2⁶³ modulo P, to at most P + 2, by adding the bits above the 31st: no division."""
    for _ in range(2):
        value = (value & PRIME) + (value >> 31)
    return value
