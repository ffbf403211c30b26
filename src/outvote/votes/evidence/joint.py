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
from typing import Any

import numpy as np

from outvote.votes.evidence.ends import PRECISION, first_step, moved_up, search_end
from outvote.votes.evidence.factors import OF_DEEPEST, PREMISE_PRICE, SHALLOWEST, Floats, VarianceFactor, together
from outvote.votes.evidence.kernel import Atoms, Factors, Product, log_pooled, log_products, mixed
from outvote.votes.evidence.ratio import RatioRows
from outvote.votes.evidence.rows import SortedRows

#: Pairs of factors: stake in units of Λ/n, λτ, weight. The first is the main one.
_PAIRS = ((1.1, 0.95, 0.5), (1.0, 0.3, 0.125), (1.0, 0.1, 0.125), (1.0, 0.03, 0.125), (0.8, 0.012, 0.125))
_SHALLOWEST, _MOST_STAKED = 0.8, 0.98
#: What a cell of values of mean(a) should cost at most, in units of log evidence.
_CELL_COST = 0.02
#: How many cells there are at most, and for how many rows.
_MOST_CELLS, _FEW_CELLS, _MANY_ROWS = 16, 4, 4000

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
        return lambda bottom, top: self.least(bottom, top) - price

    def rules_out_below(self, price: float, value: float, start: float) -> bool:
        """Return whether every difference up to `value` is ruled out; `start` is one that may well be."""
        if self.least(-math.inf, value) >= price:
            return True
        return self.least(start, value) >= price and self.least(-math.inf, start) >= price

    def least(self, bottom: float, top: float) -> float:
        """Return a lower bound on the log evidence against all values from bottom to top, whatever mean(a) is."""
        if not self._possible:
            return -math.inf
        values, means = self._products(bottom, top), self._means_of_a
        bends = np.array([self._bend(pair) for pair in self.pairs])[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            least = np.minimum(values[:, :-1], values[:, 1:]) - bends * np.diff(means) ** 2 / 4
        least = np.where(np.isnan(least), -math.inf, least)  # cells as wide as floats go say nothing
        return float(mixed(least + self._log_weights).min())

    def strongest(self, value: float) -> tuple[float, Pair]:
        """Return the mean of a, and the pair of factors, that decide whether a value is ruled out."""
        table = self._products(value, value) + self._log_weights
        where = int(np.argmin(mixed(table)))
        return float(self._means_of_a[where]), self.pairs[int(np.argmax(table[:, where]))]

    @property
    def _log_weights(self) -> Floats:
        return np.log([[pair[0].weight] for pair in self.pairs])

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

    def _products(self, bottom: float, top: float) -> Floats:
        """Return the log evidence of each pair of factors for each mean of a."""
        if isinstance(self.a, RatioRows) or isinstance(self.b, RatioRows):
            return np.array([[self._of_ratios(pair, u, bottom, top) for u in self._means_of_a] for pair in self.pairs])
        means = self._means_of_a[:, None]
        ends = (bottom * means, top * means) if self.ratio is not None else (bottom + means, top + means)
        if self.ratio is None and self.turned > 0:
            ends = bottom - means, top - means
        lo: Any = None if bottom == -math.inf else ends[1] if bottom == top else ends[0]
        of_b, g = self._atoms[1], self._factors[1]
        with np.errstate(over="ignore", invalid="ignore"):
            if self.together is None:
                return (self._alone + log_products(of_b, g, lo, ends[1]))[..., 0]
            n_corrupt = (self.together + self.a.n_found + self.b.n_found) * self.a.adaptive
            found = log_pooled(self._of_a, Product.of(of_b, g, lo, ends[1]), float(self.together), n_corrupt)
            return found[..., 0]

    @cached_property
    def _atoms(self) -> tuple[Atoms, Atoms]:
        a, b = (one.first_set.atoms[0].at(np.array([0])) for one in (self.a, self.b))
        return a, b

    @cached_property
    def _factors(self) -> tuple[Factors, Factors]:
        (f,), (g,) = (together([pair[s] for pair in self.pairs]) for s in (0, 1))
        return f, g

    @cached_property
    def _of_a(self) -> Product:
        at = self.turned * self._means_of_a[:, None]
        return Product.of(self._atoms[0], self._factors[0], at, at)

    @cached_property
    def _alone(self) -> Floats:
        """The log evidence of a if each sample has its own number of corrupt rows."""
        at = self.turned * self._means_of_a[:, None]
        return log_products(self._atoms[0], self._factors[0], at, at)

    def _of_ratios(self, pair: Pair, u: float, bottom: float, top: float) -> float:
        """Return the log evidence of one pair of factors if the ratio of a is u."""
        (f, g), at = pair, self.turned * u
        low, high = sorted(self.turned * end for end in self.span)
        (first, last), window = self._means_of_b(u, u, bottom, top), self._means_of_b(*self.span, bottom, top)
        a: Any = self.a
        b: Any = self.b
        if self.together is None:
            return float(a.log_product(f, at, at, (low, high)) + b.log_product(g, first, last, window))
        parts = a.log_parts(f, at, at, (low, high)) | b.log_parts(g, first, last, window)
        n_corrupt = (self.together + a.n_found + b.n_found) * a.adaptive
        paid = n_corrupt * min(one.least - one.norm for one in pair)
        return float(parts.total + parts.least(self.together) + paid)

    def _means_of_b(self, first: float, last: float, bottom: float, top: float) -> tuple[float, float]:
        """Return the ends of mean(b), for means of a from `first` to `last` and values from `bottom` to `top`."""
        if self.ratio is not None:
            return min(bottom * first, bottom * last), max(top * first, top * last)
        ends = sorted((-self.turned * first, -self.turned * last))
        return bottom + ends[0], top + ends[1]


@dataclass(frozen=True)
class Differences:
    """The test of differences mean(b) - mean(a), from below and from above, for the kernel's search.

    Attributes
    ----------
    a, b : Atoms
        The rows, in the directions in which bets are made: first a is mirrored, then b is.
    f, g : Factors of shape (pairs, combinations of scales, directions)
        The factors.
    means : ndarray of shape (means, directions)
        Ends of cells of mean(a); with its sign changed in the second direction.
    bends : ndarray of shape (pairs, combinations, 1, 1)
        Bounds on the second derivative of the log evidence as a function of mean(a).
    price, first, start, slope : ndarray
        What evidence must reach, and where a search begins.
    together : int or None
        How many rows of both may be dropped; None if each sample has its own number.
    n_paid : int
        For how many of them an adversary is paid.
    """

    a: Atoms
    b: Atoms
    f: Factors
    g: Factors
    means: Floats
    bends: Floats
    price: Floats
    first: Floats
    start: Floats
    slope: Floats
    together: int | None = None
    n_paid: int = 0

    @classmethod
    def of(
        cls, a: SortedRows, b: SortedRows, combinations: Sequence[Sequence[Pair]], span: tuple[float, float],
        price: float, together: int | None = None,
    ) -> Differences:  # fmt: skip
        """Return the test of rows as they are; each combination of scales has as many pairs of factors."""
        most = max(map(len, combinations))
        none = [[(replace(f, weight=0.0), replace(g, weight=0.0)) for f, g in pairs[:1]] for pairs in combinations]
        combinations = [[*pairs, *gone * (most - len(pairs))] for pairs, gone in zip(combinations, none, strict=True)]
        joints = [Joint(a.mirrored, b, pairs, span, together) for pairs in combinations]
        if not joints[0]._possible:
            raise ValueError("nothing can be ruled out")
        f, g = (
            together_each([[pair[s] for pair in pairs] for pairs in combinations]).each(
                lambda x: np.broadcast_to(x, (*x.shape[:2], 2))
            )
            for s in (0, 1)
        )
        means = min((one._means_of_a for one in joints), key=lambda one: float(np.diff(one).max(initial=0.0)))
        bends = np.array([[one._bend(pair) for pair in one.pairs] for one in joints]).T[:, :, None, None]
        main = combinations[0]
        steps = [first_step(side, [pair[s] for pair in main], price) for s, side in enumerate((a, b))]
        first, middle, sign = math.hypot(*steps), b.middle - sum(span) / 2, np.array([1.0, -1.0])
        slope = min(a.n_rows * main[0][0].rate, b.n_rows * main[0][1].rate)
        n_paid = 0 if together is None else (together + a.n_found + b.n_found) * a.adaptive
        turned, same = np.array([1, 0]), np.array([0, 1])
        return cls(
            a.first_set.atoms[0].at(turned), b.first_set.atoms[0].at(same), f, g, means[:, None] * sign, bends,
            np.full(2, price), np.full(2, first), sign * middle - first, np.full(2, slope), together, n_paid,
        )  # fmt: skip

    def __call__(self, bottom: Floats | None, top: Floats) -> Floats:
        """Return the least excess over all differences from `bottom` (None is -∞) to `top`, for each direction."""
        return np.asarray(self.of_scales(bottom, top).min(axis=0))

    def of_scales(self, bottom: Floats | None, top: Floats) -> Floats:
        """Return the same for each combination of scales."""
        n_means, n_scales = len(self.means), self.f.depth.shape[1]
        hi = np.tile(top + self.means, (n_scales, 1))
        lo = None if bottom is None else hi if bottom is top else np.tile(bottom + self.means, (n_scales, 1))
        g = self.g.each(lambda x: np.repeat(x, n_means, axis=1))
        with np.errstate(over="ignore", invalid="ignore"):
            if self.together is None:
                logs = self._alone + log_products(self.b, g, lo, hi)
            else:
                logs = log_pooled(self._of_a, Product.of(self.b, g, lo, hi), float(self.together), self.n_paid)
            logs = logs.reshape(len(logs), n_scales, n_means, -1)
            least = np.minimum(logs[:, :, :-1], logs[:, :, 1:]) - self.bends * np.diff(self.means, axis=0) ** 2 / 4
        least = np.where(np.isnan(least), -math.inf, least) + self.f.log_weight[:, :, None]
        return np.asarray(mixed(least).min(axis=1) - self.price)

    @cached_property
    def _repeated(self) -> tuple[Factors, Floats]:
        """The factors of a for each mean, and these means."""
        n_means, n_scales = len(self.means), self.f.depth.shape[1]
        return self.f.each(lambda x: np.repeat(x, n_means, axis=1)), np.tile(-self.means, (n_scales, 1))

    @cached_property
    def _of_a(self) -> Product:
        f, at = self._repeated
        return Product.of(self.a, f, at, at)

    @cached_property
    def _alone(self) -> Floats:
        """The log evidence of a if each sample has its own number of corrupt rows."""
        f, at = self._repeated
        return log_products(self.a, f, at, at)

    @property
    def deepest(self) -> Floats:
        """How far from 0 numbers are that are added up on the way."""
        depth = np.maximum(self.f.depth.max(axis=(0, 1)), self.g.depth.max(axis=(0, 1)))
        return np.asarray(depth + np.abs(self.means).max(axis=0))

    def at(self, which: Any) -> Differences:
        """Return the test in some directions."""
        which = np.flatnonzero(which) if which.dtype == bool else which
        if len(which) == len(self.price):
            return self
        numbers = {name: getattr(self, name)[which] for name in ("price", "first", "start", "slope")}
        f, g = (one.each(lambda x: x[..., which]) for one in (self.f, self.g))
        return replace(self, a=self.a.at(which), b=self.b.at(which), f=f, g=g, means=self.means[:, which], **numbers)


def together_each(combinations: Sequence[Sequence[VarianceFactor]]) -> Factors:
    """Return the factors of several combinations of scales, on the second axis."""
    numbers = np.array([[(one.rate, one.depth, one.sd, one.weight) for one in some] for some in combinations])
    return Factors.variance(*numbers.transpose(2, 1, 0)[..., None])


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
