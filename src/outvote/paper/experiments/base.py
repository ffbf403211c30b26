"""What an experiment is: pieces of work, the tables they make, a figure, and findings about the paper's claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

#: A table is a list of rows; every row has the same columns, and holds numbers, text, booleans or None.
Table = list[dict[str, Any]]
#: Tables by name. The first is the experiment's main one.
Tables = dict[str, Table]
Verdict = Literal["holds", "holds in part", "does not hold"]


@dataclass(frozen=True)
class Size:
    """How much is asked for: runs of each setting, and whether fewer settings will do."""

    runs: int
    quick: bool = False


@dataclass(frozen=True)
class Piece:
    """Work that one process does at once: settings for `measure`, and what it costs beside other pieces.

    With a number of `streams` it is given a list of so many generators in place of one: what belongs together because
    it is fast may be cut differently some day, and draws the same numbers.
    """

    settings: Mapping[str, Any]
    cost: float = 1.0
    streams: int | None = None


@dataclass(frozen=True)
class Finding:
    """One claim and what became of it: the figure measured, and why where it does not hold."""

    claim: str
    verdict: Verdict
    measured: str
    why: str = ""

    def sentence(self) -> str:
        """Write claim, figure and verdict as running text."""
        parts = [f"Claim: {_stopped(self.claim)}", f"Measured: {_stopped(self.measured)}"]
        parts.append(f"It {self.verdict}." if not self.why else f"It {self.verdict}: {_stopped(self.why)}")
        return " ".join(parts)


def _stopped(text: str) -> str:
    return text if text.endswith((".", "?", "!")) else f"{text}."


@dataclass(frozen=True)
class Experiment:
    """One figure or table, made anew.

    Parameters
    ----------
    name : str
        What it is called on the command line, and how its files begin.
    title : str
        One line.
    where : str
        Where the paper has it, or "beyond the paper".
    runs, quick_runs : int
        Repetitions of every setting: the paper's own number, and that of a quick look. 1 where nothing is drawn at
        random.
    pieces : callable
        ``pieces(size)`` cuts the work up. The cut depends on nothing but the size, so that results do not depend on
        the number of processes.
    measure : callable
        ``measure(rng, **piece.settings)`` does a piece and returns a list of records. It may run in another process, so
        it is a function of a module; `rng`, or each of the list that pieces with `streams` get, belongs to this piece.
    tabulate : callable
        ``tabulate(records)`` turns the records of all pieces, in their order, into tables.
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
        """Whether the paper has nothing of the kind."""
        return self.where == "beyond the paper"


@dataclass(frozen=True)
class Outcome:
    """What an experiment gave: all that is needed to draw it, to judge it, and to run it again."""

    experiment: str
    title: str
    where: str
    parameters: dict[str, Any]
    tables: Tables
    findings: list[Finding]
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def paragraph(self) -> str:
        """Write the verdict: the claims, what was measured, and whether they hold."""
        return " ".join(finding.sentence() for finding in self.findings)

    @property
    def verdict(self) -> Verdict:
        """The verdict on all claims together."""
        each = {finding.verdict for finding in self.findings}
        return each.pop() if len(each) == 1 else "holds in part"


def mean_and_error(values: Any) -> tuple[float, float]:
    """Return the mean of some runs and its standard error."""
    values = np.asarray(values, dtype=float)
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
    return float(values.mean()), float(error)


def column(table: Table, name: str, **where: Any) -> np.ndarray[Any, Any]:
    """Return a column of a table as an array, over the rows whose cells are as given."""
    return np.array([row[name] for row in table if all(row[key] == value for key, value in where.items())])
