"""Cost of each estimator as a ratio to its plain counterpart, both measured in turns in one run.

Absolute times say little on a shared machine; the ratio of the best of several interleaved runs does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy import stats

import outvote as ov
from outvote import closed_forms


@dataclass
class Row:
    """One comparison: a job, what it is measured against, and the ratio to reach."""

    job: str
    peer: str
    target: float
    ours: Callable[[], Any]
    theirs: Callable[[], Any]


def rows() -> list[Row]:
    """List the comparisons."""
    rng = np.random.default_rng(0)
    long, short = rng.normal(size=20_000_000), rng.normal(size=10_000)
    table = rng.normal(size=(100_000, 100))
    z, pairs = rng.normal(size=100_000), rng.normal(size=(100_000, 2))
    x, y = rng.normal(size=20_000), rng.normal(size=20_000)

    def contiguous(kernel: str, sample: Any, size: int) -> Callable[[], Any]:
        stack = sample.reshape(-1, size, *sample.shape[1:])
        return lambda: getattr(closed_forms, kernel)(stack)

    return [
        Row("mean, 2e7 rows, 1001 blocks", "np.mean", 1.15,
            lambda: ov.mean(long, n_blocks=1001), lambda: np.mean(long)),
        Row("mean, 2e7 rows, uniform partition", "np.mean", 5.0,
            lambda: ov.mean(long, n_blocks=1001, partition="uniform"), lambda: np.mean(long)),
        Row("soft vote, 2e7 rows, contamination 1e-4", "np.mean", 6.0,
            lambda: ov.mean(long, 1e-4, assume=ov.FiniteVariance(1.0), vote="soft"), lambda: np.mean(long)),
        Row("mean, 1e4 rows", "np.mean", 5.0, lambda: ov.mean(short, rng=0), lambda: np.mean(short)),
        Row("mean, 1e5 × 100, axis 0", "mean(axis=0)", 1.1,
            lambda: ov.mean(table, n_blocks=401), lambda: table.mean(0)),
        Row("variance, blocks of 25", "np.var", 2.5, contiguous("variance", z, 25), lambda: np.var(z)),
        Row("gini, blocks of 25", "np.sort", 1.2, contiguous("gini", z, 25), lambda: np.sort(z)),
        Row("kendall, blocks of 25", "scipy kendalltau", 0.5, contiguous("kendall", pairs, 25),
            lambda: stats.kendalltau(pairs[:, 0], pairs[:, 1])),
        Row("wilcoxon, blocks of 25", "scipy wilcoxon", 0.2, contiguous("wilcoxon", z, 25), lambda: stats.wilcoxon(z)),
        Row("mann-whitney, full grid, n = m = 2e4, K = 141", "scipy mannwhitneyu", 0.4,
            lambda: ov.u_statistic(x, y, kernel="mann-whitney", n_blocks=141, rng=0),
            lambda: stats.mannwhitneyu(x, y, method="asymptotic")),
        Row("mann-whitney, diagonal", "scipy mannwhitneyu", 0.2,
            lambda: ov.u_statistic(x, y, kernel="mann-whitney", n_blocks=141, grid="diagonal", rng=0),
            lambda: stats.mannwhitneyu(x, y, method="asymptotic")),
    ]  # fmt: skip


def measure(row: Row, repeats: int = 7) -> tuple[float, float]:
    """Best times of both sides, measured in turns."""
    best = [float("inf"), float("inf")]
    for _ in range(repeats):
        for side, job in enumerate((row.ours, row.theirs)):
            start = time.perf_counter()
            job()
            best[side] = min(best[side], time.perf_counter() - start)
    return best[0], best[1]


def main() -> None:
    """Print the table."""
    table = Table(title="outvote against its plain counterparts (ratio of best times, measured in turns)")
    for heading in ("job", "against", "ours", "theirs", "ratio", "target", ""):
        table.add_column(heading, justify="left" if heading in ("job", "against") else "right")
    for row in rows():
        ours, theirs = measure(row)
        ratio = ours / theirs
        met = "met" if ratio <= row.target else "not met"
        table.add_row(
            row.job, row.peer, f"{1e3 * ours:.3g} ms", f"{1e3 * theirs:.3g} ms", f"{ratio:.2f}", f"≤ {row.target}", met
        )
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
