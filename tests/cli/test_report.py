"""The report: its curves, its sentences, and its page in a browser."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import shlex
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from command_line import run
from html_pages import check_colours, check_widths

import outvote as ov
from outvote.cli.answer import Asked
from outvote.cli.report import drawing
from outvote.cli.variants import Arm, Pairing
from outvote.cli.verdict import value_at
from outvote.estimate.curve import curve
from outvote.estimate.mean import vote_of_blocks

NASTY = """<b id="x">B</b> & "q" 'r' ${y} </script><script>window.hit = 1</script>"""[:40]
IMAGE = '<img src=x onerror="window.hit = 1">'


def write(path, heads, *columns):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(heads)
        writer.writerows(zip(*columns, strict=True))
    return path


def samples():
    rng = np.random.default_rng(0)
    return rng.normal(10.0, 2.0, 800).round(3), rng.normal(11.0, 2.0, 1200).round(3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Reports of two variants, of one mean, and of data full of markup."""
    folder = tmp_path_factory.mktemp("report")
    a, b = samples()
    values, labels = np.concatenate([a, b]), ["A"] * len(a) + ["B"] * len(b)
    data = write(folder / "ab.csv", ["variant", "revenue"], labels, values)
    cells, marked = values.astype(str).tolist(), [NASTY if label == "B" else label for label in labels]
    cells[3], cells[4], marked[5] = IMAGE, "", ""
    nasty = write(folder / "nasty.csv", ["</script><i>k", NASTY], marked, cells)
    for name, options in {
        "ab": (data, "--value", "revenue", "--by", "variant", "--sd", "2.5"),
        "one": (data, "--value", "revenue", "--threshold", "9.5", "--contamination", "5"),
        "nasty": (nasty, "--baseline", "A", "--value", NASTY, "--by", "</script><i>k", "--nan", "corrupt", "--sd", 2.5),
    }.items():
        done = run("report", *options, "-o", folder / f"{name}.html")
        assert done.exit_code == 0
        (folder / f"{name}.txt").write_text(done.stdout)
    return folder


def curve_of(rows, asked, **options):
    """Compute the curve of one sample or two, as the commands do."""
    if not asked.evidence:
        return curve(asked.sides(rows), **options)
    if len(rows) == 1:
        return asked.curve(rows[0], **options)
    arms = [Arm(label, np.arange(len(x)), x, None) for label, x in zip("AB", rows, strict=True)]
    return Pairing((), *arms).contrast(asked, 1, shown=True).curve


def embedded(path):
    text = path.read_text("utf-8")
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])


# ---------------------------------------------------------------- curves and sentences


@pytest.mark.parametrize("assume", [ov.FiniteVariance(2.5), None])
def test_curve_turns_at_the_tolerance(assume):
    a, b = samples() if assume else (samples()[0][:200], samples()[1][:200] + 2)
    asked = Asked(assume=assume, contamination=2)
    found = curve_of([a, b], asked)
    assert found.start == found.assumed == 4
    assert found.stands == ov.tolerance(a, b, contamination=asked.contamination, **asked.options).rows > 4
    assert [value_at(found, count)[1] for count in (4, found.stands, found.stands + 1)] == [1, 1, 0]
    turned = curve_of([b, a], asked)
    assert value_at(turned, turned.assumed)[1] == -1
    assert turned.stands == pytest.approx(found.stands, rel=0 if assume else 0.05)


def test_interval_covers_every_split_of_the_corrupt_rows():
    a, b = samples()
    asked = Asked(assume=ov.FiniteVariance(2.5), contamination=2, vote="soft")
    found = curve_of([a, b], asked)
    options = asked.options | {"confidence": 0.975}
    for count in (4, 9, 30):
        sides = [[ov.mean(x, t, **options).interval for t in range(count + 1)] for x in (a, b)]
        value, _ = value_at(found, count)
        assert value.low <= min(sides[1][count - t].low - sides[0][t].high for t in range(count + 1)) + 1e-12
        assert value.high >= max(sides[1][count - t].high - sides[0][t].low for t in range(count + 1)) - 1e-12
        assert value.low < value.estimate < value.high


def test_curve_of_one_mean_equals_the_sensitivity():
    x = np.concatenate(samples())
    asked = Asked(contamination=5, vote="median")
    found = curve_of([x], asked, bound=9.5)
    levels = [5, found.stands, found.stands + 1]
    table = ov.sensitivity(x, levels=levels, **asked.options)
    assert (table.low > 9.5).tolist() == [True, True, False]
    assert [value_at(found, level)[1] for level in levels] == [1, 1, 0]
    assert value_at(found, 5)[0].low == table.low[0]
    assert value_at(found, 5)[0].estimate == table.estimate[0]


def test_gross_errors_within_the_contamination_do_no_harm():
    """They turn the means around for whoever trusts every row, and not for whoever allows for them."""
    a, b = samples()
    a, b = np.r_[a, np.full(10, 1e4)], b + 4
    asked = Asked(contamination=12, vote="median")
    found = curve_of([a, b], asked)
    assert found.settled
    value, verdict = value_at(found, found.assumed)
    assert verdict == 1
    close = ov.difference(a, b, 12, **asked.options)
    assert value.estimate == pytest.approx(close.estimate, abs=0.1)  # dealt into other blocks
    assert value.low == pytest.approx(close.interval.low, abs=2)
    assert value.high - value.low < 2 * (close.interval.high - close.interval.low)
    assert value_at(found, 0)[0].estimate < -10
    # Without allowing for them nothing is settled, as the tolerance says.
    trusting = curve_of([a, b], replace(asked, contamination=0))
    tolerance = ov.tolerance(a, b, contamination=asked.contamination, **asked.options)
    assert trusting.stands == tolerance.rows


def test_conclusion_may_stand_below_the_contamination_only():
    a, b = (x[::2] for x in samples())
    asked = Asked(assume=ov.FiniteVariance(2.5), contamination=0.2)
    found = curve_of([a, b], asked)
    assert not found.settled
    assert found.start == 0
    assert found.stands == ov.tolerance(a, b, contamination=asked.contamination, **asked.options).rows < found.assumed
    open_case = curve_of([a, a + 0.01], asked)
    assert open_case.stands is None
    assert not open_case.verdict.any()


def test_rows_known_to_be_corrupt_count_in_their_sample():
    a, b = samples()
    a[:1], b[:3] = np.nan, np.nan
    asked = Asked(assume=ov.FiniteVariance(2.5), contamination=5, vote="soft", nan="corrupt")
    assert curve_of([a, b], Asked(assume=asked.assume, contamination=5, nan="corrupt")).certain == 4
    found = curve_of([a, b], asked)
    assert found.certain == found.stops[0] == 4
    options = asked.options | {"confidence": 0.975}
    low = [vote_of_blocks(b, t, **options).interval.low for t in range(3, found.stands + 1)]
    high = [vote_of_blocks(a, t, **options).interval.high for t in range(1, found.stands + 1)]
    worst = {
        count: min(low[count - t - 3] - high[t - 1] for t in range(1, count - 2))
        for count in (found.stands, found.stands + 1)
    }
    assert worst[found.stands] > 0 >= worst[found.stands + 1]


def test_report_of_several_variants_files_and_missing_values(tmp_path):
    a, b = samples()
    labels, values = ["a"] * 800 + ["b"] * 1200, np.concatenate([a, b]).astype(str).tolist()
    values[7] = ""
    one = write(tmp_path / "one.csv", ["k", "v"], labels, values)
    two = write(tmp_path / "two.csv", ["k", "v"], ["c"] * 1000 + [""] * 2, [*(10.02 + a[:500]), *b[:500], 1e6, 2e6])
    output = tmp_path / "x.html"
    asked = ("report", one, two, "--value", "v", "--by", "k", "--sd", 6, "--nan", "omit", "-o", output)
    done = run(*asked)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert [line.split(" has ")[0] for line in lines[::2]] == ["It is not settled whether b or a", "c"]
    lead = output.read_text("utf-8").partition('aria-label="Answer"')[2].partition("</section>")[0]
    assert "Larger mean v than a: c. Not settled: b.</p>\n<details>" in lead
    assert re.findall(r'<th scope="row">(\w)</th><td data-head="verdict">([^<]+)</td>', lead) == [
        ("b", "not settled"),
        ("c", "larger"),
    ]
    back = run(*asked, "--contamination", 0.19, "--baseline", "b").stdout.splitlines()
    assert back[0].startswith("It is not settled whether a or b has the larger mean v if up to 380 of the 1 999 rows")
    assert re.fullmatch(r"b has a larger mean v than a if at most \d+ rows \(.* %\) are corrupt\.", back[1])
    page = output.read_text("utf-8")
    for text in (
        "not all of them at once",
        "Left out: 1 row without a number",
        "Left out: 2 rows without k",
        "two.csv",
    ):
        assert text in page
    assert page.count("SHA-256") == 2
    assert page.count('id="slider-') == 2
    lead = page.partition('aria-label="Answer"')[2].partition("</section>")[0]
    assert "Not settled: a and c.</p>\n<details>" in lead
    assert "only up to " in lead


def test_conclusions_that_are_never_settled(tmp_path):
    values = [*range(100), *range(100)]
    path = write(tmp_path / "x.csv", ["k", "v"], ["a"] * 100 + ["b"] * 100, values)
    done = run("report", path, "--value", "v", "--by", "k", "--contamination", 0, "-o", tmp_path / "x.html")
    assert done.stdout.splitlines()[1] == "The rows do not settle it even if no row is corrupt."
    same = write(tmp_path / "same.csv", ["v"], [3.0] * 50)
    done = run("report", same, "--value", "v", "--contamination", 0, "--sd", 1, "-o", tmp_path / "x.html")
    assert done.stdout.startswith("The mean of v is above 0: it is 3.0")
    assert "if no row is corrupt.\n" in done.stdout
    assert "No row of 50 stands out." in (tmp_path / "x.html").read_text("utf-8")


def test_a_report_does_not_blame_few_corrupt_rows_for_outvoting(tmp_path):
    rows = np.r_[np.arange(160) % 7, np.full(18, 1e6)]
    path = write(tmp_path / "x.csv", ["k", "v"], ["A", "B"] * 89, rows)
    run("report", path, "--value", "v", "--by", "k", "--contamination", 4, "-o", tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text("utf-8")
    assert "could outvote the clean ones" not in page
    assert "more rows than that look corrupt, or there are too few rows" in page
    assert "look as if more than 4 rows were corrupt" in page


def test_numeric_variants_are_named_with_their_column(tmp_path):
    a, b = samples()
    path = write(tmp_path / "x.csv", ["arm", "v"], ["0"] * 800 + ["1"] * 1200, np.concatenate([a, b]))
    done = run("report", path, "--value", "v", "--by", "arm", "--sd", 2.5, "-o", tmp_path / "x.html")
    assert done.stdout.startswith("arm 1 has a larger mean v than arm 0: by 0.99 ")
    page = (tmp_path / "x.html").read_text("utf-8")
    assert f"arm 1 minus arm 0 is {b.mean() - a.mean():.2f}." in page


# ---------------------------------------------------------------- pictures of the rows


def test_rows_that_are_mostly_zero_show_the_others_and_the_mean():
    rng = np.random.default_rng(0)
    x = np.where(rng.random(2000) < 0.1, rng.lognormal(3.0, 0.5, 2000), 0.0)
    low, high = drawing.span(x)
    assert low == 0
    assert np.quantile(x[x > 0], 0.95) < high
    picture = drawing.histogram("A", x, float(x.mean()), None, (low, high))
    assert f"the tallest bar has {(x < high / 40).sum():,} rows, and is cut off".replace(",", " ", 1) in picture
    tall = [float(one) for one in re.findall(r'class="bar" .*? height="([\d.]+)"', picture)]
    assert sorted(tall)[-2] == pytest.approx(max(tall) / 2, abs=0.1)


def test_answers_are_drawn_as_two_bars(tmp_path):
    rng = np.random.default_rng(0)
    path = write(tmp_path / "x.csv", ["k", "v"], rng.choice(["a", "b"], 600), (rng.random(600) < 0.1).astype(int))
    run("report", path, "--value", "v", "--by", "k", "--proportion", "-o", tmp_path / "x.html")
    rows = (tmp_path / "x.html").read_text("utf-8").partition('id="blocks"')[2].partition("</section>")[0]
    assert "farther" not in rows
    for picture in rows.split("<svg")[1:]:
        tall = [float(one) for one in re.findall(r'class="bar" .*? height="([\d.]+)"', picture)]
        assert [place for place, one in enumerate(tall) if one] == [0, len(tall) - 1]


def test_no_chart_where_there_is_no_interval(tmp_path):
    path = write(tmp_path / "x.csv", ["k", "v"], ["a", "a", "b"], [1, 2, 3])
    run("report", path, "--value", "v", "--by", "k", "--contamination", 0, "-o", tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text("utf-8")
    assert "There is nothing to draw: no number of corrupt rows among these 3 rows leaves an interval" in page
    assert 'id="slider-' not in page
    assert embedded(tmp_path / "x.html") == []
    assert "FiniteVariance" not in page


def test_verdicts_name_their_condition_and_how_many_rows_decide(tmp_path):
    rng = np.random.default_rng(0)
    values = np.r_[rng.normal(10, 2, 300), rng.normal(14, 2, 300), rng.normal(10, 2, 300)]
    path = write(tmp_path / "x.csv", ["k", "v"], ["a"] * 300 + ["b"] * 300 + ["c"] * 300, values)
    lines = run("report", path, "--value", "v", "--by", "k", "-o", tmp_path / "x.html").stdout.splitlines()
    assert lines[2].startswith("It is not settled whether c or a")
    assert re.search(r"\(if the clean rows' sd is at most .* in a and .* in c\)\.$", lines[2])
    stands = int(re.search(r"more than (\d+) corrupt rows", lines[1])[1])
    page = (tmp_path / "x.html").read_text("utf-8")
    assert f"The verdict on b against a: the first 5 of {stands + 1} rows that decide" in page
    assert "if\u00a0sd\u00a0≤\u00a0" in page


# ---------------------------------------------------------------- page as text


def test_page_contains_the_printed_sentences(folder):
    a, b = samples()
    for name in ("ab", "one", "nasty"):
        page = unescape((folder / f"{name}.html").read_text("utf-8"))
        lines = (folder / f"{name}.txt").read_text().splitlines()
        assert len(lines) == 2
        for line in lines:
            assert f">{line}</p>" in page
    first, second = (folder / "ab.txt").read_text().splitlines()
    assert first.startswith("B has a larger mean revenue than A: by 0.99 (95 % interval 0.")
    assert first.endswith("), even if up to 20 of the 2 000 rows are corrupt.")
    rows = ov.tolerance(a, b, assume=ov.FiniteVariance(2.5), rng=0).rows
    assert second.startswith(f"It takes more than {rows} corrupt rows ")
    assert (folder / "one.txt").read_text().startswith("The mean of revenue is above 9.5: it is 10.")


def test_page_is_reproduced_by_its_command(folder):
    page = (folder / "ab.html").read_text("utf-8")
    command = shlex.split(unescape(re.search(r"<dt>Command</dt><dd><code>(.*?)</code>", page)[1]))
    assert command[:2] == ["outvote", "report"]
    assert hashlib.sha256((folder / "ab.csv").read_bytes()).hexdigest() in page
    assert f"outvote {ov.__version__}" in page
    assert "<dt>Seed</dt><dd>0</dd>" in page
    (folder / "ab.html").unlink()
    assert run(*command[1:]).exit_code == 0
    assert (folder / "ab.html").read_text("utf-8") == page


def test_page_escapes_data_and_loads_nothing(folder):
    page = (folder / "nasty.html").read_text("utf-8")
    assert page.count("<script") == page.count("</script>") == 2
    for mark in ("<b id", "<img", "<i>", "url(", "@import", " style="):
        assert mark not in page
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    assert embedded(folder / "nasty.html")[0]["words"][2] == [f"{NASTY} is larger", "holds"]


def test_colours_have_enough_contrast():
    check_colours("outvote.cli.report", ("text", "muted", "link", "robust", "plain", "holds", "open"))


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--contamination", "auto"], "--contamination auto: a report shows every number of corrupt rows"),
        (["--by", "variant", "--threshold", "3"], "--threshold 3 is for one mean"),
        (["--baseline", "A"], "--baseline 'A' is for variants"),
        (["--threshold", "inf"], "--threshold inf must be a finite number"),
        (["--by", "revenue"], "--by revenue and --value revenue are the same column"),
        (["--ratio", "revenue"], "--ratio is for variants: give their column by --by COLUMN"),
        (["--by", "variant", "--vote", "median", "--covariate", "id"], "--vote median is for means"),
        (["--by", "variant", "--coefficient", "0.5"], "--coefficient 0.5 is that of a covariate"),
    ],
)
def test_invalid_options_raise_and_write_nothing(folder, tmp_path, options, told):
    with pytest.raises(ValueError, match=re.escape(told)):
        run("report", folder / "ab.csv", "--value", "revenue", *options, "-o", tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


def test_report_does_not_overwrite_its_data(folder):
    data = (folder / "ab.csv").read_bytes()
    with pytest.raises(ValueError, match="is the file that is read"):
        run("report", folder / "ab.csv", "--value", "revenue", "-o", folder / "ab.csv")
    assert (folder / "ab.csv").read_bytes() == data
    with pytest.raises(IsADirectoryError, match=r"report\.html"):
        run("report", folder / "ab.csv", "--value", "revenue", "-o", folder)


def test_failed_write_keeps_the_old_page(folder, tmp_path, monkeypatch):
    (tmp_path / "x.html").write_text("before")
    monkeypatch.setattr("outvote.data.writing.os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        run("report", folder / "ab.csv", "--value", "revenue", "-o", tmp_path / "x.html")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"x.html": "before"}


# ---------------------------------------------------------------- page in a browser


def move(page, count, place=0):
    page.locator(f"#slider-{place}").evaluate(
        "(e, count) => { e.value = count; e.dispatchEvent(new Event('input')); }", count
    )
    box = page.locator(f"#curve-{place}")
    return [box.locator(name).text_content() for name in (".count", ".verdict", ".said")]


def test_slider_turns_the_verdict_at_the_tolerance(open_page, folder):
    page, asked = open_page(folder / "ab.html"), Asked(assume=ov.FiniteVariance(2.5))
    a, b = samples()
    rows = ov.tolerance(a, b, contamination=asked.contamination, **asked.options).rows
    found = curve_of([a, b], asked)
    assert page.locator("#slider-0").input_value() == str(found.assumed) == "20"
    for count, verdict in ((0, "B is larger"), (20, "B is larger"), (rows, "B is larger"), (rows + 1, "not settled")):
        shown, word, said = move(page, count)
        value, _ = value_at(found, count)
        assert (shown, word) == (str(count), verdict)
        low, high = map(float, re.search(r"interval (\S+) to (\S+)\)", said).groups())
        assert low == pytest.approx(value.low, abs=0.05)
        assert high == pytest.approx(value.high, abs=0.05)
    places = []
    for count in (0, rows, embedded(folder / "ab.html")[0]["last"]):
        move(page, count)
        places.append(float(page.locator("#curve-0 .here").get_attribute("x1")))
    assert places[0] == 46
    assert places[2] == 408
    assert places[0] < places[1] < places[2]
    page.get_by_role("button", name="Back to the 20 assumed").click()
    assert page.locator(".count").text_content() == "20"
    slider = page.get_by_role("slider", name="Corrupt rows among 2 000, B against A")
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".count").text_content() == "21"
    assert slider.get_attribute("aria-valuetext") == "21 corrupt rows: B is larger"
    assert page.locator("#outcome-0").get_attribute("aria-live") == "polite"
    assert page.locator("svg.picture:not([role=img][aria-label])").count() == 0
    assert page.locator("table").count() == page.locator("table > caption").count()


def test_page_on_a_phone_without_scripts_in_the_dark_and_on_paper(open_page, folder):
    page = open_page(folder / "ab.html", java_script_enabled=False, color_scheme="dark")
    assert not page.locator(".control").is_visible()
    assert page.locator("#outcome-0 .verdict").text_content() == "B is larger"
    paper = "getComputedStyle(document.body).backgroundColor"
    page = open_page(folder / "ab.html", color_scheme="dark")
    assert page.evaluate(paper) == "rgb(20, 24, 29)"
    page.set_viewport_size({"width": 390, "height": 800})
    for box in page.locator(".cards").all():
        assert box.evaluate("e => e.parentElement.scrollWidth <= e.parentElement.clientWidth")
    page.emulate_media(media="print")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    assert not page.locator("#slider-0").is_visible()
    printed = page.pdf(prefer_css_page_size=True)
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 2
    check_widths(open_page(folder / "nasty.html"))


def test_markup_in_the_data_is_shown_as_text(open_page, folder):
    page = open_page(folder / "nasty.html")
    assert page.evaluate("window.hit") is None
    assert page.locator("#x, main img, main i").count() == 0
    assert page.locator("#groups").text_content() == "Plain against robust, by </script><i>k"
    assert NASTY in page.locator("h1").text_content()
    assert f"“{IMAGE}”" in page.locator("[aria-labelledby=suspects] td").all_text_contents()
    assert page.locator("#curve-0 h3").text_content() == f"{NASTY} against A"
    last = embedded(folder / "nasty.html")[0]["last"]
    assert move(page, last)[1] == "not settled"
