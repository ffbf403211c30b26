"""From a plan and what is known of the clean rows to an answer and its certificate."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions.assumption import Assumption, Bounded, FiniteKurtosis, FiniteVariance, one_assumption
from outvote.blocks.plan import BlockPlan, Plan
from outvote.certificate import Certificate, Provenance
from outvote.contamination import Adversary
from outvote.data.tensors import median, to_host
from outvote.estimate.result import Interval, Number
from outvote.estimate.scales import Spread, spread_of
from outvote.kernels.kernel import Kernel
from outvote.votes import Alternative, Ballot, ballot, has_scale, median_of, medians_of_counts, sigma_free_factor

Floats = NDArray[np.float64]

#: From the strongest grounds to the weakest.
_PROVENANCES = ("certified", "as stated", "plug-in", "none")

UNKNOWN_SCALE = (
    "The scale was estimated from the same rows: the radius is certified if assume= names one fixed beforehand, "
    "FiniteVariance(sd) or Bounded(low, high), or FiniteKurtosis(kurtosis)."
)


@dataclass(frozen=True)
class Ask:
    """What a certificate must answer for: how sure, against whom, on which side."""

    log_delta: float
    adversary: Adversary
    alternative: Alternative


class Part(NamedTuple):
    """Block values of a few columns, columns first: what `values` holds, over `divisor`."""

    values: NDArray[Any]
    divisor: float = 1.0


class Voted(NamedTuple):
    """The blocks of one sample after their vote: a value for each column, and how far off it can be."""

    plan: BlockPlan
    sizes: NDArray[Any]
    values: Floats
    centre: Number
    certificate: Certificate


def vote_on_means(
    plan: BlockPlan, sizes: NDArray[Any], block_values: Floats, assume: Sequence[Any], ask: Ask, spread: Spread
) -> tuple[Number, Certificate]:
    """Let the block means vote, for each column of them, and say how far off the answers can be.

    `assume` has an entry, an assumption or None, for each column; `spread` knows the scale where that does not.
    """
    shape = block_values.shape[1:]
    kinds = dict(zip(map(id, assume), assume, strict=True))
    kind_of = np.fromiter(map(id, assume), dtype=np.int64, count=len(assume))
    unscaled = any(_needs_a_scale(one, plan) for one in kinds.values())
    sds = spread.sds() if unscaled else np.empty(0)
    ballots: dict[int, Ballot] = {}
    radius, scale = np.empty(len(assume)), np.ones(len(assume))
    for kind, one in kinds.items():
        columns = kind_of == kind
        known = one
        if _needs_a_scale(one, plan):
            known, scale[columns] = FiniteVariance(1.0), sds[columns]
        known = one_assumption(known)
        if isinstance(known, FiniteKurtosis) and known.sd is None:
            factor = _sigma_free_factor(plan, sizes, known, ask)
            numbers = np.flatnonzero(columns).tolist() if math.isfinite(factor) else []
            own = [factor * math.sqrt(spread.block_variance(j)) for j in numbers] or [math.inf]
            ballots[kind], radius[columns] = Ballot("median", own[0]), own
        else:
            ballots[kind] = _ballot(plan, [sizes], (1,), known, ask)
            radius[columns] = ballots[kind].radius
    radii = (radius * scale).reshape(shape)
    common = assume[0] if all(one == assume[0] for one in kinds.values()) else tuple(assume)
    certificate = finish(radii, plan, common, ask, "plug-in" if unscaled else "certified")
    if all(one.vote == "median" for one in ballots.values()):
        estimate = median_of(block_values) if isinstance(block_values, np.ndarray) else to_host(median(block_values))
    else:
        columns = to_host(block_values).reshape(len(block_values), -1)
        counted = [
            ballots[kind].scaled(float(scale[j])).count(columns[:, j]) for j, kind in enumerate(kind_of.tolist())
        ]
        estimate = np.array(counted).reshape(shape)
    return answer(estimate), certificate


def vote_on_kernel(
    plan: Plan,
    sizes: Sequence[NDArray[Any]],
    degrees: tuple[int, ...],
    block_values: Floats,
    assume: Assumption | None,
    ask: Ask,
) -> tuple[Number, Certificate]:
    """Let the U-statistics of blocks vote; without an assumption their spread stands in for a scale."""
    values, ready = block_values.ravel(order="K"), _ballot_of_kernel(plan, sizes, degrees, assume, ask)
    if assume is None:
        ready = ready.scaled(float(spread_of(values)))
    certificate = finish(ready.radius, plan, assume, ask, "plug-in" if assume is None else "certified")
    return answer(np.float64(ready.count(values))), certificate


def vote_on_columns(
    plan: Plan,
    sizes: Sequence[NDArray[Any]],
    degrees: tuple[int, ...],
    parts: Iterable[Part],
    assume: Sequence[Assumption | None],
    ask: Ask,
) -> tuple[Floats, Certificate]:
    """Let the U-statistics of blocks vote, for each column of them; `assume` has an entry for each column."""
    kinds = dict(zip(map(id, assume), assume, strict=True))
    ballots = {kind: _ballot_of_kernel(plan, sizes, degrees, one, ask) for kind, one in kinds.items()}
    ready = [ballots[id(one)] for one in assume]
    unscaled = np.array([one is None for one in assume])
    centres, scale, first = np.empty(len(assume)), np.ones(len(assume)), 0
    for values, divisor in parts:
        part = slice(first, first + len(values))
        first = part.stop
        if values.dtype.kind in "iu" and not unscaled[part].any():  # on a full grid, where the median votes
            centres[part] = medians_of_counts(values) / divisor
            continue
        columns = (values if divisor == 1 else values / divisor).reshape(len(values), -1).T
        scale[part] = np.where(unscaled[part], spread_of(columns), 1.0) if unscaled[part].any() else 1.0
        if all(one.vote == "median" for one in ready[part]):
            centres[part] = median_of(columns)
        else:
            scaled = (one.scaled(float(factor)) for one, factor in zip(ready[part], scale[part], strict=True))
            centres[part] = [one.count(column) for one, column in zip(scaled, columns.T, strict=True)]
    radius = np.array([one.radius for one in ready]) * scale
    common = assume[0] if all(one == assume[0] for one in kinds.values()) else tuple(assume)
    certificate = finish(radius, plan, common, ask, "plug-in" if unscaled.any() else "certified")
    return np.asarray(answer(centres)), certificate


def answer(estimate: Any) -> Number:
    """Return a float or an array; an answer too large for a float is an error."""
    if not np.isfinite(estimate).all():
        raise ValueError("the median block value is too large for a float: divide the rows by a power of ten first")
    return float(estimate) if np.ndim(estimate) == 0 else np.asarray(estimate)


def certify_together(certificates: Sequence[Certificate], plan: Plan, promised: dict[str, Any]) -> Certificate:
    """Certificate of a difference of means: the radii add up, over the worst function if there are several."""
    weakest = max(certificates, key=lambda one: _PROVENANCES.index(one.provenance))
    radius = float(np.max(sum(np.asarray(one.radius) for one in certificates)))
    notes = dict.fromkeys(one.note for one in certificates if one.note)
    return replace(
        weakest, radius=radius, n_blocks=plan.n_blocks, note=" ".join(notes), target="difference", **promised
    )


def ratio_interval(
    centres: Sequence[float], radii: Sequence[float], estimate: float, certificate: Certificate, alternative: str
) -> tuple[Interval, Certificate]:
    """Interval of mean(b)/mean(a) - 1 when each mean is within its radius; unbounded where mean(a) may be 0."""
    (a, b), (spread_a, spread_b) = centres, radii
    low, high = -math.inf, math.inf
    if spread_a < abs(a) and math.isfinite(spread_b):
        corners = [(b + i * spread_b) / (a + j * spread_a) - 1 for i in (-1, 1) for j in (-1, 1)]
        low, high = min(corners), max(corners)
    else:
        note = "The mean of a may be 0, so nothing bounds the ratio."
        certificate = replace(certificate, provenance="none", note=note)
    certificate = replace(certificate, radius=max(high - estimate, estimate - low), target="relative difference")
    low = -math.inf if alternative == "less" else low
    return Interval(low, math.inf if alternative == "greater" else high), certificate


def assumption_of_kernel(assume: Any, kernel: Kernel) -> Assumption | None:
    """What is assumed of a kernel's values: what the user says, else what the kernel itself knows."""
    if assume is not None:
        known = one_assumption(assume)
        if not has_scale(known):
            raise ValueError(f"assume={assume!r} without sd is for means: give sd, or assume=None for a plug-in")
        return known
    if kernel.zetas is not None:
        values = kernel.zetas.values() if isinstance(kernel.zetas, Mapping) else kernel.zetas
        return FiniteVariance(math.sqrt(max(values)), zetas=kernel.zetas)
    return Bounded(*kernel.bounds) if kernel.bounds is not None else None


def finish(radius: Any, plan: Plan, assume: Any, ask: Ask, provenance: Provenance) -> Certificate:
    """Write the certificate, saying why where there is no radius."""
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
        radius=float(radius) if np.ndim(radius) == 0 else radius,
        provenance=provenance,
        log_delta=ask.log_delta,
        requested_log_delta=ask.log_delta,
        assumption=assume,
        adversary=ask.adversary,
        statement=f"{plan.vote} vote of blocks",
        note=note,
        n_blocks=plan.n_blocks,
        alternative=ask.alternative,
    )


def _ballot(
    plan: Plan, sizes: Sequence[NDArray[Any]], degrees: tuple[int, ...], assume: Assumption, ask: Ask
) -> Ballot:
    """Prepare the plan's vote; without a clean majority it has no radius."""
    if not plan.holds:
        return Ballot(plan.vote, math.inf)
    bad = (plan.n_corrupt,) if isinstance(plan, BlockPlan) else plan.n_corrupt
    return ballot(
        plan.vote,
        sizes,
        bad,
        {
            "log_delta": ask.log_delta,
            "assume": assume,
            "degrees": degrees,
            "adversary": ask.adversary,
            "alternative": ask.alternative,
        },
        "full" if not isinstance(plan, BlockPlan) and plan.grid == "full" else "single",
    )


def _ballot_of_kernel(
    plan: Plan, sizes: Sequence[NDArray[Any]], degrees: tuple[int, ...], assume: Assumption | None, ask: Ask
) -> Ballot:
    """Prepare the vote of U-statistics; without an assumption in units of the spread of their values."""
    if assume is not None:
        return _ballot(plan, sizes, degrees, assume, ask)
    # Blocks of one tuple each have the kernel's own sd, here 1: the unit of the spread of the block values.
    one_tuple = [np.full(len(size), degree) for size, degree in zip(sizes, degrees, strict=True)]
    return _ballot(plan, one_tuple, degrees, FiniteVariance(1.0), ask)


def _needs_a_scale(assume: Any, plan: BlockPlan) -> bool:
    """Whether an assumption fixes no scale for the plan's vote: nothing at all, or a kurtosis without sd."""
    return assume is None or (plan.vote != "median" and not has_scale(one_assumption(assume)))


def _sigma_free_factor(plan: BlockPlan, sizes: NDArray[Any], assume: FiniteKurtosis, ask: Ask) -> float:
    """How many times the root of the median block variance the radius is."""
    if not plan.holds or sizes.min() < 2:
        return math.inf
    factor, _ = sigma_free_factor(
        len(sizes),
        plan.n_corrupt,
        int(sizes.min()),
        log_delta=ask.log_delta,
        kurtosis=assume.kurtosis,
        adversary=ask.adversary,
        alternative=ask.alternative,
    )
    return float(factor)
