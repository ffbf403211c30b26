"""What the rows themselves say against an sd that is read off them."""

from __future__ import annotations

from outvote.data.text import spaced, spaced_count
from outvote.estimate.ordered import Ordered
from outvote.votes.evidence import premise_factor

#: An sd that falls to less than this share of itself, when more rows may be corrupt, was read off corrupt ones.
_FALLS = 0.1
#: How many rows more are tried: four times those allowed for, or this share of all.
_MORE, _SHARE = 4, 0.02


def remark_on(ordered: Ordered, n_corrupt: int, where: str = "") -> str:
    """Say that most rows are equal, or that more look corrupt than are allowed for; "" if all is well.

    Parameters
    ----------
    ordered : Ordered
        The rows of a sample, of which no sd is declared.
    n_corrupt : int
        How many of them may be corrupt.
    where : str
        The name of the sample, if there are several.
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
    fall = _fall(ordered, n_corrupt)
    if fall is None:
        return ""
    more, before, after = fall
    return (
        f"The rows{of} look as if more than {spaced_count(n_corrupt, 'row')} were corrupt: the sd read off them falls "
        f"from {_short(before)} to {_short(after)} if {spaced(more)} may be. Allow for more, contamination={more}."
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


def _fall(ordered: Ordered, n_corrupt: int) -> tuple[int, float, float] | None:
    """Return for how many corrupt rows the sd read off the rows falls a lot, and the sd before and after."""

    def sd_at(number: int) -> float:
        return premise_factor(number / ordered.n_rows) * ordered.rows(number, adaptive=False).central_sd()

    low = max(n_corrupt, ordered.n_found)
    high = min(max(_MORE * low, int(_SHARE * ordered.n_rows)), ordered.n_rows // 4)
    if high <= low or ordered.size(low) != 1 or not sd_at(high) < _FALLS * (before := sd_at(low)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if sd_at(middle) < _FALLS * before else (middle, high)
    return high, before, sd_at(high)


def _short(number: float) -> str:
    return spaced(float(f"{number:.3g}"))
