"""Options of metrics, checked before there are predictions."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from outvote.blocks.partition import seed_of
from outvote.data.arguments import check_choice, log_delta_of, whole
from outvote.data.missing import NanPolicy
from outvote.estimate.mean import mean
from outvote.estimate.u_statistic import u_statistic

#: What a metric may be given: the options of the estimates that it is made of.
KNOWN = sorted(
    {*inspect.signature(mean).parameters, *inspect.signature(u_statistic).parameters} - {"x", "samples", "kernel"}
)


def check_options(name: str, options: Mapping[str, Any], more: Iterable[str] = ()) -> None:
    """Refuse an option that no metric has, and what cannot be the value of one.

    Examples
    --------
    >>> check_options("robust_scorer", {"confidnce": 0.9})
    Traceback (most recent call last):
    TypeError: robust_scorer() has no argument 'confidnce': did you mean confidence?
    """
    known = [*KNOWN, *more]
    for option in options:
        if option not in known:
            near = difflib.get_close_matches(option, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
            raise TypeError(f"{name}() has no argument {option!r}: {hint}")
    if "confidence" in options:
        log_delta_of(options["confidence"])
    if "k" in options:
        whole("k", options["k"], 1)
    if "nan_policy" in options:
        check_choice("nan_policy", options["nan_policy"], NanPolicy)
    if not isinstance(options.get("rng"), (np.random.Generator, np.random.SeedSequence)):
        seed_of(options.get("rng"))
