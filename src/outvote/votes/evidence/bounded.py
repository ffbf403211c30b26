"""Evidence from rows with known bounds: it adapts to the variance that the rows have."""

from __future__ import annotations

import math

from outvote.votes.evidence.rows import SortedRows
from outvote.votes.roots import falling_root

#: The smallest stake, in units of √(2·log(2/δ)/n) over the width of the bounds; each next one is twice as large, up to
#: one that bets nearly all.
_SMALLEST, _LARGEST = 2.0, 16.0
#: Weights of the first two, for rows that spread as much as they can; the others share the rest.
_WEIGHTS = (0.45, 0.2)


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


def bounded_end(rows: SortedRows, low: float, width: float, price: float) -> float:
    """Return a number below which every mean is ruled out, for clean rows in [low, low + width].

    The factors are ``(1 + a(x - low)) / (1 + a(μ - low))`` for fixed stakes a: they rise with x, so the largest rows
    are dropped, and fall with μ, so that a sum of logarithms for each stake and one root give the end.
    """
    n_kept = rows.n_values - rows.droppable
    if n_kept < 1:
        return low
    n_paid = rows.n_rows if rows.adaptive else n_kept
    parts = stakes_for(rows.n_rows, price)
    totals = rows.concave_sums(low, width, [stake for _, stake in parts])
    stakes = [(weight, a, total) for (weight, a), total in zip(parts, totals, strict=True)]

    def excess(mean: float) -> float:
        logs = [math.log(weight) + total - n_paid * math.log1p(a * mean) for weight, a, total in stakes]
        largest = max(logs)
        return largest + math.log(sum(math.exp(one - largest) for one in logs)) - price

    at_zero, at_one = excess(0.0), excess(1.0)
    if at_zero < 0:
        return low
    if at_one >= 0:
        return math.inf
    return low + width * falling_root(excess, 0.0, 1.0, at_zero, at_one, 1e-12)[0]
