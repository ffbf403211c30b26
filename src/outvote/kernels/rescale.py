"""Evaluate homogeneous kernels on blocks whose values are too large or too small for a float.

A kernel is homogeneous of degree p if multiplying all rows by c multiplies its value by c^p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from outvote.kernels.stacks import Stack, Values

#: Blocks with values beyond 2^±400 are rescaled.
_SAFE_EXPONENT = 400


def rescaled(form: Callable[..., Values], homogeneity: int | tuple[int, ...] | None, stacks: Sequence[Stack]) -> Values:
    """Evaluate `form`; blocks of extreme size are divided by a power of two first, and the result is scaled back.

    Rows near 1e308 then give an infinite value only where the value itself is too large for a float.

    Parameters
    ----------
    form : callable
        The form of a kernel for the k-th blocks of all samples.
    homogeneity : int, tuple of int or None
        The degree of homogeneity; a tuple if the kernel is homogeneous in each column by itself; None if it is not
        homogeneous.
    stacks : sequence of ndarray
        One stack for each sample.
    """
    if homogeneity is None:
        return form(*stacks)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        values = form(*stacks)
    sizes, most = np.abs(values), 2.0 ** (2 * _SAFE_EXPONENT)
    if np.all((sizes > 1 / most) & (sizes < most)):  # no overflow, and no digits lost
        return values
    exponents = _exponents(stacks, by_column=isinstance(homogeneity, tuple))
    extreme: NDArray[np.bool_] = (exponents != 0).any(axis=1)
    if not extreme.any():
        return form(*stacks)
    values = np.empty(len(extreme))
    if not extreme.all():
        values[~extreme] = form(*(stack[~extreme] for stack in stacks))
    exponents = exponents[extreme]
    scaled = [
        np.ldexp(stack[extreme].astype(np.float64), -exponents[:, None] if stack.ndim == 3 else -exponents)
        for stack in stacks
    ]
    with np.errstate(over="ignore", under="ignore"):
        values[extreme] = np.ldexp(form(*scaled), (exponents * homogeneity).sum(axis=1))
    return values


def have_ordinary_size(stacks: Sequence[Stack]) -> bool:
    """Return whether no block needs to be rescaled."""
    return not any(_exponents([stack], by_column=False).any() for stack in stacks)


def _exponents(stacks: Sequence[Stack], *, by_column: bool) -> NDArray[np.int64]:
    """Return the power of two to divide each block (and column) by: 0 where its values have ordinary size."""
    sizes = [np.abs(stack).reshape(*stack.shape[:2], -1).max(axis=1 if by_column else (1, 2)) for stack in stacks]
    largest = np.max(sizes, axis=0).reshape(len(stacks[0]), -1).astype(np.float64)
    exponents = np.frexp(largest)[1].astype(np.int64)
    return np.where((largest > 0) & (np.abs(exponents) > _SAFE_EXPONENT), exponents, 0)
