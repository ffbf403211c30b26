"""The script that writes the tables of docs/learning.md."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "learning.md"


@pytest.fixture
def table(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    yield importlib.import_module("benchmarks.learning_table")
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        del sys.modules[name]


def test_the_script_rewrites_the_tables_and_nothing_else(table, tmp_path, monkeypatch, capsys):
    few = {name: table.SETS[name] for name in ("wine", "titanic", "diabetes", "cars")}
    for module in (table, sys.modules["benchmarks.learning_sets"]):
        monkeypatch.setattr(module, "SETS", few)
        monkeypatch.setattr(module, "ATTACKS", {name: table.ATTACKS[name] for name in ("clean", "wrong units")})
    monkeypatch.setattr(table, "MODEL_ATTACKS", ("clean",))
    monkeypatch.setattr(table, "N_SPLITS", 1)
    monkeypatch.setattr(table, "measured", lambda name, attack, fit, n, rare=False: {
        "score": [0.5], "log loss": [0.3], "balanced": [0.5]})  # fmt: skip
    page = PAGE.read_text(encoding="utf-8")
    output = tmp_path / "learning.md"
    output.write_text(page, encoding="utf-8")
    table.main(["--output", str(output), "--results", str(tmp_path / "cells")])
    written = output.read_text(encoding="utf-8")
    assert written.partition(table.BEGIN)[0] == page.partition(table.BEGIN)[0]
    assert written.partition(table.END)[2] == page.partition(table.END)[2]
    assert "over 1 splits" in written
    assert "| titanic * | wrong units | **0.500** |" in written
    assert "learning.md" in capsys.readouterr().out
    assert len(list((tmp_path / "cells").iterdir())) > 30


def test_a_cell_is_measured_once(table, tmp_path):
    results = table.Results(tmp_path)
    results.measure("wine", "label flips", "plain", table.linear(True)["plain"], 2)
    found = results.get("wine", "label flips", "plain")
    assert len(found["score"]) == len(found["log loss"]) == 2
    results.measure("wine", "label flips", "plain", None, 2)
    assert results.mean("wine", "label flips", "plain") == pytest.approx(np.mean(found["score"]))
