"""The command `describe`: a line for each column of numbers."""

import json

import pytest
from command_line import run


def test_describe_sums_up_every_column_of_numbers(dirty, tmp_path):
    done = run("describe", dirty, "--json")
    found = json.loads(done.stdout)
    assert done.exit_code == 0
    assert found["left_out"] == ["variant"]
    assert [line["column"] for line in found["columns"]] == ["id", "revenue"]
    revenue = found["columns"][1]
    assert (revenue["n"], revenue["missing"], revenue["suspects"] >= 15) == (4996, 4, True)
    assert revenue["low"] < 45 < revenue["high"] < revenue["mean"] < revenue["max"]
    lines = run("describe", dirty).stdout.splitlines()
    assert lines[1].split() == ["column", "rows", "missing", "plain", "robust", "low", "high", "holds", "p05", "median",
                                "p95", "min", "max", "suspects"]  # fmt: skip
    assert " if sd ≤ " in lines[3]
    assert run("describe", dirty, "--csv").stdout.startswith("column,n,missing,mean,")
    words = tmp_path / "words.csv"
    words.write_text("k,v\na,b\n")
    with pytest.raises(ValueError, match="has no column of numbers: its columns are k, v"):
        run("describe", words)
    with pytest.raises(ValueError, match="--contamination auto is for one mean at a time"):
        run("describe", dirty, "--contamination", "auto")


def test_describe_tells_why_a_column_has_no_interval(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,7\n2,\n3,\n")
    done = run("describe", path, "--contamination", 1)
    assert done.exit_code == 1
    assert "b: --contamination 1 means 1 corrupt rows among 1" in done.stderr


def test_wide_files_are_described(tmp_path):
    path = tmp_path / "wide.csv"
    lines = [[f"c{j}" for j in range(60)], *([str(i + j) for j in range(60)] for i in range(9))]
    path.write_text("\n".join(map(",".join, lines)))
    found = json.loads(run("describe", path, "--json").stdout)
    assert [line["column"] for line in found["columns"]] == [f"c{j}" for j in range(60)]
    assert [line["mean"] for line in found["columns"]] == [4.0 + j for j in range(60)]
