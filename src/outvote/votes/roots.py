"""The root of a falling function, or of many at once, and the first number from which on something holds."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


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


def falling_roots(
    f: Callable[[Floats], Floats], low: Floats, high: Floats, above: Floats, below: Floats, tolerance: Floats
) -> tuple[Floats, Floats]:
    """Do what `falling_root` does for many functions at once; where the tolerance is infinite nothing is done.

    Returns
    -------
    low, above : ndarray
        Where each function is at least 0, at most `tolerance` below its root, and its value there.

    Examples
    --------
    >>> low, _ = falling_roots(lambda x: 2 - x**2, np.zeros(2), np.full(2, 2.0), np.full(2, 2.0), np.full(2, -2.0),
    ...                        np.array([1e-12, np.inf]))
    >>> low.round(10)
    array([1.41421356, 0.        ])
    """
    low, high, above, below = low.copy(), high.copy(), above.copy(), below.copy()
    true = above.copy()
    last, slow = np.zeros(len(low)), np.zeros(len(low))
    with np.errstate(invalid="ignore", divide="ignore"):
        while (active := high - low > tolerance).any():
            width = high - low
            at = low + width / 2
            secant = low + width * above / (above - below)
            secant = np.minimum(np.maximum(secant, low + tolerance / 2), high - tolerance / 2)
            at = np.where((slow < 3) & (low < secant) & (secant < high), secant, at)
            active &= (low < at) & (at < high)  # else no float lies between them
            if not active.any():
                break
            at = np.where(active, at, low)
            value = f(at)
            right, left = active & (value >= 0), active & ~(value >= 0)
            below = np.where(left, value, np.where(right & (last > 0), below / 2, below))
            above = np.where(right, value, np.where(left & (last < 0), above / 2, above))
            true = np.where(right, value, true)
            low, high = np.where(right, at, low), np.where(left, at, high)
            last = np.where(right, 1.0, np.where(left, -1.0, last))
            slow = np.where(high - low > width / 2, slow + 1, 0.0)
    return low, true
