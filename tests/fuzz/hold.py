"""What must hold of an estimate, from the rows alone."""

import json
import math

import numpy as np
from tests.fuzz.fault import check


def finite(x):
    """Return the finite numbers of rows as floats."""
    values = np.asarray(x, dtype=np.float64).ravel()
    return values[np.isfinite(values)]


def same(one, two):
    """Return whether two answers to the same question are the same, bit by bit."""
    pairs = ((one.estimate, two.estimate), (one.interval.low, two.interval.low), (one.interval.high, two.interval.high))
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def near(one, two):
    """Return whether two ways to the same answer agree to 1e-9 of the width, or of the numbers if it is infinite."""
    answers = ([x.estimate, x.interval.low, x.interval.high] for x in (one, two))
    first, second = (np.stack(np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in each))) for each in answers)
    if first.shape != second.shape:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        wide = first[2] - first[1]
        size = np.where(np.isfinite(wide), wide, np.where(np.isfinite(first), np.abs(first), 0.0).max(axis=0))
        apart = np.abs(first / 2 - second / 2) > 5e-10 * size + 1e-300
    alike = (first == second) | (np.isnan(first) & np.isnan(second))
    return bool((alike | (np.isfinite(first) & np.isfinite(second) & ~apart)).all())


def has_bounds(found):
    """Return whether bounds were declared for a column."""
    known = found.certificate.assumption
    return any(hasattr(one, "low") for one in (known if isinstance(known, tuple) else (known,)))


def ordered(found):
    """Check that an interval is one, that the estimate lies in it, and that the answer can be shown and sent."""
    low, high, centre = (np.ravel(np.asarray(a, dtype=float)) for a in (*found.interval, found.estimate))
    check(not np.isnan(low).any() and not np.isnan(high).any(), f"NaN in {found.interval}")
    check((low <= high).all(), f"an interval upside down: {found.interval}")
    rounding = np.where(np.isfinite(centre), 1e-9 * np.abs(centre) + 1e-300, 0.0)
    bounded = has_bounds(found)
    with np.errstate(over="ignore"):
        inside = (low - rounding <= centre) & (centre <= high + rounding)
    check(bounded or np.isnan(centre).any() or inside.all(), f"{found.estimate} outside of {found.interval}")
    check(str(found), "no text")
    check(len(found._repr_html_()) < 10**6 if hasattr(found, "_repr_html_") else True, "a long page")
    json.dumps(found.to_dict(), allow_nan=True)
    found.explain()


def in_range(found, x):
    """Check that an estimate of a mean lies between the rows."""
    values, centre = finite(x), np.ravel(np.asarray(found.estimate, dtype=float))
    if has_bounds(found):  # then it is the middle of the interval
        return
    if len(values) and np.isfinite(centre).all():
        # It is the middle of the interval, mostly, to rounding.
        rounding = 1e-9 * np.abs(np.r_[values, finite(found.interval.low), finite(found.interval.high)]).max()
        low, high = values.min() - rounding, values.max() + rounding
        check(((low <= centre) & (centre <= high)).all(), f"{centre} is not between {values.min()} and {values.max()}")


def width(found):
    """Return the width of an interval."""
    return float(np.max(np.asarray(found.interval.high) - np.asarray(found.interval.low)))


def not_narrower(wide, narrow, what):
    """Check that an interval that promises more is not shorter by more than its tuning can explain."""
    if math.isfinite(width(narrow)):
        check(width(wide) >= 0.9 * width(narrow), f"shorter with {what}: {width(wide)} after {width(narrow)}")


def moved(found, other, scale, shift, size):
    """Check that rows multiplied and shifted have the answer multiplied and shifted."""
    for one, two in zip((found.estimate, *found.interval), (other.estimate, *other.interval), strict=True):
        expected = scale * np.asarray(one, dtype=float) + shift
        # A scale that is read off the rows is one of some cells, which do not move with the rows.
        digits = 1e-7 if getattr(found.certificate.assumption, "has_scale", False) else 1e-2
        far = max((abs(float(end - found.estimate)) for end in found.interval if math.isfinite(end)), default=0.0)
        rounding = digits * max(abs(scale) * far, 1e-6 * size)
        check(np.allclose(two, expected, rtol=1e-9, atol=rounding, equal_nan=True), f"moved {expected}, found {two}")
