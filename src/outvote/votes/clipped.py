"""The clipped vote, for light tails: every value pulls in proportion to its distance, up to a limit.

The estimate is the root θ of ``Σ_k clip(v_k - θ, ±τ) = 0``. For a clean vote V and X = V - θ, let v ≥ Var(X) and
``T(u) ≥ E(X - u)₊, E(-X - u)₊``. At distance r above the truth the pull is ``Y = clip(X - r, ±τ)``:

- ``clip(x) = x + (-x - τ)₊ - (x - τ)₊``, so ``-r - T(τ + r) <= E Y <= -r + T(τ - r)``;
- clipping brings values closer together, so ``Var(Y) <= v``;
- ``Y - E Y <= τ - E Y``, which is at most 2τ and at most τ + r + T(τ - r); b is the smaller of the two.

Bernstein's inequality is applied to N clean votes (in the form ``√(2NvL) + bL/3``). A corrupt vote adds at most τ, or
2τ if it replaces a vote of the adversary's choice. So the sum is negative at θ + r, and the root is below θ + r,
except with probability δ/2, if

``N·r >= k·n_bad·τ + √(2NvL) + b·L/3 + N·T(τ - r)``, ``L = log(2/δ)``,

with k = 1 and N = K - n_bad (oblivious) or k = 2 and N = K (adaptive). Clean votes may have different distributions.
For a fixed ``u = τ - r`` the condition is linear in r, so only u remains to be chosen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from outvote.assumptions.tails import Tail
from outvote.contamination import Adversary
from outvote.votes.median import Floats
from outvote.votes.soft import HUGE, LARGEST, Pull, balance, budget
from outvote.votes.terms import Alternative


class ClippedTuning(NamedTuple):
    """The certified radius of a clipped vote, and the limit τ on the pull of a value that gives this radius."""

    radius: float
    tau: float


def clipped_tuning(
    n_votes: int,
    n_bad: int,
    tail: Tail,
    *,
    log_delta: float,
    adversary: Adversary = "oblivious",
    alternative: Alternative = "two-sided",
) -> ClippedTuning:
    """Return the smallest certified radius of the clipped vote, and the τ that gives it.

    Parameters
    ----------
    n_votes, n_bad : int
        Number of votes (K), and how many may be corrupt.
    tail : Tail
        The tail of one clean vote. For unequal votes, a tail with an array of block sizes (each size
        once is enough): the heaviest tail is then used for all.
    log_delta : float
        Logarithm of the failure probability.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values.
    alternative : {"two-sided", "less", "greater"}
        A bound on one side needs log(1/δ), on both sides log(2/δ).

    Returns
    -------
    ClippedTuning
        The radius is infinite and τ is nan if no certificate exists.

    Examples
    --------
    >>> from outvote.assumptions.assumption import SubGaussian
    >>> tuning = clipped_tuning(10_000, 500, SubGaussian(1.0).tail(1), log_delta=math.log(0.01))
    >>> round(tuning.radius, 3), round(tuning.tau, 2)
    (0.171, 2.18)
    """
    n_clean, pulls, price = budget(n_votes, n_bad, log_delta, adversary, alternative)
    left = n_clean - pulls - 2 / 3 * price
    if left <= 0:
        return ClippedTuning(math.inf, math.nan)
    sd = float(np.max(tail.sd))
    noise = sd * math.sqrt(2 * n_clean * price)

    def radius(u: Floats) -> Floats:
        """Return the radius at τ = r + u, from N·r = k·n_bad·τ + noise + (τ + min(τ, r + T))·price/3 + N·T."""
        with np.errstate(over="ignore", invalid="ignore"):
            beyond = tail.excess(u[:, None]).reshape(len(u), -1).max(axis=1)
            pulled = pulls * u + price / 3 * (u + np.minimum(u, beyond))
            found = (pulled + noise + n_clean * beyond) / left
        return np.where(np.isnan(found), np.inf, found)

    with np.errstate(over="ignore"):
        steps = np.geomspace(0.01, max(10.0, 2 * math.sqrt(n_clean)), 80) * sd  # T' = -1/N at u = sd·√N/2
    steps = np.minimum(steps, HUGE)
    grid = np.concatenate([-steps[::-1], [0.0], steps])
    for _ in range(4):
        best = int(np.argmin(radius(grid)))
        u = float(grid[best])
        grid = np.linspace(grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)], 33)
    r = float(radius(np.array([u]))[0])
    return ClippedTuning(r * (1 + 1e-9), r + u)


def clipped_vote(values: ArrayLike, tau: float) -> float:
    """Return the root θ of ``Σ clip(v - θ, ±τ) = 0``, or the middle of the roots if there are several.

    Parameters
    ----------
    values : array of float, one dimension
        The votes. Corrupt votes may be infinite.
    tau : float
        Limit τ on the pull of a value, fixed before the values are seen.

    Returns
    -------
    float
        The root, to machine precision: infinite if half the votes are, nan if half are inf and half -inf.

    Examples
    --------
    >>> clipped_vote([1.0, 2.0, 3.0, 4.0, 5.0, math.inf], 1.5)
    3.5
    """
    if not 0 < tau <= LARGEST:
        raise ValueError(f"tau={tau!r} must be positive and finite: use the median instead of the clipped vote")
    votes = np.asarray(values, dtype=float)
    if tau > HUGE:
        return clipped_vote(votes * 2.0**-64, tau * 2.0**-64) * 2.0**64

    def pull(part: Floats, center: float) -> Pull:
        offset = (part - center) / tau
        active = np.count_nonzero(np.abs(offset) < 1.0)
        np.clip(offset, -1.0, 1.0, out=offset)
        return Pull(float(offset.sum()), float(active), float(np.abs(offset, out=offset).sum()))

    return balance(votes, tau, pull, bend=math.inf)
