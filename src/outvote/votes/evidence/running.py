"""Evidence that holds at every look: factors are fixed beforehand, for a planned number of rows.

The product of the factors of clean rows is a martingale (or falls), whatever its factors are as long as these were
fixed beforehand. What is left of all factors without the largest ones, as far as they exceed 1 and as many as may be
corrupt so far, never exceeds it. So the probability that it *ever* reaches 1/α is at most α (Ville's inequality).

The best stake depends on the number of rows, which here is not known. Most of the weight is on the stake for the
planned number, the rest on those for four times as many, a quarter of that, and so on. At a look only the stakes for
about as many rows as there are count: leaving out others makes the evidence smaller, so it stays valid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from outvote.assumptions import Assumption, Bounded
from outvote.votes.evidence.bounded import bounded_end
from outvote.votes.evidence.factors import Factor, Floats, factors_for, premise_factors
from outvote.votes.evidence.interval import EvidenceInterval, both_ends, premise_interval, scale_of, scaled_interval
from outvote.votes.evidence.proportion import Tally
from outvote.votes.evidence.rows import SortedRows, log_sum
from outvote.votes.roots import falling_root
from outvote.votes.terms import Terms

#: Multiples of the planned number of rows that there are stakes for, and their weights.
_SIZES = (
    (1.0, 0.52), (4.0, 0.26), (0.25, 0.09), (16.0, 0.06), (0.0625, 0.03), (64.0, 0.02), (2.0**-6, 0.01), (256.0, 0.01)
)  # fmt: skip
#: At a look stakes count that are for at most so many times as many rows as there are, or as few.
_NEAR = 4.0
#: Stakes on rows with bounds, in units of twice √(2·log(2/δ)/n_plan) over the width, and their weights; larger ones, up
#: to one that bets nearly all, share the rest.
_BOUNDED = ((1.0, 0.36), (2.0, 0.18), (0.5, 0.14), (0.25, 0.05), (0.125, 0.03), (0.0625, 0.02))
_LARGEST = 16.0
#: The least evidence over several cells is found to so much of its logarithm; each cell is cut into so many.
_TOLERANCE, _PARTS = 0.02, 8
#: The most that a bet on rows of 0 and 1 can lose.
_MOST_STAKED = 0.95


def sizes_near(progress: float) -> list[tuple[float, float]]:
    """Return the multiples of the planned number of rows that count at a look, and their weights.

    Parameters
    ----------
    progress : float
        How many times the planned number of rows there are.

    Examples
    --------
    >>> sizes_near(1.0), sizes_near(1e6)
    ([(1.0, 0.52), (4.0, 0.26), (0.25, 0.09)], [(64.0, 0.02), (256.0, 0.01)])
    """
    within = min(max(progress, _SIZES[-2][0]), _SIZES[-1][0])
    return [size for size in _SIZES if 1 / _NEAR <= size[0] / within <= _NEAR]


def size_weights() -> tuple[Floats, Floats]:
    """Return all multiples of the planned number of rows, and their weights."""
    multiples, weights = np.array(_SIZES).T
    return multiples, weights


def running_factors(
    assume: Assumption | None, progress: float, n_plan: float, price: float, *, adaptive: bool
) -> list[Any]:
    """Return the factors that count at a look, in units of sd; without an assumption those of a premise."""
    found: list[Any] = []
    for multiple, weight in sizes_near(progress):
        size = max(n_plan * multiple, 1.0)
        if assume is None:
            some: Sequence[Factor] = premise_factors(size, adaptive=adaptive)
        else:
            some = factors_for(assume, size, price, adaptive=adaptive)
        found += [replace(one, weight=one.weight * weight) for one in some]
    return found


def running_stakes(n_plan: float, price: float) -> list[tuple[float, float]]:
    """Return the weights and the stakes for rows in [0, 1].

    Examples
    --------
    >>> stakes = running_stakes(10_000, math.log(40))
    >>> round(sum(weight for weight, _ in stakes), 9), [round(stake, 3) for _, stake in stakes[:3]]
    (1.0, [0.054, 0.109, 0.027])
    """
    unit = 2 * math.sqrt(2 * price / n_plan)
    found = [(weight, unit * multiple) for multiple, weight in _BOUNDED]
    n_more = max(math.ceil(math.log2(_LARGEST / unit)) - 2, 1)
    rest = (1 - sum(weight for weight, _ in found)) / n_more
    return [*found, *((rest, unit * 4 * 2**j) for j in range(n_more))]


def running_interval(
    rows: SortedRows,
    assume: Assumption | None,
    sd: float,
    terms: Terms,
    n_plan: float,
    stake_price: float | None = None,
) -> EvidenceInterval:
    """Return what evidence that holds at every look leaves of the mean.

    Without an assumption it holds if the clean rows' sd is at most `sd`, whatever rule chose that number, and whenever.
    Stakes are those for the price of a side, or for another one that is fixed beforehand.
    """
    price, progress = terms.price, rows.n_rows / n_plan
    stake_price = stake_price or price
    if isinstance(rows, Tally):
        stakes_of_rates = rate_stakes(n_plan, stake_price)
        low = rate_end(rows, price, stakes_of_rates, 1) if terms.alternative != "less" else 0.0
        high = -rate_end(rows, price, stakes_of_rates, -1) if terms.alternative != "greater" else 1.0
        return EvidenceInterval.around(low, high, rows.share)
    if isinstance(assume, Bounded):
        stakes = running_stakes(n_plan, stake_price)
        return both_ends(rows, terms, lambda side, sign: _bounded_end(side, assume.scaled(sign), price, stakes))
    factors = running_factors(assume, progress, n_plan, stake_price, adaptive=rows.adaptive)
    if assume is None:
        return premise_interval(rows, sd, terms, factors=factors)
    return scaled_interval(rows, factors, price, scale_of(assume), terms)


def _bounded_end(rows: SortedRows, assume: Bounded, price: float, stakes: Sequence[tuple[float, float]]) -> float:
    """Return a number below which every mean is ruled out; no row with a factor below 1 is dropped."""
    end = bounded_end(rows, assume.low, assume.width, price, stakes)
    if rows.droppable and not rows.adaptive and rows.n_values > rows.droppable:
        end = min(end, max(rows.smallest_dropped, assume.low))
    return end


class RateEvidence:
    """Evidence that the probability of a 1 is larger than μ, from rows of 0 and 1.

    The factors are ``1 + λ(x - μ)``, ``λ = min(s/√(μ(1-μ)), 0.95/μ)``, with stakes s fixed beforehand: λ(1-μ) falls
    with μ and λμ rises, so that the evidence falls with μ. As many ones are dropped as may be corrupt.

    Parameters
    ----------
    n_ones, n_zeros : int
        How many there are.
    droppable : int
        How many may be dropped.
    paid : int
        For how many rows an adaptive adversary is paid the least factor.
    stakes : ndarray
        The stakes s.
    """

    def __init__(self, n_ones: int, n_zeros: int, droppable: int, paid: int, stakes: Floats):
        self.ones, self.zeros = max(n_ones - droppable, 0), n_zeros + paid
        self.stakes = stakes

    @classmethod
    def of(cls, rows: Tally, sign: int, stakes: Floats) -> RateEvidence:
        """Return the evidence that there are more ones (sign 1), or more zeros."""
        counts = (rows.n_ones, rows.n_zeros) if sign > 0 else (rows.n_zeros, rows.n_ones)
        return cls(*counts, rows.droppable, rows.n_corrupt if rows.adaptive else 0, stakes)

    def logs(self, mu: Floats) -> Floats:
        """Return the logarithm of the evidence for each stake (rows) and each μ (columns); μ = 0 is ruled out by a 1.

        Examples
        --------
        >>> RateEvidence(5, 95, 0, 0, np.array([0.1])).logs(np.array([0.01, 0.1])).round(2)
        array([[ 2.49, -1.91]])
        """
        mu = np.clip(mu, 0.0, 1.0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            staked = np.minimum(self.stakes[:, None] * np.sqrt(mu / (1 - mu)), _MOST_STAKED)  # λμ
            won = staked * (1 - mu) / mu
            found = self.zeros * np.log1p(-staked)
            if self.ones:
                found = found + self.ones * np.log1p(np.where(mu > 0, won, np.inf))
        return found


def rate_stakes(n_plan: float, price: float) -> tuple[Floats, Floats]:
    """Return the stakes on rows of 0 and 1, and their weights."""
    multiples, weights = size_weights()
    return np.sqrt(2 * price / (n_plan * multiples)), weights


def rate_end(rows: Tally, price: float, stakes_and_weights: tuple[Floats, Floats], sign: int) -> float:
    """Return a number below which every probability is ruled out: of a 1, or the negative of one (sign -1)."""
    stakes, weights = stakes_and_weights
    evidence = RateEvidence.of(rows, sign, stakes)

    def excess(mu: float) -> float:
        return log_sum((evidence.logs(np.array([mu]))[:, 0] + np.log(weights)).tolist()) - price

    low = 0.0
    if evidence.ones and excess(1e-300) >= 0:
        below = excess(1.0)
        low = 1.0 if below >= 0 else falling_root(excess, 1e-300, 1.0, excess(1e-300), below, 1e-13)[0]
    return low if sign > 0 else low - 1.0


def least_over_cells(logs: Callable[[Floats, Floats], Floats], ends: Floats) -> float:
    """Return a lower bound on the least of a function of one variable, at most `_TOLERANCE` below it.

    Parameters
    ----------
    logs : callable
        Returns lower bounds of the function between numbers `low` and `high`; its values where these are equal.
    ends : ndarray
        The ends of the cells to begin with. Those that may contain the least value are cut until they are settled.

    Examples
    --------
    >>> def distance(low, high):
    ...     return np.maximum(np.maximum(low - 0.3, 0.3 - high), 0.0)
    >>> -0.02 <= least_over_cells(distance, np.array([0.0, 1.0])) <= 0
    True
    """

    def at(low: Floats, high: Floats) -> Floats:  # what cannot be told is no evidence
        return np.nan_to_num(logs(low, high), nan=-np.inf, posinf=np.inf, neginf=-np.inf)

    low, high, best = ends[:-1], ends[1:], math.inf
    while len(low):
        best = min(best, float(at(low, low).min()), float(at(high, high).min()))
        bound = at(low, high)
        left = (bound < best - _TOLERANCE) & (high - low > 1e-14 * np.maximum(np.abs(low), np.abs(high)))
        cuts = low[left, None] + (high - low)[left, None] * np.linspace(0.0, 1.0, _PARTS + 1)
        low, high = cuts[:, :-1].ravel(), cuts[:, 1:].ravel()
    return best - _TOLERANCE
