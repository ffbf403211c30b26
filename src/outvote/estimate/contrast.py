"""Compare b with a in every respect at once: the difference, the lift, and how many corrupt rows its sign survives.

Tables of variants, ``outvote compare`` and ``outvote report`` all go through here, so that they agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from outvote.contamination import Contamination
from outvote.data.missing import ContradictionError
from outvote.data.rows import Rows, read_rows
from outvote.estimate.compared import Compared, read_compared
from outvote.estimate.curve import Curve, weigh_curve
from outvote.estimate.difference_by_evidence import difference_by_evidence
from outvote.estimate.evidence import MeanByEvidence, OrderedTable
from outvote.estimate.levels import agree
from outvote.estimate.mapped import pair_up
from outvote.estimate.request import Request, per_column
from outvote.estimate.result import RobustEstimate, named
from outvote.estimate.screened import implied
from outvote.estimate.weigh import Weighed


@dataclass(frozen=True)
class Contrast:
    """The comparison of b with a; what cannot be worked out is the error that says why.

    Attributes
    ----------
    gap : RobustEstimate or ValueError
        The difference.
    lift : RobustEstimate, ValueError or None
        The difference divided by a; None for paired rows, which have none.
    curve : Curve or ValueError
        The difference and its sign for every number of corrupt rows.
    weighed : Weighed or None
        What the curve was made of.
    """

    gap: RobustEstimate | ValueError
    lift: RobustEstimate | ValueError | None
    curve: Curve | ValueError
    weighed: Weighed | None = None

    @property
    def settled(self) -> bool:
        """Whether the sign is settled for as many corrupt rows as were assumed."""
        return isinstance(self.gap, RobustEstimate) and isinstance(self.curve, Curve) and self.curve.settled

    @property
    def tolerance(self) -> int | None:
        """How many corrupt rows the sign survives; None if not even none, or if rows contradict what is declared."""
        if isinstance(self.gap, ContradictionError):
            return None
        return self.curve.stands if isinstance(self.curve, Curve) else None

    def deciding(self, most: int) -> list[tuple[int, int]]:
        """Return the sample and the position of the rows that speak most for the sign, strongest first."""
        if self.weighed is None or not isinstance(self.curve, Curve) or self.curve.stands is None:
            return []
        if not all(one.has_rows for one in self.weighed.ordered):
            return []
        return self.weighed.deciding(self.curve.bound, self.curve.sign, self.curve.stands + 1)[:most]


def contrast(
    samples: Sequence[Any],
    request: Request,
    assume: Any,
    *,
    names: Sequence[str] = "ab",
    shown: bool = False,
    paired: bool = False,
    **metric: Any,
) -> Contrast:
    """Compare two samples; `metric` has ratio, covariate and coefficient, as for `difference`.

    With `shown` the curve has numbers of corrupt rows beyond those at which the sign is no longer settled.
    """
    try:
        if paired:
            return _of_pairs(samples, request, assume, shown=shown)
        compared = read_compared(samples, request, assume, names=names, **metric)
    except ValueError as error:
        return Contrast(error, error, error)

    def estimate(relative: bool) -> RobustEstimate:
        run = partial(difference_by_evidence, compared, relative=relative, counted=None)
        return agree(request, compared.n_rows, run)

    gap, lift = (_or_why(partial(estimate, relative)) for relative in (False, True))
    return Contrast(gap, lift, *_curve(compared, request, shown=shown))


def _of_pairs(samples: Sequence[Any], request: Request, assume: Any, *, shown: bool) -> Contrast:
    """Compare paired rows, by the mean of their differences."""
    a, b = (read_rows(one, name) for one, name in zip(samples, "ab", strict=True))
    gaps = Rows(pair_up(a, b, None, "omit"), None)
    known = per_column(implied(gaps.values, assume), 1)
    ordered = OrderedTable.of_sample(gaps, known, request.nan_policy)
    gap = _or_why(lambda: agree(request, [len(gaps.values)], MeanByEvidence(ordered)))
    if isinstance(gap, RobustEstimate):
        gap = named("paired difference", gap)
    return Contrast(gap, None, *_curve(Compared((ordered.column(0),), known), request, shown=shown))


def _curve(compared: Compared, request: Request, *, shown: bool) -> tuple[Curve | ValueError, Weighed | None]:
    """Return the curve, for no corrupt rows to begin with where their number is left open."""
    allowed = request.contamination or Contamination(0, request.terms.adversary)
    try:
        weighed = compared.weigh(allowed, request.terms)
        return weigh_curve(weighed, shown=shown), weighed
    except ValueError as error:
        return error, None


def _or_why(estimate: Callable[[], RobustEstimate]) -> RobustEstimate | ValueError:
    try:
        return estimate()
    except ValueError as error:
        return error
