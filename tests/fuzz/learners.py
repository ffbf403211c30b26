"""Random fits of learners."""

import warnings

import numpy as np
from tests.fuzz.fault import check
from tests.fuzz.values import WRONG, pick

import outvote as ov
from outvote.learning import DivergenceError, RobustnessWarning

PARAMETERS = {
    "contamination": (0.05, 0.0, 0.2, 1),
    "n_blocks": ("auto", 3, 5),
    "alpha": (0.0, 0.1),
    "step_size": ("auto", 0.1),
    "momentum": (0.0, 0.5),
    "scaling": ("auto", False, True),
    "tol": (1e-4,),
    "random_state": (0, 1),
    "early_stopping": (False, True),
}


def fit(rng):
    """A fit and its predictions: finite, the same twice, and without a change of the data."""
    kind = pick(rng, (ov.RobustClassifier, ov.RobustRegressor, ov.RobustRanker, ov.RobustMetricLearner))
    n, d = pick(rng, (8, 30, 60)), pick(rng, (1, 2))
    x = rng.normal(size=(n, d)) * pick(rng, (1.0, 1e3, 1e-6, 1e100))
    y = (x[:, 0] > 0).astype(int) if kind in (ov.RobustClassifier, ov.RobustMetricLearner) else rng.normal(size=n)
    if rng.random() < 0.2:
        x[0] = pick(rng, (1e9, np.nan, np.inf, 1.7e308))
    asked = {"max_iter": 5, "random_state": 0}
    for name, choices in PARAMETERS.items():
        if rng.random() < 0.3:
            asked[name] = pick(rng, WRONG if rng.random() < 0.1 else choices)
    before = x.copy(), y.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RobustnessWarning)
        try:
            one, two = kind(**asked).fit(x, y), kind(**asked).fit(x, y)
        except DivergenceError as error:
            raise ValueError(str(error)) from None
    check(np.array_equal(before[0], x, equal_nan=True) and np.array_equal(before[1], y), "the data were modified")
    found = [model.transform(x) if hasattr(model, "transform") else model.predict(x) for model in (one, two)]
    size = np.abs(x).max()
    check(np.isfinite(np.asarray(found[0], dtype=float)).all() or size > 1e100, "a prediction that is no number")
    if asked.get("random_state") is not None:
        check(np.array_equal(*found), "another fit the second time")
    return one


LEARNERS = {fit: 3}
