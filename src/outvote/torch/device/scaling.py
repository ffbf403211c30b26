"""Centre and scale columns on a device, as `outvote.learning.scaling.robust_scaling`, many columns at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[Any]

#: Numbers sorted at once: on a device a sort needs several times their memory.
_SORTED = 2**26


def robust_scaling(x: Tensor, n_corrupt: int) -> tuple[Array, Array]:
    """Return a centre and a scale for each column of rows on a device.

    Parameters
    ----------
    x : Tensor of shape (n_rows, n_columns)
        Rows.
    n_corrupt : int
        How many rows may be corrupt.

    Returns
    -------
    tuple of ndarray
        Centres and scales, as `outvote.learning.scaling.robust_scaling` defines them.

    Examples
    --------
    >>> x = torch.cat([torch.arange(100.0), torch.tensor([1e9])])[:, None]
    >>> centre, scale = robust_scaling(x, 1)
    >>> centre.round(1), scale.round(1)
    (array([50.]), array([37.1]))
    """
    step = max(1, _SORTED // max(1, len(x)))
    parts = [_of_columns(x[:, low : low + step], n_corrupt) for low in range(0, x.shape[1], step)]
    centre, scale = (torch.cat(each).cpu().numpy() for each in zip(*parts, strict=True))
    return centre, scale


def _of_columns(x: Tensor, n_corrupt: int) -> tuple[Tensor, Tensor]:
    columns = x.t().to(torch.float64).sort(dim=1).values
    kept = columns[:, n_corrupt : columns.shape[1] - n_corrupt]
    low, middle, high = (_quantile(columns, share) for share in (0.25, 0.5, 0.75))
    spread = _quantile((columns - middle[:, None]).abs().sort(dim=1).values, 0.5)
    scale = torch.maximum(1.4826 * spread, (high - low) / 1.349)
    for wider in (kept, columns):
        scale = torch.where(scale == 0, wider.std(dim=1, correction=0), scale)
    return kept.mean(dim=1), torch.where(scale.isfinite() & (scale > 0), scale, 1.0)


def _quantile(ordered: Tensor, share: float) -> Tensor:
    """Return a quantile of sorted rows, interpolated between the two nearest values."""
    place = share * (ordered.shape[1] - 1)
    below = int(np.floor(place))
    above = min(below + 1, ordered.shape[1] - 1)
    return torch.lerp(ordered[:, below], ordered[:, above], place - below)
