"""Rows for the tests on Dask: as a frame, and in Parquet files of several row groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SAME = {"rel": 1e-12, "abs": 0}
N = 6000
#: The memory limit of a worker, in bytes.
LIMIT = 300_000_000


def rows():
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "x": rng.exponential(size=N) + 1e6,
            "y": rng.normal(size=N),
            "g": rng.choice(["a", "b", "ç"], size=N, p=[0.5, 0.4, 0.1]),
            "h": rng.integers(0, 2, size=N),
            "id": np.arange(N),
        }
    )


def write(folder, frame, sizes=(1700, 2500, 1800), row_group=400):
    """Write files of these numbers of rows, in row groups."""
    low = 0
    for i, size in enumerate(sizes):
        table = pa.Table.from_pandas(frame.iloc[low : low + size], preserve_index=False)
        pq.write_table(table, folder / f"{i}.parquet", row_group_size=row_group)
        low += size
    return str(folder / "*.parquet")


def assert_close(found, expected):
    assert found.estimate == pytest.approx(expected.estimate, **SAME)
    assert found.radius == pytest.approx(expected.radius, rel=1e-8)
    assert found.block_values == pytest.approx(expected.block_values, **SAME)
    assert found.plan == expected.plan
