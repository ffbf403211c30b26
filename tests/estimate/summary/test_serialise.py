"""Block summaries as JSON, bytes and Arrow tables; broken documents raise."""

from __future__ import annotations

import datetime as dt
import json
import math
import pickle
import struct

import numpy as np
import pytest
from block_summaries import state
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov

pd = pytest.importorskip("pandas")


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


SUMMARIES = list(summaries())


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


WAYS = [through_json, through_bytes, through_arrow, through_shuffled_arrow]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("summary", [one for _, one in SUMMARIES], ids=[name for name, _ in SUMMARIES])
def test_serialisation_is_lossless(summary, way):
    if "arrow" in way.__name__:
        pytest.importorskip("pyarrow")
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


def tried(read, data):
    """What is read, or why not."""
    try:
        return read(data), ""
    except ValueError as error:
        return None, str(error)


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


@pytest.mark.parametrize("summary", [one for _, one in SUMMARIES], ids=[name for name, _ in SUMMARIES])
def test_broken_json_raises_with_one_message(summary):
    kind, name = type(summary), type(summary).__name__
    found = [tried(kind.from_json, json.dumps(document)) for document in broken(summary)]
    reasons = [reason for read, reason in found if read is None]
    assert all(reason.startswith((f"this is not a {name}", f"this {name} ")) for reason in reasons)
    assert len(reasons) >= (60 if summary.shape is None else 100)
    for read in (read for read, _ in found if read is not None):  # some changes say no more than another summary would
        assert kind.from_bytes(read.to_bytes()).to_json() == read.to_json()


@pytest.mark.parametrize("key", ["version", "n_blocks", "seed", "shape", "names", "n_seen", "n_found_corrupt", "counts",
                                 "means", "m2", "format", "n_omitted"])  # fmt: skip
def test_json_with_a_missing_key_raises(key):
    document = json.loads(SUMMARIES[1][1].to_json())
    del document[key]
    with pytest.raises(ValueError, match=r"this is not a BlockSummary|has version None"):
        ov.BlockSummary.from_json(json.dumps(document))


def test_other_versions_and_kinds_raise():
    summary, grouped = SUMMARIES[1][1], SUMMARIES[6][1]
    with pytest.raises(ValueError, match="has version 2, outvote reads version 1"):
        ov.BlockSummary.from_json(json.dumps({**json.loads(summary.to_json()), "version": 2}))
    with pytest.raises(ValueError, match="not a BlockSummary, but a GroupedBlockSummary"):
        ov.BlockSummary.from_json(grouped.to_json())
    with pytest.raises(ValueError, match="not a GroupedBlockSummary, but a BlockSummary"):
        ov.GroupedBlockSummary.from_bytes(summary.to_bytes())
    for text in ("", "{", "nul", "[" * 100_000, b"\xff\xfe", None):
        with pytest.raises(ValueError, match="this is not a BlockSummary"):
            ov.BlockSummary.from_json(text)
    for data in (b"", b"x" * 100, "text", None, b"PAR1"):
        with pytest.raises(ValueError, match="this is not a BlockSummary"):
            ov.BlockSummary.from_bytes(data)
    with pytest.raises(TypeError, match="cannot be written: labels must be text, numbers, booleans or dates"):
        ov.GroupedBlockSummary(2).update([1.0], np.array([1j], dtype=object)).to_json()


def test_truncated_bytes_raise():
    data = SUMMARIES[2][1].to_bytes()
    for length in range(len(data)):
        with pytest.raises(ValueError, match=r"this is not a BlockSummary|this BlockSummary is cut short"):
            ov.BlockSummary.from_bytes(data[:length])
    with pytest.raises(ValueError, match="this BlockSummary is too long: "):
        ov.BlockSummary.from_bytes(data + b"\0")
    with pytest.raises(ValueError, match=r"this BlockSummary is cut short: .* bytes of numbers instead of"):
        ov.BlockSummary.from_bytes(data[:-8])
    bomb = data.replace(b'"n_blocks": 7', b'"n_blocks": 9')
    with pytest.raises(ValueError, match="cut short"):
        ov.BlockSummary.from_bytes(bomb)
    header = json.dumps({**json.loads(SUMMARIES[1][1].to_json()), "n_blocks": 10**7}).encode()
    with pytest.raises(ValueError, match="cut short"):  # before room is made for so many blocks
        ov.BlockSummary.from_bytes(data[: data.index(b"{") - 4] + struct.pack("<I", len(header)) + header)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([1, 2, 7]), st.integers(0, 10**6), st.integers(0, 255))
def test_damaged_bytes_give_a_summary_or_raise(which, place, byte):
    summary = SUMMARIES[which][1]
    data = bytearray(summary.to_bytes())
    data[place % len(data)] = byte
    name = type(summary).__name__
    read, reason = tried(type(summary).from_bytes, bytes(data))
    if read is None:
        assert reason.startswith((f"this is not a {name}", f"this {name} "))
    else:
        assert type(summary).from_bytes(read.to_bytes()).to_json() == read.to_json()


def test_foreign_and_damaged_arrow_tables_raise():
    pa = pytest.importorskip("pyarrow")
    table = SUMMARIES[2][1].to_arrow()
    for foreign in (pa.table({"block": [0]}), table.replace_schema_metadata({"outvote": "{"}), table.drop(["m2_1"]),
                    table.drop(["block"]), table.set_column(0, "block", [[0] * 7]), 3, None,
                    table.set_column(1, "count", [[0.5] * 7]), table.set_column(1, "count", [[None] * 7]),
                    table.set_column(2, "mean_0", [["a"] * 7]), table.set_column(2, "mean_0", [[None] + [1.0] * 6]),
                    table.set_column(3, "m2_0", [[-1.0] * 7])):  # fmt: skip
        with pytest.raises(ValueError, match="this is not a BlockSummary"):
            ov.BlockSummary.from_arrow(foreign)
    with pytest.raises(ValueError, match="cut short: 3 blocks instead of 7"):
        ov.BlockSummary.from_arrow(table.slice(0, 3))
    assert table.schema.names == ["block", "count", "mean_0", "m2_0", "mean_1", "m2_1"]
