"""Pictures of rows: a histogram with the estimate and its interval."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from outvote.data.tensors import to_host
from outvote.data.text import count
from outvote.estimate.result import Histogram
from outvote.plotting.base import COLORS, legend_below, new_axes

if TYPE_CHECKING:
    from outvote.estimate.result import RobustEstimate


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
            several = (np.sort(to_host(one)).astype(np.float64) for one in result.block_values)
            pictures, unit = [Histogram.of(one, np.nan, np.nan) for one in several], "block"
        if isinstance(result.plan.n_rows, tuple) and len(pictures) == 2:
            low, high = (float(end) for end in result.interval)
            numbers = (float(np.asarray(result.estimate)), low, high, float("nan"))
            name, remark = f"b - a, {result.statistic}", _remark(result, 0)
            return cls(pictures[0], *numbers, name, remark, pictures[1], result.centres, unit)
        if not 0 <= column < len(result.pictures):
            kept = len(result.pictures)
            raise ValueError(f"column={column} has no histogram: there are {kept}" + (", from 0 on" if kept else ""))
        estimate, low, high, plain = (
            float(np.ravel(np.asarray(one))[column]) for one in (result.estimate, *result.interval, result.plain)
        )
        name = result.names[column] if result.names else ""
        title = f"{result.statistic} of {name}" if name else result.statistic
        return cls(result.pictures[column], estimate, low, high, plain, title, _remark(result, column))

    def plot(self, ax: Any = None) -> RowsDisplay:
        """Draw it."""
        ax = new_axes(ax)
        if self.other is not None:
            return self._plot_both(ax)
        edges, counts, below, above = self.histogram
        ax.stairs(counts, edges, fill=True, color="#d0d0d0", label="rows")
        bounds = (max(self.low, float(edges[0])), min(self.high, float(edges[-1])))
        ax.axvspan(*bounds, color=COLORS["band"], zorder=0.5, label="interval")
        for end in bounds:
            ax.axvline(end, color=COLORS["robust"], lw=0.8)
        ax.axvline(self.estimate, color=COLORS["robust"], lw=2.0, label=f"estimate {self.estimate:.4g}")
        if self.plain == self.estimate:
            pass  # a quantile has no other estimate that trusts every row
        elif edges[0] <= self.plain <= edges[-1]:
            ax.axvline(self.plain, color=COLORS["plain"], lw=2.0, ls="--", label=f"plain mean {self.plain:.4g}")
        else:
            ax.plot([], [], color=COLORS["plain"], ls="--", label=f"plain mean {self.plain:.4g}, outside the picture")
        hidden = [f"{count(n, 'row')} {side}" for n, side in ((below, "below"), (above, "above")) if n]
        ax.set_xlim(edges[0], edges[-1])
        ax.set_xlabel("value" + (f" ({', '.join(hidden)})" if hidden else ""))
        ax.set_ylabel("rows")
        ax.set_title(f"{self.statistic}: {self.remarks}", fontsize="medium")
        legend_below(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _plot_both(self, ax: Any) -> RowsDisplay:
        """Draw the rows of both samples, and their means."""
        assert self.other is not None
        things = f"{self.unit}s"
        ax.stairs(
            self.histogram.counts, self.histogram.edges, fill=True, color="#d0d0d0", label=f"{things} of a"
        )  # fmt: skip
        ax.stairs(self.other.counts, self.other.edges, color="#303030", lw=1.4, label=f"{things} of b")
        what = self.statistic.partition(" difference of ")[2].removesuffix("s") or "mean"
        for centre, name, style in zip(self.centres, "ab", ("--", "-"), strict=True):
            ax.axvline(centre, color=COLORS["robust"], lw=2.0, ls=style, label=f"{what} of {name}, about {centre:.4g}")
        self._difference_above(ax)
        ax.set_xlabel("value")
        ax.set_ylabel(things)
        ax.set_title(f"{self.statistic}: {self.estimate:.4g}, {self.remarks}", fontsize="medium")
        legend_below(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _difference_above(self, ax: Any) -> None:
        """Draw the interval of the difference, on an axis above that starts at the mean of a."""
        start, relative = (self.centres[0] if self.centres else 0.0), "relative" in self.statistic
        scale = start if relative else 1.0
        if not self.centres or "ratio" in self.statistic or not (scale > 0 and np.isfinite(self.high - self.low)):
            return  # rows and differences have no common axis
        ax.axvspan(
            start + scale * self.low, start + scale * self.high, color=COLORS["band"], zorder=0.5,
            label="interval of b - a, read above",
        )  # fmt: skip
        above = ax.secondary_xaxis("top", functions=(lambda x: (x - start) / scale, lambda d: start + scale * d))
        above.set_xlabel("relative difference from a" if relative else "difference from a", fontsize="small")
        above.tick_params(labelsize="small")


def _remark(result: RobustEstimate, column: int) -> str:
    low, high = (float(np.ravel(end)[column]) for end in result.interval)
    if not np.isfinite(high - low):
        return "no interval"
    return f"between {low:.4g} and {high:.4g}"
