"""Figure break_MW: P(X ≤ Y) of normal rows, with √n outliers in each sample that pull it down or up."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np

from outvote import paper
from outvote.assumptions.assumption import Bounded
from outvote.blocks.choose import plan_blocks
from outvote.data.text import spaced
from outvote.estimate.u_statistic import u_statistic
from outvote.paper.experiments import estimation
from outvote.paper.experiments.base import Experiment, Finding, Piece, Size, Table, Tables, column
from outvote.paper.experiments.checking import checked, rows_of
from outvote.plotting.base import LINES, new_panels

#: P(X ≤ Y) for X ~ N(0, 1) and Y ~ N(1, 1): Φ(1/√2).
TRUTH = 0.5 * (1 + math.erf(0.5))
#: The values of the outliers in X and in Y.
PLACES = {"pulled down": (10.0, -10.0), "pulled up": (-10.0, 10.0)}
PLAIN, PAPER, OURS, DIAGONAL = "plain", "MoU₂, K = ⌈√α·n⌉", "MoU₂, our K", "MoU₂ on the diagonal"
ROBUST = (PAPER, OURS, DIAGONAL)
_SECONDS_A_PIECE = 1.5


@cache
def blocks(n: int) -> dict[str, dict[str, Any]]:
    """Return for each estimator its numbers of blocks, and which blocks vote."""
    rows, counts = (n, n), (estimation.n_outliers(n),) * 2
    ours = plan_blocks(rows, counts, degree=(1, 1), assume=Bounded(0, 1))
    return {
        PLAIN: {"n_blocks": 1, "grid": "diagonal"},
        PAPER: {"n_blocks": paper.block_count(rows, counts, layout="full"), "grid": "full"},
        OURS: {"n_blocks": ours.n_blocks, "grid": "full"},
        DIAGONAL: {"n_blocks": paper.block_count(rows, counts, layout="diagonal"), "grid": "diagonal"},
    }


def pieces(size: Size) -> list[Piece]:
    """Return pieces for two numbers of rows per decade."""
    found = []
    for n in [100, 316, 1000] if size.quick else [100, 316, 1000, 3162, 10_000]:
        seconds = 0.0002 + 1.0e-6 * n + 2.4e-9 * math.prod(blocks(n)[PAPER]["n_blocks"])
        most = max(1, int(_SECONDS_A_PIECE / seconds))
        for start in range(0, size.runs, most):
            runs = min(most, size.runs - start)
            found.append(Piece({"n": n, "runs": runs}, cost=runs * seconds))
    return found


def measure(rng: np.random.Generator, *, n: int, runs: int) -> list[dict[str, Any]]:
    """Estimate P(X ≤ Y) from `runs` pairs of samples, clean and with outliers that pull it down or up."""
    count = estimation.n_outliers(n)
    clean = [rng.normal(size=(n, runs)), rng.normal(1.0, size=(n, runs))]
    found = {}
    for data in ("clean", *PLACES):
        x, y = clean
        if data in PLACES:
            x, y = (estimation.corrupt(rng, z, place, count) for z, place in zip(clean, PLACES[data], strict=True))
        for name, options in blocks(n).items():
            allowed = 0 if name == PLAIN else (count, count)
            options = {"vote": "median", "axis": 0, "contamination": allowed, "rng": rng, **options}
            result = u_statistic(x, y, kernel="mann-whitney", **options)
            found[name, data] = result.estimate
    return rows_of("mann-whitney", estimation.errors(n, TRUTH, found))


def tabulate(records: list[dict[str, Any]]) -> Tables:
    """Average over the runs, and list the numbers of blocks."""
    tables = estimation.tabulate(records)
    rows = []
    for n in sorted(set(column(tables["mann-whitney"], "n").tolist())):
        for name, options in blocks(n).items():
            each = int(np.min(options["n_blocks"]))
            rows.append({"n": n, "estimator": name, "blocks": each, "block size": n // each, "votes": options["grid"]})
    return {**tables, "mann-whitney.blocks": rows}


def draw(tables: Tables) -> Any:
    """Draw errors against n: with outliers that pull down on the left, that pull up on the right."""
    table = tables["mann-whitney"]
    axes = new_panels(1, 2, panel=(5.6, 5.2))
    for ax, (data, (x, y)) in zip(axes, PLACES.items(), strict=True):
        for name, style in zip((*ROBUST, PLAIN), (LINES[2], LINES[0], LINES[3], LINES[1]), strict=True):
            estimation.draw_line(ax, table, style, name, estimator=name, data=data)
        estimation.draw_line(ax, table, LINES[5], "plain, clean rows", estimator=PLAIN, data="clean")
        estimation.finish(ax, f"P(X ≤ Y), outliers at {x:g} in X, at {y:g} in Y".replace("-", "−"))
    bottom, top = (pick(ax.get_ylim()[end] for ax in axes) for end, pick in ((0, min), (1, max)))
    for ax in axes:
        ax.set_ylim(bottom, top)
    return axes[0].figure


def judge(tables: Tables) -> list[Finding]:
    """Check the plain statistic, where MoU₂ beats it, and the block sizes under the paper's rule."""
    table = tables["mann-whitney"]
    n, least = estimation.largest_n(table), int(column(table, "n").min())
    ways = tuple(PLACES)

    def at(name: str, data: str, n: int = n) -> float:
        return estimation.error_at(table, name, data, n)

    return [
        checked(
            "the kernel is bounded, so the plain statistic resists better than a mean or a variance",
            all(at(PLAIN, way) < 0.5 * at(PLAIN, way, least) for way in ways),
            "; ".join(
                f"{way} it misses by {at(PLAIN, way, least):.3f} at n = {spaced(least)} and {at(PLAIN, way):.4f} at "
                f"n = {spaced(n)}"
                for way in ways
            ),
        ),
        *(_advantage(table, way) for way in ways),
        _fit(tables["mann-whitney.blocks"]),
    ]


def _fit(table: Table) -> Finding:
    """Check the block sizes under the paper's rule: values of blocks of B rows are multiples of 1/B²."""
    rows = [row for row in table if row["estimator"] == PAPER]
    singles = [row["n"] for row in rows if row["block size"] == 1]
    few = {size: abs(round(size**2 * TRUTH) / size**2 - TRUTH) for size in (row["block size"] for row in rows)}
    return checked(
        "the harmonic number of blocks fits",
        not singles,
        "with K = ⌈√α·n⌉ a block has "
        + ", ".join(f"{row['block size']} at n = {spaced(row['n'])}" for row in rows)
        + " rows",
        "values of blocks of B rows are multiples of 1/B², so that the median of single comparisons is always 0 or 1; "
        "the multiple nearest to the truth is "
        + ", ".join(f"{off:.4f} away for B = {size}" for size, off in few.items()),
    )


def _advantage(table: Table, data: str) -> Finding:
    """Find the n at which MoU₂ beats the plain statistic, for outliers that pull one way."""
    sizes = sorted(set(column(table, "n").tolist()))
    plain = {n: estimation.error_at(table, PLAIN, data, n) for n in sizes}
    wins = {name: [n for n in sizes if estimation.error_at(table, name, data, n) < plain[n]] for name in ROBUST}
    listed = "; ".join(
        f"{name} at {'n = ' + ', '.join(map(spaced, won)) if won else 'no n'}" for name, won in wins.items()
    )
    last = ", ".join(f"{name} {estimation.error_at(table, name, data):.4f}" for name in (PLAIN, *ROBUST))
    won, every = len(wins[PAPER]), all(len(found) == len(sizes) for found in wins.values())
    return Finding(
        f"MoU₂ has an advantage, if a smaller one, if outliers have {data} the statistic",
        "holds" if every else "holds in part" if won else "does not hold",
        f"MoU₂ wins: {listed}; errors at n = {spaced(sizes[-1])}: {last}",
        ""
        if every
        else "few and bounded outliers move the plain statistic by 2ε at most; blocks of few rows lose more than that",
    )


EXPERIMENT = Experiment(
    name="mann-whitney",
    title="Estimating the Mann-Whitney statistic",
    where="Figure break_MW",
    runs=500,
    quick_runs=20,
    pieces=pieces,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
