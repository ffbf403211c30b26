"""Certified radii and expected errors of given blocks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import trapezoid

from outvote import votes
from outvote.assumptions.assumption import Bounded, FiniteKurtosis, FiniteVariance
from outvote.certificate import expected_error, log_failure, mean_squared_error, radius, uniform_radius

UNIT = FiniteVariance(1.0)
ONE = {"n_blocks": 41, "n_corrupt": 10, "block_size": 24, "assume": UNIT}
TWO = {"n_blocks": (21, 31), "n_corrupt": (2, 3), "block_size": (10, 8), "assume": UNIT}


def test_radius_of_one_sample_equals_the_median_radius():
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


def test_radius_is_infinite_without_a_clean_majority():
    for n_blocks in (1, 10, 19, 20):
        assert radius(**{**ONE, "n_blocks": n_blocks}, delta=0.5) == math.inf
    assert radius(**{**ONE, "n_blocks": 21}, delta=1e-12) < math.inf
    assert radius(**{**TWO, "n_corrupt": (8, 9)}, delta=0.5) == math.inf
    assert radius(**{**ONE, "n_corrupt": 100}, delta=0.5) == math.inf


def test_radius_of_unequal_block_sizes():
    equal = radius(**ONE, delta=0.05)
    assert radius(**{**ONE, "block_size": [24] * 41}, delta=0.05) == equal
    assert radius(n_blocks=(41,), n_corrupt=(10,), block_size=(24,), delta=0.05, assume=UNIT) == equal
    better = radius(**{**ONE, "block_size": [24] * 30 + [25] * 11}, delta=0.05)
    assert better <= equal
    worse = radius(**{**ONE, "block_size": (23,) + (24,) * 40}, delta=0.05)
    assert worse >= equal


def test_radius_of_several_samples():
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


def test_degree_may_be_a_number_and_needs_so_many_rows():
    blocks = {"n_blocks": 41, "n_corrupt": 5, "block_size": 10, "confidence": 0.95, "assume": UNIT}
    assert radius(**blocks, degrees=2) == radius(**blocks, degrees=(2,))
    with pytest.raises(ValueError, match="at least 2 rows"):
        radius(**{**blocks, "block_size": 1}, degrees=(2,))


def test_radius_in_hubers_model():
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
        ({"n_blocks": 0}, r"n_blocks=0 must be at least 1"),
        ({"n_blocks": (5, 5), "degrees": (1, 1, 1)}, r"n_blocks=\(5, 5\) has 2 entries for 3 samples"),
        ({"n_corrupt": -1}, r"n_corrupt=-1 must be at least 0"),
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
def test_invalid_arguments_of_radius_raise(change, message):
    with pytest.raises(ValueError, match=message):
        radius(**{**ONE, "confidence": 0.95, **change})


def test_what_is_not_a_number_of_rows_is_refused():
    for change in (
        {"n_blocks": 4.5}, {"n_blocks": True}, {"n_corrupt": 0.1}, {"n_corrupt": True}, {"degrees": "ab"},
        {"block_size": math.inf}, {"block_size": 10**400}, {"block_size": "a"},
        {"n_corrupt": None, "huber_rate": "some"},
    ):  # fmt: skip
        with pytest.raises(TypeError, match=f"{list(change)[-1]}=.* must be"):
            radius(**{**ONE, "confidence": 0.95, **change})
    with pytest.raises(TypeError, match="assume=None must be an assumption"):
        radius(**{**ONE, "confidence": 0.95, "assume": None})
    for change in ({"n_blocks": 10**400}, {"n_corrupt": 10**30}, {"n_blocks": ()}):
        with pytest.raises(ValueError, match=r"must be at most 2\*\*53|names no sample"):
            radius(**{**ONE, "confidence": 0.95, **change})


@pytest.mark.parametrize("vote", ["median", "soft", "clipped"])
def test_small_integers_of_numpy_give_the_same_radius(vote):
    given = {"n_blocks": 120, "n_corrupt": 50, "block_size": 100, "vote": vote}
    small = {name: value if name == "vote" else np.int8(value) for name, value in given.items()}
    settings = {"confidence": 0.95, "assume": ONE["assume"]}
    assert radius(**small, **settings) == radius(**given, **settings)
    bare = {name: value for name, value in small.items() if name != "vote"}
    assert radius(**bare, **settings, vote="evidence") == radius(
        n_rows=12_000, n_corrupt=50, **settings, vote="evidence"
    )


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


def test_expected_error_needs_a_scale_and_a_known_adversary():
    with pytest.raises(ValueError, match="has no sd"):
        expected_error(**{**ONE, "assume": FiniteKurtosis(3.0)})
    with pytest.raises(ValueError, match="adversary='x'"):
        mean_squared_error(**ONE, adversary="x")
    assert expected_error(**{**ONE, "assume": Bounded(0, 1)}) == pytest.approx(expected_error(**ONE) / 2)


@pytest.mark.parametrize("size", [math.inf, -math.inf, -1e300, math.nan, 2**60])
def test_impossible_block_sizes_are_refused(size):
    for function, more in ((radius, {"confidence": 0.95}), (expected_error, {})):
        with pytest.raises((TypeError, ValueError), match="block_size"):
            function(n_blocks=11, n_corrupt=1, block_size=size, assume=FiniteVariance(1.0), **more)


# --- classes of models

GIVEN = {"n_blocks": 101, "n_corrupt": 5, "block_size": 100, "vc_dim": 3, "confidence": 0.95}


def test_small_integers_of_numpy_give_the_same_uniform_radius():
    small = {name: np.int8(value) if isinstance(value, int) else value for name, value in GIVEN.items()}
    assert uniform_radius(**small) == uniform_radius(**GIVEN)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"n_corrupt": -1}, ValueError), ({"n_blocks": 0}, ValueError), ({"block_size": 1}, ValueError),
        ({"vc_dim": 0}, ValueError), ({"vc_dim": 2.5}, TypeError), ({"degree": 0}, ValueError),
        ({"bound": 0.0}, ValueError), ({"bound": "1"}, TypeError), ({"n_blocks": 10**400}, ValueError),
    ],
)  # fmt: skip
def test_impossible_numbers_of_a_class_are_refused(change, error):
    with pytest.raises(error, match=next(iter(change))):
        uniform_radius(**{**GIVEN, **change})
