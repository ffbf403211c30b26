"""Load modules of outvote in one thread at a time.

A package imports its parts, and a part imports its package first. Two threads that begin at either end wait for each
other, and Python ends that with an error. Whoever imports modules late holds this lock meanwhile.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager

_lock = threading.RLock()


def one_at_a_time() -> AbstractContextManager[object]:
    """Return the lock.

    Examples
    --------
    >>> with one_at_a_time():
    ...     from outvote.plotting import RowsDisplay
    """
    return _lock


def _renew() -> None:
    """Replace the lock in a process that was forked: the thread that holds the old one is not there."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
