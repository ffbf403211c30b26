"""A descent that diverges raises an error; it is never returned as a fit."""

from __future__ import annotations

import math

import numpy as np

from outvote.learning.arrays import Array

#: A fit is refused when its median risk exceeds that of the start by this factor.
_MOST_RISE = 2.0


class DivergenceError(ArithmeticError, ValueError):
    """The descent went to infinity, or ended with more than twice the risk of its start: there is no fit.

    ``theta`` is the parameter where it ended, in the scaled columns, if it ended there.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> model = ov.RobustRegressor(algorithm="paper", loss="squared", step_size=1e3, random_state=0)
    >>> try:
    ...     model.fit(x, x[:, 0])
    ... except ov.learning.DivergenceError as error:
    ...     print(str(error)[:22])
    the median risk is inf
    """

    theta: Array | None = None


def check_risk(theta: Array, risk: float, epoch: int) -> None:
    """Raise if the median risk of an epoch is not finite."""
    if not math.isfinite(risk):
        raise DivergenceError(
            f"the median risk is {risk} at epoch {epoch} (parameter of length {np.linalg.norm(theta):.3g}): more "
            "blocks are corrupt than the contamination allows, or the step_size is too large"
        )


def check_finite(theta: Array, epoch: int) -> None:
    """Raise if the parameter is not finite."""
    if not np.isfinite(theta).all():
        raise DivergenceError(
            f"the parameter is no longer finite after epoch {epoch}: take a smaller step_size, or "
            "step_rule='normalised', whose steps are bounded"
        )


def check_coefficients(learner: object) -> None:
    """Raise if the coefficients of a fit are too large for a float, as those of columns near the largest one may be."""
    for name in ("coef_", "intercept_", "components_"):
        if not np.isfinite(getattr(learner, name, 0.0)).all():
            raise DivergenceError(
                f"{name} is not finite, because some columns of X are too large or too small: multiply them by a "
                "number that brings them near 1"
            )


def check_progress(before: float, after: float, theta: Array) -> None:
    """Raise if the median risk has more than doubled between the start and the end, `theta`."""
    if not after <= _MOST_RISE * before + 1e-9:
        error = DivergenceError(
            f"the median risk rose from {before:.3g} to {after:.3g}: corrupt rows captured the descent, or its steps "
            "were too large. Allow for more contamination, take a smaller step_size, or use algorithm='robust'"
        )
        error.theta = theta
        raise error
