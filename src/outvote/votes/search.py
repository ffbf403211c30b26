"""Search the number of blocks with the smallest certified radius."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from outvote.assumptions.assumption import Assumption, FiniteKurtosis
from outvote.contamination import Adversary
from outvote.votes.grid import grid_radius, grid_threshold
from outvote.votes.median import Floats, median_radius
from outvote.votes.scale import sigma_free_factor
from outvote.votes.terms import Alternative, Layout, Terms


def best_n_blocks(
    n_rows: Sequence[int],
    n_corrupt: Sequence[int],
    *,
    degrees: Sequence[int] = (1,),
    layout: Layout = "single",
    log_delta: float,
    assume: Assumption,
    adversary: Adversary = "oblivious",
    alternative: Alternative = "two-sided",
) -> tuple[int, ...]:
    """Return odd numbers of blocks, one per sample, that minimise the certified radius of the median vote.

    Parameters
    ----------
    n_rows, n_corrupt, degrees : sequence of int
        Rows, corrupt rows and kernel degree, one per sample.
    layout : {"single", "full", "diagonal"}
        One sample; the complete grid of blocks; or block k of all samples together.
    log_delta : float
        Logarithm of the failure probability.
    assume : Assumption
        The assumption on clean values. Its scale does not matter: give ``FiniteVariance(1.0)`` if it is unknown.
    adversary, alternative : str
        As in :func:`median_radius`.

    Returns
    -------
    tuple of int

    Raises
    ------
    ValueError
        If no number of blocks gives a finite certificate.

    Notes
    -----
    At a given block size more blocks are better, so only the largest odd K for each block size is a
    candidate. If there are few candidates, all are tried. Otherwise the search tries a coarse geometric
    grid, and then finer grids around its minimum.

    Examples
    --------
    >>> from outvote.assumptions.assumption import FiniteVariance
    >>> best_n_blocks([1000], [50], log_delta=np.log(0.01), assume=FiniteVariance(1.0))
    (249,)
    """
    if isinstance(assume, FiniteKurtosis) and assume.sd is None and tuple(degrees) != (1,):
        raise ValueError(f"assume={assume!r} without sd works for means only: give sd for other kernels")
    terms = Terms(log_delta, adversary, alternative, assume, tuple(degrees))
    axes = tuple((s,) for s in range(len(n_rows))) if layout == "full" else (tuple(range(len(n_rows))),)
    ranges = _block_ranges(axes, n_rows, n_corrupt, degrees)
    rounds, coarse, fine = {1: (2, 28, 10), 2: (2, 12, 8)}.get(len(axes), (2, 6, 5))
    useful = 2 * math.floor(20 * (sum(n_corrupt) - log_delta + 1)) + 1
    if math.prod((most - least) // 2 + 1 for least, most in ranges) <= 1024:  # try all of them
        rounds, coarse, useful = 0, 1024, max(most for _, most in ranges)
    search = _Search(tuple(n_rows), tuple(n_corrupt), layout, terms, axes, dict(zip(axes, ranges, strict=True)), coarse)
    tried = []
    for axis, (least, most) in zip(axes, ranges, strict=True):
        tried.append(search.snap(odd_grid(least, max(least, min(most, useful)), coarse), axis))
    smallest, chosen = math.inf, [float(k[0]) for k in tried]
    for step in range(rounds + 1):
        mesh = np.meshgrid(*tried, indexing="ij")
        radii = search.certified([k for axis, k in zip(axes, mesh, strict=True) for _ in axis])
        best = np.unravel_index(int(np.argmin(radii)), radii.shape)
        if radii[best] < smallest:
            smallest, chosen = float(radii[best]), [float(k[i]) for k, i in zip(tried, best, strict=True)]
        near = 0 if step >= rounds - 1 else fine
        tried = [search.around(k, int(i), axis, near) for k, i, axis in zip(tried, best, axes, strict=True)]
    if not math.isfinite(smallest):
        raise ValueError(
            f"no number of blocks gives a finite certificate for n_rows={tuple(n_rows)!r}, "
            f"n_corrupt={tuple(n_corrupt)!r} under {assume!r}: give sd, more rows or less contamination"
        )
    return tuple(int(k) for axis, k in zip(axes, chosen, strict=True) for _ in axis)


@dataclass(frozen=True)
class _Search:
    """The arguments of a search and its candidates; an axis is a group of samples with the same K."""

    n_rows: tuple[int, ...]
    n_corrupt: tuple[int, ...]
    layout: Layout
    terms: Terms
    axes: tuple[tuple[int, ...], ...]
    ranges: Mapping[tuple[int, ...], tuple[int, int]]
    coarse: int

    def certified(self, blocks: Sequence[Floats]) -> Floats:
        """Return the radii of candidates, in a unit that is the same for all of them."""
        terms, assume = self.terms, self.terms.assume
        sizes = tuple(n // k for n, k in zip(self.n_rows, blocks, strict=True))
        if self.layout == "full":
            return grid_radius(blocks, self.n_corrupt, sizes, rough=True, **terms.keywords)
        if isinstance(assume, FiniteKurtosis) and assume.sd is None:
            options = {**terms.who, "kurtosis": assume.kurtosis, "shares": (0.1,)}
            return sigma_free_factor(blocks[0], self.n_corrupt[0], sizes[0], **options)[0]
        return median_radius(blocks[0], sum(self.n_corrupt), sizes, **terms.keywords)

    def snap(self, blocks: Floats, axis: tuple[int, ...]) -> Floats:
        """Return the largest odd K with the same block sizes for each K (on small grids, K itself)."""
        if len(self.axes) > 1 and self.ranges[axis][1] <= 2 * self.coarse:
            return blocks
        return _odd(np.minimum.reduce([self.n_rows[s] // (self.n_rows[s] // blocks) for s in axis]))

    def around(self, tried: Floats, i: int, axis: tuple[int, ...], fine: int) -> Floats:
        """Return candidates near the i-th: a grid of `fine` candidates, or for 0 every size if blocks are small."""
        k, sizes = tried[i], [self.n_rows[s] // tried[i] for s in axis]
        if fine or min(sizes) > 400:
            fine = fine or {1: 10, 2: 8}.get(len(self.axes), 5)
            return self.snap(odd_grid(tried[max(i - 1, 0)], tried[min(i + 1, len(tried) - 1)], fine), axis)
        near = []
        for s, size in zip(axis, sizes, strict=True):
            spread = 1.1 + 5 / size
            least = max(np.floor(size / spread), self.terms.degrees[s])
            near.append(self.n_rows[s] // np.arange(least, size * spread + 1))
        blocks = _odd(np.concatenate([*near, [k]]))
        low, high = self.ranges[axis]
        blocks = blocks[(blocks >= low) & (blocks <= high)]
        return blocks if len(self.axes) == 1 else blocks[:: math.ceil(len(blocks) / 14)]


def _odd(blocks: Floats) -> Floats:
    """Return the numbers rounded down to odd numbers, sorted, without repetitions."""
    return np.unique(blocks - (blocks % 2 == 0))


def odd_grid(low: float, high: float, count: int) -> Floats:
    """Return about `count` odd numbers from `low` to `high`: all of them, or a geometric grid."""
    if high - low <= 2 * count:
        return np.arange(low, high + 1, 2.0)
    return np.unique(np.minimum(2 * np.floor(np.geomspace(low, high, count) / 2) + 1, high))


def _block_ranges(
    axes: Sequence[Sequence[int]], n_rows: Sequence[int], n_corrupt: Sequence[int], degrees: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the smallest and largest odd number of blocks on each axis; raise an error if there is none."""
    ranges = []
    for axis in axes:
        most, bad = min(n_rows[s] // degrees[s] for s in axis), sum(n_corrupt[s] for s in axis)
        if 2 * bad + 1 > most:
            raise ValueError(
                f"n_corrupt={tuple(n_corrupt)!r} asks for {2 * bad + 1} blocks, but n_rows={tuple(n_rows)!r} "
                f"make at most {most} blocks for degrees={tuple(degrees)!r}: the largest n_corrupt here is "
                f"{max((most - 1) // 2, 0)}"
            )
        ranges.append((2 * bad + 1, most - (most % 2 == 0)))
    if len(axes) > 1 and grid_threshold([high for _, high in ranges], n_corrupt)[1] <= 0:
        raise ValueError(
            f"n_corrupt={tuple(n_corrupt)!r} of n_rows={tuple(n_rows)!r} can corrupt half the cells of any grid: "
            "the product of the clean shares of blocks must exceed 1/2; lower n_corrupt"
        )
    return ranges
