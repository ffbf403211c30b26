"""Write the report: one page about a mean, or about variants compared with a baseline."""

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
from outvote.estimate.mean import mean, vote_of_blocks
from outvote.plotting.pages import embedded, fill

#: The most groups on a page.
MOST_GROUPS = 12
#: Number of suspect rows listed.
_SUSPECTS = 10


@dataclass(frozen=True)
class Report:
    """A report that was written: its path, its answer in sentences, and whether all values have an interval."""

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
    """Write a page about one mean, or about the means of variants compared with the mean of a baseline.

    Parameters
    ----------
    path : path
        The file of the page; it needs no other file and no network.
    columns : Columns
        The numbers, and at most one key.
    asked : Asked
        The options.
    source : str
        The name of the data.
    inputs : sequence of str
        The files of `columns`, in the same order; the page shows their SHA-256.
    command : str
        The command that writes the page again.
    baseline : str, optional
        The variant to compare with; the smallest label by default.
    threshold : float, optional
        The number with which one mean is compared; 0 by default.
    progress : callable
        Called with messages on the progress.
    """
    target = _checked(Path(path), inputs)
    _check_question(columns, asked, baseline, threshold)
    columns.check(asked.nan)
    estimate = mean if asked.evidence else vote_of_blocks
    found = means(columns, asked, source, progress=progress, estimate=estimate).groups
    lines = [line for line in found if not columns.keys or line.group != (None,)]
    left_out = 0
    if columns.keys:
        findings, left_out = _differences(columns, asked, baseline, lines, progress)
    else:
        bound = threshold or 0.0
        found_curve = (
            asked.curve([columns.values], bound=bound)
            if asked.evidence
            else curve(asked.sides([columns.values]), bound=bound)
        )
        findings = [MeanFinding(found_curve, clean(columns.name), asked.confidence, lines[0].plain)]
    listed = suspects(columns, replace(asked, nan="corrupt"), source, top=_SUSPECTS, progress=progress)
    votes = html.votes(lines, columns)
    page = fill(
        "outvote.cli.report",
        title=escape(question(findings)),
        answer=html.answer(findings),
        groups_title="Plain against robust" + (f", by {escape(clean(columns.keys[0]))}" if columns.keys else ""),
        groups=html.groups(lines, columns.keys, asked),
        curves="\n".join(html.curve(finding, place) for place, finding in enumerate(findings)),
        blocks_title="The rows" if asked.evidence else "How the blocks voted",
        blocks=html.blocks(votes, asked),
        suspects=html.suspects(listed),
        method=html.method(findings, votes, asked, columns, left_out),
        again=html.again(columns, asked, inputs, command),
        data=embedded([html.slider(finding) for finding in findings]),
    )
    sentences = [sentence for finding in findings for sentence in (finding.answer(), finding.tolerance())]
    complete = all(finding.value.bounded for finding in findings) and all(line.mean.bounded for line in lines)
    return Report(write_text(target, page), sentences, complete)


def _check_question(columns: Columns, asked: Asked, baseline: str | None, threshold: float | None) -> None:
    """Raise an error for options that do not go together."""
    if isinstance(asked.contamination, str):
        raise ValueError(
            "--contamination auto: a report shows every number of corrupt rows, but needs one to start with: give a "
            "share (0.01) or a number of rows"
        )
    if columns.keys and threshold is not None:
        raise ValueError(f"--threshold {threshold:g} is for one mean: leave it out, or --by {columns.keys[0]}")
    if baseline is not None and not columns.keys:
        raise ValueError(f"--baseline {baseline!r} is for variants: give their column by --by COLUMN")
    if threshold is not None and not math.isfinite(threshold):
        raise ValueError(f"--threshold {threshold} must be a finite number")


def _differences(
    columns: Columns,
    asked: Asked,
    baseline: str | None,
    lines: Sequence[MeanLine],
    progress: Callable[[str], None],
) -> tuple[list[Finding], int]:
    """Compare every variant with the baseline, and return the findings and how many rows have no variant."""
    rows, first, left_out = variants(columns, baseline)
    if len(rows) > MOST_GROUPS:
        raise ValueError(
            f"--by {columns.keys[0]} has {len(rows)} values, but a report shows at most {MOST_GROUPS}: "
            "outvote mean --by lists them all"
        )
    plain = {line.group[0]: line.plain for line in lines}
    names = {label: html.variant(label, columns.keys[0]) for label in rows}
    base, findings = asked.side(rows[first]), list[Finding]()
    for other in rows:
        if other != first:
            progress(f"{other} against {first}")
            pair = [rows[first], rows[other]]
            found = asked.curve(pair) if asked.evidence else curve([base, asked.side(rows[other])])
            a, b = plain[first], plain[other]
            gap = None if a is None or b is None else b - a
            findings.append(
                DifferenceFinding(found, clean(columns.name), asked.confidence, gap, names[first], names[other])
            )
    return findings, left_out


def _checked(path: Path, inputs: Sequence[str]) -> Path:
    """Return the path of the page; raise an error before any work if the page cannot be written there."""
    if path.is_dir():
        raise IsADirectoryError(f"--output {str(path)!r} is a folder: give a file in it, {str(path / 'report.html')!r}")
    for file in inputs:
        if path.exists() and os.path.samefile(path, file):
            raise ValueError(f"--output {str(path)!r} is the file that is read: give another, 'report.html'")
    return path
