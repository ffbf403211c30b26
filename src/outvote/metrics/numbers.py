"""Robust metrics of predicted numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from outvote.data.missing import check_rows
from outvote.estimate.premise import UnknownScale
from outvote.estimate.quantile import quantile
from outvote.estimate.result import RobustEstimate, named
from outvote.estimate.u_statistic import u_statistic
from outvote.metrics.joined import joined, split
from outvote.metrics.options import check_options
from outvote.metrics.rows import (
    Floats,
    alike,
    loss_named,
    mean_loss,
    robust_mean_absolute_error,
    robust_mean_squared_error,
)
from outvote.votes import median_of

#: Percentages are of at least this much, as in scikit-learn.
_SMALLEST = float(np.finfo(np.float64).eps)


def root_mean_squared_error(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
    """Estimate the root of the mean squared error on clean rows."""
    found = robust_mean_squared_error(y_true, y_pred, **options)
    return joined("root mean squared error", [found], _root)


def median_absolute_error(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
    """Estimate the median of the absolute errors of clean rows; nothing is assumed of them."""
    check_options("median_absolute_error", options)
    true, predicted = alike(y_true, y_pred)
    known = {name: options[name] for name in ("contamination", "confidence", "nan_policy") if name in options}
    with np.errstate(over="ignore", invalid="ignore"):
        losses = np.abs(predicted - true)
    return named("median absolute error", quantile(losses, 0.5, **known))


def mean_absolute_percentage_error(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
    """Estimate the mean of |error|/|target| on clean rows."""
    true, predicted = alike(y_true, y_pred)
    with np.errstate(over="ignore", invalid="ignore"):
        shares = np.abs(predicted - true) / np.maximum(np.abs(true), _SMALLEST)
    return loss_named("mean absolute percentage error", mean_loss(shares, true, predicted, options))


def mean_squared_log_error(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
    """Estimate the mean squared error of log(1 + y) on clean rows."""
    true, predicted = _above(y_true, y_pred, -1.0)
    with np.errstate(invalid="ignore"):
        losses = (np.log1p(predicted) - np.log1p(true)) ** 2
    return loss_named("mean squared log error", mean_loss(losses, true, predicted, options))


def root_mean_squared_log_error(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
    """Estimate the root of the mean squared error of log(1 + y) on clean rows."""
    return joined("root mean squared log error", [mean_squared_log_error(y_true, y_pred, **options)], _root)


def mean_poisson_deviance(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
    """Estimate the mean Poisson deviance on clean rows."""
    true, predicted = alike(y_true, y_pred)
    _check_above("y_true", true, -_SMALLEST)
    _check_above("y_pred", predicted, 0.0)
    with np.errstate(all="ignore"):
        logs = np.where(true > 0, true * np.log(np.where(true > 0, true, 1.0) / predicted), 0.0)
        losses = 2 * (logs - true + predicted)
    return loss_named("mean Poisson deviance", mean_loss(losses, true, predicted, options))


def mean_gamma_deviance(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
    """Estimate the mean Gamma deviance on clean rows."""
    true, predicted = _above(y_true, y_pred, 0.0)
    with np.errstate(all="ignore"):
        losses = 2 * (np.log(predicted / true) + true / predicted - 1)
    return loss_named("mean gamma deviance", mean_loss(losses, true, predicted, options))


def r2(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
    """Estimate 1 - mean squared error/variance of the targets, of clean rows."""
    true, predicted = alike(y_true, y_pred)
    each = split(options, 2)
    return _explained("R²", robust_mean_squared_error(true, predicted, **each), _variance(true, each))


def explained_variance(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
    """Estimate 1 - variance of the errors/variance of the targets, of clean rows."""
    true, predicted = alike(y_true, y_pred)
    each = split(options, 2)
    with np.errstate(over="ignore", invalid="ignore"):
        errors = true - predicted
    return _explained("explained variance", _variance(errors, each), _variance(true, each))


def d2_absolute_error(y_true: Any, y_pred: Any, **options: Any) -> RobustEstimate:
    """Estimate 1 - mean absolute error/that of the median, of clean rows."""
    true, predicted = alike(y_true, y_pred)
    check_rows(len(true), "y_true")
    each = split(options, 2)
    middle = np.full(len(true), float(median_of(true)))
    neutral = robust_mean_absolute_error(true, middle, **each)
    return _explained("D² of absolute errors", robust_mean_absolute_error(true, predicted, **each), neutral)


def _variance(values: Floats, options: dict[str, Any]) -> RobustEstimate:
    """Estimate the variance of clean rows, by pairs of them."""
    known = {name: value for name, value in options.items() if name not in ("assume", "vote")}
    try:
        return u_statistic(values, kernel="variance", **known)
    except UnknownScale as error:
        found: RobustEstimate = error.without_interval
        return found


def _explained(statistic: str, lost: RobustEstimate, total: RobustEstimate) -> RobustEstimate:
    """Return 1 - lost/total; -inf where the total may be 0."""

    def form(part: float, whole: float) -> float:
        if part <= 0:
            return 1.0
        return 1 - part / whole if whole > 0 else -math.inf  # 1 where the whole may be anything

    return joined(statistic, [lost, total], form, falls=(0,))


def _root(value: float) -> float:
    return math.sqrt(max(value, 0.0))


def _above(y_true: Any, y_pred: Any, least: float) -> tuple[Floats, Floats]:
    true, predicted = alike(y_true, y_pred)
    _check_above("y_true", true, least)
    _check_above("y_pred", predicted, least)
    return true, predicted


def _check_above(name: str, values: Floats, least: float) -> None:
    wrong = values[~(values > least)]
    if len(wrong):
        raise ValueError(f"{name} holds {wrong[0]:g}, but this metric needs numbers above {least:.3g}")
