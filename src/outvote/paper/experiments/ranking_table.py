"""Table ranking: test losses on boston and wine, and the trajectories that the paper does not show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outvote.paper.experiments import learning
from outvote.paper.experiments.base import Experiment, Finding, Piece, Size, Table, Tables
from outvote.plotting.base import new_panels

#: The paper's mean test losses, and their ±.
PUBLISHED = {
    ("boston", "GD", "sane"): (0.35, 0.04),
    ("boston", "MoU-GD", "sane"): (0.36, 0.05),
    ("boston", "GD", "contaminated"): (0.99, 0.68),
    ("boston", "MoU-GD", "contaminated"): (0.36, 0.05),
    ("wine", "GD", "sane"): (0.73, 0.02),
    ("wine", "MoU-GD", "sane"): (0.74, 0.02),
    ("wine", "GD", "contaminated"): (0.92, 0.11),
    ("wine", "MoU-GD", "contaminated"): (0.74, 0.02),
}
#: Seconds of a run.
_COSTS = {"boston": 0.4, "wine": 1.0}
_NAMES = ("boston", "wine")


def pieces(size: Size) -> list[Piece]:
    """Return pieces of the runs of each data set."""
    shorter = 20 if size.quick else 1
    return [
        piece
        for name in _NAMES
        for piece in learning.cut_runs(size.runs, 5, 5, _COSTS[name] / shorter, {"name": name, "shorter": shorter})
    ]


def measure(
    rngs: Sequence[np.random.Generator], *, name: str, runs: Sequence[int], shorter: int
) -> list[dict[str, Any]]:
    """Run the four descents on fresh splits."""
    given: list[_Run] = []
    for rng in learning.each_run(rngs, runs):
        sane, test = learning.split(name, rng)
        seed = learning.seed_from(rng)  # all descents of a run start at the same parameter
        given.append(_Run(sane, test, seed, learning.draw_outliers(name, rng, sane)))
    epochs = learning.SETTINGS[name].epochs // shorter
    found = _descend(name, "sane", epochs, given, [run.sane for run in given])
    ends = [traces["GD"].theta for traces, _ in found]
    dirty = [learning.add_outliers(name, run.sane, run.drawn, end)[0] for run, end in zip(given, ends, strict=True)]
    pairs = zip(found, _descend(name, "contaminated", epochs, given, dirty), strict=True)
    return [record for both in pairs for _, records in both for record in records]


@dataclass(frozen=True)
class _Run:
    """The random parts of a run: rows, seed, and outliers before they are moved to their place."""

    sane: learning.Rows
    test: learning.Rows
    seed: int
    drawn: learning.Rows


def _descend(
    name: str, kind: str, epochs: int, given: Sequence[_Run], rows: Sequence[learning.Rows]
) -> list[tuple[dict[str, learning.Trace], list[dict[str, Any]]]]:
    """Run both descents on the rows of every run, and return their traces and records."""
    traces = [{algorithm: learning.Trace(name, run.test) for algorithm in ("GD", "MoU-GD")} for run in given]
    models = [
        learning.descent(name, algorithm, max_iter=epochs, random_state=run.seed, callbacks=[trace])
        for run, own in zip(given, traces, strict=True)
        for algorithm, trace in own.items()
    ]
    accepted = iter(learning.accepted(models, [own for own in rows for _ in ("GD", "MoU-GD")]))
    return [(own, [_record(name, kind, *one, next(accepted)) for one in own.items()]) for own in traces]


def _record(name: str, kind: str, algorithm: str, trace: learning.Trace, accepted: bool) -> dict[str, Any]:
    return {
        "data": name,
        "rows": kind,
        "descent": algorithm,
        "epochs": trace.epochs,
        "test": trace.losses,
        "end": trace.loss_at(trace.theta),
        "averaged": trace.loss_at(trace.mean_theta),
        "jitter": trace.jitter(),
        "refused": not accepted,
    }


def tabulate(records: list[dict[str, Any]]) -> Tables:
    """Compare our losses with the published ones, and average the paths."""
    return {
        "ranking-table": _losses(records),
        "ranking-table.trajectories": learning.average_paths(records, ("data", "descent", "rows"), ("test",)),
    }


def _losses(records: list[dict[str, Any]]) -> Table:
    table = []
    for (data, kind, algorithm), runs in learning.group(records, "data", "rows", "descent").items():
        ends = [run["end"] for run in runs]
        found = learning.spread(ends)
        published, give = PUBLISHED[data, algorithm, kind]
        sane = np.median([r["end"] for r in records if (r["data"], r["rows"], r["descent"]) == (data, "sane", "GD")])
        table.append(
            {
                "data": data,
                "rows": kind,
                "descent": algorithm,
                "test loss": found["mean"],
                "standard deviation": found["standard deviation"],
                "published": published,
                "published ±": give,
                "median": float(np.median(ends)),
                "standard error": found["standard error"],
                "above 3 times sane GD": int(np.sum(np.array(ends) > 3 * sane)),
                "loss of the averaged path": float(np.mean([run["averaged"] for run in runs])),
                "jitter": float(np.mean([run["jitter"] for run in runs])),
                "refused": sum(run["refused"] for run in runs),
                "runs": len(runs),
            }
        )
    return table


def draw(tables: Tables) -> Any:
    """Draw test losses against the epochs, as medians: plain descent on contaminated rows has two kinds of runs."""
    panels = new_panels(1, 2, panel=(5.2, 4.0))
    for ax, name in zip(panels, _NAMES, strict=True):
        learning.draw_paths(ax, tables["ranking-table.trajectories"], "test", quartiles=True, data=name)
        row = next(row for row in tables["ranking-table"] if row["data"] == name)
        ax.set(title=f"{name}, {row['runs']} runs", ylabel="test loss of a pair (median, quartiles)")
        learning.log_ticks(ax)
    learning.share_legend(panels[0].figure, panels[0])
    return panels[0].figure


def judge(tables: Tables) -> list[Finding]:
    """Compare the table cell by cell, and judge the paper's conclusions from it."""
    table = tables["ranking-table"]
    return [
        _published(table),
        _resists(table),
        _harmed(table),
        _similar(table),
        _instability(table),
    ]


def _cell(table: Table, name: str, algorithm: str, rows: str) -> dict[str, Any]:
    return next(row for row in table if (row["data"], row["descent"], row["rows"]) == (name, algorithm, rows))


def _published(table: Table) -> Finding:
    off = [row for row in table if abs(row["test loss"] - row["published"]) > row["published ±"]]
    listed = "; ".join(
        f"{row['data']} {row['descent']} on {row['rows']} rows {row['test loss']:.2f}"
        f"{'' if row['standard deviation'] is None else ' ± ' + format(row['standard deviation'], '.2f')}"
        f" (published {row['published']:.2f} ± {row['published ±']:.2f})"
        for row in table
    )
    wide = [row for row in table if (row["standard deviation"] or 0.0) > 2 * row["published ±"]]
    why = [f"outside: {_named(off)}"] if off else []
    why += [
        f"{row['data']} {row['descent']} on {row['rows']} rows spreads more than twice as much as published: its runs "
        f"end in different places, and the mean of {row['runs']} has a standard error of {row['standard error']:.2f}"
        for row in wide
    ]
    return Finding(
        "the eight test losses of the table",
        "holds" if not off and not wide else "holds in part" if len(off) < len(table) / 2 else "does not hold",
        f"{len(table) - len(off)} of {len(table)} within the published ±: {listed}",
        "; ".join(why),
    )


def _named(rows: Table) -> str:
    return ", ".join(f"{row['data']} {row['descent']} on {row['rows']} rows" for row in rows)


def _resists(table: Table) -> Finding:
    ratios = {
        name: _cell(table, name, "MoU-GD", "contaminated")["test loss"] / _cell(table, name, "GD", "sane")["test loss"]
        for name in _NAMES
    }
    near = sum(ratio < 1.1 for ratio in ratios.values())
    return Finding(
        "MoU-GD resists the outliers and attains almost the performance of GD on sane rows",
        ("does not hold", "holds in part", "holds")[near],
        ", ".join(f"{name}: its loss is {ratio - 1:+.1%} from that of sane GD" for name, ratio in ratios.items()),
    )


def _harmed(table: Table) -> Finding:
    worse, shown = 0, []
    for name in _NAMES:
        bad, sane = (_cell(table, name, "GD", rows) for rows in ("contaminated", "sane"))
        worse += bad["median"] > 1.05 * sane["median"] and bad["test loss"] > 1.1 * sane["test loss"]
        shown.append(
            f"{name}: mean {bad['test loss']:.2f} against {sane['test loss']:.2f}, median {bad['median']:.2f} against "
            f"{sane['median']:.2f}, "
            f"{bad['above 3 times sane GD']} of {bad['runs']} runs above three times that, {bad['refused']} refused as "
            "diverged"
        )
    return Finding(
        "outliers keep GD from converging to the parameter that it reaches on sane rows",
        ("does not hold", "holds in part", "holds")[worse],
        "; ".join(shown),
        "the mean says little: depending on the start, some runs end near twice the sane loss and others are reversed"
        if any(_cell(table, name, "GD", "contaminated")["above 3 times sane GD"] for name in _NAMES)
        else "",
    )


def _similar(table: Table) -> Finding:
    def ends(name: str) -> dict[tuple[str, str], float]:
        return {(a, r): _cell(table, name, a, r)["median"] for a, r in learning.DESCENTS}

    worst = sum(max(ends(name), key=ends(name).__getitem__) == ("GD", "contaminated") for name in _NAMES)
    better = [
        name
        for name in _NAMES
        if _cell(table, name, "MoU-GD", "contaminated")["test loss"]
        < _cell(table, name, "MoU-GD", "sane")["test loss"]
        - 2 * (_cell(table, name, "MoU-GD", "sane")["standard error"] or 0)
    ]
    spread = max((_cell(table, name, "GD", "contaminated")["standard deviation"] or 0.0) for name in _NAMES)
    whole = worst == 2 and len(better) == 2
    turned = any(_cell(table, name, "GD", "contaminated")["above 3 times sane GD"] for name in _NAMES)
    why = ["MoU-GD does not gain from outliers as it does on iris"] if len(better) < 2 else []
    why += ["GD on contaminated rows has two kinds of runs, but only one kind on iris"] if turned else []
    return Finding(
        "the trajectories are very similar to those of metric learning",
        "holds" if whole else "holds in part" if worst else "does not hold",
        f"GD on contaminated rows ends worst on {worst} of 2 data sets, with a standard deviation of up to "
        f"{spread:.2f} between runs; MoU-GD is clearly better with outliers than without on {len(better)} of 2",
        "" if whole else "; ".join(why),
    )


def _instability(table: Table) -> Finding:
    shown, closed = [], 0
    for name in _NAMES:
        sane, mou = _cell(table, name, "GD", "sane"), _cell(table, name, "MoU-GD", "contaminated")
        gap, smooth = (mou[key] - sane["test loss"] for key in ("test loss", "loss of the averaged path"))
        closed += smooth < 0.5 * gap
        shown.append(
            f"{name}: the gap to sane GD is {gap:+.3f}, {smooth:+.3f} for the mean of the last half of the path (its "
            f"loss varies by {mou['jitter']:.3f} from epoch to epoch)"
        )
    return Finding(
        "the little gap to sane GD may be due to the instability of MoU-GD",
        ("does not hold", "holds in part", "holds")[closed],
        "; ".join(shown),
    )


EXPERIMENT = Experiment(
    name="ranking-table",
    title="Ranking boston and wine",
    where="Table ranking",
    runs=50,
    quick_runs=2,
    pieces=pieces,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
