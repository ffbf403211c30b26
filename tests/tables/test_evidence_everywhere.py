"""Every engine gives the same answers by evidence, whether rows are brought here or counted where they are."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pandas as pd
import pytest

import outvote as ov
from outvote.tables import gathered, scan
from outvote.tables.bins import binned
from outvote.tables.gathered import Groups, Part, Sizes, Wanted, pilots_of, values_in_bins
from outvote.votes.evidence import Grid, index_in, pilot_of, pilot_step

N = 24_000


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    x = rng.normal(5.0, 2.0, size=N)
    x[:120] = 1e9
    x[120:126] = -1e13
    return pd.DataFrame(
        {
            "id": rng.permutation(N) * 7 - 1000,
            "x": x,
            "z": rng.exponential(size=N),
            "g": rng.choice(["a", "b", "c"], size=N, p=[0.6, 0.36, 0.04]),
            "h": rng.integers(0, 2, size=N),
            "b": rng.uniform(size=N) < 0.03,
        }
    )


def _files(frame, folder):
    for part in range(3):
        some = frame.iloc[part * N // 3 : (part + 1) * N // 3]
        some.to_parquet(folder / f"{part}.parquet", row_group_size=7000)
    return str(folder / "*.parquet")


def _lazy(frame, folder):
    import polars as pl

    return pl.from_pandas(frame).lazy()


def _relation(frame, folder):
    import duckdb

    return duckdb.connect().from_df(frame)


def _dask(frame, folder):
    import dask.dataframe as dd

    return dd.from_pandas(frame, npartitions=5)


def _ibis(frame, folder):
    return _ibis_connection().read_parquet(_files(frame, folder))


@functools.cache
def _ibis_connection():
    """One connection for all tests: where it is collected, Python complains about its temporary folder."""
    return pytest.importorskip("ibis").duckdb.connect()


def _arrow(frame, folder):
    import pyarrow as pa

    return pa.Table.from_pandas(frame)


ENGINES = {
    "pandas": lambda frame, folder: frame,
    "pyarrow": _arrow,
    "polars lazy": _lazy,
    "files": _files,
    "relation": _relation,
    "dask": _dask,
    "ibis": _ibis,
}


def table(found):
    """Return a table of any kind as a pandas frame."""
    for method in ("collect", "compute", "to_pandas", "df", "execute"):
        if not isinstance(found, pd.DataFrame) and hasattr(found, method):
            found = getattr(found, method)()
    return found


def ends(found):
    if isinstance(found, ov.RobustEstimate):
        return [*np.ravel(found.interval.low), *np.ravel(found.interval.high)]
    found = table(found)
    others = ["corrupt"] if "corrupt" in found else ["baseline_n", "lift_low", "lift_high"]
    return found[["low", "high", "n", *others]].to_numpy(dtype=float).ravel().tolist()


QUESTIONS = {
    "mean": lambda s: s.mean("x"),
    "several columns": lambda s: s.mean(["x", "z"], simultaneous=True),
    "declared": lambda s: s.mean("z", assume=ov.FiniteVariance(1.0)),
    "auto": lambda s: s.mean("x", contamination="auto"),
    "by group": lambda s: s.mean("x", by="g"),
    "by two keys": lambda s: s.mean(["x", "z"], by=["g", "h"], contamination=30),
    "booleans": lambda s: s.mean("b"),
    "proportions": lambda s: s.proportion("b", by="g"),
    "quantiles": lambda s: s.quantile("x", [0.05, 0.5, 0.9]),
    "quantile by group": lambda s: s.quantile("x", 0.9, by="g"),
    "difference": lambda s: s.difference("x", by="g", a="a", b="c"),
    "from a baseline": lambda s: s.difference("z", by="g", baseline="b", assume=ov.FiniteVariance(1.0)),
    "of two groups": lambda s: s.difference("x", by="h", a=1, b=0, relative=True),
}


@pytest.fixture(scope="module")
def expected(frame):
    """What a frame in memory gives."""
    return {name: ends(ask(ov.scan(frame))) for name, ask in QUESTIONS.items()}


@pytest.mark.parametrize("engine", [one for one in ENGINES if one != "pandas"])
def test_rows_brought_here_or_counted_where_they_are_give_the_same_answers(
    frame, expected, tmp_path, monkeypatch, engine
):
    source = ov.scan(ENGINES[engine](frame, tmp_path))
    for fetched in (gathered.FETCHED, 1000):  # the rows that choose the bins are those of the rows in memory
        for module in (gathered, scan):
            monkeypatch.setattr(module, "FETCHED", fetched)
        for name, ask in list(QUESTIONS.items())[:: 3 if engine == "ibis" else 1]:  # ibis is slow
            assert ends(ask(source)) == pytest.approx(expected[name], rel=1e-9), name


@pytest.mark.parametrize("fetched", [1000, gathered.FETCHED])
@pytest.mark.parametrize("engine", ["polars lazy", "files", "dask"])
def test_with_ids_the_answers_are_those_of_the_frame_with_ids(frame, tmp_path, monkeypatch, engine, fetched):
    for module in (gathered, scan):
        monkeypatch.setattr(module, "FETCHED", fetched)
    shuffled = frame.sample(frac=1, random_state=0) if fetched > 1000 else frame
    source, reference = ov.scan(ENGINES[engine](shuffled, tmp_path), row_id="id"), ov.scan(frame, row_id="id")
    for name in ("mean", "by two keys", "quantile by group", "from a baseline"):
        assert ends(QUESTIONS[name](source)) == pytest.approx(ends(QUESTIONS[name](reference)), rel=1e-9), name


def test_tolerance_of_many_rows_is_that_of_the_rows(frame, tmp_path, monkeypatch):
    exact = ov.tolerance(frame["x"].to_numpy(), claim="mean > 4")
    two = ov.tolerance(frame["x"][frame.h == 0].to_numpy(), frame["x"][frame.h == 1].to_numpy(), claim="difference < 1")
    for module in (gathered, scan):
        monkeypatch.setattr(module, "FETCHED", 1000)
    source = ov.scan(_files(frame, tmp_path))
    assert source.tolerance("x", claim="mean > 4").rows == exact.rows
    assert source.tolerance("x", by="h", claim="difference < 1").rows == two.rows
    assert not source.tolerance("x", claim="mean > 4").deciding


@pytest.mark.parametrize("fetched", [1000, gathered.FETCHED])
@pytest.mark.parametrize("engine", ["pandas", "polars lazy", "files", "dask"])
def test_bad_rows_count_as_the_policy_says(frame, tmp_path, monkeypatch, engine, fetched):
    for module in (gathered, scan):
        monkeypatch.setattr(module, "FETCHED", fetched)
    bad = frame.copy()
    bad.loc[10:19, "x"] = np.nan
    source = ov.scan(ENGINES[engine](bad, tmp_path))
    with pytest.raises(ValueError, match="NULL, NaN or infinite values in 10 of 24000 rows"):
        source.mean("x")
    usual = ov.scan(bad)
    for policy in ("omit", "corrupt"):
        found, here = (s.mean("x", nan_policy=policy) for s in (source, usual))
        assert ends(found) == pytest.approx(ends(here), rel=1e-10)
        assert found.n_omitted == here.n_omitted == 10
        by = [s.mean("x", by="g", nan_policy=policy) for s in (source, usual)]
        assert ends(by[0]) == pytest.approx(ends(by[1]), rel=1e-10)
    bad.loc[20:24, "x"] = np.inf
    source, usual = ov.scan(ENGINES[engine](bad, tmp_path)), ov.scan(bad)
    with pytest.raises(ValueError, match="infinite values, which are not missing"):
        source.mean("x", nan_policy="omit")
    found, here = (s.quantile("x", 0.999, contamination=0, nan_policy="omit") for s in (source, usual))
    assert ends(found) == pytest.approx(ends(here), rel=1e-10)


def test_groups_that_do_not_fit_together_are_gathered_in_portions(frame, tmp_path, monkeypatch):
    files = _files(frame, tmp_path)
    for module in (gathered, scan):
        monkeypatch.setattr(module, "FETCHED", 1000)
    asks = [QUESTIONS[name] for name in ("by group", "by two keys", "quantile by group", "from a baseline")]
    before = [end for ask in asks for end in ends(ask(ov.scan(files)))]
    monkeypatch.setattr(gathered, "HELD", 5000)
    sizes = Sizes.of({"a": 24_000, "b": 14_000, "c": 1600, "d": 4000, "e": 1000}, 1)
    assert [list(one.finite) for one in sizes.portions(1)] == [["a"], ["b"], ["c"], ["d", "e"]]
    assert [end for ask in asks for end in ends(ask(ov.scan(files)))] == pytest.approx(before, rel=1e-9)


def test_results_are_tables_of_the_callers_kind(frame, tmp_path):
    import dask.dataframe as dd
    import duckdb
    import polars as pl
    import pyarrow as pa

    kinds = {
        "pandas": pd.DataFrame,
        "pyarrow": pa.Table,
        "polars lazy": pl.LazyFrame,
        "files": pd.DataFrame,
        "relation": duckdb.DuckDBPyRelation,
        "dask": dd.DataFrame,
    }
    for engine, kind in kinds.items():
        found = ov.scan(ENGINES[engine](frame, tmp_path)).mean("x", by="g")
        assert isinstance(found, kind)
        assert table(found)["g"].tolist() == ["a", "b", "c"]


def test_files_give_arrow_tables_without_pandas(frame, tmp_path, monkeypatch):
    import sys

    import pyarrow as pa

    files = ov.scan(_files(frame, tmp_path))
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert isinstance(files.mean("x", by="g"), pa.Table)


def test_a_baseline_must_be_a_group(frame):
    with pytest.raises(ValueError, match="baseline='d' is not a value of the column 'g': its values are 'a', 'b', 'c'"):
        ov.scan(frame).difference("x", by="g", baseline="d")
    with pytest.raises(ValueError, match="leave out a and b"):
        ov.scan(frame).difference("x", by="g", a="a", baseline="b")


# --- the pieces ------------------------------------------------------------------------------------------


def _awkward():
    rng = np.random.default_rng(1)
    powers = 2.0 ** np.arange(-40, 60)
    return np.concatenate(
        [
            rng.normal(size=2000),
            1e3 * rng.standard_cauchy(2000),
            [0.0, -0.0, 1e300, -1e308, 1.7e308, 5e-324, -5e-324],
            powers,
            -powers,
            powers - 1,
            np.nextafter(powers, 0),
            rng.uniform(-1, 1, 500) * 10.0 ** rng.integers(-300, 300, 500),
        ]
    )


@pytest.mark.parametrize("library", ["polars", "duckdb"])
@pytest.mark.parametrize("grid", [Grid(0.3, 2.0**-7), Grid(-1e6, 32.0), Grid(1e-200, 2.0**-700)])
def test_bins_as_expressions_are_those_of_numpy_to_the_last_row(grid, library):
    import duckdb
    import narwhals as nw
    import polars as pl

    values = pl.DataFrame({"v": _awkward()})
    frame = nw.from_native(values.lazy() if library == "polars" else duckdb.from_arrow(values.to_arrow()))
    numbers = [nw.lit(one) for one in (grid.centre, grid.unit, 1 / grid.unit)]
    frame = binned(frame, "v", *numbers, lambda name: f"_{name}")
    found = frame.group_by("_bin").agg(nw.len().alias("n"), nw.col("_place", "_square").sum()).collect()
    where, expected = found["_bin"].to_numpy(), grid.tallies(_awkward())
    for name, numbers in zip(("n", "_place", "_square"), expected, strict=True):
        mine = np.zeros(grid.number, dtype=np.int64)
        mine[where] = found[name].to_numpy().astype(np.int64)
        assert (mine == numbers).all()


@pytest.mark.parametrize("grid", [Grid(0.3, 2.0**-7, 1024), Grid(-1e6, 32.0, 1 << 14)])
def test_the_bin_of_each_row(grid):
    values = _awkward()
    found = index_in(values, grid.centre, grid.unit, grid.number)
    assert (np.bincount(found, minlength=grid.number) == grid.tallies(values).counts).all()


def test_rows_that_choose_bins_do_not_depend_on_the_parts():
    rng = np.random.default_rng(2)
    values, codes = rng.normal(size=(5000, 1)), rng.integers(0, 3, size=5000)
    whole = pilots_of([Part(values, codes, None)], [3, 1, 50])
    cuts = [0, 17, 18, 3000, 5000]
    parts = [Part(values[a:b], codes[a:b], None) for a, b in itertools.pairwise(cuts)]
    for one, other in zip(whole, pilots_of(parts, [3, 1, 50]), strict=True):
        assert (one == other).all()
    alone = pilots_of([part._replace(codes=None) for part in parts], [pilot_step(5000)])
    assert (alone[0][:, 0] == pilot_of(values[:, 0])).all()


def test_rows_of_some_bins_with_how_often_they_occur():
    values = np.array([0.0, 0.5, 0.5, 3.0, -1.0, 1e300, 0.25, np.nextafter(0.5, 1)])
    grid = Grid(0.0, 1.0)
    bins = tuple(sorted(set(index_in(np.array([0.5, 1e300]), 0.0, 1.0, 4096).tolist())))
    parts = [Part(values[:4, None], None, None), Part(values[4:, None], None, None)]
    ((found, counts),) = values_in_bins(parts, [Wanted(grid, bins)])
    assert found.tolist() == [0.5, np.nextafter(0.5, 1), 1e300]
    assert counts.tolist() == [2, 1, 1]


def test_groups_of_parts_keep_the_order_of_ids_and_leave_out_bad_rows():
    values = np.array([[3.0], [1.0], [math.nan], [2.0], [math.inf]])
    codes, ids = np.array([0, 0, 0, 1, -1]), np.array([9, 4, 5, 0, 1])
    groups = Groups.of_parts([Part(values, codes, ids)], ["a", "b"], 1, omit=True, infinite=False)
    assert [groups.group(g).tolist() for g in range(2)] == [[1.0, 3.0], [2.0]]
    kept = Groups.of_parts([Part(values, codes, None)], ["a", "b"], 1, omit=False, infinite=False)
    assert kept.group(0).tolist()[:2] == [3.0, 1.0]
    assert math.isnan(kept.group(0)[2])
    assert Groups.of_parts([], ["a"], 1, omit=False, infinite=False).group(0).tolist() == []
