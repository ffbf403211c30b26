"""Moments of blocks, hashes of row ids, and rows by group.

See estimate/summary/moments.py, blocks/hashing.py and tables/gathered.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote._numba.jit import jit


@jit
def _add_numbers(
    x: NDArray[Any],
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
    means: NDArray[np.float64],
    m2: NDArray[np.float64],
) -> None:
    """Do the work of `add_moments` for one column, twice as fast without the loop over columns."""
    for i in range(len(x)):
        counts[cells[i]] += 1
        means[cells[i]] += x[i]
    for cell in range(len(counts)):
        means[cell] /= max(counts[cell], 1)
    rest = np.zeros(len(means))
    for i in range(len(x)):
        away = x[i] - means[cells[i]]
        rest[cells[i]] += away
        m2[cells[i]] += away * away
    for cell in range(len(counts)):
        left = rest[cell] / max(counts[cell], 1)
        means[cell] += left
        if left * left * counts[cell] < np.inf:
            m2[cell] = max(m2[cell] - left * left * counts[cell], 0.0)


@jit
def add_moments(
    x: NDArray[Any],
    cells: NDArray[np.int64],
    counts: NDArray[np.int64],
    means: NDArray[np.float64],
    m2: NDArray[np.float64],
) -> None:
    """Write count, mean and sum of squares around the mean of each cell to arrays of zeros.

    The rounding error of the mean is added to it in the end.
    """
    n_rows, n_columns = x.shape
    if n_columns == 1:
        _add_numbers(x[:, 0], cells, counts, means[:, 0], m2[:, 0])
        return
    for i in range(n_rows):
        cell = cells[i]
        counts[cell] += 1
        for j in range(n_columns):
            means[cell, j] += x[i, j]
    for cell in range(len(counts)):
        for j in range(n_columns):
            means[cell, j] /= max(counts[cell], 1)
    rest = np.zeros(means.shape)
    for i in range(n_rows):
        cell = cells[i]
        for j in range(n_columns):
            away = x[i, j] - means[cell, j]
            rest[cell, j] += away
            m2[cell, j] += away * away
    for cell in range(len(counts)):
        for j in range(n_columns):
            left = rest[cell, j] / max(counts[cell], 1)
            means[cell, j] += left
            if left * left * counts[cell] < np.inf:
                m2[cell, j] = max(m2[cell, j] - left * left * counts[cell], 0.0)


@jit
def _folded(value: Any) -> Any:
    """Return a number below 2⁶³ reduced modulo 2³¹ - 1, up to at most 2³¹ + 1."""
    value = (value & 0x7FFFFFFF) + (value >> 31)
    return (value & 0x7FFFFFFF) + (value >> 31)


@jit
def hash_numbers(ids: NDArray[np.int64], coefficients: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    """Write the hashes of row ids to `out`: see blocks/hashing.py."""
    prime = np.int64(2**31 - 1)
    b, c1, c2, c3, c4 = coefficients
    for i in range(len(ids)):
        u = ids[i]
        if u < 0 or u >= prime:
            u = _folded(u % prime + _folded(b * (u // prime % prime)))
            if u >= prime:
                u -= prime
        value = _folded((u + c1) * u)
        value = _folded((value + c2) * u)
        value = _folded((value + c3) * u)
        if value >= prime:
            value -= prime
        out[i] = value + c4


@jit
def rows_by_group(values: NDArray[np.float64], groups: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Bring the rows of each group together, in the order they came; groups begin at `starts`."""
    found = np.empty(len(values))
    place = starts[:-1].copy()
    for i in range(len(values)):
        g = groups[i]
        found[place[g]] = values[i]
        place[g] += 1
    return found
