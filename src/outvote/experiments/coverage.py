"""How often certificates and the paper's bounds cover the truth under attack, and how much of a radius is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from outvote import paper
from outvote.contamination import Contamination
from outvote.dealt import Partition
from outvote.estimate import difference, mean, u_statistic
from outvote.experiments import checking
from outvote.experiments.base import Experiment, Finding, Piece, Size, Table, Tables, Verdict, column
from outvote.experiments.checking import checked, rows_of
from outvote.experiments.coverage_cases import AT_RADIUS, CASES, Case
from outvote.experiments.estimation import Array
from outvote.plans import GridPlan
from outvote.plotting.base import COLORS, new_axes

DELTAS = (0.1, 0.01)
#: Confidence of the interval for a miss rate.
SURE = 0.99
#: For the ranges of the paper's bounds.
N_ROWS, OUTLIERS, ORDINARY = 1000, (0, 1, 2, 3, 5, 10, 50), 0.05
#: Bounds on a loss in [0, 1] are listed under this name.
LOSS = "bound for a loss in [0, 1]"
#: Statements that runs cannot test, and why.
UNTESTED = {
    "mou-minimizer": "about the exact minimiser of a median of block risks over a class, which runs do not find",
    "mou-descent": "about the mean over all partitions of a supremum over a class, which runs do not find",
    "entropy": "about a supremum over a class of which only covering numbers are known",
}


# --- measuring --------------------------------------------------------------------------------------------


def pieces(size: Size) -> list[Piece]:
    """Take each certificate at each δ; at the larger one only when quick."""
    found = []
    for number, case in enumerate(CASES):
        third = case.stated is not None and case.stated["claim"] == 3
        for delta in DELTAS[:1] if size.quick or third else DELTAS:
            settings = {"case": number, "delta": delta, "runs": size.runs * case.times}
            found.append(Piece(settings, cost=0.02 + case.seconds * size.runs / 500))
    return found


def measure(rng: np.random.Generator, *, case: int, delta: float, runs: int) -> list[dict[str, Any]]:
    """Try one certificate on `runs` samples and count how often the truth is outside."""
    chosen = CASES[case]
    stated = chosen.bound(delta)
    allowed = Contamination(chosen.outliers, chosen.adversary)
    sampler = chosen.sampler(delta)
    clean = [sampler(rng, (chosen.n, runs)) + shift for shift in range(chosen.samples)]
    options: dict[str, Any] = {
        "contamination": allowed,
        "confidence": 1 - delta,
        "assume": chosen.assume,
        "vote": chosen.vote,
        "rng": int(rng.integers(2**31)),
        **chosen.options,
    }
    if stated is not None:
        options["n_blocks"] = stated.n_blocks if chosen.samples == 1 else tuple(stated.n_blocks)
    first = _estimate(chosen, [rows[:, :1] for rows in clean], options)[0]
    parts = first.plan.partition(rng=first.seed)
    parts = parts if isinstance(first.plan, GridPlan) else (parts,)
    error, reach, worst = np.zeros(runs), np.ones(runs), np.full(runs, -1.0)
    for places in chosen.places if chosen.outliers else chosen.places[:1]:
        rows = [
            _attack(rows, part, place, chosen, start)
            for rows, part, place, start in zip(clean, parts, places, (0, chosen.outliers), strict=False)
        ]
        results = _estimate(chosen, rows, options)
        found = np.abs(np.hstack([result.estimate for result in results]) - chosen.truth)
        radii = np.hstack([result.radius for result in results]) if stated is None else stated.radius
        radii = np.broadcast_to(radii, runs)
        worse = found / radii > worst
        error, reach = np.where(worse, found, error), np.where(worse, radii, reach)
        worst = error / reach
    provenance = first.certificate.provenance if stated is None else f"paper, {stated.provenance}"
    return rows_of("coverage", [_record(chosen, delta, error, reach, provenance, stated)])


def _estimate(case: Case, rows: Sequence[Array], options: Mapping[str, Any]) -> list[Any]:
    """Return the results: one for all columns where the estimator takes them together, else one for each."""
    if case.statistic == "mean":
        return [mean(rows[0], **options)]
    columns = zip(*(sample.T for sample in rows), strict=True)
    if case.statistic == "difference":
        return [difference(*samples, **options) for samples in columns]
    return [u_statistic(*samples, kernel=case.statistic, **options) for samples in columns]


def _attack(clean: Array, part: Partition, place: float, case: Case, start: int) -> Array:
    """Put one outlier into each of so many blocks.

    Oblivious: into blocks chosen beforehand, from `start` on so that two samples do not share any. Adaptive: into those
    whose means lie farthest on the other side.
    """
    rows, firsts = clean.copy(), np.array([block[0] for block in part])
    if (case.attack or case.adversary) == "oblivious":
        rows[firsts[start : start + case.outliers]] = place
        return rows
    means = np.array([clean[block].mean(axis=0) for block in part])
    hit = np.argsort(np.sign(place) * means, axis=0)[: case.outliers]
    rows[firsts[hit], np.arange(clean.shape[1])] = place
    return rows


def _record(case: Case, delta: float, error: Array, reach: Array, provenance: str, stated: Any) -> dict[str, Any]:
    """Write down how often and by how much the radius was enough; a bound on a mean error has no misses."""
    runs, misses = len(error), int((error > reach).sum())
    third = stated is not None and stated.log_delta_range is None
    delivered = delta if stated is None else math.exp(stated.log_delta)
    low, high = _binomial_interval(misses, runs)
    used = float(error.mean() / reach.mean()) if third else float(np.quantile(error / reach, 1 - delivered))
    return {
        "certificate": case.certificate,
        "provenance": provenance,
        "law": case.law,
        "adversary": case.adversary,
        "attack": ("none" if not case.outliers else case.attack or case.adversary),
        "n": case.n,
        "outliers": case.outliers,
        "delta asked": None if third else delta,
        "delta": None if third else delivered,
        "runs": runs,
        "misses": None if third else misses,
        "coverage": None if third else 1 - misses / runs,
        "lowest miss rate": None if third else low,
        "highest miss rate": None if third else high,
        "mean radius": float(reach.mean()),
        "mean absolute error": float(error.mean()),
        "share used": used,
    }


def _binomial_interval(count: int, runs: int) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson for a rate, at the confidence `SURE`."""
    from scipy.stats import binomtest

    interval = binomtest(count, runs).proportion_ci(SURE)
    return float(interval.low), float(interval.high)


def tabulate(records: list[dict[str, Any]]) -> Tables:
    """Collect the records; list the paper's ranges of δ, and what runs cannot test."""
    return {**checking.tabulate(records), "coverage.ranges": _ranges(), "coverage.untested": _untested()}


def _ranges() -> Table:
    """List the largest δ of each of the paper's statements against the number of outliers, in each sample."""
    asked = {(case.stated["statement"], case.stated["claim"]): case for case in CASES if case.stated is not None}
    rows = []
    for (statement, claim), case in asked.items():
        for outliers in OUTLIERS if statement != "standard" else (0,):
            bound = replace(case, n=N_ROWS, outliers=outliers).bound(0.5)
            if bound.log_delta_range is not None:
                largest = bound.log_delta_range[1] / math.log(10)
                rows.append(
                    {
                        "statement": statement,
                        "claim": claim,
                        "n": N_ROWS,
                        "outliers": outliers,
                        "log10 of the largest delta": largest,
                        "covers 0.05": largest >= math.log10(ORDINARY),
                    }
                )
    return rows


def _untested() -> Table:
    """List the statements that no runs can test, with their bounds in units of the trivial one."""
    terms: dict[str, dict[str, Any]] = {"entropy": {"covering": (1.0, 2.0)}}
    rows = []
    for statement, reason in UNTESTED.items():
        settings: dict[str, Any] = {"n": N_ROWS, "n_outliers": 10, "delta": ORDINARY, "clamp": True}
        bound = paper.bound(statement, **settings, **terms.get(statement, {"vc_dim": 3}))
        row = {"statement": statement, "provenance": bound.provenance, "n": N_ROWS, "outliers": 10}
        rows.append({**row, LOSS: float(bound.radius), "why": reason})
    return rows


# --- what became of it ------------------------------------------------------------------------------------


def draw(tables: Tables) -> Any:
    """Draw for each certificate the share of its radius that was needed, in all settings."""
    table = [row for row in tables["coverage"] if row["attack"] in ("none", row["adversary"])]
    names = list(dict.fromkeys(row["certificate"] for row in table))
    ax = new_axes(figsize=(8.0, 0.25 * len(names) + 1.6))
    ax.axvline(1.0, color=COLORS["blocks"], lw=1.2)
    for label, marker, colour, face, chosen in (
        ("certified", "o", COLORS["robust"], COLORS["robust"], "certified"),
        ("plug-in", "D", COLORS["plain"], "white", "plug-in"),
        ("the paper's, in range", "s", "#222222", "#bbbbbb", "paper, certified"),
    ):
        rows = [row for row in table if row["provenance"] == chosen]
        height = [names.index(row["certificate"]) for row in rows]
        share = column(rows, "share used")
        style = {"marker": marker, "ms": 6, "mec": colour, "mfc": face, "ls": "", "alpha": 0.9}
        ax.plot(share, height, label=label, **style)
    ax.set(
        xscale="log",
        yticks=range(len(names)),
        yticklabels=names,
        xlabel="error that all but δ of the runs stay below, as a share of the radius",
        title="How much of a radius is needed: right of 1 it misses too often",
    )
    ax.tick_params(axis="y", labelsize="small")
    ax.invert_yaxis()
    ax.grid(alpha=0.3, lw=0.5)
    ax.legend(loc="upper center", bbox_to_anchor=(0.3, -0.07), ncols=3, fontsize="small", frameon=False)
    return ax.figure


def judge(tables: Tables) -> list[Finding]:
    """Say which certificates cover, how much of a radius they need, and at which δ the paper's bounds speak."""
    table = tables["coverage"]
    ours = [row for row in table if row["provenance"] == "certified" and row["attack"] in ("none", row["adversary"])]
    broken = [row for row in table if row["attack"] not in ("none", row["adversary"])]
    guessed = [row for row in table if row["provenance"] == "plug-in"]
    stated = [row for row in table if row["provenance"].startswith("paper") and row["delta"] is not None]
    expected = [row for row in table if row["delta"] is None]
    return [
        _covers("every certified radius covers as often as it says", ours),
        _tightness(ours),
        _covers("a plug-in radius, which no proof supports, covers as often as it says", guessed),
        checked(
            "a radius for corrupt positions chosen blindly fails where they are chosen after a look at the rows",
            all(_missed(row) for row in broken),
            ", ".join(f"it misses {_rate(row):.2f} of the time at δ = {row['delta']:g}" for row in broken),
            "too few runs to tell" if broken else "",
        ),
        _covers("every bound of the paper covers, at a δ in its range", stated),
        checked(
            "the paper's bounds on an expected error hold",
            all(row["mean absolute error"] <= row["mean radius"] for row in expected),
            "the mean error is "
            + ", ".join(f"{row['share used']:.3f} of the bound ({row['certificate']})" for row in expected),
        ),
        _reach(tables["coverage.ranges"]),
        _learning(tables["coverage.untested"]),
    ]


def _rate(row: Mapping[str, Any]) -> float:
    return float(row["misses"] / row["runs"])


def _missed(row: Mapping[str, Any]) -> bool:
    """Tell whether a radius misses more often than it says, beyond doubt."""
    return bool(row["lowest miss rate"] > row["delta"])


def _setting(row: Mapping[str, Any]) -> str:
    return f"{row['certificate']}, {row['law']} rows, {row['attack']} attack"


def _covers(claim: str, rows: Table) -> Finding:
    missed = [row for row in rows if _missed(row)]
    worst = max(rows, key=lambda row: _rate(row) - row["delta"] if row["misses"] else -1.0)
    share = column(rows, "share used")
    measured = f"{len(rows) - len(missed)} of {len(rows)} settings cover"
    if worst["misses"]:
        measured += (
            f", the worst has a miss rate of {_rate(worst):.3f} at δ = {worst['delta']:.2g} ({_setting(worst)}, "
            f"{100 * SURE:g} % interval from {worst['lowest miss rate']:.3f} on)"
        )
    else:
        measured += f" without a single miss in {sum(row['runs'] for row in rows)} runs"
    measured += f"; {share.min():.2g} to {share.max():.2g} of the radius are needed, half the time at most "
    measured += f"{np.median(share):.2g}"
    names = ", ".join(dict.fromkeys(f"{row['certificate']} on {row['law']} rows" for row in missed))
    verdict: Verdict = "holds" if not missed else "holds in part" if len(missed) < len(rows) else "does not hold"
    return Finding(claim, verdict, measured, f"too many misses: {names}" if missed else "")


def _tightness(rows: Table) -> Finding:
    """Say how much of certified radii was needed, and what smaller ones would do where the law is the worst."""
    edge = max((row for row in rows if row["law"] == AT_RADIUS), key=lambda row: _rate(row) / row["delta"])
    others = [row["share used"] for row in rows if row["law"] != AT_RADIUS]
    return Finding(
        "a certified radius is no larger than it must be",
        "holds in part" if _rate(edge) > 0.4 * edge["delta"] else "does not hold",
        f"where clean rows take two values, one just beyond the radius, it misses {_rate(edge):.3f} of the time at "
        f"δ = {edge['delta']:g}, as any smaller would; other laws need {min(others):.2f} to {max(others):.2f} of it",
        "it must hold for the worst law that the assumption allows, and ordinary laws are kinder",
    )


def _reach(ranges: Table) -> Finding:
    """Say up to how many outliers the paper's bounds cover an ordinary δ."""
    most: dict[str, int] = {}
    for row in ranges:
        if row["statement"] != "standard" and row["covers 0.05"]:
            name = f"{row['statement']}, claim {row['claim']}"
            most[name] = max(most.get(name, 0), row["outliers"])
    least = min(row["log10 of the largest delta"] for row in ranges if row["outliers"] == max(OUTLIERS))
    return checked(
        f"the paper's bounds speak of ordinary confidences, δ = {ORDINARY:g}",
        min(most.values()) == max(OUTLIERS),
        f"of {N_ROWS} rows in each sample at most so many may be outliers: "
        + "; ".join(f"{name}: {count}" for name, count in most.items())
        + f"; with {max(OUTLIERS)} outliers the largest δ can be as small as 1e{least:.0f}",
        "the range ends at e^(-nα/β) or e^(-4nα), for mom about e^(-1) or e^(-16) for each outlier",
    )


def _learning(untested: Table) -> Finding:
    """Say whether the bounds that runs cannot test say anything at all."""
    return checked(
        f"the paper's bounds for learning are below the trivial one ({N_ROWS} rows, {untested[0]['outliers']} corrupt)",
        all(row[LOSS] < 1 for row in untested),
        ", ".join(
            f"{row['statement']} ({row['provenance']}) {row[LOSS]:.1f} times the trivial bound" for row in untested
        ),
        "their δ must be tiny. Runs cannot test them: "
        + "; ".join(f"{row['statement']} is {row['why']}" for row in untested),
    )


EXPERIMENT = Experiment(
    name="coverage",
    title="How often certificates cover, and how much of them is needed",
    where="beyond the paper",
    runs=500,
    quick_runs=20,
    pieces=pieces,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
