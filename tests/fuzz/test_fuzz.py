"""A short run of the fuzzer, and the calls that once found something."""

from types import SimpleNamespace

import numpy as np
import pytest
from tests.fuzz import hold
from tests.fuzz.run import call, run

#: Seeds and numbers of calls that were wrong, unclear or without an end.
FOUND = [
    (0, 20), (0, 44), (0, 101), (0, 102), (0, 109), (0, 154), (0, 160), (0, 222), (0, 245), (0, 251), (0, 313),
    (1, 181), (1, 434), (1, 1352), (2, 96), (2, 113), (2, 208), (2, 2064), (2, 2554), (3, 823), (3, 891), (3, 1496),
    (3, 1937), (3, 3578), (3, 4624), (3, 4705), (3, 4803), (3, 7615), (3, 7859), (3, 9151), (3, 9524), (3, 12601),
    (3, 13358), (3, 17527), (3, 18700), (3, 19433), (3, 8966), (3, 10855), (3, 14004), (3, 16659), (3, 20955),
    (4, 2961), (4, 3702), (4, 5224), (4, 5616), (11, 2138), (11, 14498), (11, 32960), (11, 34740),
    (101, 4492), (101, 8247), (101, 13195), (101, 24093), (101, 29688), (101, 25622), (102, 5713), (102, 6469),
    (102, 14155), (102, 16546), (102, 1556), (300, 1570), (300, 7527), (300, 14306), (300, 20415), (300, 22461),
    (300, 31799), (300, 41534), (301, 907), (301, 10261), (301, 25400), (301, 34119), (301, 40581),
    (400, 22755), (401, 22910), (500, 19191), (501, 5647), (600, 34005), (600, 45160), (701, 1096), (701, 49146),
    (700, 23017), (701, 46032), (800, 26842), (801, 11668), (2001, 18021),
    (3001, 2899), (3001, 7237), (3001, 12596), (3001, 18991), (3100, 323),
    (3100, 5207), (6000, 1595), (6000, 4922), (7001, 12544), (7001, 19567), (8000, 12743),
    (8001, 40695), (9001, 27798), (10000, 41422),
]  # fmt: skip


@pytest.mark.parametrize("first", range(0, len(FOUND), 25))
def test_calls_that_found_something(first):
    outcomes = [(seed, number, *call(seed, number)) for seed, number in FOUND[first : first + 25]]
    assert not [one for one in outcomes if one[3] not in ("answered", "refused")]


@pytest.mark.slow  # ratios of variants against all the others: twice 20 s
def test_a_long_call_that_found_something():
    assert call(3000, 3546)[1] == "answered"


@pytest.mark.parametrize("first", [0, 200])
def test_random_calls_are_answered_or_refused(first):
    counts, faults = run(200, seed=4000, first=first)
    assert not faults
    assert counts["mean answered"] > 2
    assert counts["mean refused"] > 2


def _result(estimate, low, high):
    return SimpleNamespace(estimate=estimate, interval=SimpleNamespace(low=low, high=high))


def test_answers_are_near_to_a_share_of_the_width():
    one = _result(0.5, 0.0, 1.0)
    assert hold.near(one, _result(0.5 + 5e-10, 0.0, 1.0 - 5e-10))
    assert not hold.near(one, _result(0.5, 0.0, 1.0 + 1e-8))
    assert not hold.near(one, _result(np.nan, 0.0, 1.0))
    assert not hold.near(one, _result(0.5, -np.inf, 1.0))
    assert hold.near(_result(2.0, -np.inf, 3.0), _result(2.0 + 1e-10, -np.inf, 3.0))
    assert not hold.near(_result(2.0, -np.inf, 3.0), _result(2.0 + 1e-7, -np.inf, 3.0))
    columns = _result(np.array([0.5, 1e9]), np.array([0.0, -1e9]), np.array([1.0, 3e9]))
    moved = _result(np.array([0.6, 1e9]), np.array([0.0, -1e9]), np.array([1.0, 3e9]))  # each column has its own width
    assert not hold.near(columns, moved)
