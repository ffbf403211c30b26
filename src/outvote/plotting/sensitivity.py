"""Plot the estimate and its interval against the number of corrupt rows assumed."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from outvote.data.text import listed, spaced
from outvote.plotting.base import COLORS, check_drawable, clipped, legend_below, new_axes, span_of

Floats = NDArray[np.float64]

#: Beyond this many corrupt rows the axis shows their square root, in which a radius grows about linearly.
_LINEAR = 20


class SensitivityLike(Protocol):
    """The attributes of a sensitivity result that the plot uses."""

    @property
    def n_corrupt(self) -> Any:
        """Numbers of corrupt rows assumed."""

    @property
    def estimate(self) -> Any:
        """Estimate for each number of corrupt rows."""

    @property
    def low(self) -> Any:
        """Lower end of each interval."""

    @property
    def high(self) -> Any:
        """Upper end of each interval."""

    @property
    def n_rows(self) -> int | tuple[int, ...]:
        """Number of rows, one per sample if there are several."""

    @property
    def statistic(self) -> str:
        """Name of the estimated quantity."""

    @property
    def provenance(self) -> str:
        """Provenance of the intervals: "certified", "plug-in", …"""


@dataclass
class SensitivityDisplay:
    """Estimate and interval against the number of corrupt rows assumed.

    Parameters
    ----------
    n_corrupt : array_like of int
        Numbers of corrupt rows assumed, increasing.
    estimate, low, high : array_like
        Estimate and interval for each number; an infinite end means that there is no bound on that side.
    plain : float, optional
        The estimate if no row is corrupt, drawn as a reference line.
    threshold : float, optional
        The value that decides (0 for the sign of a difference), drawn as a reference line; the first interval that
        contains it is marked.
    label : str
        The name of the vertical axis: the estimated quantity, with its unit.
    n_rows : int or tuple of int, optional
        Number of rows; a single number adds a second axis with the share of rows.
    title, interval, note : str
        Title, the name of the band, and a remark on the horizontal axis.

    Examples
    --------
    >>> display = SensitivityDisplay([0, 5, 10], [2.0, 1.9, 1.8], [1.5, 0.4, -0.6], [2.5, 3.4, 4.2], threshold=0)
    >>> display.reached
    10
    """

    n_corrupt: Any
    estimate: Any
    low: Any
    high: Any
    plain: float | None = None
    threshold: float | None = None
    label: str = "estimate"
    n_rows: int | tuple[int, ...] | None = None
    title: str = "How the estimate depends on the corrupt rows assumed"
    interval: str = "interval"
    note: str = ""
    ax_: Any = field(default=None, init=False, repr=False)
    share_ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("n_corrupt", "estimate", "low", "high"):
            setattr(self, name, np.asarray(getattr(self, name), dtype=np.float64))
            shape = getattr(self, name).shape
            if len(shape) != 1 or shape != self.n_corrupt.shape or not shape[0]:
                raise ValueError(f"{name} has shape {shape}: give one number for each n_corrupt, and at least one")
        if self.n_corrupt[0] < 0 or (np.diff(self.n_corrupt) <= 0).any():
            raise ValueError("n_corrupt must be increasing numbers of at least 0, for instance [0, 5, 10]")

    @classmethod
    def from_sensitivity(
        cls, result: SensitivityLike, *, plain: float | None = None, threshold: float | None = None
    ) -> SensitivityDisplay:
        """Return the display of a result of `sensitivity`; its `plain` is used unless another is given."""
        statistic, left_out = result.statistic, getattr(result, "left_out", ())
        return cls(
            result.n_corrupt,
            result.estimate,
            result.low,
            result.high,
            plain=getattr(result, "plain", None) if plain is None else plain,
            threshold=threshold,
            label=statistic,
            n_rows=result.n_rows,
            title=f"{statistic[:1].upper()}{statistic[1:]} against the corrupt rows assumed",
            interval=f"interval ({result.provenance})",
            note=f"the rows contradict {listed(left_out)}" if left_out else "",
        )

    @property
    def reached(self) -> int | None:
        """The first number of corrupt rows whose interval contains the threshold, or None."""
        if self.threshold is None:
            return None
        holds = (self.low <= self.threshold) & (self.threshold <= self.high)
        return int(self.n_corrupt[holds][0]) if holds.any() else None

    def plot(self, ax: Any = None) -> SensitivityDisplay:
        """Draw the plot; its axes are in ``ax_`` afterwards, and the axes of the shares, if any, in ``share_ax_``."""
        check_drawable(self.estimate, self.low, self.high, [] if self.threshold is None else self.threshold)
        ax = new_axes(ax, figsize=(7.0, 4.8))
        x = self.n_corrupt
        bottom, top = self._limits()
        bounded = np.isfinite(self.low) | np.isfinite(self.high)
        ax.fill_between(
            x,
            np.maximum(self.low, bottom),
            np.minimum(self.high, top),
            where=bounded,
            step="pre",  # between two levels what holds is the interval of the larger one
            facecolor=COLORS["band"],
            edgecolor=COLORS["robust"],
            lw=0.8,
            label=self.interval,
        )
        if not bounded.all():
            start = x[bounded][-1] if bounded.any() else x[0]
            ax.axvspan(
                start, x[-1], facecolor="#e4e4e4", edgecolor="#9a9a9a", hatch="///", lw=0, label="no finite interval"
            )
        marker = "o" if len(x) <= 30 else ""
        ax.plot(
            x, self.estimate, color=COLORS["robust"], lw=2, marker=marker, ms=4, clip_on=False, label="estimate",
            drawstyle="steps-pre",
        )  # fmt: skip
        self._references(ax, bottom, top)
        ax.set_ylim(bottom, top)
        self._horizontal(ax)
        ax.set(title=self.title, ylabel=self.label)
        ax.spines[["top", "right"]].set_visible(False)
        legend_below(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _limits(self) -> tuple[float, float]:
        """Return vertical limits that show estimates, intervals, threshold, and the plain value if it is near."""
        shown = np.concatenate([self.estimate, self.low, self.high])
        if self.threshold is not None:
            shown = np.append(shown, self.threshold)
        shown = shown[np.isfinite(shown)]
        low, high = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 1.0)
        span = span_of(low, high)
        if self.plain is not None and low - span <= self.plain <= high + span:
            low, high = min(low, self.plain), max(high, self.plain)
        return low - 0.06 * span, high + 0.06 * span

    def _references(self, ax: Any, bottom: float, top: float) -> None:
        if self.plain is not None:
            outside = "" if bottom <= self.plain <= top else " (outside the plot)"
            ax.axhline(
                clipped(self.plain),
                color=COLORS["plain"],
                lw=1.8,
                ls="--",
                label=f"plain estimate {self.plain:.4g}{outside}",
            )
        if self.threshold is not None:
            ax.axhline(self.threshold, color="black", lw=1.4, ls=":", label=f"threshold {self.threshold:g}")
        if self.reached is not None:
            ax.axvline(
                self.reached,
                color="#444444",
                lw=1.4,
                ls="-.",
                label=f"first interval that contains it: {self.reached} corrupt",
            )

    def _horizontal(self, ax: Any) -> None:
        """Set the horizontal axes: the number of corrupt rows below, the share of the rows above."""
        first, last = float(self.n_corrupt[0]), float(self.n_corrupt[-1])
        if first == last:
            first, last = max(first - 1, 0.0), last + 1
        wide = last > _LINEAR
        _scale(ax, first, last, wide=wide, text=spaced)
        several = isinstance(self.n_rows, tuple)
        note = f" ({self.note})" if self.note else ""
        ax.set_xlabel("corrupt rows assumed" + ", in each sample" * several + note)
        if isinstance(self.n_rows, numbers.Integral):
            rows, above = int(self.n_rows), ax.twiny()
            _scale(above, first / rows, last / rows, wide=wide, text=lambda share: f"{100 * share:.4g} %")
            above.set_xlabel("share of the rows", fontsize="small")
            above.tick_params(labelsize="small")
            above.spines["right"].set_visible(False)
            self.share_ax_ = above


def _scale(ax: Any, first: float, last: float, *, wide: bool, text: Callable[[float], str]) -> None:
    """Set limits and ticks of an axis, in the square root if `wide`; ticks are round numbers that do not overlap."""
    if wide:
        ax.set_xscale("function", functions=(_root, np.square))
    ax.set_xlim(first, last * 1.02)
    if wide:
        ticks = _round_numbers(first, last)
    else:
        from matplotlib.ticker import MaxNLocator

        found = MaxNLocator(8, steps=[1, 2, 5, 10], integer=last > 1).tick_values(first, last)
        ticks = [tick for tick in map(float, found) if first <= tick <= last]
    ax.set_xticks(ticks, [text(tick) for tick in ticks])


def _root(x: Any) -> Any:
    return np.sqrt(np.maximum(x, 0.0))


def _round_numbers(first: float, last: float) -> list[float]:
    """Return 0 and 1, 2, 5 times powers of ten, thinned from the right until their roots are far enough apart."""
    top = math.floor(math.log10(last))
    candidates = [float(f"{digit}e{power}") for power in range(top, top - 5, -1) for digit in (5, 2, 1)]
    room = 0.075 * (math.sqrt(last) - math.sqrt(first))
    ticks = [0.0] if first == 0 else []
    for tick in candidates:
        if first <= tick <= last and all(abs(math.sqrt(other) - math.sqrt(tick)) >= room for other in ticks):
            ticks.append(tick)
    return sorted(ticks)
