"""Clusters: a Dask dataframe, or Parquet files that workers read, a row group at a time.

A part of the rows is summed up where it is read, and the summaries are merged in pairs of neighbours. The pairs are
settled before the work begins, so that the answer is the same to the last bit whoever does it, and however often.
"""

from __future__ import annotations

import copy
import math
import operator
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import fast
from outvote.partition import hash_rows
from outvote.summary import BlockSummary, GroupedBlockSummary
from outvote.tables.base import Engine, Key, Query, Tally
from outvote.tables.duck import paths_of
from outvote.tables.frames import EagerEngine, added, by_block, summary_of

#: Rows that a worker turns into arrays at once.
_BATCH = 2**17
#: Bytes of the rows that are brought here at once for a U-statistic, roughly.
_BUCKET = 2**24

Rows = tuple[NDArray[np.float64], Sequence[NDArray[Any]], NDArray[np.int64]]
Shuffled = tuple[NDArray[np.float64], NDArray[np.int64]]


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
        return ClusterEngine(_Files(paths_of(source)), row_id, client)
    raise TypeError(f"source is a {type(source).__name__}: give a Dask dataframe, or Parquet files and client=")


class _Partitions:
    """The partitions of a Dask dataframe."""

    def __init__(self, frame: Any):
        self._frame = frame
        self.empty = frame._meta

    def __str__(self) -> str:
        return f"Dask frame of {_number(self._frame.npartitions, 'partition')}"

    def pieces(self, columns: list[str]) -> list[Any]:
        """Return what a task is given to read: partitions to be computed, with these columns alone."""
        return list(self._frame[columns].to_delayed())

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
        return f"{_number(len(self._row_groups), 'row group')} of {_number(self._n_files, 'Parquet file')}"

    def pieces(self, columns: list[str]) -> list[Any]:
        """Return what a task is given to read: row groups, after a look at the types of these columns."""
        for path, schema in self._others.items():
            for name in columns:
                kind = schema.field(name).type if name in schema.names else None
                if kind != self._schema.field(name).type:
                    there = "no" if kind is None else f"a {kind}"
                    raise ValueError(
                        f"{path!r} has {there} column {name!r}, {self._first!r} a {self._schema.field(name).type} one: "
                        "scan files with the same columns"
                    )
        return list(self._row_groups)

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


def _number(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


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
        """Bring the rows of each block together on a worker, a range of blocks in one place, and fetch each in turn."""
        import dask
        from dask import delayed

        n_bytes = 8 * (len(query.columns) + 1) * sum(self._counted_lengths(query))
        n_buckets = min(n_blocks[()], max(1, math.ceil(n_bytes / _BUCKET)))
        run = _Run()
        parts = self._tasks(run, "split", _split, _Question(query, self._row_id, dict(n_blocks), seed, n_buckets))
        waiting = []
        for j in range(n_buckets):
            picked = [
                delayed(operator.getitem)(part, j, dask_key_name=run.name("shuffle", j, i))
                for i, part in enumerate(parts)
            ]
            waiting.append(delayed(_bucket)(picked, dask_key_name=run.name("bucket", j)))
        waiting = list(dask.persist(*waiting) if self._client is None else self._client.persist(waiting))
        waiting.reverse()
        while waiting:
            values, ids = self._computed(waiting.pop())
            yield from by_block(values, ids, n_blocks[()], seed)

    # --- tasks -------------------------------------------------------------------------------------------

    def _counted_lengths(self, query: Query) -> tuple[int, ...]:
        if self._lengths is None:
            self.tally(query)
        assert self._lengths is not None
        return self._lengths

    def _tasks(self, run: _Run, name: str, function: Callable[..., Any], question: _Question) -> list[Any]:
        """One task for each part of the rows: its number of rows and its summary, say."""
        from dask import delayed

        shared = delayed(question, name=run.name("question"), traverse=False)
        pieces = self._source.pieces(question.columns)
        firsts = [0] * len(pieces)
        if question.seed is not None and self._row_id is None:
            firsts = list(accumulate(self._counted_lengths(question.query), initial=0))[:-1]
        return [
            delayed(function)(piece, first, shared, dask_key_name=run.name(name, i))
            for i, (piece, first) in enumerate(zip(pieces, firsts, strict=True))
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
    """What is asked of every part: a count, or, where there is a seed, a summary or the rows in buckets."""

    query: Query
    row_id: str | None = None
    n_blocks: Mapping[Key, int] | None = None
    seed: int | None = None
    n_buckets: int = 1

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
    """Cut a partition or a row group into parts that are small enough to be turned into arrays."""
    if isinstance(piece, RowGroup):
        tables = piece.tables(question.columns)
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
    tallies = added(part.tally(question.query) for part in _parts(piece, first, question))
    return (sum(tally.n_rows for tally in tallies.values()),), tallies


def _counts_merged(a: Counts, b: Counts) -> Counts:
    return a[0] + b[0], added((a[1], b[1]))


@fast.numpy_only()
def _summed(piece: Any, first: int, question: _Question) -> BlockSummary | GroupedBlockSummary:
    """Sum up the blocks of the rows, and of the groups there are among them."""
    n_blocks, seed = question.n_blocks, question.seed
    assert n_blocks is not None
    assert seed is not None
    return summary_of(_rows(piece, first, question), n_blocks, seed)


def _summaries_merged(a: Any, b: Any) -> Any:
    # A copy: should a worker be lost, `a` is needed once more, as it was.
    return copy.deepcopy(a).merge(b)


@fast.numpy_only()
def _split(piece: Any, first: int, question: _Question) -> list[Shuffled]:
    """Deal the finite rows to buckets, each of which holds a range of blocks."""
    assert question.n_blocks is not None
    assert question.seed is not None
    parts = [(values, ids) for values, _, ids in _rows(piece, first, question)]
    values, ids = _bucket([(np.empty((0, len(question.query.columns))), np.empty(0, dtype=np.int64)), *parts])
    keep = np.isfinite(values).all(axis=1)
    values, ids = values[keep], ids[keep]
    n_blocks = question.n_blocks[()]
    buckets = hash_rows(ids, question.seed) % n_blocks * question.n_buckets // n_blocks
    order = np.argsort(buckets, kind="stable")
    edges = np.searchsorted(buckets[order], np.arange(1, question.n_buckets))
    return [(values[mine], ids[mine]) for mine in np.split(order, edges)]


def _bucket(parts: Sequence[Shuffled]) -> Shuffled:
    """Bring rows together."""
    return np.concatenate([values for values, _ in parts]), np.concatenate([ids for _, ids in parts])
