"""Random rows and arguments, right ones and wrong ones."""

from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import outvote as ov

SIZES = (0, 1, 2, 3, 4, 7, 12, 40, 40, 150, 150, 500, 2000)
WRONG_ROWS = (
    None, "abc", 5, {}, [], [None, 1.0], ["1", "2"], [[1, 2], [3]], [1j, 2.0], object(), np.zeros((3, 0)),
    np.zeros((0, 3)), [[[1.0]]], np.array(["2020-01-01"], dtype="datetime64[D]"), b"abc", {"a": [1.0]}, float, range(0),
)  # fmt: skip
WRONG = (
    None, True, "x", "", -1, 0, 1, 2, 1.5, -0.5, float("nan"), float("inf"), -float("inf"), 10**400, 10**30, 1e308,
    5e-324, (), [], (0.1,), (0.1, 0.2), [1, 2, 3], {}, object(), b"x", 1j, np.int8(100), np.float32(0.3),
    Fraction(1, 3), np.array(3), np.array([1, 2]), np.bool_(True), "auto", [[1]], 2**63, float, "nan", "mean > 0",
)  # fmt: skip


def pick(rng, choices):
    """Return one of some values; not by numpy, which would turn them into an array."""
    return choices[int(rng.integers(len(choices)))]


def numbers(rng, n):
    """Return n numbers of one of many kinds."""
    kind = int(rng.integers(12))
    plain = rng.normal(size=n)
    if kind == 0:
        return plain * 10.0 ** rng.uniform(-320, 305)
    if kind == 1:
        return rng.exponential(size=n) * 10.0 ** rng.uniform(-9, 9)
    if kind == 2:
        return rng.standard_cauchy(size=n)
    if kind == 3:
        return np.full(n, pick(rng, (0.0, -0.0, 1.0, 0.1, 1e308, 5e-324, -7e200)))
    if kind == 4:
        return rng.integers(0, 2, n).astype(pick(rng, (float, bool, np.int8, np.uint8, np.int64)))
    if kind == 5:
        return rng.integers(-100, 100, n).astype(pick(rng, (np.int8, np.int16, np.int64, np.float16, np.float32)))
    if kind == 6:
        return np.round(plain, 1)
    if kind == 7:
        return rng.uniform(size=n)
    if kind == 8:
        return plain + 10.0 ** rng.integers(0, 17)
    return plain * pick(rng, (1.0, 1.0, 100.0, 1e-3))


def corrupted(rng, x):
    """Return numbers of which some may be far out, NaN or infinite."""
    kind = rng.random()
    if kind < 0.6 or not len(x) or x.dtype.kind != "f" or x.dtype.itemsize < 8:
        return x
    x = x.copy()
    where = rng.integers(0, len(x), max(1, len(x) // 50))
    x[where] = pick(rng, (1e6, -1e300, 1.7e308, np.nan, np.inf, -np.inf, 0.0))
    return x


def rows(rng, columns=0):
    """Return rows as an array, of one column or some."""
    n = pick(rng, SIZES)
    if columns:
        return np.column_stack([corrupted(rng, numbers(rng, n).astype(float)) for _ in range(columns)])
    return corrupted(rng, numbers(rng, n))


def contained(rng, x):
    """Return rows in one of the containers that users have."""
    kind = rng.random()
    if kind < 0.5:
        return x
    if kind < 0.6:
        return x.tolist()
    if x.ndim == 1:
        makers = (pd.Series, pl.Series, lambda a: np.repeat(a, 2)[::2], tuple, pa.array)
        return pick(rng, makers[: 5 if x.dtype != np.float16 else 1])(x)
    frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(x.shape[1])])
    return pick(rng, (lambda f: f, pl.from_pandas, np.asfortranarray))(frame)


def assumption(rng, x=None):
    """Return something that may be known of rows."""
    scale = 10.0 ** rng.uniform(-3, 3)
    if x is not None and len(x) and np.issubdtype(np.asarray(x).dtype, np.number):
        with np.errstate(all="ignore"):
            values = np.asarray(x, dtype=float)
            found = float(np.std(values[np.isfinite(values)])) if np.isfinite(values).any() else 0.0
        scale = found if 1e-140 < found < 1e140 else scale
    low = -scale * rng.uniform(0, 20)
    return pick(rng, (
        None, ov.FiniteVariance(scale), ov.FiniteVariance(3 * scale), ov.SubGaussian(2 * scale),
        ov.Bounded(low, low + 40 * scale), ov.FiniteKurtosis(9.0), ov.FiniteKurtosis(5.0, sd=2 * scale),
        ov.Symmetric(), ov.Proportion(),
    ))  # fmt: skip


CHOICES = {
    "contamination": (0, 1, 2, 0.01, 0.05, 0.2, 0.0, Fraction(1, 50), "auto", ov.Contamination(2, "adaptive")),
    "confidence": (0.95, 0.5, 0.99, 1 - 1e-9, 0.01, Fraction(9, 10)),
    "vote": ("auto", "evidence", "median", "soft", "clipped"),
    "n_blocks": ("auto", 1, 5, 11, 31),
    "partition": ("random", "uniform", "hash", "contiguous"),
    "nan_policy": ("raise", "omit", "corrupt"),
    "alternative": ("two-sided", "less", "greater"),
    "remainder": (None, "drop", "spread"),
    "simultaneous": (False, True),
    "max_contamination": (0.1, 0.25, 0.0),
    "axis": (0, None),
    "counted": (None, "together", "each"),
    "relative": (False, True),
    "paired": (False, True),
    "adversary": ("oblivious", "adaptive"),
    "grid": (None, "full", "diagonal"),
    "q": (0.5, 0.1, 0.99, [0.25, 0.75], Fraction(1, 3)),
    "bandwidth": (None, 1.0),
    "n_models": (1, 3),
    "vc_dim": (None, 2),
    "top": (20, 1),
    "partitions": (20,),
    "levels": (None, [0, 1, 2]),
    "claim": ("mean > 0", "mean < 1", "difference > 0", "median > 0", "p90 < 3", "lift > 0", None),
    "kernel": ("variance", "gini", "wilcoxon", "kendall", "auc", "mann-whitney", "energy", "covariance", "mmd"),
}


def arguments(rng, names, x=None, wrong=0.06):
    """Return some named arguments, mostly right ones."""
    found = {}
    for name in names:
        if rng.random() < 0.55:
            continue
        if rng.random() < wrong:
            found[name] = pick(rng, WRONG)
        elif name == "assume":
            found[name] = assumption(rng, x)
        else:
            found[name] = pick(rng, CHOICES[name])
    return found
