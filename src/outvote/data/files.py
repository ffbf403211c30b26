"""Files to columns: CSV, TSV, JSON lines, Parquet and Arrow, by their names, by a glob, or from standard input.

A column of numbers may hold anything: what is no number is found, and named with its row, rather than guessed.
"""

from __future__ import annotations

import glob
import gzip
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from outvote.data.rows import NanPolicy

#: Endings of names, and the kind of file they stand for; `.gz` may follow those of text.
KINDS = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_PACKED = (".gz", ".zst")
#: Cells that stand for no value.
_NOTHING = ("", "na", "n/a", "nan", "null", "none")
#: Cells that are no numbers of which the text is kept.
_KEPT = 1000
_NUMBERS = {
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
    "FLOAT", "DOUBLE", "BOOLEAN",
}  # fmt: skip

#: Of rows numbered n: the first cell that is no number, what it says, how many there are; how many ids are missing.
_ODD = "min(n) FILTER (raw IS NOT NULL), arg_min(raw, n), count(raw), count(*) FILTER (id IS NULL)"

#: A number with a comma in it.
_COMMA = re.compile(r"\d,\d")
#: What DuckDB puts before its messages.
_KIND_OF_ERROR = re.compile(r"^[A-Z][\w ]* Error: ")

#: What a group is called: one label for each key, None where the cell is empty.
Label = tuple[str | None, ...]


class Unreadable(NamedTuple):
    """A cell that should be a number and is not."""

    row: int
    text: str


class Group(NamedTuple):
    """The rows that share their labels."""

    label: Label
    rows: NDArray[np.intp]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """One column of numbers, and the keys that tell its rows apart.

    Attributes
    ----------
    name : str
        Name of the column of numbers.
    values : ndarray
        Its numbers; NaN where there is none.
    unreadable : list of Unreadable
        Cells of it that hold something else than a number, the first thousand.
    n_unreadable : int
        How many such cells there are.
    keys : tuple of str
        Names of the keys.
    labels : list of tuple
        The groups, sorted.
    codes : ndarray of int
        The group of each row.
    files : list of (str, int)
        Where the rows come from, and how many from each.
    """

    name: str
    values: NDArray[np.float64]
    unreadable: list[Unreadable]
    n_unreadable: int
    keys: tuple[str, ...]
    labels: list[Label]
    codes: NDArray[np.intp]
    files: list[tuple[str, int]]

    def place(self, row: int) -> tuple[str, int]:
        """Return the file of a row, and its number there: 1 is the first row of data."""
        for file, n_rows in self.files:
            if row < n_rows:
                return file, row + 1
            row -= n_rows
        raise IndexError(row)

    def check(self, nan: NanPolicy) -> None:
        """Refuse cells that are no numbers, unless the policy says what they are."""
        if self.unreadable and nan != "corrupt":
            refuse_text(self.name, *self.place(self.unreadable[0].row), self.unreadable[0].text, self.n_unreadable)
        infinite = np.flatnonzero(np.isinf(self.values))
        if len(infinite) and nan != "corrupt":
            file, row = self.place(int(infinite[0]))
            raise ValueError(
                f"{self.name!r} is infinite in {len(infinite)} of {len(self.values)} rows (the first is row {row} of "
                f"{file}): --nan corrupt counts them as corrupt"
            )
        missing = np.flatnonzero(np.isnan(self.values))
        if len(missing) and nan == "raise":
            file, row = self.place(int(missing[0]))
            raise ValueError(
                f"{self.name!r} has no value in {len(missing)} of {len(self.values)} rows (the first is row {row} of "
                f"{file}): --nan omit leaves them out, --nan corrupt counts them as corrupt"
            )

    def groups(self) -> list[Group]:
        """Return the rows of each group, in their order."""
        if len(self.labels) == 1:
            return [Group(self.labels[0], np.arange(len(self.values)), self.values)]
        order = np.argsort(self.codes, kind="stable")
        ends = np.cumsum(np.bincount(self.codes, minlength=len(self.labels)))
        return [
            Group(label, rows, self.values[rows])
            for label, rows in zip(self.labels, np.split(order, ends[:-1]), strict=True)
        ]


class Source:
    """Files of one kind, found and not yet read; a context manager, since standard input is kept in a file meanwhile.

    Parameters
    ----------
    patterns : sequence of str
        Names of files, globs, or ``-`` for standard input.
    kind : str, optional
        Kind of the files, where their names do not say it; standard input is CSV by default.
    stdin : binary file, optional
        What ``-`` stands for.
    """

    def __init__(self, patterns: Sequence[str], kind: str | None = None, stdin: BinaryIO | None = None):
        if kind is not None and kind not in KINDS.values():
            raise ValueError(f"--format {kind} is not one of {', '.join(dict.fromkeys(KINDS.values()))}")
        if list(patterns) == ["-"]:
            self.kind = kind or "csv"
            with ExitStack() as stack:
                self.files = [_kept(stdin or sys.stdin.buffer, stack)]
                self._stack = stack.pop_all()
            self._shown = {self.files[0]: "standard input"}
        elif "-" in patterns:
            raise ValueError("- is standard input, and goes alone: name no files beside it")
        else:
            self.files, self._stack = _files(patterns), ExitStack()
            self._shown = {file: file for file in self.files}
            kinds = {kind} if kind else {_kind(file) for file in self.files}
            if len(kinds) > 1:
                raise ValueError(f"the files are {' and '.join(sorted(kinds))}: give one kind at a time")
            (self.kind,) = kinds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __str__(self) -> str:
        first = self._shown[self.files[0]]
        return first if len(self.files) == 1 else f"{first} and {len(self.files) - 1} other files"

    @cached_property
    def _duckdb(self) -> Any:
        try:
            import duckdb
            import pyarrow  # noqa: F401
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(f"files are read by {error.name}: pip install 'outvote[tables]'") from None
        return duckdb

    @cached_property
    def _connection(self) -> Any:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="outvote-"))
        return self._stack.enter_context(self._duckdb.connect(config={"temp_directory": folder}))

    def _relation(self, file: str, texts: Sequence[str] = ()) -> Any:
        """Open a file; in JSON the columns `texts` are read as they are written."""
        path, connection = glob.escape(file), self._connection
        if self.kind in ("csv", "tsv"):
            return connection.read_csv(
                path, header=True, all_varchar=True, **({"sep": "\t"} if self.kind == "tsv" else {})
            )
        if self.kind == "jsonl":
            columns = {"columns": dict.fromkeys(texts, "VARCHAR")} if texts else {}
            return connection.read_json(path, format="newline_delimited", **columns)
        if self.kind == "parquet":
            return connection.read_parquet(path)
        return connection.from_arrow(_arrow_table(file))

    def _checked(self, file: str, names: dict[str, Sequence[str]]) -> Any:
        """Open a file that has the columns that options name."""
        from outvote.tables.engine import check_name

        wanted = list(dict.fromkeys(name for several in names.values() for name in several))
        if not os.path.getsize(file):
            raise ValueError(f"{self._shown[file]} is empty")
        found = self._relation(file)
        for option, several in names.items():
            for name in several:
                try:
                    check_name(option, name, found.columns)
                except ValueError as error:
                    if self.kind in ("csv", "tsv") and name in _first_line(file):
                        raise ValueError(
                            f"{self._shown[file]}: its first line names {name!r}, but the lines below do not fit it: "
                            "are there lines with more cells than the first, or quotes that do not close?"
                        ) from None
                    raise ValueError(f"{self._shown[file]}: {error}".replace(f"{option}=", f"{option} ")) from None
        return self._relation(file, wanted) if self.kind == "jsonl" else found

    def _selected(self, file: str, value: str, by: Sequence[str], row_id: str | None = None) -> Any:
        """Select of each row the number (v), what is there instead (raw), its keys (k0, …), id, and place (n)."""
        from outvote.tables.duckdb import quoted

        ids = () if row_id is None else (row_id,)
        relation = self._checked(file, {"--value": (value,), "--by": by, "--row-id": ids})
        kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
        column, kind = quoted(value), kinds[value]
        if kind in _NUMBERS or kind.startswith("DECIMAL("):
            number, raw = f"{column}::DOUBLE", "NULL::VARCHAR"
        elif kind == "VARCHAR" or kind.startswith("ENUM("):
            # Trimmed, it is no longer the column itself, which DuckDB would read as numbers, and refuse what is none.
            text, nothing = f"trim({column}::VARCHAR)", ", ".join(f"'{one}'" for one in _NOTHING)
            number = f"TRY_CAST({text} AS DOUBLE)"
            raw = f"CASE WHEN {number} IS NULL AND NOT list_contains([{nothing}], lower({text})) THEN {text} END"
        else:
            raise ValueError(f"{self._shown[file]}: --value {value} holds {kind} values, but numbers are needed")
        keys = [f"nullif(CAST({quoted(name)} AS VARCHAR), '') AS k{j}" for j, name in enumerate(by)]
        numbers = [f"TRY_CAST(trim({quoted(name)}::VARCHAR) AS BIGINT) AS id" for name in ids]
        places = "row_number() OVER () AS n"
        return relation.project(", ".join([f"{number} AS v", f"{raw} AS raw", *keys, *numbers, places]))

    def columns(self, value: str, by: Sequence[str] = ()) -> Columns:
        """Read a column of numbers, and keys, into memory: 8 bytes a row, and the text of the keys."""
        tables = []
        for file in self.files:
            with self._refusing(file):
                tables.append(_in_order(self._selected(file, value, by).to_arrow_table()))
        import pyarrow as pa

        table = pa.concat_tables(tables)
        if not table.num_rows:
            raise ValueError(f"{self} has no rows")
        texts = table["raw"].combine_chunks()
        values = np.asarray(table["v"].to_numpy(), dtype=np.float64)
        if np.isnan(values).all():
            first = next((text.as_py() for text in texts if text.is_valid), None)
            there = "no value" if first is None else f"no number, {_short(first)!r} for instance,"
            raise ValueError(f"--value {value!r} has {there} in {self}: name a column of numbers{_comma(first or '')}")
        rows = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
        labels, codes = _grouped([table[f"k{j}"].combine_chunks() for j in range(len(by))], table.num_rows)
        return Columns(
            name=value,
            values=values,
            unreadable=[Unreadable(int(row), texts[int(row)].as_py()) for row in rows[:_KEPT]],
            n_unreadable=len(rows),
            keys=tuple(by),
            labels=labels,
            codes=codes,
            files=[(self._shown[file], part.num_rows) for file, part in zip(self.files, tables, strict=True)],
        )

    def relation(self, value: str, by: Sequence[str], row_id: str, nan: NanPolicy) -> Any:
        """Return a DuckDB relation for `outvote.scan`, with the columns v, k0, … and id; the rows stay in the files.

        A key that is empty is an empty text.
        """
        whole = None
        for file in self.files:
            with self._refusing(file):
                part = self._selected(file, value, by, row_id)
                ((row, text, count, empty),) = part.aggregate(_ODD).fetchall()
                if count and nan != "corrupt":
                    refuse_text(value, self._shown[file], row, text, count)
                if empty:
                    raise ValueError(
                        f"{self._shown[file]}: --row-id {row_id} is no whole number in {empty} rows: name a column of "
                        "integers"
                    )
                whole = part if whole is None else whole.union(part)
        assert whole is not None
        return whole.project(", ".join(["v", *(f"coalesce(k{j}, '') AS k{j}" for j in range(len(by))), "id"]))

    @contextmanager
    def _refusing(self, file: str) -> Iterator[None]:
        """Put what DuckDB or Arrow have to say against a file in a line."""
        wrong = (self._duckdb.Error, *_arrow_errors())
        try:
            yield
        except wrong as error:
            shown, lines = self._shown[file], [line.strip() for line in str(error).splitlines() if line.strip()]
            told = ". ".join(line.removesuffix(".") for line in lines[: 3 if "CSV Error" in lines[0] else 1])
            if self.kind in ("csv", "tsv") and ("sniffing" in told or "not utf-8" in told):
                told = f"it is no text in UTF-8. If it is in Latin-1: iconv -f latin1 -t utf8 {shown} | outvote … -"
            raise ValueError(f"{shown} cannot be read as {self.kind}: {_KIND_OF_ERROR.sub('', told)}") from None


def _kept(stdin: BinaryIO, stack: ExitStack) -> str:
    """Copy standard input to a file: it can be read only once, and from the beginning."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="outvote-"))
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


def _first_line(file: str) -> list[str]:
    """Return the cells of the first line of a text file, whatever separates them."""
    with gzip.open(file, "rb") if file.endswith(".gz") else open(file, "rb") as lines:
        line = lines.readline(10_000).decode("utf-8", "replace")
    return [cell.strip(" \"'\r\n\ufeff") for cell in re.split(r"[,;|\t]", line)]


def refuse_text(name: str, file: str, row: int, text: str, count: int) -> None:
    """Say which cell is no number, and what to do about it."""
    others = f" (and {count - 1} more)" if count > 1 else ""
    raise ValueError(
        f"{name!r} is no number in row {row} of {file}: {_short(text)!r}{others}. Mend it{_comma(text)}, or take --nan "
        "corrupt, which counts such rows as corrupt"
    )


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _comma(text: str) -> str:
    return " (written with a point and without commas: 1250.75)" if _COMMA.search(text) else ""


def _files(patterns: Sequence[str]) -> list[str]:
    """Return the files that names and globs stand for, each once, those of a glob sorted."""
    found: list[str] = []
    for name in patterns:
        if os.path.isfile(name):
            found.append(name)
            continue
        if os.path.isdir(name):
            raise IsADirectoryError(f"{name!r} is a folder: name its files, such as {os.path.join(name, '*.csv')!r}")
        matches = sorted(path for path in glob.glob(name, recursive=True) if os.path.isfile(path))
        if not matches:
            raise FileNotFoundError(f"no file is called {name!r}{_nearest_file(name)}")
        found += matches
    return list(dict.fromkeys(found))


def _nearest_file(name: str) -> str:
    import difflib

    folder, last = os.path.split(name)
    try:
        there = os.listdir(folder or ".")
    except OSError:
        return f": there is no folder {folder!r}"
    near = difflib.get_close_matches(last, there, 1)
    return f": did you mean {os.path.join(folder, near[0])!r}?" if near else ""


def _kind(file: str) -> str:
    *others, last = ["", *(suffix.lower() for suffix in Path(file).suffixes)]
    kind = KINDS.get(others[-1] if last in _PACKED and others else last)
    if kind is None:
        raise ValueError(
            f"{file!r} does not end in {', '.join(KINDS)} (or such a name and .gz): say what it is, --format csv for "
            "instance"
        )
    return kind


def _in_order(table: Any) -> Any:
    """Put rows in the order of their numbers n: DuckDB promises none."""
    places = table["n"].to_numpy()
    return table if (places[1:] > places[:-1]).all() else table.take(np.argsort(places))


def _arrow_errors() -> tuple[type[Exception], ...]:
    import pyarrow as pa

    return (pa.ArrowException,)


def _arrow_table(file: str) -> Any:
    """Open an Arrow file (Feather), or a stream of Arrow batches."""
    import pyarrow as pa

    with pa.memory_map(file) as place:
        try:
            return pa.ipc.open_file(place).read_all()
        except pa.ArrowInvalid:
            place.seek(0)
            return pa.ipc.open_stream(place).read_all()


def _grouped(keys: list[Any], n_rows: int) -> tuple[list[Label], NDArray[np.intp]]:
    """Number the groups of rows in the order of their labels."""
    if not keys:
        return [()], np.zeros(n_rows, dtype=np.intp)
    parts, codes = [], np.zeros(n_rows, dtype=np.int64)
    for key in keys:
        encoded = key.dictionary_encode(null_encoding="encode")
        own = encoded.dictionary.to_pylist()
        order = sorted(range(len(own)), key=_sorting(own))
        rank = np.empty(len(own), dtype=np.int64)
        rank[order] = np.arange(len(own))
        parts.append([own[i] for i in order])
        codes = codes * len(own) + rank[encoded.indices.to_numpy(zero_copy_only=False)]
    present, numbers = np.unique(codes, return_inverse=True)
    labels = []
    for code in present.tolist():
        label: list[str | None] = []
        for part in reversed(parts):
            code, place = divmod(code, len(part))
            label.append(part[place])
        labels.append(tuple(reversed(label)))
    return labels, numbers.reshape(-1)


def _sorting(labels: list[str | None]) -> Any:
    """Sort labels as numbers if they all are, else as text; empty ones come last."""
    try:
        number = {label: float(label) for label in labels if label is not None}
    except ValueError:
        return lambda i: (labels[i] is None, labels[i] or "")
    return lambda i: (labels[i] is None, number.get(labels[i] or "", 0.0), labels[i] or "")
