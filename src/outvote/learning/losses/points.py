"""Losses of single rows."""

from __future__ import annotations

import math

import numpy as np

from outvote.learning.arrays import Array, Groups, slices
from outvote.learning.epoch_blocks import EpochBlocks
from outvote.learning.losses.common import Loss, positive, sigmoid, softmax, softplus

#: Rows whose losses are computed at once.
_AT_ONCE = 2**16


class PointLoss(Loss):
    """A loss of single rows: a subclass defines `value` and `slope` of (scores, targets), elementwise.

    Examples
    --------
    >>> import numpy as np
    >>> class Fourth(PointLoss):
    ...     name = "fourth"
    ...     def value(self, scores, targets):
    ...         return (scores - targets) ** 4
    ...     def slope(self, scores, targets):
    ...         return 4 * (scores - targets) ** 3
    >>> import outvote as ov
    >>> x = np.random.default_rng(0).normal(size=(300, 2))
    >>> ov.RobustRegressor(loss=Fourth(), contamination=0.02, random_state=0).fit(x, x @ [2.0, 1.0]).coef_.round(1)
    array([2., 1.])
    """

    def value(self, scores: Array, targets: Array) -> Array:
        """Return the loss of each row."""
        raise NotImplementedError

    def slope(self, scores: Array, targets: Array) -> Array:
        """Return its derivative in the score."""
        raise NotImplementedError

    def risks(self, scores: Array, targets: Array, groups: Groups = None) -> Array:
        """Return the mean loss of each block."""
        return self.value(scores, targets).mean(axis=0)

    def risks_of(self, scores: Array, targets: Array, blocks: EpochBlocks, groups: Groups = None) -> Array:
        """Return the mean loss of each block, from the losses of all rows where most rows are in a block."""
        if 2 * blocks.order.size < len(targets):
            return super().risks_of(scores, targets, blocks, groups)
        return self.values(scores, targets)[blocks.rows()].mean(axis=0)

    def values(self, scores: Array, targets: Array) -> Array:
        """Return the loss of every row, computed a part at a time to save memory."""
        losses = np.empty(len(targets))
        for part in slices(len(losses), _AT_ONCE):
            losses[part] = self.value(scores[part], targets[part])
        return losses

    def slopes(self, scores: Array, targets: Array, groups: Groups = None) -> Array:
        """Return the derivative of each block's risk in the scores of its rows."""
        return self.slope(scores, targets) / len(targets)


class Logistic(PointLoss):
    """log(1 + exp(-y·s)) for y in {-1, +1}."""

    name = "logistic"
    targets = "signs"
    lipschitz = 1.0

    def value(self, scores: Array, targets: Array) -> Array:
        return softplus(-targets * scores)

    def slope(self, scores: Array, targets: Array) -> Array:
        return -targets * sigmoid(-targets * scores)


class Hinge(PointLoss):
    """max(0, 1 - y·s) for y in {-1, +1}."""

    name = "hinge"
    targets = "signs"
    lipschitz = 1.0

    def value(self, scores: Array, targets: Array) -> Array:
        return positive(1 - targets * scores)

    def slope(self, scores: Array, targets: Array) -> Array:
        return np.where(targets * scores < 1, -targets, 0.0)


class Softmax(PointLoss):
    """log Σ_c exp(s_c) - s_y, the logistic loss of several classes."""

    name = "softmax"
    targets = "classes"
    lipschitz = math.sqrt(2.0)

    def value(self, scores: Array, targets: Array) -> Array:
        shift = np.real(scores).max(axis=-1, keepdims=True)
        return np.log(np.exp(scores - shift).sum(axis=-1)) + shift[..., 0] - _own(scores, targets)

    def slope(self, scores: Array, targets: Array) -> Array:
        shares = softmax(scores)
        np.put_along_axis(shares, targets[..., None], np.take_along_axis(shares, targets[..., None], -1) - 1, -1)
        return shares


class MulticlassHinge(PointLoss):
    """max(0, 1 + max_{c ≠ y} s_c - s_y), after Crammer and Singer."""

    name = "multiclass hinge"
    targets = "classes"
    lipschitz = math.sqrt(2.0)

    def value(self, scores: Array, targets: Array) -> Array:
        rival = self._rival(scores, targets)
        return positive(1 + _own(scores, rival) - _own(scores, targets))

    def slope(self, scores: Array, targets: Array) -> Array:
        rival = self._rival(scores, targets)
        active = np.where(1 + _own(scores, rival) - _own(scores, targets) > 0, 1.0, 0.0)[..., None]
        slope = np.zeros(scores.shape)
        np.put_along_axis(slope, rival[..., None], active, -1)
        np.put_along_axis(slope, targets[..., None], -active, -1)
        return slope

    def _rival(self, scores: Array, targets: Array) -> Array:
        others = np.real(scores).copy()
        np.put_along_axis(others, targets[..., None], -np.inf, -1)
        return others.argmax(axis=-1)


class Squared(PointLoss):
    """(s - y)²/2."""

    name = "squared"

    def value(self, scores: Array, targets: Array) -> Array:
        return (scores - targets) ** 2 / 2

    def slope(self, scores: Array, targets: Array) -> Array:
        return scores - targets


class Absolute(PointLoss):
    """|s - y|."""

    name = "absolute"
    lipschitz = 1.0

    def value(self, scores: Array, targets: Array) -> Array:
        gap = scores - targets
        return gap * np.sign(np.real(gap))

    def slope(self, scores: Array, targets: Array) -> Array:
        return np.sign(scores - targets)


class Huber(PointLoss):
    """(s - y)²/2 up to |s - y| = `corner`, linear beyond."""

    name = "huber"

    def __init__(self, corner: float = 1.35):
        self.corner = self.lipschitz = corner

    def value(self, scores: Array, targets: Array) -> Array:
        gap = scores - targets
        size = gap * np.sign(np.real(gap))
        return np.where(np.real(size) <= self.corner, gap**2 / 2, self.corner * (size - self.corner / 2))

    def slope(self, scores: Array, targets: Array) -> Array:
        return np.clip(scores - targets, -self.corner, self.corner)


def _own(scores: Array, targets: Array) -> Array:
    return np.take_along_axis(scores, targets[..., None], -1)[..., 0]
