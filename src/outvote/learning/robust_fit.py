"""Any model of scikit-learn on rows of which some are corrupt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.utils import _safe_indexing, assert_all_finite, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_method_params, _num_samples, check_is_fitted, column_or_1d, validate_data

from outvote.assumptions.assumption import Proportion
from outvote.contamination import Contamination
from outvote.data.arguments import number_of_jobs
from outvote.estimate.result import RobustEstimate
from outvote.estimate.risk import certify_risk
from outvote.learning.arrays import Array
from outvote.learning.checks import (
    check_classes,
    classes_in,
    generator_of,
    one_label_each,
    range_of,
    refuse_input,
    residual_losses,
)
from outvote.learning.jury import own_losses, worst_in_classes
from outvote.learning.labels import known_labels
from outvote.learning.n_blocks import is_auto
from outvote.learning.robustness_warnings import warn_of_lost_class
from outvote.learning.trust import FEWEST, TOO_FAR, contradicted_losses, far_scores, worst

#: How often the rows are put into folds, and how many folds there are.
_N_DEALS, _N_FOLDS = 3, 3
#: Contradicted rows of classes stay if the models err more than this many times as often as rows may be corrupt: then
#: most errors are their own.
_OWN_ERRORS = 2
#: Numbers are left out if that lowers the out-of-fold loss of the other rows by this share.
_GAIN = 0.15


def _has(method: str) -> Callable[[Any], bool]:
    """Return a check that the model has a method."""

    def check(self: Any) -> bool:
        getattr(self.estimator_ if hasattr(self, "estimator_") else self.estimator, method)
        return True

    return check


class RobustFit(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit any classifier or regressor of scikit-learn to the rows that hold up.

    Models of parts of the rows predict the others, several times. Rows that most of these models contradict are left
    out, and rows that lie far out in their columns; then the model is fitted to the rest. Contradicted rows stay if
    they are few, or if the models err too often: hard rows are contradicted as well.

    Parameters
    ----------
    estimator : estimator
        A classifier or a regressor with `fit` and `predict`: a forest, boosting, a support vector machine, a pipeline.
    contamination : float, int or Contamination, default=0.1
        How many rows may be corrupt, a fraction or a count: no more are left out.
    loss : "auto" or callable, default="auto"
        What contradicts a row: the probability of its class (the class itself where there are no probabilities), or the
        size of its residual. Or ``f(y_true, y_pred)`` that returns one number for each row, large if the row is
        contradicted.
    n_jobs : int, optional
        Models fitted at a time, as everywhere in scikit-learn.
    random_state : int, RandomState or None
        Seed of the folds. The model has its own.

    Attributes
    ----------
    estimator_ : estimator
        The model, fitted to the rows that hold up.
    support_ : ndarray of bool
        These rows.
    outlier_scores_ : ndarray
        Rows with high scores are suspect: the share of models that contradict the row, plus how much its loss exceeds
        the others', from 0 to 1 by rank; rows too far out have 2 and more.
    classes_ : ndarray
        Labels of a classifier.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 3))
    >>> y = (X[:, 0] > 0).astype(int)
    >>> wrong = np.where(np.arange(600) < 48, 1 - y, y)
    >>> tree = DecisionTreeClassifier(min_samples_leaf=5, random_state=0)
    >>> robust = ov.RobustFit(tree, contamination=0.1, random_state=0).fit(X, wrong)
    >>> robust.score(X, y) > tree.fit(X, wrong).score(X, y)
    True
    >>> int((~robust.support_[:48]).sum()) > 30
    True
    """

    classes_: Array

    def __init__(
        self,
        estimator: Any,
        contamination: Any = 0.1,
        loss: Any = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        self.estimator, self.contamination, self.loss = estimator, contamination, loss
        self.n_jobs, self.random_state = n_jobs, random_state

    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Fit the model to the rows that hold up.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows, in any form that the model takes.
        y : array-like of shape (n_samples,)
            Targets: numbers, or classes.
        **params
            Passed on to the model's `fit`; arrays with an entry for each row, such as `sample_weight`, are cut with the
            rows.

        Returns
        -------
        RobustFit
            Itself.
        """
        routed = self._routed("fit", params)
        X, y, targets = self._checked(X, y)
        n_rows = _num_samples(X)
        n_corrupt = Contamination.of(self.contamination).count(n_rows)
        self.support_, self.outlier_scores_ = np.ones(n_rows, dtype=bool), np.zeros(n_rows)
        if n_corrupt and n_rows >= 2 * _N_FOLDS:
            trial = _Trial(self, X, targets, routed, n_corrupt, generator_of(self.random_state))
            self.support_, self.outlier_scores_ = trial.verdict()
        self.estimator_ = _fitted(self.estimator, X, y, np.flatnonzero(self.support_), routed)
        return self

    @available_if(_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any, **params: Any) -> Array:
        """Return the predictions of the model."""
        self._check_ready(X)
        return self.estimator_.predict(X, **self._routed("predict", params))

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, **params: Any) -> Array:
        """Return the probabilities of the classes."""
        self._check_ready(X)
        return self.estimator_.predict_proba(X, **self._routed("predict_proba", params))

    @available_if(_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any, **params: Any) -> Array:
        """Return the logarithms of the probabilities of the classes."""
        self._check_ready(X)
        return self.estimator_.predict_log_proba(X, **self._routed("predict_log_proba", params))

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any, **params: Any) -> Array:
        """Return the scores of the model."""
        self._check_ready(X)
        return self.estimator_.decision_function(X, **self._routed("decision_function", params))

    @available_if(_has("score"))  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any, **params: Any) -> float:
        """Return the model's own score: accuracy, or R²."""
        self._check_ready(X, y)
        return float(self.estimator_.score(X, y, **self._routed("score", params)))

    def certify(
        self, X: Any, y: Any, contamination: Any = None, confidence: float = 0.95, **options: Any
    ) -> RobustEstimate:
        """Bound the risk on clean rows from above, given rows that were not used for the fit and may be corrupt.

        For a classifier the share of wrong labels, certified; for a regressor the mean squared residual, for which you
        state an `assume`. `contamination` is as for the fit by default; options are those of `outvote.certify_risk`.
        """
        refuse_input(X, y)
        predicted = self.predict(X)
        allowed = self.contamination if contamination is None else contamination
        if is_classifier(self):
            losses = predicted != known_labels(one_label_each(y, predicted), self.classes_)
            options.setdefault("assume", Proportion())
        else:
            losses = residual_losses(predicted, y, squared=True)
        return certify_risk(losses, contamination=allowed, confidence=confidence, **options)

    def get_metadata_routing(self) -> Any:
        """Return where metadata go: all of it to the model."""
        mapping = MethodMapping()
        for method in ("fit", "predict", "predict_proba", "predict_log_proba", "decision_function", "score"):
            mapping.add(caller=method, callee=method)
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)

    def _check_ready(self, X: Any, y: Any = None) -> None:
        check_is_fitted(self)
        refuse_input(X, y)

    def _routed(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if not params or not get_config()["enable_metadata_routing"]:
            return params
        return dict(getattr(process_routing(self, method, **params).estimator, method))

    def _checked(self, X: Any, y: Any) -> tuple[Any, Array, Array]:
        """Check X and y; return them, and the targets: class numbers, or numbers. Frames are checked by the model."""
        if not hasattr(self.estimator, "fit") or not hasattr(self.estimator, "predict"):
            raise TypeError(f"estimator={self.estimator!r} must be a classifier or regressor with fit and predict")
        if not callable(self.loss) and not is_auto(self.loss):
            raise ValueError(f"loss={self.loss!r} is neither 'auto' nor a function of (y_true, y_pred)")
        if y is None:
            raise ValueError("RobustFit requires y to be passed, but the target y is None")
        refuse_input(X, y)
        tags = get_tags(self).input_tags
        if hasattr(X, "iloc") or hasattr(X, "__dataframe__") or not tags.two_d_array:
            validate_data(self, X, skip_check_array=True)
        else:
            finite, sparse = not tags.allow_nan, "csr" if tags.sparse else False
            X = validate_data(self, X, dtype=None, accept_sparse=sparse, ensure_all_finite=finite)
        y = column_or_1d(y, warn=True)
        with np.errstate(over="ignore", invalid="ignore"):  # of a sum that is only looked at
            assert_all_finite(y, input_name="y")
        if _num_samples(X) != len(y):
            raise ValueError(f"X has {_num_samples(X)} rows, but y has {len(y)}: inconsistent numbers of samples")
        if not is_classifier(self.estimator):
            try:
                targets = np.asarray(y, dtype=np.float64)
            except (ValueError, OverflowError):
                raise TypeError(f"y holds {y.dtype} values, but a regressor needs numbers that floats hold") from None
            range_of(targets)
            return X, y, targets
        self.classes_, codes = classes_in(y)
        check_classes(y)
        if len(self.classes_) < 2:
            raise ValueError(f"Classifier can't train when only one class is present: y holds {self.classes_.tolist()}")
        return X, y, codes

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = own.estimator_type
        tags.classifier_tags, tags.regressor_tags = own.classifier_tags, own.regressor_tags
        tags.target_tags, tags.input_tags = own.target_tags, own.input_tags
        tags.target_tags.required, tags.target_tags.multi_output = True, False
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_label = False
        tags.non_deterministic = own.non_deterministic
        return tags


class _Trial:
    """The trial of the rows: models of parts of them judge the others."""

    def __init__(self, own: RobustFit, X: Any, targets: Array, params: Any, n_corrupt: int, rng: Any):
        self.own, self.X, self.targets, self.params = own, X, targets, params
        self.n_corrupt, self.rng = n_corrupt, rng
        self.labels = own.classes_[targets] if is_classifier(own.estimator) else targets

    def verdict(self) -> tuple[Array, Array]:
        """Return the rows that hold up, and how suspect all are."""
        scores = self._far_scores()
        out = self._without_whole_classes(worst(scores, scores > TOO_FAR, self.n_corrupt))
        deals = self._deals(~out, _N_DEALS)
        judged = [self._contradicted(outcome) for outcome in deals]
        losses = np.median([losses for losses, _ in judged], axis=0)
        share = np.mean([wrong for _, wrong in judged], axis=0)
        wrong = ~out & (2 * share > 1)
        ranks = np.argsort(np.argsort(losses, kind="stable"), kind="stable") / len(losses)
        suspect = share + ranks + np.where(out, 2.0, 0.0)
        return ~out & ~self._confirmed(deals, losses, wrong, out), suspect

    def _without_whole_classes(self, out: Array) -> Array:
        """Take back the rows of a class that would be left out altogether, and warn."""
        if not self._n_classes:
            return out
        lost = np.setdiff1d(self.targets, self.targets[~out])
        for label in self.own.classes_[lost].tolist():
            warn_of_lost_class(label, "They are kept")
        return out & ~np.isin(self.targets, lost)

    def _far_scores(self) -> Array:
        """Return how far out the rows lie, 0 where the columns are not numbers."""
        try:
            x = np.asarray(self.X, dtype=np.float64)
        except (TypeError, ValueError):  # words, or a sparse matrix
            return np.zeros(len(self.targets))
        return far_scores(x, self.targets, np.arange(len(x)), self.n_corrupt)

    def _deals(self, kept: Array, n_deals: int) -> list[Array]:
        """Return the out-of-fold predictions of all rows, each from a model of kept rows, for each deal of folds."""
        folds = [self._folds() for _ in range(n_deals)]
        asked = [(fold, number) for fold in folds for number in range(_N_FOLDS)]
        models = Parallel(n_jobs=number_of_jobs(self.own.n_jobs))(
            delayed(_predicted)(
                self.own.estimator, self.X, self.labels, np.flatnonzero(kept & (fold != number)),
                np.flatnonzero(fold == number), self.params, self._n_classes, self._judges_chances,
            )
            for fold, number in asked
        )  # fmt: skip
        outcomes = []
        for at, fold in enumerate(folds):
            outcome = np.empty((len(fold), *models[0].shape[1:]), dtype=models[0].dtype)
            for number in range(_N_FOLDS):
                outcome[fold == number] = models[at * _N_FOLDS + number]
            outcomes.append(outcome)
        return outcomes

    def _folds(self) -> Array:
        """Return the number of each row's fold: random, and of each class alike."""
        order = self.rng.permutation(len(self.targets))
        if self._n_classes:
            order = order[np.argsort(self.targets[order], kind="stable")]
        fold = np.empty(len(order), dtype=np.int64)
        fold[order] = np.arange(len(order)) % _N_FOLDS
        return fold

    @property
    def _n_classes(self) -> int:
        return len(self.own.classes_) if is_classifier(self.own.estimator) else 0

    @property
    def _judges_chances(self) -> bool:
        return bool(self._n_classes) and not callable(self.own.loss)

    def _contradicted(self, outcome: Array) -> tuple[Array, Array]:
        """Return the losses of the rows, and which are contradicted, by one deal of folds."""
        every = np.arange(len(self.targets))
        if callable(self.own.loss):
            losses = np.asarray(self.own.loss(self.labels, outcome))
            if losses.shape != self.targets.shape:
                raise ValueError(
                    f"loss returned shape {losses.shape} for {len(every)} rows: return one number for each"
                )
            if losses.dtype.kind not in "biuf":
                raise TypeError(f"loss returned {losses.dtype} values: return one number for each row")
            losses = losses.astype(np.float64)
            return losses, contradicted_losses(losses, self.n_corrupt)
        if not self._n_classes:
            losses = np.abs(outcome - self.targets)
            return losses, contradicted_losses(losses, self.n_corrupt)
        chosen, usual = outcome.argmax(axis=1), self._usual(outcome)
        own = outcome[every, self.targets]
        rivals = np.where(outcome >= usual, outcome, -1.0)
        rivals[every, self.targets] = -1.0
        return 1 - own, (rivals.max(axis=1) > own) & (chosen != self.targets)

    def _usual(self, chances: Array) -> Array:
        """Return the mean probability of each class among its own rows."""
        return np.array([chances[self.targets == code, code].mean() for code in range(chances.shape[1])])

    def _confirmed(self, deals: list[Array], losses: Array, wrong: Array, out: Array) -> Array:
        """Return which contradicted rows are left out: none, unless that is more than leaving out hard rows.

        Classes: there must be enough of them to matter, and not too many errors; at most half of a class is left out.
        Numbers: models of the other rows must predict these better; they judge again.
        """
        none, left = np.zeros(len(wrong), dtype=bool), self.n_corrupt - int(out.sum())
        if self._judges_chances:
            chances = np.mean(deals, axis=0)
            errors = int((~out & (chances.argmax(axis=1) != self.targets)).sum())
            if wrong.sum() < FEWEST * self.n_corrupt or errors > _OWN_ERRORS * left:
                return none
            # Of a single tree the median loss is the same for all of them, but not the mean probability.
            losses, most = own_losses(chances, self.targets), np.append(np.bincount(self.targets) // 2, left)
            return worst_in_classes(losses, wrong, self.targets, most)
        wrong = worst(losses, wrong, left)
        if not wrong.any():
            return none
        rest = ~out & ~wrong
        after, again = self._contradicted(self._deals(rest, 1)[0])
        with np.errstate(over="ignore"):
            if np.square(after[rest]).mean() > (1 - _GAIN) * np.square(losses[rest]).mean():
                return none
        return worst(after, again & ~out, left)


def _fitted(estimator: Any, X: Any, y: Any, rows: Array, params: Any) -> Any:
    """Return a copy of the model, fitted to some rows."""
    if len(rows) == _num_samples(X):
        return clone(estimator).fit(X, y, **dict(params))
    given = _check_method_params(X, params=dict(params), indices=rows)
    return clone(estimator).fit(_safe_indexing(X, rows), _safe_indexing(y, rows), **given)


def _predicted(
    estimator: Any, X: Any, y: Any, rows: Array, asked: Array, params: Any, n_classes: int, chances: bool
) -> Array:
    """Return what a model of some rows predicts for others: numbers or labels, or probabilities of the classes."""
    model, held = _fitted(estimator, X, y, rows, params), _safe_indexing(X, asked)
    if not chances:
        return np.asarray(model.predict(held))
    found, labels = np.zeros((len(asked), n_classes)), np.unique(y)
    places = np.searchsorted(labels, model.classes_)
    if hasattr(model, "predict_proba"):
        found[:, places] = model.predict_proba(held)
    else:
        found[np.arange(len(asked)), np.searchsorted(labels, model.predict(held))] = 1.0
    return found
