"""Plots of an estimate against the corrupt rows assumed."""

from __future__ import annotations

import math
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from figures import assert_legible, assert_told_apart_in_grey, drawn, labels_of, line

from outvote.plotting import SensitivityDisplay

LEVELS = np.array([0, 1, 2, 5, 10, 20, 50, 100, 200, 500])


def sensitivity_result(**changes):
    radius = 0.1 + 0.1 * np.sqrt(LEVELS)
    estimate = np.linspace(1.0, 0.9, len(LEVELS))
    fields = {
        "n_corrupt": LEVELS,
        "estimate": estimate,
        "low": estimate - radius,
        "high": estimate + radius,
        "n_rows": 10_000,
        "statistic": "mean",
        "provenance": "certified",
    }
    return SimpleNamespace(**fields | changes)


def test_sensitivity_plot_shows_estimate_and_interval():
    result = sensitivity_result()
    display = SensitivityDisplay.from_sensitivity(result, plain=1.2, threshold=0)
    ax = drawn(display.plot())
    x, y = line(ax, "estimate")
    np.testing.assert_array_equal(x, result.n_corrupt)
    np.testing.assert_array_equal(y, result.estimate)
    (band,) = ax.collections
    corners = {tuple(corner) for corner in np.round(band.get_paths()[0].vertices, 9).tolist()}
    for i in range(len(LEVELS)):
        for end in (result.low, result.high):
            assert (LEVELS[i], round(float(end[i]), 9)) in corners
    assert band.get_label() == "interval (certified)"
    np.testing.assert_array_equal(line(ax, "plain estimate 1.2")[1], 1.2)
    np.testing.assert_array_equal(line(ax, "threshold 0")[1], 0)
    assert display.reached == 100
    np.testing.assert_array_equal(line(ax, "first interval that contains it: 100 corrupt")[0], 100)
    assert ax.get_title() == "Mean against the corrupt rows assumed"
    assert ax.get_xlabel() == "corrupt rows assumed"
    assert ax.get_ylabel() == "mean"
    assert_legible(ax)
    assert_told_apart_in_grey(ax)


def test_upper_axis_shows_the_share_of_the_rows():
    display = SensitivityDisplay.from_sensitivity(sensitivity_result()).plot()
    ax, above = drawn(display), display.share_ax_
    np.testing.assert_allclose(np.array(above.get_xlim()) * 10_000, ax.get_xlim())
    for count, share in ((20, "0.2 %"), (100, "1 %"), (500, "5 %")):
        at = ax.transData.transform((count, 1))[0]
        assert above.transData.transform((count / 10_000, 1))[0] == pytest.approx(at, abs=0.01)
        assert share in [tick.get_text() for tick in above.get_xticklabels()]
    assert above.get_xlabel() == "share of the rows"
    positions = [tick.get_text() for tick in ax.get_xticklabels()]
    assert positions[0] == "0"
    assert positions[-1] == "500"
    boxes = [tick.get_window_extent() for tick in ax.get_xticklabels()]
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_few_levels_use_a_linear_axis():
    few = {name: getattr(sensitivity_result(), name)[:5] for name in ("n_corrupt", "estimate", "low", "high")}
    display = SensitivityDisplay(**few, n_rows=(50, 60), label="difference, s").plot()
    ax = drawn(display)
    assert ax.get_xscale() == "linear"
    assert display.share_ax_ is None
    assert display.reached is None
    assert ax.get_xlabel() == "corrupt rows assumed, in each sample"
    assert [float(tick.get_text()) for tick in ax.get_xticklabels()] == [0, 2, 4, 6, 8, 10]
    assert "threshold" not in " ".join(labels_of(ax))
    again = SensitivityDisplay(**few, n_rows=100, threshold=0.0).plot()
    assert again.reached is None
    drawn(again)
    assert [tick.get_text() for tick in again.share_ax_.get_xticklabels()] == [f"{i} %" for i in range(0, 11, 2)]


def test_levels_may_start_above_zero():
    result = sensitivity_result()
    later = {name: getattr(result, name)[5:] for name in ("n_corrupt", "estimate", "low", "high")}
    ax = drawn(SensitivityDisplay(**later).plot())
    assert ax.get_xlim()[0] == 20
    assert ax.get_xticks()[0] == 20


@pytest.mark.parametrize(
    ("levels", "estimate", "low", "high"),
    [
        ([0], [1.0], [0.0], [2.0]),
        ([40], [1.0], [0.0], [2.0]),
        ([0, 1], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]),
        ([0], [math.nan], [-math.inf], [math.inf]),
    ],
)
def test_few_levels_can_be_drawn(levels, estimate, low, high):
    ax = drawn(SensitivityDisplay(levels, estimate, low, high, n_rows=100).plot())
    left, right = ax.get_xlim()
    assert left <= levels[0] <= levels[-1] <= right
    assert left < right
    bottom, top = ax.get_ylim()
    assert -math.inf < bottom < top < math.inf


def test_distant_plain_estimate_is_clipped():
    result = sensitivity_result(plain=1e6)
    display = SensitivityDisplay.from_sensitivity(result)
    assert display.plain == 1e6
    ax = drawn(display.plot())
    assert "plain estimate 1e+06 (outside the plot)" in labels_of(ax)
    assert ax.get_ylim()[1] < 10
    near = drawn(SensitivityDisplay.from_sensitivity(result, plain=5.0).plot())
    assert "plain estimate 5" in labels_of(near)
    assert near.get_ylim()[1] > 5


def test_levels_without_a_finite_interval_are_shaded():
    low, high = sensitivity_result().low.copy(), sensitivity_result().high.copy()
    low[-3:], high[-3:] = -math.inf, math.inf
    figure, ax = plt.subplots()
    display = SensitivityDisplay.from_sensitivity(sensitivity_result(low=low, high=high)).plot(ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    drawn(display)
    (shade,) = ax.patches
    assert shade.get_x() == 50
    assert shade.get_label() == "no finite interval"
    assert np.isfinite(ax.get_ylim()).all()


def test_one_sided_interval_reaches_the_edge():
    result = sensitivity_result(high=np.full(len(LEVELS), math.inf))
    display = SensitivityDisplay.from_sensitivity(result, threshold=-5).plot()
    ax = drawn(display)
    assert not ax.patches
    (band,) = ax.collections
    assert band.get_paths()[0].vertices[:, 1].max() == pytest.approx(ax.get_ylim()[1])
    assert display.reached is None


def test_levels_that_the_rows_contradict_are_named():
    display = SensitivityDisplay.from_sensitivity(sensitivity_result(left_out=(0, 1))).plot()
    assert drawn(display).get_xlabel() == "corrupt rows assumed (the rows contradict 0 and 1)"


def test_between_two_levels_the_interval_is_that_of_the_larger():
    result = sensitivity_result()
    ax = drawn(SensitivityDisplay.from_sensitivity(result).plot())
    (band,) = ax.collections
    path = band.get_paths()[0]
    for i in range(1, len(LEVELS)):
        between = (LEVELS[i - 1] + LEVELS[i]) / 2
        assert path.contains_point((between, result.high[i] - 1e-6))
        assert not path.contains_point((between, result.high[i] + 1e-6))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimate": [1.0]}, r"estimate has shape \(1,\)"),
        ({"n_corrupt": []}, r"n_corrupt has shape \(0,\)"),
        ({"n_corrupt": LEVELS[::-1]}, "n_corrupt must be increasing numbers of at least 0"),
        ({"n_corrupt": LEVELS - 1}, "n_corrupt must be increasing numbers of at least 0"),
    ],
)
def test_invalid_sensitivities_raise(changes, message):
    with pytest.raises(ValueError, match=message):
        SensitivityDisplay.from_sensitivity(sensitivity_result(**changes))
