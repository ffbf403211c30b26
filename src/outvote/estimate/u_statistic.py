"""Robust U-statistics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.assumptions import Assumption, Bounded, FiniteVariance, one_assumption
from outvote.blocks.partition import PartitionKind, Remainder, Rng
from outvote.blocks.plan import GridPlan, Plan
from outvote.contamination import Contamination
from outvote.data.arguments import check_choice, check_flags, number_of_jobs, real
from outvote.data.missing import NanPolicy
from outvote.data.rows import read_columns, read_rows
from outvote.data.tensors import is_tensor, to_host
from outvote.estimate.block_values import column_values, deal_samples, kernel_values
from outvote.estimate.complete import KernelRows, complete_u_statistic, refuse_false_bounds, u_statistic_by_evidence
from outvote.estimate.levels import agree
from outvote.estimate.request import Allowed, Assumed, NBlocks, Request, distinct, per_column
from outvote.estimate.result import RobustEstimate, placed_like
from outvote.estimate.scales import SpreadOfValues
from outvote.estimate.voting import Part, conclude
from outvote.estimate.voting import vote as let_vote
from outvote.kernels import Kernel, kernel_of
from outvote.votes import Alternative, KernelVote

#: Block values that the result of several columns keeps on the full grid: 32 MB.
_KEPT = 2**22
#: Columns on which a kernel is tried.
_TRIED = 8


def u_statistic(
    *samples: ArrayLike,
    kernel: Kernel | str,
    contamination: Allowed | Literal["auto"] = 0.01,
    confidence: float = 0.95,
    assume: Any = None,
    vote: str = "auto",
    n_blocks: NBlocks = "auto",
    partition: PartitionKind = "random",
    grid: Literal["full", "diagonal"] | None = None,
    nan_policy: NanPolicy = "raise",
    rng: Rng = None,
    remainder: Remainder | None = None,
    alternative: Alternative = "two-sided",
    max_contamination: float | Contamination = 0.1,
    n_jobs: int | None = None,
    axis: int | None = None,
    simultaneous: bool = False,
) -> RobustEstimate:
    """Estimate E h(Z_1, …, Z_d), the mean of a kernel over tuples of clean rows.

    Kernels with bounds by the statistic of all rows and what deleting rows can make of it; others by evidence of their
    values on disjoint tuples; with ``vote="median"``, the paper's, by the median of U-statistics on blocks (MoU, MoU₂).

    Parameters
    ----------
    *samples : array-like or torch tensors
        One array per sample: numbers (1-D), vectors (2-D, one a row), or columns (`axis`). They are not modified.
        With votes of blocks tensors stay on their device, and on a GPU the named kernels alone are taken; else they are
        copied to the host.
    kernel : str or Kernel
        ``"variance"``, ``"covariance"``, ``"gini"``, ``"wilcoxon"``, ``"kendall"``, ``"mann-whitney"``, ``"auc"``,
        ``"mmd"``, ``"energy"``, or your own `Kernel`.
    contamination : float, int, tuple or Contamination
        How many rows may be corrupt, for all samples or one for each.
    confidence, assume, partition, nan_policy, rng, remainder, alternative, max_contamination
        As for `mean`; `assume` is about the kernel's values on clean rows, and so is the premise that is printed if
        nothing is declared. For ``"variance"`` that takes fourth moments: rows with heavy tails break it.
    vote : {"auto", "complete", "evidence", "median", "soft", "clipped"}
        "complete" is for kernels with bounds: no blocks and no seed. "evidence" is for others. "median", "soft" and
        "clipped" are votes of blocks; the soft and the clipped one need independent blocks: one sample, or the
        diagonal. "auto" is complete where bounds are known; the vote of blocks with the smallest radius where `zetas`
        are; evidence elsewhere; and the median where `n_blocks`, `partition`, `remainder` or `grid` ask for blocks.
    n_blocks : "auto", int or tuple of int
        Number of blocks (K), or one for each sample (K_X, K_Y).
    grid : {"full", "diagonal"}, optional
        For several samples and votes of blocks: every combination of blocks votes (MoU₂; the default), or the k-th
        blocks together.
    n_jobs : int or None
        Blocks are evaluated in so many joblib jobs; -1 takes all processors, None one, or as many as the surrounding
        ``joblib.parallel_config`` says. Beyond rounding, the numbers do not depend on it.
    axis : int or None
        Axis along which the rows run, where every column is a sample of its own for a kernel of numbers; samples have
        as many columns each. All columns share one partition, and a row with one NaN is a NaN row of all of them.
        The numbers are those of one call for each column with the same seed. ``"covariance"`` and ``"kendall"`` are
        of two columns, so they refuse. None: a sample is 1-D, or its rows are vectors that the kernel takes whole.
    simultaneous : bool
        Whether `confidence` is for all columns at once rather than for each.

    Returns
    -------
    RobustEstimate
        On the full grid `block_values` has one axis for each sample. Of several columns it is empty where these have
        more than 2²² combinations of blocks in all.

    Notes
    -----
    Peak memory without blocks: O(n). With blocks O(n), for the rows in blocks and what the kernel sorts, three to five
    times the samples; on the full grid K_X·K_Y values more. Your own kernel, `mmd` and `energy` work on tiles of a few
    megabytes. Of d columns as many as hold 2¹⁸ numbers, and have 2²² combinations of blocks, are taken at a time, at
    least one: O(n + K·d) beyond the samples, and O(n + K_X·K_Y + d) on the full grid, besides the 2²² values that are
    kept at most.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> z = rng.uniform(size=2000)
    >>> z[:20] = 50.0
    >>> print(ov.u_statistic(z, kernel="variance", contamination=20))  # doctest: +NORMALIZE_WHITESPACE
    variance 0.0830, between 0.0745 and 0.0925 (95 % if the sd of the kernel's values on clean rows is at most 0.131;
    allows for 20 corrupt rows). 20 of the 20 tuples that may be corrupt lie above 1.46 (from 1 201 to 1 245) and are
    taken to be corrupt; if they are real, the variance is 24 ± 18 (sd at most 229): declare the sd, or allow for
    fewer.
    >>> x, y = rng.normal(size=500), rng.normal(1.0, size=400)
    >>> print(ov.u_statistic(x, y, kernel="auc", contamination=(5, 4)))
    auc 0.751 ± 0.061 (certified 95 %, allows for 5 and 4 corrupt rows)
    >>> table = rng.normal(scale=[1.0, 2.0, 3.0], size=(2000, 3))
    >>> ov.u_statistic(table, kernel="gini", axis=0, contamination=20).estimate.round(1)
    array([1.2, 2.2, 3.3])
    """
    if not samples:
        raise TypeError("u_statistic needs at least one sample")
    named = kernel_of(kernel)
    check_choice("grid", "full" if grid is None else grid, Literal["full", "diagonal"])
    check_flags(simultaneous=simultaneous)
    n_jobs = number_of_jobs(n_jobs)
    request = Request.read(
        contamination, confidence, vote=vote, votes=KernelVote, n_blocks=n_blocks, n_samples=len(samples),
        partition=partition, remainder=remainder, nan_policy=nan_policy, alternative=alternative, rng=rng,
        max_contamination=max_contamination,
    )  # fmt: skip
    sampled = _read_samples(samples, axis, named)
    assumed = kernel_assumptions(assume, sampled.n_columns, named)
    way = _way(request, named, assumed, blocks=grid is not None)
    if way == "blocks":
        request = request.with_blocks() if request.by_blocks or grid is not None else request
        task = _Task(sampled, named, assumed, grid or "full", n_jobs, simultaneous)
    run = task.run if way == "blocks" else _without_blocks(sampled, named, assumed, request, way, simultaneous)
    return placed_like(agree(request, [len(rows) for rows in sampled.rows], run), samples[0])


def _way(request: Request, kernel: Kernel, assumed: Assumed, *, blocks: bool) -> str:
    """Return how the statistic is estimated: "complete", "evidence" or "blocks"."""
    kinds = {isinstance(one, Bounded) for one in assumed}
    if (
        kinds == {True, False}
        and request.vote in ("auto", "complete", "evidence")
        and not (blocks or request.by_blocks)
    ):
        raise ValueError("assume gives bounds of some columns and not of others: call once for each kind")
    bounded = kinds == {True}
    if request.vote in ("complete", "evidence") and (blocks or request.by_blocks):
        raise ValueError(
            f"vote={request.vote!r} has no blocks: leave out n_blocks, partition, remainder and grid, or take "
            "vote='median'"
        )
    if request.vote == "complete" and not bounded:
        raise ValueError(
            f"vote='complete' needs a kernel with bounds, and kernel {kernel.name!r} has none: give "
            "assume=Bounded(low, high), or take vote='evidence'"
        )
    if request.vote == "evidence" and bounded:
        raise ValueError("vote='evidence' is for kernels without bounds: vote='complete' is narrower here")
    if request.vote != "auto" or request.by_blocks or blocks:
        return request.vote if request.vote in ("complete", "evidence") else "blocks"
    zetas = any(isinstance(one, FiniteVariance) and one.zetas is not None for one in assumed)
    return "complete" if bounded else "blocks" if zetas else "evidence"


def _without_blocks(
    sampled: _Samples, kernel: Kernel, assumed: Assumed, request: Request, way: str, simultaneous: bool
) -> Callable[[Request], RobustEstimate]:
    """Return what estimates without blocks, for a known contamination; what does not depend on it is done once."""
    names = [_sample_name(s, len(sampled.rows)) for s in range(len(sampled.rows))]
    given = [to_host(rows) for rows in sampled.rows]
    samples = KernelRows.read(given, names, sampled.shape, kernel, assumed, request)
    kernel.check([sample[:, 0] for sample in samples.rows] if sampled.shape else samples.rows)
    parts = len(assumed) if simultaneous else 1
    estimate = complete_u_statistic if way == "complete" else u_statistic_by_evidence

    def run(one: Request) -> RobustEstimate:
        return replace(estimate(samples, one, one.terms.shared(parts)), names=sampled.names)

    return run


@dataclass(frozen=True)
class _Samples:
    """Samples of a U-statistic, rows first; `shape` is that of their columns, () where a row is taken whole."""

    rows: list[NDArray[Any]]
    shape: tuple[int, ...]
    names: tuple[str, ...] | None

    @property
    def n_columns(self) -> int:
        """How many U-statistics there are."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class _Task:
    """A U-statistic to estimate, once or at several levels of contamination."""

    samples: _Samples
    kernel: Kernel
    assumed: Assumed
    grid: Literal["full", "diagonal"]
    n_jobs: int | None
    simultaneous: bool

    def run(self, request: Request) -> RobustEstimate:
        """Estimate for the contamination of the request."""
        kernel, shape, given = self.kernel, self.samples.shape, self.samples.rows
        screened = request.screen(given, [_sample_name(s, len(given)) for s in range(len(given))])
        rows = screened.rows
        kernel.check([sample[:, 0] for sample in rows] if shape else rows)
        kinds = distinct(self.assumed)
        terms = request.terms.shared(len(self.assumed) if self.simultaneous else 1)
        terms = terms.about(None if None in kinds else kinds[0], kernel.degrees)
        plan = request.plan(tuple(map(len, rows)), terms, self.grid)
        self._refuse_false_bounds(rows, sum(request.allowed.counts(list(map(len, rows)))))
        plans = plan.samples if isinstance(plan, GridPlan) else (plan,)
        plans, drawn = deal_samples(request, plans, given, together=self.grid == "diagonal")
        plan = GridPlan(plans, self.grid) if len(plans) > 1 else plans[0]
        ready = kernel if any(map(is_tensor, rows)) else _tried(kernel, rows, bool(shape))
        evaluate = column_values if shape else kernel_values
        values = _Kept(evaluate(ready, rows, drawn, self.grid, self.n_jobs), plan, len(self.assumed))
        sizes = [part.sizes for part in drawn]
        centres, certificate = let_vote(plan, sizes, values, self.assumed, terms, SpreadOfValues())
        block_values = values.array([len(size) for size in sizes], shape)
        detail = ""
        if not block_values.size:
            detail = (
                f"The {len(self.assumed)} columns have too many combinations of blocks for their values to be kept."
            )
        return conclude(
            request,
            centres,
            certificate,
            plan,
            block_values,
            sizes,
            shape=shape,
            assumed=self.assumed,
            statistic=kernel.name,
            names=self.samples.names,
            n_omitted=sum(screened.bad),
            detail=detail,
        )

    def _refuse_false_bounds(self, rows: Sequence[NDArray[Any]], n_corrupt: int) -> None:
        """Refuse bounds that the kernel leaves; rows that are corrupt for certain have been replaced."""
        if any(map(is_tensor, rows)):
            return
        for j, assume in enumerate(self.assumed):
            if isinstance(assume, Bounded):
                column = [sample[:, j] for sample in rows] if self.samples.shape else rows
                refuse_false_bounds(self.kernel, assume, column, [None] * len(rows), n_corrupt)


class _Kept:
    """Block values on their way to the vote; they are kept for the result unless there are too many."""

    def __init__(self, parts: Iterable[Part], plan: Plan, n_columns: int):
        self._parts = parts
        self._full, n_votes = False, 0
        if isinstance(plan, GridPlan) and plan.grid == "full":
            self._full, n_votes = True, plan.n_votes
        self._keep = n_columns == 1 or n_votes * n_columns <= _KEPT
        self._values: list[NDArray[Any]] = []

    def __iter__(self) -> Iterator[Part]:
        for part in self._parts:
            if self._keep:
                self._values.append(part.values / part.divisor if part.divisor != 1 else part.values)
            yield part

    def array(self, n_blocks: Sequence[int], shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the values, blocks first and columns last; empty where they were not kept."""
        blocks = tuple(n_blocks) if self._full else (n_blocks[0],)
        if not self._keep:
            return np.empty((*(0 for _ in blocks), *shape))
        values = self._values[0] if len(self._values) == 1 else np.concatenate(self._values)
        return np.moveaxis(values, 0, -1).reshape(*blocks, *shape)


def _doubles(rows: Any) -> Any:
    """Return float32 as float64: differences and squares of large ones would overflow; a tensor stays what it is."""
    return rows if is_tensor(rows) else rows.astype(np.float64, copy=False)


def _read_samples(samples: Sequence[Any], axis: int | None, kernel: Kernel) -> _Samples:
    """Read every sample, and the names of their columns where each column is a sample of its own."""
    called = [_sample_name(s, len(samples)) for s in range(len(samples))]
    if axis is None:
        rows = [_doubles(read_rows(one, name, stay=True)) for one, name in zip(samples, called, strict=True)]
        return _Samples(rows, (), None)
    if kernel.columns not in (None, 1):
        raise ValueError(
            f"axis={axis!r} makes every column a sample of numbers, but kernel {kernel.name!r} takes rows of "
            f"{kernel.columns} numbers: leave axis out, and call once for each sample"
        )
    read = [read_columns(one, name, axis, stay=True, floats=True) for one, name in zip(samples, called, strict=True)]
    if len({tuple(values.shape[1:]) for values, _ in read}) > 1:
        found = " and ".join(str(tuple(values.shape[1:])) for values, _ in read)
        raise ValueError(f"axis={axis} pairs column with column, but the samples have columns of shape {found}")
    named = dict.fromkeys(names for _, names in read if names)
    if len(named) > 1:
        found = " and ".join(str(list(names)) for names in named)
        raise ValueError(f"axis={axis} pairs column with column, but these are named {found}: put them in one order")
    shape = tuple(read[0].values.shape[1:])
    rows = [_doubles(values.reshape(len(values), -1) if shape else values) for values, _ in read]
    return _Samples(rows, shape, next(iter(named), None))


def kernel_assumptions(assume: Any, n_columns: int, kernel: Kernel) -> Assumed:
    """Return what is assumed of the kernel's values in each column: what the user says, else what the kernel knows."""
    given = per_column(assume, n_columns)
    known = {one: _assumption_of(one, kernel) for one in distinct(given)}
    return tuple(known[one] for one in given)


def _assumption_of(assume: Assumption | None, kernel: Kernel) -> Assumption | None:
    if assume is not None:
        if not one_assumption(assume).has_scale:
            raise ValueError(f"assume={assume!r} without sd is for means: give sd, or assume=None for a plug-in")
        if type(assume) is Bounded and kernel.bounds is not None:  # both hold
            low, high = max(assume.low, kernel.bounds[0]), min(assume.high, kernel.bounds[1])
            return replace(assume, low=low, high=high) if low < high else assume
        return assume
    if kernel.zetas is not None:
        values = kernel.zetas.values() if isinstance(kernel.zetas, Mapping) else kernel.zetas
        return FiniteVariance(math.sqrt(max(real("zetas", zeta) for zeta in values)), zetas=kernel.zetas)
    return Bounded(*kernel.bounds) if kernel.bounds is not None else None


def _tried(kernel: Kernel, rows: Sequence[NDArray[Any]], by_column: bool) -> Kernel:
    """Try the kernel on the samples; of many columns, on some."""
    if not by_column:
        return kernel.fit(rows)
    n_columns = rows[0].shape[1]
    some = np.unique(np.linspace(0, n_columns - 1, min(n_columns, _TRIED)).astype(int)).tolist()
    try:
        return kernel.fit(*([sample[:, j] for sample in rows] for j in some))
    except (IndexError, TypeError) as error:
        error.add_note(f"With axis= kernel {kernel.name!r} is given numbers, not vectors: every column is a sample.")
        raise


def _sample_name(number: int, n_samples: int) -> str:
    return "x" if n_samples == 1 else f"sample {number + 1}"
