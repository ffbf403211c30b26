"""The price of a row against the number of rows, each method until one call would take too long."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

import outvote as ov

from . import peers
from .measure import best_times, normal, power

#: A method stops when one call would take longer than this, in seconds.
_TOO_LONG = 20.0


@dataclass(frozen=True)
class Method:
    """A curve: its name, whose it is, and how a call is made ready for some rows."""

    name: str
    ours: bool
    ready: Callable[[Any], Callable[[], Any]]


def n_blocks(x: Any) -> int:
    """1001 blocks, or as many as leave ten rows in each."""
    return min(1001, len(x) // 10 - (len(x) // 10 + 1) % 2)


def plain(function: Callable[[Any], Any]) -> Callable[[Any], Callable[[], Any]]:
    """A function of the rows, as it is."""
    return lambda x: lambda: function(x)


def polars_median(x: Any) -> Callable[[], Any]:
    """The median of a polars frame."""
    frame = peers.polars_frame(x)
    return lambda: peers.polars_query(frame, "median")


def duckdb_median(x: Any) -> Callable[[], Any]:
    """The median of a DuckDB table."""
    table = peers.duckdb_table(x)
    return lambda: table.execute(peers.SQL["median"]).fetchone()


METHODS = (
    Method("np.mean", False, plain(np.mean)),
    Method("ov.mean, 1001 blocks", True, plain(lambda x: ov.mean(x, 10, n_blocks=n_blocks(x)))),
    Method("ov.mean, uniform", True, plain(lambda x: ov.mean(x, 10, n_blocks=n_blocks(x), partition="uniform"))),
    Method("ov.mean, 1 % corrupt", True, plain(ov.mean)),
    Method("ov.mean, soft vote", True, plain(lambda x: ov.mean(x, 0.01, assume=ov.FiniteVariance(1.0), vote="soft"))),
    Method("np.median", False, plain(np.median)),
    Method("np.sort", False, plain(np.sort)),
    Method("trimmed mean (scipy)", False, plain(lambda x: stats.trim_mean(x, 0.01))),
    Method(f"bootstrap (scipy, {peers.RESAMPLES}×)", False, plain(peers.bootstrap)),
    Method("Huber (statsmodels)", False, plain(peers.huber)),
    Method("median (polars)", False, polars_median),
    Method("median (DuckDB)", False, duckdb_median),
)


def sizes(quick: bool) -> list[int]:
    """Two sizes a decade, from a thousand rows on."""
    return [round(10 ** (half / 2)) for half in range(6, 13 if quick else 17)]


def grow(
    methods: list[Method],
    quick: bool,
    budget: float,
    step: Callable[[str], None] = lambda name: None,
    found: list[dict[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Measure the curves; all methods in turns at each size. `found` is filled as it goes."""
    curves = [] if found is None else found
    curves += [{"method": method.name, "ours": method.ours, "points": []} for method in methods]
    alive = {method.name: 0.0 for method in methods}  # seconds that the next size will take, roughly
    grid = sizes(quick)
    for n, following in zip(grid, [*grid[1:], grid[-1]], strict=True):
        going = [method for method in methods if alive[method.name] <= _TOO_LONG]
        x = normal(grid[-1])[:n]
        step(f"growth, {power(n)} rows")
        times, _ = best_times([method.ready(x) for method in going], budget, lambda: step(""))
        for method, best in zip(going, times, strict=True):
            curve = next(curve for curve in curves if curve["method"] == method.name)
            if math.isfinite(best):
                curve["points"].append({"n_rows": n, "ns_a_row": 1e9 * best / n})
            alive[method.name] = best * following / n
    return curves
