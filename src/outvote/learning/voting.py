"""Blocks that vote with their risks, and the choice of those in the middle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from outvote.learning.arrays import Array
from outvote.learning.epoch_blocks import BlockShuffler, EpochBlocks, narrow
from outvote.learning.losses import PairLoss
from outvote.learning.losses.common import mean_of
from outvote.learning.scaling import ScaledRows


@dataclass
class Cell:
    """Blocks that vote among themselves: of all rows, of one class, or of two samples whose k-th blocks form pairs.

    Attributes
    ----------
    samples : tuple of ndarray
        Row numbers of each sample: one sample, or two.
    n_blocks : int
        Number of blocks of each sample (K).
    n_chosen : int
        How many blocks in the middle of the risks are chosen. 1 is the median block, the lower one if K is even.
    weight : float
        Share of the cell in the whole risk.
    groups : ndarray, optional
        Group of each row, where only pairs inside a group count.
    clipped : bool
        Cut the gradients of the chosen blocks to the median of their lengths. Where risks are tied, as at the start,
        corrupt blocks are among the chosen ones, and rows far out would give them the longest gradients.
    """

    samples: tuple[Array, ...]
    n_blocks: int
    n_chosen: int
    weight: float = 1.0
    groups: Array | None = None
    clipped: bool = False
    _shufflers: tuple[BlockShuffler, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.samples = tuple(narrow(rows) for rows in self.samples)
        self._shufflers = tuple(
            BlockShuffler(rows, self.n_blocks, None if self.groups is None else self.groups[rows])
            for rows in self.samples
        )

    def forget(self) -> None:
        """Free the memory of the last permutations."""
        for shuffler in self._shufflers:
            shuffler.forget()

    def draw(self, rng: np.random.Generator) -> tuple[EpochBlocks, ...]:
        """Draw the blocks of each sample for the next epoch."""
        return tuple(shuffler.draw(rng) for shuffler in self._shufflers)

    def risks(self, loss: Any, scores: Array, targets: Array, drawn: tuple[EpochBlocks, ...]) -> Array:
        """Return the risk of each block; NaN counts as infinite."""
        with np.errstate(over="ignore", invalid="ignore"):
            if len(drawn) == 2:
                assert isinstance(loss, PairLoss)
                first, second = (blocks.rows() for blocks in drawn)
                risks = loss.cross_risks(scores[first], scores[second], targets[first], targets[second])
            else:
                risks = loss.risks_of(scores, targets, drawn[0], self.groups)
        risks[np.isnan(risks)] = np.inf
        return risks

    def gradient(
        self, loss: Any, design: ScaledRows, scores: Array, targets: Array, blocks: tuple[Array, ...]
    ) -> Array:
        """Return the mean gradient of some blocks, given their row numbers in each sample."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if len(blocks) == 2:
                first, second = blocks
                gradients = loss.cross_gradients(
                    design, (first, second), (scores[first], scores[second]), (targets[first], targets[second])
                )
                return mean_of(gradients, self.clipped)
            return loss.gradient_of(design, blocks[0], scores, targets, self.groups, clipped=self.clipped)

    def choose(self, risks: Array, rng: np.random.Generator) -> Array:
        """Return the blocks in the middle of the risks; ties are broken at random."""
        voting = len(risks)
        if self.groups is not None:  # blocks without a pair do not vote
            voting = max(1, int(np.isfinite(risks).sum()))
        return in_the_middle(risks, rng, voting, self.n_chosen * voting // len(risks))


def in_the_middle(risks: Array, rng: np.random.Generator, voting: int, n_chosen: int) -> Array:
    """Return `n_chosen` blocks (at least one) in the middle of the `voting` smallest risks; ties are broken at random.

    Examples
    --------
    >>> in_the_middle(np.array([5.0, 1.0, 3.0]), np.random.default_rng(0), voting=3, n_chosen=1)
    array([2])
    """
    n_blocks, n_chosen = len(risks), max(1, n_chosen)
    if n_chosen >= n_blocks:
        return np.arange(n_blocks)
    low = (voting - n_chosen) // 2
    start = int(rng.integers(n_blocks))  # breaks ties: the blocks themselves are in random order
    if n_chosen == 1:
        ordered = risks.copy()
        ordered.partition(low)
        alone = risks == ordered[low]
        if np.count_nonzero(alone) == 1:
            return alone.nonzero()[0]
    rotated = np.concatenate([risks[start:], risks[:start]])
    places = low if n_chosen == 1 else (low, low + n_chosen - 1)
    return (rotated.argpartition(places)[low : low + n_chosen] + start) % n_blocks


def middle_blocks(n_blocks: int, n_corrupt: int, share: float | None) -> int:
    """Return how many blocks in the middle are chosen: a share of them, by default a quarter, or fewer.

    `n_corrupt` rows in random blocks hit a share h = 1 - (1 - 1/K)^n_corrupt of the blocks on average. All of these
    can have the largest risks, or all the smallest, so that only the middle 1 - 2h of the blocks is clean: no more
    are chosen. If no row can be corrupt, all blocks are chosen.

    Examples
    --------
    >>> middle_blocks(101, 50, None), middle_blocks(101, 5, None), middle_blocks(3, 1, None), middle_blocks(7, 0, None)
    (21, 25, 1, 7)
    """
    if share is None:
        share = 0.25 if n_corrupt else 1.0
    hit = 1 - (1 - 1 / n_blocks) ** n_corrupt
    return max(1, int(min(share, 1 - 2 * hit) * n_blocks + 1e-9))
