"""The base class of all losses, and their arithmetic.

The arithmetic also takes complex scores, so that slopes can be checked by complex steps.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from outvote.learning.arrays import Array, Groups, slices
from outvote.learning.epoch_blocks import EpochBlocks
from outvote.learning.scaling import ScaledRows

#: Rows gathered at once for gradients.
_GATHERED = 2**16


class Loss:
    """The base class of all losses.

    Attributes
    ----------
    name : str
        Its name in the parameter `loss`.
    degree : int
        Rows it takes at a time: 1 for single rows, 2 for pairs.
    targets : {"numbers", "signs", "classes"}
        The targets it needs: any numbers, -1 and +1, or class numbers 0, 1, …
    lipschitz : float or None
        Largest slope in the scores, if there is one.
    """

    name: ClassVar[str] = ""
    degree: ClassVar[int] = 1
    targets: ClassVar[str] = "numbers"
    lipschitz: float | None = None

    def start(self, n_columns: int, n_scores: int) -> Array:
        """Return the neutral parameter from which the descent starts."""
        return np.zeros(n_columns if n_scores == 1 else (n_columns, n_scores))

    def scores(self, design: ScaledRows, theta: Array) -> Array:
        """Return the scores of all rows."""
        return design.scores(theta)

    def project(self, theta: Array) -> Array:
        """Return the nearest parameter that is allowed."""
        return theta

    def risks(self, scores: Array, targets: Array, groups: Groups = None) -> Array:
        """Return the mean loss of each block."""
        raise NotImplementedError

    def risks_of(self, scores: Array, targets: Array, blocks: EpochBlocks, groups: Groups = None) -> Array:
        """Return the mean loss of each block, from the scores, targets and groups of all rows."""
        rows, own_targets = blocks.rows(), blocks.rotated(blocks.ordered(targets))
        return self.risks(scores[rows], own_targets, None if groups is None else groups[rows])

    def slopes(self, scores: Array, targets: Array, groups: Groups = None) -> Array:
        """Return the derivative of each block's risk in the scores of its rows."""
        raise NotImplementedError

    def gradients(self, design: ScaledRows, rows: Array, scores: Array, targets: Array, groups: Groups = None) -> Array:
        """Return the gradient of each block's risk, blocks first; `rows` holds their row numbers, (B, K)."""
        return design.pull(rows, self.slopes(scores, targets, groups))

    def gradient_of(
        self, design: ScaledRows, rows: Array, scores: Array, targets: Array, groups: Groups = None, *, clipped: bool
    ) -> Array:
        """Return the mean gradient of some blocks, from the scores, targets and groups of all rows.

        If `clipped`, each gradient is cut to the median of their lengths first.
        """
        gradients = [
            self.gradients(design, part, scores[part], targets[part], None if groups is None else groups[part])
            for part in (rows[:, some] for some in slices(rows.shape[1], _GATHERED // len(rows)))
        ]
        return mean_of(gradients[0] if len(gradients) == 1 else np.concatenate(gradients), clipped)


def mean_of(gradients: Array, clipped: bool) -> Array:
    """Return the mean of gradients, each cut to the median of their lengths if `clipped`."""
    n_gradients, *shape = gradients.shape
    if n_gradients == 1:
        return gradients[0]
    if not clipped or n_gradients < 3:
        return gradients.mean(axis=0)
    flat = gradients.reshape(n_gradients, -1)
    norms = np.sqrt(square_norm(flat))
    return (clip_weights(norms)[None] @ np.where(np.isfinite(norms)[:, None], flat, 0.0)).reshape(shape)


def clip_weights(norms: Array) -> Array:
    """Return the weight of each gradient in their mean when all are cut to the median of their lengths, `norms`."""
    usable = np.isfinite(norms)
    moving = usable & (norms > 0)
    size = len(norms)
    if moving.all():
        ordered = np.sort(norms)
        most = (ordered[(size - 1) // 2] + ordered[size // 2]) / 2  # np.median takes far longer
        return most / np.maximum(norms, most) / size
    most = np.median(norms[moving]) if moving.any() else 0.0
    with np.errstate(invalid="ignore"):
        return np.where(usable, most / np.maximum(norms, most if most > 0 else 1.0), 0.0) / size


def softplus(x: Array) -> Array:
    """Return log(1 + eˣ) without overflow."""
    real = np.real(x)
    return np.where(real > 0, x, 0.0) + np.log1p(np.exp(-x * np.sign(real)))


def sigmoid(x: Array) -> Array:
    """Return 1/(1 + e⁻ˣ)."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    """Return exp(x_c)/Σ exp(x) along the last axis."""
    grown = np.exp(x - x.max(axis=-1, keepdims=True))
    return grown / grown.sum(axis=-1, keepdims=True)


def positive(x: Array) -> Array:
    """Return max(0, x)."""
    return np.where(np.real(x) > 0, x, 0.0) if np.iscomplexobj(x) else np.maximum(x, 0.0)


def square_norm(x: Array) -> Array:
    """Return Σ x² along the last axis."""
    return np.einsum("...i,...i->...", x, x)
