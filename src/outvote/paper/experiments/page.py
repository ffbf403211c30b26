"""Write the pages about experiments: index.html as a single file, report.md, and a table of claims."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from numbers import Integral, Real
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from outvote.data.text import spaced
from outvote.data.writing import write_text
from outvote.paper.experiments.base import Outcome, Table, Verdict
from outvote.plotting.pages import fill

TITLE = "A Median-of-Means study, reproduced"
PAPER = (
    "Laforgue, Staerman and Clémençon, “Generalization Bounds in the Presence of Outliers: a Median-of-Means Study” "
    "(ICML 2021): its figures and tables computed again with outvote, and the verdict on each claim."
)
QUICK = "This is a quick run: few runs and small sizes. Numbers are rough, and a verdict can differ from a full run."
MISSING = "–"
#: Longer tables are folded on the page, replaced by a link to the CSV file in the report, or not printed.
FOLDED, LEFT_OUT, UNPRINTED = 30, 40, 200

#: For each verdict: the words for one claim and for several, its sign, and its class in the style sheet.
_VERDICTS: dict[Verdict, tuple[str, str, str, str]] = {
    "holds": ("holds", "hold", "✓", "holds"),
    "holds in part": ("holds in part", "hold in part", "◐", "part"),
    "does not hold": ("does not hold", "do not hold", "✗", "not"),
}


def write_index(outcomes: Sequence[Outcome], folder: Path) -> Path:
    """Write index.html: every claim, and for every experiment its findings, figure, tables and parameters.

    The page needs no other file and no network. It embeds the figures ``NAME.svg`` of `folder` and links to the files
    in it, so it must be written last.
    """
    groups = _groups(outcomes)
    body = [_overview(f"Claims {kind}", chosen) for kind, chosen in groups]
    for kind, chosen in groups:
        body += [f"<h2>Experiments {kind}</h2>", *(_section(outcome, folder) for outcome in chosen)]
    page = fill(
        "outvote.paper.experiments",
        title=escape(TITLE),
        paper=escape(PAPER),
        summary=escape(_summary(outcomes)),
        notice=f'<p class="notice">{escape(QUICK)}</p>' if _any_quick(outcomes) else "",
        contents="\n".join(f"<li>{_sign(outcome)}{_link(outcome)}</li>" for _, chosen in groups for outcome in chosen),
        body="\n".join(body),
    )
    return write_text(folder / "index.html", page)


def write_report(outcomes: Sequence[Outcome], folder: Path) -> Path:
    """Write report.md: the contents of index.html in Markdown, with links to the figures ``NAME.png``."""
    parts = [f"# {TITLE}", PAPER, _summary(outcomes), QUICK if _any_quick(outcomes) else "", claims_table(outcomes)]
    for kind, chosen in _groups(outcomes):
        parts.append(f"## Experiments {kind}")
        for outcome in chosen:
            name, title = outcome.experiment, _plain(outcome.title)
            parts += [f"### {title}", f"{_plain(_where(outcome))}. {_plain(outcome.paragraph())}"]
            parts.append(f"![{title}]({quote(name)}.png)")
            table = next(iter(outcome.tables.values()), [])
            rows = f"{spaced(len(table))} rows are in [{_plain(name)}.csv]({quote(name)}.csv)."
            parts.append(_markdown_of(table) if 0 < len(table) <= LEFT_OUT else rows)
            parts.append(". ".join(f"{label}: {_plain(text)}" for label, text in _facts(outcome)) + ".")
    return write_text(folder / "report.md", "\n\n".join(part.strip() for part in parts if part) + "\n")


def claims_table(outcomes: Sequence[Outcome]) -> str:
    """Return all claims as a table in Markdown: the place in the paper, the verdict, our numbers, and the reason."""
    return _markdown(
        ["claim", "where in the paper", "verdict", "our figure", "why"],
        [
            [finding.claim, outcome.where, finding.verdict, finding.measured, finding.why]
            for outcome in outcomes
            for finding in outcome.findings
        ],
    )


def shown(values: Sequence[Any]) -> list[str]:
    """Return the cells of a column as text: four digits, whole numbers in full, a dash for a missing value.

    Trailing zeros are kept if some number of the column had to be rounded.

    Examples
    --------
    >>> shown([0.25, 1 / 3, 12345.6, 1e-7])
    ['0.2500', '0.3333', '12 350', '1.000e-07']
    >>> shown([0.25, 0.5, 10_000, None, True, "mean"])
    ['0.25', '0.5', '10 000', '–', 'yes', 'mean']
    """
    rounded = [float(f"{value:.4g}") for value in values if _is_number(value)]
    zeros = "#" if rounded != [value for value in values if _is_number(value)] else ""

    def show(value: Any) -> str:
        if _is_missing(value):
            return MISSING
        if isinstance(value, bool | np.bool_):
            return "yes" if value else "no"
        if not _is_number(value):
            return str(value)
        if isinstance(value, Integral):
            return spaced(int(value))
        if math.isinf(value):
            return "∞" if value > 0 else "-∞"
        near = float(f"{value:.4g}")
        if 1e4 <= abs(near) < 1e6:
            return spaced(near)
        return format(near, f"{zeros},.4g").replace(",", " ").rstrip(".")

    return [show(value) for value in values]


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, Real) and math.isnan(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_) and not _is_missing(value)


def _columns(table: Table) -> dict[str, list[Any]]:
    return {name: [row[name] for row in table] for name in table[0]} if table else {}


def _groups(outcomes: Iterable[Outcome]) -> list[tuple[str, list[Outcome]]]:
    """Return the experiments of the paper and those beyond it."""
    groups: dict[str, list[Outcome]] = {"of the paper": [], "beyond the paper": []}
    for outcome in outcomes:
        groups["beyond the paper" if outcome.where == "beyond the paper" else "of the paper"].append(outcome)
    return [(kind, chosen) for kind, chosen in groups.items() if chosen]


def _where(outcome: Outcome) -> str:
    return outcome.where[:1].upper() + outcome.where[1:]


def _any_quick(outcomes: Iterable[Outcome]) -> bool:
    return any(outcome.parameters.get("quick") for outcome in outcomes)


def _counted(outcomes: Iterable[Outcome]) -> str:
    """Return the numbers of claims by verdict, in words."""
    verdicts = [finding.verdict for outcome in outcomes for finding in outcome.findings]
    counts = [(verdicts.count(verdict), words) for verdict, words in _VERDICTS.items()]
    parts = [f"{count} {words[0] if count == 1 else words[1]}" for count, words in counts if count]
    total = f"{len(verdicts)} claim{'' if len(verdicts) == 1 else 's'}"
    return f"{total}: {', '.join(parts)}" if parts else total


def _summary(outcomes: Sequence[Outcome]) -> str:
    many = "" if len(outcomes) == 1 else "s"
    return f"{len(outcomes)} experiment{many}, {_counted(outcomes)}."


def _facts(outcome: Outcome) -> list[tuple[str, str]]:
    """Return the facts that are needed to run an experiment again."""
    parameters = {name: value for name, value in outcome.parameters.items() if name != "seed"}
    facts = [
        ("Parameters", _pairs(parameters, " = ")),
        ("Seed", str(outcome.parameters.get("seed", ""))),
        ("Versions", _pairs(outcome.versions, " ")),
        ("Seconds", f"{outcome.seconds:.1f}"),
    ]
    return [(label, text) for label, text in facts if text]


def _pairs(items: dict[str, Any], between: str) -> str:
    def written(value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)

    return ", ".join(f"{name}{between}{written(value)}" for name, value in items.items())


# ---------------------------------------------------------------- HTML


def _verdict(verdict: Verdict, *, badge: bool = False) -> str:
    _, _, sign, kind = _VERDICTS[verdict]
    classes = f"verdict badge {kind}" if badge else f"verdict {kind}"
    return f'<span class="{classes}"><i aria-hidden="true">{sign}</i>{verdict}</span>'


def _sign(outcome: Outcome) -> str:
    if not outcome.findings:
        return '<span class="verdict"></span>'
    _, _, sign, kind = _VERDICTS[outcome.verdict]
    return f'<span class="verdict {kind}" role="img" aria-label="{outcome.verdict}:"><i>{sign}</i></span>'


def _link(outcome: Outcome) -> str:
    return f'<a href="#{quote(outcome.experiment)}">{escape(outcome.title)}</a>'


def _file(name: str) -> str:
    return f'<a href="{quote(name)}">{escape(name)}</a>'


def _grid(caption: str, headings: Sequence[str], rows: Iterable[str]) -> str:
    head, body = "".join(headings), "\n".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f"<table><caption><span>{caption}</span></caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
    )


def _overview(heading: str, outcomes: Sequence[Outcome]) -> str:
    """Return a table of claims; experiments and verdicts are sorted by their order, not by their text."""
    rank = list(_VERDICTS).index
    rows = [
        f"<td>{escape(finding.claim)}</td>"
        f'<td data-value="{number}">{_link(outcome)}</td>'
        f'<td data-value="{rank(finding.verdict)}">{_verdict(finding.verdict)}</td>'
        f'<td class="wide">{escape(finding.measured)}</td>'
        for number, outcome in enumerate(outcomes)
        for finding in outcome.findings
    ]
    headings = [f'<th scope="col">{name}</th>' for name in ("Claim", "Experiment", "Verdict")]
    headings.append('<th scope="col" class="wide">Measured</th>')
    return f'<h2>{heading}</h2>\n<div class="scroll">{_grid(f"{_counted(outcomes)}.", headings, rows)}</div>'


def _section(outcome: Outcome, folder: Path) -> str:
    name = escape(outcome.experiment)
    badge = _verdict(outcome.verdict, badge=True) if outcome.findings else ""
    beside = [f"{outcome.experiment}{ending}" for ending in (".csv", ".json", ".png", ".svg")]
    links = [_file(file) for file in beside if (folder / file).is_file()]
    facts = [(label, escape(text)) for label, text in _facts(outcome)]
    facts += [("Files", ", ".join(links))] if links else []
    tables = [_table(table, rows, folder, main=not place) for place, (table, rows) in enumerate(outcome.tables.items())]
    return "\n".join(
        [
            f'<section id="{name}" aria-labelledby="{name}-title">',
            f'<div class="top"><h3 id="{name}-title">{escape(outcome.title)}</h3>{badge}</div>',
            f'<p class="muted">{escape(_where(outcome))}</p>',
            _findings(outcome),
            _figure(outcome, folder),
            *tables,
            f"<dl>{''.join(f'<dt>{label}</dt><dd>{text}</dd>' for label, text in facts)}</dl>",
            '<p class="back"><a href="#main">Back to the claims</a></p>',
            "</section>",
        ]
    )


def _findings(outcome: Outcome) -> str:
    items = []
    for finding in outcome.findings:
        why = f'<p><span class="muted">Why:</span> {escape(finding.why)}</p>' if finding.why else ""
        items.append(
            f"<li>{_verdict(finding.verdict)}<div>"
            f'<p class="claim"><span class="muted">Claim:</span> {escape(finding.claim)}</p>'
            f'<p><span class="muted">Measured:</span> {escape(finding.measured)}</p>{why}</div></li>'
        )
    return f'<ul class="findings">{"".join(items)}</ul>' if items else ""


def _figure(outcome: Outcome, folder: Path) -> str:
    """Return the embedded figure with its size, so that nothing moves while the page loads."""
    file = folder / f"{outcome.experiment}.svg"
    picture = file.read_bytes() if file.is_file() else b""
    size = re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture)
    if size is None:
        return '<p class="muted">There was no figure when this page was written.</p>'
    width, height = (round(float(points) * 4 / 3) for points in size.groups())
    caption = f"{escape(outcome.title)} ({escape(outcome.where)})"
    return (
        f'<figure><img src="data:image/svg+xml;base64,{base64.b64encode(picture).decode()}" '
        f'width="{width}" height="{height}" alt="Figure: {caption}. The findings above describe it; '
        f'the table below has its numbers."><figcaption>{caption}</figcaption></figure>'
    )


def _table(name: str, table: Table, folder: Path, *, main: bool) -> str:
    columns = _columns(table)
    headings, cells = [], []
    for column, values in columns.items():
        kind = ' class="number"' if all(_is_number(value) or _is_missing(value) for value in values) else ""
        headings.append(f'<th scope="col"{kind}>{escape(column)}</th>')
        cells.append([_cell(value, text, kind) for value, text in zip(values, shown(values), strict=True)])
    full = f" In full: {_file(f'{name}.csv')}." if (folder / f"{name}.csv").is_file() else ""
    rows = f"{spaced(len(table))} row{'' if len(table) == 1 else 's'}"
    caption = f"Table {escape(name)}: {rows}, numbers to four digits.{full}"
    grid = _grid(caption, headings, ("".join(row) for row in zip(*cells, strict=True)))
    region = f'<div class="scroll" role="region" tabindex="0" aria-label="Table {escape(name)}">{grid}</div>'
    if main and len(table) <= FOLDED:
        return region
    long = ' class="long"' if len(table) > UNPRINTED else ""
    return f"<details{long}><summary>Table {escape(name)}, {rows}</summary>{region}</details>"


def _cell(value: Any, text: str, kind: str) -> str:
    """Return a cell, with its sort key if that is not its text."""
    if _is_missing(value):
        return f"<td{kind} data-missing>{text}</td>"
    order = f' data-value="{str(float(value)).replace("inf", "Infinity")}"' if _is_number(value) else ""
    return f"<td{kind}{order}>{escape(text)}</td>"


# ---------------------------------------------------------------- Markdown


def _plain(text: str) -> str:
    """Return text on one line, with the signs of Markdown and HTML escaped."""
    signs = r"[\\`*|~$]|\b_|_\b|<(?=[A-Za-z/!?])|&(?=#?\w+;)|\[(?=[^][]*\][([:])|\](?=[([:])"
    return re.sub(signs, r"\\\g<0>", " ".join(text.split()))


def _markdown(headings: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[bool] = ()) -> str:
    rule = ["---:" if aside else "---" for aside in right] or ["---"] * len(headings)
    lines = [[_plain(cell) for cell in line] for line in (headings, *rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in (lines[0], rule, *lines[1:]))


def _markdown_of(table: Table) -> str:
    columns = _columns(table)
    right = [all(_is_number(value) or _is_missing(value) for value in values) for values in columns.values()]
    return _markdown(list(columns), zip(*map(shown, columns.values()), strict=True), right=right)


__all__ = ["claims_table", "shown", "write_index", "write_report"]
