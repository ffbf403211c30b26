"""Evaluate kernels on blocks of tensors that stay on their device.

The functions without an underscore are the tensor forms that `outvote.kernels` refers to. They use the array API.
Counts are exact; other values equal those of numpy up to rounding. Blocks whose values are so large or small that
a computation may have overflowed are evaluated again on the host.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.partition import Indices, Partition, blocks_by_size
from outvote.data.tensors import is_tensor, namespace, rows_of, to_host
from outvote.kernels import KERNELS, Kernel
from outvote.kernels.distances import gap_weights
from outvote.kernels.stacks import batches, n_pairs
from outvote.torch.device.grids import count_wins

#: Numbers in one temporary tensor.
_NUMBERS_AT_ONCE = 2**24
#: Rows on each side of a tile of pairs.
_SIDE = 2048
#: A value beyond this size, or below its inverse, may come from an overflow.
_ORDINARY = 1e200


def means_of_tensor(x: Any, part: Partition) -> Any:
    """Return the mean of each block in float64, computed on the device of the rows."""
    xp = namespace(x)
    means = np.empty((len(part), *x.shape[1:]))
    for blocks in blocks_by_size([part]):
        means[blocks] = to_host(xp.sum(_stack(x, part, blocks), axis=1, dtype=xp.float64)) / part.sizes[blocks[0]]
    return means


def on_tensors(kernel: Kernel, rows: Sequence[Any], partitions: Sequence[Partition], grid: str) -> NDArray[np.float64]:
    """Evaluate a U-statistic on blocks, on the device of the rows, and return the values on the host."""
    devices = {str(x.device) if is_tensor(x) else "the host" for x in rows}
    if len(devices) > 1:
        raise TypeError(f"the samples are on {' and '.join(sorted(devices))}: put them on one device")
    full = grid == "full" and len(rows) > 1
    form = kernel.tensor_grid_form if full else kernel.tensor_form
    if form is None:
        raise TypeError(
            f"kernel {kernel.name!r} has no form for tensors on {devices.pop()}: pass x.cpu(), or one of "
            f"{', '.join(repr(name) for name, named in KERNELS.items() if named.tensor_form)}"
        )
    values = np.empty(tuple(map(len, partitions)) if full else len(partitions[0]))
    groups: Iterable[tuple[Indices, ...]] = ((blocks,) * len(rows) for blocks in blocks_by_size(partitions))
    if full:
        groups = itertools.product(*(blocks_by_size([part]) for part in partitions))
    for chosen in groups:
        stacks = [_stack(x, part, blocks) for x, part, blocks in zip(rows, partitions, chosen, strict=True)]
        found = to_host(form(*stacks))
        sizes = np.abs(found)
        unclear = np.nonzero(~((sizes < _ORDINARY) & (sizes > 1 / _ORDINARY)))
        if len(unclear[0]) and kernel.homogeneity is not None:
            cells = unclear if full else unclear * len(rows)
            found[unclear] = kernel.aligned(
                *(to_host(rows_of(stack, cell)) for stack, cell in zip(stacks, cells, strict=True))
            )
        values[np.ix_(*chosen) if full else chosen[0]] = found
    return values


def _stack(x: Any, part: Partition, blocks: Indices) -> Any:
    """Return the rows of some blocks of equal size, (blocks, size, …)."""
    if part.order is None and len(blocks) == len(part):
        return x[: len(part) * int(part.sizes[0])].reshape(len(part), -1, *x.shape[1:])
    numbers = part.stack(np.arange(len(x)), blocks)
    return rows_of(x, numbers.reshape(-1)).reshape(*numbers.shape, *x.shape[1:])


def _double(z: Any) -> Any:
    return namespace(z).astype(z, namespace(z).float64)


# --- one sample -------------------------------------------------------------------------------------------


def variance(z: Any) -> Any:
    """Compute the unbiased variance of each block."""
    centred = _centred(z)
    return namespace(z).sum(centred * centred, axis=1) / (z.shape[1] - 1)


def covariance(z: Any) -> Any:
    """Compute the unbiased covariance of the two columns of each block."""
    centred = _centred(z)
    return namespace(z).sum(centred[..., 0] * centred[..., 1], axis=1) / (z.shape[1] - 1)


def _centred(z: Any) -> Any:
    """Return the rows minus their block mean; one row is subtracted first, so that a large offset loses no digits."""
    z = _double(z)
    centred = z - z[:, :1]
    return centred - namespace(z).mean(centred, axis=1, keepdims=True)


def gini(z: Any) -> Any:
    """Compute the mean difference of each block from the gaps between its sorted rows."""
    xp, n_rows = namespace(z), z.shape[1]
    ordered = _double(xp.sort(z, axis=1))
    below = _double(xp.arange(1, n_rows, device=z.device))
    return (ordered[:, 1:] - ordered[:, :-1]) @ (below * (n_rows - below) / n_pairs(n_rows))


def wilcoxon(z: Any) -> Any:
    """Compute the share of pairs with z + z' > 0, by sorting |z|.

    In the order of |z|, positive rows first among equals, a positive row has a positive sum with every row before it.
    """
    xp = namespace(z)
    first = xp.argsort(xp.astype(z <= 0, xp.int8), axis=1, stable=True)
    z = xp.take_along_axis(z, first, axis=1)
    order = xp.argsort(xp.abs(z), axis=1, stable=True)
    positive = xp.take_along_axis(z, order, axis=1) > 0
    places = xp.arange(z.shape[1], device=z.device)
    return _double(xp.sum(xp.where(positive, places, 0), axis=1)) / n_pairs(z.shape[1])


def kendall(z: Any) -> Any:
    """Compute Kendall's tau-a from all pairs of each block, a few blocks at a time."""
    xp, (n_blocks, n_rows) = namespace(z), z.shape[:2]
    found = []
    for batch in batches(n_blocks, n_rows**2, _NUMBERS_AT_ONCE):
        part = z[batch]
        x, y = (xp.sign(part[:, :, None, j] - part[:, None, :, j]) for j in (0, 1))
        found.append(xp.sum(x * y, axis=(1, 2), dtype=xp.float64) / 2)
    return xp.concat(found) / n_pairs(n_rows)


# --- pairs of two samples: a pair x < y counts `below`, a tie counts 1 ------------------------------------


def wins(x: Any, y: Any, *, below: int) -> Any:
    """Compute the share of pairs that y wins, for the k-th blocks."""
    return _share(_count_aligned, x, y, below)


def wins_grid(x: Any, y: Any, *, below: int) -> Any:
    """Compute the share of pairs that y wins, for every block of x and every block of y."""
    return _share(count_wins, x, y, below)


def _share(count: Callable[..., Any], x: Any, y: Any, below: int) -> Any:
    counts = count(x, y, ties=True)
    if below > 1:
        counts = counts + (below - 1) * count(x, y, ties=False)
    return _double(counts) / (below * x.shape[1] * y.shape[1])


def _count_aligned(x: Any, y: Any, *, ties: bool) -> Any:
    """Count the pairs x < y of each block, and the pairs x = y too if `ties`."""
    xp, n_x, n_y = namespace(x), x.shape[1], y.shape[1]
    both = xp.concat([x, y] if ties else [y, x], axis=1)
    order = xp.argsort(both, axis=1, stable=True)
    is_y = (order >= n_x) if ties else (order < n_y)
    places = xp.arange(n_x + n_y, device=x.device)
    return xp.sum(xp.where(is_y, places, 0), axis=1) - n_pairs(n_y)


# --- distances between two samples ------------------------------------------------------------------------


def mmd(x: Any, y: Any, *, bandwidth: float) -> Any:
    """Compute the squared maximum mean discrepancy of the k-th blocks."""
    return _two_sample(_vectors(x), _vectors(y), _gaussian, 1.0, bandwidth)


def mmd_grid(x: Any, y: Any, *, bandwidth: float) -> Any:
    """Compute the squared maximum mean discrepancy of every block of x and every block of y."""
    return _two_sample_grid(_vectors(x), _vectors(y), _gaussian, 1.0, bandwidth)


def energy(x: Any, y: Any) -> Any:
    """Compute the energy distance of the k-th blocks; by sorting in one dimension."""
    if x.ndim == 3:
        return _two_sample(x, y, _root, -1.0, 1.0)
    xp, n_x, n_y = namespace(x), x.shape[1], y.shape[1]
    both = _double(xp.concat([x, y], axis=1))
    order = xp.argsort(both, axis=1)
    ordered = xp.take_along_axis(both, order, axis=1)
    x_below = _double(xp.cumulative_sum(xp.astype(order < n_x, xp.int64), axis=1)[:, :-1])
    y_below = _double(xp.arange(1, n_x + n_y, device=x.device)) - x_below
    return xp.sum((ordered[:, 1:] - ordered[:, :-1]) * gap_weights(x_below, y_below, n_x, n_y), axis=1)


def energy_grid(x: Any, y: Any) -> Any:
    """Compute the energy distance of every block of x and every block of y."""
    if x.ndim == 3:
        return _two_sample_grid(x, y, _root, -1.0, 1.0)
    xp = namespace(x)
    return xp.stack([energy(xp.broadcast_to(block, (len(y), len(block))), y) for block in x])


def _two_sample(x: Any, y: Any, function: Callable[[Any], Any], sign: float, width: float) -> Any:
    within = _within(x, function, width) + _within(y, function, width)
    return sign * (within - 2 * _sums(x, y, function, width) / (x.shape[1] * y.shape[1]))


def _two_sample_grid(x: Any, y: Any, function: Callable[[Any], Any], sign: float, width: float) -> Any:
    xp = namespace(x)
    x_within, y_within = _within(x, function, width), _within(y, function, width)
    pairs_across = x.shape[1] * y.shape[1]
    across = [_sums(xp.broadcast_to(block, (len(y), *block.shape)), y, function, width) / pairs_across for block in x]
    return sign * (x_within[:, None] + y_within - 2 * xp.stack(across))


def _within(z: Any, function: Callable[[Any], Any], width: float) -> Any:
    """Average function(‖z - z'‖²/width²) over the pairs inside each block: all ordered pairs, less the equal ones."""
    xp, n_rows = namespace(z), z.shape[1]
    zero = function(xp.zeros((1,), dtype=xp.float64, device=z.device))
    return (_sums(z, z, function, width) - n_rows * zero) / (2 * n_pairs(n_rows))


def _sums(x: Any, y: Any, function: Callable[[Any], Any], width: float) -> Any:
    """Sum function(‖x - y‖²/width²) over the pairs of each block of x with the same block of y."""
    xp, (n_blocks, n_x), n_y = namespace(x), x.shape[:2], y.shape[1]
    side = min(_SIDE, max(n_x, n_y))
    totals = []
    for batch in batches(n_blocks, side**2, _NUMBERS_AT_ONCE):
        total = xp.zeros((len(x[batch]),), dtype=xp.float64, device=x.device)
        for top in range(0, n_x, side):
            for left in range(0, n_y, side):
                a, b = (_double(z[batch, at : at + side]) for z, at in ((x, top), (y, left)))
                squares = 0.0
                for column in range(x.shape[2]):
                    squares = squares + ((a[:, :, None, column] - b[:, None, :, column]) / width) ** 2
                total = total + xp.sum(function(squares), axis=(1, 2))
        totals.append(total)
    return xp.concat(totals)


def _root(squares: Any) -> Any:
    return namespace(squares).sqrt(squares)


def _gaussian(squares: Any) -> Any:
    return namespace(squares).exp(-0.5 * squares)


def _vectors(z: Any) -> Any:
    return z if z.ndim == 3 else z[..., None]
