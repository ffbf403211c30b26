"""Moments of many cells at once."""

from __future__ import annotations

import numpy as np

from outvote.estimate.summary.moments import Moments

RNG = np.random.default_rng(0)


def test_moments_added_in_chunks_equal_one_addition(form):
    moments, whole = Moments(1000, 1), Moments(1000, 1)
    x, cells = RNG.normal(size=(400, 1)), RNG.integers(0, 1000, size=400)
    whole.add(x, cells)
    for part in np.array_split(np.arange(400), 40):
        moments.add(x[part], cells[part])
    np.testing.assert_array_equal(moments.counts, whole.counts)
    np.testing.assert_allclose(moments.means, whole.means, rtol=1e-13)
    np.testing.assert_allclose(moments.m2, whole.m2, rtol=1e-12)
