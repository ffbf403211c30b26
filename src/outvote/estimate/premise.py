"""What is read off rows of which nothing is declared: an sd, a point, and the rows that no ordinary tail explains."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outvote.data.text import short, spaced, spaced_count
from outvote.estimate.ordered import Ordered
from outvote.votes import Terms
from outvote.votes.evidence import EvidenceInterval, Read, SortedRows, believed_premises, unreadable

DECLARE = (
    "say what is known of the clean rows: assume=Bounded(low, high), assume=FiniteVariance(sd), or assume=Proportion() "
    "for rows of 0 and 1"
)
#: Why rows that are all equal have no interval; where the rows themselves are gone; and where nothing is left.
NO_SCALE = f"Most rows have the same value, so no sd can be read off them: {DECLARE}."
TOO_FAR = (
    "More rows than may be corrupt lie so far from the others that a summary knows too little of them: pass the rows "
    f"themselves, or {DECLARE}."
)
TOO_FEW = "There are too few rows, or too many may be corrupt, to bound the mean at this confidence."


class UnknownScale(ValueError):
    """The rows that are kept hardly differ, so that no sd can be read off them.

    Attributes
    ----------
    point : float
        What the rows show.
    without_interval : RobustEstimate or None
        The answer without an interval, for those who want it all the same.
    """

    def __init__(self, message: str, point: float):
        super().__init__(message)
        self.point = point
        self.without_interval: Any = None


@dataclass(frozen=True)
class Gross:
    """Rows that lie where no ordinary tail explains them, and are taken to be corrupt.

    Attributes
    ----------
    n_below, n_above : int
        How many there are on either side.
    lower, upper : float
        Below the one or above the other rows are gross.
    inner_below, inner_above : float
        Gross rows are at most the first, or at least the second.
    least, most : float
        The smallest and the largest of them.
    """

    n_below: int
    n_above: int
    lower: float
    upper: float
    inner_below: float
    inner_above: float
    least: float
    most: float

    @classmethod
    def of(cls, read: Read, j: int = 0) -> Gross | None:
        """Return the gross rows of a set, None if there are none."""
        one = {name: float(getattr(read, name)[j]) for name in read._fields}
        if not one["n_below"] + one["n_above"] > 0:
            return None
        limits = one["middle"] - one["limit"], one["middle"] + one["limit"]
        return cls(
            int(one["n_below"]), int(one["n_above"]), *limits, one["lower"], one["upper"], one["least"], one["most"]
        )

    @property
    def number(self) -> int:
        """How many there are."""
        return self.n_below + self.n_above

    def times(self, factor: float) -> Gross:
        """Return those of rows `factor` times as large."""
        names = ("lower", "upper", "inner_below", "inner_above", "least", "most")
        return replace(self, **{name: getattr(self, name) * factor for name in names})

    def where(self, number: int) -> str:
        """Say in words where that many rows, all of them or one, lie.

        Examples
        --------
        >>> Gross(0, 57, -10.0, 12.4, -np.inf, 14.1, 14.1, 33.0).where(57)
        'lie above 12.4 (from 14.1 to 33)'
        >>> Gross(50, 0, -310.2, 350.0, -999.0, np.inf, -999.0, -999.0).where(50)
        'are -999, below -310'
        """
        limits = [f"below {short(self.lower)}"] * (self.n_below > 0) + [f"above {short(self.upper)}"] * (
            self.n_above > 0
        )
        beyond = " or ".join(limits)
        if self.least == self.most:
            return f"{'is' if number == 1 else 'are'} {short(self.least, 6)}, {beyond}"
        return f"{'lies' if number == 1 else 'lie'} {beyond} (from {short(self.least, 4)} to {short(self.most, 4)})"

    def positions(self, ordered: Ordered) -> list[int]:
        """Return where these rows are, the farthest first."""
        x = ordered.given
        found = np.flatnonzero((x <= self.inner_below) | (x >= self.inner_above))
        away = np.abs(x[found] - (self.lower / 2 + self.upper / 2))
        return [int(position) for position in ordered.positions[found[np.argsort(-away, kind="stable")]]]


@dataclass(frozen=True)
class Premise:
    """An sd that is read off the rows, a point, and the interval that holds if the clean rows' sd is no larger.

    The sd is 0 where there is none, and then there is a reason why.
    """

    sd: float
    point: float
    interval: EvidenceInterval
    gross: Gross | None = None
    why: str = NO_SCALE


def premise_of(rows: SortedRows, terms: Terms, *, screened: bool = True, subject: str = "") -> Premise:
    """Read an sd off the rows, doubled as long as the rows contradict it, and the interval of that premise.

    Unless they are `screened`, no row is taken to be corrupt because of where it lies.
    """
    return premises_of([rows], terms, screened=screened, subject=subject)[0]


def premises_of(rows: Sequence[SortedRows], terms: Terms, *, screened: bool = True, subject: str = "") -> list[Premise]:
    """Do this for several sets of rows at once; of rows that are all equal the sd is 0, and nothing is ruled out."""
    why = [TOO_FEW if one.n_values <= one.droppable else TOO_FAR * (one.n_unknown > one.droppable) for one in rows]
    if any(why):
        if len(rows) > 1:
            return [premise_of(one, terms, screened=screened, subject=subject) for one in rows]
        return [Premise(0.0, math.nan, EvidenceInterval(-math.inf, math.inf, math.nan), why=why[0])]
    reads = [one.read(screened=screened) for one in rows]
    for one, read in zip(rows, reads, strict=True):
        if read.n_other[0] and unreadable(read, one.droppable)[0]:
            raise unknown_scale(one, read, subject)
    which = [i for i, read in enumerate(reads) if 0 < read.sd[0] < math.inf]
    found = believed_premises([rows[i] for i in which], [float(reads[i].sd[0]) for i in which], terms) if which else []
    believed = dict(zip(which, found, strict=True))
    premises = []
    for i, read in enumerate(reads):
        point = float(read.point[0])
        sd, ends = believed.get(i, (0.0, EvidenceInterval(-math.inf, math.inf, point)))
        premises.append(
            Premise(sd, point, replace(ends, estimate=min(max(point, ends.low), ends.high), sd=sd), Gross.of(read))
        )
    return premises


def unknown_scale(rows: SortedRows, read: Read, subject: str = "") -> UnknownScale:
    """Return the error for rows that hardly differ: why, what would work, and what to declare."""
    n, other, k = rows.n_values, int(read.n_other[0]), rows.droppable
    common = float(read.middle[0])
    bins = getattr(rows.first_set, "bins", None)
    if bins is not None:  # a bin may hold 0, but its mean is not known to the last digit
        place = bins.at(n // 2)
        common = 0.0 if bins.low[place] <= 0 <= bins.high[place] else common
    of = f" of {subject}" if subject else ""
    return UnknownScale(
        f"{spaced(n - other)} of the {spaced_count(n, 'row')}{of} are {short(common, 6)}, and {spaced(k)} may be"
        f" corrupt: of the {spaced(other)} others too few would be left to read an sd off them. Allow for at most "
        f"contamination={2 * other // 3 + rows.n_found}, or {DECLARE}",
        float(read.point[0]),
    )
