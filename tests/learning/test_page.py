"""The script that writes the table of docs/learning.md."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "learning.md"


def test_the_script_rewrites_the_table_and_nothing_else(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("learning_table", ROOT / "benchmarks" / "learning_table.py")
    table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(table)
    page = PAGE.read_text(encoding="utf-8")
    kept = [line.split("|")[1:3] for line in page.partition(table.BEGIN)[2].splitlines() if line.startswith("|")]
    names = [line[1].strip() for line in kept[2:]]
    assert names == list(table.ATTACKS) * 2 * len(table.SETS)
    monkeypatch.setattr(table, "SETS", {"diabetes": table.SETS["diabetes"]})
    monkeypatch.setattr(table, "ATTACKS", {"blow-ups": table.ATTACKS["blow-ups"]})
    output = tmp_path / "learning.md"
    output.write_text(page, encoding="utf-8")
    table.main(["--runs", "1", "--output", str(output)])
    written = output.read_text(encoding="utf-8")
    assert written.partition(table.BEGIN)[0] == page.partition(table.BEGIN)[0]
    assert written.partition(table.END)[2] == page.partition(table.END)[2]
    assert "over 1 splits" in written
    assert "learning.md" in capsys.readouterr().out
