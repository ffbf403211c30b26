"""Block plans: sizes, the corrupt rows they survive, and their explanations."""

import itertools
import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from outvote.blocks.plan import BlockPlan, GridPlan, majority

PAIR = (BlockPlan(100, 9, 2, reason="First."), BlockPlan(50, 9, 1, degree=2, reason="Second."))


# --- one sample ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [1, 7, 30])
def test_block_sizes_add_up(n_rows):
    for n_blocks in range(1, n_rows + 1):
        drop = BlockPlan(n_rows, n_blocks, 0)
        assert drop.block_size * n_blocks + drop.n_left_out == n_rows
        assert drop.size_range == (drop.block_size, drop.block_size)
        spread = BlockPlan(n_rows, n_blocks, 0, remainder="spread")
        assert spread.n_left_out == 0
        small, large = spread.size_range
        assert small == n_rows // n_blocks
        assert large == math.ceil(n_rows / n_blocks)


def test_survives_is_the_largest_minority_of_blocks():
    for n_blocks in range(1, 20):
        plan = BlockPlan(100, n_blocks, 0)
        assert plan.survives == max(c for c in range(n_blocks) if n_blocks - c > c)
        for n_corrupt in range(12):
            assert BlockPlan(100, n_blocks, n_corrupt).holds == (2 * n_corrupt < n_blocks)


def test_plan_is_immutable():
    with pytest.raises(FrozenInstanceError):
        BlockPlan(10, 3, 1).n_blocks = 4


def test_str_of_plans_and_grids():
    assert str(BlockPlan(10, 1, 0)) == "1 block of 10"
    assert str(BlockPlan(9, 3, 0, remainder="spread")) == "3 blocks of 3"
    assert str(BlockPlan(10, 3, 0, remainder="spread")) == "3 blocks of 3 or 4"
    of_hash = BlockPlan(10, 3, 0, sizes=(2, 5))
    assert (str(of_hash), of_hash.n_left_out) == ("3 blocks of 2 to 5", 0)
    for grid, between in (("full", "×"), ("diagonal", "with"), ("separate", "and")):
        assert str(GridPlan(PAIR, grid)) == f"9 blocks of 11 {between} 9 blocks of 5"


def test_explain_of_a_plan():
    assert BlockPlan(100, 27, 3, reason="Because.").explain().split("\n") == [
        "100 rows go into 27 blocks of 3.",
        "19 rows outside these blocks are left out.",
        "Because.",
        "The clean blocks outvote up to 13 corrupt rows, at any position; 3 rows may be corrupt.",
    ]
    assert BlockPlan(10, 3, 1).explain().split("\n") == [
        "10 rows go into 3 blocks of 3.",
        "1 row outside these blocks is left out.",
        "The number of blocks was given.",
        "The clean blocks outvote up to 1 corrupt row, at any position; 1 row may be corrupt.",
    ]
    assert BlockPlan(1, 1, 0).explain().startswith("1 row goes into 1 block of 1.\n")
    assert (
        BlockPlan(100, 10, 5)
        .explain()
        .endswith(
            "\nThese blocks survive 4 corrupt rows at most, but 5 rows may be corrupt: nothing is guaranteed. "
            "More than 10 blocks are needed."
        )
    )


def test_partition_of_a_plan():
    plan = BlockPlan(100, 7, 3, remainder="spread")
    blocks = plan.partition(rng=1)
    assert sorted(np.concatenate(list(blocks)).tolist()) == list(range(100))
    assert set(blocks.sizes.tolist()) == {14, 15}
    assert np.array_equal(blocks.labels, plan.partition(rng=1).labels)
    assert not np.array_equal(blocks.labels, plan.partition(rng=2).labels)
    generator = np.random.default_rng(4)
    assert not np.array_equal(plan.partition(generator).labels, plan.partition(generator).labels)
    assert plan.partition(kind="contiguous")[0].tolist() == list(range(15))
    assert BlockPlan(10, 3, 0).partition(kind="hash", rng=0).sizes.sum() == 10
    assert len(plan.partition()) == 7


# --- several samples ----------------------------------------------------------------------------------------


def test_grid_combines_the_plans_of_its_samples():
    for grid, votes in (("full", 81), ("diagonal", 9), ("separate", 18)):
        plan = GridPlan(PAIR, grid)
        assert (plan.n_rows, plan.n_blocks, plan.block_size) == ((100, 50), (9, 9), (11, 5))
        assert (plan.n_corrupt, plan.n_left_out) == ((2, 1), (1, 5))
        assert (plan.n_votes, plan.holds) == (votes, True)


def test_grid_kinds_survive_different_contaminations():
    pair = (BlockPlan(100, 11, 3), BlockPlan(100, 11, 3))
    # Of 121 combinations 64 are clean; of 11 blocks in step 5; of each sample's 11 blocks 8.
    assert [GridPlan(pair, grid).holds for grid in ("full", "diagonal", "separate")] == [True, False, True]
    worse = (BlockPlan(100, 11, 4), BlockPlan(100, 11, 4))
    assert [GridPlan(worse, grid).holds for grid in ("full", "diagonal", "separate")] == [False, False, True]


def test_grid_partitions_its_samples_independently():
    plan = GridPlan((BlockPlan(60, 6, 0), BlockPlan(60, 6, 0)), "full")
    first, second = plan.partition(rng=3)
    assert not np.array_equal(first.labels, second.labels)
    again = plan.partition(rng=3)
    assert np.array_equal(first.labels, again[0].labels)
    assert np.array_equal(second.labels, again[1].labels)
    assert [len(part) for part in GridPlan(PAIR, "diagonal").partition(kind="contiguous")] == [9, 9]


LAYOUT = [
    "Sample 1: 100 rows go into 9 blocks of 11.",
    "Sample 1: 1 row outside these blocks is left out.",
    "Sample 2: 50 rows go into 9 blocks of 5.",
    "Sample 2: 5 rows outside these blocks are left out.",
]


SEPARATE = "The clean blocks outvote up to 4 corrupt rows, at any position;"


def test_explain_of_grids():
    outvoted = "the clean ones outvote 2 and 1 corrupt rows, at any position."
    for grid, votes in (("full", "81 combinations of blocks"), ("diagonal", "k-th blocks of all samples")):
        said = GridPlan(PAIR, grid).explain().split("\n")
        assert said == [*LAYOUT, "First.", f"The {votes} vote; {outvoted}"]
        poor = GridPlan((BlockPlan(9, 3, 1), BlockPlan(9, 3, 1)), grid)
        assert not poor.holds
        lost = "vote, but 1 and 1 corrupt rows can reach half of them: nothing is guaranteed."
        assert poor.explain().endswith(f"\nThe {votes.replace('81', '9')} {lost}")
    assert GridPlan(PAIR, "separate").explain().split("\n") == [
        *LAYOUT,
        f"Sample 1: First. {SEPARATE} 2 rows may be corrupt.",
        f"Sample 2: Second. {SEPARATE} 1 row may be corrupt.",
    ]


# --- majority -----------------------------------------------------------------------------------------------


def hits(n_blocks, n_corrupt):
    """Every set of blocks that so many corrupt rows can hit."""
    for size in range(min(n_blocks, n_corrupt) + 1):
        yield from map(set, itertools.combinations(range(n_blocks), size))


def clean_votes(blocks, hit, grid):
    """For each vote: how many values there are, and how many of them are clean."""
    if grid == "separate":
        return [(k, k - len(bad)) for k, bad in zip(blocks, hit, strict=True)]
    if grid == "diagonal":
        return [(blocks[0], blocks[0] - len(set.union(*hit)))]
    cells = list(itertools.product(*map(range, blocks)))
    clean = sum(all(k not in bad for k, bad in zip(cell, hit, strict=True)) for cell in cells)
    return [(len(cells), clean)]


def majority_by_trying(blocks, corrupt, grid):
    placements = itertools.product(*(list(hits(k, c)) for k, c in zip(blocks, corrupt, strict=True)))
    return all(2 * clean > votes for hit in placements for votes, clean in clean_votes(blocks, hit, grid))


@pytest.mark.parametrize("grid", ["full", "diagonal", "separate"])
def test_majority_of_two_samples_against_every_placement(grid):
    for one, two in itertools.product(range(1, 6), repeat=2):
        if grid == "diagonal" and one != two:
            continue
        for corrupt in itertools.product(range(4), repeat=2):
            expected = majority_by_trying((one, two), corrupt, grid)
            assert majority((one, two), corrupt, grid) == expected, (one, two, corrupt)


def test_majority_of_one_and_three_samples_against_every_placement():
    for k, c in itertools.product(range(1, 8), range(5)):
        assert (
            majority((k,), (c,), "full") == majority((k,), (c,), "diagonal") == majority_by_trying((k,), (c,), "full")
        )
    for blocks in [(3, 3, 3), (2, 4, 5), (4, 4, 4)]:
        for corrupt in itertools.product(range(2), repeat=3):
            assert majority(blocks, corrupt, "full") == majority_by_trying(blocks, corrupt, "full")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n_blocks": 0}, "n_blocks=0 must be at least 1"),
        ({"n_blocks": 2.5}, "n_blocks=2.5 must be an integer"),
        ({"n_rows": "a"}, "n_rows='a' must be an integer"),
        ({"n_corrupt": -1}, "n_corrupt=-1 must be at least 0"),
        ({"remainder": "x"}, "remainder='x' must be one of 'drop', 'spread'"),
    ],
)
def test_a_plan_refuses_wrong_numbers(wrong, words):
    with pytest.raises((TypeError, ValueError), match=words):
        BlockPlan(**{"n_rows": 10, "n_blocks": 2, "n_corrupt": 0, **wrong})


def test_unknown_partitions_raise():
    plan = BlockPlan(10, 2, 0)
    for one in (plan, GridPlan((plan, plan), "full")):
        with pytest.raises(ValueError, match="kind='x' must be one of 'random'"):
            one.partition(kind="x")
