"""Plot the block values and their vote."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from outvote.data.tensors import to_host
from outvote.plotting.base import COLORS, check_drawable, clipped, interval_label, legend_below, new_axes

if TYPE_CHECKING:
    from outvote.estimate.result import RobustEstimate


@dataclass
class BlocksDisplay:
    """The sorted block values, their median, the plain average, and how far corrupt blocks can move the median.

    Parameters
    ----------
    block_values : ndarray
        One value for each block.
    estimate : float
        Their median.
    plain : float
        Their average.
    n_corrupt : int
        How many block values may be corrupt.
    title, label : str
        Title and name of the horizontal axis.

    Examples
    --------
    >>> import numpy as np, outvote as ov
    >>> from matplotlib.figure import Figure
    >>> x = np.random.default_rng(0).exponential(size=1000)
    >>> display = ov.mean(x, contamination=5, vote="median", rng=0).plot(ax=Figure().subplots())
    >>> type(display).__name__, display.ax_.get_xlabel()
    ('BlocksDisplay', 'mean of a block')
    """

    block_values: NDArray[np.float64]
    estimate: float
    plain: float
    n_corrupt: int
    title: str = ""
    label: str = "block value"
    vote: str = "median"
    interval: tuple[float, float] | None = None
    band: str = "interval of the estimate"
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_estimate(cls, result: RobustEstimate, *, column: int = 0) -> BlocksDisplay:
        """Return the display of a result; `column` picks one of several columns, or one of two samples."""
        plan, values = result.plan, result.block_values
        values = values if isinstance(values, tuple) else to_host(values)
        estimate: Any = to_host(result.estimate)
        plain, corrupt = result.plain, plan.n_corrupt
        label = f"{result.statistic} of a block"
        if isinstance(values, tuple):
            n_columns = len(values)
            _check_column(column, n_columns)
            values, corrupt = values[column], plan.n_corrupt[column]  # type: ignore[index]
            estimate, plain = result.centres[column], plain[column]  # type: ignore[index]
            label = f"mean of a block of sample {'ab'[column]}"
        else:
            _check_column(column, np.size(estimate))
            values = values.reshape(-1, np.size(estimate))[:, column]
            estimate, plain = np.ravel(estimate)[column], np.ravel(plain)[column]  # type: ignore[arg-type]
            label += f" ({result.names[column]})" if result.names and np.ndim(result.estimate) else ""
            if isinstance(corrupt, tuple):
                ks: Any = plan.n_blocks
                clean = np.prod([max(k - c, 0) for k, c in zip(ks, corrupt, strict=True)])
                corrupt = int(values.size - clean) if plan.grid == "full" else sum(corrupt)  # type: ignore[union-attr]
        return cls(
            np.sort(np.ravel(values)),
            float(estimate),
            float(plain),
            int(corrupt),
            title=f"{result.statistic}: {plan}",
            label=label,
            vote=plan.samples[column].vote if isinstance(result.block_values, tuple) else plan.vote,  # type: ignore[union-attr]
            interval=_interval(result, column),
            band=interval_label(result.certificate, column if np.ndim(to_host(result.estimate)) else None),
        )

    def plot(self, ax: Any = None) -> BlocksDisplay:
        """Draw the plot; its axes are in ``ax_`` afterwards."""
        values, n_blocks, corrupt = clipped(self.block_values), len(self.block_values), self.n_corrupt
        ranks = np.arange(1, n_blocks + 1)
        outer = (ranks <= corrupt) | (ranks > n_blocks - corrupt)
        check_drawable(self.estimate, self.block_values[~outer], [] if self.interval is None else self.interval)
        ax = new_axes(ax)
        if self.vote != "median":
            return self._plot_votes(ax, ranks, outer)
        self._band(ax)
        if 0 < 2 * corrupt < n_blocks:
            low, high = values[(n_blocks - 1) // 2 - corrupt], values[n_blocks // 2 + corrupt]
            text = f"range of the median, whatever the values of {corrupt} blocks"
            ax.hlines((n_blocks + 1) / 2, low, high, color=COLORS["robust"], lw=5, alpha=0.5, label=text)
        ax.plot(values[~outer], ranks[~outer], "o", ms=4, color=COLORS["blocks"], label="blocks")
        if outer.any():
            ax.plot(
                values[outer],
                ranks[outer],
                "o",
                ms=4,
                mfc="white",
                mec=COLORS["blocks"],
                label=f"the {corrupt} outermost blocks on each side",
            )
        ax.axvline(self.estimate, color=COLORS["robust"], lw=2, label=f"median {self.estimate:.4g}")
        ax.axvline(clipped(self.plain), color=COLORS["plain"], lw=2, ls="--", label=f"plain average {self.plain:.4g}")
        return self._finish(ax, values[~outer] if (~outer).sum() > 2 else values, outer)

    def _plot_votes(self, ax: Any, ranks: NDArray[np.int64], outer: NDArray[np.bool_]) -> BlocksDisplay:
        """Draw a soft or clipped vote: the sorted values, the estimate and its interval."""
        values = clipped(self.block_values)
        self._band(ax)
        ax.plot(values, ranks, drawstyle="steps-post", color=COLORS["blocks"], lw=1.5, label="sorted values")
        ax.axvline(self.estimate, color=COLORS["robust"], lw=2, label=f"{self.vote} vote {self.estimate:.4g}")
        ax.axvline(clipped(self.plain), color=COLORS["plain"], lw=2, ls="--", label=f"plain average {self.plain:.4g}")
        return self._finish(ax, values[~outer] if (~outer).sum() > 2 else values, outer)

    def _band(self, ax: Any) -> None:
        """Shade the interval that the result prints."""
        if self.interval is not None and np.isfinite(self.interval).all():
            ax.axvspan(*self.interval, color=COLORS["band"], zorder=0, label=self.band)

    def _finish(self, ax: Any, inner: NDArray[np.float64], outer: NDArray[np.bool_]) -> BlocksDisplay:
        self._zoom(ax, inner, outer)
        ax.set(title=self.title, xlabel=self.label, ylabel="rank among the blocks")
        ax.spines[["top", "right"]].set_visible(False)
        legend_below(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _zoom(self, ax: Any, inner: NDArray[np.float64], outer: NDArray[np.bool_]) -> None:
        """If extreme blocks would squeeze the others into a line, show the inner ones and note how many are hidden."""
        values = clipped(self.block_values)
        span = float(inner[-1] - inner[0])
        low = max(inner[0] - span, values[0] - span / 20)
        high = min(inner[-1] + span, values[-1] + span / 20)
        if self.interval is not None and np.isfinite(self.interval).all():
            low, high = min(low, self.interval[0] - span / 20), max(high, self.interval[1] + span / 20)
        hidden = int(((values < low) | (values > high)).sum())
        if span > 0 and hidden:
            ax.set_xlim(low, high)
            beyond = [f"{hidden} block value{'s' * (hidden > 1)}"]
            if not low <= self.plain <= high:
                beyond.append("the plain average")
            ax.annotate(
                "outside the plot:\n" + "\n".join(beyond),
                (0.99, 0.5),
                xycoords="axes fraction",
                ha="right",
                fontsize="small",
                style="italic",
            )


def _interval(result: RobustEstimate, column: int) -> tuple[float, float] | None:
    if isinstance(result.block_values, tuple):
        return None
    low, high = (float(np.ravel(end)[column]) for end in result.interval)
    return low, high


def _check_column(column: int, n_columns: int) -> None:
    if not isinstance(column, numbers.Integral):
        raise TypeError(f"column={column!r} must be an integer")
    if not 0 <= column < n_columns:
        raise ValueError(f"column={column!r} does not exist: there are {n_columns} columns, numbered from 0")
