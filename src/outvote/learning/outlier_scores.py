"""How suspect each row is after a fit: its loss, how seldom its blocks were chosen, and how far out it lies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from outvote.learning.arrays import Array, slices
from outvote.learning.problem import Problem

#: Each row of a pair loss is paired with at least and at most this many others, and with fewer beyond so many pairs.
_PARTNERS = 32, 256, 2**22
#: Rows processed at once.
_AT_ONCE = 2**16


def row_losses(problem: Problem, theta: Array, counts: Array, rows: Array, rng: np.random.Generator) -> Array:
    """Return the loss of each row; for pairs, its mean loss with some fitted `rows` that were chosen often.

    `counts` holds how often each row sat in a chosen block, and `rng` draws the partners.
    """
    loss: Any = problem.loss
    targets = problem.targets

    def partners_among(some: Array) -> Array:
        fewest, most, in_all = _PARTNERS
        trusted = some[counts[some] >= np.median(counts[some])]
        n_partners = min(max(fewest, in_all // len(targets)), most, len(trusted))
        return rng.choice(trusted, size=n_partners, replace=False)

    with np.errstate(over="ignore", invalid="ignore"):
        if loss.degree == 1:
            losses = loss.values(loss.scores(problem.design, theta), targets)
        elif len(problem.cells[0].samples) == 1:
            losses = problem.mean_losses(theta, partners_among(rows))
        else:  # each class is paired with the other one
            losses = np.empty(len(targets))
            for code in (0.0, 1.0):
                own, others = np.flatnonzero(targets == code), rows[targets[rows] != code]
                losses[own] = problem.mean_losses(theta, partners_among(others), own)
    losses[np.isnan(losses)] = np.inf
    return losses


def outlier_scores(
    counts: Array, losses: Array, distances: Array, rows: Array, n_epochs: int, n_corrupt: int = 0
) -> Array:
    """Return a score of each row in standard deviations, high where the row is suspect.

    It is the larger of two. The first is a third of how much less often than usual the row sat in a chosen block, which
    happens to rows that raise the risk of their blocks. The second is the sum of the row's loss, which is large where
    the fit does not explain the row, and of its distance from the centre of the columns, which is large where a unit is
    wrong. Each sees rows that the other misses. Standard deviations are taken without the `n_corrupt` largest values.
    """
    chosen = counts[rows]
    share, usual = chosen.mean() / max(n_epochs, 1), np.median(chosen, overwrite_input=True)
    del chosen
    spread = math.sqrt(max(n_epochs * share * (1 - share), 1.0))
    scores = np.zeros(len(counts))
    for values in (losses, distances):
        middle, scale = _middle_and_spread(values, max(1, len(values) - n_corrupt))
        for part in slices(len(values), _AT_ONCE):
            with np.errstate(over="ignore"):  # a row as far out as floats go has an infinite score
                scores[part] += np.maximum((values[part] - middle) / scale, 0.0)
    for part in slices(len(rows), _AT_ONCE):
        some = rows[part]
        seldom = (usual - counts[some]) / (3 * spread)  # some rows are chosen seldom by chance alone
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
    with np.errstate(over="ignore"):
        squares = float(kept @ kept)
    size = math.sqrt(squares) if math.isfinite(squares) else float(np.hypot.reduce(kept))
    return middle, size / math.sqrt(len(kept)) or 1.0
