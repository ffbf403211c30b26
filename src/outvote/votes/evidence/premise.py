"""The premise that stands in for what is not declared: an sd that is read off the rows, and the interval that it gives.

Leave out the rows that no ordinary tail explains; take the mean and the sd of the others; test every mean with evidence
that survives the loss of as many rows as may be corrupt. *Any* number may be chosen for the sd after seeing the rows:
the probability that the clean rows' sd is at most that number, and their mean outside of its interval, is at most δ.

Scales come in fixed cells, from 2^((k-1)/3) to 2^(k/3). The clean rows' sd σ lies in one of them, for which the factors
were fixed beforehand; a larger sd at its top only lowers the evidence, so that the interval for an sd of at most s,
which is the union over all cells up to s, contains that for σ if σ ≤ s. Cells far below s are ruled out by the spread
of the rows: a row x lies at least (x - end)₊ from every mean up to an end. Each end has 0.48 of δ, and the spread,
which is one bet for both ends, 0.02: so an interval of one end at δ, with shares of 2δ, is that end of the two-sided
one at 2δ.

The factors do not depend on the confidence: so intervals are nested in it. A deep factor bets little, and stays right
even if the sd is somewhat too small: it has most of the weight. A corrupt row nearer than its depth counts about as it
does in a plain mean; against such rows there are factors of other depths, which fall to a third each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.votes.evidence import kernel
from outvote.votes.evidence.bins import Bins
from outvote.votes.evidence.factors import premise_factors
from outvote.votes.evidence.kernel import STAKES, Atoms, Excess, Factors, Floats, log_products

#: In a tail of exponent 2.5 fewer than j/20 rows would lie where the j-th farthest must lie to be gross.
_RARE, _TAIL = 20.0, 2.5
#: The premise is so many times the sd of the rows that are not gross, and by so much more over √n.
_TIMES, _MORE = 1.25, 3.0
#: The point is the mean of these rows, moved to within so many times the reach of the kept ones.
_REACH = 1.5
#: Shares of δ: of an end of a two-sided interval, and of what rules small scales out.
OF_END, OF_SPREAD = 0.48, 0.02
#: Cells of scales for each doubling.
_CELLS = 3
#: The confidence at which a premise is believed, whatever is asked for.
LOG_DELTA = math.log(0.05)
#: An end lies below the largest row kept by so many sds.
GAP = 1e-6
#: So many times an sd is not doubled; how often lower cells are looked at.
_LARGEST, _MOST_LOOKS = 2.0**100, 100
#: Numbers that are looked at together, and lower cells: so many for each set, whatever the others need.
_TOGETHER, _BELOW = 1 << 15, 4.0


class Read(NamedTuple):
    """What is read off sets of rows: an entry for each set.

    Attributes
    ----------
    sd : ndarray
        The sd that is the premise; 0 where all rows are equal.
    point : ndarray
        The point to report, if it lies in the interval.
    middle, limit : ndarray
        The median, and how far from it gross rows lie, which no ordinary tail explains; infinite where there are none.
    n_below, n_above : ndarray
        How many gross rows there are on either side.
    lower, upper : ndarray
        Gross rows are at most the first, or at least the second.
    least, most : ndarray
        The smallest and the largest of them; ∞ and -∞ where there are none.
    n_other : ndarray
        How many rows differ from the median.
    """

    sd: Floats
    point: Floats
    middle: Floats
    limit: Floats
    n_below: Floats
    n_above: Floats
    lower: Floats
    upper: Floats
    least: Floats
    most: Floats
    n_other: Floats

    @classmethod
    def of_rows(cls, table: Floats, sizes: Any, k: Any, *, screened: bool = True) -> Read:
        """Read the first rows of each line, which are in ascending order, of which so many may be corrupt.

        Unless they are `screened`, none is gross, and the point is the mean of all of them.
        """
        sizes, k = (np.broadcast_to(np.asarray(one), len(table)) for one in (sizes, k))
        line = np.arange(len(table))
        middle = _middle(table[line, (sizes - 1) // 2], table[line, sizes // 2])
        there = (np.arange(table.shape[1]) < sizes[:, None]).astype(float)
        return cls.of_points(table, there, middle, k, screened=screened)

    @classmethod
    def of_bins(cls, bins: Bins, k: int, middle: Any = None, *, screened: bool = True) -> Read:
        """Read a set of bins in the same way, as if the rows of a bin were at its mean but for their squares.

        Their median is read off the bins if it is not given.
        """
        n = bins.n_rows
        if middle is None:
            middle = _middle(bins.mean[bins.at((n - 1) // 2)], bins.mean[bins.at(n // 2)])
        within = np.where(np.isfinite(bins.squares), bins.squares, 0.0)
        found = cls.of_points(
            bins.mean[None], bins.count[None], np.array([middle]), np.array([k]), within, screened=screened
        )
        below, above = bins.mean <= found.lower, bins.mean >= found.upper
        lower, upper = bins.high[below].max(initial=-np.inf), bins.low[above].min(initial=np.inf)
        return found._replace(lower=np.array([lower]), upper=np.array([upper]))

    @classmethod
    def of_points(
        cls, points: Floats, weights: Floats, middle: Floats, k: Any, within: Any = 0.0, *, screened: bool = True
    ) -> Read:
        """Read points with weights, around a middle; `within` are squares that come on top."""
        n, k = weights.sum(axis=1), k[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            gaps = np.where(weights > 0, points - middle[:, None], 0.0)
        order = np.argsort(np.abs(gaps), axis=1, kind="stable")  # two runs: fast
        away, rows = (np.take_along_axis(one, order, axis=1) for one in (np.abs(gaps), weights))
        nearer = np.cumsum(rows, axis=1) - rows
        kept = np.argmax(nearer + rows >= n[:, None] - k, axis=1)
        reach = np.take_along_axis(away, kept[:, None], axis=1)
        number = np.maximum(n[:, None] - nearer, 1.0)  # of rows as far, or farther
        with np.errstate(over="ignore"):
            limits = reach * (_RARE * (k + 1) / number) ** (1 / _TAIL)
        gross = (away > limits) & (number <= k) & (rows > 0) & screened
        first = np.argmax(gross, axis=1)[:, None]
        limit = np.where(gross.any(axis=1), np.take_along_axis(limits, first, axis=1)[:, 0], np.inf)
        below, above = gaps < -limit[:, None], gaps > limit[:, None]
        rest = np.where(below | above, 0.0, weights)
        n_rest, gaps = rest.sum(axis=1), np.where(rest > 0, gaps, 0.0)
        size = np.frexp(np.abs(gaps).max(axis=1, initial=0.0))[1][:, None].astype(int)  # so that squares are floats
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            gaps, reach = np.ldexp(gaps, -size), _REACH * np.ldexp(reach if screened else np.inf, -size)
            offset = (rest * gaps).sum(axis=1) / n_rest
            spread = rest * np.square(gaps - offset[:, None]) + np.where(rest > 0, np.ldexp(within, -2 * size), 0.0)
            moved = np.ldexp((rest * np.clip(gaps, -reach, reach)).sum(axis=1) / n_rest, size[:, 0])
            times = _TIMES + _MORE / np.sqrt(n)
            sd = np.ldexp(times * np.sqrt(spread.sum(axis=1) / n_rest), size[:, 0])
        far = below | above
        return cls(
            sd, middle + moved, middle, limit, (weights * below).sum(axis=1), (weights * above).sum(axis=1),
            np.where(below, points, -np.inf).max(axis=1), np.where(above, points, np.inf).min(axis=1),
            np.where(far, points, np.inf).min(axis=1), np.where(far, points, -np.inf).max(axis=1),
            (weights * (points != middle[:, None])).sum(axis=1),
        )  # fmt: skip


def _middle(lower: Any, upper: Any) -> Any:
    """Return the mean of two numbers, without overflow or underflow on the way."""
    return np.where(lower == upper, lower, lower / 2 + upper / 2)


def unreadable(read: Read, k: Any) -> NDArray[np.bool_]:
    """Return for which sets the rows that are kept hardly differ: fewer than half as many do as may be corrupt."""
    return read.n_other < 1.5 * np.asarray(k)


class Scaled:
    """Sets of rows, less a number in their middle, and in units of a power of two near a scale of each.

    Parameters
    ----------
    atoms : sequence of Atoms
        The rows; of several ways to take them the evidence is averaged.
    scales : array-like
        Positive numbers.
    """

    def __init__(self, atoms: Sequence[Atoms], scales: Any):
        scales = np.asarray(scales, dtype=float)
        self.n_sets, self._exponent = len(scales), np.frexp(scales)[1].astype(int)
        self._scales, self._centre = np.ldexp(scales, -self._exponent), atoms[0].middle[: len(scales)]
        centre = np.concatenate([self._centre, -self._centre])
        self._atoms = [one.standardised(centre, np.tile(-self._exponent, 2)) for one in atoms]

    def test(self, factors: Sequence[Factors], price: float) -> Excess:
        """Return the test of all sets, in both directions, by factors in units of the scales."""
        unit = np.tile(self._scales, 2)
        ready = [one.at_scale(unit, unit) for one in factors]
        return Excess(self._atoms, ready, np.full(len(unit), price))

    def given(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return numbers as the rows were given, moved outwards by what rounding may do."""
        with np.errstate(over="ignore"):
            low, high = (np.ldexp(one, self._exponent) + self._centre for one in (low, high))
        outwards = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
        return np.where(np.isinf(low), low, outwards[0]), np.where(np.isinf(high), high, outwards[1])

    def lacking(self, factors: Sequence[Factors], price: float, low: float, high: float) -> Floats:
        """Return by how much evidence falls short of ruling out all means below an end, and all above the other."""
        ends = np.array([low, -high]) - np.concatenate([self._centre, -self._centre])
        test = self.test(factors, price)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.maximum(-test(None, np.ldexp(ends, np.tile(-self._exponent, 2))), 0.0)

    def declared(self, factors: Sequence[Factors], price: float, alternative: str) -> tuple[float, float]:
        """Return the ends of the interval of a set if its scale is right, as far as asked for."""
        found = np.array([-np.inf, -np.inf])
        which = np.flatnonzero([alternative != "less", alternative != "greater"])
        with np.errstate(over="ignore", invalid="ignore"):
            found[which] = kernel.ends(self.test(factors, price).at(which))[0]
        low, high = self.given(found[:1], -found[1:])
        return float(low[0]), float(high[0])

    def log_spread(self, lo: Any, hi: Any, sds: Any) -> Floats:
        """Return the logarithm of the evidence that variances exceed some, whatever means from `lo` to `hi` there are.

        For each set, and for several cells of means or several sds, on an axis before that of the sets.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            unit = np.ldexp(np.asarray(sds, dtype=float), -self._exponent).reshape(1, -1, self.n_sets)
            ends = (np.asarray(one, dtype=float) - self._centre for one in (lo, hi))
            lo, hi = (np.clip(np.ldexp(one, -self._exponent), -1e300, 1e300) for one in ends)
            f = Factors.spread(np.reshape(STAKES, (-1, 1, 1)), np.tile(unit, (len(STAKES), 1, 1)))
            one = self._atoms[0].at(np.arange(self.n_sets))
            return kernel.mixed(log_products(one, f, lo, hi) + f.log_weight)


class Premises(Scaled):
    """Sets of rows, and what evidence leaves of their means if their sds are at most some numbers.

    Parameters
    ----------
    atoms : sequence of Atoms
        The rows; of several ways to take them the evidence is averaged.
    n_rows : array-like
        How many rows each set has, those found to be corrupt among them: the factors are for these.
    sds : array-like
        Positive numbers.
    adaptive : bool
        Whether whoever corrupted the rows had seen them.
    factors : sequence of Factors, optional
        Factors for an sd of 1, if not those for so many rows.
    share : float, optional
        The share of δ of each end, if not what the spread leaves of it.
    """

    def __init__(
        self,
        atoms: Sequence[Atoms],
        n_rows: Any,
        sds: Any,
        *,
        adaptive: bool = False,
        factors: Sequence[Factors] | None = None,
        share: float = OF_END,
    ):
        n_rows, sds = np.broadcast_arrays(np.asarray(n_rows, dtype=float), np.asarray(sds, dtype=float))
        super().__init__(atoms, sds)
        self._adaptive, self._log_share, self._n_rows = adaptive, math.log(share), np.tile(n_rows, 2)
        if factors is None:
            kinds, which = np.unique(n_rows, return_inverse=True)
            lists = [premise_factors(n, adaptive=adaptive) for n in kinds.tolist()]
            lines = np.zeros((3, max(map(len, lists)), len(lists)))
            for j, some in enumerate(lists):
                lines[:, : len(some), j] = np.array([(one.rate, one.depth, one.weight) for one in some]).T
                lines[:2, len(some) :, j] = lines[:2, :1, j]  # of no weight
            rate, depth, weight = np.tile(lines[:, :, which.ravel()], 2)[:, :, None]
            factors = [Factors.variance(rate, depth, 1.0, weight)]
        self._factors = [one.each(lambda x: np.broadcast_to(x, (*x.shape[:2], 2 * len(sds)))) for one in factors]
        self._believed: tuple[Any, Any] = (None, None)

    def believed(self) -> Floats:
        """Return the sds, doubled as long as the rows contradict them."""
        sds, left = self._scales.copy(), np.arange(self.n_sets)
        ends = np.empty((2, self.n_sets))
        while len(left):
            ends[:, left] = self._interval(left, sds[left], LOG_DELTA)
            left = left[~(ends[0, left] <= ends[1, left]) & (sds[left] < _LARGEST)]
            sds[left] *= 2
        sds = np.ldexp(sds, self._exponent)
        self._believed = sds, ends
        return sds

    def interval(self, sds: Any, log_delta: float) -> tuple[Floats, Floats]:
        """Return the ends of the two-sided intervals at δ; each is that of one side at δ/2."""
        if sds is self._believed[0] and math.isclose(log_delta, LOG_DELTA):
            low, high = self._believed[1]
        else:
            sds = np.ldexp(np.broadcast_to(np.asarray(sds, dtype=float), self.n_sets), -self._exponent)
            low, high = self._interval(np.arange(self.n_sets), sds, log_delta)
        return self.given(low, high)

    def _interval(self, sets: NDArray[np.intp], sds: Floats, log_delta: float) -> Floats:
        """Return both ends for some sets, looking at some of them at a time."""
        found, at_once = np.empty((2, len(sets))), max(_TOGETHER // self._atoms[0].points.shape[1], 1)
        for start in range(0, len(sets), at_once):
            part = sets[start : start + at_once]
            both, own = np.concatenate([part, part + self.n_sets]), np.tile(sds[start : start + at_once], 2)
            with np.errstate(over="ignore", invalid="ignore"):  # rows far out, and means beyond all of them
                found[:, start : start + at_once] = self._ends(both, own, log_delta).reshape(2, -1)
        found[1] *= -1
        return found

    def _test(self, sets: NDArray[np.intp], sds: Floats, log_delta: float, cells: Floats) -> Excess:
        """Return the test of some sets, in one direction each, for cells of scales."""
        unit, top = np.exp2((cells - 0.5) / _CELLS), np.minimum(np.exp2(cells / _CELLS), sds)
        factors = [one.each(lambda x: x[..., sets]).at_scale(unit, top) for one in self._factors]
        return Excess([one.at(sets) for one in self._atoms], factors, np.full(len(sets), -log_delta - self._log_share))

    def _ends(self, sets: NDArray[np.intp], sds: Floats, log_delta: float) -> Floats:
        """Return numbers below which every mean is ruled out for every scale up to the sds."""
        tops, atoms, half = _cell_of(sds), self._atoms[0].at(sets), len(sets) // 2
        # Either of the two highest cells may have the wider interval; those below mostly follow.
        found, start = kernel.ends(self._test(sets, sds, log_delta, tops - np.arange(2.0)[:, None]))
        # Some row that is kept must lie above, or the spread rules nothing out.
        most = atoms.right[:, 0]
        found = np.minimum(found, most - np.maximum(GAP * sds, 4 * np.spacing(np.abs(most))))
        # Where the highest scale leaves nothing, all others must rule out the means on either side of the middle.
        nothing = np.flatnonzero(found[:half] > -found[half:])
        middle = np.clip(atoms.middle[nothing], -found[half:][nothing], found[nothing])
        found[nothing], found[half + nothing] = middle, -middle
        left = np.flatnonzero(np.isfinite(found))
        bottoms = tops.copy()
        bottoms[left] = _lowest_cells(
            atoms.at(left), found[left], tops[left], -log_delta - math.log(OF_SPREAD), self._n_rows[sets[left]]
        )
        found[bottoms == -np.inf] = -np.inf
        left = left[np.isfinite(found[left])]
        cell = tops - 2
        lower = left[cell[left] >= bottoms[left]]
        while len(lower):
            cells = np.maximum(cell[lower] - np.arange(_BELOW)[:, None], bottoms[lower])
            test = self._test(sets[lower], sds[lower], log_delta, cells)
            passed = test(None, found[lower]) >= 0
            if not passed.all():
                some = np.flatnonzero(~passed)
                part, begin = test.at(some), start[lower[some]]
                passed[some] = (part(begin, found[lower[some]]) >= 0) & (part(None, begin) >= 0)
            some = np.flatnonzero(~passed)
            if len(some):
                found[lower[some]] = np.minimum(found[lower[some]], kernel.ends(test.at(some))[0])
            cell[lower] -= _BELOW
            lower = lower[(cell[lower] >= bottoms[lower]) & np.isfinite(found[lower])]
        nothing = nothing[found[nothing] == -found[half + nothing]]
        found[nothing] = found[half + nothing] = np.inf
        return found


def _cell_of(sds: Floats) -> Floats:
    """Return the cells of scales that end at numbers or above: rounded up, for a cell too high is safe."""
    return np.ceil(_CELLS * np.log2(sds) + 1e-9)


def _lowest_cells(atoms: Atoms, end: Floats, tops: Floats, price: float, n_rows: Floats) -> Floats:
    """Return cells of scales below which the spread of the rows above an end rules out all, or the highest.

    The stake depends on how many rows there are, those found to be corrupt among them. -∞ where no cell is found.
    """
    most = (atoms.right[:, 0] - end)[:, None]
    squares = np.square(np.minimum(np.maximum(atoms.points - end[:, None], 0.0), most))
    total = (squares * atoms.rows).sum(axis=1) - atoms.k * most[:, 0] ** 2
    error = price / n_rows
    ratio = 1 + np.sqrt(5 * error) + 2 * error  # what it takes, about
    with np.errstate(divide="ignore", invalid="ignore"):
        guess = np.floor(_CELLS / 2 * np.log2(np.maximum(total / (atoms.n - atoms.k) / ratio, 1e-300)))
    stake = np.clip(np.sqrt(error), 0.003, 0.3)
    below = np.minimum(np.nan_to_num(guess, nan=-1e3), tops - 1) + np.arange(-2.0, 2.0)[:, None]
    for _ in range(_MOST_LOOKS):
        possible = log_products(atoms, Factors.spread(stake[None], np.exp2(below / _CELLS)[None]), None, end)[0] < price
        if not possible[0].any():
            break
        below = np.where(possible[0], below - 3, below)
    found = np.minimum(np.where(possible.any(axis=0), below[0] + np.argmax(possible, axis=0), below[-1] + 1), tops)
    return np.where(possible[0], -np.inf, found)
