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


def blocks_of(result, n_rows, kind="random", remainder="drop"):
    """Deal the rows again, from what the result says."""
    return draw(kind, n_rows, result.plan.n_blocks, result.seed, remainder=remainder)


# --- the blocks, and their median --------------------------------------------------------------------


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "k"), [(10, 1), (10, 3), (100, 7), (101, 25), (64, 64), (1000, 333)])
def test_estimate_is_the_median_of_the_block_means(n, k, kind, remainder):
    x = normal(n)
    result = ov.mean(x, contamination=0, n_blocks=k, partition=kind, remainder=remainder)
    dealt = draw(kind, n, k, result.seed, remainder=remainder)
    means = [x[rows].mean() for rows in dealt if len(rows)]
    np.testing.assert_allclose(result.block_values, means, rtol=1e-12, atol=1e-14)
    assert result.estimate == pytest.approx(np.median(means), rel=1e-13, abs=1e-14)
    assert isinstance(result.estimate, float)
    assert result.block_sizes.tolist() == [len(rows) for rows in dealt if len(rows)]
    assert isinstance(result.certificate, Certificate)
    assert result.partition == kind


@pytest.mark.parametrize("kind", KINDS)
def test_block_values_depend_on_their_own_rows(kind):
    labels = draw(kind, 200, 15, seed=5).labels
    result = ov.mean(labels.astype(float), contamination=0, n_blocks=15, partition=kind, rng=5)
    np.testing.assert_allclose(result.block_values, np.arange(15.0))


def test_even_number_of_blocks_averages_the_middle_two():
    x = np.array([1.0, 2.0, 10.0, 50.0])
    assert ov.mean(x, contamination=1, n_blocks=4).estimate == 6.0


def test_remainder_is_dropped_or_spread():
    x = normal(103)
    dropped = ov.mean(x, contamination=0, n_blocks=10, rng=0)
    assert dropped.block_sizes.tolist() == [10] * 10
    assert dropped.plan.n_left_out == 3
    spread = ov.mean(x, contamination=0, n_blocks=10, rng=0, remainder="spread")
    assert sorted(spread.block_sizes.tolist()) == [10] * 7 + [11] * 3
    assert spread.plan.n_left_out == 0
    assert (spread.block_values * spread.block_sizes).sum() == pytest.approx(x.sum())
    assert str(spread.plan) == "10 blocks of 10 or 11"


def test_dropped_rows_are_random():
    x = np.arange(11.0)
    kept = {ov.mean(x, contamination=0, n_blocks=5, rng=seed).block_values.sum() for seed in range(40)}
    assert len(kept) > 5


def test_empty_hash_blocks_do_not_vote():
    x = normal(30)
    result = ov.mean(x, contamination=0, n_blocks=25, partition="hash", rng=0)
    dealt = draw("hash", 30, 25, 0)
    empty = int((dealt.sizes == 0).sum())
    assert empty > 0
    assert result.plan.n_blocks == 25 - empty == len(result.block_values)
    assert f"The hash left {empty} blocks with fewer than 1 row" in result.explain()
    assert not np.isnan(result.block_values).any()


# --- seeds -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_estimate(kind):
    x = normal(500)
    first, second = (ov.mean(x, contamination=5, vote="median", rng=7, partition=kind) for _ in range(2))
    np.testing.assert_array_equal(first.block_values, second.block_values)
    assert first.estimate == second.estimate
    assert first.seed == 7


def test_drawn_seed_is_in_the_result():
    x = normal(500)
    free = ov.mean(x, contamination=5, vote="median")
    assert ov.mean(x, contamination=5, rng=free.seed, vote="median").estimate == free.estimate
    assert ov.mean(x, contamination=5, vote="median").seed != free.seed


def test_generator_as_seed():
    x = normal(500)
    first = ov.mean(x, contamination=5, rng=np.random.default_rng(1), vote="median")
    again = ov.mean(x, contamination=5, rng=np.random.default_rng(1), vote="median")
    assert first.estimate == again.estimate
    assert ov.mean(x, contamination=5, rng=first.seed, vote="median").estimate == first.estimate
    generator = np.random.default_rng(1)
    ov.mean(x, contamination=5, rng=generator, vote="median")
    assert ov.mean(x, contamination=5, rng=generator, vote="median").seed != first.seed


# --- axes and containers ---------------------------------------------------------------------------------


def test_columns_share_their_blocks():
    x = normal((200, 3))
    together = ov.mean(x, contamination=5, rng=1, vote="median")
    assert together.block_values.shape == (together.plan.n_blocks, 3)
    for column in range(3):
        alone = ov.mean(x[:, column], contamination=5, rng=1, vote="median")
        assert alone.estimate == pytest.approx(together.estimate[column], rel=1e-14)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3, np.int64(1)])
def test_axis_of_the_rows(axis):
    x = normal((30, 40, 50))
    result = ov.mean(x, contamination=2, axis=axis, rng=2, vote="median")
    n = x.shape[axis]
    assert result.plan.n_rows == n
    rows = np.moveaxis(x, axis, 0)
    means = np.stack([rows[block].mean(axis=0) for block in blocks_of(result, n)])
    np.testing.assert_allclose(result.block_values, means, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(result.estimate, np.median(means, axis=0), rtol=1e-10, atol=1e-14)
    assert result.estimate.shape == rows.shape[1:]


def test_axis_none_flattens():
    x = normal((10, 20))
    assert (
        ov.mean(x, contamination=2, axis=None, rng=0).estimate
        == ov.mean(x.reshape(-1), contamination=2, rng=0).estimate
    )


CONTAINERS = {
    "list": lambda x: x.tolist(),
    "tuple": lambda x: tuple(x.tolist()),
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


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_estimate(container):
    x = normal(150)
    held = CONTAINERS[container](x)
    expected = ov.mean(x, contamination=3, rng=0)
    found = ov.mean(held, contamination=3, rng=0)
    np.testing.assert_allclose(found.block_values, expected.block_values, rtol=1e-12)
    np.testing.assert_array_equal(np.asarray(held, dtype=np.float64), x)


@pytest.mark.parametrize(
    "spelling",
    [
        lambda x: x.tolist(),
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: pd.DataFrame(x, columns=list("abc")),
        lambda x: pl.DataFrame(x, schema=list("abc")),
    ],
)
def test_every_table_gives_the_same_estimate(spelling):
    x = normal((150, 3))
    found = ov.mean(spelling(x), contamination=3, rng=0)
    np.testing.assert_allclose(found.estimate, ov.mean(x, contamination=3, rng=0).estimate, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8", "i8", ">i4", "?"])
def test_integers_and_booleans_are_averaged_in_float64(dtype):
    x = np.random.default_rng(0).integers(0, 100, size=200).astype(dtype)
    found = ov.mean(x, contamination=3, rng=0, vote="median")
    assert found.estimate == ov.mean(x.astype(np.float64), contamination=3, rng=0, vote="median").estimate
    assert found.block_values.dtype == np.float64


def test_large_integers_do_not_overflow():
    x = np.full(20, np.iinfo(np.int64).max)
    assert ov.mean(x, contamination=0, n_blocks=1).estimate == pytest.approx(2.0**63)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_short_floats_are_accumulated_in_float64(dtype):
    x = (1000 + normal(3000)).astype(dtype)
    found = ov.mean(x, contamination=0, n_blocks=3, rng=0)
    np.testing.assert_array_equal(
        found.block_values, ov.mean(x.astype(np.float64), contamination=0, n_blocks=3, rng=0).block_values
    )
    assert found.block_values.dtype == np.float64


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_column_names_are_kept(frame):
    table = frame({"price": [1.0, 2.0, 3.0], "weight": [4, 5, 6], "sold": [True, False, True]})
    result = ov.mean(table, contamination=0, n_blocks=3)
    assert result.names == ("price", "weight", "sold")
    assert result.estimate.tolist() == [2.0, 5.0, 1.0]


def test_series_name_is_kept():
    assert ov.mean(pd.Series([1.0, 2.0], name="price"), contamination=0).names == ("price",)
    assert ov.mean(pd.Series([1.0, 2.0]), contamination=0).names is None


def test_column_names_are_dropped_for_other_axes():
    table = pd.DataFrame(np.arange(16.0).reshape(4, 4), columns=list("abcd"))
    assert ov.mean(table, contamination=0, axis=1).names is None
    assert ov.mean(table, contamination=0, axis=None).names is None
    assert ov.mean(table, contamination=0, axis=-2).names == ("a", "b", "c", "d")


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


def test_policy_omit_equals_dropping_the_rows():
    x = normal(120)
    holes = np.insert(x, [0, 50, 120], np.nan)
    found = ov.mean(holes, contamination=4, nan_policy="omit", rng=0)
    assert found.estimate == ov.mean(x, contamination=4, rng=0).estimate
    assert found.n_omitted == 3
    assert found.plan.n_rows == 120
    assert found.plan.n_corrupt == 4


def test_policy_corrupt_counts_rows_with_nan():
    x = normal(120)
    holes = np.insert(x, [0, 50, 120], [np.nan, np.inf, -np.inf])
    found = ov.mean(holes, contamination=4, nan_policy="corrupt", rng=0, vote="median")
    ordinary = np.insert(x, [0, 50, 120], np.median(x))
    assert found.estimate == ov.mean(ordinary, contamination=4, rng=0, vote="median").estimate
    assert found.n_omitted == 3
    assert (found.plan.n_rows, found.plan.n_corrupt) == (123, 4)


def test_policy_omit_drops_whole_rows():
    x = normal((50, 2))
    holes = x.copy()
    holes[7, 1] = np.nan
    found = ov.mean(holes, contamination=2, nan_policy="omit", rng=0)
    expected = ov.mean(np.delete(x, 7, axis=0), contamination=2, rng=0)
    np.testing.assert_array_equal(found.estimate, expected.estimate)


@pytest.mark.parametrize("nan_policy", ["omit", "corrupt"])
def test_policies_agree_without_nan(nan_policy):
    x = normal(90)
    assert (
        ov.mean(x, contamination=2, nan_policy=nan_policy, rng=0).estimate
        == ov.mean(x, contamination=2, rng=0).estimate
    )


def test_missing_values_of_nullable_columns_are_nan():
    column = pd.Series([1, None, 3, 4], dtype="Int64")
    assert ov.mean(column, contamination=0, n_blocks=1, nan_policy="omit").estimate == pytest.approx(8 / 3)
    assert ov.mean(pl.Series([1, None, 3, 4]), contamination=0, n_blocks=1, nan_policy="omit").n_omitted == 1


def test_nan_in_dropped_rows_raises():
    x = normal(11)
    for row in range(11):
        spoiled = x.copy()
        spoiled[row] = np.nan
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
@pytest.mark.parametrize("simultaneous", [False, True])
def test_interval_contains_the_estimate(alternative, simultaneous):
    result = ov.mean(normal((400, 3)), contamination=3, alternative=alternative, simultaneous=simultaneous, rng=0)
    assert result.alternative == alternative
    assert np.all(result.interval.low <= result.estimate)
    assert np.all(result.estimate <= result.interval.high)
    if alternative == "less":
        assert np.all(np.isneginf(result.interval.low))
    if alternative == "greater":
        assert np.all(np.isposinf(result.interval.high))


def test_simultaneous_intervals_take_more_blocks():
    x = normal((5000, 50))
    assert (
        ov.mean(x, contamination=3, simultaneous=True, vote="median").plan.n_blocks
        > ov.mean(x, contamination=3, vote="median").plan.n_blocks
    )


# --- the largest and the smallest floats ---------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3, 4, 10])
def test_largest_floats_do_not_overflow(k):
    x = np.linspace(1.6e308, 1.7e308, 40)
    result = ov.mean(x, contamination=0, n_blocks=k, rng=0)
    scaled = ov.mean(x / 2**60, contamination=0, n_blocks=k, rng=0)
    np.testing.assert_allclose(result.block_values, scaled.block_values * 2**60, rtol=1e-13)
    assert result.estimate == pytest.approx(scaled.estimate * 2**60, rel=1e-13)


def test_median_of_largest_floats_does_not_overflow():
    assert ov.mean([1.6e308, 1.7e308], contamination=0, n_blocks=2).estimate == pytest.approx(1.65e308)


def test_large_column_does_not_affect_a_small_one():
    found = ov.mean([[1.6e308, 5e-324], [1.7e308, 5e-324]], contamination=0, n_blocks=2).estimate
    np.testing.assert_allclose(found, [1.65e308, 5e-324])


def test_sums_of_both_signs_cancel_without_overflow():
    x = [1.7e308, 1.7e308, -1.7e308, -1.7e308, 8.0]
    assert ov.mean(x, contamination=0, n_blocks=1).estimate == pytest.approx(0.0, abs=1e293)
    assert np.isfinite(ov.mean(x, contamination=0, n_blocks=1).estimate)


def test_corrupt_rows_at_the_largest_float_affect_their_blocks_only():
    x = normal(200)
    clean = ov.mean(x, contamination=5, rng=0, vote="median")
    spoiled = x.copy()
    spoiled[:3], spoiled[3:5] = 1.79e308, -1.79e308
    found = ov.mean(spoiled, contamination=5, rng=0, vote="median")
    hit = np.unique(blocks_of(found, 200).labels[:5])
    others = np.setdiff1d(np.arange(found.plan.n_blocks), hit)
    np.testing.assert_array_equal(found.block_values[others], clean.block_values[others])
    assert np.isfinite(found.block_values).all()
    assert abs(found.estimate) < 1


def test_subnormal_rows_keep_their_value():
    steps = np.random.default_rng(0).integers(0, 1000, size=100).astype(float)
    x = np.ldexp(steps, -1074)
    expected = ov.mean(steps, contamination=0, n_blocks=4, rng=0).block_values
    np.testing.assert_allclose(
        ov.mean(x, contamination=0, n_blocks=4, rng=0).block_values, np.ldexp(expected, -1074), atol=5e-324
    )


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
