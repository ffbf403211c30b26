"""Exact intervals of proportions with corrupt rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import outvote as ov


def found(n, ones, m, adversary="oblivious", **options):
    x = np.zeros(n)
    x[:ones] = 1.0
    return ov.mean(x, ov.Contamination(m, adversary), assume=ov.Proportion(), **options)


def test_known_values():
    """Five errors in 143 rows, two of which may be wrong."""
    assert found(143, 5, 2, alternative="less").interval.high == pytest.approx(0.0731, abs=5e-5)
    assert found(143, 5, 2).interval.high == pytest.approx(0.0808, abs=5e-5)
    exact = stats.binomtest(30, 400).proportion_ci(method="exact")
    assert found(400, 30, 0).interval == pytest.approx((exact.low, exact.high), rel=1e-9)


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("alternative", ["two-sided", "less", "greater"])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
@pytest.mark.parametrize(("n", "m"), [(10, 1), (25, 3), (60, 0)])
def test_miss_probability_is_at_most_delta_whatever_the_corrupt_rows_say(n, m, adversary, alternative, confidence):
    """Exact sums over the clean rows, for every number of ones that the corrupt rows can leave or make."""
    ends = [found(n, k, m, adversary, alternative=alternative, confidence=confidence).interval for k in range(n + 1)]
    for p in np.linspace(0.0, 1.0, 101):
        wrong = np.array([not end.low - 1e-12 <= p <= end.high + 1e-12 for end in ends])
        clean = np.arange((n if adversary == "adaptive" else n - m) + 1)
        weights = stats.binom.pmf(clean, clean[-1], p)
        if adversary == "adaptive":  # up to m rows are turned around
            fooled = [wrong[max(k - m, 0) : min(k + m, n) + 1].any() for k in clean]
        else:  # m rows are added
            fooled = [wrong[k : k + m + 1].any() for k in clean]
        assert weights @ np.array(fooled) <= 1 - confidence + 1e-9


def test_oblivious_interval_is_wrong_against_an_adaptive_adversary():
    """Whoever turns zeros into ones and ones into zeros after seeing them moves twice as much."""
    n, m, p = 60, 6, 0.5
    ends = [found(n, k, m, confidence=0.8).interval for k in range(n + 1)]
    wrong = np.array([not end.low <= p <= end.high for end in ends])
    fooled = [wrong[max(k - m, 0) : min(k + m, n) + 1].any() for k in range(n + 1)]
    assert stats.binom.pmf(np.arange(n + 1), n, p) @ np.array(fooled) > 0.2


def test_boolean_rows_are_proportions_and_numbers_are_not():
    x = np.arange(500) % 10 == 0
    assert ov.mean(x, 5).certificate.assumption == ov.Proportion()
    assert ov.mean(x, 5).interval == found(500, 50, 5).interval
    assert ov.mean(x.astype(float), 5).certificate.provenance == "conditional"
    assert ov.mean(x, 5, vote="median", rng=0).plan.vote == "median"


def test_other_values_are_corrupt_for_certain():
    x = np.arange(500) % 2.0
    x[:3] = [0.5, -1.0, 7.0]
    result = ov.mean(x, 5, assume=ov.Proportion())
    assert "3 rows of x lie outside the bounds" in result.explain()
    with pytest.raises(ValueError, match="x has values outside the bounds of Proportion"):
        ov.mean(x, 2, assume=ov.Proportion())


def test_bounds_stay_within_0_and_1():
    for ones in (0, 1, 19, 20):
        low, high = found(20, ones, 3).interval
        assert 0 <= low < high <= 1
