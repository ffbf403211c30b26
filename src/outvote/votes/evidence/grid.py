"""Where rows are counted: bins of one width near the centre, and of one relative width far from it.

A row x belongs to ``t = 1 + |x - centre|/unit``, on its side of the centre. Each doubling of t is cut into as many bins
of one width; there are 32 doublings, and rows beyond belong to the last bin. With a unit that is a power of two it
takes nothing but additions, comparisons and powers of two, which every engine rounds alike.
What is kept of a bin are whole numbers, so that sums do not depend on the order of the rows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from outvote import _numba
from outvote.data.progress import watched
from outvote.votes.evidence.bins import FARTHEST, SLACK, Bins
from outvote.votes.evidence.factors import Floats

Integers = NDArray[np.int64]

#: Bins, and the smallest and largest number of them: 16 to 16384 for each of 32 doublings on either side.
BINS, FEWEST_BINS, MOST_BINS = 4096, 1024, 1 << 20
_DOUBLINGS = 32
#: Rows that the centre and the unit are read off.
PILOT_ROWS = 1024
#: Rows that differ by less than this share of their size are taken to be equal.
_ROUNDING = 2.0**-40
#: Units are powers of two between these.
_EXPONENTS = (-900, 700)
#: Rows looked at together, so that they stay in the processor's cache; and rows whose sums are exact in a float.
_AT_ONCE, _EXACT = 1 << 15, 1 << 18
#: Numbers that a compiled function counts in some twenty milliseconds.
_INTERRUPTIBLE = 1 << 24
#: Seconds that numpy takes for a row.
_SECONDS = 8e-9
#: The place of a row in its bin is kept to 32 bits, its square to 16.
_PLACE, _SQUARE = 32, 8
#: Sums of that many squares take so many bits; squares are counted in this unit, and a row is a larger number.
_ONE, _SQUARE_UNIT = 2 * _SQUARE + 18, 4.0 ** (_PLACE - _SQUARE)
_ROW = np.array(2.0**_ONE * _SQUARE_UNIT)
#: Floats from 2⁵² to its double are whole numbers, one after the other.
_WHOLE = np.array(2.0**52)
_OF_WHOLE = _WHOLE.view(np.int64)
#: What is kept of the digits of a float: the place, and the digits of it that are squared.
_OF_PLACE = np.array((1 << _PLACE) - 1)
_OF_SQUARE = _OF_WHOLE | ((1 << _SQUARE) - 1) << (_PLACE - _SQUARE)
_PLACES, _SIGN = np.array(_PLACE), np.array(63)


class Grid(NamedTuple):
    """A set of bins.

    Attributes
    ----------
    centre : float
        Where bins are narrowest.
    unit : float
        A power of two: bins within it of the centre are ``64 * unit / number`` wide.
    number : int
        Number of bins, a power of two.

    Examples
    --------
    >>> grid = Grid(10.0, 2.0)
    >>> tallies = grid.tallies(np.array([10.0, 10.01, 10.02, 12.0, 7.0, 1e300]))
    >>> tallies.counts[tallies.counts > 0], grid.bins(tallies).low.round(3)
    (array([1, 3, 1, 1]), array([6.93800000e+00, 1.00000000e+01, 1.20000000e+01, 8.52282574e+09]))
    """

    centre: float
    unit: float
    number: int = BINS

    @classmethod
    def of(cls, pilot: Floats, number: int = BINS) -> Self:
        """Choose centre and unit by finite rows: their median, and how far most of those that differ lie from it."""
        if not len(pilot):
            return cls(0.0, 1.0, number)
        centre = float(np.partition(pilot, (len(pilot) - 1) // 2)[(len(pilot) - 1) // 2])
        gaps = np.abs(np.clip(pilot, -1e300, 1e300) / 2 - min(max(centre, -1e300), 1e300) / 2)
        gaps = gaps[gaps > _ROUNDING * abs(centre)]
        size = 3 * float(np.median(gaps)) if len(gaps) else abs(centre) / 1024 or 1.0
        return cls(centre, _power_of_two(size), number)

    @property
    def per_doubling(self) -> int:
        """How many bins there are for each doubling, on either side."""
        return self.number // (2 * _DOUBLINGS)

    @property
    def farthest(self) -> float:
        """How far from the centre the last bins begin."""
        (near,), _, _ = self.edges(np.array([self.number - 1]))
        return float(near * self.unit)

    def tallies(self, rows: NDArray[np.float64]) -> Tallies:
        """Count rows; NaN and infinities belong to the last bins."""
        return tallies_of_columns(rows[:, None], [self])[0]

    def edges(self, index: Integers) -> tuple[Floats, Floats, Floats]:
        """Return the end of bins that is nearer to the centre, their widths and their sides, in units."""
        if self.number != BINS:
            return _edges(index, self.number)
        near, width, side = _usual_edges()
        return near[index], width[index], side[index]

    def rounding(self, bins: Bins) -> Floats:
        """Return how far a row may lie outside of its bin, because its distance from the centre was rounded."""
        with np.errstate(over="ignore"):
            return 2.0**-49 * (abs(self.centre) + self.unit + np.minimum(np.abs(bins.low), np.abs(bins.high)))

    def bins(self, tallies: Tallies) -> Bins:
        """Return the bins that have rows, in the rows' own units."""
        index = np.flatnonzero(tallies.counts)
        count = tallies.counts[index].astype(np.float64)
        near, width, side = self.edges(index)
        share = tallies.places[index] / count * 2.0**-_PLACE
        # Squares are kept rounded down: this is at least what they add up to about the mean of the bin.
        about = (tallies.squares[index] / count + 2 * 2.0**_SQUARE * share + 1) * 2.0 ** (-2 * _SQUARE)
        spread = np.minimum(np.maximum(about - share * share, 0.0), share * (1 - share)) * width * width
        far, beyond = near + width, (index == 0) | (index == self.number - 1)
        spread[beyond] = math.inf
        mean = near + (share + SLACK) * width
        mean[beyond] = near[beyond]
        with np.errstate(over="ignore"):
            near, far, mean = (self.centre + self.unit * (side * one) for one in (near, far, mean))
            squares = count * spread * self.unit * self.unit
        far[beyond] = side[beyond] * FARTHEST
        return Bins(count, mean, squares, np.where(side > 0, near, far), np.where(side > 0, far, near))


def _edges(index: Integers, number: int) -> tuple[Floats, Floats, Floats]:
    half, per_doubling = number // 2, number // (2 * _DOUBLINGS)
    right = index >= half
    place = np.where(right, index - half, half - 1 - index)
    size = np.exp2((place // per_doubling).astype(np.float64))
    near = size * (1 + (place % per_doubling) / per_doubling) - 1
    return near, size / per_doubling, np.where(right, 1.0, -1.0)


@functools.cache
def _usual_edges() -> tuple[Floats, Floats, Floats]:
    return _edges(np.arange(BINS), BINS)


def tallies_of_columns(table: NDArray[Any], grids: Sequence[Grid]) -> list[Tallies]:
    """Count the rows of each column of a table in its own grid; all grids have as many bins."""
    number, bits = grids[0].number, grids[0].per_doubling.bit_length() - 1
    shape = (len(grids), number)
    counts, places, squares = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    found = [Tallies(*lines) for lines in zip(counts, places, squares, strict=True)]
    functions = _numba.compiled(table.size * _SECONDS)
    if functions is not None and table.dtype in (np.float64, np.float32) and table.dtype.isnative:
        count = _compiled_count(functions, table, grids, bits, counts, places, squares)
        at_once = max(_INTERRUPTIBLE // len(grids), 1)
    else:
        counter, at_once = _Counter(number, min(len(table), _AT_ONCE)), _EXACT

        def count(part: NDArray[Any]) -> None:
            for j, (grid, tallies) in enumerate(zip(grids, found, strict=True)):
                counter.count(part[:, j], grid, tallies)

    with watched(range(0, len(table), at_once), "counting rows") as starts:
        for start in starts:  # between them Ctrl-C is seen
            count(table[start : start + at_once])
    return found


def _compiled_count(
    functions: Any, table: NDArray[Any], grids: Sequence[Grid], bits: int, *arrays: Integers
) -> Callable[[NDArray[Any]], None]:
    """Return a compiled function that adds some rows of a table to the tallies of all columns."""
    if len(grids) == 1 and table.flags.c_contiguous:
        only = [one[0] for one in arrays]
        return lambda part: functions.count_in_bins(part[:, 0], grids[0].centre, grids[0].unit, bits, *only)
    centres, units = (np.array([getattr(one, name) for one in grids]) for name in ("centre", "unit"))
    return lambda part: functions.count_columns(part, centres, units, bits, *arrays)


class Tallies(NamedTuple):
    """What is known of the rows of each bin: whole numbers.

    Attributes
    ----------
    counts : ndarray of int
        How many there are.
    places : ndarray of int
        The sum of how far they lie from the end of the bin nearer to the centre, in 2⁻³² of its width, rounded down.
    squares : ndarray of int
        The sum of the squares of that, in 2⁻⁸ of its width, rounded down.
    """

    counts: Integers
    places: Integers
    squares: Integers

    @classmethod
    def empty(cls, number: int) -> Tallies:
        """Return the tallies of no rows."""
        return cls(*(np.zeros(number, dtype=np.int64) for _ in range(3)))

    def add(self, other: Tallies) -> None:
        """Add the rows of other tallies."""
        for mine, theirs in zip(self, other, strict=True):
            mine += theirs


class _Counter:
    """Counts rows in the bins of grids that have as many; the compiled form is `count_in_bins`.

    Constants are arrays, which numpy takes in half the time of numbers, and arrays are written again and again:
    allocating them takes longer than filling them.
    """

    def __init__(self, number: int, size: int):
        shift = 52 - (number // (2 * _DOUBLINGS)).bit_length() + 1 - _PLACE
        self._number, self._shift, self._end = number, np.array(shift), np.array(number // 2 << _PLACE)
        self._y, self._where, self._both = np.empty(size), np.empty(size, np.int64), np.empty(size, np.complex128)

    def count(self, rows: NDArray[np.float64], grid: Grid, found: Tallies) -> None:
        """Add rows, `_EXACT` at most, to the tallies of a grid."""
        half, sums = self._number // 2, np.zeros(self._number, dtype=np.complex128)
        centre, unit = np.array(grid.centre), np.array(grid.unit)
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(rows), _AT_ONCE):
                where, both = self._located(rows[start : start + _AT_ONCE], centre, unit)
                np.add.at(sums, where, both)  # faster than two bincounts
        packed = (sums.imag / _SQUARE_UNIT).astype(np.int64)
        counted = (packed >> _ONE, sums.real.astype(np.int64), packed & ((1 << _ONE) - 1))
        found.add(Tallies(*(np.concatenate([one[half:][::-1], one[:half]]) for one in counted)))

    def _located(
        self, rows: NDArray[np.float64], centre: Floats, unit: Floats
    ) -> tuple[Integers, NDArray[np.complex128]]:
        """Return the bins of rows, from the centre outwards, first those on its right, and what rows add to them.

        The real part is the place in the bin, the imaginary part the square of its first digits, and 1 for the row.
        """
        n = len(rows)
        y, where, both = self._y[:n], self._where[:n], self._both[:n]
        digits = y.view(np.int64)
        np.subtract(rows, centre, y, dtype=np.float64)  # of float32 rows, too
        if not centre:
            y += 0.0  # -0.0 is no negative number
        np.right_shift(digits, _SIGN, where)  # -1 for negative numbers, 0 for others
        np.bitwise_and(where, self._end, where)
        np.abs(y, y)
        np.add(y, unit, y)
        # That the unit is a power of two shows in the exponent alone.
        np.right_shift(digits, self._shift, digits)
        np.subtract(digits, unit.view(np.int64) >> self._shift, digits)
        if digits.max() >= self._end:
            np.minimum(digits, self._end - 1, out=digits)
        np.bitwise_or(digits, where, digits)
        np.right_shift(digits, _PLACES, where)
        # Digits below those of 2⁵² are 2⁵² and a whole number, as a float: quicker than a conversion.
        np.bitwise_and(digits, _OF_PLACE, digits)
        np.bitwise_or(digits, _OF_WHOLE, digits)
        np.subtract(y, _WHOLE, both.real)
        np.bitwise_and(digits, _OF_SQUARE, digits)
        np.subtract(y, _WHOLE, y)
        np.multiply(y, y, y)
        np.add(y, _ROW, both.imag)
        return where, both


def index_in(rows: Floats, centres: Any, units: Any, number: int) -> Integers:
    """Return the bin of each row, in grids of its own or in one.

    Examples
    --------
    >>> index_in(np.array([0.0, -0.1, 5.0]), 0.0, 1.0, 4096)
    array([2048, 2041, 2208])
    >>> np.flatnonzero(Grid(0.0, 1.0).tallies(np.array([5.0])).counts)
    array([2208])
    """
    half, shift = number // 2, 52 - (number // (2 * _DOUBLINGS)).bit_length() + 1
    with np.errstate(over="ignore"):
        away = rows - centres
        digits = np.asarray(np.abs(away) + units).view(np.int64) >> shift
    place = np.minimum(digits - (np.asarray(units, dtype=np.float64).view(np.int64) >> shift), half - 1)
    return np.where(away < 0, half - 1 - place, half + place)


def pilot_of(rows: NDArray[np.float64]) -> Floats:
    """Return the rows that a grid is chosen by: at most 1024, at equal distances, those that are finite."""
    some = np.asarray(rows[:: pilot_step(len(rows))], dtype=np.float64)
    return some[np.isfinite(some)]


def pilot_step(n_rows: int) -> int:
    """Return how far apart the rows are that a grid is chosen by."""
    return -(-n_rows // PILOT_ROWS) or 1


def _power_of_two(size: float) -> float:
    """Return the largest power of two that is at most `size`."""
    lowest, highest = _EXPONENTS
    return math.ldexp(1.0, min(max(math.frexp(size)[1] - 1, lowest), highest))
