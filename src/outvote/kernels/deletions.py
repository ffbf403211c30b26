"""What deleting rows can make of a complete U-statistic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from outvote.data.progress import watched
from outvote.kernels.kernel import Kernel
from outvote.kernels.stacks import Values
from outvote.kernels.tuples import CROSS_PAIRS, PAIRS, ArrayFunction

#: All pairs are evaluated if there are at most so many; else, and for other degrees, rows are put into disjoint tuples.
_MOST_PAIRS = 2 * 10**8
#: Pairs, or tuples, evaluated at once.
_AT_ONCE = 1 << 18
#: Tuples evaluated in all matchings, and how many matchings there are at least and at most.
_TUPLES, _FEWEST, _MOST = 1_000_000, 4, 32


class Extremes(NamedTuple):
    """A U-statistic of all rows, bounds on it over every deletion, and how many independent terms it rests on.

    Attributes
    ----------
    value : float
        The statistic of all rows.
    low, high : float
        No deletion of as many rows as allowed makes it smaller, or larger; NaN if no tuple need be left.
    n_terms : int
        Disjoint tuples of the rows that are left.
    n_whole : int
        Disjoint tuples of all rows.
    share : float
        The share of all tuples that no deletion touches, at least.
    """

    value: float
    low: float
    high: float
    n_terms: int
    n_whole: int
    share: float


def extremes(
    kernel: Kernel, samples: Sequence[NDArray[Any]], counts: Sequence[int], bad: Sequence[Any] | None = None
) -> Extremes:
    """Bound the U-statistic of a kernel with bounds over all deletions of `counts` rows of each sample.

    Kernels that rise or fall with each row: exactly, by deleting the rows at one end. Kernels of pairs: by deleting the
    rows whose pairs have the largest sum, where pairs of two deleted rows count as little as they can. Other kernels:
    by the tuples of random matchings, of which each deleted row touches one.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    samples : sequence of ndarray
        All rows.
    counts : sequence of int
        How many rows of each sample may be corrupt.
    bad : sequence of ndarray or None, optional
        Which rows are corrupt for certain; they are among those deleted.
    """
    sizes = [len(sample) for sample in samples]
    left = [n - m for n, m in zip(sizes, counts, strict=True)]
    n_terms, n_whole = (_disjoint(rows, kernel.degrees) for rows in (left, sizes))
    share = math.prod(_share(n, k, d) for n, k, d in zip(sizes, left, kernel.degrees, strict=True))
    marks = bad or [None] * len(samples)
    good = [sample if mark is None else sample[~mark] for sample, mark in zip(samples, marks, strict=True)]
    spare = [len(rows) - n for rows, n in zip(good, left, strict=True)]
    if any(len(rows) < d for rows, d in zip(good, kernel.degrees, strict=True)):
        return Extremes(math.nan, math.nan, math.nan, 0, n_whole, 0.0)
    if kernel.deleted_form is not None:
        value, low, high = kernel.deleted_form(*good, *spare)
    elif kernel.rises is not None:
        value, low, high = _by_monotony(kernel, good, spare)
    elif kernel.degrees in (PAIRS, CROSS_PAIRS) and (
        kernel.row_sums_form is not None or sizes[0] * sizes[-1] <= _MOST_PAIRS
    ):
        value, low, high = _by_row_sums(kernel, good, spare)
    else:
        n_terms = max(n_whole - sum(counts), 0)
        share = n_terms / n_whole
        value, low, high = _by_matchings(kernel, samples, marks, n_terms)
    return Extremes(value, low, high, n_terms, n_whole, share)


def _disjoint(sizes: Sequence[int], degrees: Sequence[int]) -> int:
    return max(min(n // d for n, d in zip(sizes, degrees, strict=True)), 0)


def _share(n_rows: int, n_left: int, degree: int) -> float:
    """Return the share of all tuples of `degree` rows that are among the rows left."""
    return math.prod(max(n_left - j, 0) / (n_rows - j) for j in range(degree)) if n_rows >= degree else 0.0


def _by_monotony(kernel: Kernel, samples: Sequence[NDArray[Any]], counts: Sequence[int]) -> tuple[float, float, float]:
    assert kernel.rises is not None
    ordered = [np.sort(sample) for sample in samples]

    def without(sign: int) -> float:
        kept = []
        for rows, count, direction in zip(ordered, counts, kernel.rises or (), strict=True):
            kept.append(rows[: len(rows) - count] if sign * direction > 0 else rows[count:])
        if any(len(rows) < degree for rows, degree in zip(kept, kernel.degrees, strict=True)):
            return math.nan
        return float(kernel.aligned(*(rows[None] for rows in kept))[0])

    return float(kernel.aligned(*(rows[None] for rows in ordered))[0]), without(1), without(-1)


def _by_row_sums(kernel: Kernel, samples: Sequence[NDArray[Any]], counts: Sequence[int]) -> tuple[float, float, float]:
    """Bound the mean of the pairs that are left, from the sums of the pairs of each row."""
    assert kernel.bounds is not None
    least, most = kernel.bounds
    if kernel.row_sums_form is not None:
        sums = kernel.row_sums_form(*samples)
    else:
        sums = _pair_sums(_clipped(kernel, samples), samples)
    one_sample = len(samples) == 1
    total = float(sums[0].sum()) / (2 if one_sample else 1)
    sizes = [len(sample) for sample in samples]
    left = [n - m for n, m in zip(sizes, counts, strict=True)]
    n_pairs, n_left = (_n_pairs(rows) for rows in (sizes, left))
    twice = math.comb(counts[0], 2) if one_sample else counts[0] * counts[1]  # pairs that are deleted twice
    if n_left < 1:
        return total / n_pairs, math.nan, math.nan
    gone = sum(
        float(np.partition(one, len(one) - m)[len(one) - m :].sum()) for one, m in zip(sums, counts, strict=True) if m
    )
    spared = sum(float(np.partition(one, m)[:m].sum()) for one, m in zip(sums, counts, strict=True) if m)
    low = (total - gone + least * twice) / n_left
    high = (total - spared + most * twice) / n_left
    return total / n_pairs, max(low, least), min(high, most)


def _n_pairs(sizes: Sequence[int]) -> int:
    return math.comb(sizes[0], 2) if len(sizes) == 1 else sizes[0] * sizes[1]


def _clipped(kernel: Kernel, samples: Sequence[NDArray[Any]]) -> Callable[..., Values]:
    """Return the kernel's function of arrays, cut off at its bounds, which clean rows do not leave."""
    assert kernel.bounds is not None
    ready = kernel.fit(samples)
    function, (least, most) = ArrayFunction(ready.function, ready.name), kernel.bounds

    def clipped(*slots: NDArray[Any]) -> Values:
        values = function(slots).astype(np.float64)
        function.refuse_nan(values)
        return np.clip(values, least, most)

    return clipped


def _pair_sums(function: Callable[..., Values], samples: Sequence[NDArray[Any]]) -> list[Values]:
    """Sum the kernel over the pairs of each row, some rows of the first sample at a time."""
    x, y = samples[0], samples[-1]
    one_sample = len(samples) == 1
    sums = [np.zeros(len(sample)) for sample in samples]
    step = max(1, _AT_ONCE // len(y))
    with watched(range(0, len(x), step), "pairs of rows") as starts:
        for low in starts:
            high = min(low + step, len(x))
            others = y[low:] if one_sample else y
            shape = (high - low, len(others))
            table = function(
                np.repeat(x[low:high], shape[1], axis=0), np.tile(others, (shape[0], *(1,) * (y.ndim - 1)))
            )
            table = table.reshape(shape)
            if one_sample:  # each pair once: a row with those after it
                table[np.tril_indices(shape[0], 0, shape[1])] = 0.0
                sums[0][low:high] += table.sum(axis=1)
                sums[0][low:] += table.sum(axis=0)
            else:
                sums[0][low:high] = table.sum(axis=1)
                sums[1] += table.sum(axis=0)
    return sums


def _by_matchings(
    kernel: Kernel, samples: Sequence[NDArray[Any]], bad: Sequence[Any], n_terms: int
) -> tuple[float, float, float]:
    """Average over matchings the mean of as many values as no corrupt row need touch: the smallest, or the largest."""
    means, lows, highs = [], [], []
    for values in matched_values(_clipped(kernel, samples), kernel.degrees, samples, bad):
        means.append(values.mean() if len(values) else math.nan)
        values.sort()
        lows.append(values[:n_terms].mean() if n_terms else math.nan)
        highs.append(values[len(values) - n_terms :].mean() if n_terms else math.nan)
    return float(np.mean(means)), float(np.mean(lows)), float(np.mean(highs))


def matched_values(
    function: Callable[..., Values],
    degrees: Sequence[int],
    samples: Sequence[NDArray[Any]],
    bad: Sequence[Any],
    most: int = _MOST,
) -> Iterator[Values]:
    """Yield the values of a kernel on disjoint tuples of rows, for several matchings.

    They depend on the numbers of rows alone: tuples with a row that is corrupt for certain are left out afterwards.
    """
    n_tuples = _disjoint([len(rows) for rows in samples], degrees)
    rng = np.random.default_rng([len(rows) for rows in samples])
    for _ in range(min(max(_TUPLES // max(n_tuples, 1), _FEWEST), most)):
        slots, good = [], np.ones(n_tuples, dtype=bool)
        for rows, mark, degree in zip(samples, bad, degrees, strict=True):
            places = rng.permutation(len(rows))[: n_tuples * degree].reshape(degree, n_tuples)
            good &= True if mark is None else ~mark[places].any(axis=0)
            slots += [rows[place] for place in places]
        slots = [slot[good] for slot in slots] if not good.all() else slots
        parts = [function(*(slot[low : low + _AT_ONCE] for slot in slots)) for low in range(0, len(slots[0]), _AT_ONCE)]
        yield np.concatenate(parts).astype(np.float64) if parts else np.empty(0)
