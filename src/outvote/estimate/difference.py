"""Robust differences of two means, or of two ratios of means."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, overload

from numpy.typing import ArrayLike, NDArray

from outvote.assumptions import Bounded
from outvote.blocks.partition import PartitionKind, Remainder, Rng
from outvote.contamination import Contamination
from outvote.data.arguments import check_choice, check_flags, per_sample
from outvote.data.loading import one_at_a_time
from outvote.data.missing import NanPolicy
from outvote.data.rows import Rows, read_sample
from outvote.estimate.compared import Compared, read_compared
from outvote.estimate.difference_by_blocks import DifferenceByBlocks
from outvote.estimate.difference_by_evidence import difference_by_evidence, stacked
from outvote.estimate.levels import agree
from outvote.estimate.mapped import apply_function, pair_up
from outvote.estimate.mean import mean_of
from outvote.estimate.request import Allowed, NBlocks, Request, per_column
from outvote.estimate.result import RobustEstimate, named
from outvote.estimate.screened import implied, order_columns
from outvote.estimate.summary import RowSummary
from outvote.votes import Alternative, VoteName


@overload
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
    ratio: bool = False,
    covariate: Any = None,
    coefficient: Any = None,
) -> RobustEstimate: ...


@overload
def difference(
    a: Any,
    b: None = None,
    contamination: Allowed | Literal["auto"] = 0.01,
    confidence: float = 0.95,
    assume: Any = None,
    *,
    nan_policy: NanPolicy = "raise",
    paired: str | None = None,
    simultaneous: bool = False,
    ratio: str | None = None,
    covariate: str | None = None,
    coefficient: Any = None,
    value: str,
    by: str,
    baseline: Any = None,
    segments: str | Sequence[str] | None = None,
    unit: str | None = None,
) -> Any: ...


def difference(
    a: Any,
    b: Any = None,
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
    paired: Any = False,
    relative: bool = False,
    remainder: Remainder | None = None,
    counted: Literal["together", "each"] | None = None,
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
    max_contamination: float | Contamination = 0.1,
    ratio: Any = False,
    covariate: Any = None,
    coefficient: Any = None,
    value: str | None = None,
    by: str | None = None,
    baseline: Any = None,
    segments: str | Sequence[str] | None = None,
    unit: str | None = None,
) -> RobustEstimate | Any:
    """Estimate mean(b) - mean(a), or compare the variants of a table with a baseline.

    By evidence of both samples together, which is narrower than two intervals subtracted; with ``vote="median"``, each
    by its own median of means (MoM - MoM, the paper's), of which up to half may be corrupt in each sample.

    Parameters
    ----------
    a, b : array-like or RowSummary
        The two samples, or summaries of them: numbers; tables with the same columns, each of which is compared;
        vectors if there is a `function`. They are not modified. With `value` and `by`, `a` is a table, eager or lazy,
        a path of files, or what `scan` returns, and there is no `b`.
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
    ratio : bool
        Whether rows are pairs (denominator, numerator), of users mostly, and the difference of the ratios of their
        means is asked for: revenue per session, clicks per view. `assume` then speaks of numerator - ratio·denominator,
        whose mean is 0 for the true ratio; or it gives bounds of both columns, ``(Bounded(0, 50), Bounded(0, 900))``.
        Rows with a negative denominator are corrupt for certain.
    covariate : pair of array-like, optional
        A covariate of each row of `a` and of `b` that the arms cannot have changed, what users did before for instance
        (CUPED): compared are the means of value - coefficient·covariate, of which `assume` speaks, too.
    coefficient : float or pair of array-like, optional
        The coefficient, fixed before these rows existed; or rows of an earlier period, (covariate, value), independent
        of these, to which it is fitted. By default it is fitted to one row in ten, which is held out; then what stands
        in corrupt rows there must not depend on the other rows, and the adversary cannot be adaptive. The result says
        what it rests on.
    value, by : str, optional
        For a table: the column to compare, and the column with the variant of each row. `ratio`, `covariate` and
        `paired` are then names of columns, too: of denominators, of a covariate, of users who are in several variants.
    baseline : optional
        For a table: the variant that the others are compared with; the smallest label by default.
    segments : str or sequence of str, optional
        For a table: columns each combination of whose values has lines of its own.
    unit : str, optional
        For a table: the column of the users, whose rows are added up first. `contamination` then counts users of each
        variant: one with several corrupt rows is one, and a row with a wrong user makes two of them wrong. A covariate
        is taken once; a user whose rows differ in it is corrupt.

    Returns
    -------
    RobustEstimate, or a table of the kind that was given
        With votes of blocks, `plan`, `block_values` and `block_sizes` are those of `a` and of `b`. A table has a line
        for each other variant, in each segment: the segments, variant, n, baseline_n, estimate, low, high, lift,
        lift_low, lift_high, tolerance (how many corrupt rows in both the sign of the difference survives), settled
        (whether that is as many as `contamination` says), note. Each interval holds with the confidence; with
        `simultaneous` all differences do at once, and all lifts.

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
    difference 1.04 ± 0.14 (95 % if the clean rows' sd is at most 1.32 in a and 1.29 in b; allows for 50 corrupt rows
    in both together). 30 rows of b are -1 000 000 000, below 0.325, and are taken to be corrupt; if they are real,
    the difference is -10 000 000, between -16 000 000 and 4 000 000 (if the clean rows' sd is at most 1.32 in a and
    130 000 000 in b): declare the sd, or allow for fewer.
    >>> a, b = rng.random(20_000) < 0.03, rng.random(20_000) < 0.045  # two rates: exact, if they are booleans
    >>> print(ov.difference(a, b, contamination=10))
    difference 0.0153 ± 0.0047 (certified 95 %, allows for 20 corrupt rows in both together)
    >>> views = rng.poisson(20, size=(2, 5000))
    >>> clicks = rng.binomial(views, [[0.10], [0.12]])  # of ten views of a one is clicked
    >>> a, b = (np.column_stack(pair) for pair in zip(views, clicks))
    >>> print(ov.difference(a, b, contamination=10, ratio=True))  # doctest: +NORMALIZE_WHITESPACE
    difference of ratios 0.0169 ± 0.0063 (95 % if the sd of numerator - ratio·denominator in clean rows is at most
    1.74 in a and 1.85 in b; allows for 20 corrupt rows in both together)
    >>> import polars as pl
    >>> variant = np.repeat(["A", "B", "C"], 3000)
    >>> frame = pl.DataFrame({"variant": variant, "spent": rng.gamma(2.0, np.where(variant == "C", 20.0, 15.0))})
    >>> ov.difference(frame, value="spent", by="variant", baseline="A").select("variant", "tolerance", "settled")
    shape: (2, 3)
    ┌─────────┬───────────┬─────────┐
    │ variant ┆ tolerance ┆ settled │
    │ ---     ┆ ---       ┆ ---     │
    │ str     ┆ i64       ┆ bool    │
    ╞═════════╪═══════════╪═════════╡
    │ B       ┆ null      ┆ false   │
    │ C       ┆ 288       ┆ true    │
    └─────────┴───────────┴─────────┘
    """
    if value is not None or by is not None or b is None:
        given = {"vote": (vote, "auto"), "n_blocks": (n_blocks, "auto"), "partition": (partition, "random"),
                 "rng": (rng, None), "function": (function, None), "relative": (relative, False),
                 "remainder": (remainder, None), "counted": (counted, None), "b": (b, None),
                 "alternative": (alternative, "two-sided")}  # fmt: skip
        _check_table(value, by, given)
        return _of_table(
            a, value=value, by=by, baseline=baseline, contamination=contamination, confidence=confidence,
            assume=assume, segments=segments, unit=unit, ratio=None if ratio is False else ratio, covariate=covariate,
            coefficient=coefficient, paired=None if paired is False else paired, simultaneous=simultaneous,
            nan_policy=nan_policy,
        )  # fmt: skip
    for name, one in (("baseline", baseline), ("segments", segments), ("unit", unit)):
        if one is not None:
            raise ValueError(f"{name}={one!r} is for a table: difference(frame, value=…, by=…, {name}={one!r})")
    check_flags(paired=paired, relative=relative, simultaneous=simultaneous, ratio=ratio)
    request = Request.read(
        contamination, confidence, vote=vote, votes=VoteName, n_blocks=n_blocks, n_samples=1 if paired else 2,
        partition=partition, remainder=remainder, nan_policy=nan_policy, alternative=alternative, rng=rng,
        max_contamination=max_contamination,
    )  # fmt: skip
    n_rows, run = difference_of(
        a, b, request, assume=assume, function=function, paired=paired, relative=relative, counted=counted,
        simultaneous=simultaneous, ratio=ratio, covariate=covariate, coefficient=coefficient,
    )  # fmt: skip
    return agree(request, n_rows, run)


def _check_table(value: Any, by: Any, given: Mapping[str, tuple[Any, Any]]) -> None:
    """Refuse what does not go with a table."""
    if value is None or by is None:
        what = "b" if by is value else "value" if value is None else "by"
        raise TypeError(
            f"{what} is missing: difference takes two samples, difference(a, b), or a table, difference(frame, "
            "value=…, by=…)"
        )
    for name, (one, default) in given.items():
        if one is not default and not (isinstance(one, str) and one == default):
            raise ValueError(f"{name}={one!r} does not go with a table, whose variants are compared by evidence")


def _of_table(source: Any, **settings: Any) -> Any:
    """Compare the variants of a table, files or a `Scan` with a baseline."""
    with one_at_a_time():
        from outvote.tables.open import scan

    opened = source if hasattr(source, "variants") else scan(source)
    return opened.variants(**settings)


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
    ratio: bool = False,
    covariate: Any = None,
    coefficient: Any = None,
) -> tuple[list[int], Callable[[Request], RobustEstimate]]:
    """Return the numbers of rows, and what estimates the difference for a known contamination.

    What does not depend on the contamination is done once.
    """
    functions = list(function) if isinstance(function, Sequence) else [function]
    family = isinstance(function, Sequence)
    _check_question(request, functions, family, paired, relative, counted)
    summaries = isinstance(a, RowSummary) or isinstance(b, RowSummary)
    if ratio or covariate is not None or coefficient is not None or summaries:
        if paired or function is not None or (summaries and not request.evidence):
            what, why = ("ratio=True" if ratio else "covariate"), "leave these out"
            if summaries:
                what, why = "a RowSummary", "it has no single rows"
            raise ValueError(f"{what} goes by evidence, without paired and function: {why}")
        compared = read_compared((a, b), request, assume, ratio=ratio, covariate=covariate, coefficient=coefficient)
        return compared.n_rows, lambda one: difference_by_evidence(compared, one, relative=relative, counted=counted)
    if family or not request.evidence:
        return _of_blocks((a, b), request, assume, functions, relative=relative, family=family, paired=paired)
    plain = function is None
    samples = [read_sample(*one, booleans=plain, stay=plain and not paired) for one in ((a, "a"), (b, "b"))]
    (of_a, names), (of_b, _) = samples
    n_rows, tables = [len(of_a), len(of_b)], plain and max(of_a.ndim, of_b.ndim) > 1
    n_columns = _n_columns(of_a, of_b) if tables else 1
    if paired:
        gaps = Rows(pair_up(of_a, of_b, functions[0], request.nan_policy, columns=tables), names if tables else None)
        return _of_gaps(gaps, samples, request, assume, n_columns, simultaneous=simultaneous)
    known = per_sample("assume", assume, 2)
    rows = [
        one.values if tables else apply_function(functions[0], one.values, name, finite=False)
        for one, name in zip(samples, "ab", strict=True)
    ]
    given = (a, b) if plain else (None, None)
    each = [per_column(implied(*one), n_columns) for one in zip(rows, known, given, strict=True)]
    ordered = [order_columns(*one, request.nan_policy) for one in zip(rows, "ab", each, strict=True)]
    columns = [Compared(*one) for one in zip(zip(*ordered, strict=True), zip(*each, strict=True), strict=True)]

    def run(one: Request) -> RobustEstimate:
        asked = replace(one, terms=one.terms.shared(n_columns)) if simultaneous else one
        found = [difference_by_evidence(column, asked, relative=relative, counted=counted) for column in columns]
        return stacked(found, names, one.terms.log_delta) if tables else found[0]

    return n_rows, run


def _check_question(
    request: Request, functions: Sequence[Any], family: bool, paired: bool, relative: bool, counted: str | None
) -> None:
    """Refuse what does not go together."""
    if not functions:
        raise ValueError("function=[] is an empty family: give at least one function")
    if relative and family:
        raise ValueError("relative=True goes with one function: a supremum has no base to divide by")
    if paired and (relative or family):
        raise ValueError("paired=True goes with one function and an absolute difference")
    check_choice("counted", "each" if counted is None else counted, Literal["together", "each"])
    if counted == "together" and not request.evidence:
        raise ValueError("counted='together' is for evidence: votes of blocks have a number for each sample")
    if family and request.vote == "evidence":
        raise ValueError("vote='evidence' goes with one function: a family of them has votes of blocks")


def _of_blocks(
    samples: tuple[Any, Any],
    request: Request,
    assume: Any,
    functions: Sequence[Any],
    *,
    relative: bool,
    family: bool,
    paired: bool,
) -> tuple[list[int], Callable[[Request], RobustEstimate]]:
    """Return the numbers of rows, and what lets blocks vote."""
    read = [read_sample(*one) for one in zip(samples, "ab", strict=True)]
    (of_a, _), (of_b, _) = read
    if paired:
        gaps = Rows(pair_up(of_a, of_b, functions[0], request.nan_policy), None)
        return _of_gaps(gaps, read, request, assume, 1, simultaneous=False)
    by_blocks = request.with_blocks() if request.by_blocks else request
    assumed = tuple(per_column(one, len(functions)) for one in per_sample("assume", assume, 2))
    task = DifferenceByBlocks((of_a, of_b), assumed, functions, relative, family)
    return [len(of_a), len(of_b)], lambda one: task.run(replace(one, vote=by_blocks.vote))


def _of_gaps(
    gaps: Rows, samples: Sequence[Rows], request: Request, assume: Any, n_columns: int, *, simultaneous: bool
) -> tuple[list[int], Callable[[Request], RobustEstimate]]:
    """Return the number of pairs, and what estimates the mean of their differences."""
    n_pairs = len(gaps.values)
    if assume is None and all(one.values.dtype == bool for one in samples):
        assume = Bounded(-1.0, 1.0)
    of_gaps = mean_of(gaps, per_column(assume, n_columns), request, simultaneous)
    return [n_pairs], lambda one: named("paired difference", of_gaps(_of_pairs(one, n_pairs)))


def _n_columns(a: NDArray[Any], b: NDArray[Any]) -> int:
    """Return how many columns both tables have."""
    if a.shape[1:] != b.shape[1:]:
        raise ValueError(f"a has shape {tuple(a.shape)} and b has shape {tuple(b.shape)}: they need the same columns")
    return math.prod(a.shape[1:])


def _of_pairs(request: Request, n_pairs: int) -> Request:
    """Return the request for pairs: those that may be corrupt in either sample add up."""
    amounts = request.allowed.amount
    if not isinstance(amounts, tuple):
        return request
    total = sum(Contamination(amount).count(n_pairs) for amount in amounts)
    return replace(request, contamination=Contamination(total, request.terms.adversary))
