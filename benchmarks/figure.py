"""The price of a row against the number of rows, as a figure: outvote, and what else one would call."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from outvote.plotting.base import COLORS, new_panels, save

#: Colour, dashes and marker of each curve, by the start of its name; lightness differs as much as hue.
STYLES: dict[str, dict[str, Any]] = {
    "np.mean": {"color": "#000000", "ls": "-", "marker": "o"},
    "ov.mean, 1001": {"color": COLORS["robust"], "ls": "-", "marker": "s"},
    "ov.mean, uniform": {"color": "#38761d", "ls": "-.", "marker": "^"},
    "ov.mean, 1 %": {"color": COLORS["plain"], "ls": "--", "marker": "D"},
    "ov.mean, soft": {"color": "#8e63b8", "ls": (0, (1, 1.2)), "marker": "v"},
    "np.median": {"color": "#7a7a7a", "ls": "--", "marker": "s"},
    "np.sort": {"color": "#b58900", "ls": (0, (1, 1.2)), "marker": "D"},
    "trimmed": {"color": "#38761d", "ls": "-.", "marker": "^"},
    "bootstrap": {"color": "#8b0000", "ls": "-", "marker": "v"},
    "Huber": {"color": "#6a3d9a", "ls": (0, (7, 2, 1, 2, 1, 2)), "marker": "P"},
    "median (polars)": {"color": "#2aa198", "ls": "--", "marker": "X"},
    "median (DuckDB)": {"color": "#c55a11", "ls": "-.", "marker": "*"},
}
#: In both panels, to compare with.
SHARED = ("np.mean", "np.median", "ov.mean, 1001")


def style_of(name: str) -> dict[str, Any]:
    """The style of a curve."""
    return next((style for start, style in STYLES.items() if name.startswith(start)), {"color": "black"})


def draw(growth: list[dict[str, Any]], output: Path) -> list[str]:
    """Write the figure beside the JSON, as PNG and as SVG; the names of the files."""
    import matplotlib as mpl

    curves = [curve for curve in growth if curve["points"]]
    panels = (
        ("outvote", [curve for curve in curves if curve["ours"] or curve["method"].startswith(SHARED)]),
        ("what else one would call", [c for c in curves if not c["ours"] or c["method"].startswith(SHARED)]),
    )
    names = []
    for suffix in (".png", ".svg"):
        with mpl.rc_context({"font.size": 9, "svg.fonttype": "none", "svg.hashsalt": "bench"}):
            axes = new_panels(1, 2, panel=(4.6, 3.9))
            for ax, (title, some) in zip(axes, panels, strict=True):
                fill(ax, title, some, limits(curves))
            axes[0].set_ylabel("time for each row (ns)")
            axes[1].tick_params(labelleft=False)
            save(axes[0].figure, output.with_suffix(suffix), dpi=200)
        names.append(output.with_suffix(suffix).name)
    return names


def limits(curves: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """The range that all panels share."""
    xs, ys = ([point[key] for curve in curves for point in curve["points"]] for key in ("n_rows", "ns_a_row"))
    return {"xlim": (0.8 * min(xs), 1.25 * max(xs)), "ylim": (0.7 * min(ys), 1.4 * max(ys))}


def fill(ax: Any, title: str, curves: list[dict[str, Any]], shared: dict[str, tuple[float, float]]) -> None:
    """Draw curves with their names at the end."""
    ends = []
    for curve in curves:
        xs, ys = ([point[key] for point in curve["points"]] for key in ("n_rows", "ns_a_row"))
        style, ours = style_of(curve["method"]), curve["ours"]
        ax.plot(xs, ys, lw=2.0 if ours else 1.3, ms=4.5, mfc=style["color"] if ours else "white", mew=1.1, **style)
        ends.append((curve["method"], xs[-1], ys[-1], style["color"]))
    ax.set(xscale="log", yscale="log", xlabel="number of rows", **shared)
    ax.set_title(title, loc="left", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(which="major", color="#dddddd", lw=0.6)
    ax.set_axisbelow(True)
    name_ends(ax, ends)


def name_ends(ax: Any, ends: list[tuple[str, float, float, str]]) -> None:
    """Write each curve's name to the right of the axes, moved up or down until no two names overlap."""
    low, high = ax.get_ylim()
    ends = sorted(ends, key=lambda end: end[2])
    heights = spread([math.log(y / low) / math.log(high / low) for _, _, y, _ in ends])
    for (name, x, y, color), height in zip(ends, heights, strict=True):
        ax.annotate(
            name, xy=(x, y), xytext=(1.04, height), textcoords="axes fraction", va="center", fontsize=8, color=color,
            arrowprops={"arrowstyle": "-", "color": color, "lw": 0.6, "shrinkA": 1, "shrinkB": 3},
            annotation_clip=False,
        )  # fmt: skip


def spread(heights: list[float], gap: float = 0.052) -> list[float]:
    """Move rising heights in [0, 1] apart, as little as it takes, until neighbours are `gap` apart."""
    moved = list(heights)
    for _ in range(500):
        for i in range(len(moved) - 1):
            overlap = max(0.0, gap - (moved[i + 1] - moved[i]))
            moved[i] -= overlap / 2
            moved[i + 1] += overlap / 2
        moved = [min(1.0, max(0.0, height)) for height in moved]
    return moved
