"""The portable hash: its formula, the same values on every platform, and blocks as if drawn at random."""

import hashlib
import itertools

import numpy as np
import pytest
from scipy import stats

from outvote.blocks.partition import draw, hash_rows


def hash_in_python(ids, seed, stream=0):
    """The formula of `hash_rows`, in integers that cannot overflow."""
    prime = 2**31 - 1
    digests = [hashlib.sha256(f"outvote:{seed}:{stream}:{i}".encode()).digest() for i in range(5)]
    b, c1, c2, c3, c4 = (1 + int.from_bytes(digest[:8], "big") % (prime - 1) for digest in digests)
    hashes = []
    for i in ids:
        u = (i % prime + b * (i // prime)) % prime
        hashes.append((u**4 + c1 * u**3 + c2 * u**2 + c3 * u) % prime + c4)
    return hashes


IDS = [*range(50), 2**31 - 2, 2**31 - 1, 2**31, 2**32 + 5, 10**12, 2**62, 2**63 - 1]


def test_hash_equals_the_documented_formula():
    for seed, stream in ((0, 0), (7, 1), (2**40, 0), (2**63, 1)):
        hashes = hash_rows(np.array(IDS), seed, stream)
        assert hashes.dtype == np.int64
        assert hashes.tolist() == hash_in_python(IDS, seed, stream)


def test_hash_of_seed_7_is_fixed():
    ids = np.array([0, 1, 2, 2**31 - 1, 2**31, 10**12])
    assert hash_rows(ids, 7).tolist() == [1398614152, 1714145618, 1865402088, 3057046907, 1893539584, 1900108546]


def test_hash_does_not_depend_on_dtype_order_or_chunks():
    ids = np.arange(2**31 - 500, 2**31 + 500)
    whole = hash_rows(ids, 3)
    assert np.concatenate([hash_rows(chunk, 3) for chunk in np.array_split(ids, 7)]).tolist() == whole.tolist()
    assert hash_rows(ids[::-1], 3)[::-1].tolist() == whole.tolist()
    small = np.arange(100)
    for dtype in (np.int8, np.uint32, np.uint64):
        assert hash_rows(small.astype(dtype), 3).tolist() == hash_rows(small, 3).tolist()


def test_partition_is_the_hash_modulo_the_number_of_blocks():
    assert np.array_equal(draw("hash", 1000, 7, 3, stream=2).labels, hash_rows(np.arange(1000), 3, 2) % 7)


def test_seeds_and_streams_give_independent_hashes():
    ids = np.arange(10_000)
    blocks = [hash_rows(ids, seed, stream) % 10 for seed, stream in ((0, 0), (1, 0), (0, 1), (1, 1))]
    for one, two in itertools.combinations(blocks, 2):
        assert stats.binomtest(int(np.sum(one == two)), len(ids), 0.1).pvalue > 0.001


@pytest.mark.parametrize("first", [2**31 - 5000, 10**15])
def test_block_sizes_are_multinomial(first):
    n_rows, n_blocks, n_seeds = 10_000, 20, 50
    ids = np.arange(first, first + n_rows)
    total = 0.0
    for seed in range(n_seeds):
        sizes = np.bincount(hash_rows(ids, seed) % n_blocks, minlength=n_blocks)
        total += stats.chisquare(sizes).statistic
    # Neither too uneven nor too even.
    assert 0.005 < stats.chi2(n_seeds * (n_blocks - 1)).cdf(total) < 0.995


def test_two_rows_share_a_block_as_often_as_by_chance():
    n_seeds, n_blocks = 2000, 10
    watched = np.array([0, 1, 2, 10, 1000, 2**31])
    blocks = np.stack([hash_rows(watched, seed) % n_blocks for seed in range(n_seeds)])
    for column in blocks.T:
        assert stats.chisquare(np.bincount(column, minlength=n_blocks)).pvalue > 0.001
    for i, j in itertools.combinations(range(len(watched)), 2):
        together = int(np.sum(blocks[:, i] == blocks[:, j]))
        assert stats.binomtest(together, n_seeds, 1 / n_blocks).pvalue > 0.001
