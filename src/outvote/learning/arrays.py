"""Types of arrays, and slices of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]
#: The group of each row, where only pairs inside a group count.
Groups = Array | None


def slices(size: int, step: int) -> Iterator[slice]:
    """Cut 0, …, size - 1 into slices of at most `step`, at least 1.

    Examples
    --------
    >>> list(slices(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    step = max(1, step)
    return (slice(low, min(low + step, size)) for low in range(0, size, step))
