"""The class `Experiment`: pieces of work, tables made from them, a figure, and findings on the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

#: A table is a list of rows. All rows have the same columns; cells are numbers, text, booleans or None.
Table = list[dict[str, Any]]
#: Tables by name. The first is the main table of the experiment.
Tables = dict[str, Table]
Verdict = Literal["holds", "holds in part", "does not hold"]


@dataclass(frozen=True)
class Size:
    """The size of an experiment: runs of each setting, and whether to try fewer settings."""

    runs: int
    quick: bool = False


@dataclass(frozen=True)
class Piece:
    """The work of one process: settings for `measure`, and its cost relative to other pieces.

    If `streams` is given, `measure` gets a list of that many generators instead of one. The numbers drawn then do not
    change if the work is cut into pieces differently.
    """

    settings: Mapping[str, Any]
    cost: float = 1.0
    streams: int | None = None


@dataclass(frozen=True)
class Finding:
    """A claim, the verdict, the numbers measured, and the reason if the claim does not hold."""

    claim: str
    verdict: Verdict
    measured: str
    why: str = ""

    def sentence(self) -> str:
        """Return claim, numbers and verdict as sentences."""
        parts = [f"Claim: {_stopped(self.claim)}", f"Measured: {_stopped(self.measured)}"]
        parts.append(f"It {self.verdict}." if not self.why else f"It {self.verdict}: {_stopped(self.why)}")
        return " ".join(parts)


def _stopped(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


@dataclass(frozen=True)
class Experiment:
    """One figure or table of the paper, to be computed again.

    Parameters
    ----------
    name : str
        Its name on the command line, with which its files begin.
    title : str
        A title of one line.
    where : str
        The figure or statement of the paper, or "beyond the paper".
    runs, quick_runs : int
        Repetitions of every setting: the paper's number, and the number with ``--quick``. 1 if nothing is random.
    pieces : callable
        ``pieces(size)`` cuts the work into pieces. The cut depends on the size alone, so that results do not depend
        on the number of processes.
    measure : callable
        ``measure(rng, **piece.settings)`` does a piece and returns a list of records. It may run in another process, so
        it must be a function of a module. No other piece uses `rng`, which is a list for pieces with `streams`.
    tabulate : callable
        ``tabulate(records)`` makes tables from the records of all pieces, in their order.
    draw : callable
        ``draw(tables)`` returns a matplotlib figure, made from the tables alone.
    judge : callable
        ``judge(tables)`` returns findings, one for each claim.
    """

    name: str
    title: str
    where: str
    runs: int
    quick_runs: int
    pieces: Callable[[Size], Sequence[Piece]]
    measure: Callable[..., list[dict[str, Any]]]
    tabulate: Callable[[list[dict[str, Any]]], Tables]
    draw: Callable[[Tables], Any]
    judge: Callable[[Tables], list[Finding]]

    @property
    def beyond(self) -> bool:
        """Whether the experiment is not in the paper."""
        return self.where == "beyond the paper"


@dataclass(frozen=True)
class Outcome:
    """The outcome of an experiment: everything needed to draw it, to judge it, and to run it again."""

    experiment: str
    title: str
    where: str
    parameters: dict[str, Any]
    tables: Tables
    findings: list[Finding]
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def paragraph(self) -> str:
        """Return the claims, the numbers measured, and whether the claims hold, as sentences."""
        return " ".join(finding.sentence() for finding in self.findings)

    @property
    def verdict(self) -> Verdict:
        """The verdict on all claims together."""
        each = {finding.verdict for finding in self.findings}
        return each.pop() if len(each) == 1 else "holds in part"


def mean_and_error(values: Any) -> tuple[float, float]:
    """Return the mean over runs and its standard error."""
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(error)


def column(table: Table, name: str, **where: Any) -> np.ndarray[Any, Any]:
    """Return a column of a table as an array, for the rows that have the given cells."""
    return np.array([row[name] for row in table if all(row[key] == value for key, value in where.items())])
