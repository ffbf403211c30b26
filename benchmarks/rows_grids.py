"""Two samples."""

from __future__ import annotations

from typing import Any

from scipy import stats

import outvote as ov
from outvote._numba import numpy_only

from .measure import Job, Row, normal, power


def mann_whitney(n: int, n_blocks: int, grid: Any = "full", partition: Any = "contiguous") -> Job:
    """The public call, on contiguous blocks unless told otherwise."""
    return lambda: ov.u_statistic(
        normal(n),
        normal(n, seed=1),
        kernel="mann-whitney",
        n_blocks=n_blocks,
        contamination=10,
        grid=grid,
        partition=partition,
        rng=0,
    )


def numpy_alone(job: Job) -> Job:
    """The same job without the compiled forms."""

    def run() -> Any:
        with numpy_only():
            return job()

    return run


def rows(quick: bool) -> list[Row]:
    """Every two blocks, or the k-th with the k-th, against one rank test of the whole samples."""
    n, blocks = 100_000, 315
    long, long_blocks = (200_000, 447) if quick else (1_000_000, 1001)

    def once(size: int) -> Job:
        return lambda: stats.mannwhitneyu(normal(size), normal(size, seed=1), method="asymptotic")

    peer, job = "scipy mannwhitneyu", f"mann-whitney, 2 × {power(n)}"
    return [
        Row(f"{job}, {blocks} × {blocks} grid", peer, 0.4, mann_whitney(n, blocks), once(n)),
        Row(f"mann-whitney, 2 × {power(long)}, {long_blocks} × {long_blocks} grid", peer, 0.8,
            mann_whitney(long, long_blocks), once(long)),
        Row(f"{job}, {blocks} × {blocks} grid, without numba", peer, 8.0,
            numpy_alone(mann_whitney(n, blocks)), once(n)),
        Row(f"{job}, {blocks} × {blocks} grid, shuffled", peer, None,
            mann_whitney(n, blocks, "full", "random"), once(n)),
        Row(f"{job}, diagonal of {blocks}", peer, 0.2, mann_whitney(n, blocks, "diagonal"), once(n)),
        Row(f"{job}, diagonal of {blocks}, shuffled", peer, None,
            mann_whitney(n, blocks, "diagonal", "random"), once(n)),
    ]  # fmt: skip
