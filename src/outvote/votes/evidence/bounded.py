"""Evidence from rows with known bounds: it adapts to the variance that the rows have."""

from __future__ import annotations

import math

import numpy as np

from outvote.votes.evidence.rows import SortedRows
from outvote.votes.roots import falling_root

#: Stakes in units of √(2·log(2/δ)/n) over the width of the bounds, and their weights.
_STAKES = {2.0: 0.5, 4.0: 0.2, 8.0: 0.1, 16.0: 0.1, 32.0: 0.05, 64.0: 0.05}


def bounded_end(rows: SortedRows, low: float, width: float, price: float) -> float:
    """Return a number below which every mean is ruled out, for clean rows in [low, low + width].

    The factors are ``(1 + a(x - low)) / (1 + a(μ - low))`` for fixed stakes a: they rise with x, so the largest rows
    are dropped, and fall with μ, so that a sum of logarithms for each stake and one root give the end.
    """
    kept = rows.values[: len(rows.values) - rows.droppable]
    if not len(kept):
        return low
    y = np.clip((kept - low) / width, 0.0, 1.0)
    n_paid = rows.n_rows if rows.adaptive else len(kept)
    unit = math.sqrt(2 * price / rows.n_rows)
    stakes = [(weight, scale * unit, float(np.log1p(scale * unit * y).sum())) for scale, weight in _STAKES.items()]

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
