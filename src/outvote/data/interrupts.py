"""Ctrl-C inside of DuckDB, which raises errors of its own for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn an error that says that a query was interrupted into `KeyboardInterrupt`, inside a ``with`` block.

    Examples
    --------
    >>> try:
    ...     with interruptible():
    ...         raise RuntimeError("Query interrupted")
    ... except KeyboardInterrupt:
    ...     print("stopped")
    stopped
    """
    try:
        yield
    except Exception as error:
        if str(error) == "Query interrupted" or "INTERRUPT Error" in str(error):
            raise KeyboardInterrupt from None
        raise
