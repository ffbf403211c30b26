"""Scan a Dask dataframe, or Parquet files that the workers of a cluster read, one row group at a time.

Each worker sums up the rows that it reads, and neighbouring summaries are merged in pairs. The pairs are fixed before
the work begins, so that the answer is the same to the last bit on any workers and in any order.

For a U-statistic the rows of a block are brought together, as many blocks in a round as fit the memory of the workers.
Every round reads all rows again, and keeps the rows of its blocks: more rows take more rounds, not more memory.
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
from outvote.tables.engine import ANSWER, Engine, Key, NumberedRows, Query, Tally, add_tallies
from outvote.tables.frames import EagerEngine, summary_of

#: Rows that a worker turns into arrays at once.
_BATCH = 2**17
#: Rows that a worker hashes at once: mapping the memory of larger arrays takes longer than the hash.
_HASHED = 2**13
#: The share of its memory limit that a worker uses for the rows of a U-statistic: moving the rows needs as much again,
#: and the libraries take more than half of a small limit.
_SHARE = 1 / 12
#: Bytes of rows per worker if no memory limit is known.
_ROOM = 2**28
#: Buckets of blocks in a round (two for each worker if that is more); they are fetched one at a time.
_BUCKETS = 16

#: Rows of a range of blocks, sorted by block: block numbers within the range, values, and ids, or None if in order.
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
        """Return the partitions with these columns, each with its number; every task reads one of them.

        `n_tasks` is ignored: a task with several partitions would have to hold all of them at once.
        """
        return list(enumerate(self._frame[columns].to_delayed()))

    def answer(self, table: Any) -> Any:
        """Return a table in memory as a Dask dataframe."""
        import dask.dataframe as dd

        return dd.from_pandas(table, npartitions=1)


class _Files:
    """The row groups of Parquet files. The footers are read here, the rows by the workers."""

    def __init__(self, paths: list[str]):
        self._n_files, self._first = len(paths), os.path.abspath(paths[0])
        self._row_groups: list[RowGroup] = []
        self._others: dict[str, Any] = {}  # schemas that differ from that of the first file
        for path in map(os.path.abspath, paths):  # a worker may run in another folder
            if not path.lower().endswith(".parquet"):
                raise ValueError(f"{path!r} is not a Parquet file: read it with dask.dataframe, and scan the dataframe")
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
        """Return the row groups of each task, with the number of the first; check the types of the columns.

        A task reads one row group, or, for about `n_tasks` tasks, several consecutive ones.
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
        """Return an Arrow table unchanged."""
        return table


@dataclass(frozen=True)
class RowGroup:
    """A row group of a Parquet file."""

    path: str
    number: int

    def tables(self, columns: list[str]) -> Iterator[Any]:
        """Yield some columns, as Arrow tables of a few rows each."""
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
        # A small buffer, so that the compressed bytes of a whole row group are not held.
        return pq.ParquetFile(path, buffer_size=2**20, pre_buffer=False)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: str, error: Exception) -> Exception:
    kind = OSError if isinstance(error, OSError) else ValueError
    return kind(f"{path!r} cannot be read: {str(error).strip().splitlines()[0]}")


class ClusterEngine(Engine):
    """The workers count and sum up the rows; one summary is returned."""

    def __init__(self, source: _Partitions | _Files, row_id: str | None, client: Any):
        self._source, self._row_id, self._client = source, row_id, client
        self._empty = _Part(source.empty, row_id)
        self._lengths: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return str(self._source)

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return self._empty.names()

    def frame(self, columns: dict[str, list[Any]], answer: Mapping[str, type] = ANSWER) -> Any:
        """Return an answer as a Dask dataframe, or as an Arrow table if the data are files."""
        return self._source.answer(self._empty.frame(columns, answer))

    def tally(self, query: Query) -> dict[Key, Tally]:
        """Count the rows of each group, and the rows of each part, which are needed to number them."""
        self._empty.tally(query)  # raises an error for columns without numbers before anything is read
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
        """Bring the rows of each block together on a worker, in rounds that fit its memory, and fetch them in turn."""
        n, room = n_blocks[()], self._room()
        bytes_a_row = 8 * len(query.columns) + np.min_scalar_type(n).itemsize + (0 if self._row_id is None else 8)
        n_bytes, in_round = bytes_a_row * sum(self._counted_lengths(query)), max(_BUCKETS, 2 * len(room))
        n_buckets = min(n, max(1, math.ceil(n_bytes * in_round / sum(room))))
        edges = tuple(n * j // n_buckets for j in range(n_buckets + 1))
        for low in range(0, n_buckets, in_round):
            some = edges[low : low + in_round + 1]
            yield from self._round(_Question(query, self._row_id, dict(n_blocks), seed, some))

    def rows(self, query: Query) -> Iterator[NumberedRows]:
        """Fetch the rows of one part after the other."""
        for task in self._tasks(_Run(), "rows", _fetched, _Question(query, self._row_id, seed=0)):
            yield from self._computed(task)

    def _room(self) -> list[int]:
        """Return the bytes of rows that each worker may hold."""
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
        """Return one task for each part of the rows, or about `n_tasks` tasks."""
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
        """Apply a function to every part, and merge neighbouring results in pairs; None if there are no parts."""
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
    """Names for the tasks of one run; a dashboard groups them by the text before the first number."""

    def __init__(self) -> None:
        self._token = uuid.uuid4().hex

    def name(self, what: str, *numbers: int) -> str:
        """Return the name of a task."""
        return "-".join(["outvote", what, *map(str, numbers or (0,)), self._token])


# --- functions that run on a worker ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Question:
    """The work for every part: a count or, if there is a seed, a summary or the rows of some blocks.

    Bucket j has the blocks from ``edges[j]`` up to ``edges[j + 1]``.
    """

    query: Query
    row_id: str | None = None
    n_blocks: Mapping[Key, int] | None = None
    seed: int | None = None
    edges: tuple[int, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        ids = () if self.row_id is None else (self.row_id,)
        return list(dict.fromkeys((*self.query.columns, *self.query.by, *ids)))


class _Part(EagerEngine):
    """Some of the rows, in memory; without a row id, the first of them has the number `first`."""

    def __init__(self, frame: Any, row_id: str | None, first: int = 0):
        import narwhals as nw

        super().__init__(nw.from_native(frame, eager_only=True), row_id)
        self._first = first if row_id is None else 0

    def _ids(self, low: int, n_rows: int) -> NDArray[np.int64]:
        return super()._ids(self._first + low, n_rows)


def _parts(piece: Any, first: int, question: _Question) -> Iterator[_Part]:
    """Yield a partition or row groups in parts that are small enough to be turned into arrays."""
    if isinstance(piece, list):
        tables = (table for group in piece for table in group.tables(question.columns))
    else:
        tables = (piece.iloc[low : low + _BATCH] for low in range(0, len(piece), _BATCH))
    for table in tables:
        yield _Part(table, question.row_id, first)
        first += len(table)


def _rows(piece: Any, first: int, question: _Question) -> Iterator[NumberedRows]:
    for part in _parts(piece, first, question):
        yield from part.rows(question.query)


def _fetched(piece: Any, first: int, question: _Question) -> list[NumberedRows]:
    """Return the rows with their keys and ids."""
    return list(_rows(piece, first, question))


Counts = tuple[tuple[int, ...], dict[Key, Tally]]


def _counted(piece: Any, first: int, question: _Question) -> Counts:
    """Return the number of rows, in all and by group."""
    tallies = add_tallies(part.tally(question.query) for part in _parts(piece, first, question))
    return (sum(tally.n_rows for tally in tallies.values()),), tallies


def _counts_merged(a: Counts, b: Counts) -> Counts:
    return a[0] + b[0], add_tallies((a[1], b[1]))


@_numba.numpy_only()
def _summed(piece: Any, first: int, question: _Question) -> BlockSummary | GroupedBlockSummary:
    """Return the summary of the rows, by group if there are groups."""
    n_blocks, seed = question.n_blocks, question.seed
    assert n_blocks is not None
    assert seed is not None
    return summary_of(_rows(piece, first, question), n_blocks, seed)


def _summaries_merged(a: Any, b: Any) -> Any:
    # A copy is made because `a` is needed again, unchanged, if a worker is lost.
    return copy.deepcopy(a).merge(b)


@_numba.numpy_only()
def _split(piece: Any, first: int, question: _Question) -> list[Shuffled]:
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


def _bucket(parts: Sequence[Shuffled], n_blocks: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
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
