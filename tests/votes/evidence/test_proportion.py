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
    assert "3 rows are neither 0 nor 1: counted as corrupt" in result.explain()
    with pytest.raises(ValueError, match="x has values outside the bounds of Proportion"):
        ov.mean(x, 2, assume=ov.Proportion())


def test_bounds_stay_within_0_and_1():
    for ones in (0, 1, 19, 20):
        low, high = found(20, ones, 3).interval
        assert 0 <= low < high <= 1


def test_booleans_imply_it_everywhere():
    x, y = np.arange(500) % 10 == 0, np.arange(400) % 5 == 0
    for one in (
        ov.difference(x, y, 3),
        ov.tolerance(x, y, contamination=3).estimate,
        ov.tolerance(x, claim="mean > 0.01", contamination=3).estimate,
        ov.certify_risk(x, contamination=3),
        ov.metrics.robust_accuracy(x, np.zeros(500, dtype=bool), contamination=3),
    ):
        assert one.certificate.assumption == ov.Proportion()
        assert one.certificate.provenance == "certified"
    assert ov.sensitivity(x, levels=[0, 3]).provenance == ov.sensitivity(x, y, levels=[0, 3]).provenance == "certified"
    pairs = ov.difference(x[:400], y, 3, paired=True)
    assert pairs.certificate.assumption == ov.Bounded(-1, 1)
    assert pairs.certificate.provenance == "certified"


def test_risks_of_0_1_losses_stay_in_0_and_1():
    wrong = np.zeros(143, dtype=bool)
    wrong[:5] = True
    found = ov.certify_risk(wrong, contamination=2)
    assert found.interval == (0.0, pytest.approx(0.0731, abs=5e-5))
    assert ov.certify_risk(wrong.astype(int), contamination=2, assume=ov.Proportion()).interval == found.interval
    assert ov.certify_risk(np.ones(9, dtype=bool), contamination=2).interval.high == 1.0
    assert 0 < ov.certify_risk(wrong, contamination=2, vc_dim=1).interval.high <= 1


def test_rows_of_0_and_1_that_are_not_declared_get_a_hint():
    x = np.arange(500) % 2.0
    hint = "These rows are all 0 or 1: if that is by definition, assume=Proportion() gives an exact interval."
    assert hint in ov.mean(x, 5).explain()
    assert hint in ov.difference(x, x, 5).explain()
    assert hint in ov.mean(x, 5, assume=ov.Bounded(0, 1)).explain()
    for other in (ov.mean(x > 0, 5), ov.mean(x, 5, assume=ov.Proportion()), ov.mean(np.r_[x, 0.5], 5)):
        assert hint not in other.explain()


def test_a_value_that_is_neither_is_named():
    x = np.arange(100) % 2.0
    x[7] = 0.25
    for run in (
        lambda: ov.mean(x, 0, assume=ov.Proportion()),
        lambda: ov.difference(x, x, 0, assume=ov.Proportion()),
    ):
        with pytest.raises(ValueError, match=r"outside the bounds of Proportion\(\), 0.25 for instance"):
            run()
    x[8] = np.nan
    found = ov.mean(x, 2, assume=ov.Proportion(), nan_policy="corrupt")
    assert found.interval == ov.mean(np.delete(x, [7, 8]) > 0, 0).interval


def test_booleans_are_neither_sorted_nor_copied(monkeypatch):
    monkeypatch.setattr(np, "sort", lambda *_: pytest.fail("sorted"))
    x = np.arange(1000) % 7 == 0
    assert ov.mean(x, 5).interval.low < 1 / 7 < ov.certify_risk(x, contamination=5).interval.high
