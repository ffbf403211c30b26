from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from outvote import votes
from outvote.assumptions.assumption import Bounded, FiniteKurtosis, FiniteVariance
from outvote.certificate import (
    Certificate,
    expected_error,
    log_failure,
    mean_squared_error,
    order_statistic_interval,
    radius,
    sigma_free_radius,
    sigma_upper,
)

UNIT = FiniteVariance(1.0)
ONE = {"n_blocks": 41, "n_corrupt": 10, "block_size": 24, "assume": UNIT}
TWO = {"n_blocks": (21, 31), "n_corrupt": (2, 3), "block_size": (10, 8), "assume": UNIT}


def test_radius_of_one_sample_is_the_vote_s():
    for adversary in ("oblivious", "adaptive"):
        for alternative in ("two-sided", "less", "greater"):
            ours = radius(**ONE, confidence=0.95, adversary=adversary, alternative=alternative)
            kwargs = {"adversary": adversary, "alternative": alternative}
            assert ours == pytest.approx(
                float(votes.median_radius(41, 10, 24, log_delta=math.log(0.05), assume=UNIT, **kwargs)), rel=1e-12
            )


def test_confidence_and_delta_agree():
    assert radius(**ONE, confidence=0.95) == pytest.approx(radius(**ONE, delta=0.05))
    assert math.isfinite(radius(**ONE, delta=1e-300))
    assert log_failure(np.float64(0.5), None) == pytest.approx(math.log(0.5))


def test_infinite_when_the_blocks_cannot_outvote():
    for n_blocks in (1, 10, 19, 20):
        assert radius(**{**ONE, "n_blocks": n_blocks}, delta=0.5) == math.inf
    assert radius(**{**ONE, "n_blocks": 21}, delta=1e-12) < math.inf
    assert radius(**{**TWO, "n_corrupt": (8, 9)}, delta=0.5) == math.inf
    assert radius(**{**ONE, "n_corrupt": 100}, delta=0.5) == math.inf


def test_sizes_given_one_by_one():
    equal = radius(**ONE, delta=0.05)
    assert radius(**{**ONE, "block_size": [24] * 41}, delta=0.05) == equal
    assert radius(n_blocks=(41,), n_corrupt=(10,), block_size=(24,), delta=0.05, assume=UNIT) == equal
    better = radius(**{**ONE, "block_size": [24] * 30 + [25] * 11}, delta=0.05)
    assert better <= equal
    worse = radius(**{**ONE, "block_size": (23,) + (24,) * 40}, delta=0.05)
    assert worse >= equal


def test_several_samples():
    full = radius(**TWO, delta=0.05)
    assert full == pytest.approx(
        float(votes.grid_radius((21, 31), (2, 3), (10, 8), log_delta=math.log(0.05), assume=UNIT, degrees=(1, 1)))
    )
    unequal = {**TWO, "block_size": ([10] * 20 + [11], 8)}
    assert radius(**unequal, delta=0.05) == full  # as if all had the smallest size
    diagonal = {**TWO, "n_blocks": (31, 31), "grid": "diagonal"}
    assert radius(**diagonal, delta=0.05) == pytest.approx(
        float(votes.median_radius(31, 5, (10, 8), log_delta=math.log(0.05), assume=UNIT, degrees=(1, 1)))
    )
    common = {**diagonal, "n_blocks": 31, "degrees": (1, 1)}
    assert radius(**common, delta=0.05) == radius(**diagonal, delta=0.05)
    mixed = {**diagonal, "block_size": ([10] * 30 + [11], 8)}
    assert radius(**mixed, delta=0.05) <= radius(**diagonal, delta=0.05)
    same = {**diagonal, "block_size": 8}
    assert radius(**same, delta=0.05) >= radius(**diagonal, delta=0.05)


def test_pairs_need_two_rows():
    with pytest.raises(ValueError, match="at least 2 rows"):
        radius(n_blocks=5, n_corrupt=0, block_size=1, delta=0.1, assume=UNIT, degrees=(2,))


def test_huber():
    common = {"n_blocks": 101, "block_size": 10, "delta": 0.05, "assume": UNIT}
    rates = [radius(**common, huber_rate=z) for z in (0.0, 0.005, 0.02)]
    assert rates[0] < rates[1] < rates[2] < math.inf
    assert radius(**common, huber_rate=0.2) == math.inf
    two = radius(
        n_blocks=101,
        block_size=(5, 5),
        delta=0.05,
        assume=UNIT,
        huber_rate=(0.02, 0.0),
        grid="diagonal",
        degrees=(1, 1),
    )
    assert two < math.inf
    unequal = radius(**{**common, "block_size": [10] * 50 + [11] * 51}, huber_rate=0.005)
    assert unequal == pytest.approx(rates[1], rel=0.1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"confidence": None}, r"exactly one of confidence=None and delta=None"),
        ({"delta": 0.1}, r"exactly one of confidence=0.95 and delta=0.1"),
        ({"confidence": 1.0}, r"confidence=1.0 must lie strictly between 0 and 1"),
        ({"confidence": None, "delta": 0.0}, r"delta=0.0 must lie strictly between 0 and 1"),
        ({"confidence": None, "delta": math.nan}, r"delta=nan"),
        ({"vote": "mode"}, r"vote='mode'"),
        ({"adversary": "evil"}, r"adversary='evil' must be one of 'oblivious', 'adaptive'"),
        ({"alternative": "up"}, r"alternative='up' must be one of"),
        ({"grid": "half"}, r"grid='half' must be one of"),
        ({"n_blocks": 0}, r"n_blocks=0 must be a whole number of at least 1"),
        ({"n_blocks": 4.5}, r"n_blocks=4.5"),
        ({"n_blocks": (5, 5), "degrees": (1, 1, 1)}, r"n_blocks=\(5, 5\) must have 3 entries"),
        ({"n_corrupt": -1}, r"n_corrupt=-1 must be a number of rows"),
        ({"n_corrupt": 0.1}, r"n_corrupt=0.1 must be a number of rows"),
        ({"n_corrupt": None}, r"exactly one of n_corrupt=None and huber_rate=None; give n_corrupt=0"),
        ({"huber_rate": 0.1}, r"exactly one of n_corrupt=10 and huber_rate=0.1"),
        ({"n_corrupt": None, "huber_rate": 1.0}, r"huber_rate=1.0 must be in \[0, 1\)"),
        ({"n_corrupt": None, "huber_rate": 0.1, "adversary": "adaptive"}, r"adversary='adaptive' contradicts"),
        ({"n_corrupt": None, "huber_rate": 0.1, "n_blocks": (3, 3)}, r"no certificate on a full grid"),
        ({"block_size": [24] * 40}, r"block_size has 40 sizes for n_blocks=41"),
        ({"block_size": []}, r"block_size has 0 sizes"),
        ({"block_size": 0}, r"too small"),
        ({"n_blocks": (3, 5), "grid": "diagonal"}, r"the same number of blocks"),
        ({"n_blocks": (3, 5), "block_size": (2, 2, 2)}, r"must be a tuple of 2 sizes"),
        ({"assume": FiniteKurtosis(3.0)}, r"has no sd.*sigma_free_radius"),
    ],
)
def test_radius_errors(change, message):
    with pytest.raises(ValueError, match=message):
        radius(**{**ONE, "confidence": 0.95, **change})


@pytest.mark.parametrize("value", ["0.9", True, [0.9]])
def test_confidence_must_be_a_number(value):
    with pytest.raises(TypeError, match="confidence="):
        log_failure(value, None)


# Expectations.


def test_expected_error_is_the_integral_of_the_failure_probability():
    n, m = 31, 11
    t = np.linspace(1e-6, 60, 2_000_001)
    failure = stats.binom.sf(m - 1, n, np.minimum(1, 1 / t**2))
    common = {**ONE, "block_size": 1}
    assert expected_error(**common) == pytest.approx(trapezoid(failure, t), rel=1e-4)
    assert mean_squared_error(**common) == pytest.approx(trapezoid(2 * t * failure, t), rel=1e-4)
    assert mean_squared_error(**common) == pytest.approx(31 / 10)
    assert mean_squared_error(**common, adversary="adaptive") == pytest.approx(41 / 10)


def test_expected_error_of_a_plain_mean():
    single = {"n_blocks": 1, "n_corrupt": 0, "block_size": 25, "assume": FiniteVariance(2.0)}
    assert expected_error(**single) == pytest.approx(0.4 * 2)  # ∫ min(1, sd²/t²) dt = 2·sd
    assert mean_squared_error(**single) == math.inf
    assert expected_error(**{**single, "n_corrupt": 1}) == math.inf


def test_expected_error_of_unequal_blocks_uses_the_smallest():
    assert expected_error(**{**ONE, "block_size": [24] * 40 + [90]}) == expected_error(**ONE)


def test_expected_error_on_a_grid():
    n, f = (float(a) for a in votes.grid_threshold((21, 31), (2, 3)))
    n_clean = int(n)
    t = np.geomspace(1, 1e4, 4001)
    j = np.arange(n_clean + 1)
    law = stats.binom.pmf(j, n_clean, np.minimum(1, 1 / t[:, None] ** 2))
    sd = float(UNIT.tail((10, 8), (1, 1)).sd)
    for order, function in ((1, expected_error), (2, mean_squared_error)):
        integrals = [
            trapezoid(order * t ** (order - 1) * (law @ np.maximum(j - i, 0)) / (f * n - i), t)
            for i in range(order - 1, math.ceil(f * n))
        ]
        assert function(**TWO) == pytest.approx(sd**order * (1 + min(integrals)), rel=1e-3)
    assert mean_squared_error(**{**TWO, "n_corrupt": (8, 9)}) == math.inf


def test_expected_error_needs_a_scale():
    with pytest.raises(ValueError, match="has no sd"):
        expected_error(**{**ONE, "assume": FiniteKurtosis(3.0)})
    with pytest.raises(ValueError, match="adversary='x'"):
        mean_squared_error(**ONE, adversary="x")
    assert expected_error(**{**ONE, "assume": Bounded(0, 1)}) == pytest.approx(expected_error(**ONE) / 2)


# Unknown scale.


def test_sigma_upper():
    common = {"kurtosis": 3.0, "n_blocks": 41, "n_corrupt": 5, "block_size": 100, "delta": 0.05}
    c = float(votes.variance_shortfall(41, 5, 100, log_delta=math.log(0.05), kurtosis=3.0))
    assert float(sigma_upper(4.0, **common)) == pytest.approx(2 / math.sqrt(1 - c))
    assert sigma_upper([1.0, 4.0], **common).shape == (2,)
    assert sigma_upper([1.0, 0.0], **{**common, "block_size": 2}).tolist() == [math.inf, math.inf]
    with pytest.raises(ValueError, match=r"kurtosis=0.5"):
        sigma_upper(1.0, **{**common, "kurtosis": 0.5})


def test_sigma_free_radius():
    common = {"kurtosis": 3.0, "n_blocks": 41, "n_corrupt": 5, "block_size": 100}
    free = sigma_free_radius([1.0, 4.0], **common, delta=0.05)
    assert free[1] == pytest.approx(2 * free[0])
    known = radius(n_blocks=41, n_corrupt=5, block_size=100, delta=0.05, assume=FiniteKurtosis(3.0, sd=1.0))
    assert known < free[0] < 1.5 * known
    assert float(sigma_free_radius(1.0, **common, delta=0.05, alternative="less")) <= free[0]
    assert sigma_free_radius([1.0, 0.0], **{**common, "block_size": 1}, delta=0.05).tolist() == [math.inf] * 2


# Order statistics.


@pytest.mark.parametrize("adversary", ["oblivious", "adaptive"])
@pytest.mark.parametrize("n_bad", [0, 1, 4, 9])
@pytest.mark.parametrize("k", [1, 2, 20, 41, 400])
def test_order_statistic_rank_is_the_largest_valid(k, n_bad, adversary):
    values = np.arange(k, dtype=float)[::-1]
    for delta in (0.3, 0.05, 1e-6):
        interval = order_statistic_interval(values, n_bad, delta=delta, adversary=adversary)
        n, handicap = (k - n_bad, 0) if adversary == "oblivious" else (k, n_bad)
        valid = [
            r
            for r in range(1, (k + 1) // 2 + 1)
            if r - 1 + handicap < n and 2 * stats.binom.cdf(r - 1 + handicap, n, 0.5) <= delta
        ]
        assert interval.rank == max(valid, default=0)
        if valid:
            assert (interval.low, interval.high) == (interval.rank - 1, k - interval.rank)
        else:
            assert (interval.low, interval.high) == (-math.inf, math.inf)


def test_order_statistic_interval_says_what_it_covers():
    interval = order_statistic_interval(np.arange(21.0), 2, confidence=0.95)
    assert "median of the block distribution" in interval.covers
    assert str(interval).startswith("[4, 16] covers the median of the block distribution")


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], [1.0, math.nan]])
def test_order_statistic_interval_errors(values):
    with pytest.raises(ValueError, match="block_values"):
        order_statistic_interval(values, 0, delta=0.1)
    with pytest.raises(ValueError, match="n_corrupt=-1"):
        order_statistic_interval([1.0], -1, delta=0.1)


# The certificate itself.


def certificate(**change):
    base = {
        "radius": 0.21,
        "provenance": "certified",
        "log_delta": math.log(0.05),
        "requested_log_delta": math.log(0.05),
        "assumption": UNIT,
        "target": "mean",
    }
    return Certificate(**{**base, **change})


def test_certificate_reads_like_a_sentence():
    assert str(certificate()) == (
        "certified 95 %: within 0.21 of the mean for any clean distribution with sd ≤ 1, "
        "if the corrupt positions do not depend on the clean values (oblivious adversary)"
    )
    plug_in = certificate(provenance="plug-in", assumption=None, adversary="adaptive", note="give assume= to certify")
    assert str(plug_in) == (
        "plug-in 95 %: within 0.21 of the mean, "
        "even if the corrupt rows were chosen by their values (adaptive adversary). give assume= to certify"
    )
    clamped = certificate(log_delta=math.log(1e-4), provenance="as stated")
    assert "as stated 99.99 %" in str(clamped)
    assert "(95 % was requested)" in str(clamped)
    assert str(certificate(radius=math.inf, note="too many outliers")) == "no certificate: too many outliers"
    assert str(certificate(provenance="none", radius=math.inf)) == "no certificate"
    assert "within 0.1 to 0.3 of the mean" in str(certificate(radius=np.array([0.1, 0.3])))
    assert "certified 1 - 1e-300:" in str(certificate(log_delta=math.log(1e-300)))


def test_certificate_knows_its_confidence():
    c = certificate(log_delta=math.log(0.01))
    assert c.confidence == pytest.approx(0.99)
    assert c.requested_confidence == pytest.approx(0.95)
    assert c.in_range
    assert certificate(log_delta_range=(-10.0, -1.0)).in_range
    assert not certificate(log_delta_range=(-10.0, -5.0)).in_range


def test_importing_loads_nothing_heavy():
    code = (
        "import sys, outvote.certificate; "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('scipy', 'sklearn', 'pandas')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
