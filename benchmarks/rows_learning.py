"""Learning."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

import outvote as ov
from outvote import _numba
from outvote.learning.fit import Fit
from outvote.learning.losses import MetricHinge, PairHinge, PairLogistic

from .measure import Job, Row, later, normal, power


def alone(job: Job) -> Job:
    """The job with products of matrices on one thread, as everything else here."""

    def run() -> Any:
        with _numba.one_thread():
            return job()

    return run


def epoch(learner: Any, loss: Any, x: Any, y: Any, **blocks: int) -> Job:
    """One epoch of a descent: scores, blocks, risks, the middle, the gradient."""
    problem = replace(Fit.begin(learner.set_params(**blocks), x, y).problem, loss=loss)
    rng = np.random.default_rng(0)
    theta = loss.start(x.shape[1], 1)
    if theta.ndim == 1:
        theta = 0.01 * rng.normal(size=theta.shape)
    counts = np.zeros(len(x), dtype=np.int64)
    return lambda: problem.epoch(theta, rng, counts)


@lru_cache(maxsize=2)
def ranked(n_rows: int, columns: int, dtype: str = "float64") -> tuple[Any, Any]:
    """Rows and noisy numbers to order them by."""
    x = normal(n_rows, columns, dtype=dtype)
    return x, np.asarray(x[:, 0] + x[:, 1], dtype=np.float64)


@lru_cache(maxsize=2)
def noisy(n_rows: int, columns: int) -> tuple[Any, Any]:
    """Rows, a linear function of them with noise, and one row in a hundred far off."""
    x = normal(n_rows, columns)
    y = np.asarray(x @ np.ones(columns) + normal(n_rows), dtype=np.float64)
    y[::100] = 1e3
    return x, y


@lru_cache(maxsize=2)
def labelled(n_rows: int, columns: int, n_classes: int = 2) -> tuple[Any, Any]:
    """Rows and classes that their first column tells apart, roughly."""
    x = normal(n_rows, columns)
    return x, (np.argsort(np.argsort(x[:, 0])) * n_classes // n_rows).astype(np.int64)


def ranking(n_rows: int, columns: int, size: int, dtype: str = "float64", loss: Any = None, middle: Any = 0.0) -> Job:
    """An epoch of the ranker in blocks of `size` rows: on the median block, or on the middle ones."""
    n_corrupt = (n_rows // size - 1) // 2
    learner = ov.RobustRanker(contamination=n_corrupt, middle=middle)
    return epoch(learner, loss or PairLogistic(), *ranked(n_rows, columns, dtype), n_blocks=2 * n_corrupt + 1)


def full_batch(n_rows: int, columns: int) -> Job:
    """An epoch on all pairs."""
    return epoch(ov.RobustRanker(contamination=0), PairLogistic(), *ranked(n_rows, columns), n_blocks=1)


def metric(n_rows: int, columns: int, size: int, middle: Any = 0.0) -> Job:
    """An epoch of the metric learner, with the projection it ends with."""
    n_corrupt = (n_rows // size - 1) // 2
    learner = ov.RobustMetricLearner(contamination=n_corrupt, middle=middle)
    loss = MetricHinge()
    step = epoch(learner, loss, *labelled(n_rows, columns, 5), n_blocks=2 * n_corrupt + 1)
    return lambda: loss.project(step().gradient)


def product(x: Any, columns: int) -> Job:
    """What reading the rows once takes: X @ w, or X @ M."""
    shape = x.shape[1] if columns == 1 else (x.shape[1], columns)
    weights = np.ones(shape, dtype=x.dtype)
    return lambda: x @ weights


def fit(learner: Any, x: Any, y: Any) -> Job:
    """A whole fit."""
    return lambda: learner.fit(x, y)


def rows(quick: bool) -> list[Row]:
    """Epochs against one product with the rows; fits against scikit-learn's."""
    from sklearn.linear_model import HuberRegressor, LogisticRegression, SGDClassifier
    from sklearn.neighbors import NeighborhoodComponentsAnalysis

    wide, long, small = (20_000, 10**5, 10**4) if quick else (10**5, 10**6, 10**4)
    many = 20_000 if quick else 10**5

    def classes(columns: int = 20) -> Any:
        return labelled(many, columns)

    def numbers() -> Any:
        return noisy(many, 20)

    def few() -> Any:
        return labelled(1000, 10, 3)

    own = ov.RobustClassifier(contamination=0.01, random_state=0)
    wide_rows, long_rows = f"{power(wide)} × 784, float32, blocks of 49", f"{power(long)} × 10, blocks of 5"
    metric_rows = f"{power(long // 10)} × 100, blocks of 5"
    wide_epoch = later(lambda: ranking(wide, 784, 49, "float32", PairHinge()))
    read_wide = later(lambda: product(ranked(wide, 784, "float32")[0], 1))
    read_long = later(lambda: product(ranked(long, 10)[0], 1))
    read_metric = later(lambda: product(labelled(long // 10, 100, 5)[0], 100))
    return [
        Row(f"ranking epoch, {wide_rows}, hinge, median block", "X @ w", 1.2,
            alone(wide_epoch), alone(read_wide)),
        Row(f"ranking epoch, {wide_rows}, hinge, median block, all threads", "X @ w", 1.2, wide_epoch, read_wide),
        Row(f"ranking epoch, {wide_rows}, logistic, middle quarter", "X @ w", None,
            alone(later(lambda: ranking(wide, 784, 49, "float32", middle="auto"))), alone(read_wide)),
        Row(f"ranking epoch, {long_rows}, hinge, median block", "X @ w", 2.5,
            alone(later(lambda: ranking(long, 10, 5, loss=PairHinge()))), alone(read_long)),
        Row(f"ranking epoch, {long_rows}, logistic, middle quarter", "X @ w", None,
            alone(later(lambda: ranking(long, 10, 5, middle="auto"))), alone(read_long)),
        Row(f"ranking epoch, {power(small)} × 10, 1 % corrupt", "all pairs", 0.033,
            alone(later(lambda: ranking(small, 10, 49, middle="auto"))), alone(later(lambda: full_batch(small, 10)))),
        Row(f"metric epoch, {metric_rows}, median block", "X @ M", 2.5,
            alone(later(lambda: metric(long // 10, 100, 5))), alone(read_metric)),
        Row(f"metric epoch, {metric_rows}, middle quarter", "X @ M", None,
            alone(later(lambda: metric(long // 10, 100, 5, middle="auto"))), alone(read_metric)),
        Row(f"RobustClassifier, {power(many)} × 20", "SGDClassifier", None,
            lambda: fit(own, *classes())(), lambda: fit(SGDClassifier(loss="log_loss"), *classes())()),
        Row(f"RobustClassifier, {power(many)} × 20", "LogisticRegression", 4.0,
            alone(lambda: fit(own, *classes())()), alone(lambda: fit(LogisticRegression(), *classes())())),
        Row(f"RobustRegressor, {power(many)} × 20, 1 % corrupt", "HuberRegressor", 5.0,
            alone(lambda: fit(ov.RobustRegressor(contamination=0.01, random_state=0), *numbers())()),
            alone(lambda: fit(HuberRegressor(), *numbers())())),
        Row(f"RobustRanker, {power(many)} × 10", "LogisticRegression", 6.7,
            alone(lambda: fit(ov.RobustRanker(contamination=0.01, random_state=0), *ranked(many, 10))()),
            alone(lambda: fit(LogisticRegression(), *classes(10))())),
        Row("RobustMetricLearner, 1000 × 10", "NeighborhoodComponentsAnalysis", None,
            lambda: fit(ov.RobustMetricLearner(contamination=0.01, random_state=0), *few())(),
            lambda: fit(NeighborhoodComponentsAnalysis(random_state=0), *few())()),
    ]  # fmt: skip
