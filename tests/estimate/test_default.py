"""The plainest call, with nothing declared: it holds however far the corrupt rows lie, on made and on real rows."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from command_line import run
from dirty import DISTANCES, ERRORS, LAWS, moved, real_columns
from scipy.stats import mstats

import outvote as ov
from outvote.estimate.premise import UnknownScale

KINDS = ("moved", "two-sided", "scaled", "two-sided, scaled")


def half_width(found):
    return float(found.high - found.low) / 2


@pytest.mark.parametrize(
    ("law", "most"), [("normal", 0.125), ("exponential", 0.185), ("gamma(2)", 0.185), ("t(4)", 0.22)]
)
def test_no_distance_is_harmful(law, most):
    """0.9 % of 10 000 rows are corrupt, 1 % are allowed for: half-widths in sd."""
    sample, mean = LAWS[law]
    samples = [sample(np.random.default_rng(seed), 10_000) for seed in range(2)]
    clean = [ov.mean(x) for x in samples]
    assert np.mean([half_width(one) for one in clean]) < (0.065 if law != "t(4)" else 0.075)
    assert all(one.low < mean < one.high for one in clean)
    for kind in KINDS:
        for distance in DISTANCES[1::2]:
            found = [ov.mean(moved(x, distance, kind, 90, np.random.default_rng(1))) for x in samples]
            assert all(one.low < mean < one.high for one in found), (kind, distance)
            assert np.mean([half_width(one) for one in found]) < most, (kind, distance)


@pytest.mark.parametrize(("law", "most"), [("normal", 0.085), ("exponential", 0.125)])
def test_more_rows_make_it_better_not_worse(law, most):
    sample, mean = LAWS[law]
    x = sample(np.random.default_rng(0), 1_000_000)
    assert half_width(ov.mean(x)) < 0.032
    for kind in KINDS:
        for distance in (5, 20, 100, 1e3, 1e6):
            found = ov.mean(moved(x, distance, kind, 9000, np.random.default_rng(1)))
            assert found.low < mean < found.high
            assert half_width(found) < most
    assert half_width(ov.mean(moved(x, 1e3, "moved", 9000, np.random.default_rng(1)))) < 0.01


@pytest.mark.parametrize(("share", "n"), [(0.01, 5000), (0.05, 2000)])
def test_the_point_is_no_farther_off_than_a_winsorized_mean(share, n):
    m, errors = ov.Contamination(share).count(n), {}
    attacks = [("none", 0), *(("moved", d) for d in (3, 10, 50, 1000, -20))]
    attacks += [("two-sided", 20), ("scaled", 10), ("scaled", 1000)]
    for law, (sample, mean) in LAWS.items():
        for kind, distance in attacks:
            found = []
            for seed in range(2):
                rng = np.random.default_rng(seed)
                x = sample(rng, n)
                x = x if kind == "none" else moved(x, distance, kind, int(0.8 * m), rng)
                others = float(np.mean(np.asarray(mstats.winsorize(x, (m / n, m / n))))), float(x.mean())
                found.append([abs(one - mean) for one in (float(ov.mean(x, m).estimate), *others)])
            errors[law, kind, distance] = np.mean(found, axis=0)
    ours, winsorized, _ = np.mean(list(errors.values()), axis=0)
    assert ours < winsorized
    for law in ("normal", "uniform", *(["exponential", "gamma(2)"] if share == 0.01 else [])):
        ours, _, plain = errors[law, "none", 0]
        assert ours < 1.1 * plain


def test_real_rows_with_the_errors_that_people_make():
    missed, ratios, off, tried = [], [], [], 0
    for k, (name, x) in enumerate(list(real_columns())[::7]):
        if len(np.unique(x)) < 8:
            continue
        for share in (0.01, 0.05):
            m = ov.Contamination(share).count(len(x))
            try:
                clean = ov.mean(x, share)
            except UnknownScale:  # nearly all rows are equal
                continue
            for error, change in ERRORS.items():
                rng = np.random.default_rng(k)
                y, bad = x.copy(), rng.choice(len(x), max(round(0.8 * m), 1), replace=False)
                y[bad] = change(y[bad])
                found = ov.mean(y, share)
                tried += 1
                if not found.low <= x.mean() <= found.high:
                    missed.append((name, error, share))
                ratios.append(half_width(found) / half_width(clean))
                if error != "sign":
                    off.append(abs(found.estimate - x.mean()) / half_width(found))
    assert tried > 200
    assert len(missed) < 0.003 * tried, missed
    assert 0.9 < np.median(ratios) < 1.2
    assert np.mean(off) < 0.1


# --- what it says ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def orders():
    """Ten thousand orders of 30 on average, fifty of them in cents."""
    rng = np.random.default_rng(0)
    rows = rng.exponential(30.0, size=10_000)
    rows[:50] *= 100
    return rows


def test_gross_rows_are_told_with_the_other_reading(orders):
    found = ov.mean(orders)
    (remark,) = found.remarks
    assert remark.startswith(f"{len(found.suspects)} of the 100 rows that may be corrupt lie above ")
    assert "and are taken to be corrupt; if they are real, the mean is " in remark
    assert str(found).endswith(remark)
    assert remark in found.explain()
    assert found.to_dict()["remarks"] == remark
    assert set(found.suspects) <= set(range(50))
    assert orders[found.suspects[0]] == orders.max()
    limit = float(remark.split("lie above ")[1].split(" ")[0])
    assert orders[list(found.suspects)].min() > limit > np.sort(np.delete(orders, found.suspects))[-1]
    real = found.if_real
    assert real.plan.n_corrupt == 100 - len(found.suspects)
    assert real.if_real is None
    assert real.low < found.low < found.high < real.high
    assert real.certificate.premise_sd > 5 * found.certificate.premise_sd
    assert real.low < orders.mean() < real.high
    assert found.to_dict()["if_real_high"] == real.high
    again = pickle.loads(pickle.dumps(found))
    assert again.suspects == found.suspects
    assert str(again) == str(found)


def test_clean_rows_get_no_remark():
    x = np.random.default_rng(0).normal(size=10_000)
    for found in (ov.mean(x), ov.mean(x[:300]), ov.mean(x, assume=ov.FiniteVariance(2.0))):
        assert found.remarks == ()
        assert found.if_real is None
        assert list(found.suspects) == []


def test_the_other_reading_holds_where_far_rows_are_real():
    """1 % of the customers lie 30 sd away: no method can tell them from corrupt rows."""
    covered = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=4000) + 30.0 * (rng.random(4000) < 0.008)
        found = ov.mean(x, 0.01)
        real = found.if_real or found
        covered += real.low <= 0.24 <= real.high
    assert covered >= 19


@pytest.mark.parametrize("n", [900, 20_000])
def test_two_sides_and_a_sentinel_are_told(n):
    rng = np.random.default_rng(1)
    x = rng.normal(10.0, size=n)
    x[: n // 200] = -999.0
    assert f"{n // 200} of the {n // 100} rows that may be corrupt are -999, below" in ov.mean(x).remarks[0]
    x[n // 200 : n // 150] = 1e5
    (remark,) = ov.mean(x).remarks
    assert " lie below " in remark
    assert " or above " in remark
    assert "(from -999 to 100 000)" in remark
    x = rng.normal(10.0, size=n)
    x[7] = 1e9
    assert ov.mean(x).remarks[0].startswith(f"1 of the {n // 100} rows that may be corrupt is 1")
    assert ov.mean(x).suspects == (7,)


def test_one_sided_results_have_a_one_sided_reading(orders):
    found = ov.mean(orders, alternative="greater")
    assert math.isinf(found.if_real.high)
    assert "if they are real, the mean is at least " in found.remarks[0]


def test_columns_are_told_apart(orders):
    table = np.column_stack([orders, np.random.default_rng(2).normal(size=10_000)])
    found = ov.mean(pd.DataFrame(table, columns=["revenue", "noise"]))
    (remark,) = found.remarks
    assert remark.startswith("revenue: ")
    assert list(map(len, found.suspects)) == [len(ov.mean(orders).suspects), 0]
    assert found.if_real.high[0] > found.high[0]
    assert found.if_real.high[1] == found.high[1]


def test_every_door_tells_it(orders, tmp_path):
    orders = orders[42:]
    alone = ov.mean(orders[:400], 0.02)
    frame = pd.DataFrame({"revenue": orders[:400], "shop": "a"})
    line = ov.scan(frame).mean("revenue", by="shop", contamination=0.02).iloc[0]
    assert (line["estimate"], line["low"], line["high"]) == pytest.approx((alone.estimate, alone.low, alone.high), 1e-6)
    assert line["note"] == alone.remarks[0]
    described = ov.describe(frame[["revenue"]], 0.02).iloc[0]
    assert described["note"] == alone.remarks[0]
    frame.to_csv(path := tmp_path / "orders.csv", index=False)
    asked = ("mean", path, "--value", "revenue", "--contamination", "2%")
    said = alone.remarks[0]
    assert said in run(*asked).stderr
    assert json.loads(run(*asked, "--json").stdout)["groups"][0]["mean"]["note"] == said
    both = pd.concat([frame, frame.assign(shop="b", revenue=orders[4000:4400] + 1)])
    compared = ov.difference(both, value="revenue", by="shop", contamination=0.02).iloc[0]
    assert "rows of a lie above" in compared["note"]
    both.to_csv(path, index=False)
    run("report", path, "--value", "revenue", "--by", "shop", "--contamination", "2%", "-o", tmp_path / "page.html")
    assert "are taken to be corrupt" in (tmp_path / "page.html").read_text("utf-8")
    told = ov.tolerance(orders, claim="mean > 20")
    assert str(told).endswith(told.estimate.remarks[0])


@pytest.mark.parametrize("relative", [False, True])
def test_differences_tell_it_of_each_sample(orders, relative):
    b = np.random.default_rng(3).exponential(33.0, 8000)
    b[:4] = -9999.0
    found = ov.difference(orders, b, relative=relative)
    (remark,) = found.remarks
    assert "rows of a lie above" in remark
    assert "and 4 rows of b are -9 999, below" in remark
    assert found.low < (0.1 if relative else 3.0) < found.high
    assert {sample for sample, _ in found.suspects} == {0, 1}
    assert (1, 2) in found.suspects
    assert found.if_real.low < found.low
    assert found.if_real.high > found.high


# --- the same everywhere ----------------------------------------------------------------------------------------


def test_every_way_to_give_the_same_rows_has_the_same_answer(orders):
    alone = ov.mean(orders)
    summary = ov.RowSummary().update(orders[:3000]).update(orders[3000:])
    frame = pd.DataFrame({"revenue": orders, "all": 1})
    others = [
        ov.mean(summary), ov.scan(frame).mean("revenue"), ov.mean(orders.astype(np.float32)), ov.mean(list(orders)),
        ov.mean(np.column_stack([np.ones(10_000), orders]), ratio=True),
    ]  # fmt: skip
    line = ov.scan(frame).mean("revenue", by="all").iloc[0]
    width = alone.high - alone.low
    for other in [*((one.estimate, one.low, one.high) for one in others), line[["estimate", "low", "high"]]]:
        assert tuple(map(float, other)) == pytest.approx((alone.estimate, alone.low, alone.high), abs=2e-3 * width)


@pytest.mark.parametrize("distance", [8, 300])
def test_differences_hold_at_every_distance(distance):
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=5000), rng.normal(0.1, size=5000)
    for where in ("a", "b", "both"):
        one, two = a.copy(), b.copy()
        one[: {"a": 90, "b": 0, "both": 45}[where]] += distance
        two[: {"a": 0, "b": 90, "both": 45}[where]] += distance
        found = ov.difference(one, two)
        assert found.low < 0.1 < found.high
        assert half_width(found) < (0.30 if distance < 20 else 0.19)
        assert abs(found.estimate - 0.1) < (0.2 if distance < 20 else 0.06)
    known = np.random.default_rng(5).normal(size=5000)
    adjusted = ov.difference(one + known, two + known, covariate=(known, known), coefficient=1.0)
    assert adjusted.low < 0.1 < adjusted.high
    assert half_width(adjusted) < 0.32


def test_paired_rows_ratios_and_pairs_of_rows_hold():
    rng = np.random.default_rng(6)
    a = rng.gamma(4.0, size=6000)
    b = a + rng.normal(0.2, 0.5, 6000)
    b[:40] *= 100
    paired = ov.difference(a, b, paired=True)
    assert paired.low < 0.2 < paired.high
    assert half_width(paired) < 0.06
    sessions = rng.poisson(3.0, 6000) + 1.0
    revenue = sessions * rng.exponential(2.0, 6000)
    revenue[:40] *= 1000
    ratio = ov.mean(np.column_stack([sessions, revenue]), ratio=True)
    assert ratio.low < 2.0 < ratio.high
    assert half_width(ratio) < 0.2
    x = rng.normal(size=6000)
    x[:20] *= 1000
    variance = ov.u_statistic(x, kernel="variance", contamination=20)
    assert variance.low < 1.0 < variance.high
    assert half_width(variance) < 0.2
    assert "of the 20 tuples that may be corrupt" in variance.remarks[0]
    assert "the variance is" in variance.remarks[0]


@pytest.mark.parametrize("times", [10, 1000, 1e7])
def test_a_monitor_forgives_corrupt_rows_among_the_first(times):
    rng = np.random.default_rng(7)
    x = rng.normal(size=10_000)
    x[rng.random(10_000) < 0.01] *= times
    found = ov.Monitor(contamination=0.01, n_plan=10_000).update(x).result()
    assert found.low < 0 < found.high
    assert half_width(found) < 0.25
    assert found.certificate.premise_sd < 3


def test_an_open_number_of_corrupt_rows_is_answered(orders):
    found = ov.mean(orders, "auto")
    assert found.low < 30 < found.high
    assert half_width(found) < 8


def test_rows_that_are_mostly_noise_of_rounding_are_not_mistaken_for_all():
    rng = np.random.default_rng(2)
    x = np.where(rng.random(20_000) < 0.6, 1e-16 * rng.normal(size=20_000), rng.normal(1.0, size=20_000))
    found = ov.mean(x, 0)
    assert found.low < 0.4 < found.high
    assert half_width(found) < 0.03
    summary = ov.mean(ov.RowSummary().update(x), 0)
    assert "pass the rows themselves" in summary.certificate.note
    before = rng.exponential(size=9000)
    after = np.where(rng.random(9000) < 0.2, before + 1.0, before * 1.1 / 1.1 + 1e-13 * rng.random(9000))
    paired = ov.difference(before, after, 0, paired=True)
    assert paired.low < 0.2 < paired.high


def test_a_group_with_an_absurd_row_is_told_with_both_readings():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"v": rng.normal(size=80), "k": np.repeat([1, 2], 40)})
    frame.loc[3, "v"] = 1e150
    note = ov.scan(frame).mean("v", by="k", contamination=2).note[0]
    assert note == ov.mean(frame.v[:40].to_numpy(), 2).remarks[0]
    assert "nan" not in note


# --- where nothing can be read off the rows -----------------------------------------------------------------------


@pytest.mark.parametrize("n", [1000, 20_000])
def test_rows_that_hardly_differ_are_refused_with_what_would_work(n):
    rng = np.random.default_rng(8)
    revenue = np.where(np.arange(n) < n // 200, rng.gamma(2.0, 20.0, n), 0.0)
    with pytest.raises(UnknownScale, match=r"995 of the 1 000|19 900 of the 20 000") as told:
        ov.mean(revenue)
    assert "are 0, and " in str(told.value)
    assert "assume=Bounded(low, high)" in str(told.value)
    most = int(str(told.value).split("contamination=")[1].split(",")[0])
    found = ov.mean(revenue, most)
    assert math.isfinite(half_width(found))
    with pytest.raises(UnknownScale):
        ov.mean(revenue, most + 1)
    assert math.isfinite(half_width(ov.mean(revenue, assume=ov.Bounded(0, 500))))
    with pytest.raises(UnknownScale, match="of b are 0"):
        ov.difference(rng.normal(size=n), revenue)
    with pytest.raises(UnknownScale):
        ov.tolerance(revenue, claim="mean > -1")
    with pytest.raises(UnknownScale, match="disjoint tuples are 0"):
        ov.u_statistic(np.where(np.arange(n) < n // 400, 1.5, 0.0), kernel="gini", contamination=n // 100)
    table = ov.mean(np.column_stack([revenue, rng.normal(size=n)]))
    assert math.isinf(table.high[0])
    assert math.isfinite(table.high[1])
    line = ov.scan(pd.DataFrame({"v": revenue, "k": 1})).mean("v", by="k").iloc[0]
    assert line["provenance"] == "none"
    assert "too few would be left to read an sd off them" in line["note"]
    assert math.isinf(ov.sensitivity(revenue, levels=[1, n // 100]).radius[1])


def test_equal_rows_have_their_value_and_no_interval():
    found = ov.mean(np.full(100, 5.0))
    assert found.estimate == 5
    assert found.certificate.provenance == "none"
    assert "have the same value" in found.certificate.note
