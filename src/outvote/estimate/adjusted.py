"""Adjust values by a covariate: the difference of the means of value - coefficient·covariate (CUPED)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.assumptions import Assumption
from outvote.contamination import Adversary, Contamination
from outvote.data.arguments import is_number
from outvote.data.missing import NanPolicy
from outvote.data.rows import read_rows
from outvote.estimate.ordered import Floats, Ordered
from outvote.estimate.request import Assumed
from outvote.estimate.screened import Screened, as_ordered, without_bad_rows

#: One row in so many is held out to fit the coefficient, and no more than so many of each sample.
_ONE_IN, _MOST = 10, 10_000
#: How often rows are dropped by how far they are from the line.
_STEPS = 10
_RANDOMISED = "That is the difference of the values if the arms were randomised"


@dataclass(frozen=True)
class Adjusted:
    """Two samples of adjusted values.

    Attributes
    ----------
    ordered : tuple of Ordered
        value - coefficient·covariate of the rows that are compared.
    baseline : Ordered
        The values of a.
    sizes : tuple of int
        How many rows each sample has, those held out among them.
    note : str
        What the comparison rests on.
    """

    ordered: tuple[Ordered, Ordered]
    baseline: Ordered
    sizes: tuple[int, int]
    note: str


def adjusted(
    samples: Sequence[Any],
    covariates: Any,
    coefficient: Any,
    assumed: Assumed,
    contamination: Contamination | None,
    adversary: Adversary,
    nan_policy: NanPolicy,
    names: Sequence[str] = "ab",
) -> Adjusted:
    """Read values and covariates of both samples, and adjust the values.

    Parameters
    ----------
    samples : pair of array-like
        The values of a and of b.
    covariates : pair of array-like
        The covariate of each row.
    coefficient : float, pair of array-like, or None
        The coefficient, rows (covariate, value) to fit it to, or None to hold out rows of both samples.
    assumed : pair of Assumption or None
        What is known of the adjusted values.
    contamination : Contamination or None
        How many rows may be corrupt; None if that is left open.
    adversary : {"oblivious", "adaptive"}
        Whether the corrupt positions are independent of the clean values.
    nan_policy : str
        As for `mean`; a row without a covariate is a row with NaN.
    names : sequence of str
        What the samples are called.
    """
    tables = [_table(*one) for one in zip(samples, _pair(covariates), names, strict=True)]
    screened = [without_bad_rows(table, nan_policy, name) for table, name in zip(tables, names, strict=True)]
    sizes = tuple(one.n_rows for one in screened)
    counts = (0, 0) if contamination is None else contamination.counts(sizes)
    share = sum(counts) / sum(sizes)
    kept: list[Any] = [slice(None), slice(None)]
    if coefficient is None:
        if adversary == "adaptive":
            raise ValueError(
                "covariate without a coefficient holds rows out to fit it, which proves nothing against an adversary "
                "who saw them: give coefficient=0.7, or rows of an earlier period, coefficient=(covariate, value)"
            )
        # The fold is drawn from all rows, so that those without a number do not choose it.
        folds = [_held_out(len(table), one.where) for table, one in zip(tables, screened, strict=True)]
        fitted = np.concatenate([one.table[fold] for one, fold in zip(screened, folds, strict=True)])
        slope = fit_slope(fitted[:, 0], fitted[:, 1], share)
        kept = [np.delete(np.arange(n), fold) for n, fold in zip(sizes, folds, strict=True)]
        note = (
            f"{_RANDOMISED}, and if what stands in corrupt rows among the {len(fitted)} that were held out to fit the "
            "coefficient does not depend on the others."
        )
    elif is_number(coefficient):
        slope = float(coefficient)
        if not math.isfinite(slope):
            raise ValueError(f"coefficient={coefficient!r} must be a finite number, 0.7 for instance")
        note = f"{_RANDOMISED}, and the coefficient was fixed before these rows existed."
    else:
        slope = fit_slope(*_earlier(coefficient), share)
        note = f"{_RANDOMISED}, and the rows that the coefficient was fitted to are independent of these."
    ordered = [_column(*one, slope) for one in zip(screened, kept, assumed, names, strict=True)]
    values = as_ordered(screened[0].table[:, 1], screened[0].bad, None, screened[0].where, screened[0].n_bad)
    return Adjusted(
        (ordered[0], ordered[1]),
        replace(values, subject=f"the sd of clean values of {names[0]}"),
        (sizes[0], sizes[1]),
        f"Values were adjusted: value - {slope:.4g}·covariate. {note}",
    )


def fit_slope(x: Floats, y: Floats, share: float) -> float:
    """Return the slope of a line through most of the rows; 0 if there is none.

    As many of the rows that lie farthest out as may be corrupt, twice, are left out: first by their distance from the
    median in either column, then, step by step, by that from the line.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=1000)
    >>> y = 0.7 * x + rng.normal(scale=0.5, size=1000)
    >>> x[:5], y[5:10] = 1e6, -1e6
    >>> round(fit_slope(x, y, 0.01), 1)
    0.7
    """
    finite = np.isfinite(x) & np.isfinite(y)
    x, y = x[finite], y[finite]
    dropped = min(math.ceil(2 * share * len(x)), len(x) // 4)
    if len(x) - 2 * dropped < 3:
        return 0.0
    with np.errstate(over="ignore"):
        far = [np.abs(one - np.median(one)) for one in (x, y)]
    ends = [float(np.partition(one, len(x) - dropped - 1)[len(x) - dropped - 1]) for one in far]
    if not (ends[0] > 0 and math.isfinite(ends[0] + ends[1])):
        return 0.0
    keep = (far[0] <= ends[0]) & (far[1] <= ends[1])
    # In units that are powers of two, so that no square overflows, or vanishes.
    exponents = [math.frexp(end)[1] for end in ends]
    with np.errstate(over="ignore", invalid="ignore"):  # of rows that are left out
        x, y = (np.ldexp(one, -exponent) for one, exponent in zip((x, y), exponents, strict=True))
        slope = float(np.ldexp(_slope_of(x, y, keep, len(x) - dropped), exponents[1] - exponents[0]))
    return slope if math.isfinite(slope) else 0.0


def _slope_of(x: Floats, y: Floats, keep: NDArray[np.bool_], n_kept: int) -> float:
    """Return the slope of a line through rows, of which those nearest to it are kept, step by step."""
    slope = 0.0
    for _ in range(_STEPS):
        if not keep.any():
            return 0.0
        dx, dy = x[keep] - x[keep].mean(), y[keep] - y[keep].mean()
        below = float(dx @ dx)
        if not below > 0:
            return 0.0
        slope = float(dx @ dy) / below
        away = np.abs(y - slope * x - np.median(y[keep] - slope * x[keep]))
        now = away <= np.partition(away, n_kept - 1)[n_kept - 1]
        if np.array_equal(now, keep):
            break
        keep = now
    return slope


def _held_out(n_rows: int, left: NDArray[np.intp] | None) -> NDArray[np.intp]:
    """Return which of the rows that are left are held out: those of a permutation for the number of all rows."""
    fold = np.random.default_rng([17, n_rows]).permutation(n_rows)[: min(n_rows // _ONE_IN, _MOST)]
    return fold if left is None else np.flatnonzero(np.isin(left, fold))


def _pair(covariates: Any) -> tuple[Any, Any]:
    if not isinstance(covariates, (tuple, list)) or len(covariates) != 2:
        raise TypeError(f"covariate must be a pair, (before_a, before_b), not {type(covariates).__name__}")
    return covariates[0], covariates[1]


def _table(sample: Any, covariate: Any, name: str) -> Floats:
    """Return covariate and value of each row."""
    columns = [read_rows(covariate, f"covariate of {name}"), read_rows(sample, name)]
    for column, what in zip(columns, (f"covariate of {name}", name), strict=True):
        if column.ndim != 1:
            raise ValueError(f"{what} has shape {tuple(column.shape)}: with a covariate it must be one column")
    if len(columns[0]) != len(columns[1]):
        raise ValueError(
            f"covariate of {name} has {len(columns[0])} rows, but {name} has {len(columns[1])}: give one for each row"
        )
    return np.column_stack(columns).astype(np.float64, copy=False)


def _earlier(coefficient: Any) -> tuple[Floats, Floats]:
    if not isinstance(coefficient, (tuple, list)) or len(coefficient) != 2:
        raise TypeError(
            f"coefficient={coefficient!r} must be a number, or rows of an earlier period: (covariate, value)"
        )
    x, y = (read_rows(one, "coefficient").astype(np.float64) for one in coefficient)
    if x.ndim != 1 or x.shape != y.shape:
        raise ValueError(f"coefficient has rows of shapes {x.shape} and {y.shape}: give two columns with as many rows")
    return x, y


def _column(screened: Screened, kept: Any, assume: Assumption | None, name: str, slope: float) -> Ordered:
    """Return the adjusted values of some rows."""
    table = screened.table[kept]
    with np.errstate(over="ignore", invalid="ignore"):
        values = table[:, 1] - slope * table[:, 0]
    bad = None if screened.bad is None else screened.bad[kept]
    if not np.isfinite(values if bad is None else values[~bad]).all():
        raise ValueError(f"value - coefficient·covariate is too large for a float in {name}: divide by a power of ten")
    where = screened.where
    if not isinstance(kept, slice):
        where = kept if where is None else where[kept]
    found = as_ordered(values, bad, assume, where, screened.n_bad)
    return replace(found, subject=f"the sd of value - {slope:.4g}·covariate in clean rows")
