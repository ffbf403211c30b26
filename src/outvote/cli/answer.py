"""What the answers share: what was asked, a value with its interval, and the words of the command line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption
from outvote.contamination import Contamination
from outvote.data.missing import NanPolicy
from outvote.estimate.curve import Side
from outvote.estimate.result import RobustEstimate
from outvote.estimate.tolerance import sample_sides

#: What the library calls a sample or an argument, and what it is on the command line.
_OPTIONS = [
    (r"^x (?=has |without )", "the column "),
    (r"^(?:a|b|sample \d) (?=has |without )", "a variant "),
    (r"^The mean of a may", "The mean of the baseline may"),
    (r"\bnan_policy='(\w+)'", r"--nan \1"),
    (r"\bcolumn=", "--value "),
    (r"\bby=", "--by "),
    (r"\brow_id=", "--row-id "),
    (r"\bformat=", "--format "),
    (r"\bassume=(?=\W|$)", "--sd, --bounds, --kurtosis or --scale"),
    (r"\b(contamination|confidence|sd|kurtosis|scale|vote)=", r"--\1 "),
]

Progress = Callable[[str], None]


def silent(_: str) -> None:
    """Say nothing of how far the work is."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was asked for.

    Attributes
    ----------
    contamination : float, int or "auto"
        Share or number of rows that may be corrupt, in each group.
    confidence : float
        Confidence of each interval.
    assume : assumption or None
        What is known of the good rows.
    vote : str
        How block values become one.
    nan : {"raise", "omit", "corrupt"}
        What rows without a number are.
    seed : int
        Seed of the partitions.
    """

    contamination: Any = 0.01
    confidence: float = 0.95
    assume: Assumption | None = None
    vote: str = "auto"
    nan: NanPolicy = "raise"
    seed: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of an estimator, but for the contamination."""
        return {
            "confidence": self.confidence,
            "assume": self.assume,
            "vote": self.vote,
            "nan_policy": self.nan,
            "rng": self.seed,
        }

    def count(self, n_rows: int) -> int:
        """How many of so many rows may be corrupt; where that is open, none is named."""
        return 0 if isinstance(self.contamination, str) else Contamination(self.contamination).count(n_rows)

    @property
    def may_be_soft(self) -> bool:
        """Whether blocks can vote otherwise than by their median: a soft vote needs a known scale."""
        scaled = self.assume is not None and self.assume.has_scale
        return self.vote in ("soft", "clipped") or (self.vote == "auto" and scaled)

    def sides(self, samples: Sequence[NDArray[np.float64]], parts: int | None = None) -> list[Side]:
        """Prepare the intervals of samples for every number of corrupt rows; `parts` of them hold together."""
        counted = [values[~np.isnan(values)] if self.nan == "omit" else values for values in samples]
        counts = [self.count(len(values)) for values in counted]
        settings = {name: value for name, value in self.options.items() if name != "confidence"}
        return sample_sides(
            counted,
            self.confidence,
            "oblivious",
            settings,
            parts=parts,
            assumed=counts,
            guarded=not self.may_be_soft,
        )

    def side(self, values: NDArray[np.float64]) -> Side:
        """Prepare the intervals of one of two samples that are compared."""
        return self.sides([values], parts=2)[0]


def in_options(text: str) -> str:
    """Say in the options of the command line what the library says in arguments.

    Examples
    --------
    >>> in_options("sd=-1.0 must be positive, or take nan_policy='omit'")
    '--sd -1.0 must be positive, or take --nan omit'
    """
    for pattern, words in _OPTIONS:
        text = re.sub(pattern, words, text)
    return text


@dataclass(frozen=True)
class Value:
    """An estimate with its interval; None where there is none, or where nothing bounds it."""

    estimate: float | None
    low: float | None
    high: float | None
    radius: float | None
    provenance: str
    note: str = ""

    @classmethod
    def of(cls, found: RobustEstimate) -> Value:
        """Take over what an estimator found."""
        low, high = found.interval
        provenance, note = found.certificate.provenance, found.certificate.note
        why = in_options(note) if provenance == "none" else ""
        return cls.checked(found.estimate, low, high, found.radius, provenance, why)

    @classmethod
    def checked(cls, estimate: Any, low: Any, high: Any, radius: Any, provenance: str, note: str = "") -> Value:
        """Take numbers as they come: what is not finite is None."""
        return cls(finite(estimate), finite(low), finite(high), finite(radius), provenance, note)

    @classmethod
    def missing(cls, note: object) -> Value:
        """Say why there is no estimate."""
        return cls(None, None, None, None, "none", in_options(str(note)))

    @property
    def bounded(self) -> bool:
        """Whether there is an interval."""
        return self.provenance != "none"


def plain_mean(values: NDArray[np.float64]) -> float | None:
    """Average the rows that are there, whatever they say."""
    there = values[~np.isnan(values)]
    with np.errstate(over="ignore", invalid="ignore"):
        return finite(float(there.mean())) if len(there) else None


def finite(number: Any) -> float | None:
    return float(number) if number is not None and math.isfinite(number) else None
