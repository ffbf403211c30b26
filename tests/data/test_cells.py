"""What the text of a cell stands for, in every way that files are read."""

import numpy as np
import pytest

import outvote as ov
from outvote.data.columns import read_columns
from outvote.data.files import Files


def read(path, text, *, by=(), **options):
    path.write_text(text, encoding="utf-8")
    with Files([str(path)], **options) as files:
        return read_columns(files, "v", by)


@pytest.mark.parametrize(
    ("cell", "decimal", "number"),
    [
        ("€ 16,26", ",", 16.26),
        ("-€1.016,26\u00a0", ",", -1016.26),
        ("-45.20 USD", ".", -45.2),
        ("£7", ".", 7.0),
    ],
)
def test_amounts_of_one_currency_are_numbers(tmp_path, cell, decimal, number):
    text = f"v;k\n1;a\n{cell};a\n2;a\n"
    assert read(tmp_path / "x.csv", text, decimal=decimal).values.tolist() == [1.0, number, 2.0]


def test_a_table_of_amounts_is_read_in_its_file(tmp_path):
    (tmp_path / "x.csv").write_text("v\n$1.50\n$2.50\n$3.50\n")
    assert ov.scan(str(tmp_path / "x.csv")).mean("v", contamination=0, assume=ov.Bounded(0, 5)).plain == 2.5


def test_a_second_currency_is_refused_and_is_not_called_corrupt(tmp_path):
    amounts = ["$1", "1 €"] * 50
    found = read(tmp_path / "x.csv", "v\n" + "\n".join([*amounts, "3"]) + "\n")
    with pytest.raises(ValueError, match=r"nor in 99 more of the 101 rows\. Correct them first \(an amount of money"):
        found.check("omit")
    with pytest.raises(ValueError, match="Correct them first"):
        found.check("corrupt", allowed=lambda n_rows: 1)
    found.check("corrupt", allowed=lambda n_rows: 100)


def test_two_files_of_different_currencies_are_not_mixed(tmp_path):
    (tmp_path / "a.csv").write_text("v\n$1\n2\n")
    (tmp_path / "b.csv").write_text("v\n€1\n2\n")
    with Files([str(tmp_path / "*.csv")]) as files:
        assert [cell.text for cell in read_columns(files, "v").unreadable] == ["$1", "€1"]


@pytest.mark.parametrize("cell", ["#N/A", "-", "n.a.", "NULL", "NaN", "–", " ", '""', ""])
def test_cells_that_mean_nothing_are_missing(tmp_path, cell):
    found = read(tmp_path / "x.csv", f"v,k\n1,a\n{cell},a\n")
    np.testing.assert_array_equal(found.values, [1.0, np.nan])
    assert not found.unreadable


def test_answers_are_ones_and_zeros_in_a_column_of_answers_alone(tmp_path):
    assert read(tmp_path / "x.csv", "v,k\nYes,a\nno,a\nN,a\nja,a\n,a\n1,a\n").values[:4].tolist() == [1, 0, 0, 1]
    mixed = read(tmp_path / "x.csv", "v,k\n12.5,a\nno,a\n")
    assert [cell.text for cell in mixed.unreadable] == ["no"]


@pytest.mark.parametrize(
    ("cell", "decimal", "hint"),
    [
        ("1,234.50", ".", "commas between thousands"),
        ("12,5", ".", "give --decimal ,"),
        ("1234.5", ",", "leave --decimal , out"),
        ("\x80 5", ".", "--encoding cp1252"),
    ],
)
def test_hints_fit_the_cell(tmp_path, cell, decimal, hint):
    found = read(tmp_path / "x.csv", f'v;k\n1;a\n2;a\n"{cell}";a\n', decimal=decimal)
    with pytest.raises(ValueError, match=hint):
        found.check("omit")


def test_spaces_around_labels_do_not_count_and_capitals_are_warned_of(tmp_path):
    with pytest.warns(UserWarning, match="'k' has the labels 'A' and 'a', which differ by capitals only"):
        found = read(tmp_path / "x.csv", "v,k\n1,A\n2,a \n3,B\n4,B \n", by=("k",))
    assert found.labels == [("A",), ("B",), ("a",)]


@pytest.mark.parametrize("cell", ["1_0", "$1_0", "+-1", "+-inf"])
def test_what_duckdb_alone_takes_for_a_number_is_text(tmp_path, cell):
    found = read(tmp_path / "x.csv", f"v,k\n$1,a\n{cell},a\n2.5,a\n")
    np.testing.assert_array_equal(found.values, [1.0, np.nan, 2.5])
    assert [one.text for one in found.unreadable] == [cell]
    (tmp_path / "x.csv").write_text("v\n" + "1\n" * 9 + f"{cell}\n")
    assert ov.scan(tmp_path / "x.csv").mean(
        "v", contamination=1, nan_policy="corrupt", vote="median"
    ).plain == pytest.approx(1)


def test_underscores_are_text_with_decimal_commas_and_in_json(tmp_path):
    assert [one.text for one in read(tmp_path / "x.csv", "v;k\n1;a\n1_0;a\n", decimal=",").unreadable] == ["1_0"]
    assert [one.text for one in read(tmp_path / "x.jsonl", '{"v": 1}\n{"v": "1_0"}\n').unreadable] == ["1_0"]
