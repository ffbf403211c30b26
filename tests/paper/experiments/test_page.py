"""The pages of outcomes, as text and in a browser."""

from __future__ import annotations

import re
import shutil
from itertools import pairwise

import numpy as np
import pytest
from html_pages import check_colours, check_widths

from outvote.paper.experiments import Finding, Outcome, get
from outvote.paper.experiments.page import QUICK, claims_table, shown, write_index, write_report
from outvote.paper.experiments.running import run, save

NASTY = """<b id="x">a|b</b> & "q" 'r' <script>window.hit = 1</script> [l](m) *s* _t_ `u` &lt; $v$"""


def nasty_rows(count=100):
    """Give rows in no order, some without a score or a name, with markup in names, cells and numbers of all sizes."""
    places = [place * 37 % count for place in range(count)]
    return [
        {
            "place": place,
            "score": None if place % 7 == 0 else (place - 50) / 3,
            "who": None if place % 9 == 1 else f"name {place}",
            NASTY: NASTY,
            "odd": place % 2 == 1,
        }
        for place in places
    ]


@pytest.fixture(scope="module")
def outcomes():
    nasty = Outcome(
        experiment="nasty",
        title=NASTY,
        where="beyond the paper",
        parameters={"runs": 3, "seed": 7, "note": NASTY, "list": [1, 2]},
        tables={"nasty": nasty_rows(), "nasty.few": nasty_rows(3), "nasty.long": nasty_rows(201)},
        findings=[Finding(NASTY, "does not hold", NASTY, NASTY), Finding("quiet", "holds", "0.05")],
        versions={"python": NASTY},
        seconds=12.34,
    )
    return [run(get("ruin-mean"), quick=True), nasty]


@pytest.fixture(scope="module")
def folder(outcomes, tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    save(outcomes[0], get("ruin-mean"), folder)
    shutil.copy(folder / "ruin-mean.svg", folder / "nasty.svg")
    (folder / "nasty.few.csv").touch()
    write_index(outcomes, folder)
    write_report(outcomes, folder)
    return folder


@pytest.fixture
def index(folder):
    return folder / "index.html"


# ---------------------------------------------------------------- page as text


def test_numbers_are_shown_with_four_digits():
    assert shown([0.5, 0.25]) == ["0.5", "0.25"]
    assert shown([0.5, 2 / 3, 1234.5, 9999.6, -123456.7]) == ["0.5000", "0.6667", "1 234", "10 000", "-123 500"]
    assert shown([1.23456e-9, 7654321.0]) == ["1.235e-09", "7.654e+06"]
    assert shown([123456, np.int64(7), np.bool_(True), False]) == ["123 456", "7", "yes", "no"]
    assert shown([None, np.nan, np.float32("nan"), np.inf, -np.inf, "x"]) == ["–", "–", "–", "∞", "-∞", "x"]


def test_page_escapes_data_and_loads_nothing(index):
    page = index.read_text("utf-8")
    assert page.count("<script") == 1
    assert '<b id="x">' not in page
    assert not re.search(r'(src|href)="(?!data:|#|ruin-mean\.|nasty\.)', page)
    assert "url(" not in page
    assert "@import" not in page


def test_links_exist(folder, index):
    links = set(re.findall(r'href="([^#":]+)"', index.read_text("utf-8")))
    assert links == {f"ruin-mean.{kind}" for kind in ("csv", "json", "png", "svg")} | {"nasty.few.csv", "nasty.svg"}
    assert all((folder / link).is_file() for link in links)


def test_sections_list_parameters_seed_and_versions(outcomes, index):
    page = index.read_text("utf-8")
    first, second = page.split('<section id="ruin-mean"')[1].split('<section id="nasty"')
    assert "<dt>Parameters</dt><dd>runs = 50, quick = true</dd><dt>Seed</dt><dd>0</dd>" in first
    assert f"numpy {np.__version__}" in first
    assert "list = [1, 2]</dd><dt>Seed</dt><dd>7</dd>" in second
    assert "<dt>Seconds</dt><dd>12.3</dd>" in second
    assert QUICK in page


def test_summary_counts_the_claims(outcomes, index, tmp_path):
    verdicts = [finding.verdict for outcome in outcomes for finding in outcome.findings]
    line = re.search(r'class="summary">(.*?)<', index.read_text("utf-8"))[1]
    numbers = [len(outcomes), len(verdicts), *(verdicts.count(v) for v in ("holds", "holds in part", "does not hold"))]
    assert [int(number) for number in re.findall(r"\d+", line)] == [number for number in numbers if number]
    single = Outcome("one", "One", "Figure 1", {}, {"one": [{"a": 1}]}, [Finding("c", "does not hold", "m")])
    page = write_index([single], tmp_path).read_text("utf-8")
    assert "1 experiment, 1 claim: 1 does not hold." in page
    assert "beyond the paper" not in page
    assert QUICK not in page


def test_page_of_an_empty_outcome(tmp_path):
    bare = Outcome("bare", "Bare", "Figure 1", {}, {"bare": []}, [])
    page = write_index([bare], tmp_path).read_text("utf-8")
    assert "There was no figure" in page
    assert "<img" not in page
    assert "1 experiment, 0 claims." in page
    assert "holds" not in re.search(r"<nav.*</main>", page, re.DOTALL)[0]
    assert "0 rows are in [bare.csv](bare.csv)." in write_report([bare], tmp_path).read_text("utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", "report.md"}


def test_claims_table_escapes_markdown():
    outcome = Outcome("x", "X", "Figure break_mean", {}, {}, [Finding("a|b", "holds in part", "1*2", "c\nd")])
    assert claims_table([outcome]).splitlines() == [
        "| claim | where in the paper | verdict | our figure | why |",
        "| --- | --- | --- | --- | --- |",
        r"| a\|b | Figure break_mean | holds in part | 1\*2 | c d |",
    ]


def test_markdown_report_renders_as_text_and_tables(outcomes, folder):
    markdown = pytest.importorskip("markdown_it").MarkdownIt("commonmark").enable("table")
    tokens = markdown.parse((folder / "report.md").read_text("utf-8"))
    inner = [child for token in tokens for child in token.children or []]
    assert {child.type for child in inner} <= {"text", "text_special", "softbreak", "image", "link_open", "link_close"}
    assert not any(token.type == "html_block" for token in tokens)
    headings = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    assert headings[1::2] == ["Experiments of the paper", "Experiments beyond the paper"]
    cells = [
        "".join(child.content for child in after.children)
        for token, after in pairwise(tokens)
        if token.type == "td_open"
    ]
    claims = sum(len(outcome.findings) for outcome in outcomes)
    main = outcomes[0].tables["ruin-mean"]
    assert len(cells) == 5 * claims + len(main) * len(main[0])  # and not the hundred rows
    assert cells.count(NASTY) == 3
    pictures = [child.attrs["src"] for child in inner if child.type == "image"]
    assert pictures == ["ruin-mean.png", "nasty.png"]


def test_colours_have_enough_contrast():
    check_colours("outvote.paper.experiments", ("text", "muted", "link", "holds", "part", "not"))


# ---------------------------------------------------------------- page in a browser


def column(table, name):
    """Return the texts of a column, by its heading."""
    names = [text.strip() for text in table.locator("thead th").all_text_contents()]
    return [text.strip() for text in table.locator(f"tbody td:nth-child({names.index(name) + 1})").all_text_contents()]


def data_table(page, name):
    return page.get_by_role("table", include_hidden=True).filter(has_text=f"Table {name}:")


def test_figures_are_shown(open_page, index):
    page = open_page(index)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    pictures = page.locator("img").all()
    assert len(pictures) == 2
    for picture in pictures:
        size = picture.evaluate("e => [e.naturalWidth, e.naturalHeight, +e.getAttribute('width'), e.height]")
        box = picture.bounding_box()
        assert size[0] == size[2] > 100
        assert min(box["width"], box["height"], size[1], size[3]) > 100
        assert picture.get_attribute("alt")


def test_click_sorts_numbers(open_page, index):
    page = open_page(index)
    page.locator("#nasty summary").first.click()
    table = data_table(page, "nasty")
    table.get_by_role("button", name="place").click()
    assert column(table, "place") == [str(place) for place in range(100)]
    table.get_by_role("button", name="place").click()
    assert column(table, "place") == [str(place) for place in range(99, -1, -1)]

    scores = [row["score"] for row in nasty_rows()]
    there = sorted(score for score in scores if score is not None)
    for direction, order in (("ascending", there), ("descending", there[::-1]), ("ascending", there)):
        table.get_by_role("button", name="score").click()
        assert column(table, "score") == shown([*order, *[None] * scores.count(None)])  # nothing comes last, either way
        assert table.locator("th[aria-sort]").all_text_contents() == ["score"]
        assert table.locator("th[aria-sort]").get_attribute("aria-sort") == direction


def test_keyboard_sorts_text(open_page, index):
    page = open_page(index)
    page.locator("#nasty summary").first.focus()
    page.keyboard.press("Enter")
    table = data_table(page, "nasty")
    button = table.get_by_role("button", name="who")
    button.focus()
    names = [f"name {place}" for place in range(100) if place % 9 != 1]  # name 9 before name 11
    page.keyboard.press("Enter")
    assert column(table, "who") == names + ["–"] * 11
    page.keyboard.press("Space")
    assert column(table, "who") == names[::-1] + ["–"] * 11
    assert button.evaluate("e => e === document.activeElement")


def test_claims_sort_by_verdict(open_page, index, outcomes):
    page = open_page(index)
    table = page.locator("table").first
    before = column(table, "Claim")
    table.get_by_role("button", name="Verdict").click()
    found = [text[1:] for text in column(table, "Verdict")]
    assert found == sorted(found, key=["holds", "holds in part", "does not hold"].index)
    assert len(set(found)) > 1
    table.get_by_role("button", name="Experiment").click()
    assert sorted(column(table, "Claim")) == sorted(before)
    assert before == [finding.claim for finding in outcomes[0].findings]


def test_claims_link_to_their_experiment(open_page, index):
    page = open_page(index, reduced_motion="reduce")
    page.locator("table").nth(1).get_by_role("link").first.click()
    assert page.url.endswith("#nasty")
    assert abs(page.locator("#nasty").bounding_box()["y"]) < 100


def test_markup_in_the_data_is_shown_as_text(open_page, index):
    page = open_page(index)
    assert page.evaluate("window.hit") is None
    assert page.locator("#x").count() == 0
    assert page.locator("#nasty h3").text_content() == NASTY
    assert page.locator("#nasty .findings p").all_text_contents()[:3] == [
        f"{label}: {NASTY}" for label in ("Claim", "Measured", "Why")
    ]
    assert column(data_table(page, "nasty.few"), NASTY) == [NASTY] * 3
    assert NASTY in page.locator("#nasty img").get_attribute("alt")


def test_headings_captions_and_folded_tables(open_page, index):
    page = open_page(index)
    levels = page.locator("h1, h2, h3, h4").evaluate_all("all => all.map(e => +e.tagName[1])")
    assert levels == [1, 2, 2, 2, 3, 2, 3]
    assert page.locator("table").count() == page.locator("table > caption:first-child").count() == 6
    assert page.locator("th:not([scope=col])").count() == 0
    shown_at_once = {"ruin-mean": True, "nasty": False, "nasty.few": False, "nasty.long": False}
    for name, visible in shown_at_once.items():
        assert data_table(page, name).locator("tbody").is_visible() == visible, name


def test_skip_link_is_first(open_page, index):
    page = open_page(index)
    page.keyboard.press("Tab")
    link = page.locator(".skip")
    assert link.evaluate("e => e === document.activeElement")
    assert link.bounding_box()["x"] >= 0
    assert link.evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_page_fits_narrow_screens(open_page, index):
    check_widths(open_page(index))


def test_dark_mode_and_print(open_page, index):
    page = open_page(index, color_scheme="dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(paper) == "rgb(20, 24, 29)"
    assert page.evaluate("getComputedStyle(document.images[0]).backgroundColor") == "rgb(255, 255, 255)"
    page.emulate_media(media="print")
    assert page.evaluate(paper) == "rgb(255, 255, 255)"
    for name, printed in (("nasty", True), ("nasty.few", True), ("nasty.long", False)):
        assert data_table(page, name).locator("tbody tr").last.is_visible() == printed, name
    assert not page.locator(".back").first.is_visible()
    assert page.locator("th button").first.evaluate("e => getComputedStyle(e, '::after').display") == "none"


def test_printing_unfolds_and_folds_again(open_page, index):
    page = open_page(index)
    page.locator("details").first.evaluate("e => { e.open = true; }")
    still = "[...document.querySelectorAll('details')].map(e => e.open)"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(still) == [True, True, False]
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(still) == [True, False, False]
