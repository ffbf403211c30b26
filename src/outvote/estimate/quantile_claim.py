"""Claims about a quantile, "p99 < 300", and how many corrupt rows they survive."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.contamination import Contamination
from outvote.data.missing import MoreCorruptRows
from outvote.data.rows import Rows
from outvote.estimate.quantile import quantile_of
from outvote.estimate.request import Request
from outvote.estimate.result import RobustEstimate
from outvote.estimate.shares import Column, Shares
from outvote.votes import Terms
from outvote.votes.evidence import lower_rank

_CLAIM = re.compile(r"\s*(median|p\d+(?:\.\d+)?)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*")


@dataclass(frozen=True)
class QuantileClaim:
    """A quantile on one side of a number.

    Attributes
    ----------
    share : Fraction
        Which quantile.
    relation : {"<", "<=", ">", ">="}
        On which side of the bound it is claimed to be.
    bound : float
        The number.
    text : str
        The claim in words.

    Examples
    --------
    >>> claim = QuantileClaim.read("p99.9 <= 2e3")
    >>> claim.share, claim.text, QuantileClaim.read("mean > 0")
    (Fraction(999, 1000), 'p99.9 <= 2e3', None)
    """

    share: Fraction
    relation: str
    bound: float
    text: str

    @classmethod
    def read(cls, claim: object) -> QuantileClaim | None:
        """Read a claim; None if it is not about a quantile."""
        match = _CLAIM.fullmatch(claim) if isinstance(claim, str) else None
        if match is None:
            return None
        name, relation, number = match.groups()
        share = Fraction(1, 2) if name == "median" else Fraction(name[1:]) / 100
        if not 0 < share < 1:
            raise ValueError(f"claim={claim!r} names {name}, but quantiles lie between p0 and p100: p99 for instance")
        try:
            bound = float(number)
        except ValueError:
            bound = math.nan
        if not math.isfinite(bound):
            raise ValueError(f"claim={claim!r} compares with {number!r}, which is not a finite number")
        return cls(share, relation, bound, f"{name} {relation} {number}")

    def supported(self, values: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rows are where the quantile is claimed to be."""
        compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[self.relation]
        found: NDArray[np.bool_] = compare(values, self.bound)
        return found

    def stands(self, column: Column, n_against: int, log_delta: float, *, adaptive: bool) -> int | None:
        """Return the largest number of corrupt rows at which the claim stands, at every number up to it; None if none.

        It stands if the end of the interval on the other side is one of the rows where the quantile is claimed to be:
        if its rank, counted from the other side, is more than `n_against`, the number of rows there.
        """
        share = 1 - self.share if self.relation.startswith("<") else self.share
        n, low, high = column.n_rows, column.n_found, (column.n_rows - 1) // 2

        def clear(count: int) -> bool:
            return lower_rank(n, count, share, log_delta, adaptive=adaptive) > n_against

        if low > high or not clear(low):
            return None
        while low < high:  # intervals are nested in the number of corrupt rows
            middle = (low + high + 1) // 2
            low, high = (middle, high) if clear(middle) else (low, middle - 1)
        return low


def weigh_quantile_claim(
    claim: QuantileClaim, rows: NDArray[Any], request: Request, terms: Terms
) -> tuple[int | None, Sequence[int], RobustEstimate]:
    """Return how many corrupt rows a claim survives, which rows decide, and the estimate for the assumed number.

    All rows on the claim's side speak for it alike, so those nearest the bound are named: without them it falls.
    """
    column = Column.read(rows, request.nan_policy, "x")
    values = column.values
    supported = claim.supported(values)
    n_for = int(supported.sum())
    adaptive = terms.adversary == "adaptive"
    stands = claim.stands(column, len(values) - n_for, terms.log_delta, adaptive=adaptive)
    deciding: list[int] = []
    if stands is not None:
        places = np.flatnonzero(supported)
        with np.errstate(over="ignore"):
            order = np.argsort(np.abs(values[places] - claim.bound), kind="stable")
        nearest = places[order[: stands + 1 - column.n_found]]
        deciding = (nearest if column.where is None else column.where[nearest]).tolist()
    return stands, deciding, _shown(claim, rows, request, terms)


def _shown(claim: QuantileClaim, rows: NDArray[Any], request: Request, terms: Terms) -> RobustEstimate:
    """Estimate for the contamination that was assumed, or for as many rows as are corrupt for certain."""
    allowed = Contamination(request.allowed.amount, terms.adversary)
    run = quantile_of(Rows(rows, None), Shares((claim.share,), several=False), request)
    asked = replace(request, terms=terms.two_sided, contamination=allowed)
    try:
        return run(asked)
    except MoreCorruptRows as more:
        return run(replace(asked, contamination=Contamination(more.count, terms.adversary)))
