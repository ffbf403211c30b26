"""Block summaries as JSON, bytes and Arrow tables; documents that are broken, or cannot be, are refused at once."""

from __future__ import annotations

import datetime as dt
import json
import math
import pickle
import struct
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from block_summaries import state
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.votes.evidence import Grid


def summaries():
    x = np.random.default_rng(3).normal(size=(60, 2)) / 3
    days = [dt.date(2020, 2, 1 + i % 3) for i in range(60)]
    numbers = np.arange(60) % 4
    yield "empty", ov.BlockSummary(4, 2**70)
    yield "numbers", ov.BlockSummary(7, 1).update(x[:, 0])
    yield "named", ov.BlockSummary(7, 1).update(pd.DataFrame(x, columns=['a "b"', "ü"]))
    yield "table", ov.BlockSummary(3, 1).update(x.reshape(20, 3, 2))
    yield "gaps", ov.BlockSummary(90, 1).update(np.r_[x[:, 0], math.nan], nan_policy="omit").update(
        [math.inf], nan_policy="corrupt")  # fmt: skip
    yield "grouped, empty", ov.GroupedBlockSummary(4, 1)
    yield "grouped", ov.GroupedBlockSummary(3, 1).update(x, numbers)
    yield "grouped by two", ov.GroupedBlockSummary(3, 1).update(x[:, 0], (days, numbers == 1))
    yield "grouped by text", ov.GroupedBlockSummary({"it's": 2, '"': 5, "x": 9}, 1).update(
        np.r_[x[:50, 0], math.nan], np.array(["it's", '"', "x"])[np.arange(51) % 3], nan_policy="omit")  # fmt: skip
    yield "grouped by times", ov.GroupedBlockSummary(2, 1).update(x[:2], [dt.datetime(2020, 1, 1, 5), dt.datetime.min])
    yield "grouped by floats", ov.GroupedBlockSummary(2, 1).update(x[:2], [0.1, -1e300])


SUMMARIES = dict(summaries())


def through_json(summary):
    text = summary.to_json()
    assert json.loads(text, parse_constant=pytest.fail)["version"] == 1
    return type(summary).from_json(text)


def through_bytes(summary):
    return type(summary).from_bytes(bytearray(summary.to_bytes()))


def through_arrow(summary):
    return type(summary).from_arrow(summary.to_arrow())


def through_shuffled_arrow(summary):
    table = summary.to_arrow()
    return type(summary).from_arrow(table.take(np.random.default_rng(0).permutation(table.num_rows)))


@pytest.mark.parametrize("way", [through_json, through_bytes, through_arrow, through_shuffled_arrow])
def test_serialisation_is_lossless(way):
    for summary in SUMMARIES.values():
        read = way(summary)
        assert state(read) == state(summary)
        assert vars(read).keys() == vars(summary).keys()
        if summary.shape is not None:  # and goes on as the first one would
            more = np.ones((3, *summary.shape))
            groups = () if isinstance(summary, ov.BlockSummary) else ([summary.keys[0]] * 3,)
            if groups and isinstance(summary.keys[0], tuple):
                groups = (tuple([one] * 3 for one in summary.keys[0]),)
            copy = pickle.loads(pickle.dumps(summary))
            assert state(read.update(more, *groups)) == state(copy.update(more, *groups))
            assert state(read.merge(summary)) == state(copy.merge(summary))


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


# --- what is broken -----------------------------------------------------------------------------------------------


def tried(kind, read, data):
    """What is read, which is written and read again as it is; or None, after an error that says what this is not."""
    try:
        found = read(data)
    except ValueError as error:
        reason = str(error)
    else:
        assert kind.from_bytes(found.to_bytes()).to_json() == found.to_json()
        return found
    assert reason.startswith((f"this is not a {kind.__name__}", f"this {kind.__name__} "))
    return None


def broken(summary):
    """Documents with something missing, impossible, or of another kind."""
    text = json.loads(summary.to_json())
    for key in text:
        yield {name: value for name, value in text.items() if name != key}
        for value in (None, -1, "x", [], {}, [[]], 1.5, True, math.nan, 10**30, [["a"]], [{"b": 1}]):
            yield {**text, key: value}
    yield from ([], 3, None, "outvote.BlockSummary", {})
    yield {**text, "counts": text["counts"][:-1]}
    yield {**text, "counts": [-1, *text["counts"][1:]]}
    yield {**text, "counts": [0.5, *text["counts"][1:]]}
    yield {**text, "means": text["means"][:-1]}
    yield {**text, "m2": [[-1.0] * len(row) for row in text["m2"]]}
    yield {**text, "means": [[1e999] * len(row) for row in text["means"]]}


@pytest.mark.parametrize("name", ["empty", "named", "gaps", "grouped, empty", "grouped by text"])
def test_broken_json_raises_with_one_message(name):
    summary = SUMMARIES[name]
    found = [tried(type(summary), type(summary).from_json, json.dumps(document)) for document in broken(summary)]
    assert found.count(None) >= (60 if summary.shape is None else 100)  # some changes say what another one would


@settings(max_examples=80)
@given(st.sampled_from(["numbers", "named", "grouped by two"]), st.integers(0, 10**6), st.integers(0, 255))
def test_damaged_bytes_give_a_summary_or_raise(name, place, byte):
    summary = SUMMARIES[name]
    data = bytearray(summary.to_bytes())
    data[place % len(data)] = byte
    tried(type(summary), type(summary).from_bytes, bytes(data))


def test_other_versions_and_kinds_raise():
    summary, grouped = SUMMARIES["numbers"], SUMMARIES["grouped"]
    older = json.dumps({**json.loads(summary.to_json()), "version": 2})
    for read, data, message in (
        (ov.BlockSummary.from_json, older, "has version 2, outvote reads version 1"),
        (ov.BlockSummary.from_json, grouped.to_json(), "not a BlockSummary, but a GroupedBlockSummary"),
        (ov.GroupedBlockSummary.from_bytes, summary.to_bytes(), "not a GroupedBlockSummary, but a BlockSummary"),
        *((ov.BlockSummary.from_json, one, "this is not a BlockSummary")
          for one in ("", "{", "nul", "[" * 100_000, b"\xff\xfe", None)),
        *((ov.BlockSummary.from_bytes, one, "this is not a BlockSummary") for one in (b"", b"x" * 100, "text", None)),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            read(data)
    with pytest.raises(TypeError, match="cannot be written: labels must be text, numbers, booleans or dates"):
        ov.GroupedBlockSummary(2).update([1.0], np.array([1j], dtype=object)).to_json()


def in_bytes(data, magic, header):
    """The same bytes with another header."""
    start = len(magic) + 4
    size = struct.unpack_from("<I", data, len(magic))[0]
    written = json.dumps(json.loads(data[start : start + size]) | header).encode()
    return magic + struct.pack("<I", len(written)) + written + data[start + size :]


def test_truncated_and_foreign_bytes_raise():
    data = SUMMARIES["named"].to_bytes()
    for length in range(0, len(data), 3):
        with pytest.raises(ValueError, match=r"this is not a BlockSummary|this BlockSummary is cut short"):
            ov.BlockSummary.from_bytes(data[:length])
    with pytest.raises(ValueError, match="this BlockSummary is too long: "):
        ov.BlockSummary.from_bytes(data + b"\0")
    with pytest.raises(ValueError, match=r"this BlockSummary is cut short: .* bytes of numbers instead of"):
        ov.BlockSummary.from_bytes(data[:-8])
    assert ov.BlockSummary.from_bytes(in_bytes(data, b"outvote-blocks", {})).n_rows == 60
    for change in ({"n_seen": 0}, {"version": True}, {"n_found_corrupt": 2**53}, {"n_blocks": 9}, {"n_blocks": 10**9}):
        with pytest.raises(ValueError, match=r"has version True|this is not a BlockSummary|cut short"):
            ov.BlockSummary.from_bytes(in_bytes(data, b"outvote-blocks", change))


def test_foreign_and_damaged_arrow_tables_raise():
    table = SUMMARIES["named"].to_arrow()
    assert table.schema.names == ["block", "count", "mean_0", "m2_0", "mean_1", "m2_1"]
    columns = [(0, "block", [0] * 7)]
    columns += [(1, "count", [one] * 7) for one in (0.5, None, True)]
    columns += [(2, "mean_0", one) for one in (["a"] * 7, [True] * 7, [None] + [1.0] * 6)]
    columns += [(3, "m2_0", [one] * 7) for one in (-1.0, "0", None)]
    for foreign in (pa.table({"block": [0]}), table.replace_schema_metadata({"outvote": "{"}), table.drop(["m2_1"]),
                    table.drop(["block"]), 3, None,
                    *(table.set_column(place, name, [column]) for place, name, column in columns)):  # fmt: skip
        with pytest.raises(ValueError, match="this is not a BlockSummary"):
            ov.BlockSummary.from_arrow(foreign)
    with pytest.raises(ValueError, match="cut short: 3 blocks instead of 7"):
        ov.BlockSummary.from_arrow(table.slice(0, 3))


# --- what cannot be, which takes no memory ------------------------------------------------------------------------


BLOCKS = json.loads(ov.BlockSummary(3).update([1.0, 2.0, 3.0]).to_json())
EMPTY = json.loads(ov.BlockSummary(3).to_json())
GROUPS = json.loads(ov.GroupedBlockSummary(3).update([1.0, 2.0, 3.0], ["a", "b", "b"]).to_json())
IMPOSSIBLE_BLOCKS = [
    {"n_blocks": 10**9}, {"n_blocks": 10**400}, {"shape": [10**9]}, {"shape": [10**9] * 10}, {"n_seen": 10**30},
    {"counts": [2**62] * 3}, {"counts": [10**30] * 3}, {"n_found_corrupt": 2**63}, {"n_omitted": 10**30},
    {"counts": [1, 1, 1], "m2": [[5.0]] * 3, "means": [[1.0]] * 3},
    {"counts": [0, 1, 1], "means": [[5.0]] * 3, "m2": [[0.0]] * 3}, {"n_seen": 0}, {"n_seen": 4},
    {"n_found_corrupt": 2**53}, {"n_omitted": 1}, {"counts": [2**31, 1, 1]}, {"version": True}, {"version": 1.0},
    {"means": [["5"]] * 3}, {"means": [[True]] * 3}, {"means": [1.0] * 3}, {"means": [[1.0] * 3]},
    {"m2": [[None]] * 3}, {"m2": [[math.inf]] * 3}, {"m2": [["0"]] * 3}, {"m2": [None] * 3}, {"names": "x"},
    {"names": {"x": 1}}, {"shape": {}}, {"shape": ""}, {"shape": [1] * 99}, {"n_blocks": [3]}, {"seed": True},
    {"counts": [True, 1, 1]},
]  # fmt: skip
IMPOSSIBLE_GROUPS = [
    {"n_blocks": 10**9}, {"n_blocks": 60_000_000}, {"shape": None}, {"shape": [10**9]},
    {"groups": [["a", 10**30, 0], ["b", 0, 0]]}, {"groups": [["a", 1, 0], ["b", 0, 0]]}, {"n_seen": 0},
    {"groups": [["a", 0, 0], ["a", 0, 0]]}, {"groups": [[None, 0, 0], ["b", 0, 0]]}, {"groups": {"a": 0, "b": 0}},
    {"groups": [["a", 0], ["b", 0]]}, {"n_blocks": [["a", 3], ["a", 3]]}, {"n_blocks": [["a", True], ["b", 3]]},
    {"n_blocks": [["a", 3], ["b"]]}, {"n_blocks": {"a": 3, "b": 3}}, {"version": True},
]  # fmt: skip


@pytest.fixture
def little_memory():
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10**7


@pytest.mark.usefixtures("little_memory")
def test_summaries_that_cannot_be_are_refused():
    for kind, good, changes in (
        (ov.BlockSummary, BLOCKS, IMPOSSIBLE_BLOCKS),
        (ov.BlockSummary, EMPTY, [{"n_seen": 5}, {"n_omitted": 5}, {"n_found_corrupt": 5}, {"names": ["a"]}]),
        (ov.GroupedBlockSummary, GROUPS, IMPOSSIBLE_GROUPS),
    ):
        for change in changes:
            assert tried(kind, kind.from_json, json.dumps({**good, **change})) is None, change
    table = ov.BlockSummary(3).update([1.0, 2.0, 3.0]).to_arrow()
    for change in ({"shape": [10**7]}, {"n_blocks": 10**7}):
        header = json.dumps({**json.loads(table.schema.metadata[b"outvote"]), **change})
        with pytest.raises(ValueError, match="this BlockSummary is cut short"):
            ov.BlockSummary.from_arrow(table.replace_schema_metadata({"outvote": header}))


@pytest.mark.usefixtures("little_memory")
def test_more_blocks_than_there_is_room_for_change_nothing():
    assert ov.BlockSummary.from_json(json.dumps({**EMPTY, "n_blocks": 10**7})).n_rows == 0
    for kind in (ov.BlockSummary, ov.GroupedBlockSummary):
        said = rf"n_blocks={10**12} makes .* holds at most 89478485 .* use n_blocks=89478485 or less"
        with pytest.raises(ValueError, match=said):
            kind(10**12)
        with pytest.raises(ValueError, match=f"not a {kind.__name__}: {said}"):
            kind.from_json(json.dumps(json.loads(kind(3).to_json()) | {"n_blocks": 10**12}))
    many, two = ov.GroupedBlockSummary(10**8 // 2), ([1.0, 2.0], ["a", "b"])
    lists = [0], [1], [[1.0, 2.0]], [[0.0, 0.0]]
    for call, message in (
        (lambda: ov.GroupedBlockSummary(1000).update(np.zeros((1002, 150)), np.arange(1002)),
         r"n_blocks=1000 makes 1002000 blocks of 150 columns in 1002 groups.* n_blocks=890 "),
        (lambda: many.update(*two), r"n_blocks=50000000 makes 100000000 blocks .* use n_blocks=44739242 or less"),
        (lambda: ov.GroupedBlockSummary({"a": 10**8 // 2, "b": 10**8 // 2}).update(*two),
         r"n_blocks makes 100000000 blocks .* use fewer groups, blocks or columns"),
        (lambda: ov.BlockSummary(80_000_000).update(np.zeros((2, 2))),
         r"n_blocks=80000000 makes .* of 2 columns.* use n_blocks=53687091 or less"),
        (lambda: ov.BlockSummary.of_blocks(80_000_000, 0, *lists), "n_blocks=80000000 makes"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            call()
    assert (many.keys, many.shape) == ((), None)


def test_what_has_no_room_is_not_merged(monkeypatch):
    one, other = (ov.GroupedBlockSummary(100).update(np.ones(3), [label] * 3) for label in "ab")
    before = one.to_bytes()
    monkeypatch.setattr("outvote.estimate.summary.moments._MOST_NUMBERS", 500)
    for call in (lambda: one.merge(other), lambda: one.update(np.ones(2), ["a", "b"])):
        with pytest.raises(ValueError, match="n_blocks=100 makes 200 blocks of 1 column in 2 groups"):
            call()
    assert one.to_bytes() == before
    assert one.update(np.ones(2), ["a", "a"]).keys == ("a",)
    full = json.dumps({**BLOCKS, "counts": [2**52, 2, 2], "m2": [[0.0]] * 3, "n_seen": 2**52 + 4})
    one, other = (ov.BlockSummary.from_json(full) for _ in range(2))
    before = one.to_bytes()
    with pytest.raises(ValueError, match="more than a summary can count"):
        one.merge(other)
    assert one.to_bytes() == before


KEPT = [
    {"version": True}, {"zeros_and_ones": [2**53, 2**53]}, {"zeros_and_ones": None}, {"zeros_and_ones": [0, 0, 0]},
    {"beyond": math.nan}, {"beyond": None}, {"beyond": 1.0}, {"beyond": True}, {"n_found_corrupt": 2**53},
    {"n_omitted": 2**53 + 1}, {"unit": 1.0}, {"rows": ["5"]}, {"rows": [True]}, {"rows": 5}, {"rows": {"5": 5}},
]  # fmt: skip
COUNTED = [
    {"version": True}, {"zeros_and_ones": [2, 1]}, {"zeros_and_ones": [1, 2]}, {"beyond": 1.0}, {"beyond": None},
    {"n_found_corrupt": 2**53}, {"unit": None}, {"unit": True}, {"square": [2**16, 0, 0]},
]  # fmt: skip


@pytest.mark.parametrize(("bins", "changes"), [(None, KEPT), (Grid(0.5, 1.0), COUNTED)], ids=["kept", "counted"])
def test_row_summaries_that_cannot_be_are_refused(bins, changes):
    made = ov.RowSummary(bins=bins).update([0.0, 1.0, 2.0])
    good, data, table = json.loads(made.to_json()), made.to_bytes(), made.to_arrow()
    header = json.loads(table.schema.metadata[b"outvote"])
    for change in changes:
        reads = [(ov.RowSummary.from_json, json.dumps(good | change))]
        if change.keys() <= header.keys():
            other = table.replace_schema_metadata({"outvote": json.dumps(header | change)})
            reads += [
                (ov.RowSummary.from_bytes, in_bytes(data, b"outvote-rows", change)),
                (ov.RowSummary.from_arrow, other),
            ]
        for read, document in reads:
            with pytest.raises(ValueError, match="RowSummary"):
                read(document)
    for column in [] if bins else (["5"] * 3, [True] * 3, [None, 1.0, 2.0]):
        with pytest.raises(ValueError, match="RowSummary"):
            ov.RowSummary.from_arrow(table.set_column(0, "row", [column]))
