"""Which rows in order bound a quantile of any distribution, with corrupt rows counted in: exact binomial tails."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.votes.binomial import log_binomial_tail
from outvote.votes.terms import Terms

#: Beyond this many rows nothing is searched for.
_MOST_ROWS = 10**15


class Ranks(NamedTuple):
    """The ends of an interval: the `low`-th smallest row and the `high`-th largest; 0 where no row bounds it."""

    low: int
    high: int


def quantile_ranks(
    n_rows: int, n_corrupt: int, shares: Sequence[Fraction], terms: Terms, *, together: bool = False
) -> list[Ranks]:
    """Return the rows that bound each quantile of the clean distribution, or all of them `together`.

    Of n rows m may be corrupt. *Oblivious*: N = n - m rows are clean, whatever stands in the others, and adding rows
    only lowers the r-th smallest: it exceeds a q-quantile only if fewer than r of N clean rows do not. So r is the
    largest with ``P(Bin(N, q) ≤ r - 1) ≤ α``. *Adaptive*: of the n rows as they were m are gone: the largest r with
    ``P(Bin(n, q) ≤ r - 1 + m) ≤ α``. From above likewise, with 1 - q. Several quantiles together share α evenly, or
    have a band of Dvoretzky, Kiefer, Wolfowitz and Massart about the distribution function: whichever has the higher
    ranks, which depends on no row (docs/certificates.md, section 17).

    Examples
    --------
    >>> terms = Terms(math.log(0.05))
    >>> quantile_ranks(100, 0, [Fraction(1, 2)], terms), quantile_ranks(100, 5, [Fraction(1, 2)], terms)
    ([Ranks(low=40, high=40)], [Ranks(low=38, high=38)])
    """
    adaptive = terms.adversary == "adaptive"
    log_alpha = -terms.price

    def both_ends(rank: Callable[[Fraction], int]) -> list[Ranks]:
        return [
            Ranks(
                0 if terms.alternative == "less" else rank(q),
                0 if terms.alternative == "greater" else rank(1 - q),
            )
            for q in shares
        ]

    parts = len(shares) if together else 1
    apart = both_ends(lambda q: lower_rank(n_rows, n_corrupt, q, log_alpha - math.log(parts), adaptive=adaptive))
    if parts == 1 or log_alpha > math.log(0.5):
        return apart
    band = both_ends(lambda q: _band_rank(n_rows, n_corrupt, q, log_alpha, adaptive=adaptive))
    return max(apart, band, key=lambda ranks: sum(map(sum, ranks)))


@lru_cache(maxsize=4096)
def lower_rank(n_rows: int, n_corrupt: int, share: Fraction, log_alpha: float, *, adaptive: bool = False) -> int:
    """Return the largest r such that the r-th smallest row exceeds the quantile with probability α at most, or 0.

    Examples
    --------
    >>> lower_rank(5, 0, Fraction(1, 2), math.log(0.025)), lower_rank(6, 0, Fraction(1, 2), math.log(0.025))
    (0, 1)
    """
    n_trials = n_rows if adaptive else n_rows - n_corrupt
    return max(_largest_rank(n_trials, share, log_alpha) - (n_corrupt if adaptive else 0), 0)


def lower_ranks(
    n_rows: int, counts: NDArray[np.int64], share: Fraction, log_alpha: float, *, adaptive: bool = False
) -> NDArray[np.int64]:
    """Return `lower_rank` for several numbers of corrupt rows."""
    if adaptive:
        return np.maximum(lower_rank(n_rows, 0, share, log_alpha, adaptive=True) - counts, 0)
    trials = np.maximum(n_rows - counts, 0)
    # Ranks rise by 0 or 1 with each trial, so they lie between those at both ends; all are found at once.
    ends = [_largest_rank(int(n), share, log_alpha) for n in (trials.min(), trials.max())]
    low, high = np.full(len(trials), ends[0]), np.full(len(trials), ends[1])
    miss = float(1 - share)
    while (low < high).any():
        middle = (low + high + 1) // 2
        fits = (middle <= trials) & (
            log_binomial_tail(miss, np.maximum(trials, 1), np.clip(trials - middle + 1, 1, None)) <= log_alpha
        )
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return low


def rows_to_bound(
    amount_of: Callable[[int], int], share: Fraction, log_alpha: float, *, adaptive: bool = False
) -> int | None:
    """Return how many rows bound the quantile from below, if `amount_of` so many rows may be corrupt; None if none do.

    Examples
    --------
    >>> rows_to_bound(lambda n: 0, Fraction(1, 100), math.log(0.025))
    368
    """

    def enough(n: int) -> bool:
        return lower_rank(n, min(amount_of(n), n), share, log_alpha, adaptive=adaptive) >= 1

    high = 1
    while not enough(high):
        high *= 2
        if high > _MOST_ROWS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _largest_rank(n_trials: int, share: Fraction, log_alpha: float) -> int:
    """Return the largest r with ``P(Bin(n_trials, share) ≤ r - 1) ≤ α``, or 0."""
    # The median of Bin(N, q) is at most ⌈Nq⌉, so r is no more where α < 1/2; tails there need no scipy.
    high = min(math.ceil(share * n_trials), n_trials) if log_alpha < math.log(0.5) else n_trials
    miss = float(1 - share)

    def fits(r: int) -> bool:
        return r == 0 or bool(log_binomial_tail(miss, n_trials, n_trials - r + 1) <= log_alpha)

    q = float(share)
    z = NormalDist().inv_cdf(math.exp(log_alpha)) if -600 < log_alpha < 0 else -math.sqrt(-2 * log_alpha)
    guess = min(max(math.floor(q * n_trials + z * math.sqrt(q * (1 - q) * n_trials)), 0), high)
    low, step = 0, 1
    if fits(guess):
        low = guess
        while low + step <= high and fits(low + step):
            low, step = low + step, 2 * step
        high = min(high, low + step - 1)
    else:
        high = guess - 1
        while high > 0 and not fits(max(high - step, 0)):
            high, step = high - step - 1, 2 * step
        low, high = max(high - step, 0), max(high, 0)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _band_rank(n_rows: int, n_corrupt: int, share: Fraction, log_alpha: float, *, adaptive: bool) -> int:
    """Return the rank of a band: ``⌈N·q - √(N·log(1/α)/2)⌉``, without m of them if the adversary is adaptive.

    Massart (1990): ``P(sup_x (F(x) - F_N(x)) > t) ≤ exp(-2Nt²)`` where that is 1/2 at most.
    """
    n_trials = n_rows if adaptive else n_rows - n_corrupt
    rank = math.ceil(float(share * n_trials) - math.sqrt(-log_alpha * n_trials / 2) - 1e-9)
    return max(rank - (n_corrupt if adaptive else 0), 0)
