"""Rows as the descent sees them: centred and scaled by numbers that corrupt rows cannot move far."""

from __future__ import annotations

from typing import Any

import numpy as np

from outvote import _numba
from outvote.learning.arrays import Array, slices

#: The smallest number that has an inverse, and all its digits.
SMALLEST = float(np.finfo(np.float64).tiny)
#: Rows, or numbers, centred at once.
_CHUNK = 2**16
#: Up to this many columns a plain loop over the rows is faster than BLAS.
_NARROW = 16


def robust_scaling(x: Array, n_corrupt: int) -> tuple[Array, Array]:
    """Return a centre and a scale for each column; see `robust_centre_and_scale`.

    Examples
    --------
    >>> x = np.r_[np.arange(100.0), 1e9][:, None]
    >>> centre, scale = robust_scaling(x, 1)
    >>> centre.round(1), scale.round(1)
    (array([50.]), array([37.1]))
    """
    centre, scale = np.array([robust_centre_and_scale(column, n_corrupt) for column in x.T]).T.copy()
    return centre, scale


def robust_centre_and_scale(values: Array, n_corrupt: int) -> tuple[float, float]:
    """Return a centre and a scale of one column.

    The centre is the mean without the `n_corrupt` smallest and largest values. The scale is the larger of 1.4826·MAD
    and IQR/1.349. Where both are 0, as for a column with few ones, it is the standard deviation, without the same
    values if that is not 0. The median as centre, or the MAD alone as scale, gives worse fits: see docs/learning.md.
    """
    column = np.sort(values.astype(np.float64))
    kept = column[n_corrupt : len(column) - n_corrupt]
    low, middle, high = np.quantile(column, [0.25, 0.5, 0.75])
    scale = max(1.4826 * float(np.median(np.abs(column - middle))), float(high - low) / 1.349)
    scale = scale if scale >= SMALLEST else float(kept.std())
    with np.errstate(over="ignore"):
        scale = scale if scale >= SMALLEST else float(column.std())
    return float(kept.mean()), scale if np.isfinite(scale) and scale >= SMALLEST else 1.0


class ScaledRows:
    """Rows (x - centre)/scale, with a column of ones if there is an intercept; they are never computed as a whole.

    The scaling is applied to the weights, so that scores cost one product with the rows as given.
    """

    def __init__(self, x: Array, centre: Array, scale: Array, intercept: bool = False):
        self.x, self.centre, self.scale, self.intercept = x, centre, scale, intercept
        # Far from 0 the product of the rows as given loses the digits in which they differ.
        digits = 1e2 if x.dtype == np.float32 else 1e7
        self.far = bool(np.any(np.abs(centre) / digits > scale))

    @property
    def n_columns(self) -> int:
        """Number of columns, the ones included."""
        return self.x.shape[1] + self.intercept

    def scores(self, weights: Array) -> Array:
        """Return rows @ weights, for all rows."""
        inner = weights[: self.x.shape[1]]
        inner = (inner.T / self.scale).T
        if self.far:
            shift: Any = weights[-1] if self.intercept else 0.0
            scores = np.empty((len(self.x), *weights.shape[1:]))
            for part in slices(len(self.x), _CHUNK):
                scores[part] = (self.x[part] - self.centre) @ inner + shift
            return scores
        shift = (weights[-1] if self.intercept else 0.0) - self.centre @ inner
        if weights.ndim == 1 and len(inner) <= _NARROW and self.x.dtype == weights.dtype == np.float64:
            ready = _numba.compiled(1e-8 * len(self.x))
            if ready is not None:
                return np.asarray(ready.narrow_scores(self.x, inner, float(shift)))
        with np.errstate(over="ignore", invalid="ignore"):  # as the compiled form does
            scores = (self.x @ inner.astype(self.x.dtype)).astype(np.float64, copy=False)
        scores += shift
        return scores

    def take(self, rows: Array) -> Array:
        """Return some rows, centred and scaled."""
        taken = (self.x[rows] - self.centre) / self.scale
        return np.column_stack([taken, np.ones(len(taken))]) if self.intercept else taken

    def distances(self) -> Array:
        """Return the distance of each row from the centre, in scaled columns."""
        far = np.empty(len(self.x))
        with np.errstate(over="ignore"):
            for part in slices(len(far), _CHUNK // self.x.shape[1]):
                scaled = (self.x[part] - self.centre) / self.scale
                far[part] = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))
        return far

    def pull(self, rows: Array, slopes: Array) -> Array:
        """Return Σ_b rows_bkᵀ·slopes_bk for each block k: gradients in the weights, from slopes in the scores."""
        size, n_blocks = rows.shape
        scores = slopes.shape[2:]
        pulled = np.zeros((n_blocks, self.n_columns, *scores))
        inner = pulled[:, : self.x.shape[1]]
        if size * self.x.shape[1] > _CHUNK:  # few long blocks
            for k in range(n_blocks):
                for part in slices(size, _CHUNK):
                    inner[k] += (self.x[rows[part, k]] - self.centre).T @ slopes[part, k]
        else:
            for some in slices(n_blocks, _CHUNK // max(1, size * self.x.shape[1])):
                if scores:
                    taken = self.x[rows[:, some]] - self.centre
                    inner[some] = np.einsum("bkd,bkc->kdc", taken, slopes[:, some])
                    continue
                weights, taken = slopes[:, some].T, self.x[rows[:, some].T]
                if self.far:
                    taken = taken - self.centre
                inner[some] = (weights[:, None].astype(taken.dtype) @ taken)[:, 0]
                if not self.far:
                    inner[some] -= weights.sum(axis=1)[:, None] * self.centre
        inner /= self.scale if not scores else self.scale[:, None]
        if self.intercept:
            pulled[:, -1] = slopes.sum(axis=0)
        return pulled

    def to_user(self, weights: Array) -> tuple[Array, Any]:
        """Return coefficients and intercept for the rows as given."""
        inner = (weights[: self.x.shape[1]].T / self.scale).T
        with np.errstate(over="ignore", invalid="ignore"):  # of rows at the ends of floats
            return inner, (weights[-1] if self.intercept else 0.0) - self.centre @ inner

    def from_user(self, coefficients: Array, intercept: Any) -> Array:
        """Return the weights that give these coefficients and this intercept."""
        inner = (coefficients.T * self.scale).T
        if not self.intercept:
            return inner
        return np.concatenate([inner, np.asarray(intercept + self.centre @ coefficients)[None]])
