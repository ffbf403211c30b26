"""Robust differences of two means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.assumptions import Assumption, Bounded
from outvote.blocks.partition import PartitionKind, Remainder, Rng
from outvote.blocks.plan import GridPlan, Plan, RowPlan
from outvote.certificate import Certificate, Provenance
from outvote.certificate.document import weakest
from outvote.contamination import Contamination
from outvote.data.arguments import check_choice, per_sample
from outvote.data.missing import NanPolicy, check_certain, screen
from outvote.data.rows import Rows, read_rows, read_sample
from outvote.estimate.evidence import HINT, NO_SCALE, premise_of_columns
from outvote.estimate.levels import agree
from outvote.estimate.mean import mean_of, vote_on_rows
from outvote.estimate.ordered import Ordered, implied, order_columns, wrong_values
from outvote.estimate.request import Allowed, Assumed, NBlocks, Request, per_column
from outvote.estimate.result import Interval, RobustEstimate
from outvote.estimate.summary import RowSummary
from outvote.estimate.voting import Voted, conclude
from outvote.estimate.weigh import Weighed, contradiction, weigh
from outvote.votes import Alternative, VoteName
from outvote.votes.evidence import EvidenceInterval, SortedRows, Tally

Function = Callable[..., Any] | None
_REASON = "A value of the difference is ruled out only by evidence of both samples that is left when rows go: "
_REASON_TOGETHER = (
    _REASON + "those that speak most against it, wherever they are, as many as may be corrupt in both together."
)
_REASON_EACH = _REASON + "in each sample those that speak most against it, as many as may be corrupt there."


def difference(
    a: ArrayLike | RowSummary,
    b: ArrayLike | RowSummary,
    contamination: Allowed | Literal["auto"] = 0.01,
    confidence: float = 0.95,
    assume: Any = None,
    vote: str = "auto",
    n_blocks: NBlocks = "auto",
    partition: PartitionKind = "random",
    nan_policy: NanPolicy = "raise",
    rng: Rng = None,
    *,
    function: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
    paired: bool = False,
    relative: bool = False,
    remainder: Remainder | None = None,
    counted: Literal["together", "each"] | None = None,
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
    max_contamination: float | Contamination = 0.1,
) -> RobustEstimate:
    """Estimate mean(b) - mean(a).

    By evidence of both samples together, which is narrower than two intervals subtracted; with ``vote="median"``, each
    by its own median of means (MoM - MoM, the paper's), of which up to half may be corrupt in each sample.

    Parameters
    ----------
    a, b : array-like or RowSummary
        The two samples, or summaries of them: numbers; tables with the same columns, each of which is compared;
        vectors if there is a `function`. They are not modified.
    contamination : float, int, tuple or Contamination
        How many rows may be corrupt, of each sample or, as a tuple, one for each. For paired rows: how many pairs
        (a tuple adds up).
    confidence, assume, vote, n_blocks, partition, nan_policy, rng, remainder, alternative, simultaneous, \
max_contamination
        As for `mean`; `n_blocks` and `assume` may be tuples, for a and for b.
    function : callable or sequence of callables, optional
        φ, applied to the rows first. A family of them gives the supremum of |E φ(b) - E φ(a)|, a robust
        integral probability metric.
    paired : bool
        Whether row i of `a` belongs to row i of `b`: the mean of the differences is estimated.
    relative : bool
        Whether to divide by mean(a): 0.1 is a lift of 10 %.
    counted : {"together", "each"}, optional
        Whether the corrupt rows of both samples may be anywhere in them, as many as both amounts together, or each
        sample has its own number. By default "each" if `contamination` is a tuple, else "together"; votes of blocks
        count each.

    Returns
    -------
    RobustEstimate
        With votes of blocks, `plan`, `block_values` and `block_sizes` are those of `a` and of `b`.

    Notes
    -----
    Peak memory: that of `mean` for one sample after the other, and a copy of the rows where they are mapped or paired.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(10, size=2000), rng.normal(11, size=3000)
    >>> b[:30] = -1e9
    >>> print(ov.difference(a, b, contamination=0.01))  # doctest: +NORMALIZE_WHITESPACE
    difference 1.04 ± 0.19 (95 % if the clean rows' sd is at most 1.92 in a and 1.98 in b;
    allows for 50 corrupt rows in both together)
    >>> a, b = rng.random(20_000) < 0.03, rng.random(20_000) < 0.045  # two rates: exact, if they are booleans
    >>> print(ov.difference(a, b, contamination=20))
    difference 0.0153 ± 0.0056 (certified 95 %, allows for 40 corrupt rows in both together)
    """
    request = Request.read(
        contamination, confidence, vote=vote, votes=VoteName, n_blocks=n_blocks, n_samples=1 if paired else 2,
        partition=partition, remainder=remainder, nan_policy=nan_policy, alternative=alternative, rng=rng,
        max_contamination=max_contamination,
    )  # fmt: skip
    n_rows, run = difference_of(
        a, b, request, assume=assume, function=function, paired=paired, relative=relative, counted=counted,
        simultaneous=simultaneous,
    )  # fmt: skip
    return agree(request, n_rows, run)


def difference_of(
    a: ArrayLike | RowSummary,
    b: ArrayLike | RowSummary,
    request: Request,
    *,
    assume: Any = None,
    function: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
    paired: bool = False,
    relative: bool = False,
    counted: str | None = None,
    simultaneous: bool = False,
) -> tuple[list[int], Callable[[Request], RobustEstimate]]:
    """Return the numbers of rows, and what estimates the difference for a known contamination.

    What does not depend on the contamination is done once.
    """
    family = isinstance(function, Sequence)
    functions = list(function) if isinstance(function, Sequence) else [function]
    if not functions:
        raise ValueError("function=[] is an empty family: give at least one function")
    if relative and family:
        raise ValueError("relative=True goes with one function: a supremum has no base to divide by")
    if paired and (relative or family):
        raise ValueError("paired=True goes with one function and an absolute difference")
    check_choice("counted", counted or "each", Literal["together", "each"])
    if counted == "together" and not request.evidence:
        raise ValueError("counted='together' is for evidence: votes of blocks have a number for each sample")
    if isinstance(a, RowSummary) or isinstance(b, RowSummary):
        if paired or function is not None or not request.evidence:
            raise ValueError("a RowSummary goes by evidence, without paired and function: it has no single rows")
        return _of_summaries(a, b, request, per_sample("assume", assume, 2), relative=relative, counted=counted)
    plain = function is None and request.evidence
    (of_a, names), (of_b, _) = read_sample(a, "a", booleans=plain), read_sample(b, "b", booleans=plain)
    pair, n_rows = (of_a, of_b), [len(of_a), len(of_b)]
    tables = plain and max(of_a.ndim, of_b.ndim) > 1
    n_columns = _n_columns(of_a, of_b) if tables else 1
    if paired:
        gaps = Rows(pair_up(of_a, of_b, functions[0], request.nan_policy, columns=tables), names if tables else None)
        if assume is None and of_a.dtype == of_b.dtype == bool:
            assume = Bounded(-1.0, 1.0)
        of_gaps = mean_of(gaps, per_column(assume, n_columns), request, simultaneous)
        return n_rows[:1], lambda one: replace(of_gaps(_of_pairs(one, n_rows[0])), statistic="paired difference")
    known = per_sample("assume", assume, 2)
    if not family and request.evidence:
        rows = [
            x if tables else _apply(functions[0], x, name, finite=False) for x, name in zip(pair, "ab", strict=True)
        ]
        each = [per_column(implied(x, one), n_columns) for x, one in zip(rows, known, strict=True)]
        ordered = [order_columns(*one, request.nan_policy) for one in zip(rows, "ab", each, strict=True)]
        columns = list(zip(zip(*ordered, strict=True), zip(*each, strict=True), strict=True))

        def run(one: Request) -> RobustEstimate:
            asked = replace(one, terms=one.terms.shared(n_columns)) if simultaneous else one
            found = [difference_by_evidence(*column, asked, relative=relative, counted=counted) for column in columns]
            return _stacked(found, names, one.terms.log_delta) if tables else found[0]

        return n_rows, run
    if request.vote == "evidence":
        raise ValueError("vote='evidence' goes with one function: a family of them has votes of blocks")
    by_blocks = request.with_blocks() if request.by_blocks else request
    task = _Task(pair, tuple(per_column(one, len(functions)) for one in known), functions, relative, family)
    return n_rows, lambda one: task.run(replace(one, vote=by_blocks.vote))


def _of_summaries(
    a: ArrayLike | RowSummary,
    b: ArrayLike | RowSummary,
    request: Request,
    known: Sequence[Any],
    *,
    relative: bool,
    counted: str | None,
) -> tuple[list[int], Callable[[Request], RobustEstimate]]:
    """Return the numbers of rows, and what estimates the difference, if one of the samples is a summary."""
    samples = zip((a, b), "ab", known, strict=True)
    found = [ordered_rows(x, name, assume, request.nan_policy) for x, name, assume in samples]
    ordered, assumed = zip(*found, strict=True)
    return [one.n_rows for one in ordered], lambda one: difference_by_evidence(
        ordered, assumed, one, relative=relative, counted=counted
    )


def ordered_rows(
    x: ArrayLike | RowSummary, name: str, assume: Any, nan_policy: NanPolicy
) -> tuple[Ordered, Assumption | None]:
    """Return one column of rows, or of a summary, and what is known of it."""
    if isinstance(x, RowSummary):
        (known,) = per_column(assume, 1)
        return x.ordered(known), known
    rows = read_rows(x, name, booleans=True)
    if rows.ndim != 1:
        raise ValueError(f"{name} has shape {rows.shape}: with a RowSummary it must be one column")
    (known,) = per_column(implied(rows, assume), 1)
    return order_columns(rows, name, [known], nan_policy)[0], known


def _n_columns(a: NDArray[Any], b: NDArray[Any]) -> int:
    """Return how many columns both tables have."""
    if a.shape[1:] != b.shape[1:]:
        raise ValueError(f"a has shape {a.shape} and b has shape {b.shape}: they need the same columns")
    return math.prod(a.shape[1:])


def _stacked(found: Sequence[RobustEstimate], names: tuple[str, ...] | None, log_delta: float) -> RobustEstimate:
    """Write the results of several columns as one, at the confidence that was asked for."""

    def column(values: Sequence[Any]) -> NDArray[np.float64]:
        return np.array([float(value) for value in values])

    certificates = [one.certificate for one in found]
    kinds = [one for one in certificates if one.provenance != "none"] or certificates
    sds = np.array([np.broadcast_to(one.premise_sd, 2) for one in certificates]).T
    certificate = replace(
        weakest(kinds),
        radius=column([one.radius for one in certificates]),
        log_delta=log_delta,
        requested_log_delta=log_delta,
        premise=premise_of_columns(sds) if any(one.premise for one in certificates) else "",
        premise_sd=sds if any(one.premise for one in certificates) else math.nan,
        note=" ".join(dict.fromkeys(one.note for one in certificates if one.note)),
    )
    return replace(
        found[0],
        estimate=column([one.estimate for one in found]),
        interval=Interval(column([one.interval.low for one in found]), column([one.interval.high for one in found])),
        certificate=certificate,
        names=names,
        centres=tuple(np.array([one.centres for one in found]).T),
        plain_mean=column([one.plain_mean for one in found]),
        pictures=(),
    )


def difference_by_evidence(
    samples: Sequence[Ordered],
    assumed: Sequence[Assumption | None],
    request: Request,
    *,
    relative: bool,
    counted: str | None,
) -> RobustEstimate:
    """Estimate a difference by evidence of both samples, for a known contamination."""
    weighed = weigh(samples, assumed, request.allowed, request.terms, relative=relative)
    for one, x, count, name in zip(weighed.samples, samples, weighed.counts, "ab", strict=True):
        check_certain(one.rows.n_found, count, one.rows.n_rows, f"{name} has {wrong_values(x, one.assume)}")
    apart = counted == "each" or (counted is None and isinstance(request.allowed.amount, tuple))
    found = weighed.interval(None if apart else sum(weighed.counts))
    while found.empty:
        if not weighed.conditional:
            raise contradiction(weighed)
        weighed = weighed.scaled_premise(2.0)
        found = weighed.interval(None if apart else sum(weighed.counts))
    return _written(weighed, found, request, together=not apart)


def _centre(rows: SortedRows) -> float:
    """Return a mean of a sample to go with a difference."""
    return rows.share if isinstance(rows, Tally) else rows.central_mean()


def _written(weighed: Weighed, found: EvidenceInterval, request: Request, *, together: bool) -> RobustEstimate:
    """Write the result of a difference by evidence."""
    centres = tuple(weighed.unit * _centre(one.rows) for one in weighed.samples)
    estimate = found.estimate
    if weighed.relative and centres[0] == 0:
        raise ValueError("relative=True divides by the mean of a, which is 0 here")
    if not math.isfinite(estimate):
        with np.errstate(over="ignore"):
            estimate = centres[1] / centres[0] - 1 if weighed.relative else centres[1] - centres[0]
    if not math.isfinite(estimate):
        raise ValueError("the difference is too large for a float: divide both by a power of ten first")
    ends = {"less": [found.high - estimate], "greater": [estimate - found.low]}
    radius = max(ends.get(request.terms.alternative, [estimate - found.low, found.high - estimate]))
    bounded, notes = math.isfinite(radius), []
    if not bounded and any(one.sd == 0 for one in weighed.samples):
        notes.append(NO_SCALE)
    if not bounded and weighed.relative:
        notes.append("The mean of a may be 0, so nothing bounds the ratio.")
    elif not bounded and not notes:
        notes.append("There are too few rows, or too many may be corrupt, to bound the difference.")
    sds = np.array(weighed.sds)
    known = [one.assume for one in weighed.samples]
    certificate = Certificate(
        radius=radius,
        provenance=cast(Provenance, weighed.provenance if bounded else "none"),
        log_delta=request.terms.log_delta,
        requested_log_delta=request.terms.log_delta,
        assumption=known[0] if known[0] == known[1] else tuple(known),
        adversary=request.terms.adversary,
        statement="evidence of both samples that survives the removal of its strongest witnesses",
        note=" ".join(notes),
        target="difference",
        alternative=request.terms.alternative,
        premise=weighed.premise() if bounded else "",
        premise_sd=sds if bounded and weighed.conditional else math.nan,
    )
    return RobustEstimate(
        estimate=estimate,
        interval=Interval(found.low, found.high),
        certificate=certificate,
        plan=RowPlan(
            tuple(one.rows.n_rows for one in weighed.samples),
            weighed.counts,
            reason=_REASON_TOGETHER if together else _REASON_EACH,
            together=together,
        ),
        block_values=(np.empty(0), np.empty(0)),
        block_sizes=(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)),
        seed=None,
        partition=None,
        statistic="relative difference" if weighed.relative else "difference",
        n_omitted=weighed.n_omitted,
        alternative=request.terms.alternative,
        centres=centres,
        plain_mean=weighed.plain,
        detail=HINT if all(one.only_0_and_1 for one in weighed.ordered) else "",
        pictures=tuple(one.picture(math.nan, math.nan) for one in weighed.ordered),
    )


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


def _apply(function: Function, rows: NDArray[Any], name: str, *, finite: bool = True) -> NDArray[Any]:
    """Map rows to numbers: all at once if that agrees with one by one on a few rows, else one by one."""
    if function is None:
        if rows.ndim != 1:
            raise ValueError(f"{name} has shape {rows.shape}: give numbers, or a function that maps a row to a number")
        return rows if rows.dtype == bool else rows.astype(np.float64, copy=False)
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
    if not np.isfinite(values[np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)] if not finite else values).all():
        raise ValueError(f"function gave NaN or an infinite value for a row of {name}")
    return values


def pair_up(
    a: NDArray[Any], b: NDArray[Any], function: Function, nan_policy: NanPolicy = "raise", *, columns: bool = False
) -> NDArray[np.float64]:
    """Return the differences b - a of paired rows, NaN where either row has a gap; of each column, if asked for."""
    if len(a) != len(b):
        raise ValueError(f"paired=True pairs row with row, but a has {len(a)} and b has {len(b)}")
    if nan_policy == "raise":
        screen(a, "raise", 0, "a")
        screen(b, "raise", 0, "b")
    whole = np.isfinite(a.reshape(len(a), -1)).all(axis=1) & np.isfinite(b.reshape(len(b), -1)).all(axis=1)
    gaps = np.full(a.shape if columns else len(a), np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        if columns:
            gaps[whole] = np.subtract(b[whole], a[whole], dtype=np.float64)
        else:
            gaps[whole] = np.subtract(
                _apply(function, b[whole], "b"), _apply(function, a[whole], "a"), dtype=np.float64
            )
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
