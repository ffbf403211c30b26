"""``outvote compare``: compare variants with a baseline."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outvote.cli.answer import Asked, Progress, Value, in_options, silent
from outvote.cli.variants import Pairing, pairings
from outvote.data.columns import Columns, Label
from outvote.data.missing import ContradictionError
from outvote.data.text import count, percent, spaced, spaced_count, with_interval
from outvote.estimate.contrast import Contrast
from outvote.estimate.curve import Curve, Side, curve
from outvote.estimate.difference import difference
from outvote.estimate.result import RobustEstimate
from outvote.estimate.u_statistic import u_statistic


@dataclass(frozen=True)
class Comparison:
    """The comparison of one variant with the baseline.

    Attributes
    ----------
    segment : tuple of str
        The labels of its segment.
    other : str
        The label of the variant.
    n_baseline, n_other : int
        Rows of the baseline and of the variant.
    plain : float or None
        Difference of the plain means.
    difference : Value
        mean(other) - mean(baseline).
    lift : Value
        The difference divided by mean(baseline).
    superiority : Value or None
        Probability that a row of the variant is larger than a row of the baseline; equal rows count half. None for
        ratios and adjusted values.
    tolerance : int or None
        How many rows of both may be corrupt without changing which mean is larger; None if that is not settled.
    sentence : str
        The tolerance in words.
    settled : bool
        Whether it is settled which is larger, for as many corrupt rows as are allowed.
    note : str
        What an adjusted comparison rests on.
    """

    segment: Label
    other: str
    n_baseline: int
    n_other: int
    plain: float | None
    difference: Value
    lift: Value
    superiority: Value | None
    tolerance: int | None
    sentence: str
    settled: bool
    note: str = ""


@dataclass(frozen=True)
class Comparisons:
    """The answer of ``outvote compare``."""

    asked: Asked
    source: str
    value: str
    by: str
    baseline: str
    left_out: int
    segments: tuple[str, ...]
    comparisons: list[Comparison]

    @property
    def complete(self) -> bool:
        """Whether all values have an interval."""
        values = [(one.difference, one.lift, one.superiority) for one in self.comparisons]
        return all(value is None or value.bounded for three in values for value in three)


def compare(
    columns: Columns, asked: Asked, source: str, *, baseline: str | None = None, progress: Progress = silent
) -> Comparisons:
    """Compare variants with a baseline, which is the smallest label by default, in each segment."""
    asked.check(columns)
    columns = columns.added_up(asked.covariate, asked.count)
    pairs, first, left_out = pairings(columns, asked, baseline)
    parts = len(pairs) if asked.simultaneous else 1
    bases: dict[Label, Side] = {}
    found = []
    for pair in pairs:
        progress(f"{pair.other.label} against {first}")
        if asked.evidence:
            found.append(by_evidence(pair, asked, pair.contrast(asked, parts)))
            continue
        base = bases.setdefault(pair.segment, asked.side(pair.baseline.values))
        found.append(by_blocks(pair, asked, curve([base, asked.side(pair.other.values)], shown=False)))
    by, *segments = columns.keys
    return Comparisons(asked, source, columns.name, by, first, left_out, tuple(segments), found)


def by_evidence(pair: Pairing, asked: Asked, found: Contrast) -> Comparison:
    """Return a comparison by evidence."""
    gap, lift = (
        Value.of(one) if isinstance(one, RobustEstimate) else Value.missing(one) for one in (found.gap, found.lift)
    )
    note = ""
    if isinstance(found.gap, RobustEstimate) and found.gap.certificate.provenance != "none":
        note = found.gap.certificate.note
    against = found.gap if isinstance(found.gap, ContradictionError) else found.curve
    return _compared(pair, asked, gap, lift, against, settled=found.settled, note=note)


def by_blocks(pair: Pairing, asked: Asked, found: Curve) -> Comparison:
    """Return a comparison by votes of blocks, whose curve is known."""
    a, b = pair.baseline.values, pair.other.values
    level = {"contamination": asked.contamination, **asked.options}
    gap = _or_why(lambda: difference(a, b, **level))
    lift = _or_why(lambda: difference(a, b, relative=True, **level))
    clear = gap.low is None or gap.high is None or (gap.low > 0 if found.sign > 0 else gap.high < 0)
    return _compared(pair, asked, gap, lift, found, settled=found.stands is not None and clear)


def _compared(
    pair: Pairing, asked: Asked, gap: Value, lift: Value, found: Curve | ValueError, *, settled: bool, note: str = ""
) -> Comparison:
    """Write a comparison."""
    a, b = pair.baseline, pair.other
    superiority = None
    if not asked.more:
        # The kernel's values lie between 0 and 1, so the assumption on the rows is not needed.
        ranks = {"contamination": asked.contamination, **asked.options, "assume": None, "vote": "auto"}
        superiority = _or_why(lambda: u_statistic(a.values, b.values, kernel="auc", **ranks))
    if isinstance(found, ContradictionError):  # the note of the difference says it
        rows, sentence = None, ""
    elif isinstance(found, ValueError):
        why = in_options(str(found)).removesuffix(".")
        rows, sentence = None, f"It is unknown how many corrupt rows overturn this: {why}."
    else:
        rows, sentence = found.stands, _sentence(found, a.label, b.label, gap, asked, settled=settled)
    sizes = (len(a.rows), len(b.rows))
    return Comparison(
        pair.segment, b.label, *sizes, pair.plain(asked), gap, lift, superiority, rows, sentence, settled, note
    )


def shared_notes(found: Sequence[Comparison]) -> list[str]:
    """Return what adjusted comparisons rest on: the first note, where they differ by the coefficient alone."""
    notes = list(dict.fromkeys(one.note for one in found if one.note))
    return [f"{notes[0]} The other comparisons have coefficients of their own."] if len(notes) > 1 else notes


def _or_why(estimate: Callable[[], RobustEstimate]) -> Value:
    try:
        return Value.of(estimate())
    except ValueError as error:
        return Value.missing(error)


def _kept(gap: Value) -> str:
    """Say how to keep the sd that was read off the rows: another number of corrupt rows reads off another one."""
    if gap.premise_sd is None:
        return ""
    return f"; another --contamination reads off another sd, --sd {gap.premise_sd:.3g} keeps it"


def _sentence(found: Curve, baseline: str, other: str, gap: Value, asked: Asked, *, settled: bool) -> str:
    """Return a sentence on how many corrupt rows the conclusion survives, with the names of the variants.

    If these are fewer than the interval `gap` allows for, the sentence says so.
    """
    allowed = f"With {count(found.assumed, 'corrupt row')} (--contamination {asked.contamination})"
    if found.stands is None and found.misfit:
        return f"{found.misfit} {allowed} it is not settled whether {other} or {baseline} is larger."
    if found.stands is None:
        others = f"no row besides {spaced(found.certain)} without a usable number" if found.certain else "none"
        which = f"whether {other} or {baseline} is larger"
        reasons = f" (if {found.premise})" if found.premise else ""
        return f"These {spaced(found.n_rows)} rows do not settle {which}, even if {others} is corrupt{reasons}."
    larger = found.sign > 0
    winner, loser = (other, baseline) if larger else (baseline, other)
    rows = f"{spaced(found.stands)} of the {spaced(found.n_rows)} rows"
    if settled and gap.estimate is not None:
        ends = [sign if end is None else end for end, sign in ((gap.low, -math.inf), (gap.high, math.inf))]
        value, *ends = (found.sign * one for one in (gap.estimate, *ends))
        reasons = f" (if {found.premise})" if found.premise else ""
        reasons = reasons or ("" if found.provenance == "certified" else " (plug-in)")
        sure = f"{percent(asked.confidence)}, allowing for {spaced_count(found.assumed, 'corrupt row')}"
        size = with_interval(value, min(ends), max(ends), sure)
        stands = f"that it is larger stands unless more than {rows} are corrupt"
        return f"{winner} is larger than {loser} by {size}; {stands}{reasons}."
    few = f"no more than {rows} were" if found.stands else "no row were"
    turned = gap.high is not None and gap.low is not None and (gap.high < 0 if larger else gap.low > 0)
    now = f"{loser} is larger than {winner}" if turned else f"it is not settled whether {other} or {baseline} is larger"
    reasons = f" (if {found.premise}{_kept(gap)})" if found.premise else ""
    return f"{allowed} {now}; if {few} corrupt, {winner} would be larger than {loser}{reasons}."
