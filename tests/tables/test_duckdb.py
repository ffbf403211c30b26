"""Files and DuckDB: names and labels are data, what cannot be read is refused, and nothing is left behind."""

from __future__ import annotations

import gc
import gzip
import math
import os
import re
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest

import outvote as ov
from outvote.blocks.hashing import hash_rows
from outvote.data.files import find_files
from outvote.tables.engine import Query

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pq = pytest.importorskip("pyarrow.parquet")

X = np.random.default_rng(0).normal(size=300)


def expected(values=X, **options):
    return ov.mean(values, partition="hash", **{"rng": 1, "n_blocks": 11, **options})


def agrees(found, values=X, **options):
    right = expected(values, **options)
    np.testing.assert_allclose(found.block_values, right.block_values, rtol=1e-12)
    np.testing.assert_allclose(found.radius, right.radius, rtol=1e-12)
    return True


def asked(source, column="x", **options):
    return ov.scan(source, **options).mean(column, rng=1, n_blocks=11)


def parquet(path, **columns):
    pq.write_table(pa.table(columns), path)
    return str(path)


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path, monkeypatch):
    """Give every test a folder for temporary files, which is empty when it is over."""
    folder = tmp_path / "temporary files"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    if any(folder.iterdir()):  # in a long run of tests it takes its time to collect
        gc.collect()
    assert list(folder.iterdir()) == []


# --- names and labels are data ----------------------------------------------------------------------------------------

NAMES = [
    'x"; DROP TABLE stored; --',
    "x'); DROP TABLE stored; --",
    'a "quoted" name',
    "a 'quoted' name",
    "some spaces",
    "Größe, 温度 🌡",
    "SELECT * FROM stored",
    "line\nbreak\ttab\\",
    "filename",
    "file_row_number",
    "file_index",
    "block",
    "id",
    "v0",
    "k0",
    "h",
    "u",
    "owner",
    "given",
    "missing",
    "source",
    "outvote_source",
    "rows",
    "sizes",
    "count(*)",
    "*",
    "x.y",
    "$1",
    "%s",
    "{x}",
    "getvariable('files')",
]


def sources(table, folder):
    """The same table in files and in DuckDB, together with what may not be lost."""
    connection = duckdb.connect()
    connection.register("outvote test", table)
    connection.execute('CREATE TABLE stored AS FROM "outvote test"')
    yield {"source": parquet(folder / "one.parquet", **{n: table[n] for n in table.column_names})}, connection
    for i, part in enumerate((table.slice(0, 90), table.slice(90))):
        pq.write_table(part, folder / f"two-{i}.parquet")
    yield {"source": str(folder / "two-*.parquet")}, connection
    table.to_pandas().to_csv(folder / "one.csv", index=False)
    yield {"source": folder / "one.csv"}, connection
    yield {"source": connection.table("stored")}, connection
    yield {"source": connection, "table": "stored"}, connection


def test_names_of_columns_are_data(tmp_path):
    """Names that look like SQL, like our own, or like DuckDB's columns are columns like others."""
    values = X[:, None] + np.arange(len(NAMES))
    key = np.array(["a", "b"])[np.arange(300) % 2]
    for source, connection in sources(pa.table({name: values[:, j] for j, name in enumerate(NAMES)}), tmp_path):
        scan = ov.scan(**source)
        for names in (NAMES, NAMES[::-1], NAMES[:1], ["v0", "x.y", "id"]):
            found = scan.mean(names, rng=1, n_blocks=11)
            assert agrees(found, values[:, [NAMES.index(name) for name in names]])
            assert found.names == tuple(names)
        assert connection.sql("SELECT count(*) FROM stored").fetchall() == [(300,)]
    turned = pa.table({**dict.fromkeys(NAMES, key), "value": X, "number": np.arange(300)[::-1]})
    for source, connection in sources(turned, tmp_path):
        scan = ov.scan(row_id="number", **source)
        for names in (NAMES, ["k0"], ["count(*)", "k0"]):
            lines = arrow(scan.mean("value", by=names, rng=1, n_blocks=11)).to_pylist()
            assert [[line[name] for name in names] for line in lines] == [["a"] * len(names), ["b"] * len(names)]
            for label, line in zip("ab", lines, strict=True):
                mine = key == label
                right = ov.BlockSummary(11, 1).update(X[mine], ids=np.arange(300)[::-1][mine])
                assert line["estimate"] == pytest.approx(np.median(right.means), rel=1e-12)
        assert connection.sql("SELECT count(*) FROM stored").fetchall() == [(300,)]


@pytest.mark.parametrize(
    "name", ["filename", "file_row_number", "file_index", "FILE_ROW_NUMBER", "first", "file", "position"]
)
def test_rows_are_numbered_whatever_the_columns_are_called(tmp_path, name):
    for source, _ in sources(pa.table({"x": X, name: np.arange(300)[::-1]}), tmp_path):
        assert agrees(asked(**source))


def arrow(answer):
    return answer if isinstance(answer, pa.Table) else answer.to_arrow_table()


@pytest.mark.parametrize("name", ["id", "rows", 'row "id"', "x'; DROP TABLE stored; --", "block", "file_row_number"])
def test_names_of_row_ids_are_data(tmp_path, name):
    ids = np.random.default_rng(0).permutation(300)
    table = pa.table({name: ids, "value": X})
    right = ov.BlockSummary(11, 1).update(X, ids=ids)
    for source, _ in sources(table, tmp_path):
        found = ov.scan(row_id=name, **source).mean("value", rng=1, n_blocks=11)
        np.testing.assert_allclose(found.block_values, right.means, rtol=1e-12)


LABELS = [
    "'; DROP TABLE stored; --",
    'say "no"',
    "it's",
    "''",
    "",
    " ",
    "NULL",
    "nan",
    "a\nb",
    "\\",
    "\0",
    "ü 🌡",
    "1",
    "%",
]


def test_labels_of_groups_are_data(tmp_path):
    """Texts that look like SQL, like nothing, or like numbers are labels like others."""
    labels = np.array(LABELS, dtype=object)[np.arange(300) % len(LABELS)]
    table = pa.table({"x": X, "g": pa.array(labels), "number": np.arange(300)})
    for source, connection in sources(table, tmp_path):
        if str(source["source"]).endswith(".csv"):
            continue  # a CSV does not tell an empty text from NULL
        scan = ov.scan(row_id="number", **source)
        answer = arrow(scan.mean("x", by="g", rng=1, contamination=0, n_blocks=3))
        assert answer["g"].to_pylist() == sorted(LABELS)
        for line in answer.to_pylist():
            mine = np.array([label == line["g"] for label in labels])
            right = ov.BlockSummary(3, 1).update(X[mine], ids=np.flatnonzero(mine)).result(0)
            assert (line["n"], line["estimate"]) == (mine.sum(), pytest.approx(right.estimate, rel=1e-12))
        difference = scan.difference("x", "g", a=LABELS[0], b="it's", rng=1, contamination=0)
        assert repr(LABELS[0]) in difference.detail
        assert connection.sql("SELECT count(*) FROM stored").fetchall() == [(300,)]


def test_names_of_tables_are_data():
    connection = duckdb.connect()
    for name in ("t", 'my "table"; DROP TABLE t', "outvote_source", "source", "answer", "table"):
        quoted = '"' + name.replace('"', '""') + '"'
        connection.register("outvote test", pa.table({"x": X}))
        connection.execute(f'CREATE TABLE {quoted} AS FROM "outvote test"')
        assert agrees(asked(connection, table=name))
        assert agrees(asked(connection.table(quoted)))
    tables = {row[0] for row in connection.sql("SELECT table_name FROM duckdb_tables()").fetchall()}
    assert {"t", "outvote_source", "source"} < tables
    connection.execute("CREATE VIEW seen AS SELECT x + 1 AS x FROM t; CREATE SCHEMA s; CREATE TABLE s.u AS FROM t")
    assert agrees(asked(connection, table="seen"), X + 1)
    assert agrees(asked(connection, table="s.u"))
    with pytest.raises(
        ValueError, match=r"table='nope; DROP TABLE t' is not a table or view of the connection: there are"
    ):
        ov.scan(connection, table="nope; DROP TABLE t")
    with pytest.raises(ValueError, match="it has none"):
        ov.scan(duckdb.connect(), table="t")


def test_the_users_connection_is_left_as_it_was():
    connection = duckdb.connect()
    connection.register("given", pa.table({"x": X, "g": np.arange(300) % 2}))
    connection.execute("CREATE TABLE t AS FROM given; SET memory_limit = '123MB'")
    about = (
        "SELECT view_name FROM duckdb_views() UNION SELECT table_name FROM duckdb_tables()",
        "SELECT name, value FROM duckdb_settings()",
        "SELECT name FROM duckdb_variables()",
        "FROM t",
    )
    before = [sorted(connection.sql(sql).fetchall()) for sql in about]
    for scan in (ov.scan(connection, table="t"), ov.scan(connection.sql("SELECT * FROM t WHERE x < 9"))):
        answer = scan.mean("x", by="g", rng=1)
        assert isinstance(answer, duckdb.DuckDBPyRelation)
        assert answer.columns[:2] == ["g", "estimate"]
        assert connection.sql("SELECT sum(n) FROM answer").fetchall() == [(300,)]  # it belongs to the same connection
        scan.u_statistic("x", "gini", rng=1)
    assert [sorted(connection.sql(sql).fetchall()) for sql in about] == before


def test_a_connection_that_looks_for_no_names_in_python():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range::DOUBLE AS x, range % 2 AS g FROM range(100)")
    connection.execute("SET python_enable_replacements = false")
    answer = ov.scan(connection.table("t")).mean("x", by="g")
    assert answer.to_arrow_table()["n"].to_pylist() == [50, 50]


# --- which files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["it's", 'a "b"', "a b", "a[1]", "a*b?", "ü", "x=77", "a{b,c}", "a\\b", "%20", "#!"])
def test_paths_are_data(tmp_path, folder):
    """Folders may be called like globs, like SQL, and like the parts of a partitioned table, which they are not."""
    (tmp_path / folder).mkdir()
    (tmp_path / "a1").mkdir()
    parquet(tmp_path / "a1" / "f.parquet", x=X + 100)  # what a[1] would be as a glob
    path = parquet(tmp_path / folder / "f.parquet", x=X)
    assert agrees(asked(path))
    assert agrees(asked(Path(path)))
    assert agrees(asked([path]))
    second = parquet(tmp_path / folder / ("it's [2]*.parquet" if "\\" not in folder else "it's.parquet"), x=X)
    assert agrees(asked([path, second]), np.r_[X, X])
    pd.DataFrame({"x": X}).to_csv(tmp_path / folder / "f.csv", index=False)
    assert agrees(asked(tmp_path / folder / "f.csv"))


def test_globs_lists_and_folders(tmp_path):
    parts = np.split(X, [100, 101])
    for i, part in zip((0, 2, 1), parts, strict=True):
        (tmp_path / f"d{i}").mkdir()
        parquet(tmp_path / f"d{i}" / "a.parquet", x=part)
    in_order = np.concatenate([parts[0], parts[2], parts[1]])
    assert agrees(asked(str(tmp_path / "d*" / "*.parquet")), in_order)
    assert agrees(asked(str(tmp_path / "**" / "*.parquet")), in_order)
    assert agrees(asked([tmp_path / f"d{i}" / "a.parquet" for i in (0, 2, 1)]))
    assert agrees(asked((tmp_path / "d0" / "a.parquet", str(tmp_path / "d[12]" / "a.parquet"))), in_order)
    overlapping = [tmp_path / "d0" / "a.parquet", str(tmp_path / "*" / "a.parquet")]
    assert agrees(asked(overlapping), in_order)  # each file once
    again = [tmp_path / "d0" / "a.parquet", f"{tmp_path}//d1/a.parquet", f"{tmp_path}/d1/../d0/a.parquet"]
    assert agrees(asked(again), np.concatenate([parts[0], parts[2]]))
    with pytest.raises(IsADirectoryError, match=r"is a folder: name its files, such as '.*d0/\*\.csv'"):
        ov.scan(tmp_path / "d0")


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.parquet", "Parquet"), ("a.PARQUET", "Parquet"), ("a.pq", "Parquet"), ("a.csv", "CSV"), ("a.tsv", "CSV"),
     ("a.txt", "CSV"), ("a.b.csv.gz", "CSV"), ("a.CSV.GZ", "CSV"), ("a.csv.parquet", "Parquet")],
)  # fmt: skip
def test_kinds_of_files(tmp_path, name, kind):
    frame = pd.DataFrame({"x": X})
    if kind == "Parquet":
        frame.to_parquet(tmp_path / name)
    else:
        frame.to_csv(tmp_path / name, index=False, compression="gzip" if name.lower().endswith("gz") else None)
    assert agrees(asked(tmp_path / name))


@pytest.mark.parametrize("name", ["a.json", "a", "a.csv.zip", "a.gz", "csv", ".csv"])
def test_other_files_are_refused(tmp_path, name):
    (tmp_path / name).write_text("x\n1\n")
    with pytest.raises(ValueError, match=r"is not a kind of file that outvote reads: its name must end in \.csv"):
        ov.scan(tmp_path / name)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no file is called '.*nope\.parquet'"):
        ov.scan(tmp_path / "nope.parquet")
    with pytest.raises(FileNotFoundError, match=r"no file is called '.*\*\.parquet'"):
        ov.scan(str(tmp_path / "*.parquet"))
    path = parquet(tmp_path / "a.parquet", x=X)
    with pytest.raises(FileNotFoundError, match=r"no file is called 'b.parquet'"):
        ov.scan([path, "b.parquet"])
    (tmp_path / "b.csv").write_text("x\n1\n")
    with pytest.raises(ValueError, match="the files are csv and parquet: give one kind at a time"):
        ov.scan([path, tmp_path / "b.csv"])
    with pytest.raises(TypeError, match="source has 3 in its list: give paths of files"):
        ov.scan([path, 3])
    for nothing in ([], (), 3, None, {"x": [1]}, np.arange(3.0)):
        with pytest.raises(TypeError, match=r"source is a \w+: give a dataframe .* or the path of"):
            ov.scan(nothing)
    assert find_files([path]) == ([path], "parquet")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"memory_limit": "lots"}, ValueError, "memory_limit='lots' must be a size such as '1GB'"),
        ({"memory_limit": "-1GB"}, ValueError, "memory_limit='-1GB'"),
        ({"memory_limit": 10**9}, ValueError, "memory_limit=1000000000 must be a size such as"),
        ({"memory_limit": "1GB'; DROP TABLE t"}, ValueError, "memory_limit="),
        ({"table": "t"}, ValueError, "table='t' goes with a DuckDB connection, not with files"),
        ({"hash": "md5"}, ValueError, "hash='md5' is neither 'portable' nor 'native'"),
        ({"row_id": "idd"}, ValueError, "row_id='idd' is not a column: did you mean 'id'?"),
        ({"row_id": "other"}, ValueError, "row_id='other' is not a column: there are 'x', 'id'"),
        ({"row_id": "x"}, TypeError, "row_id='x' must be a column of integers"),
    ],
)
def test_arguments_are_checked_before_anything_is_read(tmp_path, options, kind, message):
    path = parquet(tmp_path / "a.parquet", x=X, id=np.arange(300))
    with pytest.raises(kind, match=re.escape(message)):
        ov.scan(path, **options)


def test_what_belongs_to_other_sources():
    connection, relation = duckdb.connect(), duckdb.from_arrow(pa.table({"x": X}))
    with pytest.raises(ValueError, match="name one of its tables or views with table="):
        ov.scan(connection)
    with pytest.raises(ValueError, match="SET memory_limit on the connection"):
        ov.scan(connection, table="t", memory_limit="1GB")
    with pytest.raises(ValueError, match="a relation belongs to its connection"):
        ov.scan(relation, memory_limit="1GB")
    for name, value in (("memory_limit", "1GB"), ("table", "t"), ("hash", "native")):
        with pytest.raises(
            ValueError, match=f"{name}={value!r} is for files and DuckDB connections, not for DataFrame"
        ):
            ov.scan(pd.DataFrame({"x": X}), **{name: value})


# --- what cannot be read -------------------------------------------------------------------------------------------


def test_damaged_files_are_refused(tmp_path):
    whole = Path(parquet(tmp_path / "a.parquet", x=X))
    cut = tmp_path / "cut.parquet"
    for data in (whole.read_bytes()[: whole.stat().st_size // 2], b"", b"PAR1", b"x" * 100):
        cut.write_bytes(data)
        for source in (cut, [whole, cut]):
            with pytest.raises(ValueError, match=r"cut\.parquet (cannot be read as parquet: |is empty)"):
                asked(source)
    damaged = bytearray(whole.read_bytes())
    damaged[4:200] = b"\xff" * 196  # the pages, not the footer
    cut.write_bytes(bytes(damaged))
    with pytest.raises((ValueError, OSError), match="cannot be read"):
        asked(cut)


def test_a_csv_that_is_none(tmp_path):
    path = tmp_path / "a.csv"
    for data in (bytes(range(256)) * 20, Path(parquet(tmp_path / "a.parquet", x=X)).read_bytes()):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"a\.csv cannot be read as csv: |column='x' is not a column"):
            asked(path)
    path.write_text("<html>\n<p>no such page, sorry</p>\n</html>\n")
    with pytest.raises(ValueError, match="column='x' is not a column: there are"):
        asked(path)
    (tmp_path / "b.csv.gz").write_text("x\n1\n2\n")  # not compressed
    with pytest.raises((ValueError, OSError), match=r"b\.csv\.gz cannot be read"):
        asked(tmp_path / "b.csv.gz")
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(b"x\n" + b"1\n" * 10**5)[:-30])
    with pytest.raises((ValueError, OSError), match=r"c\.csv\.gz cannot be read"):
        asked(tmp_path / "c.csv.gz")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    path = Path(parquet(tmp_path / "a.parquet", x=X))
    path.chmod(0)
    with pytest.raises(OSError, match=r"a\.parquet cannot be read"):
        asked(path)


def test_a_file_that_goes_away(tmp_path):
    path = Path(parquet(tmp_path / "a.parquet", x=X))
    scan = ov.scan(path)
    path.unlink()
    with pytest.raises(OSError, match=r"a\.parquet cannot be read"):
        scan.mean("x")


def test_files_with_other_columns_are_refused(tmp_path):
    """A column that is missing is no column of NULLs, text is no number, and 1.5 is not rounded to an integer."""
    whole = parquet(tmp_path / "a.parquet", x=np.arange(300), g=["a"] * 300, id=np.arange(300))
    lacking = parquet(tmp_path / "b.parquet", g=["a"] * 9, y=np.arange(9.0), id=np.arange(9))
    for source in ([whole, lacking], [lacking, whole]):
        with pytest.raises(ValueError, match=r"column='x' is not a column"):
            asked(source)
        assert ov.scan(source).mean("id", rng=0).plan.n_rows == 309
        for options in ({"by": "y"}, {}):
            with pytest.raises(ValueError, match=r"='y' is not a column"):
                ov.scan(source).mean("y" if not options else "id", **options)
    text = parquet(tmp_path / "c.parquet", x=["1"] * 9, id=np.arange(9))
    assert agrees(asked([whole, text]), np.r_[np.arange(300.0), np.ones(9)])  # text that is a number is one
    words = parquet(tmp_path / "w.parquet", x=["one"] * 9)
    with pytest.raises(ValueError, match=r"column='x' has no number, 'one' for instance, in .*w\.parquet"):
        asked([words])
    with pytest.raises(ValueError, match=r"'x' is not a number in row 1 of .*w\.parquet: 'one' \(and 8 more\)"):
        asked([whole, words])
    floats = parquet(tmp_path / "d.parquet", x=X)
    for source in ([whole, floats], [floats, whole]):
        values = [np.arange(300), X] if source[0] == whole else [X, np.arange(300)]
        assert agrees(asked(source), np.concatenate(values))
    moved = parquet(tmp_path / "e.parquet", id=np.arange(300), x=X, g=["a"] * 300)
    assert agrees(asked([floats, moved]), np.r_[X, X])


def test_csv_files_with_other_columns_are_refused(tmp_path):
    a, b, c = (tmp_path / f"{name}.csv" for name in "abc")
    a.write_text("x,y\n" + "1,2\n" * 300)
    b.write_text("y\n" + "2\n" * 9)
    c.write_text("y,x\n" + "2,3.5\n" * 300)
    with pytest.raises(ValueError, match=r"b\.csv: column='x' is not a column"):
        asked([a, b])
    with pytest.raises(ValueError, match="column='x' is not a column"):
        asked([b, a])
    assert agrees(asked([a, c]), np.repeat([1.0, 3.5], 300))
    b.write_text("x,y\nhello,1\n")
    for source in ([a, b], [b, a]):
        with pytest.raises(ValueError, match=r"'x' is not a number in row 1 of .*b\.csv: 'hello'"):
            asked(source)
    with pytest.raises(ValueError, match=r"column='x' has no number, 'hello' for instance, in .*b\.csv"):
        asked(b)


# --- CSV ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_found(tmp_path, separator):
    frame = pd.DataFrame({"x": X, "a, b; c": np.arange(300), 'say "x"': ["u;v,w", 'x"y'] * 150})
    frame.to_csv(tmp_path / "a.csv", sep=separator, index=False)
    scan = ov.scan(tmp_path / "a.csv")
    assert agrees(scan.mean("x", rng=1, n_blocks=11))
    assert agrees(scan.mean("a, b; c", rng=1, n_blocks=11), np.arange(300.0))
    assert scan.mean("x", by='say "x"', rng=1)['say "x"'].to_pylist() == ["u;v,w", 'x"y']


def late(path, last, n=40_000):
    """A CSV whose last line is of another kind than those DuckDB looks at to find out."""
    path.write_text("id,x,g\n" + "".join(f"{i},1,7\n" for i in range(n)) + last)
    return path


def test_numbers_that_come_late_are_not_rounded(tmp_path):
    scan = ov.scan(late(tmp_path / "a.csv", "40000,1.5,7\n"))
    assert agrees(scan.mean("x", rng=1, n_blocks=11), np.r_[np.ones(40_000), 1.5])
    big = ov.scan(late(tmp_path / "b.csv", "40000,1e300,7\n")).mean("x", rng=1, n_blocks=11)
    assert big.block_values.max() > 1e295
    with pytest.raises(ValueError, match="row_id='id' is not a whole number in some rows"):
        ov.scan(late(tmp_path / "c.csv", "40000.5,1,7\n"), row_id="id").mean("x")
    answer = ov.scan(late(tmp_path / "c.csv", "40000,1,7.5\n")).mean("x", by="g", contamination=0)
    assert answer["g"].to_pylist() == [7.0, 7.5]
    with pytest.raises(ValueError, match=r"'x' is not a number in row 40001 of .*d\.csv: 'nope'"):
        ov.scan(late(tmp_path / "d.csv", "40000,nope,7\n")).mean("x")
    with pytest.raises(ValueError, match=r"row_id='id' has the value 9223372036854775808"):
        ov.scan(late(tmp_path / "e.csv", "9223372036854775808,1,7\n"), row_id="id").mean("x")


def test_a_csv_with_gaps_infinities_and_truth_values(tmp_path):
    values = np.array([math.inf, math.nan, *X[2:]])
    text = ["inf", "", *map(repr, X[2:].tolist())]
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{one},1\n" for one in text))
    options = {"nan_policy": "corrupt", "contamination": 2, "n_blocks": 11, "rng": 1}
    found, right = ov.scan(tmp_path / "a.csv").mean("x", **options), ov.mean(values, partition="hash", **options)
    np.testing.assert_allclose(found.block_values, right.block_values, rtol=1e-12)
    (tmp_path / "c.csv").write_text("x,y\n")
    with pytest.raises(ValueError, match="column 'x' has no usable rows"):
        asked(tmp_path / "c.csv")
    (tmp_path / "d.csv").write_text("flag\n" + "true\nfalse\ntrue\n" * 100)
    assert agrees(asked(tmp_path / "d.csv", "flag"), np.array([1.0, 0.0, 1.0] * 100))
    (tmp_path / "e.csv").write_text("x\n5\n")
    assert ov.scan(tmp_path / "e.csv").mean("x", contamination=0, rng=0).estimate == 5


# --- row ids and keys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()])
def test_row_ids_of_any_width(tmp_path, kind):
    ids = np.arange(100)[::-1]
    path = parquet(tmp_path / "a.parquet", id=pa.array(ids, kind), x=X[:100])
    found = ov.scan(path, row_id="id").mean("x", n_blocks=7, rng=0)
    np.testing.assert_array_equal(found.block_sizes, np.bincount(hash_rows(ids, 0) % 7))
    np.testing.assert_allclose(found.block_values, ov.BlockSummary(7, 0).update(X[:100], ids).means, rtol=1e-12)


def test_row_ids_that_are_none(tmp_path):
    path = parquet(tmp_path / "a.parquet", id=pa.array([2**63, 1], pa.uint64()), n=[1, None], b=[True, False], x=X[:2])
    with pytest.raises(ValueError, match=r"row_id='id' has the value 9223372036854775808: row ids lie below 2\*\*63"):
        ov.scan(path, row_id="id").mean("x")
    with pytest.raises(ValueError, match="row_id='n' is not a whole number in some rows"):
        ov.scan(path, row_id="n").mean("x")
    with pytest.raises(TypeError, match="row_id='b' must be a column of integers"):
        ov.scan(path, row_id="b")
    for value in (2**63, -(2**63) - 1):
        huge = duckdb.sql(f"SELECT {value}::HUGEINT AS id, 1.0 AS x")
        with pytest.raises(ValueError, match=f"row_id='id' has the value {value}"):
            ov.scan(huge, row_id="id").mean("x")
    fine = duckdb.sql("SELECT range::HUGEINT AS id, range::DOUBLE AS x FROM range(300)")
    assert agrees(asked(fine, row_id="id"), np.arange(300.0))


KEYS = {
    "ENUM": ("('u', 'it''s')", "CASE WHEN i % 2 = 0 THEN 'u' ELSE 'it''s' END::ENUM('it''s', 'u')", ["it's", "u"]),
    "UUID": ("", "concat('00000000-0000-0000-0000-00000000000', i % 2)::UUID", None),
    "DECIMAL": ("", "(i % 2 + 0.25)::DECIMAL(9, 2)", None),
    "HUGEINT": ("", "(i % 2)::HUGEINT * 170141183460469231731687303715884105", None),
    "UBIGINT": ("", "(i % 2)::UBIGINT + 18446744073709551614", None),
    "FLOAT": ("", "(i % 2 + 0.1)::FLOAT", None),
    "TIMESTAMP_NS": ("", "'2020-01-01 00:00:00.000001'::TIMESTAMP_NS + (i % 2)::INTEGER * INTERVAL 1 DAY", None),
    "TIMESTAMP_S": ("", "('2020-01-01 00:00:00'::TIMESTAMP + (i % 2)::INTEGER * INTERVAL 1 DAY)::TIMESTAMP_S", None),
    "TIMESTAMPTZ": ("", "'2020-01-01 00:00:00+02'::TIMESTAMPTZ + (i % 2)::INTEGER * INTERVAL 1 DAY", None),
    "TIME": ("", "'03:04:05.6'::TIME + (i % 2)::INTEGER * INTERVAL 1 HOUR", None),
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_duckdbs_own_kinds(kind):
    table = duckdb.sql(f"SELECT i, i::DOUBLE AS x, {KEYS[kind][1]} AS k FROM range(200) AS t(i)")
    answer = ov.scan(table, row_id="i").mean("x", by="k", rng=0, contamination=1).to_arrow_table()
    labels = answer["k"].to_pylist()
    assert len(labels) == 2
    assert answer["n"].to_pylist() == [100, 100]
    ids = np.arange(200)
    for label, estimate in zip(labels, answer["estimate"].to_pylist(), strict=True):
        mine = ids % 2 == (labels.index(label) if kind != "ENUM" else label != "u")
        k = ov.plan_blocks(100, 1).n_blocks
        assert estimate == pytest.approx(ov.BlockSummary(k, 0).update(ids[mine] * 1.0, ids[mine]).result(1).estimate)


@pytest.mark.parametrize("kind", ["'a'::BLOB", "[1]", "{'a': 1}", "INTERVAL 1 DAY", "MAP {'a': 1}", "'1'::BIT"])
def test_keys_that_are_no_labels(kind):
    with pytest.raises(TypeError, match=r"by='k' holds .* values, but a key is text, a number, a boolean or a date"):
        ov.scan(duckdb.sql(f"SELECT 1.0 AS x, {kind} AS k")).mean("x", by="k")


@pytest.mark.parametrize("key", ["NULL::VARCHAR", "'nan'::DOUBLE", "NULL::DATE"])
def test_keys_that_are_missing(key):
    table = duckdb.sql(f"SELECT 1.0 AS x, {key} AS k")
    with pytest.raises(ValueError, match="by='k' is NULL in some rows: fill it, or filter these rows out"):
        ov.scan(table).mean("x", by="k")


@pytest.mark.parametrize("kind", ["DECIMAL(20, 3)", "UBIGINT", "HUGEINT", "FLOAT", "TINYINT", "BOOLEAN"])
def test_columns_of_numbers_of_any_kind(kind):
    table = duckdb.sql(f"SELECT (range % 2)::{kind} AS x FROM range(300)")
    assert agrees(asked(table), np.arange(300) % 2.0)


def test_zeros_of_both_signs_are_one_group():
    table = duckdb.sql(
        "SELECT range::DOUBLE AS x, CASE WHEN range % 2 = 0 THEN 0.0 ELSE -0.0 END::DOUBLE AS k FROM range(99)"
    )
    answer = ov.scan(table).mean("x", by="k", rng=0, contamination=0).to_arrow_table()
    assert answer.select(["k", "n"]).to_pylist() == [{"k": 0.0, "n": 99}]


def test_many_groups(tmp_path):
    n = 3000
    labels = np.arange(n) % 1000
    path = parquet(tmp_path / "a.parquet", x=np.arange(n, dtype=float), k=labels, s=[f"g{i:04d}" for i in labels])
    answer = ov.scan(path).mean("x", by=["k", "s"], contamination=0, n_blocks=1, assume=ov.FiniteVariance(1), rng=0)
    assert answer["k"].to_pylist() == list(range(1000))
    np.testing.assert_allclose(answer["estimate"].to_numpy(), np.arange(1000) + 1000.0, rtol=1e-12)


# --- memory, disk, connections ----------------------------------------------------------------------------------------


def settings_of(scan):
    return lambda name: scan._engine._source._files._connection.sql(f"SELECT current_setting('{name}')").fetchall()[0][
        0
    ]


def test_the_memory_limit_is_duckdbs(tmp_path):
    path = parquet(tmp_path / "a.parquet", x=X)
    for given, known in (("50MB", "47.6 MiB"), ("1 GiB", "1.0 GiB"), ("1.5gb", "1.3 GiB")):
        setting = settings_of(ov.scan(path, memory_limit=given))
        assert setting("memory_limit") == known
        assert Path(setting("temp_directory")).parent == Path(tempfile.gettempdir())


def test_millions_of_rows_in_little_memory(tmp_path):
    n = 3_000_000
    path = parquet(tmp_path / "a.parquet", x=np.arange(n) / n, g=np.arange(n) % 3)
    scan = ov.scan(path, memory_limit="50MB")
    found = scan.mean("x", n_blocks=501, rng=0, assume=ov.Bounded(0, 1))
    blocks = hash_rows(np.arange(n), 0) % 501
    means = np.bincount(blocks, weights=np.arange(n) / n) / np.bincount(blocks)
    np.testing.assert_allclose(found.block_values, means, rtol=1e-12)
    answer = scan.mean("x", by="g", n_blocks=51, rng=0, assume=ov.Bounded(0, 1))
    np.testing.assert_allclose(answer["estimate"].to_numpy(), 0.5, atol=0.005)


def test_rows_are_sorted_on_disk_where_memory_does_not_suffice(tmp_path):
    n = 1_500_000
    x = np.random.default_rng(0).normal(size=n)
    path = parquet(tmp_path / "a.parquet", x=x, y=x[::-1])
    scan, spilled = ov.scan(path, memory_limit="40MB"), []
    for _, _, rows in scan._engine.blocks(Query(("x", "y")), {(): 301}, 0):
        spilled.append((len(rows), sum(file.stat().st_size for file in Path(tempfile.gettempdir()).rglob("*.tmp"))))
    assert sum(size for size, _ in spilled) == n
    assert max(size for _, size in spilled) > 10**7


@pytest.mark.parametrize("full", ["no room", "no folder"])
def test_a_full_disk_is_said_to_be_full(tmp_path, full):
    n = 1_500_000
    x = np.random.default_rng(0).normal(size=n)
    path = parquet(tmp_path / "a.parquet", x=x, y=x[::-1])
    scan = ov.scan(path, memory_limit="40MB")
    sql = "SET max_temp_directory_size = '1MB'" if full == "no room" else "SET temp_directory = '/dev/null/nowhere'"
    scan._engine._source._files._connection.execute(sql)
    with pytest.raises((MemoryError, OSError), match=r"a\.parquet"):
        scan.u_statistic(["x", "y"], "kendall", n_blocks=301, rng=0)
    assert scan.mean("x", n_blocks=11, rng=0).plan.n_rows == n  # what needs no disk still works


def test_temporary_folders_and_connections_go_away(tmp_path):
    path = parquet(tmp_path / "a.parquet", x=X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scan = ov.scan(path)
        connection = scan._engine._source._files._connection
        assert len(os.listdir(tempfile.gettempdir())) == 1
        blocks = scan._engine.blocks(Query(("x",)), {(): 3}, 0)
        next(blocks)
        del scan
        gc.collect()
        assert len(os.listdir(tempfile.gettempdir())) == 1  # the blocks are still being read
        assert len(list(blocks)) == 2
        del blocks
        gc.collect()
        assert os.listdir(tempfile.gettempdir()) == []
        with pytest.raises(duckdb.ConnectionException):
            connection.sql("SELECT 1").fetchall()
        for bad in (tmp_path / "nope.parquet", tmp_path / "cut.parquet"):
            (tmp_path / "cut.parquet").write_bytes(b"PAR1")
            with pytest.raises((OSError, ValueError)):
                ov.scan(bad)
            assert os.listdir(tempfile.gettempdir()) == []


def test_no_room_for_temporary_files_is_an_error_of_the_system(tmp_path, monkeypatch):
    path = parquet(tmp_path / "a.parquet", x=X)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError):
        ov.scan(path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary files"))


def test_blocks_out_of_order_are_noticed(tmp_path):
    scan = ov.scan(parquet(tmp_path / "a.parquet", x=X))
    rows = np.zeros((2, 1))
    scan._engine._batches = lambda sql: iter([(np.array([0, 2]), rows), (np.array([1, 3]), rows)])
    with pytest.raises(RuntimeError, match="DuckDB gave the blocks out of order"):
        scan.u_statistic("x", "gini", n_blocks=4, rng=0)


def test_a_closed_connection_is_an_error():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1.0 AS x")
    scan = ov.scan(connection, table="t")
    connection.close()
    for ask in (lambda: scan.mean("x"), lambda: ov.scan(connection, table="t")):
        with pytest.raises(ValueError, match=r"DuckDB table 't' cannot be read: .*[Cc]onnection"):
            ask()


def test_what_a_scan_calls_itself(tmp_path):
    a, b = (parquet(tmp_path / f"{name}.parquet", x=X) for name in "ab")
    assert repr(ov.scan(a)) == f"Scan({a})"
    assert repr(ov.scan([a, b])) == f"Scan({a} and 1 other file)"
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1.0 AS x")
    assert repr(ov.scan(connection, table="t")) == "Scan(DuckDB table 't')"
    assert repr(ov.scan(connection.table("t"))) == "Scan(DuckDB relation)"


def test_without_duckdb_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'outvote\[tables\]'"):
        ov.scan("a.parquet")
