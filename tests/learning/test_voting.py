"""Blocks that vote with their risks: the choice of the middle blocks, risks that are not finite, clipped gradients."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outvote.learning.losses import PairLogistic, Squared
from outvote.learning.voting import Cell, in_the_middle, middle_blocks


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


def test_the_median_block_is_the_lower_one_of_two():
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


def test_clipped_gradients_are_no_longer_than_the_median_one():
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
        infinite = cell(5, 5, clipped=True).gradient(Squared(), Rows(x), np.zeros(20), targets, (rows,))
    assert infinite == pytest.approx([0.8])


def test_a_nan_risk_counts_as_infinite():
    scores = np.zeros(20)
    scores[3] = np.nan
    one = cell(5, 1)
    drawn = one.draw(np.random.default_rng(0))
    risks = one.risks(PairLogistic(), scores, np.arange(20.0), drawn)
    assert np.isinf(risks).sum() == 1


def test_blocks_without_a_pair_in_a_group_do_not_vote():
    one = cell(5, 1, groups=np.zeros(20, dtype=int))
    risks = np.array([np.inf, 3.0, np.inf, 1.0, 2.0])
    assert one.choose(risks, np.random.default_rng(0)).tolist() == [4]
