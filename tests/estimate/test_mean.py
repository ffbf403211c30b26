"""The median of block means, for every container, axis and NaN policy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import outvote as ov
from outvote.blocks.partition import draw
from outvote.certificate import Certificate

KINDS = ["random", "uniform", "hash", "contiguous"]


def normal(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# --- the blocks, and their median --------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "k", "remainder"), [(10, 1, "drop"), (101, 25, "spread"), (64, 64, "drop")])
def test_estimate_is_the_median_of_the_block_means(n, k, remainder, kind):
    x = normal(n)
    result = ov.mean(x, contamination=0, n_blocks=k, partition=kind, remainder=remainder)
    dealt = [rows for rows in draw(kind, n, k, result.seed, remainder=remainder) if len(rows)]
    means = [x[rows].mean() for rows in dealt]
    np.testing.assert_allclose(result.block_values, means, rtol=1e-12, atol=1e-14)
    assert result.estimate == pytest.approx(np.median(means), rel=1e-13, abs=1e-14)
    assert isinstance(result.estimate, float)
    assert result.block_sizes.tolist() == [len(rows) for rows in dealt]
    assert isinstance(result.certificate, Certificate)
    assert result.partition == kind


def test_remainder_is_dropped_or_spread():
    x = normal(103)
    dropped = ov.mean(x, contamination=0, n_blocks=10, rng=0)
    assert (dropped.block_sizes.tolist(), dropped.plan.n_left_out) == ([10] * 10, 3)
    spread = ov.mean(x, contamination=0, n_blocks=10, rng=0, remainder="spread")
    assert (sorted(spread.block_sizes.tolist()), spread.plan.n_left_out) == ([10] * 7 + [11] * 3, 0)
    assert (spread.block_values * spread.block_sizes).sum() == pytest.approx(x.sum())
    assert str(spread.plan) == "10 blocks of 10 or 11"


def test_empty_hash_blocks_do_not_vote():
    result = ov.mean(normal(30), contamination=0, n_blocks=25, partition="hash", rng=0)
    empty = int((draw("hash", 30, 25, 0).sizes == 0).sum())
    assert empty > 0
    assert result.plan.n_blocks == 25 - empty == len(result.block_values)
    assert f"The hash left {empty} blocks with fewer than 1 row" in result.explain()
    assert not np.isnan(result.block_values).any()


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_and_generators_repeat_an_estimate(kind):
    def ask(rng=None):
        return ov.mean(normal(500), contamination=5, vote="median", rng=rng, partition=kind)

    free, given, generator = ask(), ask(7), np.random.default_rng(1)
    first, second = ask(generator), ask(generator)
    assert given.seed == 7
    for found in (free, given, first):
        np.testing.assert_array_equal(ask(found.seed).block_values, found.block_values)
    assert ask(np.random.default_rng(1)).estimate == first.estimate
    assert len({free.seed, ask().seed, first.seed, second.seed}) == 4


# --- axes and containers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1, np.int64(1)])
def test_axis_of_the_rows(axis):
    x = normal((30, 40, 50))
    result = ov.mean(x, contamination=2, axis=axis, rng=2, vote="median")
    rows = np.moveaxis(x, axis, 0)
    dealt = draw("random", len(rows), result.plan.n_blocks, 2)
    means = np.stack([rows[block].mean(axis=0) for block in dealt])
    np.testing.assert_allclose(result.block_values, means, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(result.estimate, np.median(means, axis=0), rtol=1e-10, atol=1e-14)
    assert (result.plan.n_rows, result.estimate.shape) == (len(rows), rows.shape[1:])


def test_axis_none_flattens():
    x = normal((10, 20))
    found = ov.mean(x, contamination=2, axis=None, rng=0)
    assert found.estimate == ov.mean(x.reshape(-1), contamination=2, rng=0).estimate


ROWS = {
    "list": lambda x: x.tolist(),
    "pandas": pd.Series,
    "polars": pl.Series,
    "strided": lambda x: np.repeat(x, 3)[::3],
    "reversed": lambda x: x[::-1].copy()[::-1],
    "read-only": lambda x: np.frombuffer(x.tobytes()),
    "big-endian": lambda x: x.astype(">f8"),
    "longdouble": lambda x: x.astype(np.longdouble),
    "arrow": lambda x: pd.Series(x, dtype="float64[pyarrow]"),
    "nullable": lambda x: pd.Series(x, dtype="Float64"),
}
TABLES = {
    "lists": lambda x: x.tolist(),
    "fortran": np.asfortranarray,
    "strided table": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "frame of pandas": lambda x: pd.DataFrame(x, columns=list("abc")),
    "frame of polars": lambda x: pl.DataFrame(x, schema=list("abc")),
}


@pytest.mark.parametrize("container", ROWS | TABLES)
def test_every_container_gives_the_same_estimate(container):
    x = normal(150 if container in ROWS else (150, 3))
    held = (ROWS | TABLES)[container](x)
    found, expected = (ov.mean(one, contamination=3, rng=0) for one in (held, x))
    np.testing.assert_allclose(found.estimate, expected.estimate, rtol=1e-12)
    np.testing.assert_array_equal(np.asarray(held, dtype=np.float64), x)


def test_numbers_of_any_type_are_averaged_in_float64():
    whole = np.random.default_rng(0).integers(0, 100, size=200)
    short = 1000 + normal(3000)
    for x, dtypes in ((whole, ("i1", "u8", ">i4", "?")), (short, ("f4", "f2"))):
        for dtype in dtypes:
            held = x.astype(dtype)
            found, wide = (ov.mean(one, contamination=3, rng=0, vote="median") for one in (held, held.astype(float)))
            assert found.estimate == pytest.approx(wide.estimate, rel=1e-12)
            assert found.block_values.dtype == np.float64
    assert ov.mean(np.full(20, np.iinfo(np.int64).max), 0, n_blocks=1).estimate == pytest.approx(2.0**63)


def test_column_names_are_kept():
    for frame in (pd.DataFrame, pl.DataFrame):
        table = frame({"price": [1.0, 2.0, 3.0], "weight": [4, 5, 6], "sold": [True, False, True]})
        result = ov.mean(table, contamination=0, n_blocks=3)
        assert (result.names, result.estimate.tolist()) == (("price", "weight", "sold"), [2.0, 5.0, 1.0])
    assert ov.mean(pd.Series([1.0, 2.0], name="price"), contamination=0).names == ("price",)
    assert ov.mean(pd.Series([1.0, 2.0]), contamination=0).names is None
    table = pd.DataFrame(np.arange(16.0).reshape(4, 4), columns=list("abcd"))
    found = [ov.mean(table, contamination=0, axis=axis).names for axis in (1, None, -2)]
    assert found == [None, None, ("a", "b", "c", "d")]


@pytest.mark.parametrize("nan_policy", ["raise", "corrupt", "omit"])
def test_input_is_not_modified(nan_policy):
    x = normal((100, 2))
    if nan_policy != "raise":
        x[3, 1] = np.nan
    before = x.copy()
    x.flags.writeable = False
    ov.mean(x, contamination=5, nan_policy=nan_policy)
    np.testing.assert_array_equal(x, before)


# --- NaN --------------------------------------------------------------------------------------------------


def test_policy_omit_drops_whole_rows():
    x = normal((120, 2))
    holes = np.insert(x, [0, 50, 120], 0.0, axis=0)
    holes[[0, 51, 122], [0, 1, 1]] = np.nan
    found, expected = ov.mean(holes, 4, nan_policy="omit", rng=0), ov.mean(x, 4, rng=0)
    np.testing.assert_allclose(found.estimate, expected.estimate, rtol=1e-12)
    assert (found.n_omitted, found.plan.n_rows, found.plan.n_corrupt) == (3, 120, 4)


def test_policy_corrupt_counts_rows_with_nan():
    x = normal(120)
    holes = np.insert(x, [0, 50, 120], [np.nan, np.inf, -np.inf])
    found = ov.mean(holes, contamination=4, nan_policy="corrupt", rng=0, vote="median")
    ordinary = np.insert(x, [0, 50, 120], np.median(x))
    assert found.estimate == pytest.approx(ov.mean(ordinary, contamination=4, rng=0, vote="median").estimate)
    assert (found.n_omitted, found.plan.n_rows, found.plan.n_corrupt) == (3, 123, 4)


def test_missing_values_of_nullable_columns_are_nan():
    for column in (pd.Series([1, None, 3, 4], dtype="Int64"), pl.Series([1, None, 3, 4])):
        found = ov.mean(column, contamination=0, n_blocks=1, nan_policy="omit")
        assert (found.estimate, found.n_omitted) == (pytest.approx(8 / 3), 1)


def test_nan_in_dropped_rows_raises():
    for row in range(11):
        spoiled = np.where(np.arange(11) == row, np.nan, normal(11))
        with pytest.raises(ValueError, match=rf"the first is row {row}\b"):
            ov.mean(spoiled, contamination=0, n_blocks=2, rng=0)


# --- contamination ------------------------------------------------------------------------------------------


def test_estimate_resists_corrupt_rows():
    x = normal(1000)
    x[:20] = 1e9
    result = ov.mean(x, contamination=0.02, rng=0)
    assert abs(result.estimate) < 0.5
    assert result.plan.n_corrupt == 20
    assert result.plan.holds


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_interval_contains_the_estimate(alternative):
    for simultaneous in (False, True):
        result = ov.mean(normal((400, 3)), contamination=3, alternative=alternative, simultaneous=simultaneous, rng=0)
        low, high = result.interval
        assert result.alternative == alternative
        assert np.all((low <= result.estimate) & (result.estimate <= high))
        assert np.isneginf(low).tolist() == [alternative == "less"] * 3
        assert np.isposinf(high).tolist() == [alternative == "greater"] * 3


def test_simultaneous_intervals_take_more_blocks():
    x = normal((1000, 20))
    one, all_of_them = (ov.mean(x, 3, simultaneous=s, vote="median").plan.n_blocks for s in (False, True))
    assert all_of_them > one


# --- the largest and the smallest floats ---------------------------------------------------------------------


def test_largest_floats_do_not_overflow():
    x = np.linspace(1.6e308, 1.7e308, 40)
    for k in (1, 3, 4):
        result, scaled = (ov.mean(rows, contamination=0, n_blocks=k, rng=0) for rows in (x, x / 2**60))
        np.testing.assert_allclose(result.block_values, scaled.block_values * 2**60, rtol=1e-13)
        assert result.estimate == pytest.approx(scaled.estimate * 2**60, rel=1e-13)
    found = ov.mean([[1.6e308, 5e-324], [1.7e308, 5e-324]], contamination=0, n_blocks=2).estimate
    np.testing.assert_allclose(found, [1.65e308, 5e-324])
    both_signs = ov.mean([1.7e308, 1.7e308, -1.7e308, -1.7e308, 8.0], contamination=0, n_blocks=1).estimate
    assert both_signs == pytest.approx(0.0, abs=1e293)


def test_corrupt_rows_at_the_largest_float_affect_their_blocks_only():
    x = normal(200)
    clean = ov.mean(x, contamination=5, rng=0, vote="median")
    spoiled = x.copy()
    spoiled[:3], spoiled[3:5] = 1.79e308, -1.79e308
    found = ov.mean(spoiled, contamination=5, rng=0, vote="median")
    hit = np.unique(draw("random", 200, found.plan.n_blocks, 0).labels[:5])
    others = np.setdiff1d(np.arange(found.plan.n_blocks), hit)
    np.testing.assert_allclose(found.block_values[others], clean.block_values[others])
    assert np.isfinite(found.block_values).all()
    assert abs(found.estimate) < 1


def test_subnormal_rows_keep_their_value():
    steps = np.random.default_rng(0).integers(0, 1000, size=100).astype(float)
    found, expected = (ov.mean(x, 0, n_blocks=4, rng=0).block_values for x in (np.ldexp(steps, -1074), steps))
    np.testing.assert_allclose(found, np.ldexp(expected, -1074), atol=5e-324)


def test_equal_rows_give_their_value():
    for value in (0.0, 0.1, -3e300, 5e-324):
        assert ov.mean([value] * 50, contamination=5).estimate == pytest.approx(value, rel=1e-15)
    assert ov.mean([4.0], contamination=0).estimate == 4.0


def test_the_estimate_lies_between_the_rows():
    x = np.zeros(40)
    x[3], x[5:9] = 1e6, 1.0
    found = ov.mean(x, assume=ov.SubGaussian(2e5))
    assert found.interval.low < 0.0 <= found.estimate
    assert ov.mean(np.arange(5.0), 0, assume=ov.Bounded(0, 100)).estimate == 4.0
