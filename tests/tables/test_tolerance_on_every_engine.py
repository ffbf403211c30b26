"""Tolerance through a scan names the rows that decide by their ids."""

from __future__ import annotations

import numpy as np
import pytest

import outvote as ov

pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("polars")
from engines import rows  # noqa: E402


def test_tolerance_names_the_rows_that_decide_by_their_ids(engine):
    table = rows(300, seed=3)
    ids = np.random.default_rng(0).permutation(300) * 7 + 5
    x = table["x"].to_numpy().copy()
    x[:150] += 1.5
    arm = np.where(np.arange(300) < 150, "new", "old")
    table = table.set_column(0, "x", pa.array(x)).append_column("arm", pa.array(arm))
    numbered = table.append_column("key", pa.array(ids))
    known = np.argsort(ids[150:]), np.argsort(ids[:150])  # a is "new": labels in order
    one = ov.tolerance(x[np.argsort(ids)], claim="mean > 3")
    found = engine(numbered, row_id="key").tolerance("x", claim="mean > 3")
    assert found.rows == one.rows
    assert found.deciding == tuple(np.sort(ids)[list(one.deciding)].tolist())
    assert x[np.argsort(ids)][list(one.deciding)].min() > 3
    new, old = (x[:150][known[1]], ids[:150][known[1]]), (x[150:][known[0]], ids[150:][known[0]])
    two = ov.tolerance(new[0], old[0])
    found = engine(numbered, row_id="key").tolerance("x", "arm")
    assert found.claim == two.claim == "difference < 0"
    assert found.rows == two.rows
    assert found.deciding == tuple((s, int((new, old)[s][1][i])) for s, i in two.deciding)
    assert engine(table).tolerance("x", claim="mean > 3").deciding == ov.tolerance(x, claim="mean > 3").deciding
    turned = engine(table).tolerance("x", "arm", a="old", b="new", contamination=3)
    assert turned.claim == "difference > 0"


def test_tolerance_of_rows_without_a_number(engine):
    table = rows(200, seed=4)
    gaps = table["x"].to_pylist()
    gaps[10] = None
    table = table.set_column(0, "x", pa.array(gaps))
    with pytest.raises(ValueError, match="NULL, NaN or infinite values in 1 of 200"):
        engine(table).tolerance("x", claim="mean > 0")
    left_out = engine(table).tolerance("x", claim="mean > 0", nan_policy="omit")
    assert left_out.n_rows == 199
    assert 10 not in left_out.deciding
    assert engine(table).tolerance("x", claim="mean > 0", nan_policy="corrupt").n_rows == 200
    with pytest.raises(TypeError, match="needs a claim"):
        engine(rows(50)).tolerance("x")
    with pytest.raises(TypeError, match="must be the name of one column"):
        engine(rows(50)).tolerance(["x", "y"], claim="mean > 0")
