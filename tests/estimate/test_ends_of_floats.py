"""Rows near the largest float, near 0, and of more digits than floats have: no warning, no false number."""

import json
import math
import warnings

import numpy as np
import pytest

import outvote as ov
from outvote.data.missing import ContradictionError
from outvote.estimate.adjusted import fit_slope

G, H = np.random.default_rng(0).normal(size=(2, 60))
LARGEST = 1.7e308
UNIT = ov.FiniteVariance(1.0)


@pytest.fixture(autouse=True)
def _no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("size", [1e6, 1e150, 1e307, LARGEST])
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
def test_rows_of_any_size_contradict_a_small_sd(size, alternative):
    rows = np.array([size, -size] * 30)
    with pytest.raises(ContradictionError, match="no mean fits them"):
        ov.mean(rows, assume=UNIT, alternative=alternative)
    with pytest.raises(ContradictionError, match="no mean fits them"):
        ov.certify_risk(rows, assume=UNIT)


def test_tolerances_and_ratios_of_the_largest_rows_say_nothing():
    assert "do not settle" in str(ov.tolerance(np.array([1e307, -1e307] * 30), G, assume=UNIT))
    assert "do not settle" in str(ov.tolerance([LARGEST] * 3, [1.0] * 3, assume=ov.SubGaussian(1.0)))
    found = ov.difference(np.array([LARGEST, -LARGEST] * 30), G, assume=UNIT, relative=True)
    assert found.certificate.provenance == "none"


@pytest.mark.parametrize("size", [1e15, 1e16, 1e17, 1e18, -1e250])
@pytest.mark.parametrize("settings", [{}, {"vote": "median", "rng": 0}, {"contamination": 0}])
def test_intervals_allow_for_the_digits_that_floats_have(size, settings):
    rows = np.full(60, size)
    for found in (ov.mean(rows, assume=UNIT, **settings), ov.difference(np.zeros(60), rows, assume=UNIT, **settings)):
        digit = np.spacing(abs(size))
        assert found.interval.low <= size - max(digit, 0.05)
        assert found.interval.high >= size + max(digit, 0.05)


def test_kernels_too_large_for_a_float_are_refused():
    everywhere = ov.Kernel(lambda a, b: np.inf + 0 * a, degrees=2, name="infinite")
    for rows, kernel in ((1e160 * G, "variance"), (1e155 * G, "variance"), (G, everywhere)):
        with pytest.raises(ValueError, match=r"is too large for a float on [0-9]+ of 30 disjoint tuples"):
            ov.u_statistic(rows, kernel=kernel, contamination=1)
    found = ov.u_statistic(np.r_[G, 1e200], kernel="variance", contamination=1)
    assert math.isfinite(found.radius)


@pytest.mark.parametrize("scale", [1e150, 1e155, 1e290, 1e-150, 1e-200])
def test_adjusting_by_a_covariate_does_not_depend_on_its_unit(scale):
    before = (G + H, H - G)
    plain = ov.difference(G, H, covariate=before, rng=0)
    found = ov.difference(G, H, covariate=tuple(scale * one for one in before), rng=0)
    assert [*found.interval] == pytest.approx([*plain.interval], rel=1e-9)


def test_slopes_of_lines_through_any_rows():
    x, y = np.random.default_rng(1).normal(size=(2, 500))
    y += 0.5 * x
    slope = fit_slope(x, y, 0.01)
    assert fit_slope(2.0**800 * x, 2.0**-200 * y, 0.01) == 2.0**-1000 * slope
    assert fit_slope(1e-200 * x, 1e200 * y, 0.01) == 0.0  # which no float holds
    far = np.r_[LARGEST, -LARGEST, x[2:]]
    assert fit_slope(far, y, 0.01) == pytest.approx(slope, abs=0.1)
    assert fit_slope(y, far, 0.01) == pytest.approx(fit_slope(y, x, 0.01), abs=0.1)


def test_monitors_of_the_largest_rows_can_be_sent():
    watch = ov.Monitor(n_plan=200).update(np.array([LARGEST, -LARGEST] * 30))
    json.loads(watch.to_json())
    again = ov.Monitor.from_json(watch.to_json()).result()
    assert again.certificate.provenance == watch.result().certificate.provenance == "none"


@pytest.mark.parametrize("scale", [1.0, 1e300])
def test_lifts_of_adjusted_means_that_no_float_holds_are_refused(scale):
    with pytest.raises(ValueError, match="the difference is too large for a float"):
        ov.difference(np.full(60, 5e-324), G * scale, covariate=(H, G), relative=True)


@pytest.mark.parametrize(
    ("size", "alternative"), [(0.0, "less"), (5e-324, "two-sided"), (1e16, "two-sided"), (-1e299, "greater")]
)
def test_equal_rows_are_drawn_quietly(size, alternative):
    plt = pytest.importorskip("matplotlib.pyplot")
    rows = np.full(12, size)
    plt.switch_backend("agg")
    for found in (ov.mean(rows, contamination=1, assume=UNIT, alternative=alternative), ov.quantile(rows),
                  ov.mean(rows, n_blocks=3, contamination=1, rng=0), ov.sensitivity(rows),
                  ov.difference(rows, rows, assume=UNIT), ov.Monitor(assume=UNIT).update(rows)):  # fmt: skip
        left, right = found.plot().ax_.get_xlim()
        assert left < right
        plt.gcf().canvas.draw()
        plt.close("all")


def test_numbers_too_large_to_draw_are_refused_and_corrupt_ones_lie_outside():
    plt = pytest.importorskip("matplotlib.pyplot")
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
        plt.gcf().canvas.draw()
        plt.close("all")


@pytest.mark.parametrize("scale", [1e-290, 1.0, 1e290, 1e307])
def test_bounds_of_the_sd_scale_with_rows_of_any_size(scale):
    rows = np.r_[G, H, G, H] * scale
    found = ov.certificate.sigma_bounds(rows, 2, kurtosis=9.0)
    expected = ov.certificate.sigma_bounds(rows / scale, 2, kurtosis=9.0)
    assert found == pytest.approx(tuple(scale * one for one in expected), rel=0.05)  # sds come in cells
