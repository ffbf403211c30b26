"""The root of a falling function."""

from __future__ import annotations

import math
from collections.abc import Callable


def falling_root(
    f: Callable[[float], float], low: float, high: float, above: float, below: float, tolerance: float
) -> tuple[float, float]:
    """Bracket the root of a falling function by two numbers at most `tolerance` apart.

    Secants with the Illinois rule, and halves where secants are of no use or slow.

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
    last, slow = 0, 0
    while high - low > tolerance:
        width = high - low
        middle = low + width / 2
        if slow < 3 and math.isfinite(above) and math.isfinite(below) and above > below:
            secant = low + width * above / (above - below)
            secant = min(max(secant, low + tolerance / 2), high - tolerance / 2)
            middle = secant if low < secant < high else middle
        if not low < middle < high:  # no float lies between them
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
