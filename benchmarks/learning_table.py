"""Write the tables of docs/learning.md: data sets in raw columns, eight kinds of corruption, several ways to fit.

10 % of the rows are declared corrupt and 8 % are (none under "clean"). What is measured is kept in out/learning, one
file for each cell, so that a second run measures only what is missing. With another version of outvote first on the
path, ``--only outvote --label "outvote before"`` measures that version as a column of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    IsolationForest,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import (
    HuberRegressor,
    LinearRegression,
    LogisticRegression,
    RANSACRegressor,
    TheilSenRegressor,
)
from sklearn.metrics import balanced_accuracy_score, log_loss
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outvote as ov
from benchmarks.learning_sets import ATTACKS, MOST_ROWS, SETS, loaded, names

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- table: begin (benchmarks/learning_table.py) -->", "<!-- table: end -->"
DECLARED, CORRUPT, N_SPLITS, N_MODEL_SPLITS = 0.1, 0.08, 20, 10
OURS, BEFORE = "outvote", "outvote before"
#: The corruption that other models are measured under, in fewer splits: their fits take far longer.
MODEL_ATTACKS = ("clean", "label flips", "wrong units")
Scores = dict[str, list[float]]


def plain(classes: bool) -> Any:
    """Return the plain model: logistic regression or least squares on standardised columns."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000) if classes else LinearRegression())


def without_isolated(x: Any, y: Any, classes: bool, seed: int) -> Any:
    """Fit the plain model to the rows that an isolation forest keeps."""
    kept = IsolationForest(contamination=DECLARED, random_state=seed).fit_predict(x) > 0
    return plain(classes).fit(x[kept], y[kept])


def trimmed(x: Any, y: Any, classes: bool, seed: int) -> Any:
    """Fit, drop the rows with the largest losses, fit again, ten times."""
    model, kept = plain(classes), np.arange(len(y))
    for _ in range(10):
        model.fit(x[kept], y[kept])
        if classes:
            losses = -_chances(model, x, y.max() + 1)[np.arange(len(y)), y]
        else:
            losses = np.abs(model.predict(x) - y)
        kept = np.sort(np.argsort(losses, kind="stable")[: len(y) - int(DECLARED * len(y))])
    return model


def cleaned(x: Any, y: Any, classes: bool, seed: int) -> Any:
    """Fit the plain model to the rows without an issue that cleanlab finds."""
    from cleanlab.filter import find_label_issues

    chances = cross_val_predict(plain(True), x, y, method="predict_proba")
    issues = find_label_issues(y, chances, n_jobs=1)
    return plain(True).fit(x[~issues], y[~issues])


def linear(classes: bool) -> dict[str, Callable[..., Any]]:
    """Return the ways to fit a linear model; each takes rows, targets, whether they are classes, and a seed."""
    ways: dict[str, Callable[..., Any]] = {
        "plain": lambda x, y, c, seed: plain(c).fit(x, y),
        "isolation forest + plain": without_isolated,
        "loss trimming": trimmed,
    }
    if classes:
        ways["cleanlab"] = cleaned
    else:
        for name, model in (
            ("Huber", HuberRegressor(max_iter=1000)),
            ("RANSAC", RANSACRegressor(random_state=0)),
            ("Theil-Sen", TheilSenRegressor(random_state=0, max_subpopulation=100)),
        ):
            ways[name] = lambda x, y, c, seed, model=model: make_pipeline(StandardScaler(), clone(model)).fit(x, y)
    learner = ov.RobustClassifier if classes else ov.RobustRegressor
    ways[OURS] = lambda x, y, c, seed: learner(contamination=DECLARED, random_state=seed).fit(x, y)
    return ways


def models(classes: bool) -> dict[str, Callable[..., Any]]:
    """Return a forest, boosting and nearest neighbours, alone and in `RobustFit`."""
    forest, boosting, neighbours = (
        (RandomForestClassifier(50), HistGradientBoostingClassifier(max_iter=40), KNeighborsClassifier())
        if classes
        else (RandomForestRegressor(50), HistGradientBoostingRegressor(max_iter=40), KNeighborsRegressor())
    )
    ways: dict[str, Callable[..., Any]] = {}
    for name, model in (
        ("forest", forest),
        ("boosting", boosting),
        ("neighbours", make_pipeline(StandardScaler(), neighbours)),
    ):
        ways[name] = lambda x, y, c, seed, m=model: seeded(m, seed).fit(x, y)
        ways[f"RobustFit({name})"] = lambda x, y, c, seed, m=model: ov.RobustFit(
            seeded(m, seed), contamination=DECLARED, random_state=seed
        ).fit(x, y)
    return ways


def seeded(model: Any, seed: int) -> Any:
    """Return a copy of a model, with a seed if it takes one."""
    copy = clone(model)
    return copy.set_params(random_state=seed) if "random_state" in copy.get_params() else copy


def _chances(model: Any, x: Any, n_classes: int) -> Any:
    found = np.zeros((len(x), n_classes))
    found[:, model.classes_] = model.predict_proba(x)
    return found


def scores_of(model: Any, x: Any, y: Any, classes: bool) -> dict[str, float]:
    """Return accuracy, log loss and balanced accuracy, or R², of which less than 0 counts as 0."""
    if not classes:
        return {"score": max(0.0, float(model.score(x, y)))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        balanced = balanced_accuracy_score(y, model.predict(x))
    chances = np.clip(_chances(model, x, int(y.max()) + 1), 1e-9, 1)
    chances /= chances.sum(axis=1, keepdims=True)
    loss = log_loss(y, chances, labels=np.arange(chances.shape[1]))
    return {"score": float(model.score(x, y)), "log loss": float(loss), "balanced": float(balanced)}


def thinned(y: Any, seed: int) -> Any:
    """Return rows of which the rarer of two classes are 5 %."""
    rare = int(np.argmin(np.bincount(y)))
    few, many = np.flatnonzero(y == rare), np.flatnonzero(y != rare)
    kept = np.random.default_rng(seed).choice(few, size=max(8, len(many) // 19), replace=False)
    return np.sort(np.concatenate([many, kept]))


def measured(name: str, attack: str, fit: Callable[..., Any], n_splits: int, rare: bool = False) -> Scores:
    """Score a way to fit on clean test rows, over random splits."""
    classes, found = SETS[name].classes, {}
    every_x, every_y = loaded(name)
    for seed in range(n_splits):
        x, y = every_x, every_y
        if rare:
            kept = thinned(y, seed)
            x, y = x[kept], y[kept]
        split = train_test_split(x, y, test_size=0.3, random_state=seed, stratify=y if classes else None)
        x_train, x_test, y_train, y_test = split
        rng = np.random.default_rng([seed, len(attack)])
        bad = rng.choice(len(y_train), size=int(CORRUPT * len(y_train)), replace=False)
        dirty = ATTACKS[attack](x_train, y_train, bad, classes, rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fit(*dirty, classes, seed)
            for key, value in scores_of(model, x_test, y_test, classes).items():
                found.setdefault(key, []).append(value)
    return found


class Results:
    """What was measured, kept in a folder."""

    def __init__(self, folder: Path, label: str = ""):
        self.folder, self.label = folder, label
        folder.mkdir(parents=True, exist_ok=True)

    def get(self, name: str, attack: str, way: str, rare: bool = False) -> Scores | None:
        """Return the scores of a cell, None if it was not measured."""
        path = self._path(name, attack, way, rare)
        return json.loads(path.read_text()) if path.exists() else None

    def mean(self, name: str, attack: str, way: str, key: str = "score", rare: bool = False) -> float:
        """Return the mean of the scores of a cell, NaN if it was not measured."""
        found = self.get(name, attack, way, rare)
        return float(np.mean(found[key])) if found else float("nan")

    def measure(self, name: str, attack: str, way: str, fit: Any, n_splits: int, rare: bool = False) -> None:
        """Measure a cell unless it is there."""
        way = self.label or way
        if self.get(name, attack, way, rare) is None:
            try:
                found = measured(name, attack, fit, n_splits, rare)
            except ImportError:
                return
            self._path(name, attack, way, rare).write_text(json.dumps(found))

    def _path(self, name: str, attack: str, way: str, rare: bool) -> Path:
        parts = (name, attack, way, "rare") if rare else (name, attack, way)
        return self.folder / ("--".join(re.sub(r"\W+", "-", part) for part in parts) + ".json")


def measure(results: Results, held_out: bool | None, only: str = "", with_models: bool = True) -> None:
    """Measure all cells that are missing, of all sets or of those held out or not."""
    for classes in (True, False):
        for name in names(classes, held_out):
            for way, fit in linear(classes).items():
                if only in ("", way):
                    for attack in ATTACKS:
                        results.measure(name, attack, way, fit, N_SPLITS)
                    if way in ("plain", OURS) and classes and len(np.unique(loaded(name)[1])) == 2:
                        results.measure(name, "clean", way, fit, N_SPLITS, rare=True)
            for way, fit in models(classes).items() if with_models and not only else ():
                for attack in MODEL_ATTACKS:
                    results.measure(name, attack, way, fit, N_MODEL_SPLITS)


def line(cells: Iterable[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def text(value: float, best: bool = False) -> str:
    """Return a number with three digits, bold if it is the best."""
    if np.isnan(value):
        return "–"
    return f"**{value:.3f}**" if best else f"{value:.3f}"


def linear_table(results: Results, classes: bool) -> list[str]:
    """Return the table of linear models: one line for each set and kind of corruption, and means."""
    ways = [way for way in (*linear(classes), BEFORE) if way != OURS] + [OURS]
    lines = [line(["data", "corruption", *ways]), line(["---"] * (len(ways) + 2))]
    for held_out in (False, True):
        found = {a: [[results.mean(n, a, w) for w in ways] for n in names(classes, held_out)] for a in ATTACKS}
        for at, name in enumerate(names(classes, held_out)):
            for attack in ATTACKS:
                means = found[attack][at]
                top = np.nanmax(means)
                shown = [text(value, bool(round(value, 3) == round(top, 3))) for value in means]
                lines.append(line([f"{name}{' *' * held_out}", attack, *shown]))
        for attack in ATTACKS:
            means = np.mean(found[attack], axis=0).tolist()
            shown = [text(value, bool(round(value, 3) == round(max(means), 3))) for value in means]
            lines.append(line([f"*mean{', held out' * held_out}*", attack, *shown]))
    return lines


def model_table(results: Results) -> list[str]:
    """Return the table of other models: means over the sets, and the differences that RobustFit makes."""
    ways = list(models(True))
    lines = [line(["data", "corruption", *ways]), line(["---"] * (len(ways) + 2))]
    for classes in (True, False):
        for held_out in (False, True):
            sets = names(classes, held_out)
            what = f"{'accuracy' if classes else 'R²'}, {len(sets)} sets{', held out' * held_out}"
            for attack in MODEL_ATTACKS:
                means = [float(np.mean([results.mean(name, attack, way) for name in sets])) for way in ways]
                lines.append(line([what, attack, *map(text, means)]))
    for attack in MODEL_ATTACKS:
        found = [np.mean([results.mean(name, attack, way) for name in SETS]) for way in ways]
        gains = [cell for at in range(0, len(ways), 2) for cell in ("", f"{found[at + 1] - found[at]:+.3f}")]
        lines.append(line([f"*RobustFit minus the model, {len(SETS)} sets*", attack, *gains]))
    return lines


def clauses(results: Results) -> list[str]:
    """Return the claims, each with the numbers that support or refute it."""
    lines = [line(["", "sets looked at while choosing", "held out"]), line(["---"] * 3)]
    rows: dict[str, list[str]] = {}
    for held_out in (False, True):
        for key, value in claims(results, held_out).items():
            rows.setdefault(key, []).append(value)
    return lines + [line([key, *values]) for key, values in rows.items()]


def claims(results: Results, held_out: bool) -> dict[str, str]:
    """Return the numbers behind the claims, for the sets held out or the others."""
    sets = [*names(True, held_out), *names(False, held_out)]
    classified = names(True, held_out)
    attacked = [(name, attack) for name in sets for attack in ATTACKS if attack != "clean"]

    def gaps(cells: Any, other: str) -> Any:
        each = [results.mean(*cell, OURS) - results.mean(*cell, other) for cell in cells]
        return np.array([gap for gap in each if not np.isnan(gap)])

    def against(cells: Any, other: str) -> str:
        each = gaps(cells, other)
        if not len(each):
            return "–"
        return f"{each.mean():+.3f}; worse by more than .01 in {np.sum(each < -0.01)} of {len(each)} cells"

    clean = gaps([(name, "clean") for name in sets], "plain")
    ratios = [results.mean(n, "clean", OURS, "log loss") / results.mean(n, "clean", "plain", "log loss")
              for n in classified]  # fmt: skip
    two = [name for name in classified if results.get(name, "clean", "plain", rare=True)]
    rare = [results.mean(n, "clean", OURS, "balanced", True) - results.mean(n, "clean", "plain", "balanced", True)
            for n in two]  # fmt: skip
    every = [(name, attack) for name in sets for attack in ATTACKS]
    balanced = f"{np.mean(rare):+.3f}; {np.min(rare):+.3f}" if rare else "–"
    return {
        "clean, score minus plain: mean; lowest": f"{clean.mean():+.3f}; {clean.min():+.3f}",
        "clean, log loss over plain: mean; highest": f"{np.mean(ratios):.3f}; {np.max(ratios):.3f}",
        "clean, a class of 5 %, balanced accuracy minus plain: mean; lowest": balanced,
        "corrupt, minus outvote before": against(attacked, BEFORE),
        "all cells, minus isolation forest + plain": against(every, "isolation forest + plain"),
        "all cells, minus cleanlab": against([c for c in every if c[0] in classified], "cleanlab"),
        "all cells, minus Huber": against([c for c in every if c[0] not in classified], "Huber"),
    }


def page(results: Results) -> str:
    """Return what stands between the marks of the page."""
    parts = [
        f"Mean over {N_SPLITS} splits, tested on clean rows; at most {MOST_ROWS} rows of each set; R² below 0 counts "
        "as 0. Sets with * were held out: they were measured when the first rules were chosen, and again when these "
        "had been changed on the other sets.",
        "Accuracy of linear classifiers:",
        "\n".join(linear_table(results, True)),
        "R² of linear regressions:",
        "\n".join(linear_table(results, False)),
        "In short, differences of mean scores:",
        "\n".join(clauses(results)),
        f"Other models, means over the sets ({N_MODEL_SPLITS} splits):",
        "\n".join(model_table(results)),
    ]
    return "\n\n".join(parts)


def main(arguments: list[str] | None = None) -> None:
    """Measure what is missing, and rewrite the tables between their marks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=ROOT / "out" / "learning")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "learning.md")
    parser.add_argument("--sets", choices=("all", "chosen", "held-out"), default="all")
    parser.add_argument("--only", default="", help="measure one way to fit only")
    parser.add_argument("--label", default="", help="keep what is measured under this name; nothing is written")
    parser.add_argument("--no-models", action="store_true")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    results = Results(options.results, options.label)
    held_out = {"all": None, "chosen": False, "held-out": True}[options.sets]
    measure(results, held_out, options.only, not options.no_models)
    if options.label:
        return
    written = page(results)
    before = options.output.read_text(encoding="utf-8")
    head, tail = before.partition(BEGIN)[0], before.partition(END)[2]
    options.output.write_text(f"{head}{BEGIN}\n{written}\n{END}{tail}", encoding="utf-8")
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
