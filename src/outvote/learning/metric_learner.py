"""Metric learning: a Mahalanobis distance that is small inside a class and large across classes."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from outvote.blocks.plan import BlockPlan
from outvote.kernels.kernel import Kernel
from outvote.learning.arrays import Array
from outvote.learning.checks import check_classes, classes_in, one_label_each, refuse_masks, refuse_tiny
from outvote.learning.fit import Fit, Task
from outvote.learning.learner import HeldOutRisk, RobustLearner
from outvote.learning.losses import DistanceHinge, MetricHinge, loss_of
from outvote.learning.losses.common import square_norm
from outvote.learning.parameters import documented
from outvote.learning.products import product
from outvote.learning.robustness_warnings import warn_of_small_classes
from outvote.learning.scaling import ScaledRows


@documented
class RobustMetricLearner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RobustLearner):  # type: ignore[misc]
    """Learn a distance d²_M(x, x') = (x - x')ᵀM(x - x') that tells classes apart, although some rows are corrupt.

    The loss of a pair is max(0, 1 + y_ij·(d²_M - 2)), y_ij = +1 inside a class and -1 across; M stays positive
    semi-definite.

    Parameters
    ----------
    loss : "auto" or PairLoss
        The loss above, or another loss of pairs of transformed rows.
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

    #: With steps of 0.1 a metric has often not arrived when the epochs are over.
    _presets: ClassVar[dict[str, Any]] = {"step_size": 0.3}

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
        refuse_masks(pairs=pairs, alike=alike)
        self._check_flags()
        with np.errstate(over="ignore", invalid="ignore"):
            both = check_array(pairs, allow_nd=True, dtype=np.float64)
        if both.ndim != 3 or both.shape[1] != 2:
            raise ValueError(f"pairs has shape {both.shape}, but (n_pairs, 2, n_features) is needed")
        signs = column_or_1d(alike)
        if len(signs) != len(both) or not np.isin(signs, (-1, 1)).all():
            raise ValueError("alike must hold +1 or -1 for each pair")
        signs = signs.astype(np.float64)
        if np.ptp(signs) == 0:
            raise ValueError(f"alike is constant ({signs[0]:g}): there is nothing to tell apart")
        with np.errstate(over="ignore", invalid="ignore"):
            x = validate_data(self, both[:, 0], dtype=[np.float64, np.float32])
            gaps = x - both[:, 1]
        if not np.isfinite(gaps).all():
            raise ValueError("pairs holds rows that differ by more than the largest float: divide all by 10")
        refuse_tiny(gaps, "pairs[:, 0] - pairs[:, 1]")
        Fit.of(self, Task(gaps, signs, DistanceHinge(), centred=False)).run()
        return self

    def transform(self, X: Any) -> Array:
        """Return the rows in coordinates in which the learnt distance is the ordinary one."""
        x = self._read(X)
        return product(x, self.components_.T)

    def mahalanobis_matrix(self) -> Array:
        """Return M, in the units of the input."""
        check_is_fitted(self)
        return self.components_.T @ self.components_

    def pair_distance(self, pairs: Any) -> Array:
        """Return the learnt distance of each pair, for pairs of shape (n_pairs, 2, n_features)."""
        check_is_fitted(self)
        refuse_masks(pairs=pairs)
        both = check_array(pairs, allow_nd=True, dtype=np.float64)
        if both.ndim != 3 or both.shape[1:] != (2, self.n_features_in_):
            raise ValueError(f"pairs has shape {both.shape}, but (n_pairs, 2, {self.n_features_in_}) is needed")
        return np.sqrt(square_norm((both[:, 0] - both[:, 1]) @ self.components_.T))

    def _task(self, X: Any, y: Any, reset: bool = True) -> Task:
        x, y = self._check_rows(X, y, reset, ensure_min_samples=2)
        check_classes(y)
        self._classes, codes = classes_in(y)
        if len(self._classes) < 2:
            raise ValueError(f"y has one class only ({self._classes[0]!r}): there is nothing to tell apart")
        return Task(x, codes, loss_of(self.loss, {"auto": MetricHinge}, 2))

    def _held_out_risk(self, X: Any, y: Any, loss: str) -> HeldOutRisk:
        points = self.transform(X)
        codes = classes_in(one_label_each(y, points))[1]
        rows = np.column_stack([points, codes])

        def margins(a: Array, b: Array) -> Array:
            return np.where(a[..., -1] == b[..., -1], 1.0, -1.0) * (square_norm(a[..., :-1] - b[..., :-1]) - 2)

        if loss == "training":
            kernel = Kernel(lambda a, b: np.maximum(1 + margins(a, b), 0.0), (2,), None, True, "loss")
            return HeldOutRisk((rows,), kernel)
        wrong = Kernel(lambda a, b: margins(a, b) > 0, (2,), (0.0, 1.0), True, "wrong side")
        return HeldOutRisk((rows,), wrong, bounded=True)

    def _set_parameters(self, design: ScaledRows, targets: Array) -> None:
        values, vectors = np.linalg.eigh(self._theta)
        kept = values > 1e-12 * max(values[-1], 1e-300)
        kept[-1] = True
        self.components_ = (vectors[:, kept] * np.sqrt(values[kept].clip(min=0))).T[::-1] / design.scale
        self._n_features_out = len(self.components_)

    def _warn(self, task: Task, plans: tuple[BlockPlan, ...], n_corrupt: int) -> None:
        super()._warn(task, plans, n_corrupt)
        if task.loss.degree == 2:  # given pairs have no classes
            warn_of_small_classes(n_corrupt, task.targets, self._classes)

    def _user_parameters(self) -> tuple[Array, Any]:
        return self.mahalanobis_matrix(), 0.0

    def _theta_of(self, design: ScaledRows, coefficients: Array, intercept: Any) -> Array:
        return coefficients * np.outer(design.scale, design.scale)
