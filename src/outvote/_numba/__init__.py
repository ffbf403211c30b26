"""Decide when compiled functions are used: numba, the `fast` extra, is imported only if the work is long enough."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import math
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from types import ModuleType
from typing import Any

#: Seconds that it takes to load numba and functions that it compiled before.
_WORTH_SECONDS = 1.0

_DISABLED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
_numpy_seconds = 0.0
_numpy_only = ContextVar("_numpy_only", default=False)
_single = ContextVar("_single", default=False)


def compiled(seconds: float) -> ModuleType | None:
    """Return :mod:`outvote._numba.functions` if it would help, else None: the numpy form gives the same numbers.

    `seconds` is roughly how long the numpy form takes. Once the numpy forms of this process have taken as long as
    loading numba does, numba is loaded and used from then on. It is never used if it is not installed, or with
    ``NUMBA_DISABLE_JIT=1`` in the environment.
    """
    global _numpy_seconds
    if _DISABLED or _numpy_only.get():
        return None
    if "outvote._numba.functions" not in sys.modules:
        _numpy_seconds += seconds
        if _numpy_seconds < _WORTH_SECONDS or importlib.util.find_spec("numba") is None:
            return None
    # Not what is in sys.modules: another thread may have loaded half of it. This waits until it has all of it.
    return importlib.import_module("outvote._numba.functions")


@contextlib.contextmanager
def numpy_only() -> Iterator[None]:
    """Disable numba inside a ``with`` block: compiling takes time, and 100 MB that a small worker does not have."""
    token = _numpy_only.set(True)
    try:
        yield
    finally:
        _numpy_only.reset(token)


@contextlib.contextmanager
def by_the_question(worth: bool) -> Iterator[None]:
    """Load numba for a ``with`` block if it is worth it, else disable it there, whatever was loaded before.

    For long loops in which rounding errors add up: their last digits then depend on the question alone.
    """
    with contextlib.nullcontext() if worth else numpy_only():
        if worth:
            compiled(math.inf)
        yield


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Limit numpy's matrix products to one thread inside a ``with`` block; small ones are many times faster so."""
    if _single.get():  # setting the limit again would take longer than a small product
        yield
        return
    token = _single.set(True)
    try:
        with _threads().limit(limits=1, user_api="blas"):
            yield
    finally:
        _single.reset(token)


@functools.cache
def _threads() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
