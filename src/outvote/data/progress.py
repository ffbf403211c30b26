"""How far a long loop has come, on a terminal, after two seconds; nothing in pipes, logs and notebooks."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

#: Seconds before anything is shown, and between two times.
_PATIENCE, _BETWEEN = 2.0, 0.2
_ERASE = "\r\x1b[K"

Item = TypeVar("Item")

_hidden = ContextVar("_hidden", default=False)


@contextmanager
def watched(items: Sequence[Item], what: str) -> Iterator[Iterable[Item]]:
    """Return items inside a ``with`` block; after two seconds a line on a terminal says how many have been taken.

    Inside of another such block, or of `unwatched`, nothing is shown. The line is erased in the end, and if the block
    is left early, by Ctrl-C for instance.

    Parameters
    ----------
    items : sequence
        What is worked on, one after the other.
    what : str
        What is done, in a few words.

    Examples
    --------
    >>> with watched("abc", "spelling") as letters:
    ...     list(letters)
    ['a', 'b', 'c']
    """
    if _hidden.get() or len(items) < 2 or not _wanted():
        yield items
        return
    line = _Line(what, len(items))
    with unwatched():
        try:
            yield line.following(items)
        finally:
            line.erase()


@contextmanager
def unwatched() -> Iterator[None]:
    """Show nothing inside a ``with`` block: something else does."""
    token = _hidden.set(True)
    try:
        yield
    finally:
        _hidden.reset(token)


class _Line:
    def __init__(self, what: str, total: int):
        self._what, self._total = what, total
        self._due, self._written = time.monotonic() + _PATIENCE, False

    def following(self, items: Iterable[Item]) -> Iterator[Item]:
        for done, item in enumerate(items):
            if time.monotonic() >= self._due:
                self._write(f"{_ERASE}outvote: {self._what}, {100 * done // self._total} %")
                self._due, self._written = time.monotonic() + _BETWEEN, True
            yield item

    def erase(self) -> None:
        if self._written:
            self._write(_ERASE)

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()


def _wanted() -> bool:
    """Return whether standard error is a terminal, and this is the process and the thread that it belongs to."""
    stream, processes = sys.stderr, sys.modules.get("multiprocessing.process")
    if stream is None or not stream.isatty() or threading.current_thread() is not threading.main_thread():
        return False
    return processes is None or processes.current_process().name == "MainProcess"
