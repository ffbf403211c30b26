"""What the workers of a cluster do with their part of the rows; functions of (piece, first, question)."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.blocks.hashing import hash_rows
from outvote.estimate.summary import BlockSummary, GroupedBlockSummary, RowSummary
from outvote.tables.engine import Key, NumberedRows, Query, Tally, add_tallies, usable_parts
from outvote.tables.frames import EagerEngine, summary_of
from outvote.tables.gathered import Floats, Part, Values, Wanted, pilots_of, summaries_of, values_in_bins
from outvote.votes.evidence import Grid

#: Rows that a worker turns into arrays at once.
_BATCH = 2**17
#: Rows that a worker hashes at once: mapping the memory of larger arrays takes longer than the hash.
_HASHED = 2**13

#: Rows of a range of blocks, sorted by block: block numbers within the range, values, and ids, or None if in order.
Shuffled = tuple[NDArray[Any], NDArray[np.float64], NDArray[np.int64] | None]


@dataclass(frozen=True)
class RowGroup:
    """A row group of a Parquet file."""

    path: str
    number: int

    def tables(self, columns: list[str]) -> Iterator[Any]:
        """Yield some columns, as Arrow tables of a few rows each."""
        import pyarrow as pa

        with opened(self.path) as file:
            try:
                for batch in file.iter_batches(_BATCH, row_groups=[self.number], columns=columns, use_threads=False):
                    yield pa.Table.from_batches([batch])
            except (OSError, pa.ArrowException) as error:
                raise _unreadable(self.path, error) from None


def opened(path: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # A small buffer, so that the compressed bytes of a whole row group are not held.
        return pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: Exception) -> Exception:
    kind = OSError if isinstance(error, OSError) else ValueError
    return kind(f"{path!r} cannot be read: {str(error).strip().splitlines()[0]}")


@dataclass(frozen=True)
class Question:
    """The work for every part: a count or, if there is a seed, a summary or the rows of some blocks.

    Bucket j has the blocks from ``edges[j]`` up to ``edges[j + 1]``. For evidence there are labels of groups, which
    rows of each choose its bins, and the bins of each of its columns.
    """

    query: Query
    row_id: str | None = None
    n_blocks: Mapping[Key, int] | None = None
    seed: int | None = None
    edges: tuple[int, ...] = ()
    labels: tuple[Key, ...] = ()
    steps: tuple[int, ...] = ()
    grids: tuple[tuple[Grid, ...], ...] = ()
    wanted: tuple[Wanted, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        ids = () if self.row_id is None else (self.row_id,)
        return list(dict.fromkeys((*self.query.columns, *self.query.by, *ids)))


class PartOfRows(EagerEngine):
    """Some of the rows, in memory; without a row id, the first of them has the number `first`."""

    def __init__(self, frame: Any, row_id: str | None, first: int = 0):
        import narwhals as nw

        super().__init__(nw.from_native(frame, eager_only=True), row_id)
        self._first = first if row_id is None else 0

    def _ids(self, low: int, n_rows: int) -> NDArray[np.int64]:
        return super()._ids(self._first + low, n_rows)


def _parts(piece: Any, first: int, question: Question) -> Iterator[PartOfRows]:
    """Yield a partition or row groups in parts that are small enough to be turned into arrays."""
    if isinstance(piece, list):
        tables = (table for group in piece for table in group.tables(question.columns))
    else:
        tables = (piece.iloc[low : low + _BATCH] for low in range(0, len(piece), _BATCH))
    for table in tables:
        yield PartOfRows(table, question.row_id, first)
        first += len(table)


def _rows(piece: Any, first: int, question: Question) -> Iterator[NumberedRows]:
    for part in _parts(piece, first, question):
        yield from part.rows(question.query)


def fetched(piece: Any, first: int, question: Question) -> list[NumberedRows]:
    """Return the rows with their keys and ids."""
    return list(_rows(piece, first, question))


#: The rows of each group, of every part.
Counts = tuple[dict[Key, Tally], ...]


def counted(piece: Any, first: int, question: Question) -> Counts:
    """Return the number of rows by group."""
    return (add_tallies(part.tally(question.query) for part in _parts(piece, first, question)),)


def counts_merged(a: Counts, b: Counts) -> Counts:
    return a + b


def n_usable(tally: Tally | None, query: Query) -> int:
    """Return how many rows of a group are usable."""
    return 0 if tally is None else tally.n_rows - tally.n_missing - (0 if query.infinite else tally.n_infinite)


def streamed(piece: Any, first: int, question: Question) -> list[Part]:
    """Return the rows of some groups."""
    parts = (one for part in _parts(piece, 0, question) for one in part.stream(question.query, question.labels))
    return [part if part.codes is None else part.where(part.codes >= 0) for part in parts]


def _usable(piece: Any, question: Question) -> Iterator[Part]:
    parts = (one for part in _parts(piece, 0, question) for one in part.stream(question.query, question.labels))
    return usable_parts(parts, question.query)


def piloted(piece: Any, before: NDArray[np.int64], question: Question) -> list[list[Floats]]:
    """Return the rows that choose the bins of each group, given how many rows of it come before."""
    return [[rows] for rows in pilots_of(_usable(piece, question), question.steps, before)]


def pilots_merged(a: list[list[Floats]], b: list[list[Floats]]) -> list[list[Floats]]:
    return [mine + theirs for mine, theirs in zip(a, b, strict=True)]


def found_in_bins(piece: Any, first: int, question: Question) -> list[Values]:
    """Return the values of rows in some bins of each group."""
    return values_in_bins(_usable(piece, question), question.wanted)


@_numba.numpy_only()
def counted_in_bins(piece: Any, first: int, question: Question) -> list[list[RowSummary]]:
    """Return the summaries of the rows of each group."""
    return summaries_of(_usable(piece, question), question.grids)


@_numba.numpy_only()
def summed(piece: Any, first: int, question: Question) -> BlockSummary | GroupedBlockSummary:
    """Return the summary of the rows, by group if there are groups."""
    n_blocks, seed = question.n_blocks, question.seed
    assert n_blocks is not None
    assert seed is not None
    return summary_of(_rows(piece, first, question), n_blocks, seed)


def summaries_merged(a: Any, b: Any) -> Any:
    # A copy is made because `a` is needed again, unchanged, if a worker is lost.
    return copy.deepcopy(a).merge(b)


@_numba.numpy_only()
def split_into_buckets(piece: Any, first: int, question: Question) -> list[Shuffled]:
    """Return the finite rows of the requested blocks in buckets, sorted by block."""
    assert question.n_blocks is not None
    assert question.seed is not None
    low, high = question.edges[0], question.edges[-1]
    kind = np.min_scalar_type(high - low)  # numpy uses a radix sort if two bytes suffice
    some: list[Any] = [(np.empty(0, kind), np.empty((0, len(question.query.columns))), np.empty(0, np.int64))]
    for values, _, ids in _rows(piece, first, question):
        for i in range(0, len(ids), _HASHED):
            part, numbers = values[i : i + _HASHED], ids[i : i + _HASHED]
            found = hash_rows(numbers, question.seed) % question.n_blocks[()]
            keep = (found >= low) & (found < high) & np.isfinite(part).all(axis=1)
            some.append(((found[keep] - low).astype(kind), part[keep], numbers[keep]))
    blocks, values, ids = (np.concatenate(arrays) for arrays in zip(*some, strict=True))
    order = np.argsort(blocks, kind="stable")
    starts = (np.array(question.edges[:-1]) - low).astype(kind)
    buckets = []
    for start, mine in zip(starts, np.split(order, np.searchsorted(blocks[order], starts[1:])), strict=True):
        buckets.append((blocks[mine] - start, values[mine], None if question.row_id is None else ids[mine]))
    return buckets


def bucket(parts: Sequence[Shuffled], n_blocks: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the number of rows of each block, and their values, sorted by block and id.

    Parts without ids are in the order of ids. Rows are moved to their place one part at a time, because sorting all of
    them would take three times their memory.
    """
    counts, n_rows = np.zeros(n_blocks, dtype=np.intp), sum(len(blocks) for blocks, _, _ in parts)
    for blocks, _, _ in parts:
        counts += np.bincount(blocks, minlength=n_blocks)
    values, ids = np.empty((n_rows, parts[0][1].shape[1])), np.empty(n_rows, dtype=np.int64)
    free = counts.cumsum() - counts  # the place of the next row of each block
    for blocks, some, numbers in parts:
        here = np.bincount(blocks, minlength=n_blocks)
        places = (free - here.cumsum() + here)[blocks] + np.arange(len(blocks))
        values[places] = some
        if numbers is not None:
            ids[places] = numbers
        free += here
    if parts[0][2] is not None:
        values = values[np.lexsort((ids, np.repeat(np.arange(n_blocks), counts)))]
    return counts, values
