"""The base class of summaries: read chunks, hash row ids, and check that two summaries can be merged."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.blocks.hashing import hash_rows
from outvote.blocks.partition import seed_of
from outvote.data.arguments import MOST, check_choice, whole_per_sample
from outvote.data.missing import NanPolicy, screen
from outvote.data.rows import read, refuse_masked
from outvote.estimate.summary.moments import Integers, Moments, check_room
from outvote.estimate.summary.serialise import Serialised

#: At least this many rows are added at once, so that temporaries stay in the cache and rounding errors are small.
_ROWS = 2**17


class Summary(Serialised):
    """The base class of both summaries: a number of blocks, a seed, moments, and the number of rows seen so far."""

    def __init__(self, seed: int):
        self.seed = seed_of(seed)
        self.names = self.shape = None
        self._seen = 0
        self.moments = Moments(0, 0)

    def _read(
        self, chunk: ArrayLike, ids: ArrayLike | None, nan_policy: NanPolicy, n_cells: int, n_labels: int | None = None
    ) -> tuple[NDArray[Any], range | Integers, NDArray[np.bool_] | None]:
        """Return the rows (2-D), their numbers, and a mask of rows with NaN or infinite values, or None.

        They need `n_cells` cells. An error leaves the summary unchanged.
        """
        check_choice("nan_policy", nan_policy, NanPolicy)
        values, names = read(chunk, "chunk")
        if 0 in values.shape[1:]:
            raise ValueError(f"chunk has shape {values.shape}: there are no columns to sum up")
        if n_labels not in (None, len(values)):
            raise ValueError(f"groups has {n_labels} labels for {len(values)} rows")
        if self.shape is not None and values.shape[1:] != self.shape:
            raise ValueError(f"chunk has rows of shape {values.shape[1:]}, but earlier rows had shape {self.shape}")
        if None not in (names, self.names) and tuple(names or ()) != self.names:
            raise ValueError(f"chunk has the columns {tuple(names or ())!r}, but earlier chunks had {self.names!r}")
        numbers = range(self._seen, self._seen + len(values)) if ids is None else _row_ids(ids, len(values))
        rows, bad = values.reshape(len(values), math.prod(values.shape[1:])), None
        check_room(self.n_blocks, n_cells, rows.shape[1])
        self._check_seen(len(rows))
        if rows.dtype == np.float16:
            rows = rows.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            clean = rows.dtype.kind != "f" or bool(np.isfinite(rows.sum(dtype=np.float64)))
        if not clean:
            bad = ~np.isfinite(rows).all(axis=1)
            missing = np.isnan(rows).any(axis=1)
            if nan_policy == "raise" or (nan_policy == "omit" and (bad & ~missing).any()):
                screen(rows, nan_policy, 0, "chunk")  # raises unless the sum has just overflowed
        if self.shape is None:
            self.shape = values.shape[1:]
            self.moments = Moments(self._n_cells(), rows.shape[1])
        self.names = self.names or (tuple(names) if names else None)
        self._seen += len(values)
        return rows, numbers, bad if bad is not None and bad.any() else None

    def _hashed(self, numbers: range | Integers) -> Iterator[tuple[slice, Integers]]:
        """Yield the hashes of row numbers part by part; the memory is reused for the next part."""
        step, n_rows = max(_ROWS, 4 * self._n_cells()), len(numbers)
        hashes = np.empty(min(step, n_rows), dtype=np.int64)
        counted = np.arange(numbers.start, numbers.start + len(hashes)) if isinstance(numbers, range) else hashes
        for low in range(0, n_rows, step):
            part = slice(low, min(low + step, n_rows))
            ids = counted[: part.stop - low] if isinstance(numbers, range) else numbers[part]
            yield part, hash_rows(ids, self.seed, out=hashes[: part.stop - low])
            if isinstance(numbers, range):
                counted += step

    def _check_seen(self, more: int) -> None:
        if self._seen + more > MOST:
            raise ValueError(f"{self._seen} and {more} rows are more than a summary can count: at most {MOST}")

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
        self._check_seen(other._seen)

    def _take_over(self, other: Any) -> None:
        if self.shape is None:
            self.shape = other.shape
            self.moments = Moments(self._n_cells(), other.moments.means.shape[1])
        self.names = self.names or other.names
        self._seen += other._seen


def number_of_blocks(n_blocks: Any) -> int:
    """Return a checked number of blocks."""
    (number,) = whole_per_sample("n_blocks", n_blocks, 1)
    check_room(number, number)
    return number


def _row_ids(ids: ArrayLike, n_rows: int) -> Integers:
    refuse_masked(ids, "ids", "a number for every row")
    numbers = np.asarray(ids)
    if numbers.shape != (n_rows,):
        raise ValueError(f"ids has shape {numbers.shape}, but there are {n_rows} rows: give one integer for each")
    if not np.issubdtype(numbers.dtype, np.integer) and n_rows:
        raise TypeError(f"ids must be integers, not {numbers.dtype}: number the rows, or hash their keys")
    if numbers.dtype.kind == "u" and n_rows and int(numbers.max()) >= 2**63:
        raise ValueError(f"ids has {int(numbers.max())}: row numbers must be below 2**63")
    return numbers.astype(np.int64, copy=False)
