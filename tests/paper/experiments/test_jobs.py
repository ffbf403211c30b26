"""Every experiment gives the same tables and findings in this process and on two others."""

import pytest
from joblib import Parallel

from outvote.paper.experiments import NAMES, get
from outvote.paper.experiments.running import run


@pytest.fixture(scope="module")
def parallel():
    with Parallel(n_jobs=2, return_as="generator") as pool:
        yield pool


@pytest.mark.parametrize("name", NAMES)
def test_results_do_not_depend_on_the_number_of_processes(name, parallel):
    experiment = get(name)
    asked = {"runs": 1, "quick": True, "seed": 3}
    alone, together = run(experiment, **asked), run(experiment, **asked, parallel=parallel)
    assert repr(together.tables) == repr(alone.tables)  # to the last digit, NaN included
    assert together.findings == alone.findings
