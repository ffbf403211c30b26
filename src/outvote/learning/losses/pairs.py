"""Losses of pairs of rows that are to be ordered."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from outvote import _numba
from outvote.learning.arrays import Array, Groups, slices
from outvote.learning.epoch_blocks import EpochBlocks
from outvote.learning.losses.common import Loss, positive, sigmoid, softplus
from outvote.learning.scaling import ScaledRows

#: Numbers in a chunk of pairs; arrays of this size stay in the cache.
_CHUNK = 2**14
#: Blocks up to this size have a list of all their pairs; larger ones are cut into strips of rows.
_LISTED = 256
#: Larger blocks than this are processed one by one where slopes are summed over the pairs of a row.
_TILED = 64
#: With fewer blocks than this, the inner axis of a list of pairs is too short to be fast.
_FEW_BLOCKS = 8


class PairLoss(Loss):
    """A loss of two rows: a subclass defines `value` of (s, s', y, y') and its `slope` in s.

    It must be symmetric, ℓ(s, s', y, y') = ℓ(s', s, y', y), so that the slope in s' is the slope in s of the swapped
    pair. A block's risk is the mean over its pairs i < j (erratum 11: not the sum).

    Examples
    --------
    >>> import numpy as np
    >>> class Gap(PairLoss):
    ...     name = "gap"
    ...     def value(self, s, t, y, z):
    ...         return ((s - t) - (y - z)) ** 2
    ...     def slope(self, s, t, y, z):
    ...         return 2 * ((s - t) - (y - z))
    >>> import outvote as ov
    >>> x = np.random.default_rng(0).normal(size=(300, 2))
    >>> ov.RobustRanker(loss=Gap(), contamination=0.02, random_state=0).fit(x, x @ [2.0, 1.0]).coef_.round(1)
    array([2., 1.])
    """

    degree = 2

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the loss of each pair."""
        raise NotImplementedError

    def slope(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return its derivative in the first score."""
        raise NotImplementedError

    def _compiled(self, ready: Any, form: str, scores: Array, *blocks: Array) -> Array | None:
        """Return what a compiled `form` gives: "pairs" (the sum of each block), "slopes", or "pairs_of" all rows."""
        return None

    def _fast(self, form: str, scores: Array, *blocks: Array) -> Array | None:
        """Return what the compiled form gives, divided by the number of pairs, or None; it needs real scores."""
        targets, size = blocks[0], len(blocks[0])
        if scores.dtype != np.float64 or size < 2:
            return None
        ready = _numba.compiled(2e-8 * targets.size * size)
        found = None if ready is None else self._compiled(ready, form, scores, *blocks)
        return None if found is None else found / (size * (size - 1) // 2)

    def risks_of(self, scores: Array, targets: Array, blocks: EpochBlocks, groups: Groups = None) -> Array:
        """Return the mean loss over the pairs of each block, from the scores, targets and groups of all rows."""
        if groups is None and scores.ndim == 1:
            found = self._fast("pairs_of", scores, blocks.ordered(targets), blocks.order, blocks.offsets)
            if found is not None:
                return found
        return super().risks_of(scores, targets, blocks, groups)

    def risks(self, scores: Array, targets: Array, groups: Groups = None) -> Array:
        """Return the mean loss over the pairs of each block, or those inside a group; NaN where there is none."""
        size, n_blocks = targets.shape
        found = self._fast("pairs", scores, targets) if groups is None and scores.ndim == 2 else None
        if found is not None:
            return found
        total: Any = np.zeros(n_blocks, dtype=np.result_type(scores, float))
        count: Any = np.zeros(n_blocks)
        if size > _LISTED or (size > _TILED and n_blocks < _FEW_BLOCKS):
            for k in range(n_blocks):
                total[k], count[k] = self._block(scores[:, k], targets[:, k], None if groups is None else groups[:, k])
        else:
            first, second = _pairs(size)
            for part in slices(len(first), _CHUNK // max(1, scores[0].size)):
                i, j = first[part], second[part]
                values = self.value(scores[i], scores[j], targets[i], targets[j])
                if groups is not None:
                    together = groups[i] == groups[j]
                    values, count = np.where(together, values, 0.0), count + together.sum(axis=0)
                total += values.sum(axis=0)
            count = len(first) if groups is None else count
        with np.errstate(invalid="ignore"):
            return total / count

    def _block(self, s: Array, y: Array, groups: Groups) -> tuple[Any, int]:
        """Return the sum of the losses over the pairs of one large block, and the number of pairs.

        Each strip of rows is paired with itself and all rows after it; the pairs inside the strip are counted twice.
        """
        total: Any = 0.0
        count = 0
        for i in slices(len(y), _CHUNK // s.size):
            j = np.s_[i.start :]
            values = self.value(s[i, None], s[None, j], y[i, None], y[None, j])
            square = np.s_[:, : len(values)]
            if groups is not None:
                together = groups[i, None] == groups[None, j]
                values = np.where(together, values, 0.0)
                count += 2 * int(together.sum()) - int(together[square].sum()) - len(values)
            total = total + values.sum() - (values[square].sum() + values[square].trace()) / 2
        return total, (count // 2 if groups is not None else len(y) * (len(y) - 1) // 2)

    def slopes(self, scores: Array, targets: Array, groups: Groups = None) -> Array:
        """Return the derivative of each block's risk in the scores of its rows."""
        size, n_blocks = targets.shape
        found = self._fast("slopes", scores, targets) if groups is None and scores.ndim == 2 else None
        if found is not None:
            return found
        if size > _TILED and n_blocks > 1:
            each = [np.s_[:, k : k + 1] for k in range(n_blocks)]
            parts = [self.slopes(scores[k], targets[k], None if groups is None else groups[k]) for k in each]
            return np.concatenate(parts, axis=1)
        alone = size > _TILED  # one block: its only column would be the slow, inner axis
        s, y = (scores[:, 0], targets[:, 0]) if alone else (scores, targets)
        g = groups[:, 0] if alone and groups is not None else groups
        slopes = np.empty(s.shape)
        count: Any = float(size * (size - 1)) if g is None else 0.0
        for i in slices(size, _CHUNK // max(1, s.size)):
            part = self.slope(s[i, None], s[None], y[i, None], y[None])
            own = np.arange(len(part))
            if g is None:
                part[own, i.start + own] = 0.0
            else:
                together = g[i, None] == g[None]
                together[own, i.start + own] = False
                part = np.where(together, part, 0.0)
                count = count + together.sum(axis=(0, 1))
            slopes[i] = part.sum(axis=1)
        return (2 * slopes / count).reshape(scores.shape)

    def cross_risks(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the mean loss over the pairs of the k-th blocks of two samples, for every k."""
        total: Any = np.zeros(y.shape[1], dtype=np.result_type(s, float))
        for i in slices(len(y), _CHUNK // max(1, t.size)):
            total += self.value(s[i, None], t[None], y[i, None], z[None]).sum(axis=(0, 1))
        return total / (len(y) * len(z))

    def cross_slopes(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the derivative of each risk in the scores of the first sample."""
        slopes = np.empty(s.shape)
        for i in slices(len(y), _CHUNK // max(1, t.size)):
            slopes[i] = self.slope(s[i, None], t[None], y[i, None], z[None]).sum(axis=1)
        return slopes / (len(y) * len(z))

    def cross_gradients(
        self, design: ScaledRows, rows: tuple[Array, Array], scores: tuple[Array, Array], targets: tuple[Array, Array]
    ) -> Array:
        """Return the gradient of the risk of the k-th blocks of two samples, for every k."""
        (s, t), (y, z) = scores, targets
        first = design.pull(rows[0], self.cross_slopes(s, t, y, z))
        return first + design.pull(rows[1], self.cross_slopes(t, s, z, y))


class PairLogistic(PairLoss):
    """log(1 + exp(-(s - s')·sign(y - y'))); a tied pair costs log 2 and has slope 0."""

    name = "logistic"
    lipschitz = 1.0

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        return softplus(np.sign(z - y) * (s - t))

    def slope(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        sign = np.sign(z - y)
        return sign * sigmoid(sign * (s - t))

    def _compiled(self, ready: Any, form: str, scores: Array, *blocks: Array) -> Array | None:
        some = scores.reshape(-1)[:: max(1, scores.size // 1000)]
        return getattr(ready, f"logistic_{form}")(scores, *blocks, float(np.median(some)))


class PairHinge(PairLoss):
    """max(0, 1 - (s - s')·sign(y - y')), the RankSVM; a tied pair costs 1 and has slope 0."""

    name = "hinge"
    lipschitz = 1.0

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        return positive(1 + np.sign(z - y) * (s - t))

    def slope(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        sign = np.sign(z - y)
        return np.where(1 + sign * (s - t) > 0, sign, 0.0)

    def _compiled(self, ready: Any, form: str, scores: Array, *blocks: Array) -> Array | None:
        return getattr(ready, f"hinge_{form}")(scores, *blocks, True)


class _Product(PairLoss):
    """max(0, 1 - (s - s')·(y - y'))."""

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        return positive(1 - (s - t) * (y - z))

    def slope(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        gap = z - y
        return gap * ((s - t) * gap > -1)

    def _compiled(self, ready: Any, form: str, scores: Array, *blocks: Array) -> Array | None:
        return getattr(ready, f"hinge_{form}")(scores, *blocks, False)


class ProductHinge(PairLoss):
    """max(0, 1 - (σ(s) - σ(s'))·(y - y')), the paper's relaxation (erratum 14), with σ the sigmoid.

    σ is computed once for each row, not once for each pair.
    """

    name = "product"
    _inner = _Product()

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        return self._inner.value(sigmoid(s), sigmoid(t), y, z)

    def slope(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        own = sigmoid(s)
        return self._inner.slope(own, sigmoid(t), y, z) * own * (1 - own)

    def risks(self, scores: Array, targets: Array, groups: Groups = None) -> Array:
        return self._inner.risks(sigmoid(scores), targets, groups)

    def risks_of(self, scores: Array, targets: Array, blocks: EpochBlocks, groups: Groups = None) -> Array:
        return self._inner.risks_of(sigmoid(scores), targets, blocks, groups)

    def slopes(self, scores: Array, targets: Array, groups: Groups = None) -> Array:
        own = sigmoid(scores)
        return self._inner.slopes(own, targets, groups) * own * (1 - own)

    def cross_risks(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        return self._inner.cross_risks(sigmoid(s), sigmoid(t), y, z)

    def cross_slopes(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        own = sigmoid(s)
        return self._inner.cross_slopes(own, sigmoid(t), y, z) * own * (1 - own)


@lru_cache(maxsize=8)
def _pairs(size: int) -> tuple[Array, ...]:
    """Return the pairs i < j of a block."""
    return np.triu_indices(size, 1)
