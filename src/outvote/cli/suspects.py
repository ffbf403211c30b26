"""``outvote suspects``: list rows that look corrupt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from outvote.cli.answer import Asked, Progress, silent
from outvote.contamination import Contamination
from outvote.data.columns import Columns, Label
from outvote.estimate.suspects import rank


@dataclass(frozen=True)
class Suspect:
    """A row, or a user, that looks corrupt: its place, its value (or its text if it is not a number), its score."""

    file: str
    row: int | str
    group: Label
    value: float | None
    text: str
    score: float


@dataclass(frozen=True)
class Suspects:
    """The answer of ``outvote suspects``.

    Attributes
    ----------
    suspects : list of Suspect
        The most suspect rows; rows that are not numbers come first.
    typical : float
        The median score.
    missing : int
        Rows without a value, which are not listed.
    partitions, block_size : int
        Number of partitions, and rows in a block (the largest, if groups differ).
    """

    asked: Asked
    source: str
    value: str
    by: tuple[str, ...]
    n: int
    missing: int
    partitions: int
    block_size: int
    typical: float
    suspects: list[Suspect]

    @property
    def complete(self) -> bool:
        """Whether there is an answer."""
        return True


def suspects(
    columns: Columns,
    asked: Asked,
    source: str,
    *,
    top: int = 20,
    partitions: int = 200,
    progress: Progress = silent,
) -> Suspects:
    """Rank rows by how often their block is voted out over many random partitions of their group."""
    allowed = None if isinstance(asked.contamination, str) else Contamination(asked.contamination)
    values, groups = columns.values, [group.rows for group in columns.groups()]
    found = rank(values, groups, allowed, partitions, asked.seed, progress)
    texts = {cell.row: cell.text for cell in columns.unreadable}
    certain = sorted({*texts, *np.flatnonzero(np.isinf(values)).tolist()})
    ranked = [row for row in found.first(top).tolist() if np.isfinite(values[row])]
    lines = [
        Suspect(
            *columns.place(row),
            columns.labels[int(columns.codes[row])],
            float(values[row]) if np.isfinite(values[row]) else None,
            texts.get(row, "" if np.isfinite(values[row]) else str(values[row])),
            float(found.scores[row]) if np.isfinite(values[row]) else 1.0,
        )
        for row in [*certain, *ranked][:top]
    ]
    missing = int(np.isnan(values).sum()) - columns.n_unreadable
    return Suspects(
        asked, source, columns.name, columns.keys, len(values), missing, partitions, found.block_size, found.typical,
        lines,
    )  # fmt: skip
