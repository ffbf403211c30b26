"""Partitions: balanced, independent of the values, and the same for a seed on every platform."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import outvote as ov
from outvote.blocks.partition import Partition, blocks_by_size, draw, permutation, seed_of

RARE = 1e-4  # of tests of uniformity: what is not uniform is far beyond it
BALANCED = ("random", "uniform", "contiguous")
SIZES = [(1, 1), (7, 1), (7, 7), (12, 4), (101, 50), (999, 10)]


def check_cover(dealt, n_rows, n_blocks):
    """Blocks and the rows left out are disjoint and make up all the rows; labels, items and sizes agree."""
    assert len(dealt) == n_blocks
    assert dealt.n_rows == n_rows
    everything = np.concatenate([*dealt, dealt.left_out])
    assert np.array_equal(np.sort(everything), np.arange(n_rows))
    assert [len(block) for block in dealt] == dealt.sizes.tolist()
    labels = np.full(n_rows, -1)
    for k, block in enumerate(dealt):
        labels[block] = k
    assert np.array_equal(labels, dealt.labels)


def sums_by_label(x, labels, n_blocks):
    return np.stack([x[labels == k].astype(np.float64).sum(axis=0) for k in range(n_blocks)])


# --- balance ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_rows", "n_blocks"), SIZES)
def test_blocks_have_equal_sizes_and_leave_out_or_spread_the_remainder(n_rows, n_blocks):
    for kind in BALANCED:
        dealt = draw(kind, n_rows, n_blocks, 1)
        check_cover(dealt, n_rows, n_blocks)
        assert set(dealt.sizes.tolist()) == {n_rows // n_blocks}
        assert len(dealt.left_out) == n_rows % n_blocks
        spread = draw(kind, n_rows, n_blocks, 1, remainder="spread")
        check_cover(spread, n_rows, n_blocks)
        assert spread.left_out.size == 0
        assert spread.sizes.max() - spread.sizes.min() == (n_rows % n_blocks > 0)
    hashed = draw("hash", n_rows, n_blocks, 3)
    check_cover(hashed, n_rows, n_blocks)
    assert hashed.left_out.size == 0


def test_contiguous_blocks_follow_the_order_of_the_rows():
    dealt = draw("contiguous", 11, 3, seed=99)
    assert [block.tolist() for block in dealt] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert dealt.left_out.tolist() == [9, 10]


# --- sums, stacks, subsets ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "remainder", "scale"), [((), "drop", 1.0), ((3,), "spread", 0.25), ((2, 2), "drop", 0.25)]
)
@pytest.mark.parametrize("kind", ["random", "hash", "contiguous"])
def test_sums_equal_the_sums_of_each_block(kind, remainder, shape, scale):
    x = np.random.default_rng(0).normal(size=(103, *shape))
    dealt = draw(kind, 103, 10, 4, remainder=remainder)
    expected = scale * sums_by_label(x, dealt.labels, 10)
    np.testing.assert_allclose(dealt.sums(x, scale), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, bool, np.uint64])
def test_sums_are_computed_in_float64(dtype):
    x = np.ones(40_960, dtype=dtype)
    if dtype is np.float32:
        x[::2] = 2.0**24
    for dealt in (draw("random", 40_960, 5, 0), draw("contiguous", 40_960, 5, 0)):
        sums = dealt.sums(x)
        assert sums.dtype == np.float64
        assert np.array_equal(sums, sums_by_label(x, dealt.labels, 5))


def test_strided_and_read_only_rows_are_summed():
    x = np.random.default_rng(0).normal(size=(40_960, 2))
    x.flags.writeable = False
    for dealt in (draw("random", 40_960, 7, 0), draw("hash", 40_960, 7, 0)):
        np.testing.assert_allclose(dealt.sums(x[:, 1]), sums_by_label(x[:, 1].copy(), dealt.labels, 7), atol=1e-9)


@pytest.mark.parametrize("kind", ["random", "contiguous"])
def test_stack_returns_the_rows_of_the_given_blocks(kind):
    for shape in ((), (2,)):
        x, dealt = np.random.default_rng(0).normal(size=(20, *shape)), draw(kind, 20, 5, 0)
        for blocks in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2], [3, 1]):
            stacked = dealt.stack(x, np.array(blocks))
            assert stacked.shape == (len(blocks), 4, *shape)
            assert all(np.array_equal(rows, x[dealt[k]]) for rows, k in zip(stacked, blocks, strict=True))
    x, dealt = np.arange(11.0), draw(kind, 11, 4, 0, remainder="spread")
    for blocks in blocks_by_size([dealt]):
        for rows, k in zip(dealt.stack(x, blocks), blocks, strict=True):
            assert rows.tolist() == dealt[k].tolist()


def test_blocks_by_size_groups_blocks_of_equal_size():
    def sizes(*values):
        return Partition(sum(values), np.array(values), np.arange(0), None)

    assert [group.tolist() for group in blocks_by_size([sizes(3, 3, 3)])] == [[0, 1, 2]]
    assert [group.tolist() for group in blocks_by_size([sizes(2, 3, 2, 0)])] == [[3], [0, 2], [1]]
    pair = [sizes(2, 2, 3, 3), sizes(5, 6, 5, 5)]
    groups = [group.tolist() for group in blocks_by_size(pair)]
    assert sorted(map(tuple, groups)) == [(0,), (1,), (2, 3)]
    assert [group.tolist() for group in blocks_by_size([sizes(2, 2), sizes(7, 7)])] == [[0, 1]]


def test_keep_drops_the_other_blocks():
    for dealt in (draw("random", 11, 3, 0), draw("hash", 30, 3, 0), draw("contiguous", 11, 3, 0)):
        for blocks in ([0, 1, 2], [2, 0], [1]):
            kept = dealt.keep(np.array(blocks))
            check_cover(kept, dealt.n_rows, len(blocks))
            for block, k in zip(kept, blocks, strict=True):
                assert np.array_equal(np.sort(block), np.sort(dealt[k]))
            gone = [dealt[k] for k in range(3) if k not in blocks]
            assert set(kept.left_out.tolist()) == set(np.concatenate([dealt.left_out, *gone]).tolist())


def test_a_partition_is_a_sequence():
    for dealt in (draw("random", 20, 4, 0), draw("contiguous", 20, 4, 0)):
        items = list(dealt)
        assert len(dealt) == len(items) == 4
        assert np.array_equal(dealt[-1], items[3])
        assert np.array_equal(dealt[np.int64(1)], items[1])
        assert [block.tolist() for block in dealt[1:3]] == [block.tolist() for block in items[1:3]]
        assert [block.tolist() for block in dealt[::-2]] == [block.tolist() for block in items[::-2]]
        assert [block.tolist() for block in reversed(dealt)] == [block.tolist() for block in items[::-1]]
        for k in (4, -5):
            with pytest.raises(IndexError):
                dealt[k]
        with pytest.raises(TypeError):
            dealt["first"]


# --- seeds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "stream", "remainder", "labels"),
    [
        ("uniform", 0, "drop", [2, 2, 1, 0, 0, 2, 1, 0, 1, -1]),
        ("uniform", 1, "drop", [1, 0, 0, 2, 2, 2, 1, 1, -1, 0]),
        ("random", 0, "drop", [2, 2, 1, 0, 0, 2, 1, 0, 1, -1]),
        ("random", 0, "spread", [2, 2, 1, 0, 0, 1, 0, 0, 1, 2]),
        ("hash", 0, "drop", [1, 2, 0, 1, 2, 0, 0, 0, 0, 2]),
        ("hash", 1, "drop", [0, 0, 2, 1, 1, 1, 2, 0, 0, 1]),
        ("contiguous", 0, "drop", [0, 0, 0, 1, 1, 1, 2, 2, 2, -1]),
    ],
)
def test_blocks_of_seed_7_are_fixed(kind, stream, remainder, labels):
    assert draw(kind, 10, 3, 7, stream=stream, remainder=remainder).labels.tolist() == labels


@pytest.mark.parametrize("kind", ["random", "uniform", "hash"])
def test_same_seed_same_blocks_and_streams_are_independent(kind):
    for options in ({}, {"remainder": "spread"}):
        first = draw(kind, 40_960, 8, 5, **options).labels
        assert np.array_equal(first, draw(kind, 40_960, 8, 5, **options).labels)
        for other in (draw(kind, 40_960, 8, 6, **options), draw(kind, 40_960, 8, 5, stream=1, **options)):
            # Two independent deals agree on one row in eight.
            assert 0.1 < np.mean(first == other.labels) < 0.15


def test_large_seeds_do_not_wrap():
    labels = [draw("random", 100, 5, seed).labels.tolist() for seed in (1, 1 + 2**32, 1 + 2**62, 1 + 2**64)]
    assert len({tuple(each) for each in labels}) == 4


def test_seed_of_accepts_integers_generators_sequences_and_none():
    assert seed_of(5) == 5
    assert seed_of(0) == 0
    assert seed_of(2**70) == 2**70
    for dtype in (np.int8, np.int64, np.uint64):
        seed = seed_of(dtype(9))
        assert seed == 9
        assert type(seed) is int
    one, two = np.random.default_rng(3), np.random.default_rng(3)
    drawn = [seed_of(one), seed_of(one)]
    assert drawn == [seed_of(two), seed_of(two)]
    assert drawn[0] != drawn[1]
    assert (
        seed_of(np.random.SeedSequence(3)) == seed_of(np.random.SeedSequence(3)) != seed_of(np.random.SeedSequence(4))
    )
    assert len({seed_of(None) for _ in range(5)}) == 5
    assert all(0 <= seed_of(None) < 2**63 for _ in range(5))


def test_negative_and_other_seeds_raise():
    for rng in (-1, np.int64(-1)):
        with pytest.raises(ValueError, match="is negative: a seed is an integer of at least 0"):
            seed_of(rng)
    for rng in (True, np.True_, 1.0, "1", [1, 2], np.random.RandomState(0)):
        with pytest.raises(TypeError, match="must be an integer seed, a numpy Generator, or None"):
            seed_of(rng)


# --- uniformity ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["random", "uniform"])
def test_all_balanced_partitions_are_equally_likely(kind):
    # Five rows, two blocks of two: 5!/(2!·2!·1!) = 30 labelled partitions.
    seen = Counter(tuple(draw(kind, 5, 2, seed).labels.tolist()) for seed in range(3000))
    assert len(seen) == 30
    assert stats.chisquare(list(seen.values())).pvalue > RARE


def test_companions_of_a_row_are_uniform_in_larger_blocks():
    # Twelve rows in three blocks of four: the three companions of row 0 are uniform among C(11, 3) = 165 sets.
    met = Counter()
    for seed in range(2500):
        labels = draw("uniform", 12, 3, seed).labels
        met[tuple(np.flatnonzero(labels[1:] == labels[0]))] += 1
    counts = [met[each] for each in itertools.combinations(range(11), 3)]
    assert sum(counts) == 2500
    assert stats.chisquare(counts).pvalue > RARE


def test_long_permutations_are_uniform(monkeypatch):
    monkeypatch.setattr("outvote.blocks.partition._SORT_FROM", 4)
    for n in (4, 5, 1000):
        assert np.array_equal(np.sort(permutation(np.random.default_rng(n), n)), np.arange(n))
    seen = Counter(tuple(permutation(np.random.default_rng(seed), 4).tolist()) for seed in range(2400))
    assert len(seen) == 24
    assert stats.chisquare(list(seen.values())).pvalue > RARE


# --- order of the rows --------------------------------------------------------------------------------------


def pooled_blocks(values, estimator, seeds, **options):
    """The block values of many partitions together.

    Blocks of one partition share no row, so their values lean against each other: pooled they are more regular than
    independent ones, and a test of Kolmogorov and Smirnov on them rejects equal laws more seldom than it says.
    """
    return np.concatenate([estimator(values, rng=seed, **options).block_values for seed in seeds])


@pytest.mark.parametrize("order", ["sorted", "period K", "classes"])
def test_block_values_do_not_depend_on_the_order_of_the_rows(order):
    for statistic, n_rows, n_blocks in ((ov.mean, 2000, 40), (ov.u_statistic, 60, 30)):
        rng = np.random.default_rng(8)
        x = {
            "sorted": np.sort(rng.exponential(size=n_rows)),
            "period K": np.tile(rng.exponential(size=n_blocks), n_rows // n_blocks),
            "classes": np.repeat([0.0, 1.0, 5.0], n_rows // 3 + 1)[:n_rows] + rng.uniform(size=n_rows) / 100,
        }[order]
        options = {"n_blocks": n_blocks, "contamination": 0}
        options |= {"kernel": "variance"} if statistic is ov.u_statistic else {}
        one = pooled_blocks(x, statistic, range(40), **options)
        two = pooled_blocks(rng.permutation(x), statistic, range(40, 80), **options)
        assert stats.ks_2samp(one, two).pvalue > RARE


def test_contiguous_blocks_of_sorted_rows_are_detected():
    x = np.sort(np.random.default_rng(8).exponential(size=2000))
    options = {"n_blocks": 40, "contamination": 0}
    one = pooled_blocks(x, ov.mean, range(30), partition="contiguous", **options)
    two = pooled_blocks(x, ov.mean, range(30), **options)
    assert stats.ks_2samp(one, two).pvalue < 1e-20


def test_block_variances_of_long_sorted_rows_have_the_right_law():
    # Turned, a block would hold rows far apart only, and never two neighbours: its variance would be far too regular.
    n_rows = 16 * 32_768
    x = np.sort(np.random.default_rng(3).normal(size=n_rows))
    values = ov.u_statistic(x, kernel="variance", n_blocks=n_rows // 2, contamination=0, rng=1).block_values
    # (x - x')²/2 of two normal rows is a chi-square of one degree of freedom.
    assert stats.kstest(values[:20_000], stats.chi2(1).cdf).pvalue > RARE


@pytest.mark.parametrize("kind", ["random", "uniform", "hash", "contiguous"])
def test_blocks_do_not_depend_on_the_values(kind):
    rng = np.random.default_rng(0)
    labels = draw(kind, 300, 11, 5).labels
    for x in (rng.normal(size=300), np.sort(rng.normal(size=300)), np.where(np.arange(300) < 30, 1e9, -3.0)):
        found = ov.mean(x, n_blocks=11, contamination=0, partition=kind, rng=5)
        expected = [x[labels == k].mean() for k in range(11)]
        np.testing.assert_allclose(found.block_values, expected, rtol=1e-9, atol=1e-12)


def test_block_means_of_long_tables():
    x = np.random.default_rng(0).normal(size=(40_003, 64))
    found = ov.mean(x, n_blocks=5, contamination=0, rng=11)
    dealt = draw("random", 40_003, 5, 11)
    np.testing.assert_allclose(found.block_values, [x[block].mean(axis=0) for block in dealt], atol=1e-12)
