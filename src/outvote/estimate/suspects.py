"""Rank rows by how suspect they are: how often their block is voted out over many random partitions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.partition import Rng, seed_of
from outvote.contamination import Contamination
from outvote.data.arguments import is_whole
from outvote.data.loading import one_at_a_time
from outvote.data.progress import watched
from outvote.data.rows import read_rows
from outvote.data.text import html_table
from outvote.estimate.request import Allowed

Floats = NDArray[np.float64]

#: Rows in a block: few, so that a corrupt row moves the mean of its block, and few other rows share the block.
_BLOCK = 5
#: A block is voted out if its mean is more than this many robust standard deviations of block means from the vote.
OUT = 3.0
_NORMAL_MAD = 1.4826
#: Partitions that share one permutation of the rows.
_PER_SHUFFLE = 20
#: Blocks of several partitions that are looked at together.
_TOGETHER = 1 << 15
#: No ranking gets better by more partitions than this.
_MOST_PARTITIONS = 100_000
#: Blocks that the median of the block means and their spread are read off: all are alike.
_ENOUGH_BLOCKS = 1 << 13


@dataclass(frozen=True, eq=False, repr=False)
class Suspects:
    """The rows that look most corrupt.

    Attributes
    ----------
    rows : ndarray of int
        Their positions, the most suspect first; infinite rows come before all others.
    values : ndarray
        Their values.
    scores : ndarray
        The share of partitions in which the mean of the row's block was voted out.
    typical : float
        The median score of all rows.
    n_rows, n_missing : int
        How many rows there are, and how many of them are NaN, which are not listed.
    """

    rows: NDArray[np.intp]
    values: Floats
    scores: Floats
    typical: float
    n_rows: int
    n_missing: int

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        if not len(self.rows):
            return f"no row of {self.n_rows} stands out"
        lines = [f"{'row':>10} {'value':>14} {'score':>6}"]
        cells = zip(self.rows.tolist(), self.values.tolist(), self.scores.tolist(), strict=True)
        return "\n".join([*lines, *(f"{row:>10} {value:>14.7g} {score:>6.3f}" for row, value, score in cells)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Render as a small table in notebooks."""
        rows = zip(self.rows.tolist(), self.values.tolist(), self.scores.tolist(), strict=True)
        return html_table("suspects", f"the most suspect of {self.n_rows} rows", ("row", "value", "score"), rows)


def suspects(
    x: Any,
    contamination: Allowed = 0.01,
    top: int = 20,
    partitions: int = 200,
    rng: Rng = 0,
    *,
    value: str | None = None,
    by: str | Sequence[str] | None = None,
) -> Any:
    """List the rows that look corrupt, by how often their block is voted out over many random partitions.

    A block of a few rows is voted out if its mean is farther from the median of the block means than three times their
    robust standard deviation. A high score is a reason to look at a row, not a proof: the largest clean rows of a
    heavy-tailed distribution have one, too.

    Parameters
    ----------
    x : array-like, table, path or Scan
        The rows, one column; or a table, eager or lazy, files, or what `scan` returns, with `value`.
    contamination : float, int or Contamination
        How many rows may be corrupt, in each group: blocks are so small that most have none of them.
    top : int
        How many rows to list.
    partitions : int
        Number of random partitions.
    rng : int, Generator or None
        Seed.
    value : str, optional
        For a table: the column of numbers.
    by : str or sequence of str, optional
        For a table: keys; each row is judged by the rows of its own group.

    Returns
    -------
    Suspects, or a table of the kind that was given
        A table has the keys, row (the row id, or its number from 0 on), value and score, the most suspect row first.

    Notes
    -----
    Infinite rows come first, with a score of 1; rows without a value are not listed. Peak memory: about six times that
    of the rows.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(10.0, size=1000)
    >>> x[[7, 70]] = 90.0, -60.0
    >>> ov.suspects(x, top=3)
           row          value  score
             7             90  1.000
            70            -60  1.000
           478       6.100578  0.080
    """
    top, partitions = checked_counts(top, partitions)
    allowed, seed = Contamination.of(contamination), seed_of(rng)
    if value is None and by is None:
        rows = read_rows(x, "x")
        if rows.ndim != 1:
            raise ValueError(f"x has shape {tuple(rows.shape)}: suspects takes one column, or a table and value=")
        values = rows.astype(np.float64, copy=False)
        found = rank(values, [np.arange(len(values))], allowed, partitions, seed)
        which = found.first(top)
        return Suspects(
            which, values[which], found.scores[which], found.typical, len(values), int(np.isnan(values).sum())
        )
    if value is None:
        raise TypeError(f"by={by!r} is for a table, whose column of numbers is value: give value=…, too")
    with one_at_a_time():
        from outvote.tables.open import scan

    opened = x if hasattr(x, "suspects") else scan(x)
    return opened.suspects(value, by, contamination=allowed, top=top, partitions=partitions, rng=seed)


def checked_counts(top: Any, partitions: Any) -> tuple[int, int]:
    """Return how many rows are listed, and how often blocks are drawn; refuse what is no such number."""
    for name, number in (("top", top), ("partitions", partitions)):
        if not is_whole(number) or number < 1:
            raise ValueError(f"{name}={number!r} must be an integer of at least 1")
    if partitions > _MOST_PARTITIONS:
        raise ValueError(f"partitions={partitions!r} would take too long: give at most {_MOST_PARTITIONS}")
    return int(top), int(partitions)


@dataclass(frozen=True)
class Ranking:
    """The scores of rows, and how far each is from the median of its group.

    Attributes
    ----------
    values, scores, distances : ndarray
        Of each row; scores of infinite rows are 1.
    block_size : int
        Rows in a block, the largest if groups differ.
    """

    values: Floats
    scores: Floats
    distances: Floats
    block_size: int

    @property
    def typical(self) -> float:
        """The median score of finite rows."""
        finite = np.isfinite(self.values)
        return float(np.median(self.scores[finite])) if finite.any() else 0.0

    def first(self, top: int) -> NDArray[np.intp]:
        """Return the most suspect rows: infinite ones, then those with scores above the typical one.

        Among equal scores, rows farther from the median come first.
        """
        scores = np.where(np.isnan(self.values), -1.0, self.scores)
        endless = np.flatnonzero(np.isinf(self.values))
        if top < len(scores):
            least = np.partition(scores, len(scores) - top)[len(scores) - top]
            candidates = np.flatnonzero(scores >= least)
        else:
            candidates = np.arange(len(scores))
        order = np.lexsort((candidates, -self.distances[candidates], -scores[candidates]))
        some = candidates[order][:top]
        some = some[(scores[some] > self.typical) & np.isfinite(self.values[some])]
        return np.concatenate([endless, some])[:top].astype(np.intp)


def rank(
    values: Floats,
    groups: Sequence[NDArray[np.intp]],
    contamination: Contamination | None,
    partitions: int,
    seed: int,
    progress: Callable[[str], None] = lambda text: None,
) -> Ranking:
    """Score each row among those of its group; `groups` have the positions of their rows.

    Without a contamination one row in a hundred counts as corrupt.
    """
    scores, distances = np.where(np.isinf(values), 1.0, 0.0), np.zeros(len(values))
    largest = 1
    for number, rows in enumerate(groups, 1):
        mine = rows[np.isfinite(values[rows])]
        if not len(mine):
            continue
        n_corrupt = len(mine) // 100 if contamination is None else _count(contamination, len(mine))
        mine = _judged(values, mine, n_corrupt, scores)
        if not len(mine):
            continue
        size = max(1, min(_BLOCK, len(mine) // (4 * n_corrupt + 1), len(mine) // 3))
        largest = max(largest, size)
        say = (lambda text, n=number: progress(f"group {n} of {len(groups)}, {text}")) if len(groups) > 1 else progress
        scores[mine], distances[mine] = score_rows(values[mine], size, partitions, seed, say)
    return Ranking(values, scores, distances, largest)


def _judged(values: Floats, mine: NDArray[np.intp], n_corrupt: int, scores: Floats) -> NDArray[np.intp]:
    """Return the rows to judge among each other: all, or if most are equal those that differ from them.

    The equal rows have no spread that a distance could be measured by. What stands out for certain gets its score
    here: a few rows among equal ones, what is neither 0 nor 1 among rows of 0 and 1, a few negative rows among others
    that are 0 or more.
    """
    rows = values[mine]
    common = float(np.partition(rows, len(rows) // 2)[len(rows) // 2])
    others = mine[rows != common]
    if 2 * len(others) >= len(mine):
        return mine
    few, odd = max(n_corrupt, 1), mine[~np.isin(rows, (0.0, 1.0))]
    if common in (0.0, 1.0) and len(odd) <= few and len(odd) < max(len(others), 1):
        scores[odd] = 1.0
        return mine[:0]
    if len(others) <= few:
        scores[others] = 1.0
        return mine[:0]
    negative = others[values[others] < 0]
    if common == 0 and len(negative) <= few:
        scores[negative] = 1.0
        return others[values[others] >= 0]
    return others


def _count(contamination: Contamination, n_rows: int) -> int:
    """Return how many rows may be corrupt, even if that is more than a majority allows."""
    try:
        return contamination.count(n_rows)
    except ValueError:
        return n_rows


def _medians(table: Floats) -> Floats:
    """Return the median of each line, one below the other."""
    n = table.shape[1]
    parted = np.partition(table, [(n - 1) // 2, n // 2], axis=1)
    with np.errstate(over="ignore"):
        return np.asarray((parted[:, (n - 1) // 2] + parted[:, n // 2]) / 2)[:, None]


def score_rows(
    values: Floats, size: int, partitions: int, seed: int, progress: Callable[[str], None] = lambda text: None
) -> tuple[Floats, Floats]:
    """Return for each row the share of partitions in which its block is voted out.

    A block is voted out if its mean is farther from the median of the block means than three times their robust
    standard deviation (1.4826 MAD), both read off 8192 blocks at most. Some partitions share a permutation, which is
    cut into stretches of one row for each block; every partition rotates the stretches by random offsets.

    Parameters
    ----------
    values : ndarray
        Finite numbers.
    size : int
        Rows in a block.
    partitions : int
        Number of random partitions.
    seed : int
        Seed.
    progress : callable
        Called with a message on the progress.

    Returns
    -------
    scores, distances : ndarray
        The share, and the distance of the row from the median of all rows.

    Examples
    --------
    >>> x = np.r_[np.random.default_rng(0).normal(size=99), 50.0]
    >>> scores, _ = score_rows(x, size=5, partitions=100, seed=0)
    >>> int(scores.argmax()), bool(scores[99] > 0.9)
    (99, True)
    """
    rng, n_rows = np.random.default_rng([11, seed]), len(values)
    n_blocks = n_rows // size
    out, used = np.zeros(n_rows), np.zeros(n_rows)
    # Huge values are scaled down, so that sums of a block do not overflow.
    unit = 2.0 ** -math.ceil(math.log2(size) + 1) if np.abs(values).max() > 1e300 else 1.0
    with watched(range(0, partitions, _PER_SHUFFLE), "partitions") as starts:
        for start in starts:
            progress(f"partition {start} of {partitions}")
            here = min(_PER_SHUFFLE, partitions - start)
            rows = rng.permutation(n_rows)[: n_blocks * size].reshape(size, n_blocks)
            columns, times = values[rows] * unit, np.zeros((size, n_blocks), dtype=np.uint8)
            twice, at_once = np.concatenate([columns, columns], axis=1), max(_TOGETHER // n_blocks, 1)
            for done in range(0, here, at_once):
                turns = rng.integers(n_blocks, size=(min(at_once, here - done), size))
                sums = np.zeros((len(turns), n_blocks))
                for j, column in enumerate(twice):  # each stretch, turned by so many blocks
                    for total, turn in zip(sums, turns[:, j].tolist(), strict=True):
                        total += column[n_blocks - turn : 2 * n_blocks - turn]
                sums -= _medians(sums[:, :_ENOUGH_BLOCKS])
                np.abs(sums, out=sums)
                with np.errstate(over="ignore"):
                    voted_out = sums > OUT * _NORMAL_MAD * _medians(sums[:, :_ENOUGH_BLOCKS])
                for out_of_one, own in zip(voted_out, turns.tolist(), strict=True):
                    if not out_of_one.any():
                        continue
                    twice_out = np.concatenate([out_of_one, out_of_one]).view(np.uint8)
                    for counts, turn in zip(times, own, strict=True):
                        counts += twice_out[turn : turn + n_blocks]
            out[rows] += times
            used[rows] += here
    with np.errstate(over="ignore"):
        return out / np.maximum(used, 1), np.abs(values - np.median(values))
