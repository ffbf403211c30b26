"""The same rows on every engine."""

from __future__ import annotations

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq


def in_parts(table, cuts):
    """Cut a table into some."""
    return [table.slice(low, high - low) for low, high in zip([0, *cuts], [*cuts, table.num_rows], strict=True)]


def written(parts, folder, kind):
    """Write tables to files, and return a pattern for them."""
    for i, part in enumerate(parts):
        path = folder / f"part-{i:03d}.{kind}"
        if kind == "parquet":
            pq.write_table(part, path, row_group_size=max(37, part.num_rows // 7))
        else:
            text = pa.BufferOutputStream()
            csv.write_csv(part, text)
            with pa.output_stream(path, compression="gzip" if kind.endswith("gz") else None) as file:
                file.write(text.getvalue())
    return str(folder / f"*.{kind}")


def connected(table):
    connection = duckdb.connect()
    connection.register("given", table)
    connection.execute("CREATE TABLE stored AS FROM given")
    return connection


#: What a source looks like on each engine, from an Arrow table and a folder.
ENGINES = {
    "pandas": lambda table, folder, cuts: {"source": table.to_pandas()},
    "polars": lambda table, folder, cuts: {"source": pl.from_arrow(table)},
    "polars lazy": lambda table, folder, cuts: {"source": pl.from_arrow(table).lazy()},
    "pyarrow": lambda table, folder, cuts: {"source": pa.concat_tables(in_parts(table, cuts))},
    "relation": lambda table, folder, cuts: {"source": duckdb.from_arrow(table)},
    "table": lambda table, folder, cuts: {"source": connected(table), "table": "stored"},
    "parquet": lambda table, folder, cuts: {"source": written(in_parts(table, cuts), folder, "parquet")},
    "polars scan": lambda table, folder, cuts: {
        "source": pl.scan_parquet(written(in_parts(table, cuts), folder, "parquet"))
    },
    "csv": lambda table, folder, cuts: {"source": written(in_parts(table, cuts), folder, "csv")},
}


#: Those that are asked everything; the others differ from one of them in where their rows come from.
ASKED_ALL = ["pandas", "polars lazy", "pyarrow", "table", "parquet", "csv"]


def rows(n=400, seed=0, **columns):
    rng = np.random.default_rng(seed)
    return pa.table({"x": rng.normal(3, 2, size=n), "y": rng.exponential(size=n) + 10, **columns})
