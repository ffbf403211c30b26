"""Losses of points and of pairs: value, slope, projection, and what each of them needs.

Everything works on *scores*, which the descent computes once an epoch on all rows. Blocks come as stacks whose first
axis runs over the rows of a block and whose second axis runs over the blocks: scores of shape (B, K), or (B, K, C)
for C scores a row, and targets of shape (B, K). A new loss says what one point or one pair costs (`value`) and how
that moves with the first score (`slope`); block risks, gradients and pairs across two samples follow.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from outvote import fast

Array = NDArray[Any]

#: Numbers a chunk of pairs may hold: arrays that stay in the cache, and need no fresh pages.
_CHUNK = 2**14
#: Blocks up to this size have the list of their pairs made; larger ones are cut into strips.
_LISTED = 256
#: Beyond this size blocks are taken one by one where the pairs of a row are added up.
_TILED = 64
#: Up to this size a block's squared distances are held at once.
_SQUARED = 1024
#: Fewer blocks make the inner axis of a list of pairs too short to be fast.
_FEW_BLOCKS = 8


class Design(Protocol):
    """What a loss may ask of the rows: scores that are linear in them, and the rows of some blocks."""

    def scores(self, weights: Array) -> Array:
        """Return rows @ weights, for all rows."""

    def take(self, rows: Array) -> Array:
        """Return some rows, as the descent sees them."""

    def pull(self, rows: Array, slopes: Array) -> Array:
        """Return Σ_b rows_bkᵀ·slopes_bk for each block k: slopes in the scores become gradients in the weights."""


class Loss:
    """What all losses have in common.

    Attributes
    ----------
    name : str
        What `loss=` calls it.
    degree : int
        Rows it takes at a time: 1 for points, 2 for pairs.
    targets : {"numbers", "signs", "classes"}
        What it needs to be told: any numbers, -1 and +1, or class numbers 0, 1, …
    lipschitz : float or None
        Largest slope in the scores, where there is one.
    """

    name: ClassVar[str] = ""
    degree: ClassVar[int] = 1
    targets: ClassVar[str] = "numbers"
    lipschitz: float | None = None

    def start(self, n_columns: int, n_scores: int) -> Array:
        """Return the parameter the descent starts from."""
        return np.zeros(n_columns if n_scores == 1 else (n_columns, n_scores))

    def scores(self, design: Design, theta: Array) -> Array:
        """Return the scores of all rows."""
        return design.scores(theta)

    def project(self, theta: Array) -> Array:
        """Return the nearest parameter that is allowed."""
        return theta

    def risks(self, scores: Array, targets: Array, groups: Array | None = None) -> Array:
        """Return the mean loss of each block."""
        raise NotImplementedError

    def slopes(self, scores: Array, targets: Array, groups: Array | None = None) -> Array:
        """Return the derivative of each block's risk in the scores of its rows."""
        raise NotImplementedError

    def gradients(
        self, design: Design, rows: Array, scores: Array, targets: Array, groups: Array | None = None
    ) -> Array:
        """Return the gradient of each block's risk, blocks first; `rows` has their row numbers, (B, K)."""
        return design.pull(rows, self.slopes(scores, targets, groups))

    def mean_gradient(
        self,
        design: Design,
        rows: Array,
        scores: Array,
        targets: Array,
        groups: Array | None = None,
        clipped: bool = False,
    ) -> Array:
        """Return the mean gradient of the blocks; none pulls harder than the median of them if they are `clipped`."""
        return mean_of(self.gradients(design, rows, scores, targets, groups), clipped)


def mean_of(gradients: Array, clipped: bool) -> Array:
    """Return the mean of gradients, each cut to the median of their lengths if they are `clipped`."""
    if not clipped or len(gradients) < 3:
        return gradients.mean(axis=0)
    flat = gradients.reshape(len(gradients), -1)
    norms = np.sqrt(np.einsum("ki,ki->k", flat, flat))
    usable = np.isfinite(norms)[:, None]
    return (clip_weights(norms) @ np.where(usable, flat, 0.0)).reshape(gradients.shape[1:])


def clip_weights(norms: Array) -> Array:
    """Return what each of several gradients counts for when none is to pull harder than the median of them."""
    usable = np.isfinite(norms)
    moving = norms[usable & (norms > 0)]
    most = np.median(moving) if len(moving) else 0.0
    with np.errstate(invalid="ignore"):
        return np.where(usable, most / np.maximum(norms, most or 1.0), 0.0) / len(norms)


# --- points ----------------------------------------------------------------------------------------------


class PointLoss(Loss):
    """A loss of single rows: define `value` and `slope` of (scores, targets), elementwise."""

    def value(self, scores: Array, targets: Array) -> Array:
        """Return the loss of each row."""
        raise NotImplementedError

    def slope(self, scores: Array, targets: Array) -> Array:
        """Return its derivative in the score."""
        raise NotImplementedError

    def risks(self, scores: Array, targets: Array, groups: Array | None = None) -> Array:
        """Return the mean loss of each block."""
        return self.value(scores, targets).mean(axis=0)

    def slopes(self, scores: Array, targets: Array, groups: Array | None = None) -> Array:
        """Return the derivative of each block's risk in the scores of its rows."""
        return self.slope(scores, targets) / len(targets)


class Logistic(PointLoss):
    """log(1 + exp(-y·s)) for y in {-1, +1}."""

    name = "logistic"
    targets = "signs"
    lipschitz = 1.0

    def value(self, scores: Array, targets: Array) -> Array:
        """Return the loss of each row."""
        return softplus(-targets * scores)

    def slope(self, scores: Array, targets: Array) -> Array:
        """Return its derivative in the score."""
        return -targets * sigmoid(-targets * scores)


class Hinge(PointLoss):
    """max(0, 1 - y·s) for y in {-1, +1}."""

    name = "hinge"
    targets = "signs"
    lipschitz = 1.0

    def value(self, scores: Array, targets: Array) -> Array:
        """Return the loss of each row."""
        return positive(1 - targets * scores)

    def slope(self, scores: Array, targets: Array) -> Array:
        """Return its derivative in the score."""
        return np.where(targets * scores < 1, -targets, 0.0)


class Softmax(PointLoss):
    """log Σ_c exp(s_c) - s_y: the logistic loss of several classes."""

    name = "softmax"
    targets = "classes"
    lipschitz = math.sqrt(2.0)

    def value(self, scores: Array, targets: Array) -> Array:
        """Return the loss of each row."""
        shift = np.real(scores).max(axis=-1, keepdims=True)
        return np.log(np.exp(scores - shift).sum(axis=-1)) + shift[..., 0] - _own(scores, targets)

    def slope(self, scores: Array, targets: Array) -> Array:
        """Return its derivative in the score."""
        shares = softmax(scores)
        np.put_along_axis(shares, targets[..., None], np.take_along_axis(shares, targets[..., None], -1) - 1, -1)
        return shares


class MulticlassHinge(PointLoss):
    """max(0, 1 + max_{c ≠ y} s_c - s_y), after Crammer and Singer."""

    name = "multiclass hinge"
    targets = "classes"
    lipschitz = math.sqrt(2.0)

    def value(self, scores: Array, targets: Array) -> Array:
        """Return the loss of each row."""
        rival = self._rival(scores, targets)
        return positive(1 + _own(scores, rival) - _own(scores, targets))

    def slope(self, scores: Array, targets: Array) -> Array:
        """Return its derivative in the score."""
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
        """Return the loss of each row."""
        return (scores - targets) ** 2 / 2

    def slope(self, scores: Array, targets: Array) -> Array:
        """Return its derivative in the score."""
        return scores - targets


class Absolute(PointLoss):
    """|s - y|."""

    name = "absolute"
    lipschitz = 1.0

    def value(self, scores: Array, targets: Array) -> Array:
        """Return the loss of each row."""
        gap = scores - targets
        return gap * np.sign(np.real(gap))

    def slope(self, scores: Array, targets: Array) -> Array:
        """Return its derivative in the score."""
        return np.sign(scores - targets)


class Huber(PointLoss):
    """(s - y)²/2 up to |s - y| = `corner`, linear beyond."""

    name = "huber"

    def __init__(self, corner: float = 1.35):
        self.corner = self.lipschitz = corner

    def value(self, scores: Array, targets: Array) -> Array:
        """Return the loss of each row."""
        gap = scores - targets
        size = gap * np.sign(np.real(gap))
        return np.where(np.real(size) <= self.corner, gap**2 / 2, self.corner * (size - self.corner / 2))

    def slope(self, scores: Array, targets: Array) -> Array:
        """Return its derivative in the score."""
        return np.clip(scores - targets, -self.corner, self.corner)


# --- pairs -----------------------------------------------------------------------------------------------


class PairLoss(Loss):
    """A loss of two rows: define `value` of (s, s', y, y') and its `slope` in s.

    It must be symmetric, ℓ(s, s', y, y') = ℓ(s', s, y', y): the slope in s' is then the slope in s of the pair turned
    round. A block's risk is the mean over its pairs i < j (erratum 11: not the sum).
    """

    degree = 2

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the loss of each pair."""
        raise NotImplementedError

    def slope(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return its derivative in the first score."""
        raise NotImplementedError

    def _compiled(self, ready: Any, scores: Array, targets: Array, slopes: bool) -> Array | None:
        """Return the sums of each block, or their slopes, by a compiled form if the loss has one."""
        return None

    def _fast(self, scores: Array, targets: Array, groups: Array | None, slopes: bool) -> Array | None:
        """Try the compiled form: for real scores, one a row, and all pairs of a block."""
        if groups is not None or scores.ndim != 2 or scores.dtype != np.float64 or len(scores) < 2:
            return None
        ready = fast.compiled(2e-8 * scores.size * len(scores))
        return None if ready is None else self._compiled(ready, scores, targets, slopes)

    def risks(self, scores: Array, targets: Array, groups: Array | None = None) -> Array:
        """Return the mean loss over the pairs of each block, or those inside a group; NaN where there is none."""
        size, n_blocks = targets.shape
        found = self._fast(scores, targets, groups, False)
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
        found = self._fast(scores, targets, groups, True)
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

    def _compiled(self, ready: Any, scores: Array, targets: Array, slopes: bool) -> Array | None:
        some = scores.reshape(-1)[:: max(1, scores.size // 1000)]
        return (ready.logistic_slopes if slopes else ready.logistic_pairs)(scores, targets, float(np.median(some)))


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

    def _compiled(self, ready: Any, scores: Array, targets: Array, slopes: bool) -> Array | None:
        return (ready.hinge_slopes if slopes else ready.hinge_pairs)(scores, targets, True)


class _Product(PairLoss):
    """max(0, 1 - (s - s')·(y - y'))."""

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the loss of each pair."""
        return positive(1 - (s - t) * (y - z))

    def slope(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return its derivative in the first score."""
        gap = z - y
        return gap * ((s - t) * gap > -1)

    def _compiled(self, ready: Any, scores: Array, targets: Array, slopes: bool) -> Array | None:
        return (ready.hinge_slopes if slopes else ready.hinge_pairs)(scores, targets, False)


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


class MetricHinge(PairLoss):
    """max(0, 1 + y_ij·(d²_M(x_i, x_j) - 2)), y_ij = +1 inside a class and -1 across; M stays positive semi-definite.

    The scores of a row are its image under a root of M, so that d²_M is a plain squared distance.
    """

    name = "metric"
    targets = "classes"

    def start(self, n_columns: int, n_scores: int) -> Array:
        """Return I/d: distances of scaled rows are then about 2, where the loss turns."""
        return np.eye(n_columns) / n_columns

    def scores(self, design: Design, theta: Array) -> Array:
        """Return every row under a root of M."""
        return design.scores(root(theta))

    def project(self, theta: Array) -> Array:
        """Return the nearest positive semi-definite matrix."""
        return nearest_psd(theta)

    def value(self, s: Array, t: Array, y: Array, z: Array) -> Array:
        """Return the loss of each pair."""
        return positive(1 + np.where(y == z, 1.0, -1.0) * (square_norm(s - t) - 2))

    def risks(self, scores: Array, targets: Array, groups: Array | None = None) -> Array:
        """Return the mean loss over the pairs of each block."""
        size, n_blocks = targets.shape
        if np.iscomplexobj(scores) or groups is not None or size > _SQUARED:
            return super().risks(scores, targets, groups)
        risks = np.empty(n_blocks)
        for some in _of_blocks(n_blocks, size * size):
            sign, distance = _squared_distances(scores[:, some], targets[:, some])
            risks[some] = positive(1 + sign * (distance - 2)).sum(axis=(1, 2)) / (size * (size - 1))
        return risks

    def gradients(
        self, design: Design, rows: Array, scores: Array, targets: Array, groups: Array | None = None
    ) -> Array:
        """Return the mean over the pairs that cost something of y_ij·(x_i - x_j)(x_i - x_j)ᵀ."""
        size, n_blocks = targets.shape
        n_columns = design.take(rows[:1, 0]).shape[1]
        gradient = np.empty((n_blocks, n_columns, n_columns))
        for some in _of_blocks(n_blocks, size * max(size, n_columns)):
            x = design.take(rows[:, some].T.reshape(-1)).reshape(-1, size, n_columns)
            gradient[some] = x.transpose(0, 2, 1) @ (_pulls(scores[:, some], targets[:, some]) @ x)
        return gradient

    def mean_gradient(
        self,
        design: Design,
        rows: Array,
        scores: Array,
        targets: Array,
        groups: Array | None = None,
        clipped: bool = False,
    ) -> Array:
        """Return the mean gradient of the blocks without writing down that of each: Σ w_k·X_kᵀL_kX_k is one product.

        The length of X_kᵀL_kX_k is the root of the trace of (L_kS_k)², with the products S_k = X_kX_kᵀ of its rows.
        """
        size, n_blocks = targets.shape
        n_columns = design.take(rows[:1, 0]).shape[1]
        parts = list(_of_blocks(n_blocks, size * max(size, n_columns)))
        pulls = [_pulls(scores[:, some], targets[:, some]) for some in parts]

        def taken(some: slice) -> Array:
            return design.take(rows[:, some].T.reshape(-1)).reshape(-1, size, n_columns)

        weights = np.full(n_blocks, 1 / n_blocks)
        if clipped and n_blocks >= 3:
            norms = np.empty(n_blocks)
            for some, pull in zip(parts, pulls, strict=True):
                x = taken(some)
                turned = pull @ (x @ x.transpose(0, 2, 1))
                norms[some] = np.sqrt(np.maximum(np.einsum("kij,kji->k", turned, turned), 0.0))
            weights = clip_weights(norms)
        total = np.zeros((n_columns, n_columns))
        for some, pull in zip(parts, pulls, strict=True):
            x, counted = taken(some), weights[some] > 0
            weighted = weights[some][counted, None, None] * (pull[counted] @ x[counted])
            total += x[counted].reshape(-1, n_columns).T @ weighted.reshape(-1, n_columns)
        return (total + total.T) / 2


class DistanceHinge(PointLoss):
    """max(0, 1 + y·(d²_M(a, b) - 2)) for given pairs, each a row a - b with y = +1 (alike) or -1."""

    name = "metric of given pairs"
    targets = "signs"
    start = MetricHinge.start
    scores = MetricHinge.scores
    project = MetricHinge.project

    def value(self, scores: Array, targets: Array) -> Array:
        """Return the loss of each row."""
        return positive(1 + targets * (square_norm(scores) - 2))

    def gradients(
        self, design: Design, rows: Array, scores: Array, targets: Array, groups: Array | None = None
    ) -> Array:
        """Return the mean of y·(a - b)(a - b)ᵀ over the pairs of each block that cost something."""
        x = design.take(rows.reshape(-1)).reshape(*rows.shape, -1)
        weights = np.where(1 + targets * (square_norm(scores) - 2) > 0, targets, 0.0) / len(targets)
        return (x * weights[..., None]).transpose(1, 2, 0) @ x.transpose(1, 0, 2)


# --- by name ---------------------------------------------------------------------------------------------

POINT_LOSSES: dict[str, type[PointLoss]] = {
    one.name: one for one in (Logistic, Hinge, Softmax, MulticlassHinge, Squared, Absolute, Huber)
}
PAIR_LOSSES: dict[str, type[PairLoss]] = {one.name: one for one in (PairLogistic, PairHinge, ProductHinge)}


def loss_of(loss: Any, known: dict[str, Any], degree: int) -> Any:
    """Return a loss by name, or the one given."""
    if isinstance(loss, Loss):
        if loss.degree != degree:
            takes = "points" if degree == 1 else "pairs"
            raise ValueError(f"loss={loss.name or loss!r} has degree {loss.degree}, but a loss of {takes} is needed")
        return loss
    if isinstance(loss, str) and loss in known:
        return known[loss]()
    near = difflib.get_close_matches(str(loss), known, n=1)
    hint = f": did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"loss={loss!r} is not one of {', '.join(map(repr, known))}, nor a Loss{hint}")


# --- arithmetic that also takes complex scores, so that slopes can be checked by complex steps ----------


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


def nearest_psd(matrix: Array) -> Array:
    """Return the nearest positive semi-definite matrix: negative eigenvalues become 0."""
    if _cholesky(matrix) is not None:
        return matrix
    with fast.one_thread():
        values, vectors = np.linalg.eigh(matrix)
    if values[0] >= 0:
        return matrix
    return (vectors * values.clip(min=0)) @ vectors.T


def root(matrix: Array) -> Array:
    """Return R with R·Rᵀ = M, for a positive semi-definite M."""
    factor = _cholesky(matrix)
    if factor is not None:
        return factor
    with fast.one_thread():
        values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(values.clip(min=0))


def _cholesky(matrix: Array) -> Array | None:
    """Return the lower triangular root of a positive definite matrix, which costs far less than its eigenvalues."""
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    # Close to the edge of the cone only the eigenvalues are to be trusted.
    diagonal = np.diagonal(factor)
    return factor if diagonal.min() > 1e-6 * diagonal.max() else None


def _pulls(scores: Array, targets: Array) -> Array:
    """Return matrices L_k for which X_kᵀL_kX_k is the gradient of the risk of block k of a metric.

    Σ_ij w_ij (x_i - x_j)(x_i - x_j)ᵀ over ordered pairs is 2·XᵀLX with L = diag(Σ_j w_ij) - w.
    """
    sign, distance = _squared_distances(scores, targets)
    weights = np.where(1 + sign * (distance - 2) > 0, sign, 0.0)
    size = weights.shape[1]
    own = np.arange(size)
    weights[:, own, own] = 0.0
    pulls = -weights
    pulls[:, own, own] = weights.sum(axis=2)
    return 2 / (size * (size - 1)) * pulls


def _own(scores: Array, targets: Array) -> Array:
    return np.take_along_axis(scores, targets[..., None], -1)[..., 0]


def _of_blocks(n_blocks: int, cost: int) -> Iterator[slice]:
    """Cut the blocks into parts of about a million numbers, each block costing so many."""
    step = max(1, 2**20 // cost)
    return (slice(low, min(low + step, n_blocks)) for low in range(0, n_blocks, step))


def _squared_distances(scores: Array, targets: Array) -> tuple[Array, Array]:
    """Return, for the pairs of each block, +1 inside a class and -1 across, and the squared distance: (K, B, B).

    From products, which are fast, of rows that are centred, which keeps their digits.
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


_LISTS: dict[int, tuple[Array, Array]] = {}


def _pairs(size: int) -> tuple[Array, Array]:
    """Return the pairs i < j of a block."""
    if size not in _LISTS:
        if len(_LISTS) > 8:
            _LISTS.clear()
        _LISTS[size] = np.triu_indices(size, 1)
    return _LISTS[size]
