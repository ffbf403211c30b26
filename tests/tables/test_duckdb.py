"""DuckDB tables, relations and files: names are escaped, types supported, connections unchanged."""

from __future__ import annotations

import numpy as np
import pytest

import outvote as ov
from outvote.blocks.hashing import hash_rows

duckdb = pytest.importorskip("duckdb")
nw = pytest.importorskip("narwhals")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
from duckdb_rows import X, agrees, asked, parquet  # noqa: E402

pytestmark = pytest.mark.usefixtures("nothing_left_behind")


def lines_of(answer):
    return nw.from_native(answer).lazy().collect().rows(named=True)


# --- escaping of names and labels -------------------------------------------------------------------------------------

NAMES = ['x"; DROP TABLE stored; --', "x'); DROP TABLE stored; --", "Größe, 温度 🌡", "line\nbreak\ttab\\", "filename",
         "file_row_number", "file_index", "block", "id", "v0", "k0", "h", "owner", "given", "missing", "outvote_source",
         "rows", "count(*)", "*", "x.y", "$1", "%s", "{x}", "getvariable('files')"]  # fmt: skip


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


def test_column_names_are_escaped(tmp_path):
    """Names that look like SQL, like our own, or like DuckDB's columns are columns like others."""
    values = X[:, None] + np.arange(len(NAMES))
    key = np.array(["a", "b"])[np.arange(300) % 2]
    for source, connection in sources(pa.table({name: values[:, j] for j, name in enumerate(NAMES)}), tmp_path):
        scan = ov.scan(**source)
        for names in (NAMES[::-1], ["v0", "x.y", "id"]):
            found = scan.mean(names, rng=1, n_blocks=11)
            assert agrees(found, values[:, [NAMES.index(name) for name in names]])
            assert found.names == tuple(names)
        assert connection.sql("SELECT count(*) FROM stored").fetchall() == [(300,)]
    turned = pa.table({**dict.fromkeys(NAMES, key), "value": X, "number": np.arange(300)[::-1]})
    for source, connection in sources(turned, tmp_path):
        scan = ov.scan(row_id="number", **source)
        for names in (NAMES, ["count(*)", "k0"]):
            lines = lines_of(scan.mean("value", by=names, rng=1, n_blocks=11))
            assert [[line[name] for name in names] for line in lines] == [["a"] * len(names), ["b"] * len(names)]
            for label, line in zip("ab", lines, strict=True):
                mine = key == label
                right = ov.BlockSummary(11, 1).update(X[mine], ids=np.arange(300)[::-1][mine])
                assert line["estimate"] == pytest.approx(np.median(right.means), rel=1e-12)
            for label, line in zip("ab", lines_of(scan.mean("value", by=names)), strict=True):
                right = ov.mean(X[key == label])
                assert [line[name] for name in (*names, "n")] == [label] * len(names) + [150]
                assert (line["low"], line["high"]) == pytest.approx(right.interval, rel=1e-9)
        assert connection.sql("SELECT count(*) FROM stored").fetchall() == [(300,)]


@pytest.mark.parametrize("name", ["rows", "x'); DROP TABLE stored; --", "FILE_ROW_NUMBER", "filename", "position"])
def test_rows_are_numbered_and_identified_whatever_their_columns_are_called(tmp_path, name):
    ids = np.random.default_rng(0).permutation(300)
    right = ov.BlockSummary(11, 1).update(X, ids=ids)
    for source, _ in sources(pa.table({name: ids, "x": X}), tmp_path):
        assert agrees(asked(**source))
        np.testing.assert_allclose(asked(row_id=name, **source).block_values, right.means, rtol=1e-12)


LABELS = ["'; DROP TABLE stored; --", 'say "no"', "it's", "''", "", " ", "NULL", "nan", "a\nb", "\\", "\0", "ü 🌡",
          "1", "%"]  # fmt: skip


def test_group_labels_are_escaped(tmp_path):
    """Texts that look like SQL, like nothing, or like numbers are labels like others."""
    labels = np.array(LABELS, dtype=object)[np.arange(300) % len(LABELS)]
    table = pa.table({"x": X, "g": pa.array(labels), "number": np.arange(300)})
    for source, connection in sources(table, tmp_path):
        if str(source["source"]).endswith(".csv"):
            continue  # a CSV does not tell an empty text from NULL
        scan = ov.scan(row_id="number", **source)
        lines = lines_of(scan.mean("x", by="g", rng=1, contamination=0, n_blocks=3))
        assert [line["g"] for line in lines] == sorted(LABELS)
        for line in lines:
            mine = np.array([label == line["g"] for label in labels])
            right = ov.BlockSummary(3, 1).update(X[mine], ids=np.flatnonzero(mine)).result(0)
            assert (line["n"], line["estimate"]) == (mine.sum(), pytest.approx(right.estimate, rel=1e-12))
        for vote in ("auto", "median"):
            difference = scan.difference("x", "g", a=LABELS[0], b="it's", rng=1, contamination=0, vote=vote)
            assert difference.detail.startswith(f'a is g = {LABELS[0]!r}, b is g = "it\'s".')
        assert connection.sql("SELECT count(*) FROM stored").fetchall() == [(300,)]


def test_table_names_are_escaped():
    connection = duckdb.connect()
    for name in ("t", 'my "table"; DROP TABLE t', "outvote_source", "source"):
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


def test_user_connection_is_not_modified():
    connection = duckdb.connect()
    connection.register("given", pa.table({"x": X, "g": np.arange(300) % 2}))
    connection.execute("CREATE TABLE t AS FROM given; SET memory_limit = '123MB'")
    about = (
        "SELECT view_name FROM duckdb_views() UNION SELECT table_name FROM duckdb_tables()",
        "SELECT name, value FROM duckdb_settings()",
        "FROM t",
    )
    before = [sorted(connection.sql(sql).fetchall()) for sql in about]
    for scan in (ov.scan(connection, table="t"), ov.scan(connection.sql("SELECT * FROM t WHERE x < 9"))):
        for vote in ("auto", "median"):
            answer = scan.mean("x", by="g", rng=1, vote=vote)
            assert isinstance(answer, duckdb.DuckDBPyRelation)
            assert answer.columns[:2] == ["g", "estimate"]
            assert connection.sql("SELECT sum(n) FROM answer").fetchall() == [(300,)]  # of the same connection
        scan.u_statistic("x", "gini", rng=1)
    assert [sorted(connection.sql(sql).fetchall()) for sql in about] == before


def test_connection_without_python_replacements():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT range::DOUBLE AS x, range % 2 AS g FROM range(100)")
    connection.execute("SET python_enable_replacements = false")
    for vote in ("auto", "median"):
        answer = ov.scan(connection.table("t")).mean("x", by="g", vote=vote)
        assert answer.to_arrow_table()["n"].to_pylist() == [50, 50]


# --- row ids and keys ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint32(), pa.uint64()])
def test_row_ids_of_every_integer_type(tmp_path, kind):
    ids = np.arange(100)[::-1]
    path = parquet(tmp_path / "a.parquet", id=pa.array(ids, kind), x=X[:100])
    found = ov.scan(path, row_id="id").mean("x", n_blocks=7, rng=0)
    np.testing.assert_array_equal(found.block_sizes, np.bincount(hash_rows(ids, 0) % 7))
    np.testing.assert_allclose(found.block_values, ov.BlockSummary(7, 0).update(X[:100], ids).means, rtol=1e-12)


@pytest.mark.parametrize("vote", ["auto", "median"])
def test_invalid_row_ids_raise(tmp_path, vote):
    path = parquet(tmp_path / "a.parquet", id=pa.array([2**63, 1], pa.uint64()), n=[1, None], b=[True, False], x=X[:2])
    with pytest.raises(ValueError, match=r"row_id='id' has the value 9223372036854775808: row ids lie below 2\*\*63"):
        ov.scan(path, row_id="id").mean("x", vote=vote)
    with pytest.raises(ValueError, match="row_id='n' is not a whole number in some rows"):
        ov.scan(path, row_id="n").mean("x", vote=vote)
    with pytest.raises(TypeError, match="row_id='b' must be a column of integers"):
        ov.scan(path, row_id="b")
    for value in (2**63, -(2**63) - 1):
        huge = duckdb.sql(f"SELECT {value}::HUGEINT AS id, 1.0 AS x")
        with pytest.raises(ValueError, match=f"row_id='id' has the value {value}"):
            ov.scan(huge, row_id="id").mean("x", vote=vote)
    fine = duckdb.sql("SELECT range::HUGEINT AS id, range::DOUBLE AS x FROM range(300)")
    assert agrees(asked(fine, row_id="id"), np.arange(300.0))


KEYS = {
    "ENUM": "CASE WHEN i % 2 = 0 THEN 'u' ELSE 'it''s' END::ENUM('it''s', 'u')",
    "UUID": "concat('00000000-0000-0000-0000-00000000000', i % 2)::UUID",
    "HUGEINT": "(i % 2)::HUGEINT * 170141183460469231731687303715884105",
    "UBIGINT": "(i % 2)::UBIGINT + 18446744073709551614",
    "FLOAT": "(i % 2 + 0.1)::FLOAT",
    "TIMESTAMP_NS": "'2020-01-01 00:00:00.000001'::TIMESTAMP_NS + (i % 2)::INTEGER * INTERVAL 1 DAY",
    "TIMESTAMPTZ": "'2020-01-01 00:00:00+02'::TIMESTAMPTZ + (i % 2)::INTEGER * INTERVAL 1 DAY",
    "TIME": "'03:04:05.6'::TIME + (i % 2)::INTEGER * INTERVAL 1 HOUR",
}


@pytest.mark.parametrize("kind", KEYS)
def test_keys_of_duckdb_types(kind):
    table = duckdb.sql(f"SELECT i, i::DOUBLE AS x, {KEYS[kind]} AS k FROM range(200) AS t(i)")
    scan, ids = ov.scan(table, row_id="i"), np.arange(200)
    for vote in ("auto", "median"):
        answer = scan.mean("x", by="k", rng=0, contamination=1, vote=vote).to_arrow_table()
        labels = answer["k"].to_pylist()
        assert len(labels) == 2
        assert answer["n"].to_pylist() == [100, 100]
        for label, estimate in zip(labels, answer["estimate"].to_pylist(), strict=True):
            mine = ids[ids % 2 == (labels.index(label) if kind != "ENUM" else label != "u")]
            k = ov.plan_blocks(100, 1).n_blocks
            by_blocks = ov.BlockSummary(k, 0).update(mine * 1.0, mine).result(1)
            right = by_blocks if vote == "median" else ov.mean(mine * 1.0, 1)
            assert estimate == pytest.approx(right.estimate)


@pytest.mark.parametrize("kind", ["'a'::BLOB", "{'a': 1}", "INTERVAL 1 DAY"])
def test_keys_of_unsupported_types_raise(kind):
    with pytest.raises(TypeError, match=r"by='k' holds .* values, but a key is text, a number, a boolean or a date"):
        ov.scan(duckdb.sql(f"SELECT 1.0 AS x, {kind} AS k")).mean("x", by="k")


@pytest.mark.parametrize("key", ["NULL::VARCHAR", "'nan'::DOUBLE", "NULL::DATE"])
def test_missing_keys_raise(key):
    table = duckdb.sql(f"SELECT 1.0 AS x, {key} AS k")
    with pytest.raises(ValueError, match="by='k' is NULL in some rows: fill it, or filter these rows out"):
        ov.scan(table).mean("x", by="k")


@pytest.mark.parametrize("kind", ["DECIMAL(20, 3)", "HUGEINT", "FLOAT", "BOOLEAN"])
def test_columns_of_every_numeric_type(kind):
    table = duckdb.sql(f"SELECT (range % 2)::{kind} AS x FROM range(300)")
    assert agrees(asked(table), np.arange(300) % 2.0)


def test_a_group_of_nothing_but_null_is_counted():
    table = duckdb.sql("SELECT CASE WHEN range < 50 THEN range::DOUBLE END AS x, range < 50 AS k FROM range(60)")
    with pytest.raises(ValueError, match="NULL, NaN or infinite values in 10 of 60 rows"):
        ov.scan(table).mean("x", by="k")
    answer = ov.scan(table).mean("x", by="k", contamination=0, nan_policy="omit").to_arrow_table().to_pylist()
    assert [line["n"] for line in answer if line["k"]] == [50]


def test_zeros_of_both_signs_are_one_group():
    table = duckdb.sql(
        "SELECT range::DOUBLE AS x, CASE WHEN range % 2 = 0 THEN 0.0 ELSE -0.0 END::DOUBLE AS k FROM range(99)"
    )
    for vote in ("auto", "median"):
        answer = ov.scan(table).mean("x", by="k", rng=0, contamination=0, vote=vote).to_arrow_table()
        assert answer.select(["k", "n"]).to_pylist() == [{"k": 0.0, "n": 99}]


def test_many_groups(tmp_path):
    n = 3000
    labels = np.arange(n) % 1000
    path = parquet(tmp_path / "a.parquet", x=np.arange(n, dtype=float), k=labels, s=[f"g{i:04d}" for i in labels])
    answer = ov.scan(path).mean("x", by=["k", "s"], contamination=0, n_blocks=1, assume=ov.FiniteVariance(1), rng=0)
    assert answer["k"].tolist() == list(range(1000))
    np.testing.assert_allclose(answer["estimate"].to_numpy(), np.arange(1000) + 1000.0, rtol=1e-12)


# --- memory, disk, connections ----------------------------------------------------------------------------------------


def test_closed_connection_raises():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1.0 AS x")
    scan = ov.scan(connection, table="t")
    connection.close()
    for ask in (lambda: scan.mean("x"), lambda: scan.mean("x", vote="median"), lambda: ov.scan(connection, table="t")):
        with pytest.raises(ValueError, match=r"DuckDB table 't' cannot be read: .*[Cc]onnection"):
            ask()


def test_repr_of_a_scan(tmp_path):
    a, b = (parquet(tmp_path / f"{name}.parquet", x=X) for name in "ab")
    assert repr(ov.scan(a)) == f"Scan({a})"
    assert repr(ov.scan([a, b])) == f"Scan({a} and 1 other file)"
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1.0 AS x")
    assert repr(ov.scan(connection, table="t")) == "Scan(DuckDB table 't')"
    assert repr(ov.scan(connection.table("t"))) == "Scan(DuckDB relation)"


def test_tables_of_the_user_are_not_taken_for_ours():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT i % 2 AS k, i::DOUBLE AS v FROM range(1000) rows(i)")
    for name in ("outvote_answer", "outvote_source", "outvote_answer_25f8d1c0"):
        connection.execute(f"CREATE TABLE {name} AS SELECT 42 AS mine")
    found = ov.scan(connection.sql("SELECT * FROM t")).mean("v", "k")
    assert found.columns[:2] == ["k", "estimate"]
    assert ov.scan(connection.sql("SELECT * FROM t")).mean("v").plan.n_rows == 1000
