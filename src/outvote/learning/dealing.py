"""Blocks for the descent: dealt anew every epoch, and which of them are in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.learning.losses import Design, PairLoss, mean_of

Array = NDArray[Any]

#: Up to this many rows a fresh permutation every epoch costs next to nothing.
_SMALL = 2**14
#: Beyond, rows are permuted once in so many epochs and turned in between.
_PERMUTE_EVERY = 16
#: Stretches that are turned each by its own offset.
_STRETCHES = 256


@dataclass(frozen=True)
class Deal:
    """Rows dealt into blocks: every row of the order has one row of each block, and is turned by an offset of its own.

    Attributes
    ----------
    order : ndarray of shape (B, K)
        Row numbers; column k, once the order is turned, is block k.
    turns : ndarray of shape (B,), optional
        How far each row of the order is turned, from 0 to K - 1.

    Examples
    --------
    >>> dealt = Deal(np.arange(6).reshape(2, 3), turns=np.array([0, 1]))
    >>> dealt.rows().tolist(), dealt.rows(np.array([2])).tolist()
    ([[0, 1, 2], [4, 5, 3]], [[2], [3]])
    """

    order: Array
    turns: Array | None = None
    _kept: dict[str, Array] = field(default_factory=dict, repr=False)

    @property
    def offsets(self) -> Array:
        """How far each row of the order is turned."""
        return np.zeros(len(self.order), dtype=np.int64) if self.turns is None else self.turns

    def rows(self, blocks: Array | None = None) -> Array:
        """Return the row numbers of some blocks, or of all, a column for each."""
        if blocks is None:
            return self.turned(self.order)
        if self.turns is None:
            return self.order[:, blocks]
        return self.order[np.arange(len(self.order))[:, None], (blocks + self.turns[:, None]) % self.order.shape[1]]

    def ordered(self, targets: Array) -> Array:
        """Return the targets in the order, not turned; they are kept until rows are permuted again."""
        if self._kept.get("targets") is not targets:
            self._kept.update(targets=targets, ordered=targets[self.order])
        return self._kept["ordered"]

    def turned(self, values: Array) -> Array:
        """Return what is in the order as it is in the blocks, a column for each."""
        if self.turns is None:
            return values
        size, n_blocks = values.shape
        found = np.empty_like(values)
        for low, high in pairwise([0, *np.flatnonzero(np.diff(self.turns)) + 1, size]):
            offset = self.turns[low]
            found[low:high, : n_blocks - offset] = values[low:high, offset:]
            found[low:high, n_blocks - offset :] = values[low:high, :offset]
        return found


class Dealer:
    """Deals n rows into K blocks of B = ⌊n/K⌋, differently each time, without looking at the values.

    Few rows are permuted every time. Many are permuted now and then; in between the permuted rows are cut into
    stretches of a multiple of K rows and each stretch is turned by its own random offset, which moves nothing and lets
    any two rows of different stretches meet.

    With groups, rows are sorted by group, in a random order of groups and of rows inside a group, and cut into blocks:
    most pairs of a block then lie inside a group.
    """

    def __init__(self, rows: Array, n_blocks: int, groups: Array | None = None):
        self.rows, self.n_blocks, self.groups = rows, n_blocks, groups
        self.size = len(rows) // n_blocks
        self.forget()

    def forget(self) -> None:
        """Let go of the last deal; the next one is a permutation."""
        self._last, self._age = Deal(self.rows[:, None]), 0

    def deal(self, rng: np.random.Generator) -> Deal:
        """Deal the rows."""
        used = self.size * self.n_blocks
        if self.groups is not None:
            shuffled = rng.random(int(self.groups.max()) + 1)[self.groups]
            order = np.lexsort((rng.random(len(self.rows)), shuffled))
            start = int(rng.integers(len(self.rows) - used + 1))
            return Deal(self.rows[order[start : start + used]].reshape(self.n_blocks, self.size).T)
        if self.n_blocks == 1:
            return self._last
        if len(self.rows) <= _SMALL or self._age % _PERMUTE_EVERY == 0:
            self._last = Deal(self.rows[:, None])  # two at once would be too much
            self._last = Deal(rng.permutation(self.rows)[:used].reshape(self.size, self.n_blocks))
        else:
            per = max(1, self.size // _STRETCHES)
            turns = np.repeat(rng.integers(self.n_blocks, size=-(-self.size // per)), per)[: self.size]
            self._last = replace(self._last, turns=turns)
        self._age += 1
        return self._last


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

    def __post_init__(self) -> None:
        self.samples = tuple(narrow(rows) for rows in self.samples)
        groups = [None if self.groups is None else self.groups[rows] for rows in self.samples]
        self._dealers = tuple(
            Dealer(rows, self.n_blocks, group) for rows, group in zip(self.samples, groups, strict=True)
        )

    def forget(self) -> None:
        """Let go of the last deal."""
        for dealer in self._dealers:
            dealer.forget()

    def deal(self, rng: np.random.Generator) -> tuple[Deal, ...]:
        """Deal the rows of each sample."""
        return tuple(dealer.deal(rng) for dealer in self._dealers)

    def risks(self, loss: Any, scores: Array, targets: Array, dealt: tuple[Deal, ...]) -> Array:
        """Return the risk of each block; one that is not a number is as bad as can be."""
        with np.errstate(over="ignore", invalid="ignore"):
            if len(dealt) == 2:
                assert isinstance(loss, PairLoss)
                first, second = (deal.rows() for deal in dealt)
                risks = loss.cross_risks(scores[first], scores[second], targets[first], targets[second])
            else:
                (deal,) = dealt
                risks = loss.risks_of(scores, targets, deal, self.groups)
        risks[np.isnan(risks)] = np.inf
        return risks

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
            return loss.gradient_of(design, rows, scores, targets, self.groups, clipped=self.clipped)

    def choose(self, risks: Array, rng: np.random.Generator) -> Array:
        """Return the blocks in the middle of the risks, ties broken at random."""
        voting = len(risks)
        if self.groups is not None:  # blocks without a pair do not vote
            voting = max(1, int(np.isfinite(risks).sum()))
        return in_the_middle(risks[None], [rng], voting, self.n_chosen * voting // len(risks))[0]


class DealerOfEach:
    """Deals for several runs at once, by the generator of each: blocks of all of them, side by side in one deal.

    A run gets what a `Dealer` of its rows would deal, as long as these are few.

    Parameters
    ----------
    rows : ndarray of shape (n_runs, n_rows)
        Row numbers of each run.
    n_blocks : int
        Blocks of each run.

    Examples
    --------
    >>> rows = np.arange(12).reshape(2, 6)
    >>> both = DealerOfEach(rows, 3).deal([np.random.default_rng(run) for run in range(2)])
    >>> second = Dealer(rows[1], 3).deal(np.random.default_rng(1))
    >>> both.order.shape, bool((both.order[:, 3:] == second.order).all())
    ((2, 6), True)
    """

    def __init__(self, rows: Array, n_blocks: int):
        self.rows, self.n_blocks, self.size = rows.astype(np.intp), n_blocks, rows.shape[1] // n_blocks
        self._whole = Deal(np.ascontiguousarray(narrow(rows).T))

    @staticmethod
    def few(n_rows: int) -> bool:
        """Return whether rows are so few that they are permuted every time."""
        return n_rows <= _SMALL

    def deal(self, rngs: Sequence[np.random.Generator]) -> Deal:
        """Deal the rows of every run."""
        if self.n_blocks == 1:
            return self._whole
        order = self.rows.copy()
        for own, rng in zip(order, rngs, strict=True):
            rng.shuffle(own)
        dealt = order[:, : self.size * self.n_blocks].reshape(len(order), self.size, self.n_blocks)
        found = np.empty((self.size, len(order), self.n_blocks), dtype=self._whole.order.dtype)
        found[...] = dealt.transpose(1, 0, 2)
        return Deal(found.reshape(self.size, -1))


def in_the_middle(risks: Array, rngs: Sequence[np.random.Generator], voting: int, n_chosen: int) -> Array:
    """Return the blocks in the middle of the risks of each run, one at least, ties broken at random.

    Parameters
    ----------
    risks : ndarray of shape (n_runs, n_blocks)
        The risks of each run.
    rngs : sequence of Generator
        One a run.
    voting : int
        So many of the smallest count.
    n_chosen : int
        How many are wanted.

    Examples
    --------
    >>> in_the_middle(np.array([[5.0, 1.0, 3.0]]), [np.random.default_rng(0)], 3, 1)
    array([[2]])
    """
    n_runs, n_blocks = risks.shape
    n_chosen = max(1, n_chosen)
    if n_chosen >= n_blocks:
        return np.tile(np.arange(n_blocks), (n_runs, 1))
    low = (voting - n_chosen) // 2
    starts = [int(rng.integers(n_blocks)) for rng in rngs]  # they break ties, among blocks that were dealt at random
    if n_chosen == 1:
        ordered = risks.copy()
        ordered.partition(low, axis=1)
        alone = risks == ordered[:, low, None]
        if np.count_nonzero(alone) == n_runs:
            return alone.nonzero()[1][:, None]
    halves = [half for own, start in zip(risks, starts, strict=True) for half in (own[start:], own[:start])]
    turned = np.concatenate(halves).reshape(risks.shape)
    places = low if n_chosen == 1 else (low, low + n_chosen - 1)
    found = turned.argpartition(places, axis=1)[:, low : low + n_chosen]
    return (found + (starts[0] if n_runs == 1 else np.array(starts)[:, None])) % n_blocks


def narrow(rows: Array) -> Array:
    """Return row numbers in half the memory, where they fit."""
    return rows.astype(np.int32, copy=False) if rows.size == 0 or rows.max() < 2**31 else rows


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
