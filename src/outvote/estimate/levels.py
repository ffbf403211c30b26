"""Estimates for several numbers of corrupt rows, and what they agree on where the number is unknown."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from outvote.data.missing import ContradictionError, MoreCorruptRows
from outvote.data.progress import watched
from outvote.data.text import short
from outvote.estimate.request import Request
from outvote.estimate.result import RobustEstimate


def level_counts(most: int, *, exact_up_to: int = 0, growth: float = 2.0) -> list[int]:
    """Return numbers of corrupt rows from 0 to `most`: each one up to `exact_up_to`, then in geometric steps.

    Examples
    --------
    >>> level_counts(20), level_counts(6, exact_up_to=3, growth=1.5)
    ([0, 1, 2, 4, 8, 16, 20], [0, 1, 2, 3, 4, 6])
    """
    levels = list(range(min(most, exact_up_to) + 1))
    while levels[-1] < most:
        levels.append(min(most, max(levels[-1] + 1, math.floor(levels[-1] * growth))))
    return levels


class Brief(NamedTuple):
    """The numbers of an estimate, without what it takes to account for itself; `premise_sd` has one for each sample."""

    estimate: float
    low: float
    high: float
    radius: float
    premise_sd: tuple[float, ...]
    provenance: str
    statistic: str
    plain: float | None

    @classmethod
    def of(cls, result: RobustEstimate) -> Brief:
        """Return those of a result."""
        if np.ndim(result.estimate):
            raise ValueError("contamination='auto' estimates one column at a time: pass a single one")
        certificate, (low, high) = result.certificate, result.interval
        return cls(
            float(result.estimate),
            float(low),
            float(high),
            float(result.radius),
            tuple(np.ravel(certificate.premise_sd).tolist()) if certificate.premise else (math.nan,),
            certificate.provenance,
            result.statistic,
            None if result.plain_mean is None else float(np.asarray(result.plain_mean)),
        )


def estimate_levels(
    request: Request, levels: Sequence[int], log_delta: float, run: Callable[[Request], RobustEstimate]
) -> tuple[dict[int, Brief], ContradictionError | None]:
    """Estimate for each number of corrupt rows, in each sample; leave out numbers that the rows contradict.

    Also return how they contradict the last of those.
    """
    found, contradiction = {}, None
    brief = getattr(run, "brief", None) or (lambda asked: Brief.of(run(asked)))
    if prepare := getattr(run, "prepare", None):
        prepare(request.at(levels[0], log_delta), levels)
    with watched(levels, "numbers of corrupt rows") as each:
        for level in each:
            try:
                found[level] = brief(request.at(level, log_delta))
            except MoreCorruptRows:
                continue  # the rows themselves say that there are more
            except ContradictionError as error:  # with so few corrupt rows they contradict the assumption
                contradiction = error
    return found, contradiction


def agree(request: Request, n_rows: Sequence[int], run: Callable[[Request], RobustEstimate]) -> RobustEstimate:
    """Estimate; where the number of corrupt rows is left open, by what the levels up to the largest one agree on.

    Each level j (0, 1, 2, 4, … corrupt rows) gives an interval I_j at δ/J. The smallest j for which I_j, …, I_J have
    a point in common is taken, and its estimate moved into that intersection. If j* is the first level that allows
    for the corrupt rows there are, all intervals from j* on hold with probability 1 - δ, so they have the truth in
    common, j ≤ j*, and the answer, which lies in I_{j*} as the truth does, is within 2·t_{j*} of it.
    """
    if request.contamination is not None:
        return run(request)
    log_delta, most = request.terms.log_delta, request.most.count(min(n_rows))
    levels = level_counts(most)
    share = log_delta - math.log(len(levels))
    results, _ = estimate_levels(request, levels, share, run)
    if not results:
        raise ValueError(f"max_contamination={request.most.amount!r}: more rows than that are corrupt for certain")
    low, high, chosen = -math.inf, math.inf, max(results)
    for level in sorted(results, reverse=True):
        lower, upper = max(low, results[level].low), min(high, results[level].high)
        if lower > upper:
            break
        low, high, chosen = lower, upper, level
    widest = _one_premise(run(request.at(max(results), share)), results)
    estimate = min(max(results[chosen].estimate, low), high)
    certificate = replace(
        widest.certificate,
        radius=max(estimate - float(widest.interval.low), float(widest.interval.high) - estimate),
        log_delta=log_delta,
        requested_log_delta=log_delta,
        levels=tuple((level, 2 * one.radius) for level, one in results.items()),
        statement="agreement of levels",
    )
    detail = (
        f"The number of corrupt rows was left open, up to {most}: intervals for {chosen} and more agree. "
        "certificate.levels says how far off the estimate can be for each number of corrupt rows; "
        f"the interval holds for all {most}."
    )
    return replace(widest, estimate=estimate, certificate=certificate, detail=detail)


def _one_premise(widest: RobustEstimate, results: dict[int, Brief]) -> RobustEstimate:
    """Return the result for most corrupt rows, conditional on the smallest sds read off the rows at any level."""
    own, premise = np.ravel(widest.certificate.premise_sd).tolist(), widest.certificate.premise
    known = [one.premise_sd for one in results.values() if len(one.premise_sd) == len(own)]
    least = np.fmin.reduce(np.array([own, *known]))
    if not premise or np.isnan(least).all():
        return widest
    text = ""
    for old, new in zip(own, least.tolist(), strict=True):  # the premise names them in this order
        if math.isfinite(old):
            before, _, premise = premise.partition(short(old))
            text += f"{before}{short(new)}"
    shrunk = least if np.ndim(widest.certificate.premise_sd) else float(least[0])
    return replace(widest, certificate=replace(widest.certificate, premise=text + premise, premise_sd=shrunk))
