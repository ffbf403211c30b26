"""Count the rows of a table, and refuse those that a NaN policy does not allow."""

from __future__ import annotations

from dataclasses import replace

from outvote.data.columns import refuse_all_text, refuse_text
from outvote.estimate.request import Request
from outvote.tables.engine import Engine, Key, Query, Tally
from outvote.tables.plans import usable


def counted(engine: Engine, query: Query, request: Request, *, ids: bool = True) -> dict[Key, Tally]:
    """Count the rows of each group, and apply the NaN policy to the counts."""
    tallies = engine.tally(query, ids=ids)
    if not query.by and not tallies:
        tallies = {(): Tally(0, 0, 0)}
    total = sum(tallies.values(), start=Tally(0, 0, 0))
    total = replace(total, n_infinite=0) if query.infinite else total
    which = ", ".join(map(repr, query.columns))
    if total.example is not None:
        file, row, text = total.example
        if total.n_unreadable == total.n_rows:
            refuse_all_text(query.columns[0], text, str(engine))
        if request.nan_policy != "corrupt":
            refuse_text(", ".join(query.columns), file, row, text, total.n_unreadable, total.n_rows)
    bad = total.n_missing + total.n_infinite
    if request.nan_policy == "raise" and bad:
        raise ValueError(
            f"column {which} has NULL, NaN or infinite values in {bad} of {total.n_rows} rows: "
            "nan_policy='corrupt' counts such rows as corrupt, nan_policy='omit' leaves out rows with NULL or NaN"
        )
    if request.nan_policy == "omit" and total.n_infinite:
        raise ValueError(
            f"column {which} has infinite values, which are not missing, in {total.n_infinite} of {total.n_rows} "
            "rows: nan_policy='corrupt' counts such rows as corrupt"
        )
    if not query.by and usable(tallies[()], request) == 0:
        raise ValueError(f"column {which} has no usable rows: at least one row is needed")
    return tallies
