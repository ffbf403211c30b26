"""Partitions: balanced, drawn without looking at the values, the same for a seed everywhere."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import outvote as ov
from outvote.blocks import one_pass
from outvote.blocks.one_pass import Drawn, Segments
from outvote.blocks.partition import Partition, blocks_by_size, check_kind, draw, permutation, seed_of

BALANCED = ("random", "uniform", "contiguous")
SIZES = [(1, 1), (7, 1), (7, 7), (10, 3), (12, 4), (100, 7), (101, 50), (999, 10)]

#: Rows of 64 values make groups of 512 rows: segments on few enough rows to draw it many times.
WIDE = {"one_pass": True, "columns": 64}


def segments(n_rows, n_blocks, seed, **options):
    dealt = draw("random", n_rows, n_blocks, seed, **{**WIDE, **options})
    assert isinstance(dealt, Segments)
    return dealt


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
@pytest.mark.parametrize("kind", BALANCED)
def test_blocks_are_equal_and_the_rest_is_left_out(kind, n_rows, n_blocks):
    for seed in range(3):
        dealt = draw(kind, n_rows, n_blocks, seed)
        check_cover(dealt, n_rows, n_blocks)
        assert set(dealt.sizes.tolist()) == {n_rows // n_blocks}
        assert len(dealt.left_out) == n_rows % n_blocks


@pytest.mark.parametrize(("n_rows", "n_blocks"), SIZES)
@pytest.mark.parametrize("kind", BALANCED)
def test_spread_uses_every_row(kind, n_rows, n_blocks):
    dealt = draw(kind, n_rows, n_blocks, 1, remainder="spread")
    check_cover(dealt, n_rows, n_blocks)
    assert dealt.left_out.size == 0
    assert dealt.sizes.max() - dealt.sizes.min() == (n_rows % n_blocks > 0)


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize(
    ("n_rows", "n_blocks"), [(40_000, 1), (40_003, 5), (40_003, 101), (40_960, 512), (64_999, 1000)]
)
def test_segments_are_balanced_too(n_rows, n_blocks, remainder):
    for seed in range(3):
        dealt = segments(n_rows, n_blocks, seed, remainder=remainder)
        check_cover(dealt, n_rows, n_blocks)
        extra = n_rows % n_blocks
        if remainder == "drop":
            assert set(dealt.sizes.tolist()) == {n_rows // n_blocks}
            assert len(dealt.left_out) == extra
        else:
            assert dealt.left_out.size == 0
            small = n_rows // n_blocks
            assert sorted(dealt.sizes) == [small] * (n_blocks - extra) + [small + 1] * extra


def test_contiguous_blocks_follow_the_order_of_the_rows():
    dealt = draw("contiguous", 11, 3, seed=99)
    assert [block.tolist() for block in dealt] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert dealt.left_out.tolist() == [9, 10]


def test_hash_blocks_cover_the_rows():
    for n_rows, n_blocks in SIZES:
        dealt = draw("hash", n_rows, n_blocks, 3)
        check_cover(dealt, n_rows, n_blocks)
        assert dealt.left_out.size == 0


def test_one_pass_is_used_for_long_inputs_and_only_when_permitted():
    long = 64 * 32_768
    assert isinstance(draw("random", long, 64, 0, one_pass=True), Segments)
    assert not isinstance(draw("random", long, 64, 0), Segments)
    assert not isinstance(draw("uniform", 40_960, 5, 0, **WIDE), Segments)
    assert not isinstance(draw("hash", 40_960, 5, 0, **WIDE), Segments)
    # Few values; then many values in few groups.
    assert not isinstance(draw("random", 2**19, 5, 0, one_pass=True), Segments)
    assert not isinstance(draw("random", 40_960, 20_000, 0, **WIDE), Segments)


def test_unknown_kinds_are_refused():
    for attempt in (lambda: draw("sorted", 10, 2, 0), lambda: check_kind("sorted")):
        with pytest.raises(ValueError, match="partition='sorted' is not one of 'random', 'uniform', 'hash', 'contig"):
            attempt()
    with pytest.raises(ValueError, match="remainder='keep' is neither 'drop' nor 'spread'"):
        draw("random", 10, 2, 0, remainder="keep")


# --- sums, stacks, subsets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 0.25])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2)])
@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize("kind", ["random", "hash", "contiguous"])
def test_sums_are_those_of_the_blocks(kind, remainder, shape, scale):
    x = np.random.default_rng(0).normal(size=(103, *shape))
    dealt = draw(kind, 103, 10, 4, remainder=remainder)
    expected = scale * sums_by_label(x, dealt.labels, 10)
    np.testing.assert_allclose(dealt.sums(x, scale), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 0.25])
@pytest.mark.parametrize("n_blocks", [1, 5, 101, 512, 600])
@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize("shape", [(), (3,)])
def test_one_pass_sums_are_those_of_the_blocks(shape, remainder, n_blocks, scale):
    n_rows = 40_003
    x = np.random.default_rng(0).normal(size=(n_rows, *shape))
    for seed in range(2):
        dealt = segments(n_rows, n_blocks, seed, remainder=remainder)
        expected = scale * sums_by_label(x, dealt.labels, n_blocks)
        np.testing.assert_allclose(dealt.sums(x, scale), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("columns", [1, 4])
def test_one_pass_sums_at_full_length(columns):
    n_rows, n_blocks = 2**21 // columns + 12_345, 33
    x = np.random.default_rng(0).integers(-1000, 1000, size=(n_rows, columns)).astype(np.int32)
    x = x[:, 0] if columns == 1 else x
    dealt = draw("random", n_rows, n_blocks, 2, one_pass=True, columns=columns)
    assert isinstance(dealt, Segments)
    labels = dealt.labels
    kept = labels >= 0
    columns_of = x.reshape(n_rows, -1).T
    expected = np.stack([np.bincount(labels[kept], weights=column[kept], minlength=n_blocks) for column in columns_of])
    assert np.array_equal(dealt.sums(x), expected.T.reshape(n_blocks, *x.shape[1:]))
    assert np.bincount(labels[kept]).tolist() == [n_rows // n_blocks] * n_blocks
    assert np.array_equal(np.sort(dealt.left_out), np.flatnonzero(~kept))


def test_segments_leave_out_any_rows():
    # Stretches, groups and segments fit these rows but for four: then too these four may be anywhere.
    left_out = np.concatenate([segments(40_960 + 4, 5, seed).left_out for seed in range(100)])
    assert len(left_out) == 400
    assert stats.kstest(left_out / 40_964, "uniform").pvalue > 0.001


@pytest.mark.parametrize("dtype", [np.float32, np.int8, bool, np.uint64])
def test_sums_are_accumulated_in_double_precision(dtype):
    x = np.ones(40_960, dtype=dtype)
    if dtype is np.float32:
        x[::2] = 2.0**24
    for dealt in (draw("random", 40_960, 5, 0), segments(40_960, 5, 0)):
        sums = dealt.sums(x)
        assert sums.dtype == np.float64
        assert np.array_equal(sums, sums_by_label(x, dealt.labels, 5))


def test_strided_and_read_only_rows_are_summed_in_place():
    x = np.random.default_rng(0).normal(size=(40_960, 2))
    x.flags.writeable = False
    for dealt in (draw("random", 40_960, 7, 0), segments(40_960, 7, 0)):
        np.testing.assert_allclose(dealt.sums(x[:, 1]), sums_by_label(x[:, 1].copy(), dealt.labels, 7), atol=1e-9)


def stack_cases():
    yield draw("random", 20, 5, 0)
    yield draw("contiguous", 20, 5, 0)
    yield segments(40_960, 5, 0)


@pytest.mark.parametrize("blocks", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [2], [3, 1]])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_stack_gives_the_rows_of_the_blocks_asked_for(blocks, shape):
    for dealt in stack_cases():
        x = np.random.default_rng(0).normal(size=(dealt.n_rows, *shape))
        stacked = dealt.stack(x, np.array(blocks))
        assert stacked.shape == (len(blocks), dealt.sizes[0], *shape)
        for rows, k in zip(stacked, blocks, strict=True):
            assert np.array_equal(rows, x[dealt[k]])


def test_stack_of_unequal_blocks_one_size_at_a_time():
    x = np.arange(11.0)
    for kind in ("random", "contiguous"):
        dealt = draw(kind, 11, 4, 0, remainder="spread")
        for blocks in blocks_by_size([dealt]):
            for rows, k in zip(dealt.stack(x, blocks), blocks, strict=True):
                assert rows.tolist() == dealt[k].tolist()


def test_blocks_by_size_groups_what_can_be_stacked():
    def sizes(*values):
        return Partition(sum(values), np.array(values), np.arange(0), None)

    assert [group.tolist() for group in blocks_by_size([sizes(3, 3, 3)])] == [[0, 1, 2]]
    assert [group.tolist() for group in blocks_by_size([sizes(2, 3, 2, 0)])] == [[3], [0, 2], [1]]
    pair = [sizes(2, 2, 3, 3), sizes(5, 6, 5, 5)]
    groups = [group.tolist() for group in blocks_by_size(pair)]
    assert sorted(map(tuple, groups)) == [(0,), (1,), (2, 3)]
    assert [group.tolist() for group in blocks_by_size([sizes(2, 2), sizes(7, 7)])] == [[0, 1]]


@pytest.mark.parametrize("blocks", [[0, 1, 2], [2, 0], [1]])
def test_keep_leaves_out_the_other_blocks(blocks):
    for dealt in (
        draw("random", 11, 3, 0),
        draw("hash", 30, 3, 0),
        draw("contiguous", 11, 3, 0),
        segments(40_961, 3, 0),
    ):
        kept = dealt.keep(np.array(blocks))
        check_cover(kept, dealt.n_rows, len(blocks))
        for block, k in zip(kept, blocks, strict=True):
            assert np.array_equal(np.sort(block), np.sort(dealt[k]))
        gone = [dealt[k] for k in range(3) if k not in blocks]
        assert set(kept.left_out.tolist()) == set(np.concatenate([dealt.left_out, *gone]).tolist())


def test_a_partition_is_a_sequence():
    for dealt in (draw("random", 20, 4, 0), segments(40_960, 4, 0)):
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
def test_seed_7_deals_these_blocks_on_every_platform(kind, stream, remainder, labels):
    assert draw(kind, 10, 3, 7, stream=stream, remainder=remainder).labels.tolist() == labels


def test_seed_7_deals_these_segments_on_every_platform():
    labels = segments(40_000, 5, 7).labels
    assert labels[:20].tolist() == [1, 3, 4, 0, 4, 4, 2, 1, 4, 3, 4, 1, 0, 1, 0, 3, 4, 3, 4, 1]
    assert labels[-5:].tolist() == [0, 3, 4, 3, 4]


@pytest.mark.parametrize("kind", ["random", "uniform", "hash"])
def test_a_seed_decides_and_streams_differ(kind):
    for options in ({}, WIDE):
        first = draw(kind, 40_960, 8, 5, **options).labels
        assert np.array_equal(first, draw(kind, 40_960, 8, 5, **options).labels)
        for other in (draw(kind, 40_960, 8, 6, **options), draw(kind, 40_960, 8, 5, stream=1, **options)):
            # Two independent deals agree on one row in eight.
            assert 0.1 < np.mean(first == other.labels) < 0.15


def test_large_seeds_do_not_wrap():
    labels = [draw("random", 100, 5, seed).labels.tolist() for seed in (1, 1 + 2**32, 1 + 2**62, 1 + 2**64)]
    assert len({tuple(each) for each in labels}) == 4


def test_seed_of_reads_what_numpy_users_pass():
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


@pytest.mark.parametrize("rng", [-1, np.int64(-1)])
def test_a_negative_seed_is_refused(rng):
    with pytest.raises(ValueError, match="is negative: a seed is an integer of at least 0"):
        seed_of(rng)


@pytest.mark.parametrize("rng", [True, np.True_, 1.0, "1", [1, 2], np.random.RandomState(0)])
def test_other_seeds_are_refused(rng):
    with pytest.raises(TypeError, match="must be an integer seed, a numpy Generator, or None"):
        seed_of(rng)


# --- uniformity ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["random", "uniform"])
def test_all_balanced_partitions_are_equally_likely(kind):
    # Five rows, two blocks of two: 5!/(2!·2!·1!) = 30 labelled partitions.
    seen = Counter(tuple(draw(kind, 5, 2, seed).labels.tolist()) for seed in range(4500))
    assert len(seen) == 30
    assert stats.chisquare(list(seen.values())).pvalue > 0.01


@pytest.mark.parametrize("kind", ["random", "uniform"])
def test_every_pair_of_rows_meets_equally_often(kind):
    # Nine rows, four blocks of two, one left out: a row meets each of eight others, or none, with probability 1/9.
    partner = np.zeros((9, 9), dtype=int)
    for seed in range(3600):
        dealt = draw(kind, 9, 4, seed)
        for block in dealt:
            i, j = block
            partner[i, j] += 1
            partner[j, i] += 1
        alone = dealt.left_out[0]
        partner[alone, alone] += 1
    # Bonferroni over nine rows, and the rows left out.
    assert min(stats.chisquare(row).pvalue for row in partner) > 0.01 / 9
    assert stats.chisquare(np.diag(partner)).pvalue > 0.01


def test_rows_meet_equally_often_in_larger_blocks():
    # Twelve rows in three blocks of four: the three companions of row 0 are uniform among C(11, 3) = 165 sets.
    met = Counter()
    for seed in range(4000):
        labels = draw("uniform", 12, 3, seed).labels
        met[tuple(np.flatnonzero(labels[1:] == labels[0]))] += 1
    counts = [met[each] for each in itertools.combinations(range(11), 3)]
    assert sum(counts) == 4000
    assert stats.chisquare(counts).pvalue > 0.01


@pytest.mark.parametrize(("n_rows", "n_blocks"), [(40_000, 3), (40_003, 10)])
def test_segments_treat_all_rows_alike(n_rows, n_blocks):
    watched = np.array([0, 1, n_blocks, 777, n_rows - 1])
    labels = np.stack([segments(n_rows, n_blocks, seed).labels[watched] for seed in range(400)])
    for row in labels.T:
        assert stats.chisquare(np.bincount(row[row >= 0], minlength=n_blocks)).pvalue > 0.001
    # Neighbours meet as often as chance has it, within a group (0, 1), at a distance K, and far apart.
    for other in range(1, len(watched)):
        together = int(np.sum(labels[:, 0] == labels[:, other]))
        assert stats.binomtest(together, 400, 1 / n_blocks).pvalue > 0.001


def drawn(n_rows, n_blocks, seed, **options):
    return Drawn(n_rows, n_blocks, options.pop("remainder", "drop"), np.random.default_rng(seed))


@pytest.mark.parametrize("remainder", ["drop", "spread"])
@pytest.mark.parametrize(("n_rows", "n_blocks"), [(50, 1), (50, 3), (1000, 7), (70_001, 100), (9, 9)])
def test_drawn_blocks_are_balanced(n_rows, n_blocks, remainder):
    x = np.random.default_rng(3).normal(size=n_rows)
    for seed in range(3):
        dealt = drawn(n_rows, n_blocks, seed, remainder=remainder)
        check_cover(dealt, n_rows, n_blocks)
        assert np.ptp(dealt.sizes) <= (remainder == "spread")
        assert len(dealt.left_out) == (n_rows % n_blocks if remainder == "drop" else 0)
        expected = sums_by_label(x, dealt.labels, n_blocks)
        np.testing.assert_allclose(dealt.sums(x), expected, atol=1e-12)
        np.testing.assert_allclose(dealt.sums(x, 0.25), 0.25 * expected, atol=1e-12)


def test_all_drawn_partitions_are_equally_likely():
    seen = Counter(tuple(drawn(5, 2, seed).labels.tolist()) for seed in range(4500))
    assert len(seen) == 30
    assert stats.chisquare(list(seen.values())).pvalue > 0.01


def test_drawn_rows_meet_equally_often():
    met = Counter()
    for seed in range(4000):
        labels = drawn(12, 3, seed).labels
        met[tuple(np.flatnonzero(labels[1:] == labels[0]))] += 1
    counts = [met[each] for each in itertools.combinations(range(11), 3)]
    assert stats.chisquare(counts).pvalue > 0.01


@pytest.mark.parametrize(("n_blocks", "seed"), [(16, 0), (101, 1), (101, 2), (101, 3)])
def test_drawn_rows_know_nothing_of_those_some_way_off(n_blocks, seed):
    """Powers of two are the distances at which weak hashes show."""
    labels = drawn(2**20, n_blocks, seed, remainder="spread").labels
    for distance in [1, 2, 3, 5, 16, 64, 100, 256, 1000, 1024, 2048, 4096, 8192, 65_536, 99_991]:
        met = np.bincount(labels[:-distance] * n_blocks + labels[distance:], minlength=n_blocks**2)
        assert stats.chisquare(met).pvalue > 1e-5, distance


def test_long_uniform_partitions_of_numbers_are_drawn():
    assert isinstance(draw("uniform", 2**20, 101, 0, one_pass=True), Drawn)
    assert not isinstance(draw("uniform", 2**20, 101, 0), Drawn)
    assert not isinstance(draw("uniform", 2**20, 101, 0, one_pass=True, columns=2), Drawn)
    assert not isinstance(draw("uniform", 2**20, 2**15, 0, one_pass=True), Drawn)


def test_an_outlier_reaches_one_drawn_block_alone():
    """Rows that move are never added where they came from: 1e300 would leave its rounding error behind."""
    x = np.random.default_rng(0).normal(size=5000)
    dealt = drawn(5000, 7, 0)
    for row in dealt._moved[:20]:
        spoiled = x.copy()
        spoiled[row] = 1e300
        assert np.sum(dealt.sums(spoiled) != dealt.sums(x)) == (row not in dealt.left_out)


def test_row_numbers_beyond_32_bits_have_keys_of_their_own():
    keys = np.arange(1, 5, dtype=np.uint32)
    rows = 2**32 + np.arange(-3, 4)
    got = one_pass._drawn(keys, rows, 1000)
    assert got[:3].tolist() == one_pass._drawn(keys[:2], rows[:3], 1000).tolist()
    assert got[3:].tolist() == one_pass._drawn(keys[2:], rows[3:] - 2**32, 1000).tolist()


def test_pairs_are_sorted_together_whatever_their_size():
    rows, blocks = np.array([2**60, 5, 2**61]), np.array([3, 1, 2])
    for n_blocks in (4, 2**10):
        found = one_pass._sorted_together(rows, blocks, n_blocks)
        assert [part.tolist() for part in found] == [[5, 2**60, 2**61], [1, 3, 2]]


def test_rows_are_read_in_a_random_order_each_once():
    for bits in (1, 5, 12):
        keys = np.random.default_rng(bits).integers(2**bits, size=(6, 2), dtype=np.uint64)
        order = one_pass._scrambled(np.arange(2**bits, dtype=np.uint64), keys, bits)
        assert np.array_equal(np.sort(order), np.arange(2**bits))


def test_a_long_permutation_is_one(monkeypatch):
    monkeypatch.setattr("outvote.blocks.partition._SORT_FROM", 4)
    for n in (4, 5, 1000):
        assert np.array_equal(np.sort(permutation(np.random.default_rng(n), n)), np.arange(n))
    seen = Counter(tuple(permutation(np.random.default_rng(seed), 4).tolist()) for seed in range(4800))
    assert len(seen) == 24
    assert stats.chisquare(list(seen.values())).pvalue > 0.01


def test_shuffles_are_uniform():
    seen = Counter(map(tuple, one_pass._shuffles(np.random.default_rng(0), 4800, 4).tolist()))
    assert len(seen) == 24
    assert stats.chisquare(list(seen.values())).pvalue > 0.01
    long = one_pass._shuffles(np.random.default_rng(0), 2, 5000)
    assert np.array_equal(np.sort(long, axis=1), np.broadcast_to(np.arange(5000), (2, 5000)))


def test_the_rows_that_segments_leave_out_are_anywhere():
    first = [int(segments(40_003, 10, seed).left_out[0]) for seed in range(400)]
    assert stats.kstest(np.array(first) / 40_003, "uniform").pvalue > 0.01


# --- order of the rows --------------------------------------------------------------------------------------


def arrangements(n_rows, n_blocks, group):
    """Rows whose order could betray a partition that is not random enough, all of mean 0 and variance 1."""
    rng = np.random.default_rng(12)
    place = np.arange(n_rows)
    yield "sorted", np.sort(rng.normal(size=n_rows))
    yield "classes", (place > n_rows // 3).astype(float)
    for period in (2, n_blocks, 2 * n_blocks, group):
        if period > 1:
            yield f"period {period}", rng.normal(size=period)[place % period]
            yield f"wave {period}", np.sin(2 * np.pi * place / period + 0.3)


@pytest.mark.parametrize("n_blocks", [4, 5, 16])
def test_order_does_not_widen_the_block_means_of_segments(n_blocks):
    group = n_blocks * max(64, 512 // n_blocks)
    n_rows, n_seeds = 64 * group + n_blocks // 2, 120
    dealt = [segments(n_rows, n_blocks, seed) for seed in range(n_seeds)]
    others = [segments(n_rows, n_blocks, seed) for seed in range(1000, 1000 + n_seeds)]
    for name, x in arrangements(n_rows, n_blocks, group):
        x = (x - x.mean()) / x.std()
        mixed = np.random.default_rng(0).permutation(x)
        in_order, shuffled = np.stack([one.sums(x) for one in dealt]), np.stack([one.sums(mixed) for one in others])
        # Unbiased: every block's sum is 0 on average over seeds (two blocks, four standard errors).
        for sums in in_order[:, :2].T:
            assert abs(sums.mean()) <= 4 * np.sqrt(n_rows / n_blocks / n_seeds), name
        ranges, usual = np.ptp(in_order, axis=1), np.ptp(shuffled, axis=1)
        assert ranges.mean() <= 1.25 * usual.mean(), name
        assert np.std(in_order) <= 1.25 * np.std(shuffled), name


def test_blocks_do_not_move_together_on_rows_sorted_in_runs():
    """The median of independent block means varies as on shuffled rows; dealt by turns alone it varies much more."""
    n_blocks, n_seeds = 101, 80
    n_rows = 64 * 64 * n_blocks
    rng = np.random.default_rng(0)
    x = rng.exponential(size=n_rows)

    def spread(blocks_of, length):
        runs = np.sort(x.reshape(-1, length), axis=1)
        return np.std([np.median(blocks_of(runs, seed)) for seed in range(n_seeds)])

    def dealt(runs, seed):
        return segments(n_rows, n_blocks, seed).sums(runs.reshape(-1))

    def turned(runs, seed):
        turns = np.random.default_rng(seed).integers(n_blocks, size=(len(runs), 1))
        return np.take_along_axis(runs, (np.arange(n_blocks) + turns) % n_blocks, axis=1).sum(axis=0)

    usual = np.std([np.median(draw("uniform", n_rows, n_blocks, seed).sums(x)) for seed in range(n_seeds)])
    assert spread(dealt, 64 * n_blocks) < 1.5 * usual
    assert spread(turned, n_blocks) > 2 * usual


def pooled_blocks(values, estimator, seeds, **options):
    """The block values of many partitions together.

    Blocks of one partition share no row, so their values lean against each other: pooled they are more regular than
    independent ones, and a test of Kolmogorov and Smirnov on them rejects equal laws more seldom than it says.
    """
    return np.concatenate([estimator(values, rng=seed, **options).block_values for seed in seeds])


@pytest.mark.parametrize("order", ["sorted", "period K", "period 2K", "classes"])
def test_mean_has_the_same_law_of_block_values_on_ordered_rows(order):
    n_rows, n_blocks = 2000, 40
    rng = np.random.default_rng(8)
    x = {
        "sorted": np.sort(rng.exponential(size=n_rows)),
        "period K": np.tile(rng.exponential(size=n_blocks), n_rows // n_blocks),
        "period 2K": np.tile(rng.exponential(size=2 * n_blocks), n_rows // n_blocks // 2),
        "classes": np.repeat([0.0, 1.0, 5.0], [700, 900, 400]) + rng.uniform(size=n_rows) / 100,
    }[order]
    shuffled = rng.permutation(x)
    options = {"n_blocks": n_blocks, "contamination": 0}
    one = pooled_blocks(x, ov.mean, range(60), **options)
    two = pooled_blocks(shuffled, ov.mean, range(60, 120), **options)
    assert stats.ks_2samp(one, two).pvalue > 0.01


@pytest.mark.parametrize(
    ("kind", "n_rows", "n_blocks"),
    [("random", 2**20 + 12_345, 101), ("uniform", 2**20 + 12_345, 101), ("random", 2**22 + 777, 2**14 + 3)],
)
@pytest.mark.parametrize("order", ["sorted", "runs", "period K", "period 256", "classes"])
def test_one_pass_has_the_same_law_of_block_values_on_ordered_rows(order, kind, n_rows, n_blocks):
    """Both the block means and their median, over many seeds, as on shuffled rows."""
    n_seeds = 40 if n_blocks < 1000 else 16
    rng = np.random.default_rng(8)
    rows = rng.exponential(size=n_rows)
    x = {
        "sorted": np.sort(rows),
        "runs": np.concatenate([np.sort(part) for part in np.array_split(rows, 23)]),
        "period K": np.resize(rows[:n_blocks], n_rows),
        "period 256": np.resize(rows[:256], n_rows),
        "classes": np.repeat([0.0, 1.0, 5.0], [n_rows // 3, n_rows // 2, n_rows - n_rows // 3 - n_rows // 2])
        + rows / 100,
    }[order]
    shuffled = rng.permutation(x)

    def means(values, seeds):
        dealt = [draw(kind, n_rows, n_blocks, seed, one_pass=True) for seed in seeds]
        assert all(isinstance(each, (Segments, Drawn)) for each in dealt)
        return np.stack([each.sums(values) / each.sizes for each in dealt])

    one, two = means(x, range(n_seeds)), means(shuffled, range(n_seeds, 2 * n_seeds))
    assert stats.ks_2samp(*(means.ravel()[:: means.size // 4000] for means in (one, two))).pvalue > 0.001
    assert np.std(one) == pytest.approx(np.std(two), rel=0.08)
    assert stats.ks_2samp(np.median(one, axis=1), np.median(two, axis=1)).pvalue > 0.001


def test_the_comparison_of_laws_would_notice_an_order():
    x = np.sort(np.random.default_rng(8).exponential(size=2000))
    options = {"n_blocks": 40, "contamination": 0}
    one = pooled_blocks(x, ov.mean, range(30), partition="contiguous", **options)
    two = pooled_blocks(x, ov.mean, range(30), **options)
    assert stats.ks_2samp(one, two).pvalue < 1e-20


@pytest.mark.parametrize("order", ["sorted", "period K", "classes"])
def test_pairs_have_the_same_law_of_block_values_on_ordered_rows(order):
    n_rows, n_blocks = 60, 30
    rng = np.random.default_rng(9)
    x = {
        "sorted": np.sort(rng.normal(size=n_rows)),
        "period K": np.tile(rng.normal(size=n_blocks), 2),
        "classes": np.repeat([0.0, 1.0, 5.0], 20) + rng.uniform(size=n_rows) / 100,
    }[order]
    shuffled = rng.permutation(x)
    options = {"kernel": "variance", "n_blocks": n_blocks, "contamination": 0}
    one = pooled_blocks(x, ov.u_statistic, range(60), **options)
    two = pooled_blocks(shuffled, ov.u_statistic, range(60, 120), **options)
    assert stats.ks_2samp(one, two).pvalue > 0.01


def test_pairs_of_long_sorted_inputs_are_permuted():
    # Turned, a block would hold rows far apart only, and never two neighbours: its variance would be far too regular.
    n_rows = 64 * 32_768
    x = np.sort(np.random.default_rng(3).normal(size=n_rows))
    values = ov.u_statistic(x, kernel="variance", n_blocks=n_rows // 2, contamination=0, rng=1).block_values
    # (x - x')²/2 of two normal rows is a chi-square of one degree of freedom.
    assert stats.kstest(values[:20_000], stats.chi2(1).cdf).pvalue > 0.01


@pytest.mark.parametrize("kind", ["random", "uniform", "hash", "contiguous"])
def test_blocks_do_not_depend_on_the_values(kind):
    rng = np.random.default_rng(0)
    labels = draw(kind, 300, 11, 5).labels
    for x in (
        rng.normal(size=300),
        np.sort(rng.normal(size=300)),
        np.where(np.arange(300) < 30, 1e9, -3.0),
        np.zeros(300),
    ):
        found = ov.mean(x, n_blocks=11, contamination=0, partition=kind, rng=5)
        expected = [x[labels == k].mean() for k in range(11)]
        np.testing.assert_allclose(found.block_values, expected, rtol=1e-9, atol=1e-12)


def test_long_means_are_those_of_the_blocks():
    x = np.random.default_rng(0).normal(size=(40_003, 64))
    found = ov.mean(x, n_blocks=5, contamination=0, rng=11)
    dealt = segments(40_003, 5, 11)
    np.testing.assert_allclose(found.block_values, [x[block].mean(axis=0) for block in dealt], atol=1e-12)
