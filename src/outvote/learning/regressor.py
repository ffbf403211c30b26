"""Linear regression."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin

from outvote.estimate.result import RobustEstimate
from outvote.learning.arrays import Array
from outvote.learning.checks import range_of, residual_losses
from outvote.learning.fit import Ballots, Task
from outvote.learning.learner import HeldOutRisk, RobustLearner
from outvote.learning.losses import Absolute, Huber, Squared, loss_of
from outvote.learning.n_blocks import is_auto
from outvote.learning.parameters import documented
from outvote.learning.products import product
from outvote.learning.scaling import ScaledRows, robust_centre_and_scale
from outvote.learning.trust import trusted_numbers


@documented
@dataclass(kw_only=True, eq=False, repr=False)
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
        Weights, in the units of the input.
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

    fit_intercept: bool = True
    device: Any = field(default=None, init=False)  # numpy only

    def predict(self, X: Any) -> Array:
        """Return predictions."""
        x = self._read(X)
        return product(x, self.coef_) + self.intercept_

    _certified: ClassVar[tuple[str, ...]] = ("squared", "absolute")

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
        """Bound the risk on clean rows from above, given rows that were not used for the fit and may be corrupt.

        ``loss`` is ``"squared"`` (r²) or ``"absolute"`` (|r|) of the residual, in the units of y. Residuals have no
        bound of their own: state an `assume` for a certified bound. The rest is as in `RobustLearner.certify`.
        """
        return super().certify(X, y, contamination, confidence, loss=loss, **options)

    def _held_out_risk(self, X: Any, y: Any, loss: str) -> HeldOutRisk:
        return HeldOutRisk((residual_losses(self.predict(X), y, squared=loss == "squared"),))

    def _task(self, X: Any, y: Any, reset: bool = True) -> Task:
        x, y = self._check_rows(X, y, reset, y_numeric=True, ensure_min_samples=2)
        y = np.asarray(y, dtype=np.float64)
        if reset:
            self._scale_targets(y)
        known = {"squared": Squared, "absolute": Absolute, "huber": Huber}
        loss = loss_of("squared" if is_auto(self.loss) else self.loss, known, 1)
        targets = (y - self._y_centre) / self._y_scale
        return Task(x, targets, loss, intercept=self.fit_intercept, centred=self.fit_intercept)

    def _trusted(self, ballots: Ballots) -> Array:
        fit = ballots.fit
        x, targets = fit.task.x, fit.task.targets
        voted = np.abs(fit.design.scores(ballots.found.theta) - targets)
        voted[np.isnan(voted)] = np.inf
        return trusted_numbers(x, targets, voted, fit.rows, (ballots.n_corrupt, ballots.n_voting))

    def _scale_targets(self, y: Array) -> None:
        """Set a robust centre and scale of y, so that steps suit any unit."""
        if range_of(y) == 0:
            raise ValueError(f"y is constant ({y[0]:g}): there is nothing to explain")
        self._y_centre, self._y_scale = 0.0, 1.0
        if self._setting("scaling"):
            self._y_centre, self._y_scale = robust_centre_and_scale(y, *self._corrupt_rows((len(y),)))
            self._y_centre *= bool(self.fit_intercept)

    def _set_parameters(self, design: ScaledRows, targets: Array) -> None:
        coefficients, intercept = design.to_user(self._theta)
        self.coef_ = coefficients * self._y_scale
        self.intercept_ = float(intercept * self._y_scale + self._y_centre)

    def _theta_of(self, design: ScaledRows, coefficients: Array, intercept: Any) -> Array:
        return design.from_user(coefficients / self._y_scale, (intercept - self._y_centre) / self._y_scale)
