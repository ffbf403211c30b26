"""Monitors: rows in any batches, arms, claims, shards, files, and how seldom they err."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from monitor_alarms import DELTA, chance_of_an_alarm, pattern
from simulate import miss_rate_allowed

import outvote as ov
from outvote.contamination import Contamination
from outvote.data.missing import ContradictionError
from outvote.estimate.monitor import Look

RNG = np.random.default_rng(21)
NORMAL = RNG.normal(3.0, size=9000)


def monitor(**options):
    return ov.Monitor(**{"assume": ov.FiniteVariance(1.0), "n_plan": 2000, **options})


# --- false alarms over all looks, briefly; `tests/theory/test_monitor.py` tries more at length --------------------


@pytest.mark.parametrize("corrupt", ["never", "first", "last", "bursts"])
def test_rates_ever_rule_out_the_truth_with_probability_delta_at_most(corrupt):
    for p, value in ((0.03, 1), (0.5, 0)):
        alarm, never = chance_of_an_alarm(p, corrupt, value, 300, 600)
        assert alarm <= DELTA
        assert abs(1 - alarm - never) < 1e-9


@pytest.mark.parametrize("assume", [None, ov.FiniteVariance(1.0), ov.Bounded(0, 12)])
def test_monitors_seldom_rule_out_the_truth(assume):
    rng, missed = np.random.default_rng(8), []
    bad = np.diff(pattern("first", 1200), prepend=0) > 0
    for i in range(12):
        x = rng.exponential(size=1200)
        x[bad] = (12.0, 0.0)[i % 2]
        watch, start, wrong = ov.Monitor(assume, 0.01, n_plan=800), 0, False
        for n in (60, 150, 400, 800, 1200):
            low, high = watch.update(x[start:n]).interval
            start, wrong = n, wrong or not low <= 1 <= high
        missed.append(wrong)
    assert np.mean(missed) <= miss_rate_allowed(DELTA, len(missed))


# --- rows -----------------------------------------------------------------------------------------------------


@settings(max_examples=20)
@given(st.lists(st.integers(1, 1999), max_size=6), st.randoms(use_true_random=False))
def test_batches_and_their_order_do_not_matter(cuts, random):
    x = NORMAL[:2000]
    parts = np.split(x, sorted(cuts))
    random.shuffle(parts)
    one, several = monitor(n_plan=1000).update(x), monitor(n_plan=1000)
    for part in parts:
        several.update(part[::-1])
    assert several.interval == pytest.approx(one.interval, rel=1e-9)
    assert several.n_rows == 2000


def test_many_rows_are_counted_in_bins():
    one = monitor().update(NORMAL)
    assert one.interval.low < 3 < one.interval.high
    assert len(one.to_json()) < 200_000


def test_empty_batches_and_errors_leave_the_monitor_unchanged():
    one = monitor().update(NORMAL[:500])
    before = one.to_json()
    for rows, options, message in (
        ([1.0, math.nan], {}, "NaN"),
        (np.zeros((3, 2)), {}, "one column"),
        ([1.0], {"arm": "B"}, "name the arm of every batch"),
    ):
        with pytest.raises(ValueError, match=message):
            one.update(rows, **options)
    assert one.update([]).update(np.empty(0)).to_json() == before


def test_nan_may_be_missing_or_corrupt():
    dirty = np.r_[NORMAL[:1000], [math.nan] * 5]
    assert monitor(nan_policy="omit").update(dirty).n_rows == 1000
    corrupt = monitor(nan_policy="corrupt").update(dirty)
    clean = monitor(nan_policy="corrupt", contamination=0).update(NORMAL[:1000])
    assert corrupt.n_rows == 1005
    assert corrupt.interval.low <= clean.interval.low
    with pytest.raises(ValueError, match="in 5 rows, more than the 2"):
        _ = monitor(nan_policy="corrupt", contamination=2).update(dirty).interval
    x = np.r_[RNG.random(500), [7.0, 8.0]]  # rows outside their bounds are corrupt, too
    found = ov.Monitor(ov.Bounded(0, 1), contamination=3, n_plan=500).update(x)
    assert 0 < found.interval.low < 0.5 < found.interval.high < 1
    with pytest.raises(ValueError, match="outside the bounds"):
        _ = ov.Monitor(ov.Bounded(0, 1), contamination=1, n_plan=500).update(x).interval


def test_booleans_are_proportions():
    found = ov.Monitor(n_plan=1000).update(RNG.random(1000) < 0.1)
    assert found.result().certificate.provenance == "certified"
    mixed = ov.Monitor(ov.Proportion(), n_plan=1000).update(np.r_[np.ones(10), np.zeros(80), 0.5])
    assert mixed.n_rows == 91
    assert ov.Monitor(ov.Proportion(), nan_policy="omit").update([0.0, 1.0, math.nan]).n_rows == 2
    with pytest.raises(ValueError, match="NaN"):
        ov.Monitor(ov.Proportion()).update([0.0, math.nan])


# --- the pilot, whose rows choose the premise and are not evidence ------------------------------------------------


def test_rows_of_the_pilot_are_not_evidence():
    one = ov.Monitor(n_plan=4000, contamination=0).update(NORMAL[:100])
    assert one.interval == (-math.inf, math.inf)
    assert "choose the sd" in one.result().certificate.note
    assert one.e_value("mean > -100") == 0
    one.update(NORMAL[100:2000])
    assert one.result().certificate.premise_sd == pytest.approx((1.25 + 3 / 10) * np.std(NORMAL[:100]))
    # Were other rows in the pilot, the evidence would be that of the same rows still.
    moved = ov.Monitor(n_plan=4000, contamination=0).update(np.r_[NORMAL[:100], NORMAL[100:2000] + 1])
    assert moved.interval.low == pytest.approx(one.interval.low + 1, abs=1e-6)


def test_the_pilot_goes_on_while_its_rows_are_all_equal():
    x = np.r_[np.zeros(150), RNG.normal(size=1000)]
    found = ov.Monitor(n_plan=2000, contamination=0, pilot=50).update(x)
    assert 0 < found.result().certificate.premise_sd < math.inf
    nothing = ov.Monitor(n_plan=2000, pilot=10).update(np.zeros(500))
    assert nothing.interval == (-math.inf, math.inf)
    assert "Most rows have the same value" in nothing.result().certificate.note


def test_scales_that_rows_contradict():
    x = np.r_[RNG.normal(size=100), RNG.normal(0, 30, size=3000)]
    found = ov.Monitor(n_plan=3000, pilot=100).update(x).result()  # a premise is doubled
    assert found.certificate.premise_sd > 10
    assert found.interval.low < 0 < found.interval.high
    wide = monitor(contamination=0).update(np.r_[np.full(500, -50.0), np.full(500, 50.0)])  # what is declared is wrong
    with pytest.raises(ContradictionError):
        _ = wide.interval


def test_what_stands_in_corrupt_rows_does_not_say_where_the_evidence_begins():
    rng = np.random.default_rng(2)
    rows = np.where(rng.random(3000) < 0.3, rng.normal(size=3000), 0.0)
    rows[:60] = 0.0
    for first in ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (math.nan, 0.0, math.nan)):
        rows[[5, 7, 9]] = first
        watched = ov.Monitor(contamination=0.01, n_plan=3000, pilot=50, nan_policy="corrupt").update(rows)
        arm = watched._arms[""]
        assert arm.n_piloted + int(np.isnan(first).sum()) == 50
        assert arm.summary.n_rows - arm.summary.n_found_corrupt == 2950


def test_a_pilot_with_missing_rows_is_saved_and_merged():
    def piloted(rows):
        return ov.Monitor(contamination=0.2, n_plan=200, pilot=4, nan_policy="corrupt").update(rows)

    rows = np.r_[1.0, math.nan, 2.0]
    one, whole = piloted(rows), piloted(np.r_[rows, NORMAL[:1]])
    again = ov.Monitor.from_json(one.to_json())
    assert (again.n_rows, again._arms[""].pilot.tolist()[2]) == (one.n_rows, 2.0)
    assert again.update(NORMAL[:1])._arms[""].sd == whole._arms[""].sd
    merged = one.merge(piloted(NORMAL[:100]))
    assert (merged.n_rows, merged.result().n_omitted) == (103, 0)


# --- contamination ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contamination", "n", "count"),
    [(0.01, 1000, 12), (0.29, 100, 31), (4, 100, 4), (4, 2000, 4), (lambda n: n // 100, 1000, 10),
     (Contamination.growth(exponent=0.5), 900, 30)],
)  # fmt: skip
def test_numbers_of_corrupt_rows(contamination, n, count):
    """Two more than the share; a number is for ever."""
    assert monitor(contamination=contamination).update(NORMAL[:n]).result().plan.n_corrupt == count


def test_more_corrupt_rows_never_narrow_the_interval():
    found = [monitor(contamination=m).update(NORMAL[:1500]).interval for m in (0, 1, 5, 50, 400)]
    found += [monitor(contamination=Contamination(400, "adaptive")).update(NORMAL[:1500]).interval]
    for fewer, more in itertools.pairwise(found):
        assert more.low < fewer.low
        assert more.high > fewer.high
    x = NORMAL[:2000].copy()
    x[::100] = 1e9  # within the schedule they do no harm
    low, high = monitor(contamination=0.01).update(x).interval
    assert 2.8 < low < 3 < high < 3.2


# --- claims -------------------------------------------------------------------------------------------------------


def test_decided_follows_the_interval():
    for claim, expected in (("mean > 2", True), ("mean > 4", False), ("mean < 3.02", None), ("mean <= 9", True)):
        assert monitor(claim=claim).update(NORMAL[:2000]).decided is expected
    one = monitor(claim="mean > 2").update(NORMAL[:2000])
    assert one.e_value() > 1e10
    assert one.e_value("mean < 2") < 1
    assert one.e_value("mean > 3.0") < 20


def test_two_arms_are_about_the_sign_unless_told():
    one = monitor().update(NORMAL[:600], arm="B").update(NORMAL[2000:2600] - 1, arm="A")
    assert (one.decided, one.arms) == (True, ("A", "B"))
    assert monitor(baseline="B").merge(one).decided is False
    assert one.e_value() > 1e10
    assert one.e_value("lift > 10 %") > 1e3
    a, b = RNG.exponential(10, size=3000), RNG.exponential(14, size=3000)
    one = ov.Monitor(n_plan=3000, contamination=2, claim="lift > 5 %").update(a, arm="A").update(b, arm="B")
    assert one.decided is True
    assert one.lift.low < 0.4 < one.lift.high


def test_what_cannot_be_asked_is_refused():
    ten = NORMAL[:10]
    one, arm = monitor().update(ten), monitor().update(ten, arm="A")
    three = monitor().update(ten, arm="A").update(ten, arm="B").update(ten, arm="C")
    assert three.result("C").interval == three.result("B").interval
    for ask, words in (
        (lambda: monitor().interval, "no rows yet"),
        (lambda: one.decided, "no claim"),
        (lambda: one.lift, "two arms"),
        (lambda: one.e_value("difference > 0"), "'mean > 0'"),
        (lambda: arm.interval, "only arm 'A'"),
        (lambda: three.interval, r"there are 3 arms.*result\(arm='B'\)"),
        (lambda: three.result("D"), "arm='D' is not one of 'B', 'C'"),
        (lambda: monitor(baseline="X").update(ten, arm="A").update(ten, arm="B").interval, "baseline='X' has no rows"),
        (lambda: monitor(n_plan={"A": 900, "B": 100}).update(ten, arm="C"), "no number for arm 'C'"),
        (lambda: monitor(contamination=lambda n: -1).update(ten).interval, r"contamination\(10\) returned -1"),
        (lambda: monitor().shard(), "update it first"),
        (lambda: ov.Monitor().update([1.0, 2.0, 3.0], arm="A").shard(), "arm 'A' has 3 rows, too few"),
    ):
        with pytest.raises(ValueError, match=words):
            ask()


def test_wrong_arguments_are_named():
    for options, words in (
        ({"assume": ov.Symmetric()}, "single rows"), ({"assume": ov.FiniteKurtosis(3.0)}, "single rows"),
        ({"assume": 3}, "assume=3"), ({"n_plan": 1}, "n_plan=1"), ({"n_plan": math.nan}, "n_plan=nan"),
        ({"n_plan": "many"}, "n_plan='many'"), ({"claim": "median > 3"}, "claim='median > 3'"),
        ({"claim": 3}, "claim=3"),
        ({"claim": "mean > 1e999"}, "not a finite number"), ({"pilot": 1}, "pilot=1"),
        ({"confidence": 1.5}, "confidence"),
        ({"pilot": 10**30}, r"pilot=10+ must be a number of rows of at least 2, below 10\*\*15"),
        ({"nan_policy": "drop"}, "nan_policy='drop'"), ({"contamination": 0.7}, "0.7"),
        ({"contamination": (0.01, 0.02)}, "one amount"),
        ({"contamination": 10**30}, r"contamination=10+ must be at most 2\*\*53"),
    ):  # fmt: skip
        with pytest.raises((TypeError, ValueError), match=words):
            monitor(**options)


# --- shards and files ---------------------------------------------------------------------------------------------


KINDS = {
    "variance": (lambda: monitor(), lambda rng, n: rng.normal(size=n)),
    "premise": (lambda: ov.Monitor(n_plan=2000), lambda rng, n: rng.exponential(size=n)),
    "bounded": (lambda: ov.Monitor(ov.Bounded(0, 1), n_plan=2000), lambda rng, n: rng.random(n)),
    "rates": (lambda: ov.Monitor(n_plan=2000), lambda rng, n: rng.random(n) < 0.1),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arms", [("",), ("A", "B")])
def test_shards_and_files_go_on_as_one(kind, arms, tmp_path):
    make, draw = KINDS[kind]
    rng = np.random.default_rng(1)
    rows = {arm: draw(rng, 7000) for arm in arms}
    one, first, read, begun, late = (make() for _ in range(5))
    for arm, x in rows.items():
        one.update(x, arm=arm)
        first.update(x[:5000], arm=arm)
        begun.update(x[:10], arm=arm)
        late.update(x[10:], arm=arm)
    second, third = first.shard(), first.shard()
    for arm, x in rows.items():
        second.update(x[5000:6500], arm=arm)
        third.update(x[6500:], arm=arm)
    merged, low, high = first.merge(second.merge(third)), *one.interval
    assert merged.interval == pytest.approx((low, high), rel=1e-9)
    assert merged.n_rows == one.n_rows
    for arm, x in rows.items():
        for part in np.array_split(x, 4 if kind != "rates" else 100):
            read.update(part, arm=arm).save(tmp_path / "monitor.json")
            read = ov.Monitor.load(tmp_path / "monitor.json")
    assert read.to_json() == ov.Monitor.from_json(read.to_json()).to_json()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["monitor.json"]
    assert make().merge(read).interval == read.interval
    # Others have chosen the bins, or the premise.
    assert read.interval == pytest.approx((low, high), abs=1e-3 * (high - low))
    close = 0.3 if kind == "premise" else 1e-3
    assert begun.merge(late).interval == pytest.approx((low, high), abs=close * (high - low))


def test_other_premises_and_settings_are_not_merged():
    one, other = ov.Monitor(n_plan=2000).update(NORMAL[:1000]), ov.Monitor(n_plan=2000).update(NORMAL[1000:2000])
    before = one.to_json()
    for a, b, words in (
        (one, other, r"not the same one.*first\.shard\(\)"),
        (one, ov.Monitor(n_plan=3000), "settings"),
        (one, 3, "not with int"),
        (monitor().update([1.0]), monitor().update([1.0], arm="A"), "arms"),
        (ov.Monitor().update([True]), ov.Monitor().update([1.0]), "booleans"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            a.merge(b)
    assert one.to_json() == before
    assert ov.Monitor(ov.Proportion()).shard().n_rows == 0
    one, other = monitor().update(NORMAL[:100], arm="A"), monitor().update(NORMAL[100:300], arm="B")
    one.merge(other).update(NORMAL[300:400], arm="B")
    assert other.n_rows == 200


def test_what_was_declared_stays():
    def allowed(n):
        return 3

    for declared in (0.05, 7, Contamination.growth(adversary="adaptive"), allowed):
        one = monitor(contamination=declared).update(NORMAL[:500])
        given_again = ov.Monitor.from_json(one.to_json(), contamination=declared)
        assert given_again.interval == one.interval
        if declared is allowed:
            with pytest.raises(ValueError, match="give it again, contamination="):
                ov.Monitor.from_json(one.to_json())
        else:
            assert ov.Monitor.from_json(one.to_json()).interval == one.interval
            with pytest.raises(ValueError, match="contamination=0 is not what this Monitor was declared with"):
                ov.Monitor.from_json(one.to_json(), contamination=0)
    for assume in (None, ov.Bounded(0, 9, variance=2.0), ov.FiniteKurtosis(3.0, 2.0), ov.Proportion()):
        one = ov.Monitor(assume, 0.02, 0.9, {"A": 50, "B": 60}, claim="lift > 2 %", baseline="B", pilot=20)
        assert ov.Monitor.from_json(one.to_json()).to_json() == one.to_json()


# --- documents ----------------------------------------------------------------------------------------------------


X = np.random.default_rng(0).normal(size=600)
YOUNG, OLD = ov.Monitor(claim="mean > 9").update(X[:60]), ov.Monitor(claim="mean > 9").update(X)
RATE = ov.Monitor().update([True, False, True])
OLD.shard()  # which chooses its bins


def changed(one, path, value):
    """The document of a monitor with one field replaced; that of `rows` is a document itself."""
    one.result()
    document = json.loads(one.to_json())
    where = document
    for name in path[:-1]:
        if name == "rows":
            where["rows"] = json.dumps(json.loads(where["rows"]) | {path[-1]: value})
            return json.dumps(document)
        where = where[name]
    where[path[-1]] = value
    return json.dumps(document)


ARM, SETTINGS = ("arms", ""), {
    "contamination": [10**30, "1e99999999", True, {"constant": "1", "exponent": "1/1000000007"},
                      {"constant": "1e9999999", "exponent": "1/2"}, {"constant": "0", "exponent": "1/2"}],
    "pilot": [10**30, True], "baseline": [5], "plan": [True, -4], "claim": [True], "confidence": ["0.9"],
    "adversary": [[]], "assume": ["Bounded", {"name": "FiniteVariance", "sd": "1"}, {"name": "Nothing"}],
}  # fmt: skip
LOOKS = [{}, [[1]], [[601, 0, 0, 0, None]], [[5, "0", 0, 0, None]], [[5, True, 0, 0, None]], [[5, 0, 0, 0, "yes"]],
         [[5, 0]], [[True, 0, 0, 0, None]], [[5, 0, 0, 0, None], [4, 0, 0, 0, None]],
         [[5, 0, 0, 0, None]] * 5000]  # fmt: skip
IMPOSSIBLE = [
    *((OLD, ("settings", name), value) for name, values in SETTINGS.items() for value in values),
    *((OLD, ("looks",), value) for value in LOOKS),
    *((OLD, (*ARM, "sd"), value) for value in (True, "1", -1.0, math.nan, None)),
    *((OLD, (*ARM, "n_piloted"), value) for value in (1.5, "9", 10**30, -1)),
    *((OLD, (*ARM, "pilot"), value) for value in ([1.0], "1")),
    *((OLD, (*ARM, "rows"), value) for value in ({}, "{}")),
    (OLD, (*ARM, "rows", "zeros_and_ones"), [2**53, 2**53]), (OLD, (*ARM, "rows", "beyond"), math.nan),
    (OLD, (*ARM, "rows", "number"), 1 << 20), (OLD, (*ARM, "rows", "version"), True),
    *((YOUNG, (*ARM, "pilot"), value) for value in (["1", "2"], ["a"], [True], [None, 1.0], [0.0] * 5000)),
    (YOUNG, (*ARM, "n_piloted"), 5), (YOUNG, (*ARM, "rows", "rows"), [1.0]), (YOUNG, (*ARM, "rows", "n_omitted"), 3),
    (OLD, ("version",), True), (OLD, ("version",), 99), (OLD, ("format",), "else"), (OLD, ("arms",), []),
    (OLD, ("arms", "b"), {}), (YOUNG, ("arms", "b"), json.loads(YOUNG.to_json())["arms"][""]),
    *((RATE, (*ARM, "counts"), value) for value in ([2**60, 0, 0], "123", [True, 0, 0], [1, -1, 0])),
    (RATE, (*ARM, "n_omitted"), 1.0),
]  # fmt: skip


def test_documents_that_cannot_be_are_refused():
    for one, path, value in IMPOSSIBLE:
        with pytest.raises(ValueError, match=r"Monitor|RowSummary"):
            pytest.fail(f"{path}: {ov.Monitor.from_json(changed(one, path, value))}")


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


def test_what_monitors_write_can_be_read():
    for one in monitors():
        again = ov.Monitor.from_json(one.to_json())
        assert again.to_json() == one.to_json()
        assert again.n_rows == one.n_rows


# --- text and looks -----------------------------------------------------------------------------------------------


def test_lines_say_what_is_left_and_what_is_decided():
    assert str(monitor()) == "0 rows"
    one = monitor(claim="mean > 2").update(NORMAL[:2000])
    assert one.interval == one.result().interval
    assert len(one.looks) == 1  # a look is taken once for so many rows
    first, second = str(one).split("\n")
    assert first.startswith("mean 3.0")
    assert "certified 95 % at every look" in first
    assert "allows for 22 corrupt rows" in first
    assert second == "mean > 2: true after 2 000 rows"
    assert repr(one) == "Monitor(2000 rows)"
    assert "at every n" in one.result().explain()
    three = monitor()
    for arm in "ABC":
        three.update(NORMAL[:500], arm=arm)
    assert [line[:6] for line in str(three).split("\n")] == ["B - A:", "C - A:"]
    assert str(monitor().update([1.0], arm="A")) == "1 rows, all in arm 'A'"


def test_looks_are_kept_and_thinned(monkeypatch):
    monkeypatch.setattr("outvote.estimate.monitor.monitor._LOOKS", 64)
    one = ov.Monitor(ov.Proportion(), claim="mean > 0.5", contamination=0, n_plan=2000)
    for i in range(150):
        one.update([i % 50 > 0])
        _ = one.interval
    assert len(one.looks) < 128
    assert one.looks[-1] == Look(150, *one.looks[-1][1:])
    assert one.looks[-1].decided is True
    n = [look.n_rows for look in one.looks]
    assert n == sorted(set(n))
