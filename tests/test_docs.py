"""The code in the README, in the pages and in the gallery runs, and prints what the page shows."""

import contextlib
import importlib.util
import inspect
import io
import re
import runpy
import shlex
from pathlib import Path

import pytest

import outvote

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = ["README.md", *(f"docs/{name}.md" for name in ("index", "start", "choose", "guide", "coming_from", "extend"))]


@pytest.mark.parametrize("page", PAGES)
def test_the_page_shows_what_its_code_prints(page, tmp_path, monkeypatch):
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    checked = 0
    for language, text in blocks:
        if language == "python":
            assert not printed, f"the page does not show {printed!r}"
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, page, "exec"), names)
            printed = output.getvalue()
        elif language == "console":
            command, shown = re.fullmatch(r"\$ outvote ([^\n]*)\n(.*)", text, re.DOTALL).groups()
            assert typed(command) == shown
        elif language == "" and printed:
            assert text == printed
            printed, checked = "", checked + 1
    assert checked
    assert not printed, f"the page does not show {printed!r}"


def typed(command):
    """Return what the command prints."""
    from typer.testing import CliRunner

    from outvote.cli import app

    return CliRunner().invoke(app, shlex.split(command)).stdout


@pytest.mark.parametrize("script", sorted((ROOT / "docs" / "examples").glob("plot_*.py")), ids=lambda path: path.stem)
def test_the_example_runs_and_draws(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    import matplotlib.pyplot as plt

    plt.switch_backend("agg")
    try:
        runpy.run_path(str(script))
        assert plt.get_fignums()
    finally:
        plt.close("all")
    assert capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_the_reference_lists_every_public_name():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   ([A-Za-z][\w.]*)$", page, re.MULTILINE))
    objects = [dig(name) for name in listed]
    for module in (outvote, *(getattr(outvote, name) for name in outvote._MODULES)):
        for name in public(module):
            value = getattr(module, name)
            found = any(value is one for one in objects) or f"`{module.__name__}.{name}`" in page
            assert found or inspect.ismodule(value), f"docs/api.md does not list {module.__name__}.{name}"


def dig(name):
    """Return what a dotted name under outvote stands for."""
    home, _, last = f"outvote.{name}".rpartition(".")
    return getattr(importlib.import_module(home), last)


def public(module):
    """Return the public names of a module: what it says, or what it defines."""
    defined = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    return getattr(module, "__all__", None) or [name for name in defined if not name.startswith("_")]


def test_every_relative_link_leads_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_comparison_page_can_be_written_again(tmp_path, capsys):
    spec = importlib.util.spec_from_file_location("compare", ROOT / "benchmarks" / "compare.py")
    compare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare)
    compare.main(["--runs", "1", "--output", str(tmp_path / "page.md")])
    page, kept = (tmp_path / "page.md").read_text(encoding="utf-8"), (ROOT / "docs/comparison.md").read_text("utf-8")
    assert [line.split("|")[:3] for line in page.splitlines() if line.startswith("|")] == [
        line.split("|")[:3] for line in kept.splitlines() if line.startswith("|")
    ]
    assert "page.md" in capsys.readouterr().out
