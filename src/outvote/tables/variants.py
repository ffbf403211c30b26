"""Compare the variants of a table with a baseline: a line for each, and for each segment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outvote.assumptions import Bounded, Proportion
from outvote.data.files import check_name
from outvote.data.missing import NanPolicy
from outvote.estimate.contrast import Contrast, contrast
from outvote.estimate.request import Request
from outvote.estimate.result import RobustEstimate
from outvote.estimate.summary import RowSummary
from outvote.tables.counted import counted
from outvote.tables.engine import Engine, Key, Query
from outvote.tables.evidence import Gathered, bins_for, gather, in_memory
from outvote.tables.gathered import sortable
from outvote.tables.labels import column_names
from outvote.tables.units import added_up

#: What the lines hold, after the segments and the variant.
_ANSWER: dict[str, type] = {
    "n": int, "baseline_n": int, "estimate": float, "low": float, "high": float, "lift": float, "lift_low": float,
    "lift_high": float, "tolerance": int, "settled": bool, "note": str,
}  # fmt: skip
_NOTHING = (None,) * 7


@dataclass(frozen=True)
class Variants:
    """What is asked of a table.

    Attributes
    ----------
    value, by : str
        The column to compare, and that of the variants.
    baseline : object
        The variant that the others are compared with; None for the smallest label.
    segments : tuple of str
        Columns each of whose combinations of values is looked at by itself.
    unit, paired : str or None
        The column of the users whose rows are added up, or paired with those of the baseline.
    ratio, covariate : str or None
        The column of denominators, that of a covariate.
    coefficient : float, pair of array-like or None
        Of the covariate.
    assume : Assumption, tuple or None
        What is known of the clean rows.
    simultaneous : bool
        Whether all lines hold at once.
    """

    value: str
    by: str
    baseline: Any = None
    segments: tuple[str, ...] = ()
    unit: str | None = None
    paired: str | None = None
    ratio: str | None = None
    covariate: str | None = None
    coefficient: Any = None
    assume: Any = None
    simultaneous: bool = False

    @classmethod
    def read(cls, engine: Engine, **given: Any) -> Variants:
        """Check the names of the columns."""
        segments = () if given["segments"] is None else column_names(given["segments"], "segments")
        found = cls(**{**given, "segments": segments})
        there = engine.names()
        names = {name: getattr(found, name) for name in ("value", "by", "unit", "paired", "ratio", "covariate")}
        for argument, name in names.items():
            if name is not None and not isinstance(name, str):
                raise TypeError(f"{argument}={name!r} must be the name of one column")
        named = [(argument, name) for argument, name in names.items() if name is not None]
        named += [("segments", name) for name in segments]
        for argument, name in named:
            check_name(argument, name, there)
        for argument, name in named[1:]:
            if name == found.value or (argument != "by" and name == found.by):
                raise ValueError(f"{argument}={name!r} is also the column of the values or variants: name another")
        clash = next((name for name in segments if name in ("variant", *_ANSWER)), None)
        if clash is not None:
            raise ValueError(f"segments={clash!r} is also the name of a column of the answer: rename it")
        if found.paired is not None and (found.unit or found.ratio or found.covariate):
            raise ValueError(f"paired={found.paired!r} goes without unit, ratio and covariate: its rows are added up")
        return found

    @property
    def query(self) -> Query:
        """The columns and keys."""
        more = [name for name in (self.ratio, self.covariate) if name is not None]
        return Query((self.value, *more), (self.by, *self.segments))


#: The columns of each group, by the label of the variant and those of the segment.
_Samples = dict[tuple[Any, ...], list[Any]]


def compare_variants(engine: Engine, asked: Variants, request: Request) -> Any:
    """Return a table of the kind the data came in: a line for each other variant, and for each segment."""
    found, single = _samples(engine, asked, request)
    variants = sorted({label[0] for label in found}, key=sortable)
    baseline = _baseline(variants, asked)
    segments = sorted({label[1:] for label in found}, key=sortable)
    pairs = [(segment, variant) for segment in segments for variant in variants if (variant, *segment) in found]
    pairs = [(segment, variant) for segment, variant in pairs if variant != baseline]
    assume = _known(engine, asked, single=single)
    request = replace(request, nan_policy=_policy(asked, request))
    if asked.simultaneous and pairs:
        request = replace(request, terms=request.terms.shared(len(pairs)))
    lines = []
    for segment, variant in pairs:
        samples = [found.get((label, *segment), []) for label in (baseline, variant)]
        lines.append((*segment, variant, *_line(samples, asked, request, assume, (str(baseline), str(variant)))))
    heads = [*asked.segments, "variant", *_ANSWER]
    columns = {head: [line[j] for line in lines] for j, head in enumerate(heads)}
    return engine.frame(columns, {"variant": asked.by, **_ANSWER})


def _samples(engine: Engine, asked: Variants, request: Request) -> tuple[_Samples, bool]:
    """Bring the rows of each group here, added up by user if asked for; of many rows of one column, summaries.

    Also return whether every row is that of another user.
    """
    query, unit = asked.query, asked.unit or asked.paired
    tallies = counted(engine, query, request, ids=engine.has_ids)
    if unit is not None:
        users = added_up(engine, query, unit, asked.covariate, request.contamination or request.most)
        wanted = replace(query, columns=(*query.columns, users.number))
        here = in_memory(users.engine, wanted, _policy(asked, request))
        if here is None:
            raise ValueError(
                f"the rows of some {unit!r} add up to more than a float holds: divide them by a power of ten first, or "
                "take nan_policy='corrupt'"
            )
        n_users = sum(len(columns[-1]) for columns in _columns(here[0]).values()) + here[1]
        return _columns(here[0]), n_users == sum(one.n_rows for one in tallies.values())
    if engine.in_memory and (here := in_memory(engine, query, request.nan_policy)) is not None:
        return _columns(here[0]), True
    if len(query.columns) > 1:
        return _columns(Gathered(engine.kept(query, list(tallies), omit=request.nan_policy == "omit"), {})), True
    known = asked.assume if isinstance(asked.assume, (tuple, list)) else [_known(engine, asked, single=True)]
    fixed = bins_for((Proportion(),) if all(isinstance(one, Proportion) for one in known) else (None,))
    found: _Samples = {}
    for portion in gather(engine, query, tallies, request, fixed):
        found |= _columns(portion)
    return found, True


def _policy(asked: Variants, request: Request) -> NanPolicy:
    """Return what to do with NaN: where rows were added up, none that are refused are left, but corrupt users are."""
    users = asked.unit is not None or asked.paired is not None
    return "corrupt" if users and request.nan_policy == "raise" else request.nan_policy


def _columns(found: Gathered) -> _Samples:
    """Return the columns of each group: rows, or a summary."""
    groups = found.groups
    each: dict[Key, list[Any]] = {
        key: [groups.group(g, j) for j in range(len(groups.rows))] for g, key in enumerate(groups.labels)
    }
    each |= found.summaries
    return {key if isinstance(key, tuple) else (key,): columns for key, columns in each.items()}


def _known(engine: Engine, asked: Variants, *, single: bool) -> Any:
    """Return what is known of the rows: what is declared; if nothing is, that booleans are 0 or 1.

    Sums of the booleans of a user are not, so that nothing is known of pairs unless each user has a single row.
    """
    plain = asked.ratio is None and asked.covariate is None and asked.unit is None
    if asked.assume is not None or not plain or not engine.is_boolean(asked.value):
        return asked.assume
    if asked.paired is None:
        return Proportion()
    return Bounded(-1.0, 1.0) if single else None


def _baseline(variants: Sequence[Any], asked: Variants) -> Any:
    """Return the label of the baseline, the smallest one by default; refuse one that there is not."""
    shown = ", ".join(map(repr, variants[:10]))
    if asked.baseline is not None and asked.baseline not in variants:
        raise ValueError(
            f"baseline={asked.baseline!r} is not a value of the column {asked.by!r}: its values are {shown}"
        )
    if len(variants) < 2:
        raise ValueError(f"by={asked.by!r} has the values {shown or 'none'}, but a comparison needs two")
    return variants[0] if asked.baseline is None else asked.baseline


def _line(
    samples: Sequence[list[Any]], asked: Variants, request: Request, assume: Any, names: tuple[str, str]
) -> tuple[Any, ...]:
    """Return the cells of one comparison."""
    sizes = [_size(one[0]) if one else 0 for one in samples]
    if not all(sizes):
        return (sizes[1], sizes[0], *_NOTHING, False, "no rows of the baseline" if not sizes[0] else "no usable rows")
    metric: dict[str, Any] = {}
    values, note = [one[0] for one in samples], ""
    if asked.ratio is not None:
        values, metric = [np.column_stack([one[1], one[0]]) for one in samples], {"ratio": True}
    elif asked.covariate is not None:
        metric = {"covariate": [one[1] for one in samples], "coefficient": asked.coefficient}
    if asked.unit is not None:
        several = len(np.intersect1d(samples[0][-1], samples[1][-1]))
        note = f"{several} of {asked.unit!r} are in both variants: their rows are not independent. " if several else ""
    if asked.paired is not None:
        _, *where = np.intersect1d(samples[0][-1], samples[1][-1], return_indices=True)
        values = [one[at] for one, at in zip(values, where, strict=True)]
        left = sum(sizes) - 2 * len(values[0])
        sizes, note = [len(values[0])] * 2, f"{left} without a partner are left out. " if left else ""
        if not sizes[0]:
            return (0, 0, *_NOTHING, False, f"{note}No row has a partner.")
    found = contrast(values, request, assume, names=names, paired=asked.paired is not None, **metric)
    return (sizes[1], sizes[0], *_cells(found), found.settled, note + _note(found))


def _size(rows: Any) -> int:
    return rows.n_rows if isinstance(rows, RowSummary) else len(rows)


def _cells(found: Contrast) -> tuple[Any, ...]:
    """Return estimate and ends of the difference and of the lift, and the tolerance."""
    cells: list[float | None] = []
    for one in (found.gap, found.lift):
        if isinstance(one, RobustEstimate):
            numbers = [float(np.ravel(number)[0]) for number in (one.estimate, *one.interval)]
            cells += [None if math.isnan(number) else number for number in numbers]
        else:
            cells += [None] * 3
    return (*cells, found.tolerance)


def _note(found: Contrast) -> str:
    """Say why there is no answer, or what it rests on."""
    if isinstance(found.gap, ValueError):
        return str(found.gap)
    certificate = found.gap.certificate
    premise = f"Holds if {certificate.premise}." if certificate.premise else ""
    notes = [premise, certificate.note]
    if isinstance(found.lift, ValueError):
        notes.append(f"No lift: {found.lift}.")
    elif found.lift is not None and found.lift.certificate.provenance == "none":
        notes.append(f"No lift: {found.lift.certificate.note.removesuffix(certificate.note).strip()}")
    notes += found.gap.remarks
    return " ".join(filter(None, notes))
