"""Numbers that assumptions state: positive, and far enough from the ends of floats."""

from __future__ import annotations

import math

from outvote.data.arguments import real

#: Scales beyond these leave no room for the sums and quotients of a proof.
LEAST, MOST = 1e-300, 1e300
LEAST_VARIANCE = 1e-290


def positive(name: str, value: float) -> float:
    """Return `value` as a float; raise an error if it is not positive and finite."""
    number = real(name, value)
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name}={value!r} must be positive and finite, for instance {name}=1.0")
    return number


def known_scale(name: str, value: float) -> float:
    """Return the scale of values as a float; raise an error if it is not positive, or too near the ends of floats."""
    number = positive(name, value)
    if not LEAST <= number <= MOST:
        raise ValueError(
            f"{name}={value!r} must lie between {LEAST:g} and {MOST:g}: multiply the rows by a power of ten first"
        )
    return number
