"""The terms of a certificate: its confidence, adversary, sides and assumption."""

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
    """The confidence of a certificate, the adversary, the sides, and the assumption on clean values.

    Attributes
    ----------
    log_delta : float
        Logarithm of the failure probability (δ).
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values.
    alternative : {"two-sided", "less", "greater"}
        Bound the truth on both sides, or only from above or from below.
    assume : Assumption
        The assumption on the kernel's values on clean rows; None if nothing is known: radii are then in units of sd.
    degrees : tuple of int
        How many rows the kernel takes from each sample.

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
        """The assumption on clean values; if there is none, values are measured in units of their sd."""
        return self.assume or FiniteVariance(1.0)

    @property
    def keywords(self) -> dict[str, Any]:
        """The terms as keyword arguments."""
        return {**self.who, "assume": self.values, "degrees": self.degrees}

    @property
    def who(self) -> dict[str, Any]:
        """The keyword arguments that do not concern the values."""
        return {"log_delta": self.log_delta, "adversary": self.adversary, "alternative": self.alternative}

    @property
    def scaled(self) -> bool:
        """Whether the scale of clean values is known."""
        return self.assume is not None and self.assume.has_scale

    @property
    def price(self) -> float:
        """What one side pays: log(2/δ) if both are asked for, log(1/δ) if one is."""
        return -self.log_delta + (LOG_2 if self.alternative == "two-sided" else 0.0)

    @property
    def of_both(self) -> float:
        """The logarithm of the failure probability of a two-sided interval with the same ends."""
        return LOG_2 - self.price

    @property
    def two_sided(self) -> Terms:
        """The same terms for both sides."""
        return replace(self, alternative="two-sided")

    @property
    def mirrored(self) -> Terms:
        """The terms for values with their signs changed."""
        turned: dict[str, Alternative] = {"less": "greater", "greater": "less"}
        return replace(self, alternative=turned.get(self.alternative, "two-sided"))

    def shared(self, parts: int) -> Terms:
        """Return the terms of each of `parts` statements that must hold together."""
        return replace(self, log_delta=self.log_delta - math.log(parts))

    def about(self, assume: Assumption | None, degrees: Sequence[int] = (1,)) -> Terms:
        """Return the terms with another assumption and other degrees."""
        return replace(self, assume=assume, degrees=tuple(degrees))

    def tail(self, sizes: BlockSize) -> Tail:
        """Return the tail of a clean block of these sizes, one for each sample."""
        return self.values.tail(sizes, self.degrees)
