"""Estimate a mean by the vote of the blocks of a summary."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from outvote.assumptions import Bounded, Proportion
from outvote.blocks.plan import BlockPlan
from outvote.data.missing import ContradictionError, check_certain
from outvote.estimate.block_values import voters
from outvote.estimate.request import Assumed, Request, bounds_of, distinct
from outvote.estimate.result import RobustEstimate
from outvote.estimate.scales import SpreadOfBlocks
from outvote.estimate.summary.moments import Moments
from outvote.estimate.voting import Part, Voted, conclude, vote
from outvote.votes import Terms

#: Averages of n numbers are wrong by less than this times n times the largest of them.
_ROUNDING = 2.0**-50
#: Squares of numbers above this are floats without loss.
_SQUARED = 1e-140


class Summed(Protocol):
    """The attributes of a summary that a vote needs."""

    names: tuple[str, ...] | None
    shape: tuple[int, ...] | None
    moments: Moments
    n_found_corrupt: int
    n_omitted: int


def vote_on_summary(summary: Summed, plan: BlockPlan, assumed: Assumed, terms: Terms) -> Voted:
    """Return the vote of the blocks according to the plan; blocks without rows do not vote."""
    check_certain(summary.n_found_corrupt, plan.n_corrupt, plan.n_rows, "there are NaN or infinite values")
    counts = summary.moments.counts
    keep = counts > 0
    plan, voting = voters(plan, counts, keep), summary.moments.take(keep)
    _refuse_rows_outside(voting, assumed, plan.n_corrupt - summary.n_found_corrupt)
    spread = SpreadOfBlocks(voting.counts, voting.means, voting.m2)
    found = vote(plan, [voting.counts], [Part(voting.means.T)], assumed, terms, spread)
    return Voted(plan, voting.counts, voting.means.reshape(-1, *(summary.shape or ())), *found)


def _refuse_rows_outside(blocks: Moments, assumed: Assumed, allowed: int) -> None:
    """Refuse bounds if more blocks hold rows outside of them than rows may be corrupt.

    Of n rows in [a, b] with mean μ the squares around the mean add up to (b-μ)(μ-a)·n at most (Bhatia and Davis): a
    block with more than that holds a row outside. Of zeros and ones they add up to exactly that.
    """
    kinds = [one for one in distinct(assumed) if isinstance(one, Bounded)]
    if not kinds:
        return
    low, high = bounds_of(assumed)
    counts, width = blocks.counts[:, None], max(one.width for one in kinds)
    size = max(max(abs(one.low), abs(one.high)) for one in kinds)
    rounding = 1e-9 * width + _ROUNDING * counts * size  # sums are rounded once for each row at most
    with np.errstate(over="ignore", invalid="ignore"):
        above, below = high + rounding - blocks.means, blocks.means - low + rounding
        outside = np.minimum(above, below) < 0
        if width > _SQUARED:
            outside |= blocks.m2 > above * below * counts * (1 + 1e-9)
        exact = [isinstance(one, Proportion) for one in assumed]
        outside |= (blocks.m2 < counts * (blocks.means * (1 - blocks.means) - 1e-9)) & exact
    if (most := int(outside.sum(axis=0).max(initial=0))) > allowed:
        raise ContradictionError(
            f"the rows contradict assume={kinds[0]!r}: {most} of {len(outside)} blocks hold rows outside these "
            f"bounds, but at most {allowed} rows may be corrupt: assume wider bounds, or allow for more corrupt rows"
        )


def conclude_summary(
    summary: Any, request: Request, plan: BlockPlan, assumed: Assumed, terms: Terms, detail: str = ""
) -> RobustEstimate:
    """Return the estimate from the vote of a summary's blocks."""
    voted, shape = vote_on_summary(summary, plan, assumed, terms), summary.shape or ()
    return conclude(
        request,
        voted.centre,
        voted.certificate,
        voted.plan,
        voted.values,
        [voted.sizes],
        shape=shape,
        assumed=assumed,
        statistic="mean",
        names=summary.names if shape else None,
        n_omitted=summary.n_omitted + summary.n_found_corrupt,
        detail=detail,
    )
