"""What can be said for each number of corrupt rows, and how many it takes to overturn a conclusion.

A number of corrupt rows here is that of all samples together, wherever they sit: the interval for it is the hull of
those for every way to split it between the samples. The interval of a sample for t corrupt rows holds for fewer, too.
Where the vote is a median, one that allows for none is at the mercy of gross errors; so every split then allows each
sample at least its part of the number assumed, which was fixed beforehand.

A conclusion at the number assumed stands as long as it does at every larger one: if it is false and t* rows are
corrupt, the interval for t* (or for the number assumed, if that is larger) misses the truth, and its confidence is
known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.blocks.choose import log_delta_of
from outvote.cli.answers import Asked, Value, may_be_soft
from outvote.contamination import Contamination
from outvote.data.rows import MoreCorruptRows
from outvote.estimate.estimate import mean
from outvote.estimate.unknown import level_counts

#: Each number of corrupt rows up to this one is a level of its own; then levels grow by 2 %.
_EXACT_LEVELS, _GROWTH = 64, 1.02
#: Show at least so many more corrupt rows than there are for certain.
_FEWEST_SHOWN = 16
_KINDS = ("certified", "plug-in", "none")


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
    stands : int or None
        The conclusion at `start` stands for every number of corrupt rows from there to this one.
    provenance : str
        The weakest grounds up to what is assumed.
    note : str
        Why there is no interval, where there is none.
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
    stands: int | None
    provenance: str
    note: str = ""

    def at(self, count: int) -> tuple[Value, int]:
        """Return what comes out if so many rows are corrupt, and the verdict."""
        i = int(np.searchsorted(self.stops, count))
        estimate, low, high = (float(column[i]) for column in (self.estimate, self.low, self.high))
        kind = self.provenance if math.isfinite(high - low) else "none"
        return Value.checked(estimate, low, high, (high - low) / 2, kind), int(self.verdict[i])

    @property
    def settled(self) -> bool:
        """Whether there is a conclusion for the number of corrupt rows assumed."""
        return self.stands is not None and self.stands >= self.assumed


@dataclass
class _Side:
    """One sample: its interval for each number of corrupt rows, computed as far as it is asked for."""

    values: NDArray[np.float64]
    options: dict[str, Any]
    assumed: int
    guarded: bool
    levels: list[int] = field(init=False)
    found: list[tuple[float, float, float]] = field(default_factory=list)
    provenances: list[str] = field(default_factory=list)
    certain: int = 0
    note: str = ""

    def __post_init__(self) -> None:
        self.levels = level_counts((len(self.values) - 1) // 2, exact_up_to=_EXACT_LEVELS, growth=_GROWTH)

    def extend(self, reach: int) -> None:
        """Compute the intervals for up to `reach` corrupt rows, and one more level."""
        while len(self.found) < len(self.levels) and (not self.found or self.levels[len(self.found) - 1] < reach):
            try:
                one = mean(self.values, Contamination(self.levels[len(self.found)]), **self.options)
                self.found.append((float(one.estimate), float(one.interval.low), float(one.interval.high)))
                self.provenances.append(one.certificate.provenance)
                self.note = self.note or (one.certificate.note if self.provenances[-1] == "none" else "")
            except MoreCorruptRows as more:
                self.certain = more.count
                self.found.append((math.nan, math.nan, math.nan))
                self.provenances.append(_KINDS[0])
            except ValueError as error:
                self.found.append((math.nan, -math.inf, math.inf))
                self.provenances.append("none")
                self.note = self.note or str(error)

    def level(self, count: int) -> int:
        """Return the place of the level that a number of corrupt rows has."""
        return int(np.searchsorted(self.levels[: len(self.found)], count))

    @property
    def table(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """First and last number of each level, and what was found; then a level at which anything may be."""
        last = np.array([*self.levels[: len(self.found)], len(self.values)])
        return np.array([0, *(last[:-1] + 1)]), last, np.array([*self.found, (math.nan, -math.inf, math.inf)]).T


def curve(samples: Sequence[NDArray[np.float64]], asked: Asked, *, bound: float = 0.0) -> Curve:
    """Estimate a mean, or mean(b) - mean(a), for every number of corrupt rows that matters.

    Parameters
    ----------
    samples : sequence of ndarray
        One sample, or a and b.
    asked : Asked
        What was asked for; its contamination is the number assumed, which is taken of each sample and added up.
    bound : float
        What the estimate is compared with.
    """
    if asked.nan == "omit":
        samples = [values[~np.isnan(values)] for values in samples]
    confidence = -math.expm1(log_delta_of(asked.confidence) - math.log(len(samples)))
    counts = [asked.count(len(values)) for values in samples]
    options, guarded = asked.options | {"confidence": confidence}, not may_be_soft(asked)
    sides = [_Side(values, options, count, guarded) for values, count in zip(samples, counts, strict=True)]
    farthest = min(side.levels[-1] for side in sides) + 1
    reach = max(2 * sum(counts), _FEWEST_SHOWN)
    while True:
        for side in sides:
            side.extend(reach)
        certain = sum(side.certain for side in sides)
        assumed = max(sum(counts), certain)
        most = max(assumed, min(reach, farthest))
        wanted = {*level_counts(most, exact_up_to=_EXACT_LEVELS, growth=_GROWTH), certain, assumed}
        stops = np.array(sorted(t for t in wanted if t >= certain))
        low, high = np.array([_hull(sides, int(t)) for t in stops]).T
        since = stops >= assumed
        low[since], high[since] = np.minimum.accumulate(low[since]), np.maximum.accumulate(high[since])
        verdict = np.where(low > bound, 1, np.where(high < bound, -1, 0))
        first = int(np.searchsorted(stops, assumed))
        first = first if verdict[first] else 0
        others = np.flatnonzero(verdict[first:] != verdict[first])
        last = first + int(others[0]) - 1 if len(others) else len(stops) - 1
        stands = int(stops[last]) if verdict[first] else None
        least = max(2 * assumed, certain + _FEWEST_SHOWN, math.ceil(1.5 * (stands or 0)))
        if least <= reach or reach >= farthest:
            break
        reach = least
    kinds = {
        kind for side in sides for level, kind in zip(side.levels, side.provenances, strict=False) if level <= assumed
    }
    return Curve(
        bound=bound,
        n_rows=sum(map(len, samples)),
        certain=certain,
        assumed=assumed,
        stops=stops,
        estimate=np.array([_estimate(sides, int(t)) for t in stops]),
        low=low,
        high=high,
        verdict=verdict,
        start=int(stops[first]),
        stands=stands,
        provenance=max(kinds - {_KINDS[-1]}, key=_KINDS.index, default=_KINDS[-1]),
        note="; ".join(dict.fromkeys(side.note for side in sides if side.note)),
    )


def _split(sides: Sequence[_Side], count: int) -> list[int]:
    """Split corrupt rows as those assumed are split, or as near to that as those for certain allow."""
    parts = [side.assumed for side in sides]
    if not sum(parts):
        parts = [len(side.values) for side in sides]
    split, left, spare = [], count, sum(side.certain for side in sides)
    for part, side in zip(parts, sides, strict=True):
        spare -= side.certain
        share = left if side is sides[-1] else round(count * part / sum(parts))
        split.append(max(side.certain, min(share, left - spare)))
        left -= split[-1]
    return split


def _hull(sides: Sequence[_Side], count: int) -> tuple[float, float]:
    """The hull of the intervals for all ways to split a number of corrupt rows."""
    first, last = np.zeros((), dtype=np.int64), np.zeros((), dtype=np.int64)
    low, high = np.zeros(()), np.zeros(())
    for share, side in zip(_split(sides, count), sides, strict=True):
        starts, ends, (_, lows, highs) = side.table
        floor = side.level(min(share, side.assumed)) if side.guarded else 0
        starts, ends, lows, highs = (column[floor:] for column in (starts, ends, lows, highs))
        starts = np.r_[0, starts[1:]]  # fewer corrupt rows have this level, too
        if side is not sides[-1]:
            lows, highs = -highs, -lows
        first, last = np.add.outer(first, starts), np.add.outer(last, ends)
        low, high = np.add.outer(low, lows), np.add.outer(high, highs)
    here = ~np.isnan(low) & (first <= count) & (count <= last)  # those that are NaN contradict the rows
    return float(low[here].min()), float(high[here].max())


def _estimate(sides: Sequence[_Side], count: int) -> float:
    found = 0.0
    for sign, share, side in zip((-1, 1)[-len(sides) :], _split(sides, count), sides, strict=True):
        found += sign * float(side.table[2][0][side.level(share)])
    return found
