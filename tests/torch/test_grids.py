"""Wins of one sample over another, counted for every two blocks of tensors."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outvote.kernels.wins import MANN_WHITNEY
from outvote.torch.device.grids import count_wins


@settings(deadline=None)
@given(
    shape=st.tuples(st.integers(1, 5), st.integers(1, 30), st.integers(1, 4), st.integers(1, 25)),
    n_values=st.sampled_from([2, 10, 10**6]),
    seed=st.integers(0, 99),
)
def test_counts_equal_brute_force(shape, n_values, seed):
    k_x, b_x, k_y, b_y = shape
    rng = np.random.default_rng(seed)
    x, y = rng.integers(n_values, size=(k_x, b_x)) / 2, rng.integers(n_values, size=(k_y, b_y)) / 2
    stacks = torch.tensor(x), torch.tensor(y)
    less, equal = x[:, None, :, None] < y[None, :, None, :], x[:, None, :, None] == y[None, :, None, :]
    np.testing.assert_array_equal(count_wins(*stacks, ties=False), less.sum((2, 3)))
    np.testing.assert_array_equal(count_wins(*stacks, ties=True), (less | equal).sum((2, 3)))


def test_grid_of_several_tables(monkeypatch):
    monkeypatch.setattr("outvote.torch.device.grids._TABLE", 300)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(7, 90)), rng.normal(size=(5, 80))
    found = count_wins(torch.tensor(x), torch.tensor(y), ties=True).numpy() / (90 * 80)
    np.testing.assert_allclose(found, MANN_WHITNEY.grid(x, y))
