"""Wilcoxon's signed-rank statistic: the share of pairs with z + z' > 0."""

from __future__ import annotations

import numpy as np

from outvote.kernels.kernel import Kernel, torch_function
from outvote.kernels.stacks import Stack, Values, n_pairs


def wilcoxon(z: Stack) -> Values:
    """Compute the share of pairs with z + z' > 0 in each block, by sorting |z|.

    A sum has the sign of its larger term. In the order of |z|, positive rows first among equals, a positive row
    therefore has a positive sum with every row before it.
    """
    # Without its sign bit, a float has the same order as its bits. The free bit holds whether the row is positive.
    keys = z.astype(np.float64).view(np.uint64)
    keys <<= np.uint64(1)
    keys |= z <= 0
    keys.sort(axis=1)
    keys &= np.uint64(1)
    wins = (keys == 0) @ np.arange(z.shape[1], dtype=np.float64)
    return wins / n_pairs(z.shape[1])


WILCOXON = Kernel(
    lambda z, w: z + w > 0,
    degrees=(2,),
    bounds=(0.0, 1.0),
    vectorized=True,
    name="wilcoxon",
    columns=1,
    aligned_form=wilcoxon,
    tensor_form=torch_function("wilcoxon"),
    rises=(1,),
)
