"""Parameters and targets of other kinds are refused, and numbers at the ends of floats are not."""

import re
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import outvote as ov

X = np.random.default_rng(0).normal(size=(40, 2))
Y = (X[:, 0] > 0).astype(int)
LEARNERS = [ov.RobustClassifier, ov.RobustRegressor, ov.RobustRanker, ov.RobustMetricLearner, ov.RobustAUCClassifier]
LABELLED = [ov.RobustClassifier, ov.RobustAUCClassifier, ov.RobustMetricLearner]


@pytest.mark.parametrize("name", ["step_size", "momentum", "alpha", "tol", "validation_fraction", "middle"])
def test_parameters_of_another_kind_are_refused(name):
    for value in ("x", [1], 10**400, -1, *([None] if name != "middle" else [])):
        with pytest.raises(ValueError, match=f"{name}(=| is too large)"):
            ov.RobustClassifier(max_iter=2, random_state=0, early_stopping=True, **{name: value}).fit(X, Y)


@pytest.mark.parametrize("name", ["scaling", "average", "finish", "fit_intercept", "early_stopping", "warm_start"])
def test_switches_are_true_or_false(name):
    for value in (None, "no", 1, [True]):
        with pytest.raises(TypeError, match=f"{name}=.* must be True or False"):
            ov.RobustClassifier(random_state=0, **{name: value}).fit(X, Y)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"loss": np.array([1, 2])}, r"loss=array\(\[1, 2\]\) is not one of"),
        ({"callbacks": 5}, "callbacks=5 must be a sequence of functions"),
        ({"callbacks": [5]}, r"callbacks=\[5\] must be a sequence of functions"),
        ({"callbacks": print}, "callbacks=.*: put it into a list"),
        ({"verbose": "x"}, "verbose='x' must be an integer"),
        ({"verbose": -1}, "verbose=-1 must be at least 0"),
        ({"algorithm": [1]}, r"algorithm=\[1\] is neither"),
        ({"init": ["a", "b"]}, "init=.* must be .* finite coefficients of shape"),
        ({"init": 10**400}, "init=.* must be .* finite coefficients of shape"),
        ({"init": np.full((2, 2), np.nan)}, "(?s)init=.* must be .* finite coefficients of shape"),
    ],
)
def test_odd_choices_are_refused(learner, given, words):
    with pytest.raises((TypeError, ValueError), match=words):
        learner(max_iter=2, random_state=0, **given).fit(X, Y)


@pytest.mark.parametrize("learner", LEARNERS)
def test_steps_are_counted(learner):
    for n_steps in (0, -1, 1.5, "a"):
        with pytest.raises((TypeError, ValueError), match=f"n_steps={n_steps!r} must be"):
            learner(random_state=0).partial_fit(X, Y, n_steps=n_steps)


def test_numbers_of_jobs_and_random_states_that_cannot_be_are_refused():
    for value in (0, 1.5, "x", float("inf"), 2**31, 10**30, True):
        told = re.escape(f"n_jobs={value!r} must be a number of jobs from 1 to 10000, or -1 for all processors")
        with pytest.raises(ValueError, match=told):
            ov.RobustFit(DecisionTreeClassifier(), n_jobs=value).fit(X, Y)
        with pytest.raises(ValueError, match=told):
            ov.u_statistic(X[:, 0], kernel="gini", n_jobs=value)
    for seed in (-1, 10**400, "x"):
        for model in (ov.RobustRegressor(random_state=seed), ov.RobustFit(DecisionTreeRegressor(), random_state=seed)):
            with pytest.raises(ValueError, match=r"random_state=.* must be an integer from 0"):
                model.fit(X, X[:, 0])


@pytest.mark.parametrize("name", ["momentum", "step_size", "alpha", "contamination"])
def test_fractions_are_numbers(name):
    x = np.random.default_rng(0).normal(size=(60, 2))
    one, two = (
        ov.RobustRegressor(max_iter=5, random_state=0, **{name: value}).fit(x, x[:, 0]).predict(x)
        for value in (Fraction(1, 8), 0.125)
    )
    np.testing.assert_allclose(one, two, rtol=1e-9)


# --- the ends of floats -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", [ov.RobustRegressor, ov.RobustRanker])
def test_predictions_of_short_floats_do_not_overflow(learner):
    model = learner(max_iter=2, random_state=0).fit(X, X[:, 0])
    model.coef_ = model.coef_ * 1e30
    assert np.isfinite(model.predict(np.full((1, 2), 1e20, dtype=np.float32))).all()


@pytest.mark.filterwarnings("error::RuntimeWarning", "error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learner", LEARNERS)
def test_columns_near_the_ends_of_floats_give_the_same_fit(learner):
    predict = "transform" if learner is ov.RobustMetricLearner else "predict"
    expected = getattr(learner(contamination=0.05, random_state=0).fit(X, Y), predict)(X)
    for unit in (2.0**-1000, 2.0**500, 2.0**1020):
        model = learner(contamination=0.05, random_state=0).fit(X * unit, Y)
        np.testing.assert_allclose(getattr(model, predict)(X * unit), expected, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::outvote.learning.RobustnessWarning")
@pytest.mark.parametrize(("learner", "n_blocks"), [(ov.RobustClassifier, 3), (ov.RobustAUCClassifier, "auto")])
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


@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::outvote.learning.RobustnessWarning")
@pytest.mark.parametrize("learner", LEARNERS)
def test_columns_and_scales_without_an_inverse(learner):
    for unit, scaling in ((5e-324, True), (1e-310, False)):
        with pytest.raises(ValueError, match=r"column 0 of X has no value above .*: multiply it by a number"):
            learner(random_state=0, scaling=scaling).fit(X * unit, Y)
    x = np.column_stack([X, X[:, 0] * 5e-324])
    x[0, 2] = 1.0
    learner(contamination=0.05, max_iter=3, random_state=0).fit(x, Y)


def test_targets_that_no_float_holds_are_refused_and_large_ones_are_quiet():
    for fit in (ov.RobustRegressor(random_state=0).fit, ov.RobustFit(DecisionTreeRegressor(), random_state=0).fit):
        with pytest.raises((TypeError, ValueError), match=r"too large for a float|that floats hold"):
            fit(X, [10**400] * len(X))
        fit(X, np.tanh(X[:, 0]) * 1e306)
        with pytest.raises(ValueError, match="y spans more than a float holds"):
            fit(X, np.tanh(X[:, 0]) * 1.7e308)
    for model in (ov.RobustFit(DecisionTreeClassifier()), *(learner() for learner in LABELLED)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ValueError, match="Unknown label type: continuous"):
                model.fit(X, np.where(Y, 1e308, 0.0))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_losses_of_held_out_rows():
    for model in (ov.RobustRegressor(max_iter=2), ov.RobustFit(DecisionTreeRegressor())):
        model.fit(X, X[:, 0])
        with pytest.raises(ValueError, match="NaN or infinite values"):
            model.certify(X, np.full(40, 1e200))
        with pytest.raises(TypeError, match="y holds <U1 values"):
            model.certify(X, ["a"] * 40)


def test_divergence_is_an_error_of_value_and_of_arithmetic():
    assert issubclass(ov.learning.DivergenceError, ValueError)
    assert issubclass(ov.learning.DivergenceError, ArithmeticError)


# --- rows and targets -------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::outvote.learning.RobustnessWarning")
@pytest.mark.parametrize("learner", [*LEARNERS, lambda **_: ov.RobustFit(DecisionTreeClassifier(), random_state=0)])
def test_masks_and_repeated_names_are_refused(learner):
    masked = np.ma.array(X, mask=X > 1)
    with pytest.raises(TypeError, match="X is a masked array"):
        learner(random_state=0).fit(masked, Y)
    with pytest.raises(TypeError, match="y is a masked array"):
        learner(random_state=0).fit(X, np.ma.array(Y, mask=Y > 0))
    with pytest.raises(ValueError, match="X has two columns of the same name, 'b'"):
        learner(random_state=0).fit(pd.DataFrame(X, columns=["b", "b"]), Y)
    model = learner(random_state=0).fit(X, Y)
    with pytest.raises(TypeError, match="y is a masked array"):
        model.certify(X, np.ma.array(Y, mask=Y > 0))
    with pytest.raises(ValueError, match="y has 3 entries for 40 rows"):
        model.certify(X, Y[:3])
    with pytest.raises(TypeError, match="X is a masked array"):
        (model.transform if hasattr(model, "transform") else model.predict)(masked)


@pytest.mark.parametrize("learner", LABELLED)
def test_labels_of_several_kinds_are_refused(learner):
    mixed = np.array(["a", 1] * 20, dtype=object)
    with pytest.raises(TypeError, match="y mixes labels of several kinds"):
        learner(random_state=0).fit(X, mixed)
    model = learner(max_iter=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="y contains NaN"):
        model.certify(X, np.where(np.arange(40) == 3, np.nan, Y))
    if learner is ov.RobustMetricLearner:
        with pytest.raises(TypeError, match="mixes labels of several kinds"):
            model.certify(X, mixed)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_pairs_are_checked():
    pairs, alike = np.stack([X, X[::-1]], axis=1), np.where(Y, 1, -1)
    learner = ov.RobustMetricLearner(max_iter=2, random_state=0)
    for odd, signs, error, words in (
        (X, alike, ValueError, "n_pairs, 2, n_features"),
        (pairs, ["a"] * 40, ValueError, r"alike must hold \+1 or -1"),
        (pairs, np.zeros(40), ValueError, r"\+1 or -1"),
        (pairs, np.ones(40), ValueError, "alike is constant"),
        (np.ma.array(pairs, mask=pairs > 0), alike, TypeError, "pairs is a masked array"),
        (np.sign(pairs) * 1.7e308, alike, ValueError, "differ by more than the largest float"),
    ):
        with pytest.raises(error, match=words):
            learner.fit_pairs(odd, signs)
    with pytest.raises(TypeError, match="scaling='x' must be True or False"):
        ov.RobustMetricLearner(scaling="x").fit_pairs(pairs, alike)
    with pytest.raises(ValueError, match=r"\(n_pairs, 2, 2\) is needed"):
        learner.fit_pairs(pairs, alike).pair_distance(np.zeros((3, 2, 5)))


def test_the_order_of_scores_is_checked():
    ranker = ov.RobustRanker(max_iter=2, random_state=0).fit(X, X[:, 0])
    for call, words in (
        (lambda: ranker.score(X, Y[:3]), "y has 3 entries for 40 rows"),
        (lambda: ranker.score(X, Y, groups=[1]), "groups has 1 entries for 40 rows"),
        (lambda: ranker.fit(X, Y, groups=[1, 2, 3]), "groups has 3 entries for 40 rows"),
        (lambda: ranker.score(X, Y, groups=np.arange(40)), "no group holds two rows with different y"),
        (lambda: ranker.fit(X, Y, groups=np.arange(40)), "no group holds two rows with different y"),
        (lambda: ov.learning.concordance(np.full(40, np.nan), Y), "scores or y has NaN"),
        (lambda: ov.learning.concordance(Y, Y[:3]), "give one number per row"),
        (lambda: ov.learning.concordance(np.arange(3.0), np.ones(3)), "y is constant"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_a_loss_of_ones_own_returns_numbers():
    for loss, error in ((lambda t, p: ["x"] * 40, TypeError), (np.array([1, 2]), ValueError)):
        with pytest.raises(error, match="loss"):
            ov.RobustFit(DecisionTreeClassifier(), loss=loss, random_state=0).fit(X, Y)
