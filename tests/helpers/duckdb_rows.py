"""Rows for the tests on DuckDB, and a comparison of scans with rows in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import outvote as ov

X = np.random.default_rng(0).normal(size=300)


def expected(values=X, **options):
    return ov.mean(values, partition="hash", **{"rng": 1, "n_blocks": 11, **options})


def agrees(found, values=X, **options):
    right = expected(values, **options)
    np.testing.assert_allclose(found.block_values, right.block_values, rtol=1e-12)
    np.testing.assert_allclose(found.radius, right.radius, rtol=1e-12)
    return True


def asked(source, column="x", **options):
    return ov.scan(source, **options).mean(column, rng=1, n_blocks=11)


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return str(path)
