"""What a descent minimises: the median of the block risks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from outvote.learning.arrays import Array, slices
from outvote.learning.losses import Loss
from outvote.learning.scaling import ScaledRows
from outvote.learning.voting import Cell

#: The gradients of the chosen blocks hold at most this many numbers together.
MOST_GRADIENTS = 2**22
#: The median risk of a parameter is the median over this many draws of blocks.
N_DRAWS = 5
#: Rows counted, or pairs computed, at once.
_AT_ONCE = 2**16


class Epoch(NamedTuple):
    """What one epoch finds: the risk of the median block, that of the chosen blocks, their gradient and numbers."""

    risk: float
    chosen_risk: float
    gradient: Array
    selected: Array


@dataclass(frozen=True)
class Problem:
    """Rows, targets, a loss, and the cells in which blocks vote.

    `penalised` has 1 for each parameter that the L2 penalty applies to and 0 for the others (the intercept).

    Examples
    --------
    >>> from outvote.learning.losses import Squared
    >>> from outvote.learning.scaling import ScaledRows
    >>> from outvote.learning.voting import Cell
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> design = ScaledRows(x, centre=np.zeros(2), scale=np.ones(2))
    >>> cells = [Cell(samples=(np.arange(200),), n_blocks=21, n_chosen=5)]
    >>> problem = Problem(design, x @ [2.0, 1.0], Squared(), cells)
    >>> problem.median_risk(np.array([2.0, 1.0]), np.random.default_rng(0))
    0.0
    """

    design: ScaledRows
    targets: Array
    loss: Loss
    cells: Sequence[Cell]
    penalised: Any = 1.0

    def epoch(self, theta: Array, rng: np.random.Generator, counts: Array) -> Epoch:
        """Draw blocks, compute their risks, choose those in the middle, and count each of their rows in `counts`."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.loss.scores(self.design, theta)
        risk = chosen_risk = 0.0
        gradient: Any = 0.0
        selected = []
        for cell in self.cells:
            drawn = cell.draw(rng)
            risks = cell.risks(self.loss, scores, self.targets, drawn)
            chosen = cell.choose(risks, rng)
            if len(chosen) * theta.size > MOST_GRADIENTS:  # some of the middle blocks are enough
                chosen = rng.choice(chosen, size=max(1, MOST_GRADIENTS // theta.size), replace=False)
            rows = tuple(blocks.rows(chosen if len(chosen) < cell.n_blocks else None) for blocks in drawn)
            gradient = gradient + cell.weight * cell.gradient(self.loss, self.design, scores, self.targets, rows)
            is_median = cell.n_chosen == 1 and cell.groups is None
            own = float(risks[chosen[0]])
            risk += cell.weight * (own if is_median else float(lower_median(risks)))
            chosen_risk += cell.weight * (own if is_median else float(risks[chosen].mean()))
            for taken in rows:
                count_rows(taken, counts)
            selected.append(chosen.astype(np.int32))
        return Epoch(risk, chosen_risk, gradient, selected[0] if len(selected) == 1 else np.concatenate(selected))

    def median_risk(self, theta: Array, rng: np.random.Generator) -> float:
        """Return the median of the block risks; the median over a few draws of blocks, since one may be unlucky."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores = self.loss.scores(self.design, theta)
        each = [
            sum(
                cell.weight * float(lower_median(cell.risks(self.loss, scores, self.targets, cell.draw(rng))))
                for cell in self.cells
            )
            for _ in range(N_DRAWS)
        ]
        return float(np.median(each))

    def mean_losses(self, theta: Array, partners: Array, rows: Array | None = None) -> Array:
        """Return the mean loss of some rows (by default all), each paired with all `partners`."""
        loss: Any = self.loss
        scores, targets = loss.scores(self.design, theta), self.targets
        own_scores, own_targets = (scores, targets) if rows is None else (scores[rows], targets[rows])
        losses = np.empty(len(own_scores))
        for i in slices(len(losses), _AT_ONCE // max(1, scores[partners].size)):
            values = loss.value(
                own_scores[i, None], scores[None, partners], own_targets[i, None], targets[None, partners]
            )
            losses[i] = values.mean(axis=1)
        return losses

    def forget_blocks(self) -> None:
        """Free the memory of the last permutations."""
        for cell in self.cells:
            cell.forget()


def count_rows(rows: Array, counts: Array) -> None:
    """Add 1 to the count of each of some distinct rows, a part at a time to save memory."""
    flat = rows.reshape(-1)
    for part in slices(len(flat), _AT_ONCE):
        counts[flat[part]] += 1


def lower_median(risks: Array) -> Array:
    """Return the median along the last axis, the lower one of two."""
    place = (risks.shape[-1] - 1) // 2
    return np.asarray(np.partition(risks, place)[..., place])
