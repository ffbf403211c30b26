"""Plots of certified radii."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from figures import assert_legible, assert_told_apart_in_grey, drawn, line

import outvote as ov
from outvote.plotting import RadiusDisplay


def test_radius_plot_marks_the_planned_number_of_blocks():
    assume = ov.FiniteVariance(2.0)
    display = RadiusDisplay.from_plan(10_000, contamination=0.02, confidence=0.99, assume=assume).plot()
    plan = ov.plan_blocks(10_000, contamination=0.02, confidence=0.99, assume=assume)
    k, radius = display.chosen
    assert k == plan.n_blocks
    assert display.barred == 400
    (radii,) = display.radii.values()
    assert radius == radii.min()
    assert (display.x % 2 == 1).all()
    assert display.x[0] == 401
    assert display.x[-1] == 9999
    for i in (0, 57, -1):
        blocks = int(display.x[i])
        assert radii[i] == pytest.approx(
            ov.certificate.radius(
                n_blocks=blocks, n_corrupt=200, block_size=10_000 // blocks, confidence=0.99, assume=assume
            )
        )
    ax = drawn(display)
    assert ax.get_xscale() == ax.get_yscale() == "log"
    x, y = line(ax, f"chosen: K = {plan.n_blocks}, radius {radius:.3g}")
    assert (x[0], y[0]) == display.chosen
    (shade,) = ax.patches
    assert shade.get_x() + shade.get_width() == pytest.approx(400)
    assert ax.texts[0].get_text() == "no certificate: K ≤ 400"
    assert "10 000 rows, at most 200 corrupt" in ax.get_title()
    assert "sd ≤ 2; confidence 99 %" in ax.get_title()
    assert ax.get_ylabel() == "certified radius"
    assert_legible(ax)


def test_radius_plot_has_the_steps_of_the_block_size():
    display = RadiusDisplay.from_plan(1000, contamination=0)
    assert display.chosen[0] == ov.plan_blocks(1000, contamination=0).n_blocks
    for before, after in ((499, 501), (333, 335), (249, 251)):
        assert {before, after} <= set(display.x)
    ax = drawn(display.plot())
    assert not ax.patches
    assert not ax.texts
    assert ax.get_ylabel() == "certified radius, in sd of the clean rows"
    assert "finite variance" in ax.get_title()


@pytest.mark.parametrize(("n_rows", "n_corrupt"), [(1, 0), (3, 1), (30, 2), (100, 49), (2000, 10), (10**8, 1000)])
def test_tick_labels_do_not_overlap(n_rows, n_corrupt):
    display = RadiusDisplay.from_plan(n_rows, contamination=n_corrupt, confidence=0.9).plot()
    ax = drawn(display)
    assert display.chosen[0] in display.x
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        shown = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        boxes = [text.get_window_extent() for text in shown if text.get_text()]
        assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_radius_plot_of_pairs():
    contamination = ov.Contamination(0.2, "adaptive")
    display = RadiusDisplay.from_plan(1000, contamination, 0.95, ov.Bounded(0, 1), degree=2)
    assert display.x[-1] == 499
    assert display.chosen[0] == ov.plan_blocks(1000, contamination, 0.95, ov.Bounded(0, 1), degree=2).n_blocks
    adaptive = ov.certificate.radius(
        n_blocks=401, n_corrupt=200, block_size=2, confidence=0.95, assume=ov.Bounded(0, 1), degrees=(2,),
        adversary="adaptive",
    )  # fmt: skip
    assert display.radii["certified radius of the median"][0] == pytest.approx(adaptive)
    assert_legible(drawn(display.plot()))
    unscaled = RadiusDisplay.from_plan(1000, 0.01, degree=2)
    assert unscaled.ylabel == "certified radius, in sd of the clean kernel values"


def test_radius_plot_with_unknown_sd():
    assume = ov.FiniteKurtosis(3.0)
    display = RadiusDisplay.from_plan(10_000, contamination=10, assume=assume)
    assert display.ylabel == "certified radius, in sd estimated from the blocks"
    assert display.chosen[0] == ov.plan_blocks(10_000, contamination=10, assume=assume).n_blocks
    assert "kurtosis ≤ 3" in display.title
    drawn(display.plot())
    with pytest.raises(ValueError, match="gives no finite radius with n_rows=10"):
        RadiusDisplay.from_plan(10, contamination=3, assume=ov.FiniteKurtosis(30.0))
    with pytest.raises(ValueError, match="sd"):
        RadiusDisplay.from_plan(1000, contamination=3, assume=assume, degree=2)


def test_radius_plot_of_two_samples_raises():
    with pytest.raises(TypeError, match=r"n_rows=\(50, 60\) must be one number of rows"):
        RadiusDisplay.from_plan((50, 60), contamination=1)


def test_radii_over_the_contamination():
    display = RadiusDisplay.over_contamination()
    soft, median, paper, limit = display.radii.values()
    epsilon = display.x
    assert epsilon[0] == 0
    assert epsilon[-1] == pytest.approx(0.45)
    np.testing.assert_allclose(limit, np.sqrt(epsilon / (1 - 2 * epsilon)))
    assert (limit < soft).all()
    assert (soft < median).all()
    assert (median < paper).all()
    assert soft[0] == pytest.approx(math.sqrt(2 * math.log(200) / 10_000), rel=0.01)
    for at, certified, ratio in ((0.05, 0.675, 0.21), (0.2, 1.33, 0.20), (0.4, 2.33, 0.11)):
        assert np.interp(at, epsilon, median) == pytest.approx(certified, rel=0.01)
        assert np.interp(at, epsilon, median / paper) == pytest.approx(ratio, abs=0.006)
    for at, certified in ((0.01, 0.118), (0.05, 0.254), (0.1, 0.373), (0.2, 0.602), (0.4, 1.479)):
        assert np.interp(at, epsilon, soft) == pytest.approx(certified, rel=0.01)
    ax = drawn(display.plot())
    assert ax.get_yscale() == "log"
    assert ax.get_xscale() == "linear"
    x, y = line(ax, "limit of any estimator, n → ∞: √(ε/(1-2ε))")
    np.testing.assert_array_equal(x, epsilon[1:])  # 0 has no place on a logarithmic axis
    np.testing.assert_array_equal(y, limit[1:])
    assert "10 000 rows, confidence 99 %" in ax.get_title()
    assert_legible(ax)
    assert_told_apart_in_grey(ax)


def test_infinite_radii_are_not_drawn():
    figure, ax = plt.subplots()
    display = RadiusDisplay(np.array([0.1, 0.2, 0.3]), {"one": np.array([1.0, math.inf, 3.0])}).plot(ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    np.testing.assert_array_equal(line(ax, "one")[0], [0.1, 0.3])
