"""Compute a radius that holds for all models of a class at once."""

from __future__ import annotations

import math

from outvote import votes
from outvote.contamination import Adversary
from outvote.data.arguments import check_choice, log_failure, real, whole


def log_growth(vc_dim: int, n_points: float) -> float:
    """Return the logarithm of Sauer's bound Σ_{i≤V} C(m, i) on the patterns of a class of VC dimension V on m points.

    Examples
    --------
    >>> round(math.exp(log_growth(2, 5)))  # 1 + 5 + 10
    16
    """
    terms = [
        math.lgamma(n_points + 1) - math.lgamma(i + 1) - math.lgamma(n_points - i + 1)
        for i in range(min(vc_dim, math.floor(n_points)) + 1)
    ]
    largest = max(terms)
    return largest + math.log(math.fsum(math.exp(term - largest) for term in terms))


def uniform_radius(
    *,
    n_blocks: int,
    n_corrupt: int,
    block_size: int,
    vc_dim: int,
    bound: float = 1.0,
    degree: int = 2,
    confidence: float | None = None,
    delta: float | None = None,
    adversary: Adversary = "oblivious",
) -> float:
    """Return a radius of the median of block risks that holds for every model of a VC class at once.

    The loss lies in [0, M] and depends on the model only through its decisions g ∈ {-1, 1}, on rows (degree 1) or
    on pairs (degree 2). The radius is the smaller of two bounds, with h = ⌊B/d⌋ disjoint tuples in a block:

    (a) ``M√(2·log(2Π_h)/h) + M·d·√(log(1/p*)/(2B))``, a bound on the largest deviation over the class on one block, by
    symmetrisation and bounded differences; fewer than m blocks exceed it;

    (b) the smallest t with ``2·exp(-h·t²/(2M²)) + (4M/t)√(2·logΠ_{Nh}/(Nh)) + √(L/(2N)) ≤ m/N``, where the left side
    bounds the largest share, over the class, of blocks that are off by more than t.

    An exact minimiser of the median of block risks then has an excess risk of at most twice the radius.

    Parameters
    ----------
    n_blocks, n_corrupt, block_size : int
        Number of blocks, rows that may be corrupt, and rows in a block.
    vc_dim : int
        VC dimension (V) of the decisions.
    bound : float
        The largest loss (M).
    degree : int
        1 for losses of rows, 2 for losses of pairs.
    confidence, delta : float
        Give exactly one: the confidence, or the failure probability.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean rows.

    Examples
    --------
    >>> r = uniform_radius(n_blocks=41, n_corrupt=5, block_size=24_000, vc_dim=10, confidence=0.95)
    >>> 0.1 < r < 0.2
    True
    """
    check_choice("adversary", adversary, Adversary)
    log_delta = log_failure(confidence, delta)
    n_blocks, n_corrupt = whole("n_blocks", n_blocks, 1), whole("n_corrupt", n_corrupt)
    vc_dim, degree = whole("vc_dim", vc_dim, 1), whole("degree", degree, 1)
    block_size, bound = whole("block_size", block_size, degree), real("bound", bound)
    if not 0 < bound < math.inf:
        raise ValueError(f"bound={bound!r} must be a positive number")
    n_clean, n_needed = (float(a) for a in votes.threshold(n_blocks, n_corrupt, adversary))
    if n_needed < 1:
        return math.inf
    tuples = block_size // degree
    p = float(votes.p_star(log_delta, n_clean, n_needed))
    by_block = math.sqrt(2 * (math.log(2) + log_growth(vc_dim, tuples)) / tuples)
    by_block += degree * math.sqrt(-math.log(p) / (2 * block_size))
    complexity = 4 * math.sqrt(2 * log_growth(vc_dim, n_clean * tuples) / (n_clean * tuples))
    room = n_needed / n_clean - math.sqrt(-log_delta / (2 * n_clean))

    def holds(t: float) -> bool:
        return 2 * math.exp(-tuples * t * t / 2) + complexity / t <= room

    by_share = math.inf
    if room > 0:
        low, high = 0.0, complexity / room
        while not holds(high):
            low, high = high, 2 * high
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        by_share = high
    return bound * min(by_block, by_share) * (1 + 1e-9)
