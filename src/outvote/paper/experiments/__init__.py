"""All figures, tables and experiments of the paper, and a few beyond it, one file each."""

from __future__ import annotations

import difflib
import importlib

from outvote.paper.experiments.base import Experiment, Finding, Outcome, Piece, Size

#: The experiments of the paper in its order, then those beyond it.
NAMES = (
    "block-pictures",
    "mappings",
    "table-constants",
    "admissible-outliers",
    "ruin-mean",
    "ruin-median",
    "ruin-variance",
    "mann-whitney",
    "rate",
    "iris-metric",
    "ranking-table",
    "coverage",
    "contamination-sweep",
    "radius",
    "middle-blocks",
    "outlier-scores",
)


def get(name: str) -> Experiment:
    """Return an experiment by its name.

    Examples
    --------
    >>> get("ruin-mean").runs
    500
    """
    if name not in NAMES:
        near = difflib.get_close_matches(name, NAMES, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"the names are {', '.join(NAMES)}"
        raise ValueError(f"no experiment is called {name!r}: {hint}")
    return importlib.import_module(f"outvote.paper.experiments.{name.replace('-', '_')}").EXPERIMENT


__all__ = ["NAMES", "Experiment", "Finding", "Outcome", "Piece", "Size", "get"]
