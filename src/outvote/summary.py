"""Blocks of rows in numbers: how many, their mean, and their squares around it; updated, merged, and voted on.

It is what every engine computes, one chunk, file, partition or worker at a time: the rows themselves are not kept.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote import fast
from outvote.certify import Ask, Voted, vote_on_means
from outvote.inputs import MoreCorruptRows, NanPolicy, advice, check_nan_policy, read, screen
from outvote.partition import hash_rows, seed_of
from outvote.pipeline import Allowed, Settings, bounds_of, per_column, voters
from outvote.plans import BlockPlan
from outvote.results import RobustEstimate
from outvote.scales import SpreadOfBlocks
from outvote.votes import Alternative

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Version of the serialised form.
VERSION = 1
_MAGIC = b"outvote-blocks"
#: Rows added up at once, at least: temporaries stay in the cache, and rounding errors small.
_ROWS = 2**17


class Moments:
    """Count, mean and squares around the mean (M2) of numbered cells, for several columns; Chan's updates.

    Attributes
    ----------
    counts : ndarray of int, shape (cells,)
        Rows in each cell.
    means, m2 : ndarray, shape (cells, columns)
        Their mean, and the sum of squares around it (infinite where no float is large enough); 0 where there are no
        rows.
    """

    def __init__(self, n_cells: int, n_columns: int):
        self.counts: Integers = np.zeros(n_cells, dtype=np.int64)
        self.means: Floats = np.zeros((n_cells, n_columns))
        self.m2: Floats = np.zeros((n_cells, n_columns))

    def grow(self, n_cells: int) -> None:
        """Make room for more cells."""
        more = n_cells - len(self.counts)
        if more > 0:
            self.counts = np.concatenate([self.counts, np.zeros(more, dtype=np.int64)])
            self.means, self.m2 = (np.concatenate([a, np.zeros((more, a.shape[1]))]) for a in (self.means, self.m2))

    @property
    def arrays(self) -> tuple[Integers, Floats, Floats]:
        """Counts, means and squares."""
        return self.counts, self.means, self.m2

    def take(self, cells: NDArray[Any]) -> Moments:
        """Return some cells, copied."""
        taken = Moments(0, 0)
        taken.counts, taken.means, taken.m2 = self.counts[cells], self.means[cells], self.m2[cells]
        return taken

    def add(self, rows: NDArray[Any], cells: NDArray[Any]) -> None:
        """Add finite rows, (rows, columns), each to its cell."""
        where: Any = slice(None)
        if len(rows) < len(self.counts) // 4:  # far more cells than rows: leave most of them alone
            where, cells = np.unique(cells, return_inverse=True)
        new = Moments(len(self.counts[where]), rows.shape[1])
        ready = fast.compiled(1e-8 * rows.size)
        with np.errstate(over="ignore", invalid="ignore"):
            if ready is not None:
                ready.add_moments(rows, cells, *new.arrays)
            else:
                new._fill(rows, cells)
            if not np.isfinite(new.means).all():  # a sum was too large for a float, a mean never is
                new._fill(rows, cells, scale=2.0 ** -len(rows).bit_length())
        self.merge(new, where)

    def _fill(self, rows: NDArray[Any], cells: NDArray[Any], scale: float = 1.0) -> None:
        n_cells = len(self.counts)
        self.counts[:] = np.bincount(cells, minlength=n_cells)
        divisor = np.maximum(self.counts, 1)
        for j in range(rows.shape[1]):
            column = rows[:, j].astype(np.float64)
            if scale != 1:
                column *= scale
            means = np.bincount(cells, weights=column, minlength=n_cells) / divisor
            column -= means[cells]
            # What rounding has left out of the mean: far from 0 it would show in squares around merged means.
            rest = np.bincount(cells, weights=column, minlength=n_cells) / divisor
            column *= column
            squares = np.bincount(cells, weights=column, minlength=n_cells)
            shift = rest * rest * divisor
            self.means[:, j] = (means + rest) / scale
            self.m2[:, j] = np.maximum(squares - np.where(np.isfinite(shift), shift, 0.0), 0.0) / scale / scale

    def merge(self, other: Moments, where: Any = slice(None)) -> None:
        """Add the rows of other cells, number by number, or to the cells that `where` names."""
        mine, means = self.counts[where][:, None], self.means[where]
        share = other.counts[:, None] / np.maximum(mine + other.counts[:, None], 1)
        with np.errstate(over="ignore", invalid="ignore"):
            delta = other.means - means
            moved = np.where(np.isfinite(delta), means + delta * share, means * (1 - share) + other.means * share)
            between = np.where(mine * share > 0, delta * delta * (mine * share), 0.0)
            self.m2[where] += other.m2 + between
        # A cell that was empty takes the other's mean as it is.
        self.means[where] = np.where(mine == 0, other.means, moved)
        self.counts[where] += other.counts


class _Summary:
    """What the two summaries share: a number of blocks, a seed, moments, and the rows seen so far."""

    n_blocks: Any

    def __init__(self, seed: int):
        self.seed = seed_of(seed)
        self.names: tuple[str, ...] | None = None
        self.shape: tuple[int, ...] | None = None
        self._seen = 0
        self._moments = Moments(0, 0)

    def _read(
        self, chunk: ArrayLike, ids: ArrayLike | None, nan_policy: NanPolicy, n_labels: int | None = None
    ) -> tuple[NDArray[Any], range | Integers, NDArray[np.bool_] | None]:
        """Return the rows, (rows, columns), their numbers, and which are NaN or infinite (None: not one).

        If anything is wrong, all rows are refused, and nothing has changed.
        """
        check_nan_policy(nan_policy)
        values, names = read(chunk, "chunk")
        if 0 in values.shape[1:]:
            raise ValueError(f"chunk has shape {values.shape}: there are no columns to sum up")
        if n_labels not in (None, len(values)):
            raise ValueError(f"groups has {n_labels} labels for {len(values)} rows")
        if self.shape is not None and values.shape[1:] != self.shape:
            raise ValueError(f"chunk has rows of shape {values.shape[1:]}, those before had {self.shape}")
        if None not in (names, self.names) and tuple(names or ()) != self.names:
            raise ValueError(f"chunk has the columns {tuple(names or ())!r}, those before were {self.names!r}")
        numbers = range(self._seen, self._seen + len(values)) if ids is None else _row_ids(ids, len(values))
        rows, bad = values.reshape(len(values), math.prod(values.shape[1:])), None
        if rows.dtype.kind == "f" and rows.dtype.itemsize not in (4, 8):
            rows = rows.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            clean = rows.dtype.kind != "f" or bool(np.isfinite(rows.sum(dtype=np.float64)))
        if not clean:
            bad = ~np.isfinite(rows).all(axis=1)
            missing = np.isnan(rows).any(axis=1)
            if nan_policy == "raise" or (nan_policy == "omit" and (bad & ~missing).any()):
                screen(rows, nan_policy, 0, "chunk")  # raises, if there is one: the sum may just be too large
        if self.shape is None:
            self.shape = values.shape[1:]
            self._moments = Moments(self._n_cells(), rows.shape[1])
        self.names = self.names or (tuple(names) if names else None)
        self._seen += len(values)
        return rows, numbers, bad if bad is not None and bad.any() else None

    def _hashed(self, numbers: range | Integers) -> Iterator[tuple[slice, Integers]]:
        """Hash row numbers, a piece of them at a time, into memory that is used again for the next."""
        step, n_rows = max(_ROWS, 4 * self._n_cells()), len(numbers)
        hashes = np.empty(min(step, n_rows), dtype=np.int64)
        counted = np.arange(numbers.start, numbers.start + len(hashes)) if isinstance(numbers, range) else hashes
        for low in range(0, n_rows, step):
            part = slice(low, min(low + step, n_rows))
            ids = counted[: part.stop - low] if isinstance(numbers, range) else numbers[part]
            yield part, hash_rows(ids, self.seed, out=hashes[: part.stop - low])
            if isinstance(numbers, range):
                counted += step

    def _n_cells(self) -> int:
        raise NotImplementedError

    def _same_blocks(self, other: Any) -> bool:
        return bool(self.n_blocks == other.n_blocks)

    def _check_like(self, other: Any) -> None:
        if type(other) is not type(self):
            raise TypeError(f"merge needs another {type(self).__name__}, not {type(other).__name__}")
        for name, same in (("n_blocks", self._same_blocks(other)), ("seed", self.seed == other.seed)):
            if not same:
                raise ValueError(
                    f"the other summary has {name}={getattr(other, name)}, this one {getattr(self, name)}: "
                    "blocks of different partitions cannot be merged"
                )
        if None not in (self.shape, other.shape) and self.shape != other.shape:
            raise ValueError(f"the other summary has rows of shape {other.shape}, this one {self.shape}")
        if None not in (self.names, other.names) and self.names != other.names:
            raise ValueError(f"the other summary has the columns {other.names!r}, this one {self.names!r}")

    def _take_over(self, other: Any) -> None:
        if self.shape is None:
            self.shape = other.shape
            self._moments = Moments(self._n_cells(), other._moments.means.shape[1])
        self.names = self.names or other.names
        self._seen += other._seen

    # --- written down ------------------------------------------------------------------------------------

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

    @classmethod
    def _of_header(cls, header: Mapping[str, Any]) -> Self:
        raise NotImplementedError

    @classmethod
    def _begun(cls, header: Any) -> Self:
        """Build a summary from its header, without moments yet."""
        name = cls.__name__
        found = header.get("format") if isinstance(header, dict) else None
        if found != f"outvote.{name}":
            other = str(found).removeprefix("outvote.")
            raise _Refused(f"this is not a {name}" + (f", but a {other}" if other.endswith("Summary") else ""))
        if header.get("version") != VERSION:
            raise _Refused(f"this {name} has version {header.get('version')!r}, outvote reads version {VERSION}")
        summary = cls._of_header(header)
        shape, names = header["shape"], header["names"]
        if shape is None:
            return summary
        summary.shape = tuple(_whole(size, 1) for size in shape)
        summary._seen = _whole(header["n_seen"])
        if names is not None:
            summary.names = tuple(names)
            if len(names) != math.prod(summary.shape) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"names are {names!r}")
        return summary

    def _size(self) -> tuple[int, int]:
        """How many cells and columns there are."""
        return (0, 0) if self.shape is None else (self._n_cells(), math.prod(self.shape))

    def _completed(self, counts: Any, means: Any, m2: Any) -> Self:
        """Fill in the moments of a summary that was begun; refuse what cannot be moments."""
        n_cells, n_columns = self._size()
        moments = self._moments = Moments(0, n_columns)
        numbers = np.asarray(counts)
        if numbers.dtype.kind not in "iu" and numbers.size:
            raise ValueError("counts are not whole numbers")
        moments.counts = numbers.astype(np.int64)
        moments.means, moments.m2 = (np.array(a, dtype=np.float64).reshape(len(a), n_columns) for a in (means, m2))
        if {len(array) for array in moments.arrays} != {n_cells}:
            raise _Refused(f"this {type(self).__name__} is cut short: {len(numbers)} blocks instead of {n_cells}")
        if (moments.counts < 0).any() or not np.isfinite(moments.means).all() or not (moments.m2 >= 0).all():
            raise ValueError("counts, means or squares are impossible")
        return self

    def to_json(self) -> str:
        """Write as JSON, without loss (null stands for squares that are infinite)."""
        counts, means, m2 = (array.tolist() for array in self._moments.arrays)
        m2 = [[None if square == math.inf else square for square in squares] for squares in m2]
        return json.dumps({**self._header(), "counts": counts, "means": means, "m2": m2}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        with _refusing(cls.__name__):
            document = json.loads(text)
            summary = cls._begun(document)
            m2 = [[math.inf if square is None else square for square in squares] for squares in document["m2"]]
            return summary._completed(document["counts"], document["means"], m2)

    def to_bytes(self) -> bytes:
        """Write as bytes: a header in JSON, then the numbers, little-endian."""
        header = json.dumps(self._header()).encode()
        counts, means, m2 = self._moments.arrays
        body = counts.astype("<i8").tobytes() + means.astype("<f8").tobytes() + m2.astype("<f8").tobytes()
        return _MAGIC + struct.pack("<I", len(header)) + header + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote."""
        name, start = cls.__name__, len(_MAGIC) + 4
        with _refusing(name):
            if bytes(data[: len(_MAGIC)]) != _MAGIC:
                raise _Refused(f"this is not a {name}")
            end = start + struct.unpack_from("<I", data, len(_MAGIC))[0] if len(data) >= start else start
            if len(data) < end or end == start:
                raise _Refused(f"this {name} is cut short: {len(data)} bytes, not even its header")
            summary, body = cls._begun(json.loads(bytes(data[start:end]))), data[end:]
            n_cells, n_columns = summary._size()
            expected = 8 * n_cells * (1 + 2 * n_columns)
            if len(body) != expected:
                what = "cut short" if len(body) < expected else "too long"
                raise _Refused(f"this {name} is {what}: {len(body)} bytes of numbers instead of {expected}")
            counts = np.frombuffer(body, "<i8", n_cells)
            numbers = np.frombuffer(body, "<f8", 2 * n_cells * n_columns, 8 * n_cells)
            return summary._completed(counts, *numbers.reshape(2, n_cells, n_columns))

    def _places(self) -> dict[str, NDArray[Any]]:
        """Say of each cell which it is, as columns of a table."""
        return {"block": np.arange(self._size()[0])}

    def to_arrow(self) -> Any:
        """Write as an Arrow table: a row for each block, the rest in the metadata of the schema."""
        import pyarrow as pa

        counts, means, m2 = self._moments.arrays
        columns: dict[str, Any] = {**self._places(), "count": counts}
        for j in range(means.shape[1]):
            columns |= {f"mean_{j}": means[:, j], f"m2_{j}": m2[:, j]}
        return pa.table(columns).replace_schema_metadata({"outvote": json.dumps(self._header())})

    @classmethod
    def from_arrow(cls, table: Any) -> Self:
        """Read what `to_arrow` wrote; the rows may have changed places."""
        name = cls.__name__
        with _refusing(name):
            summary = cls._begun(json.loads((table.schema.metadata or {}).get(b"outvote", b"null")))
            n_cells, n_columns = summary._size()
            if table.num_rows != n_cells:
                raise _Refused(f"this {name} is cut short: {table.num_rows} blocks instead of {n_cells}")
            places = summary._places()
            found = np.lexsort([table[key].to_numpy() for key in reversed(places)])
            for key, expected in places.items():
                if not np.array_equal(table[key].to_numpy()[found], expected):
                    raise ValueError(f"the column {key!r} is wrong")
            counts, *numbers = (
                table[key].to_numpy()[found]
                for key in ["count", *(f"{kind}_{j}" for kind in ("mean", "m2") for j in range(n_columns))]
            )
            means, m2 = np.array(numbers, dtype=np.float64).reshape(2, n_columns, n_cells).transpose(0, 2, 1)
            return summary._completed(counts, means, m2)


class BlockSummary(_Summary):
    """K blocks of rows as (count, mean, M2): a robust mean of data that come in chunks, files or from workers.

    A row goes to the block ``hash(row id, seed) mod K``, whatever its value and whoever reads it, so that the same rows
    give the same blocks on every engine and in every order, those of ``outvote.mean(..., partition="hash")``.

    Parameters
    ----------
    n_blocks : int
        Blocks (K): more than twice the corrupt rows that are to be survived.
    seed : int
        Seed of the hash.

    Attributes
    ----------
    counts, means, m2 : ndarray
        What is known of each block; `means` and `m2` have one column for each column of the rows.
    n_rows : int
        Rows that count, corrupt ones among them.
    n_found_corrupt, n_omitted : int
        Rows that were NaN or infinite: taken for corrupt, or missing.

    Notes
    -----
    Memory: 24 bytes a block, 16 more for every further column, whatever the number of rows.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(size=10_000)
    >>> x[:20] = 1e9
    >>> first = ov.BlockSummary(n_blocks=201, seed=0).update(x[:3000])
    >>> second = ov.BlockSummary(n_blocks=201, seed=0).update(x[3000:], ids=np.arange(3000, 10_000))
    >>> print(first.merge(second).result(contamination=20, assume=ov.FiniteVariance(1.0)))
    mean 0.03 ± 0.19 (certified 95 %, 201 blocks of 35 to 70, survives 100 corrupt rows)
    """

    def __init__(self, n_blocks: int, seed: int = 0):
        super().__init__(seed)
        self.n_blocks = _number_of_blocks(n_blocks)
        self.n_found_corrupt = self.n_omitted = 0

    def __repr__(self) -> str:
        return f"BlockSummary({self.n_rows} rows in {self.n_blocks} blocks, seed={self.seed})"

    def _n_cells(self) -> int:
        return self.n_blocks

    @property
    def counts(self) -> Integers:
        """Rows in each block."""
        return self._moments.counts if self.shape is not None else np.zeros(self.n_blocks, dtype=np.int64)

    @property
    def means(self) -> Floats:
        """Mean of each block."""
        return self._moments.means.reshape(-1, *(self.shape or ()))

    @property
    def m2(self) -> Floats:
        """Sum of squares around the mean of each block."""
        return self._moments.m2.reshape(-1, *(self.shape or ()))

    @property
    def n_rows(self) -> int:
        """Rows that count, corrupt ones among them."""
        return int(self.counts.sum()) + self.n_found_corrupt

    def update(
        self, chunk: ArrayLike, ids: ArrayLike | None = None, *, nan_policy: NanPolicy = "raise"
    ) -> BlockSummary:
        """Add rows; they are not kept, and nothing changes if they are refused.

        Parameters
        ----------
        chunk : array-like, Series or DataFrame
            Numbers, or rows of numbers (one column for each).
        ids : array-like of int, optional
            A number for each row that does not depend on its values. Without it rows are numbered as they come.
        nan_policy : {"raise", "omit", "corrupt"}
            What rows with NaN are: an error, missing, or corrupt rows that have been found (infinities too).
        """
        rows, numbers, bad = self._read(chunk, ids, nan_policy)
        if bad is not None:
            rows, numbers = rows[~bad], np.asarray(numbers)[~bad]
            if nan_policy == "corrupt":
                self.n_found_corrupt += int(bad.sum())
            else:
                self.n_omitted += int(bad.sum())
        for part, hashes in self._hashed(numbers):
            hashes %= self.n_blocks
            self._moments.add(rows[part], hashes)
        return self

    def merge(self, other: BlockSummary) -> BlockSummary:
        """Add the rows of another summary with the same number of blocks and the same seed."""
        self._check_like(other)
        if other.shape is not None:
            self._take_over(other)
            self._moments.merge(other._moments)
            self.n_found_corrupt += other.n_found_corrupt
            self.n_omitted += other.n_omitted
        return self

    def result(
        self,
        contamination: Allowed = 0.01,
        confidence: float = 0.95,
        assume: Any = None,
        vote: str = "median",
        *,
        alternative: Alternative = "two-sided",
        simultaneous: bool = False,
    ) -> RobustEstimate:
        """Let the blocks vote on the mean, or on that of every column; parameters as for `outvote.mean`."""
        if self.n_rows == 0:
            raise ValueError("the summary has no rows yet: update it first")
        settings = Settings.check(contamination, confidence, vote, "hash", "raise", "drop", alternative, self.seed)
        assumed = per_column(assume, self._moments.means.shape[1])
        ask = settings.ask(len(assumed) if simultaneous else 1)
        # With fewer rows than blocks, the blocks that have one vote.
        n_blocks = min(self.n_blocks, self.n_rows)
        plan = settings.plan(self.n_rows, settings.allowed.count(self.n_rows), n_blocks, assumed, ask)
        return self.concluded(settings, plan, assumed, ask)

    def voted(self, plan: BlockPlan, assumed: Sequence[Any], ask: Ask) -> Voted:
        """Let the blocks vote, as planned: for those that write results."""
        if self.n_found_corrupt > plan.n_corrupt:
            raise MoreCorruptRows(
                self.n_found_corrupt,
                f"there are NaN or infinite values in {self.n_found_corrupt} rows, more than the {plan.n_corrupt} "
                "corrupt rows that contamination allows among "
                f"{plan.n_rows}: {advice(self.n_found_corrupt, plan.n_rows)}",
            )
        keep = self.counts > 0
        plan, voting = voters(plan, self.counts, keep), self._moments.take(keep)
        values = voting.means.reshape(-1, *(self.shape or ()))
        spread = SpreadOfBlocks(voting.counts, voting.means, voting.m2)
        return Voted(plan, voting.counts, values, *vote_on_means(plan, voting.counts, values, assumed, ask, spread))

    def concluded(
        self, settings: Settings, plan: BlockPlan, assumed: Sequence[Any], ask: Ask, detail: str = ""
    ) -> RobustEstimate:
        """Let the blocks vote, as planned, and write the result."""
        voted, shape = self.voted(plan, assumed, ask), self.shape or ()
        return settings.result(
            voted.centre,
            voted.values,
            voted.plan,
            [voted.sizes],
            replace(voted.certificate, **settings.promised),
            bounds=bounds_of(assumed, shape),
            statistic="mean",
            names=self.names if shape else None,
            n_omitted=self.n_omitted + self.n_found_corrupt,
            detail=detail,
        )

    @classmethod
    def of_blocks(
        cls, n_blocks: int, seed: int, blocks: ArrayLike, counts: ArrayLike, means: ArrayLike, m2: ArrayLike
    ) -> BlockSummary:
        """Build a summary from the blocks that an engine has summed up; those it does not name are empty."""
        summary = cls(n_blocks, seed)
        columns = np.asarray(means, dtype=np.float64)
        summary.shape = columns.shape[1:]
        flat = columns.reshape(len(columns), -1)
        moments = summary._moments = Moments(summary.n_blocks, flat.shape[1])
        where = np.asarray(blocks, dtype=np.int64)
        moments.counts[where] = counts
        moments.means[where], moments.m2[where] = flat, np.asarray(m2, dtype=np.float64).reshape(flat.shape)
        summary._seen = int(moments.counts.sum())
        return summary

    def _header(self) -> dict[str, Any]:
        return {**super()._header(), "n_found_corrupt": self.n_found_corrupt, "n_omitted": self.n_omitted}

    @classmethod
    def _of_header(cls, header: Mapping[str, Any]) -> Self:
        summary = cls(header["n_blocks"], _whole(header["seed"]))
        summary.n_found_corrupt, summary.n_omitted = (_whole(header[key]) for key in ("n_found_corrupt", "n_omitted"))
        return summary


class GroupedBlockSummary(_Summary):
    """A `BlockSummary` for each group of rows, all with one seed.

    Parameters
    ----------
    n_blocks : int or dict
        Blocks of each group (K), or a number for every group by its label (a tuple of labels where there are several
        keys). A group with few rows has as many blocks as the hash fills.
    seed : int
        Seed of the hash.

    Notes
    -----
    Memory: that of a `BlockSummary` for each group.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x, city = np.arange(1000.0), np.repeat(["Bonn", "Köln"], 500)
    >>> summary = ov.GroupedBlockSummary(n_blocks=21, seed=0).update(x, city)
    >>> {key: round(r.estimate) for key, r in summary.results(contamination=2).items()}
    {'Bonn': 251, 'Köln': 756}
    """

    def __init__(self, n_blocks: int | Mapping[Any, int], seed: int = 0):
        super().__init__(seed)
        self.n_blocks = (
            {key: _number_of_blocks(k) for key, k in n_blocks.items()}
            if isinstance(n_blocks, Mapping)
            else _number_of_blocks(n_blocks)
        )
        self._firsts: dict[Hashable, int] = {}  # a group's first cell
        self._cells = 0
        self._found: dict[Hashable, list[int]] = {}  # rows found corrupt, rows omitted

    def __repr__(self) -> str:
        return f"GroupedBlockSummary({self._moments.counts.sum()} rows in {len(self.keys)} groups, seed={self.seed})"

    @property
    def keys(self) -> tuple[Hashable, ...]:
        """The groups, in the order they came; tuples where there are several keys."""
        return tuple(self._firsts)

    def _n_cells(self) -> int:
        return self._cells

    def _blocks_of(self, key: Hashable) -> int:
        if not isinstance(self.n_blocks, dict):
            return int(self.n_blocks)
        if key not in self.n_blocks:
            there = ", ".join(map(repr, list(self.n_blocks)[:10]))
            raise ValueError(f"n_blocks has no entry for the group {key!r}: it has {there}")
        return int(self.n_blocks[key])

    def _admit(self, keys: Sequence[Hashable]) -> None:
        """Make room for groups that are new."""
        for key in keys:
            if key not in self._firsts:
                self._firsts[key], self._cells = self._cells, self._cells + self._blocks_of(key)
                self._found[key] = [0, 0]
        self._moments.grow(self._cells)

    def _cells_of(self, key: Hashable) -> Integers:
        return self._firsts[key] + np.arange(self._blocks_of(key))

    def update(
        self, chunk: ArrayLike, groups: Any, ids: ArrayLike | None = None, *, nan_policy: NanPolicy = "raise"
    ) -> GroupedBlockSummary:
        """Add rows, each to the group that `groups` names: an array of labels, or a tuple of such arrays."""
        keys, which = group_codes(groups)
        blocks = np.array([self._blocks_of(key) for key in keys], dtype=np.int64)
        rows, numbers, bad = self._read(chunk, ids, nan_policy, len(which))
        self._admit(keys)
        if bad is not None:
            for key, n_bad in zip(keys, np.bincount(which[bad], minlength=len(keys)).tolist(), strict=True):
                self._found[key][nan_policy != "corrupt"] += n_bad
            rows, numbers, which = rows[~bad], np.asarray(numbers)[~bad], which[~bad]
        firsts = np.array([self._firsts[key] for key in keys], dtype=np.int64)
        for part, hashes in self._hashed(numbers):
            self._moments.add(rows[part], firsts[which[part]] + hashes % blocks[which[part]])
        return self

    def _same_blocks(self, other: Any) -> bool:
        """Where every group has its own number, those that both know must agree."""
        if isinstance(self.n_blocks, dict) and isinstance(other.n_blocks, dict):
            return all(self.n_blocks.get(key, k) == k for key, k in other.n_blocks.items())
        return super()._same_blocks(other)

    def merge(self, other: GroupedBlockSummary) -> GroupedBlockSummary:
        """Add the groups of another summary with the same numbers of blocks and the same seed."""
        self._check_like(other)
        if isinstance(self.n_blocks, dict):
            self.n_blocks = {**self.n_blocks, **other.n_blocks}
        if other.shape is None:
            return self
        self._take_over(other)
        self._admit(other.keys)
        for key, counts in other._found.items():
            self._found[key] = [a + b for a, b in zip(self._found[key], counts, strict=True)]
        if other.keys:
            self._moments.merge(other._moments, np.concatenate([self._cells_of(key) for key in other.keys]))
        return self

    def group(self, key: Hashable) -> BlockSummary:
        """Return the summary of one group."""
        if key not in self._firsts:
            raise KeyError(f"no group is called {key!r}: there are {', '.join(map(repr, self.keys[:10]))}")
        summary = BlockSummary(self._blocks_of(key), self.seed)
        summary.shape, summary.names = self.shape, self.names
        summary._moments = self._moments.take(self._cells_of(key))
        summary.n_found_corrupt, summary.n_omitted = self._found[key]
        summary._seen = summary.n_rows + summary.n_omitted
        return summary

    def results(
        self, contamination: Allowed = 0.01, confidence: float = 0.95, **options: Any
    ) -> dict[Any, RobustEstimate]:
        """Let the blocks of each group vote: a count of corrupt rows and the confidence are those of each group."""
        found = {}
        for key in self._firsts:
            try:
                found[key] = self.group(key).result(contamination, confidence, **options)
            except ValueError as error:
                raise ValueError(f"group {key!r}: {error}") from error
        return found

    def _header(self) -> dict[str, Any]:
        k = self.n_blocks
        blocks = [[_written(key), n] for key, n in k.items()] if isinstance(k, dict) else k
        groups = [[_written(key), *self._found[key]] for key in self.keys]
        return {**super()._header(), "n_blocks": blocks, "groups": groups}

    @classmethod
    def _of_header(cls, header: Mapping[str, Any]) -> Self:
        blocks = header["n_blocks"]
        if isinstance(blocks, list):
            blocks = {_label(key): k for key, k in blocks}
        summary = cls(blocks, _whole(header["seed"]))
        groups = {_label(key): [_whole(n) for n in counts] for key, *counts in header["groups"]}
        if len(groups) != len(header["groups"]) or any(len(counts) != 2 for counts in groups.values()):
            raise ValueError("groups are not told apart")
        summary._admit(list(groups))
        summary._found = dict(groups)
        return summary

    def _places(self) -> dict[str, NDArray[Any]]:
        sizes = [self._blocks_of(key) for key in self.keys] if self.shape is not None else []
        groups, blocks = np.repeat(np.arange(len(sizes)), sizes), [np.arange(k) for k in sizes]
        return {"group": groups, "block": np.concatenate([np.empty(0, dtype=np.int64), *blocks])}


class _Refused(ValueError):
    """What was given to be read is refused, with words of our own."""


@contextlib.contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Refuse whatever is not a summary in the same words, wherever it goes wrong."""
    try:
        yield
    except _Refused as error:
        raise ValueError(str(error)) from None
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error) as error:
        raise ValueError(f"this is not a {name}: {type(error).__name__}: {error}") from None


def _whole(value: Any, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{value!r} is not a whole number of at least {least}")
    return value


def _written(label: Any) -> Any:
    """Write a group's label so that JSON keeps what it is."""
    if isinstance(label, tuple):
        return [_written(one) for one in label]
    if type(label) in (datetime.datetime, datetime.date):
        return {type(label).__name__: label.isoformat()}
    if type(label) not in (str, int, float, bool):
        raise TypeError(f"the group {label!r} cannot be written: labels are text, numbers, booleans and dates")
    return label


def _label(written: Any) -> Any:
    """Read what `_written` wrote."""
    if isinstance(written, list):
        return tuple(map(_label, written))
    if isinstance(written, dict):
        ((kind, text),) = written.items()
        return {"datetime": datetime.datetime, "date": datetime.date}[kind].fromisoformat(text)
    return written


def _number_of_blocks(n_blocks: Any) -> int:
    if isinstance(n_blocks, bool) or not isinstance(n_blocks, (int, np.integer)) or n_blocks < 1:
        raise ValueError(f"n_blocks={n_blocks!r} must be an integer of at least 1")
    return int(n_blocks)


def _row_ids(ids: ArrayLike, n_rows: int) -> Integers:
    numbers = np.asarray(ids)
    if numbers.shape != (n_rows,):
        raise ValueError(f"ids has shape {numbers.shape}, but there are {n_rows} rows: give one integer for each")
    if not np.issubdtype(numbers.dtype, np.integer) and n_rows:
        raise TypeError(f"ids must be integers, not {numbers.dtype}: number the rows, or hash their keys")
    if numbers.dtype.kind == "u" and n_rows and int(numbers.max()) >= 2**63:
        raise ValueError(f"ids has {int(numbers.max())}: row numbers are below 2**63")
    return numbers.astype(np.int64, copy=False)


def group_codes(groups: Any) -> tuple[list[Hashable], NDArray[np.intp]]:
    """Return the distinct labels, and which of them each row has."""
    several = list(groups) if isinstance(groups, tuple) else [groups]
    if not several:
        raise ValueError("groups=() names no key: give an array of labels, or a tuple of such arrays")
    found = [_codes(one) for one in several]
    lengths = {len(inverse) for _, inverse in found}
    if len(lengths) > 1:
        raise ValueError(f"groups has keys of different lengths: {sorted(lengths)}")
    if len(found) == 1:
        return found[0]
    codes, which = np.unique(np.stack([inverse for _, inverse in found]), axis=1, return_inverse=True)
    labels = [values for values, _ in found]
    return [tuple(labels[k][code] for k, code in enumerate(one)) for one in codes.T.tolist()], which.reshape(-1)


def _codes(labels: Any) -> tuple[list[Hashable], NDArray[np.intp]]:
    """Return the distinct labels of one key, as Python's own values, and which of them each row has."""
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"groups has shape {array.shape}: give one label for each row, several keys as a tuple")
    if array.dtype.kind in "biufUS":
        values, inverse = np.unique(array, return_inverse=True)
        items: list[Any] = values.tolist()
    else:
        if array.dtype.kind in "mM" and (array == array.astype(f"{array.dtype.kind}8[us]")).all():
            # Finer units than Python's would turn into integers; days stay days.
            array = array if array.dtype.str.endswith("[D]") else array.astype(f"{array.dtype.kind}8[us]")
        known: dict[Any, int] = {}
        given = list(array) if array.dtype.str.endswith("[ns]") else array.tolist()
        try:
            codes = [known.setdefault(item, len(known)) for item in given]
        except TypeError:
            raise TypeError(
                "groups has labels that cannot be told apart: give text, numbers, booleans or dates"
            ) from None
        inverse = np.array(codes, dtype=np.intp)
        items = list(known)
    if any(item is None or item != item for item in items):
        raise ValueError("groups has None or NaN among its labels: every row needs a label")
    return items, inverse.reshape(-1)
