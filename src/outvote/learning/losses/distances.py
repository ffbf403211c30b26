"""Losses of distances under a Mahalanobis metric, and the projection onto positive semi-definite matrices."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outvote import _numba
from outvote.learning.arrays import Array, Groups, slices
from outvote.learning.epoch_blocks import EpochBlocks
from outvote.learning.losses.common import clip_weights, positive, square_norm
from outvote.learning.losses.pairs import PairLoss
from outvote.learning.losses.points import PointLoss
from outvote.learning.scaling import ScaledRows

#: Up to this size, all squared distances of a block are in memory at once.
_SQUARED = 1024
#: Numbers in the pair matrices that are kept between two passes; more are computed again.
_MOST_HELD = 2**21
#: Up to this many columns, compiled loops over distances are faster than matrix products.
_NARROW = 256


class MetricHinge(PairLoss):
    """max(0, 1 + y_ij·(d²_M(x_i, x_j) - 2)), y_ij = +1 inside a class and -1 across; M stays positive semi-definite.

    The scores of a row are the row times a root of M, so that d²_M is an ordinary squared distance of scores.
    """

    name = "metric"
    targets = "classes"

    def start(self, n_columns: int, n_scores: int) -> Array:
        """Return I/d, under which squared distances of scaled rows are about 2, the threshold of the loss."""
        return np.eye(n_columns) / n_columns

    #: The last projection and its root, for the scores that a descent computes next.
    _last: tuple[Array, Array] | None = None

    def scores(self, design: ScaledRows, theta: Array) -> Array:
        """Return every row times a root of M."""
        last = self._last
        return design.scores(last[1] if last is not None and last[0] is theta else root(theta))

    def project(self, theta: Array) -> Array:
        """Return the nearest positive semi-definite matrix, or a stack of them; do not modify the result."""
        self._last = last = _projected(theta)
        return last[0]

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        return positive(1 + np.where(y == z, 1.0, -1.0) * (square_norm(s - t) - 2))

    def risks(self, scores: Array, targets: Array, groups: Groups = None) -> Array:
        size, n_blocks = targets.shape
        if np.iscomplexobj(scores) or groups is not None or size > _SQUARED:
            return super().risks(scores, targets, groups)
        risks = np.empty(n_blocks)
        for some in _of_blocks(n_blocks, size * size):
            sign, distance = _squared_distances(scores[:, some], targets[:, some])
            risks[some] = positive(1 + sign * (distance - 2)).sum(axis=(1, 2)) / (size * (size - 1))
        return risks

    def risks_of(self, scores: Array, targets: Array, blocks: EpochBlocks, groups: Groups = None) -> Array:
        """Return the mean loss over the pairs of each block, without copying the scores of its rows."""
        size = len(blocks.order)
        if groups is None and scores.dtype == np.float64 and size > 1:
            ready = _numba.compiled(3e-9 * blocks.order.size * size * scores.shape[1])
            if ready is not None:
                return ready.metric_pairs(scores, targets, blocks.rows()) / (size * (size - 1) // 2)
        return super().risks_of(scores, targets, blocks, groups)

    def gradients(self, design: ScaledRows, rows: Array, scores: Array, targets: Array, groups: Groups = None) -> Array:
        """Return the mean of y_ij·(x_i - x_j)(x_i - x_j)ᵀ over the pairs with a positive loss."""
        size, n_blocks = targets.shape
        n_columns = scores.shape[-1]
        gradient = np.empty((n_blocks, n_columns, n_columns))
        for some in _of_blocks(n_blocks, size * max(size, n_columns)):
            x = design.take(rows[:, some].T.reshape(-1)).reshape(-1, size, n_columns)
            gradient[some] = x.transpose(0, 2, 1) @ (_pulls(scores[:, some], targets[:, some]) @ x)
        return gradient

    def gradient_of(
        self, design: ScaledRows, rows: Array, scores: Array, targets: Array, groups: Groups = None, *, clipped: bool
    ) -> Array:
        """Return the mean gradient of some blocks as one product, Σ w_k·X_kᵀL_kX_k, without the gradient of each.

        The length of X_kᵀL_kX_k is the root of the trace of (L_kS_k)², with the products S_k = X_kX_kᵀ of its rows.
        """
        size, n_blocks = rows.shape
        n_columns = scores.shape[-1]
        parts = list(_of_blocks(n_blocks, size * max(size, n_columns)))
        held: dict[int, Array] = {}

        def pull_of(some: slice) -> Array:
            if some.start in held:
                return held.pop(some.start)
            return _pulls(scores[rows[:, some]], targets[rows[:, some]])

        def taken(some: slice) -> Array:
            return design.take(rows[:, some].T.reshape(-1)).reshape(-1, size, n_columns)

        weights = np.full(n_blocks, 1 / n_blocks)
        if clipped and n_blocks >= 3:
            norms = np.empty(n_blocks)
            for some in parts:
                x, pull = taken(some), pull_of(some)
                if some.stop * size * size <= _MOST_HELD:
                    held[some.start] = pull
                turned = pull @ (x @ x.transpose(0, 2, 1))
                norms[some] = np.sqrt(np.maximum(np.einsum("kij,kji->k", turned, turned), 0.0))
            weights = clip_weights(norms)
        total = np.zeros((n_columns, n_columns))
        for some in parts:
            x, pull, counted = taken(some), pull_of(some), weights[some] > 0
            weighted = weights[some][counted, None, None] * (pull[counted] @ x[counted])
            total += x[counted].reshape(-1, n_columns).T @ weighted.reshape(-1, n_columns)
        return (total + total.T) / 2


class DistanceHinge(PointLoss):
    """max(0, 1 + y·(d²_M(a, b) - 2)) for given pairs, each a row a - b with y = +1 (alike) or -1."""

    name = "metric of given pairs"
    targets = "signs"
    start = MetricHinge.start
    _last = MetricHinge._last
    scores = MetricHinge.scores
    project = MetricHinge.project

    def value(self, scores: Array, targets: Array) -> Array:
        return positive(1 + targets * (square_norm(scores) - 2))

    def gradients(self, design: ScaledRows, rows: Array, scores: Array, targets: Array, groups: Groups = None) -> Array:
        """Return the mean of y·(a - b)(a - b)ᵀ over the pairs of each block with a positive loss."""
        x = design.take(rows.reshape(-1)).reshape(*rows.shape, -1)
        weights = np.where(1 + targets * (square_norm(scores) - 2) > 0, targets, 0.0) / len(targets)
        return (x * weights[..., None]).transpose(1, 2, 0) @ x.transpose(1, 0, 2)


def nearest_psd(matrix: Array) -> Array:
    """Return the nearest positive semi-definite matrix, or a stack of them: negative eigenvalues become 0."""
    return _projected(matrix)[0]


def root(matrix: Array) -> Array:
    """Return R with R·Rᵀ = M, for a positive semi-definite M or a stack of them."""
    return _projected(matrix)[1]


def _projected(matrix: Array) -> tuple[Array, Array]:
    """Return the nearest positive semi-definite matrix and a root of it, for one or for each of a stack."""
    factor = _cholesky(matrix)
    if factor is not None:
        return matrix, factor
    with _numba.one_thread():
        values, vectors = np.linalg.eigh(matrix)
    kept = values.clip(min=0)[..., None, :]
    factor, inside = vectors * np.sqrt(kept), values[..., 0] >= 0
    if inside.all():
        return matrix, factor
    nearest = (vectors * kept) @ vectors.swapaxes(-1, -2)
    return (np.where(inside[..., None, None], matrix, nearest) if inside.any() else nearest), factor


def _cholesky(matrix: Array) -> Array | None:
    """Return the lower triangular root of a positive definite matrix, far cheaper than its eigenvalues, or None.

    For a stack, None unless every matrix has one.
    """
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    # Close to a singular matrix only the eigenvalues are reliable.
    diagonal = factor.diagonal(axis1=-2, axis2=-1)
    return factor if (diagonal > 1e-6 * diagonal.max(axis=-1, keepdims=True)).all() else None


def _pulls(scores: Array, targets: Array) -> Array:
    """Return a matrix L_k of each block k such that X_kᵀL_kX_k is the gradient of its risk.

    Σ_ij w_ij (x_i - x_j)(x_i - x_j)ᵀ over ordered pairs is 2·XᵀLX with L = diag(Σ_j w_ij) - w.
    """
    size = len(scores)
    narrow = scores.dtype == np.float64 and scores.shape[2] <= _NARROW
    ready = _numba.compiled(1e-8 * targets.size * size) if narrow else None
    if ready is not None:
        pulls = ready.metric_pulls(scores, targets)
        pulls *= 2 / (size * (size - 1))
        return pulls
    sign, distance = _squared_distances(scores, targets)
    weights = np.where(1 + sign * (distance - 2) > 0, sign, 0.0)
    own = np.arange(size)
    weights[:, own, own] = 0.0
    pulls = -weights
    pulls[:, own, own] = weights.sum(axis=2)
    return 2 / (size * (size - 1)) * pulls


def _of_blocks(n_blocks: int, cost: int) -> Iterator[slice]:
    """Cut the blocks into parts of about a million numbers; `cost` is the numbers of one block."""
    return slices(n_blocks, 2**20 // cost)


def _squared_distances(scores: Array, targets: Array) -> tuple[Array, Array]:
    """Return, for the pairs of each block, +1 inside a class and -1 across, and the squared distance: (K, B, B).

    Distances come from matrix products, which are fast; the rows are centred first to keep precision.
    """
    t = scores.transpose(1, 0, 2)
    t = t - t.mean(axis=1, keepdims=True)
    square = square_norm(t)
    distance = square[:, :, None] + square[:, None, :] - 2 * (t @ t.transpose(0, 2, 1))
    size = distance.shape[1]
    distance[:, np.arange(size), np.arange(size)] = 0.0
    classes = targets.T
    sign = np.where(classes[:, :, None] == classes[:, None, :], 1.0, -1.0)
    return sign, np.maximum(distance, 0.0)
