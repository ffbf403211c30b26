"""Robust scales: what stands in for a known scale, and makes a radius a plug-in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.partition import Partition, blocks_by_size
from outvote.data.loading import one_at_a_time
from outvote.data.tensors import is_tensor, rows_of, to_host
from outvote.kernels.variance import VARIANCE
from outvote.votes import mad, median_of

Floats = NDArray[np.float64]

#: Values looked at to estimate a scale; more rows would only make it more precise.
_SCALE_VALUES = 2**14
#: 1 / Φ⁻¹(3/4): makes the median absolute deviation estimate the sd of a normal distribution.
_NORMAL_MAD = 1.482602218505602
#: A smaller sum of squares has lost digits; that of rows of a larger size than the second has not.
_FEWEST_DIGITS, _TINY = 2.0**-960, 2.0**-400
#: Values that differ by less, beside their size, are equal.
_ROUNDING = 2.0**-45
#: So many columns are looked at as one is; of more of them fewer rows are.
_FEW_COLUMNS = 64


class Spread(Protocol):
    """What stands in for the scale of values of which none is known, for each column."""

    def sds(self, part: slice, columns: Floats) -> Floats:
        """Return robust standard deviations of some columns, whose block values are given; infinite where none is."""

    def unit_sizes(self, sizes: Sequence[NDArray[Any]], degrees: tuple[int, ...]) -> Sequence[NDArray[Any]]:
        """Return the block sizes at which the radius is in units of these standard deviations."""

    def block_sd(self, column: int) -> float:
        """Return the square root of the median over the blocks of the variance inside a block."""


@dataclass(frozen=True)
class SpreadOfValues:
    """The spread of the block values themselves."""

    def sds(self, part: slice, columns: Floats) -> Floats:
        """Return the robust sd of one block value in each column."""
        return spread_of(columns)

    def unit_sizes(self, sizes: Sequence[NDArray[Any]], degrees: tuple[int, ...]) -> Sequence[NDArray[Any]]:
        """Return blocks of one tuple each, whose values have the sd of the kernel: here the unit."""
        return [np.full(len(size), degree) for size, degree in zip(sizes, degrees, strict=True)]

    def block_sd(self, column: int) -> float:
        """Refuse: block values do not tell how rows vary inside a block."""
        raise NotImplementedError


@dataclass(frozen=True)
class SpreadOfRows:
    """The spread of rows in memory, put into blocks."""

    rows: NDArray[Any]
    drawn: Partition
    n_corrupt: int
    seed: int

    @cached_property
    def _sds(self) -> Floats:
        return np.ravel(robust_sd(self.rows, self.n_corrupt, self.seed, self.drawn.order))

    def sds(self, part: slice, columns: Floats) -> Floats:
        """Return the robust sd of the rows of each column."""
        return self._sds[part]

    def unit_sizes(self, sizes: Sequence[NDArray[Any]], degrees: tuple[int, ...]) -> Sequence[NDArray[Any]]:
        """Return the sizes as they are: the unit is the sd of a row."""
        return sizes

    def block_sd(self, column: int) -> float:
        """Return the square root of the median over the blocks of the variance inside a block."""
        rows = self.rows.reshape(len(self.rows), -1)[:, column]
        if is_tensor(rows):
            with one_at_a_time():
                from outvote.torch.device.kernels import on_tensors

            return math.sqrt(median_of(on_tensors(VARIANCE, [rows], [self.drawn], "full")))
        values, rows = np.empty(len(self.drawn)), rows.astype(np.float64)
        for blocks in blocks_by_size([self.drawn]):
            values[blocks] = sds_in(self.drawn.stack(rows, blocks))
        return float(_quadratic_median(values[:, None])[0])


@dataclass(frozen=True)
class SpreadOfBlocks:
    """The spread of rows of which only the moments of their blocks are known, (K, columns) but for the counts."""

    counts: NDArray[Any]
    means: Floats
    m2: Floats

    def sds(self, part: slice, columns: Floats) -> Floats:
        """Return the median sd inside blocks; where most blocks hold one row, the spread of their values."""
        size = int(np.median(self.counts))
        with np.errstate(over="ignore", invalid="ignore"):
            if size < 2:
                sds = spread_of(self.means)
            else:
                sds = np.sqrt(self._variances / _median_of_normal_variance(size))
        return np.where(sds > 0, sds, math.inf)[part]

    def unit_sizes(self, sizes: Sequence[NDArray[Any]], degrees: tuple[int, ...]) -> Sequence[NDArray[Any]]:
        """Return the sizes as they are: the unit is the sd of a row."""
        return sizes

    def block_sd(self, column: int) -> float:
        """Return the square root of the median over the blocks of the variance inside a block.

        Sums of squares of tiny rows have lost their digits, or all of them: then nothing bounds the sd.
        """
        variance = float(self._variances[column])
        lost = variance < _FEWEST_DIGITS and float(median_of(np.abs(self.means[:, column]))) < _TINY
        return math.inf if lost else math.sqrt(variance)

    @cached_property
    def _variances(self) -> Floats:
        several = self.counts >= 2
        return median_of(self.m2[several] / (self.counts[several, None] - 1))


def robust_sd(rows: NDArray[Any], n_corrupt: int, seed: int, order: NDArray[np.intp] | None = None) -> Floats | float:
    """Estimate the standard deviation of each column: the median of block variances, made normal-consistent.

    The blocks are drawn uniformly from at most some ten thousand values. The median of variances of B normal rows is
    below σ² by a factor that is divided out. Where the contamination leaves no blocks of two rows the median absolute
    deviation stands in. A scale of 0 says nothing, and becomes infinite. `order`, a permutation of the rows drawn
    before, saves drawing one.
    """
    columns = rows.reshape(len(rows), -1)
    n_rows = min(len(rows), _SCALE_VALUES if columns.shape[1] <= _FEW_COLUMNS else 1024)
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
        stack = columns[order[: size * n_blocks]].astype(np.float64, copy=False).T.reshape(-1, size)
        sds = sds_in(stack).reshape(columns.shape[1], -1).T
        sd = _quadratic_median(sds) / math.sqrt(_median_of_normal_variance(size))
    return np.where(sd > 0, sd, math.inf).reshape(rows.shape[1:])


def sds_in(stack: Floats) -> Floats:
    """Return the sd inside each block, of rows of any size.

    Examples
    --------
    >>> sds_in(np.array([[1.0, 3.0, 5.0], [1e-200, 3e-200, 5e-200], [1e200, 3e200, 5e200]]))
    array([2.e+000, 2.e-200, 2.e+200])
    """
    exponents = np.frexp(np.abs(stack).max(axis=1))[1]
    scaled = np.ldexp(stack, -exponents[:, None])
    with np.errstate(over="ignore"):
        return np.ldexp(np.sqrt(VARIANCE.aligned(scaled)), exponents)


def _quadratic_median(sds: Floats) -> Floats:
    """Return the square root of the median of the squares in each column."""
    k = len(sds)
    low, high = np.partition(sds, [(k - 1) // 2, k // 2], axis=0)[[(k - 1) // 2, k // 2]]
    return np.where(low == high, low, np.hypot(low, high) * math.sqrt(0.5))


def spread_of(block_values: Floats) -> Floats:
    """Return the robust sd of one block value in each column; infinite where most agree, which says nothing.

    Values agree if they differ by no more than rounding.

    Examples
    --------
    >>> spread_of(np.array([[0.1 + 0.2, 1.0], [0.3, 2.0], [4.0, 3.0]])).round(2).tolist()
    [inf, 1.48]
    """
    sd = _NORMAL_MAD * mad(block_values)
    return np.where(sd > _ROUNDING * median_of(np.abs(to_host(block_values))), sd, math.inf)


@cache
def _median_of_normal_variance(size: int) -> float:
    """Return the median of the variance of `size` standard normal rows: a chi-square over its degrees of freedom."""
    half = (size - 1) / 2
    x = half - 1 / 3 + 8 / (405 * half)
    for _ in range(4):  # Newton's method; importing scipy.special would take longer
        terms = np.cumprod(x / (half + np.arange(1.0, 50 + 10 * math.sqrt(half))))  # of the series, over its first
        density = math.exp(half * math.log(x) - x - math.lgamma(half))  # of log x
        x *= math.exp((0.5 - density / half * (1 + float(terms.sum()))) / density)
    return x / half
