"""Robust differences of the quantiles of two samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.blocks.plan import RowPlan
from outvote.contamination import Contamination
from outvote.data.arguments import check_choice, check_flags
from outvote.data.missing import NanPolicy, check_certain
from outvote.data.rows import read_sample
from outvote.estimate.levels import agree
from outvote.estimate.quantile import quantile_certificate
from outvote.estimate.request import Allowed, Request
from outvote.estimate.result import Histogram, Interval, RobustEstimate, shaped
from outvote.estimate.shares import Column, Shares
from outvote.votes import Alternative, VoteName
from outvote.votes.evidence import lower_ranks

Floats = NDArray[np.float64]
_REASON = "Nothing is assumed of the clean rows: the ends are differences of rows, counted from below and from above"
_TOGETHER = f"{_REASON}, the widest over all ways to share the corrupt rows out between the samples."
_EACH = f"{_REASON}, each sample with its own number of corrupt rows."


def quantile_difference(
    a: ArrayLike,
    b: ArrayLike,
    q: Any = 0.5,
    contamination: Allowed | Literal["auto"] = 0.01,
    confidence: float = 0.95,
    nan_policy: NanPolicy = "raise",
    *,
    counted: Literal["together", "each"] | None = None,
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
    max_contamination: float | Contamination = 0.1,
) -> RobustEstimate:
    """Estimate by how much a quantile of b exceeds that of a; nothing is assumed of the clean rows.

    Parameters
    ----------
    a, b : array-like
        The two samples, of numbers. They are not modified.
    q : float or sequence of float
        Which quantiles, strictly between 0 and 1.
    contamination : float, int, tuple or Contamination
        How many rows may be corrupt, of each sample or, as a tuple, one for each.
    confidence, alternative, max_contamination
        As for `mean`.
    nan_policy : {"raise", "omit", "corrupt"}
        As for `quantile`.
    counted : {"together", "each"}, optional
        As for `difference`: whether the corrupt rows of both samples may be anywhere in them, as many as both amounts
        together, or each sample has its own number. By default "each" if `contamination` is a tuple.
    simultaneous : bool
        Whether `confidence` is for all quantiles at once rather than for each.

    Returns
    -------
    RobustEstimate

    Notes
    -----
    Each sample has an interval at half of δ, and the ends are subtracted; counted together, for every number of corrupt
    rows that a may have, with the rest in b, and the widest is taken.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.exponential(1.0, size=4000), rng.exponential(1.5, size=6000)
    >>> b[:60] = 1e9
    >>> print(ov.quantile_difference(a, b, 0.5, contamination=0.01))  # doctest: +NORMALIZE_WHITESPACE
    difference of medians 0.31 ± 0.11 (certified 95 %, allows for 100 corrupt rows in both together)
    """
    shares = Shares.read(q)
    check_flags(simultaneous=simultaneous)
    request = Request.read(
        contamination, confidence, vote="auto", votes=VoteName, n_samples=2, nan_policy=nan_policy,
        alternative=alternative, max_contamination=max_contamination,
    )  # fmt: skip
    check_choice("counted", "each" if counted is None else counted, Literal["together", "each"])
    samples = [_Sample.read(x, name, nan_policy) for x, name in ((a, "a"), (b, "b"))]

    def run(one: Request) -> RobustEstimate:
        apart = counted == "each" or (counted is None and isinstance(one.allowed.amount, tuple))
        return _difference(samples, shares, one, together=not apart, parts=len(shares.each) if simultaneous else 1)

    return agree(request, [one.column.n_rows for one in samples], run)


@dataclass(frozen=True, eq=False)
class _Sample:
    """The rows of one sample, in order."""

    column: Column
    ordered: Floats
    name: str

    @classmethod
    def read(cls, x: Any, name: str, nan_policy: NanPolicy) -> _Sample:
        values = read_sample(x, name).values
        if values.ndim != 1:
            raise ValueError(f"{name} has shape {values.shape}: quantile_difference takes one column at a time")
        column = Column.read(values, nan_policy, name)
        return cls(column, np.sort(column.values).astype(np.float64), name)

    def bounds(self, counts: NDArray[np.int64], share: Fraction, log_alpha: float, *, adaptive: bool) -> Floats:
        """Return a bound of a quantile from below for each number of corrupt rows; -inf where there is none."""
        ranks = lower_ranks(self.column.n_rows, counts, share, log_alpha, adaptive=adaptive)
        return np.r_[-math.inf, self.ordered][ranks]

    @property
    def mirrored(self) -> _Sample:
        """The rows with their signs changed."""
        return _Sample(self.column, -self.ordered[::-1], self.name)

    def estimate(self, share: Fraction) -> float:
        return float(self.ordered[self.column.estimate_rank(share) - 1])


def _difference(
    samples: Sequence[_Sample], shares: Shares, request: Request, *, together: bool, parts: int
) -> RobustEstimate:
    """Estimate for a known contamination; `parts` quantiles share the confidence."""
    counts = request.allowed.counts([one.column.n_rows for one in samples])
    for one, count in zip(samples, counts, strict=True):
        check_certain(one.column.n_found, count, one.column.n_rows, f"{one.name} has NaN")
    terms = request.terms.shared(2 * parts)
    splits = _splits(samples, counts, together=together)

    def end(a: _Sample, b: _Sample, share: Fraction) -> float:
        """Return the lower end for b - a."""
        adaptive, log_alpha = terms.adversary == "adaptive", -terms.price
        above = -a.mirrored.bounds(splits[0], 1 - share, log_alpha, adaptive=adaptive)
        below = b.bounds(splits[1], share, log_alpha, adaptive=adaptive)
        with np.errstate(over="ignore", invalid="ignore"):
            gaps = below - above
        return float(np.where(gaps == gaps, gaps, -math.inf).min())  # ∞ - ∞ may be anything

    a, b = samples
    mirrored = (a.mirrored, b.mirrored)
    lows = [-math.inf if terms.alternative == "less" else end(a, b, share) for share in shares.each]
    highs = [math.inf if terms.alternative == "greater" else -end(*mirrored, 1 - share) for share in shares.each]
    centres = [(a.estimate(share), b.estimate(share)) for share in shares.each]
    with np.errstate(over="ignore", invalid="ignore"):
        estimates = np.subtract(*np.array(centres).T[::-1])
    if not np.isfinite(estimates).all():
        raise ValueError(
            "the difference of the quantiles is not a finite number: they are infinite, or too large for a float"
        )
    return _written(samples, shares, request, counts, (np.array(lows), np.array(highs), estimates), centres, together)


def _splits(samples: Sequence[_Sample], counts: Sequence[int], *, together: bool) -> list[NDArray[np.int64]]:
    """Return how many corrupt rows a and b may have: every way to share them out, or the one that was given."""
    if not together:
        return [np.array([count]) for count in counts]
    total, (found_a, found_b) = sum(counts), (one.column.n_found for one in samples)
    in_a = np.arange(found_a, total - found_b + 1)
    return [in_a, total - in_a]


def _written(
    samples: Sequence[_Sample],
    shares: Shares,
    request: Request,
    counts: tuple[int, ...],
    numbers: tuple[Floats, Floats, Floats],
    centres: list[tuple[float, float]],
    together: bool,
) -> RobustEstimate:
    lows, highs, estimates = numbers
    with np.errstate(over="ignore"):
        sides = {"less": highs, "greater": lows}.get(request.terms.alternative, highs - lows)
    note = "" if np.isfinite(sides).all() else "There are too few rows, or too many may be corrupt, to bound it."
    what = {"median": "medians"}.get(shares.statistic, shares.statistic)
    pictures = () if shares.several else tuple(Histogram.of(one.ordered, math.nan, math.nan) for one in samples)
    return RobustEstimate(
        estimate=shaped(estimates, shares.shape),
        interval=Interval(shaped(lows, shares.shape), shaped(highs, shares.shape)),
        certificate=quantile_certificate(numbers, shares.shape, request, "difference", note),
        plan=RowPlan(
            tuple(one.column.n_rows for one in samples),
            counts,
            "order",
            _TOGETHER if together else _EACH,
            together=together,
        ),
        block_values=(np.empty(0), np.empty(0)),
        block_sizes=(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)),
        seed=None,
        partition=None,
        statistic=f"difference of {what}",
        names=shares.names if shares.several else None,
        n_omitted=sum(one.column.n_bad for one in samples),
        alternative=request.terms.alternative,
        centres=() if shares.several else centres[0],
        plain_mean=shaped(estimates, shares.shape),
        pictures=pictures,
    )
