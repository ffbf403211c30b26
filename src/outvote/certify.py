"""From a plan and what is known of the clean rows to the certificate of an estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, FiniteKurtosis, FiniteVariance
from outvote.certificate import Certificate, Provenance
from outvote.contamination import Adversary
from outvote.kernels import KERNELS, Kernel
from outvote.partition import Partition, blocks_by_size, draw
from outvote.plans import BlockPlan, Plan
from outvote.results import Interval
from outvote.votes import (
    Alternative,
    best_n_blocks,
    grid_radius,
    mad,
    median_of,
    median_radius,
    sigma_free_factor,
    unequal_radius,
)

Floats = NDArray[np.float64]

#: Values looked at to estimate a scale; more rows would only make it more precise.
_SCALE_VALUES = 2**20
#: 1 / Φ⁻¹(3/4): makes the median absolute deviation estimate the sd of a normal law.
_NORMAL_MAD = 1.482602218505602

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


def median_block_radius(
    plan: Plan, sizes: Sequence[NDArray[Any]], degrees: tuple[int, ...], assume: Assumption, ask: Ask
) -> float:
    """Certified radius of the median over the blocks of a plan, infinite where clean votes can be outvoted."""
    if not plan.holds:
        return math.inf
    settings: dict[str, Any] = {
        "log_delta": ask.log_delta,
        "assume": assume,
        "degrees": degrees,
        "adversary": ask.adversary,
        "alternative": ask.alternative,
    }
    bad = (plan.n_corrupt,) if isinstance(plan, BlockPlan) else plan.n_corrupt
    if not isinstance(plan, BlockPlan) and plan.grid == "full":
        # Blocks of the smallest size have the heaviest tail, so what holds for them holds for all.
        smallest = tuple(int(size.min()) for size in sizes)
        return float(grid_radius(plan.n_blocks, bad, smallest, **settings))
    n_blocks = len(sizes[0])
    if all(np.all(size == size[0]) for size in sizes):
        equal = tuple(int(size[0]) for size in sizes)
        return float(median_radius(n_blocks, sum(bad), equal, **settings))
    return unequal_radius(sum(bad), tuple(sizes), **settings)


def certify_means(
    plan: BlockPlan,
    dealt: Partition,
    rows: NDArray[Any],
    assume: Assumption | Sequence[Assumption] | None,
    ask: Ask,
    seed: int,
) -> Certificate:
    """Certificate of the medians of block means, one radius for each column of `rows`."""
    shape = rows.shape[1:]
    note = ""
    provenance: Provenance = "certified"
    if assume is None:
        unit = median_block_radius(plan, [dealt.sizes], (1,), FiniteVariance(1.0), ask)
        sd = robust_sd(rows, plan.n_corrupt, seed)
        with np.errstate(over="ignore"):
            radius = np.where(np.isfinite(sd), unit * sd, math.inf)
        note, provenance = UNKNOWN_SCALE, "plug-in"
    else:
        several = list(assume) if isinstance(assume, (tuple, list)) else [assume]
        if len(several) not in (1, math.prod(shape)):
            raise ValueError(
                f"assume has {len(several)} entries for {math.prod(shape)} columns: give one, or one for each"
            )
        radii = [_mean_radius(plan, dealt, column, one, ask) for column, one in _columns(rows, several)]
        radius = np.broadcast_to(np.asarray(radii), (math.prod(shape),)).reshape(shape)
    return finish(np.asarray(radius), plan, assume, ask, provenance, note)


def certify_kernel(
    plan: Plan,
    sizes: Sequence[NDArray[Any]],
    degrees: tuple[int, ...],
    block_values: Floats,
    assume: Assumption | None,
    ask: Ask,
) -> Certificate:
    """Certificate of a U-statistic, from what is assumed of the kernel's values or from the spread of the blocks."""
    if assume is not None:
        radius = median_block_radius(plan, sizes, degrees, assume, ask)
        return finish(radius, plan, assume, ask, "certified", "")
    # Blocks of one tuple each have the kernel's own sd, here 1: the unit of the spread of the block values.
    one_tuple = [np.full(len(size), degree) for size, degree in zip(sizes, degrees, strict=True)]
    unit = median_block_radius(plan, one_tuple, degrees, FiniteVariance(1.0), ask)
    radius = unit * _spread(block_values)
    return finish(np.float64(radius), plan, None, ask, "plug-in", UNKNOWN_SCALE)


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
        return one_assumption(assume)
    if kernel.zetas is not None:
        values = kernel.zetas.values() if isinstance(kernel.zetas, Mapping) else kernel.zetas
        return FiniteVariance(math.sqrt(max(values)), zetas=kernel.zetas)
    return Bounded(*kernel.bounds) if kernel.bounds is not None else None


def one_assumption(assume: Any) -> Assumption:
    """Refuse anything but one assumption."""
    if not isinstance(assume, Assumption):
        raise TypeError(
            f"assume={assume!r} must be None, FiniteVariance(sd), SubGaussian(scale), Bounded(low, high) "
            "or FiniteKurtosis(kurtosis, sd)"
        )
    return assume


def finish(radius: Any, plan: Plan, assume: Any, ask: Ask, provenance: Provenance, note: str) -> Certificate:
    """Write the certificate, saying why where there is no radius."""
    if not np.isfinite(radius).any():
        provenance = "none"
        if not plan.holds:
            note = plan.explain().split("\n")[-1]
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
        statement="median of blocks",
        note=note,
        n_blocks=plan.n_blocks,
        target="truth",
    )


def robust_sd(rows: NDArray[Any], n_corrupt: int, seed: int) -> Floats | float:
    """Estimate the standard deviation of each column: the median of block variances, made normal-consistent.

    The blocks are drawn for pairs, afresh and uniformly, from at most about a million values; the median of
    variances of B normal rows is below σ² by the factor that is divided out. Where the contamination leaves no
    blocks of two rows the median absolute deviation stands in.
    """
    columns = rows.reshape(len(rows), -1)
    n_rows = min(len(rows), max(4096, _SCALE_VALUES // columns.shape[1]))
    rng = np.random.default_rng([7, seed])
    share = n_corrupt / len(rows)
    if n_rows < len(rows):
        columns = columns[np.sort(rng.choice(len(rows), size=n_rows, replace=False))]
        n_corrupt = min(n_corrupt, math.ceil(n_rows * share + 4 * math.sqrt(n_rows * share)))
    columns = columns.astype(np.float64, copy=False)
    if 2 * n_corrupt + 1 > n_rows // 2:
        sd = _NORMAL_MAD * np.array([mad(column) for column in columns.T])
    else:
        n_blocks = best_n_blocks(
            [n_rows], [n_corrupt], degrees=(2,), log_delta=math.log(0.05), assume=FiniteVariance(1.0)
        )[0]
        part = draw("uniform", n_rows, n_blocks, seed, stream=7)
        sd = np.sqrt(block_variances(columns, part) / _median_of_normal_variance(n_rows // n_blocks))
    sd = np.where((sd == 0) & (columns.max(axis=0) > columns.min(axis=0)), math.inf, sd)
    return sd.reshape(rows.shape[1:])


def block_variances(columns: Floats, dealt: Partition) -> Floats:
    """Median over the blocks of the variance inside a block, for each column."""
    medians = np.empty(columns.shape[1])
    for j in range(columns.shape[1]):
        values = np.empty(len(dealt))
        for blocks in blocks_by_size([dealt]):
            values[blocks] = KERNELS["variance"].aligned(dealt.stack(columns[:, j], blocks))
        medians[j] = median_of(values)
    return medians


def _mean_radius(plan: BlockPlan, dealt: Partition, column: NDArray[Any], assume: Any, ask: Ask) -> float:
    known = one_assumption(assume)
    if not (isinstance(known, FiniteKurtosis) and known.sd is None):
        return median_block_radius(plan, [dealt.sizes], (1,), known, ask)
    if not plan.holds or dealt.sizes.min() < 2:
        return math.inf
    factor, _ = sigma_free_factor(
        len(dealt),
        plan.n_corrupt,
        int(dealt.sizes.min()),
        log_delta=ask.log_delta,
        kurtosis=known.kurtosis,
        adversary=ask.adversary,
        alternative=ask.alternative,
    )
    return float(factor) * math.sqrt(float(block_variances(column.reshape(-1, 1).astype(np.float64), dealt)[0]))


def _columns(rows: NDArray[Any], several: list[Any]) -> list[tuple[NDArray[Any], Any]]:
    """Pair columns with assumptions; when one assumption needs no look at the rows, do it once."""
    flat = rows.reshape(len(rows), -1)
    if len(several) == 1 and not (isinstance(several[0], FiniteKurtosis) and several[0].sd is None):
        return [(flat[:, 0], several[0])]
    return [(flat[:, j], several[j % len(several)]) for j in range(flat.shape[1])]


def _spread(block_values: Floats) -> float:
    """Robust sd of one block value, infinite where most of them agree and some do not."""
    flat = block_values.reshape(-1)
    sd = _NORMAL_MAD * mad(flat)
    return math.inf if sd == 0 and flat.max() > flat.min() else sd


def _median_of_normal_variance(size: int) -> float:
    """Median of the variance of `size` standard normal rows: a chi-square over its degrees of freedom."""
    from scipy.special import gammaincinv

    return float(2 * gammaincinv((size - 1) / 2, 0.5) / (size - 1))
