"""
A file larger than memory
=========================

The rows are in Parquet files and stay there: DuckDB sums up the blocks in one or two passes, within a limit on
its memory, and writes to disk beyond it. The files here are small; the code is the same for a terabyte.
"""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import outvote as ov

rng = np.random.default_rng(0)
folder = tempfile.TemporaryDirectory()
for part in range(4):
    price = rng.lognormal(3.0, 0.5, size=50_000)
    price[rng.choice(50_000, size=30, replace=False)] *= 100  # cents for euros
    shop = rng.choice(["Bonn", "Lyon", "Oslo"], size=50_000)
    columns = {"id": np.arange(50_000) + 50_000 * part, "shop": shop, "price": price}
    pq.write_table(pa.table(columns), Path(folder.name) / f"part-{part}.parquet")

# %%
# Nothing is read before a question is asked. The answer does not depend on how the rows are stored, because they have
# ids.

sales = ov.scan(f"{folder.name}/*.parquet", row_id="id", memory_limit="200MB")
found = sales.mean("price", contamination=200, assume=ov.FiniteVariance(15.0))
print(f"truth {np.exp(3.125):.2f}")
print(found)

# %%
# One answer for each shop, as a table:

table = sales.mean("price", by="shop", contamination=100, assume=ov.FiniteVariance(15.0))
print(table[["shop", "estimate", "low", "high", "n", "corrupt"]].round(2).to_string(index=False))

# %%
# What is kept of many rows is small: how many there are in each of 4096 bins. It is enough to draw them.

found.plot()
folder.cleanup()
