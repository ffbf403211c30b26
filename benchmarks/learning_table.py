"""Write the table of docs/learning.md: two real data sets in raw columns, six attacks, seven ways to fit."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import HuberRegressor, LinearRegression, LogisticRegression, SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outvote as ov
from outvote.learning import DivergenceError, RobustnessWarning
from outvote.learning.scaling import robust_scaling

BEGIN, END = "<!-- table: begin (benchmarks/learning_table.py) -->", "<!-- table: end -->"
Data = tuple[Any, Any]
Attack = Callable[[Any, Any, Any, np.random.Generator], Data]


# --- attacks: given clean rows, their targets, the rows to spoil and a generator, return spoiled copies -------


def none(x: Any, y: Any, bad: Any, rng: np.random.Generator) -> Data:
    """Nothing is spoiled, but corruption is declared."""
    return x.copy(), y.copy()


def flips(x: Any, y: Any, bad: Any, rng: np.random.Generator) -> Data:
    """Targets are turned round: the other class, or mirrored in the middle of their range."""
    x, y = x.copy(), y.copy()
    y[bad] = y.max() + y.min() - y[bad]
    return x, y


def blow_ups(x: Any, y: Any, bad: Any, rng: np.random.Generator) -> Data:
    """Targets are turned round and columns are blown up a hundredfold, in a unit of its own for each value."""
    x, y = flips(x, y, bad, rng)
    x[bad] *= rng.uniform(10, 100, size=x[bad].shape)
    return x, y


def leverage(x: Any, y: Any, bad: Any, rng: np.random.Generator) -> Data:
    """Rows sit twenty standard deviations out where targets are low, with the highest target."""
    z = (x - x.mean(0)) / x.std(0)
    return _far_along(z.T @ (y - y.mean()), x, y, bad, rng)


def blunt_leverage(x: Any, y: Any, bad: Any, rng: np.random.Generator) -> Data:
    """The same against the weights of least squares: with collinear columns, a place where clean rows never are."""
    z = (x - x.mean(0)) / x.std(0)
    return _far_along(np.linalg.lstsq(z, y - y.mean(), rcond=None)[0], x, y, bad, rng)


def _far_along(w: Any, x: Any, y: Any, bad: Any, rng: np.random.Generator) -> Data:
    centre, scale = x.mean(0), x.std(0)
    x, y = x.copy(), y.copy()
    far = -20 * w / np.linalg.norm(w) + 0.5 * rng.normal(size=(len(bad), len(w)))
    x[bad], y[bad] = centre + scale * far, y.max()
    return x, y


def copies(x: Any, y: Any, bad: Any, rng: np.random.Generator) -> Data:
    """One row with a wrong target, three standard deviations out, comes again and again."""
    x, y = x.copy(), y.copy()
    centre, scale = x.mean(0), x.std(0)
    x[bad] = centre + 3 * scale * rng.choice([-1.0, 1.0], size=x.shape[1])
    y[bad] = y.max() if np.mean(y) < (y.max() + y.min()) / 2 else y.min()
    return x, y


ATTACKS: dict[str, Attack] = {
    "none": none,
    "label flips": flips,
    "blow-ups": blow_ups,
    "leverage": leverage,
    "blunt leverage": blunt_leverage,
    "duplicates": copies,
}


# --- ways to fit ---------------------------------------------------------------------------------------------


class Trimmed:
    """Fit, drop the rows with the largest losses, fit again, ten times."""

    def __init__(self, model: Any, share: float):
        self.model, self.share = model, share

    def fit(self, x: Any, y: Any) -> Trimmed:
        kept = np.arange(len(y))
        for _ in range(10):
            self.model.fit(x[kept], y[kept])
            if hasattr(self.model, "predict_proba"):
                losses = -self.model.predict_proba(x)[np.arange(len(y)), y.astype(int)]
            else:
                losses = np.abs(self.model.predict(x) - y)
            kept = np.sort(np.argsort(losses, kind="stable")[: len(y) - int(self.share * len(y))])
        return self

    def score(self, x: Any, y: Any) -> float:
        return float(self.model.score(x, y))


class Winsorized:
    """Pull columns (and a numeric target) back to four robust standard deviations, then fit."""

    def __init__(self, model: Any, target: bool):
        self.model, self.target = model, target

    def fit(self, x: Any, y: Any) -> Winsorized:
        self.centre, self.scale = robust_scaling(x, len(x) // 10)
        if self.target:
            (centre,), (scale,) = robust_scaling(y[:, None], len(y) // 10)
            y = np.clip(y, centre - 4 * scale, centre + 4 * scale)
        self.model.fit(self._pulled(x), y)
        return self

    def score(self, x: Any, y: Any) -> float:
        return float(self.model.score(self._pulled(x), y))

    def _pulled(self, x: Any) -> Any:
        return np.clip(x, self.centre - 4 * self.scale, self.centre + 4 * self.scale)


def ways(task: str, share: float, seed: int) -> dict[str, Any]:
    """Return the ways to fit, by name."""
    common = {"contamination": share, "random_state": seed}
    if task == "classification":

        def plain() -> Any:
            return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))

        huber: Any = make_pipeline(StandardScaler(), SGDClassifier(loss="modified_huber", random_state=seed))
        ours = ov.RobustClassifier(**common), ov.RobustClassifier(finish=False, **common)
    else:

        def plain() -> Any:
            return make_pipeline(StandardScaler(), LinearRegression())

        huber = make_pipeline(StandardScaler(), HuberRegressor(max_iter=2000))
        ours = ov.RobustRegressor(**common), ov.RobustRegressor(finish=False, **common)
    target = task == "regression"
    return {
        "plain": plain(),
        "winsorize + plain": Winsorized(plain(), target),
        "iterative trimming": Trimmed(plain(), share),
        "winsorize + trimming": Winsorized(Trimmed(plain(), share), target),
        "Huber": huber,
        "outvote": ours[0],
        "outvote, vote alone": ours[1],
    }


SETS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "breast cancer": (load_breast_cancer, "classification", "accuracy"),
    "diabetes": (load_diabetes, "regression", "R²"),
}


def measure(runs: int, shares: tuple[float, ...]) -> dict[tuple[str, float, str], dict[str, list[float]]]:
    """Score every way to fit on clean test rows, over random splits."""
    found: dict[tuple[str, float, str], dict[str, list[float]]] = {}
    for name, (load, task, _) in SETS.items():
        x, y = load(return_X_y=True)
        if name == "diabetes":
            x, y = load(return_X_y=True, scaled=False)
        y = y.astype(float if task == "regression" else int)
        for seed in range(runs):
            x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.3, random_state=seed)
            for share in shares:
                for attack, spoil in ATTACKS.items():
                    rng = np.random.default_rng([seed, len(attack)])
                    bad = rng.choice(len(y_train), size=int(share * len(y_train)), replace=False)
                    spoiled = spoil(x_train, y_train, bad, rng)
                    for way, model in ways(task, share, seed).items():
                        try:
                            score = model.fit(*spoiled).score(x_test, y_test)
                        except DivergenceError:
                            score = -np.inf
                        found.setdefault((name, share, attack), {}).setdefault(way, []).append(score)
    return found


def table(found: dict[tuple[str, float, str], dict[str, list[float]]], runs: int) -> str:
    """Write the table: means over the runs, the best of each line in bold."""
    names = list(next(iter(found.values())))
    lines = [
        f"Mean over {runs} splits, tested on clean rows; the declared contamination is the true one.",
        "",
        f"| data, corrupt share | attack | {' | '.join(names)} |",
        f"|---|---|{'---|' * len(names)}",
    ]
    for (name, share, attack), scores in found.items():
        means = {way: float(np.mean(values)) for way, values in scores.items()}
        best = max(means.values())
        cells = []
        for way in names:
            text = _text(means[way])
            cells.append(f"**{text}**" if text == _text(best) else text)
        lines.append(f"| {name} ({SETS[name][2]}), {share:.0%} | {attack} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _text(value: float) -> str:
    return f"{value:.3f}" if value > -10 else "< -10"


def main(arguments: list[str] | None = None) -> None:
    """Measure, and rewrite the table between its marks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "docs" / "learning.md")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RobustnessWarning)
        written = table(measure(options.runs, (0.1, 0.2)), options.runs)
    page = options.output.read_text(encoding="utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    options.output.write_text(f"{before}{BEGIN}\n{written}\n{END}{after}", encoding="utf-8")
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
