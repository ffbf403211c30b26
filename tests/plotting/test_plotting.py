"""Pictures: what is drawn, where, and that the numbers behind the lines are right."""

from __future__ import annotations

import math
import sys
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import outvote as ov
from outvote import plotting
from outvote.plotting import (
    AdmissibleDisplay,
    BlocksDisplay,
    EnvelopeDisplay,
    RadiusDisplay,
    SensitivityDisplay,
)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def normal(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def labels_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def drawn(display):
    """Render, so that what matplotlib leaves for later goes wrong now."""
    display.figure_.canvas.draw()
    return display.ax_


def test_a_plot_shows_blocks_median_and_plain_average():
    result = ov.mean(normal(300), contamination=3, rng=0)
    display = result.plot()
    ax = drawn(display)
    assert isinstance(display, BlocksDisplay)
    assert display.figure_ is ax.figure
    np.testing.assert_array_equal(display.block_values, np.sort(result.block_values))
    assert display.estimate == result.estimate
    assert display.plain == pytest.approx(result.plain)
    assert display.n_corrupt == 3
    points = np.concatenate([line.get_xdata() for line in ax.lines if line.get_marker() == "o"])
    np.testing.assert_array_equal(np.sort(points), display.block_values)
    verticals = [line.get_xdata()[0] for line in ax.lines if line.get_marker() != "o"]
    assert verticals == pytest.approx([result.estimate, result.plain])
    assert f"median {result.estimate:.4g}" in labels_of(ax)
    assert ax.get_title() == f"mean: {result.plan}"
    assert ax.get_xlabel() == "mean of a block"


def test_the_band_is_where_the_median_stays_whatever_the_corrupt_blocks_say():
    values = np.arange(11.0)
    display = BlocksDisplay(values, estimate=5.0, plain=5.0, n_corrupt=3).plot()
    ax = drawn(display)
    assert "where the median stays, whatever 3 blocks say" in labels_of(ax)
    assert "the 3 outermost on each side" in labels_of(ax)
    (band,) = ax.patches
    assert band.get_extents().transformed(ax.transData.inverted()).intervalx == pytest.approx([2.0, 8.0])
    for moved in ([1e9] * 3, [-1e9] * 3):
        for rows in ([0, 1, 2], [8, 9, 10], [4, 5, 6]):
            spoiled = values.copy()
            spoiled[rows] = moved
            assert 2.0 <= np.median(spoiled) <= 8.0


@pytest.mark.parametrize(("n_blocks", "n_corrupt"), [(10, 0), (6, 3), (5, 3), (3, 10), (1, 0), (2, 1)])
def test_without_a_majority_there_is_no_band(n_blocks, n_corrupt):
    ax = drawn(ov.mean(normal(60), contamination=n_corrupt, n_blocks=n_blocks, rng=0).plot())
    assert not ax.patches
    assert not any("median stays" in label for label in labels_of(ax))


def test_a_plot_goes_where_it_is_told():
    figure, axes = plt.subplots(1, 2)
    display = ov.mean(normal(100), contamination=1).plot(ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert not axes[0].lines
    assert plt.get_fignums() == [figure.number]


def test_one_column_of_several():
    x = normal((200, 2)) + np.array([0, 100])
    result = ov.mean(pd.DataFrame(x, columns=["near", "far"]), contamination=2, rng=0)
    for column, name in enumerate(("near", "far")):
        display = result.plot(column=column)
        np.testing.assert_array_equal(display.block_values, np.sort(result.block_values[:, column]))
        assert display.estimate == result.estimate[column]
        assert display.plain == pytest.approx(result.plain[column])
        assert drawn(display).get_xlabel() == f"mean of a block ({name})"
    unnamed = ov.mean(x, contamination=2, rng=0).plot(column=1)
    assert unnamed.ax_.get_xlabel() == "mean of a block"


def test_columns_of_a_higher_array_are_counted_in_order():
    result = ov.mean(normal((60, 2, 3)), contamination=1, rng=0)
    display = BlocksDisplay.from_estimate(result, column=4)
    assert display.estimate == result.estimate[1, 1]
    np.testing.assert_array_equal(display.block_values, np.sort(result.block_values[:, 1, 1]))


@pytest.mark.parametrize("column", [-1, 2, 10])
def test_a_column_that_does_not_exist(column):
    for result in (ov.mean(normal((50, 2)), contamination=1), ov.difference(normal(50), normal(50), contamination=1)):
        with pytest.raises(ValueError, match=f"column={column} does not exist: there are 2, counted from 0"):
            result.plot(column=column)
    with pytest.raises(ValueError, match=f"column={column} does not exist"):
        ov.mean(normal(50), contamination=1).plot(column=column)


def test_a_column_that_is_no_integer():
    with pytest.raises(TypeError, match=r"column=0\.5 must be an integer"):
        ov.mean(normal((50, 2)), contamination=1).plot(column=0.5)


def test_the_samples_of_a_difference_are_drawn_one_at_a_time():
    result = ov.difference(normal(100), normal(120, seed=1) + 50, contamination=(2, 3), rng=0)
    for column, sample in enumerate("ab"):
        display = result.plot(column=column)
        np.testing.assert_array_equal(display.block_values, np.sort(result.block_values[column]))
        assert display.estimate == np.median(result.block_values[column])
        assert display.plain == pytest.approx(result.plain[column])
        assert display.n_corrupt == (2, 3)[column]
        assert drawn(display).get_xlabel() == f"mean of a block of sample {sample}"


def test_on_a_grid_a_corrupt_row_spoils_a_row_of_blocks():
    x, y = normal(60), normal(70, seed=1)
    full = BlocksDisplay.from_estimate(
        ov.u_statistic(x, y, kernel="auc", contamination=(1, 2), n_blocks=(9, 10), rng=0)
    )
    assert len(full.block_values) == 90
    assert full.n_corrupt == 90 - 8 * 8
    diagonal = ov.u_statistic(x, y, kernel="auc", contamination=(1, 2), n_blocks=9, grid="diagonal", rng=0)
    assert BlocksDisplay.from_estimate(diagonal).n_corrupt == 3
    lost = ov.u_statistic(x, y, kernel="auc", contamination=(10, 20), n_blocks=(5, 5), rng=0)
    assert BlocksDisplay.from_estimate(lost).n_corrupt == 25
    drawn(lost.plot())
    drawn(full.plot())


def test_wild_blocks_are_left_outside_the_picture_and_counted():
    x = normal(300)
    x[:2] = 1e6
    display = ov.mean(x, contamination=2, rng=0).plot()
    ax = drawn(display)
    low, high = ax.get_xlim()
    assert high < 100
    hidden = int(((display.block_values < low) | (display.block_values > high)).sum())
    note = ax.texts[0].get_text()
    assert hidden in (1, 2)
    assert f"{hidden} block value" in note
    assert "the plain average" in note


def test_a_hidden_block_does_not_hide_the_average():
    values = np.concatenate([np.linspace(-1, 1, 99), [30.0]])
    display = BlocksDisplay(values, estimate=0.0, plain=float(values.mean()), n_corrupt=1).plot()
    note = drawn(display).texts[0].get_text()
    assert "1 block value" in note
    assert "block values" not in note
    assert "average" not in note


def test_tame_blocks_are_all_in_the_picture():
    display = ov.mean(normal(300), contamination=0, n_blocks=20, rng=0).plot()
    ax = drawn(display)
    assert not ax.texts
    low, high = ax.get_xlim()
    assert low < display.block_values.min()
    assert display.block_values.max() < high


def test_equal_blocks_can_be_drawn():
    drawn(ov.mean(np.full(50, 3.0), contamination=2).plot())


def test_infinite_block_values_are_outside_the_picture():
    x = normal(200)
    x[:3] = 1.7e308, -1.7e308, 1e300
    for result in (ov.mean(x, contamination=3, rng=0), ov.u_statistic(x, kernel="variance", contamination=3, rng=0)):
        ax = drawn(result.plot())
        assert np.isfinite(ax.get_xlim()).all()
        assert "outside the picture" in ax.texts[0].get_text()


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'outvote\[plot\]'"):
        ov.mean(normal(50), contamination=1).plot()


@pytest.mark.parametrize(("kind", "begin"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_figure_is_saved_whole_and_closed(tmp_path, kind, begin):
    figure = ov.mean(normal(50), contamination=1).plot().figure_
    path = tmp_path / "deep" / f"figure.{kind}"
    plotting.save(figure, path)
    assert path.read_bytes().startswith(begin)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert not plt.fignum_exists(figure.number)


def test_a_figure_that_cannot_be_saved_leaves_nothing_behind(tmp_path, monkeypatch):
    figure = ov.mean(normal(50), contamination=1).plot().figure_
    monkeypatch.setattr("matplotlib.backends.backend_agg.FigureCanvasAgg.print_png", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plotting.save(figure, tmp_path / "figure.png")
    assert list(tmp_path.iterdir()) == []
    assert not plt.fignum_exists(figure.number)


def line(ax, label):
    (found,) = [one for one in ax.lines if one.get_label() == label]
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def assert_legible(*axes):
    """Every axes has a title and names, and nothing in the figure hides something else."""
    figure = axes[0].figure
    figure.canvas.draw()
    for ax in axes:
        assert ax.get_title()
        assert ax.get_xlabel()
        assert ax.get_ylabel()
    width, height = figure.canvas.get_width_height()
    for legend in [*figure.legends, *(ax.get_legend() for ax in figure.axes if ax.get_legend())]:
        box = legend.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= width
        assert box.y0 >= 0
        assert not any(box.overlaps(ax.get_window_extent()) for ax in axes)
    for ax in axes:
        for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.y0 >= 0
            assert box.x1 <= width
            assert box.y1 <= height


def assert_told_apart_in_grey(ax):
    """No two lines with a name have the same dashes."""
    named = [one for one in ax.lines if not one.get_label().startswith("_") and one.get_linestyle() != "None"]
    styles = [(one._dash_pattern[1] and tuple(one._dash_pattern[1]), one.get_linewidth()) for one in named]
    assert len(set(styles)) == len(styles)


# --- the paper's constants ---


def test_the_envelope_has_the_papers_four_panels():
    display = EnvelopeDisplay.from_mappings(n=500).plot()
    assert list(display.values) == ["alpha", "gamma", "range_size", "Gamma_Delta"]
    assert len(display.axes_) == 4
    assert display.figure_ is display.axes_[0].figure
    e = display.epsilon
    assert 0 < e[0] < e[-1] < 0.5
    ax_alpha, ax_gamma, ax_range, ax_product = display.axes_
    for name, alpha in {
        "arithmetic": (1 + 2 * e) / 2,
        "geometric": np.sqrt(2 * e),
        "harmonic": 4 * e / (1 + 2 * e),
        "polynomial": e * (2.5 - e),
    }.items():
        gap = alpha - 2 * e
        for ax, expected in (
            (ax_alpha, alpha),
            (ax_gamma, np.sqrt(alpha) * (alpha - e) / gap**1.5),
            (ax_range, 500 * (1 - alpha) * gap / (2 * alpha)),
            (ax_product, alpha / np.sqrt(gap * e)),
        ):
            x, y = line(ax, name)
            np.testing.assert_array_equal(x, e)
            np.testing.assert_allclose(y, expected, rtol=1e-9)
    x, y = line(ax_alpha, "lower limit 2ε")
    np.testing.assert_array_equal(y, 2 * x)
    assert_legible(*display.axes_)
    assert_told_apart_in_grey(ax_alpha)
    (legend,) = display.figure_.legends
    assert [t.get_text() for t in legend.get_texts()] == [*ov.paper.MAPPINGS, "lower limit 2ε"]
    assert ax_range.get_title() == "Range of confidences, n = 500"
    assert display.figure_.get_suptitle()


def test_curves_that_coincide_are_named():
    assert "arithmetic and harmonic coincide" in EnvelopeDisplay.from_mappings().plot().axes_[2].texts[0].get_text()
    assert not EnvelopeDisplay.from_mappings(["harmonic", "geometric"]).plot().axes_[2].texts


def test_the_appendix_adds_three_panels():
    display = EnvelopeDisplay.from_mappings(appendix=True).plot()
    e = display.epsilon
    assert list(display.values)[4:] == ["beta", "Delta", "eta"]
    np.testing.assert_allclose(display.values["beta"]["harmonic"], 4 / (1 - 2 * e))
    np.testing.assert_allclose(display.values["Delta"]["geometric"], (2 / e) ** 0.25)
    np.testing.assert_allclose(display.values["eta"]["arithmetic"], 1 / (1 + 2 * e))
    assert len(display.axes_) == 7
    assert_legible(*display.axes_)
    last = display.figure_.axes[-1]
    assert last not in display.axes_
    assert labels_of(last) == [*ov.paper.MAPPINGS, "lower limit 2ε"]


def test_an_envelope_of_ones_own_goes_where_it_is_told():
    figure, axes = plt.subplots(2, 2, layout="constrained")
    display = EnvelopeDisplay.from_mappings({"mine": lambda e: 0.5 + e}, epsilon=[0.1, 0.2]).plot(ax=axes)
    assert display.axes_ == list(axes.flat)
    assert plt.get_fignums() == [figure.number]
    np.testing.assert_allclose(line(axes[0, 0], "mine")[1], [0.6, 0.7])
    assert labels_of(axes[0, 0]) == ["mine", "lower limit 2ε"]
    assert not figure.get_suptitle()
    with pytest.raises(ValueError, match="ax has 3 axes for 4 panels"):
        display.plot(ax=axes.flat[:3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mappings": []}, "a picture takes 1 to 6"),
        ({"mappings": ["quadratic"]}, "mapping='quadratic'"),
        ({"epsilon": [0.0, 0.1]}, "epsilon must be a list of numbers in"),
        ({"epsilon": 0.1}, "epsilon must be a list of numbers in"),
        ({"epsilon": []}, "epsilon must be a list of numbers in"),
        ({"epsilon": [0.1, 0.5]}, r"epsilon=0\.5"),
    ],
)
def test_an_envelope_that_cannot_be_drawn(arguments, message):
    with pytest.raises(ValueError, match=message):
        EnvelopeDisplay.from_mappings(**arguments)


def test_the_admissible_regions_lie_in_one_another():
    display = AdmissibleDisplay.from_limits(n_points=101).plot()
    x = display.epsilon_x
    inner = slice(1, -1)
    assert (display.diagonal[inner] < display.full[inner]).all()
    assert (display.full[inner] < display.mom[inner]).all()
    np.testing.assert_allclose(display.diagonal + x, 0.5)
    np.testing.assert_allclose((1 - x) * (1 - display.full), 0.5)
    np.testing.assert_array_equal(display.mom, 0.5)
    ax = drawn(display)
    for drawn_line, limit in zip(ax.lines, (display.diagonal, display.full, display.mom), strict=False):
        np.testing.assert_array_equal(drawn_line.get_ydata(), limit)
    said = " ".join(text.get_text() for text in ax.texts)
    for word in ("diagonal", "full grid", "only MoM-MoM", "< 1/2", "> 1/2"):
        assert word in said
    assert len({band.get_hatch() for band in ax.collections}) == 3
    assert_legible(ax)
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_the_limits_are_those_of_the_plans():
    """Just inside each limit there is a plan for 1000 rows each; on it there is none."""
    display = AdmissibleDisplay.from_limits(n_points=6)
    for x, full, diagonal in zip(display.epsilon_x[1:-1], display.full[1:-1], display.diagonal[1:-1], strict=True):
        bad = round(1000 * float(x))
        for grid, limit in (("full", full), ("diagonal", diagonal)):
            most = math.ceil(1000 * float(limit) - 1e-9)
            ov.plan_blocks((1000, 1000), (bad, most - 5), grid=grid)
            with pytest.raises(ValueError, match="largest contamination"):
                ov.plan_blocks((1000, 1000), (bad, most), grid=grid)


def test_admissible_regions_go_where_they_are_told():
    figure, ax = plt.subplots()
    display = AdmissibleDisplay.from_limits().plot(ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure


# --- radii ---


def test_the_chosen_number_of_blocks_is_that_of_the_plan():
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


def test_the_steps_of_the_block_size_are_drawn_where_they_are():
    display = RadiusDisplay.from_plan(1000, contamination=0)
    assert display.chosen[0] == ov.plan_blocks(1000, contamination=0).n_blocks
    for before, after in ((499, 501), (333, 335), (249, 251)):
        assert {before, after} <= set(display.x)
    ax = drawn(display.plot())
    assert not ax.patches
    assert not ax.texts
    assert ax.get_ylabel() == "certified radius, in sd of the clean rows"
    assert "finite variance" in ax.get_title()


@pytest.mark.parametrize(
    ("n_rows", "n_corrupt"), [(1, 0), (2, 0), (3, 1), (9, 2), (30, 2), (100, 49), (2000, 10), (10**8, 1000), (10**8, 0)]
)
def test_the_ticks_of_few_rows_and_of_many_leave_room_for_each_other(n_rows, n_corrupt):
    display = RadiusDisplay.from_plan(n_rows, contamination=n_corrupt, confidence=0.9).plot()
    ax = drawn(display)
    assert display.chosen[0] in display.x
    for axis in (ax.xaxis, ax.yaxis):
        low, high = axis.get_view_interval()
        shown = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
        boxes = [text.get_window_extent() for text in shown if text.get_text()]
        assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_pairs_take_two_rows_each():
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


def test_an_unknown_sd_makes_the_unit_an_estimate():
    assume = ov.FiniteKurtosis(3.0)
    display = RadiusDisplay.from_plan(10_000, contamination=10, assume=assume)
    assert display.ylabel == "certified radius, in sd estimated from the blocks"
    assert display.chosen[0] == ov.plan_blocks(10_000, contamination=10, assume=assume).n_blocks
    assert "kurtosis ≤ 3" in display.title
    drawn(display.plot())
    with pytest.raises(ValueError, match="gives no finite radius with 10 rows"):
        RadiusDisplay.from_plan(10, contamination=3, assume=ov.FiniteKurtosis(30.0))
    with pytest.raises(ValueError, match="sd"):
        RadiusDisplay.from_plan(1000, contamination=3, assume=assume, degree=2)


def test_a_plan_of_two_samples_is_not_one_curve():
    with pytest.raises(TypeError, match=r"n_rows=\(50, 60\) must be one number of rows"):
        RadiusDisplay.from_plan((50, 60), contamination=1)


def test_the_four_radii_over_the_contamination():
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


def test_what_is_infinite_is_not_drawn():
    figure, ax = plt.subplots()
    display = RadiusDisplay(np.array([0.1, 0.2, 0.3]), {"one": np.array([1.0, math.inf, 3.0])}).plot(ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is figure
    np.testing.assert_array_equal(line(ax, "one")[0], [0.1, 0.3])


# --- sensitivity ---

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


def test_estimate_and_interval_against_the_corrupt_rows():
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
    np.testing.assert_array_equal(line(ax, "first interval that holds it: 100 corrupt")[0], 100)
    assert ax.get_title() == "Mean against the corrupt rows assumed"
    assert ax.get_xlabel() == "corrupt rows assumed"
    assert ax.get_ylabel() == "mean"
    assert_legible(ax)
    assert_told_apart_in_grey(ax)


def test_the_share_of_the_rows_stands_over_their_number():
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


def test_few_corrupt_rows_are_on_a_plain_axis():
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


def test_one_level_can_be_drawn():
    for level in (0, 3, 40):
        drawn(SensitivityDisplay([level], [1.0], [0.0], [2.0], n_rows=100).plot())
    drawn(SensitivityDisplay([0], [1.0], [-math.inf], [math.inf]).plot())
    drawn(SensitivityDisplay([0, 1], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]).plot())
    drawn(SensitivityDisplay([0], [math.nan], [-math.inf], [math.inf]).plot())


def test_a_plain_estimate_far_away_is_left_outside_the_picture():
    result = sensitivity_result(plain=1e6)
    display = SensitivityDisplay.from_sensitivity(result)
    assert display.plain == 1e6
    ax = drawn(display.plot())
    assert "plain estimate 1e+06 (outside the picture)" in labels_of(ax)
    assert ax.get_ylim()[1] < 10
    near = drawn(SensitivityDisplay.from_sensitivity(result, plain=5.0).plot())
    assert "plain estimate 5" in labels_of(near)
    assert near.get_ylim()[1] > 5


def test_levels_without_an_interval_are_shaded():
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


def test_a_one_sided_interval_reaches_the_edge():
    result = sensitivity_result(high=np.full(len(LEVELS), math.inf))
    display = SensitivityDisplay.from_sensitivity(result, threshold=-5).plot()
    ax = drawn(display)
    assert not ax.patches
    (band,) = ax.collections
    assert band.get_paths()[0].vertices[:, 1].max() == pytest.approx(ax.get_ylim()[1])
    assert display.reached is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimate": [1.0]}, r"estimate has shape \(1,\)"),
        ({"n_corrupt": 3}, r"n_corrupt has shape \(\)"),
        ({"n_corrupt": []}, r"n_corrupt has shape \(0,\)"),
        ({"n_corrupt": LEVELS[::-1]}, "n_corrupt must increase, from 0 or more"),
        ({"n_corrupt": LEVELS - 1}, "n_corrupt must increase, from 0 or more"),
    ],
)
def test_a_sensitivity_that_makes_no_sense(changes, message):
    with pytest.raises(ValueError, match=message):
        SensitivityDisplay.from_sensitivity(sensitivity_result(**changes))


def test_panels_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'outvote\[plot\]'"):
        EnvelopeDisplay.from_mappings().plot()
