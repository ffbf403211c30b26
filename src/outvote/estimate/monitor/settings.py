"""What a monitor was told before any rows came."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from outvote.assumptions import (
    Assumption,
    Bounded,
    FiniteKurtosis,
    FiniteVariance,
    Proportion,
    SubGaussian,
    Symmetric,
    one_assumption,
)
from outvote.contamination import Contamination, Growth
from outvote.data.arguments import check_choice, is_whole, log_delta_of
from outvote.data.missing import NanPolicy
from outvote.estimate.claim import Claim
from outvote.estimate.monitor.schedule import Schedule
from outvote.votes import Terms

_ASSUMPTIONS: dict[str, type[Assumption]] = {
    one.__name__: one for one in (Bounded, FiniteKurtosis, FiniteVariance, Proportion, SubGaussian)
}
#: A pilot has this share of the planned rows, within these numbers, and no more than a quarter of them.
_PILOT, _FEWEST, _MOST = 40, 50, 1000
#: Planned rows, and those of a pilot, are fewer.
_TOO_MANY = 10**15
#: How fractions are written.
_FRACTION = re.compile("[0-9]{1,999}(/[0-9]{1,999})?")
#: The largest denominator of the exponent of a contamination that grows with the rows.
_FINEST = 10_000
#: Subjects of claims.
SUBJECTS = ("mean", "difference", "lift")


@dataclass(frozen=True)
class Settings:
    """The arguments of a monitor, checked.

    Attributes
    ----------
    assume : Assumption or None
        What is known of the clean rows.
    schedule : Schedule
        How many rows may be corrupt.
    confidence : float
        The probability that the interval holds at every look.
    plan : int or dict of int
        How many rows are planned, of each arm.
    claim : str or None
        What is to be decided.
    baseline : str or None
        The arm that others are compared with.
    pilot : int or None
        How many rows choose the sd.
    nan_policy : {"raise", "omit", "corrupt"}
        What to do with NaN.
    """

    assume: Assumption | None
    schedule: Schedule
    confidence: float
    plan: int | dict[str, int]
    claim: str | None
    baseline: str | None
    pilot: int | None
    nan_policy: NanPolicy

    @classmethod
    def read(
        cls,
        assume: Any,
        contamination: Any,
        confidence: float,
        n_plan: Any,
        claim: str | None,
        baseline: object,
        pilot: int | None,
        nan_policy: NanPolicy,
    ) -> Settings:
        """Check the arguments."""
        log_delta_of(confidence)
        check_choice("nan_policy", nan_policy, NanPolicy)
        if pilot is not None and (not is_whole(pilot) or not 2 <= pilot < _TOO_MANY):
            raise ValueError(f"pilot={pilot!r} must be a number of rows of at least 2, below 10**15, or None")
        return cls(
            None if assume is None else _usable(one_assumption(assume)),
            Schedule.of(contamination),
            float(confidence),
            _read_plan(n_plan),
            None if claim is None else Claim.read(claim, SUBJECTS).text,
            None if baseline is None else str(baseline),
            None if pilot is None else int(pilot),
            nan_policy,
        )

    @property
    def terms(self) -> Terms:
        """Confidence and adversary."""
        return Terms(log_delta_of(self.confidence), self.schedule.adversary)

    def planned(self, arm: str) -> int:
        """Return how many rows of an arm are planned."""
        if not isinstance(self.plan, dict):
            return self.plan
        if arm not in self.plan:
            raise ValueError(f"n_plan={self.plan!r} has no number for arm {arm!r}: add one")
        return self.plan[arm]

    def piloted(self, arm: str) -> int:
        """Return how many rows of an arm choose its sd, if nothing is declared."""
        planned = self.planned(arm)
        if self.pilot is not None:
            return self.pilot
        return max(min(max(planned // _PILOT, _FEWEST), _MOST, planned // 4), 2)

    def agrees_with(self, other: Settings) -> bool:
        """Return whether rows of monitors with these settings may be added up."""
        names = ("schedule", "confidence", "plan", "pilot")
        same = all(getattr(self, name) == getattr(other, name) for name in names)
        return same and (self.assume == other.assume or None in (self.assume, other.assume))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values; None stands for a contamination that is a function."""
        assume: Any = self.assume
        if assume is not None:
            fields = {field.name: getattr(assume, field.name) for field in dataclasses.fields(assume) if field.init}
            assume = {"name": type(assume).__name__, **{key: one for key, one in fields.items() if one is not None}}
        amount = self.schedule.amount
        written: Any = amount if isinstance(amount, (int, float)) else None
        if isinstance(amount, Fraction):
            written = str(amount)
        elif isinstance(amount, Growth):
            written = {"constant": str(amount.constant), "exponent": str(amount.exponent)}
        others = ("confidence", "plan", "claim", "baseline", "pilot", "nan_policy")
        return {
            "assume": assume,
            "contamination": written,
            "adversary": self.schedule.adversary,
            **{name: getattr(self, name) for name in others},
        }

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], contamination: Any) -> Settings:
        """Return the settings that `to_dict` wrote."""
        assume = None
        if given["assume"] is not None:
            fields = {name: _frozen(value) for name, value in given["assume"].items()}
            assume = _ASSUMPTIONS[fields.pop("name")](**fields)
        amount = given["contamination"]
        if amount is None and contamination is None:
            raise Contaminated("this Monitor was given a function as its contamination: give it again, contamination=")
        if amount is not None:
            if isinstance(amount, dict):
                amount = Growth(_fraction(amount["constant"]), _fraction(amount["exponent"]))
                if not amount.constant > 0 or amount.exponent >= 1 or amount.exponent.denominator > _FINEST:
                    raise ValueError(f"contamination is {amount!r}")
            amount = _fraction(amount) if isinstance(amount, str) else amount
            saved = Contamination(amount, given["adversary"])
            if contamination is not None and Schedule.of(contamination) != Schedule.of(saved):
                raise Contaminated(
                    f"contamination={contamination!r} is not what this Monitor was declared with, {saved}: leave it out"
                )
            contamination = saved
        others = [given[name] for name in ("claim", "baseline", "pilot", "nan_policy")]
        if not isinstance(given["baseline"], str | None):
            raise ValueError(f"baseline is {given['baseline']!r}")
        return cls.read(assume, contamination, given["confidence"], given["plan"], *others)


class Contaminated(TypeError):
    """A monitor cannot be read without its contamination, nor with another."""


def _frozen(value: Any) -> Any:
    """Return a value of a document with tuples in place of its lists."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _fraction(text: Any) -> Fraction:
    """Return a fraction of a document, written with few enough digits."""
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError(f"{text!r} is not a fraction")
    return Fraction(text)


def _read_plan(n_plan: Any) -> int | dict[str, int]:
    """Return the number of planned rows, or one for each arm.

    Examples
    --------
    >>> _read_plan(1000), _read_plan({"A": 900, "B": 100})
    (1000, {'A': 900, 'B': 100})
    """
    if isinstance(n_plan, Mapping):
        return {str(name): _number_planned(number, n_plan) for name, number in n_plan.items()}
    return _number_planned(n_plan, n_plan)


def _number_planned(number: Any, given: Any) -> int:
    usable = is_whole(number) or (isinstance(number, float) and math.isfinite(number) and number == int(number))
    if not usable or not 2 <= number < _TOO_MANY:
        raise ValueError(
            f"n_plan={given!r} must be a number of rows of at least 2, about as many as are planned, or one for each "
            "arm, {'A': 9000, 'B': 1000} for instance"
        )
    return int(number)


def _usable(assume: Assumption) -> Assumption:
    if isinstance(assume, Symmetric) or (isinstance(assume, FiniteKurtosis) and assume.sd is None):
        raise ValueError(
            f"assume={assume!r} needs single rows, of which a monitor keeps only counts: use FiniteVariance(sd), "
            "FiniteKurtosis(kurtosis, sd), SubGaussian(scale), Bounded(low, high), Proportion(), or nothing"
        )
    return assume
