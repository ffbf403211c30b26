"""Measure what a mean, a grouped mean and a U-statistic cost on each engine as rows grow; ``make scale``.

Writes the tables of docs/scale.md. The first sets calls beside what the same engine takes for its own mean or median.
In the others a cell is nanoseconds a row, the better of two calls (one for the U-statistic of 1e8 rows); a dash was not
tried. Spark is measured where it is installed.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import math
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import outvote as ov
from outvote.data.writing import write_text

from .measure import power

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "scale.md"
BEGIN, END = "<!-- scale:begin -->", "<!-- scale:end -->"
#: Rows written, and read by a worker, at once.
_ROW_GROUP = 10**6
#: The most rows that an engine is given, for a mean, a grouped mean and a U-statistic.
ENGINES: dict[str, tuple[float, float, float]] = {
    "in memory": (1e8, 0, 1e7),
    "pandas": (1e8, 1e7, 1e7),
    "polars": (1e8, 1e7, 1e7),
    "polars, lazy": (1e8, 1e8, 1e7),
    "pyarrow": (1e8, 1e7, 1e7),
    "DuckDB, Parquet": (1e8, 1e8, 1e7),
    "DuckDB, Parquet, 1 GB": (1e8, 1e8, 1e8),
    "Dask, Parquet, 2 workers": (1e8, 1e8, 1e8),
    "Spark, Parquet, local[2]": (1e8, 1e8, 0),
}


def write_rows(folder: Path, n_rows: int, n_groups: int = 10) -> str:
    """Write rows of (value, group) as Parquet, a file for every ten million."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    for start in range(0, n_rows, 10 * _ROW_GROUP):
        rest = min(10 * _ROW_GROUP, n_rows - start)
        with pq.ParquetWriter(folder / f"{start // _ROW_GROUP:06}.parquet", _schema(pa)) as writer:
            for low in range(0, rest, _ROW_GROUP):
                n = min(_ROW_GROUP, rest - low)
                columns = {"value": rng.lognormal(size=n), "group": rng.integers(n_groups, size=n)}
                writer.write_table(pa.table(columns, schema=_schema(pa)))
    return str(folder / "*.parquet")


def _schema(pa: Any) -> Any:
    return pa.schema([("value", pa.float64()), ("group", pa.int64())])


def source(engine: str, files: str, client: Any) -> Any:
    """Return what is scanned, made before the clock starts where it is a frame in memory."""
    import pandas as pd
    import polars as pl
    import pyarrow.parquet as pq

    folder = Path(files).parent
    makers: dict[str, Callable[[], Any]] = {
        "in memory": lambda: pq.read_table(folder, columns=["value"])["value"].to_numpy(),
        "pandas": lambda: ov.scan(pd.read_parquet(folder)),
        "polars": lambda: ov.scan(pl.read_parquet(files)),
        "polars, lazy": lambda: ov.scan(pl.scan_parquet(files)),
        "pyarrow": lambda: ov.scan(pq.read_table(folder)),
        "DuckDB, Parquet": lambda: ov.scan(files),
        "DuckDB, Parquet, 1 GB": lambda: ov.scan(files, memory_limit="1GB"),
        "Dask, Parquet, 2 workers": lambda: ov.scan(files, client=client),
        "Spark, Parquet, local[2]": lambda: ov.scan(spark().read.parquet(str(folder))),
    }
    return makers[engine]()


def question(engine: str, data: Any, what: int) -> Callable[[], Any]:
    """Return the call that is timed."""
    blocks: dict[str, Any] = {"contamination": 100, "n_blocks": 1001, "rng": 0}
    if engine.startswith("in memory"):
        if what == 0:
            return lambda: ov.mean(data)
        return lambda: ov.u_statistic(data, kernel="gini", partition="hash", **blocks)
    return (
        lambda: data.mean("value"),
        lambda: data.mean("value", by="group"),
        lambda: data.u_statistic("value", "gini", **blocks),
    )[what]


@functools.cache
def spark() -> Any:
    """Return a Spark session with everything default, or None if Spark is not installed."""
    if importlib.util.find_spec("pyspark") is None or shutil.which("java") is None:
        return None
    from pyspark.sql import SparkSession

    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in quiet.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@contextmanager
def cluster(limit: str | None = "300MB") -> Iterator[Any]:
    """Two worker processes of one thread each, in 300 MB each by default."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=limit, dashboard_address=":0") as workers,
        Client(workers) as client,
    ):
        yield client


def measure(sizes: list[int]) -> dict[tuple[str, int, int], float]:
    """Time every engine on every question and size."""
    found: dict[tuple[str, int, int], float] = {}
    with cluster() as client:
        for n_rows in sizes:
            with tempfile.TemporaryDirectory(prefix="outvote-scale-") as folder:
                files = write_rows(Path(folder), n_rows)
                for engine, most in ENGINES.items():
                    if engine.startswith("Spark") and spark() is None:
                        continue
                    wanted = [what for what in range(3) if n_rows <= most[what]]
                    data = source(engine, files, client) if wanted else None
                    for what in wanted:
                        ask = question(engine, data, what)
                        times = 1 if what == 2 and n_rows > 10**7 else 2
                        try:
                            found[engine, what, n_rows] = min(_timed(ask) for _ in range(times)) / n_rows * 1e9
                        except MemoryError:
                            found[engine, what, n_rows] = math.inf
                        print(f"{n_rows:9} {engine:26} {what} {found[engine, what, n_rows]:8.1f} ns a row", flush=True)
                    del data
    return found


def _timed(ask: Callable[[], Any]) -> float:
    start = time.perf_counter()
    ask()
    return time.perf_counter() - start


def reach(n_rows: int) -> Iterator[tuple[str, str, float, float, float]]:
    """Yield a call, what it is set beside, the seconds of both, and the most that their ratio should be."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="outvote-reach-") as folder:
        files = write_rows(Path(folder), n_rows)
        named = power(n_rows)
        median = _best(lambda: duckdb.sql(f"SELECT median(value) FROM '{files}'").fetchall())
        for limit, most in (("1GB", 0.7), ("200MB", math.nan)):
            ours = _best(lambda limit=limit: ov.scan(files, memory_limit=limit).mean("value"))
            yield f"DuckDB in {limit}, {named} rows of Parquet", "DuckDB's median without a limit", ours, median, most
        with cluster() as client:
            yield _beside_dask(files, named, client)
            yield _worker_killed(files, named, client)
        if spark() is not None:
            from pyspark.sql import functions

            rows = spark().read.parquet(folder)
            theirs = _best(lambda: rows.agg(functions.avg("value")).collect())
            ours = _best(lambda: ov.scan(rows).mean("value"))
            yield f"Spark, {named} rows of Parquet, default memory", "Spark's avg", ours, theirs, 4.0
    with tempfile.TemporaryDirectory(prefix="outvote-reach-") as folder:
        files = write_rows(Path(folder), n_rows // 10, n_groups=n_rows // 10_000)
        sql = f'SELECT "group", avg(value) FROM \'{files}\' GROUP BY "group"'
        theirs = _best(lambda: duckdb.sql(sql).to_arrow_table())
        ours = _best(lambda: ov.scan(files).mean("value", by="group"))
        named = f"{power(n_rows // 10_000)} groups of {power(n_rows // 10)} rows of Parquet"
        yield f"DuckDB, {named}", "DuckDB's avg by group", ours, theirs, 10.0


def _beside_dask(files: str, named: str, client: Any) -> tuple[str, str, float, float, float]:
    import dask.dataframe as dd

    with cluster(None) as roomy:  # its own mean does not run in 300 MB
        frame = dd.read_parquet(files, columns=["value"], split_row_groups=True)
        frame.partitions[0].mean().compute(scheduler=roomy)
        theirs = _timed(lambda: frame["value"].mean().compute(scheduler=roomy))  # once: it keeps the answer
    ours = _best(lambda: ov.scan(files, client=client).mean("value"))
    return f"Dask, {named} rows of Parquet, two workers of 300 MB", "Dask's mean without a limit", ours, theirs, 4.0


def _worker_killed(files: str, named: str, client: Any) -> tuple[str, str, float, float, float]:
    """Kill a worker while the rows are counted; a ratio of infinity says that the answer changed."""
    before = ov.scan(files, client=client).mean("value").interval
    undisturbed = _timed(lambda: ov.scan(files, client=client).mean("value"))
    pid = next(iter(client.run(os.getpid).values()))
    killer = threading.Timer(undisturbed / 2, lambda: os.kill(pid, signal.SIGKILL))
    killer.start()
    found: list[Any] = []
    ours = _timed(lambda: found.append(ov.scan(files, client=client).mean("value").interval))
    killer.join()
    if found[0] != before:
        raise RuntimeError(f"the answer changed from {before} to {found[0]} when a worker was killed")
    return (
        f"Dask, {named} rows, one worker killed meanwhile: the same answer",
        "undisturbed",
        ours,
        undisturbed,
        math.nan,
    )


def _best(ask: Callable[[], Any]) -> float:
    return min(_timed(ask) for _ in range(2))


def table(found: dict[tuple[str, int, int], float], sizes: list[int]) -> str:
    """Write the cells as Markdown."""
    names = ("mean", "mean of ten groups", "gini")
    lines = []
    for what, name in enumerate(names):
        lines += [f"| {name}, ns a row | " + " | ".join(map(power, sizes)) + " |", "|---" * (len(sizes) + 1) + "|"]
        for engine in ENGINES:
            cells = [found.get((engine, what, n)) for n in sizes]
            if any(cell is not None for cell in cells):
                shown = " | ".join(map(_cell, cells))
                lines.append(f"| {engine} | {shown} |")
        lines.append("")
    return "\n".join(lines)


def _cell(nanoseconds: float | None) -> str:
    if nanoseconds is None:
        return "–"
    return "out of memory" if math.isinf(nanoseconds) else f"{nanoseconds:.3g}"


def reach_table(lines: Iterable[tuple[str, str, float, float, float]]) -> str:
    """Write calls beside the engine's own as Markdown."""
    rows = ["| call | beside | seconds | seconds beside | ratio | target | |", "|---|---|---|---|---|---|---|"]
    for call, beside, ours, theirs, most in lines:
        target = "– |" if math.isnan(most) else f"≤ {most:g} | {'met' if ours <= most * theirs else 'not met'}"
        rows.append(f"| {call} | {beside} | {ours:.2f} | {theirs:.2f} | {ours / theirs:.2f} | {target} |")
        print(rows[-1], flush=True)
    return "\n".join([*rows, ""])


def main(arguments: list[str] | None = None) -> None:
    """Measure and write the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=float, default=1e8, help="the most rows")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that has the table")
    chosen = parser.parse_args(arguments)
    sizes = [10**k for k in range(5, 9) if 10**k <= chosen.most]
    before, rest = chosen.page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    beside = reach_table(reach(sizes[-1]))
    write_text(chosen.page, f"{before}{BEGIN}\n{beside}\n{table(measure(sizes), sizes)}{END}{after}")
    print(f"The table is in {chosen.page}")


if __name__ == "__main__":
    main()
