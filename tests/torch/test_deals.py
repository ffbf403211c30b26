"""Means of random blocks of a long tensor."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outvote.torch import block_means


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@settings(deadline=None)
@given(n_rows=st.integers(1, 40), n_blocks=st.integers(1, 40), seed=st.integers(0, 99))
def test_every_row_is_in_at_most_one_block_and_blocks_have_equal_size(n_rows, n_blocks, seed):
    n_blocks = min(n_blocks, n_rows)
    size = n_rows // n_blocks
    # Row i has the value 2^i: the sum of a block names its rows.
    means = block_means(2.0 ** torch.arange(n_rows, dtype=torch.float64), n_blocks, generator=seeded(seed))
    rows = [int(total) for total in (means * size).round().tolist()]
    assert [total.bit_count() for total in rows] == [size] * n_blocks
    assert sum(rows).bit_count() == size * n_blocks


@pytest.mark.parametrize("order", ["sorted", "periodic"])
def test_order_of_the_rows_does_not_widen_the_block_means(order):
    n_rows = 2**18
    x = torch.sort(torch.randn(n_rows, generator=seeded(), dtype=torch.float64)).values
    if order == "periodic":
        x = x.reshape(256, -1).T.reshape(-1)
    for n_blocks in (101, 20_001):
        means = block_means(x, n_blocks, generator=seeded())
        assert means.std() <= 1.2 * (n_blocks / n_rows) ** 0.5
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
