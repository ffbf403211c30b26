"""Rows that look corrupt: in Python as on the command line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import outvote as ov
from outvote.cli.commands import app


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"k": rng.choice(["x", "y"], n), "v": rng.normal(10.0, size=n).round(4)})
    frame.loc[frame["k"] == "y", "v"] += 100.0
    frame.loc[[5, 50], "v"] = 400.0, -300.0
    return frame


def test_planted_rows_come_first():
    x = np.random.default_rng(1).normal(size=500)
    x[[3, 30, 300]], x[7], x[8] = (50.0, -40.0, 30.0), np.nan, np.inf
    before = x.copy()
    found = ov.suspects(x, top=4)
    assert found.rows.tolist() == [8, 3, 30, 300]
    assert found.scores.tolist() == [1.0, 1.0, 1.0, 1.0]
    assert (found.n_rows, found.n_missing, len(found)) == (500, 1, 4)
    assert found.typical < 0.2
    assert str(found).splitlines()[1].split() == ["8", "inf", "1.000"]
    np.testing.assert_array_equal(x, before)
    assert len(ov.suspects(np.ones(50))) == 0
    assert str(ov.suspects(np.ones(50))) == "no row of 50 stands out"


def test_the_command_lists_the_same_rows(tmp_path):
    frame, path = rows(), tmp_path / "x.csv"
    frame.to_csv(path, index=False)
    options = ["--value", "v", "--by", "k", "--top", "6", "--partitions", "60", "--seed", "3", "--json"]
    told = json.loads(CliRunner().invoke(app, ["suspects", str(path), *options]).stdout)["suspects"]
    for source in (frame, pl.from_pandas(frame), pl.from_pandas(frame).lazy(), pa.Table.from_pandas(frame), path):
        found = ov.suspects(source, value="v", by="k", top=6, partitions=60, rng=3)
        found = found.collect() if isinstance(found, pl.LazyFrame) else found
        table = found if isinstance(found, pd.DataFrame) else found.to_pandas()
        assert list(table) == ["k", "row", "value", "score"]
        assert table["row"].tolist() == [one["row"] - 1 for one in told]
        assert table["score"].tolist() == [one["score"] for one in told]
        assert table["k"].tolist() == [one["group"]["k"] for one in told]
    assert {5, 50} == set(table["row"][:2])


def test_rows_are_judged_by_their_group():
    frame = rows()
    frame.loc[5, ["k", "v"]] = "x", 110.0  # ordinary among y
    assert 5 in ov.suspects(frame, value="v", by="k", top=2)["row"].tolist()
    assert ov.suspects(frame, value="v", top=2)["row"].tolist() == [
        50,
        *ov.suspects(frame["v"], top=2).rows.tolist()[1:],
    ]


def test_row_ids_name_the_rows():
    frame = rows().assign(id=lambda x: 1000 - np.arange(len(x)))
    assert set(ov.scan(frame, row_id="id").suspects("v", "k", top=2)["row"]) == {995, 950}
    assert ov.suspects(ov.scan(frame), value="v", by=["k"], top=2)["row"].tolist() == [50, 5]


def test_many_corrupt_rows_make_small_blocks():
    x = np.random.default_rng(2).normal(size=200)
    x[:60] = 30.0
    assert set(ov.suspects(x, contamination=0.3, top=60).rows) == set(range(60))
    assert set(ov.suspects(x[:70], contamination=60, top=5).rows) < set(range(60, 70))  # the majority is right


def test_wrong_questions_are_refused():
    for call, error, told in (
        (lambda: ov.suspects([1.0, 2.0], top=0), ValueError, "top=0 must be an integer of at least 1"),
        (lambda: ov.suspects([1.0, 2.0], partitions=1.5), ValueError, "partitions=1.5 must be an integer"),
        (lambda: ov.scan(rows()).suspects("v", top=-1), ValueError, "top=-1 must be an integer of at least 1"),
        (lambda: ov.suspects([[1.0, 2.0]]), ValueError, r"x has shape \(1, 2\): suspects takes one column"),
        (lambda: ov.suspects(rows(), by="k"), TypeError, "by='k' is for a table, whose column of numbers is value"),
        (lambda: ov.suspects(rows(), value="w"), ValueError, "'w' is not a column"),
        (lambda: ov.suspects(rows().rename(columns={"k": "row"}), value="v", by="row"), ValueError, "by='row' is also"),
    ):
        with pytest.raises(error, match=told):
            call()


def test_buyers_among_many_zeros_are_judged_by_each_other():
    rng = np.random.default_rng(0)
    rows = np.where(rng.random(3000) < 0.09, rng.gamma(4, 20, 3000), 0.0)
    rows[[3, 30]] = -5.0, 9e5
    found = ov.suspects(rows, top=300)
    assert {3, 30} == set(found.rows[found.scores > 0.9].tolist())
    assert (found.scores > 0.5).sum() < 10


def test_of_equal_rows_and_of_zeros_and_ones_only_other_values_stand_out():
    rows = (np.arange(2000) % 30 == 0).astype(float)
    assert not len(ov.suspects(rows))
    rows[[5, 6]] = 7.0, -1.0
    assert sorted(ov.suspects(rows, top=np.int8(9)).rows.tolist()) == [5, 6]
    rows = np.full(1000, 5.0)
    assert not len(ov.suspects(rows))
    rows[7] = 6.0
    assert ov.suspects(rows).rows.tolist() == [7]
    x = np.random.default_rng(0).normal(10.0, size=1000)
    x[7] = 90.0
    assert "<table>" in (text := ov.suspects(x, top=2)._repr_html_())
    assert "<th style='text-align:left'>7</th><td>90</td><td>1</td>" in text
