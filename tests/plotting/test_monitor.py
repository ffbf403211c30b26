"""The picture of a monitor: exactly what it printed at each look."""

from __future__ import annotations

import math

import numpy as np
import pytest

import outvote as ov
from outvote.plotting import MonitorDisplay


def watched(claim=None, arms=("",)):
    rng, one = np.random.default_rng(0), ov.Monitor(ov.FiniteVariance(1.0), 0, n_plan=500, claim=claim)
    for _ in range(8):
        for i, arm in enumerate(arms):
            one.update(rng.normal(0.5 * i, size=100), arm=arm)
        _ = one.interval
    return one


def test_the_band_is_the_interval_at_each_look():
    one = watched("mean > -1")
    display = one.plot()
    ax = display.ax_
    (line,) = [line for line in ax.get_lines() if line.get_label() == "estimate"]
    np.testing.assert_allclose(line.get_xdata(), [look.n_rows for look in one.looks])
    np.testing.assert_allclose(line.get_ydata(), [look.estimate for look in one.looks])
    vertices = ax.collections[0].get_paths()[0].vertices
    assert {round(one.looks[-1].low, 9), round(one.looks[-1].high, 9)} <= set(vertices[:, 1].round(9))
    assert ax.get_xlabel() == "rows so far"
    assert ax.get_ylabel() == "mean"
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "claim: mean > -1" in texts
    assert "95 % interval, certified, valid at every look" in texts
    assert any(text.startswith("decided after") for text in texts)


def test_two_arms_name_their_difference():
    ax = watched(arms=("A", "B")).plot().ax_
    assert ax.get_ylabel() == "mean(B) - mean(A)"


def test_looks_without_an_interval_are_left_out():
    looks = [(10, math.nan, -math.inf, math.inf, None), (20, 1.0, 0.0, math.inf, None), (30, 1.0, 0.5, 1.5, None)]
    display = MonitorDisplay(looks).plot()
    (line,) = [line for line in display.ax_.get_lines() if line.get_label() == "estimate"]
    assert list(line.get_xdata()) == [30]
    assert display.first_decided is None
    nothing = MonitorDisplay(looks[:1]).plot()
    assert nothing.ax_.get_ylim()[0] < nothing.ax_.get_ylim()[1]
    with pytest.raises(ValueError, match="looks is empty"):
        MonitorDisplay([])
