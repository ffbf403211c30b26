"""The variance: the mean of (z - z')²/2."""

from __future__ import annotations

import numpy as np

from outvote.kernels.kernel import Kernel, torch_function
from outvote.kernels.stacks import Counts, Stack, Values


def variance(z: Stack) -> Values:
    """Compute the unbiased variance of each block, in two passes."""
    n_rows = z.shape[1]
    # One of the rows is subtracted first: equal rows then have variance 0, and a large offset costs no digits.
    centred = np.subtract(z, z[:, :1], dtype=np.float64)
    centred -= (np.einsum("kb->k", centred) / n_rows)[:, None]
    variances: Values = np.einsum("kb,kb->k", centred, centred) / (n_rows - 1)
    return variances


def variance_from_moments(counts: Counts, m2: Values) -> Values:
    """Compute the variance of each block from its number of rows and its sum of squares around the block mean.

    A block of fewer than two rows gives NaN.

    Examples
    --------
    >>> variance_from_moments(np.array([1, 3]), np.array([0.0, 8.0]))
    array([nan,  4.])
    """
    return np.divide(m2, counts - 1, out=np.full(len(counts), np.nan), where=counts > 1)


VARIANCE = Kernel(
    lambda z, w: (z - w) ** 2 / 2,
    degrees=(2,),
    vectorized=True,
    name="variance",
    columns=1,
    homogeneity=2,
    aligned_form=variance,
    moment_form=variance_from_moments,
    tensor_form=torch_function("variance"),
)
