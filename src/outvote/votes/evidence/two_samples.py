"""Intervals for the difference, or the ratio, of two means."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import product

from outvote.assumptions import Assumption, Bounded, FiniteKurtosis, Proportion
from outvote.votes.evidence.interval import CELL, EvidenceInterval, declared_ends, free_interval, premise_interval
from outvote.votes.evidence.joint import Joint, Pair, pairs_of_factors
from outvote.votes.evidence.proportion import proportion_interval
from outvote.votes.evidence.rows import SortedRows
from outvote.votes.evidence.scale import Pairs, log_spread
from outvote.votes.terms import Terms

#: Share of δ for what a's own interval leaves of mean(a), and for a lower bound on each sd that is not declared.
_OF_A, _FROM_BELOW = 0.1, 0.02
#: No more scales of one sample than this are tried.
_MOST_CELLS = 12
#: How finely corrupt rows are split between samples that are weighed apart.
_SPLITS = 16


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
        Pairs of its rows, if no sd is declared.
    """

    rows: SortedRows
    assume: Assumption | None
    sd: float
    pairs: Pairs | None = None

    @property
    def joint(self) -> bool:
        """Whether evidence on a difference can use its sd."""
        return not isinstance(self.assume, Bounded) and 0 < self.sd < math.inf

    def interval(self, terms: Terms) -> EvidenceInterval:
        """Return what evidence alone leaves of the mean: nested in the number of corrupt rows, as far as asked for."""
        if self.assume is None and not 0 < self.sd < math.inf:
            return EvidenceInterval(-math.inf, math.inf, math.nan)
        if self.assume is None:
            return premise_interval(self.rows, self.sd, terms, ends_only=True)
        if isinstance(self.assume, Proportion):
            return proportion_interval(self.rows, terms)
        if isinstance(self.assume, FiniteKurtosis) and self.assume.sd is None:
            assert self.pairs is not None
            return free_interval(self.rows, self.pairs, self.assume, terms)
        return declared_ends(self.rows, self.assume, terms)

    def allowing(self, n_corrupt: int) -> Sample:
        """Return the sample with another number of rows that may be corrupt."""
        found = self.rows
        rows = SortedRows(found.values, n_corrupt, found.n_found, adaptive=found.adaptive)
        pairs = None if self.pairs is None else replace(self.pairs, n_corrupt=n_corrupt)
        return replace(self, rows=rows, pairs=pairs)


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
        With `only`: if the end is beyond this number for certain, any number beyond it will do.
    """
    if not (a.joint and b.joint):
        return _apart(a, b, terms, relative=relative, together=together)
    if not relative and b.rows.n_rows > a.rows.n_rows:  # the mean of the larger sample is known better
        turned = difference_interval(
            b, a, terms.mirrored, together=together, only=-only, beyond=None if beyond is None else -beyond
        )
        return EvidenceInterval(-turned.high, -turned.low, -turned.estimate)
    free = None
    if together is not None:
        free = max(together - a.rows.n_found - b.rows.n_found, 0)
        a, b = (one.allowing(one.rows.n_found + free) for one in (a, b))
    own = a.interval(replace(terms, log_delta=terms.log_delta + math.log(_OF_A), alternative="two-sided"))
    if own.empty:
        return EvidenceInterval(math.inf, -math.inf, math.nan)
    if relative and not (own.low > 0 or own.high < 0):
        return EvidenceInterval(-math.inf, math.inf, math.nan)
    if relative and own.high < 0:
        a, b = (replace(one, rows=one.rows.mirrored) for one in (a, b))
        own = EvidenceInterval.between(-own.high, -own.low)
    cells = _cells(a, b, terms)
    if cells is None:
        return EvidenceInterval(-math.inf, math.inf, math.nan)
    undeclared = a.assume is None or b.assume is None
    price = terms.price - math.log(1 - _OF_A - (2 * _FROM_BELOW if undeclared else 0.0))

    def end(sign: int) -> float:
        rows = (a.rows.mirrored, b.rows) if sign > 0 else (a.rows, b.rows.mirrored)
        found, start = math.inf, -math.inf
        target = None if beyond is None else beyond if sign > 0 else -beyond - 2 if relative else -beyond
        for pairs in cells:
            joint = Joint(*rows, pairs, (own.low, own.high), free, relative, sign)
            if target is not None and joint.least(-math.inf, target) >= price:
                continue  # far enough, and no need to know how far
            if math.isfinite(found) and joint.rules_out_below(price, found, start):
                continue
            one, begun = joint.lower_end(price)
            if one < found:
                found, start = one, begun
        return found

    low, high = -math.inf, math.inf
    if terms.alternative != "less" and only >= 0:
        low = end(1)
    if terms.alternative != "greater" and only <= 0:
        high = -end(-1) - 2 if relative else -end(-1)
    if only or terms.alternative == "two-sided":
        return EvidenceInterval.between(low, high)
    both = difference_interval(a, b, terms.two_sided, relative=relative, together=together)
    return EvidenceInterval(low, high, math.nan if both.empty else both.estimate)


def strongest_pair(
    a: Sample, b: Sample, terms: Terms, value: float, sign: int, *, relative: bool, together: int
) -> tuple[float, Pair]:
    """Return the mean of a, and the pair of factors, that decide whether a value is ruled out from below (sign 1)."""
    if not relative and b.rows.n_rows > a.rows.n_rows:
        mean_of_b, (g, f) = strongest_pair(b, a, terms.mirrored, -value, -sign, relative=False, together=together)
        return mean_of_b - value, (f, g)
    free = max(together - a.rows.n_found - b.rows.n_found, 0)
    a, b = (one.allowing(one.rows.n_found + free) for one in (a, b))
    own = a.interval(replace(terms, log_delta=terms.log_delta + math.log(_OF_A), alternative="two-sided"))
    pairs = pairs_of_factors(
        (a.rows.n_rows, b.rows.n_rows),
        (a.sd, b.sd),
        terms.price,
        main_only=a.assume is None or b.assume is None,
    )
    rows = (a.rows.mirrored, b.rows) if sign > 0 else (a.rows, b.rows.mirrored)
    at = sign * value if not relative or sign > 0 else -value - 2
    return Joint(*rows, pairs, (own.low, own.high), free, relative, sign).strongest(at)


def _cells(a: Sample, b: Sample, terms: Terms) -> list[list[Pair]] | None:
    """Return the pairs of factors for each combination of scales that is possible; None if nothing bounds them below.

    A declared sd is one cell. One that was read off the rows lies in one of fixed cells, up to the premise.
    """
    sizes = (a.rows.n_rows, b.rows.n_rows)
    scales: list[list[tuple[float, float]]] = []
    for one in (a, b):
        if one.assume is not None:
            scales.append([(one.sd, one.sd)])
            continue
        assert one.pairs is not None
        top = math.ceil(math.log(one.sd) / math.log(CELL) + 1e-9)
        bottom = _lowest_cell(one.pairs, top, -terms.log_delta - math.log(_FROM_BELOW))
        if bottom is None:
            return None
        scales.append([(CELL ** (k - 0.5), min(CELL**k, one.sd)) for k in range(top, bottom - 1, -1)])
    main_only = a.assume is None or b.assume is None
    found = []
    for (unit_a, top_a), (unit_b, top_b) in product(*scales):
        pairs = pairs_of_factors(sizes, (unit_a, unit_b), terms.price, main_only=main_only)
        found.append([(replace(f, sd=top_a), replace(g, sd=top_b)) for f, g in pairs])
    return found


def _lowest_cell(pairs: Pairs, top: int, price: float) -> int | None:
    """Return the lowest cell of scales up to `top` that the spread of the pairs does not rule out; None if too far."""

    def ruled_out(k: int) -> bool:
        squares = pairs.squares * CELL ** (-2 * k)
        return log_spread(squares, pairs.droppable, pairs.n_corrupt, adaptive=pairs.adaptive) >= price

    kept = pairs.squares[: len(pairs.squares) - pairs.droppable]
    size = float(kept.mean()) if len(kept) else 0.0
    if not 0 < size < math.inf:
        return None
    k = min(math.floor(math.log(size) / (2 * math.log(CELL))), top)
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
    return EvidenceInterval(
        min(one.low for one in found), max(one.high for one in found), found[len(found) // 2].estimate
    )


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
