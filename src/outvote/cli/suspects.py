"""``outvote suspects``: list rows that look corrupt."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outvote.cli.answer import Asked, Progress, silent
from outvote.data.columns import Columns, Label

#: Rows in a block: few, so that a corrupt row moves the mean of its block, and few other rows share the block.
_SUSPECT_BLOCK = 5
#: A block is voted out if its mean is more than this many robust standard deviations of block means from the vote.
OUT = 3.0
_NORMAL_MAD = 1.4826
#: Partitions that share one permutation of the rows.
_PER_SHUFFLE = 20


@dataclass(frozen=True)
class Suspect:
    """A row that looks corrupt: its place, its value (or its text if it is not a number), and its score."""

    file: str
    row: int
    group: Label
    value: float | None
    text: str
    score: float


@dataclass(frozen=True)
class Suspects:
    """The answer of ``outvote suspects``.

    Attributes
    ----------
    suspects : list of Suspect
        The most suspect rows; rows that are not numbers come first.
    typical : float
        The median score.
    missing : int
        Rows without a value, which are not listed.
    partitions, block_size : int
        Number of partitions, and rows in a block (the largest, if groups differ).
    """

    asked: Asked
    source: str
    value: str
    by: tuple[str, ...]
    n: int
    missing: int
    partitions: int
    block_size: int
    typical: float
    suspects: list[Suspect]

    @property
    def complete(self) -> bool:
        """Whether there is an answer."""
        return True


def suspects(
    columns: Columns,
    asked: Asked,
    source: str,
    *,
    top: int = 20,
    partitions: int = 200,
    progress: Progress = silent,
) -> Suspects:
    """Rank rows by how often their block is voted out over many random partitions of their group."""
    scores, distances = np.zeros(len(columns.values)), np.zeros(len(columns.values))
    largest, groups = 1, columns.groups()
    for number, group in enumerate(groups, 1):
        finite = np.isfinite(group.values)
        if not finite.any():
            continue
        size = _suspect_block(int(finite.sum()), asked)
        largest = max(largest, size)
        say = (lambda text, n=number: progress(f"group {n} of {len(groups)}, {text}")) if len(groups) > 1 else progress
        found = score_rows(group.values[finite], size, partitions, asked.seed, say)
        rows = group.rows[finite]
        scores[rows], distances[rows] = found
    bad = ~np.isfinite(columns.values)
    texts = {cell.row: cell.text for cell in columns.unreadable}
    certain = sorted({*texts, *np.flatnonzero(np.isinf(columns.values)).tolist()})
    typical = float(np.median(scores[~bad])) if not bad.all() else 0.0
    ranked = [row for row in _ranked(scores, distances, top).tolist() if scores[row] > typical and not bad[row]]
    lines = [
        Suspect(
            *columns.place(row),
            columns.labels[int(columns.codes[row])],
            None if bad[row] else float(columns.values[row]),
            texts.get(row, str(columns.values[row]) if bad[row] else ""),
            1.0 if bad[row] else float(scores[row]),
        )
        for row in [*certain, *ranked][:top]
    ]
    missing = int(np.isnan(columns.values).sum()) - columns.n_unreadable
    return Suspects(
        asked, source, columns.name, columns.keys, len(scores), missing, partitions, largest, typical, lines
    )


def _suspect_block(n_rows: int, asked: Asked) -> int:
    """Return the rows in a block: few enough that corrupt rows are in at most a quarter of the blocks."""
    count = n_rows // 100 if isinstance(asked.contamination, str) else min(asked.count(n_rows), n_rows)
    return max(1, min(_SUSPECT_BLOCK, n_rows // (4 * count + 1), n_rows // 3))


def _ranked(scores: NDArray[np.float64], distances: NDArray[np.float64], top: int) -> NDArray[np.intp]:
    """Return the rows with the highest scores; among equal scores, rows farther from the median come first."""
    if top < len(scores):
        least = np.partition(scores, len(scores) - top)[len(scores) - top]
        candidates = np.flatnonzero(scores >= least)
    else:
        candidates = np.arange(len(scores))
    return candidates[np.lexsort((candidates, -distances[candidates], -scores[candidates]))][:top]


def score_rows(
    values: NDArray[np.float64], size: int, partitions: int, seed: int, progress: Progress = silent
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return for each row the share of partitions in which its block is voted out.

    A block is voted out if its mean is farther from the median of the block means than three times their robust
    standard deviation (1.4826 MAD). Some partitions share a permutation, which is cut into stretches of one row for
    each block; every partition rotates the stretches by random offsets.

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
    for start in range(0, partitions, _PER_SHUFFLE):
        progress(f"partition {start} of {partitions}")
        here = min(_PER_SHUFFLE, partitions - start)
        rows = rng.permutation(n_rows)[: n_blocks * size].reshape(size, n_blocks)
        columns, times = values[rows] * unit, np.zeros((size, n_blocks), dtype=np.int64)
        for _ in range(here):
            turns = rng.integers(n_blocks, size=size).tolist()
            sums = np.zeros(n_blocks)
            for column, turn in zip(columns, turns, strict=True):  # the stretch, turned by so many blocks
                sums[turn:] += column[: n_blocks - turn]
                sums[:turn] += column[n_blocks - turn :]
            sums -= np.median(sums)
            np.abs(sums, out=sums)
            voted_out = sums > OUT * _NORMAL_MAD * np.median(sums)
            for counts, turn in zip(times, turns, strict=True):
                counts[: n_blocks - turn] += voted_out[turn:]
                counts[n_blocks - turn :] += voted_out[:turn]
        out[rows] += times
        used[rows] += here
    with np.errstate(over="ignore"):
        return out / np.maximum(used, 1), np.abs(values - np.median(values))
