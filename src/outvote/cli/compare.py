"""``outvote compare``: compare variants with a baseline."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outvote.cli.answer import Asked, Progress, Value, finite, in_options, plain_mean, silent
from outvote.data.columns import Columns
from outvote.data.text import count, spaced, with_radius
from outvote.estimate.curve import Curve, Side, curve
from outvote.estimate.difference import difference
from outvote.estimate.result import RobustEstimate
from outvote.estimate.u_statistic import u_statistic


@dataclass(frozen=True)
class Comparison:
    """The comparison of one variant with the baseline.

    Attributes
    ----------
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
    superiority : Value
        Probability that a row of the variant is larger than a row of the baseline; equal rows count half.
    tolerance : int or None
        How many rows of both may be corrupt without changing which mean is larger; None if that is not settled.
    sentence : str
        The tolerance in words.
    """

    other: str
    n_baseline: int
    n_other: int
    plain: float | None
    difference: Value
    lift: Value
    superiority: Value
    tolerance: int | None
    sentence: str


@dataclass(frozen=True)
class Comparisons:
    """The answer of ``outvote compare``."""

    asked: Asked
    source: str
    value: str
    by: str
    baseline: str
    left_out: int
    comparisons: list[Comparison]

    @property
    def complete(self) -> bool:
        """Whether all values have an interval."""
        return all(one.difference.bounded and one.lift.bounded and one.superiority.bounded for one in self.comparisons)


def compare(
    columns: Columns, asked: Asked, source: str, *, baseline: str | None = None, progress: Progress = silent
) -> Comparisons:
    """Compare the means of variants with the mean of a baseline, which is the smallest label by default."""
    columns.check(asked.nan)
    (by,) = columns.keys
    groups, first, left_out = variants(columns, baseline)
    base, found = asked.side(groups[first]), []
    for other in groups:
        if other != first:
            progress(f"{other} against {first}")
            found.append(_compared(first, groups[first], base, other, groups[other], asked))
    return Comparisons(asked, source, columns.name, by, first, left_out, found)


def variants(columns: Columns, baseline: str | None) -> tuple[dict[str, NDArray[np.float64]], str, int]:
    """Return the rows of each variant, the baseline (the smallest label by default), and how many rows have none."""
    (by,) = columns.keys
    groups = {group.label[0]: group.values for group in columns.groups()}
    left_out = len(groups.pop(None, ()))
    labels = [label for label in groups if label is not None]
    if len(labels) < 2:
        there = f"the one value {labels[0]!r}" if labels else "no value"
        raise ValueError(f"--by {by} has {there}, but a comparison needs two")
    first = labels[0] if baseline is None else _among(baseline, labels, by)
    return {label: groups[label] for label in labels}, first, left_out


def _among(baseline: str, labels: list[str], by: str) -> str:
    if baseline not in labels:
        near = difflib.get_close_matches(baseline, labels, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"its values are {', '.join(map(repr, labels[:20]))}"
        raise ValueError(f"--baseline {baseline!r} is not a value of {by!r}: {hint}")
    return baseline


def _compared(
    baseline: str, a: NDArray[np.float64], base: Side, other: str, b: NDArray[np.float64], asked: Asked
) -> Comparison:
    level = {"contamination": asked.contamination, **asked.options}
    gap = _or_why(lambda: difference(a, b, **level))
    lift = _or_why(lambda: difference(a, b, relative=True, **level))
    # The kernel's values lie between 0 and 1, so the assumption on the rows is not needed.
    ranks = level | {"assume": None, "vote": "auto"}
    superiority = _or_why(lambda: u_statistic(a, b, kernel="auc", **ranks))
    try:
        found = asked.curve([a, b], shown=False) if asked.evidence else curve([base, asked.side(b)], shown=False)
        rows, sentence = found.stands, _sentence(found, baseline, other, gap, asked)
    except ValueError as error:
        why = in_options(str(error)).removesuffix(".")
        rows, sentence = None, f"It is unknown how many corrupt rows overturn this: {why}."
    plain_a, plain_b = plain_mean(a), plain_mean(b)
    plain = None if plain_a is None or plain_b is None else finite(plain_b - plain_a)
    return Comparison(other, len(a), len(b), plain, gap, lift, superiority, rows, sentence)


def _or_why(estimate: Callable[[], RobustEstimate]) -> Value:
    try:
        return Value.of(estimate())
    except ValueError as error:
        return Value.missing(error)


def _sentence(found: Curve, baseline: str, other: str, gap: Value, asked: Asked) -> str:
    """Return a sentence on how many corrupt rows the conclusion survives, with the names of the variants.

    If these are fewer than the interval `gap` allows for, the sentence says so.
    """
    if found.stands is None:
        others = f"no row besides {spaced(found.certain)} without a usable number" if found.certain else "none"
        which = f"whether {other} or {baseline} is larger"
        grounds = f" (if {found.premise})" if found.premise else ""
        return f"These {spaced(found.n_rows)} rows do not settle {which}, even if {others} is corrupt{grounds}."
    larger = found.sign > 0
    winner, loser = (other, baseline) if larger else (baseline, other)
    rows = f"{spaced(found.stands)} of the {spaced(found.n_rows)} rows"
    settled = gap.low is None or gap.high is None or (gap.low > 0 if larger else gap.high < 0)
    if asked.evidence:
        settled = found.settled
    if settled and gap.estimate is not None:
        size = with_radius(abs(gap.estimate), gap.radius or 0.0)
        grounds = f" (if {found.premise})" if found.premise else ""
        grounds = grounds or ("" if found.provenance == "certified" else " (plug-in)")
        return f"{winner} beats {loser} by {size}; this stands unless more than {rows} are corrupt{grounds}."
    few = f"no more than {rows} were" if found.stands else "no row were"
    turned = gap.high is not None and gap.low is not None and (gap.high < 0 if larger else gap.low > 0)
    now = f"{loser} beats {winner}" if turned else f"it is not settled whether {other} or {baseline} is larger"
    grounds = f" (if {found.premise})" if found.premise else ""
    allowed = f"With {count(found.assumed, 'corrupt row')} (--contamination {asked.contamination})"
    return f"{allowed} {now}; if {few} corrupt, {winner} would beat {loser}{grounds}."
