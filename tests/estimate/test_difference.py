"""The difference of two robust means, and the largest one over a family of functions."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import outvote as ov
from outvote.blocks.partition import draw
from outvote.certificate import Certificate


def normal(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def reference(a, b, result, kind="random", remainder="drop"):
    """Block means of both samples, dealt again from what the result says."""
    return [
        np.array(
            [x[rows].mean() for rows in draw(kind, len(x), k, result.seed, stream=s, remainder=remainder) if len(rows)]
        )
        for s, (x, k) in enumerate(zip((a, b), result.plan.n_blocks, strict=True))
    ]


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize("kind", ["random", "uniform", "contiguous"])
def test_estimate_is_the_difference_of_two_medians(kind, remainder):
    a, b = normal(203), normal(310, seed=1) + 2
    result = ov.difference(a, b, contamination=3, partition=kind, remainder=remainder)
    means = reference(a, b, result, kind, remainder)
    for found, expected in zip(result.block_values, means, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    assert result.estimate == pytest.approx(np.median(means[1]) - np.median(means[0]), rel=1e-12)
    assert isinstance(result.estimate, float)
    assert result.statistic == "difference"
    assert result.plan.grid == "separate"
    assert [len(v) for v in result.block_values] == [len(s) for s in result.block_sizes] == list(result.plan.n_blocks)
    assert isinstance(result.certificate, Certificate)


def test_empty_hash_blocks_do_not_vote():
    a, b = normal(60), normal(70, seed=1)
    result = ov.difference(a, b, contamination=0, n_blocks=(40, 5), partition="hash", rng=0)
    sizes = draw("hash", 60, 40, 0).sizes
    assert (sizes == 0).any()
    assert result.block_sizes[0].tolist() == sizes[sizes > 0].tolist()
    assert result.plan.n_blocks == ((sizes > 0).sum(), 5)


def test_one_block_gives_the_plain_difference():
    a, b = normal(50), normal(40, seed=1)
    assert ov.difference(a, b, contamination=0, n_blocks=1).estimate == pytest.approx(b.mean() - a.mean())
    medians = ov.difference(a, b, contamination=0, n_blocks=(50, 40)).estimate
    assert medians == np.median(b) - np.median(a)


def test_estimate_resists_nearly_half_corrupt_rows():
    a, b = normal(101), normal(101, seed=1) + 5
    a[:45], b[:45] = 1e9, -1e9
    result = ov.difference(a, b, contamination=45, rng=0, vote="median")
    assert result.plan.holds
    assert result.estimate == pytest.approx(5, abs=4)


def test_contamination_and_blocks_per_sample():
    a, b = normal(400), normal(300, seed=1)
    result = ov.difference(a, b, contamination=(4, 0.01), n_blocks=(21, 11), rng=0)
    assert result.plan.n_corrupt == (4, 3)
    assert result.plan.n_blocks == (21, 11)
    assert ov.difference(a, b, contamination=(4, 3), n_blocks=[21, 11], rng=0).estimate == result.estimate
    assert ov.difference(a, b, contamination=0, n_blocks=(9, "auto")).plan.n_blocks[0] == 9


@pytest.mark.parametrize(
    "spelling", [list, tuple, pd.Series, pl.Series, lambda x: x.astype(">f8"), lambda x: np.repeat(x, 2)[::2]]
)
def test_every_container_gives_the_same_estimate(spelling):
    a, b = normal(90), normal(80, seed=1)
    expected = ov.difference(a, b, contamination=2, rng=0).estimate
    assert ov.difference(spelling(a), spelling(b), contamination=2, rng=0).estimate == expected
    assert ov.difference(a, spelling(b), contamination=2, rng=0).estimate == expected


@pytest.mark.parametrize("dtype", ["f4", "f2", "i2", "?"])
@pytest.mark.parametrize("paired", [False, True])
def test_numbers_of_any_type_are_computed_in_float64(dtype, paired):
    a, b = ((1000 * normal(60, seed=s)).astype("i2").astype(dtype) for s in range(2))
    known = {"assume": (ov.Bounded(-1, 1) if paired else ov.Proportion()) if dtype == "?" else None, "paired": paired}
    found = ov.difference(a, b, contamination=1, rng=0, paired=paired)
    wide = ov.difference(a.astype(np.float64), b.astype(np.float64), contamination=1, rng=0, **known)
    assert found.estimate == wide.estimate


def test_paired_float32_rows_are_subtracted_in_float64():
    a = np.array([2.0**25, 1.0, 1.0], dtype=np.float32)
    b = np.array([1.0, 2.0**25, 1.0], dtype=np.float32)
    found = ov.difference(a, b, contamination=0, n_blocks=3, paired=True, rng=0)
    assert sorted(found.block_values) == [1.0 - 2.0**25, 0.0, 2.0**25 - 1.0]


def test_input_is_not_modified():
    a, b = normal(50), normal(60, seed=1)
    before = a.copy(), b.copy()
    a.flags.writeable = b.flags.writeable = False
    ov.difference(a, b, contamination=1, function=np.abs)
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


def test_seed_of_the_result_reproduces_it():
    a, b = normal(200), normal(150, seed=1)
    first = ov.difference(a, b, contamination=2)
    assert ov.difference(a, b, contamination=2, rng=first.seed).estimate == first.estimate
    generator = ov.difference(a, b, contamination=2, rng=np.random.default_rng(4))
    assert generator.estimate == ov.difference(a, b, contamination=2, rng=np.random.default_rng(4)).estimate


# --- functions of the rows -----------------------------------------------------------------------------


def test_function_is_applied_to_the_rows():
    a, b = normal(200), normal(220, seed=1) * 2
    found = ov.difference(a, b, contamination=2, function=np.square, rng=0)
    assert found.estimate == ov.difference(a**2, b**2, contamination=2, rng=0).estimate


@pytest.mark.parametrize(
    "function",
    [
        lambda row: max(row, 0.0),
        lambda row: 1.0 if row > 0 else 0.0,
        lambda row: math.exp(row),
        lambda row: row > 0,
        lambda row: int(row > 0),
    ],
)
def test_scalar_functions_are_applied_row_by_row(function):
    a, b = normal(100), normal(90, seed=1)
    mapped = [np.array([float(function(v)) for v in x]) for x in (a, b)]
    found = ov.difference(a, b, contamination=2, function=function, rng=0)
    assert found.estimate == pytest.approx(ov.difference(*mapped, contamination=2, rng=0).estimate)


@pytest.mark.parametrize(
    "function", [lambda row: row[0] * row[1], lambda rows: rows[..., 0] * rows[..., 1], lambda row: np.prod(row)]
)
def test_functions_of_vectors(function):
    a, b = normal((80, 2)), normal((70, 2), seed=1)
    found = ov.difference(a, b, contamination=2, function=function, rng=0)
    expected = ov.difference(a.prod(axis=1), b.prod(axis=1), contamination=2, rng=0)
    assert found.estimate == pytest.approx(expected.estimate)


def test_square_samples_are_read_row_by_row():
    a = np.arange(25.0).reshape(5, 5)
    found = ov.difference(a, 2 * a, contamination=0, n_blocks=1, function=lambda row: row[0])
    assert found.estimate == pytest.approx(a[:, 0].mean())


def test_family_gives_the_largest_absolute_difference():
    a, b = normal(300), normal(300, seed=1) - 1
    family = [np.square, lambda x: x, lambda x: x > 0]
    result = ov.difference(a, b, contamination=2, function=family, n_blocks=15, rng=0)
    each = [ov.difference(a, b, contamination=2, function=phi, n_blocks=15, rng=0) for phi in family]
    gaps = [single.estimate for single in each]
    best = int(np.argmax(np.abs(gaps)))
    assert gaps[best] < 0
    assert result.estimate == pytest.approx(abs(gaps[best]))
    assert result.statistic == "integral probability metric"
    assert f"The largest of 3 functions is number {best + 1}." in result.explain()
    for found, expected in zip(result.block_values, each[best].block_values, strict=True):
        np.testing.assert_allclose(found, expected)


def test_family_of_one_function():
    a, b = np.full(20, 2.0), np.full(20, 1.0)
    result = ov.difference(a, b, contamination=0, function=[lambda x: x])
    assert result.estimate == 1.0
    assert result.statistic == "integral probability metric"


def test_family_of_indicators_is_the_kolmogorov_distance():
    rng = np.random.default_rng(2)
    a, b = rng.uniform(size=400), rng.uniform(size=400) ** 2
    family = tuple((lambda x, t=t: x <= t) for t in np.linspace(0.1, 0.9, 9))
    found = ov.difference(a, b, contamination=0, n_blocks=1, function=family).estimate
    assert found == pytest.approx(max(abs(np.mean(b <= t) - np.mean(a <= t)) for t in np.linspace(0.1, 0.9, 9)))


# --- paired and relative ----------------------------------------------------------------------------------


def test_paired_rows_are_subtracted_before_the_vote():
    a = normal(200) * 100
    b = a + 1 + 0.01 * normal(200, seed=1)
    result = ov.difference(a, b, contamination=3, paired=True, rng=0, vote="median")
    alone = ov.mean(b - a, contamination=3, rng=0, vote="median")
    assert result.estimate == alone.estimate
    assert result.statistic == "paired difference"
    np.testing.assert_array_equal(result.block_values, alone.block_values)
    assert result.estimate == pytest.approx(1, abs=0.02)


def test_corrupt_rows_of_pairs_add_up():
    a, b = normal(200), normal(200, seed=1)
    result = ov.difference(a, b, contamination=(2, 0.01), paired=True, rng=0)
    assert result.plan.n_corrupt == 4
    adaptive = ov.Contamination(3, adversary="adaptive")
    assert ov.difference(a, b, contamination=adaptive, paired=True, rng=0).plan.n_corrupt == 3


@pytest.mark.parametrize("function", [np.square, lambda x: x > 0, lambda x: (x > 0).astype(np.uint8)])
def test_paired_rows_with_a_function(function):
    a, b = normal(100), normal(100, seed=1)
    expected = ov.mean(function(b).astype(float) - function(a).astype(float), contamination=2, rng=0, vote="median")
    found = ov.difference(a, b, contamination=2, paired=True, function=function, rng=0, vote="median")
    assert found.estimate == pytest.approx(expected.estimate)


def test_paired_rows_with_nan_are_dropped_together():
    a, b = normal(100), normal(100, seed=1)
    holed_a, holed_b = a.copy(), b.copy()
    holed_a[3], holed_b[[3, 8]] = np.nan, np.nan
    found = ov.difference(holed_a, holed_b, contamination=4, paired=True, nan_policy="omit", rng=0)
    kept = np.setdiff1d(np.arange(100), [3, 8])
    assert found.estimate == ov.difference(a[kept], b[kept], contamination=4, paired=True, rng=0).estimate
    assert found.n_omitted == 2
    corrupt = ov.difference(holed_a, holed_b, contamination=4, paired=True, nan_policy="corrupt", rng=0)
    assert (corrupt.plan.n_rows, corrupt.plan.n_corrupt) == (100, 4)
    mapped = ov.difference(holed_a, holed_b, 4, paired=True, nan_policy="omit", function=np.abs, rng=0)
    assert mapped.n_omitted == 2


def test_nan_policies_apply_per_sample():
    a, b = normal(100), normal(80, seed=1)
    found = ov.difference(np.insert(a, 5, np.nan), b, contamination=3, nan_policy="omit", rng=0)
    assert found.estimate == ov.difference(a, b, contamination=3, rng=0).estimate
    assert found.n_omitted == 1
    corrupt = ov.difference(np.insert(a, 5, np.inf), b, contamination=3, nan_policy="corrupt", rng=0)
    assert corrupt.plan.n_rows == (101, 80)
    assert corrupt.plan.n_corrupt == (3, 3)


def test_relative_difference_divides_by_the_first_mean():
    a, b = normal(300) + 10, normal(200, seed=1) + 11
    absolute = ov.difference(a, b, contamination=2, n_blocks=9, rng=0)
    relative = ov.difference(a, b, contamination=2, n_blocks=9, rng=0, relative=True)
    assert relative.estimate == pytest.approx(absolute.estimate / np.median(absolute.block_values[0]))
    assert relative.estimate == pytest.approx(0.1, abs=0.05)
    assert relative.statistic == "relative difference"


@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_interval_contains_the_estimate(alternative):
    a, b = normal(400), normal(400, seed=1)
    for options in ({}, {"paired": True}, {"function": [np.abs, np.square]}):
        result = ov.difference(a, b, contamination=3, alternative=alternative, rng=0, **options)
        assert result.alternative == alternative
        assert result.interval.low <= result.estimate <= result.interval.high


# --- errors --------------------------------------------------------------------------------------------------


def test_relative_difference_to_zero_raises():
    with pytest.raises(ValueError, match="relative=True divides by the mean of a, which is 0"):
        ov.difference(np.zeros(10), np.ones(10), contamination=0, relative=True, vote="median")


def test_invalid_pairs_raise():
    with pytest.raises(ValueError, match=r"paired=True .*\b10 .*\b9\b"):
        ov.difference(np.ones(10), np.ones(9), contamination=0, paired=True)
    with pytest.raises(ValueError, match="paired=True goes with one function"):
        ov.difference(np.ones(10), np.ones(10), contamination=0, paired=True, relative=True)
    with pytest.raises(ValueError, match="paired=True goes with one function"):
        ov.difference(np.ones(10), np.ones(10), contamination=0, paired=True, function=[np.abs, np.square])


def test_vectors_without_a_function_raise():
    with pytest.raises(ValueError, match=r"a has shape \(10, 2\): give numbers, or a function"):
        ov.difference(np.ones((10, 2)), np.ones((10, 2)), contamination=0, vote="median")


@pytest.mark.parametrize("options", [{}, {"relative": True}, {"paired": True}, {"counted": "each"}])
@pytest.mark.parametrize("assume", [None, ov.FiniteVariance(2.0)])
def test_columns_of_tables_are_compared_one_by_one(options, assume):
    rng = np.random.default_rng(0)
    a = rng.normal([5.0, 8.0, -3.0], size=(300, 3))
    b = rng.normal([6.0, 8.5, -4.0], size=(300, 3))
    b[:2] = math.nan
    options |= {"contamination": 4, "assume": assume, "nan_policy": "corrupt"}
    found = ov.difference(pd.DataFrame(a, columns=list("xyz")), pd.DataFrame(b, columns=list("xyz")), **options)
    assert found.names == ("x", "y", "z")
    for j in range(3):
        one = ov.difference(a[:, j], b[:, j], **options)
        assert found.estimate[j] == one.estimate
        assert found.interval.low[j] == one.interval.low
        assert found.radius[j] == one.radius
    assert "x " in str(found)
    json.dumps(found.to_dict(), allow_nan=False)
    if assume is None:
        assert "(one for each column)" in str(found)
    together = ov.difference(a, b, simultaneous=True, **options)
    assert np.all(together.radius > found.radius)
    assert together.certificate.confidence == pytest.approx(0.95)
    with pytest.raises(ValueError, match="contamination='auto' estimates one column at a time"):
        ov.difference(a, a, **options | {"contamination": "auto"})
    if "paired" not in options:
        with pytest.raises(ValueError, match=r"a has shape \(300, 2\) and b has shape \(300, 3\): they need the same"):
            ov.difference(a[:, :2], b, **options)


def test_empty_family_raises():
    with pytest.raises(ValueError, match=r"function=\[\] is an empty family"):
        ov.difference(np.ones(10), np.ones(10), contamination=0, function=[])


@pytest.mark.parametrize("function", [lambda x: np.ones(3), lambda x: "text", lambda x: None, lambda row: [row, row]])
def test_function_of_wrong_shape_raises(function):
    with pytest.raises((ValueError, TypeError), match="function must map each row of a to one number"):
        ov.difference(np.ones(10), np.ones(10), contamination=0, function=function)


def test_function_returning_nan_raises():
    with pytest.raises(ValueError, match="NaN"):
        ov.difference(np.ones(10), np.ones(10), contamination=0, function=lambda x: x * np.nan)


def test_three_block_counts_raise():
    with pytest.raises(ValueError, match=r"n_blocks=\(3, 3, 3\) has 3 entries for 2 samples"):
        ov.difference(np.ones(10), np.ones(10), contamination=0, n_blocks=(3, 3, 3))


# --- the largest floats ------------------------------------------------------------------------------------------


def test_largest_floats_are_subtracted():
    a, b = np.full(20, 1.6e308), np.full(20, 1.7e308)
    assert ov.difference(a, b, contamination=0, n_blocks=3).estimate == pytest.approx(1e307)
    assert ov.difference(a, b, contamination=0, n_blocks=3, paired=True).estimate == pytest.approx(1e307)


@pytest.mark.parametrize("options", [{}, {"paired": True}, {"function": [np.abs, lambda x: x]}])
def test_difference_beyond_the_largest_float_raises(options):
    a, b = np.full(20, -1.7e308), np.full(20, 1.7e308)
    with pytest.raises(ValueError, match=r"too large|infinite"):
        ov.difference(a, b, contamination=0, n_blocks=3, **options)


def test_relative_difference_beyond_the_largest_float_raises():
    with pytest.raises(ValueError, match=r"too large|infinite"):
        ov.difference(np.full(20, 5e-324), np.full(20, 1e300), contamination=0, relative=True, vote="median")
