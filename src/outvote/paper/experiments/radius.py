"""Radii of a mean against the share of corrupt rows: the paper's bound, three votes, and the limit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from outvote import paper
from outvote.assumptions.assumption import FiniteVariance
from outvote.blocks.choose import plan_blocks
from outvote.certificate import radius
from outvote.data.text import spaced
from outvote.paper.experiments.base import Experiment, Finding, Piece, Size, Table, Tables, column
from outvote.paper.experiments.checking import checked, rows_of, tabulate
from outvote.plotting.base import new_panels

CONFIDENCE = 0.99
#: For each column of the table: the name of its curve.
CURVES = {
    "soft": "soft vote, certified",
    "clipped": "clipped vote, certified",
    "median": "median of blocks, certified",
    "paper": "the paper's best bound that holds",
    "limit": "limit of any estimator, n → ∞: √(ε/(1-2ε))",
}
VOTES = ("median", "soft", "clipped")


def pieces(size: Size) -> list[Piece]:
    """Return one piece for each number of rows."""
    return [Piece({"n": n}) for n in (1000, 10_000)]


def measure(rng: np.random.Generator, *, n: int) -> list[dict[str, Any]]:
    """Compute the radii for a mean of n rows with standard deviation 1."""
    counts = np.unique(np.floor(0.45 * n * np.linspace(0, 1, 61) ** 2).astype(int)).tolist()
    return rows_of("radius", [_radii(n, count) for count in counts])


def _radii(n: int, count: int) -> dict[str, Any]:
    epsilon = count / n
    return {
        "rows": n,
        "corrupt": count,
        "epsilon": epsilon,
        **{vote: _certified(n, count, vote) for vote in VOTES},
        "paper": _of_the_paper(n, count, ("mom", "hoeffding"), clamp=True),
        "paper, at this confidence": _of_the_paper(n, count, ("mom",), clamp=False),
        "limit": math.sqrt(epsilon / (1 - 2 * epsilon)),
    }


def _certified(n: int, count: int, vote: str) -> float:
    known = FiniteVariance(1.0)
    plan: Any = plan_blocks(n, count, CONFIDENCE, known, vote=vote)
    return radius(
        n_blocks=plan.n_blocks,
        n_corrupt=count,
        block_size=plan.block_size,
        confidence=CONFIDENCE,
        assume=known,
        vote=vote,
    )


def _of_the_paper(n: int, count: int, statements: tuple[str, ...], *, clamp: bool) -> float | None:
    """Return the best of the paper's bounds over its mappings; with `clamp` its confidence may be higher."""
    bounds = (
        paper.bound(name, claim=1, n=n, n_outliers=count, confidence=CONFIDENCE, mapping=mapping, clamp=clamp)
        for name in statements
        for mapping in paper.MAPPINGS
    )
    best = min(float(bound.radius) for bound in bounds)
    return best if math.isfinite(best) else None


def draw(tables: Tables) -> Any:
    """Draw one panel for each number of rows."""
    from outvote.plotting import RadiusDisplay

    table = tables["radius"]
    sizes = sorted({row["rows"] for row in table})
    axes = new_panels(1, len(sizes), panel=(5.0, 4.4))
    for ax, n in zip(axes, sizes, strict=True):
        radii = {name: column(table, key, rows=n).astype(float) for key, name in CURVES.items()}
        RadiusDisplay(
            column(table, "epsilon", rows=n),
            radii,
            title=f"{spaced(n)} rows, confidence {100 * CONFIDENCE:g} %",
            xlabel="share of corrupt rows ε",
            ylabel="radius, in sd of the clean rows",
        ).plot(ax)
        ax.get_legend().remove()
    figure = axes[0].figure
    figure.suptitle("Guaranteed radius for a mean")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def judge(tables: Tables) -> list[Finding]:
    """Compare the radii with each other and with the limit."""
    table = tables["radius"]
    corrupt = [row for row in table if row["corrupt"]]
    gain = _ratio(table, "paper", "median")
    soft, clipped = _ratio(corrupt, "median", "soft"), _ratio(corrupt, "median", "clipped")
    twice = max(row["epsilon"] for row, ratio in zip(corrupt, soft, strict=True) if ratio >= 2)
    first = sum(row["soft"] <= row["clipped"] for row in table)
    sizes = sorted({row["rows"] for row in table})
    inside = {
        n: max(row["epsilon"] for row in table if row["rows"] == n and row["paper, at this confidence"] is not None)
        for n in sizes
    }
    far = [row for row in corrupt if row["rows"] == sizes[-1] and row["epsilon"] >= 0.05]
    near = _ratio(far, "soft", "limit")
    return [
        checked(
            "the certified median is tighter than the paper's best bound, at every share",
            gain.min() > 1,
            f"{gain.min():.1f} to {gain.max():.1f} times tighter, {np.median(gain):.1f} times in the median",
        ),
        Finding(
            f"Proposition mom covers a confidence of {100 * CONFIDENCE:g} %",
            "holds in part" if max(inside.values()) < 0.4 else "holds",
            ", ".join(f"up to {100 * share:.2g} % of corrupt rows at n = {n}" for n, share in inside.items()),
            "with more corrupt rows it holds only at confidences nearer to 1, and its radius is as large as these need",
        ),
        Finding(
            "with a known sd the soft vote is two to three times tighter than the median",
            "holds" if soft.min() >= 2 else "holds in part",
            f"{soft.min():.1f} to {soft.max():.1f} times, at least twice up to {100 * twice:.0f} % of corrupt rows; "
            f"the clipped vote {clipped.min():.1f} to {clipped.max():.1f} times, and no better than the soft vote in "
            f"{first} of {len(table)} settings",
            "" if soft.min() >= 2 else "as the share approaches 1/2 all radii grow, and the gain shrinks",
        ),
        checked(
            "the soft vote is within a tenth of what any estimator can guarantee",
            near.max() < 1.1,
            f"with {sizes[-1]} rows and 5 % or more of them corrupt its radius is {near.min():.2f} to {near.max():.2f} "
            "times the limit for n → ∞",
        ),
    ]


def _ratio(table: Table, one: str, other: str) -> np.ndarray[Any, Any]:
    return column(table, one).astype(float) / column(table, other).astype(float)


EXPERIMENT = Experiment(
    name="radius",
    title="How far off a mean can be",
    where="beyond the paper",
    runs=1,
    quick_runs=1,
    pieces=pieces,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
