"""Warnings that a fit may be less robust than it looks."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from outvote.blocks.plan import BlockPlan
from outvote.contamination import Contamination
from outvote.learning.arrays import Array
from outvote.learning.trust import row_keys

#: A row that is repeated at most this often is never worth a warning.
_FEW_COPIES = 4
#: From this share of corrupt rows on, clean rows have been seen to get higher outlier scores than corrupt ones.
_INVERTED = 0.3


class RobustnessWarning(UserWarning):
    """The fit may be less robust than it looks.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np, outvote as ov
    >>> x = np.random.default_rng(0).normal(size=(40, 2))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = ov.RobustRanker(contamination=0.2, random_state=0, max_iter=20).fit(x, x[:, 0])
    >>> print(caught[0].category.__name__, "-", str(caught[0].message)[:20])
    RobustnessWarning - 17 blocks of 2 rows:
    """


def warn_of_blocks(plans: Sequence[BlockPlan]) -> None:
    """Warn of blocks that are too small or too few, and of very many corrupt rows."""
    for plan in plans:
        if plan.n_corrupt and plan.block_size <= 2:
            _warn(
                f"{plan.n_blocks} blocks of {plan.block_size} row{'s' * (plan.block_size > 1)}: a vote of such blocks "
                "says little, and the descent often fails. Fewer blocks (a smaller contamination) or more rows help"
            )
        if not plan.holds:
            _warn(
                f"n_blocks={plan.n_blocks} survives {plan.survives} corrupt rows, but contamination allows "
                f"{plan.n_corrupt}: take more than {2 * plan.n_corrupt} blocks. Good rows may get the higher outlier "
                "scores"
            )
        elif plan.n_corrupt >= _INVERTED * plan.n_rows:
            _warn(
                f"{plan.n_corrupt} of {plan.n_rows} rows may be corrupt: with so many, selection counts and losses are "
                "known to be inverted, so that clean rows look corrupt, and outlier scores say less"
            )


def warn_of_too_few_rows(contamination: Any, n_rows: int) -> None:
    """Warn of so few rows that none of them may be corrupt, although some should."""
    amount = Contamination.of(contamination).amount
    if amount != 0 and amount != (0, 0):
        _warn(f"contamination={amount!r} allows for no corrupt row among {n_rows}: the fit trusts all. More rows help")


def warn_of_copies(x: Array, targets: Array, n_corrupt: int) -> None:
    """Warn of a row that is repeated more often than rows may be corrupt."""
    copies, first = most_copies(x, targets)
    if n_corrupt and copies > max(n_corrupt, _FEW_COPIES) and 2 * copies <= len(x):
        _warn(
            f"row {first} comes {copies} times, more often than the {n_corrupt} corrupt rows that contamination "
            "allows: if these copies are corrupt they can capture the fit. Remove them, or raise contamination"
        )


def warn_of_small_classes(n_corrupt: int, targets: Array, classes: Array, remedy: str = "") -> None:
    """Warn of a class so small that blocks without it can win the vote."""
    sizes = np.unique(targets, return_counts=True)[1]
    if len(sizes) < len(classes):  # a batch that lacks a class says nothing about its share
        return
    small = int(sizes.argmin())
    if n_corrupt and sizes[small] <= 2 * n_corrupt:
        _warn(
            f"class {classes.tolist()[small]!r} has {sizes[small]} of {len(targets)} rows, no more than twice the "
            f"{n_corrupt} that may be corrupt: it can vanish from the fit{remedy}"
        )


def warn_of_lost_class(label: object, then: str) -> None:
    """Warn of a class none of whose rows is trusted, and say what happens then."""
    _warn(f"no row of class {label!r} is trusted: all lie far out, or the other rows contradict them. {then}")


def most_copies(x: Array, targets: Array) -> tuple[int, int]:
    """Return how often the most frequent row (with its target) occurs, and where it occurs first.

    Rows are compared by a random projection first, and in full only where the most frequent projection occurs.
    """
    keys = row_keys(x, targets)
    ordered = np.sort(keys)
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(again):
        return 1, 0
    starts = np.flatnonzero(np.diff(again, prepend=-2) != 1)
    longest = int(np.argmax(np.diff(starts, append=len(again))))
    run = np.flatnonzero(keys == ordered[again[starts[longest]]])
    alike = (x[run] == x[run[0]]).all(axis=1) & (targets[run] == targets[run[0]])
    return int(alike.sum()), int(run[0])


def _warn(message: str) -> None:
    """Warn at the first line outside of outvote."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("outvote."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RobustnessWarning, stacklevel=level)
