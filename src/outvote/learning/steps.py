"""How far each epoch of a descent moves the parameter."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from outvote.data.arguments import check_choice, is_number, real
from outvote.learning.arrays import Array

StepRule = Literal["normalised", "clipped", "polyak", "plain"]
Schedule = Literal["constant", "cosine", "inverse"]

#: The inverse schedule halves the step after this many epochs.
_HALVED_AFTER = 50


@dataclass(frozen=True)
class Steps:
    """How far each epoch moves the parameter.

    Parameters
    ----------
    rule : {"normalised", "clipped", "polyak", "plain"}
        *normalised*: the step has length γ_t. *clipped*: γ_t·g, with the gradient cut to length 1. *polyak*:
        risk/‖g‖, at most γ_t. *plain*: γ_t·g, as in the paper, and unbounded.
    size : float
        γ_0.
    schedule : {"constant", "cosine", "inverse"}
        *cosine* goes to 0 at the last epoch. *inverse*: γ_t = γ_0/(1 + t/50), for which Σγ_t = ∞ and Σγ_t² < ∞, as
        Theorem 2 asks.
    momentum : float
        Share of the last direction that is kept, in [0, 1).

    Examples
    --------
    >>> steps = Steps(size=0.1, schedule="cosine")
    >>> [round(steps.length(epoch, 100), 3) for epoch in (0, 50, 100)]
    [0.1, 0.05, 0.0]
    """

    rule: StepRule = "normalised"
    size: float = 0.1
    schedule: Schedule = "cosine"
    momentum: float = 0.0

    def __post_init__(self) -> None:
        check_choice("step_rule", self.rule, StepRule)
        check_choice("schedule", self.schedule, Schedule)
        if not (is_number(self.size) and 0 < real("step_size", self.size) < math.inf):
            raise ValueError(f"step_size={self.size!r} must be a positive number")
        if not (is_number(self.momentum) and 0 <= self.momentum < 1):
            raise ValueError(f"momentum={self.momentum!r} must lie in [0, 1)")
        object.__setattr__(self, "size", float(self.size))  # fractions, and numbers of numpy
        object.__setattr__(self, "momentum", float(self.momentum))

    def length(self, epoch: int, n_epochs: int) -> float:
        """Return γ_t."""
        if self.schedule == "cosine":
            return self.size * (1 + math.cos(math.pi * epoch / max(n_epochs, 1))) / 2
        if self.schedule == "inverse":
            return self.size / (1 + epoch / _HALVED_AFTER)
        return self.size

    def step(self, direction: Array, risk: float, length: float) -> Array:
        """Return what is subtracted from the parameter."""
        return self.factor(norm(direction), risk, length) * direction

    def factor(self, norm: float, risk: float, length: float) -> float:
        """Return the factor of a direction of length `norm`."""
        if self.rule == "plain":
            return length
        if norm == 0 or not math.isfinite(norm):
            return 0.0 if norm == 0 else 1.0
        if self.rule == "clipped":
            return length * min(1.0, 1 / norm)
        if self.rule == "polyak":
            return min(length, risk / norm) / norm
        return length / norm


def norm(array: Array) -> float:
    """Return the square root of the sum of squares."""
    flat = array.reshape(-1)
    with np.errstate(over="ignore", invalid="ignore"):
        return math.sqrt(np.add.reduce(flat * flat))
