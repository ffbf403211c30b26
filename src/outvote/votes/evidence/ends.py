"""Where the evidence stops, for ratios and differences: the ends of the values that are not ruled out."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from outvote.votes.evidence.factors import Factor
from outvote.votes.roots import down_to_grid, falling_root, grid_step

#: The ends are found to this share of the first step; the first time, if they are looked for twice, to the other.
#: Rounding moves evidence by far less than such a step does, so that the ends do not depend on the order of sums.
PRECISION, ROUGHLY = 2.0**-28, 2.0**-26
#: A row lies above an end for certain, whatever digits floats have there, if it does by this share of itself.
APART = 2.0**-40
#: Ends farther from the middle of the rows than this many first steps, or this far, are infinite.
_FARTHEST, _LARGEST = 1e6, sys.float_info.max / 4


def lower_end(rows: Any, factors: Sequence[Factor], price: float) -> tuple[float, float]:
    """Return a number below which every mean is ruled out.

    A mean is ruled out when the evidence that the mean is larger reaches exp(price). First comes a mean for which the
    factors made constant left of -τ do: with it all smaller means are ruled out. From there the end moves up as long
    as the least evidence over all means in between still does. That loses something where rows have the valley of
    their factor in between, or left of it; then it is done again from close to the end.

    Returns
    -------
    end : float
        -∞ where nothing is ruled out, +∞ where everything is.
    start : float
        Where the search began: a mean that is ruled out with all smaller ones.
    """
    if rows.n_values <= rows.droppable:
        return -math.inf, -math.inf
    main, middle, first = factors[0], rows.middle, first_step(rows, factors, price)
    # Rows far below the mean count with the least factor in the form that rules out all smaller means at once.
    far = rows.n_below(middle - first, main.depth)
    paid = 1.1 * far * (main.norm - main.least) / (main.rate * rows.slope * max(rows.n_values - far, 1))
    return search_end(
        rows.excess_over(factors, price),
        middle,
        first,
        lambda low, high: all(rows.none_between(low - 2 * one.depth, high - one.depth) for one in factors),
        paid,
    )


def search_end(
    excess: Callable[[float, float], float],
    middle: float,
    first: float,
    settled: Callable[[float, float], bool],
    farther: float = 0.0,
    finest: float = 0.0,
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
        Whether moving up from one number, to another at most, need not be done again.
    farther : float
        How much farther from there the search should begin.
    finest : float
        How far apart floats are where the evidence is computed: an end is not found more precisely.
    """
    roughly, precisely = max(ROUGHLY * first, finest), max(PRECISION * first, finest)
    grid, step = grid_step(roughly), first
    end = down_to_grid(middle - first - farther, grid)
    while not (above := excess(-math.inf, end)) >= 0:
        end, step = down_to_grid(end - step, grid), 2 * step
        if step > min(_FARTHEST * first, _LARGEST):
            return -math.inf, -math.inf
    start, top = end, max(middle, end) + step
    if not settled(start, top):
        end = moved_up(excess, start, top, roughly, above)
        if math.isinf(end):
            return end, start
        above = excess(end, end)
    return moved_up(excess, end, top if top > end else end + step, precisely, above), start


def end_in_cell(rows: Any, factors: Sequence[Factor], price: float, end: float, start: float, first: float) -> float:
    """Return a number up to `end` below which every mean is ruled out; all up to `start` may well be.

    The end is found to a share of `first`, as that of the highest cell was.
    """
    excess = rows.excess_over(factors, price)
    if excess(-math.inf, end) >= 0:
        return end
    if not excess(-math.inf, start) >= 0:
        return min(end, lower_end(rows, factors, price)[0])
    low = min(start, end)
    for tolerance in (ROUGHLY, PRECISION):
        above, below = excess(low, low), excess(low, end)
        if below >= 0 or not above >= 0:
            return end if below >= 0 else low
        low = falling_root(partial(excess, low), low, end, above, below, tolerance * first)[0]
    return low


def moved_up(
    excess: Callable[[float, float], float], low: float, high: float, tolerance: float, above: float | None = None
) -> float:
    """Return the largest end such that everything from `low` to it is ruled out; +∞ if all is.

    `above` is by how much `low` itself is, if that is known, at least.
    """
    above = excess(low, low) if above is None else above
    if not above >= 0:  # rounding
        return low
    below = excess(low, high)
    if below >= 0 and excess(low, math.inf) >= 0:
        return math.inf
    step = 2 * (high - low)
    while below >= 0:
        step = max(step, math.ulp(high))  # far from 0 two floats may be farther apart than the ends
        high, step = high + step, 4 * step
        below = excess(low, high) if high < math.inf else -1.0
    return falling_root(lambda end: excess(low, end), low, high, above, below, tolerance)[0]


def first_step(rows: Any, factors: Sequence[Factor], price: float) -> float:
    """Return about how far the end is from the middle of the rows; it does not depend on how many may be corrupt."""
    main = factors[0]
    stake = (price - math.log(main.weight)) / rows.n_rows + main.norm
    return 2 * stake / (main.rate * rows.slope)
