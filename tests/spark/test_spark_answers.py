"""Spark gives the answers that pandas gives, for rows that are brought here and for rows that are counted there."""

import pytest
from spark_rows import both, lines, same_ends

import outvote as ov

QUESTIONS = {
    "mean": lambda scan: scan.mean("x", contamination=0.005),
    "means": lambda scan: scan.mean(["x", "y"], contamination=30, simultaneous=True),
    "mean by city": lambda scan: scan.mean("x", by="city", contamination=0.005),
    "mean by shop": lambda scan: scan.mean(["y", "x"], by="shop", contamination=0.005),
    "mean by day and city": lambda scan: scan.mean("x", by=["day", "city"], contamination=0.01),
    "proportion": lambda scan: scan.proportion("ok"),
    "proportion by day": lambda scan: scan.proportion("ok", by="day"),
    "quantiles": lambda scan: scan.quantile("x", [0.1, 0.5], contamination=20),
    "quantile by city": lambda scan: scan.quantile("y", 0.9, by="city"),
    "difference": lambda scan: scan.difference("x", "city", a="Ulm", b="Bonn"),
    "differences": lambda scan: scan.difference("y", "city", baseline="Köln"),
    "differences of users": lambda scan: scan.variants("y", "shop", unit="user", ratio="x", contamination=20),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_ends_are_those_of_pandas(sources, table, where, question):
    same_ends(*both(sources["memory" if where == "brought here" else "file"], table, QUESTIONS[question]))


@pytest.mark.parametrize("question", ["mean", "mean by city", "quantiles", "differences"])
def test_with_ids_the_order_of_the_rows_is_of_no_matter(sources, table, where, question):
    same_ends(*both(sources["files"], table, QUESTIONS[question], row_id="id"))


def test_tolerance_counts_the_same_rows(sources, table, where):
    two = {"by": "city", "a": "Ulm", "b": "Bonn", "claim": "difference < 0.3"}
    for source, row_id, column, options in (
        ("memory", None, "y", {"claim": "mean > 0.9"}),
        ("files", "id", "x", two),
    ):
        found, expected = both(sources[source], table, lambda scan: scan.tolerance(column, **options), row_id)  # noqa: B023
        assert (found.rows, found.sentence()) == (expected.rows, expected.sentence())
        if where == "brought here":
            assert found.deciding == expected.deciding


def test_answers_by_group_are_spark_frames_with_the_types_of_the_keys(sources):
    from pyspark.sql import DataFrame

    table = ov.scan(sources["memory"]).mean("x", by=["day", "shop", "city"])
    assert isinstance(table, DataFrame)
    types = dict(table.dtypes)
    assert [types[name] for name in ("day", "shop", "city", "estimate", "n")] == [
        "date", "bigint", "string", "double", "bigint",
    ]  # fmt: skip
    keys = [(line["day"], line["shop"], line["city"]) for line in lines(table)]
    assert keys == sorted(keys)


def test_votes_of_blocks_are_those_of_pandas(sources, table):
    for question in (
        lambda scan: scan.mean("y", vote="median", rng=3),
        lambda scan: scan.mean(["x", "y"], n_blocks=101, rng=3),
        lambda scan: scan.variance("y", n_blocks=101, rng=3),
        lambda scan: scan.u_statistic("y", "gini", n_blocks=101, rng=3),
    ):
        found, expected = both(sources["files"], table, question, row_id="id")
        assert found.plan == expected.plan
        assert found.block_sizes.tolist() == expected.block_sizes.tolist()
        assert found.block_values == pytest.approx(expected.block_values, rel=1e-12)
        assert found.interval.low == pytest.approx(expected.interval.low, rel=1e-12)


def test_names_that_mean_something_to_spark_are_names(spark, table):
    from pyspark.sql import functions

    few = table[:300]
    names = {"x": "a.b", "y": "A.B", "ok": "o`k", "city": "c i.ty"}
    frame = spark.createDataFrame(few).select(*(functions.col(name).alias(new) for name, new in names.items()))
    renamed = few.rename(columns=names)
    for question in (
        lambda scan: scan.mean("A.B"),
        lambda scan: scan.mean("a.b", by=["c i.ty", "o`k"]),
    ):
        same_ends(*both(frame, renamed, question))


def test_rows_may_come_out_of_a_shuffle(sources, monkeypatch):
    from pyspark.sql import functions

    monkeypatch.setattr("outvote.tables.gathered.FETCHED", 1000)
    # Spark cuts what comes out into other partitions where it needs fewer columns.
    frame = sources["memory"].groupBy("id", "city").agg(functions.sum("x").alias("x"))
    found, whole = (ov.scan(one).mean("x", contamination=0.005) for one in (frame, sources["memory"]))
    assert found.interval == pytest.approx(whole.interval, rel=1e-3)  # other rows choose the bins
    assert found.plan == whole.plan
