"""``outvote monitor``: replay a log in the order of its times, and show what one would have seen at each look."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from outvote.cli.answer import Asked, Progress, Value, silent
from outvote.data.columns import Columns
from outvote.data.text import spaced, with_radius
from outvote.estimate.monitor import Monitor

#: Dates and times that sort as text do.
_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(\.\d+)?)?)?(Z|[+-]\d\d(:?\d\d)?)?")


@dataclass(frozen=True)
class LookLine:
    """What one would have seen at one time: the rows so far, the value with its interval, whether it was decided."""

    time: str
    n: int
    value: Value
    decided: bool | None


@dataclass(frozen=True)
class Watched:
    """The answer of ``outvote monitor``."""

    asked: Asked
    source: str
    value: str
    time: str
    by: str | None
    arms: tuple[str, ...]
    claim: str | None
    statistic: str
    looks: list[LookLine]
    sentence: str

    @property
    def complete(self) -> bool:
        """Whether the last look has an interval."""
        return self.looks[-1].value.bounded


def watch(
    columns: Columns,
    asked: Asked,
    source: str,
    *,
    claim: str | None = None,
    baseline: str | None = None,
    n_looks: int = 20,
    n_plan: int | None = None,
    figure: Path | None = None,
    progress: Progress = silent,
) -> Watched:
    """Replay rows in the order of their first key, which is the time; the second key, if any, is the arm."""
    asked.check(columns)
    time, by = columns.keys[0], columns.keys[1] if len(columns.keys) == 2 else None
    times, ranks = _times(columns, time)
    arms, which = _arms(columns, by, baseline)
    order = np.argsort(ranks, kind="stable")
    ranks, which, values = ranks[order], which[order], columns.values[order]
    if n_plan is None:
        n_plan = max(int(np.bincount(which, minlength=len(arms)).max()), 2)
    monitor = Monitor(
        asked.assume, asked.contamination, asked.confidence, n_plan,
        claim=claim, baseline=arms[0] if by else None, nan_policy=asked.nan,
    )  # fmt: skip
    lines, start = [], 0
    ends = _ends(ranks, n_looks)
    for number, end in enumerate(ends, 1):
        progress(f"look {number} of {len(ends)}")
        for j, arm in enumerate(arms):
            monitor.update(values[start:end][which[start:end] == j], arm=arm if by else "")
        start = end
        lines.append(_look(monitor, times[ranks[end - 1]], by is not None or claim is not None))
    if figure is not None:
        from outvote.plotting import save

        save(monitor.plot().figure_, figure)
    statistic = "difference" if by else "mean"
    names, claim = tuple(arms) if by else (), claim or ("difference > 0" if by else None)
    sentence = _sentence(lines, names, claim, monitor.result().certificate.premise if lines[-1].value.bounded else "")
    return Watched(asked, source, columns.name, time, by, names, claim, statistic, lines, sentence)


def _times(columns: Columns, name: str) -> tuple[list[str], NDArray[np.intp]]:
    """Return the different times in their order, and which of them each row has."""
    labels = [label[0] for label in columns.labels]
    missing = sum(int(np.count_nonzero(columns.codes == i)) for i, label in enumerate(labels) if label is None)
    if missing:
        raise ValueError(f"--time {name} has no value in {missing} of {len(columns.values)} rows: every row needs one")
    times = list(dict.fromkeys(label for label in labels if label is not None))
    if not all(_is_number(one) for one in times):
        odd = next((one for one in times if not _DATE.fullmatch(one)), None)
        if odd is not None:
            raise ValueError(
                f"--time {name} has {odd!r}, which is neither a number nor a date such as 2026-03-01 12:30"
            )
    place = {one: i for i, one in enumerate(times)}
    return times, np.array([place[str(label)] for label in labels])[columns.codes]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _arms(columns: Columns, by: str | None, baseline: str | None) -> tuple[list[str], NDArray[np.intp]]:
    """Return the arms, the baseline first, and which of them each row belongs to."""
    if by is None:
        return [""], np.zeros(len(columns.values), dtype=np.intp)
    labels = [label[1] for label in columns.labels]
    arms = sorted({label for label in labels if label is not None})
    if len(arms) != 2 or None in labels:
        empty = " and empty cells" * (None in labels)
        raise ValueError(f"--by {by} has {len(arms)} values{empty}, but a monitor compares two")
    if baseline is not None:
        if baseline not in arms:
            near = difflib.get_close_matches(baseline, arms, 1) or arms
            raise ValueError(f"--baseline {baseline!r} is not a value of {by!r}: did you mean {near[0]!r}?")
        arms.sort(key=lambda arm: arm != baseline)
    return arms, np.array([arms.index(str(label)) for label in labels])[columns.codes]


def _ends(ranks: NDArray[np.intp], n_looks: int) -> list[int]:
    """Return after how many rows to look: about as many rows apart, and never between rows of one time."""
    n = len(ranks)
    changes = np.append(np.flatnonzero(np.diff(ranks)) + 1, n)
    wanted = np.linspace(n / n_looks, n, n_looks)
    return np.unique(changes[np.minimum(np.searchsorted(changes, wanted - 1e-9), len(changes) - 1)]).tolist()


def _look(monitor: Monitor, time: str, claimed: bool) -> LookLine:
    try:
        found, decided = monitor.result(), monitor.decided if claimed else None
    except ValueError as error:  # one of the arms has no rows yet
        return LookLine(time, monitor.n_rows, Value.missing(error), None)
    return LookLine(time, monitor.n_rows, Value.of(found), decided)


def _sentence(lines: list[LookLine], arms: tuple[str, ...], claim: str | None, premise: str) -> str:
    """Say when the claim was decided for the first time, or that it was not."""
    last = lines[-1]
    shown = "" if last.value.estimate is None else f"{with_radius(last.value.estimate, last.value.radius or 0.0)}"
    what = f"mean({arms[1]}) - mean({arms[0]})" if arms else "the mean"
    condition = f" (if {premise})" if premise else ""
    now = f"After all {spaced(last.n)} rows {what} is {shown}{condition}." if last.value.bounded else ""
    first = next((line for line in lines if line.decided is not None), None)
    if claim is None:
        return now
    if first is None:
        return f"{claim} is not decided after {spaced(last.n)} rows. {now}".strip()
    words = "is true" if first.decided else "is false"
    return f"{claim} {words}: decided at {first.time}, after {spaced(first.n)} rows. {now}".strip()
