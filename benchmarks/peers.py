"""What else one would call on the same rows, for context: no targets.

polars and DuckDB use every core they find, as they do by default; the others use one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

import outvote as ov

from .measure import Job, best_times, later, normal, power

#: Resamples of the bootstrap: far too few to use, enough to see the price of one.
RESAMPLES = 20
#: Blocks of the medians of means.
BLOCKS = 1001
PAIR_ROWS = 100_000


@dataclass(frozen=True)
class Peer:
    """One call: what it computes, on how many rows, with what."""

    job: str
    n_rows: int
    call: str
    run: Job


def huber(x: Any) -> float:
    """Huber's location by statsmodels, the MAD as scale."""
    from statsmodels.robust import norms, scale

    return float(norms.estimate_location(x, scale.mad(x), norm=norms.HuberT()))


def bootstrap(x: Any) -> Any:
    """A percentile interval for the mean by scipy, one resample at a time."""
    return stats.bootstrap((x,), np.mean, n_resamples=RESAMPLES, batch=1, method="percentile", rng=0)


def polars_frame(x: Any) -> Any:
    """The rows as a polars frame, numbered."""
    import polars as pl

    return pl.DataFrame({"x": x}).with_row_index("i")


def polars_query(frame: Any, which: str) -> float:
    """The mean, the median, or the median of means over hashed row numbers, in polars."""
    import polars as pl

    x = pl.col("x")
    if which == "median of means":
        blocks = frame.lazy().group_by(pl.col("i").hash(0) % BLOCKS).agg(x.mean())
        return float(blocks.select(x.median()).collect().item())
    return float(frame.select(x.mean() if which == "mean" else x.median()).item())


def duckdb_table(x: Any) -> Any:
    """A connection to an in-memory DuckDB table of the rows, numbered."""
    import duckdb
    import pyarrow

    connection = duckdb.connect(":memory:")
    connection.register("source", pyarrow.table({"i": np.arange(len(x)), "x": x}))
    connection.execute("create table t as select i, x from source")
    connection.unregister("source")
    return connection


#: DuckDB's ways.
SQL = {
    "mean": "select avg(x) from t",
    "median": "select median(x) from t",
    "approximate median": "select approx_quantile(x, 0.5) from t",
    "median of means": f"select median(m) from (select avg(x) as m from t group by hash(i) % {BLOCKS})",
}


def peers(quick: bool) -> list[Peer]:
    """List the calls, those on the same rows together."""
    n, pairs = (10**6 if quick else 10**7), PAIR_ROWS
    soft = {"assume": ov.FiniteVariance(1.0), "vote": "soft"}

    def on(n_rows: int, function: Callable[[Any], Any]) -> Job:
        return lambda: function(normal(n_rows))

    def framed(which: str) -> Job:
        return later(lambda: (lambda frame: lambda: polars_query(frame, which))(polars_frame(normal(n))))

    def tabled(which: str) -> Job:
        return later(lambda: (lambda table: lambda: table.execute(SQL[which]).fetchone())(duckdb_table(normal(n))))

    location: list[tuple[str, str, Job]] = [
        ("mean", "np.mean", on(n, np.mean)),
        ("mean", "polars mean", framed("mean")),
        ("mean", "DuckDB avg", tabled("mean")),
        ("robust mean", f"ov.mean, {BLOCKS} blocks", on(n, lambda x: ov.mean(x, 100, n_blocks=BLOCKS))),
        ("robust mean", "ov.mean, 1 % corrupt", on(n, ov.mean)),
        ("robust mean", "ov.mean, 1 % corrupt, soft vote", on(n, lambda x: ov.mean(x, 0.01, **soft))),
        ("robust mean", f"polars, {BLOCKS} hashed blocks", framed("median of means")),
        ("robust mean", f"DuckDB, {BLOCKS} hashed blocks", tabled("median of means")),
        ("robust mean", "scipy trim_mean, 1 %", on(n, lambda x: stats.trim_mean(x, 0.01))),
        ("robust mean", "statsmodels Huber location", on(n, huber)),
        ("median", "np.median", on(n, np.median)),
        ("median", "polars median", framed("median")),
        ("median", "DuckDB median", tabled("median")),
        ("median", "DuckDB approx_quantile", tabled("approximate median")),
        ("interval for a mean", f"scipy bootstrap, {RESAMPLES} resamples", on(n, bootstrap)),
        ("variance", "np.var", on(n, np.var)),
        ("sort", "np.sort", on(n, np.sort)),
    ]
    tests: list[tuple[str, str, Job]] = [
        ("two samples", "scipy mannwhitneyu", lambda: stats.mannwhitneyu(normal(pairs), normal(pairs, seed=1))),
        ("rank correlation", "scipy kendalltau", lambda: stats.kendalltau(*normal(pairs, 2).T)),
        ("signed ranks", "scipy wilcoxon", on(pairs, stats.wilcoxon)),
    ]
    return [
        *(Peer(job, n, call, run) for job, call, run in location),
        *(Peer(job, pairs, call, run) for job, call, run in tests),
    ]


def compare(
    some: list[Peer],
    budget: float,
    step: Callable[[str], None] = lambda name: None,
    found: list[dict[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Measure the calls on the same rows in turns, as multiples of the first of them. `found` is filled as it goes."""
    table = [] if found is None else found
    for n_rows in dict.fromkeys(peer.n_rows for peer in some):
        together = [peer for peer in some if peer.n_rows == n_rows]
        step(f"peers on {power(n_rows)} rows")
        times, failed = best_times([peer.run for peer in together], budget, lambda: step(""))
        for number, (peer, best) in enumerate(zip(together, times, strict=True)):
            about = {"job": peer.job, "n_rows": n_rows, "call": peer.call}
            if number in failed:
                table.append({**about, "error": failed[number]})
                continue
            multiple = None if 0 in failed else best / times[0]
            table.append({**about, "best_s": best, "ns_a_row": 1e9 * best / n_rows, "times_first": multiple})
    return table
