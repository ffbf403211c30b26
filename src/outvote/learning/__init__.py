"""Learners that hold when part of the rows are corrupt: one descent, losses to choose from, scikit-learn estimators."""

from __future__ import annotations

from outvote.learning.base import RobustLearner, RobustnessWarning
from outvote.learning.descent import DivergenceError, Problem, Settings, State, Steps, descend
from outvote.learning.losses import PairLoss, PointLoss
from outvote.learning.metric import RobustMetricLearner
from outvote.learning.points import RobustClassifier, RobustRegressor
from outvote.learning.ranking import RobustAUCClassifier, RobustRanker, concordance

__all__ = [
    "DivergenceError",
    "PairLoss",
    "PointLoss",
    "Problem",
    "RobustAUCClassifier",
    "RobustClassifier",
    "RobustLearner",
    "RobustMetricLearner",
    "RobustRanker",
    "RobustRegressor",
    "RobustnessWarning",
    "Settings",
    "State",
    "Steps",
    "concordance",
    "descend",
]
