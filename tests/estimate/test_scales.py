"""Robust estimates of an unknown scale."""

import numpy as np
import pytest
from scipy.special import gammaincinv

from outvote.estimate.scales import SpreadOfBlocks, robust_sd


@pytest.mark.parametrize("size", [2, 3, 23, 10**7])
def test_sd_of_blocks_is_consistent_for_normal_rows(size):
    """Blocks whose variance is the median of that of `size` standard normal rows have an sd of 1."""
    m2 = np.full((3, 1), 2 * gammaincinv((size - 1) / 2, 0.5))
    spread = SpreadOfBlocks(np.full(3, size), np.zeros((3, 1)), m2)
    assert spread.sds(slice(None), spread.means) == pytest.approx(1.0, rel=1e-11)


def test_robust_sd():
    for n_rows in (7, 60, 3000):
        found = [float(robust_sd(np.random.default_rng(i).normal(size=n_rows), n_rows // 50, i)) for i in range(200)]
        assert np.mean(found) == pytest.approx(1.0, abs=0.12 if n_rows < 100 else 0.03)
    x = np.random.default_rng(0).normal(size=999)
    x[:300] = 50.0  # of many corrupt rows it is the median deviation
    assert robust_sd(x, 300, 0) == pytest.approx(1.482602218505602 * np.median(np.abs(x - np.median(x))))
    x = np.random.default_rng(1).normal(5, 3, size=2_500_000)
    assert float(robust_sd(x, 25_000, 0)) == pytest.approx(3.0, rel=0.03)
