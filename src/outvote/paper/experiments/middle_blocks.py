"""Beyond the paper: steps on the middle quarter of the blocks, cut to length 1, compared with the median block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outvote.blocks.choose import plan_blocks
from outvote.paper.experiments import learning
from outvote.paper.experiments.base import Experiment, Finding, Piece, Size, Table, Tables, Verdict
from outvote.plotting.base import COLORS, new_panels

PAPER, MIDDLE, DEFAULT = "Algorithm 1", "middle quarter, clipped", "outvote's default"
_STYLES = {
    PAPER: {"marker": "o", "color": COLORS["plain"]},
    MIDDLE: {"marker": "^", "color": COLORS["blocks"]},
    DEFAULT: {"marker": "s", "color": COLORS["robust"]},
}
_NAMES = ("boston", "wine")
#: Outliers as a share of the sane rows; None is the paper's share.
_SHARES = (None, 0.1)
_STARTS = ("0", "N(0, I)")
#: Seconds of a run in all settings.
_COSTS = {"boston": 3.4, "wine": 3.0}
_DEFAULT_EPOCHS = 300
#: A run has failed if its loss is more than this factor times the median loss of plain descent on sane rows.
_FAILED = 1.5
#: If the test loss varies by less, it no longer moves: every score is saturated.
_STILL = 1e-9
#: Epochs between two computations of the test loss.
_EVERY = 5


def pieces(size: Size) -> list[Piece]:
    """Return pieces of the runs of each data set."""
    shorter = 20 if size.quick else 1
    return [
        piece
        for name in _NAMES
        for piece in learning.cut_runs(size.runs, 2, 4, _COSTS[name] / shorter, {"name": name, "shorter": shorter})
    ]


@dataclass(frozen=True)
class _Run:
    """The random parts of a run: rows, seed, a start far from 0, and outliers for each share."""

    sane: learning.Rows
    test: learning.Rows
    seed: int
    wide: Any
    drawn: Sequence[learning.Rows]


def measure(
    rngs: Sequence[np.random.Generator], *, name: str, runs: Sequence[int], shorter: int
) -> list[dict[str, Any]]:
    """Run three descents on fresh splits, at two contaminations and from two starts."""
    given = [_drawn(name, rng) for rng in learning.each_run(rngs, runs)]
    seeds = [run.seed for run in given]
    ends = learning.sane_weights_of_each(name, [run.sane for run in given], seeds, shorter=4 * min(shorter, 5))
    records: list[dict[str, Any]] = []
    data: list[learning.Rows] = []
    fits: list[tuple[Any, learning.Trace]] = []
    for run, weights in zip(given, ends, strict=True):
        assert weights is not None
        clean = learning.Trace(name, run.test).loss_at(weights)
        for share, drawn in zip(_SHARES, run.drawn, strict=True):
            dirty, bad = learning.add_outliers(name, run.sane, drawn, weights)
            for start, init in zip(_STARTS, (np.zeros_like(run.wide), run.wide), strict=True):
                for algorithm in (PAPER, MIDDLE, DEFAULT):
                    described = {"data": name, "outliers": int(bad.sum()), "start": start, "descent": algorithm}
                    records.append({**described, "share": _share(name, share), "clean": clean})
                    data.append(dirty)
                    fits.append(_model(name, algorithm, dirty, run.test, int(bad.sum()), init, run.seed, shorter))
    accepted = learning.accepted([model for model, _ in fits], data)
    tests = [run.test for run in given for _ in range(len(fits) // len(given))]
    return [
        {**record, **_found(name, *fit, test, fitted)}
        for record, fit, test, fitted in zip(records, fits, tests, accepted, strict=True)
    ]


def _drawn(name: str, rng: np.random.Generator) -> _Run:
    sane, test = learning.split(name, rng)
    seed, wide = learning.seed_from(rng), rng.normal(size=sane[0].shape[1])
    return _Run(sane, test, seed, wide, [learning.draw_outliers(name, rng, sane, share) for share in _SHARES])


def _share(name: str, share: float | None) -> float:
    return learning.SETTINGS[name].share if share is None else share


def _model(
    name: str, algorithm: str, dirty: learning.Rows, test: learning.Rows, count: int, init: Any, seed: int, shorter: int
) -> tuple[Any, learning.Trace]:
    """Return a model and its trace."""
    from outvote.learning import RobustRanker
    from outvote.learning.scaling import robust_scaling

    options = {"contamination": count, "init": init, "random_state": seed}
    if algorithm == DEFAULT:
        epochs = _DEFAULT_EPOCHS // shorter
        trace = learning.Trace(name, test, _EVERY, epochs - learning.TAIL, robust_scaling(dirty[0], count))
        options["finish"] = False  # the experiment follows the descent to its end
        return RobustRanker(loss="product", max_iter=epochs, callbacks=[trace], **options), trace
    epochs = learning.SETTINGS[name].epochs // shorter
    trace = learning.Trace(name, test, _EVERY, epochs - learning.TAIL)
    options |= {"n_blocks": plan_blocks(len(dirty[1]), count, degree=2, method="harmonic").n_blocks}
    options |= {"middle": 0.25, "step_rule": "clipped"} if algorithm == MIDDLE else {}
    return learning.descent(name, "MoU-GD", max_iter=epochs, callbacks=[trace], **options), trace


def _found(name: str, model: Any, trace: learning.Trace, test: learning.Rows, accepted: bool) -> dict[str, Any]:
    """Return the final loss, its standard deviation over the last epochs, and whether the fit was refused."""
    end = learning.model_loss(name, model, test) if accepted else trace.loss_at(trace.theta)
    return {"end": end, "jitter": trace.jitter(), "refused": not accepted}


def tabulate(records: list[dict[str, Any]]) -> Tables:
    """Average each setting, and keep every run for the figure."""
    by_data = learning.group(records, "data").items()
    sane = {name: float(np.median([run["clean"] for run in runs])) for (name,), runs in by_data}
    table, each = [], []
    for (data, outliers, share, start, algorithm), runs in learning.group(
        records, "data", "outliers", "share", "start", "descent"
    ).items():
        ends = [run["end"] for run in runs]
        stuck = [run["jitter"] < _STILL for run in runs]
        failed = [run["end"] > _FAILED * sane[data] for run in runs]
        steady = [run["jitter"] for run, *lost in zip(runs, stuck, failed, strict=True) if not any(lost)]
        found = learning.spread(ends)
        setting = {"data": data, "outliers": outliers, "share": share, "start": start, "descent": algorithm}
        table.append(
            {
                **setting,
                "test loss": found["mean"],
                "standard deviation": found["standard deviation"],
                "median": float(np.median(ends)),
                "failed": sum(failed),
                "stuck": sum(stuck),
                "refused": sum(run["refused"] for run in runs),
                "jitter": float(np.median(steady)) if steady else None,
                "sane loss": sane[data],
                "runs": len(runs),
            }
        )
        each += [{**setting, "run": at, "test loss": run["end"]} for at, run in enumerate(runs)]
    return {"middle-blocks": table, "middle-blocks.runs": each}


def draw(tables: Tables) -> Any:
    """Draw the final loss of every run, and how much the loss varies over the last epochs."""
    panels = new_panels(2, 2, panel=(5.4, 3.1))
    for ax, name in zip(panels[:2], _NAMES, strict=True):
        _draw_losses(ax, [row for row in tables["middle-blocks.runs"] if row["data"] == name])
        sane = next(row["sane loss"] for row in tables["middle-blocks"] if row["data"] == name)
        ax.axhline(sane, color="black", lw=0.8, ls=":", label="plain descent on sane rows (median)")
        ax.set(title=name, ylabel="test loss at the end, each run")
    for ax, name in zip(panels[2:], _NAMES, strict=True):
        _draw_jitter(ax, [row for row in tables["middle-blocks"] if row["data"] == name])
        ax.set(ylabel=f"sd of the loss, last {learning.TAIL} epochs")
    for ax in panels:
        learning.log_ticks(ax)
        ax.grid(alpha=0.3, axis="y", lw=0.5)
    learning.share_legend(panels[0].figure, panels[0])
    return panels[0].figure


def _places(rows: Table) -> dict[tuple[float, str], int]:
    """Number the settings from left to right."""
    return {setting: place for place, setting in enumerate(dict.fromkeys((r["share"], r["start"]) for r in rows))}


def _name_places(ax: Any, places: dict[tuple[float, str], int]) -> None:
    labels = [f"{share:.0%} outliers\nstart {start}" for share, start in places]
    ax.set_xticks(list(places.values()), labels, fontsize="small")


def _draw_losses(ax: Any, rows: Table) -> None:
    places = _places(rows)
    for shift, (algorithm, style) in zip((-0.26, 0.0, 0.26), _STYLES.items(), strict=True):
        chosen = [row for row in rows if row["descent"] == algorithm]
        # The runs are drawn side by side, so that points do not hide each other.
        n_runs = 1 + max(row["run"] for row in chosen)
        x = [places[row["share"], row["start"]] + shift + 0.2 * (row["run"] / n_runs - 0.5) for row in chosen]
        ax.scatter(x, [row["test loss"] for row in chosen], s=14, alpha=0.8, lw=0, label=algorithm, **style)
    _name_places(ax, places)


def _draw_jitter(ax: Any, rows: Table) -> None:
    places = _places(rows)
    for shift, (algorithm, style) in zip((-0.26, 0.0, 0.26), _STYLES.items(), strict=True):
        chosen = [row for row in rows if row["descent"] == algorithm]
        x = [places[row["share"], row["start"]] + shift for row in chosen]
        ax.scatter(x, np.array([row["jitter"] for row in chosen], dtype=float), s=36, label=algorithm, **style)
    _name_places(ax, places)


def judge(tables: Tables) -> list[Finding]:
    """Count failures, and compare losses and their variation."""
    table = tables["middle-blocks"]
    return [
        _from_zero(table),
        *(_no_failure(table, name) for name in (MIDDLE, DEFAULT)),
        _steadier(table),
        _loss(table),
    ]


def _rows(table: Table, algorithm: str, **where: Any) -> Table:
    chosen = {"descent": algorithm, **where}
    return [row for row in table if all(row[key] == value for key, value in chosen.items())]


def _failures(rows: Table) -> str:
    return f"{sum(row['failed'] for row in rows)} of {sum(row['runs'] for row in rows)}"


def _from_zero(table: Table) -> Finding:
    zero = [_rows(table, PAPER, start="0", data=name) for name in _NAMES]
    bad = sum(sum(row["failed"] for row in rows) > 0 for rows in zero)
    return Finding(
        "Algorithm 1 is not safe from a start at 0, where all blocks tie and a corrupt one can be chosen",
        ("does not hold", "holds in part", "holds")[bad],
        ", ".join(f"{name}: {_failures(rows)} runs fail" for name, rows in zip(_NAMES, zero, strict=True))
        + f"; from N(0, I): {_failures(_rows(table, PAPER, start='N(0, I)'))}; "
        f"{sum(row['stuck'] for row in _rows(table, PAPER))} runs in all end where every score is saturated and "
        "the parameter does not move",
    )


def _no_failure(table: Table, algorithm: str) -> Finding:
    rows = _rows(table, algorithm)
    failed, others = (sum(row["failed"] for row in some) for some in (rows, _rows(table, PAPER)))
    verdict: Verdict = "holds" if not failed else "holds in part" if failed < others else "does not hold"
    worst = max(rows, key=lambda row: row["test loss"] / row["sane loss"])
    return Finding(
        f"{algorithm}: no run fails, from any start and at either contamination",
        verdict,
        f"{_failures(rows)} runs end above {_FAILED} times the loss on sane rows (Algorithm 1: "
        f"{_failures(_rows(table, PAPER))}); at worst the mean is {worst['test loss']:.3f} against "
        f"{worst['sane loss']:.3f} on sane rows ({worst['data']}, {worst['share']:.0%}, start {worst['start']})",
        "it is safe from 0; from far away, where scores are saturated, its bounded steps return too slowly"
        if failed and not any(row["failed"] for row in rows if row["start"] == "0")
        else "",
    )


def _steadier(table: Table) -> Finding:
    both = zip(_rows(table, PAPER), _rows(table, MIDDLE), strict=True)
    ratios = [paper["jitter"] / middle["jitter"] for paper, middle in both if paper["jitter"] and middle["jitter"]]
    low, usual, high = np.quantile(ratios or [0.0], [0, 0.5, 1])
    return Finding(
        "the middle quarter makes the path steadier by a factor of three",
        "holds" if usual >= 2.5 else "holds in part" if usual > 1.5 else "does not hold",
        f"the sd of the test loss over the last {learning.TAIL} epochs, in runs that neither fail nor stop moving, is "
        f"{usual:.1f} times smaller in the median setting, from {low:.1f} to {high:.1f} times",
    )


def _loss(table: Table) -> Finding:
    shown, better, places = [], 0, 0
    for name in _NAMES:
        for share in dict.fromkeys(row["share"] for row in _rows(table, PAPER, data=name)):
            medians = {
                algorithm: float(np.mean([row["median"] for row in _rows(table, algorithm, data=name, share=share)]))
                for algorithm in (PAPER, MIDDLE, DEFAULT)
            }
            places += 1
            better += max(medians[MIDDLE], medians[DEFAULT]) <= medians[PAPER]
            shown.append(f"{name} {share:.0%}: " + ", ".join(f"{value:.3f}" for value in medians.values()))
    return Finding(
        "both end with a lower loss than Algorithm 1",
        "holds" if better == places else "holds in part" if better else "does not hold",
        f"median test loss of {PAPER}, {MIDDLE}, {DEFAULT}: " + "; ".join(shown),
    )


EXPERIMENT = Experiment(
    name="middle-blocks",
    title="The middle blocks against the median block",
    where="beyond the paper",
    runs=16,
    quick_runs=2,
    pieces=pieces,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
