"""Robust means."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.blocks.partition import PartitionKind, Remainder, Rng
from outvote.contamination import Contamination
from outvote.data.missing import NanPolicy, check_rows
from outvote.data.rows import Rows, read_columns
from outvote.estimate.block_values import block_means, deal_mean, within_bounds
from outvote.estimate.levels import agree
from outvote.estimate.request import Allowed, Assumed, NBlocks, Request, per_column
from outvote.estimate.result import RobustEstimate, placed_like
from outvote.estimate.scales import SpreadOfRows
from outvote.estimate.summary import BlockSummary, conclude_summary
from outvote.estimate.voting import Part, Voted, conclude
from outvote.estimate.voting import vote as let_vote
from outvote.votes import Alternative, Terms


def mean(
    x: ArrayLike,
    contamination: Allowed | Literal["auto"] = 0.01,
    confidence: float = 0.95,
    assume: Any = None,
    vote: str = "median",
    n_blocks: NBlocks = "auto",
    partition: PartitionKind = "random",
    axis: int | None = 0,
    nan_policy: NanPolicy = "raise",
    rng: Rng = None,
    *,
    remainder: Remainder = "drop",
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
    weights: None = None,
    max_contamination: float | Contamination = 0.1,
) -> RobustEstimate:
    """Estimate a mean by the median of block means (MoM).

    Parameters
    ----------
    x : array-like, Series, DataFrame or torch tensor
        The rows. It is not modified. A tensor stays on its device, and so do the block values.
    contamination : float, int, Contamination or "auto"
        How many rows may be corrupt: a fraction of them, or a count; "auto" leaves it open up to `max_contamination`,
        and takes what the levels up to there agree on.
    confidence : float
        Confidence (1 - δ) of the interval.
    assume : assumption or None
        What is known of the clean rows: `FiniteVariance`, `SubGaussian`, `Bounded` (rows outside are corrupt
        for certain), `FiniteKurtosis`; a sequence gives one for each column. None estimates a scale from the rows, and
        the radius is then a *plug-in*, not certified.
    vote : {"median", "soft", "clipped", "auto"}
        How the block means become one: their median (the paper), a soft or a clipped vote (two to three times tighter
        when `assume` names a scale), or whichever has the smallest certified radius.
    n_blocks : "auto" or int
        Number of blocks (K).
    partition : {"random", "uniform", "hash", "contiguous"}
        How rows are dealt into blocks: see :mod:`outvote.blocks.partition`.
    axis : int or None
        Axis along which the rows run; None flattens. The other axes are estimated together, on the same blocks.
    nan_policy : {"raise", "omit", "corrupt"}
        What rows with NaN are: an error, missing (left out), or corrupt (left out, and counted against
        `contamination`; infinities too).
    rng : int, Generator or None
        Seed; the one that was used is in the result.
    remainder : {"drop", "spread"}
        Whether the rows that K equal blocks do not take are left out, as in the paper, or spread.
    alternative : {"two-sided", "less", "greater"}
        "less" bounds the mean from above only, "greater" from below only.
    simultaneous : bool
        Whether `confidence` is for all columns at once rather than for each.
    weights : None
        Not supported: a weighted row could outvote its block.
    max_contamination : float or Contamination
        For ``contamination="auto"``: the largest share of rows that may be corrupt (and by whom).

    Returns
    -------
    RobustEstimate
        Estimate, interval, certificate, plan and block values.

    Notes
    -----
    Peak memory beyond the rows: O(K), below 2 % of them, where rows are dealt in one pass (more than 2²⁰ values in
    blocks of at least 64 rows, 256 for a median) or stay in place; else O(n): 16 bytes a row for their numbers, 40 for
    a hash, and 16 more where every row votes.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(size=1000)
    >>> x[:10] = 1e6
    >>> print(round(x.mean()), ov.mean(x, contamination=0.01, assume=ov.FiniteVariance(1.0), rng=0))
    10000 mean 0.00 ± 0.38 (certified 95 %, 55 blocks of 18, survives 27 corrupt rows)
    """
    if weights is not None:
        raise TypeError(
            "weights are not supported: one heavy row would decide its block, and the count of corrupt rows "
            "that the blocks outvote would mean nothing. Resample rows by weight, or estimate a ratio of two means"
        )
    request = Request.read(
        contamination, confidence, vote=vote, n_blocks=n_blocks, partition=partition, remainder=remainder,
        nan_policy=nan_policy, alternative=alternative, rng=rng, max_contamination=max_contamination,
    )  # fmt: skip
    sample = read_columns(x, "x", axis, stay=partition != "hash", flatten=True)
    assumed = per_column(assume, math.prod(sample.values.shape[1:]))
    found = agree(request, [len(sample.values)], lambda one: mean_of(sample, assumed, one, simultaneous))
    return placed_like(found, x)


def mean_of(sample: Rows, assumed: Assumed, request: Request, simultaneous: bool = False) -> RobustEstimate:
    """Estimate the mean of each column of rows that have been read, for a known contamination."""
    terms = request.terms.shared(len(assumed) if simultaneous else 1)
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
    plan, dealt = deal_mean(request, plan, stream=sample)
    values = block_means(rows, dealt)
    spread = SpreadOfRows(rows, dealt, plan.n_corrupt, request.seed + sample)
    part = Part(values.reshape(len(values), -1).T)
    return Voted(plan, dealt.sizes, values, *let_vote(plan, [dealt.sizes], [part], assumed, terms, spread)), detail


def _mean_by_hash(sample: Rows, assumed: Assumed, request: Request, terms: Terms) -> RobustEstimate:
    """Estimate by the partition that every engine shares, through the summary that every engine computes."""
    rows, n_rows = sample.values, len(sample.values)
    if request.nan_policy == "omit":
        n_rows -= int(np.isnan(rows.reshape(n_rows, -1)).any(axis=1).sum())
        check_rows(n_rows, "x without its rows with NaN")
    plan = request.plan_mean(n_rows, assumed, terms)
    summary = BlockSummary(plan.n_blocks, request.seed)
    summary.names = sample.names
    return conclude_summary(summary.update(rows, nan_policy=request.nan_policy), request, plan, assumed, terms)
