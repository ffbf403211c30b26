"""Documents that claim more than they hold, or what cannot be, are refused before memory is taken for them."""

import json
import math
import struct
import tracemalloc

import numpy as np
import pytest

import outvote as ov
from outvote.votes.evidence import Grid

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
        {"counts": [0, 1, 1], "means": [[5.0]] * 3, "m2": [[0.0]] * 3}, {"n_seen": 0}, {"n_seen": 4},
        {"n_found_corrupt": 2**53}, {"n_omitted": 1}, {"counts": [2**31, 1, 1]}, {"version": True}, {"version": 1.0},
        {"means": [["5"]] * 3}, {"means": [[True]] * 3}, {"means": [1.0] * 3}, {"means": [[1.0] * 3]},
        {"m2": [[None]] * 3}, {"m2": [[math.inf]] * 3}, {"m2": [["0"]] * 3}, {"m2": [None] * 3}, {"names": "x"},
        {"names": {"x": 1}}, {"shape": {}}, {"shape": ""}, {"shape": [1] * 99}, {"n_blocks": [3]}, {"seed": True},
        {"counts": [True, 1, 1]},
    ],
)  # fmt: skip
def test_blocks_that_cannot_be_are_refused(change):
    with pytest.raises(ValueError, match="BlockSummary"):
        ov.BlockSummary.from_json(json.dumps({**BLOCKS, **change}))


@pytest.mark.usefixtures("little_memory")
def test_many_blocks_without_rows_take_no_memory():
    assert ov.BlockSummary.from_json(json.dumps({**EMPTY, "n_blocks": 10**7})).n_rows == 0
    for n_blocks in (10**9, 10**12):
        said = rf"n_blocks={n_blocks} makes .* holds at most 89478485 .* use n_blocks=89478485 or less"
        for kind in (ov.BlockSummary, ov.GroupedBlockSummary):
            with pytest.raises(ValueError, match=said):
                kind(n_blocks)
            document = json.loads(kind(3).to_json()) | {"n_blocks": n_blocks}
            with pytest.raises(ValueError, match=f"not a {kind.__name__}: {said}"):
                kind.from_json(json.dumps(document))


@pytest.mark.parametrize("change", [{"n_seen": 5}, {"n_omitted": 5}, {"n_found_corrupt": 5}, {"names": ["a"]}])
def test_a_summary_without_columns_has_no_rows(change):
    with pytest.raises(ValueError, match="this is not a BlockSummary"):
        ov.BlockSummary.from_json(json.dumps({**EMPTY, **change}))


@pytest.mark.usefixtures("little_memory")
def test_more_blocks_than_there_is_room_for_change_nothing():
    many = ov.GroupedBlockSummary(10**8 // 2)
    with pytest.raises(
        ValueError, match=r"n_blocks=1000 makes 1002000 blocks of 150 columns in 1002 groups.* n_blocks=890 "
    ):
        ov.GroupedBlockSummary(1000).update(np.zeros((1002, 150)), np.arange(1002))
    with pytest.raises(ValueError, match=r"n_blocks=50000000 makes 100000000 blocks .* use n_blocks=44739242 or less"):
        many.update([1.0, 2.0], ["a", "b"])
    assert (many.keys, many.shape) == ((), None)
    with pytest.raises(ValueError, match=r"n_blocks makes 100000000 blocks .* use fewer groups, blocks or columns"):
        ov.GroupedBlockSummary({"a": 10**8 // 2, "b": 10**8 // 2}).update([1.0, 2.0], ["a", "b"])
    with pytest.raises(ValueError, match=r"n_blocks=80000000 makes .* of 2 columns.* use n_blocks=53687091 or less"):
        ov.BlockSummary(80_000_000).update(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="n_blocks=80000000 makes"):
        ov.BlockSummary.of_blocks(80_000_000, 0, [0], [1], [[1.0, 2.0]], [[0.0, 0.0]])


def test_merged_groups_need_room_too(monkeypatch):
    one, other = (ov.GroupedBlockSummary(100).update(np.ones(3), [label] * 3) for label in "ab")
    before = one.to_bytes()
    monkeypatch.setattr("outvote.estimate.summary.moments._MOST_NUMBERS", 500)
    with pytest.raises(ValueError, match="n_blocks=100 makes 200 blocks of 1 column in 2 groups"):
        one.merge(other)
    with pytest.raises(ValueError, match="n_blocks=100 makes 200 blocks of 1 column in 2 groups"):
        one.update(np.ones(2), ["a", "b"])
    assert one.to_bytes() == before
    assert one.update(np.ones(2), ["a", "a"]).keys == ("a",)


def test_more_rows_than_can_be_counted_are_not_merged():
    full = json.dumps({**BLOCKS, "counts": [2**52, 2, 2], "m2": [[0.0]] * 3, "n_seen": 2**52 + 4})
    one, other = (ov.BlockSummary.from_json(full) for _ in range(2))
    before = one.to_bytes()
    with pytest.raises(ValueError, match="more than a summary can count"):
        one.merge(other)
    assert one.to_bytes() == before


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    "change",
    [
        {"n_blocks": 10**9}, {"n_blocks": 60_000_000}, {"shape": None}, {"shape": [10**9]},
        {"groups": [["a", 10**30, 0], ["b", 0, 0]]}, {"groups": [["a", 1, 0], ["b", 0, 0]]}, {"n_seen": 0},
        {"groups": [["a", 0, 0], ["a", 0, 0]]}, {"groups": [[None, 0, 0], ["b", 0, 0]]}, {"groups": {"a": 0, "b": 0}},
        {"groups": [["a", 0], ["b", 0]]}, {"n_blocks": [["a", 3], ["a", 3]]}, {"n_blocks": [["a", True], ["b", 3]]},
        {"n_blocks": [["a", 3], ["b"]]}, {"n_blocks": {"a": 3, "b": 3}}, {"version": True},
    ],
)  # fmt: skip
def test_groups_that_cannot_be_are_refused(change):
    with pytest.raises(ValueError, match="GroupedBlockSummary"):
        ov.GroupedBlockSummary.from_json(json.dumps({**GROUPS, **change}))


@pytest.mark.parametrize("change", [{"shape": [10**7]}, {"n_blocks": 10**7}])
def test_tables_that_cannot_be_are_refused(change):
    table = ov.BlockSummary(3).update([1.0, 2.0, 3.0]).to_arrow()
    header = {**json.loads(table.schema.metadata[b"outvote"]), **change}
    tracemalloc.start()
    with pytest.raises(ValueError, match="this BlockSummary is cut short"):
        ov.BlockSummary.from_arrow(table.replace_schema_metadata({"outvote": json.dumps(header)}))
    assert tracemalloc.get_traced_memory()[1] < 10**7
    tracemalloc.stop()


def test_columns_of_other_kinds_are_refused_in_tables():
    table = ov.BlockSummary(3).update([1.0, 2.0, 3.0]).to_arrow()
    for place, name, column in (
        (1, "count", [float(n) for n in table["count"].to_pylist()]), (1, "count", [True] * 3),
        (2, "mean_0", ["5"] * 3), (2, "mean_0", [True] * 3), (3, "m2_0", ["0"] * 3), (3, "m2_0", [None] * 3),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="this is not a BlockSummary"):
            ov.BlockSummary.from_arrow(table.set_column(place, name, [column]))


def in_bytes(data, magic, header):
    """The same bytes with another header."""
    start = len(magic) + 4
    size = struct.unpack_from("<I", data, len(magic))[0]
    written = json.dumps(json.loads(data[start : start + size]) | header).encode()
    return magic + struct.pack("<I", len(written)) + written + data[start + size :]


@pytest.mark.parametrize("change", [{"n_seen": 0}, {"version": True}, {"n_found_corrupt": 2**53}, {"n_blocks": 10**9}])
def test_headers_of_bytes_that_cannot_be_are_refused(change):
    data = ov.BlockSummary(3).update([1.0, 2.0, 3.0]).to_bytes()
    assert ov.BlockSummary.from_bytes(in_bytes(data, b"outvote-blocks", {})).n_rows == 3
    with pytest.raises(ValueError, match=r"this BlockSummary has version True|this is not a BlockSummary"):
        ov.BlockSummary.from_bytes(in_bytes(data, b"outvote-blocks", change))


KEPT = [
    {"version": True}, {"zeros_and_ones": [2**53, 2**53]}, {"zeros_and_ones": None}, {"zeros_and_ones": [0, 0, 0]},
    {"beyond": math.nan}, {"beyond": None}, {"beyond": 1.0}, {"beyond": True}, {"n_found_corrupt": 2**53},
    {"n_omitted": 2**53 + 1}, {"unit": 1.0}, {"rows": ["5"]}, {"rows": [True]}, {"rows": 5}, {"rows": {"5": 5}},
]  # fmt: skip
COUNTED = [
    {"version": True}, {"zeros_and_ones": [2, 1]}, {"zeros_and_ones": [1, 2]}, {"beyond": 1.0}, {"beyond": None},
    {"n_found_corrupt": 2**53}, {"unit": None}, {"unit": True}, {"square": [2**16, 0, 0]},
]  # fmt: skip


@pytest.mark.parametrize("binned", [False, True])
def test_row_summaries_that_cannot_be_are_refused(binned):
    made = ov.RowSummary(bins=Grid(0.5, 1.0) if binned else None).update([0.0, 1.0, 2.0])
    good, data, table = json.loads(made.to_json()), made.to_bytes(), made.to_arrow()
    header = json.loads(table.schema.metadata[b"outvote"])
    for change in COUNTED if binned else KEPT:
        with pytest.raises(ValueError, match="RowSummary"):
            ov.RowSummary.from_json(json.dumps(good | change))
        if change.keys() <= header.keys():
            with pytest.raises(ValueError, match="RowSummary"):
                ov.RowSummary.from_bytes(in_bytes(data, b"outvote-rows", change))
            with pytest.raises(ValueError, match="RowSummary"):
                ov.RowSummary.from_arrow(table.replace_schema_metadata({"outvote": json.dumps(header | change)}))
    if not binned:
        for column in (["5"] * 3, [True] * 3, [None, 1.0, 2.0]):
            with pytest.raises(ValueError, match="RowSummary"):
                ov.RowSummary.from_arrow(table.set_column(0, "row", [column]))


@pytest.mark.parametrize("far", [1e300, 1.7e308])
def test_what_far_rows_write_can_be_read(far):
    rows = np.r_[np.zeros(50), np.ones(50), np.full(40, far), np.full(3, -far)]
    blocks = ov.BlockSummary(5).update(rows)
    assert math.isinf(blocks.m2.max())
    counted = ov.RowSummary(bins=Grid(0.0, 1.0)).update(rows).update([math.nan], nan_policy="corrupt")
    for one in (blocks, counted):
        for form in ("json", "bytes", "arrow"):
            again = getattr(type(one), f"from_{form}")(getattr(one, f"to_{form}")())
            assert again.to_json() == one.to_json()
