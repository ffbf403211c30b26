"""Means by evidence: no blocks, no partition, no randomness."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, BoundedRatio, FiniteKurtosis, Proportion, Symmetric
from outvote.data.missing import ContradictionError, NanPolicy, check_certain
from outvote.data.progress import watched
from outvote.data.rows import Rows
from outvote.data.text import count, spaced, spaced_count
from outvote.estimate.evidence_result import Found, write_result
from outvote.estimate.levels import Brief
from outvote.estimate.ordered import Ordered, plain_average
from outvote.estimate.premise import TOO_FEW, Gross, Premise, UnknownScale, premise_of, premises_of
from outvote.estimate.remarks import remark_on, remark_on_gross, remark_on_odd
from outvote.estimate.request import Assumed, Request
from outvote.estimate.result import Later, RobustEstimate, beyond_rounding
from outvote.estimate.screened import Screened, is_bounded, without_bad_rows
from outvote.votes import Ballot, Terms, ballot
from outvote.votes.evidence import (
    BinnedRows,
    EvidenceInterval,
    SortedRows,
    Tally,
    bounded_ratio_interval,
    contradicts,
    declared_interval,
    free_interval,
    premise_interval,
    proportion_interval,
    scale_of,
    symmetric_interval,
)

Floats = NDArray[np.float64]

#: Columns whose histograms a result keeps.
_PICTURED = 64
#: From so many columns on they are worked out at once, so many at a time.
_SEVERAL, _TOGETHER = 8, 64
HINT = "These rows are all 0 or 1: if that is by definition, assume=Proportion() gives an exact interval."
_FEW_ROWS = "There are too few rows to bound the sd of clean rows by their kurtosis: give sd, too."


@dataclass(frozen=True, eq=False)
class OrderedTable:
    """Columns of rows, the NaN policy applied; a single one is put in order once.

    Attributes
    ----------
    read : Screened or None
        The rows; None if the columns are in order.
    shape : tuple of int
        Shape of the columns.
    names : tuple of str or None
        Their names.
    assumed : tuple of Assumption or None
        What is known of each.
    ready : sequence of Ordered
        The columns, if they are in order.
    """

    read: Screened | None
    shape: tuple[int, ...]
    names: tuple[str, ...] | None
    assumed: Assumed
    ready: Sequence[Ordered] = ()
    _premises: dict[tuple[int, int, Terms], Premise] = field(default_factory=dict)

    @classmethod
    def of_sample(cls, sample: Rows, assumed: Assumed, nan_policy: NanPolicy) -> OrderedTable:
        """Apply the NaN policy."""
        table = sample.values.reshape(len(sample.values), -1)
        read = without_bad_rows(table, nan_policy, "x", counting=not any(map(is_bounded, assumed)))
        return cls(read, tuple(sample.values.shape[1:]), sample.names, assumed)

    @classmethod
    def of(
        cls, columns: Sequence[Ordered], assumed: Assumed, shape: tuple[int, ...] = (), names: Any = None
    ) -> OrderedTable:
        """Return the table of columns that are in order, of a single one by default."""
        return cls(None, shape, names, assumed, columns)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self.column(0).n_rows if self.read is None else self.read.n_rows

    @property
    def n_bad(self) -> int:
        """How many rows had NaN or infinite values."""
        return self.column(0).n_bad if self.read is None else self.read.n_bad

    def column(self, j: int) -> Ordered:
        """Return a column."""
        return self._only if len(self.assumed) == 1 else self._column(j)

    @cached_property
    def _only(self) -> Ordered:
        return self._column(0)

    def _column(self, j: int) -> Ordered:
        if self.ready:
            return self.ready[j]
        assert self.read is not None
        return self.read.column(j, self.assumed[j])

    def prepare(self, keys: Sequence[tuple[int, int]], terms: Terms) -> None:
        """Work out at once what `premise` returns for pairs of a column and a number of corrupt rows."""
        for start in range(0, len(keys), _TOGETHER):
            some, rows = [], []
            for j, m in keys[start : start + _TOGETHER]:
                column = self.column(j)
                if self.assumed[j] is None and m >= column.n_found and column.size(m - column.n_found) == 1:
                    some.append((j, m, terms.two_sided))
                    rows.append(column.rows(m, adaptive=terms.adversary == "adaptive"))
            with suppress(UnknownScale):  # each is looked at by itself
                self._premises.update(zip(some, premises_of(rows, terms.two_sided) if rows else [], strict=True))

    def premise(self, j: int, rows: SortedRows, terms: Terms) -> Premise:
        """Return what `premise_of` does for a column, two-sided."""
        known = self._premises.get((j, rows.n_corrupt, terms.two_sided))
        if known is None:
            several = len(self.assumed) > 1
            name = (self.names[j] if self.names else f"column {j}") if several else ""
            known = premise_of(rows, terms.two_sided, subject=name)
        return known


class MeanByEvidence:
    """Estimates the mean of each column, for any contamination; what does not depend on it is done once.

    Parameters
    ----------
    ordered : OrderedTable
        The columns.
    parts : int
        How many results share the confidence.
    """

    def __init__(self, ordered: OrderedTable, parts: int = 1):
        self._ordered, self._parts = ordered, parts

    def __call__(self, request: Request) -> RobustEstimate:
        """Estimate for a known contamination."""
        return mean_by_evidence(self._ordered, request, request.terms.shared(self._parts))

    def prepare(self, request: Request, counts: Sequence[int]) -> None:
        """Work out at once what estimates for several numbers of corrupt rows have in common."""
        if not self._ordered.shape:
            self._ordered.prepare([(0, m) for m in counts], request.terms.shared(self._parts))

    def brief(self, request: Request) -> Brief:
        """Return the numbers alone, of a single column."""
        if self._ordered.shape:
            raise ValueError("contamination='auto' estimates one column at a time: pass a single one")
        terms = request.terms.shared(self._parts)
        found, _, _ = _found(self._ordered, request, terms, pictures=False)
        one = found[0].interval
        ends = {"less": [one.high - one.estimate], "greater": [one.estimate - one.low]}
        radius = max(ends.get(terms.alternative, [one.estimate - one.low, one.high - one.estimate]))
        return Brief(one.estimate, one.low, one.high, radius, (one.sd,), found[0].provenance, "mean", found[0].plain)


def mean_by_evidence(ordered: OrderedTable, request: Request, terms: Terms, *, of: str = "row") -> RobustEstimate:
    """Estimate the mean of each column by evidence, for a known contamination; `of` is what one value is that of."""
    found, n_corrupt, outside = _found(ordered, request, terms, pictures=len(ordered.assumed) <= _PICTURED)
    detail = f"{count(outside, 'row')} of x lie outside the bounds: they are corrupt for certain." if outside else ""
    if len(found) == 1 and ordered.column(0).only_0_and_1:
        detail = HINT
    counts = ordered.n_rows, n_corrupt
    written = write_result(found, ordered, request, terms, counts, detail)
    if len(found) == 1 and found[0].error is not None:
        found[0].error.without_interval = written
        raise found[0].error
    if outside and isinstance(ordered.assumed[0], Proportion):
        return replace(written, detail="", remarks=(remark_on_odd(outside),))
    remarks, on_gross = [], list[str]()
    if len(found) == 1 and written.certificate.provenance == "conditional":
        remarks = [remark_on(ordered.column(0), n_corrupt, sd=found[0].interval.sd)]
    if_real = None
    if any(one.gross for one in found) and len(found) <= _PICTURED:
        real = [_if_real(ordered, j, one, n_corrupt, request, terms) for j, one in enumerate(found)]
        fewest = min(n_corrupt - one.gross.number for one in found if one.gross)
        if_real = write_result(real, ordered, request, terms, (ordered.n_rows, max(fewest, 0)), "")
        names = ordered.names or [f"column {j}" for j in range(len(found))]
        for one, other, name in zip(found, real, names, strict=True):
            if one.gross:
                text = remark_on_gross(one.gross, n_corrupt, other.interval, terms.alternative, of=of)
                on_gross.append(f"{name}: {text}" if len(found) > 1 else text)
    elif any(one.gross for one in found):
        number = sum(one.gross is not None for one in found)
        on_gross = [f"{spaced(number)} of {spaced_count(len(found), 'column')} have rows that are taken to be corrupt."]
    suspects: Any = tuple(_suspects(ordered.column(j), one.gross) for j, one in enumerate(found))
    suspects = suspects if ordered.shape else suspects[0]
    return replace(written, remarks=tuple(filter(None, [*on_gross, *remarks])), if_real=if_real, suspects=suspects)


def _suspects(column: Ordered, gross: Gross | None) -> Sequence[int]:
    """Return what finds the gross rows of a column."""
    return () if gross is None else Later(partial(gross.positions, column))


def _if_real(ordered: OrderedTable, j: int, one: Found, n_corrupt: int, request: Request, terms: Terms) -> Found:
    """Return what is found of a column if its gross rows are clean: fewer others may be corrupt then."""
    if one.gross is None:
        return replace(one, picture=None)
    fewer, read = max(n_corrupt - one.gross.number, ordered.column(j).n_found), partial(premise_of, screened=False)
    return _mean_of_column(ordered.column(j), fewer, None, request, terms, read, picture=False)


def _found(ordered: OrderedTable, request: Request, terms: Terms, *, pictures: bool) -> tuple[list[Found], int, int]:
    """Return what is found of each column, how many rows may be corrupt, and how many lie outside of their bounds."""
    n_rows, assumed = ordered.n_rows, ordered.assumed
    n_corrupt, known_bad = request.allowed.count(n_rows), request.found_corrupt(ordered.n_bad)
    check_certain(known_bad, n_corrupt, n_rows, "x has NaN or infinite values")
    found, outside = [], 0
    if len(assumed) >= _SEVERAL:
        ordered.prepare([(j, n_corrupt) for j in range(len(assumed))], terms)
    with watched(range(len(assumed)), "columns") as columns:
        for j in columns:
            column = ordered.column(j)
            outside = max(outside, column.n_found - known_bad)
            premise = partial(ordered.premise, j)
            try:
                found.append(_mean_of_column(column, n_corrupt, assumed[j], request, terms, premise, picture=pictures))
            except UnknownScale as error:
                nothing = EvidenceInterval(-math.inf, math.inf, error.point)
                found.append(Found(nothing, "none", column.plain, note=str(error), error=error))
    return found, n_corrupt, outside


def _mean_of_column(
    ordered: Ordered,
    n_corrupt: int,
    assume: Assumption | None,
    request: Request,
    terms: Terms,
    premise: Callable[[SortedRows, Terms], Premise],
    *,
    picture: bool,
) -> Found:
    adaptive, n_found = terms.adversary == "adaptive", ordered.n_found
    check_certain(n_found, n_corrupt, ordered.n_rows, f"x has {ordered.wrong_values(assume)}")
    plain, size = ordered.plain, ordered.size(n_corrupt - n_found)
    if size != 1 and not isinstance(assume, Bounded):  # squares would overflow, or vanish
        known = None if assume is None else in_units(assume, size)
        one = _mean_of_column(ordered.scaled(1 / size), n_corrupt, known, request, terms, premise, picture=False)
        shown = ordered.picture(one.interval.low * size, one.interval.high * size) if picture else None
        gross = one.gross and one.gross.times(size)
        return replace(one, interval=one.interval.times(size), plain=plain, picture=shown, gross=gross)
    rows = ordered.rows(n_corrupt, adaptive=adaptive)
    vote, note, provenance, gross = "evidence", "", "certified", None
    if assume is None:
        known_premise = premise(rows, terms.two_sided)
        found, provenance, gross = known_premise.interval, "conditional", known_premise.gross
        if not known_premise.sd:
            provenance, note = "none", known_premise.why
        elif terms.alternative != "two-sided":
            one_sided = premise_interval(rows, known_premise.sd, terms)
            found = replace(found, low=one_sided.low, high=one_sided.high)
    elif isinstance(assume, FiniteKurtosis) and assume.sd is None:
        found = free_interval(rows, ordered.pairs(n_corrupt, adaptive=adaptive), assume, terms)
        refuse_contradiction(found.sd == 0 or found.empty, rows, assume)
        ends = {"less": found.high, "greater": found.low}.get(terms.alternative, found.high - found.low)
        provenance, note = ("certified", "") if math.isfinite(ends) else ("none", _FEW_ROWS)
    elif isinstance(rows, Tally):
        found = proportion_interval(rows, terms)
    elif isinstance(assume, BoundedRatio):
        found = bounded_ratio_interval(rows, assume, terms)
        bounded = math.isfinite(found.low) and math.isfinite(found.high)
        provenance, note = ("certified", "") if bounded else ("none", TOO_FEW)
    elif isinstance(assume, Symmetric):
        found, vote = symmetric_interval(rows, terms)
        bounded = math.isfinite(found.low) or math.isfinite(found.high)
        provenance, note = ("certified", "") if bounded else ("none", TOO_FEW)
    elif n_corrupt == 0 and request.vote == "auto" and not isinstance(assume, Bounded) and rows.has_values:
        found, vote = _fixed(ordered.values, assume, terms)
        refuse_contradiction(contradicts(rows, found, scale_of(assume), terms.log_delta), rows, assume)
    else:
        found = declared_interval(rows, assume, terms)
        refuse_contradiction(_misfits(rows, found, assume, terms), rows, assume)
    if isinstance(assume, Bounded):
        found = replace(found, low=max(found.low, assume.low), high=min(found.high, assume.high))
    elif not isinstance(assume, Symmetric) and not found.empty:
        low, high = beyond_rounding(found.low, found.high)
        found = replace(found, low=float(low), high=float(high))
    if not math.isfinite(found.estimate):
        found = EvidenceInterval(found.low, found.high, rows.central_mean(), found.sd)
    if not found.empty:
        found = replace(found, estimate=_between_rows(found, rows, ordered))
    shown = ordered.picture(found.low, found.high) if picture else None
    return Found(found, provenance, plain, vote, note, shown, gross)  # type: ignore[arg-type]


def _misfits(rows: SortedRows, found: EvidenceInterval, assume: Assumption, terms: Terms) -> bool:
    """Return whether the rows contradict what was declared, given the interval."""
    if found.empty or isinstance(assume, Bounded):
        return found.empty
    if math.isinf(found.low) and math.isinf(found.high):  # so wide that nothing lies outside: two ends say more
        found = declared_interval(rows, assume, terms.two_sided)
    return found.empty or contradicts(rows, found, scale_of(assume), terms.log_delta)


def _between_rows(found: EvidenceInterval, rows: SortedRows, ordered: Ordered) -> float:
    """Return the estimate moved between the smallest row and the largest one, and then into the interval."""
    seen = found.estimate
    if rows.n_values:
        least, most = rows.smallest, -rows.mirrored.smallest
        if isinstance(rows, BinnedRows) and ordered.has_rows and not rows.bins.high[0] <= seen <= rows.bins.low[-1]:
            least, most = ordered.ends  # those of bins are farther out
        seen = min(max(seen, least), most)
    return min(max(seen, found.low), found.high)


def in_units(assume: Assumption, size: float) -> Assumption:
    """Return what is known of rows divided by their size."""
    try:
        return assume.scaled(1 / size)
    except ValueError:
        raise ValueError(
            f"assume={assume!r}, and the rows are of the size of {size:.2g}: no float holds their ratio; subtract "
            "a typical row from all rows, or declare another scale"
        ) from None


def _fixed(values: Floats, assume: Assumption, terms: Terms) -> tuple[EvidenceInterval, str]:
    """Return the narrowest interval that is fixed before a row is seen, for no corrupt rows: a vote of all rows."""
    n, known = len(values), terms.about(assume)
    votes: dict[str, Ballot] = {
        vote: ballot(vote, [np.broadcast_to(np.int64(1), n)], [0], known) for vote in ("soft", "clipped")
    }
    votes["mean"] = ballot("median", [np.array([n])], [0], known)
    vote = min(votes, key=lambda name: votes[name].radius)
    chosen = votes[vote]
    centre = plain_average(values) if vote == "mean" else chosen.count(values)
    low = -math.inf if terms.alternative == "less" else centre - chosen.radius
    high = math.inf if terms.alternative == "greater" else centre + chosen.radius
    return EvidenceInterval(low, high, centre), vote


def refuse_contradiction(contradicted: bool, rows: SortedRows, assume: Assumption) -> None:
    """Raise an error if the rows contradict an assumption."""
    if not contradicted:
        return
    seen = rows.central_sd()
    raise ContradictionError(
        f"the rows contradict assume={assume!r}: at this confidence no mean fits them (without the {rows.n_corrupt} "
        f"farthest rows their sd is {seen:.4g}): assume less, allow for more corrupt rows, or leave assume out"
    )
