"""Table summary: the closed forms of the constants, and the universal constants that bound them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from outvote import paper
from outvote.paper.experiments.base import Experiment, Finding, Tables, column
from outvote.paper.experiments.checking import checked, one_piece, rows_of, tabulate
from outvote.plotting.base import LINES, new_panels

N_POINTS = 999
Form = Callable[[Any], Any]

#: The table as printed: the closed form of each constant, by mapping.
PRINTED: dict[str, dict[str, Form]] = {
    "arithmetic": {
        "alpha": lambda e: (1 + 2 * e) / 2,
        "beta": lambda e: 2 * (1 + 2 * e) / (1 - 2 * e),
        "gamma": lambda e: np.sqrt(1 + 2 * e) / (1 - 2 * e) ** 1.5,
        "Gamma": lambda e: np.sqrt(1 + 2 * e) / np.sqrt(1 - 2 * e),
        "Delta": lambda e: np.sqrt((1 + 2 * e) / (2 * e)),
        "eta": lambda e: 1 / (1 + 2 * e),
    },
    "geometric": {
        "alpha": lambda e: np.sqrt(2 * e),
        "beta": lambda e: 2 * (1 + np.sqrt(2 * e)) / (1 - 2 * e),
        "gamma": lambda e: (2 - np.sqrt(2 * e)) * (1 + np.sqrt(2 * e)) ** 1.5 / (2 * (1 - 2 * e) ** 1.5),
        "Gamma": lambda e: np.sqrt(1 + np.sqrt(2 * e)) / np.sqrt(1 - 2 * e),
        "Delta": lambda e: (2 / e) ** 0.25,
        "eta": lambda e: (2 - np.sqrt(2 * e)) / 2,
    },
    "harmonic": {
        "alpha": lambda e: 4 * e / (1 + 2 * e),
        "beta": lambda e: 4 / (1 - 2 * e),
        "gamma": lambda e: (3 - 2 * e) / (math.sqrt(2) * (1 - 2 * e) ** 1.5),
        "Gamma": lambda e: math.sqrt(2) / np.sqrt(1 - 2 * e),
        "Delta": lambda e: np.sqrt(4 / (1 + 2 * e)),
        "eta": lambda e: (3 - 2 * e) / 4,
    },
    "polynomial": {
        "alpha": lambda e: e * (5 / 2 - e),
        "beta": lambda e: 2 * (5 - 2 * e) / (1 - 2 * e),
        "gamma": lambda e: (3 - 2 * e) * np.sqrt(5 - 2 * e) / (1 - 2 * e) ** 1.5,
        "Gamma": lambda e: np.sqrt(5 - 2 * e) / np.sqrt(1 - 2 * e),
        "Delta": lambda e: np.sqrt((5 - 2 * e) / 2),
        "eta": lambda e: (3 - 2 * e) / (5 - 2 * e),
    },
}

#: The first line of the table: each constant as a function of ε and α.
DEFINED: dict[str, Callable[[Any, Any], Any]] = {
    "alpha": lambda e, a: a,
    "beta": lambda e, a: 2 * a / (a - 2 * e),
    "gamma": lambda e, a: np.sqrt(a) * (a - e) / (a - 2 * e) ** 1.5,
    "Gamma": lambda e, a: np.sqrt(a / (a - 2 * e)),
    "Delta": lambda e, a: np.sqrt(a / e),
    "eta": lambda e, a: (a - e) / a,
}

#: The constants that are bounded by a power of 1 - 2ε, and the power.
BOUNDED = {"gamma": 1.5, "Gamma": 0.5}


def measure(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Compare the closed forms with the definitions, also at ε = 0, and compute the universal constants."""
    epsilon = np.arange(1, N_POINTS + 1) / (2 * (N_POINTS + 1))
    return [
        *rows_of("table-constants", _cells(epsilon)),
        *rows_of("table-constants.universal", map(_universal, paper.MAPPINGS)),
        *rows_of("table-constants.at-zero", _at_zero()),
        *rows_of("table-constants.scaled", _scaled(epsilon)),
    ]


def _cells(epsilon: Any) -> list[dict[str, Any]]:
    found = []
    for mapping, forms in PRINTED.items():
        a, ours = paper.alpha(mapping, epsilon), paper.constants(epsilon, mapping)
        for name, form in forms.items():
            printed = form(epsilon)
            found.append(
                {
                    "mapping": mapping,
                    "constant": name,
                    "shares": len(epsilon),
                    "largest relative difference to the definition": _off(printed, DEFINED[name](epsilon, a)),
                    "largest relative difference to outvote.paper": _off(printed, getattr(ours, name)),
                    "at 0.1": float(form(0.1)),
                }
            )
    return found


def _off(one: Any, other: Any) -> float:
    return float(np.abs(one / other - 1).max())


def _universal(mapping: str) -> dict[str, Any]:
    """Return the largest γ(1-2ε)^(3/2) and Γ(1-2ε)^(1/2) for ε from 0 to close to 1/2."""
    epsilon = np.append(np.arange(5000) / 10_000, 0.5 - 1e-6)
    constants = paper.constants(epsilon, mapping)
    found: dict[str, Any] = {"mapping": mapping}
    for name, power in BOUNDED.items():
        scaled = getattr(constants, name) * (1 - 2 * epsilon) ** power
        found |= {f"largest scaled {name}": float(scaled.max()), f"epsilon, {name}": float(epsilon[scaled.argmax()])}
    return found


def _at_zero() -> list[dict[str, Any]]:
    """Return definition, closed form and limit at ε = 0, or None if a value is not finite."""
    found = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for mapping, forms in PRINTED.items():
            zero = np.float64(0.0)
            a, ours = np.float64(paper.alpha(mapping, 0.0)), paper.constants(0.0, mapping)
            for name in ("beta", "gamma", "Gamma", "eta"):
                values = (DEFINED[name](zero, a), forms[name](zero), getattr(ours, name))
                defined, printed, limit = (float(value) if np.isfinite(value) else None for value in values)
                found.append(
                    {
                        "mapping": mapping,
                        "constant": name,
                        "definition": defined,
                        "closed form": printed,
                        "limit": limit,
                    }
                )
    return found


def _scaled(epsilon: Any) -> list[dict[str, Any]]:
    found = []
    for mapping in paper.MAPPINGS:
        c = paper.constants(epsilon, mapping)
        columns = {name: getattr(c, name) * (1 - 2 * epsilon) ** power for name, power in BOUNDED.items()}
        found += [
            {"mapping": mapping, "epsilon": float(e), "scaled gamma": float(g), "scaled Gamma": float(h)}
            for e, g, h in zip(epsilon, columns["gamma"], columns["Gamma"], strict=True)
        ]
    return found


def draw(tables: Tables) -> Any:
    """Draw the two constants times their power of 1 - 2ε, and the universal bounds."""
    axes = new_panels(1, 2, panel=(4.8, 4.0))
    curves, largest = tables["table-constants.scaled"], tables["table-constants.universal"]
    words = {
        "gamma": ("γ(ε)·(1-2ε)$^{3/2}$", "c", "γ ≤ c/(1-2ε)$^{3/2}$"),
        "Gamma": ("Γ(ε)·√(1-2ε)", "C", "Γ ≤ C/√(1-2ε)"),
    }
    for ax, (name, (label, letter, title)) in zip(axes, words.items(), strict=True):
        for mapping, style in zip(paper.MAPPINGS, LINES, strict=False):
            chosen = {"mapping": mapping}
            ax.plot(
                column(curves, "epsilon", **chosen), column(curves, f"scaled {name}", **chosen), label=mapping, **style
            )
        top = column(largest, f"largest scaled {name}").max()
        ax.axhline(top, color="#8a8a8a", lw=1.2)
        ax.annotate(
            f"{letter} = {top:.4g}", (0.25, top), (0, 4), textcoords="offset points", ha="center", color="#444444"
        )
        ax.set(title=title, xlabel="share of outliers ε", ylabel=label, xlim=(0, 0.5), ylim=(0, 1.12 * top))
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.3, lw=0.5)
    figure = axes[0].figure
    figure.suptitle("Universal constants: how γ and Γ grow towards ε = 1/2")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def judge(tables: Tables) -> list[Finding]:
    """Check the cells, the universal constants, and the values at ε = 0."""
    cells, largest, at_zero = (tables[f"table-constants{end}"] for end in ("", ".universal", ".at-zero"))
    defined = column(cells, "largest relative difference to the definition").max()
    ours = column(cells, "largest relative difference to outvote.paper").max()
    found = [
        checked(
            "the closed forms of the table follow from the definitions",
            max(defined, ours) < 1e-9,
            f"all {len(cells)} cells agree at {cells[0]['shares']} shares, to {defined:.0e} with the definitions and "
            f"{ours:.0e} with outvote.paper",
            "a closed form differs",
        )
    ]
    for name, claim in {"gamma": "γ ≤ c/(1-2ε)^(3/2)", "Gamma": "Γ ≤ C/√(1-2ε)"}.items():
        each = {row["mapping"]: row[f"largest scaled {name}"] for row in largest}
        worst = max(each, key=lambda mapping: each[mapping])
        found.append(
            checked(
                f"there is a universal constant with {claim} for all four mappings",
                max(each.values()) < 100,
                f"the smallest such constant is {each[worst]:.4g}, for {worst}; one by one "
                + ", ".join(f"{mapping} {value:.4g}" for mapping, value in each.items()),
            )
        )
    missing = [row for row in at_zero if row["definition"] is None]
    closed = [
        row for row in at_zero if row["closed form"] is not None and abs(row["closed form"] - row["limit"]) < 1e-12
    ]
    names = list(dict.fromkeys(row["mapping"] for row in missing))
    betas = ", ".join(f"{row['closed form']:g} ({row['mapping']})" for row in missing if row["constant"] == "beta")
    found.append(
        Finding(
            "β, γ, Γ and η are defined by α on [0, 1/2)",
            "holds" if not missing else "holds in part" if len(closed) == len(at_zero) else "does not hold",
            f"at ε = 0 the definitions give 0/0 in {len(missing)} of {len(at_zero)} cells, those of "
            f"{', '.join(names)}; the closed forms give the limits in all {len(closed)}, for β {betas}",
            "for these mappings α is 0 at ε = 0, and so is the number of blocks: use the limits and at least one block",
        )
    )
    return found


EXPERIMENT = Experiment(
    name="table-constants",
    title="The table of constants",
    where="Table summary",
    runs=1,
    quick_runs=1,
    pieces=one_piece,
    measure=measure,
    tabulate=tabulate,
    draw=draw,
    judge=judge,
)
