"""Saving figures, and the error without matplotlib."""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

import outvote as ov
from outvote import plotting
from outvote.plotting import BlocksDisplay, EnvelopeDisplay
from outvote.plotting.base import new_axes, save


def normal(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("display", [BlocksDisplay(np.arange(5.0), 2.0, 2.0, 0), EnvelopeDisplay.from_mappings()])
def test_missing_matplotlib_raises_with_the_install_command(monkeypatch, display):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"plots need matplotlib: pip install matplotlib"):
        display.plot()


@pytest.mark.parametrize(("kind", "begin"), [("png", b"\x89PNG"), ("PDF", b"%PDF")])
def test_save_writes_the_file_and_closes_the_figure(tmp_path, kind, begin):
    figure = ov.mean(normal(50), contamination=1).plot().figure_
    path = tmp_path / "deep" / f"figure.{kind}"
    plotting.save(figure, path)
    assert path.read_bytes().startswith(begin)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    assert not plt.fignum_exists(figure.number)


def test_failed_save_leaves_nothing_behind(tmp_path, monkeypatch):
    figure = ov.mean(normal(50), contamination=1).plot().figure_
    monkeypatch.setattr("matplotlib.backends.backend_agg.FigureCanvasAgg.print_png", lambda *args: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plotting.save(figure, tmp_path / "figure.png")
    assert list(tmp_path.iterdir()) == []
    assert not plt.fignum_exists(figure.number)


@pytest.mark.parametrize("name", ["picture", "picture.xyz", "picture.PGF", "picture.raw"])
def test_names_must_say_what_kind_of_picture_is_wanted(tmp_path, name):
    with pytest.raises(ValueError, match=r"must end in a kind of picture: \.png, \.svg or \.pdf"):
        save(new_axes().figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []
