"""Robust metrics of predictions on rows of which some are corrupt: means of losses of rows, and of pairs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outvote.assumptions.assumption import Proportion
from outvote.contamination import Contamination
from outvote.data.rows import read
from outvote.estimate.mean import mean
from outvote.estimate.premise import UnknownScale
from outvote.estimate.result import Interval, RobustEstimate, named
from outvote.estimate.u_statistic import u_statistic
from outvote.kernels.dominance import concordances
from outvote.kernels.kendall import kendall
from outvote.kernels.kernel import Kernel
from outvote.metrics.labels import are_missing, classes_of, labels_in, one_column

Floats = NDArray[np.float64]

#: Probabilities are at least this large; otherwise one sure and wrong prediction would have an infinite loss.
_SMALLEST = float(np.finfo(np.float64).eps)

_CONCORDANCE = Kernel(
    lambda z, w: (1 + np.sign(z[..., 0] - w[..., 0]) * np.sign(z[..., 1] - w[..., 1])) / 2,
    (2,),
    (0.0, 1.0),
    True,
    "concordance",
    columns=2,
    aligned_form=lambda stack: (1 + kendall(stack)) / 2,
    row_sums_form=lambda z: [(len(z) - 1 + concordances(z[:, 0], z[:, 1])) / 2],
)


def mean_or_point(losses: Any, **options: Any) -> RobustEstimate:
    """Return the mean of losses; without an interval where most are equal, as those of a model that is mostly right."""
    try:
        return mean(losses, **options)
    except UnknownScale as error:
        found: RobustEstimate = error.without_interval
        return found


def robust_mean_squared_error(y_true: ArrayLike, y_pred: ArrayLike, **options: Any) -> RobustEstimate:
    """Estimate the mean squared error on clean rows, from rows of which some are corrupt.

    Parameters
    ----------
    y_true, y_pred : array-like
        Targets and predictions.
    **options
        As for :func:`outvote.mean`: `contamination`, `confidence`, `assume` (of the squared errors), `vote`, `rng`, …

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> y = np.random.default_rng(0).normal(size=1000)
    >>> wrong = y.copy()
    >>> wrong[:10] = 1e6
    >>> round(ov.metrics.robust_mean_squared_error(wrong, y + 0.5, contamination=10, rng=0).estimate, 3)
    0.25
    """
    true, predicted = alike(y_true, y_pred)
    with np.errstate(over="ignore", invalid="ignore"):
        losses = (predicted - true) ** 2
    return loss_named("mean squared error", mean_loss(losses, true, predicted, options))


def robust_mean_absolute_error(y_true: ArrayLike, y_pred: ArrayLike, **options: Any) -> RobustEstimate:
    """Estimate the mean absolute error on clean rows; options as for :func:`outvote.mean`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=1000)
    >>> y[:10] = 1e6
    >>> print(robust_mean_absolute_error(y, np.zeros(1000), contamination=10, rng=0))  # doctest: +NORMALIZE_WHITESPACE
    mean absolute error 0.779 ± 0.065 (95 % if the clean rows' sd is at most 0.8; allows for 10 corrupt rows). 10 of
    the 10 rows that may be corrupt are 1 000 000, above 11.8, and are taken to be corrupt; if they are real, the mean
    absolute error is 10 000 ± 11 000 (sd at most 134 000): declare the sd, or allow for fewer.
    """
    true, predicted = alike(y_true, y_pred)
    with np.errstate(over="ignore", invalid="ignore"):
        losses = np.abs(predicted - true)
    return loss_named("mean absolute error", mean_loss(losses, true, predicted, options))


def robust_log_loss(
    y_true: ArrayLike, y_proba: ArrayLike, *, labels: ArrayLike | None = None, **options: Any
) -> RobustEstimate:
    """Estimate the mean of -log P(true class) on clean rows.

    Parameters
    ----------
    y_true : array-like
        Classes.
    y_proba : array-like
        Probability of the second class (1-D), or of each class (2-D), in the order of `labels`.
    labels : array-like, optional
        The classes, sorted; the classes in `y_true` by default.
    **options
        As for :func:`outvote.mean`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> chance = rng.uniform(0.01, 0.99, size=1000)
    >>> y = (rng.random(1000) < chance).astype(int)
    >>> y[:10] = chance[:10] < 0.5
    >>> print(robust_log_loss(y, chance, contamination=10, rng=0))
    log loss 0.517, between 0.445 and 0.577 (95 % if the clean rows' sd is at most 0.661; allows for 10 corrupt rows)
    """
    true, proba = labels_in(y_true, "y_true"), read(y_proba, "y_proba").values.astype(np.float64)
    classes = classes_of(true, labels)
    if proba.ndim == 1:
        proba = np.column_stack([1 - proba, proba])
    if proba.shape != (len(true), len(classes)):
        raise ValueError(
            f"y_proba has shape {proba.shape}, but there are {len(true)} rows and {len(classes)} classes: "
            "give labels= if some class is missing from y_true"
        )
    place = np.searchsorted(classes, true).clip(max=len(classes) - 1)
    unknown = classes[place] != true
    if unknown.any():
        raise ValueError(
            f"y_true has the class {true[unknown].tolist()[0]!r}, which is not among labels={classes.tolist()!r}"
        )
    if not ((proba >= 0) & (proba <= 1)).all():
        raise ValueError("y_proba must hold probabilities between 0 and 1")
    likely = np.clip(proba[np.arange(len(true)), place], _SMALLEST, 1.0)
    return loss_named("log loss", mean_or_point(-np.log(likely), **options))


def robust_accuracy(y_true: ArrayLike, y_pred: ArrayLike, **options: Any) -> RobustEstimate:
    """Estimate the share of clean rows classified correctly: an exact interval, without an assumption.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> y = np.arange(2000) % 2
    >>> print(ov.metrics.robust_accuracy(y, np.where(np.arange(2000) < 300, 1 - y, y), contamination=0.01, rng=0))
    accuracy 0.850, between 0.832 and 0.874 (certified 95 %, allows for 20 corrupt rows)
    """
    true, predicted = labels_of(y_true, y_pred, missing=options.get("nan_policy", "raise") != "raise")
    gaps = are_missing(true) | are_missing(predicted)
    hits: NDArray[Any] = true[~gaps] == predicted[~gaps]
    if gaps.any():
        hits, right = np.full(len(true), np.nan), hits
        hits[~gaps] = right
    return named("accuracy", mean(hits, **{"assume": Proportion(), **options}))


def robust_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    contamination: Any = 0.01,
    **options: Any,
) -> RobustEstimate:
    """Estimate the probability that a clean positive row scores higher than a clean negative row; ties count half.

    Parameters
    ----------
    y_true, y_score : array-like
        Two classes, of which the larger label is positive, and scores.
    contamination : float, int, tuple or Contamination
        How many of all rows may be corrupt; they may all be in one class. A tuple gives the number among the
        negative and among the positive rows.
    **options
        As for :func:`outvote.u_statistic`: `confidence`, `vote`, …

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 1000)
    >>> score = rng.normal(size=2000) + y
    >>> score[:10] = 1e6
    >>> print(robust_auc(y, score, contamination=10))
    auc 0.761, between 0.723 and 0.806 (certified 95 %, allows for 10 and 10 corrupt rows)
    """
    true, score = labels_in(y_true, "y_true"), one_column(read(y_score, "y_score").values, "y_score")
    check_lengths(true, score)
    classes = classes_of(true)
    if len(classes) != 2:
        raise ValueError(f"y_true has {len(classes)} class{'es' * (len(classes) != 1)}: the AUC needs two")
    allowed = Contamination.of(contamination)
    if not isinstance(allowed.amount, tuple):
        count = allowed.count(len(true))
        allowed = Contamination((count, count), allowed.adversary)
    negative, positive = score[true == classes[0]], score[true == classes[1]]
    return u_statistic(negative, positive, kernel="auc", contamination=allowed, **options)


def robust_concordance(y_true: ArrayLike, y_score: ArrayLike, **options: Any) -> RobustEstimate:
    """Estimate the share of pairs of clean rows that the scores put in the right order: (1 + τ)/2; ties count half.

    Options are those of :func:`outvote.u_statistic`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=1000)
    >>> score = y + rng.normal(size=1000)
    >>> score[:10] = -1e6 * y[:10]
    >>> print(robust_concordance(y, score, contamination=10))
    concordance 0.738 ± 0.054 (certified 95 %, allows for 10 corrupt rows)
    """
    true, score = alike(y_true, y_score)
    return u_statistic(np.column_stack([true, score]), kernel=_CONCORDANCE, **options)


def mean_loss(losses: Floats, true: Floats, predicted: Floats, options: dict[str, Any]) -> RobustEstimate:
    """Estimate the mean loss of clean rows; a loss that is not finite is said to be that of its target."""
    bad = np.flatnonzero(~np.isfinite(losses))
    if len(bad) and options.get("nan_policy", "raise") == "raise":
        first = bad[0]
        raise ValueError(
            f"y_true or y_pred has NaN or infinite values, or their loss is too large for a float, in {len(bad)} of "
            f"{len(losses)} rows (the first is row {first}: {true[first]:g} and {predicted[first]:g}): "
            "nan_policy='corrupt' counts such rows as corrupt, nan_policy='omit' leaves out rows with NaN"
        )
    return mean_or_point(losses, **options)


def loss_named(statistic: str, found: RobustEstimate) -> RobustEstimate:
    """Return the estimate of a loss, which cannot be negative, under its name: what is below 0 is cut off."""
    found = named(statistic, found)
    low, high = (float(end) for end in found.interval)
    if not -math.inf < low < 0 <= high:
        return found
    estimate = max(float(found.estimate), 0.0)
    certificate = replace(found.certificate, radius=max(estimate, high - estimate))
    return replace(found, estimate=estimate, interval=Interval(0.0, high), certificate=certificate)


def alike(y_true: Any, y_pred: Any) -> tuple[Floats, Floats]:
    """Return two columns of numbers, checked."""
    true, predicted = (
        read(values, name).values.astype(np.float64) for values, name in ((y_true, "y_true"), (y_pred, "y_pred"))
    )
    true, predicted = (
        values.reshape(-1) if values.ndim == 2 and values.shape[1] == 1 else values for values in (true, predicted)
    )
    if true.ndim != 1 or predicted.ndim != 1:
        raise ValueError(f"y_true and y_pred have shapes {true.shape} and {predicted.shape}: give one number per row")
    check_lengths(true, predicted)
    return true, predicted


def labels_of(y_true: Any, y_pred: Any, *, missing: bool = False) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return two columns of labels; refuse text in one and numbers in the other, which are never equal.

    Examples
    --------
    >>> labels_of(["a", "b"], [0, 1])
    Traceback (most recent call last):
    ValueError: y_true has the label 'a' and y_pred the label 0: text and numbers are never equal, convert one of them
    """
    true, predicted = labels_in(y_true, "y_true", missing=missing), labels_in(y_pred, "y_pred", missing=missing)
    check_lengths(true, predicted)
    known, told = true[~are_missing(true)], predicted[~are_missing(predicted)]
    if len(known) and len(told) and _is_text(known) != _is_text(told):
        raise ValueError(
            f"y_true has the label {known[:1].tolist()[0]!r} and y_pred the label {told[:1].tolist()[0]!r}: text "
            "and numbers are never equal, convert one of them"
        )
    return true, predicted


def _is_text(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind in "US" or (labels.dtype.kind == "O" and all(isinstance(one, str) for one in labels))


def check_lengths(true: NDArray[Any], predicted: NDArray[Any]) -> None:
    """Raise unless there are as many predictions as rows."""
    if len(true) != len(predicted):
        raise ValueError(f"y_true has {len(true)} rows, but the predictions have {len(predicted)}")
