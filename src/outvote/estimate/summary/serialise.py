"""Serialise summaries to JSON, bytes or an Arrow table, and read them again."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from outvote.data.arguments import MOST
from outvote.estimate.summary.moments import Moments, check_room

#: Version of the serialised form.
VERSION = 1
_MAGIC = b"outvote-blocks"


class Serialised:
    """Serialise a summary: its header, and the moments of its cells."""

    n_blocks: Any
    seed: int
    names: tuple[str, ...] | None
    shape: tuple[int, ...] | None
    _seen: int
    moments: Moments

    def _n_cells(self) -> int:
        raise NotImplementedError

    def _header(self) -> dict[str, Any]:
        return {
            "format": f"outvote.{type(self).__name__}",
            "version": VERSION,
            "n_blocks": self.n_blocks,
            "seed": self.seed,
            "names": list(self.names) if self.names else None,
            "shape": None if self.shape is None else list(self.shape),
            "n_seen": self._seen,
        }

    def _n_bad(self) -> int:
        """Return how many rows were found corrupt or left out."""
        raise NotImplementedError

    @classmethod
    def _of_header(cls, header: Mapping[str, Any]) -> Self:
        raise NotImplementedError

    @classmethod
    def _begun(cls, header: Any) -> Self:
        """Return a summary with this header, without moments."""
        name = cls.__name__
        found = header.get("format") if isinstance(header, dict) else None
        if found != f"outvote.{name}":
            other = str(found).removeprefix("outvote.")
            raise Refused(f"this is not a {name}" + (f", but a {other}" if other.endswith("Summary") else ""))
        check_version(name, header)
        summary = cls._of_header(header)
        shape, names = header["shape"], header["names"]
        summary._seen = whole(header["n_seen"], most=MOST)
        if shape is None:
            if names is not None:
                raise ValueError("there are names without columns")
            return summary
        if not isinstance(shape, list):
            raise ValueError(f"shape is {shape!r}")
        summary.shape = tuple(whole(size, 1) for size in shape)
        check_room(summary.n_blocks, *summary._size())
        np.empty((0, *summary.shape))  # raises an error if there are too many axes
        if names is not None:
            if not isinstance(names, list) or len(names) != math.prod(shape) or set(map(type, names)) != {str}:
                raise ValueError(f"names are {names!r}")
            summary.names = tuple(names)
        return summary

    def _size(self) -> tuple[int, int]:
        """Return the numbers of cells and columns."""
        return (0, 0) if self.shape is None else (self._n_cells(), math.prod(self.shape))

    def _completed(self, counts: Any, means: Any, m2: Any) -> Self:
        """Set the moments of a summary, and return it; raise an error if the numbers are impossible."""
        n_cells, n_columns = self._size()
        moments = self.moments = Moments(0, n_columns)
        if {len(one) for one in (counts, means, m2)} != {n_cells}:
            raise Refused(f"this {type(self).__name__} is cut short: {len(counts)} blocks instead of {n_cells}")
        if isinstance(counts, list):
            counts = [whole(one, most=MOST) for one in counts]
        elif counts.dtype.kind not in "iu":
            raise ValueError("counts are of another kind")
        moments.counts = np.array(counts, dtype=np.int64)
        moments.means, moments.m2 = (_table(a, n_cells, n_columns) for a in (means, m2))
        if (moments.counts < 0).any() or not np.isfinite(moments.means).all() or not (moments.m2 >= 0).all():
            raise ValueError("counts, means or squares are impossible")
        if moments.counts.sum(dtype=np.float64) > MOST:
            raise ValueError("there are more rows than can be counted")
        if (n_rows := int(moments.counts.sum()) + self._n_bad()) != self._seen:
            raise ValueError(f"n_seen is {self._seen}, but there are {n_rows} rows")
        none, few = moments.counts == 0, moments.counts <= 1
        with np.errstate(over="ignore"):
            rounding = np.square(1e-9 * moments.means[few])
        if moments.means[none].any() or (moments.m2[few] > rounding).any():
            raise ValueError("blocks without rows have means, or blocks of one row squares")
        return self

    def to_json(self) -> str:
        """Return the summary as JSON, without loss (infinite sums of squares become null)."""
        counts, means, m2 = (array.tolist() for array in self.moments.arrays)
        m2 = [[None if square == math.inf else square for square in squares] for squares in m2]
        return json.dumps({**self._header(), "counts": counts, "means": means, "m2": m2}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the summary that `to_json` wrote."""
        with refusing(cls.__name__):
            document = document_in(text)
            summary = cls._begun(document)
            m2 = [[math.inf if square is None else square for square in squares] for squares in document["m2"]]
            return summary._completed(document["counts"], document["means"], m2)

    def to_bytes(self) -> bytes:
        """Return the summary as bytes: a header in JSON, then the numbers, little-endian."""
        header = json.dumps(self._header()).encode()
        counts, means, m2 = self.moments.arrays
        body = counts.astype("<i8").tobytes() + means.astype("<f8").tobytes() + m2.astype("<f8").tobytes()
        return _MAGIC + struct.pack("<I", len(header)) + header + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the summary that `to_bytes` wrote."""
        name, start = cls.__name__, len(_MAGIC) + 4
        with refusing(name):
            if bytes(data[: len(_MAGIC)]) != _MAGIC:
                raise Refused(f"this is not a {name}")
            end = start + struct.unpack_from("<I", data, len(_MAGIC))[0] if len(data) >= start else start
            if len(data) < end or end == start:
                raise Refused(f"this {name} is cut short: {len(data)} bytes, not even its header")
            summary, body = cls._begun(document_in(bytes(data[start:end]))), data[end:]
            n_cells, n_columns = summary._size()
            expected = 8 * n_cells * (1 + 2 * n_columns)
            if len(body) != expected:
                what = "cut short" if len(body) < expected else "too long"
                raise Refused(f"this {name} is {what}: {len(body)} bytes of numbers instead of {expected}")
            counts = np.frombuffer(body, "<i8", n_cells)
            numbers = np.frombuffer(body, "<f8", 2 * n_cells * n_columns, 8 * n_cells)
            return summary._completed(counts, *numbers.reshape(2, n_cells, n_columns))

    def _places(self) -> dict[str, NDArray[Any]]:
        """Return the columns of a table that identify the cells."""
        return {"block": np.arange(self._size()[0])}

    def to_arrow(self) -> Any:
        """Return the summary as an Arrow table: one row for each block, the header in the metadata of the schema."""
        import pyarrow as pa

        counts, means, m2 = self.moments.arrays
        columns: dict[str, Any] = {**self._places(), "count": counts}
        for j in range(means.shape[1]):
            columns |= {f"mean_{j}": means[:, j], f"m2_{j}": m2[:, j]}
        return pa.table(columns).replace_schema_metadata({"outvote": json.dumps(self._header())})

    @classmethod
    def from_arrow(cls, table: Any) -> Self:
        """Return the summary that `to_arrow` wrote; the order of the rows does not matter."""
        name = cls.__name__
        with refusing(name):
            summary = cls._begun(document_in((table.schema.metadata or {}).get(b"outvote", b"null")))
            n_cells, n_columns = summary._size()
            if table.num_rows != n_cells:
                raise Refused(f"this {name} is cut short: {table.num_rows} blocks instead of {n_cells}")
            if table.num_columns <= 2 * n_columns:
                raise Refused(f"this {name} is cut short: {table.num_columns} columns for {n_columns} means")
            places = summary._places()
            found = np.lexsort([table[key].to_numpy() for key in reversed(places)])
            for key, expected in places.items():
                if not np.array_equal(table[key].to_numpy()[found], expected):
                    raise ValueError(f"the column {key!r} is wrong")
            counts, *numbers = (
                table[key].to_numpy()[found]
                for key in ["count", *(f"{kind}_{j}" for kind in ("mean", "m2") for j in range(n_columns))]
            )
            if any(one.dtype.kind not in "iuf" for one in numbers):
                raise ValueError("means or squares are of another kind")
            means, m2 = np.array(numbers, dtype=np.float64).reshape(2, n_columns, n_cells).transpose(0, 2, 1)
            return summary._completed(counts, means, m2)


class Refused(ValueError):
    """An error of our own about a document that cannot be read."""


@contextlib.contextmanager
def refusing(name: str) -> Iterator[None]:
    """Turn every error of reading a document into a ValueError that names the class."""
    try:
        yield
    except Refused as error:
        raise ValueError(str(error)) from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error) as error:
        if isinstance(error, ValueError) and "to unpack" not in str(error):
            raise ValueError(f"this is not a {name}: {error}") from None
        raise ValueError(
            f"this is not a {name}: a field is missing or of another kind ({type(error).__name__})"
        ) from None


def _table(numbers: Any, n_cells: int, n_columns: int) -> NDArray[np.float64]:
    """Return numbers of a document as a table of this size."""
    if isinstance(numbers, list):
        for line in numbers:
            if not isinstance(line, list) or len(line) != n_columns or not set(map(type, line)) <= {int, float}:
                raise ValueError(f"means or squares are not {n_columns} numbers for each of {n_cells} blocks")
    return np.array(numbers, dtype=np.float64).reshape(n_cells, n_columns)


def document_in(text: Any) -> Any:
    """Return what a text in JSON says; NaN and infinities are no JSON."""
    return json.loads(text, parse_constant=number_in)


def check_version(name: str, document: Mapping[str, Any]) -> None:
    """Refuse a document of another version."""
    found = document.get("version")
    if type(found) is not int or found != VERSION:
        raise Refused(f"this {name} has version {found!r}, outvote reads version {VERSION}")


def number_in(value: Any) -> float:
    """Return a number of a document as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a number")
    return float(value)


def whole(value: Any, least: int = 0, most: float = math.inf) -> int:
    """Return a whole number of a document, if it lies between two."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        upto = "" if most == math.inf else f" and at most {most}"
        raise ValueError(f"{value!r} is not a whole number of at least {least}{upto}")
    return value
