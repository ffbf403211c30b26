"""Losses of points and of pairs: value, slope, projection, and what each of them needs.

Everything works on *scores*, which the descent computes once an epoch on all rows. Blocks come as stacks whose first
axis runs over the rows of a block and whose second axis runs over the blocks: scores of shape (B, K), or (B, K, C)
for C scores a row, and targets of shape (B, K). A new loss says what one point or one pair costs (`value`) and how
that moves with the first score (`slope`); block risks, gradients and pairs across two samples follow.
"""

from __future__ import annotations

import difflib
from typing import Any

from outvote.learning.losses.common import (
    Design,
    Loss,
    clip_weights,
    mean_of,
    sigmoid,
    softmax,
    square_norm,
)
from outvote.learning.losses.distances import DistanceHinge, MetricHinge
from outvote.learning.losses.pairs import PairHinge, PairLogistic, PairLoss, ProductHinge
from outvote.learning.losses.points import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    MulticlassHinge,
    PointLoss,
    Softmax,
    Squared,
)

__all__ = [
    "PAIR_LOSSES",
    "POINT_LOSSES",
    "Absolute",
    "Design",
    "DistanceHinge",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "MetricHinge",
    "MulticlassHinge",
    "PairHinge",
    "PairLogistic",
    "PairLoss",
    "PointLoss",
    "ProductHinge",
    "Softmax",
    "Squared",
    "clip_weights",
    "loss_of",
    "mean_of",
    "sigmoid",
    "softmax",
    "square_norm",
]

POINT_LOSSES: dict[str, type[PointLoss]] = {
    one.name: one for one in (Logistic, Hinge, Softmax, MulticlassHinge, Squared, Absolute, Huber)
}
PAIR_LOSSES: dict[str, type[PairLoss]] = {one.name: one for one in (PairLogistic, PairHinge, ProductHinge)}


def loss_of(loss: Any, known: dict[str, Any], degree: int) -> Any:
    """Return a loss by name, or the one given."""
    if isinstance(loss, Loss):
        if loss.degree != degree:
            takes = "points" if degree == 1 else "pairs"
            raise ValueError(f"loss={loss.name or loss!r} has degree {loss.degree}, but a loss of {takes} is needed")
        return loss
    if isinstance(loss, str) and loss in known:
        return known[loss]()
    near = difflib.get_close_matches(str(loss), known, n=1)
    hint = f": did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"loss={loss!r} is not one of {', '.join(map(repr, known))}, nor a Loss{hint}")
