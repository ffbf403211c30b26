"""Differences of two means by votes of blocks: each sample votes by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.plan import GridPlan, Plan
from outvote.certificate import Certificate
from outvote.certificate.document import weakest
from outvote.estimate.mapped import Function, apply_function
from outvote.estimate.mean import vote_on_rows
from outvote.estimate.request import Assumed, Request
from outvote.estimate.result import Interval, RobustEstimate
from outvote.estimate.voting import Voted, conclude


@dataclass(frozen=True)
class DifferenceByBlocks:
    """A difference to estimate, once or at several levels of contamination; a family has several functions."""

    pair: tuple[NDArray[Any], NDArray[Any]]
    assumed: tuple[Assumed, ...]
    functions: Sequence[Function]
    relative: bool
    family: bool

    def run(self, request: Request) -> RobustEstimate:
        """Estimate for the contamination of the request."""
        # Both means, for every function, must hold at once; a ratio or an absolute value needs both sides of each.
        terms = request.terms.shared(2 * len(self.functions))
        if self.relative or self.family:
            terms = replace(terms, alternative="two-sided")
        screened = request.screen(self.pair, "ab")
        voted, details = [], []
        for s, name in enumerate("ab"):
            rows = np.stack([apply_function(phi, screened.rows[s], name) for phi in self.functions], axis=1)
            found, detail = vote_on_rows(rows, self.assumed[s], request, terms, name, screened.bad[s], s)
            voted.append(found)
            details.append(detail)
        detail = " ".join(filter(None, details))
        return subtract(
            request, voted, relative=self.relative, family=self.family, n_omitted=sum(screened.bad), detail=detail
        )


def subtract(
    request: Request,
    voted: Sequence[Voted],
    *,
    relative: bool = False,
    family: bool = False,
    n_omitted: int = 0,
    detail: str = "",
) -> RobustEstimate:
    """Write the result of a difference from the votes of both samples; their columns belong to several functions."""
    with np.errstate(over="ignore"):
        gaps = voted[1].centre - voted[0].centre
    best = int(np.argmax(np.abs(gaps)))
    estimate, statistic = float(gaps[best]), "difference"
    if family:
        estimate, statistic = abs(estimate), "integral probability metric"
        detail = f"{detail} The largest of {len(gaps)} functions is number {best + 1}.".strip()
    if not math.isfinite(estimate):
        raise ValueError("mean(b) - mean(a) is too large for a float: divide both by a power of ten first")
    plan = GridPlan(tuple(one.plan for one in voted), "separate")
    certificate = _certify_together([one.certificate for one in voted], plan)
    means, interval = [float(one.centre[best]) for one in voted], None
    if relative:
        if means[0] == 0:
            raise ValueError("relative=True divides by the mean of a, which is 0 here")
        estimate, statistic = estimate / means[0], "relative " + statistic
        radii = [float(np.asarray(one.certificate.radius)[best]) for one in voted]
        if not math.isfinite(estimate):
            raise ValueError(f"relative=True divides by the mean of a, {means[0]:.3g}: too large for a float")
        interval, certificate = _ratio_interval(means, radii, estimate, certificate, request.terms.alternative)
    elif family:
        interval = Interval(max(estimate - float(certificate.radius), 0.0), estimate + float(certificate.radius))
    return conclude(
        request,
        estimate,
        certificate,
        plan,
        tuple(one.values[:, best] for one in voted),
        [one.sizes for one in voted],
        interval=interval,
        centres=tuple(means),
        statistic=statistic,
        n_omitted=n_omitted,
        detail=detail,
    )


def _certify_together(certificates: Sequence[Certificate], plan: Plan) -> Certificate:
    """Write the certificate of a difference: the radii add up, over the worst function if there are several."""
    with np.errstate(over="ignore"):
        radius = float(np.max(sum(np.asarray(one.radius) for one in certificates)))
    notes = dict.fromkeys(one.note for one in certificates if one.note)
    return replace(
        weakest(certificates), radius=radius, n_blocks=plan.n_blocks, note=" ".join(notes), target="difference"
    )


def _ratio_interval(
    centres: Sequence[float], radii: Sequence[float], estimate: float, certificate: Certificate, alternative: str
) -> tuple[Interval, Certificate]:
    """Return the interval of mean(b)/mean(a) - 1, each mean within its radius; unbounded where mean(a) may be 0."""
    (a, b), (spread_a, spread_b) = centres, radii
    low, high = -math.inf, math.inf
    if spread_a < abs(a) and math.isfinite(spread_b):
        corners = [(b + i * spread_b) / (a + j * spread_a) - 1 for i in (-1, 1) for j in (-1, 1)]
        low, high = min(*corners, estimate), max(*corners, estimate)  # which was rounded otherwise
    else:
        note = "The mean of a may be 0, so nothing bounds the ratio."
        certificate = replace(certificate, provenance="none", note=note)
    certificate = replace(certificate, radius=max(high - estimate, estimate - low), target="relative difference")
    low = -math.inf if alternative == "less" else low
    return Interval(low, math.inf if alternative == "greater" else high), certificate
