"""Sorted rows, and the product of their factors without the largest ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.votes.evidence.bins import Bins, least_sum_of_kinds
from outvote.votes.evidence.factors import Factor, Floats, VarianceFactor, sum_of_logs
from outvote.votes.evidence.kernel import Atoms
from outvote.votes.evidence.premise import Read
from outvote.votes.evidence.scale import central_sd, central_window, log_spread_of, median_of_sorted

#: From so many rows on those that are nearly equal are gathered.
GATHERED = 1024
#: Seconds that numpy takes for a product, and for each row of it.
_SECONDS, _SECONDS_A_ROW = 3e-5, 1e-9


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
        functions = _numba.compiled(_SECONDS)
        if functions is not None and float(self.values.min()) > 0:
            found: float = functions.least_of_pieces(self.values, self.weights, float(n_dropped))
            return found
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


class PartsAtMeans(NamedTuple):
    """Logarithms of factors for several means, all above 0: as `LogParts`, and where those of each mean begin."""

    totals: Floats
    values: Floats
    weights: Floats
    starts: NDArray[np.int64]


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


def rounding(n_rows: Any) -> Any:
    """Return more than rounding can move the logarithm of the evidence of so many rows.

    Each factor is rounded a few times, by 2⁻⁵³ of itself at most.
    """
    return 2.0**-51 * n_rows + 2.0**-44


def surely(
    quickly: Callable[[float, float], float], slowly: Callable[[float, float], float], n_rows: float
) -> Callable[[float, float], float]:
    """Return a function whose sign does not depend on whether compiled functions are used.

    So close to 0 that rounding may decide, and where the first function is NaN, numpy evaluates the second.
    """
    little = rounding(n_rows)

    def excess(low: float, high: float) -> float:
        found = quickly(low, high)
        if abs(found) > little:
            return found
        with _numba.numpy_only():
            return slowly(low, high)

    return excess


class SortedRows:
    """Finite rows in order, of which some may be dropped.

    Parameters
    ----------
    values : ndarray
        The rows that may be clean, in ascending order.
    n_corrupt : int
        How many rows may be corrupt (m), those found to be corrupt among them.
    n_found : int
        Rows that are corrupt for certain (b): they are not among `values`, and m - b of these may be dropped.
    adaptive : bool
        Whether whoever corrupted the rows had seen them.

    Examples
    --------
    >>> from outvote.votes.evidence.factors import VarianceFactor
    >>> rows = SortedRows(np.array([0.0, 1.0, 2.0, 90.0]), 1)
    >>> factor = VarianceFactor(rate=0.1, depth=10.0)
    >>> kept = SortedRows(rows.values[:3], 0)
    >>> math.isclose(rows.log_product(factor, 0.5, 0.5), kept.log_product(factor, 0.5, 0.5))
    True
    """

    def __init__(self, values: Floats, n_corrupt: int, n_found: int = 0, *, adaptive: bool = False):
        self._values = values
        self.n_corrupt, self.n_found, self.adaptive = n_corrupt, n_found, adaptive

    @property
    def values(self) -> Floats:
        """The rows that may be clean, in ascending order."""
        return self._values

    @property
    def first_set(self) -> SortedRows:
        """The rows, or the first of several ways to take them."""
        return self

    @property
    def has_values(self) -> bool:
        """Whether the rows themselves are there."""
        return True

    @property
    def n_values(self) -> int:
        """How many rows may be clean."""
        return len(self.values)

    @property
    def smallest(self) -> float:
        """A number that no row is below."""
        return float(self.values[0])

    @property
    def largest_kept(self) -> float:
        """A number that at least one row which is not dropped is not below."""
        return float(self.values[-self.droppable - 1])

    @property
    def smallest_dropped(self) -> float:
        """A number that none of the largest rows, as many as may be dropped, is below; there must be some."""
        return float(self.values[-self.droppable])

    @property
    def n_unknown(self) -> int:
        """Of how many rows nothing is known but a number that they are beyond."""
        return 0

    @property
    def n_rows(self) -> int:
        """How many rows there are, those found to be corrupt among them (n)."""
        return self.n_values + self.n_found

    @property
    def droppable(self) -> int:
        """How many of the values may be dropped."""
        return self.n_corrupt - self.n_found

    @property
    def middle(self) -> float:
        """A value in the middle of the rows."""
        return float(self.values[len(self.values) // 2])

    @property
    def slope(self) -> float:
        """How fast rows fall, less their mean, as that grows: for ratios of two columns it is not 1."""
        return 1.0

    @property
    def squared_slopes(self) -> float:
        """The sum of the squares of that over all rows."""
        return self.n_values

    @cached_property
    def mirrored(self) -> SortedRows:
        """The rows with their signs changed."""
        return SortedRows(-self.values[::-1], self.n_corrupt, self.n_found, adaptive=self.adaptive)

    def allowing(self, n_corrupt: int) -> SortedRows:
        """Return the rows with another number of them that may be corrupt."""
        return SortedRows(self.values, n_corrupt, self.n_found, adaptive=self.adaptive)

    def scaled(self, factor: float) -> SortedRows:
        """Return the rows multiplied by a positive number."""
        with np.errstate(over="ignore"):
            values = self.values * factor
        return SortedRows(values, self.n_corrupt, self.n_found, adaptive=self.adaptive)

    def in_units(self, sd: float) -> SortedRows:
        """Return the rows divided by an sd."""
        found = self.scaled(1 / sd)
        if self.n_values and not math.isfinite(found.middle):
            raise ValueError(
                f"assume declares a scale of {sd:.4g}, and the rows lie near {self.middle:.4g}: no float holds "
                "their ratio; subtract a typical row from all rows, or declare another scale"
            )
        return found

    def log_product(self, factor: Factor, low: float, high: float, window: tuple[float, float] | None = None) -> float:
        """Return the logarithm of the product of the factors, each at its least for means in [low, high].

        The `droppable` largest factors are left out, as far as they exceed 1. With low = -∞ the factors are those made
        constant left of -τ. An adaptive adversary is paid the least factor for every corrupt row. Rows of ratios use
        the window.
        """
        total = self._compiled_product(factor, low, high)
        if math.isnan(total):
            parts = self.log_parts(factor, low, high)
            total = parts.total + parts.least(self.droppable)
        return total + self.n_corrupt * (factor.least - factor.norm) if self.adaptive else total

    def _compiled_product(self, factor: Factor, low: float, high: float) -> float:
        """Return this by a compiled function; NaN if there is none, or it cannot tell."""
        function = self._compiled(factor)
        return math.nan if function is None else function(low, high)

    def _compiled(self, factor: Factor) -> Callable[..., Any] | None:
        """Return a compiled function of the ends, if there is one for this factor; it is NaN where it cannot tell."""
        functions = _numba.compiled(_SECONDS + _SECONDS_A_ROW * len(self.values))
        if functions is None or not isinstance(factor, VarianceFactor):
            return None
        return partial(functions.product_of_rows, self.values, self.droppable, factor.rate, factor.depth, factor.norm)

    def parts_at(self, factor: Factor, means: Floats) -> PartsAtMeans | None:
        """Return what `log_parts` does for each of several means by a compiled function; None if there is none."""
        return None

    def least_with(
        self, factor: Factor, lows: Floats, highs: Floats, others: PartsAtMeans, n_dropped: int
    ) -> Floats | None:
        """Return the sums of logarithms with those of another sample, without the largest, in the same way."""
        return None

    def log_parts(self, factor: Factor, low: float, high: float, window: tuple[float, float] | None = None) -> LogParts:
        """Return the sum of the logarithms of the factors that are never dropped, and the logarithms of the others."""
        outer, inner = self._parts
        total = 0.0
        if len(inner):
            # Rows left of the valley at y = -τ for every mean, rows whose valley is at one of them, and the others.
            left = int(np.searchsorted(inner, low - factor.depth)) if low > -math.inf else 0
            right = int(np.searchsorted(inner, high - factor.depth, side="right"))
            total += factor.log_sum(inner[right:], high) + (right - left) * factor.least
            total += factor.log_sum(inner[:left], low) if left else 0.0
        total -= len(inner) * factor.norm
        if not len(outer):
            return LogParts(total, outer)
        with np.errstate(over="ignore"):
            y = np.maximum(outer - high, -factor.depth) if high < math.inf else np.full_like(outer, -factor.depth)
            if low > -math.inf:  # else rows that overflowed would be that far from themselves
                y = np.minimum(y, outer - low)
        return LogParts(total, factor.logs(y) - factor.norm)

    @cached_property
    def _parts(self) -> tuple[Floats, Floats]:
        """The smallest and largest rows, whose factors may be the largest ones, and the others."""
        x, k = self.values, self.droppable
        if 2 * k >= len(x):
            return x, x[:0]
        return np.concatenate([x[:k], x[len(x) - k :]]), x[k : len(x) - k]

    def squares_above(self, end: float, unit: float, *, keep_small: bool = True) -> list[tuple[Floats, Any]]:
        """Return the squares of how far rows lie above `end`, in units, at least, and how many rows have each.

        Without the largest ones, as many as may be dropped; squares below 1 are kept unless told otherwise.
        """
        x, most = self.values, len(self.values) - self.droppable
        if keep_small:
            most = max(most, int(np.searchsorted(x, end + unit)))
        with np.errstate(over="ignore"):
            return [(np.square(np.maximum(x[:most] - end, 0.0) / unit), 1)]

    def log_spread_above(self, end: float, unit: float) -> float:
        """Return the logarithm of the evidence that the variance exceeds unit², from rows above `end`."""
        return log_spread_of(self.squares_above(end, unit), self.n_corrupt, adaptive=self.adaptive)

    def n_below(self, mean: float, depth: float) -> int:
        """Return about how many rows lie farther than a depth below a mean."""
        return int(np.searchsorted(self.values, mean - depth))

    def none_between(self, low: float, high: float) -> bool:
        """Return whether no row lies between two numbers."""
        return bool(np.searchsorted(self.values, low) == np.searchsorted(self.values, high, side="right"))

    def squares_outside(self, low: float, high: float, unit: float) -> list[tuple[Floats, Any]]:
        """Return the squares of how far rows lie outside of [low, high], in the same way."""
        outer, inner = self._parts
        found = []
        with np.errstate(over="ignore", invalid="ignore"):
            for x in (outer, inner):
                found.append(np.square(np.maximum(np.maximum(low - x, x - high), 0.0) / unit))
        gone = np.sort(found[0])
        most = max(len(gone) - self.droppable, int(np.searchsorted(gone, 1.0)))
        return [(gone[:most], 1), (found[1], 1)]

    def read(self, *, screened: bool = True) -> Read:
        """Read an sd and a point off the rows, of which there are some; unless they are `screened` no row is gross."""
        if self.gathered is not None:
            middle = median_of_sorted(self.values)
            equal = np.diff(np.searchsorted(self.values, [middle, np.nextafter(middle, np.inf)]))
            found = Read.of_bins(self.gathered, self.droppable, middle, screened=screened)
            return found._replace(n_other=self.n_values - equal.astype(np.float64))
        return Read.of_rows(self.values[None], self.n_values, self.droppable, screened=screened)

    @property
    def atoms(self) -> list[Atoms]:
        """The rows for the kernel, in both directions; several ways to take them have their evidence averaged."""
        return [atoms_of([self])]

    @cached_property
    def gathered(self) -> Bins | None:
        """The rows in bins of those that are nearly equal, if they are many and few of them may be dropped."""
        if self.n_values < GATHERED or 8 * self.droppable > self.n_values:
            return None
        return Bins.of_sorted(self.values, self.droppable)

    def central_sd(self) -> float:
        """Return the sd of the rows nearest the median, without as many of the farthest as may be dropped."""
        return central_sd(self.values, self.droppable)

    def central_mean(self) -> float:
        """Return the mean of these rows."""
        middle, rows = central_window(self.values, min(self.droppable, len(self.values) - 1))
        with np.errstate(over="ignore", invalid="ignore"):
            offset = float(np.mean(rows - middle))
            if not math.isfinite(offset):
                offset = float(np.mean(rows * 0.5**32 - middle * 0.5**32)) * 2.0**32
        return middle + offset

    def concave_sums(self, low: float, width: float, rates: list[float]) -> list[float]:
        """Return Σ log(1 + a·y) of the rows that are not dropped, y = (x - low)/width, for each a."""
        kept = self.values[: len(self.values) - self.droppable]
        y = np.clip((kept - low) / width, 0.0, 1.0)
        return [sum_of_logs(1.0 + a * y) for a in rates]

    def log_evidence(self, factors: Sequence[Factor], low: float, high: float) -> float:
        """Return the logarithm of the weighted sum of these products."""
        if len(factors) == 1:
            return math.log(factors[0].weight) + self.log_product(factors[0], low, high)
        return log_sum([math.log(one.weight) + self.log_product(one, low, high) for one in factors])

    def excess_over(self, factors: Sequence[Factor], price: float) -> Callable[[float, float], float]:
        """Return what gives `log_evidence` less a price, for means from one number to another."""

        def slowly(low: float, high: float) -> float:
            return self.log_evidence(factors, low, high) - price

        if len(factors) > 1 or self.adaptive or (function := self._compiled(factors[0])) is None:
            return surely(slowly, slowly, self.n_rows)
        lower = price - math.log(factors[0].weight)
        return surely(lambda low, high: function(low, high) - lower, slowly, self.n_rows)


class SeveralRows(SortedRows):
    """Several sets of rows of one distribution, each by itself independent: the mean of their evidence is evidence."""

    def __init__(self, members: Sequence[SortedRows]):
        first = members[0]
        super().__init__(np.empty(0), first.n_corrupt, first.n_found, adaptive=first.adaptive)
        self._members, self._first = members, first
        self.squares_above, self.squares_outside = first.squares_above, first.squares_outside  # type: ignore[method-assign]
        self.central_sd, self.central_mean = first.central_sd, first.central_mean  # type: ignore[method-assign]
        self.n_below, self.read = first.n_below, first.read  # type: ignore[method-assign]
        self.log_spread_above = first.log_spread_above  # type: ignore[method-assign]

    @property
    def values(self) -> Floats:
        """The rows of the first set that may be clean, in ascending order."""
        return self._first.values

    @property
    def n_values(self) -> int:
        """How many rows of the first set may be clean."""
        return self._first.n_values

    @property
    def first_set(self) -> SortedRows:
        """The first set."""
        return self._first

    @property
    def atoms(self) -> list[Atoms]:
        """All sets, whose evidence is averaged."""
        return [atoms for one in self._members for atoms in one.atoms]

    @property
    def smallest(self) -> float:
        """A number that no row is below."""
        return min(one.smallest for one in self._members)

    def none_between(self, low: float, high: float) -> bool:
        """Return whether no row lies between two numbers."""
        return all(one.none_between(low, high) for one in self._members)

    @property
    def largest_kept(self) -> float:
        """A number that at least one row of the first set which is not dropped is not below."""
        return self._first.largest_kept

    @property
    def middle(self) -> float:
        """A value in the middle of the rows."""
        return self._first.middle

    @cached_property
    def mirrored(self) -> SortedRows:
        """The rows with their signs changed."""
        return SeveralRows([one.mirrored for one in self._members])

    def scaled(self, factor: float) -> SortedRows:
        """Return the rows multiplied by a positive number."""
        return SeveralRows([one.scaled(factor) for one in self._members])

    def allowing(self, n_corrupt: int) -> SortedRows:
        """Return the rows with another number of them that may be corrupt."""
        return SeveralRows([one.allowing(n_corrupt) for one in self._members])

    def excess_over(self, factors: Sequence[Factor], price: float) -> Callable[[float, float], float]:
        """Return what gives `log_evidence` less a price, for means from one number to another."""

        def slowly(low: float, high: float) -> float:
            return self.log_evidence(factors, low, high) - price

        return surely(slowly, slowly, self.n_rows)

    def log_evidence(self, factors: Sequence[Factor], low: float, high: float) -> float:
        """Return the logarithm of the mean of their evidence."""
        logs = [one.log_evidence(factors, low, high) for one in self._members]
        return log_sum([one - math.log(len(logs)) for one in logs])


def atoms_of(rows: Sequence[SortedRows]) -> Atoms:
    """Return several sets of rows, all gathered in bins or none, as one."""
    dropped, paid = [one.droppable for one in rows], [one.n_corrupt * one.adaptive for one in rows]
    bins = [one.gathered for one in rows if one.gathered is not None]
    if bins:
        return Atoms.of_bins(bins, dropped, paid)
    sizes = np.array([one.n_values for one in rows])
    table = np.zeros((len(rows), sizes.max()))
    for line, one in zip(table, rows, strict=True):
        line[: one.n_values] = one.values
    return Atoms.of_rows(table, sizes, dropped, paid)


def log_sum(logs: Sequence[float]) -> float:
    """Return the logarithm of the sum of numbers, given their logarithms."""
    largest = max(logs)
    if not math.isfinite(largest):
        return largest
    return largest + math.log(sum(math.exp(one - largest) for one in logs))
