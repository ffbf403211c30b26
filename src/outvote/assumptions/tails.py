"""Bound the tail of one clean block estimate by the best of several inequalities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Row(ABC):
    """A tail inequality: the deviation for a probability, and the probability of a deviation.

    An inequality for one side bounds the two-sided tail by twice the one-sided tail.
    """

    @abstractmethod
    def one(self, p: Floats) -> Floats:
        """Return a small t such that P(estimate - truth > t) <= p."""

    @abstractmethod
    def one_probability(self, t: Floats) -> Floats:
        """Return an upper bound on P(estimate - truth > t), t >= 0."""

    def two(self, p: Floats) -> Floats:
        """Return a small t such that P(|estimate - truth| > t) <= p."""
        return self.one(p / 2)

    def two_probability(self, t: Floats) -> Floats:
        """Return an upper bound on P(|estimate - truth| > t), t >= 0."""
        return 2 * self.one_probability(t)

    @abstractmethod
    def excess(self, u: Floats) -> Floats:
        """Return an upper bound on E(estimate - truth - u)₊ and on E(truth - estimate - u)₊, u >= 0."""


@dataclass(frozen=True, slots=True)
class Variance(Row):
    """Cantelli's inequality for one side, Chebyshev's for both."""

    sd: Floats

    def one(self, p: Floats) -> Floats:
        return self.sd * np.sqrt(1 / p - 1)

    def two(self, p: Floats) -> Floats:
        return self.sd / np.sqrt(p)

    def one_probability(self, t: Floats) -> Floats:
        return 1 / (1 + (t / self.sd) ** 2)

    def two_probability(self, t: Floats) -> Floats:
        return (self.sd / t) ** 2

    def excess(self, u: Floats) -> Floats:
        return np.asarray(self.sd / (np.hypot(self.sd, u) + u) * self.sd / 2)  # (√(sd² + u²) - u) / 2


@dataclass(frozen=True, slots=True)
class Exponential(Row):
    """P(deviation > t) <= exp(-t² / (2·scale²)): the sub-Gaussian tail, and Hoeffding's with scale = width/2."""

    scale: Floats

    def one(self, p: Floats) -> Floats:
        return np.asarray(self.scale * np.sqrt(-2 * np.log(p)))

    def one_probability(self, t: Floats) -> Floats:
        return np.asarray(np.exp(-0.5 * (t / self.scale) ** 2))

    def excess(self, u: Floats) -> Floats:
        z = u / self.scale
        slope = (z + np.hypot(z, 2.0)) / 2  # the best λ·scale: λ·scale - z = 1 / (λ·scale)
        return np.asarray(self.scale * np.exp(slope * (slope / 2 - z) - 1) / slope)


@dataclass(frozen=True, slots=True)
class Hoeffding(Exponential):
    """Hoeffding's inequality for averages of values in an interval of length `width`."""

    width: float

    def excess(self, u: Floats) -> Floats:
        ends = np.maximum(self.width - u, 0.0) ** 2 / (4 * self.width)
        return np.minimum(Exponential.excess(self, u), ends)


@dataclass(frozen=True, slots=True)
class Bernstein(Row):
    """P(deviation > t) <= exp(-t² / (2·(variance + width·t/3))), both divided by the tuple count."""

    width: Floats
    variance: Floats

    def one(self, p: Floats) -> Floats:
        log_term = -np.log(p)
        linear = self.width * log_term / 3
        return np.asarray(linear + np.sqrt(linear**2 + 2 * self.variance * log_term))

    def one_probability(self, t: Floats) -> Floats:
        return np.asarray(np.exp(-(t**2) / (2 * (self.variance + self.width * t / 3))))

    def excess(self, u: Floats) -> Floats:
        spread = self.variance + self.width * u / 3
        slope = u / spread * (1 + self.variance / spread) / 2
        return self.one_probability(u) / slope


@dataclass(frozen=True, slots=True)
class FourthMoment(Row):
    """Markov's inequality for the fourth power."""

    moment: Floats

    def one(self, p: Floats) -> Floats:
        return (self.moment / p) ** 0.25

    def two(self, p: Floats) -> Floats:
        return self.one(p)

    def one_probability(self, t: Floats) -> Floats:
        return self.moment / t**4

    def two_probability(self, t: Floats) -> Floats:
        return self.one_probability(t)

    def excess(self, u: Floats) -> Floats:
        return 27 / 256 * self.moment / u**3


@dataclass(frozen=True, slots=True)
class NearNormal(Row):
    """Berry-Esseen: the distribution of the mean is within `distance` of the normal distribution."""

    sd: Floats
    distance: Floats

    def one(self, p: Floats) -> Floats:
        from scipy.special import ndtri

        room = p - self.distance
        return np.where(room > 0, -self.sd * ndtri(np.clip(room, 1e-300, 0.5)), np.inf)

    def one_probability(self, t: Floats) -> Floats:
        from scipy.special import ndtr

        return np.asarray(ndtr(-t / self.sd) + self.distance)

    def excess(self, u: Floats) -> Floats:
        return np.full(np.broadcast_shapes(u.shape, self.sd.shape), np.inf)  # `distance` does not fall with u


@dataclass(frozen=True, slots=True)
class Tail:
    """The tail of one clean block estimate. Every method accepts arrays and broadcasts.

    Attributes
    ----------
    sd : ndarray
        Bound on the standard deviation of the block estimate.

    Examples
    --------
    >>> from outvote.assumptions.assumption import FiniteVariance
    >>> tail = FiniteVariance(1.0).tail(100)
    >>> float(tail.sd), round(float(tail.two(0.25)), 12)
    (0.1, 0.2)
    """

    sd: Floats
    _rows: tuple[Row, ...]
    _unit: float = 1.0  # unit of the inequalities, chosen so that squares neither overflow nor vanish

    @property
    def variance_only(self) -> bool:
        """Whether the variance gives the only inequality."""
        return len(self._rows) == 1

    def one(self, p: ArrayLike) -> Floats:
        """Return a deviation that the estimate exceeds, on a given side, with probability at most `p`."""
        return self._unit * self._smallest("one", p)

    def two(self, p: ArrayLike) -> Floats:
        """Return a deviation that the estimate exceeds, on either side, with probability at most `p`."""
        return self._unit * self._smallest("two", p)

    def tail_probability(self, t: ArrayLike, *, sides: int = 1) -> Floats:
        """Return a bound on the probability that the estimate is off by more than `t` on one or on both sides.

        Examples
        --------
        >>> from outvote.assumptions.assumption import FiniteVariance
        >>> float(FiniteVariance(1.0).tail(100).tail_probability(0.2, sides=2))
        0.25
        """
        bound = self._smallest({1: "one_probability", 2: "two_probability"}[sides], np.asarray(t) / self._unit)
        return np.minimum(bound, 1.0)

    def excess(self, u: ArrayLike) -> Floats:
        """Return a bound on the expected excess of the error over `u` on a given side.

        It bounds ``E(X - u)₊`` for ``X = V - θ`` and for ``X = θ - V``, with V a clean block
        estimate, by the smallest of these bounds:

        Notes
        -----
        - Variance: ``(√(sd² + u²) - u)/2``, since ``2(x)₊ = |x| + x`` and ``E|X - u| <= √(sd² + u²)``.
        - Sub-Gaussian scale s: ``exp(λ²s²/2 - λu - 1)/λ`` at its smallest, since
          ``x₊ <= exp(λx - 1)/λ``. At most 1/e of ``∫_u^∞ exp(-t²/(2s²))dt`` far out, and smaller everywhere.
        - Width w: ``(w - u)²/(4w)`` for 0 <= u <= w, 0 beyond. Among the distributions of mean 0 on
          ``[b - w, b]`` a convex function has its largest mean under that on the two ends, here
          ``(b - u)(w - b)/w``; take the worst b. An average of several values is smaller in the convex order.
        - Bernstein: with ``g(t) = t²/(2(v + wt/3))``, which is convex, ``∫_u^∞ exp(-g) <= exp(-g(u))/g'(u)``.
        - Fourth moment M: ``27M/(256u³)``, since ``(x - u)₊ <= 27x⁴/(256u³)``, with equality at 4u/3.
        - u < 0: ``E(X - u)₊ = -u + E(-X - |u|)₊``, and every bound for X holds for -X.

        Examples
        --------
        >>> from outvote.assumptions.assumption import Bounded, FiniteVariance
        >>> float(FiniteVariance(1.0).tail(1).excess(0.75)), float(Bounded(0, 1).tail(1).excess(1.5))
        (0.25, 0.0)
        """
        values = np.asarray(u, dtype=float)
        return self._unit * self._smallest("excess", np.abs(values) / self._unit) + np.maximum(-values, 0.0)

    def _smallest(self, method: str, argument: ArrayLike) -> Floats:
        values = np.asarray(argument, dtype=float)
        with np.errstate(divide="ignore", over="ignore"):
            bounds = [getattr(row, method)(values) for row in self._rows]
        return np.asarray(np.minimum.reduce(bounds) if len(bounds) > 1 else bounds[0], dtype=float)
