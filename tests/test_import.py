"""Importing outvote costs no more than importing numpy."""

import json
import subprocess
import sys

import pytest

import outvote

HEAVY = [
    "scipy",
    "sklearn",
    "numba",
    "torch",
    "matplotlib",
    "pandas",
    "polars",
    "pyarrow",
    "narwhals",
    "duckdb",
    "dask",
]


def modules_after(code: str) -> set[str]:
    """The modules in a fresh interpreter after it has run some code."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_import_loads_nothing_heavy():
    loaded = modules_after("import outvote")
    assert "outvote" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_looking_at_the_names_loads_nothing_heavy():
    assert modules_after("import outvote; dir(outvote); outvote.__version__").isdisjoint(HEAVY)


def test_a_mean_of_a_list_loads_no_statistics_and_no_plots():
    loaded = modules_after("import outvote; outvote.mean([1.0, 2.0, 3.0, 4.0], contamination=0, rng=0)")
    assert "outvote.estimate.mean" in loaded
    assert loaded.isdisjoint({"scipy.stats", "sklearn", "numba", "torch", "matplotlib", "pandas", "narwhals", "duckdb"})


def test_the_first_mean_does_not_wait_for_scipy():
    loaded = modules_after("import outvote; outvote.mean(range(10_000), contamination=0.01, rng=0)")
    assert "outvote.votes.binomial" in loaded
    assert loaded.isdisjoint({"scipy", "scipy.special"})


def test_every_public_name_resolves_and_is_listed():
    assert len(set(outvote.__all__)) == len(outvote.__all__)
    listed = dir(outvote)
    for name in outvote.__all__:
        assert getattr(outvote, name) is not None
        assert name in listed
    for name in ("mean", "u_statistic", "difference", "plan_blocks", "Contamination", "Kernel", "__version__"):
        assert name in listed
    assert listed == sorted(listed)


def test_names_come_from_their_modules():
    from outvote.contamination import Contamination
    from outvote.estimate.mean import mean

    assert outvote.mean is mean
    assert outvote.Contamination is Contamination
    assert outvote.contamination.Contamination is Contamination
    assert outvote.paper.__name__ == "outvote.paper"


def test_star_import_gives_the_public_names():
    space: dict[str, object] = {}
    exec("from outvote import *", space)
    assert set(outvote.__all__) <= set(space)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'outvote' has no attribute 'median_of_means'"):
        outvote.median_of_means  # noqa: B018
    assert not hasattr(outvote, "median_of_means")
    with pytest.raises(ImportError):
        exec("from outvote import median_of_means")


def test_without_torch_the_error_names_the_extra():
    code = "import sys; sys.modules['torch'] = None; import outvote; outvote.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'ImportError: outvote.torch needs torch: pip install "outvote[torch]"' in done.stderr
    assert "torch" not in outvote.__all__
