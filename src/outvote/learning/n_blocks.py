"""How many blocks a learner takes, and how many of the rows in them may be corrupt."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

from outvote.blocks.choose import plan_blocks
from outvote.blocks.plan import BlockPlan, GridPlan, Plan
from outvote.contamination import Contamination

#: A block has about as many pairs as the square of its rows. Larger blocks than this cost more and learn nothing more.
MOST_PAIRED = 256


def blocks_for(n_rows: int, n_corrupt: int, degree: int) -> int:
    """Return 2·n_corrupt + 1, the fewest blocks that corrupt rows cannot outvote; more for pairs, to cap their size.

    Examples
    --------
    >>> blocks_for(1000, 10, degree=1), blocks_for(100_000, 10, degree=2)
    (21, 391)
    """
    fewest = 2 * n_corrupt + 1
    if degree == 1 or n_rows // fewest <= MOST_PAIRED:
        return fewest
    enough = -(-n_rows // MOST_PAIRED)
    return enough + 1 - enough % 2


def corrupt_in_part(n_corrupt: int, n_part: int, n_all: int, degree: int) -> int:
    """Return how many rows may be corrupt in a random part of all rows: two standard deviations above the mean.

    Examples
    --------
    >>> corrupt_in_part(20, 80, 100, 1), corrupt_in_part(20, 10, 100, 2)
    (20, 2)
    """
    share = n_part / n_all
    likely = math.ceil(n_corrupt * share + 2 * math.sqrt(n_corrupt * share * (1 - share)))
    return max(0, min(n_corrupt, likely, (n_part // degree - 1) // 2))


def plan_one_sample(
    n_rows: int, n_corrupt: int, degree: int, *, n_blocks: Any, algorithm: str, contamination: Any
) -> BlockPlan:
    """Plan the blocks of one sample, or name the largest contamination that works.

    `n_blocks` and `algorithm` are the learner's parameters; `contamination` is what an error message quotes.
    """
    if not is_auto(n_blocks):
        return BlockPlan(n_rows, _given_blocks(n_blocks, n_rows // degree, n_rows, degree), n_corrupt, degree)
    if algorithm == "paper":
        plan = plan_blocks(n_rows, contamination, degree=degree, method="harmonic")
        assert isinstance(plan, BlockPlan)
        return plan
    _check_majority(contamination, (n_rows,), (n_corrupt,), degree)
    k = blocks_for(n_rows, n_corrupt, degree)
    reason = "2·n_corrupt + 1 blocks: the largest blocks that corrupt rows cannot outvote."
    if k > 2 * n_corrupt + 1:
        reason = f"Blocks of at most {MOST_PAIRED} rows: larger ones take more time for pairs and improve nothing."
    return BlockPlan(n_rows, k, n_corrupt, degree, "drop", "learning", reason)


def plan_two_samples(sizes: Sequence[int], counts: Sequence[int], *, n_blocks: Any, algorithm: str) -> GridPlan:
    """Plan the blocks of two samples whose k-th blocks form pairs, or name the largest contamination that works."""
    sizes, counts = tuple(sizes), tuple(counts)
    if not is_auto(n_blocks):
        k, reason = _given_blocks(n_blocks, min(sizes), sum(sizes), 1), "The number of blocks was given."
    elif algorithm == "paper":
        plan = plan_blocks(sizes, counts, degree=(1, 1), method="harmonic", grid="diagonal")
        assert isinstance(plan, GridPlan)
        return plan
    else:
        _check_majority(counts, sizes, counts, 1)
        k, reason = 2 * sum(counts) + 1, "2·n_corrupt + 1 blocks: the largest that corrupt rows cannot outvote."
        if max(sizes) // k > MOST_PAIRED:
            k = min(-(-max(sizes) // MOST_PAIRED), min(sizes))
            reason = f"Blocks of about {MOST_PAIRED} rows: larger ones take more time for pairs and improve nothing."
    plans = (BlockPlan(n, k, c, 1, "drop", "learning", reason) for n, c in zip(sizes, counts, strict=True))
    return GridPlan(tuple(plans), "diagonal")


def plans_of(plan: Plan | tuple[BlockPlan, ...]) -> tuple[BlockPlan, ...]:
    """Return the plan of each sample."""
    if isinstance(plan, BlockPlan):
        return (plan,)
    return plan if isinstance(plan, tuple) else plan.samples


def is_auto(value: Any) -> bool:
    """Return whether a parameter is left to the learner."""
    return isinstance(value, str) and value == "auto"


def _given_blocks(n_blocks: Any, most: int, n_rows: int, degree: int) -> int:
    if isinstance(n_blocks, bool) or not isinstance(n_blocks, numbers.Integral) or int(n_blocks) < 1:
        raise ValueError(f"n_blocks={n_blocks!r} must be 'auto' or an integer of at least 1")
    if int(n_blocks) > most:
        raise ValueError(
            f"n_blocks={n_blocks} leaves fewer than {degree} rows for a block: with {n_rows} rows the most is {most}"
        )
    return int(n_blocks)


def _check_majority(contamination: Any, sizes: tuple[int, ...], counts: tuple[int, ...], degree: int) -> None:
    """Raise unless 2·n_corrupt + 1 blocks, with a tuple of rows in each, fit into every sample."""
    wanted, most = 2 * sum(counts) + 1, min(sizes) // degree
    if wanted <= most:
        return
    amount = contamination.amount if isinstance(contamination, Contamination) else contamination
    largest = (most - 1) // (2 * len(sizes))
    raise ValueError(
        f"contamination={amount!r} asks for {wanted} blocks of at least {degree} row{'s' * (degree > 1)}, but there "
        f"are {' and '.join(map(str, sizes))} rows: the largest contamination for "
        f"{'pairs' if degree == 2 else 'single rows'} here is {largest} rows "
        f"({largest * 10_000 // max(sizes) / 10_000}){' in each sample' * (len(sizes) > 1)}"
    )
