"""How many corrupt rows it takes to overturn a conclusion."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.blocks.choose import log_delta_of
from outvote.blocks.partition import Rng, seed_of
from outvote.contamination import Adversary, Contamination
from outvote.data.rows import MoreCorruptRows, read_rows
from outvote.estimate.estimate import difference, mean
from outvote.estimate.result import RobustEstimate, with_radius
from outvote.estimate.unknown import level_counts
from outvote.votes import Alternative

_CLAIM = re.compile(r"\s*(mean|difference)\s*(<=|>=|<|>)\s*([-+0-9.eE]+)\s*")
#: Each number of corrupt rows up to this one is a level of its own; then levels grow by 2 %.
_EXACT_LEVELS = 64
_GROWTH = 1.02


@dataclass(frozen=True, repr=False)
class Tolerance:
    """How many corrupt rows a conclusion survives.

    Attributes
    ----------
    rows : int or None
        The conclusion stands for every number of corrupt rows up to this one, in all samples together; None if it
        does not stand even when no row is corrupt.
    n_rows : int
        Rows in all samples together.
    claim : str
        The conclusion.
    confidence : float
        With this probability the sentence is true, however many rows are corrupt.
    estimate : RobustEstimate
        The estimate when no row is corrupt, but for those that are for certain (NaN, outside known bounds).
    """

    rows: int | None
    n_rows: int
    claim: str
    confidence: float
    estimate: RobustEstimate

    @property
    def stands(self) -> bool:
        """Whether the conclusion stands when no row is corrupt."""
        return self.rows is not None

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        return {
            "rows": self.rows,
            "n_rows": self.n_rows,
            "claim": self.claim,
            "confidence": self.confidence,
            "sentence": str(self),
            "estimate": self.estimate.to_dict(),
        }

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        radius = float(self.estimate.radius)
        value = float(self.estimate.estimate)
        grounds = "" if self.estimate.certificate.adversary == "oblivious" else ", even by someone who saw the others"
        grounds += "" if self.estimate.certificate.provenance == "certified" else " (plug-in)"
        if self.claim in ("difference > 0", "difference < 0"):
            winner, loser = ("B", "A") if self.claim == "difference > 0" else ("A", "B")
            found = f"{winner} beats {loser} by {with_radius(value if winner == 'B' else -value, radius)}"
        else:
            found = f"{self.claim}: it is {with_radius(value, radius)}"
        if self.rows is None:
            rows = _spaced(self.n_rows)
            return f"These {rows} rows do not settle whether {self.claim}, even if none is corrupt{grounds}."
        return (
            f"{found}; this stands unless more than {_spaced(self.rows)} of the {_spaced(self.n_rows)} rows are "
            f"corrupt{grounds}."
        )


def tolerance(
    *samples: ArrayLike,
    claim: str | None = None,
    confidence: float = 0.95,
    assume: Any = None,
    vote: str = "auto",
    paired: bool = False,
    adversary: Adversary = "oblivious",
    rng: Rng = None,
    **options: Any,
) -> Tolerance:
    """Count the corrupt rows that a conclusion survives.

    Parameters
    ----------
    *samples : array-like
        One sample and a `claim` about its mean, or two samples a and b, whose means are compared.
    claim : str, optional
        ``"mean > 0"``, ``"mean < 12.5"``; for two samples ``"difference > 0"`` (mean(b) - mean(a)). Without one, for
        two samples, the conclusion is the sign of the difference, and the intervals are two-sided.
    confidence : float
        Confidence (1 - δ) of the sentence.
    assume, vote
        As for `mean`; a known scale and the soft vote tolerate most.
    paired : bool
        Whether row i of a belongs to row i of b; then rows are pairs.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values, or were chosen after seeing them.
    rng : int, Generator or None
        Seed.
    **options
        As for `mean`: partition, remainder, nan_policy.

    Returns
    -------
    Tolerance
        ``print`` it for the sentence.

    Notes
    -----
    The conclusion must stand at *every* level up to the one reported; for two samples level t allows t corrupt rows in
    both together, however they are split. That makes the sentence valid without splitting δ between the levels: if it
    is false, t* ≤ `rows` rows are corrupt and the conclusion is wrong; but then the conclusion stood at level t*, where
    its interval misses the truth with probability δ at most. Levels beyond 64 share the interval of the next one in a
    grid that grows by 2 %, so `rows` may be that much too small.

    Peak memory: O(n), about five times the samples.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(10.0, size=4000), rng.normal(11.8, size=6000)
    >>> print(ov.tolerance(a, b, assume=ov.FiniteVariance(1.0), rng=0))
    B beats A by 1.836 ± 0.085; this stands unless more than 1 679 of the 10 000 rows are corrupt.
    """
    rows = [read_rows(sample, name) for sample, name in zip(samples, _names(samples), strict=True)]
    for sample, name in zip(rows, _names(samples), strict=True):
        if sample.ndim != 1:
            raise ValueError(f"{name} has shape {sample.shape}: tolerance takes one column at a time")
    for fixed in ("contamination", "alternative", "axis", "simultaneous", "relative", "function"):
        if fixed in options:
            raise TypeError(f"{fixed}={options[fixed]!r} does not go with tolerance: state the conclusion as a claim")
    if paired:
        if len(rows) != 2 or len(rows[0]) != len(rows[1]):
            raise ValueError("paired=True needs two samples with as many rows")
        rows = [np.subtract(rows[1], rows[0], dtype=np.float64)]
        claim = claim.replace("difference", "mean") if claim else None
    sign, bound, text = _read_claim(claim, paired, len(rows))
    seed, log_delta = seed_of(rng), log_delta_of(confidence)
    settings = {"assume": assume, "vote": vote, "rng": seed, **options}
    alternatives: dict[int | None, Alternative] = {None: "two-sided", 1: "greater", -1: "less"}
    alternative = alternatives[sign]
    first = _fewest_corrupt(rows, confidence, adversary, settings)
    if paired:
        first = replace(first, statistic="paired difference")
    if sign is None:
        sign = 1 if float(first.estimate) >= bound else -1
        text = text.replace("?", ">" if sign > 0 else "<")
    fewest = int(np.max(first.plan.n_corrupt))  # below this a level contradicts the rows
    share = -math.expm1(log_delta - math.log(len(rows)))

    def lower(sample: NDArray[Any], side: int, assumed: dict[str, Any]) -> Callable[[int], float]:
        """Lower bound on side·mean when `count` rows may be corrupt; ∞, anything, when more are for certain."""

        def at(count: int) -> float:
            which = alternative if alternative == "two-sided" else alternatives[side]
            try:
                found = mean(sample, Contamination(count, adversary), share, alternative=which, **(settings | assumed))
            except MoreCorruptRows:
                return math.inf
            return float(found.interval.low) if side > 0 else -float(found.interval.high)

        return at

    if len(rows) == 1:
        grid, lows = _descend(lower(rows[0], sign, {}), sign * bound, len(rows[0]))
        standing = _first_failure([grid], [lows], sign * bound)
    else:
        own = [
            {name: value[s] for name, value in settings.items() if isinstance(value, (tuple, list)) and len(value) == 2}
            for s in range(2)
        ]
        sides = [lower(rows[0], -sign, own[0]), lower(rows[1], sign, own[1])]
        certain = [
            int(_fewest_corrupt([sample], share, adversary, settings | one).plan.n_corrupt)  # type: ignore[arg-type]
            for sample, one in zip(rows, own, strict=True)
        ]
        fewest, clean = sum(certain), [side(count) for side, count in zip(sides, certain, strict=True)]
        found = [
            _descend(side, sign * bound - other, len(sample))
            for side, other, sample in zip(sides, reversed(clean), rows, strict=True)
        ]
        standing = _first_failure([grid for grid, _ in found], [lows for _, lows in found], sign * bound)
    n_rows = sum(map(len, rows))
    return Tolerance(standing if standing >= fewest else None, n_rows, text, confidence, first)


def _fewest_corrupt(
    rows: list[NDArray[Any]], confidence: float, adversary: Adversary, settings: dict[str, Any]
) -> RobustEstimate:
    """Estimate with as few corrupt rows as there are for certain: none, or those that give themselves away."""
    count = 0
    while True:
        try:
            if len(rows) == 1:
                return mean(rows[0], Contamination(count, adversary), confidence, **settings)
            return difference(rows[0], rows[1], Contamination(count, adversary), confidence, **settings)
        except MoreCorruptRows as found:
            count = max(count + 1, found.count)


def _descend(lower: Callable[[int], float], bound: float, n_rows: int) -> tuple[list[int], list[float]]:
    """Evaluate a lower bound level by level until it no longer exceeds `bound`."""
    grid, lows = [], []
    for level in level_counts((n_rows - 1) // 2, exact_up_to=_EXACT_LEVELS, growth=_GROWTH):
        grid.append(level)
        lows.append(lower(level))
        if not lows[-1] > bound:
            return grid, lows
    return [*grid, n_rows], [*lows, -math.inf]


def _first_failure(grids: list[list[int]], lows: list[list[float]], bound: float) -> int:
    """The largest t such that the lower bounds add up to more than `bound` for every split of t corrupt rows.

    Every number of rows from one level to the next has the latter's bound, so a combination of levels (i, j) stands for
    splits that start right after levels i-1 and j-1.
    """
    starts = [np.array([0, *(level + 1 for level in grid[:-1])]) for grid in grids]
    sums, total = np.zeros(()), np.zeros((), dtype=np.int64)
    for low, start in zip(lows, starts, strict=True):
        with np.errstate(invalid="ignore"):
            sums, total = np.add.outer(sums, np.array(low)), np.add.outer(total, start)
    failing = ~((sums > bound) | np.isnan(sums))  # ∞ - ∞: levels that the rows contradict do not count
    return int(total[failing].min()) - 1


def _read_claim(claim: str | None, paired: bool, n_samples: int) -> tuple[int | None, float, str]:
    """Return the direction (None if open), the number to compare with, and the claim in words."""
    subject = "difference" if paired or n_samples == 2 else "mean"
    if n_samples not in (1, 2):
        raise TypeError(f"tolerance takes one sample or two, not {n_samples}")
    if claim is None:
        if n_samples == 1 and not paired:
            raise TypeError("tolerance of one sample needs a claim, claim='mean > 0' for instance")
        return None, 0.0, f"{subject} ? 0"
    match = _CLAIM.fullmatch(claim) if isinstance(claim, str) else None
    if not match or (match[1] == "difference" and n_samples == 1) or (match[1] == "mean" and n_samples == 2):
        raise ValueError(f"claim={claim!r} must read like '{subject} > 0' or '{subject} < 12.5'")
    try:
        bound = float(match[3])
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise ValueError(f"claim={claim!r} compares with {match[3]!r}, which is not a finite number")
    return (1 if match[2].startswith(">") else -1), bound, f"{subject} {match[2]} {match[3]}"


def _names(samples: tuple[ArrayLike, ...]) -> tuple[str, ...]:
    return ("x",) if len(samples) == 1 else tuple(f"sample {s + 1}" for s in range(len(samples)))


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")
