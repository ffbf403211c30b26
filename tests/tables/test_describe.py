"""A robust summary of each numeric column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import outvote as ov

HEADS = [
    "column", "n", "missing", "mean", "estimate", "low", "high", "premise_sd", "median", "p05", "p95", "suspects",
    "min", "max", "note",
]  # fmt: skip


def rows():
    rng = np.random.default_rng(0)
    rent = rng.normal(10.0, size=1000)
    rent[[3, 30]] = 1e6, -1e5
    return {"rent": rent, "paid": rng.random(1000) < 0.3, "rooms": rng.integers(1, 6, size=1000)}


@pytest.mark.parametrize(
    ("make", "lines"),
    [
        (pd.DataFrame, lambda table: table.to_dict("records")),
        (pl.DataFrame, lambda table: table.to_dicts()),
        (pa.table, lambda table: table.to_pylist()),
    ],
)
def test_describe_in_the_callers_own_kind(make, lines):
    given = make(rows())
    found = ov.describe(given)
    assert type(found) is type(given)
    rent, paid, rooms = lines(found)
    assert list(rent) == HEADS
    expected = ov.mean(rows()["rent"])
    assert (rent["estimate"], rent["low"], rent["high"]) == (expected.estimate, *expected.interval)
    assert rent["premise_sd"] == expected.certificate.premise_sd
    assert rent["mean"] == pytest.approx(rows()["rent"].mean())
    assert rent["suspects"] == 2
    assert rent["median"] == pytest.approx(10.0, abs=0.1)
    assert rent["p05"] < rent["median"] < rent["p95"]
    share = ov.mean(rows()["paid"])
    assert (paid["low"], paid["high"]) == tuple(share.interval)
    assert rooms["n"] == 1000
    assert rooms["missing"] == 0


def test_missing_values_are_counted_and_left_out():
    values = rows()["rent"]
    gaps = np.concatenate([values, np.full(50, np.nan)])
    line = ov.describe(pd.Series(gaps, name="rent")).iloc[0]
    assert (line["n"], line["missing"]) == (1000, 50)
    assert line["estimate"] == ov.mean(values).estimate
    line = ov.describe(pl.DataFrame({"rent": [None, *values.tolist()]})).row(0, named=True)
    assert (line["n"], line["missing"]) == (1000, 1)


def test_infinite_values_are_corrupt():
    values = rows()["rent"]
    values[:2] = np.inf
    line = ov.describe(pl.DataFrame({"rent": values})).row(0, named=True)
    assert line["suspects"] == 4
    assert line["high"] < 12
    values[:100] = np.inf
    with pytest.warns(UserWarning, match=r"describe found no interval: rent: .*corrupt"):
        line = ov.describe(pl.DataFrame({"rent": values})).row(0, named=True)
    assert line["estimate"] is None


def test_columns_that_are_not_numbers_are_named():
    frame = pd.DataFrame({"city": ["a", "b"] * 100, "rent": rows()["rent"][100:300]})
    with pytest.warns(UserWarning, match=r"left out columns that are not numbers: city \(String\)"):
        found = ov.describe(frame)
    assert found["column"].tolist() == ["rent"]


def test_columns_without_values_or_interval_say_so():
    with pytest.warns(UserWarning, match="describe found no interval: a: it has no values"):
        line = ov.describe(pl.DataFrame({"a": [None, None]}, schema={"a": pl.Float64})).row(0, named=True)
    assert (line["n"], line["missing"], line["mean"], line["suspects"]) == (0, 2, None, None)
    with pytest.warns(UserWarning, match="describe found no interval: a: Most rows have the same value"):
        line = ov.describe(pd.DataFrame({"a": [3.0] * 50})).iloc[0]
    assert (line["estimate"], line["low"], line["high"]) == (3.0, -np.inf, np.inf)


def test_other_things_are_refused():
    for other in (np.ones(10), [1, 2], pl.LazyFrame({"a": [1]})):
        with pytest.raises(TypeError, match=f"frame is a {type(other).__name__}: describe takes"):
            ov.describe(other)


def test_no_boolean_is_suspect():
    rare = np.random.default_rng(0).random(2000) < 0.03
    assert ov.describe(pd.DataFrame({"bought": rare}))["suspects"].tolist() == [0]


@pytest.mark.parametrize(
    ("names", "texts"),
    [([0, 1], ["0", "1"]), ([("a", 1), ("a", 2)], ["('a', 1)", "('a', 2)"]), ([None, "b"], ["nan", "b"])],
)  # fmt: skip
def test_names_that_are_not_text_become_text(names, texts):
    columns = np.random.default_rng(0).normal(size=(50, 2))
    frame = pd.DataFrame(columns)
    frame.columns = pd.Index(names, tupleize_cols=False) if names[0] is not None else pd.Index([np.nan, "b"])
    found = ov.describe(frame)
    assert found["column"].tolist() == texts
    assert found["estimate"].tolist() == [ov.mean(column).estimate for column in columns.T]
    assert list(frame.columns)[1] == names[1]


def test_a_series_without_a_name_is_described():
    values = np.random.default_rng(0).normal(size=50)
    assert ov.describe(pd.Series(values))["estimate"].tolist() == [ov.mean(values).estimate]


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        (pd.DataFrame(np.ones((9, 2)), columns=["b", "b"]), "'b'"),
        (pd.DataFrame(np.ones((9, 2)), columns=[1, "1"]), "'1'"),
        (pa.table([[1.0], [2.0]], names=["c", "c"]), "'c'"),
    ],
)
def test_two_columns_of_the_same_name_are_refused(frame, name):
    with pytest.raises(ValueError, match=rf"frame has two columns of the same name, {name}"):
        ov.describe(frame)


def test_wrong_arguments_are_refused_once_not_for_each_column():
    frame = pd.DataFrame(rows())
    with pytest.raises(ValueError, match="confidence=2 must lie strictly between 0 and 1"):
        ov.describe(frame, confidence=2)
    with pytest.raises(ValueError, match=r"contamination=\(1, 2\) has 2 amounts"):
        ov.describe(frame, contamination=(1, 2))
