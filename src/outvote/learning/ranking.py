"""Linear scores that order rows: by numbers, or positive rows above negative ones."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils.validation import column_or_1d

from outvote.kernels.kendall import kendall
from outvote.kernels.kernel import Kernel
from outvote.learning.arrays import Array
from outvote.learning.checks import check_classes, classes_in, one_label_each, range_of, refuse_masks
from outvote.learning.divergence import check_coefficients
from outvote.learning.fit import Fit, Task
from outvote.learning.learner import HeldOutRisk, RobustLearner
from outvote.learning.losses import PAIR_LOSSES, loss_of
from outvote.learning.n_blocks import is_auto, plan_two_samples
from outvote.learning.parameters import documented
from outvote.learning.products import product
from outvote.learning.scaling import ScaledRows
from outvote.learning.voting import Cell


class _LinearScore(RobustLearner):
    """A learner of pairs whose fit is one linear score."""

    def _pair_loss(self) -> Any:
        return loss_of("logistic" if is_auto(self.loss) else self.loss, PAIR_LOSSES, 2)

    def _set_parameters(self, design: ScaledRows, targets: Array) -> None:
        self.coef_, intercept = design.to_user(self._theta)
        self.intercept_ = float(intercept)

    def _scores_of(self, X: Any) -> Array:
        x = self._read(X)
        return np.asarray(product(x, self.coef_) + self.intercept_, dtype=np.float64)


@documented
class RobustRanker(_LinearScore):
    """Learn a score that orders rows as their targets do, although some rows are corrupt.

    The score is w·x. Every epoch draws blocks of rows, computes the mean loss over the pairs of each block, and steps
    along the gradient of the blocks in the middle.

    Parameters
    ----------
    loss : {"logistic", "hinge", "product"} or PairLoss, default="logistic"
        log(1 + exp(-margin)) with margin (s - s')·sign(y - y'); the RankSVM's max(0, 1 - margin); or the paper's
        max(0, 1 - (σ(s) - σ(s'))·(y - y')).
    {parameters}
    {device}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Weights, in the units of the input.
    intercept_ : float
        A constant that changes no order; the loss "product" alone depends on it.
    {attributes}

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 3))
    >>> y = X @ [1.0, 2.0, 0.0] + rng.normal(size=300)
    >>> X[:15], y[:15] = 1000.0, -1000.0
    >>> ranker = ov.RobustRanker(contamination=0.05, random_state=0).fit(X, y)
    >>> ranker.score(X[15:], y[15:]) > 0.85
    True
    """

    def fit(self, X: Any, y: Any, groups: Any = None) -> Self:
        """Learn from rows and numbers to order them by; with `groups` (queries), only pairs inside a group count."""
        Fit.begin(self, X, y, groups).run()
        return self

    def predict(self, X: Any) -> Array:
        """Return the scores of rows, from which their order follows."""
        return self._scores_of(X)

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Return the concordance: the share of pairs with different y in the right order, ties counted half."""
        scores = self.predict(X)
        refuse_masks(y=y, groups=groups)
        y = one_label_each(y, scores)
        if groups is None:
            return concordance(scores, y)
        codes = classes_in(one_label_each(groups, scores, "groups"), "groups")[1]
        parts = [(codes == code) for code in range(codes.max() + 1)]
        parts = [part for part in parts if np.ptp(y[part]) > 0]
        if not parts:
            raise ValueError("no group holds two rows with different y: no pair has an order")
        weights = [_untied(y[part]) for part in parts]
        return float(np.average([concordance(scores[part], y[part]) for part in parts], weights=weights))

    def _task(self, X: Any, y: Any, reset: bool = True, groups: Any = None) -> Task:
        x, y = self._check_rows(X, y, reset, y_numeric=True, ensure_min_samples=2)
        y = np.asarray(y, dtype=np.float64)
        if range_of(y) == 0:
            raise ValueError(f"y is constant ({y[0]:g}): there is nothing to rank")
        codes = None
        if groups is not None:
            refuse_masks(groups=groups)
            codes = classes_in(one_label_each(groups, x, "groups"), "groups")[1]
            if not _has_pair(codes, y):
                raise ValueError("no group holds two rows with different y: there is nothing to rank inside groups")
        return Task(x, y, self._pair_loss(), groups=codes)

    def _held_out_risk(self, X: Any, y: Any, loss: str) -> HeldOutRisk:
        scores, y = self.predict(X), column_or_1d(y)
        if len(y) != len(scores):
            raise ValueError(f"y has {len(y)} entries for {len(scores)} rows")
        rows = np.column_stack([scores, y])
        if loss == "training":
            value = self._pair_loss().value
            return HeldOutRisk(
                (rows,),
                Kernel(lambda a, b: value(a[..., 0], b[..., 0], a[..., 1], b[..., 1]), (2,), None, True, "loss"),
            )
        return HeldOutRisk((rows,), _DISCORDANCE, bounded=True)


@documented
class RobustAUCClassifier(ClassifierMixin, _LinearScore):  # type: ignore[misc]
    """Learn a score that puts the positive rows above the negative ones (bipartite ranking).

    The k-th block of positives is paired with the k-th block of negatives (MoU₂ on the diagonal), and each class has
    its own contamination. Rows are classified at the threshold where both classes have the same share of errors.

    Parameters
    ----------
    contamination : float, int or tuple, default=0.05
        As below, of each class; a tuple gives one for the negative class (``classes_[0]``) and one for the positive.
    loss : {"logistic", "hinge", "product"} or PairLoss, default="logistic"
        As for `RobustRanker`, with y = 0 and 1.
    {parameters}
    device : None
        Only None: pairs of two samples do not run on a device.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The negative and the positive label.
    coef_ : ndarray of shape (n_features,)
        Weights, in the units of the input.
    intercept_ : float
        Minus the threshold.
    {attributes}

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 200)
    >>> X = rng.normal(size=(400, 2)) + y[:, None]
    >>> X[:10] = 50.0
    >>> model = ov.RobustAUCClassifier(contamination=(0.05, 0.0), random_state=0).fit(X, y)
    >>> model.auc(X[10:], y[10:]) > 0.8
    True
    """

    classes_: Array

    def partial_fit(  # type: ignore[override]  # scikit-learn gives the classes third
        self, X: Any, y: Any, classes: Any = None, n_steps: int = 10
    ) -> Self:
        """Take `n_steps` more steps on these rows alone; the columns keep the scaling of the first call.

        Both classes must be among the rows; `classes`, which scikit-learn asks for, is only compared with them.
        """
        return self._fit_further(self._task(X, y, not self.__sklearn_is_fitted__(), classes), n_steps)

    def decision_function(self, X: Any) -> Array:
        """Return the scores of rows: positive for the class ``classes_[1]``."""
        return self._scores_of(X)

    def predict(self, X: Any) -> Array:
        """Return the labels."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int)]

    def auc(self, X: Any, y: Any) -> float:
        """Return the area under the ROC curve."""
        scores = self.decision_function(X)
        refuse_masks(y=y)
        return float(roc_auc_score(one_label_each(y, scores) == self.classes_[1], scores))

    def _task(self, X: Any, y: Any, reset: bool = True, classes: Any = None) -> Task:
        x, y = self._check_rows(X, y, reset, ensure_min_samples=2)
        known = np.unique(classes) if classes is not None else None if reset else self.classes_
        check_classes(y)
        self.classes_, codes = classes_in(y)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"y has {len(self.classes_)} classes, but RobustAUCClassifier ranks one above another"
            )
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only ({self.classes_[0]!r}): there is nothing to rank")
        if known is not None and not np.array_equal(known, self.classes_):
            raise ValueError(f"y has the classes {self.classes_.tolist()!r}, but they should be {known.tolist()!r}")
        targets = codes.astype(np.float64)
        return Task(x, targets, self._pair_loss(), sample_of=codes, n_samples=2, stratified=True)

    def _cells(
        self, samples: tuple[Array, ...], counts: tuple[int, ...], contamination: Any, task: Task
    ) -> tuple[list[Cell], Any]:
        sizes = [len(rows) for rows in samples]
        plan = plan_two_samples(sizes, counts, n_blocks=self.n_blocks, algorithm=self.algorithm)
        return [self._cell(samples, plan.n_votes, sum(counts))], plan

    def _set_parameters(self, design: ScaledRows, targets: Array) -> None:
        super()._set_parameters(design, targets)
        check_coefficients(self)
        scores = product(design.x, self.coef_) + self.intercept_
        self.intercept_ -= _balanced_threshold(scores[targets == 0], scores[targets == 1])

    def _held_out_risk(self, X: Any, y: Any, loss: str) -> HeldOutRisk:
        scores = self.decision_function(X)
        positive = one_label_each(y, scores) == self.classes_[1]
        samples = scores[~positive], scores[positive]
        if loss == "training":
            value = self._pair_loss().value
            return HeldOutRisk(
                samples,
                Kernel(
                    lambda s, t: value(s, t, np.zeros(np.shape(s)), np.ones(np.shape(t))), (1, 1), None, True, "loss"
                ),
            )
        return HeldOutRisk(samples, _MISORDERED, bounded=True)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def concordance(scores: Array, y: Array) -> float:
    """Return the share of pairs with different y that the scores put in the right order, ties counted half.

    Examples
    --------
    >>> concordance(np.array([1.0, 3.0, 2.0]), np.array([0, 1, 2]))
    0.6666666666666666
    """
    scores, y = np.asarray(scores, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if scores.ndim != 1 or scores.shape != y.shape:
        raise ValueError(f"scores and y have shapes {scores.shape} and {y.shape}: give one number per row")
    if np.isnan(scores).any() or np.isnan(y).any():
        raise ValueError("scores or y has NaN, which has no order: leave such rows out")
    untied = _untied(y)
    if not untied:
        raise ValueError("y is constant: no pair has an order")
    tau = float(kendall(np.stack([scores, y], axis=-1)[None])[0]) * len(y) * (len(y) - 1) / 2
    return (1 + tau / untied) / 2


def _untied(y: Array) -> float:
    """Return the number of pairs with different y."""
    counts = np.unique(y, return_counts=True)[1].astype(np.float64)
    return float((len(y) ** 2 - (counts**2).sum()) / 2)


def _has_pair(codes: Array, y: Array) -> bool:
    """Return whether some group holds two rows with different y."""
    order = np.lexsort((y, codes))
    return bool(np.any((codes[order][1:] == codes[order][:-1]) & (y[order][1:] != y[order][:-1])))


def _balanced_threshold(negative: Array, positive: Array) -> float:
    """Return the threshold where the share of positives below it equals the share of negatives above it."""
    values = np.sort(np.concatenate([negative, positive]))
    below = np.searchsorted(np.sort(positive), values, side="right") / len(positive)
    above = 1 - np.searchsorted(np.sort(negative), values, side="right") / len(negative)
    place = int(np.argmin(np.abs(below - above)))
    return float(values[place] + values[min(place + 1, len(values) - 1)]) / 2


def _wrong_order(a: Array, b: Array) -> Array:
    return (1 - np.sign((a[..., 0] - b[..., 0]) * (a[..., 1] - b[..., 1]))) / 2 * (a[..., 1] != b[..., 1])


_DISCORDANCE = Kernel(_wrong_order, (2,), (0.0, 1.0), True, "wrong order")
_MISORDERED = Kernel(lambda s, t: (s > t) + (s == t) / 2, (1, 1), (0.0, 1.0), True, "wrong order")
