"""What a newcomer sees first: several columns, the price of caution, help with examples."""

from __future__ import annotations

import json

import pytest
from command_line import mistake, run
from typer.main import get_command

import outvote as ov
from outvote.cli.commands import app


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "orders.csv"
    lines = [f"{'AB'[i % 2]},{(i * 7919) % 1000},{i // 2 % 3},{i // 6 % 2}" for i in range(2000)]
    path.write_text("\n".join(["variant,revenue,cost,day", *lines]) + "\n")
    return path


def test_mean_shows_the_price_of_caution(orders):
    shown = run("mean", orders, "--value", "revenue").stdout
    assert [line.split("  ")[0] for line in shown.splitlines()[4:]] == [
        "if so many are corrupt", "none", "2 rows (0.1 %)", "20 rows (1 %)"
    ]  # fmt: skip
    found = json.loads(run("mean", orders, "--value", "revenue", "--json").stdout)
    revenue = [(i * 7919) % 1000 for i in range(2000)]
    expected = ov.sensitivity(revenue, levels=[0, 2, 20])
    assert [line["corrupt"] for line in found["caution"]] == [0, 2, 20]
    assert [line["mean"]["low"] for line in found["caution"]] == pytest.approx(expected.low.tolist(), rel=1e-9)
    last, first = found["caution"][-1]["mean"], found["groups"][0]["mean"]
    assert [last[name] for name in ("estimate", "low", "high", "premise_sd")] == pytest.approx(
        [first[name] for name in ("estimate", "low", "high", "premise_sd")], rel=1e-9
    )


def test_no_price_where_it_would_be_in_the_way(orders):
    for more in (["--by", "variant"], ["--sensitivity"], ["--vote", "median"]):
        assert "if so many are corrupt" not in run("mean", orders, "--value", "revenue", *more).stdout


def test_no_price_where_the_rows_contradict_all_levels(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("v\n" + "".join(f"{i % 7 if i % 40 else 'x'}\n" for i in range(400)))
    found = run("mean", path, "--value", "v", "--nan", "corrupt", "--contamination", "0.05")
    assert found.exit_code == 0
    assert "if so many are corrupt" not in found.stdout


def test_several_values_get_a_line_each(orders):
    shown = run("mean", orders, "--value", "revenue", "--value", "cost", "--by", "variant").stdout
    lines = [line.split()[:2] for line in shown.splitlines()[2:]]
    assert lines == [["revenue", "A"], ["revenue", "B"], ["cost", "A"], ["cost", "B"]]
    found = json.loads(run("mean", orders, "--value", "revenue", "--value", "cost", "--json").stdout)
    assert found["by"] == ["column"]
    assert [line["group"] for line in found["groups"]] == [{"column": "revenue"}, {"column": "cost"}]
    single = json.loads(run("mean", orders, "--value", "cost", "--json").stdout)
    assert found["groups"][1]["mean"] == single["groups"][0]["mean"]
    shown = run("quantile", orders, "--value", "revenue", "--value", "cost").stdout
    assert [line.split()[:2] for line in shown.splitlines()[2:]] == [["revenue", "p50"], ["cost", "p50"]]


def test_text_in_one_of_several_columns_names_it(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(100)) + "1,x\n")
    told = mistake(capsys, "mean", path, "--value", "a", "--value", "b")
    assert "'b' is not a number in row 101" in told
    found = run("mean", path, "--value", "a", "--value", "b", "--nan", "corrupt", "--contamination", "2")
    assert found.exit_code == 0


@pytest.mark.parametrize("command", ["compare", "report", "monitor"])
def test_a_second_value_is_refused_where_one_is_taken(orders, capsys, command):
    more = {"compare": ["--by", "variant"], "monitor": ["--time", "cost"]}.get(command, [])
    told = mistake(capsys, command, orders, "--value", "revenue", "--value", "cost", *more)
    assert told == "--value is given 2 times (revenue, cost): this command takes one column"


def test_without_a_value_the_columns_are_listed(orders, capsys):
    told = mistake(capsys, "mean", orders)
    assert told == f"--value is missing: the columns of {orders} are variant, revenue, cost and day"
    assert mistake(capsys, "compare", orders, "--by", "variant") == told


def test_report_repeats_options_that_were_given_twice(orders, tmp_path):
    page = tmp_path / "page.html"
    segments = ("--segment", "cost", "--segment", "day")
    assert run("report", orders, "--value", "revenue", "--by", "variant", *segments, "-o", page).exit_code == 0
    assert " ".join(segments) in page.read_text("utf-8")


def test_help_has_two_examples_and_no_types_of_flags():
    commands = list(get_command(app).commands)
    assert commands[:3] == ["mean", "quantile", "compare"]
    for command in commands:
        text = run(command, "--help").stdout
        assert text.partition("Examples:")[2].count(f" outvote {command}") == 2
        assert "<bool>" not in text
        assert "<list" not in text
    assert "<bool>" not in run("--help").stdout
