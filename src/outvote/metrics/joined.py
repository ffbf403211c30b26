"""An estimate that is made of others: shares of classes, ratios, roots."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from outvote.certificate.document import weakest
from outvote.data.arguments import log_delta_of
from outvote.estimate.result import Interval, RobustEstimate


def split(options: dict[str, Any], n_parts: int) -> dict[str, Any]:
    """Return the options of one of several estimates, so that all hold together with the confidence asked for.

    Examples
    --------
    >>> split({"confidence": 0.9}, 2)
    {'confidence': 0.95}
    """
    confidence = options.get("confidence", 0.95)
    log_delta_of(confidence)  # refuses a wrong one by its own value
    return {**options, "confidence": 1 - (1 - confidence) / n_parts}


def joined(
    statistic: str, parts: Sequence[RobustEstimate], form: Callable[..., float], falls: Sequence[int] = ()
) -> RobustEstimate:
    """Return what a function makes of estimates that hold together; it rises in each, but falls in those numbered.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> half = ov.mean(np.arange(100) % 2 == 0, contamination=1)
    >>> joined("root", [half], np.sqrt).estimate.round(2)
    np.float64(0.71)
    """
    ends = [part.interval if at not in falls else part.interval[::-1] for at, part in enumerate(parts)]
    estimate = form(*(float(part.estimate) for part in parts))
    low, high = (form(*(float(end[side]) for end in ends)) for side in (0, 1))
    certificate = weakest([part.certificate for part in parts])
    delta, asked = (
        math.fsum(math.exp(getattr(part.certificate, name)) for part in parts)
        for name in ("log_delta", "requested_log_delta")
    )
    radius = max(high - estimate, estimate - low)
    held = replace(
        certificate, radius=radius, log_delta=math.log(delta), requested_log_delta=math.log(asked), levels=()
    )
    return replace(
        parts[0],
        estimate=estimate,
        interval=Interval(low, high),
        certificate=held,
        statistic=statistic,
        block_values=np.empty(0),
        block_sizes=np.empty(0, dtype=np.intp),
        plain_mean=None,
        pictures=(),
    )
