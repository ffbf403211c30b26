"""Figures of the report: SVG inside the page, with colours from the style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from outvote.cli.answer import Value
from outvote.cli.mean import MeanLine
from outvote.cli.printing import clean
from outvote.data.text import spaced
from outvote.estimate.curve import Curve

#: Width of all figures, and their left and right margins.
WIDTH, LEFT, RIGHT = 420, 46, 12
#: A plain mean farther away than this many times the width of the intervals is drawn as an arrow at the edge.
_FAR = 2.0
#: Blocks farther from the median than this many times the median distance are counted, not drawn.
_WIDE = 7.0
_BARS = 40
#: A bar that is this many times as tall as the next is cut off, so that the others can be seen.
_TOWERS = 5
#: Intervals wider than this many times those near the number assumed are cut off.
_TALL = 3.0


def differences(names: Sequence[str], values: Sequence[Value]) -> str:
    """Draw differences with their intervals on one axis, and a line at 0."""
    ends = [end for one in values for end in (one.low, one.high, one.estimate) if end is not None]
    across = _Scale(min([0.0, *ends]), max([0.0, *ends]), LEFT, WIDTH - RIGHT)
    parts, y = [], 16.0
    for name, value in zip(names, values, strict=True):
        parts.append(f'<text x="0" y="{y:.0f}" class="name">{escape(name)}</text>')
        y += 14
        parts += _interval(across, value, y)
        y += 20
    zero = f'<path class="bound" d="M{across(0.0):.1f} 4V{y:.0f}"/>'
    return _picture("Differences with their intervals, and a line at 0", y + 16, [*_bottom(across, y), zero, *parts])


def _interval(across: _Scale, value: Value, y: float) -> list[str]:
    """Draw an estimate with its interval, if there is one."""
    if value.low is None or value.high is None or value.estimate is None:
        return [f'<text x="{across.start:.0f}" y="{y + 4}">no interval</text>']
    a, b, c = (across(one) for one in (value.low, value.high, value.estimate))
    return [
        f'<path class="robust" d="M{a:.1f} {y}H{b:.1f}M{a:.1f} {y - 4}v8M{b:.1f} {y - 4}v8"/>'
        f'<circle class="robust dot" cx="{c:.1f}" cy="{y}" r="4"/>'
    ]


def groups(lines: Sequence[MeanLine]) -> str:
    """Draw plain and robust means of groups, with their intervals."""
    known = [line.mean for line in lines if line.mean.low is not None and line.mean.high is not None]
    ends = [end for one in known for end in (one.low, one.high) if end is not None]
    plains = [line.plain for line in lines if line.plain is not None]
    low, high = (min(ends), max(ends)) if ends else (min(plains, default=0.0), max(plains, default=1.0))
    room = _FAR * (high - low)
    near = [one for one in plains if low - room <= one <= high + room]
    across = _Scale(min([low, *near]), max([high, *near]), LEFT, WIDTH - RIGHT - 14)
    parts, y = [], 16.0
    for line in lines:
        name = ", ".join(map(_text, line.group)) if line.group else "all rows"
        parts.append(f'<text x="0" y="{y:.0f}" class="name">{name}</text>')
        y += 14
        parts += _interval(across, line.mean, y)
        if line.plain is not None:
            x = across(min(max(line.plain, across.low), across.high))
            if across.low <= line.plain <= across.high:
                shape = f"M{x:.1f} {y - 5}l5 5l-5 5l-5 -5z"
            else:
                side = 8 if line.plain > across.high else -8
                shape = f"M{x + side:.1f} {y}l{-side} -5v10z"
                parts.append(
                    f'<text x="{x:.1f}" y="{y - 8}" class="{"end" if side > 0 else ""}">{line.plain:.4g}</text>'
                )
            parts.append(f'<path class="plain dot" d="{shape}"/>')
        y += 20
    return _picture(
        "Plain and robust mean of each group, with the interval of the robust one",
        y + 16,
        [*_bottom(across, y), *parts],
    )


def curve(one: Curve, place: int, name: str) -> str:
    """Draw estimate and interval against the number of corrupt rows, and a line at the number assumed."""
    first, last = int(one.stops[0]), int(one.stops[-1])
    across, height = _Scale(first, max(last, first + 1), LEFT, WIDTH - RIGHT), 194
    shown = np.isfinite(one.low) & np.isfinite(one.high)
    near = shown & (one.stops <= 1.3 * max(one.assumed, one.stands or 0, one.certain + 4))
    if near.any():  # all of the band, unless that would make what is near too small to see
        near = shown & (one.high - one.low <= _TALL * (one.high - one.low)[near].max())
    ends = [*one.low[near], *one.high[near], one.bound]
    up = _Scale(min(ends), max(ends), height - 34, 10)
    parts = [*_bottom(across, height - 34, whole=True), *_side(up)]
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{height - 4}" class="middle">corrupt rows</text>')
    parts.append(f'<svg x="0" y="6" width="{WIDTH}" height="{height - 40}" viewBox="0 6 {WIDTH} {height - 40}">')
    if shown.any():
        x = [across(float(t)) for t in one.stops[shown]]
        top, bottom = (
            [f"{a:.1f} {up.clipped(float(b)):.1f}" for a, b in zip(x, ends[shown], strict=True)]
            for ends in (one.high, one.low)
        )
        middle = [f"{a:.1f} {up.clipped(float(b)):.1f}" for a, b in zip(x, one.estimate[shown], strict=True)]
        parts.append(f'<path class="band" d="M{"L".join([*top, *reversed(bottom)])}z"/>')
        parts.append(f'<path class="robust line" d="M{"L".join(middle)}"/>')
    y = up(one.bound)
    parts.append(f'<path class="bound" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
    if one.stands is not None and one.stands < last:
        x_stands = across(one.stands + 0.5)
        parts.append(f'<path class="turn" d="M{x_stands:.1f} 6V{height - 34}"/>')
    at = across(one.assumed)
    parts.append(
        f'<line class="here" data-place="{place}" x1="{at:.1f}" x2="{at:.1f}" y1="6" y2="{height - 34}"/></svg>'
    )
    return _picture(f"{name}: estimate and interval against the number of corrupt rows", height, parts)


def span(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return from where to where most of the rows lie; if most are equal, most of the others.

    Examples
    --------
    >>> span(np.array([0.0, 0.0, 0.0, 0.0, 2.0, 3.0, 99.0]))
    (0.0, 21.0)
    """
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 0.0
    centre = float(np.median(finite))
    away = np.abs(finite - centre)
    typical = float(np.median(away)) or float(np.median(away[away > 0])) if away.any() else 0.0
    room = _WIDE * typical or max(abs(centre), 1.0) / 2
    low, high = max(float(finite.min()), centre - room), min(float(finite.max()), centre + room)
    return (low - room, high + room) if low == high else (low, high)


def is_binary(values: NDArray[np.float64]) -> bool:
    """Return whether all rows are 0 or 1, where they are numbers."""
    return bool(((values == 0) | (values == 1) | np.isnan(values)).all())


def histogram(
    label: str,
    values: NDArray[np.float64],
    estimate: float,
    plain: float | None,
    ends: tuple[float, float],
    *,
    of: str = "row",
) -> str:
    """Draw a histogram of rows, or of block means, between two ends, with the robust and the plain mean."""
    finite, (low, high) = values[np.isfinite(values)], ends
    inside = finite[(finite >= low) & (finite <= high)]
    below, above = int((finite < low).sum()), int((finite > high).sum())
    bins = 9 if is_binary(finite) else min(_BARS, max(5, math.isqrt(4 * len(finite))))
    counts, _ = np.histogram(inside, bins=bins, range=(low, high))
    across, height = _Scale(low, high, 8, WIDTH - 8, exact=True), 96
    base, wide = height - 20, (WIDTH - 16) / len(counts)
    parts = [f'<text x="0" y="12" class="name">{_text(label)}</text>']
    second, most = np.sort(counts)[-2:].tolist()
    top = 2 * second if most > _TOWERS * second > 0 and bins > 9 else max(1, most)
    for i, count in enumerate(counts.tolist()):
        tall = (base - 22) * min(count / top, 1.0)
        place = f'x="{8 + i * wide:.1f}" y="{base - tall:.1f}"'
        parts.append(f'<rect class="bar" {place} width="{wide - 1:.1f}" height="{tall:.1f}"/>')
    parts += _bottom(across, base)
    x = across(min(max(estimate, low), high))
    parts.append(f'<path class="robust line" d="M{x:.1f} 16V{base}"/>')
    if plain is not None and low <= plain <= high:
        parts.append(f'<path class="plain line" d="M{across(plain):.1f} 16V{base}"/>')
    beyond = [f"{spaced(below)} farther left"] * bool(below) + [f"{spaced(above)} farther right"] * bool(above)
    beyond += [f"the tallest bar has {spaced(most)} {of}s, and is cut off"] * (most > top)
    if beyond:
        parts.append(f'<text x="{WIDTH}" y="12" class="end">{", ".join(beyond)}</text>')
    what = "Block means" if of == "block" else "Rows"
    title = f"{what} of {clean(label)}: {spaced(len(finite))} {of}s, {' and '.join(beyond) or 'all shown'}"
    return _picture(title, height, parts)


class _Scale:
    """A map from numbers to positions in a figure."""

    def __init__(self, low: float, high: float, start: float, end: float, *, exact: bool = False):
        room = 0.0 if exact or isinstance(low, int) else 0.04 * (high - low) or max(abs(low), 1.0) / 10
        self.low, self.high, self.start, self.end = low - room, high + room, start, end

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def clipped(self, value: float) -> float:
        """Return the position of a value, at most one width outside the figure."""
        width = self.high - self.low
        return self(min(max(value, self.low - width), self.high + width))

    def ticks(self, most: int = 6, *, whole: bool = False) -> list[tuple[float, str]]:
        """Return round numbers within the scale, and their labels."""
        step = 10 ** math.floor(math.log10((self.high - self.low) / most))
        step *= next(by for by in (1, 2, 5, 10) if (self.high - self.low) / (by * step) <= most)
        step = max(step, 1) if whole else step
        first, last = math.ceil(self.low / step), math.floor(self.high / step)
        digits = max(0, -math.floor(math.log10(step)))
        large = max(abs(self.low), abs(self.high)) >= 1e7 or digits > 6
        return [
            (i * step, f"{i * step:.4g}" if large else f"{i * step:,.{digits}f}".replace(",", " "))
            for i in range(first, last + 1)
        ]


def _bottom(across: _Scale, y: float, *, whole: bool = False) -> list[str]:
    parts = [f'<path class="axis" d="M{across.start:.0f} {y}H{across.end:.0f}"/>']
    for value, text in across.ticks(whole=whole):
        x = across(value)
        parts.append(
            f'<path class="axis" d="M{x:.1f} {y}v4"/><text x="{x:.1f}" y="{y + 14:.0f}" class="middle">{text}</text>'
        )
    return parts


def _side(up: _Scale) -> list[str]:
    parts = []
    for value, text in up.ticks(5):
        y = up(value)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{y + 4:.1f}" class="end">{text}</text>')
    return parts


def _text(text: str | None) -> str:
    return escape("(none)" if text is None else clean(text))


def _picture(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg class="picture" viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )
