"""The covariance of two columns of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_definitions import KINDS, SIZES, check_definition, exact_covariance, sample

from outvote.kernels.covariance import COVARIANCE, covariance


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_it_equals_its_definition(size, kind):
    check_definition(COVARIANCE, size, kind)


@pytest.mark.parametrize("offset", [1e8, -1e8, 1e12])
@pytest.mark.parametrize("size", [2, 5, 40])
def test_a_large_offset_costs_no_digits(offset, size):
    z = offset + sample("normal", (4, size, 2))
    expected = [exact_covariance(block[:, 0], block[:, 1]) for block in z]
    np.testing.assert_allclose(covariance(z), expected, rtol=1e-10, atol=1e-13)


def test_columns_may_have_opposite_extreme_scales():
    z = sample("normal", (3, 12, 2))
    expected = COVARIANCE.aligned(z)
    np.testing.assert_allclose(COVARIANCE.aligned(z * [2.0**900, 2.0**-900]), expected, rtol=1e-12)
    np.testing.assert_allclose(COVARIANCE.aligned(z * [2.0**900, 1.0]), np.ldexp(expected, 900), rtol=1e-12)
