"""The choice of the number of blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from outvote.assumptions import one_assumption
from outvote.blocks.partition import Remainder
from outvote.blocks.plan import BlockPlan, Grid, GridPlan, Plan, majority
from outvote.contamination import Amount, Contamination
from outvote.data.arguments import check_choice, is_whole, log_failure, whole_per_sample
from outvote.data.text import count, listed
from outvote.paper.mappings import MAPPINGS, alpha, block_count
from outvote.votes import BlockVote, Layout, Terms, ballot, best_vote

Method = str | Callable[[Any], Any]
#: One number of blocks for each sample, or None where it is to be chosen.
Given = tuple[int, ...] | None

_TUPLES = {1: "single rows", 2: "pairs", 3: "triples"}


def plan_blocks(
    n_rows: int | Sequence[int],
    contamination: Contamination | Amount | Sequence[Amount] = 0.01,
    confidence: float | None = None,
    assume: Any = None,
    degree: int | Sequence[int] = 1,
    vote: str = "median",
    method: Method = "certified",
    *,
    claim: Literal[1, 2] = 2,
    delta: float | None = None,
    grid: Grid = "full",
    remainder: Remainder = "drop",
) -> Plan:
    """Choose the number of blocks.

    Parameters
    ----------
    n_rows : int or tuple of int
        Rows in the sample (n), or in each sample.
    contamination : float, int, Contamination or tuple
        How many rows may be corrupt: a fraction, a count, or one for each sample.
    confidence : float, optional
        Confidence (1 - δ) at which the answer must hold; 0.95 if neither it nor `delta` is given.
    assume : assumption or None
        What is known of the clean rows; finite variance if nothing is said.
    degree : int or tuple of int
        Rows the kernel takes at a time (d), for each sample.
    vote : {"median", "soft", "clipped", "auto"}
        How block values become one; "auto" takes the smallest certified radius, the median when `assume` fixes
        no scale.
    method : str or callable
        ``"certified"`` chooses K for the smallest guaranteed error. The paper's mappings
        ``"harmonic"``, ``"geometric"``, ``"arithmetic"``, ``"polynomial"``, or any callable α with
        2ε < α(ε) < 1, follow its propositions. ``"standard"`` is ⌈log(1/δ)⌉, for clean samples.
    claim : {2, 1}
        For a mapping: K = ⌈α(ε)·n⌉ (claim 2), or K = ⌈β(ε)·log(1/δ)⌉ (claim 1), which holds for tiny δ only.
    delta : float, optional
        Failure probability δ, instead of `confidence`, for values below 1e-16.
    grid : {"full", "diagonal"}
        For several samples: whether all combinations of blocks vote, or the k-th with the k-th.
    remainder : {"drop", "spread"}
        What happens to the rows that K equal blocks do not take.

    Returns
    -------
    BlockPlan or GridPlan
        A plan for one sample, or for several.

    Notes
    -----
    Peak memory: O(1), whatever the number of rows.

    Examples
    --------
    >>> print(plan_blocks(10_000, contamination=0.02, method="harmonic").explain())
    10000 rows go into 770 blocks of 12.
    760 rows outside these blocks are left out.
    The harmonic mapping takes ⌈α(ε)·n⌉ blocks, here α(0.02) = 0.07692.
    The clean blocks outvote up to 384 corrupt rows, at any position; 200 rows may be corrupt.
    """
    rows = whole_per_sample("n_rows", n_rows, len(np.atleast_1d(np.asarray(n_rows, dtype=object))) or 1)
    degrees = whole_per_sample("degree", degree, len(rows))
    check_choice("vote", vote, BlockVote)
    check_choice("grid", grid, Literal["full", "diagonal"])
    check_choice("remainder", remainder, Remainder)
    if not is_whole(claim) or claim not in (1, 2):
        raise ValueError(f"claim={claim!r} is neither 1 nor 2")
    allowed = Contamination.of(contamination)
    known = None if assume is None else one_assumption(assume)
    log_delta = log_failure(0.95 if confidence is None and delta is None else confidence, delta)
    terms = Terms(log_delta, allowed.adversary, assume=known, degrees=degrees)
    return make_plan(rows, allowed, terms, vote=vote, method=method, claim=claim, grid=grid, remainder=remainder)


def make_plan(
    rows: tuple[int, ...],
    contamination: Contamination,
    terms: Terms,
    *,
    n_blocks: Given = None,
    vote: str = "median",
    method: Method = "certified",
    claim: int = 2,
    grid: Grid = "full",
    remainder: Remainder = "drop",
) -> Plan:
    """Make a plan from arguments that have been checked."""
    for s, (n, d) in enumerate(zip(rows, terms.degrees, strict=True)):
        if n < d:
            which = "the sample has" if len(rows) == 1 else f"sample {s + 1} has"
            raise ValueError(f"a kernel of degree {d} needs at least {d} rows, but {which} {n}")
    layout: Layout = "single" if len(rows) == 1 else grid  # type: ignore[assignment]
    if layout == "full" and vote in ("soft", "clipped"):
        raise ValueError(f"vote={vote!r} needs independent blocks: use grid='diagonal', or vote='median'")
    need = Need(rows, contamination.counts(rows), layout, vote, terms, contamination)
    if n_blocks is not None:
        _check_given(n_blocks, need)
        chosen = Choice(n_blocks, "given", "The number of blocks was given.", _vote_for(need, n_blocks))
    else:
        chosen = _choose(need, method, claim)
    plans = tuple(
        BlockPlan(n, k, c, d, remainder, chosen.method, chosen.reason, vote=chosen.vote)
        for n, k, c, d in zip(rows, chosen.n_blocks, need.counts, terms.degrees, strict=True)
    )
    return plans[0] if len(plans) == 1 else GridPlan(plans, grid)


@dataclass(frozen=True)
class Need:
    """What the blocks must serve: rows and corrupt rows of each sample, their layout, the vote, the certificate."""

    rows: tuple[int, ...]
    counts: tuple[int, ...]
    layout: Layout
    vote: str
    terms: Terms
    contamination: Contamination

    @property
    def most_blocks(self) -> tuple[int, ...]:
        """The most blocks that hold a tuple each."""
        most = tuple(n // d for n, d in zip(self.rows, self.terms.degrees, strict=True))
        return (min(most),) * len(most) if self.layout == "diagonal" else most

    def majority(self, n_blocks: tuple[int, ...], counts: tuple[int, ...]) -> bool:
        """Whether so many corrupt rows leave the clean votes in the majority."""
        return majority(n_blocks, counts, "full" if self.layout == "single" else self.layout)

    def refusal(self, wanted: Sequence[int], feasible: Callable[[tuple[int, ...]], bool]) -> ValueError:
        """Return the error for a contamination that no plan survives, naming the largest one that works."""
        low, high = -1, max(self.rows)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if feasible((middle,) * len(self.rows)) else (low, middle)
        per = max(self.terms.degrees)
        kind = _TUPLES.get(per, f"tuples of {per}")
        asked = " and ".join(count(k, "block") for k in wanted)
        size = " and ".join(map(str, dict.fromkeys(self.terms.degrees)))
        message = (
            f"contamination={self.contamination.amount!r} asks for {asked} of at least {size} "
            f"row{'s' * (per > 1)}, but there are {' and '.join(map(str, self.rows))} rows: "
        )
        if low < 0:
            return ValueError(message + f"no contamination works for {kind} here")
        each = " in each sample" if len(self.rows) > 1 else ""
        fraction = low * 10_000 // max(self.rows) / 10_000
        return ValueError(message + f"the largest contamination for {kind} here is {low} rows ({fraction}){each}")


@dataclass(frozen=True)
class Choice:
    """Numbers of blocks, how and why they were chosen, and how the blocks vote."""

    n_blocks: tuple[int, ...]
    method: str
    reason: str
    vote: str = "median"


def _choose(need: Need, method: Method, claim: int) -> Choice:
    if not isinstance(method, str) and not callable(method):
        raise ValueError(f"method={method!r} is neither the name of a mapping nor a callable α(ε)")
    if method == "certified":
        return _certified(need)
    if need.vote not in ("median", "auto"):
        raise ValueError(f"method={method!r} is about the median: with vote={need.vote!r} use 'certified'")
    if method == "standard":
        return _standard(need)
    if isinstance(method, str) and method not in MAPPINGS:
        names = ", ".join(map(repr, ("certified", *MAPPINGS, "standard")))
        raise ValueError(f"method={method!r} is not one of {names}, nor a callable α(ε)")
    return _mapped(need, method, claim)


def _certified(need: Need) -> Choice:
    """Minimise the certified radius over the numbers of blocks, and over the votes if the vote is open."""
    most = tuple(_odd_below(k) for k in need.most_blocks)
    if not need.majority(most, need.counts):
        raise need.refusal(_fewest_blocks(need), lambda counts: need.majority(most, counts))
    vote, terms = need.vote, need.terms
    if not terms.scaled:
        vote = "median" if vote == "auto" else vote
        terms = terms if vote == "median" else replace(terms, assume=None)
    try:
        vote, ks = best_blocks(vote, need.rows, need.counts, need.layout, terms)
    except NoCertificate:
        # The assumption bounds nothing here; the blocks that finite variance asks for still estimate well.
        vote, ks = best_blocks(vote, need.rows, need.counts, need.layout, replace(terms, assume=None))
    if vote != "median" and max(n // k for n, k in zip(need.rows, ks, strict=True)) == 1:
        reason = f"Every row has a {vote} vote: blocks would only cost precision."
    elif vote != "median":
        reason = f"These blocks give the {vote} vote its smallest certified radius, or one within 1 % of it."
    else:
        reason = "This number of blocks has the smallest certified radius: " + (
            "the rows allow no more blocks."
            if ks == most
            else "fewer would leave too few clean blocks over, more would make each less precise."
            if any(need.counts)
            else "fewer would not reach the confidence, more would make each block less precise."
        )
    return Choice(ks, "certified", reason, vote)


class NoCertificate(ValueError):
    """No number of blocks gives a finite radius under the assumption."""


@lru_cache(maxsize=256)
def best_blocks(
    vote: str, rows: tuple[int, ...], counts: tuple[int, ...], layout: Layout, terms: Terms
) -> tuple[str, tuple[int, ...]]:
    """Return the vote and the numbers of blocks with the smallest certified radius."""
    try:
        return best_vote(vote, rows, counts, terms, layout)
    except ValueError as error:
        raise NoCertificate(str(error)) from None


def _vote_for(need: Need, n_blocks: tuple[int, ...]) -> str:
    """Choose among the votes for given blocks, if the vote is open: the smallest certified radius."""
    if need.vote != "auto":
        return need.vote
    if need.layout == "full" or not need.terms.scaled:
        return "median"
    sizes = [np.full(k, n // k) for n, k in zip(need.rows, n_blocks, strict=True)]
    votes = ("median", "soft", "clipped")
    return min(votes, key=lambda one: ballot(one, sizes, need.counts, need.terms).radius)


def _standard(need: Need) -> Choice:
    if any(need.counts):
        raise ValueError(
            f"method='standard' is for clean samples, but contamination={need.contamination.amount!r} allows "
            f"{listed(need.counts)} corrupt rows: use 'certified' or 'harmonic'"
        )
    wanted = max(1, math.ceil(-need.terms.log_delta))
    for most in need.most_blocks:
        if wanted > most:
            raise ValueError(
                f"confidence needs ⌈log(1/δ)⌉ = {wanted} blocks, but the rows allow {most}: the smallest failure "
                f"probability here is {math.exp(-most):.3g}"
            )
    return Choice((wanted,) * len(need.rows), "standard", "Without corrupt rows ⌈log(1/δ)⌉ blocks are enough.")


def _mapped(need: Need, method: Method, claim: int) -> Choice:
    """Take as many blocks as a mapping of the paper asks for."""

    def blocks(counts: tuple[int, ...]) -> tuple[int, ...]:
        return block_count(
            need.rows, counts, mapping=method, claim=claim, log_delta=need.terms.log_delta, layout=need.layout
        )

    def feasible(counts: tuple[int, ...]) -> bool:
        try:
            ks = blocks(counts)
        except ValueError:
            return False
        return all(k <= most for k, most in zip(ks, need.most_blocks, strict=True))

    ks = blocks(need.counts)
    if not feasible(need.counts):
        raise need.refusal(ks, feasible)
    name = str(method if isinstance(method, str) else getattr(method, "__name__", "callable"))
    who = f"The {name} mapping" if isinstance(method, str) else f"The mapping {name}"
    p = len(need.rows)
    formulas = (f"⌈β_s·log({p}/δ)⌉", "⌈α(ε)^(1/p)·n⌉") if need.layout == "full" else ("⌈β(ε)·log(1/δ)⌉", "⌈α(ε)·n⌉")
    reason = f"{who} takes {formulas[claim - 1]} blocks"
    share = _joint_share(need)
    if share:
        reason += f", here α({float(share):.4g}) = {float(alpha(method, share)):.4g}"
    return Choice(ks, name, reason + ".")


def _check_given(n_blocks: tuple[int, ...], need: Need) -> None:
    """Refuse numbers of blocks that the rows cannot fill."""
    if need.layout == "diagonal" and len(set(n_blocks)) > 1:
        raise ValueError(f"n_blocks={n_blocks!r}: on the diagonal all samples have the same number of blocks")
    for k, n, d in zip(n_blocks, need.rows, need.terms.degrees, strict=True):
        if k > n // d:
            raise ValueError(
                f"n_blocks={k} leaves fewer than {count(d, 'row')} for a block: with {n} rows the most is {n // d}"
            )


def _fewest_blocks(need: Need) -> tuple[int, ...]:
    """Return odd numbers of blocks that leave the clean votes in the majority.

    On the full grid of p samples a share 2^(-1/p) of each one's blocks must be clean: more than c/(1 - 2^(-1/p)).
    """
    if need.layout == "diagonal":
        return (2 * sum(need.counts) + 1,)
    share = 1 - 0.5 ** (1 / len(need.counts))
    return tuple(_odd_above(math.floor(c / share) + 1) for c in need.counts)


def _joint_share(need: Need) -> Fraction:
    """Return the share of votes that corrupt rows can reach."""
    if need.layout == "diagonal":
        return Fraction(sum(need.counts), min(need.rows))
    clean = (1 - Fraction(c, n) for c, n in zip(need.counts, need.rows, strict=True))
    return 1 - math.prod(clean, start=Fraction(1))


def _odd_below(k: int) -> int:
    return k - 1 + k % 2 if k > 1 else 1


def _odd_above(k: float) -> int:
    whole = max(1, math.ceil(k))
    return whole + 1 - whole % 2
