"""Means of symmetric rows: which rows are the ends, columns, sides, and what does not take the assumption."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import outvote as ov

SYMMETRIC = ov.Symmetric()
X = np.random.default_rng(0).normal(size=10_000)


def test_with_many_corrupt_rows_it_is_the_interval_of_the_median():
    found = ov.mean(X, 0.01, assume=SYMMETRIC)
    assert found.plan.vote == "order"
    assert found.interval == ov.quantile(X, 0.5, 0.01).interval
    assert found.certificate.provenance == "certified"
    assert "symmetry about its mean" in str(found.certificate)


def test_with_few_it_is_by_averages_of_the_rows_on_one_side():
    x, m = X[:200], 1
    found = ov.mean(x, m, assume=SYMMETRIC)
    assert found.plan.vote == "signed rank"
    lowest = np.sort(x)[:199]
    first, second = np.triu_indices(199)
    averages = np.sort(lowest[first] / 2 + lowest[second] / 2)
    rank = np.searchsorted(averages, found.interval.low) + 1
    assert averages[rank - 1] == found.interval.low
    sd = math.sqrt(199 * 200 * 399 / 24)
    assert 1.9 < (199 * 200 / 4 - rank) / sd < 2.02


@pytest.mark.parametrize(("amount", "most"), [(0.0, 0.0215), (0.001, 0.0235), (0.01, 0.0395)])
def test_half_widths_on_normal_rows(amount, most):
    rows = [np.random.default_rng(seed).normal(size=10_000) for seed in range(4)]
    assert np.mean([ov.mean(x, amount, assume=SYMMETRIC).radius for x in rows]) < most


@settings(max_examples=25)
@given(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=8, max_size=60), st.sampled_from([0, 1, 2]))
def test_mirrored_and_scaled_rows(x, m):
    x = np.array(x)
    found = ov.mean(x, m, assume=SYMMETRIC)
    there = found.interval
    assert ov.mean(-x, m, assume=SYMMETRIC).interval == (-there.high, -there.low)
    assert ov.mean(4 * x, m, assume=SYMMETRIC).interval == (4 * there.low, 4 * there.high)
    for side in ("less", "greater"):
        found = ov.mean(x, m, 0.9, SYMMETRIC, alternative=side)
        assert found.interval.low <= found.estimate <= found.interval.high
        assert found.radius >= 0


def test_sides_and_columns():
    both = ov.mean(X, 0.01, 0.9, SYMMETRIC)
    assert ov.mean(X, 0.01, assume=SYMMETRIC, alternative="greater").interval == (both.interval.low, math.inf)
    assert ov.mean(X, 0.01, assume=SYMMETRIC, alternative="less").interval == (-math.inf, both.interval.high)
    table = X.reshape(-1, 4)
    found = ov.mean(table, assume=SYMMETRIC)
    alone = ov.mean(table[:, 2], assume=SYMMETRIC)
    assert (found.interval.low[2], found.interval.high[2]) == alone.interval


def test_far_rows_and_rows_of_any_size():
    far = X.copy()
    far[:100] = 1e300
    low, high = ov.mean(far, 0.01, assume=SYMMETRIC).interval
    assert -0.1 < low < high < 0.1
    x = X[:300]
    expected = [end * 1e300 for end in ov.mean(x, 1, assume=SYMMETRIC).interval]
    assert ov.mean(x * 1e300, 1, assume=SYMMETRIC).interval == pytest.approx(expected)
    with_nan = np.r_[x, np.nan]
    assert ov.mean(with_nan, 1, assume=SYMMETRIC, nan_policy="corrupt").certificate.provenance == "certified"


def test_too_few_rows_have_no_interval():
    few = ov.mean(X[:4], 1, assume=SYMMETRIC)
    assert few.certificate.provenance == "none"
    assert "too few rows" in few.certificate.note


def test_what_needs_a_scale_says_what_works():
    blocks = {"n_blocks": 11, "n_corrupt": 2, "block_size": 9, "confidence": 0.9}
    for call in (
        lambda: ov.mean(X, assume=SYMMETRIC, vote="median"),
        lambda: ov.mean(X, assume=SYMMETRIC, partition="hash"),
        lambda: ov.difference(X[:100], X[100:], assume=SYMMETRIC),
        lambda: ov.difference(X[:100], X[100:], assume=SYMMETRIC, vote="median"),
        lambda: ov.tolerance(X, claim="mean > -1", assume=SYMMETRIC),
        lambda: ov.certificate.radius(**blocks, assume=SYMMETRIC),
        lambda: ov.BlockSummary(51).update(X).result(contamination=2, assume=SYMMETRIC),
    ):
        with pytest.raises(ValueError, match=r"compare two symmetric samples by outvote.quantile_difference"):
            call()


def test_pairs_and_levels_take_it():
    paired = ov.difference(X[:500], X[:500] + 1.0 + 0.1 * X[500:1000], assume=SYMMETRIC, paired=True)
    assert paired.interval.low < 1.0 < paired.interval.high
    assert np.isfinite(ov.sensitivity(X, levels=[0, 10], assume=SYMMETRIC).radius).all()
