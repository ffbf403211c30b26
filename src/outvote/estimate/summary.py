"""Blocks of rows in numbers: how many, their mean, and their squares around it; updated, merged, and voted on.

It is what every engine computes, one chunk, file, partition or worker at a time: the rows themselves are not kept.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.blocks.partition import hash_rows, seed_of
from outvote.blocks.plan import BlockPlan
from outvote.data.groups import group_codes, read_label, write_label
from outvote.data.rows import MoreCorruptRows, NanPolicy, advice, check_nan_policy, read, screen
from outvote.estimate.certify import Ask, Voted, vote_on_means
from outvote.estimate.moments import Floats, Integers, Moments
from outvote.estimate.pipeline import Allowed, Settings, bounds_of, per_column, voters
from outvote.estimate.result import RobustEstimate
from outvote.estimate.scales import SpreadOfBlocks
from outvote.estimate.serialise import Written, whole
from outvote.votes import Alternative

#: Rows added up at once, at least: temporaries stay in the cache, and rounding errors small.
_ROWS = 2**17


class _Summary(Written):
    """What the two summaries share: a number of blocks, a seed, moments, and the rows seen so far."""

    def __init__(self, seed: int):
        self.seed = seed_of(seed)
        self.names = self.shape = None
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
        summary = cls(header["n_blocks"], whole(header["seed"]))
        summary.n_found_corrupt, summary.n_omitted = (whole(header[key]) for key in ("n_found_corrupt", "n_omitted"))
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
        blocks = [[write_label(key), n] for key, n in k.items()] if isinstance(k, dict) else k
        groups = [[write_label(key), *self._found[key]] for key in self.keys]
        return {**super()._header(), "n_blocks": blocks, "groups": groups}

    @classmethod
    def _of_header(cls, header: Mapping[str, Any]) -> Self:
        blocks = header["n_blocks"]
        if isinstance(blocks, list):
            blocks = {read_label(key): k for key, k in blocks}
        summary = cls(blocks, whole(header["seed"]))
        groups = {read_label(key): [whole(n) for n in counts] for key, *counts in header["groups"]}
        if len(groups) != len(header["groups"]) or any(len(counts) != 2 for counts in groups.values()):
            raise ValueError("groups are not told apart")
        summary._admit(list(groups))
        summary._found = dict(groups)
        return summary

    def _places(self) -> dict[str, NDArray[Any]]:
        sizes = [self._blocks_of(key) for key in self.keys] if self.shape is not None else []
        groups, blocks = np.repeat(np.arange(len(sizes)), sizes), [np.arange(k) for k in sizes]
        return {"group": groups, "block": np.concatenate([np.empty(0, dtype=np.int64), *blocks])}


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
