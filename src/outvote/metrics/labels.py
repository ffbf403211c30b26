"""Labels of rows, checked: one for each row, and none missing."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.data.missing import check_rows

Labels = NDArray[Any]


def labels_in(values: Any, name: str, *, missing: bool = False) -> Labels:
    """Return the labels of the rows; refuse rows without one, unless `missing` ones are allowed.

    Examples
    --------
    >>> labels_in([0, None], "y_pred")
    Traceback (most recent call last):
    ValueError: y_pred has no label in 1 of 2 rows (the first is row 1): leave them out
    """
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: leave out the rows whose label is masked")
    try:
        labels = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} is ragged: give one label for each row") from None
    if labels.ndim == 0:
        raise TypeError(f"{name}={values!r} is a single label, but rows are needed: give a list of labels")
    labels = one_column(labels, name)
    check_rows(len(labels), name)
    gaps = np.flatnonzero(are_missing(labels))
    if len(gaps) and not missing:
        raise ValueError(
            f"{name} has no label in {len(gaps)} of {len(labels)} rows (the first is row {gaps[0]}): leave them out"
        )
    return labels


def one_column(values: NDArray[Any], name: str) -> NDArray[Any]:
    """Return values with one row each; refuse several in a row."""
    if values.ndim > 1 and values.shape != (len(values), 1):
        raise ValueError(f"{name} has shape {values.shape}: give one value for each row")
    return values.reshape(-1)


def are_missing(labels: Labels) -> NDArray[np.bool_]:
    """Return which labels are None, NaN or the like.

    Examples
    --------
    >>> are_missing(np.array([None, "a", np.nan], dtype=object))
    array([ True, False,  True])
    """
    if labels.dtype.kind == "O":
        return np.fromiter(map(_is_missing, labels.tolist()), dtype=bool, count=len(labels))
    return np.asarray(labels != labels)


def _is_missing(label: Any) -> bool:
    try:
        return label is None or type(label).__name__ == "NAType" or bool(label != label)
    except ArithmeticError:  # a signalling NaN of decimal
        return True


def classes_of(labels: Labels, given: Any = None) -> Labels:
    """Return the classes, sorted: those given, or those that there are."""
    if given is not None:
        classes = np.asarray(given)
        if classes.ndim != 1 or not len(classes) or not np.array_equal(classes, distinct(classes, "labels")):
            raise ValueError(f"labels={given!r} must be the classes, sorted and each once, as in [0, 1]")
        return classes
    return distinct(labels, "y_true")


def distinct(labels: Labels, name: str) -> Labels:
    """Return the labels that there are, sorted."""
    try:
        return np.unique(labels)
    except TypeError:
        raise TypeError(f"{name} mixes labels of several kinds, such as text and numbers: convert them first") from None
