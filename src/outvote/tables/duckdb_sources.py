"""What DuckDB reads: its relations and tables, and files."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from outvote.data.files import INTEGER_TYPES, Files, duckdb_module, is_number, quoted, readable
from outvote.tables.engine import Query, as_pandas, check_row_id, refuse_column, refuse_key

_DATES = {"DATE", "TIME", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP WITH TIME ZONE"}
#: Keys of these types stand for themselves; others are turned into one of them, or refused.
_LABELS = INTEGER_TYPES | {"FLOAT", "DOUBLE", "BOOLEAN", "VARCHAR"} | _DATES
_TURNED = {"UUID": "VARCHAR", "TIMESTAMP_NS": "TIMESTAMP"}


class Relation:
    """A relation of the user's."""

    #: Rows, where they are known without reading any.
    n_rows: int | None = None
    #: Whether keys are the text of a file rather than values of a type.
    keys_are_text = False

    def __init__(self, relation: Any):
        self._relation = relation
        self._view = f"outvote_{secrets.token_hex(8)}"  # no table of the user's
        self.columns: dict[str, str] = dict(zip(relation.columns, map(str, relation.types), strict=True))

    def __str__(self) -> str:
        return "DuckDB relation"

    def check_row_id(self, row_id: str | None) -> None:
        """Refuse a row id that is not a column of integers."""
        check_row_id(row_id, list(self.columns), row_id is not None and self.columns.get(row_id) in INTEGER_TYPES)

    def select(self, query: Query, row_id: str | None) -> str:
        """Write a statement for the rows: numbers v0, …, text instead of them r0, …, keys k0, …, id and given."""
        for name in query.columns:
            if not is_number(self.columns[name]):
                refuse_column(name, f"{self.columns[name]} values")
        values = [f"{quoted(name)}::DOUBLE AS v{j}, NULL::VARCHAR AS r{j}" for j, name in enumerate(query.columns)]
        keys = [f"CAST({quoted(name)} AS {self.key_kind(name)}) AS k{j}" for j, name in enumerate(query.by)]
        raw = "NULL" if row_id is None else quoted(row_id)
        number = "row_number() OVER () - 1" if row_id is None else f"TRY_CAST({raw} AS BIGINT)"
        ids = [f"{number} AS id", f"{raw}::HUGEINT AS given", "0 AS file", "0 AS n"]
        return f"SELECT {', '.join([*values, *keys, *ids])} FROM {self._view}"

    def check_rows(self, n_rows: int) -> None:
        """Refuse a number of rows that cannot be: what DuckDB itself holds is not read from text."""

    def holds_text(self, names: Sequence[str]) -> bool:
        """Return whether some columns may hold text instead of numbers."""
        return False

    def key_kind(self, name: str) -> str:
        """Return the type that a key is turned into; refuse what cannot be a label."""
        kind = self.columns[name]
        turned: str = "VARCHAR" if kind.startswith("ENUM(") else _TURNED.get(kind, kind)
        if not (turned in _LABELS or turned.startswith("DECIMAL(")):
            refuse_key(name, f"{kind} values")
        return turned

    def run(self, sql: str) -> Any:
        """Run a statement."""
        return self._relation.query(self._view, sql)

    def answer(self, outvote_answer_25f8d1c0: Any) -> Any:
        """Turn an Arrow table, which DuckDB finds by its name here, into a relation of the same connection."""
        duckdb = duckdb_module()
        with suppress(duckdb.Error):  # it was told not to look for names here
            found = self._relation.query(self._view, "SELECT * FROM outvote_answer_25f8d1c0")
            if found.to_arrow_table().equals(outvote_answer_25f8d1c0):  # and not a table of the user's
                return found
        return duckdb.from_arrow(outvote_answer_25f8d1c0)

    def told(self, error: Exception) -> Exception:
        """Return an error of DuckDB's as one that says what to do."""
        return readable(error, str(self))

    def place(self, file: int) -> str:
        """Return what a file is called."""
        return str(self)


class Table(Relation):
    """A table or view of a connection."""

    def __init__(self, connection: Any, table: str):
        duckdb = duckdb_module()
        try:
            try:
                super().__init__(connection.table(quoted(table)))
            except duckdb.Error:
                super().__init__(connection.table(table))  # a table of another schema, perhaps
        except duckdb.ConnectionException as error:
            raise readable(error, f"DuckDB table {table!r}") from None
        except duckdb.Error:
            lists = (
                "SELECT table_name FROM duckdb_tables() UNION SELECT view_name FROM duckdb_views() WHERE NOT internal"
            )
            there = sorted(row[0] for row in connection.sql(lists).fetchall())
            known = f"there are {', '.join(map(repr, there[:20]))}" if there else "it has none"
            raise ValueError(f"table={table!r} is not a table or view of the connection: {known}") from None
        self._name, self._connection = table, connection

    def __str__(self) -> str:
        return f"DuckDB table {self._name!r}"

    def answer(self, table: Any) -> Any:
        """Turn an Arrow table into a relation of the same connection."""
        return self._connection.from_arrow(table)


class FileSource(Relation):
    """Files, with the policy for cells of data/files.py."""

    def __init__(self, files: Files):
        self._files = files
        self.columns = files.columns
        self.keys_are_text = files.keys_are_text
        counts = files.n_rows
        self.n_rows = None if counts is None else sum(counts)

    def __str__(self) -> str:
        return str(self._files)

    def check_names(self, named: Mapping[str, Sequence[str]]) -> None:
        """Refuse names of columns that are not there, or that the first line has twice."""
        self._files.check(named)

    def check_row_id(self, row_id: str | None) -> None:
        """Refuse a row id that is not a column of integers; in a text file its cells will tell."""
        whole = row_id is not None and (self.keys_are_text or self.columns.get(row_id) in INTEGER_TYPES)
        check_row_id(row_id, list(self.columns), whole)

    def select(self, query: Query, row_id: str | None) -> str:
        """Write a statement for the rows of all files."""
        for name in query.by:
            self.key_kind(name)
        rows = self._files.select(query.columns, query.by, row_id)
        if row_id is not None:
            return rows
        counts = self._files.n_rows
        number = "row_number() OVER () - 1"
        if counts is not None:  # rows of a file follow those of the file before
            firsts = np.cumsum([0, *counts]).tolist()
            number = (
                f"n + list_extract([{', '.join(map(str, firsts))}]::BIGINT[], file + 1)" if len(counts) > 1 else "n"
            )
        return f"SELECT * REPLACE ({number} AS id) FROM ({rows})"

    def holds_text(self, names: Sequence[str]) -> bool:
        """Return whether some columns may hold text instead of numbers."""
        return self._files.may_hold_text(names)

    def check_rows(self, n_rows: int) -> None:
        """Refuse a number of rows that the text of the files contradicts."""
        self._files.check_rows(n_rows)

    def key_kind(self, name: str) -> str:
        """Return the type of a key: text in a text file."""
        return "VARCHAR" if self.keys_are_text else super().key_kind(name)

    def run(self, sql: str) -> Any:
        """Run a statement."""
        return self._files.run(sql)

    def told(self, error: Exception) -> Exception:
        """Return an error of DuckDB's as one that says what is wrong with the files."""
        return self._files.told(error)

    def answer(self, table: Any) -> Any:
        """Return an Arrow table as a pandas frame, if pandas is installed."""
        return as_pandas(table)

    def place(self, file: int) -> str:
        """Return what a file is called."""
        return self._files.shown(self._files.paths[file])
