"""Estimate a mean by the vote of the blocks of a summary."""

from __future__ import annotations

from typing import Any, Protocol

from outvote.blocks.plan import BlockPlan
from outvote.data.missing import check_certain
from outvote.estimate.block_values import voters
from outvote.estimate.request import Assumed, Request
from outvote.estimate.result import RobustEstimate
from outvote.estimate.scales import SpreadOfBlocks
from outvote.estimate.summary.moments import Moments
from outvote.estimate.voting import Part, Voted, conclude, vote
from outvote.votes import Terms


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
    spread = SpreadOfBlocks(voting.counts, voting.means, voting.m2)
    found = vote(plan, [voting.counts], [Part(voting.means.T)], assumed, terms, spread)
    return Voted(plan, voting.counts, voting.means.reshape(-1, *(summary.shape or ())), *found)


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
