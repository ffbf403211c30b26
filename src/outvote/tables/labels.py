"""Names of columns, and labels of groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outvote.tables.engine import Key, Tally
from outvote.tables.gathered import sortable


def column_names(given: Any, argument: str) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, (list, tuple)) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{argument}={given!r} must be the name of a column, or a list of names")
    if not names:
        raise ValueError(f"{argument}={given!r} is empty: give at least one column")
    if len(set(names)) < len(names):
        raise ValueError(f"{argument}={given!r} names a column twice")
    return names


def check_one_name(**given: Any) -> None:
    """Refuse an argument that is not the name of one column."""
    for argument, name in given.items():
        if not isinstance(name, str):
            raise TypeError(f"{argument}={name!r} must be the name of one column")


def two_labels(tallies: Mapping[Key, Tally], by: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Return the labels of the two groups that are compared."""
    labels = sorted(tallies, key=sortable)
    shown = ", ".join(map(repr, labels[:10]))
    for name, label in (("a", a), ("b", b)):
        if label is not None and label not in labels:
            raise ValueError(f"{name}={label!r} is not a value of the column {by!r}: its values are {shown}")
    if a is None and b is None:
        if len(labels) != 2:
            raise ValueError(f"the column {by!r} has {len(labels)} values, not two: name a and b among {shown}")
        return labels[0], labels[1]
    if a is None or b is None:
        others = [label for label in labels if label != (b if a is None else a)]
        if len(others) != 1:
            raise ValueError(f"the column {by!r} has {len(labels)} values: name both a and b among {shown}")
        return (others[0], b) if a is None else (a, others[0])
    if a == b:
        raise ValueError(f"a and b are both {a!r}: a difference needs two groups")
    return a, b
