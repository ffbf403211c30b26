"""The kernel of a U-statistic: its function, what is known about it, and its forms on blocks."""

from __future__ import annotations

import importlib
import inspect
import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.data.arguments import check_flags, is_whole, whole
from outvote.data.loading import one_at_a_time
from outvote.data.progress import watched
from outvote.kernels.rescale import have_ordinary_size, rescaled
from outvote.kernels.stacks import Counts, Stack, Values
from outvote.kernels.tuples import ArrayFunction, average_over_tuples
from outvote.kernels.user_functions import prepare

#: Rows of combinations of blocks that are evaluated at once.
_ROWS_AT_ONCE = 65_536

#: A kernel takes no more rows of a sample than this.
_MOST_DEGREES = 1000


@dataclass(frozen=True, eq=False)
class Kernel:
    """The kernel h of a U-statistic.

    Parameters
    ----------
    function : callable
        Takes one argument per slot: degrees ``(2, 1)`` means ``f(x, x', y)``. A slot is a number for
        1-D samples and a vector for 2-D ones. It may be written for single rows, for arrays of rows
        (returning one value a row), or compiled with numba. It must be symmetric in the slots of one sample.
    degrees : int or tuple of int
        How many slots each sample fills (d).
    bounds : tuple of float, optional
        The smallest and largest value on clean rows, if known.
    vectorized : bool or None
        Whether `function` takes arrays of rows; None tries it, against single rows.
    name : str, optional
        What the result is called; the function's name by default. It has no other meaning: a kernel with the name of
        a library kernel still computes its own function.
    zetas : sequence or mapping of float, optional
        Variances of the kernel's projections on clean rows (ζ), if known: see `FiniteVariance`.

    Other Parameters
    ----------------
    columns : int or None
        How many numbers a row must have; None accepts any.
    homogeneity : int, tuple of int or None
        Degree p with h(c·x, …) = cᵖ·h(x, …), or one for each column; None if there is none.
    aligned_form, grid_form : callable, optional
        Fast forms on stacks of blocks: of the k-th blocks of all samples, and of every combination of blocks.
    count_form : callable, optional
        Like `grid_form`, but returns integers: the value is the count times `count_unit`, divided by the number of
        tuples. It also takes a stack for each column, (columns, blocks, rows).
    count_unit : float
        What a count of one is worth.
    moment_form : callable, optional
        Computes the values from the number of rows of each block and its sum of squares around the block mean.
    tensor_form, tensor_grid_form : callable, optional
        Like `aligned_form` and `grid_form`, on tensors that stay on their device.
    rises : tuple of int, optional
        For rows of numbers: 1 where the kernel rises with the rows of a sample, -1 where it falls.
    row_sums_form : callable, optional
        Of all rows of each sample: the sums of the kernel over the pairs of each row.
    deleted_form : callable, optional
        Of all rows of each sample and numbers of rows to delete: the U-statistic, and its least and largest value over
        all deletions.

    Examples
    --------
    >>> import outvote as ov
    >>> largest = ov.Kernel(lambda x, y, z: max(x, y, z), degrees=3)
    >>> ov.u_statistic([1.0, 2.0, 3.0, 4.0], kernel=largest, contamination=0, n_blocks=1).estimate
    3.75
    """

    function: Callable[..., Any]
    degrees: tuple[int, ...] = (2,)
    bounds: tuple[float, float] | None = None
    vectorized: bool | None = None
    name: str = ""
    zetas: Any = None
    columns: int | None = None
    homogeneity: int | tuple[int, ...] | None = None
    aligned_form: Callable[..., Values] | None = None
    grid_form: Callable[..., Values] | None = None
    count_form: Callable[..., NDArray[np.integer[Any]]] | None = None
    count_unit: float = 1.0
    moment_form: Callable[[Counts, Values], Values] | None = None
    tensor_form: Callable[..., Any] | None = None
    tensor_grid_form: Callable[..., Any] | None = None
    rises: tuple[int, ...] | None = None
    row_sums_form: Callable[..., list[Values]] | None = None
    deleted_form: Callable[..., tuple[float, float, float]] | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function={self.function!r} is not callable")
        degrees = tuple(self.degrees) if np.iterable(self.degrees) else (self.degrees,)
        if not degrees or any(not is_whole(d) or not 1 <= d <= _MOST_DEGREES for d in degrees):
            raise ValueError(f"degrees={self.degrees!r} must hold an integer from 1 to {_MOST_DEGREES} for each sample")
        if not isinstance(self.name, str):
            raise TypeError(f"name={self.name!r} must be text")
        if self.vectorized is not None:
            check_flags(vectorized=self.vectorized)
        if self.columns is not None:
            whole("columns", self.columns, 1)
        object.__setattr__(self, "degrees", tuple(int(d) for d in degrees))
        if not self.name:
            object.__setattr__(self, "name", getattr(self.function, "__name__", "kernel").strip("<>"))
        if self.bounds is not None:
            _check_bounds(self.bounds)
        try:
            inspect.signature(self.function).bind(*range(sum(self.degrees)))
        except TypeError:
            raise TypeError(
                f"kernel {self.name!r} must take {sum(self.degrees)} arguments, one per slot of degrees="
                f"{self.degrees}, but cannot be called with so many"
            ) from None
        except ValueError:  # a builtin without a signature: its first call shows whether it suits
            pass

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Send a named kernel by its name: some forms cannot be pickled, and the kernel is found by identity."""
        with one_at_a_time():
            from outvote.kernels.registry import KERNELS, kernel_of

        return (kernel_of, (self.name,)) if KERNELS.get(self.name) is self else super().__reduce_ex__(protocol)

    def check(self, samples: Sequence[NDArray[Any]]) -> None:
        """Refuse samples whose number or shape does not suit the kernel."""
        if len(samples) != len(self.degrees):
            raise ValueError(
                f"kernel {self.name!r} takes {len(self.degrees)} sample{'s' * (len(self.degrees) > 1)} (degrees "
                f"{self.degrees}), but {len(samples)} {'was' if len(samples) == 1 else 'were'} given"
            )
        for number, sample in enumerate(samples, 1):
            self._check_columns(sample, number)
        if self.aligned_form and len({sample.shape[1:] for sample in samples}) > 1:
            shapes = " and ".join(str(sample.shape) for sample in samples)
            raise ValueError(
                f"kernel {self.name!r} compares rows of the same length, but the samples have shapes {shapes}"
            )

    def _check_columns(self, sample: NDArray[Any], number: int) -> None:
        width = 1 if sample.ndim == 1 else sample.shape[1]
        if self.columns == 1 and sample.ndim != 1:
            raise ValueError(
                f"kernel {self.name!r} takes numbers, but sample {number} has shape {sample.shape}: pass one column"
            )
        if self.columns is not None and width != self.columns:
            raise ValueError(
                f"kernel {self.name!r} takes rows of {self.columns} numbers; sample {number} has shape {sample.shape}"
            )

    def fit(self, *tried: Sequence[NDArray[Any]]) -> Kernel:
        """Return the kernel ready to evaluate on blocks of these samples, or of several sets of samples like them."""
        if self.aligned_form is not None:
            return self
        ready = prepare(self.function, self.degrees, self.vectorized, self.name, tried)
        return replace(self, vectorized=True, **ready._asdict())

    def aligned(self, *stacks: Stack) -> Values:
        """Evaluate the U-statistic on the k-th blocks of all samples together, for every k."""
        form = self.aligned_form
        if form is None:
            form = partial(average_over_tuples, ArrayFunction(self.function, self.name), self.degrees)
        return rescaled(form, self.homogeneity, stacks)

    def grid(self, *stacks: Stack) -> Values:
        """Evaluate the U-statistic on every combination of blocks."""
        shape = tuple(map(len, stacks))
        if self.grid_form is not None and (self.homogeneity is None or have_ordinary_size(stacks)):
            return self.grid_form(*stacks)
        values = np.empty(math.prod(shape))
        step = max(1, _ROWS_AT_ONCE // max(math.prod(stack.shape[1:]) for stack in stacks))
        with watched(range(0, len(values), step), "combinations of blocks") as starts:
            for low in starts:
                combination = np.unravel_index(np.arange(low, min(low + step, len(values))), shape)
                values[low : low + step] = self.aligned(*map(np.take, stacks, combination, (0,) * len(shape)))
        return values.reshape(shape)


def torch_function(name: str, **options: Any) -> Callable[..., Any]:
    """Return a function of `outvote.torch.device.kernels`; the module, and torch, are imported on its first call."""
    return partial(_on_tensors, name, **options)  # which can be pickled


def _on_tensors(name: str, *stacks: Any, **options: Any) -> Any:
    return getattr(importlib.import_module("outvote.torch.device.kernels"), name)(*stacks, **options)


def _check_bounds(bounds: Any) -> None:
    pair = tuple(bounds) if isinstance(bounds, Sequence) and len(bounds) == 2 else (math.nan, math.nan)
    if not (all(isinstance(end, numbers.Real) for end in pair) and pair[0] < pair[1]):
        raise ValueError(f"bounds={bounds!r} must be (low, high), finite, with low < high")
