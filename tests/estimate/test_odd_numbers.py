"""Numbers at the ends of floats, and arguments of other kinds: a right answer or a clear refusal, without a warning."""

from __future__ import annotations

import json
import math
import warnings

import duckdb
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

import outvote as ov
from outvote.data.missing import ContradictionError
from outvote.estimate.adjusted import fit_slope
from outvote.metrics.numbers import d2_absolute_error

G, H = np.random.default_rng(0).normal(size=(2, 60))
X, Y = np.random.default_rng(0).normal(size=(2, 300))
Z = np.random.default_rng(3).normal(size=3000)
LARGEST, UNIT, V = 1.7e308, ov.FiniteVariance(1.0), ov.FiniteVariance(10.0)
SIDES = ("two-sided", "less", "greater")


@pytest.fixture(autouse=True)
def _no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# --- rows near the largest float, near 0, and of more digits than floats have -------------------------------------


ASKED = {
    "mean": lambda x, **asked: ov.mean(x, **asked),
    "median": lambda x, **asked: ov.mean(x, vote="median", rng=0, **asked),
    "hash": lambda x, **asked: ov.mean(x, partition="hash", rng=0, **asked),
    "difference": lambda x, **asked: ov.difference(x, x[::-1], **asked),
    "quantile": lambda x, **asked: ov.quantile(x, **asked),
    "risk": lambda x, **asked: ov.certify_risk(x, **asked),
    "tolerance": lambda x, **asked: ov.tolerance(x, claim="mean > 0", **asked).estimate,
}


@pytest.mark.parametrize("name", ASKED)
def test_rows_at_the_ends_of_floats_have_an_interval_around_the_estimate(name):
    for scale in (4e307, 1e-320):
        found = ASKED[name](X * scale, contamination=3)
        assert found.interval.low <= found.estimate <= found.interval.high
        assert math.isfinite(found.estimate)
    for confidence in (1e-17, 5e-324, 10**400):
        with pytest.raises(ValueError, match="confidence"):
            ASKED[name](X, confidence=confidence)


@pytest.mark.parametrize("scale", [1e-200, 2.0**-700, 1e155])
def test_votes_of_blocks_are_as_wide_at_every_scale(scale):
    for rows in (Z, Z[:30]):
        for asked in ({"vote": "median"}, {"vote": "soft"}, {"vote": "median", "assume": ov.FiniteKurtosis(3.5)}):
            found, expected = ov.mean(rows * scale, rng=0, **asked), ov.mean(rows, rng=0, **asked)
            assert found.radius / scale == pytest.approx(expected.radius, rel=1e-9)


def test_sums_of_squares_without_digits_bound_no_sd():
    assert ov.BlockSummary(149).update(Z * 1e-160).result(assume=ov.FiniteKurtosis(3.5)).radius == math.inf
    with pytest.raises(ValueError, match="has lost digits: multiply the rows by a power of ten first"):
        ov.certificate.sigma_upper(1e-300, kurtosis=3, n_blocks=41, n_corrupt=1, block_size=100, confidence=0.9)


def test_a_column_has_the_scale_that_it_has_alone():
    table = np.random.default_rng(0).normal(size=(2000, 3))
    for vote in ("median", "soft"):
        together = ov.mean(table, vote=vote, rng=0)
        for j in range(3):
            alone = ov.mean(table[:, j], vote=vote, rng=0)
            assert (together.low[j], together.estimate[j]) == pytest.approx((alone.low, alone.estimate), rel=1e-9)


@pytest.mark.parametrize("size", [1e6, 1e150, LARGEST])
def test_rows_of_any_size_contradict_a_small_sd(size):
    rows = np.array([size, -size] * 30)
    for alternative in SIDES:
        with pytest.raises(ContradictionError, match="no mean fits them"):
            ov.mean(rows, assume=UNIT, alternative=alternative)
        known = ov.FiniteKurtosis(5.0, sd=1e-8)
        with pytest.raises(ValueError, match="the rows contradict assume"):
            ov.difference(X * 1e-8, Y * 50, 0.01, 0.5, assume=known, alternative=alternative)
    with pytest.raises(ContradictionError, match="no mean fits them"):
        ov.certify_risk(rows, assume=UNIT)
    with pytest.raises(ValueError, match="contradict"):
        ov.difference(np.r_[X, X + 1e6], Y, contamination=0, assume=(ov.FiniteVariance(1e-3), None))
    with pytest.raises(ValueError, match=r"sd=1e\+199"):  # as it was declared
        ov.difference(X * 1e200, Y * 1e200, 1, assume=ov.FiniteVariance(1e199))


def test_tolerances_and_ratios_of_the_largest_rows_say_nothing():
    assert "it is not settled whether" in str(ov.tolerance(np.array([1e307, -1e307] * 30), G, assume=UNIT))
    assert "do not settle" in str(ov.tolerance([LARGEST] * 3, [1.0] * 3, assume=ov.SubGaussian(1.0)))
    with pytest.raises(ValueError, match="the rows contradict"):
        ov.difference(np.array([LARGEST, -LARGEST] * 30), G, assume=UNIT, relative=True)
    for scale in (1.0, 1e300):
        with pytest.raises(ValueError, match="the difference is too large for a float"):
            ov.difference(np.full(60, 5e-324), G * scale, covariate=(H, G), relative=True)


@pytest.mark.parametrize("size", [1e15, 1e18, -1e250])
def test_intervals_allow_for_the_digits_that_floats_have(size):
    rows, digit = np.full(60, size), np.spacing(abs(size))
    for settings in ({}, {"vote": "median", "rng": 0}, {"contamination": 0}):
        for one in (ov.mean(rows, assume=UNIT, **settings), ov.difference(0 * rows, rows, assume=UNIT, **settings)):
            assert one.interval.low <= size - max(digit, 0.05)
            assert one.interval.high >= size + max(digit, 0.05)
    found = ov.mean(np.full(50, 1e140), 1, assume=UNIT)
    assert found.interval.low <= 1e140 <= found.interval.high < found.interval.low + 1e128
    for far, sd in ((1e308, 1e-3), (1e300, 1.0)):  # a scale that is nothing beside the rows
        for samples in ([np.full(50, far)], [np.full(50, far)] * 2):
            with pytest.raises(ValueError, match=r"assume.* the rows .* subtract a typical row"):
                (ov.mean if len(samples) == 1 else ov.difference)(*samples, 1, assume=ov.FiniteVariance(sd))


def test_a_premise_grows_in_few_steps_to_whatever_the_rows_ask_for():
    x = np.r_[np.full(40, -1e300), X * 1e-3]
    found = ov.mean(x, 2)
    assert found.interval.low < -1e298
    assert found.certificate.premise_sd > 1e298
    assert ov.Monitor().update(x[::-1]).result().interval.low < -1e298


def test_kernels_at_the_ends_of_floats():
    everywhere = ov.Kernel(lambda a, b: np.inf + 0 * a, degrees=2, name="infinite")
    for rows, kernel in ((1e160 * G, "variance"), (1e155 * G, "variance"), (G, everywhere)):
        with pytest.raises(ValueError, match=r"is too large for a float on [0-9]+ of 30 disjoint tuples"):
            ov.u_statistic(rows, kernel=kernel, contamination=1)
    assert math.isfinite(ov.u_statistic(np.r_[G, 1e200], kernel="variance", contamination=1).radius)
    asked = {"n_blocks": 5, "contamination": 1, "rng": 0}
    noise = ov.Kernel(lambda a, b: 0.3 + 0 * (a + b), name="one")  # whose values differ by rounding
    assert ov.u_statistic(G, kernel=noise, **asked).radius == math.inf
    rows = np.where(G > 0, LARGEST, 1.6e308)
    assert d2_absolute_error(rows, rows / 2).interval.high <= 1
    larger = ov.Kernel(lambda a, b: np.maximum(a, b))
    assert ov.u_statistic(rows, kernel=larger, **asked | {"n_blocks": 4}).estimate <= LARGEST
    with pytest.raises(ValueError, match="not symmetric"):
        ov.u_statistic(np.tile([LARGEST, -LARGEST], 30), kernel=ov.Kernel(lambda a, b: a), contamination=1)


def test_adjusting_by_a_covariate_does_not_depend_on_its_unit():
    before = (G + H, H - G)
    plain = ov.difference(G, H, covariate=before, rng=0)
    for scale in (1e155, 1e-200):
        found = ov.difference(G, H, covariate=tuple(scale * one for one in before), rng=0)
        assert [*found.interval] == pytest.approx([*plain.interval], rel=1e-9)
    x, y = np.random.default_rng(1).normal(size=(2, 500))
    y += 0.5 * x
    slope = fit_slope(x, y, 0.01)
    assert fit_slope(2.0**800 * x, 2.0**-200 * y, 0.01) == 2.0**-1000 * slope
    assert fit_slope(1e-200 * x, 1e200 * y, 0.01) == 0.0  # which no float holds
    far = np.r_[LARGEST, -LARGEST, x[2:]]
    assert fit_slope(far, y, 0.01) == pytest.approx(slope, abs=0.1)
    assert fit_slope(y, far, 0.01) == pytest.approx(fit_slope(y, x, 0.01), abs=0.1)


def test_monitors_of_the_largest_and_the_smallest_rows_can_be_sent():
    watch = ov.Monitor(n_plan=200).update(np.array([LARGEST, -LARGEST] * 30))
    again = ov.Monitor.from_json(watch.to_json()).result()
    assert again.certificate.provenance == watch.result().certificate.provenance == "none"
    watch = ov.Monitor(claim="difference > 0", contamination=1, pilot=9).update(G[:12], arm="a").update(H[:12], arm="b")
    document = json.loads(watch.to_json())
    document["arms"]["b"]["sd"] = 1e-9
    again = ov.Monitor.from_json(json.dumps(document)).update([1.0], arm="a").update([1.0], arm="b")
    low, high = again.result().interval
    assert low <= high


def test_symmetric_rows_of_the_largest_size_are_quiet():
    rows, known = np.tile([1.79e308, -1.79e308], 30), ov.Contamination(2, adversary="adaptive")
    low, high = ov.mean(rows, assume=ov.Symmetric(), contamination=known, alternative="greater").interval
    assert low <= 0
    assert high == math.inf


def test_equal_rows_of_any_size_have_no_spread():
    for size in (1e200, 1e308, -7e200):
        rows = np.full(196, size)
        frame = pd.DataFrame({"v": rows})
        for source in (frame, pl.from_pandas(frame).lazy(), duckdb.from_arrow(pa.Table.from_pandas(frame))):
            assert ov.scan(source).variance("v", contamination=0, rng=0).estimate == 0
        parts = ov.BlockSummary(5).update(rows[:50])
        parts.merge(ov.BlockSummary(5).update(rows[50:], ids=np.arange(50, 196)))
        assert not parts.m2.any()
        assert parts.result().estimate == pytest.approx(size, rel=1e-15)


def test_bounds_of_the_sd_scale_with_rows_of_any_size():
    rows = np.r_[G, H, G, H]
    expected = ov.certificate.sigma_bounds(rows, 2, kurtosis=9.0)
    for scale in (1e-290, 1e307):
        found = ov.certificate.sigma_bounds(rows * scale, 2, kurtosis=9.0)
        assert found == pytest.approx(tuple(scale * one for one in expected), rel=0.05)  # sds come in cells


@pytest.mark.parametrize(("size", "alternative"), [(0.0, "less"), (5e-324, "two-sided"), (-1e299, "greater")])
def test_equal_rows_are_drawn_quietly(size, alternative):
    plt.switch_backend("agg")
    rows = np.full(12, size)
    for found in (ov.mean(rows, contamination=1, assume=UNIT, alternative=alternative), ov.quantile(rows),
                  ov.mean(rows, n_blocks=3, contamination=1, rng=0), ov.sensitivity(rows),
                  ov.difference(rows, rows, assume=UNIT), ov.Monitor(assume=UNIT).update(rows)):  # fmt: skip
        left, right = found.plot().ax_.get_xlim()
        assert left < right
        plt.gcf().canvas.draw()
        plt.close("all")


def test_numbers_too_large_to_draw_are_refused_and_corrupt_ones_lie_outside():
    plt.switch_backend("agg")
    rows = np.r_[G, H] * 1e302
    for found in (ov.mean(rows), ov.quantile(rows), ov.sensitivity(rows),
                  ov.mean(rows, n_blocks=5, contamination=1, rng=0), ov.difference(rows, rows)):  # fmt: skip
        with pytest.raises(ValueError, match="too large to draw: divide the rows by a power of ten first"):
            found.plot()
    assert not plt.get_fignums()
    for vote in ("auto", "median", "soft"):
        found = ov.mean(np.r_[rows / 1e302, LARGEST], contamination=2, vote=vote, rng=0)
        low, high = found.plot().ax_.get_xlim()
        assert abs(low) + abs(high) < 100
        plt.close("all")


# --- arguments ----------------------------------------------------------------------------------------------------


BLOCKS = {"n_blocks": 101, "n_corrupt": 5, "block_size": 9}


def test_certificates_of_extreme_numbers_are_numbers():
    sure, kurtosis, bounded = {"confidence": 0.9}, {"kurtosis": 2}, ov.Bounded(-1e299, 1e299)
    for found in (
        ov.certificate.mean_squared_error(**BLOCKS, assume=ov.FiniteVariance(1e160)),
        ov.certificate.mean_squared_error(**BLOCKS, assume=bounded),
        ov.certificate.radius(**BLOCKS | sure | {"block_size": np.float16(100)}, assume=V),
        ov.certificate.radius(**BLOCKS | sure | {"n_blocks": 2**53}, assume=V, adversary="adaptive"),
        ov.certificate.radius(n_blocks=10**15, n_corrupt=(1, 1), block_size=(10, 10), **sure, assume=ov.Bounded(0, 1),
                              degrees=(1, 1)),
        ov.certificate.sigma_free_radius(9.0, **BLOCKS | sure | kurtosis | {"n_blocks": 2**53}),
    ):  # fmt: skip
        assert found > 0


def sigma_upper(variance, **options):
    return ov.certificate.sigma_upper(variance, kurtosis=3, n_blocks=41, n_corrupt=1, block_size=10, delta=0.1)


def monitor_of(rows):
    return ov.Monitor().update(rows)


DATES, FRAME = np.array(["2020-01-01"] * 21, dtype="datetime64[D]"), pd.DataFrame(np.c_[X, Y], columns=["a", "a"])
NO_ROWS = [np.ma.array(np.arange(21.0), mask=np.arange(21) > 10), np.arange(21).astype(str), np.arange(21) * 1j, DATES,
           [[1.0], [2.0, 3.0]]]  # fmt: skip
CHOICES = [pd.NA, pd.Series([1, 2]), np.array(["drop", "spread"]), 5]
TRUTHS = [(ov.difference, "relative", 2), (ov.difference, "paired", 2), (ov.tolerance, "paired", 2),
          (ov.mean, "simultaneous", 1), (ov.quantile, "simultaneous", 1),
          (ov.quantile_difference, "simultaneous", 2)]  # fmt: skip
REFUSED = [
    *((lambda one=one: ov.certificate.order_statistic_interval(one, 2, confidence=0.9), "^block_values")
      for one in (*NO_ROWS, 5)),
    *((lambda one=one: sigma_upper(one), "^variance") for one in (*NO_ROWS, "1")),
    *((lambda one=one: ov.certificate.expected_error(**BLOCKS | one, assume=V), told) for one, told in (
        ({"n_blocks": [1, [2, 3]]}, "n_blocks=.* is ragged"), ({"block_size": [[1, 2], [3]]}, "block_size=.* is ragge"),
        ({"n_blocks": 2**53, "degrees": (1, 1)}, "too many for a full grid"))),
    (lambda: ov.rows_needed(1.0, 5, assume=ov.FiniteVariance(1e300), alternative="less"), "cannot be guaranteed"),
    (lambda: ov.rows_needed(np.float32(0.9), 5, assume=ov.FiniteVariance(1e300), vote="evidence"), "cannot be"),
    (lambda: ov.rows_needed(0.5, 5, assume=ov.Bounded(-1e299, 1e299)), "cannot be guaranteed beforehand"),
    (lambda: ov.rows_needed(10**400, assume=V), "radius"),
    (lambda: ov.Bounded(0, 100, variance=1e-320), "variance=1e-320 must be at least 1e-290"),
    (lambda: ov.Bounded(-1e308, 1e308), r"low=-1e\+308, high=1e\+308: their distance must lie between"),
    *((lambda one=one: ov.Kernel(lambda a, b: a - b, **one), told) for one, told in (
        ({"name": 5}, "name=5 must be text"), ({"degrees": 10**400}, "must hold an integer from 1 to 1000"),
        ({"vectorized": "x"}, "vectorized='x' must be True or False"), ({"columns": 1.5}, "columns=1.5 must be"))),
    (lambda: ov.u_statistic(G, kernel=ov.Kernel(lambda a, b: abs(a - b), zetas=(10**400, 1))), "zetas is too large"),
    *((lambda one=one, name=name: ov.mean(G, **{name: one}), "must be|neither")
      for one in CHOICES for name in ("remainder", "ratio")),
    *((lambda one=one: ov.scan({}, hash=one), "must be|neither") for one in CHOICES),
    *((lambda one=one: ov.Contamination(1, adversary=one), "must be|neither") for one in CHOICES),
    *((lambda one=one: ov.Contamination(1).inject(G, 1.0, how=one), "must be|neither") for one in CHOICES),
    *((lambda one=one: ov.u_statistic(G, kernel="gini", grid=one), "must be|neither") for one in CHOICES),
    *((lambda one=one: ov.difference(G, H, counted=one), "must be|neither") for one in CHOICES),
    *((lambda one=one: ov.Contamination(3).inject(G, 1e6, rng=one), "rng=.* must be an integer seed of at least 0")
      for one in (-1, "x", 1.5)),
    *((lambda one=one: ov.mean(G).plot(one), "must be axes of matplotlib: of several, give one")
      for one in (5, np.ones(2))),
    *((lambda call=call: call(sparse.csr_matrix(G[:, None])), "holds object values")
      for call in (ov.mean, ov.RowSummary().update, monitor_of)),
    (lambda: ov.quantile(X, 10**400), "q is too large for a float"),
    (lambda: ov.quantile_difference(X, Y, 10**400), "q is too large for a float"),
    (lambda: ov.mean(FRAME), "x has two columns of the same name: rename one"),
    (lambda: ov.certify_risk([[1, 2], [3]]), "losses is ragged"),
    (lambda: ov.mean(np.r_[X, np.nan], partition="hash"), "x has NaN or infinite values in 1 of 301 rows"),
    *((lambda one=one: ov.tolerance(X, Y, claim=one, paired=True), "claim=.* must read like")
      for one in (2, True, b"x", ["difference > 0"])),
    *((lambda one=one, call=call, name=name, n=n: call(*(X, Y)[:n], **{name: one}), f"{name}=.* must be True or False")
      for one in (None, "yes", 1, np.array([1, 2])) for call, name, n in TRUTHS),
]  # fmt: skip


def test_arguments_of_another_kind_are_refused():
    for call, told in REFUSED:
        with pytest.raises((TypeError, ValueError), match=told):
            call()
    assert ov.Bounded(0, 1e10, variance=1e15).scaled(1e-200).variance is None
    assert ov.Bounded(0, 1, variance=0.1).scaled(2.0).variance == pytest.approx(0.4)


@pytest.mark.parametrize("dtype", [pl.Int128, pl.UInt128])
def test_long_integers_of_polars_are_numbers(dtype):
    series = pl.Series("v", [1, 2, 3] * 100, dtype=dtype)
    expected = ov.mean(series.cast(pl.Float64))
    for found in (ov.mean(series), ov.mean(series.to_frame()), ov.scan(series.to_frame()).mean("v")):
        assert np.ravel(found.interval).tolist() == pytest.approx(list(expected.interval))
