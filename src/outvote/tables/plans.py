"""How the rows of each group go into blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from outvote.blocks.plan import BlockPlan
from outvote.data.missing import check_certain
from outvote.estimate.request import Assumed, Request
from outvote.estimate.summary import BlockSummary
from outvote.tables.engine import Key, Tally
from outvote.votes import Terms

#: The largest number of blocks that is chosen, because several copies of their sums must fit into memory.
MOST_BLOCKS = 1_000_001


def plans_of(
    tallies: Mapping[Key, Tally], request: Request, assumed: Assumed, terms: Terms, *, must: bool
) -> dict[Key, BlockPlan | str]:
    """Return the plan of each group, or the reason why it has none, which is an error if `must`."""
    known: dict[tuple[int, int], BlockPlan | str] = {}
    plans = {}
    if isinstance(request.allowed.amount, tuple):
        request.allowed.count(1)  # raises: a mean has one sample, and so has each group
    for key, tally in tallies.items():
        n_rows, found = usable(tally, request), request.found_corrupt(tally.n_missing + tally.n_infinite)
        if (n_rows, found) not in known:
            try:
                known[n_rows, found] = plan_of_group(request, tally, assumed, terms)
            except ValueError as error:
                if must:
                    raise
                known[n_rows, found] = str(error)
        plans[key] = known[n_rows, found]
    return plans


def plan_of_group(request: Request, tally: Tally, assumed: Assumed, terms: Terms) -> BlockPlan:
    n_rows = usable(tally, request)
    if n_rows == 0:
        raise ValueError("no usable rows")
    check_found(tally, request, request.allowed.count(n_rows), n_rows)
    return plan_for(request, n_rows, assumed, terms)


def plan_for(request: Request, n_rows: int, assumed: Assumed, terms: Terms, sample: int = 0) -> BlockPlan:
    plan = request.plan_mean(n_rows, assumed, terms, sample)
    if request.n_blocks[sample] is None and plan.n_blocks > MOST_BLOCKS:
        few = replace(request, n_blocks=(MOST_BLOCKS,) * len(request.n_blocks))
        plan = few.plan_mean(n_rows, assumed, terms, sample)
    return plan


def usable(tally: Tally, request: Request) -> int:
    """Return the number of usable rows: corrupt rows are included, missing rows are not."""
    return tally.n_rows - (tally.n_missing if request.nan_policy == "omit" else 0)


def check_found(tally: Tally, request: Request, n_corrupt: int, n_rows: int) -> None:
    found = request.found_corrupt(tally.n_missing + tally.n_infinite)
    check_certain(found, n_corrupt, n_rows, "there are NULL, NaN or infinite values")


def completed(summary: BlockSummary, tally: Tally, request: Request) -> BlockSummary:
    """Return a summary of finite rows, with the number of other rows added."""
    n_bad = tally.n_missing + tally.n_infinite
    if summary.n_rows != tally.n_rows - n_bad:
        raise RuntimeError(
            f"{tally.n_rows - n_bad} rows were counted, but {summary.n_rows} summed up: did the data change meanwhile?"
        )
    if request.nan_policy == "corrupt":
        summary.n_found_corrupt = n_bad
    else:
        summary.n_omitted = n_bad
    return summary
