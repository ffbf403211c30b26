"""The class `Monitor`: watch a mean, or the difference of two arms, while rows come in."""

from __future__ import annotations

import copy
import itertools
import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from numpy.typing import ArrayLike

from outvote.assumptions import Assumption, Proportion
from outvote.data.loading import one_at_a_time
from outvote.data.missing import NanPolicy
from outvote.data.rows import has_no_rows, read_rows
from outvote.data.text import count, spaced
from outvote.data.writing import write_text
from outvote.estimate.claim import Claim
from outvote.estimate.monitor.answers import e_value, estimated, verdict
from outvote.estimate.monitor.arm import Arm, new_arm
from outvote.estimate.monitor.settings import Contaminated, Settings
from outvote.estimate.result import Interval, RobustEstimate
from outvote.estimate.screened import implied
from outvote.estimate.summary.serialise import (
    VERSION,
    Refused,
    check_version,
    document_in,
    number_in,
    refusing,
    whole,
)

if TYPE_CHECKING:
    from outvote.plotting import MonitorDisplay

#: Looks that are kept for the picture; when there are twice as many, every other one goes.
_LOOKS = 512
_FORMAT = "outvote.Monitor"
_OTHERS = "begin all monitors but the first with first.shard()"


class Look(NamedTuple):
    """What a monitor showed: after how many rows, the estimate, its interval, and whether the claim was decided."""

    n_rows: int
    estimate: float
    low: float
    high: float
    decided: bool | None = None


class Monitor:
    """Watch a mean, or the difference of two arms, while rows come in: look as often as you like.

    The interval holds at all times at once, with corrupt rows counted in, so you may stop when you like what you see.

    Parameters
    ----------
    assume : assumption, optional
        What is known of the clean rows: `FiniteVariance`, `SubGaussian`, `FiniteKurtosis` with an sd, `Bounded`, or
        `Proportion`, which boolean rows imply. If nothing is, the first rows of each arm (`pilot`) choose an sd; they
        are not evidence, and the interval holds if the clean rows' sd is at most that.
    contamination : float, int, Contamination or callable
        How many rows may be corrupt, in each arm: a share ε means at most ⌈ε·n⌉ + 2 of the first n rows, at every n;
        an int that many ever; a function returns the number for n rows.
    confidence : float
        The probability that the interval holds at every look.
    n_plan : int or mapping of int
        About how many rows of each arm are planned. The interval is valid at any number of rows, and narrowest there.
    claim : str, optional
        What is to be decided: ``"mean > 3"``; for two arms ``"difference > 0"`` (the default) or ``"lift > 2 %"``.
    baseline : str, optional
        The arm that others are compared with; by default the first in alphabetical order.
    pilot : int, optional
        How many rows of each arm choose the sd if nothing is declared: a fortieth of the plan by default.
    nan_policy : {"raise", "omit", "corrupt"}
        Whether rows with NaN are an error, missing, or corrupt.

    Attributes
    ----------
    looks : list of Look
        What was shown so far: a look is taken whenever a result is asked for.

    Notes
    -----
    Rows may come late, and in batches of any size and order, as long as when a row comes does not depend on its value.
    Memory is about 100 KB for each arm, whatever the number of rows.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> monitor = ov.Monitor(contamination=0.001, n_plan=10_000, claim="difference > 0")
    >>> for day in range(1, 15):
    ...     _ = monitor.update(rng.exponential(10, size=1000), arm="A").update(rng.exponential(11, size=1000), arm="B")
    ...     if monitor.decided is not None:
    ...         break
    >>> day, monitor.decided
    (7, True)
    >>> print(monitor)  # doctest: +NORMALIZE_WHITESPACE
    B - A: difference 1.09 ± 0.98 (95 % at every look if the clean rows' sd is at most 15.5 in A and 16.5 in B; allows
    for 9 and 9 corrupt rows)
    difference > 0: true after 14 000 rows
    """

    def __init__(
        self,
        assume: Assumption | None = None,
        contamination: Any = 0.01,
        confidence: float = 0.95,
        n_plan: Any = 10_000,
        *,
        claim: str | None = None,
        baseline: str | None = None,
        pilot: int | None = None,
        nan_policy: NanPolicy = "raise",
    ):
        self._begin(Settings.read(assume, contamination, confidence, n_plan, claim, baseline, pilot, nan_policy))

    def _begin(self, settings: Settings) -> Self:
        self._settings = settings
        self._arms: dict[str, Arm] = {}
        self._known: dict[tuple[tuple[str, ...], bool], RobustEstimate] = {}
        self.looks: list[Look] = []
        return self

    # --- rows ------------------------------------------------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """How many rows have come, in all arms."""
        return sum(arm.n_rows for arm in self._arms.values())

    @property
    def arms(self) -> tuple[str, ...]:
        """The names of the arms, the baseline first; empty if there is one sample without a name."""
        names = sorted(filter(None, self._arms))
        baseline = self._settings.baseline
        return tuple(sorted(names, key=lambda name: name != baseline) if baseline in names else names)

    def update(self, rows: ArrayLike, arm: object = "") -> Monitor:
        """Add rows; an error leaves the monitor unchanged.

        Parameters
        ----------
        rows : array-like or Series
            Numbers, in any order.
        arm : str
            Which arm they belong to; leave it out if there is only one sample.
        """
        if has_no_rows(rows):
            return self
        values = read_rows(rows, "rows", booleans=True)
        if values.ndim != 1:
            raise ValueError(f"rows has shape {values.shape}: a Monitor takes one column at a time")
        name = str(arm)
        if self._arms and bool(name) != bool(self.arms):
            raise ValueError("some rows have an arm and some have none: name the arm of every batch, arm='B'")
        settings = self._settings
        if not self._arms:
            settings = replace(settings, assume=implied(values, settings.assume, rows))
        kept = self._arms.get(name) or new_arm(settings.assume, settings.piloted(name))
        kept.update(values, settings.schedule, settings.nan_policy)
        self._settings, self._arms[name] = settings, kept
        self._known.clear()
        return self

    # --- answers ---------------------------------------------------------------------------------------------

    @property
    def interval(self) -> Interval:
        """What is left of the mean, or of the difference of two arms."""
        return self.result().interval

    @property
    def lift(self) -> Interval:
        """What is left of mean(b)/mean(a) - 1: 0.1 is a lift of 10 %."""
        return self.result(relative=True).interval

    def result(self, arm: object = None, *, relative: bool = False) -> RobustEstimate:
        """Return the estimate of the mean, or of an arm's difference from the baseline, with its interval.

        Parameters
        ----------
        arm : str, optional
            Which arm to compare with the baseline, if there are more than two.
        relative : bool
            Whether to divide the difference by the mean of the baseline.
        """
        names = self._compared(arm, relative)
        known = self._known.get((names, relative))
        if known is None:
            arms = {name: self._arms[name] for name in names}
            known = self._known[names, relative] = estimated(self._settings, arms, relative=relative)
            if not relative and len(self._arms) <= 2:
                self._remember(known)
        return known

    def e_value(self, claim: str | None = None) -> float:
        """Return how strongly the rows speak for a claim: if it is false, the chance that this ever reaches e is ≤ 1/e.

        "Ever" means at any look. If nothing was declared, that holds under the premise that the interval prints. By
        default the claim is the monitor's own; one on a lift also says that the mean of the baseline is positive.
        """
        asked = self._claim(claim)
        names = self._compared(None, asked.subject == "lift")
        return e_value(self._settings, {name: self._arms[name] for name in names}, asked)

    @property
    def decided(self) -> bool | None:
        """Whether the claim is true, or false, by what is left at this look; None if both are still possible.

        Stop as soon as it is not None: over all looks the probability of a wrong decision is at most δ.
        """
        asked = self._claim()
        low, high = self.result(relative=asked.subject == "lift").interval
        return verdict(asked, float(low), float(high))

    def _claim(self, claim: str | None = None) -> Claim:
        """Read a claim, by default the monitor's own; that of two arms is about the sign of their difference."""
        claim = self._settings.claim if claim is None else claim
        if claim is None and not self.arms:
            raise ValueError("there is no claim to decide: give the monitor one, claim='mean > 0' for instance")
        return Claim.read(claim or "difference > 0", ["difference", "lift"] if self.arms else ["mean"])

    def _compared(self, arm: object, relative: bool) -> tuple[str, ...]:
        """Return the arms that are asked about: the only one, or the baseline and another one."""
        if not self._arms:
            raise ValueError("the monitor has no rows yet: update it first")
        names, baseline = self.arms, self._settings.baseline
        if not names:
            if relative or arm is not None:
                raise ValueError("this needs two arms: name the arm of every batch, update(rows, arm='B')")
            return ("",)
        if baseline is not None and baseline not in names:
            raise ValueError(f"baseline={baseline!r} has no rows yet; there are {', '.join(map(repr, names))}")
        if len(names) == 1:
            raise ValueError(f"only arm {names[0]!r} has rows yet: a difference needs two")
        others = [name for name in names[1:] if arm is None or name == str(arm)]
        if not others:
            raise ValueError(f"arm={arm!r} is not one of {', '.join(map(repr, names[1:]))}")
        if len(others) > 1:
            raise ValueError(
                f"there are {len(names)} arms: ask for one of them, result(arm={others[0]!r}) for instance"
            )
        return names[0], others[0]

    def _remember(self, found: RobustEstimate) -> None:
        """Keep a look for the picture."""
        low, high = (float(end) for end in found.interval)
        decided = None
        if self._settings.claim is not None or self.arms:
            asked = self._claim()
            decided = verdict(asked, low, high) if asked.subject != "lift" else None
        if self.looks and self.looks[-1].n_rows == self.n_rows:
            self.looks.pop()
        self.looks.append(Look(self.n_rows, float(found.estimate), low, high, decided))
        if len(self.looks) >= 2 * _LOOKS:
            del self.looks[::2]

    # --- text and pictures -----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        arms = f" in arms {', '.join(self.arms)}" if self.arms else ""
        return f"Monitor({count(self.n_rows, 'row')}{arms})"

    def __str__(self) -> str:
        """Say what is left, and whether the claim is decided."""
        names = self.arms
        if not self._arms or len(names) == 1:
            return f"{spaced(self.n_rows)} rows" + (f", all in arm {names[0]!r}" if names else "")
        lines = [f"{name} - {names[0]}: {self.result(name)}" for name in names[1:]] or [str(self.result())]
        if len(lines) == 1 and (names or self._settings.claim is not None):
            words = {None: "not decided", True: "true", False: "false"}[self.decided]
            first = next((look.n_rows for look in self.looks if look.decided is not None), self.n_rows)
            when = "" if self.decided is None or first == self.n_rows else f"; decided after {spaced(first)} of"
            lines.append(f"{self._claim().text}: {words}{when or ' after'} {spaced(self.n_rows)} rows")
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> MonitorDisplay:
        """Draw the interval over the looks taken so far.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure by default.
        """
        with one_at_a_time():
            from outvote.plotting import MonitorDisplay
            from outvote.plotting.base import interval_label

        band = interval_label(self.result().certificate)
        asked = self._claim() if self.arms or self._settings.claim is not None else None
        names = self.arms
        label = f"mean({names[1]}) - mean({names[0]})" if names else "mean"
        bound = None if asked is None or asked.subject == "lift" else asked.bound
        text = "" if asked is None else asked.text
        return MonitorDisplay(self.looks, label=label, bound=bound, claim=text, band=band).plot(ax=ax)

    # --- several monitors, and files -------------------------------------------------------------------------

    def shard(self) -> Self:
        """Return a monitor without rows whose rows can be merged with these: the same settings, premises and bins."""
        if not isinstance(self._settings.assume, Proportion):
            if not self._arms:
                raise ValueError("the monitor has no rows to choose what shards share: update it first")
            for name, arm in self._arms.items():
                if not arm.has_evidence:
                    where = f"arm {name!r}" if name else "the monitor"
                    raise ValueError(
                        f"{where} has {count(arm.n_rows, 'row')}, too few to choose what shards share: update it first"
                    )
        found = type(self).__new__(type(self))._begin(self._settings)
        found._arms = {name: arm.shard() for name, arm in self._arms.items()}
        return found

    def merge(self, other: Monitor) -> Monitor:
        """Add the rows of another monitor with the same settings: a `shard` of this one, or one that has just begun.

        An error leaves the monitor unchanged.
        """
        if not isinstance(other, Monitor):
            raise TypeError(f"a Monitor is merged with another one, not with {type(other).__name__}")
        mine, theirs = self._settings, other._settings
        if not mine.agrees_with(theirs):
            raise ValueError(f"the settings of these monitors differ: {_OTHERS}")
        if self._arms and other._arms and bool(self.arms) != bool(other.arms):
            raise ValueError("one of these monitors has arms and the other has none")
        assume = theirs.assume if mine.assume is None else mine.assume
        if (assume != theirs.assume and other._arms) or (assume != mine.assume and self._arms):
            raise ValueError(
                f"the rows of one of these monitors are booleans, and those of the other are not: {_OTHERS}"
            )
        arms = copy.deepcopy(self._arms)
        for name, arm in other._arms.items():
            if name in arms:
                arms[name].merge(arm, name, mine.schedule)
            else:
                arms[name] = copy.deepcopy(arm)
        self._arms, self._settings = arms, replace(mine, assume=assume)
        self._known.clear()
        return self

    def to_json(self) -> str:
        """Return the monitor as JSON, without loss, but for a contamination that is a function."""
        document = {
            "format": _FORMAT,
            "version": VERSION,
            "settings": self._settings.to_dict(),
            "arms": {name: arm.state() for name, arm in self._arms.items()},
            "looks": [[one if one is None or math.isfinite(one) else None for one in look] for look in self.looks],
        }
        return json.dumps(document, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, *, contamination: Any = None) -> Self:
        """Return the monitor that `to_json` wrote; `contamination` is for one that was given a function."""
        with refusing("Monitor"):
            document = document_in(text)
            if not isinstance(document, dict) or document.get("format") != _FORMAT:
                raise Refused("this is not a Monitor")
            check_version("Monitor", document)
            try:
                settings = Settings.from_dict(document["settings"], contamination)
            except Contaminated as error:
                raise Refused(str(error)) from None
            found = cls.__new__(cls)._begin(settings)
            if "" in document["arms"] and len(document["arms"]) > 1:
                raise ValueError("some rows have an arm and some have none")
            for name, state in document["arms"].items():
                arm = new_arm(settings.assume, settings.piloted(name))
                arm.restore(state)
                found._arms[name] = arm
            found.looks = _looks(document["looks"], found.n_rows)
            return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the monitor to a file, completely or not at all."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, contamination: Any = None) -> Self:
        """Return the monitor that `save` wrote."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"), contamination=contamination)


def _looks(given: Any, n_rows: int) -> list[Look]:
    """Return the looks of a document, the last of which was at `n_rows` rows or before."""
    if not isinstance(given, list) or len(given) >= 2 * _LOOKS:
        raise ValueError("looks are of another kind")
    found = [
        Look(whole(n, most=n_rows), _or(estimate, math.nan), _or(low, -math.inf), _or(high, math.inf), decided)
        for n, estimate, low, high, decided in given
    ]
    if any(later.n_rows < look.n_rows for look, later in itertools.pairwise(found)):
        raise ValueError("looks are not in order")
    if not all(look.decided is None or isinstance(look.decided, bool) for look in found):
        raise ValueError("a look has decided something else than a claim")
    return found


def _or(value: Any, instead: float) -> float:
    return instead if value is None else number_in(value)
