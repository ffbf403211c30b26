"""Robust means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.assumptions import SYMMETRIC_ONLY, Symmetric
from outvote.blocks.partition import PartitionKind, Remainder, Rng
from outvote.contamination import Contamination
from outvote.data.arguments import check_flags
from outvote.data.missing import NanPolicy, check_certain, check_rows, screen
from outvote.data.rows import Rows, read_columns
from outvote.estimate.block_values import beyond_bounds, block_means, deal_mean, rows_outside, within_bounds
from outvote.estimate.evidence import MeanByEvidence, OrderedTable
from outvote.estimate.levels import agree
from outvote.estimate.ratios import ratio_assumptions, read_ratios
from outvote.estimate.request import Allowed, Assumed, NBlocks, Request, distinct, per_column
from outvote.estimate.result import RobustEstimate, named, placed_like
from outvote.estimate.scales import SpreadOfRows
from outvote.estimate.screened import implied
from outvote.estimate.summary import BlockSummary, RowSummary, conclude_summary
from outvote.estimate.voting import Part, Voted, conclude
from outvote.estimate.voting import vote as let_vote
from outvote.votes import Alternative, Terms, VoteName


def mean(
    x: ArrayLike | RowSummary,
    contamination: Allowed | Literal["auto"] = 0.01,
    confidence: float = 0.95,
    assume: Any = None,
    vote: str = "auto",
    n_blocks: NBlocks = "auto",
    partition: PartitionKind = "random",
    axis: int | None = 0,
    nan_policy: NanPolicy = "raise",
    rng: Rng = None,
    *,
    remainder: Remainder | None = None,
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
    weights: None = None,
    max_contamination: float | Contamination = 0.1,
    ratio: bool = False,
) -> RobustEstimate:
    """Estimate the mean of the clean rows, and say how far off it can be if some of the rows are corrupt.

    Parameters
    ----------
    x : array-like, Series, DataFrame, torch tensor or RowSummary
        The rows, or a summary of them. It is not modified. A tensor stays on its device, where its rows are counted in
        bins, if there are 8192 or more; with votes of blocks the block values stay there, too. `Symmetric`,
        `FiniteKurtosis` without an sd, and a known scale without corrupt rows need a copy of the rows on the host.
    contamination : float, int, Contamination or "auto"
        How many rows may be corrupt: a fraction of them, or a count; "auto" leaves it open up to `max_contamination`,
        and takes what the levels up to there agree on.
    confidence : float
        Confidence (1 - δ) of the interval.
    assume : assumption or None
        What is known of the clean rows: `FiniteVariance`, `SubGaussian`, `Bounded` (rows outside are corrupt for
        certain), `Proportion`, `FiniteKurtosis`, `Symmetric`; a sequence gives one for each column. None takes boolean
        rows for proportions and reads an sd off others: the interval is then proved for clean rows with at most this
        sd, which is printed with it (*conditional*).
    vote : {"auto", "evidence", "median", "soft", "clipped"}
        How rows become one answer. "evidence" tests each possible mean; before it rejects one, it deletes the rows most
        against it, as many as may be corrupt. It has no blocks and no seed. "median" is the median of block means, the
        paper's; "soft" and "clipped" let block means vote otherwise. "auto" is evidence; with no corrupt row and a
        known scale, the narrowest interval of fixed width; and the median where blocks are asked for by `n_blocks`,
        `partition` or `remainder`.
    n_blocks : "auto" or int
        Number of blocks (K).
    partition : {"random", "uniform", "hash", "contiguous"}
        How rows are put into blocks: see :mod:`outvote.blocks.partition`.
    axis : int or None
        Axis along which the rows run; None flattens. The other axes are estimated together.
    nan_policy : {"raise", "omit", "corrupt"}
        What rows with NaN are: an error, missing (left out), or corrupt (left out, and counted against
        `contamination`; infinities too).
    rng : int, Generator or None
        Seed of the blocks; the one that was used is in the result.
    remainder : {"drop", "spread"}, optional
        Whether the rows that K equal blocks do not take are left out, as in the paper, or spread.
    alternative : {"two-sided", "less", "greater"}
        "less" bounds the mean from above only, "greater" from below only.
    simultaneous : bool
        Whether `confidence` is for all columns at once rather than for each.
    weights : None
        Not supported: a weighted row could outvote its block.
    max_contamination : float or Contamination
        For ``contamination="auto"``: the largest share of rows that may be corrupt (and by whom).
    ratio : bool
        Whether rows are pairs (denominator, numerator), and the ratio of their means is asked for, as in `difference`.

    Returns
    -------
    RobustEstimate
        Estimate, interval, certificate and plan; block values where there are blocks.

    Raises
    ------
    ValueError
        Among others where the rows contradict `assume`: no mean fits both.

    Notes
    -----
    From 8192 rows on they are read once, and counted in bins: the interval is then up to 1 % wider, mostly next to
    nothing, and the memory beyond the rows does not grow with their number. Fewer rows are put in order.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(size=1000)
    >>> x[:10] = 1e6
    >>> print(round(x.mean()), ov.mean(x, contamination=0.01))  # doctest: +NORMALIZE_WHITESPACE
    10000 mean -0.05 ± 0.11 (95 % if the clean rows' sd is at most 1.32; allows for 10 corrupt rows). 10 of the 10
    rows that may be corrupt are 1 000 000, above 13.1, and are taken to be corrupt; if they are real, the mean is 10
    000 ± 11 000 (sd at most 134 000): declare the sd, or allow for fewer.
    >>> print(ov.mean(x, contamination=0.01, assume=ov.FiniteVariance(1.0)))
    mean -0.049 ± 0.089 (certified 95 %, allows for 10 corrupt rows)
    >>> print(ov.mean(x, contamination=0.01, assume=ov.FiniteVariance(1.0), vote="median", rng=0))
    mean 0.00 ± 0.38 (certified 95 %, 55 blocks of 18, survives 27 corrupt rows)
    """
    if weights is not None:
        raise TypeError(
            "weights are not supported: one heavy row would decide its block, and the count of corrupt rows "
            "that the blocks outvote would mean nothing. Resample rows by weight, or estimate a ratio of two means"
        )
    check_flags(simultaneous=simultaneous, ratio=ratio)
    request = Request.read(
        contamination, confidence, vote=vote, votes=VoteName, n_blocks=n_blocks, partition=partition,
        remainder=remainder, nan_policy=nan_policy, alternative=alternative, rng=rng,
        max_contamination=max_contamination,
    )  # fmt: skip
    if ratio:
        return _mean_ratio(x, assume, request, axis)
    if isinstance(x, RowSummary):
        return agree(request, [x.n_rows], mean_of_summary(x, assume, request))
    sample = read_columns(x, "x", axis, stay=partition != "hash", flatten=True)
    known = implied(sample.values, assume, x) if request.evidence else assume
    assumed = per_column(known, math.prod(sample.values.shape[1:]))
    found = agree(request, [len(sample.values)], mean_of(sample, assumed, request, simultaneous))
    return placed_like(found, x)


def _mean_ratio(x: Any, assume: Any, request: Request, axis: Any) -> RobustEstimate:
    """Estimate the ratio of the means of two columns."""
    if not request.evidence or isinstance(x, RowSummary) or axis != 0:
        raise ValueError(
            "ratio=True goes by evidence, of rows (denominator, numerator): leave out vote, n_blocks, partition, "
            "remainder and axis"
        )
    (known,) = ratio_assumptions(assume, 1)
    rows = read_ratios(x, "x", known, request.nan_policy)
    found = agree(request, [rows.n_rows], MeanByEvidence(OrderedTable.of([rows], (known,))))
    return named("ratio of means", found)


def mean_of_summary(x: RowSummary, assume: Any, request: Request) -> Callable[[Request], RobustEstimate]:
    """Return what estimates the mean of the rows of a summary, for a known contamination."""
    if not request.evidence:
        raise ValueError("a RowSummary goes by evidence: leave out vote, n_blocks, partition and remainder")
    (known,) = per_column(assume, 1)
    return mean_of_summaries([x], (known,))


def mean_of_summaries(
    columns: Sequence[RowSummary],
    assumed: Assumed,
    shape: tuple[int, ...] = (),
    names: tuple[str, ...] | None = None,
    parts: int = 1,
) -> Callable[[Request], RobustEstimate]:
    """Return what estimates the mean of each column, given summaries; `parts` results share the confidence."""
    ordered = [x.ordered(assume) for x, assume in zip(columns, assumed, strict=True)]
    return MeanByEvidence(OrderedTable.of(ordered, assumed, shape, names), parts)


def mean_of(
    sample: Rows, assumed: Assumed, request: Request, simultaneous: bool = False
) -> Callable[[Request], RobustEstimate]:
    """Return what estimates the mean of each column of rows that have been read, for a known contamination.

    What does not depend on the contamination is done once.
    """
    parts = len(assumed) if simultaneous else 1
    if request.evidence:
        ordered = OrderedTable.of_sample(sample, assumed, request.nan_policy)
        return MeanByEvidence(ordered, parts)
    if any(isinstance(assume, Symmetric) for assume in distinct(assumed)):
        raise ValueError(SYMMETRIC_ONLY)
    return lambda one: mean_by_blocks(sample, assumed, one.with_blocks(), one.terms.shared(parts))


def vote_of_blocks(
    x: ArrayLike, contamination: Allowed | Literal["auto"], confidence: float, *, assume: Any = None, **settings: Any
) -> RobustEstimate:
    """Estimate a mean by blocks only: "auto" takes their vote with the smallest radius."""
    request = Request.read(contamination, confidence, **settings)
    sample, known = read_columns(x, "x", 0), per_column(assume, 1)
    return agree(request, [len(sample.values)], lambda one: mean_by_blocks(sample, known, one, one.terms))


def mean_by_blocks(sample: Rows, assumed: Assumed, request: Request, terms: Terms) -> RobustEstimate:
    """Estimate the mean of each column by a vote of blocks; "auto" takes the vote with the smallest radius."""
    if request.partition == "hash":
        return _mean_by_hash(sample, assumed, request, terms)
    rows, n_bad = sample.values, 0
    if request.nan_policy != "raise":  # else the sums of the blocks show NaN and infinities
        screened = request.screen([rows], ["x"])
        (rows,), (n_bad,) = screened.rows, screened.bad
    voted, detail = vote_on_rows(rows, assumed, request, terms, "x", n_bad)
    return conclude(
        request,
        voted.centre,
        voted.certificate,
        voted.plan,
        voted.values,
        [voted.sizes],
        shape=rows.shape[1:],
        assumed=assumed,
        statistic="mean",
        names=sample.names,
        n_omitted=n_bad,
        detail=detail,
    )


def vote_on_rows(
    rows: NDArray[Any], assumed: Assumed, request: Request, terms: Terms, name: str, n_bad: int = 0, sample: int = 0
) -> tuple[Voted, str]:
    """Deal the rows of a sample into blocks and let the block means vote; also return anything else worth knowing.

    The NaN policy has been applied to the rows, and found `n_bad` of them.
    """
    plan = request.plan_mean(len(rows), assumed, terms, sample)
    rows, detail = within_bounds(rows, plan.n_corrupt - request.found_corrupt(n_bad), assumed, name)
    plan, drawn = deal_mean(request, plan, stream=sample)
    values = block_means(rows, drawn)
    spread = SpreadOfRows(rows, drawn, plan.n_corrupt, request.seed + sample)
    part = Part(values.reshape(len(values), -1).T)
    return Voted(plan, drawn.sizes, values, *let_vote(plan, [drawn.sizes], [part], assumed, terms, spread)), detail


def _mean_by_hash(sample: Rows, assumed: Assumed, request: Request, terms: Terms) -> RobustEstimate:
    """Estimate by the partition that every engine shares, through the summary that every engine computes."""
    rows, n_rows = sample.values, len(sample.values)
    if request.nan_policy == "omit":
        n_rows -= int(np.isnan(rows.reshape(n_rows, -1)).any(axis=1).sum())
        check_rows(n_rows, "x without its rows with NaN")
    plan = request.plan_mean(n_rows, assumed, terms)
    summary = BlockSummary(plan.n_blocks, request.seed)
    summary.names = sample.names
    try:
        summary.update(rows, nan_policy=request.nan_policy)
    except ValueError:
        screen(rows, request.nan_policy, 0, "x")  # the same, by the name that the user gave
        raise
    if (outside := rows_outside(rows, assumed)) is not None:
        allowed = plan.n_corrupt - summary.n_found_corrupt
        check_certain(int(outside.sum()), allowed, n_rows, beyond_bounds("x", assumed))
    return conclude_summary(summary, request, plan, assumed, terms)
