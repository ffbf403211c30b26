"""``outvote mean``: estimate the mean of each group, plain and robust."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.plan import GridPlan
from outvote.cli.answer import Asked, Progress, Value, each_column, finite, plain_mean, side_by_side, silent
from outvote.contamination import Contamination
from outvote.data.columns import Columns, Group, Label
from outvote.data.files import Files
from outvote.estimate.mean import mean
from outvote.estimate.result import RobustEstimate
from outvote.estimate.sensitivity import sensitivity
from outvote.tables.duckdb import file_engine
from outvote.tables.scan import Scan

#: Shares of corrupt rows for which a mean is shown beside the one that is asked for.
CAUTION = (0, 0.001, 0.01)


@dataclass(frozen=True)
class MeanLine:
    """The mean of one group: its rows, the plain and the robust mean, corrupt rows allowed for and survived, blocks."""

    group: Label
    n: int
    plain: float | None
    mean: Value
    corrupt: int | None
    survives: int | None
    blocks: int | None
    vote: str
    found: RobustEstimate | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Level:
    """The mean of one group if `corrupt` of its rows are corrupt."""

    group: Label
    corrupt: int
    mean: Value


@dataclass(frozen=True)
class Means:
    """The answer of ``outvote mean``; `caution` has a single group's mean if none, 0.1 % and 1 % are corrupt."""

    asked: Asked
    source: str
    value: str
    by: tuple[str, ...]
    groups: list[MeanLine]
    sensitivity: list[Level] = field(default_factory=list)
    caution: list[Level] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every group has an interval."""
        return all(line.mean.bounded for line in self.groups)


def means(
    columns: Columns,
    asked: Asked,
    source: str,
    *,
    levels: bool = False,
    progress: Progress = silent,
    estimate: Callable[..., RobustEstimate] = mean,
    rows_of: Callable[[Group], NDArray[np.float64]] = lambda group: group.values,
) -> Means:
    """Estimate the mean of each group, plain and robust.

    If there is only one group and it has no answer, an error is raised; among several groups the line gives the reason.
    `rows_of` says what is estimated of each group.
    """
    asked.check(columns)
    lines: list[MeanLine] = []
    curve: list[Level] = []
    groups = columns.groups()
    for number, group in enumerate(groups, 1):
        progress(f"group {number} of {len(groups)}")
        rows = rows_of(group)
        try:
            found = estimate(rows, asked.contamination, **asked.options)
        except ValueError as error:
            if len(groups) == 1:
                raise
            lines.append(
                MeanLine(
                    group.label, len(rows), plain_mean(rows, asked.assume), Value.missing(error), None, None, None, ""
                )
            )
            continue
        lines.append(_line(group.label, found, plain_mean(rows, asked.assume)))
        if levels:
            curve += _levels(group, asked)
    return Means(asked, source, columns.name, columns.keys, lines, curve)


def means_of_each(
    columns: Columns, asked: Asked, source: str, *, levels: bool = False, progress: Progress = silent
) -> Means:
    """Estimate the mean of each column of numbers; of one group also for other numbers of corrupt rows."""
    several = each_column(columns)
    answers = [means(one, asked, source, levels=levels, progress=progress) for one in several]
    if len(several) == 1 and not (columns.keys or levels) and asked.vote in ("auto", "evidence"):
        answers = [replace(answers[0], caution=_caution(several[0].groups()[0], asked))]
    found: Means = side_by_side(answers)
    return found


def means_by_id(files: Files, value: str, by: Sequence[str], row_id: str, asked: Asked) -> Means:
    """Estimate the mean of each group from rows that stay in their files, whatever their order."""
    keys = [f"k{j}" for j in range(len(by))]
    group = f"GROUP BY {', '.join(keys)}" if keys else ""
    averages = files.table(
        f"SELECT {', '.join([*keys, 'avg(v0) FILTER (NOT isnan(v0)) AS plain'])} "
        f"FROM ({files.select([value], by, row_id)}) {group}"
    ).to_pylist()
    plain = {tuple(str(line[key]) for key in keys): finite(line["plain"]) for line in averages}
    scanned = Scan(file_engine(files, row_id))
    found = scanned.mean(value, by=list(by) or None, contamination=asked.contamination, **asked.options)
    if isinstance(found, RobustEstimate):
        return Means(asked, str(files), value, (), [_line((), found, plain[()])])
    lines = [_line_of_table(line, tuple(by), plain, asked) for line in _dicts(found)]
    return Means(asked, str(files), value, tuple(by), lines)


def _dicts(table: Any) -> list[dict[str, Any]]:
    """Return the lines of a pandas or Arrow table; what is missing is None."""
    if hasattr(table, "to_pylist"):
        lines: list[dict[str, Any]] = table.to_pylist()
        return lines
    return [{name: None if cell != cell else cell for name, cell in line.items()} for line in table.to_dict("records")]


def _line_of_table(
    line: Mapping[str, Any], by: tuple[str, ...], plain: Mapping[tuple[str, ...], float | None], asked: Asked
) -> MeanLine:
    """Return one group of a table by evidence, or by blocks."""
    label, n_rows, estimate = tuple(str(line[key]) for key in by), int(line["n"]), line["estimate"]
    radius = line.get("radius")
    if radius is None and estimate is not None:
        radius = max(estimate - line["low"], line["high"] - estimate)
    known = Value.checked(estimate, line["low"], line["high"], radius, line["provenance"], line["note"] or "")
    if known.estimate is None:
        return MeanLine(label, n_rows, plain[label], known, None, None, None, "")
    if "blocks" in line:
        vote = asked.vote if asked.may_be_soft else "median"
        return MeanLine(label, n_rows, plain[label], known, asked.count(n_rows), line["survives"], line["blocks"], vote)
    known = replace(known, premise_sd=line["premise_sd"])
    return MeanLine(label, n_rows, plain[label], known, line["corrupt"], line["corrupt"], None, "evidence")


def _line(label: Label, found: RobustEstimate, plain: float | None) -> MeanLine:
    plan = found.plan
    assert not isinstance(plan, GridPlan)
    # With "auto", the interval allows for the largest level.
    allowed = plan.n_corrupt if isinstance(plan.n_corrupt, int) else plan.withstands
    corrupt = found.certificate.levels[-1][0] if found.certificate.levels else allowed
    survives = corrupt if found.certificate.levels else plan.withstands
    n_rows = plan.n_rows if isinstance(plan.n_rows, int) else sum(plan.n_rows)
    return MeanLine(label, n_rows, plain, Value.of(found), corrupt, survives, plan.n_blocks, plan.vote, found)


def _caution(group: Group, asked: Asked) -> list[Level]:
    """Return the mean if none, 0.1 % and 1 % of the rows are corrupt; levels that the rows contradict are left out."""
    n_rows = int((~np.isnan(group.values)).sum()) if asked.nan == "omit" else len(group.values)
    counts = sorted({Contamination(share).count(n_rows) for share in CAUTION})
    try:
        return _levels(group, asked, counts)
    except ValueError:  # all of them are contradicted
        return []


def _levels(group: Group, asked: Asked, counts: Sequence[int] | None = None) -> list[Level]:
    found = sensitivity(group.values, levels=counts, **asked.options)
    levels = []
    columns = (found.n_corrupt, found.estimate, found.low, found.high, found.radius, found.premise_sd)
    for corrupt, estimate, low, high, radius, sd in zip(*columns, strict=True):
        known = "certified" if math.isnan(sd) else "conditional"  # where another level has no interval
        provenance = found.provenance if found.provenance != "none" else known
        provenance = provenance if math.isfinite(radius) else "none"
        value = replace(Value.checked(estimate, low, high, radius, provenance), premise_sd=finite(sd))
        levels.append(Level(group.label, int(corrupt), value))
    return levels
