"""The kernel: evidence against means, for many sets of rows, factors and cells of means at once.

A factor of a row is ``(1 + q(s))/exp(norm)``. Here s is a gain times how far the row lies from its valley, which for a
mean μ is at μ - τ, and for all means of a cell [lo, hi] reaches from lo - τ to hi - τ: so the factor at its least. With
lo = -∞ that is the form that is constant left of its valley. q is 0 in the valley, and rises on either side. Variance
factors have q = s²: 1 + λ(y + y²/2τ) = A·(1 + s²) with A = 1 - λτ/2 and s = (y + τ)·√(λ/2τA). So do those of a spread:
1 + t(z² - 1) = (1 - t)·(1 + s²) with s = z·√(t/(1 - t)). Factors of rows whose kurtosis is bounded, or that are
sub-Gaussian, have other functions q.

Of logarithms l the sum without the k largest, as far as these exceed the norm, is the largest of Σ min(l, θ) - kθ over
θ ≥ norm, less norms, and *any* such θ gives a lower bound of it. So ties need no care, and what is missing in a table
are rows at +∞ that may be dropped.

Bins. The sum of φ = log(1 + q) over the rows of a bin is count·φ(mean) + φ''(mean)/2·squares, and at most a sixth of
the largest third derivative times radius·squares away. If φ is capped at θ somewhere in the bin, the sum is at least
that of as many rows at the two ends as keep the mean, less peak/2·Σ(x - low)(high - x) where the bin reaches into the
part in which φ is convex: elsewhere φ is above its chord. Rows that have k others on either side are never among the k
largest, for they lie between these: they need no cap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.votes.evidence.bins import Bins

Floats = NDArray[np.float64]

#: Stakes of the bets that a variance is larger than some v; each has a quarter of the weight.
STAKES = (0.01, 0.03, 0.1, 0.3)
#: Factors that are multiplied before a logarithm is taken.
_LANES = 16
#: θ is at most this, so that its exponential is a float.
_LARGEST = 700.0
#: How often the first step of a search is doubled: an end so far away is no use. Steps of the search from there; of so
#: many that it takes upwards without an end it has none. How often it begins again from where it ended.
_MOST_DOUBLINGS, _MOST_STEPS, _ENDLESS, _MOST_PASSES = 20, 80, 30, 6
#: By how much the evidence on an end exceeds its price, at most: while the search begins again, and at last.
_ROUGHLY, _PRECISELY = 0.05, 1e-7
#: Bins so many times as wide as that in the middle are taken apart, whether or not their rows may be dropped.
_WIDE = 64.0
#: So many points are looked at for all factors at once.
_CACHED = 1 << 12
#: Rounding moves the logarithm of a product by less than so much for each row and each unit of what is dropped, and so
#: much more. Factors of rows far out are taken to be the last, which is still a bound.
_ROUNDING, _FIXED, _FINITE = 2.0**-51, 2.0**-44, 1e300


class Shape(NamedTuple):
    """q, φ'' of φ = log(1 + q), and bounds: |φ'| ≤ steep, -bend ≤ φ'' ≤ peak, φ'' ≤ 0 outside of `hollow`.

    Right of the valley bend, third and peak may be smaller: `right`. What q is worth on average grows with the `power`
    of the scale of the rows.

    The second derivative is a function of s and 1/(1 + q), the third at most `third` in size. φ'' must be positive as
    far as 3·bend/third from the valley, so that what is said of bins holds where a cell of means makes a part of it
    flat: the first bound there is then that of a convex function, or the second that of a bin.
    """

    q: Callable[[Floats], Floats]
    second: Callable[[Floats, Floats], Floats]
    steep: float
    bend: float
    peak: float
    hollow: tuple[float, float]
    third: float
    power: int = 2
    right: tuple[float, float, float] | None = None


#: φ' = 2s/(1 + s²) is largest at 1; φ'' = 2(1 - s²)/(1 + s²)² at 0, least at √3, and positive between -1 and 1;
#: the third derivative, 4s(s² - 3)/(1 + s²)³, is largest at √2 - 1.
SQUARE = Shape(np.square, lambda _, t: (4 * t - 2) * t, 1.0, 0.25, 2.0, (-1.0, 1.0), 1.5 + math.sqrt(2))


def _bounded(c: float, parts: Callable[[Floats], tuple[Floats, ...]], edges: Floats, tail: tuple[float, ...]) -> Shape:
    """Return the shape of q = c·p by bounds in cells, in which p and its first three derivatives are monotone.

    `parts` returns these four. Beyond the edges φ is concave, and `tail` bounds its first three derivatives in size.
    """
    p, first, second, third = (np.abs(one) for one in parts(edges))

    def least(x: Floats) -> Floats:
        return np.minimum(x[:-1], x[1:])

    def most(x: Floats) -> Floats:
        return np.maximum(x[:-1], x[1:])

    low, high = 1 + c * least(p), 1 + c * most(p)
    steep = c * most(first) / low
    peak = c * most(second) / low - np.square(c * least(first) / high)
    bent = np.square(steep) - c * least(second) / high
    bend, concave = max(float(bent.max()), tail[1]), np.flatnonzero(bent >= 0)
    hollow, middle = np.flatnonzero(peak > 0), int(np.argmin(np.abs(edges)))
    right, left = concave[concave >= middle], concave[concave < middle]
    reach = min(edges[right[0]] if len(right) else np.inf, -edges[left[-1] + 1] if len(left) else np.inf)
    rough = (c * most(third) + 3 * steep * c * most(second)) / low + 2 * steep**3
    of_right = tuple(1.001 * float(one[middle:].max(initial=1e-300)) for one in (bent, rough, peak))

    def q(s: Floats) -> Floats:
        return np.asarray(c * parts(s)[0])

    def curve(s: Floats, t: Floats) -> Floats:
        _, slope, bending, _ = parts(s)
        with np.errstate(invalid="ignore", over="ignore"):
            found = c * bending * t - np.square(c * slope * t)
        return np.where(np.isfinite(found), found, -bend)

    return Shape(
        q, curve, 1.001 * max(float(steep.max()), tail[0]), 1.001 * bend, 1.001 * max(float(peak.max()), 1e-300),
        (float(edges[hollow[0]]), float(edges[hollow[-1] + 1])),
        1.001 * max(float(rough.max()), tail[2], 3.01 * bend / reach), right=of_right,  # type: ignore[arg-type]
    )  # fmt: skip


@lru_cache(maxsize=256)
def quartic(c: float) -> Shape:
    """Return the shape of q = c·p, p = x + x⁴/4 + 3/4, x = s - 1, for c ≥ 1/2.

    Beyond 5 of 1 the square of p' = x³ + 1 exceeds p''·(p + 1/c) = 3x⁶/4 + 3x³ + (9/4 + 3/c)·x², so that φ is concave;
    its first derivative is at most |p'|/p ≤ 0.82 there, and the others are bounded likewise by their values at 5.
    """

    def parts(s: Floats) -> tuple[Floats, ...]:
        x = s - 1
        return s * s * (np.square(s / 2 - 1) + 0.5), s * (np.square(s - 1.5) + 0.75), 3 * x * x, 6 * x

    return _bounded(c, parts, np.linspace(-4.0, 6.0, 5001), (0.83, 0.69, 2.6))._replace(power=4)


@lru_cache(maxsize=256)
def exponential(c: float) -> Shape:
    """Return the shape of q = c·p, p = s + exp(-s) - 1.

    At s = -u the second derivative of φ has the sign of exp(u)·(1 + c - cu) - c. Far out on the left its first is -1,
    nearly, and all others of p are p; far out on the right φ is flat.
    """

    def parts(s: Floats) -> tuple[Floats, ...]:
        s = np.maximum(s, -_LARGEST)
        e = np.exp(-s)
        return s + np.expm1(-s), -np.expm1(-s), e, -e

    edges = np.concatenate([np.linspace(-60.0, -2.0, 5800, endpoint=False), np.linspace(-2.0, 60.0, 12401)])
    found = _bounded(c, parts, edges, (1.0001, 1e-20, 6.01))
    return found._replace(hollow=(-1.001 * (1 + c) / c, found.hollow[1]))


@dataclass(frozen=True)
class Factors:
    """Factors of one shape: arrays of (factors, cells of scales, sets).

    Attributes
    ----------
    depth, gain : ndarray
        τ, and what distances are multiplied by.
    paid, lift : ndarray
        Which bet it is: on average 1 + q is at most (1 + paid)·exp(lift), and the factor at its least is exp(-lift).
    rate : ndarray
        The slope of the logarithm of a factor at the mean: a search goes by it.
    log_weight : ndarray
        The logarithm of the weight in the mixture.
    shape : Shape
        q.
    """

    depth: Floats
    gain: Floats
    paid: Floats
    lift: Floats
    rate: Floats
    log_weight: Floats
    shape: Shape = SQUARE

    @cached_property
    def norm(self) -> Floats:
        """The logarithm of what 1 + q is on average, at most."""
        return np.asarray(np.log1p(self.paid) + self.lift)

    @classmethod
    def variance(cls, rate: Any, depth: Any, sd: Any, weight: Any) -> Factors:
        """Return 1 + λ(y + y²/2τ), for rows with an sd of at most `sd`: needs λτ < 2."""
        rate, depth, sd, weight = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (rate, depth, sd, weight)))
        least = 1 - rate * depth / 2
        with np.errstate(divide="ignore"):
            logs = np.log(weight)
        gain = np.sqrt(rate / (2 * least)) / np.sqrt(depth)
        return cls(depth, gain, rate * sd * (sd / (2 * depth)), -np.log(least), rate, logs)

    @classmethod
    def kurtosis(cls, rate: float, depth: float, fourth_moment: float, weight: float) -> Factors:
        """Return 1 + λ(y + y⁴/4τ³), for rows with E y⁴ of at most `fourth_moment`: needs λτ < 4/3."""
        least, paid = 1 - 0.75 * rate * depth, rate * (fourth_moment / (4 * depth**3))
        return cls._one(depth, 1 / depth, paid, least, rate, weight, quartic(rate * depth / least))

    @classmethod
    def sub_gaussian(cls, rate: float, depth: float, scale: float, weight: float) -> Factors:
        """Return 1 + λ(y + exp(-a(y + τ))/a), a = τ/ρ², for sub-Gaussian rows of scale ρ: needs λτ < 1."""
        a = depth / scale**2
        least, paid = 1 + rate * (1 / a - depth), rate * math.exp(-0.5 * (depth / scale) ** 2) / a
        return cls._one(depth, a, paid, least, rate, weight, exponential(rate / (a * least)))

    @classmethod
    def _one(
        cls, depth: float, gain: float, paid: float, least: float, rate: float, weight: float, shape: Shape
    ) -> Factors:
        numbers = np.array([depth, gain, paid, -math.log(least), rate, math.log(weight)])
        return cls._from(numbers[:, None, None, None], shape)

    @classmethod
    def _from(cls, parts: Any, shape: Shape) -> Factors:
        depth, gain, paid, lift, rate, log_weight = parts
        return cls(depth, gain, paid, lift, rate, log_weight, shape)

    @classmethod
    def spread(cls, stake: Any, unit: Any) -> Factors:
        """Return 1 + t(z²/unit² - 1), bets that the variance exceeds unit²: all on the first axis have one weight."""
        stake, unit = np.broadcast_arrays(np.asarray(stake, dtype=float), np.asarray(unit, dtype=float))
        gain, zero = np.sqrt(stake / (1 - stake)) / unit, np.zeros(unit.shape)
        return cls(zero, gain, zero, zero - np.log1p(-stake), gain, zero - math.log(len(unit)))

    def at_scale(self, unit: Any, top: Any) -> Factors:
        """Return the factors for rows `unit` times as large, and a scale of at most `top` instead of `unit`."""
        paid = self.paid * (top / unit) ** self.shape.power
        return Factors(
            self.depth * unit, self.gain / unit, paid, self.lift + 0 * paid, self.rate / unit,
            self.log_weight + 0 * paid, self.shape,
        )  # fmt: skip

    def each(self, part: Callable[[Floats], Floats]) -> Factors:
        """Return some of them: a part of each array."""
        parts = (self.depth, self.gain, self.paid, self.lift, self.rate, self.log_weight)
        return Factors._from(map(part, parts), self.shape)


@dataclass(frozen=True)
class Atoms:
    """Sets of rows of which some may be dropped: points with weights, a set in each line, both directions of each.

    Attributes
    ----------
    points : ndarray
        Rows in ascending order, +∞ where there are none; or the means of bins, first of those whose rows are never
        dropped, then the lower and the upper ends of the others.
    bins : ndarray of shape (sets, 3, bins) or None
        How many rows each bin has, their squares about the mean, and how far they are from it.
    n_rows : ndarray
        How many rows each set has.
    n, k : ndarray
        How many there are, and how many may be dropped, with those that are not there.
    paid : ndarray
        For how many rows an adversary who saw the rows is paid the least factor.
    left, right : ndarray
        The ends of stretches of as many rows as are kept.
    middle : ndarray
        A row in the middle.
    unsure : ndarray
        By how much the sum of the rows that are never dropped may be off.
    others : ndarray of shape (sets, 5, bins)
        Of the other bins: how many rows are taken to be at either end, Σ(x - low)(high - x), how many rows more may be
        at one end, and by how much their sum may be off.
    known : ndarray
        Between which numbers the places of rows are known.
    """

    points: Floats
    bins: Floats | None
    n_rows: Floats
    n: Floats
    k: Floats
    paid: Floats
    left: Floats
    right: Floats
    middle: Floats
    unsure: Floats
    others: Floats
    known: Floats

    @classmethod
    def of_rows(cls, table: Floats, sizes: Any, k: Any, paid: Any = 0) -> Atoms:
        """Return the first rows of each line, which are in ascending order, and then those of all lines mirrored."""
        n_sets, width = table.shape
        sizes, k, paid = (np.tile(np.broadcast_to(np.asarray(one), n_sets), 2) for one in (sizes, k, paid))
        place = np.arange(width)
        there = place < sizes[:n_sets, None]
        points = np.full((2 * n_sets, width + -width % _LANES), np.inf)
        points[:n_sets, :width] = np.where(there, table, np.inf)
        back = np.where(there, sizes[:n_sets, None] - 1 - place, 0)
        points[n_sets:, :width] = np.where(there, -np.take_along_axis(table, back, axis=1), np.inf)
        step = np.arange(min(int(k.max()), width - 1) + 1)
        last = np.clip((sizes - k - 1)[:, None] + step, 0, width - 1)
        right = np.where((step <= k[:, None]) & (k < sizes)[:, None], np.take_along_axis(points, last, axis=1), np.inf)
        left, gone = points[:, : len(step)], k >= sizes
        if gone.any():  # where all rows may be dropped, θ is the norm
            left, right = np.where(gone[:, None], np.inf, left), np.where(gone[:, None], -np.inf, right)
        n_rows, n, none = sizes.astype(float), np.full(2 * n_sets, float(points.shape[1])), np.zeros(2 * n_sets)
        return cls(
            points, None, n_rows, n, k + (n - n_rows), paid.astype(float), left, right,
            points[np.arange(2 * n_sets), sizes // 2], none, np.empty((2 * n_sets, 5, 0)),
            np.tile([-np.inf, np.inf], (2 * n_sets, 1)),
        )  # fmt: skip

    @classmethod
    def of_bins(cls, bins: Sequence[Bins], k: Any, paid: Any = 0) -> Atoms:
        """Return the rows of each set, and then those of all sets mirrored."""
        k, paid = (np.tile(np.broadcast_to(np.asarray(one, dtype=float), len(bins)), 2) for one in (k, paid))
        found = [_Bins.of(*pair) for pair in zip([*bins, *(one.mirrored for one in bins)], k.tolist(), strict=True)]
        points = np.hstack([_table([one.points[i] for one in found]) for i in range(4)])
        inner, outer, others = (
            np.stack([_table([getattr(one, name)[i] for one in found]) for i in range(number)], axis=1)
            for name, number in (("inner", 3), ("outer", 3), ("others", 5))
        )
        left, right = (_table([one.stretches[i] for one in found], "edge") for i in range(2))
        n, middle, unsure = np.array([one.numbers for one in found]).T
        known, of_bins = np.array([one.known for one in found]), np.concatenate([inner, outer], axis=2)
        return cls(points, of_bins, n, n, k, paid, left, right, middle, unsure, others, known)

    @cached_property
    def rows(self) -> Any:
        """How many rows each point stands for: 1, or numbers."""
        if self.bins is None:
            return 1.0
        lower, upper = self.others[:, 0], self.others[:, 1]
        n_inner = self.bins.shape[2] - lower.shape[1]
        return np.hstack([self.bins[:, 0, :n_inner], np.zeros(lower.shape), lower, upper])

    def standardised(self, centre: Floats, exponent: Any) -> Atoms:
        """Return the rows less a number, times a power of two: one of each for every set."""
        line, away = exponent[:, None], centre[:, None]
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            lines = {name: np.ldexp(getattr(self, name) - away, line) for name in ("points", "left", "right", "known")}
            of_bins = None if self.bins is None else np.ldexp(self.bins, line[..., None] * np.array([0, 2, 1])[:, None])
            others = np.ldexp(self.others, line[..., None] * np.array([0, 0, 2, 0, 1])[:, None])
            middle, unsure = np.ldexp(self.middle - centre, exponent), np.ldexp(self.unsure, exponent)
            return replace(self, **lines, middle=middle, bins=of_bins, unsure=unsure, others=others)

    def at(self, sets: Any) -> Atoms:
        """Return some of the sets."""
        parts = [getattr(self, one.name) for one in fields(self)]
        return Atoms(*(None if part is None else part[sets] for part in parts))  # type: ignore[arg-type]


class _Bins(NamedTuple):
    """One set of bins, those whose rows may be dropped after the others: lines of the arrays of `Atoms`."""

    points: tuple[Floats, ...]
    inner: tuple[Floats, ...]
    outer: tuple[Floats, ...]
    others: tuple[Floats, ...]
    stretches: tuple[Floats, Floats]
    numbers: tuple[float, float, float]
    known: tuple[float, float]

    @classmethod
    def of(cls, bins: Bins, k: float) -> _Bins:
        n, middle, mean = bins.n_rows, bins.at(bins.n_rows // 2), bins.mean
        known = np.isfinite(bins.squares)
        wide = bins.high - bins.low > _WIDE * (bins.high[middle] - bins.low[middle])
        outer = (bins.before < k) | (bins.ranks > n - k) | wide | ~known
        with np.errstate(over="ignore", invalid="ignore"):
            radius = np.maximum(bins.high - mean, mean - bins.low)
            squares, unsure, radius = (
                np.where(known, one, 0.0) for one in (bins.squares, bins.count * bins.slacks, radius)
            )
        # Where places are not known, rows are taken to be at the near end; `known` says from where on that is wrong.
        low, high = np.where(known, bins.low, mean)[outer], np.where(known, bins.high, mean)[outer]
        rows, width = bins.count[outer], np.where(high > low, high - low, 1.0)
        share = np.clip((mean[outer] - low) / width, 0.0, 1.0)
        chords = rows * (share * width) * ((1 - share) * width)
        first = mean[: max(int(np.searchsorted(bins.before, k, "right")), 1)]
        reached = np.searchsorted(bins.ranks, n - k + bins.before[: len(first)] - 0.5)
        last = np.where(reached < len(mean), mean[np.minimum(reached, len(mean) - 1)], np.inf)
        shifts = unsure[outer] / width
        inner = ~outer
        return cls(
            (mean[inner], mean[outer], low, high),
            (bins.count[inner], squares[inner], radius[inner]),
            (rows, squares[outer], radius[outer]),
            (rows * (1 - share), rows * share, chords, shifts, unsure[outer]),
            (first, last),
            (n, float(mean[middle]), float(unsure[inner].sum())),
            (-np.inf if known[0] else float(bins.high[0]), np.inf if known[-1] else float(bins.low[-1])),
        )


def _table(lines: Sequence[Floats], fill: str = "zero") -> Floats:
    """Return lines of several lengths as a table, filled up with zeros or with the last number of each."""
    table = np.zeros((len(lines), max(map(len, lines))))
    for row, line in zip(table, lines, strict=True):
        row[: len(line)] = line
        if fill == "edge":
            row[len(line) :] = line[-1]
    return table


@dataclass(frozen=True)
class Product:
    """Products of factors, each at its least for means from `lo` (None is -∞) to `hi`, as far as they may be capped.

    Attributes
    ----------
    atoms : Atoms
        The rows.
    factors : Factors
        The factors.
    places, pay : ndarray of shape (factors, cells, sets, points)
        s, and q for rows or 1 + q for bins.
    theta : ndarray
        A good θ.
    unknown : ndarray or None
        Where nothing is known of some rows that matters.
    """

    atoms: Atoms
    factors: Factors
    places: Floats
    pay: Floats
    theta: Floats
    unknown: NDArray[np.bool_] | None

    @classmethod
    def of(cls, atoms: Atoms, f: Factors, lo: Floats | None, hi: Floats) -> Product:
        """Look at every row, or bin; ends of means are the same for all sets, or one for each."""
        top, gain, q = (hi - f.depth)[..., None], f.gain[..., None], f.shape.q
        bottom = None if lo is None else (lo - f.depth)[..., None]
        with np.errstate(over="ignore", invalid="ignore"):
            s = atoms.points - top
            reach = q(gain * np.maximum(atoms.right - top, 0.0))
            if bottom is None:
                np.maximum(s, 0.0, out=s)
                reach = reach[..., 0]
            else:
                if lo is not hi:
                    np.maximum(s, np.minimum(atoms.points - bottom, 0.0), out=s)
                reach = np.maximum(reach, q(gain * np.minimum(atoms.left - bottom, 0.0))).min(-1)
            s *= gain
            pay = q(s)
            theta = np.minimum(np.maximum(np.log1p(reach), f.norm), _LARGEST)
            if atoms.bins is None:
                return cls(atoms, f, s, pay, theta, None)
            pay += 1.0
            np.minimum(pay, _FINITE, out=pay)
            lowest = top[..., 0] if bottom is None else bottom[..., 0]
            unknown = (top[..., 0] > atoms.known[:, 1]) | (lowest < atoms.known[:, 0])
            return cls(atoms, f, s, pay, theta, unknown)

    def capped(self, theta: Floats) -> Floats:
        """Return Σ min(φ - norm, θ - norm), at least."""
        atoms, f = self.atoms, self.factors
        with np.errstate(over="ignore", invalid="ignore"):
            if self.unknown is None:
                total = _sum_of_logs(1.0 + np.minimum(self.pay, np.expm1(theta)[..., None]))
            else:
                total = _sum_of_bins(atoms, f, self.places, self.pay, theta)
                total = np.where(self.unknown, -np.inf, total)
            return total - atoms.n * f.norm - (_ROUNDING * (atoms.n + atoms.k * theta) + _FIXED)

    @property
    def outer(self) -> tuple[Floats, Floats]:
        """φ - norm of rows that may be dropped, and how many rows have each; +∞ for those that are not there."""
        norm = self.factors.norm[..., None]
        if self.atoms.bins is None:
            with np.errstate(divide="ignore"):
                return np.log1p(self.pay) - norm, np.ones(self.atoms.points.shape)
        n = 2 * self.atoms.others.shape[2]
        size = self.pay.shape[-1]
        return np.log(self.pay[..., size - n :]) - norm, self.atoms.rows[:, size - n :]


def log_products(atoms: Atoms, f: Factors, lo: Floats | None, hi: Floats) -> Floats:
    """Return the logarithm of each product of factors that is left without the k largest.

    Factors are at their least for means from `lo` (None is -∞) to `hi`, one for each set. It is never too large: what
    rounding may add is taken off.

    Returns
    -------
    ndarray of shape (factors, cells of scales, sets)
    """
    found = Product.of(atoms, f, lo, hi)
    return found.capped(found.theta) - atoms.k * (found.theta - f.norm) - atoms.paid * f.norm


def log_pooled(a: Product, b: Product, k: float, paid: float = 0.0) -> Floats:
    """Return the logarithm of the products of the factors of two samples without the k largest of both.

    An adversary who saw the rows is paid the least factor of either for so many.
    """
    dropped = k + (a.atoms.n - a.atoms.n_rows) + (b.atoms.n - b.atoms.n_rows)  # with those that are not there
    (of_a, rows_a), (of_b, rows_b) = a.outer, b.outer
    logs, rows = np.concatenate([of_a, of_b], axis=-1), np.concatenate([rows_a, rows_b], axis=-1)
    theta = np.clip(_quantile(logs, rows, dropped), 0.0, _LARGEST)
    norm_a, norm_b = a.factors.norm, b.factors.norm
    total = a.capped(theta + norm_a) + b.capped(theta + norm_b)
    return np.asarray(total - dropped * theta - paid * np.maximum(norm_a, norm_b))


def _quantile(logs: Floats, rows: Floats, k: Floats) -> Floats:
    """Return numbers that at most k rows exceed, and hardly fewer; there may be no such number, and then it is 0."""
    first = float(k.flat[0])
    if (k == first).all() and ((rows == 0) | (rows == 1)).all():
        logs = np.where(rows > 0, logs, -np.inf)
        if not first < logs.shape[-1]:
            return np.zeros(logs.shape[:-1])
        return np.partition(logs, -int(first) - 1, axis=-1)[..., -int(first) - 1]
    order = np.argsort(-logs, axis=-1)
    above = np.cumsum(np.take_along_axis(np.broadcast_to(rows, logs.shape), order, axis=-1), axis=-1)
    enough = above > k[..., None]
    place = np.where(enough.any(-1), enough.argmax(-1), -1)
    found = np.take_along_axis(order, np.maximum(place, 0)[..., None], axis=-1)
    return np.where(place >= 0, np.take_along_axis(logs, found, axis=-1)[..., 0], 0.0)


def _sum_of_bins(atoms: Atoms, f: Factors, s: Floats, pay: Floats, theta: Floats) -> Floats:
    """Return lower bounds on the sums of min(φ, θ), given s and 1 + q at the points of bins."""
    of_bins: Any = atoms.bins
    shape, gain, theta = f.shape, f.gain[..., None], theta[..., None]
    size, n = of_bins.shape[2], atoms.others.shape[2]
    logs = np.log(pay)
    bent = np.maximum(-shape.second(s[..., :size], 1 / pay[..., :size]), 0.0)
    third: Any = shape.third
    most: Any = shape.bend
    if shape.right is not None:
        right = s[..., :size] >= gain * of_bins[:, 2]
        most, third = np.where(right, shape.right[0], most), np.where(right, shape.right[1], third)
    bent += gain * (third / 3) * of_bins[:, 2]
    np.minimum(bent, most, out=bent)
    bent *= of_bins[:, 1]
    bent *= gain * gain / -2
    bent += logs[..., :size] * of_bins[:, 0]
    total = bent[..., : size - n].sum(-1) - f.gain * shape.steep * atoms.unsure
    if not n:
        return total
    low, high = logs[..., size : size + n], logs[..., size + n :]
    whole, none = np.maximum(low, high) <= theta, np.minimum(low, high) >= theta
    low, high = np.minimum(low, theta), np.minimum(high, theta)
    least = atoms.others[:, 0] * low + atoms.others[:, 1] * high - np.abs(high - low) * atoms.others[:, 3]
    # Where both ends are equal all rows of the bin are in the valley of the cell, or at one point; and where both are
    # capped, on one side of the valley, all of its rows are.
    low, high = s[..., size : size + n], s[..., size + n :]
    hollow = (low < shape.hollow[1]) & (high > shape.hollow[0]) & (low < high) & ~(none & (low * high > 0))
    peak: Any = shape.peak
    if shape.right is not None:
        peak = np.where(low >= 0, shape.right[2], peak)
    least -= hollow * (gain * gain * (peak / 2) * atoms.others[:, 2])
    slack = gain * shape.steep * atoms.others[:, 4]
    np.maximum(least, bent[..., size - n :] - slack, out=least, where=whole)
    # Rows that are nearly equal: φ is nowhere steeper than that, and rows are so far from their mean on average.
    count, squares = of_bins[:, 0, size - n :], of_bins[:, 1, size - n :]
    equal = count * np.minimum(logs[..., size - n : size], theta) - gain * shape.steep * np.sqrt(count * squares)
    np.maximum(least, equal - slack, out=least)
    return total + least.sum(-1)


def _sum_of_logs(pay: Floats) -> Floats:
    """Add up the logarithms on the last axis, of products of some numbers each."""
    with np.errstate(over="ignore"):
        total = np.log(np.multiply.reduce(pay.reshape(*pay.shape[:-1], _LANES, pay.shape[-1] // _LANES), axis=-2)).sum(
            -1
        )
    wrong = ~np.isfinite(total)
    if wrong.any():
        total[wrong] = np.log(pay[wrong]).sum(-1)
    return total


def mixed(logs: Floats) -> Floats:
    """Return the logarithms of sums over the first axis, given the logarithms of what is added up."""
    if len(logs) == 1:
        return logs[0]
    most = logs.max(axis=0)
    with np.errstate(invalid="ignore"):
        found = most + np.log(np.exp(logs - most).sum(axis=0))
    return np.where(np.isfinite(most), found, most)


@dataclass(frozen=True)
class Excess:
    """By how much evidence exceeds its price: the mixture of all factors; of several cells of scales the least.

    Attributes
    ----------
    atoms : sequence of Atoms
        The rows; of several ways to take them the evidence is averaged.
    factors : sequence of Factors
        The factors, the main one first.
    price : ndarray
        The logarithm of what evidence must reach, for each set.
    """

    atoms: Sequence[Atoms]
    factors: Sequence[Factors]
    price: Floats

    def __call__(self, lo: Floats | None, hi: Floats) -> Floats:
        """Return the least excess over all means from `lo` (None is -∞) to `hi`, for each set."""
        return self.of_cells(lo, hi).min(axis=0)

    def of_cells(self, lo: Floats | None, hi: Floats) -> Floats:
        """Return the same for each cell of scales."""
        logs = [log_products(one, f, lo, hi) + f.log_weight for one in self.atoms for f in self._parts]
        return mixed(np.concatenate(logs)) - np.log(len(self.atoms)) - self.price

    @cached_property
    def _parts(self) -> list[Factors]:
        """The factors, one by one where there are many points: arrays that do not fit into a cache are slow."""
        if self.atoms[0].points.size <= _CACHED:
            return list(self.factors)
        return [one.each(partial(_line, j=j)) for one in self.factors for j in range(len(one.depth))]

    def at(self, sets: Any) -> Excess:
        """Return the tests of some sets."""
        if len(sets) == len(self.price) and (sets.dtype != bool or sets.all()):  # in order, and none twice
            return self
        factors = [one.each(lambda x: x[..., sets]) for one in self.factors]
        return Excess([one.at(sets) for one in self.atoms], factors, self.price[sets])

    @cached_property
    def first(self) -> Floats:
        """About twice how far ends are from the middle; it does not depend on how many rows may be dropped."""
        f = self._main
        at_mean = f.norm - np.log1p(f.shape.q(f.gain * f.depth))  # the factor is 1 there, if rows have no spread
        return 2 * ((self.price - f.log_weight) / self.atoms[0].n_rows + at_mean) / f.rate

    @property
    def start(self) -> Floats:
        """Where the form that rules out all smaller means may do so: rows far below cost it the most."""
        f, atoms, first = self._main, self.atoms[0], self.first
        below = atoms.points < (atoms.middle - first - f.depth)[:, None]
        far = (below * atoms.rows).sum(axis=1)
        return atoms.middle - first - 1.1 * far * f.norm / (f.rate * np.maximum(atoms.n_rows - far, 1))

    @property
    def deepest(self) -> Floats:
        """The largest depth of the factors of each set."""
        return np.max([one.depth.max(axis=(0, 1)) for one in self.factors], axis=0)

    @cached_property
    def slope(self) -> Floats:
        """How fast the evidence falls, about."""
        return self.atoms[0].n_rows * self._main.rate

    @cached_property
    def _main(self) -> Factors:
        """The first factor of the first cell, without these axes."""
        return self.factors[0].each(lambda x: x[0, 0])


def _line(table: Floats, j: int) -> Floats:
    return table[j : j + 1]


def ends(test: Any) -> tuple[Floats, Floats]:
    """Return numbers below which every mean is ruled out, and where each search began.

    First comes a mean for which the form that is constant left of the valley is evidence enough: with it all smaller
    means are ruled out. From there the end moves up as long as the least evidence over all means in between is. That
    loses something where rows have their valley in between, so it is done again from where it ended. An end is -∞ where
    nothing is ruled out, and +∞ where everything is. What is done for a set does not depend on the others.
    """
    start, step = test.start, test.first
    above = test(None, start)
    for _ in range(_MOST_DOUBLINGS):
        short = ~(above >= 0)
        if not short.any():
            break
        lacking = np.where(above > -np.inf, -above / test.slope, 0.0)
        start = np.where(short, start - np.maximum(step, 1.2 * lacking), start)
        step = np.where(short, 2 * step, step)
        above = np.where(short, test(None, start), above)
    found, there = np.full(start.shape, -np.inf), np.flatnonzero(above >= 0)
    if not len(there):
        return found, start
    test, low, above, left = test.at(there), start[there], above[there], np.arange(len(there))
    for _ in range(_MOST_PASSES):
        part = test.at(left)
        ended = _climb(part, low[left], above[left], _ROUGHLY)
        with np.errstate(over="ignore"):
            moved, low[left] = ended - low[left], ended
        finite = np.isfinite(ended)
        left, moved, part = left[finite], moved[finite], part.at(finite)
        if not len(left):
            break
        above[left] = part(low[left], low[left])
        left = left[(above[left] > 2 * _ROUGHLY) & (moved > 0.001 * part.first)]
        if not len(left):
            break
    finite = np.isfinite(low)
    low[finite] = _climb(test.at(finite), low[finite], above[finite], _PRECISELY)
    with np.errstate(invalid="ignore"):
        found[there] = np.where(finite, low - 2 * np.spacing(np.abs(low) + test.deepest), low)  # valleys are rounded
    return found, start


def _climb(test: Any, base: Floats, above: Floats, enough: float) -> Floats:
    """Return numbers such that all from `base` to them are ruled out, by little more than enough: by secants.

    They are +∞ where no end is in sight.
    """
    found, sets = base.copy(), np.arange(len(base))
    low, high, at_low = base, np.full(len(base), np.inf), above
    x0, f0, x = base, above, base + np.maximum(above, 0.0) / test.slope
    x = np.maximum(x, np.nextafter(base, np.inf))
    for step in range(_MOST_STEPS):
        if not len(sets):
            break
        fx = test(base, x)
        up = fx >= 0
        low, at_low, high = np.where(up, x, low), np.where(up, fx, at_low), np.where(up, high, x)
        endless = np.isinf(high) & (step >= _ENDLESS)
        found[sets] = np.where(endless, np.inf, low)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            new = x - (fx - enough / 2) * (x - x0) / (fx - f0)
            wide = np.where(np.isinf(high), low + 3 * (low - base) + test.first, low / 2 + high / 2)
        wrong = ~((new > low) & (new < high)) | (np.isfinite(high) & (step % 4 == 3)) | (np.isinf(high) & (step > 4))
        x0, f0, x = x, fx, np.where(wrong, wide, new)
        left = ~(at_low <= enough) & ~endless & (high - low > 1e-15 * np.abs(low)) & (low < x) & (x < high)
        if not left.all():
            test, sets = test.at(left), sets[left]
            base, low, high, at_low, x0, f0, x = (one[left] for one in (base, low, high, at_low, x0, f0, x))
    return found
