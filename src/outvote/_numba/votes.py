"""Compiled parts of votes: see votes/soft.py and votes/median.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote._numba.jit import jit

Floats = NDArray[np.float64]


@jit
def soft_lanes(
    votes: Floats, center: float, reach: float, share: float, right: Floats, left: Floats, slope: Floats
) -> None:
    """Write products of votes on either side of a center, and sums of slopes, in lanes: see votes/soft.py."""
    n_lanes = len(right)
    right[:], left[:], slope[:] = 1.0, 1.0, 0.0
    for low in range(0, len(votes), n_lanes):
        part = votes[low : low + n_lanes]
        for j in range(len(part)):
            offset = (part[j] - center) / reach
            near = min(abs(offset), 1.0)
            factor = 1.0 - (2.0 - near) * near * share
            slope[j] += (1.0 - near) / factor
            right[j] *= factor if offset > 0.0 else 1.0
            left[j] *= 1.0 if offset > 0.0 else factor


@jit
def histograms(values: NDArray[Any], n_kinds: int) -> NDArray[np.int64]:
    """Count in each row how often each whole number below `n_kinds` occurs; neighbours use different tables."""
    found = np.empty((len(values), n_kinds), dtype=np.int64)
    for k in range(len(values)):
        row, tables = values[k], np.zeros((4, n_kinds), dtype=np.int64)
        whole = len(row) // 4 * 4
        for i in range(0, whole, 4):
            tables[0, row[i]] += 1
            tables[1, row[i + 1]] += 1
            tables[2, row[i + 2]] += 1
            tables[3, row[i + 3]] += 1
        for i in range(whole, len(row)):
            tables[0, row[i]] += 1
        found[k] = tables[0] + tables[1] + tables[2] + tables[3]
    return found
