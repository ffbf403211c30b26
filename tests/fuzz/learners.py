"""Random fits of learners."""

import warnings

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from tests.fuzz import hold
from tests.fuzz.fault import check
from tests.fuzz.values import WRONG, WRONG_ROWS, arguments, pick

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


def robust_fit(rng):
    """Any model on dirty rows: no more rows are left out than may be corrupt, and the same ones twice."""
    n, d = pick(rng, (0, 1, 5, 40, 40, 90)), pick(rng, (1, 2, 3))
    x = rng.normal(size=(n, d)) * pick(rng, (1.0, 1.0, 1e3, 1e-6, 1e30, 5e-324))  # trees compute with float32
    sizes = x[:, 0] / max(np.abs(x).max(initial=0.0), 1e-300)
    classes = rng.random() < 0.5
    y = pick(rng, ((sizes > 0).astype(int), np.where(sizes > 0, "b", "a"))) if classes else sizes
    if n and rng.random() < 0.3:
        x[0] = pick(rng, (1e9, np.nan, np.inf, -1e38))
    if n and not classes and rng.random() < 0.1:
        y[0] = pick(rng, (1e9, np.nan, np.inf, -1.7e308))
    tree = DecisionTreeClassifier if classes else DecisionTreeRegressor
    model = pick(rng, (*[tree(random_state=0)] * 4, KNeighborsClassifier(2), pick(rng, (5, None, "x"))))
    asked = {"random_state": 0}
    for name, choices in {"contamination": (0.1, 0, 2, 0.3), "loss": ("auto", _away), "n_jobs": (None, 1)}.items():
        if rng.random() < 0.4:
            asked[name] = pick(rng, WRONG if rng.random() < 0.1 else choices)
    before = x.copy(), y.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RobustnessWarning)
        one, two = (ov.RobustFit(model, **asked).fit(x, y) for _ in range(2))
    check(np.array_equal(before[0], x, equal_nan=True) and np.array_equal(before[1], y), "the data were modified")
    left_out = int(np.sum(~one.support_))
    allowed = ov.Contamination.of(asked.get("contamination", 0.1)).count(n)
    check(left_out <= allowed, f"{left_out} rows are left out, {allowed} may be corrupt")
    check(np.array_equal(one.support_, two.support_), "other rows the second time")
    check(len(one.predict(x)) == n, "predictions are lacking")
    return one


def _away(y_true, y_pred):
    return np.abs((y_true != y_pred).astype(float))


def scored(rng):
    """A metric of predictions, by itself and by name: an interval that holds the estimate, the same twice."""
    n = pick(rng, (0, 1, 3, 40, 200, 1000))
    scores = rng.normal(size=n) * pick(rng, (1.0, 1.0, 1e200, 1e-200))
    y = (scores + rng.normal(size=n) > 0).astype(int)
    name = pick(rng, ("accuracy", "auc", "mean_squared_error", "mean_absolute_error", "concordance", "log_loss"))
    given = {"accuracy": (scores > 0).astype(int), "log_loss": rng.random(n)}.get(name, scores)
    truth = y if name in ("accuracy", "auc", "log_loss") else y * pick(rng, (1.0, 1e300))
    if n and rng.random() < 0.15:
        given = given.astype(float)
        given[0] = pick(rng, (np.nan, np.inf, 1e308))
    if rng.random() < 0.08:
        given = pick(rng, (*WRONG_ROWS, given[:-1]))
    if rng.random() < 0.05:
        truth = pick(rng, WRONG_ROWS)
    asked = arguments(rng, ("contamination", "confidence", "nan_policy"))
    if asked.get("contamination") == "auto":
        asked.pop("contamination")
    metric = getattr(ov.metrics, f"robust_{name}")
    one, two = metric(truth, given, **asked), metric(truth, given, **asked)
    hold.ordered(one)
    check(hold.same(one, two), "another answer the second time")
    if name in ("accuracy", "auc", "concordance"):
        check(-1e-12 <= one.interval.low <= one.interval.high <= 1 + 1e-12, f"{name} in {one.interval}")
    return one


LEARNERS = {fit: 3}
#: Of seeds from 1000 on.
LATER_LEARNERS = {robust_fit: 2, scored: 4}
