"""Every experiment: tables that survive JSON, a figure, findings, and the same results on any number of processes."""

import json

import pytest
from joblib import Parallel

from outvote.paper.experiments import NAMES, get
from outvote.paper.experiments.running import run


@pytest.fixture(scope="module")
def parallel():
    with Parallel(n_jobs=2, return_as="generator") as pool:
        yield pool


def panels_of_first_row(figure):
    places = ((ax, ax.get_subplotspec()) for ax in figure.axes if ax.axison)
    return [ax for ax, place in places if place is not None and place.is_first_row()]


@pytest.mark.parametrize("name", NAMES)
def test_experiment_is_the_same_in_processes_and_after_json(name, parallel):
    experiment, asked = get(name), {"runs": 1, "quick": True, "seed": 3}
    alone, together = run(experiment, **asked), run(experiment, **asked, parallel=parallel)
    assert repr(together.tables) == repr(alone.tables)  # to the last digit, NaN included
    assert together.findings == alone.findings
    assert next(iter(alone.tables)) == name
    for rows in alone.tables.values():
        assert len({tuple(row) for row in rows}) == 1
    again = json.loads(json.dumps(alone.tables, allow_nan=False))
    assert experiment.judge(again) == alone.findings
    assert alone.findings
    assert all(one.claim and one.measured for one in alone.findings)
    panels = panels_of_first_row(experiment.draw(again))
    assert panels
    assert all(ax.get_title() or ax.get_ylabel() for ax in panels)
