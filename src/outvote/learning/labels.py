"""Labels of rows held out, compared with those of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import column_or_1d

from outvote.learning.arrays import Array


def known_labels(y: Any, classes: Array, *, all_of_them: bool = False) -> Array:
    """Return labels; refuse them if the model knows none of them, or does not know all if all are needed.

    A label that the model does not know is a row that it gets wrong.

    Examples
    --------
    >>> known_labels([0, 1, 7], np.array([0, 1])).tolist()
    [0, 1, 7]
    >>> known_labels(["0", "1"], np.array([0, 1]))
    Traceback (most recent call last):
    ValueError: y has labels such as '0', which the model does not know: its classes are [0, 1]
    """
    labels: Array = column_or_1d(y)
    listed = set(np.asarray(classes).tolist())
    unknown = [label for label in dict.fromkeys(labels.tolist()) if label not in listed]
    if unknown and (all_of_them or len(unknown) == len(set(labels.tolist()))):
        known = np.asarray(classes).tolist()
        raise ValueError(f"y has labels such as {unknown[0]!r}, which the model does not know: its classes are {known}")
    return labels
