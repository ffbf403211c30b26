"""Blocks for the descent: dealt anew every epoch, and which of them are in the middle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.learning.losses import Design, PairLoss, mean_of

Array = NDArray[Any]

#: Up to this many rows a fresh permutation every epoch costs next to nothing.
_SMALL = 2**14
#: Beyond, rows are permuted once in so many epochs and turned in between.
_PERMUTE_EVERY = 8
#: Stretches that are turned each by its own offset.
_STRETCHES = 256


class Dealer:
    """Deals n rows into K blocks of B = ⌊n/K⌋, differently each time, without looking at the values.

    Few rows are permuted every time. Many are permuted now and then; in between the permuted rows are cut into
    stretches of a multiple of K rows and each stretch is turned by its own random offset, which copies instead of
    gathering and lets any two rows of different stretches meet.

    With groups, rows are sorted by group, in a random order of groups and of rows inside a group, and cut into blocks:
    most pairs of a block then lie inside a group.
    """

    def __init__(self, n_rows: int, n_blocks: int, groups: Array | None = None):
        self.n_rows, self.n_blocks, self.groups = n_rows, n_blocks, groups
        self.size = n_rows // n_blocks
        self._order: Array = np.arange(n_rows)
        self._age = 0

    def deal(self, rng: np.random.Generator) -> Array:
        """Return row numbers, (B, K): column k is block k."""
        used = self.size * self.n_blocks
        if self.groups is not None:
            shuffled = rng.random(int(self.groups.max()) + 1)[self.groups]
            order = np.lexsort((rng.random(self.n_rows), shuffled))
            start = int(rng.integers(self.n_rows - used + 1))
            return order[start : start + used].reshape(self.n_blocks, self.size).T
        if self.n_blocks == 1:
            return self._order[:, None]
        if self.n_rows <= _SMALL or self._age % _PERMUTE_EVERY == 0:
            self._order = rng.permutation(self.n_rows)
        else:
            self._turn(used, rng)
        self._age += 1
        return self._order[:used].reshape(self.size, self.n_blocks)

    def _turn(self, used: int, rng: np.random.Generator) -> None:
        turned = np.empty_like(self._order)
        turned[used:] = self._order[used:]
        per = max(1, self.size // _STRETCHES) * self.n_blocks
        for low in range(0, used, per):
            stretch = self._order[low : min(low + per, used)]
            offset = int(rng.integers(len(stretch)))
            turned[low : low + len(stretch) - offset] = stretch[offset:]
            turned[low + len(stretch) - offset : low + len(stretch)] = stretch[:offset]
        self._order = turned


@dataclass
class Cell:
    """Blocks that vote among themselves: of all rows, of one class, or of two samples in step.

    Attributes
    ----------
    samples : tuple of ndarray
        Row numbers of each sample: one, or two whose k-th blocks make pairs.
    n_blocks : int
        Blocks of each sample (K).
    n_chosen : int
        How many blocks in the middle of the risks are chosen; 1 is the median, the lower one if K is even.
    weight : float
        Share of the cell in the risk.
    groups : ndarray, optional
        Group of each row, where only pairs inside a group count.
    clipped : bool
        Cut the gradients of the chosen blocks to the median of their lengths: where risks are tied, as they are at the
        start, corrupt blocks are among the chosen ones, and rows far out would make them pull hardest.
    """

    samples: tuple[Array, ...]
    n_blocks: int
    n_chosen: int
    weight: float = 1.0
    groups: Array | None = None
    clipped: bool = False
    _dealers: tuple[Dealer, ...] = field(init=False, repr=False)
    _whole: list[bool] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._whole = [np.array_equal(rows, np.arange(len(rows))) for rows in self.samples]
        groups = [None if self.groups is None else self.groups[rows] for rows in self.samples]
        self._dealers = tuple(
            Dealer(len(rows), self.n_blocks, group) for rows, group in zip(self.samples, groups, strict=True)
        )

    def deal(self, rng: np.random.Generator) -> tuple[Array, ...]:
        """Return the row numbers of the blocks of each sample, (B, K)."""
        dealt = [dealer.deal(rng) for dealer in self._dealers]
        return tuple(
            blocks if whole else rows[blocks]
            for rows, blocks, whole in zip(self.samples, dealt, self._whole, strict=True)
        )

    def risks(self, loss: Any, scores: Array, targets: Array, blocks: tuple[Array, ...]) -> Array:
        """Return the risk of each block; one that is not a number is as bad as can be."""
        with np.errstate(over="ignore", invalid="ignore"):
            if len(blocks) == 2:
                assert isinstance(loss, PairLoss)
                first, second = blocks
                risks = loss.cross_risks(scores[first], scores[second], targets[first], targets[second])
            else:
                (rows,) = blocks
                risks = loss.risks_of(scores, targets, rows, self._groups_of(rows))
        return np.where(np.isnan(risks), np.inf, risks)

    def gradient(self, loss: Any, design: Design, scores: Array, targets: Array, blocks: tuple[Array, ...]) -> Array:
        """Return the mean gradient of some blocks; none pulls harder than the median of them if they are `clipped`."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            if len(blocks) == 2:
                first, second = blocks
                gradients = loss.cross_gradients(
                    design, (first, second), (scores[first], scores[second]), (targets[first], targets[second])
                )
                return mean_of(gradients, self.clipped)
            (rows,) = blocks
            return loss.mean_gradient(
                design, rows, scores[rows], targets[rows], self._groups_of(rows), clipped=self.clipped
            )

    def choose(self, risks: Array, rng: np.random.Generator) -> Array:
        """Return the blocks in the middle of the risks, ties broken at random."""
        voting = len(risks)
        if self.groups is not None:  # blocks without a pair do not vote
            voting = max(1, int(np.isfinite(risks).sum()))
        n_chosen = max(1, self.n_chosen * voting // len(risks))
        if n_chosen >= len(risks):
            return np.arange(len(risks))
        low = (voting - n_chosen) // 2
        start = int(rng.integers(len(risks)))  # breaks ties, among blocks that were dealt at random
        places = sorted({low, low + n_chosen - 1})
        turned = np.concatenate([risks[start:], risks[:start]])
        return (np.argpartition(turned, places)[low : low + n_chosen] + start) % len(risks)

    def _groups_of(self, rows: Array) -> Array | None:
        return None if self.groups is None else self.groups[rows]


def middle_blocks(n_blocks: int, n_corrupt: int, share: float | None) -> int:
    """Return how many blocks in the middle are chosen: a share of them, a quarter unless told otherwise, or fewer.

    n_corrupt rows dealt at random hit a share h = 1 - (1 - 1/K)^n_corrupt of the blocks on average. All of them can be
    the worst (or the best), so that the clean blocks in the middle are a share 1 - 2h: no more are taken. Nothing is
    left out where nothing can be corrupt.

    Examples
    --------
    >>> middle_blocks(101, 50, None), middle_blocks(101, 5, None), middle_blocks(3, 1, None), middle_blocks(7, 0, None)
    (21, 25, 1, 7)
    """
    if share is None:
        share = 0.25 if n_corrupt else 1.0
    hit = 1 - (1 - 1 / n_blocks) ** n_corrupt
    return max(1, int(min(share, 1 - 2 * hit) * n_blocks + 1e-9))
