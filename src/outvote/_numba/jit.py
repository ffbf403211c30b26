"""Compile functions for one thread, and cache them on disk; no fast-math but sums and products in any order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

_Function = TypeVar("_Function", bound=Callable[..., Any])


def jit(function: _Function) -> _Function:
    """Return a function that is compiled when it is first called."""
    compiled: _Function = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def reduction(function: _Function) -> _Function:
    """Return the same of a sum or product that may be taken in any order, and so by several lanes at once."""
    compiled: _Function = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})(function)
    return compiled
