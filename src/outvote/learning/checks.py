"""Checks of what learners are given, before scikit-learn sees it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from outvote.data.names import texts_of
from outvote.learning.arrays import Array
from outvote.learning.scaling import SMALLEST


def refuse_masks(**given: Any) -> None:
    """Refuse masked arrays, whose masks scikit-learn ignores.

    Examples
    --------
    >>> refuse_masks(X=[[1.0]])
    >>> refuse_masks(X=np.ma.array([1.0, 2.0], mask=[True, False]))
    Traceback (most recent call last):
    TypeError: X is a masked array: leave out the rows with masked values
    """
    for name, value in given.items():
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(f"{name} is a masked array: leave out the rows with masked values")


def refuse_input(X: Any, y: Any = None) -> None:
    """Refuse masked arrays, and frames with two columns of the same name."""
    refuse_masks(X=X, y=y)
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is not None and len(getattr(X, "shape", ())) == 2:
        texts_of(names, "X")


def refuse_tiny(x: Array, name: str = "X") -> None:
    """Refuse columns whose largest value has no inverse and lacks digits."""
    largest = np.maximum(x.max(axis=0), -x.min(axis=0))
    tiny = np.flatnonzero((largest > 0) & (largest < SMALLEST))
    if len(tiny):
        raise ValueError(
            f"column {tiny[0]} of {name} has no value above {largest[tiny[0]]:.3g}, too small for a float with all its "
            "digits: multiply it by a number that brings it near 1"
        )


def range_of(y: Array) -> float:
    """Return how far apart the smallest and the largest target are; refuse what no float holds."""
    with np.errstate(over="ignore"):
        found = float(np.ptp(y)) if len(y) else 0.0
    if not np.isfinite(found):
        raise ValueError("y spans more than a float holds: divide it by a power of ten first")
    return found


def one_label_each(y: Any, rows: Array, name: str = "y") -> Array:
    """Return one label, or number, for each row."""
    labels: Array = column_or_1d(y)
    if len(labels) != len(rows):
        raise ValueError(f"{name} has {len(labels)} entries for {len(rows)} rows")
    assert_all_finite(labels, input_name=name)
    return labels


def check_classes(labels: Array) -> None:
    """Refuse numbers that are no classes, such as 0.5."""
    with np.errstate(invalid="ignore"):  # of labels that no integer holds
        check_classification_targets(labels)


def generator_of(random_state: Any) -> np.random.RandomState:
    """Return the generator that a `random_state` stands for."""
    try:
        return check_random_state(random_state)
    except (ValueError, TypeError):
        raise ValueError(
            f"random_state={random_state!r} must be an integer from 0 to 2**32 - 1, a RandomState, or None"
        ) from None


def classes_in(labels: Array, name: str = "y") -> tuple[Array, Array]:
    """Return the classes, sorted, and the number of the class of each row.

    Examples
    --------
    >>> classes_in(np.array(["b", "a", "b"]))
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1]))
    """
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        raise TypeError(f"{name} mixes labels of several kinds, such as text and numbers: convert them first") from None
    return classes, codes


def residual_losses(predicted: Any, y: Any, *, squared: bool) -> Array:
    """Return |r|, or r², of each row; a number that is missing or too large stays so, for the estimate to judge."""
    predicted, targets = np.asarray(predicted, dtype=np.float64), column_or_1d(y)
    if len(targets) != len(predicted):
        raise ValueError(f"y has {len(targets)} entries for {len(predicted)} rows")
    if targets.dtype.kind not in "biufO":
        raise TypeError(f"y holds {targets.dtype} values, but real numbers are needed")
    try:
        targets = targets.astype(np.float64)
    except OverflowError:
        raise ValueError("y holds an integer that is too large for a float") from None
    with np.errstate(over="ignore", invalid="ignore"):
        gaps = np.abs(predicted - targets)
        return gaps**2 if squared else gaps
