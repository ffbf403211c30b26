"""What the text of a CSV file says by itself: the names in its first line, and how many rows there are.

DuckDB reads such files. What it found is compared with the text, so that no row and no name is lost on the way.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_SEPARATORS = ",;|\t"
_CHUNK = 1 << 22
#: Characters in which remarks are looked for, and in a line: DuckDB takes lines of two million.
_LOOKED_AT, _LONGEST = 1 << 16, 1 << 22
_END = re.compile(r"\r\n|\r|\n")
#: How lines above the names begin: remarks, and empty ones.
_ABOVE = ("#", "\r", "\n")
#: A cell in quotes, which may go on in the next line.
_QUOTED = re.compile(r'(?:^|(?<=[,;|\t\r\n])) *"(?:[^"]|"")*(?:"|$)')


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    import pyarrow as pa

    packed = {".gz": "gzip", ".zst": "zstd"}.get(os.path.splitext(path)[1].lower())
    try:
        with pa.input_stream(os.path.abspath(path), compression=packed) as file:  # Arrow takes ~ for a home
            yield file
    except OSError as error:
        raise OSError(f"{path} cannot be read as text: {error}") from None


def dialect(path: str, *, remarks: bool = True) -> str:
    """Write the options of DuckDB's reader that it would otherwise guess from the rows: quotes, comments, header."""
    skipped = _n_above(path, remarks)
    return f"""header := true, all_varchar := true, quote := '"', escape := '"', comment := '', skip := {skipped}"""


def first_line(path: str, *, remarks: bool = True) -> str:
    """Return the line that names the columns of a text file, packed or not."""
    with _lines_of(path, remarks) as (_, lines):
        return next(lines, "").rstrip("\r\n")


@contextmanager
def _lines_of(path: str, remarks: bool) -> Iterator[tuple[int, Iterator[str]]]:
    """Yield how many lines there are above the one that names the columns, and the lines from this one on.

    Lines end where DuckDB says that they do: at newlines and carriage returns, not at form feeds or what Unicode has.
    """
    with _opened(path) as file:
        text = io.TextIOWrapper(io.BufferedReader(file), encoding="utf-8-sig", errors="replace", newline="")
        lines = iter(lambda: text.readline(_LONGEST), "")
        seen = _beginning(lines) if remarks else []
        n = _n_remarks(seen)
        yield n, itertools.chain(seen[n:], lines)


def _beginning(lines: Iterator[str]) -> list[str]:
    """Take the first line; if it may be a remark or is empty, those after it, too, as far as they tell what is one."""
    seen = [next(lines, "")]
    size = len(seen[0]) if seen[0].startswith(_ABOVE) else _LOOKED_AT
    while size < _LOOKED_AT and (line := next(lines, "")):
        seen.append(line)
        size += len(line)
    return seen


def _n_remarks(lines: Sequence[str]) -> int:
    """Return how many of the first lines are remarks, which begin with #, or empty.

    The last remark is the line of names if it has as many cells as the line below. Where rows begin with #, too, the
    names are in the first of all such lines.
    """
    n = next((i for i, line in enumerate(lines) if not line.startswith(_ABOVE)), len(lines))
    cells = [*map(_n_separators, lines[:n]), _n_separators("".join(lines[n:]))]  # a row may have several lines
    if n == len(lines):
        return next((i for i in range(n - 1) if cells[i] == cells[i + 1] > 0), n)
    rows_too = any(line.startswith("#") for line in lines[n:])
    while n and lines[n - 1].startswith("#") and cells[n - 1] == cells[n]:
        n -= 1
        if not (rows_too and cells[n]):
            break
    return n


def _n_separators(lines: str) -> int:
    """Return how many separators stand in the first line outside of quotes."""
    return sum(map(_END.split(_QUOTED.sub("", lines), maxsplit=1)[0].count, _SEPARATORS))


def first_cells(path: str, n_columns: int, separator: str | None = None, *, remarks: bool = True) -> list[str]:
    """Return the names at the top of a CSV file; none if no separator gives so many. Names may have several lines."""
    for one in separator or _SEPARATORS:
        with _lines_of(path, remarks) as (_, lines):
            try:
                cells = next(csv.reader(lines, delimiter=one, skipinitialspace=True), [])
            except csv.Error:  # a name that is too long for it
                continue
        if len(cells) == n_columns:
            return [cell.strip() for cell in cells]
    return []


def stripped(names: Sequence[str]) -> list[str]:
    r"""Return names without tabs and other blanks around them; those that would be no longer distinct stay as they are.

    Examples
    --------
    >>> stripped(["v\t", "g"]), stripped(["v\t", "V"])
    (['v', 'g'], ['v\t', 'V'])
    """
    short = [name.strip() for name in names]
    there = Counter(name.lower() for name in short)
    return [new if new and there[new.lower()] == 1 else old for new, old in zip(short, names, strict=True)]


def check_header(name: str, cells: Sequence[str], found: Sequence[str]) -> None:
    """Refuse a name that the first line has twice, or that the reader gave to another column, or changed.

    Examples
    --------
    >>> check_header("v", ["tag", "v"], ["tag", "v"])
    >>> check_header("v", ["v", "v"], ["v", "v_1"])
    Traceback (most recent call last):
    ValueError: 2 columns are called 'v': rename all but one
    """
    where = [i for i, cell in enumerate(cells) if cell == name]
    if len(where) > 1:
        raise ValueError(f"{len(where)} columns are called {name!r}: rename all but one")
    if where and found[where[0]] != name:
        other = next((cell for cell in cells if cell != name and cell.lower() == name.lower()), None)
        if other is not None:
            raise ValueError(f"the columns {other!r} and {name!r} differ in capitals only: rename one")
        if name.lower() in map(str.lower, found):
            raise ValueError(f"a column whose name is missing, or there twice, is read as {name!r}, too: rename it")
        raise ValueError(f"the column {name!r} is read as {found[where[0]]!r}: rename it")


def check_rows(paths: Sequence[str], shown: str, n_rows: int, n_columns: int, *, remarks: bool = True) -> None:
    """Refuse a number of rows that is not the number in the text: some were lost, or taken for parts of others."""
    above = [_n_above(path, remarks) for path in paths]
    counts = [_count_rows(path, n) for path, n in zip(paths, above, strict=True)]
    expected, blank = sum(rows for rows, _, _ in counts), sum(empty for _, empty, _ in counts)
    if n_rows == expected or (n_columns == 1 and expected <= n_rows <= expected + blank):
        return
    if any(quoted for *_, quoted in counts) and n_rows == sum(map(_count_records, paths, above)):
        return  # there are quotes inside cells, which begin nothing
    raise ValueError(
        f"{shown} has {expected} rows below its first line, but {n_rows} were read: are there quotes that do not "
        "close, or lines that end in different ways?"
    )


def _n_above(path: str, remarks: bool) -> int:
    with _lines_of(path, remarks) as (n, _):
        return n


def _count_rows(path: str, above: int) -> tuple[int, int, bool]:
    """Return the numbers of rows and of empty lines below the names, and whether there are quotes; skip what is above.

    Remarks are not looked into: a quote there begins nothing.
    """
    n_rows, blank, inside, quoted = -1, 0, False, False
    for text in _whole_lines(path):
        while above and text:
            text = re.split(rb"\r\n|\r|\n", text, maxsplit=1)[1]
            above -= 1
        text = text.replace(b"\r\n", b"\n")
        plain = not (inside or b'"' in text or b"\r" in text)
        if plain and b"\n\n" not in text and text[:1] != b"\n":
            n_rows += text.count(b"\n")
            continue
        quoted = quoted or b'"' in text
        for line in text.splitlines():
            inside ^= bool(line.count(b'"') % 2)
            blank += not line and not inside
            n_rows += bool(line) and not inside
    return n_rows, blank, quoted


def unreadable(path: str) -> str:
    """Say why a text cannot be read as a table, and what to do about it; FILE stands for its name."""
    ends, decoded = set[bytes](), codecs.getincrementaldecoder("utf-8")()
    for text in _whole_lines(path):
        if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and not ends:
            return (
                "it is text in UTF-16, which Excel calls Unicode: --encoding utf-16 on the command line, or "
                "iconv -f utf-16 -t utf8 FILE > new.csv"
            )
        try:
            decoded.decode(text)
        except UnicodeDecodeError:
            return (
                "it is not text in UTF-8. Excel often writes cp1252: --encoding cp1252 on the command line, or "
                "iconv -f cp1252 -t utf8 FILE > new.csv"
            )
        ends |= set(re.findall(rb"\r\n|\r|\n", text))
    if len(ends) > 1:
        change = r"tr -d '\r'" if b"\r" not in ends else r"tr -s '\r' '\n'"
        return f"its lines end in different ways, some with a carriage return: {change} < FILE > new.csv"
    return "its lines are not cells between commas, semicolons, tabs or |, as many in each line as in the first"


def _count_records(path: str, above: int) -> int:
    """Return the number of rows below the names by Python's own reader, which is slower."""
    with _opened(path) as file:
        text = io.TextIOWrapper(io.BufferedReader(file), encoding="utf-8-sig", errors="replace", newline="")
        try:
            return sum(1 for record in csv.reader(itertools.islice(text, above, None)) if record) - 1
        except csv.Error:  # a cell that is too long for it
            return -1


def _whole_lines(path: str) -> Iterator[bytes]:
    """Yield the text of a file some whole lines at a time, each with its end."""
    rest = b""
    with _opened(path) as file:
        while chunk := bytes(file.read(_CHUNK)):
            text = rest + chunk
            cut = text.rfind(b"\n") + 1
            rest = text[cut:]
            if cut:
                yield text[:cut]
    if rest:
        yield rest + b"\n"
