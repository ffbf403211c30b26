"""Means of frames in memory by evidence, all rows and by group, against `outvote.mean` of the same rows."""

import math
import re

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import outvote as ov
from outvote.tables.evidence import MEAN_ANSWER

KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def rows():
    rng = np.random.default_rng(0)
    city = np.repeat([f"c{i:02d}" for i in range(24)], rng.integers(1, 90, size=24))
    n = len(city)
    v = rng.normal(3, 2, size=n)
    v[rng.choice(n, n // 200, replace=False)] = 1e6
    order = rng.permutation(n)
    return {"city": city[order].tolist(), "wet": (np.arange(n) % 2 == 0).tolist(), "v": v[order], "w": v[order] ** 2}


def lines(answer):
    return nw.from_native(answer).rows(named=True)


@pytest.mark.parametrize("alternative", ["two-sided", "less"])
def test_groups_equal_the_means_of_their_rows(kind, alternative):
    table = rows()
    found = lines(ov.scan(kind(table)).mean("v", by="city", contamination=0.02, alternative=alternative))
    assert [line["city"] for line in found] == sorted(set(table["city"]))
    for line in found:
        own = table["v"][np.array(table["city"]) == line["city"]]
        right = ov.mean(own, contamination=0.02, alternative=alternative)
        low, high = map(float, right.interval)
        width = high - low if math.isfinite(high - low) else 1.0
        assert (line["n"], line["corrupt"]) == (len(own), right.plan.n_corrupt)
        assert line["provenance"] == right.certificate.provenance
        if right.certificate.provenance == "none":
            assert line["note"] == right.certificate.note
            continue
        ends = [line[name] for name in ("low", "high", "estimate")]
        assert ends == pytest.approx([low, high, float(right.estimate)], abs=1e-9 * width)
        assert line["premise_sd"] == pytest.approx(float(right.certificate.premise_sd), rel=1e-9)


def test_answers_have_the_columns_that_are_promised(kind):
    table = rows()
    answer = nw.from_native(ov.scan(kind(table)).mean("v", by=["city", "wet"]))
    assert answer.columns == ["city", "wet", *list(MEAN_ANSWER)[1:]]
    several = nw.from_native(ov.scan(kind(table)).mean(["v", "w"], by="wet"))
    assert several.columns == ["wet", *MEAN_ANSWER]
    assert several["column"].to_list() == ["v", "w", "v", "w"]
    assert several["wet"].to_list() == [False, False, True, True]
    alone = nw.from_native(ov.scan(kind(table)).mean("w", by="wet"))
    assert several["low"].to_list()[1::2] == pytest.approx(alone["low"].to_list())


def test_large_groups_are_counted_in_bins_as_a_mean_is():
    size = 9000
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": np.repeat([3, 1, 2], [size, 50, size]), "v": rng.normal(size=2 * size + 50)})
    found = ov.scan(frame).mean("v", by="g")
    assert found.g.tolist() == [1, 2, 3]
    for line in found.itertuples():
        right = ov.mean(frame.v[frame.g == line.g])
        assert (line.low, line.high) == pytest.approx(right.interval, abs=1e-9)


@pytest.mark.parametrize("assume", [ov.FiniteVariance(3.0), ov.Bounded(-20, 40), ov.Contamination(2, "adaptive")])
def test_declared_scales_and_adversaries(assume):
    table = rows()
    options = {"contamination": 3, "assume": assume}
    if isinstance(assume, ov.Contamination):
        options = {"contamination": assume}
    frame = pd.DataFrame(table)
    for line in ov.scan(frame).mean("v", by="city", **options).itertuples():
        own = frame.v[frame.city == line.city].to_numpy()
        if line.provenance == "none" and line.note:
            with pytest.raises(ValueError, match=re.escape(line.note)):
                ov.mean(own, **options)
            continue
        right = ov.mean(own, **options)
        if right.certificate.provenance == "none":
            continue
        assert (line.low, line.high) == pytest.approx(right.interval)


@pytest.mark.parametrize("policy", ["omit", "corrupt"])
def test_missing_rows_are_left_out_or_count_as_corrupt(kind, policy):
    table = rows()
    v = np.array(table["v"])
    v[[1, 5, 70]] = math.nan
    gone = np.array(table["city"]) == "c07"
    v[gone] = math.nan
    frame = kind({"city": table["city"], "v": v})
    with pytest.raises(ValueError, match="has NULL, NaN or infinite values"):
        ov.scan(frame).mean("v", by="city")
    for line in lines(ov.scan(frame).mean("v", by="city", contamination=3, nan_policy=policy)):
        own = v[np.array(table["city"]) == line["city"]]
        try:
            right = ov.mean(own, 3, nan_policy=policy)
        except ValueError:
            assert line["provenance"] == "none"
            assert line["note"]
            continue
        if right.certificate.provenance == "conditional":
            assert (line["low"], line["high"]) == pytest.approx(right.interval, abs=1e-6)
            assert line["n"] == right.plan.n_rows


def test_all_rows_of_a_frame_go_by_evidence_unless_blocks_are_asked_for():
    table = {name: column[:400] for name, column in rows().items()}
    for scan in (ov.scan(pl.DataFrame(table)), ov.scan(pl.LazyFrame(table))):
        for options in ({}, {"vote": "evidence"}, {"contamination": "auto"}):
            right = ov.mean(table["v"], options.get("contamination", 0.01))
            assert scan.mean("v", **options).interval == pytest.approx(right.interval, rel=1e-9)
    both = scan.mean(["v", "w"], contamination=0.02)
    right = ov.mean(np.column_stack([table["v"], table["w"]]), 0.02)
    assert both.interval.low == pytest.approx(right.interval.low)
    assert both.names == ("v", "w")
    assert scan.mean("v", n_blocks=11, rng=0).plan.n_blocks == 11
    assert scan.mean("v", vote="median", rng=0).plan.vote == "median"
    with pytest.raises(ValueError, match="one answer, but not one for each group"):
        scan.mean("v", by="city", contamination="auto")
    with pytest.raises(ValueError, match="vote='evidence' has no blocks: leave out n_blocks"):
        scan.mean("v", vote="evidence", n_blocks=11)


def test_groups_that_cannot_be_answered_say_why():
    frame = pd.DataFrame(
        {"g": ["a"] * 2 + ["b"] * 50 + ["c"] * 40, "v": np.r_[1.0, 2.0, np.arange(50.0), np.full(40, 7)]}
    )
    a, b, c = ov.scan(frame).mean("v", by="g", contamination=3).itertuples()
    assert a.provenance == "none"
    assert "largest count here is 0" in a.note
    assert (b.provenance, b.note) == ("conditional", "")
    assert c.provenance == "none"
    assert "Most rows have the same value" in c.note
    assert math.isnan(c.low) or c.low is None or math.isinf(c.low)


def test_labels_of_any_kind_are_sorted():
    frame = pd.DataFrame({"g": [10, 9, 10, 2] * 30, "v": np.arange(120.0)})
    assert ov.scan(frame).mean("v", by="g").g.tolist() == [2, 9, 10]
    wide = pd.DataFrame({"g": [10**12, 9, 10**12, -5] * 30, "v": np.arange(120.0)})
    assert ov.scan(wide).mean("v", by="g").g.tolist() == [-5, 9, 10**12]
    empty = ov.scan(pd.DataFrame({"g": np.empty(0, dtype=int), "v": np.empty(0)})).mean("v", by="g")
    assert len(empty) == 0


def test_rows_by_group_stay_as_they_are():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"v": rng.normal(size=500), "k": np.sort(rng.integers(2, size=500))})
    before, scanned = frame.copy(), ov.scan(frame)
    one, two = (scanned.mean("v", by="k", contamination=1) for _ in range(2))
    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(one, two)
