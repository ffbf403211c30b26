"""Open a table, files larger than memory or a cluster's data with `scan`; every engine gives the same answers."""

from __future__ import annotations

import os
from typing import Any, Literal

from outvote.data.loading import one_at_a_time
from outvote.tables.scan import Scan

Hash = Literal["portable", "native"]


def scan(
    source: Any,
    row_id: str | None = None,
    memory_limit: str | None = None,
    *,
    table: str | None = None,
    client: Any = None,
    hash: Hash = "portable",
) -> Scan:
    """Open a table, files or a cluster's data for robust estimates.

    Parameters
    ----------
    source : dataframe, relation, path, glob, list of paths, or DuckDB connection
        Any frame that narwhals supports (pandas, polars, pyarrow, …), eager or lazy (polars, Spark, Ibis, …); a DuckDB
        relation; a Dask dataframe; Parquet, CSV, Excel, JSON or Arrow files by a path, a glob or a list; a DuckDB
        connection together with `table`. Only columns in the files are read, not columns encoded in the names of
        folders.
    row_id : str, optional
        A column of distinct integers that does not depend on the estimated values. It determines which rows choose the
        bins of many rows, and the block of a row in votes of blocks, so that the answer does not depend on how the rows
        are stored. Without it rows are numbered in their order: in a frame from the top, in files one file after the
        other (files of a glob by name, a list in its order).
    memory_limit : str, optional
        For files and connections: the most memory that DuckDB may use, such as "1GB"; beyond it, DuckDB writes to disk.
    table : str, optional
        Name of a table or view of a DuckDB connection.
    client : dask.distributed.Client, optional
        Read Parquet files on the workers of a cluster, a row group at a time.
    hash : {"portable", "native"}
        "native" uses DuckDB's own hash: it is faster, but other engines cannot compute it. The result notes it.

    Returns
    -------
    Scan
        An object with `mean`, `proportion`, `quantile`, `difference`, `tolerance`, `variance` and `u_statistic`. Rows
        are read when one of them is called.

    Examples
    --------
    >>> import polars as pl, outvote as ov
    >>> frame = pl.DataFrame({"city": ["Bonn", "Köln"] * 500, "rent": [float(i % 20) for i in range(1000)]})
    >>> print(ov.scan(frame).mean("rent", contamination=3, assume=ov.Bounded(0, 20), rng=0))
    mean 9.50 ± 0.60 (certified 95 %, allows for 3 corrupt rows)
    """
    for argument, name in (("row_id", row_id), ("table", table)):
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{argument}={name!r} must be a name, given as text")
    if not isinstance(hash, str) or hash not in ("portable", "native"):
        raise ValueError(f"hash={hash!r} is neither 'portable' nor 'native'")
    home = type(source).__module__.partition(".")[0]
    files = isinstance(source, (str, os.PathLike)) or (isinstance(source, (list, tuple)) and len(source) > 0)
    if client is not None or home in ("dask", "dask_expr"):
        with one_at_a_time():
            from outvote.tables.dask import cluster_engine

        return Scan(cluster_engine(source, row_id, client))
    if files or home in ("duckdb", "_duckdb"):
        with one_at_a_time():
            from outvote.tables.duckdb import duck_engine

        return Scan(duck_engine(source, row_id, memory_limit, table, hash))
    for name, value, default in (
        ("memory_limit", memory_limit, None),
        ("table", table, None),
        ("hash", hash, "portable"),
    ):
        if value != default:
            raise ValueError(f"{name}={value!r} is for files and DuckDB connections, not for {type(source).__name__}")
    with one_at_a_time():
        from outvote.tables.frames import frame_engine

    return Scan(frame_engine(source, row_id))
