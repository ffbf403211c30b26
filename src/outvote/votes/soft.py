"""The soft vote: every value pulls the estimate towards itself, with a bounded pull.

For votes with a known sd (the unit below) the estimate is the root θ of ``Σ_k ψ_c(a·(v_k - θ)) = 0``. For c ≥ 1/2 the
odd function ψ_c is ``-log(1 - x + c·x²)`` on [0, 1/(2c)] and stays at ``s_c = -log(1 - 1/(4c))`` beyond. Since
``-log(1 - x + cx²) <= ψ_c(x) <= log(1 + x + cx²)``, a clean vote V has
``E exp ψ_c(a(V - θ - r)) <= 1 - ar + ca²(1 + r²)``; a corrupt vote adds at most s_c to the sum, or twice that if it
replaces a vote of the adversary's choice. By Markov's inequality for N clean votes the sum is negative at θ + r, and
the root is below θ + r, except with probability δ/2, for

``r = √(4ce/(1 - 4ce))``, ``e = 1 - exp(-(log(2/δ) + k·n_bad·s_c)/N)`` and ``a = r/(2c(1 + r²))``,

with k = 1 and N = K - n_bad (oblivious) or k = 2 and N = K (adaptive). (docs/certificates.md, §12)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outvote import _numba
from outvote.contamination import Adversary
from outvote.votes.median import Floats
from outvote.votes.terms import LOG_2, Alternative

#: Products that are computed side by side, so that a processor can work on several at once.
_LANES = 32
CHUNK = 1 << 14  # values processed at a time, so that they stay in the processor's cache
LARGEST = float(np.finfo(float).max)
HUGE = 1e300  # beyond this, sums of a few numbers might overflow
EPSILON = float(np.finfo(float).eps)


class SoftTuning(NamedTuple):
    """The certified radius of a soft vote, in units of the sd of one vote, and the a and c that give it."""

    radius: float
    a: float
    c: float


def budget(
    n_votes: int, n_bad: int, log_delta: float, adversary: Adversary, alternative: Alternative
) -> tuple[int, int, float]:
    """Return the number N of clean votes, the pulls k·n_bad of corrupt votes, and log(2/δ), or log(1/δ) for one side.

    Examples
    --------
    >>> budget(100, 10, 0.0, "oblivious", "less"), budget(100, 10, 0.0, "adaptive", "less")
    ((90, 10, 0.0), (100, 20, 0.0))
    """
    price = -log_delta + (LOG_2 if alternative == "two-sided" else 0.0)
    return (n_votes - n_bad, n_bad, price) if adversary == "oblivious" else (n_votes, 2 * n_bad, price)


def soft_tuning(
    n_votes: int,
    n_bad: int,
    *,
    log_delta: float,
    adversary: Adversary = "oblivious",
    alternative: Alternative = "two-sided",
) -> SoftTuning:
    """Return the smallest certified radius of the soft vote, and the a and c that give it.

    Parameters
    ----------
    n_votes : int
        Number of votes (K): blocks, or rows if every row votes.
    n_bad : int
        Number of votes that may be corrupt.
    log_delta : float
        Logarithm of the failure probability.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values.
    alternative : {"two-sided", "less", "greater"}
        A bound on one side needs log(1/δ), on both sides log(2/δ).

    Returns
    -------
    SoftTuning
        In units of the sd of one vote; the radius is infinite, and a and c are nan, if no certificate exists.

    Examples
    --------
    >>> tuning = soft_tuning(10_000, 500, log_delta=math.log(0.01))
    >>> round(tuning.radius, 3), round(tuning.c, 3)
    (0.254, 1.837)
    """
    n_clean, pulls, price = budget(n_votes, n_bad, log_delta, adversary, alternative)
    if n_clean <= pulls:
        return SoftTuning(math.inf, math.nan, math.nan)
    c = max(0.5, -0.25 / math.expm1(-_best_pull(pulls / n_clean, price / n_clean)))
    four_ce = -4 * c * math.expm1(-(price - pulls * math.log1p(-0.25 / c)) / n_clean)
    if four_ce >= 1:
        return SoftTuning(math.inf, math.nan, math.nan)
    r = math.sqrt(four_ce / (1 - four_ce))
    rounding = 1e-9 + 1e-15 / (1 - four_ce)
    return SoftTuning(r * (1 + rounding), r / (2 * c * (1 + r * r)), c)


def _best_pull(share: float, price: float) -> float:
    """Return the largest pull s = s_c in (0, log 2] with the least 4ce, for share = k·n_bad/N and price = log(2/δ)/N.

    ``4ce = (1 - exp(-price - share·s))/(1 - exp(-s))`` falls and then rises with s: its derivative has the sign of
    ``G(s) = share·(exp(s) - 1) - (exp(price + share·s) - 1)``. G is negative at 0, falls up to
    ``s = price/(1 - share)`` and is convex and increasing from there on. So Newton's method from the right
    end descends to the only root.
    """
    s = LOG_2
    while True:
        rise = share * math.expm1(s) - math.expm1(min(price + share * s, 700.0))
        if rise <= 0:
            return s
        step = rise / (share * (math.exp(s) - math.exp(price + share * s)))
        if step <= 1e-9 * s:
            return s
        s -= step


def psi(x: ArrayLike, c: float) -> Floats:
    """Return the pull ψ_c(x) of a vote at distance x: odd, nondecreasing, about x near 0, at most -log(1 - 1/(4c)).

    Examples
    --------
    >>> psi([-9.0, 0.0, 0.1, 1.0, 9.0], 0.5).round(4)
    array([-0.6931,  0.    ,  0.0998,  0.6931,  0.6931])
    """
    values = np.asarray(x, dtype=float)
    with np.errstate(over="ignore"):
        reach = np.minimum(np.abs(values) * (2 * c), 1.0)
    return np.copysign(np.log1p(reach * (2 - reach) * (-0.25 / c)), values)


def soft_vote(values: ArrayLike, sd: float, tuning: SoftTuning) -> float:
    """Return the root θ of ``Σ ψ_c(a·(v - θ)/sd) = 0``, or the middle of the roots if there are several.

    Parameters
    ----------
    values : array of float, one dimension
        The votes. Corrupt votes may be infinite.
    sd : float
        Bound on the standard deviation of one clean vote, fixed before the values are seen.
    tuning : SoftTuning
        From :func:`soft_tuning`; its radius must be finite.

    Returns
    -------
    float
        The root, to machine precision: infinite if half the votes are, nan if half are inf and half -inf.

    Examples
    --------
    >>> tuning = soft_tuning(6, 1, log_delta=math.log(0.2))
    >>> round(soft_vote([1.0, 2.0, 3.0, 4.0, 5.0, math.inf], 1.0, tuning), 3)
    3.551
    """
    if not tuning.radius < math.inf:
        raise ValueError(f"{tuning!r} has no certificate, so the soft vote has no a and c: use the median")
    votes = np.asarray(values, dtype=float)
    reach = sd / (2 * tuning.c * tuning.a)  # from this distance on the pull of a vote is constant
    if reach > HUGE:
        return soft_vote(votes * 2.0**-64, sd * 2.0**-64, tuning) * 2.0**64
    share = 0.25 / tuning.c
    lanes = np.empty((3, _LANES))

    def pull(part: Floats, center: float) -> Pull:
        ready = _numba.compiled(5e-9 * len(part))
        (ready.soft_lanes if ready is not None else _lanes)(part, center, reach, share, *lanes)
        above, below = (-math.fsum(map(math.log, one.tolist())) for one in lanes[:2])
        # Logarithms of products have their rounding errors, which count as pulls do.
        error = _LANES * math.sqrt(-(-len(part) // _LANES))
        return Pull(above - below, 2 * share * float(lanes[2].sum()), above + below + error)

    return balance(votes, reach, pull, bend=4 * share)


def _lanes(
    votes: Floats, center: float, reach: float, share: float, right: Floats, left: Floats, slope: Floats
) -> None:
    """Do what the compiled `soft_lanes` does, in the same order, to the last bit."""
    n_lines = -(-len(votes) // _LANES)
    offset = (votes - center) / reach
    near = np.minimum(np.abs(offset), 1.0)
    factor = 1.0 - (2.0 - near) * near * share

    def lined(values: Floats, nothing: float) -> Floats:
        table = np.full((n_lines, _LANES), nothing)
        table.ravel()[: len(values)] = values
        return table

    np.add.reduce(lined((1.0 - near) / factor, 0.0), axis=0, out=slope)
    np.multiply.reduce(lined(np.where(offset > 0.0, factor, 1.0), 1.0), axis=0, out=right)
    np.multiply.reduce(lined(np.where(offset > 0.0, 1.0, factor), 1.0), axis=0, out=left)


class Pull(NamedTuple):
    """The sum of the pulls of votes at a center, the slope of this sum, and the sum of the absolute pulls.

    The slope is the derivative with respect to the center, in units of -1/reach.
    """

    total: float
    slope: float
    size: float


def balance(votes: Floats, reach: float, pull: Callable[[Floats, float], Pull], *, bend: float) -> float:
    """Return the center at which bounded pulls cancel, or the middle of such centers if there are several.

    The pull of a vote is an odd function of its distance that increases up to `reach` and is constant beyond. So if
    the two middle votes are at least 2·reach apart, all pulls cancel between them and nowhere else. Otherwise the only
    root is within `reach` of the middle votes. Newton's method starts at the median, and is replaced by bisection
    of that bracket if it would leave the bracket or is slow. For many votes it starts at the root of every
    sixteenth vote, and the median is computed only if that fails.

    Parameters
    ----------
    votes : array
        One dimension; ±inf allowed.
    reach : float
        Distance from which on a vote's pull is constant, positive and finite.
    pull : callable
        ``pull(part_of_votes, center)``.
    bend : float
        Largest change of one vote's slope, over the distance in units of `reach` (a Lipschitz constant), or inf.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if len(votes) > CHUNK // 4:
            start = balance(np.ascontiguousarray(votes[::16]), reach, pull, bend=bend)
            root = math.nan
            if abs(start) < 1e9 * reach:  # else rounding errors might be larger than a step
                root = _newton(votes, start, (-math.inf, math.inf), reach, pull, bend)
            if math.isfinite(root) and not _between_middle_votes(votes, root):
                return root
        middle = [(len(votes) - 1) // 2, len(votes) // 2]
        low, high = (float(v) for v in np.partition(votes, middle)[middle])
        start = low / 2 + high / 2 if low < high else low
        if not high - low < 2 * reach:
            return start
        bracket = max(low - reach, -LARGEST), min(high + reach, LARGEST)
        return _newton(votes, start, bracket, reach, pull, bend)


def _between_middle_votes(votes: Floats, root: float) -> bool:
    """Return whether the root may be one of several: it then lies between the two middle votes of an even number."""
    if len(votes) % 2:
        return False
    return bool(max(np.count_nonzero(votes > root), np.count_nonzero(votes < root)) <= len(votes) // 2)


def _newton(
    votes: Floats,
    center: float,
    bracket: tuple[float, float],
    reach: float,
    pull: Callable[[Floats, float], Pull],
    bend: float,
) -> float:
    """Return the root by safeguarded Newton steps within the bracket; nan if an infinite bracket needs a safeguard.

    After a step d the error is at most ``n·bend·d²/(2·slope)`` (units of `reach`). The search ends when
    this is below the rounding errors of the sum.
    """
    low, high = bracket
    last = math.inf
    while True:
        total, slope, size = _over_chunks(votes, center, pull)
        if total == 0 and slope > 0:
            return center
        if math.isnan(total):
            return total
        low, high = (center, high) if total > 0 else (low, center)
        step = total / slope if slope > 0 else math.copysign(math.inf, total)
        noise = 2 * EPSILON * (abs(center) / reach + (size / slope if slope > 0 else 0.0))
        target = center + step * reach
        if min(abs(step), (high - low) / reach) <= noise or len(votes) * bend * step * step <= 2 * slope * noise:
            return min(max(target, low), high)
        if not (low < target < high and abs(step) <= last / 2):
            if math.isinf(high - low):
                return math.nan
            target = low / 2 + high / 2
            if not low < target < high:  # no float lies between, as is soon so among subnormal ones
                return target
            step = (target - center) / reach
        last, center = abs(step), target


def _over_chunks(votes: Floats, center: float, pull: Callable[[Floats, float], Pull]) -> Pull:
    """Return the sum of the pulls of all votes, computed in chunks that fit the cache."""
    if len(votes) <= CHUNK:
        return pull(votes, center)
    parts = [pull(votes[i : i + CHUNK], center) for i in range(0, len(votes), CHUNK)]
    return Pull(*(math.fsum(column) for column in zip(*parts, strict=True)))


def worst_mean_square(sds: ArrayLike, n_bad: int, adversary: Adversary = "oblivious") -> float:
    """Return the mean variance of the N votes that vary most: N = K - n_bad (oblivious) or all K (adaptive).

    Votes of unequal variances have ``Σ log(1 - ar + ca²(sd_k² + r²)) <= N·log(1 - ar + ca²(mean sd_k² + r²))``, since
    the logarithm is concave, and the adversary corrupts the votes that vary least. So the soft vote is certified with
    the square root of this mean as sd (:func:`soft_scale`).

    Examples
    --------
    >>> worst_mean_square([1.0, 1.0, 3.0], 1), worst_mean_square([1.0, 1.0, 4.0], 1, "adaptive")
    (5.0, 6.0)
    """
    return float(np.mean(_worst(sds, n_bad, adversary) ** 2))


def soft_scale(sds: ArrayLike, n_bad: int, adversary: Adversary = "oblivious") -> float:
    """Return the square root of :func:`worst_mean_square`: the sd of :func:`soft_vote` for unequal votes.

    Examples
    --------
    >>> soft_scale([0.5, 0.5, 0.1], 1)
    0.5
    """
    scales = _worst(sds, n_bad, adversary)
    largest = float(scales.max())
    return largest * math.sqrt(float(np.mean((scales / largest) ** 2)))


def _worst(sds: ArrayLike, n_bad: int, adversary: Adversary) -> Floats:
    """Return the scales of the N votes that vary most."""
    scales = np.ravel(np.asarray(sds, dtype=float))
    return scales if adversary == "adaptive" else np.sort(scales)[min(n_bad, scales.size - 1) :]
