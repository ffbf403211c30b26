"""The kernel of a U-statistic: what it takes, what it knows, and the fastest way to evaluate it on blocks."""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
import numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.kernels import closed_forms

Stack = NDArray[Any]
Values = NDArray[np.float64]
Indices = NDArray[np.intp]

#: The degrees of pairs of rows, from one sample and from two.
_PAIRS = (2,)
_CROSS = (1, 1)
#: Tuples evaluated at once.
_CHUNK = 65_536
#: A block holds fewer tuples than the inverse of this.
_SMALL = 2.0**-62
#: Tuples on which a user's function is tried before it is trusted.
_PROBES = 12
#: Rows these tuples are taken from.
_POOL = 16_384
#: Binary exponents beyond which a block is rescaled before a homogeneous kernel sees it.
_SAFE_EXPONENT = 400


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
        What the result is called; the function's name by default.
    zetas : sequence or mapping of float, optional
        Variances of the kernel's projections on clean rows (ζ), if known: see `FiniteVariance`.

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
    moment_form: Callable[[NDArray[np.int64], Values], Values] | None = None
    tensor_form: Callable[..., Any] | None = None
    tensor_grid_form: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function={self.function!r} is not callable")
        degrees = tuple(self.degrees) if np.iterable(self.degrees) else (self.degrees,)
        if not degrees or any(isinstance(d, bool) or not isinstance(d, numbers.Integral) or d < 1 for d in degrees):
            raise ValueError(f"degrees={self.degrees!r} must hold an integer of at least 1 for each sample")
        object.__setattr__(self, "degrees", tuple(int(d) for d in degrees))
        if not self.name:
            object.__setattr__(self, "name", getattr(self.function, "__name__", "kernel").strip("<>"))
        if self.bounds is not None:
            _check_bounds(self.bounds)
        try:
            inspect.signature(self.function).bind(*range(sum(self.degrees)))
        except TypeError as error:
            raise TypeError(
                f"kernel {self.name!r} must take {sum(self.degrees)} arguments, one per slot of degrees="
                f"{self.degrees}: {error}"
            ) from None
        except ValueError:  # a builtin without a signature: the first call will tell
            pass

    def check(self, samples: Sequence[NDArray[Any]]) -> None:
        """Refuse samples whose number or shape does not suit the kernel."""
        if len(samples) != len(self.degrees):
            raise ValueError(
                f"kernel {self.name!r} takes {len(self.degrees)} sample{'s' * (len(self.degrees) > 1)} (degrees "
                f"{self.degrees}), but {len(samples)} {'was' if len(samples) == 1 else 'were'} given"
            )
        for number, sample in enumerate(samples, 1):
            _check_columns(self, sample, number)
        if self.aligned_form and len({sample.shape[1:] for sample in samples}) > 1:
            shapes = " and ".join(str(sample.shape) for sample in samples)
            raise ValueError(
                f"kernel {self.name!r} compares rows of the same length, but the samples have shapes {shapes}"
            )

    def fit(self, *tried: Sequence[NDArray[Any]]) -> Kernel:
        """Return the kernel ready to evaluate on blocks of these samples, or of several times as many like them."""
        return self if self.aligned_form is not None else _ready(self, tried)

    def aligned(self, *stacks: Stack) -> Values:
        """Evaluate the U-statistic on the k-th blocks of all samples together, for every k."""
        form = self.aligned_form or partial(_over_tuples, self)
        return _rescaled(form, self.homogeneity, stacks)

    def grid(self, *stacks: Stack) -> Values:
        """Evaluate the U-statistic on every combination of blocks."""
        shape = tuple(map(len, stacks))
        if self.grid_form is not None and (self.homogeneity is None or _safe(*stacks)):
            return self.grid_form(*stacks)
        values = np.empty(math.prod(shape))
        step = max(1, _CHUNK // max(math.prod(stack.shape[1:]) for stack in stacks))
        for low in range(0, len(values), step):
            combination = np.unravel_index(np.arange(low, min(low + step, len(values))), shape)
            values[low : low + step] = self.aligned(*map(np.take, stacks, combination, (0,) * len(shape)))
        return values.reshape(shape)


def torch_function(name: str, **options: float) -> Callable[..., Any]:
    """Return a function of `outvote.torch.device.kernels`, which is imported, with torch, on the first call."""

    def form(*stacks: Any) -> Any:
        return getattr(importlib.import_module("outvote.torch.device.kernels"), name)(*stacks, **options)

    return form


def kernel_of(kernel: Kernel | str) -> Kernel:
    """Return a kernel by name, or the one given.

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


def _check_bounds(bounds: Any) -> None:
    pair = tuple(bounds) if isinstance(bounds, Sequence) and len(bounds) == 2 else (math.nan, math.nan)
    if not (all(isinstance(end, numbers.Real) for end in pair) and pair[0] < pair[1]):
        raise ValueError(f"bounds={bounds!r} must be (low, high), finite, with low < high")


def gaussian_mmd(bandwidth: float = 1.0) -> Kernel:
    """Squared maximum mean discrepancy between two samples, with a Gaussian kernel.

    Parameters
    ----------
    bandwidth : float
        Width of exp(-‖u-v‖²/(2·bandwidth²)), fixed beforehand: one chosen from contaminated rows is
        itself contaminated.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=400), rng.normal(1.0, size=400)
    >>> print(ov.u_statistic(a, b, kernel=gaussian_mmd(), contamination=2, rng=0))
    mmd 0.2 ± 1.2 (certified 95 %, 11 blocks of 36 × 11 blocks of 36, allows for 2 and 2 corrupt rows)
    """
    if not (isinstance(bandwidth, numbers.Real) and 0 < bandwidth < math.inf):
        raise ValueError(f"bandwidth={bandwidth!r} must be a positive number")
    width = float(bandwidth)

    def h(x: Stack, x2: Stack, y: Stack, y2: Stack) -> Values:
        def k(u: Stack, v: Stack) -> Values:
            return np.exp(-0.5 * (_row_norms(u - v) / width) ** 2)

        return k(x, x2) + k(y, y2) - (k(x, y) + k(x, y2) + k(x2, y) + k(x2, y2)) / 2

    return Kernel(
        h,
        (2, 2),
        bounds=(-2.0, 2.0),
        vectorized=True,
        name="mmd",
        aligned_form=partial(closed_forms.mmd, bandwidth=width),
        grid_form=partial(closed_forms.mmd_grid, bandwidth=width),
        tensor_form=torch_function("mmd", width=width),
        tensor_grid_form=torch_function("mmd_grid", width=width),
    )


def _energy(x: Stack, x2: Stack, y: Stack, y2: Stack) -> Values:
    d = _row_norms
    return (d(x - y) + d(x - y2) + d(x2 - y) + d(x2 - y2)) / 2 - d(x - x2) - d(y - y2)


def _row_norms(z: Stack) -> Values:
    return np.abs(z) if z.ndim == 1 else np.sqrt(np.square(z).sum(axis=-1))


def _energy_grid(x: Stack, y: Stack) -> Values:
    """In one dimension sorting the two blocks is cheaper than all pairs, so take the blocks two by two."""
    if x.ndim == 3:
        return closed_forms.energy_grid(x, y)
    return np.stack([closed_forms.energy(np.broadcast_to(block, (len(y), len(block))), y) for block in x])


#: The named kernels. `function` is the definition; the forms beside it are what is computed.
KERNELS: dict[str, Kernel] = {
    kernel.name: kernel
    for kernel in (
        Kernel(
            lambda z, w: (z - w) ** 2 / 2,
            (2,),
            None,
            True,
            "variance",
            columns=1,
            homogeneity=2,
            aligned_form=closed_forms.variance,
            moment_form=closed_forms.variance_from_moments,
            tensor_form=torch_function("variance"),
        ),
        Kernel(
            lambda z, w: (z[..., 0] - w[..., 0]) * (z[..., 1] - w[..., 1]) / 2,
            (2,),
            None,
            True,
            "covariance",
            columns=2,
            homogeneity=(1, 1),
            aligned_form=closed_forms.covariance,
            tensor_form=torch_function("covariance"),
        ),
        Kernel(
            lambda z, w: np.abs(z - w),
            (2,),
            None,
            True,
            "gini",
            columns=1,
            homogeneity=1,
            aligned_form=closed_forms.gini,
            tensor_form=torch_function("gini"),
        ),
        Kernel(
            lambda z, w: z + w > 0,
            (2,),
            (0.0, 1.0),
            True,
            "wilcoxon",
            columns=1,
            aligned_form=closed_forms.wilcoxon,
            tensor_form=torch_function("wilcoxon"),
        ),
        Kernel(
            lambda z, w: np.sign(z[..., 0] - w[..., 0]) * np.sign(z[..., 1] - w[..., 1]),
            (2,),
            (-1.0, 1.0),
            True,
            "kendall",
            columns=2,
            aligned_form=closed_forms.kendall,
            tensor_form=torch_function("kendall"),
        ),
        Kernel(
            lambda x, y: x <= y,
            (1, 1),
            (0.0, 1.0),
            True,
            "mann-whitney",
            columns=1,
            aligned_form=closed_forms.mann_whitney,
            grid_form=closed_forms.mann_whitney_grid,
            count_form=closed_forms.mann_whitney_counts,
            tensor_form=torch_function("mann_whitney"),
            tensor_grid_form=torch_function("mann_whitney_grid"),
        ),
        Kernel(
            lambda x, y: (x < y) + (x == y) / 2,
            (1, 1),
            (0.0, 1.0),
            True,
            "auc",
            columns=1,
            aligned_form=closed_forms.auc,
            grid_form=closed_forms.auc_grid,
            count_form=closed_forms.auc_counts,
            tensor_form=torch_function("auc"),
            tensor_grid_form=torch_function("auc_grid"),
            count_unit=0.5,
        ),
        gaussian_mmd(),
        Kernel(
            _energy,
            (2, 2),
            None,
            True,
            "energy",
            homogeneity=1,
            aligned_form=closed_forms.energy,
            grid_form=_energy_grid,
            tensor_form=torch_function("energy"),
            tensor_grid_form=torch_function("energy_grid"),
        ),
    )
}


def _check_columns(kernel: Kernel, sample: NDArray[Any], number: int) -> None:
    width = 1 if sample.ndim == 1 else sample.shape[1]
    if kernel.columns == 1 and sample.ndim != 1:
        raise ValueError(
            f"kernel {kernel.name!r} takes numbers, but sample {number} has shape {sample.shape}: pass one column"
        )
    if kernel.columns is not None and width != kernel.columns:
        raise ValueError(
            f"kernel {kernel.name!r} takes rows of {kernel.columns} numbers; sample {number} has shape {sample.shape}"
        )


def _ready(kernel: Kernel, tried: Sequence[Sequence[NDArray[Any]]]) -> Kernel:
    """Try a user's function on a few tuples: how it wants its rows, and whether it is symmetric."""
    several = [_probe_tuples(kernel.degrees, samples) for samples in tried]
    probes = several[0] if len(several) == 1 else [np.concatenate(slot) for slot in zip(*several, strict=True)]
    if kernel.vectorized:
        function = kernel.function
        expected = _values(kernel, function, probes)
    else:
        scalar = _by_rows(kernel)
        expected = _values(kernel, scalar, probes)
        function = scalar
        if kernel.vectorized is None:
            ufunc = _compiled(kernel, tried[0])
            if ufunc is not None and kernel.degrees in (_PAIRS, _CROSS):
                _check_symmetric(kernel, scalar, probes, expected)
                return _looped(kernel, ufunc)
            function = ufunc or (kernel.function if _takes_arrays(kernel, probes, expected) else scalar)
    _check_symmetric(kernel, function, probes, expected)
    return _vectorized(kernel, function)


def _vectorized(
    kernel: Kernel,
    function: Callable[..., Any],
    aligned_form: Callable[..., Values] | None = None,
    grid_form: Callable[..., Values] | None = None,
) -> Kernel:
    return Kernel(
        function,
        kernel.degrees,
        kernel.bounds,
        True,
        kernel.name,
        kernel.zetas,
        aligned_form=aligned_form,
        grid_form=grid_form,
    )


def _probe_tuples(degrees: tuple[int, ...], samples: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """A few tuples of rows, one array per slot; always the same for the same samples.

    The rows of a tuple differ where they can: equal ones say nothing about symmetry.
    """
    rng = np.random.default_rng(0)
    slots: list[NDArray[Any]] = []
    for degree, sample in zip(degrees, samples, strict=True):
        some = sample if len(sample) <= _POOL else sample[rng.choice(len(sample), size=_POOL, replace=False)]
        distinct = np.unique(some, axis=0)
        pool = (distinct if len(distinct) >= degree else some).astype(np.float64)
        rows = np.stack([rng.choice(len(pool), size=degree, replace=False) for _ in range(_PROBES)])
        slots += [pool[rows[:, slot]] for slot in range(degree)]
    return slots


def _by_rows(kernel: Kernel) -> Callable[..., Values]:
    """Wrap a function of single rows as one of arrays of rows."""

    def function(*slots: Stack) -> Values:
        values = [kernel.function(*rows) for rows in zip(*slots, strict=True)]
        for value in values:
            if np.ndim(value) != 0:
                raise ValueError(
                    f"kernel {kernel.name!r} returned shape {np.shape(value)} for one tuple; expected a single number"
                )
        return np.asarray(values)

    return function


def _takes_arrays(kernel: Kernel, probes: Sequence[Stack], expected: Values) -> bool:
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(kernel.function(*probes))
    except Exception:  # a function of single rows may fail in any way on arrays
        return False
    return values.shape == expected.shape and _equal(values, expected)


def _compiled(kernel: Kernel, samples: Sequence[NDArray[Any]]) -> Callable[..., Any] | None:
    """For a numba function of numbers, return it as a ufunc, compiled when it is first called."""
    python_function = getattr(kernel.function, "py_func", None)
    if python_function is None or any(sample.ndim > 1 for sample in samples):
        return None
    return _ufunc(python_function)


@lru_cache(maxsize=64)
def _ufunc(python_function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile once for each function, not once for each call."""
    import numba

    ufunc: Callable[..., Any] = numba.vectorize(python_function)
    return ufunc


def _looped(kernel: Kernel, ufunc: Callable[..., Any]) -> Kernel:
    """Return the kernel of a numba function of two numbers, with compiled loops over pairs."""
    careful = _vectorized(kernel, ufunc)
    compiled = _numba.compiled(math.inf)
    if compiled is None:
        return careful
    if kernel.degrees == _PAIRS:
        return _vectorized(
            kernel, ufunc, aligned_form=partial(_within_by_loops, careful, compiled.sums_within(kernel.function))
        )
    loops = partial(_across_by_loops, careful, compiled.sums_across(kernel.function))
    return _vectorized(
        kernel,
        ufunc,
        aligned_form=lambda x, y: loops(x, y, np.arange(len(x)), np.arange(len(x))),
        grid_form=lambda x, y: loops(x, y, *map(np.ravel, np.indices((len(x), len(y))))).reshape(len(x), len(y)),
    )


def _within_by_loops(kernel: Kernel, loops: Callable[..., Values], z: Stack) -> Values:
    averages = loops(np.ascontiguousarray(z, dtype=np.float64)) / math.comb(z.shape[1], 2)
    unclear = np.flatnonzero(~np.isfinite(averages))
    if len(unclear):
        averages[unclear] = _over_tuples(kernel, z[unclear])
    return averages


def _across_by_loops(
    kernel: Kernel, loops: Callable[..., Values], x: Stack, y: Stack, x_blocks: Indices, y_blocks: Indices
) -> Values:
    totals = loops(*(np.ascontiguousarray(stack, dtype=np.float64) for stack in (x, y)), x_blocks, y_blocks)
    averages = totals / (x.shape[1] * y.shape[1])
    unclear = np.flatnonzero(~np.isfinite(averages))
    if len(unclear):
        averages[unclear] = _over_tuples(kernel, x[x_blocks[unclear]], y[y_blocks[unclear]])
    return averages


def _check_symmetric(kernel: Kernel, function: Callable[..., Any], probes: Sequence[Stack], expected: Values) -> None:
    first = 0
    for degree in kernel.degrees:
        for slot in range(first, first + degree - 1):
            swapped = list(probes)
            swapped[slot], swapped[slot + 1] = swapped[slot + 1], swapped[slot]
            values = _values(kernel, function, swapped)
            if not _equal(values, expected):
                with np.errstate(invalid="ignore"):
                    worst = int(np.nanargmax(np.abs(values - expected)))
                raise ValueError(
                    f"kernel {kernel.name!r} is not symmetric in the rows of one sample: swapping arguments {slot + 1} "
                    f"and {slot + 2} changes {expected[worst]:.6g} into {values[worst]:.6g}. "
                    "Average it over the orders of its arguments"
                )
        first += degree


def _values(kernel: Kernel, function: Callable[..., Any], slots: Sequence[Stack]) -> Values:
    """Call the function and check what it returns."""
    array = _called(kernel, function, slots)
    _refuse_nan(kernel, array)
    return array.astype(np.float64, copy=False)


def _called(kernel: Kernel, function: Callable[..., Any], slots: Sequence[Stack]) -> NDArray[Any]:
    """Call the function; a value too large for a float is infinite, and no warning."""
    length = len(slots[0])
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        array = np.asarray(function(*slots))
    if array.dtype.kind not in "biuf":
        raise TypeError(f"kernel {kernel.name!r} returned {array.dtype} values; expected real numbers")
    if array.shape != (length,):
        raise ValueError(
            f"kernel {kernel.name!r} returned shape {array.shape} for {length} tuples; expected {(length,)}"
        )
    return array


def _refuse_nan(kernel: Kernel, values: NDArray[Any]) -> None:
    if np.isnan(values).any():
        raise ValueError(f"kernel {kernel.name!r} returned NaN for a tuple of finite rows")


def _equal(values: Values, expected: Values) -> bool:
    largest = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0))
    return bool(np.allclose(values, expected, rtol=1e-9, atol=1e-12 * largest))


def _over_tuples(kernel: Kernel, *stacks: Stack) -> Values:
    """Average the kernel over all tuples of each block, each unordered tuple once, a chunk at a time."""
    with np.errstate(over="ignore", invalid="ignore"):
        averages = _averages(kernel, stacks, 1.0)
        unclear = np.flatnonzero(~np.isfinite(averages))
        if len(unclear):
            # The sum of the values may have overflowed, or infinities of both signs met.
            careful = _averages(kernel, [stack[unclear] for stack in stacks], _SMALL) / _SMALL
            averages[unclear] = np.where(np.isnan(careful), np.inf, careful)
    return averages


def _averages(kernel: Kernel, stacks: Sequence[Stack], scale: float) -> Values:
    n_blocks = len(stacks[0])
    sizes = tuple(stack.shape[1] for stack in stacks)
    totals = np.zeros(n_blocks)
    n_tuples = math.prod(math.comb(b, d) for b, d in zip(sizes, kernel.degrees, strict=True))
    width = max(math.prod(stack.shape[2:]) for stack in stacks)
    chunk = max(1, _CHUNK // width)
    for length, take in _tuples(sizes, kernel.degrees, chunk):
        step = max(1, chunk // length)
        for low in range(0, n_blocks, step):
            batch = slice(low, min(low + step, n_blocks))
            arguments = [rows.astype(np.float64, copy=False) for rows in take([stack[batch] for stack in stacks])]
            values = _called(kernel, kernel.function, arguments)
            scaled = values if scale == 1.0 else values * scale
            sums = scaled.reshape(-1, length).sum(axis=1, dtype=np.float64)
            if np.isnan(sums).any():  # infinities of both signs are none of the function's doing
                _refuse_nan(kernel, values)
            totals[batch] += sums
    return totals / n_tuples


def _tuples(
    sizes: tuple[int, ...], degrees: tuple[int, ...], chunk: int
) -> Iterator[tuple[int, Callable[[Sequence[Stack]], list[Stack]]]]:
    """Yield the tuples of a block in chunks: how many there are, and how to take them from stacks, an array a slot.

    Pairs come in tiles, whose rows are repeated rather than looked up.
    """
    if degrees not in (_PAIRS, _CROSS):
        for slots in tuple_chunks(sizes, degrees, chunk):
            yield len(slots[0][1]), partial(_take, slots=slots)
        return
    side = max(1, math.isqrt(chunk))
    for top in range(0, sizes[0], side):
        height = min(side, sizes[0] - top)
        for left in range(0, sizes[-1], side):
            width = min(side, sizes[-1] - left)
            if degrees == _CROSS or left > top:
                yield height * width, partial(_tile, rows=slice(top, top + height), columns=slice(left, left + width))
            elif left == top and height > 1:
                yield math.comb(height, 2), partial(_take, slots=[(0, top + rows) for rows in _triangle(height)])


@lru_cache(maxsize=8)
def _triangle(side: int) -> tuple[Indices, Indices]:
    return np.triu_indices(side, 1)


def _tile(stacks: Sequence[Stack], rows: slice, columns: slice) -> list[Stack]:
    """Every row of the first stack with every one of the last, block by block, as new arrays."""
    sides = stacks[0][:, rows, None], stacks[-1][:, None, columns]
    shape = (len(sides[0]), sides[0].shape[1], sides[1].shape[2])
    slots = [np.empty((*shape, *side.shape[3:])) for side in sides]
    for slot, side in zip(slots, sides, strict=True):
        slot[:] = side
    return [slot.reshape(-1, *slot.shape[3:]) for slot in slots]


def _take(stacks: Sequence[Stack], slots: Sequence[tuple[int, Indices]]) -> list[Stack]:
    return [stacks[s].take(rows, axis=1).reshape(-1, *stacks[s].shape[2:]) for s, rows in slots]


def tuple_chunks(
    sizes: tuple[int, ...], degrees: tuple[int, ...], chunk: int = _CHUNK
) -> Iterator[list[tuple[int, NDArray[np.int64]]]]:
    """Enumerate the tuples of rows of one block (of each sample), a chunk at a time.

    Yields, for each slot, its sample and the row of every tuple of the chunk. Tuples are numbered, so that no
    more than a chunk of them exists at any time.

    Examples
    --------
    >>> for slots in tuple_chunks((3,), (2,)):
    ...     print([(sample, rows.tolist()) for sample, rows in slots])
    [(0, [1, 2, 2]), (0, [0, 0, 1])]
    """
    counts = [math.comb(b, d) for b, d in zip(sizes, degrees, strict=True)]
    total = math.prod(counts)
    if total * _SMALL >= 1:
        raise ValueError(f"blocks of {sizes} rows hold {total:.3g} tuples: use more and smaller blocks")
    tables = [
        [np.array([min(math.comb(c, d), total) for c in range(size)]) for d in range(degree, 0, -1)]
        for size, degree in zip(sizes, degrees, strict=True)
    ]
    for low in range(0, total, chunk):
        rank = np.arange(low, min(low + chunk, total))
        slots: list[tuple[int, NDArray[np.int64]]] = []
        for sample, (count, binomials) in enumerate(zip(counts, tables, strict=True)):
            slots += [(sample, rows) for rows in _unrank(rank % count, binomials)]
            rank = rank // count
        yield slots


def _unrank(rank: NDArray[np.int64], tables: Sequence[NDArray[np.int64]]) -> Iterator[NDArray[np.int64]]:
    """The rows c_d > … > c_1 of the subset numbered C(c_d, d) + … + C(c_1, 1), from tables of C(·, d) … C(·, 1)."""
    for table in tables:
        row = np.searchsorted(table, rank, side="right") - 1
        rank = rank - table[row]
        yield row


def _safe(*stacks: Stack) -> bool:
    return not any(_exponents([stack], by_column=False).any() for stack in stacks)


def _exponents(stacks: Sequence[Stack], *, by_column: bool) -> NDArray[np.int64]:
    """For each block (and column) the power of two to divide by, 0 where its values are of ordinary size."""
    sizes = [np.abs(stack).reshape(*stack.shape[:2], -1).max(axis=1 if by_column else (1, 2)) for stack in stacks]
    largest = np.max(sizes, axis=0).reshape(len(stacks[0]), -1).astype(np.float64)
    exponents = np.frexp(largest)[1].astype(np.int64)
    return np.where((largest > 0) & (np.abs(exponents) > _SAFE_EXPONENT), exponents, 0)


def _rescaled(
    form: Callable[..., Values], homogeneity: int | tuple[int, ...] | None, stacks: Sequence[Stack]
) -> Values:
    """Evaluate `form` on blocks brought to ordinary size, where it is homogeneous, and scale back.

    Rows near 1e308 then overflow nothing but a value that is itself too large, which votes as infinite.
    A tuple says that the form is homogeneous in each column apart.
    """
    if homogeneity is None:
        return form(*stacks)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        values = form(*stacks)
    sizes, most = np.abs(values), 2.0 ** (2 * _SAFE_EXPONENT)
    if np.all((sizes > 1 / most) & (sizes < most)):  # nothing has overflowed, and nothing small was lost
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
