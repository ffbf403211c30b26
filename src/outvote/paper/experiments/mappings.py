"""Figures influence and influence_apx: how the mapping α changes the constants of the bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from outvote import paper
from outvote.paper.experiments.base import Experiment, Finding, Table, Tables, column
from outvote.paper.experiments.checking import checked, one_piece, rows_of, tabulate

#: Rows, for the range of confidences.
N_ROWS = 1000
N_POINTS = 200
#: Shares ε at which α is varied.
SHARES = (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.45)
QUANTITIES = ("alpha", "gamma", "range_size", "Gamma_Delta", "beta", "Delta", "eta")


def measure(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Evaluate the constants of each mapping against ε, at ε = 0, and against α at a fixed ε."""
    curves = [
        {"mapping": mapping, "epsilon": epsilon, **_constants(epsilon, mapping)}
        for mapping in paper.MAPPINGS
        for epsilon in np.linspace(0.001, 0.499, N_POINTS).tolist()
    ]
    return [
        *rows_of("mappings", curves),
        *rows_of("mappings.at-zero", map(_at_zero, paper.MAPPINGS)),
        *rows_of("mappings.moving-alpha", map(_moving_alpha, SHARES)),
    ]


def _constants(epsilon: float, mapping: str | Callable[[Any], Any]) -> dict[str, float]:
    c = paper.constants(epsilon, mapping)
    return {
        "alpha": c.alpha,
        "beta": c.beta,
        "gamma": c.gamma,
        "Gamma": c.Gamma,
        "Delta": c.Delta,
        "eta": c.eta,
        "Gamma_Delta": c.Gamma * c.Delta,
        "range_size": float(paper.range_size(epsilon, N_ROWS, mapping)),
    }


def _at_zero(mapping: str) -> dict[str, Any]:
    """Return the log of the largest δ that claim 1 admits without outliers, and Δ, or None if Δ is infinite."""
    c = paper.constants(0.0, mapping)
    return {
        "mapping": mapping,
        "log of largest delta": 0.0 - N_ROWS * c.alpha / c.beta,
        "Delta": c.Delta if np.isfinite(c.Delta) else None,
    }


def _moving_alpha(epsilon: float) -> dict[str, Any]:
    """Vary α from 2ε to 1 at a fixed ε: record which constants rise or fall, and the printed and measured slopes."""

    def at(value: float) -> dict[str, float]:
        return _constants(epsilon, lambda _: value)

    grid = np.linspace(2 * epsilon, 1, 2001)[1:-1].tolist()
    moved = [at(value) for value in grid]
    change = {name: np.diff([each[name] for each in moved]) for name in ("gamma", "Gamma", "Delta", "range_size")}
    longest = int(np.argmax([each["range_size"] for each in moved]))
    a, step = (1 + 2 * epsilon) / 2, 1e-6
    below, above = at(a - step), at(a + step)
    return {
        "epsilon": epsilon,
        "alpha of the longest range": grid[longest],
        "root of 2 epsilon": float(np.sqrt(2 * epsilon)),
        "step": grid[1] - grid[0],
        "range rises, then falls": bool(
            (change["range_size"][:longest] > 0).all() and (change["range_size"][longest:] < 0).all()
        ),
        "gamma falls": bool((change["gamma"] < 0).all()),
        "Gamma falls": bool((change["Gamma"] < 0).all()),
        "Delta rises": bool((change["Delta"] > 0).all()),
        "slope of gamma squared": (above["gamma"] ** 2 - below["gamma"] ** 2) / (2 * step),
        "slope of gamma squared, printed": -4 * epsilon * (a - epsilon) ** 2 / (a - 2 * epsilon) ** 4,
        "slope of gamma squared, corrected": -2 * epsilon * (2 * a - epsilon) * (a - epsilon) / (a - 2 * epsilon) ** 4,
        "slope of range": (above["range_size"] - below["range_size"]) / (2 * step),
        "slope of range, printed": N_ROWS * (2 * epsilon - a**2) / (2 / a**2),
        "slope of range, corrected": N_ROWS * (2 * epsilon - a**2) / (2 * a**2),
    }


def draw(tables: Tables) -> Any:
    """Draw all seven panels."""
    from outvote.plotting import EnvelopeDisplay

    curves, names = tables["mappings"], list(paper.MAPPINGS)
    values = {name: {mapping: column(curves, name, mapping=mapping) for mapping in names} for name in QUANTITIES}
    return EnvelopeDisplay(column(curves, "epsilon", mapping=names[0]), values, N_ROWS).plot().figure_


def judge(tables: Tables) -> list[Finding]:
    """Check the paper's claims on the four mappings."""
    return [
        *_on_the_curves(tables["mappings"]),
        *_on_zero(tables["mappings.at-zero"]),
        *_on_alpha(tables["mappings.moving-alpha"]),
    ]


def _on_the_curves(curves: Table) -> list[Finding]:
    names = list(paper.MAPPINGS)

    def of(name: str) -> np.ndarray[Any, Any]:
        return np.array([column(curves, name, mapping=mapping) for mapping in names])

    epsilon, gamma, Gamma = column(curves, "epsilon", mapping=names[0]), of("gamma"), of("Gamma")
    rising = (np.diff(gamma) > 0).all() and (np.diff(Gamma) > 0).all()
    follows = (of("alpha").argsort(axis=0)[::-1] == gamma.argsort(axis=0)).all()
    smallest = int((gamma.argmin(axis=0) == names.index("arithmetic")).sum())
    sizes, product = of("range_size"), of("Gamma_Delta").argmin(axis=0)
    longest = int((sizes.argmax(axis=0) == names.index("geometric")).sum())
    twins = np.abs(sizes[names.index("arithmetic")] / sizes[names.index("harmonic")] - 1).max()
    starts = [0, *(np.flatnonzero(np.diff(product)) + 1).tolist()]
    spans = "; ".join(f"{names[product[start]]} from ε = {epsilon[start]:.3f}" for start in starts)
    return [
        checked(
            "γ and Γ increase with ε and tend to infinity as ε goes to 1/2",
            rising and gamma[:, -1].min() > 1e4 and Gamma[:, -1].min() > 30,
            f"at ε = {epsilon[-1]:.3f} the smallest γ is {gamma[:, -1].min():.0f} and the smallest Γ "
            f"{Gamma[:, -1].min():.0f}",
        ),
        checked(
            "the larger α, the smaller γ, which favours the arithmetic mapping",
            follows and smallest == len(epsilon),
            f"the arithmetic mapping has the smallest γ at {smallest} of {len(epsilon)} shares, followed by "
            + ", ".join(names[i] for i in gamma[:, len(epsilon) // 2].argsort()[1:]),
        ),
        checked(
            "the geometric mapping has the longest range of confidences",
            longest == len(epsilon),
            f"it does at {longest} of {len(epsilon)} shares; the arithmetic and the harmonic range are equally long, "
            f"to {twins:.0e}",
        ),
        checked(
            "Γ·Δ shows a tradeoff in α",
            len(starts) > 1,
            f"the mapping with the smallest product is {spans}",
        ),
    ]


def _on_zero(at_zero: Table) -> list[Finding]:
    limited = [row for row in at_zero if row["log of largest delta"] < 0]
    endless = [row["mapping"] for row in at_zero if row["Delta"] is None]
    finite = " and ".join(f"{row['Delta']:.3g} ({row['mapping']})" for row in at_zero if row["Delta"] is not None)
    return [
        checked(
            "without outliers nothing limits δ from above, except for the arithmetic mapping",
            [row["mapping"] for row in limited] == ["arithmetic"],
            ", ".join(f"δ ≤ e^{row['log of largest delta']:g} for {row['mapping']}" for row in limited)
            + f" at n = {N_ROWS}, δ ≤ 1 for the other {len(at_zero) - len(limited)}",
        ),
        checked(
            "Δ tends to infinity as ε goes to 0 for some mappings",
            endless and finite,
            f"for {' and '.join(endless)}; it tends to {finite}",
        ),
    ]


def _on_alpha(moving: Table) -> list[Finding]:
    off = np.abs(column(moving, "alpha of the longest range") - column(moving, "root of 2 epsilon"))
    falls = [column(moving, name) for name in ("gamma falls", "Gamma falls", "Delta rises")]
    peak = column(moving, "range rises, then falls").all() and (off <= column(moving, "step")).all()
    found = [
        checked(
            "at a fixed ε, γ and Γ fall and Δ rises as α grows",
            np.all(falls),
            f"all three, for α from 2ε to 1, at {sum(map(all, zip(*falls, strict=True)))} of {len(moving)} shares",
        ),
        checked(
            "at a fixed ε the range s grows with α up to √(2ε) and shrinks beyond",
            peak,
            f"the longest range is at most {off.max():.1e} away from there, less than a step of the search",
        ),
    ]
    slopes = {
        "slope of gamma squared": ("∂γ²/∂α = -4ε(α-ε)²/(α-2ε)⁴", "-2ε(2α-ε)(α-ε)/(α-2ε)⁴"),
        "slope of range": ("∂s/∂α = n(2ε-α²)/(2/α²), from s = n(α-2ε)(1-α)/(2/α)", "n(2ε-α²)/(2α²)"),
    }
    for name, (claim, ours) in slopes.items():
        measured = column(moving, name)
        printed, corrected = (column(moving, f"{name}, {which}") / measured for which in ("printed", "corrected"))
        signs = "right" if (printed > 0).all() else "wrong"
        found.append(
            checked(
                claim,
                np.allclose(printed, 1, rtol=1e-3),
                f"halfway between 2ε and 1 the printed slope is {printed.min():.2g} to {printed.max():.2g} times the "
                f"measured slope; {ours} agrees to {np.abs(corrected - 1).max():.0e}",
                f"this is a misprint; the sign, on which the argument depends, is {signs}",
            )
        )
    return found


EXPERIMENT = Experiment(
    name="mappings",
    title="How the mapping changes the constants",
    where="Figures influence and influence_apx",
    runs=1,
    quick_runs=1,
    pieces=one_piece,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
