"""Read lines and labels of a figure, and check that it is legible."""

import numpy as np


def labels_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def drawn(display):
    """Render, so that what matplotlib leaves for later goes wrong now."""
    display.figure_.canvas.draw()
    return display.ax_


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
