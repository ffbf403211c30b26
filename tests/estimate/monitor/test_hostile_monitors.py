"""Documents of monitors that say what cannot be are refused; what a monitor writes can be read."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import outvote as ov
from outvote.contamination import Contamination

X = np.random.default_rng(0).normal(size=600)
YOUNG, OLD = ov.Monitor(claim="mean > 9").update(X[:60]), ov.Monitor(claim="mean > 9").update(X)
RATE = ov.Monitor().update([True, False, True])


def changed(monitor, path, value):
    """The document of a monitor with one field replaced; that of `rows` is a document itself."""
    monitor.result()
    document = json.loads(monitor.to_json())
    where = document
    for name in path[:-1]:
        if name == "rows":
            where["rows"] = json.dumps(json.loads(where["rows"]) | {path[-1]: value})
            return json.dumps(document)
        where = where[name]
    where[path[-1]] = value
    return json.dumps(document)


ARM = ("arms", "")
IMPOSSIBLE = [
    (OLD, ("version",), True), (OLD, ("settings", "contamination"), 10**30), (OLD, ("settings", "pilot"), 10**30),
    (OLD, ("settings", "pilot"), True), (OLD, ("settings", "baseline"), 5), (OLD, ("settings", "plan"), True),
    (OLD, ("settings", "claim"), True), (OLD, ("settings", "confidence"), "0.9"), (OLD, ("settings", "adversary"), []),
    (OLD, ("settings", "contamination"), "1e99999999"), (OLD, ("settings", "contamination"), True),
    (OLD, ("settings", "contamination"), {"constant": "1", "exponent": "1/1000000007"}),
    (OLD, ("settings", "contamination"), {"constant": "1e9999999", "exponent": "1/2"}),
    (OLD, ("settings", "contamination"), {"constant": "0", "exponent": "1/2"}),
    (OLD, ("settings", "assume"), "Bounded"), (OLD, ("settings", "assume"), {"name": "FiniteVariance", "sd": "1"}),
    (OLD, (*ARM, "pilot"), [1.0]), (OLD, (*ARM, "pilot"), "1"), (OLD, (*ARM, "sd"), True), (OLD, (*ARM, "sd"), "1"),
    (OLD, (*ARM, "sd"), -1.0), (OLD, (*ARM, "sd"), math.nan), (OLD, (*ARM, "sd"), None),
    (OLD, (*ARM, "n_piloted"), 1.5), (OLD, (*ARM, "n_piloted"), "9"), (OLD, (*ARM, "n_piloted"), 10**30),
    (OLD, (*ARM, "rows"), {}),
    (OLD, (*ARM, "rows", "zeros_and_ones"), [2**53, 2**53]), (OLD, (*ARM, "rows", "beyond"), math.nan),
    (OLD, (*ARM, "rows", "number"), 1 << 20), (OLD, (*ARM, "rows", "version"), True),
    (YOUNG, (*ARM, "pilot"), ["1", "2"]), (YOUNG, (*ARM, "pilot"), [True]), (YOUNG, (*ARM, "pilot"), [None, 1.0]),
    (YOUNG, (*ARM, "pilot"), [0.0] * 5000), (YOUNG, (*ARM, "n_piloted"), 5), (YOUNG, (*ARM, "rows", "rows"), [1.0]),
    (YOUNG, (*ARM, "rows", "n_omitted"), 3), (OLD, ("arms",), []), (OLD, ("arms", "b"), {}), (OLD, ("looks",), {}),
    (OLD, ("looks",), [[601, 0, 0, 0, None]]), (OLD, ("looks",), [[5, "0", 0, 0, None]]),
    (OLD, ("looks",), [[5, True, 0, 0, None]]), (OLD, ("looks",), [[5, 0, 0, 0, "yes"]]), (OLD, ("looks",), [[5, 0]]),
    (OLD, ("looks",), [[True, 0, 0, 0, None]]), (OLD, ("looks",), [[5, 0, 0, 0, None], [4, 0, 0, 0, None]]),
    (OLD, ("looks",), [[5, 0, 0, 0, None]] * 5000), (RATE, (*ARM, "counts"), [2**60, 0, 0]),
    (RATE, (*ARM, "counts"), "123"), (RATE, (*ARM, "counts"), [True, 0, 0]), (RATE, (*ARM, "n_omitted"), 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("monitor", "path", "value"), IMPOSSIBLE, ids=lambda one: str(one)[:40])
def test_monitors_that_cannot_be_are_refused(monitor, path, value):
    with pytest.raises(ValueError, match="Monitor"):
        ov.Monitor.from_json(changed(monitor, path, value))


def test_arms_with_and_without_a_name_are_refused():
    document = json.loads(YOUNG.to_json())
    document["arms"]["b"] = document["arms"][""]
    with pytest.raises(ValueError, match="this is not a Monitor: some rows have an arm and some have none"):
        ov.Monitor.from_json(json.dumps(document))


def monitors():
    gaps = np.r_[X[:40], math.nan, X[40:50], math.nan]
    yield ov.Monitor(nan_policy="omit").update(gaps)
    yield ov.Monitor(nan_policy="corrupt").update(gaps)
    yield ov.Monitor(nan_policy="omit").update(gaps).merge(ov.Monitor(nan_policy="omit").update(gaps))
    yield ov.Monitor(nan_policy="omit").update(np.r_[gaps, X])
    yield ov.Monitor().update(np.zeros(900)).update(X[:10])
    yield ov.Monitor().update(np.r_[X, np.full(5, 1e308)])
    yield ov.Monitor(ov.FiniteVariance(2**0.5, zetas=(0.5, 2.0))).update(X)
    yield ov.Monitor(contamination=Fraction(1, 300)).update(X)
    yield ov.Monitor(contamination=Contamination.growth(1.2345678901234567, 0.3)).update(X)
    yield ov.Monitor(ov.Bounded(-9, 9), contamination=2).update(X)
    yield OLD.shard().update(X).merge(OLD.shard().update(X))
    yield ov.Monitor(baseline="a", n_plan={"a": 500, "b": 800}).update(X, arm="a").update(X[:50], arm="b")
    yield RATE


@pytest.mark.parametrize("monitor", list(monitors()))
def test_what_monitors_write_can_be_read(monitor):
    again = ov.Monitor.from_json(monitor.to_json())
    assert again.to_json() == monitor.to_json()
    assert again.n_rows == monitor.n_rows


def test_numbers_of_rows_that_nobody_has_are_refused():
    with pytest.raises(ValueError, match=r"contamination=10+ must be at most 2\*\*53"):
        ov.Monitor(contamination=10**30)
    with pytest.raises(ValueError, match=r"pilot=10+ must be a number of rows of at least 2, below 10\*\*15"):
        ov.Monitor(pilot=10**30)
