"""Bounds of rows that have a numerator and a denominator."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from outvote.assumptions.assumption import Assumption, Bounded


@dataclass(frozen=True)
class BoundedRatio(Assumption):
    """Clean denominators lie in ``[0, denominator]``, clean numerators in ``[0, numerator]``.

    It is what ``assume=(Bounded(0, denominator), Bounded(0, numerator))`` says of the rows of a ratio.

    Examples
    --------
    >>> BoundedRatio.of((Bounded(0, 50), Bounded(0, 900))).describe()
    'denominators in [0, 50] and numerators in [0, 900]'
    """

    denominator: float
    numerator: float

    @classmethod
    def of(cls, bounds: tuple[Bounded, Bounded]) -> Self:
        """Read the bounds of denominators and of numerators, both of which begin at 0."""
        for one, name in zip(bounds, ("denominators", "numerators"), strict=True):
            if one.low != 0:
                raise ValueError(
                    f"assume={one!r} for the {name} of a ratio must begin at 0, Bounded(0, {one.high:g}) for instance"
                )
        return cls(float(bounds[0].high), float(bounds[1].high))

    def scaled(self, factor: float) -> Self:
        """Return the assumption that holds for numerators multiplied by `factor`."""
        return replace(self, numerator=self.numerator * factor)

    def describe(self) -> str:
        """Return the assumption in a few words."""
        return f"denominators in [0, {self.denominator:.6g}] and numerators in [0, {self.numerator:.6g}]"

    def _kernel_sd(self) -> float:
        return math.inf
