"""Keys of groups as Arrow arrays and as text: numbers of groups, and labels of a text file."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Labels in a text file that are integers, without zeros that would be lost.
_INTEGER = re.compile(r"-?[1-9][0-9]{0,17}|0")


class GroupCodes:
    """Finds the number of each row's group, given its keys as Arrow arrays.

    Parameters
    ----------
    numbers : dict of int
        The number of each group, by its keys.
    """

    def __init__(self, numbers: Mapping[tuple[Any, ...], int]):
        self._numbers = numbers
        self._table, self._low = _looked_up(numbers)

    def __call__(self, keys: Sequence[Any]) -> NDArray[np.signedinteger[Any]]:
        """Return the number of each row's group, -1 for rows without one."""
        if self._table is not None:
            own = keys[0].to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
            return self._table.take(own - (self._low - 1), mode="clip")
        places, labels = None, list[tuple[Any, ...]]()
        for key in keys:
            encoded = key.dictionary_encode()
            own, texts = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary.to_pylist()
            if places is None:
                places, labels = own.astype(np.intp), [(text,) for text in texts]
                continue
            pairs, places = np.unique(places * len(texts) + own, return_inverse=True)
            labels = [(*labels[pair // len(texts)], texts[pair % len(texts)]) for pair in pairs.tolist()]
        known = np.array([self._numbers.get(label, -1) for label in labels], dtype=np.intp)
        assert places is not None
        return known[places] if len(known) else np.empty(0, dtype=np.intp)


def _looked_up(numbers: Mapping[tuple[Any, ...], int]) -> tuple[NDArray[np.signedinteger[Any]] | None, int]:
    """Return a table of the numbers of groups whose single key is a whole number, if these are close to each other.

    Also return the smallest. The first entry and the last are for other keys.
    """
    labels = [label[0] for label in numbers if len(label) == 1 and type(label[0]) is int]
    if not labels or len(labels) < len(numbers):
        return None, 0
    low, high = min(labels), max(labels)
    if not -(2**62) < low <= high < min(2**62, low + 16 * len(labels) + 2**16):
        return None, 0
    table: NDArray[Any] = np.full(high - low + 3, -1, dtype=np.int16 if len(numbers) < 2**15 else np.intp)
    table[np.array(labels) - low + 1] = list(numbers.values())
    return table, low


def objects(items: Sequence[Any]) -> NDArray[Any]:
    """Return an array of Python objects."""
    found = np.empty(len(items), dtype=object)
    found[:] = items
    return found


def typed_labels(texts: Sequence[str | None]) -> list[Any]:
    """Return labels of a text file as integers, numbers, booleans or dates if all of them are, each told apart."""
    there = dict.fromkeys(text for text in texts if text is not None)
    truth = {"true": True, "false": False}.__getitem__
    for read in (_whole, _number, truth, datetime.date.fromisoformat, datetime.datetime.fromisoformat):
        try:
            labels = {text: read(text) for text in there}
        except (KeyError, ValueError):
            continue
        if len(set(labels.values())) == len(labels) and all(label == label for label in labels.values()):
            return [None if text is None else labels[text] for text in texts]
    return list(texts)


def _number(text: str) -> float:
    if "_" in text or not math.isfinite(float(text)):
        raise ValueError
    return float(text)


def _whole(text: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError
    return int(text)
