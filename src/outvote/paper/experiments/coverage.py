"""Coverage of certificates and of the paper's bounds under attack, and the share of a radius that is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from outvote import paper
from outvote.paper.experiments import checking
from outvote.paper.experiments.base import Experiment, Finding, Piece, Size, Table, Tables, Verdict, column
from outvote.paper.experiments.checking import checked, rows_of
from outvote.paper.experiments.coverage_cases import AT_RADIUS, CASES, Case
from outvote.paper.experiments.coverage_trials import TRIALS, Tried, attack, parts_of
from outvote.paper.experiments.estimation import Array
from outvote.plotting.base import COLORS, new_panels

DELTAS = (0.1, 0.01)
#: Confidence of the interval for a miss rate.
SURE = 0.99
#: Rows, numbers of outliers and δ for the ranges of the paper's bounds.
N_ROWS, OUTLIERS, ORDINARY = 1000, (0, 1, 2, 3, 5, 10, 50), 0.05
#: The column of bounds on a loss in [0, 1].
LOSS = "bound for a loss in [0, 1]"
#: Label, marker, edge colour, face colour and provenance.
_MARKERS = (
    ("certified", "o", COLORS["robust"], COLORS["robust"], "certified"),
    ("conditional", "o", COLORS["robust"], "white", "conditional"),
    ("plug-in", "D", COLORS["plain"], "white", "plug-in"),
    ("the paper's, in range", "s", "#222222", "#bbbbbb", "paper, certified"),
)
#: Statements that simulations cannot test, and why.
UNTESTED = {
    "mou-minimizer": "about the exact minimiser of a median of block risks over a class, which no simulation finds",
    "mou-descent": "about the mean over all partitions of a supremum over a class, which no simulation finds",
    "entropy": "about a supremum over a class of which only covering numbers are known",
}


# --- measuring --------------------------------------------------------------------------------------------


def pieces(size: Size) -> list[Piece]:
    """Return one piece for each certificate and δ; if quick, only for the larger δ."""
    found = []
    for number, case in enumerate(CASES):
        for delta in DELTAS[:1] if size.quick or case.expected else DELTAS:
            settings = {"case": number, "delta": delta, "runs": size.runs * case.times}
            found.append(Piece(settings, cost=0.02 + case.seconds * size.runs / 500))
    return found


def measure(rng: np.random.Generator, *, case: int, delta: float, runs: int) -> list[dict[str, Any]]:
    """Try one certificate on `runs` samples, clean and attacked, and count how often the truth is outside."""
    chosen = CASES[case]
    stated, trial = chosen.bound(delta), TRIALS[chosen.function]
    clean = chosen.sample(rng, delta, runs)
    options = chosen.asked(delta, int(rng.integers(2**31)))
    plain = trial(chosen, clean, options)
    tried = {"none": (plain.error, plain.reach)}
    if chosen.outliers:
        parts = parts_of(_planned(chosen, clean, options, plain), options.get("partition", "random"))
        kind = chosen.attack or chosen.adversary
        tried = {} if kind != chosen.adversary else tried  # a certificate broken on purpose covers clean rows
        for place in chosen.places:
            found = trial(chosen, attack(rng, clean, parts, chosen, place), options)
            error, reach = tried.get(kind, (found.error, found.reach))
            worse = found.error / found.reach > error / reach
            tried[kind] = np.where(worse, found.error, error), np.where(worse, found.reach, reach)
    provenance: str = plain.result.certificate.provenance
    if chosen.function.startswith("certificate."):
        provenance = "certified"
    if stated is not None:
        provenance = f"paper, {stated.provenance}"
        tried = {kind: (error, np.full(runs, stated.radius)) for kind, (error, _) in tried.items()}
    return rows_of(
        "coverage",
        [_record(chosen, kind, delta, *both, provenance=provenance, stated=stated) for kind, both in tried.items()],
    )


def _planned(case: Case, clean: list[Array], options: Mapping[str, Any], plain: Tried) -> Any:
    """Return a result with the blocks to attack; if several levels are tried, the blocks for the most corrupt rows."""
    if options["contamination"] != "auto":
        return plain.result
    options = {**options, "contamination": options["max_contamination"]}
    return TRIALS[case.function](replace(case, reading="interval"), [rows[:, :1] for rows in clean], options).result


def _record(
    case: Case, attacked: str, delta: float, error: Array, reach: Array, *, provenance: str, stated: Any
) -> dict[str, Any]:
    """Return how often the radius was too small, and which share of it was needed; a mean error has no misses."""
    runs, misses = len(error), int((error > reach).sum())
    third = case.expected
    delivered = delta if stated is None else math.exp(stated.log_delta)
    low, high = _binomial_interval(misses, runs)
    finite = np.isfinite(reach)
    used = float(error.mean() / reach.mean()) if third else float(np.quantile(error / reach, 1 - delivered))
    return {
        "certificate": case.certificate,
        "given by": case.function,
        "provenance": provenance,
        "law": case.law,
        "adversary": case.adversary,
        "attack": attacked,
        "n": case.n,
        "outliers": case.outliers,
        "delta asked": None if third else delta,
        "delta": None if third else delivered,
        "runs": runs,
        "misses": None if third else misses,
        "coverage": None if third else 1 - misses / runs,
        "lowest miss rate": None if third else low,
        "highest miss rate": None if third else high,
        "mean radius": float(reach[finite].mean()) if finite.any() else None,
        "mean absolute error": float(error.mean()),
        "share used": used,
    }


def _binomial_interval(count: int, runs: int) -> tuple[float, float]:
    """Return the Clopper-Pearson interval for a rate, at the confidence `SURE`."""
    from scipy.special import betaincinv

    tail = (1 - SURE) / 2
    low = betaincinv(count, runs - count + 1, tail) if count else 0.0
    high = betaincinv(count + 1, runs - count, 1 - tail) if count < runs else 1.0
    return float(low), float(high)


def tabulate(records: list[dict[str, Any]]) -> Tables:
    """Return the records, the paper's ranges of δ, and the statements that simulations cannot test."""
    return {**checking.tabulate(records), "coverage.ranges": _ranges(), "coverage.untested": _untested()}


def _ranges() -> Table:
    """Return the largest δ of each of the paper's statements for several numbers of outliers in each sample."""
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
    """Return the statements that simulations cannot test, with their bounds in units of the trivial bound."""
    terms: dict[str, dict[str, Any]] = {"entropy": {"covering": (1.0, 2.0)}}
    rows = []
    for statement, reason in UNTESTED.items():
        settings: dict[str, Any] = {"n": N_ROWS, "n_outliers": 10, "delta": ORDINARY, "clamp": True}
        bound = paper.bound(statement, **settings, **terms.get(statement, {"vc_dim": 3}))
        row = {"statement": statement, "provenance": bound.provenance, "n": N_ROWS, "outliers": 10}
        rows.append({**row, LOSS: float(bound.radius), "why": reason})
    return rows


# --- figure and findings ----------------------------------------------------------------------------------


def draw(tables: Tables) -> Any:
    """Draw the share of its radius that each certificate needs in all settings; points of clean rows are paler."""
    table = [row for row in tables["coverage"] if row["attack"] in ("none", row["adversary"])]
    names = list(dict.fromkeys(row["certificate"] for row in table))
    half, shares = (len(names) + 1) // 2, column(table, "share used")
    panels = new_panels(1, 2, panel=(6.0, 0.19 * half + 1.4))
    for ax, shown in zip(panels, (names[:half], names[half:]), strict=True):
        ax.axvline(1.0, color=COLORS["blocks"], lw=1.2)
        for label, marker, colour, face, chosen in _MARKERS:
            for clean in (True, False):
                rows = [row for row in table if row["provenance"] == chosen and (row["attack"] == "none") is clean]
                rows = [row for row in rows if row["certificate"] in shown]
                ax.plot(
                    column(rows, "share used"),
                    [shown.index(row["certificate"]) for row in rows],
                    label=f"{label}, {'clean' if clean else 'attacked'} rows",
                    marker=marker,
                    ms=5,
                    mec=colour,
                    mfc=face,
                    ls="",
                    alpha=0.3 if clean else 0.9,
                )
        ax.set(
            xscale="log",
            xlim=(0.6 * shares[shares > 0].min(), 1.6 * max(1.0, shares.max())),
            ylim=(half - 0.4, -0.6),
            yticks=range(len(shown)),
            yticklabels=shown,
            xlabel="error that a share 1 - δ of the runs stays below, in radii",
            title="How much of a radius is needed" if ax is panels[0] else "Right of 1 a radius misses too often",
        )
        ax.tick_params(axis="y", labelsize="small")
        ax.grid(alpha=0.3, lw=0.5)
    figure = panels[0].figure
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize="small")
    return figure


def judge(tables: Tables) -> list[Finding]:
    """Judge which certificates cover, which share of a radius they need, and which δ the paper's bounds cover."""
    table = tables["coverage"]
    kept = [row for row in table if row["attack"] in ("none", row["adversary"]) and row["delta"] is not None]
    ours = [row for row in kept if row["provenance"] == "certified"]
    read = [row for row in kept if row["provenance"] == "conditional"]
    guessed = [row for row in kept if row["provenance"] == "plug-in"]
    stated = [row for row in kept if row["provenance"].startswith("paper")]
    broken = [row for row in table if row["attack"] not in ("none", row["adversary"])]
    expected = [row for row in table if row["delta"] is None]
    certified = [row for row in expected if row["provenance"] == "certified"]
    return [
        _covers("every certified radius covers with its confidence", ours),
        _tightness(ours),
        _covers("an interval for an sd read off the rows covers, if the sd of the clean rows is no larger", read),
        _covers("a plug-in radius, which no proof supports, covers with its confidence", guessed),
        checked(
            "a radius for an oblivious adversary fails if the corrupt positions are chosen after a look at the rows",
            all(_missed(row) for row in broken),
            ", ".join(f"it misses in {_rate(row):.2f} of the runs at δ = {row['delta']:g}" for row in broken),
            "too few runs to tell" if broken else "",
        ),
        _covers("every bound of the paper covers, at a δ in its range", stated),
        _on_average("the paper's bounds on an expected error hold", [r for r in expected if r not in certified]),
        _on_average("outvote's bounds on an expected error and an expected squared error hold", certified),
        _reach(tables["coverage.ranges"]),
        _learning(tables["coverage.untested"]),
    ]


def _on_average(claim: str, rows: Table) -> Finding:
    """Compare mean errors, the larger of clean and attacked rows, with their bounds."""
    worst: dict[str, float] = {}
    for row in rows:
        worst[row["certificate"]] = max(row["share used"], worst.get(row["certificate"], 0.0))
    return checked(
        claim,
        all(row["mean absolute error"] <= row["mean radius"] for row in rows),
        "the mean error is at most " + ", ".join(f"{share:.3f} of the bound ({name})" for name, share in worst.items()),
    )


def _rate(row: Mapping[str, Any]) -> float:
    return float(row["misses"] / row["runs"])


def _missed(row: Mapping[str, Any]) -> bool:
    """Return whether a radius misses significantly more often than with probability δ."""
    return bool(row["lowest miss rate"] > row["delta"])


def _setting(row: Mapping[str, Any]) -> str:
    attack = "no" if row["attack"] == "none" else row["attack"]
    return f"{row['certificate']}, {row['law']} rows, {attack} attack"


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
    measured += f"; {share.min():.2g} to {share.max():.2g} of the radius are needed, in half of the settings at most "
    measured += f"{np.median(share):.2g}"
    names = ", ".join(dict.fromkeys(f"{row['certificate']} on {row['law']} rows" for row in missed))
    verdict: Verdict = "holds" if not missed else "holds in part" if len(missed) < len(rows) else "does not hold"
    return Finding(claim, verdict, measured, f"too many misses: {names}" if missed else "")


def _tightness(rows: Table) -> Finding:
    """Judge which share of certified radii was needed, and whether a smaller radius would fail."""
    edge = max((row for row in rows if row["law"] == AT_RADIUS), key=lambda row: _rate(row) / row["delta"])
    exact = "certificate.order_statistic_interval"  # for any symmetric distribution
    others = [row["share used"] for row in rows if row["law"] != AT_RADIUS and row["given by"] != exact]
    return Finding(
        "a certified radius is no larger than it must be",
        "holds in part" if _rate(edge) > 0.4 * edge["delta"] else "does not hold",
        f"if clean rows take two values, one just beyond the radius, it misses in {_rate(edge):.3f} of the runs at "
        f"δ = {edge['delta']:g}, as a smaller would; other distributions need {min(others):.2f} to {max(others):.2f}",
        "it must hold for the worst distribution that the assumption allows, and ordinary distributions are better",
    )


def _reach(ranges: Table) -> Finding:
    """Judge up to how many outliers the paper's bounds cover an ordinary δ."""
    most: dict[str, int] = {}
    for row in ranges:
        if row["statement"] != "standard" and row["covers 0.05"]:
            name = f"{row['statement']}, claim {row['claim']}"
            most[name] = max(most.get(name, 0), row["outliers"])
    least = min(row["log10 of the largest delta"] for row in ranges if row["outliers"] == max(OUTLIERS))
    return checked(
        f"the paper's bounds cover ordinary confidences, δ = {ORDINARY:g}",
        min(most.values()) == max(OUTLIERS),
        f"the largest numbers of outliers among {N_ROWS} rows in each sample: "
        + "; ".join(f"{name}: {count}" for name, count in most.items())
        + f"; with {max(OUTLIERS)} outliers the largest δ can be as small as 1e{least:.0f}",
        "the range ends at e^(-nα/β) or e^(-4nα), for mom about e^(-1) or e^(-16) for each outlier",
    )


def _learning(untested: Table) -> Finding:
    """Judge whether the bounds that simulations cannot test are below the trivial bound."""
    return checked(
        f"the paper's bounds for learning are below the trivial ({N_ROWS} rows, {untested[0]['outliers']} corrupt)",
        all(row[LOSS] < 1 for row in untested),
        ", ".join(
            f"{row['statement']} ({row['provenance']}) {row[LOSS]:.1f} times the trivial bound" for row in untested
        ),
        "their δ must be tiny. Simulations cannot test them: "
        + "; ".join(f"{row['statement']} is {row['why']}" for row in untested),
    )


EXPERIMENT = Experiment(
    name="coverage",
    title="How often certificates cover the truth, and how much of a radius is needed",
    where="beyond the paper",
    runs=500,
    quick_runs=10,
    pieces=pieces,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
