"""The paper's votes on any engine: a hash of the row id deals the rows to blocks, which the engine sums up."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from outvote.blocks.plan import BlockPlan
from outvote.data.arguments import per_sample
from outvote.data.missing import ContradictionError
from outvote.estimate.block_values import voters
from outvote.estimate.difference_by_blocks import subtract
from outvote.estimate.request import Assumed, Request, per_column
from outvote.estimate.result import RobustEstimate
from outvote.estimate.scales import SpreadOfValues
from outvote.estimate.summary import BlockSummary, conclude_summary, vote_on_summary
from outvote.estimate.voting import Part, conclude
from outvote.estimate.voting import vote as let_vote
from outvote.kernels import Kernel
from outvote.tables.counted import counted
from outvote.tables.engine import ANSWER, Engine, Key, Query, Tally
from outvote.tables.evidence import table_of
from outvote.tables.gathered import sortable
from outvote.tables.labels import two_labels
from outvote.tables.plans import check_found, completed, plan_for, plans_of, usable
from outvote.votes import Terms

#: The number of blocks of each group, or why it has none, and the sums of its blocks.
Summed = tuple[dict[Key, Tally], dict[Key, BlockPlan | str], dict[Key, BlockSummary]]


def mean_by_blocks(
    engine: Engine, query: Query, request: Request, assumed: Assumed, *, one: bool, simultaneous: bool
) -> Any:
    """Estimate the mean of each column by a vote of blocks: one answer, or a table with a line for each group."""
    terms = request.terms.shared(len(assumed) if simultaneous else 1)
    tallies, plans, summaries = _summed(engine, query, request, assumed, terms)
    found: dict[Key, RobustEstimate | str] = {}
    for key, plan in plans.items():
        if isinstance(plan, str):
            found[key] = plan
            continue
        summary = completed(summaries[key], tallies[key], request)
        summary.shape = () if one else (len(query.columns),)
        summary.names = None if one else query.columns
        try:
            found[key] = conclude_summary(summary, request, plan, assumed, terms, _hash_note(engine).strip())
        except ContradictionError as error:
            if not query.by:
                raise
            found[key] = str(error)
    if not query.by:
        answer = found[()]
        assert isinstance(answer, RobustEstimate)
        return answer
    lines = {}
    for key in sorted(found, key=sortable):
        n_rows = usable(tallies[key], request)
        each = enumerate((None,) if one else query.columns)
        lines[key] = [(*(() if one else (name,)), *_line(found[key], n_rows, j)) for j, name in each]
    return table_of(engine, query, lines, ANSWER, one)


def difference_by_blocks(
    engine: Engine, query: Query, labels: tuple[Any, Any], request: Request, assume: Any, *, relative: bool
) -> RobustEstimate:
    """Estimate mean(b) - mean(a) of a column by votes of blocks."""
    (by,) = query.by
    known = [per_column(one, 1) for one in per_sample("assume", assume, 2)]
    terms = request.terms.shared(2)
    terms = replace(terms, alternative="two-sided") if relative else terms
    tallies = counted(engine, query, request)
    a, b = two_labels(tallies, by, *labels)
    sizes = [usable(tallies[label], request) for label in (a, b)]
    for label, size in zip((a, b), sizes, strict=True):
        if size == 0:
            raise ValueError(f"{by}={label!r} has no usable rows: at least one row is needed")
    request.allowed.counts(sizes)
    plans = [plan_for(request, size, one, terms, s) for s, (size, one) in enumerate(zip(sizes, known, strict=True))]
    blocks = {label: plan.n_blocks for label, plan in zip((a, b), plans, strict=True)}
    found = engine.summaries(query, blocks, request.seed)
    voted, n_out = [], 0
    for label, plan, one in zip((a, b), plans, known, strict=True):
        summary = completed(found[label], tallies[label], request)
        summary.shape = (1,)
        voted.append(vote_on_summary(summary, plan, one, terms))
        n_out += summary.n_omitted + summary.n_found_corrupt
    names = f"a is {by} = {a!r}, b is {by} = {b!r}."
    return subtract(request, voted, relative=relative, n_omitted=n_out, detail=names + _hash_note(engine))


def u_statistic_by_blocks(
    engine: Engine, query: Query, kernel: Kernel, request: Request, assumed: Assumed, *, vectors: bool
) -> RobustEstimate:
    """Estimate a U-statistic of one sample; the rows are brought together one block at a time."""
    terms = request.terms.about(assumed[0], kernel.degrees)
    tally = counted(engine, query, request)[()]
    n_rows = usable(tally, request)
    kernel.check([np.broadcast_to(0.0, (n_rows, len(query.columns)) if vectors else (n_rows,))])
    plan = request.plan((n_rows,), terms)
    assert isinstance(plan, BlockPlan)
    check_found(tally, request, plan.n_corrupt, plan.n_rows)
    sizes, values = _block_values(engine, query, kernel, plan.n_blocks, request.seed, vectors=vectors)
    keep = sizes >= plan.degree
    plan = voters(plan, sizes, keep)
    sizes, values = sizes[keep], values[keep]
    centres, certificate = let_vote(plan, [sizes], [Part(values[None])], assumed, terms, SpreadOfValues())
    return conclude(
        request,
        centres,
        certificate,
        plan,
        values,
        [sizes],
        assumed=assumed,
        statistic=kernel.name,
        n_omitted=tally.n_missing + tally.n_infinite,
        detail=_hash_note(engine).strip(),
    )


def _block_values(
    engine: Engine, query: Query, kernel: Kernel, n_blocks: int, seed: int, *, vectors: bool
) -> tuple[Any, Any]:
    """Return the number of rows and the kernel's value of each block; the value is NaN if it has too few rows."""
    sizes, values = np.zeros(n_blocks, dtype=np.int64), np.full(n_blocks, np.nan)
    if kernel.moment_form is not None:
        summary = engine.summaries(query, {(): n_blocks}, seed)[()]
        sizes[:] = summary.counts
        return sizes, kernel.moment_form(sizes, summary.m2.reshape(-1))
    for _, block, rows in engine.blocks(query, {(): n_blocks}, seed):
        sizes[block] = len(rows)
        stack = rows if vectors else rows[:, 0]
        if len(rows) >= kernel.degrees[0]:
            values[block] = kernel.fit([stack]).aligned(stack[None])[0]
    return sizes, values


def _summed(engine: Engine, query: Query, request: Request, assumed: Assumed, terms: Terms) -> Summed:
    """Count the rows, choose the blocks, and sum them up; the count is skipped if the number of rows is known."""
    n_rows = None if query.by else engine.n_rows()
    if n_rows:
        with suppress(ValueError):  # errors are raised after the count
            found = _summed_as(engine, {(): Tally(n_rows, 0, 0)}, query, request, assumed, terms)
            if found[2][()].n_rows == n_rows:  # else some rows are not finite
                return found
    return _summed_as(engine, counted(engine, query, request), query, request, assumed, terms)


def _summed_as(
    engine: Engine, tallies: dict[Key, Tally], query: Query, request: Request, assumed: Assumed, terms: Terms
) -> Summed:
    plans = plans_of(tallies, request, assumed, terms, must=not query.by)
    blocks: Mapping[Key, int] = {key: plan.n_blocks for key, plan in plans.items() if isinstance(plan, BlockPlan)}
    return tallies, plans, engine.summaries(query, blocks, request.seed) if blocks else {}


def _hash_note(engine: Engine) -> str:
    return "" if engine.hashed == "portable" else f" The blocks are those of the {engine.hashed} hash."


def _line(found: RobustEstimate | str, n_rows: int, j: int) -> tuple[Any, ...]:
    """Return the cells for one column of one group, in the order of the heads."""
    if isinstance(found, str):
        return (None, None, None, None, "none", n_rows, 0, 0, found)
    numbers = (float(np.ravel(v)[j]) for v in np.broadcast_arrays(found.estimate, *found.interval, found.radius))
    note = found.certificate.note if found.certificate.provenance == "none" else ""
    plan = found.plan
    assert isinstance(plan, BlockPlan)
    return (*numbers, found.certificate.provenance, plan.n_rows, plan.n_blocks, plan.withstands, note)
