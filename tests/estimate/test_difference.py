"""The difference of two robust means, and the largest one over a family of functions."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

import outvote as ov
from outvote.blocks.partition import draw
from outvote.certificate import Certificate


def normal(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize("kind", ["random", "contiguous"])
def test_estimate_is_the_difference_of_two_medians(kind, remainder):
    a, b = normal(203), normal(310, seed=1) + 2
    result = ov.difference(a, b, contamination=3, partition=kind, remainder=remainder)
    medians = []
    for s, (x, k) in enumerate(zip((a, b), result.plan.n_blocks, strict=True)):
        means = [x[rows].mean() for rows in draw(kind, len(x), k, result.seed, stream=s, remainder=remainder)]
        np.testing.assert_allclose(result.block_values[s], means, rtol=1e-12, atol=1e-15)
        assert len(result.block_values[s]) == len(result.block_sizes[s]) == k
        medians.append(np.median(means))
    assert result.estimate == pytest.approx(medians[1] - medians[0], rel=1e-12)
    assert isinstance(result.estimate, float)
    assert (result.statistic, result.plan.grid) == ("difference", "separate")
    assert isinstance(result.certificate, Certificate)


def test_empty_hash_blocks_do_not_vote():
    result = ov.difference(normal(60), normal(70, seed=1), 0, n_blocks=(40, 5), partition="hash", rng=0)
    sizes = draw("hash", 60, 40, 0).sizes
    assert (sizes == 0).any()
    assert result.block_sizes[0].tolist() == sizes[sizes > 0].tolist()
    assert result.plan.n_blocks == ((sizes > 0).sum(), 5)


def test_estimate_resists_nearly_half_corrupt_rows():
    a, b = normal(101), normal(101, seed=1) + 5
    a[:45], b[:45] = 1e9, -1e9
    result = ov.difference(a, b, contamination=45, rng=0, vote="median")
    assert result.plan.holds
    assert result.estimate == pytest.approx(5, abs=4)


def test_contamination_and_blocks_per_sample():
    a, b = normal(400), normal(300, seed=1)
    result = ov.difference(a, b, contamination=(4, 0.01), n_blocks=(21, 11), rng=0)
    assert (result.plan.n_corrupt, result.plan.n_blocks) == ((4, 3), (21, 11))
    assert ov.difference(a, b, contamination=(4, 3), n_blocks=[21, 11], rng=0).estimate == result.estimate
    assert ov.difference(a, b, contamination=0, n_blocks=(9, "auto")).plan.n_blocks[0] == 9


@pytest.mark.parametrize("paired", [False, True])
def test_numbers_of_any_type_are_computed_in_float64(paired):
    for dtype in ("f4", "f2", "i2", "?"):
        a, b = ((1000 * normal(60, seed=s)).astype("i2").astype(dtype) for s in range(2))
        known = {"assume": (ov.Bounded(-1, 1) if paired else ov.Proportion()) if dtype == "?" else None}
        found = ov.difference(a, b, contamination=1, rng=0, paired=paired)
        wide = ov.difference(a.astype(float), b.astype(float), contamination=1, rng=0, paired=paired, **known)
        assert found.estimate == pytest.approx(wide.estimate)
    short = [np.array(x, dtype=np.float32) for x in ([2.0**25, 1.0, 1.0], [1.0, 2.0**25, 1.0])]
    found = ov.difference(*short, contamination=0, n_blocks=3, paired=True, rng=0)
    assert sorted(found.block_values) == [1.0 - 2.0**25, 0.0, 2.0**25 - 1.0]


def test_input_is_not_modified():
    a, b = normal(50), normal(60, seed=1)
    before = a.copy(), b.copy()
    a.flags.writeable = b.flags.writeable = False
    ov.difference(a, b, contamination=1, function=np.abs)
    np.testing.assert_array_equal(a, before[0])
    np.testing.assert_array_equal(b, before[1])


# --- functions of the rows -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [np.square, lambda row: max(row, 0.0), lambda row: 1.0 if row > 0 else 0.0, lambda row: row > 0,
     lambda row: int(row > 0)],
)  # fmt: skip
def test_functions_are_applied_to_the_rows(function):
    a, b = normal(100), normal(90, seed=1)
    mapped = [np.array([float(function(v)) for v in x]) for x in (a, b)]
    found = ov.difference(a, b, contamination=2, function=function, rng=0)
    assert found.estimate == pytest.approx(ov.difference(*mapped, contamination=2, rng=0).estimate)


def test_functions_of_vectors():
    a, b = normal((80, 2)), normal((70, 2), seed=1)
    expected = ov.difference(a.prod(axis=1), b.prod(axis=1), contamination=2, rng=0).estimate
    for function in (lambda row: row[0] * row[1], lambda rows: rows[..., 0] * rows[..., 1], lambda row: np.prod(row)):
        found = ov.difference(a, b, contamination=2, function=function, rng=0)
        assert found.estimate == pytest.approx(expected)
    square = np.arange(25.0).reshape(5, 5)  # which is read row by row
    found = ov.difference(square, 2 * square, contamination=0, n_blocks=1, function=lambda row: row[0])
    assert found.estimate == pytest.approx(square[:, 0].mean())


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
    one = ov.difference(np.full(20, 2.0), np.full(20, 1.0), contamination=0, function=[lambda x: x])
    assert (one.estimate, one.statistic) == (1.0, "integral probability metric")


def test_family_of_indicators_is_the_kolmogorov_distance():
    rng = np.random.default_rng(2)
    a, b = rng.uniform(size=400), rng.uniform(size=400) ** 2
    family = tuple((lambda x, t=t: x <= t) for t in np.linspace(0.1, 0.9, 9))
    found = ov.difference(a, b, contamination=0, n_blocks=1, function=family).estimate
    assert found == pytest.approx(max(abs(np.mean(b <= t) - np.mean(a <= t)) for t in np.linspace(0.1, 0.9, 9)))


# --- paired and relative ----------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [None, np.square, lambda x: x > 0, lambda x: (x > 0).astype(np.uint8)])
def test_paired_rows_are_subtracted_before_the_vote(function):
    a = normal(200)
    b = a + 1 + 0.01 * normal(200, seed=1)
    result = ov.difference(a, b, contamination=3, paired=True, function=function, rng=0, vote="median")
    of_a, of_b = (x if function is None else function(x).astype(float) for x in (a, b))
    alone = ov.mean(of_b - of_a, contamination=3, rng=0, vote="median")
    assert result.estimate == pytest.approx(alone.estimate)
    assert result.statistic == "paired difference"
    np.testing.assert_allclose(result.block_values, alone.block_values)


def test_corrupt_rows_of_pairs_add_up():
    a, b = normal(200), normal(200, seed=1)
    for allowed, count in (((2, 0.01), 4), (ov.Contamination(3, adversary="adaptive"), 3)):
        assert ov.difference(a, b, contamination=allowed, paired=True, rng=0).plan.n_corrupt == count


def test_paired_rows_with_nan_are_dropped_together():
    a, b = normal(100), normal(100, seed=1)
    holed_a, holed_b = a.copy(), b.copy()
    holed_a[3], holed_b[[3, 8]] = np.nan, np.nan
    found = ov.difference(holed_a, holed_b, contamination=4, paired=True, nan_policy="omit", rng=0)
    kept = np.setdiff1d(np.arange(100), [3, 8])
    assert found.estimate == pytest.approx(ov.difference(a[kept], b[kept], 4, paired=True, rng=0).estimate)
    corrupt = ov.difference(holed_a, holed_b, contamination=4, paired=True, nan_policy="corrupt", rng=0)
    assert (found.n_omitted, corrupt.plan.n_rows, corrupt.plan.n_corrupt) == (2, 100, 4)
    assert ov.difference(holed_a, holed_b, 4, paired=True, nan_policy="omit", function=np.abs).n_omitted == 2


def test_nan_policies_apply_per_sample():
    a, b = normal(100), normal(80, seed=1)
    found = ov.difference(np.insert(a, 5, np.nan), b, contamination=3, nan_policy="omit", rng=0)
    assert found.estimate == pytest.approx(ov.difference(a, b, contamination=3, rng=0).estimate)
    assert found.n_omitted == 1
    corrupt = ov.difference(np.insert(a, 5, np.inf), b, contamination=3, nan_policy="corrupt", rng=0)
    assert (corrupt.plan.n_rows, corrupt.plan.n_corrupt) == ((101, 80), (3, 3))


def test_relative_difference_divides_by_the_first_mean():
    a, b = normal(300) + 10, normal(200, seed=1) + 11
    absolute, relative = (ov.difference(a, b, 2, n_blocks=9, rng=0, relative=one) for one in (False, True))
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


@pytest.mark.parametrize(
    ("options", "assume"),
    [({}, None), ({"relative": True}, ov.FiniteVariance(2.0)), ({"paired": True}, None), ({"counted": "each"}, None)],
)
def test_columns_of_tables_are_compared_one_by_one(options, assume):
    rng = np.random.default_rng(0)
    a = rng.normal([5.0, 8.0, -3.0], size=(300, 3))
    b = rng.normal([6.0, 8.5, -4.0], size=(300, 3))
    b[:2] = math.nan
    options = {"contamination": 4, "assume": assume, "nan_policy": "corrupt", **options}
    found = ov.difference(pd.DataFrame(a, columns=list("xyz")), pd.DataFrame(b, columns=list("xyz")), **options)
    assert found.names == ("x", "y", "z")
    for j in range(3):
        one = ov.difference(a[:, j], b[:, j], **options)
        many = found.estimate[j], found.interval.low[j], found.radius[j]
        assert many == pytest.approx((one.estimate, one.interval.low, one.radius), rel=1e-9)
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


# --- errors, and the largest floats ---------------------------------------------------------------------------


def test_what_does_not_go_together_raises():
    ones, pairs = np.ones(10), np.ones((10, 2))
    for samples, options, message in (
        (
            (np.zeros(10), ones),
            {"relative": True, "vote": "median"},
            "relative=True divides by the mean of a, which",
        ),
        ((ones, np.ones(9)), {"paired": True}, r"paired=True .*\b10 .*\b9\b"),
        ((ones, ones), {"paired": True, "relative": True}, "paired=True goes with one function"),
        ((ones, ones), {"paired": True, "function": [np.abs, np.square]}, "paired=True goes with one function"),
        ((pairs, pairs), {"vote": "median"}, r"a has shape \(10, 2\): give numbers, or a function"),
        ((ones, ones), {"function": []}, r"function=\[\] is an empty family"),
        ((ones, ones), {"function": lambda x: x * np.nan}, "NaN"),
    ):
        with pytest.raises(ValueError, match=message):
            ov.difference(*samples, contamination=0, **options)
    for function in (lambda x: np.ones(3), lambda x: "text", lambda x: None, lambda row: [row, row]):
        with pytest.raises((ValueError, TypeError), match="function must map each row of a to one number"):
            ov.difference(ones, ones, contamination=0, function=function)


def test_largest_floats():
    for low, high in ((1.6e308, 1.7e308), (-1.7e308, 1.7e308)):
        a, b = np.full(20, low), np.full(20, high)
        for options in ({}, {"paired": True}, {"function": [np.abs, lambda x: x]}):
            if low > 0:
                found = ov.difference(a, b, contamination=0, n_blocks=3, **options)
                assert found.estimate == pytest.approx(1e307)
            else:
                with pytest.raises(ValueError, match=r"too large|infinite"):
                    ov.difference(a, b, contamination=0, n_blocks=3, **options)
    with pytest.raises(ValueError, match=r"too large|infinite"):
        ov.difference(np.full(20, 5e-324), np.full(20, 1e300), contamination=0, relative=True, vote="median")
