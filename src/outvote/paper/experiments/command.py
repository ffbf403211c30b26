"""``outvote reproduce``: run experiments with progress bars, keep finished ones, and write the pages."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from outvote.data.arguments import number_of_jobs
from outvote.paper.experiments import NAMES, get
from outvote.paper.experiments.base import Experiment, Outcome
from outvote.paper.experiments.running import load, parameters_of, resumable, run, save

#: Exit code of a program stopped by Ctrl-C.
INTERRUPTED = 130
#: Exit code if an experiment could not be run.
INCOMPLETE = 1
#: The note on an experiment that an earlier call has finished.
KEPT = "kept from before"


def show_list() -> None:
    """Print the experiments, the figures or statements they are about, and the paper's number of runs."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("experiment", "what", "where", "runs"):
        table.add_column(heading, justify="right" if heading == "runs" else "left")
    for experiment in map(get, NAMES):
        table.add_row(experiment.name, experiment.title, experiment.where, str(experiment.runs))
    Console().print(table)


def reproduce(
    names: Sequence[str] | None,
    *,
    runs: int | None,
    seed: int,
    jobs: int,
    folder: Path,
    quick: bool,
    fresh: bool,
) -> int:
    """Run experiments one after the other and return the exit code."""
    import matplotlib as mpl
    from joblib import Parallel
    from rich.console import Console

    mpl.use("agg")
    # joblib restarts a worker whose memory has grown, which needs no warning.
    warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
    number_of_jobs(jobs, "jobs")
    console = Console(stderr=True)
    chosen = [get(name) for name in dict.fromkeys(names or NAMES)]
    folder.mkdir(parents=True, exist_ok=True)
    code = 0
    # One thread draws finished experiments while the processes go on.
    with ThreadPoolExecutor(1) as drawing, _bars(console) as bars, Parallel(jobs, return_as="generator") as parallel:
        overall = bars.add_task("all experiments", total=len(chosen), visible=len(chosen) > 1)
        saved: list[Future[Outcome]] = []

        def keep(outcome: Outcome, experiment: Experiment, note: str) -> Outcome:
            if note != KEPT:
                save(outcome, experiment, folder)
            bars.advance(overall)
            bars.console.print(f"{experiment.name:20} {outcome.verdict:15} [dim]{note}[/dim]", highlight=False)
            return outcome

        try:
            for experiment in chosen:
                asked = parameters_of(experiment, runs=runs, seed=seed, quick=quick)
                known = None if fresh else load(experiment, folder)
                if known is not None and resumable(known, asked):
                    saved.append(drawing.submit(keep, known, experiment, KEPT))
                    continue
                try:
                    outcome = _with_bar(bars, experiment, runs=runs, seed=seed, quick=quick, parallel=parallel)
                except ModuleNotFoundError as error:  # its data are in a package that is not installed
                    bars.console.print(f"{experiment.name:20} left out: {error}", highlight=False)
                    code = INCOMPLETE
                    continue
                saved.append(drawing.submit(keep, outcome, experiment, f"{outcome.seconds:.1f} s"))
            outcomes = [future.result() for future in saved]
        except KeyboardInterrupt:
            code = INTERRUPTED
            outcomes = [future.result() for future in saved]
            console.print(
                f"interrupted: {len(outcomes)} of {len(chosen)} experiments are finished and kept in {folder}; "
                "the same command continues with the others"
            )
    if outcomes:
        _write_pages(folder, console)
    return code


def _with_bar(bars: Any, experiment: Experiment, **options: Any) -> Outcome:
    task = bars.add_task(experiment.name, total=None)
    try:
        return run(experiment, progress=lambda done, total: bars.update(task, completed=done, total=total), **options)
    finally:
        bars.remove_task(task)


def _bars(console: Any) -> Any:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description:20}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), console=console
    )


def _write_pages(folder: Path, console: Any) -> None:
    """Write the pages about all experiments in the folder, from this call or an earlier one."""
    from outvote.paper.experiments.page import write_index, write_report

    there = [outcome for name in NAMES if (outcome := load(get(name), folder)) is not None]
    index, report = write_index(there, folder), write_report(there, folder)
    console.print(f"{index}\n{report}", highlight=False)
