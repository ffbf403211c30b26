"""Plot the paper's constants, and the contaminations that its two-sample estimators accept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outvote import paper
from outvote.data.text import spaced
from outvote.plotting.base import LINES, new_axes, new_panels

Floats = NDArray[np.float64]

#: For each quantity: the title of its panel, the name of its axis, and the largest value shown (None: no limit).
_PANELS: dict[str, tuple[str, str, float | None]] = {
    "alpha": ("Share of rows turned into blocks", "α(ε) = K/n", 1.02),
    "gamma": ("Constant, finite variance", "γ(ε)", 30.0),
    "range_size": ("Range of confidences, n = {n}", "s(ε), length of the range of log δ", None),
    "Gamma_Delta": ("Constant, expected error", "Γ(ε)·Δ(ε)", 12.0),
    "beta": ("Blocks for each unit of log(1/δ)", "β(ε)", 60.0),
    "Delta": ("Root of blocks to outliers", "Δ(ε) = √(α/ε)", 6.0),
    "eta": ("Share of blocks that are surely clean", "η(ε)", 1.02),
}
_MAIN = ("alpha", "gamma", "range_size", "Gamma_Delta")


@dataclass
class EnvelopeDisplay:
    """The paper's constants against the share of outliers ε, for several mappings α.

    A mapping satisfies 2ε < α(ε) < 1. More blocks make the constants γ and Γ smaller; from α = √(2ε) on
    they shorten the range of confidences at which the bound holds.

    Parameters
    ----------
    epsilon : ndarray
        Shares of outliers (ε).
    values : dict of dict of ndarray
        For each quantity (``"alpha"``, ``"gamma"``, ``"range_size"``, ``"Gamma_Delta"`` and, in the appendix,
        ``"beta"``, ``"Delta"``, ``"eta"``) and each mapping, its values at `epsilon`.
    n : int
        Rows, for the range size.

    Examples
    --------
    >>> display = EnvelopeDisplay.from_mappings(["harmonic"], epsilon=[0.1, 0.25])
    >>> display.values["alpha"]["harmonic"].round(3)
    array([0.333, 0.667])
    """

    epsilon: Floats
    values: dict[str, dict[str, Floats]]
    n: int = 1000
    axes_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_mappings(
        cls,
        mappings: Sequence[str] | Mapping[str, str | Callable[[Any], Any]] = tuple(paper.MAPPINGS),
        n: int = 1000,
        *,
        epsilon: Any = None,
        appendix: bool = False,
    ) -> EnvelopeDisplay:
        """Compute the curves of the plot.

        Parameters
        ----------
        mappings : sequence of str, or dict from name to mapping
            The mappings α: names of the paper, or a dict from your names to names or callables.
        n : int
            Rows.
        epsilon : array_like, optional
            Shares of outliers, all in (0, 1/2); 200 shares between 0.001 and 0.499 by default.
        appendix : bool
            Whether to draw β, Δ and η, too.
        """
        named = dict(mappings) if isinstance(mappings, Mapping) else {name: name for name in mappings}
        if not 1 <= len(named) <= len(LINES):
            raise ValueError(f"mappings={mappings!r} has {len(named)} mappings: give 1 to {len(LINES)}")
        grid = np.linspace(0.001, 0.499, 200) if epsilon is None else np.asarray(epsilon, dtype=np.float64)
        if grid.ndim != 1 or not grid.size or not (grid > 0).all():
            raise ValueError("epsilon must be a list of numbers in (0, 0.5), for instance np.linspace(0.01, 0.49)")
        quantities = tuple(_PANELS) if appendix else _MAIN
        values: dict[str, dict[str, Floats]] = {quantity: {} for quantity in quantities}
        for name, mapping in named.items():
            constants = paper.constants(grid, mapping)
            for quantity in quantities:
                if quantity == "range_size":
                    value = paper.range_size(grid, n, mapping)
                elif quantity == "Gamma_Delta":
                    value = constants.Gamma * constants.Delta
                else:
                    value = getattr(constants, quantity)
                values[quantity][name] = value
        return cls(grid, values, n)

    def plot(self, ax: Any = None) -> EnvelopeDisplay:
        """Draw one panel for each quantity; `ax` may be a list or array of as many axes.

        The axes are in ``axes_`` afterwards.
        """
        count = len(self.values)
        if ax is None:
            axes = new_panels(2, (count + 1) // 2, panel=(3.9, 3.3))
        else:
            axes = list(np.ravel(np.asarray(ax, dtype=object)))
            if len(axes) < count:
                raise ValueError(f"ax has {len(axes)} axes for {count} panels: give one axes for each panel")
        panels, spare = axes[:count], axes[count:] if ax is None else []
        for panel, (quantity, curves) in zip(panels, self.values.items(), strict=True):
            self._panel(panel, quantity, curves)
        figure = panels[0].figure
        if ax is None:
            figure.suptitle("How the mapping α changes the constants of the bounds")
        handles, labels = panels[0].get_legend_handles_labels()
        if spare:
            spare[0].set_axis_off()
            spare[0].legend(handles, labels, loc="center", frameon=False, title="mapping α", fontsize="large")
        elif ax is None:
            figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        else:
            panels[0].legend(handles, labels, fontsize="small", frameon=False)
        self.axes_, self.figure_ = panels, figure
        return self

    def _panel(self, ax: Any, quantity: str, curves: dict[str, Floats]) -> None:
        title, name, top = _PANELS[quantity]
        for style, (mapping, value) in zip(LINES, curves.items(), strict=False):
            ax.plot(self.epsilon, value, label=mapping, **style)
        if quantity == "alpha":
            ends = np.array([0.0, 0.5])
            ax.plot(ends, 2 * ends, color="#8a8a8a", lw=1.2, label="lower limit 2ε")
        if quantity == "eta":
            ax.axhline(0.5, color="#8a8a8a", lw=1.2)
            ax.annotate("majority", (0.01, 0.5), va="bottom", fontsize="small", color="#5a5a5a")
        if quantity == "range_size":
            _name_coinciding(ax, self.epsilon, curves)
        ax.set(title=title.format(n=spaced(self.n)), xlabel="share of outliers ε", ylabel=name, xlim=(0, 0.5))
        bottom = 0.45 if quantity == "eta" else 0
        ax.set_ylim(bottom, top)
        ax.spines[["top", "right"]].set_visible(False)


def _name_coinciding(ax: Any, epsilon: Floats, curves: dict[str, Floats]) -> None:
    """Note which mappings have the same curve, as the arithmetic and the harmonic mapping do."""
    for (one, value), (other, same) in combinations(curves.items(), 2):
        if np.allclose(value, same):
            at = len(epsilon) // 5
            ax.annotate(
                f"{one} and {other} coincide",
                (epsilon[at], value[at]),
                (0.35, 0.6),
                textcoords="axes fraction",
                fontsize="small",
                arrowprops={"arrowstyle": "-", "color": "#5a5a5a"},
            )


@dataclass
class AdmissibleDisplay:
    """The contaminations (ε_X, ε_Y) of two samples of the same size that each estimator accepts.

    MoM-MoM (one median of means for each sample) needs each share below 1/2. MoU₂ on the full grid of blocks
    needs (1 - ε_X)(1 - ε_Y) > 1/2, and on the diagonal ε_X + ε_Y < 1/2.

    Parameters
    ----------
    epsilon_x : ndarray
        Shares of outliers in the first sample (ε_X).
    mom, full, diagonal : ndarray
        For each ε_X, the share of outliers in the second sample (ε_Y) below which the estimator works.

    Examples
    --------
    >>> display = AdmissibleDisplay.from_limits(n_points=3)
    >>> display.epsilon_x, display.full.round(3), display.diagonal
    (array([0.  , 0.25, 0.5 ]), array([0.5  , 0.333, 0.   ]), array([0.5 , 0.25, 0.  ]))
    """

    epsilon_x: Floats
    mom: Floats
    full: Floats
    diagonal: Floats
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_limits(cls, n_points: int = 201) -> AdmissibleDisplay:
        """Compute the three limits at `n_points` shares from 0 to 1/2."""
        x = np.linspace(0.0, 0.5, n_points)
        return cls(x, np.full(n_points, 0.5), 1 - 0.5 / (1 - x), 0.5 - x)

    def plot(self, ax: Any = None) -> AdmissibleDisplay:
        """Draw the plot; its axes are in ``ax_`` afterwards."""
        ax = new_axes(ax, figsize=(5.6, 5.4))
        x = self.epsilon_x
        styles = (
            (np.zeros_like(x), self.diagonal, "#6fa8dc", ""),
            (self.diagonal, self.full, "#f6b26b", "////"),
            (self.full, self.mom, "#eeeeee", "..."),
        )
        for low, high, color, hatch in styles:
            ax.fill_between(x, low, high, facecolor=color, edgecolor="#666666", hatch=hatch, lw=0)
        for limit, style in zip((self.diagonal, self.full, self.mom), LINES, strict=False):
            ax.plot(x, limit, color="black", ls=style["ls"], lw=1.8)
        ax.plot([0.5, 0.5], [0, 0.5], color="black", ls=LINES[2]["ls"], lw=1.8)
        paper_white = {"facecolor": "white", "edgecolor": "none", "pad": 3}
        words = {"ha": "center", "va": "center", "bbox": paper_white}
        ax.annotate("MoU₂, diagonal,\nand the other two\n$ε_X + ε_Y < 1/2$", (0.145, 0.13), **words)
        ax.annotate("only MoM-MoM\n$ε_X < 1/2$, $ε_Y < 1/2$", (0.402, 0.455), **words)
        ax.annotate(
            "MoU₂, full grid,\nand MoM-MoM\n$(1-ε_X)(1-ε_Y) > 1/2$",
            (0.272, 0.272),
            (0.402, 0.345),
            arrowprops={"arrowstyle": "-|>", "color": "black", "shrinkB": 0},
            **words,
        )
        ax.set(
            title="Contaminations that each estimator accepts,\ntwo samples of the same size",
            xlabel="share of outliers in the first sample, $ε_X$",
            ylabel="share of outliers in the second sample, $ε_Y$",
            xlim=(0, 0.53),
            ylim=(0, 0.53),
            aspect="equal",
        )
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self
