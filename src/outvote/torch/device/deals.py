"""Long tensors dealt into blocks in one pass, where they are: no row is moved, and no table has an entry for a row.

The rows are cut into as many stretches as there are groups. A group has some places for every block, and takes its rows
from its own stretch, from a random row on. Lines of rows go to its places in an order that counts in random steps, each
turned by a random number of rows. Which places a block has is found by counting in random steps, too. So every block
gets as many rows of a stretch as any other, whatever the values. Where the rows are in order, block means lie closer
together than under a permutation.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outvote.blocks.dealt import Indices
from outvote.blocks.one_pass import OnePass

#: Rows of a line: long ones are read faster, short ones bind fewer blocks together where blocks are small.
_LONG, _SHORT = 1024, 32
#: Places of a group, about, where there are few blocks.
_GROUP = 65_536
#: Blocks of fewer rows take short lines, and are dealt once.
_SMALL = 256
#: Times that places are dealt to blocks: blocks with places in one line move together, so each should have many.
_MOST_DEALS = 16
#: Sums over parts of the groups are taken at once, so that there is work enough for a whole device.
_PROGRAMS = 1584
#: Numbers in one temporary tensor where the rows are gathered.
_GATHERED = 2**22


def block_means(x: Tensor, n_blocks: int, *, generator: torch.Generator | None = None) -> Tensor:
    """Average a long tensor in random blocks of one size, in one pass over it.

    Parameters
    ----------
    x : Tensor
        Numbers, 1-D, on any device.
    n_blocks : int
        Number of blocks (K); the rows that fill no block, fewer than K, are left out, some of every stretch.
    generator : torch.Generator, optional
        Seed, on the same device. By default torch's own.

    Returns
    -------
    Tensor
        Block means in float64, (K,), on the same device.

    Examples
    --------
    >>> import torch
    >>> x = torch.arange(200_000.0)
    >>> means = block_means(x, 101, generator=torch.Generator().manual_seed(0))
    >>> means.shape, bool((means.median() - x.mean()).abs() < 2000)
    (torch.Size([101]), True)
    """
    if x.ndim != 1 or not x.is_floating_point():
        raise ValueError(f"x has shape {tuple(x.shape)} and type {x.dtype}: a 1-D tensor of floats is needed")
    if not 1 <= n_blocks <= len(x):
        raise ValueError(f"n_blocks={n_blocks} must be between 1 and the {len(x)} rows")
    deal = Deal(len(x), n_blocks, x.device, generator)
    return deal.tensor_sums(x, 1 / (len(x) // n_blocks))


class Run:
    """Groups of one kind over neighbouring rows, each with as many places for every block."""

    def __init__(self, first: int, n_rows: int, n_blocks: int, places: int, n_groups: int, device: Any, draw: Any):
        self.first, self.n_blocks, self.places, self.n_groups = first, n_blocks, places, n_groups
        self.group, self.stretch = places * n_blocks, n_rows // n_groups
        if self.stretch >= 2**31:
            raise ValueError(f"n_blocks={n_blocks} makes stretches of 2³¹ rows and more: take fewer blocks")
        small = places * n_groups < _SMALL
        self.line = _SHORT if small else _LONG
        self.n_lines = self.group // self.line
        few = min(_MOST_DEALS, -(-64 // places), n_groups // 64)
        self.n_deals = 1 if small else max(1, few)
        self.device = device
        self.units, self.block_units = _units(max(1, self.n_lines), device), _units(n_blocks, device)
        n_owned = self.n_deals * places
        numbers = draw(0, 2**31, (4 * n_groups + 2 * n_owned,), device=device)
        self.drawn, owned = numbers[: 4 * n_groups].view(4, n_groups), numbers[4 * n_groups :].view(2, n_owned)
        #: Steps and starts by which blocks find their places, (deals · places); a single deal of one place needs none.
        self.owned = owned if n_owned > 1 else None

    @property
    def room(self) -> int:
        """In how many places of its stretch a group can lie."""
        return self.stretch - self.group + 1

    def tables(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Step, start, turn and offset of every group."""
        step, begin, turn, offset = self.drawn
        return (
            self.units[step % len(self.units)],
            begin % max(1, self.n_lines),
            turn % self.line,
            offset % self.room,
        )

    def sources(self, groups: Tensor) -> Tensor:
        """The row at each place of some groups, (groups, G)."""
        place = torch.arange(self.group, device=self.device)
        line, within = place // self.line, place % self.line
        step, begin, turn, offset = (each[groups, None] for each in self.tables())
        whole = line < self.n_lines
        lines = torch.where(whole, (step * line + begin) % max(1, self.n_lines), line)
        within = torch.where(whole, (within + turn) % self.line, within)
        return self.first + groups[:, None] * self.stretch + lines * self.line + within + offset

    def places_of(self, deal: int) -> Tensor:
        """The places of every block in a deal, (places, K)."""
        blocks = torch.arange(self.n_blocks, device=self.device)
        if self.owned is None:
            return blocks[None]
        step, begin = self.owned[:, deal * self.places : (deal + 1) * self.places, None]
        within = (self.block_units[step % len(self.block_units)] * blocks + begin) % self.n_blocks
        return within + self.n_blocks * torch.arange(self.places, device=self.device)[:, None]

    def deals(self) -> Iterator[tuple[int, int, int]]:
        """The groups of each deal: its number, their first, their last."""
        for deal in range(self.n_deals):
            yield deal, self.n_groups * deal // self.n_deals, self.n_groups * (deal + 1) // self.n_deals

    def not_taken(self, n_rows: int) -> Tensor:
        """The rows that no group takes: some around those of every group, and those after the last stretch."""
        beyond = torch.arange(self.group, self.stretch, device=self.device)
        starts = torch.arange(self.n_groups, device=self.device)[:, None] * self.stretch
        unused = starts + (self.tables()[3][:, None] + beyond) % self.stretch
        after = torch.arange(self.n_groups * self.stretch, n_rows, device=self.device)
        return self.first + torch.cat([unused.reshape(-1), after])

    def sums(self, x: Tensor, scale: float) -> Tensor:
        """Sum the rows of each block, times `scale`."""
        fused = _fused() if x.is_cuda and x.is_contiguous() else None
        if fused is not None:
            per_deal = _PROGRAMS // (-(-self.group // fused.TILE) * self.n_deals)
            return fused.sums(self, x, max(1, min(self.n_groups // self.n_deals, per_deal)), scale)
        sums = torch.zeros(self.n_blocks, dtype=torch.float64, device=self.device)
        step = max(1, _GATHERED // self.group)
        for deal, first, last in self.deals():
            totals = torch.zeros(self.group, dtype=torch.float64, device=self.device)
            for low in range(first, last, step):
                groups = torch.arange(low, min(low + step, last), device=self.device)
                totals += x[self.sources(groups)].double().sum(0)
            sums += totals[self.places_of(deal)].sum(0)
        return sums * scale


class Deal(OnePass):
    """A partition of a long tensor that was drawn on its device."""

    def __init__(
        self, n_rows: int, n_blocks: int, device: Any, generator: torch.Generator | None = None, spread: bool = False
    ):
        draw = functools.partial(torch.randint, generator=generator)
        size, places = n_rows // n_blocks, _places(n_rows // n_blocks, n_blocks)
        n_groups, rest = divmod(size, places)
        # Rows of the first run, and of one more group where the places do not share out the rows of a block.
        cut = n_rows * (n_groups * places) // size if rest else n_rows
        runs = [(0, cut, places, n_groups)] + ([(cut, n_rows - cut, rest, 1)] if rest else [])
        self.runs = [Run(first, n, n_blocks, p, groups, device, draw) for first, n, p, groups in runs]
        self._lengths = [n for _, n, _, _ in runs]
        self._n_blocks, self._device = n_blocks, device
        self._extra = self._extra_blocks = torch.empty(0, dtype=torch.long, device=device)
        if spread and n_rows % n_blocks:
            self._extra = self._not_taken()
            self._extra_blocks = torch.randperm(n_blocks, device=device, generator=generator)[: len(self._extra)]
        for name, value in (("n_rows", n_rows), ("order", None)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return self._n_blocks

    @property
    def sizes(self) -> Indices:
        """Rows in each block; read only where all have as many, which takes no memory."""
        sizes = np.broadcast_to(self.n_rows // len(self), len(self))
        if len(self._extra):
            sizes = sizes.copy()
            sizes[self._extra_blocks.cpu().numpy()] += 1
        return sizes

    @property
    def one_size(self) -> bool:
        """Whether all blocks have as many rows."""
        return not len(self._extra)

    def _not_taken(self) -> Tensor:
        return torch.cat([run.not_taken(n) for run, n in zip(self.runs, self._lengths, strict=True)])

    @property
    def _left(self) -> Tensor:
        return self._not_taken() if not len(self._extra) else self._extra[:0]

    @property
    def left_out(self) -> Indices:
        """Rows in no block; brought to the host when asked for."""
        return self._left.cpu().numpy()

    def rest(self, x: Any) -> Any:
        """Return the rows in no block."""
        return x[self._left] if isinstance(x, Tensor) else x[self.left_out]

    @property
    def labels(self) -> Indices:
        """The block of each row, -1 for a row left out."""
        labels = torch.full((self.n_rows,), -1, dtype=torch.long, device=self._device)
        for run in self.runs:
            for deal, first, last in run.deals():
                owner = torch.empty(run.group, dtype=torch.long, device=self._device)
                owner[run.places_of(deal)] = torch.arange(len(self), device=self._device)
                for group in range(first, last):
                    labels[run.sources(torch.tensor([group], device=self._device))[0]] = owner
        labels[self._extra] = self._extra_blocks
        return labels.cpu().numpy()

    def tensor_sums(self, x: Tensor, scale: float = 1.0) -> Tensor:
        """Sum the rows of each block, times `scale`, in float64; the answer stays on the device."""
        sums = functools.reduce(torch.add, (run.sums(x, scale) for run in self.runs))
        if len(self._extra):
            sums = sums.index_add(0, self._extra_blocks, x[self._extra].double() * scale)
        return sums

    def sums(self, x: NDArray[Any], scale: float = 1.0) -> NDArray[np.float64]:
        """Sum the rows of each block, times `scale`, on the host."""
        sums: NDArray[np.float64] = self._gathered.sums(x, scale)
        return sums


def deal_long(x: Tensor, n_blocks: int, remainder: str, seed: int, stream: int) -> Deal:
    """Deal a long tensor on its device, by a seed that numpy's partitions take too."""
    number = int(np.random.default_rng([stream, seed]).integers(2**63))
    generator = torch.Generator(device=x.device).manual_seed(number)
    return Deal(len(x), n_blocks, x.device, generator, spread=remainder == "spread")


def _places(size: int, n_blocks: int) -> int:
    """Places of a group for each block: about as many as fill it, and a divisor of a block's rows if one is near."""
    wanted = -(-_GROUP // n_blocks)
    if size < _SMALL or wanted <= 1:
        return 1
    wanted = min(wanted, size)
    near = [places for places in range(max(1, wanted * 3 // 4), min(size, wanted * 3 // 2) + 1) if size % places == 0]
    return min(near, key=lambda places: abs(places - wanted), default=wanted)


@functools.lru_cache(maxsize=32)
def _units(n: int, device: Any) -> Tensor:
    """Numbers below `n` that share no factor with it, at most some thousands: counting in such steps meets all."""
    some = np.arange(n) if n <= 4096 else np.random.default_rng(n).integers(n, size=8192)
    found = [k for k in some.tolist() if math.gcd(k, n) == 1]
    return torch.tensor(found, device=device)


@functools.cache
def _fused() -> Any:
    """The Triton form, where Triton is."""
    try:
        from outvote.torch.device import lines
    except ImportError:
        return None
    return lines
