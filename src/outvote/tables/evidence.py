"""Means of the groups of a frame in memory, by evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption
from outvote.data.groups import group_codes
from outvote.data.rows import Rows
from outvote.estimate.levels import agree
from outvote.estimate.mean import mean_of
from outvote.estimate.ordered import MANY_ROWS
from outvote.estimate.request import Assumed, Request
from outvote.estimate.result import RobustEstimate
from outvote.tables.engine import BY_GROUP, Engine, Key, Query
from outvote.tables.labels import sortable
from outvote.votes import Terms
from outvote.votes.evidence import premises_of_groups

Floats = NDArray[np.float64]

#: The columns of an answer by group, beside the keys, and what they hold; "column" where there are several.
MEAN_ANSWER: dict[str, type] = {"column": str, **BY_GROUP, "premise_sd": float, "note": str}


@dataclass
class Groups:
    """Rows of a frame, those of one group together.

    Attributes
    ----------
    labels : list
        The labels of the groups, in order.
    rows : ndarray
        The rows, in columns.
    starts : ndarray of int
        Where each group begins, and where the last ends.
    """

    labels: list[Key]
    rows: list[Floats]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, columns: Sequence[Floats], keys: Sequence[NDArray[Any]], keep: NDArray[np.bool_] | None) -> Groups:
        """Bring the rows of each group together, in the order they came, or those that shall be kept."""
        labels, codes = group_codes(tuple(keys))
        ranks = _ranks(labels)
        own = ranks[codes]
        if keep is not None:
            own, columns = own[keep], [column[keep] for column in columns]
        order = np.argsort(own, kind="stable")  # small integers: a radix sort
        sizes = np.bincount(own, minlength=len(labels))
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        sorted_labels: list[Key] = [None] * len(labels)
        for label, rank in zip(labels, ranks.tolist(), strict=True):
            sorted_labels[rank] = label
        return cls(sorted_labels, [column[order] for column in columns], starts)


def _ranks(labels: list[Key]) -> NDArray[Any]:
    """Return where each label stands in order, in a type as small as can be."""
    kind = np.uint16 if len(labels) < 2**16 else np.int64
    numbers = np.array(labels) if len({type(one) for one in labels}) == 1 else np.empty(0, dtype=object)
    if numbers.dtype.kind in "iufb" and (numbers[1:] > numbers[:-1]).all():
        return np.arange(len(labels), dtype=kind)
    order = sorted(range(len(labels)), key=lambda i: sortable(labels[i]))
    ranks = np.empty(len(labels), dtype=kind)
    ranks[order] = np.arange(len(labels), dtype=kind)
    return ranks


#: Columns, keys, and which rows are kept; None for all.
Columns = tuple[list[Floats], list[NDArray[Any]], NDArray[np.bool_] | None]


def usable_columns(given: tuple[list[Floats], list[NDArray[Any]]], nan_policy: str) -> Columns | None:
    """Apply the NaN policy to columns; None if it refuses rows. A row is used if it has a number in each column."""
    values, keys = given
    finite = np.logical_and.reduce([np.isfinite(one) for one in values])
    if finite.all():
        return values, keys, None
    if nan_policy == "raise" or (nan_policy == "omit" and any(np.isinf(one).any() for one in values)):
        return None
    if nan_policy == "omit":
        return values, keys, finite
    return [np.where(finite, one, math.nan) for one in values], keys, None


def mean_by_evidence(
    engine: Engine,
    query: Query,
    columns: Columns | None,
    request: Request,
    assumed: Assumed,
    *,
    one: bool,
    simultaneous: bool,
) -> Any:
    """Estimate the mean of each column of all rows, or return a table of those of each group."""
    assert columns is not None
    values, keys, keep = columns
    if not query.by:
        rows = values if keep is None else [column[keep] for column in values]
        if not len(rows[0]):
            named = ", ".join(map(repr, query.columns))
            raise ValueError(f"column {named} has no usable rows: at least one row is needed")
        sample = Rows(rows[0], None) if one else Rows(np.column_stack(rows), query.columns)
        found = agree(request, [len(rows[0])], mean_of(sample, assumed, request, simultaneous))
        return replace(found, n_omitted=found.n_omitted + len(values[0]) - len(rows[0]))
    if request.contamination is None:
        raise ValueError("contamination='auto' has one answer, but not one for each group: give a fraction or a count")
    request.allowed.count(10**6)  # raises for a pair: a mean has one sample, and so has each group
    groups = Groups.of(values, keys, keep)
    terms = request.terms.shared(len(assumed) if simultaneous else 1)
    lines = means_of_groups(groups, query.columns, request, assumed, terms)
    labels = [key if isinstance(key, tuple) and len(query.by) > 1 else (key,) for key in groups.labels]
    table = {name: [key[i] for key in labels for _ in query.columns] for i, name in enumerate(query.by)}
    return engine.frame(table | {head: lines[head] for head in list(MEAN_ANSWER)[one:]}, MEAN_ANSWER)


def means_of_groups(
    groups: Groups, names: tuple[str, ...], request: Request, assumed: Assumed, terms: Terms
) -> dict[str, list[Any]]:
    """Return the columns of the answer, without those of the keys: a line for each group and column."""
    each = [_column(groups, j, name, request, assumed[j], terms) for j, name in enumerate(names)]
    lines = zip(*(zip(*one, strict=True) for one in each), strict=True)
    flat = [line for group in lines for line in group]
    return {head: [line[i] for line in flat] for i, head in enumerate(MEAN_ANSWER)}


def _column(
    groups: Groups, j: int, name: str, request: Request, assume: Assumption | None, terms: Terms
) -> list[list[Any]]:
    """Return what the answer has of one column: a list for each of its heads."""
    values, n_groups = groups.rows[j], len(groups.labels)
    sizes = np.diff(groups.starts)
    corrupt, notes = _allowed(sizes, request)
    found = np.full((n_groups, 3), math.nan)
    if assume is None and terms.alternative == "two-sided" and terms.adversary == "oblivious":
        finite = _all_finite(values, groups.starts)
        small = np.flatnonzero(finite & (sizes > 0) & (sizes < MANY_ROWS) & (corrupt >= 0))
        found[small] = _small_groups(values, groups.starts, small, corrupt, terms)
    numbers = np.stack([found[:, 1] / 2 + found[:, 2] / 2, found[:, 1], found[:, 2], found[:, 0]])
    kinds = np.where(np.isnan(found[:, 1]), "", "conditional").astype(object)
    kinds[corrupt < 0] = "none"
    usable = sizes.copy()
    for g in np.flatnonzero(kinds == ""):
        part = values[groups.starts[g] : groups.starts[g + 1]]
        try:
            one = mean_of(Rows(part, None), (assume,), request)(replace(request, terms=terms))
        except ValueError as error:
            kinds[g], notes[g], corrupt[g] = "none", str(error), 0
            continue
        numbers[:, g] = _numbers(one)
        kinds[g], usable[g], corrupt[g] = one.certificate.provenance, one.plan.n_rows, one.plan.n_corrupt
        notes[g] = one.certificate.note if one.certificate.provenance == "none" else ""
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
    values: Floats, starts: NDArray[np.int64], which: NDArray[np.intp], corrupt: NDArray[np.int64], terms: Terms
) -> Floats:
    """Return sd, low and high of some groups."""
    if len(which) == len(starts) - 1:
        return premises_of_groups(values.copy(), starts, corrupt, terms)
    sizes = np.diff(starts)[which]
    begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    at = np.repeat(starts[:-1][which] - begin[:-1], sizes) + np.arange(begin[-1])
    return premises_of_groups(values[at], begin, corrupt[which], terms)


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
