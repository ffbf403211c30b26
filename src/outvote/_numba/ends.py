"""Ends of intervals that are conditional on an sd: see votes/evidence/interval.py and votes/evidence/ends.py.

The same steps as there for one factor, with nothing between them but arithmetic. Rows come as they are, or in bins.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote._numba.evidence import product_of_bins, product_of_rows, spread_of_bins, spread_of_rows, squares_above
from outvote._numba.jit import jit

Floats = NDArray[np.float64]

#: Sums that are added up side by side: as many as in votes/evidence/scale.py.
_LANES = 32


@jit
def _step(tolerance: float) -> float:
    """Do what `grid_step` does."""
    return math.ldexp(0.5, math.frexp(tolerance)[1])


@jit
def _down(x: float, step: float) -> float:
    """Do what `down_to_grid` does."""
    return np.floor(x / step) * step + 0.0 if abs(x) < step * 2.0**53 else x


@jit
def _excess(rows: Any, factor: tuple[float, float, float], price: float, low: float, high: float) -> float:
    """Return by how much the evidence exceeds its price; NaN if that cannot be told here, or rounding may decide."""
    found = _difference(rows, factor, price, low, high)
    return found if abs(found) > rows[6] else math.nan


@jit
def _difference(rows: Any, factor: tuple[float, float, float], price: float, low: float, high: float) -> float:
    """Return by how much the evidence exceeds its price; NaN if that cannot be told here."""
    single, values, n_dropped, bins, _, limits, _ = rows
    rate, depth, sd = factor
    norm = math.log1p(rate * sd * sd / (2 * depth))
    if single:
        return product_of_rows(values, n_dropped, rate, depth, norm, low, high) - price
    curvature = rate / (depth * (1 - rate * depth / 2))
    steepest, bend = math.sqrt(curvature / 2), curvature / 8
    if not bend * limits[0] / 2 + steepest * limits[1] <= limits[2]:
        return math.nan
    least = math.log1p(-rate * depth / 2)
    return product_of_bins(bins, (rate, depth, norm, least, bend, steepest), low, high) - price


@jit
def _root(
    rows: Any, factor: Any, price: float, start: float, low: float, high: float, above: float, below: float,
    tolerance: float,
) -> float:  # fmt: skip
    """Do what `falling_root` does for the evidence against means from `start` on."""
    step = _step(tolerance)
    side, slow = 0, 0
    while True:
        width = high - low
        middle = low + width / 2
        if slow < 3 and math.isfinite(above) and math.isfinite(below) and above > below:
            secant = low + width * above / (above - below)
            if low < secant < high:
                middle = secant
        if max(abs(low), abs(high)) < step * 2.0**53:
            middle = max(_down(middle, step), _down(low, step) + step)
            middle = min(middle, -_down(-high, step) - step)
        if not low < middle < high:
            break
        value = _excess(rows, factor, price, start, middle)
        if math.isnan(value):
            return math.nan
        if value >= 0:
            low, above = middle, value
            below, side = below / (2 if side > 0 else 1), 1
        else:
            high, below = middle, value
            above, side = above / (2 if side < 0 else 1), -1
        slow = slow + 1 if high - low > width / 2 else 0
    return low


@jit
def _moved_up(rows: Any, factor: Any, price: float, low: float, high: float, tolerance: float, above: float) -> float:
    """Do what `moved_up` does."""
    if not above >= 0:
        return above if math.isnan(above) else low
    below = _excess(rows, factor, price, low, high)
    if below >= 0:
        all_ = _excess(rows, factor, price, low, math.inf)
        if not all_ < 0:
            return math.nan if math.isnan(all_) else math.inf
    while below >= 0:
        if not high + 2 * (high - low) > high:  # no digits are left
            return math.nan
        high += 2 * (high - low)
        below = _excess(rows, factor, price, low, high)
    if math.isnan(below):
        return below
    return _root(rows, factor, price, low, low, high, above, below, tolerance)


@jit
def _none_between(rows: Any, low: float, high: float) -> bool:
    single, values, _, bins, _, _, _ = rows
    if single:
        return np.searchsorted(values, low) == np.searchsorted(values, high, side="right")
    lows, highs = bins[3], bins[4]
    return np.searchsorted(highs, low) == np.searchsorted(lows, high, side="right")


@jit
def _n_below(rows: Any, end: float) -> float:
    single, values, _, bins, _, _, _ = rows
    if single:
        return float(np.searchsorted(values, end))
    return bins[0][: np.searchsorted(bins[1], end)].sum()


@jit
def _lower_end(
    rows: Any, factor: tuple[float, float, float], price: float, n_rows: float, n_values: float, middle: float,
    roughly: float, precision: float,
) -> tuple[float, float]:  # fmt: skip
    """Do what `lower_end` does."""
    rate, depth, sd = factor
    norm, least = math.log1p(rate * sd * sd / (2 * depth)), math.log1p(-rate * depth / 2)
    first = 2 * (price / n_rows + norm) / rate
    far = _n_below(rows, middle - first - depth)
    grid, step = _step(roughly * first), first
    end = _down(middle - first - 1.1 * far * (norm - least) / (rate * max(n_values - far, 1.0)), grid)
    above = _excess(rows, factor, price, -math.inf, end)
    while not above >= 0:
        end, step = _down(end - step, grid), 2 * step
        if math.isnan(above) or step > min(1e30 * first, 1e300):
            return math.nan, math.nan
        above = _excess(rows, factor, price, -math.inf, end)
    start, top = end, max(middle, end) + step
    if not _none_between(rows, start - 2 * depth, top - depth):
        end = _moved_up(rows, factor, price, start, top, roughly * first, above)
        if not math.isfinite(end):
            return end, start
        above = _excess(rows, factor, price, end, end)
    top = top if top > end else end + step
    return _moved_up(rows, factor, price, end, top, precision * first, above), start


@jit
def _end_in_cell(
    rows: Any, factor: Any, price: float, n_rows: float, n_values: float, middle: float, roughly: float,
    precision: float, end: float, start: float, first: float,
) -> float:  # fmt: skip
    """Do what `end_in_cell` does."""
    whole = _excess(rows, factor, price, -math.inf, end)
    if not whole < 0:
        return end if whole >= 0 else math.nan
    below_start = _excess(rows, factor, price, -math.inf, start)
    if not below_start >= 0:
        if math.isnan(below_start):
            return math.nan
        other = _lower_end(rows, factor, price, n_rows, n_values, middle, roughly, precision)[0]
        return min(end, other) if other == other else math.nan
    low = min(start, end)
    for tolerance in (roughly, precision):
        above, below = _excess(rows, factor, price, low, low), _excess(rows, factor, price, low, end)
        if math.isnan(above) or math.isnan(below):
            return math.nan
        if below >= 0 or not above >= 0:
            return end if below >= 0 else low
        low = _root(rows, factor, price, low, low, end, above, below, tolerance * first)
    return low


@jit
def _spread(rows: Any, end: float, unit: float, stakes: Any, enough: float) -> float:
    """Return the logarithm of the evidence that the variance exceeds unit², from rows above `end`, or `enough`."""
    single, values, n_dropped, bins, kept, _, _ = rows
    if single:
        most = max(len(values) - n_dropped, np.searchsorted(values, end + unit))
        return spread_of_rows(values[:most], end, unit, stakes, enough)
    return spread_of_bins(bins, kept, end, unit, stakes, enough)


@jit
def _lowest_cell(rows: Any, end: float, top: int, price: float, n_values: float, stakes: Any) -> int:
    """Do what `_lowest_cell` does; a cell far above `top` if it cannot be told."""
    single, values, n_dropped, bins, kept, _, _ = rows
    total = 0.0
    if single:
        total = squares_above(values[: len(values) - n_dropped], end)
    else:
        lows = bins[3]
        for i in range(len(lows)):
            total += kept[i] * max(lows[i] - end, 0.0) ** 2
    mean = total / (n_values - n_dropped)
    k = min(math.floor(3 * math.log2(max(mean, 1e-300)) / 2), top - 1)
    for _ in range(200):
        spread = _spread(rows, end, 2.0 ** (k / 3), stakes, price)
        if not (k < top and spread >= price):
            break
        k += 1
    for _ in range(200):
        if _spread(rows, end, 2.0 ** ((k - 1) / 3), stakes, price) >= price:
            return k
        k -= 1
    return top + 1000


@jit
def cells_end(
    rows: Any,
    main: tuple[float, float],
    sd: float,
    prices: tuple[float, float],
    numbers: tuple[float, float, float, float],
    precision: tuple[float, float, float],
    stakes: Any,
) -> float:
    """Return a number below which every mean is ruled out for every scale up to `sd`; NaN if it cannot be told here.

    Parameters
    ----------
    rows : tuple
        Whether they are single; the rows; how many may be dropped; or bins: count, mean, squares, ends and slacks, the
        first one that is never dropped, and the first after these, how many rows may be dropped, and room for two kinds
        of rows of each; how many rows of each are left without the largest; limits for the loss of bins; how far
        rounding can move the evidence.
    main : tuple of float
        Rate and depth of the factor for an sd of 1.
    sd : float
        The largest sd.
    prices : tuple of float
        Of an end, and of a cell of scales.
    numbers : tuple of float
        How many rows there are, how many may be clean, a value in their middle, and the largest that is kept.
    precision : tuple of float
        How precisely an end is found the first time, and in the end; how far below a row it must lie, as a share of it.
    stakes : tuple of float
        Those of the evidence on a variance.
    """
    price, spread_price = prices
    n_rows, n_values, middle, largest_kept = numbers
    roughly, precise, apart = precision
    top = math.ceil(3 * math.log2(sd) + 1e-9)
    unit = 2.0 ** ((top - 0.5) / 3)
    factor = (main[0] / unit, main[1] * unit, min(2.0 ** (top / 3), sd))
    end, start = _lower_end(rows, factor, price, n_rows, n_values, middle, roughly, precise)
    if not math.isfinite(end):
        return math.nan
    norm = math.log1p(factor[0] * factor[2] * factor[2] / (2 * factor[1]))
    first = 2 * (price / n_rows + norm) / factor[0]
    gap = max(first, abs(largest_kept) * apart)
    end = min(end, _down(largest_kept - gap, _step(precise * first)))
    bottom = _lowest_cell(rows, end, top, spread_price, n_values, stakes)
    if bottom > top + 1:
        return math.nan
    for k in range(top - 1, bottom - 1, -1):
        unit = 2.0 ** ((k - 0.5) / 3)
        factor = (main[0] / unit, main[1] * unit, min(2.0 ** (k / 3), sd))
        end = _end_in_cell(rows, factor, price, n_rows, n_values, middle, roughly, precise, end, start, first)
        if not math.isfinite(end):
            return math.nan
    return end


@jit
def _without_dropped(bins: Any, n_dropped: int, little: float, rounding: float) -> tuple[Any, float, float, float]:
    """Return what `cells_end` takes of rows in bins, how many there are, one in their middle, and the largest kept."""
    count, mean, squares, lows, _, slacks = bins
    n_bins, n_rows = len(count), count.sum()
    n_kept, half = n_rows - n_dropped, n_rows // 2
    kept, before, first, last, middle, largest = np.empty(n_bins), 0.0, 0, 0, 0, 0
    for i in range(n_bins):
        kept[i] = min(max(n_kept - before, 0.0), count[i])
        first = i + 1 if before < n_dropped else first
        before += count[i]
        last = i + 1 if before <= n_kept else last
        middle = i + 1 if before <= half else middle
        largest = i + 1 if before <= n_kept - 1 else largest
    if first >= last:
        first, last = n_bins, 0
    all_squares, slack = 0.0, 0.0
    for i in range(first, last):
        all_squares += min(squares[i], 1e300)
        slack += min(count[i] * slacks[i], 1e300)
    given = (*bins, first, last, float(n_dropped), np.empty((n_bins, 4)))
    rows = (False, np.empty(0), n_dropped, given, kept, (all_squares, slack, little), rounding)
    return rows, n_rows, mean[min(middle, n_bins - 1)], lows[min(largest, n_bins - 1)]


@jit
def ends_of_levels(
    sides: Any,
    n_rows: float,
    dropped: NDArray[np.int64],
    sds: Floats,
    main: tuple[float, float],
    prices: tuple[float, float],
    precision: tuple[float, float, float],
    stakes: Any,
    little: float,
    rounding: float,
    found: Floats,
) -> None:
    """Write both ends for several numbers of rows that may be dropped, and their sds; NaN where it cannot be told here.

    Of both sides, the rows and the rows mirrored, come count, mean, squares, ends and slacks of their bins.
    """
    for side in range(2):
        for level in range(len(dropped)):
            rows, n_values, middle, largest = _without_dropped(sides[side], dropped[level], little, rounding)
            numbers = (n_rows, n_values, middle, largest)
            end = cells_end(rows, main, sds[level], prices, numbers, precision, stakes)
            found[level, side] = end if side == 0 else -end


@jit
def _folded(lanes: Floats) -> float:
    total = 0.0
    for one in lanes:
        total += one
    return total


@jit
def _sum(values: Floats, middle: float, lanes: Floats) -> float:
    """Add up how far rows lie from a value, as `sum_in_lanes` does."""
    lanes[:] = 0.0
    for start in range(0, len(values), len(lanes)):
        some = values[start : start + len(lanes)]
        for j in range(len(some)):
            lanes[j] += some[j] - middle
    return _folded(lanes)


@jit
def _squares(values: Floats, middle: float, mean: float, lanes: Floats) -> float:
    """Add up the squares of that, less its mean, in the same way."""
    lanes[:] = 0.0
    for start in range(0, len(values), len(lanes)):
        some = values[start : start + len(lanes)]
        for j in range(len(some)):
            gap = (some[j] - middle) - mean
            lanes[j] += gap * gap
    return _folded(lanes)


@jit
def _central_sd(values: Floats, n_dropped: int) -> float:
    """Do what `central_sd` does, for rows in ascending order."""
    n, n_kept = len(values), len(values) - n_dropped
    middle = values[(n - 1) // 2] / 2 + values[n // 2] / 2
    first, best = 0, math.inf
    for start in range(n_dropped + 1):
        reach = max(middle - values[start], values[start + n_kept - 1] - middle)
        if reach < best:
            first, best = start, reach
    kept, lanes = values[first : first + n_kept], np.empty(_LANES)
    return math.sqrt(_squares(kept, middle, _sum(kept, middle, lanes) / n_kept, lanes) / n_kept)


@jit
def ends_of_groups(
    values: Floats,
    starts: NDArray[np.int64],
    dropped: NDArray[np.int64],
    multiples: Floats,
    rates: Floats,
    depths: Floats,
    prices: tuple[float, float],
    precision: tuple[float, float, float],
    stakes: Any,
    n_sorted: int,
    rounding: tuple[float, float],
    found: Floats,
) -> None:
    """Write the sd of the premise, and both ends, of each group of rows; NaN where it cannot be told here.

    Rows of a group stand together, from its start on; groups of `n_sorted` rows or more come in order, the others are
    sorted here. An sd is a multiple of that of the central rows, for groups without the `dropped` farthest ones.
    """
    nothing, limits = np.empty(0), (0.0, 0.0, 0.0)
    no_bins = (nothing, nothing, nothing, nothing, nothing, nothing, 0, 0, 0.0, np.empty((0, 4)))
    of_one, more = rounding
    for g in range(len(dropped)):
        rows = values[starts[g] : starts[g + 1]]
        if len(rows) < n_sorted:
            rows.sort()
        n, k = len(rows), dropped[g]
        found[g, :] = math.nan
        if n <= 2 * k:
            continue
        sd = multiples[g] * _central_sd(rows, k)
        found[g, 0] = sd
        if not 1e-100 < sd < 1e100:
            continue
        for side in range(2):
            ordered = rows if side == 0 else -rows[::-1]
            given = (True, ordered, k, no_bins, nothing, limits, of_one * n + more)
            numbers = (float(n), float(n), ordered[n // 2], ordered[n - k - 1])
            end = cells_end(given, (rates[g], depths[g]), sd, prices, numbers, precision, stakes)
            found[g, 1 + side] = end if side == 0 else -end
