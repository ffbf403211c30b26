"""Clusters: a Dask dataframe, or Parquet files that workers read, a row group at a time.

A part of the rows is summed up where it is read, and the summaries are merged in pairs of neighbours. The pairs are
settled before the work begins, so that the answer is the same to the last bit whoever does it, and however often.

For a U-statistic the rows of a block are brought together, as many blocks in a round as the workers have room for.
Every round reads all rows again, and keeps those of its blocks: more rows take more rounds, not more memory.
"""

from __future__ import annotations

import copy
import itertools
import math
import operator
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.blocks.hashing import hash_rows
from outvote.data.files import find_files
from outvote.data.text import count
from outvote.estimate.summary import BlockSummary, GroupedBlockSummary
from outvote.tables.engine import Engine, Key, Query, Tally, add_tallies
from outvote.tables.frames import EagerEngine, summary_of

#: Rows that a worker turns into arrays at once.
_BATCH = 2**17
#: Rows that it hashes at once: the memory of larger arrays is mapped anew every time, which takes longer than the hash.
_HASHED = 2**13
#: The share of its memory limit that a worker holds of the rows of a U-statistic: it needs as much again to move them,
#: and the libraries take more than half of a small limit.
_SHARE = 1 / 12
#: Bytes that it holds where no limit is known.
_ROOM = 2**28
#: Buckets of blocks in a round, or two for each worker where that is more; they are brought here one at a time.
_BUCKETS = 16

Rows = tuple[NDArray[np.float64], Sequence[NDArray[Any]], NDArray[np.int64]]
#: Rows of a range of blocks, sorted by block: its number in the range, values, and ids unless they are in that order.
Shuffled = tuple[NDArray[Any], NDArray[np.float64], NDArray[np.int64] | None]


def cluster_engine(source: Any, row_id: str | None, client: Any) -> Engine:
    """Return the engine for a Dask dataframe, or for Parquet files that the workers of a client read."""
    try:
        import dask.dataframe as dd
        from distributed import Client
    except ModuleNotFoundError:
        raise ModuleNotFoundError("clusters need dask: pip install 'outvote[dask]'") from None
    if client is not None and not isinstance(client, Client):
        raise TypeError(f"client={client!r} is a {type(client).__name__}: give a dask.distributed.Client")
    if isinstance(source, dd.DataFrame):
        return ClusterEngine(_Partitions(source), row_id, client)
    if isinstance(source, (str, os.PathLike)) or (isinstance(source, (list, tuple)) and len(source) > 0):
        patterns = list(source) if isinstance(source, (list, tuple)) else [source]
        return ClusterEngine(_Files(find_files(patterns)[0]), row_id, client)
    raise TypeError(f"source is a {type(source).__name__}: give a Dask dataframe, or Parquet files and client=")


class _Partitions:
    """The partitions of a Dask dataframe."""

    def __init__(self, frame: Any):
        self._frame = frame
        self.empty = frame._meta

    def __str__(self) -> str:
        return f"Dask frame of {count(self._frame.npartitions, 'partition')}"

    def pieces(self, columns: list[str], n_tasks: int | None) -> list[tuple[int, Any]]:
        """Return what tasks are given to read, partitions with these columns alone, each with its number.

        However few tasks are asked for, each has one: a worker would have to hold all of its partitions at once.
        """
        return list(enumerate(self._frame[columns].to_delayed()))

    def answer(self, table: Any) -> Any:
        """Make a Dask dataframe of a table in memory."""
        import dask.dataframe as dd

        return dd.from_pandas(table, npartitions=1)


class _Files:
    """The row groups of Parquet files. Their footers are read here, all else by the workers."""

    def __init__(self, paths: list[str]):
        self._n_files, self._first = len(paths), os.path.abspath(paths[0])
        self._row_groups: list[RowGroup] = []
        self._others: dict[str, Any] = {}  # schemas that are not that of the first file
        for path in map(os.path.abspath, paths):  # a worker may live in another folder
            if not path.lower().endswith(".parquet"):
                raise ValueError(f"{path!r} is no Parquet file: read it with dask.dataframe, and scan that")
            with _opened(path) as file:
                schema = file.schema_arrow.remove_metadata()
                self._row_groups += (RowGroup(path, i) for i in range(file.num_row_groups))
            if path == self._first:
                self._schema, self.empty = schema, schema.empty_table()
            elif not schema.equals(self._schema):
                self._others[path] = schema

    def __str__(self) -> str:
        return f"{count(len(self._row_groups), 'row group')} of {count(self._n_files, 'Parquet file')}"

    def pieces(self, columns: list[str], n_tasks: int | None) -> list[tuple[int, Any]]:
        """Return what tasks are given to read, after a look at the types of these columns, with the first's number.

        It is a row group, or, for about `n_tasks` tasks, several that follow each other.
        """
        for path, schema in self._others.items():
            for name in columns:
                kind = schema.field(name).type if name in schema.names else None
                if kind != self._schema.field(name).type:
                    there = "no" if kind is None else f"a {kind}"
                    raise ValueError(
                        f"{path!r} has {there} column {name!r}, {self._first!r} a {self._schema.field(name).type} one: "
                        "scan files with the same columns"
                    )
        step = max(1, len(self._row_groups) // (n_tasks or len(self._row_groups) or 1))
        return [(i, self._row_groups[i : i + step]) for i in range(0, len(self._row_groups), step)]

    def answer(self, table: Any) -> Any:
        """Leave an Arrow table as it is."""
        return table


@dataclass(frozen=True)
class RowGroup:
    """A row group of a Parquet file."""

    path: str
    number: int

    def tables(self, columns: list[str]) -> Iterator[Any]:
        """Read some columns, as Arrow tables of a few rows each."""
        import pyarrow as pa

        with _opened(self.path) as file:
            try:
                for batch in file.iter_batches(_BATCH, row_groups=[self.number], columns=columns, use_threads=False):
                    yield pa.Table.from_batches([batch])
            except (OSError, pa.ArrowException) as error:
                raise _unreadable(self.path, error) from None


def _opened(path: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # A stream of its own: a whole row group of compressed bytes is not held.
        return pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: Exception) -> Exception:
    kind = OSError if isinstance(error, OSError) else ValueError
    return kind(f"{path!r} cannot be read: {str(error).strip().splitlines()[0]}")


class ClusterEngine(Engine):
    """Workers count and sum up; one summary comes back."""

    def __init__(self, source: _Partitions | _Files, row_id: str | None, client: Any):
        self._source, self._row_id, self._client = source, row_id, client
        self._empty = _Part(source.empty, row_id)
        self._lengths: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return str(self._source)

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return self._empty.names()

    def frame(self, columns: dict[str, list[Any]]) -> Any:
        """Make a Dask dataframe, or an Arrow table where the data are files."""
        return self._source.answer(self._empty.frame(columns))

    def tally(self, query: Query) -> dict[Key, Tally]:
        """Count the rows of each group, and those of each part, so that they can be numbered."""
        self._empty.tally(query)  # refuses columns that hold no numbers before anything is read
        found = self._merged("count", _counted, _counts_merged, _Question(query))
        self._lengths, tallies = ((), {}) if found is None else found
        return tallies

    def summaries(self, query: Query, n_blocks: Mapping[Key, int], seed: int) -> dict[Key, BlockSummary]:
        """Sum up the blocks of each group."""
        question = _Question(query, self._row_id, dict(n_blocks), seed)
        found = self._merged("summary", _summed, _summaries_merged, question)
        return {key: found.group(key) for key in n_blocks} if query.by else {(): found}

    def blocks(
        self, query: Query, n_blocks: Mapping[Key, int], seed: int
    ) -> Iterator[tuple[Key, int, NDArray[np.float64]]]:
        """Bring the rows of each block together on a worker, in rounds that it has room for, and fetch them in turn."""
        n, room = n_blocks[()], self._room()
        bytes_a_row = 8 * len(query.columns) + np.min_scalar_type(n).itemsize + (0 if self._row_id is None else 8)
        n_bytes, in_round = bytes_a_row * sum(self._counted_lengths(query)), max(_BUCKETS, 2 * len(room))
        n_buckets = min(n, max(1, math.ceil(n_bytes * in_round / sum(room))))
        edges = tuple(n * j // n_buckets for j in range(n_buckets + 1))
        for low in range(0, n_buckets, in_round):
            some = edges[low : low + in_round + 1]
            yield from self._round(_Question(query, self._row_id, dict(n_blocks), seed, some))

    def _room(self) -> list[int]:
        """Bytes of rows that each worker may hold."""
        limits = [None]
        if self._client is not None:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
            limits = [worker["memory_limit"] for worker in workers] or limits
        return [max(1, int(limit * _SHARE)) if limit else _ROOM for limit in limits]

    def _round(self, question: _Question) -> Iterator[tuple[Key, int, NDArray[np.float64]]]:
        import dask
        from dask import delayed

        run = _Run()
        parts = self._tasks(run, "split", _split, question, len(question.edges) - 1)
        waiting = []
        for j, (low, high) in enumerate(itertools.pairwise(question.edges)):
            picked = [
                delayed(operator.getitem)(part, j, dask_key_name=run.name("shuffle", j, i))
                for i, part in enumerate(parts)
            ]
            waiting.append(delayed(_bucket)(picked, high - low, dask_key_name=run.name("bucket", j)))
        waiting = list(dask.persist(*waiting) if self._client is None else self._client.persist(waiting))
        for low in question.edges[:-1]:
            counts, values = self._computed(waiting.pop(0))
            starts = np.append(0, counts.cumsum())
            for block in np.flatnonzero(counts).tolist():
                yield (), low + block, values[starts[block] : starts[block + 1]]

    # --- tasks -------------------------------------------------------------------------------------------

    def _counted_lengths(self, query: Query) -> tuple[int, ...]:
        if self._lengths is None:
            self.tally(query)
        assert self._lengths is not None
        return self._lengths

    def _tasks(
        self, run: _Run, name: str, function: Callable[..., Any], question: _Question, n_tasks: int | None = None
    ) -> list[Any]:
        """One task for each part of the rows, its number of rows and its summary, say; or fewer if these will do."""
        from dask import delayed

        shared = delayed(question, name=run.name("question"), traverse=False)
        pieces = self._source.pieces(question.columns, n_tasks)
        firsts: Sequence[int] = ()
        if question.seed is not None and self._row_id is None:
            firsts = list(itertools.accumulate(self._counted_lengths(question.query), initial=0))
        return [
            delayed(function)(piece, firsts[number] if firsts else 0, shared, dask_key_name=run.name(name, i))
            for i, (number, piece) in enumerate(pieces)
        ]

    def _merged(self, name: str, function: Callable[..., Any], merge: Callable[..., Any], question: _Question) -> Any:
        """Ask every part, and merge the answers in pairs of neighbours; None where there are no parts."""
        from dask import delayed

        run, level = _Run(), 0
        found = self._tasks(run, name, function, question)
        while len(found) > 1:
            pairs = [found[i : i + 2] for i in range(0, len(found), 2)]
            found = [
                delayed(merge)(*pair, dask_key_name=run.name("merge", level, i)) if len(pair) == 2 else pair[0]
                for i, pair in enumerate(pairs)
            ]
            level += 1
        return self._computed(found[0]) if found else None

    def _computed(self, task: Any) -> Any:
        import dask

        return dask.compute(task, scheduler=self._client, traverse=False)[0]


class _Run:
    """Names for the tasks of one run: a dashboard shows them by what stands before the first number."""

    def __init__(self) -> None:
        self._token = uuid.uuid4().hex

    def name(self, what: str, *numbers: int) -> str:
        """Name a task."""
        return "-".join(["outvote", what, *map(str, numbers or (0,)), self._token])


# --- what runs on a worker -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Question:
    """What is asked of every part: a count, or, where there is a seed, a summary or the rows of some blocks.

    Bucket j holds the blocks from ``edges[j]`` up to ``edges[j + 1]``.
    """

    query: Query
    row_id: str | None = None
    n_blocks: Mapping[Key, int] | None = None
    seed: int | None = None
    edges: tuple[int, ...] = ()

    @property
    def columns(self) -> list[str]:
        """What has to be read."""
        ids = () if self.row_id is None else (self.row_id,)
        return list(dict.fromkeys((*self.query.columns, *self.query.by, *ids)))


class _Part(EagerEngine):
    """Some of the rows, in memory, the first of which has the number `first` if there is no row id."""

    def __init__(self, frame: Any, row_id: str | None, first: int = 0):
        import narwhals as nw

        super().__init__(nw.from_native(frame, eager_only=True), row_id)
        self._first = first if row_id is None else 0

    def _ids(self, low: int, n_rows: int) -> NDArray[np.int64]:
        return super()._ids(self._first + low, n_rows)

    def rows(self, query: Query) -> Iterator[Rows]:
        """Give values, keys and ids."""
        for low, values, keys in self._chunks(query):
            yield values, keys, self._ids(low, len(values))


def _parts(piece: Any, first: int, question: _Question) -> Iterator[_Part]:
    """Cut a partition or row groups into parts that are small enough to be turned into arrays."""
    if isinstance(piece, list):
        tables = (table for group in piece for table in group.tables(question.columns))
    else:
        tables = (piece.iloc[low : low + _BATCH] for low in range(0, len(piece), _BATCH))
    for table in tables:
        yield _Part(table, question.row_id, first)
        first += len(table)


def _rows(piece: Any, first: int, question: _Question) -> Iterator[Rows]:
    for part in _parts(piece, first, question):
        yield from part.rows(question.query)


Counts = tuple[tuple[int, ...], dict[Key, Tally]]


def _counted(piece: Any, first: int, question: _Question) -> Counts:
    """Count the rows, all of them and by group."""
    tallies = add_tallies(part.tally(question.query) for part in _parts(piece, first, question))
    return (sum(tally.n_rows for tally in tallies.values()),), tallies


def _counts_merged(a: Counts, b: Counts) -> Counts:
    return a[0] + b[0], add_tallies((a[1], b[1]))


@_numba.numpy_only()
def _summed(piece: Any, first: int, question: _Question) -> BlockSummary | GroupedBlockSummary:
    """Sum up the blocks of the rows, and of the groups there are among them."""
    n_blocks, seed = question.n_blocks, question.seed
    assert n_blocks is not None
    assert seed is not None
    return summary_of(_rows(piece, first, question), n_blocks, seed)


def _summaries_merged(a: Any, b: Any) -> Any:
    # A copy: should a worker be lost, `a` is needed once more, as it was.
    return copy.deepcopy(a).merge(b)


@_numba.numpy_only()
def _split(piece: Any, first: int, question: _Question) -> list[Shuffled]:
    """Pick the finite rows of the blocks that are asked for, and deal them to buckets, sorted by block."""
    assert question.n_blocks is not None
    assert question.seed is not None
    low, high = question.edges[0], question.edges[-1]
    kind = np.min_scalar_type(high - low)  # sorted without comparisons where two bytes suffice
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


def _bucket(parts: Sequence[Shuffled], n_blocks: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Bring the rows of each block together, in the order of their ids, and count them.

    Parts without ids come in that order. Rows are put where they belong one part at a time: sorting all of them would
    take three times their memory.
    """
    counts, n_rows = np.zeros(n_blocks, dtype=np.intp), sum(len(blocks) for blocks, _, _ in parts)
    for blocks, _, _ in parts:
        counts += np.bincount(blocks, minlength=n_blocks)
    values, ids = np.empty((n_rows, parts[0][1].shape[1])), np.empty(n_rows, dtype=np.int64)
    free = counts.cumsum() - counts  # where the next row of each block goes
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
