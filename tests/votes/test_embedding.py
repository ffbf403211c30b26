"""Distances between mean embeddings: every bound against all choices of corrupt rows, tried one by one."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from outvote.votes.embedding import LARGEST, Embeddings

LOG_DELTA = math.log(0.05)


def gram(x, y, width=1.0):
    return np.exp(-0.5 * ((x[:, None] - y[None]) / width) ** 2)


def distance(x, y, width=1.0):
    return math.sqrt(max(gram(x, x, width).mean() + gram(y, y, width).mean() - 2 * gram(x, y, width).mean(), 0.0))


def embeddings(x, y, width=1.0, *, adaptive=False):
    across = gram(x, y, width)
    a = gram(x, x, width).mean(axis=1), across.mean(axis=1)
    b = gram(y, y, width).mean(axis=1), across.mean(axis=0)
    return Embeddings.of(a, b, adaptive=adaptive)


def clean_range(both, in_a, in_b):
    low, high, noise = both._clean(np.array([in_a]), np.array([in_b]))
    return low[0], high[0], noise[0]


def samples(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=7), rng.normal(rng.choice([0.0, 1.0, 4.0]), rng.choice([0.1, 1.0, 3.0]), size=6)
    return (x, y.round()) if seed % 3 == 0 else (x, y)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("in_a", "in_b"), [(0, 0), (1, 0), (0, 2), (2, 1), (3, 3), (6, 0), (6, 5)])
def test_every_choice_of_corrupt_rows_is_within_the_range(seed, in_a, in_b):
    x, y = samples(seed)
    low, high, noise = clean_range(embeddings(x, y), in_a, in_b)
    assert noise == pytest.approx(math.sqrt(1 / (7 - in_a) + 1 / (6 - in_b)))
    for left_a in itertools.combinations(range(7), 7 - in_a):
        for left_b in itertools.combinations(range(6), 6 - in_b):
            assert low - 1e-9 <= distance(x[list(left_a)], y[list(left_b)]) <= high + 1e-9


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("in_a", "in_b"), [(0, 0), (1, 0), (2, 1), (3, 3)])
def test_every_sample_before_replacement_is_within_the_adaptive_range(seed, in_a, in_b):
    rng = np.random.default_rng(seed)
    x, y = samples(seed)
    low, high, noise = clean_range(embeddings(x, y, adaptive=True), in_a, in_b)
    assert noise == pytest.approx(math.sqrt(1 / 7 + 1 / 6))
    for place in (-50.0, 50.0, *rng.normal(1.0, 2.0, size=4)):
        for at_a in itertools.combinations(range(7), in_a):
            for at_b in itertools.combinations(range(6), in_b):
                before_x, before_y = x.copy(), y.copy()
                before_x[list(at_a)], before_y[list(at_b)] = place, -place
                assert low - 1e-9 <= distance(before_x, before_y) <= high + 1e-9


@pytest.mark.parametrize("adaptive", [False, True])
def test_the_range_is_never_wider_than_the_share_of_corrupt_rows_allows(adaptive):
    for seed in range(8):
        x, y = samples(seed)
        both = embeddings(x, y, adaptive=adaptive)
        for in_a, in_b in itertools.product(range(7), range(6)):
            low, high, _ = clean_range(both, in_a, in_b)
            share = LARGEST * (in_a / 7 + in_b / 6)
            assert both.distance - share - 1e-9 <= low <= both.distance + 1e-9
            assert both.distance - 1e-9 <= high <= both.distance + share + 1e-9


def lower_end(clean, noise, delta):
    """The lower end by its definition: the least distance that is accepted, on a fine grid."""
    one, two = (noise * math.sqrt(math.log(k / delta)) for k in (1, 2))
    theta = np.linspace(0, LARGEST, 200_001)
    room = np.sqrt(theta**2 + noise**2)
    accepted = np.where(theta <= two, clean <= room + one, (theta - two <= clean) & (clean <= room + two))
    return theta[accepted].min(), min(max(clean + two, 0), LARGEST)


@pytest.mark.parametrize("n_rows", [5, 40, 400])
@pytest.mark.parametrize("place", [0.0, 0.5, 1.0, 1.5, 3.0, 9.0])
def test_ends_are_those_of_the_distances_that_are_accepted(n_rows, place):
    rng = np.random.default_rng(n_rows)
    x, y = rng.normal(size=n_rows), rng.normal(place, size=n_rows)
    both = embeddings(x, y)
    low, high = both.ends((0, 0), LOG_DELTA)
    expected = lower_end(both.distance, math.sqrt(2 / n_rows), 0.05)
    assert (low, high) == pytest.approx(expected, abs=2e-5)
    assert 0 <= low <= both.distance <= high <= LARGEST


@pytest.mark.parametrize("adaptive", [False, True])
def test_together_is_the_hull_of_every_split(adaptive):
    rng = np.random.default_rng(3)
    both = embeddings(rng.normal(size=60), rng.normal(3.0, size=40), adaptive=adaptive)
    for total in (0, 1, 5, 12):
        ends = [both.ends((k, total - k), LOG_DELTA) for k in range(total + 1)]
        expected = min(low for low, _ in ends), max(high for _, high in ends)
        assert both.ends((total, 0), LOG_DELTA, together=True) == pytest.approx(expected)
    assert both.ends((30, 12), LOG_DELTA, together=True) == (0.0, LARGEST)  # 42 rows may be all of one sample


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("found", [(0, 0), (3, 1)])
@pytest.mark.parametrize("place", [0.0, 1.2, 2.0, 20.0])
def test_tolerance_is_the_last_level_at_which_every_split_stands(adaptive, found, place):
    rng = np.random.default_rng(5)
    both = embeddings(rng.normal(size=50), rng.normal(place, size=70), adaptive=adaptive)

    def stands(total):
        splits = [(k, total - k) for k in range(found[0], total - found[1] + 1)]
        return all(k < 50 and other < 70 and both.ends((k, other), LOG_DELTA)[0] > 0 for k, other in splits)

    levels = list(itertools.takewhile(stands, range(sum(found), 120)))
    assert both.tolerance(LOG_DELTA, found) == (levels[-1] if levels else None)
    assert not any(map(stands, range(len(levels) + sum(found), 120)))  # more corrupt rows never show more


def test_equal_samples_have_distance_zero():
    x = np.zeros(30)
    both = embeddings(x, x)
    assert both.distance == 0
    low, high = both.ends((2, 2), LOG_DELTA)
    assert low == 0 < high < LARGEST
    assert both.tolerance(LOG_DELTA) is None
