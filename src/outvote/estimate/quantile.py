"""Robust quantiles, of any distribution and with no scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.blocks.plan import RowPlan
from outvote.certificate import Certificate
from outvote.contamination import Contamination
from outvote.data.arguments import check_flags
from outvote.data.loading import one_at_a_time
from outvote.data.missing import NanPolicy, check_certain
from outvote.data.rows import Rows, read_columns
from outvote.data.tensors import is_tensor, to_host
from outvote.data.text import ordinal, spaced
from outvote.estimate.levels import agree
from outvote.estimate.request import Allowed, Request
from outvote.estimate.result import WITHOUT_BLOCKS, Histogram, Interval, RobustEstimate, placed_like, shaped
from outvote.estimate.shares import BinnedColumn, Column, ColumnInBins, RowsIn, Shares, nan_rows
from outvote.estimate.summary import RowSummary
from outvote.votes import Alternative, Terms, VoteName
from outvote.votes.evidence import BinnedRows, Ranks, quantile_ranks, rows_to_bound

Floats = NDArray[np.float64]

#: Columns whose histograms a result keeps.
_PICTURED = 64
STATEMENT = "rows in order, by exact binomial tails"


def quantile(
    x: ArrayLike | RowSummary,
    q: Any = 0.5,
    contamination: Allowed | Literal["auto"] = 0.01,
    confidence: float = 0.95,
    nan_policy: NanPolicy = "raise",
    axis: int | None = 0,
    *,
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
    max_contamination: float | Contamination = 0.1,
) -> RobustEstimate:
    """Estimate quantiles of the clean rows, and say between which rows they lie if some of the rows are corrupt.

    Nothing is assumed of the clean rows: they need no moments, and may have ties.

    Parameters
    ----------
    x : array-like, Series, DataFrame, torch tensor or RowSummary
        The rows, or a summary of them, whose ends are ends of bins. It is not modified; a tensor of 8192 rows or more
        stays on its device. Infinities are values like others.
    q : float or sequence of float
        Which quantiles, strictly between 0 and 1: 0.5 is the median, [0.5, 0.95] that and the 95th percentile.
    contamination, confidence, alternative, max_contamination
        As for `mean`.
    nan_policy : {"raise", "omit", "corrupt"}
        What rows with NaN are: an error, missing (left out), or corrupt (left out, and counted against
        `contamination`).
    axis : int or None
        Axis along which the rows run; None flattens. Each of the other axes' columns has its own quantiles.
    simultaneous : bool
        Whether `confidence` is for all quantiles and columns at once rather than for each.

    Returns
    -------
    RobustEstimate
        The sample quantile (the smallest row that a share q of the rows does not exceed), and an interval that covers
        every q-quantile of the clean rows' distribution. For several quantiles they are on the first axis, and `names`
        are "p50", "p95". An end is infinite where there are too few rows: `explain` says how many would do.

    Notes
    -----
    The ends are rows: the r-th smallest, and the r'-th largest, r and r' from exact binomial tails. Peak memory beyond
    the rows: one copy of a column.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> waits = np.random.default_rng(0).exponential(size=10_000)
    >>> waits[:100] = 1e9
    >>> print(ov.quantile(waits, 0.95, contamination=0.01))
    p95 3.23, between 2.91 and 3.34 (certified 95 %, allows for 100 corrupt rows)
    >>> print(ov.quantile(waits, [0.5, 0.9], contamination=0.01))  # doctest: +NORMALIZE_WHITESPACE
    quantiles p50 0.689, between 0.659 and 0.717; p90 2.38, between 2.24 and 2.47
    (certified 95 %, allows for 100 corrupt rows)
    >>> print(ov.quantile(waits[-300:], 0.99, contamination=0).certificate.note)
    There are too few rows to bound p99 from above at this confidence: n ≥ 368 rows would.
    """
    shares = Shares.read(q)
    check_flags(simultaneous=simultaneous)
    request = Request.read(
        contamination, confidence, vote="auto", votes=VoteName, nan_policy=nan_policy, alternative=alternative,
        max_contamination=max_contamination,
    )  # fmt: skip
    if isinstance(x, RowSummary):
        return quantile_of_summary(x, shares, request, simultaneous=simultaneous)
    sample = read_columns(x, "x", axis, stay=True, flatten=True)
    run = quantile_of(sample, shares, request, simultaneous=simultaneous)
    return placed_like(agree(request, [len(sample.values)], run), x)


def quantile_of(
    sample: Rows, shares: Shares, request: Request, *, simultaneous: bool = False
) -> Callable[[Request], RobustEstimate]:
    """Return what estimates quantiles of rows that have been read, for a known contamination."""
    n_columns, column = _columns(sample.values.reshape(len(sample.values), -1), request.nan_policy)

    def run(one: Request) -> RobustEstimate:
        terms = one.terms.shared(n_columns if simultaneous else 1)
        found = [_Found.of(column(j), shares, one, terms, simultaneous) for j in range(n_columns)]
        return _written(found, shares, one, tuple(sample.values.shape[1:]), sample.names)

    return run


def _columns(table: Any, nan_policy: NanPolicy) -> tuple[int, Callable[[int], Column]]:
    """Return how many columns there are, and what takes the rows with NaN out of each; a tensor stays where it is."""
    if is_tensor(table):
        with one_at_a_time():
            from outvote.torch.device.columns import columns_there

        there = columns_there(table, nan_policy, "x")
        if there is not None:
            return len(there), there.__getitem__
    table = to_host(table)
    table = table.view(np.uint8) if table.dtype == bool else table
    bad = nan_rows(table, nan_policy, "x")
    return table.shape[1], lambda j: Column.without(table[:, j], bad, nan_policy, "x")


def quantile_of_summary(
    x: RowSummary,
    shares: Shares,
    request: Request,
    *,
    simultaneous: bool = False,
    rows_in: RowsIn | None = None,
) -> RobustEstimate:
    """Estimate quantiles of the rows of a summary.

    The ends are ends of bins; or rows, if `rows_in` returns the values of rows in bins, given the numbers of these, in
    ascending order and how many rows have each.
    """
    ordered, n_bad = x.ordered(None), x.n_omitted + x.n_found_corrupt
    rows = ordered.rows(0, adaptive=False)
    column = Column(ordered.clean, None, x.n_rows, n_bad)
    if isinstance(rows, BinnedRows) and x.bins is not None:
        rounding = x.bins.rounding(rows.bins)
        column = BinnedColumn(np.empty(0), None, x.n_rows, n_bad, rows.bins, rounding, x.bin_numbers, rows_in)

    def run(one: Request) -> RobustEstimate:
        return _written([_Found.of(column, shares, one, one.terms, simultaneous)], shares, one, (), None)

    return agree(request, [x.n_rows], run)


@dataclass(frozen=True, eq=False)
class _Found:
    """What was found of one column: for each quantile the ranks of the ends, the ends and the estimate."""

    column: Column
    n_corrupt: int
    ranks: list[Ranks]
    lows: list[float]
    estimates: list[float]
    highs: list[float]
    terms: Terms

    @classmethod
    def of(cls, column: Column, shares: Shares, request: Request, terms: Terms, together: bool) -> _Found:
        n_corrupt = request.allowed.count(column.n_rows)
        check_certain(column.n_found, n_corrupt, column.n_rows, "x has NaN")
        ranks = quantile_ranks(column.n_rows, n_corrupt, shares.each, terms, together=together)
        places = [column.places(*one) for one in zip(shares.each, ranks, strict=True)]
        wanted = [place for one in places for place in one if place is not None]
        low_of, middle_of, high_of = column.at(wanted)
        lows = [-math.inf if low is None else low_of[low] for low, _, _ in places]
        highs = [math.inf if high is None else high_of[high] for _, _, high in places]
        own = terms.shared(len(shares.each)) if together else terms
        return cls(column, n_corrupt, ranks, lows, [middle_of[middle] for _, middle, _ in places], highs, own)

    @property
    def picture(self) -> Histogram:
        ends = self.lows + self.highs
        if isinstance(self.column, ColumnInBins):
            return Histogram.of_bins(self.column.bins, min(ends), max(ends))
        return Histogram.counted(self.column.values, ends)


def _written(
    found: list[_Found], shares: Shares, request: Request, columns: tuple[int, ...], names: tuple[str, ...] | None
) -> RobustEstimate:
    """Write the result: quantiles on the first axis, if there are several, then columns."""
    shape = (*shares.shape, *columns)
    lows, highs, estimates = (
        np.array([getattr(one, name) for one in found]).T.ravel() for name in ("lows", "highs", "estimates")
    )
    first = found[0]
    certificate = quantile_certificate(
        (lows, highs, estimates), shape, request, shares.statistic, _few_rows(found, shares, request)
    )
    pictures = [one.picture for one in found] if len(found) * len(shares.each) <= _PICTURED else []
    named = names if not shares.several else shares.names
    if shares.several and columns:
        named = None if names is None else tuple(f"{share} of {name}" for share in shares.names for name in names)
    return RobustEstimate(
        estimate=shaped(estimates, shape),
        interval=Interval(shaped(lows, shape), shaped(highs, shape)),
        certificate=certificate,
        plan=RowPlan(first.column.n_rows, first.n_corrupt, "order", _reason(first, shares)),
        **WITHOUT_BLOCKS,
        statistic=shares.statistic,
        names=named,
        n_omitted=first.column.n_bad,
        alternative=request.terms.alternative,
        plain_mean=shaped(estimates, shape),
        pictures=tuple(pictures * len(shares.each)),
    )


def quantile_certificate(
    numbers: tuple[Floats, Floats, Floats], shape: tuple[int, ...], request: Request, target: str, note: str
) -> Certificate:
    """Write the certificate of intervals (low, high, estimate) that are proved whatever the distribution."""
    lows, highs, estimates = numbers
    terms = request.terms
    with np.errstate(over="ignore", invalid="ignore"):  # an end may be infinite, and so may the estimate
        below, above = (np.where(gap == gap, gap, math.inf) for gap in (estimates - lows, highs - estimates))
    sides = {"less": [above], "greater": [below]}.get(terms.alternative, [below, above])
    bounded = bool(np.isfinite(np.min(sides, axis=0)).any())
    radius = np.max(sides, axis=0)
    return Certificate(
        radius=shaped(radius, shape),
        provenance="certified" if bounded else "none",
        log_delta=terms.log_delta,
        requested_log_delta=terms.log_delta,
        adversary=terms.adversary,
        statement=STATEMENT,
        note=note,
        target=target,
        alternative=terms.alternative,
        one_end=bounded and not bool(np.isfinite(radius).any()),
    )


def _few_rows(found: list[_Found], shares: Shares, request: Request) -> str:
    """Say which quantiles have too few rows for an end, and how many rows would do."""
    first, alternative = found[0], request.terms.alternative
    adaptive, log_alpha = request.terms.adversary == "adaptive", -first.terms.price
    notes = []
    for share, name, ranks in zip(shares.each, shares.names, first.ranks, strict=True):
        for missing, side, own in (
            (alternative != "less" and not ranks.low, "below", share),
            (alternative != "greater" and not ranks.high, "above", 1 - share),
        ):
            if missing:
                needed = rows_to_bound(_counter(request.allowed), own, log_alpha, adaptive=adaptive)
                would = (
                    f"n ≥ {spaced(needed)} rows would" if needed else "no number of rows would, with as many corrupt"
                )
                notes.append(f"There are too few rows to bound {name} from {side} at this confidence: {would}.")
    return " ".join(notes)


def _counter(allowed: Contamination) -> Callable[[int], int]:
    def count(n_rows: int) -> int:
        try:
            return allowed.count(n_rows)
        except ValueError:  # so few rows that most may be corrupt
            return n_rows

    return count


def _reason(found: _Found, shares: Shares) -> str:
    """Say which rows the ends are, and why."""
    lines = ["Nothing is assumed of the clean rows: the ends are rows, counted from below and from above."]
    for name, ranks in list(zip(shares.names, found.ranks, strict=True))[:6]:
        sides = zip(ranks, ("smallest", "largest"), strict=True)
        ends = [f"the {ordinal(rank)} {side}" for rank, side in sides if rank]
        if ends:
            lines.append(f"{name}: {' and '.join(ends)} of {spaced(found.column.n_values)} rows.")
    return "\n".join(lines)
