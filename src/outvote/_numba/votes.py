"""Compiled parts of votes: see votes/soft.py and votes/median.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote._numba.jit import jit

#: Products that are computed side by side, so that a processor can work on several at once.
_LANES = 32
#: Factors of at least 1/2 that are multiplied before the logarithm is taken.
_FACTORS = 512


@jit
def soft_pull(votes: NDArray[np.float64], center: float, reach: float, share: float) -> tuple[float, float, float]:
    """Return the sum of the pulls of votes, its slope, and the sum of their sizes, by logarithms of products.

    The sum of sizes is enlarged to account for the rounding errors of the products.
    """
    right, left, slope = np.ones(_LANES), np.ones(_LANES), np.zeros(_LANES)
    above, below, error, taken = 0.0, 0.0, 0.0, 0
    for low in range(0, len(votes), _LANES):
        part = votes[low : low + _LANES]
        for j in range(len(part)):
            offset = (part[j] - center) / reach
            near = min(abs(offset), 1.0)
            factor = 1.0 - (2.0 - near) * near * share
            slope[j] += (1.0 - near) / factor
            right[j] *= factor if offset > 0.0 else 1.0
            left[j] *= 1.0 if offset > 0.0 else factor
        taken += 1
        if taken == _FACTORS or low + _LANES >= len(votes):
            for j in range(_LANES):
                above -= math.log(right[j])
                below -= math.log(left[j])
                right[j], left[j] = 1.0, 1.0
            error += _LANES * math.sqrt(taken)
            taken = 0
    return above - below, 2 * share * slope.sum(), above + below + error


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
