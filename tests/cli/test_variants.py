"""Ratios, covariates, users and segments on the command line and in the report."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pytest
from command_line import run
from html_pages import check_widths

import outvote as ov
from outvote.data.columns import read_columns
from outvote.data.files import Files

SD = ("--sd", "40")


@pytest.fixture(scope="module")
def orders(tmp_path_factory):
    """Orders of users in three variants and two countries; a few are in the wrong unit."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("orders") / "orders.csv"
    variant, country = rng.choice(["old", "new layout", "b"], 500), rng.choice(["DE", "FR"], 500)
    before = rng.gamma(2.0, 10.0, 500).round(2)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "variant", "country", "sessions", "revenue", "before"])
        for user in rng.integers(0, 500, 1200).tolist():
            sessions = int(rng.poisson(2.0)) + 1
            spent = 0.4 * before[user] + sessions * {"old": 6.0, "new layout": 14.0, "b": 6.0}[variant[user]]
            spent += float(rng.gamma(1.0, 5.0))
            spent *= 1000 if rng.random() < 0.004 else 1
            writer.writerow([f"u{user}", variant[user], country[user], sessions, round(spent, 2), before[user]])
    return path


def asked(orders, *more):
    return (orders, "--value", "revenue", "--by", "variant", "--baseline", "old", *SD, *more)


def test_compare_prints_verdicts_of_several_comparisons_first(orders):
    done = run("compare", *asked(orders, "--ratio", "sessions", "--unit", "user", "--contamination", "3%"))
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["variant", "difference", "low", "high", "lift", "tolerance", "settled"]
    assert [line.split("  ")[0] for line in lines[1:3]] == ["b", "new layout"]
    assert [line.split()[-1] for line in lines[1:3]] == ["no", "yes"]
    assert re.match(r"revenue/sessions: b \(\d+ rows by user\) against old \(\d+ rows by user\), 95 % int", lines[4])
    assert lines[6].startswith("difference of ratios")
    assert not any("superiority" in line for line in lines)
    digits = [re.findall(r"-?\d+\.(\d+)(?= )", line)[:3] for line in lines[1:3]]
    assert len({len(one) for line in digits for one in line}) == 1


def test_segments_have_lines_of_their_own(orders):
    options = asked(orders, "--covariate", "before", "--coefficient", 0.4, "--unit", "user", "--segment", "country")
    found = json.loads(run("compare", *options, "--simultaneous", "--contamination", 8, "--json").stdout)
    lines = found["comparisons"]
    assert [(one["group"]["country"], one["other"]) for one in lines] == [
        ("DE", "b"), ("DE", "new layout"), ("FR", "b"), ("FR", "new layout"),
    ]  # fmt: skip
    told = [found[name] for name in ("covariate", "coefficient", "unit", "simultaneous")]
    assert told == ["before", 0.4, "user", True]
    assert found["segments"] == ["country"]
    assert all(one["superiority"] is None for one in lines)
    assert all("the coefficient was fixed before these rows existed" in one["note"] for one in lines)
    heads = run("compare", *options, "--contamination", 8, "--csv").stdout.splitlines()
    assert heads[0].startswith("country,other,n_baseline,n_other,plain,")
    wide = json.loads(run("compare", *options, "--contamination", 8, "--json").stdout)["comparisons"]
    assert all(one["difference"]["radius"] > two["difference"]["radius"] for one, two in zip(lines, wide, strict=True))


def test_remarks_say_what_adjusted_values_rest_on(orders):
    done = run("compare", *asked(orders, "--covariate", "before", "--contamination", "3%"))
    assert done.stderr.count("held out to fit the coefficient") == 1
    assert "The other comparisons have coefficients of their own." in done.stderr
    assert "adjusted difference" in done.stdout


def test_users_are_added_up_as_they_are_in_python(orders):
    with Files([str(orders)]) as files:
        columns = read_columns(files, "revenue", ("variant",), more=("before",), unit="user").added_up("before")
        raw = read_columns(files, "revenue", ("variant",), unit="user")
    assert columns.users is not None
    assert len(columns.values) == len(columns.users) == len(set(columns.users)) < len(raw.values)
    assert columns.values.sum() == pytest.approx(raw.values.sum())
    assert columns.place(0) == ("", columns.users[0])
    assert columns.more["before"].max() < 200  # taken once, not added up
    assert raw.place(0) == (str(orders), 1)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--unit", "nobody"], "--by 'nobody' is not a column|'nobody' is not a column"),
        (["--ratio", "user"], "has no number, 'u"),
        (["--segment", "variant"], "--segment variant and --by variant are the same column"),
        (["--vote", "median", "--simultaneous"], "--vote median is for means, one comparison at a time"),
        (["--ratio", "sessions", "--covariate", "before"], "--ratio and --covariate do not go together"),
    ],
)
def test_wrong_options_are_refused(orders, options, told):
    with pytest.raises((ValueError, TypeError), match=told):
        run("compare", *asked(orders, *options))


def test_rows_without_a_user_are_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("u,k,v\n" + "".join(f"{i},{'ab'[i % 2]},{i}\n" for i in range(40)) + ",a,3\n")
    with pytest.raises(ValueError, match="unit='u' is empty in some rows"):
        run("compare", path, "--value", "v", "--by", "k", "--unit", "u")


def test_cells_without_a_number_are_told_by_their_column(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("u,k,d,v\n" + "".join(f"{i},{'ab'[i % 2]},1,{i}\n" for i in range(40)) + "9,a,many,3\n9,b,,4\n")
    options = (path, "--value", "v", "--by", "k", "--ratio", "d", "--unit", "u")
    with pytest.raises(ValueError, match=r"'d' is not a number in row 41 of .*: 'many'"):
        run("compare", *options)
    done = json.loads(run("compare", *options, "--nan", "corrupt", "--contamination", 2, "--json").stdout)
    assert [one["n_baseline"] for one in done["comparisons"]] == [21]


# ---------------------------------------------------------------- the report


@pytest.fixture(scope="module")
def pages(orders, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    names = {
        "ratio": ("--ratio", "sessions", "--unit", "user", "--contamination", "3%"),
        "segments": ("--covariate", "before", "--segment", "country", "--contamination", "2%", "--simultaneous"),
    }
    for name, options in names.items():
        done = run("report", *asked(orders, *options), "-o", folder / f"{name}.html")
        assert done.exit_code == 0
        (folder / f"{name}.txt").write_text(done.stdout)
    return folder


def test_report_begins_with_the_verdicts(pages):
    page = (pages / "ratio.html").read_text("utf-8")
    marks = ("<h1>", "Is the variant larger than the baseline?", "If more or fewer rows are corrupt")
    places = [page.index(mark) for mark in (*marks, "The rows that decide", "Plain against robust")]
    assert places == sorted(places)
    assert "Which have a larger revenue/sessions than old?" in page
    assert "A row is one of user" in page
    assert "numerators" not in page
    assert "0 can be the mean of revenue - R·sessions" in page
    said = (pages / "ratio.txt").read_text()
    assert "has a larger revenue/sessions than old" in said


def test_report_shows_segments(pages):
    page = (pages / "segments.html").read_text("utf-8")
    assert page.count('id="slider-') == 4
    assert "<h3>new layout against old in DE</h3>" in page
    assert "All comparisons hold at once" in page
    assert "mean revenue, adjusted by before, than old in FR" in page


@pytest.mark.parametrize("name", ["ratio", "segments"])
def test_no_number_is_minus_zero_and_no_label_is_capitalised(pages, name):
    page = (pages / f"{name}.html").read_text("utf-8")
    body = re.sub(r"<(style|script)[^>]*>.*?</\1>", "", page, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", " ", body)
    assert not re.search(r"(?<!\w)-0(\.0+)?(?![\d.])", text)
    for wrong in ("B against", "B minus", "New layout", "Old "):
        assert wrong not in text


def test_report_in_a_browser(open_page, pages):
    page = open_page(pages / "ratio.html")
    table = page.locator("section.lead table").first
    assert table.locator("thead th").all_text_contents() == [
        "variant", "verdict", "difference", "95 % interval", "corrupt rows it survives", "lift", "lift interval",
    ]  # fmt: skip
    assert table.locator("tbody th").all_text_contents() == ["b", "new layout"]
    assert table.locator("tbody tr td:nth-child(2)").all_text_contents() == ["not settled", "larger"]
    # One axis for all groups: the histograms have the same ticks.
    ticks = [one.all_text_contents() for one in
             [page.locator(".pictures svg").nth(i).locator(".middle") for i in range(3)]]  # fmt: skip
    assert ticks[0] == ticks[1] == ticks[2]
    assert page.locator("[aria-labelledby=deciding] tbody tr").count() == 5
    deciding = page.locator("[aria-labelledby=deciding] tbody tr").first.locator("td").all_text_contents()
    assert deciding[0].startswith("u")
    assert float(deciding[2]) > 1000
    check_widths(open_page(pages / "segments.html"))


def test_deciding_rows_are_those_of_the_library(orders, pages):
    import pandas as pd

    sums = pd.read_csv(orders).groupby(["variant", "user"], as_index=False)[["sessions", "revenue"]].sum()
    pair = [sums[sums["variant"] == one].reset_index(drop=True) for one in ("old", "new layout")]
    found = ov.tolerance(
        *(one[["sessions", "revenue"]].to_numpy() for one in pair), ratio=True, contamination=0.03,
        assume=ov.FiniteVariance(40.0),
    )  # fmt: skip
    users = [pair[s]["user"][i] for s, i in found.deciding[:5]]
    page = (pages / "ratio.html").read_text("utf-8")
    section = page[page.index('id="deciding"') : page.index('id="groups"')]
    assert re.findall(r">(u\d+)<", section) == users
