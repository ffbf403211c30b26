"""Count the pairs x < y of two samples for every two blocks, on the device of the tensors."""

from __future__ import annotations

import torch
from torch import Tensor

#: Rows in a tile of the sorted values; pairs inside a tile are counted one distance at a time.
TILE = 32
#: Numbers in one table of counts by tile and block.
_TABLE = 2**26
#: Rows of a table that are summed together.
_RUN = 128
#: Spare counters for pairs that do not count: there are many, because additions to one counter wait for each other.
_SPARE = 2**16


def count_wins(x: Tensor, y: Tensor, *, ties: bool) -> Tensor:
    """Count the pairs x < y for every block of x and every block of y, and the pairs x = y too if `ties`.

    All values are sorted, x first among equals if ties count, and cut into tiles. A y wins against the x of all tiles
    before its own, which is a product of two tables of counts by tile and block, in float64, exact below 2⁵³. It also
    wins against the x before it in its own tile. Memory is O(n + m + K_X·K_Y), and two tables of fixed size.

    Parameters
    ----------
    x, y : Tensor
        The blocks of each sample, (K_X, B_X) and (K_Y, B_Y).
    ties : bool
        Whether equal values count.

    Returns
    -------
    Tensor
        The counts, int64, (K_X, K_Y).

    Examples
    --------
    >>> import torch
    >>> count_wins(torch.tensor([[1.0, 2.0]]), torch.tensor([[2.0, 3.0], [0.0, 1.0]]), ties=True)
    tensor([[4, 1]])
    """
    n_x, n_y, device = len(x), len(y), x.device
    values = torch.cat([x.reshape(-1), y.reshape(-1)] if ties else [y.reshape(-1), x.reshape(-1)])
    order = torch.argsort(values, stable=True)
    del values
    # The block of every sorted value: blocks of x count from 0, blocks of y from K_X; K_X + K_Y fills the last tile.
    x_blocks = torch.arange(n_x, dtype=torch.int32, device=device).repeat_interleave(x.shape[1])
    y_blocks = torch.arange(n_x, n_x + n_y, dtype=torch.int32, device=device).repeat_interleave(y.shape[1])
    block = torch.cat([x_blocks, y_blocks] if ties else [y_blocks, x_blocks])[order]
    del order, x_blocks, y_blocks
    block = torch.nn.functional.pad(block, (0, -len(block) % TILE), value=n_x + n_y).view(-1, TILE)
    width = n_x + n_y + 1
    total = torch.zeros((n_x, n_y), dtype=torch.float64, device=device)
    seen = torch.zeros(n_x, dtype=torch.float64, device=device)
    near = torch.zeros(n_x * n_y + _SPARE, dtype=torch.int32, device=device)
    step = max(1, _TABLE // width)
    for low in range(0, len(block), step):
        part = block[low : low + step].long()
        counts = torch.zeros((len(part), width), dtype=torch.float64, device=device)
        counts.scatter_add_(1, part, torch.ones_like(part, dtype=torch.float64))
        x_counts, y_counts = counts[:, :n_x], counts[:, n_x : n_x + n_y]
        before = _before(x_counts, seen)
        total += before.T @ y_counts
        seen = before[-1] + x_counts[-1]
        _count_near(part, n_x, n_y, near)
    return total.long() + near[: n_x * n_y].view(n_x, n_y)


def _before(counts: Tensor, seen: Tensor) -> Tensor:
    """Add `seen` and all earlier rows of a table, for each of its rows.

    The rows are summed in runs, because a cumulative sum of few long columns is slow.
    """
    padded = torch.nn.functional.pad(counts, (0, 0, 0, -len(counts) % _RUN)).view(-1, _RUN, counts.shape[1])
    runs = padded.sum(1)
    inside = padded.cumsum(1) - padded
    starts = seen + runs.cumsum(0) - runs
    return (inside + starts[:, None]).view(-1, counts.shape[1])[: len(counts)]


def _count_near(block: Tensor, n_x: int, n_y: int, near: Tensor) -> None:
    """Add the pairs of an x and a later y inside each tile to `near`."""
    spare = n_x * n_y + torch.arange(block.numel(), device=block.device).view(block.shape) % _SPARE
    one = torch.ones(1, dtype=near.dtype, device=near.device)
    is_x, is_y = block < n_x, (block >= n_x) & (block < n_x + n_y)
    for gap in range(1, TILE):
        left, right = block[:, :-gap], block[:, gap:]
        cells = torch.where(is_x[:, :-gap] & is_y[:, gap:], left * n_y + right - n_x, spare[:, gap:])
        near.index_add_(0, cells.reshape(-1), one.expand(cells.numel()))
