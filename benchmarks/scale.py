"""Measure what a mean, a grouped mean and a U-statistic cost on each engine as rows grow; ``make scale``.

Writes the table of docs/scale.md. A cell is nanoseconds a row, the better of two calls (one
beyond 1e7 rows); a dash was not tried.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
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
    "in memory (outvote.mean)": (1e8, 0, 1e7),
    "pandas": (1e8, 1e7, 1e7),
    "polars": (1e8, 1e7, 1e7),
    "polars, lazy": (1e8, 1e8, 1e7),
    "pyarrow": (1e8, 1e7, 1e7),
    "DuckDB, Parquet": (1e8, 1e8, 1e7),
    "DuckDB, Parquet, 1 GB": (1e8, 1e8, 1e8),
    "Dask, Parquet, 2 workers": (1e8, 1e8, 1e8),
}


def write_rows(folder: Path, n_rows: int) -> str:
    """Write rows of (value, group) as Parquet, a file for every ten million."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    for start in range(0, n_rows, 10 * _ROW_GROUP):
        rest = min(10 * _ROW_GROUP, n_rows - start)
        with pq.ParquetWriter(folder / f"{start // _ROW_GROUP:06}.parquet", _schema(pa)) as writer:
            for low in range(0, rest, _ROW_GROUP):
                n = min(_ROW_GROUP, rest - low)
                columns = {"value": rng.lognormal(size=n), "group": rng.integers(10, size=n)}
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
        "in memory (outvote.mean)": lambda: pq.read_table(folder, columns=["value"])["value"].to_numpy(),
        "pandas": lambda: ov.scan(pd.read_parquet(folder)),
        "polars": lambda: ov.scan(pl.read_parquet(files)),
        "polars, lazy": lambda: ov.scan(pl.scan_parquet(files)),
        "pyarrow": lambda: ov.scan(pq.read_table(folder)),
        "DuckDB, Parquet": lambda: ov.scan(files),
        "DuckDB, Parquet, 1 GB": lambda: ov.scan(files, memory_limit="1GB"),
        "Dask, Parquet, 2 workers": lambda: ov.scan(files, client=client),
    }
    return makers[engine]()


def question(engine: str, data: Any, what: int) -> Callable[[], Any]:
    """Return the call that is timed."""
    options: dict[str, Any] = {"contamination": 100, "n_blocks": 1001, "rng": 0}
    if engine.startswith("in memory"):
        if what == 0:
            return lambda: ov.mean(data, partition="hash", **options)
        return lambda: ov.u_statistic(data, kernel="gini", partition="hash", **options)
    return (
        lambda: data.mean("value", **options),
        lambda: data.mean("value", by="group", **options),
        lambda: data.u_statistic("value", "gini", **options),
    )[what]


@contextmanager
def cluster() -> Iterator[Any]:
    """Two worker processes of one thread each, in 300 MB each."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="300MB", dashboard_address=":0") as workers,
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
                    wanted = [what for what in range(3) if n_rows <= most[what]]
                    data = source(engine, files, client) if wanted else None
                    for what in wanted:
                        ask = question(engine, data, what)
                        found[engine, what, n_rows] = (
                            min(_timed(ask) for _ in range(1 if n_rows > 10**7 else 2)) / n_rows * 1e9
                        )
                        print(f"{n_rows:9} {engine:26} {what} {found[engine, what, n_rows]:8.1f} ns a row", flush=True)
                    del data
    return found


def _timed(ask: Callable[[], Any]) -> float:
    start = time.perf_counter()
    ask()
    return time.perf_counter() - start


def table(found: dict[tuple[str, int, int], float], sizes: list[int]) -> str:
    """Write the cells as Markdown."""
    names = ("mean", "mean of ten groups", "gini")
    lines = []
    for what, name in enumerate(names):
        lines += [f"| {name}, ns a row | " + " | ".join(map(power, sizes)) + " |", "|---" * (len(sizes) + 1) + "|"]
        for engine in ENGINES:
            cells = [found.get((engine, what, n)) for n in sizes]
            if any(cell is not None for cell in cells):
                shown = " | ".join("–" if cell is None else f"{cell:.3g}" for cell in cells)
                lines.append(f"| {engine} | {shown} |")
        lines.append("")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure and write the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=float, default=1e8, help="the most rows")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that has the table")
    chosen = parser.parse_args(arguments)
    sizes = [10**k for k in range(5, 9) if 10**k <= chosen.most]
    before, rest = chosen.page.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    write_text(chosen.page, f"{before}{BEGIN}\n{table(measure(sizes), sizes)}{END}{after}")
    print(f"The table is in {chosen.page}")


if __name__ == "__main__":
    main()
