"""Robust means, U-statistics and differences: deal the rows into blocks, compute on each, take the median."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.blocks.choose import NBlocks, make_plan
from outvote.blocks.dealt import Partition, from_labels
from outvote.blocks.partition import PartitionKind, Remainder, Rng, draw, hash_rows, seed_of
from outvote.blocks.plan import BlockPlan, GridPlan
from outvote.certificate import Certificate
from outvote.contamination import Contamination
from outvote.data.rows import NanPolicy, axis_of, check_rows, read, read_columns, read_rows, screen
from outvote.data.tensors import at_home, is_tensor, namespace, to_host
from outvote.estimate.certify import (
    Ask,
    Part,
    Voted,
    assumption_of_kernel,
    certify_together,
    ratio_interval,
    vote_on_columns,
    vote_on_kernel,
    vote_on_means,
)
from outvote.estimate.pipeline import (
    Allowed,
    Settings,
    bounds_of,
    evaluate,
    evaluate_columns,
    per_column,
    settle,
    within_bounds,
)
from outvote.estimate.result import Number, RobustEstimate
from outvote.estimate.scales import SpreadOfRows
from outvote.estimate.unknown import leave_open
from outvote.kernels import Kernel, kernel_of
from outvote.votes import Alternative, check_choice

#: Block values that the result of several columns keeps on the full grid: 32 MB.
_KEPT = 2**22
#: Columns on which a kernel is tried.
_TRIED = 8


def mean(
    x: ArrayLike,
    contamination: Allowed | Literal["auto"] = 0.01,
    confidence: float = 0.95,
    assume: Any = None,
    vote: str = "median",
    n_blocks: NBlocks = "auto",
    partition: PartitionKind = "random",
    axis: int | None = 0,
    nan_policy: NanPolicy = "raise",
    rng: Rng = None,
    *,
    remainder: Remainder = "drop",
    alternative: Alternative = "two-sided",
    simultaneous: bool = False,
    weights: None = None,
    max_contamination: float | Contamination = 0.1,
) -> RobustEstimate:
    """Estimate a mean by the median of block means (MoM).

    Parameters
    ----------
    x : array-like, Series, DataFrame or torch tensor
        The rows. It is not modified. A tensor stays on its device, and so do the block values.
    contamination : float, int, Contamination or "auto"
        How many rows may be corrupt: a fraction of them, or a count; "auto" leaves it open up to `max_contamination`,
        and takes what the levels up to there agree on.
    confidence : float
        Confidence (1 - δ) of the interval.
    assume : assumption or None
        What is known of the clean rows: `FiniteVariance`, `SubGaussian`, `Bounded` (rows outside are corrupt
        for certain), `FiniteKurtosis`; a sequence gives one for each column. None estimates a scale from the rows, and
        the radius is then a *plug-in*, not certified.
    vote : {"median", "soft", "clipped", "auto"}
        How the block means become one: their median (the paper), a soft or a clipped vote (two to three times tighter
        when `assume` names a scale), or whichever has the smallest certified radius.
    n_blocks : "auto" or int
        Number of blocks (K).
    partition : {"random", "uniform", "hash", "contiguous"}
        How rows are dealt into blocks: see :mod:`outvote.blocks.partition`.
    axis : int or None
        Axis along which the rows run; None flattens. The other axes are estimated together, on the same blocks.
    nan_policy : {"raise", "omit", "corrupt"}
        What rows with NaN are: an error, missing (left out), or corrupt (left out, and counted against
        `contamination`; infinities too).
    rng : int, Generator or None
        Seed; the one that was used is in the result.
    remainder : {"drop", "spread"}
        Whether the rows that K equal blocks do not take are left out, as in the paper, or spread.
    alternative : {"two-sided", "less", "greater"}
        "less" bounds the mean from above only, "greater" from below only.
    simultaneous : bool
        Whether `confidence` is for all columns at once rather than for each.
    weights : None
        Not supported: a weighted row could outvote its block.
    max_contamination : float or Contamination
        For ``contamination="auto"``: the largest share of rows that may be corrupt (and by whom).

    Returns
    -------
    RobustEstimate
        Estimate, interval, certificate, plan and block values.

    Notes
    -----
    Peak memory beyond the rows: O(K), below 2 % of them, where rows are dealt in one pass (more than 2²⁰ values in
    blocks of at least 64 rows, 256 for a median) or stay in place; else O(n): 16 bytes a row for their numbers, 40 for
    a hash, and 16 more where every row votes.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(size=1000)
    >>> x[:10] = 1e6
    >>> print(round(x.mean()), ov.mean(x, contamination=0.01, assume=ov.FiniteVariance(1.0), rng=0))
    10000 mean -0.00 ± 0.38 (certified 95 %, 55 blocks of 18, survives 27 corrupt rows)
    """
    if weights is not None:
        raise TypeError(
            "weights are not supported: one heavy row would decide its block, and the count of corrupt rows "
            "that the blocks outvote would mean nothing. Resample rows by weight, or estimate a ratio of two means"
        )
    if isinstance(contamination, str):
        shape = tuple(read(x, "x", stay=True).values.shape)
        size = math.prod(shape) if axis is None else shape[axis_of(axis, shape, "x", "to flatten")]
        options: dict[str, Any] = {"remainder": remainder, "simultaneous": simultaneous, "rng": seed_of(rng)}
        return leave_open(
            contamination,
            lambda level, share: mean(x, level, share, assume, vote, n_blocks, partition, axis, nan_policy, **options),
            [size],
            max_contamination,
            confidence,
            alternative,
        )
    settings = Settings.check(contamination, confidence, vote, partition, nan_policy, remainder, alternative, rng)
    values, names = read(x, "x", stay=partition != "hash")
    rows = values.reshape(-1)
    if axis is not None:
        rows = namespace(values).moveaxis(values, axis_of(axis, values.shape, "x", "to flatten"), 0)
    check_rows(len(rows), "x")
    columns = math.prod(rows.shape[1:])
    if columns == 0:
        raise ValueError(f"x has shape {values.shape}: there are no columns to estimate")
    if rows.dtype == np.float16:
        rows = rows.astype(np.float64)
    if partition == "hash":
        named = names if names and axis in (0, -values.ndim) else None
        return at_home(_hashed_mean(rows, named, settings, n_blocks, assume, simultaneous), x)
    n_corrupt, n_omitted = settings.allowed.count(len(rows)), 0
    if nan_policy != "raise":
        (rows,), (n_corrupt,), (n_omitted,) = settings.screen([rows], ["x"])
    assumed = per_column(assume, columns)
    rows, detail = within_bounds(rows, n_corrupt - settings.found_corrupt(n_omitted), assumed, "x")
    ask = settings.ask(columns if simultaneous else 1)
    plan, dealt, block_values = settings.block_means(rows, n_corrupt, n_blocks, assumed, ask)
    estimate, certificate = vote_on_means(
        plan, dealt.sizes, block_values, assumed, ask, SpreadOfRows(rows, dealt, plan.n_corrupt, settings.seed)
    )
    result = settings.result(
        estimate,
        block_values,
        plan,
        [dealt.sizes],
        replace(certificate, **settings.promised),
        bounds=bounds_of(assumed, rows.shape[1:]),
        statistic="mean",
        names=names if names and axis in (0, -values.ndim) and len(names) == columns else None,
        n_omitted=n_omitted,
        detail=detail,
    )
    return at_home(result, x)


def _hashed_mean(
    rows: NDArray[Any],
    names: tuple[str, ...] | None,
    settings: Settings,
    n_blocks: NBlocks,
    assume: Any,
    simultaneous: bool,
) -> RobustEstimate:
    """The mean by the partition that every engine shares, through the summary that every engine computes."""
    from outvote.estimate.summary import BlockSummary

    columns = math.prod(rows.shape[1:])
    n_rows = len(rows)
    if settings.nan_policy == "omit":
        n_rows -= int(np.isnan(rows.reshape(n_rows, -1)).any(axis=1).sum())
        check_rows(n_rows, "x without its rows with NaN")
    assumed, ask = per_column(assume, columns), settings.ask(columns if simultaneous else 1)
    plan = settings.plan(n_rows, settings.allowed.count(n_rows), n_blocks, assumed, ask)
    summary = BlockSummary(plan.n_blocks, settings.seed)
    summary.names = names if names and len(names) == columns else None
    return summary.update(rows, nan_policy=settings.nan_policy).concluded(settings, plan, assumed, ask)


def u_statistic(
    *samples: ArrayLike,
    kernel: Kernel | str,
    contamination: Allowed | Literal["auto"] = 0.01,
    confidence: float = 0.95,
    assume: Any = None,
    vote: str = "median",
    n_blocks: NBlocks = "auto",
    partition: PartitionKind = "random",
    grid: Literal["full", "diagonal"] = "full",
    nan_policy: NanPolicy = "raise",
    rng: Rng = None,
    remainder: Remainder = "drop",
    alternative: Alternative = "two-sided",
    max_contamination: float | Contamination = 0.1,
    n_jobs: int | None = None,
    axis: int | None = None,
    simultaneous: bool = False,
) -> RobustEstimate:
    """Estimate E h(Z_1, …, Z_d) by the median of U-statistics on blocks (MoU, MoU₂, …).

    Parameters
    ----------
    *samples : array-like or torch tensors
        One array per sample: numbers (1-D), vectors (2-D, one a row), or columns (`axis`). They are not modified.
        Tensors stay on their device; those on a GPU take the named kernels only.
    kernel : str or Kernel
        ``"variance"``, ``"covariance"``, ``"gini"``, ``"wilcoxon"``, ``"kendall"``, ``"mann-whitney"``, ``"auc"``,
        ``"mmd"``, ``"energy"``, or your own `Kernel`.
    contamination : float, int, tuple or Contamination
        How many rows may be corrupt, for all samples or one for each.
    confidence, assume, vote, partition, nan_policy, rng, remainder, alternative, max_contamination
        As for `mean`; `assume` speaks of the kernel's values on clean rows. The soft and the clipped vote need
        independent blocks: one sample, or the diagonal.
    n_blocks : "auto", int or tuple of int
        Number of blocks (K), or one for each sample (K_X, K_Y).
    grid : {"full", "diagonal"}
        For several samples: every combination of blocks votes (MoU₂), or the k-th blocks together.
    n_jobs : int or None
        Blocks are evaluated in so many joblib jobs; -1 takes all processors, None one, or as many as the surrounding
        ``joblib.parallel_config`` says. Beyond rounding, the numbers do not depend on it.
    axis : int or None
        Axis along which the rows run, where every column is a sample of its own for a kernel of numbers; samples have
        as many columns each. All columns share one partition, and a row with one NaN is a NaN row of all of them.
        The numbers are those of one call for each column with the same seed. ``"covariance"`` and ``"kendall"`` are
        of two columns, so they refuse. None: a sample is 1-D, or its rows are vectors that the kernel takes whole.
    simultaneous : bool
        Whether `confidence` is for all columns at once rather than for each.

    Returns
    -------
    RobustEstimate
        On the full grid `block_values` has one axis for each sample. Of several columns it is empty where these have
        more than 2²² combinations of blocks in all.

    Notes
    -----
    Peak memory: O(n) for the rows dealt and what the kernel sorts, three to five times the samples; on the full grid
    K_X·K_Y values more. Your own kernel, `mmd` and `energy` work on tiles of a few megabytes. Of d columns as many as
    hold 2¹⁸ numbers, and have 2²² combinations of blocks, are taken at a time, at least one: O(n + K·d) beyond the
    samples, and O(n + K_X·K_Y + d) on the full grid, besides the 2²² values that are kept at most.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> z = rng.uniform(size=2000)
    >>> z[:20] = 50.0
    >>> round(ov.u_statistic(z, kernel="variance", contamination=20, rng=0).estimate, 2)
    0.09
    >>> x, y = rng.normal(size=500), rng.normal(1.0, size=400)
    >>> print(ov.u_statistic(x, y, kernel="auc", grid="diagonal", contamination=(5, 4), rng=0))
    auc 0.76 ± 0.28 (certified 95 %, 33 blocks of 15 with 33 blocks of 12, allows for 5 and 4 corrupt rows)
    >>> table = rng.normal(scale=[1.0, 2.0, 3.0], size=(2000, 3))
    >>> ov.u_statistic(table, kernel="gini", axis=0, contamination=20, rng=0).estimate.round(1)
    array([1.2, 2.2, 3.4])
    """
    if not samples:
        raise TypeError("u_statistic needs at least one sample")
    if isinstance(contamination, str):
        options: dict[str, Any] = {
            "kernel": kernel, "assume": assume, "vote": vote, "n_blocks": n_blocks, "partition": partition,
            "grid": grid, "nan_policy": nan_policy, "remainder": remainder, "rng": seed_of(rng),
            "n_jobs": n_jobs, "axis": axis, "simultaneous": simultaneous,
        }  # fmt: skip
        return leave_open(
            contamination,
            lambda level, share: u_statistic(*samples, contamination=level, confidence=share, **options),
            list(map(len, _read_samples(samples, axis)[0])),
            max_contamination,
            confidence,
            alternative,
        )
    settings = Settings.check(contamination, confidence, vote, partition, nan_policy, remainder, alternative, rng)
    named = kernel_of(kernel)
    check_choice("grid", grid, Literal["full", "diagonal"])
    if axis is not None and named.columns not in (None, 1):
        raise ValueError(
            f"axis={axis!r} makes every column a sample of numbers, but kernel {named.name!r} takes rows of "
            f"{named.columns} numbers: leave axis out, and call once for each sample"
        )
    given, names = _read_samples(samples, axis)
    shape = given[0].shape[1:] if axis is not None else ()
    if shape:
        given = [sample.reshape(len(sample), -1) for sample in given]
    rows, counts, bad = settings.screen(given, [_sample_name(s, len(samples)) for s in range(len(samples))])
    named.check([sample[:, 0] for sample in rows] if shape else rows)
    n_columns = math.prod(shape)
    assumed = [assumption_of_kernel(assume, named)] if axis is None else _assumptions(assume, n_columns, named)
    ask = settings.ask(n_columns if simultaneous else 1)
    plan = make_plan(
        tuple(map(len, rows)),
        tuple(counts),
        named.degrees,
        log_delta=ask.log_delta,
        contamination=contamination,
        adversary=ask.adversary,
        alternative=alternative,
        assume=None if None in assumed else assumed[0],
        vote=vote,
        n_blocks=n_blocks,
        grid=grid,
        remainder=remainder,
    )
    plans = plan.samples if isinstance(plan, GridPlan) else (plan,)
    dealt = [
        _hashed(given[s], p.n_blocks, settings, s)
        if partition == "hash"
        else draw(partition, p.n_rows, p.n_blocks, settings.seed, stream=s, remainder=remainder)
        for s, p in enumerate(plans)
    ]
    plans, dealt = settle(plans, dealt, partition, together=grid == "diagonal")
    plan = GridPlan(plans, grid) if len(plans) > 1 else plans[0]
    ready = named if any(map(is_tensor, rows)) else _fitted(named, rows, bool(shape))
    sizes, detail = [part.sizes for part in dealt], ""
    if shape:
        parts = evaluate_columns(ready, rows, dealt, grid, n_jobs)
        estimate, certificate, block_values = _by_column(parts, plan, sizes, named.degrees, assumed, ask, shape)
        if not block_values.size:
            detail = f"The {n_columns} columns have too many combinations of blocks for their values to be kept."
    else:
        block_values = evaluate(ready, rows, dealt, grid, n_jobs)
        estimate, certificate = vote_on_kernel(plan, sizes, named.degrees, block_values, assumed[0], ask)
    result = settings.result(
        estimate,
        block_values,
        plan,
        sizes,
        replace(certificate, **settings.promised),
        bounds=bounds_of(assumed, shape),
        statistic=named.name,
        names=names,
        n_omitted=sum(bad),
        detail=detail,
    )
    return at_home(result, samples[0])


def _read_samples(samples: Sequence[Any], axis: int | None) -> tuple[list[NDArray[Any]], tuple[str, ...] | None]:
    """Read every sample, and the names of their columns where each column is a sample of its own."""
    called = [_sample_name(s, len(samples)) for s in range(len(samples))]
    if axis is None:
        return [read_rows(sample, name, stay=True) for sample, name in zip(samples, called, strict=True)], None
    read = [read_columns(sample, name, axis, stay=True) for sample, name in zip(samples, called, strict=True)]
    if len({tuple(values.shape[1:]) for values, _ in read}) > 1:
        found = " and ".join(str(tuple(values.shape[1:])) for values, _ in read)
        raise ValueError(f"axis={axis} pairs column with column, but the samples have columns of shape {found}")
    named = dict.fromkeys(names for _, names in read if names)
    if len(named) > 1:
        found = " and ".join(str(list(names)) for names in named)
        raise ValueError(f"axis={axis} pairs column with column, but these are named {found}: put them in one order")
    return [values for values, _ in read], next(iter(named), None)


def _assumptions(assume: Any, n_columns: int, kernel: Kernel) -> list[Any]:
    """What is assumed of the kernel's values in each column."""
    given = per_column(assume, n_columns)
    distinct = dict(zip(map(id, given), given, strict=True))
    known = {key: assumption_of_kernel(one, kernel) for key, one in distinct.items()}
    return [known[id(one)] for one in given]


def _fitted(kernel: Kernel, rows: Sequence[NDArray[Any]], by_column: bool) -> Kernel:
    """Try the kernel on the samples; of many columns, on some."""
    if not by_column:
        return kernel.fit(rows)
    n_columns = rows[0].shape[1]
    some = np.unique(np.linspace(0, n_columns - 1, min(n_columns, _TRIED)).astype(int)).tolist()
    try:
        return kernel.fit(*([sample[:, j] for sample in rows] for j in some))
    except (IndexError, TypeError) as error:
        error.add_note(f"With axis= kernel {kernel.name!r} is given numbers, not vectors: every column is a sample.")
        raise


def _are_kept(plan: BlockPlan | GridPlan, n_columns: int) -> bool:
    return isinstance(plan, BlockPlan) or plan.grid != "full" or plan.n_votes * n_columns <= _KEPT


def _by_column(
    parts: Iterable[Part],
    plan: BlockPlan | GridPlan,
    sizes: Sequence[NDArray[Any]],
    degrees: tuple[int, ...],
    assumed: Sequence[Any],
    ask: Ask,
    shape: tuple[int, ...],
) -> tuple[Number, Certificate, NDArray[np.float64]]:
    """Let the blocks of every column vote, and bring estimates, radii and block values into shape."""
    kept: list[NDArray[Any]] = []

    def keeping() -> Iterator[Part]:
        for part in parts:
            kept.append(part.values / part.divisor if part.divisor != 1 else part.values)
            yield part

    keep = _are_kept(plan, len(assumed))
    estimate, certificate = vote_on_columns(plan, sizes, degrees, keeping() if keep else parts, assumed, ask)
    blocks = tuple(map(len, sizes)) if isinstance(plan, GridPlan) and plan.grid == "full" else (len(sizes[0]),)
    block_values = np.empty((*(0 for _ in blocks), *shape))
    if keep:
        block_values = np.moveaxis(np.concatenate(kept), 0, -1).reshape(*blocks, *shape)
    radius = np.reshape(certificate.radius, shape)
    return estimate.reshape(shape), replace(certificate, radius=radius), block_values


def _hashed(rows: Any, n_blocks: int, settings: Settings, stream: int) -> Partition:
    """Deal rows by a hash of their place in what was given; those that are corrupt for certain go to no block."""
    numbers = np.arange(len(rows))
    bad = ~np.isfinite(to_host(rows)).all(axis=tuple(range(1, rows.ndim)))
    if settings.nan_policy == "omit":
        numbers, bad = numbers[~bad], bad[~bad]
    labels = hash_rows(numbers, settings.seed, stream) % n_blocks
    labels[bad] = -1
    return from_labels(labels, n_blocks)


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
    if isinstance(contamination, str):
        options: dict[str, Any] = {
            "assume": assume, "vote": vote, "n_blocks": n_blocks, "partition": partition, "nan_policy": nan_policy,
            "function": function, "paired": paired, "relative": relative, "remainder": remainder, "rng": seed_of(rng),
        }  # fmt: skip
        return leave_open(
            contamination,
            lambda level, share: difference(a, b, level, share, **options),
            [len(read_rows(a, "a")), len(read_rows(b, "b"))],
            max_contamination,
            confidence,
            alternative,
        )
    settings = Settings.check(contamination, confidence, vote, partition, nan_policy, remainder, alternative, rng)
    family = isinstance(function, Sequence)
    functions = list(function) if isinstance(function, Sequence) else [function]
    if not functions:
        raise ValueError("function=[] is an empty family: give at least one function")
    pair = [read_rows(a, "a"), read_rows(b, "b")]
    if relative and family:
        raise ValueError("relative=True goes with one function: a supremum has no base to divide by")
    if paired:
        if relative or family:
            raise ValueError("paired=True goes with one function and an absolute difference")
        gaps, total = _pair_up(pair, functions[0], settings)
        found = mean(
            gaps,
            Contamination(total, settings.allowed.adversary),
            confidence,
            assume,
            vote,
            n_blocks,
            partition,
            0,
            nan_policy,
            rng,
            remainder=remainder,
            alternative=alternative,
        )
        return replace(found, statistic="paired difference")
    ks: tuple[Any, ...] = tuple(n_blocks) if isinstance(n_blocks, (tuple, list)) else (n_blocks,) * 2
    if len(ks) != 2:
        raise ValueError(f"n_blocks={n_blocks!r} has {len(ks)} entries for 2 samples")
    assumed: tuple[Any, ...] = tuple(assume) if isinstance(assume, (tuple, list)) else (assume,) * 2
    if len(assumed) != 2:
        raise ValueError(f"assume={assume!r} has {len(assumed)} entries for 2 samples")
    pair, counts, bad = settings.screen(pair, ["a", "b"])
    # Both means, for every function, must hold at once; a ratio or an absolute value needs both sides of each.
    ask = settings.ask(2 * len(functions), both_sides=relative or family)
    voted, details = [], []
    for s, name in enumerate("ab"):
        mapped = np.stack([_apply(phi, pair[s], name) for phi in functions], axis=1)
        known = per_column(assumed[s], len(functions))
        mapped, detail = within_bounds(mapped, counts[s] - settings.found_corrupt(bad[s]), known, name)
        plan, part, values = settings.block_means(mapped, counts[s], ks[s], known, ask, stream=s)
        spread = SpreadOfRows(mapped, part, plan.n_corrupt, settings.seed + s)
        found_by_vote = vote_on_means(plan, part.sizes, values, known, ask, spread)
        voted.append(Voted(plan, part.sizes, values, *found_by_vote))
        details.append(detail)
    return subtract(
        settings, voted, relative=relative, family=family, n_omitted=sum(bad), detail=" ".join(filter(None, details))
    )


def subtract(
    settings: Settings,
    voted: Sequence[Voted],
    *,
    relative: bool = False,
    family: bool = False,
    n_omitted: int = 0,
    detail: str = "",
) -> RobustEstimate:
    """Write the result of a difference from the votes of both samples; their columns belong to several functions."""
    centres = [np.asarray(one.centre) for one in voted]
    with np.errstate(over="ignore"):
        gaps = centres[1] - centres[0]
    best = int(np.argmax(np.abs(gaps)))
    estimate, statistic = float(gaps[best]), "difference"
    if family:
        estimate, statistic = abs(estimate), "integral probability metric"
        detail = f"{detail} The largest of {len(gaps)} functions is number {best + 1}.".strip()
    if not math.isfinite(estimate):
        raise ValueError("mean(b) - mean(a) is too large for a float: divide both by a power of ten first")
    plan = GridPlan(tuple(one.plan for one in voted), "separate")
    certificate = certify_together([one.certificate for one in voted], plan, settings.promised)
    means, interval = [float(values[best]) for values in centres], None
    if relative:
        if means[0] == 0:
            raise ValueError("relative=True divides by the mean of a, which is 0 here")
        estimate, statistic = estimate / means[0], "relative " + statistic
        radii = [float(np.asarray(one.certificate.radius)[best]) for one in voted]
        if not math.isfinite(estimate):
            raise ValueError(f"relative=True divides by the mean of a, {means[0]:.3g}: too large for a float")
        interval, certificate = ratio_interval(means, radii, estimate, certificate, settings.alternative)
    return settings.result(
        estimate,
        tuple(one.values[:, best] for one in voted),
        plan,
        [one.sizes for one in voted],
        certificate,
        interval=interval,
        centres=tuple(means),
        bounds=(0.0, math.inf) if family else (-math.inf, math.inf),
        statistic=statistic,
        n_omitted=n_omitted,
        detail=detail,
    )


def _apply(function: Callable[..., Any] | None, rows: NDArray[Any], name: str) -> NDArray[np.float64]:
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


def _pair_up(
    pair: Sequence[NDArray[Any]], function: Callable[..., Any] | None, settings: Settings
) -> tuple[NDArray[np.float64], int]:
    """Return the differences of paired rows, NaN where either row has a gap, and how many pairs may be corrupt."""
    a, b = pair
    if len(a) != len(b):
        raise ValueError(f"paired=True pairs row with row, but a has {len(a)} and b has {len(b)}")
    if settings.nan_policy == "raise":
        screen(a, "raise", 0, "a")
        screen(b, "raise", 0, "b")
    whole = np.isfinite(a.reshape(len(a), -1)).all(axis=1) & np.isfinite(b.reshape(len(b), -1)).all(axis=1)
    gaps = np.full(len(a), np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        gaps[whole] = _apply(function, b[whole], "b") - _apply(function, a[whole], "a")
    if not np.isfinite(gaps[whole]).all():
        raise ValueError("b - a is too large for a float: divide both by a power of ten first")
    amounts = settings.allowed.amount if isinstance(settings.allowed.amount, tuple) else (settings.allowed.amount,)
    return gaps, sum(Contamination(amount).count(len(a)) for amount in amounts)


def _sample_name(number: int, n_samples: int) -> str:
    return "x" if n_samples == 1 else f"sample {number + 1}"
