"""Pairs within one sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

import outvote as ov

from .measure import Job, Row, later, normal, power
from .own_kernel import compiled_distance, distance

#: Rows; quick runs differ only in how often they are repeated.
N = 100_000


def whole(name: str, size: int, partition: Any = "contiguous", columns: int = 1) -> Job:
    """The public call, on contiguous blocks of `size` rows unless told otherwise."""
    shape = (N,) if columns == 1 else (N, columns)
    return lambda: ov.u_statistic(
        normal(*shape), kernel=name, n_blocks=N // size, contamination=10, partition=partition, rng=0
    )


def alone(name: str, size: int) -> Job:
    """The kernel alone: no plan, no certificate, no checks."""
    return lambda: ov.kernels.KERNELS[name].aligned(normal(N).reshape(-1, size))


def mine(function: Callable[..., Any], size: int) -> Job:
    """A user's kernel on contiguous blocks."""
    own = ov.Kernel(function, degrees=2)
    return lambda: ov.u_statistic(
        normal(N), kernel=own, n_blocks=N // size, contamination=10, partition="contiguous", rng=0
    )


def permutation() -> Job:
    """What dealing the rows of pairs takes."""
    from outvote.blocks.partition import draw

    return lambda: draw("random", N, N // 25, seed=0)


def rows(quick: bool) -> list[Row]:
    """Named kernels against what computes the same on the whole sample; a user's kernel by the pair."""
    found: list[Row] = []
    rng = np.random.default_rng(0)

    def wilcoxon() -> Any:
        return stats.wilcoxon(normal(N))

    def kendall() -> Any:
        return stats.kendalltau(*normal(N, 2).T)

    for size in (25, 1000):
        blocks = f"of {power(N)}, blocks of {size}"
        found += [
            Row(f"variance {blocks}, the kernel", "np.var", 2.5, alone("variance", size), lambda: np.var(normal(N))),
            Row(f"variance {blocks}", "np.var", None, whole("variance", size), lambda: np.var(normal(N))),
            Row(f"gini {blocks}, the kernel", "np.sort", 1.2, alone("gini", size), lambda: np.sort(normal(N))),
            Row(f"gini {blocks}", "np.sort", None, whole("gini", size), lambda: np.sort(normal(N))),
            Row(f"kendall {blocks}", "scipy kendalltau", 0.5, whole("kendall", size, columns=2), kendall),
            Row(f"wilcoxon {blocks}", "scipy wilcoxon", 0.2, whole("wilcoxon", size), wilcoxon),
        ]
    pairs = N // 1000 * (1000 * 999 // 2)
    return [
        *found,
        Row(f"dealing {power(N)} rows for pairs", "rng.permutation", None,
            later(permutation), lambda: rng.permutation(N)),
        Row(f"variance of {power(N)}, blocks of 25, shuffled", "np.var", None,
            whole("variance", 25, "random"), lambda: np.var(normal(N))),
        Row("variance of 1000 × 500, axis 0, blocks of 25", "one call a column", None,
            lambda: ov.u_statistic(normal(1000, 500), kernel="variance", n_blocks=40, axis=0),
            lambda: [ov.u_statistic(column, kernel="variance", n_blocks=40) for column in normal(1000, 500).T]),
        Row("your own kernel, numba, blocks of 1000", "", 0.5,
            later(lambda: mine(compiled_distance(), 1000)), pairs=pairs),
        Row("your own kernel, numpy, blocks of 1000", "", 9.0, mine(distance, 1000), pairs=pairs),
    ]  # fmt: skip
