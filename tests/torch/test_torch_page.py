"""docs/torch.md and the torch examples run and show what they print; the reference lists every name."""

import re
from pathlib import Path

import pytest
from doc_pages import check_page, draw

import outvote.torch

ROOT = Path(__file__).parents[2]
EXAMPLES = ("plot_torch_digits.py", "plot_torch_embedding.py")


def test_page_shows_what_its_code_prints():
    assert check_page(ROOT / "docs" / "torch.md") == 5


@pytest.mark.parametrize("script", EXAMPLES)
def test_example_draws_and_the_vote_wins_on_dirty_data(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    draw(ROOT / "docs" / "examples" / script)
    reached = {
        name.strip(): float(value) for name, value in re.findall(r"^(.{26}) (0\.\d+)$", capsys.readouterr().out, re.M)
    }
    plain, robust = (reached[f"{name}, dirty data"] for name in (next(iter(reached)).split(",")[0], "median blocks"))
    assert robust > plain + 0.02
    assert reached["median blocks, clean data"] > next(iter(reached.values())) - 0.01
    assert not list(tmp_path.iterdir())


def test_reference_lists_every_public_name_with_an_example():
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    for name in outvote.torch.__all__:
        assert f"   torch.{name}\n" in page
        assert ">>> " in getattr(outvote.torch, name).__doc__
    for name in re.findall(r"^   torch\.(\w+)$", page, re.MULTILINE):
        assert name in outvote.torch.__all__
