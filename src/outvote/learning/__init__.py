"""Learners that tolerate corrupt rows: scikit-learn estimators, the descent that fits them, and its losses."""

from __future__ import annotations

from outvote.learning.classifier import RobustClassifier
from outvote.learning.descent import Settings, State, descend
from outvote.learning.divergence import DivergenceError
from outvote.learning.learner import RobustLearner
from outvote.learning.losses import PairLoss, PointLoss
from outvote.learning.metric_learner import RobustMetricLearner
from outvote.learning.problem import Problem
from outvote.learning.ranking import RobustAUCClassifier, RobustRanker, concordance
from outvote.learning.regressor import RobustRegressor
from outvote.learning.robust_fit import RobustFit
from outvote.learning.robustness_warnings import RobustnessWarning
from outvote.learning.steps import Steps

__all__ = [
    "DivergenceError",
    "PairLoss",
    "PointLoss",
    "Problem",
    "RobustAUCClassifier",
    "RobustClassifier",
    "RobustFit",
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
