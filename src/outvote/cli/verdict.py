"""Put the verdict on a mean, or on the difference of two means, into words."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from outvote.cli.answer import Value
from outvote.data.text import listed, percent, rounded, spaced, spaced_count
from outvote.estimate.curve import Curve

NO_INTERVAL = "There is no interval: this many corrupt rows could outvote the clean ones."
#: Where so few rows may be corrupt that they could not: one row in so many.
_FEW, TOO_MUCH_SPREAD = 10, "There is no interval: more rows than that look corrupt, or there are too few rows."


def value_at(curve: Curve, count: int) -> tuple[Value, int]:
    """Return the estimate with its interval, and the verdict, if `count` rows are corrupt."""
    i = curve.at(count)
    estimate, low, high = (float(column[i]) for column in (curve.estimate, curve.low, curve.high))
    kind = curve.provenance if math.isfinite(high - low) else "none"
    return Value.checked(estimate, low, high, (high - low) / 2, kind), int(curve.verdict[i])


@dataclass(frozen=True)
class Finding(ABC):
    """A curve of intervals, and the sentences about it."""

    curve: Curve
    name: str
    confidence: float
    plain: float | None

    @property
    def value(self) -> Value:
        return value_at(self.curve, self.curve.assumed)[0]

    @property
    @abstractmethod
    def title(self) -> str:
        """The title of the finding."""

    @property
    def heading(self) -> str:
        """The title above the finding; labels are not capitalised."""
        return self.title

    @property
    @abstractmethod
    def subject(self) -> str:
        """The name of the estimated number in a sentence."""

    @abstractmethod
    def verdict(self, sign: int) -> str:
        """Return the verdict in a few words."""

    @abstractmethod
    def claim(self, sign: int) -> str:
        """Return the verdict as a sentence, without its number."""

    @abstractmethod
    def open(self) -> str:
        """Return the question that is not settled."""

    @abstractmethod
    def between(self, value: Value, sign: int) -> str:
        """Return the number with its interval in words."""

    def rows(self, count: int) -> str:
        """Return a number of rows in words."""
        return f"{spaced(count)} of the {spaced(self.curve.n_rows)} rows"

    def answer(self) -> str:
        """Return the answer for the number of corrupt rows assumed."""
        value, sign = value_at(self.curve, self.curve.assumed)
        assumed = self.rows(self.curve.assumed)
        if not value.bounded:
            return f"There is no interval for {self.title} if up to {assumed} are corrupt."
        premise = f" (if {self.curve.premise})" if self.curve.premise else ""
        if not sign:
            return f"It is not settled {self.open()} if up to {assumed} are corrupt: {self.between(value, 0)}{premise}."
        even = f"even if up to {assumed} are" if self.curve.assumed else "if no row is"
        return f"{self.claim(sign)}: {self.between(value, sign)}, {even} corrupt{premise}."

    def tolerance(self) -> str:
        """Return a sentence on how many corrupt rows it takes to overturn the answer."""
        one = self.curve
        none = (
            "even if no row is corrupt"
            if not one.certain
            else f"even if only the {spaced(one.certain)} certainly corrupt rows are corrupt"
        )
        if one.stands is None and one.misfit:
            return one.misfit
        if one.stands is None:
            return f"The rows do not settle it {none}."
        share = f"{100 * one.stands / one.n_rows:.2g} %"
        if self.curve.settled:
            return (
                f"It takes more than {spaced(one.stands)} corrupt rows ({share}), wherever they are, to overturn this."
            )
        claim = self.claim(one.sign)
        few = f"at most {spaced_count(one.stands, 'row')} ({share}) {'is' if one.stands == 1 else 'are'}"
        few = few if one.stands else "no row is"
        return f"{claim} if {few} corrupt."

    def said(self, count: int) -> str:
        """Return the number with its interval in a sentence, if `count` rows are corrupt."""
        value, sign = value_at(self.curve, count)
        if not value.bounded:
            return TOO_MUCH_SPREAD if _FEW * count < self.curve.n_rows else NO_INTERVAL
        return f"{self.between(value, sign)}."


@dataclass(frozen=True)
class DifferenceFinding(Finding):
    """What is found of a variant compared with the baseline; `name` is what they are compared by."""

    baseline: str
    other: str
    segment: str = ""

    @property
    def title(self) -> str:
        return f"{self.other} against {self.baseline}{self._where}"

    @property
    def _where(self) -> str:
        return f" in {self.segment}" if self.segment else ""

    @property
    def subject(self) -> str:
        return f"{self.other} minus {self.baseline}"

    def verdict(self, sign: int) -> str:
        return f"{self.other if sign > 0 else self.baseline} is larger" if sign else "not settled"

    def claim(self, sign: int) -> str:
        sides = (self.other, self.baseline) if sign > 0 else (self.baseline, self.other)
        return f"{sides[0]} has a larger {self.name} than {sides[1]}{self._where}"

    def open(self) -> str:
        return f"whether {self.other} or {self.baseline} has the larger {self.name}{self._where}"

    def between(self, value: Value, sign: int) -> str:
        turned = sign or 1
        numbers = [None if n is None else turned * n for n in (value.estimate, value.low, value.high)]
        best, *ends = (rounded(n, value.radius) for n in numbers)
        low, high = ends if turned > 0 else ends[::-1]
        interval = f"{percent(self.confidence)} interval {low} to {high}"
        if sign:
            return f"by {best} ({interval})"
        return f"{self.subject} is {best} ({interval})"

    def said(self, count: int) -> str:
        """Return the number with its interval in a sentence, if `count` rows are corrupt."""
        text = super().said(count)
        return f"B{text[1:]}" if text.startswith("by ") else text


@dataclass(frozen=True)
class MeanFinding(Finding):
    @property
    def title(self) -> str:
        return f"the mean of {self.name}"

    @property
    def heading(self) -> str:
        return f"The mean of {self.name}"

    @property
    def subject(self) -> str:
        return "it"

    def verdict(self, sign: int) -> str:
        return f"{'above' if sign > 0 else 'below'} {self.curve.bound:g}" if sign else "not settled"

    def claim(self, sign: int) -> str:
        return f"The mean of {self.name} is {self.verdict(sign)}"

    def open(self) -> str:
        return f"whether the mean of {self.name} is above or below {self.curve.bound:g}"

    def between(self, value: Value, sign: int) -> str:
        best, low, high = (rounded(n, value.radius) for n in (value.estimate, value.low, value.high))
        return f"{self.subject} is {best} ({percent(self.confidence)} interval {low} to {high})"

    def said(self, count: int) -> str:
        """Return the number with its interval in a sentence, if `count` rows are corrupt."""
        text = super().said(count)
        return f"I{text[1:]}" if text.startswith("it ") else text


def question(findings: Sequence[Finding]) -> str:
    first = findings[0]
    if isinstance(first, DifferenceFinding):
        if len(findings) == 1:
            return f"Is the {first.name} of {first.other} larger than that of {first.baseline}?"
        return f"Which have a larger {first.name} than {first.baseline}?"
    return f"What is the mean of {first.name}, and is it above {first.curve.bound:g}?"


def summary(findings: Sequence[Finding]) -> str:
    """Return the verdicts on several variants in one line: which are larger or smaller, which are not settled."""
    found: dict[int, list[str]] = {1: [], -1: [], 0: []}
    for finding in findings:
        assert isinstance(finding, DifferenceFinding)
        where = f" in {finding.segment}" if finding.segment else ""
        found[value_at(finding.curve, finding.curve.assumed)[1]].append(f"{finding.other}{where}")
    first = findings[0]
    assert isinstance(first, DifferenceFinding)
    than = f"{first.name} than {first.baseline}"
    words = {1: f"Larger {than}", -1: f"Smaller {than}", 0: "Not settled"}
    return " ".join(f"{words[sign]}: {listed(names)}." for sign, names in found.items() if names)
