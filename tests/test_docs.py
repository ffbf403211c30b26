"""The code of the README, the pages and the gallery runs, and prints what they show."""

import importlib.util
import inspect
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from doc_pages import BLOCK, blocks_of, check_page, draw, needs_spark, sections_of, typed
from sklearn.linear_model import LinearRegression

import outvote

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "docs" / "examples").glob("plot_*.py"))
#: What a fence may hold: code that is run, output or a picture of it, and what Sphinx makes of it.
RUN, SHOWN = ("python", "console"), ("", "{toctree}", "{eval-rst}", "{image} images/distance.svg")


def needs_torch(path):
    """Whether the code of a page or a script names torch; tests/torch runs such files."""
    codes = [path.read_text("utf-8")] if path.suffix == ".py" else [text for _, text in blocks_of(path)]
    return any(re.search(r"\btorch\b", code) for code in codes)


TEXTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [page for page in TEXTS if any(language in RUN for language, _ in blocks_of(page))]


def test_every_code_block_is_run():
    assert {"README.md", "start.md", "scale.md", "cli.md", "learning.md"} <= {page.name for page in PAGES}
    for page in TEXTS:
        languages = {language for language, _ in blocks_of(page)}
        assert languages <= {*RUN, *SHOWN}, f"{page.name} has code that no test runs"
    told = "".join(path.read_text("utf-8") for path in (ROOT / "tests" / "torch").glob("*.py"))
    for path in filter(needs_torch, [*PAGES, *SCRIPTS]):
        assert path.name in told, f"{path.name} needs torch, and no file of tests/torch runs it"
    told = "".join(path.read_text("utf-8") for path in (ROOT / "tests" / "spark").glob("*.py"))
    for page in PAGES:
        assert page.name in told or not any(map(needs_spark, sections_of(page))), f"{page.name} needs Spark"


@pytest.mark.parametrize("page", [page for page in PAGES if not needs_torch(page)], ids=lambda page: page.name)
def test_page_shows_what_its_code_prints(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert check_page(page)


@pytest.mark.parametrize("name", ["README.md", "docs/start.md"])
def test_numbers_in_the_text_stand_in_what_is_printed_or_measured(name):
    """Outputs are compared with what the code prints; what the text repeats of them has to be there."""
    page = ROOT / name
    prose = re.sub(r"`[^`\n]*`|\]\([^)]*\)", "", BLOCK.sub("", page.read_text("utf-8")))
    known = "".join(text for _, text in blocks_of(page)) + (ROOT / "docs" / "comparison.md").read_text("utf-8")
    # options, defaults, the paper, Python, truths
    known += "4 % 5 % 10 % 95 % 30 min 38th 2021 2006.05240 3.11 3 2 1 0 0.1 0.9 37.5 "
    numbers = set(re.findall(r"(?<![\w.])\d+(?: \d{3})*(?:\.\d+)?", prose))
    assert {number for number in numbers if not re.search(rf"(?<![\d.]){number}(?![\d])", known)} <= {"189", "429"}
    assert ("429" in numbers, "428" in known) != (True, False)  # one more than the lower bound that is printed
    assert ("189" in numbers, "188" in known) != (True, False)


@pytest.mark.filterwarnings("ignore:describe left out columns")  # those of text
def test_examples_of_the_readme_table_run(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x, X = rng.exponential(size=400), rng.normal(size=(200, 2))
    names = {"ov": outvote, "x": x, "a": x[:200], "b": x[200:] + 1, "X": X, "y": X @ [1.0, 2.0], "losses": x}
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{'AB'[i % 2]},{value},{i // 2},{1 + i % 3},{value / 2}\n" for i, value in enumerate(x))
    (tmp_path / "orders.csv").write_text("variant,revenue,user,sessions,before\n" + rows)
    names |= {"frame": pl.read_csv(tmp_path / "orders.csv"), "rows": x, "model": LinearRegression()}
    names["frame"].with_row_index("ts").write_csv("log.csv")
    (tmp_path / "data").mkdir()
    pl.read_csv("orders.csv").write_parquet("data/orders.parquet")
    table = (ROOT / "README.md").read_text("utf-8").partition("## What to type")[2]
    tried = re.findall(r"`(ov\.[^`]*\)|outvote [^`]+)`", table)
    for typed_in in tried:
        if typed_in.startswith("ov."):
            eval(typed_in, dict(names))
        elif typed_in != "outvote reproduce":
            assert typed(typed_in.removeprefix("outvote "))
    assert len(tried) > 15


def test_limits_in_the_readme_match_the_comparison_page():
    limits = (ROOT / "README.md").read_text("utf-8").partition("## Limits")[2].partition("## ")[0]
    lines = {}
    for line in (ROOT / "docs" / "comparison.md").read_text("utf-8").splitlines():
        cells = [cell.strip(" *") for cell in line.split("|")[1:-1]]
        lines[tuple(cells[:2])] = cells[2:]
    exponential, normal, far = lines["exponential", "none"], lines["normal", "none"], lines["normal", "far"]
    mean, of_means, evidence = 0, 5, 8
    quoted = [exponential[mean], exponential[evidence], exponential[of_means], normal[mean], normal[of_means]]
    assert re.findall(r"0\.\d+", limits) == [*quoted, far[evidence]]


def test_figure_of_the_readme_is_reproducible(tmp_path, capsys):
    from benchmarks import distance

    distance.main(["--runs", "1", "--output", str(tmp_path / "figure.svg")])
    assert (tmp_path / "figure.svg").stat().st_size > 10_000
    assert "moved by" in capsys.readouterr().out
    assert distance.OUTPUT.is_file()


def test_citation_names_this_version():
    told = dict(re.findall(r"^(\w+): (.+)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.MULTILINE))
    assert (told["title"], told["version"]) == ("outvote", outvote.__version__)


@pytest.mark.parametrize("script", [one for one in SCRIPTS if not needs_torch(one)], ids=lambda path: path.stem)
def test_gallery_script_runs_and_draws(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    draw(script)
    assert capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_api_page_lists_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ([A-Za-z][\w.]*)$", page, re.MULTILINE))
    objects = [dig(name) for name in listed if not name.startswith("torch.")]  # tests/torch looks at these
    for module in public_modules():
        for name in public(module):
            value = getattr(module, name)
            found = any(value is one for one in objects) or f"`{module.__name__}.{name}`" in page
            assert found or inspect.ismodule(value), f"docs/api.md does not list {module.__name__}.{name}"


def public_modules():
    """Return outvote, and its modules that users may import."""
    return [outvote, *(value for name in outvote.__all__ if inspect.ismodule(value := getattr(outvote, name)))]


def named():
    """Return every public name that has a docstring of its own, and what it stands for."""
    for module in public_modules():
        for name in public(module):
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                yield f"{module.__name__}.{name}", value


def test_every_public_name_has_an_example():
    without = [name for name, value in named() if ">>> " not in (value.__doc__ or "")]
    assert not without, f"no example in the docstring of {', '.join(without)}"


def dig(name):
    """Return what a dotted name under outvote stands for."""
    home, _, last = f"outvote.{name}".rpartition(".")
    return getattr(importlib.import_module(home), last)


def public(module):
    """Return the public names of a module: what it says, or what it defines."""
    defined = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    return getattr(module, "__all__", None) or [name for name in defined if not name.startswith("_")]


#: Pages for newcomers, and words that they should not have to look up elsewhere.
NEWCOMERS = ("index", "start", "choose", "guide", "cli", "faq", "cheatsheet", "conversion_rates", "tutorial_analyst",
             "tutorial_ml")  # fmt: skip
PLAIN = ("README.md", *(f"docs/{name}.md" for name in NEWCOMERS))
ODD = re.compile(r"\b(laws?|dealt|anew|spoil\w*|grounds|is no number|oblivious|good rows?)\b", re.IGNORECASE)


def test_pages_for_newcomers_use_plain_words():
    assert not [(page, found) for page in PLAIN if (found := ODD.findall((ROOT / page).read_text("utf-8")))]


def test_relative_links_exist():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_comparison_page_is_reproducible(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("compare", ROOT / "benchmarks" / "compare.py")
    compare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare)
    compare.main(["--runs", "1", "--output", str(tmp_path / "page.md")])
    page, kept = (tmp_path / "page.md").read_text(encoding="utf-8"), (ROOT / "docs/comparison.md").read_text("utf-8")
    assert heads(page) == heads(kept)
    assert "page.md" in capsys.readouterr().out


def heads(page):
    """Return what stands before the numbers of the lines of tables."""
    lines = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("|")]
    return [line if not line[1].strip()[:1].isdigit() else line[:1] for line in lines]


def test_premise_page_shows_the_lines_that_are_simulated():
    from benchmarks import premise

    kept = (ROOT / "docs" / "premise.md").read_text("utf-8")
    section = kept.partition("## Variances and mean differences")[2]
    lines = [line.split("|")[1:3] for line in premise.pair_lines(1) if line.startswith("|")]
    assert [line.split("|")[1:3] for line in section.splitlines() if line.startswith("|")] == lines
    sample, _, _ = premise.LAWS["Pareto(2.5)"]
    x = np.sort(sample(np.random.default_rng(0), 10**5))
    ranks = 2 * np.arange(len(x)) - len(x) + 1
    assert np.isclose(2 * (ranks @ x) / len(x) ** 2, premise.GINI["Pareto(2.5)"], rtol=0.02)
