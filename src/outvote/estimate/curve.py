"""An interval and a verdict for every number of corrupt rows: the one engine behind tolerance, compare and report.

A number of corrupt rows here is that of all samples together, wherever they sit: the interval for it is the hull of
those for every way to split it between the samples. The interval of a sample for t corrupt rows holds for fewer, too.
A median of blocks that allows for no corrupt row is at the mercy of gross errors, so with a median every split allows
each sample at least its part of the number assumed, which was fixed beforehand.

A conclusion at the number assumed stands as long as it does at every larger one: if it is false and t* rows are
corrupt, the interval for t* (or for the number assumed, if that is larger) misses the truth, and its confidence is
known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from outvote.certificate.document import PROVENANCES
from outvote.data.missing import MoreCorruptRows
from outvote.estimate.levels import level_counts
from outvote.estimate.premise import NO_SCALE
from outvote.estimate.result import RobustEstimate
from outvote.estimate.weigh import Weighed

#: Each number of corrupt rows up to this one is a level of its own; then levels grow by 2 %.
_EXACT_LEVELS, _GROWTH = 64, 1.02
#: How many numbers of corrupt rows evidence is shown for, at least.
_SHOWN = 10
#: Show at least so many more corrupt rows than there are for certain.
_FEWEST_SHOWN = 16


@dataclass
class Side:
    """One sample: its interval for each number of corrupt rows, computed once, when it is asked for.

    Attributes
    ----------
    n_rows : int
        Rows of the sample.
    assumed : int
        Corrupt rows assumed.
    run : callable
        Estimates the mean for a number of corrupt rows.
    guarded : bool
        Whether every split allows the sample at least its part of the number assumed.
    """

    n_rows: int
    assumed: int
    run: Callable[[int], RobustEstimate]
    guarded: bool
    levels: list[int] = field(init=False)
    found: list[tuple[float, float, float]] = field(default_factory=list)
    provenances: list[str] = field(default_factory=list)
    certain: int = 0
    note: str = ""

    def __post_init__(self) -> None:
        self.levels = level_counts((self.n_rows - 1) // 2, exact_up_to=_EXACT_LEVELS, growth=_GROWTH)

    def extend(self, reach: int) -> None:
        """Compute the intervals for up to `reach` corrupt rows, and one more level."""
        while len(self.found) < len(self.levels) and (not self.found or self.levels[len(self.found) - 1] < reach):
            try:
                one = self.run(self.levels[len(self.found)])
                self.found.append((float(one.estimate), float(one.interval.low), float(one.interval.high)))
                self.provenances.append(one.certificate.provenance)
                self.note = self.note or (one.certificate.note if self.provenances[-1] == "none" else "")
            except MoreCorruptRows as more:
                self.certain = max(self.certain, more.count, self.levels[len(self.found)] + 1)
                self.found.append((math.nan, math.nan, math.nan))
                self.provenances.append(PROVENANCES[0])
            except ValueError as error:
                self.found.append((math.nan, -math.inf, math.inf))
                self.provenances.append("none")
                self.note = self.note or str(error)

    def level(self, count: int) -> int:
        """Return the position of the level that a number of corrupt rows has."""
        return int(np.searchsorted(self.levels[: len(self.found)], count))

    @property
    def table(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """First and last number of each level, and what was found; then a level at which anything may be."""
        last = np.array([*self.levels[: len(self.found)], self.n_rows])
        return np.array([0, *(last[:-1] + 1)]), last, np.array([*self.found, (math.nan, -math.inf, math.inf)]).T


@dataclass(frozen=True)
class Curve:
    """An estimate and its interval against the number of corrupt rows in all samples together.

    Attributes
    ----------
    bound : float
        What the estimate is compared with.
    n_rows : int
        Rows of all samples.
    certain : int
        Rows that are corrupt for certain: no smaller number is shown.
    assumed : int
        The number of corrupt rows assumed.
    stops : ndarray of int
        Numbers of corrupt rows; one between two of them has the interval of the larger.
    estimate, low, high : ndarray
        What comes out; infinite or NaN where nothing does. From `assumed` on an interval covers those before it.
    verdict : ndarray of int
        1 where the estimate is above the bound for certain, -1 where it is below, 0 where that is open.
    start : int
        Where the conclusion is drawn: the number assumed, or the smallest shown if nothing is settled there.
    sign : int
        The verdict there.
    stands : int or None
        The conclusion at `start` stands for every number of corrupt rows from there to this one.
    provenance : str
        The weakest provenance up to what is assumed.
    note : str
        Why there is no interval, where there is none.
    premise : str
        What must be true of the clean rows, in words, if an sd was read off them.
    misfit : str
        If nothing is settled: which numbers of corrupt rows are too small for these rows and their sd, in words.
    """

    bound: float
    n_rows: int
    certain: int
    assumed: int
    stops: NDArray[np.int64]
    estimate: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    verdict: NDArray[np.int64]
    start: int
    sign: int
    stands: int | None
    provenance: str
    note: str = ""
    premise: str = ""
    misfit: str = ""

    @property
    def settled(self) -> bool:
        """Whether there is a conclusion for the number of corrupt rows assumed."""
        return self.stands is not None and self.stands >= self.assumed

    def at(self, count: int) -> int:
        """Return the position of a number of corrupt rows among the stops."""
        return int(np.searchsorted(self.stops, count))


@dataclass(frozen=True)
class _Cells:
    """Every combination of levels of the samples: the numbers of corrupt rows it covers, and the interval."""

    first: NDArray[np.int64]
    last: NDArray[np.int64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]

    @classmethod
    def of(cls, sides: Sequence[Side], floors: Sequence[int]) -> _Cells:
        """Combine the levels of the sides, from a lowest one of each on."""
        first, last = np.zeros((), dtype=np.int64), np.zeros((), dtype=np.int64)
        low, high = np.zeros(()), np.zeros(())
        for floor, side in zip(floors, sides, strict=True):
            starts, ends, (_, lows, highs) = side.table
            starts, ends, lows, highs = (column[floor:] for column in (starts, ends, lows, highs))
            starts = np.r_[0, starts[1:]]  # fewer corrupt rows have this level, too
            if side is not sides[-1]:
                lows, highs = -highs, -lows
            first, last = np.add.outer(first, starts), np.add.outer(last, ends)
            with np.errstate(invalid="ignore"):
                low, high = np.add.outer(low, lows), np.add.outer(high, highs)
        return cls(first.ravel(), last.ravel(), low.ravel(), high.ravel())

    def hull(self, count: int) -> tuple[float, float]:
        """Return the hull of the intervals for all ways to split a number of corrupt rows."""
        here = ~np.isnan(self.low) & (self.first <= count) & (count <= self.last)  # NaN: levels the rows contradict
        return float(self.low[here].min()), float(self.high[here].max())

    def stands(self, start: int, bound: float, sign: int) -> int:
        """Return the largest number such that the verdict holds for every one from `start` to it."""
        failing = ~np.isnan(self.low) & (self.last >= start)
        failing &= ~(self.low > bound) if sign > 0 else ~(self.high < bound)
        return int(np.maximum(self.first[failing], start).min()) - 1


def _floors(sides: Sequence[Side], count: int) -> tuple[int, ...]:
    """Return the lowest level of each side that counts: with a guard, its part of `count` up to what is assumed."""
    split = zip(_split(sides, count), sides, strict=True)
    return tuple(side.level(min(share, side.assumed)) if side.guarded else 0 for share, side in split)


def curve(sides: Sequence[Side], *, bound: float = 0.0, shown: bool = True) -> Curve:
    """Estimate a mean, or mean(b) - mean(a), for every number of corrupt rows that matters.

    Parameters
    ----------
    sides : sequence of Side
        One sample, or a and b. What they have computed is kept, and used again by the next curve.
    bound : float
        What the estimate is compared with.
    shown : bool
        Whether numbers beyond those at which the conclusion falls are computed, to be drawn.
    """
    farthest = min(side.levels[-1] for side in sides) + 1
    reach = max(2 * sum(side.assumed for side in sides), _FEWEST_SHOWN)
    while True:
        for side in sides:
            side.extend(reach)
        certain = sum(side.certain for side in sides)
        assumed = max(sum(side.assumed for side in sides), certain)
        start, sign, stands = _conclusion(sides, certain, assumed, bound)
        beyond = 1.5 * (stands or 0) if shown else (stands or 0) + 1
        least = max(2 * assumed, certain + _FEWEST_SHOWN, math.ceil(beyond))
        if least <= reach or reach >= farthest:
            break
        reach = least
    most = max(assumed, min(reach, farthest))
    wanted = {*level_counts(most, exact_up_to=_EXACT_LEVELS, growth=_GROWTH), certain, assumed}
    stops = np.array(sorted(t for t in wanted if t >= certain))
    floors = [_floors(sides, int(t)) for t in stops]
    cells = {one: _Cells.of(sides, one) for one in dict.fromkeys(floors)}
    low, high = np.array([cells[one].hull(int(t)) for one, t in zip(floors, stops, strict=True)]).T
    since = stops >= assumed
    low[since], high[since] = np.minimum.accumulate(low[since]), np.maximum.accumulate(high[since])
    kinds = {
        kind for side in sides for level, kind in zip(side.levels, side.provenances, strict=False) if level <= assumed
    }
    return Curve(
        bound=bound,
        n_rows=sum(side.n_rows for side in sides),
        certain=certain,
        assumed=assumed,
        stops=stops,
        estimate=np.array([_estimate(sides, int(t)) for t in stops]),
        low=low,
        high=high,
        verdict=np.where(low > bound, 1, np.where(high < bound, -1, 0)),
        start=start,
        sign=sign,
        stands=stands,
        provenance=max(kinds - {"none"}, key=PROVENANCES.index, default="none"),
        note="; ".join(dict.fromkeys(side.note for side in sides if side.note)),
    )


def weigh_curve(weighed: Weighed, *, bound: float = 0.0, shown: bool = True) -> Curve:
    """Return the curve of a mean, or of a difference, by evidence, which is nested in the number of corrupt rows."""
    certain = weighed.certain
    assumed = max(sum(weighed.counts), certain)
    likely = 1 if weighed.plain >= bound else -1
    stands = {sign: weighed.stands(bound, sign, certain) for sign in (likely, -likely)}
    sign = max(stands, key=lambda one: (stands[one] is not None, stands[one] or 0))
    last = stands[sign]
    wanted = {certain, assumed}
    if shown:
        reach = min(max(2 * assumed, certain + _FEWEST_SHOWN, math.ceil(1.5 * (last or 0))), weighed.most)
        wanted |= {certain + round((reach - certain) * (i / _SHOWN) ** 2) for i in range(_SHOWN + 1)}
        wanted |= {t for t in (last, (last or 0) + 1) if t is not None and certain <= t <= reach}
    found = {t: weighed.interval(t) for t in sorted(wanted)}
    if any(not one.empty for one in found.values()):  # with so few corrupt rows they contradict what is declared
        found = {t: one for t, one in found.items() if not one.empty}
    low, high = (np.array([getattr(one, end) for one in found.values()]) for end in ("low", "high"))
    stops = np.array(list(found))
    verdict = np.where(stops <= (-1 if last is None else last), sign, 0)
    bounded = bool(np.isfinite(high - low).any())
    return Curve(
        bound=bound,
        n_rows=weighed.n_rows,
        certain=certain,
        assumed=assumed,
        stops=stops,
        estimate=np.array([one.estimate for one in found.values()]),
        low=low,
        high=high,
        verdict=verdict,
        start=assumed if last is not None and last >= assumed else certain,
        sign=0 if last is None else sign,
        stands=last,
        provenance=weighed.provenance if bounded else "none",
        note="" if bounded else NO_SCALE,
        premise=weighed.premise(),
        misfit=weighed.misfit() if last is None else "",
    )


def _conclusion(sides: Sequence[Side], certain: int, assumed: int, bound: float) -> tuple[int, int, int | None]:
    """Return where the conclusion is drawn, what it is (1, -1, or 0 if open), and up to where it stands."""
    for start in dict.fromkeys((assumed, certain)):
        cells = _Cells.of(sides, _floors(sides, start))
        low, high = cells.hull(start)
        sign = 1 if low > bound else -1 if high < bound else 0
        if sign:
            return start, sign, cells.stands(start, bound, sign)
    return certain, 0, None


def _split(sides: Sequence[Side], count: int) -> list[int]:
    """Split corrupt rows as those assumed are split, or as near to that as those for certain allow."""
    parts = [side.assumed for side in sides]
    if not sum(parts):
        parts = [side.n_rows for side in sides]
    split, left, spare = [], count, sum(side.certain for side in sides)
    for part, side in zip(parts, sides, strict=True):
        spare -= side.certain
        share = left if side is sides[-1] else round(count * part / sum(parts))
        split.append(max(side.certain, min(share, left - spare)))
        left -= split[-1]
    return split


def _estimate(sides: Sequence[Side], count: int) -> float:
    found = 0.0
    for sign, share, side in zip((-1, 1)[-len(sides) :], _split(sides, count), sides, strict=True):
        found += sign * float(side.table[2][0][side.level(share)])
    return found
