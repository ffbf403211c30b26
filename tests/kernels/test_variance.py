"""The variance of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_definitions import KINDS, SIZES, check_definition, exact_covariance, sample

from outvote.kernels.variance import VARIANCE, variance, variance_from_moments


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_it_equals_its_definition(size, kind):
    check_definition(VARIANCE, size, kind)


@pytest.mark.parametrize("offset", [1e8, -1e8, 1e12])
@pytest.mark.parametrize("size", [2, 5, 40])
def test_a_large_offset_costs_no_digits(offset, size):
    z = offset + sample("normal", (4, size))
    np.testing.assert_allclose(variance(z), [exact_covariance(block, block) for block in z], rtol=1e-12)


@pytest.mark.parametrize("first", [1e8, -1e15, 1e100])
def test_a_large_first_row_costs_no_digits(first):
    z = sample("normal", (3, 500))
    z[:, 0] = first
    np.testing.assert_allclose(variance(z), [exact_covariance(block, block) for block in z], rtol=1e-13)


def test_the_moments_of_blocks_give_the_same_values():
    z = sample("normal", (7, 30))
    m2 = ((z - z.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    np.testing.assert_allclose(variance_from_moments(np.full(7, 30), m2), variance(z), rtol=1e-13)


def test_a_block_of_one_row_has_no_variance():
    found = variance_from_moments(np.array([0, 1, 2]), np.array([0.0, 0.0, 6.0]))
    np.testing.assert_array_equal(found, [np.nan, np.nan, 6.0])
