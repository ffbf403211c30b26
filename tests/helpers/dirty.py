"""Plausible dirty rows: laws, real columns, and the errors that people make, at every distance."""

from __future__ import annotations

import math

import numpy as np

#: Name → (sampler, mean); the sd is 1.
LAWS = {
    "normal": (lambda rng, n: rng.normal(size=n), 0.0),
    "uniform": (lambda rng, n: rng.uniform(-math.sqrt(3), math.sqrt(3), n), 0.0),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0),
    "gamma(2)": (lambda rng, n: rng.gamma(2.0, size=n) / math.sqrt(2), math.sqrt(2)),
    "t(4)": (lambda rng, n: rng.standard_t(4, n) / math.sqrt(2), 0.0),
    "lognormal(0.5)": (lambda rng, n: rng.lognormal(0, 0.5, n) / 0.60390, math.exp(0.125) / 0.60390),
    "laplace": (lambda rng, n: rng.laplace(size=n) / math.sqrt(2), 0.0),
    "two humps": (lambda rng, n: rng.normal(rng.choice([-2.0, 2.0], n)) / math.sqrt(5), 0.0),
}
#: From harmless to absurd.
DISTANCES = (2, 3, 5, 8, 12, 20, 50, 100, 300, 1e3, 1e4, 1e6)
#: What becomes of a row.
ERRORS = {
    "ten times": lambda x: 10 * x,
    "cents": lambda x: 100 * x,
    "a thousand times": lambda x: 1000 * x,
    "-999": lambda x: np.full_like(x, -999.0),
    "9999": lambda x: np.full_like(x, 9999.0),
    "missing as zero": lambda x: np.zeros_like(x),
    "sign": lambda x: -x,
}


def moved(x, distance, kind, count, rng):
    """Return rows of which some, the first ones, are moved by so many sds, or multiplied, to one side or to two."""
    x, sides = x.copy(), rng.choice([-1.0, 1.0], count) if kind.startswith("two") else 1.0
    x[:count] = x[:count] * distance * sides if kind.endswith("scaled") else x[:count] + distance * sides
    return x


def real_columns(least=150):
    """Yield columns of data sets that scikit-learn and statsmodels bring along, with more than a few values."""
    import statsmodels.api as sm
    from sklearn import datasets

    for name in ("iris", "wine", "breast_cancer", "diabetes", "digits"):
        table = np.asarray(getattr(datasets, f"load_{name}")().data, dtype=float)
        yield from ((f"{name} {j}", column) for j, column in enumerate(table.T))
    for name in ("fair", "star98", "modechoice", "anes96", "ccard", "engel", "sunspots", "china_smoking", "statecrime"):
        frame = getattr(sm.datasets, name).load_pandas().data
        for column in frame.columns[: 6 if name == "star98" else None]:
            if frame[column].dtype.kind in "fi":
                yield f"{name} {column}", frame[column].dropna().to_numpy(float)
