"""The class `GroupedBlockSummary`: a block summary for each group of rows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.data.arguments import MOST
from outvote.data.groups import group_codes, read_label, write_label
from outvote.data.missing import NanPolicy
from outvote.data.rows import refuse_masked
from outvote.estimate.request import Allowed
from outvote.estimate.result import RobustEstimate
from outvote.estimate.summary.base import Summary, number_of_blocks
from outvote.estimate.summary.block import BlockSummary
from outvote.estimate.summary.moments import Integers, check_room
from outvote.estimate.summary.serialise import whole


class GroupedBlockSummary(Summary):
    """A `BlockSummary` for each group of rows, all with the same seed.

    Parameters
    ----------
    n_blocks : int or dict
        Number of blocks (K) of every group, or a dict from the label of a group (a tuple if there are several keys) to
        its number of blocks. In a group with few rows only the blocks with rows vote.
    seed : int
        Seed of the hash.

    Notes
    -----
    It takes the memory of a `BlockSummary` for each group, 2 GiB at most.

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
            {key: number_of_blocks(k) for key, k in n_blocks.items()}
            if isinstance(n_blocks, Mapping)
            else number_of_blocks(n_blocks)
        )
        self._firsts: dict[Hashable, int] = {}  # a group's first cell
        self._cells = 0
        self._found: dict[Hashable, list[int]] = {}  # rows found corrupt, rows omitted

    def __repr__(self) -> str:
        return f"GroupedBlockSummary({self.moments.counts.sum()} rows in {len(self.keys)} groups, seed={self.seed})"

    @property
    def keys(self) -> tuple[Hashable, ...]:
        """The groups in order of first appearance; tuples if there are several keys."""
        return tuple(self._firsts)

    def _n_cells(self) -> int:
        return self._cells

    def _blocks_of(self, key: Hashable) -> int:
        if not isinstance(self.n_blocks, dict):
            return int(self.n_blocks)
        if key not in self.n_blocks:
            there = ", ".join(map(repr, list(self.n_blocks)[:10]))
            raise ValueError(f"n_blocks has no entry for the group {key!r}: it has entries for {there}")
        return int(self.n_blocks[key])

    def _admit(self, keys: Sequence[Hashable]) -> None:
        """Add cells for new groups."""
        self._number_cells(keys)
        self.moments.grow(self._cells)

    def _number_cells(self, keys: Sequence[Hashable]) -> None:
        """Say which cells new groups have, which need not be there yet."""
        for key in keys:
            if key not in self._firsts:
                self._firsts[key], self._cells = self._cells, self._cells + self._blocks_of(key)
                self._found[key] = [0, 0]

    def _cells_with(self, keys: Sequence[Hashable], blocks: Sequence[int] | Integers) -> int:
        """Return how many cells there are with those of groups that may be new."""
        return self._cells + sum(int(k) for key, k in zip(keys, blocks, strict=True) if key not in self._firsts)

    def _cells_of(self, key: Hashable) -> Integers:
        return self._firsts[key] + np.arange(self._blocks_of(key))

    def update(
        self, chunk: ArrayLike, groups: Any, ids: ArrayLike | None = None, *, nan_policy: NanPolicy = "raise"
    ) -> GroupedBlockSummary:
        """Add rows to their groups; `groups` is an array of labels, or a tuple of such arrays."""
        for labels in groups if isinstance(groups, tuple) else (groups,):
            refuse_masked(labels, "groups", "a label for every row")
        keys, which = group_codes(groups)
        blocks = np.array([self._blocks_of(key) for key in keys], dtype=np.int64)
        rows, numbers, bad = self._read(chunk, ids, nan_policy, self._cells_with(keys, blocks), len(which))
        self._admit(keys)
        if bad is not None:
            for key, n_bad in zip(keys, np.bincount(which[bad], minlength=len(keys)).tolist(), strict=True):
                self._found[key][nan_policy != "corrupt"] += n_bad
            rows, numbers, which = rows[~bad], np.asarray(numbers)[~bad], which[~bad]
        firsts = np.array([self._firsts[key] for key in keys], dtype=np.int64)
        for part, hashes in self._hashed(numbers):
            self.moments.add(rows[part], firsts[which[part]] + hashes % blocks[which[part]])
        return self

    def _same_blocks(self, other: Any) -> bool:
        """Return whether the numbers of blocks agree; if they are dicts, for the groups that are in both."""
        if isinstance(self.n_blocks, dict) and isinstance(other.n_blocks, dict):
            return all(self.n_blocks.get(key, k) == k for key, k in other.n_blocks.items())
        return super()._same_blocks(other)

    def merge(self, other: GroupedBlockSummary) -> GroupedBlockSummary:
        """Add the groups of another summary with the same numbers of blocks and the same seed."""
        self._check_like(other)
        if other.shape is not None:
            n_cells = self._cells_with(other.keys, [other._blocks_of(key) for key in other.keys])
            check_room(self.n_blocks, n_cells, other.moments.means.shape[1])
        if isinstance(self.n_blocks, dict):
            self.n_blocks = {**self.n_blocks, **other.n_blocks}
        if other.shape is None:
            return self
        self._take_over(other)
        self._admit(other.keys)
        for key, counts in other._found.items():
            self._found[key] = [a + b for a, b in zip(self._found[key], counts, strict=True)]
        if other.keys:
            self.moments.merge(other.moments, np.concatenate([self._cells_of(key) for key in other.keys]))
        return self

    def group(self, key: Hashable) -> BlockSummary:
        """Return the summary of one group."""
        if key not in self._firsts:
            raise KeyError(f"no group is called {key!r}: the groups are {', '.join(map(repr, self.keys[:10]))}")
        summary = BlockSummary(self._blocks_of(key), self.seed)
        summary.shape, summary.names = self.shape, self.names
        summary.moments = self.moments.take(self._cells_of(key))
        summary.n_found_corrupt, summary.n_omitted = self._found[key]
        summary._seen = summary.n_rows + summary.n_omitted
        return summary

    def results(
        self, contamination: Allowed = 0.01, confidence: float = 0.95, **options: Any
    ) -> dict[Any, RobustEstimate]:
        """Estimate the mean of each group; `contamination` and `confidence` apply to each group."""
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
            blocks = {key: whole(k, 1) for key, (k,) in _labelled(blocks, 1).items()}
        else:
            blocks = whole(blocks, 1)
        summary = cls(blocks, whole(header["seed"]))
        groups = {key: [whole(n, most=MOST) for n in counts] for key, counts in _labelled(header["groups"], 2).items()}
        if groups and header["shape"] is None:
            raise ValueError("there are groups without columns")
        check_room(blocks, summary._cells_with(list(groups), [summary._blocks_of(key) for key in groups]))
        summary._number_cells(list(groups))
        summary._found = dict(groups)
        return summary

    def _n_bad(self) -> int:
        return sum(map(sum, self._found.values()))

    def _places(self) -> dict[str, NDArray[Any]]:
        sizes = [self._blocks_of(key) for key in self.keys] if self.shape is not None else []
        groups, blocks = np.repeat(np.arange(len(sizes)), sizes), [np.arange(k) for k in sizes]
        return {"group": groups, "block": np.concatenate([np.empty(0, dtype=np.int64), *blocks])}


def _labelled(lines: Any, n_numbers: int) -> dict[Hashable, list[Any]]:
    """Return the numbers of a document that stand behind the labels of groups."""
    if not isinstance(lines, list) or not all(isinstance(one, list) and len(one) == 1 + n_numbers for one in lines):
        raise ValueError(f"groups are not lists of a label and {n_numbers} numbers")
    found = {read_label(written): numbers for written, *numbers in lines}
    if len(found) != len(lines) or any(label != label for label in found):
        raise ValueError("two groups have the same label, or a label is NaN")
    for label in found:
        write_label(label)  # refuses labels of other kinds
    return found
