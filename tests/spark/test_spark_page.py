"""The section on Spark of docs/scale.md runs, and shows what it prints."""

from pathlib import Path

from doc_pages import check_page

ROOT = Path(__file__).parents[2]


def test_section_shows_what_its_code_prints(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert check_page(ROOT / "docs" / "scale.md", spark=True) == 1
