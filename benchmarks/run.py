"""Measure outvote beside its peers: speed in turns, memory, and how both sides grow; ``make bench``.

Prints one table for each group with the ratio to reach, and writes out/bench.json and a figure. Ctrl-C ends it early
and keeps what was measured.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from . import (
    growth,
    memory,
    peers,
    report,
    rows_calls,
    rows_grids,
    rows_import,
    rows_learning,
    rows_mean,
    rows_pairs,
    rows_ranks,
    rows_tables,
)
from .measure import forget, load_compiled, measure

ROOT = Path(__file__).parents[1]
#: Groups of rows, in the order of the tables; a module's docstring is its title.
GROUPS = (rows_calls, rows_mean, rows_ranks, rows_pairs, rows_grids, rows_learning, rows_tables, rows_import)
#: Seconds for each row, each set of peers, each size of the growth figure: in a full and in a quick run.
BUDGETS = {"rows": (3.0, 0.3), "peers": (6.0, 1.0), "growth": (1.0, 0.2)}
LIBRARIES = ("outvote", "numpy", "scipy", "numba", "polars", "duckdb", "statsmodels", "pyarrow")


def title(group: Any) -> str:
    """The first line of a group's docstring, without its full stop."""
    return str(group.__doc__).splitlines()[0].rstrip(".")


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries at hand."""
    found = {"Python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


class Suite:
    """What is to be measured, and what has been so far."""

    def __init__(self, quick: bool, only: Sequence[str] = ()):
        def chosen(*names: str) -> bool:
            return not only or any(pattern.lower() in ": ".join(names).lower() for pattern in only)

        self.quick = quick
        self.rows = {
            title(group): [row for row in group.rows(quick) if chosen(title(group), row.job, row.against)]
            for group in GROUPS
        }
        self.peers = [peer for peer in peers.peers(quick) if chosen("peers", peer.job, peer.call)]
        self.memory = [case for case in memory.cases() if chosen("memory", case.name)]
        self.growth = [method for method in growth.METHODS if chosen("growth", method.name)]
        self.results: dict[str, Any] = {
            "complete": False,
            "quick": quick,
            "seconds": 0.0,
            "versions": versions(),
            "cpus": os.cpu_count(),
            "load": 0.0,
            "compiled": False,
            "rows": {group: [] for group in self.rows},
            "peers": [],
            "memory": [],
            "growth": [],
        }
        self.partial = bool(only)

    def names(self) -> list[str]:
        """Name everything that would be measured, as --only takes it."""
        found = [f"{group}: {row.job}: {row.against}".rstrip(": ") for group, some in self.rows.items() for row in some]
        found += [f"peers: {peer.job}: {peer.call}" for peer in self.peers]
        found += [f"memory: {case.name}" for case in self.memory]
        return found + [f"growth: {method.name}" for method in self.growth]

    def budget(self, part: str) -> float:
        """Seconds for one item of a part."""
        return BUDGETS[part][self.quick]

    def run(self, progress: Progress) -> None:
        """Measure everything; what has been measured is in `results` at any time."""
        started, results = time.monotonic(), self.results
        n_sets = len({peer.n_rows for peer in self.peers})
        n_sizes = len(growth.sizes(self.quick)) if self.growth else 0
        total = sum(map(len, self.rows.values())) + n_sets + len(self.memory) + n_sizes
        task = progress.add_task("", total=total)

        def step(name: str = "", done: int = 0) -> None:
            results["seconds"] = round(time.monotonic() - started, 1)
            results["load"] = max(results["load"], round(os.getloadavg()[0], 1))
            progress.update(task, advance=done, **({"description": name} if name else {}), refresh=True)

        least = 3 if self.quick else 4
        results["compiled"] = load_compiled()
        for group, some in self.rows.items():
            for row in some:
                step(f"{group}: {row.job}")
                results["rows"][group].append(measure(row, self.budget("rows"), step, least=least))
                step(done=1)
        forget()
        peers.compare(self.peers, self.budget("peers"), lambda name: step(name, int(bool(name))), results["peers"])
        forget()
        memory.survey(self.memory, self.quick, lambda name: step(name, 1), results["memory"])
        if self.growth:
            grown = self.budget("growth")
            growth.grow(self.growth, self.quick, grown, lambda name: step(name, int(bool(name))), results["growth"])
        forget()
        step()
        results["complete"] = not self.partial


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, write; or list what there is; or write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows, fewer turns: under two minutes")
    parser.add_argument("--only", nargs="+", default=[], metavar="PATTERN", help="what has one of these in its name")
    parser.add_argument("--list", action="store_true", help="name what would be measured, and stop")
    parser.add_argument("--output", type=Path, help="JSON to write (the figure beside it); with --only nothing else is")
    parser.add_argument("--page", action="store_true", help="measure nothing: write docs/performance.md from the JSON")
    chosen = parser.parse_args(arguments)
    output = chosen.output or ROOT / "out" / ("bench-quick.json" if chosen.quick else "bench.json")
    if chosen.page:
        report.write_page(output, ROOT / "docs" / "performance.md")
        return 0
    suite = Suite(chosen.quick, chosen.only)
    if chosen.list:
        print("\n".join(suite.names()))
        return 0
    if not suite.names():
        parser.error(f"--only {' '.join(chosen.only)} fits nothing: --list names what there is")
    return conduct(suite, output if chosen.output or not chosen.only else None)


def conduct(suite: Suite, output: Path | None) -> int:
    """Run the suite and show what came of it, to whatever point it got."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    interrupted = False
    # A thread that redraws would disturb what is measured: the bar moves between calls.
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as progress:
        try:
            suite.run(progress)
        except KeyboardInterrupt:
            interrupted = True
    results = suite.results
    for table in report.tables(results):
        console.print(table)
    if not results["compiled"]:
        console.print("The compiled forms were not at hand: these are the numpy ones.")
    if report.busy(results):
        console.print(report.busy(results))
    console.print(f"{report.summary(results)}; {results['seconds']:.0f} s" + (", interrupted" if interrupted else ""))
    if output is not None:
        report.write_json(output, results)
        written = [output.name]
        if any(curve["points"] for curve in results["growth"]):
            from .figure import draw

            written += draw(results["growth"], output)
        console.print(f"Written to {output.parent.name}/: {', '.join(written)}")
    return 130 if interrupted else 0


if __name__ == "__main__":
    raise SystemExit(main())
