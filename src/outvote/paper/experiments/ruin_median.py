"""Figure break_median: the median and the median of means of coin tosses, of which √n are replaced by ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from outvote.data.text import spaced
from outvote.estimate.mean import mean
from outvote.paper.experiments import estimation
from outvote.paper.experiments.base import Experiment, Finding, Table, Tables, column
from outvote.paper.experiments.checking import checked, rows_of
from outvote.plotting.base import COLORS, LINES, legend_below, new_panels

#: Lines of the figure, and the style of each.
CURVES = (("median", "corrupted", 1), ("median", "clean", 3), ("mean", "corrupted", 2))
#: How many block sizes are tried on either side of the harmonic one.
AROUND = 3


def measure(rng: np.random.Generator, *, n: int, runs: int) -> list[dict[str, Any]]:
    """Estimate the mean of `runs` columns of n coin tosses, clean and corrupted, then with other block sizes."""
    clean = rng.integers(2, size=(n, runs)).astype(float)
    count = estimation.n_outliers(n)
    corrupted = estimation.corrupt(rng, clean, 1.0, count)
    blocks, found = estimation.harmonic(n), {}
    for data, rows in (("clean", clean), ("corrupted", corrupted)):
        found["MoM", data] = mean(rows, contamination=count, vote="median", n_blocks=blocks, rng=rng).estimate
        found["median", data] = np.median(rows, axis=0)
        found["mean", data] = rows.mean(axis=0)
    return [
        *rows_of("ruin-median", estimation.errors(n, 0.5, found)),
        *rows_of("ruin-median.parity", _around(rng, corrupted, count, n // blocks)),
    ]


def _around(rng: np.random.Generator, rows: estimation.Array, count: int, harmonic_size: int) -> list[dict[str, Any]]:
    """Estimate with block sizes near the harmonic one, each with the largest odd number of blocks."""
    found = []
    for size in range(max(1, harmonic_size - AROUND), harmonic_size + AROUND + 1):
        blocks = len(rows) // size
        blocks -= blocks % 2 == 0
        if blocks <= 2 * count or len(rows) // blocks != size:
            continue
        estimate = mean(rows, contamination=count, vote="median", n_blocks=blocks, rng=rng).estimate
        found.append(
            {
                "n": len(rows),
                "blocks": blocks,
                "block size": size,
                "parity": "odd" if size % 2 else "even",
                "harmonic": size == harmonic_size,
                "errors": np.abs(np.asarray(estimate) - 0.5).tolist(),
            }
        )
    return found


def draw(tables: Tables) -> Any:
    """Draw errors against n and, for the largest n, against the block size; markers show the parity of the size."""
    table, parity = tables["ruin-median"], tables["ruin-median.parity"]
    left, right = new_panels(1, 2, panel=(5.6, 5.0))
    for name, data, style in CURVES:
        estimation.draw_line(left, table, LINES[style], f"{name}, {data} rows", estimator=name, data=data)
    own = {row["n"]: row["parity"] for row in parity if row["harmonic"]}
    mom = [{**row, "parity": own[row["n"]]} for row in table if (row["estimator"], row["data"]) == ("MoM", "corrupted")]
    _draw_points(left, mom, "n", "MoM, corrupted rows, {} B")
    estimation.finish(left, "Coin tosses, √n of them replaced by 1")
    left.set_yscale("symlog", linthresh=1e-3)
    left.set_ylim(-5e-5, 1)

    near = _near(parity)
    sizes = np.linspace(column(near, "block size").min(), column(near, "block size").max(), 100)
    right.plot(sizes, 1 / (2 * sizes), color=COLORS["blocks"], ls="--", lw=1.2, label="half a toss, 1/(2B)")
    _draw_points(right, near, "block size", "MoM, {} B")
    right.set(
        xlabel="rows in a block, B",
        ylabel="mean absolute error",
        title=f"The parity of B, n = {spaced(near[0]['n'])}, corrupted rows",
    )
    right.set_ylim(bottom=-0.04 * right.get_ylim()[1])
    right.grid(alpha=0.3, lw=0.5)
    legend_below(right)
    return left.figure


def _draw_points(ax: Any, table: Table, across: str, label: str) -> None:
    """Draw errors as squares if the block size is odd, as rings if it is even."""
    for parity, marker, face in (("odd", "s", COLORS["robust"]), ("even", "o", "white")):
        place, error = (column(table, name, parity=parity) for name in (across, "mean absolute error"))
        style = {"marker": marker, "ms": 7, "mec": COLORS["robust"], "mfc": face, "mew": 1.6}
        ax.plot(place, error, ls="", label=label.format(parity), zorder=3, **style)


def _near(parity: Table) -> Table:
    """Return the block sizes that were tried at the largest n."""
    n = estimation.largest_n(parity)
    return [row for row in parity if row["n"] == n]


def judge(tables: Tables) -> list[Finding]:
    """Check the median with and without outliers, MoM, the plain mean, and the parity of block sizes."""
    table, near = tables["ruin-median"], _near(tables["ruin-median.parity"])

    def at(name: str, data: str = "corrupted") -> float:
        return estimation.error_at(table, name, data)

    where = f"at n = {spaced(estimation.largest_n(table))}"
    by_parity = {parity: column(near, "mean absolute error", parity=parity) for parity in ("odd", "even")}
    odd, even = by_parity["odd"].mean(), by_parity["even"].mean()
    (chosen,) = (row["block size"] for row in near if row["harmonic"])
    mom, plain = (column(table, "mean absolute error", estimator=name, data="corrupted") for name in ("MoM", "mean"))
    wins = int((mom <= plain).sum())
    return [
        checked(
            "the median fails",
            at("median") > 0.4,
            f"it misses by {at('median'):.3f} {where}",
        ),
        checked(
            "mean and median of the clean rows coincide, so that the comparison is fair",
            at("median", "clean") < 0.1,
            f"without a single outlier the median misses by {at('median', 'clean'):.3f} {where}",
            "every number from 0 to 1 is a median of a fair coin, the sample median is 0 or 1, and outliers decide",
        ),
        checked(
            "MoM succeeds where the median fails",
            at("MoM") < at("median") / 5,
            f"MoM misses by {at('MoM'):.2g} {where}, the median by {at('median'):.2g}",
        ),
        Finding(
            "MoM is superior to standard alternatives",
            "holds" if wins == len(mom) else "holds in part" if wins else "does not hold",
            f"it beats the plain mean at {wins} of {len(mom)} sizes; {where} it misses by {at('MoM'):.2g}, the plain "
            f"mean by {at('mean'):.2g}",
            "for a mean of zeros and ones a 1 is not an outlier: √n ones move it by 1/(2√n) only"
            if wins < len(mom)
            else "",
        ),
        Finding(
            "MoM succeeds by the right choice of the number of blocks",
            "holds in part" if odd > 2 * even else "holds",
            f"its error {where}, with block sizes near the harmonic {chosen}, is {odd:.2g} for odd sizes and "
            f"{even:.2g} for even sizes",
            "the mean of an odd number B of tosses is at least 1/(2B) away from 1/2, that of an even number can equal "
            "1/2: the parity of B matters more than its size"
            if odd > 2 * even
            else "",
        ),
    ]


EXPERIMENT = Experiment(
    name="ruin-median",
    title="Ruining the median",
    where="Figure break_median",
    runs=500,
    quick_runs=50,
    pieces=estimation.pieces,
    measure=measure,
    tabulate=estimation.tabulate,
    draw=draw,
    judge=judge,
)
