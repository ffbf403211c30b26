"""What a monitor keeps of the rows of one arm: counts, and at first a few rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Proportion
from outvote.data.arguments import MOST
from outvote.data.missing import NanPolicy, screen
from outvote.estimate.monitor.schedule import Schedule
from outvote.estimate.ordered import Ordered, Tallied
from outvote.estimate.summary import RowSummary
from outvote.estimate.summary.serialise import number_in, whole
from outvote.votes.evidence import Read, unreadable
from outvote.votes.evidence.grid import BINS

Floats = NDArray[np.float64]

#: A pilot whose central rows are all equal goes on until it has so many times the rows.
_LONGEST = 16


class Arm:
    """The rows of one arm.

    Parameters
    ----------
    n_pilot : int
        How many of the first rows choose the sd that is the premise, and are not evidence; 0 if something is declared.
        If their central rows are all equal, later rows choose it with them, and are evidence all the same: where the
        evidence begins must not depend on what stands in the rows.

    Attributes
    ----------
    sd : float or None
        The premise, once it is chosen.
    summary : RowSummary
        The rows that are evidence.
    pilot : ndarray
        The first rows, as long as the premise is not chosen; NaN for those without a number.
    n_piloted : int
        How many of the first rows are not evidence.
    """

    def __init__(self, n_pilot: int = 0):
        self.n_pilot = n_pilot
        self.sd: float | None = None
        self.summary = RowSummary()
        self.pilot: Floats = np.empty(0)
        self.n_piloted = 0

    @property
    def ready(self) -> bool:
        """Whether rows are evidence: the pilot is over, or there is none."""
        return not self.n_pilot or self.sd is not None

    @property
    def n_rows(self) -> int:
        """How many rows there are, those of the pilot among them."""
        return self.n_piloted + int(np.isfinite(self.pilot).sum()) + self.summary.n_rows

    @property
    def has_evidence(self) -> bool:
        """Whether there are rows that are evidence."""
        return self.ready and self.n_rows > self.n_piloted

    @property
    def n_omitted(self) -> int:
        """How many rows were left out as missing."""
        return self.summary.n_omitted

    def update(self, rows: NDArray[Any], schedule: Schedule, nan_policy: NanPolicy) -> None:
        """Add rows."""
        if self.ready:
            self.summary.update(rows, nan_policy=nan_policy)
            return
        values = rows.astype(np.float64, copy=False)
        finite = np.isfinite(values)
        if not finite.all() and nan_policy != "corrupt":
            screen(values[:, None], nan_policy, 0, "rows")
        self._begin(np.where(finite, values, np.nan), schedule)
        n_bad = int((~finite).sum())
        if nan_policy == "corrupt":
            self.summary.n_found_corrupt += n_bad
        else:
            self.summary.n_omitted += n_bad

    def _begin(self, rows: Floats, schedule: Schedule) -> None:
        """Add rows to the pilot, and end it if they suffice for a premise."""
        self.pilot = np.concatenate([self.pilot, rows])
        n = self.n_pilot
        while n <= len(self.pilot):
            sd = _premise(self.pilot[:n], schedule)
            if sd > 0 or n >= _LONGEST * self.n_pilot:
                first, rest = np.split(self.pilot, [self.n_pilot])
                self.sd, self.pilot, self.n_piloted = sd, np.empty(0), int(np.isfinite(first).sum())
                self.summary.update(rest[np.isfinite(rest)])
                return
            n *= 2

    def ordered(self, assume: Assumption | None) -> Ordered:
        """Return the rows that are evidence."""
        return self.summary.ordered(assume)

    def merge(self, other: Arm, name: str, schedule: Schedule) -> None:
        """Add the rows of another arm, which has the same premise or none yet."""
        if self.ready and other.ready and self.sd != other.sd:
            raise ValueError(
                f"both monitors have chosen a premise for arm {name!r}, and not the same one (an sd of {self.sd:.4g} "
                f"and {other.sd:.4g}): begin all but the first with first.shard(), which hands on its premise"
            )
        if self.ready and not other.ready:
            self.summary.merge(other.summary)
            self.summary.update(other.pilot[np.isfinite(other.pilot)])
            return
        if other.ready and not self.ready:
            kept, rest, self.pilot = self.pilot, self.summary, np.empty(0)
            self.sd, self.n_piloted, self.summary = other.sd, other.n_piloted, RowSummary(other.summary.bins)
            self.summary.merge(other.summary)
            self.summary.merge(rest)
            self.summary.update(kept[np.isfinite(kept)])
            return
        self.summary.merge(other.summary)
        self.n_piloted += other.n_piloted
        if len(other.pilot):
            self._begin(other.pilot, schedule)

    def shard(self) -> Arm:
        """Return an arm without rows that has the same premise and bins."""
        found = Arm(self.n_pilot)
        self.summary.choose_bins()
        found.sd, found.summary = self.sd, RowSummary(self.summary.bins)
        return found

    def state(self) -> dict[str, Any]:
        """Return what is needed to go on later."""
        return {
            "pilot": [None if one != one else one for one in self.pilot.tolist()],
            "n_piloted": self.n_piloted,
            "sd": self.sd,
            "rows": self.summary.to_json(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take what `state` returned."""
        pilot, sd = state["pilot"], state["sd"]
        if not isinstance(pilot, list):
            raise ValueError("pilot rows are of another kind")
        self.pilot = np.array([math.nan if one is None else number_in(one) for one in pilot], dtype=np.float64)
        self.sd = None if sd is None else number_in(sd)
        self.n_piloted, self.summary = whole(state["n_piloted"], most=MOST), RowSummary.from_json(state["rows"])
        kept, n_missing = self.summary, int(np.isnan(self.pilot).sum())
        if self.ready:  # the pilot is over
            possible = not pilot and (self.n_pilot > 0 or (self.sd is None and not self.n_piloted))
        else:  # its rows are all there are
            possible = n_missing == kept.n_found_corrupt + kept.n_omitted and kept.n_rows == kept.n_found_corrupt
            possible = possible and not self.n_piloted and len(pilot) < _LONGEST * self.n_pilot
        if self.sd is not None and not 0 <= self.sd < math.inf:
            possible = False
        if not possible or np.isinf(self.pilot).any() or (kept.bins is not None and kept.bins.number != BINS):
            raise ValueError("pilot rows, premise or bins are impossible")


class RateArm(Arm):
    """The rows of one arm if they are 0 or 1: three counts."""

    def __init__(self) -> None:
        super().__init__()
        self.counts = [0, 0, 0]
        self._omitted = 0

    @property
    def n_rows(self) -> int:
        """How many rows there are, others than 0 and 1 among them."""
        return sum(self.counts)

    @property
    def n_omitted(self) -> int:
        """How many rows were left out as missing."""
        return self._omitted

    def update(self, rows: NDArray[Any], schedule: Schedule, nan_policy: NanPolicy) -> None:
        """Add rows."""
        n_missing = 0
        if rows.dtype.kind == "f":
            n_nan = int(np.isnan(rows).sum())
            if n_nan and nan_policy == "raise":
                screen(rows[:, None].astype(np.float64), "raise", 0, "rows")
            n_missing = n_nan if nan_policy == "omit" else 0
        ones = int(np.count_nonzero(rows if rows.dtype == bool else rows == 1))
        zeros = len(rows) - ones if rows.dtype == bool else int(np.count_nonzero(rows == 0))
        added = (zeros, ones, len(rows) - n_missing - zeros - ones)
        self.counts = [mine + more for mine, more in zip(self.counts, added, strict=True)]
        self._omitted += n_missing

    def ordered(self, assume: Assumption | None) -> Ordered:
        """Return the rows."""
        return Tallied(np.empty(0), None, self.counts[2], tally=(self.counts[0], self.counts[1], self.n_rows))

    def merge(self, other: Arm, name: str, schedule: Schedule) -> None:
        """Add the rows of another arm."""
        assert isinstance(other, RateArm)
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self._omitted += other._omitted

    def shard(self) -> RateArm:
        """Return an arm without rows."""
        return RateArm()

    def state(self) -> dict[str, Any]:
        """Return what is needed to go on later."""
        return {"counts": list(self.counts), "n_omitted": self._omitted}

    def restore(self, state: dict[str, Any]) -> None:
        """Take what `state` returned."""
        counts = state["counts"]
        if not isinstance(counts, list) or len(counts) != 3:
            raise ValueError(f"counts are {counts!r}")
        self.counts, self._omitted = [whole(one, most=MOST) for one in counts], whole(state["n_omitted"], most=MOST)


def new_arm(assume: Assumption | None, n_pilot: int) -> Arm:
    """Return an arm without rows."""
    if isinstance(assume, Proportion):
        return RateArm()
    return Arm(n_pilot if assume is None else 0)


def _premise(pilot: Floats, schedule: Schedule) -> float:
    """Read an sd off the rows of a pilot, which may hold corrupt ones of any size.

    It is 0, which promises nothing, if there are too few numbers, if they hardly differ, or are too large for an sd.
    """
    pilot = pilot[np.isfinite(pilot)]
    if len(pilot) < 2:
        return 0.0
    count = min(schedule(len(pilot)), (len(pilot) - 1) // 2)
    read = Read.of_rows(np.sort(pilot)[None], len(pilot), count)
    sd = float(read.sd[0])
    return sd if math.isfinite(sd) and not unreadable(read, count)[0] else 0.0
