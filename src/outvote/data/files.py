"""Files of numbers: CSV, TSV, JSON, Excel, Parquet and Arrow, opened by DuckDB, with one policy for their cells.

A cell of a column of numbers may hold anything: `cells.py` says which texts are numbers, and which are missing values.
Any other text is *unreadable*: it is counted and its place is known, so that callers can refuse it or count it as
corrupt.
Names of columns and files are data: they are quoted, or bound as values, and never part of a statement.
"""

from __future__ import annotations

import difflib
import os
import re
import shutil
import sys
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Self

from outvote.data.cells import Style, number_of, style_of, text_of
from outvote.data.conversion import check_reading, copied, sheets_told
from outvote.data.csv_text import check_header, check_rows, dialect, first_cells, first_line, stripped, unreadable
from outvote.data.finding import KINDS, find_files
from outvote.data.interrupts import interruptible
from outvote.data.packages import install_command

#: The first rows of each file, which tell how a column is written.
_LOOKED_AT = 10_000
_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_WIDE = {"UBIGINT", "HUGEINT", "UHUGEINT"}
INTEGER_TYPES = _INTEGERS | _WIDE
_NUMBERS = INTEGER_TYPES | {"FLOAT", "DOUBLE", "BOOLEAN"}
#: Bytes that a thread of DuckDB needs, roughly: more threads do not fit into a small limit.
_THREAD = 2**26
#: Parts of DuckDB's messages on text that is no table; the text itself says more.
_DAMAGED = ("sniffing", "not utf-8", "state machine reached an invalid state")
#: Characters of a line of a message that are shown.
_SHOWN = 200
#: Signs of globs, and how they stand for themselves.
_GLOB = re.compile(r"[*?\[]")
#: What DuckDB puts before its messages.
_KIND_OF_ERROR = re.compile(r"^[A-Z][\w ]* Error: ")


def is_number(kind: str) -> bool:
    """Return whether a type of DuckDB's holds numbers."""
    return kind in _NUMBERS or kind.startswith("DECIMAL(")


def quoted(name: str) -> str:
    """Quote a name for SQL, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def literal(value: str) -> str:
    """Write text for SQL, whatever it holds."""
    return "'" + value.replace("'", "''") + "'"


def check_name(argument: str, name: str, there: Sequence[str]) -> None:
    """Refuse the name of a column that is not there."""
    if name not in there:
        near = difflib.get_close_matches(str(name), map(str, there), 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, there[:20]))}"
        raise ValueError(f"{argument}={name!r} is not a column: {hint}")


def check_limit(memory_limit: str | None) -> int | None:
    """Return a limit in bytes; refuse text that is not a size."""
    if memory_limit is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT])(i?)B", str(memory_limit).strip(), re.IGNORECASE)
    if not found:
        raise ValueError(f"memory_limit={memory_limit!r} must be a size such as '1GB' or '500MB'")
    number, unit, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** (1 + "KMGT".index(unit.upper())))


def duckdb_module() -> Any:
    """Import DuckDB and what it needs to hand tables over."""
    try:
        import duckdb
        import pyarrow  # noqa: F401
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"files are read by {error.name}: {install_command('duckdb', 'pyarrow')}") from None
    return duckdb


class Files:
    """Files of one kind, opened by a DuckDB connection of their own; a context manager.

    Parameters
    ----------
    patterns : sequence of path
        Names of files, globs, or ``-`` alone for standard input, which is kept in a temporary file meanwhile.
    kind : str, optional
        Kind of the files, where their names do not say it; standard input is CSV by default.
    memory_limit : str, optional
        The most that DuckDB may use, such as "1GB"; beyond it, it writes to disk.
    stdin : binary file, optional
        What ``-`` stands for.
    encoding : str, optional
        Encoding of text files; UTF-8 by default.
    decimal : {".", ","}
        Decimal sign of CSV and TSV files; with a comma, points separate thousands.
    sheet : str, optional
        Name or number of the sheet of Excel files; the first by default.

    Attributes
    ----------
    given : list of str
        The files.
    paths : list of str
        The files that are read: the same, or copies of Excel files and of text that is not in UTF-8.
    kind : str
        Their kind, a value of `KINDS`.
    columns : dict of str
        Names of the columns of the first file, and their types in DuckDB's words.
    """

    def __init__(
        self,
        patterns: Sequence[Any],
        kind: str | None = None,
        *,
        memory_limit: str | None = None,
        stdin: BinaryIO | None = None,
        encoding: str | None = None,
        decimal: str = ".",
        sheet: str | None = None,
    ):
        if kind is not None and kind not in KINDS.values():
            raise ValueError(f"format={kind!r} is not one of {', '.join(dict.fromkeys(KINDS.values()))}")
        self._checked = -1  # rows of text files that the text was found to have
        self._schemas: dict[int, dict[str, str]] = {}
        self._renamed: dict[int, str] = {}  # SQL for the names of text files, where the reader has others
        self._styles: dict[str, Style] = {}
        n_bytes = check_limit(memory_limit)
        self._folder = tempfile.TemporaryDirectory(prefix="outvote-")
        self._close: Any = weakref.finalize(self, self._folder.cleanup)
        try:
            if list(patterns) == ["-"]:
                self.kind = kind or "csv"
                if stdin is None and sys.stdin is None:
                    raise ValueError("- is standard input, which is closed: name a file, or send one in (< FILE)")
                self.paths = [_keep(stdin or sys.stdin.buffer, self._folder.name)]
                self._shown = {self.paths[0]: "standard input"}
            elif "-" in patterns:
                raise ValueError("- is standard input, and goes alone: name no files beside it")
            else:
                self.paths, self.kind = find_files(patterns, kind)
                self._shown = {}
            check_reading(self.kind, encoding, decimal, sheet)
            self.given, self._decimal, self._sheet, self._excel = self.paths, decimal, sheet, self.kind == "excel"
            self.paths, self.kind = copied(
                self.given, self.kind, self._folder.name, encoding=encoding, sheet=sheet
            )  # fmt: skip
            for copy, path in zip(self.paths, self.given, strict=True):
                self._shown.setdefault(copy, self._shown.get(path, path))
            self._settings: dict[str, Any] = {"temp_directory": self._folder.name}
            if n_bytes is not None:
                self._settings["memory_limit"] = memory_limit
                self._settings["threads"] = max(1, min(os.cpu_count() or 1, n_bytes // _THREAD))
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __str__(self) -> str:
        first, others = self.shown(self.paths[0]), len(self.paths) - 1
        return f"{first} and {others} other file{'s' * (others > 1)}" if others else first

    def shown(self, path: str) -> str:
        """Return what a file is called in messages."""
        return self._shown.get(path, path)

    def close(self) -> None:
        """Close the connection and remove temporary files."""
        self._close()

    @cached_property
    def _connection(self) -> Any:
        connection = duckdb_module().connect(config=self._settings)
        self._close.detach()
        self._close = weakref.finalize(self, _closed, connection, self._folder)
        return connection

    @cached_property
    def columns(self) -> dict[str, str]:
        """Names of the columns of the first file, and their types."""
        return self._schema(0)

    def _schema(self, number: int) -> dict[str, str]:
        """Return names and types of the columns of a file."""
        if number not in self._schemas:
            path = self.paths[number]
            if not os.path.getsize(path):
                raise ValueError(f"{self.shown(path)} is empty")
            with self.refusing(path):
                found = self._connection.sql(f"SELECT * FROM {self._reader(number)} LIMIT 0")
                names = found.columns
                if self.is_text and (own := stripped(names)) != names:
                    names, self._renamed[number] = own, f" AS renamed({', '.join(map(quoted, own))})"
                self._schemas[number] = dict(zip(names, map(str, found.types), strict=True))
        return self._schemas[number]

    def _reader(self, number: int, texts: Sequence[str] = ()) -> str:
        """Write what reads a file; in JSON the columns `texts` are read as they are written."""
        path = self.paths[number]
        name = literal(_no_glob(self._place_of(number)))
        if self.is_text:
            separator = f", sep := {literal(self._separator)}" if self._separator else ""
            options = f"{dialect(path, remarks=not self._excel)}, hive_partitioning := false{separator}"
            return f"read_csv({name}, {options}){self._renamed.get(number, '')}"
        if self.kind == "jsonl":
            kinds = ", ".join(f"{literal(text)}: 'VARCHAR'" for text in texts)
            columns = f", columns := {{{kinds}}}" if texts else ""
            form = "auto" if ".json" in Path(path).suffixes else "newline_delimited"  # an array, perhaps
            return f"read_json({name}, format := '{form}', hive_partitioning := false{columns})"
        if self.kind == "parquet":
            return f"read_parquet({name}, hive_partitioning := false)"
        view = f"outvote_arrow_{number}"
        self._connection.register(view, _arrow_table(path))
        return view

    def _place_of(self, number: int) -> str:
        """Return the path that DuckDB opens a file by."""
        path = os.path.abspath(self.paths[number])  # where ~ is no home
        if "\\" in path and os.sep == "/" and _GLOB.search(path):  # a backslash is lost in globs: take a link
            link = os.path.join(self._folder.name, f"link-{number}{os.path.splitext(path)[1].lower()}")
            if not os.path.lexists(link):
                os.symlink(path, link)
            path = link
        return path

    @property
    def _separator(self) -> str | None:
        """What stands between the cells of text files; None where it has to be found out."""
        return "\t" if self.kind == "tsv" else "," if self._excel else None

    def check(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Refuse files that lack a column; `columns` are those that each argument names."""
        for number, path in enumerate(self.paths):
            there, cells = list(self._schema(number)), list[str]()
            if self.is_text:
                cells = first_cells(path, len(there), self._separator, remarks=not self._excel)
            for argument, names in columns.items():
                for name in names:
                    try:
                        check_header(name, cells, there)
                    except ValueError as error:
                        raise ValueError(f"{self.shown(path)}: {error}") from None
                    if name in there:
                        continue
                    if self.is_text and name in _first_line(path, remarks=not self._excel):
                        raise ValueError(
                            f"{self.shown(path)}: its first line names {name!r}, but the lines below do not fit it: "
                            "are there lines with more cells than the first, or quotes that do not close?"
                        )
                    try:
                        check_name(argument, name, there)
                    except ValueError as error:
                        sheets = sheets_told(self.given[number], self._sheet) if self._excel else ""
                        raise ValueError(f"{self.shown(path)}: {error}{sheets}") from None

    def check_rows(self, n_rows: int) -> None:
        """Refuse a number of rows that were read from text files, if the text has another; look once."""
        if self.is_text and n_rows != self._checked:
            check_rows(self.paths, str(self), n_rows, len(self.columns), remarks=not self._excel)
            self._checked = n_rows

    def select(self, numbers: Sequence[str], keys: Sequence[str] = (), row_id: str | None = None) -> str:
        """Write a statement for the rows of all files, with columns under names of our own.

        ``v0``, … are numbers, NULL where a cell holds none; ``r0``, … what it holds instead, NULL if nothing; ``k0``,
        … keys; ``id`` and ``given`` the row id as a 64-bit and as a wider integer; ``file`` and ``n`` the number of the
        file and of the row in it, both from 0.
        """
        wanted = {"column": numbers, "by": keys, "row_id": () if row_id is None else (row_id,)}
        self.check(wanted)
        self._find_styles(numbers)
        parts = []
        for number in range(len(self.paths)):
            kinds = self._schema(number)
            texts = list(dict.fromkeys(name for several in wanted.values() for name in several))
            columns = []
            for j, name in enumerate(numbers):
                value, raw = self._cell(name, kinds[name], number)
                columns += [f"{value} AS v{j}", f"{raw} AS r{j}"]
            columns += [f"{self._key(name)} AS k{j}" for j, name in enumerate(keys)]
            columns += _row_ids(row_id, kinds)
            columns += [f"{number} AS file", f"{self._place(kinds)} AS n"]
            parts.append(f"SELECT {', '.join(columns)} FROM {self._reader(number, texts)}")
        return " UNION ALL ".join(parts)

    @property
    def is_text(self) -> bool:
        """Whether the files are CSV, with whatever separator."""
        return self.kind in ("csv", "tsv")

    @property
    def keys_are_text(self) -> bool:
        """Whether keys are the text of a file rather than values of a type."""
        return self.kind in ("csv", "tsv", "jsonl")

    def may_hold_text(self, names: Sequence[str]) -> bool:
        """Return whether cells of some columns may hold text instead of numbers, in any of the files."""
        if self.kind != "parquet":
            return True
        kinds = (self._schema(number).get(name, "") for number in range(len(self.paths)) for name in names)
        return not all(map(is_number, kinds))

    def _key(self, name: str) -> str:
        column = quoted(name)
        return f"nullif(trim(CAST({column} AS VARCHAR)), '')" if self.keys_are_text else column

    def _cell(self, name: str, kind: str, number: int) -> tuple[str, str]:
        """Write the number in a cell, and what it holds instead of one."""
        column = quoted(name)
        if self.kind != "jsonl" and is_number(kind):
            return f"{column}::DOUBLE", "NULL::VARCHAR"
        if self._holds_text(kind):
            # Trimmed, it is not the column itself, which DuckDB would read as numbers, refusing all other text.
            text = f"trim({column}::VARCHAR)"
            value = number_of(text, self._decimal, self._styles[name])
            return value, text_of(text, value)
        raise TypeError(
            f"{self.shown(self.paths[number])}: column={name!r} holds {kind} values, but numbers are needed"
        )

    def _find_styles(self, numbers: Sequence[str]) -> None:
        """Find out how columns are written, by the first rows of all files; each file is read once for all of them."""
        names = [name for name in dict.fromkeys(numbers) if name not in self._styles]
        cells: dict[str, set[str]] = {name: set() for name in names}
        for number in range(len(self.paths)):
            here = [name for name in names if self._holds_text(self._schema(number)[name])]
            if not here:
                continue
            first = ", ".join(f"{quoted(name)}::VARCHAR AS c{j}" for j, name in enumerate(here))
            found = self.table(f"SELECT {first} FROM {self._reader(number, here)} LIMIT {_LOOKED_AT}")
            for name, column in zip(here, found.columns, strict=True):
                cells[name].update(filter(None, column.unique().to_pylist()))
        self._styles |= {name: style_of(found) for name, found in cells.items()}

    def _holds_text(self, kind: str) -> bool:
        """Return whether the cells of a type of column are text, or are read as if they were."""
        return self.kind == "jsonl" or kind == "VARCHAR" or kind.startswith("ENUM(")

    def _place(self, kinds: Mapping[str, str]) -> str:
        own = {name.lower() for name in kinds}
        numbered = self.kind == "parquet" and "file_row_number" not in own
        return "file_row_number" if numbered else "(row_number() OVER () - 1)"

    @cached_property
    def n_rows(self) -> tuple[int, ...] | None:
        """Rows of each file, where they are known without reading any."""
        if self.kind != "parquet":
            return None
        import pyarrow.parquet as pq

        try:
            return tuple(pq.read_metadata(os.path.abspath(path)).num_rows for path in self.paths)
        except (OSError, ValueError):
            return None

    def run(self, sql: str) -> Any:
        """Run a statement; what DuckDB has to say against it becomes one line."""
        with self.refusing():
            return self._connection.sql(sql)

    def table(self, sql: str) -> Any:
        """Run a statement and return its lines as an Arrow table."""
        with self.refusing():
            return self._connection.sql(sql).to_arrow_table()

    @contextmanager
    def refusing(self, path: str | None = None) -> Iterator[None]:
        """Turn errors of DuckDB and Arrow into one line that says what to do."""
        import pyarrow as pa

        try:
            with interruptible():
                yield
        except (duckdb_module().Error, pa.ArrowException) as error:
            raise self.told(error, path) from None

    def told(self, error: Exception, path: str | None = None) -> Exception:
        """Return an error of DuckDB's or Arrow's as one that says what to do; for text, what was found in it."""
        found, text = "", str(error)
        for number, one in enumerate(self.paths):
            place = self._place_of(number)
            text = text.replace(_no_glob(place), self.shown(one)).replace(place, self.shown(one))
        if self.is_text and any(sign in text for sign in _DAMAGED):
            found = next(filter(None, (unreadable(one) for one in ([path] if path else self.paths))), "")
        shown = str(self) if path is None else self.shown(path)
        return readable(error, shown, self.kind, found, text=text, limited="memory_limit" in self._settings)


def readable(
    error: Exception, source: str, kind: str = "", found: str = "", *, text: str = "", limited: bool = True
) -> Exception:
    """Return an error of DuckDB's or Arrow's as one that says what to do, or what was found in the text.

    `text` is its message, if not as it is, and `limited` says whether there is a limit of memory to be changed.
    """
    import duckdb

    lines = [shortened(line.strip()) for line in (text or str(error)).splitlines() if line.strip()]
    told = ". ".join(line.removesuffix(".") for line in lines[: 3 if "CSV Error" in lines[0] else 1])
    if isinstance(error, duckdb.OutOfMemoryException):
        short = (
            "memory_limit does not suffice, allow more or use fewer blocks" if limited else "memory does not suffice"
        )
        return MemoryError(f"{source}: the {short} ({told})")
    told = found.replace("FILE", source) or told.replace("invalid literal", "what is there is not JSON")
    as_kind = f" as {kind}" if kind else ""
    failure = OSError if isinstance(error, (duckdb.IOException, OSError)) else ValueError
    return failure(f"{source} cannot be read{as_kind}: {_KIND_OF_ERROR.sub('', told)}")


def _no_glob(path: str) -> str:
    """Return a path in which no sign stands for other names."""
    return _GLOB.sub(r"[\g<0>]", path)


def shortened(line: str) -> str:
    """Return a line of a message without the middle, if it is long: it may hold a whole cell.

    Examples
    --------
    >>> shortened("x" * 1000 + ".").count("x")
    198
    """
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN // 2]}…{line[1 - _SHOWN // 2 :]}"


def _row_ids(row_id: str | None, kinds: Mapping[str, str]) -> list[str]:
    """Write a column of row ids as integers; text that is not a whole number is NULL."""
    if row_id is None:
        return ["NULL::BIGINT AS id", "NULL::HUGEINT AS given"]
    column = quoted(row_id)
    if kinds[row_id] not in INTEGER_TYPES:
        text = f"trim({column}::VARCHAR)"
        column = f"CASE WHEN regexp_full_match({text}, '[+-]?[0-9]+') THEN {text} END"
    return [f"TRY_CAST({column} AS BIGINT) AS id", f"TRY_CAST({column} AS HUGEINT) AS given"]


def _closed(connection: Any, folder: Any) -> None:
    connection.close()
    folder.cleanup()


def _keep(stdin: BinaryIO, folder: str) -> str:
    """Copy standard input to a file: it can be read only once, and from the beginning."""
    path = os.path.join(folder, "stdin")
    with open(path, "wb") as file:
        shutil.copyfileobj(stdin, file)
    with open(path, "rb") as file:
        start = file.read(2)
    if not start:
        raise ValueError("standard input is empty")
    if start != b"\x1f\x8b":
        return path
    os.rename(path, path + ".gz")
    return path + ".gz"


def _first_line(file: str, *, remarks: bool) -> list[str]:
    """Return the cells of the first line of a text file, whatever separates them."""
    return [cell.strip(" \"'") for cell in re.split(r"[,;|\t]", first_line(file, remarks=remarks))]


def _arrow_table(file: str) -> Any:
    """Open an Arrow file (Feather), or a stream of Arrow batches."""
    import pyarrow as pa

    with pa.memory_map(os.path.abspath(file)) as place:
        try:
            return pa.ipc.open_file(place).read_all()
        except pa.ArrowInvalid:
            place.seek(0)
            return pa.ipc.open_stream(place).read_all()
