"""Scan dataframes in memory through narwhals."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.hashing import hash_rows
from outvote.data.groups import group_codes
from outvote.data.loading import one_at_a_time
from outvote.data.rows import with_short_integers
from outvote.estimate.summary import BlockSummary, GroupedBlockSummary
from outvote.tables.engine import (
    ANSWER,
    Engine,
    Key,
    NumberedRows,
    Query,
    Tally,
    add_tallies,
    check_row_id,
    numbered,
    refuse_column,
    refuse_key,
    refuse_large_id,
    refuse_null_id,
    refuse_null_key,
    warn_of_repeated_ids,
)
from outvote.tables.gathered import Part, codes_of

#: Rows read at once.
_CHUNK = 2**20
#: A name for any column: polars reads some that users give as regular expressions.
_ANY = "column"


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
    if isinstance(frame, nw.LazyFrame):
        with one_at_a_time():
            from outvote.tables.lazy import LazyEngine

        return LazyEngine(frame, row_id)
    return EagerEngine(frame, row_id)


def check_kinds(schema: Mapping[str, Any], query: Query) -> None:
    """Raise an error for columns that are not numbers, and keys that are not labels, by their narwhals types."""
    import narwhals as nw

    for name in query.columns:
        if not (schema[name].is_numeric() or schema[name] == nw.Boolean):
            refuse_column(name, f"{schema[name]} values")
    for name in query.by:
        if schema[name].is_nested() or schema[name] == nw.Unknown:
            refuse_key(name, f"{schema[name]} values")


def is_boolean(kind: Any) -> bool:
    """Return whether a narwhals type is that of booleans."""
    import narwhals as nw

    return bool(kind == nw.Boolean)


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

    @property
    def in_memory(self) -> bool:  # type: ignore[override]
        """Whether rows count in the order they have here."""
        return self._row_id is None

    def is_boolean(self, name: str) -> bool:
        """Return whether a column holds booleans by its type."""
        return is_boolean(self._schema[name])

    def stream(self, query: Query, labels: Sequence[Key]) -> Iterator[Part]:
        """Yield all rows in their order, a million at a time."""
        numbers = numbered(labels)
        for low, values, keys in self._chunks(query):
            ids = None if self._row_id is None else self._ids(low, len(values))
            yield Part(values, codes_of(keys, numbers), ids)

    def columns(self, query: Query) -> tuple[list[NDArray[np.float64]], list[NDArray[Any]]]:
        """Return the columns as floats, NULL as NaN, and the keys."""
        check_kinds(self._schema, query)
        values = [numbers_of(self._frame[name]) for name in query.columns]
        return values, [labels_of(self._frame[name], name) for name in query.by]

    def tally(self, query: Query, *, ids: bool = True) -> dict[Key, Tally]:
        """Count the rows of each group."""
        if self._row_id is not None and len(self._frame):
            column = self._frame[self._row_id].alias(_ANY).drop_nulls()
            if len(column):
                warn_of_repeated_ids(self._row_id, int(column.min()), int(column.max()), len(self._frame))
        return add_tallies(tallied(values, keys) for _, values, keys in self._chunks(query))

    def _ids(self, low: int, n_rows: int) -> NDArray[np.int64]:
        if self._row_id is None:
            return np.arange(low, low + n_rows)
        column = self._frame[self._row_id][low : low + n_rows].alias(_ANY)
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

    def sums(self, query: Query, unit: str) -> Any:
        """Add up the rows of each user in each group, as lazy frames do."""
        with one_at_a_time():
            from outvote.tables.lazy import LazyEngine

        frame = self._frame
        if frame.implementation.is_pyarrow():  # which refuses to turn integers into floats that are not the same
            frame = _with_floats(frame, query.columns)
        return LazyEngine(frame.lazy(), None).sums(query, unit)

    def frame(self, columns: dict[str, list[Any]], answer: Mapping[str, type | str] = ANSWER) -> Any:
        """Return an answer as a frame of the same kind; keys keep their types."""
        return narwhals_frame(columns, self._schema, self._frame.implementation, answer).to_native()


def narwhals_frame(
    columns: dict[str, list[Any]], schema: Mapping[str, Any], backend: Any, answer: Mapping[str, type | str] = ANSWER
) -> Any:
    """Return an answer as a frame of a given kind; `schema` has the types of the keys."""
    import narwhals as nw

    kinds = {str: nw.String(), float: nw.Float64(), int: nw.Int64(), bool: nw.Boolean()}
    held = {name: answer.get(name, name) for name in columns}
    types = {name: schema[kind] if isinstance(kind, str) else kinds[kind] for name, kind in held.items()}
    gaps = [name for name, kind in held.items() if kind is int and None in columns[name]]
    if gaps and nw.Implementation.from_backend(backend).is_pandas():  # whose own integers have no missing values
        types |= dict.fromkeys(gaps, nw.Float64())
        native = nw.from_dict(columns, schema=types, backend=backend).to_native()
        return nw.from_native(native.astype(dict.fromkeys(gaps, "Int64")))
    return nw.from_dict(columns, schema=types, backend=backend)


def _with_floats(frame: Any, names: Sequence[str]) -> Any:
    """Return a frame of pyarrow whose integers in some columns are the nearest floats."""
    import narwhals as nw

    table = frame.to_native()
    for name in names:
        at = table.column_names.index(name)
        if frame.schema[name].is_integer():
            table = table.set_column(at, name, table.column(at).cast("double", safe=False))
    return nw.from_native(table)


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

    column = column.alias(_ANY)
    values = None if column.is_null().any() else with_short_integers(column).to_numpy()
    if values is None or values.dtype.kind not in "fiub":
        values = column.cast(nw.Float64).fill_null(float("nan")).to_numpy()
    return values.astype(np.float64, copy=False)


def labels_of(column: Any, name: str) -> NDArray[Any]:
    """Return a narwhals series of labels as an array; text, dates and the like become Python objects."""
    import narwhals as nw

    column = column.alias(_ANY)
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
