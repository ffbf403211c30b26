"""What is published: dependencies with their oldest versions, the Pythons that were tried, advice that works."""

import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOLD = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SCRIPT = ROOT / ".ci" / "floors.py"
floors = runpy.run_path(str(SCRIPT))["floors"]


def test_constraints_are_the_oldest_versions():
    printed = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=True).stdout
    found = dict(line.split("==") for line in printed.splitlines())
    for text in TOLD["project"]["dependencies"]:
        name, oldest = text.split(">=")
        assert found.pop(name) == oldest
    assert {"numba", "duckdb", "pyarrow", "dask", "matplotlib", "typer", "pandas", "polars"} <= set(found)
    assert found.keys().isdisjoint({"torch", "pyspark", "outvote"})


@pytest.mark.parametrize(
    ("required", "told"),
    [("numpy==2.0", "'numpy==2.0' in pyproject.toml must be a name and the oldest version"),
     ("numpy>=2.0,<3", "'numpy>=2.0,<3' in pyproject.toml must be"),
     ("duckdb>=1.0", "two oldest versions of duckdb: 1.0 and 2.0")],
)  # fmt: skip
def test_requirements_of_another_form_are_refused(required, told):
    project = {"dependencies": [required], "optional-dependencies": {"tables": ["duckdb>=2.0"], "torch": ["torch==2"]}}
    with pytest.raises(SystemExit, match=re.escape(told)):
        floors({"project": project, "dependency-groups": {"frames": []}})


def test_published_requirements_pin_nothing():
    extras = TOLD["project"]["optional-dependencies"]
    for text in [*TOLD["project"]["dependencies"], *(text for texts in extras.values() for text in texts)]:
        assert re.fullmatch(r"outvote\[[a-z,]+\]|[\w.-]+(\[\w+\])?>=[\d.]+", text), text
    assert extras.keys().isdisjoint({"dev", "docs", "bench", "test"})


def test_every_declared_python_is_in_the_table_of_those_tried():
    declared = re.findall(r"Python :: (3\.\d+)", " ".join(TOLD["project"]["classifiers"]))
    tried = re.findall(r"^\| (3\.\d+)\.\d+ \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    assert set(declared) == set(tried)
    assert TOLD["project"]["requires-python"] == f">={declared[0]}"


def test_no_text_advises_to_install_from_an_index_that_does_not_have_it():
    folders = (ROOT / "src", ROOT / "docs", ROOT / "benchmarks")
    texts = [path for folder in folders for kind in ("*.py", "*.md") for path in folder.rglob(kind)]
    for path in [*texts, *ROOT.glob("*.md")]:
        found = re.search(r"pip install [^\n`]*\boutvote\b", path.read_text("utf-8"))
        assert found is None, f"{path}: {found}"
