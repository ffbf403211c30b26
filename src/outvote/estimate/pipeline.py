"""The steps that every estimator takes: check, screen, plan, deal, evaluate each block, take the median."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions.assumption import Bounded, one_assumption
from outvote.blocks.choose import NBlocks, log_delta_of, make_plan
from outvote.blocks.one_pass import ONE_PASS_FROM
from outvote.blocks.partition import Partition, PartitionKind, Remainder, Rng, blocks_by_size, check_kind, draw, seed_of
from outvote.blocks.plan import BlockPlan, Grid, Plan
from outvote.certificate import Certificate
from outvote.contamination import Amount, Contamination
from outvote.data.rows import NanPolicy, check_nan_policy, neutralise, screen
from outvote.data.tensors import is_tensor, namespace, to_host
from outvote.estimate.certify import Ask, Part
from outvote.estimate.result import Interval, Number, RobustEstimate
from outvote.kernels.kernel import Kernel
from outvote.votes import Alternative, check_choice, has_scale

#: Numbers of several columns that are dealt at once, and combinations of their blocks.
_AT_ONCE = 2**18
_CELLS_AT_ONCE = 2**22

Allowed = Contamination | Amount | Sequence[Amount]


@dataclass(frozen=True)
class Settings:
    """What the steps of one call have in common, checked."""

    contamination: Allowed
    allowed: Contamination
    log_delta: float
    vote: str
    partition: PartitionKind
    nan_policy: NanPolicy
    remainder: Remainder
    alternative: Alternative
    seed: int

    @classmethod
    def check(
        cls,
        contamination: Allowed,
        confidence: float,
        vote: str,
        partition: PartitionKind,
        nan_policy: NanPolicy,
        remainder: Remainder,
        alternative: Alternative,
        rng: Rng,
    ) -> Settings:
        """Refuse what is wrong in any of them, whatever the rows."""
        check_nan_policy(nan_policy)
        check_kind(partition, remainder)
        check_choice("alternative", alternative, Alternative)
        allowed, log_delta = Contamination.of(contamination), log_delta_of(confidence)
        return cls(contamination, allowed, log_delta, vote, partition, nan_policy, remainder, alternative, seed_of(rng))

    @property
    def promised(self) -> dict[str, Any]:
        """The confidence of the whole, whatever share of δ its parts got."""
        return {"log_delta": self.log_delta, "requested_log_delta": self.log_delta}

    def ask(self, parts: int = 1, *, both_sides: bool = False) -> Ask:
        """What each of `parts` statements must hold with, for all to hold together."""
        alternative = "two-sided" if both_sides else self.alternative
        return Ask(self.log_delta - math.log(parts), self.allowed.adversary, alternative)

    def screen(
        self, samples: Sequence[NDArray[Any]], names: Sequence[str]
    ) -> tuple[list[NDArray[Any]], list[int], list[int]]:
        """Apply the NaN policy to each sample: its rows, how many of them may be corrupt, and how many were bad.

        Missing rows (policy "omit") are no rows at all; a fraction is one of those that are left.
        """
        counts = self.allowed.counts([len(sample) for sample in samples])
        screened = [
            screen(sample, self.nan_policy, count, name)
            for sample, count, name in zip(samples, counts, names, strict=True)
        ]
        kept = [rows for rows, _ in screened]
        return kept, list(self.allowed.counts([len(rows) for rows in kept])), [bad for _, bad in screened]

    def found_corrupt(self, n_bad: int) -> int:
        """How many corrupt rows the NaN policy has found already."""
        return n_bad if self.nan_policy == "corrupt" else 0

    def plan(self, n_rows: int, n_corrupt: int, n_blocks: NBlocks, assume: Sequence[Any], ask: Ask) -> BlockPlan:
        """Choose the blocks of a mean; `assume` has an entry for each column."""
        plan = make_plan(
            (n_rows,),
            (n_corrupt,),
            (1,),
            log_delta=ask.log_delta,
            contamination=self.contamination,
            adversary=ask.adversary,
            alternative=ask.alternative,
            assume=assume[0] if len(assume) == 1 or all(map(has_scale, _distinct(assume))) else None,
            vote=self.vote,
            n_blocks=n_blocks,
            remainder=self.remainder,
        )
        assert isinstance(plan, BlockPlan)
        return plan

    def block_means(
        self, rows: NDArray[Any], n_corrupt: int, n_blocks: NBlocks, assume: Sequence[Any], ask: Ask, stream: int = 0
    ) -> tuple[BlockPlan, Partition, NDArray[np.float64]]:
        """Plan, deal, and average each block; rows are on the first axis."""
        plan = self.plan(len(rows), n_corrupt, n_blocks, assume, ask)
        columns = math.prod(rows.shape[1:])
        if (
            is_tensor(rows)
            and self.partition == "random"
            and rows.ndim == 1
            and len(rows) >= max(ONE_PASS_FROM, 2 * plan.n_blocks)
        ):
            from outvote.torch.device.deals import deal_long

            there = deal_long(rows, plan.n_blocks, self.remainder, self.seed, stream)
            return plan, there, block_means_of(rows, there)
        dealt = draw(
            self.partition,
            len(rows),
            plan.n_blocks,
            self.seed,
            stream=stream,
            remainder=self.remainder,
            # A median feels how few places a block has in one pass; votes in which every block pulls do not.
            one_pass=(not is_tensor(rows) or plan.n_blocks == len(rows))
            and (plan.vote != "median" or plan.block_size >= (2 if self.partition == "uniform" else 256)),
            columns=columns,
        )
        (plan,), (dealt,) = settle((plan,), [dealt], self.partition)
        return plan, dealt, block_means_of(rows, dealt)

    def result(
        self,
        estimate: Number,
        block_values: Any,
        plan: Plan,
        sizes: Sequence[NDArray[Any]],
        certificate: Certificate,
        *,
        interval: Interval | None = None,
        bounds: tuple[Number, Number] = (-math.inf, math.inf),
        **about: Any,
    ) -> RobustEstimate:
        """Put everything into the result; known bounds of the target cut the interval."""
        if interval is None:
            low = -math.inf if self.alternative == "less" else estimate - certificate.radius
            high = math.inf if self.alternative == "greater" else estimate + certificate.radius
            interval = Interval(*(_clip(end, estimate, bounds) for end in (low, high)))
        return RobustEstimate(
            estimate=estimate,
            interval=interval,
            certificate=certificate,
            plan=plan,
            block_values=block_values,
            block_sizes=sizes[0] if len(sizes) == 1 else tuple(sizes),
            seed=self.seed,
            partition=self.partition,
            alternative=self.alternative,
            **about,
        )


def settle(
    plans: Sequence[BlockPlan], dealt: list[Partition], kind: PartitionKind, *, together: bool = False
) -> tuple[tuple[BlockPlan, ...], list[Partition]]:
    """After a hash has dealt the rows: leave out blocks that hold no tuple, and write the sizes into the plan."""
    if kind != "hash":
        return tuple(plans), dealt
    full = [part.sizes >= plan.degree for plan, part in zip(plans, dealt, strict=True)]
    if together:
        full = [np.logical_and.reduce(full)] * len(full)
    settled = []
    for s, (plan, part, keep) in enumerate(zip(plans, dealt, full, strict=True)):
        settled.append(voters(plan, part.sizes, keep))
        if not keep.all():
            dealt[s] = part.keep(np.flatnonzero(keep))
    return tuple(settled), dealt


def voters(plan: BlockPlan, sizes: NDArray[Any], keep: NDArray[np.bool_]) -> BlockPlan:
    """Write into the plan which blocks of a hash vote."""
    if not keep.any():
        raise ValueError(
            f"partition='hash' left no block of {plan.n_blocks} with {plan.degree} rows or more: use fewer blocks"
        )
    reason = plan.reason if plan.block_size > 1 else "A hash dealt the rows, one block for each on average."
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


def block_means_of(rows: NDArray[Any], dealt: Partition) -> NDArray[np.float64]:
    """Average each block; complain about NaN and infinities, and about nothing else.

    A sum of finite numbers that is not finite has overflowed: it is then taken again on scaled rows.
    """
    if not isinstance(rows, np.ndarray):
        return _means_of_tensor(rows, dealt)
    sizes: Any = int(dealt.sizes[0]) if dealt.one_size else dealt.sizes.reshape(-1, *(1,) * (rows.ndim - 1))
    with np.errstate(over="ignore", invalid="ignore"):
        means = dealt.sums(rows) / sizes
        # A sum that is finite had no infinite terms; one that is not may have had none, and is looked into.
        total = np.add.reduce(means, axis=None)
        if len(dealt.left_out):
            total += np.add.reduce(dealt.rest(rows), axis=None, dtype=np.float64)
        if not math.isfinite(total):
            screen(rows, "raise", 0, "x")
            scale = 2.0 ** -math.ceil(math.log2(2 * int(dealt.sizes.max())))
            careful = dealt.sums(rows, scale) / sizes / scale
            means = np.where(np.isfinite(means), means, careful)
    return means


def _means_of_tensor(rows: Any, dealt: Partition) -> Any:
    """The same on a device, where the rows stay; rows whose sums overflow are averaged on the host."""
    from outvote.torch.device.kernels import means_of_tensor

    means = means_of_tensor(rows, dealt)
    # Nothing is waited for before both sums are on their way.
    total = namespace(rows).sum(dealt.rest(rows), dtype=namespace(rows).float64) + namespace(means).sum(means)
    if not math.isfinite(total):
        screen(rows, "raise", 0, "x")
        return block_means_of(to_host(rows), dealt)
    return means


def evaluate(
    kernel: Kernel,
    rows: Sequence[NDArray[Any]],
    dealt: Sequence[Partition],
    grid: Grid,
    n_jobs: int | None = None,
    *,
    counts: bool = False,
) -> NDArray[Any]:
    """Evaluate a U-statistic on blocks: on all combinations of them, or on the k-th of each sample.

    `counts` gives what the kernel counts, not the values, on all combinations of blocks of one size.
    """
    if any(map(is_tensor, rows)):
        from outvote.torch.device.kernels import on_tensors

        return on_tensors(kernel, rows, dealt, grid)
    if grid == "full" and len(rows) > 1:
        shape = tuple(map(len, dealt))
        values: NDArray[Any] = np.empty(0)
        for groups in itertools.product(*(list(blocks_by_size([part])) for part in dealt)):
            first, *others = (part.stack(x, blocks) for part, x, blocks in zip(dealt, rows, groups, strict=True))
            form: Any = kernel.count_form if counts else kernel.grid
            found = _in_jobs(form, [first], others, n_jobs)
            if found.shape == shape:  # all blocks of a sample have one size
                return found
            values = values if values.size else np.empty(shape)
            values[np.ix_(*groups)] = found
        return values
    values = np.empty(len(dealt[0]))
    for blocks in blocks_by_size(dealt):
        stacks = [part.stack(x, blocks) for part, x in zip(dealt, rows, strict=True)]
        values[blocks] = _in_jobs(kernel.aligned, stacks, [], n_jobs)
    return values


def evaluate_columns(
    kernel: Kernel, rows: Sequence[NDArray[Any]], dealt: Sequence[Partition], grid: Grid, n_jobs: int | None = None
) -> Iterator[Part]:
    """Evaluate a U-statistic on blocks of each column, a few columns at a time; they share the blocks."""
    n_columns, step = rows[0].shape[1], max(1, _AT_ONCE // max(map(len, rows)))
    if grid != "full" or len(rows) == 1:
        for low in range(0, n_columns, step):
            several = [x[:, low : low + step] for x in rows]
            width = several[0].shape[1]
            # The blocks of several columns are more blocks of one long column.
            long = [x.T.reshape(-1) for x in several]
            values = evaluate(kernel, long, [part.repeated(width) for part in dealt], grid, n_jobs)
            yield Part(values.reshape(width, -1))
        return
    counts = kernel.count_form is not None and all(part.one_size for part in dealt) and not any(map(is_tensor, rows))
    divisor = math.prod(int(part.sizes[0]) for part in dealt) / kernel.count_unit if counts else 1.0
    step = min(step, max(1, _CELLS_AT_ONCE // math.prod(map(len, dealt)))) if counts else 1
    for low in range(0, n_columns, step):
        if step == 1:
            values = evaluate(kernel, [x[:, low] for x in rows], dealt, grid, n_jobs, counts=counts)[None]
        else:
            assert kernel.count_form is not None
            stacks = [_stack_columns(part, x[:, low : low + step]) for part, x in zip(dealt, rows, strict=True)]
            values = _in_jobs(kernel.count_form, stacks, [], n_jobs)
        yield Part(values, divisor)


def _stack_columns(dealt: Partition, x: NDArray[Any]) -> NDArray[Any]:
    """The blocks of one size of each column, (columns, blocks, rows)."""
    return np.ascontiguousarray(np.moveaxis(dealt.stack(x, np.arange(len(dealt))), -1, 0))


def _in_jobs(
    function: Callable[..., NDArray[Any]],
    stacks: Sequence[NDArray[Any]],
    others: Sequence[NDArray[Any]],
    n_jobs: int | None,
) -> NDArray[Any]:
    """Evaluate blocks in several joblib jobs: each has some blocks of `stacks`, and the `others` whole."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0):
        raise ValueError(f"n_jobs={n_jobs!r} must be a number of jobs, -1 for all processors, or None")
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


def per_column(assume: Any, n_columns: int) -> list[Any]:
    """Return one assumption for each column."""
    if not isinstance(assume, (tuple, list)):
        return [assume if assume is None else one_assumption(assume)] * n_columns
    several = list(assume)
    if len(several) != n_columns:
        raise ValueError(f"assume has {len(several)} entries for {n_columns} columns: give one, or one for each")
    known = {id(one): one if one is None else one_assumption(one) for one in several}
    return [known[id(one)] for one in several]


def _distinct(assume: Sequence[Any]) -> list[Any]:
    """Return the assumptions, one for all columns that share it."""
    return list(dict(zip(map(id, assume), assume, strict=True)).values())


def within_bounds(rows: NDArray[Any], n_corrupt: int, assume: Sequence[Any], name: str) -> tuple[NDArray[Any], str]:
    """Neutralise rows outside the bounds that clean rows are known to have: they are corrupt for certain."""
    if not any(isinstance(one, Bounded) for one in _distinct(assume)):
        return rows, ""
    xp, columns = namespace(rows), rows.reshape(len(rows), -1)
    beyond = [
        ~((columns[:, j] >= one.low) & (columns[:, j] <= one.high)) & xp.isfinite(columns[:, j])
        for j, one in enumerate(assume)
        if isinstance(one, Bounded)
    ]
    if not any(map(xp.any, beyond)):
        return rows, ""
    outside = np.logical_or.reduce([to_host(one) for one in beyond])
    known = [one for one in dict.fromkeys(assume) if isinstance(one, Bounded)]
    rows = neutralise(rows, outside, n_corrupt, f"{name} has values outside the bounds of {known!r}")
    return rows, f"{int(outside.sum())} rows of {name} lie outside the bounds: they are corrupt for certain."


def bounds_of(assume: Sequence[Any], shape: tuple[int, ...] = ()) -> tuple[Number, Number]:
    """Return the bounds of the target, for each column, infinite where none are known."""
    if shape and not any(isinstance(one, Bounded) for one in _distinct(assume)):
        return np.full(shape, -math.inf), np.full(shape, math.inf)
    low = np.array([one.low if isinstance(one, Bounded) else -math.inf for one in assume]).reshape(shape)
    high = np.array([one.high if isinstance(one, Bounded) else math.inf for one in assume]).reshape(shape)
    return (float(low), float(high)) if shape == () else (low, high)


def _clip(end: Number, estimate: Number, bounds: tuple[Number, Number]) -> Number:
    clipped = np.clip(end, *bounds)
    return float(clipped) if isinstance(estimate, float) else np.broadcast_to(clipped, np.shape(estimate)).copy()
