"""What an engine is: it counts rows and sums up blocks where the data are; scan.py asks the questions."""

from __future__ import annotations

import itertools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.data.files import check_name
from outvote.data.groups import group_codes
from outvote.estimate.summary import BlockSummary, RowSummary
from outvote.tables.gathered import (
    Floats,
    Groups,
    Part,
    Sizes,
    Values,
    Wanted,
    pilots_of,
    summaries_of,
    values_in_bins,
)
from outvote.tables.gathered import Key as Key
from outvote.votes.evidence import Grid

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

#: What is worked out of the rows of each user.
_TOTALS = {"v": np.add, "low": np.minimum, "high": np.maximum}
#: Rows in memory: their values, keys and ids.
NumberedRows = tuple[NDArray[np.float64], Sequence[NDArray[Any]], NDArray[np.int64]]
#: No sum of rows multiplied by this is too large for a float.
_UNIT = 2.0**-60
#: Sds below this share of the mean lose more than nine of the sixteen digits that floats have.
_FEW_DIGITS = 1e-7


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
    """What an engine is asked for: columns, keys, and the rows in which all columns are numbers, finite unless told."""

    columns: tuple[str, ...]
    by: tuple[str, ...] = ()
    infinite: bool = False


class Engine(ABC):
    """Where the data are: a frame, files, a cluster."""

    #: Which hash deals the rows: "portable" gives the same blocks everywhere, "native" is the engine's own.
    hashed: str = "portable"
    #: Whether all rows are in memory, in the order that counts.
    in_memory: bool = False
    _row_id: str | None = None

    @property
    def has_ids(self) -> bool:
        """Whether rows have ids of their own."""
        return self._row_id is not None

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of the columns."""

    def check_names(self, named: Mapping[str, Sequence[str]]) -> None:
        """Refuse names of columns, those that each argument gives, that are not there."""
        for argument, names in named.items():
            for name in names:
                check_name(argument, name, self.names())

    def n_rows(self) -> int | None:
        """Return the number of rows where it is known without reading any; the rows are then taken to be finite."""
        return None

    @abstractmethod
    def is_boolean(self, name: str) -> bool:
        """Return whether a column holds booleans by its type."""

    @abstractmethod
    def tally(self, query: Query, *, ids: bool = True) -> dict[Key, Tally]:
        """Count the rows of each group; refuse a key that is NULL and a column that holds no numbers.

        With `ids` also refuse ids that are NULL or too large.
        """

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

    # --- evidence: rows of small groups, summaries of large ones ------------------------------------------

    @abstractmethod
    def stream(self, query: Query, labels: Sequence[Key]) -> Iterator[Part]:
        """Yield all rows in their order, some at a time, with the numbers of their groups among `labels`.

        `tally` has been called.
        """

    def pilots(self, query: Query, sizes: Sizes) -> list[Floats]:
        """Return the rows of each large group that choose its bins."""
        return pilots_of(self._usable(query, sizes.large), sizes.steps)

    def row_summaries(
        self, query: Query, labels: Sequence[Key], grids: Sequence[Sequence[Grid]]
    ) -> list[list[RowSummary]]:
        """Count the finite rows of each group in bins, a summary for each column."""
        return summaries_of(self._usable(query, labels), grids)

    def in_bins(self, query: Query, labels: Sequence[Key], wanted: Sequence[Wanted]) -> list[Values]:
        """Return the values of rows in some bins of each group, and how many rows have each."""
        return values_in_bins(self._usable(query, labels), wanted)

    def _usable(self, query: Query, labels: Sequence[Key]) -> Iterator[Part]:
        return usable_parts(self.stream(query, labels), query)

    def kept(self, query: Query, labels: Sequence[Key], *, omit: bool) -> Groups:
        """Bring the rows of some groups here, in the order of their ids if they have any; leave out bad ones or not."""
        parts, n_columns = self.stream(query, labels), len(query.columns)
        return Groups.of_parts(parts, labels, n_columns, omit=omit, infinite=query.infinite)

    def sums(self, query: Query, unit: str) -> Any:
        """Add up the rows of each user in each group; `tally` has been called.

        Return a narwhals frame: keys k0, …, the user u, sums v0, … of the columns, their least and largest value low0,
        high0, …, and bad, the number of rows that have NaN, NULL or text in some column.
        """
        import narwhals as nw

        parts = list(self.rows(Query(query.columns, (*query.by, unit))))
        values = np.concatenate([part[0] for part in parts])
        keys = [np.concatenate([part[1][j] for part in parts]) for j in range(len(query.by) + 1)]
        labels, codes = group_codes(tuple(keys))
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        rows, bad = values[order], np.isnan(values).any(axis=1)[order]
        columns: dict[str, Any] = {f"k{j}": [label[j] for label in labels] for j in range(len(query.by))}  # type: ignore[index]
        columns |= {"u": [label[-1] for label in labels], "bad": np.add.reduceat(bad.astype(np.int64), starts)}  # type: ignore[index]
        with np.errstate(over="ignore", invalid="ignore"):  # sums that no float holds are infinite
            for j in range(len(query.columns)):
                columns |= {f"{name}{j}": how.reduceat(rows[:, j], starts) for name, how in _TOTALS.items()}
        return nw.from_dict(columns, backend="pyarrow")

    def frame(self, columns: dict[str, list[Any]], answer: Mapping[str, type | str] = ANSWER) -> Any:
        """Return a table of the kind the data came in; columns that are not in `answer` are keys.

        In `answer` the name of a key stands for its type.
        """
        import pyarrow as pa

        kinds = {str: pa.string(), float: pa.float64(), int: pa.int64(), bool: pa.bool_()}
        held = {name: answer.get(name, name) for name in columns}
        types = {name: self.key_type(kind) if isinstance(kind, str) else kinds[kind] for name, kind in held.items()}
        return pa.table({name: pa.array(values, types[name]) for name, values in columns.items()})

    def key_type(self, name: str) -> Any:
        """Return the Arrow type of a key; None leaves it to Arrow."""
        return None


def usable_parts(parts: Iterable[Part], query: Query) -> Iterator[Part]:
    """Return the rows that are counted in bins."""
    for part in parts:
        yield (part.bounded() if query.infinite else part).usable()


def numbered(labels: Sequence[Key]) -> dict[Key, int]:
    """Return the number of each label."""
    return {label: number for number, label in enumerate(labels)}


def as_pandas(table: Any) -> Any:
    """Return an Arrow table as a pandas frame if pandas is installed, and else as it is."""
    try:
        import pandas  # noqa: F401
        import pyarrow
    except ModuleNotFoundError:
        return table
    gaps = [
        field.name for field in table.schema if pyarrow.types.is_integer(field.type) and table[field.name].null_count
    ]
    return table.to_pandas().astype(dict.fromkeys(gaps, "Int64"))  # whose own integers have no missing values


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
    ask: Callable[[float, Floats | None], Lines], n_blocks: Mapping[Key, int], seed: int, source: str
) -> dict[Key, BlockSummary]:
    """Build summaries from what an engine finds; `ask` it for lines of rows multiplied by a number, less others.

    Where the sum of a block is too large for a float, its mean is taken of smaller numbers. Where rows are far from 0
    beside their sd, so that sums lose digits, they are taken of the rows less the median of the means.
    """
    lines = ask(1.0, None).in_order()
    means, variances = lines.means, lines.variances
    if not np.isfinite(means).all():
        means = np.where(np.isfinite(means), means, ask(_UNIT, None).in_order().means / _UNIT)
        refuse_nan(means, source)
    with np.errstate(over="ignore", invalid="ignore"):
        if ((variances != 0) & (np.sqrt(np.abs(variances)) < _FEW_DIGITS * np.abs(means))).any():
            middle = np.median(means, axis=0)
            near, less = np.abs(means - middle) < np.abs(means) / 2, ask(1.0, middle).in_order()
            means = np.where(near, middle + less.means, means)  # nothing is lost by subtracting
            variances = np.where(near, less.variances, variances)
        m2 = variances * lines.counts[:, None]
    m2 = np.where(np.isfinite(m2), np.maximum(m2, 0.0), np.inf)
    edges = np.searchsorted(lines.groups, np.arange(len(n_blocks) + 1))
    return {
        key: BlockSummary.of_blocks(
            k, seed, lines.blocks[low:high], lines.counts[low:high], means[low:high], m2[low:high]
        )
        for (key, k), (low, high) in zip(n_blocks.items(), itertools.pairwise(edges.tolist()), strict=True)
    }


# --- refusals --------------------------------------------------------------------------------------------


def warn_of_repeated_ids(row_id: str | None, low: int, high: int, n_rows: int) -> None:
    """Warn of row ids that cannot all be distinct, because there are fewer integers between them than rows."""
    if row_id is not None and n_rows > high - low + 1:
        warnings.warn(
            f"row_id={row_id!r} has {n_rows} rows, but only {high - low + 1} integers from {low} to {high}: rows with "
            "the same id always share a block; number the rows instead",
            UserWarning,
            stacklevel=2,
        )


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
