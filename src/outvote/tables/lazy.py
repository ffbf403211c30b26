"""Scan lazy dataframes through narwhals: polars, Spark, Ibis and others count where the rows are."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.hashing import fold, hash_coefficients, polynomial
from outvote.estimate.summary import FEW_VALUES, BlockSummary, RowSummary
from outvote.tables.bins import binned
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
    numbered,
    refuse_large_id,
    refuse_null_id,
    refuse_null_key,
    summaries_from_lines,
)
from outvote.tables.frames import by_block, check_kinds, is_boolean, labels_of, narwhals_frame, numbers_of
from outvote.tables.gathered import Floats, Part, Sizes, Values, Wanted, codes_of
from outvote.votes.evidence import Grid

_LARGEST = float(np.finfo(np.float64).max)


def ours(name: str) -> str:
    """Return a name of our own for a column, which differs from the user's."""
    return f"__outvote_{name}__"


class LazyEngine(Engine):
    """A lazy frame, of which only counts and block sums are collected; rows are collected for U-statistics only."""

    def __init__(self, frame: Any, row_id: str | None):
        self._frame, self._row_id = frame, row_id
        self._schema = dict(frame.collect_schema())
        self._counts: dict[int, int] = {}  # rows in each of Spark's partitions
        check_row_id(row_id, list(self._schema), row_id in self._schema and self._schema[row_id].is_integer())
        if _is_spark(frame.implementation):  # to which a dot in a name means a field, and x and X are one name
            self._frame = _renamed(frame, [ours(f"c{j}") for j in range(len(self._schema))])

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
            raise ValueError(f"the {self} cannot be read: {_told(error)}") from error

    def is_boolean(self, name: str) -> bool:
        """Return whether a column holds booleans by its type."""
        return is_boolean(self._schema[name])

    def _checked(self, query: Query) -> None:
        import narwhals as nw

        if self._row_id is not None and self._schema[self._row_id] in (nw.UInt64, nw.Int128, nw.UInt128):
            largest = self._collected(self._frame.select(self._column(self._row_id).max())).item()
            if largest is not None and largest >= 2**63:
                refuse_large_id(self._row_id, largest)

    def _prepared(self, query: Query, *, ids: bool = True) -> Any:
        """Return the columns under our names: values as floats, keys, marks of missing and infinite rows, and ids."""
        import narwhals as nw

        check_kinds(self._schema, query)
        values = [self._column(name).cast(nw.Float64).alias(ours(f"v{j}")) for j, name in enumerate(query.columns)]
        keys = [self._key(name).alias(ours(f"k{j}")) for j, name in enumerate(query.by)]
        if self._row_id is not None:
            frame = self._frame.select(*values, *keys, self._column(self._row_id).cast(nw.Int64).alias(ours("id")))
        else:
            frame = self._frame.select(*values, *keys)
            if ids and self._frame.implementation.is_polars():
                frame = self._in_order(frame)
            elif ids:
                raise ValueError(f"a {self} does not number its rows: give the name of a column of integers as row_id=")
        each = [nw.col(ours(f"v{j}")) for j in range(len(values))]
        missing = reduce(operator.or_, (v.is_null() | v.is_nan().fill_null(True) for v in each))
        infinite = reduce(operator.or_, ((v.abs() == float("inf")).fill_null(False) for v in each))
        return frame.with_columns(missing.alias(ours("missing")), (infinite & ~missing).alias(ours("infinite")))

    def _in_order(self, frame: Any) -> Any:
        """Add the number of each row, or, in Spark, numbers that rise with the order of the rows."""
        import narwhals as nw

        native, name, backend = frame.to_native(), ours("id"), frame.implementation
        if backend.is_polars():
            native = native.with_row_index(name)
        elif backend.is_ibis():
            import ibis  # type: ignore[import-untyped,unused-ignore]

            native = native.mutate(**{name: ibis.row_number()})
        elif _is_spark(backend):
            from pyspark.sql import functions

            native = native.withColumn(name, functions.monotonically_increasing_id())
        else:
            raise ValueError(f"a {self} does not number its rows: give the name of a column of integers as row_id=")
        return nw.from_native(native).with_columns(nw.col(name).cast(nw.Int64))

    def _key(self, name: str) -> Any:
        """Return the expression for the labels of a key; categories become text."""
        import narwhals as nw

        column = self._column(name)
        return column.cast(nw.String) if self._schema[name] in (nw.Categorical, nw.Enum) else column

    def _column(self, name: str) -> Any:
        """Return the expression for a column by its position, because its name might be read as a pattern."""
        import narwhals as nw

        return nw.nth(self.names().index(name))

    def tally(self, query: Query, *, ids: bool = True) -> dict[Key, Tally]:
        """Count the rows of each group."""
        import narwhals as nw

        self._checked(query)
        numbers = ids or self._row_id is not None
        marks = [nw.col(ours(name)).cast(nw.Int64).alias(ours(name)) for name in ("missing", "infinite")]
        number = nw.col(ours("id")).is_null() if numbers else nw.lit(False)
        unnumbered = number.cast(nw.Int64).alias(ours("unnumbered"))
        frame = self._prepared(query, ids=ids).with_columns(*marks, unnumbered)
        heads = [ours(f"k{j}") for j in range(len(query.by))]
        counts = [
            nw.len().alias(ours("n")),
            *(nw.col(ours(name)).sum() for name in ("missing", "infinite", "unnumbered")),
        ]
        found = self._collected(frame.group_by(*heads).agg(*counts) if heads else frame.select(*counts))
        tallies = []
        for *labels, n_rows, n_missing, n_infinite, n_unnumbered in found.iter_rows():
            key = labelled(query, labels) if query.by else ()
            if n_unnumbered:
                refuse_null_id(self._row_id)
            tallies.append({key: Tally(int(n_rows), int(n_missing or 0), int(n_infinite or 0))})
        return add_tallies(tallies)

    def _finite(self, query: Query, *, ids: bool = True) -> Any:
        """Return the rows that are finite in all columns; where infinities are values, they become large numbers."""
        import narwhals as nw

        frame, values = self._prepared(query, ids=ids), [ours(f"v{j}") for j in range(len(query.columns))]
        if not query.infinite:  # nor null or NaN: Spark then knows that no value is null, and leaves out such checks
            return frame.filter(*(nw.col(v).abs() <= _LARGEST for v in values))
        return frame.filter(~nw.col(ours("missing"))).with_columns(nw.col(*values).clip(-_LARGEST, _LARGEST))

    def summaries(self, query: Query, n_blocks: Mapping[Key, int], seed: int) -> dict[Key, BlockSummary]:
        """Sum up the blocks of each group inside the lazy frame's library."""
        import narwhals as nw

        frame, group = self._finite(query), ours("group")
        k: Any = n_blocks.get(())
        if query.by and not self._frame.implementation.is_polars():
            raise ValueError(
                f"by={list(query.by)!r}: blocks of a {self} have one answer, but not one for each group: collect it "
                "first, or leave out vote and n_blocks"
            )
        if query.by:
            heads = [ours(f"k{j}") for j in range(len(query.by))]
            labels = [key if isinstance(key, tuple) and len(heads) > 1 else (key,) for key in n_blocks]
            columns: dict[str, Any] = {head: [one[j] for one in labels] for j, head in enumerate(heads)}
            columns |= {group: list(range(len(labels))), ours("blocks"): list(n_blocks.values())}
            types = dict(frame.select(*heads).collect_schema()) | dict.fromkeys((group, ours("blocks")), nw.Int64())
            sizes = nw.from_dict(columns, schema=types, backend=self._frame.implementation).lazy()
            frame, k = frame.join(sizes, on=heads, how="inner"), nw.col(ours("blocks"))
        else:
            frame = frame.with_columns(nw.lit(0, nw.Int64).alias(group))
        block = _hash_expression(nw.col(ours("id")), seed) % k
        frame = frame.with_columns(block.alias(ours("block")))
        values = [ours(f"v{j}") for j in range(len(query.columns))]

        def lines(unit: float, less: Floats | None) -> Lines:
            scaled = frame if unit == 1 else frame.with_columns(*(nw.col(v) * unit for v in values))
            if less is not None:
                scaled = scaled.with_columns(*(nw.col(v) - far for v, far in zip(values, less.tolist(), strict=True)))
            found = self._collected(
                scaled.group_by(group, ours("block")).agg(
                    nw.len().alias(ours("n")),
                    *(nw.col(v).mean().alias(f"{v}m") for v in values),
                    *(nw.col(v).var(ddof=0).alias(f"{v}s") for v in values),
                )
            )
            groups, blocks, counts = (found[ours(name)].to_numpy() for name in ("group", "block", "n"))
            means, variances = (np.column_stack([found[f"{v}{what}"].to_numpy() for v in values]) for what in "ms")
            return Lines(groups, blocks, counts, means, variances)

        return summaries_from_lines(lines, n_blocks, seed, str(self))

    def blocks(
        self, query: Query, n_blocks: Mapping[Key, int], seed: int
    ) -> Iterator[tuple[Key, int, NDArray[np.float64]]]:
        """Yield the rows of each block; only the requested columns are read into memory."""
        found = self._collected(self._finite(query))
        values = np.column_stack([found[ours(f"v{j}")].to_numpy() for j in range(len(query.columns))])
        yield from by_block(values, found[ours("id")].to_numpy().astype(np.int64), n_blocks[()], seed)

    def stream(self, query: Query, labels: Sequence[Key]) -> Iterator[Part]:
        """Yield all rows; only the requested columns are read into memory."""
        import narwhals as nw

        frame = self._prepared(query, ids=False)
        if query.by and _is_spark(frame.implementation):  # other groups stay where they are
            frame = self._only(frame, query, labels)
        elif len(query.by) == 1 and not self._schema[query.by[0]].is_temporal():
            # Polars 1 refuses to look for Python's datetimes, which are in microseconds, among milliseconds.
            frame = frame.filter(nw.col(ours("k0")).is_in(list(labels)))
        found = self._collected(frame)
        values = np.column_stack([numbers_of(found[ours(f"v{j}")]) for j in range(len(query.columns))])
        keys = [labels_of(found[ours(f"k{j}")], name) for j, name in enumerate(query.by)]
        ids = None if self._row_id is None else found[ours("id")].to_numpy().astype(np.int64)
        yield Part(values, codes_of(keys, numbered(labels)), ids)

    def _only(self, frame: Any, query: Query, labels: Sequence[Key]) -> Any:
        """Return the rows of some groups in Spark, in their order."""
        import narwhals as nw
        from pyspark.sql import functions

        columns = _keys(query, labels)
        heads = list(columns)
        few = self._like(columns, dict(frame.select(*heads).collect_schema()), nw).to_native()
        return nw.from_native(frame.to_native().join(functions.broadcast(few), on=heads, how="left_semi"))

    def pilots(self, query: Query, sizes: Sizes) -> list[Floats]:
        """Return the rows of each large group that choose its bins."""
        import narwhals as nw

        frame, step = self._finite(query, ids=False), nw.lit(sizes.steps[0])
        if self._row_id is None:
            frame = self._in_order(frame)  # a join may change the order
        if query.by:
            frame, step = self._among(frame, query, sizes.large, {"step": sizes.steps}), nw.col(ours("step"))
        if self._row_id is not None:
            frame = frame.filter(_hash_expression(nw.col(ours("id")), 0) % step == 0)
        elif query.by:
            heads = [ours(f"k{j}") for j in range(len(query.by))]
            place = nw.col(ours("id")).cum_count().over(*heads, order_by=ours("id")) - 1
            frame = frame.with_columns(place.alias(ours("place")))
            frame = frame.filter(nw.col(ours("place")) % step == 0)
        else:
            frame = self._every(frame, sizes.steps[0], sizes.finite[()])
        found = self._collected(frame)
        rows = np.column_stack([found[ours(f"v{j}")].to_numpy() for j in range(len(query.columns))])
        codes = found[ours("code")].to_numpy() if query.by else np.zeros(len(rows), dtype=np.intp)
        return [rows[codes == number] for number in range(len(sizes.large))]

    def n_rows(self) -> int | None:
        """Return the number of rows in Spark, which counts them without reading any column but that of ids."""
        import narwhals as nw

        if not _is_spark(self._frame.implementation):
            return None
        if self._row_id is None:
            self._counts = self._partitions(self._frame)
            return sum(self._counts.values())
        counts = nw.len().alias(ours("n")), self._column(self._row_id).count().alias(ours("numbered"))
        n_rows, n_numbered = self._collected(self._frame.select(*counts)).row(0)
        if n_numbered < n_rows:
            refuse_null_id(self._row_id)
        return int(n_rows)

    def _partitions(self, frame: Any) -> dict[int, int]:
        """Return the number of rows in each of Spark's partitions, in their order."""
        import narwhals as nw
        from pyspark.sql import functions

        own = frame.to_native().select(functions.spark_partition_id().alias(ours("part")))
        found = self._collected(nw.from_native(own.groupBy(ours("part")).count()))
        return {int(part): int(count) for part, count in sorted(found.iter_rows())}

    def _every(self, frame: Any, step: int, n_rows: int) -> Any:
        """Return every so many-th row of numbered ones, of which there are so many."""
        import narwhals as nw

        if not _is_spark(frame.implementation):
            return frame.filter(nw.col(ours("id")) % step == 0)
        from pyspark.sql import functions

        # There a number is that of the partition, times 2³³, and of the row in it; none are filtered out, mostly.
        counts = self._counts if sum(self._counts.values()) == n_rows else self._partitions(frame)
        befores, before = [0] * (max(counts, default=0) + 1), 0
        for part, count in counts.items():
            befores[part] = before % step
            before += count
        of_part = functions.shiftright(ours("id"), 33)
        place = functions.col(ours("id")) - functions.shiftleft(of_part, 33)
        # A shuffle may make other partitions of the same rows the next time.
        first = functions.coalesce(functions.get(functions.lit(befores), of_part.cast("int")), functions.lit(0))
        return nw.from_native(frame.to_native().filter((place + first) % step == 0))

    def _among(self, frame: Any, query: Query, labels: Sequence[Key], numbers: Mapping[str, Sequence[Any]]) -> Any:
        """Return the rows of some groups, with the number of their group and other numbers of it."""
        import narwhals as nw

        columns = _keys(query, labels)
        heads = list(columns)
        columns |= {ours("code"): list(range(len(labels))), **{ours(one): list(of) for one, of in numbers.items()}}
        return frame.join(self._like(columns, dict(frame.select(*heads).collect_schema()), nw), on=heads, how="inner")

    def _like(self, columns: dict[str, list[Any]], types: Mapping[str, Any], nw: Any) -> Any:
        """Return a small table as a lazy frame of the same kind."""
        kinds = {name: types.get(name, nw.Float64() if _floats(of) else nw.Int64()) for name, of in columns.items()}
        return self._lazy(lambda backend: nw.from_dict(columns, schema=kinds, backend=backend))

    def _lazy(self, make: Callable[[Any], Any]) -> Any:
        """Return a small table as a lazy frame of the same kind; it is made with polars, or with Arrow."""
        backend = self._frame.implementation
        if backend.is_polars():
            return make(backend).lazy()
        more = {"session": self._frame.to_native().sparkSession} if _is_spark(backend) else {}
        return make("pyarrow").lazy(backend, **more)

    def row_summaries(
        self, query: Query, labels: Sequence[Key], grids: Sequence[Sequence[Grid]]
    ) -> list[list[RowSummary]]:
        """Count the finite rows of each group in bins, inside the lazy frame's library."""
        columns = [
            self._summed_column(query, j, labels, [several[j] for several in grids]) for j in range(len(grids[0]))
        ]
        return [list(several) for several in zip(*columns, strict=True)]

    def _binned(self, query: Query, j: int, labels: Sequence[Key], grids: Sequence[Grid]) -> Any:
        """Return the finite rows with the number of their group, their bin in one column, and their place there."""
        import narwhals as nw

        frame = self._finite(query, ids=False)
        centre, unit, inverse = (nw.lit(number) for number in (grids[0].centre, grids[0].unit, 1 / grids[0].unit))
        if query.by:
            ends = {"centre": [one.centre for one in grids], "unit": [one.unit for one in grids]}
            frame = self._among(frame, query, labels, ends | {"inverse": [1 / one.unit for one in grids]})
            centre, unit, inverse = (nw.col(ours(one)) for one in ("centre", "unit", "inverse"))
        else:
            frame = frame.with_columns(nw.lit(0, nw.Int64).alias(ours("code")))
        return binned(frame, ours(f"v{j}"), centre, unit, inverse, ours)

    def _summed_column(self, query: Query, j: int, labels: Sequence[Key], grids: Sequence[Grid]) -> list[RowSummary]:
        import narwhals as nw

        frame, number = self._binned(query, j, labels, grids), grids[0].number
        # One small key takes Spark a fifth less time than two large ones.
        cell = nw.col(ours("code")) * number + nw.col(ours("bin")) if query.by else nw.col(ours("bin"))
        frame = frame.with_columns(cell.cast(nw.Int32 if number * len(grids) < 2**31 else nw.Int64).alias(ours("cell")))
        sums = [nw.col(ours(name)).sum() for name in ("place", "square")]
        found = self._collected(frame.group_by(ours("cell")).agg(nw.len().alias(ours("n")), *sums))
        cells, *counts = (found[ours(name)].to_numpy().astype(np.int64) for name in ("cell", "n", "place", "square"))
        lines = np.stack([cells // number, cells % number, *counts])
        more = self._details(frame, nw.col(ours(f"v{j}")), lines, grids)
        return [_summary(grid, lines[1:, lines[0] == group], more.get(group)) for group, grid in enumerate(grids)]

    def _details(
        self, frame: Any, value: Any, lines: NDArray[np.int64], grids: Sequence[Grid]
    ) -> dict[int, tuple[int, int, float]]:
        """Count rows of 0 and 1, and add up how far rows are from the centre, in the last bins of each group.

        That is asked for only if a group has few bins, or rows in its last ones.
        """
        import narwhals as nw

        last = (0, grids[0].number - 1)
        if not (np.isin(lines[1], last).any() or (np.bincount(lines[0]) <= FEW_VALUES).any()):
            return {}
        far = nw.col(ours("bin")).is_in(last)
        frame = frame.with_columns(
            (value == 0.0).cast(nw.Int64).alias(ours("zero")),
            (value == 1.0).cast(nw.Int64).alias(ours("one")),
            nw.when(far).then(nw.col(ours("y"))).otherwise(nw.lit(0.0)).alias(ours("y")),
        )
        sums = [nw.col(ours(name)).sum() for name in ("zero", "one", "y")]
        found = self._collected(frame.group_by(ours("code")).agg(*sums))
        columns = [found[ours(name)].to_list() for name in ("code", "zero", "one", "y")]
        return {int(code): (int(zero), int(one), float(y)) for code, zero, one, y in zip(*columns, strict=True)}

    def in_bins(self, query: Query, labels: Sequence[Key], wanted: Sequence[Wanted]) -> list[Values]:
        """Return the values of rows in some bins of each group, and how many rows have each."""
        import narwhals as nw

        number, value = wanted[0].grid.number, ours("v0")
        pairs = [number * group + place for group, one in enumerate(wanted) for place in one.bins]
        frame = self._binned(query, 0, labels, [one.grid for one in wanted])
        frame = frame.filter((nw.col(ours("code")) * number + nw.col(ours("bin"))).is_in(pairs))
        found = self._collected(frame.group_by(ours("code"), value).agg(nw.len().alias(ours("n"))))
        codes, values, counts = (found[name].to_numpy() for name in (ours("code"), value, ours("n")))
        order = np.lexsort((values, codes))
        mine = [order[codes[order] == number] for number in range(len(wanted))]
        return [(values[own].astype(np.float64), counts[own].astype(np.int64)) for own in mine]

    def rows(self, query: Query) -> Iterator[NumberedRows]:
        """Yield all rows with their keys and ids; only the requested columns are read into memory."""
        found = self._collected(self._prepared(query, ids=False))
        values = np.column_stack([numbers_of(found[ours(f"v{j}")]) for j in range(len(query.columns))])
        keys = [labels_of(found[ours(f"k{j}")], name) for j, name in enumerate(query.by)]
        ids = found[ours("id")].to_numpy().astype(np.int64) if self.has_ids else np.arange(len(values))
        yield values, keys, ids

    def sums(self, query: Query, unit: str) -> Any:
        """Add up the rows of each user in each group, inside the lazy frame's library."""
        import narwhals as nw

        frame = self._prepared(Query(query.columns, (*query.by, unit)), ids=False)
        frame = frame.with_columns(nw.col(ours("missing")).cast(nw.Int64))
        heads = [ours(f"k{j}") for j in range(len(query.by) + 1)]
        totals = [nw.col(ours("missing")).sum().alias("bad")]
        for j in range(len(query.columns)):
            value = nw.col(ours(f"v{j}"))
            totals += [value.sum().alias(f"v{j}"), value.min().alias(f"low{j}"), value.max().alias(f"high{j}")]
        with np.errstate(over="ignore", invalid="ignore"):  # sums that no float holds are infinite
            found = self._collected(frame.group_by(*heads).agg(*totals))
        for j, name in enumerate((*query.by, unit)):
            if found[heads[j]].is_null().any():
                refuse_null_key(name)
        names = {head: f"k{j}" if j < len(query.by) else "u" for j, head in enumerate(heads)}
        return found.rename(names)

    def frame(self, columns: dict[str, list[Any]], answer: Mapping[str, type | str] = ANSWER) -> Any:
        """Return an answer as a lazy frame of the same kind."""
        return self._lazy(lambda backend: narwhals_frame(columns, self._schema, backend, answer)).to_native()


def _keys(query: Query, labels: Sequence[Key]) -> dict[str, list[Any]]:
    """Return the keys of groups, column by column under our names."""
    several = len(query.by) > 1
    keys = [label if isinstance(label, tuple) and several else (label,) for label in labels]
    return {ours(f"k{j}"): [key[j] for key in keys] for j in range(len(query.by))}


def _is_spark(backend: Any) -> bool:
    return bool(backend.is_pyspark() or backend.is_pyspark_connect())


def _renamed(frame: Any, names: Sequence[str]) -> Any:
    """Return a frame of Spark with other names for its columns, in their order."""
    import narwhals as nw

    native = frame.to_native()
    if len(set(native.columns)) < len(native.columns):
        twice = next(name for name in native.columns if native.columns.count(name) > 1)
        raise ValueError(f"source has two columns with the same name: {twice!r}")
    return nw.from_native(native.toDF(*names))


def _told(error: Exception) -> str:
    """Return the first line of what an error says; where Java has only passed it on, that of its cause."""
    first, *rest = str(error).strip().splitlines() or [type(error).__name__]
    causes = [line for line in rest if line.startswith("Caused by: ")]
    if not first.startswith("An error occurred while calling") or not causes:
        return first
    return causes[-1].removeprefix("Caused by: ").partition(": ")[2] or causes[-1]


def _floats(column: Sequence[Any]) -> bool:
    return any(isinstance(one, float) for one in column)


def _summary(grid: Grid, lines: NDArray[np.int64], details: tuple[int, int, float] | None) -> RowSummary:
    """Return the summary of one group, from lines with a bin each, and what more is known."""
    lines = lines[:, np.argsort(lines[0])]
    if details is None:
        return RowSummary.of_bins(grid, lines)
    zeros, ones, away = details
    # Rows of the last bins lie beyond their nearer ends by so much in all.
    last = np.isin(lines[0], (0, grid.number - 1))
    ends = np.where(lines[0] == 0, -grid.farthest, grid.farthest) * lines[1]
    return RowSummary.of_bins(grid, lines, away - float(ends[last].sum()), (zeros, ones))


def _hash_expression(ids: Any, seed: int) -> Any:
    """Return the hash of blocks/hashing.py as an expression that does not depend on how an engine rounds quotients."""
    import narwhals as nw

    b, *rest = hash_coefficients(seed)
    return polynomial(fold(ids, b, lambda low: (low < 0).cast(nw.Int64)), rest)
