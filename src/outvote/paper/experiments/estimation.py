"""Helpers for the estimation experiments: √n corrupt rows, the harmonic number of blocks, errors against n."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import paper
from outvote.paper.experiments import checking
from outvote.paper.experiments.base import Piece, Size, Table, Tables, column, mean_and_error
from outvote.plotting.base import LINES, legend_below, new_axes

Array = NDArray[np.float64]

#: The most numbers that a piece holds at once.
_NUMBERS = 2_000_000


def n_outliers(n: int) -> int:
    """Return the paper's number of outliers: √n of n rows."""
    return round(n**0.5)


def harmonic(n: int, count: int | None = None) -> int:
    """Return the harmonic number of blocks for `count` outliers, √n by default."""
    return paper.block_count(n, n_outliers(n) if count is None else count, mapping="harmonic")[0]


def sizes(size: Size, largest: int = 10_000) -> list[int]:
    """Return the numbers of rows: four per decade from 100 on; if quick, two per decade and at most 1000."""
    top = min(largest, 1000) if size.quick else largest
    each = 2 if size.quick else 4
    steps = round(each * np.log10(top / 100))
    return [round(100 * 10 ** (step / each)) for step in range(steps + 1)]


def pieces(size: Size, chosen: Iterable[int] | None = None, *, call: int = 0) -> list[Piece]:
    """Return pieces of at most two million numbers each; the cost of a run is n + `call`."""
    found = []
    for n in sizes(size) if chosen is None else chosen:
        most = max(1, _NUMBERS // n)
        for start in range(0, size.runs, most):
            runs = min(most, size.runs - start)
            found.append(Piece({"n": n, "runs": runs}, cost=runs * (n + call)))
    return found


def corrupt(rng: np.random.Generator, clean: Array, value: float, count: int) -> Array:
    """Return the columns with `count` rows of each replaced by `value`, drawn independently for each column.

    The columns share one partition, and yet their estimates are independent: the rows of a column are exchangeable, so
    that its distribution is the same given any partition.
    """
    corrupted = clean.copy()
    for each in range(clean.shape[1]):
        corrupted[rng.choice(len(clean), size=count, replace=False, shuffle=False), each] = value
    return corrupted


def errors(n: int, truth: float, estimates: Mapping[tuple[str, str], Any]) -> list[dict[str, Any]]:
    """Return the absolute errors of the runs, one record for each (estimator, data)."""
    return [
        {
            "n": n,
            "outliers": 0 if data == "clean" else n_outliers(n),
            "estimator": name,
            "data": data,
            "errors": np.abs(np.asarray(values) - truth).tolist(),
        }
        for (name, data), values in estimates.items()
    ]


def trimmed_mean(rows: Array, count: int) -> Array:
    """Return the mean of every column without its `count` smallest and largest rows."""
    return np.asarray(np.sort(rows, axis=0)[count : len(rows) - count].mean(axis=0))


def average(records: Iterable[dict[str, Any]]) -> Table:
    """Return the mean absolute errors over all records that agree in every other cell."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for record in records:
        key = tuple((name, cell) for name, cell in record.items() if name != "errors")
        groups.setdefault(key, []).extend(record["errors"])
    table = []
    for key, values in groups.items():
        mean, error = mean_and_error(values)
        spread = error if len(values) > 1 else None
        table.append({**dict(key), "mean absolute error": mean, "standard error": spread, "runs": len(values)})
    return table


def tabulate(records: list[dict[str, Any]]) -> Tables:
    """Return the averages over the runs, for every table that the records name."""
    return {name: average(rows) for name, rows in checking.tabulate(records).items()}


def largest_n(table: Table) -> int:
    """Return the largest number of rows in a table."""
    return int(column(table, "n").max())


def error_at(table: Table, estimator: str, data: str, n: int | None = None) -> float:
    """Return the mean absolute error of an estimator, at the largest n by default."""
    n = largest_n(table) if n is None else n
    return float(column(table, "mean absolute error", estimator=estimator, data=data, n=n)[0])


def slope(table: Table, **where: Any) -> tuple[float, float]:
    """Return the least-squares slope of log error against log n, and its standard error."""
    n, mean, error = (
        column(table, name, **where).astype(float) for name in ("n", "mean absolute error", "standard error")
    )
    weights = np.log(n) - np.log(n).mean()
    weights /= (weights**2).sum()
    return float(weights @ np.log(mean)), float(np.sqrt(((weights * error / mean) ** 2).sum()))


def draw_line(ax: Any, table: Table, style: Mapping[str, Any], label: str, **where: Any) -> None:
    """Draw a line of errors against n, with a band of two standard errors."""
    n, mean, error = (
        column(table, name, **where).astype(float) for name in ("n", "mean absolute error", "standard error")
    )
    ax.plot(n, mean, label=label, **style)
    ax.fill_between(n, mean - 2 * error, mean + 2 * error, color=style["color"], alpha=0.2, lw=0)


def draw_errors(table: Table, lines: Sequence[tuple[str, str]], title: str, ax: Any = None) -> Any:
    """Draw log error against log n, one line for each (estimator, data), and return the axes."""
    ax = new_axes(ax, figsize=(7.0, 5.0))
    for (name, data), style in zip(lines, LINES, strict=False):
        draw_line(ax, table, style, f"{name}, {data} rows", estimator=name, data=data)
    return finish(ax, title)


def finish(ax: Any, title: str, **settings: Any) -> Any:
    """Label the axes of errors against n, add a grid and a legend, and return the axes."""
    named = {"xscale": "log", "yscale": "log", "xlabel": "rows, n", "ylabel": "mean absolute error", "title": title}
    ax.set(**{**named, **settings})
    ax.grid(alpha=0.3, which="both", lw=0.5)
    legend_below(ax)
    return ax
