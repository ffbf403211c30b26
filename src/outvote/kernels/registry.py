"""The kernels that can be asked for by name."""

from __future__ import annotations

import difflib

from outvote.kernels.covariance import COVARIANCE
from outvote.kernels.distances import ENERGY, MMD
from outvote.kernels.gini import GINI
from outvote.kernels.kendall import KENDALL
from outvote.kernels.kernel import Kernel
from outvote.kernels.variance import VARIANCE
from outvote.kernels.wilcoxon import WILCOXON
from outvote.kernels.wins import AUC, MANN_WHITNEY

#: The named kernels: `function` is the definition, the forms of a kernel compute the same faster.
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel for kernel in (VARIANCE, COVARIANCE, GINI, WILCOXON, KENDALL, MANN_WHITNEY, AUC, MMD, ENERGY)
}


def kernel_of(kernel: Kernel | str) -> Kernel:
    """Return the kernel of this name, or the kernel itself.

    Examples
    --------
    >>> kernel_of("variance").degrees, kernel_of("mann-whitney").degrees
    ((2,), (1, 1))
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        if kernel in KERNELS:
            return KERNELS[kernel]
        near = difflib.get_close_matches(kernel.lower().replace("_", "-").replace(" ", "-"), KERNELS, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"kernel={kernel!r} is unknown: {hint}The named ones are {', '.join(KERNELS)}")
    if callable(kernel):
        raise TypeError(f"kernel={kernel!r}: say what it takes, outvote.Kernel(function, degrees=...)")
    raise TypeError(f"kernel={kernel!r} must be a name or an outvote.Kernel")
