"""Labels of groups: every type is encoded, and missing ones raise."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest

import outvote as ov
from outvote.data.groups import group_codes

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["b", "a", "b"], ["b", "a", "b"]),
        (np.array([3, 1, 3], dtype=np.int8), [3, 1, 3]),
        (np.array([0.5, -0.0, 0.0]), [0.5, 0.0, 0.0]),
        (np.array([5, 6, 5], dtype="M8[D]"), [dt.date(1970, 1, day) for day in (6, 7, 6)]),
        (np.array([3000, 0, 0], dtype="M8[ns]"), [dt.datetime(1970, 1, 1, microsecond=us) for us in (3, 0, 0)]),
        (np.array([5, 6, 5], dtype="m8[s]"), [dt.timedelta(seconds=seconds) for seconds in (5, 6, 5)]),
        (pd.Series(["x", "y", "x"], dtype="category"), ["x", "y", "x"]),
        (pl.Series(["x", "y", "x"]), ["x", "y", "x"]),
        (pd.Series([2, 1, 2], dtype="Int64"), [2, 1, 2]),
        (np.array(["a", 1, (2, 3)], dtype=object), ["a", 1, (2, 3)]),
        ([b"\xff", b"", b"\xff"], [b"\xff", b"", b"\xff"]),
    ],
)
def test_labels_of_every_type(labels, expected):
    keys, which = group_codes(labels)
    assert [keys[i] for i in which] == expected
    assert len(keys) == len(set(expected))
    assert {type(key) for key in keys} == {type(one) for one in expected}
    several, which = group_codes((labels, np.arange(3)))
    assert [several[i] for i in which] == list(zip(expected, range(3), strict=True))


def test_labels_of_nanoseconds_stay_distinct():
    keys, which = group_codes(np.array([1, 2, 1], dtype="M8[ns]"))
    assert len(keys) == 2
    assert which.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1.0, math.nan], "None or NaN"),
        (["a", None], "None or NaN"),
        (np.array(["2020-01-01", "NaT"], dtype="M8[s]"), "None or NaN"),
        ([("a", 1), ("b", 2)], r"shape \(2, 2\): give one label for each row"),
        ((), "is empty"),
        ((["a"], ["a", "b"]), r"keys of different lengths \[1, 2\]"),
        (["a"], "groups has 1 labels for 2 rows"),
    ],
)
def test_invalid_labels_raise(labels, message):
    with pytest.raises(ValueError, match=message):
        ov.GroupedBlockSummary(3).update([1.0, 2.0], labels)


@pytest.mark.parametrize(
    "labels",
    [
        np.array([2**64 - 1, 2**64 - 3] * 150, dtype=np.uint64),
        np.array([-(2**63), -(2**63) + 7] * 150),
        np.array([-128, 127] * 150, dtype=np.int8),
        pd.Series([2**63] * 300, dtype="UInt64"),
        pl.Series([2**63] * 300, dtype=pl.UInt64),
    ],
)
def test_whole_numbers_of_every_width(labels):
    keys, which = group_codes(labels)
    assert [keys[i] for i in which] == [int(label) for label in labels]


@pytest.mark.parametrize(
    ("items", "kind"),
    [([True, False, None], "boolean"), (["a", "b", None], "string"), (["a", "b", None], "category"),
     ([1, 2, None], "Int64"), (["2020-01-01", "2020-01-02", None], "datetime64[ns]")],
)  # fmt: skip
def test_missing_labels_of_pandas_raise(items, kind):
    with pytest.raises(ValueError, match="None or NaN among its labels"):
        group_codes(pd.Series(items * 100, dtype=kind))
