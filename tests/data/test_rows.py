"""Arrays, lists, series and tables of any library become rows; other inputs raise."""

import datetime
import decimal
from array import array
from collections import deque
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import outvote as ov
from outvote.data.rows import read, read_rows

NAN, INF = float("nan"), float("inf")


def check_read(x, values, names=None):
    found = read(x, "x")
    np.testing.assert_array_equal(found.values, np.asarray(values))
    assert found.values.dtype.kind in "biuf"
    assert found.names == names


# --- arrays and lists ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "x",
    [
        [1, 2, 3],
        range(1, 4),
        deque([1, 2, 3]),
        array("d", [1.0, 2.0, 3.0]),
        np.array([1, 2, 3], dtype=np.float16),
        memoryview(np.array([1.0, 2.0, 3.0])),
        [np.float64(1), np.int32(2), 3],
        pd.Index([1, 2, 3]),
        pa.array([1, 2, 3]),
    ],
    ids=lambda x: type(x).__name__,
)
def test_sequences_of_numbers(x):
    check_read(x, [1, 2, 3])


def test_lists_of_rows_and_booleans():
    check_read([[1, 2], [3, 4], [5, 6]], [[1, 2], [3, 4], [5, 6]])
    check_read([True, False], [True, False])
    check_read([np.arange(2), np.arange(2)], [[0, 1], [0, 1]])
    check_read(np.zeros((2, 3, 4)), np.zeros((2, 3, 4)))


def test_arrays_are_not_copied():
    x = np.arange(10.0)
    assert read(x, "x").values is x
    assert np.shares_memory(read(x[::2], "x").values, x)
    assert np.shares_memory(read_rows(x, "x"), x)
    small = np.arange(10, dtype=np.float32)
    assert read_rows(small, "x") is small


@pytest.mark.parametrize(
    ("x", "found"),
    [
        ("12", "strings"),
        ([1, "2"], "strings"),
        ([b"a"], "byte strings"),
        ([1j, 2], "complex numbers"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "dates"),
        (np.array([5], dtype="m8[s]"), "durations"),
        ([None, 1.0], "object values"),
        ([Fraction(1, 2)], "object values"),
        ({"a": [1, 2]}, "object values"),
        ({1.0, 2.0}, "object values"),
        ((i for i in range(3)), "object values"),
        (np.zeros(2, dtype=[("a", float)]), r"\[\('a', '<f8'\)\] values"),
    ],
)
def test_values_that_are_no_real_numbers_raise(x, found):
    with pytest.raises(TypeError, match=f"^speed holds {found}, but real numbers are needed: convert it first"):
        read(x, "speed")


def test_ragged_rows_raise():
    for x in ([[1, 2], [3]], [np.zeros(2), np.zeros(3)], [[1], 2]):
        with pytest.raises(ValueError, match=r"^x is ragged: its rows have different lengths"):
            read(x, "x")


@pytest.mark.parametrize("x", [3.0, np.array(3.0)])
def test_single_number_raises(x):
    with pytest.raises(ValueError, match=r"^x=3.0 is a single number, but rows are needed: give a list of numbers"):
        read(x, "x")


@pytest.mark.parametrize("x", [np.ma.array([1.0, 2.0], mask=[False, True]), np.ma.array([1.0, 2.0])])
def test_masked_arrays_raise_with_a_remedy(x):
    with pytest.raises(TypeError, match=r"x is a masked array: pass x.filled\(numpy.nan\) and a nan_policy instead"):
        read(x, "x")


# --- samples ------------------------------------------------------------------------------------------------


def test_samples_become_floats():
    for x in ([1, 2], np.array([1, 2], dtype=np.float16), [True, False], np.array([1, 2], dtype=np.longdouble)):
        assert read_rows(x, "x").dtype == np.float64
    assert read_rows(np.zeros(2, dtype=np.float32), "x").dtype == np.float32
    assert read_rows([[1, 2]], "x").shape == (1, 2)


def test_samples_of_a_wrong_shape_raise():
    with pytest.raises(ValueError, match=r"b has shape \(2, 2, 2\): a sample is 1-D \(numbers\) or 2-D"):
        read_rows(np.zeros((2, 2, 2)), "b")
    with pytest.raises(ValueError, match=r"b has shape \(2, 0\): its rows are empty"):
        read_rows(np.zeros((2, 0)), "b")
    for empty in ([], np.zeros((0, 3)), pd.Series([], dtype=float), pl.DataFrame({"a": []}, schema={"a": pl.Float64})):
        with pytest.raises(ValueError, match="b is empty: at least one row is needed"):
            read_rows(empty, "b")
    for nothing in (pd.DataFrame(index=range(3)), pd.DataFrame(), pl.DataFrame()):
        with pytest.raises(ValueError, match=r"b has shape \(\d, 0\): its rows are empty"):
            read_rows(nothing, "b")


# --- series and tables --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("series", "values", "names"),
    [
        (pd.Series([1, 2], name=""), [1, 2], None),
        (pd.Series([1, 2], name="speed"), [1, 2], ("speed",)),
        (pd.Series([1, 2], name=0), [1, 2], ("0",)),
        (pd.Series([1, 2, 3], index=[2, 0, 1], name="s"), [1, 2, 3], ("s",)),
        (pd.Series([1, None, 3], dtype="int64[pyarrow]", name="s"), [1, NAN, 3], ("s",)),
        (pd.Series([True, None], dtype="boolean", name="s"), [1, NAN], ("s",)),
        (pd.Series([1, None, 2.5], dtype=object, name="s"), [1, NAN, 2.5], ("s",)),
        (pl.Series("s", [1, None, 3]), [1, NAN, 3], ("s",)),
        (pl.Series("s", [True, None]), [1, NAN], ("s",)),
        (pl.Series("s", [decimal.Decimal("1.5"), None]), [1.5, NAN], ("s",)),
        (pa.chunked_array([[1, 2], [None]]), [1, 2, NAN], None),
    ],
)
def test_series_keep_their_names_and_missing_values(series, values, names):
    check_read(series, values, names)


def test_series_of_float32_stay_float32():
    assert read(pd.Series([1.5], dtype="float32"), "x").values.dtype == np.float32
    assert read(pl.Series([1.5], dtype=pl.Float32), "x").values.dtype == np.float32


COLUMNS = {"a": [1, 2], "b": [1.5, None], "c": [True, False], "d": [True, None]}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(COLUMNS).astype({"d": "boolean"}),
        pd.DataFrame(COLUMNS).astype({"a": "Int64", "d": object}),
        pl.DataFrame(COLUMNS),
        pa.table(COLUMNS),
    ],
    ids=["pandas", "pandas objects", "polars", "pyarrow"],
)
def test_tables_keep_their_names_and_missing_values(frame):
    check_read(frame, [[1, 1.5, 1, 1], [2, NAN, 0, NAN]], ("a", "b", "c", "d"))
    numbers = frame[["a"]] if not isinstance(frame, pa.Table) else frame.select(["a"])
    check_read(numbers, [[1], [2]], ("a",))


def test_column_names_become_strings_and_must_be_unique():
    assert read(pd.DataFrame(np.eye(2)), "x").names == ("0", "1")
    with pytest.raises(ValueError, match="two columns of the same name"):
        read(pd.DataFrame(np.eye(2), columns=["a", "a"]), "x")


@pytest.mark.parametrize(
    ("frame", "column", "what"),
    [
        (pd.DataFrame({"a": [1], "who": ["x"]}), "who", "String"),
        (pa.table({"a": [1], "who": ["x"]}), "who", "String"),
        (pd.Series(["x", "y"], name="who"), "who", "String"),
        (pd.Series(["x", "y"], dtype="category", name="who"), "who", "Categorical"),
        (pd.Series(pd.to_datetime(["2020-01-01"]), name="when"), "when", "Datetime.*"),
        (pl.Series("when", [datetime.date(2020, 1, 1)]), "when", "Date"),
        (pl.Series("many", [[1, 2], [3]]), "many", "List.*"),
        (pd.Series([1j], name="z"), "z", "Unknown"),
    ],
)
def test_error_names_a_column_without_numbers(frame, column, what):
    with pytest.raises(TypeError, match=f"^x has a column '{column}' of {what} values.*, but real numbers are needed"):
        read(frame, "x")


@pytest.mark.parametrize(
    "frame",
    [
        pd.Series([1, "2"], dtype=object, name="who"),
        pd.DataFrame({"a": [1, 2], "who": pd.Series([1, "w"], dtype=object)}),
        pd.DataFrame({"who": pd.Series([1, 2j], dtype=object)}),
        pl.Series("who", [1, object()], dtype=pl.Object),
    ],
)
def test_error_names_a_column_of_mixed_objects(frame):
    with pytest.raises(TypeError, match=r"^x has a column 'who' of mixed values, but real numbers are needed"):
        read(frame, "x")


def test_tables_are_not_modified():
    frame = pd.DataFrame({"a": [3.0, 1.0, 2.0], "b": [True, False, True]})
    before = frame.copy()
    read(frame, "x")
    ov.mean(frame, contamination=0, n_blocks=3, rng=0)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("name", ["rows.csv", Path("data") / "rows.parquet"])
def test_path_instead_of_rows_raises_with_a_remedy(name):
    with pytest.raises(TypeError, match=r"or read a file with outvote\.scan\('.*rows\..*'\)"):
        ov.mean(name)


# --- byte orders, kinds of numbers, masks -------------------------------------------------------------------

KINDS = [">f8", ">f4", "<f2", "g", ">i8", ">u8", "u8", "i1", "?"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_any_byte_order_are_read_as_the_machines_own(kind):
    x = np.arange(12).astype(kind)
    for shape in ((12,), (4, 3)):
        found = read(x.reshape(shape), "x").values
        assert found.dtype.isnative
        assert found.dtype.char != "g"
        np.testing.assert_array_equal(found, x.reshape(shape))


@pytest.mark.parametrize("kind", KINDS)
def test_summaries_take_rows_of_any_kind(kind):
    whole = np.arange(60) % 2 if kind == "?" else np.arange(60) % 50
    x, usual, labels = whole.astype(kind), whole.astype(float), np.arange(60) % 3
    one, other = x.reshape(20, 3), usual.reshape(20, 3)
    assert ov.BlockSummary(7).update(one).to_bytes() == ov.BlockSummary(7).update(other).to_bytes()
    grouped = [ov.GroupedBlockSummary(7).update(rows, labels).to_bytes() for rows in (x, usual)]
    assert grouped[0] == grouped[1]
    assert ov.RowSummary().update(x).to_bytes() == ov.RowSummary().update(usual).to_bytes()
    asked = {"partition": "hash", "n_blocks": 11, "rng": 0, "assume": ov.FiniteVariance(20)}
    means = [ov.mean(rows, 2, **asked) for rows in (x, usual)]
    assert means[0].estimate == means[1].estimate


@pytest.mark.parametrize("kind", [">i8", ">u8", "i1"])
def test_row_ids_of_any_kind(kind):
    x, ids = np.arange(100.0), np.arange(100)
    assert ov.BlockSummary(7).update(x, ids.astype(kind)).to_bytes() == ov.BlockSummary(7).update(x, ids).to_bytes()


def test_doubles_that_are_too_long_are_infinite():
    far = np.full(3, np.finfo(np.longdouble).max)
    if not np.isfinite(float(far[0])):
        with pytest.raises(ValueError, match="x has NaN or infinite values in 3 of 3 rows"):
            ov.mean(far)


def test_masks_are_refused_wherever_numpy_would_drop_them():
    rows = np.ma.array(np.arange(4.0), mask=[0, 1, 0, 0])
    numbers = np.ma.array(np.arange(4), mask=[0, 1, 0, 0])
    for call, said in (
        (lambda: ov.BlockSummary(3).update(rows), r"chunk is a masked array: pass chunk\.filled\(numpy\.nan\)"),
        (lambda: ov.RowSummary().update(rows), "rows is a masked array"),
        (lambda: ov.Monitor().update(rows), "rows is a masked array"),
        (lambda: ov.mean([rows, rows]), "a row of x is a masked array: pass rows filled with numpy.nan"),
        (
            lambda: ov.BlockSummary(3).update(np.ones(4), ids=numbers),
            "ids is a masked array: pass a number for every row",
        ),
        (
            lambda: ov.GroupedBlockSummary(3).update(np.ones(4), numbers),
            "groups is a masked array: pass a label for every",
        ),
        (lambda: ov.GroupedBlockSummary(3).update(np.ones(4), (list("abab"), numbers)), "groups is a masked array"),
    ):
        with pytest.raises(TypeError, match=said):
            call()
