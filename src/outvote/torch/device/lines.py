"""Lines of rows added to places in one kernel: the Triton form of `Run.sums` in deals.py.

It needs a GPU: `benchmarks/gpu.py` compares it with the plain form there.
"""

# Triton reads annotations as code: kernels carry none but its own.
# mypy: disallow-untyped-defs=False, disallow-incomplete-defs=False, disallow-untyped-decorators=False

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor

if TYPE_CHECKING:
    from outvote.torch.device.deals import Run

#: Places that one program adds up.
TILE = 1024
#: Groups whose rows are asked for before the first have come, for long lines and for short ones.
_LONG_AHEAD, _SHORT_AHEAD = 7, 2
#: Totals that one program collects at once, and the most of them for one block.
_COLLECTED, _DEEPEST = 2048, 64


@triton.jit
def _prepare(
    drawn, units, n_units, bases, jumps, turns, offsets, n_groups, room, n_lines, n_tiles,
    LINE: tl.constexpr, MANY: tl.constexpr, TILES: tl.constexpr,
):  # fmt: skip
    g = tl.program_id(0).to(tl.int64)
    step = tl.load(units + tl.load(drawn + g) % n_units)
    begin = tl.load(drawn + n_groups + g) % n_lines
    tl.store(turns + g, (tl.load(drawn + 2 * n_groups + g) % LINE).to(tl.int32))
    tl.store(offsets + g, (tl.load(drawn + 3 * n_groups + g) % room).to(tl.int32))
    j = tl.arange(0, MANY)
    tl.store(jumps + g * MANY + j, (step * j % n_lines).to(tl.int32))
    tiles = tl.program_id(1) * TILES + tl.arange(0, TILES)
    base = (step * (tiles * MANY) + begin) % n_lines
    tl.store(bases + g * n_tiles + tiles, base.to(tl.int32), mask=tiles < n_tiles)


@triton.jit
def _add_lines(
    x, totals, bases, jumps, turns, offsets, n_groups, n_parts, stretch, group, n_lines, n_tiles, scale,
    LINE: tl.constexpr, TILE: tl.constexpr, AHEAD: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    part = tl.program_id(1)
    i = tl.arange(0, TILE)
    place = tile * TILE + i
    inside = place < group
    total = tl.zeros([TILE], dtype=tl.float64)
    first = part.to(tl.int64) * n_groups // n_parts
    last = (part + 1).to(tl.int64) * n_groups // n_parts
    full = (tile + 1) * (TILE // LINE) <= n_lines
    row = i // LINE
    line = tile * (TILE // LINE) + row
    whole = line < n_lines
    for g in tl.range(first, last, loop_unroll_factor=AHEAD):
        base = tl.load(bases + g * n_tiles + tile)
        turn = tl.load(turns + g)
        start = x + g * stretch + tl.load(offsets + g)
        if LINE == TILE:
            turn = tl.where(full, turn, 0)
            start += tl.where(full, base, tile) * LINE
            source = (i + turn) & (LINE - 1)
        else:
            moved = base + tl.load(jumps + g * (TILE // LINE) + row)
            moved = tl.where(moved >= n_lines, moved - n_lines, moved)
            source = tl.where(whole, moved * LINE + ((i + turn) & (LINE - 1)), place)
        value = tl.load(start + source, mask=inside, other=0.0)
        total += value.to(tl.float64)
    tl.store(totals + part.to(tl.int64) * group + place, total * scale, mask=inside)


@triton.jit
def _collect(
    totals, steps, begins, units, n_units, sums, n_blocks, n_owned, places, group,
    DEEP: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    inside = block < n_blocks
    total = tl.zeros([WIDE], dtype=tl.float64)
    for low in range(0, n_owned, DEEP):
        j = low + tl.arange(0, DEEP)
        step = tl.load(units + tl.load(steps + j, mask=j < n_owned, other=0) % n_units)
        begin = tl.load(begins + j, mask=j < n_owned, other=0)
        within = (step[:, None] * block[None, :] + begin[:, None]) % n_blocks
        at = (j // places).to(tl.int64) * group + (j % places).to(tl.int64) * n_blocks
        found = tl.load(totals + at[:, None] + within, mask=(j < n_owned)[:, None] & inside[None, :], other=0.0)
        total += tl.sum(found, axis=0)
    tl.store(sums + block, total, mask=inside)


@functools.lru_cache(maxsize=32)
def _ones(n_deals: int, per_deal: int, device: torch.device) -> Tensor:
    """A product with these adds up parts faster than torch's sum does."""
    return torch.ones((n_deals, 1, per_deal), dtype=torch.float64, device=device)


def sums(run: Run, x: Tensor, per_deal: int, scale: float) -> Tensor:
    """Sum the rows of each block, times `scale`, over as many parts of the groups of every deal at once."""
    n_tiles, many, lines = -(-run.group // TILE), TILE // run.line, max(1, run.n_lines)
    device, small = x.device, {"dtype": torch.int32, "device": x.device}
    bases, jumps = torch.empty((run.n_groups, n_tiles), **small), torch.empty((run.n_groups, many), **small)
    turns, offsets = torch.empty(run.n_groups, **small), torch.empty(run.n_groups, **small)
    wide = min(1024, triton.next_power_of_2(n_tiles))
    _prepare[(run.n_groups, triton.cdiv(n_tiles, wide))](
        run.drawn, run.units, len(run.units), bases, jumps, turns, offsets, run.n_groups,
        run.room, lines, n_tiles, LINE=run.line, MANY=many, TILES=wide,
    )  # fmt: skip
    n_parts = per_deal * run.n_deals
    totals = torch.empty((run.n_deals, per_deal, run.group), dtype=torch.float64, device=device)
    _add_lines[(n_tiles, n_parts)](
        x[run.first :], totals, bases, jumps, turns, offsets, run.n_groups, n_parts, run.stretch, run.group,
        run.n_lines, n_tiles, scale, LINE=run.line, TILE=TILE, AHEAD=_LONG_AHEAD if many == 1 else _SHORT_AHEAD,
        num_warps=8,
    )  # fmt: skip
    if per_deal > 1:
        totals = _ones(run.n_deals, per_deal, device) @ totals
    if run.owned is None:
        return totals.view(-1)
    found = torch.empty(run.n_blocks, dtype=torch.float64, device=device)
    steps, begins = run.owned
    deep = min(_DEEPEST, triton.next_power_of_2(len(steps)))
    wide = _COLLECTED // deep
    _collect[(triton.cdiv(run.n_blocks, wide),)](
        totals, steps, begins, run.block_units, len(run.block_units), found, run.n_blocks, len(steps),
        run.places, run.group, DEEP=deep, WIDE=wide,
    )  # fmt: skip
    return found
