"""``outvote mean``: the mean of each group, plain and robust."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from outvote.blocks.plan import BlockPlan
from outvote.cli.answer import Asked, Progress, Value, finite, plain_mean, silent
from outvote.data.files import Columns, Group, Label, Source
from outvote.estimate.estimate import mean
from outvote.estimate.result import RobustEstimate
from outvote.estimate.unknown import sensitivity
from outvote.votes import has_scale


@dataclass(frozen=True)
class MeanLine:
    """The mean of one group: how many rows, plain, robust, corrupt rows allowed for and survived, blocks."""

    group: Label
    n: int
    plain: float | None
    mean: Value
    corrupt: int | None
    survives: int | None
    blocks: int | None
    vote: str


@dataclass(frozen=True)
class Level:
    """The mean of one group if so many of its rows were corrupt."""

    group: Label
    corrupt: int
    mean: Value


@dataclass(frozen=True)
class Means:
    """Answer of ``outvote mean``."""

    asked: Asked
    source: str
    value: str
    by: tuple[str, ...]
    groups: list[MeanLine]
    sensitivity: list[Level] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every group has an interval."""
        return all(line.mean.bounded for line in self.groups)


def means(columns: Columns, asked: Asked, source: str, *, levels: bool = False, progress: Progress = silent) -> Means:
    """Estimate the mean of each group, plain and robust.

    A single group that has no answer is an error; among several it is a line that says why.
    """
    columns.check(asked.nan)
    lines: list[MeanLine] = []
    curve: list[Level] = []
    groups = columns.groups()
    for number, group in enumerate(groups, 1):
        progress(f"group {number} of {len(groups)}")
        try:
            found = mean(group.values, asked.contamination, **asked.options)
        except ValueError as error:
            if len(groups) == 1:
                raise
            lines.append(_no_mean(group, error))
            continue
        lines.append(_line(group.label, found, plain_mean(group.values)))
        if levels:
            curve += _levels(group, asked)
    return Means(asked, source, columns.name, columns.keys, lines, curve)


def means_by_id(source: Source, value: str, by: Sequence[str], row_id: str, asked: Asked) -> Means:
    """Estimate the mean of each group from rows that stay in their files, dealt by a hash of their id."""
    from outvote.tables.open import scan

    rows = source.relation(value, by, row_id, asked.nan)
    keys = [f"k{j}" for j in range(len(by))]
    plain = {
        tuple(labels): average
        for *labels, average in rows.aggregate(
            ", ".join([*keys, "avg(v) FILTER (NOT isnan(v))"]), ", ".join(keys)
        ).fetchall()
    }
    scanned = scan(rows, row_id="id")
    if not by:
        found = scanned.mean("v", contamination=asked.contamination, **asked.options)
        lines = [_line((), found, finite(plain[()]))]
    else:
        table = scanned.mean("v", by=keys, contamination=asked.contamination, **asked.options)
        heads = [*keys, "n", "blocks", "survives", "estimate", "low", "high", "radius", "provenance", "note"]
        lines = []
        for line in table.project(", ".join(heads)).fetchall():
            label, (n, blocks, survives, *numbers) = line[: len(by)], line[len(by) :]
            estimate, low, high, radius, provenance, note = numbers
            known = Value.checked(estimate, low, high, radius, provenance, note)
            group, average = tuple(part or None for part in label), finite(plain[tuple(label)])
            if known.estimate is None:
                lines.append(MeanLine(group, n, average, known, None, None, None, ""))
                continue
            count, soft = asked.count(n), may_be_soft(asked)
            vote = asked.vote if soft else "median"
            lines.append(MeanLine(group, n, average, known, count, count if soft else survives, blocks, vote))
    return Means(asked, str(source), value, tuple(by), lines)


def may_be_soft(asked: Asked) -> bool:
    """Whether blocks can vote otherwise than by their median: a soft vote needs a known scale."""
    scaled = asked.assume is not None and has_scale(asked.assume)
    return asked.vote in ("soft", "clipped") or (asked.vote == "auto" and scaled)


def _line(label: Label, found: RobustEstimate, plain: float | None) -> MeanLine:
    plan = found.plan
    assert isinstance(plan, BlockPlan)
    # Where the number was left open, the interval allows for the largest level.
    corrupt = found.certificate.levels[-1][0] if found.certificate.levels else plan.n_corrupt
    survives = plan.survives if plan.vote == "median" and not found.certificate.levels else corrupt
    return MeanLine(label, plan.n_rows, plain, Value.of(found), corrupt, survives, plan.n_blocks, plan.vote)


def _no_mean(group: Group, error: Exception) -> MeanLine:
    return MeanLine(
        group.label, len(group.values), plain_mean(group.values), Value.missing(error), None, None, None, ""
    )


def _levels(group: Group, asked: Asked) -> list[Level]:
    found = sensitivity(group.values, **asked.options)
    levels = []
    columns = (found.n_corrupt, found.estimate, found.low, found.high, found.radius)
    for corrupt, estimate, low, high, radius in zip(*columns, strict=True):
        grounds = found.provenance if math.isfinite(radius) else "none"
        levels.append(Level(group.label, int(corrupt), Value.checked(estimate, low, high, radius, grounds)))
    return levels
