"""The root of a falling function, or of many at once, and the first number from which on something holds."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Floats this many steps of a grid from 0, or more, need not be its points.
_MOST_POINTS = 2.0**53


def grid_step(tolerance: float) -> float:
    """Return the largest power of two that is at most a positive tolerance.

    Examples
    --------
    >>> grid_step(0.3), grid_step(0.25)
    (0.25, 0.25)
    """
    return math.ldexp(0.5, math.frexp(tolerance)[1])


def times_power_of_two(x: float, exponent: int) -> float:
    """Return x·2ⁿ; where that is beyond all floats, the next one below it: the largest float, or -∞.

    Examples
    --------
    >>> times_power_of_two(1.5, 1), times_power_of_two(-1.5, 1024), times_power_of_two(1.5, 1024)
    (3.0, -inf, 1.7976931348623157e+308)
    """
    try:
        return math.ldexp(x, exponent)
    except OverflowError:
        return sys.float_info.max if x > 0 else -math.inf


def down_to_grid(x: float, step: float) -> float:
    """Return the largest multiple of a power of two that is at most a number; far from 0 the number itself.

    Examples
    --------
    >>> down_to_grid(0.9, 0.25), down_to_grid(-0.1, 0.25), down_to_grid(1e300, 0.25)
    (0.75, -0.25, 1e+300)
    """
    return math.floor(x / step) * step if abs(x) < step * _MOST_POINTS else x


def first_number(holds: Callable[[int], bool]) -> int:
    """Return the smallest number, from 0 on, at which something holds, if it holds from there on.

    Steps grow, so that a large number takes few looks; the first three numbers are looked at one by one.

    Examples
    --------
    >>> looks = []
    >>> first_number(lambda n: looks.append(n) or n >= 900), len(looks)
    (900, 21)
    """
    low, high = -1, 0
    while not holds(high):
        low, high = high, max(2 * high, high + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def falling_root(
    f: Callable[[float], float], low: float, high: float, above: float, below: float, tolerance: float
) -> tuple[float, float]:
    """Bracket the root of a falling function by neighbours on a grid of powers of two, at most `tolerance` apart.

    Secants with the Illinois rule, and halves where secants are of no use or slow. The function is evaluated on the
    grid alone: so the answer depends on its signs there, and not on the last bits of its values.

    Parameters
    ----------
    f : callable
        A nonincreasing function.
    low, high : float
        Where it is at least 0, and where it is below 0.
    above, below : float
        Its values there.
    tolerance : float
        How close the two numbers must get.

    Returns
    -------
    low, high : float
        The function is at least 0 at `low` and below 0 at `high`.

    Examples
    --------
    >>> low, high = falling_root(lambda x: 2 - x * x, 0.0, 2.0, 2.0, -2.0, 1e-12)
    >>> round(low, 10), high - low <= 1e-12
    (1.4142135624, True)
    """
    step = grid_step(tolerance)
    last, slow = 0, 0
    while True:
        width = high - low
        middle = low + width / 2
        if slow < 3 and math.isfinite(above) and math.isfinite(below) and above > below:
            secant = low + width * above / (above - below)
            middle = secant if low < secant < high else middle
        if max(abs(low), abs(high)) < step * _MOST_POINTS:  # else floats are no closer than points of the grid
            middle = max(down_to_grid(middle, step), down_to_grid(low, step) + step)
            middle = min(middle, -down_to_grid(-high, step) - step)
        if not low < middle < high:
            break
        value = f(middle)
        if value >= 0:
            low, above = middle, value
            below, last = below / (2 if last > 0 else 1), 1
        else:
            high, below = middle, value
            above, last = above / (2 if last < 0 else 1), -1
        slow = slow + 1 if high - low > width / 2 else 0
    return low, high
