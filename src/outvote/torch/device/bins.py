"""Count rows in bins on the device of a tensor: the same whole numbers as :mod:`outvote.votes.evidence.grid`.

On a CUDA device a compiled function reads the rows once; elsewhere, or where it cannot be compiled, torch does.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from outvote.torch.device.bins_kernel import (
    BIN_BYTES,
    KEPT_BYTES,
    LOADS,
    MOST_NEAR,
    NEAR_BYTES,
    SIDE,
    SOURCE,
    THREADS,
    TURN,
    TURNING,
)
from outvote.torch.device.cuda import CudaFunction, function_or_none
from outvote.votes.evidence import Grid, Tallies

#: Rows looked at together where torch counts.
_AT_ONCE = 1 << 22
#: The place of a row in its bin has so many bits, its square is that of the first eight.
_PLACE = 32
#: From so many columns on a table that lies row by row is turned, so many numbers at once.
_WIDE, _TURNED = 16, 1 << 27
#: With fewer bins near the centre there would be too little shared memory for the compiled function.
_FEWEST_NEAR = 32


def tallies_of_tensor(table: Tensor, grids: Sequence[Grid]) -> list[Tallies]:
    """Count the rows of each column of a table in its own grid, on the device of the table.

    Parameters
    ----------
    table : Tensor
        Rows, float32 or float64, (n, columns).
    grids : sequence of Grid
        The bins of each column; all have as many.

    Returns
    -------
    list of Tallies
        On the host. NaN and infinities belong to the last bins.

    Examples
    --------
    >>> tallies_of_tensor(torch.tensor([[10.0], [10.01], [12.0]]), [Grid(10.0, 2.0)])[0].counts.nonzero()
    (array([2048, 2112]),)
    """
    number = grids[0].number
    found = torch.zeros((len(grids), 3, number), dtype=torch.int64, device=table.device)
    function = _function(table, number)
    if function is None:
        for j, grid in enumerate(grids):
            for start in range(0, len(table), _AT_ONCE):
                _count(table[start : start + _AT_ONCE, j], grid, found[j])
    else:
        _count_compiled(function, table, grids, found)
    lines = found.cpu().numpy()
    return [Tallies(*lines[j]) for j in range(len(grids))]


def _count(rows: Tensor, grid: Grid, found: Tensor) -> None:
    """Add rows to tallies; the compiled form is in `bins_kernel`."""
    half, shift = grid.number // 2, 52 - (grid.per_doubling.bit_length() - 1) - _PLACE
    y = rows.double() - grid.centre
    digits = (y.abs() + grid.unit).view(torch.int64) >> shift
    digits -= int(np.float64(grid.unit).view(np.int64)) >> shift
    digits.clamp_(0, (half << _PLACE) - 1)
    where = digits >> _PLACE
    where = torch.where(y < 0, half - 1 - where, half + where)
    digits &= (1 << _PLACE) - 1
    found[0].scatter_add_(0, where, torch.ones_like(where))
    found[1].scatter_add_(0, where, digits)
    digits >>= _PLACE - 8
    found[2].scatter_add_(0, where, digits.square_())


def _function(table: Tensor, number: int) -> CudaFunction | None:
    """Return the compiled function for a table, None if there is none."""
    if not table.is_cuda or torch.version.cuda is None:
        return None
    with torch.cuda.device(table.device):  # pragma: no cover
        return _compiled(table.device.index, table.dtype == torch.float64, number)


@functools.cache
def _compiled(device: int, double: bool, number: int) -> CudaFunction | None:  # pragma: no cover
    """Compile the function for a device, rows and a number of bins."""
    memory = getattr(torch.cuda.get_device_properties(device), "shared_memory_per_block_optin", 0)
    others = number * BIN_BYTES + KEPT_BYTES
    near = min((memory - others) // NEAR_BYTES // 2 - 1, MOST_NEAR, number // 2)
    if near < _FEWEST_NEAR:
        return None
    constants = {
        "Row": "double" if double else "float",
        "NUMBER": number,
        "SHIFT": 20 - ((number // 64).bit_length() - 1),
        "NEAR": near,
        "THREADS": THREADS,
        "LOADS": LOADS,
    }
    return function_or_none(SOURCE, "count", constants, (2 * near + 2) * NEAR_BYTES + others)


@functools.cache
def _turning(device: int, double: bool) -> CudaFunction | None:  # pragma: no cover
    """Compile the function that turns tables."""
    constants = {"Row": "double" if double else "float", "SIDE": SIDE, "THREADS": TURNING}
    return function_or_none(TURN, "turn", constants, 0)


def _count_compiled(
    function: CudaFunction, table: Tensor, grids: Sequence[Grid], found: Tensor
) -> None:  # pragma: no cover
    """Add the rows of a table to tallies, in one read; a wide one that lies row by row is turned first."""
    ends = torch.tensor([[one.centre, one.unit] for one in grids], dtype=torch.float64, device=table.device)
    table = table if table.stride(0) else table.contiguous()
    n_columns = len(grids)
    with torch.cuda.device(table.device):
        n_processors = torch.cuda.get_device_properties(table.device).multi_processor_count
        # Columns whose rows lie side by side are read together.
        most = n_processors if n_columns == 1 else -(-4 * n_processors // n_columns)
        turn = None
        if n_columns >= _WIDE and table.stride(0) > 1:
            turn = _turning(table.device.index, table.dtype == torch.float64)
        step = len(table) if turn is None else max(_TURNED // n_columns, 1)
        for start in range(0, len(table), step):
            part = table[start : start + step]
            if turn is not None:
                turned = part.new_empty((n_columns, len(part)))
                blocks = min(16 * n_processors, -(-len(part) // SIDE)), -(-n_columns // SIDE)
                turn(blocks, TURNING, part, len(part), n_columns, *part.stride(), turned)
                part = turned.t()
            n_blocks = min(most, -(-len(part) // (8 * THREADS)))
            function((n_columns, n_blocks), THREADS, part, len(part), *part.stride(), ends, found)
