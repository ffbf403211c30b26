"""Learners that hold when part of the rows are corrupt: one descent, losses to choose from, scikit-learn estimators."""

from __future__ import annotations

from outvote.learning.base import RobustLearner, RobustnessWarning
from outvote.learning.descent import Settings, State, descend
from outvote.learning.divergence import DivergenceError
from outvote.learning.losses import PairLoss, PointLoss
from outvote.learning.metric import RobustMetricLearner
from outvote.learning.points import RobustClassifier, RobustRegressor
from outvote.learning.problem import Problem
from outvote.learning.ranking import RobustAUCClassifier, RobustRanker, concordance
from outvote.learning.steps import Steps

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
