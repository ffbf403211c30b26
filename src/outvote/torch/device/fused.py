"""Triton kernels for work that plain torch does in several passes; `outvote.torch.device.risks` has the plain forms.

Triton comes with torch for CUDA. The kernels are used only if it is installed and the rows are float32 on a CUDA
device. `tests/torch/test_gpu.py` compares each kernel with its plain form on such a device.
"""

# Triton reads annotations as code, so kernels have only Triton's own.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-decorators=False

from __future__ import annotations

import torch
from torch import Tensor

try:
    import triton  # type: ignore[import-not-found, unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
except ImportError:
    triton = None

#: The most rows of a block whose pairs one program can process.
MOST_PAIRED = 1024
#: The most rows of a block whose squared distances one program can hold.
MOST_SQUARED = 128
_LOSSES = {"logistic": 0, "hinge": 1, "product": 2}
#: Rows of a block, and blocks, that one program processes in the kernels of pairs.
_ROWS, _LANES = 32, 32


def available(x: Tensor) -> bool:
    """Return whether the kernels can be used for these rows.

    Examples
    --------
    >>> available(torch.zeros(3, 2))
    False
    """
    return triton is not None and x.is_cuda and x.dtype == torch.float32 and x.is_contiguous()


def pair_sums(scores: Tensor, targets: Tensor, blocks: Tensor, loss: str) -> Tensor:  # pragma: no cover
    """Return the sum of the losses over the ordered pairs of each block; `blocks` has row numbers, (B, K)."""
    size, n_blocks = blocks.shape
    s, y = _gathered(scores, targets, blocks, loss)
    sums = scores.new_empty((triton.cdiv(size, _ROWS), n_blocks))
    with torch.cuda.device_of(scores):
        _pair_sums[_grid(blocks)](s, y, sums, n_blocks, size, _LOSSES[loss], _ROWS, _LANES, num_warps=4)
    return sums[0] if len(sums) == 1 else sums.sum(0)


def pair_slopes(scores: Tensor, targets: Tensor, blocks: Tensor, loss: str) -> Tensor:  # pragma: no cover
    """Return, for each row, the sum over its pairs of the slopes in its score, (B, K)."""
    size, n_blocks = blocks.shape
    s, y = _gathered(scores, targets, blocks, loss)
    slopes = torch.empty_like(s)
    with torch.cuda.device_of(scores):
        _pair_slopes[_grid(blocks)](s, y, slopes, n_blocks, size, _LOSSES[loss], _ROWS, _LANES, num_warps=4)
    return slopes


def pull(x: Tensor, rows: Tensor, slopes: Tensor, clipped: bool) -> tuple[Tensor, Tensor]:  # pragma: no cover
    """Return Σ_b slopes_bk·x[rows_bk] for each block k, and its norm; only these rows are read.

    `rows` and `slopes` are (B, K). With `clipped`, values that are not finite become 0, but the norm includes them.
    """
    (size, n_blocks), n_columns = rows.shape, x.shape[1]
    width = min(256, max(32, triton.next_power_of_2(n_columns)))
    n_parts = triton.cdiv(n_columns, width)
    pulled, squares = x.new_empty((n_blocks, n_columns)), x.new_empty((n_blocks, n_parts))
    with torch.cuda.device_of(x):
        _pull[(n_blocks, n_parts)](
            x, rows.contiguous(), slopes, pulled, squares, n_blocks, size, n_columns, clipped, 8, width, num_warps=2
        )
    return pulled, squares.sum(1).sqrt()


def metric_sums(x: Tensor, images: Tensor, classes: Tensor, blocks: Tensor) -> Tensor:  # pragma: no cover
    """Return the sum of the metric's losses over the ordered pairs of each block; `images` is X·M."""
    size, n_blocks = blocks.shape
    sums = x.new_empty(n_blocks)
    side = max(16, triton.next_power_of_2(size))
    # One warp for 32 rows: more warps wait for each other (9.5 ms against 5.4 on an H200).
    warps = min(8, max(1, side * side // 1024))
    with torch.cuda.device_of(x):
        _metric_sums[(n_blocks,)](
            x, images, classes, blocks.contiguous(), sums, n_blocks, size, x.shape[1], side, 32, num_warps=warps
        )
    return sums


def _gathered(scores: Tensor, targets: Tensor, blocks: Tensor, loss: str) -> tuple[Tensor, Tensor]:  # pragma: no cover
    """Return the scores (for "product", their sigmoids) and targets of the blocks, (B, K)."""
    s, y = (torch.empty(blocks.shape, dtype=each.dtype, device=each.device) for each in (scores, targets))
    with torch.cuda.device_of(scores):
        _gather[(triton.cdiv(blocks.numel(), 512),)](
            scores, targets, blocks.contiguous(), s, y, blocks.numel(), _LOSSES[loss], 512, num_warps=4
        )
    return s, y


def _grid(blocks: Tensor) -> tuple[int, int]:  # pragma: no cover
    size, n_blocks = blocks.shape
    return triton.cdiv(n_blocks, _LANES), triton.cdiv(size, _ROWS)


if triton is not None:  # pragma: no cover

    @triton.jit
    def _gather(scores, targets, blocks, s_of, y_of, count, LOSS: tl.constexpr, WIDTH: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
        number = tl.load(blocks + at, mask=at < count, other=0)
        s = tl.load(scores + number)
        if LOSS == 2:
            s = 1 / (1 + tl.exp(-s))
        tl.store(s_of + at, s, mask=at < count)
        tl.store(y_of + at, tl.load(targets + number), mask=at < count)

    @triton.jit
    def _own(s_of, y_of, n_blocks, size, ROWS: tl.constexpr, LANES: tl.constexpr):
        """Return rows and blocks of a program, the mask of those that exist, their places, scores and targets."""
        block = tl.program_id(0) * LANES + tl.arange(0, LANES)[None, :]
        row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
        inside = (row < size) & (block < n_blocks)
        at = row.to(tl.int64) * n_blocks + block
        return (
            row,
            block,
            inside,
            at,
            tl.load(s_of + at, mask=inside, other=0),
            tl.load(y_of + at, mask=inside, other=0),
        )

    @triton.jit
    def _met(s_of, y_of, s, y, row, block, inside, n_blocks, size, step, LOSS: tl.constexpr):
        """Return the gap to the scores of the rows `step` places on, cyclically, and the sign of a wrong gap."""
        other = row + step
        at = tl.where(other < size, other, other - size).to(tl.int64) * n_blocks + block
        gap = s - tl.load(s_of + at, mask=inside, other=0)
        turn = (tl.load(y_of + at, mask=inside, other=0) - y).to(tl.float32)
        if LOSS < 2:
            turn = tl.where(turn > 0, 1.0, tl.where(turn < 0, -1.0, 0.0))
        return gap, turn

    @triton.jit
    def _pair_sums(s_of, y_of, sums, n_blocks, size, LOSS: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr):
        """Pair every row with the next half of its block, cyclically."""
        row, block, inside, _, s, y = _own(s_of, y_of, n_blocks, size, ROWS, LANES)
        total = tl.zeros((ROWS, LANES), dtype=tl.float32)
        for step in range(1, size // 2 + 1):
            gap, turn = _met(s_of, y_of, s, y, row, block, inside, n_blocks, size, step, LOSS)
            if LOSS == 0:
                margin = turn * gap
                cost = tl.where(margin > 0, margin, 0.0) + tl.log(1 + tl.exp(-tl.abs(margin)))
            else:
                cost = 1 + turn * gap
                cost = tl.where(cost <= 0, 0.0, cost)  # NaN stays NaN
            total += tl.where(2 * step == size, 1.0, 2.0) * cost  # at half a circle each pair occurs twice
        total = tl.sum(tl.where(inside, total, 0.0), axis=0)
        block = tl.program_id(0) * LANES + tl.arange(0, LANES)
        tl.store(sums + tl.program_id(1) * n_blocks + block, total, mask=block < n_blocks)

    @triton.jit
    def _pair_slopes(s_of, y_of, slopes, n_blocks, size, LOSS: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr):
        row, block, inside, at, s, y = _own(s_of, y_of, n_blocks, size, ROWS, LANES)
        total = tl.zeros((ROWS, LANES), dtype=tl.float32)
        for step in range(1, size):
            gap, turn = _met(s_of, y_of, s, y, row, block, inside, n_blocks, size, step, LOSS)
            if LOSS == 0:
                total += turn / (1 + tl.exp(-turn * gap))
            else:
                total += tl.where(1 + turn * gap > 0, turn, 0.0)
        if LOSS == 2:
            total = total * s * (1 - s)
        tl.store(slopes + at, total, mask=inside)

    @triton.jit
    def _pull(
        x,
        rows,
        slopes,
        pulled,
        squares,
        n_blocks,
        size,
        n_columns,
        CLIPPED: tl.constexpr,
        TOGETHER: tl.constexpr,
        WIDTH: tl.constexpr,
    ):
        block = tl.program_id(0).to(tl.int64)
        column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
        inside = column < n_columns
        total = tl.zeros((WIDTH,), dtype=tl.float32)
        for low in range(0, size, TOGETHER):
            b = low + tl.arange(0, TOGETHER)
            row = tl.load(rows + b.to(tl.int64) * n_blocks + block, mask=b < size, other=0)
            slope = tl.load(slopes + b.to(tl.int64) * n_blocks + block, mask=b < size, other=0.0)
            both = (b < size)[:, None] & inside[None, :]
            taken = tl.load(x + row[:, None] * n_columns + column[None, :], mask=both, other=0.0)
            total += tl.sum(slope[:, None] * taken, axis=0)
        total = tl.where(inside, total, 0.0)
        tl.store(squares + block * tl.num_programs(1) + tl.program_id(1), tl.sum(total * total, axis=0))
        if CLIPPED:
            total = tl.where(tl.abs(total) < float("inf"), total, 0.0)
        tl.store(pulled + block * n_columns + column, total, mask=inside)

    @triton.jit
    def _metric_sums(
        x,
        images,
        classes,
        blocks,
        sums,
        n_blocks,
        size,
        n_columns,
        SIDE: tl.constexpr,
        WIDTH: tl.constexpr,
    ):
        block = tl.program_id(0)
        own = tl.arange(0, SIDE)
        number = tl.load(blocks + own.to(tl.int64) * n_blocks + block, mask=own < size, other=0)
        products = tl.zeros((SIDE, SIDE), dtype=tl.float32)
        for low in range(0, n_columns, WIDTH):
            column = low + tl.arange(0, WIDTH)
            inside = (own < size)[:, None] & (column < n_columns)[None, :]
            at = number[:, None] * n_columns + column[None, :]
            left = tl.load(x + at, mask=inside, other=0.0)
            right = tl.load(images + at, mask=inside, other=0.0)
            products = tl.dot(left, tl.trans(right), products, input_precision="ieee")
        same = own[:, None] == own[None, :]
        square = tl.sum(tl.where(same, products, 0.0), axis=1)
        distance = square[:, None] + square[None, :] - products - tl.trans(products)
        distance = tl.where(distance <= 0, 0.0, distance)  # NaN stays NaN
        group = tl.load(classes + number, mask=own < size, other=0)
        cost = 1 + tl.where(group[:, None] == group[None, :], 1.0, -1.0) * (distance - 2)
        cost = tl.where(cost <= 0, 0.0, cost)
        counted = (own < size)[:, None] & (own < size)[None, :] & (own[:, None] != own[None, :])
        tl.store(sums + block, tl.sum(tl.sum(tl.where(counted, cost, 0.0), axis=1), axis=0))
