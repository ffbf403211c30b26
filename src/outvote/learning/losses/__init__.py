"""Losses of single rows and of pairs.

Losses are functions of *scores*, which the descent computes once in an epoch for all rows. The first axis of an array
runs over the rows of a block and the second over the blocks: scores have shape (B, K), or (B, K, C) with C scores for
each row, and targets (B, K). A new loss defines the loss of one row or one pair (`value`) and its derivative in the
first score (`slope`). Block risks, gradients and pairs across two samples follow from these.
"""

from __future__ import annotations

import difflib
from typing import Any

from outvote.learning.losses.common import Loss
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
    "Absolute",
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
    "loss_of",
]

PAIR_LOSSES: dict[str, type[PairLoss]] = {one.name: one for one in (PairLogistic, PairHinge, ProductHinge)}


def loss_of(loss: Any, known: dict[str, Any], degree: int) -> Any:
    """Return a loss by name, or the one given."""
    if isinstance(loss, Loss):
        if loss.degree != degree:
            takes = "single rows" if degree == 1 else "pairs"
            raise ValueError(f"loss={loss.name or loss!r} has degree {loss.degree}, but a loss of {takes} is needed")
        return loss
    if isinstance(loss, str) and loss in known:
        return known[loss]()
    near = difflib.get_close_matches(str(loss), known, n=1)
    hint = f": did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"loss={loss!r} is not one of {', '.join(map(repr, known))}, nor a Loss{hint}")
