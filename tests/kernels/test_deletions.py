"""Extremes of complete U-statistics over deletions, against every deletion."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov
from outvote.kernels import kernel_of
from outvote.kernels.deletions import extremes, matched_values
from outvote.kernels.dominance import concordances, smaller_before

numbers = st.lists(st.integers(-4, 4), min_size=3, max_size=7).map(lambda x: np.array(x, dtype=float))
CLOSE = ov.Kernel(lambda x, y: (np.abs(x - y) <= 1) * 1.0, degrees=2, bounds=(0, 1), vectorized=True, name="close")
NEAR = ov.Kernel(lambda x, y: np.minimum(np.abs(x - y) / 8, 1), (1, 1), bounds=(0, 1), vectorized=True, name="near")
MIDDLE = ov.Kernel(
    lambda x, y, z: (np.sort(np.stack([x, y, z]), axis=0)[1] > 0) * 1.0, degrees=3, bounds=(0, 1), vectorized=True
)  # fmt: skip


def statistic(kernel, *samples):
    """Average the kernel over all tuples."""
    parts = [itertools.combinations(range(len(x)), d) for x, d in zip(samples, kernel.degrees, strict=True)]
    values = []
    for places in itertools.product(*parts):
        rows = [x[[i]] for x, place in zip(samples, places, strict=True) for i in place]
        values.append(float(np.asarray(kernel.function(*rows)).reshape(-1)[0]))
    return float(np.mean(values)) if values else math.nan


def every_deletion(kernel, samples, counts):
    kept = [itertools.combinations(range(len(x)), len(x) - m) for x, m in zip(samples, counts, strict=True)]
    return [
        statistic(kernel, *(x[list(rows)] for x, rows in zip(samples, part, strict=True)))
        for part in itertools.product(*kept)
    ]


@pytest.mark.parametrize("kernel", ["auc", "mann-whitney", NEAR])
@settings(max_examples=25, deadline=None)
@given(x=numbers, y=numbers, m=st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_two_samples(kernel, x, y, m):
    kernel = kernel_of(kernel)
    found = extremes(kernel, (x, y), m)
    each = every_deletion(kernel, (x, y), m)
    assert found.value == pytest.approx(statistic(kernel, x, y))
    assert found.low <= min(each) + 1e-12
    assert found.high >= max(each) - 1e-12
    if kernel.rises:
        assert (found.low, found.high) == pytest.approx((min(each), max(each)))
    assert found.n_terms == min(len(x) - m[0], len(y) - m[1])
    assert found.n_whole == min(len(x), len(y))


@pytest.mark.parametrize("kernel", ["wilcoxon", CLOSE])
@settings(max_examples=25, deadline=None)
@given(x=numbers, m=st.integers(0, 3))
def test_one_sample(kernel, x, m):
    kernel = kernel_of(kernel)
    found = extremes(kernel, (x,), (m,))
    each = every_deletion(kernel, (x,), (m,))
    assert found.value == pytest.approx(statistic(kernel, x))
    if len(x) - m < 2:
        assert math.isnan(found.low)
        return
    assert found.low <= min(each) + 1e-12
    assert found.high >= max(each) - 1e-12
    if kernel.rises:
        assert (found.low, found.high) == pytest.approx((min(each), max(each)))


@settings(max_examples=25, deadline=None)
@given(x=numbers, seed=st.integers(0, 99), m=st.integers(0, 2))
def test_kendall_with_ties(x, seed, m):
    z = np.column_stack([x, np.random.default_rng(seed).integers(-2, 3, size=len(x))])
    kernel = kernel_of("kendall")
    found, each = extremes(kernel, (z,), (m,)), every_deletion(kernel, (z,), (m,))
    assert found.value == pytest.approx(statistic(kernel, z))
    if len(x) - m >= 2:
        assert found.low <= min(each) + 1e-12
        assert found.high >= max(each) - 1e-12


@settings(max_examples=80, deadline=None)
@given(n=st.integers(0, 70), kinds=st.sampled_from([2, 5, 10**6]), seed=st.integers(0, 10**6))
def test_concordances_of_each_row(n, kinds, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(kinds, size=(2, n)).astype(float)
    signs = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
    assert concordances(x, y).tolist() == signs.sum(axis=1).tolist()
    ranks = rng.permutation(n)
    assert smaller_before(ranks).tolist() == [int((ranks[:i] < ranks[i]).sum()) for i in range(n)]


def test_a_sum_of_pairs_knows_each_pair_once(monkeypatch):
    x = np.random.default_rng(0).normal(size=97)
    whole = extremes(CLOSE, (x,), (5,))
    monkeypatch.setattr("outvote.kernels.deletions._AT_ONCE", 300)  # a few rows at a time
    assert extremes(CLOSE, (x,), (5,)) == pytest.approx(whole)
    monkeypatch.setattr("outvote.kernels.deletions._MOST_PAIRS", 10)  # by matchings
    matched = extremes(CLOSE, (x,), (5,))
    assert matched.value == pytest.approx(whole.value, abs=0.02)
    assert matched.n_terms == 97 // 2 - 5
    assert matched.low < whole.value < matched.high


def test_matchings_are_disjoint_and_drop_rows_that_are_corrupt_for_certain():
    x = np.arange(20.0)
    bad = np.zeros(20, dtype=bool)
    bad[[3, 7]] = True
    for values in matched_values(lambda a, b, c: a * 400 + b * 20 + c, (3,), [x], [bad]):
        rows = np.concatenate([values // 400, values // 20 % 20, values % 20])
        assert len(set(rows.tolist())) == len(rows)
        assert not {3.0, 7.0} & set(rows.tolist())
        assert 4 <= len(values) <= 6


@settings(max_examples=20, deadline=None)
@given(x=numbers, m=st.integers(0, 2))
def test_other_degrees_by_matchings(x, m):
    found = extremes(MIDDLE, (x,), (m,))
    n_terms = max(len(x) // 3 - m, 0)
    assert found.n_terms == n_terms
    assert math.isnan(found.low) == (n_terms == 0)
    if n_terms:
        assert 0 <= found.low <= found.value <= found.high <= 1


def test_rows_that_are_corrupt_for_certain_are_deleted():
    x, y = np.random.default_rng(0).normal(size=(2, 30))
    bad = np.zeros(30, dtype=bool)
    bad[:4] = True
    found = extremes(kernel_of("auc"), (x, y), (6, 3), (bad, None))
    same = extremes(kernel_of("auc"), (x[4:], y), (2, 3))
    assert (found.value, found.low, found.high) == (same.value, same.low, same.high)
    assert found.n_whole == 30
    assert found.share == pytest.approx(24 / 30 * 27 / 30)
