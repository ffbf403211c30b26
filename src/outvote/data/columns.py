"""One column of numbers from files, in memory, with the keys that tell its rows apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.data.files import Files
from outvote.data.missing import NanPolicy

#: Unreadable cells of which the text is kept.
_KEPT = 1000
#: A number with a comma in it.
_COMMA = re.compile(r"\d,\d")

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

    def check(self, nan_policy: NanPolicy, *, infinite: bool = False) -> None:
        """Refuse cells that hold no number, unless the policy says what they are; infinite cells may be values."""
        if self.unreadable and nan_policy != "corrupt":
            refuse_text(self.name, *self.place(self.unreadable[0].row), self.unreadable[0].text, self.n_unreadable)
        endless = np.flatnonzero(np.isinf(self.values))
        if len(endless) and nan_policy != "corrupt" and not infinite:
            file, row = self.place(int(endless[0]))
            raise ValueError(
                f"{self.name!r} is infinite in {len(endless)} of {len(self.values)} rows (the first is row {row} of "
                f"{file}): nan_policy='corrupt' counts them as corrupt"
            )
        missing = np.flatnonzero(np.isnan(self.values))
        if len(missing) and nan_policy == "raise":
            file, row = self.place(int(missing[0]))
            raise ValueError(
                f"{self.name!r} has no value in {len(missing)} of {len(self.values)} rows (the first is row {row} of "
                f"{file}): nan_policy='omit' leaves them out, nan_policy='corrupt' counts them as corrupt"
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


def read_columns(files: Files, value: str, by: Sequence[str] = ()) -> Columns:
    """Read a column of numbers, and keys, into memory: 8 bytes a row, and the text of the keys."""
    table = files.table(files.select([value], by))
    if not table.num_rows:
        raise ValueError(f"{files} has no rows")
    place = np.lexsort((_array(table["n"]), _array(table["file"])))  # DuckDB promises no order
    if not np.array_equal(place, np.arange(len(place))):
        table = table.take(place)
    texts = table["r0"].combine_chunks()
    values = np.asarray(_array(table["v0"]), dtype=np.float64)
    if np.isnan(values).all():
        refuse_all_text(value, next((text.as_py() for text in texts if text.is_valid), None), str(files))
    rows = np.empty(0, dtype=np.intp)
    if texts.null_count < len(texts):
        rows = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
    labels, codes = _grouped([table[f"k{j}"].combine_chunks() for j in range(len(by))], table.num_rows)
    counts = np.bincount(_array(table["file"]), minlength=len(files.paths)).tolist()
    return Columns(
        name=value,
        values=values,
        unreadable=[Unreadable(int(row), texts[int(row)].as_py()) for row in rows[:_KEPT]],
        n_unreadable=len(rows),
        keys=tuple(by),
        labels=labels,
        codes=codes,
        files=[(files.shown(path), count) for path, count in zip(files.paths, counts, strict=True)],
    )


def _array(column: Any) -> NDArray[Any]:
    """Return an Arrow column of numbers, NaN for NULL; without NULL there is no need of Arrow's way, through pandas."""
    return column.to_numpy() if column.null_count else np.from_dlpack(column.combine_chunks())


def refuse_text(name: str, file: str, row: int, text: str, count: int) -> None:
    """Say which cell is not a number, and what to do about it."""
    others = f" (and {count - 1} more)" if count > 1 else ""
    raise ValueError(
        f"{name!r} is not a number in row {row} of {file}: {_short(text)!r}{others}. Correct it{_comma(text)}, or take "
        "nan_policy='corrupt', which counts such rows as corrupt"
    )


def refuse_all_text(name: str, text: str | None, source: str) -> None:
    """Say that a column holds no numbers at all."""
    there = "no value" if text is None else f"no number, {_short(text)!r} for instance,"
    raise ValueError(f"column={name!r} has {there} in {source}: name a column of numbers{_comma(text or '')}")


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _comma(text: str) -> str:
    return " (written with a point and without commas: 1250.75)" if _COMMA.search(text) else ""


def _grouped(keys: list[Any], n_rows: int) -> tuple[list[Label], NDArray[np.intp]]:
    """Number the groups of rows in the order of their labels."""
    if not keys:
        return [()], np.zeros(n_rows, dtype=np.intp)
    parts, codes = [], np.zeros(n_rows, dtype=np.int64)
    for key in keys:
        encoded = key.cast("string").dictionary_encode(null_encoding="encode")
        own = [text or None for text in encoded.dictionary.to_pylist()]
        order = sorted(range(len(own)), key=_sorting(own))
        rank = np.empty(len(own), dtype=np.int64)
        rank[order] = np.arange(len(own))
        parts.append([own[i] for i in order])
        codes = codes * len(own) + rank[np.from_dlpack(encoded.indices)]
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
