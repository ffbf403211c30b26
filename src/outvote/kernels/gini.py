"""Gini's mean difference: the mean of |z - z'|."""

from __future__ import annotations

import numpy as np

from outvote.kernels.kernel import Kernel, torch_function
from outvote.kernels.stacks import Stack, Values, n_pairs


def gini(z: Stack) -> Values:
    """Compute the mean difference of each block from its sorted rows.

    Each gap between neighbours counts once for every pair that it separates.
    """
    n_rows = z.shape[1]
    gaps = np.diff(np.sort(z.astype(np.float64, copy=False), axis=1), axis=1)
    below = np.arange(1, n_rows)
    return gaps @ (below * (n_rows - below) / n_pairs(n_rows))


GINI = Kernel(
    lambda z, w: np.abs(z - w),
    degrees=(2,),
    vectorized=True,
    name="gini",
    columns=1,
    homogeneity=1,
    aligned_form=gini,
    tensor_form=torch_function("gini"),
)
