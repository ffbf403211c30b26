"""Rows that are centred and scaled inside a fit."""

import numpy as np
import pytest

from outvote.learning.scaling import ScaledRows, robust_centre_and_scale, robust_scaling


def test_corrupt_rows_hardly_move_centre_and_scale():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 3)) * [1, 100, 0.01] + [0, 5, -1]
    clean = robust_scaling(x, 0)
    assert clean[0] == pytest.approx(x.mean(axis=0))
    assert clean[1] == pytest.approx([1, 100, 0.01], rel=0.08)
    x[:50] = 1e12
    centre, scale = robust_scaling(x, 50)
    assert np.abs(centre - clean[0]).max() / 100 < 0.2
    assert scale == pytest.approx(clean[1], rel=0.2)


def test_the_scale_is_the_larger_of_two_and_of_few_different_values_the_standard_deviation():
    gaps = np.r_[-9.0, -8.0, -7.0, 0.0, 0.0, 1.0, 2.0]  # MAD 2, quartiles -7.5 and 0.5
    assert robust_centre_and_scale(gaps, 1) == pytest.approx((-2.8, 8 / 1.349))
    even = np.r_[-3.0, -2.5, -2.0, 0.0, 2.0, 2.5, 3.0]  # MAD 2.5, quartiles ±2.25
    assert robust_centre_and_scale(even, 0)[1] == pytest.approx(1.4826 * 2.5)
    rare, rarer = (np.arange(200) < 20) * 1.0, (np.arange(200) < 3) * 1.0
    centre, scale = robust_scaling(np.column_stack([rare, rarer, np.full(200, 7.0)]), 5)
    assert scale[0] == pytest.approx(np.sort(rare)[5:-5].std())
    assert scale[1] == pytest.approx(rarer.std())
    assert (centre[2], scale[2]) == (7.0, 1.0)


@pytest.mark.parametrize(("dtype", "offset"), [(np.float64, 0.0), (np.float64, 1e9), (np.float32, 1e4)])
@pytest.mark.parametrize("intercept", [False, True])
def test_scores_and_gradients_equal_those_of_the_scaled_rows(monkeypatch, dtype, offset, intercept):
    monkeypatch.setattr("outvote.learning.scaling._CHUNK", 25)  # several parts even here
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(50, 3)) + offset).astype(dtype)
    centre, scale = x.astype(float).mean(axis=0), x.astype(float).std(axis=0)
    rows = ScaledRows(x, centre, scale, intercept)
    plain = (x.astype(float) - centre) / scale
    assert rows.distances() == pytest.approx(np.linalg.norm(plain, axis=1), rel=1e-5)
    if intercept:
        plain = np.column_stack([plain, np.ones(50)])
    tolerance = 1e-5 if dtype == np.float32 else 1e-6
    for shape in ((), (2,)):
        weights = rng.normal(size=(3 + intercept, *shape))
        assert rows.scores(weights) == pytest.approx(plain @ weights, abs=tolerance)
        for size in (12, 4):  # long blocks, and short ones
            blocks = rng.permutation(50)[: 4 * size].reshape(size, 4)
            slopes = rng.normal(size=(size, 4, *shape))
            expected = np.stack([plain[blocks[:, k]].T @ slopes[:, k] for k in range(4)])
            assert rows.pull(blocks, slopes) == pytest.approx(expected, abs=1e-5)
        coefficients, shift = rows.to_user(weights)
        assert x.astype(float) @ coefficients + shift == pytest.approx(plain @ weights, abs=1e-4)
        assert rows.from_user(coefficients, shift if intercept else 0.0) == pytest.approx(weights, abs=1e-5)
    assert rows.take(np.arange(5)) == pytest.approx(plain[:5])
