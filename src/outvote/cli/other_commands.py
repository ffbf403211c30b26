"""The commands that read no files: ``outvote plan``, ``demo`` and ``reproduce``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from outvote.cli.app import command, form_of
from outvote.cli.arguments import (
    AsCsv,
    AsJson,
    Bounds,
    Confidence,
    Corrupt,
    Kurtosis,
    Nan,
    Scale,
    Sd,
    Vote,
    Voting,
)


def plan(
    rows: Annotated[int, typer.Option("--rows", metavar="NUMBER", min=1, help="How many rows there will be.")],
    contamination: Corrupt = "0.01",
    confidence: Confidence = 0.95,
    sd: Sd = None,
    bounds: Bounds = None,
    kurtosis: Kurtosis = None,
    scale: Scale = None,
    vote: Voting = Vote.auto,
    json: AsJson = False,
    csv: AsCsv = False,
) -> None:
    """Compute the radius of a mean before there are rows, and what would make it smaller."""
    from outvote.cli import printing
    from outvote.cli.options import read_options
    from outvote.cli.plan import plan as plan_rows

    form = form_of(json, csv)
    asked = read_options(contamination, confidence, sd, bounds, kurtosis, scale, vote, Nan.refuse, 0)
    raise typer.Exit(printing.show(plan_rows(rows, asked), form))


def demo(
    figure: Annotated[Path, typer.Option("--figure", help="File for the figure.")] = Path("demo.png"),
) -> None:
    """Corrupt a data set, and see which estimates stay near the truth."""
    from outvote.cli.demo import main as run

    run(["--figure", str(figure)])


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="EXPERIMENT", help="Experiments to run; all by default.")
    ] = None,
    runs: Annotated[
        int | None, typer.Option(metavar="NUMBER", min=2, help="Repetitions; the paper's number by default.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="NUMBER", min=0, help="The same seed gives the same numbers.")] = 0,
    jobs: Annotated[
        int, typer.Option(metavar="NUMBER", help="Processes; -1 for one per core. Results do not depend on it.")
    ] = 1,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for figures, numbers, pages.")] = Path("out"),
    quick: Annotated[
        bool, typer.Option("--quick", metavar="", help="Fewer runs and settings: under a minute.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", metavar="", help="Run finished experiments again.")] = False,
    list_: Annotated[bool, typer.Option("--list", metavar="", help="List the experiments and stop.")] = False,
) -> None:
    """Reproduce every figure, table and experiment of the paper, with a verdict on each claim.

    Each experiment writes a figure (PNG, SVG), its numbers (CSV, JSON) and a verdict; index.html and report.md are
    written at the end. If you interrupt the command, finished experiments are kept, and the next call continues.
    """
    from outvote.paper.experiments import command as experiments

    if list_:
        experiments.show_list()
        return
    raise typer.Exit(
        experiments.reproduce(names or None, runs=runs, seed=seed, jobs=jobs, folder=output, quick=quick, fresh=fresh)
    )


def register() -> None:
    """Add these commands to the application."""
    command("outvote plan --rows 10000", "outvote plan --rows 10000 --contamination 0.02 --sd 50")(plan)
    command("outvote demo", "outvote demo --figure out/demo.png")(demo)
    command("outvote reproduce --list", "outvote reproduce ruin_mean --quick")(reproduce)
