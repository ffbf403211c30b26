"""Differences of two means by evidence of both samples together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Proportion
from outvote.blocks.plan import RowPlan
from outvote.certificate import Certificate, Provenance
from outvote.certificate.document import weakest
from outvote.contamination import Contamination
from outvote.data.missing import check_certain
from outvote.estimate.compared import Compared
from outvote.estimate.evidence import HINT, OrderedTable, mean_by_evidence
from outvote.estimate.evidence_result import premise_of_columns
from outvote.estimate.ordered import Ordered
from outvote.estimate.premise import NO_SCALE, Gross
from outvote.estimate.remarks import remark_on, remark_on_gross_of, remark_on_odd
from outvote.estimate.request import Request
from outvote.estimate.result import Interval, Later, RobustEstimate, beyond_rounding, drawn_later
from outvote.estimate.weigh import Weighed
from outvote.votes.evidence import EvidenceInterval, Tally

#: Share of δ that the interval of a's own values has in a lift of adjusted ones.
_OF_VALUES = 0.1
_TOO_LARGE = "the difference is too large for a float: divide both by a power of ten first"
_REASON = "A value of the difference is ruled out only by evidence of both samples that is left when rows go: "
_REASON_TOGETHER = (
    _REASON + "those that speak most against it, wherever they are, as many as may be corrupt in both together."
)
_REASON_EACH = _REASON + "in each sample those that speak most against it, as many as may be corrupt there."


def difference_by_evidence(
    compared: Compared, request: Request, *, relative: bool, counted: str | None
) -> RobustEstimate:
    """Estimate a difference by evidence of both samples, for a known contamination."""
    together = counted != "each" and (counted == "together" or not isinstance(request.allowed.amount, tuple))
    lift = relative and compared.baseline is not None
    terms = request.terms
    if lift:
        terms = replace(terms, log_delta=terms.log_delta + math.log1p(-_OF_VALUES))
    weighed = compared.weigh(request.allowed, terms, relative=relative and not lift, together=together)
    for one, x, count, name in zip(weighed.samples, compared.ordered, weighed.counts, compared.names, strict=True):
        check_certain(one.rows.n_found, count, one.rows.n_rows, f"{name} has {x.wrong_values(one.assume)}")
    answer = partial(_answer, compared, request=request, lift=lift, together=together)
    found, real = answer(weighed), compared.if_real(weighed, together=together)
    if real is None:
        return found
    gross = {name: one for one, name in zip(weighed.gross, weighed.names, strict=True) if one}
    of_real, premise, if_real = EvidenceInterval(-math.inf, math.inf, math.nan), "", None
    with suppress(ValueError):  # rows near the largest float have a difference that no float holds, if they are real
        if_real = replace(answer(real), remarks=())
        low, high = if_real.interval
        of_real, premise = (
            EvidenceInterval(float(low), float(high), float(if_real.estimate)),
            if_real.certificate.premise,
        )
    remark = remark_on_gross_of(gross, of_real, request.terms.alternative, premise, found.statistic)
    suspects = Later(partial(_suspects, weighed.gross, weighed.ordered))
    return replace(found, remarks=(remark, *found.remarks), if_real=if_real, suspects=suspects)


def _suspects(gross: Sequence[Gross | None], ordered: Sequence[Ordered]) -> list[tuple[int, int]]:
    """Return the sample and the position of the rows that are taken to be corrupt."""
    pairs = enumerate(zip(gross, ordered, strict=True))
    return [(s, position) for s, (one, rows) in pairs if one for position in one.positions(rows)]


def _answer(compared: Compared, weighed: Weighed, *, request: Request, lift: bool, together: bool) -> RobustEstimate:
    """Estimate the difference of samples that are prepared."""
    count_of_both = sum(weighed.counts) if together else None

    def interval(of: Weighed) -> EvidenceInterval | None:
        found = of.interval(count_of_both)
        return None if found.empty else found

    weighed, found = weighed.believed(interval)
    if not weighed.relative:
        found = _between_rows(found, compared.ordered)
    if not lift:
        return _written(compared, weighed, found, request, together=together)
    return _adjusted_lift(compared, weighed, found, request, together=together)


def _between_rows(found: EvidenceInterval, samples: Sequence[Ordered]) -> EvidenceInterval:
    """Return an interval of few rows with an estimate that is not beyond all differences of rows, if that is in it."""
    if any(type(one) is not Ordered or one.many or not len(one.values) for one in samples):
        return found
    a, b = (one.values for one in samples)
    seen = min(max(found.estimate, float(b[0]) - float(a[-1])), float(b[-1]) - float(a[0]))
    return replace(found, estimate=min(max(seen, found.low), found.high)) if math.isfinite(seen) else found


def _adjusted_lift(
    compared: Compared, weighed: Weighed, gap: EvidenceInterval, request: Request, *, together: bool
) -> RobustEstimate:
    """Divide an adjusted difference by the mean of a's own values, whose interval has a share of δ.

    Nothing is declared of those values: their sd is read off the rows.
    """
    values = compared.baseline
    assert values is not None
    terms = replace(request.terms.two_sided, log_delta=request.terms.log_delta + math.log(_OF_VALUES))
    count = max(sum(weighed.counts) if together else weighed.counts[0], values.n_found)
    low, high, premise, sd = -math.inf, math.inf, "", math.nan
    gap_estimate = gap.estimate if math.isfinite(gap.estimate) else float(np.diff(_centres(weighed))[0])
    base = values.plain
    if 2 * count < values.n_rows:
        asked = replace(request, contamination=Contamination(count, terms.adversary))
        own = mean_by_evidence(OrderedTable.of([values], (None,)), asked, terms)
        ends, base = [float(end) for end in own.interval], float(own.estimate)
        sd, premise = float(own.certificate.premise_sd), own.certificate.premise
        if ends[0] > 0 or ends[1] < 0:
            corners = [end / mean for end in (gap.low, gap.high) for mean in ends]
            low = min(corners) if request.terms.alternative != "less" else -math.inf
            high = max(corners) if request.terms.alternative != "greater" else math.inf
    if base == 0:
        raise ValueError("relative=True divides by the mean of a, which is 0 here")
    if not math.isfinite(gap_estimate / base):
        raise ValueError(_TOO_LARGE)
    found = EvidenceInterval(low, high, min(max(gap_estimate / base, low), high))
    plain = weighed.plain / values.plain if values.plain else math.nan
    result = _written(compared, replace(weighed, relative=True), found, request, together=together, plain=plain)
    if result.certificate.provenance == "none":
        return result
    premises = [result.certificate.premise, premise]
    sds = np.array(weighed.sds) if weighed.conditional else np.array([sd, sd])
    certificate = replace(
        result.certificate, provenance="conditional", premise=" and ".join(filter(None, premises)), premise_sd=sds
    )
    return replace(result, certificate=certificate)


def _centres(weighed: Weighed) -> tuple[float, ...]:
    """Return a mean of each sample to go with a difference."""
    return tuple(
        weighed.unit * (one.rows.share if isinstance(one.rows, Tally) else one.rows.central_mean())
        if math.isnan(one.seen)
        else weighed.unit * one.seen
        for one in weighed.samples
    )


def _written(
    compared: Compared,
    weighed: Weighed,
    found: EvidenceInterval,
    request: Request,
    *,
    together: bool,
    plain: float | None = None,
) -> RobustEstimate:
    """Write the result of a difference by evidence."""
    centres, estimate = _centres(weighed), found.estimate
    if weighed.relative and compared.baseline is None and centres[0] == 0:
        raise ValueError("relative=True divides by the mean of a, which is 0 here")
    if not math.isfinite(estimate):
        with np.errstate(over="ignore"):
            estimate = centres[1] / centres[0] - 1 if weighed.relative else centres[1] - centres[0]
    if not math.isfinite(estimate):
        raise ValueError(_TOO_LARGE)
    estimate = min(max(estimate, found.low), found.high)  # one end alone may leave it out
    ends = {"less": [found.high - estimate], "greater": [estimate - found.low]}
    radius = max(ends.get(request.terms.alternative, [estimate - found.low, found.high - estimate]))
    bounded, sds = math.isfinite(radius), np.array(weighed.sds)
    known = [one.assume for one in weighed.samples]
    certificate = Certificate(
        radius=radius,
        provenance=cast(Provenance, weighed.provenance if bounded else "none"),
        log_delta=request.terms.log_delta,
        requested_log_delta=request.terms.log_delta,
        assumption=known[0] if known[0] == known[1] else tuple(known),
        adversary=request.terms.adversary,
        statement="evidence of both samples that survives the removal of its strongest witnesses",
        note=" ".join(filter(None, ["" if bounded else _why_unbounded(weighed), compared.note])),
        target="difference",
        alternative=request.terms.alternative,
        premise=weighed.premise() if bounded else "",
        premise_sd=sds if bounded and weighed.conditional else math.nan,
    )
    return RobustEstimate(
        estimate=estimate,
        interval=Interval(*map(float, beyond_rounding(found.low, found.high))),
        certificate=certificate,
        plan=RowPlan(
            tuple(one.rows.n_rows for one in weighed.samples),
            weighed.counts,
            reason=_REASON_TOGETHER if together else _REASON_EACH,
            together=together,
        ),
        block_values=(np.empty(0), np.empty(0)),
        block_sizes=(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)),
        seed=None,
        partition=None,
        statistic=f"{'relative ' * weighed.relative}{compared.statistic}",
        n_omitted=weighed.n_omitted,
        alternative=request.terms.alternative,
        centres=centres,
        plain_mean=weighed.plain if plain is None else plain,
        remarks=tuple(filter(None, [_remark(weighed) if bounded else ""])),
        detail=HINT if all(one.only_0_and_1 for one in weighed.ordered) else "",
        pictures=drawn_later([one.picture(math.nan, math.nan) for one in weighed.ordered]),
    )


def _remark(weighed: Weighed) -> str:
    """Say what the rows of the first such sample say against the sd that was read off them, or against a proportion."""
    if all(isinstance(one.assume, Proportion) for one in weighed.samples):
        return remark_on_odd(sum(one.n_found - one.n_bad for one in weighed.ordered))
    parts = zip(weighed.ordered, weighed.samples, weighed.counts, weighed.names, strict=True)
    found = (remark_on(rows, count, name) for rows, one, count, name in parts if one.assume is None)
    return next(filter(None, found), "")


def _why_unbounded(weighed: Weighed) -> str:
    """Say why there is no interval."""
    notes = [NO_SCALE] if any(one.sd == 0 for one in weighed.samples) else []
    if weighed.relative:
        notes.append(f"The mean of {weighed.names[0]} may be 0, so nothing bounds the ratio.")
    elif not notes:
        few = "There are too few rows, or too many may be corrupt, to bound the difference."
        notes.append(_remark(weighed) or few)
    return " ".join(notes)


def stacked(found: Sequence[RobustEstimate], names: tuple[str, ...] | None, log_delta: float) -> RobustEstimate:
    """Write the results of several columns as one, at the confidence that was asked for."""

    def column(values: Sequence[Any]) -> NDArray[np.float64]:
        return np.array([float(value) for value in values])

    certificates = [one.certificate for one in found]
    kinds = [one for one in certificates if one.provenance != "none"] or certificates
    sds = np.array([np.broadcast_to(one.premise_sd, 2) for one in certificates]).T
    certificate = replace(
        weakest(kinds),
        radius=column([one.radius for one in certificates]),
        log_delta=log_delta,
        requested_log_delta=log_delta,
        premise=premise_of_columns(sds) if any(one.premise for one in certificates) else "",
        premise_sd=sds if any(one.premise for one in certificates) else math.nan,
        note=" ".join(dict.fromkeys(one.note for one in certificates if one.note)),
    )
    return replace(
        found[0],
        estimate=column([one.estimate for one in found]),
        interval=Interval(column([one.interval.low for one in found]), column([one.interval.high for one in found])),
        certificate=certificate,
        names=names,
        centres=tuple(np.array([one.centres for one in found]).T),
        plain_mean=column([one.plain_mean for one in found]),
        pictures=(),
    )
