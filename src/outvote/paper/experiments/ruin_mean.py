"""Figure break_mean: √n outliers at √n ruin the mean of normal rows, but not their median of means."""

from __future__ import annotations

from typing import Any

import numpy as np

from outvote.data.text import spaced
from outvote.estimate.mean import mean
from outvote.paper.experiments import estimation
from outvote.paper.experiments.base import Experiment, Finding, Tables, column
from outvote.paper.experiments.checking import checked, rows_of

LINES = (
    ("MoM", "corrupted"),
    ("mean", "corrupted"),
    ("median", "corrupted"),
    ("trimmed mean", "corrupted"),
    ("MoM", "clean"),
    ("mean", "clean"),
)


def measure(rng: np.random.Generator, *, n: int, runs: int) -> list[dict[str, Any]]:
    """Estimate the mean of `runs` columns of n rows, clean and corrupted."""
    clean = rng.normal(size=(n, runs))
    count = estimation.n_outliers(n)
    blocks, found = estimation.harmonic(n), {}
    for data, rows in (("clean", clean), ("corrupted", estimation.corrupt(rng, clean, n**0.5, count))):
        found["MoM", data] = mean(rows, contamination=count, vote="median", n_blocks=blocks, rng=rng).estimate
        found["mean", data] = rows.mean(axis=0)
        found["median", data] = np.median(rows, axis=0)
        found["trimmed mean", data] = estimation.trimmed_mean(rows, count)
    return rows_of("ruin-mean", estimation.errors(n, 0.0, found))


def draw(tables: Tables) -> Any:
    """Draw errors against n."""
    title = "Ruining the mean: N(0, 1), √n rows replaced by √n"
    return estimation.draw_errors(tables["ruin-mean"], LINES, title).figure


def judge(tables: Tables) -> list[Finding]:
    """Check the mean, the slope and the loss of MoM, and other estimators."""
    table = tables["ruin-mean"]

    def at(name: str, data: str = "corrupted") -> float:
        return estimation.error_at(table, name, data)

    where = f"at n = {spaced(estimation.largest_n(table))}"
    slope, error = estimation.slope(table, estimator="MoM", data="corrupted")
    misses, noise = (
        column(table, name, estimator="mean", data="corrupted").astype(float)
        for name in ("mean absolute error", "standard error")
    )
    ratio = at("MoM") / at("MoM", "clean")
    better = [name for name in ("median", "trimmed mean") if at(name) < at("MoM")]
    others = ", ".join(f"{name} {at(name):.3g}" for name in ("median", "trimmed mean"))
    return [
        checked(
            "the empirical mean misses by 1 at every n",
            (np.abs(misses - 1) < 0.05 + 3 * np.nan_to_num(noise)).all(),
            f"{misses.min():.3f} to {misses.max():.3f}, {at('mean'):.3f} {where}",
        ),
        checked(
            "MoM improves with n",
            slope < -0.15,
            f"error {at('MoM'):.3f} {where}, slope {slope:.3f} ± {error:.3f} (predicted -1/4)",
        ),
        checked(
            "MoM shows almost no perturbation due to the outliers",
            ratio < 1.5,
            f"its error is {ratio:.1f} times that on clean rows {where}",
            "about √n of its blocks have an outlier, all on one side, which shifts the median by much more than noise",
        ),
        Finding(
            "MoM is superior to standard alternatives",
            "holds in part" if better else "holds",
            f"{where}: MoM {at('MoM'):.3g}, mean {at('mean'):.3g}, {others}",
            f"it beats the mean; {' and '.join(better)} beat{'s' * (len(better) == 1)} it on symmetric rows"
            if better
            else "",
        ),
        checked(
            "the threshold of a trimmed mean is hard to set from the share of outliers alone",
            at("trimmed mean") >= at("MoM"),
            f"if that share is cut off at each end, the error is {at('trimmed mean'):.3g} {where}; MoM {at('MoM'):.3g}",
            "the share itself is a threshold that works",
        ),
    ]


EXPERIMENT = Experiment(
    name="ruin-mean",
    title="Ruining the mean",
    where="Figure break_mean",
    runs=500,
    quick_runs=50,
    pieces=estimation.pieces,
    measure=measure,
    tabulate=estimation.tabulate,
    draw=draw,
    judge=judge,
)
