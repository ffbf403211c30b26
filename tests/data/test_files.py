"""Files become columns: every format gives the same, and cells that are no numbers are named with their row."""

import gzip
import io
import json
import os
import sys

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from outvote.data.columns import columns_of_numbers, read_columns, read_numbers
from outvote.data.files import Files, readable

VALUES = [1.5, None, -3.0, 4.0, 0.0]
LABELS = ["b", "a", "10", None, "b"]


def write(folder, kind):
    """Write the same five rows as a file of some kind."""
    path = folder / f"data.{kind}"
    rows = list(zip(VALUES, LABELS, strict=True))
    table = pa.table({"v": pa.array(VALUES, pa.float64()), "k": pa.array(LABELS)})
    if kind in ("csv", "csv.gz", "tsv", "txt"):
        mark = {"tsv": "\t", "txt": ";"}.get(kind, ",")
        lines = [["v", "k"], *([("" if c is None else str(c)) for c in row] for row in rows)]
        text = "".join(mark.join(line) + "\n" for line in lines).encode()
        path.write_bytes(gzip.compress(text) if kind.endswith("gz") else text)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps({"v": v, "k": k}) + "\n" for v, k in rows))
    elif kind == "parquet":
        pa.parquet.write_table(table, path)
    elif kind == "feather":
        pa.feather.write_feather(table, path)
    elif kind == "arrow":
        with pa.ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
    return path


def columns(*files, value="v", by=("k",), **options):
    with Files([str(file) for file in files], **options) as opened:
        return read_columns(opened, value, by)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "txt", "jsonl", "parquet", "feather", "arrow"])
def test_every_format_gives_the_same_columns(tmp_path, kind):
    found = columns(write(tmp_path, kind))
    np.testing.assert_array_equal(found.values, [1.5, np.nan, -3.0, 4.0, 0.0])
    assert found.labels == [("10",), ("a",), ("b",), (None,)]
    assert [found.labels[code] for code in found.codes] == [(label,) for label in LABELS]
    assert found.unreadable == []
    assert found.keys == ("k",)
    groups = {group.label[0]: group for group in found.groups()}
    assert (groups["b"].rows.tolist(), groups["b"].values.tolist()) == ([0, 4], [1.5, 0.0])
    with pytest.raises(
        ValueError, match=r"no value in 1 of 5 rows \(the first is row 2 of .*nan_policy='omit' .*nan_policy='corrupt'"
    ):
        found.check("raise")
    found.check("omit")


def test_numeric_labels_are_sorted_as_numbers(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("v,k,l\n1,10,b\n2,9,b\n3,9,a\n4,,a\n")
    assert columns(path).labels == [("9",), ("10",), (None,)]
    assert columns(path, by=("k", "l")).labels == [("9", "a"), ("9", "b"), ("10", "b"), (None, "a")]


def test_rows_of_several_files_keep_their_places(tmp_path):
    for name, text in (("a1.csv", "v\n1\n2\n"), ("a2.csv", "v\n3\nx\n")):
        (tmp_path / name).write_text(text)
    found = columns(tmp_path / "a*.csv", by=())
    assert found.files == [(str(tmp_path / "a1.csv"), 2), (str(tmp_path / "a2.csv"), 2)]
    assert found.place(2) == (str(tmp_path / "a2.csv"), 1)
    with pytest.raises(
        ValueError,
        match=r"'v' is not a number in row 2 of .*a2\.csv, not counting the header: 'x'\. Correct it, or take nan_",
    ):
        found.check("omit")
    found.check("corrupt")


def test_standard_input_is_csv_or_the_given_format(tmp_path):
    assert columns("-", by=(), stdin=io.BytesIO(b"v\n1\n2\n")).values.tolist() == [1, 2]
    assert columns("-", by=(), stdin=io.BytesIO(gzip.compress(b"v\n1\n"))).values.tolist() == [1]
    assert columns("-", by=(), kind="jsonl", stdin=io.BytesIO(b'{"v": 7}\n')).values.tolist() == [7]
    data = io.BytesIO(write(tmp_path, "parquet").read_bytes())
    assert columns("-", kind="parquet", stdin=data).values[0] == 1.5
    with pytest.raises(ValueError, match="standard input is empty"):
        columns("-", stdin=io.BytesIO())
    with pytest.raises(ValueError, match="goes alone"):
        columns("-", "x.csv")


def test_number_formats_in_text_cells(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('v\n 12 \n1e3\n-inf\n+3\n.5\n"1,234"\n12 km\n')
    found = columns(path, by=())
    assert found.values[:5].tolist() == [12, 1000, -np.inf, 3, 0.5]
    assert [(cell.row, cell.text) for cell in found.unreadable] == [(5, "1,234"), (6, "12 km")]
    assert found.n_unreadable == 2


def test_text_far_down_a_column_is_found_in_its_row(tmp_path):
    # Enough rows for DuckDB to read the file in several threads, and to guess numbers from the first ones.
    path = tmp_path / "x.csv"
    lines = [str(i) for i in range(150_000)]
    lines[145_678] = "oops"
    path.write_text("v\n" + "\n".join(lines) + "\n")
    found = columns(path, by=())
    assert [(cell.row, cell.text) for cell in found.unreadable] == [(145_678, "oops")]
    assert np.array_equal(np.delete(found.values, 145_678), np.delete(np.arange(150_000.0), 145_678))


def test_text_and_missing_values_in_json_lines(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"v": 1, "k": "a"}\n{"v": "two", "k": 3}\n{"k": "a"}\n')
    found = columns(path)
    assert [(cell.row, cell.text) for cell in found.unreadable] == [(1, "two")]
    assert np.isnan(found.values[2])
    assert found.labels == [("3",), ("a",)]


def test_missing_or_unsupported_files_and_columns_raise(tmp_path):
    path = write(tmp_path, "csv")
    with pytest.raises(ValueError, match=r"data\.csv: column='w' is not a column: there are 'v', 'k'"):
        columns(path, value="w")
    with pytest.raises(ValueError, match="by='kk' is not a column: did you mean 'k'"):
        columns(path, by=("kk",))
    with pytest.raises(FileNotFoundError, match=r"no file is called .*date\.csv': did you mean .*data\.csv"):
        columns(tmp_path / "date.csv")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        columns(tmp_path / "no" / "x.csv")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        columns(tmp_path)
    (tmp_path / "x.xyz").write_text("v\n1\n")
    with pytest.raises(ValueError, match=r"its name must end in .csv"):
        columns(tmp_path / "x.xyz")
    assert columns(tmp_path / "x.xyz", by=(), kind="csv").values.tolist() == [1]
    with pytest.raises(ValueError, match="csv and jsonl: give one kind"):
        columns(path, write(tmp_path, "jsonl"))
    with pytest.raises(ValueError, match="format='xls' is not one of csv"):
        columns(path, kind="xls")
    with pytest.raises(ValueError, match="cannot be read as parquet"):
        columns(path, kind="parquet")
    with pytest.raises(ValueError, match="cannot be read as arrow"):
        columns(path, kind="arrow")
    (tmp_path / "empty.csv").write_text("v,k\n")
    with pytest.raises(ValueError, match="has no rows"):
        columns(tmp_path / "empty.csv")
    pa.parquet.write_table(pa.table({"v": [[1.0]], "k": ["a"]}), tmp_path / "list.parquet")
    with pytest.raises(TypeError, match=r"column='v' holds DOUBLE\[\] values, but numbers are needed"):
        columns(tmp_path / "list.parquet")


def test_names_of_files_and_columns_are_escaped(tmp_path):
    path = tmp_path / "o'x[1]*.csv"
    path.write_text('"a ""b"" ; drop","k"\n1,x\n2,x\n')
    found = columns(path, value='a "b" ; drop')
    assert found.values.tolist() == [1, 2]


def test_missing_duckdb_raises_with_the_install_command(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(ModuleNotFoundError, match=r"read by duckdb: pip install duckdb pyarrow"):
        columns(write(tmp_path, "csv"))


def test_select_returns_rows_with_ids_and_places(tmp_path):
    for name, text in (("a.csv", "id,k,v\n1,x,1\n2,,2\n"), ("b.csv", "id,k,v\n3,x,oops\n")):
        (tmp_path / name).write_text(text)
    with Files([str(tmp_path / "*.csv")]) as files:
        rows = files.table(files.select(["v"], ["k"], "id")).to_pylist()
    found = sorted(tuple(row[name] for name in ("id", "v0", "r0", "k0", "file", "n")) for row in rows)
    assert found == [(1, 1.0, None, "x", 0, 0), (2, 2.0, None, None, 0, 1), (3, None, "oops", "x", 1, 0)]


@pytest.mark.parametrize("kind", ["csv.gz", "jsonl", "parquet", "feather"])
@pytest.mark.parametrize("name", ["~", r"a\*b", r"a\[1]", "[!a]", "http:"])
def test_names_that_mean_something_to_duckdb_are_names(tmp_path, monkeypatch, name, kind):
    home = tmp_path / "home"
    home.mkdir()
    (home / f"data.{kind}").write_bytes(b"not this")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()
    path = write(tmp_path / name, kind)
    for given in (os.path.relpath(path), os.fspath(path)):
        assert columns(given).values[0] == 1.5
    beside = f"{name}.{kind}"
    path.rename(beside)
    found = columns(beside)
    assert (found.values[0], found.files) == (1.5, [(beside, 5)])


def test_messages_show_names_as_they_were_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a[1].parquet").write_text("nothing")
    with Files(["a[1].parquet"]) as files, pytest.raises(ValueError, match=r"cannot be read as parquet: ") as told:
        files.columns  # noqa: B018
    assert str(tmp_path) not in str(told.value)


def test_names_that_are_not_unicode_are_refused(tmp_path):
    path = os.fsencode(tmp_path) + b"/x\xff.csv"
    try:
        with open(path, "wb") as file:
            file.write(b"v\n1\n")
    except OSError:
        pytest.skip("the file system takes no such names")
    for given in (os.fsdecode(path), str(tmp_path / "*.csv")):
        with (
            pytest.raises(ValueError, match=r"x\\udcff\.csv' is not a name in UTF-8.*: rename the file"),
            Files([given]),
        ):
            pass


def test_without_a_limit_a_lack_of_memory_names_none():
    out = duckdb.OutOfMemoryException("Out of Memory Error: failed to allocate")
    assert "x.csv: the memory does not suffice (" in str(readable(out, "x.csv", limited=False))
    assert "the memory_limit does not suffice, allow more" in str(readable(out, "x.csv"))


def test_many_columns_are_read_some_at_a_time(tmp_path):
    names = [f"c{j}" for j in range(130)]
    table = np.arange(3.0 * len(names)).reshape(3, -1)
    lines = [",".join([*map(str, row), "x"]) for row in table.tolist()]
    path = tmp_path / "wide.csv"
    path.write_text("\n".join([",".join([*names, "k"]), *lines]) + "\n")
    with Files([str(path)]) as files:
        asked, table_of = [], files.table
        files.table = lambda sql: asked.append(sql) or table_of(sql)
        assert columns_of_numbers(files) == names
        found = read_numbers(files, names)
    np.testing.assert_array_equal(np.column_stack([found[name] for name in names]), table)
    assert len(asked) < 25  # not one for each column
    assert max(map(len, asked)) < 30_000  # nor one for all: they take longer than their number says
