"""Evidence on any engine: gather rows or summaries of each group, and answer from these."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Proportion
from outvote.data.progress import watched
from outvote.data.rows import Rows
from outvote.estimate.levels import agree
from outvote.estimate.mean import mean_of, mean_of_summaries
from outvote.estimate.ordered import MANY_ROWS
from outvote.estimate.premise import Gross
from outvote.estimate.remarks import remark_on_gross
from outvote.estimate.request import Assumed, Request
from outvote.estimate.result import RobustEstimate
from outvote.estimate.summary import RowSummary
from outvote.tables.engine import BY_GROUP, Engine, Key, Query, Tally
from outvote.tables.gathered import Floats, Groups, Sizes, completed, grids_of, sortable
from outvote.votes import Terms
from outvote.votes.evidence import EvidenceInterval, Grid, GroupPremises, premises_of_groups

#: The columns of an answer by group, beside the keys, and what they hold; "column" where there are several.
MEAN_ANSWER: dict[str, type] = {"column": str, **BY_GROUP, "premise_sd": float, "note": str}


#: Columns, keys, and which rows are kept; None for all.
Columns = tuple[list[Floats], list[NDArray[Any]], NDArray[np.bool_] | None]


def usable_columns(
    given: tuple[list[Floats], list[NDArray[Any]]], nan_policy: str, *, infinite: bool
) -> Columns | None:
    """Apply the NaN policy to columns; None if it refuses rows. A row is used if it has a number in each column."""
    values, keys = given
    finite = np.logical_and.reduce([~np.isnan(one) if infinite else np.isfinite(one) for one in values])
    if finite.all():
        return values, keys, None
    infinite_too = not infinite and any(np.isinf(one).any() for one in values)
    if nan_policy == "raise" or (nan_policy == "omit" and infinite_too):
        return None
    if nan_policy == "omit":
        return values, keys, finite
    return [np.where(finite, one, math.nan) for one in values], keys, None


@dataclass(frozen=True)
class Gathered:
    """What an engine has gathered of each group: its rows, or a summary for each column.

    Attributes
    ----------
    groups : Groups
        The rows of groups that are small.
    summaries : dict of list of RowSummary
        Those of the others.
    """

    groups: Groups
    summaries: dict[Key, list[RowSummary]]

    @property
    def labels(self) -> list[Key]:
        """All labels, in order."""
        return sorted([*self.groups.labels, *self.summaries], key=sortable)

    def sample(self, key: Key, j: int = 0) -> Floats | RowSummary:
        """Return the rows of a group in one column, or their summary."""
        if key in self.summaries:
            return self.summaries[key][j]
        return self.groups.group(self.groups.labels.index(key), j)


def gather(
    engine: Engine,
    query: Query,
    tallies: Mapping[Key, Tally],
    request: Request,
    fixed: Sequence[Grid | None],
    labels: Sequence[Key] | None = None,
) -> Iterator[Gathered]:
    """Let an engine gather what evidence needs of all groups, or of some, as many at a time as memory holds easily.

    Bins may be fixed before rows are seen.
    """
    bad = {key: one.n_missing + (0 if query.infinite else one.n_infinite) for key, one in tallies.items()}
    finite = {key: tallies[key].n_rows - bad[key] for key in sorted(labels or tallies, key=sortable)}
    sizes = Sizes(finite, []) if engine.in_memory else Sizes.of(finite, len(query.columns))
    omit = request.nan_policy == "omit"
    for some in sizes.portions(len(query.columns)):
        groups = Groups([], [], np.zeros(1, dtype=np.int64))
        if some.small:
            groups = engine.kept(query, some.small, omit=omit)
        found = list[list[RowSummary]]()
        if some.large and all(grid is not None for grid in fixed):
            grids = [grids_of(np.empty((0, 0)), fixed)] * len(some.large)
            found = engine.row_summaries(query, some.large, grids)
        elif some.large:
            grids = [grids_of(pilot, fixed) for pilot in engine.pilots(query, some)]
            found = engine.row_summaries(query, some.large, grids)
        pairs = zip(some.large, found, strict=True)
        yield Gathered(
            groups, {key: [completed(one, finite[key], bad[key], request) for one in several] for key, several in pairs}
        )


def in_memory(engine: Any, query: Query, nan_policy: str) -> tuple[Gathered, int] | None:
    """Return all rows of a frame in memory, and how many were left out; None if the NaN policy refuses some."""
    columns = usable_columns(engine.columns(query), nan_policy, infinite=query.infinite)
    if columns is None:
        return None
    values, keys, keep = columns
    if query.by:
        groups = Groups.of(values, keys, keep)
        return Gathered(groups, {}), len(values[0]) - int(groups.starts[-1])
    rows = values if keep is None else [column[keep] for column in values]
    ends = np.array([0, len(rows[0])])
    return Gathered(Groups([()], rows, ends), {}), len(values[0]) - len(rows[0])


def bins_for(assumed: Assumed) -> list[Grid | None]:
    """Return the bins that are fixed by what is declared of each column: those of 0 and 1 for proportions."""
    return [Grid(0.0, 1.0) if isinstance(assume, Proportion) else None for assume in assumed]


def mean_of_all(
    query: Query, found: Gathered, request: Request, assumed: Assumed, *, one: bool, simultaneous: bool
) -> RobustEstimate:
    """Estimate the mean of each column of all rows."""
    if () in found.summaries:
        columns, parts = found.summaries[()], len(assumed) if simultaneous else 1
        shape, names = ((), None) if one else ((len(assumed),), query.columns)
        return agree(request, [columns[0].n_rows], mean_of_summaries(columns, assumed, shape, names, parts))
    rows = found.groups.rows
    if not len(rows[0]):
        named = ", ".join(map(repr, query.columns))
        raise ValueError(f"column {named} has no usable rows: at least one row is needed")
    sample = Rows(rows[0], None) if one else Rows(np.column_stack(rows), query.columns)
    return agree(request, [len(rows[0])], mean_of(sample, assumed, request, simultaneous))


def mean_by_group(
    engine: Engine,
    query: Query,
    portions: Iterable[Gathered],
    request: Request,
    assumed: Assumed,
    *,
    one: bool,
    simultaneous: bool,
) -> Any:
    """Return a table of the means of each group and column."""
    if request.contamination is None:
        raise ValueError("contamination='auto' has one answer, but not one for each group: give a fraction or a count")
    request.allowed.count(10**6)  # raises for a pair: a mean has one sample, and so has each group
    terms = request.terms.shared(len(assumed) if simultaneous else 1)
    lines: dict[Key, Sequence[tuple[Any, ...]]] = {}
    for found in portions:
        groups = found.groups
        mine = dict(zip(groups.labels, lines_of_groups(groups, query.columns, request, assumed, terms), strict=True))
        with watched(list(found.summaries), "groups") as keys:
            for key in keys:
                mine[key] = tuple(
                    (name, *_line_of_summary(summary, assume, request, terms))
                    for name, summary, assume in zip(query.columns, found.summaries[key], assumed, strict=True)
                )
        lines |= {key: [line[one:] for line in mine[key]] for key in (found.labels if found.summaries else mine)}
    return table_of(engine, query, lines, MEAN_ANSWER, one)


def table_of(
    engine: Engine, query: Query, lines: Mapping[Key, Sequence[Sequence[Any]]], answer: Mapping[str, type], one: bool
) -> Any:
    """Return a table of the kind the data came in: the lines of each group, with its keys."""
    several = len(query.by) > 1
    labels = [(key if several else (key,), len(own)) for key, own in lines.items()]
    table = {name: [key[i] for key, times in labels for _ in range(times)] for i, name in enumerate(query.by)}  # type: ignore[index]
    flat = [line for own in lines.values() for line in own]
    heads = list(answer)[one:]
    return engine.frame(table | {head: [line[i] for line in flat] for i, head in enumerate(heads)}, answer)


def _line_of_summary(summary: RowSummary, assume: Assumption | None, request: Request, terms: Terms) -> tuple[Any, ...]:
    """Return what the answer has of one group and column, without the name of the column."""
    try:
        one = mean_of_summaries([summary], (assume,))(replace(request, terms=terms))
    except ValueError as error:
        return None, None, None, summary.n_rows, 0, "none", None, str(error)
    estimate, low, high, sd = (None if math.isnan(number) else number for number in _numbers(one))
    kind = one.certificate.provenance
    return estimate, low, high, one.plan.n_rows, one.plan.n_corrupt, kind, sd, _note(one)


def _note(one: RobustEstimate) -> str:
    """Return what the note of a line says of a result."""
    return one.certificate.note if one.certificate.provenance == "none" else " ".join(one.remarks)


def lines_of_groups(
    groups: Groups, names: tuple[str, ...], request: Request, assumed: Assumed, terms: Terms
) -> list[tuple[tuple[Any, ...], ...]]:
    """Return the lines of the answer, one for each column, of each group whose rows are here."""
    if not groups.labels:
        return []
    each = [_column(groups, j, name, request, assumed[j], terms) for j, name in enumerate(names)]
    return list(zip(*(zip(*one, strict=True) for one in each), strict=True))


def _column(
    groups: Groups, j: int, name: str, request: Request, assume: Assumption | None, terms: Terms
) -> list[list[Any]]:
    """Return what the answer has of one column: a list for each of its heads."""
    values, n_groups = groups.rows[j], len(groups.labels)
    sizes = np.diff(groups.starts)
    corrupt, notes = _allowed(sizes, request)
    numbers = np.full((4, n_groups), math.nan)
    if assume is None and terms.alternative == "two-sided" and terms.adversary == "oblivious":
        finite = _all_finite(values, groups.starts)
        small = np.flatnonzero(finite & (sizes > 0) & (sizes < MANY_ROWS) & (corrupt >= 0))
        found = _small_groups(groups, j, small, corrupt[small], terms)
        numbers[:, small] = found.estimate, found.low, found.high, found.sd
        for g, text in _remarks(groups, j, small, corrupt, found, terms).items():
            notes[g] = text
            if not text:  # too extreme for what is done for many at once
                numbers[:, g] = math.nan
    kinds = np.where(np.isnan(numbers[1]), "", "conditional").astype(object)
    kinds[corrupt < 0] = "none"
    usable = sizes.copy()
    with watched(np.flatnonzero(kinds == "").tolist(), "groups") as several:
        for g in several:
            part = values[groups.starts[g] : groups.starts[g + 1]]
            try:
                one = mean_of(Rows(part, None), (assume,), request)(replace(request, terms=terms))
            except ValueError as error:
                kinds[g], notes[g], corrupt[g] = "none", str(error), 0
                continue
            numbers[:, g] = _numbers(one)
            kinds[g], usable[g], corrupt[g] = one.certificate.provenance, one.plan.n_rows, one.plan.n_corrupt
            notes[g] = _note(one)
    lists = [[None if math.isnan(value) else value for value in line] for line in numbers.tolist()]
    return [
        [name] * n_groups, *lists[:3], usable.tolist(), np.maximum(corrupt, 0).tolist(), kinds.tolist(), lists[3],
        notes,
    ]  # fmt: skip


def _all_finite(values: Floats, starts: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which groups have finite rows only."""
    finite = np.isfinite(values)
    if finite.all():
        return np.ones(len(starts) - 1, dtype=bool)
    bad = np.concatenate([[0], np.cumsum(~finite)])
    return bad[starts[1:]] == bad[starts[:-1]]


def _small_groups(
    groups: Groups,
    j: int,
    which: NDArray[np.intp],
    corrupt: NDArray[np.int64],
    terms: Terms,
    *,
    screened: bool = True,
) -> GroupPremises:
    """Return what is read off some groups in one column, of which so many rows may be corrupt."""
    values, starts = groups.rows[j], groups.starts
    if len(which) < len(starts) - 1:
        sizes = np.diff(starts)[which]
        begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        at = np.repeat(starts[:-1][which] - begin[:-1], sizes) + np.arange(begin[-1])
        values, starts = values[at], begin
    return premises_of_groups(values, starts, corrupt, terms, groups.threads, screened=screened)


def _remarks(
    groups: Groups,
    j: int,
    which: NDArray[np.intp],
    corrupt: NDArray[np.int64],
    found: GroupPremises,
    terms: Terms,
) -> dict[int, str]:
    """Return for the groups that have them which rows are taken to be corrupt, and what comes out if they are real.

    "" where the latter must be looked at by itself.
    """
    gross = {int(g): one for i, g in enumerate(which) if found.sd[i] > 0 and (one := Gross.of(found.read, i))}
    if not gross:
        return {}
    some = np.array(list(gross), dtype=np.intp)
    fewer = corrupt[some] - np.array([one.number for one in gross.values()])
    real = _small_groups(groups, j, some, fewer, terms, screened=False)
    texts = {}
    for i, (g, one) in enumerate(gross.items()):
        low, high, estimate, sd = (float(each[i]) for each in (real.low, real.high, real.estimate, real.sd))
        other = EvidenceInterval(low, high, estimate, sd)
        texts[g] = remark_on_gross(one, int(corrupt[g]), other, terms.alternative) if sd > 0 else ""
    return texts


def _allowed(sizes: NDArray[np.int64], request: Request) -> tuple[NDArray[np.int64], list[str]]:
    """Return how many rows of each group may be corrupt, -1 with a note where that is impossible."""
    known: dict[int, tuple[int, str]] = {}
    for n in np.unique(sizes).tolist():
        if n == 0:
            known[n] = (-1, "no usable rows")
            continue
        try:
            known[n] = (request.allowed.count(n), "")
        except ValueError as error:
            known[n] = (-1, str(error))
    pairs = [known[n] for n in sizes.tolist()]
    return np.array([count for count, _ in pairs], dtype=np.int64), [note for _, note in pairs]


def _numbers(found: RobustEstimate) -> list[float]:
    ends = (found.estimate, *found.interval)
    sd = found.certificate.premise_sd if found.certificate.premise else math.nan
    return [float(np.ravel(one)[0]) for one in (*ends, sd)]
