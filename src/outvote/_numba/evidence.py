"""Products of factors without the largest ones: see votes/evidence/rows.py and votes/evidence/binned.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote._numba.jit import jit, reduction

Floats = NDArray[np.float64]

#: Factors multiplied before anything is checked.
_TOGETHER = 64


@jit
def _pay(x: float, rate: float, depth: float, low: float, high: float) -> float:
    """Return 1 + λh at its least for means in [low, high]."""
    y = min(max(x - high, -depth), x - low)
    return 1.0 + (y * (rate / (2 * depth)) + rate) * y


@reduction
def _product(values: Floats, rate: float, depth: float, low: float, high: float) -> float:
    """Return the product of what some rows pay."""
    slope, product = rate / (2 * depth), 1.0
    for i in range(len(values)):
        right, left = values[i] - low, values[i] - high
        left = left if left > -depth else -depth
        y = right if right < left else left
        product *= 1.0 + (y * slope + rate) * y
    return product


@jit
def product_of_rows(
    values: Floats, n_dropped: int, rate: float, depth: float, norm: float, low: float, high: float
) -> float:
    """Return the logarithm of the product of the factors of rows in ascending order.

    Along the rows factors fall and then rise, so that the largest one of those that are left is the first or the last.
    """
    first, last = 0, len(values) - 1
    if last >= 0 and not -math.inf < values[0] <= values[last] < math.inf:  # rows that overflowed
        return math.nan
    even = math.exp(norm)
    for _ in range(min(n_dropped, len(values))):
        left = _pay(values[first], rate, depth, low, high)
        right = _pay(values[last], rate, depth, low, high)
        if max(left, right) <= even:
            break
        if left > right:
            first += 1
        else:
            last -= 1
    total, product = 0.0, 1.0
    for start in range(first, last + 1, _TOGETHER):
        some = values[start : min(start + _TOGETHER, last + 1)]
        part = _product(some, rate, depth, low, high)
        if not 1e-150 < part < 1e150:  # rows far out: one after the other
            part = 1.0
            for x in some:
                pay = _pay(x, rate, depth, low, high)
                if not 0.0 < pay < math.inf:
                    return math.nan
                total += math.log(pay)
        product *= part
        if not 1e-150 < product < 1e150:
            total += math.log(product)
            product = 1.0
    return total + math.log(product) - (last + 1 - first) * norm


@jit
def _log(pay: float) -> float:
    """Return the logarithm; close to 1 a few terms of the series will do."""
    z = pay - 1
    if abs(z) < 0.02:
        rest = 1 / 5 - z * (1 / 6 - z * (1 / 7 - z / 8))
        return z - z * z * (1 / 2 - z * (1 / 3 - z * (1 / 4 - z * rest)))
    return math.log(pay)


@jit
def _sum_of_bins(
    count: Floats,
    mean: Floats,
    squares: Floats,
    slacks: Floats,
    rate: float,
    depth: float,
    norm: float,
    bend: float,
    steepest: float,
    low: float,
    high: float,
) -> float:
    """Return the sum of the logarithms of rows in bins that are never dropped, at least."""
    n, total, lost = len(count), 0.0, 0.0
    if not n:
        return 0.0
    first, last = _pay(mean[0], rate, depth, low, high) - 1, _pay(mean[n - 1], rate, depth, low, high) - 1
    # Between its ends, if the valley does not lie in between, the pay is between these: where all are close to 1 a few
    # terms of the series will do.
    if mean[0] - high > -depth and max(abs(first), abs(last)) < 0.02:
        for i in range(n):
            z = _pay(mean[i], rate, depth, low, high) - 1
            rest = 1 / 5 - z * (1 / 6 - z * (1 / 7 - z / 8))
            total += count[i] * (z - z * z * (1 / 2 - z * (1 / 3 - z * (1 / 4 - z * rest))))
    else:
        for i in range(n):
            total += count[i] * math.log(_pay(mean[i], rate, depth, low, high))
    for i in range(n):
        lost += bend * squares[i] / 2 + (steepest * slacks[i] + norm) * count[i]
    return total - lost


@jit
def _kinds_of_bins(bins: Any, factor: Any, low: float, high: float) -> tuple[float, int]:
    """Write the two kinds of rows of bins whose rows may be dropped: their values, and how many rows have them.

    Also return the sum over all other bins, and the first of these. A factor is its rate, its depth, the logarithms of
    its norm and of its least value, and the bounds `bend` and `steepest`.
    """
    count, mean, squares, low_ends, high_ends, slacks, n_first, n_last, _, kinds = bins
    rate, depth, norm, least, bend, steepest = factor
    if n_first < n_last:  # rows between μ - 2τ and μ have factors below 1, and are never dropped
        far = 0
        while far < n_first and low_ends[far] <= high - 2 * depth:
            far += 1
        n_first = far
    total = _sum_of_bins(
        count[n_first:n_last], mean[n_first:n_last], squares[n_first:n_last], slacks[n_first:n_last],
        rate, depth, norm, bend, steepest, low, high,
    )  # fmt: skip
    n = len(count)
    edge, last = math.nan, 0.0
    for i in range(n):
        if n_first <= i < n_last:
            continue
        left = min(max(low_ends[i] - high, -depth), low_ends[i] - low)
        right = min(max(high_ends[i] - high, -depth), high_ends[i] - low)
        first = last if low_ends[i] == edge else _log(_pay(low_ends[i], rate, depth, low, high))
        edge = high_ends[i]
        last = _log(_pay(edge, rate, depth, low, high))
        lower, upper = min(first, last), max(first, last)
        if left < -depth and right > -depth:
            lower = least
        sum_ = count[i] * _log(_pay(mean[i], rate, depth, low, high)) - bend * squares[i] / 2
        sum_ -= steepest * slacks[i] * count[i]
        if not squares[i] < math.inf or not sum_ > count[i] * lower:
            sum_ = count[i] * lower
        sum_ = min(sum_, count[i] * upper)
        gap = upper - lower
        n_upper = min((sum_ - count[i] * lower) / gap, count[i]) if 0.0 < gap < math.inf else 0.0
        kinds[i, 0], kinds[i, 1] = upper - norm, n_upper
        kinds[i, 2], kinds[i, 3] = lower - norm, count[i] - n_upper
    return total, n_first


@jit
def product_of_bins(bins: Any, factor: Any, low: float, high: float) -> float:
    """Return the logarithm of the product of the factors of rows in bins; rows up to `n_first` may be dropped.

    So may those from `n_last` on. The last of `bins` is room to write to.
    """
    count, _, _, _, _, _, _, n_last, n_dropped, kinds = bins
    n = len(count)
    total, n_first = _kinds_of_bins(bins, factor, low, high)
    # From either end inwards the values fall until they are negative: the largest of what is left is at an end.
    i, j, of_i, of_j, rest = 0, n - 1, 0, 0, n_dropped
    while rest > 0.0 and i <= j:
        left = kinds[i, of_i] if i < n_first else -1.0
        right = kinds[j, of_j] if j >= n_last else -1.0
        if max(left, right) <= 0.0:
            break
        if left > right:
            gone = min(kinds[i, of_i + 1], rest)
            kinds[i, of_i + 1] -= gone
            i, of_i = (i + 1, 0) if of_i else (i, 2)
        else:
            gone = min(kinds[j, of_j + 1], rest)
            kinds[j, of_j + 1] -= gone
            j, of_j = (j - 1, 0) if of_j else (j, 2)
        rest -= gone
    for i in range(n):
        if i < n_first or i >= n_last:
            for kind in (0, 2):
                if kinds[i, kind + 1] > 0.0:
                    total += kinds[i, kind] * kinds[i, kind + 1]
    return total


@jit
def parts_of_bins(bins: Any, factor: Any, low: float, high: float, pieces: Floats) -> tuple[float, int]:
    """Write the values above 0 that may be dropped, and how many rows have each; return the sum of all others.

    Also return how many of these values there are.
    """
    count, _, _, _, _, _, _, n_last, _, kinds = bins
    total, n_first = _kinds_of_bins(bins, factor, low, high)
    found = 0
    for i in range(len(count)):
        if i < n_first or i >= n_last:
            for kind in (0, 2):
                if kinds[i, kind + 1] > 0.0:
                    if kinds[i, kind] > 0.0:
                        pieces[0, found], pieces[1, found] = kinds[i, kind], kinds[i, kind + 1]
                        found += 1
                    else:
                        total += kinds[i, kind] * kinds[i, kind + 1]
    return total, found


@jit
def least_of_pieces(values: Floats, weights: Floats, n_dropped: float) -> float:
    """Add up weighted values without the largest ones, `n_dropped` rows at most; no value is NaN."""
    values, weights = values.copy(), weights.copy()
    total, rest, first, last = 0.0, n_dropped, 0, len(values)
    while first < last:  # all before `first` are dropped, all from `last` on are kept, and in `total`
        ends = values[first], values[first + (last - first) // 2], values[last - 1]
        pivot = max(min(ends[0], ends[1]), min(max(ends[0], ends[1]), ends[2]))
        above, i, below = first, first, last
        n_above, n_equal, smaller = 0.0, 0.0, 0.0
        while i < below:
            if values[i] > pivot:
                n_above += weights[i]
                values[i], values[above] = values[above], values[i]
                weights[i], weights[above] = weights[above], weights[i]
                above, i = above + 1, i + 1
            elif values[i] < pivot:
                below -= 1
                smaller += values[i] * weights[i] if weights[i] > 0.0 else 0.0
                values[i], values[below] = values[below], values[i]
                weights[i], weights[below] = weights[below], weights[i]
            else:
                n_equal += weights[i]
                i += 1
        if rest >= n_above + n_equal:
            rest, first = rest - n_above - n_equal, below
        else:
            kept = n_equal - max(rest - n_above, 0.0)
            total += smaller + (pivot * kept if kept > 0.0 else 0.0)
            if rest >= n_above:
                return total
            last = above
    return total


@jit
def parts_at_means(bins: Any, factor: Any, means: Floats, totals: Floats, starts: Any, pieces: Floats) -> None:
    """Do what `parts_of_bins` does for each of several means, one after the other; also write where each begins."""
    starts[0] = 0
    for i in range(len(means)):
        totals[i], found = parts_of_bins(bins, factor, means[i], means[i], pieces[:, starts[i] :])
        starts[i + 1] = starts[i] + found


@jit
def least_of_both(
    bins: Any, factor: Any, lows: Floats, highs: Floats, others: Any, n_dropped: float, found: Floats
) -> None:
    """Write the sum of all logarithms of two samples without the largest ones, for each of several means.

    Of the other sample come totals, values, how many rows have each, and where those of each mean begin.
    """
    totals, values, weights, starts = others
    pieces = np.empty((2, 2 * len(bins[0]) + len(values)))
    for i in range(len(lows)):
        n = starts[i + 1] - starts[i]
        pieces[0, :n], pieces[1, :n] = values[starts[i] : starts[i + 1]], weights[starts[i] : starts[i + 1]]
        total, more = parts_of_bins(bins, factor, lows[i], highs[i], pieces[:, n:])
        found[i] = totals[i] + total + least_of_pieces(pieces[0, : n + more], pieces[1, : n + more], n_dropped)
