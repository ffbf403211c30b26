"""Estimates without a known contamination, and against the number of corrupt rows assumed."""

import itertools
import json
import math

import matplotlib.pyplot as plt
import numpy as np
import pytest

import outvote as ov
from outvote.estimate.levels import level_counts
from outvote.estimate.ordered import Ordered
from outvote.estimate.request import largest_contamination

KNOWN = ov.FiniteVariance(1.0)


def spoiled(n, bad, value, seed):
    x = np.random.default_rng(seed).normal(size=n)
    x[:bad] = value
    return x


def test_levels_run_from_zero_to_the_largest_count():
    assert level_counts(100) == [0, 1, 2, 4, 8, 16, 32, 64, 100]
    assert level_counts(0) == [0]
    fine = level_counts(1000, exact_up_to=10, growth=1.02)
    assert fine[:11] == list(range(11))
    assert fine[-1] == 1000
    assert all(b - a <= max(1, 0.02 * a) for a, b in itertools.pairwise(fine))
    assert largest_contamination(0.25) == ov.Contamination(0.25)
    assert largest_contamination(ov.Contamination(7, "adaptive")).adversary == "adaptive"
    for bad in (0.5, -0.1, 1, True, "a", None):
        with pytest.raises((TypeError, ValueError), match=r"max_contamination=.* must be a fraction below 0.5"):
            largest_contamination(bad)


@pytest.mark.parametrize("vote", ["median", "auto"])
def test_unknown_contamination_costs_twice_the_radius(vote):
    for bad, value in ((0, 0.0), (3, 1e6), (40, 0.6), (200, 3.0)):
        for seed in range(3):
            r = ov.mean(
                spoiled(2000, bad, value, seed), "auto", assume=KNOWN, vote=vote, rng=seed, max_contamination=0.15
            )
            level = min(level for level, _ in r.certificate.levels if level >= bad)
            assert abs(r.estimate) <= dict(r.certificate.levels)[level]
            assert r.interval.low <= r.estimate <= r.interval.high


def test_unknown_contamination_takes_the_interval_of_the_largest_level():
    x = spoiled(2000, 50, 4.0, 0)
    r = ov.mean(x, "auto", assume=KNOWN, rng=0, max_contamination=0.1)
    levels = [level for level, _ in r.certificate.levels]
    assert levels == [0, 1, 2, 4, 8, 16, 32, 64, 128, 200]
    widest = ov.mean(x, 200, 1 - 0.05 / len(levels), assume=KNOWN, rng=0)
    assert r.interval == pytest.approx(widest.interval)
    assert r.certificate.levels[-1][1] == pytest.approx(2 * widest.radius)
    assert r.radius == pytest.approx(max(r.interval.high - r.estimate, r.estimate - r.interval.low))
    assert r.certificate.confidence == pytest.approx(0.95)
    assert "left open, up to 200" in r.explain()


def test_levels_that_disagree_are_dropped():
    x = spoiled(2000, 100, 1e6, 1)
    r = ov.mean(x, "auto", assume=KNOWN, rng=0, n_blocks=501, max_contamination=0.1)
    assert abs(r.estimate) < 0.5
    few = ov.mean(x, 0, 1 - 0.05 / 10, assume=KNOWN, n_blocks=1, rng=0)
    assert few.interval.low > r.interval.high


def test_unknown_contamination_of_other_statistics():
    x, y = spoiled(300, 3, 50.0, 0), spoiled(250, 0, 0.0, 1) + 1
    asked = {"contamination": "auto", "rng": 0, "max_contamination": 0.02}
    assert abs(ov.u_statistic(x, kernel="wilcoxon", **asked).estimate - 0.5) < 0.2
    assert abs(ov.u_statistic(x, y, kernel="auc", grid="diagonal", **asked).estimate - 0.76) < 0.2
    assert abs(ov.difference(x, y, assume=KNOWN, vote="auto", **asked).estimate - 1.0) < 0.5
    assert ov.mean(np.stack([x, x]), "auto", axis=None, rng=0).plan.n_rows == 600


def test_sensitivity_equals_one_call_per_level():
    x = spoiled(1000, 10, 8.0, 2)
    s = ov.sensitivity(x, levels=[0, 5, 20], assume=KNOWN, vote="soft", rng=4)
    for i, level in enumerate((0, 5, 20)):
        one = ov.mean(x, level, assume=KNOWN, vote="soft", rng=4)
        found = s.estimate[i], s.low[i], s.high[i], s.radius[i]
        assert found == pytest.approx((one.estimate, *one.interval, one.radius))
    assert np.all(np.diff(s.radius) > 0)
    assert (s.provenance, s.n_rows, s.plain) == ("certified", 1000, pytest.approx(x.mean()))
    assert (str(s).splitlines()[0], len(str(s).splitlines()), repr(s)) == ("mean, certified", 5, str(s))
    json.dumps(s.to_dict(), allow_nan=False)


@pytest.mark.parametrize("assume", [None, KNOWN, ov.FiniteKurtosis(4.0), ov.Bounded(-20, 20)])
def test_rows_are_put_in_order_once_for_all_levels(assume, monkeypatch):
    x, y, levels = spoiled(300, 3, 8.0, 2), spoiled(250, 3, 8.0, 3), (4, 20)
    means = [ov.mean(x, level, assume=assume) for level in levels]
    gaps = [ov.difference(x, y, (level, level), assume=assume) for level in levels]
    ordered, sort = [], Ordered.values.func
    monkeypatch.setattr(Ordered.values, "func", lambda column: ordered.append(1) or sort(column))
    one, two = ov.sensitivity(x, levels=levels, assume=assume), ov.sensitivity(x, y, levels=levels, assume=assume)
    assert len(ordered) == 3
    for found, expected in ((one, means), (two, gaps)):
        assert found.low.tolist() == pytest.approx([r.interval.low for r in expected])
        assert found.high.tolist() == pytest.approx([r.interval.high for r in expected])
    ov.mean(x, "auto", assume=assume)
    assert len(ordered) == 4


def test_sensitivity_of_a_difference_and_its_plot():
    a, b = spoiled(100, 0, 0.0, 0), spoiled(80, 5, 9.0, 1)
    s = ov.sensitivity(a, b, rng=0)
    assert (s.n_corrupt[-1], s.n_rows, s.statistic) == (20, (100, 80), "difference")
    assert s.plain == pytest.approx(b.mean() - a.mean())
    assert s.provenance in ("conditional", "none")
    assert s.plot(threshold=0.0).ax_ is not None
    plt.close("all")


def test_levels_below_the_rows_known_to_be_corrupt_are_dropped():
    x = np.random.default_rng(0).random(500)
    x[:3] = 7.0
    known = {"assume": ov.Bounded(0, 1), "vote": "auto", "rng": 0}
    r = ov.mean(x, "auto", **known)
    assert [level for level, _ in r.certificate.levels] == [4, 8, 16, 32, 50]
    s = ov.sensitivity(x, levels=[0, 2, 3, 10], **known)
    assert s.n_corrupt.tolist() == [3, 10]
    with pytest.raises(ValueError, match="corrupt for certain"):
        ov.sensitivity(x, levels=[0, 2], **known)
    with pytest.raises(ValueError, match="corrupt for certain"):
        ov.mean(x, "auto", max_contamination=0.002, **known)


def test_unknown_contamination_with_an_adaptive_adversary():
    x = spoiled(2000, 40, 3.0, 0)
    mild = ov.mean(x, "auto", assume=KNOWN, vote="soft", rng=0, max_contamination=0.05)
    harsh = ov.mean(x, "auto", assume=KNOWN, vote="soft", rng=0, max_contamination=ov.Contamination(0.05, "adaptive"))
    assert harsh.certificate.adversary == "adaptive"
    assert harsh.certificate.levels[-1][1] > 1.2 * mild.certificate.levels[-1][1]
    assert "allows for up to 100 corrupt rows, the number left open" in str(harsh)
    assert harsh.to_dict()["levels"][-1][0] == 100
    tables = [
        ov.sensitivity(x, levels=[100], assume=KNOWN, vote="soft", adversary=who) for who in ("oblivious", "adaptive")
    ]
    assert tables[1].radius[0] > tables[0].radius[0]


def test_levels_without_an_interval_do_not_rename_the_others():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=41), rng.normal(size=41)
    found = ov.sensitivity(a, b, levels=[0, 1, 20])
    assert not np.isfinite(found.radius[2])
    assert found.provenance == "conditional"
    assert str(found).startswith("difference, conditional (no interval at 20 corrupt rows)\n")
    assert "if sd(a) ≤  and sd(b) ≤" in str(found)
    assert "if sd(a) ≤" in found._repr_html_()
    for j, level in enumerate((0, 1)):
        premise = ov.difference(a, b, contamination=level, counted="each").certificate.premise_sd
        np.testing.assert_allclose(found.premise_sd[j], premise)
    assert found.to_dict()["premise_sd_b"][2] is None


def test_levels_that_the_rows_contradict_are_told():
    x = np.r_[np.random.default_rng(0).random(100), 5.0, 6.0]
    found = ov.sensitivity(x, levels=[0, 1, 4], assume=ov.Bounded(0, 1))
    assert found.left_out == (0, 1)
    assert str(found).startswith("mean, certified (the rows contradict 0 and 1 corrupt rows)")


def test_an_open_number_of_corrupt_rows_names_the_smallest_sd_of_each_sample():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=300), 3 * rng.normal(size=300)
    found = ov.difference(a, b, contamination="auto").certificate
    low, high = found.premise_sd
    assert low < high
    assert found.premise == f"the clean rows' sd is at most {low:.3g} in a and {high:.3g} in b"


def test_invalid_arguments_raise():
    x, table = spoiled(100, 0, 0.0, 0), spoiled(100, 0, 0.0, 0).reshape(50, 2)
    for call, error, message in (
        (lambda: ov.mean(x, "some"), TypeError, "contamination='some' must be a fraction"),
        (lambda: ov.mean(x, "auto", alternative="less"), ValueError, "alternative='less' does not go with"),
        (lambda: ov.mean(table, "auto"), ValueError, "one column at a time"),
        (lambda: ov.sensitivity(x, x, x), TypeError, "one sample or two, not 3"),
        *((lambda one=one: ov.sensitivity(x, levels=one), TypeError, "levels=")
          for one in ([], 5, "ab", ["a"], [1.5], [-1])),
        (lambda: ov.sensitivity(table), ValueError, r"x has shape \(50, 2\): sensitivity takes one column"),
        (lambda: ov.sensitivity(x, contamination=3), TypeError, "contamination=3 does not go with sensitivity"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            call()
    infinite = ov.sensitivity(x, levels=[0, 40], n_blocks=11)
    assert (infinite.to_dict()["low"][1], infinite.provenance, infinite.high[1]) == (None, "plug-in", math.inf)
