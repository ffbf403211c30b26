"""Tables and files."""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import outvote as ov

from .measure import Job, Row, normal, power
from .rows_grids import numpy_alone

#: Rows written at once.
_WRITTEN = 10**6


@lru_cache(maxsize=1)
def parquet(n: int) -> tuple[Any, str]:
    """Write n normal rows to one Parquet file; it goes with the folder."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tempfile.TemporaryDirectory(prefix="outvote-bench-")
    path = str(Path(folder.name) / "rows.parquet")
    rng = np.random.default_rng(0)
    schema = pa.schema([("value", pa.float64())])
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False) as writer:
        for _ in range(n // _WRITTEN):
            writer.write_table(pa.table({"value": rng.normal(size=_WRITTEN)}, schema=schema))
    return folder, path


def scanned(n: int, **options: Any) -> Job:
    """The mean of a file by 1001 blocks."""
    return lambda: ov.scan(parquet(n)[1], **options).mean("value", contamination=100, n_blocks=1001, rng=0)


def asked(n: int, expression: str, limit: str | None = None) -> Job:
    """An expression of DuckDB's own on the same file."""

    def run() -> Any:
        import duckdb

        settings = {} if limit is None else {"memory_limit": limit}
        with duckdb.connect(config=settings) as connection:
            return connection.execute(f"SELECT {expression} FROM read_parquet($1)", [parquet(n)[1]]).fetchone()

    return run


def updated(n: int) -> Job:
    """A summary of one chunk."""
    return lambda: ov.BlockSummary(501, seed=0).update(normal(n))


def rows(quick: bool) -> list[Row]:
    """A file of many rows against what DuckDB has; a chunk of rows in memory, in nanoseconds a row."""
    n, chunk = 10**7 if quick else 10**8, 10**6 if quick else 10**7
    job, ours = f"mean of {power(n)} rows of Parquet, 1001 blocks", scanned(n)
    return [
        Row(job, "DuckDB median", 1.0, ours, asked(n, "median(value)")),
        Row(job, "DuckDB approx_quantile", 1.0, ours, asked(n, "approx_quantile(value, 0.5)")),
        Row(job, "DuckDB avg", None, ours, asked(n, "avg(value)")),
        Row(job, "the same by DuckDB's own hash", 2.0, ours, scanned(n, hash="native")),
        Row(f"{job}, in 200 MB", "the same without a limit", None, scanned(n, memory_limit="200MB"), ours),
        Row(f"BlockSummary.update, a chunk of {power(chunk)}", "", 15.0, updated(chunk), pairs=chunk, each="row"),
        Row(f"BlockSummary.update, a chunk of {power(chunk)}, numpy alone", "", 60.0, numpy_alone(updated(chunk)),
            pairs=chunk, each="row"),
    ]  # fmt: skip
