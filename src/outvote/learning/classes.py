"""A warning shared by the learners that tell classes apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.contamination import Contamination
from outvote.learning.base import _warn


def warn_of_small_classes(contamination: Any, targets: NDArray[Any], classes: NDArray[Any], remedy: str = "") -> None:
    """Warn of a class so small that blocks without it can be taken for the honest ones."""
    n_corrupt = Contamination.of(contamination).count(len(targets))
    sizes = np.unique(targets, return_counts=True)[1]
    if len(sizes) < len(classes):  # a batch that lacks a class says nothing about its share
        return
    small = int(sizes.argmin())
    if n_corrupt and sizes[small] <= 2 * n_corrupt:
        _warn(
            f"class {classes[small]!r} has {sizes[small]} of {len(targets)} rows, no more than twice the {n_corrupt} "
            f"that may be corrupt: it can vanish from the fit{remedy}"
        )
