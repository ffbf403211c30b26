"""What is read from CSV files is what their text says."""

import gzip

import numpy as np
import pytest

import outvote as ov
from outvote.data import csv_text
from outvote.data.columns import read_columns
from outvote.data.files import Files


def read(path, value="v", by=("tag",)):
    with Files([path]) as files:
        return read_columns(files, value, by)


def write(folder, text, name="rows.csv"):
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_apostrophes_are_no_quotes(tmp_path):
    path = write(tmp_path, "tag,v\n" + "a,1\n',2\nb,3\n',4\nc,5\n" * 20)
    found = read(path)
    assert found.labels == [("'",), ("a",), ("b",), ("c",)]
    assert np.bincount(found.codes).tolist() == [40, 20, 20, 20]
    assert ov.scan(path).mean("v", contamination=0).plan.n_rows == 100


def test_labels_with_and_without_apostrophes_are_two(tmp_path):
    found = read(write(tmp_path, "tag,v\n" + "'a',1\na,2\n" * 20))
    assert found.labels == [("'a'",), ("a",)]


def test_the_first_line_names_the_columns_whatever_follows(tmp_path):
    path = write(tmp_path, "measured by,v\n# no comment,1\n" + "b,2\n" * 9)
    assert len(read(path, by=("measured by",)).values) == 10
    with pytest.raises(ValueError, match="'v' is not a column: there are 'a title'"):
        read(write(tmp_path, "a title\ntag,v\n" + "b,2\n" * 9))


@pytest.mark.parametrize(
    "text",
    [
        "tag,v\n" + '5" pipe,1\nb,2\nc,3\n' * 20,  # quotes inside cells
        "tag,v\n" + '"a\nb",1\n"c ""d""",2\nd,3\n' * 20,  # lines and quotes inside quotes
        "tag,v\n" + "a,1\n\nb,2\n\n\nc,3\n" * 20,  # empty lines
        "tag,v\r\n" + "a,1\r\nb,2\r\nc,3\r\n" * 20,
        "tag,v\n" + "a,1\nb,2\nc,3\n" * 19 + "a,1\nb,2\nc,3",  # no end of the last line
        "# exported\n# by hand\ntag,v\n" + "#a,1\n#,2\nc,3\n" * 20,  # remarks above, none below
        "\ufefftag;v\n" + "a;1\nb;2\nc;3\n" * 20,
    ],
)
@pytest.mark.parametrize("chunk", [7, 1 << 22])
def test_right_numbers_of_rows_are_accepted(tmp_path, monkeypatch, text, chunk):
    monkeypatch.setattr(csv_text, "_CHUNK", chunk)
    assert len(read(write(tmp_path, text)).values) == 60
    assert len(read(write(tmp_path, gzip.compress(text.encode()), "rows.csv.gz")).values) == 60


def test_a_name_may_begin_as_a_remark_does(tmp_path):
    found = read(write(tmp_path, "# exported\n#tag,v\na,1\nb,2\n"), by=("#tag",))
    assert found.labels == [("a",), ("b",)]


def test_empty_lines_of_one_column_are_missing_rows(tmp_path):
    assert np.isnan(read(write(tmp_path, "v\n1\n\n2\n"), by=()).values).sum() == 1


@pytest.mark.parametrize("cell", ["a", '"a"', '"a' + "x" * 200_000 + '"'])
def test_rows_that_were_lost_are_missed(tmp_path, cell):
    path = write(tmp_path, f"tag,v\n{cell},1\nb,2\n")
    with pytest.raises(ValueError, match=r"orders has 2 rows below its first line, but 1 were read"):
        csv_text.check_rows([path], "orders", 1, 2)


def test_a_name_that_two_columns_have_is_refused(tmp_path):
    path = write(tmp_path, "tag,v,v,V\n" + "a,1,2,3\n" * 9)
    with pytest.raises(ValueError, match=r"rows\.csv: 2 columns are called 'v': rename all but one"):
        ov.scan(path).mean("v")
    with pytest.raises(ValueError, match=r"rows\.csv: the columns 'v' and 'V' differ in capitals only: rename one"):
        read(path, value="V", by=())
    assert read(write(tmp_path, "v,V,w,w\n" + "1,2,3,4\n" * 9), by=()).values.tolist() == [1.0] * 9
