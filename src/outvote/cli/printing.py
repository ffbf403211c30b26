"""Print answers as tables, JSON or CSV.

Standard output has only the answer; remarks go to standard error. There are no colours and no progress in a pipe, and
no colours if NO_COLOR is set. A closed pipe is not an error.

``--json`` prints one object: `outvote` (version), `command`, the options, and the lines of the answer in a list of
their own; unknown and infinite numbers are null. ``--csv`` prints these lines; the names of nested fields are joined by
underscores. docs/cli.md lists them.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from outvote import __version__
from outvote.cli.answer import Asked, Progress, Value
from outvote.cli.compare import Comparisons, shared_notes
from outvote.cli.describe import Described
from outvote.cli.mean import Level, Means
from outvote.cli.monitor import Watched
from outvote.cli.plan import Planned
from outvote.cli.quantile import Quantiles
from outvote.cli.suspects import Suspects
from outvote.data.progress import unwatched
from outvote.data.text import percent, rounded, share, spaced, spaced_count
from outvote.estimate.suspects import OUT

Answer = Means | Quantiles | Comparisons | Planned | Suspects | Watched | Described

#: For each answer: its command, and the field whose lines CSV prints.
_KINDS = {
    Means: ("mean", "groups"),
    Quantiles: ("quantile", "groups"),
    Comparisons: ("compare", "comparisons"),
    Planned: ("plan", "options"),
    Suspects: ("suspects", "suspects"),
    Watched: ("monitor", "looks"),
    Described: ("describe", "columns"),
}
#: The columns of CSV if there is no suspect.
_SUSPECT = ("file", "row", "value", "text", "score")
#: Columns of a table that hold words.
_WORDS = ("holds", "vote")
#: The longest text of a cell in a table.
_WIDEST = 40


def show(answer: Answer, form: str = "table") -> int:
    """Print an answer as a "table", "json" or "csv", and return the exit code: 1 if a value has no interval."""
    if form == "json":
        write(json.dumps(document(answer), indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    elif form == "csv":
        write(_csv(answer))
    else:
        write(_rendered(_parts(answer)))
    for remark in _remarks(answer, hints=form == "table" and _is_terminal(sys.stdout)):
        message(remark)
    return 0 if answer.complete else 1


def write(text: str) -> None:
    """Write to standard output; a closed pipe is ignored."""
    stream = sys.stdout
    if stream is None:
        raise OSError("there is an answer, but standard output is closed: open it, or send it to a file (> FILE)")
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def message(text: str) -> None:
    """Write a line to standard error, if that is open."""
    if sys.stderr is not None:  # print would take standard output for it
        print(f"outvote: {clean(text, None)}", file=sys.stderr)


@contextmanager
def working(what: str) -> Iterator[Progress]:
    """Show a progress message on a terminal inside a ``with`` block."""
    if not _is_terminal(sys.stderr):
        yield lambda text: None
        return
    from rich.console import Console
    from rich.markup import escape

    with unwatched(), Console(stderr=True).status(escape(what)) as status:
        yield lambda text: status.update(escape(clean(text)))


def document(answer: Answer) -> dict[str, Any]:
    """Return an answer as plain data, ready for JSON."""
    asked = answer.asked
    about = {
        "contamination": asked.contamination,
        "confidence": asked.confidence,
        "assume": None if asked.assume is None else repr(asked.assume),
        "vote": asked.vote,
        "nan": asked.nan,
        "seed": asked.seed,
    }
    if isinstance(answer, Comparisons):
        names = ("ratio", "covariate", "coefficient", "unit", "simultaneous")
        about |= {name: getattr(asked, name) for name in names}
    if isinstance(answer, Means):  # the RobustEstimate objects are left out
        lines = [dataclasses.replace(line, found=None) for line in answer.groups]
        answer = dataclasses.replace(answer, groups=lines)
    body = dataclasses.asdict(dataclasses.replace(answer, asked=None))  # type: ignore[arg-type]
    del body["asked"]
    for line in body.get("groups", ()):
        line.pop("found", None)
    for name in ("groups", "sensitivity", "caution", "suspects"):
        for line in body.get(name, ()):
            line["group"] = dict(zip(body["by"], line["group"], strict=True))
    for line in body.get("comparisons", ()):
        line["group"] = dict(zip(body["segments"], line.pop("segment"), strict=True))
    head = {"outvote": __version__, "command": _KINDS[type(answer)][0]}
    return _plain({**head, **about, **body, "complete": answer.complete})


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _csv(answer: Answer) -> str:
    whole = document(answer)
    lines = whole.get("sensitivity") or whole[_KINDS[type(answer)][1]]
    if whole["command"] == "plan":
        lines = [whole["plan"], *lines]
    flat = [_flat(line) for line in lines]
    # The heads do not depend on whether there are lines; keys may have any name, and come first.
    heads = list(flat[0]) if flat else [*(("group", key) for key in whole["by"]), *((name,) for name in _SUSPECT)]
    names = ["_".join(head[1:] if head[0] == "group" else head) for head in heads]
    return "".join(map(_csv_line, [names, *([line[head] for head in heads] for line in flat)]))


def _csv_line(cells: list[Any]) -> str:
    """Write a line of CSV; a cell with the end of a line in it, whichever, is quoted."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue().removesuffix("\r\n") + "\n"


def _flat(line: dict[str, Any], above: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name, value in line.items():
        if isinstance(value, dict):
            found |= _flat(value, (*above, name))
        else:
            found[(*above, name)] = value
    return dict(sorted(found.items(), key=lambda item: item[0][0] != "group")) if not above else found


# --- tables -------------------------------------------------------------------------------------------------


def _rendered(parts: Sequence[Any]) -> str:
    """Return tables and lines as text: with colours and line breaks on a terminal, plain elsewhere."""
    from rich.console import Console

    terminal, text = _is_terminal(sys.stdout), io.StringIO()
    console = Console(
        file=text,
        force_terminal=terminal,
        width=Console().width if terminal else 1000,
        no_color=not terminal or "NO_COLOR" in os.environ,
        highlight=False,
        soft_wrap=not terminal,
    )
    for part in parts:
        console.print(part, markup=False) if isinstance(part, str) else console.print(part)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


def _table(heads: Sequence[str], left: int) -> Any:
    """Return an empty table: the first `left` columns and those in `_WORDS` are text, the others are numbers."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for j, head in enumerate(heads):
        words = j < left or head in _WORDS
        table.add_column(_text(head), justify="left" if words else "right", overflow="fold")
    return table


def _parts(answer: Answer) -> list[Any]:
    """Return the tables and lines of an answer."""
    if isinstance(answer, Means):
        return _means(answer)
    if isinstance(answer, Quantiles):
        return _quantiles(answer)
    if isinstance(answer, Comparisons):
        return _comparisons(answer)
    if isinstance(answer, Watched):
        return _watched(answer)
    if isinstance(answer, Described):
        return _described(answer)
    return _planned(answer) if isinstance(answer, Planned) else _suspects(answer)


def _means(answer: Means) -> list[Any]:
    keys = answer.by
    title = f"mean of {clean(answer.value)}, {percent(answer.asked.confidence)} intervals"
    table = _table([*keys, "rows", "plain", "robust", "low", "high", "holds", "survives"], len(keys))
    for line in answer.groups:
        value = line.mean
        table.add_row(
            *map(_label, line.group),
            spaced(line.n),
            rounded(line.plain, value.radius),
            _text(rounded(value.shown, value.radius), "bold"),
            *_ends(value),
            value.holds if value.estimate is not None else "no answer",
            spaced(line.survives if value.bounded else None),
        )
    parts = [title, table]
    if answer.sensitivity:
        labels = [(*map(_label, level.group), spaced(level.corrupt)) for level in answer.sensitivity]
        levels = _levels([*keys, "corrupt rows"], labels, answer.sensitivity, len(keys))
        parts += ["", "by the number of corrupt rows assumed", levels]
    if answer.caution:
        n_rows = answer.groups[0].n
        labels = [(_of_rows(level.corrupt, n_rows),) for level in answer.caution]
        parts += ["", _levels(["if so many are corrupt"], labels, answer.caution, 1)]
    return parts


def _levels(heads: Sequence[str], labels: Sequence[Sequence[Any]], levels: Sequence[Level], left: int) -> Any:
    """Return a table of means for several numbers of corrupt rows."""
    table = _table([*heads, "robust", "low", "high", "holds"], left)
    for label, level in zip(labels, levels, strict=True):
        value = level.mean
        table.add_row(*label, rounded(value.shown, value.radius), *_ends(value), value.holds)
    return table


def _of_rows(number: int, n_rows: int) -> str:
    return f"{spaced_count(number, 'row')} ({100 * number / n_rows:.2g} %)" if number else "none"


def _quantiles(answer: Quantiles) -> list[Any]:
    title = f"quantiles of {clean(answer.value)}, {percent(answer.asked.confidence)} intervals"
    table = _table([*answer.by, "", "rows", "robust", "low", "high", "holds", "survives"], len(answer.by) + 1)
    for line in answer.groups:
        value = line.quantile
        table.add_row(
            *map(_label, line.group),
            line.name,
            spaced(line.n),
            _text(rounded(value.estimate, value.radius), "bold"),
            *_ends(value),
            value.holds if value.estimate is not None else "no answer",
            spaced(line.corrupt),
        )
    return [title, table]


def _comparisons(answer: Comparisons) -> list[Any]:
    parts: list[Any] = [] if len(answer.comparisons) == 1 else [_verdicts(answer)]
    asked = answer.asked
    for one in answer.comparisons:
        sides = [f"{clean(one.other)} ({spaced(one.n_other)} {rows_of(asked)})"]
        sides.append(f"{clean(answer.baseline)} ({spaced(one.n_baseline)} {rows_of(asked)})")
        where = "".join(
            f", {clean(name)} {clean(label or '')}" for name, label in zip(answer.segments, one.segment, strict=True)
        )
        what = f"{clean(metric_of(answer.value, asked))}: {' against '.join(sides)}{where}"
        table = _table(("", "plain", "robust", "low", "high", "holds"), 1)
        table.add_row(
            "difference of ratios"
            if asked.ratio
            else "adjusted difference"
            if asked.covariate
            else "difference of means",
            rounded(one.plain, one.difference.radius),
            _text(rounded(one.difference.shown, one.difference.radius), "bold"),
            *_ends(one.difference),
            one.difference.holds,
        )
        for name, value in (("relative lift", one.lift), ("probability of superiority", one.superiority)):
            if value is not None:
                table.add_row(name, "", share(value.shown), *map(share, (value.low, value.high)), value.holds)
        title = f"{what}, {percent(asked.confidence)} intervals"
        parts += [*([""] if parts else []), title, table, *([clean(one.sentence, None)] if one.sentence else [])]
    return parts


def metric_of(value: str, asked: Asked) -> str:
    """Return what is compared, in a few words."""
    if asked.ratio is not None:
        return f"{value}/{asked.ratio}"
    return f"{value} per {asked.unit}" if asked.unit is not None else value


def rows_of(asked: Asked) -> str:
    """Return what rows are."""
    return "rows" if asked.unit is None else f"rows by {clean(asked.unit)}"


def _verdicts(answer: Comparisons) -> Any:
    """Return a table with a line for each comparison."""
    table = _table(
        [*answer.segments, answer.by, "difference", "low", "high", "lift", "tolerance", "settled"],
        1 + len(answer.segments),
    )
    digits = min((one.difference.radius for one in answer.comparisons if one.difference.radius), default=None)
    for one in answer.comparisons:
        gap = one.difference
        numbers = [rounded(number, digits) for number in (gap.shown, gap.low, gap.high)]
        table.add_row(
            *map(_label, one.segment), _label(one.other), *numbers, share(one.lift.shown),
            spaced(one.tolerance), "yes" if one.settled else "no",
        )  # fmt: skip
    return table


def _planned(answer: Planned) -> list[Any]:
    unit = " sd" if answer.unit else ""
    plan = answer.plan
    reached = "within no radius" if plan.radius is None else f"within {plan.radius:.4g}{unit}"
    parts: list[Any] = [
        f"The mean of the clean rows will be known {reached}, with {percent(answer.asked.confidence)} confidence, for "
        f"any distribution with {answer.assumed}.",
        "That is the worst case, known before the rows are seen: on ordinary rows the interval is narrower, often by a "
        "factor of two or more.",
        answer.explanation,
        "",
    ]
    table = _table(("with", "rows", "corrupt", "blocks", "vote", f"radius{',' if unit else ''}{unit}", "change"), 1)
    for option in (plan, *answer.options):
        radius, change = "none", ""
        if option.radius is not None:
            radius = f"{option.radius:.4g}"
            change = f"{100 * (option.radius / plan.radius - 1):+.0f} %" if plan.radius and option is not plan else ""
        table.add_row(
            option.change,
            *map(spaced, (option.rows, option.corrupt)),
            f"{spaced(option.blocks)} of {spaced(option.block_size)}",
            option.vote,
            radius,
            change,
        )
    parts += [table, ""]
    if answer.rows_for_half is not None:
        parts.append(f"Half the radius needs {spaced(answer.rows_for_half)} rows.")
    else:
        parts.append(f"Half the radius cannot be guaranteed beforehand: {answer.half_note}.")
    return parts


def _watched(answer: Watched) -> list[Any]:
    what = f"mean of {clean(answer.value)}"
    if answer.arms:
        what = f"{clean(answer.value)}: mean of {clean(answer.arms[1])} less that of {clean(answer.arms[0])}"
    title = f"{what}, {percent(answer.asked.confidence)} intervals that hold at every look"
    table = _table((answer.time, "rows", answer.statistic, "low", "high", "decided"), 1)
    for line in answer.looks:
        value, words = line.value, {None: "", True: "true", False: "false"}
        estimate = _text(rounded(value.shown, value.radius), "bold")
        table.add_row(_label(line.time), spaced(line.n), estimate, *_ends(value), words[line.decided])
    return [title, table, clean(answer.sentence, None)]


def _described(answer: Described) -> list[Any]:
    heads = (
        "rows",
        "missing",
        "plain",
        "robust",
        "low",
        "high",
        "holds",
        "p05",
        "median",
        "p95",
        "min",
        "max",
        "suspects",
    )
    table = _table(["column", *heads], 1)
    for line in answer.columns:
        kind = "none" if line["low"] is None else "certified"
        value = Value.checked(line["estimate"], line["low"], line["high"], None, kind)
        value = dataclasses.replace(value, premise_sd=line["premise_sd"])
        size = None if value.low is None or value.high is None else (value.high - value.low) / 2
        shown = [rounded(one, size) for one in (line["mean"], value.estimate, value.low, value.high)]
        others = [rounded(line[name], size) for name in ("p05", "median", "p95", "min", "max")]
        counts = [spaced(line[name]) for name in ("n", "missing", "suspects")]
        table.add_row(_label(line["column"]), *counts[:2], *shown, value.holds, *others, counts[2])
    return [f"columns of {clean(answer.source, None)}, {percent(answer.asked.confidence)} intervals", table]


def _suspects(answer: Suspects) -> list[Any]:
    files = len({one.file for one in answer.suspects}) > 1
    heads = [*(["file"] if files else []), *answer.by, answer.asked.unit or "row", answer.value, "score"]
    title = f"the most suspect of {spaced(answer.n)} {rows_of(answer.asked)}, by how often their block is voted out"
    table = _table(heads, len(answer.by) + files)
    for one in answer.suspects:
        value = _text(repr(clean(one.text))) if one.value is None else f"{one.value:.10g}"
        where = [_text(one.file, widest=None)] if files else []
        table.add_row(*where, *map(_label, one.group), str(one.row), value, f"{one.score:.3f}")
    return [title, table] if answer.suspects else [f"no row of {spaced(answer.n)} stands out"]


def _remarks(answer: Answer, *, hints: bool) -> Iterator[str]:
    """Yield remarks on the answer; hints are for people only."""
    values: list[Value] = []
    if isinstance(answer, (Means, Quantiles)):
        if isinstance(answer, Means):
            given = [(line.group, line.mean) for line in answer.groups]
        else:
            given = [(line.group, line.quantile) for line in answer.groups]
        values = [value for _, value in given]
        notes: dict[str, list[str]] = {}
        for group, value in given:
            if value.note:
                label = ", ".join("(none)" if part is None else clean(part) for part in group)
                notes.setdefault(value.note, []).append(label)
        for note, labels in notes.items():
            more = f" and {len(labels) - 3} more groups" if len(labels) > 3 else ""
            yield f"{'; '.join(labels[:3])}{more}: {note}" if answer.by else note
    elif isinstance(answer, Comparisons):
        three = [value for one in answer.comparisons for value in (one.difference, one.lift, one.superiority)]
        values = [value for value in three if value is not None]
        if answer.left_out:
            named = " or ".join(repr(name) for name in (answer.by, *answer.segments))
            yield f"{answer.left_out} rows have no {named} and are left out"
        yield from shared_notes(answer.comparisons)
        yield from dict.fromkeys(value.note for value in values if value.note)
        if hints and len(answer.comparisons) > 1 and not answer.asked.simultaneous:
            yield "each interval holds with its own confidence, not all of them at once"
    elif isinstance(answer, Described):
        if answer.left_out:
            yield f"left out, since most cells are not numbers: {', '.join(map(clean, answer.left_out))}"
        yield from answer.notes
    elif isinstance(answer, Watched):
        values = [answer.looks[-1].value]
        yield from (value.note for value in values if value.note and value.bounded)
    elif isinstance(answer, Suspects):
        if answer.missing:
            yield f"{answer.missing} rows have no value and are not listed"
        if hints:
            yield (
                f"score: the share of {answer.partitions} partitions in which the mean of the row's block of "
                f"{answer.block_size} rows was more than {OUT:g} robust standard deviations from the vote; a typical "
                f"row has {answer.typical:.3f}. A high score is a reason to look at a row, not a proof. "
                "Row 1 is the first row of data"
            )
    if hints and any(value.provenance == "conditional" for value in values):
        yield (
            "if sd ≤: the interval holds if the standard deviation of the clean rows is at most this number, which was "
            "read off the rows; give what is known beforehand by --proportion, --sd, --bounds, --scale or --kurtosis"
        )
    if hints and any(value.provenance == "plug-in" for value in values):
        yield (
            "plug-in: the scale was estimated from the same rows, so the interval is a good guess, not a guarantee; "
            "give what is known beforehand by --proportion, --sd, --bounds, --scale or --kurtosis"
        )


def _ends(value: Value) -> list[str]:
    return [rounded(end, value.radius) for end in (value.low, value.high)]


def _label(part: str | None) -> Any:
    return _text("(none)" if part is None else part, "" if part is not None else "dim")


def _text(text: str, style: str = "", widest: int | None = _WIDEST) -> Any:
    """Return text without markup and control characters."""
    from rich.text import Text

    return Text(clean(text, widest), style=style)


def clean(text: str, widest: int | None = _WIDEST) -> str:
    """Return text with characters that do not print replaced, cut to `widest` characters."""
    plain = "".join(c if c.isprintable() else "�" for c in text)
    return plain if widest is None or len(plain) <= widest else plain[: widest - 1] + "…"


def _is_terminal(stream: Any) -> bool:
    return stream is not None and bool(stream.isatty())
