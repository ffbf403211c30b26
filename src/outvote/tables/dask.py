"""Scan a Dask dataframe, or Parquet files that the workers of a cluster read, one row group at a time.

Each worker sums up the rows that it reads, and neighbouring summaries are merged in pairs. The pairs are fixed before
the work begins, so that the answer is the same to the last bit on any workers and in any order.

For a U-statistic the rows of a block are brought together, as many blocks in a round as fit the memory of the workers.
Every round reads all rows again, and keeps the rows of its blocks: more rows take more rounds, not more memory.
"""

from __future__ import annotations

import itertools
import math
import operator
import os
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.data.finding import find_files
from outvote.data.packages import install_command
from outvote.data.text import count
from outvote.estimate.summary import BlockSummary, RowSummary
from outvote.tables.engine import ANSWER, Engine, Key, NumberedRows, Query, Tally, add_tallies, as_pandas
from outvote.tables.gathered import Floats, Part, Sizes, Values, Wanted, merged, merged_values
from outvote.tables.workers import (
    PartOfRows,
    Question,
    RowGroup,
    bucket,
    counted,
    counted_in_bins,
    counts_merged,
    fetched,
    found_in_bins,
    n_usable,
    opened,
    piloted,
    pilots_merged,
    split_into_buckets,
    streamed,
    summaries_merged,
    summed,
)
from outvote.votes.evidence import Grid

#: The share of its memory limit that a worker uses for the rows of a U-statistic: moving the rows needs as much again,
#: and the libraries take more than half of a small limit.
_SHARE = 1 / 12
#: Bytes of rows per worker if no memory limit is known.
_ROOM = 2**28
#: Buckets of blocks in a round (two for each worker if that is more); they are fetched one at a time.
_BUCKETS = 16


def cluster_engine(source: Any, row_id: str | None, client: Any) -> Engine:
    """Return the engine for a Dask dataframe, or for Parquet files that the workers of a client read."""
    try:
        import dask.dataframe as dd
        from distributed import Client
    except ModuleNotFoundError:
        needed = install_command("dask[dataframe]", "distributed")
        raise ModuleNotFoundError(f"clusters need dask: {needed}") from None
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
            with opened(path) as file:
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
        """Return an Arrow table as a pandas frame, if pandas is installed."""
        return as_pandas(table)


class ClusterEngine(Engine):
    """The workers count and sum up the rows; one summary is returned."""

    def __init__(self, source: _Partitions | _Files, row_id: str | None, client: Any):
        self._source, self._row_id, self._client = source, row_id, client
        self._empty = PartOfRows(source.empty, row_id)
        self._lengths: tuple[int, ...] | None = None
        self._counts: tuple[dict[Key, Tally], ...] = ()

    def __str__(self) -> str:
        return str(self._source)

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return self._empty.names()

    def frame(self, columns: dict[str, list[Any]], answer: Mapping[str, type | str] = ANSWER) -> Any:
        """Return an answer as a Dask dataframe, or in memory if the data are files."""
        return self._source.answer(self._empty.frame(columns, answer))

    def is_boolean(self, name: str) -> bool:
        """Return whether a column holds booleans by its type."""
        return self._empty.is_boolean(name)

    def tally(self, query: Query, *, ids: bool = True) -> dict[Key, Tally]:
        """Count the rows of each group, and the rows of each part, which are needed to number them."""
        self._empty.tally(query)  # raises an error for columns without numbers before anything is read
        found = self._merged("count", counted, counts_merged, Question(query))
        self._counts = found or ()
        self._lengths = tuple(sum(tally.n_rows for tally in part.values()) for part in self._counts)
        return add_tallies(self._counts)

    def stream(self, query: Query, labels: Sequence[Key]) -> Iterator[Part]:
        """Fetch the rows of some groups, one part after the other."""
        question = Question(query, self._row_id, labels=tuple(labels))
        for task in self._tasks(_Run(), "rows", streamed, question):
            yield from self._computed(task)

    def pilots(self, query: Query, sizes: Sizes) -> list[Floats]:
        """Return the rows of each large group that choose its bins."""
        question = Question(query, self._row_id, labels=tuple(sizes.large), steps=tuple(sizes.steps))
        counts = np.array([[n_usable(part.get(key), query) for key in sizes.large] for part in self._counts])
        befores = np.cumsum(counts, axis=0) - counts
        found = self._merged("pilot", piloted, pilots_merged, question, list(befores))
        return [np.concatenate(several) for several in found]

    def row_summaries(
        self, query: Query, labels: Sequence[Key], grids: Sequence[Sequence[Grid]]
    ) -> list[list[RowSummary]]:
        """Count the finite rows of each group in bins, on the workers."""
        question = Question(query, self._row_id, labels=tuple(labels), grids=tuple(map(tuple, grids)))
        found: list[list[RowSummary]] = self._merged("bins", counted_in_bins, merged, question)
        return found

    def in_bins(self, query: Query, labels: Sequence[Key], wanted: Sequence[Wanted]) -> list[Values]:
        """Return the values of rows in some bins of each group, and how many rows have each."""
        question = Question(query, self._row_id, labels=tuple(labels), wanted=tuple(wanted))
        found: list[Values] = self._merged("in-bins", found_in_bins, merged_values, question)
        return found

    def summaries(self, query: Query, n_blocks: Mapping[Key, int], seed: int) -> dict[Key, BlockSummary]:
        """Sum up the blocks of each group."""
        question = Question(query, self._row_id, dict(n_blocks), seed)
        found = self._merged("summary", summed, summaries_merged, question)
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
            yield from self._round(Question(query, self._row_id, dict(n_blocks), seed, some))

    def rows(self, query: Query) -> Iterator[NumberedRows]:
        """Fetch the rows of one part after the other."""
        for task in self._tasks(_Run(), "rows", fetched, Question(query, self._row_id, seed=0)):
            yield from self._computed(task)

    def _room(self) -> list[int]:
        """Return the bytes of rows that each worker may hold."""
        limits = [None]
        if self._client is not None:
            workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
            limits = [worker["memory_limit"] for worker in workers] or limits
        return [max(1, int(limit * _SHARE)) if limit else _ROOM for limit in limits]

    def _round(self, question: Question) -> Iterator[tuple[Key, int, NDArray[np.float64]]]:
        import dask
        from dask import delayed

        run = _Run()
        parts = self._tasks(run, "split", split_into_buckets, question, len(question.edges) - 1)
        waiting = []
        for j, (low, high) in enumerate(itertools.pairwise(question.edges)):
            picked = [
                delayed(operator.getitem)(part, j, dask_key_name=run.name("shuffle", j, i))
                for i, part in enumerate(parts)
            ]
            waiting.append(delayed(bucket)(picked, high - low, dask_key_name=run.name("bucket", j)))
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
        self,
        run: _Run,
        name: str,
        function: Callable[..., Any],
        question: Question,
        n_tasks: int | None = None,
        firsts: Sequence[Any] = (),
    ) -> list[Any]:
        """Return one task for each part of the rows, or about `n_tasks` tasks.

        Each is told the number of its first row, or what `firsts` has for it.
        """
        from dask import delayed

        shared = delayed(question, name=run.name("question"), traverse=False)
        pieces = self._source.pieces(question.columns, n_tasks)
        if question.seed is not None and self._row_id is None:
            firsts = list(itertools.accumulate(self._counted_lengths(question.query), initial=0))
        return [
            delayed(function)(piece, firsts[number] if len(firsts) else 0, shared, dask_key_name=run.name(name, i))
            for i, (number, piece) in enumerate(pieces)
        ]

    def _merged(
        self,
        name: str,
        function: Callable[..., Any],
        merge: Callable[..., Any],
        question: Question,
        firsts: Sequence[Any] = (),
    ) -> Any:
        """Apply a function to every part, and merge neighbouring results in pairs; None if there are no parts."""
        from dask import delayed

        run, level = _Run(), 0
        found = self._tasks(run, name, function, question, firsts=firsts)
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
