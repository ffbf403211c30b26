"""Block summaries of groups."""

from __future__ import annotations

import math

import numpy as np
import pytest
from block_summaries import alike, same_result, state
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov

RNG = np.random.default_rng(0)


def test_each_group_equals_its_own_summary():
    x, city = RNG.normal(size=(500, 2)), RNG.choice(["b", "a", "c"], size=500)
    summary = ov.GroupedBlockSummary(7, 3)
    for rows in np.array_split(np.arange(500), 6):
        assert summary.update(x[rows], city[rows], ids=rows) is summary
    assert set(summary.keys) == {"a", "b", "c"}
    for key in summary.keys:
        mine = np.flatnonzero(city == key)
        expected = ov.BlockSummary(7, 3).update(x[mine], ids=mine)
        alike(summary.group(key), expected)
        same_result(summary.results(contamination=1)[key], expected.result(contamination=1))
    assert repr(summary) == "GroupedBlockSummary(500 rows in 3 groups, seed=3)"
    by_position = ov.GroupedBlockSummary(7, 3).update(x[:100], city[:100]).update(x[100:], city[100:])
    alike(by_position.group("a"), summary.group("a"))


def test_number_of_blocks_per_group_and_several_keys():
    x, a, b = RNG.normal(size=300), np.arange(300) % 2 == 0, np.arange(300) % 3
    blocks = {(bool(i), j): 3 + j + 5 * i for i in range(2) for j in range(3)}
    summary = ov.GroupedBlockSummary(blocks, 0).update(x, (a, b))
    for (i, j), k in blocks.items():
        mine = np.flatnonzero((a == i) & (b == j))
        alike(summary.group((i, j)), ov.BlockSummary(k, 0).update(x[mine], ids=mine))
    with pytest.raises(
        ValueError, match=r"n_blocks has no entry for the group \(True, 7\): it has entries for \(False, 0\)"
    ):
        summary.update([1.0], (np.array([True]), np.array([7])))
    with pytest.raises(KeyError, match="no group is called 'z': the groups are"):
        summary.group("z")


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 50), st.integers(1, 5), st.integers(0, 2**32), st.booleans())
def test_merge_of_summaries_with_different_groups(n_rows, n_parts, seed, own):
    rng = np.random.default_rng(seed)
    x, keys, parts = rng.normal(size=n_rows), rng.integers(0, 6, size=n_rows), rng.integers(0, n_parts, size=n_rows)
    blocks = {key: 2 + key for key in range(6)} if own else 4
    merged = ov.GroupedBlockSummary({} if own else 4, 0)
    for part in rng.permutation(n_parts):
        mine = np.flatnonzero(parts == part)
        here = {key: blocks[key] for key in set(keys[mine].tolist())} if own else 4
        other = ov.GroupedBlockSummary(here, 0).update(x[mine], keys[mine], ids=mine)
        before = state(other)
        merged.merge(other)
        assert state(other) == before
    whole = ov.GroupedBlockSummary(blocks, 0).update(x, keys)
    assert set(merged.keys) == set(whole.keys)
    for key in whole.keys:
        alike(merged.group(key), whole.group(key), atol=1e-14)


def test_merge_of_different_partitions_raises():
    summary = ov.GroupedBlockSummary({"a": 3}, 0).update([1.0], ["a"])
    before = state(summary)
    for blocks, seed in (({"a": 4}, 0), (3, 0), ({"a": 3}, 1)):
        other = ov.GroupedBlockSummary(blocks, seed)
        with pytest.raises(ValueError, match="blocks of different partitions cannot be merged"):
            summary.merge(other)
    assert state(summary) == before


def test_missing_rows_are_counted_per_group():
    x = np.array([1.0, math.nan, 2.0, math.nan, math.inf])
    summary = ov.GroupedBlockSummary(2, 0).update(x[:4], list("aabb"), nan_policy="omit")
    summary.update(x[3:], list("bb"), nan_policy="corrupt")
    assert [(g.n_rows, g.n_omitted, g.n_found_corrupt) for g in map(summary.group, "ab")] == [(1, 1, 0), (3, 1, 2)]
    with pytest.raises(ValueError, match="group 'b': there are NaN or infinite values in 2 rows"):
        summary.results(contamination=0)
    with pytest.raises(ValueError, match="group 'a': contamination=50"):
        summary.results(contamination=50)
