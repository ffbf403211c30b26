"""How many rows a certified radius takes."""

from __future__ import annotations

import math

from outvote.assumptions import Assumption
from outvote.blocks.choose import best_blocks
from outvote.contamination import Amount, Contamination
from outvote.data.arguments import check_choice, is_number, log_delta_of, real, whole_per_sample
from outvote.votes import Alternative, Terms, VoteName, at_size
from outvote.votes.evidence import promised_radius

#: No more rows than this are considered.
_MOST_ROWS = 2**50


def rows_needed(
    radius: float,
    contamination: Contamination | Amount = 0.01,
    confidence: float = 0.95,
    assume: Assumption | None = None,
    degree: int = 1,
    *,
    vote: str = "auto",
    alternative: Alternative = "two-sided",
) -> int:
    """Count the rows it takes to guarantee a radius before the rows are seen.

    This is the worst case. On ordinary rows the interval is narrower: up to three times on 1000 to 100 000 normal or
    exponential rows. So fewer rows can do, and a radius that cannot be guaranteed beforehand can still be reached.

    Parameters
    ----------
    radius : float
        The radius to reach.
    contamination : float, int or Contamination
        How many rows may be corrupt: a fraction, which no number of rows makes harmless, or a count.
    confidence : float
        Confidence (1 - δ).
    assume : assumption
        What is known of the clean rows; it must name a scale.
    degree : int
        Rows the kernel takes at a time.
    vote : {"auto", "evidence", "median", "soft", "clipped"}
        As for `mean`. What the rows will say is unknown: of an interval from evidence this is the largest half-width
        it can have.
    alternative : {"two-sided", "less", "greater"}
        Two-sided, or a bound on one side.

    Returns
    -------
    int
        Rows at which the radius is guaranteed, to within half a percent of the fewest.

    Examples
    --------
    >>> import outvote as ov
    >>> ov.rows_needed(radius=0.1, contamination=5, assume=ov.FiniteVariance(1.0))
    1912
    >>> ov.rows_needed(radius=0.1, contamination=5, assume=ov.FiniteVariance(1.0), vote="median")
    8880
    """
    if not (is_number(radius) and 0 < radius < math.inf):
        raise ValueError(f"radius={radius!r} must be a positive number")
    radius = real("radius", radius)
    check_choice("alternative", alternative, Alternative)
    check_choice("vote", vote, VoteName)
    (degree,) = whole_per_sample("degree", degree, 1)
    if not isinstance(assume, Assumption) or not assume.has_scale:
        raise TypeError(f"assume={assume!r} must name a scale: FiniteVariance(sd), Bounded(low, high), …")
    allowed = Contamination.of(contamination)
    if isinstance(allowed.amount, tuple):
        raise TypeError(f"contamination={contamination!r}: rows_needed is about one sample, give one amount")
    terms = Terms(log_delta_of(confidence), allowed.adversary, alternative, assume, (degree,))

    evidence = vote == "evidence" or (vote == "auto" and degree == 1 and alternative == "two-sided")
    if vote == "evidence" and (degree > 1 or alternative != "two-sided"):
        raise ValueError("vote='evidence' is planned for two-sided intervals of means: use vote='auto'")

    def reached(n_rows: int) -> float:
        try:
            count = allowed.count(n_rows)
            if evidence and (count or vote == "evidence"):
                return promised_radius(n_rows, count, assume, terms)
            chosen, (k,) = best_blocks(vote, (n_rows,), (count,), "single", terms)
        except ValueError:
            return math.inf
        return at_size(chosen, k, count, (n_rows // k,), terms).radius

    high = degree
    while reached(high) > radius:
        high *= 2
        if high > _MOST_ROWS:
            limit = min(reached(_MOST_ROWS), reached(_MOST_ROWS // 3))
            raise ValueError(
                f"radius={radius!r} cannot be guaranteed beforehand: with contamination={allowed.amount!r} the worst "
                f"case stays above {limit:.3g} however many rows there are (ordinary rows can do better): lower it, or "
                "assume more"
            )
    low = high // 2
    while high - low > max(1, high // 400):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) <= radius else (middle, high)
    return high
