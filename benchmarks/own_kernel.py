"""A kernel as a user would write it."""

from __future__ import annotations

from functools import cache
from typing import Any


def distance(z: Any, w: Any) -> Any:
    """The distance of two numbers."""
    return abs(z - w)


@cache
def compiled_distance() -> Any:
    """The same, compiled; numba is imported only here."""
    import numba

    return numba.njit(distance)
