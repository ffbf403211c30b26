"""Scan eager and lazy dataframes through narwhals."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.hashing import fold, hash_coefficients, hash_rows, polynomial
from outvote.data.groups import group_codes
from outvote.estimate.summary import BlockSummary, GroupedBlockSummary
from outvote.tables.engine import (
    ANSWER,
    Engine,
    Key,
    Lines,
    NumberedRows,
    Query,
    Tally,
    add_tallies,
    check_row_id,
    labelled,
    refuse_column,
    refuse_key,
    refuse_large_id,
    refuse_null_id,
    refuse_null_key,
    summaries_from_lines,
)

#: Rows read at once.
_CHUNK = 2**20
#: Names of our own columns, which must differ from the user's.
_OURS = "__outvote_{}__"


def frame_engine(source: Any, row_id: str | None) -> Engine:
    """Return the engine for a frame; raise an error if it cannot be scanned."""
    import narwhals as nw

    try:
        frame: Any = nw.from_native(source)
    except TypeError:
        raise TypeError(
            f"source is a {type(source).__name__}: give a dataframe (pandas, polars, pyarrow, dask), a DuckDB relation "
            "or connection, or the path of Parquet or CSV files"
        ) from None
    except nw.exceptions.DuplicateError as error:
        raise ValueError(f"source has two columns with the same name: {' '.join(str(error).split())}") from None
    return (LazyEngine if isinstance(frame, nw.LazyFrame) else EagerEngine)(frame, row_id)


def check_kinds(schema: Mapping[str, Any], query: Query) -> None:
    """Raise an error for columns that are not numbers, and keys that are not labels, by their narwhals types."""
    import narwhals as nw

    for name in query.columns:
        if not (schema[name].is_numeric() or schema[name] == nw.Boolean):
            refuse_column(name, f"{schema[name]} values")
    for name in query.by:
        if schema[name].is_nested() or schema[name] == nw.Unknown:
            refuse_key(name, f"{schema[name]} values")


class EagerEngine(Engine):
    """A frame in memory; numpy sums up its columns, a million rows at a time."""

    def __init__(self, frame: Any, row_id: str | None):
        self._frame, self._row_id = frame, row_id
        self._schema = dict(frame.schema)
        check_row_id(row_id, self.names(), row_id in self._schema and self._schema[row_id].is_integer())

    def __str__(self) -> str:
        return f"{self._frame.implementation} frame of {len(self._frame)} rows"

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._schema)

    def _chunks(self, query: Query) -> Iterator[tuple[int, NDArray[np.float64], list[NDArray[Any]]]]:
        check_kinds(self._schema, query)
        for low in range(0, len(self._frame), _CHUNK):
            part = slice(low, low + _CHUNK)
            values = np.column_stack([numbers_of(self._frame[name][part]) for name in query.columns])
            yield low, values, [labels_of(self._frame[name][part], name) for name in query.by]

    def columns(self, query: Query) -> tuple[list[NDArray[np.float64]], list[NDArray[Any]]]:
        """Return the columns as floats, NULL as NaN, and the keys."""
        check_kinds(self._schema, query)
        values = [numbers_of(self._frame[name]) for name in query.columns]
        return values, [labels_of(self._frame[name], name) for name in query.by]

    def tally(self, query: Query) -> dict[Key, Tally]:
        """Count the rows of each group."""
        return add_tallies(tallied(values, keys) for _, values, keys in self._chunks(query))

    def _ids(self, low: int, n_rows: int) -> NDArray[np.int64]:
        if self._row_id is None:
            return np.arange(low, low + n_rows)
        column = self._frame[self._row_id][low : low + n_rows]
        if column.is_null().any():
            refuse_null_id(self._row_id)
        ids: NDArray[Any] = column.to_numpy()
        if len(ids) and int(ids.max()) >= 2**63:
            refuse_large_id(self._row_id, int(ids.max()))
        return ids.astype(np.int64, copy=False)

    def summaries(self, query: Query, n_blocks: Mapping[Key, int], seed: int) -> dict[Key, BlockSummary]:
        """Sum up the blocks of each group."""
        return summed_up(self.rows(query), n_blocks, seed)

    def rows(self, query: Query) -> Iterator[NumberedRows]:
        """Yield all rows with their keys and ids."""
        for low, values, keys in self._chunks(query):
            yield values, keys, self._ids(low, len(values))

    def blocks(
        self, query: Query, n_blocks: Mapping[Key, int], seed: int
    ) -> Iterator[tuple[Key, int, NDArray[np.float64]]]:
        """Yield the rows of each block."""
        parts = [(values, ids) for values, _, ids in self.rows(query)]
        values, ids = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        keep = np.isfinite(values).all(axis=1)
        yield from by_block(values[keep], ids[keep], n_blocks[()], seed)

    def frame(self, columns: dict[str, list[Any]], answer: Mapping[str, type] = ANSWER) -> Any:
        """Return an answer as a frame of the same kind; keys keep their types."""
        return narwhals_frame(columns, self._schema, self._frame.implementation, answer).to_native()


def narwhals_frame(
    columns: dict[str, list[Any]], schema: Mapping[str, Any], backend: Any, answer: Mapping[str, type] = ANSWER
) -> Any:
    """Return an answer as a frame of a given kind; `schema` has the types of the keys."""
    import narwhals as nw

    kinds = {str: nw.String(), float: nw.Float64(), int: nw.Int64()}
    types = {name: kinds[answer[name]] if name in answer else schema[name] for name in columns}
    return nw.from_dict(columns, schema=types, backend=backend)


def summed_up(
    parts: Iterable[NumberedRows],
    n_blocks: Mapping[Key, int],
    seed: int,
) -> dict[Key, BlockSummary]:
    """Return a summary for each requested group, from chunks of (values, keys, ids); only finite rows count."""
    found = summary_of(parts, n_blocks, seed)
    return {(): found} if isinstance(found, BlockSummary) else {key: found.group(key) for key in n_blocks}


def summary_of(
    parts: Iterable[NumberedRows],
    n_blocks: Mapping[Key, int],
    seed: int,
) -> BlockSummary | GroupedBlockSummary:
    """Return one summary of chunks of (values, keys, ids), by group if there are groups."""
    if set(n_blocks) == {()}:
        summary = BlockSummary(n_blocks[()], seed)
        for values, _, ids in parts:
            keep = np.isfinite(values).all(axis=1)
            summary.update(values[keep], ids[keep])
        return summary
    grouped = GroupedBlockSummary(n_blocks, seed)
    for values, keys, ids in parts:
        labels, which = group_codes(tuple(keys))
        keep = np.isfinite(values).all(axis=1) & np.array([key in n_blocks for key in labels], dtype=bool)[which]
        grouped.update(values[keep], tuple(one[keep] for one in keys), ids[keep])
    return grouped


def by_block(
    values: NDArray[np.float64], ids: NDArray[np.int64], n_blocks: int, seed: int
) -> Iterator[tuple[Key, int, NDArray[np.float64]]]:
    """Yield rows in memory block by block, sorted by their ids."""
    labels = hash_rows(ids, seed) % n_blocks
    order = np.lexsort((ids, labels))
    labels = labels[order]
    edges = np.flatnonzero(np.r_[True, labels[1:] != labels[:-1], True]) if len(labels) else np.empty(0, dtype=np.intp)
    for low, high in itertools.pairwise(edges.tolist()):
        yield (), int(labels[low]), values[order[low:high]]


def tallied(values: NDArray[np.float64], keys: Sequence[NDArray[Any]]) -> dict[Key, Tally]:
    """Count the rows of each group in a chunk."""
    missing = np.isnan(values).any(axis=1)
    infinite = ~np.isfinite(values).all(axis=1) & ~missing
    labels, which = group_codes(tuple(keys)) if keys else ([()], np.zeros(len(values), dtype=np.intp))
    marks = (np.ones_like(missing), missing, infinite)
    counts = np.array([np.bincount(which[mark], minlength=len(labels)) for mark in marks])
    return {key: Tally(*count) for key, count in zip(labels, counts.T.tolist(), strict=True)}


def numbers_of(column: Any) -> NDArray[np.float64]:
    """Return a narwhals series as floats, NULL as NaN."""
    import narwhals as nw

    values = None if column.is_null().any() else column.to_numpy()
    if values is None or values.dtype.kind not in "fiub":
        values = column.cast(nw.Float64).fill_null(float("nan")).to_numpy()
    return values.astype(np.float64, copy=False)


def labels_of(column: Any, name: str) -> NDArray[Any]:
    """Return a narwhals series of labels as an array; text, dates and the like become Python objects."""
    import narwhals as nw

    if column.is_null().any():
        refuse_null_key(name)
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        labels: NDArray[Any] = column.to_numpy()
        if labels.dtype.kind == "f" and np.isnan(labels).any():
            refuse_null_key(name)
        return labels
    labels = np.empty(len(column), dtype=object)
    labels[:] = column.to_list()
    return labels


class LazyEngine(Engine):
    """A lazy frame, of which only counts and block sums are collected; rows are collected for U-statistics only."""

    def __init__(self, frame: Any, row_id: str | None):
        self._frame, self._row_id = frame, row_id
        self._schema = dict(frame.collect_schema())
        check_row_id(row_id, list(self._schema), row_id in self._schema and self._schema[row_id].is_integer())

    def __str__(self) -> str:
        return f"lazy {self._frame.implementation} frame"

    def names(self) -> list[str]:
        """Return the names of the columns."""
        return list(self._schema)

    def _collected(self, frame: Any) -> Any:
        try:
            return frame.collect()
        except (OSError, MemoryError):
            raise
        except Exception as error:  # every library has its own exceptions
            raise ValueError(f"the {self} cannot be read: {str(error).strip().splitlines()[0]}") from error

    def _checked(self, query: Query) -> None:
        import narwhals as nw

        check_kinds(self._schema, query)
        backend = self._frame.implementation
        if query.by and not backend.is_polars():
            raise ValueError(
                f"by={list(query.by)!r}: a {self} has one answer, but not one for each group: collect it first"
            )
        if self._row_id is not None and self._schema[self._row_id] in (nw.UInt64, nw.Int128, nw.UInt128):
            largest = self._collected(self._frame.select(self._column(self._row_id).max())).item()
            if largest is not None and largest >= 2**63:
                refuse_large_id(self._row_id, largest)

    def _prepared(self, query: Query) -> Any:
        """Return the columns under our names: values as floats, keys, ids, and marks of missing and infinite rows."""
        import narwhals as nw

        values = [
            self._column(name).cast(nw.Float64).alias(_OURS.format(f"v{j}")) for j, name in enumerate(query.columns)
        ]
        keys = [self._key(name).alias(_OURS.format(f"k{j}")) for j, name in enumerate(query.by)]
        number = _OURS.format("id")
        if self._row_id is not None:
            frame = self._frame.select(*values, *keys, self._column(self._row_id).cast(nw.Int64).alias(number))
        elif self._frame.implementation.is_polars():
            native = self._frame.select(*values, *keys).to_native().with_row_index(number)
            frame = nw.from_native(native).with_columns(nw.col(number).cast(nw.Int64))
        else:
            raise ValueError(f"a {self} does not number its rows: give the name of a column of integers as row_id=")
        each = [nw.col(_OURS.format(f"v{j}")) for j in range(len(values))]
        missing = reduce(operator.or_, (v.is_null() | v.is_nan().fill_null(True) for v in each))
        infinite = reduce(operator.or_, ((v.abs() == float("inf")).fill_null(False) for v in each))
        return frame.with_columns(
            missing.alias(_OURS.format("missing")), (infinite & ~missing).alias(_OURS.format("infinite"))
        )

    def _key(self, name: str) -> Any:
        """Return the expression for the labels of a key; categories become text."""
        import narwhals as nw

        column = self._column(name)
        return column.cast(nw.String) if self._schema[name] in (nw.Categorical, nw.Enum) else column

    def _column(self, name: str) -> Any:
        """Return the expression for a column by its position, because its name might be read as a pattern."""
        import narwhals as nw

        return nw.nth(self.names().index(name))

    def tally(self, query: Query) -> dict[Key, Tally]:
        """Count the rows of each group."""
        import narwhals as nw

        self._checked(query)
        marks = [
            nw.col(_OURS.format(name)).cast(nw.Int64).alias(_OURS.format(name)) for name in ("missing", "infinite")
        ]
        unnumbered = nw.col(_OURS.format("id")).is_null().cast(nw.Int64).alias(_OURS.format("unnumbered"))
        frame = self._prepared(query).with_columns(*marks, unnumbered)
        heads = [_OURS.format(f"k{j}") for j in range(len(query.by))]
        counts = [
            nw.len().alias(_OURS.format("n")),
            *(nw.col(_OURS.format(name)).sum() for name in ("missing", "infinite", "unnumbered")),
        ]
        found = self._collected(frame.group_by(*heads).agg(*counts) if heads else frame.select(*counts))
        tallies = []
        for *labels, n_rows, n_missing, n_infinite, n_unnumbered in found.iter_rows():
            key = labelled(query, labels) if query.by else ()
            if n_unnumbered:
                refuse_null_id(self._row_id)
            tallies.append({key: Tally(int(n_rows), int(n_missing or 0), int(n_infinite or 0))})
        return add_tallies(tallies)

    def _finite(self, query: Query) -> Any:
        import narwhals as nw

        return self._prepared(query).filter(~nw.col(_OURS.format("missing")), ~nw.col(_OURS.format("infinite")))

    def summaries(self, query: Query, n_blocks: Mapping[Key, int], seed: int) -> dict[Key, BlockSummary]:
        """Sum up the blocks of each group inside the lazy frame's library."""
        import narwhals as nw

        frame, group = self._finite(query), _OURS.format("group")
        k: Any = n_blocks.get(())
        if query.by:
            heads = [_OURS.format(f"k{j}") for j in range(len(query.by))]
            labels = [key if isinstance(key, tuple) and len(heads) > 1 else (key,) for key in n_blocks]
            columns: dict[str, Any] = {head: [one[j] for one in labels] for j, head in enumerate(heads)}
            columns |= {group: list(range(len(labels))), _OURS.format("blocks"): list(n_blocks.values())}
            types = dict(frame.select(*heads).collect_schema()) | dict.fromkeys(
                (group, _OURS.format("blocks")), nw.Int64()
            )
            sizes = nw.from_dict(columns, schema=types, backend=self._frame.implementation).lazy()
            frame, k = frame.join(sizes, on=heads, how="inner"), nw.col(_OURS.format("blocks"))
        else:
            frame = frame.with_columns(nw.lit(0, nw.Int64).alias(group))
        block = _hash_expression(nw.col(_OURS.format("id")), seed) % k
        frame = frame.with_columns(block.alias(_OURS.format("block")))
        values = [_OURS.format(f"v{j}") for j in range(len(query.columns))]

        def lines(unit: float) -> Lines:
            scaled = frame if unit == 1 else frame.with_columns(*(nw.col(v) * unit for v in values))
            found = self._collected(
                scaled.group_by(group, _OURS.format("block")).agg(
                    nw.len().alias(_OURS.format("n")),
                    *(nw.col(v).mean().alias(f"{v}m") for v in values),
                    *(nw.col(v).var(ddof=0).alias(f"{v}s") for v in values),
                )
            )
            groups, blocks, counts = (found[_OURS.format(name)].to_numpy() for name in ("group", "block", "n"))
            means, variances = (np.column_stack([found[f"{v}{what}"].to_numpy() for v in values]) for what in "ms")
            return Lines(groups, blocks, counts, means, variances)

        return summaries_from_lines(lines, n_blocks, seed, str(self))

    def blocks(
        self, query: Query, n_blocks: Mapping[Key, int], seed: int
    ) -> Iterator[tuple[Key, int, NDArray[np.float64]]]:
        """Yield the rows of each block; only the requested columns are read into memory."""
        found = self._collected(self._finite(query))
        values = np.column_stack([found[_OURS.format(f"v{j}")].to_numpy() for j in range(len(query.columns))])
        yield from by_block(values, found[_OURS.format("id")].to_numpy().astype(np.int64), n_blocks[()], seed)

    def rows(self, query: Query) -> Iterator[NumberedRows]:
        """Yield all rows with their keys and ids; only the requested columns are read into memory."""
        found = self._collected(self._prepared(query))
        values = np.column_stack([numbers_of(found[_OURS.format(f"v{j}")]) for j in range(len(query.columns))])
        keys = [labels_of(found[_OURS.format(f"k{j}")], name) for j, name in enumerate(query.by)]
        yield values, keys, found[_OURS.format("id")].to_numpy().astype(np.int64)

    def frame(self, columns: dict[str, list[Any]], answer: Mapping[str, type] = ANSWER) -> Any:
        """Return an answer as a lazy frame of the same kind."""
        return narwhals_frame(columns, self._schema, self._frame.implementation, answer).lazy().to_native()


def _hash_expression(ids: Any, seed: int) -> Any:
    """Return the hash of blocks/hashing.py as an expression that does not depend on how an engine rounds quotients."""
    import narwhals as nw

    b, *rest = hash_coefficients(seed)
    return polynomial(fold(ids, b, lambda low: (low < 0).cast(nw.Int64)), rest)
