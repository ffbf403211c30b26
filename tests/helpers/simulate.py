"""Clean laws, and outliers placed where they hurt most, on arrays of block values (runs x blocks).

Simulations are short; with OUTVOTE_THEORY=long in the environment they are twenty times as long.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable

import numpy as np

LONG = os.environ.get("OUTVOTE_THEORY") == "long"
Sampler = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def runs(count: int) -> int:
    """Number of simulations: twenty times `count` when OUTVOTE_THEORY=long."""
    return count * 20 if LONG else count


def generator(*label: object) -> np.random.Generator:
    """Generator that depends on the case only, so that each test can be run alone."""
    return np.random.default_rng(zlib.crc32(repr(label).encode()))


def _pareto(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    a = 2.5
    return (rng.pareto(a, shape) + 1 - a / (a - 1)) / np.sqrt(a / ((a - 1) ** 2 * (a - 2)))


def bernoulli(p: float) -> Sampler:
    """Bernoulli(p), centred and scaled."""
    return lambda rng, shape: ((rng.random(shape) < p) - p) / np.sqrt(p * (1 - p))


def two_point(u: float) -> Sampler:
    """Mean 0, sd 1, above √u with probability 1/(1+u): Cantelli's inequality is an equality."""
    high, low = np.sqrt(u) * (1 + 1e-9), -1 / np.sqrt(u)
    return lambda rng, shape: np.where(rng.random(shape) < 1 / (1 + u), high, low)


LAWS: dict[str, Sampler] = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "student-2.5": lambda rng, shape: rng.standard_t(2.5, shape) / np.sqrt(5.0),
    "pareto": _pareto,
    "minus-pareto": lambda rng, shape: -_pareto(rng, shape),
    "bernoulli": bernoulli(0.02),
    "two-point": two_point(6.0),
}
"""Mean 0 and sd 1, light and heavy, symmetric and not."""


def worst_medians(values: np.ndarray, n_bad: int, adversary: str) -> tuple[np.ndarray, np.ndarray]:
    """Medians when `n_bad` blocks go to -∞, and when they go to +∞.

    Oblivious: the last `n_bad` blocks, whatever they hold. Adaptive: the blocks that held the median
    back most, the highest before pushing down and the lowest before pushing up.
    """
    clean = values[:, : values.shape[1] - n_bad] if adversary == "oblivious" else values
    ordered = np.sort(clean, axis=1)
    kept = values.shape[1] - n_bad
    pad = np.full((len(values), n_bad), np.inf)
    low = np.median(np.hstack([-pad, ordered[:, :kept]]), axis=1)
    high = np.median(np.hstack([ordered[:, ordered.shape[1] - kept :], pad]), axis=1)
    return low, high


def worst_errors(
    values: np.ndarray, n_bad: int, adversary: str, truth: float = 0.0, alternative: str = "two-sided"
) -> np.ndarray:
    """Largest error the outliers can cause, once they have seen everything."""
    low, high = worst_medians(values, n_bad, adversary)
    if alternative == "less":
        return truth - low
    if alternative == "greater":
        return high - truth
    return np.maximum(truth - low, high - truth)


def miss_rate_allowed(delta: float, n_runs: int) -> float:
    """δ plus three standard errors."""
    return delta + 3 * np.sqrt(delta * (1 - delta) / n_runs)


def assert_covers(errors: np.ndarray, radius: float | np.ndarray, delta: float) -> None:
    """Check that errors exceed the radius no more often than `delta`, up to three standard errors."""
    assert np.all(np.isfinite(radius))
    rate = float(np.mean(errors > radius))
    assert rate <= miss_rate_allowed(delta, len(errors)), f"missed {rate:.4f} of the time, promised {delta}"


def assert_fails(errors: np.ndarray, radius: float | np.ndarray, delta: float) -> None:
    """Check that a wrong radius is caught."""
    assert float(np.mean(errors > radius)) > miss_rate_allowed(delta, len(errors))
