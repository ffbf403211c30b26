"""The blocks of each epoch: of equal size, different each time, drawn without looking at the values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outvote.learning import epoch_blocks
from outvote.learning.epoch_blocks import PERMUTE_EVERY, BlockShuffler, EpochBlocks, narrow


@pytest.mark.parametrize(("n", "k"), [(10, 3), (100, 1), (101, 50), (1000, 7)])
@pytest.mark.parametrize("rotated", [False, True])
def test_every_row_is_in_at_most_one_block(monkeypatch, n, k, rotated):
    if rotated:
        monkeypatch.setattr(epoch_blocks, "FEW_ROWS", 1)
    shuffler, rng = BlockShuffler(np.arange(n), k), np.random.default_rng(0)
    for _ in range(20):
        blocks = shuffler.draw(rng).rows()
        assert blocks.shape == (n // k, k)
        assert len(np.unique(blocks)) == blocks.size
        assert blocks.min() >= 0
        assert blocks.max() < n


@pytest.mark.parametrize("rotated", [False, True])
def test_any_two_rows_share_a_block_about_as_often_as_under_a_permutation(monkeypatch, rotated):
    if rotated:
        monkeypatch.setattr(epoch_blocks, "FEW_ROWS", 1)
    n, k, n_draws = 30, 6, 6000
    shuffler, rng = BlockShuffler(np.arange(n), k), np.random.default_rng(1)
    shared = np.zeros((n, n))
    for _ in range(n_draws):
        for block in shuffler.draw(rng).rows().T:
            shared[np.ix_(block, block)] += 1
    share = shared[np.triu_indices(n, 1)] / n_draws
    assert share.mean() == pytest.approx(4 / 29)
    # Draws between two permutations are not independent; at the very worst all of them count as one.
    each = PERMUTE_EVERY if rotated else 1
    assert np.abs(share - 4 / 29).max() < 5 * np.sqrt(4 / 29 * 25 / 29 / (n_draws / each))


@given(st.integers(1, 7), st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_each_line_of_the_table_is_rotated_by_its_own_offset(size, n_blocks, per, seed):
    rng = np.random.default_rng(seed)
    order, targets = rng.permutation(size * n_blocks).reshape(size, n_blocks), rng.normal(size=size * n_blocks)
    shifts = np.repeat(rng.integers(n_blocks, size=size), per)[:size]
    drawn = EpochBlocks(order, shifts)
    expected = np.array([np.roll(line, -shift) for line, shift in zip(order, shifts, strict=True)])
    assert drawn.rows().tolist() == expected.tolist()
    blocks = rng.permutation(n_blocks)[: n_blocks // 2 + 1]
    assert drawn.rows(blocks).tolist() == expected[:, blocks].tolist()
    assert drawn.rotated(drawn.ordered(targets)).tolist() == targets[expected].tolist()
    assert EpochBlocks(order).rows().tolist() == order.tolist()
    assert EpochBlocks(order).offsets.tolist() == [0] * size


def test_ordered_targets_are_kept_until_the_next_permutation(monkeypatch):
    monkeypatch.setattr(epoch_blocks, "FEW_ROWS", 1)
    shuffler, rng = BlockShuffler(np.arange(40), 8), np.random.default_rng(0)
    targets, others = rng.normal(size=40), rng.normal(size=40)
    for _ in range(2 * PERMUTE_EVERY + 2):
        drawn = shuffler.draw(rng)
        for values in (targets, others, targets):
            assert drawn.rotated(drawn.ordered(values)).tolist() == values[drawn.rows()].tolist()
    kept = shuffler.draw(rng).ordered(targets)
    assert shuffler.draw(rng).ordered(targets) is kept
    shuffler.forget()
    assert shuffler.draw(rng).ordered(targets) is not kept


def test_row_numbers_take_half_the_memory_where_they_fit():
    assert narrow(np.arange(5)).dtype == np.int32
    assert narrow(np.array([2**31])).dtype == np.int64
    assert narrow(np.array([], dtype=np.int64)).size == 0


def test_rows_of_a_group_stay_in_one_block():
    groups = np.repeat(np.arange(20), 10)
    shuffler, rng = BlockShuffler(np.arange(200), 20, groups), np.random.default_rng(0)
    first, second = shuffler.draw(rng).rows(), shuffler.draw(rng).rows()
    assert first.shape == (10, 20)
    assert all(len(set(groups[block])) == 1 for block in first.T)
    assert not np.array_equal(first, second)
