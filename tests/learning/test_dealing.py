"""Blocks for the descent: balanced, different each time, blind to the values; and the blocks in the middle."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outvote.learning import dealing
from outvote.learning.dealing import Cell, Deal, Dealer, middle_blocks, narrow
from outvote.learning.losses import PairLogistic, Squared


@pytest.mark.parametrize(("n", "k"), [(10, 3), (100, 1), (101, 50), (1000, 7)])
@pytest.mark.parametrize("turned", [False, True])
def test_every_row_sits_in_at_most_one_block(monkeypatch, n, k, turned):
    if turned:
        monkeypatch.setattr(dealing, "_SMALL", 1)
    dealer, rng = Dealer(np.arange(n), k), np.random.default_rng(0)
    for _ in range(20):
        blocks = dealer.deal(rng).rows()
        assert blocks.shape == (n // k, k)
        assert len(np.unique(blocks)) == blocks.size
        assert blocks.min() >= 0
        assert blocks.max() < n


@pytest.mark.parametrize("turned", [False, True])
def test_any_two_rows_meet_about_as_often_as_under_a_permutation(monkeypatch, turned):
    if turned:
        monkeypatch.setattr(dealing, "_SMALL", 1)
    n, k, deals = 30, 6, 6000
    dealer, rng = Dealer(np.arange(n), k), np.random.default_rng(1)
    met = np.zeros((n, n))
    for _ in range(deals):
        blocks = dealer.deal(rng).rows()
        for column in blocks.T:
            met[np.ix_(column, column)] += 1
    share = met[np.triu_indices(n, 1)] / deals
    assert share.mean() == pytest.approx(4 / 29)
    # Deals between two permutations are not independent; all of them count as one at the very worst.
    each = dealing._PERMUTE_EVERY if turned else 1
    assert np.abs(share - 4 / 29).max() < 5 * np.sqrt(4 / 29 * 25 / 29 / (deals / each))


@given(st.integers(1, 7), st.integers(1, 9), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_a_turned_deal_is_each_row_of_the_order_turned(size, n_blocks, per, seed):
    rng = np.random.default_rng(seed)
    order, targets = rng.permutation(size * n_blocks).reshape(size, n_blocks), rng.normal(size=size * n_blocks)
    turns = np.repeat(rng.integers(n_blocks, size=size), per)[:size]
    deal = Deal(order, turns)
    expected = np.array([np.roll(row, -turn) for row, turn in zip(order, turns, strict=True)])
    assert deal.rows().tolist() == expected.tolist()
    blocks = rng.permutation(n_blocks)[: n_blocks // 2 + 1]
    assert deal.rows(blocks).tolist() == expected[:, blocks].tolist()
    assert deal.turned(deal.ordered(targets)).tolist() == targets[expected].tolist()
    assert Deal(order).rows().tolist() == order.tolist()
    assert Deal(order).offsets.tolist() == [0] * size


def test_targets_are_kept_while_rows_are_turned_and_no_longer(monkeypatch):
    monkeypatch.setattr(dealing, "_SMALL", 1)
    dealer, rng = Dealer(np.arange(40), 8), np.random.default_rng(0)
    targets, others = rng.normal(size=40), rng.normal(size=40)
    for _ in range(2 * dealing._PERMUTE_EVERY + 2):
        deal = dealer.deal(rng)
        for values in (targets, others, targets):
            assert deal.turned(deal.ordered(values)).tolist() == values[deal.rows()].tolist()
    kept = dealer.deal(rng).ordered(targets)
    assert dealer.deal(rng).ordered(targets) is kept
    dealer.forget()
    assert dealer.deal(rng).ordered(targets) is not kept


def test_row_numbers_take_half_the_memory_where_they_fit():
    assert narrow(np.arange(5)).dtype == np.int32
    assert narrow(np.array([2**31])).dtype == np.int64
    assert narrow(np.array([], dtype=np.int64)).size == 0


def test_groups_stay_together():
    groups = np.repeat(np.arange(20), 10)
    dealer, rng = Dealer(np.arange(200), 20, groups), np.random.default_rng(0)
    first, second = dealer.deal(rng).rows(), dealer.deal(rng).rows()
    assert first.shape == (10, 20)
    assert all(len(set(groups[column])) == 1 for column in first.T)
    assert not np.array_equal(first, second)


def test_the_middle_is_narrowed_where_corrupt_blocks_could_reach_it():
    assert middle_blocks(1000, 0, None) == 1000
    assert middle_blocks(1000, 10, None) == 250
    assert middle_blocks(1001, 500, None) == 213  # 1 - 2·(1 - e^(-1/2)) of them
    assert middle_blocks(1001, 500, 0.5) == 213
    assert middle_blocks(1000, 900, None) == 1
    assert middle_blocks(8, 0, 0.0) == 1
    assert middle_blocks(1, 0, None) == 1


def cell(n_blocks, n_chosen, **options):
    return Cell((np.arange(4 * n_blocks),), n_blocks, n_chosen, **options)


def test_the_median_block_is_the_lower_one():
    rng = np.random.default_rng(0)
    assert cell(5, 1).choose(np.array([5.0, 1.0, 3.0, 2.0, 4.0]), rng).tolist() == [2]
    assert cell(4, 1).choose(np.array([4.0, 1.0, 3.0, 2.0]), rng).tolist() == [3]
    assert sorted(cell(5, 3).choose(np.array([5.0, 1.0, 3.0, np.inf, 4.0]), rng)) == [0, 2, 4]
    assert sorted(cell(3, 3).choose(np.ones(3), rng)) == [0, 1, 2]


def test_ties_are_broken_at_random():
    rng = np.random.default_rng(0)
    chosen = np.concatenate([cell(9, 1).choose(np.ones(9), rng) for _ in range(900)])
    counts = np.bincount(chosen, minlength=9)
    assert counts.min() > 50
    assert counts.max() < 150


class Rows:
    def __init__(self, x):
        self.x = x

    def pull(self, rows, slopes):
        return np.einsum("bkd,bk->kd", self.x[rows], slopes)


def test_no_block_pulls_harder_than_the_median_one():
    x = np.ones((20, 1))
    x[0] = 1e6
    targets = np.full(20, -1.0)
    rows = np.arange(20).reshape(4, 5, order="F")
    plain, clipped = (
        cell(5, 5, clipped=c).gradient(Squared(), Rows(x), np.zeros(20), targets, (rows,)) for c in (0, 1)
    )
    assert plain[0] > 1e4
    assert clipped == pytest.approx([1.0])
    x[1] = np.inf
    with np.errstate(invalid="ignore"):
        spoiled = cell(5, 5, clipped=True).gradient(Squared(), Rows(x), np.zeros(20), targets, (rows,))
    assert spoiled == pytest.approx([0.8])


def test_a_risk_that_is_not_a_number_is_as_bad_as_can_be():
    scores = np.zeros(20)
    scores[3] = np.nan
    one = cell(5, 1)
    dealt = one.deal(np.random.default_rng(0))
    risks = one.risks(PairLogistic(), scores, np.arange(20.0), dealt)
    assert np.isinf(risks).sum() == 1


def test_blocks_without_a_pair_in_a_group_do_not_vote():
    one = cell(5, 1, groups=np.zeros(20, dtype=int))
    risks = np.array([np.inf, 3.0, np.inf, 1.0, 2.0])
    assert one.choose(risks, np.random.default_rng(0)).tolist() == [4]
