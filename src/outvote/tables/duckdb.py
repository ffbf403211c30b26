"""Files larger than memory, and DuckDB's own tables and relations: one statement of SQL, no rows brought here.

Names of columns and files, and labels, are data: they are quoted, or bound as values, and never part of the statement.
"""

from __future__ import annotations

import glob
import os
import re
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.partition import hash_coefficients
from outvote.estimate.summary import BlockSummary
from outvote.tables.engine import Engine, Key, Query, Tally, check_limit
from outvote.tables.frames import (
    Lines,
    added,
    check_row_id,
    from_lines,
    refuse_key,
    refuse_large_id,
    refuse_nan,
    refuse_null_id,
    refuse_null_key,
    refuse_text,
)

_PRIME = 2**31 - 1
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_WIDE = {"UBIGINT", "HUGEINT", "UHUGEINT"}
_NUMBERS = _INTEGERS | _WIDE | {"FLOAT", "DOUBLE", "BOOLEAN"}
_DATES = {"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP WITH TIME ZONE"}
#: Keys of these types stand for themselves; others are turned into one of them, or refused.
_LABELS = _NUMBERS | _DATES | {"VARCHAR"}
_TURNED = {"UUID": "VARCHAR", "TIMESTAMP_NS": "TIMESTAMP"}
#: Bytes that a thread of DuckDB's needs, roughly: a limit that is shared by more of them does not suffice.
_THREAD = 2**26
#: Rows fetched at once when blocks are brought here.
_BATCH = 100_000
#: The number of a row as it stands.
_POSITION = "row_number() OVER () - 1"
#: A whole number, as text.
_WHOLE = r"\s*[+-]?[0-9]+\s*"


def duck_engine(source: Any, row_id: str | None, memory_limit: str | None, table: str | None, hash: str) -> Engine:
    """Return the engine for files, a DuckDB relation, or a table of a DuckDB connection."""
    try:
        import duckdb
    except ModuleNotFoundError:
        raise ModuleNotFoundError("files are read by duckdb: pip install 'outvote[tables]'") from None
    check_limit(memory_limit)
    if isinstance(source, duckdb.DuckDBPyRelation):
        if memory_limit is not None or table is not None:
            raise ValueError(
                "memory_limit and table are for files and connections: a relation belongs to its connection"
            )
        return DuckEngine(_Relation(source), row_id, hash)
    if isinstance(source, duckdb.DuckDBPyConnection):
        if table is None:
            raise ValueError("source is a DuckDB connection: name one of its tables or views with table=")
        if memory_limit is not None:
            raise ValueError("memory_limit is for files: SET memory_limit on the connection that you give")
        return DuckEngine(_Table(source, table), row_id, hash)
    if table is not None:
        raise ValueError(f"table={table!r} goes with a DuckDB connection, not with files")
    paths = paths_of(source)
    return DuckEngine((_Parquet if _kind(paths[0]) == "Parquet" else _Csv)(paths, memory_limit), row_id, hash)


def paths_of(source: Any) -> list[str]:
    """Return the files that a path, a glob or a list of them names, each once; refuse what is not there.

    Those of a glob are sorted by their names, and the others stay in the order they are given.
    """
    given = [source] if isinstance(source, (str, os.PathLike)) else list(source)
    found: list[str] = []
    for one in given:
        if not isinstance(one, (str, os.PathLike)):
            raise TypeError(f"source has {one!r} in its list: give paths of files")
        name = os.fsdecode(one)
        if os.path.isfile(name):
            found.append(name)
            continue
        if os.path.isdir(name):
            raise IsADirectoryError(
                f"{name!r} is a folder: name its files, such as {os.path.join(name, '*.parquet')!r}"
            )
        matches = sorted(path for path in glob.glob(name, recursive=True) if os.path.isfile(path))
        if not matches:
            raise FileNotFoundError(f"no file is called {name!r}")
        found += matches
    kinds = {_kind(name) for name in found}
    if len(kinds) > 1:
        raise ValueError(f"source mixes {' and '.join(sorted(kinds))} files: give one kind")
    once: dict[str, str] = {}
    for name in found:
        once.setdefault(os.path.abspath(name), name)
    return list(once.values())


def _kind(name: str) -> str:
    *others, last = ["", *(suffix.lower() for suffix in Path(name).suffixes)]
    if last in (".parquet", ".pq"):
        return "Parquet"
    if (others[-1] if last in (".gz", ".zst") and others else last) in (".csv", ".tsv", ".txt"):
        return "CSV"
    raise ValueError(f"{name!r} is neither a Parquet (.parquet, .pq) nor a CSV (.csv, .tsv, .txt, also .gz) file")


def quoted(name: str) -> str:
    """Quote a name for SQL, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def _text(value: str) -> str:
    """Write text for SQL, whatever it holds."""
    return "'" + value.replace("'", "''") + "'"


class _Relation:
    """A relation of the user's."""

    def __init__(self, relation: Any):
        self._relation = relation
        self.columns: dict[str, str] = dict(zip(relation.columns, map(str, relation.types), strict=True))

    def __str__(self) -> str:
        return "DuckDB relation"

    @cached_property
    def position(self) -> str:
        """How a row is numbered where there is no id."""
        return _POSITION

    def prepare(self, numbers: tuple[str, ...], others: tuple[str, ...]) -> None:
        """Look at what is going to be read, and refuse it if it cannot be."""

    def whole(self, name: str) -> str:
        """Write down a column of integers."""
        return quoted(name)

    #: Rows, where they are known without reading any.
    n_rows: int | None = None

    @property
    def place(self) -> str:
        """What a statement reads from."""
        return "outvote_source"

    def run(self, sql: str) -> Any:
        """Run a statement."""
        return self._relation.query("outvote_source", sql)

    def frame(self, outvote_answer: Any) -> Any:
        """Turn an Arrow table, which DuckDB finds by its name here, into a relation of the same connection."""
        import duckdb

        try:
            return self._relation.query("outvote_source", "SELECT * FROM outvote_answer")
        except duckdb.Error:  # it was told not to look for names here
            return duckdb.from_arrow(outvote_answer)


class _Table(_Relation):
    """A table or view of a connection."""

    def __init__(self, connection: Any, table: str):
        import duckdb

        try:
            try:
                super().__init__(connection.table(quoted(table)))
            except duckdb.Error:
                super().__init__(connection.table(table))  # a table of another schema, perhaps
        except duckdb.ConnectionException as error:
            raise _readable(error, f"DuckDB table {table!r}") from None
        except duckdb.Error:
            lists = (
                "SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views() WHERE NOT internal"
            )
            there = sorted(row[0] for row in connection.sql(lists).fetchall())
            known = f"there are {', '.join(map(repr, there[:20]))}" if there else "it has none"
            raise ValueError(f"table={table!r} is no table or view of the connection: {known}") from None
        self._name, self._connection = table, connection

    def __str__(self) -> str:
        return f"DuckDB table {self._name!r}"

    def frame(self, table: Any) -> Any:
        """Turn an Arrow table into a relation of the same connection."""
        return self._connection.from_arrow(table)


class _Files(_Relation):
    """Files, read by a connection of our own with a limit on its memory; it goes away with this."""

    _reader: str

    def __init__(self, paths: list[str], memory_limit: str | None):
        import duckdb

        self._paths = paths
        folder = tempfile.TemporaryDirectory(prefix="outvote-")
        settings: dict[str, Any] = {"temp_directory": folder.name}
        n_bytes = check_limit(memory_limit)
        if n_bytes is not None:
            settings["memory_limit"] = memory_limit
            settings["threads"] = max(1, min(os.cpu_count() or 1, n_bytes // _THREAD))
        self._connection = duckdb.connect(config=settings)
        self._close = weakref.finalize(self, _closed, self._connection, folder)
        try:
            self._set("files", [_literally(path) for path in paths])
            super().__init__(self._connection.sql(f"SELECT * FROM {self._reader}"))
        except duckdb.Error as error:
            self._close()
            raise _readable(error, str(self)) from None

    def __str__(self) -> str:
        first, *others = self._paths
        return f"{first} and {len(others)} other file{'s' * (len(others) > 1)}" if others else first

    def _set(self, name: str, value: Any) -> None:
        """Bind a value to a name that statements can use."""
        self._connection.execute(f"SET VARIABLE {name} = $1", [value])

    def frame(self, table: Any) -> Any:
        """Leave an Arrow table as it is."""
        return table

    @property
    def place(self) -> str:
        """What a statement reads from."""
        return self._reader

    def run(self, sql: str) -> Any:
        """Run a statement."""
        return self._connection.sql(sql)


class _Parquet(_Files):
    """Parquet files. A folder called `a=1` adds no column: what is in the files counts."""

    _reader = "read_parquet(getvariable('files'), union_by_name := true, hive_partitioning := false)"

    @cached_property
    def _footers(self) -> dict[str, Any]:
        import pyarrow.parquet as pq

        return {path: pq.read_metadata(path) for path in self._paths}

    @property
    def n_rows(self) -> int | None:  # type: ignore[override]
        """Rows of all files, from their footers, if these can be read."""
        try:
            return sum(footer.num_rows for footer in self._footers.values())
        except (OSError, ValueError):
            return None

    def prepare(self, numbers: tuple[str, ...], others: tuple[str, ...]) -> None:
        """Refuse files that lack a column, or have text for numbers: DuckDB would take them for NULL, or for text."""
        if len(self._paths) == 1:
            return
        schemas = {path: footer.schema.to_arrow_schema() for path, footer in self._footers.items()}
        for name in (*numbers, *others):
            kinds = {
                path: schema.field(name).type if name in schema.names else None for path, schema in schemas.items()
            }
            lacking = next((path for path, kind in kinds.items() if kind is None), None)
            if lacking is not None:
                raise ValueError(
                    f"{lacking!r} has no column {name!r}, other files have: scan files with the same columns"
                )
            if name in numbers and not _is_number(self.columns[name]) and len(set(kinds.values())) > 1:
                some = {kind: path for path, kind in kinds.items()}
                told = " and ".join(f"{kind} in {path!r}" for kind, path in list(some.items())[:3])
                raise ValueError(f"column={name!r} is {told}: scan files with the same columns")

    @cached_property
    def position(self) -> str:
        """Number the rows over all files: those of a file follow those of the file before."""
        own = {name.lower() for name in self.columns}
        if own & {"file_index", "file_row_number"}:
            return _POSITION
        if len(self._paths) == 1:
            return "file_row_number"
        self._set("firsts", np.cumsum([0, *(footer.num_rows for footer in self._footers.values())]).tolist())
        return "getvariable('firsts')[file_index::BIGINT + 1]::BIGINT + file_row_number"


class _Csv(_Files):
    """CSV files. DuckDB guesses types from the first rows; what a column is asked for decides how it is read."""

    _reader = "read_csv(getvariable('files'), hive_partitioning := false)"

    @cached_property
    def _guessed(self) -> dict[str, str]:
        return dict(self.columns)

    def prepare(self, numbers: tuple[str, ...], others: tuple[str, ...]) -> None:
        """Read numbers as such, and whole numbers as text to be looked at: DuckDB would round what comes late."""
        types = {name: "DOUBLE" for name in numbers if self._guessed[name] != "BOOLEAN"}
        self.columns = {**self._guessed, **types}
        types |= {name: "VARCHAR" for name in others if self._guessed[name] in _INTEGERS | _WIDE}
        self._set("types", types or None)
        self._reader = _Csv._reader[:-1] + ", types := getvariable('types'))" if types else _Csv._reader

    def whole(self, name: str) -> str:
        """Write down a column of integers that is read as text."""
        column = quoted(name)
        wrong = f"error({_text(f'{name!r} holds whole numbers, but also ')} || {column})"
        return (
            f"CASE WHEN {column} IS NULL THEN NULL WHEN regexp_full_match({column}, '{_WHOLE}') "
            f"THEN {column}::{self._guessed[name]} ELSE {wrong} END"
        )


def _closed(connection: Any, folder: Any) -> None:
    connection.close()
    folder.cleanup()


def _literally(path: str) -> str:
    """Keep DuckDB from taking a path for a glob."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def _is_number(kind: str) -> bool:
    return kind in _NUMBERS or kind.startswith("DECIMAL(")


class DuckEngine(Engine):
    """DuckDB counts, hashes and sums up; K lines a group come back."""

    def __init__(self, source: _Relation, row_id: str | None, hash: str):
        self._source, self._row_id, self.hashed = source, row_id, "portable" if hash == "portable" else "DuckDB"
        check_row_id(row_id, self.names(), row_id is not None and source.columns.get(row_id) in _INTEGERS | _WIDE)
        self._small = False  # whether all row numbers are known to lie in [0, P)

    def __str__(self) -> str:
        return str(self._source)

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._source.columns)

    def frame(self, columns: dict[str, list[Any]]) -> Any:
        """Make a relation, or an Arrow table where the data are files."""
        return self._source.frame(super().frame(columns))

    def n_rows(self) -> int | None:
        """Return what the files themselves say, where rows are numbered by their place."""
        known = self._source.n_rows if self._row_id is None else None
        self._small = known is not None and known < _PRIME
        return known

    def key_type(self, name: str) -> Any:
        """Return the Arrow type of a key."""
        return self._arrow(f"SELECT {self._key(name)} AS k FROM {self._source.place} LIMIT 0").schema.field("k").type

    def _arrow(self, sql: str) -> Any:
        import duckdb

        try:
            return self._source.run(sql).to_arrow_table()
        except duckdb.Error as error:
            raise _readable(error, str(self)) from None

    def _kind(self, name: str) -> str:
        """Return the type that a key is turned into; refuse what is no label."""
        kind = self._source.columns[name]
        turned: str = "VARCHAR" if kind.startswith("ENUM(") else _TURNED.get(kind, kind)
        if not (turned in _LABELS or turned.startswith("DECIMAL(")):
            refuse_key(name, f"{kind} values")
        return turned

    def _key(self, name: str) -> str:
        kind = self._kind(name)
        return f"CAST({self._source.whole(name) if kind in _INTEGERS | _WIDE else quoted(name)} AS {kind})"

    def _selected(self, query: Query) -> str:
        """The columns under names of our own: values v0, …, keys k0, …, and the number of the row."""
        ids = () if self._row_id is None else (self._row_id,)
        self._source.prepare(query.columns, (*query.by, *ids))
        for name in query.columns:
            if not _is_number(self._source.columns[name]):
                refuse_text(name, f"{self._source.columns[name]} values")
        values = [f"{quoted(name)}::DOUBLE AS v{j}" for j, name in enumerate(query.columns)]
        keys = [f"{self._key(name)} AS k{j}" for j, name in enumerate(query.by)]
        if self._row_id is None:
            number = [f"{self._source.position} AS id", "NULL AS given"]
        else:
            raw = self._source.whole(self._row_id)
            number = [f"TRY_CAST({raw} AS BIGINT) AS id", f"{raw} AS given"]
        return f"SELECT {', '.join([*values, *keys, *number])} FROM {self._source.place}"

    def _marked(self, query: Query) -> str:
        """The same, with what is wrong with a row."""
        # Not isnan, which DuckDB may decide from the statistics of a file: they say nothing of NaN.
        infinite = [f"coalesce(isinf(v{j}), false)" for j in range(len(query.columns))]
        missing = [f"(NOT coalesce(isfinite(v{j}), false) AND NOT {one})" for j, one in enumerate(infinite)]
        wrong = f"{' OR '.join(missing)} AS missing, {' OR '.join(infinite)} AS infinite"
        return f"SELECT *, {wrong} FROM ({self._selected(query)})"

    def tally(self, query: Query) -> dict[Key, Tally]:
        """Count the rows of each group."""
        keys = [f"k{j}" for j in range(len(query.by))]
        counts = "count(*), count_if(missing), count_if(infinite AND NOT missing), count_if(id IS NULL)"
        ends = "NULL, NULL" if self._row_id is None else "min(given), max(given)"
        group = f"GROUP BY {', '.join(keys)}" if keys else ""
        found = self._arrow(f"SELECT {', '.join([*keys, counts, ends])} FROM ({self._marked(query)}) {group}")
        lines = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        lowest, highest = (
            [int(line[end]) for line in lines if line[end] is not None] if self._row_id is not None else []
            for end in (-2, -1)
        )
        for value in (min(lowest, default=0), max(highest, default=0)):
            if not -(2**63) <= value < 2**63:
                refuse_large_id(self._row_id, value)
        tallies = []
        for *labels, n_rows, n_missing, n_infinite, n_unnumbered, _, _ in lines:
            for name, label in zip(query.by, labels, strict=True):
                if label is None or label != label:
                    refuse_null_key(name)
            if n_unnumbered:
                refuse_null_id(self._row_id)
            key: Key = labels[0] if len(labels) == 1 else tuple(labels)
            tallies.append({key: Tally(int(n_rows), int(n_missing or 0), int(n_infinite or 0))})
        known = added(tallies)
        last = max(highest, default=0) if self._row_id is not None else sum(tally.n_rows for tally in known.values())
        self._small = min(lowest, default=0) >= 0 and last < _PRIME
        return known

    def _blocked(self, query: Query, n_blocks: Mapping[Key, int], seed: int) -> str:
        """The finite rows, with the number of their block, and of their group (`owner`) where there are groups."""
        finite = " AND ".join(f"isfinite(v{j})" for j in range(len(query.columns)))
        rows = f"SELECT * FROM ({self._selected(query)}) WHERE {finite}"
        if not query.by:
            return f"SELECT *, h % {int(n_blocks[()])} AS block FROM ({self._hashed(rows, seed)})"
        # The numbers of blocks, a line for each group, in a table of DuckDB's that holds the labels as data.
        kinds = [self._kind(name) for name in query.by]
        lines = []
        for i, (key, k) in enumerate(n_blocks.items()):
            labels = key if isinstance(key, tuple) and len(kinds) > 1 else (key,)
            line = [f"CAST({_text(str(label))} AS {kind})" for label, kind in zip(labels, kinds, strict=True)]
            lines.append(f"({', '.join([*line, str(i), str(int(k))])})")
        heads = [f"k{j}" for j in range(len(kinds))]
        sizes = f"(VALUES {', '.join(lines)}) AS sizes({', '.join([*heads, 'owner', 'blocks'])})"
        same = " AND ".join(f"dealt.{head} = sizes.{head}" for head in heads)
        return (
            f"SELECT dealt.*, owner, h % blocks AS block FROM ({self._hashed(rows, seed)}) AS dealt "
            f"JOIN {sizes} ON {same}"
        )

    def _hashed(self, rows: str, seed: int) -> str:
        """Add the hash h of the row number to rows: that of partition.py, or DuckDB's own."""
        if self.hashed != "portable":
            return f"SELECT *, (hash(id, {int(seed)}::UBIGINT) % {_PRIME})::BIGINT AS h FROM ({rows})"
        b, *rest = hash_coefficients(seed)
        u = "id"
        if not self._small:
            # Quotients are rounded towards 0: below 0 they belong to the one below. No term reaches 2⁶³.
            low, high = f"id % {_PRIME}", f"(id // {_PRIME} - (id % {_PRIME} < 0)::BIGINT)"
            rows = f"SELECT *, ({low} + {high} * {b}) % {_PRIME} AS t FROM ({rows})"
            u, rows = "u", f"SELECT *, (t + {_PRIME}) % {_PRIME} AS u FROM ({rows})"
        value = u
        for c in rest[:3]:
            value = f"(({value} + {c}) * {u} % {_PRIME})"
        return f"SELECT *, {value} + {rest[3]} AS h FROM ({rows})"

    def summaries(self, query: Query, n_blocks: Mapping[Key, int], seed: int) -> dict[Key, BlockSummary]:
        """Sum up the blocks of each group."""
        each, rows = range(len(query.columns)), self._blocked(query, n_blocks, seed)

        def lines(unit: float) -> Lines:
            values = [f"v{j}" if unit == 1 else f"v{j} * {unit!r}::DOUBLE" for j in each]
            sums = [f"avg({v})" for v in values] + [f"var_pop({v})" for v in values]
            owner, groups = ("owner", "owner, block") if query.by else ("0", "block")
            sql = f"SELECT {owner}, block, count(*), {', '.join(sums)} FROM ({rows}) GROUP BY {groups}"
            owners, blocks, counts, *found = (column.to_numpy() for column in self._arrow(sql).columns)
            means, variances = np.array(found).reshape(2, len(each), -1).transpose(0, 2, 1)
            return Lines(owners, blocks, counts, means, variances)

        return from_lines(lines, n_blocks, seed, str(self))

    def blocks(
        self, query: Query, n_blocks: Mapping[Key, int], seed: int
    ) -> Iterator[tuple[Key, int, NDArray[np.float64]]]:
        """Sort the rows by block, on disk where memory does not suffice, and give them block by block."""
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

    def _batches(self, sql: str) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Fetch lines of (block, values), some at a time."""
        import duckdb

        try:
            for batch in self._source.run(sql).to_arrow_reader(_BATCH):
                if batch.num_rows:
                    labels, *values = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
                    rows = np.column_stack(values)
                    refuse_nan(rows, str(self))
                    yield labels, rows
        except duckdb.Error as error:
            raise _readable(error, str(self)) from None


def _readable(error: Exception, source: str) -> Exception:
    """Turn an error of DuckDB's into one that says what to do."""
    import duckdb

    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = ". ".join(line.removesuffix(".") for line in lines[: 3 if "CSV Error" in lines[0] else 1])
    if isinstance(error, duckdb.OutOfMemoryException):
        return MemoryError(f"{source}: the memory_limit does not suffice, allow more or use fewer blocks ({told})")
    if isinstance(error, duckdb.IOException):
        return OSError(f"{source} cannot be read: {told}")
    return ValueError(f"{source} cannot be read: {told}")
