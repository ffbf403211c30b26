"""Classifier and regressor: losses of single rows, the median of means at work (degree 1)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from outvote.assumptions.assumption import Bounded
from outvote.contamination import Contamination
from outvote.estimate.result import RobustEstimate
from outvote.estimate.risk import certify_risk
from outvote.learning.base import Fitting, RobustLearner
from outvote.learning.classes import warn_of_small_classes
from outvote.learning.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    MulticlassHinge,
    PointLoss,
    Softmax,
    Squared,
    loss_of,
    sigmoid,
    softmax,
)
from outvote.learning.n_blocks import corrupt_in_share
from outvote.learning.parameters import documented
from outvote.learning.scaling import ScaledRows, robust_centre_and_scale
from outvote.learning.voting import Cell

Array = NDArray[Any]


def _has_probabilities(self: Any) -> bool:
    if self.loss not in ("auto", "logistic"):
        raise AttributeError(f"probabilities need loss='logistic', not {self.loss!r}")
    return True


@documented
class RobustClassifier(ClassifierMixin, RobustLearner):  # type: ignore[misc]
    """Linear classifier that minimises the median of block risks, for two or more classes.

    Parameters
    ----------
    loss : {"logistic", "hinge"} or PointLoss, default="logistic"
        Logistic regression (softmax for several classes) or a linear support vector machine.
    blocks : {"all", "class"}, default="all"
        Deal the rows into blocks all together, or inside each class: a class whose share is at most twice the
        contamination then cannot vanish, at some cost elsewhere. Contamination then holds inside each class.
    fit_intercept : bool, default=True
        Whether to learn an intercept.
    {parameters}

    Attributes
    ----------
    classes_ : ndarray
        Labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights, in the units of the columns as they came.
    intercept_ : ndarray
        Intercepts.
    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import outvote as ov
    >>> X, y = load_iris(return_X_y=True)
    >>> ov.RobustClassifier(contamination=0.02, random_state=0).fit(X, y).score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        *,
        contamination: Any = 0.05,
        n_blocks: Any = "auto",
        loss: Any = "auto",
        blocks: str = "all",
        fit_intercept: bool = True,
        algorithm: str = "robust",
        alpha: float = 0.0,
        max_iter: int = 300,
        step_rule: str = "auto",
        step_size: Any = "auto",
        schedule: str = "auto",
        momentum: float = 0.0,
        middle: Any = "auto",
        average: Any = "auto",
        scaling: Any = "auto",
        init: Any = "auto",
        polish: Any = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 20,
        tol: float = 1e-4,
        warm_start: bool = False,
        callbacks: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ):
        super().__init__(
            contamination=contamination,
            n_blocks=n_blocks,
            loss=loss,
            algorithm=algorithm,
            alpha=alpha,
            max_iter=max_iter,
            step_rule=step_rule,
            step_size=step_size,
            schedule=schedule,
            momentum=momentum,
            middle=middle,
            average=average,
            scaling=scaling,
            init=init,
            polish=polish,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            tol=tol,
            warm_start=warm_start,
            callbacks=callbacks,
            verbose=verbose,
            random_state=random_state,
        )
        self.blocks = blocks
        self.fit_intercept = fit_intercept

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows and their classes."""
        self._run(self._fitting(X, y))
        return self

    def _fitting(self, X: Any, y: Any) -> Fitting[None]:
        x, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        targets, loss, n_scores = self._problem(codes)
        self._sizes = tuple(int(size) for size in np.bincount(codes))
        design = yield from self._learning(
            x, targets, loss, n_scores=n_scores, intercept=self.fit_intercept, centred=self.fit_intercept
        )
        self._set_scores(design)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, n_steps: int = 10) -> Self:
        """Take `n_steps` more steps, on these rows alone; the first call needs all `classes` if `y` lacks some."""
        first = not hasattr(self, "coef_")
        x, y = validate_data(self, X, y, reset=first, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        if first:
            self.classes_ = np.unique(y if classes is None else classes)
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"y holds {unknown[0]!r}, which is not one of the classes {self.classes_.tolist()}")
        codes = np.searchsorted(self.classes_, y)
        targets, loss, n_scores = self._problem(codes)
        self._sizes = tuple(int(size) for size in np.bincount(codes, minlength=len(self.classes_)))
        fits = self.fit_intercept
        design = self._learn_more(x, targets, loss, n_steps, n_scores=n_scores, intercept=fits, centred=fits)
        self._set_scores(design)
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the scores of rows: one for two classes (positive means ``classes_[1]``), else one for each class."""
        x = self._read(X)
        scores = x @ self.coef_.T.astype(x.dtype) + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Array:
        """Return the labels."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (logistic loss only)."""
        scores = self.decision_function(X)
        if scores.ndim == 2:
            return softmax(scores)
        upper = sigmoid(scores)
        return np.column_stack([1 - upper, upper])

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of the probability of each class (logistic loss only)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def certify(
        self,
        X: Any,
        y: Any,
        contamination: Any = None,
        confidence: float = 0.95,
        *,
        loss: str = "zero-one",
        **options: Any,
    ) -> RobustEstimate:
        """Bound the risk on clean rows from above, from rows not used for the fit, of which some are corrupt.

        Parameters
        ----------
        X, y : array-like
            Held-out rows.
        contamination : float, int or Contamination, optional
            How many of them may be corrupt; as for the fit by default.
        confidence : float
            Confidence of the bound.
        loss : {"zero-one", "training"}
            The share of wrong labels, or the loss that was minimised, which needs an `assume` to be certified.
        **options
            As for `outvote.certify_risk`.

        Returns
        -------
        RobustEstimate
            ``interval.high`` is the bound.
        """
        y = column_or_1d(y)
        allowed = self.contamination if contamination is None else contamination
        if loss == "training":
            codes = np.searchsorted(self.classes_, y)
            targets, trained, _ = self._problem(codes)
            losses = trained.value(self.decision_function(X), targets)
        else:
            losses = (self.predict(X) != y).astype(np.float64)
            options.setdefault("assume", Bounded(0, 1))
        return certify_risk(losses, contamination=allowed, confidence=confidence, **options)

    def _problem(self, codes: Array) -> tuple[Array, PointLoss, int]:
        """Return targets, loss and number of scores."""
        if self.blocks not in ("all", "class"):
            raise ValueError(f"blocks={self.blocks!r} is neither 'all' nor 'class'")
        if len(self.classes_) < 2:
            raise ValueError(
                f"Classifier can't train when only one class is present: y holds {self.classes_.tolist()} only"
            )
        two = len(self.classes_) == 2
        known: dict[str, Any] = {"logistic": Logistic, "hinge": Hinge}
        if not two:
            known = {"logistic": Softmax, "hinge": MulticlassHinge}
        loss = loss_of("logistic" if self.loss == "auto" else self.loss, known, 1)
        wanted = "signs" if two else "classes"
        if loss.targets != wanted:
            raise ValueError(f"loss={loss.name!r} takes {loss.targets}, but {len(self.classes_)} classes need {wanted}")
        return (codes * 2.0 - 1.0, loss, 1) if two else (codes, loss, len(self.classes_))

    def _cells(self, rows: Array, targets: Array, n_all: int, groups: Array | None) -> tuple[list[Cell], Any]:
        if self.blocks == "all":
            return super()._cells(rows, targets, n_all, groups)
        labels = np.unique(targets[rows])
        allowed = Contamination.of(self.contamination).counts(self._sizes)
        if len(self._sizes) == len(labels):
            counts = allowed
        else:  # a batch without some class
            counts = tuple(c for c, size in zip(allowed, self._sizes, strict=True) if size)
        cells, plans = [], []
        for label, count in zip(labels, counts, strict=True):
            own = rows[targets[rows] == label]
            plan = self._plan(len(own), count if len(rows) == n_all else corrupt_in_share(count, len(rows), n_all, 1))
            cells.append(self._cell((own,), plan.n_blocks, plan.n_corrupt, weight=len(own) / len(rows)))
            plans.append(plan)
        return cells, tuple(plans)

    def _warn(self, x: Array, targets: Array, plan: Any) -> None:
        super()._warn(x, targets, plan)
        if self.blocks == "all":
            warn_of_small_classes(self.contamination, targets, self.classes_, ". blocks='class' keeps it")

    def _sample_sizes(self, n_rows: int) -> tuple[int, ...]:
        return self._sizes if self.blocks == "class" else (n_rows,)

    def _set_scores(self, design: ScaledRows) -> None:
        coefficients, intercept = design.to_user(self._theta)
        self.coef_ = np.atleast_2d(coefficients.T)
        self.intercept_ = np.atleast_1d(np.asarray(intercept)) if self.fit_intercept else np.zeros(len(self.coef_))

    @property
    def _user_parameters(self) -> tuple[Array, Any]:
        if len(self.classes_) == 2:
            return self.coef_[0], self.intercept_[0]
        return self.coef_.T, self.intercept_


@documented
class RobustRegressor(RegressorMixin, RobustLearner):  # type: ignore[misc]
    """Linear regression that minimises the median of block risks.

    Parameters
    ----------
    loss : {"squared", "absolute", "huber"} or PointLoss, default="squared"
        Loss of a residual, in robust standard deviations of y.
    fit_intercept : bool, default=True
        Whether to learn an intercept.
    {parameters}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights, in the units of the columns as they came.
    intercept_ : float
        Intercept.
    {attributes}

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = 3 + X @ [1.0, -2.0] + 0.1 * rng.normal(size=500)
    >>> X[:25], y[:25] = 100.0, 1e4
    >>> ov.RobustRegressor(contamination=0.05, random_state=0).fit(X, y).coef_.round(1)
    array([ 1., -2.])
    """

    def __init__(
        self,
        *,
        contamination: Any = 0.05,
        n_blocks: Any = "auto",
        loss: Any = "auto",
        fit_intercept: bool = True,
        algorithm: str = "robust",
        alpha: float = 0.0,
        max_iter: int = 300,
        step_rule: str = "auto",
        step_size: Any = "auto",
        schedule: str = "auto",
        momentum: float = 0.0,
        middle: Any = "auto",
        average: Any = "auto",
        scaling: Any = "auto",
        init: Any = "auto",
        polish: Any = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 20,
        tol: float = 1e-4,
        warm_start: bool = False,
        callbacks: Any = None,
        verbose: int = 0,
        random_state: Any = None,
    ):
        super().__init__(
            contamination=contamination,
            n_blocks=n_blocks,
            loss=loss,
            algorithm=algorithm,
            alpha=alpha,
            max_iter=max_iter,
            step_rule=step_rule,
            step_size=step_size,
            schedule=schedule,
            momentum=momentum,
            middle=middle,
            average=average,
            scaling=scaling,
            init=init,
            polish=polish,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            tol=tol,
            warm_start=warm_start,
            callbacks=callbacks,
            verbose=verbose,
            random_state=random_state,
        )
        self.fit_intercept = fit_intercept

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows and numbers."""
        self._run(self._fitting(X, y))
        return self

    def _fitting(self, X: Any, y: Any) -> Fitting[None]:
        x, y = validate_data(self, X, y, dtype=[np.float64, np.float32], y_numeric=True, ensure_min_samples=2)
        targets, loss = self._targets(y, first=True), self._loss()
        fits = self.fit_intercept
        self._set_scores((yield from self._learning(x, targets, loss, intercept=fits, centred=fits)))

    def partial_fit(self, X: Any, y: Any, n_steps: int = 10) -> Self:
        """Take `n_steps` more steps, on these rows alone; columns are scaled as in the first call."""
        first = not hasattr(self, "coef_")
        x, y = validate_data(
            self, X, y, reset=first, dtype=[np.float64, np.float32], y_numeric=True, ensure_min_samples=2
        )
        targets = self._targets(y, first)
        fits = self.fit_intercept
        design = self._learn_more(x, targets, self._loss(), n_steps, intercept=fits, centred=fits)
        self._set_scores(design)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions."""
        x = self._read(X)
        return x @ self.coef_.astype(x.dtype) + self.intercept_

    def certify(
        self,
        X: Any,
        y: Any,
        contamination: Any = None,
        confidence: float = 0.95,
        *,
        loss: str = "squared",
        **options: Any,
    ) -> RobustEstimate:
        """Bound the risk on clean rows from above, from rows not used for the fit, of which some are corrupt.

        ``loss`` is ``"squared"`` (r²) or ``"absolute"`` (|r|) of the residual in the units of y. Nothing bounds
        residuals by itself: give an `assume` for a certified bound. Other options as for `outvote.certify_risk`.
        """
        if loss not in ("squared", "absolute"):
            raise ValueError(f"loss={loss!r} is neither 'squared' nor 'absolute'")
        gap = np.abs(np.asarray(self.predict(X), dtype=np.float64) - column_or_1d(y))
        allowed = self.contamination if contamination is None else contamination
        return certify_risk(
            gap**2 if loss == "squared" else gap, contamination=allowed, confidence=confidence, **options
        )

    def _loss(self) -> Any:
        known = {"squared": Squared, "absolute": Absolute, "huber": Huber}
        return loss_of("squared" if self.loss == "auto" else self.loss, known, 1)

    def _targets(self, y: Array, first: bool) -> Array:
        """Return y in robust standard deviations from its centre, so that a step is as long whatever its unit."""
        y = np.asarray(y, dtype=np.float64)
        if first:
            if np.ptp(y) == 0:
                raise ValueError(f"y is constant ({y[0]:g}): there is nothing to explain")
            self._y_centre, self._y_scale = 0.0, 1.0
            if self._setting("scaling"):
                n_corrupt = Contamination.of(self.contamination).count(len(y))
                self._y_centre, self._y_scale = robust_centre_and_scale(y, n_corrupt)
                self._y_centre *= bool(self.fit_intercept)
        return (y - self._y_centre) / self._y_scale

    def _set_scores(self, design: ScaledRows) -> None:
        coefficients, intercept = design.to_user(self._theta)
        self.coef_ = coefficients * self._y_scale
        self.intercept_ = float(intercept * self._y_scale + self._y_centre)

    def _theta_of(self, design: ScaledRows, coefficients: Array, intercept: Any) -> Array:
        return design.from_user(coefficients / self._y_scale, (intercept - self._y_centre) / self._y_scale)

    @property
    def _user_parameters(self) -> tuple[Array, Any]:
        return self.coef_, self.intercept_
