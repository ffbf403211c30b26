"""Partitions of long tensors, drawn in one pass."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outvote.torch import block_means
from outvote.torch.device.deals import Deal, _units


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@settings(deadline=None)
@given(
    n_rows=st.integers(1, 40_000),
    n_blocks=st.one_of(st.integers(1, 40), st.integers(1, 20_000)),
    spread=st.booleans(),
    seed=st.integers(0, 99),
)
def test_every_row_is_in_one_block_and_sizes_are_balanced(n_rows, n_blocks, spread, seed):
    n_blocks = min(n_blocks, n_rows)
    deal = Deal(n_rows, n_blocks, torch.device("cpu"), seeded(seed), spread)
    labels = deal.labels
    n_left = 0 if spread else n_rows % n_blocks
    assert (labels < 0).sum() == n_left
    np.testing.assert_array_equal(np.sort(np.flatnonzero(labels < 0)), np.sort(deal.left_out))
    np.testing.assert_array_equal(np.bincount(labels[labels >= 0], minlength=n_blocks), deal.sizes)
    assert len(deal) == n_blocks
    assert set(deal.sizes.tolist()) <= {n_rows // n_blocks, n_rows // n_blocks + 1}
    x = torch.randn(n_rows, dtype=torch.float64, generator=seeded(seed))
    expected = np.bincount(labels[labels >= 0], weights=x.numpy()[labels >= 0], minlength=n_blocks)
    np.testing.assert_allclose(deal.tensor_sums(x), expected, atol=1e-10)
    np.testing.assert_allclose(deal.sums(x.numpy()), expected, atol=1e-10)
    assert len(deal.rest(x)) == len(deal.rest(x.numpy())) == n_left


@pytest.mark.parametrize(("n_rows", "n_blocks"), [(300_000, 101), (1_000_000, 20_001), (400_000, 16_000)])
def test_two_rows_share_a_block_about_as_often_as_by_chance(n_rows, n_blocks):
    """Two rows are in one block about as often as if they were dealt at random; near ones seldom."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(n_rows, size=(2, 20_000))
    meetings = []
    for seed in range(8):
        labels = Deal(n_rows, n_blocks, torch.device("cpu"), seeded(seed)).labels
        meetings.append((labels[pairs[0]] == labels[pairs[1]]) & (labels[pairs[0]] >= 0) & (pairs[0] != pairs[1]))
    expected = 8 * 20_000 / n_blocks
    assert abs(np.sum(meetings) - expected) <= 6 * np.sqrt(expected) + 5


@pytest.mark.parametrize("period", [2, 32, 256, 1024, 101])
def test_periodic_rows_do_not_widen_the_block_means(period):
    n_rows, n_blocks = 2**20, 101
    x = torch.randn(period, generator=seeded(), dtype=torch.float64).repeat(n_rows // period + 1)[:n_rows]
    mixed = x[torch.randperm(n_rows, generator=seeded(1))]
    spreads = [
        torch.stack([block_means(values, n_blocks, generator=seeded(seed)) for seed in range(20)]).std()
        for values in (x, mixed)
    ]
    assert spreads[0] <= 1.3 * spreads[1]


def test_sorted_rows_do_not_widen_the_block_means():
    x = torch.sort(torch.randn(2**20, generator=seeded(), dtype=torch.float64)).values
    for n_blocks in (101, 20_001):
        means = block_means(x, n_blocks, generator=seeded())
        assert means.std() <= 1.05 * (n_blocks / len(x)) ** 0.5
        assert abs(means.median() - x.mean()) < 0.02


def test_float32_is_summed_in_float64():
    x = (torch.randn(300_000, generator=seeded()) + 1e4).float()
    means = block_means(x, 101, generator=seeded())
    np.testing.assert_allclose(means, block_means(x.double(), 101, generator=seeded()), rtol=1e-14)


def test_invalid_arguments_raise():
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        block_means(torch.zeros(2, 3), 1)
    with pytest.raises(ValueError, match="n_blocks=11 must be between 1 and the 10 rows"):
        block_means(torch.zeros(10), 11)
    with pytest.raises(ValueError, match="take fewer blocks"):
        Deal(2**33, 2**31 + 1, torch.device("meta"))


def test_steps_are_coprime_to_the_number_of_rows():
    for n in (1, 2, 6, 97, 5000):
        for unit in _units(n, torch.device("cpu"))[:5].tolist():
            assert sorted(unit * k % n for k in range(n)) == list(range(n))
