"""The GPU benchmark runs on the processor too, and continues when a part fails; nothing is timed here."""

import importlib
import json
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.gpu")


def broken(bench):
    raise ArithmeticError("no such part")
    yield


def test_rows_have_counts_and_broken_parts_an_error(gpu, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu.Bench, "n_rows", 1000)
    parts = [gpu.reading, gpu.products, broken, gpu.ranking_median, gpu.ranking_quarter, gpu.metric, gpu.pieces]
    monkeypatch.setattr(gpu, "PARTS", parts)
    monkeypatch.setattr(gpu, "estimates", lambda bench: [("estimates", "ok")])
    gpu.main(["--device", "cpu", "--quick", "--output", str(tmp_path)])
    found = json.loads((tmp_path / "gpu.json").read_text("utf-8"))
    rows = {row["name"]: row for row in found["rows"]}
    assert rows.pop("broken")["error"] == "ArithmeticError: no such part"
    for name, row in rows.items():
        assert row["seconds"] > 0, name
        assert row["bytes"] > 0, name
        assert row["ratio"] == pytest.approx(row["seconds"] / (row["against"] or row["floor"])), name
    for what in ("ranking epoch, median block", "ranking epoch, middle quarter", "metric epoch"):
        assert any(name.startswith(what) and row["target"] for name, row in rows.items())
    assert found["checks"] == {"estimates": "ok"}
    printed = capsys.readouterr().out
    assert all(name in printed for name in rows)


def test_error_without_a_gpu_names_the_options(gpu, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        gpu.main([])
    assert "--device cpu --quick" in capsys.readouterr().err
