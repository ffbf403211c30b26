"""Stacks of blocks: what every form of a kernel takes.

A *stack* holds blocks of one size: an array of shape (blocks, rows) or (blocks, rows, columns). A form takes one stack
for each sample and returns one value for each block, or for each combination of blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Stack = NDArray[Any]
Values = NDArray[np.float64]
Counts = NDArray[np.int64]


def n_pairs(n_rows: int) -> int:
    """Count the pairs of rows of one block."""
    return n_rows * (n_rows - 1) // 2


def batches(n_blocks: int, cost: int, budget: int) -> Iterator[slice]:
    """Split the blocks into batches: one block costs `cost` numbers of memory, a batch may cost `budget` of them."""
    step = max(1, budget // max(cost, 1))
    return (slice(low, low + step) for low in range(0, n_blocks, step))
