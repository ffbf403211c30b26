"""Block risks and gradients of rankers and metrics, in plain torch, or with Triton kernels (`fused.py`) if they run."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from outvote.torch.device import fused

#: The most numbers in a strip of pairs, or in the rows of some blocks, on the CPU and on a device.
_MOST_HELD = 2**22, 2**28
#: Columns of X·U computed at once.
_COLUMNS = 128
#: The sign of an eigenvalue below this share of the largest is not computed.
_SMALLEST = {torch.float32: 1e-8, torch.float64: 1e-16}


class RankingPart:
    """Block risks and gradients of a linear score under a loss of pairs.

    Blocks are stacks of shape (B, K), rows of a block first, as in `outvote.learning.losses`.
    """

    projects = False

    def __init__(self, x: Tensor, targets: Tensor, loss: str, use_fused: bool):
        self.x, self.y, self.loss, self.use_fused = x, targets, loss, use_fused
        self._value, self._slope = _PAIR_FORMS[loss]

    def scores(self, theta: Tensor) -> Tensor:
        """Return the scores of all rows."""
        return self.x @ theta

    def risks(self, scores: Tensor, blocks: Tensor) -> Tensor:
        """Return the mean loss over the pairs of each block; NaN becomes infinite."""
        size = len(blocks)
        if self.use_fused:
            total = fused.pair_sums(scores, self.y, blocks, self.loss)
        else:
            s, y = self._own(scores[blocks]), self.y[blocks]
            total = torch.zeros_like(s[0])
            for low, high in _strips(size, s):
                values = self._value(s[low:high, None], s[None], y[low:high, None], y[None])
                values.diagonal(low, 0, 1).zero_()
                total += values.sum((0, 1))
        risks = total / (size * (size - 1))
        return risks.nan_to_num(math.inf, math.inf, -math.inf)

    def slopes(self, scores: Tensor, blocks: Tensor) -> Tensor:
        """Return the derivative of each block's risk with respect to the scores of its rows."""
        size = len(blocks)
        if self.use_fused:
            slopes = fused.pair_slopes(scores, self.y, blocks, self.loss)
        else:
            s, y = self._own(scores[blocks]), self.y[blocks]
            slopes = torch.empty_like(s)
            for low, high in _strips(size, s):
                values = self._slope(s[low:high, None], s[None], y[low:high, None], y[None])
                values.diagonal(low, 0, 1).zero_()
                slopes[low:high] = values.sum(1)
            if self.loss == "product":
                slopes = slopes * s * (1 - s)
        return slopes * (2 / (size * (size - 1)))

    def gradient(self, scores: Tensor, blocks: Tensor, clipped: bool) -> Tensor:
        """Return the mean gradient of some blocks; with `clipped`, long gradients are cut to the median length."""
        slopes = self.slopes(scores, blocks)
        clipped = clipped and blocks.shape[1] >= 3
        if self.use_fused:
            gradients, norms = fused.pull(self.x, blocks, slopes, clipped)
        else:
            weights = slopes.t().contiguous()
            gradients = embedding_bag(blocks.t().contiguous(), self.x, per_sample_weights=weights, mode="sum")
            norms = torch.linalg.vector_norm(gradients, dim=1)
            gradients = torch.where((norms < math.inf)[:, None], gradients, 0.0) if clipped else gradients
        return clip_weights(norms) @ gradients if clipped else gradients.mean(0)

    def project(self, theta: Tensor) -> Tensor:
        """Return the nearest parameter that is allowed."""
        return theta

    def mean_losses(self, scores: Tensor, others: Tensor) -> Tensor:
        """Return the mean loss of each row with some others."""
        own = self._own(scores)
        step = max(1, _held(own) // max(1, len(others)))
        parts = [
            self._value(s[:, None], own[others], y[:, None], self.y[others]).mean(1)
            for s, y in zip(own.split(step), self.y.split(step), strict=True)
        ]
        return torch.cat(parts)

    def _own(self, scores: Tensor) -> Tensor:
        return scores.sigmoid() if self.loss == "product" else scores


class MetricPart:
    """Block risks and gradients of a Mahalanobis metric.

    The scores of the rows are X·U with U upper triangular and U + Uᵀ = 2M, so that a block's squared distances follow
    from the products of its rows and scores: xᵀMy = (xᵀUy + yᵀUx)/2. That is half the work of X·M. No root of M is
    computed, and M need not be positive semi-definite in every epoch.
    """

    projects = True

    def __init__(self, x: Tensor, classes: Tensor, centred: bool, use_fused: bool):
        self.x, self.y, self.centred, self.use_fused = x, classes, centred, use_fused

    def scores(self, theta: Tensor) -> Tensor:
        """Return X·U; the zeros below the diagonal of U are mostly not multiplied."""
        upper, scores, n_columns = theta.triu() + theta.t().triu(1), torch.empty_like(self.x), len(theta)
        ends = range(n_columns, 0, -_COLUMNS)
        for end, low in zip(ends, (*ends[1:], 0), strict=True):
            torch.mm(self.x[:, :end], upper[:end, low:end], out=scores[:, low:end])
        return scores

    def risks(self, scores: Tensor, blocks: Tensor) -> Tensor:
        """Return the mean loss over the pairs of each block; NaN becomes infinite."""
        size, n_blocks = blocks.shape
        if self.use_fused:
            total = fused.metric_sums(self.x, scores, self.y, blocks)
        else:
            total = scores.new_empty(n_blocks)
            step = max(1, _held(self.x) // (size * max(size, self.x.shape[1])))
            for low in range(0, n_blocks, step):
                _, sign, distance = self._pairs(scores, blocks[:, low : low + step])
                # a row paired with itself has loss 0, since 1 + (0 - 2) < 0
                total[low : low + step] = (1 + sign * (distance - 2)).clamp(min=0).sum((1, 2))
        risks = total / (size * (size - 1))
        return risks.nan_to_num(math.inf, math.inf, -math.inf)

    def gradient(self, scores: Tensor, blocks: Tensor, clipped: bool) -> Tensor:
        """Return the mean gradient of some blocks; with `clipped`, long gradients are cut to the median length."""
        size, n_blocks = blocks.shape
        x, sign, distance = self._pairs(scores, blocks)
        weights = torch.where(1 + sign * (distance - 2) > 0, sign, 0.0)
        weights.diagonal(0, 1, 2).zero_()
        pulls = (torch.diag_embed(weights.sum(2)) - weights) * (2 / (size * (size - 1)))
        shares = x.new_full((n_blocks,), 1 / n_blocks)
        if clipped and n_blocks >= 3:
            turned = pulls @ (x @ x.mT)
            shares = clip_weights((turned * turned.mT).sum((1, 2)).clamp(min=0).sqrt())
        x = torch.where((shares > 0)[:, None, None], x, 0.0)
        total = x.flatten(0, 1).t() @ (shares[:, None, None] * (pulls @ x)).flatten(0, 1)
        return (total + total.t()) / 2

    def project(self, theta: Tensor) -> Tensor:
        """Return the nearest parameter that is allowed."""
        return nearest_psd(theta)

    def mean_losses(self, scores: Tensor, others: Tensor) -> Tensor:
        """Return the mean loss of each row with some others."""
        step = max(1, _held(scores) // max(self.x.shape[1], len(others)))
        x, p = self.x[others], scores[others]
        middle, image = x.mean(0), p.mean(0)
        x, p = x - middle, p - image
        square, parts = (x * p).sum(1), []
        for a, b, y in zip(self.x.split(step), scores.split(step), self.y.split(step), strict=True):
            a, b = a - middle, b - image
            distance = ((a * b).sum(1)[:, None] + square - a @ p.t() - b @ x.t()).clamp(min=0)
            sign = torch.where(y[:, None] == self.y[others], 1.0, -1.0)
            parts.append((1 + sign * (distance - 2)).clamp(min=0).mean(1))
        return torch.cat(parts)

    def _pairs(self, scores: Tensor, blocks: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows of each block, signs (+1 inside a class, -1 across), and squared distances: (K, B, ·)."""
        rows = blocks.t()
        x, p, classes = self.x[rows], scores[rows], self.y[rows]
        if not self.centred:  # far from 0 the products lose the digits in which rows differ
            x, p = x - x.mean(1, keepdim=True), p - p.mean(1, keepdim=True)
        products = x @ p.mT
        own = products.diagonal(0, 1, 2)
        distance = (own[:, :, None] + own[:, None, :] - products - products.mT).clamp(min=0)
        distance.diagonal(0, 1, 2).zero_()
        return x, torch.where(classes[:, :, None] == classes[:, None, :], 1.0, -1.0).to(x.dtype), distance


def clip_weights(norms: Tensor) -> Tensor:
    """Return the weights of gradients in their mean if none is to be longer than their median length.

    Examples
    --------
    >>> clip_weights(torch.tensor([1.0, 2.0, 8.0, torch.inf]))
    tensor([0.2500, 0.2500, 0.0625, 0.0000])
    """
    ordered = torch.where(norms > 0, norms, math.inf).sort().values
    count = (ordered < math.inf).sum()
    places = torch.stack([count - 1, count]).clamp(min=0) // 2
    middle = ordered.index_select(0, places).mean()
    most = torch.where(middle < math.inf, middle, 0.0)
    return (most / norms).clamp(max=1.0).nan_to_num(0.0) / len(norms)


def nearest_psd(matrix: Tensor) -> Tensor:
    """Return the nearest positive semi-definite matrix, (M + |M|)/2, by matrix products.

    |M| = M·sign(M), and the sign is computed by the Newton-Schulz iteration Y ← ρY·(3 - (ρY)²)/2, under which every
    eigenvalue tends to ±1. Eigenvalues (`torch.linalg.eigh`) would make the host wait.

    Examples
    --------
    >>> nearest_psd(torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)).round(decimals=9)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]], dtype=torch.float64)
    """
    length = torch.linalg.matrix_norm(matrix)
    sign = matrix / torch.where(length > 0, length, 1.0)
    for scale in _scales(_SMALLEST[matrix.dtype]):
        scaled = scale * sign
        sign = torch.addmm(scaled, scaled @ scaled, scaled, beta=1.5, alpha=-0.5)
        sign = (sign + sign.t()) / 2  # rounding errors must not cause imaginary eigenvalues, which would grow
    found = (matrix + matrix @ sign) / 2
    return (found + found.t()) / 2


def _scales(smallest: float) -> list[float]:
    """Return factors ρ with which the iteration maps [smallest, 1] to 1.

    ρ² = 3/(1 + l + l²) maps both ends of [l, 1] to the same value. It is computed with l ≥ 0.1: the optimal factor
    would map the largest eigenvalues to the smallest and lose their digits.
    """
    scales, low = [], smallest
    while low < 1 - 1e-9:
        held = max(low, 0.1)
        scales.append(math.sqrt(3 / (1 + held + held * held)))
        low = min(_iterated(scales[-1] * low), _iterated(scales[-1]))
    return [*scales, 1.0]


def _iterated(value: float) -> float:
    return value * (3 - value * value) / 2


def _held(like: Tensor) -> int:
    return _MOST_HELD[like.device.type != "cpu"]


def _strips(size: int, stack: Tensor) -> list[tuple[int, int]]:
    """Return strips of the rows of blocks that are small enough to hold their pairs with all rows at once."""
    step = max(1, _held(stack) // max(1, stack.numel()))
    return [(low, min(low + step, size)) for low in range(0, size, step)]


def _logistic(s: Tensor, t: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return -torch.nn.functional.logsigmoid((y - z).sign() * (s - t))


def _logistic_slope(s: Tensor, t: Tensor, y: Tensor, z: Tensor) -> Tensor:
    sign = (z - y).sign()
    return sign * (sign * (s - t)).sigmoid()


def _hinge(s: Tensor, t: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return (1 + (z - y).sign() * (s - t)).clamp(min=0)


def _hinge_slope(s: Tensor, t: Tensor, y: Tensor, z: Tensor) -> Tensor:
    sign = (z - y).sign()
    return torch.where(1 + sign * (s - t) > 0, sign, 0).to(s.dtype)


def _product(s: Tensor, t: Tensor, y: Tensor, z: Tensor) -> Tensor:
    return (1 - (s - t) * (y - z)).clamp(min=0)


def _product_slope(s: Tensor, t: Tensor, y: Tensor, z: Tensor) -> Tensor:
    gap = z - y
    return gap * ((s - t) * gap > -1)


_PairForm = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
#: The loss of a pair, and its derivative with respect to the first score (for "product", to its sigmoid).
_PAIR_FORMS: dict[str, tuple[_PairForm, _PairForm]] = {
    "logistic": (_logistic, _logistic_slope),
    "hinge": (_hinge, _hinge_slope),
    "product": (_product, _product_slope),
}
