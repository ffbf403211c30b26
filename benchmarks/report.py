"""What was measured as tables in the terminal, as JSON, and as part of a page."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.table import Table

from outvote.data.writing import write_text

from .measure import power

#: The page's table stands between these.
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
_HEADINGS = {
    "rows": ("job", "against", "ours", "theirs", "ratio", "target", ""),
    "peers": ("what", "rows", "call", "best", "ns a row", "× the first"),
    "memory": ("function", "rows", "input", "traced", "process", "× input", "target", ""),
}
_LEFT = {"job", "against", "what", "call", "function", ""}


def duration(seconds: float | None) -> str:
    """Write a time with three digits and its unit."""
    if seconds is None:
        return "–"
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if seconds * factor >= 0.9995:
            return f"{digits(seconds * factor)} {unit}"
    return f"{digits(seconds * 1e9)} ns"


def size(n_bytes: int) -> str:
    """Write a number of bytes with its unit."""
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(n_bytes) >= 0.9995 * factor:
            return f"{digits(n_bytes / factor)} {unit}"
    return f"{n_bytes} B"


def digits(value: float) -> str:
    """Write three significant digits, without exponent."""
    if not math.isfinite(value):
        return "–"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}" if value else "0"


def verdict(found: dict[str, Any]) -> str:
    """Whether the target was met."""
    return {None: "", True: "met", False: "not met"}[found["met"]]


def row_cells(found: dict[str, Any]) -> list[str]:
    """Cells of one comparison."""
    target = "–" if found["target"] is None else f"≤ {found['target']:g}"
    if "error" in found:
        return [found["job"], found["against"], "–", "–", "–", target, f"failed: {found['error']}"]
    unit = "" if found["unit"] == "ratio" else f" {found['unit']}"
    figure = digits(found["figure"]) + unit
    times = [duration(found["ours_s"]), duration(found["theirs_s"])]
    return [found["job"], found["against"] or "–", *times, figure, target, verdict(found)]


def peer_cells(found: dict[str, Any]) -> list[str]:
    """Cells of one peer."""
    if "error" in found:
        return [found["job"], power(found["n_rows"]), f"{found['call']}, failed: {found['error']}", *"–––"]
    times = [duration(found["best_s"]), digits(found["ns_a_row"]), digits(found["times_first"] or math.nan)]
    return [found["job"], power(found["n_rows"]), found["call"], *times]


def memory_cells(found: dict[str, Any]) -> list[str]:
    """Cells of one memory case."""
    rows = power(found["n_rows"]) if found["n_rows"] else "–"
    if "error" in found:
        return [found["case"], rows, *"–––––", f"failed: {found['error']}"]
    target = "–" if found["target"] is None else f"≤ {found['target']:g}"
    share = "–" if found["share"] is None else digits(found["share"])
    sizes = [size(found[key]) for key in ("input_bytes", "traced_bytes", "rss_bytes")]
    return [found["case"], rows, *sizes, share, target, verdict(found)]


def sections(results: dict[str, Any]) -> Iterable[tuple[str, tuple[str, ...], list[list[str]]]]:
    """Each table: title, headings, cells."""
    for group, found in results["rows"].items():
        if found:
            yield group, _HEADINGS["rows"], [row_cells(one) for one in found]
    if results["peers"]:
        yield "What else one would call", _HEADINGS["peers"], [peer_cells(one) for one in results["peers"]]
    if results["memory"]:
        yield "Peak memory beyond the input", _HEADINGS["memory"], [memory_cells(one) for one in results["memory"]]


def tables(results: dict[str, Any]) -> list[Table]:
    """The tables for the terminal."""
    found = []
    for title, headings, lines in sections(results):
        table = Table(title=title, title_justify="left", title_style="bold")
        for heading in headings:
            table.add_column(heading, justify="left" if heading in _LEFT else "right", overflow="fold")
        for cells in lines:
            table.add_row(*cells)
        found.append(table)
    return found


def summary(results: dict[str, Any]) -> str:
    """How many targets were met."""
    found = [one for group in results["rows"].values() for one in group] + results["peers"] + results["memory"]
    judged = [one["met"] for one in found if one.get("met") is not None]
    failed = sum("error" in one for one in found)
    text = f"{sum(judged)} of {len(judged)} targets met"
    return text + (f", {failed} failed to run" if failed else "")


def busy(results: dict[str, Any]) -> str:
    """A warning if others used the cores meanwhile; one of the load is our own."""
    if results["load"] <= results["cpus"] + 0.5:
        return ""
    return (
        f"The machine was busy (load up to {results['load']:g} on {results['cpus']} cores): calls of many milliseconds "
        "are interrupted where shorter ones are not, so ratios of a short and a long call are off."
    )


def write_json(path: Path, results: dict[str, Any]) -> None:
    """Write what was measured."""
    write_text(path, json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def markdown(results: dict[str, Any]) -> str:
    """The tables as Markdown, and where they were measured."""
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    lines = [
        f"{summary(results)}. Measured on {results['cpus']} shared cores in {results['seconds'] / 60:.0f} minutes, "
        f"with {versions}"
        + ("; a quick run, on fewer rows than the targets are meant for." if results["quick"] else "."),
        "",
        *([busy(results), ""] if busy(results) else []),
    ]
    for title, headings, cells in sections(results):
        marks = ["---" if heading in _LEFT else "---:" for heading in headings]
        lines += [f"### {title}", ""]
        for line in (list(headings), marks, *cells):
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |")
        lines.append("")
    return "\n".join(lines)


def write_page(source: Path, page: Path) -> None:
    """Put the tables of a complete run into the page, between its markers."""
    try:
        results = json.loads(source.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SystemExit(f"{source.name} is not there: run make bench first") from None
    if not results["complete"]:
        raise SystemExit(f"{source.name} is of an interrupted or partial run: run make bench to its end first")
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise SystemExit(f"{page.name} must hold {BEGIN} and, after it, {END}, once each")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    write_text(page, f"{before}{BEGIN}\n{markdown(results)}{END}{after}")
