"""Evaluate a statistic on each block: means of blocks, U-statistics of blocks and of combinations of blocks."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Bounded, Proportion
from outvote.blocks.hashing import hash_rows
from outvote.blocks.partition import Partition, blocks_by_size, draw, from_labels
from outvote.blocks.plan import BlockPlan, Grid
from outvote.data.loading import one_at_a_time
from outvote.data.missing import neutralise, screen
from outvote.data.tensors import is_tensor, namespace, to_host
from outvote.estimate.request import Assumed, Request, distinct
from outvote.estimate.voting import Part
from outvote.kernels import Kernel

#: Numbers of several columns that are looked at at once, and combinations of their blocks.
_AT_ONCE = 2**18
_CELLS_AT_ONCE = 2**22


def rows_outside(rows: NDArray[Any], assumed: Assumed) -> NDArray[np.bool_] | None:
    """Return which rows lie outside the bounds that clean rows are known to have; None if no row does."""
    if not any(isinstance(one, Bounded) for one in distinct(assumed)):
        return None
    xp, columns = namespace(rows), rows.reshape(len(rows), -1)
    beyond = [
        ~_allowed(columns[:, j], one) & xp.isfinite(columns[:, j])
        for j, one in enumerate(assumed)
        if isinstance(one, Bounded)
    ]
    if not any(map(xp.any, beyond)):
        return None
    return np.logical_or.reduce([to_host(one) for one in beyond])


def _allowed(column: Any, known: Bounded) -> Any:
    """Return which values clean rows may have."""
    if isinstance(known, Proportion):
        return (column == 0) | (column == 1)
    column = column.astype(np.float64, copy=False) if isinstance(column, np.ndarray) else column  # as it is compared
    return (column >= known.low) & (column <= known.high)


def beyond_bounds(name: str, assumed: Assumed) -> str:
    """Say what is wrong with rows outside the bounds."""
    known = [one for one in distinct(assumed) if isinstance(one, Bounded)]
    return f"{name} has values outside the bounds of {known[0] if len(known) == 1 else known!r}"


def within_bounds(rows: NDArray[Any], n_corrupt: int, assumed: Assumed, name: str) -> tuple[NDArray[Any], str]:
    """Neutralise rows outside the bounds that clean rows are known to have: they are corrupt for certain."""
    outside = rows_outside(rows, assumed)
    if outside is None:
        return rows, ""
    rows = neutralise(rows, outside, n_corrupt, beyond_bounds(name, assumed))
    return rows, f"{int(outside.sum())} rows of {name} lie outside the bounds: they are corrupt for certain."


def deal_mean(request: Request, plan: BlockPlan, stream: int = 0) -> tuple[BlockPlan, Partition]:
    """Deal the rows of a mean into blocks; where every row has a soft or clipped vote, they stay in place."""
    each = plan.n_blocks == plan.n_rows and plan.vote != "median" and request.partition != "hash"
    kind = "contiguous" if each else request.partition
    drawn = draw(kind, plan.n_rows, plan.n_blocks, request.seed, stream=stream, remainder=request.remainder)
    return _settled(plan, drawn, drawn.sizes > 0) if kind == "hash" else (plan, drawn)


def _settled(plan: BlockPlan, drawn: Partition, keep: NDArray[np.bool_]) -> tuple[BlockPlan, Partition]:
    """Leave out the blocks of a hash that do not vote, and write that into the plan."""
    return voters(plan, drawn.sizes, keep), drawn if keep.all() else drawn.keep(np.flatnonzero(keep))


def deal_samples(
    request: Request, plans: Sequence[BlockPlan], given: Sequence[NDArray[Any]], *, together: bool
) -> tuple[tuple[BlockPlan, ...], list[Partition]]:
    """Deal the rows of several samples; blocks that a hash leaves without a tuple do not vote."""
    if request.partition != "hash":
        return tuple(plans), [
            draw(request.partition, plan.n_rows, plan.n_blocks, request.seed, stream=s, remainder=request.remainder)
            for s, plan in enumerate(plans)
        ]
    drawn = [_hashed(rows, plan.n_blocks, request, s) for s, (plan, rows) in enumerate(zip(plans, given, strict=True))]
    full = [part.sizes >= plan.degree for plan, part in zip(plans, drawn, strict=True)]
    if together:
        full = [np.logical_and.reduce(full)] * len(full)
    settled = [_settled(plan, part, keep) for plan, part, keep in zip(plans, drawn, full, strict=True)]
    return tuple(plan for plan, _ in settled), [part for _, part in settled]


def _hashed(rows: Any, n_blocks: int, request: Request, stream: int) -> Partition:
    """Deal rows by a hash of their position in what was given; those that are corrupt for certain go to no block."""
    numbers = np.arange(len(rows))
    bad = ~np.isfinite(to_host(rows)).all(axis=tuple(range(1, rows.ndim)))
    if request.nan_policy == "omit":
        numbers, bad = numbers[~bad], bad[~bad]
    labels = hash_rows(numbers, request.seed, stream) % n_blocks
    labels[bad] = -1
    return from_labels(labels, n_blocks)


def voters(plan: BlockPlan, sizes: NDArray[Any], keep: NDArray[np.bool_]) -> BlockPlan:
    """Write into the plan which blocks of a hash vote."""
    if not keep.any():
        raise ValueError(
            f"partition='hash' left no block of {plan.n_blocks} with {plan.degree} rows or more: use fewer blocks"
        )
    reason = plan.reason if plan.block_size > 1 else "A hash put the rows into blocks, one row to a block on average."
    n_small = int((~keep).sum())
    if n_small:
        reason += f" The hash left {n_small} blocks with fewer than {plan.degree} rows: they do not vote."
    voting = sizes[keep]
    return replace(
        plan,
        n_blocks=len(voting),
        reason=reason,
        sizes=(int(voting.min()), int(voting.max())),
        n_in_small_blocks=int(sizes[~keep].sum()),
    )


def block_means(rows: NDArray[Any], drawn: Partition) -> Any:
    """Average each block; refuse NaN and infinities.

    A sum of finite numbers that is not finite has overflowed: it is then taken again on scaled rows.
    """
    if not isinstance(rows, np.ndarray):
        return _means_of_tensor(rows, drawn)
    sizes: Any = int(drawn.sizes[0]) if drawn.one_size else drawn.sizes.reshape(-1, *(1,) * (rows.ndim - 1))
    with np.errstate(over="ignore", invalid="ignore"):
        means = drawn.sums(rows) / sizes
        # A finite sum had no infinite terms. One that is not may have overflowed: only then are the rows looked at.
        total = np.add.reduce(means, axis=None)
        if len(drawn.left_out):
            total += np.add.reduce(drawn.rest(rows), axis=None, dtype=np.float64)
        if not math.isfinite(total):
            screen(rows, "raise", 0, "x")
            scale = 2.0 ** -math.ceil(math.log2(2 * int(drawn.sizes.max())))
            careful = drawn.sums(rows, scale) / sizes / scale
            means = np.where(np.isfinite(means), means, careful)
    return means


def _means_of_tensor(rows: Any, drawn: Partition) -> Any:
    """Average each block on a device, where the rows stay; rows whose sums overflow are averaged on the host."""
    with one_at_a_time():
        from outvote.torch.device.kernels import means_of_tensor

    means = means_of_tensor(rows, drawn)
    # Both sums are started before either is waited for.
    total = namespace(rows).sum(drawn.rest(rows), dtype=namespace(rows).float64) + namespace(means).sum(means)
    if not math.isfinite(total):
        screen(rows, "raise", 0, "x")
        return block_means(to_host(rows), drawn)
    return means


def kernel_values(
    kernel: Kernel, rows: Sequence[NDArray[Any]], drawn: Sequence[Partition], grid: Grid, n_jobs: int | None
) -> Iterator[Part]:
    """Evaluate a U-statistic on blocks, for one sample of numbers or vectors, or one of each sample."""
    yield Part(_evaluate(kernel, rows, drawn, grid, n_jobs)[None])


def column_values(
    kernel: Kernel, rows: Sequence[NDArray[Any]], drawn: Sequence[Partition], grid: Grid, n_jobs: int | None
) -> Iterator[Part]:
    """Evaluate a U-statistic on blocks of each column of (rows, columns), which share the blocks."""
    n_columns, step = rows[0].shape[1], max(1, _AT_ONCE // max(map(len, rows)))
    if grid != "full" or len(rows) == 1:
        for low in range(0, n_columns, step):
            several = [x[:, low : low + step] for x in rows]
            width = several[0].shape[1]
            # The blocks of several columns are more blocks of one long column.
            long = [x.T.reshape(-1) for x in several]
            values = _evaluate(kernel, long, [part.repeated(width) for part in drawn], grid, n_jobs)
            yield Part(values.reshape(width, -1))
        return
    counts = kernel.count_form is not None and all(part.one_size for part in drawn) and not any(map(is_tensor, rows))
    divisor = math.prod(int(part.sizes[0]) for part in drawn) / kernel.count_unit if counts else 1.0
    step = min(step, max(1, _CELLS_AT_ONCE // math.prod(map(len, drawn)))) if counts else 1
    for low in range(0, n_columns, step):
        if step == 1:
            values = _evaluate(kernel, [x[:, low] for x in rows], drawn, grid, n_jobs, counts=counts)[None]
        else:
            assert kernel.count_form is not None
            stacks = [_stack_columns(part, x[:, low : low + step]) for part, x in zip(drawn, rows, strict=True)]
            values = _in_jobs(kernel.count_form, stacks, [], n_jobs)
        yield Part(values, divisor)


def _evaluate(
    kernel: Kernel,
    rows: Sequence[NDArray[Any]],
    drawn: Sequence[Partition],
    grid: Grid,
    n_jobs: int | None = None,
    *,
    counts: bool = False,
) -> NDArray[Any]:
    """Evaluate a U-statistic on blocks: on all combinations of them, or on the k-th of each sample.

    `counts` returns what the kernel counts, not the values, on all combinations of blocks of one size.
    """
    if any(map(is_tensor, rows)):
        with one_at_a_time():
            from outvote.torch.device.kernels import on_tensors

        return on_tensors(kernel, rows, drawn, grid)
    if grid == "full" and len(rows) > 1:
        shape = tuple(map(len, drawn))
        values: NDArray[Any] = np.empty(0)
        for groups in itertools.product(*(list(blocks_by_size([part])) for part in drawn)):
            first, *others = (part.stack(x, blocks) for part, x, blocks in zip(drawn, rows, groups, strict=True))
            form: Any = kernel.count_form if counts else kernel.grid
            found = _in_jobs(form, [first], others, n_jobs)
            if found.shape == shape:  # all blocks of a sample have one size
                return found
            values = values if values.size else np.empty(shape)
            values[np.ix_(*groups)] = found
        return values
    values = np.empty(len(drawn[0]))
    for blocks in blocks_by_size(drawn):
        stacks = [part.stack(x, blocks) for part, x in zip(drawn, rows, strict=True)]
        values[blocks] = _in_jobs(kernel.aligned, stacks, [], n_jobs)
    return values


def _stack_columns(drawn: Partition, x: NDArray[Any]) -> NDArray[Any]:
    """Return the blocks of one size of each column, (columns, blocks, rows)."""
    return np.ascontiguousarray(np.moveaxis(drawn.stack(x, np.arange(len(drawn))), -1, 0))


def _in_jobs(
    function: Callable[..., NDArray[Any]],
    stacks: Sequence[NDArray[Any]],
    others: Sequence[NDArray[Any]],
    n_jobs: int | None,
) -> NDArray[Any]:
    """Evaluate blocks in several joblib jobs: each job has some blocks of `stacks`, and all of the `others`."""
    if n_jobs == 1 or (n_jobs is None and "joblib" not in sys.modules):
        return function(*stacks, *others)
    from joblib import Parallel, delayed, effective_n_jobs

    jobs = min(effective_n_jobs(n_jobs), len(stacks[0]))
    if jobs == 1:
        return function(*stacks, *others)
    cuts = [len(stacks[0]) * i // jobs for i in range(jobs + 1)]
    parts = Parallel(n_jobs=n_jobs)(
        delayed(function)(*(stack[low:high] for stack in stacks), *others) for low, high in itertools.pairwise(cuts)
    )
    return np.concatenate(parts)
