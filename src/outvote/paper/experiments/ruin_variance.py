"""Figure break_var: √n outliers at n^(1/4) ruin the variance of uniform rows, but not the median of block variances."""

from __future__ import annotations

from typing import Any

import numpy as np

from outvote.data.text import spaced
from outvote.estimate.u_statistic import u_statistic
from outvote.paper.experiments import estimation
from outvote.paper.experiments.base import Experiment, Finding, Tables, column
from outvote.paper.experiments.checking import checked, rows_of

LINES = (("MoU", "corrupted"), ("variance", "corrupted"), ("MoU", "clean"), ("variance", "clean"))
TRUTH = 1 / 12


def measure(rng: np.random.Generator, *, n: int, runs: int) -> list[dict[str, Any]]:
    """Estimate the variance of `runs` columns of n rows, clean and corrupted."""
    clean = rng.uniform(size=(n, runs))
    count = estimation.n_outliers(n)
    blocks, found = estimation.harmonic(n), {}
    for data, rows in (("clean", clean), ("corrupted", estimation.corrupt(rng, clean, n**0.25, count))):
        result = u_statistic(rows, kernel="variance", axis=0, contamination=count, n_blocks=blocks, rng=rng)
        found["MoU", data] = result.estimate
        found["variance", data] = rows.var(axis=0, ddof=1)
    return rows_of("ruin-variance", estimation.errors(n, TRUTH, found))


def draw(tables: Tables) -> Any:
    """Draw errors against n."""
    title = "Ruining the variance: U[0, 1], √n rows replaced by $n^{1/4}$"
    return estimation.draw_errors(tables["ruin-variance"], LINES, title).figure


def judge(tables: Tables) -> list[Finding]:
    """Check the variance, and the error of MoU with and without outliers."""
    table = tables["ruin-variance"]
    least = int(column(table, "n").min())
    first, last = (f"at n = {spaced(n)}" for n in (least, estimation.largest_n(table)))

    def at(name: str, data: str = "corrupted", n: int | None = None) -> float:
        return estimation.error_at(table, name, data, n)

    slope, error = estimation.slope(table, estimator="MoU", data="corrupted")
    bare, bare_error = estimation.slope(table, estimator="MoU", data="clean")
    ratio = at("MoU") / at("MoU", "clean")
    return [
        checked(
            "the empirical variance is of the order of 1 at every n, but the truth is 1/12",
            min(at("variance", n=least), at("variance")) > 0.5,
            f"its error is {at('variance', n=least):.2f} {first} and {at('variance'):.2f} {last}",
        ),
        checked(
            "MoU improves with n",
            slope < -0.15,
            f"error {at('MoU', n=least):.3f} {first}, {at('MoU'):.4f} {last}, slope {slope:.2f} ± {error:.2f}",
        ),
        checked(
            "MoU behaves almost as if the rows were not contaminated",
            ratio < 1.5,
            f"its error is {ratio:.1f} times that on clean rows {last}, and falls with slope {slope:.2f} ± "
            f"{error:.2f}, on clean rows with slope {bare:.2f} ± {bare_error:.2f}",
            "the blocks with outliers all lie above, and shift the median of the others by a share of their spread",
        ),
    ]


EXPERIMENT = Experiment(
    name="ruin-variance",
    title="Ruining the variance",
    where="Figure break_var",
    runs=500,
    quick_runs=50,
    pieces=estimation.pieces,
    measure=measure,
    tabulate=estimation.tabulate,
    draw=draw,
    judge=judge,
)
