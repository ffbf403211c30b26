"""The registry finds kernels by name; nothing else does: a user's kernel of the same name stays the user's."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from kernel_definitions import sample

import outvote as ov
from outvote.kernels import KERNELS, Kernel, kernel_of


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
def test_kernels_give_the_same_answer_on_every_engine(engine, tmp_path):
    """A user's kernel with the name of a library kernel, and a library kernel with another name."""
    (x,), own, renamed = numbers(), own_kernel("variance"), replace(KERNELS["variance"], name="spread")
    scan = engine(x, tmp_path)
    assert_same(scan.u_statistic("x", own, rng=0), ov.u_statistic(x, kernel=own, partition="hash", rng=0))
    found = scan.u_statistic("x", renamed, rng=0)
    assert found.statistic == "spread"
    assert_same(found, ov.u_statistic(x, kernel="variance", partition="hash", rng=0))
    for columns in (["x", "y"], ["x"]):
        shape = rf"\(400, {len(columns)}\)"
        with pytest.raises(ValueError, match=f"'gini' takes numbers, but sample 1 has shape {shape}: pass one"):
            scan.u_statistic(columns, "gini")


# --- names


def test_the_registry_holds_the_documented_kernels():
    expected = {"variance", "covariance", "gini", "wilcoxon", "kendall", "mann-whitney", "auc", "mmd", "energy"}
    assert set(KERNELS) == expected
    assert all(kernel_of(name) is kernel for name, kernel in KERNELS.items())
    assert KERNELS["wilcoxon"].bounds == (0.0, 1.0)
    assert KERNELS["kendall"].bounds == (-1.0, 1.0)
    assert KERNELS["mmd"].degrees == KERNELS["energy"].degrees == (2, 2)


def test_an_unknown_name_gets_the_nearest_name_or_the_list():
    for name, near in (("varience", "variance"), ("Gini", "gini"), ("Mann Whitney", "mann-whitney")):
        with pytest.raises(ValueError, match=rf"kernel='{name}' is unknown: did you mean '{near}'\?"):
            kernel_of(name)
    with pytest.raises(ValueError, match=r"kernel='xyzzy' is unknown: The named ones are variance, .*energy") as caught:
        kernel_of("xyzzy")
    assert "did you mean" not in str(caught.value)


def test_a_bare_function_is_refused_with_the_way_to_wrap_it():
    with pytest.raises(TypeError, match=r"outvote\.Kernel\(function, degrees=\.\.\.\)"):
        kernel_of(max)
    with pytest.raises(TypeError, match=r"kernel=7 must be a name or an outvote\.Kernel"):
        kernel_of(7)


def test_a_kernel_is_returned_as_it_is():
    mine = Kernel(max)
    assert kernel_of(mine) is mine
    with pytest.raises(AttributeError):
        mine.name = "other"


# --- every kernel of the registry


@pytest.mark.parametrize(("value", "size"), [(0.0, 2), (0.1, 97), (-1e8 - 0.3, 257), (1.7e308, 5), (5e-324, 3)])
def test_equal_rows_have_no_spread_and_only_ties(value, size):
    z = np.full((2, size), value)
    pairs = np.stack([z, z], axis=2)
    for name, stack in (("variance", z), ("gini", z), ("covariance", pairs), ("kendall", pairs)):
        assert KERNELS[name].aligned(stack).tolist() == [0.0, 0.0]
    assert KERNELS["wilcoxon"].aligned(z).tolist() == [float(value > 0)] * 2
    for name, expected in (("mann-whitney", 1.0), ("auc", 0.5), ("mmd", 0.0), ("energy", 0.0)):
        assert KERNELS[name].aligned(z, z[:, :2]).tolist() == [expected] * 2
        assert KERNELS[name].grid(z, z[:, :2]).tolist() == [[expected] * 2] * 2


@pytest.mark.parametrize("name", ["variance", "gini", "wilcoxon", "mmd", "energy"])
def test_float32_rows_are_computed_in_float64(name):
    kernel = KERNELS[name]
    z = (1000 + sample("normal", (3, 50))).astype(np.float32)
    stacks = [z, z + 1][: len(kernel.degrees)]
    expected = kernel.aligned(*(s.astype(np.float64) for s in stacks))
    np.testing.assert_allclose(kernel.aligned(*stacks), expected, rtol=1e-12)


def test_named_kernels_can_be_sent_to_other_processes_and_a_users_stays_the_users():
    for kernel in KERNELS.values():
        assert pickle.loads(pickle.dumps(kernel)) is kernel
    sent = pickle.loads(pickle.dumps(Kernel(max, name="variance")))
    assert sent.function is max
    assert sent.name == "variance"
