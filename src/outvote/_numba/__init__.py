"""Whether compiled forms are at hand: numba, the `fast` extra, is imported only for work that repays the wait."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from types import ModuleType
from typing import Any

#: Loading numba and what it compiled before takes about this long.
_WORTH_SECONDS = 1.0

_numpy_seconds = 0.0
_numpy_only = ContextVar("_numpy_only", default=False)
_single = ContextVar("_single", default=False)


def compiled(seconds: float) -> ModuleType | None:
    """Return :mod:`outvote._numba.functions` if it would help, else None: the numpy form gives the same numbers.

    `seconds` says how long the numpy form takes, roughly. Once the numpy forms of this process have taken as long as
    loading numba does, it is loaded, and used from then on; without numba, or with ``NUMBA_DISABLE_JIT=1`` in the
    environment, never.
    """
    global _numpy_seconds
    if _numpy_only.get() or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return None
    loaded = sys.modules.get("outvote._numba.functions")
    if loaded is not None:
        return loaded
    _numpy_seconds += seconds
    if _numpy_seconds < _WORTH_SECONDS or importlib.util.find_spec("numba") is None:
        return None
    return importlib.import_module("outvote._numba.functions")


@contextlib.contextmanager
def numpy_only() -> Iterator[None]:
    """Do without numba for a while: it takes time to compile, and 100 MB that a small worker does not have."""
    token = _numpy_only.set(True)
    try:
        yield
    finally:
        _numpy_only.reset(token)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Keep numpy's matrix products to one thread for a while: for small ones, several are many times slower."""
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
