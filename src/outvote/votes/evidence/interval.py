"""Intervals from evidence: with a declared scale, with a premise read off the rows, with a kurtosis alone.

Prices are logarithms: a side that may be wrong with probability α rules a mean out at the price log(1/α).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outvote.assumptions import Assumption, Bounded, BoundedRatio, FiniteKurtosis
from outvote.votes.ballots import Ballot, ballot
from outvote.votes.evidence.bounded import bounded_end, bounded_ratio_end
from outvote.votes.evidence.ends import APART, PRECISION, end_in_cell, first_step, lower_end
from outvote.votes.evidence.factors import (
    Factor,
    Floats,
    VarianceFactor,
    factors_for,
    kurtosis_factors,
    premise_factors,
    sturdy_factors,
    together,
    variance_factors,
)
from outvote.votes.evidence.premise import GAP, LOG_DELTA, OF_END, OF_SPREAD, Premises, Scaled
from outvote.votes.evidence.ratio import RatioRows
from outvote.votes.evidence.rows import SeveralRows, SortedRows, atoms_of
from outvote.votes.evidence.scale import Pairs, log_spread_of, sigma_upper, upper_is_possible
from outvote.votes.roots import down_to_grid, grid_step, times_power_of_two
from outvote.votes.terms import Terms

#: Share of δ that the soft or clipped vote has: no interval is wider than theirs at this share.
PROMISE = 0.1
#: Shares of δ for an upper bound on a scale by the kurtosis: the second where the first can bound nothing.
_FROM_ABOVE = (0.16, 0.46)
#: Ratio of the ends of a cell of scales: three cells double it, so that doubled rows give doubled intervals.
CELL = 2 ** (1 / 3)
#: An interval narrower than this share of that of the sturdy factors alone hints at a scale declared too small.
_SUSPICIOUS = 0.67


@dataclass(frozen=True)
class EvidenceInterval:
    """What evidence leaves of the means.

    Attributes
    ----------
    low, high : float
        The ends; low > high where the rows contradict what was assumed.
    estimate : float
        The point to report.
    sd : float
        The sd that the interval is conditional on; NaN if it is not.
    sturdier : bool
        Whether a sturdier interval was joined to one that was suspiciously narrow.
    """

    low: float
    high: float
    estimate: float
    sd: float = math.nan
    sturdier: bool = False

    @classmethod
    def between(cls, low: float, high: float) -> EvidenceInterval:
        """Return the interval with its midpoint as the estimate."""
        return cls.around(low, high, low / 2 + high / 2)  # half of the smallest float is 0

    @classmethod
    def around(cls, low: float, high: float, seen: float) -> EvidenceInterval:
        """Return the interval with what the rows show as the estimate, moved into it where it lies outside."""
        return cls(low, high, min(max(seen, low), high))

    @property
    def empty(self) -> bool:
        """Whether the rows contradict what was assumed."""
        return not self.low <= self.high or self.low == math.inf or self.high == -math.inf

    @property
    def unbounded(self) -> bool:
        """Whether nothing is ruled out."""
        return self.low == -math.inf and self.high == math.inf

    def times(self, factor: float) -> EvidenceInterval:
        """Return the interval of rows `factor` times as large."""
        names = ("low", "high", "estimate", "sd")
        return replace(self, **{name: getattr(self, name) * factor for name in names})


def declared_interval(rows: SortedRows, assume: Assumption, terms: Terms) -> EvidenceInterval:
    """Return the interval for clean rows whose scale is declared.

    It has 0.9·δ; where it is wider than the interval of the soft or clipped vote at 0.1·δ, that one cuts it. One that
    is suspiciously narrow is joined with that of sturdier factors, which mostly holds even if the scale was declared a
    little too small. One-sided terms keep the estimate of the two-sided interval.
    """
    found = declared_ends(rows, assume, terms)
    if terms.alternative != "two-sided":
        both = declared_interval(rows, assume, terms.two_sided)
        return both if both.empty else replace(found, estimate=both.estimate)
    if not found.empty and not isinstance(assume, Bounded):
        found = _sturdier(rows, found, assume, terms)
    promise = promised_vote(rows.n_rows, rows.n_corrupt, assume, terms)
    if found.high - found.low > 2 * promise.radius and rows.has_values:
        centre = promise.count(np.concatenate([rows.values, np.full(rows.n_found, rows.middle)]))
        low, high = max(found.low, centre - promise.radius), min(found.high, centre + promise.radius)
        return EvidenceInterval.between(low, high)
    return found


def declared_ends(rows: SortedRows, assume: Assumption, terms: Terms) -> EvidenceInterval:
    """Return what evidence alone leaves if the scale is declared: nested in the number of corrupt rows."""
    price = terms.price - math.log1p(-PROMISE)
    if isinstance(assume, Bounded):

        def end(side: SortedRows, sign: int) -> float:
            known = assume.scaled(sign)
            return bounded_end(side, known.low, known.width, price)

        return both_ends(rows, terms, end)
    factors = factors_for(assume, rows.n_rows, terms.price, adaptive=rows.adaptive)
    return scaled_interval(rows, factors, price, scale_of(assume), terms)


def both_ends(rows: SortedRows, terms: Terms, end: Callable[[SortedRows, int], float]) -> EvidenceInterval:
    """Return the interval between the lower end of the rows and that of the mirrored rows, as far as asked for."""
    low = end(rows, 1) if terms.alternative != "less" else -math.inf
    high = -end(rows.mirrored, -1) if terms.alternative != "greater" else math.inf
    return EvidenceInterval.between(low, high)


def scaled_interval(
    rows: SortedRows, factors: Sequence[Factor], price: float, sd: float, terms: Terms
) -> EvidenceInterval:
    """Return the interval that factors in units of sd leave."""
    rows.check_units(sd)
    if isinstance(rows, RatioRows):
        return both_ends(rows, terms, lambda side, _: sd * lower_end(side.scaled(1 / sd), factors, price)[0])
    if rows.n_values <= rows.droppable:
        return EvidenceInterval(-math.inf, math.inf, math.nan)
    return EvidenceInterval.between(*Scaled(rows.atoms, [sd]).declared(together(factors), price, terms.alternative))


def _sturdier(rows: SortedRows, found: EvidenceInterval, assume: Assumption, terms: Terms) -> EvidenceInterval:
    """Join an interval that is suspiciously narrow with that of factors that forgive a scale declared too small."""
    if rows.adaptive or isinstance(rows, RatioRows):  # a deep bet costs too much there
        return found
    factors, scaled = together(sturdy_factors(rows.n_rows, terms.price)), Scaled(rows.atoms, [scale_of(assume)])
    price, width = terms.price - math.log1p(-PROMISE), found.high - found.low
    if not math.isfinite(width):
        return found
    # How far these factors are from ruling out the ends by themselves says how much wider their interval is.
    lacking = scaled.lacking(factors, price, found.low, found.high)
    wider = float(lacking.sum() / (rows.n_values * factors[0].rate[0, 0, 0])) * scale_of(assume)
    if width > 1.2 * _SUSPICIOUS * (width + wider):
        return found
    low, high = scaled.declared(factors, price, "two-sided")
    if width >= _SUSPICIOUS * (high - low):
        return found
    return replace(found, low=min(low, found.low), high=max(high, found.high), sturdier=True)


def promised_vote(n_rows: int, n_corrupt: int, assume: Assumption, terms: Terms) -> Ballot:
    """Prepare the soft or clipped vote of all rows at a tenth of δ, whichever has the smaller radius."""
    at = replace(terms.about(assume), log_delta=terms.log_delta + math.log(PROMISE))
    each = np.broadcast_to(np.int64(1), n_rows)
    votes = ("soft", "clipped") if assume.tail(1).variance_only is False else ("soft",)
    return min((ballot(vote, [each], [n_corrupt], at) for vote in votes), key=lambda one: one.radius)


def bounded_ratio_interval(rows: SortedRows, assume: BoundedRatio, terms: Terms) -> EvidenceInterval:
    """Return the interval of a ratio for clean rows with known bounds."""
    assert isinstance(rows, RatioRows)
    bounds = (assume.denominator, assume.numerator)
    low = bounded_ratio_end(rows, *bounds, terms.price, upper=False) if terms.alternative != "less" else -math.inf
    high = bounded_ratio_end(rows, *bounds, terms.price, upper=True) if terms.alternative != "greater" else math.inf
    middle = low / 2 + high / 2
    return EvidenceInterval(low, high, middle if math.isfinite(middle) else rows.central_mean())


def promised_radius(n_rows: int, n_corrupt: int, assume: Assumption, terms: Terms) -> float:
    """Return a half-width that no two-sided interval with a declared scale exceeds, whatever the rows."""
    return promised_vote(n_rows, n_corrupt, assume, terms).radius


def premise_interval(
    rows: SortedRows, sd: float, terms: Terms, *, factors: Sequence[VarianceFactor] | None = None
) -> EvidenceInterval:
    """Return the interval that holds if the clean rows' sd is at most `sd`, whatever rule chose that number.

    The probability that the clean rows' sd is at most `sd` and their mean outside is at most δ. Factors are in units of
    sd; by default they are those for so many rows.
    """
    if isinstance(rows, RatioRows):
        known = premise_factors(rows.n_rows, adaptive=rows.adaptive) if factors is None else factors
        return _cells_interval(rows, sd, known, terms, 2 * OF_END)
    if rows.n_values <= rows.droppable:
        return EvidenceInterval(-math.inf, math.inf, math.nan)
    ready = None if factors is None else together(factors)
    sets = Premises(rows.atoms, [rows.n_rows], [sd], adaptive=rows.adaptive, factors=ready)
    return _between(*sets.interval([sd], terms.of_both), terms)[0]


def believed_premises(
    rows: Sequence[SortedRows], sds: Sequence[float], terms: Terms
) -> list[tuple[float, EvidenceInterval]]:
    """Return for each set of rows an sd, doubled as long as they contradict it, and the interval of that premise."""
    found: list[Any] = [None] * len(rows)
    together: dict[Any, list[int]] = {}
    for i, one in enumerate(rows):
        if isinstance(one, RatioRows):
            found[i] = _believed_ratio(one, sds[i], terms)
        else:
            together.setdefault(i if isinstance(one, SeveralRows) else one.gathered is None, []).append(i)
    for some in together.values():
        part = [rows[i] for i in some]
        atoms = part[0].atoms if len(part) == 1 else [atoms_of(part)]
        sets = Premises(atoms, [one.n_rows for one in part], [sds[i] for i in some], adaptive=part[0].adaptive)
        believed = sets.believed()
        for i, *of_one in zip(
            some, believed.tolist(), _between(*sets.interval(believed, terms.of_both), terms), strict=True
        ):
            found[i] = tuple(of_one)
    return found


def _believed_ratio(rows: RatioRows, sd: float, terms: Terms) -> tuple[float, EvidenceInterval]:
    both = replace(terms.two_sided, log_delta=LOG_DELTA)
    while premise_interval(rows, sd, both).empty and sd < sys.float_info.max / 2:
        sd *= 2
    return sd, premise_interval(rows, sd, terms)


def _between(low: Floats, high: Floats, terms: Terms) -> list[EvidenceInterval]:
    """Return the intervals between some ends, as far as these are asked for."""
    low = low if terms.alternative != "less" else np.full(len(low), -math.inf)
    high = high if terms.alternative != "greater" else np.full(len(high), math.inf)
    return [EvidenceInterval.between(*ends) for ends in zip(low.tolist(), high.tolist(), strict=True)]


def free_interval(rows: SortedRows, pairs: Pairs, assume: FiniteKurtosis, terms: Terms) -> EvidenceInterval:
    """Return the interval for clean rows of which only the kurtosis is bounded: a share of δ bounds their sd."""
    prices = [(share, -terms.log_delta - math.log(share)) for share in _FROM_ABOVE]
    share, price = next((one for one in prices if upper_is_possible(pairs, assume.kurtosis, one[1])), prices[-1])
    sd = sigma_upper(pairs, assume.kurtosis, price)
    if not 0 < sd < math.inf:
        return EvidenceInterval(-math.inf, math.inf, math.nan, sd)
    main = replace(variance_factors(rows.n_rows, terms.price, adaptive=False)[0], weight=0.3)
    factors = [*kurtosis_factors(rows.n_rows, terms.price, assume.kurtosis), main]
    of_end = 0.5 - OF_SPREAD - share / 2
    sets = Premises(rows.atoms, [rows.n_rows], [sd], factors=together(factors), share=of_end)
    found = replace(_between(*sets.interval([sd], terms.of_both), terms)[0], sd=sd)
    if terms.alternative == "two-sided":
        return found
    both = free_interval(rows, pairs, assume, terms.two_sided)
    return replace(found, estimate=both.estimate)


def _cells_interval(
    rows: RatioRows, sd: float, factors: Sequence[Factor], terms: Terms, share: float
) -> EvidenceInterval:
    """Return the union of the intervals for all scales up to `sd`; the ends have a share of δ."""
    found = both_ends(rows, terms, lambda side, _: _cells_end(side, sd, factors, terms, share))
    return replace(found, sd=sd)


def _cells_end(rows: Any, sd: float, factors: Sequence[Factor], terms: Terms, share: float) -> float:
    """Return a number below which every mean is ruled out for every scale up to `sd`.

    Scales come in fixed cells; the clean rows' sd lies in one of them, and for that one the factors were fixed
    beforehand. Cells far below `sd` are ruled out by the spread of the rows.
    """
    price, spread_price = terms.price - math.log(share), terms.price - math.log(2 * OF_SPREAD)
    exponent = max(math.frexp(sd)[1], -1000)  # whose power of two is a float
    rows, sd = rows.scaled(2.0**-exponent), math.ldexp(sd, -exponent)
    top = math.ceil(math.log(sd) / math.log(CELL) + 1e-9)  # rounded up: a cell too high is safe

    def cell(k: int) -> list[Factor]:
        return [factor.at_scale(CELL ** (k - 0.5), min(CELL**k, sd)) for factor in factors]

    end, start = lower_end(rows, cell(top), price)
    if end == -math.inf:
        return end
    # At least one row that is not dropped must lie above the end, or its spread rules out no cell.
    first = first_step(rows, cell(top), price)
    gap = max(GAP * sd / rows.slope, abs(rows.largest_kept) * APART)
    end = min(end, down_to_grid(rows.largest_kept - gap, grid_step(PRECISION * first)))
    if end == -math.inf:
        return end
    for k in range(top - 1, _lowest_cell(rows, end, top, spread_price) - 1, -1):
        end = end_in_cell(rows, cell(k), price, end, start, first)
        if end == -math.inf:
            return end
    return times_power_of_two(end, exponent)


def _lowest_cell(rows: Any, end: float, top: int, price: float) -> int:
    """Return the lowest cell of scales that the spread of the rows above `end` does not rule out."""

    def ruled_out(k: int) -> bool:
        return rows.log_spread_above(end, CELL**k) >= price

    kept = rows.squares_above(end, 1.0, keep_small=False)
    with np.errstate(over="ignore"):
        mean = sum(float(np.sum(times * squares)) for squares, times in kept) / (rows.n_values - rows.droppable)
    k = min(math.floor(math.log(min(max(mean, 1e-300), 1e300)) / (2 * math.log(CELL))), top - 1)
    while k < top and ruled_out(k):
        k += 1
    while CELL ** (k - 1) > 1e-300 and not ruled_out(k - 1):
        k -= 1
    return k


def contradicts(rows: SortedRows, found: EvidenceInterval, sd: float, log_delta: float) -> bool:
    """Return whether the rows spread too much for an sd, whichever mean in the interval is right."""
    price = -log_delta - math.log(2 * OF_SPREAD)
    if isinstance(rows, RatioRows):
        parts = rows.squares_outside(found.low, found.high, sd)
        return log_spread_of(parts, rows.n_corrupt, adaptive=rows.adaptive) >= price
    return bool(Scaled(rows.atoms, [sd]).log_spread([found.low], [found.high], [sd])[0, 0] >= price)


def scale_of(assume: Assumption) -> float:
    """Return the bound on the sd of one clean row."""
    return float(assume.tail(1).sd)
