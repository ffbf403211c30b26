"""Certify the median over the complete grid of blocks of several samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from outvote.assumptions.assumption import Assumption
from outvote.contamination import Adversary
from outvote.votes.binomial import DEEP, p_star
from outvote.votes.median import Floats, best_of_sides, inflate
from outvote.votes.terms import Alternative

#: Tails of binomials of more than so many are too coarse for Newton's method.
_MANY = 2.0**40


def grid_threshold(
    n_blocks: Sequence[ArrayLike], n_bad: Sequence[ArrayLike], adversary: Adversary = "oblivious"
) -> tuple[Floats, Floats]:
    """Return (N, f) for a complete grid of blocks: the median is off only if a fraction f of clean cells is off.

    ``N = min N_s`` and ``f = (⌈∏K/2⌉ - (∏K - ∏N_s)) / ∏N_s`` with ``N_s = K_s - n_bad_s``. For an adaptive
    adversary ``N = min K_s``, and the same numerator is divided by ``∏K``. There is no certificate if f <= 0.

    Examples
    --------
    >>> n_clean, fraction = grid_threshold((11, 21), (1, 2))
    >>> int(n_clean), round(float(fraction), 4)
    (10, 0.3947)
    """
    blocks = [np.asarray(k, dtype=float) for k in n_blocks]
    left = [np.maximum(k - np.asarray(b, dtype=float), 0.0) for k, b in zip(blocks, n_bad, strict=True)]
    cells, clean = math.prod(blocks), math.prod(left)
    pool = left if adversary == "oblivious" else blocks
    needed = np.ceil(cells / 2) - (cells - clean)
    n_clean = np.minimum.reduce(np.broadcast_arrays(*pool))
    whole = clean if adversary == "oblivious" else cells
    return np.asarray(n_clean), np.where(clean > 0, needed / np.maximum(whole, 1.0), 0.0)


def grid_p_star(log_delta: float, n_clean: ArrayLike, fraction: ArrayLike) -> Floats:
    """Return the largest cell probability p that keeps the failure probability of a complete grid below delta.

    The fraction W of clean cells that are off is a two-sample U-statistic, so by Hoeffding's averaging
    ``E φ(W) <= E φ(Bin(N, p)/N)`` for convex φ, and ``P(W >= f) <= E(Bin/N - c)₊ / (f - c)`` for any
    c < f. At the best c = i/N the mean of the binomial beyond i is f·N. This condition and Newton's method
    on log p, which converges from below, give i and p together.

    Examples
    --------
    >>> round(float(grid_p_star(np.log(0.05), 10, 0.3947)), 4)
    0.1392
    """
    n, f = (np.asarray(a, dtype=float) for a in np.broadcast_arrays(n_clean, fraction))
    possible = (f > 0) & (n >= 1)
    n, f = np.where(possible, n, 1.0), np.where(possible, f, 0.5)
    if log_delta < DEEP or n.max() > _MANY:
        return np.where(possible, _deep_grid_p_star(log_delta, n, f), 0.0)
    p = _newton_grid(_rough_p(log_delta, n, f), log_delta, n, f, steps=20)
    return np.where(possible, p * (1 - 1e-9), 0.0)


def _newton_grid(p: Floats, log_delta: float, n: Floats, f: Floats, steps: int) -> Floats:
    """Return the admissible p by Newton's method from a first estimate; the cut i is improved with it."""
    from scipy.special import betainc

    delta, needed = math.exp(log_delta), f * n
    highest = np.ceil(needed) - 1
    # Beyond a cut the binomial falls like powers of p(1-f)/(f(1-p)); so the best cut is this far below `needed`.
    decay = np.minimum(p * (1 - f) / (f * (1 - p)), 1 - 1e-9)
    i = np.clip(np.ceil(needed - 1 / (1 - decay)), 0.0, highest)
    for step in range(steps):
        above = np.where(i > 0, betainc(np.maximum(i, 1.0), n - i, p), 1.0)  # P(Bin(N-1, p) >= i)
        beyond = betainc(i + 1, n - i, p)  # P(Bin(N, p) >= i+1)
        excess = n * p * above - i * beyond  # E(Bin(N, p) - i)₊
        p_next = np.minimum(p * (delta * (needed - i) / excess) ** (excess / (n * p * above)), f)
        i_next = np.clip(_better_cut(i, needed, excess, beyond, n, p), 0.0, highest) if step < steps - 4 else i
        settled = np.array_equal(i, i_next) and bool(np.all(np.abs(p_next - p) <= 1e-13 * p))
        p, i = p_next, i_next
        if settled:
            break
    return p


def _better_cut(i: Floats, needed: Floats, excess: Floats, beyond: Floats, n: Floats, p: Floats) -> Floats:
    """Return a cut closer to the smallest i at which the mean of Bin(N, p) beyond i reaches `needed`."""
    from scipy.special import gammaln

    log_choose = gammaln(n + 1) - gammaln(i + 1) - gammaln(n - i + 1)
    at_i = np.exp(log_choose + i * np.log(p) + (n - i) * np.log1p(-p))
    surplus = i + excess / beyond - needed
    surplus_below = i - 1 + (excess + beyond + at_i) / (beyond + at_i) - needed
    with np.errstate(divide="ignore", over="ignore"):
        newton = i - surplus * beyond**2 / (at_i * excess)
    down = np.minimum(np.ceil(np.maximum(newton, i / 2)), i - 1)
    up = np.maximum(np.floor(np.minimum(newton, (i + needed) / 2)), i + 1)
    return np.where(surplus_below >= 0, down, np.where(surplus < 0, up, i))


def _deep_grid_p_star(log_delta: float, n: Floats, f: Floats) -> Floats:
    """Return an admissible p from closed bounds: Markov (p = δ·f) and the geometric tail, over several c.

    With r the ratio of `_log_deep_tail` at i + 1, ``E(Bin - i)₊ <= P(Bin >= i+1)/(1 - r)``,
    which is tight for such small δ.
    """
    best = np.asarray(np.exp(log_delta + np.log(f)))
    top = np.ceil(f * n)
    for gap in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384):
        if gap > 1 and (gap > top).all():
            break
        m = np.maximum(top - gap + 1, 1.0)
        room = np.log(f * n - (m - 1))
        first = p_star(np.minimum(log_delta + np.maximum(room, 0.0), 0.0), n, m)
        ratio = (n - m) * first / ((m + 1) * np.maximum(1 - first, 1e-16))
        with np.errstate(divide="ignore"):
            shrunk = log_delta + room + np.log1p(-np.minimum(ratio, 1 - 1e-16))
        best = np.maximum(best, np.where(ratio < 1, p_star(np.minimum(shrunk, 0.0), n, m), 0.0))
    return best


def _rough_p(log_delta: float, n: Floats, f: Floats) -> Floats:
    """Return an approximation of `grid_p_star`: solve N·KL(f, p) = 1 - log δ by Newton's method on log p."""
    f = np.minimum(f, 1 - 1e-12)
    wanted = (1 - log_delta) / n
    log_f, rest = np.log(f), 1 - f
    entropy, start = f * log_f + rest * np.log1p(-f) - wanted, wanted / f
    log_p = log_f - start - np.sqrt(2 * start * rest)
    for _ in range(5):
        p = np.exp(log_p)
        surplus = entropy - f * log_p - rest * np.log1p(-p)
        log_p = np.minimum(log_p + surplus * (1 - p) / (f - p), log_f - 1e-9)
    return np.exp(np.maximum(log_p, log_delta + log_f))  # Markov's inequality admits δ·f


def _searched_p(log_delta: float, n_clean: Floats, fraction: Floats) -> Floats:
    """Return `grid_p_star` within a fraction of a percent, fast: only few blocks get a few exact steps."""
    possible = (fraction > 0) & (n_clean >= 1)
    n, f = np.where(possible, n_clean, 1.0), np.where(possible, fraction, 0.5)
    p = _rough_p(log_delta, n, f)
    few = np.full(n.shape, log_delta >= DEEP) & ((n <= 1000) | (n * f <= 300))
    if few.any():
        p[few] = _newton_grid(p[few], log_delta, n[few], f[few], steps=6)
    return np.where(possible, p, 0.0)


def grid_radius(
    n_blocks: Sequence[ArrayLike],
    n_bad: Sequence[ArrayLike],
    block_size: tuple[ArrayLike, ...],
    *,
    log_delta: float,
    assume: Assumption,
    degrees: Sequence[int],
    adversary: Adversary = "oblivious",
    alternative: Alternative = "two-sided",
    rough: bool = False,
) -> Floats:
    """Return the certified radius of the median over a complete grid of blocks of any number of samples.

    It is the smaller of ``two(p(δ))`` and ``one(p(δ/2))`` with p from :func:`grid_p_star`. A `rough` radius is not
    certified; it serves a search among many grids and takes a twentieth of the time.

    Examples
    --------
    >>> from outvote.assumptions.assumption import Bounded
    >>> r = grid_radius((31, 31), (3, 3), (40, 40), log_delta=np.log(0.05), assume=Bounded(0, 1),
    ...                 degrees=(1, 1))
    >>> round(float(r), 3)
    0.142
    """
    n_clean, fraction = grid_threshold(n_blocks, n_bad, adversary)
    tail = assume.tail(block_size, degrees)
    admissible = _searched_p if rough else grid_p_star
    radius = best_of_sides(tail, lambda ld: admissible(ld, n_clean, fraction), log_delta, alternative)
    return inflate(radius, math.prod(np.asarray(k, dtype=float) for k in n_blocks) ** 0.5)
