"""Rankers: pairs of rows, or pairs of a positive and a negative row."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import roc_auc_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from outvote.assumptions.assumption import Bounded
from outvote.blocks.choose import plan_blocks
from outvote.blocks.plan import BlockPlan, GridPlan
from outvote.contamination import Contamination
from outvote.estimate.result import RobustEstimate
from outvote.estimate.risk import certify_risk
from outvote.kernels import closed_forms
from outvote.kernels.kernel import Kernel
from outvote.learning.base import Fitting, RobustLearner, _given_blocks
from outvote.learning.losses import PAIR_LOSSES, loss_of
from outvote.learning.n_blocks import corrupt_in_share
from outvote.learning.outlier_scores import partners_for
from outvote.learning.parameters import documented
from outvote.learning.scaling import ScaledRows
from outvote.learning.voting import Cell

Array = NDArray[Any]

#: Rows of one class in a block of pairs across two samples.
_MOST_CROSSED = 256


class _LinearScores(RobustLearner):
    """A learner whose fit is one linear score."""

    _degree: ClassVar[int] = 2

    def _loss(self) -> Any:
        return loss_of("logistic" if self.loss == "auto" else self.loss, PAIR_LOSSES, 2)

    def _set_scores(self, design: ScaledRows) -> None:
        self.coef_, intercept = design.to_user(self._theta)
        self.intercept_ = float(intercept)

    @property
    def _user_parameters(self) -> tuple[Array, Any]:
        return self.coef_, self.intercept_

    def _scores_of(self, X: Any) -> Array:
        x = self._read(X)
        return np.asarray(x @ self.coef_.astype(x.dtype) + self.intercept_, dtype=np.float64)


@documented
class RobustRanker(_LinearScores):
    """Learn a score that orders rows as their targets do, although some rows are corrupt.

    The score is w·x. Every epoch the rows are dealt into blocks, every block has its mean loss over pairs, and the
    step is taken on the blocks in the middle.

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
        Weights, in the units of the columns as they came.
    intercept_ : float
        A shift that changes no order (and no probability but those of the loss "product").
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
        """Learn from rows and numbers to order them by.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            The larger, the further up.
        groups : array-like of shape (n_samples,), optional
            Queries: only pairs inside one of them count.

        Returns
        -------
        RobustRanker
            Itself.
        """
        self._run(self._fitting(X, y, groups))
        return self

    def _fitting(self, X: Any, y: Any, groups: Any = None) -> Fitting[None]:
        x, y = validate_data(self, X, y, dtype=[np.float64, np.float32], y_numeric=True, ensure_min_samples=2)
        y = self._check_targets(y)
        codes = None
        if groups is not None:
            codes = np.unique(column_or_1d(groups), return_inverse=True)[1]
            if len(codes) != len(y):
                raise ValueError(f"groups has {len(codes)} entries for {len(y)} rows")
            if not _has_pair(codes, y):
                raise ValueError("no group holds two rows with different y: there is nothing to rank inside groups")
        self._set_scores((yield from self._learning(x, y, self._loss(), groups=codes)))

    def partial_fit(self, X: Any, y: Any, n_steps: int = 10) -> Self:
        """Take `n_steps` more steps, on these rows alone; columns are scaled as in the first call."""
        first = not hasattr(self, "coef_")
        x, y = validate_data(
            self, X, y, reset=first, dtype=[np.float64, np.float32], y_numeric=True, ensure_min_samples=2
        )
        y = self._check_targets(y)
        self._set_scores(self._learn_more(x, y, self._loss(), n_steps))
        return self

    def predict(self, X: Any) -> Array:
        """Return the scores of rows: the larger, the further up."""
        return self._scores_of(X)

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Return the concordance: the share of pairs with different y in the right order, ties counted half."""
        scores, y = self.predict(X), column_or_1d(y)
        if groups is None:
            return concordance(scores, y)
        codes = np.unique(column_or_1d(groups), return_inverse=True)[1]
        parts = [(codes == code) for code in range(codes.max() + 1)]
        parts = [part for part in parts if np.ptp(y[part]) > 0]
        weights = [_untied(y[part]) for part in parts]
        return float(np.average([concordance(scores[part], y[part]) for part in parts], weights=weights))

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
        """Bound the risk on clean pairs from above, from rows not used for the fit, of which some are corrupt.

        Parameters
        ----------
        X, y : array-like
            Held-out rows.
        contamination : float, int or Contamination, optional
            How many of them may be corrupt; as for the fit by default.
        confidence : float
            Confidence of the bound.
        loss : {"zero-one", "training"}
            The share of pairs in the wrong order (a pair with a tied score counts half, one with tied y nothing), or
            the loss that was minimised, which needs an `assume` to be certified.
        **options
            As for `outvote.certify_risk`.

        Returns
        -------
        RobustEstimate
            ``interval.high`` is the bound.
        """
        rows = np.column_stack([self.predict(X), column_or_1d(y)])
        allowed = self.contamination if contamination is None else contamination
        kernel = _discordance
        if loss == "training":
            trained = self._loss()
            kernel = Kernel(
                lambda a, b: trained.value(a[..., 0], b[..., 0], a[..., 1], b[..., 1]), (2,), None, True, "loss"
            )
        else:
            options.setdefault("assume", Bounded(0, 1))
        return certify_risk(rows, kernel=kernel, contamination=allowed, confidence=confidence, **options)

    def _check_targets(self, y: Array) -> Array:
        y = np.asarray(y, dtype=np.float64)
        if np.ptp(y) == 0:
            raise ValueError(f"y is constant ({y[0]:g}): there is nothing to rank")
        return y

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


@documented
class RobustAUCClassifier(ClassifierMixin, _LinearScores):  # type: ignore[misc]
    """Learn a score that puts the positive rows above the negative ones (bipartite ranking).

    The k-th block of positives meets the k-th block of negatives (MoU₂ on the diagonal); each class has a
    contamination of its own. Decisions are taken at the threshold where the score's errors balance, robustly.

    Parameters
    ----------
    contamination : float, int or tuple, default=0.05
        As below, of each class; a tuple gives one for the negative class (``classes_[0]``) and one for the positive.
    loss : {"logistic", "hinge", "product"} or PairLoss, default="logistic"
        As for `RobustRanker`, with y = 0 and 1.
    {parameters}
    device : None
        Only None: the descent on a device has no pairs of two samples.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        The negative and the positive label.
    coef_ : ndarray of shape (n_features,)
        Weights, in the units of the columns as they came.
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

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows of two classes."""
        self._run(self._fitting(X, y))
        return self

    def _fitting(self, X: Any, y: Any) -> Fitting[None]:
        x, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        codes = self._check_classes(y)
        design = yield from self._learning(x, codes.astype(np.float64), self._loss())
        self._set_threshold(design, codes)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, n_steps: int = 10) -> Self:
        """Take `n_steps` more steps, on these rows alone; columns are scaled as in the first call.

        Both classes must be among the rows; `classes`, which scikit-learn asks for, is only compared with them.
        """
        first = not hasattr(self, "coef_")
        x, y = validate_data(self, X, y, reset=first, dtype=[np.float64, np.float32], ensure_min_samples=2)
        known = np.unique(classes) if classes is not None else None if first else self.classes_
        codes = self._check_classes(y)
        if known is not None and not np.array_equal(known, self.classes_):
            raise ValueError(f"y has the classes {self.classes_.tolist()!r}, but they should be {known.tolist()!r}")
        self._set_threshold(self._learn_more(x, codes.astype(np.float64), self._loss(), n_steps), codes)
        return self

    def _set_threshold(self, design: ScaledRows, codes: Array) -> None:
        self._set_scores(design)
        scores = design.x @ self.coef_.astype(design.x.dtype) + self.intercept_
        self.intercept_ -= _balanced_threshold(scores[codes == 0], scores[codes == 1])

    def decision_function(self, X: Any) -> Array:
        """Return the scores of rows: positive for the class ``classes_[1]``."""
        return self._scores_of(X)

    def predict(self, X: Any) -> Array:
        """Return the labels."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int)]

    def auc(self, X: Any, y: Any) -> float:
        """Return the area under the ROC curve."""
        return float(roc_auc_score(column_or_1d(y) == self.classes_[1], self.decision_function(X)))

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
        """Bound 1 - AUC on clean rows (or the training loss) from above; see `RobustRanker.certify`."""
        scores, positive = self.decision_function(X), column_or_1d(y) == self.classes_[1]
        allowed = self.contamination if contamination is None else contamination
        kernel = _misordered
        if loss == "training":
            trained = self._loss()
            kernel = Kernel(
                lambda s, t: trained.value(s, t, np.zeros(np.shape(s)), np.ones(np.shape(t))),
                (1, 1),
                None,
                True,
                "loss",
            )
        else:
            options.setdefault("assume", Bounded(0, 1))
        return certify_risk(
            scores[~positive], scores[positive], kernel=kernel, contamination=allowed, confidence=confidence, **options
        )

    def _check_classes(self, y: Array) -> Array:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) > 2:
            raise ValueError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"y has {len(self.classes_)} classes, but RobustAUCClassifier ranks one above another"
            )
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only ({self.classes_[0]!r}): there is nothing to rank")
        self._sizes = tuple(int(size) for size in np.bincount(codes))
        return codes

    def _sample_sizes(self, n_rows: int) -> tuple[int, ...]:
        return self._sizes

    def _cells(self, rows: Array, targets: Array, n_all: int, groups: Array | None) -> tuple[list[Cell], Any]:
        samples = rows[targets[rows] == 0], rows[targets[rows] == 1]
        sizes = len(samples[0]), len(samples[1])
        counts = Contamination.of(self.contamination).counts(self._sizes)
        if len(rows) < n_all:
            counts = tuple(
                corrupt_in_share(c, n, full, 2) for c, n, full in zip(counts, sizes, self._sizes, strict=True)
            )
        plan = self._grid(sizes, counts)
        return [self._cell(samples, plan.n_votes, sum(counts))], plan

    def _grid(self, sizes: tuple[int, int], counts: tuple[int, ...]) -> GridPlan:
        """Choose the blocks on the diagonal, or refuse the contamination."""
        if not (isinstance(self.n_blocks, str) and self.n_blocks == "auto"):
            k, reason = _given_blocks(self.n_blocks, min(sizes), sum(sizes), 1), "The number of blocks was given."
        elif self.algorithm == "paper":
            plan = plan_blocks(sizes, counts, degree=(1, 1), method="harmonic", grid="diagonal")
            assert isinstance(plan, GridPlan)
            return plan
        else:
            k, reason = 2 * sum(counts) + 1, "2·n_corrupt + 1 blocks: the largest that corrupt rows cannot outvote."
            if k > min(sizes):
                plan_blocks(sizes, counts, degree=(1, 1), grid="diagonal")  # refuses, and says what works
            if max(sizes) // k > _MOST_CROSSED:
                k = min(-(-max(sizes) // _MOST_CROSSED), min(sizes))
                reason = f"Blocks of about {_MOST_CROSSED} rows: pairs of larger ones cost more than they tell."
        plans = (BlockPlan(n, k, c, 1, "drop", "learning", reason) for n, c in zip(sizes, counts, strict=True))
        return GridPlan(tuple(plans), "diagonal")

    def _split(self, rows: Array, targets: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        parts = [super(RobustAUCClassifier, self)._split(rows[targets[rows] == code], targets, rng) for code in (0, 1)]
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def _losses_of_rows(
        self, problem: Any, theta: Array, counts: Array, rows: Array, rng: np.random.Generator
    ) -> Array:
        """Return the mean loss of each row with rows of the other class that were chosen often."""
        with np.errstate(over="ignore", invalid="ignore"):
            scores, losses = problem.loss.scores(problem.design, theta), np.zeros(len(problem.targets))
            for code in (0.0, 1.0):
                other = rows[problem.targets[rows] != code]
                trusted = other[counts[other] >= np.median(counts[other])]
                n_partners = min(partners_for(len(scores)), len(trusted))
                partners = rng.choice(trusted, size=n_partners, replace=False)
                own = np.flatnonzero(problem.targets == code)
                for part in np.array_split(own, max(1, len(own) // 1024)):
                    losses[part] = problem.loss.value(
                        scores[part, None], scores[None, partners], np.array(code), np.array(1.0 - code)
                    ).mean(axis=1)
        return np.where(np.isnan(losses), np.inf, losses)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def concordance(scores: Array, y: Array) -> float:
    """Return the share of pairs with different y that the scores order alike, ties counted half.

    Examples
    --------
    >>> concordance(np.array([1.0, 3.0, 2.0]), np.array([0, 1, 2]))
    0.6666666666666666
    """
    y = np.asarray(y, dtype=np.float64)
    untied = _untied(y)
    if not untied:
        raise ValueError("y is constant: no pair has an order")
    tau = float(closed_forms.kendall(np.stack([scores, y], axis=-1)[None])[0]) * len(y) * (len(y) - 1) / 2
    return (1 + tau / untied) / 2


def _untied(y: Array) -> float:
    counts = np.unique(y, return_counts=True)[1].astype(np.float64)
    return float((len(y) ** 2 - (counts**2).sum()) / 2)


def _has_pair(codes: Array, y: Array) -> bool:
    order = np.lexsort((y, codes))
    return bool(np.any((codes[order][1:] == codes[order][:-1]) & (y[order][1:] != y[order][:-1])))


def _balanced_threshold(negative: Array, positive: Array) -> float:
    """Return the threshold at which as large a share of positives lies below as of negatives lies above."""
    values = np.sort(np.concatenate([negative, positive]))
    below = np.searchsorted(np.sort(positive), values, side="right") / len(positive)
    above = 1 - np.searchsorted(np.sort(negative), values, side="right") / len(negative)
    place = int(np.argmin(np.abs(below - above)))
    return float(values[place] + values[min(place + 1, len(values) - 1)]) / 2


def _wrong_order(a: Array, b: Array) -> Array:
    return (1 - np.sign((a[..., 0] - b[..., 0]) * (a[..., 1] - b[..., 1]))) / 2 * (a[..., 1] != b[..., 1])


_discordance = Kernel(_wrong_order, (2,), (0.0, 1.0), True, "wrong order")
_misordered = Kernel(lambda s, t: (s > t) + (s == t) / 2, (1, 1), (0.0, 1.0), True, "wrong order")
