"""Robust scales: what stands in for a known one, and makes a radius a plug-in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.blocks.partition import Partition, blocks_by_size
from outvote.data.tensors import is_tensor, rows_of, to_host
from outvote.kernels.variance import VARIANCE
from outvote.votes import mad, median_of

Floats = NDArray[np.float64]

#: Values looked at to estimate a scale; more rows would only make it more precise.
_SCALE_VALUES = 2**14
#: 1 / Φ⁻¹(3/4): makes the median absolute deviation estimate the sd of a normal law.
_NORMAL_MAD = 1.482602218505602


def robust_sd(rows: NDArray[Any], n_corrupt: int, seed: int, order: NDArray[np.intp] | None = None) -> Floats | float:
    """Estimate the standard deviation of each column: the median of block variances, made normal-consistent.

    The blocks are drawn for pairs, uniformly, from at most some ten thousand values; the median of variances of B
    normal rows is below σ² by the factor that is divided out. Where the contamination leaves no blocks of two rows the
    median absolute deviation stands in. A scale of 0 says nothing, and is infinite here. `order`, a permutation of the
    rows drawn before, saves drawing one.
    """
    columns = rows.reshape(len(rows), -1)
    n_rows = min(len(rows), max(1024, _SCALE_VALUES // columns.shape[1]))
    share = n_corrupt / len(rows)
    if n_rows < len(rows):
        order = np.random.default_rng([7, seed]).integers(len(rows), size=n_rows)
        n_corrupt = min(n_corrupt, math.ceil(n_rows * share + 4 * math.sqrt(n_rows * share)))
    elif order is None or len(order) < n_rows:
        order = np.random.default_rng([7, seed]).permutation(n_rows)
    if is_tensor(columns):
        columns, order = to_host(rows_of(columns, order)), np.arange(n_rows)
    if 2 * n_corrupt + 1 > n_rows // 2:
        sd = _NORMAL_MAD * mad(columns[order].astype(np.float64, copy=False))
    else:
        n_blocks = min(n_rows // 2, 4 * n_corrupt + math.ceil(4 * math.sqrt(n_corrupt)) + 9)
        size = n_rows // n_blocks
        variances = _variances(columns, order[: size * n_blocks], size)
        sd = np.sqrt(median_of(variances) / _median_of_normal_variance(size))
    return np.where(sd > 0, sd, math.inf).reshape(rows.shape[1:])


def _variances(columns: NDArray[Any], order: NDArray[np.intp], size: int) -> Floats:
    """Variance of each column in each block of so many rows, (blocks, columns)."""
    if columns.shape[1] > 1:
        ready = _numba.compiled(1e-8 * order.size * columns.shape[1]) if columns.dtype.isnative else None
        with np.errstate(all="ignore"):
            values: Floats = (
                columns[order].astype(np.float64, copy=False).reshape(-1, size, columns.shape[1]).var(axis=1, ddof=1)
                if ready is None
                else ready.variances_of_rows(columns, order, size)
            )
        if np.all((values > 1e-200) & (values < 1e200)):
            return values
    stack = columns[order].astype(np.float64, copy=False).T.reshape(-1, size)
    return VARIANCE.aligned(stack).reshape(columns.shape[1], -1).T


class Spread(Protocol):
    """What stands in for the scale of the clean rows where no assumption names it, for each column."""

    def sds(self) -> Floats:
        """Robust standard deviations of the columns; infinite where there is none."""

    def block_variance(self, column: int) -> float:
        """Median over the blocks of the variance inside a block."""


@dataclass(frozen=True)
class SpreadOfRows:
    """The spread of rows in memory, dealt into blocks."""

    rows: NDArray[Any]
    dealt: Partition
    n_corrupt: int
    seed: int

    def sds(self) -> Floats:
        """Robust standard deviations of the columns, from rows dealt for the purpose."""
        return np.ravel(robust_sd(self.rows, self.n_corrupt, self.seed, self.dealt.order))

    def block_variance(self, column: int) -> float:
        """Median over the blocks of the variance inside a block."""
        rows = self.rows.reshape(len(self.rows), -1)[:, column]
        if is_tensor(rows):
            from outvote.torch.device.kernels import on_tensors

            return float(median_of(on_tensors(VARIANCE, [rows], [self.dealt], "full")))
        values, rows = np.empty(len(self.dealt)), rows.astype(np.float64)
        for blocks in blocks_by_size([self.dealt]):
            values[blocks] = VARIANCE.aligned(self.dealt.stack(rows, blocks))
        return float(median_of(values))


@dataclass(frozen=True)
class SpreadOfBlocks:
    """The spread of rows of which only the moments of their blocks are known, (K, columns) but for the counts."""

    counts: NDArray[Any]
    means: Floats
    m2: Floats

    def sds(self) -> Floats:
        """The median variance inside blocks; where most hold a single row, the spread of their values."""
        size = int(np.median(self.counts))
        with np.errstate(over="ignore", invalid="ignore"):
            if size < 2:
                sds = spread_of(self.means)
            else:
                sds = np.sqrt(self._variances() / _median_of_normal_variance(size))
        return np.where(sds > 0, sds, math.inf)

    def block_variance(self, column: int) -> float:
        """Median over the blocks of the variance inside a block."""
        return float(self._variances()[column])

    def _variances(self) -> Floats:
        several = self.counts >= 2
        return median_of(self.m2[several] / (self.counts[several, None] - 1))


def spread_of(block_values: Floats) -> Floats:
    """Robust sd of one block value, for each column of them; infinite where most agree, which says nothing."""
    sd = _NORMAL_MAD * mad(block_values)
    return np.where(sd > 0, sd, math.inf)


@cache
def _median_of_normal_variance(size: int) -> float:
    """Median of the variance of `size` standard normal rows: a chi-square over its degrees of freedom."""
    half = (size - 1) / 2
    x = half - 1 / 3 + 8 / (405 * half)
    for _ in range(4):  # Newton's method; scipy.special would take longer to import
        terms = np.cumprod(x / (half + np.arange(1.0, 50 + 10 * math.sqrt(half))))  # of the series, over its first
        density = math.exp(half * math.log(x) - x - math.lgamma(half))  # of log x
        x *= math.exp((0.5 - density / half * (1 + float(terms.sum()))) / density)
    return x / half
