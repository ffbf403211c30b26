"""Corrupt a data set, and see which estimates stay near the truth."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions.assumption import FiniteVariance
from outvote.contamination import Contamination, Corrupted
from outvote.data.packages import install_command
from outvote.estimate.mean import mean
from outvote.estimate.result import RobustEstimate
from outvote.plotting import COLORS, legend_below, save

#: Share of the rows that are corrupted, and the contamination that outvote allows for.
SHARE = 0.02
#: The bound on the standard deviation of the clean rows (352) that outvote assumes.
SD = 400.0


class Answer(NamedTuple):
    """An estimate from the clean rows and from the corrupted rows."""

    name: str
    clean: float
    corrupted: float
    radius: str


def corrupt(seed: int = 0) -> tuple[NDArray[np.float64], Corrupted]:
    """Return the areas of 569 tumours (mm²), clean and with 2 % of them written 100 times too large."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    area = bunch.data[:, list(bunch.feature_names).index("mean area")]
    return area, Contamination(SHARE).inject(area, lambda rng, rows: 100 * rows, rng=seed)


def answers(clean: NDArray[np.float64], corrupted: NDArray[np.float64]) -> tuple[list[Answer], RobustEstimate]:
    """Estimate the mean of the clean rows in four ways, from the clean rows and from the corrupted rows."""
    from scipy.stats import trim_mean

    def outvote(x: NDArray[np.float64]) -> RobustEstimate:
        return mean(x, contamination=SHARE, assume=FiniteVariance(SD), vote="auto", rng=0)

    robust = outvote(corrupted)
    radius = f"± {robust.radius:.0f} ({robust.certificate.provenance})"
    plain: list[tuple[str, Any]] = [
        ("mean", np.mean),
        ("median", np.median),
        ("10 % trimmed mean", lambda x: trim_mean(x, 0.1)),
    ]
    rows = [Answer(name, float(f(clean)), float(f(corrupted)), "") for name, f in plain]
    rows.append(Answer("outvote.mean", float(outvote(clean).estimate), float(robust.estimate), radius))
    return rows, robust


def show(rows: list[Answer], truth: float, n_rows: int, n_corrupt: int) -> None:
    """Print the table."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Mean area of {n_rows} tumours, mm²: {n_corrupt} rows written 100 times too large")
    for heading in ("estimator", "clean rows", "corrupt rows", "error", "can be off by"):
        table.add_column(heading, justify="left" if heading == "estimator" else "right")
    table.add_row("[bold]the truth", "", f"[bold]{truth:.1f}", "", "", end_section=True)
    for row in rows:
        error = 100 * (row.corrupted / truth - 1)
        table.add_row(row.name, f"{row.clean:.1f}", f"{row.corrupted:.1f}", f"{error:+.1f} %", row.radius or "–")
    Console().print(table)


def draw(clean: NDArray[np.float64], corrupted: Corrupted, rows: list[Answer], robust: RobustEstimate) -> Any:
    """Draw the corrupted rows with the four estimates, and the votes of the blocks."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 5.2), layout="constrained")
    bins = np.geomspace(clean.min() * 0.9, corrupted.data.max() * 1.1, 60)
    good, bad = np.delete(corrupted.data, corrupted.rows), corrupted.data[corrupted.rows]
    left.hist(good, bins=bins, color="#bdbdbd", label=f"{len(good)} clean rows")
    left.hist(bad, bins=bins, color="#404040", label=f"{len(bad)} corrupt rows")
    styles = [(COLORS["plain"], "--"), ("#6a3d9a", ":"), ("#38761d", "-."), (COLORS["robust"], "-")]
    left.axvline(clean.mean(), color="black", lw=5, alpha=0.25, label=f"the truth {clean.mean():.0f}")
    for row, (color, style) in zip(rows, styles, strict=True):
        left.axvline(row.corrupted, color=color, ls=style, lw=2, label=f"{row.name} {row.corrupted:.0f}")
    left.set(
        xscale="log",
        xlabel="tumour area, mm² (logarithmic)",
        ylabel="rows",
        title="The rows, and four estimates of their mean",
    )
    legend_below(left)
    left.spines[["top", "right"]].set_visible(False)
    robust.plot(ax=right)
    low, high = robust.interval
    right.set(title=f"What outvote says: between {low:.0f} and {high:.0f} mm²", xlabel="tumour area, mm²")
    return figure


def main(arguments: list[str] | None = None) -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(prog="outvote.cli.demo", description=__doc__)
    parser.add_argument("--figure", type=Path, default=Path("demo.png"), help="file for the figure")
    figure = parser.parse_args(arguments).figure
    try:
        import matplotlib
        import rich  # noqa: F401
    except ModuleNotFoundError as missing:
        needed = install_command("matplotlib", "rich")
        raise SystemExit(f"the demonstration needs {missing.name}: {needed}") from None
    matplotlib.use("Agg")
    clean, corrupted = corrupt()
    rows, robust = answers(clean, corrupted.data)
    show(rows, float(clean.mean()), len(clean), len(corrupted.rows))
    print(f"\n{robust}\n")
    save(draw(clean, corrupted, rows, robust), figure)
    print(f"The figure is in {figure}")


if __name__ == "__main__":
    main()
