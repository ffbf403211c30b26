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
    path = write(tmp_path, "tag,v\n" + "a,1\n',2\n'a',3\n',4\nc,5\n" * 20)
    found = read(path)
    assert found.labels == [("'",), ("'a'",), ("a",), ("c",)]
    assert np.bincount(found.codes).tolist() == [40, 20, 20, 20]
    assert ov.scan(path).mean("v", contamination=0).plan.n_rows == 100


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


@pytest.mark.parametrize("blank", ["\t", "\x0b", "\u2028"])
def test_blanks_around_names_are_no_part_of_them(tmp_path, blank):
    path = write(tmp_path, f"v{blank},tag{blank}\n" + "1,a\n2,b\n" * 9)
    assert read(path).values.tolist() == [1.0, 2.0] * 9
    assert ov.scan(path).mean("v", contamination=0).plain == 1.5
    with pytest.raises(ValueError, match="2 columns are called 'v'"):
        read(write(tmp_path, f"v{blank},v\n1,2\n"), by=())
    write(tmp_path, f"v{blank},tag\n1,a\n")
    with Files([path, write(tmp_path, "v,tag\n3,c\n", "other.csv")]) as files:
        assert read_columns(files, "v", ["tag"]).values.tolist() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("header", "name"), [("v,v,v_1", "v_1"), ("a,A,A_1", "A_1"), (",column0,v", "column0"), ("b,B,b_1", "b_1")]
)
def test_a_name_that_the_reader_gave_to_another_column_is_refused(tmp_path, header, name):
    path = write(tmp_path, header + "\n" + "1,2,3\n4,5,6\n")
    with pytest.raises(ValueError, match=f"whose name is missing, or there twice, is read as '{name}', too: rename"):
        read(path, value=name, by=())
    with pytest.raises(ValueError, match=f"is read as '{name}', too: rename"):
        ov.scan(path).mean(name)


def test_a_name_that_the_reader_changes_is_refused(tmp_path):
    path = write(tmp_path, '  "a b"  ,v\n1,2\n')
    with pytest.raises(ValueError, match="""column 'a b' is read as '"a b"': rename it"""):
        read(path, value="a b", by=())
    assert read(path, by=()).values.tolist() == [2.0]


@pytest.mark.parametrize("mark", ["\u2028", "\x0b", "\x1c", "\x85"])
@pytest.mark.parametrize("more", ["", "# "])
def test_lines_of_remarks_end_where_those_of_rows_do(tmp_path, mark, more):
    assert read(write(tmp_path, f"# a{mark}{more}b\nv,tag\n1,a\n2,b\n")).values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("above", ["\n\n", '# 5" pipe\n\n# two\n\n', '# "\n#\n'])
def test_empty_lines_and_quotes_above_the_names_do_not_count(tmp_path, above):
    path = write(tmp_path, above + "v,tag\n" + '1,"a"\n2,"b\nc"\n' * 9)
    assert read(path).values.tolist() == [1.0, 2.0] * 9


def test_rows_may_begin_as_remarks_do(tmp_path):
    for text in ("#g,v\n#0,1\n#1,2\n", "# exported\n#g,v\n#0,1\n#1,2\n", "#g,v\n#0,1\nb,2\n#1,3\n"):
        assert read(write(tmp_path, text), by=("#g",)).values[:2].tolist() == [1.0, 2.0]


def test_separators_in_quotes_do_not_make_cells(tmp_path):
    assert read(write(tmp_path, '# id, v\n"1,5",3\n'), by=()).values.tolist() == [3.0]
    assert read(write(tmp_path, '#id,v\n"a\nb",3\n'), by=()).values.tolist() == [3.0]


@pytest.mark.parametrize("first", ['"a\nb"', "x" * 70_000, '"' + "x" * 70_000 + '\ny"'])
def test_names_of_several_lines_and_of_long_lines_are_looked_at(tmp_path, first):
    with pytest.raises(ValueError, match=r"2 columns are called 'v': rename all but one"):
        read(write(tmp_path, f"{first},v,v\n1,2,3\n4,5,6\n"), by=())
    assert read(write(tmp_path, f"{first},v,w\n1,2,3\n4,5,6\n"), by=()).values.tolist() == [2.0, 5.0]


def test_damage_far_down_is_explained_as_at_the_top(tmp_path):
    path = write(tmp_path, "g,v\n" + "a,1\n" * 60_000 + "a\rb,6\n")
    for call in (lambda: ov.scan(path).mean("v", by="g"), lambda: read(path, by=("g",))):
        with pytest.raises(ValueError, match="its lines end in different ways, some with a carriage return"):
            call()


def test_a_cell_of_megabytes_is_not_shown_whole(tmp_path):
    path = write(tmp_path, "g,v\n" + "a,1\n" * 60 + "a" * 3_000_000 + ",6\n")
    for call in (lambda: ov.scan(path).mean("v", by="g"), lambda: read(path, by=("g",))):
        with pytest.raises(ValueError, match="Maximum line size of 2000000 bytes exceeded") as told:
            call()
        assert len(str(told.value)) < 600 + len(str(path))
