"""The covariance: the mean of (x - x')(y - y')/2."""

from __future__ import annotations

import numpy as np

from outvote.kernels.kernel import Kernel, torch_function
from outvote.kernels.stacks import Stack, Values


def covariance(z: Stack) -> Values:
    """Compute the unbiased covariance of the two columns of each block, in two passes."""
    n_rows = z.shape[1]
    centred = z - z.mean(axis=1, keepdims=True, dtype=np.float64)
    left = centred.sum(axis=1)
    products = np.einsum("kb,kb->k", centred[..., 0], centred[..., 1])
    covariances: Values = (products - left[:, 0] * left[:, 1] / n_rows) / (n_rows - 1)
    return covariances


COVARIANCE = Kernel(
    lambda z, w: (z[..., 0] - w[..., 0]) * (z[..., 1] - w[..., 1]) / 2,
    degrees=(2,),
    vectorized=True,
    name="covariance",
    columns=2,
    homogeneity=(1, 1),
    aligned_form=covariance,
    tensor_form=torch_function("covariance"),
)
