"""Which rows look corrupt after a fit: their losses, how seldom they were chosen, how far out they lie, copies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.learning.problem import Problem

Array = NDArray[Any]

#: Rows against which the loss of a pair's row is taken: at least, at most, and pairs in all.
_PARTNERS = 32, 256, 2**24
#: Rows whose scores are put together at once.
_AT_ONCE = 2**16


def partners_for(n_rows: int) -> int:
    """Return against how many rows the loss of a pair's row is taken: the fewer, the more rows there are."""
    fewest, most, in_all = _PARTNERS
    return min(max(fewest, in_all // n_rows), most)


def mean_losses(problem: Problem, theta: Array, partners: Array) -> Array:
    """Return the mean loss of each row with some others."""
    loss: Any = problem.loss
    scores, targets = loss.scores(problem.design, theta), problem.targets
    losses = np.empty(len(scores))
    strip = max(1, 2**16 // max(1, scores[partners].size))
    for low in range(0, len(scores), strip):
        i = np.s_[low : low + strip]
        values = loss.value(scores[i, None], scores[None, partners], targets[i, None], targets[None, partners])
        losses[i] = values.mean(axis=1)
    return losses


def outlier_scores(
    counts: Array, losses: Array, distances: Array, rows: Array, n_epochs: int, n_corrupt: int = 0
) -> Array:
    """Return, for each row, the larger of two suspicions in standard deviations, taken without the largest values.

    A row that sits in chosen blocks less often than others spoils its blocks; this counts a third. A row with a large
    loss is not explained by the fit, and one far out in its columns may be a wrong unit: these two add up. Each is
    blind where others see.
    """
    chosen = counts[rows]
    share, usual = chosen.mean() / max(n_epochs, 1), np.median(chosen, overwrite_input=True)
    del chosen
    spread = math.sqrt(max(n_epochs * share * (1 - share), 1.0))
    scores = np.zeros(len(counts))
    for values in (losses, distances):
        middle, scale = _middle_and_spread(values, max(1, len(values) - n_corrupt))
        for low in range(0, len(values), _AT_ONCE):
            part = np.s_[low : low + _AT_ONCE]
            scores[part] += np.maximum((values[part] - middle) / scale, 0.0)
    for low in range(0, len(rows), _AT_ONCE):
        some = rows[low : low + _AT_ONCE]
        seldom = (usual - counts[some]) / (3 * spread)  # by chance alone some are chosen seldom
        scores[some] = np.maximum(scores[some], seldom)
    return scores


def _middle_and_spread(values: Array, n_kept: int) -> tuple[float, float]:
    """Return the median of the finite values, and the standard deviation of the smallest ones."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return -math.inf, 1.0
    middle = float(np.median(finite, overwrite_input=True))
    finite.sort()
    kept = finite[:n_kept]
    kept -= kept.mean()
    return middle, math.sqrt(float(kept @ kept) / len(kept)) or 1.0


def most_copies(x: Array, targets: Array) -> tuple[int, int]:
    """Return how often the most frequent row (with its target) comes, and where it comes first."""
    weights = np.random.default_rng(0).standard_normal(x.shape[1] + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        keys = (x @ weights[:-1].astype(x.dtype)).astype(np.float64, copy=False)
        keys += weights[-1] * targets
    ordered = np.sort(keys)
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(again):
        return 1, 0
    starts = np.flatnonzero(np.diff(again, prepend=-2) != 1)
    longest = int(np.argmax(np.diff(starts, append=len(again))))
    run = np.flatnonzero(keys == ordered[again[starts[longest]]])
    alike = (x[run] == x[run[0]]).all(axis=1) & (targets[run] == targets[run[0]])
    return int(alike.sum()), int(run[0])
