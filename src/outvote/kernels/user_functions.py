"""Try a user's function: find out how it takes its rows, and refuse it if it is not symmetric."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.kernels.stacks import Stack, Values
from outvote.kernels.tuples import CROSS_PAIRS, PAIRS, ArrayFunction, Indices, average_over_tuples

#: Tuples on which a function is tried.
_PROBES = 12
#: The most rows from which these tuples are drawn.
_POOL = 16_384


class Prepared(NamedTuple):
    """A function of arrays of rows, and forms on blocks if it is compiled."""

    function: Callable[..., Any]
    aligned_form: Callable[..., Values] | None = None
    grid_form: Callable[..., Values] | None = None


def prepare(
    function: Callable[..., Any],
    degrees: tuple[int, ...],
    vectorized: bool | None,
    name: str,
    tried: Sequence[Sequence[NDArray[Any]]],
) -> Prepared:
    """Try a function on a few tuples of the samples, and return the fastest way to call it.

    Parameters
    ----------
    function, degrees, vectorized, name
        As for `outvote.Kernel`.
    tried : sequence of sequences of ndarray
        The samples; or several of each, if the kernel will be evaluated on several columns.

    Returns
    -------
    Prepared
        The function of arrays of rows. Compiled functions of two numbers get compiled loops over pairs.
    """
    several = [_probe_tuples(degrees, samples) for samples in tried]
    probes = several[0] if len(several) == 1 else [np.concatenate(slot) for slot in zip(*several, strict=True)]
    if vectorized:
        chosen = function
        expected = _values(ArrayFunction(function, name), probes)
    else:
        chosen = by_row = _by_row(function, name)
        expected = _values(ArrayFunction(by_row, name), probes)
        if vectorized is None:
            ufunc = _as_ufunc(function, tried[0])
            if ufunc is not None and degrees in (PAIRS, CROSS_PAIRS):
                _check_symmetric(ArrayFunction(by_row, name), degrees, probes, expected)
                return _with_loops(function, ufunc, degrees, name)
            chosen = ufunc or (function if _takes_arrays(function, probes, expected) else by_row)
    _check_symmetric(ArrayFunction(chosen, name), degrees, probes, expected)
    return Prepared(chosen)


def _probe_tuples(degrees: tuple[int, ...], samples: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Draw a few tuples of rows, one array for each slot; the same samples always give the same tuples.

    The rows of a tuple differ where possible: equal rows cannot show that a function is not symmetric.
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


def _values(function: ArrayFunction, slots: Sequence[Stack]) -> Values:
    array = function([slot.copy() for slot in slots])  # which it may overwrite
    function.refuse_nan(array)
    return array.astype(np.float64, copy=False)


def _by_row(function: Callable[..., Any], name: str) -> Callable[..., NDArray[Any]]:
    """Wrap a function of single rows as a function of arrays of rows."""

    def of_arrays(*slots: Stack) -> NDArray[Any]:
        values = [function(*rows) for rows in zip(*slots, strict=True)]
        for value in values:
            if np.ndim(value) != 0:
                raise ValueError(
                    f"kernel {name!r} returned shape {np.shape(value)} for one tuple; expected a single number"
                )
        return np.asarray(values)

    return of_arrays


def _takes_arrays(function: Callable[..., Any], probes: Sequence[Stack], expected: Values) -> bool:
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(function(*(slot.copy() for slot in probes)))
    except Exception:  # a function of single rows may raise anything on arrays
        return False
    return values.shape == expected.shape and _equal(values, expected)


def _check_symmetric(
    function: ArrayFunction, degrees: tuple[int, ...], probes: Sequence[Stack], expected: Values
) -> None:
    """Raise an error if swapping two neighbouring slots of one sample changes a value."""
    first = 0
    for degree in degrees:
        for slot in range(first, first + degree - 1):
            swapped = list(probes)
            swapped[slot], swapped[slot + 1] = swapped[slot + 1], swapped[slot]
            values = _values(function, swapped)
            if not _equal(values, expected):
                with np.errstate(over="ignore", invalid="ignore"):
                    away = np.abs(values - expected)
                equal = (values == expected) | (np.isnan(values) & np.isnan(expected))
                worst = int(np.argmax(np.where(equal, 0.0, np.where(np.isnan(away), np.inf, away))))
                raise ValueError(
                    f"kernel {function.name!r} is not symmetric in the rows of one sample: swapping arguments "
                    f"{slot + 1} and {slot + 2} changes {expected[worst]:.6g} into {values[worst]:.6g}. "
                    "Average it over the orders of its arguments"
                )
        first += degree


def _equal(values: Values, expected: Values) -> bool:
    largest = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0))
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.allclose(values, expected, rtol=1e-9, atol=1e-12 * largest))


# --- functions compiled with numba ------------------------------------------------------------------------


def _as_ufunc(function: Callable[..., Any], samples: Sequence[NDArray[Any]]) -> Callable[..., Any] | None:
    """Return a numba function of numbers as a ufunc, which is compiled on its first call; None for other functions."""
    python_function = getattr(function, "py_func", None)
    if python_function is None or any(sample.ndim > 1 for sample in samples):
        return None
    return _ufunc(python_function)


@lru_cache(maxsize=64)
def _ufunc(python_function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile once for each function, not once for each call."""
    import numba

    ufunc: Callable[..., Any] = numba.vectorize(python_function)
    return ufunc


def _with_loops(
    function: Callable[..., Any], ufunc: Callable[..., Any], degrees: tuple[int, ...], name: str
) -> Prepared:
    """Add compiled loops over pairs to a numba function of two numbers."""
    compiled = _numba.compiled(math.inf)
    if compiled is None:
        return Prepared(ufunc)
    checked = ArrayFunction(ufunc, name)
    if degrees == PAIRS:
        return Prepared(ufunc, partial(_average_within, checked, compiled.sums_within(function)))
    average = partial(_average_across, checked, compiled.sums_across(function))
    return Prepared(
        ufunc,
        lambda x, y: average(x, y, np.arange(len(x)), np.arange(len(x))),
        lambda x, y: average(x, y, *map(np.ravel, np.indices((len(x), len(y))))).reshape(len(x), len(y)),
    )


def _average_within(checked: ArrayFunction, loops: Callable[..., Values], z: Stack) -> Values:
    """Average over the pairs of each block; blocks whose sum is not finite are evaluated again, with checks."""
    averages = loops(np.ascontiguousarray(z, dtype=np.float64)) / math.comb(z.shape[1], 2)
    unclear = np.flatnonzero(~np.isfinite(averages))
    if len(unclear):
        averages[unclear] = average_over_tuples(checked, PAIRS, z[unclear])
    return averages


def _average_across(
    checked: ArrayFunction, loops: Callable[..., Values], x: Stack, y: Stack, x_blocks: Indices, y_blocks: Indices
) -> Values:
    """Average over the pairs of two samples, for given blocks of each; sums that are not finite as above."""
    totals = loops(*(np.ascontiguousarray(stack, dtype=np.float64) for stack in (x, y)), x_blocks, y_blocks)
    averages = totals / (x.shape[1] * y.shape[1])
    unclear = np.flatnonzero(~np.isfinite(averages))
    if len(unclear):
        averages[unclear] = average_over_tuples(checked, CROSS_PAIRS, x[x_blocks[unclear]], y[y_blocks[unclear]])
    return averages
