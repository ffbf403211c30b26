"""Plots of the paper's constants and of admissible contaminations."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
from figures import assert_legible, assert_told_apart_in_grey, drawn, labels_of, line

import outvote as ov
from outvote.plotting import AdmissibleDisplay, EnvelopeDisplay


def test_envelope_has_four_panels_of_constants():
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


def test_coinciding_curves_are_annotated():
    assert "arithmetic and harmonic coincide" in EnvelopeDisplay.from_mappings().plot().axes_[2].texts[0].get_text()
    assert not EnvelopeDisplay.from_mappings(["harmonic", "geometric"]).plot().axes_[2].texts


def test_appendix_adds_three_panels():
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


def test_envelope_of_a_users_mapping_on_given_axes():
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
        ({"mappings": []}, "give 1 to 6"),
        ({"mappings": ["quadratic"]}, "mapping='quadratic'"),
        ({"epsilon": [0.0, 0.1]}, "epsilon must be a list of numbers in"),
        ({"epsilon": 0.1}, "epsilon must be a list of numbers in"),
        ({"epsilon": [0.1, 0.5]}, r"epsilon=0\.5"),
    ],
)
def test_invalid_arguments_of_the_envelope_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        EnvelopeDisplay.from_mappings(**arguments)


def test_admissible_regions_are_nested():
    given = plt.subplots()[1]
    display = AdmissibleDisplay.from_limits(n_points=101).plot(ax=given)
    assert display.ax_ is given
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


def test_admissible_limits_equal_those_of_the_plans():
    """Just inside each limit there is a plan for 1000 rows each; on it there is none."""
    display = AdmissibleDisplay.from_limits(n_points=6)
    for x, full, diagonal in zip(display.epsilon_x[1:-1], display.full[1:-1], display.diagonal[1:-1], strict=True):
        bad = round(1000 * float(x))
        for grid, limit in (("full", full), ("diagonal", diagonal)):
            most = math.ceil(1000 * float(limit) - 1e-9)
            assert ov.plan_blocks((1000, 1000), (bad, most - 5), grid=grid).holds
            with pytest.raises(ValueError, match="largest contamination"):
                ov.plan_blocks((1000, 1000), (bad, most), grid=grid)
