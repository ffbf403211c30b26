"""What an engine is: it counts rows and sums up blocks where the data are; the questions are in questions.py."""

from __future__ import annotations

import difflib
import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.estimate.summary import BlockSummary

#: The columns of an answer by group, beside the keys, and what they hold; "column" where there are several questions.
ANSWER = {
    "column": str,
    "estimate": float,
    "low": float,
    "high": float,
    "radius": float,
    "provenance": str,
    "n": int,
    "blocks": int,
    "survives": int,
    "note": str,
}

#: A group's label: one value, or a tuple of them where there are several keys. Without groups there is one, ().
Key = Hashable


@dataclass(frozen=True)
class Tally:
    """Rows of one group: how many there are, how many have NaN or NULL, how many have infinities and neither."""

    n_rows: int
    n_missing: int
    n_infinite: int


@dataclass(frozen=True)
class Query:
    """What an engine is asked for: columns, keys, and the rows in which all columns are finite numbers."""

    columns: tuple[str, ...]
    by: tuple[str, ...] = ()


class Engine(ABC):
    """Where the data are: a frame, files, a cluster."""

    #: Which hash deals the rows: "portable" gives the same blocks everywhere, "native" is the engine's own.
    hashed: str = "portable"

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the columns."""

    def n_rows(self) -> int | None:
        """Return the number of rows where it is known without reading any; the rows are then taken to be finite."""
        return None

    @abstractmethod
    def tally(self, query: Query) -> dict[Key, Tally]:
        """Count the rows of each group; refuse a key that is NULL and a column that holds no numbers."""

    @abstractmethod
    def summaries(self, query: Query, n_blocks: Mapping[Key, int], seed: int) -> dict[Key, BlockSummary]:
        """Sum up the blocks of each group, from the rows in which all columns are finite."""

    @abstractmethod
    def blocks(
        self, query: Query, n_blocks: Mapping[Key, int], seed: int
    ) -> Iterator[tuple[Key, int, NDArray[np.float64]]]:
        """Give the finite rows of each block of each group, one block at a time, in any order."""

    def frame(self, columns: dict[str, list[Any]]) -> Any:
        """Make a table of the kind the data came in; columns that are not in `ANSWER` are keys."""
        import pyarrow as pa

        kinds = {str: pa.string(), float: pa.float64(), int: pa.int64()}
        types = {name: kinds[ANSWER[name]] if name in ANSWER else self.key_type(name) for name in columns}
        return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})

    def key_type(self, name: str) -> Any:
        """Return the Arrow type of a key; None leaves it to Arrow."""
        return None


def check_name(argument: str, name: str, there: Sequence[str]) -> None:
    """Refuse the name of a column that is not there."""
    if name not in there:
        near = difflib.get_close_matches(str(name), map(str, there), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, there[:20]))}"
        raise ValueError(f"{argument}={name!r} is not a column: {hint}")


def check_limit(memory_limit: str | None) -> int | None:
    """Return a limit in bytes; refuse one that is no number of them."""
    if memory_limit is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT])(i?)B", str(memory_limit).strip(), re.IGNORECASE)
    if not found:
        raise ValueError(f"memory_limit={memory_limit!r} must be a size such as '1GB' or '500MB'")
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** (1 + "KMGT".index(unit.upper())))
