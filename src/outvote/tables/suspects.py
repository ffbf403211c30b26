"""Rows of a table that look corrupt."""

from __future__ import annotations

from typing import Any

import numpy as np

from outvote.contamination import Contamination
from outvote.data.groups import group_codes
from outvote.estimate.suspects import checked_counts, rank
from outvote.tables.engine import Engine, Query

#: What a line holds, after the keys.
SUSPECTS: dict[str, type] = {"row": int, "value": float, "score": float}


def suspects_of(
    engine: Engine, query: Query, contamination: Contamination, top: int, partitions: int, seed: int
) -> Any:
    """Return a table of the most suspect rows of a column, each judged by the rows of its group."""
    top, partitions = checked_counts(top, partitions)
    engine.tally(query, ids=engine.has_ids)
    parts = list(engine.rows(query))
    values = np.concatenate([part[0][:, 0] for part in parts]) if parts else np.empty(0)
    ids = np.concatenate([part[2] for part in parts]) if parts else np.empty(0, dtype=np.int64)
    keys = [np.concatenate([part[1][j] for part in parts]) for j in range(len(query.by))] if parts else []
    order = np.argsort(ids, kind="stable")  # an engine gives rows in any order
    values, ids, keys = values[order], ids[order], [key[order] for key in keys]
    codes = group_codes(tuple(keys))[1] if keys and len(values) else np.zeros(len(values), dtype=np.intp)
    groups = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1]) if len(codes) else []
    found = rank(values, groups, contamination, partitions, seed)
    which = found.first(top) if len(values) else np.empty(0, dtype=np.intp)
    columns: dict[str, list[Any]] = {name: key[which].tolist() for name, key in zip(query.by, keys, strict=False)}
    columns |= {"row": ids[which].tolist(), "value": values[which].tolist(), "score": found.scores[which].tolist()}
    return engine.frame(columns, SUSPECTS)
