"""Factors: bets on one row that do not pay off, on average, if the mean is what they bet against.

A factor for "the mean is μ" is ``e = (1 + λ·h(y)) / (1 + λ·H)`` with y = x - μ and H ≥ E h(y), so that E e ≤ 1 for a
clean row. It bets that the mean is larger; the mirrored rows bet that it is smaller. Every h here falls up to y = -τ
and rises from there on: rows far out on either side have large factors, and are the ones that get dropped. Made
constant left of -τ a factor rises with y, so it falls with μ: `SortedRows` uses that.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, FiniteKurtosis, SubGaussian
from outvote.votes.evidence.kernel import Factors

Floats = NDArray[np.float64]

#: The main factor bets λ = 1.1·λ₀ with depth τ = 1.6/λ₀, in units of sd, where λ₀ = √(2·log(2/δ)/n): shallow bets far
#: down, which stay right even if the sd was declared too small.
_MAIN = (1.1, 1.6)
#: Further depths, in units of sd, against corrupt rows that hide a few sd from the mean, and their share of the weight.
_DEPTHS, _SHARE = (4.5, 1.8), 0.3
#: A depth that forgives an sd declared too small.
_STURDY_DEPTH = 9.0
#: Where the sd is read off the rows: the price that stakes are for, the weight of the deepest factor, and the depth of
#: the shallowest.
PREMISE_PRICE, OF_DEEPEST, SHALLOWEST = math.log(40), 0.8, 6.0
#: Depths against an adversary who saw the rows: a deep bet would cost too much for each row that was replaced.
_ADAPTIVE_DEPTHS = (20.0, 9.0, 4.0, 1.8, 0.9)
#: Products of this many factors neither overflow nor vanish, unless rows are far out.
_AT_ONCE = 16


def sum_of_logs(pay: Floats) -> float:
    """Add up the logarithms of positive numbers, taking products of a few of them before each logarithm."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        if len(pay) >= 4 * _AT_ONCE:
            whole = len(pay) // _AT_ONCE * _AT_ONCE
            products = np.multiply.reduce(pay[:whole].reshape(_AT_ONCE, -1), axis=0)
            total = float(np.log(products).sum() + np.log(pay[whole:]).sum())
            if math.isfinite(total):
                return total
        return float(np.log(pay).sum())


@dataclass(frozen=True)
class Factor(ABC):
    """A bet on one row.

    Attributes
    ----------
    rate : float
        The stake λ.
    depth : float
        τ: h is least at y = -τ.
    weight : float
        Its weight in the mixture.
    """

    rate: float
    depth: float
    weight: float = 1.0

    @abstractmethod
    def at_scale(self, unit: float, top: float) -> Factor:
        """Return the factor for rows `unit` times as large whose sd is at most `top`."""

    @property
    @abstractmethod
    def norm(self) -> float:
        """The logarithm of 1 + λH."""

    @property
    @abstractmethod
    def least(self) -> float:
        """The least logarithm of 1 + λh, which is at y = -τ."""

    @abstractmethod
    def pay(self, y: Floats) -> Floats:
        """Return 1 + λh(y)."""

    @abstractmethod
    def slope(self, y: Floats) -> Floats:
        """Return the derivative of `pay`, which rises with y."""

    @property
    def bend(self) -> float:
        """The second derivative of log(1 + λh) is nowhere below the negative of this; infinite if unknown."""
        return math.inf

    def logs(self, y: Floats) -> Floats:
        """Return the logarithms of 1 + λh(y); infinite where no float is large enough."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.log(self.pay(y))


@dataclass(frozen=True)
class VarianceFactor(Factor):
    """For rows with sd ≤ `sd`: h = y + y²/2τ, H = sd²/2τ; needs λτ < 2."""

    sd: float = 1.0

    def at_scale(self, unit: float, top: float) -> VarianceFactor:
        """Return the factor for rows `unit` times as large whose sd is at most `top`."""
        return replace(self, rate=self.rate / unit, depth=self.depth * unit, sd=top)

    @cached_property
    def norm(self) -> float:
        """The logarithm of 1 + λH."""
        return math.log1p(self.rate * self.sd * (self.sd / (2 * self.depth)))

    @cached_property
    def least(self) -> float:
        """The least logarithm of 1 + λh."""
        return math.log1p(-self.rate * self.depth / 2)

    @cached_property
    def curvature(self) -> float:
        """A bound on the second derivative of log(1 + λh)."""
        return self.rate / (self.depth * (1 - self.rate * self.depth / 2))

    def pay(self, y: Floats) -> Floats:
        """Return 1 + λ(y + y²/2τ)."""
        pay = y * (self.rate / (2 * self.depth))
        pay += self.rate
        pay *= y
        pay += 1.0
        return pay

    def slope(self, y: Floats) -> Floats:
        """Return λ(1 + y/τ)."""
        return self.rate * (1 + y / self.depth)

    @cached_property
    def bend(self) -> float:
        """An eighth of `curvature`, which is multiplied by (1 - w)/(1 + w)², w = (y + τ)²·λ/(2τ - λτ²)."""
        return self.curvature / 8


@dataclass(frozen=True)
class KurtosisFactor(Factor):
    """For rows with E(x - μ)⁴ ≤ κ·sd⁴: h = y + y⁴/4τ³, H = κ·sd⁴/4τ³; needs λτ < 4/3."""

    fourth_moment: float = 1.0

    def at_scale(self, unit: float, top: float) -> KurtosisFactor:
        """Return the factor for rows `unit` times as large whose sd is at most `top`, if it was for an sd of 1."""
        moment = self.fourth_moment * top**4
        return replace(self, rate=self.rate / unit, depth=self.depth * unit, fourth_moment=moment)

    @property
    def norm(self) -> float:
        """The logarithm of 1 + λH."""
        return math.log1p(self.rate * self.fourth_moment / (4 * self.depth**3))

    @property
    def least(self) -> float:
        """The least logarithm of 1 + λh."""
        return math.log1p(-0.75 * self.rate * self.depth)

    def pay(self, y: Floats) -> Floats:
        """Return 1 + λ(y + y⁴/4τ³)."""
        pay = y * y
        pay *= y
        pay *= self.rate / (4 * self.depth**3)
        pay += self.rate
        pay *= y
        pay += 1.0
        return pay

    def slope(self, y: Floats) -> Floats:
        """Return λ(1 + y³/τ³)."""
        return self.rate * (1 + (y / self.depth) ** 3)


@dataclass(frozen=True)
class SubGaussianFactor(Factor):
    """For sub-Gaussian rows of scale ρ: h = y + exp(-a(y + τ))/a, a = τ/ρ², H = exp(-τ²/2ρ²)/a; needs λτ < 1."""

    scale: float = 1.0

    def at_scale(self, unit: float, top: float) -> SubGaussianFactor:
        """Return the factor for rows `unit` times as large whose sub-Gaussian scale is at most `top`."""
        return replace(self, rate=self.rate / unit, depth=self.depth * unit, scale=top)

    @property
    def _slope(self) -> float:
        return self.depth / self.scale**2

    @property
    def norm(self) -> float:
        """The logarithm of 1 + λH."""
        return math.log1p(self.rate * math.exp(-0.5 * (self.depth / self.scale) ** 2) / self._slope)

    @property
    def least(self) -> float:
        """The least logarithm of 1 + λh."""
        return math.log1p(self.rate * (1 / self._slope - self.depth))

    def pay(self, y: Floats) -> Floats:
        """Return 1 + λh(y)."""
        pay = np.exp(-self._slope * (y + self.depth))
        pay /= self._slope
        pay += y
        pay *= self.rate
        pay += 1.0
        return pay

    def slope(self, y: Floats) -> Floats:
        """Return λ(1 - exp(-a(y + τ)))."""
        return -self.rate * np.expm1(-self._slope * (y + self.depth))


def variance_factors(n_rows: float, price: float, *, adaptive: bool) -> list[VarianceFactor]:
    """Return the factors for rows with sd ≤ 1; the first is the main one.

    Parameters
    ----------
    n_rows : float
        Number of rows (n), or of those planned. The number of corrupt ones has no part in it: intervals are nested in
        it.
    price : float
        What one side pays, log(2/δ).
    adaptive : bool
        Whether whoever corrupted the rows had seen them.
    """
    return list(_variance_factors(n_rows, price, adaptive))


@lru_cache(maxsize=128)  # columns, levels and groups mostly have as many rows
def _variance_factors(n_rows: float, price: float, adaptive: bool) -> tuple[VarianceFactor, ...]:
    unit = math.sqrt(2 * price / n_rows)
    main = VarianceFactor(_MAIN[0] * unit, _MAIN[1] / unit)
    depths = [depth for depth in (_ADAPTIVE_DEPTHS if adaptive else _DEPTHS) if depth < main.depth / 1.6]
    main = replace(main, rate=min(main.rate, 1.8 / main.depth))
    if not depths:
        return (main,)
    each = 1 / (len(depths) + 1) if adaptive else _SHARE / len(depths)
    others = [VarianceFactor(min(unit, 1.8 / depth), depth, each) for depth in depths]
    return (replace(main, weight=1 - each * len(depths)), *others)


@lru_cache(maxsize=1024)
def premise_factors(n_rows: float, *, adaptive: bool) -> tuple[VarianceFactor, ...]:
    """Return the factors for rows whose sd is read off them, in units of it; the first is the deepest.

    They are the same at every confidence, so that intervals are nested in it: those for a price of log 40, that of one
    side at 95 %. The depths of the others fall to a third each, down to six sds: what lies nearer
    moves a mean little.
    """
    unit = math.sqrt(2 * PREMISE_PRICE / n_rows)
    if adaptive:
        return _variance_factors(n_rows, PREMISE_PRICE, adaptive)
    depths = [_MAIN[1] / unit]
    while depths[-1] > 1.3 * SHALLOWEST:
        depths.append(max(depths[-1] / 3, SHALLOWEST))
    weights = [OF_DEEPEST, *[(1 - OF_DEEPEST) / (len(depths) - 1)] * (len(depths) - 1)] if len(depths) > 1 else [1.0]
    stakes = [_MAIN[0] * unit, *[unit] * (len(depths) - 1)]
    parts = zip(stakes, depths, weights, strict=True)
    return tuple(VarianceFactor(min(stake, 1.8 / depth), depth, weight) for stake, depth, weight in parts)


def sturdy_factors(n_rows: float, price: float) -> list[VarianceFactor]:
    """Return factors for rows with sd ≤ 1 that forgive a larger sd: the main one, and a deep one."""
    unit = math.sqrt(2 * price / n_rows)
    main = variance_factors(n_rows, price, adaptive=False)[0]
    if not main.depth / 1.6 > _STURDY_DEPTH:
        return [replace(main, weight=1.0)]
    deep = VarianceFactor(min(unit, 1.8 / _STURDY_DEPTH), _STURDY_DEPTH, _SHARE)
    return [replace(main, weight=1 - _SHARE), deep]


def kurtosis_factors(n_rows: float, price: float, kurtosis: float) -> list[Factor]:
    """Return two factors for rows with sd ≤ 1 and bounded kurtosis, with 0.7 of the weight."""
    unit = math.sqrt(2 * price / n_rows)
    depth = 0.7 / unit
    return [
        KurtosisFactor(min(1.1 * unit, 1.2 / depth), depth, 0.5, kurtosis),
        KurtosisFactor(min(2.2 * unit, 1.8 / depth), depth / 1.5, 0.2, kurtosis),
    ]


def factors_for(assume: Assumption, n_rows: float, price: float, *, adaptive: bool) -> list[Factor]:
    """Return the factors that an assumption allows, in units of its sd; the first is the main one."""
    variance = variance_factors(n_rows, price, adaptive=adaptive)
    if isinstance(assume, FiniteKurtosis):
        pair = kurtosis_factors(n_rows, price, assume.kurtosis)
    elif isinstance(assume, SubGaussian):
        unit = math.sqrt(2 * price / n_rows)
        depth = math.sqrt(2 * math.log(max(n_rows / price, 1.0))) + 0.5
        pair = [
            SubGaussianFactor(min(1.1 * unit, 0.9 / depth), depth, 0.5),
            SubGaussianFactor(min(2.2 * unit, 1.35 / depth), depth / 1.5, 0.2),
        ]
    else:
        return list(variance)
    return [*pair, *(replace(one, weight=0.3 * one.weight) for one in variance)]


def together(factors: Sequence[Factor]) -> list[Factors]:
    """Return factors as the kernel takes them: in the same order, neighbours of one kind in one piece."""
    found: list[Factors] = []
    for kind, some in groupby(factors, type):
        if kind is VarianceFactor:
            numbers = [(one.rate, one.depth, one.sd, one.weight) for one in some]  # type: ignore[attr-defined]
            found.append(Factors.variance(*np.array(numbers).T[:, :, None, None]))
            continue
        for one in some:
            if isinstance(one, KurtosisFactor):
                found.append(Factors.kurtosis(one.rate, one.depth, one.fourth_moment, one.weight))
            elif isinstance(one, SubGaussianFactor):
                found.append(Factors.sub_gaussian(one.rate, one.depth, one.scale, one.weight))
    return found
