"""Beyond the paper: how well the fitted attributes distinguish outliers from sane rows, and when they fail."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outvote.blocks.choose import plan_blocks
from outvote.paper.experiments import learning
from outvote.paper.experiments.base import Experiment, Finding, Piece, Size, Table, Tables, column
from outvote.plotting.base import LINES, new_panels

_NAMES = ("iris", "boston", "wine")
PAPER, DEFAULT = "Algorithm 1", "outvote's default"
#: Corrupt rows as a share of all rows; None is the paper's share, nearly a tenth for iris.
_SHARES: dict[str, tuple[float | None, ...]] = {
    "iris": (None, 0.2, 0.3),
    "boston": (None, 0.1, 0.2, 0.3),
    "wine": (None, 0.1, 0.2, 0.3),
}
#: The attributes that rank rows: the outlier scores, how seldom a row was chosen, and its loss.
PARTS = ("scores", "counts", "losses")
_LABELS = {
    "scores": "outlier_scores_ (both, and the distance of the row)",
    "counts": "selection_counts_ (few are suspect)",
    "losses": "row_losses_",
}
#: Seconds of a run in all settings.
_COSTS = {"iris": 2.4, "boston": 2.5, "wine": 3.3}
_DEFAULT_EPOCHS = 300


def pieces(size: Size) -> list[Piece]:
    """Return pieces of the runs of each data set."""
    shorter = 20 if size.quick else 1
    return [
        piece
        for name in _NAMES
        for piece in learning.cut_runs(size.runs, 3, 2, _COSTS[name] / shorter, {"name": name, "shorter": shorter})
    ]


@dataclass(frozen=True)
class _Fit:
    """One fit of a run: its description, the model, its rows, and a mask of the outliers."""

    described: dict[str, Any]
    model: Any
    rows: learning.Rows
    bad: Any


def measure(
    rngs: Sequence[np.random.Generator], *, name: str, runs: Sequence[int], shorter: int
) -> list[dict[str, Any]]:
    """Fit both descents at every contamination, and compute the area under the ROC curve of each attribute."""
    from outvote.learning import RobustnessWarning

    sane, seeds, drawn = [], [], []
    for rng in learning.each_run(rngs, runs):
        sane.append(learning.split(name, rng)[0])
        seeds.append(learning.seed_from(rng))
        added = [None if share is None else share / (1 - share) for share in _SHARES[name]]
        drawn.append([learning.draw_outliers(name, rng, sane[-1], share) for share in added])
    ends = learning.sane_weights_of_each(name, sane, seeds, shorter=4 * min(shorter, 5))
    fits = [
        _fit(name, algorithm, run, share, seeds[run], shorter, *learning.add_outliers(name, sane[run], outliers, end))
        for run, end in enumerate(ends)
        for share, outliers in zip(_SHARES[name], drawn[run], strict=True)
        for algorithm in (PAPER, DEFAULT)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RobustnessWarning)  # the table contains this information
        accepted = learning.accepted([fit.model for fit in fits], [fit.rows for fit in fits])
    return [
        {
            **fit.described,
            "refused": not fitted,
            "rows in a block": len(fit.bad) // fit.model.n_blocks_ if fitted else None,
            **(_areas(fit.model, fit.bad) if fitted else dict.fromkeys(PARTS)),
        }
        for fit, fitted in zip(fits, accepted, strict=True)
    ]


def _fit(
    name: str, algorithm: str, run: int, share: float | None, seed: int, shorter: int, rows: learning.Rows, bad: Any
) -> _Fit:
    declared = most_declared(len(bad), int(bad.sum()), algorithm)
    described = {
        "data": name,
        "descent": algorithm,
        "run": run,
        "share": float(bad.mean()),
        "outliers": int(bad.sum()),
        "rows": len(bad),
        "declared": declared,
    }
    return _Fit(described, _model(name, algorithm, share, declared, seed, shorter), rows, bad)


def most_declared(n_rows: int, outliers: int, algorithm: str) -> int:
    """Return the number of outliers, or the largest number that a learner of pairs accepts.

    Examples
    --------
    >>> most_declared(100, 10, PAPER), most_declared(100, 30, PAPER), most_declared(100, 30, DEFAULT)
    (10, 16, 24)
    """
    method: Any = "harmonic" if algorithm == PAPER else "certified"
    for count in range(outliers, 0, -1):
        try:
            plan_blocks(n_rows, count, degree=2, method=method)
        except ValueError:
            continue
        return count
    return 0


def _model(name: str, algorithm: str, share: float | None, declared: int, seed: int, shorter: int) -> Any:
    from outvote.learning import RobustMetricLearner, RobustRanker

    options: dict[str, Any] = {"contamination": declared, "random_state": seed}
    if algorithm == DEFAULT:
        learner = RobustMetricLearner if name == "iris" else RobustRanker
        return learner(max_iter=_DEFAULT_EPOCHS // shorter, **options)
    if share is not None:
        options["n_blocks"] = "auto"
    return learning.descent(name, "MoU-GD", max_iter=learning.SETTINGS[name].epochs // shorter, **options)


def _areas(model: Any, bad: Any) -> dict[str, float]:
    from sklearn.metrics import roc_auc_score

    traces = {"scores": model.outlier_scores_, "counts": -model.selection_counts_, "losses": model.row_losses_}
    largest = np.finfo(float).max
    return {part: float(roc_auc_score(bad, np.clip(traces[part], -largest, largest))) for part in PARTS}


def tabulate(records: list[dict[str, Any]]) -> Tables:
    """Average the areas of each setting over the runs whose fit was not refused."""
    table = []
    for (data, algorithm, outliers), runs in learning.group(records, "data", "descent", "outliers").items():
        kept = [run for run in runs if not run["refused"]]
        table.append(
            {
                "data": data,
                "descent": algorithm,
                "share": runs[0]["share"],
                "outliers": outliers,
                "rows": runs[0]["rows"],
                "declared": runs[0]["declared"],
                "rows in a block": kept[0]["rows in a block"] if kept else None,
                **{part: float(np.mean([run[part] for run in kept])) if kept else None for part in PARTS},
                "lowest score": min(run["scores"] for run in kept) if kept else None,
                "refused": len(runs) - len(kept),
                "runs": len(runs),
            }
        )
    return {"outlier-scores": table}


def draw(tables: Tables) -> Any:
    """Draw the areas against the share of corrupt rows; markers are hollow if fewer rows are declared than corrupt."""
    table = tables["outlier-scores"]
    panels = new_panels(2, 3, panel=(4.0, 2.9))
    for ax, (algorithm, name) in zip(panels, [(a, n) for a in (PAPER, DEFAULT) for n in _NAMES], strict=True):
        chosen = {"data": name, "descent": algorithm}
        share = 100 * column(table, "share", **chosen)
        less = column(table, "declared", **chosen) < column(table, "outliers", **chosen)
        for part, style, marker in zip(PARTS, LINES, "o^s", strict=False):
            area = column(table, part, **chosen).astype(float)
            ax.plot(share, area, label=_LABELS[part], **style)
            for hollow in (False, True):
                face = "white" if hollow else style["color"]
                at = less == hollow
                ax.plot(share[at], area[at], ls="none", marker=marker, ms=6, mfc=face, mec=style["color"], zorder=3)
        ax.axhline(0.5, color="black", lw=0.8, ls=":")
        ax.set(title=f"{name}, {algorithm}", ylim=(-0.04, 1.04))
        ax.grid(alpha=0.3, lw=0.5)
    for ax in panels[3:]:
        ax.set_xlabel("corrupt rows (% of all)")
    for ax in panels[::3]:
        ax.set_ylabel("area under the curve")
    learning.share_legend(panels[0].figure, panels[0], 3)
    panels[0].figure.suptitle(
        "Distinguishing outliers from sane rows (hollow: fewer outliers declared, the most that pairs allow)",
        fontsize="medium",
    )
    return panels[0].figure


def judge(tables: Tables) -> list[Finding]:
    """Judge the areas at the paper's contamination, at larger ones, and at those that pairs do not allow."""
    table = tables["outlier-scores"]
    published = [row for row in table if row["outliers"] == _fewest(table, row["data"], row["descent"])]
    return [
        *(_finds(published, algorithm) for algorithm in (PAPER, DEFAULT)),
        _parts(table),
        _declared(table),
        _limits(table),
        _turned(table),
    ]


def _fewest(table: Table, name: str, algorithm: str) -> int:
    return int(column(table, "outliers", data=name, descent=algorithm).min())


def _areas_of(rows: Table, part: str) -> str:
    return ", ".join(f"{row['data']} {row['share']:.0%}: {_shown(row[part])}" for row in rows)


def _shown(area: float | None) -> str:
    return "refused" if area is None else f"{area:.3f}"


def _finds(published: Table, algorithm: str) -> Finding:
    rows = [row for row in published if row["descent"] == algorithm]
    good = sum((row["scores"] or 0) > 0.95 for row in rows)
    return Finding(
        f"{algorithm}: outlier scores find the paper's outliers (area above .95)",
        "holds" if good == len(rows) else "holds in part" if good else "does not hold",
        f"both parts together: {_areas_of(rows, 'scores')}; counts alone: {_areas_of(rows, 'counts')}; losses alone: "
        f"{_areas_of(rows, 'losses')}",
    )


def _parts(table: Table) -> Finding:
    rows = [row for row in table if row["scores"] is not None and row["declared"] == row["outliers"]]
    blind = {part: min(rows, key=lambda row, part=part: row[part]) for part in PARTS}  # type: ignore[misc]
    whole = all(blind["scores"]["scores"] >= blind[part][part] for part in ("counts", "losses"))
    return Finding(
        "each part fails in some setting in which the other works; together they work",
        "holds" if whole and blind["scores"]["scores"] > 0.9 else "holds in part" if whole else "does not hold",
        "lowest area with the contamination declared: "
        + ", ".join(
            f"{part} {row[part]:.3f} ({row['data']} {row['share']:.0%}, {row['descent']})"
            for part, row in blind.items()
        ),
    )


def _declared(table: Table) -> Finding:
    rows = [row for row in table if row["descent"] == DEFAULT and row["declared"] == row["outliers"]]
    rows = [row for row in rows if row["outliers"] > _fewest(table, row["data"], DEFAULT)]
    good = sum((row["scores"] or 0) > 0.9 for row in rows)
    return Finding(
        "the default still finds the outliers at 10 % and 20 % (area above .9)",
        "holds" if good == len(rows) else "holds in part" if good else "does not hold",
        _areas_of(rows, "scores"),
    )


def _limits(table: Table) -> Finding:
    over = {
        algorithm: [row["share"] for row in table if row["descent"] == algorithm and row["declared"] < row["outliers"]]
        for algorithm in (PAPER, DEFAULT)
    }
    right = min(over[PAPER], default=1.0) > 1 / 6 and min(over[DEFAULT], default=1.0) > 1 / 4
    return Finding(
        "pairs allow a sixth of the rows to be corrupt under the paper's rule, a quarter by default; more is refused",
        "holds" if right and over[PAPER] and over[DEFAULT] else "does not hold",
        "; ".join(f"{algorithm} refuses from {min(shares):.0%} on" for algorithm, shares in over.items() if shares),
    )


def _turned(table: Table) -> Finding:
    rows = [row for row in table if row["share"] > 0.25 and row["scores"] is not None]
    turned = [row for row in rows if min(row[part] for part in PARTS) < 0.5]
    whole = [row for row in rows if row["scores"] < 0.5]
    return Finding(
        "at 30 %, declared as the most that pairs allow, the scores are reversed: sane rows look corrupt",
        "holds" if len(whole) == len(rows) and rows else "holds in part" if turned else "does not hold",
        "; ".join(
            f"{row['data']}, {row['descent']}: " + ", ".join(f"{part} {row[part]:.2f}" for part in PARTS)
            for row in rows
        )
        or "every fit was refused",
        "single parts are reversed, but not the scores, which include distances that do not depend on the fit"
        if turned and not whole
        else "",
    )


EXPERIMENT = Experiment(
    name="outlier-scores",
    title="Outlier scores of the learners",
    where="beyond the paper",
    runs=10,
    quick_runs=2,
    pieces=pieces,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
