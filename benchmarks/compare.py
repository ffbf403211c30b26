"""Write docs/comparison.md: nine estimators of a mean under five distributions and four attacks."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import outvote as ov
from benchmarks import distance
from outvote.data.writing import write_text
from outvote.paper.experiments.contamination_sweep import huber

N_ROWS = 2000
SHARE = 0.05
N_BAD = round(SHARE * N_ROWS)

#: Name → (sampler, mean, standard deviation).
LAWS: dict[str, tuple[Callable[[np.random.Generator, int], Any], float, float]] = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0, 1.0),
    "t(2.5)": (lambda rng, n: rng.standard_t(2.5, size=n) / math.sqrt(5.0), 0.0, 1.0),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0, 1.0),
    "lognormal": (lambda rng, n: rng.lognormal(size=n) / 2.1612, 1.6487 / 2.1612, 1.0),
    "rare event": (lambda rng, n: (rng.random(n) < 0.03) / math.sqrt(0.0291), 0.03 / math.sqrt(0.0291), 1.0),
}


def far(x: Any, rng: np.random.Generator) -> Any:
    """Replace rows drawn at random by a huge value."""
    return ov.Contamination(N_BAD).inject(x, 1e6, rng=rng).data


def both_sides(x: Any, rng: np.random.Generator) -> Any:
    """Replace rows drawn at random by huge values of either sign."""
    return ov.Contamination(N_BAD).inject(x, ov.contamination.heavy_tail(1e4, 1.0), rng=rng).data


def lurking(x: Any, rng: np.random.Generator) -> Any:
    """Replace rows drawn at random by a value four standard deviations up, where no rule finds it strange."""
    return ov.Contamination(N_BAD).inject(x, float(np.mean(x)) + 4.0, rng=rng).data


def beheading(x: Any, rng: np.random.Generator) -> Any:
    """Replace the largest rows by the smallest: the adversary has seen the rows."""
    corrupted = np.sort(x)
    corrupted[-N_BAD:] = corrupted[0]
    return rng.permutation(corrupted)


ATTACKS: dict[str, Callable[[Any, np.random.Generator], Any]] = {
    "none": lambda x, rng: x,
    "far": far,
    "both sides": both_sides,
    "lurking": lurking,
    "beheading": beheading,
}


def estimators(sd: float, adversary: Any, seed: int) -> dict[str, Callable[[Any], tuple[float, float]]]:
    """Each estimator as a function of the rows that returns its answer and its certified half-width."""
    known, allowed = ov.FiniteVariance(sd), ov.Contamination(N_BAD, adversary)

    def voted(vote: str) -> Callable[[Any], tuple[float, float]]:
        def run(x: Any) -> tuple[float, float]:
            r = ov.mean(x, allowed, assume=known, vote=vote, rng=seed)
            return float(r.estimate), float(r.interval.high - r.interval.low) / 2

        return run

    def plain(function: Callable[[Any], Any]) -> Callable[[Any], tuple[float, float]]:
        return lambda x: (float(function(x)), math.nan)

    return {
        "mean": plain(np.mean),
        "median": plain(np.median),
        "trimmed": plain(lambda x: stats.trim_mean(x, SHARE)),
        "winsorized": plain(lambda x: np.mean(np.asarray(stats.mstats.winsorize(x, (SHARE, SHARE))))),
        "Huber": plain(huber),
        "median of means": voted("median"),
        "soft": voted("soft"),
        "clipped": voted("clipped"),
        "evidence": voted("evidence"),
    }


def promised(adversary: Any) -> float:
    """Return the half-width that no interval from evidence exceeds."""
    return ov.certificate.radius(
        n_rows=N_ROWS,
        n_corrupt=N_BAD,
        confidence=0.95,
        assume=ov.FiniteVariance(1.0),
        vote="evidence",
        adversary=adversary,
    )


def measure(runs: int) -> tuple[dict[tuple[str, str], dict[str, float]], dict[str, dict[str, float]]]:
    """Mean absolute error of each estimator in each setting, and the mean certified half-widths by adversary."""
    errors: dict[tuple[str, str], dict[str, float]] = {}
    widths: dict[str, dict[str, list[float]]] = {}
    for law, (sample, truth, sd) in LAWS.items():
        for attack, corrupt in ATTACKS.items():
            adversary = "adaptive" if attack == "beheading" else "oblivious"
            sums: dict[str, float] = {}
            for seed in range(runs):
                rng = np.random.default_rng([seed, len(law)])
                x = corrupt(sample(rng, N_ROWS), rng)
                for name, run in estimators(sd, adversary, seed).items():
                    estimate, radius = run(x)
                    sums[name] = sums.get(name, 0.0) + abs(estimate - truth) / runs
                    widths.setdefault(adversary, {}).setdefault(name, []).append(radius)
            errors[law, attack] = sums
    means = {who: {name: float(np.mean(each)) for name, each in row.items()} for who, row in widths.items()}
    return errors, means


def page(errors: dict[tuple[str, str], dict[str, float]], radii: dict[str, dict[str, float]], runs: int) -> str:
    """Write the page."""
    names = list(next(iter(errors.values())))
    lines = [
        "# Which estimator, against what",
        "",
        f"Mean absolute error over {runs} runs: {N_ROWS} rows with standard deviation 1, of which {N_BAD} "
        f"({100 * SHARE:.0f} %) are corrupt where there is an attack. Trimmed and winsorized means cut "
        f"{100 * SHARE:.0f} % on each side; the last four are outvote's, told the standard deviation and the "
        "number of corrupt rows; evidence is the default. "
        "The smallest error of a row is bold. `make studies` writes this page again.",
        "",
        "Attacks: *far*, rows drawn at random become 1e6; *both sides*, they become huge with either sign; *lurking*, "
        "they become the mean plus four standard deviations, where no rule finds them strange; *beheading*, someone "
        "who saw the rows replaces the largest by the smallest.",
        "",
        "| distribution | attack | " + " | ".join(names) + " |",
        "|---" * (len(names) + 2) + "|",
    ]
    for (law, attack), row in errors.items():
        best = min(row.values())
        cells = [f"**{value:.3g}**" if value <= 1.02 * best else f"{value:.3g}" for value in row.values()]
        lines.append(f"| {law} | {attack} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "## What each one guarantees",
        "",
        f"Half-widths of 95 % intervals for any distribution with standard deviation 1, {N_BAD} corrupt rows among "
        f"{N_ROWS}; those of evidence depend on the rows, and are averages over the settings above. Before a row is "
        f"seen it promises {promised('oblivious'):.3g} and {promised('adaptive'):.3g}.",
        "",
    ]
    words = {"oblivious": "without seeing the data", "adaptive": "by someone who saw the data"}
    lines += ["| corrupt rows chosen | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for adversary, row in radii.items():
        cells = ["nothing" if math.isnan(row[name]) else f"± {row[name]:.3g}" for name in names]
        lines.append(f"| {words[adversary]} | " + " | ".join(cells) + " |")
    lines += ["", "## Where each one loses", ""]
    for name in names:
        lags = {setting: row[name] / min(row.values()) for setting, row in errors.items()}
        worst = sorted(lags, key=lambda setting: -lags[setting])[:2]
        lost = "; ".join(f"{lags[s]:.3g} times the best ({s[0]}, {s[1]})" for s in worst)
        wins = sum(row[name] <= 1.02 * min(row.values()) for row in errors.values())
        lines.append(f"- **{name}**: best in {wins} of {len(errors)} settings; at worst {lost}.")
    ratios = [row["evidence"] / min(row["soft"], row["clipped"]) for row in errors.values()]
    lines += [
        "",
        "No estimator wins everywhere. The median and Huber's estimate do best on symmetric distributions and miss "
        "skewed ones, clean or not; trimming by the right share does well against values far out and pays on clean "
        "skewed rows; on clean rows the plain mean is best, and one far value ruins it. Evidence, with the soft and "
        "the clipped vote, has the smallest worst case, and they alone, with the median of means, say how far off "
        "they can be. Over the "
        f"{len(errors)} settings the error of evidence is {np.mean(ratios):.2f} times that of the better of soft and "
        f"clipped on average, at best {min(ratios):.2f} and at worst {max(ratios):.2f} times.",
        "",
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure and write the page and its figure, whole or not at all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "docs" / "comparison.md")
    chosen = parser.parse_args(arguments)
    curve = distance.write(max(chosen.runs // 10, 1), chosen.output.parent / "images" / "distance.svg")
    write_text(chosen.output, "\n".join([page(*measure(chosen.runs), chosen.runs), *curve]))
    print(f"The page is in {chosen.output}")


if __name__ == "__main__":
    main()
