"""Blocks: how many there are, how they are drawn in each epoch, and which of them the vote chooses."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outvote.contamination import Contamination
from outvote.learning import epoch_blocks
from outvote.learning.epoch_blocks import PERMUTE_EVERY, BlockShuffler, EpochBlocks, narrow
from outvote.learning.losses import PairLogistic, Squared
from outvote.learning.n_blocks import blocks_for, corrupt_in_part, plan_one_sample, plan_two_samples
from outvote.learning.voting import Cell, in_the_middle, middle_blocks

AUTO = {"n_blocks": "auto", "algorithm": "robust"}

# --- how many blocks -------------------------------------------------------------------------------------------


def plan_or_the_largest(plan, counts, where=""):
    """Plan the blocks; if there are too many corrupt rows, plan with the most that the error names."""
    try:
        return plan(counts)
    except ValueError as error:
        largest = int(re.search(rf"is (\d+) rows{where}", str(error)).group(1))
        assert largest < np.max(counts)
        with pytest.raises(ValueError, match="largest contamination"):
            plan(np.full_like(counts, largest + 1))
        return plan(np.full_like(counts, largest))


@given(st.integers(2, 2000), st.integers(0, 1000), st.sampled_from([1, 2]))
def test_the_blocks_outvote_the_corrupt_rows_or_the_error_names_a_contamination_that_works(n_rows, n_corrupt, degree):
    plan = plan_or_the_largest(
        lambda m: plan_one_sample(n_rows, int(m), degree, contamination=int(m), **AUTO), n_corrupt
    )
    assert plan.holds
    assert plan.block_size >= degree


@given(st.tuples(st.integers(1, 600), st.integers(1, 600)), st.tuples(st.integers(0, 200), st.integers(0, 200)))
def test_two_samples_share_their_number_of_blocks(sizes, counts):
    plan = plan_or_the_largest(
        lambda m: plan_two_samples(sizes, tuple(int(one) for one in m), **AUTO), counts, " .* in each sample"
    )
    assert plan.holds
    assert len(set(plan.n_blocks)) == 1
    assert min(plan.block_size) >= 1


def test_the_error_quotes_the_contamination_as_given():
    for given_as in (0.3, Contamination(0.3)):
        with pytest.raises(ValueError, match=r"contamination=0.3 asks for 61 blocks of at least 2 rows, .* 100 rows"):
            plan_one_sample(100, 30, 2, contamination=given_as, **AUTO)


def test_corrupt_rows_in_a_random_part_and_numbers_of_blocks():
    assert corrupt_in_part(0, 10, 100, 1) == 0
    assert corrupt_in_part(20, 100, 100, 1) == 20
    assert corrupt_in_part(20, 50, 100, 1) == 15  # 10 on average, and 2·√5 more, rounded up
    assert corrupt_in_part(20, 10, 100, 1) == 4  # no more than a vote of single rows can tolerate
    assert blocks_for(10**6, 5, degree=1) == 11  # single rows take no more blocks than they need
    assert blocks_for(10**6, 5, degree=2) == 3907


# --- the blocks of each epoch ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rotated", [False, True])
def test_every_row_is_in_at_most_one_block_and_any_two_share_one_equally_often(monkeypatch, rotated):
    if rotated:
        monkeypatch.setattr(epoch_blocks, "FEW_ROWS", 1)
    n, k, n_draws = 31, 6, 3000
    shuffler, rng = BlockShuffler(np.arange(n), k), np.random.default_rng(1)
    shared = np.zeros((n, n))
    for _ in range(n_draws):
        blocks = shuffler.draw(rng).rows()
        assert blocks.shape == (n // k, k)
        assert len(np.unique(blocks)) == blocks.size
        for block in blocks.T:
            shared[np.ix_(block, block)] += 1
    share, expected = shared[np.triu_indices(n, 1)] / n_draws, 6 * 5 * 4 / (31 * 30)
    assert share.mean() == pytest.approx(expected)
    # Draws between two permutations are not independent; at the very worst all of them count as one.
    each = PERMUTE_EVERY if rotated else 1
    assert np.abs(share - expected).max() < 5 * np.sqrt(expected * (1 - expected) / (n_draws / each))


@given(st.integers(1, 7), st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
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
    assert EpochBlocks(order).rows(blocks).tolist() == order[:, blocks].tolist()
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


# --- the vote ---------------------------------------------------------------------------------------------------


def test_fewer_middle_blocks_are_chosen_where_corrupt_blocks_could_reach_them():
    assert middle_blocks(1000, 0, None) == 1000
    assert middle_blocks(1000, 10, None) == 250
    assert middle_blocks(1001, 500, None) == 213  # 1 - 2·(1 - e^(-1/2)) of them
    assert middle_blocks(1001, 500, 0.5) == 213
    assert middle_blocks(1000, 900, None) == 1
    assert middle_blocks(8, 0, 0.0) == 1
    assert middle_blocks(1, 0, None) == 1


@given(
    st.lists(st.sampled_from([0.0, 1.0, 2.0, np.inf]), min_size=1, max_size=8), st.integers(0, 9), st.integers(0, 1000)
)
def test_the_chosen_blocks_have_the_middle_of_the_sorted_risks(risks, n_chosen, seed):
    risks = np.array(risks)
    chosen = in_the_middle(risks, np.random.default_rng(seed), len(risks), n_chosen)
    n_chosen = min(max(1, n_chosen), len(risks))
    low = (len(risks) - n_chosen) // 2
    assert len(set(chosen)) == n_chosen
    assert sorted(risks[chosen]) == sorted(risks)[low : low + n_chosen]


def cell(n_blocks, n_chosen, **options):
    return Cell((np.arange(4 * n_blocks),), n_blocks, n_chosen, **options)


def test_the_median_block_is_the_lower_one_of_two_and_ties_are_broken_at_random():
    rng = np.random.default_rng(0)
    assert cell(4, 1).choose(np.array([4.0, 1.0, 3.0, 2.0]), rng).tolist() == [3]
    assert sorted(cell(5, 3).choose(np.array([5.0, 1.0, 3.0, np.inf, 4.0]), rng)) == [0, 2, 4]
    assert sorted(cell(3, 3).choose(np.ones(3), rng)) == [0, 1, 2]
    chosen = np.concatenate([cell(9, 1).choose(np.ones(9), rng) for _ in range(900)])
    counts = np.bincount(chosen, minlength=9)
    assert 50 < counts.min() <= counts.max() < 150


def test_blocks_without_a_pair_in_a_group_do_not_vote():
    risks = np.array([np.inf, 3.0, np.inf, 1.0, 2.0])
    assert cell(5, 1, groups=np.zeros(20, dtype=int)).choose(risks, np.random.default_rng(0)).tolist() == [4]


class Rows:
    def __init__(self, x):
        self.x = x

    def pull(self, rows, slopes):
        return np.einsum("bkd,bk->kd", self.x[rows], slopes)


def test_clipped_gradients_are_no_longer_than_the_median_one():
    x = np.ones((20, 1))
    x[0] = 1e6
    given_rows = np.zeros(20), np.full(20, -1.0), (np.arange(20).reshape(4, 5, order="F"),)
    plain, clipped = (cell(5, 5, clipped=c).gradient(Squared(), Rows(x), *given_rows) for c in (0, 1))
    assert plain[0] > 1e4
    assert clipped == pytest.approx([1.0])
    x[1] = np.inf
    with np.errstate(invalid="ignore"):
        infinite = cell(5, 5, clipped=True).gradient(Squared(), Rows(x), *given_rows)
    assert infinite == pytest.approx([0.8])


def test_a_nan_risk_counts_as_infinite():
    scores = np.zeros(20)
    scores[3] = np.nan
    one = cell(5, 1)
    risks = one.risks(PairLogistic(), scores, np.arange(20.0), one.draw(np.random.default_rng(0)))
    assert np.isinf(risks).sum() == 1
