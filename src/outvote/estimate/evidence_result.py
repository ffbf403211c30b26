"""Write the result of means by evidence: the certificate, and the reasons in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Proportion
from outvote.blocks.plan import RowPlan
from outvote.certificate import Certificate, Provenance
from outvote.data.text import count, short
from outvote.estimate.premise import Gross, UnknownScale
from outvote.estimate.request import Request, distinct
from outvote.estimate.result import (
    WITHOUT_BLOCKS,
    Histogram,
    Interval,
    RobustEstimate,
    drawn_later,
    shaped,
)
from outvote.votes import Terms
from outvote.votes.evidence import EvidenceInterval

if TYPE_CHECKING:
    from outvote.estimate.evidence import OrderedTable

Floats = NDArray[np.float64]

_OBLIVIOUS = (
    "If large values go wrong more often than others (saturation, overflow, a limit), use adversary='adaptive': "
    "Contamination(amount, 'adaptive')."
)
_ADAPTIVE = "That corrupt rows may be chosen by their true values costs width: each is counted as if it had been moved."
_BY_SYMMETRY = "The clean rows are symmetric, so their mean is their median: the ends are "
_SYMMETRIC = {
    "order": _BY_SYMMETRY + "rows, counted from below and from above.",
    "signed rank": _BY_SYMMETRY + "averages of two rows, counted from below and from above, without the rows farthest "
    "on the other side, as many as may be corrupt.",
}


@dataclass(frozen=True)
class Found:
    """What was found of one column."""

    interval: EvidenceInterval
    provenance: Provenance
    plain: float
    vote: str = "evidence"
    note: str = ""
    picture: Callable[[], Histogram] | None = None
    gross: Gross | None = None
    error: UnknownScale | None = None


def write_result(
    found: list[Found], ordered: OrderedTable, request: Request, terms: Terms, counts: tuple[int, int], detail: str
) -> RobustEstimate:
    """Write the result of one column, for shape (), or of several."""
    shape = ordered.shape
    lows, highs, estimates, sds = (
        np.array([getattr(one.interval, name) for one in found]) for name in ("low", "high", "estimate", "sd")
    )
    if not np.isfinite(estimates).all():
        raise ValueError("the mean is too large for a float: divide the rows by a power of ten first")
    certificate = _certificate(found, request, terms, lows, highs, estimates, sds, ordered)
    n_rows, n_corrupt = counts
    votes = {one.vote for one in found}
    return RobustEstimate(
        estimate=shaped(estimates, shape),
        interval=Interval(shaped(lows, shape), shaped(highs, shape)),
        certificate=certificate,
        plan=RowPlan(
            n_rows,
            n_corrupt,
            votes.pop() if len(votes) == 1 else "mixed",
            _reason(found, certificate, n_corrupt),
        ),
        **WITHOUT_BLOCKS,
        statistic="mean",
        names=ordered.names,
        n_omitted=ordered.n_bad,
        alternative=terms.alternative,
        detail=detail,
        plain_mean=shaped(np.array([one.plain for one in found]), shape),
        pictures=drawn_later([one.picture for one in found if one.picture is not None]),
    )


def _certificate(
    found: list[Found],
    request: Request,
    terms: Terms,
    lows: Floats,
    highs: Floats,
    estimates: Floats,
    sds: Floats,
    ordered: OrderedTable,
) -> Certificate:
    """Write the certificate of all columns; it is as strong as the weakest one that has an interval."""
    kinds = {one.provenance for one in found}
    provenance: Provenance = "none" if kinds == {"none"} else "conditional" if "conditional" in kinds else "certified"
    sides = {"less": [highs - estimates], "greater": [estimates - lows]}
    radius = np.max(sides.get(terms.alternative, [estimates - lows, highs - estimates]), axis=0)
    shape, assumed = ordered.shape, ordered.assumed
    known, conditional = distinct(assumed), provenance == "conditional"
    subject = ordered.column(0).subject if len(assumed) == 1 else "the clean rows' sd"
    return Certificate(
        radius=shaped(radius, shape),
        provenance=provenance,
        log_delta=request.terms.log_delta,
        requested_log_delta=request.terms.log_delta,
        assumption=known[0] if len(known) == 1 else assumed,
        adversary=terms.adversary,
        statement="evidence that survives the removal of its strongest witnesses",
        note=" ".join(dict.fromkeys(one.note for one in found if one.note)),
        alternative=terms.alternative,
        premise=premise_of_columns(sds, subject) if conditional else "",
        premise_sd=shaped(sds, shape) if conditional else math.nan,
    )


def premise_of_columns(sds: Floats, subject: str = "the clean rows' sd") -> str:
    """Say in words what the sds of the clean rows are at most; those of several samples are rows of `sds`."""
    known = sds[np.isfinite(sds)]
    ends = " to ".join(dict.fromkeys(short(end) for end in (known.min(), known.max())))
    return f"{subject} is at most {ends}" + (" (one for each column)" if sds.shape[-1] > 1 else "")


def _reason(found: list[Found], certificate: Certificate, n_corrupt: int) -> str:
    rows, provenance = count(n_corrupt, "row"), certificate.provenance
    lines = [
        "A possible mean is excluded only if the evidence against it stays above the threshold after the "
        f"{rows} that contribute{'s' * (n_corrupt == 1)} most to it {'is' if n_corrupt == 1 else 'are'} removed."
    ]
    if isinstance(certificate.assumption, Proportion):
        lines = [f"The ends are exact binomial tails (Clopper and Pearson's), with {rows} counted as corrupt."]
    elif found[0].vote in _SYMMETRIC:
        lines = [_SYMMETRIC[found[0].vote]]
    elif found[0].vote != "evidence":
        lines = ["No row may be corrupt and the scale is known, so an interval of fixed width is the narrowest."]
    if certificate.adversary == "oblivious" and n_corrupt:
        lines.append(_OBLIVIOUS)
    elif n_corrupt:
        lines.append(_ADAPTIVE)
    if any(one.interval.sturdier for one in found):
        lines.append("The rows nearly contradict the declared scale: the interval is the wider one of a sturdier test.")
    if provenance == "conditional":
        lines.append(
            "Nothing was declared, so an sd was read off the rows: 1.25 times that of the rows that an ordinary tail "
            "explains, and a little more if they are few. The interval is proved for every distribution of clean rows "
            "with at most this sd, and says nothing of others; assume=FiniteVariance(sd), or Bounded(low, high), makes "
            "it unconditional, and mostly narrower."
        )
    return "\n".join(lines)
