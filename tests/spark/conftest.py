"""One Spark session for all tests, on two threads of this machine, and data that are asked about in both libraries."""

import sys
import tempfile
import warnings

import pytest
from spark_rows import rows

#: Java is asked to say nothing: not even what it says before Spark sets its own level.
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.memory": "1g",
    # Most of the time goes into compiling short queries.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


def pytest_collection_modifyitems(items):
    """Leave out what PySpark says of a pandas newer than itself."""
    for item in items:
        if "/tests/spark/" in item.path.as_posix():
            item.add_marker(pytest.mark.filterwarnings("ignore:.*pandas:FutureWarning"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """A session with two threads, and partitions small enough that every table has several."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("outvote")
        for name, value in _SETTINGS.items():
            builder = builder.config(name, value)
        builder = builder.config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
        session = builder.config("spark.sql.warehouse.dir", tempfile.gettempdir()).getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def table():
    """The rows that are asked about, as a pandas frame."""
    return rows()


@pytest.fixture(scope="session")
def sources(spark, table, tmp_path_factory):
    """The same rows in Spark: from memory, from one Parquet file, and from several in another order."""
    folder = tmp_path_factory.mktemp("rows")
    one, several = folder / "one.parquet", folder / "several"
    several.mkdir()
    table.to_parquet(one, row_group_size=4_000, index=False)
    mixed = table.sample(frac=1, random_state=0)
    for part in range(3):
        mixed[part * 7_000 : (part + 1) * 7_000].to_parquet(several / f"part-{part}.parquet", index=False)
    return {
        "memory": spark.createDataFrame(table).cache(),
        "file": spark.read.parquet(str(one)),
        "files": spark.read.parquet(str(several)),
    }


@pytest.fixture(params=["brought here", "counted in Spark"])
def where(request, monkeypatch):
    """Let few rows be brought here as they are, as is usual, or let all tables count as large."""
    if request.param == "counted in Spark":
        monkeypatch.setattr("outvote.tables.gathered.FETCHED", 1000)
        monkeypatch.setattr("outvote.tables.scan.FETCHED", 1000)
    return request.param
