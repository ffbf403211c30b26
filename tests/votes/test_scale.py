"""The shortfall of block variances below the variance."""

from __future__ import annotations

import numpy as np

from outvote.votes import sigma_free_factor, variance_shortfall


def test_variance_shortfall_is_infinite_without_a_certificate():
    assert variance_shortfall(11, 0, 1, log_delta=-3.0, kurtosis=3.0) == np.inf
    assert variance_shortfall(11, 6, 10, log_delta=-3.0, kurtosis=3.0) == np.inf
    assert sigma_free_factor(11, 0, 1, log_delta=-3.0, kurtosis=3.0)[0] == np.inf
