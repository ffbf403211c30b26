"""Numbers and nouns as text: the one place that decides how many digits people see."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence

#: Lines of a table in a notebook.
_MOST_SHOWN = 200


def with_radius(estimate: float, radius: float) -> str:
    """Write an estimate and its radius with the digits that matter.

    Examples
    --------
    >>> with_radius(1.02345, 0.0712), with_radius(1.02345, math.inf)
    ('1.023 ± 0.071', '1.023')
    """
    if not (math.isfinite(radius) and radius > 0):
        return f"{estimate:.4g}"
    if abs(estimate) >= 1e12 or not 1e-11 < radius < 1e12:
        return f"{estimate:.4g} ± {radius:.2g}"
    return f"{rounded(estimate, radius)} ± {rounded(radius, radius)}"


def with_interval(estimate: float, low: float, high: float, sure: str) -> str:
    """Write a number with its interval, and in brackets how sure that is: as ± where both sides are about equal.

    Examples
    --------
    >>> with_interval(1.02, 0.95, 1.09, "95 %"), with_interval(0.11, 0.01, 0.2, "95 %")
    ('1.020 ± 0.070 (95 %)', '0.110 (0.010 to 0.200; 95 %)')
    >>> with_interval(3.0, 2.0, math.inf, "95 %"), with_interval(3.0, -math.inf, math.inf, "95 %")
    ('3 (at least 2; 95 %)', '3')
    """
    half = (high - low) / 2
    if math.isfinite(half):
        if abs((high - estimate) - (estimate - low)) <= 0.04 * half:
            return f"{with_radius(estimate, max(high - estimate, estimate - low))} ({sure})"
        return f"{rounded(estimate, half)} ({rounded(low, half)} to {rounded(high, half)}; {sure})"
    known = [
        f"{word} {rounded(end, None)}" for end, word in ((low, "at least"), (high, "at most")) if math.isfinite(end)
    ]
    return f"{rounded(estimate, None)} ({known[0]}; {sure})" if known else rounded(estimate, None)


def rounded(value: float | None, radius: float | None) -> str:
    """Write a number with the digits that its radius leaves; a dash for no number.

    Examples
    --------
    >>> rounded(1.02345, 0.0712), rounded(12345.6, None), rounded(None, 0.1), rounded(-0.0004, 0.1)
    ('1.023', '12346', '–', '0.00')
    """
    if value is None:
        return "–"
    if radius is None or not 1e-11 < radius < 1e12 or abs(value) >= 1e12:
        return _unsigned_zero(f"{value:.5g}")
    return _unsigned_zero(f"{value:.{max(0, 1 - math.floor(math.log10(radius)))}f}")


def _unsigned_zero(text: str) -> str:
    """Return a number as text without the sign of zero."""
    return text.removeprefix("-") if not text.strip("-0.") else text


def percent(confidence: float, log_delta: float | None = None) -> str:
    """Write a confidence as a percentage with enough digits not to round it up to 100 %.

    Examples
    --------
    >>> percent(0.95), percent(0.9999), percent(1.0, log_delta=-100.0)
    ('95 %', '99.99 %', '1 - 1e-43')
    """
    if log_delta is None:
        log_delta = math.log1p(-confidence) if confidence < 1 else -math.inf
    if log_delta < -12 * math.log(10):
        return f"1 - 1e{log_delta / math.log(10):.0f}" if math.isfinite(log_delta) else "100 %"
    digits = max(6, 2 + math.ceil(-log_delta / math.log(10)))
    return f"{100 * -math.expm1(log_delta):.{digits}g} %"


def share(value: float | None) -> str:
    """Write a share as a percentage with one digit after the point; a dash for none.

    Examples
    --------
    >>> share(0.1234), share(-0.0001), share(None)
    ('12.3 %', '0.0 %', '–')
    """
    return "–" if value is None else f"{_unsigned_zero(f'{100 * value:.1f}')} %"


def spaced(number: float | None) -> str:
    """Write a number with its thousands apart; a dash for none.

    Examples
    --------
    >>> spaced(10_000), spaced(None)
    ('10 000', '–')
    """
    return "–" if number is None else f"{number:,.10g}".replace(",", " ")


def short(number: float, digits: int = 3) -> str:
    """Write a number with so many digits, and its thousands apart.

    Examples
    --------
    >>> short(18168.4, 4), short(-999.0), short(0.012345), short(1e30)
    ('18 170', '-999', '0.0123', '1e+30')
    """
    text = f"{number:.{digits}g}"
    return spaced(float(text)) if 1e3 <= abs(number) < 1e12 else text


def count(number: int, noun: str) -> str:
    """Write a number and its noun.

    Examples
    --------
    >>> count(1, "row"), count(12_000, "row")
    ('1 row', '12000 rows')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def spaced_count(number: int, noun: str) -> str:
    """Write a number with its thousands apart, and its noun.

    Examples
    --------
    >>> spaced_count(12_000, "row")
    '12 000 rows'
    """
    return f"{spaced(number)} {noun}{'' if number == 1 else 's'}"


def ordinal(number: int) -> str:
    """Write the place of a row, with its thousands apart.

    Examples
    --------
    >>> ordinal(1), ordinal(2), ordinal(13), ordinal(2_723)
    ('1st', '2nd', '13th', '2 723rd')
    """
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return f"{spaced(number)}{({1: 'st', 2: 'nd', 3: 'rd'}).get(last, 'th')}"


def listed(words: Iterable[object]) -> str:
    """Join words by commas and "and".

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed([3])
    ('a, b and c', '3')
    """
    *others, last = map(str, words)
    return f"{', '.join(others)} and {last}" if others else last


def html_table(title: str, remarks: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a small table for notebooks; the first cell of a row names it, and whatever the data contain is escaped.

    Of many rows the first are shown, and how many there are.

    Examples
    --------
    >>> html_table("mean", "95 %", ["", "low"], [["<b>", 0.25]]).partition("<tbody>")[2]
    "<tr><th style='text-align:left'>&lt;b&gt;</th><td>0.25</td></tr></tbody></table>"
    """
    lines, rows = [], list(rows)
    for name, *cells in rows[:_MOST_SHOWN]:
        shown = (_unsigned_zero(f"{cell:.6g}") if isinstance(cell, float) else html.escape(str(cell)) for cell in cells)
        inner = "".join(f"<td>{cell}</td>" for cell in shown)
        lines.append(f"<tr><th style='text-align:left'>{html.escape(str(name))}</th>{inner}</tr>")
    if len(rows) > _MOST_SHOWN:
        lines.append(f"<tr><td colspan='{len(heads)}'>… the first {_MOST_SHOWN} of {spaced(len(rows))} lines</td></tr>")
    head = "".join(f"<th>{html.escape(one)}</th>" for one in heads)
    return (
        f"<table><caption style='text-align:left'><b>{html.escape(title)}</b>: {html.escape(remarks)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )
