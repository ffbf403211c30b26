"""Scales from the rows: bounds on the sd of clean rows, and the premise that stands in for one.

Pairs of rows by a fixed permutation give D = (x - x')²/2, whose mean is the variance of clean rows; m corrupt rows hit
at most m pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from outvote.votes.evidence.factors import Floats
from outvote.votes.evidence.kernel import STAKES, Atoms, Factors, log_products, mixed
from outvote.votes.roots import falling_root

#: Ratio of the ends of a cell of variances.
_CELL = 1.02
#: Variances of a larger logarithm are near the largest float; or so large that the evidence hardly grows any more.
_LARGE_LOG = 600.0


def log_spread_of(parts: Sequence[tuple[Floats, Any]], n_corrupt: int, *, adaptive: bool) -> float:
    """Return the logarithm of the evidence that a variance exceeds 1, from squares that count so many times."""
    logs = []
    for t in STAKES:
        total = n_corrupt * math.log1p(-t) if adaptive else 0.0
        with np.errstate(over="ignore"):
            total += sum(float(np.sum(times * np.log(squares * t + (1 - t)))) for squares, times in parts)
        logs.append(total)
    return log_mean(logs)


def paired_squares(rows: Floats) -> tuple[Floats, int]:
    """Return (x - x')²/2 for disjoint pairs of rows, in ascending order, and how many pairs were left out.

    The pairs are drawn by a permutation that depends on the number of rows alone, before looking for rows that are
    corrupt for certain (NaN here), whose pairs are then left out. Were the other rows paired among themselves, whoever
    decides which corrupt rows are found would decide on the pairs.
    """
    order = np.random.default_rng(len(rows)).permutation(len(rows))
    half = len(rows) // 2
    with np.errstate(over="ignore", invalid="ignore"):
        squares = (rows[order[:half]] - rows[order[half : 2 * half]]) ** 2 / 2
    there = squares[~np.isnan(squares)]
    there.sort()
    return there, half - len(there)


@dataclass(frozen=True)
class Pairs:
    """Squares of pairs of rows, and how many of them may be hit by a corrupt row.

    Attributes
    ----------
    squares : ndarray
        (x - x')²/2 of each pair without a row that is corrupt for certain, in ascending order.
    n_corrupt : int
        How many rows may be corrupt.
    n_found : int
        How many rows are corrupt for certain.
    n_pairs : int
        How many pairs there are, those left out among them.
    adaptive : bool
        Whether whoever corrupted the rows had seen them.
    """

    squares: Floats
    n_corrupt: int
    n_found: int
    n_pairs: int
    adaptive: bool = False

    @classmethod
    def of(cls, rows: Floats, n_corrupt: int, n_found: int = 0, *, adaptive: bool = False) -> Pairs:
        """Pair rows in the order they came; those that are corrupt for certain are NaN."""
        squares, left_out = paired_squares(rows)
        return cls(squares, n_corrupt, n_found, len(squares) + left_out, adaptive)

    @property
    def droppable(self) -> int:
        """How many of the squares may be dropped."""
        return min(self.n_corrupt - self.n_found, len(self.squares))

    def log_spread(self, sd: float) -> float:
        """Return the logarithm of the evidence that the variance exceeds sd²."""
        f = Factors.spread(np.reshape(STAKES, (-1, 1, 1)), np.full((len(STAKES), 1, 1), sd))
        with np.errstate(over="ignore", invalid="ignore"):
            return float(mixed(log_products(self._roots, f, None, np.zeros(1)) + f.log_weight)[0, 0])

    @cached_property
    def _roots(self) -> Atoms:
        return self.atoms(np.sqrt(self.squares))

    def atoms(self, points: Floats) -> Atoms:
        """Return points of the squares, in ascending order, for the kernel."""
        paid = self.n_corrupt * self.adaptive
        return Atoms.of_rows(points[None], len(points), self.droppable, paid).at(np.array([0]))


def sigma_lower(pairs: Pairs, price: float) -> float:
    """Return a lower bound on the sd of clean rows, whatever their distribution.

    It is wrong with probability at most exp(-price).
    """
    kept = pairs.squares[: len(pairs.squares) - pairs.droppable]
    centre = float(kept.mean()) if len(kept) else 0.0
    if not 0 < centre < math.inf:
        return 0.0

    def excess(log_v: float) -> float:
        return pairs.log_spread(math.exp(log_v / 2)) - price

    low, high = math.log(centre) - 1.0, math.log(centre) + 1.0
    while (above := excess(low)) < 0:
        low -= 2 * (high - low)
        if low < math.log(centre) - 600:
            return 0.0
    while (below := excess(high)) >= 0:
        high += 2 * (high - low)
    return math.exp(falling_root(excess, low, high, above, below, 1e-10)[0] / 2)


def sigma_upper(pairs: Pairs, kurtosis: float, price: float) -> float:
    """Return an upper bound on the sd of clean rows whose kurtosis is at most `kurtosis`.

    The variance lies in one of the cells [v, 1.02·v], v = 1.02^k. Within a cell the factors ``(1 + z + cz²)/A`` with
    ``z = η(1 - D/v)`` do not pay off on average; they rule it out where the D are too small for it. Cells are ruled out
    one after the other from above; the bound is the upper end of the first one that is not. It is wrong with
    probability at most exp(-price), infinite where nothing is ruled out, and 0 where everything is: no such kurtosis.
    """
    bets = Bets.on(pairs, kurtosis, price)
    if bets is None or not len(pairs.squares) > pairs.droppable:
        return math.inf
    # Where at most as many squares as may be dropped differ from 0, look at these: small squares may be dropped, too.
    largest = float(pairs.squares[len(pairs.squares) - pairs.droppable - 1] or pairs.squares[-1])
    if not 0 < largest < math.inf:
        return math.inf
    exponent = math.frexp(largest)[1]
    with np.errstate(over="ignore", under="ignore"):
        atoms = pairs.atoms(-np.ldexp(pairs.squares, -exponent)[::-1])
    overflown = bool(np.isinf(pairs.squares).any())

    def ruled_out(cell: int, *, monotone: bool) -> bool:
        log_v = cell * step
        relative = log_v - exponent * math.log(2)
        # Beside a variance that is as large, squares that no float holds may be anything: their factors are the least.
        least = monotone or (overflown and log_v > _LARGE_LOG) or relative > _LARGE_LOG
        return bets.evidence(atoms, min(relative, _LARGE_LOG), monotone=least) >= price

    step = math.log(_CELL)
    top, jump = math.ceil(math.log(largest) / step) + 1, 1
    while not ruled_out(top, monotone=True):  # until it is ruled out with all those above it
        top, jump = top + jump, 2 * jump
        if jump * step > 700:
            return math.inf
    smallest = top - round(60 / step)
    low = smallest  # the monotone form finds how far down everything is ruled out without looking at every cell
    while top - low > 1:
        middle = (low + top) // 2
        low, top = (low, middle) if ruled_out(middle, monotone=True) else (middle, top)
    while ruled_out(top - 1, monotone=False):
        top -= 1
        if top < smallest:
            return 0.0
    return math.exp(top * step / 2)


def upper_is_possible(pairs: Pairs, kurtosis: float, price: float) -> bool:
    """Return whether `sigma_upper` is finite for any rows at all, which depends on their number alone."""
    return Bets.on(pairs, kurtosis, price) is not None


@dataclass(frozen=True)
class Bets:
    """The factors of `sigma_upper`: a stake η, curvatures c and the norms A."""

    eta: float
    curves: tuple[tuple[float, float], ...]

    @classmethod
    def on(cls, pairs: Pairs, kurtosis: float, price: float) -> Bets | None:
        """Choose the factors by the numbers of pairs and corrupt rows; None if they can rule nothing out."""
        nu, n_kept = (kurtosis + 1) / 2, pairs.n_pairs - pairs.n_corrupt
        if n_kept < 1:
            return None
        eta = min(math.sqrt(2 * price / (n_kept * nu)), 1 / nu)
        values = [0.5 if pairs.adaptive and pairs.n_corrupt else 0.3]
        if pairs.n_corrupt:
            middle = max(0.5, math.sqrt((2 if pairs.adaptive else 1) * pairs.n_corrupt / (8 * price)))
            values += [middle, 4 * middle]
        curves = []
        for c in values:
            at = (1 - eta * (u - 1) + c * eta**2 * ((nu + 1) * u**2 - 2 * u + 1) for u in (1.0, _CELL))
            curves.append((c, math.log(max(at))))
        bets = cls(eta, tuple(curves))
        best = [n_kept * (math.log1p(eta + c * eta * eta) - norm) + bets._paid(pairs, c, norm) for c, norm in curves]
        return bets if log_mean(best) >= price else None

    def _paid(self, pairs: Pairs, c: float, norm: float) -> float:
        """Return what an adaptive adversary is paid: the least factor for every corrupt row."""
        return pairs.n_corrupt * (math.log1p(-0.25 / c) - norm) if pairs.adaptive else 0.0

    def evidence(self, atoms: Atoms, log_v: float, *, monotone: bool) -> float:
        """Return the logarithm of the evidence against a cell; the monotone form is against all higher ones, too.

        The factors are squares about a D of their own: 1 + z + cz² = (1 - 1/4c)·(1 + s²).
        """
        c, norm = np.array(self.curves).T[:, :, None, None]
        v, least = math.exp(log_v), 1 - 0.25 / c
        gain, depth = np.sqrt(c / least) * self.eta / v, v * (1 + 0.5 / (c * self.eta))
        f = Factors(depth, gain, np.expm1(norm), -np.log(least), gain, 0 * gain)
        zero = np.zeros(1)
        with np.errstate(over="ignore", invalid="ignore"):
            logs = log_products(atoms, f, None if monotone else zero, zero)
        return log_mean(logs[:, 0, 0].tolist())


def log_mean(logs: Sequence[float]) -> float:
    largest = max(logs)
    if not math.isfinite(largest):
        return largest
    return largest + math.log(sum(math.exp(one - largest) for one in logs) / len(logs))


def median_of_sorted(values: Floats) -> float:
    """Return the median of values in ascending order, without overflow on the way."""
    return float(values[(len(values) - 1) // 2] / 2 + values[len(values) // 2] / 2)


def central_window(values: Floats, n_dropped: int) -> tuple[float, Floats]:
    """Return the median of values in ascending order, and those nearest to it, without the `n_dropped` farthest."""
    n_kept = len(values) - n_dropped
    if n_kept < 1:
        return math.nan, values[:0]
    middle = median_of_sorted(values)
    # The rows nearest the median are consecutive: the window of n_kept rows whose farther end is nearest.
    with np.errstate(over="ignore", invalid="ignore"):  # rows that overflowed
        reach = np.maximum(middle - values[: n_dropped + 1], values[n_kept - 1 :] - middle)
    first = int(np.argmin(reach))
    return middle, values[first : first + n_kept]


def central_sd(values: Floats, n_dropped: int) -> float:
    """Return the sd of the rows nearest the median, without the `n_dropped` farthest ones; `values` are in order."""
    middle, rows = central_window(values, n_dropped)
    if not len(rows):
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = rows - middle
        gaps -= gaps.mean()
        return math.sqrt(float(np.mean(gaps * gaps)))
