"""Monitors: rows in any batches, arms, claims, shards, files."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import outvote as ov
from outvote.data.missing import ContradictionError
from outvote.estimate.monitor import Look

RNG = np.random.default_rng(21)
NORMAL = RNG.normal(3.0, size=20_000)


def monitor(**options):
    return ov.Monitor(**{"assume": ov.FiniteVariance(1.0), "n_plan": 2000, **options})


class TestRows:
    @given(st.lists(st.integers(1, 1999), max_size=6), st.randoms(use_true_random=False))
    def test_batches_and_their_order_do_not_matter(self, cuts, random):
        x = NORMAL[:2000]
        parts = np.split(x, sorted(cuts))
        random.shuffle(parts)
        one, several = monitor(n_plan=1000).update(x), monitor(n_plan=1000)
        for part in parts:
            several.update(part[::-1])
        assert several.interval == pytest.approx(one.interval, rel=1e-12)
        assert several.n_rows == 2000

    def test_many_rows_are_counted_in_bins(self):
        one = monitor().update(NORMAL)
        assert one.interval.low < 3 < one.interval.high
        assert len(one.to_json()) < 200_000

    def test_empty_batches_change_nothing(self):
        one = monitor().update(NORMAL[:500])
        before = one.interval
        assert one.update([]).update(np.empty(0)).interval == before

    def test_an_error_leaves_the_monitor_unchanged(self):
        one = monitor().update(NORMAL[:500])
        before = one.to_json()
        with pytest.raises(ValueError, match="NaN"):
            one.update([1.0, math.nan])
        with pytest.raises(ValueError, match="one column"):
            one.update(np.zeros((3, 2)))
        with pytest.raises(ValueError, match="name the arm of every batch"):
            one.update([1.0], arm="B")
        assert one.to_json() == before

    def test_nan_may_be_missing_or_corrupt(self):
        dirty = np.r_[NORMAL[:1000], [math.nan] * 5]
        assert monitor(nan_policy="omit").update(dirty).n_rows == 1000
        corrupt = monitor(nan_policy="corrupt").update(dirty)
        assert corrupt.n_rows == 1005
        clean = monitor(nan_policy="corrupt", contamination=0).update(NORMAL[:1000])
        assert corrupt.interval.low <= clean.interval.low
        few = monitor(nan_policy="corrupt", contamination=2).update(dirty)
        with pytest.raises(ValueError, match="in 5 rows, more than the 2"):
            _ = few.interval

    def test_rows_outside_their_bounds_count_as_corrupt(self):
        x = np.r_[RNG.random(500), [7.0, 8.0]]
        found = ov.Monitor(ov.Bounded(0, 1), contamination=3, n_plan=500).update(x)
        assert 0 < found.interval.low < 0.5 < found.interval.high < 1
        with pytest.raises(ValueError, match="outside the bounds"):
            _ = ov.Monitor(ov.Bounded(0, 1), contamination=1, n_plan=500).update(x).interval

    def test_booleans_are_proportions(self):
        found = ov.Monitor(n_plan=1000).update(RNG.random(1000) < 0.1)
        assert found.result().certificate.provenance == "certified"
        mixed = ov.Monitor(ov.Proportion(), n_plan=1000).update(np.r_[np.ones(10), np.zeros(80), 0.5])
        assert mixed.n_rows == 91
        assert ov.Monitor(ov.Proportion(), nan_policy="omit").update([0.0, 1.0, math.nan]).n_rows == 2
        with pytest.raises(ValueError, match="NaN"):
            ov.Monitor(ov.Proportion()).update([0.0, math.nan])


class TestPilot:
    def test_its_rows_choose_the_premise_and_are_not_evidence(self):
        one = ov.Monitor(n_plan=4000, contamination=0)
        one.update(NORMAL[:100])
        assert one.interval == (-math.inf, math.inf)
        assert "choose the sd" in one.result().certificate.note
        assert one.e_value("mean > -100") == 0
        one.update(NORMAL[100:2000])
        sd = one.result().certificate.premise_sd
        assert sd == pytest.approx((1.25 + 3 / 10) * np.std(NORMAL[:100]))
        declared = ov.RowSummary().update(NORMAL[100:2000])
        assert declared.n_rows == 1900
        # Were other rows in the pilot, the evidence would be that of the same rows still.
        moved = ov.Monitor(n_plan=4000, contamination=0).update(np.r_[NORMAL[:100], NORMAL[100:2000] + 1])
        assert moved.interval.low == pytest.approx(one.interval.low + 1, abs=1e-6)

    def test_it_goes_on_while_its_rows_are_all_equal(self):
        x = np.r_[np.zeros(150), RNG.normal(size=1000)]
        found = ov.Monitor(n_plan=2000, contamination=0, pilot=50).update(x)
        assert 0 < found.result().certificate.premise_sd < math.inf
        nothing = ov.Monitor(n_plan=2000, pilot=10).update(np.zeros(500))
        assert nothing.interval == (-math.inf, math.inf)
        assert "Most rows have the same value" in nothing.result().certificate.note

    def test_a_premise_that_rows_contradict_is_doubled(self):
        x = np.r_[RNG.normal(size=100), RNG.normal(0, 30, size=3000)]
        found = ov.Monitor(n_plan=3000, pilot=100).update(x).result()
        assert found.certificate.premise_sd > 10
        assert found.interval.low < 0 < found.interval.high

    def test_a_declared_sd_that_rows_contradict_is_an_error(self):
        wide = monitor(contamination=0).update(np.r_[np.full(500, -50.0), np.full(500, 50.0)])
        with pytest.raises(ContradictionError):
            _ = wide.interval


class TestContamination:
    def test_a_share_allows_for_two_more_rows(self):
        assert monitor(contamination=0.01).update(NORMAL[:1000]).result().plan.n_corrupt == 12
        assert monitor(contamination=0.29).update(NORMAL[:100]).result().plan.n_corrupt == 31

    def test_a_number_is_for_ever_and_a_function_is_asked(self):
        one = monitor(contamination=4).update(NORMAL[:100])
        assert one.result().plan.n_corrupt == one.update(NORMAL[100:2000]).result().plan.n_corrupt == 4
        asked = monitor(contamination=lambda n: n // 100).update(NORMAL[:1000])
        assert asked.result().plan.n_corrupt == 10
        wrong = monitor(contamination=lambda n: -1).update(NORMAL[:10])
        with pytest.raises(ValueError, match=r"contamination\(10\) returned -1"):
            _ = wrong.interval

    def test_more_corrupt_rows_never_narrow_the_interval(self):
        x = NORMAL[:1500]
        found = [monitor(contamination=m).update(x).interval for m in (0, 1, 5, 50, 400)]
        for fewer, more in itertools.pairwise(found):
            assert more.low <= fewer.low + 1e-9
            assert more.high >= fewer.high - 1e-9

    def test_far_rows_within_the_schedule_do_no_harm(self):
        x = NORMAL[:2000].copy()
        x[::100] = 1e9
        low, high = monitor(contamination=0.01).update(x).interval
        assert 2.8 < low < 3 < high < 3.2

    def test_an_adaptive_adversary_costs_more(self):
        x = NORMAL[:2000]
        near = monitor(contamination=ov.Contamination(0.01)).update(x).interval
        far = monitor(contamination=ov.Contamination(0.01, "adaptive")).update(x).interval
        assert far.low < near.low
        assert far.high > near.high

    def test_one_amount_serves_all_arms(self):
        with pytest.raises(ValueError, match="one amount"):
            monitor(contamination=(0.01, 0.02))
        growth = monitor(contamination=ov.Contamination.growth(exponent=0.5)).update(NORMAL[:900])
        assert growth.result().plan.n_corrupt == 30


class TestClaims:
    def test_decided_follows_the_interval(self):
        for claim, expected in (("mean > 2", True), ("mean > 4", False), ("mean < 3.02", None), ("mean <= 9", True)):
            assert monitor(claim=claim).update(NORMAL[:2000]).decided is expected

    def test_e_values_speak_for_what_is_decided(self):
        one = monitor(claim="mean > 2").update(NORMAL[:2000])
        assert one.e_value() > 1e10
        assert one.e_value("mean < 2") < 1
        assert one.e_value("mean > 3.0") < 20

    def test_two_arms_are_about_the_sign_unless_told(self):
        one = monitor().update(NORMAL[:2000], arm="B").update(NORMAL[2000:4000] - 1, arm="A")
        assert one.decided is True
        assert one.arms == ("A", "B")
        assert monitor(baseline="B").merge(one).decided is False
        assert one.e_value() > 1e10
        assert one.e_value("lift > 10 %") > 1e3

    def test_lifts(self):
        a, b = RNG.exponential(10, size=6000), RNG.exponential(14, size=6000)
        one = ov.Monitor(n_plan=6000, contamination=2, claim="lift > 5 %").update(a, arm="A").update(b, arm="B")
        assert one.decided is True
        assert one.lift.low < 0.4 < one.lift.high

    def test_what_cannot_be_asked_is_refused(self):
        one = monitor()
        with pytest.raises(ValueError, match="no rows yet"):
            _ = one.interval
        one.update(NORMAL[:10])
        with pytest.raises(ValueError, match="no claim"):
            _ = one.decided
        with pytest.raises(ValueError, match="two arms"):
            _ = one.lift
        with pytest.raises(ValueError, match="'mean > 0'"):
            one.e_value("difference > 0")
        arms = monitor().update(NORMAL[:10], arm="A")
        with pytest.raises(ValueError, match="only arm 'A'"):
            _ = arms.interval
        arms.update(NORMAL[:10], arm="B").update(NORMAL[:10], arm="C")
        with pytest.raises(ValueError, match=r"there are 3 arms.*result\(arm='B'\)"):
            _ = arms.interval
        assert arms.result("C").interval == arms.result("B").interval
        with pytest.raises(ValueError, match="arm='D' is not one of 'B', 'C'"):
            arms.result("D")
        with pytest.raises(ValueError, match="baseline='X' has no rows"):
            _ = monitor(baseline="X").update([1.0], arm="A").update([2.0], arm="B").interval

    @pytest.mark.parametrize(
        ("options", "error", "words"),
        [
            ({"assume": ov.Symmetric()}, ValueError, "single rows"),
            ({"assume": ov.FiniteKurtosis(3.0)}, ValueError, "single rows"),
            ({"assume": 3}, TypeError, "assume=3"),
            ({"n_plan": 1}, ValueError, "n_plan=1"),
            ({"n_plan": math.nan}, ValueError, "n_plan=nan"),
            ({"n_plan": "many"}, ValueError, "n_plan='many'"),
            ({"claim": "median > 3"}, ValueError, "claim='median > 3'"),
            ({"claim": 3}, TypeError, "claim=3"),
            ({"claim": "mean > 1e999"}, ValueError, "not a finite number"),
            ({"pilot": 1}, ValueError, "pilot=1"),
            ({"confidence": 1.5}, ValueError, "confidence"),
            ({"nan_policy": "drop"}, ValueError, "nan_policy='drop'"),
            ({"contamination": 0.7}, ValueError, "0.7"),
        ],
    )
    def test_wrong_arguments_are_named(self, options, error, words):
        with pytest.raises(error, match=words):
            monitor(**options)

    def test_an_arm_without_a_plan_is_named(self):
        with pytest.raises(ValueError, match="no number for arm 'C'"):
            monitor(n_plan={"A": 900, "B": 100}).update([1.0], arm="C")


KINDS = {
    "variance": (lambda: monitor(), lambda rng, n: rng.normal(size=n)),
    "premise": (lambda: ov.Monitor(n_plan=2000), lambda rng, n: rng.exponential(size=n)),
    "bounded": (lambda: ov.Monitor(ov.Bounded(0, 1), n_plan=2000), lambda rng, n: rng.random(n)),
    "rates": (lambda: ov.Monitor(n_plan=2000), lambda rng, n: rng.random(n) < 0.1),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arms", [("",), ("A", "B")])
class TestShardsAndFiles:
    @staticmethod
    def rows(kind, arms, n=9000):
        rng = np.random.default_rng(1)
        return {arm: KINDS[kind][1](rng, n) for arm in arms}

    def test_shards_merged_equal_one(self, kind, arms):
        rows, one = self.rows(kind, arms), KINDS[kind][0]()
        first = KINDS[kind][0]()
        for arm in arms:
            one.update(rows[arm], arm=arm)
            first.update(rows[arm][:5000], arm=arm)
        second, third = first.shard(), first.shard()
        for arm in arms:
            second.update(rows[arm][5000:8000], arm=arm)
            third.update(rows[arm][8000:], arm=arm)
        merged = first.merge(second.merge(third))
        assert merged.interval == one.interval
        assert merged.n_rows == one.n_rows

    def test_resumed_from_json_equal_one(self, kind, arms, tmp_path):
        rows, one, other = self.rows(kind, arms, 3000), KINDS[kind][0](), KINDS[kind][0]()
        for start in range(0, 3000, 20 if kind == "rates" else 500):
            for arm in arms:
                for each in (one, other):
                    each.update(rows[arm][start : start + (20 if kind == "rates" else 500)], arm=arm)
            other.save(tmp_path / "monitor.json")
            other = ov.Monitor.load(tmp_path / "monitor.json")
        assert other.interval == one.interval
        assert other.to_json() == ov.Monitor.from_json(other.to_json()).to_json()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["monitor.json"]

    def test_one_that_has_just_begun_can_be_merged(self, kind, arms):
        rows, begun, late = self.rows(kind, arms, 1500), KINDS[kind][0](), KINDS[kind][0]()
        one = KINDS[kind][0]()
        for arm in arms:
            begun.update(rows[arm][:1490], arm=arm)
            late.update(rows[arm][1490:], arm=arm)
            one.update(rows[arm], arm=arm)
        assert begun.merge(late).interval == one.interval
        assert KINDS[kind][0]().merge(begun).interval == one.interval


class TestMerging:
    def test_a_pilot_that_is_not_over_takes_the_others_premise(self):
        begun, ready = ov.Monitor(n_plan=2000), ov.Monitor(n_plan=2000).update(NORMAL[:1000])
        begun.update(NORMAL[1000:1010])
        expected = ov.Monitor(n_plan=2000).update(NORMAL[:1010])
        assert begun.merge(ready).interval == expected.interval

    def test_other_premises_and_settings_are_refused(self):
        one, other = ov.Monitor(n_plan=2000).update(NORMAL[:1000]), ov.Monitor(n_plan=2000).update(NORMAL[1000:2000])
        before = one.to_json()
        with pytest.raises(ValueError, match=r"not the same one.*first\.shard\(\)"):
            one.merge(other)
        with pytest.raises(ValueError, match="settings"):
            one.merge(ov.Monitor(n_plan=3000))
        with pytest.raises(TypeError, match="not with int"):
            one.merge(3)
        with pytest.raises(ValueError, match="arms"):
            monitor().update([1.0]).merge(monitor().update([1.0], arm="A"))
        with pytest.raises(ValueError, match="booleans"):
            ov.Monitor().update([True]).merge(ov.Monitor().update([1.0]))
        assert one.to_json() == before

    def test_shards_need_rows(self):
        with pytest.raises(ValueError, match="update it first"):
            monitor().shard()
        with pytest.raises(ValueError, match="arm 'A' has 3 rows, too few"):
            ov.Monitor().update([1.0, 2.0, 3.0], arm="A").shard()
        assert ov.Monitor(ov.Proportion()).shard().n_rows == 0

    def test_merging_leaves_the_other_alone(self):
        one, other = monitor().update(NORMAL[:100], arm="A"), monitor().update(NORMAL[100:300], arm="B")
        merged = one.merge(other)
        merged.update(NORMAL[300:400], arm="B")
        assert other.n_rows == 200


class TestFiles:
    def test_a_function_must_be_given_again(self):
        def allowed(n):
            return 3

        one = monitor(contamination=allowed).update(NORMAL[:500])
        with pytest.raises(ValueError, match="give it again, contamination="):
            ov.Monitor.from_json(one.to_json())
        assert ov.Monitor.from_json(one.to_json(), contamination=allowed).interval == one.interval

    @pytest.mark.parametrize("allowed", [0.05, 7, ov.Contamination.growth(adversary="adaptive")])
    def test_what_was_declared_stays(self, allowed):
        one = monitor(contamination=allowed).update(NORMAL[:500])
        assert ov.Monitor.from_json(one.to_json()).interval == one.interval
        assert ov.Monitor.from_json(one.to_json(), contamination=allowed).interval == one.interval
        with pytest.raises(ValueError, match="contamination=0 is not what this Monitor was declared with"):
            ov.Monitor.from_json(one.to_json(), contamination=0)

    @pytest.mark.parametrize(
        "damage",
        [
            lambda d: d.update(format="else"),
            lambda d: d.update(version=99),
            lambda d: d.pop("arms"),
            lambda d: d["settings"].update(plan=-4),
            lambda d: d["settings"].update(assume={"name": "Nothing"}),
            lambda d: d["arms"][""].update(n_piloted=-1),
            lambda d: d["arms"][""].update(pilot=["a"]),
            lambda d: d["arms"][""].update(sd=-1.0),
            lambda d: d["arms"][""].update(rows="{}"),
            lambda d: d.update(looks=[[1]]),
        ],
    )
    def test_documents_that_cannot_be_are_refused(self, damage):
        document = json.loads(monitor().update(NORMAL[:50]).to_json())
        damage(document)
        with pytest.raises(ValueError, match=r"Monitor|RowSummary"):
            ov.Monitor.from_json(json.dumps(document))

    def test_counts_that_cannot_be_are_refused(self):
        document = json.loads(ov.Monitor().update([True, False]).to_json())
        document["arms"][""]["counts"] = [1, -1, 0]
        with pytest.raises(ValueError, match="this is not a Monitor: -1 is not a whole number"):
            ov.Monitor.from_json(json.dumps(document))

    @pytest.mark.parametrize(
        "assume",
        [None, ov.Bounded(0, 9, variance=2.0), ov.FiniteKurtosis(3.0, 2.0), ov.SubGaussian(1.5), ov.Proportion()],
    )
    def test_settings_are_kept(self, assume):
        one = ov.Monitor(assume, 0.02, 0.9, {"A": 50, "B": 60}, claim="lift > 2 %", baseline="B", pilot=20)
        assert ov.Monitor.from_json(one.to_json()).to_json() == one.to_json()


class TestText:
    def test_one_line_says_what_is_left_and_what_is_decided(self):
        assert str(monitor()) == "0 rows"
        one = monitor(claim="mean > 2").update(NORMAL[:2000])
        first, second = str(one).split("\n")
        assert first.startswith("mean 3.0")
        assert "certified 95 % at every look" in first
        assert "allows for 22 corrupt rows" in first
        assert second == "mean > 2: true after 2 000 rows"
        assert repr(one) == "Monitor(2000 rows)"
        assert "at every n" in one.result().explain()

    def test_three_arms_have_a_line_each(self):
        one = monitor()
        for arm in "ABC":
            one.update(NORMAL[:500], arm=arm)
        lines = str(one).split("\n")
        assert [line[:6] for line in lines] == ["B - A:", "C - A:"]
        assert str(monitor().update([1.0], arm="A")) == "1 rows, all in arm 'A'"

    def test_looks_are_kept_and_thinned(self):
        one = monitor(claim="mean > 2", contamination=0)
        for i in range(1100):
            one.update(NORMAL[i : i + 1])
            _ = one.interval
        assert len(one.looks) < 1024
        assert one.looks[-1] == Look(1100, *one.looks[-1][1:])
        assert one.looks[-1].decided is True
        n = [look.n_rows for look in one.looks]
        assert n == sorted(set(n))

    def test_a_look_is_taken_once_for_so_many_rows(self):
        one = monitor().update(NORMAL[:500])
        assert one.interval == one.result().interval
        assert len(one.looks) == 1


def test_what_stands_in_corrupt_rows_does_not_say_where_the_evidence_begins():
    rng = np.random.default_rng(2)
    rows = np.where(rng.random(3000) < 0.3, rng.normal(size=3000), 0.0)
    rows[:60] = 0.0
    found = []
    for first in ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (math.nan, 0.0, math.nan)):
        rows[[5, 7, 9]] = first
        watched = ov.Monitor(contamination=0.01, n_plan=3000, pilot=50, nan_policy="corrupt").update(rows)
        arm = watched._arms[""]
        found.append(arm.n_piloted + int(np.isnan(first).sum()))
        assert arm.summary.n_rows - arm.summary.n_found_corrupt == 2950
    assert found == [50, 50, 50]


def test_a_pilot_with_missing_rows_is_saved_and_merged():
    rows = np.r_[1.0, math.nan, 2.0]
    one = ov.Monitor(contamination=0.2, n_plan=200, pilot=4, nan_policy="corrupt").update(rows)
    again = ov.Monitor.from_json(one.to_json())
    other = ov.Monitor(contamination=0.2, n_plan=200, pilot=4, nan_policy="corrupt").update(NORMAL[:100])
    whole = ov.Monitor(contamination=0.2, n_plan=200, pilot=4, nan_policy="corrupt").update(np.r_[rows, NORMAL[:1]])
    assert (again.n_rows, again._arms[""].pilot.tolist()[2]) == (one.n_rows, 2.0)
    assert again.update(NORMAL[:1])._arms[""].sd == whole._arms[""].sd
    merged = one.merge(other)
    assert merged.n_rows == 103
    assert merged.result().n_omitted == 0
