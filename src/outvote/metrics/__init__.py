"""Robust metrics of predictions on rows of which some are corrupt, and scorers for scikit-learn."""

from __future__ import annotations

from outvote.metrics.rows import (
    robust_accuracy,
    robust_auc,
    robust_concordance,
    robust_log_loss,
    robust_mean_absolute_error,
    robust_mean_squared_error,
)
from outvote.metrics.scorer import SCORERS, RobustScorer, robust_scorer

__all__ = [
    "SCORERS",
    "RobustScorer",
    "robust_accuracy",
    "robust_auc",
    "robust_concordance",
    "robust_log_loss",
    "robust_mean_absolute_error",
    "robust_mean_squared_error",
    "robust_scorer",
]


def __dir__() -> list[str]:
    return sorted(__all__)
