"""Prepare a vote for given blocks: its tuning and its certified radius."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outvote.votes.clipped import ClippedTuning, clipped_tuning, clipped_vote
from outvote.votes.grid import grid_radius
from outvote.votes.median import Floats, median_of, median_radius, unequal_radius
from outvote.votes.search import best_n_blocks, odd_grid
from outvote.votes.soft import SoftTuning, soft_scale, soft_tuning, soft_vote
from outvote.votes.terms import Layout, Terms

#: Votes of blocks; "auto" takes the smallest certified radius.
BlockVote = Literal["median", "soft", "clipped", "auto"]
VoteName = Literal["evidence", "median", "soft", "clipped", "auto"]
KernelVote = Literal["complete", "evidence", "median", "soft", "clipped", "auto"]

#: Up to this many rows every row votes; with more rows, blocks vote, which is faster.
_EVERY_ROW_VOTES_UP_TO = 2**20
#: The factor by which such blocks may enlarge the radius.
_BLOCKS_MAY_COST = 1.01


@dataclass(frozen=True)
class Ballot:
    """A vote with its radius and, for the soft and the clipped vote, its tuning.

    Attributes
    ----------
    vote : {"median", "soft", "clipped"}
        How the estimate is computed from the block values.
    radius : float
        How far the estimate can be from the truth; infinite if this vote has no certificate.
    scale : float
        The unit of the tuning: the sd of a clean block value, or the unit of the threshold.
    tuning : SoftTuning, ClippedTuning or None
        The tuning, in units of `scale`; None for the median.
    """

    vote: str
    radius: float
    scale: float = 1.0
    tuning: SoftTuning | ClippedTuning | None = None

    def count(self, values: Floats) -> float:
        """Return the estimate from the block values; a vote without a certificate returns the median."""
        if self.tuning is None or not 0 < self.radius < math.inf:
            return float(median_of(values))
        if isinstance(self.tuning, SoftTuning):
            return soft_vote(values, self.scale, self.tuning)
        return clipped_vote(values, self.scale * self.tuning.tau)

    def scaled(self, factor: float) -> Ballot:
        """Return the ballot for values `factor` times as large."""
        return replace(self, radius=self.radius * factor, scale=self.scale * factor)


def ballot(
    vote: str, sizes: Sequence[NDArray[Any]], n_bad: Sequence[int], terms: Terms, layout: Layout = "single"
) -> Ballot:
    """Prepare a vote of blocks.

    Parameters
    ----------
    vote : {"median", "soft", "clipped"}
        The vote; on a full grid, where blocks are not independent, the median is taken.
    sizes : sequence of arrays
        Sizes of the blocks of each sample.
    n_bad : sequence of int
        How many rows of each sample may be corrupt.
    terms : Terms
        log δ, assumption, degrees, adversary, alternative.
    layout : {"single", "full", "diagonal"}
        How the blocks of several samples are combined.
    """
    if layout == "full":
        # Blocks of the smallest size have the heaviest tail, so a bound for them holds for all.
        smallest = tuple(int(size.min()) for size in sizes)
        return _remembered_grid(tuple(map(len, sizes)), tuple(n_bad), smallest, terms)
    n_blocks, bad = len(sizes[0]), sum(n_bad)
    ends = [(int(size[0]),) * 2 if size.strides == (0,) else (int(size.min()), int(size.max())) for size in sizes]
    equal = all(low == high for low, high in ends)
    if vote == "median" and not equal:
        return Ballot(vote, unequal_radius(bad, tuple(sizes), **terms.keywords))
    if vote == "soft" and not equal:
        sds = terms.tail(tuple(size.astype(np.float64) for size in sizes)).sd
        return _soft(n_blocks, bad, soft_scale(np.broadcast_to(sds, (n_blocks,)), bad, terms.adversary), terms)
    # All sizes are equal, or the smallest is used for all.
    smallest = tuple(low for low, _ in ends)
    return _remembered(vote, n_blocks, bad, smallest, terms)


@lru_cache(maxsize=256)
def _remembered_grid(n_blocks: tuple[int, ...], n_bad: tuple[int, ...], sizes: tuple[int, ...], terms: Terms) -> Ballot:
    return Ballot("median", float(grid_radius(n_blocks, n_bad, sizes, **terms.keywords)))


@lru_cache(maxsize=256)
def _remembered(vote: str, n_blocks: int, n_bad: int, sizes: tuple[int, ...], terms: Terms) -> Ballot:
    return at_size(vote, n_blocks, n_bad, sizes, terms)


def at_size(vote: str, n_blocks: int, n_bad: int, sizes: tuple[int, ...], terms: Terms) -> Ballot:
    """Prepare a vote of `n_blocks` blocks of equal size, one size for each sample."""
    if vote == "median":
        return Ballot(vote, float(median_radius(n_blocks, n_bad, sizes, **terms.keywords)))
    tail = terms.tail(sizes)
    if vote == "soft":
        return _soft(n_blocks, n_bad, float(tail.sd), terms)
    tuning = clipped_tuning(n_blocks, n_bad, tail, **terms.who)
    return Ballot("clipped", tuning.radius, 1.0, tuning)


def _soft(n_blocks: int, n_bad: int, sd: float, terms: Terms) -> Ballot:
    tuning = soft_tuning(n_blocks, n_bad, **terms.who)
    return Ballot("soft", sd * tuning.radius, sd, tuning)


def best_vote(
    vote: str, n_rows: Sequence[int], n_corrupt: Sequence[int], terms: Terms, layout: Layout = "single"
) -> tuple[str, tuple[int, ...]]:
    """Return the vote and the number of blocks with the smallest certified radius; "auto" tries every vote.

    Returns
    -------
    vote : str
        "median", "soft" or "clipped".
    n_blocks : tuple of int
        One number for each sample.
    """
    if layout == "full":
        candidates = ["median"]
    else:
        candidates = ["median", "soft", "clipped"] if vote == "auto" else [vote]
    found = [(one, _blocks_for(one, n_rows, n_corrupt, terms, layout)) for one in candidates]
    if len(found) == 1:
        return found[0]
    return min(found, key=lambda item: _radius(item[0], n_rows, item[1], sum(n_corrupt), terms))


def _blocks_for(
    vote: str, n_rows: Sequence[int], n_corrupt: Sequence[int], terms: Terms, layout: Layout
) -> tuple[int, ...]:
    if vote == "median":
        return best_n_blocks(n_rows, n_corrupt, layout=layout, **terms.keywords)
    most, bad = min(n // d for n, d in zip(n_rows, terms.degrees, strict=True)), sum(n_corrupt)
    if terms.degrees == (1,):
        return (_blocks_of_rows(vote, n_rows[0], bad, terms),)
    tried = odd_grid(2 * bad + 1, most, 24)
    for _ in range(3):
        # Take the largest number of blocks that leaves the sizes unchanged.
        tried = np.unique(np.minimum.reduce([n // (n // tried) for n in n_rows]))
        radii = [_radius(vote, n_rows, (int(k),) * len(n_rows), bad, terms) for k in tried]
        best = int(np.argmin(radii))
        chosen = int(tried[best])
        tried = odd_grid(tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)], 10)
    return (chosen,) * len(n_rows)


def _blocks_of_rows(vote: str, n_rows: int, bad: int, terms: Terms) -> int:
    """Return the number of votes for a mean: all rows if that is fast, else the fewest blocks with a good radius."""
    if n_rows <= _EVERY_ROW_VOTES_UP_TO:
        return n_rows
    allowed = _BLOCKS_MAY_COST * _radius(vote, [n_rows], (n_rows,), bad, terms)
    low, high = 1, max(1, n_rows // (2 * bad + 1))
    while high - low > 1:
        size = (low + high) // 2
        fits = _radius(vote, [n_rows], (n_rows // size,), bad, terms) <= allowed
        low, high = (size, high) if fits else (low, size)
    return n_rows // low


def _radius(vote: str, n_rows: Sequence[int], n_blocks: Sequence[int], bad: int, terms: Terms) -> float:
    sizes = tuple(n // k for n, k in zip(n_rows, n_blocks, strict=True))
    return at_size(vote, n_blocks[0], bad, sizes, terms).radius
