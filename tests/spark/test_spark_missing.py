"""Missing and infinite rows, and what is refused, as with pandas."""

import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from spark_rows import N_ROWS, both, same_ends

import outvote as ov


@pytest.fixture(scope="module")
def gaps(spark):
    """Rows that are NaN, NULL, and in one column infinite: as a pandas frame, and in Spark."""
    rng = np.random.default_rng(1)
    missing, null = rng.random(N_ROWS) < 0.002, rng.random(N_ROWS) < 0.001
    gappy, wild = rng.normal(size=N_ROWS), rng.exponential(size=N_ROWS)
    for column in (gappy, wild):
        column[missing] = math.nan
    wild[rng.choice(N_ROWS, 9, replace=False)] = [math.inf] * 6 + [-math.inf] * 3
    city = np.where(rng.random(N_ROWS) < 0.1, "Ulm", "Bonn")
    given = pa.table({"gappy": pa.array(gappy, mask=null), "wild": pa.array(wild, mask=null), "city": city})
    table = pd.DataFrame({"gappy": np.where(null, math.nan, gappy), "wild": np.where(null, math.nan, wild)})
    return table.assign(city=city), spark.createDataFrame(given).cache()


def answered(scan, method, *args, **options):
    """Return what is answered, or what is said instead."""
    try:
        return getattr(scan, method)(*args, **options)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize(
    ("policy", "asked"),
    [
        ("raise", ("mean", "gappy")),
        ("raise", ("mean", "gappy", "city")),
        ("raise", ("quantile", "wild")),
        ("omit", ("mean", "gappy")),
        ("omit", ("mean", ["gappy", "wild"])),
        ("omit", ("mean", "wild", "city")),
        ("omit", ("quantile", "wild", 0.5)),
        ("corrupt", ("mean", "wild")),
        ("corrupt", ("mean", ["gappy", "wild"], "city")),
        ("corrupt", ("difference", "gappy", "city")),
        ("corrupt", ("quantile", "wild", 0.9, "city")),
    ],
)
def test_policies_say_and_answer_the_same(gaps, where, policy, asked):
    table, frame = gaps
    found, expected = both(frame, table, lambda scan: answered(scan, *asked, contamination=0.01, nan_policy=policy))
    if isinstance(expected, str):
        assert found == expected
        assert policy != "corrupt"
    else:
        same_ends(found, expected)


def test_refusals_are_one_sentence(spark, sources):
    from pyspark.sql import functions

    frame = sources["memory"]
    without = frame.withColumn("id", functions.when(functions.col("id") > 30, functions.col("id")))
    some = frame.withColumn("city", functions.when(functions.col("city") != "Ulm", functions.col("city")))
    broken = frame.select(functions.raise_error(functions.lit("no such disk")).cast("double").alias("x"))
    pair = frame.select("x", functions.struct("x", "y").alias("both"))
    numberless = ov.scan(without, row_id="id")
    refused = {
        "column='city' holds String values, but real numbers are needed": lambda: ov.scan(frame).mean("city"),
        "column='z' is not a column: there are 'id'": lambda: ov.scan(frame).mean("z"),
        "by='both' holds Struct": lambda: ov.scan(pair).mean("x", by="both"),
        "by='city' is NULL in some rows": lambda: ov.scan(some).mean("x", by="city"),
        "row_id='city' must be a column of integers": lambda: ov.scan(frame, row_id="city"),
        "row_id='id' is not a whole number in some": lambda: numberless.mean("x"),
        "row_id='id' is not a whole number in some rows": lambda: numberless.mean("x", by="city"),
        "a lazy pyspark frame does not number its rows": lambda: ov.scan(frame).mean("x", vote="median"),
        "blocks of a lazy pyspark frame have one answer": lambda: ov.scan(frame, row_id="id").difference(
            "x", "city", "Ulm", "Bonn", vote="median"
        ),
        "column 'x' has no usable rows": lambda: ov.scan(frame.limit(0)).mean("x"),
        "the lazy pyspark frame cannot be read: .*no such disk": lambda: ov.scan(broken).mean("x"),
        "source has two columns with the same name: 'x'": lambda: ov.scan(frame.select("x", "x")),
    }
    for said, ask in refused.items():
        with pytest.raises((TypeError, ValueError), match=said) as error:
            ask()
        assert "\n" not in str(error.value)


def test_a_file_that_is_gone_is_named(spark, table, tmp_path):
    path = tmp_path / "rows.parquet"
    table[:100].to_parquet(path)
    scan = ov.scan(spark.read.parquet(str(path)))
    path.unlink()
    with pytest.raises(ValueError, match=r"the lazy pyspark frame cannot be read: .*rows\.parquet") as error:
        scan.mean("x")
    assert "\n" not in str(error.value)
