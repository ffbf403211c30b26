"""Write the report: one page about a mean, or about variants compared with a baseline."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.cli.answer import Asked
from outvote.cli.compare import Comparison, by_blocks, by_evidence
from outvote.cli.mean import MeanLine, means
from outvote.cli.printing import clean
from outvote.cli.report import html
from outvote.cli.suspects import suspects
from outvote.cli.variants import Pairing, pairings
from outvote.cli.verdict import DifferenceFinding, Finding, MeanFinding, question, value_at
from outvote.data.columns import Columns, Group, Label
from outvote.data.missing import ContradictionError
from outvote.data.writing import check_output, write_text
from outvote.estimate.curve import Side, curve
from outvote.estimate.mean import mean, vote_of_blocks
from outvote.estimate.ordered import MANY_ROWS
from outvote.estimate.result import RobustEstimate
from outvote.plotting.pages import embedded, fill

#: The most groups on a page.
MOST_GROUPS = 12
#: Numbers of suspect rows, and of deciding rows for each comparison, that are listed.
_SUSPECTS, _DECIDING = 10, 5
#: Seconds that numpy takes to compare two variants whose rows are counted in bins.
_SECONDS = 0.5


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
    target = check_output("--output", path, inputs, "report.html")
    _check_question(columns, asked, baseline, threshold)
    asked.check(columns)
    columns = columns.added_up(asked.covariate, asked.count)
    lines = _means_of_groups(columns, asked, source, progress)
    compared: list[_Compared] = []
    left_out = 0
    if columns.keys:
        compared, left_out = _differences(columns, asked, baseline, progress)
        findings: list[Finding] = [one.finding for one in compared]
    else:
        bound = threshold or 0.0
        values = columns.values
        found_curve = asked.curve(values, bound=bound) if asked.evidence else curve(asked.sides([values]), bound=bound)
        findings = [MeanFinding(found_curve, clean(columns.name), asked.confidence, lines[0].plain)]
    listed = suspects(_judged(columns, asked, lines), replace(asked, nan="corrupt"), source, top=_SUSPECTS,
                      progress=progress)  # fmt: skip
    votes = html.votes(lines, columns, asked)
    page = fill(
        "outvote.cli.report",
        title=escape(question(findings)),
        verdicts=_verdicts(compared, columns, asked),
        answer=html.answer(findings),
        groups_title="Plain against robust" + (f", by {escape(clean(columns.keys[0]))}" if columns.keys else ""),
        groups=html.groups(lines, columns.keys, asked),
        curves="\n".join(html.curve(finding, place) for place, finding in enumerate(findings)),
        deciding=_deciding(compared, columns, asked),
        blocks_title="The rows" if asked.evidence else "How the blocks voted",
        blocks=html.blocks(votes, asked),
        suspects=html.suspects(listed),
        method=html.method(findings, votes, asked, columns, left_out),
        again=html.again(columns, asked, inputs, command),
        data=embedded([html.slider(one, j) for j, one in enumerate(findings) if html.has_intervals(one)]),
    )
    sentences = [sentence for finding in findings for sentence in (finding.answer(), finding.tolerance())]
    complete = all(finding.value.bounded for finding in findings) and all(line.mean.bounded for line in lines)
    return Report(write_text(target, page), sentences, complete)


def _means_of_groups(columns: Columns, asked: Asked, source: str, progress: Callable[[str], None]) -> list[MeanLine]:
    """Estimate each group by itself: its mean, or the ratio of its means."""
    estimate: Callable[..., RobustEstimate] = mean if asked.evidence else vote_of_blocks
    if asked.covariate is not None:  # what is declared speaks of adjusted values
        asked = replace(asked, assume=None)

    def rows_of(group: Group) -> NDArray[np.float64]:
        if asked.ratio is None:
            return group.values
        return np.column_stack([columns.more[asked.ratio][group.rows], group.values])

    if asked.ratio is not None:
        estimate = partial(mean, ratio=True)
    plain = replace(columns, more={})  # a row without a covariate has a value
    found = means(plain, replace(asked, nan=asked.nan), source, progress=progress, estimate=estimate, rows_of=rows_of)
    return [line for line in found.groups if None not in line.group]


def _judged(columns: Columns, asked: Asked, lines: Sequence[MeanLine]) -> Columns:
    """Return what rows are judged by: their values, or numerator - ratio·denominator with the ratio of their group."""
    if asked.ratio is None:
        return columns
    ratios = {line.group: line.mean.estimate or 0.0 for line in lines}
    each = np.array([ratios.get(label, 0.0) for label in columns.labels])
    gaps = columns.values - each[columns.codes] * columns.more[asked.ratio]
    return replace(columns, name=f"{columns.name} - R·{asked.ratio}", values=gaps)


@dataclass(frozen=True)
class _Compared:
    """A comparison, what is found of it, and its rows that decide: the arm and the row of each."""

    pair: Pairing
    line: Comparison
    finding: Finding
    deciding: list[tuple[str, int]]


def _differences(
    columns: Columns, asked: Asked, baseline: str | None, progress: Callable[[str], None]
) -> tuple[list[_Compared], int]:
    """Compare every variant with the baseline, and return how many rows have no variant."""
    pairs, first, left_out = pairings(columns, asked, baseline)
    if len(pairs) > MOST_GROUPS - 1:
        raise ValueError(
            f"--by {columns.keys[0]} has {len(pairs) + 1} values, but a report shows at most {MOST_GROUPS}: "
            "outvote mean --by lists them all"
        )
    if asked.evidence:  # before the first of some ten thousand products, not after a second of them
        long = [all(len(arm.values) >= MANY_ROWS for arm in (pair.baseline, pair.other)) for pair in pairs]
        _numba.compiled(_SECONDS * sum(long))
    parts, found = len(pairs) if asked.simultaneous else 1, []
    bases: dict[Label, Side] = {}
    for pair in pairs:
        progress(f"{pair.other.label} against {first}")
        deciding: list[tuple[str, int]] = []
        if asked.evidence:
            contrast = pair.contrast(asked, parts, shown=True)
            if isinstance(contrast.curve, ValueError):
                raise contrast.curve
            if isinstance(contrast.gap, ContradictionError):
                raise contrast.gap
            one, line = contrast.curve, by_evidence(pair, asked, contrast)
            arms = (pair.baseline, pair.other)
            if contrast.settled:
                deciding = [(arms[s].label, int(arms[s].rows[i])) for s, i in contrast.deciding(_DECIDING)]
        else:
            base = bases.setdefault(pair.segment, asked.side(pair.baseline.values))
            one = curve([base, asked.side(pair.other.values)])
            line = replace(by_blocks(pair, asked, one), difference=value_at(one, one.assumed)[0],
                           tolerance=one.stands, settled=one.settled)  # fmt: skip
        names = [html.variant(arm.label, columns.keys[0]) for arm in (pair.baseline, pair.other)]
        where = ", ".join(
            html.variant(str(label), key) for label, key in zip(pair.segment, columns.keys[1:], strict=True)
        )
        what = clean(_what(columns, asked), None)
        finding = DifferenceFinding(one, what, asked.confidence, pair.plain(asked), names[0], names[1], where)
        found.append(_Compared(pair, line, finding, deciding))
    return found, left_out


def _what(columns: Columns, asked: Asked) -> str:
    """Return what variants are compared by, in a few words."""
    if asked.ratio is not None:
        return f"{columns.name}/{asked.ratio}"
    per = f" per {asked.unit}" if asked.unit is not None else ""
    return f"mean {columns.name}{per}" + (f", adjusted by {asked.covariate}," if asked.covariate is not None else "")


def _verdicts(compared: Sequence[_Compared], columns: Columns, asked: Asked) -> str:
    """Return the table of verdicts, which a single mean has not."""
    if not compared:
        return ""
    names = [html.variant(one.pair.other.label, columns.keys[0]) for one in compared]
    totals = [one.finding.curve.n_rows for one in compared]
    return html.verdicts([one.line for one in compared], names, totals, columns.keys[1:], asked)


def _deciding(compared: Sequence[_Compared], columns: Columns, asked: Asked) -> str:
    """Return the section on the rows that decide, which votes of blocks have not."""
    if not compared or not asked.evidence:
        return ""
    files = len(columns.files) > 1 and asked.unit is None
    heads = [*([("file", False)] if files else []), (asked.unit or "row", True), (clean(columns.keys[0]), False)]
    heads += [(clean(name), True) for name in (columns.name, *columns.more)]
    found = []
    for one in compared:
        rows = []
        for arm, row in one.deciding:
            file, number = columns.place(row)
            cells = [f"{values[row]:.10g}" for values in (columns.values, *columns.more.values())]
            rows.append([*([clean(file)] if files else []), clean(str(number)), clean(arm), *cells])
        found.append((one.finding.title, 1 + (one.finding.curve.stands or 0), rows))
    return (
        '<section aria-labelledby="deciding">\n<h2 id="deciding">The rows that decide</h2>\n'
        f"{html.deciding(found, heads)}\n</section>"
    )


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
