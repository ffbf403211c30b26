"""Figures mom, mou, mou_2, mou_2_diag and mou_gd: the estimators, drawn from real partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from outvote.blocks.plan import BlockPlan, GridPlan
from outvote.contamination import Contamination, Outliers
from outvote.estimate.mean import mean
from outvote.estimate.u_statistic import u_statistic
from outvote.kernels.kernel import Kernel
from outvote.paper.experiments import checking
from outvote.paper.experiments.base import Experiment, Finding, Piece, Size, Table, Tables, column
from outvote.paper.experiments.checking import checked, rows_of
from outvote.plotting.base import COLORS, new_panels

#: Distance of the outliers in standard deviations; in the second sample they are on the other side.
FAR = 8.0
#: Epochs of the descent that are drawn; the same rows are put into new blocks in each.
EPOCHS = 3
#: The slope of the model whose losses are drawn; the true slope is 1.
SLOPE = 0.5

CLEAN: dict[str, Any] = {"facecolor": COLORS["band"], "edgecolor": "#666666", "lw": 0.8}
HIT: dict[str, Any] = {"facecolor": "#f9d9c3", "edgecolor": "#7a3b0c", "hatch": "////", "lw": 0.8}
UNUSED: dict[str, Any] = {"facecolor": "#f4f4f4", "edgecolor": "#dddddd", "lw": 0.5}
MEDIAN: dict[str, Any] = {"fill": False, "edgecolor": "black", "lw": 2.8, "zorder": 5}


def pair_loss(u: Any, v: Any) -> Any:
    """Return half the squared error on the difference of two targets, for rows (x, y)."""
    return ((u[..., 1] - v[..., 1]) - SLOPE * (u[..., 0] - v[..., 0])) ** 2 / 2


@dataclass(frozen=True)
class Picture:
    """One estimator: rows, blocks and outliers of each sample, the kernel, and how many partitions are drawn."""

    title: str
    rows: tuple[int, ...]
    blocks: tuple[int, ...]
    outliers: tuple[int, ...]
    kernel: Any = None
    grid: Literal["full", "diagonal"] = "full"
    partitions: int = 1


DIFFERENCE = Kernel(np.subtract, degrees=(1, 1), vectorized=True, name="difference")
PICTURES = {
    "MoM": Picture("MoM: the median of block means", (27,), (9,), (3,)),
    "MoU": Picture("MoU: pairs within blocks", (20,), (5,), (2,), "variance"),
    "MoU2": Picture("MoU₂: all pairs of blocks", (21, 21), (7, 7), (2, 1), DIFFERENCE),
    "MoU2 diagonal": Picture("MoU₂ diagonal: k-th blocks together", (21, 21), (7, 7), (2, 1), DIFFERENCE, "diagonal"),
    "MoU-GD": Picture(
        "MoU-GD: a step on the block of median risk",
        (36,),
        (9,),
        (3,),
        Kernel(pair_loss, degrees=(2,), vectorized=True, name="risk"),
        partitions=EPOCHS,
    ),
}


def pieces(size: Size) -> list[Piece]:
    """Return one piece for each picture."""
    return [Piece({"picture": name, "runs": size.runs}) for name in PICTURES]


def measure(rng: np.random.Generator, *, picture: str, runs: int) -> list[dict[str, Any]]:
    """Draw samples and partitions, count the votes hit by outliers, and keep the first run for the figure."""
    chosen, found = PICTURES[picture], []
    for run in range(runs):
        samples, outliers = _corrupted(rng, chosen)
        for number in range(chosen.partitions):
            values, labels = _computed(rng, chosen, samples)
            hit = _hit(chosen, labels, outliers)
            found.append({"table": "block-pictures", "picture": picture, **_counts(values, hit)})
            if run == 0:
                found += rows_of("block-pictures.votes", _votes(picture, number, values, hit))
                found += rows_of("block-pictures.rows", _rows(picture, number, samples, labels, outliers))
    return found


def _corrupted(rng: np.random.Generator, chosen: Picture) -> tuple[list[Any], list[Any]]:
    """Return the samples of a picture with outliers, and the positions of the outliers."""
    corrupted = []
    for s, (n, count) in enumerate(zip(chosen.rows, chosen.outliers, strict=True)):
        clean = rng.normal(size=n)
        if chosen.partitions > 1:
            clean = np.column_stack([clean, clean + rng.normal(scale=0.5, size=n)])
        corrupted.append(Contamination(count).inject(clean, _far(FAR if s == 0 else -FAR), rng=rng))
    return [each.data for each in corrupted], [each.rows for each in corrupted]


def _far(place: float) -> Outliers:
    """Return a rule that draws outliers around `place`."""
    return lambda rng, rows: place + rng.normal(size=rows.shape)


def _computed(rng: np.random.Generator, chosen: Picture, samples: list[Any]) -> tuple[Any, list[Any]]:
    """Return the block values of a random partition, and the block of each row."""
    settings: dict[str, Any] = {"rng": rng}
    if chosen.kernel is None:
        result = mean(samples[0], chosen.outliers[0], vote="median", n_blocks=chosen.blocks[0], **settings)
    else:
        settings |= {"contamination": chosen.outliers, "n_blocks": chosen.blocks, "grid": chosen.grid}
        result = u_statistic(*samples, kernel=chosen.kernel, **settings)
    assert isinstance(result.plan, BlockPlan | GridPlan)
    parts = result.plan.partition(result.seed)
    return result.block_values, [part.labels for part in (parts if isinstance(parts, tuple) else (parts,))]


def _hit(chosen: Picture, labels: list[Any], outliers: list[Any]) -> Any:
    """Return which votes have an outlier among their rows."""
    each = [np.isin(np.arange(k), part[bad]) for k, part, bad in zip(chosen.blocks, labels, outliers, strict=True)]
    if len(each) == 1:
        return each[0]
    return each[0][:, None] | each[1] if chosen.grid == "full" else each[0] | each[1]


def _counts(values: Any, hit: Any) -> dict[str, Any]:
    middle, clean = np.median(values), values[~hit]
    return {
        "votes": int(values.size),
        "hit": int(hit.sum()),
        "within": bool(clean.min() <= middle <= clean.max()),
        "clean": bool((clean == middle).any()),
    }


def _votes(picture: str, number: int, values: Any, hit: Any) -> Table:
    middle = np.median(values)
    return [
        {
            "picture": picture,
            "deal": number,
            "block x": int(place[0]),
            "block y": int(place[-1]),
            "value": float(value),
            "hit": bool(hit[place]),
            "median": bool(value == middle),
        }
        for place, value in np.ndenumerate(values)
    ]


def _rows(picture: str, number: int, samples: list[Any], labels: list[Any], outliers: list[Any]) -> Table:
    return [
        {
            "picture": picture,
            "deal": number,
            "sample": "xy"[s],
            "row": row,
            "block": int(labels[s][row]),
            "value": float(np.ravel(sample[row])[-1]),
            "outlier": bool(np.isin(row, outliers[s])),
        }
        for s, sample in enumerate(samples)
        for row in range(len(sample))
    ]


def tabulate(records: list[dict[str, Any]]) -> Tables:
    """Count over all partitions, and keep the rows and votes that are drawn."""
    tables, table = checking.tabulate(records), []
    for name, picture in PICTURES.items():
        mine = [row for row in tables["block-pictures"] if row["picture"] == name]
        hit, votes = column(mine, "hit"), mine[0]["votes"]
        table.append(
            {
                "picture": name,
                "rows": " and ".join(map(str, picture.rows)),
                "blocks": " and ".join(map(str, picture.blocks)),
                "outliers": " and ".join(map(str, picture.outliers)),
                "deals": len(mine),
                "votes": votes,
                "hit votes in the picture": int(hit[0]),
                "most hit votes": int(hit.max()),
                "mean share of hit votes": float(hit.mean() / votes),
                "median within the clean votes": float(column(mine, "within").mean()),
                "median is a clean vote": float(column(mine, "clean").mean()),
            }
        )
    return tables | {"block-pictures": table}


def draw(tables: Tables) -> Any:
    """Draw the five estimators and a legend."""
    axes = new_panels(2, 3, panel=(4.5, 4.3))
    drawn = (_draw_means, _draw_pairs, _draw_grid, _draw_grid, _draw_risks)
    for ax, name, how in zip(axes, PICTURES, drawn, strict=False):
        votes, rows = (
            [row for row in tables[f"block-pictures.{table}"] if row["picture"] == name] for table in ("votes", "rows")
        )
        how(ax, votes, rows)
        ax.set_title(PICTURES[name].title, pad=20)
    _draw_key(axes[-1])
    axes[0].figure.get_layout_engine().set(h_pad=0.12)
    return axes[0].figure


def _rectangle(ax: Any, x: float, y: float, width: float, height: float, style: dict[str, Any]) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((x, y), width, height, **style))


def _median(votes: Table) -> float:
    return next(float(vote["value"]) for vote in votes if vote["median"])


def _draw_means(ax: Any, votes: Table, rows: Table) -> None:
    """Draw one column for each block, with its rows and its mean, and the median of the means."""
    low, high = min(row["value"] for row in rows) - 0.6, max(row["value"] for row in rows) + 0.6
    for vote in votes:
        k = vote["block x"]
        _rectangle(ax, k + 0.04, low, 0.92, high - low, (HIT if vote["hit"] else CLEAN) | {"alpha": 0.55})
        ax.plot([k + 0.12, k + 0.88], [vote["value"]] * 2, color="black", lw=3, solid_capstyle="butt", zorder=4)
        mine = [row for row in rows if row["block"] == k]
        for place, row in enumerate(mine, 1):
            at = k + place / (len(mine) + 1)
            ax.plot(at, row["value"], **(_OUTLIER if row["outlier"] else _ROW))
    middle = _median(votes)
    ax.axhline(middle, color=COLORS["robust"], lw=1.6, ls="--", zorder=3)
    chosen = next(vote["block x"] for vote in votes if vote["median"])
    _rectangle(ax, chosen + 0.02, low, 0.96, high - low, MEDIAN)
    _block_ticks(ax.xaxis, len(votes))
    ax.set(
        xlim=(0, len(votes)),
        ylim=(low, high),
        xlabel=f"block; the median of the means is {middle:.2f}",
        ylabel="value of a row",
    )


def _draw_pairs(ax: Any, votes: Table, rows: Table) -> None:
    """Draw a matrix of rows, sorted by block: pairs within a block are used, the others are not."""
    rows = sorted(rows, key=lambda row: (row["block"], row["row"]))
    n, size = len(rows), len(rows) // len(votes)
    _rectangle(ax, 0, 0, n, n, UNUSED)
    for i, one in enumerate(rows):
        for j in range(i + 1, n):
            if one["block"] == rows[j]["block"]:
                _rectangle(ax, j, i, 1, 1, HIT if one["outlier"] or rows[j]["outlier"] else CLEAN)
        ax.plot(i + 0.5, i + 0.5, **(_OUTLIER if one["outlier"] else _ROW))
    for vote in votes:
        start = vote["block x"] * size
        _rectangle(ax, start, start, size, size, MEDIAN if vote["median"] else {"fill": False, "lw": 0.8})
        beside = start + size + 0.3 if start + size < n else start - 0.3
        ax.text(
            beside,
            start + size / 2,
            f"{vote['value']:.2f}",
            va="center",
            ha="left" if beside > start else "right",
            weight="bold" if vote["median"] else "normal",
        )
    _block_ticks(ax.xaxis, len(votes), size)
    _block_ticks(ax.yaxis, len(votes), size)
    name = f"rows, by block; the median of the variances is {_median(votes):.2f}"
    ax.set(xlim=(0, n), ylim=(n, 0), xlabel=name, ylabel="rows, by block", aspect="equal")


def _draw_grid(ax: Any, votes: Table, rows: Table) -> None:
    """Draw a grid of the blocks of two samples: the cells that vote, and the outliers beside the grid."""
    width, height = (1 + max(row["block"] for row in rows if row["sample"] == sample) for sample in "xy")
    _rectangle(ax, 0, 0, width, height, UNUSED)
    for vote in votes:
        x, y = vote["block x"], vote["block y"]
        _rectangle(ax, x, y, 1, 1, HIT if vote["hit"] else CLEAN)
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1} if vote["hit"] else None
        ax.text(
            x + 0.5,
            y + 0.5,
            f"{round(vote['value'], 1) + 0.0:.1f}",
            ha="center",
            va="center",
            fontsize="x-small",
            bbox=box,
            zorder=4,
        )
        if vote["median"]:
            _rectangle(ax, x, y, 1, 1, MEDIAN)
    for sample in "xy":
        for block in range(width if sample == "x" else height):
            bad = sum(row["outlier"] for row in rows if row["sample"] == sample and row["block"] == block)
            for place in range(bad):
                along = block + (place + 1) / (bad + 1)
                at = (along, height + 0.22) if sample == "x" else (width + 0.22, along)
                ax.plot(*at, clip_on=False, **_OUTLIER)
    _block_ticks(ax.xaxis, width)
    _block_ticks(ax.yaxis, height)
    name = f"blocks of X; the median is {_median(votes):.2f}"
    ax.set(xlim=(0, width), ylim=(0, height), xlabel=name, ylabel="blocks of Y", aspect="equal")


def _draw_risks(ax: Any, votes: Table, rows: Table) -> None:
    """Draw the sorted block risks of each epoch; the step is made on the median block."""
    left, ticks = 0.0, []
    for epoch in range(1 + max(vote["deal"] for vote in votes)):
        mine = sorted((vote for vote in votes if vote["deal"] == epoch), key=lambda vote: vote["value"])
        for place, vote in enumerate(mine):
            ax.bar(left + place, vote["value"], 0.8, zorder=2, **(HIT if vote["hit"] else CLEAN))
            if vote["median"]:
                ax.bar(left + place, vote["value"], 0.8, **(MEDIAN | {"edgecolor": "black"}))
                ax.plot(left + place, 1.25 * vote["value"], **_STEP)
        ticks.append(left + (len(mine) - 1) / 2)
        left += len(mine) + 1.5
    ax.set_xticks(ticks, [f"epoch {number}" for number in range(1, len(ticks) + 1)])
    ax.tick_params(axis="x", length=0)
    ax.set(
        yscale="log", xlabel="blocks in order of risk, new blocks in each epoch", ylabel="risk of the pairs of a block"
    )
    ax.yaxis.set_major_formatter("{x:g}")
    ax.spines[["top", "right"]].set_visible(False)


def _draw_key(ax: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    ax.set_axis_off()
    handles = [
        Line2D([], [], **_ROW, label="row"),
        Line2D([], [], **_OUTLIER, label="outlier"),
        Patch(**CLEAN, label="clean: block, pair, or pair of blocks"),
        Patch(**HIT, label="contains an outlier"),
        Patch(**UNUSED, label="pairs that do not vote"),
        Line2D([], [], color="black", lw=3, label="mean of a block"),
        Patch(facecolor="none", edgecolor="black", lw=2.8, label="the median of the votes"),
        Line2D([], [], **_STEP, label="the block that makes the step"),
    ]
    ax.legend(
        handles=handles,
        loc="center",
        frameon=False,
        labelspacing=1.1,
        title="More than half of the votes are clean,\nso the median lies among them\n",
    )


_ROW: dict[str, Any] = {"marker": "o", "ms": 4.5, "mfc": "white", "mec": "#333333", "ls": "none", "zorder": 4}
_OUTLIER: dict[str, Any] = {"marker": "X", "ms": 7, "mfc": "black", "mec": "white", "ls": "none", "zorder": 6}
_STEP: dict[str, Any] = {"marker": "v", "ms": 7, "mfc": "black", "mec": "black", "ls": "none", "zorder": 6}


def _block_ticks(axis: Any, count: int, size: int = 1) -> None:
    """Label the middle of each block with its number, from 1 on."""
    axis.set_ticks([size * (k + 0.5) for k in range(count)], labels=[str(k + 1) for k in range(count)])
    axis.set_tick_params(length=0)


def judge(tables: Tables) -> list[Finding]:
    """Check the votes hit by outliers, the median, and the paper's count of hit cells."""
    rows = {row["picture"]: row for row in tables["block-pictures"]}
    n_partitions = sum(row["deals"] for row in rows.values())
    clean = {name: row["median is a clean vote"] for name, row in rows.items()}
    within = min(row["median within the clean votes"] for row in rows.values())
    picture, grid = PICTURES["MoU2"], rows["MoU2"]
    (bad_x, bad_y), (k_x, k_y) = picture.outliers, picture.blocks
    most = bad_x * k_y + bad_y * k_x - bad_x * bad_y
    shares = ", ".join(f"{name} {row['hit votes in the picture']} of {row['votes']}" for name, row in rows.items())
    worst = ", ".join(f"{row['most hit votes']}" for row in rows.values())
    return [
        checked(
            "with more than twice as many blocks as outliers the hit blocks are a minority",
            all(2 * row["most hit votes"] < row["votes"] for row in rows.values()),
            f"hit in the pictures: {shares}; at most {worst} in {n_partitions} partitions",
        ),
        Finding(
            "the median is that of a clean block",
            "holds" if min(clean.values()) == 1 else "holds in part" if within == 1 else "does not hold",
            f"it lies within the clean values in {100 * within:.4g} % of the partitions, and is one of them in "
            + ", ".join(f"{100 * share:.4g} % ({name})" for name, share in clean.items()),
            ""
            if min(clean.values()) == 1
            else "a hit block whose value is ordinary can be the median, and does no harm",
        ),
        checked(
            "outliers hit at most n_O K_Y + m_O K_X - n_O m_O cells of the grid",
            grid["most hit votes"] <= most,
            f"at most {grid['most hit votes']} of {grid['votes']}, which the formula gives as {most}; "
            f"{100 * grid['mean share of hit votes']:.0f} % on average, against "
            f"{100 * rows['MoU2 diagonal']['mean share of hit votes']:.0f} % on the diagonal",
        ),
    ]


EXPERIMENT = Experiment(
    name="block-pictures",
    title="The estimators, drawn from real partitions",
    where="Figures mom, mou, mou_2, mou_2_diag and mou_gd",
    runs=200,
    quick_runs=20,
    pieces=pieces,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
