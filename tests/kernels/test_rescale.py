"""Homogeneous kernels on rows near the largest and smallest floats."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_definitions import TINY, sample, stack_for

from outvote.kernels.covariance import COVARIANCE
from outvote.kernels.gini import GINI
from outvote.kernels.kendall import KENDALL
from outvote.kernels.rescale import have_ordinary_size, rescaled
from outvote.kernels.variance import VARIANCE
from outvote.kernels.wilcoxon import WILCOXON


def test_blocks_of_ordinary_size_are_evaluated_once():
    seen = []

    def form(z):
        seen.append(z)
        return z.sum(axis=1)

    z = sample("normal", (3, 5))
    np.testing.assert_array_equal(rescaled(form, 1, [z]), z.sum(axis=1))
    assert len(seen) == 1
    assert seen[0] is z


@pytest.mark.parametrize("power", [-1000, -300, 0, 300, 1000])
def test_the_result_is_scaled_back(power):
    z = sample("normal", (4, 6))
    stack = np.ldexp(z, power)
    found = rescaled(lambda s: s.sum(axis=1), 1, [stack])
    np.testing.assert_allclose(found, np.ldexp(z.sum(axis=1), power), rtol=1e-12)
    assert have_ordinary_size([stack]) == (abs(power) < 400)


@pytest.mark.parametrize("power", [-520, -460, 460, 505])
def test_squares_of_rows_may_be_at_the_edge_of_the_floats(power):
    z = sample("normal", (3, 12, 2))
    scaled = np.ldexp(z, power)
    for kernel, stack, rows in ((VARIANCE, z[..., 0], scaled[..., 0]), (COVARIANCE, z, scaled)):
        expected = np.ldexp(kernel.aligned(stack), 2 * power)
        assert np.isfinite(expected).all()
        assert (expected != 0).all()
        np.testing.assert_allclose(kernel.aligned(rows), expected, rtol=1e-12, atol=2.0**TINY)


def test_equal_rows_near_the_largest_float_have_no_spread():
    equal = np.full((2, 5), 1.7e308)
    assert VARIANCE.aligned(equal).tolist() == [0.0, 0.0]
    assert GINI.aligned(equal).tolist() == [0.0, 0.0]
    assert COVARIANCE.aligned(np.stack([equal, equal], axis=2)).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("kernel", [VARIANCE, COVARIANCE, GINI, KENDALL, WILCOXON], ids=lambda kernel: kernel.name)
def test_a_corrupt_block_does_not_change_the_other_blocks(kernel):
    clean = stack_for(kernel, "normal", 5, 20)
    spoiled = clean.copy()
    spoiled[2, :2] = np.array([1.7e308, -1.7e308]).reshape(2, *(1,) * (clean.ndim - 2))
    kept = [0, 1, 3, 4]
    values = kernel.aligned(spoiled)
    np.testing.assert_allclose(values[kept], kernel.aligned(clean)[kept], rtol=1e-13)
    assert not np.isnan(values[2])
    if kernel in (VARIANCE, COVARIANCE):
        assert values[2] == np.inf
