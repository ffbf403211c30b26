"""Gini's mean difference of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_definitions import KINDS, SIZES, TINY, check_definition, exact_gini, sample

from outvote.kernels.gini import GINI, gini


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_it_equals_its_definition(size, kind):
    check_definition(GINI, size, kind)


@pytest.mark.parametrize("offset", [1e8, -1e8, 1e12])
@pytest.mark.parametrize("size", [2, 5, 40])
def test_a_large_offset_costs_no_digits(offset, size):
    z = offset + sample("normal", (4, size))
    np.testing.assert_allclose(gini(z), [exact_gini(block) for block in z], rtol=1e-13)


def test_subnormal_rows_keep_their_digits():
    steps = np.random.default_rng(0).integers(0, 1000, size=(3, 20)).astype(np.float64)
    expected = np.ldexp(GINI.aligned(steps), TINY)
    np.testing.assert_allclose(GINI.aligned(np.ldexp(steps, TINY)), expected, atol=2.0**TINY, rtol=0)


def test_a_gap_may_be_larger_than_any_float():
    # The largest gap, 3.4e308, is not a float. The mean over the ten pairs is.
    z = np.array([[1.7e308, -1.7e308, 1.7e308, 1.6e308, 1.7e308], [1.0, 2.0, 4.0, 8.0, 16.0]])
    np.testing.assert_allclose(GINI.aligned(z), [exact_gini(block) for block in z], rtol=1e-12)
