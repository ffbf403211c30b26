"""Confidence, failure probability, and one value per sample."""

import math
from fractions import Fraction

import numpy as np
import pytest

from outvote.data.arguments import log_delta_of, log_failure, whole_per_sample


@pytest.mark.parametrize(("confidence", "delta"), [(0.95, 0.05), (Fraction(1, 2), 0.5), (1 - 2.0**-50, 2.0**-50)])
def test_confidence_becomes_the_logarithm_of_delta(confidence, delta):
    assert log_delta_of(confidence) == pytest.approx(math.log(delta))
    assert log_failure(confidence, None) == log_delta_of(confidence)
    assert log_failure(None, delta) == pytest.approx(math.log(delta))


def test_tiny_probabilities_keep_their_digits():
    assert log_delta_of(1e-5) == pytest.approx(math.log1p(-1e-5))
    assert log_failure(None, 1e-300) == pytest.approx(math.log(1e-300))


@pytest.mark.parametrize("value", [0, 1, float("nan")])
def test_probabilities_out_of_range_raise(value):
    with pytest.raises(ValueError, match=r"confidence=.* must lie strictly between 0 and 1, 0.95 for instance$"):
        log_failure(value, None)
    with pytest.raises(ValueError, match=f"delta={value!r} must lie strictly between 0 and 1"):
        log_failure(None, value)


@pytest.mark.parametrize("value", ["0.95", True, [0.9]])
def test_probabilities_that_are_no_numbers_raise(value):
    with pytest.raises(TypeError, match=r"confidence=.* must be a number strictly between 0 and 1"):
        log_delta_of(value)


@pytest.mark.parametrize("value", [5, (5, 5), np.array([5, 5]), np.int64(5)])
def test_one_integer_serves_every_sample(value):
    found = whole_per_sample("n_blocks", value, 2)
    assert found == (5, 5)
    assert {type(one) for one in found} == {int}


@pytest.mark.parametrize("value", [2.0, True, "many", (2, 3.0), np.array([2.0, 2.0])])
def test_values_that_are_no_integers_raise(value):
    with pytest.raises(TypeError, match=r"n_blocks=.* must be an integer, or a tuple with one for each sample"):
        whole_per_sample("n_blocks", value, 2)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "n_blocks=0 must be at least 1"),
        ((), r"n_blocks=\(\) names no sample"),
        ((2, 3, 4), r"n_blocks=\(2, 3, 4\) has 3 entries for 2 samples"),
    ],
)
def test_wrong_numbers_per_sample_raise(value, message):
    with pytest.raises(ValueError, match=message):
        whole_per_sample("n_blocks", value, 2)
