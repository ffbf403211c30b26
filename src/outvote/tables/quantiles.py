"""Quantiles of the groups of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

from outvote.estimate.quantile import quantile, quantile_of_summary
from outvote.estimate.request import Request
from outvote.estimate.result import RobustEstimate
from outvote.estimate.shares import Shares
from outvote.estimate.summary import RowSummary
from outvote.tables.engine import BY_GROUP, Engine, Key, Query
from outvote.tables.evidence import Gathered, table_of
from outvote.tables.gathered import Values, Wanted
from outvote.votes import VoteName

#: The columns of an answer by group, beside the keys, and what they hold; "q" where there are several quantiles.
QUANTILE_ANSWER: dict[str, type] = {"q": float, **BY_GROUP, "note": str}


def quantile_request(settings: Mapping[str, Any]) -> Request:
    """Check the settings that do not depend on the groups."""
    Shares.read(settings["q"])
    given = {name: settings[name] for name in ("contamination", "confidence", "nan_policy", "alternative")}
    return Request.read(**given, vote="auto", votes=VoteName)


def quantile_of_all(engine: Engine, query: Query, found: Gathered, settings: Mapping[str, Any]) -> RobustEstimate:
    """Estimate the quantiles of all rows."""
    if not found.summaries:
        return quantile(found.sample(()), **settings)
    ask = partial(_of_summary, shares=Shares.read(settings["q"]), settings=settings)
    summary = found.summaries[()][0]
    (rows,) = _rows_in_bins(engine, query, {(): summary}, ask)
    return ask(summary, rows_in=lambda _: rows)


def quantiles_by_group(engine: Engine, query: Query, portions: Iterable[Gathered], settings: Mapping[str, Any]) -> Any:
    """Return a table of the quantiles of each group; per-group errors go into the note."""
    shares = Shares.read(settings["q"])
    names = [(float(share),) if shares.several else () for share in shares.each]
    ask = partial(_of_summary, shares=shares, settings=settings)
    lines: dict[Key, list[tuple[Any, ...]]] = {}
    for found in portions:
        summaries = {key: several[0] for key, several in found.summaries.items()}
        rows = dict(zip(summaries, _rows_in_bins(engine, query, summaries, ask), strict=True))
        groups = found.groups
        samples = {key: groups.group(g) for g, key in enumerate(groups.labels)}
        for key in found.labels:
            try:
                if key in samples:
                    answers = _answers(quantile(samples[key], **settings))
                else:
                    answers = _answers(ask(summaries[key], rows_in=lambda _, mine=rows[key]: mine))
            except ValueError as error:
                n_rows = len(samples[key]) if key in samples else summaries[key].n_rows
                answers = [(None, None, None, n_rows, 0, "none", str(error))] * len(shares.each)
            lines[key] = [(*name, *answer) for name, answer in zip(names, answers, strict=True)]
    return table_of(engine, query, lines, QUANTILE_ANSWER, not shares.several)


def _of_summary(summary: RowSummary, *, shares: Shares, settings: Mapping[str, Any], rows_in: Any) -> RobustEstimate:
    simultaneous = settings["simultaneous"]
    return quantile_of_summary(summary, shares, quantile_request(settings), simultaneous=simultaneous, rows_in=rows_in)


def _rows_in_bins(
    engine: Engine, query: Query, summaries: Mapping[Key, RowSummary], ask: Callable[..., Any]
) -> list[Values]:
    """Return the values of the rows of each large group that lie in bins of its ends: the ends are among them."""
    wanted, which = [], []
    for number, summary in enumerate(summaries.values()):
        bins: set[int] = set()

        def note(asked: list[int], summary: RowSummary = summary, bins: set[int] = bins) -> Values:
            bins.update(asked)
            counts = summary.counts_in(asked)
            return np.zeros(len(asked)), counts

        with suppress(ValueError):  # raised again where the answer is written
            ask(summary, rows_in=note)
        if bins:
            assert summary.bins is not None
            wanted.append(Wanted(summary.bins, tuple(sorted(bins))))
            which.append(number)
    found: list[Values] = [(np.empty(0), np.empty(0, dtype=np.int64)) for _ in summaries]
    if wanted:
        labels = list(summaries)
        rows = engine.in_bins(query, [labels[number] for number in which], wanted)
        for number, one in zip(which, rows, strict=True):
            found[number] = one
    return found


def _answers(found: RobustEstimate) -> list[tuple[Any, ...]]:
    """Return the cells of each quantile of one group, in the order of the heads."""
    certificate, plan = found.certificate, found.plan
    corrupt = certificate.levels[-1][0] if certificate.levels else plan.n_corrupt
    rest = (plan.n_rows, corrupt, certificate.provenance, certificate.note)
    ends = zip(*(np.ravel(part).tolist() for part in (found.estimate, *found.interval)), strict=True)
    return [(*numbers, *rest) for numbers in ends]
