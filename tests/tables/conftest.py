"""A Dask cluster of two workers, files for it, and a check of temporary files."""

import gc
import logging
import tempfile

import pytest
from engines import ASKED_ALL, ENGINES

import outvote as ov


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    from dask_rows import LIMIT

    # A worker that is killed, and the connections it leaves behind, are logged as errors: some tests kill one.
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit=LIMIT,
            dashboard_address=":0",
            processes=True,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as found,
    ):
        yield found


@pytest.fixture
def in_this_thread():
    """Let Dask compute in this thread wherever no client is given."""
    dask = pytest.importorskip("dask")
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """6000 rows in three Parquet files of 17 row groups."""
    from dask_rows import rows, write

    return write(tmp_path_factory.mktemp("files"), rows())


@pytest.fixture
def nothing_left_behind(tmp_path, monkeypatch):
    """Give every test a folder for temporary files, which is empty when it is over."""
    folder = tmp_path / "temporary files"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    if any(folder.iterdir()):  # in a long run of tests it takes its time to collect
        gc.collect()
    assert list(folder.iterdir()) == []


@pytest.fixture(params=ASKED_ALL)
def engine(request, tmp_path):
    """Scan a table on one engine."""
    made = ENGINES[request.param]

    def scanned(table, cuts=(40, 41), row_id=None):
        return ov.scan(row_id=row_id, **made(table, tmp_path, list(cuts)))

    return scanned
