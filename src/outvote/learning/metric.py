"""Metric learning: a Mahalanobis distance that is small inside a class and large across."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from outvote.assumptions.assumption import Bounded
from outvote.estimate.result import RobustEstimate
from outvote.estimate.risk import certify_risk
from outvote.kernels.kernel import Kernel
from outvote.learning.base import Fitting, RobustLearner
from outvote.learning.classes import warn_of_small_classes
from outvote.learning.losses import DistanceHinge, MetricHinge, square_norm
from outvote.learning.parameters import documented
from outvote.learning.scaling import ScaledRows

Array = NDArray[Any]


@documented
class RobustMetricLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RobustLearner):  # type: ignore[misc]
    """Learn a distance d²_M(x, x') = (x - x')ᵀM(x - x') that tells classes apart, although some rows are corrupt.

    The loss of a pair is max(0, 1 + y_ij·(d²_M - 2)), y_ij = +1 inside a class and -1 across; M stays positive
    semi-definite.

    Parameters
    ----------
    loss : "auto" or PairLoss
        Another loss of pairs on the images of rows, if not the one above.
    {parameters}
    {device}

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        `transform` returns ``X @ components_.T``, in which d_M is the ordinary distance; directions in which M
        vanishes are left out.
    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import outvote as ov
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = ov.RobustMetricLearner(contamination=0.05, max_iter=50, random_state=0).fit(X, y)
    >>> inside, across = learner.pair_distance([[X[0], X[1]], [X[0], X[149]]])
    >>> inside < 1 < across
    np.True_
    """

    _degree: ClassVar[int] = 2
    #: A metric has further to go than weights: with 0.1 it is often still on its way when the epochs are over.
    _presets: ClassVar[dict[str, Any]] = {"step_size": 0.3}

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows and their classes."""
        self._run(self._fitting(X, y))
        return self

    def _fitting(self, X: Any, y: Any) -> Fitting[None]:
        self._degree = 2  # type: ignore[misc]
        x, y = validate_data(self, X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        self._set_metric((yield from self._learning(x, self._codes(y), self._loss())))

    def partial_fit(self, X: Any, y: Any, n_steps: int = 10) -> Self:
        """Take `n_steps` more steps, on these rows alone; columns are scaled as in the first call."""
        first = not hasattr(self, "components_")
        self._degree = 2  # type: ignore[misc]
        x, y = validate_data(self, X, y, reset=first, dtype=[np.float64, np.float32], ensure_min_samples=2)
        self._set_metric(self._learn_more(x, self._codes(y), self._loss(), n_steps))
        return self

    def fit_pairs(self, pairs: Any, alike: Any) -> Self:
        """Learn from given pairs; contamination is then a share, or a number, of pairs.

        Parameters
        ----------
        pairs : array-like of shape (n_pairs, 2, n_features)
            Two rows each.
        alike : array-like of shape (n_pairs,)
            +1 where they belong together, -1 where they do not.

        Returns
        -------
        RobustMetricLearner
            Itself.
        """
        self._degree = 1  # type: ignore[misc]
        both = check_array(pairs, allow_nd=True, dtype=np.float64)
        if both.ndim != 3 or both.shape[1] != 2:
            raise ValueError(f"pairs has shape {both.shape}, but (n_pairs, 2, n_features) is needed")
        signs = column_or_1d(alike).astype(np.float64)
        if len(signs) != len(both) or not np.isin(signs, (-1, 1)).all():
            raise ValueError("alike must hold +1 or -1 for each pair")
        if np.ptp(signs) == 0:
            raise ValueError(f"alike is constant ({signs[0]:g}): there is nothing to tell apart")
        x = validate_data(self, both[:, 0], dtype=[np.float64, np.float32])
        self._set_metric(self._run(self._learning(x - both[:, 1], signs, DistanceHinge(), centred=False)))
        return self

    def transform(self, X: Any) -> Array:
        """Return the rows in coordinates in which the learnt distance is the ordinary one."""
        x = self._read(X)
        return x @ self.components_.T.astype(x.dtype)

    def mahalanobis_matrix(self) -> Array:
        """Return M, in the units of the columns as they came."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def pair_distance(self, pairs: Any) -> Array:
        """Return the learnt distance of each pair, for pairs of shape (n_pairs, 2, n_features)."""
        check_is_fitted(self)
        both = check_array(pairs, allow_nd=True, dtype=np.float64)
        if both.ndim != 3 or both.shape[1:] != (2, self.n_features_in_):
            raise ValueError(f"pairs has shape {both.shape}, but (n_pairs, 2, {self.n_features_in_}) is needed")
        return np.sqrt(square_norm((both[:, 0] - both[:, 1]) @ self.components_.T))

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

        ``loss="zero-one"`` is the share of pairs that the threshold d² = 2 puts on the wrong side; ``"training"`` the
        loss that was minimised, which needs an `assume` to be certified. Other options as for `outvote.certify_risk`.
        """
        images, y = self.transform(X), column_or_1d(y)
        codes = np.unique(y, return_inverse=True)[1]
        rows = np.column_stack([images, codes])
        allowed = self.contamination if contamination is None else contamination

        def margins(a: Array, b: Array) -> Array:
            return np.where(a[..., -1] == b[..., -1], 1.0, -1.0) * (square_norm(a[..., :-1] - b[..., :-1]) - 2)

        kernel = Kernel(lambda a, b: margins(a, b) > 0, (2,), (0.0, 1.0), True, "wrong side")
        if loss == "training":
            kernel = Kernel(lambda a, b: np.maximum(1 + margins(a, b), 0.0), (2,), None, True, "loss")
        else:
            options.setdefault("assume", Bounded(0, 1))
        return certify_risk(rows, kernel=kernel, contamination=allowed, confidence=confidence, **options)

    def _loss(self) -> Any:
        return MetricHinge() if isinstance(self.loss, str) and self.loss == "auto" else self.loss

    def _codes(self, y: Array) -> Array:
        check_classification_targets(y)
        self._classes, codes = np.unique(y, return_inverse=True)
        if len(self._classes) < 2:
            raise ValueError(f"y has one class only ({self._classes[0]!r}): there is nothing to tell apart")
        return codes

    def _set_metric(self, design: ScaledRows) -> None:
        values, vectors = np.linalg.eigh(self._theta)
        kept = values > 1e-12 * max(values[-1], 1e-300)
        kept[-1] = True
        self.components_ = (vectors[:, kept] * np.sqrt(values[kept].clip(min=0))).T[::-1] / design.scale
        self._n_features_out = len(self.components_)

    def _warn(self, x: Array, targets: Array, plan: Any) -> None:
        super()._warn(x, targets, plan)
        if self._degree == 2:
            warn_of_small_classes(self.contamination, targets, self._classes)

    @property
    def _user_parameters(self) -> tuple[Array, Any]:
        return self.mahalanobis_matrix(), 0.0

    def _theta_of(self, design: ScaledRows, coefficients: Array, intercept: Any) -> Array:
        return coefficients * np.outer(design.scale, design.scale)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
