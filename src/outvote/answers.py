"""What the commands compute: plain data, printed elsewhere (showing.py)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, FiniteKurtosis, FiniteVariance, SubGaussian
from outvote.blocks import plan_blocks, rows_needed
from outvote.certificate import radius as certified_radius
from outvote.contamination import Contamination
from outvote.estimate import difference, mean, u_statistic
from outvote.inputs import NanPolicy
from outvote.overturn import Tolerance, tolerance
from outvote.plans import BlockPlan, GridPlan
from outvote.plotting.base import spaced
from outvote.reading import Columns, Group, Label, Source
from outvote.results import RobustEstimate
from outvote.unknown import sensitivity
from outvote.votes import has_scale

#: Rows in a block when suspects are looked for: few, so that a corrupt row moves its block, which few others share.
_SUSPECT_BLOCK = 5
#: A block is voted out when its mean is farther from the vote than so many robust standard deviations of block means.
OUT = 3.0
_NORMAL_MAD = 1.4826
#: Partitions that share one permutation of the rows.
_PER_SHUFFLE = 20

#: How a tolerance begins: B is the larger one, or not.
_BEATS = {True: "B beats A by ", False: "A beats B by "}
#: What the library calls a sample or an argument, and what it is on the command line.
_OPTIONS = [
    (r"^x (?=has |without )", "the column "),
    (r"^(?:a|b|sample \d) (?=has |without )", "a variant "),
    (r"^The mean of a may", "The mean of the baseline may"),
    (r"\bnan_policy='(\w+)'", r"--nan \1"),
    (r"\bassume=(?=\W|$)", "--sd, --bounds, --kurtosis or --scale"),
    (r"\b(contamination|confidence|sd|kurtosis|scale|vote)=", r"--\1 "),
]

Progress = Callable[[str], None]


def _silent(_: str) -> None:
    """Say nothing of how far the work is."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What was asked for.

    Attributes
    ----------
    contamination : float, int or "auto"
        Share or number of rows that may be corrupt, in each group.
    confidence : float
        Confidence of each interval.
    assume : assumption or None
        What is known of the good rows.
    vote : str
        How block values become one.
    nan : {"raise", "omit", "corrupt"}
        What rows without a number are.
    seed : int
        Seed of the partitions.
    """

    contamination: Any = 0.01
    confidence: float = 0.95
    assume: Assumption | None = None
    vote: str = "auto"
    nan: NanPolicy = "raise"
    seed: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of an estimator, but for the contamination."""
        return {
            "confidence": self.confidence,
            "assume": self.assume,
            "vote": self.vote,
            "nan_policy": self.nan,
            "rng": self.seed,
        }

    def count(self, n_rows: int) -> int:
        """How many of so many rows may be corrupt; where that is open, none is named."""
        return 0 if isinstance(self.contamination, str) else Contamination(self.contamination).count(n_rows)


def in_options(text: str) -> str:
    """Say in the options of the command line what the library says in arguments.

    Examples
    --------
    >>> in_options("sd=-1.0 must be positive, or take nan_policy='omit'")
    '--sd -1.0 must be positive, or take --nan omit'
    """
    for pattern, words in _OPTIONS:
        text = re.sub(pattern, words, text)
    return text


@dataclass(frozen=True)
class Value:
    """An estimate with its interval; None where there is none, or where nothing bounds it."""

    estimate: float | None
    low: float | None
    high: float | None
    radius: float | None
    provenance: str
    note: str = ""

    @classmethod
    def of(cls, found: RobustEstimate) -> Value:
        """Take over what an estimator found."""
        low, high = found.interval
        provenance, note = found.certificate.provenance, found.certificate.note
        why = in_options(note) if provenance == "none" else ""
        return cls.checked(found.estimate, low, high, found.radius, provenance, why)

    @classmethod
    def checked(cls, estimate: Any, low: Any, high: Any, radius: Any, provenance: str, note: str = "") -> Value:
        """Take numbers as they come: what is not finite is None."""
        return cls(_finite(estimate), _finite(low), _finite(high), _finite(radius), provenance, note)

    @classmethod
    def missing(cls, note: object) -> Value:
        """Say why there is no estimate."""
        return cls(None, None, None, None, "none", in_options(str(note)))

    @property
    def bounded(self) -> bool:
        """Whether there is an interval."""
        return self.provenance != "none"


@dataclass(frozen=True)
class MeanLine:
    """The mean of one group: how many rows, plain, robust, corrupt rows allowed for and survived, blocks."""

    group: Label
    n: int
    plain: float | None
    mean: Value
    corrupt: int | None
    survives: int | None
    blocks: int | None
    vote: str


@dataclass(frozen=True)
class Level:
    """The mean of one group if so many of its rows were corrupt."""

    group: Label
    corrupt: int
    mean: Value


@dataclass(frozen=True)
class Means:
    """Answer of ``outvote mean``."""

    asked: Asked
    source: str
    value: str
    by: tuple[str, ...]
    groups: list[MeanLine]
    sensitivity: list[Level] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every group has an interval."""
        return all(line.mean.bounded for line in self.groups)


def means(columns: Columns, asked: Asked, source: str, *, levels: bool = False, progress: Progress = _silent) -> Means:
    """Estimate the mean of each group, plain and robust.

    A single group that has no answer is an error; among several it is a line that says why.
    """
    columns.check(asked.nan)
    lines: list[MeanLine] = []
    curve: list[Level] = []
    groups = columns.groups()
    for number, group in enumerate(groups, 1):
        progress(f"group {number} of {len(groups)}")
        try:
            found = mean(group.values, asked.contamination, **asked.options)
        except ValueError as error:
            if len(groups) == 1:
                raise
            lines.append(_no_mean(group, error))
            continue
        lines.append(_line(group.label, found, _plain(group.values)))
        if levels:
            curve += _levels(group, asked)
    return Means(asked, source, columns.name, columns.keys, lines, curve)


def means_by_id(source: Source, value: str, by: Sequence[str], row_id: str, asked: Asked) -> Means:
    """Estimate the mean of each group from rows that stay in their files, dealt by a hash of their id."""
    from outvote.tables import scan

    rows = source.relation(value, by, row_id, asked.nan)
    keys = [f"k{j}" for j in range(len(by))]
    plain = {
        tuple(labels): average
        for *labels, average in rows.aggregate(
            ", ".join([*keys, "avg(v) FILTER (NOT isnan(v))"]), ", ".join(keys)
        ).fetchall()
    }
    scanned = scan(rows, row_id="id")
    if not by:
        found = scanned.mean("v", contamination=asked.contamination, **asked.options)
        lines = [_line((), found, _finite(plain[()]))]
    else:
        table = scanned.mean("v", by=keys, contamination=asked.contamination, **asked.options)
        heads = [*keys, "n", "blocks", "survives", "estimate", "low", "high", "radius", "provenance", "note"]
        lines = []
        for line in table.project(", ".join(heads)).fetchall():
            label, (n, blocks, survives, *numbers) = line[: len(by)], line[len(by) :]
            estimate, low, high, radius, provenance, note = numbers
            known = Value.checked(estimate, low, high, radius, provenance, note)
            group, average = tuple(part or None for part in label), _finite(plain[tuple(label)])
            if known.estimate is None:
                lines.append(MeanLine(group, n, average, known, None, None, None, ""))
                continue
            count, soft = asked.count(n), may_be_soft(asked)
            vote = asked.vote if soft else "median"
            lines.append(MeanLine(group, n, average, known, count, count if soft else survives, blocks, vote))
    return Means(asked, str(source), value, tuple(by), lines)


def may_be_soft(asked: Asked) -> bool:
    """Whether blocks can vote otherwise than by their median: a soft vote needs a known scale."""
    scaled = asked.assume is not None and has_scale(asked.assume)
    return asked.vote in ("soft", "clipped") or (asked.vote == "auto" and scaled)


def _line(label: Label, found: RobustEstimate, plain: float | None) -> MeanLine:
    plan = found.plan
    assert isinstance(plan, BlockPlan)
    # Where the number was left open, the interval allows for the largest level.
    corrupt = found.certificate.levels[-1][0] if found.certificate.levels else plan.n_corrupt
    survives = plan.survives if plan.vote == "median" and not found.certificate.levels else corrupt
    return MeanLine(label, plan.n_rows, plain, Value.of(found), corrupt, survives, plan.n_blocks, plan.vote)


def _no_mean(group: Group, error: Exception) -> MeanLine:
    return MeanLine(group.label, len(group.values), _plain(group.values), Value.missing(error), None, None, None, "")


def _levels(group: Group, asked: Asked) -> list[Level]:
    found = sensitivity(group.values, **asked.options)
    levels = []
    columns = (found.n_corrupt, found.estimate, found.low, found.high, found.radius)
    for corrupt, estimate, low, high, radius in zip(*columns, strict=True):
        grounds = found.provenance if math.isfinite(radius) else "none"
        levels.append(Level(group.label, int(corrupt), Value.checked(estimate, low, high, radius, grounds)))
    return levels


# --- compare ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """One variant beside the baseline.

    Attributes
    ----------
    other : str
        The variant.
    n_baseline, n_other : int
        Rows of the two.
    plain : float or None
        Difference of the plain means.
    difference : Value
        mean(other) - mean(baseline).
    lift : Value
        The same, divided by mean(baseline).
    superiority : Value
        Probability that a row of the variant is larger than one of the baseline; equal ones count half.
    tolerance : int or None
        Rows that may be corrupt, in both together, without changing which mean is larger; None if that is open anyway.
    sentence : str
        The same in words.
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
    """Answer of ``outvote compare``."""

    asked: Asked
    source: str
    value: str
    by: str
    baseline: str
    left_out: int
    comparisons: list[Comparison]

    @property
    def complete(self) -> bool:
        """Whether everything has an interval."""
        return all(one.difference.bounded and one.lift.bounded and one.superiority.bounded for one in self.comparisons)


def compare(
    columns: Columns, asked: Asked, source: str, *, baseline: str | None = None, progress: Progress = _silent
) -> Comparisons:
    """Compare the means of variants with that of a baseline; the smallest label is the baseline by default."""
    columns.check(asked.nan)
    (by,) = columns.keys
    groups, first, left_out = variants(columns, baseline)
    found = []
    for other in groups:
        if other != first:
            progress(f"{other} against {first}")
            found.append(_compared(first, groups[first], other, groups[other], asked))
    return Comparisons(asked, source, columns.name, by, first, left_out, found)


def variants(columns: Columns, baseline: str | None) -> tuple[dict[str, NDArray[np.float64]], str, int]:
    """Return the rows of each variant, the baseline (by default the smallest label), and how many rows have none."""
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
        import difflib

        near = difflib.get_close_matches(baseline, labels, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, labels[:20]))}"
        raise ValueError(f"--baseline {baseline!r} is no value of {by!r}: {hint}")
    return baseline


def _compared(baseline: str, a: NDArray[np.float64], other: str, b: NDArray[np.float64], asked: Asked) -> Comparison:
    level = {"contamination": asked.contamination, **asked.options}
    gap = _or_why(lambda: difference(a, b, **level))
    lift = _or_why(lambda: difference(a, b, relative=True, **level))
    # Of the kernel's values it is known that they lie between 0 and 1, whatever is assumed of the rows.
    ranks = level | {"assume": None, "vote": "auto" if asked.vote == "median" else asked.vote}
    superiority = _or_why(lambda: u_statistic(a, b, kernel="auc", grid="diagonal", **ranks))
    try:
        rows, sentence = _stands(tolerance(a, b, **asked.options), baseline, other, gap, asked)
    except ValueError as error:
        why = in_options(str(error)).removesuffix(".")
        rows, sentence = None, f"How many corrupt rows it takes to overturn this cannot be said: {why}."
    plain_a, plain_b = _plain(a), _plain(b)
    plain = None if plain_a is None or plain_b is None else _finite(plain_b - plain_a)
    return Comparison(other, len(a), len(b), plain, gap, lift, superiority, rows, sentence)


def _or_why(estimate: Callable[[], RobustEstimate]) -> Value:
    try:
        return Value.of(estimate())
    except ValueError as error:
        return Value.missing(error)


def _stands(found: Tolerance, baseline: str, other: str, gap: Value, asked: Asked) -> tuple[int | None, str]:
    """How many corrupt rows the conclusion survives, and the same in words, with the names of the variants.

    Where rows are corrupt for certain, it must survive as many as the estimate in the sentence allows for. Where it
    does not survive as many as the interval `gap` allows for, the sentence says so.
    """
    certain = int(np.sum(found.estimate.plan.n_corrupt))
    if found.rows is None or found.rows < certain:
        others = "no other row" if certain else "none"
        which = f"whether {other} or {baseline} is larger"
        return None, f"These {spaced(found.n_rows)} rows do not settle {which}, even if {others} is corrupt."
    larger = found.claim == "difference > 0"
    winner, loser = (other, baseline) if larger else (baseline, other)
    if gap.low is None or gap.high is None or (gap.low > 0 if larger else gap.high < 0):
        return found.rows, f"{winner} beats {loser} by {str(found).removeprefix(_BEATS[larger])}"
    few = f"no more than {spaced(found.rows)} of the {spaced(found.n_rows)} rows were" if found.rows else "no row were"
    settled = gap.high < 0 if larger else gap.low > 0
    now = f"{loser} beats {winner}" if settled else f"it is not settled whether {other} or {baseline} is larger"
    return (
        found.rows,
        f"With --contamination {asked.contamination} {now}; if {few} corrupt, {winner} would beat {loser}.",
    )


# --- plan ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """A plan: what is different, rows, corrupt rows, blocks of what size, the vote, and the radius."""

    change: str
    rows: int
    corrupt: int
    blocks: int
    block_size: int
    vote: str
    radius: float | None


@dataclass(frozen=True)
class Planned:
    """Answer of ``outvote plan``; radii are in standard deviations where no scale was given (`unit`)."""

    asked: Asked
    rows: int
    unit: str
    assumed: str
    plan: Option
    explanation: str
    options: list[Option]
    rows_for_half: int | None
    half_note: str

    @property
    def complete(self) -> bool:
        """Whether there is a radius."""
        return self.plan.radius is not None


def plan(rows: int, asked: Asked) -> Planned:
    """Choose the blocks before there are rows, and say what more rows, other assumptions or votes would buy."""
    if isinstance(asked.contamination, str):
        raise ValueError("--contamination auto needs rows to look at: a plan takes a share or a number of corrupt rows")
    assume, unit = _with_scale(asked.assume)
    # Without a known scale the blocks vote by their median, as in `mean`.
    here = replace(asked, assume=assume, vote="median" if unit and asked.vote == "auto" else asked.vote)
    chosen, option = _option("as asked", rows, here)
    ways: list[tuple[str, int, Asked]] = [("2 × the rows", 2 * rows, here), ("10 × the rows", 10 * rows, here)]
    if option.corrupt > 1:
        amount = asked.contamination
        half = amount / 2 if isinstance(amount, float) else amount // 2
        ways.append(("half the corrupt", rows, replace(here, contamination=half)))
    if option.corrupt:
        ways.append(("none corrupt", rows, replace(here, contamination=0)))
    if unit:
        ways.append(("known: the sd", rows, replace(here, vote="auto")))
    else:
        votes = [name for name in ("median", "soft", "clipped") if name != option.vote]
        ways += [(f"{name} vote", rows, replace(here, vote=name)) for name in votes]
    here_known = replace(here, vote="auto") if unit else here
    ways += [(f"known: {text}", rows, replace(here_known, assume=other)) for text, other in _others(assume)]
    options = []
    for change, n_rows, other in ways:
        try:
            options.append(_option(change, n_rows, other)[1])
        except ValueError:
            continue  # there is no such plan: nothing to be bought
    rows_for_half, half_note = _half(option, here)
    return Planned(
        asked=asked,
        rows=rows,
        unit=unit,
        assumed="a finite sd" if asked.assume is None else asked.assume.describe(),
        plan=option,
        explanation=chosen.explain(),
        options=options,
        rows_for_half=rows_for_half,
        half_note=half_note,
    )


def _with_scale(assume: Assumption | None) -> tuple[Assumption, str]:
    if assume is None:
        return FiniteVariance(1.0), "sd"
    if isinstance(assume, FiniteKurtosis) and assume.sd is None:
        return replace(assume, sd=1.0), "sd"
    return assume, ""


def _option(change: str, rows: int, asked: Asked) -> tuple[BlockPlan, Option]:
    contamination: Any = asked.contamination
    found = plan_blocks(rows, contamination, asked.confidence, asked.assume, vote=asked.vote)
    assert not isinstance(found, GridPlan)
    assert asked.assume is not None
    reached = certified_radius(
        n_blocks=found.n_blocks,
        n_corrupt=found.n_corrupt,
        block_size=found.block_size,
        confidence=asked.confidence,
        assume=asked.assume,
        vote=found.vote,
    )
    option = Option(
        change, rows, found.n_corrupt, found.n_blocks, found.block_size, found.vote, _finite(float(reached))
    )
    return found, option


def _others(assume: Assumption) -> list[tuple[str, Assumption]]:
    """What else might be known: more than a standard deviation, or nothing but that."""
    if isinstance(assume, FiniteVariance):
        sd = assume.sd
        return [
            ("kurtosis ≤ 9", FiniteKurtosis(9.0, sd)),
            ("sub-Gaussian", SubGaussian(sd)),
        ]
    if isinstance(assume, SubGaussian):
        return [("the sd alone", FiniteVariance(assume.scale))]
    if isinstance(assume, Bounded):
        sd = assume.width / 2 if assume.variance is None else math.sqrt(assume.variance)
        others: list[tuple[str, Assumption]] = [(f"sd ≤ {sd:.4g} alone", FiniteVariance(sd))]
        if assume.variance is None:
            quarter = assume.width / 4
            others.append((f"sd ≤ {quarter:.4g} too", replace(assume, variance=quarter**2)))
        return others
    if isinstance(assume, FiniteKurtosis) and assume.sd is not None:
        return [("the sd alone", FiniteVariance(assume.sd))]
    return []


def _half(option: Option, asked: Asked) -> tuple[int | None, str]:
    if option.radius is None:
        return None, "there is no radius to halve"
    contamination: Any = asked.contamination
    try:
        rows = rows_needed(option.radius / 2, contamination, asked.confidence, asked.assume, vote=asked.vote)
    except ValueError as error:
        return None, in_options(str(error).split(": ", 1)[-1])
    return rows, ""


# --- suspects -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Suspect:
    """A row that looks corrupt: where it is, what it says (text where it is no number), and its score."""

    file: str
    row: int
    group: Label
    value: float | None
    text: str
    score: float


@dataclass(frozen=True)
class Suspects:
    """Answer of ``outvote suspects``.

    Attributes
    ----------
    suspects : list of Suspect
        The most suspect rows, first those that are no numbers.
    typical : float
        The score of a row in the middle: what rows like any other have.
    missing : int
        Rows without a value, which are not listed.
    partitions, block_size : int
        How often the rows were dealt, into blocks of how many (the largest, where groups differ).
    """

    asked: Asked
    source: str
    value: str
    by: tuple[str, ...]
    n: int
    missing: int
    partitions: int
    block_size: int
    typical: float
    suspects: list[Suspect]

    @property
    def complete(self) -> bool:
        """Whether there is an answer."""
        return True


def suspects(
    columns: Columns,
    asked: Asked,
    source: str,
    *,
    top: int = 20,
    partitions: int = 200,
    progress: Progress = _silent,
) -> Suspects:
    """Rank rows by how often their block is voted out over many partitions of their group."""
    scores, distances = np.zeros(len(columns.values)), np.zeros(len(columns.values))
    largest, groups = 1, columns.groups()
    for number, group in enumerate(groups, 1):
        finite = np.isfinite(group.values)
        if not finite.any():
            continue
        size = _suspect_block(int(finite.sum()), asked)
        largest = max(largest, size)
        say = (lambda text, n=number: progress(f"group {n} of {len(groups)}, {text}")) if len(groups) > 1 else progress
        found = score_rows(group.values[finite], size, partitions, asked.seed, say)
        rows = group.rows[finite]
        scores[rows], distances[rows] = found
    bad = ~np.isfinite(columns.values)
    texts = {cell.row: cell.text for cell in columns.unreadable}
    certain = sorted({*texts, *np.flatnonzero(np.isinf(columns.values)).tolist()})
    typical = float(np.median(scores[~bad])) if not bad.all() else 0.0
    ranked = [row for row in _ranked(scores, distances, top).tolist() if scores[row] > typical and not bad[row]]
    lines = [
        Suspect(
            *columns.place(row),
            columns.labels[int(columns.codes[row])],
            None if bad[row] else float(columns.values[row]),
            texts.get(row, str(columns.values[row]) if bad[row] else ""),
            1.0 if bad[row] else float(scores[row]),
        )
        for row in [*certain, *ranked][:top]
    ]
    missing = int(np.isnan(columns.values).sum()) - columns.n_unreadable
    return Suspects(
        asked, source, columns.name, columns.keys, len(scores), missing, partitions, largest, typical, lines
    )


def _suspect_block(n_rows: int, asked: Asked) -> int:
    """Rows in a block: few enough for corrupt rows to reach at most a quarter of the blocks."""
    count = n_rows // 100 if isinstance(asked.contamination, str) else min(asked.count(n_rows), n_rows)
    return max(1, min(_SUSPECT_BLOCK, n_rows // (4 * count + 1), n_rows // 3))


def _ranked(scores: NDArray[np.float64], distances: NDArray[np.float64], top: int) -> NDArray[np.intp]:
    """The rows with the highest scores, farther ones first among equal ones."""
    if top < len(scores):
        least = np.partition(scores, len(scores) - top)[len(scores) - top]
        candidates = np.flatnonzero(scores >= least)
    else:
        candidates = np.arange(len(scores))
    return candidates[np.lexsort((candidates, -distances[candidates], -scores[candidates]))][:top]


def score_rows(
    values: NDArray[np.float64], size: int, partitions: int, seed: int, progress: Progress = _silent
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score rows by the share of partitions in which their block is voted out.

    A block is voted out when its mean is farther from the median of the block means than three times their robust
    standard deviation (1.4826 MAD). Some partitions share a permutation: its columns of rows are turned against each
    other by random numbers of places, so that block k holds one row of each column.

    Parameters
    ----------
    values : ndarray
        Finite numbers.
    size : int
        Rows in a block.
    partitions : int
        How often the rows are dealt.
    seed : int
        Seed.
    progress : callable
        Told how far it is.

    Returns
    -------
    scores, distances : ndarray
        The share, and how far the row itself is from the median of all.

    Examples
    --------
    >>> x = np.r_[np.random.default_rng(0).normal(size=99), 50.0]
    >>> scores, _ = score_rows(x, size=5, partitions=100, seed=0)
    >>> int(scores.argmax()), bool(scores[99] > 0.9)
    (99, True)
    """
    rng, n_rows = np.random.default_rng([11, seed]), len(values)
    n_blocks = n_rows // size
    out, dealt = np.zeros(n_rows), np.zeros(n_rows)
    # Halves and quarters of what is largest, so that sums of a block do not overflow.
    unit = 2.0 ** -math.ceil(math.log2(size) + 1) if np.abs(values).max() > 1e300 else 1.0
    for start in range(0, partitions, _PER_SHUFFLE):
        progress(f"partition {start} of {partitions}")
        here = min(_PER_SHUFFLE, partitions - start)
        rows = rng.permutation(n_rows)[: n_blocks * size].reshape(size, n_blocks)
        columns, times = values[rows] * unit, np.zeros((size, n_blocks), dtype=np.int64)
        for _ in range(here):
            turns = rng.integers(n_blocks, size=size)
            sums = np.zeros(n_blocks)
            for column, turn in zip(columns, turns, strict=True):
                sums += np.roll(column, turn)
            sums -= np.median(sums)
            np.abs(sums, out=sums)
            voted_out = sums > OUT * _NORMAL_MAD * np.median(sums)
            for counts, turn in zip(times, turns, strict=True):
                counts += np.roll(voted_out, -turn)
        out[rows] += times
        dealt[rows] += here
    with np.errstate(over="ignore"):
        return out / np.maximum(dealt, 1), np.abs(values - np.median(values))


def _plain(values: NDArray[np.float64]) -> float | None:
    """Average the rows that are there, whatever they say."""
    there = values[~np.isnan(values)]
    with np.errstate(over="ignore", invalid="ignore"):
        return _finite(float(there.mean())) if len(there) else None


def _finite(number: Any) -> float | None:
    return float(number) if number is not None and math.isfinite(number) else None
