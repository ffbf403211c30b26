"""Scans of files: paths, formats, damaged files, memory and temporary folders."""

from __future__ import annotations

import gc
import gzip
import math
import os
import re
import tempfile
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

import outvote as ov
from outvote.blocks.hashing import hash_rows
from outvote.data.files import Files
from outvote.tables.duckdb import DuckEngine, file_engine
from outvote.tables.engine import Query
from outvote.tables.scan import Scan

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
from duckdb_rows import X, agrees, asked, parquet  # noqa: E402

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


# --- paths and formats -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["it's", 'a "b"', "a[1]", "a*b?", "x=77", "a{b,c}", "a\\b", "%20"])
def test_paths_are_escaped(tmp_path, folder):
    """Folders may be called like globs, like SQL, and like the parts of a partitioned table, which they are not."""
    (tmp_path / folder).mkdir()
    (tmp_path / "a1").mkdir()
    parquet(tmp_path / "a1" / "f.parquet", x=X + 100)  # what a[1] would be as a glob
    path = parquet(tmp_path / folder / "f.parquet", x=X)
    assert agrees(asked(Path(path)))
    second = parquet(tmp_path / folder / "it's [2]*.parquet", x=X)
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


@pytest.mark.parametrize("name", ["a.PARQUET", "a.pq", "a.tsv", "a.txt", "a.b.csv.gz", "a.CSV.GZ", "a.csv.parquet"])
def test_file_extensions(tmp_path, name):
    frame = pd.DataFrame({"x": X})
    if name.lower().endswith(("parquet", "pq")):
        frame.to_parquet(tmp_path / name)
    else:
        frame.to_csv(tmp_path / name, index=False, compression="gzip" if name.lower().endswith("gz") else None)
    assert agrees(asked(tmp_path / name))


@pytest.mark.parametrize("name", ["a.xml", "a", "a.csv.zip", "a.gz", ".csv"])
def test_unsupported_extensions_raise(tmp_path, name):
    (tmp_path / name).write_text("x\n1\n")
    with pytest.raises(ValueError, match=r"is not a kind of file that outvote reads: its name must end in \.csv"):
        ov.scan(tmp_path / name)


def test_missing_or_unsupported_files_raise(tmp_path):
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
    for nothing in ([], 3, None, {"x": [1]}, np.arange(3.0)):
        with pytest.raises(TypeError, match=r"source is a \w+: give a dataframe .* or the path of"):
            ov.scan(nothing)


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"memory_limit": "lots"}, ValueError, "memory_limit='lots' must be a size such as '1GB'"),
        ({"memory_limit": 10**9}, ValueError, "memory_limit=1000000000 must be a size such as"),
        ({"memory_limit": "1GB'; DROP TABLE t"}, ValueError, "memory_limit="),
        ({"table": "t"}, ValueError, "table='t' goes with a DuckDB connection, not with files"),
        ({"hash": "md5"}, ValueError, "hash='md5' is neither 'portable' nor 'native'"),
        ({"row_id": "idd"}, ValueError, "row_id='idd' is not a column: did you mean 'id'?"),
    ],
)
def test_invalid_arguments_raise(tmp_path, options, kind, message):
    path = parquet(tmp_path / "a.parquet", x=X, id=np.arange(300))
    with pytest.raises(kind, match=re.escape(message)):
        ov.scan(path, **options)


def test_arguments_of_other_sources_raise():
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


# --- unreadable files ----------------------------------------------------------------------------------------------


def test_damaged_parquet_files_raise(tmp_path):
    whole = Path(parquet(tmp_path / "a.parquet", x=X))
    cut = tmp_path / "cut.parquet"
    for data in (whole.read_bytes()[: whole.stat().st_size // 2], b"", b"PAR1"):
        cut.write_bytes(data)
        for source in (cut, [whole, cut]):
            with pytest.raises(ValueError, match=r"cut\.parquet (cannot be read as parquet: |is empty)"):
                asked(source)
    damaged = bytearray(whole.read_bytes())
    damaged[4:200] = b"\xff" * 196  # the pages, not the footer
    cut.write_bytes(bytes(damaged))
    with pytest.raises((ValueError, OSError), match="cannot be read"):
        asked(cut)


def test_damaged_csv_files_raise(tmp_path):
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


def test_deleted_file_raises(tmp_path):
    path = Path(parquet(tmp_path / "a.parquet", x=X))
    scan = ov.scan(path)
    path.unlink()
    with pytest.raises(OSError, match=r"a\.parquet cannot be read"):
        scan.mean("x")


def test_parquet_files_with_different_columns(tmp_path):
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


def test_csv_files_with_different_columns(tmp_path):
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
        with pytest.raises(
            ValueError, match=r"'x' is not a number in row 1 of .*b\.csv, not counting the header: 'hello'"
        ):
            asked(source)
    with pytest.raises(ValueError, match=r"column='x' has no number, 'hello' for instance, in .*b\.csv"):
        asked(b)


# --- CSV ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_csv_separators_are_detected(tmp_path, separator):
    frame = pd.DataFrame({"x": X, "a, b; c": np.arange(300), 'say "x"': ["u;v,w", 'x"y'] * 150})
    frame.to_csv(tmp_path / "a.csv", sep=separator, index=False)
    scan = ov.scan(tmp_path / "a.csv")
    assert agrees(scan.mean("x", rng=1, n_blocks=11))
    assert agrees(scan.mean("a, b; c", rng=1, n_blocks=11), np.arange(300.0))
    assert scan.mean("x", by='say "x"')['say "x"'].tolist() == ["u;v,w", 'x"y']


def late(path, last, n=25_000):
    """A CSV whose last line is of another kind than those DuckDB looks at to find out."""
    path.write_text("id,x,g\n" + "".join(f"{i},1,7\n" for i in range(n)) + last)
    return path


def test_late_values_of_another_type_are_not_rounded(tmp_path):
    scan = ov.scan(late(tmp_path / "a.csv", "40000,1.5,7\n"))
    assert agrees(scan.mean("x", rng=1, n_blocks=11), np.r_[np.ones(25_000), 1.5])
    big = ov.scan(late(tmp_path / "b.csv", "40000,1e300,7\n")).mean("x", rng=1, n_blocks=11)
    assert big.block_values.max() > 1e295
    with pytest.raises(ValueError, match="row_id='id' is not a whole number in some rows"):
        ov.scan(late(tmp_path / "c.csv", "40000.5,1,7\n"), row_id="id").mean("x")
    answer = ov.scan(late(tmp_path / "c.csv", "40000,1,7.5\n")).mean("x", by="g", contamination=0)
    assert answer["g"].tolist() == [7.0, 7.5]
    with pytest.raises(
        ValueError, match=r"'x' is not a number in row 25001 of .*d\.csv, not counting the header: 'nope'"
    ):
        ov.scan(late(tmp_path / "d.csv", "40000,nope,7\n")).mean("x")
    with pytest.raises(ValueError, match=r"row_id='id' has the value 9223372036854775808"):
        ov.scan(late(tmp_path / "e.csv", "9223372036854775808,1,7\n"), row_id="id").mean("x")


def test_csv_with_missing_infinite_and_boolean_values(tmp_path):
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


# --- memory, disk, connections ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "known"), [("50MB", "47.6 MiB"), ("1.5gb", "1.3 GiB")])
def test_memory_limit_is_passed_to_duckdb(tmp_path, given, known):
    with Files([parquet(tmp_path / "a.parquet", x=X)], memory_limit=given) as files:
        names = ("memory_limit", "temp_directory")
        found = files.table(f"SELECT {', '.join(f'current_setting({name!r}) AS {name}' for name in names)}").to_pylist()
    assert found[0]["memory_limit"] == known
    assert Path(found[0]["temp_directory"]).parent == Path(tempfile.gettempdir())


def test_memory_limit_of_a_scan_is_enforced(tmp_path):
    path = parquet(tmp_path / "a.parquet", x=np.arange(300_000.0))
    with pytest.raises(MemoryError, match="the memory_limit does not suffice"):
        ov.scan(path, memory_limit="1MB").u_statistic("x", "gini", n_blocks=301, rng=0)


def test_millions_of_rows_in_50_megabytes(tmp_path):
    n = 3_000_000
    path = parquet(tmp_path / "a.parquet", x=np.arange(n) / n, g=np.arange(n) % 3)
    scan = ov.scan(path, memory_limit="50MB")
    found = scan.mean("x", n_blocks=501, rng=0, assume=ov.Bounded(0, 1))
    blocks = hash_rows(np.arange(n), 0) % 501
    means = np.bincount(blocks, weights=np.arange(n) / n) / np.bincount(blocks)
    np.testing.assert_allclose(found.block_values, means, rtol=1e-12)
    answer = scan.mean("x", by="g", n_blocks=51, rng=0, assume=ov.Bounded(0, 1))
    np.testing.assert_allclose(answer["estimate"].to_numpy(), 0.5, atol=0.005)


def test_rows_are_sorted_on_disk_if_memory_is_short(tmp_path):
    n = 1_500_000
    x = np.random.default_rng(0).normal(size=n)
    path = parquet(tmp_path / "a.parquet", x=x, y=x[::-1])
    engine, spilled = file_engine(Files([path], memory_limit="40MB"), None), []
    for _, _, rows in engine.blocks(Query(("x", "y")), {(): 301}, 0):
        spilled.append((len(rows), sum(file.stat().st_size for file in Path(tempfile.gettempdir()).rglob("*.tmp"))))
    assert sum(size for size, _ in spilled) == n
    assert max(size for _, size in spilled) > 10**7


@pytest.mark.parametrize("full", ["no room", "no folder"])
def test_full_disk_raises(tmp_path, full):
    n = 1_500_000
    x = np.random.default_rng(0).normal(size=n)
    path = parquet(tmp_path / "a.parquet", x=x, y=x[::-1])
    files = Files([path], memory_limit="40MB")
    scan = Scan(file_engine(files, None))
    files.run(
        "SET max_temp_directory_size = '1MB'" if full == "no room" else "SET temp_directory = '/dev/null/nowhere'"
    )
    with pytest.raises((MemoryError, OSError), match=r"a\.parquet"):
        scan.u_statistic(["x", "y"], "kendall", n_blocks=301, rng=0)
    assert scan.mean("x", n_blocks=11, rng=0).plan.n_rows == n  # what needs no disk still works


def test_temporary_folders_and_connections_are_closed(tmp_path):
    path = parquet(tmp_path / "a.parquet", x=X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        files = Files([path])
        alive, engine = weakref.ref(files), file_engine(files, None)
        assert len(os.listdir(tempfile.gettempdir())) == 1
        blocks = engine.blocks(Query(("x",)), {(): 3}, 0)
        next(blocks)
        del files, engine
        gc.collect()
        assert len(os.listdir(tempfile.gettempdir())) == 1  # the blocks are still being read
        assert len(list(blocks)) == 2
        del blocks
        gc.collect()
        assert os.listdir(tempfile.gettempdir()) == []
        assert alive() is None


def test_failed_scan_leaves_no_temporary_folder(tmp_path):
    (tmp_path / "cut.parquet").write_bytes(b"PAR1")
    for name in ("nope.parquet", "cut.parquet"):
        with pytest.raises((OSError, ValueError), match=name):
            ov.scan(tmp_path / name).mean("x")
        gc.collect()
        assert os.listdir(tempfile.gettempdir()) == []


def test_blocks_out_of_order_raise(tmp_path, monkeypatch):
    rows = np.zeros((2, 1))
    unordered = [(np.array([0, 2]), rows), (np.array([1, 3]), rows)]
    monkeypatch.setattr(DuckEngine, "_batches", lambda self, sql: iter(unordered))
    with pytest.raises(RuntimeError, match="DuckDB gave the blocks out of order"):
        ov.scan(parquet(tmp_path / "a.parquet", x=X)).u_statistic("x", "gini", n_blocks=4, rng=0)


def test_a_file_under_several_names_is_read_once(tmp_path):
    (tmp_path / "a.csv").write_text("x\n" + "1\n2\n" * 50)
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    (tmp_path / "c.csv").hardlink_to(tmp_path / "a.csv")
    names = [tmp_path / "a.csv", tmp_path / "c.csv", tmp_path / ".." / tmp_path.name / "b.csv"]
    for source in (tmp_path / "*.csv", names):
        assert ov.scan(source).mean("x", contamination=0).plan.n_rows == 100


def test_pipes_devices_and_broken_links_are_named(tmp_path):
    pipe, link = tmp_path / "rows.csv", tmp_path / "link.csv"
    os.mkfifo(pipe)
    link.symlink_to(tmp_path / "nowhere")
    for path in (pipe, "/dev/null"):
        with pytest.raises(ValueError, match="is a pipe or a device, which is read once"):
            ov.scan(path)
    with pytest.raises(FileNotFoundError, match="it is a link that leads nowhere"):
        ov.scan(link)


def test_names_that_differ_in_capitals_only_are_told(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("v,V\n1,2\n3,4\n")
    with pytest.raises(ValueError, match="the columns 'v' and 'V' differ in capitals only: rename one"):
        ov.scan(path).mean("V")
    assert ov.scan(path).mean("v", contamination=0, assume=ov.Bounded(0, 9)).plain == 2.0
