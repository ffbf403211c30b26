"""Evidence from two samples together: on a difference of means, or on their ratio.

If mean(a) is u, then "the difference is d" says that mean(b) is u + d, and "the ratio is s" that it is s·u. Bets that
mean(a) is smaller than u and that mean(b) is larger than that, multiplied, speak against d; whatever u is, a value that
is ruled out must be for every u that a's own interval leaves. That interval has a share of δ.

Between two values of u, h apart, the least evidence is at most `n·curvature·h²/8` below the smaller one: a sum of
logarithms is above its chord less that much, whichever rows are dropped. Twice as much is subtracted, and cells of u
end at fixed points, so that a smaller set of u's always leaves at least as much evidence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from outvote.votes.evidence.ends import PRECISION, first_step, moved_up, search_end
from outvote.votes.evidence.factors import OF_DEEPEST, PREMISE_PRICE, SHALLOWEST, Floats, VarianceFactor
from outvote.votes.evidence.rows import LogParts, PartsAtMeans, SortedRows, surely

#: Pairs of factors: stake in units of Λ/n, λτ, weight. The first is the main one.
_PAIRS = ((1.1, 0.95, 0.5), (1.0, 0.3, 0.125), (1.0, 0.1, 0.125), (1.0, 0.03, 0.125), (0.8, 0.012, 0.125))
_SHALLOWEST, _MOST_STAKED = 0.8, 0.98
#: What a cell of values of mean(a) should cost at most, in units of log evidence.
_CELL_COST = 0.02
#: How many cells there are at most, and for how many rows.
_MOST_CELLS, _FEW_CELLS, _MANY_ROWS = 16, 4, 4000

#: So many rows of both samples are few.
_FEW_ROWS = 600

Pair = tuple[VarianceFactor, VarianceFactor]


def pairs_of_factors(
    sizes: Sequence[float], sds: Sequence[float], price: float, *, read: bool, ratio: float = 1.0
) -> list[Pair]:
    """Return pairs of factors for a and b, whose sds are at most `sds`; if one was `read` off rows, deeper ones.

    Stakes are such that n_a·λ_a = ratio·n_b·λ_b: then evidence on "mean(b) is about `ratio` times mean(a)" hardly
    depends on mean(a).
    """
    slopes = (ratio, 1.0)
    parts = list(zip(slopes, sds, sizes, strict=True))
    spread = math.hypot(*(slope * sd / math.sqrt(n) for slope, sd, n in parts))
    stake = math.sqrt(2 * (PREMISE_PRICE if read else price)) / spread
    kinds, shallowest = [(share, product / share, weight) for share, product, weight in _PAIRS], _SHALLOWEST
    if read:  # depths fall to a third each, as for one sample
        (main, deepest, _), shallowest = kinds[0], SHALLOWEST
        most = max(
            (deepest * n / (stake * slope * sd) for slope, sd, n in parts if stake * slope * sd > 0), default=0.0
        )
        more = max(math.ceil(math.log(min(most, 1e30) / (1.3 * shallowest), 3)), 0) if most > 0 else 0
        kinds = [(main, deepest, OF_DEEPEST if more else 1.0)]
        kinds += [(1.0, deepest / 3**i, (1 - OF_DEEPEST) / more) for i in range(1, more + 1)]
    found = []
    for share, product, weight in kinds:
        pair = []
        for slope, sd, n in parts:
            rate = share * stake * slope / n
            depth = max(product * share / rate, shallowest * sd)
            pair.append(VarianceFactor(min(rate, _MOST_STAKED / depth), depth, weight, sd))
        found.append((pair[0], pair[1]))
    return found


@dataclass(frozen=True)
class Joint:
    """Evidence on mean(b) - mean(a), or on mean(b)/mean(a).

    Attributes
    ----------
    a, b : SortedRows
        The rows, in the direction in which bets are made: one of them has its signs changed, or, for ratios, both or
        none of them.
    pairs : sequence of pairs of factors
        For a and for b.
    span : tuple of float
        What a's own interval leaves of mean(a); for ratios positive.
    together : int or None
        How many rows of both may be dropped, wherever they are; None if each sample has its own number.
    turned : int
        -1 if the rows of `a` are those with their signs changed, else 1.
    ratio : float or None
        For ratios: the largest one, by size, of their cell.
    """

    a: SortedRows
    b: SortedRows
    pairs: Sequence[Pair]
    span: tuple[float, float]
    together: int | None = None
    turned: int = -1
    ratio: float | None = None

    def lower_end(self, price: float) -> tuple[float, float]:
        """Return a number below which every difference is ruled out, and where the search began."""
        if not self._possible:
            return -math.inf, -math.inf
        steps = [first_step(side, [pair[s] for pair in self.pairs], price) for s, side in enumerate((self.a, self.b))]
        middle = self.b.middle + self.turned * sum(self.span) / 2
        finest = max(math.ulp(one) for one in (*self.span, self.b.middle))
        return search_end(self._excess(price), middle, math.hypot(*steps), lambda low, high: False, finest=finest)

    def lowest_ratio(self, price: float, low: float, high: float) -> float:
        """Return a number such that every ratio from `low` to it is ruled out; `high` if all up to it are."""
        end, excess, tolerance = low, self._excess(price), PRECISION * (high - low)
        for _ in range(2 * self._possible):  # the second time starts close to the end, and loses next to nothing
            if excess(end, high) >= 0:
                return high
            end = moved_up(excess, end, high, tolerance)
        return end

    def _excess(self, price: float) -> Callable[[float, float], float]:
        """Return by how much the least evidence against values from one number to another exceeds a price."""
        n_rows = max(self.a.n_rows, self.b.n_rows)
        afresh = replace(self)  # which knows nothing yet that a compiled function found

        return surely(
            lambda bottom, top: self.least(bottom, top) - price,
            lambda bottom, top: afresh.least(bottom, top) - price,
            2 * n_rows,
        )

    def rules_out_below(self, price: float, value: float, start: float) -> bool:
        """Return whether every difference up to `value` is ruled out; `start` is one that may well be."""
        if self.least(-math.inf, value) >= price:
            return True
        return self.least(start, value) >= price and self.least(-math.inf, start) >= price

    def least(self, bottom: float, top: float) -> float:
        """Return a lower bound on the log evidence against all values from bottom to top, whatever mean(a) is."""
        if not self._possible:
            return -math.inf
        logs = []
        means = self._means_of_a
        for p, pair in enumerate(self.pairs):
            values = self._products(p, bottom, top)
            with np.errstate(over="ignore", invalid="ignore"):
                least = np.minimum(values[:-1], values[1:]) - self._bend(pair) * np.diff(means) ** 2 / 4
            least = np.where(np.isnan(least), -math.inf, least)  # cells as wide as floats go say nothing
            logs.append(least + math.log(pair[0].weight))
        return float(np.min(logs[0] if len(logs) == 1 else np.logaddexp.reduce(np.array(logs), axis=0)))

    def strongest(self, value: float) -> tuple[float, Pair]:
        """Return the mean of a, and the pair of factors, that decide whether a value is ruled out."""
        found = []
        for pair, of_a in zip(self.pairs, self._of_a, strict=True):
            at = zip(self._means_of_a.tolist(), of_a, strict=True)
            found.append([self._product(pair, u, value, value, known) + math.log(pair[0].weight) for u, known in at])
        table = np.array(found)
        where = int(np.argmin(np.logaddexp.reduce(table, axis=0)))
        return float(self._means_of_a[where]), self.pairs[int(np.argmax(table[:, where]))]

    @property
    def _possible(self) -> bool:
        """Whether anything can be ruled out."""
        enough = all(side.n_values > side.droppable for side in (self.a, self.b))
        return enough and math.isfinite(self.span[1] - self.span[0])

    @cached_property
    def _means_of_a(self) -> Floats:
        """The ends of cells of mean(a)."""
        low, high = self.span
        most = _MOST_CELLS if self.a.n_rows + self.b.n_rows <= _MANY_ROWS else _FEW_CELLS
        width = 2 * math.sqrt(_CELL_COST / max(1e-300, *map(self._bend, self.pairs)))
        return _cells(low, high, self.turned * self.a.middle, width, most)

    def _bend(self, pair: Pair) -> float:
        """Return a bound on the second derivative of the log evidence as a function of mean(a)."""
        slope = 1.0 if self.ratio is None else self.ratio
        return self.a.squared_slopes * pair[0].curvature + self.b.squared_slopes * slope**2 * pair[1].curvature

    @cached_property
    def _of_a(self) -> list[list[LogParts]]:
        """The log evidence of a for each pair of factors and mean of a: of rows never dropped, and of the others."""
        return [[self._log_parts(f, u) for u in self._means_of_a.tolist()] for f, _ in self.pairs]

    def _log_parts(self, f: VarianceFactor, u: float) -> LogParts:
        at = self.turned * u
        low, high = sorted(self.turned * end for end in self.span)
        if self.together is None:
            return LogParts(self.a.log_product(f, at, at, (low, high)), np.empty(0))
        return self.a.log_parts(f, at, at, (low, high))

    @cached_property
    def _at_once(self) -> list[PartsAtMeans | None]:
        """The same for all means of a by a compiled function, if rows of both may be dropped; None if there is none."""
        if self.together is None:
            return [None for _ in self.pairs]
        return [self.a.parts_at(f, self.turned * self._means_of_a) for f, _ in self.pairs]

    def _products(self, p: int, bottom: float, top: float) -> Floats:
        """Return the log evidence of a pair of factors for all means of a."""
        if self._few:
            return self._products_of_few(p, bottom, top)
        pair, means, of_a = self.pairs[p], self._means_of_a, self._at_once[p]
        found = None
        if of_a is not None and self.together is not None:
            if self.ratio is None:
                lows, highs = bottom - self.turned * means, top - self.turned * means
            else:
                lows, highs = bottom * means, top * means
            found = self.b.least_with(pair[1], lows, highs, of_a, self.together)
        if found is None:
            at = zip(means.tolist(), self._of_a[p], strict=True)
            return np.array([self._product(pair, u, bottom, top, known) for u, known in at])
        return found + self._paid(pair)

    @cached_property
    def _few(self) -> bool:
        """Whether there are so few rows that their factors for all means of a fit into one small table."""
        single = type(self.a) is SortedRows and type(self.b) is SortedRows
        return single and self.a.n_values + self.b.n_values <= _FEW_ROWS

    @cached_property
    def _tables_of_a(self) -> list[Floats]:
        """The logarithms of the factors of each row of a, for each mean of a and each pair of factors."""
        at = self.turned * self._means_of_a
        return [_log_factors(self.a.values, f, at, at) for f, _ in self.pairs]

    def _products_of_few(self, p: int, bottom: float, top: float) -> Floats:
        """Return the log evidence of a pair of factors for all means of a, from tables of the factors of all rows."""
        pair, means, of_a = self.pairs[p], self._means_of_a, self._tables_of_a[p]
        shift = -self.turned * means
        with np.errstate(over="ignore", invalid="ignore"):  # NaN, where a mean is infinite, rules nothing out
            lows, highs = (bottom + shift, top + shift) if self.ratio is None else (bottom * means, top * means)
        of_b = _log_factors(self.b.values, pair[1], lows, highs)
        if self.together is not None:
            return _least_sums(np.concatenate([of_a, of_b], axis=1), self.together) + self._paid(pair)
        total = _least_sums(of_a, self.a.droppable) + _least_sums(of_b, self.b.droppable)
        for side, factor in zip((self.a, self.b), pair, strict=True):
            total += side.n_corrupt * (factor.least - factor.norm) if side.adaptive else 0.0
        return total

    def _paid(self, pair: Pair) -> float:
        """Return what an adversary who saw the rows is paid."""
        if not self.a.adaptive or self.together is None:
            return 0.0
        n_corrupt = self.together + self.a.n_found + self.b.n_found
        return n_corrupt * min(one.least - one.norm for one in pair)

    def _product(self, pair: Pair, u: float, bottom: float, top: float, of_a: LogParts) -> float:
        """Return the log evidence of one pair of factors if mean(a) is u."""
        _, g = pair
        (low, high), window = self._means_of_b(u, u, bottom, top), self._means_of_b(*self.span, bottom, top)
        if self.together is None:
            return of_a.total + self.b.log_product(g, low, high, window)
        parts = of_a | self.b.log_parts(g, low, high, window)
        return parts.total + parts.least(self.together) + self._paid(pair)

    def _means_of_b(self, first: float, last: float, bottom: float, top: float) -> tuple[float, float]:
        """Return the ends of mean(b), for means of a from `first` to `last` and values from `bottom` to `top`."""
        if self.ratio is not None:
            return min(bottom * first, bottom * last), max(top * first, top * last)
        ends = sorted((-self.turned * first, -self.turned * last))
        return bottom + ends[0], top + ends[1]


def _log_factors(rows: Floats, factor: VarianceFactor, lows: Floats, highs: Floats) -> Floats:
    """Return the logarithm of the factor of each row, at its least for means from a low to a high: a line for each."""
    with np.errstate(over="ignore", invalid="ignore"):
        y = np.maximum(rows - highs[:, None], -factor.depth)
        np.minimum(y, rows - lows[:, None], out=y)
        return factor.logs(y) - factor.norm


def _least_sums(logs: Floats, n_dropped: int) -> Floats:
    """Add up the logarithms of each line without the largest ones, `n_dropped` at most, as far as they are positive."""
    logs = np.sort(logs, axis=1)
    first = max(logs.shape[1] - n_dropped, 0)
    return np.asarray(logs[:, :first].sum(axis=1) + np.minimum(logs[:, first:], 0.0).sum(axis=1))


def _cells(low: float, high: float, origin: float, width: float, most: int) -> Floats:
    """Return the ends of cells of [low, high], powers of 2 wide from an origin on: those of a part are parts of them.

    Examples
    --------
    >>> _cells(0.3, 2.4, 0.0, 0.7, 16), _cells(0.3, 2.4, 0.0, 0.7, 4)
    (array([0.3, 0.5, 1. , 1.5, 2. , 2.4]), array([0.3, 1. , 2. , 2.4]))
    """
    if not (width > 0 and math.isfinite((high - low) / width)):  # rows at the ends of floats: one cell is enough
        return np.array([low, high])
    width = 2.0 ** math.floor(math.log2(width))
    while math.ceil((high - origin) / width) - math.floor((low - origin) / width) > most:
        width *= 2
    inner = origin + width * np.arange(math.floor((low - origin) / width) + 1, math.ceil((high - origin) / width))
    return np.concatenate([[low], inner, [high]])
