"""Plan the blocks of a batch, put rows into them, and choose the middle blocks, on the device of the tensors.

No function waits for the device: numbers of blocks follow from shapes, and everything else stays a tensor.
"""

from __future__ import annotations

import math
import numbers
from fractions import Fraction
from typing import Any, NamedTuple

import torch
from torch import Tensor

from outvote.contamination import Contamination
from outvote.learning.n_blocks import blocks_for
from outvote.learning.voting import middle_blocks


class BatchPlan(NamedTuple):
    """The blocks of a batch: their number, the rows in each, and how many are chosen.

    Examples
    --------
    >>> BatchPlan(n_blocks=5, block_size=20, n_chosen=1).n_rows
    100
    """

    n_blocks: int
    block_size: int
    n_chosen: int

    @property
    def n_rows(self) -> int:
        """Return how many rows are put into blocks; the remaining rows of the batch are left out."""
        return self.n_blocks * self.block_size


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def plan_batch(
    n_rows: int,
    *,
    n_blocks: int | None = None,
    contamination: Any = None,
    blocks: Any = 0.25,
    degree: int = 1,
) -> BatchPlan:
    """Choose the number of blocks of a batch and how many of them are taken, or raise an error if there is none.

    Parameters
    ----------
    n_rows : int
        Rows of the batch.
    n_blocks : int, optional
        Number of blocks (K). By default 2·n_corrupt + 1, the largest blocks that corrupt rows cannot outvote; for
        pairs, blocks of at most 256 rows.
    contamination : float, int or Contamination, optional
        How many rows of the batch may be corrupt: a fraction or a number of rows.
    blocks : float or "median"
        The share of blocks that is taken from the middle of the risks: at least one block, and fewer if corrupt blocks
        could be among them. "median" (or 0) takes one block, the lower of the two in the middle if K is even.
    degree : {1, 2}
        1 for losses of rows, 2 for losses of pairs: each block then needs two rows.

    Returns
    -------
    BatchPlan
        Number of blocks, rows in each, and blocks taken.

    Examples
    --------
    >>> plan_batch(128, contamination=0.1)
    BatchPlan(n_blocks=25, block_size=5, n_chosen=5)
    >>> plan_batch(128, n_blocks=8, blocks="median")
    BatchPlan(n_blocks=8, block_size=16, n_chosen=1)
    """
    share = _share(blocks)
    most = n_rows // degree
    if contamination is None and n_blocks is None:
        raise TypeError("give contamination (how many rows of a batch may be corrupt), n_blocks, or both")
    n_corrupt = 0 if contamination is None else _count(contamination, n_rows, degree)
    if n_blocks is not None:
        n_blocks = _given(n_blocks, n_rows, degree, n_corrupt)
    elif 2 * n_corrupt + 1 > most:
        raise _too_small(contamination, n_corrupt, n_rows, degree)
    else:
        n_blocks = blocks_for(n_rows, n_corrupt, degree)
    return BatchPlan(n_blocks, n_rows // n_blocks, middle_blocks(n_blocks, n_corrupt, share))


def deal_blocks(n_rows: int, n_blocks: int, *, device: Any = None, generator: torch.Generator | None = None) -> Tensor:
    """Put rows into blocks of the same size at random, uniformly among such partitions.

    Parameters
    ----------
    n_rows, n_blocks : int
        Number of rows, and of blocks of ⌊n_rows/n_blocks⌋ rows; the remaining rows, chosen at random, are left out.
    device : torch.device or str, optional
        The device on which the numbers are drawn and stay.
    generator : torch.Generator, optional
        Generator on the same device; torch's default generator by default.

    Returns
    -------
    Tensor
        Row numbers, (K, B): row k is block k.

    Examples
    --------
    >>> import torch
    >>> deal_blocks(7, 3, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([3, 2])
    """
    if generator is not None and device is not None and torch.device(device).type != generator.device.type:
        raise ValueError(
            f"generator is on {generator.device.type}, but the rows are on {torch.device(device).type}: "
            f"make it with torch.Generator(device={torch.device(device).type!r})"
        )
    size = n_rows // n_blocks
    return torch.randperm(n_rows, device=device, generator=generator)[: n_blocks * size].view(n_blocks, size)


def choose_blocks(risks: Tensor, n_chosen: int = 1) -> Tensor:
    """Choose the blocks in the middle of the risks.

    A NaN risk counts as infinite. Blocks with an infinite risk are not chosen if there are at least `n_chosen` others:
    the middle then moves down to the largest finite risks. Equal risks are taken in the order of the blocks; since
    rows are put into blocks at random, ties are broken at random.

    Parameters
    ----------
    risks : Tensor
        One risk for each block, (K,).
    n_chosen : int
        How many blocks are chosen; 1 is the median block, the lower one if K is even.

    Returns
    -------
    Tensor
        Numbers of the chosen blocks, (n_chosen,), from the smallest risk to the largest.

    Examples
    --------
    >>> import torch
    >>> choose_blocks(torch.tensor([5.0, float("nan"), 1.0, 2.0, 4.0]))
    tensor([4])
    >>> choose_blocks(torch.tensor([5.0, float("nan"), 1.0, 2.0, float("inf")]), 3)
    tensor([2, 3, 0])
    """
    n_blocks = risks.shape[0]
    finite = torch.isfinite(risks)
    order = torch.where(finite, risks, math.inf).argsort(stable=True)
    low = (finite.sum() - n_chosen).clamp(0, (n_blocks - n_chosen) // 2)
    return order[low + torch.arange(n_chosen, device=risks.device)]


def _share(blocks: Any) -> float:
    if isinstance(blocks, str) and blocks == "median":
        return 0.0
    if isinstance(blocks, (bool, str)) or not isinstance(blocks, numbers.Real) or not 0 <= float(blocks) <= 1:
        raise ValueError(f"blocks={blocks!r} must be 'median' or a share of the blocks in [0, 1], such as 0.25")
    return float(blocks)


def _count(contamination: Any, n_rows: int, degree: int) -> int:
    asked = Contamination.of(contamination)
    if isinstance(asked.amount, numbers.Integral):
        count = int(asked.amount)
        if degree * (2 * count + 1) > n_rows:
            raise _too_small(contamination, count, n_rows, degree)
        return count
    (count,) = asked.rounded_down((n_rows,))
    if not count and isinstance(asked.amount, numbers.Real) and asked.amount:
        raise ValueError(
            f"contamination={contamination!r} of a batch of {_rows(n_rows)} is less than one row, so that nothing "
            f"would be outvoted: the smallest batch is {math.ceil(1 / _exact(asked.amount))} rows (drop_last=True of "
            "a DataLoader leaves out a short last batch), or give a count, such as contamination=1"
        )
    return count


def _given(n_blocks: Any, n_rows: int, degree: int, n_corrupt: int) -> int:
    most = n_rows // degree
    if isinstance(n_blocks, bool) or not isinstance(n_blocks, numbers.Integral) or int(n_blocks) < 1:
        raise ValueError(f"n_blocks={n_blocks!r} must be an integer of at least 1")
    if int(n_blocks) > most:
        raise ValueError(
            f"n_blocks={n_blocks} leaves fewer than {_rows(degree)} for a block: with a batch of {_rows(n_rows)} the "
            f"most is {most}"
        )
    if int(n_blocks) <= 2 * n_corrupt:
        raise ValueError(
            f"n_blocks={n_blocks} survives {(int(n_blocks) - 1) // 2} corrupt rows, but contamination allows "
            f"{n_corrupt}: take at least {2 * n_corrupt + 1} blocks"
        )
    return int(n_blocks)


def _too_small(contamination: Any, n_corrupt: int, n_rows: int, degree: int) -> ValueError:
    most = max((n_rows // degree - 1) // 2, 0)
    amount = Contamination.of(contamination).amount
    enough = f"the smallest batch for {n_corrupt} is {degree * (2 * n_corrupt + 1)} rows"
    if isinstance(amount, numbers.Real) and not isinstance(amount, numbers.Integral):
        # ⌊ε·n⌋ grows with the batch: d·(2·ε·n + 1) ≤ n needs 2·d·ε < 1.
        room = 1 - 2 * degree * _exact(amount)
        enough = (
            f"a batch of {math.ceil(degree / room)} rows is large enough"
            if room > 0
            else f"pairs survive fractions below {1 / (2 * degree)} at any size"
        )
    return ValueError(
        f"contamination={contamination!r} means {n_corrupt} corrupt rows in a batch of {n_rows}, which takes "
        f"{2 * n_corrupt + 1} blocks of at least {_rows(degree)}: this batch survives {most}, and {enough}"
    )


def _rows(count: int) -> str:
    return f"{count} row{'s' * (count != 1)}"


def _exact(amount: Any) -> Fraction:
    return amount if isinstance(amount, Fraction) else Fraction(str(amount))
