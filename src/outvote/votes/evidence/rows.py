"""Sorted rows, and the product of their factors without the largest ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from outvote.votes.evidence.bins import Bins
from outvote.votes.evidence.factors import Factor, Floats, sum_of_logs, together
from outvote.votes.evidence.kernel import STAKES, Atoms, Excess, Factors, log_products, mixed
from outvote.votes.evidence.premise import Read
from outvote.votes.evidence.scale import central_sd, central_window, median_of_sorted

#: From so many rows on those that are nearly equal are gathered.
GATHERED = 1024
#: So many rows at either end are not gathered, if they may be dropped.
_APART = 128


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
    >>> math.isclose(rows.log_evidence([factor], 0.5, 0.5), kept.log_evidence([factor], 0.5, 0.5))
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

    def check_units(self, sd: float) -> None:
        """Refuse rows that no float holds in units of an sd."""
        if self.n_values and not math.isfinite(self.middle * (1 / sd)):
            raise ValueError(
                f"assume declares a scale of {sd:.4g}, and the rows lie near {self.middle:.4g}: no float holds "
                "their ratio; subtract a typical row from all rows, or declare another scale"
            )

    def log_evidence(self, factors: Sequence[Factor], low: float, high: float) -> float:
        """Return the logarithm of the evidence of a mixture of factors against all means from one number to another."""
        ready = [one.each(lambda x: np.broadcast_to(x, (*x.shape[:2], 1))) for one in together(factors)]
        atoms = [one.at(np.array([0])) for one in self.atoms]
        lo, hi = None if low == -math.inf else np.array([low]), np.array([high])
        with np.errstate(over="ignore", invalid="ignore"):
            return float(Excess(atoms, ready, np.zeros(1))(hi if low == high else lo, hi)[0])

    def log_spread_above(self, end: float, unit: float) -> float:
        """Return the logarithm of the evidence that the variance exceeds unit², from rows above `end`."""
        stakes = np.array(STAKES)[:, None, None]
        f = Factors.spread(stakes, np.full_like(stakes, unit))
        with np.errstate(over="ignore", invalid="ignore"):
            logs = log_products(self.atoms[0].at(np.array([0])), f, None, np.array([end]))
        return float(mixed(logs + f.log_weight)[0, 0])

    def read(self, *, screened: bool = True) -> Read:
        """Read an sd and a point off the rows, of which there are some; unless they are `screened` no row is gross."""
        if self.gathered is not None:
            middle = median_of_sorted(self.values)
            equal = np.diff(np.searchsorted(self.values, [middle, np.nextafter(middle, np.inf)]))
            found = Read.of_bins(self.gathered, self.droppable, middle, screened=screened)
            return found._replace(n_other=self.n_values - equal.astype(np.float64))
        return Read.of_rows(self.values[None], self.n_values, self.droppable, screened=screened)

    @cached_property
    def atoms(self) -> list[Atoms]:
        """The rows for the kernel, in both directions; several ways to take them have their evidence averaged."""
        return [atoms_of([self])]

    @cached_property
    def gathered(self) -> Bins | None:
        """The rows in bins of those that are nearly equal, if they are many."""
        if self.n_values < GATHERED:
            return None
        return Bins.of_sorted(self.values, min(self.droppable, _APART))

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


class SeveralRows(SortedRows):
    """Several sets of rows of one distribution, each by itself independent: the mean of their evidence is evidence."""

    def __init__(self, members: Sequence[SortedRows]):
        first = members[0]
        super().__init__(np.empty(0), first.n_corrupt, first.n_found, adaptive=first.adaptive)
        self._members, self._first = members, first
        self.central_sd, self.central_mean = first.central_sd, first.central_mean  # type: ignore[method-assign]
        self.read = first.read  # type: ignore[method-assign]

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

    @cached_property
    def atoms(self) -> list[Atoms]:
        """All sets, whose evidence is averaged."""
        return [atoms for one in self._members for atoms in one.atoms]

    @property
    def smallest(self) -> float:
        """A number that no row is below."""
        return min(one.smallest for one in self._members)

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
