"""Quantiles and proportions on the command line."""

import csv
import io
import json

import numpy as np
import pytest
from command_line import MEAN, mistake, run

import outvote

# --- quantile -----------------------------------------------------------------------------------------------


def test_quantiles_of_groups_as_a_table(dirty):
    done = run("quantile", dirty, *MEAN, "--by", "variant", "--q", "0.5, 0.999", "--contamination", 25)
    assert done.exit_code == 0
    title, heads, *lines = done.stdout.splitlines()
    assert title == "quantiles of revenue, 95 % intervals"
    assert heads.split() == ["variant", "rows", "robust", "low", "high", "holds", "survives"]
    assert [line.split()[:2] for line in lines] == [[v, p] for v in "AB" for p in ("p50", "p99.9")]
    robust, low, high = map(float, lines[0].split()[4:7])
    assert low < robust < high
    assert low < 30 * np.log(2) < high
    assert lines[1].split()[-3:] == ["–", "certified", "25"]  # too few rows for the upper end of p99.9
    assert done.stderr.startswith("outvote: A; B: There are too few rows to bound p99.9 from above")


def test_quantiles_as_json_and_csv(dirty):
    found = json.loads(run("quantile", dirty, *MEAN, "--by", "variant", "--q", 0.9, "--json").stdout)
    assert found["command"] == "quantile"
    assert found["complete"] is True
    assert list(found["groups"][0]) == ["group", "q", "name", "n", "quantile", "corrupt"]
    assert [line["group"] for line in found["groups"]] == [{"variant": "A"}, {"variant": "B"}]
    lines = list(csv.DictReader(io.StringIO(run("quantile", dirty, *MEAN, "--by", "variant", "--csv").stdout)))
    assert list(lines[0]) == [
        "variant", "q", "name", "n", "quantile_estimate", "quantile_low", "quantile_high", "quantile_radius",
        "quantile_provenance", "quantile_note", "quantile_premise_sd", "corrupt",
    ]  # fmt: skip
    assert [line["q"] for line in lines] == ["0.5", "0.5"]


def test_quantiles_with_infinite_cells_and_groups_without_an_answer(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("v,k\n" + "".join(f"{i % 7},big\n" for i in range(200)) + "inf,big\n1,tiny\n")
    assert run("quantile", path, "--value", "v", "--contamination", 0).exit_code == 0
    done = run("quantile", path, "--value", "v", "--by", "k", "--contamination", 3)
    assert done.exit_code == 1
    assert "no answer" in done.stdout
    assert done.stderr.startswith("outvote: tiny: --contamination 3 means 3 corrupt rows among 1")
    unknown = run("quantile", path, "--value", "v", "--contamination", "auto")
    assert unknown.stdout.splitlines()[-1].split()[-1] == "21"  # a tenth of the rows


@pytest.mark.parametrize(
    ("q", "message"), [("a", "--q 'a' must be shares between 0 and 1"), ("95", "did you mean 0.95")]
)
def test_wrong_quantiles_are_named(capsys, dirty, q, message):
    assert message in mistake(capsys, "quantile", dirty, *MEAN, "--q", q)


# --- proportions ------------------------------------------------------------------------------------------------


def test_proportions(tmp_path, capsys):
    path, page = tmp_path / "bought.csv", tmp_path / "page.html"
    path.write_text(
        "k,v\n" + "".join(f"{k},{int(i % step == 0)}\n" for k, step in (("A", 20), ("B", 5)) for i in range(800))
    )
    exact = outvote.mean(np.arange(800) % 5 == 0, 3)
    done = run("mean", path, "--value", "v", "--by", "k", "--contamination", 3, "--proportion", "--json")
    found = json.loads(done.stdout)["groups"][1]["mean"]
    assert (found["low"], found["high"], found["provenance"]) == (*exact.interval, "certified")
    done = run("compare", path, "--value", "v", "--by", "k", "--contamination", 3, "--proportion", "--json")
    gap = json.loads(done.stdout)["comparisons"][0]["difference"]
    known = outvote.difference(np.arange(800) % 20 == 0, np.arange(800) % 5 == 0, 3)
    assert (gap["low"], gap["high"]) == pytest.approx(known.interval)
    run("report", path, "--value", "v", "--by", "k", "--proportion", "--output", page)
    assert "--proportion" in page.read_text()
    assert "--proportion True" not in page.read_text()
    for other in (("--sd", 1), ("--bounds", 0, 1)):
        assert "do not go together" in mistake(capsys, "mean", path, "--value", "v", "--proportion", *other)


def test_rows_of_0_and_1_get_a_hint(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("k,v\n" + "".join(f"{'AB'[i % 2]},{int(i % 7 == 0)}\n" for i in range(600)))
    for command in (("mean",), ("compare", "--by", "k")):
        found = run(command[0], path, "--value", "v", *command[1:])
        assert "These rows are all 0 or 1: if that is by definition, --proportion gives an exact" in found.stderr
        assert "all 0 or 1" not in run(command[0], path, "--value", "v", "--proportion", *command[1:]).stderr
