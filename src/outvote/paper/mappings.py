"""The paper's mappings α, the constants and the numbers of blocks; import this module as `outvote.paper`.

Outliers can be in at most a share u(ε) = ε/α(ε) of K ≥ αn blocks. All constants are functions of u, so their
limits at ε = 0 follow from the limit of u.
"""

from __future__ import annotations

import math
import operator
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from outvote.data.arguments import MOST, is_number, is_whole, real, whole

T = TypeVar("T")
AlphaMapping = str | Callable[[Any], Any]
Counts = int | Sequence[int]

MAPPINGS: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda e: (1 + 2 * e) / 2,
    "geometric": lambda e: (2 * e) ** 0.5,
    "harmonic": lambda e: 4 * e / (1 + 2 * e),
    "polynomial": lambda e: e * (5 - 2 * e) / 2,
}
"""The paper's four mappings α (its Example 1)."""

_HIT_SHARES: dict[str, Callable[[Any], Any]] = {
    "arithmetic": lambda e: 2 * e / (1 + 2 * e),
    "geometric": lambda e: (e / 2) ** 0.5,
    "harmonic": lambda e: (1 + 2 * e) / 4,
    "polynomial": lambda e: 2 / (5 - 2 * e),
}

_LAYOUTS = ("single", "full", "diagonal")


# --- mappings and constants ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Constants(Generic[T]):
    """The functions of ε in the bounds (the paper's Assumption on α, and its Table 1).

    With u = ε/α: ``alpha`` is α; ``eta`` is η = 1 - u, the share of blocks that are surely clean; ``beta`` is
    β = 2/(1 - 2u); ``gamma`` is γ = (1 - u)/(1 - 2u)^(3/2); ``Gamma`` is Γ = 1/√(1 - 2u); ``Delta`` is Δ = 1/√u.

    Examples
    --------
    >>> from outvote.paper import constants
    >>> found = constants(0.05, mapping="harmonic")
    >>> round(found.alpha, 3), round(found.beta, 3)
    (0.182, 4.444)
    """

    alpha: T
    beta: T
    gamma: T
    Gamma: T
    Delta: T
    eta: T


def alpha(mapping: AlphaMapping, epsilon: Any) -> Any:
    """Return the value of a mapping, and check that 2ε < α(ε) < 1 (0 ≤ α < 1 at ε = 0).

    Parameters
    ----------
    mapping : {"arithmetic", "geometric", "harmonic", "polynomial"} or callable
        α itself, by name or as a function of ε.
    epsilon : float, Fraction or array_like
        Fraction of outliers (ε), in [0, 1/2).

    Returns
    -------
    float, Fraction or ndarray
        α(ε): a Fraction if `epsilon` is a Fraction and the mapping is rational, an array for an array.

    Examples
    --------
    >>> alpha("harmonic", Fraction(1, 20))
    Fraction(2, 11)
    >>> alpha(lambda e: e + 0.5, [0.0, 0.25])
    array([0.5 , 0.75])
    """
    grid = _grid(epsilon)
    if grid is not None:
        return np.array([float(alpha(mapping, float(e))) for e in grid.ravel()]).reshape(grid.shape)
    epsilon = epsilon if isinstance(epsilon, Rational) else float(epsilon)
    function = MAPPINGS.get(mapping) if isinstance(mapping, str) else mapping
    if not callable(function):
        raise ValueError(f"mapping={mapping!r} must be one of {', '.join(map(repr, MAPPINGS))} or a callable")
    if not 0 <= epsilon < 0.5:
        raise ValueError(f"epsilon={epsilon} must lie in [0, 0.5): the clean blocks must be in the majority")
    try:
        value = function(epsilon)
    except TypeError:  # a ufunc does not take a Fraction
        value = function(float(epsilon))
    value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    number = real(f"mapping: alpha({float(epsilon):g})", value, "a number strictly between 2*epsilon and 1")
    if not isinstance(value, Rational):
        value = number
    if not (2 * epsilon < value < 1 or 0 == epsilon <= value < 1):
        raise ValueError(
            f"mapping gives alpha({float(epsilon):g}) = {number:g}, but alpha must lie "
            f"strictly between 2*epsilon = {2 * float(epsilon):g} and 1"
        )
    return value


def _grid(epsilon: Any) -> NDArray[np.float64] | None:
    """Return an array of contaminations, or None for a single one."""
    what = "a number in [0, 0.5), or an array of such numbers"
    if is_number(epsilon):
        real("epsilon", epsilon, what)
        return None
    try:
        grid = np.asarray(epsilon, dtype=object)
    except ValueError:
        raise ValueError(f"epsilon={epsilon!r} must be {what}") from None
    return np.array([real("epsilon", e, what) for e in grid.ravel()], dtype=np.float64).reshape(grid.shape)


def _hit_share(mapping: AlphaMapping, epsilon: float | Fraction) -> float:
    """Return u(ε) = ε/α(ε) = 1 - η(ε), or its right limit at ε = 0."""
    value = alpha(mapping, epsilon)
    if isinstance(mapping, str):
        return float(_HIT_SHARES[mapping](epsilon))
    if value > 0:
        return float(epsilon / value)
    # Without outliers every share below 1/2 gives valid bounds, so three digits of the limit are enough.
    near, nearer = (e / float(alpha(mapping, e)) for e in (1e-9, 1e-12))
    if abs(near - nearer) > 1e-3 or nearer > 0.499:
        raise ValueError(
            "mapping: epsilon/alpha(epsilon) has no limit below 1/2 at epsilon=0; "
            "give a mapping with alpha(0) > 0, or 'harmonic'"
        )
    return nearer


@overload
def constants(epsilon: float | Fraction, mapping: AlphaMapping = ...) -> Constants[float]: ...
@overload
def constants(
    epsilon: Sequence[float] | NDArray[Any], mapping: AlphaMapping = ...
) -> Constants[NDArray[np.float64]]: ...
def constants(epsilon: Any, mapping: AlphaMapping = "harmonic") -> Constants[Any]:
    """Return all constants of a mapping at ε, or their right limits at ε = 0.

    Parameters
    ----------
    epsilon : float, Fraction or array_like
        Fraction of outliers (ε), in [0, 1/2).
    mapping : str or callable
        α, see `alpha`.

    Returns
    -------
    Constants
        Floats, or arrays of the shape of `epsilon`.

    Examples
    --------
    >>> round(constants(0.05).beta, 3)
    4.444
    >>> constants(0, "geometric").Gamma
    1.0
    """
    grid = _grid(epsilon)
    if grid is not None:
        rows = [constants(float(e), mapping) for e in grid.ravel()]
        names = Constants.__dataclass_fields__
        return Constants(**{k: np.array([getattr(r, k) for r in rows]).reshape(grid.shape) for k in names})
    epsilon = epsilon if isinstance(epsilon, Rational) else float(epsilon)
    u = _hit_share(mapping, epsilon)
    return Constants(
        alpha=float(alpha(mapping, epsilon)),
        beta=2 / (1 - 2 * u),
        gamma=(1 - u) / (1 - 2 * u) ** 1.5,
        Gamma=1 / math.sqrt(1 - 2 * u),
        Delta=1 / math.sqrt(u) if u else math.inf,
        eta=1 - u,
    )


def range_size(epsilon: Any, n: int, mapping: AlphaMapping = "harmonic") -> Any:
    """Return the length of the range of log δ in the first claims: s(ε) = n(1 - α)(α - 2ε)/(2α).

    It grows with α up to √(2ε), the geometric mapping, and falls beyond: ∂s/∂α = n(2ε - α²)/(2α²). The constant
    γ always falls: ∂γ²/∂α = -2ε(2α - ε)(α - ε)/(α - 2ε)⁴ (the paper's three formulas, corrected).

    Parameters
    ----------
    epsilon : float, Fraction or array_like
        Fraction of outliers (ε), in [0, 1/2).
    n : int
        Number of rows.
    mapping : str or callable
        α, see `alpha`.

    Returns
    -------
    float or ndarray

    Examples
    --------
    >>> round(range_size(0.05, 1000, "geometric"), 1)
    233.8
    """
    n_rows = whole("n", n, 1)
    c = constants(epsilon, mapping)
    return n_rows * (1 - c.alpha) / c.beta


# --- numbers of blocks -----------------------------------------------------------------------------------


def whole_numbers(value: Any, name: str, least: int) -> tuple[int, ...]:
    try:
        given = np.atleast_1d(np.asarray(value, dtype=object))
        items = tuple(operator.index(v) for v in given)
        if any(isinstance(v, (bool, np.bool_)) for v in given):
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(
            f"{name}={value!r} must be whole numbers, one per sample; for a fraction f of n rows give int(f * n)"
        ) from None
    if not items or min(items) < least:
        raise ValueError(f"{name}={value!r} must be at least {least} in every sample")
    if max(items) > MOST:
        raise ValueError(f"{name} must be at most 2**53 in every sample: floats do not count every number beyond")
    return items


def read_samples(n: Counts, n_outliers: Counts) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sizes, outliers = whole_numbers(n, "n", 1), whole_numbers(n_outliers, "n_outliers", 0)
    if len(sizes) != len(outliers):
        raise ValueError(
            f"n_outliers={n_outliers!r} has {len(outliers)} counts for {len(sizes)} samples: give one per sample"
        )
    if any(bad > rows for bad, rows in zip(outliers, sizes, strict=True)):
        raise ValueError(f"n_outliers={n_outliers!r} exceeds n={n!r}: fewer than half the rows may be corrupt")
    return sizes, outliers


def contamination(sizes: Sequence[int], outliers: Sequence[int], layout: str) -> Fraction:
    """Return ε of one sample, Σ n_O/min n of the diagonal, or ε̃ = 1 - ∏(1 - ε_s) of the complete grid."""
    if not isinstance(layout, str) or layout not in _LAYOUTS:
        raise ValueError(f"layout={layout!r} must be one of {', '.join(map(repr, _LAYOUTS))}")
    if layout == "single" and len(sizes) > 1:
        raise ValueError(f"layout='single' takes one sample, not {len(sizes)}: use 'full' or 'diagonal'")

    def grid(counts: Sequence[int]) -> Fraction:
        clean = (1 - Fraction(bad, rows) for bad, rows in zip(counts, sizes, strict=True))
        return 1 - math.prod(clean, start=Fraction(1))

    epsilon = grid(outliers) if layout == "full" else Fraction(sum(outliers), min(sizes))
    if epsilon < Fraction(1, 2):
        return epsilon
    half = Fraction(1, 2)
    if layout == "full":
        most = bisect_left(range(min(sizes)), True, key=lambda k: grid([k] * len(sizes)) >= half) - 1
        where = f"{most} in each sample"
    else:
        where = f"{(min(sizes) - 1) // 2} in all"
    raise ValueError(
        f"n_outliers={list(outliers)} of n={list(sizes)} rows is a contamination of {float(epsilon):.4g}; "
        f"it must be below 1/2, that is at most {where}"
    )


def _smallest_count(mapping: AlphaMapping, epsilon: Fraction, n: int, power: int) -> int:
    """Return the smallest K ≥ 1 with K^power ≥ α(ε)·n^power, in exact arithmetic if α is rational or geometric."""
    if mapping == "geometric":
        value, power = 2 * epsilon, 2 * power
    else:
        value = alpha(mapping, epsilon)
    if isinstance(value, float):
        return max(1, math.ceil(value ** (1 / power) * n))
    target = math.ceil(value * n**power)
    return max(1, bisect_left(range(n + 1), target, key=lambda k: k**power))


def smallest_counts(
    sizes: Sequence[int], outliers: Sequence[int], layout: str, mapping: AlphaMapping
) -> tuple[int, ...]:
    epsilon = contamination(sizes, outliers, layout)
    if layout == "full":
        return tuple(_smallest_count(mapping, epsilon, n, len(sizes)) for n in sizes)
    return (_smallest_count(mapping, epsilon, min(sizes), 1),) * len(sizes)


@dataclass(frozen=True)
class FirstClaim:
    """Blocks of the first claims: K_s = ⌈β_s·log(terms/δ)⌉ is in [least, most] for log δ in [low, high]."""

    least: tuple[int, ...]
    most: tuple[int, ...]
    betas: tuple[float, ...]
    terms: int
    low: float
    high: float

    def counts(self, log_delta: float) -> tuple[int, ...]:
        log_inverse = math.log(self.terms) - log_delta
        # The exact ceiling lies within the limits, but rounding may move it outside by one.
        return tuple(
            min(max(math.ceil(beta * log_inverse), least), most)
            for beta, least, most in zip(self.betas, self.least, self.most, strict=True)
        )


def first_claim(
    sizes: tuple[int, ...],
    outliers: tuple[int, ...],
    degrees: Sequence[int],
    layout: str,
    mapping: AlphaMapping,
) -> FirstClaim:
    least = smallest_counts(sizes, outliers, layout, mapping)
    epsilon, p = contamination(sizes, outliers, layout), len(sizes)
    room = tuple(n // d for n, d in zip(sizes, degrees, strict=True))
    c = constants(epsilon, mapping)
    if layout != "full":
        low, high = -min(room) / c.beta, 0.0 - c.alpha * min(sizes) / c.beta
        return FirstClaim(least, room, (c.beta,) * p, 1, low, high)
    root = c.alpha ** (1 / p)
    clean = [1 - k / n / root if k else 1.0 for k, n in zip(outliers, sizes, strict=True)]
    if p == 1:
        clean = [c.eta]
    betas = tuple(4.5 * p**2 * c.eta**2 / (eta * (2 * c.eta - 1) ** 2) for eta in clean)
    low = math.log(p) - min(r / b for r, b in zip(room, betas, strict=True))
    high = math.log(p) - max(root * n / b for n, b in zip(sizes, betas, strict=True))
    return FirstClaim(least, room, betas, p, low, min(0.0, high))


def settle(log_delta: float, low: float, high: float, clamp: bool = False) -> float | None:
    """Return the requested log δ if it is in the range; if it is too large and `clamp`, the largest; else None."""
    if log_delta > high and (clamp or log_delta - high <= 1e-12 * abs(high)):
        log_delta = high
    if low > log_delta and low - log_delta <= 1e-12 * abs(low):
        log_delta = low
    return log_delta if low <= log_delta <= high else None


def _power_of_ten(log_delta: float, up: bool) -> str:
    """Return δ to two digits, rounded into the range; this works even if exp underflows."""
    if not math.isfinite(log_delta) or log_delta == 0:
        return "1" if log_delta == 0 else "0"
    exponent = math.floor(log_delta / math.log(10))
    digits = 10 * 10 ** (log_delta / math.log(10) - exponent)
    mantissa = math.ceil(digits) if up else math.floor(digits)
    return f"{mantissa / 10:.1f}e{exponent}" if mantissa < 100 else f"1.0e{exponent + 1}"


def range_text(low: float, high: float) -> str:
    if low > high:
        return "the bound covers no delta here"
    opening = "]" if low == -math.inf else "["
    return f"the bound covers delta in {opening}{_power_of_ten(low, True)}, {_power_of_ten(high, False)}]"


def block_count(
    n: Counts,
    n_outliers: Counts,
    *,
    mapping: AlphaMapping = "harmonic",
    claim: int = 2,
    log_delta: float | None = None,
    layout: str = "single",
) -> tuple[int, ...]:
    """Return the numbers of blocks that the paper prescribes, one per sample, in exact arithmetic.

    ========  ====================================  ===================================================
    layout    claim 2                               claim 1
    ========  ====================================  ===================================================
    single    K = ⌈α(ε)n⌉                           K = ⌈β(ε)L⌉, αn ≤ βL ≤ n (Prop. `mom`)
    diagonal  same, n = min n_s, ε = Σ n_O,s / n    same (Prop. `mou_diag`)
    full      least K_s with K_s^p ≥ α(ε̃)n_s^p      K_s = ⌈β_s log(p/δ)⌉, α^(1/p)n_s ≤ β_s log(p/δ) ≤ n_s
    ========  ====================================  ===================================================

    For the complete grid of p samples ε̃ = 1 - ∏(1 - ε_s) and β_s = 9p²η²/(2η_s(2η - 1)²) with
    η_s = 1 - ε_s/α^(1/p): Prop. `mou_2sample` is p = 2, its Hoeffding remark p = 1. Without outliers a
    mapping with α(0) = 0 gives one block. Blocks may be smaller than the kernel's degree: this is not checked.

    Parameters
    ----------
    n, n_outliers : int or sequence of int
        Rows (n) and outliers among them (n_O), one per sample.
    mapping : str or callable
        α, see `alpha`.
    claim : {1, 2}
        1: finite variance, K depends on δ. 2: light tails, K does not depend on δ (and `log_delta` is ignored).
    log_delta : float
        Natural logarithm of the failure probability (log δ), for claim 1.
    layout : {"single", "full", "diagonal"}
        One sample, or several samples with all tuples of blocks or only the diagonal ones.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> block_count(132, 12)
    (41,)
    >>> block_count((100, 80), (5, 2), layout="full")
    (51, 41)
    >>> block_count(1000, 50, claim=1, log_delta=-50.0)
    (223,)
    """
    sizes, outliers = read_samples(n, n_outliers)
    if not is_whole(claim) or claim not in (1, 2):
        raise ValueError(f"claim={claim!r} must be 1 or 2; for claim 3 use claim=2, which has the same blocks")
    if claim == 2:
        return smallest_counts(sizes, outliers, layout, mapping)
    plan = first_claim(sizes, outliers, (1,) * len(sizes), layout, mapping)
    if log_delta is None:
        raise ValueError(f"claim=1 needs log_delta, between {plan.low:.4g} and {plan.high:.4g}")
    log_delta = real("log_delta", log_delta)
    settled = settle(log_delta, plan.low, plan.high)
    if settled is None:
        raise ValueError(
            f"log_delta={log_delta:.6g} (10^{log_delta / math.log(10):.2f}) is outside claim 1: "
            f"{range_text(plan.low, plan.high)}, log10 {plan.low / math.log(10):.2f} to "
            f"{plan.high / math.log(10):.2f}; use log_delta="
            f"{max(plan.low, min(plan.high, log_delta)):.6g}, or claim=2 for light tails"
        )
    return plan.counts(settled)


def largest_contamination(
    sizes: Sequence[int], degrees: Sequence[int], layout: str, mapping: AlphaMapping
) -> int | None:
    """Return the most outliers (per sample of a grid, else in all) whose ⌈αn⌉ blocks have `degrees` rows each."""

    def too_many(k: int) -> bool:
        outliers = [k] * len(sizes) if layout == "full" else [k] + [0] * (len(sizes) - 1)
        try:
            counts = smallest_counts(sizes, outliers, layout, mapping)
        except ValueError:
            return True
        return any(n // c < d for n, c, d in zip(sizes, counts, degrees, strict=True))

    most = bisect_left(range(min(sizes) + 1), True, key=too_many) - 1
    return None if most < 0 else most


def max_outliers(
    n: Counts, degree: Counts = 1, *, mapping: AlphaMapping = "harmonic", layout: str = "single"
) -> int | None:
    """Return the largest number of outliers for which the ⌈αn⌉ blocks of claim 2 have `degree` rows; α nondecreasing.

    A block must have d rows, so K ≤ ⌊n/d⌋. For pairs this allows ε ≤ 1/6 (harmonic), 1/8 (geometric) or
    0.219 (polynomial), and no ε for the arithmetic mapping.

    Parameters
    ----------
    n : int or sequence of int
        Rows (n), one per sample.
    degree : int or sequence of int
        Degree of the kernel (d), one per sample.
    mapping : str or callable
        α, see `alpha`.
    layout : {"single", "full", "diagonal"}
        As in `block_count`. The number is per sample for "full", over all samples for "diagonal".

    Returns
    -------
    int or None
        None if even clean samples get blocks that are too small.

    Examples
    --------
    >>> max_outliers(1200, 2), max_outliers(1200, 2, mapping="geometric")
    (200, 150)
    """
    sizes, degrees = whole_numbers(n, "n", 1), whole_numbers(degree, "degree", 1)
    if len(sizes) != len(degrees):
        raise ValueError(f"degree={degree!r} has {len(degrees)} entries for {len(sizes)} samples: give one per sample")
    alpha(mapping, contamination(sizes, (0,) * len(sizes), layout))
    return largest_contamination(sizes, degrees, layout, mapping)
