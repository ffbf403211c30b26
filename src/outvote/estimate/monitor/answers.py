"""What the rows of a monitor say at a look: the interval, and the evidence for a claim."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from outvote.assumptions import Bounded, Proportion
from outvote.blocks.plan import RowPlan
from outvote.certificate import Certificate, Provenance
from outvote.data.missing import check_certain
from outvote.data.text import count, short
from outvote.estimate.claim import Claim
from outvote.estimate.monitor.arm import Arm
from outvote.estimate.monitor.settings import Settings
from outvote.estimate.premise import NO_SCALE
from outvote.estimate.remarks import remark_on
from outvote.estimate.result import WITHOUT_BLOCKS, Interval, RobustEstimate
from outvote.estimate.weigh import Planned, Weighed, weigh
from outvote.votes.evidence import EvidenceInterval, contradicts
from outvote.votes.evidence.e_values import log_e_of_difference, log_e_of_mean

#: The largest logarithm whose exponential is a float.
_LARGEST = 709.0
_STATEMENT = "evidence that survives the removal of its strongest witnesses, at all times at once (Ville's inequality)"
#: An sd of all rows that is so many times that of the first ones casts doubt on these.
_GROWN = 1.5
_FEW = "There are too few rows, or too many may be corrupt, to bound it."
_RATIO = "The mean of the baseline may be 0, so nothing bounds the ratio."
_REASON = (
    "A value is ruled out only by evidence that is left when the rows that speak most against it go, as many as may be "
    "corrupt so far. Stakes were fixed beforehand, so that this holds at every look."
)

Arms = Mapping[str, Arm]


def verdict(asked: Claim, low: float, high: float) -> bool | None:
    """Return whether a claim is true or false for everything between two numbers; None if it is not settled.

    Examples
    --------
    >>> claim = Claim.read("mean > 1", ["mean"])
    >>> verdict(claim, 2.0, 3.0), verdict(claim, 0.0, 3.0), verdict(claim, -1.0, 0.5)
    (True, None, False)
    """
    near, far = (low, high) if asked.sign > 0 else (-high, -low)
    bound = asked.sign * asked.bound
    return True if near > bound else False if far < bound else None


def e_value(settings: Settings, arms: Arms, asked: Claim) -> float:
    """Return the e-value of a claim, under the premise of the interval."""
    if not all(arm.has_evidence for arm in arms.values()):
        return 0.0
    weighed, _ = _believed(settings, arms, relative=False)
    at, terms = asked.bound / weighed.unit, settings.terms
    if asked.subject == "mean":
        found = log_e_of_mean(weighed.samples[0], terms, at, asked.sign)
    else:
        a, b = weighed.samples
        lift = asked.bound if asked.subject == "lift" else None
        found = log_e_of_difference(a, b, terms, at, asked.sign, lift=lift)
    return math.exp(min(found, _LARGEST)) if found > -math.inf else 0.0


def estimated(settings: Settings, arms: Arms, *, relative: bool) -> RobustEstimate:
    """Estimate the mean of one arm, or the difference of two, the baseline first."""
    if not all(arm.has_evidence for arm in arms.values()):
        return _written(settings, arms, None, EvidenceInterval(-math.inf, math.inf, math.nan), relative=relative)
    weighed, found = _believed(settings, arms, relative=relative)
    if isinstance(settings.assume, Bounded) and not isinstance(settings.assume, Proportion) and len(arms) == 1:
        low, high = max(found.low, settings.assume.low), min(found.high, settings.assume.high)
        found = EvidenceInterval.between(low, high)
    return _written(settings, arms, weighed, found, relative=relative)


def _believed(settings: Settings, arms: Arms, *, relative: bool) -> tuple[Weighed, EvidenceInterval]:
    """Return the rows with a premise that they do not contradict, and the interval."""
    weighed = _weighed(settings, arms, relative=relative)

    def interval(of: Weighed) -> EvidenceInterval | None:
        found = of.interval(None)
        return None if found.empty or _too_wide(of, found) else found

    return weighed.believed(interval)


def _too_wide(weighed: Weighed, found: EvidenceInterval) -> bool:
    """Return whether the rows of an arm spread too much for its sd, whatever its mean is."""
    for one in weighed.samples:
        if 0 < one.sd < math.inf:
            own = one.interval(weighed.terms) if len(weighed.samples) == 2 else found.times(1 / weighed.unit)
            if own.empty or contradicts(one.rows, own, one.sd, weighed.terms.log_delta):
                return True
    return False


def _weighed(settings: Settings, arms: Arms, *, relative: bool) -> Weighed:
    """Prepare the rows of the arms."""
    ordered, counts, planned = [], [], []
    for name, arm in arms.items():
        rows = arm.ordered(settings.assume)
        allowed = settings.schedule(arm.n_rows)
        where = f"arm {name!r}" if name else "the sample"
        check_certain(rows.n_found, allowed, arm.n_rows, f"{where} has {rows.wrong_values(settings.assume)}")
        ordered.append(rows)
        counts.append(allowed)
        planned.append(Planned(settings.planned(name), math.nan if arm.sd is None else arm.sd))
    known = [settings.assume] * len(arms)
    return weigh(ordered, known, tuple(counts), settings.terms, relative=relative, planned=planned, names=tuple(arms))


def _written(
    settings: Settings, arms: Arms, weighed: Weighed | None, found: EvidenceInterval, *, relative: bool
) -> RobustEstimate:
    """Write a result."""
    ends = [end for end in (found.low, found.high) if math.isfinite(end)]
    estimate = found.estimate
    if not math.isfinite(estimate):
        estimate = ends[0] if ends else math.nan if weighed is None else weighed.plain
    rows = tuple(arm.n_rows for arm in arms.values())
    counts = tuple(settings.schedule(n) for n in rows)
    two = len(arms) == 2
    return RobustEstimate(
        **WITHOUT_BLOCKS,
        estimate=estimate,
        interval=Interval(found.low, found.high),
        certificate=_certificate(settings, arms, weighed, len(ends), _radius(estimate, found), relative=relative),
        plan=RowPlan(rows if two else rows[0], counts if two else counts[0], reason=_REASON),
        statistic="relative difference" if relative else "difference" if two else "mean",
        n_omitted=sum(arm.n_omitted for arm in arms.values()),
        plain_mean=math.nan if weighed is None else weighed.plain,
        remarks=() if weighed is None else tuple(filter(None, [_remark(weighed, arms)])),
    )


def _remark(weighed: Weighed, arms: Arms) -> str:
    """Say what the rows of an arm say against the sd that its first rows chose; "" if they say nothing."""
    for rows, one, allowed, (name, arm) in zip(
        weighed.ordered, weighed.samples, weighed.counts, arms.items(), strict=True
    ):
        if one.assume is not None or not arm.sd:
            continue
        shown = weighed.unit * float(one.rows.read().sd[0])
        if text := remark_on(rows, allowed, name):
            return text
        if shown > _GROWN * arm.sd:
            return (
                f"The first rows{f' of {name}' if name else ''} chose an sd of {short(arm.sd)}, but all rows so far "
                f"show {short(shown)}: declare what is known, assume=FiniteVariance(sd) or assume=Bounded(low, high)."
            )
    return ""


def _radius(estimate: float, found: EvidenceInterval) -> float:
    radius = max(estimate - found.low, found.high - estimate)
    return math.inf if math.isnan(radius) else radius


def _certificate(
    settings: Settings, arms: Arms, weighed: Weighed | None, n_ends: int, radius: float, *, relative: bool
) -> Certificate:
    terms, sds, premise = settings.terms, np.empty(0), ""
    provenance, note = "none", _RATIO if relative else _FEW
    if weighed is None:
        note = _pilot_note(settings, arms)
    elif any(one.sd == 0 for one in weighed.samples):
        note = NO_SCALE
    elif n_ends:
        provenance, note = weighed.provenance, f"It holds at every look, if {settings.schedule.describe()}."
        sds = np.array([sd for sd in weighed.sds if not math.isnan(sd)])
        premise = _premise(arms, sds)
    return Certificate(
        radius=radius,
        provenance=cast(Provenance, provenance),
        log_delta=terms.log_delta,
        requested_log_delta=terms.log_delta,
        assumption=settings.assume,
        adversary=terms.adversary,
        statement=_STATEMENT,
        note=note,
        target="difference" if len(arms) == 2 else "mean",
        premise=premise,
        premise_sd=math.nan if not len(sds) else float(sds[0]) if len(sds) == 1 else sds,
        one_end=n_ends == 1,
        at_every_look=True,
    )


def _pilot_note(settings: Settings, arms: Arms) -> str:
    name = next(name for name, arm in arms.items() if not arm.has_evidence)
    if settings.assume is not None:
        return f"Arm {name!r} has no rows yet."
    where = f" of arm {name!r}" if name else ""
    return f"The first {count(settings.piloted(name), 'row')}{where} choose the sd, and are not evidence."


def _premise(arms: Arms, sds: Any) -> str:
    """Say in words what the sds of the clean rows are at most."""
    if not len(sds):
        return ""
    if len(sds) == 1:
        return f"the clean rows' sd is at most {short(sds[0])}"
    parts = [f"{short(sd)} in {name}" for sd, name in zip(sds, arms, strict=True)]
    return f"the clean rows' sd is at most {' and '.join(parts)}"
