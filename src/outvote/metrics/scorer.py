"""Scorers for scikit-learn."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from outvote.contamination import Contamination
from outvote.data.arguments import check_choice, check_flags
from outvote.data.rows import read
from outvote.estimate.result import RobustEstimate
from outvote.metrics import classes, numbers, rows
from outvote.metrics.options import check_options

#: For each name of scikit-learn: the metric, the method whose predictions it takes, and whether larger is better.
SCORERS: dict[str, tuple[Callable[..., RobustEstimate], str, bool]] = {
    "neg_mean_squared_error": (rows.robust_mean_squared_error, "predict", False),
    "neg_root_mean_squared_error": (numbers.root_mean_squared_error, "predict", False),
    "neg_mean_absolute_error": (rows.robust_mean_absolute_error, "predict", False),
    "neg_median_absolute_error": (numbers.median_absolute_error, "predict", False),
    "neg_mean_absolute_percentage_error": (numbers.mean_absolute_percentage_error, "predict", False),
    "neg_mean_squared_log_error": (numbers.mean_squared_log_error, "predict", False),
    "neg_root_mean_squared_log_error": (numbers.root_mean_squared_log_error, "predict", False),
    "neg_mean_poisson_deviance": (numbers.mean_poisson_deviance, "predict", False),
    "neg_mean_gamma_deviance": (numbers.mean_gamma_deviance, "predict", False),
    "r2": (numbers.r2, "predict", True),
    "explained_variance": (numbers.explained_variance, "predict", True),
    "d2_absolute_error_score": (numbers.d2_absolute_error, "predict", True),
    "concordance": (rows.robust_concordance, "predict", True),
    "neg_log_loss": (rows.robust_log_loss, "chances", False),
    "neg_brier_score": (classes.brier_score, "chances", False),
    "accuracy": (rows.robust_accuracy, "predict", True),
    "top_k_accuracy": (classes.top_k_accuracy, "chances", True),
    "balanced_accuracy": (classes.balanced_accuracy, "predict", True),
    "roc_auc": (rows.robust_auc, "decision", True),
    "roc_auc_ovr": (classes.auc_one_vs_rest, "chances", True),
    "roc_auc_ovo": (classes.auc_one_vs_one, "chances", True),
    **{name: (classes.of_positives(name), "predict", True) for name in classes.SHARES},
    **{f"{name}_macro": (classes.of_each_class(name), "predict", True) for name in classes.SHARES},
    **{f"{name}_micro": (rows.robust_accuracy, "predict", True) for name in ("f1", "precision", "recall")},
}

_WEIGHTED = "weights classes by their counts, which corrupt labels change"
_CLUSTERS = "compares two partitions of all rows, so that no row has a loss of its own"
_SAMPLES = "is for several labels in each row"
#: Names of scikit-learn that have no robust form here: why, and the nearest name that has one.
REFUSED: dict[str, tuple[str, str]] = {
    "neg_max_error": ("is the error of a single row, which may be a corrupt one", "neg_median_absolute_error"),
    "average_precision": ("depends on the rank of each positive row among all rows at once", "roc_auc"),
    "matthews_corrcoef": ("is a ratio of products of counts, without a bound here", "balanced_accuracy"),
    "positive_likelihood_ratio": ("has no bound: it divides by a share that may be 0", "balanced_accuracy"),
    "neg_negative_likelihood_ratio": ("has no bound: it divides by a share that may be 0", "balanced_accuracy"),
    "d2_log_loss_score": ("divides by the loss of class shares, which corrupt labels change", "neg_log_loss"),
    "d2_brier_score": ("divides by the loss of class shares, which corrupt labels change", "neg_brier_score"),
    "jaccard_micro": ("pools the classes: accuracy is the same in another unit", "accuracy"),
    "roc_auc_ovr_weighted": (_WEIGHTED, "roc_auc_ovr"),
    "roc_auc_ovo_weighted": (_WEIGHTED, "roc_auc_ovo"),
    **{f"{name}_weighted": (_WEIGHTED, f"{name}_macro") for name in classes.SHARES},
    **{f"{name}_samples": (_SAMPLES, f"{name}_macro") for name in classes.SHARES},
    **dict.fromkeys(
        ("adjusted_mutual_info_score", "adjusted_rand_score", "completeness_score", "fowlkes_mallows_score",
         "homogeneity_score", "mutual_info_score", "normalized_mutual_info_score", "rand_score", "v_measure_score"),
        (_CLUSTERS, "accuracy"),
    ),
}  # fmt: skip


def robust_scorer(
    metric: str | Callable[[Any, Any], Any],
    contamination: Any = 0.01,
    *,
    greater_is_better: bool | None = None,
    use: Literal["estimate", "bound"] = "estimate",
    rng: int | None = 0,
    **options: Any,
) -> RobustScorer:
    """Make a scorer of a robust metric, for `cross_val_score`, `GridSearchCV` and the like.

    Parameters
    ----------
    metric : str or callable
        A name of scikit-learn, such as ``"r2"``, ``"neg_root_mean_squared_error"`` or ``"f1"``: the keys of
        `SCORERS`, and ``"concordance"``. Names without a robust form are refused with the reason and the
        nearest name that has one. Or ``f(y_true, y_pred)`` that returns one number for each row, of which the robust
        mean is taken.
    contamination : float, int or Contamination
        How many rows of a test fold may be corrupt.
    greater_is_better : bool, optional
        For a function of your own; by default it is a loss, and the score is its negative.
    use : {"estimate", "bound"}
        Score by the estimate, or by the end of its interval that is worse for the model.
    rng : int or None
        Seed of the blocks; every model gets the same, so that scores can be compared.
    **options
        Further options of the metric: `confidence`, `assume`, `vote`, …

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = X @ [1.0, -2.0] + 0.1 * rng.normal(size=4000)
    >>> scorer = ov.metrics.robust_scorer("neg_mean_squared_error", contamination=0.01)
    >>> float(np.round(cross_val_score(LinearRegression(), X, y, scoring=scorer, cv=4).mean(), 3))
    -0.01
    """
    check_choice("use", use, Literal["estimate", "bound"])
    if isinstance(metric, str):
        if metric in REFUSED:
            reason, nearest = REFUSED[metric]
            raise ValueError(f"metric={metric!r} has no robust form: it {reason}. Take {nearest!r}, the nearest one")
        if metric not in SCORERS:
            near = difflib.get_close_matches(metric, SCORERS, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"metric={metric!r} is unknown: {hint}The names are {', '.join(SCORERS)}")
        if greater_is_better is not None:
            raise ValueError(f"greater_is_better={greater_is_better!r} is known for metric={metric!r}: leave it out")
    elif not callable(metric):
        raise TypeError(f"metric={metric!r} must be a name or a function of (y_true, y_pred)")
    if greater_is_better is not None:
        check_flags(greater_is_better=greater_is_better)
    Contamination.of(contamination)
    check_options("robust_scorer", {"rng": rng, **options}, more=("k",) if metric == "top_k_accuracy" else ())
    return RobustScorer(metric, contamination, bool(greater_is_better), use, {"rng": rng, **options})


class RobustScorer:
    """A scorer ``scorer(estimator, X, y)``; its method `estimate` returns the RobustEstimate.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.dummy import DummyClassifier
    >>> x, y = np.zeros((200, 1)), np.repeat([0, 1, 1, 1], 50)
    >>> scorer = robust_scorer("accuracy", contamination=2, rng=0)
    >>> scorer
    robust_scorer('accuracy', contamination=2, use='estimate')
    >>> model = DummyClassifier(strategy="most_frequent").fit(x, y)
    >>> print(scorer.estimate(model, x, y))
    accuracy 0.750, between 0.681 and 0.816 (certified 95 %, allows for 2 corrupt rows)
    """

    def __init__(
        self,
        metric: str | Callable[[Any, Any], Any],
        contamination: Any,
        greater: bool,
        use: str,
        options: dict[str, Any],
    ):
        self.metric, self.contamination, self.use, self.options = metric, contamination, use, options
        self.greater_is_better = SCORERS[metric][2] if isinstance(metric, str) else greater

    def estimate(self, estimator: Any, X: Any, y: Any) -> RobustEstimate:
        """Return the metric of the estimator's predictions, with its certificate."""
        options = {"contamination": self.contamination, **self.options}
        if not isinstance(self.metric, str):
            found = self.metric(y, estimator.predict(X))
            if np.shape(found) != (len(np.asarray(y)),):
                raise ValueError(
                    f"metric returned shape {np.shape(found)} for {len(np.asarray(y))} rows: return one number for each"
                )
            values = read(found, "what metric returned").values
            values = values if values.dtype == bool else values.astype(np.float64)  # booleans are a proportion
            return rows.mean_or_point(values, **options)
        metric, method, _ = SCORERS[self.metric]
        if method == "chances":
            return metric(y, estimator.predict_proba(X), labels=estimator.classes_, **options)
        if method == "decision":
            if hasattr(estimator, "decision_function"):
                return metric(y, estimator.decision_function(X), **options)
            return metric(y, estimator.predict_proba(X)[:, 1], **options)
        return metric(y, estimator.predict(X), **options)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        found = self.estimate(estimator, X, y)
        sign = 1.0 if self.greater_is_better else -1.0
        if self.use == "bound":
            return sign * float(found.interval.low if self.greater_is_better else found.interval.high) + 0.0
        return sign * float(found.estimate) + 0.0  # a loss of 0 is a score of 0, not of -0

    def __repr__(self) -> str:
        name = self.metric if isinstance(self.metric, str) else getattr(self.metric, "__name__", repr(self.metric))
        return f"robust_scorer({name!r}, contamination={self.contamination!r}, use={self.use!r})"
