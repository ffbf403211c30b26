"""The figure of the README: four estimates of one mean against the share of corrupt rows (`make figure`)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import trim_mean

import outvote as ov
from outvote.plotting.base import COLORS, LINES, new_axes, save

OUTPUT = Path(__file__).parents[1] / "docs" / "images" / "corrupt_rows.svg"
N_ROWS = 2000
#: A corrupt row says this; clean ones are exponential, with mean 1 and sd 1.
WRONG = 20.0
SHARES = np.linspace(0, 0.1, 21)
NAMES = ("plain mean", "5 % trimmed mean", "median", "outvote.mean")


def measure(runs: int) -> tuple[dict[str, Any], Any]:
    """Return the average estimates for each share, and the average ends of the certified interval."""
    found, ends = np.zeros((len(NAMES), len(SHARES), runs)), np.zeros((2, len(SHARES), runs))
    known = ov.FiniteVariance(1.0)
    for run in range(runs):
        clean = np.random.default_rng(run).exponential(size=N_ROWS)
        for j, share in enumerate(SHARES):
            x = ov.Contamination(float(share)).inject(clean, WRONG, rng=run).data
            robust = ov.mean(x, contamination=float(share), assume=known, vote="evidence")
            found[:, j, run] = x.mean(), trim_mean(x, 0.05), np.median(x), robust.estimate
            ends[:, j, run] = robust.interval
    return dict(zip(NAMES, found.mean(-1), strict=True)), ends.mean(-1)


def draw(estimates: dict[str, Any], ends: Any, runs: int) -> Any:
    """Draw the estimates, told apart by colour, dashes and a name beside each line."""
    ax = new_axes(figsize=(8.0, 4.4))
    percent = 100 * SHARES
    ax.fill_between(percent, *ends, color=COLORS["band"], lw=0)
    ax.axhline(1.0, color="black", lw=0.8)
    styles = dict(zip(NAMES, (LINES[1], LINES[2], LINES[3], LINES[0]), strict=True))
    for name, values in estimates.items():
        ax.plot(percent, values, **styles[name])
    for name, place in zip(NAMES, ((4.3, 1.72), (7.75, 1.58), (0.6, 0.73), (8.3, 1.13)), strict=True):
        ax.text(*place, name, color=styles[name]["color"])
    ax.text(3.0, 1.24, "certified 95 % interval of outvote.mean", color=COLORS["robust"], fontsize=9)
    ax.text(9.0, 0.955, "the truth", fontsize=9)
    ax.set(
        title=f"Mean of {N_ROWS} exponential rows, some of which say {WRONG:g}",
        xlabel="corrupt rows, % of all rows",
        ylabel=f"estimate (unit: sd; average of {runs} runs)",
        xlim=(0, 10),
        ylim=(0.5, 1.9),
    )
    ax.spines[["top", "right"]].set_visible(False)
    return ax.figure


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the figure."""
    import matplotlib as mpl

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=50, help="samples that are averaged")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the figure goes")
    options = parser.parse_args(arguments)
    mpl.use("Agg")
    with mpl.rc_context({"svg.hashsalt": "outvote"}):
        save(draw(*measure(options.runs), options.runs), options.output)
    print(f"written to {options.output}")


if __name__ == "__main__":
    main()
