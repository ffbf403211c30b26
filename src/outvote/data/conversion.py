"""Copies of files that DuckDB does not read as they are: Excel sheets, and text that is not in UTF-8."""

from __future__ import annotations

import codecs
import csv
import gzip
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

#: Kinds of files that are text.
_TEXT = ("csv", "tsv", "jsonl")


def check_reading(kind: str, encoding: str | None, decimal: str, sheet: str | None) -> None:
    """Refuse options that do not fit the kind of the files."""
    if decimal not in (".", ","):
        raise ValueError(f"decimal={decimal!r} must be '.' or ','")
    if decimal == "," and kind not in ("csv", "tsv"):
        raise ValueError(
            f"decimal=',' is for CSV and TSV files: numbers in {kind} files have no decimal sign to choose"
        )
    if sheet is not None and kind != "excel":
        raise ValueError(f"sheet={sheet!r} is for Excel files, but these are {kind}")
    if encoding is None:
        return
    if kind not in _TEXT:
        raise ValueError(f"encoding={encoding!r} is for text files, but these are {kind}")
    try:
        known = codecs.lookup(encoding)._is_text_encoding  # rot13, hex and zip turn bytes into bytes
    except (LookupError, ValueError):  # a name may hold what none can
        known = False
    if not known:
        raise ValueError(f"encoding={encoding!r} is unknown: try cp1252, latin1 or utf-16")


def copied(
    paths: Sequence[str], kind: str, folder: str, *, encoding: str | None, sheet: str | None
) -> tuple[list[str], str]:
    """Return files that DuckDB reads, and their kind: the same ones, or copies of them in a folder."""
    if kind != "excel" and encoding is None:
        return list(paths), kind
    copies = []
    for number, path in enumerate(paths):
        name = os.path.basename(path).removesuffix(".gz")
        copy = os.path.join(folder, f"{number}-{name}" + ".csv" * (kind == "excel"))
        if encoding is not None:
            _encode(path, copy, encoding)
        else:
            with open(copy, "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(_sheet_rows(path, sheet))
        copies.append(copy)
    return copies, "csv" if kind == "excel" else kind


def _encode(path: str, copy: str, encoding: str) -> None:
    """Write a text file in UTF-8."""
    if path.endswith(".zst"):
        raise ValueError(f"{path!r} is packed: unpack it before you name its encoding={encoding!r}")
    opened: Any = gzip.open if path.endswith(".gz") else open
    try:
        with (
            opened(path, "rt", newline="", encoding=encoding) as old,
            open(copy, "w", newline="", encoding="utf-8") as new,
        ):
            shutil.copyfileobj(old, new)
    except UnicodeError as error:
        raise ValueError(f"{path!r} is not text with encoding={encoding!r}: {error}") from None


def _sheet_rows(path: str, sheet: str | None) -> Iterator[list[str]]:
    """Yield the rows of an Excel sheet as text, from the first row that is not empty to the last."""
    try:
        import openpyxl
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"{path!r}: Excel files are read by openpyxl: pip install openpyxl, or save the sheet as CSV"
        ) from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # openpyxl lets errors of zip files and XML through
        raise ValueError(f"{path!r} cannot be read as an Excel file (.xlsx): {error}") from None
    try:
        rows: list[list[str]] = []
        for row in book[_sheet_name(path, sheet, book.sheetnames)].iter_rows(values_only=True):
            cells = [_cell(cell) for cell in row]
            if not any(cells):
                rows += [cells] if rows else []  # an empty row counts if another follows it
                continue
            yield from rows[1:] if rows else ()
            rows = [cells]
            yield cells
    finally:
        book.close()


def _sheet_name(path: str, sheet: str | None, names: Sequence[str]) -> str:
    """Return the name of the sheet that is asked for, by its name or number; the first by default."""
    if sheet is None or sheet in names:
        return names[0] if sheet is None else sheet
    if sheet.isdecimal() and 1 <= int(sheet) <= len(names):
        return names[int(sheet) - 1]
    raise ValueError(f"{path!r} has no sheet={sheet!r}: it has {', '.join(map(repr, names))}")


def sheets_told(path: str, sheet: str | None) -> str:
    """Say which sheet was read, and which others there are."""
    import openpyxl

    book = openpyxl.load_workbook(path, read_only=True)
    try:
        names = book.sheetnames
    finally:
        book.close()
    read = _sheet_name(path, sheet, names)
    others = [f"sheet={name!r}" for name in names if name != read]
    return f" in sheet {read!r}" + (f"; there are also {', '.join(others)}" if others else "")


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
