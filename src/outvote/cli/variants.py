"""The variants of a file, each compared with the baseline: those of all rows, or those of each segment."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.cli.answer import Asked, finite, plain_mean
from outvote.data.columns import Columns, Label
from outvote.estimate.contrast import Contrast, contrast
from outvote.estimate.request import Request
from outvote.votes import VoteName


@dataclass(frozen=True)
class Arm:
    """The rows of one variant, in one segment.

    Attributes
    ----------
    label : str
        The variant.
    rows : ndarray of int
        Their numbers.
    values : ndarray
        Their values; pairs of a denominator and a numerator for ratios.
    covariate : ndarray or None
        Their covariates.
    """

    label: str
    rows: NDArray[np.intp]
    values: NDArray[np.float64]
    covariate: NDArray[np.float64] | None


@dataclass(frozen=True)
class Pairing:
    """Two arms that are compared, and the segment they are of."""

    segment: Label
    baseline: Arm
    other: Arm

    def plain(self, asked: Asked) -> float | None:
        """Return the difference of the plain means, or ratios."""
        a, b = (plain_mean(arm.values, asked.assume) for arm in (self.baseline, self.other))
        return None if a is None or b is None else finite(b - a)

    def contrast(self, asked: Asked, parts: int, *, shown: bool = False) -> Contrast:
        """Compare the two; `parts` comparisons hold at once."""
        # Rows of users were checked before they were added up; what is NaN now is a user whose covariate is not one.
        policy = "corrupt" if asked.unit is not None and asked.nan == "raise" else asked.nan
        request = Request.read(
            asked.contamination, asked.confidence, vote="auto", votes=VoteName, n_samples=2, nan_policy=policy
        )
        request = replace(request, terms=request.terms.shared(parts))
        arms = (self.baseline, self.other)
        metric: dict[str, Any] = {"ratio": asked.ratio is not None}
        if asked.covariate is not None:
            metric |= {"covariate": [arm.covariate for arm in arms], "coefficient": asked.coefficient}
        names = [arm.label for arm in arms]
        return contrast([arm.values for arm in arms], request, asked.assume, names=names, shown=shown, **metric)


def pairings(columns: Columns, asked: Asked, baseline: str | None) -> tuple[list[Pairing], str, int]:
    """Return what is compared, the baseline (the smallest label by default), and how many rows have no variant."""
    by = columns.keys[0]
    groups = {group.label: group.rows for group in columns.groups()}
    left_out = sum(len(rows) for label, rows in groups.items() if None in label)
    groups = {label: rows for label, rows in groups.items() if None not in label}
    labels = list(dict.fromkeys(str(label[0]) for label in groups))
    if len(labels) < 2:
        there = f"the one value {labels[0]!r}" if labels else "no value"
        raise ValueError(f"--by {by} has {there}, but a comparison needs two")
    first = labels[0] if baseline is None else _among(baseline, labels, by)
    found = []
    for segment in dict.fromkeys(label[1:] for label in groups):
        for other in labels:
            keys = (first, *segment), (other, *segment)
            if other != first and all(key in groups for key in keys):
                arms = [_arm(key[0], groups[key], columns, asked) for key in keys]
                found.append(Pairing(segment, *arms))
    if not found:
        raise ValueError(f"--baseline {first!r} has no rows in any segment of {', '.join(columns.keys[1:])}")
    return found, first, left_out


def _arm(label: str | None, rows: NDArray[np.intp], columns: Columns, asked: Asked) -> Arm:
    values = columns.values[rows]
    if asked.ratio is not None:
        values = np.column_stack([columns.more[asked.ratio][rows], values])
    covariate = None if asked.covariate is None else columns.more[asked.covariate][rows]
    return Arm(str(label), rows, values, covariate)


def _among(baseline: str, labels: Sequence[str], by: str) -> str:
    if baseline not in labels:
        near = difflib.get_close_matches(baseline, labels, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"its values are {', '.join(map(repr, labels[:20]))}"
        raise ValueError(f"--baseline {baseline!r} is not a value of {by!r}: {hint}")
    return baseline
