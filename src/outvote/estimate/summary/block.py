"""The class `BlockSummary`, which every engine computes, one chunk, file, partition or worker at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from outvote.data.arguments import MOST
from outvote.data.missing import NanPolicy
from outvote.estimate.request import Allowed, Request, per_column
from outvote.estimate.result import RobustEstimate
from outvote.estimate.summary.base import Summary, number_of_blocks
from outvote.estimate.summary.conclude import conclude_summary
from outvote.estimate.summary.moments import Floats, Integers, Moments, check_room
from outvote.estimate.summary.serialise import whole
from outvote.votes import Alternative


class BlockSummary(Summary):
    """Count, mean and M2 of K blocks of rows: a robust mean of data that come in chunks, files or from workers.

    A row goes into the block ``hash(row id, seed) mod K``, whatever its value. So the same rows give the same blocks on
    every engine and in every order: the blocks of ``outvote.mean(..., partition="hash")``.

    Parameters
    ----------
    n_blocks : int
        Number of blocks (K): more than twice the number of corrupt rows to be survived, and no more than fit into
        2 GiB, 89 million of one column.
    seed : int
        Seed of the hash.

    Attributes
    ----------
    counts, means, m2 : ndarray
        Rows, mean and sum of squares of each block; `means` and `m2` have one column for each column of the rows.
    n_rows : int
        Number of usable rows, including corrupt ones.
    n_found_corrupt, n_omitted : int
        Rows with NaN or infinite values that were counted as corrupt, or left out as missing.

    Notes
    -----
    A summary takes 24 bytes per block, and 16 more for every further column, for any number of rows.

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
        self.n_blocks = number_of_blocks(n_blocks)
        self.n_found_corrupt = self.n_omitted = 0

    def __repr__(self) -> str:
        return f"BlockSummary({self.n_rows} rows in {self.n_blocks} blocks, seed={self.seed})"

    def _n_cells(self) -> int:
        return self.n_blocks

    @property
    def counts(self) -> Integers:
        """Rows in each block."""
        return self.moments.counts if self.shape is not None else np.zeros(self.n_blocks, dtype=np.int64)

    @property
    def means(self) -> Floats:
        """Mean of each block."""
        return self.moments.means.reshape(-1, *(self.shape or ()))

    @property
    def m2(self) -> Floats:
        """Sum of squares around the mean of each block."""
        return self.moments.m2.reshape(-1, *(self.shape or ()))

    @property
    def n_rows(self) -> int:
        """Number of usable rows, including corrupt ones."""
        return int(self.moments.counts.sum()) + self.n_found_corrupt

    def update(
        self, chunk: ArrayLike, ids: ArrayLike | None = None, *, nan_policy: NanPolicy = "raise"
    ) -> BlockSummary:
        """Add rows, which are not kept; an error leaves the summary unchanged.

        Parameters
        ----------
        chunk : array-like, Series or DataFrame
            Numbers (1-D), or rows of numbers (2-D).
        ids : array-like of int, optional
            A number for each row that does not depend on its values. By default rows are numbered in their order.
        nan_policy : {"raise", "omit", "corrupt"}
            Whether rows with NaN are an error, missing, or corrupt (as are rows with infinite values).
        """
        rows, numbers, bad = self._read(chunk, ids, nan_policy, self.n_blocks)
        if bad is not None:
            rows, numbers = rows[~bad], np.asarray(numbers)[~bad]
            if nan_policy == "corrupt":
                self.n_found_corrupt += int(bad.sum())
            else:
                self.n_omitted += int(bad.sum())
        for part, hashes in self._hashed(numbers):
            hashes %= self.n_blocks
            self.moments.add(rows[part], hashes)
        return self

    def merge(self, other: BlockSummary) -> BlockSummary:
        """Add the rows of another summary with the same number of blocks and the same seed."""
        self._check_like(other)
        if other.shape is not None:
            self._take_over(other)
            self.moments.merge(other.moments)
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
        """Estimate the mean of every column by the vote of the blocks; parameters as for `outvote.mean`."""
        if self.n_rows == 0:
            raise ValueError("the summary has no rows yet: update it first")
        request = Request.read(
            contamination, confidence, vote=vote, partition="hash", alternative=alternative, rng=self.seed,
            # If there are fewer rows than blocks, only blocks with rows vote.
            n_blocks=min(self.n_blocks, self.n_rows),
        )  # fmt: skip
        assumed = per_column(assume, self.moments.means.shape[1])
        terms = request.terms.shared(len(assumed) if simultaneous else 1)
        return conclude_summary(self, request, request.plan_mean(self.n_rows, assumed, terms), assumed, terms)

    @classmethod
    def of_blocks(
        cls, n_blocks: int, seed: int, blocks: ArrayLike, counts: ArrayLike, means: ArrayLike, m2: ArrayLike
    ) -> BlockSummary:
        """Return a summary of blocks that an engine has summed up; blocks that are not given are empty."""
        summary = cls(n_blocks, seed)
        columns = np.asarray(means, dtype=np.float64)
        summary.shape = columns.shape[1:]
        flat = columns.reshape(len(columns), -1)
        check_room(n_blocks, summary.n_blocks, flat.shape[1])
        moments = summary.moments = Moments(summary.n_blocks, flat.shape[1])
        where = np.asarray(blocks, dtype=np.int64)
        moments.counts[where] = counts
        moments.means[where], moments.m2[where] = flat, np.asarray(m2, dtype=np.float64).reshape(flat.shape)
        summary._seen = int(moments.counts.sum())
        return summary

    def _header(self) -> dict[str, Any]:
        return {**super()._header(), "n_found_corrupt": self.n_found_corrupt, "n_omitted": self.n_omitted}

    def _n_bad(self) -> int:
        return self.n_found_corrupt + self.n_omitted

    @classmethod
    def _of_header(cls, header: Mapping[str, Any]) -> Self:
        summary = cls(whole(header["n_blocks"], 1), whole(header["seed"]))
        summary.n_found_corrupt, summary.n_omitted = (
            whole(header[key], most=MOST) for key in ("n_found_corrupt", "n_omitted")
        )
        return summary
