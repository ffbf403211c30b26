"""The kernel: evidence against means, for many sets of rows, factors and cells of means at once.

A factor of a row is ``(1 + q(s))/exp(norm)``. Here s is a gain times how far the row lies from its valley, which for a
mean μ is at μ - τ, and for all means of a cell [lo, hi] reaches from lo - τ to hi - τ: so the factor at its least. With
lo = -∞ that is the form that is constant left of its valley. q is 0 in the valley, and rises on either side. Variance
factors have q = s²: 1 + λ(y + y²/2τ) = A·(1 + s²) with A = 1 - λτ/2 and s = (y + τ)·√(λ/2τA). So do those of a spread:
1 + t(z² - 1) = (1 - t)·(1 + s²) with s = z·√(t/(1 - t)).

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
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.votes.evidence.bins import Bins

Floats = NDArray[np.float64]

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

    The second derivative is a function of s and 1/(1 + q), the third at most `third` in size. φ'' must be positive as
    far as bend/third from the valley, so that what is said of bins holds where a cell of means makes a part of it flat.
    """

    q: Callable[[Floats], Floats]
    second: Callable[[Floats, Floats], Floats]
    steep: float
    bend: float
    peak: float
    hollow: tuple[float, float]
    third: float


#: φ' = 2s/(1 + s²) is largest at 1; φ'' = 2(1 - s²)/(1 + s²)² at 0, least at √3, and positive between -1 and 1;
#: the third derivative, 4s(s² - 3)/(1 + s²)³, is largest at √2 - 1.
SQUARE = Shape(np.square, lambda _, t: (4 * t - 2) * t, 1.0, 0.25, 2.0, (-1.0, 1.0), 1.5 + math.sqrt(2))


@dataclass(frozen=True)
class Factors:
    """Factors of one shape: arrays of (factors, cells of scales, sets).

    Attributes
    ----------
    depth, gain : ndarray
        τ, and what distances are multiplied by.
    norm : ndarray
        The logarithm of what 1 + q is on average, at most.
    rate : ndarray
        The slope of the logarithm of a factor at the mean: a search goes by it.
    log_weight : ndarray
        The logarithm of the weight in the mixture.
    shape : Shape
        q.
    """

    depth: Floats
    gain: Floats
    norm: Floats
    rate: Floats
    log_weight: Floats
    shape: Shape = SQUARE

    @classmethod
    def variance(cls, rate: Any, depth: Any, sd: Any, weight: Any) -> Factors:
        """Return 1 + λ(y + y²/2τ), for rows with an sd of at most `sd`: needs λτ < 2."""
        rate, depth, sd, weight = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (rate, depth, sd, weight)))
        least = 1 - rate * depth / 2
        with np.errstate(divide="ignore"):
            logs = np.log(weight)
        norm = np.log1p(rate * sd * (sd / (2 * depth))) - np.log(least)
        return cls(depth, np.sqrt(rate / (2 * depth * least)), norm, rate, logs)

    @classmethod
    def spread(cls, stake: Any, unit: Any) -> Factors:
        """Return 1 + t(z²/unit² - 1), a bet that the variance exceeds unit²."""
        stake, unit = np.broadcast_arrays(np.asarray(stake, dtype=float), np.asarray(unit, dtype=float))
        gain, zero = np.sqrt(stake / (1 - stake)) / unit, np.zeros(unit.shape)
        return cls(zero, gain, zero - np.log1p(-stake), gain, zero)

    def in_units(self, unit: Any) -> Factors:
        """Return the factors for rows `unit` times as large."""
        return replace(self, depth=self.depth * unit, gain=self.gain / unit, rate=self.rate / unit)

    def each(self, part: Callable[[Floats], Floats]) -> Factors:
        """Return some of them: a part of each array."""
        depth, gain, norm, rate, log_weight = map(part, (self.depth, self.gain, self.norm, self.rate, self.log_weight))
        return Factors(depth, gain, norm, rate, log_weight, self.shape)


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
        n_rows, n, none = sizes.astype(float), np.full(2 * n_sets, float(points.shape[1])), np.zeros(2 * n_sets)
        return cls(
            points, None, n_rows, n, k + (n - n_rows), paid.astype(float), points[:, : len(step)], right,
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


def log_products(atoms: Atoms, f: Factors, lo: Floats | None, hi: Floats) -> Floats:
    """Return the logarithm of each product of factors that is left without the k largest.

    Factors are at their least for means from `lo` (None is -∞) to `hi`, one for each set. It is never too large: what
    rounding may add is taken off.

    Returns
    -------
    ndarray of shape (factors, cells of scales, sets)
    """
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
            np.minimum(pay, np.expm1(theta)[..., None], out=pay)
            pay += 1.0
            total = _sum_of_logs(pay)
        else:
            pay += 1.0
            np.minimum(pay, _FINITE, out=pay)
            total = _sum_of_bins(atoms, f, s, pay, theta)
            lowest = top[..., 0] if bottom is None else bottom[..., 0]
            total[(top[..., 0] > atoms.known[:, 1]) | (lowest < atoms.known[:, 0])] = -np.inf
        total -= atoms.n * f.norm + atoms.k * (theta - f.norm) + atoms.paid * f.norm
        return total - (_ROUNDING * (atoms.n + atoms.k * theta) + _FIXED)


def _sum_of_bins(atoms: Atoms, f: Factors, s: Floats, pay: Floats, theta: Floats) -> Floats:
    """Return lower bounds on the sums of min(φ, θ), given s and 1 + q at the points of bins."""
    of_bins: Any = atoms.bins
    shape, gain, theta = f.shape, f.gain[..., None], theta[..., None]
    size, n = of_bins.shape[2], atoms.others.shape[2]
    logs = np.log(pay)
    bent = np.maximum(-shape.second(s[..., :size], 1 / pay[..., :size]), 0.0)
    bent += gain * (shape.third / 3) * of_bins[:, 2]
    np.minimum(bent, shape.bend, out=bent)
    bent *= of_bins[:, 1]
    bent *= gain * gain / -2
    bent += logs[..., :size] * of_bins[:, 0]
    total = bent[..., : size - n].sum(-1) - f.gain * shape.steep * atoms.unsure
    if not n:
        return total
    low, high = logs[..., size : size + n], logs[..., size + n :]
    whole = np.maximum(low, high) <= theta
    low, high = np.minimum(low, theta), np.minimum(high, theta)
    least = atoms.others[:, 0] * low + atoms.others[:, 1] * high - np.abs(high - low) * atoms.others[:, 3]
    # Where both ends are equal all rows of the bin are in the valley of the cell, or at one point.
    low, high = s[..., size : size + n], s[..., size + n :]
    hollow = (low < shape.hollow[1]) & (high > shape.hollow[0]) & (low < high)
    least -= hollow * (gain * gain * (shape.peak / 2) * atoms.others[:, 2])
    np.maximum(least, bent[..., size - n :] - gain * shape.steep * atoms.others[:, 4], out=least, where=whole)
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
    factors : Factors
        The factors, the main one first.
    price : ndarray
        The logarithm of what evidence must reach, for each set.
    """

    atoms: Sequence[Atoms]
    factors: Factors
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
            return [self.factors]
        return [self.factors.each(partial(_line, j=j)) for j in range(len(self.factors.depth))]

    def at(self, sets: Any) -> Excess:
        """Return the tests of some sets."""
        if len(sets) == len(self.price) and (sets.dtype != bool or sets.all()):  # in order, and none twice
            return self
        return Excess([one.at(sets) for one in self.atoms], self.factors.each(lambda x: x[..., sets]), self.price[sets])

    @cached_property
    def first(self) -> Floats:
        """About twice how far ends are from the middle; it does not depend on how many rows may be dropped."""
        f, shape = self._main, self.factors.shape
        at_mean = f.norm - np.log1p(shape.q(f.gain * f.depth))  # the factor is 1 there, if rows have no spread
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
        return self.factors.depth.max(axis=(0, 1))

    @cached_property
    def slope(self) -> Floats:
        """How fast the evidence falls, about."""
        return self.atoms[0].n_rows * self._main.rate

    @cached_property
    def _main(self) -> Factors:
        """The first factor of the first cell, without these axes."""
        return self.factors.each(lambda x: x[0, 0])


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
        above[left] = part(low[left], low[left])
        left = left[(above[left] > 0.5 * part.price) & (moved > 0.02 * part.first)]
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
