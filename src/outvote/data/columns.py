"""Columns of numbers from files, in memory, with the keys that tell their rows apart."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.data.cells import currency_of
from outvote.data.files import Files, is_number
from outvote.data.missing import NanPolicy

#: Unreadable cells of which the text is kept.
_KEPT = 1000
#: Columns that one statement reads, where there are many.
_AT_ONCE = 25
#: Beyond this share of the rows, cells with text are no accident: they are not offered as corrupt rows.
_ACCIDENTS = 0.05
#: What a cell that should be a number may hold instead, and what to do about it; the first that fits is told.
_HINTS = (
    (re.compile(r"\d\s*%$"), "a percentage: write 0.125 or 12.5 for 12.5 %"),
    (
        re.compile(r"\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{2,4}"),
        "a date: make it a number first, days since a start for instance",
    ),
    (re.compile("\x80"), "the euro sign of cp1252: give --encoding cp1252 on the command line"),
    (
        re.compile(r"\d,\d{3}(,\d{3})*\.\d|\d,\d{3},\d{3}"),
        "commas between thousands: remove them, or read the file by pandas.read_csv(…, thousands=',')",
    ),
    (
        re.compile(r"^[+-]?\d+,\d+$"),
        "a comma: give --decimal , on the command line if it is the decimal sign; remove it if it separates thousands",
    ),
    (re.compile(r"^[+-]?\d+\.\d+$"), "a decimal point, where commas are expected: leave --decimal , out"),
)
_AMOUNT = "an amount of money: all amounts must be in one currency, with the decimal sign that --decimal names"

#: What a group is called: one label for each key, None where the cell is empty.
Label = tuple[str | None, ...]


class Unreadable(NamedTuple):
    """A cell that should be a number and is not, and the name of its column if that is not the first."""

    row: int
    text: str
    column: str = ""


class Group(NamedTuple):
    """The rows that share their labels."""

    label: Label
    rows: NDArray[np.intp]
    values: NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """A column of numbers, perhaps others beside it, and the keys that tell its rows apart.

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
    more : dict of ndarray
        Other columns of numbers.
    owners : tuple of list and ndarray, or None
        All users, and the number of the one that each row belongs to.
    users : list of str or None
        The user of each row, if rows were added up.
    """

    name: str
    values: NDArray[np.float64]
    unreadable: list[Unreadable]
    n_unreadable: int
    keys: tuple[str, ...]
    labels: list[Label]
    codes: NDArray[np.intp]
    files: list[tuple[str, int]]
    more: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    owners: tuple[list[str], NDArray[np.intp]] | None = None
    users: list[str] | None = None

    def place(self, row: int) -> tuple[str, int | str]:
        """Return the file of a row, and its number there, 1 for the first row of data; or the user."""
        if self.users is not None:
            return "", self.users[row]
        for file, n_rows in self.files:
            if row < n_rows:
                return file, row + 1
            row -= n_rows
        raise IndexError(row)

    def check(
        self, nan_policy: NanPolicy, *, infinite: bool = False, allowed: Callable[[int], int] = lambda n_rows: n_rows
    ) -> None:
        """Refuse cells that hold no number, unless the policy says what they are; infinite cells may be values.

        Cells with text are also refused if they are more than an accident, and more than so many rows are allowed.
        """
        n_rows = len(self.values)
        many = self.n_unreadable > max(_ACCIDENTS * n_rows, allowed(n_rows))
        if self.unreadable and (nan_policy != "corrupt" or many):
            first = self.unreadable[0]
            refuse_text(first.column or self.name, *self.place(first.row), first.text, self.n_unreadable, n_rows)
        for name, values in {self.name: self.values, **self.more}.items():
            endless = np.flatnonzero(np.isinf(values))
            if len(endless) and nan_policy != "corrupt" and not infinite:
                file, row = self.place(int(endless[0]))
                raise ValueError(
                    f"{name!r} is infinite in {len(endless)} of {len(values)} rows (the first is "
                    f"{row_told(file, row)}): nan_policy='corrupt' counts them as corrupt"
                )
            missing = np.flatnonzero(np.isnan(values))
            if len(missing) and nan_policy == "raise":
                file, row = self.place(int(missing[0]))
                raise ValueError(
                    f"{name!r} has no value in {len(missing)} of {len(values)} rows (the first is "
                    f"{row_told(file, row)}): nan_policy='omit' leaves them out, "
                    "nan_policy='corrupt' counts them as corrupt"
                )

    def added_up(self, once: str | None = None, allowed: Callable[[int], int] = lambda n_users: 0) -> Columns:
        """Add up the rows of each user in each group; one with NaN in a row has NaN. Without users all stays as it is.

        The column `once` is taken once, as `taken_once` says; of so many users of a group so many may be corrupt.
        """
        if self.owners is None:
            return self
        users, numbers = self.owners
        pairs, which = np.unique(self.codes * len(users) + numbers, return_inverse=True)
        order = np.argsort(which, kind="stable")
        starts = np.flatnonzero(np.diff(which[order], prepend=-1))
        gaps = np.logical_or.reduce([np.isnan(rows) for rows in (self.values, *self.more.values())])
        bad = np.logical_or.reduceat(gaps[order], starts)

        def total(name: str, rows: NDArray[np.float64]) -> NDArray[np.float64]:
            mine = rows[order]
            found = np.add.reduceat(mine, starts)
            if name == once:
                least, most = np.minimum.reduceat(mine, starts), np.maximum.reduceat(mine, starts)
                sizes = np.bincount(pairs // len(users))
                found = taken_once(name, least, most, sum(map(allowed, sizes.tolist())))
            return np.where(bad, np.nan, found)

        return replace(
            self,
            values=total(self.name, self.values),
            unreadable=[cell._replace(row=int(which[cell.row])) for cell in self.unreadable],
            codes=pairs // len(users),
            more={name: total(name, rows) for name, rows in self.more.items()},
            owners=None,
            users=[users[pair % len(users)] for pair in pairs.tolist()],
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


def taken_once(name: str, least: NDArray[np.float64], most: NDArray[np.float64], n_allowed: int) -> NDArray[np.float64]:
    """Return the covariate of each user, given the least and the largest value in the rows of each.

    A covariate speaks of the user. Added up it would grow with the number of rows, which the variants may change. So a
    user whose rows differ is a corrupt one, NaN; more of them than may be corrupt are refused.

    Examples
    --------
    >>> taken_once("before", np.array([3.0, 4.0]), np.array([3.0, 5.0]), 1)
    array([ 3., nan])
    """
    differ = least != most  # NaN differs from itself, too
    n_differ = int(np.sum(differ & ~np.isnan(least)))
    if n_differ > n_allowed:
        raise ValueError(
            f"covariate {name!r} differs between the rows of the same user for {n_differ} of {len(least)} users, and "
            f"{n_allowed} may be corrupt: it needs one value for each user, the same in all rows of that user"
        )
    return np.where(differ, np.nan, least)


def read_columns(
    files: Files,
    value: str,
    by: Sequence[str] = (),
    *,
    more: Sequence[str] = (),
    unit: str | None = None,
) -> Columns:
    """Read columns of numbers, and keys, into memory: 8 bytes a row and column, and the text of the keys.

    `unit` is the column of the users, whose rows `Columns.added_up` adds up.
    """
    numbers = (value, *more)
    table = files.table(files.select(numbers, (*by, *([] if unit is None else [unit]))))
    if not table.num_rows:
        raise ValueError(f"{files} has no rows")
    counts = np.bincount(_array(table["file"]), minlength=len(files.paths)).tolist()
    files.check_rows(table.num_rows)
    place = np.lexsort((_array(table["n"]), _array(table["file"])))  # DuckDB promises no order
    if not np.array_equal(place, np.arange(len(place))):
        table = table.take(place)
    values, cells = {}, list[Unreadable]()
    for j, name in enumerate(numbers):
        texts = table[f"r{j}"].combine_chunks()
        values[name] = np.asarray(_array(table[f"v{j}"]), dtype=np.float64)
        if np.isnan(values[name]).all():
            refuse_all_text(name, next((text.as_py() for text in texts if text.is_valid), None), str(files))
        if texts.null_count < len(texts):
            rows = np.flatnonzero(texts.is_valid().to_numpy(zero_copy_only=False))
            cells += [Unreadable(int(row), texts[int(row)].as_py(), name if j else "") for row in rows]
    labels, codes = _grouped([table[f"k{j}"].combine_chunks() for j in range(len(by))], table.num_rows)
    for j, key in enumerate(by):
        _warn_of_alike(key, {label[j] for label in labels})
    found = Columns(
        name=value,
        values=values.pop(value),
        unreadable=cells[:_KEPT],
        n_unreadable=len(cells),
        keys=tuple(by),
        labels=labels,
        codes=codes,
        files=[(files.shown(path), count) for path, count in zip(files.paths, counts, strict=True)],
        more=values,
    )
    if unit is None:
        return found
    users, numbered = _grouped([table[f"k{len(by)}"].combine_chunks()], table.num_rows)
    if (None,) in users:
        raise ValueError(f"unit={unit!r} is empty in some rows: every row needs a user")
    return replace(found, owners=([str(label[0]) for label in users], numbered))


def columns_of_numbers(files: Files) -> list[str]:
    """Return the columns of which most cells that are not empty are numbers."""
    text = ("VARCHAR", "ENUM(", "JSON")
    names = [name for name, kind in files.columns.items() if is_number(kind) or kind.startswith(text)]
    there = []
    for some in _some_at_a_time(names):
        counts = ", ".join(f"count(v{j}), count(r{j})" for j in range(len(some)))
        found = [one[0].as_py() for one in files.table(f"SELECT {counts} FROM ({files.select(some)})").columns]
        there += [name for name, n, n_texts in zip(some, found[::2], found[1::2], strict=True) if n > n_texts]
    return there


def read_numbers(files: Files, names: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Read the numbers of many columns into memory, NaN where there is none."""
    values = dict[str, NDArray[np.float64]]()
    for first, *others in _some_at_a_time(names):
        found = read_columns(files, first, more=others)
        values |= {first: found.values, **found.more}
    return values


def _some_at_a_time(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield a few names at a time: a statement of ten times the columns takes much more than ten times as long."""
    for start in range(0, len(names), _AT_ONCE):
        yield names[start : start + _AT_ONCE]


def _warn_of_alike(key: str, labels: set[str | None]) -> None:
    """Warn of labels that differ by small and capital letters only: they are probably one group."""
    seen: dict[str, str] = {}
    for label in sorted(filter(None, labels)):
        other = seen.setdefault(label.casefold(), label)
        if other != label:
            warnings.warn(
                f"{key!r} has the labels {other!r} and {label!r}, which differ by capitals only: they are two groups",
                UserWarning,
                stacklevel=3,
            )


def _array(column: Any) -> NDArray[Any]:
    """Return an Arrow column of numbers, NaN for NULL; without NULL there is no need of Arrow's way, through pandas."""
    return column.to_numpy() if column.null_count else np.from_dlpack(column.combine_chunks())


def row_told(file: str, row: int | str) -> str:
    """Say where a row is.

    Examples
    --------
    >>> row_told("a.xlsx", 6), row_told("a.parquet", 6)
    ('row 6 of a.xlsx, not counting the header', 'row 6 of a.parquet')
    """
    headed = not file.lower().endswith((".parquet", ".pq", ".arrow", ".feather", ".ipc", "json", "jsonl"))
    return f"row {row} of {file}" + ", not counting the header" * headed


def refuse_text(name: str, file: str, row: int | str, text: str, count: int, n_rows: int) -> None:
    """Say which cell is not a number, and what to do about it; many such cells are no corrupt rows."""
    told = f"{name!r} is not a number in {row_told(file, row)}: {_short(text)!r}"
    if count > max(1, _ACCIDENTS * n_rows):
        raise ValueError(f"{told}, nor in {count - 1} more of the {n_rows} rows. Correct them first{_hint(text)}")
    others = f" (and {count - 1} more)" if count > 1 else ""
    raise ValueError(
        f"{told}{others}. Correct it{_hint(text)}, or take nan_policy='corrupt', which counts such rows as corrupt"
    )


def refuse_all_text(name: str, text: str | None, source: str) -> None:
    """Say that a column holds no numbers at all."""
    there = "no value" if text is None else f"no number, {_short(text)!r} for instance,"
    hint = _hint(text or "") or (" (1 and 0, or yes and no, are numbers too)" if text else "")
    raise ValueError(f"column={name!r} has {there} in {source}: name a column of numbers{hint}")


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _hint(text: str) -> str:
    """Say what a cell may be, and what to do about it."""
    known = next((hint for pattern, hint in _HINTS if pattern.search(text)), "")
    known = _AMOUNT if currency_of(text) else known
    return f" ({known})" if known else ""


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
