"""Robust metrics of predictions on rows of which some are corrupt, and scorers for scikit-learn."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.assumptions.assumption import Proportion
from outvote.contamination import Contamination
from outvote.data.arguments import check_choice
from outvote.data.rows import read
from outvote.estimate.mean import mean
from outvote.estimate.result import RobustEstimate
from outvote.estimate.u_statistic import u_statistic
from outvote.kernels.dominance import concordances
from outvote.kernels.kendall import kendall
from outvote.kernels.kernel import Kernel

Floats = NDArray[np.float64]

#: Probabilities are at least this large; otherwise one sure and wrong prediction would have an infinite loss.
_SMALLEST = float(np.finfo(np.float64).eps)

_CONCORDANCE = Kernel(
    lambda z, w: (1 + np.sign(z[..., 0] - w[..., 0]) * np.sign(z[..., 1] - w[..., 1])) / 2,
    (2,),
    (0.0, 1.0),
    True,
    "concordance",
    columns=2,
    aligned_form=lambda stack: (1 + kendall(stack)) / 2,
    row_sums_form=lambda z: [(len(z) - 1 + concordances(z[:, 0], z[:, 1])) / 2],
)


def robust_mean_squared_error(y_true: ArrayLike, y_pred: ArrayLike, **options: Any) -> RobustEstimate:
    """Estimate the mean squared error on clean rows, from rows of which some are corrupt.

    Parameters
    ----------
    y_true, y_pred : array-like
        Targets and predictions.
    **options
        As for :func:`outvote.mean`: `contamination`, `confidence`, `assume` (of the squared errors), `vote`, `rng`, …

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> wrong = y.copy()
    >>> wrong[:10] = 1e6
    >>> round(ov.metrics.robust_mean_squared_error(wrong, y + 0.5, contamination=10, rng=0).estimate, 3)
    0.25
    """
    true, predicted = _alike(y_true, y_pred)
    return _named("mean squared error", mean((predicted - true) ** 2, **options))


def robust_mean_absolute_error(y_true: ArrayLike, y_pred: ArrayLike, **options: Any) -> RobustEstimate:
    """Estimate the mean absolute error on clean rows; options as for :func:`outvote.mean`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=1000)
    >>> y[:10] = 1e6
    >>> print(robust_mean_absolute_error(y, np.zeros(1000), contamination=10, rng=0))
    mean absolute error 0.779 ± 0.085 (95 % if the clean rows' sd is at most 1.19; allows for 10 corrupt rows)
    """
    true, predicted = _alike(y_true, y_pred)
    return _named("mean absolute error", mean(np.abs(predicted - true), **options))


def robust_log_loss(
    y_true: ArrayLike, y_proba: ArrayLike, *, labels: ArrayLike | None = None, **options: Any
) -> RobustEstimate:
    """Estimate the mean of -log P(true class) on clean rows.

    Parameters
    ----------
    y_true : array-like
        Classes.
    y_proba : array-like
        Probability of the second class (1-D), or of each class (2-D), in the order of `labels`.
    labels : array-like, optional
        The classes, sorted; the classes in `y_true` by default.
    **options
        As for :func:`outvote.mean`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> chance = rng.uniform(0.01, 0.99, size=1000)
    >>> y = (rng.random(1000) < chance).astype(int)
    >>> y[:10] = chance[:10] < 0.5
    >>> print(robust_log_loss(y, chance, contamination=10, rng=0))
    log loss 0.511 ± 0.077 (95 % if the clean rows' sd is at most 0.876; allows for 10 corrupt rows)
    """
    true, proba = np.asarray(y_true).reshape(-1), read(y_proba, "y_proba").values.astype(np.float64)
    classes = np.unique(true) if labels is None else np.asarray(labels)
    if proba.ndim == 1:
        proba = np.column_stack([1 - proba, proba])
    if proba.shape != (len(true), len(classes)):
        raise ValueError(
            f"y_proba has shape {proba.shape}, but there are {len(true)} rows and {len(classes)} classes: "
            "give labels= if some class is missing from y_true"
        )
    place = np.searchsorted(classes, true).clip(max=len(classes) - 1)
    unknown = classes[place] != true
    if unknown.any():
        raise ValueError(f"y_true has the class {true[unknown][0]!r}, which is not among labels={classes.tolist()!r}")
    if not ((proba >= 0) & (proba <= 1)).all():
        raise ValueError("y_proba must hold probabilities between 0 and 1")
    likely = np.clip(proba[np.arange(len(true)), place], _SMALLEST, 1.0)
    return _named("log loss", mean(-np.log(likely), **options))


def robust_accuracy(y_true: ArrayLike, y_pred: ArrayLike, **options: Any) -> RobustEstimate:
    """Estimate the share of clean rows classified correctly: an exact interval, without an assumption.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> y = np.arange(2000) % 2
    >>> print(ov.metrics.robust_accuracy(y, np.where(np.arange(2000) < 300, 1 - y, y), contamination=0.01, rng=0))
    accuracy 0.853 ± 0.021 (certified 95 %, allows for 20 corrupt rows)
    """
    true, predicted = np.asarray(y_true).reshape(-1), np.asarray(y_pred).reshape(-1)
    _check_lengths(true, predicted)
    return _named("accuracy", mean(true == predicted, **{"assume": Proportion(), **options}))


def robust_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    contamination: Any = 0.01,
    **options: Any,
) -> RobustEstimate:
    """Estimate the probability that a clean positive row scores higher than a clean negative row; ties count half.

    Parameters
    ----------
    y_true, y_score : array-like
        Two classes, of which the larger label is positive, and scores.
    contamination : float, int, tuple or Contamination
        How many of all rows may be corrupt; they may all be in one class. A tuple gives the number among the
        negative and among the positive rows.
    **options
        As for :func:`outvote.u_statistic`: `confidence`, `vote`, …

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 1000)
    >>> score = rng.normal(size=2000) + y
    >>> score[:10] = 1e6
    >>> print(robust_auc(y, score, contamination=10))
    auc 0.761, between 0.723 and 0.806 (certified 95 %, allows for 10 and 10 corrupt rows)
    """
    true, score = np.asarray(y_true).reshape(-1), read(y_score, "y_score").values.reshape(-1)
    _check_lengths(true, score)
    classes = np.unique(true)
    if len(classes) != 2:
        raise ValueError(f"y_true has {len(classes)} class{'es' * (len(classes) != 1)}: the AUC needs two")
    allowed = Contamination.of(contamination)
    if not isinstance(allowed.amount, tuple):
        count = allowed.count(len(true))
        allowed = Contamination((count, count), allowed.adversary)
    negative, positive = score[true == classes[0]], score[true == classes[1]]
    return u_statistic(negative, positive, kernel="auc", contamination=allowed, **options)


def robust_concordance(y_true: ArrayLike, y_score: ArrayLike, **options: Any) -> RobustEstimate:
    """Estimate the share of pairs of clean rows that the scores put in the right order: (1 + τ)/2; ties count half.

    Options are those of :func:`outvote.u_statistic`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=1000)
    >>> score = y + rng.normal(size=1000)
    >>> score[:10] = -1e6 * y[:10]
    >>> print(robust_concordance(y, score, contamination=10))
    concordance 0.738 ± 0.054 (certified 95 %, allows for 10 corrupt rows)
    """
    true, score = _alike(y_true, y_score)
    return u_statistic(np.column_stack([true, score]), kernel=_CONCORDANCE, **options)


#: For each name: the metric, the method whose predictions it takes, and whether larger is better.
SCORERS: dict[str, tuple[Callable[..., RobustEstimate], str, bool]] = {
    "neg_mean_squared_error": (robust_mean_squared_error, "predict", False),
    "neg_mean_absolute_error": (robust_mean_absolute_error, "predict", False),
    "neg_log_loss": (robust_log_loss, "predict_proba", False),
    "accuracy": (robust_accuracy, "predict", True),
    "roc_auc": (robust_auc, "decision", True),
    "concordance": (robust_concordance, "predict", True),
}


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
        ``"neg_mean_squared_error"``, ``"neg_mean_absolute_error"``, ``"neg_log_loss"``, ``"accuracy"``, ``"roc_auc"``,
        ``"concordance"``; or ``f(y_true, y_pred)`` that returns one number for each row, of which the robust mean
        is taken.
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
        if metric not in SCORERS:
            near = difflib.get_close_matches(metric, SCORERS, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(f"metric={metric!r} is unknown: {hint}The names are {', '.join(SCORERS)}")
        if greater_is_better is not None:
            raise ValueError(f"greater_is_better={greater_is_better!r} is known for metric={metric!r}: leave it out")
    elif not callable(metric):
        raise TypeError(f"metric={metric!r} must be a name or a function of (y_true, y_pred)")
    Contamination.of(contamination)
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
    accuracy 0.748 ± 0.067 (certified 95 %, allows for 2 corrupt rows)
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
            values = np.asarray(self.metric(y, estimator.predict(X)), dtype=np.float64)
            if values.shape != (len(np.asarray(y)),):
                raise ValueError(
                    f"metric returned shape {values.shape} for {len(np.asarray(y))} rows: return one number for each"
                )
            return mean(values, **options)
        metric, method, _ = SCORERS[self.metric]
        if method == "decision":
            method = "decision_function" if hasattr(estimator, "decision_function") else "predict_proba"
        predicted = getattr(estimator, method)(X)
        if metric is robust_log_loss:
            options["labels"] = estimator.classes_
        elif method == "predict_proba":
            predicted = predicted[:, 1]
        return metric(y, predicted, **options)

    def __call__(self, estimator: Any, X: Any, y: Any) -> float:
        found = self.estimate(estimator, X, y)
        sign = 1.0 if self.greater_is_better else -1.0
        if self.use == "bound":
            return sign * float(found.interval.low if self.greater_is_better else found.interval.high)
        return sign * float(found.estimate)

    def __repr__(self) -> str:
        name = self.metric if isinstance(self.metric, str) else getattr(self.metric, "__name__", repr(self.metric))
        return f"robust_scorer({name!r}, contamination={self.contamination!r}, use={self.use!r})"


def _named(statistic: str, found: RobustEstimate) -> RobustEstimate:
    return replace(found, statistic=statistic)


def _alike(y_true: Any, y_pred: Any) -> tuple[Floats, Floats]:
    true, predicted = (
        read(values, name).values.astype(np.float64) for values, name in ((y_true, "y_true"), (y_pred, "y_pred"))
    )
    true, predicted = (
        values.reshape(-1) if values.ndim == 2 and values.shape[1] == 1 else values for values in (true, predicted)
    )
    if true.ndim != 1 or predicted.ndim != 1:
        raise ValueError(f"y_true and y_pred have shapes {true.shape} and {predicted.shape}: give one number per row")
    _check_lengths(true, predicted)
    return true, predicted


def _check_lengths(true: NDArray[Any], predicted: NDArray[Any]) -> None:
    if len(true) != len(predicted):
        raise ValueError(f"y_true has {len(true)} rows, but the predictions have {len(predicted)}")
