"""Classes that all answers share: the options, a value with its interval, and messages in terms of options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Proportion
from outvote.contamination import Contamination
from outvote.data.arguments import log_delta_of
from outvote.data.columns import Columns
from outvote.data.missing import NanPolicy
from outvote.data.text import short
from outvote.estimate.curve import Curve, Side, weigh_curve
from outvote.estimate.evidence import HINT
from outvote.estimate.result import RobustEstimate
from outvote.estimate.screened import order_columns
from outvote.estimate.tolerance import sample_sides
from outvote.estimate.weigh import weigh
from outvote.votes import Terms

_NUMBER = r"(-?[\d.einf+-]+)"
#: Assumptions as the library writes them, and their options.
_ASSUMPTIONS = [
    (rf"FiniteVariance\(sd={_NUMBER}, zetas=None\)", "--sd {}"),
    (rf"Bounded\(low={_NUMBER}, high={_NUMBER}, variance=None\)", "--bounds {} {}"),
    (rf"SubGaussian\(scale={_NUMBER}\)", "--scale {}"),
    (rf"FiniteKurtosis\(kurtosis={_NUMBER}, sd=None\)", "--kurtosis {}"),
    (rf"FiniteKurtosis\(kurtosis={_NUMBER}, sd={_NUMBER}\)", "--kurtosis {} --sd {}"),
    (r"Proportion\(\)", "--proportion"),
]
#: Patterns of the library's names for samples and arguments, and their names on the command line.
_OPTIONS = [
    (r"^x (?=has |without )", "the column "),
    (r"^(?:a|b|sample \d) (?=has |without )", "a variant "),
    (r"\bThe mean of a may", "The mean of the baseline may"),
    (r"\bunit=", "--unit "),
    (r"\bcoefficient=", "--coefficient "),
    (r"\bnan_policy='(\w+)'", r"--nan \1"),
    (r"\bcolumn=", "--value "),
    (r"\bby=", "--by "),
    (r"\bq=", "--q "),
    (r"\bjobs=", "--jobs "),
    (r"\brow_id=", "--row-id "),
    (r"\bformat=", "--format "),
    (r"\b(encoding|decimal|sheet)='([^']*)'", r"--\1 \2"),
    (r"\bassume=Proportion\(\)", "--proportion"),
    (r"\bassume=Bounded\(low, high\)", "--bounds LOW HIGH"),
    (r"\bassume=FiniteVariance\(sd\)", "--sd SD"),
    (r"\bassume=(?=\W|$)", "--proportion, --sd, --bounds, --kurtosis or --scale"),
    (r"\b(contamination|confidence|sd|kurtosis|scale|vote)=", r"--\1 "),
]

Progress = Callable[[str], None]


def silent(_: str) -> None:
    """Show no progress."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of a command.

    Attributes
    ----------
    contamination : float, int or "auto"
        Share or number of rows that may be corrupt, in each group.
    confidence : float
        Confidence of each interval.
    assume : assumption or None
        The assumption on the clean rows.
    vote : str
        How the estimate is computed from the block values.
    nan : {"raise", "omit", "corrupt"}
        Whether rows without a number are an error, left out, or corrupt.
    seed : int
        Seed of the partitions.
    ratio, covariate, unit : str or None
        The columns of denominators, of a covariate, and of the users whose rows are added up.
    coefficient : float or None
        Of the covariate.
    simultaneous : bool
        Whether all comparisons hold at once.
    """

    contamination: Any = 0.01
    confidence: float = 0.95
    assume: Assumption | None = None
    vote: str = "auto"
    nan: NanPolicy = "raise"
    seed: int = 0
    ratio: str | None = None
    covariate: str | None = None
    unit: str | None = None
    coefficient: float | None = None
    simultaneous: bool = False

    def check_metric(self) -> None:
        """Refuse what does not go together."""
        if not self.evidence and (self.ratio or self.covariate or self.simultaneous):
            raise ValueError(
                f"--vote {self.vote} is for means, one comparison at a time: leave it out with --ratio, --covariate "
                "and --simultaneous"
            )
        if self.ratio is not None and self.covariate is not None:
            raise ValueError("--ratio and --covariate do not go together: leave one out")
        if self.coefficient is not None and self.covariate is None:
            raise ValueError(f"--coefficient {self.coefficient:g} is that of a covariate: give --covariate COLUMN")

    @property
    def more(self) -> tuple[str, ...]:
        """The columns of numbers beside the values."""
        return tuple(name for name in (self.ratio, self.covariate) if name is not None)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of an estimator, except the contamination."""
        return {
            "confidence": self.confidence,
            "assume": self.assume,
            "vote": self.vote,
            "nan_policy": self.nan,
            "rng": self.seed,
        }

    def count(self, n_rows: int) -> int:
        """Return how many of `n_rows` rows may be corrupt; 0 if the contamination is "auto"."""
        return 0 if isinstance(self.contamination, str) else Contamination(self.contamination).count(n_rows)

    def check(self, columns: Columns, *, infinite: bool = False) -> None:
        """Refuse cells without a number that the options do not account for."""
        open_number = isinstance(self.contamination, str)
        columns.check(self.nan, infinite=infinite, allowed=lambda n_rows: n_rows if open_number else self.count(n_rows))

    @property
    def may_be_soft(self) -> bool:
        """Whether the vote may be soft or clipped, which needs a known scale if the vote is "auto"."""
        scaled = self.assume is not None and self.assume.has_scale
        return self.vote in ("soft", "clipped") or (self.vote == "auto" and scaled)

    def sides(self, samples: Sequence[NDArray[np.float64]], parts: int | None = None) -> list[Side]:
        """Prepare the intervals of samples for every number of corrupt rows; `parts` intervals must hold at once."""
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

    @property
    def evidence(self) -> bool:
        """Whether means are compared by evidence, and not by votes of blocks."""
        return self.vote == "auto"

    def curve(self, values: NDArray[np.float64], *, bound: float = 0.0, shown: bool = True) -> Curve:
        """Return the curve of a mean by evidence."""
        allowed = Contamination(0 if isinstance(self.contamination, str) else self.contamination)
        terms = Terms(log_delta_of(self.confidence), allowed.adversary)
        ordered = order_columns(values, "the data", [self.assume], self.nan)
        counts = (allowed.count(ordered[0].n_rows),)
        return weigh_curve(weigh(ordered, [self.assume], counts, terms), bound=bound, shown=shown)

    def side(self, values: NDArray[np.float64]) -> Side:
        """Prepare the intervals of one of two samples in a comparison."""
        return self.sides([values], parts=2)[0]


def _filled(option: str, found: re.Match[str]) -> str:
    """Write an option with the numbers that were found."""
    return option.format(*(f"{float(number):g}" for number in found.groups()))


def in_options(text: str) -> str:
    """Return a message of the library with options of the command line instead of arguments.

    Examples
    --------
    >>> in_options("sd=-1.0 must be positive, or take nan_policy='omit'")
    '--sd -1.0 must be positive, or take --nan omit'
    >>> in_options("the rows contradict assume=Bounded(low=0.0, high=500.0, variance=None)")
    'the rows contradict --bounds 0 500'
    """
    for pattern, option in _ASSUMPTIONS:
        text = re.sub(f"(?:assume=)?{pattern}", lambda found, to=option: _filled(to, found), text)  # type: ignore[misc]
    for pattern, words in _OPTIONS:
        text = re.sub(pattern, words, text)
    return text


@dataclass(frozen=True)
class Value:
    """An estimate with its interval; a number is None if it does not exist or is infinite."""

    estimate: float | None
    low: float | None
    high: float | None
    radius: float | None
    provenance: str
    note: str = ""
    premise_sd: float | None = None

    @classmethod
    def of(cls, found: RobustEstimate) -> Value:
        """Return the value of a result."""
        low, high = found.interval
        provenance, note = found.certificate.provenance, found.certificate.note
        notes = [note if provenance == "none" else "", HINT if found.detail == HINT else "", *found.remarks]
        why = in_options(" ".join(dict.fromkeys(filter(None, notes))))
        value = cls.checked(found.estimate, low, high, found.radius, provenance, why)
        sds = np.atleast_1d(found.certificate.premise_sd)
        return replace(value, premise_sd=finite(sds.max()))

    @classmethod
    def checked(cls, estimate: Any, low: Any, high: Any, radius: Any, provenance: str, note: str = "") -> Value:
        """Return a value with these numbers; numbers that are not finite become None."""
        return cls(finite(estimate), finite(low), finite(high), finite(radius), provenance, note)

    @classmethod
    def missing(cls, note: object) -> Value:
        """Return a value without an estimate, with the reason as its note."""
        return cls(None, None, None, None, "none", in_options(str(note)))

    @property
    def holds(self) -> str:
        """When the interval holds, in a few words."""
        return self.provenance if self.premise_sd is None else f"if sd ≤ {short(self.premise_sd)}"

    @property
    def bounded(self) -> bool:
        """Whether there is an interval."""
        return self.provenance != "none"

    @property
    def shown(self) -> float | None:
        """The estimate as tables show it: None without an interval, because nothing is known of it then."""
        return self.estimate if self.bounded else None


def plain_mean(values: NDArray[np.float64], assume: Any = None) -> float | None:
    """Return the mean of all rows that are not NaN; of rows (denominator, numerator) the ratio of the means.

    Of a proportion rows that are neither 0 nor 1 do not count.
    """
    there = values[~np.isnan(values.reshape(len(values), -1)).any(axis=1)]
    there = there[np.isin(there, (0.0, 1.0))] if isinstance(assume, Proportion) else there
    with np.errstate(over="ignore", invalid="ignore"):
        means = np.atleast_1d(there.mean(axis=0)).tolist() if len(there) else [math.nan]
    if len(means) == 2:
        return finite(means[1] / means[0]) if means[0] else None
    return finite(means[0])


def finite(number: Any) -> float | None:
    return float(number) if number is not None and math.isfinite(number) else None


def each_column(columns: Columns) -> list[Columns]:
    """Return the columns of numbers one by one."""
    found = []
    for name, values in {columns.name: columns.values, **columns.more}.items():
        cells = [cell._replace(column="") for cell in columns.unreadable if (cell.column or columns.name) == name]
        n_cells = len(cells) if columns.more else columns.n_unreadable
        found.append(replace(columns, name=name, values=values, more={}, unreadable=cells, n_unreadable=n_cells))
    return found


def side_by_side(answers: Sequence[Any]) -> Any:
    """Put the answers on several columns into one, whose first key is the column."""
    first = answers[0]
    if len(answers) == 1:
        return first

    def labelled(lines: str) -> list[Any]:
        return [replace(line, group=(one.value, *line.group)) for one in answers for line in getattr(one, lines)]

    several = {name: labelled(name) for name in ("groups", "sensitivity", "caution") if hasattr(first, name)}
    return replace(first, value=", ".join(one.value for one in answers), by=("column", *first.by), **several)
