"""Many sets of rows at once: columns, groups, numbers of corrupt rows, and both directions of each.

The same evidence as that of `SortedRows` and `BinnedRows`, by one numpy call for all sets instead of one for each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.votes.evidence.binned import BinnedRows
from outvote.votes.evidence.bins import LITTLE, LITTLE_LOST, Bins, least_sum_of_kinds
from outvote.votes.evidence.factors import Floats
from outvote.votes.evidence.rows import SortedRows
from outvote.votes.evidence.scale import STAKES

Integers = NDArray[np.int64]

#: Products of so many factors neither overflow nor vanish, unless rows are far out.
_AT_ONCE = 16


class Stack:
    """Sets of rows of which some may be dropped, one below the other.

    Parameters
    ----------
    bins : Bins
        Bins of each set, or its rows, in ascending order from the left; what lies to the right of them has count 0.
    sizes : ndarray of int
        How many bins, or rows, each set has.
    n_corrupt, n_found : ndarray of int
        How many rows of each may be corrupt, and how many were found to be, which are not among its rows.
    single : bool
        Whether they are rows, and not bins of them.
    """

    def __init__(self, bins: Bins, sizes: Integers, n_corrupt: Integers, n_found: Integers, *, single: bool):
        self.bins, self.sizes, self.single = bins, sizes, single
        self.n_corrupt, self.n_found = n_corrupt, n_found
        self.droppable = n_corrupt - n_found

    @classmethod
    def of(cls, rows: Sequence[SortedRows]) -> Stack:
        """Return the stack of sets that are all rows, or all bins."""
        single = not isinstance(rows[0], BinnedRows)
        sizes = np.array([one.n_values if single else len(one.bins.count) for one in rows])  # type: ignore[attr-defined]
        width = int(sizes.max())

        def stacked(arrays: Sequence[Floats]) -> Floats:
            table = np.zeros((len(rows), width))
            for line, array in zip(table, arrays, strict=True):
                line[: len(array)] = array
                line[len(array) :] = array[-1]
            return table

        filled = np.arange(width) < sizes[:, None]
        if single:
            bins = _singles(stacked([one.values for one in rows]), filled)
        else:
            count, *others = (stacked(arrays) for arrays in zip(*(one.bins.arrays for one in rows), strict=True))  # type: ignore[attr-defined]
            count[~filled] = 0.0
            bins = Bins(count, *others)
        found = np.array([one.n_found for one in rows])
        return cls(bins, sizes, np.array([one.n_corrupt for one in rows]), found, single=single)

    @classmethod
    def of_rows(cls, table: Floats, sizes: Integers, n_corrupt: Integers) -> Stack:
        """Return the stack of the first rows of each line of a table, in ascending order."""
        return cls(
            _singles(table, np.arange(table.shape[1]) < sizes[:, None]), sizes, n_corrupt, np.zeros_like(sizes),
            single=True,
        )  # fmt: skip

    def part(self, which: Any) -> Stack:
        """Return some of the sets."""
        return Stack(
            self.bins.part(which), self.sizes[which], self.n_corrupt[which], self.n_found[which], single=self.single
        )

    @cached_property
    def both(self) -> Stack:
        """All sets, and then all sets with their signs changed."""
        back = np.maximum(self.sizes[:, None] - 1 - np.arange(self.bins.count.shape[1]), 0)
        count, mean, squares, low, high = (np.take_along_axis(one, back, axis=1) for one in self.bins.arrays)
        count = np.where(np.arange(count.shape[1]) < self.sizes[:, None], count, 0.0)
        turned = (count, -mean, squares, -high, -low)
        bins = Bins(*(np.concatenate(pair) for pair in zip(self.bins.arrays, turned, strict=True)))
        twice = (np.concatenate([one, one]) for one in (self.sizes, self.n_corrupt, self.n_found))
        return Stack(bins, *twice, single=self.single)

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def n_values(self) -> Floats:
        """How many rows of each set may be clean."""
        return self.bins.ranks[:, -1]

    @property
    def n_rows(self) -> Floats:
        """How many rows each set has, those found to be corrupt among them."""
        return self.n_values + self.n_found

    def _at(self, rank: Floats) -> Integers:
        """Return the bin, in each set, of the row that has so many rows before it."""
        return np.minimum((self.bins.ranks <= rank[:, None]).sum(axis=1), self.sizes - 1)

    def _pick(self, values: Floats, where: Integers) -> Floats:
        return np.take_along_axis(values, where[:, None], axis=1)[:, 0]

    @cached_property
    def middle(self) -> Floats:
        """A value in the middle of each set."""
        return self._pick(self.bins.mean, self._at(self.n_values // 2))

    @property
    def smallest(self) -> Floats:
        """Numbers that no row is below."""
        return self.bins.low[:, 0]

    @property
    def largest_kept(self) -> Floats:
        """Numbers that at least one row which is not dropped is not below."""
        return self._pick(self.bins.low, self._at(self.n_values - self.droppable - 1))

    def n_below(self, mean: Floats, depth: Floats) -> Floats:
        """Return about how many rows of each set lie farther than a depth below a mean."""
        return np.where(self.bins.mean < (mean - depth)[:, None], self.bins.count, 0.0).sum(axis=1)

    def none_between(self, low: Floats, high: Floats) -> NDArray[np.bool_]:
        """Return which sets have no rows between two numbers."""
        bins = self.bins
        between = (bins.high >= low[:, None]) & (bins.low <= high[:, None]) & (bins.count > 0)
        return np.logical_not(between.any(axis=1))

    def prepare(self, factor: VarianceFactors, top: Floats) -> None:
        """Sort bins by whether their rows may be dropped, for means up to `top` and depths down to those of a factor.

        Rows between μ - 2τ and μ have factors below 1, and are never dropped. So those that may be are the largest
        ones, and those farther than that below.
        """
        bins, k = self.bins, self.droppable[:, None]
        self._lowest = top - 2 * factor.depth
        there = bins.count > 0
        far = ((bins.low < self._lowest[:, None]) & (bins.ranks - bins.count < k) & there).sum(axis=1)
        last = self.sizes - ((self.n_values[:, None] - bins.ranks < k) & there).sum(axis=1)
        far = np.where(far >= last, self.sizes, far)
        last = np.where(far >= last, self.sizes, last)
        inner = far[:, None] + np.arange(int((last - far).max()))
        n_outer = far + self.sizes - last
        place = np.arange(int(n_outer.max()))
        outer = np.where(place < far[:, None], far[:, None] - 1 - place, last[:, None] + place - far[:, None])
        self._inner = self._gather(inner, inner < last[:, None])
        self._outer = self._gather(outer, place < n_outer[:, None])
        points = [self._inner.mean, self._outer.mean]
        self._kept_rows = self._inner.count.sum(axis=1)
        if not self.single:
            points += [self._outer.low, self._outer.high]
            one = self._inner
            self._squares = np.where(one.count > 0, one.squares, 0.0).sum(axis=1)
            self._slack = (one.count * one.slacks).sum(axis=1)
            one = self._outer
            self._outer_slack = one.count * one.slacks
        self._points = np.concatenate(points, axis=1)
        self._padded = self.single and bool((self._inner.count == 0).any())

    def _gather(self, where: Integers, there: NDArray[np.bool_]) -> Bins:
        where = np.where(there, where, 0)
        if self.single:
            table = np.take_along_axis(self.bins.mean, where, axis=1)
            return _singles(table, there)
        count, *others = (np.take_along_axis(one, where, axis=1) for one in self.bins.arrays)
        return Bins(np.where(there, count, 0.0), *others)

    def log_product(self, factor: VarianceFactors, low: Floats, high: Floats) -> Floats:
        """Return the logarithm of the product of the factors of each set, each at its least for means in [low, high].

        Factors and means may have further axes before that of the sets. With low = -∞ the factors are those made
        constant left of -τ. It is NaN where it cannot be told this way: bins are too wide, or the means too high.
        """
        x, depth, n_inner = self._points, factor.depth[..., None], self._inner.count.shape[1]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            y = np.maximum(x - high[..., None], -depth)
            np.minimum(y, x - low[..., None], out=y)
            pay = y * factor.curve[..., None]
            pay += factor.rate[..., None]
            pay *= y
            pay += 1.0
            norm = factor.norm
            if self.single:
                inner = np.where(self._inner.count > 0, pay[..., :n_inner], 1.0) if self._padded else pay[..., :n_inner]
                total = _sum_of_logs(inner) - self._kept_rows * norm
                if pay.shape[-1] > n_inner:
                    total += self._kept_of_rows(pay[..., n_inner:], norm)
            else:
                np.log(pay, out=pay)
                loss = factor.bend * self._squares / 2 + factor.steepest * self._slack
                total = np.einsum("pi,...pi->...p", self._inner.count, pay[..., :n_inner]) - loss
                total -= self._kept_rows * norm
                total[~(loss <= LITTLE)] = np.nan
                if pay.shape[-1] > n_inner:
                    total += self._kept_of_bins(factor, y[..., n_inner:], pay[..., n_inner:])
            total[high - 2 * factor.depth > self._lowest + 1e-9 * factor.depth] = np.nan
            return total

    def _kept_of_rows(self, pay: Floats, norm: Floats) -> Floats:
        """Return the least sum of logarithms of rows that may be dropped."""
        logs = np.log(pay)
        logs -= norm[..., None]
        logs *= self._outer.count  # nothing for what is not there
        logs.sort(axis=-1)
        gone = np.arange(logs.shape[-1])[::-1] < self.droppable[:, None]
        return np.where(gone, np.minimum(logs, 0.0), logs).sum(axis=-1)

    def _kept_of_bins(self, factor: VarianceFactors, y: Floats, logs: Floats) -> Floats:
        """Return the least sum of logarithms of the rows of bins that may be dropped."""
        outer, n = self._outer, self._outer.count.shape[1]
        mean, first, last = logs[..., :n], logs[..., n : 2 * n], logs[..., 2 * n :]
        least, most = np.minimum(first, last), np.maximum(first, last)
        valley = -factor.depth[..., None]
        across = (y[..., n : 2 * n] < valley) & (y[..., 2 * n :] > valley)
        if across.any():
            least = np.where(across, factor.least[..., None], least)
        at_least = outer.count * least
        totals = outer.count * mean
        totals -= (factor.bend / 2)[..., None] * outer.squares
        totals -= factor.steepest[..., None] * self._outer_slack
        totals[np.isnan(totals)] = -np.inf
        np.maximum(totals, at_least, out=totals)
        np.minimum(totals, outer.count * most, out=totals)
        gap = most - least
        totals -= at_least
        upper = np.where((gap > 0) & (gap < np.inf), totals / gap, 0.0)
        np.minimum(upper, outer.count, out=upper)
        values, weights = np.empty((*gap.shape, 2)), np.empty((*gap.shape, 2))
        values[..., 0], values[..., 1] = least, most
        values -= factor.norm[..., None, None]
        np.subtract(outer.count, upper, out=weights[..., 0])
        weights[..., 1] = upper
        shape = (*gap.shape[:-1], 2 * n)
        return np.asarray(least_sum_of_kinds(values.reshape(shape), weights.reshape(shape), self.droppable))

    def log_spread(self, end: Floats, unit: Floats) -> Floats:
        """Return the logarithm of the evidence that the variance exceeds unit², from rows above `end`."""
        bins, dropped = self.bins, self.bins.count - self._kept

        def squares(at: Floats) -> Floats:
            with np.errstate(over="ignore"):
                return np.square(np.maximum(at - end[:, None], 0.0) / unit[..., None])

        least = squares(bins.low)
        kept = np.where(least < 1, bins.count, self._kept)
        likely, most = (least, least) if self.single else (squares(bins.mean), squares(bins.high))
        logs = []
        with np.errstate(over="ignore", invalid="ignore"):
            for t in STAKES:
                if self.single:
                    logs.append(_sum_of_logs(np.where(kept > 0, least * t + (1 - t), 1.0)))
                    continue
                steepest = math.sqrt(t / (1 - t)) / unit[..., None]
                total = kept * np.log(least * t + (1 - t))
                lost = steepest * (steepest * bins.squares / 2 + bins.slacks * bins.count)
                lost = lost + np.where(dropped > 0, dropped * np.maximum(np.log(most * t + (1 - t)), 0.0), 0.0)
                better = bins.count * np.log(likely * t + (1 - t)) - lost
                whole = (better > total) | ((lost <= LITTLE_LOST) & (bins.high > end[:, None]))
                logs.append(np.where(whole, better, total).sum(axis=-1))
        with np.errstate(invalid="ignore"):
            return np.asarray(np.logaddexp.reduce(np.array(logs), axis=0)) - math.log(len(STAKES))

    def mean_square(self, end: Floats) -> Floats:
        """Return the mean square of how far rows lie above `end`, without the largest ones."""
        with np.errstate(over="ignore"):
            squares = np.square(np.maximum(self.bins.low - end[:, None], 0.0))
        return np.einsum("ij,ij->i", self._kept, squares) / (self.n_values - self.droppable)

    @cached_property
    def _kept(self) -> Floats:
        """How many rows of each bin are left without the largest ones, as many as may be dropped."""
        before = self.bins.ranks - self.bins.count
        most = (self.n_values - self.droppable)[:, None]
        return np.minimum(np.maximum(most - before, 0.0), self.bins.count)


@dataclass(frozen=True)
class VarianceFactors:
    """A `VarianceFactor` of weight 1 for each set."""

    rate: Floats
    depth: Floats
    sd: Floats

    @cached_property
    def curvature(self) -> Any:
        """Bounds on the second derivatives of log(1 + λh)."""
        return self.rate / (self.depth * (1 - self.rate * self.depth / 2))

    @cached_property
    def bend(self) -> Any:
        """The second derivatives are nowhere below the negatives of these."""
        return self.curvature / 8

    @cached_property
    def curve(self) -> Any:
        """Half of what `pay` is curved by."""
        return self.rate / (2 * self.depth)

    @cached_property
    def norm(self) -> Any:
        """The logarithms of 1 + λH."""
        return np.log1p(self.rate * self.sd**2 / (2 * self.depth))

    @cached_property
    def least(self) -> Any:
        """The least logarithms of 1 + λh."""
        return np.log1p(-self.rate * self.depth / 2)

    @cached_property
    def steepest(self) -> Any:
        """The largest derivatives of the logarithms."""
        return np.sqrt(self.curvature / 2)


def _singles(table: Floats, filled: NDArray[np.bool_]) -> Bins:
    """Return the bins of single rows."""
    return Bins(filled.astype(np.float64), table, table, table, table)


def _sum_of_logs(pay: Floats) -> Floats:
    """Add up the logarithms on the last axis, taking products of a few numbers before each logarithm."""
    whole = pay.shape[-1] // _AT_ONCE * _AT_ONCE
    if not whole:
        return np.log(pay).sum(axis=-1)
    products = np.multiply.reduce(pay[..., :whole].reshape(*pay.shape[:-1], _AT_ONCE, -1), axis=-2)
    total = np.log(products).sum(axis=-1)
    if whole < pay.shape[-1]:
        total += np.log(pay[..., whole:]).sum(axis=-1)
    wrong = ~np.isfinite(total)
    if wrong.any():
        total[wrong] = np.log(pay[wrong]).sum(axis=-1)
    return total
