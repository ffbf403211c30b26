"""Excel sheets, other encodings and decimal commas."""

from __future__ import annotations

import gzip
import sys

import numpy as np
import pytest

from outvote.data.columns import read_columns
from outvote.data.files import Files


def values(paths, column="v", **options):
    with Files([str(path) for path in paths], **options) as files:
        return read_columns(files, column).values.tolist()


def refused(path, match, error=ValueError, **options):
    with pytest.raises(error, match=match), Files([str(path)], **options):
        pass


def test_encodings(tmp_path):
    text = "Größe;v\nä;1\nö;2\n"
    latin, packed = tmp_path / "a.csv", tmp_path / "b.csv.gz"
    latin.write_bytes(text.encode("latin-1"))
    packed.write_bytes(gzip.compress(text.encode("utf-16")))
    assert values([latin], encoding="latin1") == [1.0, 2.0]
    assert values([packed], encoding="utf-16") == [1.0, 2.0]
    with Files([str(latin)], encoding="latin1") as files:
        assert list(files.columns) == ["Größe", "v"]
        assert str(files) == str(latin)


def test_wrong_encodings(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("v\nä\n".encode("latin-1"))
    refused(path, "is not text with encoding='utf-8'", encoding="utf-8")
    refused(path, "encoding='latinx' is unknown: try cp1252", encoding="latinx")
    packed = tmp_path / "a.csv.zst"
    packed.write_bytes(b"")
    refused(packed, "is packed: unpack it", encoding="latin1")
    table = tmp_path / "a.parquet"
    table.write_bytes(b"")
    refused(table, "encoding='latin1' is for text files, but these are parquet", encoding="latin1")
    refused(path, "sheet='2' is for Excel files, but these are csv", sheet="2")
    refused(table, "decimal=',' is for CSV and TSV files", decimal=",")
    refused(path, "decimal=';' must be", decimal=";")
    old = tmp_path / "a.xls"
    old.write_bytes(b"")
    refused(old, r"is an old Excel file: save it as \.xlsx or \.csv")


def test_decimal_commas(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("k;v\na;1,5\nb;-1.234.567,25\nc;12\nd;1,5e3\ne;1.234\nf;12.5\n")
    with Files([str(path)], decimal=",") as files:
        columns = read_columns(files, "v")
    np.testing.assert_array_equal(columns.values, [1.5, -1234567.25, 12.0, 1500.0, 1234.0, np.nan])
    assert [cell.text for cell in columns.unreadable] == ["12.5"]


@pytest.mark.parametrize("text", ['[{"v": 1.5, "k": "a"}, {"v": "n/a", "k": "b"}]', '{"v": 1.5}\n{"v": null}\n'])
def test_json_arrays_and_lines(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text)
    np.testing.assert_array_equal(values([path]), [1.5, np.nan])


@pytest.mark.parametrize(
    ("cell", "hint"),
    [
        ("12.5 %", "a percentage: write 0.125 or 12.5 for 12.5 %"),
        ("1.3.2026", "a date: make it a number first"),
        ("12,5", "a comma: give --decimal ,"),
    ],
)
def test_cells_that_look_like_numbers_get_a_hint(tmp_path, cell, hint):
    path = tmp_path / "a.csv"
    path.write_text(f"v;k\n{cell};1\n")
    with pytest.raises(ValueError, match=hint):
        values([path])
    path.write_text(f"v;k\n1;1\n{cell};1\n")
    with Files([str(path)]) as files, pytest.raises(ValueError, match=hint):
        read_columns(files, "v").check("raise")


# --- Excel -----------------------------------------------------------------------------------------------------


@pytest.fixture
def book(tmp_path):
    """A workbook of two sheets, with an empty row above, one in between, and one below."""
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "a.xlsx"
    workbook = openpyxl.Workbook()
    for row in ([None, None], ["k", "v"], ["a", 1.5], [None, None], ["b", True], ["c", "x"], [None, None]):
        workbook.active.append(row)
    second = workbook.create_sheet("second")
    for row in (["v"], [7]):
        second.append(row)
    workbook.save(path)
    return path


def test_excel(book):
    with Files([str(book)]) as files:
        columns = read_columns(files, "v", ["k"])
    np.testing.assert_array_equal(columns.values, [1.5, np.nan, 1.0, np.nan])
    assert [cell.text for cell in columns.unreadable] == ["x"]
    assert columns.place(0) == (str(book), 1)
    for sheet in ("second", "2"):
        assert values([book], sheet=sheet) == [7.0]
    refused(book, "has no sheet='third': it has 'Sheet', 'second'", sheet="third")
    refused(book, "has no sheet='3'", sheet="3")
    refused(book, "decimal=',' is for CSV and TSV files", decimal=",")


def test_files_that_are_not_excel(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "a.xlsx"
    path.write_text("no workbook")
    refused(path, r"cannot be read as an Excel file \(\.xlsx\)")


def test_excel_without_its_reader(tmp_path, monkeypatch):
    path = tmp_path / "a.xlsx"
    path.write_text("")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    refused(path, "pip install openpyxl", error=ModuleNotFoundError)


def test_a_column_that_is_on_another_sheet(book):
    with (
        Files([str(book)]) as files,
        pytest.raises(ValueError, match=r"in sheet 'Sheet'; there are also sheet='second'"),
    ):
        files.check({"column": ["w"]})
    with Files([str(book)], sheet="2") as files, pytest.raises(ValueError, match="in sheet 'second'; there are also"):
        files.check({"column": ["k"]})


@pytest.mark.parametrize("encoding", ["rot13", "hex", "", "a\0b", "\udcff"])
def test_encodings_that_are_none_of_text_are_refused(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_text("v\n1\n")
    refused(path, "is unknown: try cp1252, latin1 or utf-16", encoding=encoding)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_text_in_utf_16_is_told_and_read(tmp_path, encoding):
    path = tmp_path / "a.csv"
    path.write_bytes(("k\tv\nä\t1\nö\t2\n" if encoding == "utf-16" else "\ufeffk\tv\nä\t1\nö\t2\n").encode(encoding))
    with Files([str(path)]) as files, pytest.raises(ValueError, match=r"UTF-16, which .*: --encoding utf-16 on the"):
        read_columns(files, "v")
    assert values([path], encoding="utf-16") == [1.0, 2.0]


@pytest.mark.parametrize(
    "rows", [[["#id", "v"], ["1,5", 3], ["#2", 4]], [["#id;x", "v"], ["1;5", 3], ["a;b\nc", 4]], [["v"], [3], [4]]]
)
def test_cells_of_a_sheet_are_no_remarks_and_need_no_separators(tmp_path, rows):
    openpyxl = pytest.importorskip("openpyxl")
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    workbook.save(tmp_path / "a.xlsx")
    assert values([tmp_path / "a.xlsx"]) == [3.0, 4.0]
