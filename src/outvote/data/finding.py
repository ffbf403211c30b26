"""Find the files that paths and globs stand for, and say what kind they are."""

from __future__ import annotations

import difflib
import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Endings of names, and the kind of file they stand for; `.gz` or `.zst` may follow those of text.
KINDS = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".xlsx": "excel",
    ".xlsm": "excel",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_PACKED = (".gz", ".zst")


def find_files(patterns: Sequence[Any], kind: str | None = None) -> tuple[list[str], str]:
    """Return the files that paths and globs stand for, each once, and what kind they are.

    Those of a glob are sorted by name, the others stay in the order they are given.
    """
    found: list[str] = []
    for one in patterns:
        if not isinstance(one, (str, os.PathLike)):
            raise TypeError(f"source has {one!r} in its list: give paths of files")
        name = os.fsdecode(one)
        if os.path.isdir(name):
            raise IsADirectoryError(f"{name!r} is a folder: name its files, such as {os.path.join(name, '*.csv')!r}")
        if os.path.exists(name) and not os.path.isfile(name):
            raise ValueError(f"{name!r} is a pipe or a device, which is read once: write its rows to a file, or use -")
        matches = [name] if os.path.isfile(name) else sorted(filter(os.path.isfile, glob.glob(name, recursive=True)))
        if not matches:
            raise FileNotFoundError(f"no file is called {name!r}{_nearest_file(name)}")
        found += matches
    for name in found:
        if not _is_unicode(name):
            raise ValueError(f"{name!r} is not a name in UTF-8, in which files are opened: rename the file")
    kinds = {kind} if kind else {_kind(name) for name in found}
    if len(kinds) > 1:
        raise ValueError(f"the files are {' and '.join(sorted(kinds))}: give one kind at a time")
    once: dict[tuple[int, int], str] = {}
    for name in found:  # a file may have several names
        known = os.stat(name)
        once.setdefault((known.st_dev, known.st_ino), name)
    return list(once.values()), kinds.pop()


def _is_unicode(name: str) -> bool:
    """Return whether all of a name could be decoded; what could not be stands in it as halves of characters."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _nearest_file(name: str) -> str:
    folder, last = os.path.split(name)
    try:
        there = os.listdir(folder or ".")
    except OSError:
        return f": there is no folder {folder!r}"
    if last in there:
        return ": it is a link that leads nowhere"
    near = difflib.get_close_matches(last, there, 1)
    return f": did you mean {os.path.join(folder, near[0])!r}?" if near else ""


def _kind(file: str) -> str:
    *others, last = ["", *(suffix.lower() for suffix in Path(file).suffixes)]
    kind = KINDS.get(others[-1] if last in _PACKED and others else last)
    if last == ".xls":
        raise ValueError(f"{file!r} is an old Excel file: save it as .xlsx or .csv")
    if kind is None:
        raise ValueError(
            f"{file!r} is not a kind of file that outvote reads: its name must end in {', '.join(KINDS)} "
            "(.csv.gz and the like too)"
        )
    return kind
