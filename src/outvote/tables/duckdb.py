"""Files, and DuckDB's own tables and relations: DuckDB counts, hashes and sums up, and no rows are brought here.

Names of columns and files, and labels, are data: they are quoted, or bound as values, and never part of the statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.hashing import PRIME, Sql, fold, hash_coefficients, polynomial
from outvote.data.files import (
    Files,
    check_limit,
    duckdb_module,
    literal,
)
from outvote.data.interrupts import interruptible
from outvote.estimate.summary import BlockSummary
from outvote.tables.duckdb_sources import FileSource, Relation, Table
from outvote.tables.engine import (
    ANSWER,
    Engine,
    Key,
    Lines,
    NumberedRows,
    Query,
    Tally,
    labelled,
    refuse_large_id,
    refuse_nan,
    refuse_null_id,
    refuse_null_key,
    summaries_from_lines,
    warn_of_repeated_ids,
)
from outvote.tables.gathered import Floats, Groups, Part
from outvote.tables.keys import GroupCodes, objects, typed_labels

#: How many rows are numbers; count_if would say NULL where all are NULL.
_NUMBERS = "count(*) FILTER (number)"
#: Rows fetched at once when blocks are brought here.
_BATCH = 100_000
#: Rows handed over at once when they are counted here.
_STREAMED = 1 << 16


def duck_engine(source: Any, row_id: str | None, memory_limit: str | None, table: str | None, hash: str) -> Engine:
    """Return the engine for files, a DuckDB relation, or a table of a DuckDB connection."""
    duckdb = duckdb_module()
    check_limit(memory_limit)
    if isinstance(source, duckdb.DuckDBPyRelation):
        if memory_limit is not None or table is not None:
            raise ValueError(
                "memory_limit and table are for files and connections: a relation belongs to its connection"
            )
        return DuckEngine(Relation(source), row_id, hash)
    if isinstance(source, duckdb.DuckDBPyConnection):
        if table is None:
            raise ValueError("source is a DuckDB connection: name one of its tables or views with table=")
        if memory_limit is not None:
            raise ValueError("memory_limit is for files: SET memory_limit on the connection that you give")
        return DuckEngine(Table(source, table), row_id, hash)
    if table is not None:
        raise ValueError(f"table={table!r} goes with a DuckDB connection, not with files")
    patterns = list(source) if isinstance(source, (list, tuple)) else [source]
    return file_engine(Files(patterns, memory_limit=memory_limit), row_id, hash)


def file_engine(files: Files, row_id: str | None, hash: str = "portable") -> Engine:
    """Return the engine for files that have been found."""
    return DuckEngine(FileSource(files), row_id, hash)


class DuckEngine(Engine):
    """DuckDB counts, hashes and sums up; K lines a group come back."""

    def __init__(self, source: Relation, row_id: str | None, hash: str):
        self._source, self._row_id, self.hashed = source, row_id, "portable" if hash == "portable" else "DuckDB"
        source.check_row_id(row_id)
        self._small = False  # whether all row ids are known to lie in [0, P)
        self._written: dict[Key, tuple[Any, ...]] = {}  # keys of each group as they are in the data

    def __str__(self) -> str:
        return str(self._source)

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._source.columns)

    def check_names(self, named: Mapping[str, Sequence[str]]) -> None:
        """Refuse names of columns that are not there, or that a file has twice."""
        if isinstance(self._source, FileSource):
            self._source.check_names(named)
        super().check_names(named)

    def sums(self, query: Query, unit: str) -> Any:
        """Add up the rows of each user in each group."""
        import narwhals as nw

        keys, wanted = len(query.by), Query(query.columns, (*query.by, unit))
        heads = [f"k{j}" for j in range(keys + 1)]
        totals = [f"count(*) - {_NUMBERS} AS bad"]
        for j in range(len(query.columns)):
            totals += [f"{how}(v{j}) AS {name}{j}" for how, name in (("sum", "v"), ("min", "low"), ("max", "high"))]
        found = self._arrow(
            f"SELECT {', '.join([*heads, *totals])} FROM ({self._marked(wanted)}) GROUP BY {', '.join(heads)}"
        )
        for j, name in enumerate(wanted.by):
            if found[f"k{j}"].null_count:
                refuse_null_key(name)
        frame = nw.from_native(found).rename({f"k{keys}": "u"})
        if self._source.keys_are_text:
            labels = {written: key for key, written in self._written.items()}
            texts = zip(*(found[f"k{j}"].to_pylist() for j in range(keys)), strict=True)
            several = [labels[text] if keys > 1 else (labels[text],) for text in texts]
            typed = {f"k{j}": [one[j] for one in several] for j in range(keys)}  # type: ignore[index]
            typed["u"] = typed_labels(found[f"k{keys}"].to_pylist())
            frame = frame.with_columns(
                *(nw.new_series(name, labels_, backend="pyarrow") for name, labels_ in typed.items())
            )
        return frame

    def frame(self, columns: dict[str, list[Any]], answer: Mapping[str, type | str] = ANSWER) -> Any:
        """Return a relation, or a frame where the data are files."""
        return self._source.answer(super().frame(columns, answer))

    def n_rows(self) -> int | None:
        """Return what the files themselves say, where rows are numbered by their position."""
        known = self._source.n_rows if self._row_id is None else None
        self._small = known is not None and known < PRIME
        return known

    def key_type(self, name: str) -> Any:
        """Return the Arrow type of a key; labels of a text file say it themselves."""
        if self._source.keys_are_text:
            return None
        empty = self._arrow(f"SELECT k0 FROM ({self._source.select(Query((), (name,)), None)}) LIMIT 0")
        return empty.schema.field("k0").type

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Turn errors of DuckDB into one line that says what to do, and Ctrl-C into what it is elsewhere."""
        with interruptible():
            try:
                yield
            except duckdb_module().Error as error:
                if "INTERRUPT Error" in str(error):
                    raise
                raise self._source.told(error) from None

    def _arrow(self, sql: str) -> Any:
        with self._refusing():
            return self._source.run(sql).to_arrow_table()

    def is_boolean(self, name: str) -> bool:
        """Return whether a column holds booleans by its type."""
        return self._source.columns[name] == "BOOLEAN"

    def tally(self, query: Query, *, ids: bool = True) -> dict[Key, Tally]:
        """Count the rows of each group."""
        keys = [f"k{j}" for j in range(len(query.by))]
        numbers = ["count_if(id IS NULL)", "min(given)::VARCHAR", "max(given)::VARCHAR"]
        counts = [
            "count(*)", f"count(*) - {_NUMBERS}", f"{_NUMBERS} - count(*) FILTER (finite)",
            *(numbers if ids else ["0", "NULL", "NULL"]), *self._unreadable(query),
        ]  # fmt: skip
        group = f"GROUP BY {', '.join(keys)}" if keys else ""
        found = self._arrow(f"SELECT {', '.join([*keys, *counts])} FROM ({self._marked(query)}) {group}")
        columns = [column.to_pylist() for column in found.columns]
        written, (n_rows, missing, infinite, unnumbered, lows, highs, *unreadable) = (
            columns[: len(keys)],
            columns[len(keys) :],
        )
        lowest, highest = (how([0, *(int(end) for end in ends if end)]) for how, ends in ((min, lows), (max, highs)))
        for value in (lowest, highest):
            if not -(2**63) <= value < 2**63:
                refuse_large_id(self._row_id, value)
        if any(unnumbered):
            refuse_null_id(self._row_id)
        typed = [typed_labels(column) for column in written] if self._source.keys_are_text else written
        labels = [labelled(query, label) for label in zip(*typed, strict=True)] if keys else [()] * len(n_rows)
        self._written = dict(zip(labels, zip(*written, strict=True), strict=True)) if keys else {(): ()}
        known = {
            label: Tally(n, int(nan or 0), int(inf or 0), int(odd[0] or 0), self._example(*odd))
            for label, n, nan, inf, *odd in zip(labels, n_rows, missing, infinite, *unreadable, strict=True)
        }
        self._source.check_rows(sum(n_rows))
        ends = [int(end) for end in (*lows, *highs) if end is not None]
        if ends:
            warn_of_repeated_ids(self._row_id, min(ends), max(ends), sum(n_rows))
        last = highest if self._row_id is not None else sum(n_rows)
        self._small = lowest >= 0 and last < PRIME
        return known

    def _example(self, n_unreadable: int | None, file: int, row: int, text: str) -> tuple[str, int, str] | None:
        """Return file, row and text of a cell that is not a number, if there is one."""
        return (self._source.place(file), row + 1, text) if n_unreadable else None

    def _unreadable(self, query: Query) -> list[str]:
        """Write how many cells hold text instead of a number, and the file, row and text of the first."""
        if not self._source.holds_text(query.columns):
            return ["0", "NULL", "NULL", "NULL"]
        odd = " OR ".join(f"r{j} IS NOT NULL" for j in range(len(query.columns)))
        cell = f"coalesce({', '.join([*(f'r{j}' for j in range(len(query.columns))), 'NULL'])})"
        first = f"(file, n)) FILTER ({odd})"
        return [f"count_if({odd})", *(f"arg_min({one}, {first}" for one in ("file", "n", cell))]

    def _marked(self, query: Query) -> str:
        """Write the rows, with whether all their values are finite, and whether they are numbers or infinite."""
        # Not isnan, which DuckDB may decide from the statistics of a file: they say nothing of NaN.
        finite = [f"isfinite(v{j})" for j in range(len(query.columns))]
        number = [f"({one} OR isinf(v{j}))" for j, one in enumerate(finite)]
        known = f"{' AND '.join(finite)} AS finite, {' AND '.join(number)} AS number"
        return f"SELECT *, {known} FROM ({self._source.select(query, self._row_id)})"

    def _blocked(self, query: Query, n_blocks: Mapping[Key, int], seed: int) -> str:
        """Write the finite rows, with the number of their block, and of their group (`owner`) if there are groups."""
        finite = " AND ".join(f"isfinite(v{j})" for j in range(len(query.columns)))
        rows = self._hashed(f"SELECT * FROM ({self._source.select(query, self._row_id)}) WHERE {finite}", seed)
        if not query.by:
            return f"SELECT *, h % {int(n_blocks[()])} AS block FROM ({rows})"
        kinds = [self._source.key_kind(name) for name in query.by]
        lines = []
        for i, (key, k) in enumerate(n_blocks.items()):
            labels = zip(self._written[key], kinds, strict=True)
            line = [f"CAST({literal(str(label))} AS {kind})" for label, kind in labels]
            lines.append(f"({', '.join([*line, str(i), str(int(k))])})")
        heads = [f"k{j}" for j in range(len(kinds))]
        sizes = f"(VALUES {', '.join(lines)}) AS sizes({', '.join([*heads, 'owner', 'blocks'])})"
        same = " AND ".join(f"hashed.{head} = sizes.{head}" for head in heads)
        return f"SELECT hashed.*, owner, h % blocks AS block FROM ({rows}) AS hashed JOIN {sizes} ON {same}"

    def _hashed(self, rows: str, seed: int) -> str:
        """Add the hash h of the row id to rows: that of blocks/hashing.py, or DuckDB's own."""
        if self.hashed != "portable":
            return f"SELECT *, (hash(id, {int(seed)}::UBIGINT) % {PRIME})::BIGINT AS h FROM ({rows})"
        b, *rest = hash_coefficients(seed)
        u = Sql("id")
        if not self._small:
            folded = fold(u, b, lambda low: Sql(f"({low} < 0)::BIGINT"))
            u, rows = Sql("u"), f"SELECT *, {folded} AS u FROM ({rows})"
        return f"SELECT *, {polynomial(u, rest)} AS h FROM ({rows})"

    def summaries(self, query: Query, n_blocks: Mapping[Key, int], seed: int) -> dict[Key, BlockSummary]:
        """Sum up the blocks of each group."""
        each, rows = range(len(query.columns)), self._blocked(query, n_blocks, seed)

        def lines(unit: float, less: Floats | None) -> Lines:
            values = [f"v{j}" if unit == 1 else f"v{j} * {unit!r}::DOUBLE" for j in each]
            if less is not None:
                values = [f"({v} - ({far!r})::DOUBLE)" for v, far in zip(values, less.tolist(), strict=True)]
            sums = [f"avg({v})" for v in values] + [f"var_pop({v})" for v in values]
            owner, groups = ("owner", "owner, block") if query.by else ("0", "block")
            sql = f"SELECT {owner}, block, count(*), {', '.join(sums)} FROM ({rows}) GROUP BY {groups}"
            owners, blocks, counts, *found = (column.to_numpy() for column in self._arrow(sql).columns)
            means, variances = np.array(found).reshape(2, len(each), -1).transpose(0, 2, 1)
            return Lines(owners, blocks, counts, means, variances)

        return summaries_from_lines(lines, n_blocks, seed, str(self))

    def blocks(
        self, query: Query, n_blocks: Mapping[Key, int], seed: int
    ) -> Iterator[tuple[Key, int, NDArray[np.float64]]]:
        """Sort the rows by block, on disk where memory does not suffice, and yield them block by block."""
        values = ", ".join(f"v{j}" for j in range(len(query.columns)))
        sql = f"SELECT block, {values} FROM ({self._blocked(query, n_blocks, seed)}) ORDER BY block, id"
        current, parts = -1, list[NDArray[np.float64]]()
        for labels, rows in self._batches(sql):
            edges = np.flatnonzero(np.r_[True, labels[1:] != labels[:-1]])
            for low, high in zip(edges, [*edges[1:], len(labels)], strict=True):
                block = int(labels[low])
                if block < current:
                    raise RuntimeError("DuckDB gave the blocks out of order")
                if block > current and parts:
                    yield (), current, np.concatenate(parts)
                    parts = []
                current = block
                parts.append(rows[low:high])
        if parts:
            yield (), current, np.concatenate(parts)

    def rows(self, query: Query) -> Iterator[NumberedRows]:
        """Yield all rows with their keys and ids, some at a time."""
        each, keys = range(len(query.columns)), range(len(query.by))
        heads = [*(f"v{j}" for j in each), *(f"k{j}" for j in keys), "id"]
        labels = {written: key for key, written in self._written.items()}
        with self._refusing():
            for batch in self._source.run(
                f"SELECT {', '.join(heads)} FROM ({self._source.select(query, self._row_id)})"
            ).to_arrow_reader(_BATCH):
                columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns[: len(each)]]
                given = [column.to_pylist() for column in batch.columns[len(each) : -1]]
                found = [labels[written] for written in zip(*given, strict=True)] if given else []
                several = [key if len(keys) > 1 else (key,) for key in found]
                named = [objects([one[j] for one in several]) for j in keys]  # type: ignore[index]
                yield np.column_stack(columns), named, batch.columns[-1].to_numpy(zero_copy_only=False)

    def stream(self, query: Query, labels: Sequence[Key]) -> Iterator[Part]:
        """Yield all rows in their order, some at a time."""
        codes_of = GroupCodes({self._written[label]: number for number, label in enumerate(labels)} if query.by else {})
        each, keys = range(len(query.columns)), range(len(query.by))
        heads = [*(f"v{j}" for j in each), *(f"k{j}" for j in keys), *(() if self._row_id is None else ("id",))]
        with self._refusing():
            for batch in self._source.run(
                f"SELECT {', '.join(heads)} FROM ({self._source.select(query, self._row_id)})"
            ).to_arrow_reader(_STREAMED):
                columns = batch.columns
                values = [column.to_numpy(zero_copy_only=False) for column in columns[: len(each)]]
                table = values[0][:, None] if len(values) == 1 else np.column_stack(values)
                codes = codes_of(columns[len(each) : len(each) + len(keys)]) if query.by else None
                ids = None if self._row_id is None else columns[-1].to_numpy(zero_copy_only=False)
                yield Part(table, codes, ids)

    def kept(self, query: Query, labels: Sequence[Key], *, omit: bool) -> Groups:
        """Bring the rows of some groups here, which are looked at with as many threads as DuckDB uses."""
        (threads,) = self._arrow("SELECT current_setting('threads') AS threads").column(0).to_pylist()
        return replace(super().kept(query, labels, omit=omit), threads=max(1, int(threads)))

    def _batches(self, sql: str) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Fetch lines of (block, values), some at a time."""
        with self._refusing():
            for batch in self._source.run(sql).to_arrow_reader(_BATCH):
                if batch.num_rows:
                    labels, *values = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
                    rows = np.column_stack(values)
                    refuse_nan(rows, str(self))
                    yield labels, rows
