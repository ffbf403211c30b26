"""Losses of pairs of rows, to order them by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from outvote import _numba
from outvote.learning.losses.common import Array, Design, Loss, positive, sigmoid, softplus

if TYPE_CHECKING:
    from outvote.learning.epoch_blocks import EpochBlocks

#: Numbers a chunk of pairs may hold: arrays that stay in the cache, and need no fresh pages.
_CHUNK = 2**14
#: Blocks up to this size have the list of their pairs made; larger ones are cut into strips.
_LISTED = 256
#: Beyond this size blocks are taken one by one where the pairs of a row are added up.
_TILED = 64
#: Fewer blocks make the inner axis of a list of pairs too short to be _numba.
_FEW_BLOCKS = 8


class PairLoss(Loss):
    """A loss of two rows: define `value` of (s, s', y, y') and its `slope` in s.

    It must be symmetric, ℓ(s, s', y, y') = ℓ(s', s, y', y): the slope in s' is then the slope in s of the pair turned
    round. A block's risk is the mean over its pairs i < j (erratum 11: not the sum).

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
        """Return what a compiled `form` gives: "pairs" (sums of each block), "slopes", or "pairs_of" a deal."""
        return None

    def _fast(self, form: str, scores: Array, *blocks: Array) -> Array | None:
        """Try the compiled form: for real scores, one a row, and all pairs of a block."""
        targets = blocks[0]
        if scores.dtype != np.float64 or len(targets) < 2:
            return None
        ready = _numba.compiled(2e-8 * targets.size * len(targets))
        return None if ready is None else self._compiled(ready, form, scores, *blocks)

    def risks_of(self, scores: Array, targets: Array, blocks: EpochBlocks, groups: Array | None = None) -> Array:
        """Return the mean loss over the pairs of each block, from the scores, targets and groups of all rows."""
        size = len(blocks.order)
        if groups is None and scores.ndim == 1:
            found = self._fast("pairs_of", scores, blocks.ordered(targets), blocks.order, blocks.offsets)
            if found is not None:
                return found / (size * (size - 1) // 2)
        return super().risks_of(scores, targets, blocks, groups)

    def risks(self, scores: Array, targets: Array, groups: Array | None = None) -> Array:
        """Return the mean loss over the pairs of each block, or those inside a group; NaN where there is none."""
        size, n_blocks = targets.shape
        found = self._fast("pairs", scores, targets) if groups is None and scores.ndim == 2 else None
        if found is not None:
            return found / (size * (size - 1) // 2)
        total: Any = np.zeros(n_blocks, dtype=np.result_type(scores, float))
        count: Any = np.zeros(n_blocks)
        if size > _LISTED or (size > _TILED and n_blocks < _FEW_BLOCKS):
            for k in range(n_blocks):
                total[k], count[k] = self._block(scores[:, k], targets[:, k], None if groups is None else groups[:, k])
        else:
            first, second = _pairs(size)
            width = max(1, _CHUNK // max(1, scores[0].size))
            for low in range(0, len(first), width):
                i, j = first[low : low + width], second[low : low + width]
                values = self.value(scores[i], scores[j], targets[i], targets[j])
                if groups is not None:
                    together = groups[i] == groups[j]
                    values, count = np.where(together, values, 0.0), count + together.sum(axis=0)
                total += values.sum(axis=0)
            count = len(first) if groups is None else count
        with np.errstate(invalid="ignore"):
            return total / count

    def _block(self, s: Array, y: Array, groups: Array | None) -> tuple[Any, int]:
        """Return the sum of the losses of the pairs of one large block, and their number.

        Strips of rows against all rows from there on; in the square on the diagonal every pair comes twice.
        """
        total: Any = 0.0
        count, strip = 0, max(1, _CHUNK // s.size)
        for low in range(0, len(y), strip):
            i, j = np.s_[low : low + strip], np.s_[low:]
            values = self.value(s[i, None], s[None, j], y[i, None], y[None, j])
            square = np.s_[:, : len(values)]
            if groups is not None:
                together = groups[i, None] == groups[None, j]
                values = np.where(together, values, 0.0)
                count += 2 * int(together.sum()) - int(together[square].sum()) - len(values)
            total = total + values.sum() - (values[square].sum() + values[square].trace()) / 2
        return total, (count // 2 if groups is not None else len(y) * (len(y) - 1) // 2)

    def slopes(self, scores: Array, targets: Array, groups: Array | None = None) -> Array:
        """Return the derivative of each block's risk in the scores of its rows."""
        size, n_blocks = targets.shape
        found = self._fast("slopes", scores, targets) if groups is None and scores.ndim == 2 else None
        if found is not None:
            return found / (size * (size - 1) // 2)
        if size > _TILED and n_blocks > 1:
            each = [np.s_[:, k : k + 1] for k in range(n_blocks)]
            parts = [self.slopes(scores[k], targets[k], None if groups is None else groups[k]) for k in each]
            return np.concatenate(parts, axis=1)
        alone = size > _TILED  # one block: its only column would be the slow, inner axis
        s, y = (scores[:, 0], targets[:, 0]) if alone else (scores, targets)
        g = groups[:, 0] if alone and groups is not None else groups
        slopes = np.empty(s.shape)
        count: Any = float(size * (size - 1)) if g is None else 0.0
        strip = max(1, _CHUNK // max(1, s.size))
        for low in range(0, size, strip):
            i = np.s_[low : low + strip]
            part = self.slope(s[i, None], s[None], y[i, None], y[None])
            own = np.arange(len(part))
            if g is None:
                part[own, low + own] = 0.0
            else:
                together = g[i, None] == g[None]
                together[own, low + own] = False
                part = np.where(together, part, 0.0)
                count = count + together.sum(axis=(0, 1))
            slopes[i] = part.sum(axis=1)
        return (2 * slopes / count).reshape(scores.shape)

    def cross_risks(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the mean loss over the pairs of the k-th blocks of two samples, for every k."""
        total: Any = np.zeros(y.shape[1], dtype=np.result_type(s, float))
        strip = max(1, _CHUNK // max(1, t.size))
        for low in range(0, len(y), strip):
            i = np.s_[low : low + strip]
            total += self.value(s[i, None], t[None], y[i, None], z[None]).sum(axis=(0, 1))
        return total / (len(y) * len(z))

    def cross_slopes(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the derivative of each risk in the scores of the first sample."""
        slopes = np.empty(s.shape)
        strip = max(1, _CHUNK // max(1, t.size))
        for low in range(0, len(y), strip):
            i = np.s_[low : low + strip]
            slopes[i] = self.slope(s[i, None], t[None], y[i, None], z[None]).sum(axis=1)
        return slopes / (len(y) * len(z))

    def cross_gradients(
        self, design: Design, rows: tuple[Array, Array], scores: tuple[Array, Array], targets: tuple[Array, Array]
    ) -> Array:
        """Return the gradient of the risk of the k-th blocks of two samples, for every k."""
        (s, t), (y, z) = scores, targets
        first = design.pull(rows[0], self.cross_slopes(s, t, y, z))
        return first + design.pull(rows[1], self.cross_slopes(t, s, z, y))


class PairLogistic(PairLoss):
    """log(1 + exp(-(s - s')·sign(y - y'))); a tied pair costs log 2 and pulls nowhere."""

    name = "logistic"
    lipschitz = 1.0

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the loss of each pair."""
        return softplus(np.sign(z - y) * (s - t))

    def slope(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return its derivative in the first score."""
        sign = np.sign(z - y)
        return sign * sigmoid(sign * (s - t))

    def _compiled(self, ready: Any, form: str, scores: Array, *blocks: Array) -> Array | None:
        some = scores.reshape(-1)[:: max(1, scores.size // 1000)]
        return getattr(ready, f"logistic_{form}")(scores, *blocks, float(np.median(some)))


class PairHinge(PairLoss):
    """max(0, 1 - (s - s')·sign(y - y')), the RankSVM; a tied pair costs 1 and pulls nowhere."""

    name = "hinge"
    lipschitz = 1.0

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the loss of each pair."""
        return positive(1 + np.sign(z - y) * (s - t))

    def slope(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return its derivative in the first score."""
        sign = np.sign(z - y)
        return np.where(1 + sign * (s - t) > 0, sign, 0.0)

    def _compiled(self, ready: Any, form: str, scores: Array, *blocks: Array) -> Array | None:
        return getattr(ready, f"hinge_{form}")(scores, *blocks, True)


class _Product(PairLoss):
    """max(0, 1 - (s - s')·(y - y'))."""

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the loss of each pair."""
        return positive(1 - (s - t) * (y - z))

    def slope(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return its derivative in the first score."""
        gap = z - y
        return gap * ((s - t) * gap > -1)

    def _compiled(self, ready: Any, form: str, scores: Array, *blocks: Array) -> Array | None:
        return getattr(ready, f"hinge_{form}")(scores, *blocks, False)


class ProductHinge(PairLoss):
    """max(0, 1 - (σ(s) - σ(s'))·(y - y')), the paper's relaxation (erratum 14), with σ the sigmoid.

    σ is taken once a row, not once a pair.
    """

    name = "product"
    _inner = _Product()

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the loss of each pair."""
        return self._inner.value(sigmoid(s), sigmoid(t), y, z)

    def slope(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return its derivative in the first score."""
        own = sigmoid(s)
        return self._inner.slope(own, sigmoid(t), y, z) * own * (1 - own)

    def risks(self, scores: Array, targets: Array, groups: Array | None = None) -> Array:
        """Return the mean loss over the pairs of each block, or those inside a group; NaN where there is none."""
        return self._inner.risks(sigmoid(scores), targets, groups)

    def risks_of(self, scores: Array, targets: Array, blocks: EpochBlocks, groups: Array | None = None) -> Array:
        """Return the mean loss over the pairs of each block, from the scores, targets and groups of all rows."""
        return self._inner.risks_of(sigmoid(scores), targets, blocks, groups)

    def slopes(self, scores: Array, targets: Array, groups: Array | None = None) -> Array:
        """Return the derivative of each block's risk in the scores of its rows."""
        own = sigmoid(scores)
        return self._inner.slopes(own, targets, groups) * own * (1 - own)

    def cross_risks(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the mean loss over the pairs of the k-th blocks of two samples, for every k."""
        return self._inner.cross_risks(sigmoid(s), sigmoid(t), y, z)

    def cross_slopes(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the derivative of each risk in the scores of the first sample."""
        own = sigmoid(s)
        return self._inner.cross_slopes(own, sigmoid(t), y, z) * own * (1 - own)


_LISTS: dict[int, tuple[Array, Array]] = {}


def _pairs(size: int) -> tuple[Array, Array]:
    """Return the pairs i < j of a block."""
    if size not in _LISTS:
        if len(_LISTS) > 8:
            _LISTS.clear()
        _LISTS[size] = np.triu_indices(size, 1)
    return _LISTS[size]
