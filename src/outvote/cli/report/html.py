"""The parts of the report's page, as HTML."""

from __future__ import annotations

import hashlib
import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.plan import BlockPlan
from outvote.cli.answer import Asked, in_options
from outvote.cli.compare import Comparison, shared_notes
from outvote.cli.mean import MeanLine
from outvote.cli.printing import clean
from outvote.cli.report import drawing
from outvote.cli.suspects import Suspects
from outvote.cli.verdict import DifferenceFinding, Finding, MeanFinding, summary, value_at
from outvote.data.columns import Columns
from outvote.data.text import percent, rounded, share, spaced, spaced_count
from outvote.estimate.result import RobustEstimate

_PACKAGES = ("outvote", "numpy", "scipy", "duckdb")


@dataclass(frozen=True)
class Votes:
    """The robust mean of a group, with its rows."""

    label: str
    found: RobustEstimate
    plain: float | None
    rows: NDArray[np.float64]


def votes(lines: Sequence[MeanLine], columns: Columns, asked: Asked) -> list[Votes]:
    """Return the estimates that there are, with their rows: of ratios those of single rows."""
    values = columns.values
    if asked.ratio is not None:
        below = columns.more[asked.ratio]
        values = np.divide(values, below, out=np.full(len(values), np.nan), where=below > 0)
    rows = {group.label: values[group.rows] for group in columns.groups()}
    return [
        Votes(label(line.group), line.found, line.plain, rows[line.group]) for line in lines if line.found is not None
    ]


def has_intervals(finding: Finding) -> bool:
    """Return whether a curve has an interval at any number of corrupt rows."""
    return bool(np.isfinite(finding.curve.high - finding.curve.low).any())


def slider(finding: Finding, place: int) -> dict[str, object]:
    """Return the data of the slider of a curve."""
    one = finding.curve
    first, last = int(one.stops[0]), int(one.stops[-1])
    return {
        "place": place,
        "first": first,
        "last": max(last, first + 1),
        "assumed": one.assumed,
        "left": drawing.LEFT,
        "right": drawing.WIDTH - drawing.RIGHT,
        "stops": one.stops.tolist(),
        "verdict": one.verdict.tolist(),
        "words": [[finding.verdict(sign), "holds" if sign else "open"] for sign in (-1, 0, 1)],
        "said": [finding.said(int(t)) for t in one.stops],
    }


def label(group: Sequence[str | None]) -> str:
    return ", ".join(clean(part or "(none)") for part in group) if group else "all rows"


def variant(label: str, key: str) -> str:
    """Return the name of a variant; a number alone gets the name of its column."""
    number = label.replace(".", "", 1).removeprefix("-").isdigit()
    return f"{clean(key)} {clean(label)}" if number else clean(label)


def _table(
    caption: str,
    heads: Iterable[tuple[str, bool]],
    rows: Iterable[Sequence[str]],
    *,
    named: int = 0,
    cards: bool = False,
) -> str:
    """Return a table; `heads` tell which columns hold numbers, and the first `named` columns name the row.

    On narrow screens each row of `cards` becomes a list, with the heads beside its cells.
    """
    kinds = [(escape(head), ' class="number"' if number else "") for head, number in heads]
    beside = [f'{kind} data-head="{head}"' if cards else kind for head, kind in kinds]
    body = [
        "".join(
            f'<th scope="row"{kind}>{escape(cell)}</th>' if j < named else f"<td{own}>{escape(cell)}</td>"
            for j, (cell, (_, kind), own) in enumerate(zip(row, kinds, beside, strict=True))
        )
        for row in rows
    ]
    head = "".join(f'<th scope="col"{kind}>{text}</th>' for text, kind in kinds)
    grid = f"<thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{row}</tr>' for row in body)}</tbody>"
    kind = ' class="cards"' if cards else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
        f"<table{kind}><caption>{escape(caption)}</caption>{grid}</table></div>"
    )


def verdicts(
    found: Sequence[Comparison], names: Sequence[str], totals: Sequence[int], segments: Sequence[str], asked: Asked
) -> str:
    """Return the table of all comparisons, of so many rows each, and their picture on one axis."""
    digits = min((one.difference.radius for one in found if one.difference.radius), default=None)
    heads = [*((clean(name), False) for name in segments), ("variant", False), ("verdict", False)]
    heads += [("difference", True), (f"{percent(asked.confidence)} interval", True)]
    heads += [("corrupt rows it survives", True), ("lift", True), ("lift interval", True)]
    rows = []
    for one, name, total in zip(found, names, totals, strict=True):
        gap, lift = one.difference, one.lift
        ends = " to ".join(rounded(end, digits) for end in (gap.low, gap.high)) if gap.bounded else "–"
        lifts = " to ".join(share(end) for end in (lift.low, lift.high)) if lift.bounded else "–"
        survived = "–" if one.tolerance is None else f"{spaced(one.tolerance)} ({100 * one.tolerance / total:.2g} %)"
        survived = f"only up to {survived}" if one.tolerance is not None and not one.settled else survived
        larger = "larger" if (gap.estimate or 0.0) > 0 else "smaller"
        rows.append(
            [*(clean(part or "(none)") for part in one.segment), name, larger if one.settled else "not settled",
             rounded(gap.shown, digits), ends, survived, share(lift.shown), lifts]
        )  # fmt: skip
    table = _table("Is the variant larger than the baseline?", heads, rows, named=1 + len(segments), cards=True)
    shown = [label([*one.segment, name]) for one, name in zip(found, names, strict=True)]
    picture = drawing.differences(shown, [one.difference for one in found])
    caption = '<span class="key r">● difference</span> with its interval; dotted: no difference'
    drawn = len(found) > 1 and any(one.difference.bounded for one in found)
    figure = f"<figure>{picture}<figcaption>{caption}.</figcaption></figure>" if drawn else ""
    notes = [*shared_notes(found), *dict.fromkeys(one.difference.note for one in found if one.difference.note)]
    return "\n".join([table, figure, *(f'<p class="small muted">{escape(clean(note, None))}</p>' for note in notes)])


def deciding(found: Sequence[tuple[str, int, list[list[str]]]], heads: Sequence[tuple[str, bool]]) -> str:
    """Return the rows on which each verdict rests most: its title, how many there are, and the first of them."""
    if not any(rows for _, _, rows in found):
        return "<p>Nothing is settled, so no rows decide.</p>"
    tables = [
        _table(
            f"The verdict on {title}: the first {len(rows)} of {spaced_count(total, 'row')} that decide", heads, rows
        )
        for title, total, rows in found
        if rows
    ]
    return (
        "<p>Each verdict rests most on these rows, the strongest first: look at them before you act. If they are "
        "right, so is the verdict.</p>" + "\n".join(tables)
    )


def answer(findings: Sequence[Finding]) -> str:
    """Return the answer: for one question in full sentences, for several in one line with the sentences below it."""
    parts = []
    for finding in findings:
        kind = "answer" if len(findings) == 1 else "said"
        parts.append(f'<p class="{kind}">{escape(finding.answer())}</p>')
        parts.append(f'<p class="tolerance">{escape(finding.tolerance())}</p>')
    if any(finding.curve.premise and finding.value.bounded for finding in findings):
        parts.append(
            '<p class="muted">sd is the standard deviation: how far rows typically are from their mean. It was read '
            "off the rows, with room to spare; declare it if you know more.</p>"
        )
    if len(findings) > 1:
        sentences = "\n".join(parts)
        parts = [f'<p class="answer">{escape(summary(findings))}</p>']
        parts.append(f"<details><summary>In sentences, with how many corrupt rows</summary>{sentences}</details>")
    plain = [
        f"{finding.subject} is {rounded(finding.plain, finding.value.radius)}"
        for finding in findings
        if finding.plain is not None
    ]
    if plain:
        parts.append(f'<p class="muted">By plain averages, which trust every row: {escape("; ".join(plain))}.</p>')
    if any(finding.value.provenance == "plug-in" for finding in findings):
        parts.append(
            '<p class="muted">The spread of the clean rows was estimated from the same rows: the intervals are a good '
            "guess, not a guarantee.</p>"
        )
    first = findings[0]
    if isinstance(first, MeanFinding) and first.curve.note and not first.value.bounded:  # a table has its own notes
        parts.append(f'<p class="muted">{escape(clean(in_options(first.curve.note), None))}</p>')
    return "\n".join(parts)


def groups(lines: Sequence[MeanLine], keys: Sequence[str], asked: Asked) -> str:
    heads = [*((clean(key), False) for key in keys), ("rows", True), ("plain mean", True), ("robust mean", True)]
    heads += [(f"{percent(asked.confidence)} interval", True), ("corrupt rows allowed", True), ("holds", False)]
    rows = []
    for line in lines:
        value = line.mean
        ends = [rounded(end, value.radius) for end in (value.low, value.high)]
        row = [*(clean(part or "(none)") for part in line.group), spaced(line.n), rounded(line.plain, value.radius)]
        row += [rounded(value.shown, value.radius), " to ".join(ends) if value.bounded else "–"]
        row += ["–" if line.corrupt is None else spaced(line.corrupt), value.holds.replace(" ", "\u00a0")]
        rows.append(row)
    notes = [
        f'<p class="small muted">{escape(label(line.group))}: {escape(clean(line.mean.note, None))}</p>'
        for line in lines
        if line.mean.note
    ]
    caption = (
        '<span class="key r">● robust mean</span> with its interval, <span class="key p">◆ plain mean</span> '
        "(an arrow if it lies farther out)"
    )
    title = "Each group separately, for the number of corrupt rows allowed" if keys else "For the number allowed"
    table = _table(title, heads, rows, named=len(keys), cards=True)
    return "\n".join([table, *notes, f"<figure>{drawing.groups(lines)}<figcaption>{caption}.</figcaption></figure>"])


def curve(finding: Finding, place: int) -> str:
    one = finding.curve
    if not has_intervals(finding):
        return (
            f"<div><h3>{escape(finding.heading)}</h3><p>There is nothing to draw: no number of corrupt rows among "
            f"these {spaced_count(one.n_rows, 'row')} leaves an interval, not even the smallest.</p></div>"
        )
    _, sign = value_at(one, one.assumed)
    first, last = int(one.stops[0]), int(one.stops[-1])
    kind = "holds" if sign else "open"
    label = f"Corrupt rows among {spaced(one.n_rows)}, {finding.title}"
    levels = [one.stops[i] for i in np.unique(np.linspace(0, len(one.stops) - 1, 13).astype(int))]
    wanted = {*map(int, levels), one.assumed, *(() if one.stands is None else (one.stands, one.stands + 1))}
    rows = []
    for t in sorted(t for t in wanted if first <= t <= last):
        value, verdict = value_at(one, t)
        numbers = [rounded(n, value.radius) for n in (value.shown, value.low, value.high)]
        rows.append([spaced(t), *numbers, finding.verdict(verdict)])
    heads = [("corrupt rows", True), ("estimate", True), ("low", True), ("high", True), ("verdict", False)]
    turn = (
        '; <span class="key t">┆ from here on not settled</span>'
        if one.stands is not None and one.stands < last
        else ""
    )
    what = "the difference" if isinstance(finding, DifferenceFinding) else "the mean"
    return f"""<div id="curve-{place}" class="curve">
<h3>{escape(finding.heading)}</h3>
<figure>{drawing.curve(one, place, clean(finding.title, None))}
<figcaption><span class="key r">— {what}</span> and its interval; dotted: {one.bound:g}{turn};
vertical: the number of corrupt rows chosen below.</figcaption></figure>
<div class="control" hidden><label for="slider-{place}">{escape(label)}</label>
<div class="track"><input type="range" id="slider-{place}" min="{first}" max="{last}" step="1" value="{one.assumed}"
aria-describedby="outcome-{place}"></div>
<button type="button">Back to the {spaced(one.assumed)} assumed</button></div>
<p class="outcome" id="outcome-{place}" role="status" aria-live="polite">If up to
<b class="count">{spaced(one.assumed)}</b> rows are corrupt:
<span class="verdict {kind}">{escape(finding.verdict(sign))}</span>
<span class="said">{escape(finding.said(one.assumed))}</span></p>
<details><summary>Table of these numbers</summary>
{_table(f"{finding.title}, by number of corrupt rows", heads, rows, named=1)}</details>
</div>"""


def blocks(votes: Sequence[Votes], asked: Asked) -> str:
    if asked.evidence and votes:
        ends = _common_span([one.rows for one in votes], [one.found for one in votes])
        drawn = [drawing.histogram(one.label, one.rows, float(one.found.estimate), one.plain, ends) for one in votes]
        what = "ratios of single rows" if asked.ratio else "rows"
        mean = "ratio" if asked.ratio else "mean"
        return (
            f'<figure><div class="pictures">{"".join(f"<div>{one}</div>" for one in drawn)}</div>'
            f'<figcaption>Histograms of the {what}, on one axis. <span class="key r">— robust {mean}</span>, '
            f'<span class="key p">┆ plain {mean}</span>, if it is near.</figcaption></figure>'
        )
    pictures, words = [], []
    blocks = [np.asarray(one.found.block_values) for one in votes]
    ends = _common_span(blocks, [one.found for one in votes])
    for one, values in zip(votes, blocks, strict=True):
        pictures.append(drawing.histogram(one.label, values, float(one.found.estimate), one.plain, ends, of="block"))
        plan = one.found.plan
        assert isinstance(plan, BlockPlan)
        counts = f"{spaced_count(plan.n_blocks, 'block')} of {spaced_count(plan.block_size, 'row')}"
        words.append(f"{one.label}, {counts}, {plan.vote} vote")
    if not pictures:
        return "<p>No group has enough rows for a vote.</p>"
    return (
        f"<p>Each block of rows votes with its mean: {escape('; '.join(words))}.</p>"
        f'<figure><div class="pictures">{"".join(f"<div>{one}</div>" for one in pictures)}</div>'
        '<figcaption>Histogram of the block means. <span class="key r">— outcome of the vote</span>, '
        '<span class="key p">┆ plain mean</span>, if it is near.</figcaption></figure>'
    )


def _common_span(rows: Sequence[NDArray[np.float64]], found: Sequence[RobustEstimate]) -> tuple[float, float]:
    """Return the ends of one axis for all groups, which shows their estimates and intervals; wider for 0 and 1."""
    if rows and all(map(drawing.is_binary, rows)):
        return -0.125, 1.125
    shown = [float(end) for one in found for end in (one.estimate, *one.interval)]
    ends = [end for one in rows for end in drawing.span(one)] + [end for end in shown if math.isfinite(end)]
    return (min(ends), max(ends)) if ends else (0.0, 1.0)


def suspects(found: Suspects) -> str:
    missing = f" Not listed: {spaced_count(found.missing, 'row')} without a value." if found.missing else ""
    if not found.suspects:
        return f"<p>No row of {spaced(found.n)} stands out.{missing}</p>"
    files = len({one.file for one in found.suspects}) > 1
    heads = [*([("file", False)] if files else []), *((clean(key), False) for key in found.by)]
    heads += [(found.asked.unit or "row", True), (clean(found.value), True), ("score", True)]
    rows = []
    for one in found.suspects:
        cell = f"“{clean(one.text)}”" if one.value is None else f"{one.value:.10g}"
        where = [clean(one.file)] if files else []
        labels = [clean(part or "(none)") for part in one.group]
        rows.append([*where, *labels, str(one.row), cell, f"{one.score:.3f}"])
    caption = (
        f"The most suspect of {spaced(found.n)} rows. Score: the share of {found.partitions} random partitions in "
        f"which the block of the row was voted out; {found.typical:.3f} for a typical row. Row 1 is the first row of "
        "data."
        if found.asked.unit is None
        else f"The most suspect of {spaced(found.n)} rows by {clean(found.asked.unit)}. Score: the share of "
        f"{found.partitions} random partitions in which the block was voted out; {found.typical:.3f} is typical."
    )
    remark = f"<p>A high score is a reason to look at a row, not a proof.{missing}</p>"
    return remark + _table(caption, heads, rows)


def _premises(findings: Sequence[Finding], asked: Asked) -> list[str]:
    """Say what the confidence rests on."""
    items = []
    provenances = {finding.value.provenance for finding in findings}
    if asked.assume is not None:
        items.append(f"Assumption on the clean rows: {asked.assume.describe()}.")
    if "plug-in" in provenances:
        items.append(
            "The spread of the clean rows was unknown, and was estimated from the same rows (plug-in), so the "
            "confidence is approximate. "
            "Give what is known by --proportion, --sd, --bounds, --scale or --kurtosis."
        )
    elif "conditional" in provenances:
        items.append(
            "Nothing is declared of the clean rows. Their standard deviation was read off the rows, with room to "
            "spare; the confidence is proven if it is no larger. "
            "Give what is known by --proportion, --sd, --bounds, --scale or --kurtosis."
        )
    elif "certified" in provenances:
        items.append("The confidence is proven under these assumptions (certified).")
    return items


def method(findings: Sequence[Finding], votes: Sequence[Votes], asked: Asked, columns: Columns, left_out: int) -> str:
    several = isinstance(findings[0], DifferenceFinding)
    items = [
        "A row is clean or corrupt. A corrupt row may have any value; the answer is about the mean of the clean rows.",
        "The rows of each group are put into blocks at random, and the block means vote. A corrupt row affects one "
        "block, and the other blocks outvote it; a plain mean is moved by every row.",
    ]
    if asked.evidence:
        items[1] = (
            "A value is ruled out only by evidence that is left when the rows that speak most against it go, as many "
            "as may be corrupt."
        )
    kinds = {"soft": "A block mean far from the others counts less (soft vote).",
             "clipped": "A block mean far from the others is cut (clipped vote).",
             "median": "The vote is the median of the block means."}  # fmt: skip
    items.append(" ".join(kinds[kind] for kind in dict.fromkeys(one.found.plan.vote for one in votes) if kind in kinds))
    where = "in both groups together, however they are split between them" if several else "among all rows"
    items.append(
        f"Corrupt rows are counted {where}. They may be any rows, if their positions do not depend on the good values."
    )
    if several and not asked.may_be_soft and not asked.evidence:
        items.append("However they are split, each group is allowed at least its part of the number assumed.")
    items += _premises(findings, asked)
    items.append(
        f"An interval holds with {percent(asked.confidence)} confidence if no more rows are corrupt than it allows "
        "for. An answer stands up to a number of corrupt rows if the intervals for all numbers from the number assumed "
        "up to this one give the same answer."
    )
    if several and not asked.evidence:
        items.append(
            "The command outvote compare allows for a number of corrupt rows in each group, which is a stronger "
            "assumption: its interval can be narrower."
        )
    if asked.unit is not None:
        items.append(f"A row is one of {clean(asked.unit)}: what the file has of it was added up first.")
    if asked.ratio is not None:
        items.append(
            f"A ratio R is accepted if 0 can be the mean of {clean(columns.name)} - R·{clean(asked.ratio)} of the good "
            "rows, whose standard deviation is meant where one is named. A negative denominator is corrupt for certain."
        )
    if len(findings) > 1 and asked.simultaneous:
        items.append("All comparisons hold at once with this confidence.")
    elif len(findings) > 1:
        items.append("Each comparison holds with its own confidence, not all of them at once.")
    missing = int(np.isnan(columns.values).sum())
    if missing:
        does = "Left out" if asked.nan == "omit" else "Counted as corrupt"
        items.append(f"{does}: {spaced_count(missing, 'row')} without a number.")
    if left_out:
        named = " or ".join(map(clean, columns.keys))
        items.append(f"Left out: {spaced_count(left_out, 'row')} without {named}.")
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items if item)}</ul>"


def again(columns: Columns, asked: Asked, inputs: Sequence[str], command: str) -> str:
    facts = [("Command", f"<code>{escape(clean(command, None))}</code>")] if command else []
    facts.append(("Seed", str(asked.seed)))
    for place, (file, n_rows) in enumerate(columns.files):
        digest = f"<br>SHA-256 <code>{_digest(inputs[place])}</code>" if place < len(inputs) else ""
        facts.append(("File", f"{escape(clean(file, None))}, {spaced(n_rows)} rows{digest}"))
    facts.append(("Versions", escape(", ".join(f"{name} {number}" for name, number in _versions()))))
    return f"<dl>{''.join(f'<dt>{name}</dt><dd>{text}</dd>' for name, text in facts)}</dl>"


def _digest(file: str) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _versions() -> list[tuple[str, str]]:
    found = [("python", platform.python_version())]
    for name in _PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:  # pragma: no cover - all are there when files are read
            continue
    return found
