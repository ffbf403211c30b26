"""What a certificate is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from outvote.assumptions import Assumption, BlockSize, FiniteVariance, Tail
from outvote.contamination import Adversary

Alternative = Literal["two-sided", "less", "greater"]
Layout = Literal["single", "full", "diagonal"]

LOG_2 = math.log(2)


@dataclass(frozen=True)
class Terms:
    """How sure a certificate must be, against whom, on which side, and about which clean values.

    Attributes
    ----------
    log_delta : float
        Logarithm of the failure probability (δ).
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values.
    alternative : {"two-sided", "less", "greater"}
        Both sides, or an upper or a lower bound alone.
    assume : Assumption
        What is known of the kernel's values on clean rows; None where nothing is, and radii are then in units of sd.
    degrees : tuple of int
        Rows the kernel takes from each sample.

    Examples
    --------
    >>> terms = Terms(math.log(0.05), degrees=(1, 1))
    >>> round(math.exp(terms.shared(2).log_delta), 3), terms.about(None, (2,)).degrees
    (0.025, (2,))
    """

    log_delta: float
    adversary: Adversary = "oblivious"
    alternative: Alternative = "two-sided"
    assume: Assumption | None = None
    degrees: tuple[int, ...] = (1,)

    @property
    def values(self) -> Assumption:
        """What is known of clean values, in units of their sd where that is unknown."""
        return self.assume or FiniteVariance(1.0)

    @property
    def keywords(self) -> dict[str, Any]:
        """The same as keyword arguments."""
        return {**self.who, "assume": self.values, "degrees": self.degrees}

    @property
    def who(self) -> dict[str, Any]:
        """The keyword arguments that say nothing of the values."""
        return {"log_delta": self.log_delta, "adversary": self.adversary, "alternative": self.alternative}

    @property
    def scaled(self) -> bool:
        """Whether the scale of clean values is known."""
        return self.assume is not None and self.assume.has_scale

    @property
    def price(self) -> float:
        """What one side pays: log(2/δ) if both are asked for, log(1/δ) if one is."""
        return -self.log_delta + (LOG_2 if self.alternative == "two-sided" else 0.0)

    def shared(self, parts: int) -> Terms:
        """Return the terms of each of `parts` statements that must hold together."""
        return replace(self, log_delta=self.log_delta - math.log(parts))

    def about(self, assume: Assumption | None, degrees: Sequence[int] = (1,)) -> Terms:
        """Return the same terms for other values."""
        return replace(self, assume=assume, degrees=tuple(degrees))

    def tail(self, sizes: BlockSize) -> Tail:
        """Return the tail of a clean block of these sizes, one for each sample."""
        return self.values.tail(sizes, self.degrees)
