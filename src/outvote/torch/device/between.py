"""Take the rows between two numbers out of a tensor, on its device, and count those below."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from outvote.torch.device.cuda import CudaFunction, function_or_none

#: Rows looked at together where torch selects.
_AT_ONCE = 1 << 27
#: Threads of a block, rows that each loads together, and blocks on each multiprocessor.
_THREADS, _ROWS, _BLOCKS = 256, 16, 8

#: One read of the rows; each block writes the rows of a tile that lie between the ends where the last block stopped.
_SOURCE = r"""
typedef unsigned long long Long;

extern "C" __global__ void __launch_bounds__(THREADS)
between(const Row *rows, long long n_rows, long long step, const double *ends, long long room, Row *found,
        Long *counts) {
    __shared__ unsigned taken;
    __shared__ Long start;
    const double low = ends[0], high = ends[1];
    const unsigned lane = threadIdx.x % 32;
    Long below = 0;
    for (long long tile = blockIdx.x; tile * THREADS * ROWS < n_rows; tile += gridDim.x) {
        Row loaded[ROWS];
        unsigned count = 0;
        #pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const long long at = (tile * ROWS + i) * THREADS + threadIdx.x;
            loaded[i] = at < n_rows ? rows[at * step] : (Row) __longlong_as_double(-1);  // NaN is nowhere
        }
        if (!threadIdx.x) taken = 0;
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < ROWS; i++) {
            below += loaded[i] < low;
            count += loaded[i] >= low && loaded[i] <= high;
        }
        unsigned before = count;
        for (int shift = 1; shift < 32; shift *= 2) {
            const unsigned other = __shfl_up_sync(0xffffffffu, before, shift);
            if (lane >= shift) before += other;
        }
        unsigned first = lane == 31 ? atomicAdd(&taken, before) : 0;
        first = __shfl_sync(0xffffffffu, first, 31) + before - count;
        __syncthreads();
        if (!threadIdx.x) start = atomicAdd(counts + 1, (Long) taken);
        __syncthreads();
        long long to = (long long) start + first;
        #pragma unroll
        for (int i = 0; i < ROWS; i++)
            if (loaded[i] >= low && loaded[i] <= high) {
                if (to < room) found[to] = loaded[i];
                to++;
            }
        __syncthreads();
    }
    for (int shift = 16; shift; shift /= 2) below += __shfl_down_sync(0xffffffffu, below, shift);
    if (!lane) atomicAdd(counts, below);
}
"""


def rows_between(rows: Tensor, low: float, high: float, room: int) -> tuple[int, Tensor]:
    """Return how many rows lie below a number, and the rows between it and another, in any order.

    Parameters
    ----------
    rows : Tensor
        The rows, float32 or float64, without NaN.
    low, high : float
        The ends, which belong to it.
    room : int
        About how many rows lie there.

    Examples
    --------
    >>> rows_between(torch.tensor([3.0, 1.0, 2.0, 4.0]), 2.0, 3.0, 2)
    (1, tensor([3., 2.]))
    """
    function = _function(rows)
    if function is not None:
        return _between_compiled(function, rows, low, high, room)
    below, found = 0, []
    for part in rows.split(_AT_ONCE):
        found.append(part[(part >= low) & (part <= high)])
        below += int((part < low).sum())
    return below, torch.cat(found)


def _function(rows: Tensor) -> CudaFunction | None:
    if not rows.is_cuda or torch.version.cuda is None:
        return None
    with torch.cuda.device(rows.device):  # pragma: no cover
        return _compiled(rows.device.index, rows.dtype == torch.float64)


@functools.cache
def _compiled(device: int, double: bool) -> CudaFunction | None:  # pragma: no cover
    constants = {"Row": "double" if double else "float", "THREADS": _THREADS, "ROWS": _ROWS}
    return function_or_none(_SOURCE, "between", constants, 0)


def _between_compiled(
    function: CudaFunction, rows: Tensor, low: float, high: float, room: int
) -> tuple[int, Tensor]:  # pragma: no cover
    """Select in one read; in two if there is not enough room."""
    ends = torch.tensor([low, high], dtype=torch.float64, device=rows.device)
    with torch.cuda.device(rows.device):
        n_processors = torch.cuda.get_device_properties(rows.device).multi_processor_count
        n_blocks = min(_BLOCKS * n_processors, -(-len(rows) // (_THREADS * _ROWS)))
        while True:
            found, counts = rows.new_empty(room), torch.zeros(2, dtype=torch.int64, device=rows.device)
            function((n_blocks, 1), _THREADS, rows, len(rows), rows.stride(0), ends, room, found, counts)
            below, n_found = counts.tolist()
            if n_found <= room:
                return below, found[:n_found]
            room = n_found
