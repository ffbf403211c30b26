"""Binomial tails, and the block probability p that keeps such a tail below δ.

``F(p) = P(Bin(N, p) >= m)`` is the distribution function of Beta(m, N-m+1), and its inverse is in scipy.special, whose
import takes three times as long as numpy's. So this module adds up the terms of a few tails itself. Which way is taken
depends on the question alone, and not on what was asked or loaded before: the last digits differ.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

DEEP = -200.0  # below this log(delta) scipy's Beta inversion is no longer reliable
#: Up to so many terms are added up, and logarithms of so many factorials found one by one.
_MOST_TERMS, _MOST_FACTORIALS = 2**12, 2**10
#: Newton's method doubles the correct digits in every step; it starts with about one.
_STEPS = 30


def log_binomial_tail(p: ArrayLike, n_clean: ArrayLike, n_needed: ArrayLike) -> Floats:
    """Return the logarithm of ``F(p) = P(Bin(N, p) >= m)``; below 1e-280 it is an upper bound, within 1 %.

    Examples
    --------
    >>> round(float(np.exp(log_binomial_tail(0.5, 3, 2))), 12)
    0.5
    """
    p, n, m = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (p, n_clean, n_needed)))
    special = _special(n, m) if np.all(p * n < m) else _loaded()
    if special is None:
        return np.asarray(log_first_term(p, n, m) + np.log1p(_beyond(p, _ratios(n, m))))
    tail = special.betainc(m, n - m + 1, p)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(tail)
        if np.any(tail < 1e-280):
            value = np.where(tail < 1e-280, _log_deep_tail(np.log(p), n, m), value)
    return np.asarray(value)


def log_first_term(p: Floats, n: Floats, m: Floats) -> Floats:
    """Return the logarithm of ``P(Bin(N, p) = m)``; m times this probability is p·F'(p)."""
    with np.errstate(divide="ignore"):
        return np.asarray(log_choose(n, m) + m * np.log(p) + (n - m) * np.log1p(-p))


def log_choose(n: Floats, m: Floats) -> Floats:
    """Return the logarithm of the number of ways to choose m of N."""
    few = max(n.size, m.size) <= _MOST_FACTORIALS
    log_gamma: Any = np.vectorize(_log_gamma, otypes=[float]) if few else _loaded().gammaln
    return np.asarray(log_gamma(n + 1) - log_gamma(m + 1) - log_gamma(n - m + 1))


def _log_gamma(x: float) -> float:
    return math.lgamma(x) if x > 0 else math.inf


def p_star(log_delta: ArrayLike, n_clean: ArrayLike, n_needed: ArrayLike) -> Floats:
    """Return the largest p with ``P(Bin(N, p) >= m) <= delta``, the Beta(m, N-m+1) quantile; 0 where m <= 0.

    Parameters
    ----------
    log_delta : float or array
        Logarithm of the failure probability, at most 0.
    n_clean, n_needed : int or array of int
        N and m, from :func:`threshold`.

    Examples
    --------
    >>> round(float(p_star(np.log(0.05), 31, 11)), 4)
    0.2134
    """
    log_d, n, m = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (log_delta, n_clean, n_needed)))
    possible = m >= 1
    n, m = np.where(possible, n, 1.0), np.where(possible, m, 1.0)
    deep = log_d < DEEP
    # F is at least 1/4 at p = m/(N+1); for smaller p the terms of the sum decrease.
    special = _special(n, m) if not deep.any() and np.all(log_d < math.log(0.25)) else _loaded()
    if special is None:
        p = _summed_p_star(log_d, n, m)
    else:
        p = np.asarray(special.betaincinv(m, n - m + 1, np.exp(np.maximum(log_d, DEEP))))
    if deep.any():
        p = np.where(deep, _deep_p_star(log_d, n, m), p)
    return np.where(possible, p, 0.0)


def _loaded() -> Any:
    return importlib.import_module("scipy.special")


def _special(n: Floats, m: Floats) -> Any:
    """Return scipy.special, or None if few terms need to be added up."""
    return None if n.size * _n_beyond(n, m) < _MOST_TERMS else _loaded()


def _n_beyond(n: Floats, m: Floats) -> int:
    """Return how many terms matter beyond the first: the t-th is at most exp(-2t²/N) times the first if p < m/N."""
    return int(min((n - m).max(initial=0.0), 5 * math.sqrt(n.max(initial=1.0)) + 5))


def _ratios(n: Floats, m: Floats) -> Floats:
    """Return the later terms divided by those before them, and by p/(1 - p)."""
    j = np.arange(_n_beyond(n, m), dtype=float).reshape(-1, *([1] * n.ndim))
    return np.asarray(np.maximum(n - m - j, 0.0) / (m + j + 1))


def _beyond(p: Floats, ratios: Floats) -> Floats:
    """Return the sum of the later terms divided by P(Bin(N, p) = m), for p < m/N."""
    return np.asarray(np.cumprod(ratios * (p / (1 - p)), axis=0).sum(axis=0))


def _summed_p_star(log_delta: Floats, n: Floats, m: Floats) -> Floats:
    """Invert the sum by Newton's method on log F, a concave function of log p: all steps but one go up."""
    log_p, ways, ratios = np.log(m / (n + 1)), log_choose(n, m), _ratios(n, m)
    for _ in range(_STEPS):
        p = np.exp(log_p)
        beyond = _beyond(p, ratios)
        log_first = ways + m * log_p + (n - m) * np.log1p(-p)
        step = (log_delta - log_first - np.log1p(beyond)) * (1 + beyond) / m
        log_p = log_p + step
        if np.all(np.abs(step) < 1e-14 * (1 + np.abs(log_p))):
            break
    return np.asarray(np.exp(log_p))


def _log_deep_tail(log_p: Floats, n: Floats, m: Floats) -> Floats:
    """Bound log F(p) for p < m/N by the first term of the tail and a geometric series.

    The terms of ``F(p) = Σ_{j>=m} C(N,j) p^j (1-p)^{N-j}`` decrease at least as fast as powers of
    ``r = (N-m)p / ((m+1)(1-p))``.
    """
    p = np.exp(log_p)
    ratio = (n - m) * p / ((m + 1) * (1 - p))
    rounding = 1e-15 * _loaded().gammaln(n + 2)
    return np.asarray(
        log_choose(n, m) + m * log_p + (n - m) * np.log1p(-p) - np.log1p(-np.minimum(ratio, 1 - 1e-16)) + rounding
    )


def _deep_p_star(log_delta: Floats, n: Floats, m: Floats) -> Floats:
    """Invert the bound of `_log_deep_tail` by bisection on log p, from below; this is valid for any log δ."""
    high = np.log(m / (n + 1))
    low = np.minimum((log_delta - log_choose(n, m)) / m, high) - 1.0
    for _ in range(80):
        middle = (low + high) / 2
        small_enough = _log_deep_tail(middle, n, m) <= log_delta
        low, high = np.where(small_enough, middle, low), np.where(small_enough, high, middle)
    return np.nextafter(np.exp(low), 0.0)  # exp may have rounded a denormal number up
