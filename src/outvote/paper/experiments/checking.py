"""What experiments share that check statements without drawing runs: one piece, named tables, yes or no."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from outvote.paper.experiments.base import Finding, Piece, Size, Table, Tables


def one_piece(size: Size) -> list[Piece]:
    """Do it all at once."""
    return [Piece({})]


def rows_of(name: str, rows: Iterable[dict[str, Any]]) -> Table:
    """Mark records as rows of a table."""
    return [{"table": name, **row} for row in rows]


def tabulate(records: Iterable[dict[str, Any]]) -> Tables:
    """Sort records into the tables that they name, in the order in which the tables first appear."""
    tables: Tables = {}
    for record in records:
        tables.setdefault(record["table"], []).append({key: cell for key, cell in record.items() if key != "table"})
    return tables


def checked(claim: str, holds: Any, measured: str, why: str = "") -> Finding:
    """Write the finding on a claim that holds or does not; `why` is said where it does not."""
    return Finding(claim, "holds", measured) if holds else Finding(claim, "does not hold", measured, why)
