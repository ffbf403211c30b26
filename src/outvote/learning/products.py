"""Products of rows and weights that do not overflow because rows are short floats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def product(x: NDArray[Any], weights: NDArray[Any]) -> NDArray[Any]:
    """Return x @ weights in the precision of the rows, and in double precision where that overflows.

    Examples
    --------
    >>> product(np.array([[1e30]], dtype=np.float32), np.array([1e30])).dtype
    dtype('float64')
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found: NDArray[Any] = x @ weights.astype(x.dtype, copy=False)
        if np.isfinite(found).all():
            return found
        return x.astype(np.float64) @ weights.astype(np.float64)
