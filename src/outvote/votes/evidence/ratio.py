"""Rows of a numerator and a denominator: evidence on the ratio of their means.

If R is the ratio of the means, the gaps y = numerator - R·denominator have mean 0, and factors for means judge them.
Denominators are not negative, so gaps fall as R grows: what is proved for means, where every denominator is 1, holds.

Few rows are looked at one by one. Many are gathered in cells of nearly equal rows. In each cell the sum of the
logarithms is at least their number times the one at the mean gap, less half the squares about it times a bound on the
second derivative, as for bins; gaps of a cell spread at most as √(squares of y at some R₀) + |R - R₀|·√(squares of the
denominators) says (Minkowski).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.votes.evidence.bins import least_sum_of_kinds, two_kinds
from outvote.votes.evidence.factors import Factor, Floats
from outvote.votes.evidence.grid import Grid, index_in, pilot_of
from outvote.votes.evidence.premise import Read
from outvote.votes.evidence.rows import SortedRows, log_sum
from outvote.votes.evidence.scale import log_spread_of

#: From so many rows on they are gathered in cells.
_MANY_ROWS = 8192
#: A first ratio is that of rows without this share of the farthest ones, found in so many steps from so many rows.
_TRIMMED, _STEPS, _FEW_ROWS = 0.1, 6, 1 << 16
#: Denominators larger than so many times √n times the usual size are looked at by themselves.
_HEAVY = 0.3


@dataclass(frozen=True)
class Cells:
    """Rows of a numerator and a denominator, those that are nearly equal together.

    Attributes
    ----------
    origin : float
        The ratio R₀ for which gaps, numerator - R₀·denominator, are kept.
    middle : float
        About the ratio of the means. It does not depend on how many rows may be corrupt.
    count : ndarray
        How many rows each cell has.
    gap, gap_low, gap_high, gap_squares : ndarray
        The mean of their gaps, the ends, and the sum of squares about the mean.
    slope, slope_low, slope_high, slope_squares : ndarray
        The same of their denominators.
    """

    origin: float
    middle: float
    count: Floats
    gap: Floats
    gap_low: Floats
    gap_high: Floats
    gap_squares: Floats
    slope: Floats
    slope_low: Floats
    slope_high: Floats
    slope_squares: Floats

    @classmethod
    def of(cls, numerators: Floats, denominators: Floats) -> Cells:
        """Gather rows; each is a cell of its own if they are few. No denominator may be negative."""
        middle = _first_ratio(numerators, denominators)
        if len(numerators) < _MANY_ROWS:
            return cls.single_rows(numerators, denominators, middle)
        with _quiet():
            gaps = numerators - middle * denominators
        order, starts = _sorted_by_cell(gaps, denominators)
        count = np.diff(np.append(starts, len(gaps))).astype(np.float64)
        parts = [_spread(one[order], starts, count) for one in (gaps, denominators)]
        return cls(middle, middle, count, *parts[0], *parts[1])

    @classmethod
    def single_rows(cls, numerators: Floats, denominators: Floats, middle: float) -> Cells:
        """Return rows that are cells of their own."""
        ones, zeros = np.ones(len(numerators)), np.zeros(len(numerators))
        above, below = numerators, denominators
        return cls(0.0, middle, ones, above, above, above, zeros, below, below, below, zeros)

    @cached_property
    def single(self) -> bool:
        """Whether each row is a cell of its own."""
        return len(self.count) == self.n_rows and not self.gap_squares.any()

    @cached_property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.count.sum())

    @cached_property
    def usual(self) -> float:
        """The size of most denominators: the root of the mean square of those that are not among the largest tenth."""
        with _quiet():
            order = np.argsort(self.slope, kind="stable")
            kept = np.clip((1 - _TRIMMED) * self.n_rows - (np.cumsum(self.count[order]) - self.count[order]), 0, None)
            weights = np.minimum(kept, self.count[order])
            square = _weighted_sum(weights, np.square(self.slope[order])) / float(weights.sum())
            return math.sqrt(square) or float(self.slope.max()) or 1.0

    @cached_property
    def heavy(self) -> NDArray[np.bool_]:
        """Which cells have denominators far larger than most."""
        return self.slope_high > max(_HEAVY * math.sqrt(self.n_rows), 2.0) * self.usual

    @cached_property
    def any_heavy(self) -> bool:
        """Whether there are such cells."""
        return bool(self.heavy.any())

    @cached_property
    def squared_slopes(self) -> float:
        """The sum of the squares of the other denominators."""
        with _quiet():
            squares = self.count * np.square(self.slope) + self.slope_squares
            return float(squares[~self.heavy].sum())

    def turned(self) -> Cells:
        """Return the rows with the signs of their numerators changed."""
        return replace(
            self, origin=-self.origin, middle=-self.middle, gap=-self.gap, gap_low=-self.gap_high,
            gap_high=-self.gap_low,
        )  # fmt: skip

    def scaled(self, factor: float) -> Cells:
        """Return the rows with their numerators multiplied by a positive number."""
        with np.errstate(over="ignore"):
            names = ("origin", "middle", "gap", "gap_low", "gap_high")
            return replace(
                self, gap_squares=self.gap_squares * factor * factor,
                **{name: getattr(self, name) * factor for name in names},
            )  # fmt: skip

    def gaps(self, ratio: Any) -> Floats:
        """Return the mean gap of each cell at a ratio."""
        with _quiet():
            return self.gap - _times(ratio - self.origin, self.slope)

    def gaps_low(self, ratio: Any) -> Floats:
        """Return a number that no gap of each cell is below."""
        with _quiet():
            s = ratio - self.origin
            return self.gap_low - np.maximum(_times(s, self.slope_low), _times(s, self.slope_high))

    def gaps_high(self, ratio: Any) -> Floats:
        """Return a number that no gap of each cell is above."""
        with _quiet():
            s = ratio - self.origin
            return self.gap_high - np.minimum(_times(s, self.slope_low), _times(s, self.slope_high))

    def squares(self, ratio: Any) -> Floats:
        """Return at least the sum of squares of the gaps of each cell about their mean."""
        with _quiet():
            return np.square(
                np.sqrt(self.gap_squares) + _times(np.abs(ratio - self.origin), np.sqrt(self.slope_squares))
            )

    def central(self, n_dropped: int, ratio: float, steps: int = _STEPS) -> tuple[float, float]:
        """Return the ratio of the rows nearest the middle, and the sd of their gaps, without the farthest ones."""
        with _quiet():
            weights = self.count
            for _ in range(steps):
                y = self.gaps(ratio)
                order = np.argsort(y, kind="stable")
                middle = float(y[order[np.searchsorted(np.cumsum(self.count[order]), self.n_rows / 2)]])
                order = np.argsort(np.abs(y - middle), kind="stable")
                ranks = np.cumsum(self.count[order])
                weights = np.empty(len(y))
                weights[order] = np.clip(self.n_rows - n_dropped - (ranks - self.count[order]), 0.0, self.count[order])
                below = _weighted_sum(weights, self.slope)
                if not below > 0:
                    return ratio, 0.0
                ratio += _weighted_sum(weights, y) / below
            y = self.gaps(ratio)
            squares = _weighted_sum(weights, np.square(y)) + _weighted_sum(weights / self.count, self.squares(ratio))
            return ratio, math.sqrt(squares / float(weights.sum()))


def _quiet() -> np.errstate:
    """Let gaps and squares of the largest rows overflow: they are infinite then, which is what such rows count as."""
    return np.errstate(over="ignore", invalid="ignore")


def _weighted_sum(weights: Floats, values: Floats) -> float:
    """Add up; what has no weight does not count, infinite or not."""
    return float(weights @ np.where(weights > 0, values, 0.0))


def _first_ratio(numerators: Floats, denominators: Floats) -> float:
    """Return about the ratio of the means, of a few of many rows, without a tenth of them."""
    step = -(-len(numerators) // _FEW_ROWS) or 1
    num, den = numerators[::step], denominators[::step]
    with np.errstate(over="ignore"):
        start = float(np.median(num[den > 0] / den[den > 0])) if (den > 0).any() else 0.0
    if not math.isfinite(start):
        return 0.0
    found = Cells.single_rows(num, den, start).central(int(_TRIMMED * len(num)), start)[0]
    return found if math.isfinite(found) else 0.0


def _sorted_by_cell(gaps: Floats, denominators: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the order of rows in which those of a cell are together, and where cells start.

    A cell is a bin of gaps and a range of denominators, from a power of two to the next; 0 is one by itself.
    """
    grid = Grid.of(pilot_of(gaps))
    sizes, which = np.unique(np.where(denominators > 0, np.frexp(denominators)[1], -2000), return_inverse=True)
    codes = index_in(gaps, grid.centre, grid.unit, grid.number) * len(sizes) + which
    there = np.bincount(codes, minlength=grid.number * len(sizes)) > 0
    ranks = np.cumsum(there) - 1
    kind = np.uint16 if ranks[-1] < 1 << 16 else np.int64  # small integers are sorted by their digits
    own = ranks.astype(kind)[codes]
    order = np.argsort(own, kind="stable")
    return order, np.flatnonzero(np.diff(own[order].astype(np.int64), prepend=-1))


def _spread(rows: Floats, starts: NDArray[np.intp], count: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the mean, the ends, and the sum of squares about the mean of each cell."""
    low, high = np.minimum.reduceat(rows, starts), np.maximum.reduceat(rows, starts)
    with _quiet():
        mean = np.clip(np.add.reduceat(rows / np.repeat(count, count.astype(np.intp)), starts), low, high)
        squares = np.add.reduceat(np.square(rows - np.repeat(mean, count.astype(np.intp))), starts)
    return mean, low, high, np.where(np.isnan(squares), math.inf, squares)


def _times(factor: Any, slope: Floats) -> Floats:
    """Multiply; what is infinite times 0 is 0."""
    if isinstance(factor, float) and math.isfinite(factor):
        return factor * slope
    return np.where(slope > 0, factor * slope, 0.0)


class LogParts(NamedTuple):
    """Logarithms of factors.

    Attributes
    ----------
    total : float
        The sum of those that are never dropped.
    values : ndarray
        The others.
    weights : ndarray or None
        How many rows have each of them; None if each has one.
    """

    total: float
    values: Floats
    weights: Floats | None = None

    def least(self, n_dropped: int) -> float:
        """Add up the values without the largest ones, `n_dropped` at most, as far as they are positive."""
        if self.weights is None:
            return least_sum(self.values.copy(), n_dropped)
        if not len(self.values):
            return 0.0
        return float(least_sum_of_kinds(self.values, self.weights, n_dropped))

    def __or__(self, other: LogParts) -> LogParts:
        """Return the parts of two samples together."""
        if self.weights is None and other.weights is None:
            weights = None
        else:
            weights = np.concatenate(
                [np.ones(len(one.values)) if one.weights is None else one.weights for one in (self, other)]
            )
        return LogParts(self.total + other.total, np.concatenate([self.values, other.values]), weights)


def least_sum(logs: Floats, n_dropped: int) -> float:
    """Add up logarithms without the largest ones, `n_dropped` at most, as far as they are positive; reorders them.

    Examples
    --------
    >>> least_sum(np.array([3.0, -1.0, 2.0]), 1), least_sum(np.array([3.0, -1.0, 2.0]), 3)
    (1.0, -1.0)
    """
    k = min(n_dropped, len(logs))
    if 0 < k < len(logs):
        logs.partition(len(logs) - k - 1)
    largest = logs[len(logs) - k :]
    return float(np.add.reduce(logs[: len(logs) - k])) + float(np.add.reduce(largest[largest <= 0]))


class RatioRows(SortedRows):
    """Rows of a numerator and a denominator, of which some may be dropped; means are ratios here.

    Parameters
    ----------
    cells : Cells
        The rows that may be clean.
    n_corrupt, n_found, adaptive
        As for `SortedRows`.

    Examples
    --------
    >>> from outvote.votes.evidence.factors import VarianceFactor
    >>> cells = Cells.of(np.array([2.0, 4.0, 5.0, 900.0]), np.array([1.0, 2.0, 3.0, 1.0]))
    >>> factor, kept = VarianceFactor(rate=0.1, depth=10.0), np.array([2.0 - 1.5, 4.0 - 3.0, 5.0 - 4.5])
    >>> found = RatioRows(cells, 1).log_product(factor, 1.5, 1.5)
    >>> math.isclose(found, float(np.sum(factor.logs(kept) - factor.norm)))
    True
    """

    def __init__(self, cells: Cells, n_corrupt: int, n_found: int = 0, *, adaptive: bool = False):
        super().__init__(np.empty(0), n_corrupt, n_found, adaptive=adaptive)
        self.cells = cells

    @property
    def values(self) -> Floats:
        """The rows themselves, which have no order here."""
        raise ValueError("rows of a numerator and a denominator have no order")

    @property
    def has_values(self) -> bool:
        """False: they have no order."""
        return False

    @property
    def n_values(self) -> int:
        """How many rows may be clean."""
        return self.cells.n_rows

    @property
    def smallest(self) -> float:
        """-∞: ratios of rows do not bound the ratio of means."""
        return -math.inf

    @property
    def slope(self) -> float:
        """How fast most gaps fall as the ratio grows."""
        return self.cells.usual

    @property
    def squared_slopes(self) -> float:
        """The sum of the squares of the denominators that are not heavy."""
        return self.cells.squared_slopes

    @property
    def middle(self) -> float:
        """About the ratio of the means."""
        return self.cells.middle

    @cached_property
    def largest_kept(self) -> float:
        """A ratio up to which at least one row that is not dropped has a positive gap."""
        cells = self.cells
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            below = np.where(cells.gap_low > 0, cells.slope_high, cells.slope_low)
            turn = np.where(below > 0, cells.gap_low / below, np.where(cells.gap_low > 0, math.inf, -math.inf))
        order = np.argsort(-turn, kind="stable")
        rank = int(np.searchsorted(np.cumsum(cells.count[order]), self.droppable, side="right"))
        return min(cells.origin + float(turn[order[min(rank, len(order) - 1)]]), sys.float_info.max)

    @cached_property
    def mirrored(self) -> RatioRows:
        """The rows with the signs of their numerators changed."""
        return self._like(self.cells.turned(), self.n_corrupt)

    def allowing(self, n_corrupt: int) -> RatioRows:
        """Return the rows with another number of them that may be corrupt."""
        return self._like(self.cells, n_corrupt)

    def scaled(self, factor: float) -> RatioRows:
        """Return the rows with their numerators multiplied by a positive number."""
        return self._like(self.cells.scaled(factor), self.n_corrupt)

    def _like(self, cells: Cells, n_corrupt: int) -> RatioRows:
        return RatioRows(cells, n_corrupt, self.n_found, adaptive=self.adaptive)

    def log_parts(self, factor: Factor, low: float, high: float, window: tuple[float, float] | None = None) -> LogParts:
        """Return the sum of the logarithms of the factors that are never dropped, and the logarithms of the others.

        Each factor is at its least for ratios in [low, high]; that of rows with heavy denominators for all ratios in
        the window, too.
        """
        cells = self.cells
        bottom: Any = low
        top: Any = low if low == high else high
        if window is not None and cells.any_heavy:
            bottom = np.where(cells.heavy, min(low, window[0]), low)
            top = np.where(cells.heavy, max(high, window[1]), high)
        with np.errstate(over="ignore", invalid="ignore"):
            if cells.single:
                y = cells.gaps(top)
                if top is not bottom:
                    y = np.minimum(np.maximum(y, -factor.depth), cells.gaps(bottom))
                logs = factor.logs(y) - factor.norm
                return LogParts(float(logs[logs <= 0].sum()), logs[~(logs <= 0)])
            values, weights = two_kinds(*self._bounds(factor, bottom, top), cells.count)
        some = weights > 0
        up = some & (values > 0)
        return LogParts(float(weights[some & ~up] @ values[some & ~up]), values[up], weights[up])

    def _bounds(self, factor: Factor, bottom: Any, top: Any) -> tuple[Floats, Floats, Floats]:
        """Return lower bounds on the sum of the logarithms of each cell, and on the least and largest of them.

        Cells whose gaps are all above the valley of the factor at the larger ratio have their least factors there;
        those whose gaps are all below it, at the smaller one. Others count with the least factor of all.
        """
        cells, depth = self.cells, factor.depth
        above, below = cells.gaps_low(top) >= -depth, cells.gaps_high(bottom) <= -depth
        ratio = np.where(above, top, np.where(below, bottom, cells.origin))
        low, high = cells.gaps_low(ratio), cells.gaps_high(ratio)
        ends = factor.logs(np.concatenate([cells.gaps(ratio), low, high])).reshape(3, -1)
        mean, least, most = ends[0], np.minimum(ends[1], ends[2]), np.maximum(ends[1], ends[2])
        most = np.where(np.isnan(most), math.inf, most)
        bend: Any = factor.bend
        if not bend < math.inf:
            steep = np.maximum(np.abs(factor.slope(low)), np.abs(factor.slope(high)))
            bend = np.square(steep / np.exp(least))
        squares = cells.squares(ratio)
        totals = cells.count * mean - np.where(squares > 0, bend * squares / 2, 0.0)
        totals = np.where(np.isnan(totals), -math.inf, totals)
        totals = np.clip(totals, cells.count * least, np.maximum(cells.count * least, cells.count * most))
        known = above | below
        totals = np.where(known, totals, cells.count * factor.least)
        least = np.where(known, least, factor.least)
        return totals - factor.norm * cells.count, least - factor.norm, np.where(known, most, least) - factor.norm

    def log_product(self, factor: Factor, low: float, high: float, window: tuple[float, float] | None = None) -> float:
        """Return the logarithm of the product of the factors, each at its least; arguments as for `log_parts`."""
        parts = self.log_parts(factor, low, high, window)
        total = parts.total + parts.least(self.droppable)
        return total + self.n_corrupt * (factor.least - factor.norm) if self.adaptive else total

    def log_evidence(self, factors: Sequence[Factor], low: float, high: float) -> float:
        """Return the logarithm of the weighted sum of these products."""
        return log_sum([math.log(one.weight) + self.log_product(one, low, high) for one in factors])

    def excess_over(self, factors: Sequence[Factor], price: float) -> Callable[[float, float], float]:
        """Return what gives `log_evidence` less a price, and less than rounding may add."""
        price += 2.0**-51 * self.n_rows + 2.0**-44
        return lambda low, high: self.log_evidence(factors, low, high) - price

    def squares_above(self, end: float, unit: float, *, keep_small: bool = True) -> list[tuple[Floats, Floats]]:
        """Return the squares of positive gaps at the ratio `end`, in units, at least, and how many rows have each.

        Without the largest ones, as many as may be dropped; squares below 1 are kept unless told otherwise.
        """
        with np.errstate(over="ignore"):
            return self._kept(np.square(np.maximum(self.cells.gaps_low(end), 0.0) / unit), keep_small=keep_small)

    def squares_outside(self, low: float, high: float, unit: float) -> list[tuple[Floats, Floats]]:
        """Return the squares of gaps, at least, whatever ratio in [low, high] is right, in the same way."""
        with np.errstate(over="ignore", invalid="ignore"):
            gaps = np.maximum(self.cells.gaps_low(high), -self.cells.gaps_high(low))
            return self._kept(np.square(np.maximum(gaps, 0.0) / unit), keep_small=True)

    def _kept(self, squares: Floats, *, keep_small: bool) -> list[tuple[Floats, Floats]]:
        order = np.argsort(squares, kind="stable")
        squares, count = squares[order], self.cells.count[order]
        before = np.cumsum(count) - count
        kept = np.clip(self.n_values - self.droppable - before, 0.0, count)
        times = np.where(squares < 1, count, kept) if keep_small else kept
        return [(squares[times > 0], times[times > 0])]

    def log_spread_above(self, end: float, unit: float) -> float:
        """Return the logarithm of the evidence that the variance of gaps exceeds unit², from gaps at `end`."""
        return log_spread_of(self.squares_above(end, unit), self.n_corrupt, adaptive=self.adaptive)

    def n_below(self, mean: float, depth: float) -> int:
        """Return about how many gaps lie farther than a depth below 0 at a ratio."""
        return int(self.cells.count[self.cells.gaps(mean) < -depth].sum())

    def none_between(self, low: float, high: float) -> bool:
        """Return False: whether there are rows between two ratios is not known."""
        return False

    @cached_property
    def _central(self) -> tuple[float, float]:
        return self.cells.central(min(self.droppable, self.n_values - 1), self.cells.middle)

    def read(self, *, screened: bool = True) -> Read:
        """Read an sd off the gaps at about the ratio of the means, and that of the rows that are not gross."""
        cells, ratio = self.cells, self._central[0]
        gaps = cells.gaps(ratio)
        order = np.argsort(gaps, kind="stable")
        middle = gaps[order[np.searchsorted(np.cumsum(cells.count[order]), self.n_values / 2)]]
        within = np.nan_to_num(cells.squares(ratio), posinf=0.0)
        found = Read.of_points(
            gaps[None], cells.count[None], np.array([middle]), np.array([self.droppable]), within, screened=screened
        )
        rest = (gaps > found.lower) & (gaps < found.upper)
        below = _weighted_sum(cells.count * rest, cells.slope)
        share = found.point / (below / float((cells.count * rest).sum())) if below > 0 else np.zeros(1)
        return found._replace(point=ratio + share)

    def central_sd(self) -> float:
        """Return the sd of the gaps nearest the middle, without as many of the farthest as may be dropped."""
        return self._central[1] if self.n_values > self.droppable else 0.0

    def central_mean(self) -> float:
        """Return the ratio of the means of these rows."""
        return self._central[0]

    def concave_sums(self, ratio: float, width: float, rates: list[float]) -> list[float]:
        """Return lower bounds on Σ log(1 + a·y/width) of the gaps y at a ratio that are not dropped, for each a.

        Between the ends of a cell the logarithm is above its chord, so the sum is at least that of the mean on it.
        """
        cells = self.cells
        # No gap is below -width, whatever the ends of its cell.
        low, mean, high = (
            np.maximum(one(ratio) / width, -1.0) for one in (cells.gaps_low, cells.gaps, cells.gaps_high)
        )
        gap = high - low
        share = np.clip(np.divide(mean - low, gap, out=np.zeros_like(gap), where=gap > 0), 0.0, 1.0)
        found = []
        for a in rates:
            least, most = np.log1p(a * low), np.log1p(a * high)
            if cells.single:
                found.append(least_sum(least, self.droppable))
                continue
            totals = cells.count * (least + share * (most - least))
            values, weights = two_kinds(totals, least, most, cells.count)
            found.append(float(least_sum_of_kinds(values, weights, self.droppable)))
        return found
