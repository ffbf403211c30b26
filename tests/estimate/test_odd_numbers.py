"""Numbers at the ends of floats, and values of other kinds, in every function: a right answer, or a clear refusal."""

import json
import math
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import outvote as ov
from outvote.metrics.numbers import d2_absolute_error


@pytest.fixture(autouse=True)
def _no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


Z, GINI = np.random.default_rng(3).normal(size=3000), "gini"


@pytest.mark.parametrize("scale", [1e-200, 2.0**-700, 1e-160, 1e155, 2.0**600])
def test_votes_of_blocks_are_as_wide_at_every_scale(scale):
    for rows in (Z, Z[:30]):
        for asked in ({"vote": "median"}, {"vote": "soft"}, {"vote": "median", "assume": ov.FiniteKurtosis(3.5)}):
            found, expected = ov.mean(rows * scale, rng=0, **asked), ov.mean(rows, rng=0, **asked)
            assert found.radius / scale == pytest.approx(expected.radius, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-200, 1e-160])
def test_sums_of_squares_without_digits_bound_no_sd(scale):
    summary = ov.BlockSummary(149).update(Z * scale)
    assert summary.result(assume=ov.FiniteKurtosis(3.5)).radius == math.inf
    with pytest.raises(ValueError, match="has lost digits: multiply the rows by a power of ten first"):
        ov.certificate.sigma_upper(1e-300, kurtosis=3, n_blocks=41, n_corrupt=1, block_size=100, confidence=0.9)


@pytest.mark.parametrize("vote", ["median", "soft"])
def test_a_column_has_the_scale_that_it_has_alone(vote):
    table = np.random.default_rng(0).normal(size=(9000, 3))
    together = ov.mean(table, vote=vote, rng=0)
    for j in range(3):
        alone = ov.mean(table[:, j], vote=vote, rng=0)
        assert together.low[j] == pytest.approx(alone.low, rel=1e-12)
        assert together.estimate[j] == pytest.approx(alone.estimate, rel=1e-12)


@pytest.mark.parametrize(
    "values",
    [np.ma.array(np.arange(21.0), mask=np.arange(21) > 10), np.arange(21).astype(str), np.arange(21) * 1j, 5,
     np.array(["2020-01-01"] * 21, dtype="datetime64[D]"), [[1.0], [2.0, 3.0]]],
)  # fmt: skip
def test_certificates_read_rows_as_estimates_do(values):
    for call in (
        lambda: ov.certificate.order_statistic_interval(values, 2, confidence=0.9),
        lambda: ov.certificate.sigma_upper(
            "1" if isinstance(values, int) else values, kurtosis=3, n_blocks=41, n_corrupt=1, block_size=10, delta=0.1
        ),
    ):
        with pytest.raises((TypeError, ValueError), match=r"^(block_values|variance)"):
            call()


V = ov.FiniteVariance(10.0)


@pytest.mark.parametrize(
    ("function", "asked"),
    [
        ("mean_squared_error", {"n_blocks": 101, "n_corrupt": 5, "block_size": 9, "assume": ov.FiniteVariance(1e160)}),
        ("mean_squared_error", {"n_blocks": 101, "n_corrupt": 5, "block_size": 9, "assume": ov.Bounded(-1e299, 1e299)}),
        ("radius", {"n_blocks": 101, "n_corrupt": 5, "block_size": np.float16(100), "confidence": 0.9, "assume": V}),
        ("radius", {"n_blocks": 2**53, "n_corrupt": 5, "block_size": 100, "confidence": 0.9, "assume": V,
                    "adversary": "adaptive"}),
        ("radius", {"n_blocks": 10**15, "n_corrupt": (1, 1), "block_size": (10, 10), "confidence": 0.95,
                    "assume": ov.Bounded(0, 1), "degrees": (1, 1)}),
        ("sigma_free_radius", {"kurtosis": 2, "n_blocks": 2**53, "n_corrupt": 5, "block_size": 100, "confidence": 0.9}),
    ],
)  # fmt: skip
def test_certificates_of_extreme_numbers_are_numbers(function, asked):
    given = (9.0,) if function == "sigma_free_radius" else ()
    assert getattr(ov.certificate, function)(*given, **asked) > 0


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"n_blocks": [1, [2, 3]]}, "n_blocks=.* is ragged"),
        ({"block_size": [[1, 2], [3]]}, "block_size=.* is ragged"),
        ({"n_blocks": 2**53, "degrees": (1, 1)}, "too many for a full grid"),
    ],
)
def test_impossible_blocks_of_certificates_are_refused(asked, told):
    given = {"n_blocks": 41, "n_corrupt": 5, "block_size": 100, "assume": V, **asked}
    with pytest.raises(ValueError, match=told):
        ov.certificate.expected_error(**given)


@pytest.mark.parametrize(
    ("radius", "known", "more"),
    [
        (1.0, ov.FiniteVariance(1e300), {"alternative": "less"}),
        (np.float32(0.9), ov.FiniteVariance(1e300), {"vote": "evidence"}),
        (0.5, ov.Bounded(-1e299, 1e299), {}),
    ],
)
def test_radii_that_no_rows_reach_are_refused_quietly(radius, known, more):
    with pytest.raises(ValueError, match="cannot be guaranteed beforehand"):
        ov.rows_needed(radius, 5, assume=known, **more)


def test_radii_that_no_float_holds_are_refused():
    with pytest.raises(ValueError, match="radius"):
        ov.rows_needed(10**400, assume=V)


def test_bounds_with_variances_at_the_ends_of_floats():
    with pytest.raises(ValueError, match="variance=1e-320 must be at least 1e-290"):
        ov.Bounded(0, 100, variance=1e-320)
    with pytest.raises(ValueError, match=r"low=-1e\+308, high=1e\+308: their distance must lie between"):
        ov.Bounded(-1e308, 1e308)
    assert ov.Bounded(0, 1e10, variance=1e15).scaled(1e-200).variance is None
    assert ov.Bounded(0, 1, variance=0.1).scaled(2.0).variance == pytest.approx(0.4)


def test_tiny_scales_of_monitors_are_taken():
    watch = (
        ov.Monitor(claim="difference > 0", contamination=5, pilot=50).update(Z[:200], arm="a").update(Z[200:], arm="b")
    )
    document = json.loads(watch.to_json())
    document["arms"]["b"]["sd"] = 1e-9
    again = ov.Monitor.from_json(json.dumps(document)).update([1.0], arm="a").update([1.0], arm="b")
    low, high = again.result().interval
    assert low <= high


def test_symmetric_rows_of_the_largest_size_are_quiet():
    rows = np.tile([1.79e308, -1.79e308], 30)
    known = ov.Contamination(2, adversary="adaptive")
    low, high = ov.mean(rows, assume=ov.Symmetric(), contamination=known, alternative="greater").interval
    assert low <= 0
    assert high == math.inf


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"name": 5}, "name=5 must be text"),
        ({"degrees": 10**400}, "must hold an integer from 1 to 1000"),
        ({"vectorized": "x"}, "vectorized='x' must be True or False"),
        ({"columns": 1.5}, "columns=1.5 must be an integer"),
    ],
)
def test_fields_of_kernels_are_checked(asked, told):
    with pytest.raises((TypeError, ValueError), match=told):
        ov.Kernel(lambda a, b: a - b, **asked)


def test_zetas_that_no_float_holds_are_refused():
    kernel = ov.Kernel(lambda a, b: abs(a - b), zetas=(10**400, 1))
    with pytest.raises(ValueError, match="zetas is too large for a float"):
        ov.u_statistic(Z[:60], kernel=kernel)


@pytest.mark.parametrize("value", [pd.NA, pd.Series([1, 2]), pl.Series([1, 2]), np.array(["drop", "spread"]), 5])
def test_choices_of_another_kind_are_refused(value):
    for call in (
        lambda: ov.mean(Z, remainder=value),
        lambda: ov.mean(Z, ratio=value),
        lambda: ov.scan({}, hash=value),
        lambda: ov.Contamination(1, adversary=value),
        lambda: ov.Contamination(1).inject(Z, 1.0, how=value),
        lambda: ov.u_statistic(Z, kernel=GINI, grid=value),
        lambda: ov.difference(Z, Z, counted=value),
    ):
        with pytest.raises((TypeError, ValueError), match=r"must be|neither"):
            call()


@pytest.mark.parametrize("seed", [-1, "x", 1.5])
def test_seeds_that_are_none_are_refused(seed):
    with pytest.raises(TypeError, match=r"rng=.* must be an integer seed of at least 0"):
        ov.Contamination(3).inject(Z, 1e6, rng=seed)


@pytest.mark.parametrize("ax", [5, "x", np.array([1, 2])])
def test_axes_of_another_kind_are_refused(ax):
    with pytest.raises(TypeError, match="must be axes of matplotlib: of several, give one"):
        ov.mean(Z).plot(ax)


def test_sparse_rows_are_refused_everywhere():
    rows = sparse.csr_matrix(Z[:40, None])
    for call in (ov.mean, ov.RowSummary().update, ov.Monitor().update):
        with pytest.raises(TypeError, match="holds object values"):
            call(rows)


@pytest.mark.parametrize("dtype", [pl.Int128, pl.UInt128])
def test_long_integers_of_polars_are_numbers(dtype):
    series = pl.Series("v", [1, 2, 3] * 100, dtype=dtype)
    expected = ov.mean(series.cast(pl.Float64))
    for found in (ov.mean(series), ov.mean(series.to_frame()), ov.scan(series.to_frame()).mean("v")):
        assert np.ravel(found.interval).tolist() == pytest.approx(list(expected.interval))


@pytest.mark.parametrize("size", [1e200, 1e308, -7e200])
def test_equal_rows_of_any_size_have_no_spread(size):
    rows = np.full(196, size)
    frame = pd.DataFrame({"v": rows})
    for source in (frame, pl.from_pandas(frame).lazy(), duckdb.from_arrow(pa.Table.from_pandas(frame))):
        assert ov.scan(source).variance("v", contamination=0, rng=0).estimate == 0
    parts = ov.BlockSummary(5).update(rows[:50]).merge(ov.BlockSummary(5).update(rows[50:], ids=np.arange(50, 196)))
    assert not parts.m2.any()
    assert parts.result().estimate == pytest.approx(size, rel=1e-15)


def test_block_values_that_differ_by_rounding_say_nothing_of_the_scale():
    kernel = ov.Kernel(lambda a, b: 0.3 + 0 * (a + b), name="one")
    found = ov.u_statistic(Z[:60], kernel=kernel, n_blocks=5, contamination=1, rng=0)
    assert found.radius == math.inf


def test_medians_of_the_largest_floats_are_quiet():
    rows = np.where(Z[:60] > 0, 1.7e308, 1.6e308)
    assert d2_absolute_error(rows, rows / 2).interval.high <= 1
    found = ov.u_statistic(rows, kernel=ov.Kernel(lambda a, b: np.maximum(a, b)), n_blocks=4, contamination=1, rng=0)
    assert found.estimate <= 1.7e308
    with pytest.raises(ValueError, match="not symmetric"):
        ov.u_statistic(np.tile([1.7e308, -1.7e308], 30), kernel=ov.Kernel(lambda a, b: a), contamination=1)
