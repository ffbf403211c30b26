"""Variants of a table compared with a baseline, on every engine."""

from __future__ import annotations

import functools
import math
import warnings

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from engines import ENGINES

import outvote as ov

HEADS = ["variant", "n", "baseline_n", "estimate", "low", "high", "lift", "lift_low", "lift_high", "tolerance",
         "settled", "note"]  # fmt: skip
KNOWN = ov.FiniteVariance(60.0)


def orders(seed=0, n=400, n_users=160):
    """Rows of orders: users, their variant and country, sessions, revenue, and what they spent before."""
    rng = np.random.default_rng(seed)
    variant, country = rng.choice(["A", "B", "C"], n_users), rng.choice(["DE", "FR"], n_users)
    before, user = rng.gamma(2.0, 4.0, n_users).round(3), rng.integers(0, n_users, n)
    sessions = rng.poisson(2.0, n) + 1
    spent = np.where(variant == "C", 9.0, 6.0)[user] * sessions + 0.5 * before[user] + rng.gamma(1.0, 5.0, n)
    return pa.table({
        "user": [f"u{one:04d}" for one in user], "variant": variant[user], "country": country[user],
        "sessions": sessions, "revenue": spent.round(3), "before": before[user], "bought": spent > 18.0,
    })  # fmt: skip


ORDERS = orders()
FRAME = ORDERS.to_pandas()
QUESTIONS = {
    "means": {},
    "segments": {"segments": "country"},
    "a ratio": {"ratio": "sessions"},
    "ratio by user": {"unit": "user", "ratio": "sessions", "simultaneous": True},
    "covariate by user": {"unit": "user", "covariate": "before"},
    "paired": {"paired": "user"},
}


def collected(answer):
    frame = nw.from_native(answer)
    return (frame.collect() if isinstance(frame, nw.LazyFrame) else frame).to_pandas()


@functools.cache
def expected(question):
    options = {"value": "revenue", "by": "variant", "baseline": "A", "assume": KNOWN}
    return ov.difference(FRAME, **options, **QUESTIONS[question])


def same(one, two):
    pd.testing.assert_frame_equal(
        one.drop(columns="note"), two.drop(columns="note"), check_dtype=False, rtol=1e-9, check_index_type=False
    )
    assert one["note"].tolist() == two["note"].tolist()


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("engine", ["polars lazy", "table", "parquet"])
def test_every_engine_gives_the_same_table(engine, question, tmp_path):
    given_source = ENGINES[engine](ORDERS, tmp_path, [100, 300])
    source = given_source.pop("source")
    opened = ov.scan(source, **given_source) if given_source else source
    options = {"value": "revenue", "by": "variant", "baseline": "A", "assume": KNOWN}
    found = collected(ov.difference(opened, **options, **QUESTIONS[question]))
    same(found.astype(expected(question).dtypes), expected(question))


@pytest.mark.parametrize("source", [FRAME, ORDERS, pl.from_arrow(ORDERS).lazy()], ids=["pandas", "pyarrow", "lazy"])
def test_the_answer_is_a_table_of_the_kind_that_was_given(source):
    found = ov.difference(source, value="revenue", by="variant", segments=["country"], assume=KNOWN)
    assert type(found) is type(source)
    table = collected(found)
    assert list(table) == ["country", *HEADS]
    assert table["country"].tolist() == ["DE", "DE", "FR", "FR"]
    assert table["variant"].tolist() == ["B", "C"] * 2
    assert table["settled"].dtype == bool


def rows_of(frame, label, column="revenue"):
    return frame[column][frame["variant"] == label].to_numpy()


def check(line, gap, lift, tolerance, assumed):
    assert (line.estimate, line.low, line.high) == pytest.approx((gap.estimate, *gap.interval))
    if lift is not None:
        assert (line.lift, line.lift_low, line.lift_high) == pytest.approx((lift.estimate, *lift.interval))
    rows = tolerance.rows
    assert (line.tolerance is pd.NA or math.isnan(line.tolerance)) if rows is None else line.tolerance == rows
    assert line.settled == (rows is not None and rows >= assumed) == (gap.interval.low > 0 or gap.interval.high < 0)


@pytest.mark.parametrize("assume", [None, KNOWN])
def test_lines_are_those_of_arrays(assume):
    options = {"contamination": 1 if assume is None else 4, "assume": assume}
    frame = FRAME if assume else FRAME[FRAME["variant"] != "B"]
    table = ov.difference(frame, value="revenue", by="variant", baseline="A", **options)
    for line in table.itertuples():
        pair = rows_of(FRAME, "A"), rows_of(FRAME, line.variant)
        gap, lift = (ov.difference(*pair, relative=one, **options) for one in (False, True))
        check(line, gap, lift, ov.tolerance(*pair, **options), 2 * options["contamination"])
        assert (line.baseline_n, line.n) == tuple(map(len, pair))


def test_ratios_and_covariates_are_those_of_arrays():
    options = {"contamination": 2, "assume": KNOWN}
    table = ov.difference(FRAME, value="revenue", by="variant", ratio="sessions", **options)
    pair = [np.column_stack([rows_of(FRAME, one, "sessions"), rows_of(FRAME, one)]) for one in "AC"]
    gap, lift = (ov.difference(*pair, ratio=True, relative=one, **options) for one in (False, True))
    check(table.iloc[1], gap, lift, ov.tolerance(*pair, ratio=True, **options), 4)
    note = ov.difference(FRAME[:200], value="revenue", by="variant", ratio="sessions")["note"][0]
    assert note.startswith("Holds if the sd of numerator - ratio·denominator in clean rows is at most ")
    assert " in A and " in note
    for coefficient in (None, 0.5):
        table = ov.difference(
            FRAME, value="revenue", by="variant", covariate="before", coefficient=coefficient, **options
        )
        pair = [rows_of(FRAME, one) for one in "AC"]
        metric = {"covariate": [rows_of(FRAME, one, "before") for one in "AC"], "coefficient": coefficient}
        gap, lift = (ov.difference(*pair, **metric, relative=one, **options) for one in (False, True))
        check(table.iloc[1], gap, lift, ov.tolerance(*pair, **metric, **options), 4)
        assert "Values were adjusted: value - 0." in table["note"][1]


def test_rows_of_a_user_are_added_up_first():
    question = {"ratio": "sessions"}
    sums = FRAME.groupby(["variant", "user"], as_index=False)[["revenue", "sessions"]].sum()
    found = ov.difference(FRAME, value="revenue", by="variant", unit="user", assume=KNOWN, **question)
    same(found, ov.difference(sums, value="revenue", by="variant", assume=KNOWN, **question))
    assert found["n"].tolist() == [(sums["variant"] == one).sum() for one in "BC"]


def test_a_covariate_of_the_user_is_taken_once():
    """Added up it would depend on the number of orders, which the variants may change."""
    options = {"value": "revenue", "by": "variant", "covariate": "before", "coefficient": 0.5, "assume": KNOWN}
    sums = FRAME.groupby(["variant", "user"], as_index=False).agg({"revenue": "sum", "before": "first"})
    same(ov.difference(FRAME, unit="user", **options), ov.difference(sums, **options))


def test_a_user_with_two_covariates_is_corrupt_and_changes_nothing_else():
    """Taken as a sign that covariates are to be added up, one such row would move the answer far from the truth."""
    rng = np.random.default_rng(0)
    variant, before = rng.choice(["A", "B"], 4000), rng.gamma(2.0, 10.0, 4000).round(2)
    orders = np.where(variant == "B", 2, 1) + rng.binomial(1, 0.2, 4000)  # of which B has more
    user = np.repeat(np.arange(4000), orders)
    spent = ((before + rng.gamma(1.0, 4.0, 4000)) / orders)[user]  # for each user it does not depend on the variant
    frame = pd.DataFrame({"user": user, "variant": variant[user], "before": before[user], "spent": spent})
    options = {"value": "spent", "by": "variant", "unit": "user", "covariate": "before", "coefficient": 1.0}
    options |= {"assume": ov.FiniteVariance(60.0), "contamination": 5}
    clean = ov.difference(frame, **options).iloc[0]
    several = np.flatnonzero(frame["user"].duplicated())
    for policy in ("raise", "omit", "corrupt"):
        changed = frame.copy()
        changed.loc[several[0], "before"] += 1.0
        found = ov.difference(changed, nan_policy=policy, **options).iloc[0]
        assert found[["low", "high"]].to_numpy(float) == pytest.approx(clean[["low", "high"]].to_numpy(float), abs=0.2)
        assert found["low"] < 0 < found["high"]
    frame.loc[several, "before"] += 1.0
    with pytest.raises(ValueError, match=r"covariate 'before' differs between the rows of the same user for .* users"):
        ov.difference(frame, **options)


def test_pairs_of_booleans_that_are_added_up_have_no_bounds():
    rng = np.random.default_rng(1)
    both = pd.DataFrame(
        {"user": np.tile(np.arange(3000), 2), "arm": np.repeat([0, 1], 3000), "ok": rng.random(6000) < 0.3}
    )
    options = {"value": "ok", "by": "arm", "paired": "user", "contamination": 0.01}
    assert "Holds if" not in ov.difference(both, **options)["note"][0]
    more = pd.DataFrame({"user": np.repeat(np.arange(60), 10), "arm": 1, "ok": True})  # 2 % convert ten times more in b
    found = ov.difference(pd.concat([both, more]), **options).iloc[0]
    assert found["low"] < 0.2 < found["high"]
    assert "Holds if" in found["note"]


def test_users_in_both_variants_are_told():
    frame = FRAME.assign(user=np.arange(len(FRAME)) % 300)
    note = ov.difference(frame, value="revenue", by="variant", unit="user", assume=KNOWN)["note"][0]
    assert " of 'user' are in both variants: their rows are not independent" in note


def test_paired_users():
    rng = np.random.default_rng(0)
    level = rng.gamma(2.0, 20.0, 500)
    frame = pd.DataFrame({"user": np.r_[np.arange(500), np.arange(40, 540)], "arm": np.repeat([0, 1], 500)})
    frame["spent"] = np.r_[level, np.r_[level[40:], rng.gamma(2.0, 20.0, 40)] + 3.0] + rng.normal(size=1000)
    shuffled = frame.sample(frac=1.0, random_state=1)
    (line,) = ov.difference(shuffled, value="spent", by="arm", paired="user", contamination=2).itertuples()
    a, b = (frame[frame["arm"] == one].set_index("user")["spent"] for one in (0, 1))
    both = a.index.intersection(b.index)
    gap = ov.difference(a[both], b[both], 2, paired=True)
    assert (line.n, line.baseline_n) == (460, 460)
    assert (line.low, line.high) == pytest.approx(tuple(gap.interval))
    assert line.tolerance == ov.tolerance(a[both], b[both], paired=True, contamination=2).rows
    assert math.isnan(line.lift)
    assert line.note.startswith("80 without a partner are left out.")
    assert line.high - line.low < 1.0
    alone = ov.difference(frame.assign(user=np.arange(1000)), value="spent", by="arm", paired="user")
    assert alone["note"][0].endswith("No row has a partner.")
    assert not alone["settled"][0]


@pytest.mark.parametrize("n_segments", [1, 2])
def test_simultaneous_lines_share_the_confidence(n_segments):
    frame = FRAME.assign(segment=np.arange(len(FRAME)) % n_segments)
    options = {"value": "revenue", "by": "variant", "segments": "segment", "contamination": 2, "assume": KNOWN}
    frame = frame[frame["variant"] != "C"]
    every = ov.difference(frame, simultaneous=True, **options)
    single = ov.difference(frame, confidence=1 - 0.05 / n_segments, **options)
    pd.testing.assert_frame_equal(every, single)
    assert len(every) == n_segments


def test_booleans_are_proportions_but_not_their_sums():
    table = ov.difference(FRAME, value="bought", by="variant", contamination=2)
    pair = [rows_of(FRAME, one, "bought") for one in "AB"]
    assert table["low"][0] == pytest.approx(ov.difference(*pair, contamination=2).interval.low)
    assert table["note"][0] == ""  # exact: it rests on nothing
    assert (
        "Holds if" in ov.difference(FRAME[:300], value="bought", by="variant", contamination=0, unit="user")["note"][0]
    )


@pytest.mark.parametrize(
    ("engine", "question"),
    [("pandas", {"ratio": "sessions"}), ("polars lazy", {"unit": "user"}), ("csv", {"unit": "user"})],
)
def test_nan_policies(engine, question, tmp_path):
    gaps = FRAME.assign(revenue=FRAME["revenue"].where(FRAME.index % 100 != 7))
    source = ENGINES[engine](pa.Table.from_pandas(gaps), tmp_path, [200])["source"]
    options = {"value": "revenue", "by": "variant", "contamination": 0.08, "assume": KNOWN, **question}
    with pytest.raises(ValueError, match=r"in 4 of 400 rows"):
        ov.difference(source, **options)
    left, bad = (collected(ov.difference(source, nan_policy=policy, **options)) for policy in ("omit", "corrupt"))
    whole = collected(ov.difference(FRAME, **options))
    assert (left["n"] < whole["n"]).all()
    assert bad["n"].tolist() == whole["n"].tolist()
    assert np.isfinite(bad["low"].astype(float)).all()
    if "unit" in question:  # a user with a gap is left out with all of his rows
        users = gaps.groupby(["variant", "user"])["revenue"].agg(lambda x: x.isna().any())
        assert left["n"].tolist() == [(~users[one]).sum() for one in "BC"]


def test_rows_that_contradict_what_is_declared_settle_nothing():
    table = ov.difference(FRAME, value="revenue", by="variant", assume=ov.FiniteVariance(2.0), contamination=0)
    assert table["tolerance"].isna().all()
    assert not table["settled"].any()
    assert all(note.startswith("the rows contradict assume=FiniteVariance(sd=2.0") for note in table["note"])


def test_lines_without_an_answer_say_why():
    frame = pd.DataFrame({"v": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], "arm": list("aabbbc"), "k": list("xyxxyx")})
    table = ov.difference(frame, value="v", by="arm", segments="k", contamination=1)
    assert table["variant"].tolist() == ["b", "c", "b"]
    assert table["estimate"].isna().all()
    assert all("corrupt rows among" in note for note in table["note"])
    alone = ov.difference(frame[frame["k"] == "x"], value="v", by="arm", baseline="c", segments="k", contamination=0)
    assert alone["variant"].tolist() == ["a", "b"]
    lonely = pd.concat([frame, pd.DataFrame({"v": [7.0], "arm": ["b"], "k": ["z"]})])
    assert ov.difference(lonely, value="v", by="arm", segments="k")["note"].tolist()[-1] == "no rows of the baseline"


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"value": None}, TypeError, "value is missing: difference takes two samples"),
        ({"value": "revenu"}, ValueError, "value='revenu' is not a column: did you mean 'revenue'"),
        ({"ratio": True}, TypeError, "ratio=True must be the name of one column"),
        ({"segments": []}, ValueError, "segments=.* is empty"),
        ({"segments": "variant"}, ValueError, "segments='variant' is also the column of the values or variants"),
        ({"baseline": "D"}, ValueError, "baseline='D' is not a value of the column 'variant': its values are 'A', 'B'"),
        ({"paired": "user", "unit": "user"}, ValueError, "paired='user' goes without unit"),
        ({"ratio": "sessions", "covariate": "before"}, ValueError, "ratio and covariate do not go together"),
        ({"coefficient": 0.5}, ValueError, "coefficient=0.5 is that of a covariate"),
        ({"vote": "median"}, ValueError, "vote='median' does not go with a table"),
        ({"relative": True}, ValueError, "relative=True does not go with a table"),
        ({"unit": "user", "segments": "user"}, ValueError, "unit='user' is also a column that is compared, or a key"),
    ],
)
def test_wrong_questions_are_refused(options, error, told):
    with pytest.raises(error, match=told):
        ov.difference(FRAME, **{"value": "revenue", "by": "variant", **options})


def test_one_variant_and_odd_names_are_refused():
    with pytest.raises(ValueError, match="by='variant' has the values 'A', but a comparison needs two"):
        ov.difference(FRAME[FRAME["variant"] == "A"], value="revenue", by="variant")
    with pytest.raises(ValueError, match="segments='lift' is also the name of a column of the answer"):
        ov.difference(FRAME.rename(columns={"country": "lift"}), value="revenue", by="variant", segments="lift")
    with pytest.raises(ValueError, match="baseline gives a table with lifts"):
        ov.scan(FRAME).difference("revenue", "variant", baseline="A", relative=True)
    with pytest.raises(ValueError, match="by='user' is NULL in some rows"):
        ov.difference(
            FRAME.assign(user=FRAME["user"].where(FRAME.index > 3)), value="revenue", by="variant", unit="user"
        )


def test_the_frame_is_not_modified():
    before = FRAME.copy()
    for question in ("covariate by user", "paired"):
        ov.difference(FRAME, value="revenue", by="variant", assume=KNOWN, **QUESTIONS[question])
    pd.testing.assert_frame_equal(FRAME, before)


def test_integers_beyond_those_of_floats_are_added_up_on_every_frame():
    frame = pd.DataFrame({"v": np.arange(240) ** 3 + 2**60, "g": ["a", "b"] * 120, "u": np.arange(240) % 60})
    asked = {"value": "v", "by": "g", "unit": "u", "assume": ov.FiniteVariance(1e9)}
    expected = ov.difference(frame, **asked)
    for other in (pa.Table.from_pandas(frame), pl.from_pandas(frame)):
        found = ov.difference(other, **asked).to_pandas()
        assert found[["low", "high"]].to_numpy() == pytest.approx(expected[["low", "high"]].to_numpy(), rel=1e-9)


def test_sums_of_users_that_no_float_holds_are_corrupt_rows():
    frame = pd.DataFrame({"v": np.sin(np.arange(240.0)), "g": ["a", "a", "b", "b"] * 60, "u": np.arange(240) // 2})
    asked = {"value": "v", "by": "g", "unit": "u", "contamination": 2, "nan_policy": "corrupt"}
    expected = ov.difference(frame.assign(v=frame["v"].where(frame["u"] > 0)), **asked)
    frame.loc[frame["u"] == 0, "v"] = 1.7e308
    for one in (frame, pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = ov.difference(one, **asked)
        ends = nw.from_native(found)["low"].to_list() + nw.from_native(found)["high"].to_list()
        assert ends == pytest.approx([*expected["low"], *expected["high"]])
        with pytest.raises(ValueError, match="the rows of some 'u' add up to more than a float holds"):
            ov.difference(one, **{**asked, "nan_policy": "omit"})


@pytest.mark.parametrize("known", [None, ov.FiniteVariance(1.0), ov.FiniteKurtosis(5.0, sd=2.0)])
def test_a_variant_of_nothing_but_corrupt_rows_has_no_answer(known):
    frame = pd.DataFrame({"v": [math.nan, 1.0], "k": ["a", "b"]})
    found = ov.difference(frame, value="v", by="k", nan_policy="corrupt", assume=known)
    assert found["estimate"].isna().all()
    assert "no vote can help" in found["note"][0]


@pytest.mark.parametrize("kind", [lambda one: one, pl.from_pandas])
def test_columns_may_be_called_like_those_of_ours(kind):
    names = {"revenue": "__outvote_user__", "sessions": "__outvote_user___", "before": "__outvote_v0__"}
    asked = {"by": "variant", "unit": "user", "assume": KNOWN, "contamination": 1}
    for more in ({}, {"ratio": "sessions"}, {"covariate": "before"}):
        expected = ov.difference(FRAME, value="revenue", **asked, **more)
        named = {name: names[column] for name, column in more.items()}
        found = nw.from_native(
            ov.difference(kind(FRAME.rename(columns=names)), value=names["revenue"], **asked, **named)
        )
        for column in ("estimate", "low", "high"):
            assert found[column].to_list() == pytest.approx(expected[column].tolist(), rel=1e-9)
    found = ov.difference(
        FRAME.rename(columns={"variant": "__outvote_user__"}), value="revenue", **{**asked, "by": "__outvote_user__"}
    )
    assert found["variant"].tolist() == ov.difference(FRAME, value="revenue", **asked)["variant"].tolist()
