"""Encode, serialise and parse group labels."""

from __future__ import annotations

import datetime
from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def group_codes(groups: Any) -> tuple[list[Hashable], NDArray[np.intp]]:
    """Return the distinct labels, and the position of each row's label among them."""
    several = list(groups) if isinstance(groups, tuple) else [groups]
    if not several:
        raise ValueError("groups=() is empty: give an array of labels, or a tuple of such arrays")
    found = [_codes(one) for one in several]
    lengths = {len(inverse) for _, inverse in found}
    if len(lengths) > 1:
        raise ValueError(f"groups has keys of different lengths {sorted(lengths)}: give one label per row and key")
    if len(found) == 1:
        return found[0]
    codes, which = np.unique(np.stack([inverse for _, inverse in found]), axis=1, return_inverse=True)
    labels = [values for values, _ in found]
    return [tuple(labels[k][code] for k, code in enumerate(one)) for one in codes.T.tolist()], which.reshape(-1)


def _codes(labels: Any) -> tuple[list[Hashable], NDArray[np.intp]]:
    """Return the distinct labels of one key as Python objects, and the position of each row's label among them."""
    array = np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"groups has shape {array.shape}: give one label for each row, and several keys as a tuple")
    whole = array.dtype.kind in "iu" and len(array) > 0
    if whole and (span := int(array.max()) - (least := int(array.min()))) < 4 * len(array) + 64:
        # Whole numbers close to each other are looked up, and not sorted. Wide ones first: 127 - -128 is no int8.
        wide = array if array.dtype.kind == "u" else array.astype(np.int64)
        places = (wide - wide.min()).astype(np.intp)
        there = np.flatnonzero(np.bincount(places, minlength=span + 1))
        numbers = np.empty(span + 1, dtype=np.intp)
        numbers[there] = np.arange(len(there))
        items: list[Any] = [least + place for place in there.tolist()]
        inverse = numbers[places]
    elif array.dtype.kind in "biufUS":
        values, inverse = np.unique(array, return_inverse=True)
        items = values.tolist()
    else:
        if array.dtype.kind in "mM" and (array == array.astype(f"{array.dtype.kind}8[us]")).all():
            # Units finer than microseconds would turn into integers; days stay days.
            array = array if array.dtype.str.endswith("[D]") else array.astype(f"{array.dtype.kind}8[us]")
        known: dict[Any, int] = {}
        given = list(array) if array.dtype.str.endswith("[ns]") else array.tolist()
        try:
            codes = [known.setdefault(item, len(known)) for item in given]
        except TypeError:
            raise TypeError(
                "groups has labels that cannot be compared: give text, numbers, booleans or dates"
            ) from None
        inverse = np.array(codes, dtype=np.intp)
        items = list(known)
    if any(map(_missing, items)):
        raise ValueError("groups has None or NaN among its labels: every row needs a label")
    return items, inverse.reshape(-1)


def _missing(item: Any) -> bool:
    """Return whether a label is none: None, NaN, or NA of pandas, of which not even this can be asked."""
    try:
        return item is None or bool(item != item)
    except TypeError:
        return True


def write_label(label: Any) -> Any:
    """Return a group's label in a form that JSON keeps without loss."""
    if isinstance(label, tuple):
        return [write_label(one) for one in label]
    if type(label) in (datetime.datetime, datetime.date):
        return {type(label).__name__: label.isoformat()}
    if type(label) not in (str, int, float, bool):
        raise TypeError(f"the group {label!r} cannot be written: labels must be text, numbers, booleans or dates")
    return label


def read_label(written: Any) -> Any:
    """Return the label that `write_label` wrote."""
    if isinstance(written, list):
        return tuple(map(read_label, written))
    if isinstance(written, dict):
        ((kind, text),) = written.items()
        return {"datetime": datetime.datetime, "date": datetime.date}[kind].fromisoformat(text)
    return written
