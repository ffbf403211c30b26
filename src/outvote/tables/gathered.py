"""What an engine gathers for evidence: the rows of small groups as they are, summaries of the rows of large ones.

Every engine takes the same steps, so that all give the same answers: the rows are counted, some rows of each large
group choose its bins, and the others are counted in these. The rows that choose are those at equal distances in the
order of the rows, every `step`-th one; where rows have ids of their own, those whose hashed id is a multiple of `step`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.blocks.hashing import hash_rows
from outvote.data.groups import group_codes
from outvote.estimate.ordered import MANY_ROWS
from outvote.estimate.request import Request
from outvote.estimate.summary import RowSummary
from outvote.votes.evidence import Grid, index_in, pilot_step
from outvote.votes.evidence.grid import BINS

Floats = NDArray[np.float64]
#: A group's label: one value, or a tuple of them where there are several keys. Without groups there is one, ().
Key = Hashable

#: Up to so many numbers are brought here at once, whatever the groups.
FETCHED = 1 << 20
#: Numbers of rows, and of bins, that are held at a time.
HELD = 1 << 25
_LARGEST = float(np.finfo(np.float64).max)
#: Seconds that numpy takes to sort a row by its group.
_SECONDS_A_ROW = 3e-8
#: Rows of large groups that are collected before they are counted.
_TOGETHER = 1 << 19


class MiscountedRowsError(RuntimeError):
    """Other rows were summed up than were counted."""


class Part(NamedTuple):
    """Some rows: their values, one column each, the number of each row's group (-1 if it is of none), and ids.

    There are no ids where rows have none of their own.
    """

    values: Floats
    codes: NDArray[np.intp] | None
    ids: NDArray[np.int64] | None

    def usable(self) -> Part:
        """Return the rows that are finite in all columns, of groups that are asked for."""
        finite = np.isfinite(self.values)
        if finite.all() and self.codes is None:
            return self
        keep: Any = finite.all(axis=1)
        if self.codes is not None:
            keep &= self.codes >= 0
        return self.where(keep)

    def bounded(self) -> Part:
        """Return the rows with infinite values as the largest finite ones, which belong to the same bins."""
        return self._replace(values=np.clip(self.values, -_LARGEST, _LARGEST))

    def where(self, keep: NDArray[Any]) -> Part:
        """Return some of the rows."""
        if keep.all():
            return self
        return Part(*(None if one is None else one[keep] for one in self))  # type: ignore[arg-type]

    @property
    def groups(self) -> NDArray[np.intp]:
        """The number of each row's group."""
        return np.zeros(len(self.values), dtype=np.intp) if self.codes is None else self.codes


def codes_of(keys: Sequence[NDArray[Any]], numbers: Mapping[Key, int]) -> NDArray[np.intp] | None:
    """Return the number of each row's group, -1 for those without one; None if there are no keys."""
    if not keys:
        return None
    labels, codes = group_codes(tuple(keys))
    return np.array([numbers.get(label, -1) for label in labels], dtype=np.intp)[codes]


# --- the rows that choose bins -------------------------------------------------------------------------------


def pilots_of(parts: Iterable[Part], steps: Sequence[int], first: NDArray[np.int64] | None = None) -> list[Floats]:
    """Return the rows of each group that choose its bins, from parts of usable rows in their order.

    `first` has how many rows of each group come before.
    """
    seen = np.zeros(len(steps), dtype=np.int64) if first is None else first.astype(np.int64)
    step = np.array(steps, dtype=np.int64)
    found: list[tuple[Floats, NDArray[np.intp]]] = []
    for part in parts:
        if part.ids is None and len(steps) == 1:
            rows = part.values[int(-seen[0] % step[0]) :: steps[0]]
            found.append((rows.copy(), np.zeros(len(rows), dtype=np.intp)))
            seen += len(part.values)
            continue
        groups = part.groups
        if part.ids is not None:
            places = hash_rows(part.ids, 0)
        else:
            places, seen = _places(groups, seen)
        chosen = places % step[groups] == 0
        found.append((part.values[chosen], groups[chosen]))
    rows = np.concatenate([values for values, _ in found]) if found else np.empty((0, 0))
    groups = np.concatenate([one for _, one in found]) if found else np.empty(0, dtype=np.intp)
    order = np.argsort(groups, kind="stable")
    ends = np.cumsum(np.bincount(groups, minlength=len(steps)))[:-1]
    return np.split(rows[order], ends)


def _places(groups: NDArray[np.intp], seen: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the place of each row among those of its group, and how many rows of each group there are by then."""
    order = np.argsort(groups, kind="stable")
    counts = np.bincount(groups, minlength=len(seen))
    places = np.empty(len(groups), dtype=np.int64)
    places[order] = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts - seen, counts)
    return places, seen + counts


def grids_of(pilot: Floats, fixed: Sequence[Grid | None]) -> list[Grid]:
    """Return the bins of each column: those that are fixed, or those that some of its rows choose."""
    return [grid or Grid.of(pilot[:, j]) for j, grid in enumerate(fixed)]


# --- rows counted in bins --------------------------------------------------------------------------------


def summaries_of(parts: Iterable[Part], grids: Sequence[Sequence[Grid]]) -> list[list[RowSummary]]:
    """Count usable rows of each group in bins, a summary for each column."""
    found = [[RowSummary(grid) for grid in several] for several in grids]
    for group, rows in _by_group(parts, len(grids)):
        for j, summary in enumerate(found[group]):
            summary.update(rows[:, j])
    return found


def _by_group(parts: Iterable[Part], n_groups: int) -> Iterator[tuple[int, Floats]]:
    """Yield rows of one group after the other; those of several are collected before, so that many come at once."""
    waiting: list[Part] = []
    for part in parts:
        if n_groups == 1:
            yield 0, part.values
            continue
        waiting.append(part)
        if sum(len(one.values) for one in waiting) >= _TOGETHER:
            yield from _split(waiting, n_groups)
            waiting = []
    if waiting:
        yield from _split(waiting, n_groups)


def _split(parts: Sequence[Part], n_groups: int) -> Iterator[tuple[int, Floats]]:
    values, groups = np.concatenate([one.values for one in parts]), np.concatenate([one.groups for one in parts])
    values = values[np.argsort(groups, kind="stable")]
    ends = np.cumsum(np.bincount(groups, minlength=n_groups)).tolist()
    for group, (start, stop) in enumerate(itertools.pairwise([0, *ends])):
        if stop > start:
            yield group, values[start:stop]


def merged(a: Sequence[Sequence[RowSummary]], b: Sequence[Sequence[RowSummary]]) -> list[list[RowSummary]]:
    """Return the summaries of the rows of both; neither is changed."""
    return [
        [RowSummary(x.bins).merge(x).merge(y) for x, y in zip(one, two, strict=True)]
        for one, two in zip(a, b, strict=True)
    ]


# --- rows of some bins -----------------------------------------------------------------------------------


class Wanted(NamedTuple):
    """Bins of a group whose rows are asked for: which there are, and the numbers of these."""

    grid: Grid
    bins: tuple[int, ...]

    def ranges(self) -> list[tuple[float, float]]:
        """Return where rows of these bins lie, and not many others."""
        grid, index = self.grid, np.array(self.bins)
        near, width, side = grid.edges(index)
        ends = np.sort(grid.centre + grid.unit * side * np.stack([near, near + width]), axis=0)
        off = 2.0**-40 * (abs(grid.centre) + grid.unit + np.abs(ends).max(axis=0))
        low = np.where(index == 0, -math.inf, ends[0] - off)
        high = np.where(index == grid.number - 1, math.inf, ends[1] + off)
        return list(zip(low.tolist(), high.tolist(), strict=True))


#: Distinct values in ascending order, and how many rows have each.
Values = tuple[Floats, NDArray[np.int64]]


def values_in_bins(parts: Iterable[Part], wanted: Sequence[Wanted]) -> list[Values]:
    """Return the values of usable rows in some bins of each group, and how many rows have each."""
    found: list[list[Floats]] = [[] for _ in wanted]
    ranges = [one.ranges() for one in wanted]
    for group, rows in _by_group(parts, len(wanted)):
        values = rows[:, 0]
        inside = np.zeros(len(values), dtype=bool)
        for low, high in ranges[group]:
            inside |= (values >= low) & (values <= high)
        some = values[inside]  # these, and perhaps some beside the bins
        grid, bins = wanted[group]
        found[group].append(some[np.isin(index_in(some, grid.centre, grid.unit, grid.number), bins)])
    return [_distinct(np.concatenate([np.empty(0), *rows])) for rows in found]


def _distinct(rows: Floats) -> Values:
    values, counts = np.unique(rows, return_counts=True)
    return values, counts.astype(np.int64)


def merged_values(a: Sequence[Values], b: Sequence[Values]) -> list[Values]:
    """Return the values of the rows of both, group by group."""
    found: list[Values] = []
    for (x, m), (y, n) in zip(a, b, strict=True):
        if not len(x) or not len(y):
            found.append((x, m) if len(x) else (y, n))
            continue
        values, where = np.unique(np.concatenate([x, y]), return_inverse=True)
        counts = np.zeros(len(values), dtype=np.int64)
        np.add.at(counts, where, np.concatenate([m, n]))
        found.append((values, counts))
    return found


# --- which groups are large --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """How many rows each group has, and which are so many that they are summarised.

    Attributes
    ----------
    finite : dict of int
        Finite rows of each group.
    large : list
        Labels of groups whose rows are summarised.
    """

    finite: dict[Key, int]
    large: list[Key]

    @classmethod
    def of(cls, finite: Mapping[Key, int], n_columns: int) -> Sizes:
        """Keep the rows as they are if there are few in all, or in a group."""
        if sum(finite.values()) * n_columns <= FETCHED:
            return cls(dict(finite), [])
        return cls(dict(finite), [key for key, n in finite.items() if n >= MANY_ROWS])

    @property
    def small(self) -> list[Key]:
        """Labels of groups whose rows are kept."""
        large = set(self.large)
        return [key for key in self.finite if key not in large]

    def portions(self, n_columns: int) -> Iterator[Sizes]:
        """Cut the groups into portions, of each of which as many numbers are held as memory takes easily."""
        large, held, some = set(self.large), 0, dict[Key, int]()
        for key, n in self.finite.items():
            own = n_columns * (3 * BINS if key in large else n)
            if some and held + own > HELD:
                yield Sizes(some, [one for one in some if one in large])
                held, some = 0, {}
            some[key] = n
            held += own
        if some:
            yield Sizes(some, [one for one in some if one in large])

    @property
    def steps(self) -> list[int]:
        """Which rows of each large group choose its bins: every so many-th."""
        return [pilot_step(self.finite[key]) for key in self.large]


def completed(summary: RowSummary, n_finite: int, n_bad: int, request: Request) -> RowSummary:
    """Return a summary of finite rows, with the number of other rows added."""
    if summary.n_rows != n_finite:
        raise MiscountedRowsError(
            f"{n_finite} rows were counted, but {summary.n_rows} summed up: did the data change meanwhile?"
        )
    if request.nan_policy == "corrupt":
        summary.n_found_corrupt = n_bad
    else:
        summary.n_omitted = n_bad
    return summary


@dataclass
class Groups:
    """Rows in memory, those of one group together.

    Attributes
    ----------
    labels : list
        The labels of the groups.
    rows : list of ndarray
        The rows, in columns.
    starts : ndarray of int
        Where each group begins, and where the last ends.
    threads : int
        How many groups may be looked at at a time: as many threads as the engine uses.
    """

    labels: list[Key]
    rows: list[Floats]
    starts: NDArray[np.int64]
    threads: int = 1

    @classmethod
    def of(cls, columns: Sequence[Floats], keys: Sequence[NDArray[Any]], keep: NDArray[np.bool_] | None) -> Groups:
        """Bring the rows of each group together, in the order they came, or those that shall be kept."""
        labels, codes = group_codes(tuple(keys))
        ranks = _ranks(labels)
        own = ranks[codes]
        if keep is not None:
            own, columns = own[keep], [column[keep] for column in columns]
        sorted_labels: list[Key] = [None] * len(labels)
        for label, rank in zip(labels, ranks.tolist(), strict=True):
            sorted_labels[rank] = label
        return cls(sorted_labels, *_together(columns, own, len(labels)))

    @classmethod
    def of_parts(
        cls, parts: Iterable[Part], labels: Sequence[Key], n_columns: int, *, omit: bool, infinite: bool
    ) -> Groups:
        """Bring the rows of each group together, in the order of their ids or else in that they came.

        Rows that are NaN in some column, or infinite unless these are values, are left out, or are NaN in all of them.
        """
        kept = [part if part.codes is None else part.where(part.codes >= 0) for part in parts]
        if not kept:
            return cls(list(labels), [np.empty(0)] * n_columns, np.zeros(len(labels) + 1, dtype=np.int64))
        values = np.concatenate([one.values for one in kept])
        groups = np.concatenate([one.groups for one in kept]).astype(np.min_scalar_type(len(labels)))
        ids = None if kept[0].ids is None else np.concatenate([one.ids for one in kept])
        del kept
        usable = ~np.isnan(values) if infinite else np.isfinite(values)
        if not usable.all():
            finite = usable.all(axis=1)
            values = np.where(finite[:, None], values, math.nan)
            if omit:
                values, groups, ids = values[finite], groups[finite], None if ids is None else ids[finite]
        if ids is not None:
            order = np.lexsort((ids, groups))
            starts = _starts(np.bincount(groups, minlength=len(labels)))
            return cls(list(labels), [values[order, j] for j in range(n_columns)], starts)
        return cls(list(labels), *_together(values.T, groups, len(labels)))

    def group(self, g: int, j: int = 0) -> Floats:
        """Return the rows of a group in one column."""
        return self.rows[j][self.starts[g] : self.starts[g + 1]]


def _together(columns: Iterable[Floats], groups: NDArray[Any], n_groups: int) -> tuple[list[Floats], NDArray[np.int64]]:
    """Bring the rows of each group together, in the order they came; also return where each group begins and ends."""
    if n_groups == 1:
        return [np.ascontiguousarray(column) for column in columns], np.array([0, len(groups)])
    functions = _numba.compiled(len(groups) * _SECONDS_A_ROW)
    if functions is not None:
        starts = _starts(functions.histograms(groups[None], n_groups)[0])
        return [functions.rows_by_group(column, groups, starts) for column in columns], starts
    order = np.argsort(groups, kind="stable")  # small integers: a radix sort
    return [column[order] for column in columns], _starts(np.bincount(groups, minlength=n_groups))


def _starts(sizes: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


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


def sortable(key: Any) -> Any:
    """Return what a group is sorted by: labels of different types do not compare."""
    parts = key if isinstance(key, tuple) else (key,)
    return tuple((type(part).__name__, part) for part in parts)
