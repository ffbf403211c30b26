"""Pictures of rows: a histogram with the estimate and its interval."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from outvote.data.tensors import to_host
from outvote.data.text import count, rounded, spaced
from outvote.estimate.result import Histogram
from outvote.plotting.base import COLORS, check_drawable, interval_label, legend_below, new_axes, new_panels

if TYPE_CHECKING:
    from outvote.estimate.result import RobustEstimate

#: Grey of the rows, darker than the band of an interval.
_ROWS = "#b4b4b4"
#: A bar that is this many times as tall as the next is cut off, so that the others can be seen.
_TOWERS = 5
#: The most columns that are drawn at once.
_PANELS = 12


@dataclass
class RowsDisplay:
    """A histogram of the rows, with exactly the interval that the result prints.

    Parameters
    ----------
    histogram : Histogram
        The rows, counted.
    estimate, low, high : float
        The estimate and the ends of its interval, infinite where there is none.
    plain : float
        The plain mean.
    statistic, remarks : str
        What the title says.
    band, label : str
        Names of the interval in the legend, and of the horizontal axis.
    other : Histogram, optional
        The rows of b, for a difference: both samples are drawn. The axis above starts at the mean of a, and the band on
        it is the interval of the difference.
    centres : tuple of float
        The means of both, for a difference.
    unit : {"row", "block"}
        What is counted.

    Attributes
    ----------
    ax_, figure_ : matplotlib axes and figure
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np, outvote as ov, matplotlib.pyplot as plt
    >>> display = ov.mean(np.random.default_rng(0).normal(size=500)).plot()
    >>> display.ax_.get_ylabel()
    'rows'
    >>> plt.close(display.figure_)
    """

    histogram: Histogram
    estimate: float
    low: float
    high: float
    plain: float
    statistic: str
    remarks: str
    band: str = "interval"
    label: str = "value"
    other: Histogram | None = None
    centres: tuple[float, ...] = ()
    unit: str = "row"
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_estimate(cls, result: RobustEstimate, *, column: int = 0) -> RowsDisplay:
        """Take one column of a result without blocks."""
        pictures, unit = result.pictures, "row"
        if result.partition is not None and isinstance(result.block_values, tuple):
            ordered = (np.sort(to_host(one)).astype(np.float64) for one in result.block_values)
            pictures, unit = [Histogram.of(one, np.nan, np.nan) for one in ordered], "block"
        if isinstance(result.plan.n_rows, tuple) and len(pictures) == 2:
            low, high = (float(end) for end in result.interval)
            numbers = (float(np.asarray(result.estimate)), low, high, float("nan"))
            label = result.names[0] if result.names and len(result.names) == 1 else "value"
            return cls(pictures[0], *numbers, f"b - a, {result.statistic}", _remark(*numbers[:3]),
                       interval_label(result.certificate), label, pictures[1], result.centres, unit)  # fmt: skip
        if not pictures:
            raise ValueError(f"a result for {result.statistic} has no picture of rows: print it, or plot the samples")
        if not 0 <= column < len(pictures):
            raise ValueError(f"column={column} has no histogram: there are {len(pictures)}, from 0 on")
        estimate, low, high, plain = (
            float(np.ravel(to_host(one))[column]) for one in (result.estimate, *result.interval, result.plain)
        )
        title, label = result.statistic, "value"
        if result.names and title == "quantiles":
            title = f"quantile {result.names[column]}"
        elif result.names:
            title, label = f"{title} of {result.names[column]}", result.names[column]
        elif len(pictures) > 1:
            title = f"{title} of column {column}"
        several = np.ndim(to_host(result.estimate)) > 0
        band = interval_label(result.certificate, column if several else None)
        return cls(pictures[column], estimate, low, high, plain, title, _remark(estimate, low, high), band, label)

    def plot(self, ax: Any = None) -> RowsDisplay:
        """Draw it."""
        edges_of_b: Any = [] if self.other is None else self.other.edges
        check_drawable(self.histogram.edges, edges_of_b, self.estimate, self.low, self.high, self.centres)
        ax = new_axes(ax)
        if self.other is not None:
            return self._plot_both(ax)
        edges, counts, below, above = self.histogram
        ax.stairs(counts, edges, fill=True, color=_ROWS, label="rows")
        self._interval(ax, self.low, self.high, (float(edges[0]), float(edges[-1])), self.band)
        best = rounded(self.estimate, self._radius)
        ax.axvline(self.estimate, color=COLORS["robust"], lw=2.0, label=f"estimate {best}")
        plain = f"plain mean {rounded(self.plain, self._radius)}"
        if self.plain == self.estimate:
            pass  # a quantile has no other estimate that trusts every row
        elif edges[0] <= self.plain <= edges[-1]:
            ax.axvline(self.plain, color=COLORS["plain"], lw=2.0, ls="--", label=plain)
        else:
            ax.plot([], [], color=COLORS["plain"], ls="--", label=f"{plain}, outside the picture")
        sides = ((below, "left"), (above, "right"))
        hidden = [f"{count(n, 'row')} beyond the {side} edge" for n, side in sides if n]
        ax.set_xlim(edges[0], edges[-1])
        ax.set_xlabel(self.label + (f" ({', '.join(hidden)})" if hidden else ""))
        ax.set_ylabel("rows")
        *_, third, second, most = np.sort(counts).tolist()
        if third and most > _TOWERS * second:
            ax.set_ylim(0, 2 * second)
            ax.set_ylabel(f"rows (of the tallest bar {spaced(most)}: cut off)")
        ax.set_title(f"{self.statistic}: {self.remarks}", fontsize="medium")
        legend_below(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @property
    def _radius(self) -> float | None:
        """How far the ends are from the estimate, which says how many digits matter."""
        sides = [side for side in (self.high - self.estimate, self.estimate - self.low) if np.isfinite(side)]
        return sum(sides) / len(sides) if sides else None

    def _interval(self, ax: Any, low: float, high: float, ends: tuple[float, float], label: str) -> None:
        """Shade an interval between the ends of the picture, with a line at each of its own ends."""
        if not (np.isfinite(low) or np.isfinite(high)):
            return
        ax.axvspan(max(low, ends[0]), min(high, ends[1]), color=COLORS["band"], zorder=0.5, label=label)
        for end in (low, high):
            if np.isfinite(end):
                ax.axvline(end, color=COLORS["robust"], lw=0.8)

    def _plot_both(self, ax: Any) -> RowsDisplay:
        """Draw the rows of both samples, and their means."""
        assert self.other is not None
        things = f"{self.unit}s"
        ax.stairs(self.histogram.counts, self.histogram.edges, fill=True, color=_ROWS, label=f"{things} of a")
        ax.stairs(self.other.counts, self.other.edges, color="#303030", lw=1.4, label=f"{things} of b")
        what = self.statistic.partition(" difference of ")[2].removesuffix("s") or "mean"
        for centre, name, style in zip(self.centres, "ab", ("--", "-"), strict=True):
            ax.axvline(centre, color=COLORS["robust"], lw=2.0, ls=style, label=f"{what} of {name}, about {centre:.4g}")
        self._difference_above(ax)
        ax.set_xlabel(self.label)
        ax.set_ylabel(things)
        ax.set_title(f"{self.statistic}: {self.remarks}", fontsize="medium")
        legend_below(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _difference_above(self, ax: Any) -> None:
        """Draw the interval of the difference, on an axis above that starts at the mean of a."""
        start, relative = (self.centres[0] if self.centres else 0.0), "relative" in self.statistic
        scale = start if relative else 1.0
        if not self.centres or "ratio" in self.statistic or not (scale > 0 and np.isfinite(self.high - self.low)):
            return  # rows and differences have no common axis
        ends = (start + scale * self.low, start + scale * self.high)
        self._interval(ax, *ends, (-np.inf, np.inf), f"{self.band}, of b - a, read above")
        above = ax.secondary_xaxis("top", functions=(lambda x: (x - start) / scale, lambda d: start + scale * d))
        above.set_xlabel("relative difference from a" if relative else "difference from a", fontsize="small")
        above.tick_params(labelsize="small")


def plot_columns(result: RobustEstimate) -> RowsDisplay:
    """Draw each column in a panel of its own, the first dozen of many; return the display of the first."""
    n_columns = min(len(result.pictures), _PANELS)
    panels = new_panels(-(-n_columns // 2), min(n_columns, 2), panel=(6.0, 4.0))
    displays = [RowsDisplay.from_estimate(result, column=j).plot(panel) for j, panel in enumerate(panels[:n_columns])]
    for panel in panels[n_columns:]:
        panel.set_visible(False)
    return displays[0]


def _remark(estimate: float, low: float, high: float) -> str:
    """Write an estimate with its interval, with the digits that matter."""
    if np.isfinite(high - low):
        return "{}, between {} and {}".format(*(rounded(one, (high - low) / 2) for one in (estimate, low, high)))
    for end, word in ((high, "at most"), (low, "at least")):
        if np.isfinite(end):
            return f"{estimate:.4g}, {word} {end:.4g}"
    return f"{estimate:.4g}, no interval"
