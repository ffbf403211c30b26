"""Errors of estimators of a mean, and coverage of their intervals, from clean rows to 40 % of corrupt rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions.assumption import FiniteVariance
from outvote.data.text import spaced
from outvote.estimate.mean import mean
from outvote.paper.experiments.base import Experiment, Finding, Piece, Size, Table, Tables, column, mean_and_error
from outvote.paper.experiments.estimation import corrupt
from outvote.plotting.base import LINES, new_panels

Array = NDArray[np.float64]
#: Estimates, and the ends of their intervals, or None.
Answer = tuple[Array, Array | None, Array | None]

N_ROWS = 1000
CONFIDENCE = 0.95
RESAMPLES = 400
#: For each distribution of clean rows: its name and arguments in scipy.stats. Rows are divided by their sd.
LAWS: dict[str, tuple[str, tuple[float, ...]]] = {
    "normal": ("norm", ()),
    "t(2.5)": ("t", (2.5,)),
    "lognormal": ("lognorm", (1.0,)),
    "Pareto(3)": ("pareto", (3.0,)),
}
#: For each attack: the value of corrupt rows in standard deviations, given the distribution and their share.
ATTACKS: dict[str, Callable[[Any, float], float]] = {
    "none": lambda law, share: 0.0,
    "far": lambda law, share: law.mean() / law.std() + 1000.0,
    "near": lambda law, share: law.mean() / law.std() + 3.0,
    "at the cut": lambda law, share: law.ppf(share) / law.std(),
}
TITLES = {
    "none": "clean rows",
    "far": "far: 1000 sd up",
    "near": "near: 3 sd up",
    "at the cut": "low: where trimming cuts",
}
SHARES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4)
QUICK_SHARES = (0.05, 0.3)
OURS = ("median of means", "soft vote", "clipped vote")
DRAWN = ("soft vote", "median of means", "trimmed mean", "median", "Huber", "mean")


def huber(rows: Array, k: float = 1.345) -> Any:
    """Return Huber's estimate of location for each column, with the MAD as scale: the fixed point of clipped averages.

    Examples
    --------
    >>> float(huber(np.array([0.0, 1.0, 2.0, 3.0, 1000.0])))
    2.0
    """
    from scipy.stats import median_abs_deviation

    centre = np.median(rows, axis=0)
    scale = np.maximum(median_abs_deviation(rows, axis=0, scale="normal"), 1e-12)
    for _ in range(50):
        centre = centre + scale * np.clip((rows - centre) / scale, -k, k).mean(axis=0) / 0.8
    return centre


def pieces(size: Size) -> list[Piece]:
    """Return one piece for each distribution and attack."""
    shares = QUICK_SHARES if size.quick else SHARES
    return [
        Piece({"law": law, "attack": attack, "shares": shares, "runs": size.runs}) for law in LAWS for attack in ATTACKS
    ]


def measure(
    rng: np.random.Generator, *, law: str, attack: str, shares: tuple[float, ...], runs: int
) -> list[dict[str, Any]]:
    """Estimate the means of `runs` columns at each share of corrupt rows; the estimators know the share."""
    from scipy import stats

    name, arguments = LAWS[law]
    known = getattr(stats, name)(*arguments)
    truth, weights, found = known.mean() / known.std(), _resamples(rng), []
    for share in shares:
        rows = known.rvs(size=(N_ROWS, runs), random_state=rng) / known.std()
        count = round(share * N_ROWS)
        if attack != "none" and count:
            rows = corrupt(rng, rows, ATTACKS[attack](known, share), count)
        for estimator, (estimates, low, high) in estimates_of(rows, count, weights, rng).items():
            error, spread = mean_and_error(np.abs(estimates - truth))
            row = {"law": law, "attack": attack, "share": share, "estimator": estimator}
            row |= {"mean absolute error": error, "standard error": spread if runs > 1 else None}
            row |= {"coverage": None, "mean half-width": None, "runs": runs}
            if low is not None and high is not None:
                row["coverage"] = float(((low <= truth) & (truth <= high)).mean())
                row["mean half-width"] = float((high - low).mean() / 2)
            found.append(row)
    return found


def estimates_of(rows: Array, count: int, weights: Array, rng: np.random.Generator) -> dict[str, Answer]:
    """Estimate the mean of every column with all estimators, if `count` rows may be corrupt.

    `weights` are the weights of the rows in the bootstrap samples.
    """
    from scipy import stats

    share = count / len(rows)
    cut = np.sort(rows, axis=0)[[count, len(rows) - 1 - count]]
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(weights @ rows, [tail, 1 - tail], axis=0)
    found: dict[str, Answer] = {
        "mean": (rows.mean(axis=0), None, None),
        "median": (np.median(rows, axis=0), None, None),
        "trimmed mean": (stats.trim_mean(rows, share, axis=0), None, None),
        "winsorized mean": (np.clip(rows, *cut).mean(axis=0), None, None),
        "Huber": (huber(rows), None, None),
        "sigma clipping": (np.array([stats.sigmaclip(each, 3, 3).clipped.mean() for each in rows.T]), None, None),
        "bootstrap": ((low + high) / 2, low, high),
    }
    for name, vote in zip(OURS, ("median", "soft", "clipped"), strict=True):
        for known in (FiniteVariance(1.0), None):
            result = mean(rows, count, CONFIDENCE, known, vote, rng=rng)
            low, high = map(np.asarray, result.interval)
            found[name if known else f"{name}, plug-in"] = (np.asarray(result.estimate), low, high)
    return found


def _resamples(rng: np.random.Generator) -> Array:
    """Return the weights of the rows in the bootstrap samples, one line per sample."""
    drawn = rng.integers(N_ROWS, size=(RESAMPLES, N_ROWS)) + N_ROWS * np.arange(RESAMPLES)[:, None]
    return np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape) / N_ROWS


def tabulate(records: list[dict[str, Any]]) -> Tables:
    """Keep all settings, and add the largest error of each estimator at each share."""
    worst = []
    for share in sorted({row["share"] for row in records}):
        for name in dict.fromkeys(row["estimator"] for row in records):
            mine = [row for row in records if row["share"] == share and row["estimator"] == name]
            most = max(mine, key=lambda row: row["mean absolute error"])
            worst.append(
                {
                    "share": share,
                    "estimator": name,
                    "largest mean absolute error": most["mean absolute error"],
                    "law": most["law"],
                    "attack": most["attack"],
                    "least coverage": min(
                        (row["coverage"] for row in mine if row["coverage"] is not None), default=None
                    ),
                }
            )
    return {"contamination-sweep": records, "contamination-sweep.worst": worst}


def draw(tables: Tables) -> Any:
    """Draw the errors against the share: a row of panels for each distribution, a column for each attack."""
    table = tables["contamination-sweep"]
    axes = new_panels(len(LAWS), len(ATTACKS), panel=(2.9, 2.35))
    for ax, (law, attack) in zip(axes, product(LAWS, ATTACKS), strict=True):
        for name, style in zip(DRAWN, LINES, strict=True):
            chosen = {"law": law, "attack": attack, "estimator": name}
            shares, errors = column(table, "share", **chosen), column(table, "mean absolute error", **chosen)
            ax.plot(100 * shares, errors, label=name, **style)
        ax.set(yscale="log", ylim=(0.01, 3), xlim=(0, 100 * max(SHARES)))
        ax.set(xlabel="corrupt rows allowed for, %", ylabel=f"{law}\nerror, in sd")
        ax.set_yticks((0.01, 0.1, 1), labels=("0.01", "0.1", "1"))
        ax.minorticks_off()
        ax.grid(alpha=0.3, lw=0.5, which="major")
        ax.label_outer()
        if law == next(iter(LAWS)):
            ax.set_title(TITLES[attack], fontsize="medium")
    figure = axes[0].figure
    figure.suptitle(f"Mean absolute error of estimators that know the share of corrupt rows, {spaced(N_ROWS)} rows")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(DRAWN), frameon=False)
    return figure


def judge(tables: Tables) -> list[Finding]:
    """Check the intervals, the worst cases, wins and losses, and the cost on clean rows."""
    table, worst = tables["contamination-sweep"], tables["contamination-sweep.worst"]
    claims = {
        "outvote's certified intervals have their confidence": (OURS, "a certificate failed"),
        "outvote's plug-in intervals have their confidence": (
            [f"{name}, plug-in" for name in OURS],
            "the scale comes from the same rows: a long tail, or corrupt rows near the middle, make it too small",
        ),
        "bootstrap intervals have their confidence": (["bootstrap"], "they follow the mean of all rows"),
    }
    return [
        *(_on_intervals(claim, table, names, why) for claim, (names, why) in claims.items()),
        _on_the_worst(worst),
        _on_wins(table),
        _on_the_price(table),
    ]


def _on_intervals(claim: str, table: Table, names: Sequence[str], why: str) -> Finding:
    rows = [row for row in table if row["estimator"] in names]
    slack = 2 * np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / rows[0]["runs"])
    short = [row for row in rows if row["coverage"] < CONFIDENCE - slack]
    least = min(rows, key=lambda row: row["coverage"])
    clean = min(row["coverage"] for row in rows if row["attack"] == "none" or not row["share"])
    return Finding(
        claim,
        "holds" if not short else "holds in part" if 2 * len(short) < len(rows) else "does not hold",
        f"the confidence is {100 * CONFIDENCE:g} %; the least coverage is {100 * least['coverage']:.0f} % "
        f"({_where(least)}), on clean rows {100 * clean:.0f} %; too small in {len(short)} of {len(rows)} settings",
        why if short else "",
    )


def _where(row: dict[str, Any]) -> str:
    return f"{row['law']}, {TITLES[row['attack']]}, {100 * row['share']:g} %"


def _on_the_worst(worst: Table) -> Finding:
    """Compare the largest errors over distributions and attacks at each share."""
    parts, ratios, soft = [], [], []
    for share in sorted({row["share"] for row in worst if row["share"]}):
        errors = {row["estimator"]: row["largest mean absolute error"] for row in worst if row["share"] == share}
        others = {name: error for name, error in errors.items() if not name.startswith(OURS)}
        mine, other = min(OURS, key=errors.__getitem__), min(others, key=others.__getitem__)
        parts.append(f"{100 * share:g} %: {mine} {errors[mine]:.3g}, {other} {errors[other]:.3g}")
        ratios.append(errors[mine] / errors[other])
        soft.append(errors["soft vote"] / min(errors.values()))
    ahead = sum(ratio < 0.98 for ratio in ratios)
    return Finding(
        "the largest error over distributions and attacks is smallest for one of outvote's votes",
        "holds" if max(ratios) < 1.02 else "holds in part" if ahead else "does not hold",
        f"the best of outvote's votes and the best of the others, at {'; '.join(parts)}",
        f"the best vote depends on the share: the soft vote has up to {max(soft):.2g} times the smallest error",
    )


def _on_wins(table: Table) -> Finding:
    attacked = [row for row in table if row["attack"] != "none" and row["share"]]
    errors = {
        (row["law"], row["attack"], row["share"], row["estimator"]): row["mean absolute error"] for row in attacked
    }
    settings = dict.fromkeys(key[:3] for key in errors)

    def wins(over: str, laws: Sequence[str]) -> str:
        mine = [key for key in settings if key[0] in laws]
        return f"{sum(errors[(*key, 'soft vote')] < errors[(*key, over)] for key in mine)} of {len(mine)}"

    rivals = ("mean", "median", "trimmed mean", "winsorized mean", "Huber", "sigma clipping")
    best = sum(errors[(*key, "soft vote")] <= 1.05 * min(errors[(*key, name)] for name in rivals) for key in settings)
    halves = {"symmetric": ("normal", "t(2.5)"), "skewed": ("lognormal", "Pareto(3)")}
    parts = [
        f"on {kind} distributions it beats " + ", ".join(f"{name} in {wins(name, laws)}" for name in rivals)
        for kind, laws in halves.items()
    ]
    return Finding(
        "under attack the soft vote is more accurate than the usual estimators",
        "holds" if best == len(settings) else "holds in part" if 4 * best >= len(settings) else "does not hold",
        f"it is the best of them, or within 5 %, in {best} of {len(settings)} settings; {'; '.join(parts)}",
        ""
        if best == len(settings)
        else "on symmetric distributions the median is nearer to the mean than any certified vote, and "
        "values added above pull estimates of skewed distributions back to the mean",
    )


def _on_the_price(table: Table) -> Finding:
    share = 0.05
    ratios = {}
    for law in LAWS:
        chosen = {"law": law, "attack": "none", "share": share}
        mine, plain = (
            column(table, "mean absolute error", estimator=name, **chosen)[0] for name in ("soft vote", "mean")
        )
        ratios[law] = float(mine / plain)
    dear = [law for law, ratio in ratios.items() if ratio > 1.1]
    return Finding(
        "on clean rows protection costs nothing",
        "does not hold" if len(dear) == len(ratios) else "holds in part" if dear else "holds",
        f"if {100 * share:g} % may be corrupt, the error of the soft vote divided by that of the mean is "
        + ", ".join(f"{ratio:.2f} ({law})" for law, ratio in ratios.items()),
        f"for {' and '.join(dear)} the vote cuts off the tail on which the mean depends" if dear else "",
    )


EXPERIMENT = Experiment(
    name="contamination-sweep",
    title="From clean rows to 40 % of corrupt rows",
    where="beyond the paper",
    runs=100,
    quick_runs=10,
    pieces=pieces,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
