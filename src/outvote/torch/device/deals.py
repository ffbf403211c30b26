"""Compute the means of random blocks of a long tensor, on its device."""

from __future__ import annotations

import torch
from torch import Tensor


def block_means(x: Tensor, n_blocks: int, *, generator: torch.Generator | None = None) -> Tensor:
    """Return the means of random blocks of equal size of a long tensor.

    Parameters
    ----------
    x : Tensor
        Numbers, 1-D, on any device.
    n_blocks : int
        Number of blocks (K); rows that do not fit into equal blocks, fewer than K, are left out.
    generator : torch.Generator, optional
        Generator on the same device; torch's default generator by default.

    Returns
    -------
    Tensor
        Block means in float64, (K,), on the same device.

    Examples
    --------
    >>> import torch
    >>> x = torch.arange(200_000.0)
    >>> means = block_means(x, 101, generator=torch.Generator().manual_seed(0))
    >>> means.shape, bool((means.median() - x.mean()).abs() < 2000)
    (torch.Size([101]), True)
    """
    if x.ndim != 1 or not x.is_floating_point():
        raise ValueError(f"x has shape {tuple(x.shape)} and type {x.dtype}: a 1-D tensor of floats is needed")
    if not 1 <= n_blocks <= len(x):
        raise ValueError(f"n_blocks={n_blocks} must be between 1 and the {len(x)} rows")
    size = len(x) // n_blocks
    order = torch.randperm(len(x), device=x.device, generator=generator)[: size * n_blocks]
    return x[order].reshape(n_blocks, size).mean(dim=1, dtype=torch.float64)
