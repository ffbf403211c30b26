"""Distances between two samples: the squared maximum mean discrepancy (mmd) and the energy distance.

Both are means of a function of ‖u - v‖ within the samples and across them. No form builds an array of all pairs of
rows: pairs come in tiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from outvote.data.arguments import is_number, real
from outvote.kernels.kernel import Kernel, torch_function
from outvote.kernels.stacks import Stack, Values, batches, n_pairs

#: Rows on each side of a tile of pairs.
_SIDE = 256
#: Numbers in one temporary array.
_NUMBERS_AT_ONCE = 2**18


def gaussian_mmd(bandwidth: float = 1.0) -> Kernel:
    """Squared maximum mean discrepancy between two samples, with a Gaussian kernel.

    Parameters
    ----------
    bandwidth : float
        Width of exp(-‖u-v‖²/(2·bandwidth²)). Fix it beforehand: a bandwidth chosen from contaminated rows is itself
        contaminated.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=400), rng.normal(1.0, size=400)
    >>> print(ov.u_statistic(a, b, kernel=gaussian_mmd(), contamination=2, rng=0))
    mmd 0.20, between -0.17 and 0.54 (certified 95 %, allows for 2 and 2 corrupt rows)
    """
    width = checked_bandwidth(bandwidth)
    return Kernel(
        partial(_mmd_of_tuple, bandwidth=width),
        degrees=(2, 2),
        bounds=(-2.0, 2.0),
        vectorized=True,
        name="mmd",
        aligned_form=partial(mmd, bandwidth=width),
        grid_form=partial(mmd_grid, bandwidth=width),
        tensor_form=torch_function("mmd", bandwidth=width),
        tensor_grid_form=torch_function("mmd_grid", bandwidth=width),
    )


def checked_bandwidth(bandwidth: object) -> float:
    """Return a bandwidth as a float, or refuse it."""
    width = real("bandwidth", bandwidth) if is_number(bandwidth) else math.nan
    if not 0 < width < math.inf:
        raise ValueError(f"bandwidth={bandwidth!r} must be a positive number")
    return width


def similarities(x: Stack, y: Stack, bandwidth: float) -> tuple[Values, Values]:
    """Average exp(-‖u-v‖²/(2·bandwidth²)) over y for each row of x, and over x for each row of y, tile by tile.

    Where x *is* y, pairs of a row with itself count too, and both answers are one.
    """
    stacks, same = [_vectors(x[None]), _vectors(y[None])], x is y
    of_x, of_y = np.zeros(len(x)), np.zeros(len(y))
    for rows in _tiles(len(x)):
        for columns in _tiles(len(y)):
            if same and columns.start < rows.start:
                continue
            tile = _gaussian(_squared_distances(stacks[0][:, rows], stacks[1][:, columns], bandwidth))[0]
            of_x[rows] += tile.sum(axis=1)
            if not same or columns.start > rows.start:
                of_y[columns] += tile.sum(axis=0)
    if same:
        of_x += of_y
        of_y = of_x
    return of_x / len(y), of_y / len(x)


def mmd(x: Stack, y: Stack, bandwidth: float) -> Values:
    """Compute the squared maximum mean discrepancy of the k-th blocks, unbiased."""
    return _two_sample(_vectors(x), _vectors(y), _gaussian, sign=1.0, width=bandwidth)


def mmd_grid(x: Stack, y: Stack, bandwidth: float) -> Values:
    """Compute the squared maximum mean discrepancy of every block of x and every block of y."""
    return _two_sample_grid(_vectors(x), _vectors(y), _gaussian, sign=1.0, width=bandwidth)


def energy(x: Stack, y: Stack) -> Values:
    """Compute 2·E‖X-Y‖ - E‖X-X'‖ - E‖Y-Y'‖ of the k-th blocks, unbiased; by sorting in one dimension."""
    if x.ndim == 3:
        return _two_sample(x, y, np.sqrt, sign=-1.0)
    n_x, n_y = x.shape[1], y.shape[1]
    both = np.concatenate([x, y], axis=1, dtype=np.float64)
    order = np.argsort(both, axis=1)
    gaps = np.diff(np.take_along_axis(both, order, axis=1), axis=1)
    x_below = np.cumsum(order < n_x, axis=1)[:, :-1]
    y_below = np.arange(1, n_x + n_y) - x_below
    return np.einsum("kb,kb->k", gaps, gap_weights(x_below, y_below, n_x, n_y))


def gap_weights(x_below: Any, y_below: Any, n_x: int, n_y: int) -> Any:
    """Compute how much a gap between sorted numbers adds to the energy distance, per unit of its length.

    A pair counts if one of its rows is below the gap and the other above. `x_below` and `y_below` are the numbers of
    rows below each gap, in an array or a tensor.
    """
    x_above, y_above = n_x - x_below, n_y - y_below
    return (
        2 * (x_below * y_above + y_below * x_above) / (n_x * n_y)
        - x_below * x_above / n_pairs(n_x)
        - y_below * y_above / n_pairs(n_y)
    )


def energy_grid(x: Stack, y: Stack) -> Values:
    """Compute the energy distance of every block of x and every block of y.

    In one dimension each two blocks are sorted: that is cheaper than all pairs of rows.
    """
    if x.ndim == 3:
        return _two_sample_grid(x, y, np.sqrt, sign=-1.0)
    return np.stack([energy(np.broadcast_to(block, (len(y), len(block))), y) for block in x])


def _mmd_of_tuple(x: Stack, x2: Stack, y: Stack, y2: Stack, bandwidth: float) -> Values:
    def k(u: Stack, v: Stack) -> Values:
        return np.exp(-0.5 * (_row_norms(u - v) / bandwidth) ** 2)

    return k(x, x2) + k(y, y2) - (k(x, y) + k(x, y2) + k(x2, y) + k(x2, y2)) / 2


def _energy_of_tuple(x: Stack, x2: Stack, y: Stack, y2: Stack) -> Values:
    d = _row_norms
    return (d(x - y) + d(x - y2) + d(x2 - y) + d(x2 - y2)) / 2 - d(x - x2) - d(y - y2)


def _row_norms(z: Stack) -> Values:
    return np.abs(z) if z.ndim == 1 else np.sqrt(np.square(z).sum(axis=-1))


def _two_sample(x: Stack, y: Stack, function: Callable[[Any], Any], sign: float, width: float = 1.0) -> Values:
    within = _mean_within(x, function, width) + _mean_within(y, function, width)
    return sign * (within - 2 * _mean_across(x, y, function, width))


def _two_sample_grid(x: Stack, y: Stack, function: Callable[[Any], Any], sign: float, width: float = 1.0) -> Values:
    values = np.empty((len(x), len(y)))
    x_within, y_within = _mean_within(x, function, width), _mean_within(y, function, width)
    for k in range(len(x)):
        across = _mean_across(np.broadcast_to(x[k], (len(y), *x.shape[1:])), y, function, width)
        values[k] = sign * (x_within[k] + y_within - 2 * across)
    return values


def _mean_across(x: Stack, y: Stack, function: Callable[[Any], Any], width: float) -> Values:
    """Average function(‖x - y‖²/width²) over the pairs of each block of x with the same block of y."""
    totals = np.zeros(len(x))
    for rows in _tiles(x.shape[1]):
        for columns in _tiles(y.shape[1]):
            for batch in batches(len(x), _area(rows, columns), _NUMBERS_AT_ONCE):
                squares = _squared_distances(x[batch][:, rows], y[batch][:, columns], width)
                totals[batch] += function(squares).sum(axis=(1, 2))
    return totals / (x.shape[1] * y.shape[1])


def _mean_within(x: Stack, function: Callable[[Any], Any], width: float) -> Values:
    """Average function(‖x - x'‖²/width²) over the pairs inside each block."""
    totals = np.zeros(len(x))
    for rows in _tiles(x.shape[1]):
        for columns in _tiles(x.shape[1]):
            if columns.start < rows.start:
                continue
            for batch in batches(len(x), _area(rows, columns), _NUMBERS_AT_ONCE):
                values = function(_squared_distances(x[batch][:, rows], x[batch][:, columns], width))
                if columns.start == rows.start:
                    values = values[(slice(None), *np.triu_indices(values.shape[1], 1))]
                totals[batch] += values.reshape(len(values), -1).sum(axis=1)
    return totals / n_pairs(x.shape[1])


def _squared_distances(x: Stack, y: Stack, width: float) -> Values:
    """Compute ‖x_i - y_j‖²/width² from differences, not from products: exact for equal rows and at any offset."""
    squares = np.zeros((len(x), x.shape[1], y.shape[1]))
    with np.errstate(over="ignore"):  # a distance too large for a float is infinite
        for column in range(x.shape[2]):
            difference = np.subtract(x[:, :, None, column], y[:, None, :, column], dtype=np.float64)
            if width != 1:
                difference /= width
            squares += np.square(difference, out=difference)
    return squares


def _gaussian(squares: Values) -> Values:
    values: Values = np.exp(-0.5 * squares)
    return values


def _vectors(z: Stack) -> Stack:
    return z if z.ndim == 3 else z[..., None]


def _tiles(n_rows: int) -> Iterator[slice]:
    return (slice(low, min(low + _SIDE, n_rows)) for low in range(0, n_rows, _SIDE))


def _area(rows: slice, columns: slice) -> int:
    area: int = (rows.stop - rows.start) * (columns.stop - columns.start)
    return area


MMD = gaussian_mmd()

ENERGY = Kernel(
    _energy_of_tuple,
    degrees=(2, 2),
    vectorized=True,
    name="energy",
    homogeneity=1,
    aligned_form=energy,
    grid_form=energy_grid,
    tensor_form=torch_function("energy"),
    tensor_grid_form=torch_function("energy_grid"),
)
