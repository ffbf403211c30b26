"""Plot certified radii against the number of blocks, or against the contamination."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import paper
from outvote.assumptions.assumption import FiniteKurtosis, FiniteVariance
from outvote.blocks.choose import plan_blocks
from outvote.blocks.plan import BlockPlan
from outvote.contamination import Contamination
from outvote.data.arguments import log_delta_of
from outvote.data.text import spaced
from outvote.plotting.base import COLORS, LINES, legend_below, new_axes
from outvote.votes import best_n_blocks, median_radius, sigma_free_factor
from outvote.votes.soft import soft_tuning

Floats = NDArray[np.float64]

#: A curve has about this many points.
_POINTS = 400
#: Up to this block size the steps of ⌊n/K⌋ are wide enough to be visible.
_VISIBLE_STEPS = 60


@dataclass
class RadiusDisplay:
    """Radii against the number of blocks or against the contamination, on a logarithmic axis.

    Parameters
    ----------
    x : ndarray
        Numbers of blocks (K), or shares of corrupt rows (ε).
    radii : dict of ndarray
        Radii at `x`, by the name of the curve; radii that are not finite are not drawn.
    chosen : (float, float), optional
        A number of blocks and its radius; this point is marked.
    barred : int
        Up to this many blocks there is no certificate, because corrupt rows can be in half of them.
    title, xlabel, ylabel : str
        Title and names of the axes.
    xscale : {"linear", "log"}
        Scale of the horizontal axis.

    Examples
    --------
    >>> display = RadiusDisplay.from_plan(1000, contamination=50, confidence=0.99)
    >>> display.chosen[0], display.barred
    (249.0, 100)
    """

    x: Floats
    radii: dict[str, Floats]
    chosen: tuple[float, float] | None = None
    barred: int = 0
    title: str = ""
    xlabel: str = ""
    ylabel: str = "radius"
    xscale: str = "linear"
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_plan(
        cls, n_rows: int, contamination: Any = 0.01, confidence: float = 0.95, assume: Any = None, degree: int = 1
    ) -> RadiusDisplay:
        """Compute the certified radius of the median for odd numbers of blocks, and mark that of `plan_blocks`.

        Parameters
        ----------
        n_rows : int
            Rows of one sample.
        contamination, confidence, assume, degree
            As in `plan_blocks`. Without `assume` the unit is the sd of the clean values.
        """
        allowed = Contamination.of(contamination)
        plan = plan_blocks(n_rows, contamination, confidence, assume, degree)
        if not isinstance(plan, BlockPlan):
            raise TypeError(f"n_rows={n_rows!r} must be one number of rows: the plot shows one sample")
        blocks = _odd_counts(plan.n_rows, 2 * plan.n_corrupt + 1, plan.n_rows // plan.degree, plan.n_blocks)
        assumption = FiniteVariance(1.0) if assume is None else assume
        radii = _median_radii(blocks, plan, assumption, log_delta_of(confidence), allowed.adversary)
        if not np.isfinite(radii).any():
            raise ValueError(f"assume={assume!r} gives no finite radius with n_rows={plan.n_rows}: give more rows")
        values = "rows" if plan.degree == 1 else "kernel values"
        scale = f", in sd of the clean {values}" if assume is None else ""
        if _scale_from_rows(assumption, plan.degree):
            scale = ", in sd estimated from the blocks"
        known = "finite variance" if assume is None else assume.describe()
        return cls(
            blocks,
            {"certified radius of the median": radii},
            chosen=(float(plan.n_blocks), float(radii[blocks == plan.n_blocks][0])),
            barred=2 * plan.n_corrupt,
            title=f"How many blocks? {spaced(plan.n_rows)} rows, at most {spaced(plan.n_corrupt)} corrupt;\n"
            f"{known}; confidence {100 * confidence:.6g} %",
            xlabel="number of blocks K (odd)",
            ylabel=f"certified radius{scale}",
            xscale="log",
        )

    @classmethod
    def over_contamination(cls, n_rows: int = 10_000, confidence: float = 0.99) -> RadiusDisplay:
        """Compute radii for a mean of rows with sd 1 and ε from 0 to 0.45; the adversary is oblivious.

        The curves are the best valid bound of the paper (Prop. `mom`, claim 1, over its four mappings), the
        certified median with its best number of blocks, the soft vote of single rows, and √(ε/(1 - 2ε)),
        which no estimator beats as n grows.

        Parameters
        ----------
        n_rows : int
            Rows.
        confidence : float
            Confidence (1 - δ).
        """
        log_delta, assume = log_delta_of(confidence), FiniteVariance(1.0)
        counts = np.unique(np.floor(0.45 * n_rows * np.linspace(0, 1, 61) ** 2).astype(int)).tolist()

        def by_paper(count: int) -> float:
            bounds = (
                paper.bound("mom", claim=1, n=n_rows, n_outliers=count, log_delta=log_delta, mapping=name, clamp=True)
                for name in paper.MAPPINGS
            )
            return min(float(bound.radius) for bound in bounds)

        def by_median(count: int) -> float:
            (k,) = best_n_blocks([n_rows], [count], log_delta=log_delta, assume=assume)
            return float(median_radius(k, count, n_rows // k, log_delta=log_delta, assume=assume))

        def by_soft_vote(count: int) -> float:
            tuning = soft_tuning(n_rows, count, log_delta=log_delta, adversary="oblivious", alternative="two-sided")
            return float(tuning.radius)

        epsilon = np.array(counts) / n_rows
        return cls(
            epsilon,
            {
                "soft vote, certified": np.array([by_soft_vote(count) for count in counts]),
                "median of blocks, certified": np.array([by_median(count) for count in counts]),
                "the paper's best bound that holds": np.array([by_paper(count) for count in counts]),
                "limit of any estimator, n → ∞: √(ε/(1-2ε))": np.sqrt(epsilon / (1 - 2 * epsilon)),
            },
            title=f"Guaranteed radius for the mean of {spaced(n_rows)} rows, confidence {100 * confidence:.6g} %",
            xlabel="share of corrupt rows ε",
            ylabel="radius, in sd of the clean rows",
        )

    def plot(self, ax: Any = None) -> RadiusDisplay:
        """Draw the plot; its axes are in ``ax_`` afterwards."""
        ax = new_axes(ax, figsize=(7.0, 4.8))
        for style, (name, radii) in zip(LINES, self.radii.items(), strict=False):
            drawable = np.isfinite(radii) & (radii > 0)
            ax.plot(self.x[drawable], radii[drawable], label=name, **style)
        ax.set_yscale("log")
        ax.set_xscale(self.xscale)
        if self.chosen is not None:
            k, radius = self.chosen
            ax.plot([k], [radius], "o", ms=9, mfc="white", mec=COLORS["plain"], mew=2.2, zorder=3,
                    label=f"chosen: K = {spaced(k)}, radius {radius:.3g}")  # fmt: skip
        if self.barred:
            self._bar(ax)
        elif self.xscale == "linear":
            ax.set_xlim(self.x[0], self.x[-1])
        ax.set(title=self.title, xlabel=self.xlabel, ylabel=self.ylabel)
        ax.grid(axis="y", which="major", color="#dddddd", lw=0.8)
        ax.set_axisbelow(True)
        _plain_numbers(ax.yaxis, 5)
        if self.xscale == "log":
            _plain_numbers(ax.xaxis, 3.5)
        ax.spines[["top", "right"]].set_visible(False)
        legend_below(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _bar(self, ax: Any) -> None:
        """Shade the numbers of blocks at which corrupt rows can outvote the clean ones."""
        right = float(self.x[-1])
        left = self.barred / (right / self.barred) ** 0.25
        ax.set_xlim(left, right * (right / left) ** 0.03)
        ax.axvspan(left, self.barred, facecolor="#e4e4e4", edgecolor="#9a9a9a", hatch="///", lw=0, zorder=0)
        ax.annotate(
            f"no certificate: K ≤ {spaced(self.barred)}",
            (math.sqrt(left * self.barred), 0.5),
            xycoords=("data", "axes fraction"),
            rotation=90,
            ha="center",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 2},
        )


def _odd_counts(n_rows: int, least: int, most: int, chosen: int) -> Floats:
    """Return odd numbers of blocks from `least` to `most`: a geometric grid, the steps of ⌊n/K⌋, and `chosen`."""
    sizes = np.arange(1, _VISIBLE_STEPS)
    last = n_rows // sizes  # the largest number of blocks of each size; one more block makes them smaller
    grid = np.geomspace(least, most, _POINTS)
    odd = np.concatenate([2 * (grid // 2) + 1, last - (last % 2 == 0), last + 1 + last % 2])
    return np.unique(np.append(odd[(odd >= least) & (odd <= most)], [least, chosen])).astype(np.float64)


def _median_radii(blocks: Floats, plan: Any, assume: Any, log_delta: float, adversary: Any) -> Floats:
    sizes = plan.n_rows // blocks
    if _scale_from_rows(assume, plan.degree):
        factor, _ = sigma_free_factor(
            blocks, plan.n_corrupt, sizes, log_delta=log_delta, kurtosis=assume.kurtosis, adversary=adversary
        )
        return factor
    return median_radius(
        blocks,
        plan.n_corrupt,
        sizes,
        log_delta=log_delta,
        assume=assume,
        degrees=(plan.degree,),
        adversary=adversary,
    )


def _scale_from_rows(assume: Any, degree: int) -> bool:
    """Return whether the sd must be estimated from the rows: for means, if only the kurtosis is bounded."""
    return isinstance(assume, FiniteKurtosis) and assume.sd is None and degree == 1


def _plain_numbers(axis: Any, decades: float) -> None:
    """Label a logarithmic axis with numbers such as 0.5 and 200; over more than `decades` only with 1, 10, 100…"""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = axis.get_view_interval()
    span = math.log10(high / low)
    if span < 0.6:
        axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    elif span < decades:
        axis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if span < 0.9 else (1.0, 2.0, 5.0)))
    else:
        axis.set_major_locator(LogLocator(base=10.0 if span < decades + 2.5 else 100.0))
    axis.set_major_formatter(FuncFormatter(lambda value, _: spaced(value)))
    axis.set_minor_locator(NullLocator())
