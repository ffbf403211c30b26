"""The request: what a call asks for, checked and standardised once.

A public function reads its arguments into a `Request` and its rows into arrays. After that there is only mathematics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption, Bounded, one_assumption
from outvote.blocks.choose import make_plan
from outvote.blocks.partition import PartitionKind, Remainder, Rng, seed_of
from outvote.blocks.plan import BlockPlan, Grid, Plan
from outvote.contamination import Amount, Contamination
from outvote.data.arguments import check_choice, is_number, log_delta_of, per_sample, whole_per_sample
from outvote.data.missing import NanPolicy, screen
from outvote.votes import Alternative, BlockVote, Terms

Allowed = Contamination | Amount | str | Sequence[Amount | str]
NBlocks = Literal["auto"] | int | Sequence[Any]
#: What is known of each column of values; None where nothing is.
Assumed = tuple[Assumption | None, ...]

_T = TypeVar("_T")


@dataclass(frozen=True)
class Request:
    """What a call asks for.

    Attributes
    ----------
    contamination : Contamination or None
        How many rows may be corrupt, and by whom; None where that is left open, up to `most`.
    most : Contamination
        The largest contamination considered where it is left open.
    terms : Terms
        Confidence, adversary and side of the whole answer.
    vote : {"auto", "evidence", "median", "soft", "clipped"}
        How rows or block values become one answer.
    by_blocks : bool
        Whether the number of blocks, the partition or the remainder was given.
    n_blocks : tuple of (int or None)
        Blocks of each sample; None where the number is to be chosen.
    partition, remainder, nan_policy : str
        As for `outvote.mean`.
    seed : int
        Seed of the partition.
    """

    contamination: Contamination | None
    most: Contamination
    terms: Terms
    vote: str
    by_blocks: bool
    n_blocks: tuple[int | None, ...]
    partition: PartitionKind
    remainder: Remainder
    nan_policy: NanPolicy
    seed: int

    @classmethod
    def read(
        cls,
        contamination: Allowed | Literal["auto"],
        confidence: float,
        *,
        vote: str = "median",
        votes: Any = BlockVote,
        n_blocks: NBlocks = "auto",
        n_samples: int = 1,
        partition: PartitionKind = "random",
        remainder: Remainder | None = None,
        nan_policy: NanPolicy = "raise",
        alternative: Alternative = "two-sided",
        rng: Rng = None,
        max_contamination: float | Contamination = 0.1,
    ) -> Request:
        """Check the arguments that estimators share, whatever the rows."""
        check_choice("vote", vote, votes)
        check_choice("nan_policy", nan_policy, NanPolicy)
        check_choice("partition", partition, PartitionKind)
        check_choice("remainder", "drop" if remainder is None else remainder, Remainder)
        check_choice("alternative", alternative, Alternative)
        ks = tuple(_number_of_blocks(n_blocks, k) for k in per_sample("n_blocks", n_blocks, n_samples))
        by_blocks = partition != "random" or remainder is not None or any(k is not None for k in ks)
        if by_blocks and vote == "evidence":
            raise ValueError("vote='evidence' has no blocks: leave out n_blocks, partition and remainder")
        most = largest_contamination(max_contamination)
        allowed = None
        if not (isinstance(contamination, str) and contamination == "auto"):
            allowed = Contamination.of(contamination)
        elif alternative != "two-sided":
            raise ValueError(f"alternative={alternative!r} does not go with contamination='auto', which is two-sided")
        terms = Terms(log_delta_of(confidence), (allowed or most).adversary, alternative)
        seed, left = seed_of(rng), remainder or "drop"
        return cls(allowed, most, terms, vote, by_blocks, ks, partition, left, nan_policy, seed)

    @property
    def evidence(self) -> bool:
        """Whether a mean goes by evidence: if that was asked for, or nothing else."""
        return self.vote == "evidence" or (self.vote == "auto" and not self.by_blocks)

    @property
    def allowed(self) -> Contamination:
        """How many rows may be corrupt."""
        if self.contamination is None:
            raise ValueError("contamination='auto' needs the rows in memory: give a fraction or a count")
        return self.contamination

    def with_blocks(self) -> Request:
        """Return the request for blocks: where the vote is open, they vote by their median."""
        return replace(self, vote="median") if self.vote == "auto" else self

    def at(self, n_corrupt: int, log_delta: float) -> Request:
        """Return the request for so many corrupt rows in each sample, at another confidence."""
        level = Contamination(n_corrupt, self.terms.adversary)
        return replace(self, contamination=level, terms=replace(self.terms, log_delta=log_delta))

    def found_corrupt(self, n_bad: int) -> int:
        """Return how many rows the NaN policy has found to be corrupt, among those it found."""
        return n_bad if self.nan_policy == "corrupt" else 0

    def screen(self, samples: Sequence[NDArray[Any]], names: Sequence[str]) -> Screened:
        """Apply the NaN policy to each sample.

        Missing rows (policy "omit") are not rows: a fraction is one of those that are left.
        """
        counts = self.allowed.counts([len(sample) for sample in samples])
        screened = [
            screen(sample, self.nan_policy, count, name)
            for sample, count, name in zip(samples, counts, names, strict=True)
        ]
        kept = [rows for rows, _ in screened]
        return Screened(kept, self.allowed.counts([len(rows) for rows in kept]), [bad for _, bad in screened])

    def plan(self, rows: tuple[int, ...], terms: Terms, grid: Grid = "full", sample: int | None = None) -> Plan:
        """Choose the blocks of a statistic, of all samples together or of one that votes on its own."""
        ks = self.n_blocks if sample is None else (self.n_blocks[sample],)
        allowed = self.allowed if sample is None else self.allowed.of_sample(sample, len(self.n_blocks))
        given = None if None in ks else tuple(k for k in ks if k is not None)
        return make_plan(rows, allowed, terms, vote=self.vote, n_blocks=given, grid=grid, remainder=self.remainder)

    def plan_mean(self, n_rows: int, assumed: Assumed, terms: Terms, sample: int = 0) -> BlockPlan:
        """Choose the blocks of a mean of one or several columns."""
        kinds = distinct(assumed)
        known = kinds[0] if len(kinds) == 1 or all(one is not None and one.has_scale for one in kinds) else None
        plan = self.plan((n_rows,), terms.about(known), sample=sample)
        assert isinstance(plan, BlockPlan)
        return plan


@dataclass(frozen=True)
class Screened:
    """Samples after the NaN policy: their rows, how many may be corrupt, how many had NaN or infinite values."""

    rows: list[NDArray[Any]]
    counts: tuple[int, ...]
    bad: list[int]


def largest_contamination(max_contamination: object) -> Contamination:
    """Read the largest contamination to consider where it is left open."""
    if isinstance(max_contamination, Contamination):
        return max_contamination
    if isinstance(max_contamination, (bool, str, int)) or not isinstance(max_contamination, Amount):
        raise TypeError(f"max_contamination={max_contamination!r} must be a fraction below 0.5, or a Contamination")
    if not 0 <= max_contamination < 0.5:
        raise ValueError(f"max_contamination={max_contamination!r} must be a fraction below 0.5, and not negative")
    return Contamination(max_contamination)


def _number_of_blocks(given: object, k: object) -> int | None:
    if isinstance(k, str):
        if k != "auto":
            raise ValueError(f"n_blocks={given!r} must be 'auto' or a number of blocks")
        return None
    return whole_per_sample("n_blocks", k, 1)[0]


def is_pair(assume: Any) -> bool:
    """Return whether bounds were given as two plain numbers."""
    return isinstance(assume, (tuple, list)) and len(assume) == 2 and all(map(is_number, assume))


def per_column(assume: Any, n_columns: int) -> Assumed:
    """Return one assumption, or None, for each column."""
    if is_pair(assume):
        raise TypeError(f"assume={assume!r} is a pair of numbers: did you mean outvote.Bounded{tuple(assume)!r}?")
    if not isinstance(assume, (tuple, list)):
        return (assume if assume is None else one_assumption(assume),) * n_columns
    if len(assume) != n_columns:
        raise ValueError(f"assume has {len(assume)} entries for {n_columns} columns: give one, or one for each")
    return tuple(one if one is None else one_assumption(one) for one in assume)


def distinct(items: Sequence[_T]) -> list[_T]:
    """Return the distinct items, by equality, in order: a million columns may share one assumption."""
    by_identity = dict(zip(map(id, items), items, strict=True)).values()
    return list(dict.fromkeys(by_identity))


def bounds_of(assumed: Assumed) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the bounds of the target in each column, infinite where none are known."""
    low = np.array([one.low if isinstance(one, Bounded) else -math.inf for one in assumed])
    high = np.array([one.high if isinstance(one, Bounded) else math.inf for one in assumed])
    return low, high
