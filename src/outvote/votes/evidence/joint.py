"""Evidence from two samples together: on a difference of means, or on their ratio.

If mean(a) is u, then "the difference is d" says that mean(b) is u + d, and "the ratio is 1 + d" that it is (1 + d)·u.
Bets that mean(a) is smaller than u and that mean(b) is larger than that, multiplied, speak against d; whatever u is, a
value that is ruled out must be for every u that a's own interval leaves. That interval has a share of δ.

Between two values of u the least evidence is at most `n·curvature·h²/8` below the smaller end of a step of width h: a
sum of logarithms is above its chord less that much, whichever rows are dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from outvote.votes.evidence.ends import first_step, search_end
from outvote.votes.evidence.factors import Floats, VarianceFactor
from outvote.votes.evidence.rows import SortedRows, least_sum

#: Pairs of factors: stake in units of Λ/n, λτ, weight. The first is the main one.
_PAIRS = ((1.1, 0.95, 0.5), (1.0, 0.3, 0.125), (1.0, 0.1, 0.125), (1.0, 0.03, 0.125), (0.8, 0.012, 0.125))
_SHALLOWEST, _MOST_STAKED = 0.8, 0.98
#: What the steps between values of mean(a) may cost, in units of log evidence, and how many steps there are at most.
_STEP_COST, _MOST_STEPS = 0.02, 4

Pair = tuple[VarianceFactor, VarianceFactor]


def pairs_of_factors(sizes: Sequence[int], sds: Sequence[float], price: float, *, main_only: bool) -> list[Pair]:
    """Return pairs of factors for a and b, whose sds are at most `sds`; stakes are such that n_a·λ_a = n_b·λ_b."""
    stake = math.sqrt(2 * price / sum(sd**2 / n for sd, n in zip(sds, sizes, strict=True)))
    found = []
    for share, product, weight in _PAIRS[:1] if main_only else _PAIRS:
        pair = []
        for n, sd in zip(sizes, sds, strict=True):
            rate = share * stake / n
            depth = max(product / rate, _SHALLOWEST * sd)
            pair.append(VarianceFactor(min(rate, _MOST_STAKED / depth), depth, 1.0 if main_only else weight, sd))
        found.append((pair[0], pair[1]))
    return found


@dataclass(frozen=True)
class Joint:
    """Evidence on mean(b) - mean(a), or on mean(b)/mean(a) - 1.

    Attributes
    ----------
    a, b : SortedRows
        The rows; for a lower end those of `a` with their signs changed, for an upper end those of `b`.
    pairs : sequence of pairs of factors
        For a and for b.
    span : tuple of float
        What a's own interval leaves of mean(a); if `relative`, positive.
    together : int or None
        How many rows of both may be dropped, wherever they are; None if each sample has its own number.
    relative : bool
        Whether the ratio is asked for.
    sign : int
        1 for a lower end, -1 for an upper one, which is the lower end for rows with their signs changed.
    """

    a: SortedRows
    b: SortedRows
    pairs: Sequence[Pair]
    span: tuple[float, float]
    together: int | None = None
    relative: bool = False
    sign: int = 1

    def lower_end(self, price: float) -> tuple[float, float]:
        """Return a number below which every difference, or ratio, is ruled out, and where the search began."""
        low, high = self.span
        if not math.isfinite(high - low) or not all(len(side.values) > side.droppable for side in (self.a, self.b)):
            return -math.inf, -math.inf
        steps = [first_step(side, [pair[s] for pair in self.pairs], price) for s, side in enumerate((self.a, self.b))]
        middle, first = self.b.middle - self.sign * (low + high) / 2, math.hypot(*steps)
        if self.relative:
            middle, first = 2 * self.b.middle / (low + high) - 1, first / high
        return search_end(lambda bottom, top: self.least(bottom, top) - price, middle, first, lambda end: False)

    def rules_out_below(self, price: float, value: float, start: float) -> bool:
        """Return whether every difference, or ratio, up to `value` is ruled out; `start` is one that may well be."""
        if self.least(-math.inf, value) >= price:
            return True
        return self.least(start, value) >= price and self.least(-math.inf, start) >= price

    def least(self, bottom: float, top: float) -> float:
        """Return a lower bound on the log evidence against all values from bottom to top, whatever mean(a) is."""
        slopes = [abs(1 + end) for end in (bottom, top) if self.relative and math.isfinite(end)]
        step = float(self._means_of_a[1] - self._means_of_a[0])
        logs = []
        for pair, of_a in zip(self.pairs, self._of_a, strict=True):
            at = zip(self._means_of_a.tolist(), of_a, strict=True)
            values = np.array([self._product(pair, u, bottom, top, known) for u, known in at])
            loss = self._bend(pair, max(slopes, default=1.0)) * step**2 / 8
            logs.append(np.minimum(values[:-1], values[1:]) - loss + math.log(pair[0].weight))
        return float(np.min(np.logaddexp.reduce(np.array(logs), axis=0)))

    def strongest(self, value: float) -> tuple[float, Pair]:
        """Return the mean of a, and the pair of factors, that decide whether a value is ruled out."""
        found = []
        for pair, of_a in zip(self.pairs, self._of_a, strict=True):
            at = zip(self._means_of_a.tolist(), of_a, strict=True)
            found.append([self._product(pair, u, value, value, known) + math.log(pair[0].weight) for u, known in at])
        table = np.array(found)
        where = int(np.argmin(np.logaddexp.reduce(table, axis=0)))
        return float(self._means_of_a[where]), self.pairs[int(np.argmax(table[:, where]))]

    @cached_property
    def _means_of_a(self) -> Floats:
        """Values of mean(a), close enough to one another that the steps between them cost little."""
        low, high = self.span
        bend = max(self._bend(pair, 1.0) for pair in self.pairs)
        steps = math.ceil((high - low) * math.sqrt(bend / (8 * _STEP_COST)))
        return np.linspace(low, high, min(max(steps, 1), 16 if self.relative else _MOST_STEPS) + 1)

    def _bend(self, pair: Pair, slope: float) -> float:
        """Return a bound on the second derivative of the log evidence as a function of mean(a)."""
        return len(self.a.values) * pair[0].curvature + len(self.b.values) * slope**2 * pair[1].curvature

    @cached_property
    def _of_a(self) -> list[list[tuple[float, Floats]]]:
        """The log evidence of a for each pair of factors and mean of a: of rows never dropped, and of the others."""
        found = []
        for f, _ in self.pairs:
            means = (-self.sign * self._means_of_a).tolist()
            if self.together is None:
                found.append([(self.a.log_product(f, mean, mean), np.empty(0)) for mean in means])
            else:
                found.append([self.a.log_parts(f, mean, mean) for mean in means])
        return found

    def _product(self, pair: Pair, u: float, bottom: float, top: float, of_a: tuple[float, Floats]) -> float:
        """Return the log evidence of one pair of factors if mean(a) is u."""
        f, g = pair
        low, high = (1 + bottom) * u, (1 + top) * u
        if not self.relative:
            low, high = self.sign * u + bottom, self.sign * u + top
        if self.together is None:
            return of_a[0] + self.b.log_product(g, low, high)
        total, outer = self.b.log_parts(g, low, high)
        total += of_a[0] + least_sum(np.concatenate([of_a[1], outer]), self.together)
        if self.a.adaptive:
            n_corrupt = self.together + self.a.n_found + self.b.n_found
            total += n_corrupt * min(f.least - f.norm, g.least - g.norm)
        return total
