"""Where the evidence stops: the ends of the means that are not ruled out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from outvote.votes.evidence.factors import Factor
from outvote.votes.evidence.rows import SortedRows
from outvote.votes.roots import falling_root

#: The ends are found to this share of the first step.
_PRECISION = 1e-10
#: Ends farther from the middle of the rows than this many first steps are infinite.
_FARTHEST = 1e30


def lower_end(rows: SortedRows, factors: Sequence[Factor], price: float) -> tuple[float, float]:
    """Return a number below which every mean is ruled out.

    A mean is ruled out when the evidence that the mean is larger reaches exp(price). First comes a mean for which the
    factors made constant left of -τ do: with it all smaller means are ruled out. From there the end moves up as long
    as the least evidence over all means in between still does, twice: the second time starts close to the end, and
    loses next to nothing.

    Returns
    -------
    end : float
        -∞ where nothing is ruled out, +∞ where everything is.
    start : float
        Where the search began: a mean that is ruled out with all smaller ones.
    """
    if rows.n_values <= rows.droppable:
        return -math.inf, -math.inf
    return search_end(
        lambda low, high: rows.log_evidence(factors, low, high) - price,
        rows.middle,
        first_step(rows, factors, price),
        lambda end: all(rows.smallest > end - factor.depth for factor in factors),
    )


def search_end(
    excess: Callable[[float, float], float], middle: float, first: float, settled: Callable[[float], bool]
) -> tuple[float, float]:
    """Return a number below which everything is ruled out, and where the search began.

    Parameters
    ----------
    excess : callable
        By how much the least evidence against all values from one number to another exceeds its price; from -∞ on,
        against all up to the second.
    middle, first : float
        Where the value may be, and about how far the end is from there.
    settled : callable
        Whether moving up from an end again would gain nothing.
    """
    end, step = middle - first, first
    while not excess(-math.inf, end) >= 0:
        end, step = end - step, 2 * step
        if step > _FARTHEST * first:
            return -math.inf, -math.inf
    start = end
    for _ in range(2):
        end = moved_up(excess, end, max(middle, end) + step, _PRECISION * first)
        if math.isinf(end) or settled(end):
            break
    return end, start


def rules_out_below(rows: SortedRows, factors: Sequence[Factor], price: float, mean: float, start: float) -> bool:
    """Return whether the evidence rules out a mean and all smaller ones: those up to `start`, and those in between."""
    if rows.log_evidence(factors, -math.inf, mean) >= price:
        return True
    return rows.log_evidence(factors, start, mean) >= price and rows.log_evidence(factors, -math.inf, start) >= price


def moved_up(excess: Callable[[float, float], float], low: float, high: float, tolerance: float) -> float:
    """Return the largest end such that everything from `low` to it is ruled out; +∞ if all is."""
    above, below = excess(low, low), excess(low, high)
    if not above >= 0:  # rounding
        return low
    if below >= 0 and excess(low, math.inf) >= 0:
        return math.inf
    while below >= 0:
        high += 2 * (high - low)
        below = excess(low, high)
    return falling_root(lambda end: excess(low, end), low, high, above, below, tolerance)[0]


def first_step(rows: SortedRows, factors: Sequence[Factor], price: float) -> float:
    """Return about how far the end is from the middle of the rows; it does not depend on how many may be corrupt."""
    main = factors[0]
    stake = (price - math.log(main.weight)) / rows.n_rows + main.norm
    return 2 * stake / main.rate
