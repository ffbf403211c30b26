"""Wilcoxon's signed-rank statistic of blocks."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_definitions import KINDS, SIZES, TINY, check_definition

from outvote.kernels.wilcoxon import WILCOXON, wilcoxon


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
def test_it_equals_its_definition(size, kind):
    check_definition(WILCOXON, size, kind)


def test_the_largest_floats_are_compared_without_their_sum():
    big, small = np.array([[-1.7e308, 1.7e308, 0.0, 1.6e308]]), np.array([[-1.0, 1.0, 0.0, 0.9]])
    np.testing.assert_array_equal(wilcoxon(big), wilcoxon(small))


def test_subnormal_rows_are_told_apart():
    steps = np.random.default_rng(0).integers(0, 1000, size=(3, 20)).astype(np.float64)
    steps -= steps[:, :1]
    np.testing.assert_array_equal(wilcoxon(np.ldexp(steps, TINY)), wilcoxon(steps))


def test_signed_zeros_are_equal():
    assert wilcoxon(np.tile([0.0, -0.0], (1, 60))).tolist() == [0.0]
