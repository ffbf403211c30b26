"""Plots of block values, their median and the plain average."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pytest
from figures import drawn, labels_of

import outvote as ov
from outvote.plotting import BlocksDisplay


def normal(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def band_of(ax, label):
    """The ends of the band with this in its label."""
    (band,) = (patch for patch in ax.patches if label in patch.get_label())
    return band.get_extents().transformed(ax.transData.inverted()).intervalx


def test_plot_shows_blocks_median_and_plain_average():
    result = ov.mean(normal(300), contamination=3, rng=0, vote="median")
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


def test_band_contains_the_median_of_any_corrupt_blocks():
    values = np.arange(11.0)
    display = BlocksDisplay(values, estimate=5.0, plain=5.0, n_corrupt=3).plot()
    ax = drawn(display)
    assert "range of the median, whatever the values of 3 blocks" in labels_of(ax)
    assert "the 3 outermost blocks on each side" in labels_of(ax)
    assert not ax.patches
    (span,) = ax.collections[0].get_segments()
    assert span[:, 0].tolist() == [2.0, 8.0]


@pytest.mark.parametrize(("n_blocks", "n_corrupt"), [(10, 0), (6, 3), (3, 10), (1, 0)])
def test_no_band_without_a_clean_majority(n_blocks, n_corrupt):
    ax = drawn(ov.mean(normal(60), contamination=n_corrupt, n_blocks=n_blocks, rng=0).plot())
    assert not ax.collections
    assert not any("range of the median" in label for label in labels_of(ax))


def test_plot_uses_the_given_axes():
    figure, axes = plt.subplots(1, 2)
    display = ov.mean(normal(100), contamination=1).plot(ax=axes[1])
    assert display.ax_ is axes[1]
    assert display.figure_ is figure
    assert not axes[0].lines
    assert plt.get_fignums() == [figure.number]


def test_plot_of_one_column():
    x = normal((200, 2)) + np.array([0, 100])
    result = ov.mean(pd.DataFrame(x, columns=["near", "far"]), contamination=2, rng=0, vote="median")
    display = result.plot(column=1)
    np.testing.assert_array_equal(display.block_values, np.sort(result.block_values[:, 1]))
    assert display.estimate == result.estimate[1]
    assert display.plain == pytest.approx(result.plain[1])
    assert drawn(display).get_xlabel() == "mean of a block (far)"
    higher = ov.mean(normal((60, 2, 3)), contamination=1, rng=0, vote="median")
    display = BlocksDisplay.from_estimate(higher, column=4)
    assert display.estimate == higher.estimate[1, 1]
    assert display.plot().ax_.get_xlabel() == "mean of a block"


@pytest.mark.parametrize("column", [-1, 2])
def test_missing_column_raises(column):
    for result in (
        ov.mean(normal((50, 2)), contamination=1, vote="median"),
        ov.difference(normal(50), normal(50), contamination=1, vote="median"),
    ):
        with pytest.raises(ValueError, match=f"column={column} does not exist: there are 2 columns, numbered from 0"):
            result.plot(column=column)
    with pytest.raises(TypeError, match=r"column=0\.5 must be an integer"):
        ov.mean(normal((50, 2)), contamination=1, vote="median").plot(column=0.5)


def test_plot_of_one_sample_of_a_difference():
    result = ov.difference(normal(100), normal(120, seed=1) + 50, contamination=(2, 3), rng=0, vote="median")
    for column, sample in enumerate("ab"):
        display = result.plot(column=column)
        np.testing.assert_array_equal(display.block_values, np.sort(result.block_values[column]))
        assert display.estimate == np.median(result.block_values[column])
        assert display.plain == pytest.approx(result.plain[column])
        assert display.n_corrupt == (2, 3)[column]
        assert drawn(display).get_xlabel() == f"mean of a block of sample {sample}"


def test_corrupt_blocks_on_a_grid_and_on_the_diagonal():
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
    for display, n_votes in ((lost.plot(), 25), (full.plot(), 90)):
        assert sum(len(line.get_xdata()) for line in drawn(display).lines if line.get_marker() == "o") == n_votes


def test_outlying_blocks_are_clipped_and_counted():
    x = normal(300)
    x[:2] = 1e6
    display = ov.mean(x, contamination=2, rng=0, vote="median").plot()
    ax = drawn(display)
    low, high = ax.get_xlim()
    assert high < 100
    hidden = int(((display.block_values < low) | (display.block_values > high)).sum())
    note = ax.texts[0].get_text()
    assert hidden in (1, 2)
    assert f"{hidden} block value" in note
    assert "the plain average" in note


def test_clipped_block_does_not_clip_the_average():
    values = np.concatenate([np.linspace(-1, 1, 99), [30.0]])
    display = BlocksDisplay(values, estimate=0.0, plain=float(values.mean()), n_corrupt=1).plot()
    note = drawn(display).texts[0].get_text()
    assert "1 block value" in note
    assert "block values" not in note
    assert "average" not in note


def test_equal_blocks_can_be_drawn():
    low, high = drawn(ov.mean(np.full(50, 3.0), contamination=2).plot()).get_xlim()
    assert low < 3 < high


def test_infinite_block_values_are_clipped():
    x = normal(200)
    x[:3] = 1.7e308, -1.7e308, 1e300
    for result in (
        ov.mean(x, contamination=3, rng=0, vote="median"),
        ov.u_statistic(x, kernel="variance", contamination=3, rng=0, vote="median"),
    ):
        ax = drawn(result.plot())
        assert np.isfinite(ax.get_xlim()).all()
        assert "outside the plot" in ax.texts[0].get_text()


def test_plot_of_a_difference_by_evidence_shows_both_samples():
    rng = np.random.default_rng(0)
    result = ov.difference(rng.normal(size=300), rng.normal(1.0, size=400))
    display = result.plot()
    labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert labels[:2] == ["rows of a", "rows of b"]
    low, high = result.interval
    centre = result.centres[0]
    assert band_of(display.ax_, "of b - a, read above") == pytest.approx([centre + low, centre + high])
    (above,) = display.ax_.child_axes
    assert above.get_xlabel() == "difference from a"
    assert display.ax_.get_title() == f"b - a, difference: {result.estimate:.2f}, between {low:.2f} and {high:.2f}"
    assert {centre + low, centre + high} <= {line.get_xdata()[0] for line in display.ax_.get_lines()}


def test_plot_of_a_mean_by_evidence_shows_its_interval():
    result = ov.mean(np.random.default_rng(0).normal(size=300))
    display = result.plot()
    low, high = result.interval
    lines = sorted(line.get_xdata()[0] for line in display.ax_.get_lines() if len(line.get_xdata()) == 2)
    assert {low, high} <= set(lines)
    assert display.ax_.get_title() == f"mean: {result.estimate:.2f}, between {low:.2f} and {high:.2f}"
    sd = result.certificate.premise_sd
    assert f"95 % interval, if sd ≤ {sd:.3g}" in labels_of(display.ax_)
    with pytest.raises(ValueError, match="column=3 has no histogram: there are 1"):
        result.plot(column=3)


def test_band_of_blocks_is_the_printed_interval():
    result = ov.mean(normal(300), contamination=3, rng=0, vote="median")
    assert band_of(drawn(result.plot()), "95 % interval, plug-in") == pytest.approx(result.interval)


def test_plot_of_a_difference_by_blocks_shows_both_samples():
    result = ov.difference(normal(200), normal(150, seed=1) + 1, contamination=(2, 1), vote="median", rng=0)
    ax = drawn(result.plot())
    assert {"blocks of a", "blocks of b"} <= set(labels_of(ax))
    low, high = result.interval
    centre = result.centres[0]
    assert band_of(ax, "of b - a, read above") == pytest.approx([centre + low, centre + high])
    assert ax.get_ylabel() == "blocks"


def test_plot_of_a_relative_difference_reads_its_interval_above():
    result = ov.difference(normal(300) + 5, normal(300, seed=1) + 6, relative=True)
    ax = drawn(result.plot())
    low, high = result.interval
    centre = result.centres[0]
    expected = [centre * (1 + low), centre * (1 + high)]
    assert band_of(ax, "of b - a, read above") == pytest.approx(expected)
    assert ax.child_axes[0].get_xlabel() == "relative difference from a"
    ax.figure.canvas.draw()  # both directions of the axis above are used


def test_a_difference_without_an_interval_has_no_band():
    result = ov.difference(normal(9), normal(9, seed=1), contamination=(4, 4), n_blocks=3, rng=0)
    assert not np.isfinite(result.radius)
    assert not drawn(result.plot()).child_axes


# --- rows without blocks ------------------------------------------------------------------------------------------


def test_one_sided_intervals_are_named_by_their_bound():
    x = np.random.default_rng(0).exponential(size=400)
    for alternative, word, end in (("less", "at most", 1), ("greater", "at least", 0)):
        result = ov.mean(x, alternative=alternative)
        ax = drawn(result.plot())
        assert ax.get_title() == f"mean: {result.estimate:.4g}, {word} {result.interval[end]:.4g}"
        thin = [line.get_xdata()[0] for line in ax.get_lines() if line.get_linewidth() == 0.8]
        assert thin == [result.interval[end]]
    without = ov.mean(x[:1], contamination=0)
    assert not np.isfinite(without.radius)
    ax = drawn(without.plot())
    assert ax.get_title().endswith("no interval")
    assert not any("interval" in label for label in labels_of(ax))


def test_the_axis_has_the_name_of_the_column_and_says_what_is_hidden():
    x = np.r_[np.random.default_rng(0).normal(10, 1, 300), np.full(3, 1e4)]
    ax = drawn(ov.mean(pl.Series("wait", x), contamination=5).plot())
    assert ax.get_xlabel() == "wait (3 rows beyond the right edge)"
    assert ax.get_title().startswith("mean of wait: 9.96, between ")


def test_rows_that_are_mostly_equal_show_the_others():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(3000) < 0.1, rng.lognormal(3.0, 0.5, 3000), 0.0)
    x[:3] = 1e6
    for rows in (x, np.tile(x, 4)):  # in order, and counted in bins
        ax = drawn(ov.mean(rows).plot())
        assert np.quantile(x[x > 0], 0.8) < ax.get_xlim()[1] < 1000
        assert "cut off" in ax.get_ylabel()


def test_every_column_and_every_quantile_has_a_panel():
    x = normal((200, 3))
    display = ov.mean(pl.DataFrame(x, schema=["u", "v", "w"])).plot()
    titles = [ax.get_title() for ax in display.figure_.axes if ax.get_visible()]
    assert [title.partition(":")[0] for title in titles] == ["mean of u", "mean of v", "mean of w"]
    display = ov.quantile(x[:, 0], [0.5, 0.9]).plot()
    assert [ax.get_title().partition(":")[0] for ax in display.figure_.axes] == ["quantile p50", "quantile p90"]
    assert drawn(ov.mean(x).plot(column=1)).get_title().startswith("mean of column 1: ")


def test_statistics_of_pairs_have_no_picture():
    for result in (
        ov.u_statistic(normal(50), normal(50, seed=1), kernel="auc"),
        ov.u_statistic(normal((50, 2)), kernel="kendall"),
    ):
        with pytest.raises(ValueError, match=f"a result for {result.statistic} has no picture of rows: print it"):
            result.plot()


def test_the_interval_of_blocks_is_within_the_picture():
    x = np.random.default_rng(2).gamma(2, 15, 3000)
    x[:9] *= 100
    for rows in (x, -x):
        result = ov.mean(rows, vote="median", rng=0)
        low, high = drawn(result.plot()).get_xlim()
        assert low < result.interval.low < result.interval.high < high
