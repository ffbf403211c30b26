"""How many of the first n rows may be corrupt, at every n."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from outvote.contamination import Adversary, Amount, Contamination, Growth
from outvote.data.arguments import MOST, is_whole

#: Rows that a share allows for beyond its own: the first rows of a stream may be unlucky.
_MORE = 2


@dataclass(frozen=True)
class Schedule:
    """A number of corrupt rows for every number of rows.

    Attributes
    ----------
    amount : float, int, Fraction, Growth or callable
        A share allows for ⌈share·n⌉ + 2 of the first n rows, an int for that many ever, a callable for what it returns.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values.

    Examples
    --------
    >>> Schedule.of(0.01)(1000), Schedule.of(5)(1000), Schedule.of(lambda n: n // 50)(1000)
    (12, 5, 20)
    """

    amount: Amount | Growth | Callable[[int], int]
    adversary: Adversary = "oblivious"

    @classmethod
    def of(cls, contamination: Any) -> Schedule:
        """Read a share, a number of rows, a Contamination or a function."""
        if callable(contamination) and not isinstance(contamination, Contamination):
            return cls(contamination)
        allowed = Contamination.of(contamination)
        if isinstance(allowed.amount, tuple):
            raise ValueError(
                f"contamination={contamination!r}: a monitor takes one amount, which holds for each arm: a share, a "
                "number of rows, or a function of the number of rows"
            )
        if isinstance(allowed.amount, int) and allowed.amount > MOST:
            raise ValueError(f"contamination={contamination!r} must be at most 2**53: a monitor counts no more rows")
        return cls(allowed.amount, allowed.adversary)

    def __call__(self, n_rows: int) -> int:
        """Return how many of the first n rows may be corrupt."""
        if isinstance(self.amount, Growth):
            return self.amount.count(n_rows)
        if isinstance(self.amount, numbers.Integral):
            return int(self.amount)
        if callable(self.amount):
            count = self.amount(n_rows)
            if not is_whole(count) or count < 0:
                raise ValueError(
                    f"contamination({n_rows}) returned {count!r}: it must return a number of rows, 0 or more"
                )
            return int(count)
        exact = self.amount if isinstance(self.amount, Fraction) else Fraction(str(self.amount))
        return math.ceil(exact * n_rows) + _MORE

    def describe(self) -> str:
        """Say in words how many rows may be corrupt."""
        if isinstance(self.amount, numbers.Integral):
            return f"no more than {self.amount} rows are ever corrupt"
        if isinstance(self.amount, (float, Fraction)):
            return f"of the first n rows no more than {float(self.amount):g}·n + {_MORE} are corrupt, at every n"
        return "no more rows are corrupt than the schedule allows, at every number of rows"
