"""The choice of the number of blocks."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np

from outvote.assumptions.assumption import Assumption, FiniteVariance, one_assumption
from outvote.blocks.partition import Remainder, check_kind
from outvote.blocks.plan import BlockPlan, Grid, GridPlan, Plan, majority
from outvote.contamination import Amount, Contamination
from outvote.votes import (
    Adversary,
    Alternative,
    Layout,
    Terms,
    VoteName,
    at_size,
    ballot,
    best_vote,
    check_choice,
    has_scale,
)

Method = str | Callable[[Any], Any]
NBlocks = Literal["auto"] | int | Sequence[int]

#: No more rows than this are considered.
_MOST_ROWS = 2**50
_DEGREE_WORDS = {1: "single rows", 2: "pairs", 3: "triples"}


def plan_blocks(
    n_rows: int | Sequence[int],
    contamination: Contamination | Amount | Sequence[Amount] = 0.01,
    confidence: float = 0.95,
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
    confidence : float
        Confidence (1 - δ) at which the answer must hold.
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
    The clean blocks outvote up to 384 corrupt rows, wherever they sit; 200 may be there.
    """
    rows = _per_sample(n_rows, "n_rows", 1)
    degrees = _per_sample(degree, "degree", len(rows))
    for name, values in (("n_rows", rows), ("degree", degrees)):
        if min(values) < 1:
            raise ValueError(f"{name}={min(values)} must be at least 1")
    allowed = Contamination.of(contamination)
    return make_plan(
        rows,
        allowed.counts(rows),
        degrees,
        log_delta=log_delta_of(confidence, delta),
        adversary=allowed.adversary,
        assume=None if assume is None else one_assumption(assume),
        vote=vote,
        method=method,
        claim=claim,
        grid=grid,
        remainder=remainder,
        contamination=contamination,
    )


def rows_needed(
    radius: float,
    contamination: Contamination | Amount = 0.01,
    confidence: float = 0.95,
    assume: Assumption | None = None,
    degree: int = 1,
    *,
    vote: str = "median",
    alternative: Alternative = "two-sided",
) -> int:
    """Count the rows it takes for a certified radius.

    Parameters
    ----------
    radius : float
        The radius to reach.
    contamination : float, int or Contamination
        How many rows may be corrupt: a fraction, which no number of rows makes harmless, or a count.
    confidence : float
        Confidence (1 - δ).
    assume : assumption
        What is known of the clean rows; it must name a scale.
    degree : int
        Rows the kernel takes at a time.
    vote : {"median", "soft", "clipped", "auto"}
        How block values become one.
    alternative : {"two-sided", "less", "greater"}
        Two-sided, or a bound on one side.

    Returns
    -------
    int
        Rows at which the best number of blocks reaches the radius, to within half a percent of the fewest.

    Examples
    --------
    >>> import outvote as ov
    >>> n = ov.rows_needed(radius=0.1, contamination=5, confidence=0.95, assume=ov.FiniteVariance(1.0))
    >>> 8800 < n < 8900
    True
    """
    if not (isinstance(radius, numbers.Real) and 0 < radius < math.inf):
        raise ValueError(f"radius={radius!r} must be a positive number")
    check_choice("alternative", alternative, Alternative)
    check_choice("vote", vote, VoteName)
    (degree,) = _per_sample(degree, "degree", 1)
    if degree < 1:
        raise ValueError(f"degree={degree!r} must be at least 1")
    if not isinstance(assume, Assumption) or not has_scale(assume):
        raise TypeError(f"assume={assume!r} must name a scale: FiniteVariance(sd), Bounded(low, high), …")
    allowed, log_delta = Contamination.of(contamination), log_delta_of(confidence)
    if isinstance(allowed.amount, tuple):
        raise TypeError(f"contamination={contamination!r}: rows_needed is about one sample, give one amount")
    terms: Terms = {
        "log_delta": log_delta,
        "assume": assume,
        "degrees": (degree,),
        "adversary": allowed.adversary,
        "alternative": alternative,
    }

    def reached(n_rows: int) -> float:
        try:
            count = allowed.count(n_rows)
            chosen, ks = _search(vote, (n_rows,), (count,), "single", tuple(terms.items()))
        except ValueError:
            return math.inf
        return at_size(chosen, ks[0], count, (n_rows // ks[0],), terms).radius

    high = max(degree, 1)
    while reached(high) > radius:
        high *= 2
        if high > _MOST_ROWS:
            limit = min(reached(_MOST_ROWS), reached(_MOST_ROWS // 3))
            raise ValueError(
                f"radius={radius!r} is out of reach: with contamination={_plain(contamination)!r} the certified radius "
                f"stays above {limit:.3g} however many rows there are: lower it, or assume more"
            )
    low = high // 2
    while high - low > max(1, high // 400):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) <= radius else (middle, high)
    return high


def make_plan(
    rows: tuple[int, ...],
    counts: tuple[int, ...],
    degrees: tuple[int, ...],
    *,
    log_delta: float,
    contamination: object,
    adversary: Adversary = "oblivious",
    assume: Assumption | None = None,
    alternative: Alternative = "two-sided",
    vote: str = "median",
    method: Method = "certified",
    claim: int = 2,
    n_blocks: NBlocks = "auto",
    grid: Grid = "full",
    remainder: Remainder = "drop",
) -> Plan:
    """Make a plan from arguments already read: counts of corrupt rows, degrees, log δ."""
    check_kind("random", remainder)
    check_choice("vote", vote, VoteName)
    if grid not in ("full", "diagonal"):
        raise ValueError(f"grid={grid!r} is neither 'full' nor 'diagonal'")
    for s, (n, d) in enumerate(zip(rows, degrees, strict=True)):
        if n < d:
            which = "the sample has" if len(rows) == 1 else f"sample {s + 1} has"
            raise ValueError(f"a kernel of degree {d} needs at least {d} rows, but {which} {n}")
    layout: Layout = "single" if len(rows) == 1 else grid
    if layout == "full" and vote in ("soft", "clipped"):
        raise ValueError(f"vote={vote!r} needs independent blocks: use grid='diagonal', or vote='median'")
    request = _Request(rows, counts, degrees, layout, log_delta, contamination, assume, adversary, alternative, vote)
    if isinstance(n_blocks, str):
        if n_blocks != "auto":
            raise ValueError(f"n_blocks={n_blocks!r} must be 'auto' or a number of blocks")
        chosen = _choose(request, method, claim)
    else:
        ks = _given(n_blocks, rows, degrees, layout)
        chosen = _Choice(ks, "given", "The number of blocks was given.", _vote_for(request, ks))
    plans = tuple(
        BlockPlan(n, k, c, d, remainder, chosen.method, chosen.reason, vote=chosen.vote)
        for n, k, c, d in zip(rows, chosen.n_blocks, counts, degrees, strict=True)
    )
    return plans[0] if len(plans) == 1 else GridPlan(plans, grid)


def log_delta_of(confidence: float | None, delta: float | None = None) -> float:
    """Return log δ from a confidence 1 - δ or from δ itself."""
    if delta is not None:
        if not 0 < delta < 1:
            raise ValueError(f"delta={delta!r} must lie strictly between 0 and 1")
        return math.log(delta)
    if not isinstance(confidence, numbers.Real) or isinstance(confidence, bool) or not 0 < confidence < 1:
        raise ValueError(
            f"confidence={confidence!r} must lie strictly between 0 and 1, 0.95 for instance"
            + _if_percentage(confidence)
        )
    return math.log1p(-float(confidence))


@dataclass(frozen=True)
class _Request:
    """What a plan must satisfy."""

    rows: tuple[int, ...]
    counts: tuple[int, ...]
    degrees: tuple[int, ...]
    layout: Layout
    log_delta: float
    contamination: object
    assume: Assumption | None
    adversary: Adversary
    alternative: Alternative
    vote: str

    @property
    def terms(self) -> Terms:
        """What a certificate is asked, in terms of unit scale where none is known."""
        return {
            "log_delta": self.log_delta,
            "assume": self.assume or FiniteVariance(1.0),
            "degrees": self.degrees,
            "adversary": self.adversary,
            "alternative": self.alternative,
        }

    @property
    def most_blocks(self) -> tuple[int, ...]:
        """The most blocks that hold a tuple each."""
        most = tuple(n // d for n, d in zip(self.rows, self.degrees, strict=True))
        return (min(most),) * len(most) if self.layout == "diagonal" else most

    def refuse(self, wanted: Sequence[int], feasible: Callable[[tuple[int, ...]], bool]) -> ValueError:
        """Build the error for a contamination that no plan survives, naming the largest one that works."""
        low, high = -1, max(self.rows)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if feasible((middle,) * len(self.rows)) else (low, middle)
        per = max(self.degrees)
        kind = _DEGREE_WORDS.get(per, f"tuples of {per}")
        asked = " and ".join(f"{k} block{'s' * (k > 1)}" for k in wanted)
        there = " and ".join(map(str, self.rows))
        size = " and ".join(map(str, dict.fromkeys(self.degrees)))
        message = (
            f"contamination={_plain(self.contamination)!r} asks for {asked} of at least {size} "
            f"row{'s' * (per > 1)}, but there are {there} rows: "
        )
        if low < 0:
            return ValueError(message + f"no contamination works for {kind} here")
        each = " in each sample" if len(self.rows) > 1 else ""
        fraction = low * 10_000 // max(self.rows) / 10_000
        return ValueError(message + f"the largest contamination for {kind} here is {low} rows ({fraction}){each}")


@dataclass(frozen=True)
class _Choice:
    """Numbers of blocks, how and why they were chosen, and how they vote."""

    n_blocks: tuple[int, ...]
    method: str
    reason: str
    vote: str = "median"


def _choose(request: _Request, method: Method, claim: int) -> _Choice:
    if method == "certified":
        return _certified(request)
    if request.vote not in ("median", "auto"):
        raise ValueError(f"method={method!r} is about the median: with vote={request.vote!r} use 'certified'")
    if method == "standard":
        return _standard(request)
    from outvote import paper

    if isinstance(method, str) and method not in paper.MAPPINGS:
        names = ", ".join(map(repr, ("certified", *paper.MAPPINGS, "standard")))
        raise ValueError(f"method={method!r} is not one of {names}, nor a callable α(ε)")
    return _mapped(request, method, claim)


def _certified(request: _Request) -> _Choice:
    """Minimise the certified radius over the numbers of blocks, and over the votes if the vote is open."""
    most = tuple(_odd_below(k) for k in request.most_blocks)
    if not majority(most, request.counts, _vote_layout(request.layout)):
        raise request.refuse(
            _fewest_blocks(request), lambda counts: majority(most, counts, _vote_layout(request.layout))
        )
    vote, assume = request.vote, request.assume
    if not has_scale(assume):
        vote = "median" if vote == "auto" else vote
        assume = assume if vote == "median" else None
    terms = request.terms | {"assume": assume or FiniteVariance(1.0)}
    try:
        vote, ks = _search(vote, request.rows, request.counts, request.layout, tuple(terms.items()))
    except _NoCertificate:
        # This assumption bounds nothing here; the blocks that finite variance asks for still estimate well.
        terms |= {"assume": FiniteVariance(1.0)}
        vote, ks = _search(vote, request.rows, request.counts, request.layout, tuple(terms.items()))
    if vote != "median" and max(n // k for n, k in zip(request.rows, ks, strict=True)) == 1:
        reason = f"Every row has a {vote} vote: blocks would only cost precision."
    elif vote != "median":
        reason = f"These blocks give the {vote} vote its smallest certified radius, or one within 1 % of it."
    elif ks == most:
        reason = "This number of blocks has the smallest certified radius: the rows allow no more blocks."
    elif any(request.counts):
        reason = (
            "This number of blocks has the smallest certified radius: fewer would leave too few clean blocks over, "
            "more would make each less precise."
        )
    else:
        reason = (
            "This number of blocks has the smallest certified radius: fewer would not reach the confidence, "
            "more would make each block less precise."
        )
    return _Choice(ks, "certified", reason, vote)


class _NoCertificate(ValueError):
    """No number of blocks gives a finite radius under the assumption."""


@lru_cache(maxsize=256)
def _search(
    vote: str, rows: tuple[int, ...], counts: tuple[int, ...], layout: Layout, terms: tuple[tuple[str, Any], ...]
) -> tuple[str, tuple[int, ...]]:
    """Remember the best vote and numbers of blocks; `terms` are the items of a `Terms`, so that they can be a key."""
    try:
        return best_vote(vote, rows, counts, cast(Terms, dict(terms)), layout)
    except ValueError as error:
        raise _NoCertificate(str(error)) from None


def _vote_for(request: _Request, n_blocks: tuple[int, ...]) -> str:
    """Choose among the votes for given blocks, if the vote is open: the smallest certified radius."""
    if request.vote != "auto":
        return request.vote
    if request.layout == "full" or not has_scale(request.assume):
        return "median"
    sizes = [np.full(k, n // k) for n, k in zip(request.rows, n_blocks, strict=True)]
    votes = ("median", "soft", "clipped")
    return min(votes, key=lambda one: ballot(one, sizes, request.counts, request.terms).radius)


def _standard(request: _Request) -> _Choice:
    if any(request.counts):
        raise ValueError(
            f"method='standard' is for clean samples, but contamination={_plain(request.contamination)!r} allows "
            f"{' and '.join(map(str, request.counts))} corrupt rows: use 'certified' or 'harmonic'"
        )
    wanted = max(1, math.ceil(-request.log_delta))
    for most in request.most_blocks:
        if wanted > most:
            raise ValueError(
                f"confidence needs ⌈log(1/δ)⌉ = {wanted} blocks, but the rows allow {most}: the smallest failure "
                f"probability here is {math.exp(-most):.3g}"
            )
    return _Choice((wanted,) * len(request.rows), "standard", "Without corrupt rows ⌈log(1/δ)⌉ blocks are enough.")


def _mapped(request: _Request, method: Method, claim: int) -> _Choice:
    from outvote import paper

    if claim not in (1, 2):
        raise ValueError(f"claim={claim!r} is neither 1 nor 2")

    def blocks(counts: tuple[int, ...]) -> tuple[int, ...]:
        return paper.block_count(
            request.rows,
            counts,
            mapping=method,
            claim=claim,
            log_delta=request.log_delta,
            layout=request.layout,
        )

    def feasible(counts: tuple[int, ...]) -> bool:
        try:
            ks = blocks(counts)
        except ValueError:
            return False
        return all(k <= most for k, most in zip(ks, request.most_blocks, strict=True))

    ks = blocks(request.counts)
    if not feasible(request.counts):
        raise request.refuse(ks, feasible)
    name = method if isinstance(method, str) else getattr(method, "__name__", "callable")
    who = f"The {name} mapping" if isinstance(method, str) else f"The mapping {name}"
    formula = {
        "single": ("⌈β(ε)·log(1/δ)⌉", "⌈α(ε)·n⌉"),
        "diagonal": ("⌈β(ε)·log(1/δ)⌉", "⌈α(ε)·n⌉"),
        "full": (f"⌈β_s·log({len(request.rows)}/δ)⌉", "⌈α(ε)^(1/p)·n⌉"),
    }[request.layout][claim - 1]
    share = _joint_share(request)
    reason = f"{who} takes {formula} blocks"
    if share:
        reason += f", here α({float(share):.4g}) = {float(paper.alpha(method, share)):.4g}"
    return _Choice(ks, str(name), reason + ".")


def _given(
    n_blocks: int | Sequence[int], rows: tuple[int, ...], degrees: tuple[int, ...], layout: str
) -> tuple[int, ...]:
    ks = _per_sample(n_blocks, "n_blocks", len(rows))
    if layout == "diagonal" and len(set(ks)) > 1:
        raise ValueError(f"n_blocks={n_blocks!r}: on the diagonal all samples have the same number of blocks")
    for k, n, d in zip(ks, rows, degrees, strict=True):
        if k < 1:
            raise ValueError(f"n_blocks={k!r} must be at least 1")
        if k > n // d:
            raise ValueError(
                f"n_blocks={k} leaves fewer than {d} row{'s' * (d > 1)} for a block: with {n} rows the most is {n // d}"
            )
    return ks


def _per_sample(value: Any, name: str, n_samples: int) -> tuple[int, ...]:
    """Read one integer, or one for each sample."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    values = tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    if not values:
        raise ValueError(f"{name}={value!r} names no sample: give one integer for each")
    for item in values:
        if isinstance(item, bool) or not isinstance(item, numbers.Integral):
            raise TypeError(f"{name}={value!r} must be an integer, or a tuple with one for each sample")
    if len(values) == 1:
        values *= n_samples
    if name != "n_rows" and len(values) != n_samples:
        raise ValueError(f"{name}={value!r} has {len(values)} entries for {n_samples} samples")
    return tuple(int(item) for item in values)


def _fewest_blocks(request: _Request) -> tuple[int, ...]:
    """An odd number of blocks for each sample that leaves the clean votes in the majority: for p samples on the
    full grid, where a share 2^(-1/p) of each one's blocks must be clean, more than c/(1 - 2^(-1/p)).
    """
    if request.layout == "diagonal":
        return (2 * sum(request.counts) + 1,)
    share = 1 - 0.5 ** (1 / len(request.counts))
    return tuple(_odd_above(math.floor(c / share) + 1) for c in request.counts)


def _joint_share(request: _Request) -> Fraction:
    if request.layout == "diagonal":
        return Fraction(sum(request.counts), min(request.rows))
    return 1 - math.prod(
        (1 - Fraction(c, n) for c, n in zip(request.counts, request.rows, strict=True)), start=Fraction(1)
    )


def _vote_layout(layout: str) -> str:
    return "full" if layout == "single" else layout


def _odd_below(k: int) -> int:
    return k - 1 + k % 2 if k > 1 else 1


def _odd_above(k: float) -> int:
    whole = max(1, math.ceil(k))
    return whole + 1 - whole % 2


def _if_percentage(confidence: Any) -> str:
    looks_so = isinstance(confidence, numbers.Real) and 50 <= float(confidence) < 100
    return f": did you mean {float(confidence) / 100}?" if looks_so else ""


def _plain(contamination: object) -> object:
    return contamination.amount if isinstance(contamination, Contamination) else contamination
