"""Prop. mom, claim 3: the error of a median of means against n, if the number of outliers grows like n^α_O."""

from __future__ import annotations

from typing import Any

import numpy as np

from outvote import paper
from outvote.contamination import Contamination
from outvote.data.text import spaced
from outvote.estimate.mean import mean
from outvote.paper.experiments import estimation
from outvote.paper.experiments.base import Experiment, Finding, Piece, Size, Table, Tables, column
from outvote.paper.experiments.checking import checked, rows_of
from outvote.plotting.base import LINES, new_panels

#: α_O: the number of outliers is at most n^α_O.
EXPONENTS = (0.0, 0.25, 0.5, 0.75)
#: The value of all outliers, far above the rows: every block with an outlier is off to the same side.
PLACE = 1e6
MOM, TRIMMED = "MoM", "trimmed mean"
#: Slopes that differ by less count as equal.
TOLERANCE = 0.05
#: At most this many numbers are drawn for one n, so that the largest n gets fewer runs.
_NUMBERS = 30_000_000


def pieces(size: Size) -> list[Piece]:
    """Return pieces for two numbers of rows per decade from 1000 on, with fewer runs for large ones."""
    decades = 2 if size.quick else 6
    found = []
    for n in (round(1000 * 10 ** (step / 2)) for step in range(decades + 1)):
        found += estimation.pieces(Size(min(size.runs, max(2, _NUMBERS // n)), size.quick), [n], call=1000)
    return found


def measure(rng: np.random.Generator, *, n: int, runs: int) -> list[dict[str, Any]]:
    """Estimate the mean of `runs` columns of n normal rows, with n^α_O outliers for every α_O."""
    clean = rng.normal(size=(n, runs))
    records = []
    for exponent in EXPONENTS:
        allowed = Contamination.growth(exponent=exponent)
        count = allowed.count(n)
        blocks = estimation.harmonic(n, count)
        rows = estimation.corrupt(rng, clean, PLACE, count)
        setting = {"exponent": exponent, "n": n, "outliers": count, "blocks": blocks, "block size": n // blocks}
        found = {
            MOM: mean(rows, contamination=allowed, vote="median", n_blocks=blocks, rng=rng).estimate,
            TRIMMED: estimation.trimmed_mean(rows, count),
        }
        records += [{**setting, "estimator": name, "errors": np.abs(found[name]).tolist()} for name in found]
    return rows_of("rate.errors", records)


def tabulate(records: list[dict[str, Any]]) -> Tables:
    """Average over the runs, add the bound to the errors, and fit slopes."""
    errors = estimation.tabulate(records)["rate.errors"]
    for row in errors:
        bound = paper.bound("mom", 3, n=row["n"], n_outliers=row["outliers"], growth=(1.0, row["exponent"]))
        row["bound"] = float(bound.radius) if row["estimator"] == MOM else None
    slopes = []
    for name in (MOM, TRIMMED):
        for exponent in EXPONENTS:
            slope, error = estimation.slope(errors, estimator=name, exponent=exponent)
            slopes.append(
                {
                    "estimator": name,
                    "exponent": exponent,
                    "slope": slope,
                    "standard error": error if np.isfinite(error) else None,
                    "predicted": -(1 - exponent) / 2 if name == MOM else None,
                }
            )
    return {"rate": slopes, "rate.errors": errors}


def draw(tables: Tables) -> Any:
    """Draw errors against n: MoM with the predicted slopes on the left, the trimmed mean on the right."""
    axes = new_panels(1, 2, panel=(5.8, 5.4))
    for ax, name in zip(axes, (MOM, TRIMMED), strict=True):
        for exponent, style in zip(EXPONENTS, LINES, strict=False):
            slope, predicted = (_slopes(tables["rate"], name, kind)[exponent] for kind in ("slope", "predicted"))
            label = f"{_growth(exponent)}: slope {slope:.2f}".replace("-", "−")
            chosen = {"estimator": name, "exponent": exponent}
            estimation.draw_line(ax, tables["rate.errors"], style, label, **chosen)
            if predicted is not None:
                n, error = (column(tables["rate.errors"], key, **chosen) for key in ("n", "mean absolute error"))
                centre = np.exp(np.mean(np.log(error) - predicted * np.log(n)))
                slopes = "predicted slopes" if exponent == EXPONENTS[-1] else None
                ax.plot(n, centre * n**predicted, color="#777777", lw=0.8, zorder=1, label=slopes)
        estimation.finish(ax, {MOM: "Median of means, harmonic K", TRIMMED: "Trimmed mean, the same rows"}[name])
    bottom, top = (pick(ax.get_ylim()[end] for ax in axes) for end, pick in ((0, min), (1, max)))
    for ax in axes:
        ax.set_ylim(bottom, top)
    return axes[0].figure


def _growth(exponent: float) -> str:
    return "1 outlier" if exponent == 0 else f"$n^{{{exponent:g}}}$ outliers"


def _slopes(slopes: Table, name: str, kind: str = "slope") -> dict[float, Any]:
    """Return the slopes by the exponent α_O."""
    return {row["exponent"]: row[kind] for row in slopes if row["estimator"] == name}


def judge(tables: Tables) -> list[Finding]:
    """Compare the slopes with the prediction, the errors with the bound, and MoM with the trimmed mean."""
    mom, errors, predicted = (_slopes(tables["rate"], MOM, kind) for kind in ("slope", "standard error", "predicted"))
    trimmed = _slopes(tables["rate"], TRIMMED)
    far = {
        exponent: abs(mom[exponent] - predicted[exponent]) > TOLERANCE + 2 * (errors[exponent] or 0)
        for exponent in EXPONENTS
    }
    table = [row for row in tables["rate.errors"] if row["estimator"] == MOM]
    ratio = column(table, "bound") / column(table, "mean absolute error")
    steeper = [exponent for exponent in EXPONENTS if trimmed[exponent] < mom[exponent] - TOLERANCE]
    n = estimation.largest_n(table)
    return [
        Finding(
            "E|error| falls like n^(-(1-α_O)/2), here under outliers far away on one side",
            "holds" if not any(far.values()) else "does not hold" if all(far.values()) else "holds in part",
            "; ".join(
                f"α_O = {exponent:g}: slope {mom[exponent]:.3f}"
                + (f" ± {errors[exponent]:.3f}" if errors[exponent] is not None else "")
                + f" (predicted {predicted[exponent]:.3f})"
                for exponent in EXPONENTS
            )
            + f"; differences up to {TOLERANCE:g} are attributed to whole numbers of blocks and rows",
            "off by more than noise at α_O = " + ", ".join(f"{exponent:g}" for exponent in EXPONENTS if far[exponent])
            if any(far.values())
            else "",
        ),
        checked(
            "the bound on E|error| holds",
            ratio.min() >= 1,
            f"the bound is {ratio.min():.0f} to {ratio.max():.0f} times the error in the {len(table)} settings",
        ),
        Finding(
            "this rate is optimal",
            "holds in part" if steeper else "holds",
            "a trimmed mean of the same rows has slope "
            + ", ".join(f"{trimmed[exponent]:.2f} at α_O = {exponent:g}" for exponent in EXPONENTS)
            + f"; at n = {spaced(n)} and α_O = 0.5 it misses by {_at(tables, TRIMMED, n):.4f}, MoM by "
            f"{_at(tables, MOM, n):.4f}",
            "outliers make MoM's error as large as that of one block, so no better rate can be shown for MoM; but on "
            "rows with light tails, which the claim assumes, another estimator has a better rate"
            if steeper
            else "",
        ),
    ]


def _at(tables: Tables, name: str, n: int) -> float:
    return float(column(tables["rate.errors"], "mean absolute error", estimator=name, exponent=0.5, n=n)[0])


EXPERIMENT = Experiment(
    name="rate",
    title="The rate at which the error falls",
    where="Prop. mom, claim 3",
    runs=100,
    quick_runs=20,
    pieces=pieces,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
