"""Quantiles of the groups of a table: their rows are brought here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.data.groups import group_codes
from outvote.estimate.quantile import quantile
from outvote.estimate.request import Request
from outvote.estimate.result import RobustEstimate
from outvote.estimate.shares import Shares
from outvote.tables.engine import BY_GROUP, Engine, Key, Query
from outvote.tables.labels import sortable
from outvote.votes import VoteName

#: The columns of an answer by group, beside the keys, and what they hold; "q" where there are several quantiles.
QUANTILE_ANSWER: dict[str, type] = {"q": float, **BY_GROUP, "note": str}


def quantile_request(settings: Mapping[str, Any]) -> Request:
    """Check the settings that do not depend on the groups."""
    Shares.read(settings["q"])
    given = {name: settings[name] for name in ("contamination", "confidence", "nan_policy", "alternative")}
    return Request.read(**given, vote="auto", votes=VoteName)


def rows_by_group(engine: Engine, query: Query) -> dict[Key, NDArray[np.float64]]:
    """Bring the first column here, in groups; without keys there is one group, ()."""
    found: dict[Key, list[NDArray[np.float64]]] = {} if query.by else {(): []}
    for values, keys, _ in engine.rows(query):
        if not query.by:
            found[()].append(values[:, 0])
        elif len(values):
            labels, codes = group_codes(tuple(keys))
            order = np.argsort(codes, kind="stable")
            ends = np.cumsum(np.bincount(codes, minlength=len(labels)))[:-1]
            for label, rows in zip(labels, np.split(values[order, 0], ends), strict=True):
                found.setdefault(label, []).append(rows)
    return {label: np.concatenate(parts) if parts else np.empty(0) for label, parts in found.items()}


def quantile_table(
    engine: Engine, query: Query, groups: Mapping[Key, NDArray[np.float64]], settings: Mapping[str, Any]
) -> Any:
    """Return the quantiles of all rows, or a table of those of each group; per-group errors go into the note."""
    shares = Shares.read(settings["q"])
    if not query.by:
        return quantile(groups[()], **settings)
    lines: list[tuple[Any, ...]] = []
    for key in sorted(groups, key=sortable):
        labels = key if isinstance(key, tuple) and len(query.by) > 1 else (key,)
        try:
            answers = _answers(quantile(groups[key], **settings))
        except ValueError as error:
            answers = [(None, None, None, len(groups[key]), 0, "none", str(error))] * len(shares.each)
        for share, answer in zip(shares.each, answers, strict=True):
            lines.append((*labels, *((float(share),) if shares.several else ()), *answer))
    heads = [*query.by, *(list(QUANTILE_ANSWER)[not shares.several :])]
    return engine.frame({head: [line[i] for line in lines] for i, head in enumerate(heads)}, QUANTILE_ANSWER)


def _answers(found: RobustEstimate) -> list[tuple[Any, ...]]:
    """Return the cells of each quantile of one group, in the order of the heads."""
    certificate, plan = found.certificate, found.plan
    corrupt = certificate.levels[-1][0] if certificate.levels else plan.n_corrupt
    rest = (plan.n_rows, corrupt, certificate.provenance, certificate.note)
    ends = zip(*(np.ravel(part).tolist() for part in (found.estimate, *found.interval)), strict=True)
    return [(*numbers, *rest) for numbers in ends]
