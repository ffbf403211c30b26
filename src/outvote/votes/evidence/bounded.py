"""Evidence from rows with known bounds: it adapts to the variance that the rows have."""

from __future__ import annotations

import math
from collections.abc import Sequence

from outvote.votes.evidence.ratio import RatioRows
from outvote.votes.evidence.rows import SortedRows, log_sum
from outvote.votes.roots import falling_root

#: The smallest stake, in units of √(2·log(2/δ)/n) over the width of the bounds; each next one is twice as large, up to
#: one that bets nearly all.
_SMALLEST, _LARGEST = 2.0, 16.0
#: Weights of the first two, for rows that spread as much as they can; the others share the rest.
_WEIGHTS = (0.45, 0.2)
#: The largest stake on a ratio, and how many times smaller ones go down beyond √(2·log(2/δ)/n), halved each time.
_MOST_STAKED, _HALVED = 0.95, 2
#: Ratios beyond this many doublings are 0 or infinite.
_DOUBLINGS = 200


def stakes_for(n_rows: int, price: float) -> list[tuple[float, float]]:
    """Return the weights and the stakes for rows in [0, 1].

    The best stake is about √(2·log(2/δ)/n) over the sd of the rows, which is not known: twice that for the largest sd,
    1/2, and more for smaller ones.

    Examples
    --------
    >>> [(round(weight, 3), round(stake, 3)) for weight, stake in stakes_for(1000, math.log(40))]
    [(0.45, 0.172), (0.2, 0.344), (0.07, 0.687), (0.07, 1.374), (0.07, 2.749), (0.07, 5.497), (0.07, 10.994)]
    """
    unit = _SMALLEST * math.sqrt(2 * price / n_rows)
    n_more = max(math.ceil(math.log2(_LARGEST / unit)) - len(_WEIGHTS), 1)
    weights = [*_WEIGHTS, *[(1 - sum(_WEIGHTS)) / n_more] * n_more]
    return [(weight, unit * 2**j) for j, weight in enumerate(weights)]


def bounded_end(
    rows: SortedRows, low: float, width: float, price: float, stakes: Sequence[tuple[float, float]] | None = None
) -> float:
    """Return a number below which every mean is ruled out, for clean rows in [low, low + width].

    The factors are ``(1 + a(x - low)) / (1 + a(μ - low))`` for fixed stakes a: they rise with x, so the largest rows
    are dropped, and fall with μ, so that a sum of logarithms for each stake and one root give the end. Stakes come with
    their weights; by default they are those for so many rows.
    """
    n_kept = rows.n_values - rows.droppable
    if n_kept < 1:
        return low
    n_paid = rows.n_rows if rows.adaptive else n_kept
    parts = stakes_for(rows.n_rows, price) if stakes is None else stakes
    totals = rows.concave_sums(low, width, [stake for _, stake in parts])
    summed = [(weight, a, total) for (weight, a), total in zip(parts, totals, strict=True)]

    def excess(mean: float) -> float:
        return (
            log_sum([math.log(weight) + total - n_paid * math.log1p(a * mean) for weight, a, total in summed]) - price
        )

    at_zero, at_one = excess(0.0), excess(1.0)
    if at_zero < 0:
        return low
    if at_one >= 0:
        return math.inf
    return low + width * falling_root(excess, 0.0, 1.0, at_zero, at_one, 1e-12)[0]


def bounded_ratio_end(rows: RatioRows, denominator: float, numerator: float, price: float, *, upper: bool) -> float:
    """Return a ratio below which every one is ruled out, or above which if `upper`.

    Clean denominators a lie in [0, A] and numerators b in [0, B]. The factors ``1 + c(b/(RA) - a/A)`` have mean 1 if
    the ratio of the means is R, are at least 1 - c and fall with R; so the largest R that they rule out is the end. For
    the upper end they are ``1 + c(Ra - b)/B``, which rise with R.
    """
    side, sign = (rows.mirrored, -1) if upper else (rows, 1)
    if rows.n_values <= rows.droppable:
        return math.inf if upper else 0.0
    smallest = math.sqrt(2 * price / rows.n_rows) / 2**_HALVED
    number = max(math.ceil(math.log2(_MOST_STAKED / smallest)), 0) + 1
    stakes = [_MOST_STAKED * 0.5**j for j in range(number)]
    paid = [rows.n_corrupt * math.log1p(-c) if rows.adaptive else 0.0 for c in stakes]

    def excess(doublings: float) -> float:
        ratio = start * 2.0 ** (sign * doublings)
        sums = side.concave_sums(sign * ratio, numerator if upper else ratio * denominator, stakes)
        return log_sum([one + more for one, more in zip(sums, paid, strict=True)]) - math.log(number) - price

    start = rows.middle if rows.middle > 0 else numerator / denominator
    # A ratio farther out, on the side that is looked at, is easier to rule out: in doublings towards the other side.
    low, high, step = -1.0, 1.0, 1.0
    while (above := excess(low)) < 0:
        low, step = low - step, 2 * step
        if step > _DOUBLINGS:
            return math.inf if upper else 0.0
    while (below := excess(high)) >= 0:
        high, step = high + step, 2 * step
        if step > _DOUBLINGS:
            return 0.0 if upper else math.inf
    return float(start * 2.0 ** (sign * falling_root(excess, low, high, above, below, 1e-9)[0]))
