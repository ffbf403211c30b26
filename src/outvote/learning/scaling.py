"""The rows as the descent sees them: centred and scaled by numbers that corrupt rows cannot move far."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import _numba

Array = NDArray[Any]

#: Rows, or numbers, centred at once.
_CHUNK = 2**16
#: Up to this many columns a plain loop over the rows is faster than BLAS.
_NARROW = 16


def robust_scaling(x: Array, n_corrupt: int) -> tuple[Array, Array]:
    """Return a centre and a scale for each column.

    The centre is the mean without the `n_corrupt` smallest and largest values; the scale is the larger of
    1.4826·MAD and IQR/1.349, and the standard deviation (trimmed alike, if that is not 0) where both vanish, as they
    do for a column of few ones. The plain median as centre, or the MAD alone as scale, are worse: see docs/learning.md.

    Examples
    --------
    >>> x = np.r_[np.arange(100.0), 1e9][:, None]
    >>> centre, scale = robust_scaling(x, 1)
    >>> centre.round(1), scale.round(1)
    (array([50.]), array([37.1]))
    """
    centre, scale = np.zeros(x.shape[1]), np.ones(x.shape[1])
    for j in range(x.shape[1]):
        column = np.sort(x[:, j].astype(np.float64))
        centre[j], scale[j] = _of_sorted(column, n_corrupt)
    return centre, scale


def robust_centre_and_scale(values: Array, n_corrupt: int) -> tuple[float, float]:
    """Return the same for one column."""
    return _of_sorted(np.sort(values.astype(np.float64)), n_corrupt)


def _of_sorted(column: Array, n_corrupt: int) -> tuple[float, float]:
    kept = column[n_corrupt : len(column) - n_corrupt]
    low, middle, high = np.quantile(column, [0.25, 0.5, 0.75])
    scale = max(1.4826 * float(np.median(np.abs(column - middle))), float(high - low) / 1.349)
    scale = scale or float(kept.std())
    with np.errstate(over="ignore"):
        scale = scale or float(column.std())
    return float(kept.mean()), scale if np.isfinite(scale) and scale > 0 else 1.0


class ScaledRows:
    """Rows (x - centre)/scale, with a column of ones if there is an intercept, none of it ever written down.

    The scaling goes into the weights, so that scores cost one product with the rows as they came.
    """

    def __init__(self, x: Array, centre: Array, scale: Array, intercept: bool = False):
        self.x, self.centre, self.scale, self.intercept = x, centre, scale, intercept
        # Far from 0 the product of raw rows loses the digits that tell them apart.
        digits = 1e2 if x.dtype == np.float32 else 1e7
        self.far = bool(np.any(np.abs(centre) > digits * scale))

    @property
    def n_columns(self) -> int:
        """Columns, the ones included."""
        return self.x.shape[1] + self.intercept

    def scores(self, weights: Array) -> Array:
        """Return rows @ weights, for all rows."""
        inner = weights[: self.x.shape[1]]
        inner = (inner.T / self.scale).T
        if self.far:
            shift: Any = weights[-1] if self.intercept else 0.0
            scores = np.empty((len(self.x), *weights.shape[1:]))
            for low in range(0, len(self.x), _CHUNK):
                scores[low : low + _CHUNK] = (self.x[low : low + _CHUNK] - self.centre) @ inner + shift
            return scores
        shift = (weights[-1] if self.intercept else 0.0) - self.centre @ inner
        if weights.ndim == 1 and len(inner) <= _NARROW and self.x.dtype == weights.dtype == np.float64:
            ready = _numba.compiled(1e-8 * len(self.x))
            if ready is not None:
                return np.asarray(ready.narrow_scores(self.x, inner, float(shift)))
        scores = (self.x @ inner.astype(self.x.dtype)).astype(np.float64, copy=False)
        scores += shift
        return scores

    def take(self, rows: Array) -> Array:
        """Return some rows, as the descent sees them."""
        taken = (self.x[rows] - self.centre) / self.scale
        return np.column_stack([taken, np.ones(len(taken))]) if self.intercept else taken

    def distances(self) -> Array:
        """Return how far each row lies from the centre, in scales."""
        far = np.empty(len(self.x))
        step = max(1, _CHUNK // self.x.shape[1])
        with np.errstate(over="ignore"):
            for low in range(0, len(far), step):
                part = (self.x[low : low + step] - self.centre) / self.scale
                far[low : low + step] = np.sqrt(np.einsum("ij,ij->i", part, part))
        return far

    def pull(self, rows: Array, slopes: Array) -> Array:
        """Return Σ_b rows_bkᵀ·slopes_bk for each block k: slopes in the scores become gradients in the weights."""
        size, n_blocks = rows.shape
        scores = slopes.shape[2:]
        pulled = np.zeros((n_blocks, self.n_columns, *scores))
        inner = pulled[:, : self.x.shape[1]]
        if size * self.x.shape[1] > _CHUNK:  # few long blocks
            for k in range(n_blocks):
                for low in range(0, size, _CHUNK):
                    part = np.s_[low : low + _CHUNK, k]
                    inner[k] += (self.x[rows[part]] - self.centre).T @ slopes[part]
        else:
            step = max(1, _CHUNK // max(1, size * self.x.shape[1]))
            for low in range(0, n_blocks, step):
                some = np.s_[:, low : low + step]
                if scores:
                    taken = self.x[rows[some]] - self.centre
                    inner[low : low + step] = np.einsum("bkd,bkc->kdc", taken, slopes[some])
                    continue
                weights, taken = slopes[some].T, self.x[rows[some].T]
                if self.far:
                    taken = taken - self.centre
                inner[low : low + step] = (weights[:, None].astype(taken.dtype) @ taken)[:, 0]
                if not self.far:
                    inner[low : low + step] -= weights.sum(axis=1)[:, None] * self.centre
        inner /= self.scale if not scores else self.scale[:, None]
        if self.intercept:
            pulled[:, -1] = slopes.sum(axis=0)
        return pulled

    def to_user(self, weights: Array) -> tuple[Array, Any]:
        """Return coefficients and intercept for the rows as they came."""
        inner = (weights[: self.x.shape[1]].T / self.scale).T
        return inner, (weights[-1] if self.intercept else 0.0) - self.centre @ inner

    def from_user(self, coefficients: Array, intercept: Any) -> Array:
        """Return the weights that give these coefficients and this intercept."""
        inner = (coefficients.T * self.scale).T
        if not self.intercept:
            return inner
        return np.concatenate([inner, np.asarray(intercept + self.centre @ coefficients)[None]])
