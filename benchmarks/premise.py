"""Write docs/premise.md: how often an interval is wrong when its premise was read off the rows, or declared wrongly."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

import outvote as ov
from outvote.data.missing import ContradictionError
from outvote.data.writing import write_text
from outvote.estimate.premise import UnknownScale

Sampler = Callable[[np.random.Generator, int], Any]
SIZES, SHARES = (50, 500, 5000), (0.01, 0.05)
ATTACKS = ("none", "far", "lurking", "central", "hundredfold", "in between")
TOO_SMALL = (1.05, 1.1, 1.2, 1.5, 2.0)
DELTA = 0.05
#: For kernels of pairs: numbers of rows, and how many of these may be corrupt.
PAIRS = ((500, 0.0), (500, 0.01), (5000, 0.0), (5000, 0.01))


def _lognormal(s: float) -> tuple[Sampler, float, float]:
    mean = math.exp(s * s / 2)
    return lambda rng, n: rng.lognormal(0.0, s, n), mean, mean * math.sqrt(math.expm1(s * s))


def _pareto(a: float) -> tuple[Sampler, float, float]:
    return lambda rng, n: rng.pareto(a, n), 1 / (a - 1), math.sqrt(a / ((a - 1) ** 2 * (a - 2)))


def _bernoulli(p: float) -> tuple[Sampler, float, float]:
    return lambda rng, n: (rng.random(n) < p).astype(float), p, math.sqrt(p * (1 - p))


def _student(df: float) -> tuple[Sampler, float, float]:
    return lambda rng, n: rng.standard_t(df, n), 0.0, math.sqrt(df / (df - 2))


def _far_group(share: float, distance: float) -> tuple[Sampler, float, float]:
    """Normal rows, of which a share are real and lie far away."""
    sd = math.sqrt(1 + share * (1 - share) * distance**2)
    return lambda rng, n: rng.normal(size=n) + distance * (rng.random(n) < share), share * distance, sd


_BUYERS = 0.1 * math.exp(0.5), math.sqrt(0.1 * math.exp(2.0) - 0.01 * math.exp(1.0))
#: Name → (sampler, mean, standard deviation).
LAWS: dict[str, tuple[Sampler, float, float]] = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0, 1.0),
    "uniform": (lambda rng, n: rng.random(n), 0.5, math.sqrt(1 / 12)),
    "two normal humps": (lambda rng, n: rng.normal(rng.choice([-2.0, 2.0], n)), 0.0, math.sqrt(5.0)),
    "t(3)": _student(3.0),
    "t(2.5)": _student(2.5),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0, 1.0),
    "lognormal(0.5)": _lognormal(0.5),
    "lognormal(1)": _lognormal(1.0),
    "lognormal(1.5)": _lognormal(1.5),
    "lognormal(2)": _lognormal(2.0),
    "Pareto(3)": _pareto(3.0),
    "Pareto(2.5)": _pareto(2.5),
    "gamma(0.1)": (lambda rng, n: rng.gamma(0.1, size=n), 0.1, math.sqrt(0.1)),
    "90 % zeros, else lognormal": (lambda rng, n: (rng.random(n) < 0.1) * rng.lognormal(size=n), *_BUYERS),
    "3 % ones, else zeros": _bernoulli(0.03),
    "normal, 0.5 % lie 30 sd away": _far_group(0.005, 30.0),
    "normal, 1 % lie 30 sd away": _far_group(0.01, 30.0),
    "normal, 3 % lie 15 sd away": _far_group(0.03, 15.0),
}
#: Name → Gini's mean difference, in closed form.
GINI = {
    "normal": 2 / math.sqrt(math.pi),
    "uniform": 1 / 3,
    "exponential": 1.0,
    **{f"lognormal({s:g})": 2 * math.exp(s * s / 2) * math.erf(s / 2) for s in (0.5, 1.0, 1.5, 2.0)},
    "Pareto(2.5)": 2 * 2.5 / (1.5 * 4.0),
}


def attacked(x: Any, attack: str, count: int, mean: float, sd: float) -> Any:
    """Return the rows with `count` of them, the first ones, made corrupt."""
    places = {"far": mean + 1e6 * sd, "lurking": mean + 5 * sd, "central": float(np.median(x))}
    x = x.copy()
    if attack in places:
        x[:count] = places[attack]
    elif attack == "hundredfold":
        x[:count] *= 100
    elif attack == "in between":
        x[:count] += 20 * sd
    return x


def undeclared(law: str, n: int, share: float, attack: str, runs: int) -> tuple[float, float, float]:
    """Return the share of intervals that miss, of those without an interval, and the mean half-width in sd."""
    sample, mean, sd = LAWS[law]
    misses, none, widths = 0, 0, []
    for run in range(runs):
        rng = np.random.default_rng([run, n, len(law)])
        x = attacked(sample(rng, n), attack, ov.Contamination(share).count(n), mean, sd)
        try:
            found = ov.mean(x, share, 1 - DELTA)
        except UnknownScale:
            none += 1
            continue
        if found.certificate.provenance == "none":
            none += 1
            continue
        low, high = found.interval
        misses += not low <= mean <= high
        widths.append(float(high - low) / 2 / sd)
    return misses / runs, none / runs, float(np.mean(widths)) if widths else math.nan


def of_pairs(kernel: str, law: str, n: int, share: float, runs: int) -> tuple[float, float]:
    """Return the share of intervals of a U-statistic that miss, and the mean half-width by the truth; no attack."""
    sample, _, sd = LAWS[law]
    truth = sd**2 if kernel == "variance" else GINI[law]
    misses, widths = 0, []
    for run in range(runs):
        x = sample(np.random.default_rng([run, n, len(law)]), n)
        try:
            low, high = ov.u_statistic(x, kernel=kernel, contamination=share).interval
        except UnknownScale:
            continue
        misses += not low <= truth <= high
        widths.append(float(high - low) / 2 / truth)
    return misses / runs, float(np.mean(widths)) if widths else math.nan


def pair_lines(runs: int) -> list[str]:
    """Measure kernels of pairs, and write their section."""
    heads = [f"n = {n}, {'none' if not share else f'{share:.0%}'}" for n, share in PAIRS]
    lines = [
        "## Variances and mean differences",
        "",
        "For kernels of pairs the premise is about the sd of the kernel's values. For the variance these are "
        "(x - y)²/2, so it is about fourth moments: they are infinite for t(3), t(2.5) and the Pareto distributions "
        "here, and huge for lognormal(1) and beyond. For Gini's mean difference, |x - y|, second moments are enough. "
        f"In percent of {runs} runs without a corrupt row: how often the 95 % interval misses; then the mean "
        "half-width as a multiple of the truth. The heading says how many rows may be corrupt.",
        "",
        "| kernel | distribution | " + " | ".join(heads) + " |",
        "|---" * (len(heads) + 2) + "|",
    ]
    asked = [("variance", law) for law in list(LAWS)[:-4]] + [("gini", law) for law in GINI]
    for kernel, law in asked:
        cells = []
        for n, share in PAIRS:
            miss, width = of_pairs(kernel, law, n, share, runs)
            text = f"{100 * miss:.0f}"
            cells.append((f"**{text}**" if miss > DELTA else text) + f" (± {width:.2g})")
        lines.append(f"| {kernel} | {law} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def declared(law: str, factor: float, attack: str, runs: int, n: int = 5000) -> tuple[float, float]:
    """Return the shares of errors and of wrong intervals if the sd is `factor` times the declared one."""
    sample, mean, sd = LAWS[law]
    errors = misses = 0
    for run in range(runs):
        rng = np.random.default_rng([run, n, len(law)])
        x = attacked(sample(rng, n), attack, n // 100, mean, sd)
        try:
            low, high = ov.mean(x, n // 100, 1 - DELTA, ov.FiniteVariance(sd / factor)).interval
        except ContradictionError:
            errors += 1
            continue
        misses += not low <= mean <= high
    return errors / runs, misses / runs


def page(runs: int) -> str:
    """Measure, and write the page."""
    lines = [
        "# When the premise is wrong",
        "",
        "`ov.mean(x)` is proved if the sd of the clean rows is at most the number that it prints. How often is its "
        "95 % interval wrong without that if? The worst of six attacks on as many rows as may be corrupt (none; far, "
        "at a million sd; lurking, at +5 sd; at the median of the rows; a hundred times as large; moved by +20 sd), "
        f"{runs} runs each, in percent; – where most runs have no interval. Then the mean half-width without "
        "an attack, in sd. More than 5 % is bold: these distributions have rare, large values that few rows, or as few "
        "as may be corrupt, do not show. Declare what is known of them. `make studies` writes this page.",
        "",
        "The last three are what no method can tell apart: a small group of clean rows that lies far from the others "
        "looks exactly like corrupt rows if that many may be corrupt. `ov.mean` takes them for corrupt, says so, and "
        "prints the other reading, which is also in `.if_real`; allow for fewer, or declare the sd.",
        "",
        f"Each number is a count of {runs} simulated runs, so it has an error of its own: {_simulation_error(runs)}",
        "",
    ]
    heads = [f"n = {n}, {share:.0%}" for n in SIZES for share in SHARES]
    lines += ["| distribution | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for law in LAWS:
        cells = []
        for n in SIZES:
            for share in SHARES:
                tried = {attack: undeclared(law, n, share, attack, runs) for attack in ATTACKS}
                worst = max(miss for miss, _, _ in tried.values())
                if math.isnan(tried["none"][2]) or tried["none"][1] > 0.5:
                    cells.append("–")
                    continue
                text = f"{100 * worst:.0f}"
                cells.append((f"**{text}**" if worst > DELTA else text) + f" (± {tried['none'][2]:.2g})")
        lines.append(f"| {law} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## A standard deviation declared too small",
        "",
        "5000 rows, 50 of which may be corrupt; the true sd is so many times the declared one. In percent of the runs: "
        "the rows contradict it and there is an error, then the interval is silently wrong; without an attack, with "
        "far and with lurking rows.",
        "",
        "| distribution | " + " | ".join(f"{factor:g} times" for factor in TOO_SMALL) + " |",
        "|---" * (len(TOO_SMALL) + 1) + "|",
    ]
    for law in ("normal", "t(3)", "exponential", "lognormal(1)", "3 % ones, else zeros"):
        cells = []
        for factor in TOO_SMALL:
            tried_ones = [declared(law, factor, attack, runs) for attack in ATTACKS[:3]]
            cells.append(", ".join(f"{100 * error:.0f} / {100 * miss:.0f}" for error, miss in tried_ones))
        lines.append(f"| {law} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *pair_lines(runs)])


def _simulation_error(runs: int) -> str:
    """Return a sentence on how far a share of so many runs can be from the truth."""
    low, high = (100 * float(binom.ppf(p, runs, DELTA)) / runs for p in (0.025, 0.975))
    return (
        f"a true share of 5 % shows as {low:.0f} to {high:.0f} % in 95 of 100 such simulations, and a 0 says that the "
        f"share is below {100 * (1 - DELTA ** (1 / runs)):.1f} % (with 95 % confidence). The worst of several attacks "
        "is a little higher by chance."
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure and write the page, whole or not at all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "docs" / "premise.md")
    chosen = parser.parse_args(arguments)
    write_text(chosen.output, page(chosen.runs))
    print(f"The page is in {chosen.output}")


if __name__ == "__main__":
    main()
