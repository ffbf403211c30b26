"""Documents that claim more than they hold, or what cannot be, are refused before memory is taken for them."""

import json
import tracemalloc

import pytest

import outvote as ov

BLOCKS = json.loads(ov.BlockSummary(3).update([1.0, 2.0, 3.0]).to_json())
EMPTY = json.loads(ov.BlockSummary(3).to_json())
GROUPS = json.loads(ov.GroupedBlockSummary(3).update([1.0, 2.0, 3.0], ["a", "b", "b"]).to_json())
ONE_ROW = {"counts": [1, 1, 1], "m2": [[5.0]] * 3, "means": [[1.0]] * 3}


@pytest.fixture
def little_memory():
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**7


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "change",
    [
        {"n_blocks": 10**9}, {"n_blocks": 10**400}, {"shape": [10**9]}, {"shape": [10**9] * 10}, {"n_seen": 10**30},
        {"counts": [2**62] * 3}, {"counts": [10**30] * 3}, {"n_found_corrupt": 2**63}, {"n_omitted": 10**30}, ONE_ROW,
        {"counts": [0, 1, 1], "means": [[5.0]] * 3, "m2": [[0.0]] * 3},
    ],
)  # fmt: skip
def test_blocks_that_cannot_be_are_refused(change):
    with pytest.raises(ValueError, match="BlockSummary"):
        ov.BlockSummary.from_json(json.dumps({**BLOCKS, **change}))


@pytest.mark.usefixtures("little_memory")
def test_many_blocks_without_rows_take_no_memory():
    assert ov.BlockSummary.from_json(json.dumps({**EMPTY, "n_blocks": 10**9})).n_rows == 0
    with pytest.raises(ValueError, match="more than the hash of rows can tell apart: the most is 2147483647"):
        ov.BlockSummary(10**12)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "change", [{"n_blocks": 10**9}, {"shape": None}, {"shape": [10**9]}, {"groups": [["a", 10**30, 0], ["b", 0, 0]]}]
)
def test_groups_that_cannot_be_are_refused(change):
    with pytest.raises(ValueError, match="GroupedBlockSummary"):
        ov.GroupedBlockSummary.from_json(json.dumps({**GROUPS, **change}))


@pytest.mark.parametrize("change", [{"shape": [10**8]}, {"n_blocks": 10**9}])
def test_tables_that_cannot_be_are_refused(change):
    table = ov.BlockSummary(3).update([1.0, 2.0, 3.0]).to_arrow()
    header = {**json.loads(table.schema.metadata[b"outvote"]), **change}
    tracemalloc.start()
    with pytest.raises(ValueError, match="this BlockSummary is cut short"):
        ov.BlockSummary.from_arrow(table.replace_schema_metadata({"outvote": json.dumps(header)}))
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()
