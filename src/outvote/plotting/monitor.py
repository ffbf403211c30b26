"""Plot the interval of a monitor over its looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote.data.text import spaced
from outvote.plotting.base import COLORS, check_drawable, legend_below, new_axes, span_of

Floats = NDArray[np.float64]


@dataclass
class MonitorDisplay:
    """The interval at every look, against the number of rows so far.

    Parameters
    ----------
    looks : sequence of (n_rows, estimate, low, high, decided)
        What was shown, by ascending number of rows; infinite ends where nothing was bounded.
    label : str
        The name of the vertical axis: the estimated quantity, with its unit.
    bound : float, optional
        The number that the claim compares with, drawn as a reference line.
    claim : str
        The claim, for the legend.
    title, band : str
        Title, and the name of the interval.

    Examples
    --------
    >>> display = MonitorDisplay([(100, 0.5, -1.0, 2.0, None), (200, 0.6, 0.1, 1.1, True)], bound=0.0)
    >>> display.first_decided
    200
    """

    looks: Sequence[Any]
    label: str = "mean"
    bound: float | None = None
    claim: str = ""
    title: str = "The interval at every look"
    band: str = "interval"
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not len(self.looks):
            raise ValueError("looks is empty: there is nothing to draw; ask the monitor for its interval first")

    @property
    def first_decided(self) -> int | None:
        """After how many rows the claim was decided for the first time; None if it was not."""
        return next((look[0] for look in self.looks if look[4] is not None), None)

    def plot(self, ax: Any = None) -> MonitorDisplay:
        """Draw the plot; its axes are in ``ax_`` afterwards."""
        n, estimate, low, high = (np.array([look[i] for look in self.looks], dtype=np.float64) for i in range(4))
        check_drawable(estimate, low, high, [] if self.bound is None else self.bound)
        ax = new_axes(ax, figsize=(7.0, 4.6))
        bottom, top = self._limits(estimate, low, high)
        bounded = np.isfinite(low) | np.isfinite(high)
        if bounded.any():
            ax.fill_between(
                n, np.maximum(low, bottom), np.minimum(high, top), where=bounded, facecolor=COLORS["band"],
                edgecolor=COLORS["robust"], lw=0.8, label=f"{self.band}, valid at every look",
            )  # fmt: skip
        both = np.isfinite(low) & np.isfinite(high)
        marker = "o" if len(n) <= 30 else ""
        ax.plot(n[both], estimate[both], color=COLORS["robust"], lw=2, marker=marker, ms=4, label="estimate")
        if self.bound is not None:
            ax.axhline(
                self.bound, color="black", lw=1.4, ls=":", label=f"claim: {self.claim}" if self.claim else "claim"
            )
        first = self.first_decided
        if first is not None:
            ax.axvline(first, color="#444444", lw=1.4, ls="-.", label=f"decided after {spaced(first)} rows")
        ax.set_ylim(bottom, top)
        ax.set_xlim(left=0, right=float(n.max()) * 1.02)
        ax.xaxis.set_major_formatter(lambda value, _: spaced(value))
        ax.set(title=self.title, xlabel="rows so far", ylabel=self.label)
        ax.spines[["top", "right"]].set_visible(False)
        legend_below(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _limits(self, estimate: Floats, low: Floats, high: Floats) -> tuple[float, float]:
        """Return vertical limits that show the second half of the looks whole; the first ones may be far wider."""
        half = len(estimate) // 2
        shown = np.concatenate([estimate[half:], low[half:], high[half:], [] if self.bound is None else [self.bound]])
        shown = shown[np.isfinite(shown)]
        first, last = (float(shown.min()), float(shown.max())) if shown.size else (0.0, 1.0)
        span = span_of(first, last)
        return first - 0.1 * span, last + 0.1 * span
