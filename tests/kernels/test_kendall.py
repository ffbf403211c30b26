"""Kendall's tau of two columns of blocks, by every numpy method."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_definitions import KINDS, SIZES, brute_force, check_definition, peak_of, sample

from outvote.kernels import kendall as module
from outvote.kernels.kendall import KENDALL, kendall

pytestmark = pytest.mark.usefixtures("numpy_alone")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_it_equals_its_definition(size, kind):
    check_definition(KENDALL, size, kind)


def test_blocks_may_need_several_batches():
    z = sample("tied", (1200, 30, 2))
    np.testing.assert_allclose(kendall(z)[[0, 1199]], [brute_force(KENDALL, z[k]) for k in (0, 1199)])


@pytest.mark.parametrize("kind", ["normal", "tied"])
@pytest.mark.parametrize(("n_blocks", "size"), [(1, 300), (40, 60)])
def test_merging_ranks_and_comparing_them_give_the_same(monkeypatch, n_blocks, size, kind):
    z = sample(kind, (n_blocks, size, 2))
    by_pairs = kendall(z)
    monkeypatch.setattr(module, "_RANKS_UP_TO", 0)
    np.testing.assert_array_equal(kendall(z), by_pairs)


@pytest.mark.parametrize("repeat", [1, 40])  # all pairs of rows, and pairs of ranks
def test_the_largest_floats_are_compared_without_their_difference(repeat):
    big, small = np.array([[-1.7e308, 1.7e308, 0.0, 1.6e308]]), np.array([[-1.0, 1.0, 0.0, 0.9]])
    pairs = [np.tile(np.stack([z, z[:, ::-1]], axis=2), (1, repeat, 1)) for z in (big, small)]
    np.testing.assert_array_equal(*map(kendall, pairs))
    single = [(p * scale).astype(np.float32) for p, scale in zip(pairs, (3e38 / 1.7e308, 1.0), strict=True)]
    np.testing.assert_array_equal(*map(kendall, single))


def test_signed_zeros_are_ties():
    zeros = np.tile([0.0, -0.0], (1, 60))
    assert kendall(np.stack([zeros, np.arange(120.0)[None]], axis=2)).tolist() == [0.0]


def test_all_pairs_of_a_reversed_block_are_discordant(monkeypatch):
    monkeypatch.setattr(module, "_PAIRS_UP_TO", 0)
    z = np.stack([np.arange(600.0), -np.arange(600.0)], axis=1)[None]  # more than a counter of 8 bits holds
    assert kendall(z).tolist() == [-1.0]


def test_a_large_block_takes_less_memory_than_all_pairs():
    z = sample("normal", (1, 3000, 2))
    assert peak_of(lambda: kendall(z)) < 3000 * 3000 / 5
