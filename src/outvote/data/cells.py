"""What the text of a cell may stand for: a number, an amount of money, an answer such as yes, or a missing value."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

#: Cells that stand for a missing value, in small letters.
MISSING = ("", "na", "n/a", "n.a.", "nan", "null", "none", "#n/a", "<na>", "-", "–")
#: Cells of a column of answers, and their numbers.
_ANSWERS = {"yes": 1, "y": 1, "ja": 1, "true": 1, "no": 0, "n": 0, "nein": 0, "false": 0}
#: Signs of currencies that may stand before or after an amount.
_SIGN = r"\$|€|£|¥|EUR|USD|GBP|JPY|CHF|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|SGD|HKD"
_AMOUNT = re.compile(rf"[+-]?(?:({_SIGN})\s*[+-]?\d[\d.,]*|\d[\d.,]*\s*({_SIGN}))")
#: Spaces between an amount and its sign: also those that do not break, which Excel writes.
_SPACES = " \t\u00a0\u202f"
#: A number with a decimal comma, and perhaps points between thousands.
_COMMA = r"[+-]?([0-9]+|[0-9]{1,3}(\.[0-9]{3})+)(,[0-9]+)?([eE][+-]?[0-9]+)?"


class Style(NamedTuple):
    """How a column is written: the sign of its currency, and whether its cells are answers such as yes and no."""

    currency: str = ""
    answers: bool = False


def style_of(cells: Iterable[str]) -> Style:
    """Return how a column is written, given some of its cells; a second currency is none that can be read.

    Examples
    --------
    >>> style_of(["$3.50", "4.20", "n/a"]), style_of(["$3.50", "4.20 €"]), style_of(["Yes", "no", ""]).answers
    (Style(currency='$', answers=False), Style(currency='', answers=False), True)
    """
    there = {cell.strip() for cell in cells} - {""}
    signs = {currency_of(cell) for cell in there} - {""}
    words = {cell.lower() for cell in there} - set(MISSING)
    answers = bool(words & _ANSWERS.keys()) and words <= {*_ANSWERS, "0", "1"}
    return Style(signs.pop() if len(signs) == 1 else "", answers)


def currency_of(cell: str) -> str:
    """Return the sign of the currency of an amount; nothing if it has none.

    Examples
    --------
    >>> currency_of("€ 16,26"), currency_of("-5 USD"), currency_of("5 km")
    ('€', 'USD', '')
    """
    found = _AMOUNT.fullmatch(cell)
    return "" if found is None else found[1] or found[2]


def number_of(text: str, decimal: str, style: Style) -> str:
    """Write SQL for the number in a cell, NULL if there is none; `text` is SQL for its trimmed text."""
    answers = _ANSWERS if style.answers else {"true": 1, "false": 0}
    words = " ".join(f"WHEN '{word}' THEN {number}.0" for word, number in answers.items())
    number = _cast(text, decimal)
    if style.currency:
        number = f"coalesce({number}, {_cast(_without(style.currency, text), decimal)})"
    return f"CASE lower({text}) {words} ELSE {number} END"


def text_of(text: str, number: str) -> str:
    """Write SQL for what a cell holds instead of a number or nothing, NULL otherwise."""
    nothing = ", ".join(f"'{one}'" for one in MISSING)
    return f"CASE WHEN {number} IS NULL AND lower({text}) NOT IN ({nothing}) THEN {text} END"


def _cast(text: str, decimal: str) -> str:
    """Write SQL for the number that a text is; a decimal comma becomes a point.

    DuckDB takes 1_0 for 10 and +-1 for -1, which are names or misprints.
    """
    if decimal == ",":
        text = f"CASE WHEN regexp_full_match({text}, '{_COMMA}') THEN replace(replace({text}, '.', ''), ',', '.') END"
    return f"CASE WHEN NOT (contains({text}, '_') OR starts_with({text}, '+-')) THEN TRY_CAST({text} AS DOUBLE) END"


def _without(sign: str, text: str) -> str:
    """Write SQL for an amount without the sign of its currency; what has no sign, or two, is NULL."""
    n = len(sign)

    def rest(start: str) -> str:
        return f"trim({start}, '{_SPACES}')"

    return (
        f"CASE WHEN starts_with({text}, '{sign}') THEN {rest(f'substr({text}, {n + 1})')} "
        f"WHEN starts_with({text}, '-{sign}') THEN '-' || {rest(f'substr({text}, {n + 2})')} "
        f"WHEN ends_with({text}, '{sign}') THEN {rest(f'left({text}, -{n})')} END"
    )
