"""Rows that are centred and scaled inside a fit."""

import numpy as np
import pytest

from outvote.learning.scaling import ScaledRows, robust_scaling


def test_corrupt_rows_hardly_move_centre_and_scale():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 3)) * [1, 100, 0.01] + [0, 5, -1]
    clean = robust_scaling(x, 0)
    x[:50] = 1e12
    centre, scale = robust_scaling(x, 50)
    assert np.abs(centre - clean[0]).max() / 100 < 0.2
    assert scale == pytest.approx(clean[1], rel=0.2)
    assert scale == pytest.approx([1, 100, 0.01], rel=0.2)


def test_a_column_with_few_different_values_is_scaled_by_its_standard_deviation():
    rare = np.zeros(200)
    rare[:20] = 1.0
    rarer = np.zeros(200)
    rarer[:3] = 1.0
    x = np.column_stack([rare, rarer, np.full(200, 7.0)])
    centre, scale = robust_scaling(x, 5)
    assert scale[0] == pytest.approx(rare[:195].std(), rel=0.3)
    assert scale[1] == pytest.approx(rarer.std())
    assert (centre[2], scale[2]) == (7.0, 1.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("offset", [0.0, 1e4, 1e9])
@pytest.mark.parametrize("intercept", [False, True])
def test_scores_and_gradients_equal_those_of_the_scaled_rows(dtype, offset, intercept):
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(50, 3)) + (offset if dtype == np.float64 else min(offset, 1e4))).astype(dtype)
    centre, scale = x.astype(float).mean(axis=0), x.astype(float).std(axis=0)
    rows = ScaledRows(x, centre, scale, intercept)
    plain = (x.astype(float) - centre) / scale
    if intercept:
        plain = np.column_stack([plain, np.ones(50)])
    tolerance = 1e-5 if dtype == np.float32 else 1e-6
    for shape in ((), (2,)):
        weights = rng.normal(size=(3 + intercept, *shape))
        assert rows.scores(weights) == pytest.approx(plain @ weights, abs=tolerance)
        blocks = rng.permutation(50)[:48].reshape(12, 4)
        slopes = rng.normal(size=(12, 4, *shape))
        expected = np.stack([plain[blocks[:, k]].T @ slopes[:, k] for k in range(4)])
        assert rows.pull(blocks, slopes) == pytest.approx(expected, abs=1e-5)
        coefficients, shift = rows.to_user(weights)
        assert x.astype(float) @ coefficients + shift == pytest.approx(plain @ weights, abs=1e-4)
        assert rows.from_user(coefficients, shift if intercept else 0.0) == pytest.approx(weights, abs=1e-5)
    assert rows.take(np.arange(5)) == pytest.approx(plain[:5])


def test_gradients_of_long_blocks_are_summed_in_pieces(monkeypatch):
    monkeypatch.setattr("outvote.learning.scaling._CHUNK", 7)
    x = np.random.default_rng(2).normal(size=(40, 2))
    rows = ScaledRows(x, np.zeros(2), np.ones(2))
    blocks, slopes = np.arange(40).reshape(20, 2), np.random.default_rng(3).normal(size=(20, 2))
    expected = np.stack([x[blocks[:, k]].T @ slopes[:, k] for k in range(2)])
    assert rows.pull(blocks, slopes) == pytest.approx(expected)
