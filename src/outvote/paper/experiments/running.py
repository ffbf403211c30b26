"""Run experiments in several processes, save their outcomes, and load saved ones."""

from __future__ import annotations

import contextlib
import csv
import importlib.metadata
import itertools
import json
import math
import platform
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from outvote import _numba
from outvote.data.writing import whole, write_text
from outvote.paper.experiments.base import Experiment, Finding, Outcome, Piece, Size, Tables

#: Called after each piece with the cost of the finished pieces and the total cost.
Progress = Callable[[float, float], None]
_PACKAGES = ("outvote", "numpy", "scipy", "scikit-learn", "matplotlib", "numba")


def run(
    experiment: Experiment,
    *,
    runs: int | None = None,
    seed: int = 0,
    quick: bool = False,
    parallel: Any = None,
    progress: Progress = lambda done, total: None,
) -> Outcome:
    """Run one experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment to run.
    runs : int, optional
        Repetitions; the experiment's number by default.
    seed : int
        The same seed gives the same numbers, whatever the number of processes.
    quick : bool
        Fewer runs and fewer settings.
    parallel : joblib.Parallel, optional
        The pool that runs the pieces (made with ``return_as="generator"``); this process by default.
    progress : callable
        Called after each piece.
    """
    parameters = parameters_of(experiment, runs=runs, seed=seed, quick=quick)
    pieces = list(experiment.pieces(Size(parameters["runs"], quick)))
    start, total, done = time.perf_counter(), sum(piece.cost for piece in pieces), 0.0
    records: list[dict[str, Any]] = []
    progress(done, total)
    for piece, found in zip(pieces, _measured(experiment, pieces, seed, quick, parallel), strict=True):
        records += found
        done += piece.cost
        progress(done, total)
    tables = experiment.tabulate(records)
    return Outcome(
        experiment=experiment.name,
        title=experiment.title,
        where=experiment.where,
        parameters=parameters,
        tables=tables,
        findings=experiment.judge(tables),
        versions=versions(),
        seconds=round(time.perf_counter() - start, 2),
    )


def parameters_of(experiment: Experiment, *, runs: int | None, seed: int, quick: bool) -> dict[str, Any]:
    """Return the parameters that, with the versions of packages, determine the numbers."""
    own = experiment.quick_runs if quick else experiment.runs
    # If nothing is random, more runs would give the same numbers.
    return {"runs": own if runs is None or experiment.runs == 1 else runs, "seed": seed, "quick": quick}


def _measured(experiment: Experiment, pieces: Sequence[Piece], seed: int, quick: bool, parallel: Any) -> Iterator[Any]:
    """Yield the records of the pieces in order; every piece has its own generators."""
    label = zlib.crc32(experiment.name.encode())
    seeds = iter(np.random.SeedSequence([seed, label]).spawn(sum(piece.streams or 1 for piece in pieces)))
    jobs = [(experiment.measure, piece, list(itertools.islice(seeds, piece.streams or 1)), quick) for piece in pieces]
    if parallel is None:
        return (_measure(*job) for job in jobs)
    from joblib import delayed

    return parallel(delayed(_measure)(*job) for job in jobs)


def _measure(measure: Callable[..., Any], piece: Piece, seeds: list[np.random.SeedSequence], quick: bool) -> Any:
    """Return the records of a piece, all computed with compiled forms or all without: their last digits differ."""
    rngs = [np.random.default_rng(seed) for seed in seeds]
    with _numba.numpy_only() if quick else contextlib.nullcontext():  # compiling takes longer than a quick piece
        _numba.compiled(math.inf)
        return measure(rngs[0] if piece.streams is None else rngs, **piece.settings)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages used."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def save(outcome: Outcome, experiment: Experiment, folder: Path) -> list[Path]:
    """Write the figure (PNG and SVG), every table (CSV), and the outcome (JSON, last: it marks the others complete)."""
    import matplotlib as mpl

    from outvote.plotting.base import save as save_figure

    name = outcome.experiment
    figures = [folder / f"{name}.png", folder / f"{name}.svg"]
    with mpl.rc_context({"svg.hashsalt": name, "svg.fonttype": "path"}):
        save_figure(experiment.draw(outcome.tables), *figures)  # the bytes are the same each time
    tables = [_write_csv(folder / f"{table}.csv", rows) for table, rows in outcome.tables.items()]
    document = {**asdict(outcome), "verdict": outcome.verdict, "paragraph": outcome.paragraph()}
    text = json.dumps(_plain(document), indent=1, ensure_ascii=False, allow_nan=False)
    return [*figures, *tables, write_text(folder / f"{name}.json", text + "\n")]


def load(experiment: Experiment, folder: Path) -> Outcome | None:
    """Return the outcome saved in a folder, or None if it is incomplete or cannot be read."""
    name = experiment.name
    try:
        document = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        findings = [Finding(**finding) for finding in document.pop("findings")]
        del document["verdict"], document["paragraph"]
        outcome = Outcome(findings=findings, **document)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    beside = [f"{name}.png", f"{name}.svg", *(f"{table}.csv" for table in outcome.tables)]
    return outcome if all((folder / file).is_file() for file in beside) else None


def _write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    with whole(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)
    return path


def _plain(value: Any) -> Any:
    """Return the value with Python's numbers instead of numpy's, and None instead of infinity and NaN."""
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def resumable(outcome: Outcome | None, parameters: dict[str, Any]) -> bool:
    """Return whether an outcome has these parameters and this version of outvote."""
    return (
        outcome is not None
        and outcome.parameters == parameters
        and outcome.versions.get("outvote") == versions().get("outvote")
    )


__all__ = ["Tables", "load", "parameters_of", "resumable", "run", "save", "versions"]
