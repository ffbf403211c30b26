"""Let block values vote, and write the certificate: how far the answer can be from the truth."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, FiniteKurtosis
from outvote.blocks.plan import BlockPlan, Plan
from outvote.certificate import Certificate, Provenance
from outvote.data.missing import ContradictionError
from outvote.data.tensors import median, to_host
from outvote.estimate.request import Assumed, Request, bounds_of, distinct
from outvote.estimate.result import Interval, RobustEstimate, beyond_rounding, shaped
from outvote.estimate.scales import Spread
from outvote.votes import Ballot, Terms, ballot, median_of, medians_of_counts, sigma_free_factor

Floats = NDArray[np.float64]

UNKNOWN_SCALE = (
    "The scale was estimated from the same rows: the radius is certified if assume= names one fixed beforehand, "
    "FiniteVariance(sd) or Bounded(low, high), or FiniteKurtosis(kurtosis)."
)


class Part(NamedTuple):
    """Block values of some columns, columns first: what `values` holds, over `divisor`."""

    values: NDArray[Any]
    divisor: float = 1.0


class Voted(NamedTuple):
    """The blocks of one sample after their vote: an answer for each column, and how far off it can be."""

    plan: BlockPlan
    sizes: NDArray[Any]
    values: Floats
    centre: Floats
    certificate: Certificate


def vote(
    plan: Plan,
    sizes: Sequence[NDArray[Any]],
    parts: Iterable[Part],
    assumed: Assumed,
    terms: Terms,
    spread: Spread,
) -> tuple[Floats, Certificate]:
    """Let the blocks of each column vote.

    Parameters
    ----------
    plan : BlockPlan or GridPlan
        The blocks, and how they vote.
    sizes : sequence of ndarray
        Rows in the blocks of each sample.
    parts : iterable of Part
        The block values, some columns at a time.
    assumed : tuple
        What is known of the values in each column, None where nothing is.
    terms : Terms
        What the certificate is asked for; its degrees are those of the kernel.
    spread : Spread
        What stands in for the scale of a column of which none is known.

    Returns
    -------
    centres : ndarray, one entry for each column
        What the blocks voted for.
    certificate : Certificate
        With a radius for each column.
    """
    unscaled = np.array([_needs_scale(one, plan) for one in assumed])
    known = {one: _ballot_for(one, plan, sizes, terms, spread) for one in distinct(assumed)}
    ready = [known[one] for one in assumed]
    centres, scale, first = np.empty(len(assumed)), np.ones(len(assumed)), 0
    for values, divisor in parts:
        part = slice(first, first + len(values))
        first = part.stop
        if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and not unscaled[part].any():
            centres[part] = medians_of_counts(values) / divisor  # counts come on a full grid, where the median votes
            continue
        columns = (values if divisor == 1 else values / divisor).reshape(len(values), -1).T
        _refuse_beyond_bounds(plan, columns, assumed[part])
        if unscaled[part].any():
            scale[part] = np.where(unscaled[part], spread.sds(part, columns), 1.0)
        if all(one.vote == "median" for one in ready[part]):
            centres[part] = median_of(columns) if isinstance(columns, np.ndarray) else to_host(median(columns))
        else:
            scaled = (one.scaled(float(factor)) for one, factor in zip(ready[part], scale[part], strict=True))
            centres[part] = [one.count(column) for one, column in zip(scaled, to_host(columns).T, strict=True)]
    if not np.isfinite(centres).all():
        raise ValueError("the median block value is too large for a float: divide the rows by a power of ten first")
    with np.errstate(over="ignore"):
        radius = np.array([one.radius for one in ready]) * scale
    for j, one in enumerate(assumed):
        if _sigma_free(one, plan) and math.isfinite(ready[j].radius):
            radius[j] = ready[j].radius * spread.block_sd(j)
    return centres, certify(radius, plan, assumed, terms, "plug-in" if unscaled.any() else "certified")


def _refuse_beyond_bounds(plan: Plan, votes: Any, assumed: Assumed) -> None:
    """Refuse block values that bounds rule out, if there are more than corrupt rows can reach."""
    kinds = [one for one in distinct(assumed) if isinstance(one, Bounded)]
    if not kinds or not plan.holds:
        return
    low, high = bounds_of(assumed)
    rounding = 1e-9 * max(one.width + abs(one.low) * 1e-6 for one in kinds)
    values = to_host(votes)
    outside = ((values < low - rounding) | (values > high + rounding)).sum(axis=0)
    if isinstance(plan, BlockPlan):
        reached = plan.n_corrupt
    elif plan.grid == "full":
        clean = (k - bad for k, bad in zip(plan.n_blocks, plan.n_corrupt, strict=True))
        reached = len(values) - math.prod(clean)
    else:
        reached = sum(plan.n_corrupt)
    if (most := int(outside.max(initial=0))) > reached:
        raise ContradictionError(
            f"the rows contradict assume={kinds[0]!r}: {most} of {len(values)} block values lie outside these "
            f"bounds, and corrupt rows can reach only {reached}: assume wider bounds, or allow for more corrupt rows"
        )


def certify(radius: Floats, plan: Plan, assumed: Assumed, terms: Terms, provenance: Provenance) -> Certificate:
    """Write the certificate, and say why where there is no radius."""
    kinds = distinct(assumed)
    assume: Any = kinds[0] if len(kinds) == 1 else assumed
    note = UNKNOWN_SCALE if provenance == "plug-in" else ""
    if not np.isfinite(radius).any():
        provenance = "none"
        if not plan.holds:
            note = plan.explain().split("\n")[-1]
        elif plan.vote != "median":
            note = f"The {plan.vote} vote has no certificate with these blocks at this confidence: try vote='auto'."
        elif assume is None:
            note = "These rows have no robust scale between 0 and infinity: name one with assume=."
        else:
            note = f"{assume!r} gives no finite radius with these blocks at this confidence."
    return Certificate(
        radius=radius,
        provenance=provenance,
        log_delta=terms.log_delta,
        requested_log_delta=terms.log_delta,
        assumption=assume,
        adversary=terms.adversary,
        statement=f"{plan.vote} vote of blocks",
        note=note,
        n_blocks=plan.n_blocks,
        alternative=terms.alternative,
    )


def conclude(
    request: Request,
    estimate: Any,
    certificate: Certificate,
    plan: Plan,
    block_values: Any,
    sizes: Sequence[NDArray[Any]],
    *,
    shape: tuple[int, ...] = (),
    assumed: Assumed = (None,),
    interval: Interval | None = None,
    **about: Any,
) -> RobustEstimate:
    """Write the result: of one column for shape (), else of columns of that shape; known bounds cut the interval."""
    centre, radius = shaped(estimate, shape), shaped(certificate.radius, shape)
    if interval is None:
        bounds = bounds_of(assumed) if len(assumed) > 1 else tuple(end[0] for end in bounds_of(assumed))
        side = request.terms.alternative
        with np.errstate(over="ignore"):
            low = np.full(np.size(centre), -math.inf) if side == "less" else np.ravel(centre - radius)
            high = np.full(np.size(centre), math.inf) if side == "greater" else np.ravel(centre + radius)
        interval = Interval(*(shaped(np.clip(end, *bounds), shape) for end in beyond_rounding(low, high)))
    log_delta = request.terms.log_delta
    return RobustEstimate(
        estimate=centre,
        interval=interval,
        certificate=replace(certificate, radius=radius, log_delta=log_delta, requested_log_delta=log_delta),
        plan=plan,
        block_values=block_values,
        block_sizes=sizes[0] if len(sizes) == 1 else tuple(sizes),
        seed=request.seed,
        partition=request.partition,
        alternative=request.terms.alternative,
        **about,
    )


def _needs_scale(assume: Assumption | None, plan: Plan) -> bool:
    """Return whether an assumption fixes no scale for the plan's vote: nothing at all, or a kurtosis without sd."""
    return assume is None or (plan.vote != "median" and not assume.has_scale)


def _sigma_free(assume: Assumption | None, plan: Plan) -> bool:
    """Return whether the radius is a multiple of the root of the median block variance."""
    return assume is not None and plan.vote == "median" and not assume.has_scale


def _ballot_for(
    assume: Assumption | None, plan: Plan, sizes: Sequence[NDArray[Any]], terms: Terms, spread: Spread
) -> Ballot:
    """Prepare the plan's vote; without a clean majority it has no radius."""
    if not plan.holds:
        return Ballot(plan.vote, math.inf)
    if isinstance(assume, FiniteKurtosis) and _sigma_free(assume, plan):
        return Ballot("median", _sigma_free_factor(plan, sizes[0], assume, terms))
    if _needs_scale(assume, plan):
        assume, sizes = None, spread.unit_sizes(sizes, terms.degrees)
    bad = (plan.n_corrupt,) if isinstance(plan, BlockPlan) else plan.n_corrupt
    full = not isinstance(plan, BlockPlan) and plan.grid == "full"
    return ballot(plan.vote, sizes, bad, terms.about(assume, terms.degrees), "full" if full else "single")


def _sigma_free_factor(plan: Plan, sizes: NDArray[Any], assume: FiniteKurtosis, terms: Terms) -> float:
    """Return how many times the root of the median block variance the radius is."""
    if sizes.min() < 2:
        return math.inf
    factor, _ = sigma_free_factor(
        len(sizes),
        plan.n_corrupt,
        int(sizes.min()),
        kurtosis=assume.kurtosis,
        **terms.who,
    )
    return float(factor)
