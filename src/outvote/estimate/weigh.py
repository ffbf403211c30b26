"""Evidence of one sample, or of two, for any number of corrupt rows: behind differences, tolerance and their curves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, BoundedRatio, FiniteKurtosis
from outvote.data.missing import ContradictionError
from outvote.data.text import short, spaced, spaced_count
from outvote.estimate.evidence import in_units
from outvote.estimate.ordered import Ordered
from outvote.estimate.premise import Gross, premise_of
from outvote.votes import Alternative, Terms
from outvote.votes.evidence import EvidenceInterval, Sample, Tally, difference_interval
from outvote.votes.evidence.factors import factors_for, premise_factors
from outvote.votes.evidence.two_samples import strongest_pair
from outvote.votes.roots import falling_root, first_number

Floats = NDArray[np.float64]

#: The largest sd at which a claim stands is found to this ratio.
_SD_RATIO = 1.005
#: A premise this many times as large counts as any.
_LARGEST_PREMISE = 2.0**20


@dataclass(frozen=True)
class Weighed:
    """One sample and its mean, or two and the difference of their means.

    Attributes
    ----------
    samples : tuple of Sample
        The rows, in order, and what is known of them.
    ordered : tuple of Ordered
        The rows as they came.
    terms : Terms
        Confidence, adversary and sides.
    counts : tuple of int
        How many rows of each sample may be corrupt.
    relative : bool
        Whether mean(b)/mean(a) - 1 is asked for.
    unit : float
        What the rows of `samples` were divided by: 1, unless their squares would overflow, or vanish.
    names : sequence of str
        What the samples are called.
    sizes : sequence of int or None
        How many rows each sample has, if some were held out.
    gross : tuple of Gross or None
        The rows of each sample that are taken to be corrupt because of where they lie.
    """

    samples: tuple[Sample, ...]
    ordered: tuple[Ordered, ...]
    terms: Terms
    counts: tuple[int, ...]
    relative: bool = False
    unit: float = 1.0
    names: Sequence[str] = "ab"
    sizes: Sequence[int] | None = None
    gross: tuple[Gross | None, ...] = ()

    @property
    def n_rows(self) -> int:
        """How many rows there are, those held out among them."""
        return sum(self.sizes or [one.n_rows for one in self.ordered])

    @property
    def n_omitted(self) -> int:
        """How many rows had NaN or infinite values."""
        return sum(one.n_bad for one in self.ordered)

    @property
    def certain(self) -> int:
        """How many rows are corrupt for certain."""
        return sum(one.rows.n_found for one in self.samples)

    @property
    def conditional(self) -> bool:
        """Whether an sd was read off the rows."""
        return any(one.assume is None for one in self.samples)

    @property
    def provenance(self) -> str:
        """What an interval that is finite rests on."""
        return "conditional" if self.conditional else "certified"

    @property
    def sds(self) -> tuple[float, ...]:
        """The sds that were read off the rows, NaN where they were declared."""
        return tuple(self.unit * one.sd if one.assume is None else math.nan for one in self.samples)

    def premise(self, sds: Sequence[float] | None = None) -> str:
        """Say in words what the sds of the clean rows are at most, where they were read off the rows."""
        known = self.sds if sds is None else sds
        subject = self.ordered[0].subject
        if len(known) == 1:
            return "" if math.isnan(known[0]) else f"{subject} is at most {short(known[0])}"
        parts = [f"{short(sd)} in {name}" for sd, name in zip(known, self.names, strict=True) if not math.isnan(sd)]
        return f"{subject} is at most {' and '.join(parts)}" if parts else ""

    @property
    def plain(self) -> float:
        """The plain mean, or the difference of the plain means."""
        means = [one.plain for one in self.ordered]
        if len(means) == 1:
            return means[0]
        return means[1] / means[0] - 1 if self.relative and means[0] else means[1] - means[0]

    def interval(
        self, count: int | None, terms: Terms | None = None, only: int = 0, beyond: float | None = None
    ) -> EvidenceInterval:
        """Return what evidence leaves if `count` rows are corrupt, wherever they are; None for each its own number."""
        return self._with_point(self._interval(count, terms or self.terms, only, beyond))

    def _with_point(self, found: EvidenceInterval) -> EvidenceInterval:
        """Return an interval with what was read off the rows as its estimate, moved into it."""
        seen = [one.seen for one in self.samples]
        if found.empty or any(map(math.isnan, seen)) or (self.relative and seen[0] == 0):
            return found
        point = seen[0] * self.unit
        if len(seen) == 2:
            point = seen[1] / seen[0] - 1 if self.relative else (seen[1] - seen[0]) * self.unit
        return replace(found, estimate=min(max(point, found.low), found.high)) if math.isfinite(point) else found

    def _interval(self, count: int | None, terms: Terms, only: int, beyond: float | None) -> EvidenceInterval:
        if len(self.samples) == 1:
            sample = self.samples[0] if count is None else self.samples[0].allowing(count)
            if only:
                side: Alternative = "greater" if only > 0 else "less"
                half = terms.log_delta - (math.log(2) if terms.alternative == "two-sided" else 0.0)
                terms = replace(terms, alternative=side, log_delta=half)
            return sample.interval(terms).times(self.unit)
        a, b = self.samples
        if self.relative:
            return difference_interval(a, b, terms, relative=True, together=count, only=only, beyond=beyond)
        beyond = None if beyond is None else beyond / self.unit
        return difference_interval(a, b, terms, together=count, only=only, beyond=beyond).times(self.unit)

    def clear_of(self, count: int, bound: float, sign: int) -> bool:
        """Return whether the claim that the value is above the bound (sign 1), or below it, stands for so many rows."""
        return self.margin(count, bound, sign) > 0

    def stands(self, bound: float, sign: int, start: int) -> int | None:
        """Return the largest number of corrupt rows for which the claim stands, from `start` on; None if it does not.

        What evidence leaves is nested in the number of corrupt rows, so that a claim stands for all smaller ones, too.
        Numbers that the rows contradict rule out everything, and so settle nothing: None if there are no others.
        """
        found = self._largest(bound, sign, start)
        return None if found is None or self._contradicts(found) else found

    def misfit(self) -> str:
        """Say which numbers of corrupt rows are too small for the rows and what is known of them; "" if none is."""
        low, high = self.certain, self.most + 1
        if not self._contradicts(low):
            return ""
        while high - low > 1:
            middle = min((low + high) // 2, 2 * low + 1)  # mostly there are few
            # Below a number that fits, an sd that was read off the rows may not even be bounded from below.
            unbounded = middle < sum(self.counts) and self.interval(middle).unbounded
            low, high = (middle, high) if unbounded or self._contradicts(middle) else (low, middle)
        known = self.premise([self.unit * one.sd for one in self.samples]) or "what is declared is right"
        few = f"At most {spaced_count(low, 'corrupt row')}" if low else "No corrupt row at all"
        more = "more" if low else "some"
        return f"{few} does not fit these {spaced(self.n_rows)} rows if {known}: {more} of them must be corrupt."

    def _contradicts(self, count: int) -> bool:
        """Return whether nothing fits the rows if no more than so many are corrupt, or next to nothing.

        Next to nothing is what is empty at √δ: an interval so narrow says that the number is too small.
        """
        at = replace(self.terms.two_sided, log_delta=self.terms.log_delta / 2)
        return self.interval(count, at).empty

    def _largest(self, bound: float, sign: int, start: int) -> int | None:
        """Return what `stands` does, whether or not the rows contradict that number."""
        above = self.margin(start, bound, sign)
        if not above > 0:
            return None
        low, high, step, below = start, self.most + 1, max(sum(self.counts), 16), math.nan
        while low + step < high:  # most conclusions fall long before half of the rows
            margin = self.margin(low + step, bound, sign)
            if not margin > 0:
                high, below = low + step, margin
                break
            low, step, above = low + step, 2 * step, margin
        if math.isnan(below) and high - 1 > low:  # some stand however many there are
            below = self.margin(high - 1, bound, sign)
            if below > 0:
                return high - 1
            high -= 1
        if len(self.samples) == 1 and math.isfinite(above - below):  # its end is known, and moves steadily

            def stands(at: float) -> float:
                margin = self.margin(int(at), bound, sign)
                return margin if margin > 0 else min(margin, -1e-300)

            return int(falling_root(stands, low, high, above, min(below, -1e-300), 1.0)[0])
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.clear_of(middle, bound, sign) else (low, middle)
        return low

    def margin(self, count: int, bound: float, sign: int) -> float:
        """Return by how much the claim is clear of the bound if so many rows are corrupt: above 0 if it stands."""
        found = self.interval(count, only=sign, beyond=bound)
        if found.empty:  # with so few corrupt rows nothing fits: they contradict what is declared
            return math.inf
        return found.low - bound if sign > 0 else bound - found.high

    @property
    def most(self) -> int:
        """The largest number of corrupt rows that leaves the clean rows of each sample in the majority."""
        return min((one.n_rows - 1) // 2 for one in self.ordered)

    def scaled_premise(self, factor: float) -> Weighed:
        """Return the same with every sd that was read off the rows multiplied by a number."""
        samples = tuple(replace(one, sd=one.sd * factor) if one.assume is None else one for one in self.samples)
        return replace(self, samples=samples)

    def believed(self, interval: Callable[[Weighed], EvidenceInterval | None]) -> tuple[Weighed, EvidenceInterval]:
        """Return the same with every sd that was read off the rows doubled until there is an interval, and that.

        A premise may be chosen after seeing the rows.
        """
        found = interval(self)
        if found is not None:
            return self, found
        if not self.conditional:
            raise contradiction(self)
        tried: dict[int, tuple[Weighed, EvidenceInterval | None]] = {}

        def holds(doublings: int) -> bool:
            wider = self.scaled_premise(factor := 2.0 ** (doublings + 1) if doublings < 1000 else math.inf)
            tried[doublings] = wider, interval(wider)
            return tried[doublings][1] is not None or factor == math.inf

        weighed, found = tried[first_number(holds)]
        if found is None:  # what is declared of the other sample is contradicted
            raise contradiction(self)
        return weighed, found

    def largest_premise(self, bound: float, sign: int, count: int) -> tuple[float, ...]:
        """Return the largest sds, in the ratio of the premises, at which the claim stands for so many corrupt rows."""
        low, high, above = 1.0, 2.0, math.inf
        while (below := self.scaled_premise(high).margin(count, bound, sign)) > 0:
            if high >= _LARGEST_PREMISE:
                return tuple(math.inf for _ in self.samples)
            # The margin of one sample falls about in a straight line: try a little farther than that reaches 0.
            line = 2 * high
            if len(self.samples) == 1:
                line = high + 1.05 * below * (high - low) / (above - below) if above > below else math.inf
            low, high, above = high, max(2 * high, min(line, _LARGEST_PREMISE)), below
        if len(self.samples) == 1:

            def clear(at: float) -> float:
                return self.scaled_premise(at).margin(count, bound, sign)

            low = falling_root(clear, low, high, above, below, high / 2 * (_SD_RATIO - 1))[0]
        while len(self.samples) == 2 and high > low * _SD_RATIO:
            middle = math.sqrt(low * high)
            low, high = (middle, high) if self.scaled_premise(middle).clear_of(count, bound, sign) else (low, middle)
        return tuple(low * sd for sd in self.sds)

    def deciding(self, bound: float, sign: int, count: int) -> list[tuple[int, int]]:
        """Return the sample and the position of the rows that speak most for the claim, strongest first.

        They are those that evidence on the bound drops first.
        """
        logs = self._logs(bound / self.unit, sign, count - 1)
        flat = np.concatenate(logs)
        sample = np.repeat(np.arange(len(logs)), [len(one) for one in logs])
        where = np.concatenate([one.positions for one in self.ordered])
        if count < len(flat):
            # All rows at least as strong as the last of these: among equal ones the first come first.
            least = np.partition(flat, len(flat) - count)[len(flat) - count]
            some = np.flatnonzero(flat >= least)
        else:
            some = np.arange(len(flat))
        order = some[np.argsort(-flat[some], kind="stable")[:count]]
        return [(int(sample[i]), int(where[i])) for i in order if flat[i] > 0]

    def _logs(self, bound: float, sign: int, count: int) -> list[Floats]:
        """Return the logarithm of each row's factor for the evidence on the bound; none for rows that are corrupt."""
        if len(self.samples) == 2 and all(one.joint for one in self.samples):
            mean_of_a, pair = strongest_pair(*self.samples, self.terms, bound, sign, count)
            parts = ((-sign, mean_of_a, pair[0]), (sign, mean_of_a + bound, pair[1]))
            found = [
                one.logs(side * x.gaps(mean * self.unit) / self.unit) - one.norm
                for x, (side, mean, one) in zip(self.ordered, parts, strict=True)
            ]
        else:
            # The rows that lie farthest on the claim's side, whatever the assumption.
            sides = (sign,) if len(self.samples) == 1 else (-sign, sign)
            found = [self._own_logs(s, side, bound, count) for s, side in enumerate(sides)]
        return [np.nan_to_num(one, nan=-math.inf) for one in found]

    def _own_logs(self, s: int, side: int, bound: float, count: int) -> Floats:
        one, rows = self.samples[s], self.ordered[s]
        if len(self.samples) == 2 and isinstance(one.rows, Tally):
            x = rows.given
            # Without a one, or a zero, on the claim's side the share falls by so much.
            share = one.rows.share if side < 0 else 1 - one.rows.share
            return np.where(x == (side > 0), max(share, 1 / one.rows.n_rows) / one.rows.n_rows, -math.inf)
        centre = bound if len(self.samples) == 1 else one.rows.middle
        with np.errstate(over="ignore"):
            gaps = side * rows.gaps(centre * self.unit) / self.unit
        if not one.joint:
            return gaps
        price = self.terms.price
        n = one.rows.n_rows
        if one.assume is None:
            factors = list(premise_factors(n, adaptive=one.rows.adaptive))
        else:
            factors = list(factors_for(one.assume, n, price, adaptive=one.rows.adaptive))  # type: ignore[arg-type]
        sorted_rows = (one.rows if side > 0 else one.rows.mirrored).scaled(1 / one.sd)
        sorted_rows = sorted_rows.allowing(max(count, sorted_rows.n_found))
        at = side * centre / one.sd
        best = max(factors, key=lambda each: sorted_rows.log_evidence([each], at, at))
        with np.errstate(over="ignore"):
            return best.logs(gaps / one.sd) - best.norm


class Planned(NamedTuple):
    """What was fixed of a sample before its rows came: how many are planned, and the sd that is their premise."""

    n_rows: float
    sd: float = math.nan


def weigh(
    ordered: Sequence[Ordered],
    assumed: Sequence[Assumption | None],
    counts: tuple[int, ...],
    terms: Terms,
    *,
    relative: bool = False,
    together: bool = True,
    screened: bool = True,
    planned: Sequence[Planned] | None = None,
    names: Sequence[str] = "ab",
) -> Weighed:
    """Prepare one sample or two, and read an sd off the rows where none is declared.

    Parameters
    ----------
    ordered, assumed, counts
        The rows, what is known of them, and how many of each sample may be corrupt.
    terms : Terms
        Confidence, adversary and sides.
    relative : bool
        Whether mean(b)/mean(a) - 1 is asked for.
    together : bool
        Whether all that may be corrupt may be in one sample: then each sd is read off as if they were.
    screened : bool
        Whether rows that no ordinary tail explains are taken to be corrupt.
    planned : sequence of Planned, optional
        What was fixed before the rows came: evidence then holds at every look.
    names : sequence of str
        What the samples are called.
    """
    adaptive = terms.adversary == "adaptive"
    sizes = [one.size(max(m - one.n_found, 0)) for one, m in zip(ordered, counts, strict=True)]
    unit = max(sizes, key=lambda size: (size != 1, size))
    samples: list[Sample] = []
    gross: list[Gross | None] = []
    for s, (one, assume, count) in enumerate(zip(ordered, assumed, counts, strict=True)):
        scaled, known = one, assume
        if unit != 1:  # squares would overflow, or vanish
            scaled, known = one.scaled(1 / unit), assume and in_units(assume, unit)
        rows = scaled.rows(count, adaptive=adaptive)
        unknown = isinstance(assume, FiniteKurtosis) and assume.sd is None
        pairs = scaled.pairs(count, adaptive=adaptive) if unknown else None
        sd = seen = math.nan
        gross.append(None)
        if assume is None and planned is None:
            most = max(min(sum(counts), (rows.n_rows - 1) // 2), count, rows.n_found) if together else rows.n_corrupt
            subject = names[s] if len(ordered) == 2 else ""
            premise = premise_of(rows.allowing(most), terms.two_sided, screened=screened, subject=subject)
            sd, seen, gross[s] = premise.sd, premise.point, premise.gross and premise.gross.times(unit)
        elif assume is None and planned is not None:
            sd = planned[s].sd / unit
        elif known is not None and not unknown and not isinstance(assume, (Bounded, BoundedRatio)):
            sd = float(known.tail(1).sd)
        samples.append(Sample(rows, known, sd, pairs, None if planned is None else planned[s].n_rows, seen))
    return Weighed(tuple(samples), tuple(ordered), terms, counts, relative, unit, names, gross=tuple(gross))


def contradiction(weighed: Weighed) -> ContradictionError:
    """Return the error for rows that contradict what is declared of them."""
    declared = (one.assume.scaled(weighed.unit) for one in weighed.samples if one.assume is not None)
    known = ", ".join(dict.fromkeys(map(repr, declared)))
    spread = [weighed.unit * one.rows.central_sd() for one in weighed.samples]
    seen = " and ".join(f"{sd:.4g}" for sd in spread)
    return ContradictionError(
        f"the rows contradict assume={known}: at this confidence nothing fits them (without as many of the farthest "
        f"rows as may be corrupt their sd is {seen}): assume less, allow for more corrupt rows, or leave assume out"
    )
