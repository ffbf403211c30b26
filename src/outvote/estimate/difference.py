"""Robust differences of two means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.blocks.partition import PartitionKind, Remainder, Rng
from outvote.blocks.plan import GridPlan, Plan
from outvote.certificate import Certificate
from outvote.certificate.document import weakest
from outvote.contamination import Contamination
from outvote.data.arguments import per_sample
from outvote.data.missing import NanPolicy, screen
from outvote.data.rows import Rows, read_rows
from outvote.estimate.levels import agree
from outvote.estimate.mean import mean_of, vote_on_rows
from outvote.estimate.request import Allowed, Assumed, NBlocks, Request, per_column
from outvote.estimate.result import Interval, RobustEstimate
from outvote.estimate.voting import Voted, conclude
from outvote.votes import Alternative

Function = Callable[..., Any] | None


def difference(
    a: ArrayLike,
    b: ArrayLike,
    contamination: Allowed | Literal["auto"] = 0.01,
    confidence: float = 0.95,
    assume: Any = None,
    vote: str = "median",
    n_blocks: NBlocks = "auto",
    partition: PartitionKind = "random",
    nan_policy: NanPolicy = "raise",
    rng: Rng = None,
    *,
    function: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
    paired: bool = False,
    relative: bool = False,
    remainder: Remainder = "drop",
    alternative: Alternative = "two-sided",
    max_contamination: float | Contamination = 0.1,
) -> RobustEstimate:
    """Estimate mean(b) - mean(a), each by its own median of means (MoM - MoM).

    Up to half of each sample may be corrupt, where two-sample U-statistics tolerate half in all.

    Parameters
    ----------
    a, b : array-like
        The two samples: numbers, or vectors if there is a `function`. They are not modified.
    contamination : float, int, tuple or Contamination
        How many rows may be corrupt, in each sample alike or one for each. For paired rows: how many pairs
        (a tuple adds up).
    confidence, assume, vote, n_blocks, partition, nan_policy, rng, remainder, alternative, max_contamination
        As for `mean`; `n_blocks` and `assume` may be tuples.
    function : callable or sequence of callables, optional
        φ, applied to the rows first. A family of them gives the supremum of |E φ(b) - E φ(a)|, a robust
        integral probability metric.
    paired : bool
        Whether row i of `a` belongs to row i of `b`: the mean of the differences is estimated.
    relative : bool
        Whether to divide by mean(a): 0.1 is a lift of 10 %.

    Returns
    -------
    RobustEstimate
        `plan`, `block_values` and `block_sizes` are those of `a` and of `b`.

    Notes
    -----
    Peak memory: that of `mean` for one sample after the other, and a copy of the rows where they are mapped or paired.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(10, size=2000), rng.normal(11, size=3000)
    >>> b[:30] = -1e9
    >>> round(ov.difference(a, b, contamination=0.01, rng=0).estimate, 1)
    1.0
    """
    family = isinstance(function, Sequence)
    functions = list(function) if isinstance(function, Sequence) else [function]
    if not functions:
        raise ValueError("function=[] is an empty family: give at least one function")
    if relative and family:
        raise ValueError("relative=True goes with one function: a supremum has no base to divide by")
    if paired and (relative or family):
        raise ValueError("paired=True goes with one function and an absolute difference")
    request = Request.read(
        contamination, confidence, vote=vote, n_blocks=n_blocks, n_samples=1 if paired else 2, partition=partition,
        remainder=remainder, nan_policy=nan_policy, alternative=alternative, rng=rng,
        max_contamination=max_contamination,
    )  # fmt: skip
    pair = read_rows(a, "a"), read_rows(b, "b")
    if paired:
        gaps, known = Rows(pair_up(*pair, functions[0], nan_policy), None), per_column(assume, 1)
        found = agree(request, [len(pair[0])], lambda one: mean_of(gaps, known, _of_pairs(one, len(pair[0]))))
        return replace(found, statistic="paired difference")
    each = tuple(per_column(one, len(functions)) for one in per_sample("assume", assume, 2))
    return agree(request, list(map(len, pair)), _Task(pair, each, functions, relative, family).run)


@dataclass(frozen=True)
class _Task:
    """A difference to estimate, once or at several levels of contamination; a family has several functions."""

    pair: tuple[NDArray[Any], NDArray[Any]]
    assumed: tuple[Assumed, ...]
    functions: Sequence[Function]
    relative: bool
    family: bool

    def run(self, request: Request) -> RobustEstimate:
        """Estimate for the contamination of the request."""
        # Both means, for every function, must hold at once; a ratio or an absolute value needs both sides of each.
        terms = request.terms.shared(2 * len(self.functions))
        if self.relative or self.family:
            terms = replace(terms, alternative="two-sided")
        screened = request.screen(self.pair, "ab")
        voted, details = [], []
        for s, name in enumerate("ab"):
            rows = np.stack([_apply(phi, screened.rows[s], name) for phi in self.functions], axis=1)
            found, detail = vote_on_rows(rows, self.assumed[s], request, terms, name, screened.bad[s], s)
            voted.append(found)
            details.append(detail)
        detail = " ".join(filter(None, details))
        return subtract(
            request, voted, relative=self.relative, family=self.family, n_omitted=sum(screened.bad), detail=detail
        )


def subtract(
    request: Request,
    voted: Sequence[Voted],
    *,
    relative: bool = False,
    family: bool = False,
    n_omitted: int = 0,
    detail: str = "",
) -> RobustEstimate:
    """Write the result of a difference from the votes of both samples; their columns belong to several functions."""
    with np.errstate(over="ignore"):
        gaps = voted[1].centre - voted[0].centre
    best = int(np.argmax(np.abs(gaps)))
    estimate, statistic = float(gaps[best]), "difference"
    if family:
        estimate, statistic = abs(estimate), "integral probability metric"
        detail = f"{detail} The largest of {len(gaps)} functions is number {best + 1}.".strip()
    if not math.isfinite(estimate):
        raise ValueError("mean(b) - mean(a) is too large for a float: divide both by a power of ten first")
    plan = GridPlan(tuple(one.plan for one in voted), "separate")
    certificate = _certify_together([one.certificate for one in voted], plan)
    means, interval = [float(one.centre[best]) for one in voted], None
    if relative:
        if means[0] == 0:
            raise ValueError("relative=True divides by the mean of a, which is 0 here")
        estimate, statistic = estimate / means[0], "relative " + statistic
        radii = [float(np.asarray(one.certificate.radius)[best]) for one in voted]
        if not math.isfinite(estimate):
            raise ValueError(f"relative=True divides by the mean of a, {means[0]:.3g}: too large for a float")
        interval, certificate = _ratio_interval(means, radii, estimate, certificate, request.terms.alternative)
    elif family:
        interval = Interval(max(estimate - float(certificate.radius), 0.0), estimate + float(certificate.radius))
    return conclude(
        request,
        estimate,
        certificate,
        plan,
        tuple(one.values[:, best] for one in voted),
        [one.sizes for one in voted],
        interval=interval,
        centres=tuple(means),
        statistic=statistic,
        n_omitted=n_omitted,
        detail=detail,
    )


def _certify_together(certificates: Sequence[Certificate], plan: Plan) -> Certificate:
    """Write the certificate of a difference: the radii add up, over the worst function if there are several."""
    radius = float(np.max(sum(np.asarray(one.radius) for one in certificates)))
    notes = dict.fromkeys(one.note for one in certificates if one.note)
    return replace(
        weakest(certificates), radius=radius, n_blocks=plan.n_blocks, note=" ".join(notes), target="difference"
    )


def _ratio_interval(
    centres: Sequence[float], radii: Sequence[float], estimate: float, certificate: Certificate, alternative: str
) -> tuple[Interval, Certificate]:
    """Return the interval of mean(b)/mean(a) - 1, each mean within its radius; unbounded where mean(a) may be 0."""
    (a, b), (spread_a, spread_b) = centres, radii
    low, high = -math.inf, math.inf
    if spread_a < abs(a) and math.isfinite(spread_b):
        corners = [(b + i * spread_b) / (a + j * spread_a) - 1 for i in (-1, 1) for j in (-1, 1)]
        low, high = min(corners), max(corners)
    else:
        note = "The mean of a may be 0, so nothing bounds the ratio."
        certificate = replace(certificate, provenance="none", note=note)
    certificate = replace(certificate, radius=max(high - estimate, estimate - low), target="relative difference")
    low = -math.inf if alternative == "less" else low
    return Interval(low, math.inf if alternative == "greater" else high), certificate


def _apply(function: Function, rows: NDArray[Any], name: str) -> NDArray[np.float64]:
    """Map rows to numbers: all at once if that agrees with one by one on a few rows, else one by one."""
    if function is None:
        if rows.ndim != 1:
            raise ValueError(f"{name} has shape {rows.shape}: give numbers, or a function that maps a row to a number")
        return rows.astype(np.float64, copy=False)
    few = np.asarray([function(row) for row in rows[:8]])
    if few.ndim != 1 or few.dtype.kind not in "biuf":
        raise ValueError(f"function must map each row of {name} to one number; it gave shape {few.shape[1:]}")
    try:
        values = np.asarray(function(rows))
        agrees = values.shape == (len(rows),) and np.array_equal(values[:8], few, equal_nan=True)
    except Exception:  # a function of single rows may fail in any way on arrays
        agrees = False
    if not agrees:
        values = np.asarray([function(row) for row in rows])
    values = values.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"function gave NaN or an infinite value for a row of {name}")
    return values


def pair_up(
    a: NDArray[Any], b: NDArray[Any], function: Function, nan_policy: NanPolicy = "raise"
) -> NDArray[np.float64]:
    """Return the differences b - a of paired rows, NaN where either row has a gap."""
    if len(a) != len(b):
        raise ValueError(f"paired=True pairs row with row, but a has {len(a)} and b has {len(b)}")
    if nan_policy == "raise":
        screen(a, "raise", 0, "a")
        screen(b, "raise", 0, "b")
    whole = np.isfinite(a.reshape(len(a), -1)).all(axis=1) & np.isfinite(b.reshape(len(b), -1)).all(axis=1)
    gaps = np.full(len(a), np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        gaps[whole] = _apply(function, b[whole], "b") - _apply(function, a[whole], "a")
    if not np.isfinite(gaps[whole]).all():
        raise ValueError("b - a is too large for a float: divide both by a power of ten first")
    return gaps


def _of_pairs(request: Request, n_pairs: int) -> Request:
    """Return the request for pairs: those that may be corrupt in either sample add up."""
    amounts = request.allowed.amount
    if not isinstance(amounts, tuple):
        return request
    total = sum(Contamination(amount).count(n_pairs) for amount in amounts)
    return replace(request, contamination=Contamination(total, request.terms.adversary))
