"""Figure constraints: the contaminations of two samples that MoM-MoM, MoU₂ and MoU₂ on the diagonal accept."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from outvote.blocks.choose import plan_blocks
from outvote.blocks.plan import Grid, majority
from outvote.estimate.difference import difference
from outvote.estimate.u_statistic import u_statistic
from outvote.kernels.kernel import Kernel
from outvote.paper.experiments.base import Experiment, Finding, Piece, Size, Table, Tables, column
from outvote.paper.experiments.checking import checked, rows_of, tabulate

#: For each estimator: the blocks that vote.
GRIDS: dict[str, Grid] = {"MoM-MoM": "separate", "MoU2": "full", "MoU2 diagonal": "diagonal"}
#: For each estimator: whether the paper admits x and y outliers among n rows in each sample.
ADMITS: dict[str, Callable[[int, int, int], bool]] = {
    "MoM-MoM": lambda x, y, n: 2 * x < n and 2 * y < n,
    "MoU2": lambda x, y, n: 2 * (x * n + y * n - x * y) < n * n,
    "MoU2 diagonal": lambda x, y, n: 2 * (x + y) < n,
}
#: The value of outliers, and the estimate from which on they have ruined it.
FAR, RUINED = 1e9, 1e6
#: Numbers of outliers are tried from 0 to half of the rows and this many more.
BEYOND = 2
#: Rows in each of several samples, when the largest share of outliers in all samples is searched.
MANY = 1000


def pieces(size: Size) -> list[Piece]:
    """Return one piece for each estimator."""
    n = 21 if size.quick else 41
    return [Piece({"estimator": name, "n": n}, cost=3.0 if name == "MoU2" else 1.0) for name in GRIDS]


def measure(rng: np.random.Generator, *, estimator: str, n: int) -> list[dict[str, Any]]:
    """Record for all numbers of outliers whether the paper admits them, a plan exists, and the estimate survives."""
    x, y = rng.normal(size=(2, n))
    grid = GRIDS[estimator]
    pairs = [
        {
            "estimator": estimator,
            "rows": n,
            "outliers x": i,
            "outliers y": j,
            "admitted": ADMITS[estimator](i, j, n),
            "majority": _has_majority(n, i, j, grid),
            "planned": _has_plan(n, i, j, grid),
            "survives": abs(_attacked(x, y, i, j, grid)) < RUINED,
        }
        for i, j in product(range((n + 1) // 2 + BEYOND), repeat=2)
    ]
    limits = [
        {"estimator": estimator, "epsilon x": e, "epsilon y": limit}
        for e in np.linspace(0, 0.5, 201).tolist()
        for limit in [{"separate": 0.5, "full": 1 - 0.5 / (1 - e), "diagonal": 0.5 - e}[grid]]
    ]
    found = [
        *rows_of("admissible-outliers", [_summary(estimator, pairs)]),
        *rows_of("admissible-outliers.pairs", pairs),
        *rows_of("admissible-outliers.limits", limits),
    ]
    if grid != "separate":
        found += rows_of("admissible-outliers.samples", [_several(estimator, grid, p) for p in (2, 3, 4, 5)])
    return found


def _has_majority(n: int, i: int, j: int, grid: Grid) -> bool:
    """Return whether any number of blocks leaves the clean votes in the majority."""
    sizes = range(n, 0, -1)
    tried = zip(sizes, sizes, strict=True) if grid == "diagonal" else product(sizes, repeat=2)
    return any(majority(ks, (i, j), grid) for ks in tried)


def _has_plan(n: int, i: int, j: int, grid: Grid) -> bool:
    """Return whether `plan_blocks` finds a plan."""
    try:
        if grid == "separate":
            return all(plan_blocks(n, count).holds for count in (i, j))
        return plan_blocks((n, n), (i, j), grid=grid).holds
    except ValueError:
        return False


def _attacked(x: Any, y: Any, i: int, j: int, grid: Grid) -> float:
    """Estimate E X - E Y with every row as a block, and with outliers spread over as many votes as possible."""
    bad_x, bad_y = x.copy(), y.copy()
    n, most = len(x), (len(x) - 1) // 2
    bad_x[:i], bad_y[np.arange(i, i + j) % n] = FAR, -FAR
    declared = (min(i, most), min(j, most))  # more would be refused; the blocks are given, so it changes nothing
    settings: dict[str, Any] = {"contamination": declared, "n_blocks": n, "partition": "contiguous"}
    if grid == "separate":
        return -float(difference(bad_x, bad_y, **settings).estimate)
    kernel = Kernel(np.subtract, degrees=(1, 1), vectorized=True, name="difference")
    return float(u_statistic(bad_x, bad_y, kernel=kernel, grid=grid, **settings).estimate)


def _summary(estimator: str, pairs: Table) -> dict[str, Any]:
    def count(admitted: bool, key: str) -> int:
        return int(column(pairs, key, admitted=admitted).sum())

    inside = int(column(pairs, "admitted").sum())
    return {
        "estimator": estimator,
        "rows": pairs[0]["rows"],
        "pairs": len(pairs),
        "admitted": inside,
        "share admitted": inside / ((pairs[0]["rows"] + 1) // 2) ** 2,
        **{f"{key}, admitted": count(True, key) for key in ("majority", "planned", "survives")},
        **{f"{key}, not admitted": count(False, key) for key in ("majority", "planned", "survives")},
    }


def _several(estimator: str, grid: Grid, p: int) -> dict[str, Any]:
    """Return the largest share of outliers in each of p samples that leaves a clean majority."""
    most = max(count for count in range(MANY // 2) if majority((MANY,) * p, (count,) * p, grid))
    return {
        "estimator": estimator,
        "samples": p,
        "largest share in each": most / MANY,
        "sum of shares": p * most / MANY,
    }


def draw(tables: Tables) -> Any:
    """Draw the regions, with the largest numbers of outliers that the estimates survived."""
    from outvote.plotting import AdmissibleDisplay

    limits, pairs = tables["admissible-outliers.limits"], tables["admissible-outliers.pairs"]
    epsilon = column(limits, "epsilon x", estimator="MoU2")
    lines = [column(limits, "epsilon y", estimator=name) for name in GRIDS]
    display = AdmissibleDisplay(epsilon, *lines).plot()
    n = pairs[0]["rows"]
    for name, marker in zip(GRIDS, "sDo", strict=True):
        found = [
            (i / n, max(column(pairs, "outliers y", estimator=name, survives=True, **{"outliers x": i}), default=None))
            for i in range((n + 1) // 2)
        ]
        shown = [(x, y / n) for x, y in found if y is not None]
        display.ax_.plot(*zip(*shown, strict=True), marker, ms=4.5, mfc="white", mec="black", label=name, clip_on=False)
    display.ax_.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, -0.13),
        ncols=3,
        fontsize="small",
        frameon=False,
        title=f"largest numbers of outliers survived, {n} rows in each sample",
        title_fontsize="small",
    )
    return display.figure_


def judge(tables: Tables) -> list[Finding]:
    """Compare the regions with the pairs that have a majority, have a plan, and were survived."""
    found = []
    rows = {row["estimator"]: row for row in tables["admissible-outliers"]}
    words = {
        "MoM-MoM": "ε_X < 1/2 and ε_Y < 1/2",
        "MoU2": "ε_X + ε_Y - ε_X ε_Y < 1/2",
        "MoU2 diagonal": "ε_X + ε_Y < 1/2",
    }
    for name, row in rows.items():
        keys = ("majority", "planned", "survives")
        exact = all(row[f"{key}, admitted"] == row["admitted"] and not row[f"{key}, not admitted"] for key in keys)
        beyond = row["pairs"] - row["admitted"]
        found.append(
            checked(
                f"{name} works exactly where {words[name]}",
                exact,
                f"with {row['rows']} rows in each sample, {row['admitted']} of {row['pairs']} pairs of counts are "
                f"admitted: {row['survives, admitted']} survived the outliers and "
                f"{row['planned, admitted']} had a plan; of the {beyond} others "
                f"{row['survives, not admitted']} and {row['planned, not admitted']}",
            )
        )
    shares = {name: row["share admitted"] for name, row in rows.items()}
    found.append(
        checked(
            "MoU2 has a stronger condition than MoM-MoM, and its diagonal a stronger one still",
            shares["MoM-MoM"] > shares["MoU2"] > shares["MoU2 diagonal"],
            "of the pairs with both shares below 1/2 the estimators admit "
            + ", ".join(f"{100 * share:.0f} % ({name})" for name, share in shares.items()),
        )
    )
    several = tables["admissible-outliers.samples"]
    sums = {name: column(several, "sum of shares", estimator=name) for name in ("MoU2", "MoU2 diagonal")}
    three = column(several, "largest share in each", estimator="MoU2", samples=3)[0]
    found.append(
        Finding(
            "for p samples MoU_p needs shares that add up to less than 1/2",
            "holds" if sums["MoU2"].max() < 0.5 else "holds in part",
            f"the complete grid keeps a clean majority up to {100 * three:.1f} % in each of three samples, and up to a "
            f"sum of {sums['MoU2'].max():.2f}; the diagonal up to a sum of {sums['MoU2 diagonal'].max():.2f}",
            "" if sums["MoU2"].max() < 0.5 else "this is the limit of the diagonal; the grid needs ∏(1-ε_j) > 1/2",
        )
    )
    return found


EXPERIMENT = Experiment(
    name="admissible-outliers",
    title="Which contaminations two samples may have",
    where="Figure constraints",
    runs=1,
    quick_runs=1,
    pieces=pieces,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
