"""Exact intervals for the difference, or the ratio, of two proportions, with corrupt rows in both.

The lower end of p_b - p_a is 1 less an upper bound on p₁ + p₂, where p₁ is the share of ones of a and p₂ that of zeros
of b; the upper end the same with zeros of a and ones of b. Clean ones of a, and clean zeros of b, are at most as many
as there are, whatever the corrupt rows say. So a value is ruled out if two independent binomial numbers, one for each
sample, would be as small as these with probability α at most, whichever pair of shares has this sum. "As small" goes by
an order fixed beforehand: that of a textbook bound. For ratios the bound is on p₁/(1 - p₂).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from outvote.votes.evidence.factors import Floats
from outvote.votes.evidence.interval import EvidenceInterval
from outvote.votes.evidence.proportion import Tally, lower_bound, seen_difference, upper_bound
from outvote.votes.roots import falling_root
from outvote.votes.terms import Terms

Ints = NDArray[np.int64]

#: Share of δ for the interval of one of the proportions, outside of which the other one is not looked at.
_OF_ONE = 0.02
#: Length of a cell of proportions, in units of sd of √: one costs about its square over 16 in log α.
_CELL, _MOST_CELLS = 0.6, 256
#: How finely corrupt rows are split between the samples, at most.
_SPLITS = 16
#: Ends are found to this share of a standard error, and computed tails are enlarged by that much for rounding.
_TOLERANCE, _ROUNDING = 1e-3, 1e-6
_TINY = 1e-300
#: Logarithms of ratios beyond this are infinite.
_FARTHEST = 18.0


@dataclass(frozen=True)
class _Arm:
    """Rows of one kind (ones or zeros) in a sample: the most that clean ones can be, trials, and rows in all."""

    most: int
    n_trials: int
    n_rows: int

    @classmethod
    def of(cls, tally: Tally, *, ones: bool) -> _Arm:
        """Count the ones, or the zeros. The number is not cut at that of the trials: it may only rise with m."""
        seen = (tally.n_ones if ones else tally.n_zeros) + (tally.n_corrupt if tally.adaptive else 0)
        return cls(min(seen, tally.n_rows), tally.n_trials, tally.n_rows)

    def span(self, tally: Tally, alpha: float, *, ones: bool) -> tuple[float, float]:
        """Return Clopper and Pearson's interval of the share of this kind, wrong on either side with alpha."""
        most, others = (tally.most_ones, tally.most_zeros) if ones else (tally.most_zeros, tally.most_ones)
        return lower_bound(self.n_trials - others, self.n_trials, alpha), upper_bound(most, self.n_trials, alpha)


def rates_interval(
    a: Tally,
    b: Tally,
    terms: Terms,
    *,
    relative: bool = False,
    together: int | None = None,
    only: int = 0,
    beyond: float | None = None,
) -> EvidenceInterval:
    """Return the interval of p_b - p_a, or of p_b/p_a - 1; arguments as for `difference_interval`.

    With `only` and `beyond` an end is infinite: on the side of `beyond` on which the true one is.

    Examples
    --------
    >>> from outvote.votes.terms import Terms
    >>> found = rates_interval(Tally(970, 30, 0), Tally(950, 50, 0), Terms(math.log(0.05)))
    >>> round(found.low, 3), round(found.high, 3)
    (0.003, 0.038)
    """

    def end(sign: int) -> float:
        search = _Search((a, b) if sign > 0 else (b, a), terms, relative, together, turned=sign < 0)
        if beyond is not None:
            # The value that is compared with, as a sum of two shares or as a quotient of them.
            ratio = max(1 + beyond, _TINY)
            value = (1 / ratio if sign > 0 else ratio) if relative else 1 - sign * beyond
            return sign * math.inf if search.ruled_out(value) else -sign * math.inf
        bound = search.bound()
        if relative:
            return (1 / bound if bound > 0 else math.inf) - 1 if sign > 0 else bound - 1
        return sign * (1 - bound)

    low, high = (-1.0, math.inf) if relative else (-1.0, 1.0)
    if terms.alternative != "less" and only >= 0:
        low = end(1)
    if terms.alternative != "greater" and only <= 0:
        high = end(-1)
    return EvidenceInterval.around(low, high, seen_difference(a, b, relative=relative))


@dataclass(frozen=True)
class _Search:
    """The search for an upper bound on p₁ + p₂, or on p₁/(1 - p₂), over every split of the corrupt rows.

    The first sample counts ones, the second zeros.
    """

    samples: tuple[Tally, Tally]
    terms: Terms
    relative: bool
    together: int | None
    turned: bool = False

    @cached_property
    def free(self) -> int:
        """How many corrupt rows that are not found may be in either sample."""
        return max((self.together or 0) - sum(one.n_found for one in self.samples), 0)

    @cached_property
    def _width(self) -> int:
        """How many neighbouring splits are taken together: a power of two, so that larger numbers nest smaller ones."""
        return 1 << max((self.free // _SPLITS).bit_length(), 0)

    def ruled_out(self, value: float) -> bool:
        """Return whether a value is ruled out for every split."""
        return self._open(value, 0, self._n_blocks) is None

    def bound(self) -> float:
        """Return the largest bound over all splits."""
        blocks = [self._test(k, k + 1) for k in range(self._n_blocks)]
        found = max(blocks, key=lambda test: test.guess()[0]).bound()
        while (
            found < (math.inf if self.relative else 2.0) and (test := self._open(found, 0, self._n_blocks)) is not None
        ):
            found = max(test.bound(), math.nextafter(found, math.inf))
        return found

    @property
    def _n_blocks(self) -> int:
        return 1 if self.together is None else self.free // self._width + 1

    def _open(self, value: float, first: int, last: int) -> _Test | None:
        """Return the test of a block of splits that does not rule the value out; None if all do.

        Blocks are tested together, and one half after the other where that does not settle it.
        """
        test = self._test(first, last)
        if test.excess(value) < 0:
            return None
        if last - first == 1:
            return test
        middle = (first + last) // 2
        return self._open(value, first, middle) or self._open(value, middle, last)

    def _test(self, first: int, last: int) -> _Test:
        """Return the test for splits from the block `first` to the one before `last`: each sample may have its most."""
        one, two = self.samples
        if self.together is not None:
            least, most = first * self._width, min(last * self._width - 1, self.free)
            one = one.allowing(min(one.n_found + most, one.n_rows))
            two = two.allowing(min(two.n_found + self.free - least, two.n_rows))
        return _Test.of(one, two, self.terms, relative=self.relative, turned=self.turned)


@dataclass(frozen=True)
class _Test:
    """Whether values of p₁ + p₂, or of p₁/(1 - p₂), are ruled out, for one number of corrupt rows in each sample.

    Attributes
    ----------
    arms : pair of _Arm
        The ones of the first sample, and the zeros of the second.
    known : int
        Which of the two shares is looked through; the other one follows from it and the value.
    span : tuple of float
        What the rows of that sample leave of it.
    price : float
        A value is ruled out if the logarithm of the tail's probability is at most minus this number.
    relative : bool
        Whether the value is a quotient.
    """

    arms: tuple[_Arm, _Arm]
    known: int
    span: tuple[float, float]
    price: float
    relative: bool

    @classmethod
    def of(cls, one: Tally, two: Tally, terms: Terms, *, relative: bool, turned: bool) -> _Test:
        """Prepare the test; the share of the larger sample, known better, is the one that is looked through.

        Of two as large it is that of the same sample for both ends (`turned` for the second): it has one share of δ.
        """
        arms = (_Arm.of(one, ones=True), _Arm.of(two, ones=False))
        known = int(two.n_rows > one.n_rows or (two.n_rows == one.n_rows and turned))
        alpha = _OF_ONE * math.exp(terms.log_delta) / 2
        span = arms[known].span((one, two)[known], alpha, ones=known == 0)
        return cls(arms, known, span, terms.price - math.log1p(-_OF_ONE), relative)

    @cached_property
    def _z(self) -> float:
        """The quantile that the order of pairs of numbers uses; it may be any positive number fixed beforehand."""
        from scipy.special import ndtri

        return max(float(-ndtri(math.exp(-self.price))), 0.5)

    def order(self, first: Ints, second: Ints) -> Floats:
        """Return what pairs of numbers are ordered by: a textbook upper bound, which rises with both.

        Shares are (k + z²/2)/(n + z²), Agresti and Coull's. By the delta method p₁ + p₂ has the variance
        Σ p(1-p)/n, and log p₁ - log(1-p₂) has (1-p₁)/(n₁p₁) + p₂/(n₂(1-p₂)).
        """
        z = self._z
        n, m = (arm.n_rows + z * z for arm in self.arms)
        p, q = (first + z * z / 2) / n, (second + z * z / 2) / m
        if self.relative:
            return np.log(p) - np.log1p(-q) + z * np.sqrt((1 - p) / (n * p) + q / (m * (1 - q)))
        return p + q + z * np.sqrt(p * (1 - p) / n + q * (1 - q) / m)

    def guess(self) -> tuple[float, float]:
        """Return about where the bound is, and a standard error; for quotients of their logarithms."""
        shares = [min((arm.most + 1) / (arm.n_trials + 2), 1.0) for arm in self.arms]
        spread = [p * (1 - p) / (arm.n_trials + 1) for p, arm in zip(shares, self.arms, strict=True)]
        middle, scales = sum(shares), (1.0, 1.0)
        if self.relative:
            rest = max(1 - shares[1], 1e-9)
            middle, scales = math.log(shares[0] / rest), (shares[0], rest)
        error = math.hypot(*(math.sqrt(one) / scale for one, scale in zip(spread, scales, strict=True))) + 1e-9
        return middle + self._z * error, error

    def bound(self) -> float:
        """Return a number such that every larger value is ruled out."""
        value_of, top, bottom = (math.exp, _FARTHEST, -_FARTHEST) if self.relative else (float, 2.0, 0.0)
        guess, error = self.guess()
        at_top = self.excess(value_of(top))
        if at_top >= 0:
            return math.inf if self.relative else top
        high, below = top, at_top
        low, step = min(max(guess, bottom), top), 0.2 * error
        above = self.excess(value_of(low))
        while above < 0 and low > bottom:
            high, below = low, above
            low, step = max(low - step, bottom), 2 * step
            above = self.excess(value_of(low))
        while high == top and low + step < top:
            here = self.excess(value_of(low + step))
            if here < 0:
                high, below = low + step, here
                break
            low, above, step = low + step, here, 2 * step
        found = falling_root(lambda y: self.excess(value_of(y)), low, high, above, below, _TOLERANCE * error)
        return float(value_of(found[1]))

    def excess(self, value: float) -> float:
        """Return the price plus the logarithm of the largest probability of the tail: negative if it is ruled out.

        Between t - h and t + h the tail is at most its tangent bound: every term of the sum has a logarithm that is
        concave in t, so it is at most `term(t)·exp(slope·h)`. These terms add up to a tail of binomial numbers with
        other shares, times a constant, and their sum is convex in h: its ends suffice.
        """
        intercept, slope = (value, -1.0)
        if self.relative:
            intercept, slope = (value, -value) if self.known else (1.0, -1.0 / value)
        low = max(self.span[0], (intercept - 1) / -slope)  # else the other share would exceed 1
        if low > self.span[1]:
            return -math.inf
        edges = self._edges(intercept, slope)
        middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
        shares, logs = np.array([low]), np.zeros(1)
        others = np.clip(intercept + slope * shares, 0.0, 1.0)
        for sign in (1, -1) if len(middle) else ():
            here, cost = _tilted(middle, sign * half)
            there, more = _tilted(intercept + slope * middle, sign * slope * half)
            shares, others = np.append(shares, here), np.append(others, there)
            n, m = self.arms[self.known].n_rows, self.arms[1 - self.known].n_rows
            logs = np.append(logs, n * cost + m * more)
        first, second = (others, shares) if self.known else (shares, others)
        tails = self._tails(first, second)
        with np.errstate(divide="ignore"):
            return self.price + float(np.max(logs + np.log(tails * (1 + _ROUNDING))))

    def _edges(self, intercept: float, slope: float) -> Floats:
        """Return the ends of cells of the share that is looked through, as far as the other one is within [0, 1].

        They are where 2√n·asin√t - 2√m·asin√(other share) is a multiple of a number, whatever the span: the cells of a
        part of it are among those of the whole.
        """
        first, last = max((intercept - 1) / -slope, 0.0), min(intercept / -slope, 1.0)
        low, high = max(self.span[0], first), min(self.span[1], last)
        if not low <= high or not first < last:
            return np.empty(0)
        n, m = (2 * math.sqrt(self.arms[k].n_rows) for k in (self.known, 1 - self.known))

        def place(t: Floats) -> Floats:
            other = np.clip(intercept + slope * t, 0.0, 1.0)
            return n * np.arcsin(np.sqrt(t)) - m * np.arcsin(np.sqrt(other))

        begin, end = place(np.array([low, high]))
        step = _CELL * 2.0 ** max(math.ceil(math.log2(max(end - begin, _CELL) / (_CELL * _MOST_CELLS))), 0)
        wanted = step * np.arange(math.floor(begin / step), math.ceil(end / step) + 1)
        below, above = (
            np.full(len(wanted), math.asin(math.sqrt(first))),
            np.full(len(wanted), math.asin(math.sqrt(last))),
        )
        for _ in range(48):
            middle = (below + above) / 2
            less = place(np.sin(middle) ** 2) < wanted
            below, above = np.where(less, middle, below), np.where(less, above, middle)
        edges = np.clip(np.sin(above) ** 2, first, last)
        edges[0], edges[-1] = min(edges[0], low), max(edges[-1], high)
        return np.unique(edges)

    def _tails(self, first: Floats, second: Floats) -> Floats:
        """Return the probability that a pair of numbers is at most the one that was seen, for each pair of shares."""
        one, two = (
            _Window.around(p, arm.n_trials, self.price) for p, arm in zip((first, second), self.arms, strict=True)
        )
        at_most = two.at_most(self._boundary(one.counts), one)
        return np.minimum((one.chances * at_most).sum(axis=1) + one.outside, 1.0)

    def _boundary(self, first: Ints) -> Ints:
        """Return, for each first number, the largest second one with which the pair is in the tail; -1 if none is."""
        seen = self.order(*(np.array([arm.most]) for arm in self.arms)) + 1e-12
        first = np.minimum(first, self.arms[0].n_rows)
        below, above = np.full(len(first), -1), np.full(len(first), self.arms[1].n_trials + 1)
        while (above - below > 1).any():
            middle = (below + above) // 2
            inside = (self.order(first, np.maximum(middle, 0)) <= seen) & (middle >= 0)
            below, above = np.where(inside, middle, below), np.where(inside, above, middle)
        return below


def _tilted(p: Floats, shift: Floats) -> tuple[Floats, Floats]:
    """Return the share after a tilt, and the logarithm of what it costs for each trial.

    Binomial terms, times ``exp(shift·(k/p - (n-k)/(1-p)))``, are those of another distribution times a constant.
    """
    p = np.clip(p, 1e-15, 1 - 1e-15)
    up, down = p * np.exp(shift / p), (1 - p) * np.exp(-shift / (1 - p))
    return up / (up + down), np.log(up + down)


@dataclass(frozen=True)
class _Window:
    """Binomial probabilities of the numbers that matter, for several shares at once.

    Attributes
    ----------
    start : ndarray
        The first number of each.
    counts : ndarray
        All numbers from the smallest of these on.
    chances : ndarray
        A row of probabilities for each share.
    before, outside : ndarray
        Probabilities of smaller numbers, and of all that have no place.
    """

    start: Ints
    counts: Ints
    chances: Floats
    before: Floats
    outside: Floats

    @classmethod
    def around(cls, p: Floats, n: int, price: float) -> _Window:
        """Return the window around the mean of each."""
        from scipy.special import betainc, gammaln

        reach = (8 + math.sqrt(2 * price)) * np.sqrt(n * p * (1 - p)) + price + 20
        start = np.floor(np.maximum(n * p - reach, 0)).astype(np.int64)
        size = int((np.ceil(np.minimum(n * p + reach, n)).astype(np.int64) - start).max()) + 1
        counts = np.arange(start.min(), start.max() + size)
        inside = np.minimum(counts, n)
        ways = gammaln(n + 1) - gammaln(inside + 1) - gammaln(n - inside + 1)
        ways[counts > n] = -math.inf
        k = start[:, None] + np.arange(size)
        up, down = np.log(np.maximum(p, _TINY))[:, None], np.log(np.maximum(1 - p, _TINY))[:, None]
        chances = np.exp(ways[k - counts[0]] + np.minimum(k, n) * up + np.maximum(n - k, 0) * down)
        before = np.where(start > 0, betainc(n - start + 1, np.maximum(start, 1), 1 - p), 0.0)
        last = np.minimum(start + size - 1, n)
        after = np.where(last < n, betainc(last + 1, np.maximum(n - last, 1), p), 0.0)
        return cls(start, counts, chances, before, before + after)

    def at_most(self, largest: Ints, other: _Window) -> Floats:
        """Return the probability of at most so many, given for each count of the other window."""
        sums = np.cumsum(self.chances, axis=1) + self.before[:, None]
        wanted = largest[other.start[:, None] - other.counts[0] + np.arange(other.chances.shape[1])]
        place = wanted - self.start[:, None]
        found = np.take_along_axis(sums, np.clip(place, 0, sums.shape[1] - 1), axis=1)
        found = np.where(place < 0, self.before[:, None], found)
        return np.where(wanted < 0, 0.0, np.where(place >= sums.shape[1], 1.0, found))
