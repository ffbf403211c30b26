"""The report: what its page says, and the file it becomes."""

from __future__ import annotations

import hashlib
import math
import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from outvote.blocks.plan import BlockPlan
from outvote.cli import answers
from outvote.cli.answers import Asked, MeanLine, Suspects, Value, may_be_soft, variants
from outvote.cli.printing import clean, rounded
from outvote.cli.report import drawing
from outvote.cli.report.curves import Curve, curve
from outvote.data.files import Columns, Label
from outvote.data.writing import write_text
from outvote.estimate.estimate import mean
from outvote.estimate.result import RobustEstimate, percent
from outvote.plotting.base import spaced
from outvote.plotting.pages import embedded, fill

#: Groups that a page has room for.
MOST_GROUPS = 12
#: Suspect rows listed.
_SUSPECTS = 10
_PACKAGES = ("outvote", "numpy", "scipy", "duckdb")
_NO_INTERVAL = "Nothing can be said: so many corrupt rows could outvote the good ones."


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
    if isinstance(asked.contamination, str):
        raise ValueError(
            "--contamination auto: a report shows every number of corrupt rows, but starts from one: give a share "
            "(0.01) or a number of rows"
        )
    if columns.keys and threshold is not None:
        raise ValueError(f"--threshold {threshold:g} is for one mean: leave it out, or --by {columns.keys[0]}")
    if baseline is not None and not columns.keys:
        raise ValueError(f"--baseline {baseline!r} is for variants: name their column, --by COLUMN")
    columns.check(asked.nan)
    name, left_out = clean(columns.name), 0
    lines = [
        line
        for line in answers.means(columns, asked, source, progress=progress).groups
        if not columns.keys or line.group != (None,)
    ]
    plain = {line.group: line.plain for line in lines}
    if columns.keys:
        groups, first, left_out = variants(columns, baseline)
        if len(groups) > MOST_GROUPS:
            raise ValueError(
                f"--by {columns.keys[0]} has {len(groups)} values, and a report has room for {MOST_GROUPS}: "
                "outvote mean --by lists them all"
            )
        findings: list[_Finding] = []
        for other in groups:
            if other != first:
                progress(f"{other} against {first}")
                found = curve([groups[first], groups[other]], asked)
                a, b = plain[(first,)], plain[(other,)]
                names = [_variant(label, columns.keys[0]) for label in (first, other)]
                gap = None if a is None or b is None else b - a
                findings.append(_Difference(found, name, asked.confidence, gap, *names))
    else:
        bound = 0.0 if threshold is None else float(threshold)
        if not math.isfinite(bound):
            raise ValueError(f"--threshold {bound} must be a finite number")
        findings = [_Mean(curve([columns.values], asked, bound=bound), name, asked.confidence, plain[()])]
    suspects = answers.suspects(columns, replace(asked, nan="corrupt"), source, top=_SUSPECTS, progress=progress)
    votes = _votes(columns, asked, plain)
    sentences = [sentence for finding in findings for sentence in (finding.answer(), finding.tolerance())]
    page = fill(
        "outvote.cli.report",
        title=escape(_question(findings)),
        answer=_answer(findings),
        groups_title="Plain against robust" + (f", by {escape(clean(columns.keys[0]))}" if columns.keys else ""),
        groups=_groups(lines, columns.keys, asked),
        curves="\n".join(_curve(finding, place) for place, finding in enumerate(findings)),
        blocks=_blocks(votes),
        suspects=_suspects(suspects),
        method=_method(findings, votes, asked, columns, left_out),
        again=_again(columns, asked, inputs, command),
        data=embedded([finding.data() for finding in findings]),
    )
    complete = all(finding.value.bounded for finding in findings) and all(line.mean.bounded for line in lines)
    return Report(write_text(target, page), sentences, complete)


def _checked(path: Path, inputs: Sequence[str]) -> Path:
    """Refuse a place where a page cannot go, before any work."""
    if path.is_dir():
        raise IsADirectoryError(f"--output {str(path)!r} is a folder: name a file in it, {str(path / 'report.html')!r}")
    for file in inputs:
        if path.exists() and os.path.samefile(path, file):
            raise ValueError(f"--output {str(path)!r} is the file that is read: name another, 'report.html'")
    return path


# --- what is found ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Finding(ABC):
    """A curve, and what it says in words."""

    curve: Curve
    name: str
    confidence: float
    plain: float | None

    @property
    def value(self) -> Value:
        return self.curve.at(self.curve.assumed)[0]

    @property
    @abstractmethod
    def title(self) -> str:
        """What the finding is about."""

    @property
    @abstractmethod
    def subject(self) -> str:
        """What the number is of."""

    @abstractmethod
    def verdict(self, sign: int) -> str:
        """Say in a few words what is settled."""

    @abstractmethod
    def claim(self, sign: int) -> str:
        """Say in a sentence what is settled, without its number."""

    @abstractmethod
    def open(self) -> str:
        """Say what is not settled."""

    @abstractmethod
    def between(self, value: Value, sign: int) -> str:
        """Say where the number lies."""

    def rows(self, count: int) -> str:
        """Write how many of the rows."""
        return f"{spaced(count)} of the {spaced(self.curve.n_rows)} rows"

    def answer(self) -> str:
        """Answer the question, for the number of corrupt rows assumed."""
        value, sign = self.curve.at(self.curve.assumed)
        assumed = self.rows(self.curve.assumed)
        if not value.bounded:
            return f"Nothing can be said of {self.title} if up to {assumed} are corrupt."
        if not sign:
            return f"It is not settled {self.open()} if up to {assumed} are corrupt: {self.between(value, 0)}."
        even = f"even if up to {assumed} are" if self.curve.assumed else "if no row is"
        return f"{self.claim(sign)}: {self.between(value, sign)}, {even} corrupt."

    def tolerance(self) -> str:
        """Say how many corrupt rows it takes to overturn the answer."""
        one = self.curve
        none = (
            "even if no row is corrupt"
            if not one.certain
            else f"even if only the {spaced(one.certain)} are corrupt that give themselves away"
        )
        if one.stands is None:
            return f"The rows do not settle it {none}."
        share = f"{100 * one.stands / one.n_rows:.2g} %"
        if self.curve.settled:
            return (
                f"It takes more than {spaced(one.stands)} corrupt rows ({share}), wherever they are, to overturn this."
            )
        claim = self.claim(one.at(one.start)[1])
        few = f"at most {spaced(one.stands)} rows ({share}) are" if one.stands else "no row is"
        return f"{claim} if {few} corrupt."

    def said(self, count: int) -> str:
        """Say where the number lies if so many rows are corrupt."""
        value, sign = self.curve.at(count)
        if not value.bounded:
            return _NO_INTERVAL
        text = self.between(value, sign)
        return f"{text[:1].upper()}{text[1:]}."

    def data(self) -> dict[str, object]:
        """What the slider needs."""
        one = self.curve
        first, last = int(one.stops[0]), int(one.stops[-1])
        return {
            "first": first,
            "last": max(last, first + 1),
            "assumed": one.assumed,
            "left": drawing.LEFT,
            "right": drawing.WIDTH - drawing.RIGHT,
            "stops": one.stops.tolist(),
            "verdict": one.verdict.tolist(),
            "words": [[self.verdict(sign), "holds" if sign else "open"] for sign in (-1, 0, 1)],
            "said": [self.said(int(t)) for t in one.stops],
        }


@dataclass(frozen=True)
class _Difference(_Finding):
    baseline: str
    other: str

    @property
    def title(self) -> str:
        return f"{self.other} against {self.baseline}"

    @property
    def subject(self) -> str:
        return f"{self.other} minus {self.baseline}"

    def verdict(self, sign: int) -> str:
        return f"{self.other if sign > 0 else self.baseline} is larger" if sign else "not settled"

    def claim(self, sign: int) -> str:
        sides = (self.other, self.baseline) if sign > 0 else (self.baseline, self.other)
        return f"{sides[0]} has a larger mean {self.name} than {sides[1]}"

    def open(self) -> str:
        return f"whether {self.other} or {self.baseline} has the larger mean {self.name}"

    def between(self, value: Value, sign: int) -> str:
        turned = sign or 1
        numbers = [None if n is None else turned * n for n in (value.estimate, value.low, value.high)]
        best, *ends = (rounded(n, value.radius) for n in numbers)
        low, high = ends if turned > 0 else ends[::-1]
        interval = f"{percent(self.confidence)} interval {low} to {high}"
        if sign:
            return f"by {best} ({interval})"
        return f"{self.subject} is {best} ({interval})"


@dataclass(frozen=True)
class _Mean(_Finding):
    @property
    def title(self) -> str:
        return f"the mean of {self.name}"

    @property
    def subject(self) -> str:
        return "it"

    def verdict(self, sign: int) -> str:
        return f"{'above' if sign > 0 else 'below'} {self.curve.bound:g}" if sign else "not settled"

    def claim(self, sign: int) -> str:
        return f"The mean of {self.name} is {self.verdict(sign)}"

    def open(self) -> str:
        return f"whether the mean of {self.name} is above or below {self.curve.bound:g}"

    def between(self, value: Value, sign: int) -> str:
        best, low, high = (rounded(n, value.radius) for n in (value.estimate, value.low, value.high))
        return f"{self.subject} is {best} ({percent(self.confidence)} interval {low} to {high})"


def _question(findings: Sequence[_Finding]) -> str:
    first = findings[0]
    if isinstance(first, _Difference):
        if len(findings) == 1:
            return f"Is the mean {first.name} of {first.other} larger than that of {first.baseline}?"
        return f"Which have a larger mean {first.name} than {first.baseline}?"
    return f"What is the mean of {first.name}, and is it above {first.curve.bound:g}?"


@dataclass(frozen=True)
class _Votes:
    """The robust mean of a group with its blocks."""

    label: str
    found: RobustEstimate
    plain: float | None

    @property
    def plan(self) -> BlockPlan:
        assert isinstance(self.found.plan, BlockPlan)
        return self.found.plan


def _votes(columns: Columns, asked: Asked, plain: dict[Label, float | None]) -> list[_Votes]:
    votes = []
    for group in columns.groups():
        if group.label == (None,):
            continue
        try:
            found = mean(group.values, asked.contamination, **asked.options)
        except ValueError:
            continue  # the table says why
        votes.append(_Votes(_label(group.label), found, plain[group.label]))
    return votes


# --- HTML ---------------------------------------------------------------------------------------------------


def _label(group: Sequence[str | None]) -> str:
    return clean(group[0] or "(none)") if group else "all rows"


def _variant(label: str, key: str) -> str:
    """Name a variant; a number alone would be read as one."""
    number = label.replace(".", "", 1).removeprefix("-").isdigit()
    return f"{clean(key)} {clean(label)}" if number else clean(label)


def _many(count: int, what: str) -> str:
    return f"{spaced(count)} {what}{'' if count == 1 else 's'}"


def _table(caption: str, heads: Iterable[tuple[str, bool]], rows: Iterable[Sequence[str]], *, named: int = 0) -> str:
    """Write a table; heads say whether a column holds numbers, the first `named` columns name the row."""
    kinds = [(escape(head), ' class="number"' if number else "") for head, number in heads]
    body = [
        "".join(
            f'<th scope="row"{kind}>{escape(cell)}</th>' if j < named else f"<td{kind}>{escape(cell)}</td>"
            for j, (cell, (_, kind)) in enumerate(zip(row, kinds, strict=True))
        )
        for row in rows
    ]
    head = "".join(f'<th scope="col"{kind}>{text}</th>' for text, kind in kinds)
    grid = f"<thead><tr>{head}</tr></thead><tbody>{''.join(f'<tr>{row}</tr>' for row in body)}</tbody>"
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">'
        f"<table><caption>{escape(caption)}</caption>{grid}</table></div>"
    )


def _answer(findings: Sequence[_Finding]) -> str:
    parts = []
    for finding in findings:
        parts.append(f'<p class="answer">{escape(finding.answer())}</p>')
        parts.append(f'<p class="tolerance">{escape(finding.tolerance())}</p>')
    told = [
        f"{finding.subject} is {rounded(finding.plain, finding.value.radius)}"
        for finding in findings
        if finding.plain is not None
    ]
    if told:
        parts.append(f'<p class="muted">By plain means, which trust every row: {escape("; ".join(told))}.</p>')
    if any(finding.value.provenance == "plug-in" for finding in findings):
        parts.append(
            '<p class="muted">The spread of the good rows was estimated from the same rows: take the intervals for a '
            "good guess, not for a guarantee.</p>"
        )
    notes = dict.fromkeys(
        finding.curve.note for finding in findings if finding.curve.note and not finding.value.bounded
    )
    parts += [f'<p class="muted">{escape(clean(note, None))}</p>' for note in notes]
    return "\n".join(parts)


def _groups(lines: Sequence[MeanLine], keys: Sequence[str], asked: Asked) -> str:
    heads = [*((clean(key), False) for key in keys), ("rows", True), ("plain mean", True), ("robust mean", True)]
    heads += [(f"{percent(asked.confidence)} interval", True), ("corrupt rows allowed for", True), ("grounds", False)]
    rows = []
    for line in lines:
        value = line.mean
        ends = [rounded(end, value.radius) for end in (value.low, value.high)]
        row = [*([_label(line.group)] if keys else []), spaced(line.n), rounded(line.plain, value.radius)]
        row += [rounded(value.estimate, value.radius), " to ".join(ends) if value.bounded else "–"]
        row += ["–" if line.corrupt is None else spaced(line.corrupt), value.provenance]
        rows.append(row)
    notes = [
        f'<p class="small muted">{escape(_label(line.group))}: {escape(clean(line.mean.note, None))}</p>'
        for line in lines
        if line.mean.note
    ]
    caption = (
        '<span class="key r">● robust mean</span> with its interval, <span class="key p">◆ plain mean</span> '
        "(an arrow where it lies farther out)"
    )
    title = "Each group for itself, for so many corrupt rows in it" if keys else "For so many corrupt rows"
    table = _table(title, heads, rows, named=len(keys))
    return "\n".join([table, *notes, f"<figure>{drawing.groups(lines)}<figcaption>{caption}.</figcaption></figure>"])


def _curve(finding: _Finding, place: int) -> str:
    one = finding.curve
    _, sign = one.at(one.assumed)
    first, last = int(one.stops[0]), int(one.stops[-1])
    kind = "holds" if sign else "open"
    label = f"Corrupt rows among {spaced(one.n_rows)}, {finding.title}"
    levels = [one.stops[i] for i in np.unique(np.linspace(0, len(one.stops) - 1, 13).astype(int))]
    wanted = {*map(int, levels), one.assumed, *(() if one.stands is None else (one.stands, one.stands + 1))}
    rows = []
    for t in sorted(t for t in wanted if first <= t <= last):
        value, verdict = one.at(t)
        numbers = [rounded(n, value.radius) for n in (value.estimate, value.low, value.high)]
        rows.append([spaced(t), *numbers, finding.verdict(verdict)])
    heads = [("corrupt rows", True), ("estimate", True), ("low", True), ("high", True), ("verdict", False)]
    turn = (
        '; <span class="key t">┆ from here on not settled</span>'
        if one.stands is not None and one.stands < last
        else ""
    )
    what = "the difference of means" if isinstance(finding, _Difference) else "the mean"
    return f"""<div id="curve-{place}" class="curve">
<h3>{escape(finding.title[:1].upper() + finding.title[1:])}</h3>
<figure>{drawing.curve(one, place, clean(finding.title, None))}
<figcaption><span class="key r">— {what}</span> and its interval; dotted: {one.bound:g}{turn};
upright: the number below.</figcaption></figure>
<div class="control" hidden><label for="slider-{place}">{escape(label)}</label>
<div class="track"><input type="range" id="slider-{place}" min="{first}" max="{last}" step="1" value="{one.assumed}"
aria-describedby="outcome-{place}"></div>
<button type="button">Back to the {spaced(one.assumed)} assumed</button></div>
<p class="outcome" id="outcome-{place}" role="status" aria-live="polite">If up to
<b class="count">{spaced(one.assumed)}</b> rows are corrupt:
<span class="verdict {kind}">{escape(finding.verdict(sign))}</span>
<span class="said">{escape(finding.said(one.assumed))}</span></p>
<details><summary>The same in numbers</summary>
{_table(f"{finding.title}, by number of corrupt rows", heads, rows, named=1)}</details>
</div>"""


def _blocks(votes: Sequence[_Votes]) -> str:
    pictures, words = [], []
    for one in votes:
        values = one.found.block_values
        assert isinstance(values, np.ndarray)
        pictures.append(drawing.blocks(one.label, values, float(one.found.estimate), one.plain))
        plan = one.plan
        counts = f"{_many(plan.n_blocks, 'block')} of {_many(plan.block_size, 'row')}"
        words.append(f"{one.label}, {counts}, {plan.vote} vote")
    if not pictures:
        return "<p>No group has enough rows for a vote.</p>"
    return (
        f"<p>Each block of rows has a mean, and each mean a vote: {escape('; '.join(words))}.</p>"
        f'<figure><div class="pictures">{"".join(f"<div>{one}</div>" for one in pictures)}</div>'
        '<figcaption>How many blocks have which mean. <span class="key r">— what they voted for</span>, '
        '<span class="key p">┆ plain mean</span>, where it is near.</figcaption></figure>'
    )


def _suspects(found: Suspects) -> str:
    missing = f" Not listed: {_many(found.missing, 'row')} without a value." if found.missing else ""
    if not found.suspects:
        return f"<p>No row of {spaced(found.n)} stands out.{missing}</p>"
    files = len({one.file for one in found.suspects}) > 1
    heads = [*([("file", False)] if files else []), *((clean(key), False) for key in found.by)]
    heads += [("row", True), (clean(found.value), True), ("score", True)]
    rows = []
    for one in found.suspects:
        cell = f"“{clean(one.text)}”" if one.value is None else f"{one.value:.10g}"
        where = [clean(one.file)] if files else []
        labels = [clean(part or "(none)") for part in one.group]
        rows.append([*where, *labels, str(one.row), cell, f"{one.score:.3f}"])
    caption = (
        f"The most suspect of {spaced(found.n)} rows. Score: the share of {found.partitions} random dealings in which "
        f"the block of the row was voted out; {found.typical:.3f} for a row in the middle. Row 1 is the first row of "
        "data."
    )
    said = f"<p>A high score is a reason to look at a row, not a proof.{missing}</p>"
    return said + _table(caption, heads, rows)


def _method(
    findings: Sequence[_Finding], votes: Sequence[_Votes], asked: Asked, columns: Columns, left_out: int
) -> str:
    several = isinstance(findings[0], _Difference)
    items = [
        "A row is good or corrupt. A corrupt row may say anything; the answer is about the mean of the good ones.",
        "The rows of each group are dealt at random into blocks, and the block means vote. A corrupt row spoils one "
        "block, and the others outvote it; a plain mean is moved by every row.",
    ]
    kinds = {"soft": "A block mean far from the others counts less (soft vote).",
             "clipped": "A block mean far from the others is cut (clipped vote).",
             "median": "The vote is their median."}  # fmt: skip
    items.append(" ".join(kinds[kind] for kind in dict.fromkeys(one.plan.vote for one in votes) if kind in kinds))
    where = "in both groups together, however they are split between them" if several else "among all rows"
    items.append(
        f"Corrupt rows are counted {where}. They may be any rows, as long as it does not depend on the good values "
        "which ones they are."
    )
    if several and not may_be_soft(asked):
        items.append("However they are split, each group is allowed at least its part of the number assumed.")
    grounds = {finding.value.provenance for finding in findings}
    if asked.assume is not None:
        items.append(f"Assumed of the good rows: {asked.assume.describe()}.")
    if "plug-in" in grounds:
        items.append(
            "Nothing was known of how far the good rows spread: that was estimated from the same rows (plug-in), so "
            "the confidence is approximate. --sd, --bounds, --scale or --kurtosis say what is known."
        )
    elif "certified" in grounds:
        items.append("The confidence is proven under these assumptions (certified).")
    items.append(
        f"An interval holds with {percent(asked.confidence)} confidence if no more rows are corrupt than it allows "
        "for. What it takes to overturn an answer is counted from the number assumed: at every number from there on "
        "the interval must say the same."
    )
    if several:
        items.append(
            "The command outvote compare allows for a number of corrupt rows in each group, which says more of where "
            "they are: its interval can be narrower."
        )
    if len(findings) > 1:
        items.append("Each comparison holds with its own confidence, not all of them at once.")
    missing = int(np.isnan(columns.values).sum())
    if missing:
        does = "Left out" if asked.nan == "omit" else "Counted as corrupt"
        items.append(f"{does}: {_many(missing, 'row')} without a number.")
    if left_out:
        items.append(f"Left out: {_many(left_out, 'row')} without {clean(columns.keys[0])}.")
    return f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items if item)}</ul>"


def _again(columns: Columns, asked: Asked, inputs: Sequence[str], command: str) -> str:
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
