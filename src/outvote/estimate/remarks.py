"""What the rows themselves say against an sd that is read off them, and which of them were taken to be corrupt."""

from __future__ import annotations

import math
from collections.abc import Mapping

from outvote.data.text import rounded, short, spaced, spaced_count, with_radius
from outvote.estimate.ordered import Ordered
from outvote.estimate.premise import Gross
from outvote.votes.evidence import EvidenceInterval

#: An sd that falls to less than this share of itself, when more rows may be corrupt, was read off corrupt ones.
_FALLS = 0.1
#: How many rows more are tried: four times those allowed for, or this share of all.
_MORE, _SHARE = 4, 0.02
_TAKEN = ("are taken to be corrupt; if they are real", "is taken to be corrupt; if it is real")


def remark_on_gross(
    gross: Gross, n_corrupt: int, real: EvidenceInterval, alternative: str, *, of: str = "row", statistic: str = "mean"
) -> str:
    """Say which rows were taken to be corrupt, and what comes out if they are clean.

    Examples
    --------
    >>> gross = Gross(0, 57, -10.0, 12.4, -math.inf, 14.1, 14.1, 33.0)
    >>> remark_on_gross(gross, 100, EvidenceInterval(0.07, 0.83, 0.45, 4.2), "two-sided")
    '57 of the 100 rows that may be corrupt lie above 12.4 (from 14.1 to 33) and are taken to be corrupt; if they are \
real, the mean is 0.45 ± 0.38 (sd at most 4.2): declare the sd, or allow for fewer.'
    """
    many = f"{spaced(gross.number)} of the {spaced_count(n_corrupt, of)} that may be corrupt"
    taken = (
        "is taken to be corrupt; if it is real" if gross.number == 1 else "are taken to be corrupt; if they are real"
    )
    where = gross.where(gross.number)
    value = f"the {statistic} is {interval_in_words(real, alternative)} (sd at most {short(real.sd)})"
    comma = "," if gross.least == gross.most else ""
    return f"{many} {where}{comma} and {taken}, {value}: declare the sd, or allow for fewer."


def remark_on_gross_of(
    gross: Mapping[str, Gross], real: EvidenceInterval, alternative: str, premise: str, statistic: str
) -> str:
    """Say the same of samples with names.

    Examples
    --------
    >>> gross = {"b": Gross(3, 0, -310.2, 350.0, -999.0, math.inf, -999.0, -999.0)}
    >>> real, premise = EvidenceInterval(-1.5, 0.5, -0.5), "the clean rows' sd is at most 1 in a and 32 in b"
    >>> remark_on_gross_of(gross, real, "two-sided", premise, "difference")
    "3 rows of b are -999, below -310, and are taken to be corrupt; if they are real, the difference is -0.5 ± 1.0 (if \
the clean rows' sd is at most 1 in a and 32 in b): declare the sd, or allow for fewer."
    """
    lines = [f"{spaced_count(one.number, 'row')} of {name} {one.where(one.number)}" for name, one in gross.items()]
    taken = _TAKEN[sum(one.number for one in gross.values()) == 1]
    value = f"the {statistic} is {interval_in_words(real, alternative)}" + (f" (if {premise})" if premise else "")
    comma = "," if len(lines) > 1 or any(one.least == one.most for one in gross.values()) else ""
    return f"{', and '.join(lines)}{comma} and {taken}, {value}: declare the sd, or allow for fewer."


def interval_in_words(found: EvidenceInterval, alternative: str) -> str:
    """Write an estimate with its interval, or the end that was asked for."""
    if alternative != "two-sided":
        end, word = (found.low, "at least") if alternative == "greater" else (found.high, "at most")
        return f"{word} {short(end, 4)}"
    half = (found.high - found.low) / 2
    if not math.isfinite(found.estimate):
        return "anything at all"
    if not math.isfinite(half):
        return f"{short(found.estimate, 4)}, and nothing bounds it"
    radius = max(found.high - found.estimate, found.estimate - found.low)
    digits = 1 - math.floor(math.log10(half)) if half >= 1e3 else None

    def written(number: float) -> str:
        return rounded(number, half) if digits is None else spaced(round(number, digits))

    if radius <= 1.04 * half:
        return f"{written(found.estimate)} ± {written(radius)}" if digits else with_radius(found.estimate, radius)
    return "{}, between {} and {}".format(*map(written, (found.estimate, found.low, found.high)))


def remark_on(ordered: Ordered, n_corrupt: int, where: str = "", *, sd: float | None = None) -> str:
    """Say that most rows are equal, or that more look corrupt than are allowed for; "" if all is well.

    Parameters
    ----------
    ordered : Ordered
        The rows of a sample, of which no sd is declared.
    n_corrupt : int
        How many of them may be corrupt.
    where : str
        The name of the sample, if there are several.
    sd : float, optional
        The sd that was read off them.
    """
    of = f" of {where}" if where else ""
    value, times = ordered.commonest
    n_rows = ordered.n_rows - ordered.n_found
    if 2 * times > n_rows and not ordered.only_0_and_1:
        return (
            f"{100 * times / n_rows:.3g} % of the rows{of} are {value:g}: the sd read off the rows may be too small. "
            f"Declare a limit, assume=Bounded(low, high), or split it: the share of rows that are not {value:g}, and "
            "their mean."
        )
    fall = _fall(ordered, n_corrupt, sd)
    if fall is None:
        return ""
    more, before, after = fall
    return (
        f"The rows{of} look as if more than {spaced_count(n_corrupt, 'row')} were corrupt: the sd read off them falls "
        f"from {short(before)} to {short(after)} if {spaced(more)} may be. Allow for more, contamination={more}."
    )


def remark_on_odd(n_odd: int) -> str:
    """Say how many rows of a proportion are neither 0 nor 1.

    Examples
    --------
    >>> remark_on_odd(1), remark_on_odd(0)
    ('1 row is neither 0 nor 1: counted as corrupt.', '')
    """
    are = "is" if n_odd == 1 else "are"
    return f"{spaced_count(n_odd, 'row')} {are} neither 0 nor 1: counted as corrupt." if n_odd else ""


def _fall(ordered: Ordered, n_corrupt: int, before: float | None) -> tuple[int, float, float] | None:
    """Return for how many corrupt rows the sd read off the rows falls a lot, and the sd before and after."""

    def sd_at(number: int) -> float:
        return float(ordered.rows(number, adaptive=False).read().sd[0])

    low = max(n_corrupt, ordered.n_found)
    high = min(max(_MORE * low, int(_SHARE * ordered.n_rows)), ordered.n_rows // 4)
    if high <= low or ordered.size(low) != 1:
        return None
    before = sd_at(low) if before is None else before
    if not 0 < sd_at(high) < _FALLS * before:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if sd_at(middle) < _FALLS * before else (middle, high)
    return high, before, sd_at(high)
