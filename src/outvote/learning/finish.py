"""Plain fits to the rows that the vote trusts, each by the best solver there is for its loss."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from outvote.learning.arrays import Array
from outvote.learning.losses import Logistic, Loss, PointLoss, Softmax, Squared
from outvote.learning.problem import Problem
from outvote.learning.scaling import ScaledRows
from outvote.learning.trust import standardised

#: Pairs of the finish: so many in all, in blocks of at least so many rows.
_PAIRS, _FEWEST = 2**19, 16
#: Steps of a solver at most, and the gain below which L-BFGS stops.
_MAX_ITER, _GAIN = 500, 1e-5


def can_finish(problem: Problem) -> bool:
    """Return whether there is a solver: for linear scores of rows in memory, without groups."""
    loss, plain = problem.loss, type(problem.design) is ScaledRows
    free = type(loss).project is Loss.project and type(loss).scores is Loss.scores
    return plain and free and all(cell.groups is None for cell in problem.cells)


def finished(problem: Problem, start: Array, trusted: Array, alpha: float, rng: np.random.Generator) -> Array:
    """Return the parameter that minimises the mean loss of the trusted rows, plus alpha/2·‖w‖² on standardised columns.

    Classes, or pairs, that can be told apart without error have no best fit: they take at least alpha = 1/n, which is
    scikit-learn's default.

    Examples
    --------
    >>> from outvote.learning.voting import Cell
    >>> x = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = x @ [2.0, 1.0]
    >>> y[:10] = 1e6
    >>> design = ScaledRows(x, centre=np.zeros(2), scale=np.ones(2))
    >>> problem = Problem(design, y, Squared(), [Cell(samples=(np.arange(200),), n_blocks=1, n_chosen=1)])
    >>> finished(problem, np.zeros(2), y < 100, 0.0, np.random.default_rng(0)).round(6)
    array([2., 1.])
    """
    if problem.loss.degree == 2:
        return _on_pairs(problem, start, trusted, alpha, rng)
    loss, design, intercept = problem.loss, problem.design, problem.design.intercept
    x, targets = design.x, problem.targets
    if not trusted.all():
        x, targets = x[trusted], targets[trusted]
    centre, scale = standardised(x, centred=intercept)
    scaled = ((x - centre) / scale).astype(np.float64, copy=False)
    if loss.targets != "numbers":
        alpha = max(alpha, 1 / len(targets))
    if type(loss) in (Logistic, Softmax):
        weights = _logistic(scaled, targets, alpha, intercept)
    elif type(loss) is Squared:
        weights = _least_squares(scaled, targets, alpha, intercept)
    else:
        own = ScaledRows(x, centre, scale, intercept)
        first = own.from_user(*design.to_user(start))
        weights = _by_slopes(loss, scaled, targets, alpha, intercept, first)
    return design.from_user(*ScaledRows(x, centre, scale, intercept).to_user(weights))


def _logistic(x: Array, targets: Array, alpha: float, intercept: bool) -> Array:
    model = LogisticRegression(C=1 / (alpha * len(targets)), fit_intercept=intercept, max_iter=_MAX_ITER)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the vote judges what came of it
        model.fit(x, targets)
    weights = model.coef_.T if not intercept else np.vstack([model.coef_.T, model.intercept_])
    return weights[:, 0] if weights.shape[1] == 1 else weights


def _least_squares(x: Array, targets: Array, alpha: float, intercept: bool) -> Array:
    middle = targets.mean() if intercept else 0.0
    rows, gaps = x, targets - middle
    if alpha:
        rows = np.vstack([rows, np.sqrt(alpha * len(x)) * np.eye(x.shape[1])])
        gaps = np.concatenate([gaps, np.zeros(x.shape[1])])
    weights = np.linalg.lstsq(rows, gaps, rcond=None)[0]
    return np.append(weights, middle) if intercept else weights


def _by_slopes(loss: Any, x: Array, targets: Array, alpha: float, intercept: bool, start: Array) -> Array:
    """Minimise any loss of single rows by L-BFGS, from its values and slopes."""
    assert isinstance(loss, PointLoss)
    d = x.shape[1]

    def objective(flat: Array) -> tuple[float, Array]:
        weights = flat.reshape(start.shape)
        scores = x @ weights[:d] + (weights[d] if intercept else 0.0)
        slopes = loss.slope(scores, targets) / len(targets)
        gradient = np.zeros(start.shape)
        gradient[:d] = x.T @ slopes + alpha * weights[:d]
        if intercept:
            gradient[d] = slopes.sum(axis=0)
        return float(loss.value(scores, targets).mean() + alpha / 2 * np.square(weights[:d]).sum()), gradient.ravel()

    return _lbfgs(objective, start)


def _on_pairs(problem: Problem, start: Array, trusted: Array, alpha: float, rng: np.random.Generator) -> Array:
    """Minimise the mean loss of pairs by L-BFGS: of all pairs if there are few, else of those inside random blocks."""
    parts, alpha = [], max(alpha, 1 / len(trusted))
    for cell in problem.cells:
        samples = tuple(rows[trusted[rows]] for rows in cell.samples)
        most, least = max(map(len, samples)), min(map(len, samples))
        size = max(_FEWEST, 2 * _PAIRS // sum(map(len, samples)))
        n_blocks = max(1, min(most // size, least // (2 if len(samples) == 1 else 1)))
        cell = replace(cell, samples=samples, n_blocks=n_blocks, n_chosen=n_blocks, clipped=False)
        parts.append((cell, cell.draw(rng)))

    def objective(theta: Array) -> tuple[float, Array]:
        value, gradient = alpha / 2 * float(theta @ theta), alpha * theta
        scores = problem.loss.scores(problem.design, theta)
        for cell, drawn in parts:
            rows = tuple(blocks.rows() for blocks in drawn)
            value += cell.weight * float(cell.risks(problem.loss, scores, problem.targets, drawn).mean())
            gradient = gradient + cell.weight * cell.gradient(
                problem.loss, problem.design, scores, problem.targets, rows
            )
        return value, gradient

    return _lbfgs(objective, start)


def _lbfgs(objective: Any, start: Array) -> Array:
    options = {"maxiter": _MAX_ITER, "ftol": _GAIN, "gtol": 1e-4}
    with np.errstate(all="ignore"):
        found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x).reshape(start.shape)
