"""The registry finds kernels by name; nothing else does: a user's kernel of the same name stays the user's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import outvote as ov
from outvote.kernels import KERNELS, Kernel

ONE_SAMPLE = [name for name, kernel in KERNELS.items() if len(kernel.degrees) == 1]


def root_of_range(*rows):
    """A symmetric function that no kernel of the registry computes."""
    return np.ptp(rows, axis=0) ** 0.5


def own_kernel(name):
    """A user's kernel that shares the name and the degrees of one in the registry."""
    return Kernel(root_of_range, KERNELS[name].degrees, name=name)


def numbers(n_samples=1):
    return [np.random.default_rng(s).exponential(size=400 - 50 * s) for s in range(n_samples)]


def assert_same(found, expected):
    for field in ("estimate", "radius", "interval", "block_values"):
        np.testing.assert_allclose(getattr(found, field), getattr(expected, field), rtol=1e-12)
    np.testing.assert_array_equal(found.block_sizes, expected.block_sizes)


def scan_pandas(x, folder):
    pd = pytest.importorskip("pandas")
    return ov.scan(pd.DataFrame({"x": x, "y": x}))


def scan_polars_lazy(x, folder):
    pl = pytest.importorskip("polars")
    return ov.scan(pl.LazyFrame({"x": x, "y": x, "id": np.arange(len(x))}), row_id="id")


def scan_duckdb_relation(x, folder):
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    return ov.scan(duckdb.from_arrow(pa.table({"x": x, "y": x})))


def scan_parquet_file(x, folder):
    pytest.importorskip("duckdb")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"x": x, "y": x}), folder / "rows.parquet")
    return ov.scan(folder / "rows.parquet")


def scan_dask(x, folder):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    return ov.scan(dd.from_pandas(pd.DataFrame({"x": x, "y": x}), npartitions=3))


ENGINES = [scan_pandas, scan_polars_lazy, scan_duckdb_relation, scan_parquet_file, scan_dask]


@pytest.mark.parametrize("name", KERNELS)
def test_a_users_kernel_may_have_the_name_of_a_library_kernel(name):
    own = own_kernel(name)
    samples = numbers(len(own.degrees))
    options = {"partition": "hash", "n_blocks": 40, "rng": 0}
    found = ov.u_statistic(*samples, kernel=own, **options)
    assert found.statistic == name
    assert_same(found, ov.u_statistic(*samples, kernel=replace(own, name="mine"), **options))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ONE_SAMPLE)
def test_a_users_kernel_gives_the_same_answer_on_every_engine(name, engine, tmp_path):
    (x,), own = numbers(), own_kernel(name)
    found = engine(x, tmp_path).u_statistic("x", own, rng=0)
    assert_same(found, ov.u_statistic(x, kernel=own, partition="hash", rng=0))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_library_kernel_gives_the_same_answer_under_another_name(engine, tmp_path):
    (x,) = numbers()
    renamed = replace(KERNELS["variance"], name="spread")
    found = engine(x, tmp_path).u_statistic("x", renamed, rng=0)
    assert found.statistic == "spread"
    assert_same(found, ov.u_statistic(x, kernel="variance", partition="hash", rng=0))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ["variance", "gini"])
def test_a_scan_refuses_columns_that_do_not_suit_the_kernel(name, engine, tmp_path):
    scan = engine(numbers()[0], tmp_path)
    for columns in (["x", "y"], ["x"]):
        shape = rf"\(400, {len(columns)}\)"
        with pytest.raises(ValueError, match=f"'{name}' takes numbers, but sample 1 has shape {shape}: pass one"):
            scan.u_statistic(columns, name)
