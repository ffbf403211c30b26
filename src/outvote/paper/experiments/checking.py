"""Helpers for experiments that check statements: a single piece, named tables, findings that hold or do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from outvote.paper.experiments.base import Finding, Piece, Size, Table, Tables


def one_piece(size: Size) -> list[Piece]:
    """Return a single piece for the whole work."""
    return [Piece({})]


def rows_of(name: str, rows: Iterable[dict[str, Any]]) -> Table:
    """Return the records, marked as rows of a table."""
    return [{"table": name, **row} for row in rows]


def tabulate(records: Iterable[dict[str, Any]]) -> Tables:
    """Return the tables that the records name, in the order in which the tables first appear."""
    tables: Tables = {}
    for record in records:
        tables.setdefault(record["table"], []).append({key: cell for key, cell in record.items() if key != "table"})
    return tables


def checked(claim: str, holds: Any, measured: str, why: str = "") -> Finding:
    """Return the finding on a claim; `why` is the reason if it does not hold."""
    return Finding(claim, "holds", measured) if holds else Finding(claim, "does not hold", measured, why)
