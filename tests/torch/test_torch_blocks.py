"""Blocks of a batch: plans, balanced partitions, and the choice of the numpy descent."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

import outvote as ov
from outvote.learning.n_blocks import plan_one_sample
from outvote.learning.voting import Cell, middle_blocks
from outvote.torch import choose_blocks, deal_blocks, plan_batch


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@given(n_rows=st.integers(1, 200), n_blocks=st.integers(1, 200), seed=st.integers(0, 10))
def test_blocks_have_distinct_rows_and_equal_sizes(n_rows, n_blocks, seed):
    n_blocks = min(n_rows, n_blocks)
    dealt = deal_blocks(n_rows, n_blocks, generator=seeded(seed))
    assert dealt.shape == (n_blocks, n_rows // n_blocks)
    rows = dealt.flatten().tolist()
    assert len(set(rows)) == len(rows)
    assert set(rows) <= set(range(n_rows))
    assert torch.equal(dealt, deal_blocks(n_rows, n_blocks, generator=seeded(seed)))


def test_every_row_is_left_out_equally_often():
    generator, left = seeded(), torch.zeros(7)
    for _ in range(1400):
        left += 1
        left[deal_blocks(7, 3, generator=generator).flatten()] -= 1
    assert left.sum() == 1400
    assert ((left - 200).abs() < 5 * math.sqrt(1400 * 6 / 49)).all()


def test_generator_of_another_device_raises():
    with pytest.raises(ValueError, match=re.escape("generator is on cpu, but the rows are on meta")):
        deal_blocks(6, 2, device="meta", generator=seeded())


@given(
    risks=st.lists(st.integers(-1000, 1000), min_size=1, max_size=60, unique=True),
    n_chosen=st.integers(1, 60),
    n_infinite=st.integers(0, 20),
)
def test_chosen_blocks_equal_those_of_the_numpy_descent(risks, n_chosen, n_infinite):
    """With infinite risks too, as long as these stay outside the middle."""
    n_blocks = len(risks)
    n_chosen = min(n_chosen, n_blocks)
    n_infinite = min(n_infinite, n_blocks - n_chosen - (n_blocks - n_chosen) // 2)
    values = np.array(risks, dtype=float)
    values[:n_infinite] = np.inf
    cell = Cell((np.arange(n_blocks),), n_blocks, n_chosen)
    expected = cell.choose(values, np.random.default_rng(0))
    values[: n_infinite // 2] = np.nan
    chosen = choose_blocks(torch.tensor(values), n_chosen)
    assert sorted(chosen.tolist()) == sorted(expected.tolist())
    assert (np.diff(values[chosen.numpy()]) > 0).all()


@given(
    risks=st.lists(st.sampled_from([0.0, 1.0, 2.0, math.nan, math.inf, -math.inf, 1e30]), min_size=1, max_size=40),
    n_chosen=st.integers(1, 40),
)
def test_finite_blocks_are_chosen_first(risks, n_chosen):
    n_chosen = min(n_chosen, len(risks))
    chosen = choose_blocks(torch.tensor(risks), n_chosen)
    assert len(set(chosen.tolist())) == n_chosen
    n_finite = sum(map(math.isfinite, risks))
    assert sum(math.isfinite(risks[k]) for k in chosen) == min(n_chosen, n_finite)
    if n_finite - n_chosen < (len(risks) - n_chosen) // 2:  # the middle has moved down to the largest finite risks
        largest = sorted(filter(math.isfinite, risks))[-n_chosen:]
        assert sorted(risks[k] for k in chosen if math.isfinite(risks[k])) == largest


def test_ties_are_broken_at_random():
    """Blocks are dealt at random, so that among equal rows every one is chosen as often as any other."""
    generator, counts = seeded(), torch.zeros(9)
    for _ in range(900):
        dealt = deal_blocks(9, 3, generator=generator)
        counts[dealt[choose_blocks(torch.zeros(3))].flatten()] += 1
    assert ((counts - 300).abs() < 5 * math.sqrt(900 * 2 / 9)).all()


@given(
    n_rows=st.integers(20, 3000),
    amount=st.one_of(st.integers(0, 9), st.fractions(Fraction(1, 20), Fraction(1, 5))),
    share=st.floats(0, 1),
    degree=st.sampled_from([1, 2]),
)
def test_plan_equals_that_of_the_learners(n_rows, amount, share, degree):
    assume(degree * (2 * ov.Contamination(amount).count(n_rows) + 1) <= n_rows)
    plan = plan_batch(n_rows, contamination=amount, blocks=share, degree=degree)
    (count,) = ov.Contamination(amount).rounded_down((n_rows,))
    expected = plan_one_sample(n_rows, count, degree, n_blocks="auto", algorithm="robust", contamination=amount)
    assert (plan.n_blocks, plan.block_size) == (expected.n_blocks, expected.block_size)
    assert plan.n_chosen == middle_blocks(plan.n_blocks, count, share)
    assert plan.n_rows == plan.n_blocks * plan.block_size <= n_rows


def test_plan_of_given_blocks():
    assert plan_batch(100, n_blocks=8) == (8, 12, 2)
    assert plan_batch(100, n_blocks=8, blocks=0) == plan_batch(100, n_blocks=8, blocks="median") == (8, 12, 1)
    assert plan_batch(100, n_blocks=8, blocks=1) == (8, 12, 8)
    assert plan_batch(100, n_blocks=40, contamination=10, blocks=1) == (40, 2, 22)  # 1 - 2h of them
    assert plan_batch(100, contamination=0) == (1, 100, 1)
    assert plan_batch(128, contamination=ov.Contamination.growth(exponent=0.5)).n_blocks == 23
    assert plan_batch(2000, contamination=1, degree=2) == (9, 222, 2)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({}, TypeError, "give contamination (how many rows of a batch may be corrupt), n_blocks, or both"),
        ({"n_blocks": 0}, ValueError, "n_blocks=0 must be an integer of at least 1"),
        ({"n_blocks": True}, ValueError, "n_blocks=True must be an integer"),
        ({"n_blocks": 2.0}, ValueError, "n_blocks=2.0 must be an integer"),
        ({"n_blocks": 21}, ValueError, "fewer than 1 row for a block: with a batch of 20 rows the most is 20"),
        ({"n_blocks": 11, "degree": 2}, ValueError, "fewer than 2 rows for a block: with a batch of 20 rows the most"),
        ({"n_blocks": 4, "contamination": 2}, ValueError, "n_blocks=4 survives 1 corrupt rows, but contamination"),
        ({"n_blocks": 4, "blocks": 1.5}, ValueError, "blocks=1.5 must be 'median' or a share"),
        ({"n_blocks": 4, "blocks": "middle"}, ValueError, "blocks='middle' must be 'median' or a share"),
        ({"n_blocks": 4, "blocks": True}, ValueError, "blocks=True must be 'median' or a share"),
        ({"contamination": 0.5}, ValueError, "must be a fraction below 0.5"),
        ({"contamination": (1, 2)}, ValueError, "has 2 amounts, but there is 1 sample"),
        ({"contamination": "much"}, TypeError, "contamination='much' must be a fraction"),
        (
            {"contamination": 0.04},
            ValueError,
            "contamination=0.04 of a batch of 20 rows is less than one row, so that nothing would be outvoted: the "
            "smallest batch is 25 rows",
        ),
        (
            {"contamination": 10},
            ValueError,
            "contamination=10 means 10 corrupt rows in a batch of 20, which takes 21 blocks of at least 1 row: this "
            "batch survives 9, and the smallest batch for 10 is 21 rows",
        ),
        (
            {"contamination": 5, "degree": 2},
            ValueError,
            "takes 11 blocks of at least 2 rows: this batch survives 4, and the smallest batch for 5 is 22 rows",
        ),
        (
            {"contamination": 0.3, "degree": 2},
            ValueError,
            "contamination=0.3 means 6 corrupt rows in a batch of 20, which takes 13 blocks of at least 2 rows: this "
            "batch survives 4, and pairs survive fractions below 0.25 at any size",
        ),
    ],
)
def test_invalid_arguments_raise_with_a_remedy(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        plan_batch(20, **arguments)


def test_batch_size_named_in_the_error_works():
    with pytest.raises(ValueError, match="this batch survives 4, and a batch of 50 rows is large enough") as refused:
        plan_batch(21, contamination=0.24, degree=2)
    assert "means 5 corrupt rows" in str(refused.value)
    assert plan_batch(50, contamination=0.24, degree=2).n_blocks == 25


def test_blocks_are_chosen_without_waiting_for_the_device():
    """On the meta device there are no values to wait for."""
    dealt = deal_blocks(20, 5, device="meta")
    chosen = choose_blocks(torch.empty(5, device="meta"), 2)
    assert dealt[chosen].shape == (2, 4)
    assert dealt.device.type == "meta"
