"""The code in the README and in the guide runs and prints what the page shows."""

import contextlib
import importlib.util
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```(python)?\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", ["README.md", "docs/guide.md"])
def test_the_page_shows_what_its_code_prints(page):
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    names: dict[str, object] = {}
    printed = None
    checked = 0
    for language, text in blocks:
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, page, "exec"), names)
            printed = output.getvalue()
        elif printed is not None:
            assert text == printed
            printed, checked = None, checked + 1
    assert checked


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
