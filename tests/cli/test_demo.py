"""The demonstration: its table, its figure, and the error without rich."""

import builtins
import sys

import numpy as np
import pytest

from outvote.cli import demo


def test_demo_prints_a_table_and_saves_a_figure(tmp_path, capsys):
    figure = tmp_path / "new folder" / "demo.png"
    demo.main(["--figure", str(figure)])
    printed = capsys.readouterr().out
    for word in ("the truth", "mean", "median", "trimmed mean", "outvote.mean", str(figure.name)):
        assert word in printed
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in figure.parent.iterdir()] == ["demo.png"]


def test_robust_mean_is_nearest_to_the_truth():
    clean, spoiled = demo.corrupt()
    assert len(spoiled.rows) == 11
    rows, robust = demo.answers(clean, spoiled.data)
    errors = {row.name: abs(row.corrupted - clean.mean()) for row in rows}
    assert min(errors, key=errors.get) == "outvote.mean"
    assert robust.interval.low <= clean.mean() <= robust.interval.high
    assert np.array_equal(np.flatnonzero(spoiled.data != clean), spoiled.rows)


def test_missing_rich_raises_with_the_install_command(monkeypatch, tmp_path):
    real = builtins.__import__

    def without_rich(name, *args, **kwargs):
        if name == "rich":
            raise ModuleNotFoundError("No module named 'rich'", name="rich")
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "rich", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_rich)
    with pytest.raises(SystemExit, match=r"needs rich: pip install matplotlib rich"):
        demo.main(["--figure", str(tmp_path / "x.png")])
