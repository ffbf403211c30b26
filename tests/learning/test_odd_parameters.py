"""Parameters of other kinds are refused, and predictions of short floats do not overflow."""

from fractions import Fraction

import numpy as np
import pytest

import outvote as ov

X = np.random.default_rng(0).normal(size=(40, 2))
Y = (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("value", [None, "x", [1], 10**400, 1j, {}, -1])
@pytest.mark.parametrize("name", ["step_size", "momentum", "alpha", "tol", "validation_fraction", "middle"])
def test_parameters_of_another_kind_are_refused(name, value):
    if (name, value) == ("middle", None):
        pytest.skip("None is a choice")
    with pytest.raises(ValueError, match=f"{name}(=| is too large)"):
        ov.RobustClassifier(max_iter=2, random_state=0, early_stopping=True, **{name: value}).fit(X, Y)


@pytest.mark.parametrize("learner", [ov.RobustRegressor, ov.RobustRanker])
def test_predictions_of_short_floats_do_not_overflow(learner):
    model = learner(max_iter=2, random_state=0).fit(X, X[:, 0])
    model.coef_ = model.coef_ * 1e30
    found = model.predict(np.full((1, 2), 1e20, dtype=np.float32))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("name", ["momentum", "step_size", "alpha", "contamination"])
def test_fractions_are_numbers(name):
    x = np.random.default_rng(0).normal(size=(60, 2))
    one, two = (
        ov.RobustRegressor(max_iter=5, random_state=0, **{name: value}).fit(x, x[:, 0]).predict(x)
        for value in (Fraction(1, 8), 0.125)
    )
    np.testing.assert_array_equal(one, two)
