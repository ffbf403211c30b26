"""Losses of pairs of scores inside blocks: see learning/losses/pairs.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote._numba.jit import jit

#: Blocks processed side by side. If there are fewer than _SEVERAL, or they have _LONG rows, their rows are instead.
_BLOCKS, _SEVERAL, _LONG = 128, 8, 128
#: Numbers gathered at once, so that they stay in the cache.
_GATHERED = 2**13
#: The largest distance from the centre at which exponentials are used, and how many factors are then multiplied safely.
_FAR, _PRODUCT = 40.0, 8


@jit
def _softplus(x: float) -> float:
    """Return log(1 + eˣ)."""
    return max(x, 0.0) + (math.log1p(math.exp(-abs(x))) if abs(x) < _FAR else 0.0)


@jit
def _exponentials(
    scores: NDArray[np.float64], low: int, centre: float, grown: NDArray[np.float64], shrunk: NDArray[np.float64]
) -> tuple[float, bool]:
    """Compute the exponentials of the scores of some blocks and of their negatives; they are 0 for scores that are far.

    Return the largest exponent, and whether any score is far.
    """
    most, far = 0.0, False
    for i in range(len(scores)):
        for k in range(min(_BLOCKS, scores.shape[1] - low)):
            gap = scores[i, low + k] - centre
            if abs(gap) <= _FAR:
                most = max(most, abs(gap))
                grown[i, k] = math.exp(gap)
                shrunk[i, k] = 1.0 / grown[i, k]
            else:
                far = True
                grown[i, k], shrunk[i, k] = 0.0, 0.0
    return most, far


@jit
def _logistic_block(s: NDArray[np.float64], y: NDArray[Any], centre: float) -> float:
    """Return the sum over the pairs of one block."""
    size = len(s)
    grown, shrunk, product = np.empty((size, 1)), np.empty((size, 1)), np.ones(size)
    most, _ = _exponentials(s.reshape(-1, 1), 0, centre, grown, shrunk)
    up, down = grown[:, 0].copy(), shrunk[:, 0].copy()
    at_once, taken, total = max(_PRODUCT, np.int64(690.0 / (2 * most + 0.7))), 0, 0.0
    for i in range(size):
        own, inverse, target = up[i], down[i], y[i]
        for j in range(i):
            factor = inverse * up[j] if target > y[j] else own * down[j]
            product[j] *= 1.0 + (factor if target != y[j] else 1.0)
        taken += 1
        if taken == at_once or i == size - 1:
            for j in range(i):
                total += math.log(product[j])
                product[j] = 1.0
            taken = 0
        if own == 0.0:  # far from the centre: add its pairs with nearer rows, and with earlier far rows, one by one
            for j in range(size):
                if y[j] != target and (up[j] != 0.0 or j < i):
                    total += _softplus(s[j] - s[i] if target > y[j] else s[i] - s[j])
    return total


@jit
def logistic_pairs(scores: NDArray[np.float64], targets: NDArray[Any], centre: float) -> NDArray[np.float64]:
    """Return the sum over the pairs of each block of log(1 + exp(∓(s - s'))), by logarithms of products of factors.

    Pairs with a score far from the centre (mostly of corrupt rows) are added one by one.
    """
    size, n_blocks = scores.shape
    totals = np.zeros(n_blocks)
    grown, shrunk, product = np.empty((size, _BLOCKS)), np.empty((size, _BLOCKS)), np.ones(_BLOCKS)
    if n_blocks < _SEVERAL:
        for k in range(n_blocks):
            totals[k] = _logistic_block(scores[:, k].copy(), targets[:, k].copy(), centre)
        return totals
    for low in range(0, n_blocks, _BLOCKS):
        width = min(_BLOCKS, n_blocks - low)
        most, far = _exponentials(scores, low, centre, grown, shrunk)
        at_once, taken = max(_PRODUCT, np.int64(690.0 / (2 * most + 0.7))), 0
        for i in range(size):
            for j in range(i):
                y, z = targets[i, low : low + width], targets[j, low : low + width]
                for k in range(width):
                    up, down = shrunk[i, k] * grown[j, k], grown[i, k] * shrunk[j, k]
                    product[k] *= 1.0 + (up if y[k] > z[k] else down if y[k] < z[k] else 1.0)
                taken += 1
                if taken == at_once or (i == size - 1 and j == i - 1):
                    for k in range(width):
                        totals[low + k] += math.log(product[k])
                        product[k] = 1.0
                    taken = 0
        if far:
            for k in range(width):
                for i in range(size):
                    for j in range(size):
                        if j != i and grown[i, k] == 0.0 and (j < i or grown[j, k] != 0.0):
                            y, z = targets[i, low + k], targets[j, low + k]
                            gap = scores[i, low + k] - scores[j, low + k]
                            if y != z:
                                totals[low + k] += _softplus(-gap if y > z else gap)
    return totals


@jit
def _gather(
    scores: NDArray[np.float64],
    targets: NDArray[Any],
    order: NDArray[Any],
    turns: NDArray[np.int64],
    low: int,
    width: int,
) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return the scores and targets of some blocks of an epoch; `scores` has all rows, `targets` is in epoch order."""
    size, n_blocks = order.shape
    s, y = np.empty((size, width)), np.empty((size, width), targets.dtype)
    for i in range(size):
        start = (low + turns[i]) % n_blocks
        straight = min(width, n_blocks - start)
        y[i, :straight], y[i, straight:] = targets[i, start : start + straight], targets[i, : width - straight]
        for rows, found in (
            (order[i, start : start + straight], s[i, :straight]),
            (order[i, : width - straight], s[i, straight:]),
        ):
            for k in range(len(rows)):
                found[k] = scores[np.uintp(rows[k])]  # an unsigned index needs no check for negative places
    return s, y


@jit
def logistic_pairs_of(
    scores: NDArray[np.float64],
    targets: NDArray[Any],
    order: NDArray[Any],
    turns: NDArray[np.int64],
    centre: float,
) -> NDArray[np.float64]:
    """Return `logistic_pairs` for the blocks of an epoch."""
    n_blocks, step = order.shape[1], max(1, _GATHERED // len(order) // _BLOCKS) * _BLOCKS
    totals = np.empty(n_blocks)
    for low in range(0, n_blocks, step):
        s, y = _gather(scores, targets, order, turns, low, min(step, n_blocks - low))
        totals[low : low + step] = logistic_pairs(s, y, centre)
    return totals


@jit
def _logistic_block_slopes(s: NDArray[np.float64], y: NDArray[Any], centre: float) -> NDArray[np.float64]:
    """Return the derivatives of the sum of one block with respect to its scores."""
    size = len(s)
    grown, shrunk, slopes = np.empty((size, 1)), np.empty((size, 1)), np.zeros(size)
    _exponentials(s.reshape(-1, 1), 0, centre, grown, shrunk)
    up, down = grown[:, 0].copy(), shrunk[:, 0].copy()
    for j in range(size):
        other, inverse, target = up[j], down[j], y[j]
        for i in range(size):  # every pair twice, which keeps the inner loop simple
            factor = down[i] * other if y[i] > target else up[i] * inverse
            pull = factor / (1.0 + factor)
            slopes[i] += -pull if y[i] > target else pull if y[i] < target else 0.0
        if other == 0.0:
            for i in range(size):
                if y[i] != target and (up[i] != 0.0 or i < j):
                    sign = -1.0 if y[i] > target else 1.0
                    pull = sign / (1.0 + math.exp(min(-sign * (s[i] - s[j]), 700.0)))
                    slopes[i] += pull
                    slopes[j] -= pull
    return slopes


@jit
def logistic_slopes(scores: NDArray[np.float64], targets: NDArray[Any], centre: float) -> NDArray[np.float64]:
    """Return the derivatives of `logistic_pairs` with respect to the scores."""
    size, n_blocks = scores.shape
    slopes = np.zeros((size, n_blocks))
    grown, shrunk = np.empty((size, _BLOCKS)), np.empty((size, _BLOCKS))
    if n_blocks < _SEVERAL:
        for k in range(n_blocks):
            slopes[:, k] = _logistic_block_slopes(scores[:, k].copy(), targets[:, k].copy(), centre)
        return slopes
    for low in range(0, n_blocks, _BLOCKS):
        width = min(_BLOCKS, n_blocks - low)
        _, far = _exponentials(scores, low, centre, grown, shrunk)
        for i in range(size):
            for j in range(i):
                y, z = targets[i, low : low + width], targets[j, low : low + width]
                own, other = slopes[i, low : low + width], slopes[j, low : low + width]
                for k in range(width):
                    up, down = shrunk[i, k] * grown[j, k], grown[i, k] * shrunk[j, k]
                    pull = -up / (1.0 + up) if y[k] > z[k] else down / (1.0 + down) if y[k] < z[k] else 0.0
                    own[k] += pull
                    other[k] -= pull
        if far:
            for k in range(width):
                for i in range(size):
                    for j in range(size):
                        if j != i and grown[i, k] == 0.0 and (j < i or grown[j, k] != 0.0):
                            y, z = targets[i, low + k], targets[j, low + k]
                            gap = scores[i, low + k] - scores[j, low + k]
                            if y != z:
                                sign = -1.0 if y > z else 1.0
                                pull = sign / (1.0 + math.exp(min(-sign * gap, 700.0)))
                                slopes[i, low + k] += pull
                                slopes[j, low + k] -= pull
    return slopes


@jit
def hinge_pairs(scores: NDArray[np.float64], targets: NDArray[Any], signs: bool) -> NDArray[np.float64]:
    """Return the sum over the pairs of each block of max(0, 1 - (s - s')·(y - y')), or with the sign of y - y'."""
    size, n_blocks = scores.shape
    totals = np.zeros(n_blocks)
    if n_blocks < _SEVERAL or size >= _LONG:
        for k in range(n_blocks):
            s, y, sums = scores[:, k].copy(), targets[:, k].copy(), np.zeros(size)
            for i in range(size):
                own, target = s[i], y[i]
                for j in range(i):
                    gap = np.sign(y[j] - target) if signs else y[j] - target
                    sums[j] += max(1.0 + gap * (own - s[j]), 0.0)  # in this order of arguments NaN stays NaN
            totals[k] = sums.sum()
        return totals
    for low in range(0, n_blocks, _BLOCKS):
        high = min(low + _BLOCKS, n_blocks)
        part = totals[low:high]
        for i in range(size):
            for j in range(i):
                s, t, y, z = scores[i, low:high], scores[j, low:high], targets[i, low:high], targets[j, low:high]
                for k in range(high - low):
                    gap = np.sign(z[k] - y[k]) if signs else z[k] - y[k]
                    part[k] += max(1.0 + gap * (s[k] - t[k]), 0.0)
    return totals


@jit
def hinge_pairs_of(
    scores: NDArray[np.float64],
    targets: NDArray[Any],
    order: NDArray[Any],
    turns: NDArray[np.int64],
    signs: bool,
) -> NDArray[np.float64]:
    """Return `hinge_pairs` for the blocks of an epoch."""
    n_blocks, step = order.shape[1], max(1, _GATHERED // len(order) // _BLOCKS) * _BLOCKS
    totals = np.empty(n_blocks)
    for low in range(0, n_blocks, step):
        s, y = _gather(scores, targets, order, turns, low, min(step, n_blocks - low))
        totals[low : low + step] = hinge_pairs(s, y, signs)
    return totals


@jit
def hinge_slopes(scores: NDArray[np.float64], targets: NDArray[Any], signs: bool) -> NDArray[np.float64]:
    """Return the derivatives of `hinge_pairs` with respect to the scores."""
    size, n_blocks = scores.shape
    slopes = np.zeros((size, n_blocks))
    if n_blocks < _SEVERAL or size >= _LONG:
        for k in range(n_blocks):
            s, y, sums = scores[:, k].copy(), targets[:, k].copy(), np.zeros(size)
            for j in range(size):  # every pair twice, which keeps the inner loop simple
                other, target = s[j], y[j]
                for i in range(size):
                    gap = np.sign(target - y[i]) if signs else target - y[i]
                    sums[i] += gap if 1.0 + gap * (s[i] - other) > 0.0 else 0.0
            slopes[:, k] = sums
        return slopes
    for low in range(0, n_blocks, _BLOCKS):
        high = min(low + _BLOCKS, n_blocks)
        for i in range(size):
            for j in range(i):
                s, t, y, z = scores[i, low:high], scores[j, low:high], targets[i, low:high], targets[j, low:high]
                own, other = slopes[i, low:high], slopes[j, low:high]
                for k in range(high - low):
                    gap = np.sign(z[k] - y[k]) if signs else z[k] - y[k]
                    pull = gap if 1.0 + gap * (s[k] - t[k]) > 0.0 else 0.0
                    own[k] += pull
                    other[k] -= pull
    return slopes


@jit
def metric_pairs(scores: NDArray[np.float64], classes: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the sum over the pairs of each block of max(0, 1 ± (|s - s'|² - 2)), + inside a class and - across."""
    size, n_blocks = rows.shape
    width = scores.shape[1]
    whole = width - width % 4
    totals = np.zeros(n_blocks)
    for k in range(n_blocks):
        for i in range(size):
            s, own = scores[rows[i, k]], classes[rows[i, k]]
            for j in range(i):
                t = scores[rows[j, k]]
                one, two, three, four = 0.0, 0.0, 0.0, 0.0
                for c in range(0, whole, 4):  # four sums at once
                    one += (s[c] - t[c]) ** 2
                    two += (s[c + 1] - t[c + 1]) ** 2
                    three += (s[c + 2] - t[c + 2]) ** 2
                    four += (s[c + 3] - t[c + 3]) ** 2
                for c in range(whole, width):
                    one += (s[c] - t[c]) ** 2
                apart = (one + two) + (three + four) - 2.0
                totals[k] += max(1.0 + apart if classes[rows[j, k]] == own else 1.0 - apart, 0.0)
    return totals


@jit
def metric_pulls(scores: NDArray[np.float64], classes: NDArray[Any]) -> NDArray[np.float64]:
    """Return matrices L_k, (K, B, B), with XᵀLX the gradient of `metric_pairs`: Σ_j w_ij on the diagonal, -w beside it.

    w_ij is +1 inside a class and -1 across if the pair has a positive loss, else 0.
    """
    size, n_blocks, width = scores.shape
    pulls = np.zeros((n_blocks, size, size))
    apart = np.empty(size)
    for k in range(n_blocks):
        images, own = np.ascontiguousarray(scores[:, k].T), classes[:, k].copy()
        pull = pulls[k]
        for i in range(size):
            apart[:i] = -2.0
            for c in range(width):
                column = images[c]
                for j in range(i):
                    apart[j] += (column[i] - column[j]) ** 2
            for j in range(i):
                weight = 1.0 if own[j] == own[i] else -1.0
                pull[i, j] = -weight if 1.0 + weight * apart[j] > 0.0 else 0.0
            for j in range(i):
                pull[j, i] = pull[i, j]
                pull[i, i] -= pull[i, j]
                pull[j, j] -= pull[i, j]
    return pulls
