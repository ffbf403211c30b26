"""What an engine is: it counts rows and sums up blocks where the data are; scan.py asks the questions."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.data.files import check_name
from outvote.estimate.summary import BlockSummary

#: The columns of an answer by group, beside the keys, and what they hold; "column" where there are several questions.
ANSWER: dict[str, type] = {
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

#: What answers by evidence have of each group, beside the keys.
BY_GROUP: dict[str, type] = {
    "estimate": float,
    "low": float,
    "high": float,
    "n": int,
    "corrupt": int,
    "provenance": str,
}

#: A group's label: one value, or a tuple of them where there are several keys. Without groups there is one, ().
Key = Hashable
#: Rows in memory: their values, keys and ids.
NumberedRows = tuple[NDArray[np.float64], Sequence[NDArray[Any]], NDArray[np.int64]]
#: No sum of rows multiplied by this is too large for a float.
_UNIT = 2.0**-60


@dataclass(frozen=True)
class Tally:
    """Rows of one group.

    Attributes
    ----------
    n_rows, n_missing, n_infinite : int
        Rows, those with NaN or NULL, those with infinities and neither.
    n_unreadable : int
        Rows with text instead of a number, counted among the missing.
    example : tuple of (str, int, str) or None
        The file, row and text of the first of them, where these are known.
    """

    n_rows: int
    n_missing: int
    n_infinite: int
    n_unreadable: int = 0
    example: tuple[str, int, str] | None = None

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.n_rows + other.n_rows,
            self.n_missing + other.n_missing,
            self.n_infinite + other.n_infinite,
            self.n_unreadable + other.n_unreadable,
            self.example or other.example,
        )


def add_tallies(tallies: Iterable[Mapping[Key, Tally]]) -> dict[Key, Tally]:
    """Add up the counts of several chunks."""
    found: dict[Key, Tally] = {}
    for one in tallies:
        for key, tally in one.items():
            found[key] = found[key] + tally if key in found else tally
    return found


def labelled(query: Query, labels: Iterable[Any]) -> Key:
    """Return the label of a group from its keys; refuse a key that is NULL or NaN."""
    several = tuple(labels)
    for name, label in zip(query.by, several, strict=True):
        if label is None or label != label:
            refuse_null_key(name)
    return several[0] if len(several) == 1 else several


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
        """Yield the finite rows of each block of each group, one block at a time, in any order."""

    @abstractmethod
    def rows(self, query: Query) -> Iterator[NumberedRows]:
        """Yield all rows with their keys and ids, some at a time, NULL as NaN; `tally` has been called."""

    def frame(self, columns: dict[str, list[Any]], answer: Mapping[str, type] = ANSWER) -> Any:
        """Return a table of the kind the data came in; columns that are not in `answer` are keys."""
        import pyarrow as pa

        kinds = {str: pa.string(), float: pa.float64(), int: pa.int64()}
        types = {name: kinds[answer[name]] if name in answer else self.key_type(name) for name in columns}
        return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})

    def key_type(self, name: str) -> Any:
        """Return the Arrow type of a key; None leaves it to Arrow."""
        return None


def samples_of(
    engine: Engine, query: Query, labels: Sequence[Key]
) -> list[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Bring the first column of each group here, in the order of the ids, with these."""
    found: list[list[tuple[Any, Any]]] = [[] for _ in labels]
    for values, keys, ids in engine.rows(query):
        for sample, label in zip(found, labels, strict=True):
            mine = keys[0] == label if keys else slice(None)
            sample.append((values[mine, 0], ids[mine]))
    samples = []
    for sample in found:
        rows, ids = (np.concatenate(parts) for parts in zip(*sample, strict=True))
        order = np.argsort(ids, kind="stable")  # an engine gives them in any order
        samples.append((rows[order], ids[order]))
    return samples


class Lines(NamedTuple):
    """What an engine has found of each block: the numbers of its group and of itself, its rows, mean and variance."""

    groups: NDArray[Any]
    blocks: NDArray[Any]
    counts: NDArray[Any]
    means: NDArray[np.float64]
    variances: NDArray[np.float64]

    def in_order(self) -> Lines:
        """Return the lines sorted by group and block."""
        order = np.lexsort((self.blocks, self.groups))
        return Lines(*(array[order] for array in self))


def summaries_from_lines(
    ask: Callable[[float], Lines], n_blocks: Mapping[Key, int], seed: int, source: str
) -> dict[Key, BlockSummary]:
    """Build summaries from what an engine finds; `ask` it for lines of rows multiplied by some number.

    Where the sum of a block is too large for a float, its mean is taken of smaller numbers.
    """
    lines = ask(1.0).in_order()
    means = lines.means
    if not np.isfinite(means).all():
        means = np.where(np.isfinite(means), means, ask(_UNIT).in_order().means / _UNIT)
        refuse_nan(means, source)
    with np.errstate(over="ignore", invalid="ignore"):
        m2 = lines.variances * lines.counts[:, None]
    m2 = np.where(np.isfinite(m2), np.maximum(m2, 0.0), np.inf)
    edges = np.searchsorted(lines.groups, np.arange(len(n_blocks) + 1))
    return {
        key: BlockSummary.of_blocks(
            k, seed, lines.blocks[low:high], lines.counts[low:high], means[low:high], m2[low:high]
        )
        for (key, k), (low, high) in zip(n_blocks.items(), itertools.pairwise(edges.tolist()), strict=True)
    }


# --- refusals --------------------------------------------------------------------------------------------


def check_row_id(row_id: str | None, names: list[str], is_integer: bool | None) -> None:
    """Refuse a row id that is not a column of integers."""
    if row_id is None:
        return
    check_name("row_id", row_id, names)
    if not is_integer:
        raise TypeError(
            f"row_id={row_id!r} must be a column of integers: number the rows, or hash their keys to integers"
        )


def refuse_column(name: str, kind: Any) -> None:
    """Say that a column holds no numbers."""
    raise TypeError(f"column={name!r} holds {kind}, but real numbers are needed: convert it first")


def refuse_key(name: str, kind: Any) -> None:
    """Say that a column cannot be a key."""
    raise TypeError(f"by={name!r} holds {kind}, but a key is text, a number, a boolean or a date: convert it first")


def refuse_null_id(name: str | None) -> None:
    """Say that some rows have no id."""
    raise ValueError(f"row_id={name!r} is not a whole number in some rows: every row needs one")


def refuse_large_id(name: str | None, largest: int) -> None:
    """Say that a row id is too large."""
    raise ValueError(f"row_id={name!r} has the value {largest}: row ids lie below 2**63, number the rows instead")


def refuse_null_key(name: str) -> None:
    """Say that a key is NULL in some rows."""
    raise ValueError(f"by={name!r} is NULL in some rows: fill it, or filter these rows out")


def refuse_nan(numbers: NDArray[np.float64], source: str) -> None:
    """Say that an engine took NaN for a number, as it may where the statistics of a file do not know of any."""
    if not np.isfinite(numbers).all():
        raise RuntimeError(f"{source} has NaN or infinite values that were not found when they were counted")
