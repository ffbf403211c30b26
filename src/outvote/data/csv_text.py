"""What the text of a CSV file says by itself: the names in its first line, and how many rows there are.

DuckDB reads such files. What it found is compared with the text, so that no row and no name is lost on the way.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

_SEPARATORS = ",;|\t"
_CHUNK = 1 << 22


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    import pyarrow as pa

    packed = {".gz": "gzip", ".zst": "zstd"}.get(os.path.splitext(path)[1].lower())
    try:
        with pa.input_stream(str(path), compression=packed) as file:
            yield file
    except OSError as error:
        raise OSError(f"{path} cannot be read as text: {error}") from None


def dialect(path: str) -> str:
    """Write the options of DuckDB's reader that it would otherwise guess from the rows: quotes, comments, header."""
    skipped = len(_beginning(path)[0])
    return f"""header := true, all_varchar := true, quote := '"', escape := '"', comment := '', skip := {skipped}"""


def first_line(path: str) -> str:
    """Return the line that names the columns of a text file, packed or not."""
    return _beginning(path)[1]


def _beginning(path: str) -> tuple[list[str], str]:
    """Return the remarks above the line that names the columns, and this line.

    Remarks begin with #. The last such line is one of names if it has as many cells as the line below.
    """
    with _opened(path) as file:
        lines = bytes(file.read(1 << 16)).decode("utf-8-sig", "replace").splitlines()
    n = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    if 0 < n < len(lines) and _n_separators(lines[n - 1]) == _n_separators(lines[n]):
        n -= 1
    return lines[:n], "".join(lines[n : n + 1])


def _n_separators(line: str) -> int:
    return sum(map(line.count, _SEPARATORS))


def first_cells(path: str, n_columns: int, separator: str | None = None) -> list[str]:
    """Return the names in the first line of a CSV file; none if no separator gives so many."""
    line = first_line(path)
    for one in separator or _SEPARATORS:
        cells = next(csv.reader([line], delimiter=one, skipinitialspace=True), [])
        if len(cells) == n_columns:
            return [cell.strip() for cell in cells]
    return []


def check_header(name: str, cells: Sequence[str], found: Sequence[str]) -> None:
    """Refuse a name that the first line has twice, or that a reader without capitals takes for another.

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
        other = next(cell for cell in cells if cell != name and cell.lower() == name.lower())
        raise ValueError(f"the columns {other!r} and {name!r} differ in capitals only: rename one")


def check_rows(paths: Sequence[str], shown: str, n_rows: int, n_columns: int) -> None:
    """Refuse a number of rows that is not the number in the text: some were lost, or taken for parts of others."""
    counts = [_count_rows(path) for path in paths]
    expected, blank = sum(rows for rows, _, _ in counts), sum(empty for _, empty, _ in counts)
    if n_rows == expected or (n_columns == 1 and expected <= n_rows <= expected + blank):
        return
    if any(quoted for *_, quoted in counts) and n_rows == sum(map(_count_records, paths)):
        return  # there are quotes inside cells, which begin nothing
    raise ValueError(
        f"{shown} has {expected} rows below its first line, but {n_rows} were read: are there quotes that do not "
        "close, or lines that end in different ways?"
    )


def _count_rows(path: str) -> tuple[int, int, bool]:
    """Return the numbers of rows and of empty lines below the first line, and whether there are quotes."""
    n_rows, blank, inside, quoted = -1 - len(_beginning(path)[0]), 0, False, False
    for text in _whole_lines(path):
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
    ends, decoded = set(), codecs.getincrementaldecoder("utf-8")()
    for text in _whole_lines(path):
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


def _count_records(path: str) -> int:
    """Return the number of rows below the first line by Python's own reader, which is slower."""
    with _opened(path) as file:
        text = io.TextIOWrapper(io.BufferedReader(file), encoding="utf-8-sig", errors="replace", newline="")
        try:
            return sum(1 for record in csv.reader(text) if record) - 1 - len(_beginning(path)[0])
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
