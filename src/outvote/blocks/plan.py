"""Plans: how many blocks there are, their size, why, and how many corrupt rows they survive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from outvote.blocks.partition import Partition, PartitionKind, Remainder, Rng, draw, seed_of
from outvote.data.arguments import check_choice, whole
from outvote.data.text import count

Grid = Literal["full", "diagonal", "separate"]


@dataclass(frozen=True)
class BlockPlan:
    """The blocks of one sample.

    Attributes
    ----------
    n_rows : int
        Rows in the sample (n).
    n_blocks : int
        Blocks (K).
    n_corrupt : int
        Rows that may be corrupt (n_O).
    degree : int
        Rows the kernel takes from this sample at a time (d), and so the fewest rows of a block.
    remainder : {"drop", "spread"}
        Whether the rows that do not fit into K blocks of equal size are left out or added to blocks, one each.
    method : str
        How the number of blocks was chosen.
    reason : str
        A sentence that gives the reason for the number of blocks.
    sizes : tuple of int or None
        The sizes of the smallest and largest block, if a hash assigned the rows to blocks.
    n_in_small_blocks : int
        Rows in blocks that are too small to vote, if a hash assigned the rows.
    vote : {"median", "soft", "clipped"}
        How the estimate is computed from the block values.

    Examples
    --------
    >>> import outvote as ov
    >>> plan = ov.BlockPlan(n_rows=1000, n_blocks=41, n_corrupt=10)
    >>> print(plan)
    41 blocks of 24
    >>> plan.block_size, plan.n_left_out, plan.survives
    (24, 16, 20)
    >>> print(plan.explain())
    1000 rows go into 41 blocks of 24.
    16 rows outside these blocks are left out.
    The number of blocks was given.
    The clean blocks outvote up to 20 corrupt rows, at any position; 10 rows may be corrupt.
    """

    n_rows: int
    n_blocks: int
    n_corrupt: int
    degree: int = 1
    remainder: Remainder = "drop"
    method: str = "given"
    reason: str = "The number of blocks was given."
    sizes: tuple[int, int] | None = None
    n_in_small_blocks: int = 0
    vote: str = "median"

    def __post_init__(self) -> None:
        for name, least in (("n_rows", 0), ("n_blocks", 1), ("n_corrupt", 0), ("degree", 1)):
            whole(name, getattr(self, name), least)
        check_choice("remainder", self.remainder, Remainder)

    @property
    def size_range(self) -> tuple[int, int]:
        """The smallest and largest number of rows in a block."""
        spread = self.remainder == "spread" and self.n_rows % self.n_blocks > 0
        return self.sizes or (self.block_size, self.block_size + spread)

    @property
    def block_size(self) -> int:
        """Rows in a block (B), rounded down if blocks differ."""
        return self.n_rows // self.n_blocks

    @property
    def n_left_out(self) -> int:
        """Rows that are in no block."""
        if self.sizes is not None:
            return self.n_in_small_blocks
        return self.n_rows % self.n_blocks if self.remainder == "drop" else 0

    @property
    def survives(self) -> int:
        """The largest number of corrupt rows that leaves the clean blocks in the majority, wherever they are."""
        return (self.n_blocks - 1) // 2

    @property
    def holds(self) -> bool:
        """Whether the clean blocks are in the majority when `n_corrupt` rows are corrupt."""
        return self.n_corrupt <= self.survives

    @property
    def withstands(self) -> int:
        """How many corrupt rows the estimate withstands: as many as clean blocks outvote, or as it was tuned for."""
        return self.survives if self.vote == "median" else self.n_corrupt

    def strength(self) -> str:
        """Return in a few words how many corrupt rows the estimate withstands."""
        if not self.holds:
            return "corrupt rows could outvote the clean ones"
        does = "survives" if self.vote == "median" else "allows for"
        return f"{does} {count(self.withstands, 'corrupt row')}"

    def partition(self, rng: Rng = None, kind: PartitionKind = "random") -> Partition:
        """Assign the rows to blocks.

        Parameters
        ----------
        rng : int, Generator or None
            Seed.
        kind : {"random", "uniform", "hash", "contiguous"}
            How the rows are assigned; no kind looks at the values.

        Returns
        -------
        Partition
            A sequence: item k holds the row numbers of block k.

        Examples
        --------
        >>> blocks = BlockPlan(n_rows=100, n_blocks=27, n_corrupt=3).partition(rng=0)
        >>> len(blocks), len(blocks[0]), len(blocks.left_out)
        (27, 3, 19)
        """
        check_choice("kind", kind, PartitionKind)
        return draw(kind, self.n_rows, self.n_blocks, seed_of(rng), remainder=self.remainder)

    def explain(self) -> str:
        """Return plain sentences on how many blocks there are, why, and how many corrupt rows they survive."""
        return "\n".join([*self._layout(), self.reason, self._survival()])

    def _layout(self) -> list[str]:
        lines = [f"{count(self.n_rows, 'row')} {'goes' if self.n_rows == 1 else 'go'} into {self._blocks()}."]
        if self.n_left_out:
            are = "is" if self.n_left_out == 1 else "are"
            lines.append(f"{count(self.n_left_out, 'row')} outside these blocks {are} left out.")
        return lines

    def _survival(self) -> str:
        if self.holds and self.vote != "median":
            return f"The {self.vote} vote is tuned for {count(self.n_corrupt, 'corrupt row')}, at any position."
        may_be = f"{count(self.n_corrupt, 'row')} may be corrupt"
        if self.holds:
            return f"The clean blocks outvote up to {count(self.survives, 'corrupt row')}, at any position; {may_be}."
        return (
            f"These blocks survive {count(self.survives, 'corrupt row')} at most, but {may_be}: "
            f"nothing is guaranteed. More than {2 * self.n_corrupt} blocks are needed."
        )

    def __str__(self) -> str:
        if self.vote == "median":
            return self._blocks()
        voters = count(self.n_blocks, "row") if self.size_range == (1, 1) else self._blocks()
        return f"{self.vote} vote of {voters}"

    def _blocks(self) -> str:
        small, large = self.size_range
        size = f"{small}" if small == large else f"{small} {'or' if large == small + 1 else 'to'} {large}"
        return f"{count(self.n_blocks, 'block')} of {size}"


@dataclass(frozen=True)
class RowPlan:
    """Rows that go into no blocks.

    Attributes
    ----------
    n_rows : int or tuple of int
        Rows in the sample (n), or in each.
    n_corrupt : int or tuple of int
        Rows that may be corrupt (n_O), in each sample; with `together` as many as these in all, wherever they are.
    vote : str
        How the rows become one answer: "evidence", or a fixed radius around the mean or a soft or clipped vote.
    reason : str
        Why.

    Examples
    --------
    >>> import outvote as ov
    >>> plan = ov.mean([1.0, 2.0, 4.0, 3.0, 2.0]).plan
    >>> plan.n_rows, plan.n_corrupt, plan.vote, plan.n_blocks
    (5, 1, 'evidence', None)
    """

    n_rows: int | tuple[int, ...]
    n_corrupt: int | tuple[int, ...]
    vote: str = "evidence"
    reason: str = ""
    n_blocks: None = None
    block_size: None = None
    n_left_out: int = 0
    together: bool = False

    @property
    def holds(self) -> bool:
        """Whether the clean rows are in the majority, in each sample."""
        counts = (self.withstands,) if self.together else _each(self.n_corrupt)
        return 2 * max(counts) < min(_each(self.n_rows))

    @property
    def withstands(self) -> int:
        """The corrupt rows that the answer withstands, in all samples."""
        return sum(_each(self.n_corrupt))

    def strength(self) -> str:
        """Say in a few words how many corrupt rows the answer withstands."""
        if self.together:
            return f"allows for {count(self.withstands, 'corrupt row')} in both together"
        if isinstance(self.n_corrupt, tuple):
            return f"allows for {' and '.join(map(str, self.n_corrupt))} corrupt rows"
        return f"allows for {count(self.n_corrupt, 'corrupt row')}"

    def explain(self) -> str:
        """Say in plain sentences how the answer came about."""
        return self.reason

    def __str__(self) -> str:
        rows = " and ".join(map(str, _each(self.n_rows)))
        return f"{self.vote} of {rows} row{'s' * (rows != '1')}"


def _each(numbers: int | tuple[int, ...]) -> tuple[int, ...]:
    return numbers if isinstance(numbers, tuple) else (numbers,)


@dataclass(frozen=True)
class GridPlan:
    """The blocks of several samples, and which combinations of them vote.

    Attributes
    ----------
    samples : tuple of BlockPlan
        One plan for each sample.
    grid : {"full", "diagonal", "separate"}
        Every combination of blocks votes (MoU₂), the k-th blocks of all samples vote together (MoU₂ on
        the diagonal), or each sample votes separately (MoM - MoM).

    Examples
    --------
    >>> import outvote as ov
    >>> plan = ov.plan_blocks((1000, 2000), 0.01, degree=(1, 1), grid="full")
    >>> print(plan)
    99 blocks of 10 × 199 blocks of 10
    >>> [one.n_blocks for one in plan.samples]
    [99, 199]
    """

    samples: tuple[BlockPlan, ...]
    grid: Grid

    @property
    def vote(self) -> str:
        """How the estimate is computed from the block values; "mixed" if the samples use different votes."""
        votes = {plan.vote for plan in self.samples}
        return votes.pop() if len(votes) == 1 else "mixed"

    @property
    def n_rows(self) -> tuple[int, ...]:
        """Rows in each sample."""
        return tuple(plan.n_rows for plan in self.samples)

    @property
    def n_blocks(self) -> tuple[int, ...]:
        """Blocks of each sample."""
        return tuple(plan.n_blocks for plan in self.samples)

    @property
    def block_size(self) -> tuple[int, ...]:
        """Rows in a block of each sample."""
        return tuple(plan.block_size for plan in self.samples)

    @property
    def n_corrupt(self) -> tuple[int, ...]:
        """Rows of each sample that may be corrupt."""
        return tuple(plan.n_corrupt for plan in self.samples)

    @property
    def n_left_out(self) -> tuple[int, ...]:
        """Rows of each sample that are in no block."""
        return tuple(plan.n_left_out for plan in self.samples)

    @property
    def n_votes(self) -> int:
        """The number of values that vote; if the samples vote separately, the sum over the samples."""
        if self.grid == "full":
            return math.prod(self.n_blocks)
        return self.n_blocks[0] if self.grid == "diagonal" else sum(self.n_blocks)

    @property
    def holds(self) -> bool:
        """Whether the clean votes are in the majority when `n_corrupt` rows of each sample are corrupt."""
        return majority(self.n_blocks, self.n_corrupt, self.grid)

    def strength(self) -> str:
        """Return in a few words how many corrupt rows the estimate withstands."""
        if not self.holds:
            return "corrupt rows could outvote the clean ones"
        survives = self.grid == "separate" and self.vote == "median"
        counts = [plan.survives for plan in self.samples] if survives else self.n_corrupt
        return f"{'survives' if survives else 'allows for'} {' and '.join(map(str, counts))} corrupt rows"

    def partition(self, rng: Rng = None, kind: PartitionKind = "random") -> tuple[Partition, ...]:
        """Assign the rows of each sample to its blocks, independently of the other samples."""
        check_choice("kind", kind, PartitionKind)
        seed = seed_of(rng)
        return tuple(
            draw(kind, plan.n_rows, plan.n_blocks, seed, stream=s, remainder=plan.remainder)
            for s, plan in enumerate(self.samples)
        )

    def explain(self) -> str:
        """Return plain sentences on how many blocks there are, why, and how many corrupt rows they survive."""
        lines = []
        for number, plan in enumerate(self.samples, 1):
            lines += [f"Sample {number}: {line}" for line in plan._layout()]
        if self.grid == "separate":
            lines += [
                f"Sample {number}: {plan.reason} {plan._survival()}" for number, plan in enumerate(self.samples, 1)
            ]
            return "\n".join(lines)
        lines.append(self.samples[0].reason)
        full = f"{count(self.n_votes, 'combination')} of blocks"
        votes = full if self.grid == "full" else "k-th blocks of all samples"
        corrupt = " and ".join(map(str, self.n_corrupt))
        if self.holds:
            lines.append(f"The {votes} vote; the clean ones outvote {corrupt} corrupt rows, at any position.")
        else:
            lines.append(f"The {votes} vote, but {corrupt} corrupt rows can reach half of them: nothing is guaranteed.")
        return "\n".join(lines)

    def __str__(self) -> str:
        joint = {"full": " × ", "diagonal": " with ", "separate": " and "}[self.grid]
        return joint.join(map(str, self.samples))


Plan = BlockPlan | GridPlan
#: The plan of a result, which may have no blocks.
AnyPlan = BlockPlan | GridPlan | RowPlan


def majority(n_blocks: Sequence[int], n_corrupt: Sequence[int], grid: str) -> bool:
    """Return whether the clean votes are in the majority if every corrupt row is in another block."""
    if grid == "separate":
        return all(2 * c < k for k, c in zip(n_blocks, n_corrupt, strict=True))
    if grid == "full":
        clean = math.prod(max(k - c, 0) for k, c in zip(n_blocks, n_corrupt, strict=True))
        return 2 * clean > math.prod(n_blocks)
    return 2 * sum(n_corrupt) < min(n_blocks)
