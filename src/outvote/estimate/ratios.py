"""Rows of a denominator and a numerator, read once for every number of corrupt rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, BoundedRatio, FiniteKurtosis, Symmetric, one_assumption
from outvote.data.missing import NanPolicy
from outvote.data.rows import read_rows
from outvote.estimate.ordered import Floats, Ordered, size_if_extreme
from outvote.estimate.result import Histogram
from outvote.estimate.screened import without_bad_rows
from outvote.votes.evidence import Pairs
from outvote.votes.evidence.ratio import Cells, RatioRows

#: What the premise of a ratio is about.
SUBJECT = "the sd of numerator - ratio·denominator in clean rows"

#: Most denominators must lie between these, so that their squares are floats.
_LEAST, _MOST = 1e-100, 1e100


@dataclass(frozen=True, eq=False)
class Ratios(Ordered):
    """Rows of a numerator (`column`) and a denominator, NaN in both for those that are corrupt for certain.

    Attributes
    ----------
    below : ndarray
        The denominators, none of which is negative.
    """

    below: Floats = field(default_factory=lambda: np.empty(0), kw_only=True)
    subject: str = field(default=SUBJECT, kw_only=True)

    @cached_property
    def values(self) -> Floats:
        """The rows in order, which they have none of."""
        raise ValueError("rows of a numerator and a denominator have no order")

    def gaps(self, mean: float) -> NDArray[Any]:
        """Return numerator - ratio·denominator of the rows as they came."""
        found: NDArray[Any] = self.column - mean * self.below
        return found

    def wrong_values(self, assume: Assumption | None) -> str:
        """Say in words what rows have that are corrupt for certain."""
        if isinstance(assume, BoundedRatio):
            return f"values other than {assume.describe()}"
        return "negative denominators, NaN or infinite values"

    @property
    def plain(self) -> float:
        """The ratio of the plain means of the rows that may be clean."""
        there = ~np.isnan(self.column)
        with np.errstate(over="ignore", invalid="ignore"):
            above, below = (float(one[there].mean()) if there.any() else math.nan for one in (self.column, self.below))
        return above / below if below else math.nan

    def size(self, n_dropped: int) -> float:
        """Return a power of two near the size of the numerators that are not dropped, if that is extreme; else 1."""
        sizes = np.abs(self.column[~np.isnan(self.column)])
        if len(sizes) <= 2 * n_dropped:
            return 1.0
        at = len(sizes) - n_dropped - 1
        return size_if_extreme(float(np.partition(sizes, at)[at]))

    def picture(self, low: float, high: float) -> Callable[[], Histogram]:
        """Return what draws the histogram of the ratios of single rows."""
        there = self.below > 0
        with np.errstate(over="ignore"):
            ratios = np.sort(self.column[there] / self.below[there])
        return partial(Histogram.of, ratios, low, high)

    @property
    def commonest(self) -> tuple[float, int]:
        """None: rows of two numbers have no middle."""
        return math.nan, 0

    @property
    def only_0_and_1(self) -> bool:
        """False: that is for single columns."""
        return False

    @cached_property
    def _cells(self) -> Cells:
        there = ~np.isnan(self.column)
        return Cells.of(self.column[there], self.below[there])

    def rows(self, n_corrupt: int, *, adaptive: bool) -> RatioRows:
        """Return the rows, of which so many may be corrupt."""
        return RatioRows(self._cells, max(n_corrupt, self.n_found), self.n_found, adaptive=adaptive)

    def pairs(self, n_corrupt: int, *, adaptive: bool) -> Pairs:
        """Refuse: the sd of gaps depends on the ratio."""
        raise ValueError("FiniteKurtosis without an sd does not go with ratio=True: give sd, FiniteKurtosis(9.0, sd)")

    def scaled(self, factor: float) -> Ratios:
        """Return the rows with their numerators multiplied by a positive number."""
        with np.errstate(over="ignore"):
            return Ratios(self.column * factor, self.where, self.n_bad, n_nan=self.n_nan, below=self.below)


def read_ratios(x: Any, name: str, assume: Assumption | None, nan_policy: NanPolicy) -> Ratios:
    """Read rows of a denominator and a numerator, and apply the NaN policy.

    Rows with a negative denominator are corrupt for certain, and so are those outside of their bounds.
    """
    table = read_rows(x, name)
    if table.ndim != 2 or table.shape[1] != 2:
        raise ValueError(
            f"{name} has shape {tuple(table.shape)}: with ratio=True its rows are pairs (denominator, numerator)"
        )
    read = without_bad_rows(table, nan_policy, name)
    below, above = (read.table[:, j].astype(np.float64) for j in (0, 1))
    bad = below < 0 if read.bad is None else (below < 0) | read.bad
    if isinstance(assume, BoundedRatio):
        bad = bad | (below > assume.denominator) | (above < 0) | (above > assume.numerator)
    below[bad] = above[bad] = math.nan
    positive = below[~bad & (below > 0)]
    if not len(positive):
        raise ValueError(f"{name} has no positive denominator: nothing bounds a ratio")
    usual = float(np.partition(positive, len(positive) // 2)[len(positive) // 2])
    if not _LEAST < usual < _MOST:
        raise ValueError(
            f"{name} has denominators of about {usual:.4g}, but {_LEAST:g} to {_MOST:g} are taken: divide the "
            "denominators, or both columns, by a power of ten first"
        )
    return Ratios(above, read.where, read.n_bad, n_nan=int(bad.sum()), below=below)


def ratio_assumptions(assume: Any, n_samples: int) -> tuple[Assumption | None, ...]:
    """Return what is known of each sample: of numerator - ratio·denominator, or bounds of both columns.

    Examples
    --------
    >>> from outvote import Bounded, FiniteVariance
    >>> ratio_assumptions((Bounded(0, 9), Bounded(0, 5)), 2)[0]
    BoundedRatio(denominator=9.0, numerator=5.0)
    >>> ratio_assumptions((FiniteVariance(1.0), None), 2)
    (FiniteVariance(sd=1.0, zetas=None), None)
    """
    if isinstance(assume, (tuple, list)) and len(assume) == 2 and all(isinstance(one, Bounded) for one in assume):
        return (BoundedRatio.of(tuple(assume)),) * n_samples
    entries = tuple(assume) if isinstance(assume, (tuple, list)) else (assume,) * n_samples
    if len(entries) != n_samples:
        raise ValueError(f"assume has {len(entries)} entries for {n_samples} samples: give one, or one for each")
    for one in entries:
        if isinstance(one, (Bounded, Symmetric)) or (isinstance(one, FiniteKurtosis) and one.sd is None):
            raise ValueError(
                f"assume={one!r} does not go with ratio=True: say what is known of numerator - ratio·denominator, "
                "FiniteVariance(sd) for instance, or give bounds of both columns, (Bounded(0, 50), Bounded(0, 900))"
            )
    return tuple(None if one is None else one_assumption(one) for one in entries)
