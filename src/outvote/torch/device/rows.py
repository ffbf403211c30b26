"""Rows on a device, which are centred, scaled and put into blocks there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from outvote.learning.epoch_blocks import FEW_ROWS, PERMUTE_EVERY
from outvote.learning.scaling import ScaledRows
from outvote.torch.blocks import deal_blocks

Array = NDArray[Any]


def device_of(device: Any) -> torch.device:
    """Return the device with this name, or raise an error if it cannot be used.

    Examples
    --------
    >>> device_of("cpu")
    device(type='cpu')
    """
    try:
        found = torch.device(device)
        torch.empty(0, device=found)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"device={device!r} cannot be used ({reason}): 'cpu' works everywhere, None is numpy"
        ) from error
    return found


def copied(x: Array, device: Any) -> Tensor:
    """Return a copy of an array on a device.

    Examples
    --------
    >>> copied(np.arange(3.0)[::-1], "cpu")
    tensor([2., 1., 0.], dtype=torch.float64)
    """
    source = np.ascontiguousarray(x)
    source = source if source.flags.writeable else source.copy()  # torch warns of arrays it may not write to
    return torch.from_numpy(source).to(device_of(device), copy=True)


class DeviceRows(ScaledRows):
    """Scaled rows on a device, centred and scaled there once.

    Parameters
    ----------
    x, centre, scale : ndarray
        As for `ScaledRows`.
    device : str or torch.device
        The device of the rows.
    sent : Tensor, optional
        `x` on that device, if it is there already: this tensor is scaled in place.

    Examples
    --------
    >>> rows = DeviceRows(np.array([[1.0, 2.0], [3.0, 6.0]]), np.array([1.0, 2.0]), np.array([1.0, 2.0]), "cpu")
    >>> rows.tensor
    tensor([[0., 0.],
            [2., 2.]], dtype=torch.float64)
    """

    def __init__(self, x: Array, centre: Array, scale: Array, device: Any, sent: Tensor | None = None):
        super().__init__(x, centre, scale)
        self.device = device_of(device)
        self.tensor = copied(x, self.device) if sent is None else sent
        if centre.any():
            self.tensor.sub_(self.like(centre))
        if (scale != 1).any():
            self.tensor.div_(self.like(scale))

    def scores(self, weights: Array) -> Array:
        """Return rows @ weights, for all rows."""
        return (self.tensor @ self.like(weights)).cpu().numpy().astype(np.float64, copy=False)

    def distances(self) -> Array:
        """Return the distance of each row from the centre, in units of the scales."""
        return torch.linalg.vector_norm(self.tensor, dim=1).cpu().numpy().astype(np.float64)

    def like(self, values: Array) -> Tensor:
        return torch.as_tensor(values, dtype=self.tensor.dtype, device=self.device)


class Dealt:
    """Puts rows into blocks on a device: rows are permuted in some epochs, and rotated in the others.

    The permuted rows are cut into B stretches of K rows, which give one row to every block, and each stretch is rotated
    by a random offset. Two rows of different stretches are then in the same block with probability 1/K, and only B
    numbers are drawn instead of n.

    Examples
    --------
    >>> dealt = Dealt(torch.arange(7), 3, torch.Generator().manual_seed(0))
    >>> dealt.shuffle()
    >>> dealt.deal().shape
    torch.Size([2, 3])
    """

    def __init__(self, rows: Tensor, n_blocks: int, generator: torch.Generator):
        self.rows, self.n_blocks, self.generator = rows, n_blocks, generator
        self.size = len(rows) // n_blocks
        self.shuffle_every = 1 if len(rows) <= FEW_ROWS else PERMUTE_EVERY
        self._steps = torch.arange(n_blocks, device=rows.device)
        used = rows[: self.size * n_blocks].view(self.size, n_blocks)
        self._twice = used.repeat(1, 2)  # twice in a row, so that a rotation needs no remainder

    def shuffle(self) -> None:
        """Permute the rows at random."""
        dealt = deal_blocks(len(self.rows), self.n_blocks, device=self.rows.device, generator=self.generator)
        order = self.rows.index_select(0, dealt.view(-1)).view(self.size, self.n_blocks)
        torch.cat([order, order], dim=1, out=self._twice)

    def deal(self) -> Tensor:
        """Return row numbers, (B, K): column k is block k."""
        if self.n_blocks == 1:
            return self._twice[:, :1]
        offsets = torch.randint(self.n_blocks, (self.size, 1), device=self.rows.device, generator=self.generator)
        return self._twice.gather(1, self._steps + offsets)


def to_host(values: Tensor) -> Array:
    return values.cpu().numpy().astype(np.float64)
