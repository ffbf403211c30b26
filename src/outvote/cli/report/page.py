"""The report: one page about a mean, or about variants beside a baseline."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from outvote.cli.answer import Asked
from outvote.cli.compare import variants
from outvote.cli.mean import MeanLine, means
from outvote.cli.printing import clean
from outvote.cli.report import html
from outvote.cli.suspects import suspects
from outvote.cli.verdict import DifferenceFinding, Finding, MeanFinding, question
from outvote.data.columns import Columns
from outvote.data.writing import write_text
from outvote.estimate.curve import curve
from outvote.plotting.pages import embedded, fill

#: Groups that a page has room for.
MOST_GROUPS = 12
#: Suspect rows listed.
_SUSPECTS = 10


@dataclass(frozen=True)
class Report:
    """A report that was written: its answer in sentences, and whether everything in it has an interval."""

    path: Path
    sentences: list[str]
    complete: bool


def write_report(
    path: str | os.PathLike[str],
    columns: Columns,
    asked: Asked,
    source: str,
    *,
    inputs: Sequence[str] = (),
    command: str = "",
    baseline: str | None = None,
    threshold: float | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Report:
    """Write a page about one mean, or about the means of variants against that of a baseline.

    Parameters
    ----------
    path : path
        The page; it needs no other file and no network.
    columns : Columns
        The numbers, and at most one key.
    asked : Asked
        What was asked for.
    source : str
        What the rows are called.
    inputs : sequence of str
        The files of `columns`, in the same order; the page has their SHA-256.
    command : str
        What makes the page again.
    baseline : str, optional
        The variant to compare with; the smallest label by default.
    threshold : float, optional
        What one mean is compared with; 0 by default.
    progress : callable
        Told how far it is.
    """
    target = _checked(Path(path), inputs)
    _check_question(columns, asked, baseline, threshold)
    columns.check(asked.nan)
    found = means(columns, asked, source, progress=progress).groups
    lines = [line for line in found if not columns.keys or line.group != (None,)]
    left_out = 0
    if columns.keys:
        findings, left_out = _differences(columns, asked, baseline, lines, progress)
    else:
        found_curve = curve(asked.sides([columns.values]), bound=threshold or 0.0)
        findings = [MeanFinding(found_curve, clean(columns.name), asked.confidence, lines[0].plain)]
    listed = suspects(columns, replace(asked, nan="corrupt"), source, top=_SUSPECTS, progress=progress)
    votes = html.votes(lines)
    page = fill(
        "outvote.cli.report",
        title=escape(question(findings)),
        answer=html.answer(findings),
        groups_title="Plain against robust" + (f", by {escape(clean(columns.keys[0]))}" if columns.keys else ""),
        groups=html.groups(lines, columns.keys, asked),
        curves="\n".join(html.curve(finding, place) for place, finding in enumerate(findings)),
        blocks=html.blocks(votes),
        suspects=html.suspects(listed),
        method=html.method(findings, votes, asked, columns, left_out),
        again=html.again(columns, asked, inputs, command),
        data=embedded([html.slider(finding) for finding in findings]),
    )
    sentences = [sentence for finding in findings for sentence in (finding.answer(), finding.tolerance())]
    complete = all(finding.value.bounded for finding in findings) and all(line.mean.bounded for line in lines)
    return Report(write_text(target, page), sentences, complete)


def _check_question(columns: Columns, asked: Asked, baseline: str | None, threshold: float | None) -> None:
    """Refuse options that do not go together."""
    if isinstance(asked.contamination, str):
        raise ValueError(
            "--contamination auto: a report shows every number of corrupt rows, but starts from one: give a share "
            "(0.01) or a number of rows"
        )
    if columns.keys and threshold is not None:
        raise ValueError(f"--threshold {threshold:g} is for one mean: leave it out, or --by {columns.keys[0]}")
    if baseline is not None and not columns.keys:
        raise ValueError(f"--baseline {baseline!r} is for variants: name their column, --by COLUMN")
    if threshold is not None and not math.isfinite(threshold):
        raise ValueError(f"--threshold {threshold} must be a finite number")


def _differences(
    columns: Columns,
    asked: Asked,
    baseline: str | None,
    lines: Sequence[MeanLine],
    progress: Callable[[str], None],
) -> tuple[list[Finding], int]:
    """Compare every variant with the baseline; also return how many rows belong to none."""
    rows, first, left_out = variants(columns, baseline)
    if len(rows) > MOST_GROUPS:
        raise ValueError(
            f"--by {columns.keys[0]} has {len(rows)} values, and a report has room for {MOST_GROUPS}: "
            "outvote mean --by lists them all"
        )
    plain = {line.group[0]: line.plain for line in lines}
    names = {label: html.variant(label, columns.keys[0]) for label in rows}
    base, findings = asked.side(rows[first]), list[Finding]()
    for other in rows:
        if other != first:
            progress(f"{other} against {first}")
            found = curve([base, asked.side(rows[other])])
            a, b = plain[first], plain[other]
            gap = None if a is None or b is None else b - a
            findings.append(
                DifferenceFinding(found, clean(columns.name), asked.confidence, gap, names[first], names[other])
            )
    return findings, left_out


def _checked(path: Path, inputs: Sequence[str]) -> Path:
    """Refuse a place where a page cannot go, before any work."""
    if path.is_dir():
        raise IsADirectoryError(f"--output {str(path)!r} is a folder: name a file in it, {str(path / 'report.html')!r}")
    for file in inputs:
        if path.exists() and os.path.samefile(path, file):
            raise ValueError(f"--output {str(path)!r} is the file that is read: name another, 'report.html'")
    return path
