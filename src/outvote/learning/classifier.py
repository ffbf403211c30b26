"""A linear classifier."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if

from outvote.blocks.plan import BlockPlan
from outvote.learning.arrays import Array
from outvote.learning.checks import check_classes, classes_in, one_label_each
from outvote.learning.fit import Ballots, Fit, Task
from outvote.learning.jury import trusted_classes
from outvote.learning.labels import known_labels
from outvote.learning.learner import HeldOutRisk, RobustLearner
from outvote.learning.losses import Hinge, Logistic, MulticlassHinge, PointLoss, Softmax, loss_of
from outvote.learning.losses.common import sigmoid, softmax
from outvote.learning.n_blocks import is_auto, plans_of
from outvote.learning.parameters import documented
from outvote.learning.products import product
from outvote.learning.robustness_warnings import warn_of_lost_class, warn_of_small_classes
from outvote.learning.scaling import ScaledRows
from outvote.learning.voting import Cell


def _has_probabilities(self: Any) -> bool:
    if not isinstance(self.loss, str) or self.loss not in ("auto", "logistic"):
        raise AttributeError(f"probabilities need loss='logistic', not {self.loss!r}")
    return True


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class RobustClassifier(ClassifierMixin, RobustLearner):  # type: ignore[misc]
    """Linear classifier that minimises the median of block risks, for two or more classes.

    Parameters
    ----------
    loss : {"logistic", "hinge"} or PointLoss, default="logistic"
        Logistic regression (softmax for several classes) or a linear support vector machine.
    blocks : {"all", "class"}, default="all"
        Draw blocks from all rows, or from each class separately. With "class", a class whose share is at most twice the
        contamination cannot vanish, at some cost elsewhere; contamination is then a bound for each class.
    fit_intercept : bool, default=True
        Whether to learn an intercept.
    {parameters}

    Attributes
    ----------
    classes_ : ndarray
        Labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Weights, in the units of the input.
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

    blocks: str = "all"
    fit_intercept: bool = True
    device: Any = field(default=None, init=False)  # numpy only

    def partial_fit(  # type: ignore[override]  # scikit-learn gives the classes third
        self, X: Any, y: Any, classes: Any = None, n_steps: int = 10
    ) -> Self:
        """Take `n_steps` more steps on these rows alone; the first call needs all `classes` if `y` lacks some."""
        return self._fit_further(self._task(X, y, not self.__sklearn_is_fitted__(), classes), n_steps)

    def decision_function(self, X: Any) -> Array:
        """Return the scores of rows: one for two classes (positive means ``classes_[1]``), else one for each class."""
        x = self._read(X)
        scores = product(x, self.coef_.T) + self.intercept_
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

    def _task(self, X: Any, y: Any, reset: bool = True, classes: Any = None) -> Task:
        x, y = self._check_rows(X, y, reset)
        check_classes(y)
        if reset:
            self.classes_ = classes_in(*((y,) if classes is None else (np.asarray(classes), "classes")))[0]
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"y holds {unknown.tolist()[0]!r}, which is not one of the classes {self.classes_.tolist()}"
            )
        codes = np.searchsorted(self.classes_, y)
        targets, loss = self._targets_and_loss(codes)
        n_classes = len(self.classes_)
        return Task(
            x,
            targets,
            loss,
            n_scores=1 if n_classes == 2 else n_classes,
            intercept=self.fit_intercept,
            centred=self.fit_intercept,
            sample_of=codes if self.blocks == "class" else None,
            n_samples=n_classes if self.blocks == "class" else 1,
        )

    def _targets_and_loss(self, codes: Array) -> tuple[Array, PointLoss]:
        if not isinstance(self.blocks, str) or self.blocks not in ("all", "class"):
            raise ValueError(f"blocks={self.blocks!r} is neither 'all' nor 'class'")
        if len(self.classes_) < 2:
            raise ValueError(
                f"Classifier can't train when only one class is present: y holds {self.classes_.tolist()} only"
            )
        two = len(self.classes_) == 2
        known = {"logistic": Logistic, "hinge": Hinge} if two else {"logistic": Softmax, "hinge": MulticlassHinge}
        loss = loss_of("logistic" if is_auto(self.loss) else self.loss, known, 1)
        wanted = "signs" if two else "classes"
        if loss.targets != wanted:
            raise ValueError(f"loss={loss.name!r} takes {loss.targets}, but {len(self.classes_)} classes need {wanted}")
        return codes * 2.0 - 1.0 if two else codes, loss

    def _cells(
        self, samples: tuple[Array, ...], counts: tuple[int, ...], contamination: Any, task: Task
    ) -> tuple[list[Cell], Any]:
        if self.blocks == "all":
            return super()._cells(samples, counts, contamination, task)
        n_rows, cells, plans = sum(map(len, samples)), [], []
        for rows, n_corrupt in zip(samples, counts, strict=True):
            if len(rows):  # a batch may lack a class
                plan = self._plan(len(rows), n_corrupt, n_corrupt, 1)
                cells.append(self._cell((rows,), plan.n_blocks, n_corrupt, weight=len(rows) / n_rows))
                plans.append(plan)
        return cells, tuple(plans)

    def _trusted(self, ballots: Ballots) -> Array:
        fit, n_classes = ballots.fit, len(self.classes_)
        codes = self._codes(fit.task.targets)
        rows, plans = fit.rows, plans_of(fit.plan)
        most: list[Any] = [fit.counts, [plan.n_corrupt for plan in plans]]
        if self.blocks == "all":  # half of a class at most
            most = [np.bincount(some, minlength=n_classes) // 2 for some in (codes, codes[rows])]
        every, voting = np.append(most[0], ballots.n_corrupt), np.append(most[1], ballots.n_voting)
        by_class = self.blocks == "class"
        return trusted_classes(fit.task.x, codes, ballots.losses, rows, (every, voting), fit.rng, by_class)

    def _can_finish(self, fit: Fit) -> bool:
        codes = self._codes(fit.task.targets)
        gone = np.setdiff1d(codes, codes[fit.trusted])
        if len(gone):
            then = "The fit is that of the vote alone, and may ignore the class. blocks='class' keeps it"
            warn_of_lost_class(self.classes_.tolist()[gone[0]], then)
        return not len(gone) and len(np.unique(codes[fit.trusted])) == len(self.classes_)

    def _codes(self, targets: Array) -> Array:
        """Return the classes of targets, 0, 1, …"""
        return ((targets > 0) if len(self.classes_) == 2 else targets).astype(np.int64)

    def _warn(self, task: Task, plans: tuple[BlockPlan, ...], n_corrupt: int) -> None:
        super()._warn(task, plans, n_corrupt)
        if self.blocks == "all":
            warn_of_small_classes(n_corrupt, task.targets, self.classes_, ". blocks='class' keeps it")

    def _held_out_risk(self, X: Any, y: Any, loss: str) -> HeldOutRisk:
        y = known_labels(one_label_each(y, self._read(X)), self.classes_, all_of_them=loss == "training")
        if loss == "training":
            targets, trained = self._targets_and_loss(np.searchsorted(self.classes_, y))
            return HeldOutRisk((trained.value(self.decision_function(X), targets),))
        return HeldOutRisk((self.predict(X) != y,), bounded=True)

    def _set_parameters(self, design: ScaledRows, targets: Array) -> None:
        coefficients, intercept = design.to_user(self._theta)
        self.coef_ = np.atleast_2d(coefficients.T)
        self.intercept_ = np.atleast_1d(np.asarray(intercept)) if self.fit_intercept else np.zeros(len(self.coef_))

    def _user_parameters(self) -> tuple[Array, Any]:
        if len(self.classes_) == 2:
            return self.coef_[0], self.intercept_[0]
        return self.coef_.T, self.intercept_
