"""Intervals for the difference, or the ratio, of two means."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from typing import Any

import numpy as np

from outvote.assumptions import Assumption, Bounded, BoundedRatio, FiniteKurtosis
from outvote.votes.evidence.interval import (
    CELL,
    EvidenceInterval,
    bounded_ratio_interval,
    declared_ends,
    free_interval,
    premise_interval,
)
from outvote.votes.evidence.joint import Differences, Joint, Pair, pairs_of_factors
from outvote.votes.evidence.kernel import ends as kernel_ends
from outvote.votes.evidence.premise import Scaled
from outvote.votes.evidence.proportion import Tally, proportion_interval, seen_difference
from outvote.votes.evidence.rates import rates_interval
from outvote.votes.evidence.ratio import RatioRows
from outvote.votes.evidence.rows import SortedRows
from outvote.votes.evidence.running import running_interval, sizes_near
from outvote.votes.evidence.running_bounded import bounded_difference
from outvote.votes.evidence.running_rates import running_rates
from outvote.votes.evidence.scale import Pairs, log_spread_of
from outvote.votes.terms import Terms

#: Shares of δ: for what a's own interval leaves of mean(a), what b's leaves of a ratio, and a lower bound on each sd
#: that is not declared.
_OF_A, _OF_B, _FROM_BELOW = 0.1, 0.05, 0.02
#: Ends of cells of means, in sds of the central rows from their mean, for bounds on an sd from below.
_MEANS = (-0.5, -0.1, 0.1, 0.5)
#: No more scales of one sample than this are tried.
_MOST_CELLS = 40
#: Ratios come in cells whose ends have this ratio.
_RATIO_CELL = 2 ** (1 / 8)
#: Numbers that are looked at together.
_TOGETHER = 1 << 16
#: How finely corrupt rows are split between samples that are weighed apart.
_SPLITS = 16
#: For more rows of 0 and 1 than this exact tails would take seconds: two intervals are subtracted.
_MOST_COUNTED = 2_000_000


@dataclass(frozen=True)
class Sample:
    """The rows of a sample, what is known of the clean ones, and what evidence leaves of their mean.

    Attributes
    ----------
    rows : SortedRows
        Its rows.
    assume : Assumption or None
        What is declared; None if an sd was read off the rows.
    sd : float
        The sd that clean rows have at most; NaN if the assumption names none.
    pairs : Pairs or None
        Pairs of its rows, if only their kurtosis is declared.
    n_plan : float or None
        How many rows are planned, if evidence must hold at every look; the factors are then fixed by it.
    seen : float
        The mean that was read off the rows with the sd; NaN if none was.
    """

    rows: SortedRows
    assume: Assumption | None
    sd: float
    pairs: Pairs | None = None
    n_plan: float | None = None
    seen: float = math.nan

    @property
    def size(self) -> float:
        """The number of rows that factors are for: what was planned, or how many there are."""
        return self.rows.n_rows if self.n_plan is None else self.n_plan

    @property
    def joint(self) -> bool:
        """Whether evidence on a difference can use its sd."""
        return not isinstance(self.assume, Bounded) and 0 < self.sd < math.inf

    def interval(self, terms: Terms) -> EvidenceInterval:
        """Return what evidence alone leaves of the mean: nested in the number of corrupt rows, as far as asked for."""
        if self.assume is None and not 0 < self.sd < math.inf:
            return EvidenceInterval(-math.inf, math.inf, math.nan)
        if self.n_plan is not None:
            return running_interval(self.rows, self.assume, self.sd, terms, self.n_plan)
        if self.assume is None:
            found = premise_interval(self.rows, self.sd, terms)
            return EvidenceInterval.around(found.low, found.high, self.seen) if not found.empty else found
        if isinstance(self.rows, Tally):
            return proportion_interval(self.rows, terms)
        if isinstance(self.assume, BoundedRatio):
            return bounded_ratio_interval(self.rows, self.assume, terms)
        if isinstance(self.assume, FiniteKurtosis) and self.assume.sd is None:
            assert self.pairs is not None
            return free_interval(self.rows, self.pairs, self.assume, terms)
        return declared_ends(self.rows, self.assume, terms)

    def allowing(self, n_corrupt: int) -> Sample:
        """Return the sample with another number of rows that may be corrupt."""
        pairs = None if self.pairs is None else replace(self.pairs, n_corrupt=n_corrupt)
        return replace(self, rows=self.rows.allowing(n_corrupt), pairs=pairs)


def difference_interval(
    a: Sample,
    b: Sample,
    terms: Terms,
    *,
    relative: bool = False,
    together: int | None = None,
    only: int = 0,
    beyond: float | None = None,
) -> EvidenceInterval:
    """Return the interval of mean(b) - mean(a), or of mean(b)/mean(a) - 1.

    Parameters
    ----------
    a, b : Sample
        The samples.
    terms : Terms
        Confidence, adversary and sides.
    relative : bool
        Whether the ratio is asked for.
    together : int, optional
        How many rows of both may be corrupt, wherever they are; by default each sample has its own number.
    only : int
        1 for the lower end alone, -1 for the upper one.
    beyond : float, optional
        With `only`: if the end is beyond this number for certain, any number beyond it will do, and if it is not, any
        that is not.
    """
    found = _running(a, b, terms, relative=relative, only=only)
    if found is not None:
        return found
    if isinstance(a.rows, Tally) and isinstance(b.rows, Tally) and a.rows.n_rows + b.rows.n_rows <= _MOST_COUNTED:
        return rates_interval(a.rows, b.rows, terms, relative=relative, together=together, only=only, beyond=beyond)
    if not (a.joint and b.joint):
        return _apart(a, b, terms, relative=relative, together=together)
    if not relative and b.size > a.size:  # the mean of the larger sample is known better
        turned = difference_interval(
            b, a, terms.mirrored, together=together, only=-only, beyond=None if beyond is None else -beyond
        )
        return EvidenceInterval(-turned.high, -turned.low, -turned.estimate)
    free = None
    if together is not None:
        free = max(together - a.rows.n_found - b.rows.n_found, 0)
        a, b = (one.allowing(one.rows.n_found + free) for one in (a, b))
    own = _own_interval(a, terms, _OF_A)
    if own.empty:
        return EvidenceInterval(math.inf, -math.inf, math.nan)
    if relative and own.high < 0:
        a, b = (replace(one, rows=one.rows.mirrored, seen=-one.seen) for one in (a, b))
        own = EvidenceInterval.between(-own.high, -own.low)
    scales = scales_of(a, b, -terms.log_delta - math.log(_FROM_BELOW))
    if scales is None or (relative and not own.low > 0):
        return EvidenceInterval(-math.inf, math.inf, math.nan)
    of_b = _own_interval(b, terms, _OF_B) if relative else own
    ends = (
        _ratio_ends(a, b, own, of_b, scales, terms, free)
        if relative
        else _difference_ends(a, b, own, scales, terms, free)
    )
    low, high = -math.inf, math.inf
    if terms.alternative != "less" and only >= 0:
        low = ends(1, beyond)
    if terms.alternative != "greater" and only <= 0:
        high = ends(-1, beyond)
    if relative and not only and math.isfinite(high - low) and low <= high:  # an interval of a ratio is lopsided
        return EvidenceInterval(low, high, min(max(of_b.estimate / own.estimate - 1, low), high))
    if only or terms.alternative == "two-sided":
        return EvidenceInterval.between(low, high)
    both = difference_interval(a, b, terms.two_sided, relative=relative, together=together)
    return EvidenceInterval(low, high, math.nan if both.empty else both.estimate)


def _running(a: Sample, b: Sample, terms: Terms, *, relative: bool, only: int) -> EvidenceInterval | None:
    """Return the interval that holds at every look, if both samples are planned and have bounds; else None."""
    if a.n_plan is None or b.n_plan is None:
        return None
    plan = (a.n_plan, b.n_plan)
    if isinstance(a.rows, Tally) and isinstance(b.rows, Tally):
        return running_rates(a.rows, b.rows, terms, plan, relative=relative, only=only)
    if isinstance(a.assume, Bounded) and isinstance(b.assume, Bounded) and not relative:
        return bounded_difference((a.rows, b.rows), (a.assume, b.assume), plan, terms, only=only)
    return None


def _own_interval(one: Sample, terms: Terms, share: float) -> EvidenceInterval:
    """Return what a sample's own evidence, with a share of δ, leaves of its mean."""
    return one.interval(replace(terms, log_delta=terms.log_delta + math.log(share), alternative="two-sided"))


def _price(a: Sample, b: Sample, terms: Terms, *shares: float) -> float:
    """Return the price of an end: what shares of δ leave of it."""
    undeclared = a.assume is None or b.assume is None
    return terms.price - math.log(1 - sum(shares) - (2 * _FROM_BELOW if undeclared else 0.0))


def _difference_ends(
    a: Sample, b: Sample, own: EvidenceInterval, scales: list[_Scales], terms: Terms, free: int | None
) -> Callable[[int, float | None], float]:
    """Return what finds the lower end of a difference (sign 1), or the upper one."""
    price = _price(a, b, terms, _OF_A)
    pairs_of = [one.pairs(terms.price) for one in scales]
    span = (own.low, own.high)
    if isinstance(a.rows, RatioRows) or isinstance(b.rows, RatioRows):
        return partial(_end_of_ratios, a, b, pairs_of, span, price, free)
    possible = all(one.rows.n_values > one.rows.droppable for one in (a, b)) and math.isfinite(own.high - own.low)
    if not possible:
        return lambda sign, beyond: -sign * math.inf
    at_once = max(
        _TOGETHER // (len(pairs_of[0]) * sum(one.rows.first_set.atoms[0].points.shape[1] for one in (a, b))), 1
    )
    parts = [pairs_of[:1], *(pairs_of[k : k + at_once] for k in range(1, len(pairs_of), at_once))]
    tests = [Differences.of(a.rows, b.rows, some, span, price, free) for some in parts]

    def end(sign: int, beyond: float | None) -> float:
        found, start = np.array([math.inf]), np.array([-math.inf])
        for test in tests:
            if found[0] == -math.inf:  # nothing is ruled out, whatever the other scales say
                break
            one = test.at(np.array([0 if sign > 0 else 1]))
            if beyond is not None:
                at = np.array([sign * beyond])
                if one(None, at)[0] >= 0:
                    continue  # far enough, and no need to know how far
                if one(at, at)[0] < 0:
                    return -sign * math.inf  # not as far as that
            if math.isfinite(found[0]) and (
                one(None, found)[0] >= 0 or (one(start, found)[0] >= 0 and one(None, start)[0] >= 0)
            ):
                continue
            low, begun = kernel_ends(one)
            if low[0] < found[0]:
                found, start = low, begun
        return sign * float(found[0])

    return end


def _end_of_ratios(
    a: Sample, b: Sample, pairs_of: list[list[Pair]], span: tuple[float, float], price: float, free: int | None,
    sign: int, beyond: float | None,
) -> float:  # fmt: skip
    """Return the lower end of a difference of ratios (sign 1), or the upper one."""
    rows = (a.rows.mirrored, b.rows) if sign > 0 else (a.rows, b.rows.mirrored)
    found, start = math.inf, -math.inf
    for pairs in pairs_of:
        if found == -math.inf:  # nothing is ruled out, whatever the other scales say
            break
        joint = Joint(*rows, pairs, span, free, -sign)
        if beyond is not None and joint.least(-math.inf, sign * beyond) >= price:
            continue
        if math.isfinite(found) and joint.rules_out_below(price, found, start):
            continue
        one, begun = joint.lower_end(price)
        if one < found:
            found, start = one, begun
    return sign * found


def _ratio_ends(
    a: Sample,
    b: Sample,
    own: EvidenceInterval,
    of_b: EvidenceInterval,
    scales: list[_Scales],
    terms: Terms,
    free: int | None,
) -> Callable[[int, float | None], float]:
    """Return what finds the lower end (sign 1) of mean(b)/mean(a) - 1, or the upper one; mean(a) is positive.

    Ratios come in fixed cells with stakes of their own. What b's own interval leaves of them is looked through from
    below, cell by cell, up to the first ratio that is not ruled out.
    """
    price = _price(a, b, terms, _OF_A, _OF_B)

    def end(sign: int, beyond: float | None) -> float:
        if of_b.empty:
            return sign * math.inf
        side, lowest, highest = (b.rows, of_b.low, of_b.high) if sign > 0 else (b.rows.mirrored, -of_b.high, -of_b.low)
        if not math.isfinite(lowest - highest):
            return -sign * math.inf
        lowest, highest = (
            lowest / (own.low if lowest < 0 else own.high),
            highest / (own.high if highest < 0 else own.low),
        )
        for low, high, ratio, largest in _ratio_cells(lowest, highest, min(one.least_ratio for one in scales)):
            turned, found = (-1, high) if high > 0 else (1, high)
            rows = a.rows.mirrored if turned < 0 else a.rows
            for one in scales:
                pairs = one.pairs(terms.price, max(ratio, one.least_ratio))
                joint = Joint(rows, side, pairs, (own.low, own.high), free, turned, largest)
                found = joint.lowest_ratio(price, low, found)
            if found < high or (beyond is not None and sign * (sign * high - 1 - beyond) > 0):
                return sign * found - 1
        return sign * math.inf

    return end


def _ratio_cells(lowest: float, highest: float, least: float) -> Iterator[tuple[float, float, float, float]]:
    """Yield the parts of [lowest, highest] in each cell of ratios, and the middle and largest size in that cell.

    Cells end at 0, at a power of `_RATIO_CELL` that is at most `least`, and at larger ones, of either sign.

    Examples
    --------
    >>> [tuple(round(number, 3) for number in cell) for cell in _ratio_cells(-0.1, 1.1, 1.0)]
    [(-0.1, 0.0, 0.0, 1.0), (0.0, 1.0, 0.0, 1.0), (1.0, 1.091, 1.044, 1.091), (1.091, 1.1, 1.139, 1.189)]
    """
    step = math.log(_RATIO_CELL)
    first = math.floor(math.log(least) / step + 1e-9)

    def edge(k: int) -> float:
        return math.copysign(math.exp((first + abs(k) - 1) * step), k) if k else 0.0

    inside = max(math.floor(math.log(max(abs(lowest), 1e-300)) / step) - first, -1)
    k = inside if lowest > 0 else -inside - 3
    while edge(k + 1) <= lowest:
        k += 1
    while edge(k) < highest:
        low, high = edge(k), edge(k + 1)
        yield max(low, lowest), min(high, highest), math.sqrt(abs(low * high)), max(abs(low), abs(high))
        k += 1


def strongest_pair(a: Sample, b: Sample, terms: Terms, value: float, sign: int, together: int) -> tuple[float, Pair]:
    """Return the mean of a, and the pair of factors, that decide whether a difference is ruled out from below (sign 1).

    For ratios there is none: a claim speaks of differences.
    """
    if b.rows.n_rows > a.rows.n_rows:
        mean_of_b, (g, f) = strongest_pair(b, a, terms.mirrored, -value, -sign, together)
        return mean_of_b - value, (f, g)
    free = max(together - a.rows.n_found - b.rows.n_found, 0)
    a, b = (one.allowing(one.rows.n_found + free) for one in (a, b))
    own = _own_interval(a, terms, _OF_A)
    pairs = _Scales.of((a, b), (a.sd, b.sd)).pairs(terms.price)
    rows = (a.rows.mirrored, b.rows) if sign > 0 else (a.rows, b.rows.mirrored)
    return Joint(*rows, pairs, (own.low, own.high), free, -sign).strongest(sign * value)


@dataclass(frozen=True)
class _Scales:
    """One combination of scales of both samples.

    Attributes
    ----------
    sizes : tuple of float
        Numbers of rows, or those planned.
    units, tops : tuple of float
        What stakes are measured in, and what the sds are at most.
    read : bool
        Whether an sd was read off the rows.
    progress : float or None
        How many times the planned rows there are, if these fix the factors.
    """

    sizes: tuple[float, float]
    units: tuple[float, float]
    tops: tuple[float, float]
    read: bool
    progress: float | None = None

    @classmethod
    def of(
        cls, samples: tuple[Sample, Sample], units: tuple[float, float], tops: tuple[float, float] | None = None
    ) -> _Scales:
        """Return the scales of two samples."""
        a, b = samples
        progress = None
        if a.n_plan is not None and b.n_plan is not None:
            progress = (1 / a.n_plan + 1 / b.n_plan) / (1 / a.rows.n_rows + 1 / b.rows.n_rows)
        return cls((a.size, b.size), units, tops or units, a.assume is None or b.assume is None, progress)

    @property
    def least_ratio(self) -> float:
        """A ratio so small that what a adds to the variance hardly matters."""
        of_a, of_b = (unit / math.sqrt(n) for unit, n in zip(self.units, self.sizes, strict=True))
        return of_b / (8 * of_a)

    def pairs(self, price: float, ratio: float = 1.0) -> list[Pair]:
        """Return the pairs of factors for these scales."""
        found = []
        for multiple, weight in [(1.0, 1.0)] if self.progress is None else sizes_near(self.progress):
            sizes = [multiple * n for n in self.sizes]
            for f, g in pairs_of_factors(sizes, self.units, price, read=self.read, ratio=ratio):
                pair = replace(f, sd=self.tops[0], weight=weight * f.weight), replace(g, sd=self.tops[1])
                found.append(pair)
        return found


def scales_of(a: Sample, b: Sample, price: float) -> list[_Scales] | None:
    """Return each combination of scales that is possible; None if nothing bounds them from below.

    A declared sd is one cell. One that was read off the rows lies in one of fixed cells, up to the premise.
    """
    cells: list[list[tuple[float, float]]] = []
    for one in (a, b):
        if one.assume is not None:
            cells.append([(one.sd, one.sd)])
            continue
        top = math.ceil(math.log(one.sd) / math.log(CELL) + 1e-9)
        bottom = _lowest_cell(one.rows, top, price)
        if bottom is None:
            return None
        cells.append([(CELL ** (k - 0.5), min(CELL**k, one.sd)) for k in range(top, bottom - 1, -1)])
    return [
        _Scales.of((a, b), (unit_a, unit_b), (top_a, top_b)) for (unit_a, top_a), (unit_b, top_b) in product(*cells)
    ]


def _lowest_cell(rows: SortedRows, top: int, price: float) -> int | None:
    """Return the lowest cell of scales up to `top` that the spread of the rows does not rule out; None if too far.

    It must be ruled out whatever the mean is: for each of a few cells of means by how far rows lie outside of it.
    """
    sd = rows.central_sd()
    if not 0 < sd < math.inf:
        return None
    ends = [-math.inf, *(rows.central_mean() + share * sd / rows.slope for share in _MEANS), math.inf]

    lows, highs = np.array(ends[:-1])[:, None], np.array(ends[1:])[:, None]
    scaled = None if isinstance(rows, RatioRows) else Scaled(rows.first_set.atoms[:1], [sd])

    def ruled_out(k: int) -> bool:
        if scaled is not None:
            return bool((scaled.log_spread(lows, highs, [CELL**k]) >= price).all())
        ratios: Any = rows
        for low, high in pairwise(ends):
            parts = ratios.squares_outside(low, high, CELL**k)
            if not log_spread_of(parts, rows.n_corrupt, adaptive=rows.adaptive) >= price:
                return False
        return True

    k = min(math.floor(math.log(sd) / math.log(CELL)), top)
    while k < top and ruled_out(k):
        k += 1
    while top - k <= _MOST_CELLS and not ruled_out(k - 1):
        k -= 1
    return k if top - k <= _MOST_CELLS else None


def _apart(a: Sample, b: Sample, terms: Terms, *, relative: bool, together: int | None) -> EvidenceInterval:
    """Return the interval from those of both means at half of δ each; with `together`, for every split of the rows."""
    half = replace(terms.shared(2), alternative="two-sided")
    if together is None:
        splits = [(a, b)]
    else:
        free = max(together - a.rows.n_found - b.rows.n_found, 0)
        # Bounds on an unknown sd are tuned to a number of corrupt rows, which may not answer to the rows.
        unknown = any(isinstance(one.assume, FiniteKurtosis) for one in (a, b))
        cuts = sorted({free * i // _SPLITS for i in range(_SPLITS + 1)})
        # Between two cuts each sample is allowed the larger number.
        splits = [
            (a.allowing(a.rows.n_found + upper), b.allowing(b.rows.n_found + free - lower))
            for lower, upper in ([(0, free)] if unknown else zip(cuts, cuts[1:] or cuts, strict=False))
        ]
    found = [apart(one.interval(half), two.interval(half), terms.alternative, relative=relative) for one, two in splits]
    low, high = min(one.low for one in found), max(one.high for one in found)
    if isinstance(a.rows, Tally) and isinstance(b.rows, Tally):
        return EvidenceInterval.around(low, high, seen_difference(a.rows, b.rows, relative=relative))
    return EvidenceInterval(low, high, found[len(found) // 2].estimate)


def apart(of_a: EvidenceInterval, of_b: EvidenceInterval, alternative: str, *, relative: bool) -> EvidenceInterval:
    """Return the interval of a difference, or of a ratio, from intervals of both means that hold together.

    Examples
    --------
    >>> a, b = EvidenceInterval.between(1.0, 2.0), EvidenceInterval.between(4.0, 5.0)
    >>> found = apart(a, b, "two-sided", relative=False)
    >>> found.low, found.high, found.estimate
    (2.0, 4.0, 3.0)
    """
    if of_a.empty or of_b.empty:
        return EvidenceInterval(math.inf, -math.inf, math.nan)
    low, high = of_b.low - of_a.high, of_b.high - of_a.low
    if relative:
        ends = (of_a.low, of_a.high, of_b.low, of_b.high)
        if not (of_a.low > 0 or of_a.high < 0) or not all(map(math.isfinite, ends)):
            return EvidenceInterval(-math.inf, math.inf, math.nan)
        corners = [y / x - 1 for y in ends[2:] for x in ends[:2]]
        low, high = min(corners), max(corners)
    middle = low / 2 + high / 2
    return EvidenceInterval(
        -math.inf if alternative == "less" else low, math.inf if alternative == "greater" else high, middle
    )
