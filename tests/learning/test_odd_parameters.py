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


@pytest.mark.parametrize("value", [None, "no", (0.1,), 1, [True]])
@pytest.mark.parametrize(
    "name", ["scaling", "average", "finish", "fit_intercept", "early_stopping", "warm_start"]
)  # fmt: skip
def test_switches_are_true_or_false(name, value):
    with pytest.raises(TypeError, match=f"{name}=.* must be True or False"):
        ov.RobustClassifier(random_state=0, **{name: value}).fit(X, Y)


LEARNERS = [
    ov.RobustClassifier, ov.RobustRegressor, ov.RobustRanker, ov.RobustMetricLearner, ov.RobustAUCClassifier,
]  # fmt: skip


@pytest.mark.filterwarnings("error::RuntimeWarning", "error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**-500, 2.0**500, 2.0**1000, 2.0**1020])
@pytest.mark.parametrize("learner", LEARNERS)
def test_columns_near_the_ends_of_floats_give_the_same_fit(learner, unit):
    one, two = (learner(contamination=0.05, random_state=0).fit(x, Y) for x in (X, X * unit))
    predict = "transform" if learner is ov.RobustMetricLearner else "predict"
    expected = getattr(one, predict)(X)
    np.testing.assert_allclose(getattr(two, predict)(X * unit), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::outvote.learning.RobustnessWarning")
@pytest.mark.parametrize(
    ("learner", "n_blocks"), [(ov.RobustClassifier, 3), (ov.RobustAUCClassifier, "auto")]
)  # fmt: skip
def test_a_row_that_no_float_can_weigh_gives_a_fit_or_says_so(learner, n_blocks):
    said = 0
    for seed in range(10, 60):
        x = np.random.default_rng(seed).normal(size=(8, 1 + seed % 2))
        y = (x[:, 0] > 0).astype(int)
        x[0] = 1.7e308
        try:
            learner(contamination=0.05, max_iter=5, random_state=1, n_blocks=n_blocks).fit(x, y).predict(x)
        except ov.learning.DivergenceError as error:
            said += "multiply them" in str(error)
    assert said
