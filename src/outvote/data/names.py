"""Names of columns: as text, and each one once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def texts_of(names: Iterable[object], what: str) -> list[str]:
    """Return names of columns as text; refuse two that are the same.

    Examples
    --------
    >>> texts_of([0, ("a", 1), None], "frame")
    ['0', "('a', 1)", 'None']
    >>> texts_of(["a", "a"], "frame")
    Traceback (most recent call last):
    ValueError: frame has two columns of the same name, 'a': rename one
    """
    texts = [str(name) for name in names]
    twice = [text for text, times in Counter(texts).items() if times > 1]
    if twice:
        raise ValueError(f"{what} has two columns of the same name, {twice[0]!r}: rename one")
    return texts
